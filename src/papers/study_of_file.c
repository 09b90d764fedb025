/* Studies as files: the study itself, with cells by grid and by name, the errors that its plan finds, and the way from
 * numbers to findings and figures. */
#include "papers/study_file_parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/allocate.h"
#include "core/recipe_store.h"
#include "iclab/nearest.h"
#include "iclab/number.h"
#include "numeric/statistics.h"
#include "papers/curves.h"
#include "papers/study_frame.h"
#include "run/recipe_keys.h"
#include "train/settings.h"

/* Later ones win. */
static const char *const set_at[ICL_SCALES][3] = {{"set", "set ci"}, {"set", "set short"}, {"set", "set full"}};
static const char *const grid_at[ICL_SCALES][3] = {{"grid", "grid ci"}, {"grid", "grid short"}, {"grid", "grid full"}};
static const char *const study_at[ICL_SCALES] = {"study ci", "study short", "study full"};

static const icl_study_file *file_of(const icl_study *study) {
    return study->run->reproduction->data;
}

/* Returns the value of a key at the scale of the study, and the section that has it. */
static const char *text_of(const icl_study *study, const char *section, const char *key) {
    return icl_study_text(file_of(study), study->scale, section, key);
}

static const char *place_of(const icl_study *study, const char *section, const char *key) {
    return icl_study_place(file_of(study), study->scale, section, key);
}

static bool is_at(const icl_study *study, const char *section) {
    const char *list = text_of(study, section, "scales");
    return list[0] == '\0' || strstr(list, icl_scale_name(study->scale));
}

