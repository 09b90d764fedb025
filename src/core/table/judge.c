#include "core/table/judge.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/printable.h"
#include "core/table/categories.h"
#include "core/table/cell.h"
#include "core/table/decimal.h"

/* ---- Counting ---- */

static void count_cell(const icl_sheet *sheet, icl_sheet_column *column, size_t line, const char *cell) {
    if (icl_is_missing(cell)) {
        column->missing++;
    } else if (icl_may_be_number(sheet, cell)) {
        column->numbers++;
        icl_note_mark(column, cell, line);
    } else if (icl_is_untidy(cell)) {
        column->untidy++;
    } else if (column->texts++ == 0) {
        column->first_text = (icl_sheet_cell){line, cell};
    }
}

static icl_column_kind kind_of(const icl_sheet_column *column) {
    const size_t all = column->numbers + column->untidy + column->texts;
    return all == 0 ? ICL_COLUMN_EMPTY : 2 * column->texts > all ? ICL_COLUMN_TEXT : ICL_COLUMN_NUMBERS;
}

/* ---- Numbers ---- */

static void measure_cell(icl_sheet_column *column, const char *cell, icl_decimal decimal) {
    double value;

    if (!icl_read_number(cell, decimal, &value))
        return;
    column->least = fmin(column->least, value);
    column->most = fmax(column->most, value);
    column->whole += value == floor(value);
    column->rising += value > column->last;
    column->last = value;
}

static void measure_numbers(icl_sheet *sheet, icl_decimal decimal) {
    const char *cell = sheet->cells.bytes;

    for (size_t i = 0; i < sheet->column_count; i++) {
        sheet->columns[i].least = HUGE_VAL;
        sheet->columns[i].most = sheet->columns[i].last = -HUGE_VAL;
    }
    for (size_t row = 0; row < sheet->rows; row++)
        for (size_t i = 0; i < sheet->column_count; i++, cell = icl_next_cell(cell))
            if (sheet->columns[i].kind == ICL_COLUMN_NUMBERS)
                measure_cell(&sheet->columns[i], cell, decimal);
}

/* ---- What is left out ---- */

/* Names that a row's number or key has. */
static bool is_identifiers_name(const char *name) {
    static const char *const names[] = {"",         "id",  "index", "idx", "row",    "rowid", "rowname",
                                        "rownames", "key", "no.",   "nr",  "nr.",    "uuid",  "guid",
                                        "number",   "no",  "#",     "i",   "sample", "case",  "record"};
    const size_t length = strlen(name);
    char lower[ICL_NAME_CAPACITY];

    for (size_t i = 0; i <= length; i++)
        lower[i] = (char)tolower((unsigned char)name[i]);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(lower, names[i]) == 0)
            return true;
    return strncmp(lower, "unnamed", 7) == 0 ||
           (length > 3 && (strcmp(lower + length - 3, "_id") == 0 || strcmp(lower + length - 3, " id") == 0)) ||
           (length > 2 && strcmp(name + length - 2, "Id") == 0) || (length > 2 && strcmp(name + length - 2, "ID") == 0);
}

static bool is_identifier(const icl_sheet *sheet, const icl_sheet_column *column) {
    if (column->kind == ICL_COLUMN_TEXT)
        return column->level_count > 2 && column->level_count == column->texts + column->untidy + column->numbers;
    return sheet->has_header && is_identifiers_name(sheet->header[column->position]) && column->numbers > 2 &&
           column->whole == column->numbers && column->rising == column->numbers;
}

static bool has_one_value(const icl_sheet_column *column) {
    if (column->kind == ICL_COLUMN_TEXT)
        return column->level_count == 1 && column->texts + column->untidy + column->numbers > 1;
    return column->kind == ICL_COLUMN_NUMBERS && column->numbers > 1 && column->least == column->most;
}

static icl_status leave_out(const icl_sheet *sheet, icl_sheet_column *column, icl_steps *steps, const char *why,
                            const char *hint, icl_error *error) {
    const icl_table_step step = {.what = "left-out", .number = column->position + 1};
    char label[ICL_LABEL_CAPACITY];

    column->is_left_out = true;
    return icl_add_step(steps, &step, error, "%s: %s: left out%s", icl_column_label(sheet, column->position, label),
                        why, hint);
}

