/*
 * Noise of the stochastic gradient before training (arXiv 2310.01082, section 3): how far the gradient of a batch of
 * 1000 sequences lies from that of many. Its distribution has a light tail with normal inputs, and a heavy one with
 * heavy-tailed inputs.
 *
 * The tail index is Hill's, of the largest 5 %: P(noise > x) ~ x^-index.
 */
#include <math.h>
#include <stdio.h>

#include "core/allocate.h"
#include "core/print.h"
#include "numeric/statistics.h"
#include "papers/landscape/landscape.h"
#include "papers/papers.h"

enum { BATCH = 1000, LAYERS = 3, BINS = 40, MOST_DEPTHS = 3 };

#define TAIL .05

typedef struct extent {
    unsigned settings;          /* whose bits are set */
    size_t batches, sequences;  /* sequences: of the gradient that noise is the distance from */
    size_t depths[MOST_DEPTHS]; /* of S1 beside three layers; 0: no more */
} extent;

#define ALL_SETTINGS ((1u << ICL_LANDSCAPE_SETTINGS) - 1)

static const extent extents[ICL_SCALES] = {{1u << ICL_LANDSCAPE_S1 | 1u << ICL_LANDSCAPE_S3, 500, 40000, {0}},
                                           {ALL_SETTINGS, 2000, 100000, {2, 6}},
                                           {ALL_SETTINGS, 10000, 100000, {2, 6, 8}}};

typedef struct noise {
    double median, index, index_error, largest; /* largest: over the median */
} noise;

/* ---- Measuring ---- */

static double distance(const double *a, const double *b, size_t size) {
    double square = 0;
    for (size_t i = 0; i < size; i++)
        square += (a[i] - b[i]) * (a[i] - b[i]);
    return sqrt(square);
}

/* The gradient of many sequences at the initial parameters. */
static icl_status full_gradient(icl_reproducing *run, const icl_landscape_cell *cell, double **gradient,
                                icl_error *error) {
    icl_landscape_view view = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_landscape_view_open(run, cell, extents[run->params->scale].sequences, &view, error));
    ICL_TRY(icl_allocate(view.size, sizeof **gradient, "gradient", gradient, error));
    ICL_TRY(icl_landscape_view_initial(&view, cell->seed, error));
    ICL_TRY(icl_objective_gradient(view.objective, view.at, NULL, *gradient, error));
done:
    icl_landscape_view_close(&view);
    return status;
}

/* distances[count]: of the gradients of as many batches, with sequences other than those. */
static icl_status measure(icl_reproducing *run, const icl_landscape_cell *cell, size_t count, double *distances,
                          icl_error *error) {
    icl_landscape_view view = {0};
    double *full = NULL, *gradient = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(full_gradient(run, cell, &full, error));
    ICL_TRY(icl_landscape_view_open(run, cell, BATCH, &view, error));
    ICL_TRY(icl_landscape_view_initial(&view, cell->seed, error));
    ICL_TRY(icl_allocate(view.size, sizeof *gradient, "gradient", &gradient, error));
    for (size_t i = 0; i < count; i++) {
        ICL_TRY(icl_reproduce_poll(run, error));
        ICL_TRY(icl_objective_draw(view.objective, run->params->seed, ((uint64_t)1 << 20) + i, error));
        ICL_TRY(icl_objective_gradient(view.objective, view.at, NULL, gradient, error));
        distances[i] = distance(gradient, full, view.size);
    }
done:
    icl_landscape_view_close(&view);
    icl_free(&full);
    icl_free(&gradient);
    return status;
}

/* Sorts the distances. */
static noise summarise(double *distances, size_t count) {
    const size_t largest = (size_t)(TAIL * (double)count);
    noise of = {.median = icl_median(distances, count), .index = icl_tail_index(distances, count, largest)};
    of.index_error = of.index / sqrt((double)largest);
    of.largest = distances[count - 1] / of.median;
    return of;
}

/* ---- Figures ---- */

/* A histogram of the noise over its median: shares of the batches in bins of equal width of the logarithm. */
static icl_status draw(icl_reproducing *run, const char *name, const char *about, const double *distances, size_t count,
                       const noise *of, icl_error *error) {
    const double low = log(.25), width = (log(64) - low) / BINS;
    double x[BINS], y[BINS] = {0};
    char file[64], title[128];

    for (size_t i = 0; i < count; i++) {
        const double bin = floor((log(distances[i] / of->median) - low) / width);
        y[bin < 0 ? 0 : bin >= BINS ? BINS - 1 : (size_t)bin] += 1 / (double)count;
    }
    for (int i = 0; i < BINS; i++) {
        x[i] = exp(low + (i + .5) * width);
        if (y[i] <= 0)
            y[i] = (double)NAN; /* no point on a logarithmic axis */
    }
    snprintf(file, sizeof file, "noise-%s", name);
    snprintf(title, sizeof title, "Gradient noise before training: %s", about);
    return ICL_DRAW_FIGURE(run, error, .name = file, .title = title,
                           .x_label = "|gradient of a batch - full gradient| / median", .y_label = "share of batches",
                           .log_x = true, .log_y = true, .count = 1,
                           .series = &(icl_series){"batches of 1000", ICL_SERIES_OURS, BINS, x, y, NULL});
}

