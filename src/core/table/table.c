/* Makes a table of numbers from a sheet of text: judges what its columns hold, and records each step. */
#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/print.h"
#include "core/table/sheet.h"
#include "iclab/table.h"

/* Returns the cell after this one, in the order of columns and then rows. */
static const char *next_cell(const char *cell) {
    return cell + strlen(cell) + 1;
}

/* Writes how an option can name the column to `text`, and returns it: by its name if that needs no quoting, else by its
 * number. */
static const char *column_option(const icl_sheet *sheet, size_t position, char text[ICL_COLUMN_CAPACITY]) {
    const char *name = sheet->names[position];
    bool is_plain = sheet->has_header && sheet->header[position][0] != '\0';

    for (const char *at = name; *at != '\0'; at++)
        is_plain = is_plain && (isalnum((unsigned char)*at) || *at == '_' || (*at == '.' && at > name));
    if (is_plain)
        snprintf(text, ICL_COLUMN_CAPACITY, "%s", name);
    else
        snprintf(text, ICL_COLUMN_CAPACITY, "%zu", position + 1);
    return text;
}

/* ---- Steps, one after the other ---- */

/* Steps under construction, empty if zeroed. */
typedef struct step_list {
    icl_table_step *steps;
    size_t count, capacity;
} step_list;

/* The most lines or categories that a step lists, and the capacity of that list in bytes. */
enum { MOST_LISTED = 8, LIST_CAPACITY = 200 };

