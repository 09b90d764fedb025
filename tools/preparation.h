/* Tables that predictions are made from: what was done to them, and rows written as theirs are. */
#ifndef ICLAB_TOOLS_PREPARATION_H
#define ICLAB_TOOLS_PREPARATION_H

#include "command.h"
#include "iclab/table.h"
#include "iclab/text.h"

typedef struct prepared_tables {
    const icl_table *table;
    const icl_table *fresh; /* the table of the rows to predict; NULL: the same */
    const char *fill;       /* the rule that filled missing features in; NULL: none was missing */
} prepared_tables;

/* Prints a line for each step. */
void print_preparation(const prepared_tables *prepared);

/* How rows were held out. */
typedef struct held_out_rows {
    const icl_table *table;
    size_t rows, folds, repeats;
    uint32_t seed;
} held_out_rows;

/* Prints it, without a line's end. */
void print_held_out(const held_out_rows *held_out);

/* Adds lags, ahead, season (0: none) and the number of rows held out to the summary of a series. */
void add_series(const icl_table *table, size_t held_out, icl_json *summary);

/* Adds to the result the tables "preparation" and "omitted". */
icl_status keep_preparation(const prepared_tables *prepared, result_writer *keep, icl_error *error);

/* Adds to the table "notes" a row for each line of a text, which ends with a line's end or is NULL. Each line's end
 * becomes '\0'. */
icl_status keep_lines(char *notes, result_writer *keep, icl_error *error);

/* Writes preparation.csv and omitted.csv, each if it has a row. */
icl_status write_preparation(const prepared_tables *prepared, const char *folder, icl_error *error);

/* ---- Rows as the table has them ---- */

/* Adds a field, in quotes if it holds the separator. */
icl_status table_add_word(const icl_table *table, const char *word, icl_text *text, icl_error *error);

/* Adds the number of a line, with which a row begins. */
icl_status table_add_line(const icl_table *table, size_t line, icl_text *text, icl_error *error);

/* Adds a separator and a number with the table's decimal mark; nothing for NaN. */
icl_status table_add_number(const icl_table *table, double value, icl_text *text, icl_error *error);

/* Adds `count` of them, and ends the row. */
icl_status table_add_numbers(const icl_table *table, const double *values, size_t count, icl_text *text,
                             icl_error *error);

#endif
