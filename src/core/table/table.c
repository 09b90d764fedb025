#include "iclab/table.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/printable.h"
#include "core/table/categories.h"
#include "core/table/cell.h"
#include "core/table/dialect.h"
#include "core/table/judge.h"

static void release_texts(char ***texts, size_t count) {
    for (size_t i = 0; *texts && i < count; i++)
        icl_free(&(*texts)[i]);
    icl_free(texts);
}

void icl_table_destroy(icl_table **table) {
    if (*table) {
        release_texts(&(*table)->names, (*table)->columns);
        release_texts(&(*table)->sources, (*table)->columns);
        release_texts(&(*table)->levels, (*table)->columns);
        icl_release_steps(&(*table)->steps, (*table)->step_count);
        icl_free(&(*table)->omissions);
        icl_free(&(*table)->numbers);
        icl_free(&(*table)->values);
        icl_free(&(*table)->lines);
        icl_free(&(*table)->name);
    }
    icl_free(table);
}

/* ---- Columns ---- */

static size_t width_of(const icl_sheet_column *column) {
    return column->is_left_out ? 0 : column->kind == ICL_COLUMN_TEXT ? column->level_count : 1;
}

static icl_status add_column(const icl_sheet *sheet, const icl_sheet_column *column, size_t level, icl_table *table,
                             icl_error *error) {
    const char *name = sheet->names[column->position];
    const size_t at = table->columns++;
    char category[2 * ICL_NAME_CAPACITY + 32], printable[ICL_NAME_CAPACITY];

    table->numbers[at] = column->position + 1;
    ICL_CHECK(icl_duplicate(name, &table->sources[at], error));
    if (column->kind != ICL_COLUMN_TEXT)
        return icl_duplicate(name, &table->names[at], error);
    snprintf(category, sizeof category, "%s=%s", name,
             icl_printable(column->levels[level], printable, sizeof printable));
    ICL_CHECK(icl_duplicate(column->levels[level], &table->levels[at], error));
    return icl_duplicate(category, &table->names[at], error);
}

static icl_status make_columns(const icl_sheet *sheet, icl_table *table, icl_error *error) {
    size_t count = 0;

    for (size_t i = 0; i < sheet->column_count; i++)
        count += width_of(&sheet->columns[i]);
    if (count * sheet->rows > ICL_TABLE_MAX_CELLS)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s: %zu rows of %zu columns: expected at most %zu cells; --exclude leaves columns out",
                        sheet->name, sheet->rows, count, ICL_TABLE_MAX_CELLS);
    ICL_CHECK(icl_allocate(count, sizeof *table->names, "columns", &table->names, error));
    ICL_CHECK(icl_allocate(count, sizeof *table->sources, "columns", &table->sources, error));
    ICL_CHECK(icl_allocate(count, sizeof *table->levels, "columns", &table->levels, error));
    ICL_CHECK(icl_allocate(count, sizeof *table->numbers, "columns", &table->numbers, error));
    for (size_t i = 0; i < sheet->column_count; i++)
        for (size_t level = 0; level < width_of(&sheet->columns[i]); level++)
            ICL_CHECK(add_column(sheet, &sheet->columns[i], level, table, error));
    return ICL_OK;
}

/* ---- Cells ---- */

/* A cell that is read. */
typedef struct place {
    const icl_sheet *sheet;
    const icl_sheet_column *column;
    size_t line;
    icl_decimal decimal;
} place;

/* "data.csv:7: column 3 (wt): " and the complaint, with the cell in quotes, and what is expected and helps. */
static icl_status refuse_cell(const place *at, const char *what, const char *cell, const char *expected,
                              const char *helps, icl_error *error) {
    char printable[ICL_CELL_CAPACITY], label[ICL_LABEL_CAPACITY];

    return icl_fail(error, ICL_ERROR_INPUT, "%s:%zu: %s: %s \"%s\": expected %s; %s", at->sheet->name, at->line,
                    icl_column_label(at->sheet, at->column->position, label), what,
                    icl_printable(cell, printable, sizeof printable), expected, helps);
}

static icl_status refuse_missing(const place *at, const char *what, const char *cell, icl_error *error) {
    if (at->column->is_target)
        return refuse_cell(at, what, cell, "a number", "--predict predicts such rows, --drop-missing leaves them out",
                           error);
    return refuse_cell(at, what, cell, at->column->kind == ICL_COLUMN_TEXT ? "a category" : "a number",
                       "--drop-missing leaves such rows out, --impute median fills them in", error);
}

static icl_status refuse_number(const place *at, const char *what, const char *cell, const char *expected,
                                icl_error *error) {
    char option[ICL_NAME_CAPACITY], helps[ICL_NAME_CAPACITY + 64];

    icl_column_option(at->sheet, at->column->position, option);
    if (at->column->is_target)
        snprintf(helps, sizeof helps, "--target names another column");
    else
        snprintf(helps, sizeof helps, "--exclude %s leaves the column out", option);
    return refuse_cell(at, what, cell, expected, helps, error);
}

static icl_status read_number(const place *at, const char *cell, double *value, icl_error *error) {
    const bool has_comma = at->decimal == ICL_DECIMAL_COMMA;

    if (!icl_read_number(cell, at->decimal, value))
        return icl_is_untidy(cell)
                   ? refuse_number(at, "not a plain number", cell,
                                   has_comma ? "digits with a decimal comma (" ICL_TIDYING " reads it)"
                                             : "digits with a decimal point (" ICL_TIDYING " reads it)",
                                   error)
                   : refuse_number(at, "text", cell, has_comma ? "a number with a decimal comma" : "a decimal number",
                                   error);
    if (fabs(*value) > ICL_TABLE_MAX_VALUE)
        return refuse_number(at, "too large a number", cell, "magnitudes up to 1e100", error);
    return ICL_OK;
}

