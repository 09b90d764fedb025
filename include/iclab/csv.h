/* Tables of numbers that grow row by row, and that a resumed run can continue. */
#ifndef ICLAB_CSV_H
#define ICLAB_CSV_H

#include <stddef.h>
#include <stdint.h>

#include "iclab/status.h"

ICL_C_BEGIN

/* A table that is being written. */
typedef struct icl_csv icl_csv;

/* Starts a new table, in place of any old file, with a header line of comma-separated column names. No reader ever
 * sees the file without its header. */
ICL_API icl_status icl_csv_create(const char *path, const char *header, icl_csv **csv, icl_error *error);

/* Continues an old table: keeps the rows whose first column is at most `last`, drops those above and a torn last row,
 * and appends after them. ICL_ERROR_INPUT if the file has another header. */
ICL_API icl_status icl_csv_resume(const char *path, const char *header, uint64_t last, icl_csv **csv, icl_error *error);

/* Adds a row: `step`, then `count` numbers, each the shortest text that reads back the same (as a float, if it is
 * one); NaN leaves its field empty. Rows are held in memory until icl_csv_flush. ICL_ERROR_INPUT if the header names
 * another number of columns after the first. */
ICL_API icl_status icl_csv_row(icl_csv *csv, uint64_t step, const double *values, size_t count, icl_error *error);

/* Writes the rows held and waits for the disk. On failure the file keeps only whole rows, and the rows stay held. */
ICL_API icl_status icl_csv_flush(icl_csv *csv, icl_error *error);

/* Frees everything; rows not flushed are lost. NULL is allowed. */
ICL_API void icl_csv_destroy(icl_csv **csv);

ICL_C_END

#endif
