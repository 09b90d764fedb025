/*
 * Newton's iteration beside gradient descent: Giannou, Yang, Wang, Papailiopoulos, Lee 2024, "How Well Can Transformers
 * Emulate In-context Newton's Method?" (arXiv 2403.03183), and Fu, Chen, Jia, Sharan 2023, "Transformers Learn to
 * Achieve Second-Order Convergence Rates for In-Context Linear Regression" (arXiv 2310.17086). d = 10, n = 50 as in the
 * former; neither paper prints numbers, and targets are computed.
 *
 * With A = X^T X / n, X <- X (2 I - A X) squares the residual I - A X, and T steps predict with X_T X^T y / n: given A
 * they lose E ||I - A X_T||_F^2. From X_0 = a I the residual is (I - a A)^(2^T): 2^T steps of descent with one length,
 * whose loss is exact (iclab/descent_optimum.h). From X_0 = A^T / (||A||_1 ||A||_inf), which needs no length to be
 * known, it is a polynomial of degree 2^(T + 1) in A but for the scale: sampled. The best steps of descent that reach
 * the same degree lose less. Layers of linear attention are such steps, one degree each, so that Newton's iteration,
 * whose degree doubles, is exponentially faster than they are; layers that change their inputs, too, are not so bound.
 */
#include <math.h>
#include <stdio.h>

#include "core/allocate.h"
#include "numeric/newton_inverse.h"
#include "numeric/singular.h"
#include "numeric/statistics.h"
#include "papers/curves.h"
#include "papers/losses.h"
#include "papers/newton/newton.h"
#include "papers/papers.h"
#include "papers/trained_descent.h"
#include "papers/wishart_sample.h"

enum { D = 10, N = 50, SIZE = D * D, MOST_STEPS = 30, SHOWN_STEPS = 7, DOUBLINGS = 4 };

static const struct {
    size_t layers, stage, last, sequences, spectra, problems;
    double tolerance; /* of trained losses, relative */
} budgets[ICL_SCALES] = {{2, 300, 1000, 20000, 4000, 200, .05},
                         {4, 1500, 5000, 1000000, 40000, 2000, .02},
                         {4, 1500, 5000, 1000000, 40000, 2000, .02}};

/* ---- Residuals of one matrix ---- */

static icl_status residual_norm(const double *matrix, const double *inverse, double *norm, icl_error *error) {
    double residual[SIZE], smallest;

    icl_newton_inverse_residual(matrix, inverse, D, residual);
    return icl_singular_extremes(residual, D, D, &smallest, norm, error);
}

static icl_status follow_residual(icl_reproducing *run, icl_error *error) {
    double row[D], A[SIZE], X[SIZE], work[2 * SIZE], at[MOST_STEPS + 1], norms[MOST_STEPS + 1];
    char what[32];
    size_t steps = 0;

    icl_wishart_sample(D, N, run->params->seed, 0, row, A);
    icl_newton_inverse_start(A, D, X);
    for (; steps <= MOST_STEPS; steps++) {
        at[steps] = (double)steps;
        ICL_CHECK(residual_norm(A, X, &norms[steps], error));
        if (steps > 0) {
            const double square = norms[steps - 1] * norms[steps - 1];
            snprintf(what, sizeof what, "inverse, step %zu", steps);
            ICL_CHECK(ICL_FOUND(run, error, .what = what, .quantity = "||I - A X||", .ours = norms[steps],
                                .target = square, .tolerance = 1e-9 * square + 1e-14, .evidence = ICL_COMPUTED,
                                .source = "square of the last one"));
        }
        if (norms[steps] < 1e-14)
            break;
        icl_newton_inverse_step(A, D, X, work);
    }
    ICL_CHECK(ICL_FOUND(run, error, .what = "inverse, at the end", .quantity = "||I - A X||",
                        .ours = norms[steps < MOST_STEPS ? steps : MOST_STEPS], .target = 1e-14,
                        .criterion = ICL_AT_MOST, .evidence = ICL_COMPUTED, .source = "rounding"));
    const icl_series series[] = {
        {"||I - A X||", ICL_SERIES_OURS, steps < MOST_STEPS ? steps + 1 : MOST_STEPS + 1, at, norms, NULL}};
    return ICL_DRAW_FIGURE(run, error, .name = "newton-residual",
                           .title = "Newton's iteration for the inverse, d = 10, n = 50", .x_label = "steps",
                           .y_label = "||I - A X||", .log_y = true, .count = 1, .series = series);
}

