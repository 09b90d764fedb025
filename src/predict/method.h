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

/* ---- Intervals ---- */

/* The ceil(share (m + 1))-th smallest of m values >= 0, for shares of .5 and .8; the largest if there is none. */
typedef struct icl_margins {
    double of_50, of_80;
} icl_margins;

/* Finds them for values [copies * count], count > 0, each of m = count in `copies` versions. Sorts the values. */
icl_margins icl_find_margins(double *values, size_t count, size_t copies);

/* Adds a forecast times its weight. */
void icl_forecast_add(icl_forecast *sum, const icl_forecast *forecast, double weight);

/* ---- The mixture, which learns nothing but what icl_mixture holds: mixture.c ---- */

/* Returns the methods among these that are mixed, bit k for method k. */
uint32_t icl_mixture_members(uint32_t bits);

/* Sets weights and the least width, 0 without an error of the mean, from mean squared errors, of which NaN or infinity
 * is none. */
void icl_mixture_weigh(uint32_t members, const double mses[ICL_METHODS], icl_mixture *mixture);

/* Returns the weighted mean of forecasts, of their intervals, too. NaN if no mean with a weight is finite. */
icl_forecast icl_mixture_mix(const icl_mixture *mixture, const icl_forecast forecasts[ICL_METHODS]);

/* Returns the residual over the half-width of a weighted mean. */
double icl_mixture_score(const icl_mixture *mixture, const icl_forecast *mixed, double target);

/* Sets the margins from scores [copies * count] of rows held out, as icl_find_margins. Sorts the scores. */
void icl_mixture_set_margins(icl_mixture *mixture, double *scores, size_t count, size_t copies);

/* Returns a weighted mean with the intervals of the mixture. */
icl_forecast icl_mixture_widen(const icl_mixture *mixture, const icl_forecast *mixed);

/* The forecasts of all folds of one order of the rows. Borrowed. */
typedef struct icl_held_forecasts {
    icl_time_series series;
    uint32_t members;          /* as icl_mixture_members */
    size_t count, folds, from; /* rows in the order; those from `from` on are held out, by icl_find_fold */
    const double *targets;     /* [count] */
    icl_forecast *forecasts;   /* [count][ICL_METHODS]: that of the mixture is written */
    double *scores;            /* [count], written: icl_mixture_score */
} icl_held_forecasts;

/* Mixes rows held out by what other folds say. */
icl_status icl_mixture_hold_out(const icl_held_forecasts *held, icl_error *error);

#endif
