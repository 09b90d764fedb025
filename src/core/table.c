#include "iclab/table.h"

#include <ctype.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/csv_reader.h"
#include "core/printable.h"
#include "iclab/nearest.h"
#include "iclab/number.h"

/* Bytes of a cell in a message, and of a column's name. */
enum { CELL_CAPACITY = 48, NAME_CAPACITY = 128 };

/* A table while it is read. */
typedef struct table_reading {
    const icl_table_params *params;
    icl_csv_reader *reader;
    const char *name;
    icl_table *table;
    size_t first_line, file_columns; /* of the first record */
    char **header;                   /* [file_columns], printable; NULL: the file has none */
    size_t capacity;                 /* rows that there is room for */
} table_reading;

void icl_table_destroy(icl_table **table) {
    if (*table) {
        for (size_t i = 0; (*table)->names && i < (*table)->columns; i++)
            icl_free(&(*table)->names[i]);
        icl_free(&(*table)->names);
        icl_free(&(*table)->numbers);
        icl_free(&(*table)->values);
        icl_free(&(*table)->lines);
        icl_free(&(*table)->name);
    }
    icl_free(table);
}

/* ---- Cells ---- */

static bool is_missing(const char *cell) {
    static const char *const words[] = {"", "na", "n/a", "nan", "null", "none", "?", ".", "-"};
    char lower[8];
    size_t length = 0;

    for (; cell[length] != '\0' && length + 1 < sizeof lower; length++)
        lower[length] = (char)tolower((unsigned char)cell[length]);
    lower[length] = '\0';
    if (cell[length] != '\0')
        return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(lower, words[i]) == 0)
            return true;
    return false;
}

static bool is_number(const char *cell) {
    double value;
    return icl_parse_number(cell, strlen(cell), &value);
}

/* "data.csv:7: column 3 (wt): " and the complaint, with the cell in quotes between its parts. */
static icl_status refuse_cell(const table_reading *reading, size_t line, size_t column, const char *what,
                              const char *cell, const char *expected, icl_error *error) {
    char printable[CELL_CAPACITY];

    return icl_fail(error, ICL_ERROR_INPUT, "%s:%zu: column %zu%s%s%s: %s \"%s\": expected %s", reading->name, line,
                    column + 1, reading->header ? " (" : "", reading->header ? reading->header[column] : "",
                    reading->header ? ")" : "", what, icl_printable(cell, printable, sizeof printable), expected);
}

static icl_status read_cell(const table_reading *reading, size_t line, size_t column, const char *cell,
                            bool may_be_missing, double *value, icl_error *error) {
    if (is_missing(cell)) {
        *value = (double)NAN;
        if (may_be_missing)
            return ICL_OK;
        return refuse_cell(reading, line, column, "a missing value", cell, "a number in every cell of the columns used",
                           error);
    }
    if (!icl_parse_number(cell, strlen(cell), value))
        return refuse_cell(reading, line, column, "text", cell,
                           strchr(cell, ',') ? "a decimal number, with a point and no commas"
                                             : "a decimal number (or a choice of columns without this one)",
                           error);
    if (fabs(*value) > ICL_TABLE_MAX_VALUE)
        return refuse_cell(reading, line, column, "too large a number", cell, "magnitudes up to 1e100", error);
    return ICL_OK;
}

/* ---- The header ---- */

/* Says how the first record is to be read, where header = auto leaves a doubt. */
static icl_status detect_header(const table_reading *reading, const icl_csv_record *record, bool *has_header,
                                icl_error *error) {
    size_t number = SIZE_MAX, text = SIZE_MAX;

    *has_header = reading->params->header == ICL_HEADER_YES;
    if (reading->params->header != ICL_HEADER_AUTO)
        return ICL_OK;
    for (size_t i = 0; i < record->count; i++) {
        if (is_number(record->fields[i]))
            number = number == SIZE_MAX ? i : number;
        else if (record->fields[i][0] != '\0')
            text = text == SIZE_MAX ? i : text;
    }
    if (number != SIZE_MAX && text != SIZE_MAX)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s:%zu: text in column %zu and a number in column %zu of the first line: expected "
                        "names alone or numbers alone, or to be told whether it is a header",
                        reading->name, record->line, text + 1, number + 1);
    *has_header = number == SIZE_MAX;
    return ICL_OK;
}

static icl_status keep_header(table_reading *reading, const icl_csv_record *record, icl_error *error) {
    ICL_CHECK(icl_allocate(record->count, sizeof *reading->header, "names of columns", &reading->header, error));
    for (size_t i = 0; i < record->count; i++) {
        char name[NAME_CAPACITY];
        ICL_CHECK(icl_duplicate(icl_printable(record->fields[i], name, sizeof name), &reading->header[i], error));
    }
    return ICL_OK;
}

