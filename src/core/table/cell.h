/* A cell of a table says nothing, a plain number, a number or date that has to be tidied first, or a text. */
#ifndef ICLAB_CORE_TABLE_CELL_H
#define ICLAB_CORE_TABLE_CELL_H

#include <stdbool.h>

#include "iclab/table.h"

/* Names what reads such cells, for messages. */
#define ICL_TIDYING "iclab.read_table in Python"

/* Nothing, NA, N/A, NaN, null, none, ?, -, and how spreadsheets and programs spell these; letter case is ignored. */
bool icl_is_missing(const char *cell);

/* Reads sign, digits with this decimal mark, and exponent. False: the cell is anything else, or too large a number for
 * a double. */
bool icl_read_number(const char *cell, icl_decimal decimal, double *value);

/* Whether the mark, '.' or ',', can stand between thousands in a number: "1.234", and not "0.123" or "1.23". */
bool icl_is_grouped(const char *cell, char mark);

/* Whether the cell is a date, a time of day, or a number with another decimal mark, thousands apart or a unit:
 * 31.1.2024, 31 Jan 2024, 12:30, 1,5, 1 234, 5 %, -$5. The reader of tables refuses these, and iclab.read_table of the
 * Python package makes numbers of them. */
bool icl_is_untidy(const char *cell);

#endif
