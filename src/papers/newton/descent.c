/*
 * Newton's iteration compared with gradient descent: Giannou, Yang, Wang, Papailiopoulos, Lee 2024, "How Well Can
 * Transformers Emulate In-context Newton's Method?" (arXiv 2403.03183), and Fu, Chen, Jia, Sharan 2023, "Transformers
 * Learn to Achieve Second-Order Convergence Rates for In-Context Linear Regression" (arXiv 2310.17086). d = 10, n = 50
 * as in the former; neither paper prints numbers, and targets are computed.
 *
 * With A = X^T X / n, X <- X (2 I - A X) squares the residual I - A X, and T steps predict with X_T X^T y / n: given A
 * they lose E ||I - A X_T||_F^2. From X_0 = a I the residual is (I - a A)^(2^T): 2^T steps of descent with one length,
 * which are compared on the same contexts, because few of them decide the mean. Descent's loss over all contexts is
 * exact (iclab/descent_optimum.h). From X_0 = A^T / (||A||_1 ||A||_inf), which needs no length to be
 * known, it is a polynomial of degree 2^(T + 1) in A except for the scale, and its loss is sampled. The best steps of
 * descent that reach the same degree lose less. Layers of linear attention are such steps, one degree each, so that
 * Newton's iteration, whose degree doubles, is exponentially faster than they are; layers that change their inputs,
 * too, are not so bound.
 */
#include <math.h>
#include <string.h>

#include "iclab/random.h"
#include "numeric/matrix.h"
#include "numeric/statistics.h"
#include "papers/checked.h"
#include "papers/papers.h"

enum { D = 10, N = 50, SIZE = D * D, INVERSE_STEPS = 30, SHOWN_STEPS = 7, DOUBLINGS = 4, LOGISTIC_STEPS = 60 };

static const struct {
    size_t layers, spectra, problems;
    icl_descent_budget training;
    double tolerance; /* relative tolerance of trained losses */
} budgets[ICL_SCALES] = {{2, 4000, 200, {300, 1000, 20000}, .05},
                         {4, 40000, 2000, {1500, 5000, 1000000}, .02},
                         {4, 40000, 2000, {1500, 5000, 1000000}, .02}};

/* How a cell is measured and judged. A cell without a part is trained layers with B = 0. */
typedef struct part {
    icl_status (*measure)(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error);
    void (*judge)(icl_study *study, const icl_study_cell *cell);
} part;

/* Numbers of cells, by kind: the residuals of the inverse, NaN after the last step; a squared error, first as for
 * trained layers; decrements and gradients of one regression, NaN after the last step, and the worst values of many
 * regressions. */
enum { NORMS = 0, NORMS_END = INVERSE_STEPS + 1 };
enum { LOSS = ICL_DESCENT_LOSS, SAME_DESCENT = LOSS + 1 };
enum {
    DECREMENTS = 0,
    GRADIENTS = LOGISTIC_STEPS,
    WORST_SHARE = GRADIENTS + LOGISTIC_STEPS, /* share of the bound that a step uses */
    WORST_STEPS,
    WORST_LAST_STEPS, /* counted from a decrement of .1 on */
    NUMBERS
};

/* ---- Residuals of one matrix ---- */

static icl_status measure_inverse(icl_study *study, const icl_study_cell *cell, icl_trainer *trained,
                                  icl_number *numbers, icl_error *error) {
    double row[D], A[SIZE], X[SIZE], work[2 * SIZE], residual[SIZE], smallest, norm = 1;

    (void)cell, (void)trained;
    icl_wishart_sample(D, N, study->run->params->seed, 0, row, A);
    icl_newton_inverse_start(A, D, X);
    for (size_t step = 0; step <= INVERSE_STEPS && norm >= 1e-14; step++) {
        icl_newton_inverse_residual(A, X, D, residual);
        ICL_CHECK(icl_singular_extremes(residual, D, D, &smallest, &norm, error));
        numbers[NORMS + step].value = norm;
        icl_newton_inverse_step(A, D, X, work);
    }
    return ICL_OK;
}

