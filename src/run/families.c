#include "iclab/families.h"

#include <dlfcn.h>
#include <string.h>

#include "core/allocate.h"
#include "core/recipe_keys.h"
#include "iclab/file.h"
#include "iclab/text.h"
#include "model/sequence/sequence.h"

/* The kinds of families, and the key that names one of each. */
enum { TASKS, MODELS, MIXERS, PREDICTORS, KINDS };

static const struct {
    const char *what, *section, *key;
} kinds[KINDS] = {
    {"task", "task", "family"},
    {"model", "model", "family"},
    {"mixer", "model", "mixer"},
    {"predictor", "eval", "predictors"},
};

/* A list of choices. Recipes point to it, so that a longer one takes its place and it stays until the end. */
typedef struct choice_list {
    struct choice_list *before;
    icl_choice *choices;
} choice_list;

/* A table of keys. */
typedef struct key_table {
    icl_recipe_key *rows;
    size_t count, capacity;
} key_table;

struct icl_families {
    key_table keys; /* all that are known; those of families stand behind the others of their section */
    choice_list *lists;
    struct loaded_file {
        void *handle;
        char *path;
    } * files; /* [file_count] */
    size_t file_count, file_capacity;
};

/* ---- Tables of keys ---- */

static size_t find(const key_table *keys, const char *section, const char *name) {
    size_t i = 0;
    while (i < keys->count && (strcmp(keys->rows[i].section, section) != 0 || strcmp(keys->rows[i].name, name) != 0))
        i++;
    return i;
}

static icl_status copy_keys(const icl_recipe_key *rows, size_t count, key_table *copy, icl_error *error) {
    copy->count = copy->capacity = count;
    ICL_CHECK(icl_allocate(count, sizeof *copy->rows, "keys of families", &copy->rows, error));
    memcpy(copy->rows, rows, count * sizeof *rows);
    return ICL_OK;
}

/* Inserts the row behind the last one of its section. */
static icl_status insert(key_table *keys, const icl_recipe_key *row, icl_error *error) {
    size_t place = keys->count;

    ICL_CHECK(icl_grow(&keys->rows, keys->count, &keys->capacity, sizeof *keys->rows, "keys of families", error));
    while (strcmp(keys->rows[place - 1].section, row->section) != 0)
        place--;
    memmove(keys->rows + place + 1, keys->rows + place, (keys->count - place) * sizeof *row);
    keys->rows[place] = *row;
    keys->count++;
    return ICL_OK;
}

/* Returns whether a family's row means the known key. */
static bool is_same(const icl_recipe_key *row, const icl_recipe_key *known) {
    const bool has_limits = row->minimum != 0 || row->maximum != 0;

    return row->type == known->type && (!row->choices || row->choices == known->choices) &&
           (!row->default_value || strcmp(row->default_value, known->default_value) == 0) &&
           (!has_limits || (row->minimum == known->minimum && row->maximum == known->maximum));
}

/* Returns whether the text is a name: letters, digits and some signs, none of which separates names in lists. */
static bool is_name(const char *text) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_+.";
    return text && text[0] != '\0' && text[strspn(text, plain)] == '\0';
}

/* A family that is being added. */
typedef struct addition {
    int kind;
    const char *name;
    const icl_recipe_group *const *groups;
    const void *object;
    key_table keys; /* as they will be */
} addition;

static icl_status add_groups(addition *added, const icl_recipe_group *const *groups, icl_error *error);

/* Adds the keys that a key brings into use. */
static icl_status add_governed(addition *added, const icl_recipe_key *row, icl_error *error) {
    for (const icl_choice *choice = row->choices; choice && choice->word; choice++)
        ICL_CHECK(add_groups(added, choice->keys, error));
    return add_groups(added, row->keys, error);
}

static icl_status add_key(addition *added, const icl_recipe_key *row, icl_error *error) {
    const char *what = kinds[added->kind].what, *section = kinds[added->kind].section;

    if (!row->section || strcmp(row->section, section) != 0 || !is_name(row->name))
        return icl_fail(error, ICL_ERROR_INPUT, "%s %s: its key %s.%s: expected a name of letters and digits in [%s]",
                        what, added->name, row->section ? row->section : "", row->name ? row->name : "", section);
    const size_t index = find(&added->keys, row->section, row->name);
    const icl_recipe_key *known = index < added->keys.count ? &added->keys.rows[index] : NULL;
    if (known && !is_same(row, known))
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s %s: its key %s.%s is known with another type, default or range (default %s, range "
                        "%.15g to %.15g): expected the same row, or another name",
                        what, added->name, row->section, row->name, known->default_value, known->minimum,
                        known->maximum);
    if (known)
        return ICL_OK;
    if (!row->default_value || !row->help)
        return icl_fail(error, ICL_ERROR_INPUT, "%s %s: its key %s.%s: expected a default and a line of help", what,
                        added->name, row->section, row->name);
    ICL_CHECK(insert(&added->keys, row, error));
    return add_governed(added, row, error);
}

