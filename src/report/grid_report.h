/* Reports of evaluation grids, of sweeps and of their cells. */
#ifndef ICLAB_REPORT_GRID_REPORT_H
#define ICLAB_REPORT_GRID_REPORT_H

#include "iclab/run.h"
#include "iclab/run_report.h"
#include "run/evaluation_grid.h"
#include "run/sweep/sweep.h"

/* Parameters of the report of an evaluation grid. */
typedef struct icl_grid_report {
    const char *folder;              /* takes the report and its pictures */
    const icl_evaluation_grid *grid; /* a grid that was run */
    const icl_run_facts *facts;      /* device, recipe's name, seed, command line */
    icl_status (*draw)(void *user, const char *folder, const char *script,
                       icl_error *error); /* see icl_drawing; may be NULL */
    void *user;                           /* passed to the call above */
} icl_grid_report;

/* Writes figures and report.html into the folder. One key: the figures loss (every predictor's over its values) and, if
 * several positions are scored, positions (the model's at each). Two keys, the model's only: map (by both) and loss
 * (over the first, with a curve for each value of the second). */
icl_status icl_grid_report_write(const icl_grid_report *params, icl_error *error);

/* Parameters of the reports of a sweep. */
typedef struct icl_sweep_report {
    const char *folder;       /* the sweep's folder */
    const icl_sweep *sweep;   /* a sweep whose cells are all finished */
    const char *command_line; /* for the record; may be NULL */
    icl_status (*draw)(void *user, const char *folder, const char *script,
                       icl_error *error); /* see icl_drawing; may be NULL */
    void *user;                           /* passed to the call above */
} icl_sweep_report;

/* Writes the figure errors, over the first key of the grid with a curve for each point of the others, and report.html:
 * means over seeds with the best row marked, and all cells with links to their reports. results [cells]. */
icl_status icl_sweep_report_write(const icl_sweep_report *params, const icl_sweep_result *results, icl_error *error);

/* Writes the report of one cell, which the backend finished in its own folder, and the figures of its training. Writes
 * nothing for a cell that diverged. */
icl_status icl_sweep_cell_report_write(const icl_sweep_report *params, const icl_backend *backend, size_t cell,
                                       const char *folder, const icl_sweep_result *result, icl_error *error);

#endif
