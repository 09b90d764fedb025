/*
 * Attention over labels (src/model/softmax.c), which has one matrix M: what it is beside w I, its window, and the best
 * window of a fixed shape (Collins et al. 2024, arXiv 2402.11639).
 */
#include <math.h>
#include <stdio.h>

#include "core/allocate.h"
#include "inspect/inspecting.h"
#include "model/named_matrix.h"
#include "numeric/matrix.h"
#include "numeric/singular.h"
#include "probe/window.h"

enum { SEQUENCES = 8192, FIT_SEQUENCES = 2048 };

/* Dist(M, I) up to which M is called a multiple of I, and one but for the rest. */
#define ROUNDING 1e-6
#define NEARLY   0.2

typedef struct window {
    icl_inspecting *run;
    bool is_softmax;
    double *M, *of_identity; /* [d][d], and w I */
    double multiple, distance, smallest, largest;
    double rho;  /* of the subspace that targets depend on; NaN without one */
    double best; /* w of the best window w I; for linear attention the multiple of I nearest to M */
    icl_window_ratio ratio;
} window;

/* ---- Measuring ---- */

static icl_status measure_matrix(window *w, icl_error *error) {
    const icl_inspecting *run = w->run;
    const icl_task_prior *prior = icl_task_get_prior(run->task);

    ICL_CHECK(icl_allocate(run->d * run->d, sizeof(double), "M", &w->M, error));
    ICL_CHECK(icl_allocate(run->d * run->d, sizeof(double), "w I", &w->of_identity, error));
    ICL_CHECK(icl_matrix_of_model(run->model, run->values, "M", run->d, run->d, w->M, error));
    w->multiple = icl_matrix_multiple(w->M, run->d);
    w->distance = icl_matrix_distance(w->M, run->d);
    w->rho = (double)NAN;
    ICL_CHECK(icl_singular_extremes(w->M, run->d, run->d, &w->smallest, &w->largest, error));
    if (prior->subspace > 0 && prior->subspace < run->d)
        ICL_CHECK(icl_subspace_alignment(w->M, prior->subspace_rotation, run->d, prior->subspace, &w->rho, error));
    return ICL_OK;
}

static icl_status measure_window(window *w, icl_error *error) {
    const icl_inspecting *run = w->run;
    const size_t asked = run->params->sequences;
    icl_window_set measured = {0}, fitting = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_window_draw(run->params->backend, run->recipe, ICL_FOR_EVALUATION, run->seed,
                            asked > 0 ? asked : SEQUENCES, &measured, error));
    ICL_TRY(
        icl_window_draw(run->params->backend, run->recipe, ICL_FOR_FITTING, run->seed, FIT_SEQUENCES, &fitting, error));
    w->best = w->is_softmax ? icl_window_search(&fitting, NULL) : w->multiple;
    for (size_t i = 0; i < run->d; i++)
        w->of_identity[i * run->d + i] = w->best;
    w->ratio = icl_window_compare(&measured, w->M, w->is_softmax, w->of_identity, w->is_softmax);
done:
    icl_window_release(&measured);
    icl_window_release(&fitting);
    return status;
}

/* ---- Writing ---- */

static icl_status write_numbers(const window *w, icl_error *error) {
    static const icl_report_column columns[] = {{"number", false}, {"value", true}};
    const icl_window_quality *of = &w->ratio.of, *to = &w->ratio.to;
    const struct {
        const char *what, *quantity;
        double value, standard_error;
    } rows[] = {
        {"M", "w = tr(M) / d, the multiple of I nearest to it", w->multiple, 0},
        {"M", "Dist(M, I), the norm of M - w I over that of M", w->distance, 0},
        {"M", "spectral norm", w->largest, 0},
        {"M", "smallest singular value", w->smallest, 0},
        {"M", "rho(M, B): what it sees beside the subspace, over what it sees of it", w->rho, 0},
        {"window", "squared error", of->loss, of->standard_error},
        {"window", "labels that are averaged over, 1 / mean sum beta^2", w->is_softmax ? of->neighbours : (double)NAN,
         0},
        {"window", "radius", of->reach, 0},
        {"w I", w->is_softmax ? "w of the best window" : "w", w->best, 0},
        {"w I", "squared error", to->loss, to->standard_error},
        {"window", "squared error over that of w I", w->ratio.ratio, w->ratio.standard_error},
    };

    ICL_CHECK(icl_inspect_table_begin(w->run, columns, 2, error));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char value[ICL_INSPECT_CELL], name[160];
        const char *const cells[] = {name, icl_inspect_measured(rows[i].value, rows[i].standard_error, value)};
        if (isnan(rows[i].value))
            continue;
        snprintf(name, sizeof name, "%s: %s", rows[i].what, rows[i].quantity);
        ICL_CHECK(icl_inspect_table_row(w->run, ICL_TONE_PLAIN, cells, error));
        ICL_CHECK(ICL_INSPECT_FOUND(w->run, error, .what = rows[i].what, .quantity = rows[i].quantity,
                                    .value = rows[i].value, .standard_error = rows[i].standard_error));
    }
    return icl_inspect_table_end(w->run, error);
}

