/* A table as text: its separator, names and cells, and which of its columns are used. */
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/print.h"
#include "core/table/sheet.h"
#include "iclab/nearest.h"
#include "iclab/number.h"

/* ---- The separator ---- */

const char *icl_separator_word(char separator) {
    static const struct {
        char separator;
        const char *word;
    } words[] = {{',', "comma"}, {';', "semicolon"}, {'\t', "tab"}, {'|', "pipe"}};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i].separator == separator)
            return words[i].word;
    return NULL;
}

const char *icl_separator_name(char separator, char name[ICL_SEPARATOR_NAME]) {
    const char *word = icl_separator_word(separator);

    if (!word)
        snprintf(name, ICL_SEPARATOR_NAME, "'%c'", separator);
    else
        snprintf(name, ICL_SEPARATOR_NAME, "%s", word);
    return name;
}

/* ---- Which columns are used: those asked for, or all but the target and those excluded ---- */

/* Refuses a file of one column: no separator splits its lines, or the one that the caller named does not. */
static icl_status refuse_one_column(const icl_sheet *sheet, const char *wanted, icl_error *error) {
    char name[ICL_SEPARATOR_NAME], separator = 0;

    ICL_CHECK(icl_csv_reader_recognise(sheet->reader, &separator, error));
    return icl_fail(error, ICL_ERROR_INPUT,
                    "%s:%zu: no column \"%s\" in a file of one column (\"%s\"): expected what stands between fields: "
                    "--separator %s",
                    sheet->name, sheet->first_line, wanted, sheet->names[0],
                    separator != 0 ? icl_separator_name(separator, name)
                                   : "comma, semicolon, tab, pipe or a character; " ICL_TIDYING " reads blanks");
}

static icl_status refuse_column(const icl_sheet *sheet, const char *option, const char *wanted, icl_error *error) {
    char printable[ICL_CELL_CAPACITY];

    icl_printable(wanted, printable, sizeof printable);
    if (sheet->file_columns == 1)
        return refuse_one_column(sheet, printable, error);
    if (!sheet->has_header)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s:%zu: no column \"%s\": expected for %s a number from 1 to %zu, because the first line has "
                        "no names (--header yes says that it has)",
                        sheet->name, sheet->first_line, printable, option, sheet->file_columns);
    return icl_fail(error, ICL_ERROR_INPUT,
                    "%s:%zu: no column \"%s\" (nearest: \"%s\"): expected for %s a name of the first line, or a number "
                    "from 1 to %zu",
                    sheet->name, sheet->first_line, printable,
                    icl_nearest(wanted, (const char *const *)sheet->names, sheet->file_columns), option,
                    sheet->file_columns);
}

/* Finds a column of the file by its name or, if no column has that name, by its number. */
static icl_status find_column(const icl_sheet *sheet, const char *option, const char *wanted, size_t *column,
                              icl_error *error) {
    char name[ICL_COLUMN_CAPACITY];
    size_t named = 0;
    uint64_t number;

    icl_printable(wanted, name, sizeof name);
    for (size_t i = 0; sheet->has_header && i < sheet->file_columns; i++)
        if (name[0] != '\0' && strcmp(sheet->header[i], name) == 0 && named++ == 0)
            *column = i;
    if (named > 1)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s:%zu: %zu columns are named \"%s\": expected for %s the number of one, from 1 to %zu: the "
                        "first is %zu",
                        sheet->name, sheet->first_line, named, name, option, sheet->file_columns, *column + 1);
    for (size_t i = 0; named == 0 && i < sheet->file_columns; i++)
        if (strcmp(sheet->names[i], name) == 0) {
            *column = i;
            named = 1;
        }
    if (named == 1)
        return ICL_OK;
    if (!icl_parse_count(wanted, strlen(wanted), &number) || number < 1 || number > sheet->file_columns)
        return refuse_column(sheet, option, wanted, error);
    *column = (size_t)number - 1;
    return ICL_OK;
}

/* As above, but by the names that another table gave its columns, which are all different. */
static icl_status find_like(const icl_sheet *sheet, const icl_table *like, size_t column, size_t *position,
                            icl_error *error) {
    for (size_t i = 0; i < sheet->file_columns; i++)
        if (strcmp(sheet->names[i], like->sources[column]) == 0) {
            *position = i;
            return ICL_OK;
        }
    return find_column(sheet, "--new", like->sources[column], position, error);
}

static icl_status choose_column(icl_sheet *sheet, size_t position, bool is_chosen, bool is_target, icl_error *error) {
    for (size_t i = 0; i < sheet->column_count; i++)
        if (sheet->columns[i].position == position)
            return icl_fail(error, ICL_ERROR_INPUT,
                            "%s:%zu: column %zu is chosen twice: expected every column once in --columns, and the "
                            "target not among them",
                            sheet->name, sheet->first_line, position + 1);
    sheet->columns[sheet->column_count++] =
        (icl_sheet_column){.position = position, .is_chosen = is_chosen, .is_target = is_target};
    return ICL_OK;
}

