/* Studies as files: the study itself, with cells by grid and by name, the errors that its plan finds, and the way from
 * numbers to findings and figures. */
#include "papers/study_file_parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/recipe_store.h"
#include "iclab/nearest.h"
#include "iclab/number.h"
#include "papers/curves.h"
#include "papers/study_frame.h"
#include "run/recipe_keys.h"
#include "train/settings.h"

/* Later ones win. */
static const char *const set_at[ICL_SCALES][3] = {{"set", "set ci"}, {"set", "set short"}, {"set", "set full"}};
static const char *const grid_at[ICL_SCALES][3] = {{"grid", "grid ci"}, {"grid", "grid short"}, {"grid", "grid full"}};
static const char *const study_at[ICL_SCALES] = {"study ci", "study short", "study full"};

const char *icl_study_name_in(const char *section_name, const char *word) {
    const size_t length = strlen(word);
    return strncmp(section_name, word, length) == 0 && section_name[length] == ' ' ? section_name + length + 1 : NULL;
}

static const icl_study_file *file_of(const icl_study *study) {
    return study->run->reproduction->data;
}

static const char *text_of(const icl_study *study, const char *section, const char *key) {
    return icl_recipe_text(file_of(study)->values, section, key);
}

static bool is_at(const icl_study *study, const char *section) {
    const char *list = text_of(study, section, "scales");
    return list[0] == '\0' || strstr(list, icl_scale_name(study->scale));
}

static bool is_about(const icl_study *study, const char *section, const char *cell) {
    return is_at(study, section) && strstr(cell, text_of(study, section, "cells"));
}

/* ---- Settings ---- */

/* Returns whether the file itself sets the key. */
static bool is_of_file(const icl_study *study, const icl_recipe *recipe, const icl_recipe_key *key) {
    const char *origin = icl_recipe_origin(recipe, key->section, key->name), *path = file_of(study)->path;
    return strncmp(origin, path, strlen(path)) == 0 && origin[strlen(path)] == ':';
}

/* The state of a plan: for each key of recipes, whether some cell reads the value that the file sets, and the recipe of
 * a cell that does not read it although the value is not the default. */
typedef struct planning {
    icl_study *study;
    size_t key_count;
    bool *is_read;
    icl_recipe **unread;
} planning;

static icl_status note_keys(planning *all, const icl_recipe *recipe, icl_error *error) {
    for (size_t i = 0; i < all->key_count; i++) {
        const icl_recipe_key *key = icl_recipe_known_key(i);
        if (!is_of_file(all->study, recipe, key) ||
            icl_recipe_is_idle(recipe, icl_recipe_find(recipe, key->section, key->name)))
            continue;
        if (icl_recipe_is_used(recipe, key->section, key->name))
            all->is_read[i] = true;
        else if (!all->unread[i])
            ICL_CHECK(icl_recipe_clone(recipe, &all->unread[i], error));
    }
    return ICL_OK;
}

/* Refuses a key that nothing reads: in a recipe in which only this key is not read, the recipe's check says what would
 * read it. */
static icl_status refuse_key(const icl_recipe_key *key, const icl_recipe *recipe, icl_error *error) {
    icl_recipe *alone = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_clone(recipe, &alone, error));
    ICL_TRY(icl_recipe_reset_unused(alone, error));
    ICL_TRY(icl_recipe_set(alone, key->section, key->name, icl_recipe_value(recipe, key->section, key->name),
                           icl_recipe_origin(recipe, key->section, key->name), error));
    status = icl_recipe_check(alone, key->section, error);
done:
    icl_recipe_destroy(&alone);
    return status;
}

/* Marks the values that the file sets as overrides, so that lists of trainings show them. */
static icl_status mark_overrides(const icl_study *study, icl_recipe *recipe, icl_error *error) {
    const icl_recipe_key *key;

    for (size_t i = 0; (key = icl_recipe_known_key(i)); i++)
        if (is_of_file(study, recipe, key))
            ICL_CHECK(icl_recipe_set_text(recipe, key->section, key->name,
                                          icl_recipe_value(recipe, key->section, key->name), error));
    return ICL_OK;
}

/* ---- Cells ---- */

