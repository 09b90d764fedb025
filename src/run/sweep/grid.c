/* The grid: a sweep's file, its axes, and the cells' names and recipes. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/hash.h"
#include "core/recipe_store.h"
#include "iclab/file.h"
#include "iclab/recipe.h"
#include "iclab/sweep.h"
#include "run/sweep/axis.h"

/* Longer names are cut, and end with a hash of the whole. */
#define NAME_LENGTH 160

struct icl_sweep {
    icl_recipe *base; /* the recipe with what [set] says */
    char *recipe_name;
    icl_axis *axes;
    size_t axis_count, cells;
};

/* ---- The file, as a recipe of another table of keys: [sweep] recipe, and every recipe key in [set]
 * and in [grid] ---- */

typedef struct sweep_file {
    icl_recipe_key *keys;
    char (*names)[ICL_AXIS_NAME]; /* of recipe keys, "task.d" */
    size_t key_count;
    icl_recipe *values;
} sweep_file;

static void close_file(sweep_file *file) {
    icl_recipe_destroy(&file->values);
    icl_free(&file->keys);
    icl_free(&file->names);
}

static icl_status read_file(const char *path, sweep_file *file, icl_error *error) {
    static const char *const sections[] = {"set", "grid"};
    size_t count = 0;

    while (icl_recipe_known_key(count))
        count++;
    ICL_CHECK(icl_allocate(2 * count + 1, sizeof *file->keys, "keys of a sweep", &file->keys, error));
    ICL_CHECK(icl_allocate(count, sizeof *file->names, "keys of a sweep", &file->names, error));
    file->keys[file->key_count++] = (icl_recipe_key){"sweep", "recipe", ICL_KEY_TEXT, "", 0, 0, NULL, ""};
    for (size_t i = 0; i < count; i++)
        snprintf(file->names[i], ICL_AXIS_NAME, "%s.%s", icl_recipe_known_key(i)->section,
                 icl_recipe_known_key(i)->name);
    for (size_t section = 0; section < 2; section++)
        for (size_t i = 0; i < count; i++)
            file->keys[file->key_count++] =
                (icl_recipe_key){sections[section], file->names[i], ICL_KEY_TEXT, "", 0, 0, NULL, ""};
    ICL_CHECK(icl_recipe_create(file->keys, file->key_count, &file->values, error));
    return icl_recipe_load(file->values, path, error);
}

/* Where the file sets a key, "FILE:LINE"; NULL where it does not. */
static const char *origin_of(const sweep_file *file, const char *section, const char *name) {
    const char *origin = icl_recipe_origin(file->values, section, name);
    return strcmp(origin, "default") == 0 ? NULL : origin;
}

/* ---- The base recipe ---- */

/* A file beside the sweep's own, or what iclab train finds by that name. */
static icl_status find_recipe(const char *sweep_path, const char *name, char **path, icl_error *error) {
    const char *file_name = icl_path_name(sweep_path);
    icl_status status = ICL_OK;
    char *folder = NULL;

    if (name[0] != '/' && file_name > sweep_path) {
        ICL_TRY(icl_duplicate(sweep_path, &folder, error));
        folder[file_name - sweep_path] = '\0';
        ICL_TRY(icl_path_join(folder, name, path, error));
        if (icl_path_exists(*path))
            goto done;
        icl_free(path);
    }
    status = icl_recipe_locate(name, path, error);
done:
    icl_free(&folder);
    return status;
}

static icl_status read_base(icl_sweep *sweep, const sweep_file *file, const char *sweep_path, icl_error *error) {
    const icl_recipe_key *known;
    icl_status status = ICL_OK;
    char *path = NULL;

    if (icl_recipe_text(file->values, "sweep", "recipe")[0] == '\0')
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s: no sweep.recipe: expected recipe = NAME, the recipe to sweep, in a section "
                        "[sweep]",
                        sweep_path);
    ICL_TRY(icl_duplicate(icl_recipe_text(file->values, "sweep", "recipe"), &sweep->recipe_name, error));
    ICL_TRY(find_recipe(sweep_path, sweep->recipe_name, &path, error));
    ICL_TRY(icl_recipe_create_complete(&sweep->base, error));
    ICL_TRY(icl_recipe_load(sweep->base, path, error));
    for (size_t i = 0; (known = icl_recipe_known_key(i)); i++) {
        const char *origin = origin_of(file, "set", file->names[i]);
        if (origin)
            ICL_TRY(icl_recipe_set(sweep->base, known->section, known->name,
                                   icl_recipe_text(file->values, "set", file->names[i]), origin, error));
    }
done:
    icl_free(&path);
    return status;
}

/* ---- Axes ---- */

static icl_status read_axis(icl_sweep *sweep, const sweep_file *file, const icl_recipe_key *key, const char *name,
                            icl_error *error) {
    const char *origin = origin_of(file, "grid", name), *fixed = origin_of(file, "set", name);
    icl_axis *axis = &sweep->axes[sweep->axis_count];
    icl_error reason = {0};
    icl_status status;

    if (!origin)
        return ICL_OK;
    sweep->axis_count++;
    axis->key = key;
    snprintf(axis->name, sizeof axis->name, "%s", name);
    ICL_CHECK(icl_duplicate(origin, &axis->origin, error));
    if (fixed)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: grid.%s: expected it here or in [set] (%s), not in both", origin,
                        name, fixed);
    status = icl_list_parse(icl_recipe_text(file->values, "grid", name), &axis->list, &reason);
    if (status != ICL_OK)
        return icl_fail(error, status, "%s: grid.%s = %s: %s", origin, name,
                        icl_recipe_text(file->values, "grid", name), reason.message);
    return icl_axis_check(sweep->base, axis, "grid.", error);
}

