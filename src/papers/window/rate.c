/*
 * The best window of softmax attention narrows with the context. Collins et al. 2024 (window.c), theorem 3.4: for
 * affine functions on the unit sphere it lies between (n L^2 / sigma^2)^(1 / (d + 2)) and its square, up to constants.
 *
 * Long contexts have an exponent of their own. Weights exp(w <x_i, x_q>) are those of a normal window of variance 1
 * / w on a surface of d - 1 dimensions. The slope across a symmetric window cancels, so that what is left of an affine
 * function is the surface's curvature: a bias of L (d - 1) / (2 w) along x_q, of which the square falls as L^2 / w^2.
 * About n w^(-(d - 1) / 2) labels are averaged, which leaves sigma^2 w^((d - 1) / 2) / n. The sum is least at
 * w ~ (n L^2 / sigma^2)^(2 / (d + 3)), inside the theorem's interval.
 *
 * The exponent needs no training. Trained windows, which begin at w = 1, are set beside the best ones of their context.
 */
#include <math.h>

#include "model/model.h"
#include "numeric/statistics.h"
#include "papers/papers.h"
#include "probe/window.h"

enum { DIMENSIONS = 2, CONTEXTS = 6, TRAINED = 2, SETS = 4, MOST_D = 5 };

#define RATIO 3.0 /* L / sigma */

static const size_t dimensions[DIMENSIONS] = {2, 5};

/* Windows are trained in the first contexts, which are short. The exponent is that of the others: L / sigma is large
 * enough for windows that are narrow, and these contexts are long enough for many labels in each. Shorter ones have
 * larger exponents: .29 from n = 64 to 4096 at d = 5. */
static const size_t contexts[CONTEXTS] = {64, 256, 1024, 2048, 4096, 8192};
static const size_t sequences[ICL_SCALES] = {250, 1000, 1000}; /* of a set */
static const struct {
    size_t contexts, steps, batch;
} budgets[ICL_SCALES] = {{1, 300, 128}, {2, 600, 256}, {2, 2000, 1024}};

static void add_trained(icl_study *study, const icl_study_cell *best) {
    const icl_study_cell *trained = ICL_ADD_CELL(
        study, .name = ICL_PHRASE("%s, trained", best->name), .recipe = "window", .at = {best->at[0], best->at[1]},
        .folder = best->name,
        .settings = {best->settings[0], ICL_PHRASE("train.batch=%zu train.steps=%zu train.learning_rate=0.3",
                                                   budgets[study->scale].batch, budgets[study->scale].steps)},
        .curve = ICL_PHRASE("%s, trained", best->curve), .x = best->x);
    icl_study_need(study, trained, best);
}

static void plan(icl_study *study) {
    for (size_t d = 0; d < DIMENSIONS; d++)
        for (size_t i = 0; i < CONTEXTS; i++) {
            const size_t n = contexts[i];
            if (i < TRAINED && i >= budgets[study->scale].contexts)
                continue;
            const icl_study_cell *best =
                ICL_ADD_CELL(study, .name = ICL_PHRASE("d%zu-n%zu", dimensions[d], n), .recipe = "window",
                             .is_untrained = true, .at = {d, n},
                             .settings = {ICL_PHRASE("task.d=%zu task.n=%zu task.noise=fixed:1 task.lipschitz=%g",
                                                     dimensions[d], n, RATIO)},
                             .curve = ICL_PHRASE("d = %zu", dimensions[d]), .x = (double)n * RATIO * RATIO);
            if (best && i < budgets[study->scale].contexts)
                add_trained(study, best);
        }
}

/* Reads w of a trained M, which is near w I: the mean of its diagonal. */
static icl_status read_width(icl_trainer *trained, icl_number *width, icl_error *error) {
    const size_t d = icl_task_dimension(icl_trainer_task(trained));
    float values[MOST_D * MOST_D];
    double M[MOST_D * MOST_D], trace = 0;

    ICL_CHECK(icl_trainer_get_parameters(trained, values, error));
    ICL_CHECK(icl_matrix_of_model(icl_trainer_model(trained), values, "M", d, d, M, error));
    for (size_t i = 0; i < d; i++)
        trace += M[i * d + i];
    width->value = trace / (double)d;
    return ICL_OK;
}

