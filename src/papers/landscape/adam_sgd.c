/*
 * Loss curves of Adam and of SGD with momentum (arXiv 2310.01082, section 3): shallow linear transformers show the gap
 * between the two that deep ones are known for, and it grows with depth.
 *
 * Losses are measured on fresh sequences that are the same for all runs. The gap is judged by means without the largest
 * 1 %: with heavy-tailed inputs, or a short context, a few sequences carry a plain mean, at times by orders of
 * magnitude. Levels are judged by plain ones, which is what the authors' curves show.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "core/allocate.h"
#include "core/print.h"
#include "numeric/statistics.h"
#include "papers/landscape/landscape.h"
#include "papers/papers.h"

enum { MOST_SEEDS = 6, MOST_POINTS = 64, MOST_DEPTHS = 4, THREE_LAYERS = 3, RATES = 5, SEARCH_STEPS = 2000 };

#define TRIMMED .01

typedef struct extent {
    size_t settings, seeds, steps, sequences;
    size_t depths[MOST_DEPTHS], depth_seeds, depth_steps; /* of the sweep over layers; 0: no more */
    size_t softmax_steps;                                 /* of as many seeds; 0: without */
    bool searches_rates;
} extent;

static const extent extents[ICL_SCALES] = {
    {1, 2, 250, 4000, {0}, 0, 0, 0, false},
    {ICL_LANDSCAPE_SETTINGS, 6, 1500, 10000, {2, 4}, 3, 1500, 500, false},
    {ICL_LANDSCAPE_SETTINGS, 6, 10000, 100000, {2, 4, 6, 8}, 6, 10000, 2000, true},
};

/* What came of one setting or depth: losses along the way, trimmed and plain; NaN for a run that diverged. */
typedef struct curves {
    size_t points, seeds;
    double iterations[MOST_POINTS];
    double trimmed[ICL_LANDSCAPE_OPTIMIZERS][MOST_SEEDS][MOST_POINTS];
    double plain[ICL_LANDSCAPE_OPTIMIZERS][MOST_SEEDS][MOST_POINTS];
} curves;

/* ---- Measuring ---- */

static icl_status measure(icl_reproducing *run, const icl_landscape_cell *cell, icl_landscape_view *view,
                          double *losses, size_t seed, curves *out, icl_error *error) {
    const size_t count = icl_objective_sequences(view->objective);

    for (size_t point = 0; point < out->points; point++) {
        ICL_CHECK(icl_reproduce_poll(run, error));
        ICL_CHECK(icl_landscape_model_at(run, cell, view->model, point * ICL_LANDSCAPE_EVERY, view->at, error));
        ICL_CHECK(icl_objective_losses(view->objective, view->at, losses, error));
        out->plain[cell->optimizer][seed][point] = icl_mean(losses, count);
        out->trimmed[cell->optimizer][seed][point] = icl_trimmed_mean(losses, count, TRIMMED);
    }
    return ICL_OK;
}

#define BOTH (1u << ICL_LANDSCAPE_ADAM | 1u << ICL_LANDSCAPE_SGD)

/* Trains `seeds` seeds of the optimizers whose bits are set, with the rates given, and measures them. */
static icl_status measure_curves(icl_reproducing *run, icl_landscape_cell cell, unsigned optimizers, size_t seeds,
                                 const double rates[ICL_LANDSCAPE_OPTIMIZERS], curves *out, icl_error *error) {
    icl_landscape_view view = {0};
    double *losses = NULL;
    icl_status status = ICL_OK;

    *out = (curves){.points = cell.steps / ICL_LANDSCAPE_EVERY + 1, .seeds = seeds};
    for (size_t point = 0; point < out->points; point++)
        out->iterations[point] = (double)(point * ICL_LANDSCAPE_EVERY);
    ICL_TRY(icl_landscape_view_open(run, &cell, extents[run->params->scale].sequences, &view, error));
    ICL_TRY(icl_allocate(icl_objective_sequences(view.objective), sizeof *losses, "losses", &losses, error));
    for (size_t seed = 0; seed < seeds; seed++)
        for (int optimizer = 0; optimizer < ICL_LANDSCAPE_OPTIMIZERS; optimizer++) {
            if (!(optimizers >> optimizer & 1u))
                continue;
            cell.optimizer = (icl_landscape_optimizer)optimizer;
            cell.rate = rates[optimizer];
            cell.seed = icl_reproduce_seed(run, seed);
            status = icl_landscape_train(run, &cell, error);
            if (status == ICL_OK && icl_reproduce_judges(run))
                status = measure(run, &cell, &view, losses, seed, out, error);
            if (status != ICL_ERROR_DIVERGED)
                ICL_TRY(status);
            for (size_t point = 0; status == ICL_ERROR_DIVERGED && point < out->points; point++)
                out->plain[optimizer][seed][point] = out->trimmed[optimizer][seed][point] = (double)NAN;
        }
    status = ICL_OK;
done:
    icl_landscape_view_close(&view);
    icl_free(&losses);
    return status;
}

