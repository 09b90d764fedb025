#include "core/table/column_choice.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/printable.h"
#include "core/table/cell.h"
#include "core/table/dialect.h"
#include "iclab/nearest.h"
#include "iclab/number.h"

/* Nothing takes the lines apart, or a separator that the caller named does not. */
static icl_status refuse_one_column(const icl_sheet *sheet, const char *wanted, icl_error *error) {
    const char *sample;
    char name[ICL_SEPARATOR_NAME], separator = 0;
    size_t size;

    ICL_CHECK(icl_csv_reader_sample(sheet->reader, &sample, &size, error));
    ICL_CHECK(icl_recognise_separator(sample, size, &separator, error));
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

/* A column of the file, by its name or, where no column has that name, its number. */
static icl_status find_column(const icl_sheet *sheet, const char *option, const char *wanted, size_t *column,
                              icl_error *error) {
    char name[ICL_NAME_CAPACITY];
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

/* The same by the names that another table gave its columns, which are all different. */
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

/* Indicators of one column stand side by side. */
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
    for (size_t i = 0; params->column_count == 0 && i < sheet->file_columns; i++)
        if (i != target && !is_excluded[i])
            ICL_CHECK(choose_column(sheet, i, false, false, error));
    return ICL_OK;
}

icl_status icl_choose_columns(icl_sheet *sheet, icl_error *error) {
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
