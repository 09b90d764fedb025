/*
 * A trained model applied in context to a user's table, beside classical regressions, and how far each is from targets
 * that it did not see.
 *
 * Held-out error: the labelled rows are put in a random order and cut in `folds` parts; each part is predicted from the
 * others, and all of this `repeats` times. Everything that is learned (standardization, components, penalties, the
 * label's scale) is learned only from the rows outside the part. A row's error is the mean of its squared errors over
 * the repeats; mse is the mean over rows, and its standard error is that for independent rows (a fixed table's folds
 * share rows, so this is an estimate: Bengio and Grandvalet 2004).
 *
 * A series, which is a table of icl_table_lag, is held out in the order of time: in folds + 1 parts, each but the first
 * forecast from the rows before it, once. Its errors are correlated, and their standard errors allow for it (Newey and
 * West 1987). Of more rows than a context holds the model sees the last.
 *
 * What the model is shown. Its training drew inputs of mean 0 and, mostly, covariance I, and labels y = <w, x> + sigma
 * eps of variance E|<w, x>|^2 + E[sigma^2]. So features are standardized, whitened if the model was trained on the
 * identity covariance, and multiplied by the standard deviation of its inputs; features that it has beyond the table's
 * are 0, as if w were 0 there. Targets are standardized and multiplied by the standard deviation of a label under its
 * prior with that many features. Predictions go the same way back.
 */
#ifndef ICLAB_PREDICT_H
#define ICLAB_PREDICT_H

#include <signal.h>

#include "iclab/backend.h"
#include "iclab/recipe.h"
#include "iclab/table.h"
#include "iclab/text.h"

ICL_C_BEGIN

/* The reference predictors, fitted to all the rows that they may learn from: */
typedef enum icl_reference {
    ICL_REFERENCE_MEAN = 0,
    ICL_REFERENCE_OLS,
    ICL_REFERENCE_RIDGE,
    ICL_REFERENCE_ADARR,
    ICL_REFERENCE_LAST_VALUE,  /* of a series: the value that was known last */
    ICL_REFERENCE_LAST_SEASON, /* of a series with a season: the value of one season before */
    ICL_REFERENCES
} icl_reference;

/* The model, then the references in the order above. */
enum { ICL_PREDICTORS = 1 + ICL_REFERENCES };

/* The first of them answer tables that are no series: see icl_predictor_count. */
enum { ICL_TABLE_PREDICTORS = 1 + ICL_REFERENCE_LAST_VALUE };

/* "model", "mean", … */
ICL_API const char *icl_predictor_name(size_t predictor);

/* How features are shown to the model. */
typedef enum icl_predict_inputs {
    ICL_INPUTS_AUTO = 0, /* whitened if the model was trained on the identity covariance */
    ICL_INPUTS_STANDARDIZED,
    ICL_INPUTS_WHITENED,
} icl_predict_inputs;

/* What a missing feature becomes: see icl_table_params.missing. */
typedef enum icl_impute {
    ICL_IMPUTE_NONE = 0, /* it is refused */
    ICL_IMPUTE_MEAN,     /* mean of the feature in the rows that are learned from; held-out rows do not enter */
    ICL_IMPUTE_MEDIAN,   /* likewise */
} icl_impute;

/* Values that icl_predict uses if the parameters of these names are 0. */
#define ICL_PREDICT_FOLDS   5
#define ICL_PREDICT_REPEATS 10 /* fewer if labelled rows times repeats would be more than 10000 */
#define ICL_PREDICT_CONTEXT 1024
#define ICL_PREDICT_PROMPTS 16

/* The arguments of icl_predict. */
typedef struct icl_predict_params {
    icl_backend *backend;     /* runs the model */
    const char *folder;       /* folder of the run */
    const icl_recipe *recipe; /* the run's */
    const icl_table *table;   /* the target is the last column; rows whose target is NaN are not learned from */
    /* Rows to predict: the table's features in its order, as many columns as it has features; NULL: the table's rows
     * without target. */
    const icl_table *fresh;
    size_t folds, repeats;     /* 0: the defaults above; folds must be 2 or more */
    size_t context;            /* the most rows in a prompt; 0: as above, or the n of training for model.scale = raw */
    size_t prompts;            /* prompts whose predictions are averaged if there are more rows; 0: as above */
    uint32_t seed;             /* seed of the order of rows */
    icl_predict_inputs inputs; /* how they are shown */
    bool without_held_out;     /* predictions only: no row is held out, folds and repeats are not read */
    bool without_options;      /* messages do not mention the options of the command iclab predict that would help */
    icl_impute impute;         /* fills in features that are NaN */
    void (*report)(void *user, double share); /* share of the work that is done, in [0, 1]; may be NULL */
    void *user;                               /* handed to the calls above */
    const volatile sig_atomic_t *stop;        /* set to non-zero to stop after the current prompt; may be NULL */
} icl_predict_params;

/* Losses are of the full squared error in the target's units. */
typedef struct icl_predict_score {
    double mse, se;                     /* on held-out rows, and its standard error */
    double minus_model, minus_model_se; /* mean difference to the model's errors, row by row, and its standard error */
    double r_squared;                   /* 1 - mse / mse of the mean: R^2 on rows not seen */
} icl_predict_score;

