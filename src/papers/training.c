/* Training runs of reproductions: recipes by name, and run folders that are taken up where they stopped. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/lock.h"
#include "iclab/file.h"
#include "iclab/recipe.h"
#include "papers/share.h"
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
    vsnprintf(assignment, sizeof assignment, format, arguments);
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

/* claims/NAME in the reproduction's folder. */
static icl_status claim(const icl_reproducing *run, const icl_cell_params *with, icl_lock **lock, icl_error *error) {
    icl_status status = ICL_OK;
    char *claims = NULL, *path = NULL;

    ICL_TRY(icl_path_join(run->params->folder, "claims", &claims, error));
    ICL_TRY(icl_folder_create(claims, error));
    ICL_TRY(icl_path_join(claims, icl_path_name(with->session.folder), &path, error));
    ICL_TRY(icl_lock_try(path, lock, error));
done:
    icl_free(&claims);
    icl_free(&path);
    return status;
}

/* Trains what nobody has finished or trains now, and leaves its cell. The lock comes first: only its holder knows that
 * what is not finished is not being trained. */
static icl_status share_training(icl_reproducing *run, const icl_cell_params *with, icl_error *error) {
    icl_trainer *trainer = NULL;
    icl_lock *lock = NULL;
    bool finished = false;
    icl_status status = ICL_OK;

    ICL_TRY(icl_cell_is_finished(with->session.folder, with->session.recipe, &finished, error));
    if (!finished && !run->share->counts)
        ICL_TRY(claim(run, with, &lock, error));
    if (lock)
        ICL_TRY(icl_cell_is_finished(with->session.folder, with->session.recipe, &finished, error));
    if (lock && !finished) {
        status = icl_cell_train(with, &trainer, error);
        finished = status == ICL_OK || status == ICL_ERROR_DIVERGED; /* the reproduction itself is told */
        if (!finished)
            goto done;
    }
    run->share->unfinished += !finished;
    status = icl_reproduce_leave(run, error);
done:
    icl_trainer_destroy(&trainer);
    icl_lock_release(&lock);
    return status;
}

/* Waits for another command that trains the same, in this folder. */
static icl_status train_alone(icl_reproducing *run, const icl_cell_params *with, icl_trainer **trainer,
                              icl_error *error) {
    icl_lock *lock = NULL;
    icl_status status = ICL_OK;

    for (;;) {
        ICL_TRY(claim(run, with, &lock, error));
        if (lock)
            break;
        ICL_TRY(icl_reproduce_poll(run, error));
        icl_reproduce_wait();
    }
    status = icl_cell_train(with, trainer, error);
done:
    icl_lock_release(&lock);
    return status;
}

static icl_status train(icl_reproducing *run, const char *cell, const icl_recipe *recipe, const float *initial,
                        const icl_session_measure *measure, icl_trainer **trainer, icl_error *error) {
    const icl_reproduce_params *params = run->params;
    icl_status status = ICL_OK;
    char *folder = NULL, command_line[256];

    icl_reproduce_command(run, command_line, sizeof command_line);
    ICL_TRY(icl_path_join(params->folder, cell, &folder, error));
    const icl_cell_params with = {
        .session = {.backend = params->backend,
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
        .user = run,
    };
    if (run->share)
        status = share_training(run, &with, error);
    else
        status = train_alone(run, &with, trainer, error);
done:
    icl_free(&folder);
    return status;
}

icl_status icl_reproduce_train_from(icl_reproducing *run, const char *cell, const icl_recipe *recipe,
                                    const float *initial, icl_trainer **trainer, icl_error *error) {
    return train(run, cell, recipe, initial, NULL, trainer, error);
}

icl_status icl_reproduce_train_measured(icl_reproducing *run, const char *cell, const icl_recipe *recipe,
                                        const icl_session_measure *measure, icl_trainer **trainer, icl_error *error) {
    return train(run, cell, recipe, NULL, measure, trainer, error);
}

icl_status icl_reproduce_train(icl_reproducing *run, const char *cell, const icl_recipe *recipe, icl_trainer **trainer,
                               icl_error *error) {
    return train(run, cell, recipe, NULL, NULL, trainer, error);
}
