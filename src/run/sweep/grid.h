/* Grids: sections of files that hold keys of recipes, and their cells. */
#ifndef ICLAB_RUN_SWEEP_GRID_H
#define ICLAB_RUN_SWEEP_GRID_H

#include <stddef.h>

#include "iclab/recipe.h"
#include "iclab/status.h"
#include "run/sweep/sweep.h"

/* ---- Lists of values ---- */

/* A list as text: `1, 2, 4`, `1..3`, `5:40:5`, `fixed:0:1:0.25` and `"choice:1,3", uniform:5`. */

/* The most values of a list, and the most cells of a sweep. */
#define ICL_SWEEP_MOST 10000

typedef struct icl_list {
    char **values;
    size_t count, capacity;
} icl_list;

/* Reads values as in a record of a CSV file: separated by commas, without the blanks around them; a value that holds a
 * comma is in double quotes. FIRST..LAST, of whole numbers, means all from one to the other. FIRST:LAST:STEP, of any
 * numbers, means every STEP from FIRST on that does not pass LAST, upwards or downwards, also after a word:
 * fixed:0:1:0.25. ICL_ERROR_INPUT, without naming a place, for an empty list or value, an open quote, a range that ends
 * before it begins or whose step is 0, too many values, or a number after word:number, which needs quotes around both.
 * Clear it in any case. */
icl_status icl_list_parse(const char *text, icl_list *list, icl_error *error);
void icl_list_clear(icl_list *list);

/* ---- Axes ---- */

/* Bytes of "section.name". */
#define ICL_AXIS_NAME 64

typedef struct icl_axis {
    const icl_recipe_key *key;
    char name[ICL_AXIS_NAME]; /* "task.n" */
    char *origin;             /* the beginning of messages: file and line, or "--over" */
    icl_list list;
} icl_axis;

/* ICL_ERROR_INPUT if the key does not take a value, or if two values mean the same or would have one name in a folder.
 * `section` precedes the key in the message: "grid." */
icl_status icl_axis_check(const icl_recipe *base, const icl_axis *axis, const char *section, icl_error *error);
void icl_axis_clear(icl_axis *axis);

/* Returns the character, or '-' if some systems forbid it in file names or a shell needs quotes for it. */
char icl_axis_harmless(char c);

/* ---- Grids in files ---- */

/* Sweeps and studies are files whose sections hold keys of recipes, "task.n", as settings or as a grid. */

/* The table of keys of such a file; empty if zero. */
typedef struct icl_grid_keys {
    icl_recipe_key *rows;         /* [count] */
    char (*names)[ICL_AXIS_NAME]; /* names of all recipe keys, "task.d"; NULL until needed */
    size_t count, capacity;
} icl_grid_keys;

/* Add a key, or all keys of the recipe, always the same, as texts in a section, which must outlive the table. Release
 * it in any case. */
icl_status icl_grid_keys_add(icl_grid_keys *keys, const icl_recipe_key *row, icl_error *error);
icl_status icl_grid_keys_add_recipe(icl_grid_keys *keys, const icl_recipe *recipe, const char *section,
                                    icl_error *error);
void icl_grid_keys_release(icl_grid_keys *keys);

/* Gives the recipe the values that a section of the file has. ICL_ERROR_INPUT names file and line. */
icl_status icl_grid_set(const icl_recipe *file, const char *section, icl_recipe *recipe, icl_error *error);

/* Loads the recipe that a file names: a file next to it, or what iclab train finds by that name; with the families. */
icl_status icl_grid_load_recipe(const char *file_path, const char *name, const icl_families *families,
                                icl_recipe **recipe, icl_error *error);

/* The place from which a grid is read. */
typedef struct icl_grid_source {
    const char *path;            /* the file's path, for messages */
    const icl_recipe *file;      /* read with such a table of keys */
    const char *const *sections; /* the grid's sections, NULL-terminated: the last that has a key counts */
    const char *const *fixed;    /* the settings' sections: a key in one of them is in no grid */
    const icl_recipe *base;      /* the recipe with these settings; copied */
    const char *recipe_name;     /* the base's name in the file */
} icl_grid_source;

/* Reads the grid as icl_sweep_load does. */
icl_status icl_grid_read(const icl_grid_source *from, icl_sweep **sweep, icl_error *error);

/* Writes the name of a cell without its seed, freed with icl_free; empty if the grid has only seeds. */
icl_status icl_grid_point_name(const icl_sweep *sweep, size_t cell, char **name, icl_error *error);

#endif
