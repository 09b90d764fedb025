/* Numbers as text: strict, exact, and the same in every locale. */
#ifndef ICLAB_NUMBER_H
#define ICLAB_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iclab/export.h"

ICL_C_BEGIN

/* Room for any number that the functions below print, with its terminator. */
#define ICL_NUMBER_CAPACITY 32

/* Reads all of `length` bytes as one decimal number: [sign] digits [. digits] [e [sign] digits], correctly rounded.
 * Returns false for anything else: hexadecimal, infinity, NaN, spaces, and values too large for a double. */
ICL_API bool icl_parse_number(const char *text, size_t length, double *value);

/* As above for a whole number: only digits, up to 2^64 - 1. */
ICL_API bool icl_parse_count(const char *text, size_t length, uint64_t *value);

/* Prints the shortest of %.{1…17}g that reads back as the same double, whole numbers below 1e9 in full; "nan", "inf",
 * "-inf" otherwise. Returns `text`. */
ICL_API const char *icl_format_number(double value, char text[ICL_NUMBER_CAPACITY]);

/* As above for a float: at most 9 digits. */
ICL_API const char *icl_format_float(float value, char text[ICL_NUMBER_CAPACITY]);

/* Prints a number that may be a float widened to double: if it is one, with the digits of the float, as further digits
 * carry no information. */
ICL_API const char *icl_format_value(double value, char text[ICL_NUMBER_CAPACITY]);

ICL_C_END

#endif
