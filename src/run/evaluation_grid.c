/* Evaluation grids: their keys and values, and the evaluation of every cell. */
#include "run/evaluation_grid.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/recipe_store.h"
#include "iclab/run.h"
#include "iclab/text.h"
#include "run/sweep/grid.h"

/* The beginning of messages about a value. */
#define ORIGIN "--over"

struct icl_evaluation_grid {
    icl_recipe *base;
    icl_axis axes[ICL_EVALUATION_GRID_AXES];
    size_t axis_count, cells;
    icl_evaluation **evaluations; /* [cells] */
    const char **predictors;      /* [predictor_count]: names within the evaluations */
    size_t predictor_count, predictor_capacity;
};

/* ---- Texts of keys and values ---- */

/* Returns the bytes of "section.key=" at the beginning of the text, blanks before the sign included; 0 if it begins
 * otherwise. */
static size_t key_length(const char *text) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    const size_t section = strspn(text, letters);
    size_t length;

    if (section == 0 || text[section] != '.')
        return 0;
    length = section + 1 + strspn(text + section + 1, letters);
    length += strspn(text + length, " \t");
    return text[length] == '=' ? length + 1 : 0;
}

/* Finds the comma, outside of quotes, after which another key begins, or else the end of the text. */
static const char *find_end(const char *text) {
    bool is_quoted = false;

    for (; *text != '\0'; text++) {
        is_quoted = is_quoted != (*text == '"');
        if (!is_quoted && *text == ',' && key_length(text + 1 + strspn(text + 1, " \t")) > 0)
            break;
    }
    return text;
}

/* ---- Axes ---- */

/* Only the loops of [model] can change, because a looped model may run more loops than it was trained with. */
static bool can_change(const icl_recipe_key *key) {
    return strcmp(key->section, "train") != 0 &&
           (strcmp(key->section, "model") != 0 || strcmp(key->name, "loops") == 0);
}

/* Finds the key with which the text begins; it takes `length` bytes, its sign included. */
static icl_status find_key(const icl_evaluation_grid *grid, const char *text, size_t length, const icl_recipe_key **key,
                           icl_error *error) {
    const size_t section = strcspn(text, "."), end = section + 1 + strcspn(text + section + 1, " \t=");
    char names[2][ICL_AXIS_NAME];
    icl_status status = ICL_OK;
    icl_recipe *scratch = NULL;
    size_t index, count;

    if (length > ICL_AXIS_NAME)
        return icl_fail(error, ICL_ERROR_INPUT, ORIGIN " %.*s: expected section.key=VALUE,VALUE,...", (int)end, text);
    snprintf(names[0], sizeof names[0], "%.*s", (int)section, text);
    snprintf(names[1], sizeof names[1], "%.*s", (int)(end - section - 1), text + section + 1);
    index = icl_recipe_find(grid->base, names[0], names[1]);
    *key = &icl_recipe_keys(grid->base, &count)[index];
    if (index == count) { /* names the nearest key */
        ICL_TRY(icl_recipe_clone(grid->base, &scratch, error));
        ICL_TRY(icl_recipe_set(scratch, names[0], names[1], "", ORIGIN, error));
    }
    if (!can_change(*key))
        ICL_TRY(icl_fail(error, ICL_ERROR_INPUT,
                         ORIGIN " %s.%s: the run was trained with it: expected a key of [task] or [eval], or "
                                "model.loops (iclab sweep trains a model for each value)",
                         names[0], names[1]));
done:
    icl_recipe_destroy(&scratch);
    return status;
}

/* Reads one key and its values, `length` bytes of the text. */
static icl_status read_axis(icl_evaluation_grid *grid, const char *text, size_t length, icl_error *error) {
    const size_t key = key_length(text);
    icl_axis *axis = &grid->axes[grid->axis_count];
    icl_error reason = {0};
    icl_status status = ICL_OK;
    icl_text values = {0};

    if (grid->axis_count == ICL_EVALUATION_GRID_AXES)
        return icl_fail(error, ICL_ERROR_INPUT, ORIGIN " %.*s: expected one key or two", (int)key - 1, text);
    grid->axis_count++;
    ICL_TRY(find_key(grid, text, key, &axis->key, error));
    snprintf(axis->name, sizeof axis->name, "%s.%s", axis->key->section, axis->key->name);
    for (const icl_axis *other = grid->axes; other < axis; other++)
        if (other->key == axis->key)
            ICL_TRY(icl_fail(error, ICL_ERROR_INPUT, ORIGIN " %s: expected every key once", axis->name));
    ICL_TRY(icl_duplicate(ORIGIN, &axis->origin, error));
    ICL_TRY(icl_text_print(&values, error, "%.*s", (int)(length - key), text + key)); /* also if there are none */
    status = icl_list_parse(values.bytes, &axis->list, &reason);
    if (status != ICL_OK)
        ICL_TRY(icl_fail(error, status, ORIGIN " %s=%s: %s", axis->name, values.bytes, reason.message));
    ICL_TRY(icl_axis_check(grid->base, axis, "", error));
done:
    icl_text_release(&values);
    return status;
}

