/* The frame of studies: cells and their order, and the way from trained cells to findings and lists. */
#include "papers/study.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/allocate.h"
#include "core/file.h"
#include "iclab/file.h"
#include "iclab/run.h"
#include "numeric/statistics.h"
#include "papers/measures.h"
#include "papers/study_frame.h"
#include "papers/study_list.h"
#include "run/cell.h"
#include "run/metrics.h"
#include "run/recipe_keys.h"
#include "run/sweep/work.h"
#include "train/settings.h"

/* ---- Failures ---- */

bool icl_study_has_failed(const icl_study *study) {
    return study->frame->status != ICL_OK;
}

void icl_study_check(const icl_study *study, icl_status status, const icl_error *error) {
    if (status == ICL_OK || icl_study_has_failed(study))
        return;
    study->frame->status = status;
    study->frame->error = *error;
}

/* Returns the first failure of a plan, a judge or a conclusion. */
static icl_status end_study(const icl_study *study, icl_error *error) {
    if (!icl_study_has_failed(study))
        return ICL_OK;
    return icl_fail(error, study->frame->status, "%s", study->frame->error.message);
}

/* ---- Cells ---- */

static icl_status copy_text(const char *text, char **copy, icl_error *error) {
    return text ? icl_duplicate(text, copy, error) : ICL_OK;
}

static icl_status make_recipe(const icl_study *study, const icl_study_cell *cell, icl_recipe **recipe,
                              icl_error *error) {
    const uint32_t seed = study->run->params->seed;

    ICL_CHECK(cell->base ? icl_recipe_clone(cell->base, recipe, error)
                         : icl_reproduce_recipe(cell->recipe, recipe, error));
    ICL_CHECK(icl_recipe_set_count(*recipe, ICL_TRAIN_KEY(seed), cell->seed > 0 ? cell->seed : seed, error));
    ICL_CHECK(icl_recipe_set_count(*recipe, ICL_EVAL_KEY(seed), seed, error));
    for (size_t i = 0; i < ICL_CELL_SETTINGS; i++)
        if (cell->settings[i])
            ICL_CHECK(icl_reproduce_override_all(*recipe, cell->settings[i], error));
    return icl_recipe_reset_unused(*recipe, error); /* keys of choices not taken, which the file sets */
}

static icl_status name_folder(kept_cell *kept, const icl_study_cell *cell, icl_error *error) {
    const char *parent = cell->is_outside ? "" : "runs/", *name = cell->folder ? cell->folder : cell->name;

    if (cell->folder || cell->seed == 0)
        return icl_duplicate(ICL_PHRASE("%s%s", parent, name), &kept->folder, error);
    return icl_duplicate(ICL_PHRASE("%s%s-seed%" PRIu32, parent, name, cell->seed), &kept->folder, error);
}

static icl_status copy_cell(const icl_study *study, const icl_study_cell *cell, kept_cell *kept, icl_error *error) {
    ICL_CHECK(copy_text(cell->name, &kept->name, error));
    ICL_CHECK(copy_text(cell->group ? cell->group : cell->name, &kept->group, error));
    ICL_CHECK(copy_text(cell->curve, &kept->curve, error));
    ICL_CHECK(name_folder(kept, cell, error));
    if (cell->recipe || cell->base)
        ICL_CHECK(make_recipe(study, cell, &kept->recipe, error));
    kept->cell = *cell;
    kept->cell.name = kept->name;
    kept->cell.group = kept->group;
    kept->cell.curve = kept->curve;
    kept->cell.folder = kept->folder;
    kept->cell.complete = kept->recipe;
    kept->cell.numbers = study->frame->nothing;
    return ICL_OK;
}

static void release_cell(kept_cell *kept) {
    icl_recipe_destroy(&kept->recipe);
    icl_free(&kept->name);
    icl_free(&kept->group);
    icl_free(&kept->curve);
    icl_free(&kept->folder);
    icl_free(&kept->numbers);
    icl_free(&kept->needs);
    icl_free(&kept);
}

static icl_status add_cell(icl_study *study, const icl_study_cell *cell, icl_error *error) {
    icl_study_frame *frame = study->frame;
    kept_cell *kept = NULL;

    ICL_CHECK(icl_grow(&frame->cells, study->count, &frame->capacity, sizeof(void *), "cells", error));
    ICL_CHECK(icl_allocate(1, sizeof *kept, "cell of a study", &kept, error));
    frame->cells[study->count] = &kept->cell;
    study->cells = frame->cells;
    const icl_status status = copy_cell(study, cell, kept, error);
    if (status == ICL_OK)
        study->count++;
    else
        release_cell(kept); /* a cell without a name must not be found */
    return status;
}

