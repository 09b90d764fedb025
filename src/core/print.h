/* Printing with a decimal point, whatever the locale of the program that links the library. */
#ifndef ICLAB_CORE_PRINT_H
#define ICLAB_CORE_PRINT_H

#include <stdarg.h>
#include <stddef.h>

#include "iclab/export.h"

/* snprintf and vsnprintf in the numeric locale "C". They print every text that holds a number with a fraction. */
int icl_print(char *text, size_t size, const char *format, ...) ICL_PRINTF(3, 4);
int icl_print_list(char *text, size_t size, const char *format, va_list arguments) ICL_PRINTF(3, 0);

/* ---- Text from elsewhere, made fit for one line of a message and for JSON ---- */

/* Copies the text into `out`: control characters become blanks and bytes that are not UTF-8 become '?'; what does not
 * fit in `capacity` bytes (at least 4) ends with "...". Returns `out`. */
const char *icl_printable(const char *text, char *out, size_t capacity);

/* Replaces, in place, each byte that is not part of valid UTF-8 by '?'. */
void icl_make_utf8(char *text);

#endif
