/* A method of icl_regress. Each is a constant and a row of `methods` in regression.c. */
#ifndef ICLAB_PREDICT_METHOD_H
#define ICLAB_PREDICT_METHOD_H

#include "iclab/regression.h"
#include "iclab/table_model.h"

/* Rows to learn from, standardized. Borrowed: they live as long as a fit to them. */
typedef struct icl_lesson {
    const icl_standardization *standardization; /* of all rows of the split: these, or more */
    size_t rows, features;
    const double *inputs;   /* [rows][features] */
    const double *labels;   /* [rows] */
    icl_table_model *model; /* NULL: none */
    uint32_t seed;
    icl_time_series series; /* lags of 0: the rows are in no order */
} icl_lesson;

typedef struct icl_method_functions {
    const char *name;
    bool takes_all_rows; /* a lesson has every row of the split, else at most the context */
    /* Fits: *fitted receives what `predict` needs, and destroy frees, also after a failure. */
    icl_status (*fit)(const icl_lesson *lesson, void **fitted, icl_error *error);
    /* Computes forecasts [count] of standardized targets for inputs [count][features]. */
    icl_status (*predict)(const void *fitted, size_t count, const double *inputs, icl_forecast *forecasts,
                          icl_error *error);
    void (*destroy)(void **fitted);
} icl_method_functions;

extern const icl_method_functions icl_mean_method, icl_last_value_method, icl_last_season_method, icl_ols_method,
    icl_ridge_method, icl_neighbours_method, icl_gaussian_process_method, icl_model_method, icl_mixture_method;

/* ---- The mixture, which learns nothing but an icl_method_mixture: mixture.c ---- */

/* The forecasts of all folds of one order of the rows. Borrowed. */
typedef struct icl_held_forecasts {
    icl_time_series series;
    uint32_t members;          /* the methods that are mixed: bit k for method k */
    size_t count, folds, from; /* rows in the order; those from `from` on are held out, by icl_find_fold */
    const double *targets;     /* [count] */
    icl_forecast *forecasts;   /* [count][ICL_METHODS]: that of the mixture is written */
    double *scores;            /* [count], written: residuals over the half-widths of intervals */
} icl_held_forecasts;

typedef struct icl_mixture_functions {
    /* Mixes rows held out by what other folds say. */
    icl_status (*hold_out)(const icl_held_forecasts *held, icl_error *error);
    /* Sets weights and the least width from mean squared errors, of which NaN or infinity is none, and the margins from
     * the scores [repeats * held] of rows held out. Sorts the scores. */
    void (*find)(uint32_t members, const double mses[ICL_METHODS], double *scores, size_t held, size_t repeats,
                 icl_method_mixture *mixture);
    /* Returns the mixture's forecast. NaN if no mean with a weight is finite. */
    icl_forecast (*mix)(const icl_method_mixture *mixture, const icl_forecast forecasts[ICL_METHODS]);
} icl_mixture_functions;

extern const icl_mixture_functions icl_mixing;

/* Adds a forecast times its weight. */
static inline void icl_forecast_add(icl_forecast *sum, const icl_forecast *forecast, double weight) {
    sum->mean += weight * forecast->mean;
    sum->low_80 += weight * forecast->low_80;
    sum->high_80 += weight * forecast->high_80;
    sum->low_50 += weight * forecast->low_50;
    sum->high_50 += weight * forecast->high_50;
}

#endif
