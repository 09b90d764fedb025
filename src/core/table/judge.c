#include "core/table/judge.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/allocate.h"
#include "core/printable.h"
#include "core/table/categories.h"
#include "core/table/date.h"
#include "core/table/missing.h"

/* ---- Counting ---- */

static void note_unit(icl_sheet_column *column, const icl_written_number *number, size_t line, const char *cell) {
    if (!column->unit)
        column->unit = number->unit;
    else if (strcmp(column->unit, number->unit) != 0 && column->other_unit.line == 0)
        column->other_unit = (icl_sheet_cell){line, cell};
}

static void note_first(icl_sheet_cell *first, size_t line, const char *cell) {
    if (first->line == 0)
        *first = (icl_sheet_cell){line, cell};
}

static void count_cell(icl_sheet_column *column, size_t line, const char *cell) {
    icl_written_number number;

    if (icl_is_missing(cell)) {
        note_first(&column->first_missing, line, cell);
        column->missing++;
    } else if (icl_is_date(cell)) { /* before numbers: 31.1.2024 has marks too */
        note_first(&column->first_date, line, cell);
        column->dates++;
    } else if (icl_read_written_number(cell, &number)) {
        column->numbers++;
        note_unit(column, &number, line, cell);
    } else {
        note_first(&column->first_text, line, cell);
        column->texts++;
    }
}

static icl_column_kind kind_of(const icl_sheet_column *column) {
    const size_t all = column->numbers + column->texts + column->dates;

    return all == 0                                    ? ICL_COLUMN_EMPTY
           : 2 * column->dates > all                   ? ICL_COLUMN_DATES
           : 2 * (column->texts + column->dates) > all ? ICL_COLUMN_TEXT
                                                       : ICL_COLUMN_NUMBERS;
}

/* ---- The decimal mark ---- */

static bool is_hundreds(const char *cell) {
    return strlen(cell) == 3 && cell[0] != '0' && strspn(cell, "0123456789") == 3;
}

/* "1.234" beside "987" are thousands, or numbers of which one has no fraction: nothing tells. */
static void find_doubt(const icl_sheet *sheet, icl_decimal_evidence *evidence) {
    for (size_t i = 0; i < sheet->column_count && evidence->doubtful.line == 0; i++)
        if (sheet->columns[i].grouped_line > 0 && sheet->columns[i].has_hundreds)
            evidence->doubtful = (icl_mark_place){sheet->columns[i].grouped_line, sheet->columns[i].position + 1};
}

static void gather_mark(icl_sheet_column *column, const char *cell, size_t line, icl_decimal_evidence *evidence) {
    icl_written_number number;

    if (column->kind != ICL_COLUMN_NUMBERS || icl_is_missing(cell))
        return;
    column->has_hundreds = column->has_hundreds || is_hundreds(cell);
    if (!strpbrk(cell, ".,") || !icl_read_written_number(cell, &number))
        return;
    icl_note_marks(evidence, number.marks, line, column->position + 1);
    if (number.marks == ICL_MARKS_EITHER_POINT && column->grouped_line == 0)
        column->grouped_line = line;
}

static void gather_marks(icl_sheet *sheet, icl_decimal_evidence *evidence) {
    const char *cell = sheet->cells.bytes;

    for (size_t row = 0; row < sheet->rows; row++)
        for (size_t i = 0; i < sheet->column_count; i++, cell = icl_next_cell(cell))
            gather_mark(&sheet->columns[i], cell, sheet->lines[row], evidence);
    find_doubt(sheet, evidence);
}

static icl_status refuse_marks(const icl_sheet *sheet, const icl_decimal_evidence *evidence, icl_error *error) {
    const icl_mark_place point = evidence->first[ICL_MARKS_POINT], comma = evidence->first[ICL_MARKS_COMMA];
    const icl_mark_place either = evidence->first[ICL_MARKS_EITHER_COMMA];
    const size_t target = sheet->columns[sheet->column_count - 1].position + 1;
    char label[ICL_LABEL_CAPACITY], other[ICL_NAME_CAPACITY];

    if (point.line == 0 && comma.line == 0 && either.line == 0)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s:%zu: %s: a point that is a decimal mark or, beside whole numbers of three digits, stands "
                        "between thousands: expected to be told; --decimal point, or --decimal comma where it is "
                        "between thousands",
                        sheet->name, evidence->doubtful.line,
                        icl_column_label(sheet, evidence->doubtful.column - 1, label));
    if (point.line == 0)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s:%zu: %s: a comma that is a decimal mark or stands between thousands: expected to be told; "
                        "--decimal comma, or --decimal point where it is between thousands",
                        sheet->name, either.line, icl_column_label(sheet, either.column - 1, label));
    const icl_mark_place odd = comma.column == target ? point : comma;
    return icl_fail(error, ICL_ERROR_INPUT,
                    "%s:%zu: %s: a decimal comma, where line %zu has a decimal point in column %zu: expected one of "
                    "them; --exclude %s leaves a column out",
                    sheet->name, comma.line, icl_column_label(sheet, comma.column - 1, label), point.line, point.column,
                    icl_column_option(sheet, odd.column - 1, other));
}

