/* Studies as files: the plan, with cells by grid and by name and the errors that it finds, and what is measured. */
#include "papers/study_file_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/recipe_store.h"
#include "iclab/nearest.h"
#include "run/recipe_keys.h"
#include "train/settings.h"

/* Later ones win. */
static const char *const set_at[ICL_SCALES][3] = {{"set", "set ci"}, {"set", "set short"}, {"set", "set full"}};
static const char *const grid_at[ICL_SCALES][3] = {{"grid", "grid ci"}, {"grid", "grid short"}, {"grid", "grid full"}};
static const char *const study_at[ICL_SCALES] = {"study ci", "study short", "study full"};

/* ---- Settings ---- */

/* Returns whether the file itself sets the key. */
static bool is_of_file(const icl_study *study, const icl_recipe *recipe, const icl_recipe_key *key) {
    const char *origin = icl_recipe_origin(recipe, key->section, key->name), *path = icl_study_file_of(study)->path;
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
    size_t count;
    const icl_recipe_key *keys = icl_recipe_keys(recipe, &count); /* all keys, in the order of icl_recipe_known_key */

    for (size_t i = 0; i < all->key_count; i++) {
        const icl_recipe_key *key = &keys[i];
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
    size_t count;
    const icl_recipe_key *keys = icl_recipe_keys(recipe, &count);

    for (size_t i = 0; i < count; i++)
        if (is_of_file(study, recipe, &keys[i]))
            ICL_CHECK(icl_recipe_set_text(recipe, keys[i].section, keys[i].name,
                                          icl_recipe_value(recipe, keys[i].section, keys[i].name), error));
    return ICL_OK;
}

/* Gives a recipe the settings of a section, and of that for the present scale. */
static icl_status set_all(const icl_study *study, const char *section, icl_recipe *recipe, icl_error *error) {
    const icl_study_file *file = icl_study_file_of(study);
    const icl_study_section *at =
        icl_study_section_find(file, ICL_PHRASE("%s %s", section, icl_scale_name(study->scale)));

    ICL_CHECK(icl_grid_set(file->values, section, recipe, error));
    return at ? icl_grid_set(file->values, at->name, recipe, error) : ICL_OK;
}

/* Gives a cell's recipe the settings of the sections that a key of its section names. */
static icl_status set_shared(const icl_study *study, const char *section, icl_recipe *recipe, icl_error *error) {
    const char *rest = icl_study_text_of(study, section, "settings");
    char name[ICL_STUDY_TEXT];

    while (icl_study_next_value(&rest, name)) {
        if (!icl_study_shared(study, name))
            return icl_recipe_reject(icl_study_file_of(study)->values, section, "settings", error,
                                     "names of sections [settings NAME]");
        ICL_CHECK(set_all(study, icl_study_shared(study, name), recipe, error));
    }
    return ICL_OK;
}

/* ---- Cells ---- */

/* Makes the recipe of an evaluation: the cell's with the settings of [eval NAME], and at NAME@VALUE with that value of
 * its key. */
static icl_status make_evaluation(const icl_study *study, const char *name, const icl_recipe *recipe,
                                  icl_recipe **changed, icl_error *error) {
    const icl_phrase section = icl_phrase_print("eval %.*s", (int)strcspn(name, "@"), name);
    const icl_study_key key = icl_study_key_read(icl_study_text_of(study, section.text, "at"));

    ICL_CHECK(icl_recipe_clone(recipe, changed, error));
    ICL_CHECK(set_shared(study, section.text, *changed, error));
    ICL_CHECK(set_all(study, section.text, *changed, error));
    return key.section[0]
               ? icl_recipe_set(*changed, key.section, key.name, strchr(name, '@') + 1,
                                icl_recipe_origin(icl_study_file_of(study)->values, section.text, "at"), error)
               : ICL_OK;
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

/* A cell that is planned, beside a check or a figure. */
typedef struct planned_cell {
    const icl_study *study;
    const char *name;
    const icl_recipe *recipe;
    size_t parameters; /* of its model */
    const char *section;
    bool is_named; /* the section is about it */
    const char *key;
    const char *evaluation; /* the last one that was tried, with its recipe and its task; NULL: none */
    icl_recipe *changed;    /* NULL: the cell's own */
    icl_task *task;
} planned_cell;

static icl_status reject(const planned_cell *cell, icl_error *error, const char *expected) {
    return icl_recipe_reject(icl_study_file_of(cell->study)->values,
                             icl_study_place_of(cell->study, cell->section, cell->key), cell->key, error, "%s",
                             expected);
}

static void forget_evaluation(planned_cell *cell) {
    icl_task_destroy(&cell->task);
    icl_recipe_destroy(&cell->changed);
    cell->evaluation = NULL;
}

/* Makes the task of an evaluation, unless it is the last one, whose model must be the cell's. */
static icl_status try_evaluation(planned_cell *cell, const char *evaluation, icl_error *error) {
    size_t size = 0;

    if (cell->evaluation && strcmp(cell->evaluation, evaluation) == 0)
        return ICL_OK;
    forget_evaluation(cell);
    if (evaluation[0])
        ICL_CHECK(make_evaluation(cell->study, evaluation, cell->recipe, &cell->changed, error));
    ICL_CHECK(try_recipe(cell->changed ? cell->changed : cell->recipe, &cell->task, &size, error));
    if (size != cell->parameters)
        return reject(
            cell, error,
            ICL_PHRASE("an evaluation of a model of %zu parameters; that one has %zu", cell->parameters, size));
    cell->evaluation = evaluation;
    return ICL_OK;
}

/* Checks that the cell's evaluations give a number. */
static icl_status check_measured(planned_cell *cell, const char *name, icl_error *error) {
    const icl_study_numbers *numbers = &icl_study_file_of(cell->study)->numbers;
    const size_t number = icl_study_numbers_find(numbers, name);
    icl_error reason = {0};

    ICL_CHECK(try_evaluation(cell, icl_study_numbers_evaluation(numbers, number), error));
    const icl_status status =
        icl_study_numbers_check(numbers, number, cell->task, cell->changed ? cell->changed : cell->recipe, &reason);
    if (status == ICL_ERROR_INPUT)
        return reject(cell, error, reason.message);
    return status == ICL_OK ? ICL_OK : icl_fail(error, status, "%s", reason.message);
}

/* Checks that the cell gives a number that the section names. */
static icl_status check_number(void *user, const char *other, const char *name, icl_number *ignored, icl_error *error) {
    planned_cell *cell = user;
    double value;

    *ignored = (icl_number){0, 0};
    if ((other ? strcmp(other, cell->name) != 0 : !cell->is_named) || strcmp(name, "position") == 0)
        return ICL_OK;
    if (icl_study_is_key(cell->recipe, name))
        return icl_study_key_number(cell->recipe, name, &value) ? ICL_OK
                                                                : reject(cell, error, "a key whose values are numbers");
    return check_measured(cell, name, error);
}

static icl_status check_value(void *user, const char *key, const char *expression, icl_error *error) {
    icl_number ignored;

    ((planned_cell *)user)->key = key;
    return icl_study_value_read(expression, check_number, user, &ignored, error);
}

/* Refuses a check or figure that asks this cell for a number that it does not have. */
static icl_status check_numbers(const icl_study *study, const char *name, const icl_recipe *recipe, size_t parameters,
                                icl_error *error) {
    const icl_study_file *file = icl_study_file_of(study);
    planned_cell cell = {.study = study, .name = name, .recipe = recipe, .parameters = parameters};
    icl_status status = ICL_OK;

    for (size_t i = 0; i < file->count; i++) {
        const char *section = file->sections[i].name;
        const bool is_figure = icl_study_name_in(section, "figure");
        if ((!is_figure && !icl_study_name_in(section, "check")) || !icl_study_is_at(study, section, "scales"))
            continue;
        const char *x = is_figure ? icl_study_text_of(study, section, "x") : "";
        cell.section = section;
        cell.is_named = icl_study_is_about(study, section, name);
        ICL_TRY(icl_study_each_value(file, study->scale, section, check_value, &cell, error));
        if (is_figure && icl_study_target_read(x).kind != ICL_TARGET_TABLE)
            ICL_TRY(check_value(&cell, "x", x, error));
    }
done:
    forget_evaluation(&cell);
    return status;
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

static size_t count_seeds(const icl_study *study) {
    const icl_recipe *values = icl_study_file_of(study)->values;
    const size_t own = (size_t)icl_recipe_count(values, study_at[study->scale], "seeds");
    const size_t all = (size_t)icl_recipe_count(values, "study", "seeds");

    return own > 0 ? own : all > 0 ? all : 1;
}

/* Finds the training that one with this many parameters begins with; NULL if its section names none. */
static icl_status find_before(const icl_study *study, const char *section, size_t number, size_t size,
                              const icl_study_cell **before, icl_error *error) {
    const char *name =
        section && icl_study_name_in(section, "cell") ? icl_study_text_of(study, section, "begins_with") : "";
    size_t its = size;

    if (name[0] == '\0')
        return ICL_OK;
    *before = icl_study_find_training(study, name, number);
    if (*before)
        ICL_CHECK(check_recipe(study, name, (*before)->complete, &its, error));
    if (*before && its == size)
        return ICL_OK;
    if (*before)
        return icl_recipe_reject(icl_study_file_of(study)->values, section, "begins_with", error,
                                 "a cell of %zu parameters; that one has %zu", size, its);
    return icl_recipe_reject(icl_study_file_of(study)->values, section, "begins_with", error,
                             "a cell above it with as many seeds; the nearest is %s", nearest_cell(study, name));
}

/* Writes the settings that follow the seed of a training: "task.pool_seed=1". */
static icl_phrase write_seeded(const icl_study *study, uint32_t seed) {
    const char *rest = icl_study_text_of(study, "study", "seeded");
    char key[ICL_STUDY_TEXT];
    icl_phrase settings = {""};

    while (icl_study_next_value(&rest, key))
        settings = icl_phrase_print("%s %s=%" PRIu32, settings.text, key, seed);
    return settings;
}

/* Adds the trainings of one point, one for each seed. */
static icl_status add_trainings(icl_study *study, const char *name, size_t size, icl_recipe *recipe, icl_error *error) {
    const icl_recipe_key seed_key = {.section = "train", .name = "seed"};
    const icl_study_origin origin = icl_study_origin_of(study, name);
    const icl_phrase curve = icl_study_join_texts(study, name, "curve");
    const size_t seeds = count_seeds(study);
    const bool is_fixed = is_of_file(study, recipe, &seed_key);
    const uint32_t fixed = (uint32_t)icl_train_keys_read(recipe).seed;
    bool is_untrained = false;

    if (is_fixed && seeds > 1)
        return icl_recipe_reject(recipe, ICL_TRAIN_KEY(seed), error, "it or seeds = %zu in [study], not both", seeds);
    for (size_t i = 0; i < 2 && origin.sections[i]; i++)
        is_untrained =
            is_untrained || icl_recipe_flag(icl_study_file_of(study)->values, origin.sections[i], "untrained");
    ICL_CHECK(mark_overrides(study, recipe, error));
    for (size_t i = 0; i < seeds; i++) {
        const icl_study_cell *before = NULL;
        const uint32_t seed = is_fixed ? fixed : icl_study_seed(study, i);
        ICL_CHECK(find_before(study, origin.sections[0], i, size, &before, error));
        ICL_ADD_CELL(study, .name = name, .base = recipe, .seed = seed, .settings = {write_seeded(study, seed).text},
                     .begins_with = before, .may_diverge = true, .is_untrained = is_untrained, .curve = curve.text);
    }
    return ICL_OK;
}

static icl_status plan_cell(planning *all, const char *name, icl_recipe *recipe, icl_error *error) {
    const icl_recipe_key seed_key = {.section = "eval", .name = "seed"};
    size_t size = 0;

    if (is_of_file(all->study, recipe, &seed_key))
        return icl_recipe_reject(recipe, ICL_EVAL_KEY(seed), error, "--seed of the command in its place");
    ICL_CHECK(note_keys(all, recipe, error));
    ICL_CHECK(icl_recipe_reset_unused(recipe, error)); /* keys that only the file or other cells set */
    ICL_CHECK(check_recipe(all->study, name, recipe, &size, error));
    return add_trainings(all->study, name, size, recipe, error);
}

/* Loads the recipe that a section names, with the settings of this scale. */
static icl_status load_recipe(const icl_study *study, const char *section, icl_recipe **recipe, icl_error *error) {
    const char *name = icl_study_text_of(study, section, "recipe");
    const icl_study_file *file = icl_study_file_of(study);
    icl_error reason = {0};
    const bool is_shipped = !file->reproduction.file; /* a file in the current folder does not count then */
    const icl_status status = is_shipped ? icl_reproduce_recipe(name, recipe, &reason)
                                         : icl_grid_load_recipe(file->path, name, NULL, recipe, &reason);

    if (status != ICL_OK)
        return icl_fail(error, status, "%s: %s", icl_recipe_origin(file->values, section, "recipe"), reason.message);
    for (const char *const *set = set_at[study->scale]; *set; set++)
        ICL_CHECK(icl_grid_set(file->values, *set, *recipe, error));
    return ICL_OK;
}

static icl_status plan_named(planning *all, const icl_study_section *in, icl_error *error) {
    const char *section = in->name, *name = icl_study_name_in(section, "cell");
    const icl_study_file *file = icl_study_file_of(all->study);
    icl_recipe *recipe = NULL;
    icl_status status = ICL_OK;

    if (!icl_study_is_at(all->study, section, "scales"))
        return ICL_OK;
    if (icl_study_find(all->study, name))
        return icl_fail(error, ICL_ERROR_INPUT, "%s:%zu: [%s]: expected a name that no cell of the grid has",
                        file->path, in->line, section);
    ICL_TRY(load_recipe(all->study, icl_study_text_of(all->study, section, "recipe")[0] ? section : "study", &recipe,
                        error));
    ICL_TRY(set_shared(all->study, section, recipe, error));
    ICL_TRY(set_all(all->study, section, recipe, error));
    ICL_TRY(plan_cell(all, name, recipe, error));
done:
    icl_recipe_destroy(&recipe);
    return status;
}

static bool has_grid(const icl_study *study) {
    const icl_study_file *file = icl_study_file_of(study);

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
    ICL_TRY(plan_cell(all, name[0] ? name : icl_study_file_of(all->study)->name, recipe, error));
done:
    icl_free(&name);
    icl_recipe_destroy(&recipe);
    return status;
}

static icl_status plan_grid(planning *all, icl_error *error) {
    const icl_study_file *file = icl_study_file_of(all->study);
    const char *recipe = icl_study_text_of(all->study, "study", "recipe");
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

/* ---- Cells of two lists of settings ---- */

static icl_status plan_pair(planning *all, const char *name, icl_error *error) {
    const icl_study_origin origin = icl_study_origin_of(all->study, name);
    icl_recipe *recipe = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(load_recipe(all->study, "study", &recipe, error));
    for (size_t i = 0; i < 2; i++)
        ICL_TRY(set_all(all->study, origin.sections[i], recipe, error));
    ICL_TRY(plan_cell(all, name, recipe, error));
done:
    icl_recipe_destroy(&recipe);
    return status;
}

/* Plans A-B for every A of one list and every B of the other. */
static icl_status plan_pairs(planning *all, icl_error *error) {
    const icl_study *study = all->study;
    const char *ones = icl_study_text_of(study, "cells", "settings");
    char one[ICL_STUDY_TEXT], other[ICL_STUDY_TEXT];

    while (icl_study_next_value(&ones, one)) {
        const char *others = icl_study_text_of(study, "cells", "by");
        while (icl_study_next_value(&others, other)) {
            const char *key = icl_study_shared(study, one) ? "by" : "settings";
            if (!icl_study_shared(study, one) || !icl_study_shared(study, other))
                return icl_recipe_reject(icl_study_file_of(study)->values, icl_study_place_of(study, "cells", key), key,
                                         error, "names of sections [settings NAME]");
            ICL_CHECK(plan_pair(all, ICL_PHRASE("%s-%s", one, other), error));
        }
    }
    return ICL_OK;
}

/* ---- Plans ---- */

/* A check or a figure of a study whose cells are planned. */
typedef struct planned_section {
    icl_study *study;
    const char *section, *key;
} planned_section;

/* Refuses a cell that does not exist, and makes the cells that are judged need it. */
static icl_status need_cell(const planned_section *all, const char *name, icl_error *error) {
    icl_study *study = all->study;

    if (!icl_study_find(study, name))
        return icl_recipe_reject(icl_study_file_of(study)->values, icl_study_place_of(study, all->section, all->key),
                                 all->key, error, "a cell's name before the colon; the nearest to %s is %s", name,
                                 nearest_cell(study, name));
    for (size_t i = 0; i < study->count; i++)
        for (size_t k = 0; k < study->count && icl_study_is_about(study, all->section, study->cells[i]->name); k++)
            if (strcmp(study->cells[k]->name, name) == 0)
                icl_study_need(study, study->cells[i], study->cells[k]);
    return ICL_OK;
}

static icl_status need_term(void *user, const char *cell, const char *name, icl_number *ignored, icl_error *error) {
    (void)name;
    *ignored = (icl_number){0, 0};
    return cell ? need_cell(user, cell, error) : ICL_OK;
}

static icl_status need_value(void *user, const char *key, const char *expression, icl_error *error) {
    icl_number ignored;

    ((planned_section *)user)->key = key;
    return icl_study_value_read(expression, need_term, user, &ignored, error);
}

/* Checks that the cells of a table exist. */
static icl_status check_table(icl_study *study, const char *section, const char *key, icl_error *error) {
    const char *text = icl_study_text_of(study, section, key);
    char name[ICL_STUDY_NAME];
    double value;

    for (const char *rest = icl_study_target_read(text).kind == ICL_TARGET_TABLE ? text : NULL;
         rest && icl_study_target_row(&rest, name, &value);)
        if (name[0] != '@' && !icl_study_find(study, name) &&
            !icl_study_origin_of(study, name).sections[0]) /* other scales may have it */
            return icl_recipe_reject(icl_study_file_of(study)->values, icl_study_place_of(study, section, key), key,
                                     error, "a cell's name before the colon; the nearest to %s is %s", name,
                                     nearest_cell(study, name));
    return ICL_OK;
}

/* Checks that a check or a figure applies to some cell. */
static icl_status check_cells(const icl_study *study, const char *section, icl_error *error) {
    for (size_t i = 0; i < study->count; i++)
        if (icl_study_is_about(study, section, study->cells[i]->name))
            return ICL_OK;
    return icl_recipe_reject(icl_study_file_of(study)->values, icl_study_place_of(study, section, "cells"), "cells",
                             error, "a part of a cell's name, such as %s", study->cells[0]->name);
}

static icl_status check_sections(icl_study *study, icl_error *error) {
    const icl_study_file *file = icl_study_file_of(study);
    size_t checks = 0;

    for (size_t i = 0; i < file->count; i++) {
        const char *section = file->sections[i].name;
        const bool is_check = icl_study_name_in(section, "check"), is_figure = icl_study_name_in(section, "figure");
        if ((!is_check && !is_figure) || !icl_study_is_at(study, section, "scales"))
            continue;
        ICL_CHECK(check_cells(study, section, error));
        planned_section all = {study, section, NULL};
        ICL_CHECK(check_table(study, section, is_check ? "target" : "expected", error));
        if (is_figure)
            ICL_CHECK(check_table(study, section, "published", error));
        if (is_figure)
            ICL_CHECK(check_table(study, section, "x", error));
        ICL_CHECK(icl_study_each_value(file, study->scale, section, need_value, &all, error));
        checks += is_check;
    }
    if (checks == 0)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: no check at scale %s: expected a section [check NAME] for it",
                        file->path, icl_scale_name(study->scale));
    return ICL_OK;
}

static icl_status plan_all(planning *all, icl_error *error) {
    icl_study *study = all->study;
    const icl_study_file *file = icl_study_file_of(study);

    while (icl_recipe_known_key(all->key_count))
        all->key_count++;
    ICL_CHECK(icl_allocate(all->key_count, sizeof *all->is_read, "keys", &all->is_read, error));
    ICL_CHECK(icl_allocate(all->key_count, sizeof(icl_recipe *), "keys", &all->unread, error));
    ICL_CHECK(plan_grid(all, error));
    ICL_CHECK(plan_pairs(all, error));
    for (size_t i = 0; i < file->count; i++)
        if (icl_study_name_in(file->sections[i].name, "cell"))
            ICL_CHECK(plan_named(all, &file->sections[i], error));
    if (icl_study_has_failed(study)) /* it keeps the error, and cells are missing */
        return ICL_OK;
    if (study->count == 0)
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

/* The numbers that checks and figures ask a cell for. */
typedef struct needed_numbers {
    const icl_study_numbers *all;
    const char *cell;
    bool is_named; /* the section is about the cell */
    bool *needed;  /* [all->count] */
} needed_numbers;

static icl_status need_number(void *user, const char *other, const char *name, icl_number *ignored, icl_error *error) {
    const needed_numbers *numbers = user;
    const size_t number = icl_study_numbers_find(numbers->all, name);

    (void)error;
    *ignored = (icl_number){0, 0};
    if (number < numbers->all->count && (other ? strcmp(other, numbers->cell) == 0 : numbers->is_named))
        numbers->needed[number] = true;
    return ICL_OK;
}

static icl_status need_numbers(void *user, const char *key, const char *expression, icl_error *error) {
    icl_number ignored;

    (void)key;
    return icl_study_value_read(expression, need_number, user, &ignored, error);
}

/* Returns whether the number is needed, and none above it that is has its evaluation. */
static bool is_first(const needed_numbers *numbers, size_t number) {
    const char *evaluation = icl_study_numbers_evaluation(numbers->all, number);

    for (size_t i = 0; i < number; i++)
        if (numbers->needed[i] && strcmp(icl_study_numbers_evaluation(numbers->all, i), evaluation) == 0)
            return false;
    return numbers->needed[number];
}

static icl_status find_needed(const icl_study *study, needed_numbers *numbers, icl_error *error) {
    const icl_study_file *file = icl_study_file_of(study);

    ICL_CHECK(icl_study_room(study, numbers->all->count, sizeof *numbers->needed, &numbers->needed, error));
    for (size_t i = 0; i < file->count; i++) {
        const char *section = file->sections[i].name;
        if ((!icl_study_name_in(section, "check") && !icl_study_name_in(section, "figure")) ||
            !icl_study_is_at(study, section, "scales"))
            continue;
        numbers->is_named = icl_study_is_about(study, section, numbers->cell);
        ICL_CHECK(icl_study_each_value(file, study->scale, section, need_numbers, numbers, error));
    }
    return ICL_OK;
}

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *values,
                          icl_error *error) {
    const icl_study_numbers *all = &icl_study_file_of(study)->numbers;
    needed_numbers numbers = {.all = all, .cell = cell->name};
    icl_recipe *recipe = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(find_needed(study, &numbers, error));
    for (size_t i = 0; i < all->count; i++) {
        const char *evaluation = icl_study_numbers_evaluation(all, i);
        if (!is_first(&numbers, i))
            continue;
        icl_recipe_destroy(&recipe);
        if (evaluation[0])
            ICL_TRY(make_evaluation(study, evaluation, cell->complete, &recipe, error));
        ICL_TRY(icl_study_numbers_measure(all, evaluation, numbers.needed, evaluation[0] ? recipe : cell->complete,
                                          study, cell, trained, values, error));
    }
done:
    icl_recipe_destroy(&recipe);
    return status;
}

const icl_reproduction icl_study_plans = {.plan = plan, .begin = begin, .measure = measure};
