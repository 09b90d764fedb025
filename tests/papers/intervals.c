/* The start of table 1's deep models without noise: three kinds of model, one polynomial, nearly the solution. */
#include <math.h>
#include <stdio.h>

#include "core/allocate.h"
#include "iclab/iclab.h"
#include "iclab/status.h"
#include "papers/versatile/versatile.h"
#include "tap.h"
#include "train/objective.h"

enum { SEQUENCES = 4096, SEED = 1 };

static icl_status make_recipe(const char *kind, size_t layers, icl_recipe **recipe, icl_error *error) {
    char form[64], depth[32];

    snprintf(form, sizeof form, "model.parameterization=%s", kind);
    snprintf(depth, sizeof depth, "model.layers=%zu", layers);
    ICL_CHECK(icl_recipe_create_complete(recipe, error));
    ICL_CHECK(icl_recipe_override(*recipe, "task.d=10", error));
    ICL_CHECK(icl_recipe_override(*recipe, "task.n=20", error));
    ICL_CHECK(icl_recipe_override(*recipe, "task.noise=fixed:0", error));
    ICL_CHECK(icl_recipe_override(*recipe, "task.sampler=gram", error));
    ICL_CHECK(icl_recipe_override(*recipe, "model.scale=mean", error));
    ICL_CHECK(icl_recipe_override(*recipe, form, error));
    return icl_recipe_override(*recipe, depth, error);
}

static icl_status measure(const icl_recipe *recipe, double *loss, icl_error *error) {
    icl_objective_params of = {.purpose = ICL_FOR_TRAINING, .sequences = SEQUENCES};
    icl_objective *objective = NULL;
    icl_model *model = NULL;
    icl_task *task = NULL;
    float *values = NULL;
    double *at = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_task_create(recipe, &task, error));
    ICL_TRY(icl_model_create(recipe, *icl_task_get_shape(task), &model, error));
    ICL_TRY(icl_allocate(icl_model_size(model), sizeof *values, "values", &values, error));
    ICL_TRY(icl_allocate(icl_model_size(model), sizeof *at, "values", &at, error));
    icl_versatile_start_at_intervals(model, values);
    for (size_t i = 0; i < icl_model_size(model); i++)
        at[i] = (double)values[i];
    of.task = task;
    of.model = model;
    ICL_TRY(icl_objective_create(&of, &objective, error));
    ICL_TRY(icl_objective_draw(objective, SEED, 0, error));
    ICL_TRY(icl_objective_gradient(objective, at, loss, NULL, error));
done:
    icl_objective_destroy(&objective);
    icl_model_destroy(&model);
    icl_task_destroy(&task);
    icl_free(&values);
    icl_free(&at);
    return status;
}

int main(void) {
    static const struct {
        size_t layers;
        double most; /* where a = b = (27 / 4)^l / high leave 3e-3, 4e-4 and 6e-5 */
    } cells[] = {{5, 1e-4}, {6, 2e-9}, {7, 2e-12}};
    tap_run tap = {0};

    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
        double first = 0;
        for (size_t kind = 0; kind < ICL_VERSATILE_PARAMETERIZATIONS; kind++) {
            const char *name = icl_versatile_parameterizations[kind];
            icl_recipe *recipe = NULL;
            icl_error error = {0};
            double loss = 0;
            icl_status status = make_recipe(name, cells[i].layers, &recipe, &error);
            if (status == ICL_OK)
                status = measure(recipe, &loss, &error);
            if (tap_status(&tap, status, &error, name))
                tap_ok(&tap, loss > 0 && loss <= cells[i].most && (kind == 0 || fabs(loss / first - 1) < 1e-6),
                       "%zu layers of %s: %.4g, at most %.1g, as the first kind's", cells[i].layers, name, loss,
                       cells[i].most);
            if (kind == 0)
                first = loss;
            icl_recipe_destroy(&recipe);
        }
    }
    return tap_done(&tap);
}
