/* The points of a sweep's grid but for the seed: means over seeds, and which is best. */
#include <math.h>

#include "core/allocate.h"
#include "iclab/sweep.h"
#include "numeric/statistics.h"

static double error_of(const icl_sweep_result *result, bool is_adjusted) {
    return is_adjusted ? 0.5 * result->adjusted : result->mse;
}

/* Every cell that did not diverge has a distance to the oracle. */
static bool has_adjusted(const icl_sweep *sweep, const icl_sweep_result *results) {
    size_t used = 0;

    for (size_t cell = 0; cell < icl_sweep_cells(sweep); cell++) {
        if (!results[cell].diverged && isnan(results[cell].adjusted))
            return false;
        used += !results[cell].diverged;
    }
    return used > 0;
}

/* Of one seed the error has the standard error of its own evaluation. */
static void summarize(const icl_sweep_result *results, bool is_adjusted, double *values, icl_sweep_point *point) {
    double losses = 0;
    size_t used = 0;

    for (size_t i = 0; i < point->seeds; i++) {
        point->diverged += results[i].diverged;
        if (results[i].diverged)
            continue;
        losses += results[i].final_loss;
        values[used++] = error_of(&results[i], is_adjusted);
    }
    point->error = used > 0 ? icl_mean(values, used) : (double)NAN;
    point->final_loss = used > 0 ? losses / (double)used : (double)NAN;
    if (point->seeds > 1)
        point->se = used > 1 ? icl_standard_error(values, used) : (double)NAN;
    else
        point->se = is_adjusted ? 0.5 * results->adjusted_se : results->se;
}

static size_t count_close(const icl_sweep_points *points) {
    const icl_sweep_point *best = &points->of[points->best];
    size_t count = 0;

    for (size_t i = 0; i < points->count; i++)
        count += i != points->best && points->of[i].diverged == 0 &&
                 points->of[i].error - best->error <= 2 * hypot(points->of[i].se, best->se);
    return count;
}

icl_status icl_sweep_find_points(const icl_sweep *sweep, const icl_sweep_result *results, icl_sweep_points *points,
                                 icl_error *error) {
    const size_t seeds = icl_sweep_seeds(sweep);
    icl_status status = ICL_OK;
    double *values = NULL;

    *points = (icl_sweep_points){.count = icl_sweep_cells(sweep) / seeds, .is_adjusted = has_adjusted(sweep, results)};
    points->best = points->count;
    ICL_TRY(icl_allocate(points->count, sizeof *points->of, "points of a sweep", &points->of, error));
    ICL_TRY(icl_allocate(seeds, sizeof *values, "errors of seeds", &values, error));
    for (size_t i = 0; i < points->count; i++) {
        icl_sweep_point *point = &points->of[i];
        *point = (icl_sweep_point){.cell = i * seeds, .seeds = seeds};
        summarize(results + point->cell, points->is_adjusted, values, point);
        if (point->diverged == 0 && isfinite(point->error) &&
            (points->best == points->count || point->error < points->of[points->best].error))
            points->best = i;
    }
    if (points->best < points->count)
        points->close = count_close(points);
done:
    icl_free(&values);
    return status;
}

void icl_sweep_free_points(icl_sweep_points *points) {
    icl_free(&points->of);
}
