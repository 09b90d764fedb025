/* What was done to a table on the way from its text to numbers, one step after the other. */
#ifndef ICLAB_CORE_TABLE_STEPS_H
#define ICLAB_CORE_TABLE_STEPS_H

#include "core/table/sheet.h"

/* Steps under construction. Zero: none. */
typedef struct icl_steps {
    icl_table_step *steps;
    size_t count, capacity;
} icl_steps;

/* Adds one; what it says is printed by the format. */
icl_status icl_add_step(icl_steps *steps, const icl_table_step *step, icl_error *error, const char *format, ...)
    ICL_PRINTF(4, 5);

/* Adds the separator, where it is no comma. */
icl_status icl_record_separator(const icl_sheet *sheet, icl_steps *steps, icl_error *error);

/* Adds the decimal mark, where it is a comma, and for each column that is used its name, categories and missing values;
 * then the rows dropped. */
icl_status icl_record_steps(const icl_sheet *sheet, const icl_table *table, icl_steps *steps, icl_error *error);

void icl_release_steps(icl_table_step **steps, size_t count);

#endif
