/* Grids: lists of values as text, axes, and sections of files that hold keys of recipes. */
#ifndef ICLAB_RUN_SWEEP_GRID_H
#define ICLAB_RUN_SWEEP_GRID_H

#include <stddef.h>

#include "iclab/recipe.h"
#include "iclab/status.h"
#include "run/sweep/sweep.h"

/* ---- Lists of values ---- */

/* A list as text: `1, 2, 4`, `1..3`, `5:40:5`, `fixed:0:1:0.25` and `"choice:1,3", uniform:5`. */

/* Most values of one list, and most cells of a sweep. */
#define ICL_SWEEP_MOST 10000

typedef struct icl_list {
    char **values;
    size_t count, capacity;
} icl_list;

/*
 * Values as in a record of a CSV file: separated by commas, without the blanks around them, one that itself holds a
 * comma in double quotes. FIRST..LAST, of whole numbers, is all from one to the other. FIRST:LAST:STEP, of any numbers,
 * is every STEP from FIRST on that does not pass LAST, upwards or downwards, also behind a word: fixed:0:1:0.25.
 * ICL_ERROR_INPUT, without saying where, for an empty list or value, an open quote, a range that ends before it begins
 * or whose step is 0, too many values, or a number behind word:number, which wants quotes around both. Clear it in any
 * case.
 */
icl_status icl_list_parse(const char *text, icl_list *list, icl_error *error);
void icl_list_clear(icl_list *list);

/* ---- Axes ---- */

/* Bytes of "section.name". */
#define ICL_AXIS_NAME 64

typedef struct icl_axis {
    const icl_recipe_key *key;
    char name[ICL_AXIS_NAME]; /* "task.n" */
    char *origin;             /* what messages begin with: file and line, or "--over" */
    icl_list list;
} icl_axis;

/* ICL_ERROR_INPUT where the key does not take a value, or where two values mean the same or would have one name in a
 * folder. `section` stands before the key in the message: "grid." */
icl_status icl_axis_check(const icl_recipe *base, const icl_axis *axis, const char *section, icl_error *error);
void icl_axis_clear(icl_axis *axis);

/* The character, or '-' for one that may not stand in a file name everywhere or needs quotes in a shell. */
char icl_axis_harmless(char c);

/* ---- Grids in files ---- */

/* Sweeps and studies are files whose sections hold keys of recipes, "task.n", as settings or as a grid. */

/* The table of keys of such a file. Zero is an empty one. */
typedef struct icl_grid_keys {
    icl_recipe_key *rows;         /* [count] */
    char (*names)[ICL_AXIS_NAME]; /* of all keys of recipes, "task.d"; NULL before they are needed */
    size_t count, capacity;
} icl_grid_keys;

/* Adds a key, or all keys of recipes as texts in a section, which outlives the table. Release it in any case. */
icl_status icl_grid_keys_add(icl_grid_keys *keys, const icl_recipe_key *row, icl_error *error);
icl_status icl_grid_keys_add_recipe(icl_grid_keys *keys, const char *section, icl_error *error);
void icl_grid_keys_release(icl_grid_keys *keys);

/* Gives the recipe the values that a section of the file has. ICL_ERROR_INPUT names file and line. */
icl_status icl_grid_set(const icl_recipe *file, const char *section, icl_recipe *recipe, icl_error *error);

/* The recipe that a file names: a file beside it, or what iclab train finds by that name. */
icl_status icl_grid_load_recipe(const char *file_path, const char *name, icl_recipe **recipe, icl_error *error);

/* The place that a grid is read from. */
typedef struct icl_grid_source {
    const char *path;            /* of the file, for messages */
    const icl_recipe *file;      /* read over such a table */
    const char *const *sections; /* of the grid, NULL behind the last: the last that has a key counts */
    const char *const *fixed;    /* of settings: a key that one of them has is in no grid */
    const icl_recipe *base;      /* with these settings; copied */
    const char *recipe_name;     /* of the base, as the file has it */
} icl_grid_source;

/* Reads the grid as icl_sweep_load does. */
icl_status icl_grid_read(const icl_grid_source *from, icl_sweep **sweep, icl_error *error);

/* The name of a cell without its seed, freed with icl_free; empty where the grid has seeds alone. */
icl_status icl_grid_point_name(const icl_sweep *sweep, size_t cell, char **name, icl_error *error);

#endif
