/* Grids: sections of files that hold keys of recipes, and their cells. */
#ifndef ICLAB_RUN_SWEEP_GRID_H
#define ICLAB_RUN_SWEEP_GRID_H

#include <stddef.h>

#include "iclab/recipe.h"
#include "iclab/status.h"
#include "run/sweep/axis.h"
#include "run/sweep/sweep.h"

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
