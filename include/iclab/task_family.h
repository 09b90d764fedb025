/*
 * Tasks of a program's own: what a family of tasks provides.
 *
 * A program fills in an icl_task_family and hands it to icl_task_create_with, or to icl_trainer_create_with, which
 * trains on it. The families of the library are made in the same way.
 */
#ifndef ICLAB_TASK_FAMILY_H
#define ICLAB_TASK_FAMILY_H

#include "iclab/reference_predictor.h"
#include "iclab/task.h"

ICL_C_BEGIN

/* The numbers of a batch on the host, in the shapes of its tensors; NULL for one that the batch does not have. */
typedef struct icl_batch_values {
    size_t size;                       /* B */
    float *inputs, *targets, *weights; /* [B, T, p] or [B, T]; [B, S, c]; [B, S, 1] */
    float *sides[ICL_MAX_SIDES];       /* in the order of icl_batch.sides */
} icl_batch_values;

/* A family of tasks: its name and its functions. */
typedef struct icl_task_family icl_task_family;

/* A task, as its family's functions are given it. */
struct icl_task {
    const icl_task_family *family; /* family of the task */
    icl_task_shape shape;          /* shape of the task */
    icl_task_prior *prior;         /* prior of linear regression in context, in the family's memory; NULL: none */
    const icl_task_text *text;     /* text that sequences come from, in the family's memory; NULL: none */
    void *state;                   /* the family's own */
};

/* What a program fills in. */
struct icl_task_family {
    const char *name;     /* the value of task.family, and what messages call it */
    const void *settings; /* the program's own, if the recipe's keys do not say everything; NULL: none */

    /* The keys of the recipe's [task] that create reads; ends with NULL. A trainer refuses other keys there that are
     * not at their defaults, and a run folder's recipe names only these. NULL: none. */
    const icl_recipe_group *const *keys;

    /* Sets task->shape and task->state. On entry everything but task->family is zero; create may replace that by
     * another family of the program, if some of its tasks need other functions. On return, also after a failure,
     * task->state is what destroy can free. A family of linear regression points task->prior to its own prior, which
     * lives as long as the task, and sets its members except d and n, which the shape gives; then the predictors of
     * baseline.h apply. Its batches have the side tensor noise unless the prior fixes sigma. A prior is dropped if
     * the shape is not that of pairs (icl_task_prior.labels). */
    icl_status (*create)(const icl_recipe *recipe, icl_task *task, icl_error *error);
    void (*destroy)(icl_task *task); /* NULL: there is nothing to free */

    /* Makes the tensors of an empty batch for the purpose. NULL: inputs and targets have the task's shape and are
     * zeroed. The batch owns inputs and scratch; targets, weights and side tensors are these or views of them.
     * icl_batch_release cleans up, also after a failure. */
    icl_status (*batch_create)(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, size_t size,
                               icl_batch *batch, icl_error *error);

    /* Fills the batch on the device: a function of only (purpose, seed, step). With strict ops (ops.h) its bits are the
     * same on every backend. NULL: draw does it. */
    icl_status (*sample)(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, uint32_t seed,
                         uint64_t step, icl_batch *batch, icl_error *error);

    /* Draws the batch on the host, over zeros: a function of only (purpose, seed, step). iclab writes the numbers to
     * the device. While a training computes a step on an OpenCL device, another thread draws the next one's batch: only
     * one draw of a task runs at a time, but beside anything else that only reads the task. NULL: sample fills the
     * batch; a family has one of the two. */
    icl_status (*draw)(const icl_task *task, icl_task_purpose purpose, uint32_t seed, uint64_t step,
                       const icl_batch_values *values, icl_error *error);

    /* Returns the reference predictors that the family brings, ended by one without a name; eval.predictors chooses
     * among them, "all" takes all. Array and settings are the task's. NULL: none. Not called if the task has a prior:
     * such tasks have the predictors of baseline.h. */
    const icl_reference_predictor *(*references)(const icl_task *task);
};

/* Creates a task of this family, which must outlive it. The recipe gives the family's keys, if it reads any.
 * ICL_ERROR_INPUT if the shape that the family set is not valid. */
ICL_API icl_status icl_task_create_with(const icl_task_family *family, const icl_recipe *recipe, icl_task **task,
                                        icl_error *error);

/* Adds a side tensor, a view that the batch does not own, under a name that outlives the batch. For batch_create; at
 * most ICL_MAX_SIDES. */
ICL_API icl_status icl_batch_add_side(icl_batch *batch, const char *name, icl_tensor tensor, icl_error *error);

ICL_C_END

#endif
