/* Printing with a decimal point, whatever the locale of the program that links the library. */
#ifndef ICLAB_CORE_PRINT_H
#define ICLAB_CORE_PRINT_H

#include <stdarg.h>
#include <stddef.h>

#include "iclab/export.h"

/* snprintf and vsnprintf in the numeric locale "C". Every text with a number that is no integer is printed by these. */
int icl_print(char *text, size_t size, const char *format, ...) ICL_PRINTF(3, 4);
int icl_print_list(char *text, size_t size, const char *format, va_list arguments) ICL_PRINTF(3, 0);

#endif
