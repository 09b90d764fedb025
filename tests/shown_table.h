/* Tables as their reader finds them: a cell by the words of its row and the heading of its column, wherever they are
 * placed. HTML, Markdown and CSV become the same table. */
#ifndef ICLAB_TESTS_SHOWN_TABLE_H
#define ICLAB_TESTS_SHOWN_TABLE_H

#include <math.h>

#include "core/allocate.h"
#include "iclab/file.h"
#include "tap.h"

enum { SHOWN_COLUMNS = 40, SHOWN_CELL = 4096 };

/* The first row has the headings. In HTML a row has two more cells, "(tone)" and "(link)". */
typedef struct shown_table {
    size_t rows, columns; /* rows: with the row of headings */
    char **cells;         /* [rows][SHOWN_COLUMNS] */
    size_t capacity;
} shown_table;

static inline void shown_table_release(shown_table *table) {
    for (size_t i = 0; i < table->rows * SHOWN_COLUMNS; i++)
        free(table->cells[i]);
    free(table->cells);
    *table = (shown_table){0};
}

/* Ends the test, which cannot continue. */
static inline void shown_give_up(const char *why, const char *what) {
    printf("Bail out! %s: %s\n", why, what);
    exit(1);
}

/* Returns the text of folder/name, to be freed with free; NULL if there is no such file. */
static inline char *shown_file(const char *folder, const char *name) {
    char path[1024], *text = NULL, *copy = NULL;
    size_t size = 0;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (icl_file_read(path, 0, &text, &size, NULL) == ICL_OK)
        copy = strdup(text);
    icl_free(&text);
    return copy;
}

static inline void shown_row_begin(shown_table *table) {
    if (table->rows == table->capacity) {
        table->capacity = 2 * table->capacity + 16;
        table->cells = realloc(table->cells, table->capacity * SHOWN_COLUMNS * sizeof *table->cells);
        if (!table->cells)
            shown_give_up("no memory", "a table");
    }
    for (size_t i = 0; i < SHOWN_COLUMNS; i++)
        table->cells[table->rows * SHOWN_COLUMNS + i] = NULL;
    table->rows++;
}

static inline void shown_cell_add(shown_table *table, size_t column, const char *text, size_t length) {
    if (column >= SHOWN_COLUMNS)
        shown_give_up("too many columns", text);
    char **cell = &table->cells[(table->rows - 1) * SHOWN_COLUMNS + column];
    free(*cell);
    *cell = strndup(text, length);
}

/* ---- CSV ---- */

/* Reads CSV; every row must have as many fields as the header. */
static inline shown_table shown_csv(const char *text) {
    shown_table table = {0};
    char field[SHOWN_CELL];

    while (text && *text) {
        size_t column = 0;
        shown_row_begin(&table);
        for (bool more = true; more; column++) {
            const bool is_quoted = *text == '"';
            size_t length = 0;
            for (text += is_quoted; *text && length + 1 < sizeof field; text++) {
                if (is_quoted ? *text == '"' && *++text != '"' : *text == ',' || *text == '\n')
                    break;
                field[length++] = *text;
            }
            field[length] = '\0';
            shown_cell_add(&table, column, field, length);
            more = *text == ',';
            text += *text != '\0';
        }
        table.columns = table.rows == 1 ? column : table.columns;
        if (column != table.columns)
            shown_give_up("a row of another number of fields", field);
    }
    return table;
}

/* ---- HTML ---- */

/* Copies the text without tags, and with entities replaced by their characters. */
static inline void shown_html_text(const char *from, const char *end, char text[SHOWN_CELL]) {
    static const char *const entities[][2] = {
        {"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&#39;", "'"}};
    size_t length = 0;

    while (from < end && length + 1 < SHOWN_CELL) {
        size_t skipped = *from == '<' ? strcspn(from, ">") + 1 : 0;
        for (size_t i = 0; i < sizeof entities / sizeof *entities && skipped == 0; i++)
            if (strncmp(from, entities[i][0], strlen(entities[i][0])) == 0) {
                skipped = strlen(entities[i][0]);
                text[length++] = *entities[i][1];
            }
        if (skipped == 0) {
            text[length++] = *from;
            skipped = 1;
        }
        from += skipped;
    }
    text[length] = '\0';
}

/* Copies the value of an attribute between `from` and `end`, or "". */
static inline void shown_html_attribute(const char *from, const char *end, const char *name, char text[SHOWN_CELL]) {
    char opening[64];
    const char *at;

    snprintf(opening, sizeof opening, "%s=\"", name);
    at = strstr(from, opening);
    text[0] = '\0';
    if (at && at < end) {
        at += strlen(opening);
        shown_html_text(at, at + strcspn(at, "\""), text);
    }
}

