/*
 * Theorem 1 of Ahn, Cheng, Daneshmand, Sra 2023, "Transformers learn to implement preconditioned gradient descent for
 * in-context learning" (arXiv 2306.00297). One layer of linear attention with all entries free, x ~ N(0, Sigma), Sigma
 * = U diag(lambda) U^T, w ~ N(0, I), without noise. The loss is least at
 *
 *     P = [0 0; 0 1],  Q = -[A 0; 0 0],  A = U diag(a) U^T,  a_i = 1 / ((n + 1) / n lambda_i + tr(Sigma) / n),
 *
 * up to (g P, Q / g), and the least loss, sum_i lambda_i (1 - a_i lambda_i), follows from it.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/print.h"
#include "model/named_matrix.h"
#include "numeric/matrix.h"
#include "papers/losses.h"
#include "papers/papers.h"

enum { D = 5, WIDTH = D + 1, CONTEXTS = 3, SPECTRA = 3 };

typedef struct spectrum {
    const char *name, *covariance;
    double eigenvalues[D];
} spectrum;

static const spectrum spectra[SPECTRA] = {
    {"identity", "identity", {1, 1, 1, 1, 1}},
    {"paper", "spectrum:1,1,0.25,0.0625,1", {1, 1, .25, .0625, 1}},
    {"geometric", "spectrum:4,2,1,0.5,0.25", {4, 2, 1, .5, .25}},
};
enum { PAPER = 1, GEOMETRIC };

static const size_t contexts[CONTEXTS] = {10, 20, 100};
enum { TWENTY = 1 };

#define START 0.3 /* of P's last entry, and of -Q's for inputs */

static const struct {
    size_t steps, sequences;
    double tolerance; /* of each entry, relative to the largest */
} budgets[ICL_SCALES] = {{1500, 20000, .05}, {20000, 100000, .01}, {40000, 1000000, .01}};

/* ---- The closed form, and what was learned ---- */

typedef struct solution {
    double p[WIDTH][WIDTH], q[WIDTH][WIDTH]; /* q: the negative of Q */
    double steps[D];                         /* a_i, or u_i^T A u_i of what was learned */
    double largest;                          /* entry of A */
    double scale;                            /* the learned P's last entry, by which P is divided */
} solution;

static double step_of(const spectrum *s, size_t i, size_t n) {
    double trace = 0;
    for (size_t k = 0; k < D; k++)
        trace += s->eigenvalues[k];
    return 1 / (((double)n + 1) / (double)n * s->eigenvalues[i] + trace / (double)n);
}

/* Columns of the root R are sqrt(lambda_i) u_i, so A = R diag(a / lambda) R^T. */
static void solve(const spectrum *s, size_t n, const double *root, solution *out) {
    *out = (solution){.scale = 1};
    out->p[D][D] = 1;
    for (size_t k = 0; k < D; k++)
        out->steps[k] = step_of(s, k, n);
    for (size_t i = 0; i < D; i++)
        for (size_t j = 0; j < D; j++) {
            for (size_t k = 0; k < D; k++) {
                const double product = root ? root[i * D + k] * root[j * D + k] : i == k && j == k;
                out->q[i][j] += product * out->steps[k] / s->eigenvalues[k];
            }
            out->largest = fmax(out->largest, fabs(out->q[i][j]));
        }
}

static double least_loss(const spectrum *s, size_t n) {
    double loss = 0;
    for (size_t i = 0; i < D; i++)
        loss += s->eigenvalues[i] * (1 - step_of(s, i, n) * s->eigenvalues[i]);
    return loss;
}

/* Takes the freedom of scale out of what was learned: P / g and -g Q, with g = P's last entry. */
static icl_status read_learned(icl_trainer *trainer, const spectrum *s, const double *root, solution *out,
                               icl_error *error) {
    const icl_model *model = icl_trainer_model(trainer);
    double inputs[D * D], in_basis[D * D];
    float values[2 * WIDTH * WIDTH];

    *out = (solution){.scale = 0};
    ICL_CHECK(icl_trainer_get_parameters(trainer, values, error));
    ICL_CHECK(icl_matrix_of_model(model, values, "layer.0.head.0.P", WIDTH, WIDTH, out->p[0], error));
    ICL_CHECK(icl_matrix_of_model(model, values, "layer.0.head.0.Q", WIDTH, WIDTH, out->q[0], error));
    out->scale = out->p[D][D];
    for (size_t i = 0; i < WIDTH; i++)
        for (size_t j = 0; j < WIDTH; j++) {
            out->p[i][j] /= out->scale;
            out->q[i][j] *= -out->scale;
            if (i < D && j < D)
                inputs[i * D + j] = out->q[i][j];
        }
    icl_matrix_in_basis(root, inputs, D, in_basis);
    for (size_t k = 0; k < D; k++)
        out->steps[k] = in_basis[k * D + k] / s->eigenvalues[k];
    return ICL_OK;
}