/* Adds a step; the format prints its text. */
static icl_status add_step(step_list *steps, const icl_table_step *step, icl_error *error, const char *format, ...) {
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

static void release_steps(icl_table_step **steps, size_t count) {
    for (size_t i = 0; *steps && i < count; i++)
        icl_free(&(*steps)[i].text);
    icl_free(steps);
}

static const char *plural(size_t count) {
    return count == 1 ? "" : "s";
}

/* Adds the separator, unless it is a comma. */
static icl_status record_separator(const icl_sheet *sheet, step_list *steps, icl_error *error) {
    const icl_table_step step = {.what = "separator"};
    const char *plurals = icl_separator_word(sheet->separator) ? "s" : "";
    char name[ICL_SEPARATOR_NAME];

    if (sheet->separator == ',')
        return ICL_OK;
    return add_step(steps, &step, error, "fields are separated by %s%s (--separator)",
                    icl_separator_name(sheet->separator, name), plurals);
}

static icl_status record_name(const icl_sheet *sheet, const icl_sheet_column *column, step_list *steps,
                              icl_error *error) {
    const icl_table_step step = {.what = "named", .number = column->position + 1};
    const char *name = sheet->names[column->position];

    if (!sheet->has_header || strcmp(sheet->header[column->position], name) == 0)
        return ICL_OK;
    return add_step(steps, &step, error, "column %zu: %s: called \"%s\"", column->position + 1,
                    sheet->header[column->position][0] == '\0' ? "no name" : "a name that an earlier one has", name);
}

static icl_status record_categories(const icl_sheet_column *column, const icl_table *table, const char *label,
                                    step_list *steps, icl_error *error) {
    const icl_table_step step = {.what = "one-hot", .number = column->position + 1, .count = column->level_count};
    char list[LIST_CAPACITY] = "";
    size_t listed = 0;

    for (size_t i = 0; i < table->columns && listed < MOST_LISTED; i++)
        if (table->levels[i] && table->numbers[i] == column->position + 1) {
            const size_t used = strlen(list);
            snprintf(list + used, sizeof list - used, "%s%s", listed++ > 0 ? ", " : "", table->names[i]);
        }
    return add_step(steps, &step, error, "%s: a column of 0 and 1 for each of %zu categories: %s%s", label,
                    column->level_count, list, column->level_count > listed ? ", …" : "");
}

static icl_status record_column(const icl_sheet *sheet, const icl_sheet_column *column, const icl_table *table,
                                step_list *steps, icl_error *error) {
    const icl_table_step missing = {.what = "missing", .number = column->position + 1, .count = column->missing};
    char label[ICL_LABEL_CAPACITY];

    if (column->is_left_out)
        return ICL_OK;
    icl_column_label(sheet, column->position, label);
    ICL_CHECK(record_name(sheet, column, steps, error));
    if (column->kind == ICL_COLUMN_TEXT)
        ICL_CHECK(record_categories(column, table, label, steps, error));
    if (sheet->params->missing == ICL_MISSING_KEPT && column->missing > 0 && !column->is_target)
        return add_step(steps, &missing, error, "%s: %zu missing value%s, filled in from the rows learned from", label,
                        column->missing, plural(column->missing));
    return ICL_OK;
}

static icl_status record_omissions(const icl_table *table, step_list *steps, icl_error *error) {
    const icl_table_step step = {.what = "dropped", .count = table->omission_count};
    char list[LIST_CAPACITY] = "";

    for (size_t i = 0; i < table->omission_count && i < MOST_LISTED; i++) {
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%zu", i > 0 ? ", " : "", table->omissions[i].line);
    }
    return add_step(steps, &step, error, "%zu row%s with a missing value left out: line%s %s%s", table->omission_count,
                    plural(table->omission_count), plural(table->omission_count), list,
                    table->omission_count > MOST_LISTED ? ", …" : "");
}

/* Adds the decimal mark, if it is a comma, and for each used column its name, categories and missing values; then the
 * rows dropped. */
static icl_status record_steps(const icl_sheet *sheet, const icl_table *table, step_list *steps, icl_error *error) {
    const icl_table_step decimal = {.what = "decimal"};

    if (table->decimal == ICL_DECIMAL_COMMA)
        ICL_CHECK(add_step(steps, &decimal, error, "numbers have a decimal comma (--decimal)"));
    for (size_t i = 0; i < sheet->column_count; i++)
        ICL_CHECK(record_column(sheet, &sheet->columns[i], table, steps, error));
    return table->omission_count > 0 ? record_omissions(table, steps, error) : ICL_OK;
}

/* ---- Categories: the different texts of a column, each of which can become a column that is 1 where it stands ---- */

/* Returns the place of a text among the sorted levels, or the place to insert it. */
static size_t place_of(const icl_sheet_column *column, const char *text) {
    size_t first = 0, end = column->level_count;

    while (first < end) {
        const size_t middle = first + (end - first) / 2;
        if (strcmp(column->levels[middle], text) < 0)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

/* Returns the index of a level of the column, or level_count if the text is not one. */
static size_t find_level(const icl_sheet_column *column, const char *text) {
    const size_t place = place_of(column, text);

    return place < column->level_count && strcmp(column->levels[place], text) == 0 ? place : column->level_count;
}

static void add_level(icl_sheet_column *column, const char *text) {
    const size_t place = place_of(column, text);

    if (column->level_count > ICL_TABLE_MAX_CATEGORIES ||
        (place < column->level_count && strcmp(column->levels[place], text) == 0))
        return;
    memmove(column->levels + place + 1, column->levels + place, (column->level_count - place) * sizeof *column->levels);
    column->levels[place] = text;
    column->level_count++;
}

/* Finds the levels of every text column, sorted by their bytes, up to one more than may be used. */
static void find_levels(icl_sheet *sheet) {
    const char *cell = sheet->cells.bytes;

    for (size_t row = 0; row < sheet->rows; row++)
        for (size_t i = 0; i < sheet->column_count; i++, cell = next_cell(cell))
            if (sheet->columns[i].kind == ICL_COLUMN_TEXT && !icl_is_missing(cell))
                add_level(&sheet->columns[i], cell);
}

/* Gives columns the kinds and levels that they have in another table. */
static void take_levels(icl_sheet *sheet, const icl_table *like) {
    for (size_t i = 0; i < sheet->column_count; i++) {
        icl_sheet_column *created = &sheet->columns[i];
        created->kind = like->levels[created->like] ? ICL_COLUMN_TEXT : ICL_COLUMN_NUMBERS;
        for (size_t k = created->like; k + 1 < like->columns && like->levels[k]; k++)
            if (like->numbers[k] == like->numbers[created->like])
                created->levels[created->level_count++] = like->levels[k];
    }
}

/* ---- The decimal mark: what numbers show, a point where they show nothing ---- */

static bool may_have_comma(const icl_sheet *sheet) {
    const icl_decimal asked = sheet->params->decimal;
    return asked == ICL_DECIMAL_COMMA || (asked == ICL_DECIMAL_AUTO && sheet->separator != ',');
}

/* Returns whether the cell is a plain number with a decimal mark that the table may have: the requested one, else a
 * point, or a comma if that is not the separator. */
static bool may_be_number(const icl_sheet *sheet, const char *cell) {
    double value;

    return (sheet->params->decimal != ICL_DECIMAL_COMMA && icl_read_number(cell, ICL_DECIMAL_POINT, &value)) ||
           (may_have_comma(sheet) && icl_read_number(cell, ICL_DECIMAL_COMMA, &value));
}

/* Notes what a number of the column tells about the decimal mark. */
static void note_mark(icl_sheet_column *column, const char *number, size_t line) {
    icl_mark mark;

    if (strchr(number, ','))
        mark = icl_is_grouped(number, ',') ? ICL_MARK_GROUPED_COMMA : ICL_MARK_COMMA;
    else if (strchr(number, '.'))
        mark = icl_is_grouped(number, '.') ? ICL_MARK_GROUPED_POINT : ICL_MARK_POINT;
    else if (strlen(number) == 3 && number[0] != '0' && strspn(number, "0123456789") == 3)
        mark = ICL_MARK_HUNDREDS;
    else
        return;
    if (column->marks[mark] == 0)
        column->marks[mark] = line;
}

/* Returns the column of numbers that shows the mark first; NULL if none does. */
static const icl_sheet_column *first_with(const icl_sheet *sheet, icl_mark mark) {
    const icl_sheet_column *first = NULL;

    for (size_t i = 0; i < sheet->column_count; i++) {
        const icl_sheet_column *column = &sheet->columns[i];
        if (column->kind == ICL_COLUMN_NUMBERS && column->marks[mark] > 0 &&
            (!first || column->marks[mark] < first->marks[mark]))
            first = column;
    }
    return first;
}

/* Returns the first column with both "1.234" and "987": either thousands are separated, or one number has no
 * fraction. */
static const icl_sheet_column *first_in_doubt(const icl_sheet *sheet) {
    for (size_t i = 0; i < sheet->column_count; i++)
        if (sheet->columns[i].kind == ICL_COLUMN_NUMBERS && sheet->columns[i].marks[ICL_MARK_GROUPED_POINT] > 0 &&
            sheet->columns[i].marks[ICL_MARK_HUNDREDS] > 0)
            return &sheet->columns[i];
    return NULL;
}

static icl_status refuse_grouped(const icl_sheet *sheet, const icl_sheet_column *column, icl_mark mark,
                                 icl_error *error) {
    const char *name = mark == ICL_MARK_GROUPED_COMMA ? "comma" : "point";
    char label[ICL_LABEL_CAPACITY];

    return icl_fail(error, ICL_ERROR_INPUT,
                    "%s:%zu: %s: a %s that is a decimal mark or stands between thousands: expected to be told; "
                    "--decimal %s, or " ICL_TIDYING " where it is between thousands",
                    sheet->name, column->marks[mark], icl_column_label(sheet, column->position, label), name, name);
}

static icl_status refuse_both(const icl_sheet *sheet, const icl_sheet_column *point, const icl_sheet_column *comma,
                              icl_error *error) {
    const icl_sheet_column *odd = comma->is_target ? point : comma;
    char label[ICL_LABEL_CAPACITY], option[ICL_COLUMN_CAPACITY];

    return icl_fail(error, ICL_ERROR_INPUT,
                    "%s:%zu: %s: a decimal comma, where line %zu has a decimal point in column %zu: expected one of "
                    "them; --exclude %s leaves a column out",
                    sheet->name, comma->marks[ICL_MARK_COMMA], icl_column_label(sheet, comma->position, label),
                    point->marks[ICL_MARK_POINT], point->position + 1, column_option(sheet, odd->position, option));
}

/* Chooses the decimal mark from what the columns of numbers show. ICL_ERROR_INPUT if they contradict each other, if
 * "1,234" can be read either way, or if "1.234" and "987" are in one column. */
static icl_status choose_decimal(const icl_sheet *sheet, icl_decimal *decimal, icl_error *error) {
    const icl_sheet_column *point = first_with(sheet, ICL_MARK_POINT), *comma = first_with(sheet, ICL_MARK_COMMA);
    const icl_sheet_column *grouped = first_with(sheet, ICL_MARK_GROUPED_COMMA), *doubtful = first_in_doubt(sheet);

    *decimal = sheet->params->decimal;
    if (*decimal != ICL_DECIMAL_AUTO)
        return ICL_OK;
    *decimal = comma ? ICL_DECIMAL_COMMA : ICL_DECIMAL_POINT;
    if (point && comma)
        return refuse_both(sheet, point, comma, error);
    if (point || comma)
        return ICL_OK;
    if (sheet->params->like) {
        *decimal = sheet->params->like->decimal;
        return ICL_OK;
    }
    if (grouped)
        return refuse_grouped(sheet, grouped, ICL_MARK_GROUPED_COMMA, error);
    return doubtful ? refuse_grouped(sheet, doubtful, ICL_MARK_GROUPED_POINT, error) : ICL_OK;
}

/* ---- What columns hold ---- */

/*
 * Judges what the columns of a sheet hold, and which decimal mark its numbers have.
 *
 * A column is text if more than half of its values are. Otherwise it is a column of numbers, and any other value in it
 * is a mistake, including a date, or a number with a unit or separated thousands. Columns that are no use as features
 * are left out, and a step says so, unless the caller chose them: text that is not split into categories, a column with
 * one value, a column without values, and identifiers. An identifier is a text that is different in every row, or whole
 * numbers that rise from row to row under an identifier's name.
 */

/* ---- Counting ---- */

static void count_cell(const icl_sheet *sheet, icl_sheet_column *column, size_t line, const char *cell) {
    if (icl_is_missing(cell)) {
        column->missing++;
    } else if (may_be_number(sheet, cell)) {
        column->numbers++;
        note_mark(column, cell, line);
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
        for (size_t i = 0; i < sheet->column_count; i++, cell = next_cell(cell))
            if (sheet->columns[i].kind == ICL_COLUMN_NUMBERS)
                measure_cell(&sheet->columns[i], cell, decimal);
}

/* ---- What is left out ---- */

/* Names of columns that hold a row's number or key. */
static bool is_identifiers_name(const char *name) {
    static const char *const names[] = {"",         "id",  "index", "idx", "row",    "rowid", "rowname",
                                        "rownames", "key", "no.",   "nr",  "nr.",    "uuid",  "guid",
                                        "number",   "no",  "#",     "i",   "sample", "case",  "record"};
    const size_t length = strlen(name);
    char lower[ICL_COLUMN_CAPACITY];

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

static icl_status leave_out(const icl_sheet *sheet, icl_sheet_column *column, step_list *steps, const char *why,
                            const char *hint, icl_error *error) {
    const icl_table_step step = {.what = "left-out", .number = column->position + 1};
    char label[ICL_LABEL_CAPACITY];

    column->is_left_out = true;
    return add_step(steps, &step, error, "%s: %s: left out%s", icl_column_label(sheet, column->position, label), why,
                    hint);
}

static icl_status refuse_text(const icl_sheet *sheet, const icl_sheet_column *column, icl_error *error) {
    char label[ICL_LABEL_CAPACITY], printable[ICL_CELL_CAPACITY], option[ICL_COLUMN_CAPACITY];
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
                        column_option(sheet, column->position, option));
    return icl_fail(error, ICL_ERROR_INPUT,
                    "%s:%zu: %s: text \"%s\": expected numbers; --one-hot makes a column of each of its categories",
                    sheet->name, cell->line, label, printable);
}

static icl_status judge_text(const icl_sheet *sheet, icl_sheet_column *column, step_list *steps, icl_error *error) {
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

static icl_status judge_column(const icl_sheet *sheet, icl_sheet_column *column, step_list *steps, icl_error *error) {
    if (column->kind == ICL_COLUMN_TEXT)
        return judge_text(sheet, column, steps, error);
    if (column->is_chosen || column->untidy > 0) /* untidy cells are refused later, in read_number */
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
        for (size_t i = 0; i < sheet->column_count; i++, cell = next_cell(cell))
            count_cell(sheet, &sheet->columns[i], sheet->lines[row], cell);
    for (size_t i = 0; i < sheet->column_count; i++)
        sheet->columns[i].kind = kind_of(&sheet->columns[i]);
}

/* Judges all columns: fills in what they hold, in sheet->columns, and sets the decimal mark. ICL_ERROR_INPUT names the
 * cell that cannot be read: a text as target, two decimal marks, only "1,234", or "1.234" and "987". */
static icl_status judge_columns(icl_sheet *sheet, step_list *steps, icl_decimal *decimal, icl_error *error) {
    count_cells(sheet);
    if (sheet->params->like)
        take_levels(sheet, sheet->params->like);
    else
        find_levels(sheet);
    ICL_CHECK(choose_decimal(sheet, decimal, error));
    measure_numbers(sheet, *decimal);
    for (size_t i = 0; !sheet->params->like && i < sheet->column_count; i++)
        ICL_CHECK(judge_column(sheet, &sheet->columns[i], steps, error));
    return ICL_OK;
}

/* ---- The table ---- */

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
        release_steps(&(*table)->steps, (*table)->step_count);
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
    char category[2 * ICL_COLUMN_CAPACITY + 32], printable[ICL_COLUMN_CAPACITY];

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

/* Refuses a cell: "data.csv:7: column 3 (wt): ", the complaint, the cell in quotes, what is expected, and what
 * helps. */
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
    char option[ICL_COLUMN_CAPACITY], helps[ICL_COLUMN_CAPACITY + 64];

    column_option(at->sheet, at->column->position, option);
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

/* Reads the values of a cell; they are NaN if it is missing (*is_missing). */
static icl_status read_cell(const place *at, const char *cell, double *values, bool *is_missing, icl_error *error) {
    const size_t width = width_of(at->column);
    const size_t level = at->column->kind == ICL_COLUMN_TEXT ? find_level(at->column, cell) : 0;
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

/* Decides on a missing value: it is kept, its row is dropped (*drops), or it is refused. */
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

    for (size_t i = 0; i < sheet->column_count; i++, *cell = next_cell(*cell)) {
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

static icl_status make_table(icl_sheet *sheet, icl_table *table, step_list *steps, icl_error *error) {
    ICL_CHECK(icl_duplicate(sheet->name, &table->name, error));
    ICL_CHECK(record_separator(sheet, steps, error));
    ICL_CHECK(judge_columns(sheet, steps, &table->decimal, error));
    table->has_header = sheet->has_header;
    table->separator = sheet->separator;
    ICL_CHECK(make_columns(sheet, table, error));
    ICL_CHECK(make_rows(sheet, table->decimal, table, error));
    return record_steps(sheet, table, steps, error);
}

icl_status icl_table_read(const icl_table_params *params, icl_table **table, icl_error *error) {
    icl_sheet sheet = {0};
    step_list steps = {0};
    icl_table *created = NULL;
    icl_status status;

    ICL_TRY(icl_sheet_read(params, &sheet, error));
    ICL_TRY(icl_allocate(1, sizeof *created, "table", &created, error));
    ICL_TRY(make_table(&sheet, created, &steps, error));
    created->steps = steps.steps;
    created->step_count = steps.count;
    steps = (step_list){0};
    *table = created;
    created = NULL;
done:
    release_steps(&steps.steps, steps.count);
    icl_table_destroy(&created);
    icl_sheet_release(&sheet);
    return status;
}