static icl_status refuse_text(const icl_sheet *sheet, const icl_sheet_column *column, icl_error *error) {
    char label[ICL_LABEL_CAPACITY], printable[ICL_CELL_CAPACITY], option[ICL_NAME_CAPACITY];
    const icl_sheet_cell *cell = &column->first_text;

    icl_column_label(sheet, column->position, label);
    icl_printable(cell->text, printable, sizeof printable);
    if (column->is_target)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s:%zu: %s: the target is text (\"%s\"): expected a column of numbers for --target",
                        sheet->name, cell->line, label, printable);
    if (sheet->params->one_hot)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s:%zu: %s: text \"%s\", of more than %d different ones: expected fewer categories; --exclude "
                        "%s leaves the column out",
                        sheet->name, cell->line, label, printable, ICL_TABLE_MAX_CATEGORIES,
                        icl_column_option(sheet, column->position, option));
    return icl_fail(error, ICL_ERROR_INPUT,
                    "%s:%zu: %s: text \"%s\": expected numbers; --one-hot makes a column of each of its categories",
                    sheet->name, cell->line, label, printable);
}

static icl_status judge_text(const icl_sheet *sheet, icl_sheet_column *column, icl_steps *steps, icl_error *error) {
    const bool has_too_many = column->level_count > ICL_TABLE_MAX_CATEGORIES;
    char why[64];

    if (column->is_target || (column->is_chosen && (!sheet->params->one_hot || has_too_many)))
        return refuse_text(sheet, column, error);
    if (column->is_chosen)
        return ICL_OK;
    if (has_one_value(column))
        return leave_out(sheet, column, steps, "the same text in every row", "", error);
    if (is_identifier(sheet, column))
        return leave_out(sheet, column, steps, "another text in every row", "", error);
    snprintf(why, sizeof why, "text, %s%zu categories", has_too_many ? "more than " : "",
             has_too_many ? (size_t)ICL_TABLE_MAX_CATEGORIES : column->level_count);
    if (has_too_many || !sheet->params->one_hot)
        return leave_out(sheet, column, steps, why, has_too_many ? "" : " (--one-hot makes a column of each category)",
                         error);
    return ICL_OK;
}

static icl_status judge_column(const icl_sheet *sheet, icl_sheet_column *column, icl_steps *steps, icl_error *error) {
    if (column->kind == ICL_COLUMN_TEXT)
        return judge_text(sheet, column, steps, error);
    if (column->is_chosen || column->untidy > 0) /* what is untidy is refused where its numbers are read */
        return ICL_OK;
    if (column->kind == ICL_COLUMN_EMPTY)
        return leave_out(sheet, column, steps, "no value in any row", "", error);
    if (has_one_value(column))
        return leave_out(sheet, column, steps, "the same number in every row", "", error);
    if (is_identifier(sheet, column))
        return leave_out(sheet, column, steps, "an identifier by its name, rising from row to row",
                         " (--columns takes it)", error);
    return ICL_OK;
}

/* ---- All of it ---- */

static void count_cells(icl_sheet *sheet) {
    const char *cell = sheet->cells.bytes;

    for (size_t row = 0; row < sheet->rows; row++)
        for (size_t i = 0; i < sheet->column_count; i++, cell = icl_next_cell(cell))
            count_cell(sheet, &sheet->columns[i], sheet->lines[row], cell);
    for (size_t i = 0; i < sheet->column_count; i++)
        sheet->columns[i].kind = kind_of(&sheet->columns[i]);
}

icl_status icl_judge_columns(icl_sheet *sheet, icl_steps *steps, icl_decimal *decimal, icl_error *error) {
    count_cells(sheet);
    if (sheet->params->like)
        icl_take_levels(sheet, sheet->params->like);
    else
        icl_find_levels(sheet);
    ICL_CHECK(icl_choose_decimal(sheet, decimal, error));
    measure_numbers(sheet, *decimal);
    for (size_t i = 0; !sheet->params->like && i < sheet->column_count; i++)
        ICL_CHECK(judge_column(sheet, &sheet->columns[i], steps, error));
    return ICL_OK;
}
