/* The parts of predictions of tables: splits, rows as a model is shown them, regressions, and prompts. */
#ifndef ICLAB_PREDICT_PREDICT_H
#define ICLAB_PREDICT_PREDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iclab/predict.h"
#include "iclab/status.h"
#include "iclab/train.h"

/* ---- Requests ---- */

/* Refuses a table without a feature beside its target, and rows to predict (NULL: none) with other columns. Messages
 * mention options of the command iclab predict if `with_options`. */
icl_status icl_check_columns(const icl_table *table, const icl_table *fresh, bool with_options, icl_error *error);

/* Refuses values of too large a magnitude; missing values are allowed. */
icl_status icl_check_values(const icl_table *table, icl_error *error);

/* How rows are to be held out. */
typedef struct icl_held_out_request {
    size_t folds;         /* that were asked for, or are usual */
    bool are_folds_given; /* they were asked for */
    size_t repeats;       /* 0: the usual, at most `most_repeats`, and fewer for more than 1,000 rows */
    size_t most_repeats;
    bool without_held_out; /* no row is */
    bool without_options;  /* messages mention no options of the command iclab predict */
} icl_held_out_request;

/* The rows that are learned from and held out. */
typedef struct icl_held_out {
    size_t *rows; /* [labelled], those with a target: freed with icl_free, also after a failure */
    size_t labelled, folds, repeats;
    size_t held_from; /* the first of `rows` that is held out */
} icl_held_out;

/* Finds the rows with a target, and plans how they are held out: a series once, in 10 folds unless others are asked for
 * or its rows do not allow it. ICL_ERROR_INPUT for fewer rows than 4 or than folds, for parts of a series that, less
 * the rows that are not yet known at an origin, would have fewer than 4, and for a target that does not vary. */
icl_status icl_plan_held_out(const icl_table *table, const icl_held_out_request *request, icl_held_out *plan,
                             icl_error *error);

/* Defines find_rows, which plans the rows of a run into its outcome. It is a macro because icl_predict and icl_regress
 * have parameters and outcomes of their own, whose members have the same names. */
#define ICL_FIND_ROWS(kind, usual_folds, usual_repeats)                                                                \
    static icl_status find_rows(const kind##_params *params, kind##_outcome *outcome, icl_error *error) {              \
        const icl_held_out_request request = {.folds = params->folds > 0 ? params->folds : (usual_folds),              \
                                              .repeats = params->repeats,                                              \
                                              .most_repeats = (usual_repeats),                                         \
                                              .are_folds_given = params->folds > 0,                                    \
                                              .without_held_out = params->without_held_out,                            \
                                              .without_options = params->without_options};                             \
        icl_held_out plan = {0};                                                                                       \
        const icl_status status = icl_plan_held_out(params->table, &request, &plan, error);                            \
                                                                                                                       \
        outcome->rows = plan.rows;                                                                                     \
        outcome->labelled = plan.labelled;                                                                             \
        outcome->held_from = plan.held_from;                                                                           \
        outcome->folds = plan.folds;                                                                                   \
        outcome->repeats = plan.repeats;                                                                               \
        return status;                                                                                                 \
    }

/* ---- Splits ---- */

/* Random orders of rows decide which rows are held out together and which a prompt shows. They depend only on the
 * seed. */

/* The random streams of this room. */
#define ICL_SPLIT_STREAM  0x70720000u /* step: the repetition */
#define ICL_PROMPT_STREAM 0x70720001u /* step: 2^20 times the split's number, plus the prompt's */

/* Puts `count` items in a random order. Each order is equally likely, except that items with equal 32-bit words keep
 * theirs. */
icl_status icl_shuffle(uint32_t seed, uint32_t stream, uint64_t step, size_t count, size_t *items, icl_error *error);

/*
 * The rows of a series are held out in their order, from rolling origins: they are cut in folds + 1 parts of equal
 * size, and each part but the first is forecast from the rows whose targets were known `ahead` rows before its first.
 * So nothing that came later is learned, neither from targets nor from features.
 */

/* A fold of `count` rows in an order holds items [first, end) out, and learns from items [0, known) without these. */
typedef struct icl_fold {
    size_t first, end, known;
} icl_fold;

/* Finds fold number `fold`: one of `folds` parts, whose sizes differ by at most 1, or that of a rolling origin. */
icl_fold icl_find_fold(const icl_time_series *series, size_t count, size_t folds, size_t fold);

/* Puts `count` items, rows of a table in their order, into one that begins with a context: at random, or the latest
 * rows of a series first. */
