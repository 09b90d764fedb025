/* Axes of grids, of sweeps and studies and of an evaluation: lists of values as text, and the key that takes them. */
#ifndef ICLAB_RUN_SWEEP_AXIS_H
#define ICLAB_RUN_SWEEP_AXIS_H

#include <stddef.h>

#include "iclab/recipe.h"
#include "iclab/status.h"

/* ---- Lists of values ---- */

/* A list as text: `1, 2, 4`, `1..3`, `5:40:5`, `fixed:0:1:0.25` and `"choice:1,3", uniform:5`. */

/* The most values of a list, and the most cells of a sweep. */
#define ICL_SWEEP_MOST 10000

typedef struct icl_list {
    char **values;
    size_t count, capacity;
} icl_list;

/* Reads values as in a record of a CSV file: separated by commas, without the blanks around them; a value that holds a
 * comma is in double quotes. FIRST..LAST, of whole numbers, means all from one to the other. FIRST:LAST:STEP, of any
 * numbers, means every STEP from FIRST on that does not pass LAST, upwards or downwards, also after a word:
 * fixed:0:1:0.25. ICL_ERROR_INPUT, without naming a place, for an empty list or value, an open quote, a range that ends
 * before it begins or whose step is 0, too many values, or a number after word:number, which needs quotes around both.
 * Clear it in any case. */
icl_status icl_list_parse(const char *text, icl_list *list, icl_error *error);
void icl_list_clear(icl_list *list);

/* ---- Axes ---- */

/* Bytes of "section.name". */
#define ICL_AXIS_NAME 64

typedef struct icl_axis {
    const icl_recipe_key *key;
    char name[ICL_AXIS_NAME]; /* "task.n" */
    char *origin;             /* the beginning of messages: file and line, or "--over" */
    icl_list list;
} icl_axis;

/* ICL_ERROR_INPUT if the key does not take a value, or if two values mean the same or would have one name in a folder.
 * `section` precedes the key in the message: "grid." */
icl_status icl_axis_check(const icl_recipe *base, const icl_axis *axis, const char *section, icl_error *error);
void icl_axis_clear(icl_axis *axis);

/* Returns the character, or '-' if some systems forbid it in file names or a shell needs quotes for it. */
char icl_axis_harmless(char c);

#endif
