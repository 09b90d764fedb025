/*
 * A trained model applied in context to a user's table, beside classical regressions, and how far each is from targets that it did not
 * see.
 *
 * Held-out error: the labelled rows are put in a random order and cut in `folds` parts; each part is predicted from the others, and all
 * of this `repeats` times. Whatever is learned, be it standardization, components, penalties or the label's scale, is learned from the
 * rows outside the part alone. A row's error is the mean of its squared errors over the repeats; mse is the mean over rows, and its
 * standard error that of rows that are independent (a fixed table's folds share rows, so this is an estimate: Bengio and
 * Grandvalet 2004).
 *
 * What the model is shown. Its training drew inputs of mean 0 and, mostly, covariance I, and labels y = <w, x> + sigma eps of variance
 * E|<w, x>|^2 + E[sigma^2]. So features are standardized; whitened where it was trained on the identity covariance; multiplied by the
 * standard deviation of its inputs; and features that it has beyond the table's are 0, as if w were. Targets are standardized and multiplied
 * by the standard deviation of a label under its prior with that many features. Predictions go the same way back.
 */
#ifndef ICLAB_LAB_PREDICT_PREDICT_H
#define ICLAB_LAB_PREDICT_PREDICT_H

#include "iclab/backend.h"
#include "iclab/recipe.h"
#include "lab/predict/references.h"

/* The model, then the references in their order. */
enum { ICL_PREDICTORS = 1 + ICL_REFERENCES };

/* "model", "mean", … */
const char *icl_predictor_name(size_t predictor);

typedef enum icl_predict_inputs {
    ICL_INPUTS_AUTO = 0, /* whitened where the model was trained on the identity covariance */
    ICL_INPUTS_STANDARDIZED,
    ICL_INPUTS_WHITENED,
} icl_predict_inputs;

typedef struct icl_predict_params {
    icl_backend *backend;
    const char *folder;       /* of the run */
    const icl_recipe *recipe; /* the run's */
    const icl_table *table;   /* the target last; rows whose target is NaN are not learned from */
    const icl_table *
        fresh; /* rows to predict: the table's features in its order; NULL: the table's rows without target */
    size_t folds, repeats; /* 0: 5 and 10 */
    size_t
        context; /* rows in a prompt at most; 0: the n of training for a model that sums (model.scale = raw), else 1024 */
    size_t prompts; /* whose predictions are averaged where there are more rows; 0: 16 */
    uint32_t seed;
    icl_predict_inputs inputs;
    void (*report)(void *user, double share); /* of the work that is done, in [0, 1]; may be NULL */
    void *user;
} icl_predict_params;

/* Losses are of the full squared error in the target's units. */
typedef struct icl_predict_score {
    double mse, se;
    double minus_model, minus_model_se; /* of the difference to the model's errors, row by row */
    double r_squared;                   /* 1 - mse / mse of the mean: R^2 on rows not seen */
} icl_predict_score;

typedef struct icl_predict_outcome {
    size_t features, dimension, trained_context;
    size_t labelled, folds, repeats;
    size_t context, prompts; /* of the fit to all labelled rows */
    bool whitened;
    double label_scale; /* of that fit: standard deviation of the labels that the model sees */
    icl_standardization standardization; /* of that fit */
    double ridge_penalty;                /* likewise */

    size_t *rows;    /* [labelled], in the table */
    double *heldout; /* [labelled][ICL_PREDICTORS], predictions averaged over the repeats */
    double *squares; /* [labelled][ICL_PREDICTORS], squared errors averaged over the repeats */
    icl_predict_score scores[ICL_PREDICTORS];
    size_t not_finite; /* of the model's held-out predictions */

    size_t predicted;    /* rows without a target */
    size_t *lines;       /* [predicted], in their file */
    double *predictions; /* [predicted][ICL_PREDICTORS] */
} icl_predict_outcome;

/* ICL_ERROR_INPUT for a table that the model cannot take: more features than its d, fewer than 4 labelled rows or than folds, a constant
 * target; and for a model whose targets are not linear in x. */
icl_status icl_predict(const icl_predict_params *params, icl_predict_outcome **outcome, icl_error *error);

/* Fills the scores from the squared errors. */
icl_status icl_predict_score_all(icl_predict_outcome *outcome, icl_error *error);

/* NULL is allowed. */
void icl_predict_outcome_destroy(icl_predict_outcome **outcome);

#endif