const icl_study_cell *icl_study_add(icl_study *study, const icl_study_cell *cell) {
    icl_error error = {0};

    if (icl_study_has_failed(study))
        return NULL;
    icl_study_check(study, add_cell(study, cell, &error), &error);
    return icl_study_has_failed(study) ? NULL : study->cells[study->count - 1];
}

void icl_study_need(icl_study *study, const icl_study_cell *cell, const icl_study_cell *other) {
    kept_cell *kept = (kept_cell *)cell;
    icl_error error = {0};

    if (icl_study_has_failed(study))
        return;
    icl_study_check(
        study, icl_grow(&kept->needs, kept->need_count, &kept->need_capacity, sizeof(void *), "cells", &error), &error);
    if (!icl_study_has_failed(study))
        kept->needs[kept->need_count++] = (kept_cell *)other;
}

uint32_t icl_study_seed(const icl_study *study, size_t number) {
    return icl_reproduce_seed(study->run, number);
}

const icl_study_cell *icl_study_find(const icl_study *study, const char *name) {
    for (size_t i = 0; i < study->count; i++)
        if (strcmp(study->cells[i]->name, name) == 0)
            return study->cells[i];
    return NULL;
}

/* ---- Which cells ---- */

static void want(kept_cell *kept) {
    kept->is_trained = true;
    if (kept->cell.is_wanted)
        return;
    kept->cell.is_wanted = true;
    for (size_t i = 0; i < kept->need_count; i++)
        want(kept->needs[i]);
}

static void choose(icl_study *study) {
    const char *only = study->run->params->only;

    for (size_t i = 0; i < study->count; i++) {
        kept_cell *kept = (kept_cell *)study->cells[i];
        kept->is_chosen = !kept->cell.is_helper && (!only || strstr(kept->group, only));
        if (kept->is_chosen)
            want(kept);
    }
    for (size_t i = study->count; i-- > 0;) {
        const kept_cell *kept = (const kept_cell *)study->cells[i];
        if (kept->is_trained && kept->cell.begins_with)
            ((kept_cell *)kept->cell.begins_with)->is_trained = true;
    }
}

static void close_study(icl_study *study) {
    icl_study_frame *frame = study->frame;

    for (size_t i = 0; i < study->count; i++)
        release_cell((kept_cell *)frame->cells[i]);
    icl_free(&frame->cells);
    icl_free(&frame->nothing);
    icl_free(&frame->scratch);
    icl_free(&frame->held);
}

/* Plans the study of run->reproduction. Close it even after a failure. */
static icl_status open_study(icl_reproducing *run, icl_study_frame *frame, icl_study *study, icl_error *error) {
    const size_t numbers = run->reproduction->numbers;

    *frame = (icl_study_frame){.status = ICL_OK};
    *study = (icl_study){.run = run, .scale = run->params->scale, .frame = frame};
    ICL_CHECK(icl_allocate(numbers > 0 ? numbers : 1, sizeof *frame->nothing, "numbers", &frame->nothing, error));
    for (size_t i = 0; i < numbers; i++)
        frame->nothing[i].value = (double)NAN;
    run->reproduction->plan(study);
    ICL_CHECK(icl_allocate(study->count + 1, sizeof *frame->scratch, "numbers", &frame->scratch, error));
    choose(study);
    return end_study(study, error);
}

/* Returns whether the cell is trained or measured, for itself or for others. */
static bool trains(const icl_study *study, const kept_cell *kept) {
    const icl_reproduction *reproduction = study->run->reproduction;

    return kept->is_trained && !(reproduction->leaves_out && reproduction->leaves_out(study, &kept->cell));
}

/* ---- Numbers ---- */

icl_number icl_over_seeds(const icl_study *study, const icl_study_cell *cell, size_t number) {
    double *values = study->frame->scratch;
    size_t count = 0;

    for (size_t i = 0; i < study->count; i++)
        if (strcmp(study->cells[i]->name, cell->name) == 0)
            values[count++] = study->cells[i]->numbers[number].value;
    return count < 2 ? cell->numbers[number] : (icl_number){icl_mean(values, count), icl_standard_error(values, count)};
}

/* ---- Judging ---- */

static void blame(kept_cell *kept) {
    if (kept->has_missed)
        return;
    kept->has_missed = true;
    for (size_t i = 0; i < kept->need_count; i++)
        blame(kept->needs[i]);
    if (kept->cell.begins_with)
        blame((kept_cell *)kept->cell.begins_with);
}

