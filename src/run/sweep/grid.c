/* Grids: lists of values, axes, and the cells of a sweep. */
#include "run/sweep/grid.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/csv_reader.h"
#include "core/hash.h"
#include "core/print.h"
#include "core/recipe_store.h"
#include "iclab/file.h"
#include "iclab/number.h"
#include "iclab/recipe.h"
#include "run/sweep/sweep.h"

/* ---- Lists of values ---- */

static icl_status append_value(icl_list *list, const char *text, size_t length, icl_error *error) {
    if (list->count == ICL_SWEEP_MOST)
        return icl_fail(error, ICL_ERROR_INPUT, "expected at most %d values", ICL_SWEEP_MOST);
    ICL_CHECK(icl_grow(&list->values, list->count, &list->capacity, sizeof *list->values, "list of values", error));
    ICL_CHECK(icl_allocate(length + 1, 1, "value of a list", &list->values[list->count], error));
    memcpy(list->values[list->count++], text, length);
    return ICL_OK;
}

/* Returns whether the text is FIRST..LAST. */
static bool parse_range(const char *text, size_t length, uint64_t *first, uint64_t *last) {
    size_t digits = 0;

    while (digits < length && text[digits] >= '0' && text[digits] <= '9')
        digits++;
    return digits + 2 < length && text[digits] == '.' && text[digits + 1] == '.' &&
           icl_parse_count(text, digits, first) && icl_parse_count(text + digits + 2, length - digits - 2, last);
}

static icl_status append_range(icl_list *list, uint64_t first, uint64_t last, icl_error *error) {
    icl_status status = ICL_OK;
    char text[ICL_NUMBER_CAPACITY];

    if (first > last)
        return icl_fail(error, ICL_ERROR_INPUT, "expected FIRST..LAST with the smaller number first");
    for (uint64_t value = first; status == ICL_OK; value++) {
        snprintf(text, sizeof text, "%" PRIu64, value);
        status = append_value(list, text, strlen(text), error);
        if (value == last)
            break;
    }
    return status;
}

/* Returns the bytes of the word and colon with which a value begins, such as "fixed:" in fixed:1; 0 if it has none. */
static size_t prefix_length(const char *field) {
    const size_t length = strspn(field, "abcdefghijklmnopqrstuvwxyz+-_");
    return length > 0 && field[length] == ':' ? length + 1 : 0;
}

/* FIRST, LAST and STEP of FIRST:LAST:STEP */
typedef struct steps {
    double first, last, step;
} steps;

static bool parse_steps(const char *text, steps *found) {
    double *const numbers[] = {&found->first, &found->last, &found->step};

    for (int i = 0; i < 3; i++) {
        const size_t length = strcspn(text, ":");
        if (!icl_parse_number(text, length, numbers[i]) || (text[length] == ':') != (i < 2))
            return false;
        text += length + (i < 2);
    }
    return true;
}

/* Appends each value after the prefix. Twelve digits print 3 * 0.1 as 0.3, and the margin of 1e-9 keeps the last
 * value. */
static icl_status append_steps(icl_list *list, const char *prefix, size_t length, const steps *range,
                               icl_error *error) {
    const double turns = floor((range->last - range->first) / range->step + 1e-9);
    char text[128];

    if (range->step == 0)
        return icl_fail(error, ICL_ERROR_INPUT, "expected FIRST:LAST:STEP with a step other than 0");
    if (turns < 0)
        return icl_fail(error, ICL_ERROR_INPUT, "expected FIRST:LAST:STEP with a step that leads from FIRST to LAST");
    if (!(turns < ICL_SWEEP_MOST))
        return icl_fail(error, ICL_ERROR_INPUT, "expected at most %d values", ICL_SWEEP_MOST);
    for (int turn = 0; turn <= (int)turns; turn++) {
        const double value = range->first + turn * range->step;
        icl_print(text, sizeof text, "%.*s%.12g", (int)length, prefix,
                  fabs(value) < 1e-9 * fabs(range->step) ? 0.0 : value);
        ICL_CHECK(append_value(list, text, strlen(text), error));
    }
    return ICL_OK;
}

/* A number after word:number is the rest of a value that needs quotes, such as choice:1,3. */
static bool is_cut_off(const icl_list *list, const char *field) {
    double number;
    return list->count > 0 && prefix_length(list->values[list->count - 1]) > 0 &&
           icl_parse_number(field, strlen(field), &number);
}

static icl_status append_field(icl_list *list, const char *field, icl_error *error) {
    const size_t length = strlen(field), prefix = prefix_length(field);
    uint64_t first, last;
    steps found;

    if (length == 0)
        return icl_fail(error, ICL_ERROR_INPUT, "expected values separated by commas, none of them empty");
    if (is_cut_off(list, field))
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s follows %s: expected quotes around a value that holds a comma, or a word in front of both",
                        field, list->values[list->count - 1]);
    if (parse_range(field, length, &first, &last))
        return append_range(list, first, last, error);
    if (prefix < 64 && parse_steps(field + prefix, &found))
        return append_steps(list, field, prefix, &found, error);
    return append_value(list, field, length, error);
}