/* ---- Learning rates ---- */

static const double factors[RATES] = {.25, .5, 1, 2, 4}; /* of the authors' rate, ascending */

/* The best of that grid, by the trimmed loss of the run's seed after 2000 steps. */
static icl_status search_rate(icl_reproducing *run, icl_landscape_cell cell, double *best_rate, icl_error *error) {
    const double authors = icl_landscape_settings[cell.setting].rates[cell.optimizer];
    icl_landscape_view view = {0};
    double *losses = NULL, best = (double)INFINITY;
    icl_status status = ICL_OK;

    cell.steps = SEARCH_STEPS;
    cell.seed = run->params->seed;
    ICL_TRY(icl_landscape_view_open(run, &cell, extents[run->params->scale].sequences, &view, error));
    ICL_TRY(icl_allocate(icl_objective_sequences(view.objective), sizeof *losses, "losses", &losses, error));
    *best_rate = authors;
    for (int i = 0; i < RATES; i++) {
        cell.rate = factors[i] * authors;
        status = icl_landscape_train(run, &cell, error);
        if (status == ICL_ERROR_DIVERGED)
            continue;
        ICL_TRY(status);
        if (!icl_reproduce_judges(run))
            continue;
        ICL_TRY(icl_landscape_model_at(run, &cell, view.model, SEARCH_STEPS, view.at, error));
        ICL_TRY(icl_objective_losses(view.objective, view.at, losses, error));
        const double loss = icl_trimmed_mean(losses, icl_objective_sequences(view.objective), TRIMMED);
        if (loss < best) {
            best = loss;
            *best_rate = cell.rate;
        }
    }
    status = ICL_OK;
done:
    icl_landscape_view_close(&view);
    icl_free(&losses);
    return status;
}

static icl_status choose_rates(icl_reproducing *run, icl_landscape_cell cell, double rates[ICL_LANDSCAPE_OPTIMIZERS],
                               icl_error *error) {
    const icl_landscape_setting *setting = &icl_landscape_settings[cell.setting];

    for (int optimizer = 0; optimizer < ICL_LANDSCAPE_OPTIMIZERS; optimizer++) {
        char what[64], note[96];
        rates[optimizer] = setting->rates[optimizer];
        if (!extents[run->params->scale].searches_rates)
            continue;
        cell.optimizer = (icl_landscape_optimizer)optimizer;
        ICL_CHECK(search_rate(run, cell, &rates[optimizer], error));
        snprintf(what, sizeof what, "%s, %s", setting->name, icl_landscape_optimizers[optimizer]);
        const double factor = rates[optimizer] / setting->rates[optimizer];
        icl_print(note, sizeof note, "authors' code: %.3g%s", setting->rates[optimizer],
                  factor <= factors[0] || factor >= factors[RATES - 1] ? "; at an end of the five" : "");
        ICL_CHECK(ICL_FOUND(run, error, .what = what, .quantity = "best learning rate of five",
                            .ours = rates[optimizer], .note = note));
    }
    return ICL_OK;
}

/* ---- Judging ---- */

/* log(loss of Adam / loss of SGD) after the last step; returns of how many seeds. Where Adam diverged it is infinite,
 * so that nothing is better for it; seeds where SGD alone did are left out. */