static bool is_about(const icl_study *study, const char *section, const char *cell) {
    const char *parts = text_of(study, section, "cells");
    char part[ICL_STUDY_TEXT];
    bool is_named = parts[0] == '\0';

    while (!is_named && icl_study_next_value(&parts, part))
        is_named = strstr(cell, part) != NULL;
    return is_named && is_at(study, section);
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

/* Gives a recipe the settings of a section, and of that for the present scale. */
static icl_status set_all(const icl_study *study, const char *section, icl_recipe *recipe, icl_error *error) {
    const icl_study_file *file = file_of(study);
    const icl_study_section *at =
        icl_study_section_find(file, ICL_PHRASE("%s %s", section, icl_scale_name(study->scale)));

    ICL_CHECK(icl_grid_set(file->values, section, recipe, error));
    return at ? icl_grid_set(file->values, at->name, recipe, error) : ICL_OK;
}

/* Returns the name of the section [settings NAME]; NULL if there is none. */
static const char *shared_section(const icl_study *study, const char *name) {
    const icl_study_section *shared = icl_study_section_find(file_of(study), ICL_PHRASE("settings %s", name));
    return shared ? shared->name : NULL;
}

/* Gives a cell's recipe the settings of the sections that a key of its section names. */
static icl_status set_shared(const icl_study *study, const char *section, icl_recipe *recipe, icl_error *error) {
    const char *rest = text_of(study, section, "settings");
    char name[ICL_STUDY_TEXT];

    while (icl_study_next_value(&rest, name)) {
        if (!shared_section(study, name))
            return icl_recipe_reject(file_of(study)->values, section, "settings", error,
                                     "names of sections [settings NAME]");
        ICL_CHECK(set_all(study, shared_section(study, name), recipe, error));
    }
    return ICL_OK;
}

/* The sections that a cell comes from: [cell NAME]; or two [settings A] and [settings B] whose cell is A-B; NULL for a
 * cell of the grid. */
typedef struct cell_origin {
    const char *sections[2];
} cell_origin;

static cell_origin origin_of(const icl_study *study, const char *name) {
    const icl_study_section *own = icl_study_section_find(file_of(study), ICL_PHRASE("cell %s", name));
    cell_origin origin = {{own ? own->name : NULL, NULL}};

    for (const char *dash = strchr(name, '-'); !origin.sections[1] && dash; dash = strchr(dash + 1, '-')) {
        const char *one = shared_section(study, ICL_PHRASE("%.*s", (int)(dash - name), name));
        const char *other = shared_section(study, dash + 1);
        if (!own && one && other)
            origin = (cell_origin){{one, other}};
    }
    return origin;
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
    ICL_CHECK(icl_recipe_clone(recipe, changed, error));
    return set_all(study, ICL_PHRASE("eval %s", name), *changed, error);
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
} planned_cell;

static icl_status reject(const planned_cell *cell, icl_error *error, const char *expected) {
    return icl_recipe_reject(file_of(cell->study)->values, place_of(cell->study, cell->section, cell->key), cell->key,
                             error, "%s", expected);
}

/* Checks that the cell gives a number that the section names. */
static icl_status check_number(void *user, const char *other, const char *name, icl_number *ignored, icl_error *error) {
    const planned_cell *cell = user;
    const icl_study_file *file = file_of(cell->study);
    const size_t number = icl_study_numbers_find(&file->numbers, name);
    const char *evaluation = icl_study_numbers_evaluation(&file->numbers, number);
    icl_recipe *changed = NULL;
    icl_task *task = NULL;
    icl_error reason = {0};
    icl_status status = ICL_OK;
    size_t size = 0;

    *ignored = (icl_number){0, 0};
    if (other ? strcmp(other, cell->name) != 0 : !cell->is_named)
        return ICL_OK;
    if (evaluation[0])
        ICL_TRY(make_evaluation(cell->study, evaluation, cell->recipe, &changed, error));
    ICL_TRY(try_recipe(changed ? changed : cell->recipe, &task, &size, error));
    if (size != cell->parameters)
        ICL_TRY(
            reject(cell, error,
                   ICL_PHRASE("an evaluation of a model of %zu parameters; that one has %zu", cell->parameters, size)));
    status = icl_study_numbers_check(&file->numbers, number, task, changed ? changed : cell->recipe, &reason);
    if (status == ICL_ERROR_INPUT)
        status = reject(cell, error, reason.message);
    else if (status != ICL_OK)
        status = icl_fail(error, status, "%s", reason.message);
done:
    icl_task_destroy(&task);
    icl_recipe_destroy(&changed);
    return status;
}

static icl_status check_value(void *user, const char *key, const char *expression, icl_error *error) {
    icl_number ignored;

    ((planned_cell *)user)->key = key;
    return icl_study_value_read(expression, check_number, user, &ignored, error);
}

/* The place of a cell on a figure's axis: an expression of keys, and of the position. */
typedef struct axis {
    const icl_recipe *recipe;
    double position;
} axis;

static icl_status take_place(void *user, const char *other, const char *name, icl_number *number, icl_error *error) {
    const axis *at = user;

    (void)other;
    *number = (icl_number){at->position, 0};
    if (strcmp(name, "position") == 0 || find_place(at->recipe, name, &number->value))
        return ICL_OK;
    return icl_fail(error, ICL_ERROR_INPUT, "a key whose values are numbers");
}

/* Refuses a check or figure that asks this cell for a number that it does not have. */
static icl_status check_numbers(const icl_study *study, const char *name, const icl_recipe *recipe, size_t parameters,
                                icl_error *error) {
    const icl_study_file *file = file_of(study);

    for (size_t i = 0; i < file->count; i++) {
        const char *section = file->sections[i].name;
        const bool is_figure = icl_study_name_in(section, "figure");
        if ((!is_figure && !icl_study_name_in(section, "check")) || !is_at(study, section))
            continue;
        planned_cell cell = {study, name, recipe, parameters, section, is_about(study, section, name), "x"};
        axis at = {recipe, 0};
        icl_number place;
        icl_error reason = {0};
        ICL_CHECK(icl_study_each_value(file, study->scale, section, check_value, &cell, error));
        cell.key = "x";
        if (cell.is_named && is_figure &&
            icl_study_value_read(text_of(study, section, "x"), take_place, &at, &place, &reason) != ICL_OK)
            return reject(&cell, error, reason.message);
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

/* Finds the training that one with this many parameters begins with; NULL if its section names none. */
static icl_status find_before(const icl_study *study, const char *section, size_t number, size_t size,
                              const icl_study_cell **before, icl_error *error) {
    const char *name = section && icl_study_name_in(section, "cell") ? text_of(study, section, "begins_with") : "";
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

/* Writes the settings that follow the seed of a training: "task.pool_seed=1". */
static icl_phrase write_seeded(const icl_study *study, uint32_t seed) {
    const char *rest = text_of(study, "study", "seeded");
    char key[ICL_STUDY_TEXT];
    icl_phrase settings = {""};

    while (icl_study_next_value(&rest, key))
        settings = icl_phrase_print("%s %s=%" PRIu32, settings.text, key, seed);
    return settings;
}

/* Returns what the sections of a cell say under a key, joined by commas. */
static icl_phrase join_texts(const icl_study *study, const cell_origin *origin, const char *key) {
    icl_phrase joined = {""};

    for (size_t i = 0; i < 2 && origin->sections[i]; i++) {
        const char *text = text_of(study, origin->sections[i], key);
        joined = icl_phrase_print("%s%s%s", joined.text, joined.text[0] && text[0] ? ", " : "", text);
    }
    return joined;
}

/* Adds the trainings of one point, one for each seed. */
static icl_status add_trainings(icl_study *study, const char *name, size_t size, icl_recipe *recipe, icl_error *error) {
    const icl_recipe_key seed_key = {.section = "train", .name = "seed"};
    const cell_origin origin = origin_of(study, name);
    const icl_phrase curve = join_texts(study, &origin, "curve");
    const size_t seeds = count_seeds(study);
    const bool is_fixed = is_of_file(study, recipe, &seed_key);
    const uint32_t fixed = (uint32_t)icl_train_keys_read(recipe).seed;
    bool is_untrained = false;

    if (is_fixed && seeds > 1)
        return icl_recipe_reject(recipe, ICL_TRAIN_KEY(seed), error, "it or seeds = %zu in [study], not both", seeds);
    for (size_t i = 0; i < 2 && origin.sections[i]; i++)
        is_untrained = is_untrained || icl_recipe_flag(file_of(study)->values, origin.sections[i], "untrained");
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
    const char *name = text_of(study, section, "recipe");
    const icl_study_file *file = file_of(study);
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
    const icl_study_file *file = file_of(all->study);
    icl_recipe *recipe = NULL;
    icl_status status = ICL_OK;

    if (!is_at(all->study, section))
        return ICL_OK;
    if (icl_study_find(all->study, name))
        return icl_fail(error, ICL_ERROR_INPUT, "%s:%zu: [%s]: expected a name that no cell of the grid has",
                        file->path, in->line, section);
    ICL_TRY(load_recipe(all->study, text_of(all->study, section, "recipe")[0] ? section : "study", &recipe, error));
    ICL_TRY(set_shared(all->study, section, recipe, error));
    ICL_TRY(set_all(all->study, section, recipe, error));
    ICL_TRY(plan_cell(all, name, recipe, error));
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
    ICL_TRY(plan_cell(all, name[0] ? name : file_of(all->study)->name, recipe, error));
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

/* ---- Cells of two lists of settings ---- */

static icl_status plan_pair(planning *all, const char *name, icl_error *error) {
    const cell_origin origin = origin_of(all->study, name);
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
    const char *ones = text_of(study, "cells", "settings");
    char one[ICL_STUDY_TEXT], other[ICL_STUDY_TEXT];

    while (icl_study_next_value(&ones, one)) {
        const char *others = text_of(study, "cells", "by");
        while (icl_study_next_value(&others, other)) {
            const char *key = shared_section(study, one) ? "by" : "settings";
            if (!shared_section(study, one) || !shared_section(study, other))
                return icl_recipe_reject(file_of(study)->values, place_of(study, "cells", key), key, error,
                                         "names of sections [settings NAME]");
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
        return icl_recipe_reject(file_of(study)->values, place_of(study, all->section, all->key), all->key, error,
                                 "a cell's name before the colon; the nearest to %s is %s", name,
                                 nearest_cell(study, name));
    for (size_t i = 0; i < study->count; i++)
        for (size_t k = 0; k < study->count && is_about(study, all->section, study->cells[i]->name); k++)
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
    const char *text = text_of(study, section, key);
    char name[ICL_STUDY_NAME];
    double value;

    for (const char *rest = icl_study_target_read(text).kind == ICL_TARGET_TABLE ? text : NULL;
         rest && icl_study_target_row(&rest, name, &value);)
        if (!icl_study_find(study, name) && !origin_of(study, name).sections[0]) /* other scales may have it */
            return icl_recipe_reject(file_of(study)->values, place_of(study, section, key), key, error,
                                     "a cell's name before the colon; the nearest to %s is %s", name,
                                     nearest_cell(study, name));
    return ICL_OK;
}

/* Checks that a check or a figure applies to some cell. */
static icl_status check_cells(const icl_study *study, const char *section, icl_error *error) {
    for (size_t i = 0; i < study->count; i++)
        if (is_about(study, section, study->cells[i]->name))
            return ICL_OK;
    return icl_recipe_reject(file_of(study)->values, place_of(study, section, "cells"), "cells", error,
                             "a part of a cell's name, such as %s", study->cells[0]->name);
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
        planned_section all = {study, section, NULL};
        ICL_CHECK(check_table(study, section, is_check ? "target" : "expected", error));
        if (is_figure)
            ICL_CHECK(check_table(study, section, "published", error));
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
    const icl_study_file *file = file_of(study);

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
static icl_phrase what_of(const icl_study *study, const char *cell) {
    const cell_origin origin = origin_of(study, cell);
    const icl_phrase what = join_texts(study, &origin, "what");

    return what.text[0] ? what : icl_phrase_print("%s", cell);
}

/* An expression that is computed for a point: by the means over its seeds, or by the numbers of one of them. */
typedef struct asked_value {
    const icl_study *study;
    const icl_study_cell *cell;
    bool is_of_seed;
    bool has_other, has_itself; /* it names other points, or this one behind its name */
    bool has_predictor;         /* it names numbers of reference predictors */
} asked_value;

static icl_status take_number(void *user, const char *other, const char *name, icl_number *number, icl_error *error) {
    asked_value *asked = user;
    const icl_study_cell *cell = other ? icl_study_find(asked->study, other) : asked->cell;
    const size_t index = icl_study_numbers_find(&file_of(asked->study)->numbers, name);

    (void)error;
    asked->has_predictor = asked->has_predictor || strchr(strchr(name, '/') ? strchr(name, '/') : name, '.');
    asked->has_other = asked->has_other || other;
    asked->has_itself = asked->has_itself || (other && strcmp(other, asked->cell->name) == 0);
    *number = asked->is_of_seed && !other ? cell->numbers[index] : icl_over_seeds(asked->study, cell, index);
    return ICL_OK;
}

static icl_number compute(asked_value *asked, const char *expression) {
    icl_number value = {(double)NAN, 0};

    (void)icl_study_value_read(expression, take_number, asked, &value, NULL);
    return value;
}

static icl_number value_of_seed(const icl_study *study, const icl_study_cell *cell, const char *expression) {
    return compute(&(asked_value){.study = study, .cell = cell, .is_of_seed = true}, expression);
}

/* Computes an expression for a point. One of its own numbers is a mean over seeds with its standard error. */
static icl_number value_over_seeds(const icl_study *study, const icl_study_cell *cell, const char *expression) {
    asked_value asked = {.study = study, .cell = cell};
    const icl_number of_means = compute(&asked, expression);
    double *values = study->frame->scratch;
    size_t count = 0;

    for (size_t i = 0; i < study->count && !asked.has_other; i++)
        if (strcmp(study->cells[i]->name, cell->name) == 0)
            values[count++] = value_of_seed(study, study->cells[i], expression).value;
    return count < 2 ? of_means : (icl_number){icl_mean(values, count), icl_standard_error(values, count)};
}

/* A check at one point: the seeds' mean, or a seed. */
typedef struct judged {
    icl_study *study;
    const char *section;
    const icl_study_cell *cell;
    bool is_of_seed;
} judged;

static icl_number judged_value(const judged *at, const char *expression) {
    return (at->is_of_seed ? value_of_seed : value_over_seeds)(at->study, at->cell, expression);
}

/* Finds a table's value for a cell; false if it has none. */
static bool find_row(const char *table, const char *cell, double *value) {
    char name[ICL_STUDY_NAME];

    while (table && icl_study_target_row(&table, name, value))
        if (strcmp(name, cell) == 0)
            return true;
    return false;
}

static icl_number find_target(const icl_study *study, const icl_study_cell *cell, const char *text, bool is_of_seed) {
    const icl_study_target target = icl_study_target_read(text);
    icl_number row = {target.value, 0};

    if (target.kind == ICL_TARGET_TABLE && !find_row(text, cell->name, &row.value))
        row.value = (double)NAN;
    if (target.kind == ICL_TARGET_VALUE)
        return (is_of_seed ? value_of_seed : value_over_seeds)(study, cell, text);
    return row;
}

/* Writes a text with the values of the expressions in its braces, to four digits; {what} is the point's name, and
 * {seed} the training's seed. */
static icl_phrase write_text(const judged *at, const char *text) {
    char before[ICL_STUDY_TEXT], value[ICL_STUDY_TEXT];
    icl_phrase written = {""};
    bool has_more = true;

    while (has_more) {
        has_more = icl_study_next_braced(&text, before, value);
        written = icl_phrase_print("%s%s", written.text, before);
        if (!has_more)
            break;
        written =
            strcmp(value, "what") == 0 ? icl_phrase_print("%s%s", written.text, what_of(at->study, at->cell->name).text)
            : strcmp(value, "seed") == 0 ? icl_phrase_print("%s%" PRIu32, written.text, at->cell->seed)
                                         : icl_phrase_print("%s%.4g", written.text, judged_value(at, value).value);
    }
    return written;
}

/* Writes the note of the file, or else that several seeds were averaged; if some seeds gave no number, that comes
 * first. */
static icl_phrase write_note(const judged *at) {
    const icl_study *study = at->study;
    const char *note = text_of(study, at->section, "note"), *number = text_of(study, at->section, "number");
    size_t seeds = 0, lost = 0;

    for (size_t i = 0; i < study->count && !at->is_of_seed; i++)
        if (strcmp(study->cells[i]->name, at->cell->name) == 0) {
            seeds++;
            lost += !isfinite(value_of_seed(study, study->cells[i], number).value);
        }
    if (lost > 0)
        return icl_phrase_print("%zu of %zu seeds gave no finite number", lost, seeds);
    return note[0] || seeds < 2 ? write_text(at, note) : icl_phrase_print("mean of %zu seeds", seeds);
}

static void judge_at(const judged *at) {
    icl_study *study = at->study;
    const char *section = at->section, *target = text_of(study, section, "target");
    const char *quantity = text_of(study, section, "quantity"), *source = text_of(study, section, "source");
    const char *what = text_of(study, section, "what");
    const icl_recipe *values = file_of(study)->values;
    const icl_number ours = judged_value(at, text_of(study, section, "number"));
    const icl_number expected = find_target(study, at->cell, target, at->is_of_seed);
    const icl_phrase note = write_note(at), name = write_text(at, what[0] ? what : "{what}");
    icl_study_tolerance tolerance;

    icl_study_tolerance_read(text_of(study, section, "tolerance"), &tolerance);
    ICL_JUDGE(study, .what = name.text, .quantity = quantity[0] ? quantity : icl_study_name_in(section, "check"),
              ICL_OURS(ours), .target = expected.value,
              .tolerance = tolerance.absolute + tolerance.relative * fabs(expected.value) +
                           tolerance.errors * hypot(ours.standard_error, expected.standard_error),
              .criterion = (icl_criterion)icl_recipe_choice(values, place_of(study, section, "criterion"), "criterion"),
              .evidence = (icl_evidence)icl_recipe_choice(values, place_of(study, section, "evidence"), "evidence"),
              .source = source[0]   ? source
                        : target[0] ? target
                                    : NULL,
              .note = note.text[0] ? note.text : NULL);
}

static void judge_check(icl_study *study, const char *section, const icl_study_cell *cell) {
    const icl_study_seeds seeds =
        (icl_study_seeds)icl_recipe_choice(file_of(study)->values, place_of(study, section, "seeds"), "seeds");

    if (seeds == ICL_STUDY_MEAN)
        judge_at(&(judged){study, section, cell, false});
    for (size_t i = 0; i < study->count && seeds != ICL_STUDY_MEAN; i++) {
        if (strcmp(study->cells[i]->name, cell->name) != 0)
            continue;
        judge_at(&(judged){study, section, study->cells[i], true});
        if (seeds == ICL_STUDY_FIRST)
            return;
    }
}

static icl_status look_for_others(void *user, const char *key, const char *expression, icl_error *error) {
    (void)key, (void)error;
    (void)compute(user, expression);
    return ICL_OK;
}

/* Judges the checks of a point. Checks that name other points wait until these are measured: they are judged if
 * `is_last`, and not at a point that they name. */
static void judge_point(icl_study *study, const icl_study_cell *cell, bool is_last) {
    const icl_study_file *file = file_of(study);

    for (size_t i = 0; i < file->count; i++) {
        const char *section = file->sections[i].name;
        if (!icl_study_name_in(section, "check") || !is_about(study, section, cell->name))
            continue;
        const char *text = text_of(study, section, "target");
        asked_value asked = {.study = study, .cell = cell};
        (void)icl_study_each_value(file, study->scale, section, look_for_others, &asked, NULL);
        if (asked.has_other != is_last || asked.has_itself ||
            (icl_study_target_read(text).kind == ICL_TARGET_TABLE &&
             isnan(find_target(study, cell, text, false).value)))
            continue;
        judge_check(study, section, cell);
    }
}

static void judge(icl_study *study, const icl_study_cell *cell) {
    judge_point(study, cell, false);
}

/* ---- Figures ---- */

/* Returns the label of the cell's curves in a figure: the value of the figure's key, or the cell's own. */
static icl_phrase curve_of(const icl_study *study, const char *section, const icl_study_cell *cell) {
    const char *key = text_of(study, section, "curves");

    return key[0] ? icl_phrase_print("%s = %s", key, value_of(cell->complete, key))
                  : icl_phrase_print("%s", cell->curve ? cell->curve : "");
}

/* Joins the label of a curve and of what it shows. */
static icl_phrase join(const char *curve, const char *shown) {
    return icl_phrase_print("%s%s%s", curve, curve[0] && shown[0] ? ", " : "", shown);
}

static double place_on(const icl_study *study, const char *section, const icl_study_cell *cell, double position) {
    icl_number place = {(double)NAN, 0};
    axis at = {cell->complete, position};

    (void)icl_study_value_read(text_of(study, section, "x"), take_place, &at, &place, NULL);
    return place.value;
}

/* Adds one number of the figure at one place; numbers of predictors are references. */
static icl_status add_number(const icl_study *study, const icl_study_cell *cell, const char *label,
                             const char *expression, double place, bool is_line, icl_curves *curves, icl_error *error) {
    asked_value asked = {.study = study, .cell = cell, .is_of_seed = true};
    const icl_number number = compute(&asked, expression);

    return icl_curves_add(curves, label,
                          asked.has_predictor ? ICL_SERIES_REFERENCE
                          : is_line           ? ICL_SERIES_LINE
                                              : ICL_SERIES_OURS,
                          place, number.value, error);
}

/* Adds the numbers of a figure, at all of its positions. */
static icl_status add_numbers(const icl_study *study, const char *section, const icl_study_cell *cell,
                              icl_curves *curves, icl_error *error) {
    const char *rest = text_of(study, section, "number"), *labels = text_of(study, section, "labels");
    const icl_phrase curve = curve_of(study, section, cell);
    char one[ICL_STUDY_TEXT], label[ICL_STUDY_TEXT], value[ICL_STUDY_TEXT];
    icl_list positions = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_study_positions(file_of(study), study->scale, section, &positions, error));
    while (icl_study_next_value(&rest, one)) {
        const bool is_labelled = icl_study_next_value(&labels, label);
        const icl_phrase name = join(curve.text, is_labelled ? label : curve.text[0] ? "" : one);
        if (positions.count == 0)
            ICL_TRY(add_number(study, cell, name.text, one, place_on(study, section, cell, 0), false, curves, error));
        for (size_t i = 0; i < positions.count; i++) {
            const double place = place_on(study, section, cell, strtod(positions.values[i], NULL));
            icl_study_put_position(one, positions.values[i], value);
            ICL_TRY(add_number(study, cell, name.text, value, place, true, curves, error));
        }
    }
done:
    icl_list_clear(&positions);
    return status;
}

/* Adds what is expected or published beside a cell, once for all seeds, if the cell has it. */
static icl_status add_known(const icl_study *study, const char *section, const char *key, const icl_study_cell *cell,
                            icl_curves *curves, icl_error *error) {
    const char *text = text_of(study, section, key), *own = text_of(study, section, "expected_label");
    const bool is_expected = icl_study_target_read(text).kind == ICL_TARGET_VALUE;
    const double value = find_target(study, cell, text, false).value;
    const char *shown = !is_expected ? "published" : own[0] ? own : text;

    if (text[0] == '\0' || (!is_expected && isnan(value)) || find_training(study, cell->name, 0) != cell)
        return ICL_OK;
    return icl_curves_add(curves, join(curve_of(study, section, cell).text, shown).text,
                          is_expected ? ICL_SERIES_REFERENCE : ICL_SERIES_PUBLISHED, place_on(study, section, cell, 0),
                          value, error);
}

static icl_status draw_figure(icl_study *study, const char *section, icl_error *error) {
    const icl_recipe *values = file_of(study)->values;
    const char *number = text_of(study, section, "number"), *x = text_of(study, section, "x");
    const char *title = text_of(study, section, "title"), *x_label = text_of(study, section, "x_label");
    const char *y_label = text_of(study, section, "y_label");
    const icl_phrase by = icl_phrase_print("%s by %s", number, x);
    icl_curves curves = {
        .figure = {.name = icl_study_name_in(section, "figure"),
                   .title = title[0] ? title : by.text,
                   .x_label = x_label[0] ? x_label : x,
                   .y_label = y_label[0] ? y_label : number,
                   .log_x = icl_recipe_flag(values, place_of(study, section, "log_x"), "log_x"),
                   .log_y = icl_recipe_flag(values, place_of(study, section, "log_y"), "log_y"),
                   .least_y = icl_recipe_number(values, place_of(study, section, "least_y"), "least_y")}};
    icl_status status = ICL_OK;

    for (size_t i = 0; i < study->count; i++) {
        const icl_study_cell *cell = study->cells[i];
        if (!cell->is_wanted || !is_about(study, section, cell->name))
            continue;
        ICL_TRY(add_numbers(study, section, cell, &curves, error));
        ICL_TRY(add_known(study, section, "expected", cell, &curves, error));
        ICL_TRY(add_known(study, section, "published", cell, &curves, error));
    }
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
