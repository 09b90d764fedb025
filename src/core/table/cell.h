/* The kinds of a table's cells: missing, a plain number, a number or date that has to be tidied first, or text. */
#ifndef ICLAB_CORE_TABLE_CELL_H
#define ICLAB_CORE_TABLE_CELL_H

#include <stdbool.h>

#include "iclab/table.h"

/* The name of the reader that accepts untidy cells, for messages. */
#define ICL_TIDYING "iclab.read_table in Python"

/* Returns whether the cell is empty or one of NA, N/A, NaN, null, none, ?, -, as spreadsheets and programs spell these;
 * letter case is ignored. */
bool icl_is_missing(const char *cell);

/* Reads a number: sign, digits with this decimal mark, and exponent. False if the cell is anything else, or too large a
 * number for a double. */
bool icl_read_number(const char *cell, icl_decimal decimal, double *value);

/* Returns whether the mark, '.' or ',', may separate thousands in this number: it may in "1.234", but not in "0.123" or
 * "1.23". */
bool icl_is_grouped(const char *cell, char mark);

/* Returns whether the cell is a date, a time of day, or a number with another decimal mark, separated thousands or a
 * unit: 31.1.2024, 31 Jan 2024, 12:30, 1,5, 1 234, 5 %, -$5. The reader of tables refuses these; iclab.read_table of
 * the Python package turns them into numbers. */
bool icl_is_untidy(const char *cell);

#endif
