/* Sweeps and studies are files whose sections hold keys of recipes, "task.n", as settings or as a grid. */
#ifndef ICLAB_RUN_SWEEP_GRID_H
#define ICLAB_RUN_SWEEP_GRID_H

#include "iclab/sweep.h"
#include "run/sweep/axis.h"

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