/* Reads one row, from its opening to its end. A cell repeats its column's heading, for narrow windows. */
static inline void shown_html_row(shown_table *table, const char *row, const char *end) {
    const bool is_head = table->rows == 0;
    const char *const tag = is_head ? "<th" : "<td", *const closing = is_head ? "</th>" : "</td>";
    char text[SHOWN_CELL], label[SHOWN_CELL], link[SHOWN_CELL] = "";
    size_t column = 0;

    shown_row_begin(table);
    for (const char *cell = row; (cell = strstr(cell, tag)) != NULL && cell < end; column++) {
        const char *close = strstr(cell, closing), *open = cell + strcspn(cell, ">");
        shown_html_text(open + 1, close, text);
        shown_cell_add(table, column, text, strlen(text));
        shown_html_attribute(cell, open, "data-label", label);
        if (!is_head && (column >= table->columns || strcmp(label, table->cells[column]) != 0))
            shown_give_up("a cell with another column's heading", text);
        if (strstr(cell, "<a href=") && strstr(cell, "<a href=") < close)
            shown_html_attribute(cell, close, "href", link);
        cell = close;
    }
    if (is_head)
        table->columns = column;
    else if (column != table->columns)
        shown_give_up("a row of another number of cells", text);
    shown_html_attribute(row, row + strcspn(row, ">"), "class", text);
    shown_cell_add(table, table->columns, is_head ? "(tone)" : text, SHOWN_CELL);
    shown_cell_add(table, table->columns + 1, is_head ? "(link)" : link, SHOWN_CELL);
}

/* Returns the table under the heading of a section that has that column; NULL: the section's first. It has no rows if
 * there is none. */
static inline shown_table shown_html(const char *html, const char *section, const char *column) {
    char heading[256];
    shown_table table = {0};

    snprintf(heading, sizeof heading, "<h2>%s</h2>", section);
    const char *from = html ? strstr(html, heading) : NULL, *next = from ? strstr(from + 1, "<h2>") : NULL;
    while (table.rows == 0 && from && (from = strstr(from, "<table")) != NULL && (!next || from < next)) {
        const char *end = strstr(from, "</table>");
        bool has_column = !column;
        for (const char *row = from; (row = strstr(row, "<tr")) != NULL && row < end; row++)
            shown_html_row(&table, row, strstr(row, "</tr>"));
        for (size_t i = 0; i < table.columns && !has_column; i++)
            has_column = strcmp(table.cells[i], column) == 0;
        if (!has_column)
            shown_table_release(&table);
        from = end;
    }
    if (table.rows > 0)
        table.columns += 2;
    return table;
}

/* Returns the text of the first element that opens so: "<p class=\"lead\">" has the result in a sentence. */
static inline const char *shown_element(const char *html, const char *opening, char text[SHOWN_CELL]) {
    const char *at = html ? strstr(html, opening) : NULL;

    text[0] = '\0';
    if (at)
        shown_html_text(at + strlen(opening), strstr(at, "</"), text);
    return text;
}

/* Returns names and their descriptions as the columns "name" and "value". */
static inline shown_table shown_facts(const char *html) {
    shown_table table = {.columns = 2};
    char text[SHOWN_CELL];

    shown_row_begin(&table);
    shown_cell_add(&table, 0, "name", SHOWN_CELL);
    shown_cell_add(&table, 1, "value", SHOWN_CELL);
    for (const char *at = html; at && (at = strstr(at, "<dt>")) != NULL;) {
        const char *name = at + strlen("<dt>"), *value = strstr(at, "<dd>") + strlen("<dd>");
        shown_row_begin(&table);
        shown_html_text(name, strstr(name, "</dt>"), text);
        shown_cell_add(&table, 0, text, SHOWN_CELL);
        shown_html_text(value, strstr(value, "</dd>"), text);
        shown_cell_add(&table, 1, text, SHOWN_CELL);
        at = value;
    }
    return table;
}

/* ---- Markdown ---- */

static inline void shown_markdown_row(shown_table *table, const char *line) {
    size_t column = 0;

    shown_row_begin(table);
    for (const char *cell = line + 2; *cell && *cell != '\n'; column++) {
        const char *end = cell + strcspn(cell, "|\n");
        const size_t length = end > cell ? (size_t)(end - cell) - 1 : 0;
        const size_t stars = length > 4 && strncmp(cell, "**", 2) == 0 ? 2 : 0;
        shown_cell_add(table, column, cell + stars, length - 2 * stars);
        cell = *end == '|' ? end + 1 + (end[1] == ' ') : end;
    }
    table->columns = table->rows == 1 ? column : table->columns;
    if (column != table->columns)
        shown_give_up("a row of another number of cells", line);
}

