#include "core/table/decimal.h"

#include <string.h>

#include "core/table/cell.h"

static bool may_have_comma(const icl_sheet *sheet) {
    const icl_decimal asked = sheet->params->decimal;
    return asked == ICL_DECIMAL_COMMA || (asked == ICL_DECIMAL_AUTO && sheet->separator != ',');
}

bool icl_may_be_number(const icl_sheet *sheet, const char *cell) {
    double value;

    return (sheet->params->decimal != ICL_DECIMAL_COMMA && icl_read_number(cell, ICL_DECIMAL_POINT, &value)) ||
           (may_have_comma(sheet) && icl_read_number(cell, ICL_DECIMAL_COMMA, &value));
}

void icl_note_mark(icl_sheet_column *column, const char *number, size_t line) {
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

/* The column of numbers that shows the mark first; NULL: none does. */
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

/* The first column with "1.234" and "987": thousands, or numbers of which one has no fraction. */
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
    char label[ICL_LABEL_CAPACITY], option[ICL_NAME_CAPACITY];

    return icl_fail(error, ICL_ERROR_INPUT,
                    "%s:%zu: %s: a decimal comma, where line %zu has a decimal point in column %zu: expected one of "
                    "them; --exclude %s leaves a column out",
                    sheet->name, comma->marks[ICL_MARK_COMMA], icl_column_label(sheet, comma->position, label),
                    point->marks[ICL_MARK_POINT], point->position + 1, icl_column_option(sheet, odd->position, option));
}

icl_status icl_choose_decimal(const icl_sheet *sheet, icl_decimal *decimal, icl_error *error) {
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