/* ---- Losses of Newton's iteration ---- */

typedef struct newton_losses {
    double mean[SHOWN_STEPS + 1], standard_error[SHOWN_STEPS + 1]; /* of 0 to SHOWN_STEPS steps */
} newton_losses;

/* ||I - A X||_F^2 after every step; a = 0 begins at A^T over its norms. */
static void iterate(const double *A, double a, double losses[SHOWN_STEPS + 1]) {
    double X[SIZE], work[2 * SIZE], residual[SIZE];

    icl_newton_inverse_start(A, D, X);
    for (size_t i = 0; a > 0 && i < SIZE; i++)
        X[i] = i % (D + 1) == 0 ? a : 0;
    for (size_t step = 0; step <= SHOWN_STEPS; step++) {
        icl_newton_inverse_residual(A, X, D, residual);
        losses[step] = 0;
        for (size_t i = 0; i < SIZE; i++)
            losses[step] += residual[i] * residual[i];
        icl_newton_inverse_step(A, D, X, work);
    }
}

static icl_status sample_losses(icl_reproducing *run, double a, newton_losses *is, icl_error *error) {
    const size_t count = budgets[run->params->scale].spectra;
    double row[D], A[SIZE], losses[SHOWN_STEPS + 1], *all = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(count, (SHOWN_STEPS + 1) * sizeof *all, "losses", &all, error));
    for (size_t i = 0; i < count; i++) {
        if (i % 1000 == 0)
            ICL_TRY(icl_reproduce_poll(run, error));
        icl_wishart_sample(D, N, run->params->seed, i, row, A);
        iterate(A, a, losses);
        for (size_t step = 0; step <= SHOWN_STEPS; step++)
            all[step * count + i] = losses[step];
    }
    for (size_t step = 0; step <= SHOWN_STEPS; step++) {
        is->mean[step] = icl_mean(all + step * count, count);
        is->standard_error[step] = icl_standard_error(all + step * count, count);
    }
done:
    icl_free(&all);
    return status;
}

static icl_status best_descent(size_t steps, bool is_tied, double *lengths, double *loss, icl_error *error) {
    const icl_descent_problem problem = {.dimension = D, .context = N, .steps = steps, .is_tied = is_tied};

    return icl_descent_optimum(&problem, lengths, loss, error);
}

static icl_status judge_degree(icl_reproducing *run, const char *what, size_t degree, double newton, icl_error *error) {
    double least;
    char quantity[48];

    ICL_CHECK(best_descent(degree, false, NULL, &least, error));
    snprintf(quantity, sizeof quantity, "best descent, degree %zu", degree);
    return ICL_FOUND(run, error, .what = what, .quantity = quantity, .ours = least, .target = newton,
                     .criterion = ICL_AT_MOST, .evidence = ICL_COMPUTED, .source = "Newton's loss of that degree");
}

