/*
 * Sweeps: a recipe on a grid of values, every cell a run folder, one table of results.
 *
 *     [sweep]
 *     recipe = versatile-table1            ; a recipe's name or file, beside the sweep's own file
 *                                          or wherever iclab train finds it
 *     [set]
 *     train.steps = 500                    ; the same for all cells
 *     [grid]
 *     model.layers = 1, 2, 3               ; 1..3 or 1:3:1 are the same
 *     task.noise = "choice:1,3", uniform:5 ; quotes where a value holds a comma
 *     train.seed = 1..3                    ; seeds are repetitions: the table has their mean
 *
 * Keys of the grid have the order of the table of recipe keys, train.seed last; cells are numbered row by row, the last
 * key's values fastest. The name of a cell depends only on its values, so that a grid can grow and keep its cells.
 */
#ifndef ICLAB_RUN_SWEEP_SWEEP_H
#define ICLAB_RUN_SWEEP_SWEEP_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iclab/backend.h"
#include "iclab/families.h"
#include "iclab/ranks.h"
#include "iclab/recipe.h"
#include "iclab/status.h"

/* A recipe with a grid of values. */
typedef struct icl_sweep icl_sweep;

/* ---- The file (cells.c) and its grid (grid.c) ---- */

/* Reads a sweep's file, with the families of a program (NULL: none), which must outlive it. ICL_ERROR_INPUT names file,
 * line and what was expected: for keys that do not exist, empty lists, values that are listed twice or that the key
 * does not take. */
icl_status icl_sweep_load(const char *path, const icl_families *families, icl_sweep **sweep, icl_error *error);
void icl_sweep_destroy(icl_sweep **sweep);

/* Returns the base recipe's name as the file has it. */
const char *icl_sweep_recipe_name(const icl_sweep *sweep);

/* Returns the number of combinations of values: cells are numbered from 0. */
size_t icl_sweep_cells(const icl_sweep *sweep);

/* The keys of the grid, "model.layers", and a cell's value of one. */
size_t icl_sweep_axes(const icl_sweep *sweep);
const char *icl_sweep_axis(const icl_sweep *sweep, size_t axis);
const char *icl_sweep_value(const icl_sweep *sweep, size_t cell, size_t axis);

/* Returns how many consecutive cells differ only in their seed; 1 if the grid has no train.seed. */
size_t icl_sweep_seeds(const icl_sweep *sweep);

/* Writes the name of a cell's folder, "layers-3_noise-choice-1-3_seed-2"; freed with icl_text_free. */
icl_status icl_sweep_cell_name(const icl_sweep *sweep, size_t cell, char **name, icl_error *error);

/* Makes a cell's complete recipe; destroyed with icl_recipe_destroy. */
icl_status icl_sweep_cell_recipe(const icl_sweep *sweep, size_t cell, icl_recipe **recipe, icl_error *error);

/* ---- Results (cells.c) ---- */

/* The content of result.json of a cell. */
typedef struct icl_sweep_result {
    bool finished;                 /* if false, the rest has no meaning */
    bool diverged;                 /* its numbers are NaN then */
    uint64_t steps, skipped_steps; /* done; see iclab/train.h */
    double final_loss;             /* mean of the batch losses in the last tenth of metrics.csv */
    double mse, se;                /* the model's: see iclab/evaluate.h */
    double accuracy;               /* likewise; NaN if the loss has none */
    double adjusted, adjusted_se;  /* likewise; NaN without an oracle */
    double seconds;                /* training time since the cell was last started */
    bool is_loss;                  /* mse is the mean of the task's own loss, which is not the squared error */
} icl_sweep_result;

/* Reads a cell's result; a missing one is not an error. ICL_ERROR_INPUT if the file holds something else. */
icl_status icl_sweep_read_result(const icl_sweep *sweep, const char *folder, size_t cell, icl_sweep_result *result,
                                 icl_error *error);

/* Counts the cells that are finished. ICL_ERROR_INPUT if a cell's folder holds a run of another recipe, or, with
 * check_all, if a cell's recipe cannot be trained: that creates the trainers of all unfinished cells, one after
 * another, on the host. */
icl_status icl_sweep_survey(const icl_sweep *sweep, const char *folder, bool check_all, size_t *finished,
                            icl_error *error);