static icl_status add_groups(addition *added, const icl_recipe_group *const *groups, icl_error *error) {
    for (; groups && *groups; groups++)
        for (size_t i = 0; i < (*groups)->count; i++)
            ICL_CHECK(add_key(added, &(*groups)->rows[i], error));
    return ICL_OK;
}

/* ---- Names ---- */

/* Returns whether the word stands in a list with commas or blanks between its words, each perhaps with ":K" behind. */
static bool is_listed(const char *list, const char *word) {
    static const char between[] = " ,:;";

    for (list += strspn(list, between); *list != '\0'; list += strspn(list, between)) {
        const size_t length = strcspn(list, between);
        if (strlen(word) == length && memcmp(word, list, length) == 0)
            return true;
        list += length;
    }
    return false;
}

/* Returns whether the kind has the name. The help of eval.predictors lists those of regression. */
static bool is_taken(const icl_recipe_key *key, int kind, const char *name) {
    char words[1024];

    for (const icl_choice *choice = key->choices; choice && choice->word; choice++)
        if (strcmp(choice->word, name) == 0)
            return true;
    if (kind == MIXERS)
        return is_listed(icl_sequence_mixer_words(0, words, sizeof words), name);
    return kind == PREDICTORS && is_listed(key->help, name);
}

/* Makes the choices of the key, and the new one behind them. */
static icl_status extend_choices(const addition *added, const icl_choice *choices, choice_list **made,
                                 icl_error *error) {
    choice_list *list = NULL;
    size_t count = 0;
    icl_status status = ICL_OK;

    while (choices && choices[count].word)
        count++;
    ICL_TRY(icl_allocate(1, sizeof *list, "names of families", &list, error));
    ICL_TRY(icl_allocate(count + 2, sizeof *list->choices, "names of families", &list->choices, error));
    if (count > 0)
        memcpy(list->choices, choices, count * sizeof *choices);
    list->choices[count] = (icl_choice){added->name, ICL_FIRST_BROUGHT + (int)count,
                                        added->kind == PREDICTORS ? NULL : added->groups, added->object};
    *made = list;
    list = NULL;
done:
    icl_free(&list);
    return status;
}

/* Checks that a recipe can be made over the table: that every default is a value of its key. */
static icl_status try_keys(const key_table *keys, icl_error *error) {
    icl_recipe *recipe = NULL;
    const icl_status status = icl_recipe_create(keys->rows, keys->count, &recipe, error);

    icl_recipe_destroy(&recipe);
    return status;
}

static icl_status add(icl_families *families, addition *added, icl_error *error) {
    const char *what = kinds[added->kind].what, *section = kinds[added->kind].section, *key = kinds[added->kind].key;
    choice_list *list = NULL;
    icl_error refused = {0};
    icl_status status = ICL_OK;

    if (!is_name(added->name))
        ICL_TRY(icl_fail(error, ICL_ERROR_INPUT, "%s \"%s\": expected a name of letters, digits, '-', '_', '+' and '.'",
                         what, added->name ? added->name : ""));
    if (is_taken(&families->keys.rows[find(&families->keys, section, key)], added->kind, added->name))
        ICL_TRY(icl_fail(error, ICL_ERROR_INPUT, "%s %s: the name is taken: expected another", what, added->name));
    ICL_TRY(copy_keys(families->keys.rows, families->keys.count, &added->keys, error));
    ICL_TRY(add_groups(added, added->groups, error));
    icl_recipe_key *row = &added->keys.rows[find(&added->keys, section, key)];
    ICL_TRY(extend_choices(added, row->choices, &list, error));
    list->before = families->lists;
    families->lists = list;
    row->choices = list->choices;
    status = try_keys(&added->keys, &refused);
    if (status != ICL_OK)
        ICL_TRY(icl_fail(error, status, "%s %s: %s", what, added->name, refused.message));
    icl_free(&families->keys.rows);
    families->keys = added->keys;
    added->keys = (key_table){0};
done:
    icl_free(&added->keys.rows);
    return status;
}

icl_status icl_families_add_task(icl_families *families, const icl_task_family *task, icl_error *error) {
    return add(families, &(addition){.kind = TASKS, .name = task->name, .groups = task->keys, .object = task}, error);
}

icl_status icl_families_add_model(icl_families *families, const icl_model_family *model, icl_error *error) {
    return add(families, &(addition){.kind = MODELS, .name = model->name, .groups = model->keys, .object = model},
               error);
}

icl_status icl_families_add_mixer(icl_families *families, const icl_mixer_family *mixer, icl_error *error) {
    return add(families, &(addition){.kind = MIXERS, .name = mixer->name, .groups = mixer->keys, .object = mixer},
               error);
}

