/* Inside the task room: what a family of tasks provides. */
#ifndef ICLAB_TASK_TASK_H
#define ICLAB_TASK_TASK_H

#include "iclab/task.h"

/* One family: one file and one row in the table of task.c. */
typedef struct icl_task_family {
    const char *name; /* the value of task.family */

    /* Reads the family's keys. On entry task->prior holds d and n alone; on return, also after a failure, task->state
     * is what destroy can free. */
    icl_status (*create)(const icl_recipe *recipe, icl_task *task, icl_error *error);
    void (*destroy)(icl_task *task);

    /* Makes the tensors of an empty batch for the purpose. The batch owns tokens, gram, query and scratch; targets, noise and
     * weights are views of these. icl_batch_release cleans up, also after a failure. */
    icl_status (*batch_create)(const icl_task *task, icl_backend *backend, icl_task_purpose purpose,
                               size_t size, icl_batch *batch, icl_error *error);

    /* Fills the batch with strict ops alone (ops.h), so that its bits are the same on every backend. */
    icl_status (*sample)(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, uint32_t seed,
                         uint64_t step, icl_batch *batch, icl_error *error);
} icl_task_family;

struct icl_task {
    const icl_task_family *family;
    icl_task_prior prior;
    void *state; /* the family's own */
};

extern const icl_task_family icl_linear_regression, icl_functions;

#endif
