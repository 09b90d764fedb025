/*
 * Robust condition numbers along the trajectories of Adam and of SGD with momentum (arXiv 2310.01082, section 3): R =
 * max |H_ii| / median |H_ii|, and the ratio of SGD's to Adam's after 750 and 1250 iterations in three settings.
 *
 * H is that of the loss on a batch of 1000 sequences, as in the authors' code. Where contexts are short or inputs
 * heavy-tailed, single sequences dominate it, so a seed's ratio is the geometric mean of those on several batches, the
 * same for both optimizers.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/print.h"
#include "numeric/statistics.h"
#include "papers/landscape/landscape.h"
#include "papers/papers.h"
#include "probe/curvature.h"

enum { BATCH = 1000, LAYERS = 3, MOST_SEEDS = 6, MOST_POINTS = 64, SETTINGS = 3 };

/* How many batches H is measured on where ratios are judged, and elsewhere one. */
typedef struct extent {
    size_t settings, seeds, steps, batches;
    size_t judged[2]; /* iterations; 0: none */
} extent;

static const extent extents[ICL_SCALES] = {
    {1, 2, 250, 1, {250, 0}},
    {SETTINGS, 6, 1250, 5, {750, 1250}},
    {SETTINGS, 6, 10000, 20, {750, 1250}},
};

/* Printed: mean and standard deviation of the ratio over six seeds. */
static const struct {
    double mean, deviation;
} printed[SETTINGS][2] = {{{1.76, .40}, {1.58, .41}}, {{3.14, .97}, {5.98, 2.86}}, {{9.57, 13.3}, {6.53, 3.55}}};

/* What came of one setting. Logarithms to base e; NaN for a run that diverged. */
typedef struct trajectory {
    size_t points; /* models along the way */
    double iterations[MOST_POINTS];
    double along[ICL_LANDSCAPE_OPTIMIZERS][MOST_SEEDS][MOST_POINTS]; /* log R on one batch */
    double judged[ICL_LANDSCAPE_OPTIMIZERS][2][MOST_SEEDS];          /* log R, mean over the batches */
    double eigenvalues[ICL_LANDSCAPE_OPTIMIZERS][2][MOST_SEEDS];     /* the same of max |lambda| / median */
} trajectory;

/* ---- Measuring ---- */

static icl_status measure(icl_reproducing *run, icl_landscape_view *view, double *hessian, size_t batch,
                          icl_robust_condition *condition, icl_error *error) {
    ICL_CHECK(icl_reproduce_poll(run, error));
    ICL_CHECK(icl_objective_draw(view->objective, run->params->seed, batch, error));
    ICL_CHECK(icl_hessian(view->objective, view->at, hessian, error));
    return icl_robust_condition_of(hessian, view->size, condition, error);
}

/* Log R on batches 1 to is->batches, averaged; `condition` is what batch 0 gave, which serves where one is enough. */
static icl_status measure_judged(icl_reproducing *run, icl_landscape_view *view, double *hessian,
                                 icl_robust_condition condition, double *diagonal, double *eigenvalues,
                                 icl_error *error) {
    const size_t batches = extents[run->params->scale].batches;

    *diagonal = *eigenvalues = 0;
    for (size_t batch = 1; batch <= batches; batch++) {
        if (batches > 1)
            ICL_CHECK(measure(run, view, hessian, batch, &condition, error));
        *diagonal += log(condition.diagonal) / (double)batches;
        *eigenvalues += log(condition.eigenvalues) / (double)batches;
    }
    return ICL_OK;
}

/* The models of one trained cell. */
static icl_status follow(icl_reproducing *run, const icl_landscape_cell *cell, size_t seed, icl_landscape_view *view,
                         double *hessian, trajectory *out, icl_error *error) {
    const extent *is = &extents[run->params->scale];

    for (size_t point = 0; point < out->points; point++) {
        const size_t step = point * ICL_LANDSCAPE_EVERY;
        icl_robust_condition condition = {0};
        if (step == 0 && cell->optimizer == ICL_LANDSCAPE_SGD) { /* both start alike */
            out->along[ICL_LANDSCAPE_SGD][seed][0] = out->along[ICL_LANDSCAPE_ADAM][seed][0];
            continue;
        }
        ICL_CHECK(icl_landscape_model_at(run, cell, view->model, step, view->at, error));
        ICL_CHECK(measure(run, view, hessian, 0, &condition, error));
        out->along[cell->optimizer][seed][point] = log(condition.diagonal);
        for (int k = 0; k < 2; k++)
            if (is->judged[k] == step && step > 0)
                ICL_CHECK(measure_judged(run, view, hessian, condition, &out->judged[cell->optimizer][k][seed],
                                         &out->eigenvalues[cell->optimizer][k][seed], error));
    }
    return ICL_OK;
}

static void forget(trajectory *out, icl_landscape_optimizer optimizer, size_t seed) {
    for (size_t point = 0; point < out->points; point++)
        out->along[optimizer][seed][point] = (double)NAN;
    for (int k = 0; k < 2; k++)
        out->judged[optimizer][k][seed] = out->eigenvalues[optimizer][k][seed] = (double)NAN;
}

