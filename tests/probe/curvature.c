/* Tests curvature against known results. One layer with P = (0 0; 0 1), Q = (A 0; 0 0) predicts -phi . A with phi_ij =
 * (1/n) sum_s y_s x_si x_tj, so its loss is quadratic in A with Hessian 2 E[phi phi^T], computed here from the tokens.
 * Hessians of deeper models are symmetric, agree with second differences of the loss, and are the same on the tape. */
#include <math.h>

#include "core/allocate.h"
#include "iclab/recipe.h"
#include "iclab/status.h"
#include "numeric/statistics.h"
#include "probe/curvature.h"
#include "tap.h"

enum { D = 3, CONTEXT = 7, SEQUENCES = 300, MOST = 64, SEED = 11 };

typedef struct subject {
    icl_task *task;
    icl_model *model;
    icl_objective *objective;
    double at[MOST];
} subject;

static void subject_release(subject *test) {
    icl_objective_destroy(&test->objective);
    icl_model_destroy(&test->model);
    icl_task_destroy(&test->task);
}

static icl_status make(const char *parameterization, const char *layers, const char *space, subject *test,
                       icl_error *error) {
    const char *const overrides[] = {"task.d=3",
                                     "task.n=7",
                                     "task.noise=fixed:0.5",
                                     "model.initialization=normal",
                                     "model.init_std=0.3",
                                     parameterization,
                                     layers,
                                     space};
    float initial[MOST];
    icl_recipe *recipe = NULL;
    icl_status status;

    *test = (subject){0};
    ICL_TRY(icl_recipe_create_complete(&recipe, error));
    for (size_t i = 0; i < sizeof overrides / sizeof *overrides; i++)
        ICL_TRY(icl_recipe_override(recipe, overrides[i], error));
    ICL_TRY(icl_task_create(recipe, &test->task, error));
    ICL_TRY(icl_model_create(recipe, icl_regression_shape(D, CONTEXT), &test->model, error));
    const icl_objective_params of = {
        .task = test->task, .model = test->model, .purpose = ICL_FOR_EVALUATION, .sequences = SEQUENCES};
    ICL_TRY(icl_objective_create(&of, &test->objective, error));
    ICL_TRY(icl_objective_draw(test->objective, SEED, 2, error));
    icl_model_initialize(test->model, SEED, initial);
    for (size_t i = 0; i < icl_model_size(test->model); i++)
        test->at[i] = (double)initial[i];
done:
    icl_recipe_destroy(&recipe);
    return status;
}

/* ---- One layer ---- */

/* Draws the same sequences again, as doubles: tokens [SEQUENCES][CONTEXT + 1][D + 1]. */
static icl_status read_tokens(const icl_task *task, double *tokens, icl_error *error) {
    icl_backend *backend = NULL;
    icl_batch batch = {0};
    icl_status status;

    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "ref"}, &backend, error));
    ICL_TRY(icl_batch_create(task, backend, ICL_FOR_EVALUATION, SEQUENCES, &batch, error));
    ICL_TRY(icl_task_sample(task, backend, ICL_FOR_EVALUATION, SEED, 2, &batch, error));
    ICL_TRY(icl_tensor_read_double(batch.inputs, tokens, error));
done:
    icl_batch_release(&batch);
    icl_backend_close(&backend);
    return status;
}

/* 2 E[phi phi^T]. */
static void exact_hessian(const double *tokens, double *hessian) {
    for (size_t k = 0; k < D * D * D * D; k++)
        hessian[k] = 0;
    for (size_t s = 0; s < SEQUENCES; s++) {
        const double *sequence = tokens + s * (CONTEXT + 1) * (D + 1), *query = sequence + CONTEXT * (D + 1);
        double phi[D * D] = {0};
        for (size_t i = 0; i < CONTEXT; i++)
            for (size_t k = 0; k < D * D; k++)
                phi[k] += sequence[i * (D + 1) + D] * sequence[i * (D + 1) + k / D] * query[k % D] / CONTEXT;
        for (size_t k = 0; k < D * D; k++)
            for (size_t l = 0; l < D * D; l++)
                hessian[k * D * D + l] += 2 * phi[k] * phi[l] / SEQUENCES;
    }
}

static double largest_distance(const double *a, const double *b, size_t count) {
    double distance = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        distance = fmax(distance, fabs(a[i] - b[i]));
        size = fmax(size, fabs(b[i]));
    }
    return distance / size;
}

