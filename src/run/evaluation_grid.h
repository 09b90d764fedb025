/*
 * Evaluation grids: a trained model and the reference predictors on tasks that differ in one key of the recipe or in
 * two, which shows the effect of a shift between a model's training and its use.
 *
 *     task.n=5:40:5                        every fifth from 5 to 40
 *     task.n=5:40:5,task.noise=0,0.1,0.5   the grid of both; where a value holds a comma it needs double quotes
 *
 * Values are those of a sweep's [grid] (sweep.h). Cells are numbered from 0, row by row, the last key's values
 * fastest. Every cell equals icl_evaluate of the run's recipe with its values.
 */
#ifndef ICLAB_RUN_EVALUATION_GRID_H
#define ICLAB_RUN_EVALUATION_GRID_H

#include <stddef.h>

#include "iclab/evaluate.h"
#include "iclab/recipe.h"

/* The most keys and cells of a grid. */
#define ICL_EVALUATION_GRID_AXES  2
#define ICL_EVALUATION_GRID_CELLS 1000

/* A run's recipe with values of some keys, and the results. */
typedef struct icl_evaluation_grid icl_evaluation_grid;

/* ---- The grid ---- */

/* Reads `count` texts as above, whose keys come one after another. ICL_ERROR_INPUT names the key or value that it
 * refuses: a key that does not exist, that evaluation cannot change (all of [train], and all of [model] but
 * model.loops) or that is given twice; an empty list or range; a value that the key does not take; too many keys or
 * cells. */
icl_status icl_evaluation_grid_create(const icl_recipe *recipe, const char *const *texts, size_t count,
                                      icl_evaluation_grid **grid, icl_error *error);
void icl_evaluation_grid_destroy(icl_evaluation_grid **grid);

/* Return the number of cells, the number of keys, a key such as "task.n", the number of its values, and a cell's value
 * of it. */
size_t icl_evaluation_grid_cells(const icl_evaluation_grid *grid);
size_t icl_evaluation_grid_axes(const icl_evaluation_grid *grid);
const char *icl_evaluation_grid_axis(const icl_evaluation_grid *grid, size_t axis);
size_t icl_evaluation_grid_values(const icl_evaluation_grid *grid, size_t axis);
const char *icl_evaluation_grid_value(const icl_evaluation_grid *grid, size_t cell, size_t axis);

/* Sets *name to "n" or "n_noise", for a folder of results. Freed with icl_text_free. */
icl_status icl_evaluation_grid_name(const icl_evaluation_grid *grid, char **name, icl_error *error);

/* ---- Evaluation ---- */

/* Parameters of an evaluation of a grid. */
typedef struct icl_evaluation_grid_params {
    icl_backend *backend;                                  /* the backend that evaluates */
    const char *folder;                                    /* the run's folder */
    void (*report)(void *user, size_t done, size_t cells); /* called after each cell; may be NULL */
    void *user;                                            /* passed to the call above */
} icl_evaluation_grid_params;

/* Evaluates all cells, once. ICL_ERROR_INPUT, before the first, names a cell that cannot be evaluated: its task refuses
 * a value or does not read a key, or the run's model does not fit the task. */
icl_status icl_evaluation_grid_run(icl_evaluation_grid *grid, const icl_evaluation_grid_params *params,
                                   icl_error *error);

/* The results of the run: predictors in the order in which cells first have them, "model" first; and a cell's result
 * for one, NULL if the cell has no such predictor. */
size_t icl_evaluation_grid_predictors(const icl_evaluation_grid *grid);
const char *icl_evaluation_grid_predictor(const icl_evaluation_grid *grid, size_t predictor);
const icl_score *icl_evaluation_grid_score(const icl_evaluation_grid *grid, size_t cell, size_t predictor);

/* Returns the number of fresh sequences of every cell; 0 if cells differ in that. */
uint64_t icl_evaluation_grid_sequences(const icl_evaluation_grid *grid);

/* ---- Texts ---- */

/* The table of losses for people, followed, if there are two keys, by a table of the model's loss by both; a row for
 * each cell and predictor, as CSV and as lines of JSON; if several positions are scored, a row for each of them, as CSV
 * (else empty). Free them in any case. */
typedef struct icl_evaluation_grid_texts {
    char *table, *csv, *json, *positions_csv; /* in that order */
} icl_evaluation_grid_texts;

/* Writes the texts of a grid that was run. */
icl_status icl_evaluation_grid_write_texts(const icl_evaluation_grid *grid, icl_evaluation_grid_texts *texts,
                                           icl_error *error);
/* Frees all of them, and sets them to NULL. */
void icl_evaluation_grid_free_texts(icl_evaluation_grid_texts *texts);

#endif
