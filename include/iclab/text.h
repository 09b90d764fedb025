/* Text that grows, for files that are written as a whole. */
#ifndef ICLAB_TEXT_H
#define ICLAB_TEXT_H

#include <stddef.h>

#include "iclab/status.h"

ICL_C_BEGIN

/* Zero is the empty text, which icl_text_release leaves behind. A failed addition leaves the text unchanged. */
typedef struct icl_text {
    char *bytes;             /* with a NUL after the last one; NULL while nothing was ever added */
    size_t length, capacity; /* bytes in use, the NUL not counted; bytes allocated */
} icl_text;

/* Frees the bytes. */
ICL_API void icl_text_release(icl_text *text);

/* Adds `length` bytes as they are. */
ICL_API icl_status icl_text_append(icl_text *text, const char *bytes, size_t length, icl_error *error);

/* Adds what the format prints, of any length. */
ICL_API icl_status icl_text_print(icl_text *text, icl_error *error, const char *format, ...) ICL_PRINTF(3, 4);

/* Adds text in quotes, inside which quotes are doubled; it stays on one line: control characters become blanks. */
ICL_API icl_status icl_text_quote(icl_text *text, const char *content, char quote, icl_error *error);

/* Add a field of a CSV file (RFC 4180), and then `after`: text in quotes, inside which quotes are doubled and line
 * feeds stay; or a number in full, NaN as nothing. */
ICL_API icl_status icl_text_field(icl_text *text, const char *content, const char *after, icl_error *error);
ICL_API icl_status icl_text_number_field(icl_text *text, double value, const char *after, icl_error *error);

ICL_C_END

#endif