static icl_status choose_decimal(icl_sheet *sheet, icl_decimal *decimal, icl_error *error) {
    const icl_table *like = sheet->params->like;
    icl_decimal_evidence evidence = {0};

    *decimal = sheet->params->decimal;
    if (*decimal != ICL_DECIMAL_AUTO)
        return ICL_OK;
    gather_marks(sheet, &evidence);
    if (like && evidence.first[ICL_MARKS_POINT].line == 0 && evidence.first[ICL_MARKS_COMMA].line == 0) {
        *decimal = like->decimal;
        return ICL_OK;
    }
    return icl_decide_decimal(&evidence, decimal) ? ICL_OK : refuse_marks(sheet, &evidence, error);
}

/* ---- Numbers ---- */

static void measure_cell(icl_sheet_column *column, const char *cell, icl_decimal decimal) {
    icl_written_number number;
    bool grouped = false;
    double value;

    if (icl_is_missing(cell) || !icl_read_written_number(cell, &number) ||
        !icl_written_number_value(&number, decimal, &value, &grouped))
        return;
    column->least = fmin(column->least, value);
    column->most = fmax(column->most, value);
    column->whole += value == floor(value);
    column->rising += value > column->last;
    column->last = value;
    column->grouped += grouped;
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
        return column->level_count > 2 && column->level_count == column->texts + column->dates + column->numbers;
    return sheet->has_header && is_identifiers_name(sheet->header[column->position]) && column->numbers > 2 &&
           column->whole == column->numbers && column->rising == column->numbers;
}

static bool has_one_value(const icl_sheet_column *column) {
    if (column->kind == ICL_COLUMN_TEXT)
        return column->level_count == 1 && column->texts + column->dates + column->numbers > 1;
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
    const icl_sheet_cell *cell = column->first_text.line > 0 ? &column->first_text : &column->first_date;

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

static icl_status refuse_dates(const icl_sheet *sheet, const icl_sheet_column *column, icl_error *error) {
    char label[ICL_LABEL_CAPACITY], printable[ICL_CELL_CAPACITY], option[ICL_NAME_CAPACITY];

    icl_column_label(sheet, column->position, label);
    icl_printable(column->first_date.text, printable, sizeof printable);
    if (column->is_target)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s:%zu: %s: the target is a date (\"%s\"): expected a column of numbers for --target",
                        sheet->name, column->first_date.line, label, printable);
    return icl_fail(error, ICL_ERROR_INPUT,
                    "%s:%zu: %s: a date or time \"%s\": expected numbers; --exclude %s leaves the column out",
                    sheet->name, column->first_date.line, label, printable,
                    icl_column_option(sheet, column->position, option));
}

static icl_status refuse_units(const icl_sheet *sheet, const icl_sheet_column *column, icl_error *error) {
    char label[ICL_LABEL_CAPACITY], printable[ICL_CELL_CAPACITY], option[ICL_NAME_CAPACITY], hint[ICL_LABEL_CAPACITY];

    icl_column_option(sheet, column->position, option);
    snprintf(hint, sizeof hint, column->is_target ? "another --target has" : "--exclude %s leaves the column out",
             option);
    return icl_fail(error, ICL_ERROR_INPUT,
                    "%s:%zu: %s: \"%s\" where other numbers of the column are in %s: expected one unit; %s",
                    sheet->name, column->other_unit.line, icl_column_label(sheet, column->position, label),
                    icl_printable(column->other_unit.text, printable, sizeof printable),
                    column->unit[0] != '\0' ? column->unit : "no unit", hint);
}

/* Numbers of one table in the units of another. */
static icl_status compare_units(const icl_sheet *sheet, icl_sheet_column *column, icl_error *error) {
    const char *expected = sheet->params->like->units[column->like];
    char label[ICL_LABEL_CAPACITY];

    if (column->kind != ICL_COLUMN_NUMBERS || column->numbers == 0)
        return ICL_OK;
    if (column->other_unit.line > 0)
        return refuse_units(sheet, column, error);
    if (strcmp(column->unit, expected) == 0)
        return ICL_OK;
    return icl_fail(error, ICL_ERROR_INPUT,
                    "%s: %s: numbers in %s, where those of --data are in %s: expected one unit; --exclude leaves the "
                    "column out",
                    sheet->name, icl_column_label(sheet, column->position, label),
                    column->unit[0] != '\0' ? column->unit : "no unit", expected[0] != '\0' ? expected : "no unit");
}

static icl_status judge_column(const icl_sheet *sheet, icl_sheet_column *column, icl_steps *steps, icl_error *error) {
    if (column->kind == ICL_COLUMN_DATES)
        return refuse_dates(sheet, column, error);
    if (column->kind == ICL_COLUMN_TEXT)
        return judge_text(sheet, column, steps, error);
    if (column->kind == ICL_COLUMN_NUMBERS && column->other_unit.line > 0)
        return refuse_units(sheet, column, error);
    if (column->is_chosen)
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
            count_cell(&sheet->columns[i], sheet->lines[row], cell);
    for (size_t i = 0; i < sheet->column_count; i++)
        sheet->columns[i].kind = kind_of(&sheet->columns[i]);
}

icl_status icl_judge_columns(icl_sheet *sheet, icl_steps *steps, icl_decimal *decimal, icl_error *error) {
    count_cells(sheet);
    if (sheet->params->like)
        icl_take_levels(sheet, sheet->params->like);
    else
        icl_find_levels(sheet);
    ICL_CHECK(choose_decimal(sheet, decimal, error));
    measure_numbers(sheet, *decimal);
    for (size_t i = 0; i < sheet->column_count; i++)
        ICL_CHECK(sheet->params->like ? compare_units(sheet, &sheet->columns[i], error)
                                      : judge_column(sheet, &sheet->columns[i], steps, error));
    return ICL_OK;
}