/* Marks the cells behind a missed finding: those of the point that is being judged, or all. */
static void blame_cells(const icl_study *study) {
    const icl_study_cell *judged = study->frame->judged;

    study->frame->has_missed_across = study->frame->has_missed_across || !judged;
    for (size_t i = 0; judged && i < study->count; i++)
        if (strcmp(study->cells[i]->name, judged->name) == 0)
            blame((kept_cell *)study->cells[i]);
}

/* Returns whether a finding judges what the paper says. */
static bool is_of_claim(const icl_finding *finding) {
    return icl_finding_judge(finding) != ICL_SHOWN && finding->evidence != ICL_COMPUTED;
}

/* Judges, reports and records one finding. */
static icl_status judge_finding(icl_reproducing *run, const icl_finding *finding, icl_error *error) {
    if (run->listener && run->listener->finding)
        run->listener->finding(run->listener->user, finding);
    if (run->listener)
        return ICL_OK;
    ICL_CHECK(icl_record_finding(run, finding, error));
    run->findings++;
    run->missed += icl_finding_judge(finding) == ICL_MISSED;
    run->judged += icl_finding_judge(finding) != ICL_SHOWN;
    run->of_claim += is_of_claim(finding);
    if (run->params->report)
        run->params->report(run->params->user, run->reproduction, finding);
    return ICL_OK;
}

void icl_study_found(icl_study *study, const icl_finding *finding) {
    icl_study_frame *frame = study->frame;
    icl_finding whole = *finding;
    icl_error error = {0};

    if (icl_study_has_failed(study))
        return;
    if (!whole.what && frame->judged)
        whole.what = frame->judged->name;
    if (icl_finding_judge(&whole) == ICL_MISSED)
        blame_cells(study);
    icl_study_check(study, judge_finding(study->run, &whole, &error), &error);
}

static bool is_of(const icl_study_cell *cell, const char *only) {
    return !only || strstr(cell->name, only);
}

static icl_phrase write_note(const icl_study *study, const icl_study_cell *cell, const icl_study_check_row *row) {
    const size_t *number = row->beside;
    icl_phrase note = {""};

    for (const char *text = row->note, *next = text; text && *text; text = next) {
        next = text + strcspn(text, "{");
        note = icl_phrase_print("%s%.*s", note.text, (int)(next - text), text);
        if (*next != '\0') {
            note = icl_phrase_print("%s%.4g", note.text, icl_over_seeds(study, cell, *number++).value);
            next += 2;
        }
    }
    return note;
}

static void judge_row(icl_study *study, const icl_study_cell *cell, const icl_study_check_row *row) {
    const icl_number ours = icl_over_seeds(study, cell, row->number);
    const double target = row->expected ? row->expected(study, cell) : row->target;

    ICL_JUDGE(study, .quantity = row->quantity, ICL_OURS(ours), .target = target,
              .tolerance = row->absolute[study->scale] + row->relative[study->scale] * fabs(target) +
                           row->errors * ours.standard_error,
              .criterion = row->criterion, .evidence = row->evidence, .source = row->source,
              .note = row->note ? write_note(study, cell, row).text : NULL);
}

/* Returns whether no later cell has this one's name. */
static bool is_last_of_point(const icl_study *study, size_t index) {
    for (size_t i = index + 1; i < study->count; i++)
        if (strcmp(study->cells[i]->name, study->cells[index]->name) == 0)
            return false;
    return true;
}

/* Judges the point of the cell with this number, if the cell is the point's last one. */
static void judge_point(icl_study *study, size_t index) {
    const icl_reproduction *reproduction = study->run->reproduction;
    const kept_cell *kept = (const kept_cell *)study->cells[index];

    if (!kept->is_chosen || !trains(study, kept) || !is_last_of_point(study, index))
        return;
    study->frame->judged = &kept->cell;
    for (size_t i = 0; i < reproduction->check_count; i++)
        if (is_of(&kept->cell, reproduction->checks[i].only))
            judge_row(study, &kept->cell, &reproduction->checks[i]);
    if (reproduction->judge)
        reproduction->judge(study, &kept->cell);
    study->frame->judged = NULL;
}

/* ---- Figures ---- */

static icl_status draw_row(icl_study *study, const icl_study_figure_row *row, icl_error *error) {
    icl_curves curves = {.figure = row->figure};
    icl_status status = ICL_OK;

    for (size_t i = 0; i < study->count; i++) {
        const icl_study_cell *cell = study->cells[i];
        if (!cell->is_wanted || !cell->curve || !is_of(cell, row->only) ||
            (row->curve && !strstr(cell->curve, row->curve)))
            continue;
        ICL_TRY(
            icl_curves_add(&curves, cell->curve, ICL_SERIES_OURS, cell->x, cell->numbers[row->number].value, error));
        if (row->expected && is_last_of_point(study, i))
            ICL_TRY(icl_curves_add(&curves, ICL_PHRASE("%s, %s", cell->curve, row->expected_label),
                                   ICL_SERIES_REFERENCE, cell->x, row->expected(study, cell), error));
    }
    if (curves.count > 0)
        ICL_TRY(icl_curves_draw(study->run, &curves, error));
done:
    icl_curves_release(&curves);
    return status;
}