static icl_status measure_setting(icl_reproducing *run, size_t setting, trajectory *out, icl_error *error) {
    const extent *is = &extents[run->params->scale];
    icl_landscape_cell cell = {.setting = setting, .layers = LAYERS, .steps = is->steps};
    icl_landscape_view view = {0};
    double *hessian = NULL;
    icl_status status = ICL_OK;

    memset(out, 0, sizeof *out);
    out->points = is->steps / ICL_LANDSCAPE_EVERY + 1;
    for (size_t point = 0; point < out->points; point++)
        out->iterations[point] = (double)(point * ICL_LANDSCAPE_EVERY);
    ICL_TRY(icl_landscape_view_open(run, &cell, BATCH, &view, error));
    ICL_TRY(icl_allocate(view.size * view.size, sizeof *hessian, "Hessian", &hessian, error));
    for (size_t seed = 0; seed < is->seeds; seed++)
        for (int optimizer = 0; optimizer < ICL_LANDSCAPE_OPTIMIZERS; optimizer++) {
            cell.optimizer = (icl_landscape_optimizer)optimizer;
            cell.seed = icl_reproduce_seed(run, seed);
            status = icl_landscape_train(run, &cell, error);
            if (status == ICL_OK && icl_reproduce_judges(run))
                status = follow(run, &cell, seed, &view, hessian, out, error);
            if (status == ICL_ERROR_DIVERGED)
                forget(out, cell.optimizer, seed);
            else
                ICL_TRY(status);
        }
    status = ICL_OK;
done:
    icl_landscape_view_close(&view);
    icl_free(&hessian);
    return status;
}

/* ---- Judging ---- */

/* log(R of SGD / R of Adam); returns of how many seeds. Where Adam diverged it is minus infinity, so that nothing is
 * better for it; seeds where SGD alone did are left out. */
static size_t log_ratios(const double values[ICL_LANDSCAPE_OPTIMIZERS][2][MOST_SEEDS], size_t seeds, int judged,
                         double ratios[MOST_SEEDS]) {
    size_t count = 0;
    for (size_t seed = 0; seed < seeds; seed++) {
        const double adam = values[ICL_LANDSCAPE_ADAM][judged][seed];
        const double sgd = values[ICL_LANDSCAPE_SGD][judged][seed];
        if (isnan(adam))
            ratios[count++] = -(double)INFINITY;
        else if (!isnan(sgd))
            ratios[count++] = sgd - adam;
    }
    return count;
}

/* The mean over seeds, as printed; single seeds scatter by factors of ten. */
static icl_status judge_ratio(icl_reproducing *run, size_t setting, int judged, const trajectory *of,
                              icl_error *error) {
    const extent *is = &extents[run->params->scale];
    double logs[MOST_SEEDS] = {0}, ratios[MOST_SEEDS] = {0}, by_eigenvalues[MOST_SEEDS] = {0};
    const size_t count = log_ratios(of->judged, is->seeds, judged, logs);
    const size_t others = log_ratios(of->eigenvalues, is->seeds, judged, by_eigenvalues);
    char what[64], note[256], theirs[64] = "";
    size_t above = 0;

    for (size_t i = 0; i < count; i++) {
        ratios[i] = exp(logs[i]);
        above += logs[i] > 0;
    }
    if (run->params->scale != ICL_SCALE_CI)
        icl_print(theirs, sizeof theirs, "printed %.3g, deviation %.3g; ", printed[setting][judged].mean,
                  printed[setting][judged].deviation);
    snprintf(what, sizeof what, "%s, iteration %zu", icl_landscape_settings[setting].name, is->judged[judged]);
    icl_print(
        note, sizeof note,
        "%s%zu seeds from %" PRIu32 ": %zu of %zu above 1, deviation %.2g, geometric mean %.3g, by eigenvalues %.3g",
        theirs, is->seeds, run->params->seed, above, count, icl_standard_error(ratios, count) * sqrt((double)count),
        exp(icl_mean(logs, count)), exp(icl_mean(by_eigenvalues, others)));
    return ICL_FOUND(run, error, .what = what, .quantity = "R of SGD / R of Adam",
                     .ours = count > 0 ? icl_mean(ratios, count) : (double)NAN,
                     .standard_error = icl_standard_error(ratios, count), .target = 1, .criterion = ICL_AT_LEAST,
                     .evidence = ICL_READ, .source = "R above 1 in every setting", .note = note);
}

