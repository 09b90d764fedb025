/* The axes of grids: a recipe key with the values that it has, of sweeps and of evaluation grids. */
#ifndef ICLAB_RUN_SWEEP_AXIS_H
#define ICLAB_RUN_SWEEP_AXIS_H

#include "iclab/recipe.h"
#include "run/sweep/list.h"

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

#endif