static void judge_inverse(icl_study *study, const icl_study_cell *cell) {
    const icl_number *norms = cell->numbers + NORMS;
    icl_curves curves =
        ICL_CURVES(.name = "newton-residual", .title = "Newton's iteration for the inverse, d = 10, n = 50",
                   .x_label = "steps", .y_label = "||I - A X||", .log_y = true);
    size_t count = 1;

    for (; count <= INVERSE_STEPS && !isnan(norms[count].value); count++) {
        const double square = norms[count - 1].value * norms[count - 1].value;
        ICL_JUDGE(study, .what = ICL_PHRASE("inverse, step %zu", count), .quantity = "||I - A X||",
                  ICL_OURS(norms[count]), .target = square, .tolerance = 1e-9 * square + 1e-14,
                  .evidence = ICL_INFERRED, .source = "square of the last one");
    }
    ICL_JUDGE(study, .what = "inverse, at the end", .quantity = "||I - A X||", ICL_OURS(norms[count - 1]),
              .target = 1e-14, .criterion = ICL_AT_MOST, .evidence = ICL_COMPUTED, .source = "rounding");
    icl_study_plot_numbers(study, &curves, "||I - A X||", ICL_SERIES_OURS, NULL, norms, count);
    icl_study_draw(study, &curves);
}

static const part inverse_part = {measure_inverse, judge_inverse};

/* ---- Losses of Newton's iteration ---- */

/* Returns ||I - A X||_F^2 after this many steps; a = 0 begins at A^T over its norms. */
static double iterate(const double *A, double a, size_t steps) {
    double X[SIZE], work[2 * SIZE], residual[SIZE], loss = 0;

    icl_newton_inverse_start(A, D, X);
    for (size_t i = 0; a > 0 && i < SIZE; i++)
        X[i] = i % (D + 1) == 0 ? a : 0;
    for (size_t step = 0; step < steps; step++)
        icl_newton_inverse_step(A, D, X, work);
    icl_newton_inverse_residual(A, X, D, residual);
    for (size_t i = 0; i < SIZE; i++)
        loss += residual[i] * residual[i];
    return loss;
}

/* Returns ||(I - a A)^steps||_F^2, the loss of so many steps of descent of one length on one context. */
static double descend(const double *A, double a, size_t steps) {
    double residual[SIZE] = {0}, next[SIZE], loss = 0;

    for (size_t i = 0; i < D; i++)
        residual[i * (D + 1)] = 1;
    for (size_t step = 0; step < steps; step++) {
        memcpy(next, residual, sizeof next);
        for (size_t i = 0; i < D; i++)
            for (size_t j = 0; j < D; j++)
                for (size_t k = 0; k < D; k++)
                    next[i * D + j] -= a * residual[i * D + k] * A[k * D + j];
        memcpy(residual, next, sizeof residual);
    }
    for (size_t i = 0; i < SIZE; i++)
        loss += residual[i] * residual[i];
    return loss;
}

static icl_status best_descent(size_t steps, bool is_tied, double *lengths, double *loss, icl_error *error) {
    const icl_descent_problem problem = {.dimension = D, .context = N, .steps = steps, .is_tied = is_tied};

    return icl_descent_optimum(&problem, lengths, loss, error);
}

/* Measures the mean loss over sampled A of at[0] steps from the best a I for them, or, if at[1] is set, from A^T over
 * its norms. */
static icl_status measure_newton(icl_study *study, const icl_study_cell *cell, icl_trainer *trained,
                                 icl_number *numbers, icl_error *error) {
    const size_t count = budgets[study->scale].spectra, steps = cell->at[0];
    double row[D], A[SIZE], lengths[ICL_DESCENT_MOST_STEPS] = {0}, *losses = NULL, descent = 0;

    (void)trained;
    if (cell->at[1] == 0)
        ICL_CHECK(best_descent((size_t)1 << steps, true, lengths, NULL, error));
    ICL_CHECK(icl_study_room(study, count, sizeof *losses, &losses, error));
    for (size_t i = 0; i < count; i++) {
        if (i % 1000 == 0)
            ICL_CHECK(icl_reproduce_poll(study->run, error));
        icl_wishart_sample(D, N, study->run->params->seed, i, row, A);
        losses[i] = iterate(A, lengths[0], steps);
        if (cell->at[1] == 0)
            descent += descend(A, lengths[0], (size_t)1 << steps) / (double)count;
    }
    numbers[SAME_DESCENT].value = descent;
    numbers[LOSS] = (icl_number){icl_mean(losses, count), icl_standard_error(losses, count)};
    return ICL_OK;
}