/* Whether the setting's ratio lies above that of S1: not below it by more than two standard errors. */
static icl_status judge_order(icl_reproducing *run, size_t setting, int judged, const trajectory *of,
                              const trajectory *first, icl_error *error) {
    const extent *is = &extents[run->params->scale];
    double ratios[MOST_SEEDS] = {0}, firsts[MOST_SEEDS] = {0};
    const size_t count = log_ratios(of->judged, is->seeds, judged, ratios);
    const size_t of_first = log_ratios(first->judged, is->seeds, judged, firsts);
    const double deviation = hypot(icl_standard_error(ratios, count), icl_standard_error(firsts, of_first));
    char what[64];

    snprintf(what, sizeof what, "%s against S1, iteration %zu", icl_landscape_settings[setting].name,
             is->judged[judged]);
    return ICL_FOUND(run, error, .what = what, .quantity = "log of the ratio of the ratios",
                     .ours = icl_mean(ratios, count) - icl_mean(firsts, of_first), .standard_error = deviation,
                     .target = 0, .tolerance = 2 * deviation, .criterion = ICL_AT_LEAST, .evidence = ICL_READ,
                     .source = "larger in S2 and S3 than in S1", .note = "tolerance: two standard errors");
}

/* Setting 1 along the way, beside what can be read off the picture in the authors' notebook. */
static icl_status judge_curve(icl_reproducing *run, const trajectory *of, icl_error *error) {
    static const struct {
        const char *what;
        icl_landscape_optimizer optimizer;
        size_t point;
        double target;
    } seen[] = {{"S1, both, iteration 0", ICL_LANDSCAPE_ADAM, 0, 270},
                {"S1, Adam, iteration 250", ICL_LANDSCAPE_ADAM, 1, 8},
                {"S1, SGD, iteration 250", ICL_LANDSCAPE_SGD, 1, 300}};
    const size_t seeds = extents[run->params->scale].seeds;

    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++) {
        double values[MOST_SEEDS] = {0};
        for (size_t seed = 0; seed < seeds; seed++)
            values[seed] = of->along[seen[i].optimizer][seed][seen[i].point] / log(10);
        ICL_CHECK(ICL_FOUND(run, error, .what = seen[i].what, .quantity = "log10 of R", .ours = icl_mean(values, seeds),
                            .standard_error = icl_standard_error(values, seeds), .target = log10(seen[i].target),
                            .tolerance = .6, .criterion = ICL_WITHIN, .evidence = ICL_READ,
                            .source = "authors' notebook",
                            .note = "off a picture of one run; tolerance: a factor of 4"));
    }
    return ICL_OK;
}

/* ---- The figure ---- */

static icl_status draw(icl_reproducing *run, size_t setting, const trajectory *of, icl_error *error) {
    static const char *const labels[ICL_LANDSCAPE_OPTIMIZERS] = {"Adam", "SGD with momentum"};
    const size_t seeds = extents[run->params->scale].seeds;
    double means[ICL_LANDSCAPE_OPTIMIZERS][MOST_POINTS];
    icl_series series[ICL_LANDSCAPE_OPTIMIZERS];
    char name[64], title[96];

    for (int optimizer = 0; optimizer < ICL_LANDSCAPE_OPTIMIZERS; optimizer++) {
        for (size_t point = 0; point < of->points; point++) {
            double values[MOST_SEEDS] = {0};
            size_t count = 0;
            for (size_t seed = 0; seed < seeds; seed++)
                if (!isnan(of->along[optimizer][seed][point]))
                    values[count++] = of->along[optimizer][seed][point];
            means[optimizer][point] = exp(icl_mean(values, count));
        }
        series[optimizer] = (icl_series){labels[optimizer], optimizer == 0 ? ICL_SERIES_OURS : ICL_SERIES_LINE,
                                         of->points,        of->iterations,
                                         means[optimizer],  NULL};
    }
    snprintf(name, sizeof name, "condition-%s", icl_landscape_settings[setting].name);
    snprintf(title, sizeof title, "Robust condition number: %s", icl_landscape_settings[setting].about);
    return ICL_DRAW_FIGURE(run, error, .name = name, .title = title, .x_label = "iteration",
                           .y_label = "max |H_ii| / median |H_ii|", .log_y = true, .count = ICL_LANDSCAPE_OPTIMIZERS,
                           .series = series);
}

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    const extent *is = &extents[run->params->scale];
    trajectory *all = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(SETTINGS, sizeof *all, "trajectories", &all, error));
    for (size_t setting = 0; setting < is->settings; setting++) {
        if (!icl_reproduce_wants(run, icl_landscape_settings[setting].name))
            continue;
        ICL_TRY(measure_setting(run, setting, &all[setting], error));
        if (!icl_reproduce_judges(run))
            continue;
        if (setting == ICL_LANDSCAPE_S1)
            ICL_TRY(judge_curve(run, &all[setting], error));
        for (int k = 0; k < 2 && is->judged[k] > 0; k++) {
            ICL_TRY(judge_ratio(run, setting, k, &all[setting], error));
            if (setting > 0 && all[0].points > 0)
                ICL_TRY(judge_order(run, setting, k, &all[setting], &all[0], error));
        }
        ICL_TRY(draw(run, setting, &all[setting], error));
    }
done:
    icl_free(&all);
    return status;
}

const icl_reproduction icl_landscape_condition = {
    .name = "landscape-condition",
    .source = "arXiv 2310.01082, section 3",
    .about = "robust condition numbers of the loss along the trajectories of Adam and SGD",
    .cost = {"3 s", "4 min", "30 min"},
    .run = reproduce,
};
