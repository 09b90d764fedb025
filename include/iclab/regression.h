/*
 * A table's target predicted without a trained run: methods that learn from the labelled rows, with intervals, how far
 * each is from targets that it did not see, and which features matter.
 *
 * Every method sees features and targets standardized by the rows that it learns from. Held-out errors are those of
 * iclab/predict.h: folds of rows in a random order, everything learned outside the fold; those of a series (a table of
 * icl_table_lag) are in the order of time. The best method is the one of the least held-out error; what predicts is the
 * mixture of the methods, unless single ones are asked for.
 */
#ifndef ICLAB_REGRESSION_H
#define ICLAB_REGRESSION_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iclab/backend.h"
#include "iclab/predict.h"
#include "iclab/table.h"

ICL_C_BEGIN

/* The methods. */
typedef enum icl_method {
    ICL_METHOD_MEAN = 0,         /* of the targets */
    ICL_METHOD_RIDGE,            /* with the penalty of the least leave-one-out error */
    ICL_METHOD_NEIGHBOURS,       /* the mean of the k nearest rows, k of the least leave-one-out error */
    ICL_METHOD_GAUSSIAN_PROCESS, /* exp(-r^2 / 2 l^2) and noise, of the largest marginal likelihood */
    ICL_METHOD_MODEL,            /* a model of tables that was trained before (iclab/table_model.h) */
    ICL_METHOD_LAST_VALUE,       /* of a series: the value that was known last */
    ICL_METHOD_LAST_SEASON,      /* of a series with a season: the value of one season before */
    ICL_METHOD_OLS,              /* least squares; of a series alone unless it is asked for: an autoregression */
    ICL_METHOD_MIXTURE,          /* of those above that run, but the mean */
    ICL_METHODS
} icl_method;

/* "mean", "ridge", "neighbours", "gaussian_process", "model", "last_value", "last_season", "ols", "mixture". */
ICL_API const char *icl_method_name(icl_method method);

/* Whether the method learns from every row; the others learn from icl_regression_params.context of them at most. */
ICL_API bool icl_method_takes_all_rows(icl_method method);

/* Values that icl_regress uses if the parameters of these names are 0. */
#define ICL_REGRESSION_FOLDS   5
#define ICL_REGRESSION_REPEATS 2 /* fewer for more than 5,000 rows */
#define ICL_REGRESSION_CONTEXT 500

/* Tables with more features are refused. */
#define ICL_REGRESSION_MAX_FEATURES 500

/* A prediction, in the target's units: the mean, and quantiles of .1, .25, .75 and .9 of what the target may be. */
typedef struct icl_forecast {
    double mean;            /* the prediction whose expected squared error is least */
    double low_80, high_80; /* ends of the interval that holds 80 % of the targets */
    double low_50, high_50; /* likewise 50 % */
} icl_forecast;

/*
 * The mixture of methods predicts a weighted mean of their predictions. The weight of method k comes from the errors of
 * all methods on rows held out,
 *     w_k = mse_k^-2 / sum_j mse_j^-2,
 * and is 0 for an error that is not finite; methods without any error share the weights if there are any, and all do
 * where no error is known. The power of one is best for unbiased predictions whose errors are uncorrelated (Bates and
 * Granger, "The combination of forecasts", Operational Research Quarterly 20, 1969). Those of methods that learn from
 * the same rows are correlated, which favours the better ones; two is a choice, made on nine of the tables of
 * tools/peers/tables. A prediction that is not finite is left out of the mean.
 *
 * An interval is the prediction -+ q h(x), where h(x) is half the weighted mean of the widths of the methods' intervals
 * of 80 %, plus a millionth of the deviation of the targets from their mean, and q is the ceil(share (m + 1))-th
 * smallest |y_i - prediction_i| / h(x_i) of the m rows held out (locally weighted conformal inference: Lei, G'Sell,
 * Rinaldo, Tibshirani, Wasserman, "Distribution-free predictive inference for regression", Journal of the American
 * Statistical Association 113, 2018, section 5.2, with residuals of folds as in Barber, Candes, Ramdas, Tibshirani,
 * "Predictive inference with the jackknife+", Annals of Statistics 49, 2021, section 1).
 *
 * On rows held out, weights and q are those of the rows in other folds, of a series those in earlier ones whose targets
 * were known: before the first of them the weights are equal, and the intervals the weighted means of the methods'. The
 * methods that were fitted outside these other folds did see the row, so that its target still reaches its weights, in
 * one of m rows; of a series it does not.
 */
typedef struct icl_method_mixture {
    double weights[ICL_METHODS]; /* w_k; 0 for what is not mixed */
    double margin_50, margin_80; /* q of both intervals */
    double least_width;          /* in the target's units, added to half the width of 80 % */
} icl_method_mixture;

