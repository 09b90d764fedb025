/* Rows that are JSON objects, as CSV. */
#ifndef ICLAB_RUN_RESULT_CSV_H
#define ICLAB_RUN_RESULT_CSV_H

#include <cJSON.h>

#include "iclab/status.h"
#include "iclab/text.h"

/* Adds a header of all members' names, in the order in which rows first have them, and a line for each row: texts in
 * quotes, numbers in full, nothing for null and for what a row lacks. Members that are arrays or objects are left out.
 * `rows` is an array of objects. */
icl_status icl_result_csv(const cJSON *rows, icl_text *csv, icl_error *error);

/* Finds the name of the next member, behind the one named `after` (NULL: of the first), that is an array of objects in
 * the first row; NULL: there is none. */
const char *icl_result_nested(const cJSON *rows, const char *after);

/* Makes rows of such a member's objects, each behind the texts that its outer row begins with; deleted with
 * cJSON_Delete. */
icl_status icl_result_unfold(const cJSON *rows, const char *member, cJSON **unfolded, icl_error *error);

#endif