static icl_status read_text(icl_evaluation_grid *grid, const char *text, icl_error *error) {
    text += strspn(text, " \t");
    if (key_length(text) == 0)
        return icl_fail(error, ICL_ERROR_INPUT, ORIGIN " %s: expected section.key=VALUE,VALUE,...", text);
    for (;;) {
        const char *end = find_end(text);
        ICL_CHECK(read_axis(grid, text, (size_t)(end - text), error));
        if (*end == '\0')
            return ICL_OK;
        text = end + 1 + strspn(end + 1, " \t");
    }
}

/* ---- Life ---- */

icl_status icl_evaluation_grid_create(const icl_recipe *recipe, const char *const *texts, size_t count,
                                      icl_evaluation_grid **grid, icl_error *error) {
    icl_status status = ICL_OK;
    icl_evaluation_grid *created = NULL;

    ICL_TRY(icl_allocate(1, sizeof *created, "evaluation grid", &created, error));
    ICL_TRY(icl_recipe_clone(recipe, &created->base, error));
    for (size_t i = 0; i < count; i++)
        ICL_TRY(read_text(created, texts[i], error));
    created->cells = 1;
    for (size_t i = 0; i < created->axis_count; i++)
        created->cells *= created->axes[i].list.count;
    if (created->axis_count == 0 || created->cells > ICL_EVALUATION_GRID_CELLS)
        ICL_TRY(icl_fail(error, ICL_ERROR_INPUT, ORIGIN ": %zu cells: expected 1 to %d",
                         created->axis_count > 0 ? created->cells : 0, ICL_EVALUATION_GRID_CELLS));
    ICL_TRY(icl_allocate(created->cells, sizeof(icl_evaluation *), "evaluations", &created->evaluations, error));
    *grid = created;
    created = NULL;
done:
    icl_evaluation_grid_destroy(&created);
    return status;
}

void icl_evaluation_grid_destroy(icl_evaluation_grid **grid) {
    icl_evaluation_grid *old = *grid;

    if (!old)
        return;
    for (size_t i = 0; i < old->axis_count; i++)
        icl_axis_clear(&old->axes[i]);
    for (size_t i = 0; old->evaluations && i < old->cells; i++)
        icl_evaluation_destroy(&old->evaluations[i]);
    icl_free(&old->evaluations);
    icl_free(&old->predictors);
    icl_recipe_destroy(&old->base);
    icl_free(grid);
}

/* ---- What it holds ---- */

size_t icl_evaluation_grid_cells(const icl_evaluation_grid *grid) {
    return grid->cells;
}

size_t icl_evaluation_grid_axes(const icl_evaluation_grid *grid) {
    return grid->axis_count;
}

const char *icl_evaluation_grid_axis(const icl_evaluation_grid *grid, size_t axis) {
    return grid->axes[axis].name;
}

size_t icl_evaluation_grid_values(const icl_evaluation_grid *grid, size_t axis) {
    return grid->axes[axis].list.count;
}

const char *icl_evaluation_grid_value(const icl_evaluation_grid *grid, size_t cell, size_t axis) {
    assert(cell < grid->cells && axis < grid->axis_count);
    for (size_t i = grid->axis_count; i-- > axis + 1;)
        cell /= grid->axes[i].list.count;
    return grid->axes[axis].list.values[cell % grid->axes[axis].list.count];
}

icl_status icl_evaluation_grid_name(const icl_evaluation_grid *grid, char **name, icl_error *error) {
    const bool is_alike = grid->axis_count == 2 && strcmp(grid->axes[0].key->name, grid->axes[1].key->name) == 0;
    icl_status status = ICL_OK;
    icl_text text = {0};

    for (size_t i = 0; i < grid->axis_count; i++)
        ICL_TRY(icl_text_print(&text, error, "%s%s", i > 0 ? "_" : "",
                               is_alike ? grid->axes[i].name : grid->axes[i].key->name));
    ICL_TRY(icl_duplicate(text.bytes, name, error));
done:
    icl_text_release(&text);
    return status;
}

static icl_status create_recipe(const icl_evaluation_grid *grid, size_t cell, icl_recipe **recipe, icl_error *error) {
    icl_status status = ICL_OK;
    icl_recipe *created = NULL;

    ICL_TRY(icl_recipe_clone(grid->base, &created, error));
    for (size_t axis = 0; axis < grid->axis_count; axis++)
        ICL_TRY(icl_recipe_set(created, grid->axes[axis].key->section, grid->axes[axis].key->name,
                               icl_evaluation_grid_value(grid, cell, axis), ORIGIN, error));
    *recipe = created;
    created = NULL;
done:
    icl_recipe_destroy(&created);
    return status;
}

