#include "report/curves.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/print.h"
#include "numeric/statistics.h"

/* ---- Curves and points ---- */

icl_status icl_curves_begin(icl_curves *curves, icl_series_style style, icl_error *error, const char *format, ...) {
    va_list arguments;

    ICL_CHECK(icl_grow(&curves->curves, curves->curve_count, &curves->curve_capacity, sizeof *curves->curves, "curves",
                       error));
    icl_curve *curve = &curves->curves[curves->curve_count++];
    *curve = (icl_curve){.style = style};
    va_start(arguments, format);
    icl_print_list(curve->label, sizeof curve->label, format, arguments);
    va_end(arguments);
    return ICL_OK;
}

static icl_status add_value(icl_curves *curves, const icl_curve_value *value, icl_error *error) {
    ICL_CHECK(icl_grow(&curves->values, curves->count, &curves->capacity, sizeof *curves->values, "curves", error));
    ICL_CHECK(
        icl_grow(&curves->scratch, curves->count, &curves->scratch_capacity, sizeof *curves->scratch, "curves", error));
    curves->values[curves->count++] = *value;
    return ICL_OK;
}

icl_status icl_curves_point(icl_curves *curves, double x, double y, icl_error *error) {
    return add_value(curves, &(icl_curve_value){curves->curve_count - 1, x, y, (double)NAN, 1}, error);
}

icl_status icl_curves_measured(icl_curves *curves, double x, double y, double standard_error, icl_error *error) {
    curves->curves[curves->curve_count - 1].has_errors = true;
    return add_value(curves, &(icl_curve_value){curves->curve_count - 1, x, y, standard_error, 1}, error);
}

icl_status icl_curves_fill(icl_curves *curves, icl_error *error) {
    const size_t count = curves->count > 0 ? curves->count : 1;
    size_t used = 0;

    icl_free(&curves->columns);
    icl_free(&curves->series);
    ICL_CHECK(icl_allocate(count, 3 * sizeof *curves->columns, "curves", &curves->columns, error));
    ICL_CHECK(icl_allocate(curves->curve_count > 0 ? curves->curve_count : 1, sizeof *curves->series, "curves",
                           &curves->series, error));
    double *x = curves->columns, *y = x + count, *errors = y + count;
    for (size_t i = 0; i < curves->curve_count; i++) {
        const icl_curve *curve = &curves->curves[i];
        const size_t first = used;
        for (size_t k = 0; k < curves->count; k++) {
            if (curves->values[k].curve != i)
                continue;
            x[used] = curves->values[k].x;
            y[used] = curves->values[k].y;
            errors[used++] = curves->values[k].standard_error;
        }
        curves->series[i] = (icl_series){curve->label, curve->style, used - first,
                                         x + first,    y + first,    curve->has_errors ? errors + first : NULL};
    }
    curves->figure.count = curves->curve_count;
    curves->figure.series = curves->series;
    return ICL_OK;
}

void icl_curves_release(icl_curves *curves) {
    icl_free(&curves->curves);
    icl_free(&curves->values);
    icl_free(&curves->columns);
    icl_free(&curves->series);
    icl_free(&curves->places);
    icl_free(&curves->names);
    icl_free(&curves->scratch);
    *curves = (icl_curves){.figure = curves->figure};
}

bool icl_curves_span_a_decade(const icl_curves *curves) {
    const double most_y = curves->figure.most_y;
    double least = (double)INFINITY, most = 0;

    for (size_t i = 0; i < curves->count; i++)
        if (curves->values[i].y > 0) {
            least = fmin(least, curves->values[i].y);
            most = fmax(most, curves->values[i].y);
        }
    return (most_y > 0 ? fmin(most, most_y) : most) > 10 * least;
}

/* ---- Seeds ---- */

static size_t find_curve(const icl_curves *curves, const char *label) {
    size_t curve = 0;
    while (curve < curves->curve_count && strncmp(curves->curves[curve].label, label, ICL_CURVE_LABEL - 1) != 0)
        curve++;
    return curve;
}

icl_status icl_curves_add_mean(icl_curves *curves, const char *label, icl_series_style style, double x, double mean,
                               double standard_error, icl_error *error) {
    const size_t curve = find_curve(curves, label);

    if (curve == curves->curve_count)
        ICL_CHECK(icl_curves_begin(curves, style, error, "%s", label));
    curves->curves[curve].has_errors = true;
    return add_value(curves, &(icl_curve_value){curve, x, mean, standard_error, 1}, error);
}

icl_status icl_curves_add(icl_curves *curves, const char *label, icl_series_style style, double x, double y,
                          icl_error *error) {
    return icl_curves_add_mean(curves, label, style, x, y, 0, error);
}

static icl_curve_point point_at(const icl_curves *curves, size_t curve, double x) {
    double standard_error = (double)NAN;
    size_t seeds = 0;

    for (size_t i = 0; i < curves->count; i++)
        if (curves->values[i].curve == curve && curves->values[i].x == x) {
            curves->scratch[seeds++] = curves->values[i].y;
            standard_error = curves->values[i].standard_error;
        }
    if (seeds < 2)
        return (icl_curve_point){seeds > 0 ? *curves->scratch : (double)NAN, standard_error, seeds};
    return (icl_curve_point){icl_mean(curves->scratch, seeds), icl_standard_error(curves->scratch, seeds), seeds};
}

icl_curve_point icl_curves_at(const icl_curves *curves, const char *label, double x) {
    return point_at(curves, find_curve(curves, label), x);
}

/* Finds the places [count] of a curve, each once and ascending; returns how many there are. */
static size_t find_places(const icl_curves *curves, size_t curve, double *x) {
    size_t count = 0, kept = 0;

    for (size_t i = 0; i < curves->count; i++)
        if (curves->values[i].curve == curve)
            x[count++] = curves->values[i].x;
    icl_sort_ascending(x, count);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || x[i] != x[kept - 1])
            x[kept++] = x[i];
    return kept;
}

icl_status icl_curves_average(const icl_curves *curves, icl_curves *means, icl_error *error) {
    double *x = NULL;
    icl_status status = ICL_OK;

    means->figure = curves->figure;
    ICL_TRY(icl_allocate(curves->count > 0 ? curves->count : 1, sizeof *x, "curves", &x, error));
    for (size_t curve = 0; curve < curves->curve_count; curve++) {
        const size_t places = find_places(curves, curve, x);
        ICL_TRY(icl_curves_begin(means, curves->curves[curve].style, error, "%s", curves->curves[curve].label));
        means->curves[curve].has_errors = curves->curves[curve].has_errors;
        for (size_t i = 0; i < places; i++) {
            const icl_curve_point point = point_at(curves, curve, x[i]);
            ICL_TRY(add_value(means, &(icl_curve_value){curve, x[i], point.mean, point.standard_error, point.seeds},
                              error));
        }
    }
done:
    icl_free(&x);
    return status;
}
