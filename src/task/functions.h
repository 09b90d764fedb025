/* Inside the task room: functions on the sphere, between the family (functions.c) and its reference predictors. */
#ifndef ICLAB_TASK_FUNCTIONS_H
#define ICLAB_TASK_FUNCTIONS_H

#include "iclab/task_family.h"

/* What the predictors are fitted to, once, when the first of them is asked. */
typedef struct icl_functions_fit {
    bool is_there;
    double bandwidth;  /* h of the kernel */
    size_t neighbours; /* k */
} icl_functions_fit;

/* The task's own. */
icl_functions_fit *icl_functions_fit_of(const icl_task *task);

const icl_reference_predictor *icl_functions_references(const icl_task *task);

#endif