static double largest_difference(double a[WIDTH][WIDTH], double b[WIDTH][WIDTH]) {
    double largest = 0;
    for (size_t i = 0; i < WIDTH; i++)
        for (size_t j = 0; j < WIDTH; j++) {
            if (isnan(a[i][j]))
                return (double)NAN;
            largest = fmax(largest, fabs(a[i][j] - b[i][j]));
        }
    return largest;
}

/* ---- One cell ---- */

/* A short step of gradient descent and the recipe's small noise. From noise alone training can end at stationary points
 * of rank one, where P reads the inputs' row and Q the label's: (w^T S u)(v^T x) for the sums S over the context,
 * one direction instead of all. */
static icl_status start_training(icl_reproducing *run, const icl_recipe *recipe, size_t n, float *values,
                                 icl_error *error) {
    const size_t q = WIDTH * WIDTH;
    icl_model *model = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_model_create(recipe, icl_regression_shape(D, n), &model, error));
    icl_model_initialize(model, run->params->seed, values);
    values[D * WIDTH + D] += (float)START;
    for (size_t i = 0; i < D; i++)
        values[q + i * WIDTH + i] -= (float)START;
done:
    icl_model_destroy(&model);
    return status;
}

static icl_status judge_matrices(icl_reproducing *run, const char *cell, solution *learned, solution *exact,
                                 icl_error *error) {
    char note[96];
    icl_finding finding = {.what = cell,
                           .quantity = "largest error of an entry of P, relative",
                           .ours = largest_difference(learned->p, exact->p),
                           .tolerance = budgets[run->params->scale].tolerance,
                           .criterion = ICL_AT_MOST,
                           .evidence = ICL_COMPUTED,
                           .source = "theorem 1",
                           .note = note};

    icl_print(note, sizeof note, "P / g and g Q, g = %.4f", learned->scale);
    ICL_CHECK(icl_reproduce_found(run, &finding, error));
    finding.quantity = "largest error of an entry of Q, relative";
    finding.ours = largest_difference(learned->q, exact->q) / exact->largest;
    icl_print(note, sizeof note, "steps %.4f %.4f %.4f %.4f %.4f along the axes", learned->steps[0], learned->steps[1],
              learned->steps[2], learned->steps[3], learned->steps[4]);
    return icl_reproduce_found(run, &finding, error);
}

/* The loss of random sequences scatters: its target is met within four standard errors and 1 %. */
static icl_status judge_loss(icl_reproducing *run, const char *cell, icl_trainer *trainer, double least,
                             icl_error *error) {
    const size_t sequences = budgets[run->params->scale].sequences;
    float values[2 * WIDTH * WIDTH];
    const float *const vectors[] = {values};
    icl_paired_loss loss;

    ICL_CHECK(icl_trainer_get_parameters(trainer, values, error));
    ICL_CHECK(icl_reproduce_losses(run, trainer, sequences, 1, vectors, &loss, error));
    return ICL_FOUND(run, error, .what = cell, .quantity = "squared error", .ours = loss.mse, .standard_error = loss.se,
                     .target = least, .tolerance = 4 * loss.se + .01 * least, .evidence = ICL_COMPUTED,
                     .source = "from theorem 1");
}

static icl_status draw_matrices(icl_reproducing *run, solution *learned, solution *exact, icl_error *error) {
    const icl_heat_map maps[] = {{"learned P / g", WIDTH, WIDTH, learned->p[0]},
                                 {"learned -g Q", WIDTH, WIDTH, learned->q[0]},
                                 {"theorem 1: A", WIDTH, WIDTH, exact->q[0]}};
    return ICL_DRAW_HEAT_MAPS(run, error, .name = "theorem-1-matrices",
                              .title = "One layer, rotated spectrum (1, 1, 1/4, 1/16, 1), n = 20: theorem 1",
                              .row_label = "x, and last y", .column_label = "x, and last y", .count = 3, .maps = maps);
}