static const char *value_of(const icl_recipe *recipe, const char *key) {
    char section[ICL_AXIS_NAME];

    snprintf(section, sizeof section, "%.*s", (int)strcspn(key, "."), key);
    return icl_recipe_value(recipe, section, key + strlen(section) + 1);
}

static bool find_place(const icl_recipe *recipe, const char *key, double *place) {
    const char *value = value_of(recipe, key), *colon = strrchr(value, ':');

    value = colon ? colon + 1 : value;
    return icl_parse_number(value, strlen(value), place);
}

static icl_status make_evaluation(const icl_study *study, const char *name, const icl_recipe *recipe,
                                  icl_recipe **changed, icl_error *error) {
    char section[ICL_AXIS_NAME];

    snprintf(section, sizeof section, "eval %s", name);
    ICL_CHECK(icl_recipe_clone(recipe, changed, error));
    return icl_grid_set(file_of(study)->values, section, *changed, error);
}

/* Creates the task and the model of a recipe, which reports errors in its settings; *size receives the number of
 * parameters. */
static icl_status try_recipe(const icl_recipe *recipe, icl_task **task, size_t *size, icl_error *error) {
    icl_model *model = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_task_create(recipe, task, error));
    ICL_TRY(icl_model_create(recipe, *icl_task_get_shape(*task), &model, error));
    *size = icl_model_size(model);
done:
    icl_model_destroy(&model);
    return status;
}

/* Checks that a cell gives the number that a key of a section names; `parameters` are those of its model. */
static icl_status check_number(const icl_study *study, const char *section, const char *key, const char *name,
                               const icl_recipe *recipe, size_t parameters, icl_error *error) {
    const icl_study_file *file = file_of(study);
    const size_t number = icl_study_numbers_find(&file->numbers, name);
    const char *evaluation = icl_study_numbers_evaluation(&file->numbers, number);
    icl_recipe *changed = NULL;
    icl_task *task = NULL;
    icl_error reason = {0};
    icl_status status = ICL_OK;
    size_t size = 0;

    if (evaluation[0])
        ICL_TRY(make_evaluation(study, evaluation, recipe, &changed, error));
    ICL_TRY(try_recipe(changed ? changed : recipe, &task, &size, error));
    if (size != parameters)
        ICL_TRY(icl_recipe_reject(file->values, section, key, error,
                                  "an evaluation of a model of %zu parameters; that one has %zu", parameters, size));
    if (icl_study_numbers_check(&file->numbers, number, task, changed ? changed : recipe, &reason) != ICL_OK)
        status = icl_recipe_reject(file->values, section, key, error, "%s", reason.message);
done:
    icl_task_destroy(&task);
    icl_recipe_destroy(&changed);
    return status;
}

/* Refuses a check or figure that asks this cell for a number that it does not have. */
static icl_status check_numbers(const icl_study *study, const char *name, const icl_recipe *recipe, size_t parameters,
                                icl_error *error) {
    const icl_study_file *file = file_of(study);
    double place;

    for (size_t i = 0; i < file->count; i++) {
        const char *section = file->sections[i].name;
        const bool is_figure = icl_study_name_in(section, "figure");
        if ((!is_figure && !icl_study_name_in(section, "check")) || !is_at(study, section))
            continue;
        const bool is_named = is_about(study, section, name);
        const char *key = is_figure ? "expected" : "target", *number = text_of(study, section, "number");
        const icl_study_target target = icl_study_target_read(text_of(study, section, key));
        if (is_named)
            ICL_CHECK(check_number(study, section, "number", number, recipe, parameters, error));
        if (target.number && (target.kind == ICL_TARGET_OWN ? is_named : strcmp(target.cell, name) == 0))
            ICL_CHECK(check_number(study, section, key, target.number, recipe, parameters, error));
        if (is_named && is_figure && !find_place(recipe, text_of(study, section, "x"), &place))
            return icl_recipe_reject(file->values, section, "x", error, "a key whose values are numbers");
    }
    return ICL_OK;
}

static icl_status check_recipe(const icl_study *study, const char *name, const icl_recipe *recipe, size_t *size,
                               icl_error *error) {
    icl_task *task = NULL;
    const icl_status status = try_recipe(recipe, &task, size, error);

    icl_task_destroy(&task);
    return status == ICL_OK ? check_numbers(study, name, recipe, *size, error) : status;
}