/* ---- Judging ---- */

static icl_status report(icl_reproducing *run, const char *name, const noise *of, icl_error *error) {
    char note[96];

    icl_print(note, sizeof note, "median %.3g; the largest of %zu batches is %.3g times that", of->median,
              extents[run->params->scale].batches, of->largest);
    return ICL_FOUND(run, error, .what = name, .quantity = "tail index of the noise", .ours = of->index,
                     .standard_error = of->index_error, .note = note);
}

/* The median beside the mode of the authors' histogram of S1. */
static icl_status judge_size(icl_reproducing *run, const noise *of, icl_error *error) {
    return ICL_FOUND(run, error, .what = "S1", .quantity = "median noise", .ours = of->median, .target = 2.1,
                     .tolerance = 1, .criterion = ICL_WITHIN, .evidence = ICL_READ, .source = "authors' notebook: mode",
                     .note = "of one initial model");
}

static icl_status judge_tail(icl_reproducing *run, const noise *heavy, const noise *light, icl_error *error) {
    return ICL_FOUND(run, error, .what = "S3 against S1", .quantity = "ratio of the tail indices",
                     .ours = heavy->index / light->index,
                     .standard_error = heavy->index / light->index *
                                       hypot(heavy->index_error / heavy->index, light->index_error / light->index),
                     .target = 1, .criterion = ICL_AT_MOST, .evidence = ICL_READ,
                     .source = "heavier with heavy-tailed inputs");
}

/* ---- Cells ---- */

static icl_status reproduce_cell(icl_reproducing *run, const icl_landscape_cell *cell, const char *name,
                                 const char *about, noise *of, icl_error *error) {
    const size_t count = extents[run->params->scale].batches;
    double *distances = NULL;
    icl_status status = ICL_OK;

    icl_reproduce_say(run, "%s: %zu gradients", name, count);
    ICL_TRY(icl_allocate(count, sizeof *distances, "distances", &distances, error));
    ICL_TRY(measure(run, cell, count, distances, error));
    *of = summarise(distances, count);
    ICL_TRY(report(run, name, of, error));
    ICL_TRY(draw(run, name, about, distances, count, of, error));
done:
    icl_free(&distances);
    return status;
}

static icl_status reproduce_depths(icl_reproducing *run, icl_error *error) {
    const size_t *depths = extents[run->params->scale].depths;

    for (size_t i = 0; i < MOST_DEPTHS && depths[i] > 0; i++) {
        const icl_landscape_cell cell = {.setting = ICL_LANDSCAPE_S1, .layers = depths[i], .seed = run->params->seed};
        char name[32], about[64];
        noise of;
        snprintf(name, sizeof name, "S1-depth%zu", depths[i]);
        snprintf(about, sizeof about, "S1, %zu layers", depths[i]);
        if (icl_reproduce_wants(run, name) && icl_reproduce_judges(run))
            ICL_CHECK(reproduce_cell(run, &cell, name, about, &of, error));
    }
    return ICL_OK;
}

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    noise of[ICL_LANDSCAPE_SETTINGS] = {{0}};

    for (size_t setting = 0; setting < ICL_LANDSCAPE_SETTINGS; setting++) {
        const icl_landscape_setting *is = &icl_landscape_settings[setting];
        const icl_landscape_cell cell = {.setting = setting, .layers = LAYERS, .seed = run->params->seed};
        if ((extents[run->params->scale].settings >> setting & 1u) && icl_reproduce_wants(run, is->name) &&
            icl_reproduce_judges(run))
            ICL_CHECK(reproduce_cell(run, &cell, is->name, is->about, &of[setting], error));
    }
    if (of[ICL_LANDSCAPE_S1].median > 0)
        ICL_CHECK(judge_size(run, &of[ICL_LANDSCAPE_S1], error));
    if (of[ICL_LANDSCAPE_S1].median > 0 && of[ICL_LANDSCAPE_S3].median > 0)
        ICL_CHECK(judge_tail(run, &of[ICL_LANDSCAPE_S3], &of[ICL_LANDSCAPE_S1], error));
    return reproduce_depths(run, error);
}

const icl_reproduction icl_landscape_noise = {
    .name = "landscape-noise",
    .source = "arXiv 2310.01082, section 3",
    .about = "distribution of the stochastic gradient's noise before training, with its tail index",
    .cost = {"3 s", "1 min", "5 min"},
    .run = reproduce,
};
