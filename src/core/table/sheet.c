#include "core/table/sheet.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/printable.h"
#include "core/table/cell.h"
#include "core/table/column_choice.h"
#include "core/table/dialect.h"

static void release_names(char ***names, size_t count) {
    for (size_t i = 0; *names && i < count; i++)
        icl_free(&(*names)[i]);
    icl_free(names);
}

void icl_sheet_release(icl_sheet *sheet) {
    release_names(&sheet->header, sheet->file_columns);
    release_names(&sheet->names, sheet->file_columns);
    icl_free(&sheet->columns);
    icl_text_release(&sheet->cells);
    icl_free(&sheet->lines);
    icl_csv_reader_close(&sheet->reader);
}

const char *icl_next_cell(const char *cell) {
    return cell + strlen(cell) + 1;
}

/* ---- Names ---- */

const char *icl_column_label(const icl_sheet *sheet, size_t position, char text[ICL_LABEL_CAPACITY]) {
    if (sheet->has_header && sheet->header[position][0] != '\0')
        snprintf(text, ICL_LABEL_CAPACITY, "column %zu (%s)", position + 1, sheet->names[position]);
    else
        snprintf(text, ICL_LABEL_CAPACITY, "column %zu", position + 1);
    return text;
}

const char *icl_column_option(const icl_sheet *sheet, size_t position, char text[ICL_NAME_CAPACITY]) {
    const char *name = sheet->names[position];
    bool is_plain = sheet->has_header && sheet->header[position][0] != '\0';

    for (const char *at = name; *at != '\0'; at++)
        is_plain = is_plain && (isalnum((unsigned char)*at) || *at == '_' || (*at == '.' && at > name));
    if (is_plain)
        snprintf(text, ICL_NAME_CAPACITY, "%s", name);
    else
        snprintf(text, ICL_NAME_CAPACITY, "%zu", position + 1);
    return text;
}

/* 0, 1, 2, …, behind an empty field or not: what pandas writes above an array. */
static bool counts_up(const icl_csv_record *record) {
    const size_t first = record->fields[0][0] == '\0';
    char number[24];

    for (size_t i = first; i < record->count; i++) {
        snprintf(number, sizeof number, "%zu", i - first);
        if (strcmp(record->fields[i], number) != 0)
            return false;
    }
    return record->count > first + 1;
}

/* Says how the first record is to be read, where header = auto leaves a doubt. */
static icl_status detect_header(const icl_sheet *sheet, const icl_csv_record *record, bool *has_header,
                                icl_error *error) {
    size_t number = SIZE_MAX, text = SIZE_MAX;
    double value;

    *has_header = sheet->params->header == ICL_HEADER_YES;
    if (strncmp(record->fields[0], "sep=", 4) == 0 && !isalnum((unsigned char)record->fields[0][4]))
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s:%zu: a line that names the separator: expected the columns' names or values; " ICL_TIDYING
                        " reads it",
                        sheet->name, record->line);
    if (sheet->params->header != ICL_HEADER_AUTO)
        return ICL_OK;
    for (size_t i = 0; i < record->count; i++) {
        if (icl_read_number(record->fields[i], ICL_DECIMAL_POINT, &value) ||
            icl_read_number(record->fields[i], ICL_DECIMAL_COMMA, &value))
            number = number == SIZE_MAX ? i : number;
        else if (record->fields[i][0] != '\0')
            text = text == SIZE_MAX ? i : text;
    }
    if (number != SIZE_MAX && text != SIZE_MAX)
        return icl_fail(
            error, ICL_ERROR_INPUT,
            "%s:%zu: text in column %zu and a number in column %zu of the first line: expected names "
            "alone or numbers alone; --header yes says that it has names, --header no that it has not; a title "
            "above the names has to go",
            sheet->name, record->line, text + 1, number + 1);
    if (counts_up(record))
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s:%zu: the first line counts 0, 1, …: expected to be told whether these are names or a row; "
                        "--header yes, or --header no",
                        sheet->name, record->line);
    *has_header = number == SIZE_MAX;
    return ICL_OK;
}

/* How many of the first `count` names are this. */
static size_t count_names(char *const *names, size_t count, const char *name) {
    size_t found = 0;

    for (size_t i = 0; i < count; i++)
        found += strcmp(names[i], name) == 0;
    return found;
}

/* A name of its own: the second x is x.2; a column without a name, or of a file without, has its number. */
static icl_status make_name(icl_sheet *sheet, size_t column, icl_error *error) {
    char name[ICL_NAME_CAPACITY + 32];
    size_t turn;

    if (!sheet->has_header || sheet->header[column][0] == '\0') {
        snprintf(name, sizeof name, sheet->has_header ? "column %zu" : "%zu", column + 1);
        return icl_duplicate(name, &sheet->names[column], error);
    }
    snprintf(name, sizeof name, "%s", sheet->header[column]);
    turn = 1 + count_names(sheet->header, column, name);
    while (turn > 1 || count_names(sheet->names, column, name) > 0) {
        snprintf(name, sizeof name, "%s.%zu", sheet->header[column], turn > 1 ? turn : ++turn);
        if (count_names(sheet->names, column, name) == 0)
            break;
        turn++;
    }
    return icl_duplicate(name, &sheet->names[column], error);
}

