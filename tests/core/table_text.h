/* Tables read from a text in the test. */
#ifndef ICLAB_TESTS_CORE_TABLE_TEXT_H
#define ICLAB_TESTS_CORE_TABLE_TEXT_H

#include <math.h>

#include "iclab/table.h"
#include "tap.h"

static inline icl_table_params from_text(const char *text, const char *target) {
    return (icl_table_params){
        .source = {.path = "data.csv", .text = text, .size = strlen(text)},
        .target = target,
    };
}

/* Returns whether a table, which may be NULL, has these values; a NaN matches a NaN. */
static inline bool holds(const icl_table *table, size_t rows, size_t columns, const double *values) {
    if (!table || table->rows != rows || table->columns != columns)
        return false;
    for (size_t i = 0; i < rows * columns; i++)
        if (table->values[i] != values[i] && !(isnan(values[i]) && isnan(table->values[i])))
            return false;
    return true;
}

static inline void check_refusal(tap_run *tap, const icl_table_params *params, const char *message) {
    icl_table *table = NULL;
    icl_error error = {0};
    const icl_status status = icl_table_read(params, &table, &error);

    if (!tap_ok(tap, status == ICL_ERROR_INPUT && !table && strstr(error.message, message), "refused: %s", message))
        tap_note("%s", status == ICL_OK ? "it was read" : error.message);
    icl_table_destroy(&table);
}

#endif
