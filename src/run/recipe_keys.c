/* Gathers the keys that the readers declare, section by section, and finds recipes by name. dladdr and realpath are
 * beyond POSIX.1-2008. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
#include "run/recipe_keys.h"

#include <assert.h>
#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "config.h"
#include "core/allocate.h"
#include "iclab/file.h"
#include "iclab/nearest.h"
#include "iclab/recipe.h"
#include "model/model.h"
#include "task/task.h"
#include "train/settings.h"

/* Groups that are read whatever the words are. Groups of one section are adjacent. */
static const icl_recipe_group *const roots[] = {
    &icl_family_keys,
    &icl_model_keys,
    &icl_optimizer_keys,
    &icl_schedule_keys,
    &icl_trainer_keys,
    &icl_loop_keys,
    &icl_starts_keys,
    &icl_polish_keys,
    &icl_session_keys,
    &icl_evaluation_keys,
    &icl_session_evaluation_keys,
    NULL,
};

enum { MOST_GROUPS = 96 };

typedef struct gathering {
    const icl_recipe_group *groups[MOST_GROUPS];
    size_t count;
} gathering;

static void add(gathering *list, const icl_recipe_group *group) {
    for (size_t i = 0; i < list->count; i++)
        if (list->groups[i] == group)
            return;
    assert(list->count < MOST_GROUPS);
    list->groups[list->count++] = group;
}

static void add_list(gathering *list, const icl_recipe_group *const *groups) {
    for (; groups && *groups; groups++)
        add(list, *groups);
}

static void add_governed(gathering *list, const icl_recipe_key *key) {
    for (const icl_choice *choice = key->choices; choice && choice->word; choice++)
        add_list(list, choice->keys);
    add_list(list, key->keys);
}

/* Lists each root, followed by the groups that its keys bring into use, and by those that these bring. */
static void gather(gathering *list) {
    size_t next = 0;

    for (const icl_recipe_group *const *root = roots; *root; root++)
        for (add(list, *root); next < list->count; next++)
            for (size_t i = 0; i < list->groups[next]->count; i++)
                add_governed(list, &list->groups[next]->rows[i]);
}

const icl_recipe_key *icl_recipe_known_key(size_t index) {
    gathering list = {0};

    gather(&list);
    for (size_t i = 0; i < list.count; index -= list.groups[i++]->count)
        if (index < list.groups[i]->count)
            return &list.groups[i]->rows[index];
    return NULL;
}

icl_status icl_recipe_create_complete(icl_recipe **recipe, icl_error *error) {
    gathering list = {0};
    icl_recipe_key *keys = NULL;
    icl_status status = ICL_OK;
    size_t count = 0;

    gather(&list);
    for (size_t i = 0; i < list.count; i++)
        count += list.groups[i]->count;
    ICL_TRY(icl_allocate(count, sizeof *keys, "recipe keys", &keys, error));
    count = 0;
    for (size_t i = 0; i < list.count; count += list.groups[i++]->count)
        memcpy(keys + count, list.groups[i]->rows, list.groups[i]->count * sizeof *keys);
    ICL_TRY(icl_recipe_create(keys, count, recipe, error));
done:
    icl_free(&keys);
    return status;
}

/* ---- Recipes by name ---- */

#define RECIPE_SUFFIX ".ini"

/* Folders of recipes below some parent folder of the library: in the prefix of an installation, which may have been
 * moved, or in a build folder, which has a link to the source's recipes. */
static const char *const places[] = {ICL_RECIPE_DIR_IN_PREFIX, "tools/recipes"};

/* The number of parent folders that are tried: PREFIX/lib/ARCHITECTURE/libiclab.so is three below the prefix. */
enum { MOST_LEVELS = 4 };

/* The state of a search. */
typedef struct recipe_search {
    const char *name;
    char *path;        /* the recipe's path; NULL: not found yet */
    char nearest[256]; /* the most similar name; empty: none */
    size_t distance;   /* edit distance of `nearest` */
} recipe_search;