static icl_status keep_names(icl_sheet *sheet, const icl_csv_record *record, icl_error *error) {
    if (sheet->has_header)
        ICL_CHECK(icl_allocate(record->count, sizeof *sheet->header, "names of columns", &sheet->header, error));
    for (size_t i = 0; sheet->has_header && i < record->count; i++) {
        char name[ICL_NAME_CAPACITY];
        ICL_CHECK(icl_duplicate(icl_printable(record->fields[i], name, sizeof name), &sheet->header[i], error));
    }
    ICL_CHECK(icl_allocate(record->count, sizeof *sheet->names, "names of columns", &sheet->names, error));
    for (size_t i = 0; i < record->count; i++)
        ICL_CHECK(make_name(sheet, i, error));
    return ICL_OK;
}

/* ---- Rows ---- */

static icl_status check_length(const icl_sheet *sheet, const icl_csv_record *record, icl_error *error) {
    char name[ICL_SEPARATOR_NAME];

    if (record->count == sheet->file_columns)
        return ICL_OK;
    return icl_fail(error, ICL_ERROR_INPUT,
                    "%s:%zu: a line of %zu column%s: expected %zu, as in line %zu (fields that hold a %s stand in "
                    "quotes; --separator names another; " ICL_TIDYING " reads separators at the ends of lines)",
                    sheet->name, record->line, record->count, record->count == 1 ? "" : "s", sheet->file_columns,
                    sheet->first_line, icl_separator_name(sheet->separator, name));
}

/* Excel leaves lines of empty fields where cells were cleared. */
static icl_status check_fields(const icl_sheet *sheet, const icl_csv_record *record, icl_error *error) {
    for (size_t i = 0; i < record->count; i++)
        if (record->fields[i][0] != '\0')
            return ICL_OK;
    return icl_fail(error, ICL_ERROR_INPUT,
                    "%s:%zu: a line of empty fields: expected values; " ICL_TIDYING " leaves such lines out",
                    sheet->name, record->line);
}

static icl_status add_line(icl_sheet *sheet, size_t line, icl_error *error) {
    ICL_CHECK(icl_grow(&sheet->lines, sheet->rows, &sheet->capacity, sizeof *sheet->lines, "rows of a table", error));
    sheet->lines[sheet->rows++] = line;
    return ICL_OK;
}

static icl_status add_row(icl_sheet *sheet, const icl_csv_record *record, icl_error *error) {
    ICL_CHECK(check_length(sheet, record, error));
    ICL_CHECK(check_fields(sheet, record, error));
    if (sheet->rows == ICL_TABLE_MAX_ROWS || sheet->rows * sheet->column_count >= ICL_TABLE_MAX_CELLS)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s:%zu: more than %zu rows of %zu columns: expected at most %zu rows and %zu cells",
                        sheet->name, record->line, sheet->rows, sheet->column_count, ICL_TABLE_MAX_ROWS,
                        ICL_TABLE_MAX_CELLS);
    if (sheet->cells.length > ICL_SHEET_MAX_BYTES)
        return icl_fail(error, ICL_ERROR_INPUT, "%s:%zu: more than %zu bytes in the columns used: expected fewer",
                        sheet->name, record->line, ICL_SHEET_MAX_BYTES);
    for (size_t i = 0; i < sheet->column_count; i++) {
        const char *cell = record->fields[sheet->columns[i].position];
        ICL_CHECK(icl_text_append(&sheet->cells, cell, strlen(cell) + 1, error));
    }
    return add_line(sheet, record->line, error);
}

static icl_status choose_separator(icl_sheet *sheet, icl_error *error) {
    const char *sample;
    size_t size;

    sheet->separator = sheet->params->source.separator;
    if (sheet->separator == 0) {
        ICL_CHECK(icl_csv_reader_sample(sheet->reader, &sample, &size, error));
        ICL_CHECK(icl_recognise_separator(sample, size, &sheet->separator, error));
    }
    if (sheet->separator == 0)
        sheet->separator = ',';
    icl_csv_reader_separate(sheet->reader, sheet->separator);
    return ICL_OK;
}

/* Columns from the first record, then every row. */
static icl_status read_rows(icl_sheet *sheet, icl_error *error) {
    icl_csv_record record;
    bool found = false;

    ICL_CHECK(icl_csv_reader_next(sheet->reader, &record, &found, error));
    if (!found)
        return icl_fail(error, ICL_ERROR_INPUT, "%s:1: empty: expected a table with a header and rows", sheet->name);
    sheet->first_line = record.line;
    sheet->file_columns = record.count;
    ICL_CHECK(detect_header(sheet, &record, &sheet->has_header, error));
    ICL_CHECK(keep_names(sheet, &record, error));
    ICL_CHECK(icl_choose_columns(sheet, error));
    if (sheet->has_header)
        ICL_CHECK(icl_csv_reader_next(sheet->reader, &record, &found, error));
    while (found) {
        ICL_CHECK(add_row(sheet, &record, error));
        ICL_CHECK(icl_csv_reader_next(sheet->reader, &record, &found, error));
    }
    if (sheet->rows == 0)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s:%zu: a header and no rows: expected rows of numbers (--header no: the line is one)",
                        sheet->name, sheet->first_line);
    return ICL_OK;
}

icl_status icl_sheet_read(const icl_table_params *params, icl_sheet *sheet, icl_error *error) {
    *sheet = (icl_sheet){.params = params};
    ICL_CHECK(icl_csv_reader_open(&params->source, &sheet->reader, error));
    sheet->name = icl_csv_reader_name(sheet->reader);
    ICL_CHECK(choose_separator(sheet, error));
    return read_rows(sheet, error);
}
