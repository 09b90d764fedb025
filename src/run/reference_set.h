/* The reference predictors of an evaluation: those of the task that eval.predictors names, and the trainer's own. */
#ifndef ICLAB_RUN_REFERENCE_SET_H
#define ICLAB_RUN_REFERENCE_SET_H

#include "iclab/baseline.h"
#include "iclab/train.h"

/* A predictor, which has a row in the table. */
typedef struct icl_reference_row {
    const char *name;
    const char *constants;                    /* fitted ones, as text; may be empty */
    size_t estimate;                          /* its place in `regression`, where predictor is NULL */
    const icl_reference_predictor *predictor; /* the family's or the trainer's own */
} icl_reference_row;

typedef struct icl_reference_set {
    icl_predictors *regression; /* of linear regression in context; NULL: the task is another */
    icl_reference_row *items;   /* [count], in the order of the table's rows */
    size_t count;               /* of them all */
    size_t shown;               /* the first of these have rows, the oracle and Bayes behind them are for the columns */
} icl_reference_set;

/* fit_sequences and seed: of those that are fitted (baseline.h). ICL_ERROR_INPUT names a predictor that the task does
 * not have and the nearest that it has. Release it also after a failure. */
icl_status icl_reference_set_create(const icl_trainer *trainer, const icl_recipe *recipe, size_t fit_sequences,
                                    uint32_t seed, icl_reference_set *set, icl_error *error);
void icl_reference_set_release(icl_reference_set *set);

/* Whether a list of eval.predictors asks for the predictor of that name. */
bool icl_reference_is_listed(const icl_task *task, const char *list, const char *name);

#endif
