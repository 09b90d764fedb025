#include "papers/curves.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "numeric/statistics.h"
#include "papers/record.h"

/* ---- Values ---- */

static size_t find_curve(const icl_curves *curves, const char *label) {
    size_t curve = 0;
    while (curve < curves->curve_count && strncmp(curves->curves[curve].label, label, ICL_CURVE_LABEL - 1) != 0)
        curve++;
    return curve;
}

icl_status icl_curves_add_mean(icl_curves *curves, const char *label, icl_series_style style, double x, double mean,
                               double standard_error, icl_error *error) {
    const size_t curve = find_curve(curves, label);

    if (curve == ICL_MOST_CURVES)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: no room for the curve \"%s\" beside %d others",
                        curves->figure.name, label, ICL_MOST_CURVES);
    ICL_CHECK(icl_grow(&curves->values, curves->count, &curves->capacity, sizeof *curves->values, "curves", error));
    ICL_CHECK(
        icl_grow(&curves->scratch, curves->count, &curves->scratch_capacity, sizeof *curves->scratch, "curves", error));
    if (curve == curves->curve_count) {
        snprintf(curves->curves[curve].label, ICL_CURVE_LABEL, "%s", label);
        curves->curves[curve].style = style;
        curves->curve_count++;
    }
    curves->values[curves->count++] = (icl_curve_value){curve, x, mean, standard_error};
    return ICL_OK;
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

void icl_curves_release(icl_curves *curves) {
    icl_free(&curves->values);
    icl_free(&curves->scratch);
    curves->count = curves->capacity = curves->scratch_capacity = curves->curve_count = 0;
}

/* ---- Points ---- */

/* The places of a curve, each once and ascending; how many. */
static size_t places_of(const icl_curves *curves, size_t curve, double *x) {
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

/* The columns of a figure: [3][values], of which a curve has a stretch. */
typedef struct columns {
    double *x, *y, *error;
    icl_series series[ICL_MOST_CURVES];
} columns;

static icl_status fill_columns(icl_reproducing *run, const icl_curves *curves, columns *all, icl_error *error) {
    size_t used = 0;

    for (size_t curve = 0; curve < curves->curve_count; curve++) {
        const size_t places = places_of(curves, curve, all->x + used);
        for (size_t i = used; i < used + places; i++) {
            const icl_curve_point point = point_at(curves, curve, all->x[i]);
            icl_curve_row row = {.x = all->x[i], .mean = point.mean, .seeds = point.seeds};
            row.standard_error = point.standard_error > 0 || point.seeds > 1 ? point.standard_error : (double)NAN;
            snprintf(row.figure, sizeof row.figure, "%s", curves->figure.name);
            snprintf(row.curve, sizeof row.curve, "%s", curves->curves[curve].label);
            ICL_CHECK(icl_record_curve(run, &row, error));
            all->y[i] = point.mean;
            all->error[i] = point.standard_error;
        }
        all->series[curve] = (icl_series){curves->curves[curve].label,
                                          curves->curves[curve].style,
                                          places,
                                          all->x + used,
                                          all->y + used,
                                          all->error + used};
        used += places;
    }
    return ICL_OK;
}

/* Whether nothing of ours came out: every value of ours is NaN, and there are some. */
static bool lacks_ours(const icl_curves *curves) {
    bool has_ours = false;

    for (size_t i = 0; i < curves->count; i++) {
        const icl_series_style style = curves->curves[curves->values[i].curve].style;
        const bool is_ours = style != ICL_SERIES_PUBLISHED && style != ICL_SERIES_REFERENCE;
        if (is_ours && !isnan(curves->values[i].y))
            return false;
        has_ours = has_ours || is_ours;
    }
    return has_ours;
}

icl_status icl_curves_draw(icl_reproducing *run, const icl_curves *curves, icl_error *error) {
    icl_figure figure = curves->figure;
    columns all = {0};
    icl_status status = ICL_OK;

    if (lacks_ours(curves))
        return ICL_OK;
    ICL_TRY(icl_allocate(3 * curves->count, sizeof *all.x, "curves", &all.x, error));
    all.y = all.x + curves->count;
    all.error = all.y + curves->count;
    icl_record_forget_curves(run, figure.name);
    ICL_TRY(fill_columns(run, curves, &all, error));
    ICL_TRY(icl_record_write_curves(run, error));
    figure.count = curves->curve_count;
    figure.series = all.series;
    ICL_TRY(icl_reproduce_figure(run, &figure, error));
done:
    icl_free(&all.x);
    return status;
}
