/* Tables of one shape beside each other, ours and published ones, of which no one has every number. */
#ifndef ICLAB_PAPERS_TABLES_H
#define ICLAB_PAPERS_TABLES_H

#include "papers/reproduce.h"

enum { ICL_MOST_TABLES = 4 };

typedef struct icl_table {
    const char *label;
    const double *values; /* [rows][columns]; NaN: it lacks that number */
} icl_table;

typedef struct icl_tables {
    icl_heat_figure figure; /* `count` and `maps` are not read */
    size_t rows, columns, count;
    const char *const *row_names, *const *column_names; /* [rows], [columns] */
    icl_table tables[ICL_MOST_TABLES];                  /* [count] */
} icl_tables;

/* Draws a heat map of each table's complete columns: those with a number in every row, where rows that no table has a
 * number in do not count. A table without such columns is left out. */
icl_status icl_tables_draw(icl_reproducing *run, const icl_tables *tables, icl_error *error);

#endif