/* The arguments of icl_regress. */
typedef struct icl_regression_params {
    const icl_table *table; /* the target is the last column; rows whose target is NaN are not learned from */
    const icl_table *fresh; /* rows to predict, with the table's features; NULL: the rows without target */
    const char *model;      /* folder of a run of task.family = tables; NULL: without the model */
    icl_backend *backend;   /* runs the model; NULL if there is none */
    uint32_t methods;       /* bit k: method k; 0: the usual. The mean is always among them if rows are held out */
    const icl_method_mixture
        *mixture;            /* found before on the same rows, for predictions only; NULL: none, and no mixture then */
    size_t folds, repeats;   /* 0: the defaults above; folds must be 2 or more */
    size_t context;          /* the most rows, of a series the last, of methods that do not take all; 0: as above */
    uint32_t seed;           /* seed of the order of rows and of the choice of `context` rows */
    icl_impute impute;       /* fills in features that are NaN */
    bool without_held_out;   /* predictions only */
    bool without_importance; /* features are not permuted */
    bool without_options;    /* messages do not mention options of the command iclab predict */
    void (*report)(void *user, double share); /* share of the work that is done, in [0, 1]; may be NULL */
    void *user;                               /* handed to the calls above */
    const volatile sig_atomic_t *stop;        /* set to non-zero to stop after the current fit; may be NULL */
} icl_regression_params;

/* The errors and intervals of a method on held-out rows. */
typedef struct icl_regression_score {
    double mse, se;                   /* mean squared error in the target's units, and its standard error */
    double relative_mse;              /* mse over that of the mean */
    double minus_best, minus_best_se; /* mean difference to the best method's errors, row by row */
    double coverage_50, coverage_80;  /* share of targets in the intervals */
} icl_regression_score;

/* A feature's worth to the method that predicts: the increase of its held-out mse if the feature's values are permuted
 * among the rows of each fold, at most 1,000 of them, over the mse of the mean; and the standard error of that. The
 * mixture has the weights of all rows for that. */
typedef struct icl_importance {
    double increase, se; /* see above */
} icl_importance;

/* Predictions and how good they are. */
typedef struct icl_regression_outcome {
    size_t features, labelled;           /* features of the table; rows with a target */
    size_t folds, repeats;               /* how rows were held out; 0: not */
    size_t held_from;                    /* the first of `rows` that was held out: above 0 in a series alone */
    icl_time_series series;              /* of the table */
    size_t context;                      /* the most rows of methods that do not take all */
    size_t most_features;                /* the model takes; it does not run for tables with more; 0: no model */
    uint32_t methods;                    /* those that ran; the arrays below have NaN for the others */
    icl_method best;                     /* of the least mse; without held-out rows the last that ran */
    icl_method answer;                   /* what predicts: the mixture if it ran, else the best */
    icl_method_mixture mixture;          /* zeros if it did not run */
    icl_standardization standardization; /* of all labelled rows */
    double *fills;                       /* [features], replacements of missing values there; NULL: none missing */
    size_t *rows;                        /* [labelled], their indices in the table */
    icl_forecast *heldout; /* [labelled][ICL_METHODS], averaged over the repeats, from held_from on; NULL */
    double *squares;       /* [labelled][ICL_METHODS], likewise: squared errors */
    icl_regression_score scores[ICL_METHODS]; /* of the held-out rows */
    icl_importance *importances;              /* [features]; NULL: not measured */
    size_t predicted;                         /* rows without a target */
    size_t *lines;                            /* [predicted], their lines in the file */
    icl_forecast *forecasts;                  /* [predicted][ICL_METHODS] */
} icl_regression_outcome;

/* Predicts. ICL_ERROR_INPUT for a table that cannot be learned from: as icl_predict for its rows and its target, and
 * for more than ICL_REGRESSION_MAX_FEATURES features; as icl_table_model_load for the model; and if the model alone is
 * asked for and there is none, or the table has too many features for it; if methods of a series alone are asked for a
 * table that is none, or the mixture for predictions only without what was found before. ICL_ERROR_INTERRUPTED when
 * asked to stop. */
ICL_API icl_status icl_regress(const icl_regression_params *params, icl_regression_outcome **outcome, icl_error *error);

/* NULL is allowed. */
ICL_API void icl_regression_outcome_destroy(icl_regression_outcome **outcome);

/* ---- The report (regression_report.c) ---- */

/* Adds warnings about the predictions, a line each, none if all is well: no method is better than the mean of the
 * labels; predictions that are not finite, or farther outside the labels than these span; methods that learned from a
 * part of the rows; a model that the table has too many features for; how standard errors of a series are meant.
 * `table` is that of the predictions. */
ICL_API icl_status icl_regression_notes(const icl_regression_outcome *outcome, const icl_table *table, icl_text *notes,
                                        icl_error *error);

/* The contents of a report of predictions without a run. */
typedef struct icl_regression_report {
    const char *folder;                    /* folder that receives the report */
    const icl_table *table;                /* the target last */
    const icl_regression_outcome *outcome; /* with held-out rows */
    uint32_t seed;                         /* as in icl_regression_params */
    icl_status (*draw)(void *user, const char *folder, const char *script,
                       icl_error *error); /* see icl_drawing; may be NULL */
    void *user;                           /* handed to the call above */
} icl_regression_report;

/* Writes the figure predicted, of held-out predictions, by the method that predicts, with their intervals of 80 % over
 * the truth, and report.html: held-out errors, that figure, the features that matter, and the rows predicted.
 * ICL_ERROR_INPUT if the outcome has no held-out rows. */
ICL_API icl_status icl_regression_report_write(const icl_regression_report *params, icl_error *error);

ICL_C_END

#endif
