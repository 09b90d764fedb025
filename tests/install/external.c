/* A program outside the project: it knows the installed headers, the library and pkg-config, and nothing else. It trains a small
 * model for a few steps and expects the loss to be a positive number that training lowers. */
#include <iclab/iclab.h>
#include <stdio.h>

static const char *const settings[] = {"task.d=2",       "task.n=8",        "task.noise=fixed:0.1",
                                       "model.layers=1", "train.batch=256", "train.steps=60",
                                       "train.warmup=0"};

static icl_status train(icl_backend *backend, icl_recipe *recipe, double *first, double *last,
                        icl_error *error) {
    icl_trainer *trainer = NULL;
    icl_status status = ICL_OK;

    for (size_t i = 0; status == ICL_OK && i < sizeof settings / sizeof settings[0]; i++)
        status = icl_recipe_override(recipe, settings[i], error);
    if (status == ICL_OK)
        status = icl_trainer_create(backend, recipe, &trainer, error);
    if (status == ICL_OK)
        status = icl_trainer_run(trainer, 10, error);
    if (status == ICL_OK) {
        *first = icl_trainer_progress(trainer).loss;
        status = icl_trainer_run(trainer, 40, error);
    }
    if (status == ICL_OK)
        status = icl_trainer_run(trainer, 10, error);
    if (status == ICL_OK)
        *last = icl_trainer_progress(trainer).loss;
    icl_trainer_destroy(&trainer);
    return status;
}

int main(void) {
    icl_backend *backend = NULL;
    icl_recipe *recipe = NULL;
    icl_error error = {0};
    double first = 0, last = 0;
    icl_status status = icl_backend_open(&(icl_backend_params){.spec = "cpu"}, &backend, &error);

    if (status == ICL_OK)
        status = icl_lab_recipe_create(&recipe, &error);
    if (status == ICL_OK)
        status = train(backend, recipe, &first, &last, &error);
    icl_recipe_destroy(&recipe);
    icl_backend_close(&backend);
    if (status != ICL_OK) {
        fprintf(stderr, "%s: %s\n", icl_status_name(status), error.message);
        return 1;
    }
    printf("mean loss of steps 1 to 10: %g, of steps 51 to 60: %g\n", first, last);
    return last > 0 && last < first ? 0 : 1;
}