void icl_study_plot(icl_study *study, icl_curves *curves, const char *label, icl_series_style style, double x,
                    double y) {
    const bool is_known = style == ICL_SERIES_PUBLISHED || style == ICL_SERIES_REFERENCE;

    if (!is_known || icl_curves_at(curves, label, x).seeds == 0)
        ICL_STUDY_CALL(study, icl_curves_add, curves, label, style, x, y);
}

void icl_study_plot_number(icl_study *study, icl_curves *curves, const char *label, icl_series_style style, double x,
                           icl_number number) {
    ICL_STUDY_CALL(study, icl_curves_add_mean, curves, label, style, x, number.value, number.standard_error);
}

void icl_study_plot_numbers(icl_study *study, icl_curves *curves, const char *label, icl_series_style style,
                            const double *x, const icl_number *numbers, size_t count) {
    for (size_t i = 0; i < count; i++)
        icl_study_plot_number(study, curves, label, style, x ? x[i] : (double)i, numbers[i]);
}

void icl_study_draw(icl_study *study, icl_curves *curves) {
    if (curves->count > 0)
        ICL_STUDY_CALL(study, icl_curves_draw, study->run, curves);
    icl_curves_release(curves);
}

/* Judges and draws across points. */
static void conclude(icl_study *study) {
    const icl_reproduction *reproduction = study->run->reproduction;

    for (size_t i = 0; i < reproduction->figure_count; i++)
        ICL_STUDY_CALL(study, draw_row, study, &reproduction->figures[i]);
    if (reproduction->conclude && !icl_study_has_failed(study))
        reproduction->conclude(study);
}

static icl_status judge_all(icl_study *study, icl_error *error) {
    for (size_t i = 0; i < study->count; i++)
        judge_point(study, i);
    conclude(study);
    return end_study(study, error);
}

/* ---- Lists ---- */

static icl_status list_cell(const icl_study *study, size_t index, const icl_study_listener *listener,
                            icl_error *error) {
    const kept_cell *kept = (const kept_cell *)study->cells[index];
    bool is_first = !kept->cell.is_helper;

    for (size_t i = 0; i < index; i++)
        is_first = is_first && (study->cells[i]->is_helper || strcmp(study->cells[i]->group, kept->group) != 0);
    if (listener->cell && is_first)
        ICL_CHECK(listener->cell(listener->user, kept->group, error));
    if (listener->training && trains(study, kept) && kept->recipe && !kept->cell.is_untrained)
        ICL_CHECK(listener->training(listener->user, kept->folder, kept->recipe, error));
    return ICL_OK;
}

static icl_status plant(icl_study *study, kept_cell *kept, icl_error *error) {
    const icl_study_listener *listener = study->run->listener;
    const size_t count = study->run->reproduction->numbers;

    if (!kept->cell.is_wanted || count == 0)
        return ICL_OK;
    ICL_CHECK(icl_allocate(count, sizeof *kept->numbers, "numbers", &kept->numbers, error));
    for (size_t i = 0; i < count; i++)
        kept->numbers[i] = listener->plant(listener->user, &kept->cell, i);
    kept->cell.numbers = kept->numbers;
    kept->cell.is_measured = true;
    return ICL_OK;
}

icl_status icl_study_list(const icl_reproduction *reproduction, const icl_reproduce_params *params,
                          const icl_study_listener *listener, icl_error *error) {
    icl_reproduce_params own = *params;
    icl_reproducing run = {.params = &own, .reproduction = reproduction, .listener = listener};
    icl_study_frame frame;
    icl_study study;
    icl_status status = ICL_OK;

    own.seed = own.seed == 0 ? 1 : own.seed;
    ICL_TRY(open_study(&run, &frame, &study, error));
    for (size_t i = 0; i < study.count; i++)
        ICL_TRY(list_cell(&study, i, listener, error));
    for (size_t i = 0; listener->plant && i < study.count; i++)
        ICL_TRY(plant(&study, (kept_cell *)study.cells[i], error));
    if (listener->plant)
        status = judge_all(&study, error);
done:
    icl_record_release(&run);
    close_study(&study);
    return status;
}

/* How long to wait for a training that another process holds. */
#define WAIT_NANOSECONDS 200000000

