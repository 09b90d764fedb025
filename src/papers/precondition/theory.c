/*
 * Theorem 1 of Ahn, Cheng, Daneshmand, Sra 2023, "Transformers learn to implement preconditioned gradient descent for
 * in-context learning" (arXiv 2306.00297). One layer of linear attention with all entries free, x ~ N(0, Sigma), Sigma
 * = U diag(lambda) U^T, w ~ N(0, I), without noise. The loss is least at
 *
 *     P = [0 0; 0 1],  Q = -[A 0; 0 0],  A = U diag(a) U^T,  a_i = 1 / ((n + 1) / n lambda_i + tr(Sigma) / n),
 *
 * up to (g P, Q / g), and the least loss, sum_i lambda_i (1 - a_i lambda_i), follows from it.
 */
#include <string.h>

#include "papers/onestep/layer.h"
#include "papers/papers.h"

enum { D = ICL_LAYER_D, WIDTH = ICL_LAYER_WIDTH, SIZE = WIDTH * WIDTH, CONTEXTS = 3, SPECTRA = 3 };

typedef struct spectrum {
    const char *name, *settings;
    double eigenvalues[D];
} spectrum;

static const spectrum spectra[SPECTRA] = {
    {"identity", "task.covariance=identity", {1, 1, 1, 1, 1}},
    {"paper", "task.covariance=spectrum:1,1,0.25,0.0625,1", {1, 1, .25, .0625, 1}},
    {"geometric", "task.covariance=spectrum:4,2,1,0.5,0.25", {4, 2, 1, .5, .25}},
};
enum { PAPER = 1, GEOMETRIC };

static const size_t contexts[CONTEXTS] = {10, 20, 100};
enum { TWENTY = 1 };

#define START 0.3 /* initial value of P's last entry, and of -Q's entries for inputs */

static const struct {
    size_t steps, sequences;
} budgets[ICL_SCALES] = {{1500, 20000}, {20000, 100000}, {40000, 1000000}};

/* ---- The closed form ---- */

static double step_of(const spectrum *s, size_t i, size_t n) {
    double trace = 0;
    for (size_t k = 0; k < D; k++)
        trace += s->eigenvalues[k];
    return 1 / (((double)n + 1) / (double)n * s->eigenvalues[i] + trace / (double)n);
}

/* Columns of the root R are sqrt(lambda_i) u_i, so A = R diag(a / lambda) R^T. */
static void solve(const spectrum *s, size_t n, const double *root, icl_one_layer *exact) {
    *exact = (icl_one_layer){.p = {{0}}};
    exact->p[D][D] = 1;
    for (size_t i = 0; i < D; i++)
        for (size_t j = 0; j < D; j++)
            for (size_t k = 0; k < D; k++) {
                const double product = root ? root[i * D + k] * root[j * D + k] : i == k && j == k;
                exact->q[i][j] += product * step_of(s, k, n) / s->eigenvalues[k];
            }
}

static double least_loss(const icl_study *study, const icl_study_cell *cell) {
    const spectrum *s = cell->data;
    double loss = 0;

    (void)study;
    for (size_t i = 0; i < D; i++)
        loss += s->eigenvalues[i] * (1 - step_of(s, i, cell->at[0]) * s->eigenvalues[i]);
    return loss;
}

/* ---- Cells ---- */

static void plan(icl_study *study) {
    for (size_t s = 0; s < SPECTRA; s++)
        for (size_t c = 0; c < CONTEXTS; c++)
            if (study->scale > ICL_SCALE_CI || (s != PAPER && c == TWENTY))
                ICL_ADD_CELL(study, .name = ICL_PHRASE("%s-n%zu", spectra[s].name, contexts[c]),
                             .recipe = "precondition-theory", .has_start = true, .data = &spectra[s],
                             .at = {contexts[c]},
                             .settings = {spectra[s].settings, ICL_PHRASE("task.n=%zu train.steps=%zu", contexts[c],
                                                                          budgets[study->scale].steps)});
}

/* The start makes a short step of gradient descent, plus the recipe's small noise. From noise only, training can end at
 * stationary points of rank one, at which P reads the inputs' row and Q the label's: (w^T S u)(v^T x) for the sums S
 * over the context, one direction instead of all. */
static icl_status begin(icl_study *study, const icl_study_cell *cell, icl_trainer *from, const icl_model *model,
                        float *values, icl_error *error) {
    (void)study, (void)cell, (void)from, (void)model, (void)error;
    values[D * WIDTH + D] += (float)START;
    for (size_t i = 0; i < D; i++)
        values[SIZE + i * WIDTH + i] -= (float)START;
    return ICL_OK;
}

/* ---- What was learned ---- */

/* Errors are those of an entry, relative to the largest entry. Steps are those along the axes, u_i^T A u_i. P and Q are
 * normalized, since their scale is free: P / g and -g Q, with g = P's last entry. */
