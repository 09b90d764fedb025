/* Reference predictors of a program's own, to compare a model with. A family of tasks brings its own (task_family.h),
 * or a program hands some to icl_trainer_create_with; icl_evaluate runs them on the same sequences as the model. Those
 * of in-context regression are in baseline.h. */
#ifndef ICLAB_REFERENCE_PREDICTOR_H
#define ICLAB_REFERENCE_PREDICTOR_H

#include "iclab/task.h"

ICL_C_BEGIN

/* What a reference predictor sees: the inputs of `count` sequences on the host, and the batch whose first `count`
 * sequences these are, with its side tensors, on its backend. It may look at the targets there only if it is meant
 * to know them. */
typedef struct icl_shown_sequences {
    const icl_task *task;   /* the task that the sequences were drawn from */
    size_t count;           /* number of sequences */
    const float *inputs;    /* [count][T][p], or symbols [count][T] */
    const icl_batch *batch; /* on the task's backend */
    icl_backend *backend; /* that backend: what a predictor is fitted on is drawn there; the bits are the same on all */
    const icl_recipe *recipe; /* the evaluation's, for predictors with keys of their own; NULL outside of evaluations */
} icl_shown_sequences;

typedef struct icl_reference_predictor icl_reference_predictor;

/* A reference predictor: its name and its function. */
struct icl_reference_predictor {
    const char *name;     /* name of its row in tables */
    const void *settings; /* the program's own, or NULL */

    /* Writes outputs [count][S][q], in the form of a model's outputs. For the cross-entropy these are logits: log p of
     * a probability p, -INFINITY if p = 0. Positions of weight 0 do not count. */
    icl_status (*predict)(const icl_reference_predictor *predictor, const icl_shown_sequences *sequences,
                          double *outputs, icl_error *error);

    /* Writes the fitted constants, such as "h = 0.3", cut at the capacity, for the line of constants below a table;
     * called after predict. NULL: nothing is fitted. */
    void (*describe)(const icl_reference_predictor *predictor, const icl_task *task, char *text, size_t capacity);

    /* Returns the bytes that predict takes on the host, until it returns, for the sequences that it is fitted on: the
     * memory of a training (icl_session_measure_memory) counts them. NULL: nothing is fitted. */
    double (*bytes)(const icl_reference_predictor *predictor, const icl_task *task);
};

/* A predictor that a program registers (families.h): evaluations offer it beside those of the task. */
typedef struct icl_predictor_family {
    icl_reference_predictor predictor; /* its name is a word of eval.predictors */

    /* Returns whether it can answer the task: "all" takes it then, and otherwise its name is refused. NULL: all tasks.
     * */
    bool (*answers)(const icl_task *task);

    /* The keys of the recipe's [eval] that predict reads from icl_shown_sequences.recipe; ends with NULL. NULL: none.
     * */
    const icl_recipe_group *const *keys;
} icl_predictor_family;

ICL_C_END

#endif