/* Rows of a table, standardized and decomposed into principal components, as they are shown to the model. A
 * component of at most 1e-8 of the largest one's variance is left out of all that is learned: columns that nearly
 * determine each other, such as a length in centimetres and in inches, say no more than one of them. */
typedef struct icl_standardization {
    size_t features; /* p */
    size_t rows;     /* m */
    /* [p + 1], in the table's units, the target last; a deviation of 0 means constant in these rows. */
    double *means;
    double *deviations;    /* likewise */
    size_t rank;           /* components that are not left out */
    double *eigenvalues;   /* [p], ascending; exactly 0 if the component is left out */
    double *eigenvectors;  /* [p][p], row k is eigenvector k */
    double *products;      /* [p], V^T Z^T y; 0 if the eigenvalue is 0 */
    double *matrix, *work; /* [p][p] and [3 p + 1], scratch of the fit */
} icl_standardization;

/* Predictions and how good they are. */
typedef struct icl_predict_outcome {
    size_t features, dimension, trained_context; /* features of the table; d and n of the model */
    size_t labelled, folds, repeats;             /* rows with a target, and how they were held out; 0: not held out */
    size_t context, prompts;                     /* in the fit to all labelled rows */
    bool whitened;                               /* the features */
    double label_scale;                          /* standard deviation of the labels that the model sees, in that fit */
    icl_standardization standardization;         /* of that fit */
    double ridge_penalty;                        /* likewise */
    double *fills;                               /* [features], likewise: replacements of missing values; NULL: none */

    size_t *rows; /* [labelled], their indices in the table */

    icl_time_series series; /* of the table */
    size_t held_from;       /* the first of `rows` that was held out: above 0 in a series alone */

    size_t not_finite; /* predictions of the model that are not finite, for held-out and for new rows */

    /* Without held-out rows both arrays are NULL, and scores are zero. */
    double *heldout; /* [labelled][ICL_PREDICTORS], predictions averaged over the repeats, from held_from on */
    double *squares; /* [labelled][ICL_PREDICTORS], squared errors averaged over the repeats */
    icl_predict_score scores[ICL_PREDICTORS]; /* of the held-out rows */

    size_t predicted;    /* rows without a target */
    size_t *lines;       /* [predicted], their lines in the file */
    double *predictions; /* [predicted][ICL_PREDICTORS] */
} icl_predict_outcome;

/* Predicts. ICL_ERROR_INPUT for a table that the model cannot take: more features than its d, fewer than 4 labelled
 * rows or than folds, a target that is constant or varies by less than 1e-150; for new rows with another number of
 * columns than the table has features; for a magnitude above ICL_TABLE_MAX_VALUE; for 1 fold; and for a model whose
 * targets are not linear in x. ICL_ERROR_INTERRUPTED when asked to stop. */
ICL_API icl_status icl_predict(const icl_predict_params *params, icl_predict_outcome **outcome, icl_error *error);

/* NULL is allowed. */
ICL_API void icl_predict_outcome_destroy(icl_predict_outcome **outcome);

/* Returns how many predictors answered, the first of ICL_PREDICTORS: ICL_TABLE_PREDICTORS, or one or two more in a
 * series. */
ICL_API size_t icl_predictor_count(const icl_predict_outcome *outcome);

/* ---- The report (predict_report.c) ---- */

/* Returns 0 if the model is better than the predictor with this score, 1 if it is worse, and 2 if the difference is
 * within two standard errors. */
ICL_API int icl_predict_verdict(const icl_predict_score *score);

/* Adds warnings about the predictions, a line each, none if all is well: a model that is worse than the mean of the
 * labels, or was trained on far fewer rows; predictions that are not finite, or farther outside the labels than
 * these span; features that are constant, or nearly determine each other. `table` is that of the predictions. */
ICL_API icl_status icl_predict_notes(const icl_predict_outcome *outcome, const icl_table *table, icl_text *notes,
                                     icl_error *error);

/* The figure of predictions over truth, which the report includes if the folder has it. */
#define ICL_PREDICTED_FIGURE "predicted"

/* The contents of a report of predictions. */
typedef struct icl_predict_report {
    const char *folder;                 /* folder that receives the report */
    const char *run;                    /* the model's folder, for the record */
    const icl_table *table;             /* the target last */
    const icl_predict_outcome *outcome; /* with held-out rows */
    const icl_capabilities *device;     /* device that ran the model */
    uint32_t seed;                      /* as in icl_predict_params */
    icl_status (*draw)(void *user, const char *folder, const char *script,
                       icl_error *error); /* see icl_drawing; may be NULL */
    void *user;                           /* handed to the call above */
} icl_predict_report;

/* Writes the figure residuals and report.html: held-out errors next to the classical regressions, predictions and
 * residuals over truth, and the rows predicted. ICL_ERROR_INPUT if the outcome has no held-out rows, or does not
 * belong to a table of these sizes. */
ICL_API icl_status icl_predict_report_write(const icl_predict_report *params, icl_error *error);

ICL_C_END

#endif
