/* The decimal mark of a table: what its numbers show, a point where they show nothing. */
#ifndef ICLAB_CORE_TABLE_DECIMAL_H
#define ICLAB_CORE_TABLE_DECIMAL_H

#include "core/table/sheet.h"

/* Whether the cell is a plain number under a mark that the table may have: the one that was asked for, else a point,
 * and a comma where it separates no fields. */
bool icl_may_be_number(const icl_sheet *sheet, const char *cell);

/* Notes what a number of the column shows of the mark. */
void icl_note_mark(icl_sheet_column *column, const char *number, size_t line);

/* Chooses the mark from what columns of numbers show. ICL_ERROR_INPUT where they contradict each other, where "1,234"
 * can be either, or "1.234" stands beside "987". */
icl_status icl_choose_decimal(const icl_sheet *sheet, icl_decimal *decimal, icl_error *error);

#endif