static void release_header(table_reading *reading) {
    for (size_t i = 0; reading->header && i < reading->file_columns; i++)
        icl_free(&reading->header[i]);
    icl_free(&reading->header);
}

/* ---- Columns ---- */

static icl_status refuse_column(const table_reading *reading, const char *wanted, icl_error *error) {
    const char *hint = "";
    char printable[CELL_CAPACITY];

    icl_printable(wanted, printable, sizeof printable);
    if (!reading->header)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s:%zu: no column \"%s\": expected a number from 1 to %zu, because the first line "
                        "has no names",
                        reading->name, reading->first_line, printable, reading->file_columns);
    if (reading->file_columns == 1)
        hint = strchr(reading->header[0], ';')   ? "; is it separated by semicolons?"
               : strchr(reading->header[0], ' ') ? "; is it separated by tabs?"
                                                 : "";
    return icl_fail(error, ICL_ERROR_INPUT,
                    "%s:%zu: no column \"%s\" (nearest: \"%s\"): expected a name of the first line, or a number "
                    "from 1 to %zu%s",
                    reading->name, reading->first_line, printable,
                    icl_nearest(wanted, (const char *const *)reading->header, reading->file_columns),
                    reading->file_columns, hint);
}

/* A column of the file, by its name or, where no column has that name, its number. */
static icl_status find_column(const table_reading *reading, const char *wanted, size_t *column, icl_error *error) {
    char name[NAME_CAPACITY];
    size_t named = 0;
    uint64_t number;

    icl_printable(wanted, name, sizeof name);
    for (size_t i = 0; reading->header && i < reading->file_columns; i++)
        if (strcmp(reading->header[i], name) == 0 && named++ == 0)
            *column = i;
    if (named > 1)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s:%zu: %zu columns are named \"%s\": expected the number of one, from 1 to %zu",
                        reading->name, reading->first_line, named, name, reading->file_columns);
    if (named == 1)
        return ICL_OK;
    if (!icl_parse_count(wanted, strlen(wanted), &number) || number < 1 || number > reading->file_columns)
        return refuse_column(reading, wanted, error);
    *column = (size_t)number - 1;
    return ICL_OK;
}

static icl_status choose_column(table_reading *reading, size_t column, icl_error *error) {
    icl_table *table = reading->table;
    char number[32];

    for (size_t i = 0; i < table->columns; i++)
        if (table->numbers[i] == column + 1)
            return icl_fail(error, ICL_ERROR_INPUT,
                            "%s:%zu: column %zu is chosen twice: expected every column once, and the target "
                            "not among the others",
                            reading->name, reading->first_line, column + 1);
    snprintf(number, sizeof number, "%zu", column + 1);
    ICL_CHECK(icl_duplicate(reading->header ? reading->header[column] : number, &table->names[table->columns], error));
    table->numbers[table->columns++] = column + 1;
    return ICL_OK;
}

static icl_status choose_columns(table_reading *reading, icl_error *error) {
    const icl_table_params *params = reading->params;
    icl_table *table = reading->table;
    size_t target = SIZE_MAX, column = 0;

    if (params->target)
        ICL_CHECK(find_column(reading, params->target, &target, error));
    ICL_CHECK(icl_allocate(reading->file_columns + 1, sizeof *table->names, "columns", &table->names, error));
    ICL_CHECK(icl_allocate(reading->file_columns + 1, sizeof *table->numbers, "columns", &table->numbers, error));
    for (size_t i = 0; i < params->column_count; i++) {
        ICL_CHECK(find_column(reading, params->columns[i], &column, error));
        ICL_CHECK(choose_column(reading, column, error));
    }
    for (size_t i = 0; params->column_count == 0 && i < reading->file_columns; i++)
        if (i != target)
            ICL_CHECK(choose_column(reading, i, error));
    if (params->target)
        ICL_CHECK(choose_column(reading, target, error));
    return ICL_OK;
}

/* ---- Rows ---- */

static icl_status grow(table_reading *reading, icl_error *error) {
    icl_table *table = reading->table;
    const size_t capacity = reading->capacity * 2 + 64;
    double *values = NULL;
    size_t *lines = NULL;
    icl_status status;

    ICL_TRY(icl_allocate(capacity, table->columns * sizeof *values, "rows of a table", &values, error));
    ICL_TRY(icl_allocate(capacity, sizeof *lines, "rows of a table", &lines, error));
    if (table->rows > 0) {
        memcpy(values, table->values, table->rows * table->columns * sizeof *values);
        memcpy(lines, table->lines, table->rows * sizeof *lines);
    }
    icl_free(&table->values);
    icl_free(&table->lines);
    table->values = values;
    table->lines = lines;
    reading->capacity = capacity;
    values = NULL;
    lines = NULL;
done:
    icl_free(&values);
    icl_free(&lines);
    return status;
}

