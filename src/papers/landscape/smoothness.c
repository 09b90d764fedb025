/*
 * Smoothness of the loss along the steps of Adam and of SGD with momentum (arXiv 2310.01082, section 3).
 *
 * With the step s_t = x_(t+1) - x_t and the Hessian H_t there: the directional smoothness s_t^T H_t s_t / |s_t|^2,
 * lower for Adam than for SGD; and the local smoothness |H_t s_t| / |s_t|, which grows with the gradient's norm:
 * evidence of (L0, L1)-smoothness, |H| <= L0 + L1 |gradient|.
 *
 * Both are those of the loss on 1000 sequences, fresh for each step and as many as it was made from; judged are medians
 * over steps. The loss of many more heavy-tailed sequences is that of a few, which Adam's models miss by orders of
 * magnitude: on 4000 fixed ones the order in S3 is the other way round (log ratio 4.8 +- .5, seeds 1 to 6).
 */
#include <math.h>
#include <stdio.h>

#include "core/allocate.h"
#include "core/print.h"
#include "numeric/statistics.h"
#include "papers/landscape/landscape.h"
#include "papers/papers.h"
#include "probe/curvature.h"

enum { BATCH = 1000, LAYERS = 3, MOST_SEEDS = 6, MOST_POINTS = 200 };

/* Measured is one step in every `every`. */
typedef struct extent {
    size_t settings, seeds, steps, every;
} extent;

static const extent extents[ICL_SCALES] = {{1, 2, 250, 10}, {3, 6, 1500, 30}, {ICL_LANDSCAPE_SETTINGS, 6, 10000, 50}};

/* One setting's steps; runs that diverged end early. */
typedef struct steps {
    size_t points[ICL_LANDSCAPE_OPTIMIZERS][MOST_SEEDS];
    double directional[ICL_LANDSCAPE_OPTIMIZERS][MOST_SEEDS][MOST_POINTS];
    /* log10 of both, over all runs of one optimizer */
    size_t count[ICL_LANDSCAPE_OPTIMIZERS];
    double gradient[ICL_LANDSCAPE_OPTIMIZERS][MOST_SEEDS * MOST_POINTS];
    double local[ICL_LANDSCAPE_OPTIMIZERS][MOST_SEEDS * MOST_POINTS];
} steps;

/* ---- Measuring ---- */

/* What one step needs. */
typedef struct workspace {
    icl_landscape_view view;
    float *parameters;
    double *step, *gradient;
} workspace;

static icl_status workspace_open(const icl_reproducing *run, const icl_landscape_cell *cell, workspace *work,
                                 icl_error *error) {
    ICL_CHECK(icl_landscape_view_open(run, cell, BATCH, &work->view, error));
    ICL_CHECK(icl_allocate(work->view.size, sizeof *work->parameters, "parameters", &work->parameters, error));
    ICL_CHECK(icl_allocate(work->view.size, sizeof *work->step, "step", &work->step, error));
    return icl_allocate(work->view.size, sizeof *work->gradient, "gradient", &work->gradient, error);
}

static void workspace_close(workspace *work) {
    icl_landscape_view_close(&work->view);
    icl_free(&work->parameters);
    icl_free(&work->step);
    icl_free(&work->gradient);
}

/* Makes the trainer's next step, from x to x + s. */
static icl_status make_step(icl_trainer *trainer, workspace *work, icl_error *error) {
    ICL_CHECK(icl_trainer_get_parameters(trainer, work->parameters, error));
    for (size_t i = 0; i < work->view.size; i++)
        work->view.at[i] = (double)work->parameters[i];
    ICL_CHECK(icl_trainer_run(trainer, 1, error));
    ICL_CHECK(icl_trainer_get_parameters(trainer, work->parameters, error));
    for (size_t i = 0; i < work->view.size; i++)
        work->step[i] = (double)work->parameters[i] - work->view.at[i];
    return ICL_OK;
}