/* Chooses the columns of another table. The indicators of one column are adjacent, and count once. */
static icl_status choose_like(icl_sheet *sheet, const icl_table *like, icl_error *error) {
    size_t position = 0;

    for (size_t i = 0; i + 1 < like->columns; i++) {
        if (i > 0 && like->levels[i] && like->numbers[i] == like->numbers[i - 1])
            continue;
        ICL_CHECK(find_like(sheet, like, i, &position, error));
        ICL_CHECK(choose_column(sheet, position, true, false, error));
        sheet->columns[sheet->column_count - 1].like = i;
    }
    return ICL_OK;
}

static icl_status mark_excluded(const icl_sheet *sheet, size_t target, bool *is_excluded, icl_error *error) {
    const icl_table_params *params = sheet->params;
    size_t column = 0;

    for (size_t i = 0; i < params->excluded_count; i++) {
        ICL_CHECK(find_column(sheet, "--exclude", params->excluded[i], &column, error));
        if (column == target)
            return icl_fail(error, ICL_ERROR_INPUT,
                            "%s:%zu: column %zu is the target and excluded: expected --exclude of others", sheet->name,
                            sheet->first_line, column + 1);
        is_excluded[column] = true;
    }
    return ICL_OK;
}

static icl_status choose_features(icl_sheet *sheet, size_t target, const bool *is_excluded, icl_error *error) {
    const icl_table_params *params = sheet->params;
    size_t column = 0;

    for (size_t i = 0; i < params->column_count; i++) {
        ICL_CHECK(find_column(sheet, "--columns", params->columns[i], &column, error));
        if (!is_excluded[column])
            ICL_CHECK(choose_column(sheet, column, true, false, error));
    }
    for (size_t i = 0; params->column_count == 0 && !params->target_alone && i < sheet->file_columns; i++)
        if (i != target && !is_excluded[i])
            ICL_CHECK(choose_column(sheet, i, false, false, error));
    return ICL_OK;
}

/* Fills sheet->columns once the names are known. ICL_ERROR_INPUT if a column is unknown, ambiguous or chosen twice. */
static icl_status choose_columns(icl_sheet *sheet, icl_error *error) {
    const icl_table_params *params = sheet->params;
    size_t target = SIZE_MAX;
    bool *is_excluded = NULL;
    icl_status status;

    ICL_TRY(icl_allocate(sheet->file_columns + 1, sizeof *sheet->columns, "columns", &sheet->columns, error));
    if (params->like) {
        ICL_TRY(choose_like(sheet, params->like, error));
        goto done;
    }
    if (params->target)
        ICL_TRY(find_column(sheet, "--target", params->target, &target, error));
    ICL_TRY(icl_allocate(sheet->file_columns, sizeof *is_excluded, "columns", &is_excluded, error));
    ICL_TRY(mark_excluded(sheet, target, is_excluded, error));
    ICL_TRY(choose_features(sheet, target, is_excluded, error));
    if (params->target)
        ICL_TRY(choose_column(sheet, target, true, true, error));
done:
    icl_free(&is_excluded);
    return status;
}

/* ---- Reading ---- */

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

/* ---- Names ---- */

const char *icl_column_label(const icl_sheet *sheet, size_t position, char text[ICL_LABEL_CAPACITY]) {
    if (sheet->has_header && sheet->header[position][0] != '\0')
        snprintf(text, ICL_LABEL_CAPACITY, "column %zu (%s)", position + 1, sheet->names[position]);
    else
        snprintf(text, ICL_LABEL_CAPACITY, "column %zu", position + 1);
    return text;
}

/* Returns whether the record is 0, 1, 2, …, possibly after an empty field: the header that pandas gives an array. */
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

/* Decides whether the first record is a header. ICL_ERROR_INPUT if header = auto leaves a doubt. */
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

/* Returns how many of the first `count` names equal `name`. */
static size_t count_names(char *const *names, size_t count, const char *name) {
    size_t found = 0;

    for (size_t i = 0; i < count; i++)
        found += strcmp(names[i], name) == 0;
    return found;
}

/* Gives a column a unique name: the second x becomes x.2; a column without a name is named after its number. */
static icl_status make_name(icl_sheet *sheet, size_t column, icl_error *error) {
    char name[ICL_COLUMN_CAPACITY + 32];
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
        char name[ICL_COLUMN_CAPACITY];
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

/* Refuses a line of empty fields, which Excel leaves if cells were cleared. */
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
    sheet->separator = sheet->params->source.separator;
    if (sheet->separator == 0)
        ICL_CHECK(icl_csv_reader_recognise(sheet->reader, &sheet->separator, error));
    if (sheet->separator == 0)
        sheet->separator = ',';
    return ICL_OK;
}

/* Reads the first record, chooses the columns, and reads every row. */
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
    ICL_CHECK(choose_columns(sheet, error));
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
    sheet->name = params->source.text || strcmp(params->source.path, "-") != 0 ? params->source.path : "standard input";
    ICL_CHECK(choose_separator(sheet, error));
    return read_rows(sheet, error);
}