/* ---- Work (cells.c) ---- */

/* Work on a sweep by one process. */
typedef struct icl_sweep_work_params {
    const icl_sweep *sweep;                    /* the sweep */
    const char *folder;                        /* holds a folder for each cell */
    icl_backend *backend;                      /* the backend that trains and evaluates */
    const char *command_line;                  /* for the record, as in icl_run_facts */
    const volatile sig_atomic_t *stop;         /* may be NULL */
    long parent;                               /* stop when this is no longer the parent process; 0: never */
    void (*say)(void *user, const char *text); /* receives progress, one line; may be NULL */
    /* Called for a cell that this process finished, with its folder; may be NULL. Its failure ends the work. */
    icl_status (*finish)(void *user, const icl_backend *backend, size_t cell, const char *folder,
                         const icl_sweep_result *result, icl_error *error);
    void *user; /* passed to the calls above */
} icl_sweep_work_params;

/* Trains and evaluates cells until all are finished. Any number of processes, on any machines that share the folder,
 * may do so at once: a cell belongs to whoever holds the lock on its file in claims/. Locks end with their process, so
 * that a dead worker's cell is free at once and the next one goes on from its checkpoint; nothing has to be agreed on
 * beforehand or cleaned up afterwards. Waits for cells that others hold. A cell that diverges is finished.
 * ICL_ERROR_INTERRUPTED when stopped. */
icl_status icl_sweep_work(const icl_sweep_work_params *params, icl_error *error);

/* ---- Workers (workers.c) ---- */

/* Work on a sweep by several processes. */
typedef struct icl_sweep_workers_params {
    icl_sweep_work_params work;                 /* all set but backend and parent */
    icl_backend_params device;                  /* spec is not read */
    size_t count;                               /* processes */
    char (*specs)[ICL_NAME_CAPACITY];           /* [count]: each worker's device */
    void (*fail)(void *user, const char *text); /* receives why a worker gives up, one line; may be NULL */
} icl_sweep_workers_params;

/* Runs icl_sweep_work in `count` processes, each with its own device; with a count of 1 in this process. The process
 * must have no device open and no threads. Passes a stop on. The first worker's failure becomes the call's, after the
 * others have finished what they can. */
icl_status icl_sweep_run_workers(const icl_sweep_workers_params *params, icl_error *error);

/* ---- The table (table.c) ---- */

/* The table of all cells for people, followed, if there are seeds, by that of their means; the same two as CSV (the
 * second may be empty); lines of JSON: an object for each cell, and separately an object for each mean. `results` has
 * one entry per cell. Free them in any case. */
typedef struct icl_sweep_texts {
    char *table, *cells_csv, *means_csv, *json, *means_json; /* in that order */
} icl_sweep_texts;

/* Makes the texts from the results of all cells. */
icl_status icl_sweep_write_texts(const icl_sweep *sweep, const icl_sweep_result *results, icl_sweep_texts *texts,
                                 icl_error *error);
/* Frees all of them, and sets them to NULL. */
void icl_sweep_free_texts(icl_sweep_texts *texts);

/* ---- Points of the grid (points.c) ---- */

/* Cells that differ only in their seed. Means leave out those that diverged. */
typedef struct icl_sweep_point {
    size_t cell, seeds, diverged; /* the first of its cells, how many there are, and how many of them diverged */
    double error, se;             /* on fresh sequences; its error over seeds, or the evaluation's for one seed */
    double final_loss;            /* mean of the cells' final losses */
} icl_sweep_point;

/* The summarised points of a grid: groups of cells that differ only in their seed. */
typedef struct icl_sweep_points {
    size_t count;        /* the number of points */
    icl_sweep_point *of; /* [count] */
    bool is_adjusted;    /* errors are half of the squared distance to the oracle; otherwise mse */
    size_t best;         /* the point of least error, of those where no cell diverged; `count` if there is none */
    size_t close;        /* other points that are not clearly worse: by at most 2 standard errors of the difference */
} icl_sweep_points;

/* Sums up the results of all cells. Free the points in any case. */
icl_status icl_sweep_find_points(const icl_sweep *sweep, const icl_sweep_result *results, icl_sweep_points *points,
                                 icl_error *error);
/* Frees them. */
void icl_sweep_free_points(icl_sweep_points *points);

#endif
