/* One flat JSON object at a time, printed on one line, with numbers that read back exactly. */
#ifndef ICLAB_CORE_JSON_H
#define ICLAB_CORE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"

/* An object under construction. Zero is the empty object. Members keep their order; a failure to get memory is kept until
 * icl_json_finish. */
typedef struct icl_json {
    struct cJSON *object;
    bool failed;
} icl_json;

void icl_json_text(icl_json *json, const char *name, const char *value);
void icl_json_flag(icl_json *json, const char *name, bool value);
void icl_json_count(icl_json *json, const char *name, uint64_t value);

/* NaN and infinity, which JSON lacks, become null. */
void icl_json_number(icl_json *json, const char *name, double value);

/* Hands out the text, freed with icl_free, and clears the object. One line without a newline; `pretty`: one member a line, and a
 * newline at the end. */
icl_status icl_json_finish(icl_json *json, bool pretty, char **text, icl_error *error);

/* Gives up an object that is not to be finished. */
void icl_json_discard(icl_json *json);

#endif
