#include "core/table/steps.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/print.h"
#include "core/table/dialect.h"

/* Lines and categories that a step lists. */
enum { MOST_LISTED = 8, LIST_CAPACITY = 200 };

icl_status icl_add_step(icl_steps *steps, const icl_table_step *step, icl_error *error, const char *format, ...) {
    char text[2 * ICL_LABEL_CAPACITY + 256];
    va_list arguments;
    icl_table_step made = *step;

    va_start(arguments, format);
    (void)icl_print_list(text, sizeof text, format, arguments);
    va_end(arguments);
    ICL_CHECK(icl_grow(&steps->steps, steps->count, &steps->capacity, sizeof made, "steps", error));
    ICL_CHECK(icl_duplicate(text, &made.text, error));
    steps->steps[steps->count++] = made;
    return ICL_OK;
}

void icl_release_steps(icl_table_step **steps, size_t count) {
    for (size_t i = 0; *steps && i < count; i++)
        icl_free(&(*steps)[i].text);
    icl_free(steps);
}

static const char *plural(size_t count) {
    return count == 1 ? "" : "s";
}

icl_status icl_record_separator(const icl_sheet *sheet, icl_steps *steps, icl_error *error) {
    const icl_table_step step = {.what = "separator"};
    const char *plurals = icl_separator_word(sheet->separator) ? "s" : "";
    char name[ICL_SEPARATOR_NAME];

    if (sheet->separator == ',')
        return ICL_OK;
    return icl_add_step(steps, &step, error, "fields are separated by %s%s (--separator)",
                        icl_separator_name(sheet->separator, name), plurals);
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
    if (column->kind == ICL_COLUMN_TEXT)
        ICL_CHECK(record_categories(column, table, label, steps, error));
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

icl_status icl_record_steps(const icl_sheet *sheet, const icl_table *table, icl_steps *steps, icl_error *error) {
    const icl_table_step decimal = {.what = "decimal"};

    if (table->decimal == ICL_DECIMAL_COMMA)
        ICL_CHECK(icl_add_step(steps, &decimal, error, "numbers have a decimal comma (--decimal)"));
    for (size_t i = 0; i < sheet->column_count; i++)
        ICL_CHECK(record_column(sheet, &sheet->columns[i], table, steps, error));
    return table->omission_count > 0 ? record_omissions(table, steps, error) : ICL_OK;
}