/* Their mean is the loss. */
static void check_losses(tap_run *tap) {
    double losses[SEQUENCES], loss = 0;
    icl_error error = {0};
    subject is;

    if (tap_status(tap, make("model.parameterization=full", "model.layers=2", "model.space=auto", &is, &error), &error,
                   "two full layers") &&
        tap_status(tap, icl_objective_losses(is.objective, is.at, losses, &error), &error, "losses") &&
        tap_status(tap, icl_objective_gradient(is.objective, is.at, &loss, NULL, &error), &error, "loss"))
        tap_ok(tap, fabs(icl_mean(losses, SEQUENCES) - loss) < 1e-12 * loss, "their mean is the loss");
    subject_release(&is);
}

static void check_one_layer(tap_run *tap) {
    static double tokens[SEQUENCES * (CONTEXT + 1) * (D + 1)];
    double ours[D * D * D * D], exact[D * D * D * D];
    icl_smoothness smoothness = {0};
    icl_error error = {0};
    subject is;

    if (tap_status(tap, make("model.parameterization=sparse", "model.layers=1", "model.space=auto", &is, &error),
                   &error, "one layer") &&
        tap_status(tap, read_tokens(is.task, tokens, &error), &error, "its tokens") &&
        tap_status(tap, icl_hessian(is.objective, is.at, ours, &error), &error, "its Hessian")) {
        const double first[D * D] = {2};
        double distance, row = 0;
        exact_hessian(tokens, exact);
        distance = largest_distance(ours, exact, D * D * D * D);
        tap_ok(tap, distance < 1e-8, "is 2 E[phi phi^T] (%.1e)", distance);
        tap_status(tap, icl_smoothness_along(is.objective, is.at, first, &smoothness, &error), &error, "smoothness");
        tap_ok(tap, fabs(smoothness.directional - exact[0]) < 1e-8 * exact[0],
               "along an axis it is the diagonal's element");
        for (size_t k = 0; k < D * D; k++)
            row = hypot(row, exact[k]);
        tap_ok(tap, fabs(smoothness.local - row) < 1e-8 * row, "and the local smoothness its row's length (%g)", row);
    }
    subject_release(&is);
}

/* ---- Deeper models ---- */

/* (f(x + h v) - 2 f(x) + f(x - h v)) / h^2 with h = 1e-3. */
static icl_status second_difference(subject *test, const double *direction, double *difference, icl_error *error) {
    const double step = 1e-3, weights[3] = {1, -2, 1};
    double moved[MOST], loss;
    icl_status status = ICL_OK;

    *difference = 0;
    for (int k = 0; k < 3; k++) {
        for (size_t i = 0; i < icl_model_size(test->model); i++)
            moved[i] = test->at[i] + (k - 1) * step * direction[i];
        ICL_TRY(icl_objective_gradient(test->objective, moved, &loss, NULL, error));
        *difference += weights[k] * loss / (step * step);
    }
done:
    return status;
}

static void check_deep(tap_run *tap, const char *parameterization, const char *layers) {
    double direction[MOST] = {0}, product[MOST] = {0}, on_tape[MOST] = {0}, quadratic = 0, difference = 0, distance;
    icl_error error = {0};
    subject is, composed;

    if (!tap_status(tap, make(parameterization, layers, "model.space=auto", &is, &error), &error, parameterization) ||
        !tap_status(tap, make(parameterization, layers, "model.space=composed", &composed, &error), &error,
                    "composed")) {
        subject_release(&is);
        return;
    }
    const size_t size = icl_model_size(is.model);
    for (size_t i = 0; i < size; i++)
        direction[i] = sin((double)i + 1);
    tap_status(tap, icl_hessian_vector(is.objective, is.at, direction, product, &error), &error, "H v");
    tap_status(tap, icl_hessian_vector(composed.objective, is.at, direction, on_tape, &error), &error,
               "H v by the tape");
    distance = largest_distance(on_tape, product, size);
    tap_ok(tap, distance < 1e-7, "%s, %s: both ways agree (%.1e)", parameterization, layers, distance);
    for (size_t i = 0; i < size; i++)
        quadratic += direction[i] * product[i];
    tap_status(tap, second_difference(&is, direction, &difference, &error), &error, "losses");
    tap_ok(tap, fabs(quadratic - difference) < 1e-4 * fabs(quadratic) + 1e-6,
           "v H v is the second difference of the loss (%.7g, %.7g)", quadratic, difference);
    subject_release(&is);
    subject_release(&composed);
}

