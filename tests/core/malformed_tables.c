/* Random tables, each damaged in one way at one place: the reader refuses every one with a single line that names the
 * file, the damaged line and, for a cell, its column. Without damage they are read, value for value. */
#include <stdarg.h>

#include "iclab/random.h"
#include "iclab/table.h"
#include "tap.h"

enum { VARIANTS = 16, MOST_ROWS = 30, MOST_COLUMNS = 9, CAPACITY = 1 << 15 };

typedef enum table_damage {
    NO_DAMAGE = 0,
    FIELD_LOST,
    FIELD_TOO_MANY,
    CELL_EMPTY,
    CELL_NAN,
    CELL_NA,
    CELL_TEXT,
    CELL_INFINITE,
    CELL_HEXADECIMAL,
    CELL_OF_COMMAS,
    CELL_OF_BLANKS,
    CELL_TOO_LARGE,
    CELL_CONTROL,
    QUOTE_OPEN,
    QUOTE_IN_FIELD,
    QUOTE_FOLLOWED,
    NUL_BYTE,
    NAME_TWICE,
    NAME_OF_NUMBER,
    ROWS_NONE,
    ONE_COLUMN,
    UTF_16,
    DAMAGES
} table_damage;

/* The text of the damaged cell; NULL: something else is damaged. */
static const char *const cells[DAMAGES] = {
    [CELL_EMPTY] = "",
    [CELL_NAN] = "NaN",
    [CELL_NA] = "NA",
    [CELL_TEXT] = "twelve",
    [CELL_INFINITE] = "-inf",
    [CELL_HEXADECIMAL] = "0x1p3",
    [CELL_OF_COMMAS] = "\"1,23\"",
    [CELL_OF_BLANKS] = " \t ",
    [CELL_TOO_LARGE] = "1e300",
    [CELL_CONTROL] = "\"\x1b[31m\x7f\xff\n7\"",
    [QUOTE_OPEN] = "\"12",
    [QUOTE_IN_FIELD] = "1\"2",
    [QUOTE_FOLLOWED] = "\"1\"2",
};

/* The words that the message must hold beside the place. */
static const char *const complaints[DAMAGES] = {
    [FIELD_LOST] = "a line of",
    [FIELD_TOO_MANY] = "a line of",
    [CELL_EMPTY] = "a missing value",
    [CELL_NAN] = "a missing value \"NaN\"",
    [CELL_NA] = "a missing value \"NA\"",
    [CELL_TEXT] = "text \"twelve\"",
    [CELL_INFINITE] = "text \"-inf\"",
    [CELL_HEXADECIMAL] = "text \"0x1p3\"",
    [CELL_OF_COMMAS] = "not a plain number \"1,23\"",
    [CELL_OF_BLANKS] = "a missing value",
    [CELL_TOO_LARGE] = "too large a number",
    [CELL_CONTROL] = "text \" [31m ? 7\"",
    [QUOTE_OPEN] = "expected", /* not closed, or closed by the next quote in the text */
    [QUOTE_IN_FIELD] = "a quote within a field",
    [QUOTE_FOLLOWED] = "text behind a closing quote",
    [NUL_BYTE] = "a NUL byte",
    [NAME_TWICE] = "columns are named",
    [NAME_OF_NUMBER] = "and a number in column",
    [ROWS_NONE] = "a header and no rows",
    [ONE_COLUMN] = "no column \"target\"",
    [UTF_16] = "not UTF-8",
};

typedef struct made_text {
    char bytes[CAPACITY];
    size_t size;
} made_text;

/* Appends formatted text, less than CAPACITY bytes in all. */
static void append(made_text *text, const char *format, ...) {
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = vsnprintf(text->bytes + text->size, sizeof text->bytes - text->size, format, arguments);
    va_end(arguments);
    text->size += (size_t)length;
}

typedef struct table_shape {
    uint32_t seed;
    size_t rows, columns, target; /* target: a column, from 0 */
    size_t row, column;           /* the damaged cell; row 0 is the one after the header */
    const char *line_end;
    bool has_mark, is_quoted;
} table_shape;

static uint32_t word(const table_shape *shape, uint64_t index) {
    return icl_random_word((icl_random_key){shape->seed, 0x7462, 0}, index);
}

static table_shape make_shape(uint32_t seed) {
    static const char *const line_ends[] = {"\n", "\r\n", "\r"};
    table_shape made = {.seed = seed};

    made.rows = 2 + word(&made, 0) % (MOST_ROWS - 1);
    made.columns = 2 + word(&made, 1) % (MOST_COLUMNS - 1);
    made.target = word(&made, 2) % made.columns;
    made.row = word(&made, 3) % made.rows;
    made.column = word(&made, 4) % made.columns;
    made.line_end = line_ends[word(&made, 5) % 3];
    made.has_mark = word(&made, 6) % 2;
    made.is_quoted = word(&made, 7) % 3 == 0;
    return made;
}

static double value_at(const table_shape *shape, size_t row, size_t column) {
    return ((double)word(shape, 100 + row * MOST_COLUMNS + column) - 0x1p31) / 0x1p16;
}

