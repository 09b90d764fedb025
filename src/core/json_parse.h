/* JSON that tells a text that is no JSON from one that there is no memory for. */
#ifndef ICLAB_CORE_JSON_PARSE_H
#define ICLAB_CORE_JSON_PARSE_H

#include <cJSON.h>
#include <stddef.h>

#include "iclab/status.h"

/* Parses the value that a text of `length` bytes begins with. *parsed, freed with cJSON_Delete, becomes NULL where
 * there is none. *end, which may be NULL, becomes the first byte behind the value. ICL_ERROR_MEMORY where memory ran
 * out; the message calls the text WHAT. */
icl_status icl_json_parse(const char *text, size_t length, const char *what, cJSON **parsed, const char **end,
                          icl_error *error);

#endif