icl_status icl_study_folder(const icl_study *study, const icl_study_cell *cell, char **path, icl_error *error) {
    return icl_path_join(study->run->params->folder, cell->folder, path, error);
}

/* ---- What the study holds for measures, starts and watches ---- */

/* Makes room for one more held object, which is zero. */
static icl_status hold(const icl_study *study, icl_study_held **held, icl_error *error) {
    icl_study_frame *frame = study->frame;

    ICL_CHECK(icl_grow(&frame->held, frame->held_count, &frame->held_capacity, sizeof *frame->held, "measures", error));
    *held = &frame->held[frame->held_count++];
    **held = (icl_study_held){.memory = NULL};
    return ICL_OK;
}

/* Releases all objects held beyond the first `count`. */
static void release_held(const icl_study *study, size_t count) {
    icl_study_frame *frame = study->frame;

    while (frame->held_count > count) {
        icl_study_held *held = &frame->held[--frame->held_count];
        icl_free(&held->memory);
        icl_trainer_destroy(&held->trainer);
        icl_evaluation_destroy(&held->evaluation);
        icl_batch_release(&held->batch);
    }
}

icl_status icl_study_room(const icl_study *study, size_t count, size_t element_size, void *pointer_to_pointer,
                          icl_error *error) {
    icl_study_held *held = NULL;

    ICL_CHECK(hold(study, &held, error));
    ICL_CHECK(icl_allocate(count, element_size, "numbers of a study", &held->memory, error));
    memcpy(pointer_to_pointer, &held->memory, sizeof held->memory);
    return ICL_OK;
}

icl_status icl_study_parameters(const icl_study *study, icl_trainer *trainer, float **values, icl_error *error) {
    ICL_CHECK(icl_study_room(study, icl_model_size(icl_trainer_model(trainer)), sizeof **values, values, error));
    return icl_trainer_get_parameters(trainer, *values, error);
}

icl_status icl_study_read(const icl_study *study, icl_tensor tensor, float **values, icl_error *error) {
    ICL_CHECK(icl_study_room(study, icl_tensor_count(&tensor), sizeof **values, values, error));
    return icl_tensor_read(tensor, *values, error);
}

icl_status icl_study_batch(const icl_study *study, const icl_task *task, size_t sequences, uint32_t seed, uint64_t step,
                           icl_batch *batch, icl_error *error) {
    const icl_reproduce_params *params = study->run->params;
    icl_study_held *held = NULL;

    ICL_CHECK(hold(study, &held, error));
    ICL_CHECK(icl_batch_create(task, params->backend, ICL_FOR_EVALUATION, sequences, &held->batch, error));
    *batch = held->batch;
    return icl_task_sample(task, params->backend, ICL_FOR_EVALUATION, seed > 0 ? seed : params->seed, step, batch,
                           error);
}

icl_status icl_study_evaluate(const icl_study *study, const icl_study_cell *cell, icl_trainer *trained,
                              const char *settings, icl_evaluation **evaluation, icl_error *error) {
    icl_study_held *held = NULL;

    ICL_CHECK(hold(study, &held, error));
    ICL_CHECK(settings
                  ? icl_reproduce_evaluate_as(study->run, trained, cell->complete, settings, &held->evaluation, error)
                  : icl_evaluate(study->run->params->backend, trained, cell->complete, &held->evaluation, error));
    *evaluation = held->evaluation;
    return ICL_OK;
}

/* ---- Beginnings ---- */

static icl_status create_model(const icl_recipe *recipe, icl_task **task, icl_model **model, icl_error *error) {
    ICL_CHECK(icl_task_create(recipe, task, error));
    return icl_model_create(recipe, *icl_task_get_shape(*task), model, error);
}

/* Makes the parameters that the cell begins with; NULL: its recipe's. */
static icl_status make_start(icl_study *study, const kept_cell *kept, float **values, icl_error *error) {
    const icl_study_cell *cell = &kept->cell;
    const size_t held = study->frame->held_count;
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
    icl_model_initialize(model, (uint32_t)icl_train_keys_read(kept->recipe).seed, *values);
    ICL_TRY(study->run->reproduction->begin(study, cell, from, model, *values, error));
done:
    release_held(study, held);
    icl_model_destroy(&model);
    icl_task_destroy(&task);
    return status;
}

/* ---- One training ---- */

static void say_begin(void *user, const char *folder, uint64_t step, uint64_t total_steps) {
    (void)step;
    icl_reproduce_say(user, "training %s, %" PRIu64 " steps", icl_path_name(folder), total_steps);
}

/* A cell whose training is watched. */
typedef struct watched_cell {
    icl_study *study;
    const icl_study_cell *cell;
} watched_cell;

