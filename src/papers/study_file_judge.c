/* Studies as files: from numbers to findings and figures, as the sections of checks and figures have them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "papers/curves.h"
#include "papers/study_file_parts.h"
#include "papers/study_frame.h"

static icl_status begin(icl_study *study, const icl_study_cell *cell, icl_trainer *from, const icl_model *model,
                        float *values, icl_error *error) {
    (void)study, (void)cell, (void)model;
    return icl_trainer_get_parameters(from, values, error);
}

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    const icl_study_file *file = icl_study_file_of(study);
    icl_recipe *recipe = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_study_numbers_measure(&file->numbers, "", cell->complete, study, cell, trained, numbers, error));
    for (size_t i = 0; i < file->count; i++) {
        const char *evaluation = icl_study_name_in(file->sections[i].name, "eval");
        if (!evaluation)
            continue;
        icl_recipe_destroy(&recipe);
        ICL_TRY(icl_study_evaluation_recipe(study, evaluation, cell->complete, &recipe, error));
        ICL_TRY(icl_study_numbers_measure(&file->numbers, evaluation, recipe, study, cell, trained, numbers, error));
    }
done:
    icl_recipe_destroy(&recipe);
    return status;
}

/* ---- Checks ---- */

/* The words for the point in findings. */
static const char *what_of(const icl_study *study, const char *cell) {
    const icl_study_file *file = icl_study_file_of(study);

    for (size_t i = 0; i < file->count; i++) {
        const char *name = icl_study_name_in(file->sections[i].name, "cell");
        if (name && strcmp(name, cell) == 0 && icl_study_text_of(study, file->sections[i].name, "what")[0])
            return icl_study_text_of(study, file->sections[i].name, "what");
    }
    return cell;
}

static icl_number find_target(const icl_study *study, const char *text, const icl_study_cell *cell) {
    const icl_study_target target = icl_study_target_read(text);
    icl_number row = {target.value, 0};

    if (target.kind == ICL_TARGET_TABLE && !icl_study_target_of(text, cell->name, &row.value))
        row.value = (double)NAN;
    if (!target.number)
        return row;
    return icl_over_seeds(study, target.kind == ICL_TARGET_OTHER ? icl_study_find(study, target.cell) : cell,
                          icl_study_numbers_find(&icl_study_file_of(study)->numbers, target.number));
}

/* The place of the number that a check or a figure is of. */
static size_t number_of(const icl_study *study, const char *section) {
    return icl_study_numbers_find(&icl_study_file_of(study)->numbers, icl_study_text_of(study, section, "number"));
}

/* The note of the file; else that several seeds were taken together, and before both that some came to nothing. */
static icl_phrase write_note(const icl_study *study, const char *section, const icl_study_cell *cell) {
    const char *note = icl_study_text_of(study, section, "note");
    size_t seeds = 0, lost = 0;

    for (size_t i = 0; i < study->count; i++)
        if (strcmp(study->cells[i]->name, cell->name) == 0) {
            seeds++;
            lost += !isfinite(study->cells[i]->numbers[number_of(study, section)].value);
        }
    if (lost > 0)
        return icl_phrase_print("%zu of %zu seeds gave no finite number", lost, seeds);
    return note[0] || seeds == 1 ? icl_phrase_print("%s", note) : icl_phrase_print("mean of %zu seeds", seeds);
}

static void judge_check(icl_study *study, const char *section, const icl_study_cell *cell) {
    const icl_recipe *values = icl_study_file_of(study)->values;
    const char *target = icl_study_text_of(study, section, "target");
    const char *quantity = icl_study_text_of(study, section, "quantity");
    const char *source = icl_study_text_of(study, section, "source");
    const icl_number ours = icl_over_seeds(study, cell, number_of(study, section));
    const icl_number expected = find_target(study, target, cell);
    const icl_phrase note = write_note(study, section, cell);
    icl_study_tolerance tolerance;

    icl_study_tolerance_read(icl_study_text_of(study, section, "tolerance"), &tolerance);
    ICL_JUDGE(study, .what = what_of(study, cell->name),
              .quantity = quantity[0] ? quantity : icl_study_name_in(section, "check"), ICL_OURS(ours),
              .target = expected.value,
              .tolerance = tolerance.absolute + tolerance.relative * fabs(expected.value) +
                           tolerance.errors * hypot(ours.standard_error, expected.standard_error),
              .criterion = (icl_criterion)icl_recipe_choice(values, section, "criterion"),
              .evidence = (icl_evidence)icl_recipe_choice(values, section, "evidence"),
              .source = source[0]   ? source
                        : target[0] ? target
                                    : NULL,
              .note = note.text[0] ? note.text : NULL);
}

