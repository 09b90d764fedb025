/* Fuzzes starting a model from a file: whatever the file holds, the start is finite, or the file is refused in one line
 * that names the reason. */
#include <math.h>

#include "core/allocate.h"
#include "fuzz.h"
#include "iclab/model_file.h"
#include "iclab/recipe.h"

/* The corpus has models of these extents. */
static const char recipe_text[] = "[task]\nd = 2\nn = 3\n[model]\nlayers = 2\nparameterization = full\n";

typedef struct start {
    icl_recipe *recipe;
    icl_model *model;
    float *values;
} start;

static start make_start(void) {
    start made = {0};

    fuzz_promise(icl_recipe_create_complete(&made.recipe, NULL) == ICL_OK &&
                     icl_recipe_parse(made.recipe, recipe_text, "model", NULL) == ICL_OK &&
                     icl_model_create(made.recipe, icl_regression_shape(2, 3), &made.model, NULL) == ICL_OK &&
                     icl_allocate(icl_model_size(made.model), sizeof *made.values, "values", &made.values, NULL) ==
                         ICL_OK,
                 "there is a model");
    return made;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static start to; /* lives until the process ends */
    icl_error error = {0};

    if (!to.model)
        to = make_start();
    icl_model_initialize(to.model, 1, to.values);
    const icl_status status = icl_model_file_start(fuzz_file(data, size), to.recipe, to.model, to.values, &error);
    if (status != ICL_OK)
        fuzz_check_refusal(status, &error);
    for (size_t i = 0; status == ICL_OK && i < icl_model_size(to.model); i++)
        fuzz_promise(isfinite(to.values[i]), "a start is finite");
    return 0;
}
