/* Sets the parameters of models, and inspects the models through a run folder. */
#ifndef ICLAB_TESTS_INSPECT_FIXTURE_H
#define ICLAB_TESTS_INSPECT_FIXTURE_H

#include <math.h>

#include "core/allocate.h"
#include "iclab/file.h"
#include "iclab/recipe.h"
#include "iclab/run.h"
#include "iclab/train.h"
#include "probe/inspect.h"
#include "tap.h"

#include "../core/scratch.h"

enum { MOST_FOUND = 800, SEQUENCES = 1000, MOST_SIZE = 4096 };

typedef struct found {
    size_t layer;
    char what[64], quantity[128], note[512];
    double value, standard_error;
} found;

typedef struct fixture {
    scratch_folder scratch, run, out;
    icl_backend *backend;
    icl_recipe *recipe;
    icl_trainer *trainer;
    float values[MOST_SIZE];
    char *summary;
    size_t count;
    found all[MOST_FOUND];
    char doing[64];      /* what it was at last */
    double done;         /* the share of it */
    unsigned steps_back; /* reports that the share fell, or left 0 … 1 */
} fixture;

static inline void collect(void *user, const icl_inspected *inspected) {
    fixture *f = user;
    found *to = &f->all[f->count < MOST_FOUND ? f->count++ : MOST_FOUND - 1];

    to->layer = inspected->layer;
    to->value = inspected->value;
    to->standard_error = inspected->standard_error;
    snprintf(to->what, sizeof to->what, "%s", inspected->what);
    snprintf(to->quantity, sizeof to->quantity, "%s", inspected->quantity);
    snprintf(to->note, sizeof to->note, "%s", inspected->note ? inspected->note : "");
}

static inline void follow(void *user, const char *doing, double share) {
    fixture *f = user;
    const double before = strcmp(doing, f->doing) == 0 ? f->done : 0;

    f->steps_back += !(share >= before && share <= 1);
    f->done = share;
    snprintf(f->doing, sizeof f->doing, "%s", doing);
}

/* Returns the number whose quantity holds the text; NULL if there is none. */
static inline const found *find(const fixture *f, size_t layer, const char *what, const char *quantity) {
    for (size_t i = 0; i < f->count; i++)
        if (f->all[i].layer == layer && strcmp(f->all[i].what, what) == 0 && strstr(f->all[i].quantity, quantity))
            return &f->all[i];
    return NULL;
}

static inline double value_of(const fixture *f, size_t layer, const char *what, const char *quantity) {
    const found *result = find(f, layer, what, quantity);
    return result ? result->value : (double)NAN;
}

static inline const char *note_of(const fixture *f, size_t layer, const char *what, const char *quantity) {
    const found *result = find(f, layer, what, quantity);
    return result ? result->note : "(not found)";
}

/* ---- Models that are made ---- */

static inline icl_status override_all(icl_recipe *recipe, const char *const *overrides, icl_error *error) {
    for (; *overrides; overrides++)
        ICL_CHECK(icl_recipe_override(recipe, *overrides, error));
    return ICL_OK;
}

/* Creates a trainer of the recipe with both lists of overrides, texts ended by NULL. f->values receives its initial
 * parameters. */
static inline icl_status open_fixture(fixture *f, const char *const *base, const char *const *overrides,
                                      icl_error *error) {
    icl_status status = ICL_OK;

    scratch_open(&f->scratch);
    snprintf(f->run.folder, sizeof f->run.folder, "%.200s/run", f->scratch.folder);
    snprintf(f->out.folder, sizeof f->out.folder, "%.200s/out", f->scratch.folder);
    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "cpu"}, &f->backend, error));
    ICL_TRY(icl_recipe_create_complete(&f->recipe, error));
    ICL_TRY(override_all(f->recipe, base, error));
    ICL_TRY(override_all(f->recipe, overrides, error));
    ICL_TRY(icl_trainer_create(f->backend, f->recipe, &f->trainer, error));
    if (icl_model_size(icl_trainer_model(f->trainer)) > MOST_SIZE)
        ICL_TRY(icl_fail(error, ICL_ERROR_INPUT, "a model of more than %d numbers", MOST_SIZE));
    ICL_TRY(icl_trainer_get_parameters(f->trainer, f->values, error));
done:
    return status;
}

static inline void close_fixture(fixture *f) {
    icl_free(&f->summary);
    icl_trainer_destroy(&f->trainer);
    icl_recipe_destroy(&f->recipe);
    icl_backend_close(&f->backend);
    scratch_close(&f->scratch);
}

/* Writes a run folder with f->values, and inspects it on `sequences` sequences; 0: the default. */
static inline icl_status inspect_by(fixture *f, size_t sequences, icl_error *error) {
    char *path = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_trainer_set_parameters(f->trainer, f->values, error));
    ICL_TRY(icl_run_create(f->run.folder, f->recipe, error));
    ICL_TRY(icl_path_join(f->run.folder, ICL_RUN_MODEL, &path, error));
    ICL_TRY(icl_trainer_export(f->trainer, path, error));
    ICL_TRY(icl_inspect(&(icl_inspect_params){.backend = f->backend,
                                              .run = f->run.folder,
                                              .folder = f->out.folder,
                                              .sequences = sequences,
                                              .report = collect,
                                              .progress = follow,
                                              .user = f},
                        &f->summary, error));
    tap_note("%s", f->summary);
done:
    icl_free(&path);
    return status;
}

static inline icl_status inspect(fixture *f, icl_error *error) {
    return inspect_by(f, SEQUENCES, error);
}

#endif