static const char *nearest_cell(const icl_study *study, const char *name) {
    const char *nearest = "none";
    size_t least = SIZE_MAX;

    for (size_t i = 0; i < study->count; i++)
        if (icl_edit_distance(name, study->cells[i]->name) < least) {
            nearest = study->cells[i]->name;
            least = icl_edit_distance(name, nearest);
        }
    return nearest;
}

static const icl_study_cell *find_training(const icl_study *study, const char *name, size_t number) {
    for (size_t i = 0; i < study->count; i++)
        if (strcmp(study->cells[i]->name, name) == 0 && number-- == 0)
            return study->cells[i];
    return NULL;
}

static size_t count_seeds(const icl_study *study) {
    const icl_recipe *values = file_of(study)->values;
    const size_t own = (size_t)icl_recipe_count(values, study_at[study->scale], "seeds");
    const size_t all = (size_t)icl_recipe_count(values, "study", "seeds");

    return own > 0 ? own : all > 0 ? all : 1;
}

/* Finds the training that one with this many parameters begins with; NULL if the section names none. */
static icl_status find_before(const icl_study *study, const char *section, size_t number, size_t size,
                              const icl_study_cell **before, icl_error *error) {
    const char *name = section ? text_of(study, section, "begins_with") : "";
    size_t its = size;

    if (name[0] == '\0')
        return ICL_OK;
    *before = find_training(study, name, number);
    if (*before)
        ICL_CHECK(check_recipe(study, name, (*before)->complete, &its, error));
    if (*before && its == size)
        return ICL_OK;
    if (*before)
        return icl_recipe_reject(file_of(study)->values, section, "begins_with", error,
                                 "a cell of %zu parameters; that one has %zu", size, its);
    return icl_recipe_reject(file_of(study)->values, section, "begins_with", error,
                             "a cell above it with as many seeds; the nearest is %s", nearest_cell(study, name));
}

/* Adds the trainings of one point, one for each seed. */
static icl_status add_trainings(icl_study *study, const char *name, const char *section, size_t size,
                                icl_recipe *recipe, icl_error *error) {
    const icl_recipe_key seed_key = {.section = "train", .name = "seed"};
    const size_t seeds = count_seeds(study);
    const bool is_fixed = is_of_file(study, recipe, &seed_key);
    const uint32_t fixed = (uint32_t)icl_train_keys_read(recipe).seed;

    if (is_fixed && seeds > 1)
        return icl_recipe_reject(recipe, ICL_TRAIN_KEY(seed), error, "it or seeds = %zu in [study], not both", seeds);
    ICL_CHECK(mark_overrides(study, recipe, error));
    for (size_t i = 0; i < seeds; i++) {
        const icl_study_cell *before = NULL;
        ICL_CHECK(find_before(study, section, i, size, &before, error));
        ICL_ADD_CELL(study, .name = name, .base = recipe, .seed = is_fixed ? fixed : icl_study_seed(study, i),
                     .begins_with = before, .may_diverge = true);
    }
    return ICL_OK;
}

static icl_status plan_cell(planning *all, const char *name, const char *section, icl_recipe *recipe,
                            icl_error *error) {
    const icl_recipe_key seed_key = {.section = "eval", .name = "seed"};
    size_t size = 0;

    if (is_of_file(all->study, recipe, &seed_key))
        return icl_recipe_reject(recipe, ICL_EVAL_KEY(seed), error, "--seed of the command in its place");
    ICL_CHECK(note_keys(all, recipe, error));
    ICL_CHECK(icl_recipe_reset_unused(recipe, error)); /* keys that only the file or other cells set */
    ICL_CHECK(check_recipe(all->study, name, recipe, &size, error));
    return add_trainings(all->study, name, section, size, recipe, error);
}

/* Loads the recipe that a section names, with the settings of this scale. */
static icl_status load_recipe(const icl_study *study, const char *section, icl_recipe **recipe, icl_error *error) {
    const char *name = text_of(study, section, "recipe");
    const icl_study_file *file = file_of(study);
    icl_error reason = {0};
    const icl_status status = icl_grid_load_recipe(file->path, name, NULL, recipe, &reason);

    if (status != ICL_OK)
        return icl_fail(error, status, "%s: %s", icl_recipe_origin(file->values, section, "recipe"), reason.message);
    for (const char *const *set = set_at[study->scale]; *set; set++)
        ICL_CHECK(icl_grid_set(file->values, *set, *recipe, error));
    return ICL_OK;
}

