#include "lab/trained.h"

#include "core/allocate.h"
#include "lab/run.h"

icl_status icl_trained_load(icl_backend *backend, const char *folder, const icl_recipe *recipe,
                            icl_trainer **trainer, icl_error *error) {
    icl_status status = ICL_OK;
    icl_trainer *made = NULL;
    icl_recipe *whole = NULL;
    float *values = NULL;

    ICL_TRY(icl_recipe_clone(recipe, &whole, error));
    /* The model as it is now has all its layers, whatever depth training began with; and no training batch is needed. */
    ICL_TRY(icl_recipe_override(whole, "train.growth=0", error));
    ICL_TRY(icl_recipe_override(whole, "train.batch=1", error));
    ICL_TRY(icl_trainer_create(backend, whole, &made, error));
    ICL_TRY(
        icl_allocate(icl_model_size(icl_trainer_model(made)), sizeof *values, "parameters", &values, error));
    ICL_TRY(icl_run_read_model(folder, icl_trainer_model(made), values, error));
    ICL_TRY(icl_trainer_set_parameters(made, values, error));
    *trainer = made;
    made = NULL;
done:
    icl_free(&values);
    icl_recipe_destroy(&whole);
    icl_trainer_destroy(&made);
    return status;
}
