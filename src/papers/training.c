/* Training runs of reproductions: recipes by name, and run folders that are taken up where they stopped. */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "core/allocate.h"
#include "core/print.h"
#include "iclab/file.h"
#include "iclab/recipe.h"
#include "papers/share.h"
#include "papers/trainings.h"
#include "run/cell.h"
#include "run/recipe_find.h"

/* ---- Recipes ---- */

icl_status icl_reproduce_recipe(const char *name, icl_recipe **recipe, icl_error *error) {
    icl_status status = ICL_OK;
    icl_recipe *made = NULL;
    char *path = NULL;

    ICL_TRY(icl_recipe_create_complete(&made, error));
    ICL_TRY(icl_recipe_find_by_name(name, &path, error));
    ICL_TRY(icl_recipe_load(made, path, error));
    *recipe = made;
    made = NULL;
done:
    icl_free(&path);
    icl_recipe_destroy(&made);
    return status;
}

icl_status icl_reproduce_override(icl_recipe *recipe, icl_error *error, const char *format, ...) {
    char assignment[512];
    va_list arguments;

    va_start(arguments, format);
    icl_print_list(assignment, sizeof assignment, format, arguments);
    va_end(arguments);
    return icl_recipe_override(recipe, assignment, error);
}

icl_status icl_reproduce_override_all(icl_recipe *recipe, const char *list, icl_error *error) {
    while (*list != '\0') {
        const size_t length = strcspn(list, " ");
        if (length > 0)
            ICL_CHECK(icl_reproduce_override(recipe, error, "%.*s", (int)length, list));
        list += length;
        list += strspn(list, " ");
    }
    return ICL_OK;
}

/* ---- Run folders ---- */

static void say_begin(void *user, const char *folder, uint64_t step, uint64_t total_steps) {
    (void)step;
    icl_reproduce_say(user, "training %s, %" PRIu64 " steps", icl_path_name(folder), total_steps);
}

/* Work that is shared. */
typedef struct training {
    icl_cell_params with;
    icl_trainer **trainer;
} training;

static icl_status find_training(void *context, bool *finished, icl_error *error) {
    const training *is = context;
    return icl_cell_is_finished(is->with.session.folder, is->with.session.recipe, finished, error);
}

static icl_status do_training(void *context, icl_error *error) {
    const training *is = context;
    return icl_cell_train(&is->with, is->trainer, error);
}

static icl_status train(icl_reproducing *run, const char *cell, const icl_recipe *recipe, const float *initial,
                        bool is_needed, const icl_session_measure *measure, icl_trainer **trainer, icl_error *error) {
    const icl_reproduce_params *params = run->params;
    icl_status status = ICL_OK;
    char *folder = NULL, command_line[256];

    if (run->share && run->share->list)
        ICL_TRY(icl_trainings_note(run->share->list, cell, recipe, error));
    icl_reproduce_command(run, command_line, sizeof command_line);
    ICL_TRY(icl_path_join(params->folder, cell, &folder, error));
    training is = {.with = {.session = {.backend = params->backend,
                                        .recipe = recipe,
                                        .folder = folder,
                                        .stop = params->stop,
                                        .report = params->progress,
                                        .user = params->user,
                                        .measure = measure},
                            .initial = initial,
                            .recipe_name = run->reproduction->name,
                            .command_line = command_line,
                            .begin = say_begin,
                            .user = run},
                   .trainer = trainer};
    ICL_TRY(icl_reproduce_share(
        run, &(icl_shared_work){icl_path_name(folder), is_needed, &is, find_training, do_training}, error));
    if (!*trainer) /* a worker that counts goes on with parameters as they begin */
        ICL_TRY(icl_trainer_create(params->backend, recipe, trainer, error));
done:
    if (status != ICL_OK)
        icl_trainer_destroy(trainer);
    icl_free(&folder);
    return status;
}

icl_status icl_reproduce_train_from(icl_reproducing *run, const char *cell, const icl_recipe *recipe,
                                    const float *initial, icl_trainer **trainer, icl_error *error) {
    return train(run, cell, recipe, initial, false, NULL, trainer, error);
}

icl_status icl_reproduce_train_needed(icl_reproducing *run, const char *cell, const icl_recipe *recipe,
                                      icl_trainer **trainer, icl_error *error) {
    return train(run, cell, recipe, NULL, true, NULL, trainer, error);
}

icl_status icl_reproduce_train_measured(icl_reproducing *run, const char *cell, const icl_recipe *recipe,
                                        const icl_session_measure *measure, icl_trainer **trainer, icl_error *error) {
    return train(run, cell, recipe, NULL, false, measure, trainer, error);
}

icl_status icl_reproduce_train(icl_reproducing *run, const char *cell, const icl_recipe *recipe, icl_trainer **trainer,
                               icl_error *error) {
    return train(run, cell, recipe, NULL, false, NULL, trainer, error);
}