/* What M is beside a multiple of the identity. */
static icl_status describe_matrix(const window *w, icl_error *error) {
    icl_text *lead = &w->run->lead;

    if (w->distance <= ROUNDING)
        ICL_CHECK(icl_text_print(lead, error, " M is %.4g I.", w->multiple));
    else if (w->distance <= NEARLY)
        ICL_CHECK(icl_text_print(lead, error, " M is %.4g I but for %.2g of its norm.", w->multiple, w->distance));
    else
        ICL_CHECK(icl_text_print(lead, error, " M is no multiple of I: it is %.2g of its norm away from %.4g I.",
                                 w->distance, w->multiple));
    if (!isnan(w->rho))
        ICL_CHECK(icl_text_print(
            lead, error, " Outside the subspace that targets depend on it sees %.2g times as much as inside.", w->rho));
    return ICL_OK;
}

static icl_status conclude(const window *w, icl_error *error) {
    const double n = (double)w->run->n;
    icl_text *lead = &w->run->lead;

    if (w->is_softmax)
        ICL_CHECK(icl_text_print(lead, error,
                                 "The model averages the context's labels with weights exp(x_i^T M x_q) over "
                                 "their sum, a Nadaraya-Watson estimate. Its window is worth %.3g of the %.0f "
                                 "labels and has radius %.3g.",
                                 w->ratio.of.neighbours, n, w->ratio.of.reach));
    else
        ICL_CHECK(icl_text_print(lead, error,
                                 "The model is one step of gradient descent from 0 on the context's squared errors, "
                                 "preconditioned with M, of size %.4g for raw sums.",
                                 w->multiple / n));
    ICL_CHECK(describe_matrix(w, error));
    return icl_text_print(lead, error, " Its squared error is %.4g +- %.2g times that of %s w I, w = %.4g.",
                          w->ratio.ratio, w->ratio.standard_error, w->is_softmax ? "the best window" : "M =", w->best);
}

icl_status icl_inspect_window(icl_inspecting *run, icl_error *error) {
    /* model.attention = softmax | linear. */
    window w = {.run = run,
                .is_softmax = icl_recipe_choice(run->recipe, "model", "attention") == ICL_ATTENTION_SOFTMAX};
    icl_status status = ICL_OK;

    ICL_TRY(measure_matrix(&w, error));
    ICL_TRY(measure_window(&w, error));
    const icl_heat_map map = {.label = "M", .rows = run->d, .columns = run->d, .values = w.M};
    ICL_TRY(icl_inspect_section(run, "Weights and window", error));
    ICL_TRY(ICL_INSPECT_HEAT_MAPS(run, error, .name = "weights", .title = "M of the scores x_i^T M x_q", .count = 1,
                                  .maps = &map));
    ICL_TRY(
        icl_inspect_paragraph(run, error,
                              "The prediction is sum_i beta_i y_i, %s. Squared errors are averaged over "
                              "the labels' noise, in closed form.",
                              w.is_softmax ? "beta = softmax of the scores x_i^T M x_q" : "beta_i = x_i^T M x_q / n"));
    ICL_TRY(write_numbers(&w, error));
    ICL_TRY(conclude(&w, error));
done:
    icl_free(&w.M);
    icl_free(&w.of_identity);
    return status;
}
