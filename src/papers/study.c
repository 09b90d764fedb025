/* The frame of studies: cells and their order, and the way from trained cells to findings and lists. */
#include "papers/study.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/recipe_store.h"
#include "iclab/file.h"
#include "iclab/nearest.h"
#include "iclab/run.h"
#include "numeric/statistics.h"
#include "papers/study_frame.h"
#include "papers/study_list.h"
#include "run/recipe_keys.h"
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

icl_status icl_study_end(const icl_study *study, icl_error *error) {
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

void icl_study_close(icl_study *study) {
    icl_study_frame *frame = study->frame;

    for (size_t i = 0; i < study->count; i++)
        release_cell((kept_cell *)frame->cells[i]);
    icl_free(&frame->cells);
    icl_free(&frame->nothing);
    icl_free(&frame->scratch);
    icl_free(&frame->held);
}

icl_status icl_study_open(icl_reproducing *run, icl_study_frame *frame, icl_study *study, icl_error *error) {
    const size_t numbers = run->reproduction->numbers;

    *frame = (icl_study_frame){.status = ICL_OK};
    *study = (icl_study){.run = run, .scale = run->params->scale, .frame = frame};
    ICL_CHECK(icl_allocate(numbers > 0 ? numbers : 1, sizeof *frame->nothing, "numbers", &frame->nothing, error));
    for (size_t i = 0; i < numbers; i++)
        frame->nothing[i].value = (double)NAN;
    run->reproduction->plan(study);
    ICL_CHECK(icl_allocate(study->count + 1, sizeof *frame->scratch, "numbers", &frame->scratch, error));
    choose(study);
    return icl_study_end(study, error);
}

bool icl_study_trains(const icl_study *study, const kept_cell *kept) {
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

void icl_study_judge_point(icl_study *study, size_t index) {
    const icl_reproduction *reproduction = study->run->reproduction;
    const kept_cell *kept = (const kept_cell *)study->cells[index];

    if (!kept->is_chosen || !icl_study_trains(study, kept) || !is_last_of_point(study, index))
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

void icl_study_conclude(icl_study *study) {
    const icl_reproduction *reproduction = study->run->reproduction;

    for (size_t i = 0; i < reproduction->figure_count; i++)
        ICL_STUDY_CALL(study, draw_row, study, &reproduction->figures[i]);
    if (reproduction->conclude && !icl_study_has_failed(study))
        reproduction->conclude(study);
}

static icl_status judge_all(icl_study *study, icl_error *error) {
    for (size_t i = 0; i < study->count; i++)
        icl_study_judge_point(study, i);
    icl_study_conclude(study);
    return icl_study_end(study, error);
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
    if (listener->training && icl_study_trains(study, kept) && kept->recipe && !kept->cell.is_untrained)
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
    ICL_TRY(icl_study_open(&run, &frame, &study, error));
    for (size_t i = 0; i < study.count; i++)
        ICL_TRY(list_cell(&study, i, listener, error));
    for (size_t i = 0; listener->plant && i < study.count; i++)
        ICL_TRY(plant(&study, (kept_cell *)study.cells[i], error));
    if (listener->plant)
        status = judge_all(&study, error);
done:
    icl_record_release(&run);
    icl_study_close(&study);
    return status;
}

/* ---- Lists of cells ---- */

void icl_cells_release(icl_cells *cells) {
    for (size_t i = 0; i < cells->count; i++)
        icl_free(&cells->names[i]);
    icl_free(&cells->names);
    *cells = (icl_cells){0};
}

static icl_status hear_cell(void *user, const char *group, icl_error *error) {
    icl_cells *cells = user;

    ICL_CHECK(icl_grow(&cells->names, cells->count, &cells->capacity, sizeof *cells->names, "names of cells", error));
    ICL_CHECK(icl_duplicate(group, &cells->names[cells->count], error));
    cells->count++;
    return ICL_OK;
}

icl_status icl_cells_list(const icl_reproduction *reproduction, const icl_reproduce_params *params, icl_cells *cells,
                          icl_error *error) {
    return icl_study_list(reproduction, params, &(icl_study_listener){.cell = hear_cell, .user = cells}, error);
}

icl_status icl_cells_check(const icl_cells *cells, const icl_reproduction *reproduction, const char *only,
                           size_t *matched, icl_error *error) {
    *matched = 0;
    for (size_t i = 0; i < cells->count; i++)
        *matched += strstr(cells->names[i], only) != NULL;
    if (*matched > 0)
        return ICL_OK;
    if (cells->count == 0)
        return icl_fail(error, ICL_ERROR_INPUT, "reproduce: --only %s: %s has no cells to choose among", only,
                        reproduction->name);
    return icl_fail(error, ICL_ERROR_INPUT,
                    "reproduce: --only %s: no cell's name contains that; the nearest known one is %s "
                    "(iclab reproduce %s --cells lists them)",
                    only, icl_nearest(only, (const char *const *)cells->names, cells->count),
                    reproduction->file ? reproduction->file : reproduction->name);
}

/* ---- Lists of trainings ---- */

/* Values of a file come from "FOLDERS/NAME:LINE". */
static void file_of(const icl_recipe *recipe, char *name, size_t size) {
    name[0] = '\0';
    for (size_t i = 0; i < recipe->key_count && name[0] == '\0'; i++) {
        const char *file = icl_path_name(recipe->values[i].origin), *line = strrchr(file, ':');
        if (line)
            snprintf(name, size, "%.*s", (int)(line - file), file);
    }
}

icl_status icl_training_describe(const icl_recipe *recipe, char *file, size_t size, icl_text *settings,
                                 icl_error *error) {
    file_of(recipe, file, size);
    return icl_recipe_print_overrides(recipe, settings, error);
}
