#include "papers/tables.h"

#include <math.h>

#include "core/allocate.h"

static bool row_has_numbers(const icl_tables *of, size_t row) {
    for (size_t table = 0; table < of->count; table++)
        for (size_t column = 0; column < of->columns; column++)
            if (!isnan(of->tables[table].values[row * of->columns + column]))
                return true;
    return false;
}

static bool column_is_complete(const icl_tables *of, const icl_table *table, const bool *rows, size_t column) {
    for (size_t row = 0; row < of->rows; row++)
        if (rows[row] && isnan(table->values[row * of->columns + column]))
            return false;
    return true;
}

/* Room for the maps of all tables. */
typedef struct room {
    bool *rows;                             /* [rows] whether a table has a number there */
    double *values;                         /* [tables][rows][columns] */
    const char **row_names, **column_names; /* [rows]; [tables][columns] */
    icl_heat_map maps[ICL_MOST_TABLES];
} room;

static icl_heat_map fill_map(const icl_tables *of, size_t number, room *all) {
    const icl_table *table = &of->tables[number];
    double *values = all->values + number * of->rows * of->columns;
    const char **names = all->column_names + number * of->columns;
    size_t rows = 0, columns = 0, used = 0;

    for (size_t column = 0; column < of->columns; column++)
        if (column_is_complete(of, table, all->rows, column))
            names[columns++] = of->column_names[column];
    for (size_t row = 0; row < of->rows; row++) {
        if (!all->rows[row])
            continue;
        all->row_names[rows++] = of->row_names[row];
        for (size_t column = 0; column < of->columns; column++)
            if (column_is_complete(of, table, all->rows, column))
                values[used++] = table->values[row * of->columns + column];
    }
    return (icl_heat_map){table->label, rows, columns, values, all->row_names, names};
}

icl_status icl_tables_draw(icl_reproducing *run, const icl_tables *tables, icl_error *error) {
    icl_heat_figure figure = tables->figure;
    room all = {.rows = NULL};
    size_t count = 0;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(tables->rows, sizeof *all.rows, "a table", &all.rows, error));
    ICL_TRY(icl_allocate(tables->rows, sizeof *all.row_names, "a table", &all.row_names, error));
    ICL_TRY(
        icl_allocate(tables->count * tables->columns, sizeof *all.column_names, "a table", &all.column_names, error));
    ICL_TRY(icl_allocate(tables->count * tables->rows * tables->columns, sizeof *all.values, "a table", &all.values,
                         error));
    for (size_t row = 0; row < tables->rows; row++)
        all.rows[row] = row_has_numbers(tables, row);
    for (size_t table = 0; table < tables->count; table++) {
        all.maps[count] = fill_map(tables, table, &all);
        count += all.maps[count].columns > 0;
    }
    figure.count = count;
    figure.maps = all.maps;
    ICL_TRY(icl_reproduce_heat_maps(run, &figure, error));
done:
    icl_free(&all.rows);
    icl_free(&all.row_names);
    icl_free(&all.column_names);
    icl_free(&all.values);
    return status;
}