static icl_status plan_named(planning *all, const icl_study_section *in, icl_error *error) {
    const char *section = in->name, *name = icl_study_name_in(section, "cell");
    const icl_study_file *file = file_of(all->study);
    icl_recipe *recipe = NULL;
    icl_status status = ICL_OK;

    if (!is_at(all->study, section))
        return ICL_OK;
    if (icl_study_find(all->study, name))
        return icl_fail(error, ICL_ERROR_INPUT, "%s:%zu: [%s]: expected a name that no cell of the grid has",
                        file->path, in->line, section);
    ICL_TRY(load_recipe(all->study, text_of(all->study, section, "recipe")[0] ? section : "study", &recipe, error));
    ICL_TRY(icl_grid_set(file->values, section, recipe, error));
    ICL_TRY(plan_cell(all, name, section, recipe, error));
done:
    icl_recipe_destroy(&recipe);
    return status;
}

static bool has_grid(const icl_study *study) {
    const icl_study_file *file = file_of(study);

    for (size_t i = 0; i < file->keys.count; i++) {
        const icl_recipe_key *row = &file->keys.rows[i];
        for (const char *const *section = grid_at[study->scale]; *section; section++)
            if (strcmp(row->section, *section) == 0 && strcmp(file->values->values[i].origin, "default") != 0)
                return true;
    }
    return false;
}

static icl_status plan_grid_cell(planning *all, const icl_sweep *grid, size_t cell, icl_error *error) {
    icl_recipe *recipe = NULL;
    char *name = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_grid_point_name(grid, cell, &name, error));
    ICL_TRY(icl_sweep_cell_recipe(grid, cell, &recipe, error));
    ICL_TRY(plan_cell(all, name[0] ? name : file_of(all->study)->name, NULL, recipe, error));
done:
    icl_free(&name);
    icl_recipe_destroy(&recipe);
    return status;
}

static icl_status plan_grid(planning *all, icl_error *error) {
    const icl_study_file *file = file_of(all->study);
    const char *recipe = text_of(all->study, "study", "recipe");
    icl_recipe *base = NULL;
    icl_sweep *grid = NULL;
    icl_status status = ICL_OK;

    if (!has_grid(all->study))
        return ICL_OK;
    ICL_TRY(load_recipe(all->study, "study", &base, error));
    ICL_TRY(icl_grid_read(&(icl_grid_source){file->path, file->values, grid_at[all->study->scale],
                                             set_at[all->study->scale], base, recipe},
                          &grid, error));
    for (size_t cell = 0; cell < icl_sweep_cells(grid); cell++)
        ICL_TRY(plan_grid_cell(all, grid, cell, error));
done:
    icl_sweep_destroy(&grid);
    icl_recipe_destroy(&base);
    return status;
}

/* ---- Plans ---- */

static icl_status refuse_target(const icl_study *study, const char *section, const char *key, const char *name,
                                icl_error *error) {
    return icl_recipe_reject(file_of(study)->values, section, key, error,
                             "a cell's name before the colon; the nearest to %s is %s", name,
                             nearest_cell(study, name));
}

/* Refuses a target of a cell that does not exist, and makes the cells that are judged need the cells of their
 * targets. */
static icl_status check_target(icl_study *study, const char *section, const char *key, icl_error *error) {
    const char *text = text_of(study, section, key);
    const icl_study_target target = icl_study_target_read(text);
    char name[128];
    double value;

    while (target.kind == ICL_TARGET_TABLE && text && icl_study_target_row(&text, name, &value))
        if (!icl_study_find(study, name))
            return refuse_target(study, section, key, name, error);
    if (target.kind != ICL_TARGET_OTHER)
        return ICL_OK;
    if (!icl_study_find(study, target.cell))
        return refuse_target(study, section, key, target.cell, error);
    for (size_t i = 0; i < study->count; i++)
        for (size_t k = 0; k < study->count && is_about(study, section, study->cells[i]->name); k++)
            if (strcmp(study->cells[k]->name, target.cell) == 0)
                icl_study_need(study, study->cells[i], study->cells[k]);
    return ICL_OK;
}