static icl_status reproduce_cell(icl_reproducing *run, const spectrum *s, size_t n, const char *cell, solution *learned,
                                 icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = NULL;
    float initial[2 * WIDTH * WIDTH];
    solution exact;
    icl_status status = ICL_OK;

    ICL_TRY(icl_reproduce_recipe("precondition-theory", &recipe, error));
    ICL_TRY(icl_reproduce_override(recipe, error, "task.covariance=%s", s->covariance));
    if (strcmp(s->covariance, "identity") == 0) /* which no rotation changes */
        ICL_TRY(icl_reproduce_override(recipe, error, "task.rotate=false"));
    ICL_TRY(icl_reproduce_override(recipe, error, "task.n=%zu", n));
    ICL_TRY(icl_reproduce_override(recipe, error, "train.steps=%zu", budgets[run->params->scale].steps));
    ICL_TRY(start_training(run, recipe, n, initial, error));
    ICL_TRY(icl_reproduce_cell(run, cell, recipe, initial, &trainer, error));
    const double *root = icl_task_get_prior(icl_trainer_task(trainer))->covariance_root;
    solve(s, n, root, &exact);
    ICL_TRY(read_learned(trainer, s, root, learned, error));
    ICL_TRY(judge_matrices(run, cell, learned, &exact, error));
    ICL_TRY(judge_loss(run, cell, trainer, least_loss(s, n), error));
    if (s == &spectra[PAPER] && n == contexts[TWENTY])
        ICL_TRY(draw_matrices(run, learned, &exact, error));
done:
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
    return status;
}

/* ---- All of them ---- */

/* How far the step along an axis follows its eigenvalue: learned, by theorem 1, and 1 / lambda, which
 * n -> infinity leads to. */
static icl_status draw_steps(icl_reproducing *run, const solution *learned, icl_error *error) {
    const spectrum *s = &spectra[GEOMETRIC];
    double exact[CONTEXTS][D], newton[D];
    char labels[2 * CONTEXTS][48];
    icl_series series[2 * CONTEXTS + 1];

    for (size_t c = 0; c < CONTEXTS; c++) {
        for (size_t i = 0; i < D; i++)
            exact[c][i] = step_of(s, i, contexts[c]);
        snprintf(labels[2 * c], sizeof labels[0], "learned, n = %zu", contexts[c]);
        snprintf(labels[2 * c + 1], sizeof labels[0], "theorem 1, n = %zu", contexts[c]);
        series[2 * c] = (icl_series){labels[2 * c], ICL_SERIES_PUBLISHED, D, s->eigenvalues, learned[c].steps, NULL};
        series[2 * c + 1] = (icl_series){labels[2 * c + 1], ICL_SERIES_REFERENCE, D, s->eigenvalues, exact[c], NULL};
    }
    for (size_t i = 0; i < D; i++)
        newton[i] = 1 / s->eigenvalues[i];
    series[2 * CONTEXTS] = (icl_series){"1 / eigenvalue", ICL_SERIES_LINE, D, s->eigenvalues, newton, NULL};
    return ICL_DRAW_FIGURE(run, error, .name = "theorem-1-steps",
                           .title = "What one trained layer does along each axis: theorem 1",
                           .x_label = "eigenvalue of the inputs' covariance", .y_label = "step, eigenvalue of A",
                           .log_x = true, .log_y = true, .count = 2 * CONTEXTS + 1, .series = series);
}

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    solution learned[SPECTRA][CONTEXTS] = {{{.scale = 0}}};
    bool all = run->params->scale != ICL_SCALE_CI;

    for (size_t s = 0; s < SPECTRA; s++)
        for (size_t c = 0; c < CONTEXTS; c++) {
            char cell[48];
            snprintf(cell, sizeof cell, "%s-n%zu", spectra[s].name, contexts[c]);
            if (run->params->scale == ICL_SCALE_CI && (s == PAPER || c != TWENTY))
                continue;
            if (icl_reproduce_wants(run, cell))
                ICL_CHECK(icl_reproduce_next(
                    run, reproduce_cell(run, &spectra[s], contexts[c], cell, &learned[s][c], error)));
            else
                all = false;
        }
    if (all)
        ICL_CHECK(draw_steps(run, learned[GEOMETRIC], error));
    return ICL_OK;
}

const icl_reproduction icl_precondition_theory = {
    .name = "precondition-theory",
    .source = "arXiv 2306.00297, theorem 1",
    .about = "one layer, all entries free: P and Q against their closed form",
    .cost = {"3 s", "2 min", "8 min"},
    .is_shared = true,
    .run = reproduce,
};
