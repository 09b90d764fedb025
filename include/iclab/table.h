/* Tables of numbers from CSV files: chosen columns, in which every cell is a finite number; otherwise one line says
 * which cell is not, and what helps. */
#ifndef ICLAB_TABLE_H
#define ICLAB_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "iclab/status.h"

ICL_C_BEGIN

/* Larger tables are refused. */
#define ICL_TABLE_MAX_ROWS  ((size_t)1000000)
#define ICL_TABLE_MAX_CELLS ((size_t)1 << 26)

/* A text column with more categories is not turned into columns of 0 and 1. */
#define ICL_TABLE_MAX_CATEGORIES 64

/* Larger magnitudes are refused, because their squares could not be summed. */
#define ICL_TABLE_MAX_VALUE 1e100

/* The source of a table. */
typedef struct icl_csv_source {
    const char *path; /* path of the file; "-" for standard input */
    const char *text; /* instead of a file: `size` bytes, borrowed, for which `path` stands in messages */
    size_t size;      /* bytes of the text */
    char separator;   /* between fields; 0: icl_table_read recognises it, else a comma */
} icl_csv_source;

/* Whether the first record names the columns. */
typedef enum icl_table_header {
    ICL_HEADER_AUTO = 0, /* names if no field of the first record is a number, data if all are; a mixture is refused */
    ICL_HEADER_YES,
    ICL_HEADER_NO,
} icl_table_header;

/* The decimal mark, which stands before the fraction of a number. */
typedef enum icl_decimal {
    ICL_DECIMAL_AUTO = 0, /* the mark that the table's numbers show, a point if they show none */
    ICL_DECIMAL_POINT,
    ICL_DECIMAL_COMMA,
} icl_decimal;

/* How a missing value is treated: an empty cell, NA, N/A, NaN, null, ?, - and the like. */
typedef enum icl_missing {
    ICL_MISSING_REFUSED = 0,
    ICL_MISSING_DROPPED, /* its row is left out */
    ICL_MISSING_KEPT,    /* a missing feature is NaN in the table; a missing target is refused */
} icl_missing;

/* Rows in the order of time, at equal distances: a series. */
typedef struct icl_time_series {
    size_t lags;   /* values of the target before a row that are its features; 0: the rows are no series */
    size_t ahead;  /* rows from the last value that a forecast sees to its own row, at least 1 in a series */
    size_t season; /* rows of a season: a forecast beside others is the value of one season before; 0: none */
} icl_time_series;

/* One thing that was done to a table while its text became numbers. */
typedef struct icl_table_step {
    const char *what; /* "separator", "decimal", "named", "left-out", "one-hot", "missing", "dropped", "lags" */
    size_t number;    /* number of the column, from 1; 0: the whole table */
    size_t count;     /* number of cells, rows or categories concerned; 0: not applicable */
    char *text;       /* a sentence about it, for people */
} icl_table_step;

/* A row that was left out. */
typedef struct icl_table_omission {
    size_t line;     /* line in the file */
    bool has_target; /* a target was asked for, and the row has one */
} icl_table_omission;

/* Numbers in rows and columns. */
typedef struct icl_table {
    char *name;           /* name of the source, for messages */
    bool has_header;      /* the first record named the columns */
    char separator;       /* between its fields */
    icl_decimal decimal;  /* point or comma */
    size_t rows, columns; /* columns that are used, in the order asked for; a target is the last one */
    double *values;       /* [rows][columns] */
    size_t *lines;        /* [rows], their lines in the file */
    /* [columns], printable, in UTF-8, all different: a second x is x.2; the number as text if the file has no names;
     * "sex=male" for a category. */
    char **names;
    size_t *numbers;               /* [columns], the column's number in the file, from 1: its categories share it */
    char **sources;                /* [columns], the name of that column */
    char **levels;                 /* [columns], the text that is 1 in the column, and others 0; NULL: numbers */
    icl_table_omission *omissions; /* [omission_count], rows that were left out because a value is missing */
    size_t omission_count;         /* number of omissions */
    icl_table_step *steps;         /* [step_count], in the order in which they were taken */
    size_t step_count;             /* number of steps */
    icl_time_series series;        /* made by icl_table_lag; lags of 0: rows in no order */
} icl_table;

