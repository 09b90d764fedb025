/* The steps that are known once a sheet is read, and once its table is made. */
#ifndef ICLAB_CORE_TABLE_RECORD_STEPS_H
#define ICLAB_CORE_TABLE_RECORD_STEPS_H

#include "core/table/sheet.h"
#include "core/table/steps.h"

/* Separator and empty fields at the ends of lines. */
icl_status icl_record_reading(const icl_sheet *sheet, icl_steps *steps, icl_error *error);

/* Decimal mark, and for each column that is used its name, unit, thousands, categories and missing values; the rows
 * dropped. */
icl_status icl_record_columns(const icl_sheet *sheet, const icl_table *table, icl_steps *steps, icl_error *error);

#endif