static size_t log_gaps(const curves *of, double gaps[MOST_SEEDS]) {
    size_t count = 0;
    for (size_t seed = 0; seed < of->seeds; seed++) {
        const double adam = of->trimmed[ICL_LANDSCAPE_ADAM][seed][of->points - 1];
        const double sgd = of->trimmed[ICL_LANDSCAPE_SGD][seed][of->points - 1];
        if (isnan(adam))
            gaps[count++] = (double)INFINITY;
        else if (!isnan(sgd))
            gaps[count++] = log(adam / sgd);
    }
    return count;
}

static double mean_at(const double losses[MOST_SEEDS][MOST_POINTS], size_t seeds, size_t point, double *error) {
    double values[MOST_SEEDS] = {0};
    for (size_t seed = 0; seed < seeds; seed++)
        values[seed] = losses[seed][point];
    if (error)
        *error = icl_standard_error(values, seeds);
    return icl_mean(values, seeds);
}

static icl_status report_gap(icl_reproducing *run, const char *name, const curves *of, icl_evidence evidence,
                             icl_error *error) {
    const size_t last = of->points - 1;
    double gaps[MOST_SEEDS] = {0};
    const size_t count = log_gaps(of, gaps);
    char what[64], note[160];

    icl_print(what, sizeof what, "%s, iteration %.0f", name, of->iterations[last]);
    icl_print(note, sizeof note, "%zu seeds from %" PRIu32 "; Adam %.3g, SGD %.3g; plain means %.3g, %.3g", count,
              run->params->seed, mean_at(of->trimmed[ICL_LANDSCAPE_ADAM], of->seeds, last, NULL),
              mean_at(of->trimmed[ICL_LANDSCAPE_SGD], of->seeds, last, NULL),
              mean_at(of->plain[ICL_LANDSCAPE_ADAM], of->seeds, last, NULL),
              mean_at(of->plain[ICL_LANDSCAPE_SGD], of->seeds, last, NULL));
    return ICL_FOUND(run, error, .what = what, .quantity = "log of the loss of Adam / of SGD",
                     .ours = count > 0 ? icl_mean(gaps, count) : (double)NAN,
                     .standard_error = icl_standard_error(gaps, count), .target = 0, .criterion = ICL_AT_MOST,
                     .evidence = evidence, .source = "Adam ends below SGD", .note = note);
}

/* What can be read off the loss curves in the authors' notebook, and what no model can go below. */
static icl_status judge_levels(icl_reproducing *run, size_t setting, const curves *of, icl_error *error) {
    static const struct {
        size_t setting, iteration;
        icl_landscape_optimizer optimizer;
        double target, tolerance; /* tolerance: of log10 */
        icl_criterion criterion;
        icl_evidence evidence;
        const char *source;
    } known[] = {
        {ICL_LANDSCAPE_S1, 1000, ICL_LANDSCAPE_ADAM, 1.6e-3, .4, ICL_WITHIN, ICL_READ, "authors' notebook"},
        {ICL_LANDSCAPE_S1, 1500, ICL_LANDSCAPE_SGD, 2.5e-2, .3, ICL_WITHIN, ICL_READ, "authors' notebook"},
        {ICL_LANDSCAPE_S1, 10000, ICL_LANDSCAPE_SGD, 8e-3, .4, ICL_WITHIN, ICL_READ, "authors' notebook"},
        {ICL_LANDSCAPE_S1, 0, ICL_LANDSCAPE_ADAM, 6.70e-4, .04, ICL_AT_LEAST, ICL_COMPUTED,
         "least loss of three layers"},
        {ICL_LANDSCAPE_S2, 0, ICL_LANDSCAPE_ADAM, .657, .02, ICL_AT_LEAST, ICL_COMPUTED, "least loss of three layers"},
    };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const size_t point = known[i].iteration > 0 ? known[i].iteration / ICL_LANDSCAPE_EVERY : of->points - 1;
        double error_of_mean = 0, mean;
        char what[64];
        if (known[i].setting != setting || point >= of->points)
            continue;
        mean = mean_at(of->plain[known[i].optimizer], of->seeds, point, &error_of_mean);
        icl_print(what, sizeof what, "%s, %s, iteration %.0f", icl_landscape_settings[setting].name,
                  icl_landscape_optimizers[known[i].optimizer], of->iterations[point]);
        ICL_CHECK(ICL_FOUND(run, error, .what = what, .quantity = "log10 of the loss", .ours = log10(mean),
                            .standard_error = error_of_mean / mean / log(10), .target = log10(known[i].target),
                            .tolerance = known[i].tolerance, .criterion = known[i].criterion,
                            .evidence = known[i].evidence, .source = known[i].source));
    }
    return ICL_OK;
}