icl_status icl_begin_with_context(const icl_time_series *series, uint32_t seed, uint32_t stream, uint64_t step,
                                  size_t count, size_t *items, icl_error *error);

/* Returns the place of the feature that is the value of one season before. The last value is feature 0. */
size_t icl_season_feature(const icl_time_series *series);

/* Returns the standard error of the mean of errors in the order of the rows: for independent errors, or of a series
 * for correlated ones. icl_note_series adds a line that says how, of a series alone. */
double icl_error_of_mean(const icl_time_series *series, const double *errors, size_t count);
icl_status icl_note_series(const icl_time_series *series, size_t count, icl_text *notes, icl_error *error);

/* ---- Standardization ---- */

/*
 * Rows of a table are centred and scaled by themselves, and decomposed into principal components.
 *
 * With z_k = (x_k - mean_k) / deviation_k over m rows, y likewise, Z^T Z = V diag(lambda) V^T: the rotated row is V^T
 * z, and sqrt(m / lambda_k) times its k-th coordinate has mean square 1 over the rows, uncorrelated
 * with the others ("whitened").
 */

/* Some rows of a table whose last column is the target. Borrowed. */
typedef struct icl_table_rows {
    const icl_table *table;
    const size_t *indices; /* [count], which rows */
    size_t count;
} icl_table_rows;

/* Allocates memory for rows of `features` features. Release with icl_standardization_release, also after a failure. */
icl_status icl_standardization_create(size_t features, icl_standardization *standardization, icl_error *error);
void icl_standardization_release(icl_standardization *standardization);

/* Fits means, deviations and components to at least 1 row without missing targets. Sums run in the rows' order.
 * ICL_ERROR_INPUT if the eigenvalues do not converge. */
icl_status icl_standardization_fit(icl_standardization *standardization, const icl_table_rows *rows, icl_error *error);

/* Standardizes features [p] of any row; a feature that was constant becomes 0. */
void icl_standardize_row(const icl_standardization *standardization, const double *features, double *standardized);

/* Returns a target in the table's units, standardized; 0 if it was constant. */
double icl_standardize_target(const icl_standardization *standardization, double target);

/* rotated = V^T times a standardized row [p]. */
void icl_rotate_row(const icl_standardization *standardization, const double *standardized, double *rotated);

/* ---- Imputation ---- */

/*
 * Missing features are filled in by the mean or the median of the rows to learn from.
 *
 * A fill is fitted anew for every set of rows to learn from, to the values that these rows have; held-out rows are
 * filled in by it and do not affect it. A feature that none of these rows has becomes 0 in all of them: it is constant
 * and so has no effect.
 */

/* A table whose holes are filled; the table itself if it has none. */
typedef struct icl_filled_table {
    const icl_table *original;
    icl_table table; /* to be read; its values are `values` if there are holes */
    double *values;  /* NULL: the original's */
    size_t *holes;   /* [hole_count], places in values */
    size_t hole_count;
} icl_filled_table;

/* Finds the holes in the first `features` columns. ICL_ERROR_INPUT for the first hole under ICL_IMPUTE_NONE. Release
 * with icl_filled_table_release, also after a failure. */
icl_status icl_filled_table_create(const icl_table *table, size_t features, icl_impute rule, icl_filled_table *filled,
                                   icl_error *error);
void icl_filled_table_release(icl_filled_table *filled);

/* Fits fills [features] to rows of a table that has holes; 0 for a feature that none of them has.
 * work: [rows->count]. */
void icl_imputation_fit(const icl_table_rows *rows, size_t features, icl_impute rule, double *work, double *fills);

/* Puts the fills [features] into the holes. */
void icl_imputation_apply(icl_filled_table *filled, const double *fills);

/* The tables of a prediction, whose holes are filled by one rule. */
typedef struct icl_filled_tables {
    icl_filled_table table, fresh; /* fresh: the rows to predict; its original is NULL if they are the table's */
    icl_impute rule;
    size_t features;
    double *fills; /* [features]; NULL: nothing is missing. The caller frees it */
    double *work;  /* [labelled] */
} icl_filled_tables;

/* As icl_filled_table_create, for both tables; fresh may be NULL. `labelled` is the most rows that fills are fitted to.
 * Release with icl_filled_tables_release, also after a failure. */
icl_status icl_filled_tables_create(const icl_table *table, const icl_table *fresh, icl_impute rule, size_t features,
                                    size_t labelled, icl_filled_tables *filled, icl_error *error);
void icl_filled_tables_release(icl_filled_tables *filled);

/* Fits fills to these rows of the table, and puts them into the holes of all rows. */
void icl_filled_tables_fit(icl_filled_tables *filled, const size_t *indices, size_t count);

