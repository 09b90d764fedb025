/* Parameters by name, from a model's flat vector. */
#include "model/named_matrix.h"

#include <string.h>

#include "iclab/recipe.h"
#include "tap.h"

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

    test_parameters(&tap);
    return tap_done(&tap);
}