/* Each depth's gap against that of the depth before: not smaller by more than two standard errors. */
static icl_status judge_depth(icl_reproducing *run, size_t depth, const curves *shallow, const curves *deep,
                              icl_error *error) {
    double gaps[2][MOST_SEEDS] = {{0}};
    const size_t counts[2] = {log_gaps(shallow, gaps[0]), log_gaps(deep, gaps[1])};
    const double deviation = hypot(icl_standard_error(gaps[0], counts[0]), icl_standard_error(gaps[1], counts[1]));
    char what[64];

    snprintf(what, sizeof what, "%zu layers against %zu", extents[run->params->scale].depths[depth],
             extents[run->params->scale].depths[depth - 1]);
    return ICL_FOUND(run, error, .what = what, .quantity = "change of the log of the loss of Adam / of SGD",
                     .ours = icl_mean(gaps[1], counts[1]) - icl_mean(gaps[0], counts[0]), .standard_error = deviation,
                     .target = 0, .tolerance = 2 * deviation, .criterion = ICL_AT_MOST,
                     .evidence = depth == 1 ? ICL_READ : ICL_EVIDENCE_NONE, .source = "the gap grows with depth",
                     .note = "tolerance: two standard errors");
}

/* ---- Figures ---- */

/* One line for each of two runs, the mean over their seeds. */
static icl_status draw_lines(icl_reproducing *run, const char *name, const char *about, const curves *of,
                             const char *const labels[2], const double (*losses[2])[MOST_POINTS], icl_error *error) {
    double means[2][MOST_POINTS];
    icl_series series[2];
    char file[64], title[128];

    for (int line = 0; line < 2; line++) {
        for (size_t point = 0; point < of->points; point++)
            means[line][point] = mean_at(losses[line], of->seeds, point, NULL);
        series[line] = (icl_series){
            labels[line], line == 0 ? ICL_SERIES_OURS : ICL_SERIES_LINE, of->points, of->iterations, means[line], NULL};
    }
    snprintf(file, sizeof file, "loss-%s", name);
    snprintf(title, sizeof title, "Loss without the largest 1 %%: %s", about);
    return ICL_DRAW_FIGURE(run, error, .name = file, .title = title, .x_label = "iteration", .y_label = "squared error",
                           .log_y = true, .count = 2, .series = series);
}

static icl_status draw(icl_reproducing *run, const char *name, const char *about, const curves *of, icl_error *error) {
    return draw_lines(run, name, about, of, (const char *const[]){"Adam", "SGD with momentum"},
                      (const double(*[])[MOST_POINTS]){of->trimmed[ICL_LANDSCAPE_ADAM], of->trimmed[ICL_LANDSCAPE_SGD]},
                      error);
}

/* ---- Cells ---- */

static icl_status reproduce_setting(icl_reproducing *run, size_t setting, curves *of, icl_error *error) {
    const extent *is = &extents[run->params->scale];
    const icl_landscape_cell cell = {.setting = setting, .layers = THREE_LAYERS, .steps = is->steps};
    const char *name = icl_landscape_settings[setting].name;
    double rates[ICL_LANDSCAPE_OPTIMIZERS];

    if (!icl_reproduce_wants(run, name))
        return ICL_OK;
    ICL_CHECK(choose_rates(run, cell, rates, error));
    ICL_CHECK(measure_curves(run, cell, BOTH, is->seeds, rates, of, error));
    if (!icl_reproduce_judges(run))
        return ICL_OK;
    ICL_CHECK(report_gap(run, name, of, ICL_READ, error));
    ICL_CHECK(judge_levels(run, setting, of, error));
    return draw(run, name, icl_landscape_settings[setting].about, of, error);
}

