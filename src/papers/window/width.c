/*
 * How wide a trained window is (Collins et al. 2024, arXiv 2402.11639, figure 3): the spectral norm of M against the
 * Lipschitz constant, the noise and the length of the context. The paper's grids and plotted values were not at hand;
 * what is judged is that each trained M is near the best w I for its task, which a search finds here, and that w rises
 * with L, 1/sigma and n.
 *
 * For affine functions the loss is (L^2 / 3d) E ||sum_i beta_i x_i - x_q||^2 + sigma^2 E sum_i beta_i^2:
 * L / sigma alone matters.
 */
#include <math.h>
#include <stdio.h>

#include "papers/papers.h"
#include "papers/phrase.h"
#include "papers/window/window.h"

enum { MOST_POINTS = 5, CURVES = 3 };

/* Windows along one axis, for one pair (d, n) or class of functions. */
typedef struct curve {
    icl_window_cell cell;        /* but for what the axis says */
    double printed[MOST_POINTS]; /* w from elsewhere; 0: none */
    unsigned without;            /* bits of points without a window: the mean of all labels is best, w = 0 */
} curve;

/* What the axis is, and how a point of it changes a cell. */
typedef struct axis {
    const char *name, *figure, *title, *label;
    double at[MOST_POINTS];
    void (*apply)(icl_window_cell *cell, double at);
} axis;

/* What a scale has: the points whose bits are set, for the first curves. */
typedef struct extent {
    unsigned points;
    size_t curves, steps, batch, sequences;
    double tolerance; /* of the spectral norm, as a share of the best w */
} extent;

static void apply_lipschitz(icl_window_cell *cell, double at) {
    cell->lipschitz = at;
}

static void apply_noise(icl_window_cell *cell, double at) {
    cell->sigma = 1 / at;
}

static void apply_context(icl_window_cell *cell, double at) {
    cell->n = (size_t)at;
}

/* The signal of a step against its noise grows with L / sigma, and with n; where it is poor, many sequences and small
 * steps keep M's random part small, and where it is good, large steps reach large w. */
static void choose_training(const extent *is, icl_window_cell *cell) {
    const double ratio = cell->lipschitz / cell->sigma;
    cell->learning_rate = ratio < 1 ? .003 : ratio < 3 ? .03 : ratio < 10 ? .1 : ratio < 30 ? .3 : 1;
    cell->batch = ratio >= 1 ? is->batch : cell->n > 50 ? 2 * is->batch : 16 * is->batch;
    cell->steps = is->steps;
}

typedef struct traced {
    size_t count;
    bool has_printed;
    double x[MOST_POINTS], norms[MOST_POINTS], best[MOST_POINTS], printed[MOST_POINTS];
    char labels[3][ICL_WINDOW_NAME];
} traced;

static icl_status trace_point(icl_reproducing *run, const icl_window_cell *cell, const extent *is, double at,
                              double printed, traced *out, icl_error *error) {
    icl_window_trained trained = {{0}};

    ICL_CHECK(icl_window_train(run, cell, is->sequences, &trained, error));
    ICL_CHECK(icl_window_judge(run, cell, &trained, is->tolerance, printed, error));
    out->x[out->count] = at;
    out->norms[out->count] = trained.spectral_norm;
    out->best[out->count] = trained.best;
    out->has_printed = out->has_printed || printed > 0;
    out->printed[out->count++] = printed > 0 ? printed : (double)NAN;
    return ICL_OK;
}

static icl_status trace_curve(icl_reproducing *run, const axis *along, const curve *line, const extent *is, traced *out,
                              icl_error *error) {
    char name[ICL_WINDOW_NAME];

    for (size_t i = 0; i < MOST_POINTS; i++) {
        icl_window_cell cell = line->cell;
        along->apply(&cell, along->at[i]);
        choose_training(is, &cell);
        icl_window_folder(&cell, name);
        if (!((is->points & ~line->without) >> i & 1) || !icl_reproduce_wants(run, name))
            continue;
        ICL_CHECK(icl_reproduce_next(run, trace_point(run, &cell, is, along->at[i], line->printed[i], out, error)));
    }
    return icl_window_judge_order(run, ICL_PHRASE("%s: rises with %s", out->labels[0], along->name), out->count,
                                  out->norms, error);
}

static icl_status draw(icl_reproducing *run, const axis *along, size_t count, traced *all, icl_error *error) {
    icl_series series[3 * CURVES];
    size_t used = 0;

    for (size_t i = 0; i < count; i++) {
        const traced *line = &all[i];
        series[used++] = (icl_series){line->labels[0], ICL_SERIES_OURS, line->count, line->x, line->norms, NULL};
        series[used++] = (icl_series){line->labels[1], ICL_SERIES_REFERENCE, line->count, line->x, line->best, NULL};
        if (line->has_printed)
            series[used++] =
                (icl_series){line->labels[2], ICL_SERIES_PUBLISHED, line->count, line->x, line->printed, NULL};
    }
    return ICL_DRAW_FIGURE(run, error, .name = along->figure, .title = along->title, .x_label = along->label,
                           .y_label = "spectral norm of M", .log_x = true, .log_y = true, .count = used,
                           .series = series);
}