/* ---- References ---- */

/* The model is compared with the mean, least squares and ridge regressions on all the rows from which it may learn. */

/* The coordinates of the model, for adarr: w ~ N(0, I) is its prior in these. */
typedef struct icl_model_scale {
    bool whitened;
    double input;       /* coordinates are standardized ones times this */
    double label;       /* labels are standardized ones times this */
    double prior_noise; /* E[sigma^2] of labels, used if no residual is left to estimate it from */
} icl_model_scale;

/* Penalties of ridge, 8 for each factor of 10 from 1e-4 to 1e3 times the number of rows. */
enum { ICL_RIDGE_PENALTIES = 57 };
double icl_ridge_penalty(size_t index, size_t rows);

/*
 * Returns the residual that a row's label has if the row is left out of a ridge regression with this penalty s:
 *     (y - yhat) / (1 - h),   h = 1/m + sum_k u_k^2 / (lambda_k + s),
 * exact for a linear smoother whose standardization is kept (Allen 1974; Hastie, Tibshirani, Friedman, "The elements of
 * statistical learning", 2nd edition, equation 7.52).
 */
double icl_left_out_residual(const icl_standardization *standardization, const double *rotated, double label,
                             double penalty);

typedef struct icl_references {
    /* [ICL_REFERENCES][p]: predictions are sum_k f_k a_k u_k, where a are the products and u is the rotated row. */
    double *filters;
    icl_time_series series;   /* of the rows: values before are predictions, too */
    double *row, *rotated;    /* [p] */
    double ridge_penalty;     /* added to the eigenvalues of Z^T Z */
    double residual_variance; /* of standardized labels; NaN if no residual is left */
} icl_references;

/* Allocates memory for `features` features. Release with icl_references_release, also after a failure. */
icl_status icl_references_create(size_t features, icl_references *references, icl_error *error);
void icl_references_release(icl_references *references);

/* Fits them to the rows that `standardization` was fitted to. */
void icl_references_fit(icl_references *references, const icl_standardization *standardization,
                        const icl_model_scale *scale, const icl_table_rows *rows);

/* Computes the predictions of all references for one row of features [p], in the target's units. */
void icl_references_predict(const icl_references *references, const icl_standardization *standardization,
                            const double *features, double predictions[ICL_REFERENCES]);

/* ---- Prompts ---- */

/*
 * A trained model is shown given contexts of any length.
 *
 * Models whose attention weights are a mean or a softmax over the context take any number of rows as they are. A linear
 * transformer that sums (model.scale = raw) is shown N rows as tokens scaled by c = sqrt(n / N), n the length it was
 * trained at, and its predictions are divided by c. That is exactly the model with every sum times n /
 * N, because a layer
 *     e <- e + P (sum_j e_j e_j^T) Q e
 * of c e is c times the layer whose sum is multiplied by c^2.
 */

typedef struct icl_prompter {
    icl_backend *backend;
    const char *folder;
    const icl_recipe *recipe;
    size_t dimension, trained_context; /* d, n */
    bool takes_any_length;             /* without scaling */
    size_t most_queries;

    /* Depends on the size of the current prompts. */
    size_t context;       /* N */
    size_t chunk;         /* queries predicted at once */
    icl_trainer *trainer; /* holds the model */
    icl_batch batch;
    double scale;       /* c, or 1 */
    float *shown;       /* [N][d + 1] */
    float *tokens;      /* [chunk][N + 1][d + 1] */
    float *predictions; /* [chunk] */
} icl_prompter;

/* Loads the model of a run folder; folder and recipe (the run's) are borrowed. `most_queries` is the usual largest
 * number of queries at once. ICL_ERROR_INPUT for a model of targets that are not linear in x, and as for
 * icl_run_read_model. Release with icl_prompter_release, also after a failure. */
icl_status icl_prompter_create(icl_backend *backend, const char *folder, const icl_recipe *recipe, size_t most_queries,
                               icl_prompter *prompter, icl_error *error);
void icl_prompter_release(icl_prompter *prompter);

/* Shows a context of `count` rows: inputs [count][d] and labels [count]. */
icl_status icl_prompter_show(icl_prompter *prompter, size_t count, const double *inputs, const double *labels,
                             icl_error *error);

/* Computes predictions [count] for queries [count][d], each after the context last shown. The number of queries changes
 * nothing, and the order of rows only changes rounding. */
icl_status icl_prompter_predict(icl_prompter *prompter, size_t count, const double *queries, double *predictions,
                                icl_error *error);

#endif
