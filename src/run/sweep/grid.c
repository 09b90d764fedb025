/* Grids in files, which sweeps and studies have, and the names and recipes of their cells. */
#include "run/sweep/grid.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/hash.h"
#include "core/recipe_store.h"
#include "iclab/file.h"
#include "iclab/recipe.h"
#include "run/sweep/sweep.h"

/* Longer names are cut and end with a hash of the whole name. */
#define NAME_LENGTH 160

struct icl_sweep {
    icl_recipe *base; /* the recipe with the settings of [set] */
    char *recipe_name;
    icl_axis *axes;
    size_t axis_count, cells;
};

/* ---- Tables of keys ---- */

icl_status icl_grid_keys_add(icl_grid_keys *keys, const icl_recipe_key *row, icl_error *error) {
    ICL_CHECK(icl_grow(&keys->rows, keys->count, &keys->capacity, sizeof *keys->rows, "keys of a file", error));
    keys->rows[keys->count++] = *row;
    return ICL_OK;
}

icl_status icl_grid_keys_add_recipe(icl_grid_keys *keys, const icl_recipe *recipe, const char *section,
                                    icl_error *error) {
    size_t count;
    const icl_recipe_key *table = icl_recipe_keys(recipe, &count);

    if (!keys->names)
        ICL_CHECK(icl_allocate(count, sizeof *keys->names, "keys of a file", &keys->names, error));
    for (size_t i = 0; i < count; i++) {
        snprintf(keys->names[i], ICL_AXIS_NAME, "%s.%s", table[i].section, table[i].name);
        ICL_CHECK(icl_grid_keys_add(keys, &(icl_recipe_key){section, keys->names[i], ICL_KEY_TEXT, "", 0, 0, NULL, ""},
                                    error));
    }
    return ICL_OK;
}

void icl_grid_keys_release(icl_grid_keys *keys) {
    icl_free(&keys->rows);
    icl_free(&keys->names);
}

/* ---- Settings ---- */

/* Returns where the file sets a key, as "FILE:LINE"; NULL if it does not. */
static const char *origin_of(const icl_recipe *file, const char *section, const char *name) {
    const char *origin = icl_recipe_origin(file, section, name);
    return strcmp(origin, "default") == 0 ? NULL : origin;
}

icl_status icl_grid_set(const icl_recipe *file, const char *section, icl_recipe *recipe, icl_error *error) {
    char part[ICL_AXIS_NAME];

    for (size_t i = 0; i < file->key_count; i++) {
        const icl_recipe_key *key = &file->keys[i];
        const char *dot = strchr(key->name, '.');
        if (!dot || strcmp(key->section, section) != 0 || strcmp(file->values[i].origin, "default") == 0)
            continue;
        snprintf(part, sizeof part, "%.*s", (int)(dot - key->name), key->name);
        ICL_CHECK(icl_recipe_set(recipe, part, dot + 1, file->values[i].text, file->values[i].origin, error));
    }
    return ICL_OK;
}

/* ---- The base recipe ---- */

static icl_status find_recipe(const char *file_path, const char *name, char **path, icl_error *error) {
    const char *file_name = icl_path_name(file_path);
    icl_status status = ICL_OK;
    char *folder = NULL;

    if (name[0] != '/' && file_name > file_path) {
        ICL_TRY(icl_duplicate(file_path, &folder, error));
        folder[file_name - file_path] = '\0';
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

icl_status icl_grid_load_recipe(const char *file_path, const char *name, const icl_families *families,
                                icl_recipe **recipe, icl_error *error) {
    icl_status status = ICL_OK;
    icl_recipe *created = NULL;
    char *path = NULL;

    ICL_TRY(find_recipe(file_path, name, &path, error));
    ICL_TRY(icl_recipe_create_with(families, &created, error));
    ICL_TRY(icl_recipe_load(created, path, error));
    *recipe = created;
    created = NULL;
done:
    icl_free(&path);
    icl_recipe_destroy(&created);
    return status;
}

/* ---- Axes in files ---- */

/* Finds the last of the sections that sets the key, and the place; NULL if none does. */
static const char *find_section(const icl_recipe *file, const char *const *sections, const char *name,
                                const char **origin) {
    const char *found = NULL;

    for (*origin = NULL; *sections; sections++)
        if (origin_of(file, *sections, name)) {
            *origin = origin_of(file, *sections, name);
            found = *sections;
        }
    return found;
}

static icl_status read_axis(icl_sweep *sweep, const icl_grid_source *source, const icl_recipe_key *key,
                            icl_error *error) {
    icl_axis *axis = &sweep->axes[sweep->axis_count];
    const char *origin, *fixed_at;
    char before[ICL_AXIS_NAME];
    icl_error reason = {0};
    icl_status status;

    snprintf(axis->name, sizeof axis->name, "%s.%s", key->section, key->name);
    const char *section = find_section(source->file, source->sections, axis->name, &origin);
    const char *fixed = find_section(source->file, source->fixed, axis->name, &fixed_at);
    if (!section)
        return ICL_OK;
    sweep->axis_count++;
    axis->key = key;
    ICL_CHECK(icl_duplicate(origin, &axis->origin, error));
    if (fixed)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: %s.%s: expected it here or in [%s] (%s), not in both", origin,
                        section, axis->name, fixed, fixed_at);
    status = icl_list_parse(icl_recipe_text(source->file, section, axis->name), &axis->list, &reason);
    if (status != ICL_OK)
        return icl_fail(error, status, "%s: %s.%s = %s: %s", origin, section, axis->name,
                        icl_recipe_text(source->file, section, axis->name), reason.message);
    snprintf(before, sizeof before, "%s.", section);
    return icl_axis_check(sweep->base, axis, before, error);
}

static bool is_seed(const icl_recipe_key *key) {
    return strcmp(key->section, "train") == 0 && strcmp(key->name, "seed") == 0;
}

static icl_status read_axes(icl_sweep *sweep, const icl_grid_source *source, icl_error *error) {
    size_t keys;
    const icl_recipe_key *table = icl_recipe_keys(sweep->base, &keys);

    ICL_CHECK(icl_allocate(keys + 1, sizeof *sweep->axes, "axes of a sweep", &sweep->axes, error));
    for (int seed = 0; seed < 2; seed++)
        for (size_t i = 0; i < keys; i++)
            if (is_seed(&table[i]) == (seed == 1))
                ICL_CHECK(read_axis(sweep, source, &table[i], error));
    if (sweep->axis_count == 0)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s: no grid: expected at least one line such as model.layers = 1, 2 in a section "
                        "[grid]",
                        source->path);
    sweep->cells = 1;
    for (size_t i = 0; i < sweep->axis_count; i++) {
        sweep->cells *= sweep->axes[i].list.count;
        if (sweep->cells > ICL_SWEEP_MOST)
            ICL_CHECK(icl_fail(error, ICL_ERROR_INPUT, "%s: too many cells: expected at most %d", source->path,
                               ICL_SWEEP_MOST));
    }
    return ICL_OK;
}

