/*
 * Queries far from all examples: the loss of softmax attention by the distance r of the nearest example, beside linear
 * attention (Collins et al. 2024, window.c). Each attention has its own best multiple of the identity, found on other
 * sequences, so that nothing is trained.
 *
 * A window averages labels, and an average of examples cannot reach beyond them: inputs have length 1, so that <x_i,
 * x_q> <= 1 - r^2 / 2 for all i, and the average of inputs is at least r^2 / 2 from x_q, whatever the weights. On
 * affine functions its expected loss is therefore at least
 *
 *     (L^2 / 3d) (r^2 / 2)^2 = L^2 r^4 / 12 d.
 *
 * Linear attention sums over all examples, near or far: w / n sum_i <x_i, x_q> y_i. It extrapolates slopes and is blind
 * to offsets and even functions.
 */
#include <math.h>
#include <stdlib.h>

#include "numeric/statistics.h"
#include "papers/papers.h"
#include "probe/window.h"

enum { BINS = 8, MOST_D = 5, CONTEXT = 20 };

#define LIPSCHITZ 10.0 /* with noise 1 */

static const struct {
    const char *function;
    size_t d;
} tasks[] = {{"affine", 2}, {"affine", MOST_D}, {"relu", 2}, {"cosine", 2}};

static const size_t sequences[ICL_SCALES] = {16384, 131072, 1048576};

static void plan(icl_study *study) {
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++)
        ICL_ADD_CELL(study, .name = ICL_PHRASE("%s, d %zu", tasks[i].function, tasks[i].d), .recipe = "window",
                     .is_untrained = true, .at = {i, tasks[i].d},
                     .settings = {ICL_PHRASE("task.function=%s task.d=%zu task.n=%d task.lipschitz=%g "
                                             "task.noise=fixed:1",
                                             tasks[i].function, tasks[i].d, CONTEXT, LIPSCHITZ)});
}

/* ---- Measuring ---- */

typedef struct far_sequence {
    double distance, losses[2]; /* softmax's and linear attention's */
} far_sequence;

static int by_distance(const void *a, const void *b) {
    const double first = ((const far_sequence *)a)->distance, second = ((const far_sequence *)b)->distance;
    return (first > second) - (first < second);
}

static double nearest_distance(const icl_window_set *set, size_t sequence) {
    const size_t d = set->dimension, width = d + 1;
    const float *tokens = set->tokens + sequence * (set->context + 1) * width, *query = tokens + set->context * width;
    double nearest = HUGE_VAL;

    for (size_t i = 0; i < set->context; i++) {
        double square = 0;
        for (size_t j = 0; j < d; j++)
            square += pow((double)tokens[i * width + j] - (double)query[j], 2);
        nearest = fmin(nearest, square);
    }
    return sqrt(nearest);
}

static void scale_identity(double *M, size_t d, double w) {
    for (size_t i = 0; i < d * d; i++)
        M[i] = i % (d + 1) == 0 ? w : 0;
}

/* Returns the w of the best linear attention w I: its loss is a parabola in w. */
static double best_linear(const icl_window_set *set) {
    double M[MOST_D * MOST_D], losses[3];

    for (int i = 0; i < 3; i++) {
        scale_identity(M, set->dimension, i - 1);
        losses[i] = icl_window_measure(set, M, false).loss;
    }
    return (losses[0] - losses[2]) / 4 / ((losses[0] + losses[2]) / 2 - losses[1]);
}

/* Numbers of a bin, from the nearest on: the mean distance, both losses, and the least distance. Then both w. */
enum { DISTANCE = 0, LOSSES, LEAST = LOSSES + 2, PER_BIN, WIDTHS = BINS * PER_BIN, NUMBERS = WIDTHS + 2 };

static void fill_bins(far_sequence *all, size_t count, double *scratch, icl_number *numbers) {
    const size_t size = count / BINS;

    qsort(all, count, sizeof *all, by_distance);
    for (size_t bin = 0; bin < BINS; bin++) {
        const far_sequence *first = all + bin * size;
        icl_number *into = numbers + bin * PER_BIN;
        for (size_t i = 0; i < size; i++)
            scratch[i] = first[i].distance;
        into[DISTANCE].value = icl_mean(scratch, size);
        into[LEAST].value = first->distance;
        for (size_t kind = 0; kind < 2; kind++) {
            for (size_t i = 0; i < size; i++)
                scratch[i] = first[i].losses[kind];
            into[LOSSES + kind] = (icl_number){icl_mean(scratch, size), icl_standard_error(scratch, size)};
        }
    }
}

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    const icl_reproduce_params *params = study->run->params;
    const size_t count = sequences[study->scale];
    icl_window_set fitting = {0}, fresh = {0};
    far_sequence *all = NULL;
    double *scratch = NULL, M[MOST_D * MOST_D];
    icl_status status = ICL_OK;

    (void)trained;
    ICL_TRY(icl_study_room(study, count, sizeof *all, &all, error));
    ICL_TRY(icl_study_room(study, count, sizeof *scratch, &scratch, error));
    ICL_TRY(icl_reproduce_poll(study->run, error));
    ICL_TRY(icl_window_draw(params->backend, cell->complete, ICL_FOR_FITTING, params->seed, count, &fitting, error));
    ICL_TRY(icl_window_draw(params->backend, cell->complete, ICL_FOR_EVALUATION, params->seed, count, &fresh, error));
    numbers[WIDTHS].value = icl_window_search(&fitting, NULL);
    numbers[WIDTHS + 1].value = best_linear(&fitting);
    for (size_t kind = 0; kind < 2; kind++) {
        scale_identity(M, fresh.dimension, numbers[WIDTHS + kind].value);
        icl_window_measure(&fresh, M, kind == 0);
        for (size_t i = 0; i < count; i++)
            all[i].losses[kind] = fresh.losses[i];
    }
    for (size_t i = 0; i < count; i++)
        all[i].distance = nearest_distance(&fresh, i);
    fill_bins(all, count, scratch, numbers);