static icl_status reproduce_depths(icl_reproducing *run, curves of[2], icl_error *error) {
    const extent *is = &extents[run->params->scale];
    const double *rates = icl_landscape_settings[ICL_LANDSCAPE_S1].rates;
    bool is_measured[MOST_DEPTHS] = {false};

    for (size_t depth = 0; depth < MOST_DEPTHS && is->depths[depth] > 0; depth++) {
        const icl_landscape_cell cell = {
            .setting = ICL_LANDSCAPE_S1, .layers = is->depths[depth], .steps = is->depth_steps};
        curves *deep = &of[depth % 2];
        char name[32], about[64];
        snprintf(name, sizeof name, "depth%zu", is->depths[depth]);
        snprintf(about, sizeof about, "S1, %zu layers", is->depths[depth]);
        is_measured[depth] = icl_reproduce_wants(run, name);
        if (!is_measured[depth])
            continue;
        ICL_CHECK(measure_curves(run, cell, BOTH, is->depth_seeds, rates, deep, error));
        if (!icl_reproduce_judges(run))
            continue;
        ICL_CHECK(report_gap(run, name, deep, ICL_EVIDENCE_NONE, error));
        if (depth > 0 && is_measured[depth - 1])
            ICL_CHECK(judge_depth(run, depth, &of[(depth - 1) % 2], deep, error));
        ICL_CHECK(draw(run, name, about, deep, error));
    }
    return ICL_OK;
}

/* Softmax attention beside linear attention in setting 1, both with Adam. */
static icl_status reproduce_softmax(icl_reproducing *run, curves of[2], icl_error *error) {
    const extent *is = &extents[run->params->scale];
    icl_landscape_cell cell = {.setting = ICL_LANDSCAPE_S1, .layers = THREE_LAYERS, .steps = is->softmax_steps};
    const double *rates = icl_landscape_settings[ICL_LANDSCAPE_S1].rates;
    double losses[2] = {0}, errors[2] = {0};
    char note[96];

    if (is->softmax_steps == 0 || !icl_reproduce_wants(run, "softmax"))
        return ICL_OK;
    for (int softmax = 0; softmax < 2; softmax++) {
        cell.softmax = softmax;
        ICL_CHECK(measure_curves(run, cell, 1u << ICL_LANDSCAPE_ADAM, is->depth_seeds, rates, &of[softmax], error));
        if (!icl_reproduce_judges(run))
            continue;
        losses[softmax] = mean_at(of[softmax].trimmed[ICL_LANDSCAPE_ADAM], of[softmax].seeds, of[softmax].points - 1,
                                  &errors[softmax]);
    }
    if (!icl_reproduce_judges(run))
        return ICL_OK;
    icl_print(note, sizeof note, "%zu seeds with Adam, iteration %zu: linear %.3g, softmax %.3g", is->depth_seeds,
              is->softmax_steps, losses[0], losses[1]);
    ICL_CHECK(ICL_FOUND(run, error, .what = "S1, linear against softmax", .quantity = "log of the ratio of the losses",
                        .ours = log(losses[0] / losses[1]),
                        .standard_error = hypot(errors[0] / losses[0], errors[1] / losses[1]), .target = 0,
                        .criterion = ICL_AT_MOST, .evidence = ICL_READ, .source = "linear falls much faster",
                        .note = note));
    return draw_lines(
        run, "softmax", "S1, Adam", of, (const char *const[]){"linear attention", "softmax attention"},
        (const double(*[])[MOST_POINTS]){of[0].trimmed[ICL_LANDSCAPE_ADAM], of[1].trimmed[ICL_LANDSCAPE_ADAM]}, error);
}

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    curves *of = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(2, sizeof *of, "loss curves", &of, error));
    for (size_t setting = 0; setting < extents[run->params->scale].settings; setting++)
        ICL_TRY(reproduce_setting(run, setting, of, error));
    ICL_TRY(reproduce_depths(run, of, error));
    ICL_TRY(reproduce_softmax(run, of, error));
done:
    icl_free(&of);
    return status;
}

const icl_reproduction icl_landscape_adam_sgd = {
    .name = "landscape-adam-sgd",
    .source = "arXiv 2310.01082, section 3",
    .about = "loss curves of Adam and SGD with momentum in four settings, and over depth",
    .cost = {"2 s", "4 min", "1 h"},
    .run = reproduce,
};