/* What to read. Messages name the options of the command iclab predict that help: --separator, --decimal, … */
typedef struct icl_table_params {
    icl_csv_source source;       /* source of the table */
    icl_decimal decimal;         /* decimal mark of its numbers */
    icl_table_header header;     /* whether its first record is a header */
    const char *const *columns;  /* [column_count], names or numbers from 1; a name takes precedence over a number */
    size_t column_count;         /* 0: every column except the target and those left out because of their contents */
    const char *const *excluded; /* [excluded_count], likewise: columns that are not features */
    size_t excluded_count;       /* number of excluded columns */
    const char *target;          /* likewise, the last column of the table; NULL: no target */
    bool target_alone;           /* without columns that are named, no column is read beside the target */
    bool missing_targets;        /* a missing target is NaN in the table, instead of refused or dropped */
    icl_missing missing;         /* treatment of missing values */
    bool one_hot;                /* text becomes a column of 0 and 1 for each of its categories, up to 64 */
    const icl_table *like;       /* instead of columns: the columns of another table, all but its last, the target */
} icl_table_params;

/*
 * Reads a table of plain numbers and texts. It recognises the separator (comma, semicolon, tab, bar), the decimal mark
 * (a comma only where it separates no fields) and what columns hold; everything that was done is listed in `steps`.
 * Dates, units and separated thousands are refused: iclab.read_table of the Python package converts them to numbers.
 * Columns that are not features are left out, unless params->columns names them: text that does not become categories,
 * the same value in every row, none in any row, identifiers (text that is different in every row; whole numbers that
 * rise from row to row in a column called id, index, … or nothing).
 *
 * Fails with ICL_ERROR_INPUT at the first thing that is wrong, in one line that says where, and which option helps:
 * records of different lengths, lines of empty fields, an unknown or ambiguous column, a missing value, a text, date,
 * unit or thousands among numbers, a target of text, two decimal marks, numbers such as "1,234" alone or "1.234" beside
 * "987", a table above the limits or without rows.
 */
ICL_API icl_status icl_table_read(const icl_table_params *params, icl_table **table, icl_error *error);

/*
 * Makes the rows of a series from a table in the order of time, whose last column is the target y. With h = ahead (0:
 * 1) row t has the features
 *     y(t - h), y(t - h - 1), ..., y(t - h - lags + 1),
 * then y(t - season) unless that is among them or there is no season, then the table's other columns in row t - h; and
 * the target y(t). So a row knows nothing that was measured less than h rows before it. Rows without such a past are
 * left out. The last row made has no target: it follows the table's last one by h rows.
 *
 * The table is read during the call alone. ICL_ERROR_INPUT for lags of 0, a season of fewer than h rows, a target that
 * is missing, no row with such a past, and more than ICL_TABLE_MAX_CELLS cells.
 */
ICL_API icl_status icl_table_lag(const icl_table *table, const icl_time_series *series, icl_table **lagged,
                                 icl_error *error);

/* Returns "comma", "semicolon", "tab" or "pipe"; NULL for a separator without a name. */
ICL_API const char *icl_separator_word(char separator);

/* NULL is allowed. */
ICL_API void icl_table_destroy(icl_table **table);

/* Splits a list "a,b,…", whose items may be quoted as in a CSV file: *items, *count of them, each and the array in one
 * piece of memory that is freed with icl_free. `name` stands for the list in messages. */
ICL_API icl_status icl_csv_split(const char *list, const char *name, char ***items, size_t *count, icl_error *error);

ICL_C_END

#endif