static void append_header(const table_shape *shape, table_damage damage, made_text *text) {
    const size_t other = (shape->target + 1) % shape->columns;

    if (shape->has_mark)
        append(text, "\xEF\xBB\xBF");
    for (size_t i = 0; i < shape->columns; i++) {
        append(text, "%s", i > 0 ? "," : "");
        if (i == shape->target || (damage == NAME_TWICE && i == other))
            append(text, "target");
        else if (damage == NAME_OF_NUMBER && i == other)
            append(text, "1990");
        else
            append(text, shape->is_quoted ? "\"x, %zu\"" : "x%zu", i);
    }
    append(text, "%s", shape->line_end);
}

static void append_row(const table_shape *shape, table_damage damage, size_t row, made_text *text) {
    const bool is_hit = row == shape->row;
    const size_t count = shape->columns - (is_hit && damage == FIELD_LOST);

    for (size_t i = 0; i < count; i++) {
        append(text, "%s", i > 0 ? "," : "");
        if (is_hit && i == shape->column && cells[damage])
            append(text, "%s", cells[damage]);
        else
            append(text, shape->is_quoted ? "\"%.17g\"" : "%.17g", value_at(shape, row, i));
        if (is_hit && i == shape->column && damage == NUL_BYTE)
            text->bytes[text->size++] = '\0';
    }
    append(text, "%s%s", is_hit && damage == FIELD_TOO_MANY ? ",1" : "", shape->line_end);
}

static void make_text(const table_shape *shape, table_damage damage, made_text *text) {
    text->size = 0;
    if (damage == UTF_16) {
        append(text, "\xFE\xFF%s", "header");
        return;
    }
    if (damage == ONE_COLUMN) {
        append(text, "other%s1%s2%s", shape->line_end, shape->line_end, shape->line_end);
        return;
    }
    append_header(shape, damage, text);
    for (size_t row = 0; row < shape->rows && damage != ROWS_NONE; row++)
        append_row(shape, damage, row, text);
}

/* Returns the line that the message must name. */
static size_t line_of(const table_shape *shape, table_damage damage) {
    return damage >= NAME_TWICE ? 1 : shape->row + 2;
}

static icl_status read_text(const made_text *text, icl_table **table, icl_error *error) {
    const icl_table_params params = {.source = {.path = "made.csv", .text = text->bytes, .size = text->size},
                                     .target = "target"};
    return icl_table_read(&params, table, error);
}

/* Returns whether the table has the written values: all columns but the target in the file's order, then the target. */
static bool is_what_was_written(const table_shape *shape, const icl_table *table) {
    if (!table || table->rows != shape->rows || table->columns != shape->columns)
        return false;
    for (size_t row = 0; row < table->rows; row++)
        for (size_t i = 0; i < table->columns; i++)
            if (table->values[row * table->columns + i] != value_at(shape, row, table->numbers[i] - 1) ||
                table->lines[row] != row + 2)
                return false;
    return table->numbers[table->columns - 1] == shape->target + 1;
}

static bool is_refused_well(const table_shape *shape, table_damage damage, icl_status status, const icl_error *error) {
    char place[64], column[32];

    snprintf(place, sizeof place, "made.csv:%zu: ", line_of(shape, damage));
    snprintf(column, sizeof column, "column %zu", shape->column + 1);
    return status == ICL_ERROR_INPUT && strncmp(error->message, place, strlen(place)) == 0 &&
           strstr(error->message, complaints[damage]) && strstr(error->message, "expected") &&
           (!cells[damage] || damage == QUOTE_OPEN || strstr(error->message, column)) && strlen(error->message) < 300 &&
           !strpbrk(error->message, "\n\r\x1b");
}

static void check_damage(tap_run *tap, table_damage damage, size_t *refused) {
    static made_text made;
    size_t good = 0;

    for (uint32_t variant = 0; variant < VARIANTS; variant++) {
        const table_shape shape = make_shape(1 + VARIANTS * (uint32_t)damage + variant);
        icl_table *table = NULL;
        icl_error error = {0};
        make_text(&shape, damage, &made);
        const icl_status status = read_text(&made, &table, &error);
        const bool is_right = damage == NO_DAMAGE ? status == ICL_OK && is_what_was_written(&shape, table)
                                                  : !table && is_refused_well(&shape, damage, status, &error);
        good += is_right;
        *refused += status == ICL_ERROR_INPUT;
        if (!is_right)
            tap_note("seed %u, line %zu, column %zu: %s", shape.seed, line_of(&shape, damage), shape.column + 1,
                     status == ICL_OK ? "it was read" : error.message);
        icl_table_destroy(&table);
    }
    if (damage == NO_DAMAGE)
        tap_ok(tap, good == VARIANTS, "without damage all %d are read as written", VARIANTS);
    else
        tap_ok(tap, good == VARIANTS, "damage %d (%s): %d refused, each with its place", (int)damage,
               complaints[damage], VARIANTS);
}

int main(void) {
    tap_run tap = {0};
    size_t refused = 0;

    for (int damage = NO_DAMAGE; damage < DAMAGES; damage++)
        check_damage(&tap, (table_damage)damage, &refused);
    tap_ok(&tap, refused == VARIANTS * (DAMAGES - 1), "%zu malformed tables in all", refused);
    return tap_done(&tap);
}
