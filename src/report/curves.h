/*
 * Curves of one figure. Each curve is begun after the previous one, and its points are added one by one. A figure of
 * several seeds shows means: icl_curves_average.
 */
#ifndef ICLAB_REPORT_CURVES_H
#define ICLAB_REPORT_CURVES_H

#include "report/figure.h"

enum { ICL_CURVE_LABEL = 128 };

typedef struct icl_curve {
    char label[ICL_CURVE_LABEL];
    icl_series_style style;
    bool has_errors; /* points have standard errors; those of a band have upper edges */
} icl_curve;

/* A point of a curve. */
typedef struct icl_curve_value {
    size_t curve; /* the place of its curve among the curves */
    double x, y;
    double standard_error; /* NaN: it has none */
    size_t seeds;          /* seeds in the mean */
} icl_curve_value;

/* The curves of a figure; at the beginning zero but for the figure's texts and axes: icl_curves curves = {.figure =
 * {.name = "loss"}}. icl_curves_fill sets the figure's `count` and `series`. */
typedef struct icl_curves {
    icl_figure figure;
    icl_curve *curves;       /* [curve_count] */
    icl_curve_value *values; /* [count] */
    double *columns;         /* x, y and errors of all points, to which figure.series points */
    icl_series *series;      /* figure.series */
    double *places;          /* [place_count]: where a key's values stand along x, in sweep_report.c */
    const char **names;      /* [place_count] */
    double *scratch;
    size_t curve_count, curve_capacity, count, capacity, place_count, scratch_capacity;
} icl_curves;

/* Makes a figure with these fields and no curves yet: icl_curves curves = ICL_CURVES(.name = "loss", .log_y = true); */
#define ICL_CURVES(...)                                                                                                \
    {                                                                                                                  \
        .figure = { __VA_ARGS__ }                                                                                      \
    }

/* Begins a curve, to which the next points belong. */
icl_status icl_curves_begin(icl_curves *curves, icl_series_style style, icl_error *error, const char *format, ...)
    ICL_PRINTF(4, 5);

/* Adds a point without and with a standard error, in the order in which the picture joins them. */
icl_status icl_curves_point(icl_curves *curves, double x, double y, icl_error *error);
icl_status icl_curves_measured(icl_curves *curves, double x, double y, double standard_error, icl_error *error);

/* Sets series and count of the figure, which can then be written as long as the curves do not change. */
icl_status icl_curves_fill(icl_curves *curves, icl_error *error);
void icl_curves_release(icl_curves *curves);

/* Returns whether positive values span more than a decade below most_y of the figure. A smaller span is drawn on a
 * plain axis, because a logarithmic one would have numbers only at its ends. */
bool icl_curves_span_a_decade(const icl_curves *curves);

/* ---- Seeds ---- */

/* The mean of the seeds' values at a place, and its standard error: that of the value itself for a single seed, NaN if
 * there is none. */
typedef struct icl_curve_point {
    double mean, standard_error;
    size_t seeds;
} icl_curve_point;

/* Adds a value to the curve of that label, which the first value makes; theory and published results have one value a
 * point. A value that is NaN makes its point NaN, which no figure shows. */
icl_status icl_curves_add(icl_curves *curves, const char *label, icl_series_style style, double x, double y,
                          icl_error *error);

/* Adds a mean that already has a standard error, as the only value of its point. */
icl_status icl_curves_add_mean(icl_curves *curves, const char *label, icl_series_style style, double x, double mean,
                               double standard_error, icl_error *error);

icl_curve_point icl_curves_at(const icl_curves *curves, const char *label, double x);

/* Fills `means`, zero at the beginning, with the means of these curves, each with its places once and ascending. */
icl_status icl_curves_average(const icl_curves *curves, icl_curves *means, icl_error *error);

#endif