static icl_status watch(void *user, icl_trainer *trainer, double *value, icl_error *error) {
    const watched_cell *watched = user;
    icl_study *study = watched->study;
    const size_t held = study->frame->held_count;
    const icl_status status = study->run->reproduction->watch(study, watched->cell, trainer, value, error);

    release_held(study, held);
    return status;
}

/* Trains a cell, whose lock is held. stop: a worker's; NULL: the study itself trains. */
static icl_status train(icl_study *study, kept_cell *kept, const char *folder, icl_work_stop *stop,
                        icl_trainer **trainer, icl_error *error) {
    const icl_reproduce_params *params = study->run->params;
    watched_cell watched = {study, &kept->cell};
    const icl_session_measure measure = {watch, &watched};
    float *initial = NULL;
    char command_line[256];
    bool finished;
    icl_status status = ICL_OK;

    icl_reproduce_command(study->run, command_line, sizeof command_line);
    ICL_TRY(icl_cell_is_finished(folder, kept->recipe, &finished, error));
    if (!finished)
        ICL_TRY(make_start(study, kept, &initial, error));
    const icl_cell_params training = {.session = {.backend = params->backend,
                                                  .recipe = kept->recipe,
                                                  .folder = folder,
                                                  .stop = stop ? &stop->stop : params->stop,
                                                  .report = stop ? icl_work_look : params->progress,
                                                  .user = stop ? stop : params->user,
                                                  .measure = kept->cell.is_watched ? &measure : NULL},
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
    icl_study_held *held = NULL;
    char *folder = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_study_folder(study, cell, &folder, error));
    ICL_TRY(hold(study, &held, error));
    const size_t place = study->frame->held_count - 1; /* the training may hold more objects on its way */
    ICL_TRY(train(study, (kept_cell *)cell, folder, NULL, trainer, error));
    study->frame->held[place].trainer = *trainer;
done:
    icl_free(&folder);
    return status;
}

static icl_status claim(const icl_study *study, const char *folder, icl_lock **lock, icl_error *error) {
    return icl_lock_claim(study->run->params->folder, icl_path_name(folder), lock, error);
}

static icl_status train_cell(icl_study *study, kept_cell *kept, icl_trainer **trainer, icl_error *error) {
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
        status = train(study, kept, folder, NULL, trainer, error);
done:
    icl_lock_release(&lock);
    icl_free(&folder);
    return status;
}

/* ---- A run ---- */

static icl_status measure(icl_study *study, kept_cell *kept, icl_trainer *trained, icl_error *error) {
    const icl_reproduction *reproduction = study->run->reproduction;

    if (!reproduction->measure || reproduction->numbers == 0)
        return ICL_OK;
    if (!kept->numbers)
        ICL_CHECK(icl_allocate(reproduction->numbers, sizeof *kept->numbers, "numbers", &kept->numbers, error));
    memcpy(kept->numbers, study->frame->nothing, reproduction->numbers * sizeof *kept->numbers);
    kept->cell.numbers = kept->numbers;
    const icl_status status = reproduction->measure(study, &kept->cell, trained, kept->numbers, error);
    release_held(study, 0);
    kept->cell.is_measured = status == ICL_OK;
    return status;
}

static icl_status run_cell(icl_study *study, kept_cell *kept, icl_error *error) {
    icl_trainer *trained = NULL;
    icl_status status = ICL_OK;

    if (!trains(study, kept))
        return ICL_OK;
    ICL_TRY(icl_reproduce_poll(study->run, error));
    if (kept->recipe)
        status = train_cell(study, kept, &trained, error);
    kept->cell.has_diverged = status == ICL_ERROR_DIVERGED && kept->cell.may_diverge;
    if (kept->cell.has_diverged)
        status = ICL_OK;
    else if (status == ICL_OK && kept->cell.is_wanted)
        status = measure(study, kept, trained, error);
done:
    icl_trainer_destroy(&trained);
    return status;
}

/* Keeps a training for the report, and tells the caller of it. */
static icl_status keep_training(icl_reproducing *run, const icl_training_row *training, icl_error *error) {
    ICL_CHECK(icl_grow(&run->trainings, run->training_count, &run->training_capacity, sizeof *run->trainings,
                       "trainings", error));
    run->trainings[run->training_count++] = *training;
    if (run->params->trained)
        run->params->trained(run->params->user, run->reproduction, training);
    return ICL_OK;
}