static icl_status measure_step(workspace *work, const icl_landscape_cell *cell, size_t seed, steps *out,
                               icl_error *error) {
    const int optimizer = cell->optimizer;
    icl_smoothness smoothness = {0};
    double square = 0;

    ICL_CHECK(icl_smoothness_along(work->view.objective, work->view.at, work->step, &smoothness, error));
    ICL_CHECK(icl_objective_gradient(work->view.objective, work->view.at, NULL, work->gradient, error));
    for (size_t i = 0; i < work->view.size; i++)
        square += work->gradient[i] * work->gradient[i];
    if (!(smoothness.local > 0 && isfinite(smoothness.local) && square > 0 && isfinite(square)))
        return ICL_OK; /* the trainer skipped the step, or the loss overflows: there is nothing to see */
    out->directional[optimizer][seed][out->points[optimizer][seed]++] = smoothness.directional;
    out->gradient[optimizer][out->count[optimizer]] = log10(square) / 2;
    out->local[optimizer][out->count[optimizer]++] = log10(smoothness.local);
    return ICL_OK;
}

/* Steps next to each other are in no run folder, so the trainer runs here, the same steps as those of
 * icl_landscape_train. */
static icl_status follow(icl_reproducing *run, const icl_landscape_cell *cell, size_t seed, workspace *work, steps *out,
                         icl_error *error) {
    const size_t every = extents[run->params->scale].every;
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_landscape_recipe(cell, false, &recipe, error));
    ICL_TRY(icl_trainer_create(run->params->backend, recipe, &trainer, error));
    for (size_t step = every; step <= cell->steps; step += every) {
        ICL_TRY(icl_reproduce_poll(run, error));
        ICL_TRY(icl_trainer_run(trainer, every - 1, error));
        ICL_TRY(make_step(trainer, work, error));
        ICL_TRY(icl_objective_draw(work->view.objective, run->params->seed, step, error));
        ICL_TRY(measure_step(work, cell, seed, out, error));
    }
done:
    icl_recipe_destroy(&recipe);
    icl_trainer_destroy(&trainer);
    return status == ICL_ERROR_DIVERGED ? ICL_OK : status;
}

static icl_status measure_setting(icl_reproducing *run, size_t setting, steps *out, icl_error *error) {
    const extent *is = &extents[run->params->scale];
    icl_landscape_cell cell = {.setting = setting, .layers = LAYERS, .steps = is->steps};
    workspace work = {{0}};
    icl_status status = ICL_OK;

    *out = (steps){0};
    ICL_TRY(workspace_open(run, &cell, &work, error));
    for (size_t seed = 0; seed < is->seeds; seed++)
        for (int optimizer = 0; optimizer < ICL_LANDSCAPE_OPTIMIZERS; optimizer++) {
            cell.optimizer = (icl_landscape_optimizer)optimizer;
            cell.seed = icl_reproduce_seed(run, seed);
            icl_reproduce_say(run, "%s, %s, seed %u: %zu steps", icl_landscape_settings[setting].name,
                              icl_landscape_optimizers[optimizer], (unsigned)cell.seed, cell.steps);
            ICL_TRY(follow(run, &cell, seed, &work, out, error));
        }
done:
    workspace_close(&work);
    return status;
}

/* ---- Judging ---- */

/* log of Adam's median directional smoothness over SGD's, seed by seed; medians of steps into valleys can be negative,
 * and such seeds do not count. */
