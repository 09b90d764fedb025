#include "lab/recipe_find.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "core/allocate.h"
#include "core/file.h"
#include "core/nearest.h"
#include "iclab/lab.h"

#define RECIPE_SUFFIX ".ini"

/* For whoever runs build/tools/iclab from the top of the source tree. */
#define SOURCE_RECIPES "tools/recipes"

void icl_text_free(char **text) {
    icl_free(text);
}

/* Keeps the recipe in `folder` whose name is nearest to `name`. */
static void nearest_in_folder(const char *folder, const char *name, char nearest[256], size_t *best) {
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
        distance = icl_edit_distance(name, candidate);
        /* Folders list their entries in any order; the message should not depend on it. */
        if (distance < *best || (distance == *best && strcmp(candidate, nearest) < 0)) {
            *best = distance;
            memcpy(nearest, candidate, sizeof candidate);
        }
    }
    closedir(listing);
}

/* NAME.ini in the folder, or *path = NULL. */
static icl_status find_in_folder(const char *folder, const char *name, char **path, icl_error *error) {
    char file_name[256];
    icl_status status;

    *path = NULL;
    if (!folder || folder[0] == '\0' || strchr(name, '/') ||
        strlen(name) + sizeof RECIPE_SUFFIX > sizeof file_name)
        return ICL_OK;
    snprintf(file_name, sizeof file_name, "%s%s", name, RECIPE_SUFFIX);
    status = icl_path_join(folder, file_name, path, error);
    if (status == ICL_OK && !icl_path_exists(*path))
        icl_free(path);
    return status;
}

icl_status icl_recipe_find_by_name(const char *name, char **path, icl_error *error) {
    const char *const folders[] = {getenv("ICLAB_RECIPES"), ICL_RECIPE_DIR, SOURCE_RECIPES};
    char nearest[256] = "";
    size_t best = SIZE_MAX;
    icl_status status;

    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        status = find_in_folder(folders[i], name, path, error);
        if (status != ICL_OK || *path)
            return status;
        if (folders[i])
            nearest_in_folder(folders[i], name, nearest, &best);
    }
    if (nearest[0] != '\0')
        return icl_fail(error, ICL_ERROR_INPUT,
                        "recipe %s: no such file, and no such recipe here; the nearest is %s", name, nearest);
    return icl_fail(
        error, ICL_ERROR_INPUT,
        "recipe %s: no such file: expected the path of an INI file (no recipes in %s; ICLAB_RECIPES "
        "names another folder)",
        name, ICL_RECIPE_DIR);
}

icl_status icl_lab_recipe_find(const char *name, char **path, icl_error *error) {
    return icl_path_exists(name) ? icl_duplicate(name, path, error)
                                 : icl_recipe_find_by_name(name, path, error);
}