/* Reads a table in Markdown, as shown_html reads one in HTML. */
static inline shown_table shown_markdown(const char *text, const char *section, const char *column) {
    char heading[256], named[256];
    shown_table table = {0};

    snprintf(heading, sizeof heading, "## %s\n", section);
    snprintf(named, sizeof named, "| %s |", column ? column : "");
    const char *line = text ? strstr(text, heading) : NULL, *next = line ? strstr(line + 1, "\n## ") : NULL;
    for (; line && (line = strstr(line, "\n| ")) != NULL && (!next || line < next);) {
        const char *end = strstr(line, "\n\n");
        const char *head = column ? strstr(line, named) : line;
        const bool is_it = head && head < line + 1 + strcspn(line + 1, "\n");
        for (size_t number = 0; is_it && line && line < end; line = strchr(line + 1, '\n'), number++)
            if (number != 1)
                shown_markdown_row(&table, line + 1);
        if (is_it)
            break;
        line = end;
    }
    return table;
}

/* ---- Cells ---- */

/* Returns the place of the only column with that heading; for "mse>se", the first "se" after the column "mse". */
static inline size_t shown_column(const shown_table *table, const char *heading) {
    const size_t length = strcspn(heading, ">");
    const char *behind = heading[length] ? heading + length + 1 : NULL;
    size_t place = SHOWN_COLUMNS, count = 0;

    for (size_t i = 0; i < table->columns && table->rows > 0; i++)
        if (strncmp(table->cells[i], heading, length) == 0 && table->cells[i][length] == '\0') {
            place = i;
            count++;
        }
    while (behind && count == 1 && ++place < table->columns)
        if (strcmp(table->cells[place], behind) == 0)
            return place;
    return count == 1 && !behind ? place : SHOWN_COLUMNS;
}

/* Returns whether a row begins with these words: its first cells, joined by '|'. */
static inline bool shown_row_is(char *const *row, const char *words) {
    for (; *row; row++) {
        const size_t length = strlen(*row);
        if (strncmp(words, *row, length) != 0 || (words[length] != '\0' && words[length] != '|'))
            return false;
        if (words[length] == '\0')
            return true;
        words += length + 1;
    }
    return false;
}

/* Returns the cell of the only row that begins with these words; NULL if there is none, or several. */
static inline const char *shown_cell(const shown_table *table, const char *row, const char *heading) {
    const size_t column = shown_column(table, heading);
    const char *cell = NULL;
    size_t count = 0;

    for (size_t i = 1; i < table->rows && column < SHOWN_COLUMNS; i++)
        if (shown_row_is(table->cells + i * SHOWN_COLUMNS, row)) {
            cell = table->cells[i * SHOWN_COLUMNS + column];
            count++;
        }
    return count == 1 ? cell : NULL;
}

/* Returns the number in a cell; NaN if it has none. */
static inline double shown_number(const shown_table *table, const char *row, const char *heading) {
    const char *cell = shown_cell(table, row, heading);
    char *end = NULL;
    const double value = cell ? strtod(cell, &end) : (double)NAN;

    return cell && end > cell ? value : (double)NAN;
}

/* Checks a cell's text. */
static inline bool shown_is(tap_run *tap, const shown_table *table, const char *row, const char *heading,
                            const char *expected) {
    const char *cell = shown_cell(table, row, heading);

    if (!tap_ok(tap, cell && strcmp(cell, expected) == 0, "%s, %s: %s", row, heading, expected)) {
        tap_note("seen: %s", cell ? cell : "no such cell");
        return false;
    }
    return true;
}

/* As above, for a number with so many decimals; "-" for NaN. */
static inline void shown_is_number(tap_run *tap, const shown_table *table, const char *row, const char *heading,
                                   double value, int decimals) {
    char expected[64];

    if (isnan(value))
        snprintf(expected, sizeof expected, "-");
    else
        snprintf(expected, sizeof expected, "%.*f", decimals, value);
    shown_is(tap, table, row, heading, expected);
}

/* As above, for four significant digits, with the standard error if there is one (0: none). */
static inline void shown_is_measured(tap_run *tap, const shown_table *table, const char *row, const char *heading,
                                     double value, double standard_error) {
    char expected[64];

    if (standard_error > 0)
        snprintf(expected, sizeof expected, "%.4g +- %.2g", value, standard_error);
    else
        snprintf(expected, sizeof expected, isnan(value) ? "-" : "%.4g", value);
    shown_is(tap, table, row, heading, expected);
}

#endif
