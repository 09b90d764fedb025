/* Internals of functions on the sphere (functions.c), for code that inspects models of them. */
#ifndef ICLAB_TASK_FUNCTIONS_H
#define ICLAB_TASK_FUNCTIONS_H

#include "iclab/task.h"

/* The directions of the inputs that functions depend on, task.subspace. */
typedef struct icl_subspace {
    size_t directions;      /* k; 0: all of x counts */
    const double *rotation; /* [d][d], orthonormal columns, of which the first k span the subspace; NULL without one */
} icl_subspace;

/* Returns the subspace of a task of functions, in the task's memory; that of all directions for every other task. */
icl_subspace icl_task_subspace(const icl_task *task);

/* The fit of the reference predictors nearest and kernel, made once, when the first of them is asked. */
typedef struct icl_functions_fit {
    bool is_done;
    double bandwidth;  /* h of the kernel */
    size_t neighbours; /* k */
} icl_functions_fit;

/* Returns the fit of a task of functions, which the task owns. */
const icl_functions_fit *icl_functions_get_fit(const icl_task *task);

#endif