static double best_loss(const icl_study *study, size_t degree, bool is_tied) {
    double loss = (double)NAN;

    ICL_STUDY_CALL(study, best_descent, degree, is_tied, NULL, &loss);
    return loss;
}

static void judge_degree(icl_study *study, size_t degree, double newton) {
    ICL_JUDGE(study, .quantity = ICL_PHRASE("best descent, degree %zu", degree),
              .ours = best_loss(study, degree, false), .target = newton, .criterion = ICL_AT_MOST,
              .evidence = ICL_COMPUTED, .source = "Newton's loss of that degree");
}

/* Rounding of some 30 products of matrices in double, relative; residuals are far above it. */
#define SAME 1e-9

/* Judges the iteration from a I against descent with as many equal steps as its degree. */
static void judge_newton(icl_study *study, const icl_study_cell *cell) {
    const size_t degree = (size_t)1 << cell->at[0];
    const double exact = best_loss(study, degree, true), same = cell->numbers[SAME_DESCENT].value;

    ICL_JUDGE(study, .quantity = "squared error", ICL_OURS(cell->numbers[LOSS]), .target = same,
              .tolerance = SAME * same, .evidence = ICL_COMPUTED,
              .source = "as many equal steps of descent as degrees, same contexts",
              .note = ICL_PHRASE("over all contexts %.4g", exact));
    if (degree > 1)
        judge_degree(study, degree, exact);
}

/* The iteration from A^T over its norms is a polynomial of degree 2^(T + 1) except for its scale. */
static void judge_from_norms(icl_study *study, const icl_study_cell *cell) {
    if (cell->at[0] + 1 < DOUBLINGS)
        judge_degree(study, (size_t)2 << cell->at[0], cell->numbers[LOSS].value);
}

static const part newton_part = {measure_newton, judge_newton}, norms_part = {measure_newton, judge_from_norms};

/* ---- Trained layers whose B is free ---- */

static icl_status measure_free(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                               icl_error *error) {
    (void)cell;
    return icl_study_loss(study, trained, budgets[study->scale].training.sequences, &numbers[LOSS], error);
}

/* Layers whose B is free change their inputs, too, and their degree in the data triples where Newton's doubles: they
 * must be no worse than as many Newton steps from the best multiple of the identity. */
static void judge_free(icl_study *study, const icl_study_cell *cell) {
    ICL_JUDGE(study, .quantity = "squared error", ICL_OURS(cell->numbers[LOSS]),
              .target = best_loss(study, (size_t)1 << cell->at[0], true), .criterion = ICL_AT_MOST,
              .evidence = ICL_INFERRED, .source = "as many Newton steps from a I");
}

static const part free_part = {measure_free, judge_free};

/* ---- Damped Newton steps of logistic regression ---- */

#define LOGISTIC_STREAM 0x6c6f6769u

/* At this decrement rounding ends the squaring. */
#define ROUNDING 1e-12

static double sigmoid(double t) {
    return 1 / (1 + exp(-t));
}

static double product(const double *left, const double *right) {
    double sum = 0;

    for (size_t i = 0; i < ICL_LOGISTIC_D; i++)
        sum += left[i] * right[i];
    return sum;
}

void icl_logistic_draw(uint32_t seed, uint64_t number, icl_logistic *problem) {
    const icl_random_key key = {.seed = seed, .stream = LOGISTIC_STREAM, .step = number};
    double w[ICL_LOGISTIC_D], longest = 0;
    uint64_t index = 0;

    for (size_t j = 0; j < ICL_LOGISTIC_D; j++)
        w[j] = (double)icl_normal_from_word(icl_random_word(key, index++));
    for (size_t i = 0; i < ICL_LOGISTIC_N; i++) {
        for (size_t j = 0; j < ICL_LOGISTIC_D; j++)
            problem->inputs[i][j] = (double)icl_normal_from_word(icl_random_word(key, index++));
        longest = fmax(longest, sqrt(product(problem->inputs[i], problem->inputs[i])));
        const double uniform = ((double)icl_random_word(key, index++) + .5) / 4294967296.0;
        const double sign = uniform < sigmoid(product(w, problem->inputs[i])) ? 1 : -1;
        for (size_t j = 0; j < ICL_LOGISTIC_D; j++)
            problem->inputs[i][j] *= sign;
    }
    problem->concordance = longest / sqrt(ICL_LOGISTIC_MU);
}

