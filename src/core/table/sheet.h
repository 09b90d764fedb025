/*
 * A table as text: the cells of the columns that are used, row by row, before anything is said about what they mean.
 */
#ifndef ICLAB_CORE_TABLE_SHEET_H
#define ICLAB_CORE_TABLE_SHEET_H

#include "core/csv_reader.h"
#include "iclab/text.h"

/* Bytes of a cell in a message, and of a column's name. */
enum { ICL_CELL_CAPACITY = 48, ICL_NAME_CAPACITY = 128 };

/* Bytes of text in the columns used. */
#define ICL_SHEET_MAX_BYTES ((size_t)1 << 31)

/* What a column holds. */
typedef enum icl_column_kind {
    ICL_COLUMN_NUMBERS = 0,
    ICL_COLUMN_TEXT,
    ICL_COLUMN_EMPTY,
} icl_column_kind;

/* The kinds of evidence that a number gives for the table's decimal mark. */
typedef enum icl_mark {
    ICL_MARK_POINT = 0,     /* it has a decimal point */
    ICL_MARK_COMMA,         /* it has a decimal comma */
    ICL_MARK_GROUPED_POINT, /* "1.234": a decimal point, or one between thousands */
    ICL_MARK_GROUPED_COMMA, /* "1,234" */
    ICL_MARK_HUNDREDS,      /* "987", which may stand beside thousands */
    ICL_MARKS
} icl_mark;

/* A cell of a column that is worth a word. */
typedef struct icl_sheet_cell {
    size_t line;      /* 0: there is none */
    const char *text; /* in the sheet */
} icl_sheet_cell;

/* A column that is used, in the order of the table that is made: the target last. */
typedef struct icl_sheet_column {
    size_t position; /* in the file, from 0 */
    bool is_chosen;  /* the caller named it: it is not left out */
    bool is_target;
    size_t like; /* the column of params->like, the first of its categories */

    /* What judging finds: see table.c. */
    icl_column_kind kind;
    bool is_left_out;
    size_t missing, numbers, untidy, texts; /* cells; untidy as icl_is_untidy has it */
    icl_sheet_cell first_text;
    size_t marks[ICL_MARKS];                          /* the line of the first number that shows it; 0: none does */
    double least, most;                               /* of its numbers */
    size_t whole, rising;                             /* numbers that are whole; that are 1 more than the one before */
    double last;                                      /* the last number */
    const char *levels[ICL_TABLE_MAX_CATEGORIES + 1]; /* its different texts, sorted; one more than may be used */
    size_t level_count;
} icl_sheet_column;

typedef struct icl_sheet {
    const icl_table_params *params;
    icl_csv_reader *reader;
    const char *name; /* for messages */
    char separator;
    bool has_header;
    size_t first_line, file_columns; /* of the first record */
    char **header;                   /* [file_columns], as they stand; NULL: the file has none */
    char **names;                    /* [file_columns], each once, printable */
    icl_sheet_column *columns;
    size_t column_count;

    icl_text cells; /* NUL-terminated, [rows][column_count] */
    size_t *lines;  /* [rows] */
    size_t rows, capacity;
} icl_sheet;

/* Reads it. Release with icl_sheet_release, also after a failure. */
icl_status icl_sheet_read(const icl_table_params *params, icl_sheet *sheet, icl_error *error);
void icl_sheet_release(icl_sheet *sheet);

/* The cell behind a cell, in the order of columns and then rows. */
const char *icl_next_cell(const char *cell);

/* "column 3 (wt)", or "column 3". Returns `text`. */
#define ICL_LABEL_CAPACITY (ICL_NAME_CAPACITY + 32)
const char *icl_column_label(const icl_sheet *sheet, size_t position, char text[ICL_LABEL_CAPACITY]);

/* What an option calls the column: its name where a shell and a list take it as it is, else its number. Returns
 * `text`. */
const char *icl_column_option(const icl_sheet *sheet, size_t position, char text[ICL_NAME_CAPACITY]);

/* "comma", "semicolon", …; the character itself, in quotes that a shell takes off, where it has no name. Returns
 * `name`. */
#define ICL_SEPARATOR_NAME 16
const char *icl_separator_name(char separator, char name[ICL_SEPARATOR_NAME]);

#endif