static bool is_seed(const icl_recipe_key *key) {
    return strcmp(key->section, "train") == 0 && strcmp(key->name, "seed") == 0;
}

static icl_status read_axes(icl_sweep *sweep, const sweep_file *file, const char *path, icl_error *error) {
    const icl_recipe_key *known;

    ICL_CHECK(icl_allocate(file->key_count / 2, sizeof *sweep->axes, "axes of a sweep", &sweep->axes, error));
    for (int seed = 0; seed < 2; seed++)
        for (size_t i = 0; (known = icl_recipe_known_key(i)); i++)
            if (is_seed(known) == (seed == 1))
                ICL_CHECK(read_axis(sweep, file, known, file->names[i], error));
    if (sweep->axis_count == 0)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s: no grid: expected at least one line such as model.layers = 1, 2 in a section "
                        "[grid]",
                        path);
    sweep->cells = 1;
    for (size_t i = 0; i < sweep->axis_count; i++) {
        sweep->cells *= sweep->axes[i].list.count;
        if (sweep->cells > ICL_SWEEP_MOST)
            ICL_CHECK(
                icl_fail(error, ICL_ERROR_INPUT, "%s: too many cells: expected at most %d", path, ICL_SWEEP_MOST));
    }
    return ICL_OK;
}

/* ---- Life ---- */

icl_status icl_sweep_load(const char *path, icl_sweep **sweep, icl_error *error) {
    icl_status status = ICL_OK;
    sweep_file file = {0};
    icl_sweep *made = NULL;

    ICL_TRY(icl_allocate(1, sizeof *made, "sweep", &made, error));
    ICL_TRY(read_file(path, &file, error));
    ICL_TRY(read_base(made, &file, path, error));
    ICL_TRY(read_axes(made, &file, path, error));
    *sweep = made;
    made = NULL;
done:
    close_file(&file);
    icl_sweep_destroy(&made);
    return status;
}

void icl_sweep_destroy(icl_sweep **sweep) {
    icl_sweep *gone = *sweep;

    if (!gone)
        return;
    for (size_t i = 0; i < gone->axis_count; i++)
        icl_axis_clear(&gone->axes[i]);
    icl_free(&gone->axes);
    icl_free(&gone->recipe_name);
    icl_recipe_destroy(&gone->base);
    icl_free(sweep);
}

/* ---- What it holds ---- */

const char *icl_sweep_recipe_name(const icl_sweep *sweep) {
    return sweep->recipe_name;
}

size_t icl_sweep_cells(const icl_sweep *sweep) {
    return sweep->cells;
}

size_t icl_sweep_axes(const icl_sweep *sweep) {
    return sweep->axis_count;
}

const char *icl_sweep_axis(const icl_sweep *sweep, size_t axis) {
    return sweep->axes[axis].name;
}

const char *icl_sweep_value(const icl_sweep *sweep, size_t cell, size_t axis) {
    assert(cell < sweep->cells && axis < sweep->axis_count);
    for (size_t i = sweep->axis_count; i-- > axis + 1;)
        cell /= sweep->axes[i].list.count;
    return sweep->axes[axis].list.values[cell % sweep->axes[axis].list.count];
}

size_t icl_sweep_seeds(const icl_sweep *sweep) {
    const icl_axis *last = &sweep->axes[sweep->axis_count - 1];
    return is_seed(last->key) ? last->list.count : 1;
}

/* ---- Cells ---- */

/* The key without its section, unless another axis has the same. */
static const char *short_name(const icl_sweep *sweep, size_t axis) {
    const icl_recipe_key *key = sweep->axes[axis].key;

    for (size_t i = 0; i < sweep->axis_count; i++)
        if (i != axis && strcmp(sweep->axes[i].key->name, key->name) == 0)
            return sweep->axes[axis].name;
    return key->name;
}

icl_status icl_sweep_cell_name(const icl_sweep *sweep, size_t cell, char **name, icl_error *error) {
    enum { HASH_LENGTH = 17 };
    size_t capacity = NAME_LENGTH + HASH_LENGTH + 1, length = 0;

    for (size_t axis = 0; axis < sweep->axis_count; axis++)
        capacity += strlen(short_name(sweep, axis)) + strlen(icl_sweep_value(sweep, cell, axis)) + 2;
    ICL_CHECK(icl_allocate(capacity, 1, "name of a cell", name, error));
    for (size_t axis = 0; axis < sweep->axis_count; axis++)
        length += (size_t)snprintf(*name + length, capacity - length, "%s%s-%s", axis == 0 ? "" : "_",
                                   short_name(sweep, axis), icl_sweep_value(sweep, cell, axis));
    if (length > NAME_LENGTH + HASH_LENGTH)
        snprintf(*name + NAME_LENGTH, HASH_LENGTH + 1, "-%016llx", (unsigned long long)icl_hash(*name, length));
    for (char *c = *name; *c != '\0'; c++)
        *c = *c == '_' ? *c : icl_axis_harmless(*c);
    return ICL_OK;
}

icl_status icl_sweep_cell_recipe(const icl_sweep *sweep, size_t cell, icl_recipe **recipe, icl_error *error) {
    icl_status status = ICL_OK;
    icl_recipe *made = NULL;

    ICL_TRY(icl_recipe_clone(sweep->base, &made, error));
    for (size_t axis = 0; axis < sweep->axis_count; axis++)
        ICL_TRY(icl_recipe_set(made, sweep->axes[axis].key->section, sweep->axes[axis].key->name,
                               icl_sweep_value(sweep, cell, axis), sweep->axes[axis].origin, error));
    *recipe = made;
    made = NULL;
done:
    icl_recipe_destroy(&made);
    return status;
}
