#include "papers/study_list.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/file.h"
#include "iclab/nearest.h"
#include "papers/papers.h"
#include "papers/study_file.h"
#include "run/recipe_keys.h"

/* ---- What is built in, paper by paper: each paper a text, followed by its studies ---- */

#define ROW_OF_PAPER(text)  {.paper = (text)},
#define ROW_OF_STUDY(study) {.reproduction = &icl_##study},
static const icl_catalogue_row built_in[] = {ICL_PAPERS(ROW_OF_PAPER, ROW_OF_STUDY)};

/* Adds a row behind the last one of its paper. */
static icl_status add_row(icl_catalogue *catalogue, const icl_reproduction *reproduction, const char *paper,
                          icl_error *error) {
    size_t place = catalogue->count;

    ICL_CHECK(
        icl_grow(&catalogue->rows, catalogue->count, &catalogue->capacity, sizeof *catalogue->rows, "studies", error));
    while (place > 0 && strcmp(catalogue->rows[place - 1].paper, paper) != 0)
        place--;
    place = place == 0 ? catalogue->count : place;
    memmove(catalogue->rows + place + 1, catalogue->rows + place, (catalogue->count - place) * sizeof *catalogue->rows);
    catalogue->rows[place] = (icl_catalogue_row){reproduction, paper};
    catalogue->count++;
    return ICL_OK;
}

static icl_status add_built_in(icl_catalogue *catalogue, icl_error *error) {
    const char *paper = NULL;

    for (size_t i = 0; i < sizeof built_in / sizeof *built_in; i++) {
        paper = built_in[i].paper ? built_in[i].paper : paper;
        if (built_in[i].reproduction)
            ICL_CHECK(add_row(catalogue, built_in[i].reproduction, paper, error));
    }
    return ICL_OK;
}

/* ---- Studies that are files ---- */

#define SUFFIX ".ini"

/* The paths of the files of a folder. */
typedef struct path_list {
    char **items; /* [count] */
    size_t count, capacity;
} path_list;

/* Finds the folder beside that of the recipes; NULL if recipes are not found. */
static icl_status find_folder(char **folder, icl_error *error) {
    icl_error missing = {0};
    char *recipe = NULL;
    const icl_status status = icl_recipe_find_by_name("quickstart", &recipe, &missing);

    *folder = NULL;
    if (status == ICL_ERROR_INPUT)
        return ICL_OK;
    if (status != ICL_OK)
        return icl_fail(error, status, "%s", missing.message);
    *strrchr(recipe, '/') = '\0';
    const icl_status joined = icl_path_join(recipe, "../studies", folder, error);
    icl_free(&recipe);
    return joined;
}

static icl_status add_path(path_list *paths, const char *folder, const char *name, icl_error *error) {
    const char *suffix = strrchr(name, '.');

    if (!suffix || strcmp(suffix, SUFFIX) != 0)
        return ICL_OK;
    ICL_CHECK(icl_grow(&paths->items, paths->count, &paths->capacity, sizeof *paths->items, "studies", error));
    ICL_CHECK(icl_path_join(folder, name, &paths->items[paths->count], error));
    paths->count++;
    return ICL_OK;
}

static int by_bytes(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Lists the folder in the order of names; nothing if there is none. */
static icl_status list_paths(path_list *paths, icl_error *error) {
    const struct dirent *found;
    DIR *stream = NULL;
    char *folder = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(find_folder(&folder, error));
    stream = folder ? opendir(folder) : NULL;
    while (stream && status == ICL_OK && (found = readdir(stream)) != NULL)
        status = add_path(paths, folder, found->d_name, error);
    if (stream)
        closedir(stream);
    if (paths->count > 0)
        qsort(paths->items, paths->count, sizeof *paths->items, by_bytes);
done:
    icl_free(&folder);
    return status;
}

static icl_status add_file(icl_catalogue *catalogue, const char *path, icl_error *error) {
    struct icl_study_file *file = NULL;
    const char *paper;

    ICL_CHECK(icl_grow(&catalogue->files, catalogue->file_count, &catalogue->file_capacity,
                       sizeof(struct icl_study_file *), "studies", error));
    ICL_CHECK(icl_study_file_load(path, &paper, &file, error));
    catalogue->files[catalogue->file_count++] = file;
    return add_row(catalogue, icl_study_file_reproduction(file), paper, error);
}

/* ---- The whole ---- */

icl_status icl_catalogue_open(icl_catalogue *catalogue, icl_error *error) {
    path_list paths = {0};
    icl_status status = ICL_OK;

    *catalogue = (icl_catalogue){0};
    ICL_TRY(add_built_in(catalogue, error));
    ICL_TRY(list_paths(&paths, error));
    for (size_t i = 0; i < paths.count; i++)
        ICL_TRY(add_file(catalogue, paths.items[i], error));
done:
    for (size_t i = 0; i < paths.count; i++)
        icl_free(&paths.items[i]);
    icl_free(&paths.items);
    return status;
}

void icl_catalogue_close(icl_catalogue *catalogue) {
    for (size_t i = 0; i < catalogue->file_count; i++)
        icl_study_file_destroy(&catalogue->files[i]);
    icl_free(&catalogue->files);
    icl_free(&catalogue->rows);
    *catalogue = (icl_catalogue){0};
}

icl_status icl_catalogue_find(const icl_catalogue *catalogue, const char *name, const icl_reproduction **reproduction,
                              icl_error *error) {
    const char **names = NULL;
    icl_status status = ICL_OK;

    ICL_CHECK(icl_allocate(catalogue->count, sizeof *names, "names", &names, error));
    *reproduction = NULL;
    for (size_t i = 0; i < catalogue->count; i++) {
        names[i] = catalogue->rows[i].reproduction->name;
        if (strcmp(name, names[i]) == 0)
            *reproduction = catalogue->rows[i].reproduction;
    }
    if (!*reproduction)
        status = icl_fail(error, ICL_ERROR_INPUT, "reproduce: %s: unknown; the nearest known one is %s", name,
                          icl_nearest(name, names, catalogue->count));
    icl_free(&names);
    return status;
}