static icl_status judge_direction(icl_reproducing *run, size_t setting, steps *of, icl_error *error) {
    const size_t seeds = extents[run->params->scale].seeds;
    double gaps[MOST_SEEDS] = {0}, medians[ICL_LANDSCAPE_OPTIMIZERS] = {0};
    size_t count = 0;
    char note[192];

    for (size_t seed = 0; seed < seeds; seed++) {
        double median[ICL_LANDSCAPE_OPTIMIZERS];
        for (int optimizer = 0; optimizer < ICL_LANDSCAPE_OPTIMIZERS; optimizer++) {
            median[optimizer] = icl_median(of->directional[optimizer][seed], of->points[optimizer][seed]);
            medians[optimizer] += median[optimizer] / (double)seeds;
        }
        if (median[ICL_LANDSCAPE_ADAM] > 0 && median[ICL_LANDSCAPE_SGD] > 0)
            gaps[count++] = log(median[ICL_LANDSCAPE_ADAM] / median[ICL_LANDSCAPE_SGD]);
    }
    icl_print(note, sizeof note, "medians along the way: Adam %.3g, SGD %.3g; %zu of %zu seeds%s",
              medians[ICL_LANDSCAPE_ADAM], medians[ICL_LANDSCAPE_SGD], count, seeds,
              setting == ICL_LANDSCAPE_S3 ? "; of 4000 fixed sequences it was the other way round" : "");
    return ICL_FOUND(run, error, .what = icl_landscape_settings[setting].name,
                     .quantity = "log of directional smoothness, Adam / SGD",
                     .ours = count > 0 ? icl_mean(gaps, count) : (double)NAN,
                     .standard_error = icl_standard_error(gaps, count), .target = 0, .criterion = ICL_AT_MOST,
                     .evidence = ICL_READ, .source = "lower for Adam", .note = note);
}

static icl_status judge_slope(icl_reproducing *run, size_t setting, const steps *of, icl_error *error) {
    for (int optimizer = 0; optimizer < ICL_LANDSCAPE_OPTIMIZERS; optimizer++) {
        double error_of_slope = 0;
        char what[64], note[64];
        const double slope =
            icl_slope(of->gradient[optimizer], of->local[optimizer], of->count[optimizer], &error_of_slope);
        snprintf(what, sizeof what, "%s, %s", icl_landscape_settings[setting].name,
                 icl_landscape_optimizers[optimizer]);
        snprintf(note, sizeof note, "%zu steps", of->count[optimizer]);
        ICL_CHECK(ICL_FOUND(run, error, .what = what, .quantity = "slope of log smoothness over log gradient",
                            .ours = slope, .standard_error = error_of_slope, .target = 0, .criterion = ICL_AT_LEAST,
                            .evidence = ICL_READ, .source = "a rising cloud", .note = note));
    }
    return ICL_OK;
}

/* ---- Figures ---- */

static icl_status draw(icl_reproducing *run, size_t setting, const steps *of, icl_error *error) {
    static const char *const labels[ICL_LANDSCAPE_OPTIMIZERS] = {"Adam", "SGD with momentum"};
    icl_series series[ICL_LANDSCAPE_OPTIMIZERS];
    char name[64], title[128];

    for (int optimizer = 0; optimizer < ICL_LANDSCAPE_OPTIMIZERS; optimizer++)
        series[optimizer] = (icl_series){labels[optimizer],       ICL_SERIES_CLOUD,     of->count[optimizer],
                                         of->gradient[optimizer], of->local[optimizer], NULL};
    snprintf(name, sizeof name, "smoothness-%s", icl_landscape_settings[setting].name);
    snprintf(title, sizeof title, "Local smoothness against the gradient: %s", icl_landscape_settings[setting].about);
    return ICL_DRAW_FIGURE(run, error, .name = name, .title = title, .x_label = "log10 of the gradient's norm",
                           .y_label = "log10 of |H s| / |s|", .count = ICL_LANDSCAPE_OPTIMIZERS, .series = series);
}

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    steps *of = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(1, sizeof *of, "steps", &of, error));
    for (size_t setting = 0; setting < extents[run->params->scale].settings; setting++) {
        if (!icl_reproduce_wants(run, icl_landscape_settings[setting].name) || !icl_reproduce_judges(run))
            continue;
        ICL_TRY(measure_setting(run, setting, of, error));
        ICL_TRY(judge_direction(run, setting, of, error));
        ICL_TRY(judge_slope(run, setting, of, error));
        ICL_TRY(draw(run, setting, of, error));
    }
done:
    icl_free(&of);
    return status;
}

const icl_reproduction icl_landscape_smoothness = {
    .name = "landscape-smoothness",
    .source = "arXiv 2310.01082, section 3",
    .about = "smoothness of the loss along the steps of Adam and SGD, and against the gradient's norm",
    .cost = {"2 s", "2 min", "20 min"},
    .run = reproduce,
};