icl_status icl_list_parse(const char *text, icl_list *list, icl_error *error) {
    const icl_csv_source source = {.path = "list", .text = text, .size = strlen(text)};
    icl_status status = ICL_OK;
    icl_csv_reader *reader = NULL;
    icl_csv_record record;
    bool found = false;

    *list = (icl_list){0};
    ICL_TRY(icl_csv_reader_open(&source, &reader, error));
    status = icl_csv_reader_next(reader, &record, &found, error);
    if (status == ICL_ERROR_INPUT) /* the reader's own message would name a place in a file */
        status = icl_fail(error, ICL_ERROR_INPUT,
                          "expected values separated by commas, with quotes around one that holds a comma");
    ICL_TRY(status);
    if (!found)
        ICL_TRY(icl_fail(error, ICL_ERROR_INPUT, "expected at least one value"));
    for (size_t i = 0; i < record.count; i++)
        ICL_TRY(append_field(list, record.fields[i], error));
done:
    icl_csv_reader_close(&reader);
    return status;
}

void icl_list_clear(icl_list *list) {
    for (size_t i = 0; i < list->count; i++)
        icl_free(&list->values[i]);
    icl_free(&list->values);
    *list = (icl_list){0};
}

/* ---- Axes ---- */

char icl_axis_harmless(char c) {
    const bool fine =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '+' || c == '-';
    return c != '\0' && !fine ? '-' : c;
}

/* Returns whether two values would have the same name. */
static bool have_one_name(const char *a, const char *b) {
    while (*a != '\0' && icl_axis_harmless(*a) == icl_axis_harmless(*b))
        a++, b++;
    return *a == '\0' && *b == '\0';
}

/* Checks that the key takes every value. Values are compared as numbers if they are numbers: 1 and 1.0 are the same
 * cell. */
static icl_status read_values(const icl_recipe *base, const icl_axis *axis, double *numbers, icl_error *error) {
    icl_status status = ICL_OK;
    icl_recipe *scratch = NULL;

    ICL_TRY(icl_recipe_clone(base, &scratch, error));
    for (size_t i = 0; i < axis->list.count; i++) {
        const char *value = axis->list.values[i];
        ICL_TRY(icl_recipe_set(scratch, axis->key->section, axis->key->name, value, axis->origin, error));
        if (!icl_parse_number(value, strlen(value), &numbers[i]))
            numbers[i] = (double)NAN;
    }
done:
    icl_recipe_destroy(&scratch);
    return status;
}

icl_status icl_axis_check(const icl_recipe *base, const icl_axis *axis, const char *section, icl_error *error) {
    const bool are_numbers = axis->key->type == ICL_KEY_COUNT || axis->key->type == ICL_KEY_NUMBER;
    char *const *values = axis->list.values;
    icl_status status = ICL_OK;
    double *numbers = NULL;

    ICL_TRY(icl_allocate(axis->list.count, sizeof *numbers, "values of an axis", &numbers, error));
    ICL_TRY(read_values(base, axis, numbers, error));
    for (size_t i = 0; i < axis->list.count; i++)
        for (size_t j = 0; j < i; j++)
            if (are_numbers ? numbers[i] == numbers[j] : have_one_name(values[i], values[j]))
                ICL_TRY(icl_fail(error, ICL_ERROR_INPUT, "%s: %s%s: %s is listed twice: expected every value once",
                                 axis->origin, section, axis->name, values[i]));
done:
    icl_free(&numbers);
    return status;
}

void icl_axis_clear(icl_axis *axis) {
    icl_free(&axis->origin);
    icl_list_clear(&axis->list);
}

/* The grid: a sweep's file, its axes, and the cells' names and recipes. */

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

/* ---- The file, as a recipe of another table of keys: [sweep] recipe, and every recipe key in [set]
 * and in [grid] ---- */

static icl_status read_file(const char *path, const icl_families *families, icl_grid_keys *keys, icl_recipe **file,
                            icl_error *error) {
    icl_recipe *known = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_create_with(families, &known, error));
    ICL_TRY(icl_grid_keys_add(keys, &(icl_recipe_key){"sweep", "recipe", ICL_KEY_TEXT, "", 0, 0, NULL, ""}, error));
    ICL_TRY(icl_grid_keys_add_recipe(keys, known, "set", error));
    ICL_TRY(icl_grid_keys_add_recipe(keys, known, "grid", error));
    ICL_TRY(icl_recipe_create(keys->rows, keys->count, file, error));
    ICL_TRY(icl_recipe_load(*file, path, error));
done:
    icl_recipe_destroy(&known);
    return status;
}

icl_status icl_sweep_load(const char *path, const icl_families *families, icl_sweep **sweep, icl_error *error) {
    static const char *const set[] = {"set", NULL}, *const grid[] = {"grid", NULL};
    icl_status status = ICL_OK;
    icl_grid_keys keys = {0};
    icl_recipe *file = NULL, *base = NULL;

    ICL_TRY(read_file(path, families, &keys, &file, error));
    const char *name = icl_recipe_text(file, "sweep", "recipe");
    if (name[0] == '\0')
        ICL_TRY(icl_fail(error, ICL_ERROR_INPUT,
                         "%s: no sweep.recipe: expected recipe = NAME, the recipe to sweep, in a section "
                         "[sweep]",
                         path));
    ICL_TRY(icl_grid_load_recipe(path, name, families, &base, error));
    ICL_TRY(icl_grid_set(file, "set", base, error));
    status = icl_grid_read(&(icl_grid_source){path, file, grid, set, base, name}, sweep, error);
done:
    icl_recipe_destroy(&base);
    icl_recipe_destroy(&file);
    icl_grid_keys_release(&keys);
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
