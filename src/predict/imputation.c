#include "predict/imputation.h"

#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "numeric/statistics.h"

static icl_status refuse_hole(const icl_table *table, size_t row, size_t column, icl_error *error) {
    return icl_fail(error, ICL_ERROR_INPUT,
                    "%s:%zu: column %zu (%s): a missing value: expected a number; --impute median fills it in",
                    table->name, table->lines[row], table->numbers[column], table->names[column]);
}

icl_status icl_filled_table_create(const icl_table *table, size_t features, icl_impute rule, icl_filled_table *filled,
                                   icl_error *error) {
    size_t count = 0;

    *filled = (icl_filled_table){.original = table, .table = *table};
    for (size_t row = 0; row < table->rows; row++)
        for (size_t i = 0; i < features; i++)
            if (isnan(table->values[row * table->columns + i])) {
                if (rule == ICL_IMPUTE_NONE)
                    return refuse_hole(table, row, i, error);
                count++;
            }
    if (count == 0)
        return ICL_OK;
    ICL_CHECK(icl_allocate(count, sizeof *filled->holes, "missing values", &filled->holes, error));
    ICL_CHECK(
        icl_allocate(table->rows * table->columns, sizeof *filled->values, "filled table", &filled->values, error));
    memcpy(filled->values, table->values, table->rows * table->columns * sizeof *filled->values);
    filled->table.values = filled->values;
    for (size_t row = 0; row < table->rows; row++)
        for (size_t i = 0; i < features; i++)
            if (isnan(table->values[row * table->columns + i]))
                filled->holes[filled->hole_count++] = row * table->columns + i;
    return ICL_OK;
}

void icl_filled_table_release(icl_filled_table *filled) {
    icl_free(&filled->values);
    icl_free(&filled->holes);
}

void icl_imputation_fit(const icl_table_rows *rows, size_t features, icl_impute rule, double *work, double *fills) {
    for (size_t i = 0; i < features; i++) {
        size_t count = 0;
        for (size_t k = 0; k < rows->count; k++) {
            const double value = rows->table->values[rows->indices[k] * rows->table->columns + i];
            if (!isnan(value))
                work[count++] = value;
        }
        fills[i] = count == 0 ? 0 : rule == ICL_IMPUTE_MEDIAN ? icl_median(work, count) : icl_mean(work, count);
    }
}

void icl_imputation_apply(icl_filled_table *filled, const double *fills) {
    for (size_t i = 0; i < filled->hole_count; i++)
        filled->values[filled->holes[i]] = fills[filled->holes[i] % filled->table.columns];
}