/* Reads where the training of a cell began and ended in its folder. */
static icl_status record_training(const icl_study *study, const kept_cell *kept, icl_error *error) {
    const icl_study_cell *cell = &kept->cell;
    icl_training_row row = {.seed = (uint32_t)icl_train_keys_read(kept->recipe).seed,
                            .first = (double)NAN,
                            .last = (double)NAN,
                            .has_diverged = cell->has_diverged};
    icl_metrics metrics = {0};
    char *folder = NULL;
    icl_status status = ICL_OK;

    snprintf(row.what, sizeof row.what, "%s", cell->name);
    ICL_TRY(icl_study_folder(study, cell, &folder, error));
    ICL_TRY(icl_metrics_read(folder, &metrics, error));
    ICL_TRY(icl_metrics_final_loss(folder, &row.last, error));
    if (metrics.count > 0)
        row.first = metrics.loss[0];
    row.has_diverged = row.has_diverged || (metrics.count > 0 && isnan(row.last));
    status = keep_training(study->run, &row, error);
done:
    icl_metrics_release(&metrics);
    icl_free(&folder);
    return status;
}

static icl_status record_trainings(const icl_study *study, icl_error *error) {
    for (size_t i = 0; i < study->count; i++) {
        const kept_cell *kept = (const kept_cell *)study->cells[i];
        const bool is_behind = kept->has_missed || study->frame->has_missed_across;
        if (is_behind && kept->recipe && !kept->cell.is_untrained && trains(study, kept))
            ICL_CHECK(record_training(study, kept, error));
    }
    return ICL_OK;
}

static icl_status run_study(icl_reproducing *run, icl_error *error) {
    icl_study_frame frame;
    icl_study study;
    icl_status status = ICL_OK;

    ICL_TRY(open_study(run, &frame, &study, error));
    for (size_t i = 0; i < study.count; i++) {
        ICL_TRY(run_cell(&study, (kept_cell *)study.cells[i], error));
        judge_point(&study, i);
        ICL_TRY(end_study(&study, error));
    }
    conclude(&study);
    ICL_TRY(end_study(&study, error));
    status = record_trainings(&study, error);
done:
    close_study(&study);
    return status;
}

static icl_number plant_any(void *user, const icl_study_cell *cell, size_t number) {
    (void)user, (void)cell, (void)number;
    return (icl_number){.5, .01};
}

static void count_of_claim(void *user, const icl_finding *finding) {
    *(size_t *)user += is_of_claim(finding);
}

/* If no finding judged the claim: those that are computed did, unless others do at some scale. */
static icl_status find_what_judges(icl_reproducing *run, icl_error *error) {
    icl_reproduce_params all = {.seed = run->params->seed, .folder = run->params->folder};
    size_t elsewhere = 0;
    const icl_study_listener listener = {.plant = plant_any, .finding = count_of_claim, .user = &elsewhere};

    for (int scale = 0; run->of_claim == 0 && scale < ICL_SCALES; scale++) {
        all.scale = (icl_scale)scale;
        ICL_CHECK(icl_study_list(run->reproduction, &all, &listener, error));
    }
    if (run->of_claim == 0 && elsewhere == 0)
        run->of_claim = run->judged;
    return ICL_OK;
}

icl_status icl_reproduce(const icl_reproduction *reproduction, const icl_reproduce_params *params,
                         icl_reproduce_summary *summary, icl_error *error) {
    icl_reproduce_params own = *params;
    icl_reproducing run = {.params = &own, .reproduction = reproduction};
    const double start = icl_clock_seconds() - params->seconds_before;
    icl_status status = ICL_OK;

    if (own.seed == 0)
        own.seed = 1;
    ICL_TRY(icl_folder_create(own.folder, error));
    ICL_TRY(icl_record_begin(&run, error));
    ICL_TRY(run_study(&run, error));
    if (run.findings == 0)
        ICL_TRY(icl_fail(error, ICL_ERROR_INPUT,
                         "%s: %s: no cell's name contains that, or no check is about it; expected a part of one, or "
                         "nothing for all",
                         reproduction->name, own.only ? own.only : ""));
    ICL_TRY(find_what_judges(&run, error));
    ICL_TRY(icl_record_end(&run, icl_clock_seconds() - start, error));
done:
    *summary = (icl_reproduce_summary){run.findings, run.missed, icl_clock_seconds() - start, run.judged, run.of_claim};
    icl_record_release(&run);
    return status;
}

/* ---- Workers ---- */

typedef struct opened_study {
    icl_reproduce_params params;
    icl_reproducing run;
    icl_study_frame frame;
    icl_study study;
} opened_study;

typedef struct item {
    opened_study *study;
    kept_cell *kept;
} item;

/* The trainings of several studies. */
typedef struct trainings {
    opened_study *studies; /* [study_count] */
    item *items;           /* [count] */
    size_t study_count, count, capacity;
} trainings;

static void close_all(trainings *list) {
    for (size_t i = 0; i < list->study_count; i++)
        close_study(&list->studies[i].study);
    icl_free(&list->studies);
    icl_free(&list->items);
}

