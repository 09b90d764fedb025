/* Printing with a decimal point, whatever the locale of the program that links the library. */
#ifndef ICLAB_CORE_PRINT_H
#define ICLAB_CORE_PRINT_H

#include <stdarg.h>
#include <stddef.h>

#include "iclab/export.h"

/* snprintf and vsnprintf in the numeric locale "C". Every text with a number that is no integer is printed by these. */
int icl_print(char *text, size_t size, const char *format, ...) ICL_PRINTF(3, 4);
int icl_print_list(char *text, size_t size, const char *format, va_list arguments) ICL_PRINTF(3, 0);

/* ---- Text from elsewhere, made fit for one line of a message and for JSON ---- */

/* Copies the text into `out`: control characters become blanks and bytes that are not UTF-8 become '?'; what does not
 * fit in `capacity` bytes (at least 4) ends with "...". Returns `out`. */
const char *icl_printable(const char *text, char *out, size_t capacity);

/* In place: each byte that belongs to no UTF-8 becomes '?'. */
void icl_make_utf8(char *text);

#endif