enum {
    ERROR_P = 0,
    ERROR_Q,
    LOSS,
    SCALE,
    STEPS,
    LEARNED_P = STEPS + D,
    LEARNED_Q = LEARNED_P + SIZE,
    EXACT_Q = LEARNED_Q + SIZE,
    NUMBERS = EXACT_Q + SIZE
};

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    const double *root = icl_task_get_prior(icl_trainer_task(trained))->covariance_root;
    double in_basis[D * D];
    icl_one_layer learned, exact;

    solve(cell->data, cell->at[0], root, &exact);
    ICL_CHECK(icl_one_layer_read(trained, &learned, error));
    numbers[SCALE].value = icl_one_layer_unscale(&learned);
    icl_one_layer_in_basis(&learned, root, in_basis);
    for (size_t k = 0; k < D; k++)
        numbers[STEPS + k].value = in_basis[k * (D + 1)];
    numbers[ERROR_P].value = icl_layer_distance(learned.p, exact.p);
    numbers[ERROR_Q].value = icl_layer_distance(learned.q, exact.q);
    for (size_t i = 0; i < SIZE; i++) {
        numbers[LEARNED_P + i].value = learned.p[i / WIDTH][i % WIDTH];
        numbers[LEARNED_Q + i].value = learned.q[i / WIDTH][i % WIDTH];
        numbers[EXACT_Q + i].value = exact.q[i / WIDTH][i % WIDTH];
    }
    return icl_study_loss(study, trained, budgets[study->scale].sequences, &numbers[LOSS], error);
}

/* ---- Judging ---- */

/* Tolerances of entries, relative to the largest entry. The loss of random sequences scatters. */
static const icl_study_check_row checks[] = {
    ICL_ROW(.quantity = "largest error of an entry of P, relative", .number = ERROR_P, .absolute = {.05, .01, .01},
            .criterion = ICL_AT_MOST, .evidence = ICL_COMPUTED, .source = "theorem 1", .note = "P / g and g Q, g = {}",
            .beside = {SCALE}),
    ICL_ROW(.quantity = "largest error of an entry of Q, relative", .number = ERROR_Q, .absolute = {.05, .01, .01},
            .criterion = ICL_AT_MOST, .evidence = ICL_COMPUTED, .source = "theorem 1",
            .note = "steps {} {} {} {} {} along the axes",
            .beside = {STEPS, STEPS + 1, STEPS + 2, STEPS + 3, STEPS + 4}),
    ICL_ROW(.quantity = "squared error", .number = LOSS, .expected = least_loss, .relative = {.01, .01, .01},
            .errors = 4, .evidence = ICL_COMPUTED, .source = "from theorem 1"),
};

/* ---- Figures ---- */

static void draw_matrices(icl_study *study) {
    static const char *const labels[] = {"learned P / g", "learned -g Q", "theorem 1: A"};
    const icl_study_cell *cell = icl_study_find(study, "paper-n20");
    double values[3 * SIZE];
    icl_heat_map maps[3];

    if (!cell || !cell->is_wanted)
        return;
    for (size_t i = 0; i < 3 * SIZE; i++)
        values[i] = cell->numbers[LEARNED_P + i].value;
    for (size_t i = 0; i < 3; i++)
        maps[i] = (icl_heat_map){labels[i], WIDTH, WIDTH, values + i * SIZE, NULL, NULL};
    ICL_STUDY_MAPS(study, .name = "theorem-1-matrices",
                   .title = "One layer, rotated spectrum (1, 1, 1/4, 1/16, 1), n = 20: theorem 1",
                   .row_label = "x, and last y", .column_label = "x, and last y", .count = 3, .maps = maps);
}

/* Draws the step along each axis over its eigenvalue: learned, by theorem 1, and 1 / lambda, the limit for n ->
 * infinity. */
static void draw_steps(icl_study *study) {
    icl_curves curves =
        ICL_CURVES(.name = "theorem-1-steps", .title = "What one trained layer does along each axis: theorem 1",
                   .x_label = "eigenvalue of the inputs' covariance", .y_label = "step, eigenvalue of A", .log_x = true,
                   .log_y = true);
    const spectrum *s = &spectra[GEOMETRIC];

    for (size_t c = 0; study->scale > ICL_SCALE_CI && c < CONTEXTS * D; c++) {
        const size_t n = contexts[c / D], i = c % D;
        const icl_study_cell *cell = icl_study_find(study, ICL_PHRASE("%s-n%zu", s->name, n));
        icl_study_plot(study, &curves, ICL_PHRASE("learned, n = %zu", n), ICL_SERIES_OURS, s->eigenvalues[i],
                       cell->numbers[STEPS + i].value);
        icl_study_plot(study, &curves, ICL_PHRASE("theorem 1, n = %zu", n), ICL_SERIES_REFERENCE, s->eigenvalues[i],
                       step_of(s, i, n));
        icl_study_plot(study, &curves, "1 / eigenvalue", ICL_SERIES_REFERENCE, s->eigenvalues[i],
                       1 / s->eigenvalues[i]);
    }
    icl_study_draw(study, &curves);
}

static void conclude(icl_study *study) {
    draw_matrices(study);
    draw_steps(study);
}

const icl_reproduction icl_precondition_theory = ICL_STUDY(
        .name = "precondition-theory", .source = "arXiv 2306.00297, theorem 1",
        .about = "one layer, all entries free: P and Q against their closed form",
        .claim = "One layer of linear attention that is trained on inputs of unequal variance takes one preconditioned "
                 "step of gradient descent, by the matrix of theorem 1.",
        .scope = "A met table means that one layer trained from one random start per setting ends at the "
                 "matrices of theorem 1; other starts are those of precondition-starts, and noisy labels "
                 "were not tested.",
        .cost = {"3 s", "2 min", "8 min"}, .numbers = NUMBERS, .plan = plan, .begin = begin, .measure = measure,
        ICL_CHECKS(checks), .conclude = conclude);
