/*
 * Tables of numbers from CSV files: chosen columns, every cell a finite number, or one line that says which is not.
 */
#ifndef ICLAB_TABLE_H
#define ICLAB_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "iclab/status.h"

ICL_C_BEGIN

/* Larger tables are refused. */
#define ICL_TABLE_MAX_ROWS  ((size_t)1000000)
#define ICL_TABLE_MAX_CELLS ((size_t)1 << 26)

/* Larger magnitudes are refused: their squares would have no sum. */
#define ICL_TABLE_MAX_VALUE 1e100

/* Where a table is read from. */
typedef struct icl_csv_source {
    const char *path; /* of the file; "-" for standard input */
    const char *text; /* instead of a file: `size` bytes, borrowed, for which `path` stands in messages */
    size_t size;      /* of the text */
    char separator;   /* 0: a comma */
} icl_csv_source;

/* Whether the first record names the columns. */
typedef enum icl_table_header {
    ICL_HEADER_AUTO = 0, /* names where no field of the first record is a number, data where all are; both is refused */
    ICL_HEADER_YES,
    ICL_HEADER_NO,
} icl_table_header;

/* What to read. */
typedef struct icl_table_params {
    icl_csv_source source;      /* where it stands */
    icl_table_header header;    /* of its first record */
    const char *const *columns; /* [column_count], names or numbers from 1; a name comes before a number */
    size_t column_count;        /* 0: every column but the target */
    const char *target;         /* likewise, the last column of the table; NULL: there is none */
    bool missing_targets;       /* an empty target is NaN in the table, instead of refused */
} icl_table_params;

/* Numbers in rows and columns. */
typedef struct icl_table {
    char *name;           /* of the source, for messages */
    bool has_header;      /* the first record named the columns */
    size_t rows, columns; /* those chosen, in that order; a target is the last one */
    double *values;       /* [rows][columns] */
    size_t *lines;        /* [rows], in the file */
    char **names;         /* [columns], printable, in UTF-8; the number as text where the file has no names */
    size_t *numbers;      /* [columns], from 1 */
} icl_table;

/* Reads a table. Fails with ICL_ERROR_INPUT at the first thing that is wrong: records of different lengths, an unknown
 * or ambiguous column, a cell that is missing (empty, NA, NaN, ?, …) or is not a decimal number, a table above the
 * limits or without rows. */
ICL_API icl_status icl_table_read(const icl_table_params *params, icl_table **table, icl_error *error);

/* NULL is allowed. */
ICL_API void icl_table_destroy(icl_table **table);

/* Takes a list "a,b,…" apart, whose items may be quoted as in a CSV file: *items, *count of them, each and the array in
 * one piece of memory that is freed with icl_free. `name` stands for it in messages. */
ICL_API icl_status icl_csv_split(const char *list, const char *name, char ***items, size_t *count, icl_error *error);

ICL_C_END

#endif