/* Finds the best window on each of several sets of sequences. */
static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    double widths[SETS];

    if (!cell->is_untrained)
        return read_width(trained, numbers, error);
    for (size_t i = 0; i < SETS; i++) {
        icl_window_set set = {0};
        icl_status status = icl_reproduce_poll(study->run, error);
        if (status == ICL_OK)
            status = icl_window_draw(study->run->params->backend, cell->complete, ICL_FOR_FITTING,
                                     icl_study_seed(study, i), sequences[study->scale], &set, error);
        if (status == ICL_OK)
            widths[i] = icl_window_search(&set, NULL);
        icl_window_release(&set);
        if (status != ICL_OK)
            return status;
    }
    *numbers = (icl_number){icl_mean(widths, SETS), icl_standard_error(widths, SETS)};
    return ICL_OK;
}

static double best_width(const icl_study *study, const icl_study_cell *cell) {
    for (size_t i = 0; i < study->count; i++)
        if (study->cells[i]->is_untrained && study->cells[i]->at[0] == cell->at[0] &&
            study->cells[i]->at[1] == cell->at[1])
            return study->cells[i]->numbers[0].value;
    return (double)NAN;
}

/* As in window-lipschitz. */
static const icl_study_check_row checks[] = {
    ICL_ROW(.quantity = "w of M", .only = "trained", .expected = best_width, .relative = {.25, .2, .1},
            .evidence = ICL_COMPUTED, .source = "best w I, searched for here"),
};

static void judge_exponent(icl_study *study, size_t dimension, icl_number exponent) {
    const double d = (double)dimensions[dimension];
    const icl_phrase what = icl_phrase_print("d = %zu", dimensions[dimension]);

    ICL_JUDGE(study, .what = what.text, .quantity = "exponent of the best window, lower bound", ICL_OURS(exponent),
              .target = 1 / (d + 2), .tolerance = 3 * exponent.standard_error, .criterion = ICL_AT_LEAST,
              .evidence = ICL_READ, .source = "theorem 3.4: 1 / (d + 2)");
    ICL_JUDGE(study, .what = what.text, .quantity = "exponent of the best window, upper bound", ICL_OURS(exponent),
              .target = 2 / (d + 2), .tolerance = 3 * exponent.standard_error, .criterion = ICL_AT_MOST,
              .evidence = ICL_READ, .source = "theorem 3.4: 2 / (d + 2)");
    ICL_JUDGE(study, .what = what.text, .quantity = "exponent of the best window", ICL_OURS(exponent),
              .target = 2 / (d + 3), .tolerance = .1 * 2 / (d + 3) + 3 * exponent.standard_error,
              .evidence = ICL_COMPUTED, .source = "2 / (d + 3)");
}

/* Fits log w against log n; the slope's error is that of the windows, each independent. */
static void conclude(icl_study *study) {
    for (size_t d = 0; d < DIMENSIONS; d++) {
        double x[CONTEXTS], y[CONTEXTS], mean, square = 0, error = 0;
        icl_number widths[CONTEXTS];
        size_t count = 0;
        for (size_t i = 0; i < study->count; i++)
            if (study->cells[i]->at[0] == d && study->cells[i]->is_untrained && study->cells[i]->is_wanted &&
                study->cells[i]->at[1] >= contexts[TRAINED]) {
                widths[count] = study->cells[i]->numbers[0];
                x[count] = log((double)study->cells[i]->at[1]);
                y[count] = log(widths[count].value);
                count++;
            }
        if (count < CONTEXTS - TRAINED)
            continue;
        mean = icl_mean(x, count);
        for (size_t i = 0; i < count; i++) {
            square += (x[i] - mean) * (x[i] - mean);
            error = hypot(error, (x[i] - mean) * widths[i].standard_error / widths[i].value);
        }
        judge_exponent(study, d, (icl_number){icl_slope(x, y, count, NULL), error / square});
    }
}

static const icl_study_figure_row figures[] = {
    {.figure = {.name = "window-rate",
                .title = "The best window by the length of the context",
                .x_label = "n L^2 / sigma^2",
                .y_label = "w",
                .log_x = true,
                .log_y = true}},
};

const icl_reproduction icl_window_rate =
    ICL_STUDY(.name = "window-rate", .source = "arXiv 2402.11639, theorem 3.4",
              .about = "the exponent with which the best window of softmax attention narrows with the context",
              .claim =
                  "The best window of softmax attention on affine functions grows as a power of n L^2 / sigma^2 that "
                  "lies within the theorem's bounds.",
              .scope = "A met table means that the searched best window grows at a rate inside the theorem's "
                       "interval and near our own exponent, and that trained windows are near it, on affine "
                       "functions alone; other classes were not tested.",
              .cost = {"10 s", "1 min", NULL}, .numbers = 1, .plan = plan, .measure = measure, ICL_CHECKS(checks),
              .conclude = conclude, ICL_FIGURES(figures));