/* ---- Evaluation ---- */

/* A recipe may have a key that nothing reads, at its default; as an axis such a key would change nothing. */
static icl_status check_keys(const icl_evaluation_grid *grid, const icl_recipe *recipe, icl_error *error) {
    for (size_t axis = 0; axis < grid->axis_count; axis++) {
        const icl_recipe_key *key = grid->axes[axis].key;
        ICL_CHECK(icl_recipe_check(recipe, key->section, error));
        if (!icl_recipe_is_used(recipe, key->section, key->name))
            return icl_fail(error, ICL_ERROR_INPUT,
                            ORIGIN " %s: nothing reads it with task.family = %s: expected a key that it reads",
                            grid->axes[axis].name, icl_recipe_value(recipe, "task", "family"));
    }
    return ICL_OK;
}

static icl_status name_cell(const icl_evaluation_grid *grid, size_t cell, icl_status status, const icl_error *reason,
                            icl_error *error) {
    const bool both = grid->axis_count > 1;
    return icl_fail(error, status, "cell %s=%s%s%s%s%s: %s", grid->axes[0].name,
                    icl_evaluation_grid_value(grid, cell, 0), both ? ", " : "", both ? grid->axes[1].name : "",
                    both ? "=" : "", both ? icl_evaluation_grid_value(grid, cell, 1) : "", reason->message);
}

/* Evaluates a cell or, if `evaluation` is NULL, checks that it can be evaluated. */
static icl_status evaluate_cell(const icl_evaluation_grid *grid, const icl_evaluation_grid_params *params, size_t cell,
                                icl_evaluation **evaluation, icl_error *error) {
    icl_error reason = {0};
    icl_status status = ICL_OK;
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = NULL;

    ICL_TRY(create_recipe(grid, cell, &recipe, &reason));
    ICL_TRY(check_keys(grid, recipe, &reason));
    ICL_TRY(icl_trained_load(params->backend, params->folder, recipe, &trainer, &reason));
    ICL_TRY(evaluation ? icl_evaluate(params->backend, trainer, recipe, evaluation, &reason)
                       : icl_evaluation_check(trainer, recipe, &reason));
done:
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
    return status == ICL_OK ? ICL_OK : name_cell(grid, cell, status, &reason, error);
}

static icl_status add_predictors(icl_evaluation_grid *grid, const icl_evaluation *evaluation, icl_error *error) {
    for (size_t i = 0; i < evaluation->count; i++) {
        size_t known = 0;
        while (known < grid->predictor_count && strcmp(grid->predictors[known], evaluation->scores[i].predictor) != 0)
            known++;
        if (known < grid->predictor_count)
            continue;
        ICL_CHECK(icl_grow(&grid->predictors, grid->predictor_count, &grid->predictor_capacity,
                           sizeof *grid->predictors, "names of predictors", error));
        grid->predictors[grid->predictor_count++] = evaluation->scores[i].predictor;
    }
    return ICL_OK;
}

icl_status icl_evaluation_grid_run(icl_evaluation_grid *grid, const icl_evaluation_grid_params *params,
                                   icl_error *error) {
    assert(!grid->evaluations[0] && "a grid is run once");
    for (size_t cell = 0; cell < grid->cells; cell++)
        ICL_CHECK(evaluate_cell(grid, params, cell, NULL, error));
    for (size_t cell = 0; cell < grid->cells; cell++) {
        ICL_CHECK(evaluate_cell(grid, params, cell, &grid->evaluations[cell], error));
        ICL_CHECK(add_predictors(grid, grid->evaluations[cell], error));
        if (params->report)
            params->report(params->user, cell + 1, grid->cells);
    }
    return ICL_OK;
}

size_t icl_evaluation_grid_predictors(const icl_evaluation_grid *grid) {
    return grid->predictor_count;
}

const char *icl_evaluation_grid_predictor(const icl_evaluation_grid *grid, size_t predictor) {
    return grid->predictors[predictor];
}

const icl_score *icl_evaluation_grid_score(const icl_evaluation_grid *grid, size_t cell, size_t predictor) {
    const icl_evaluation *evaluation = grid->evaluations[cell];

    for (size_t i = 0; i < evaluation->count; i++)
        if (strcmp(evaluation->scores[i].predictor, grid->predictors[predictor]) == 0)
            return &evaluation->scores[i];
    return NULL;
}

uint64_t icl_evaluation_grid_sequences(const icl_evaluation_grid *grid) {
    for (size_t cell = 1; cell < grid->cells; cell++)
        if (grid->evaluations[cell]->sequences != grid->evaluations[0]->sequences)
            return 0;
    return grid->evaluations[0]->sequences;
}