double icl_logistic_loss(const icl_logistic *problem, const double *at) {
    double sum = 0;

    for (size_t i = 0; i < ICL_LOGISTIC_N; i++)
        sum += log1p(exp(-product(problem->inputs[i], at))) / ICL_LOGISTIC_N;
    return sum + ICL_LOGISTIC_MU / 2 * product(at, at);
}

static void differentiate(const icl_logistic *problem, const double *at, double gradient[ICL_LOGISTIC_D],
                          double hessian[ICL_LOGISTIC_D * ICL_LOGISTIC_D]) {
    memset(hessian, 0, ICL_LOGISTIC_D * ICL_LOGISTIC_D * sizeof *hessian);
    for (size_t j = 0; j < ICL_LOGISTIC_D; j++) {
        gradient[j] = ICL_LOGISTIC_MU * at[j];
        hessian[j * (ICL_LOGISTIC_D + 1)] = ICL_LOGISTIC_MU;
    }
    for (size_t i = 0; i < ICL_LOGISTIC_N; i++) {
        const double *const x = problem->inputs[i], left = sigmoid(-product(x, at));
        for (size_t j = 0; j < ICL_LOGISTIC_D; j++) {
            gradient[j] -= left * x[j] / ICL_LOGISTIC_N;
            for (size_t k = 0; k < ICL_LOGISTIC_D; k++)
                hessian[j * ICL_LOGISTIC_D + k] += left * (1 - left) * x[j] * x[k] / ICL_LOGISTIC_N;
        }
    }
}

/* Inverts by Newton's iteration until the residual is only rounding. */
static void invert(const double matrix[ICL_LOGISTIC_D * ICL_LOGISTIC_D],
                   double inverse[ICL_LOGISTIC_D * ICL_LOGISTIC_D]) {
    double work[2 * ICL_LOGISTIC_D * ICL_LOGISTIC_D], residual[ICL_LOGISTIC_D * ICL_LOGISTIC_D], size = 1;

    icl_newton_inverse_start(matrix, ICL_LOGISTIC_D, inverse);
    for (size_t step = 0; step < LOGISTIC_STEPS && size > 1e-26; step++) {
        icl_newton_inverse_step(matrix, ICL_LOGISTIC_D, inverse, work);
        icl_newton_inverse_residual(matrix, inverse, ICL_LOGISTIC_D, residual);
        size = 0;
        for (size_t i = 0; i < ICL_LOGISTIC_D * ICL_LOGISTIC_D; i++)
            size += residual[i] * residual[i];
    }
}

icl_logistic_point icl_logistic_step(const icl_logistic *problem, double *at) {
    double gradient[ICL_LOGISTIC_D], hessian[ICL_LOGISTIC_D * ICL_LOGISTIC_D], inverse[ICL_LOGISTIC_D * ICL_LOGISTIC_D],
        direction[ICL_LOGISTIC_D];

    differentiate(problem, at, gradient, hessian);
    invert(hessian, inverse);
    for (size_t j = 0; j < ICL_LOGISTIC_D; j++)
        direction[j] = product(inverse + j * ICL_LOGISTIC_D, gradient);
    const double decrement = problem->concordance / 2 * sqrt(fmax(product(gradient, direction), 0));
    for (size_t j = 0; j < ICL_LOGISTIC_D; j++)
        at[j] -= direction[j] / (1 + decrement);
    return (icl_logistic_point){decrement, sqrt(product(gradient, gradient))};
}

/* Computes the decrements of a problem; returns how many there are up to the first below ROUNDING, that one
 * included. */
static size_t follow(const icl_logistic *problem, icl_logistic_point points[LOGISTIC_STEPS]) {
    double at[ICL_LOGISTIC_D] = {0};

    for (size_t step = 0; step < LOGISTIC_STEPS; step++) {
        points[step] = icl_logistic_step(problem, at);
        if (points[step].decrement < ROUNDING)
            return step + 1;
    }
    return LOGISTIC_STEPS;
}