/* Keeps the name of the recipe in `folder` that is nearest to the one looked for. */
static void nearest_in_folder(const char *folder, recipe_search *search) {
    DIR *listing = opendir(folder);
    const struct dirent *entry;

    if (!listing)
        return;
    while ((entry = readdir(listing)) != NULL) {
        const char *suffix = strrchr(entry->d_name, '.');
        char candidate[256];
        size_t distance;
        if (!suffix || strcmp(suffix, RECIPE_SUFFIX) != 0)
            continue;
        snprintf(candidate, sizeof candidate, "%.*s", (int)(suffix - entry->d_name), entry->d_name);
        distance = icl_edit_distance(search->name, candidate);
        /* Ties go to the alphabetically first name, because folders list their entries in any order and the message
         * should not depend on it. */
        if (distance < search->distance || (distance == search->distance && strcmp(candidate, search->nearest) < 0)) {
            search->distance = distance;
            memcpy(search->nearest, candidate, sizeof candidate);
        }
    }
    closedir(listing);
}

/* Looks in one folder, unless it is NULL or empty. */
static icl_status find_in_folder(const char *folder, recipe_search *search, icl_error *error) {
    char file_name[256];
    icl_status status;

    if (search->path || !folder || folder[0] == '\0')
        return ICL_OK;
    nearest_in_folder(folder, search);
    if (strchr(search->name, '/') || strlen(search->name) + sizeof RECIPE_SUFFIX > sizeof file_name)
        return ICL_OK;
    snprintf(file_name, sizeof file_name, "%s%s", search->name, RECIPE_SUFFIX);
    status = icl_path_join(folder, file_name, &search->path, error);
    if (status == ICL_OK && !icl_path_exists(search->path))
        icl_free(&search->path);
    return status;
}

/* Finds the absolute path, without symbolic links, of the shared library that holds this code, or of the program if
 * the library is linked statically. Returns false if the system does not tell. The loader knows a program by the name
 * that it was started with. That may be found in PATH, or relative to a folder that was left since; in this case Linux
 * is asked. */
static bool find_image(char path[PATH_MAX]) {
    static const char here;
    Dl_info image;

    if (dladdr(&here, &image) == 0 || !image.dli_fname)
        return false;
    if (image.dli_fname[0] != '/' && realpath("/proc/self/exe", path))
        return true;
    return realpath(image.dli_fname, path) != NULL;
}

/* Looks in the places below each parent folder of the library. */
static icl_status find_beside_library(recipe_search *search, icl_error *error) {
    char above[PATH_MAX];
    icl_status status = ICL_OK;

    if (!find_image(above))
        return ICL_OK;
    for (int level = 0; level < MOST_LEVELS; level++) {
        char *slash = strrchr(above, '/');
        if (!slash)
            break;
        *slash = '\0';
        for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
            char *folder = NULL;
            status = icl_path_join(above, places[i], &folder, error);
            if (status == ICL_OK)
                status = find_in_folder(folder, search, error);
            icl_free(&folder);
            if (status != ICL_OK)
                return status;
        }
    }
    return status;
}

icl_status icl_recipe_find_by_name(const char *name, char **path, icl_error *error) {
    recipe_search search = {.name = name, .distance = SIZE_MAX};
    icl_status status = ICL_OK;

    ICL_TRY(find_in_folder(getenv("ICLAB_RECIPES"), &search, error));
    ICL_TRY(find_beside_library(&search, error));
    ICL_TRY(find_in_folder(ICL_RECIPE_DIR, &search, error));
    if (!search.path && search.nearest[0] != '\0')
        ICL_TRY(icl_fail(error, ICL_ERROR_INPUT,
                         "recipe %s: no such file, and no recipe of that name; the nearest is %s", name,
                         search.nearest));
    if (!search.path)
        status = icl_fail(error, ICL_ERROR_INPUT,
                          "recipe %s: no such file: expected the path of an INI file (no recipes in %s; ICLAB_RECIPES "
                          "names another folder)",
                          name, ICL_RECIPE_DIR);
done:
    if (status != ICL_OK)
        icl_free(&search.path);
    *path = search.path;
    return status;
}

/* Returns whether the name is that of a folder, such as a recipe's runs, which is not meant. */
static bool is_folder_of_that_name(const char *name) {
    struct stat found;

    return !strchr(name, '/') && stat(name, &found) == 0 && S_ISDIR(found.st_mode);
}

icl_status icl_recipe_locate(const char *name, char **path, icl_error *error) {
    return icl_path_exists(name) && !is_folder_of_that_name(name) ? icl_duplicate(name, path, error)
                                                                  : icl_recipe_find_by_name(name, path, error);
}