static icl_status add_row(table_reading *reading, const icl_csv_record *record, icl_error *error) {
    icl_table *table = reading->table;

    if (record->count != reading->file_columns)
        return icl_fail(error, ICL_ERROR_INPUT, "%s:%zu: a line of %zu column%s: expected %zu, as in line %zu",
                        reading->name, record->line, record->count, record->count == 1 ? "" : "s",
                        reading->file_columns, reading->first_line);
    if (table->rows == ICL_TABLE_MAX_ROWS || table->rows * table->columns >= ICL_TABLE_MAX_CELLS)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s:%zu: more than %zu rows of %zu columns: expected at most %zu rows and %zu cells",
                        reading->name, record->line, table->rows, table->columns, ICL_TABLE_MAX_ROWS,
                        ICL_TABLE_MAX_CELLS);
    if (table->rows == reading->capacity)
        ICL_CHECK(grow(reading, error));
    for (size_t i = 0; i < table->columns; i++) {
        const size_t column = table->numbers[i] - 1;
        const bool is_target = reading->params->target && i + 1 == table->columns;
        ICL_CHECK(read_cell(reading, record->line, column, record->fields[column],
                            is_target && reading->params->missing_targets,
                            &table->values[table->rows * table->columns + i], error));
    }
    table->lines[table->rows++] = record->line;
    return ICL_OK;
}

/* Columns from the first record, then every row. */
static icl_status read_rows(table_reading *reading, icl_error *error) {
    icl_csv_record record;
    bool found = false, has_header = false;

    ICL_CHECK(icl_csv_reader_next(reading->reader, &record, &found, error));
    if (!found)
        return icl_fail(error, ICL_ERROR_INPUT, "%s:1: empty: expected a table with a header and rows", reading->name);
    reading->first_line = record.line;
    reading->file_columns = record.count;
    ICL_CHECK(detect_header(reading, &record, &has_header, error));
    if (has_header)
        ICL_CHECK(keep_header(reading, &record, error));
    reading->table->has_header = has_header;
    ICL_CHECK(choose_columns(reading, error));
    if (has_header)
        ICL_CHECK(icl_csv_reader_next(reading->reader, &record, &found, error));
    if (!found)
        return icl_fail(error, ICL_ERROR_INPUT, "%s:%zu: a header and no rows: expected rows of numbers", reading->name,
                        reading->first_line);
    while (found) {
        ICL_CHECK(add_row(reading, &record, error));
        ICL_CHECK(icl_csv_reader_next(reading->reader, &record, &found, error));
    }
    return ICL_OK;
}

icl_status icl_table_read(const icl_table_params *params, icl_table **table, icl_error *error) {
    table_reading reading = {.params = params};
    icl_table *made = NULL;
    icl_status status;

    ICL_TRY(icl_csv_reader_open(&params->source, &reading.reader, error));
    reading.name = icl_csv_reader_name(reading.reader);
    ICL_TRY(icl_allocate(1, sizeof *made, "table", &made, error));
    reading.table = made;
    ICL_TRY(icl_duplicate(reading.name, &made->name, error));
    ICL_TRY(read_rows(&reading, error));
    *table = made;
    made = NULL;
done:
    release_header(&reading);
    icl_table_destroy(&made);
    icl_csv_reader_close(&reading.reader);
    return status;
}

/* ---- Lists ---- */

icl_status icl_csv_split(const char *list, const char *name, char ***items, size_t *count, icl_error *error) {
    const icl_csv_source source = {.path = name, .text = list, .size = strlen(list)};
    icl_csv_reader *reader = NULL;
    icl_csv_record record;
    bool found = false;
    char **made = NULL, *at;
    icl_status status;

    ICL_TRY(icl_csv_reader_open(&source, &reader, error));
    ICL_TRY(icl_csv_reader_next(reader, &record, &found, error));
    if (!found) {
        status = icl_fail(error, ICL_ERROR_INPUT, "%s: an empty list: expected names or numbers of columns", name);
        goto done;
    }
    ICL_TRY(icl_allocate(record.count * sizeof *made + strlen(list) + record.count, 1, "list", &made, error));
    at = (char *)(made + record.count);
    for (size_t i = 0; i < record.count; i++) {
        made[i] = at;
        strcpy(at, record.fields[i]);
        at += strlen(at) + 1;
    }
    *items = made;
    *count = record.count;
done:
    icl_csv_reader_close(&reader);
    return status;
}
