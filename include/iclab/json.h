/* JSON objects, printed on one line, with numbers that read back exactly. */
#ifndef ICLAB_JSON_H
#define ICLAB_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "iclab/status.h"

ICL_C_BEGIN

/* An object under construction. Zero is the empty object. Members keep their order; a failure to get memory is kept
 * until icl_json_finish. */
typedef struct icl_json {
    struct cJSON *object; /* private */
    bool failed;          /* there was no memory */
} icl_json;

/* Add a member. The name and a text are copied; a NULL text is null. */
ICL_API void icl_json_text(icl_json *json, const char *name, const char *value);
ICL_API void icl_json_flag(icl_json *json, const char *name, bool value);
ICL_API void icl_json_count(icl_json *json, const char *name, uint64_t value);

/* NaN and infinity, which JSON lacks, become null. */
ICL_API void icl_json_number(icl_json *json, const char *name, double value);

/* Adds `row` to the end of the array `name`, which is created with its first row, and clears `row`. */
ICL_API void icl_json_append(icl_json *json, const char *name, icl_json *row);

/* Returns the text, freed with icl_text_free, and clears the object. One line without a newline; with `pretty`, one
 * member a line and a newline at the end. */
ICL_API icl_status icl_json_finish(icl_json *json, bool pretty, char **text, icl_error *error);

/* Discards an object that is not to be finished. */
ICL_API void icl_json_discard(icl_json *json);

ICL_C_END

#endif