/* Measures the first problem in full, and the worst values of many problems. */
static icl_status measure_logistic(icl_study *study, const icl_study_cell *cell, icl_trainer *trained,
                                   icl_number *numbers, icl_error *error) {
    icl_logistic_point points[LOGISTIC_STEPS];
    double share = 0, steps = 0, last = 0;
    icl_logistic problem;

    (void)cell, (void)trained;
    for (size_t i = 0; i < budgets[study->scale].problems; i++) {
        icl_logistic_draw(study->run->params->seed, i, &problem);
        const size_t count = follow(&problem, points);
        size_t small = 0;
        for (size_t step = 0; step < count; step++) {
            const double before = step > 0 ? points[step - 1].decrement : (double)INFINITY;
            small += points[step].decrement < .1;
            share = fmax(share, fmax(points[step].decrement - ROUNDING, 0) / (2 * before * before));
            if (i == 0) {
                numbers[DECREMENTS + step].value = points[step].decrement;
                numbers[GRADIENTS + step].value = points[step].gradient_norm;
            }
        }
        steps = fmax(steps, (double)count);
        last = fmax(last, (double)small);
        if (i % 100 == 0)
            ICL_CHECK(icl_reproduce_poll(study->run, error));
    }
    numbers[WORST_SHARE].value = share;
    numbers[WORST_STEPS].value = steps;
    numbers[WORST_LAST_STEPS].value = last;
    return ICL_OK;
}

/* The decrement is squared, so that the digits double with every step. */
static void judge_one_regression(icl_study *study, const icl_study_cell *cell) {
    const icl_number *decrements = cell->numbers + DECREMENTS, *gradients = cell->numbers + GRADIENTS;
    icl_curves curves =
        ICL_CURVES(.name = "newton-logistic", .title = "Logistic regression by damped Newton steps, d = 5, n = 26",
                   .x_label = "steps", .y_label = "decrement, gradient", .log_y = true);
    size_t count = 1;

    for (; count < LOGISTIC_STEPS && !isnan(decrements[count].value); count++)
        ICL_JUDGE(study, .what = ICL_PHRASE("logistic, step %zu", count), .quantity = "Newton decrement",
                  ICL_OURS(decrements[count]), .target = 2 * decrements[count - 1].value * decrements[count - 1].value,
                  .tolerance = ROUNDING, .criterion = ICL_AT_MOST, .evidence = ICL_COMPUTED,
                  .source = "twice the square of the last one",
                  .note = ICL_PHRASE("||gradient|| %.2g", gradients[count].value));
    icl_study_plot_numbers(study, &curves, "Newton decrement", ICL_SERIES_OURS, NULL, decrements, count);
    icl_study_plot_numbers(study, &curves, "||gradient||", ICL_SERIES_LINE, NULL, gradients, count);
    icl_study_draw(study, &curves);
}

static void judge_logistic(icl_study *study, const icl_study_cell *cell) {
    const icl_number *numbers = cell->numbers;
    double bound = 0, decrement = .1;

    while (decrement >= ROUNDING) {
        decrement *= 2 * decrement;
        bound++;
    }
    judge_one_regression(study, cell);
    ICL_JUDGE(study, .what = ICL_PHRASE("logistic, worst of %zu", budgets[study->scale].problems),
              .quantity = "decrement by twice the last one's square", ICL_OURS(numbers[WORST_SHARE]), .target = 1,
              .criterion = ICL_AT_MOST, .evidence = ICL_COMPUTED, .source = "Nesterov, theorem 5.2.2");
    ICL_JUDGE(study, .what = ICL_PHRASE("logistic, worst of %zu", budgets[study->scale].problems),
              .quantity = "steps from .1 to 1e-12", ICL_OURS(numbers[WORST_LAST_STEPS]), .target = bound + 1,
              .criterion = ICL_AT_MOST, .evidence = ICL_COMPUTED, .source = "log log: 2 delta^2 from .1 on",
              .note = ICL_PHRASE("at most %.0f steps in all", numbers[WORST_STEPS].value));
}

static const part logistic_part = {measure_logistic, judge_logistic};

