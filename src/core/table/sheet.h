/* Records of separated text, tables as text, and their cells. */
#ifndef ICLAB_CORE_TABLE_SHEET_H
#define ICLAB_CORE_TABLE_SHEET_H

#include <stdbool.h>
#include <stddef.h>

#include "iclab/table.h"
#include "iclab/text.h"

/* ---- Records of separated text (core/csv.c) ---- */

/*
 * Reads records of separated text (RFC 4180, with any separator), one at a time, so that a file of any size takes no
 * more memory than its longest record.
 *
 * A field may be quoted, with "" for a quote in it, and then holds separators and line ends. Lines end with LF, CRLF or
 * CR. The reader skips a UTF-8 byte order mark, blank lines and blanks around a field. It refuses everything else and
 * names the line; also what no table of numbers has: NUL bytes, UTF-16, and more bytes, fields or lines than the limits
 * below.
 */

/* Limits: bytes of a record, fields of a record, and lines of a file. */
#define ICL_CSV_MAX_RECORD  ((size_t)1 << 20)
#define ICL_CSV_MAX_COLUMNS ((size_t)10000)
#define ICL_CSV_MAX_LINES   ((size_t)20000000)

typedef struct icl_csv_reader icl_csv_reader;

/* One record. Fields are NUL-terminated and without their quotes; they live until the next record is read. */
typedef struct icl_csv_record {
    size_t line; /* the number of its first line, from 1 */
    size_t count;
    const char *const *fields;
} icl_csv_record;

/* Opens a source. ICL_ERROR_INPUT if there is no such file, ICL_ERROR_IO if it cannot be opened. */
icl_status icl_csv_reader_open(const icl_csv_source *source, icl_csv_reader **reader, icl_error *error);

/* Reads the next record that is not blank; *found = false at the end. ICL_ERROR_INPUT names file and line. */
icl_status icl_csv_reader_next(icl_csv_reader *reader, icl_csv_record *record, bool *found, icl_error *error);

/* Recognises the separator by the bytes that are buffered, which at first are those that the source begins with.
 * *separator is 0 if none fits; otherwise the records that follow have it. */
icl_status icl_csv_reader_recognise(icl_csv_reader *reader, char *separator, icl_error *error);

/* NULL is allowed. */
void icl_csv_reader_close(icl_csv_reader **reader);

/* ---- Tables ---- */

/* A table as text is the cells of the columns that are used, row by row, before they are interpreted. */

/* The capacities for a cell in a message and for a column's name, in bytes. */
enum { ICL_CELL_CAPACITY = 48, ICL_COLUMN_CAPACITY = 128 };

/* The most bytes of text in the columns used. */
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
    ICL_MARK_GROUPED_POINT, /* "1.234": the point is a decimal mark or separates thousands */
    ICL_MARK_GROUPED_COMMA, /* "1,234" */
    ICL_MARK_HUNDREDS,      /* "987", which may occur in a column with separated thousands */
    ICL_MARKS
} icl_mark;

/* A cell that a message may show. */
typedef struct icl_sheet_cell {
    size_t line;      /* 0: there is none */
    const char *text; /* in the sheet */
} icl_sheet_cell;

/* A column that is used. Columns are in the order of the resulting table: the target last. */
typedef struct icl_sheet_column {
    size_t position; /* in the file, from 0 */
    bool is_chosen;  /* named by the caller, so never left out */
    bool is_target;
    size_t like; /* the matching column of params->like, the first of its categories */

    /* The following is set by judge_columns in table.c. */
    icl_column_kind kind;
    bool is_left_out;
    size_t missing, numbers, untidy, texts; /* numbers of cells; untidy as in icl_is_untidy */
    icl_sheet_cell first_text;
    size_t marks[ICL_MARKS];                          /* by kind, the line of the first such number; 0: none */
    double least, most;                               /* of its numbers */
    size_t whole, rising;                             /* whole numbers; numbers greater than the one before */
    double last;                                      /* the last number */
    const char *levels[ICL_TABLE_MAX_CATEGORIES + 1]; /* its different texts, sorted, up to one more than may be used */
    size_t level_count;
} icl_sheet_column;

typedef struct icl_sheet {
    const icl_table_params *params;
    icl_csv_reader *reader;
    const char *name; /* for messages */
    char separator;
    bool has_header;
    size_t first_line, file_columns; /* of the first record */
    char **header;                   /* [file_columns], as in the file; NULL: no header */
    char **names;                    /* [file_columns], unique and printable */
    icl_sheet_column *columns;
    size_t column_count;

    icl_text cells; /* NUL-terminated, [rows][column_count] */
    size_t *lines;  /* [rows] */
    size_t rows, capacity;
} icl_sheet;

/* Reads a table. Release it with icl_sheet_release, even after a failure. */
icl_status icl_sheet_read(const icl_table_params *params, icl_sheet *sheet, icl_error *error);
void icl_sheet_release(icl_sheet *sheet);

/* Writes "column 3 (wt)", or "column 3" without a name, to `text`, and returns it. */
#define ICL_LABEL_CAPACITY (ICL_COLUMN_CAPACITY + 32)
const char *icl_column_label(const icl_sheet *sheet, size_t position, char text[ICL_LABEL_CAPACITY]);

/* Writes the separator's name to `name`, and returns it: "comma", "semicolon", …; or the character itself in single
 * quotes. */
#define ICL_SEPARATOR_NAME 16
const char *icl_separator_name(char separator, char name[ICL_SEPARATOR_NAME]);

/* ---- Cells (cell.c): missing, a plain number, a number or date that has to be tidied first, or text ---- */

/* The name of the reader that accepts untidy cells, for messages. */
#define ICL_TIDYING "iclab.read_table in Python"

/* Returns whether the cell is empty or one of NA, N/A, NaN, null, none, ?, -, as spreadsheets and programs spell these;
 * letter case is ignored. */
bool icl_is_missing(const char *cell);

/* Reads a number: sign, digits with this decimal mark, and exponent. False if the cell is anything else, or too large a
 * number for a double. */
bool icl_read_number(const char *cell, icl_decimal decimal, double *value);

/* Returns whether the mark, '.' or ',', may separate thousands in this number: it may in "1.234", but not in "0.123" or
 * "1.23". */
bool icl_is_grouped(const char *cell, char mark);

/* Returns whether the cell is a date, a time of day, or a number with another decimal mark, separated thousands or a
 * unit: 31.1.2024, 31 Jan 2024, 12:30, 1,5, 1 234, 5 %, -$5. The reader of tables refuses these; iclab.read_table of
 * the Python package turns them into numbers. */
bool icl_is_untidy(const char *cell);

#endif