icl_status icl_families_add_predictor(icl_families *families, const icl_predictor_family *predictor, icl_error *error) {
    return add(
        families,
        &(addition){
            .kind = PREDICTORS, .name = predictor->predictor.name, .groups = predictor->keys, .object = predictor},
        error);
}

/* ---- Life ---- */

icl_status icl_families_create(icl_families **families, icl_error *error) {
    icl_families *created = NULL;
    icl_recipe *recipe = NULL;
    const icl_recipe_key *rows;
    size_t count;
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_create_complete(&recipe, error));
    rows = icl_recipe_keys(recipe, &count);
    ICL_TRY(icl_allocate(1, sizeof *created, "families", &created, error));
    ICL_TRY(copy_keys(rows, count, &created->keys, error));
    *families = created;
    created = NULL;
done:
    icl_recipe_destroy(&recipe);
    icl_families_destroy(&created);
    return status;
}

void icl_families_destroy(icl_families **families) {
    if (!*families)
        return;
    icl_free(&(*families)->keys.rows);
    for (choice_list *list = (*families)->lists, *before; list; list = before) {
        before = list->before;
        icl_free(&list->choices);
        icl_free(&list);
    }
    while ((*families)->file_count > 0) {
        struct loaded_file *file = &(*families)->files[--(*families)->file_count];
        dlclose(file->handle);
        icl_free(&file->path);
    }
    icl_free(&(*families)->files);
    icl_free(families);
}

icl_status icl_recipe_create_with(const icl_families *families, icl_recipe **recipe, icl_error *error) {
    return families ? icl_recipe_create(families->keys.rows, families->keys.count, recipe, error)
                    : icl_recipe_create_complete(recipe, error);
}

icl_status icl_recipe_create_named(const icl_families *families, const char *name, icl_recipe **recipe,
                                   icl_error *error) {
    icl_recipe *created = NULL;
    char *path = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_locate(name, &path, error));
    ICL_TRY(icl_recipe_create_with(families, &created, error));
    ICL_TRY(icl_recipe_load(created, path, error));
    *recipe = created;
    created = NULL;
done:
    icl_recipe_destroy(&created);
    icl_text_free(&path);
    return status;
}

/* ---- Files ---- */

typedef const icl_plugin *describe_plugin(void);

/* Checks that the file was compiled against these headers. */
static icl_status check_version(const icl_plugin *plugin, icl_error *error) {
    static const size_t sizes[] = ICL_PLUGIN_SIZES;

    if (!plugin || !plugin->version || strcmp(plugin->version, ICL_PLUGIN_VERSION) != 0)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "was compiled for iclab %s, and this is %s: expected it compiled again with these headers",
                        plugin && plugin->version ? plugin->version : "of no version", ICL_PLUGIN_VERSION);
    if (memcmp(plugin->sizes, sizes, sizeof sizes) != 0 || !plugin->add)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "was compiled with other headers of iclab %s: expected it compiled again with these",
                        ICL_PLUGIN_VERSION);
    return ICL_OK;
}

/* Takes the families of an open file. */
static icl_status take_file(icl_families *families, void *file, icl_error *error) {
    describe_plugin *describe = NULL;

    *(void **)&describe = dlsym(file, ICL_PLUGIN_FUNCTION); /* as POSIX has it */
    if (!describe)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "exports no " ICL_PLUGIN_FUNCTION ": expected ICL_PLUGIN (iclab/families.h) in its source");
    const icl_plugin *plugin = describe();
    ICL_CHECK(check_version(plugin, error));
    return plugin->add(families, error);
}

icl_status icl_families_load(icl_families *families, const char *path, icl_error *error) {
    char *whole = NULL, *copy = NULL;
    icl_error refused = {0};
    void *file;
    icl_status status = ICL_OK;

    if (!icl_path_exists(path))
        return icl_fail(error, ICL_ERROR_IO, "%s: no such file: expected a shared object with families", path);
    ICL_TRY(icl_grow(&families->files, families->file_count, &families->file_capacity, sizeof *families->files,
                     "files of families", error));
    ICL_TRY(icl_duplicate(path, &copy, error));
    ICL_TRY(icl_path_join(".", path, &whole, error)); /* a name without a folder would be sought among libraries */
    file = dlopen(path[0] == '/' ? path : whole, RTLD_NOW | RTLD_LOCAL);
    if (!file)
        ICL_TRY(
            icl_fail(error, ICL_ERROR_INPUT, "%s: expected a shared object that can be loaded: %s", path, dlerror()));
    /* Also after a failure: some families may be in the registry. */
    families->files[families->file_count++] = (struct loaded_file){file, copy};
    copy = NULL;
    status = take_file(families, file, &refused);
    if (status != ICL_OK)
        ICL_TRY(icl_fail(error, status, "%s: %s", path, refused.message));
done:
    icl_text_free(&whole);
    icl_free(&copy);
    return status;
}

const char *icl_families_file(const icl_families *families, size_t index) {
    return families && index < families->file_count ? families->files[index].path : NULL;
}
