/* Which columns of a file are used: those asked for, or all but the target and those excluded. */
#ifndef ICLAB_CORE_TABLE_COLUMN_CHOICE_H
#define ICLAB_CORE_TABLE_COLUMN_CHOICE_H

#include "core/table/sheet.h"

/* Fills sheet->columns once the names are known. ICL_ERROR_INPUT for one that is unknown, ambiguous or chosen twice. */
icl_status icl_choose_columns(icl_sheet *sheet, icl_error *error);

#endif