icl_status icl_grid_read(const icl_grid_source *source, icl_sweep **sweep, icl_error *error) {
    icl_status status = ICL_OK;
    icl_sweep *created = NULL;

    ICL_TRY(icl_allocate(1, sizeof *created, "sweep", &created, error));
    ICL_TRY(icl_duplicate(source->recipe_name, &created->recipe_name, error));
    ICL_TRY(icl_recipe_clone(source->base, &created->base, error));
    ICL_TRY(read_axes(created, source, error));
    *sweep = created;
    created = NULL;
done:
    icl_sweep_destroy(&created);
    return status;
}

/* ---- Life ---- */

void icl_sweep_destroy(icl_sweep **sweep) {
    icl_sweep *old = *sweep;

    if (!old)
        return;
    for (size_t i = 0; i < old->axis_count; i++)
        icl_axis_clear(&old->axes[i]);
    icl_free(&old->axes);
    icl_free(&old->recipe_name);
    icl_recipe_destroy(&old->base);
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

/* Returns the key without its section, unless another axis has the same key. */
static const char *short_name(const icl_sweep *sweep, size_t axis) {
    const icl_recipe_key *key = sweep->axes[axis].key;

    for (size_t i = 0; i < sweep->axis_count; i++)
        if (i != axis && strcmp(sweep->axes[i].key->name, key->name) == 0)
            return sweep->axes[axis].name;
    return key->name;
}

/* Names a cell by the first `axes` of its axes. */
static icl_status name_cell(const icl_sweep *sweep, size_t cell, size_t axes, char **name, icl_error *error) {
    enum { HASH_LENGTH = 17 };
    size_t capacity = NAME_LENGTH + HASH_LENGTH + 1, length = 0;

    for (size_t axis = 0; axis < axes; axis++)
        capacity += strlen(short_name(sweep, axis)) + strlen(icl_sweep_value(sweep, cell, axis)) + 2;
    ICL_CHECK(icl_allocate(capacity, 1, "name of a cell", name, error));
    for (size_t axis = 0; axis < axes; axis++)
        length += (size_t)snprintf(*name + length, capacity - length, "%s%s-%s", axis == 0 ? "" : "_",
                                   short_name(sweep, axis), icl_sweep_value(sweep, cell, axis));
    if (length > NAME_LENGTH + HASH_LENGTH)
        snprintf(*name + NAME_LENGTH, HASH_LENGTH + 1, "-%016llx", (unsigned long long)icl_hash(*name, length));
    for (char *c = *name; *c != '\0'; c++)
        *c = *c == '_' ? *c : icl_axis_harmless(*c);
    return ICL_OK;
}

icl_status icl_sweep_cell_name(const icl_sweep *sweep, size_t cell, char **name, icl_error *error) {
    return name_cell(sweep, cell, sweep->axis_count, name, error);
}

icl_status icl_grid_point_name(const icl_sweep *sweep, size_t cell, char **name, icl_error *error) {
    return name_cell(sweep, cell, sweep->axis_count - is_seed(sweep->axes[sweep->axis_count - 1].key), name, error);
}

icl_status icl_sweep_cell_recipe(const icl_sweep *sweep, size_t cell, icl_recipe **recipe, icl_error *error) {
    icl_status status = ICL_OK;
    icl_recipe *created = NULL;

    ICL_TRY(icl_recipe_clone(sweep->base, &created, error));
    for (size_t axis = 0; axis < sweep->axis_count; axis++)
        ICL_TRY(icl_recipe_set(created, sweep->axes[axis].key->section, sweep->axes[axis].key->name,
                               icl_sweep_value(sweep, cell, axis), sweep->axes[axis].origin, error));
    *recipe = created;
    created = NULL;
done:
    icl_recipe_destroy(&created);
    return status;
}
