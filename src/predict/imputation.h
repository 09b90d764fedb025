/*
 * Missing features filled in, by the mean or the median of the rows that are learned from.
 *
 * A fill is fitted anew for every set of rows to learn from, to the values that these rows have; rows that are held out
 * are filled in by it and tell it nothing. A feature that none of these rows has becomes 0 in all of them, where it is
 * constant and so counts for nothing.
 */
#ifndef ICLAB_PREDICT_IMPUTATION_H
#define ICLAB_PREDICT_IMPUTATION_H

#include "predict/standardization.h"

/* A table whose holes are filled: the table itself where it has none. */
typedef struct icl_filled_table {
    const icl_table *original;
    icl_table table; /* for reading; its values are `values` where there are holes */
    double *values;  /* NULL: the original's */
    size_t *holes;   /* [hole_count], places in values */
    size_t hole_count;
} icl_filled_table;

/* Finds the holes among the first `features` columns. ICL_ERROR_INPUT for the first one under ICL_IMPUTE_NONE. Release
 * with icl_filled_table_release, also after a failure. */
icl_status icl_filled_table_create(const icl_table *table, size_t features, icl_impute rule, icl_filled_table *filled,
                                   icl_error *error);
void icl_filled_table_release(icl_filled_table *filled);

/* Fits fills [features] to rows of a table that has holes; 0 for a feature that none of them has.
 * work: [rows->count]. */
void icl_imputation_fit(const icl_table_rows *rows, size_t features, icl_impute rule, double *work, double *fills);

/* Puts the fills [features] into the holes. */
void icl_imputation_apply(icl_filled_table *filled, const double *fills);

#endif