static icl_status trace_all(icl_reproducing *run, const axis *along, const curve *lines,
                            const extent extents[ICL_SCALES], icl_error *error) {
    const extent *is = &extents[run->params->scale];
    traced all[CURVES] = {{0}};

    for (size_t i = 0; i < is->curves; i++) {
        const icl_window_cell *cell = &lines[i].cell;
        char what[ICL_WINDOW_NAME] = "";
        if (cell->n > 0)
            snprintf(what, sizeof what, ", n %zu", cell->n);
        snprintf(all[i].labels[0], ICL_WINDOW_NAME, "%s, d %zu%s", cell->function, cell->d, what);
        snprintf(all[i].labels[2], ICL_WINDOW_NAME, "on a grid of 15 %%, d %zu%s", cell->d, what);
        snprintf(all[i].labels[1], ICL_WINDOW_NAME, "best w, d %zu%s", cell->d, what);
        ICL_CHECK(trace_curve(run, along, &lines[i], is, &all[i], error));
    }
    if (run->findings > 0) /* else nothing was chosen, and an old picture stands */
        ICL_CHECK(draw(run, along, is->curves, all, error));
    return ICL_OK;
}

/* ---- The Lipschitz constant ---- */

static icl_status reproduce_lipschitz(icl_reproducing *run, icl_error *error) {
    static const axis along = {
        "L",         "window-lipschitz", "Softmax attention: narrower windows for steeper functions (figure 3)",
        "L / sigma", {.3, 1, 3, 10, 30}, apply_lipschitz};
    static const curve lines[CURVES] = {
        {{.function = "affine", .d = 5, .n = 20, .sigma = 1}, {.11, .98, 2.9, 5.7, 6.6}},
        {{.function = "affine", .d = 2, .n = 20, .sigma = 1}, {.25, 1.5, 3.8, 8.6, 14.8}},
        {{.function = "affine", .d = 5, .n = 100, .sigma = 1}, {.50, 2.5, 5.0, 9.8, 11.3}},
    };
    static const extent extents[ICL_SCALES] = {
        {2 + 4 + 8, 1, 400, 512, 8192, .25},
        {31, 3, 1500, 512, 32768, .2},
        {31, 3, 6000, 1024, 100000, .1},
    };
    return trace_all(run, &along, lines, extents, error);
}

const icl_reproduction icl_window_lipschitz = {
    .name = "window-lipschitz",
    .source = "arXiv 2402.11639, figure 3",
    .about = "the width of softmax attention's window against the Lipschitz constant of affine functions",
    .cost = {"3 s", "1 min", "10 min"},
    .is_shared = true,
    .run = reproduce_lipschitz,
};

/* ---- Noise ---- */

static icl_status reproduce_noise(icl_reproducing *run, icl_error *error) {
    static const axis along = {
        "1 / sigma", "window-noise",     "Softmax attention: wider windows for noisier labels (figure 3)",
        "1 / sigma", {.3, 1, 3, 10, 30}, apply_noise};
    static const curve lines[CURVES] = {
        {{.function = "relu", .d = 5, .n = 20, .lipschitz = 1}, {0}},
        {{.function = "relu", .d = 2, .n = 20, .lipschitz = 1}, {0}},
        /* An even function of small range: scores do not correlate with it, so where noise is large
         * nothing beats the mean. */
        {{.function = "cosine", .d = 2, .n = 20, .lipschitz = 1}, {0}, .without = 1 + 2},
    };
    static const extent extents[ICL_SCALES] = {
        {2 + 4 + 8, 1, 400, 512, 8192, .25},
        {31, 2, 1500, 512, 32768, .2},
        {31, 3, 6000, 1024, 100000, .1},
    };
    return trace_all(run, &along, lines, extents, error);
}

const icl_reproduction icl_window_noise = {
    .name = "window-noise",
    .source = "arXiv 2402.11639, figure 3",
    .about = "the width of softmax attention's window against the noise of the labels",
    .cost = {"3 s", "1 min", "10 min"},
    .is_shared = true,
    .run = reproduce_noise,
};

/* ---- The context ---- */

static icl_status reproduce_context(icl_reproducing *run, icl_error *error) {
    static const axis along = {
        "n", "window-context",     "Softmax attention: narrower windows in longer contexts (figure 3)",
        "n", {5, 10, 20, 50, 100}, apply_context};
    static const curve lines[CURVES] = {
        {{.function = "affine", .d = 5, .lipschitz = 3, .sigma = 1}, {0, 0, 2.9, 0, 5.0}},
        {{.function = "affine", .d = 2, .lipschitz = 3, .sigma = 1}, {0, 0, 3.8, 0, 0}},
    };
    static const extent extents[ICL_SCALES] = {
        {1 + 4 + 8, 1, 400, 256, 8192, .25},
        {31, 2, 1500, 512, 32768, .2},
        {31, 2, 6000, 1024, 100000, .1},
    };
    return trace_all(run, &along, lines, extents, error);
}

const icl_reproduction icl_window_context = {
    .name = "window-context",
    .source = "arXiv 2402.11639, figure 3",
    .about = "the width of softmax attention's window against the length of the context",
    .cost = {"2 s", "1 min", "5 min"},
    .is_shared = true,
    .run = reproduce_context,
};
