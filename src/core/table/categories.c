#include "core/table/categories.h"

#include <string.h>

#include "core/table/cell.h"

/* Where a text stands, or would stand, among the sorted levels. */
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

size_t icl_level_of(const icl_sheet_column *column, const char *text) {
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

void icl_find_levels(icl_sheet *sheet) {
    const char *cell = sheet->cells.bytes;

    for (size_t row = 0; row < sheet->rows; row++)
        for (size_t i = 0; i < sheet->column_count; i++, cell = icl_next_cell(cell))
            if (sheet->columns[i].kind == ICL_COLUMN_TEXT && !icl_is_missing(cell))
                add_level(&sheet->columns[i], cell);
}

void icl_take_levels(icl_sheet *sheet, const icl_table *like) {
    for (size_t i = 0; i < sheet->column_count; i++) {
        icl_sheet_column *made = &sheet->columns[i];
        made->kind = like->levels[made->like] ? ICL_COLUMN_TEXT : ICL_COLUMN_NUMBERS;
        for (size_t k = made->like; k + 1 < like->columns && like->levels[k]; k++)
            if (like->numbers[k] == like->numbers[made->like])
                made->levels[made->level_count++] = like->levels[k];
    }
}
