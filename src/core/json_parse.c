#include "core/json_parse.h"

#include <errno.h>

/* cJSON returns NULL in both cases, but malloc alone sets ENOMEM. */
icl_status icl_json_parse(const char *text, size_t length, const char *what, cJSON **parsed, const char **end,
                          icl_error *error) {
    errno = 0;
    *parsed = cJSON_ParseWithLengthOpts(text, length, end, 0);
    return !*parsed && errno == ENOMEM ? icl_fail(error, ICL_ERROR_MEMORY, "%s: no memory to read its JSON", what)
                                       : ICL_OK;
}
