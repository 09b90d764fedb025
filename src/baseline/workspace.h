/* Private memory of each thread that decomposes sequences. */
#ifndef ICLAB_BASELINE_WORKSPACE_H
#define ICLAB_BASELINE_WORKSPACE_H

#include "baseline/estimator.h"

typedef struct icl_workspace {
    icl_spectrum spectra[ICL_BASIS_COUNT]; /* the input basis only where it is wanted and differs */
    double *filter;                        /* [d] */
    float *tokens;                         /* [n + 1][d + 1], where labels do not stand beside their inputs */
} icl_workspace;

typedef struct icl_workspaces {
    const icl_task_prior *prior;
    size_t threads;
    bool both_bases;
    icl_workspace *workspaces; /* [threads] */
} icl_workspaces;

/* One workspace for each of icl_parallel_threads(). The prior is borrowed. Release with icl_workspaces_destroy, also
 * after a failure. */
icl_status icl_workspaces_create(const icl_task_prior *prior, bool both_bases, icl_workspaces *all, icl_error *error);
void icl_workspaces_destroy(icl_workspaces *all);

/* The bytes that their arrays of a sequence's length take. */
double icl_workspaces_bytes(const icl_task_prior *prior, bool both_bases);

/* Decomposes the pairs before position n, the prior's context, of inputs [T][d + 1], and that position's input as the
 * query, in the bases that the workspaces are for. */
void icl_workspace_load(const icl_workspaces *all, icl_workspace *workspace, const float *inputs);

/* The sequence in the basis that an estimator works in. */
const icl_spectrum *icl_workspace_spectrum(const icl_workspaces *all, const icl_workspace *workspace, icl_basis basis);

#endif