/* From a I, a the best for so many steps: the iteration against descent with as many equal steps as it has degrees. */
static icl_status judge_identity(icl_reproducing *run, size_t steps, icl_curves *curves, icl_error *error) {
    const size_t degree = (size_t)1 << steps;
    bool is_told;
    double lengths[ICL_DESCENT_MOST_STEPS], exact;
    newton_losses is;
    char what[48];

    ICL_CHECK(best_descent(degree, true, lengths, &exact, error));
    ICL_CHECK(sample_losses(run, lengths[0], &is, error));
    snprintf(what, sizeof what, "%zu Newton steps from a I", steps);
    is_told = is.standard_error[steps] < .05 * exact;
    ICL_CHECK(ICL_FOUND(
        run, error, .what = what, .quantity = "squared error", .ours = is.mean[steps],
        .standard_error = is.standard_error[steps], .target = exact, .tolerance = 4 * is.standard_error[steps],
        .evidence = is_told ? ICL_COMPUTED : ICL_EVIDENCE_NONE, .source = "as many equal steps of descent as degrees",
        .note = is_told ? NULL : "too heavy a tail for a verdict"));
    ICL_CHECK(icl_curves_add(curves, "Newton from a I, exact", ICL_SERIES_REFERENCE, (double)steps, exact, error));
    return steps > 0 ? judge_degree(run, what, degree, exact, error) : ICL_OK;
}

static icl_status judge_newton(icl_reproducing *run, icl_curves *curves, icl_error *error) {
    newton_losses from_norms;
    char what[48];

    ICL_CHECK(sample_losses(run, 0, &from_norms, error));
    for (size_t steps = 0; steps < DOUBLINGS; steps++)
        ICL_CHECK(judge_identity(run, steps, curves, error));
    for (size_t steps = 0; steps <= SHOWN_STEPS; steps++) {
        ICL_CHECK(icl_curves_add(curves, "Newton from A / norms, sampled", ICL_SERIES_LINE, (double)steps,
                                 from_norms.mean[steps], error));
        snprintf(what, sizeof what, "%zu Newton steps from A / norms", steps);
        if (steps + 1 < DOUBLINGS)
            ICL_CHECK(judge_degree(run, what, (size_t)2 << steps, from_norms.mean[steps], error));
    }
    for (size_t steps = 1; steps <= ICL_DESCENT_MOST_STEPS; steps++) {
        double least;
        ICL_CHECK(best_descent(steps, false, NULL, &least, error));
        ICL_CHECK(icl_curves_add(curves, "best descent, exact", ICL_SERIES_REFERENCE, (double)steps, least, error));
    }
    return ICL_OK;
}

/* ---- Trained layers ---- */

static icl_status reproduce_layers(icl_reproducing *run, size_t layers, icl_curves *curves, icl_error *error) {
    const icl_descent_training training = {.problem = {.dimension = D, .context = N, .steps = layers},
                                           .stage = budgets[run->params->scale].stage,
                                           .last = budgets[run->params->scale].last,
                                           .sequences = budgets[run->params->scale].sequences};
    icl_trained_descent trained = {.recipe = NULL};
    icl_status status = ICL_OK;

    if (!icl_descent_training_wanted(run, &training))
        return ICL_OK;
    ICL_TRY(icl_train_descent(run, &training, &trained, error));
    ICL_TRY(icl_judge_descent(run, &training, &trained, budgets[run->params->scale].tolerance, ICL_WITHIN, error));
    ICL_TRY(icl_curves_add(curves, "trained layers, B = 0", ICL_SERIES_OURS, (double)layers, trained.loss, error));
done:
    icl_trained_descent_release(&trained);
    return status;
}

static icl_status train_free(icl_reproducing *run, const char *name, size_t layers, icl_trainer **trainer,
                             icl_error *error) {
    const size_t growth = layers > 2 ? budgets[run->params->scale].stage : 0;
    icl_recipe *recipe = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_reproduce_recipe("precondition-depth", &recipe, error));
    ICL_TRY(icl_reproduce_override(recipe, error, "task.d=%d", D));
    ICL_TRY(icl_reproduce_override(recipe, error, "task.n=%d", N));
    ICL_TRY(icl_reproduce_override(recipe, error, "model.layers=%zu", layers));
    ICL_TRY(icl_reproduce_override(recipe, error, "model.parameterization=sparse-b"));
    ICL_TRY(icl_reproduce_override(recipe, error, "train.growth=%zu", growth));
    ICL_TRY(icl_reproduce_override(recipe, error, "train.steps=%zu",
                                   (layers - 2) * growth + budgets[run->params->scale].last));
    ICL_TRY(icl_reproduce_cell(run, name, recipe, NULL, trainer, error));
