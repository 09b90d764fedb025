/* Trainings of studies: where they begin, who does them, and what is loaded again. */
#include <inttypes.h>
#include <time.h>

#include "core/allocate.h"
#include "core/lock.h"
#include "iclab/file.h"
#include "iclab/run.h"
#include "papers/study_frame.h"
#include "run/cell.h"

/* How long to wait for a training that another command holds. */
#define WAIT_NANOSECONDS 200000000

icl_status icl_study_folder(const icl_study *study, const icl_study_cell *cell, char **path, icl_error *error) {
    return icl_path_join(study->run->params->folder, cell->folder, path, error);
}

/* ---- Beginnings ---- */

static icl_status create_model(const icl_recipe *recipe, icl_task **task, icl_model **model, icl_error *error) {
    ICL_CHECK(icl_task_create(recipe, task, error));
    return icl_model_create(recipe, *icl_task_get_shape(*task), model, error);
}

/* The parameters that the cell begins with; NULL: its recipe's. */
static icl_status make_start(icl_study *study, const kept_cell *kept, float **values, icl_error *error) {
    const icl_study_cell *cell = &kept->cell;
    icl_trainer *from = NULL;
    icl_task *task = NULL;
    icl_model *model = NULL;
    icl_status status = ICL_OK;

    if (!cell->begins_with && !cell->has_start)
        return ICL_OK;
    if (cell->begins_with)
        ICL_TRY(icl_study_trained(study, cell->begins_with, &from, error));
    ICL_TRY(create_model(kept->recipe, &task, &model, error));
    ICL_TRY(icl_allocate(icl_model_size(model), sizeof **values, "parameters", values, error));
    icl_model_initialize(model, (uint32_t)icl_recipe_count(kept->recipe, "train", "seed"), *values);
    ICL_TRY(study->run->reproduction->begin(study, cell, from, model, *values, error));
done:
    icl_trainer_destroy(&from);
    icl_model_destroy(&model);
    icl_task_destroy(&task);
    return status;
}

/* ---- One training ---- */

static void say_begin(void *user, const char *folder, uint64_t step, uint64_t total_steps) {
    (void)step;
    icl_reproduce_say(user, "training %s, %" PRIu64 " steps", icl_path_name(folder), total_steps);
}

/* Its lock is held. */
static icl_status train(icl_study *study, kept_cell *kept, const char *folder, icl_trainer **trainer,
                        icl_error *error) {
    const icl_reproduce_params *params = study->run->params;
    float *initial = NULL;
    char command_line[256];
    icl_status status = ICL_OK;

    icl_reproduce_command(study->run, command_line, sizeof command_line);
    ICL_TRY(make_start(study, kept, &initial, error));
    const icl_cell_params training = {.session = {.backend = params->backend,
                                                  .recipe = kept->recipe,
                                                  .folder = folder,
                                                  .stop = params->stop,
                                                  .report = params->progress,
                                                  .user = params->user,
                                                  .measure = kept->cell.watched},
                                      .initial = initial,
                                      .recipe_name = study->run->reproduction->name,
                                      .command_line = command_line,
                                      .begin = say_begin,
                                      .user = study->run};
    status = icl_cell_train(&training, trainer, error);
done:
    icl_free(&initial);
    return status;
}

icl_status icl_study_trained(icl_study *study, const icl_study_cell *cell, icl_trainer **trainer, icl_error *error) {
    kept_cell *kept = (kept_cell *)cell;
    char *folder = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_study_folder(study, cell, &folder, error));
    status = train(study, kept, folder, trainer, error);
done:
    icl_free(&folder);
    return status;
}

static icl_status claim(const icl_study *study, const char *folder, icl_lock **lock, icl_error *error) {
    return icl_lock_claim(study->run->params->folder, icl_path_name(folder), lock, error);
}

icl_status icl_study_train(icl_study *study, kept_cell *kept, icl_trainer **trainer, icl_error *error) {
    icl_lock *lock = NULL;
    char *folder = NULL;
    bool finished = false;
    icl_status status = ICL_OK;

    if (kept->cell.is_untrained)
        return icl_trainer_create(study->run->params->backend, kept->recipe, trainer, error);
    ICL_TRY(icl_study_folder(study, &kept->cell, &folder, error));
    for (;;) {
        ICL_TRY(claim(study, folder, &lock, error));
        if (lock)
            break;
        ICL_TRY(icl_reproduce_poll(study->run, error));
        (void)nanosleep(&(struct timespec){.tv_nsec = WAIT_NANOSECONDS}, NULL);
    }
    if (!kept->cell.is_wanted)
        ICL_TRY(icl_cell_is_finished(folder, kept->recipe, &finished, error));
    if (!finished)
        status = train(study, kept, folder, trainer, error);
done:
    icl_lock_release(&lock);
    icl_free(&folder);
    return status;
}

/* ---- A worker ---- */

static icl_status is_finished(const icl_study *study, const icl_study_cell *cell, bool *finished, icl_error *error) {
    char *folder = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_study_folder(study, cell, &folder, error));
    ICL_TRY(icl_cell_is_finished(folder, cell->complete, finished, error));
done:
    icl_free(&folder);
    return status;
}

/* Another process may have finished it in between. */
static icl_status train_claimed(icl_study *study, kept_cell *kept, const char *folder, bool *finished,
                                icl_error *error) {
    icl_trainer *trainer = NULL;
    icl_status status;

    ICL_CHECK(icl_cell_is_finished(folder, kept->recipe, finished, error));
    if (*finished)
        return ICL_OK;
    status = train(study, kept, folder, &trainer, error);
    icl_trainer_destroy(&trainer);
    *finished = status == ICL_OK || status == ICL_ERROR_DIVERGED; /* the study itself is told */
    return *finished ? ICL_OK : status;
}

icl_status icl_study_train_if_free(icl_study *study, kept_cell *kept, bool counts, size_t *unfinished,
                                   icl_error *error) {
    icl_lock *lock = NULL;
    char *folder = NULL;
    bool finished = false, is_ready = true;
    icl_status status = ICL_OK;

    ICL_TRY(is_finished(study, &kept->cell, &finished, error));
    if (finished)
        return ICL_OK;
    if (kept->cell.begins_with)
        ICL_TRY(is_finished(study, kept->cell.begins_with, &is_ready, error));
    ICL_TRY(icl_study_folder(study, &kept->cell, &folder, error));
    if (!counts && is_ready)
        ICL_TRY(claim(study, folder, &lock, error));
    if (lock)
        ICL_TRY(train_claimed(study, kept, folder, &finished, error));
    *unfinished += !finished;
done:
    icl_lock_release(&lock);
    icl_free(&folder);
    return status;
}

/* ---- Along the way ---- */

icl_status icl_study_go_to_step(const icl_study *study, const icl_study_cell *cell, uint64_t step, icl_trainer *trainer,
                                icl_error *error) {
    const icl_model *model = icl_trainer_model(trainer);
    char *path = NULL;
    float *values = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_study_folder(study, cell, &path, error));
    ICL_TRY(icl_allocate(icl_model_size(model), sizeof *values, "parameters", &values, error));
    ICL_TRY(icl_run_read_snapshot(path, step, model, values, error));
    ICL_TRY(icl_trainer_set_parameters(trainer, values, error));
done:
    icl_free(&values);
    icl_free(&path);
    return status;
}
