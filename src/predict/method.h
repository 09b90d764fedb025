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
    icl_ridge_method, icl_neighbours_method, icl_gaussian_process_method, icl_model_method;

#endif