done:
    icl_recipe_destroy(&recipe);
    return status;
}

/* Layers whose B is free change their inputs, too, and their degree in the data triples as Newton's doubles: no worse
 * than as many Newton steps from the best multiple of the identity. */
static icl_status reproduce_free(icl_reproducing *run, size_t layers, icl_curves *curves, icl_error *error) {
    icl_trainer *trainer = NULL;
    float *values = NULL;
    icl_paired_loss loss;
    double newton;
    char name[48];
    icl_status status = ICL_OK;

    snprintf(name, sizeof name, "free-b-d%d-n%d-L%zu", D, N, layers);
    if (!icl_reproduce_wants(run, name))
        return ICL_OK;
    ICL_TRY(train_free(run, name, layers, &trainer, error));
    ICL_TRY(icl_allocate(icl_model_size(icl_trainer_model(trainer)), sizeof *values, "parameters", &values, error));
    ICL_TRY(icl_trainer_get_parameters(trainer, values, error));
    const float *const vectors[] = {values};
    ICL_TRY(icl_reproduce_losses(run, trainer, budgets[run->params->scale].sequences, 1, vectors, &loss, error));
    ICL_TRY(best_descent((size_t)1 << layers, true, NULL, &newton, error));
    ICL_TRY(ICL_FOUND(run, error, .what = name, .quantity = "squared error", .ours = loss.mse,
                      .standard_error = loss.se, .target = newton, .criterion = ICL_AT_MOST, .evidence = ICL_INFERRED,
                      .source = "as many Newton steps from a I"));
    ICL_TRY(icl_curves_add(curves, "trained layers, B free", ICL_SERIES_OURS, (double)layers, loss.mse, error));
done:
    icl_free(&values);
    icl_trainer_destroy(&trainer);
    return status;
}

static icl_status reproduce_regression(icl_reproducing *run, icl_error *error) {
    icl_curves curves = {.figure = {.name = "newton-losses",
                                    .title = "Newton steps, descent and trained layers, d = 10, n = 50",
                                    .x_label = "steps or layers",
                                    .y_label = "squared error",
                                    .log_y = true}};
    icl_status status = ICL_OK;

    if (icl_reproduce_wants(run, "newton") && icl_reproduce_judges(run))
        ICL_TRY(judge_newton(run, &curves, error));
    for (size_t layers = 1; layers <= budgets[run->params->scale].layers; layers++)
        ICL_TRY(icl_reproduce_next(run, reproduce_layers(run, layers, &curves, error)));
    for (size_t layers = 2; layers < budgets[run->params->scale].layers; layers++)
        ICL_TRY(icl_reproduce_next(run, reproduce_free(run, layers, &curves, error)));
    ICL_TRY(icl_curves_draw(run, &curves, error));
done:
    icl_curves_release(&curves);
    return status;
}

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    if (icl_reproduce_wants(run, "inverse") && icl_reproduce_judges(run))
        ICL_CHECK(follow_residual(run, error));
    ICL_CHECK(reproduce_regression(run, error));
    if (icl_reproduce_wants(run, "logistic") && icl_reproduce_judges(run))
        ICL_CHECK(icl_newton_judge_logistic(run, budgets[run->params->scale].problems, error));
    return ICL_OK;
}

const icl_reproduction icl_newton_descent = {
    .name = "newton-descent",
    .source = "arXiv 2403.03183 and 2310.17086",
    .about = "Newton's iteration beside gradient descent of the same degree, trained layers, logistic regression",
    .cost = {"3 s", "2 min", NULL},
    .is_shared = true,
    .run = reproduce,
};
