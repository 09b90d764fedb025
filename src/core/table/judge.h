/*
 * What the columns of a sheet hold, and which decimal mark its numbers have.
 *
 * A column is of text where more than half of its values are; else it is one of numbers, and a value that is none is a
 * mistake: also a date, or a number with a unit or thousands apart. Columns that are no features are left out with a
 * line, unless the caller chose them: text that is not taken apart into categories, one value everywhere, no value at
 * all, and identifiers, which are text that is different in every row, and whole numbers that rise from row to row in a
 * column with an identifier's name.
 */
#ifndef ICLAB_CORE_TABLE_JUDGE_H
#define ICLAB_CORE_TABLE_JUDGE_H

#include "core/table/sheet.h"
#include "core/table/steps.h"

/* Fills in what it finds in sheet->columns, and the decimal mark. ICL_ERROR_INPUT names the cell that no reading fits:
 * a text as target, two decimal marks, "1,234" alone, "1.234" beside "987". */
icl_status icl_judge_columns(icl_sheet *sheet, icl_steps *steps, icl_decimal *decimal, icl_error *error);

#endif
