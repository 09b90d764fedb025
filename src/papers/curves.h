/*
 * Curves over seeds: a quantity against what is swept, each point the mean over seeds with its standard error.
 *
 * A reproduction adds the value of each seed as it comes, and draws at the end: a figure with error bars, its rows in
 * curves.csv, and a table in the report.
 */
#ifndef ICLAB_PAPERS_CURVES_H
#define ICLAB_PAPERS_CURVES_H

#include "papers/reproduce.h"

enum { ICL_MOST_CURVES = 24, ICL_CURVE_LABEL = 96 };

/* What one seed gave at one point. */
typedef struct icl_curve_value {
    size_t curve;
    double x, y;
    double standard_error; /* of a mean: see icl_curves_add_mean */
} icl_curve_value;

/* Zero but for the figure's texts and axes to begin with; `count` and `series` of the figure are not read. */
typedef struct icl_curves {
    icl_figure figure;
    struct {
        char label[ICL_CURVE_LABEL];
        icl_series_style style;
    } curves[ICL_MOST_CURVES];
    size_t curve_count;
    icl_curve_value *values;
    double *scratch;                          /* room for what one point's seeds gave */
    size_t count, capacity, scratch_capacity; /* of values, and of that */
} icl_curves;

/* No curves yet, of a figure with these fields: icl_curves curves = ICL_CURVES(.name = "loss", .log_y = true); */
#define ICL_CURVES(...)                                                                                                \
    {                                                                                                                  \
        .figure = { __VA_ARGS__ }                                                                                      \
    }

/* A point: the mean of what its seeds gave, and the mean's standard error, 0 for a single seed; NaN without any. */
typedef struct icl_curve_point {
    double mean, standard_error;
    size_t seeds;
} icl_curve_point;

/* Adds a value to the curve of that label, which the first one makes; of theory and of what is published, the one
 * value. A value that is NaN makes its point NaN, which no figure shows. At most ICL_MOST_CURVES curves. */
icl_status icl_curves_add(icl_curves *curves, const char *label, icl_series_style style, double x, double y,
                          icl_error *error);

/* Adds a mean that has a standard error already: the one value of its point. */
icl_status icl_curves_add_mean(icl_curves *curves, const char *label, icl_series_style style, double x, double mean,
                               double standard_error, icl_error *error);

icl_curve_point icl_curves_at(const icl_curves *curves, const char *label, double x);

/* Draws the figure, and adds its points to curves.csv and to the report, in place of those that a figure of that name
 * has left there in this run. Draws nothing where all of ours is NaN: its cells were not asked for. */
icl_status icl_curves_draw(icl_reproducing *run, const icl_curves *curves, icl_error *error);

void icl_curves_release(icl_curves *curves);

#endif
