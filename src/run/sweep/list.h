/* Lists of values as text: `1, 2, 4`, `1..3`, `5:40:5`, `fixed:0:1:0.25` and `"choice:1,3", uniform:5`. */
#ifndef ICLAB_RUN_SWEEP_LIST_H
#define ICLAB_RUN_SWEEP_LIST_H

#include <stddef.h>

#include "iclab/status.h"

/* Most values of one list, and most cells of a sweep. */
#define ICL_SWEEP_MOST 10000

typedef struct icl_list {
    char **values;
    size_t count, capacity;
} icl_list;

/*
 * Values as in a record of a CSV file: separated by commas, without the blanks around them, one that itself holds a
 * comma in double quotes. FIRST..LAST, of whole numbers, is all from one to the other. FIRST:LAST:STEP, of any numbers,
 * is every STEP from FIRST on that does not pass LAST, upwards or downwards, also behind a word: fixed:0:1:0.25.
 * ICL_ERROR_INPUT, without saying where, for an empty list or value, an open quote, a range that ends before it begins
 * or whose step is 0, too many values, or a number behind word:number, which wants quotes around both. Clear it in any
 * case.
 */
icl_status icl_list_parse(const char *text, icl_list *list, icl_error *error);
void icl_list_clear(icl_list *list);

#endif