/* Checks that a check or a figure applies to some cell. */
static icl_status check_cells(const icl_study *study, const char *section, icl_error *error) {
    for (size_t i = 0; i < study->count; i++)
        if (is_about(study, section, study->cells[i]->name))
            return ICL_OK;
    return icl_recipe_reject(file_of(study)->values, section, "cells", error, "a part of a cell's name, such as %s",
                             study->cells[0]->name);
}

static icl_status check_sections(icl_study *study, icl_error *error) {
    const icl_study_file *file = file_of(study);
    size_t checks = 0;

    for (size_t i = 0; i < file->count; i++) {
        const char *section = file->sections[i].name;
        const bool is_check = icl_study_name_in(section, "check"), is_figure = icl_study_name_in(section, "figure");
        if ((!is_check && !is_figure) || !is_at(study, section))
            continue;
        ICL_CHECK(check_cells(study, section, error));
        ICL_CHECK(check_target(study, section, is_check ? "target" : "expected", error));
        checks += is_check;
    }
    if (checks == 0)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: no check at scale %s: expected a section [check NAME] for it",
                        file->path, icl_scale_name(study->scale));
    return ICL_OK;
}

static icl_status plan_all(planning *all, icl_error *error) {
    icl_study *study = all->study;
    const icl_study_file *file = file_of(study);

    while (icl_recipe_known_key(all->key_count))
        all->key_count++;
    ICL_CHECK(icl_allocate(all->key_count, sizeof *all->is_read, "keys", &all->is_read, error));
    ICL_CHECK(icl_allocate(all->key_count, sizeof(icl_recipe *), "keys", &all->unread, error));
    ICL_CHECK(plan_grid(all, error));
    for (size_t i = 0; i < file->count; i++)
        if (icl_study_name_in(file->sections[i].name, "cell"))
            ICL_CHECK(plan_named(all, &file->sections[i], error));
    if (study->count == 0 && !icl_study_has_failed(study))
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s: no cell at scale %s: expected a line such as task.n = 10, 20 in a section [grid], or a "
                        "section [cell NAME]",
                        file->path, icl_scale_name(study->scale));
    for (size_t i = 0; i < all->key_count; i++)
        if (all->unread[i] && !all->is_read[i])
            ICL_CHECK(refuse_key(icl_recipe_known_key(i), all->unread[i], error));
    return check_sections(study, error);
}

static void plan(icl_study *study) {
    planning all = {.study = study};

    ICL_STUDY_CALL(study, plan_all, &all);
    for (size_t i = 0; all.unread && i < all.key_count; i++)
        icl_recipe_destroy(&all.unread[i]);
    icl_free(&all.unread);
    icl_free(&all.is_read);
}

/* ---- Beginnings and numbers ---- */

static icl_status begin(icl_study *study, const icl_study_cell *cell, icl_trainer *from, const icl_model *model,
                        float *values, icl_error *error) {
    (void)study, (void)cell, (void)model;
    return icl_trainer_get_parameters(from, values, error);
}

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    const icl_study_file *file = file_of(study);
    icl_recipe *recipe = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_study_numbers_measure(&file->numbers, "", cell->complete, study, cell, trained, numbers, error));
    for (size_t i = 0; i < file->count; i++) {
        const char *evaluation = icl_study_name_in(file->sections[i].name, "eval");
        if (!evaluation)
            continue;
        icl_recipe_destroy(&recipe);
        ICL_TRY(make_evaluation(study, evaluation, cell->complete, &recipe, error));
        ICL_TRY(icl_study_numbers_measure(&file->numbers, evaluation, recipe, study, cell, trained, numbers, error));
    }
done:
    icl_recipe_destroy(&recipe);
    return status;
}

/* ---- Findings ---- */

/* Returns the name of the point in findings. */
static const char *what_of(const icl_study *study, const char *cell) {
    const icl_study_file *file = file_of(study);

    for (size_t i = 0; i < file->count; i++) {
        const char *name = icl_study_name_in(file->sections[i].name, "cell");
        if (name && strcmp(name, cell) == 0 && text_of(study, file->sections[i].name, "what")[0])
            return text_of(study, file->sections[i].name, "what");
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
                          icl_study_numbers_find(&file_of(study)->numbers, target.number));
}

