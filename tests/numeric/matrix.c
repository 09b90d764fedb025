/* Probes of matrices against what follows from their definitions. */
#include "numeric/matrix.h"

#include <math.h>

#include "core/allocate.h"
#include "iclab/recipe.h"
#include "tap.h"

static void test_distance(tap_run *tap) {
    const double multiple[] = {-3, 0, 0, -3}, traceless[] = {1, 5, 2, -1}, zero[4] = {0};
    const double mixed[] = {2, 1, -1, 4}; /* 3 I + {-1, 1, -1, 1}: 2 of sqrt(22) */

    tap_ok(tap, icl_matrix_distance(multiple, 2) == 0 && icl_matrix_multiple(multiple, 2) == -3,
           "a multiple of the identity is at distance 0");
    tap_ok(tap, fabs(icl_matrix_distance(traceless, 2) - 1) < 1e-15, "a matrix without trace at 1");
    tap_ok(tap, icl_matrix_distance(zero, 2) == 0, "nothing at 0");
    tap_ok(tap, fabs(icl_matrix_distance(mixed, 2) - 2 / sqrt(22)) < 1e-15 && icl_matrix_multiple(mixed, 2) == 3,
           "3 I and more at 2 / sqrt(22)");
}

/* x^T M x for x = R g is g^T (R^T M R) g. */
static void test_basis(tap_run *tap) {
    const double root[] = {1, 2, 0, -1, .5, 3, 2, 0, 1}, matrix[] = {1, 0, 4, -2, 3, 0, 5, 1, 1};
    const double g[] = {.3, -1.2, 2};
    double in_basis[9], x[3] = {0}, parameterization = 0, same = 0;

    icl_matrix_in_basis(root, matrix, 3, in_basis);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++)
            x[i] += root[i * 3 + k] * g[k];
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) {
            parameterization += x[i] * matrix[i * 3 + k] * x[k];
            same += g[i] * in_basis[i * 3 + k] * g[k];
        }
    tap_ok(tap, fabs(parameterization - same) < 1e-12 * fabs(parameterization),
           "the form's value does not depend on the basis: %g", parameterization);
    icl_matrix_in_basis(NULL, matrix, 3, in_basis);
    tap_ok(tap, memcmp(in_basis, matrix, sizeof matrix) == 0, "without a root nothing changes");
}

static void test_parameters(tap_run *tap) {
    icl_recipe *recipe = NULL;
    icl_model *model = NULL;
    icl_error error = {0};
    double matrix[4] = {0};
    float values[16];
    icl_status status = icl_recipe_create_complete(&recipe, &error);

    for (int i = 0; i < 16; i++)
        values[i] = (float)i;
    if (status == ICL_OK)
        status = icl_recipe_override(recipe, "model.parameterization=sparse-b", &error);
    if (status == ICL_OK)
        status = icl_recipe_override(recipe, "model.layers=2", &error);
    if (status == ICL_OK)
        status = icl_model_create(recipe, icl_regression_shape(2, 3), &model, &error);
    if (tap_status(tap, status, &error, "model")) {
        status = icl_matrix_of_model(model, values, "layer.1.head.0.A", 2, 2, matrix, &error);
        tap_ok(tap, status == ICL_OK && matrix[0] == 12 && matrix[3] == 15, "the second layer's A is the last");
        tap_ok(tap,
               icl_matrix_of_model(model, values, "layer.2.head.0.A", 2, 2, matrix, &error) == ICL_ERROR_INPUT &&
                   strstr(error.message, "layer.2.head.0.A"),
               "%s", error.message);
        tap_ok(tap, icl_matrix_of_model(model, values, "layer.1.head.0.A", 3, 3, matrix, &error) == ICL_ERROR_INPUT,
               "%s", error.message);
    }
    icl_model_destroy(&model);
    icl_recipe_destroy(&recipe);
}

int main(void) {
    tap_run tap = {0};

    test_distance(&tap);
    test_basis(&tap);
    test_parameters(&tap);
    return tap_done(&tap);
}
