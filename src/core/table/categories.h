/* Categories: the different texts of a column, each of which can become a column that is 1 where it stands. */
#ifndef ICLAB_CORE_TABLE_CATEGORIES_H
#define ICLAB_CORE_TABLE_CATEGORIES_H

#include "core/table/sheet.h"

/* Finds the levels of every column of text, sorted by their bytes, and up to one more than may be used. */
void icl_find_levels(icl_sheet *sheet);

/* Gives columns the kinds and levels that they have in another table. */
void icl_take_levels(icl_sheet *sheet, const icl_table *like);

/* The level's place among the column's, or level_count where it is none of them. */
size_t icl_level_of(const icl_sheet_column *column, const char *text);

#endif
