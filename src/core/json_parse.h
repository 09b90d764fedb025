/* JSON parsing that tells invalid text from a lack of memory. */
#ifndef ICLAB_CORE_JSON_PARSE_H
#define ICLAB_CORE_JSON_PARSE_H

#include <cJSON.h>
#include <stddef.h>

#include "iclab/status.h"

/* Parses the JSON value at the beginning of a text of `length` bytes. *parsed, freed with cJSON_Delete, is NULL if
 * there is none. *end is the first byte after the value; `end` may be NULL. ICL_ERROR_MEMORY if memory ran out; the
 * message calls the text WHAT. */
icl_status icl_json_parse(const char *text, size_t length, const char *what, cJSON **parsed, const char **end,
                          icl_error *error);

#endif
