/* Text from elsewhere, made fit for one line of a message and for JSON. */
#ifndef ICLAB_CORE_PRINTABLE_H
#define ICLAB_CORE_PRINTABLE_H

#include <stddef.h>

/* Copies the text into `out`: control characters become blanks and bytes that are not UTF-8 become '?'; what does not
 * fit in `capacity` bytes (at least 4) ends with "...". Returns `out`. */
const char *icl_printable(const char *text, char *out, size_t capacity);

/* In place: each byte that belongs to no UTF-8 becomes '?'. */
void icl_make_utf8(char *text);

#endif