/* ---- All of them ---- */

static void plan(icl_study *study) {
    const icl_descent_budget *training = &budgets[study->scale].training;

    ICL_ADD_CELL(study, .name = "inverse", .data = &inverse_part);
    for (size_t steps = 0; steps < DOUBLINGS; steps++)
        ICL_ADD_CELL(study, .name = ICL_PHRASE("%zu Newton steps from a I", steps), .group = "newton",
                     .data = &newton_part, .at = {steps, 0});
    for (size_t steps = 0; steps <= SHOWN_STEPS; steps++)
        ICL_ADD_CELL(study, .name = ICL_PHRASE("%zu Newton steps from A / norms", steps), .group = "newton",
                     .data = &norms_part, .at = {steps, 1}, .curve = "Newton from A / norms, sampled",
                     .x = (double)steps);
    for (size_t layers = 1; layers <= budgets[study->scale].layers; layers++)
        icl_study_add_descent(study, &(icl_descent_problem){.dimension = D, .context = N, .steps = layers}, training,
                              "trained layers, B = 0", (double)layers);
    for (size_t layers = 2; layers < budgets[study->scale].layers; layers++) {
        const size_t growth = layers > 2 ? training->stage : 0;
        ICL_ADD_CELL(study, .name = ICL_PHRASE("free-b-d%d-n%d-L%zu", D, N, layers), .data = &free_part, .at = {layers},
                     .recipe = "precondition-depth",
                     .settings = {ICL_PHRASE("task.d=%d task.n=%d model.layers=%zu", D, N, layers),
                                  ICL_PHRASE("model.parameterization=sparse-b train.growth=%zu train.steps=%zu", growth,
                                             (layers - 2) * growth + training->last)},
                     .curve = "trained layers, B free", .x = (double)layers);
    }
    ICL_ADD_CELL(study, .name = "logistic", .data = &logistic_part);
}

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    const part *own = cell->data;

    return own ? own->measure(study, cell, trained, numbers, error)
               : icl_study_measure_descent(study, cell, trained, budgets[study->scale].training.sequences, numbers,
                                           error);
}

static void judge(icl_study *study, const icl_study_cell *cell) {
    const part *own = cell->data;

    if (own)
        own->judge(study, cell);
    else
        icl_study_judge_descent(study, cell, budgets[study->scale].tolerance, ICL_WITHIN);
}

static void conclude(icl_study *study) {
    icl_curves curves =
        ICL_CURVES(.name = "newton-losses", .title = "Newton steps, descent and trained layers, d = 10, n = 50",
                   .x_label = "steps or layers", .y_label = "squared error", .log_y = true);

    for (size_t i = 0; i < study->count; i++)
        if (study->cells[i]->curve && study->cells[i]->is_measured)
            icl_study_plot(study, &curves, study->cells[i]->curve, ICL_SERIES_OURS, study->cells[i]->x,
                           study->cells[i]->numbers[LOSS].value);
    if (curves.count == 0)
        return;
    for (size_t steps = 0; steps < DOUBLINGS; steps++)
        icl_study_plot(study, &curves, "Newton from a I, exact", ICL_SERIES_REFERENCE, (double)steps,
                       best_loss(study, (size_t)1 << steps, true));
    for (size_t steps = 1; steps <= ICL_DESCENT_MOST_STEPS; steps++)
        icl_study_plot(study, &curves, "best descent, exact", ICL_SERIES_REFERENCE, (double)steps,
                       best_loss(study, steps, false));
    icl_study_draw(study, &curves);
}

const icl_reproduction icl_newton_descent = ICL_STUDY(
        .name = "newton-descent", .source = "arXiv 2403.03183 and 2310.17086",
        .about = "Newton's iteration beside gradient descent of the same degree, trained layers, logistic regression",
        .claim = "Newton's iteration doubles its degree with every step, and layers that descend gain one degree each.",
        .scope = "A met table means that Newton's iteration squares its residual and is compared rightly "
                 "with descent of its degree; that trained transformers use it was not shown, because a "
                 "lower loss of trained layers does not tell their algorithm.",
        .cost = {"3 s", "2 min", NULL}, .numbers = NUMBERS, .plan = plan, .measure = measure, .judge = judge,
        .conclude = conclude);