done:
    icl_window_release(&fitting);
    icl_window_release(&fresh);
    return status;
}

/* ---- Judging ---- */

/* Returns the loss of the farthest eighth over that of the nearest. */
static icl_number rise_of(const icl_study_cell *cell, size_t kind) {
    const icl_number near = cell->numbers[LOSSES + kind], far = cell->numbers[(BINS - 1) * PER_BIN + LOSSES + kind];
    const double rise = far.value / near.value;

    return (icl_number){rise, rise * hypot(far.standard_error / far.value, near.standard_error / near.value)};
}

static void judge(icl_study *study, const icl_study_cell *cell) {
    static const char *const kinds[] = {"softmax", "linear attention"};
    const icl_number *far = cell->numbers + (BINS - 1) * PER_BIN;

    for (size_t kind = 0; kind < 2; kind++) {
        const icl_number rise = rise_of(cell, kind);
        ICL_JUDGE(study, .what = ICL_PHRASE("%s, %s", cell->name, kinds[kind]), .quantity = "loss far over near",
                  ICL_OURS(rise), .target = 1 + 3 * rise.standard_error, .criterion = ICL_AT_LEAST,
                  .evidence = kind == 0 ? ICL_INFERRED : ICL_EVIDENCE_NONE, .source = "an average reaches no further",
                  .note = ICL_PHRASE("%.4g at distance %.3g, %.4g at %.3g", cell->numbers[LOSSES + kind].value,
                                     cell->numbers[DISTANCE].value, far[LOSSES + kind].value, far[DISTANCE].value));
    }
    if (tasks[cell->at[0]].function == tasks[0].function)
        ICL_JUDGE(
            study, .what = ICL_PHRASE("%s, softmax, farthest eighth", cell->name), .quantity = "loss",
            ICL_OURS(far[LOSSES]), .target = pow(LIPSCHITZ, 2) * pow(far[LEAST].value, 4) / (12 * (double)cell->at[1]),
            .tolerance = 3 * far[LOSSES].standard_error, .criterion = ICL_AT_LEAST, .evidence = ICL_COMPUTED,
            .source = "no average is nearer: L^2 r^4 / 12 d", .note = ICL_PHRASE("r at least %.3g", far[LEAST].value));
}

static void conclude(icl_study *study) {
    icl_curves curves =
        ICL_CURVES(.name = "window-far", .title = "Loss by the distance of the nearest example (arXiv 2402.11639)",
                   .x_label = "distance of the nearest example", .y_label = "squared error", .log_y = true);

    for (size_t i = 0; i < study->count; i++)
        for (size_t bin = 0; bin < BINS; bin++) {
            const icl_number *numbers = study->cells[i]->numbers + bin * PER_BIN;
            icl_study_plot_number(study, &curves, study->cells[i]->name, ICL_SERIES_OURS, numbers[DISTANCE].value,
                                  numbers[LOSSES]);
            icl_study_plot_number(study, &curves, ICL_PHRASE("%s, linear", study->cells[i]->name), ICL_SERIES_REFERENCE,
                                  numbers[DISTANCE].value, numbers[LOSSES + 1]);
        }
    icl_study_draw(study, &curves);
}

const icl_reproduction icl_window_far =
    ICL_STUDY(.name = "window-far", .source = "arXiv 2402.11639",
              .about = "the loss of softmax and of linear attention by the distance of the nearest example",
              .claim = "A window of softmax attention errs more, the farther a query is from its nearest example.",
              .scope = "A met table means that the window that is best on average errs more on far queries, as "
                       "the bound for averages says; a window chosen for far queries was not tested, and nothing "
                       "was trained.",
              .cost = {"2 s", "10 s", "1 min"}, .numbers = NUMBERS, .plan = plan, .measure = measure, .judge = judge,
              .conclude = conclude);
