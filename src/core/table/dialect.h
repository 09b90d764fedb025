/* The separator between the fields of a table. */
#ifndef ICLAB_CORE_TABLE_DIALECT_H
#define ICLAB_CORE_TABLE_DIALECT_H

#include <stddef.h>

#include "iclab/table.h"

/* The separator of a text that begins as `sample` does, [size] bytes: the comma, semicolon, tab or bar that takes lines
 * apart into as many fields as the first, most of them numbers. *separator = 0: none takes the first line apart. */
icl_status icl_recognise_separator(const char *sample, size_t size, char *separator, icl_error *error);

/* "comma", "semicolon", …; the character itself, in quotes that a shell takes off, where it has no name. Returns
 * `name`. */
#define ICL_SEPARATOR_NAME 16
const char *icl_separator_name(char separator, char name[ICL_SEPARATOR_NAME]);

#endif
