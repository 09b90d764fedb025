/* A program outside the project: it knows the installed headers, the library and pkg-config, and nothing else. It
 * trains a small model for a few steps and expects the loss to be a positive number that training lowers. With an
 * argument, it trains the recipe of that name. */
#include <iclab/iclab.h>
#include <stdio.h>
#include <string.h>

#if !ICL_VERSION_AT_LEAST(0, 1, 0) || ICL_VERSION_AT_LEAST(ICL_VERSION_MAJOR, ICL_VERSION_MINOR, ICL_VERSION_PATCH + 1)
#error the headers are of another version than the one that they name
#endif

static const char *const settings[] = {"task.d=2",        "task.n=8",       "task.noise=fixed:0.1", "model.layers=1",
                                       "train.batch=256", "train.steps=60", "train.warmup=0",       "train.growth=0"};

static icl_status load(icl_recipe *recipe, const char *name, icl_error *error) {
    char *path = NULL;
    icl_status status = icl_recipe_locate(name, &path, error);

    if (status == ICL_OK)
        status = icl_recipe_load(recipe, path, error);
    icl_text_free(&path);
    return status;
}

/* Whether the library that runs is the one that the headers describe. */
static int same_version(void) {
    char version[64];

    snprintf(version, sizeof version, "%d.%d.%d", ICL_VERSION_MAJOR, ICL_VERSION_MINOR, ICL_VERSION_PATCH);
    return strcmp(version, icl_version()) == 0;
}

static icl_status train(icl_backend *backend, icl_recipe *recipe, double *first, double *last, icl_error *error) {
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

int main(int count, char **arguments) {
    icl_backend *backend = NULL;
    icl_recipe *recipe = NULL;
    icl_error error = {0};
    double first = 0, last = 0;
    icl_status status = icl_backend_open(&(icl_backend_params){.spec = "cpu"}, &backend, &error);

    if (status == ICL_OK)
        status = icl_recipe_create_complete(&recipe, &error);
    if (status == ICL_OK && count > 1)
        status = load(recipe, arguments[1], &error);
    if (status == ICL_OK)
        status = train(backend, recipe, &first, &last, &error);
    icl_recipe_destroy(&recipe);
    icl_backend_close(&backend);
    if (status != ICL_OK) {
        fprintf(stderr, "%s: %s\n", icl_status_name(status), error.message);
        return 1;
    }
    printf("mean loss of steps 1 to 10: %g, of steps 51 to 60: %g\n", first, last);
    return last > 0 && last < first && same_version() ? 0 : 1;
}
