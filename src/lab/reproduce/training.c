/* Training runs of reproductions: recipes by name, and run folders that are taken up where they stopped. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/clock.h"
#include "core/file.h"
#include "iclab/lab.h"
#include "lab/reproduce/reproduce.h"
#include "lab/run.h"
#include "lab/session.h"

/* ---- Recipes ---- */

icl_status icl_reproduce_recipe(const char *name, const char *const *overrides, icl_recipe **recipe,
                                icl_error *error) {
    icl_status status = ICL_OK;
    icl_recipe *made = NULL;
    char *path = NULL;

    ICL_TRY(icl_lab_recipe_create(&made, error));
    ICL_TRY(icl_lab_recipe_find(name, &path, error));
    ICL_TRY(icl_recipe_load(made, path, error));
    for (; overrides && *overrides; overrides++)
        ICL_TRY(icl_recipe_override(made, *overrides, error));
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

/* ---- Run folders ---- */

/* Whether the folder holds a run of this very recipe; keys that it lacks, from a version that did not know them, are as wanted.
 * ICL_ERROR_INPUT if it holds one of another. */
static icl_status find_run(const char *folder, const icl_recipe *recipe, bool *found, icl_error *error) {
    icl_status status = ICL_OK;
    icl_recipe *there = NULL;
    char *path = NULL, *held = NULL, *wanted = NULL;

    *found = false;
    ICL_TRY(icl_path_join(folder, ICL_RUN_RECIPE, &path, error));
    if (!icl_path_exists(path))
        goto done;
    ICL_TRY(icl_recipe_clone(recipe, &there, error));
    ICL_TRY(icl_recipe_load(there, path, error));
    ICL_TRY(icl_recipe_write(there, &held, error));
    ICL_TRY(icl_recipe_write(recipe, &wanted, error));
    *found = true;
    if (strcmp(held, wanted) != 0)
        status =
            icl_fail(error, ICL_ERROR_INPUT,
                     "%s: holds a run of another recipe: expected another --out, or the same seed, scale "
                     "and version as when it was made",
                     path);
done:
    icl_recipe_destroy(&there);
    icl_free(&path);
    icl_free(&held);
    icl_free(&wanted);
    return status;
}

/* What a run's record says beside what the trainer knows. */
typedef struct run_times {
    double start, first_step, end;
} run_times;

static icl_status write_facts(const icl_reproducing *run, const char *folder, const icl_recipe *recipe,
                              const icl_trainer *trainer, const run_times *times, const char *state,
                              icl_error *error) {
    const icl_train_progress progress = icl_trainer_progress(trainer);
    char command_line[256];

    snprintf(command_line, sizeof command_line, "iclab reproduce %s --scale %s --seed %" PRIu32,
             run->reproduction->name, icl_scale_name(run->params->scale), run->params->seed);
    const icl_run_facts facts = {
        .device = icl_backend_capabilities(run->params->backend),
        .recipe_name = run->reproduction->name,
        .command_line = command_line,
        .gemm = run->params->gemm ? run->params->gemm : "auto",
        .fast_math = run->params->fast_math,
        .seed = (uint32_t)icl_recipe_count(recipe, "train", "seed"),
        .steps = progress.step,
        .skipped_steps = progress.skipped_steps,
        .dropped_sequences = progress.dropped_sequences,
        .startup_seconds = times->first_step - times->start,
        .training_seconds = times->end - times->first_step,
        .status = state,
    };
    return icl_run_write_facts(folder, &facts, error);
}

static icl_status train_in(icl_reproducing *run, const char *folder, const icl_recipe *recipe,
                           const float *initial, icl_trainer **trainer, icl_error *error) {
    icl_session_params session = {.backend = run->params->backend,
                                  .recipe = recipe,
                                  .folder = folder,
                                  .stop = run->params->stop,
                                  .report = run->params->progress,
                                  .user = run->params->user};
    run_times times = {.start = icl_clock_seconds()};
    icl_status status = ICL_OK;

    ICL_TRY(find_run(folder, recipe, &session.resume, error));
    ICL_TRY(icl_session_prepare(&session, trainer, error));
    if (initial && icl_trainer_progress(*trainer).step == 0)
        ICL_TRY(icl_trainer_set_parameters(*trainer, initial, error));
    if (!session.resume)
        ICL_TRY(icl_run_create(folder, recipe, error));
    if (session.resume && icl_trainer_progress(*trainer).step >= icl_trainer_progress(*trainer).total_steps)
        goto done;
    icl_reproduce_say(run, "training %s, %" PRIu64 " steps", icl_path_name(folder),
                      icl_trainer_progress(*trainer).total_steps);
    times.first_step = times.end = icl_clock_seconds();
    status = icl_session_train(&session, *trainer, error);
    times.end = icl_clock_seconds();
    if (status == ICL_OK)
        status = write_facts(run, folder, recipe, *trainer, &times, "finished", error);
    else if (status == ICL_ERROR_INTERRUPTED || status == ICL_ERROR_DIVERGED)
        (void)write_facts(run, folder, recipe, *trainer, &times,
                          status == ICL_ERROR_INTERRUPTED ? "interrupted" : "diverged", NULL);
done:
    return status;
}

icl_status icl_reproduce_train_from(icl_reproducing *run, const char *cell, const icl_recipe *recipe,
                                    const float *initial, icl_trainer **trainer, icl_error *error) {
    icl_status status = ICL_OK;
    icl_trainer *made = NULL;
    char *folder = NULL;

    ICL_TRY(icl_path_join(run->params->folder, cell, &folder, error));
    ICL_TRY(train_in(run, folder, recipe, initial, &made, error));
    ICL_TRY(icl_trainer_round_parameters(made, error));
    *trainer = made;
    made = NULL;
done:
    icl_trainer_destroy(&made);
    icl_free(&folder);
    return status;
}

icl_status icl_reproduce_train(icl_reproducing *run, const char *cell, const icl_recipe *recipe,
                               icl_trainer **trainer, icl_error *error) {
    return icl_reproduce_train_from(run, cell, recipe, NULL, trainer, error);
}