/* Those that compare with other points wait for these, if `is_last`. */
static void judge_point(icl_study *study, const icl_study_cell *cell, bool is_last) {
    const icl_study_file *file = icl_study_file_of(study);

    for (size_t i = 0; i < file->count; i++) {
        const char *section = file->sections[i].name;
        if (!icl_study_name_in(section, "check") || !icl_study_is_about(study, section, cell->name))
            continue;
        const char *text = icl_study_text_of(study, section, "target");
        const icl_study_target target = icl_study_target_read(text);
        if ((target.kind == ICL_TARGET_OTHER) != is_last || (is_last && strcmp(target.cell, cell->name) == 0) ||
            (target.kind == ICL_TARGET_TABLE && isnan(find_target(study, text, cell).value)))
            continue;
        judge_check(study, section, cell);
    }
}

static void judge(icl_study *study, const icl_study_cell *cell) {
    judge_point(study, cell, false);
}

/* ---- Figures ---- */

static icl_status add_point(const icl_study *study, const char *section, const icl_study_cell *cell, icl_curves *curves,
                            icl_error *error) {
    const char *key = icl_study_text_of(study, section, "curves"),
               *expected = icl_study_text_of(study, section, "expected");
    const icl_target_kind kind = icl_study_target_read(expected).kind;
    const bool is_printed = kind == ICL_TARGET_NUMBER || kind == ICL_TARGET_TABLE;
    char label[ICL_CURVE_LABEL], beside[ICL_CURVE_LABEL];
    double place = (double)NAN;

    snprintf(label, sizeof label, "%s", icl_study_text_of(study, section, "number"));
    if (key[0])
        snprintf(label, sizeof label, "%s = %s", key, icl_study_value(cell->complete, key));
    (void)icl_study_find_place(cell->complete, icl_study_text_of(study, section, "x"), &place);
    ICL_CHECK(
        icl_curves_add(curves, label, ICL_SERIES_OURS, place, cell->numbers[number_of(study, section)].value, error));
    if (kind == ICL_TARGET_NONE || icl_study_find_training(study, cell->name, 0) != cell)
        return ICL_OK;
    snprintf(beside, sizeof beside, "%.*s%s%s", (int)sizeof beside / 2, key[0] ? label : "", key[0] ? ", " : "",
             is_printed ? "published" : expected);
    return icl_curves_add(curves, beside, is_printed ? ICL_SERIES_PUBLISHED : ICL_SERIES_REFERENCE, place,
                          find_target(study, expected, cell).value, error);
}

static icl_status draw_figure(icl_study *study, const char *section, icl_error *error) {
    const icl_recipe *values = icl_study_file_of(study)->values;
    const char *number = icl_study_text_of(study, section, "number"), *x = icl_study_text_of(study, section, "x");
    const char *title = icl_study_text_of(study, section, "title"),
               *x_label = icl_study_text_of(study, section, "x_label");
    const char *y_label = icl_study_text_of(study, section, "y_label");
    char by[256];
    icl_curves curves = {.figure = {.name = icl_study_name_in(section, "figure"),
                                    .title = title[0] ? title : by,
                                    .x_label = x_label[0] ? x_label : x,
                                    .y_label = y_label[0] ? y_label : number,
                                    .log_x = icl_recipe_flag(values, section, "log_x"),
                                    .log_y = icl_recipe_flag(values, section, "log_y")}};
    icl_status status = ICL_OK;

    snprintf(by, sizeof by, "%s by %s", number, x);
    for (size_t i = 0; i < study->count; i++)
        if (study->cells[i]->is_wanted && icl_study_is_about(study, section, study->cells[i]->name))
            ICL_TRY(add_point(study, section, study->cells[i], &curves, error));
    if (curves.count > 0)
        ICL_TRY(icl_curves_draw(study->run, &curves, error));
done:
    icl_curves_release(&curves);
    return status;
}

static void conclude(icl_study *study) {
    const icl_study_file *file = icl_study_file_of(study);

    for (size_t i = 0; i < study->count; i++) {
        const icl_study_cell *cell = study->cells[i];
        if (((const kept_cell *)cell)->is_chosen && icl_study_find_training(study, cell->name, 0) == cell)
            judge_point(study, cell, true);
    }
    for (size_t i = 0; i < file->count; i++)
        if (icl_study_name_in(file->sections[i].name, "figure") && icl_study_is_at(study, file->sections[i].name))
            ICL_STUDY_CALL(study, draw_figure, study, file->sections[i].name);
}

const icl_reproduction icl_study_of_file = {
    .plan = icl_study_file_plan, .begin = begin, .measure = measure, .judge = judge, .conclude = conclude};
