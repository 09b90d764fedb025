/* How a table is written: what stands between its fields, and which mark its numbers have. */
#ifndef ICLAB_CORE_TABLE_DIALECT_H
#define ICLAB_CORE_TABLE_DIALECT_H

#include "core/table/written_number.h"

/* The separator of a text that begins as `sample` does, [size] bytes: the one that takes lines apart into as many
 * fields as the first, most of them numbers. Comma, semicolon, tab, bar and blanks come before characters that are
 * rarely separators, which are found only where they do better. *separator = 0: none takes the first line apart. */
icl_status icl_recognise_separator(const char *sample, size_t size, char *separator, icl_error *error);

/* "comma", "semicolon", …; the character itself, in quotes that a shell takes off, where it has no name. Returns
 * `name`. */
#define ICL_SEPARATOR_NAME 16
const char *icl_separator_name(char separator, char name[ICL_SEPARATOR_NAME]);

/* A place in a table that shows a decimal mark. */
typedef struct icl_mark_place {
    size_t line, column; /* from 1; 0: there is none */
} icl_mark_place;

/* What the numbers of a table show of their decimal mark. Zero: nothing. */
typedef struct icl_decimal_evidence {
    icl_mark_place first[ICL_MARKS_EITHER_COMMA + 1]; /* by icl_marks */
    icl_mark_place doubtful;                          /* a "1.234" in a column that has a "987", too */
} icl_decimal_evidence;

void icl_note_marks(icl_decimal_evidence *evidence, icl_marks marks, size_t line, size_t column);

/* The mark that the numbers show; a point where they show none. False: they contradict each other, or "1,234" can be
 * either, or "1.234" beside "987". */
bool icl_decide_decimal(const icl_decimal_evidence *evidence, icl_decimal *decimal);

#endif