static icl_status add_trainings(trainings *list, opened_study *opened, icl_error *error) {
    for (size_t i = 0; i < opened->study.count; i++) {
        kept_cell *kept = (kept_cell *)opened->study.cells[i];
        if (!trains(&opened->study, kept) || !kept->recipe || kept->cell.is_untrained)
            continue;
        ICL_CHECK(icl_grow(&list->items, list->count, &list->capacity, sizeof *list->items, "trainings", error));
        list->items[list->count++] = (item){opened, kept};
    }
    return ICL_OK;
}

static icl_status open_all(const icl_reproduce_shared *shared, icl_backend *backend, trainings *list,
                           icl_error *error) {
    ICL_CHECK(icl_allocate(shared->count, sizeof *list->studies, "studies", &list->studies, error));
    for (size_t i = 0; i < shared->count; i++) {
        opened_study *opened = &list->studies[list->study_count];
        if (!shared->reproductions[i]->plan)
            continue;
        opened->params = shared->params[i];
        opened->params.backend = backend;
        opened->params.seed = opened->params.seed == 0 ? 1 : opened->params.seed;
        opened->run = (icl_reproducing){.params = &opened->params, .reproduction = shared->reproductions[i]};
        list->study_count++;
        ICL_CHECK(open_study(&opened->run, &opened->frame, &opened->study, error));
        ICL_CHECK(add_trainings(list, opened, error));
    }
    return ICL_OK;
}

static icl_status is_finished(const icl_study *study, const icl_study_cell *cell, bool *finished, icl_error *error) {
    char *folder = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_study_folder(study, cell, &folder, error));
    ICL_TRY(icl_cell_is_finished(folder, cell->complete, finished, error));
done:
    icl_free(&folder);
    return status;
}

static icl_status look(void *context, size_t index, icl_item_state *state, icl_error *error) {
    const item *listed = &((const trainings *)context)->items[index];
    const icl_study_cell *before = listed->kept->cell.begins_with;
    bool finished, is_ready = true;

    ICL_CHECK(is_finished(&listed->study->study, &listed->kept->cell, &finished, error));
    if (!finished && before)
        ICL_CHECK(is_finished(&listed->study->study, before, &is_ready, error));
    *state = finished ? ICL_ITEM_FINISHED : is_ready ? ICL_ITEM_OPEN : ICL_ITEM_WAITING;
    return ICL_OK;
}

static icl_status claim_item(void *context, size_t index, icl_lock **lock, icl_error *error) {
    const item *listed = &((const trainings *)context)->items[index];

    ICL_CHECK(icl_folder_create(listed->study->params.folder, error));
    return claim(&listed->study->study, listed->kept->folder, lock, error);
}

static icl_status train_item(void *context, size_t index, icl_work_stop *stop, icl_error *error) {
    const item *listed = &((const trainings *)context)->items[index];
    icl_trainer *trainer = NULL;
    char *folder = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_study_folder(&listed->study->study, &listed->kept->cell, &folder, error));
    status = train(&listed->study->study, listed->kept, folder, stop, &trainer, error);
    if (status == ICL_ERROR_DIVERGED)
        status = ICL_OK; /* the diverged training is reported to the study itself */
done:
    icl_trainer_destroy(&trainer);
    icl_free(&folder);
    return status;
}

static icl_work_list list_of(trainings *list, const icl_reproduce_params *params, long parent) {
    return (icl_work_list){.count = list->count,
                           .noun = "trainings",
                           .look = look,
                           .claim = claim_item,
                           .work = train_item,
                           .context = list,
                           .stop = params->stop,
                           .parent = parent,
                           .say = params->say,
                           .user = params->user};
}

icl_status icl_study_train_all(const icl_reproduce_shared *shared, icl_backend *backend, long parent,
                               icl_error *error) {
    trainings all = {.count = 0};
    icl_status status = ICL_OK;

    ICL_TRY(open_all(shared, backend, &all, error));
    const icl_work_list list = list_of(&all, &shared->params[0], parent);
    status = icl_work_finish(&list, error);
done:
    close_all(&all);
    return status;
}

icl_status icl_study_count_unfinished(const icl_reproduce_shared *shared, size_t *unfinished, icl_error *error) {
    trainings all = {.count = 0};
    icl_status status = ICL_OK;

    ICL_TRY(open_all(shared, NULL, &all, error));
    const icl_work_list list = list_of(&all, &shared->params[0], 0);
    status = icl_work_count(&list, unfinished, error);
done:
    close_all(&all);
    return status;
}

/* ---- Parameters along a training ---- */

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