static void check_symmetry(tap_run *tap) {
    static double rows[MOST * MOST], hessian[MOST * MOST];
    icl_robust_condition condition = {0};
    icl_error error = {0};
    subject is;

    if (tap_status(tap, make("model.parameterization=sparse-b", "model.layers=2", "model.space=auto", &is, &error),
                   &error, "two layers")) {
        const size_t size = icl_model_size(is.model);
        double asymmetry = 0, largest = 0, diagonal[MOST], unit[MOST] = {0};
        for (size_t i = 0; i < size; i++) {
            unit[i] = 1;
            tap_status(tap, icl_hessian_vector(is.objective, is.at, unit, rows + i * size, &error), &error, "row");
            unit[i] = 0;
        }
        tap_status(tap, icl_hessian(is.objective, is.at, hessian, &error), &error, "Hessian");
        for (size_t i = 0; i < size; i++)
            for (size_t j = 0; j < size; j++) {
                asymmetry = fmax(asymmetry, fabs(rows[i * size + j] - rows[j * size + i]));
                largest = fmax(largest, fabs(hessian[i * size + j]));
            }
        tap_ok(tap, asymmetry < 1e-7 * largest, "rows and columns agree (%.1e)", asymmetry / largest);
        for (size_t i = 0; i < size; i++)
            diagonal[i] = fabs(hessian[i * size + i]);
        tap_status(tap, icl_robust_condition_of(hessian, size, &condition, &error), &error, "condition");
        const double median = icl_lower_median(diagonal, size); /* sorts */
        tap_ok(tap, fabs(condition.diagonal * median - diagonal[size - 1]) < 1e-12 * diagonal[size - 1],
               "max / median of the diagonal (%.3g)", condition.diagonal);
    }
    subject_release(&is);
}

/* ---- Statistics ---- */

static void check_condition(tap_run *tap) {
    /* Eigenvalues 9, 1 and -3. */
    const double matrix[9] = {4, 5, 0, 5, 4, 0, 0, 0, -3};
    const double broken[1] = {(double)NAN};
    icl_robust_condition condition = {0};
    icl_error error = {0};

    tap_status(tap, icl_robust_condition_of(matrix, 3, &condition, &error), &error, "a known matrix");
    tap_ok(tap, fabs(condition.eigenvalues - 3) < 1e-12 && fabs(condition.diagonal - 1) < 1e-12,
           "has conditions 9 / 3 and 4 / 4 (%g, %g)", condition.eigenvalues, condition.diagonal);
    tap_ok(tap, icl_robust_condition_of(broken, 1, &condition, &error) == ICL_ERROR_DIVERGED, "a NaN is refused: %s",
           error.message);
}

static void check_statistics(tap_run *tap) {
    enum { COUNT = 20000, LARGEST = 1000 };
    static const double indices[3] = {0.8, 1.6, 3.2};
    static double values[COUNT];
    double even[4] = {4, 1, 3, 2}, odd[3] = {5, -1, 2}, error = 0;
    const double x[4] = {0, 1, 2, 3}, y[4] = {1, 3, 4.5, 7.5};

    tap_ok(tap, icl_median(even, 4) == 2.5 && icl_median(odd, 3) == 2, "medians of even and odd counts");
    tap_ok(tap, icl_lower_median(even, 4) == 2 && icl_lower_median(odd, 3) == 2, "the lower ones");
    tap_ok(tap, icl_trimmed_mean(even, 4, .3) == 2 && icl_trimmed_mean(even, 4, 0) == 2.5, "means without the largest");
    /* By hand: sums of squares 5 and products 10.5, residuals .15, .05, -.55 and .35. */
    tap_ok(tap, fabs(icl_slope(x, y, 4, &error) - 2.1) < 1e-12, "slope");
    tap_ok(tap, fabs(error - sqrt(.45 / 2 / 5)) < 1e-12, "and its standard error (%g)", error);
    tap_ok(tap, icl_mean(x, 4) == 1.5 && fabs(icl_standard_error(x, 4) - sqrt(5.0 / 3 / 4)) < 1e-15,
           "mean and its standard error");
    for (int k = 0; k < 3; k++) {
        const double index = indices[k];
        for (size_t i = 0; i < COUNT; i++)
            values[i] = pow(((double)i + 0.5) / COUNT, -1 / index);
        const double found = icl_tail_index(values, COUNT, LARGEST);
        tap_ok(tap, fabs(found / index - 1) < 0.01, "Pareto with index %g: %g", index, found);
    }
}

int main(void) {
    tap_run tap = {0};

    check_losses(&tap);
    check_one_layer(&tap);
    check_deep(&tap, "model.parameterization=sparse-b", "model.layers=2");
    check_deep(&tap, "model.parameterization=full", "model.layers=2");
    check_deep(&tap, "model.parameterization=diag", "model.layers=3");
    check_symmetry(&tap);
    check_condition(&tap);
    check_statistics(&tap);
    return tap_done(&tap);
}