/* Returns the index of the number of a check or a figure. */
static size_t number_of(const icl_study *study, const char *section) {
    return icl_study_numbers_find(&file_of(study)->numbers, text_of(study, section, "number"));
}

/* Writes the note of the file, or else that several seeds were averaged; if some seeds gave no number, that comes
 * first. */
static icl_phrase write_note(const icl_study *study, const char *section, const icl_study_cell *cell) {
    const char *note = text_of(study, section, "note");
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
    const icl_recipe *values = file_of(study)->values;
    const char *target = text_of(study, section, "target");
    const char *quantity = text_of(study, section, "quantity");
    const char *source = text_of(study, section, "source");
    const icl_number ours = icl_over_seeds(study, cell, number_of(study, section));
    const icl_number expected = find_target(study, target, cell);
    const icl_phrase note = write_note(study, section, cell);
    icl_study_tolerance tolerance;

    icl_study_tolerance_read(text_of(study, section, "tolerance"), &tolerance);
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

/* Judges the checks of a point. Checks that compare with another point wait until that is measured: they are judged if
 * `is_last`. */
static void judge_point(icl_study *study, const icl_study_cell *cell, bool is_last) {
    const icl_study_file *file = file_of(study);

    for (size_t i = 0; i < file->count; i++) {
        const char *section = file->sections[i].name;
        if (!icl_study_name_in(section, "check") || !is_about(study, section, cell->name))
            continue;
        const char *text = text_of(study, section, "target");
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
    const char *key = text_of(study, section, "curves"), *expected = text_of(study, section, "expected");
    const icl_target_kind kind = icl_study_target_read(expected).kind;
    const bool is_printed = kind == ICL_TARGET_NUMBER || kind == ICL_TARGET_TABLE;
    char label[ICL_CURVE_LABEL], beside[ICL_CURVE_LABEL];
    double place = (double)NAN;

    snprintf(label, sizeof label, "%s", text_of(study, section, "number"));
    if (key[0])
        snprintf(label, sizeof label, "%s = %s", key, value_of(cell->complete, key));
    (void)find_place(cell->complete, text_of(study, section, "x"), &place);
    ICL_CHECK(
        icl_curves_add(curves, label, ICL_SERIES_OURS, place, cell->numbers[number_of(study, section)].value, error));
    if (kind == ICL_TARGET_NONE || find_training(study, cell->name, 0) != cell)
        return ICL_OK;
    snprintf(beside, sizeof beside, "%.*s%s%s", (int)sizeof beside / 2, key[0] ? label : "", key[0] ? ", " : "",
             is_printed ? "published" : expected);
    return icl_curves_add(curves, beside, is_printed ? ICL_SERIES_PUBLISHED : ICL_SERIES_REFERENCE, place,
                          find_target(study, expected, cell).value, error);
}

static icl_status draw_figure(icl_study *study, const char *section, icl_error *error) {
    const icl_recipe *values = file_of(study)->values;
    const char *number = text_of(study, section, "number"), *x = text_of(study, section, "x");
    const char *title = text_of(study, section, "title"), *x_label = text_of(study, section, "x_label");
    const char *y_label = text_of(study, section, "y_label");
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
        if (study->cells[i]->is_wanted && is_about(study, section, study->cells[i]->name))
            ICL_TRY(add_point(study, section, study->cells[i], &curves, error));
    if (curves.count > 0)
        ICL_TRY(icl_curves_draw(study->run, &curves, error));
done:
    icl_curves_release(&curves);
    return status;
}

static void conclude(icl_study *study) {
    const icl_study_file *file = file_of(study);

    for (size_t i = 0; i < study->count; i++) {
        const icl_study_cell *cell = study->cells[i];
        if (((const kept_cell *)cell)->is_chosen && find_training(study, cell->name, 0) == cell)
            judge_point(study, cell, true);
    }
    for (size_t i = 0; i < file->count; i++)
        if (icl_study_name_in(file->sections[i].name, "figure") && is_at(study, file->sections[i].name))
            ICL_STUDY_CALL(study, draw_figure, study, file->sections[i].name);
}

const icl_reproduction icl_study_of_file = {
    .plan = plan, .begin = begin, .measure = measure, .judge = judge, .conclude = conclude};