/* The values of a cell, NaN where they are missing: *is_missing. */
static icl_status read_cell(const place *at, const char *cell, double *values, bool *is_missing, icl_error *error) {
    const size_t width = width_of(at->column);
    const size_t level = at->column->kind == ICL_COLUMN_TEXT ? icl_level_of(at->column, cell) : 0;
    const bool is_unknown = at->column->kind == ICL_COLUMN_TEXT && level == width;

    *is_missing = icl_is_missing(cell) || is_unknown;
    if (!*is_missing && at->column->kind != ICL_COLUMN_TEXT)
        return read_number(at, cell, values, error);
    for (size_t i = 0; i < width; i++)
        values[i] = *is_missing ? (double)NAN : (double)(i == level);
    return ICL_OK;
}

/* ---- Rows ---- */

static icl_status omit_row(const icl_sheet *sheet, size_t row, bool has_target, icl_table *table, icl_error *error) {
    if (!table->omissions)
        ICL_CHECK(icl_allocate(sheet->rows, sizeof *table->omissions, "rows of a table", &table->omissions, error));
    table->omissions[table->omission_count++] = (icl_table_omission){sheet->lines[row], has_target};
    return ICL_OK;
}

/* Whether a missing value may stand; else its row is dropped, or it is refused. */
static icl_status judge_missing(const place *at, const char *cell, bool *drops, icl_error *error) {
    const icl_table_params *params = at->sheet->params;
    const bool is_known = icl_is_missing(cell);

    if (at->column->is_target && params->missing_targets)
        return ICL_OK;
    if (params->missing == ICL_MISSING_KEPT && !at->column->is_target)
        return ICL_OK;
    if (params->missing != ICL_MISSING_DROPPED)
        return refuse_missing(at, is_known ? "a missing value" : "a category that --data lacks,", cell, error);
    *drops = true;
    return ICL_OK;
}

static icl_status read_row(const icl_sheet *sheet, size_t row, const char **cell, icl_decimal decimal, icl_table *table,
                           icl_error *error) {
    double *values = table->values + table->rows * table->columns;
    bool drops = false, has_target = sheet->params->target && !sheet->params->like;

    for (size_t i = 0; i < sheet->column_count; i++, *cell = icl_next_cell(*cell)) {
        const place at = {sheet, &sheet->columns[i], sheet->lines[row], decimal};
        bool is_missing = false;
        if (at.column->is_left_out)
            continue;
        ICL_CHECK(read_cell(&at, *cell, values, &is_missing, error));
        if (is_missing)
            ICL_CHECK(judge_missing(&at, *cell, &drops, error));
        has_target = has_target && !(at.column->is_target && is_missing);
        values += width_of(at.column);
    }
    if (drops)
        return omit_row(sheet, row, has_target, table, error);
    table->lines[table->rows++] = sheet->lines[row];
    return ICL_OK;
}

static icl_status make_rows(const icl_sheet *sheet, icl_decimal decimal, icl_table *table, icl_error *error) {
    const char *cell = sheet->cells.bytes;

    ICL_CHECK(icl_allocate(sheet->rows, (table->columns > 0 ? table->columns : 1) * sizeof *table->values,
                           "rows of a table", &table->values, error));
    ICL_CHECK(icl_allocate(sheet->rows, sizeof *table->lines, "rows of a table", &table->lines, error));
    for (size_t row = 0; row < sheet->rows; row++)
        ICL_CHECK(read_row(sheet, row, &cell, decimal, table, error));
    if (table->rows == 0)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s: every row has a missing value: expected rows that are whole; --impute median fills "
                        "missing values in",
                        sheet->name);
    return ICL_OK;
}

/* ---- All of it ---- */

static icl_status make_table(icl_sheet *sheet, icl_table *table, icl_steps *steps, icl_error *error) {
    ICL_CHECK(icl_duplicate(sheet->name, &table->name, error));
    ICL_CHECK(icl_record_separator(sheet, steps, error));
    ICL_CHECK(icl_judge_columns(sheet, steps, &table->decimal, error));
    table->has_header = sheet->has_header;
    table->separator = sheet->separator;
    ICL_CHECK(make_columns(sheet, table, error));
    ICL_CHECK(make_rows(sheet, table->decimal, table, error));
    return icl_record_steps(sheet, table, steps, error);
}

icl_status icl_table_read(const icl_table_params *params, icl_table **table, icl_error *error) {
    icl_sheet sheet = {0};
    icl_steps steps = {0};
    icl_table *made = NULL;
    icl_status status;

    ICL_TRY(icl_sheet_read(params, &sheet, error));
    ICL_TRY(icl_allocate(1, sizeof *made, "table", &made, error));
    ICL_TRY(make_table(&sheet, made, &steps, error));
    made->steps = steps.steps;
    made->step_count = steps.count;
    steps = (icl_steps){0};
    *table = made;
    made = NULL;
done:
    icl_release_steps(&steps.steps, steps.count);
    icl_table_destroy(&made);
    icl_sheet_release(&sheet);
    return status;
}
