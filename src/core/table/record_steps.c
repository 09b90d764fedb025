#include "core/table/record_steps.h"

#include <stdio.h>
#include <string.h>

/* Lines and categories that a step lists. */
enum { MOST_LISTED = 8, LIST_CAPACITY = 200 };

static const char *plural(size_t count) {
    return count == 1 ? "" : "s";
}

icl_status icl_record_reading(const icl_sheet *sheet, icl_steps *steps, icl_error *error) {
    const icl_table_step separator = {.what = "separator"};
    const icl_table_step trailing = {.what = "trailing", .count = sheet->trailing};
    const icl_table_step blank = {.what = "blank", .count = sheet->blank};
    const char *word = icl_separator_word(sheet->separator);
    char name[ICL_SEPARATOR_NAME];

    if (sheet->separator != ',')
        ICL_CHECK(icl_add_step(steps, &separator, error, "fields are separated by %s%s (--separator)",
                               icl_separator_name(sheet->separator, name), word ? "s" : ""));
    if (sheet->trailing > 0)
        ICL_CHECK(icl_add_step(steps, &trailing, error, "%zu line%s with a separator behind the last field: left out",
                               sheet->trailing, plural(sheet->trailing)));
    if (sheet->blank > 0)
        ICL_CHECK(icl_add_step(steps, &blank, error, "%zu line%s of empty fields at the end: left out", sheet->blank,
                               plural(sheet->blank)));
    return ICL_OK;
}

static icl_status record_name(const icl_sheet *sheet, const icl_sheet_column *column, icl_steps *steps,
                              icl_error *error) {
    const icl_table_step step = {.what = "named", .number = column->position + 1};
    const char *name = sheet->names[column->position];

    if (!sheet->has_header || strcmp(sheet->header[column->position], name) == 0)
        return ICL_OK;
    return icl_add_step(steps, &step, error, "column %zu: %s: called \"%s\"", column->position + 1,
                        sheet->header[column->position][0] == '\0' ? "no name" : "a name that an earlier one has",
                        name);
}

static icl_status record_numbers(const icl_sheet_column *column, const char *label, icl_steps *steps,
                                 icl_error *error) {
    const icl_table_step unit = {.what = "unit", .number = column->position + 1, .count = column->numbers};
    const icl_table_step thousands = {.what = "thousands", .number = column->position + 1, .count = column->grouped};

    if (column->unit && column->unit[0] != '\0')
        ICL_CHECK(icl_add_step(steps, &unit, error, "%s: numbers in %s, which is taken off", label, column->unit));
    if (column->grouped > 0)
        ICL_CHECK(icl_add_step(steps, &thousands, error, "%s: the thousands of %zu number%s put together", label,
                               column->grouped, plural(column->grouped)));
    return ICL_OK;
}

static icl_status record_categories(const icl_sheet_column *column, const icl_table *table, const char *label,
                                    icl_steps *steps, icl_error *error) {
    const icl_table_step step = {.what = "one-hot", .number = column->position + 1, .count = column->level_count};
    char list[LIST_CAPACITY] = "";
    size_t listed = 0;

    for (size_t i = 0; i < table->columns && listed < MOST_LISTED; i++)
        if (table->levels[i] && table->numbers[i] == column->position + 1) {
            const size_t used = strlen(list);
            snprintf(list + used, sizeof list - used, "%s%s", listed++ > 0 ? ", " : "", table->names[i]);
        }
    return icl_add_step(steps, &step, error, "%s: a column of 0 and 1 for each of %zu categories: %s%s", label,
                        column->level_count, list, column->level_count > listed ? ", …" : "");
}

static icl_status record_column(const icl_sheet *sheet, const icl_sheet_column *column, const icl_table *table,
                                icl_steps *steps, icl_error *error) {
    const icl_table_step missing = {.what = "missing", .number = column->position + 1, .count = column->missing};
    char label[ICL_LABEL_CAPACITY];

    if (column->is_left_out)
        return ICL_OK;
    icl_column_label(sheet, column->position, label);
    ICL_CHECK(record_name(sheet, column, steps, error));
    ICL_CHECK(column->kind == ICL_COLUMN_TEXT ? record_categories(column, table, label, steps, error)
                                              : record_numbers(column, label, steps, error));
    if (sheet->params->missing == ICL_MISSING_KEPT && column->missing > 0 && !column->is_target)
        return icl_add_step(steps, &missing, error, "%s: %zu missing value%s, filled in from the rows learned from",
                            label, column->missing, plural(column->missing));
    return ICL_OK;
}

static icl_status record_omissions(const icl_table *table, icl_steps *steps, icl_error *error) {
    const icl_table_step step = {.what = "dropped", .count = table->omission_count};
    char list[LIST_CAPACITY] = "";

    for (size_t i = 0; i < table->omission_count && i < MOST_LISTED; i++) {
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%zu", i > 0 ? ", " : "", table->omissions[i].line);
    }
    return icl_add_step(steps, &step, error, "%zu row%s with a missing value left out: line%s %s%s",
                        table->omission_count, plural(table->omission_count), plural(table->omission_count), list,
                        table->omission_count > MOST_LISTED ? ", …" : "");
}

icl_status icl_record_columns(const icl_sheet *sheet, const icl_table *table, icl_steps *steps, icl_error *error) {
    const icl_table_step decimal = {.what = "decimal"};

    if (table->decimal == ICL_DECIMAL_COMMA)
        ICL_CHECK(icl_add_step(steps, &decimal, error, "numbers have a decimal comma (--decimal)"));
    for (size_t i = 0; i < sheet->column_count; i++)
        ICL_CHECK(record_column(sheet, &sheet->columns[i], table, steps, error));
    return table->omission_count > 0 ? record_omissions(table, steps, error) : ICL_OK;
}
