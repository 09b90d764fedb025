/*
 * Reads records of separated text (RFC 4180, with any separator), one at a time, so that a file of any size takes no
 * more memory than its longest record.
 *
 * A field may be quoted, with "" for a quote in it, and then holds separators and line ends. Lines end with LF, CRLF or
 * CR. The reader skips a UTF-8 byte order mark, blank lines and blanks around a field. It refuses everything else and
 * names the line; also what no table of numbers has: NUL bytes, UTF-16, and more bytes, fields or lines than the limits
 * below.
 */
#ifndef ICLAB_CORE_CSV_READER_H
#define ICLAB_CORE_CSV_READER_H

#include <stdbool.h>
#include <stddef.h>

#include "iclab/table.h"

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

/* Returns the first [*size] bytes of the source, if no record has been read yet; later, the bytes that are buffered.
 * They live until the next call. */
icl_status icl_csv_reader_sample(icl_csv_reader *reader, const char **bytes, size_t *size, icl_error *error);

/* Sets the separator of the records that follow. */
void icl_csv_reader_separate(icl_csv_reader *reader, char separator);

/* Returns the name of the source, as messages use it. */
const char *icl_csv_reader_name(const icl_csv_reader *reader);

/* NULL is allowed. */
void icl_csv_reader_close(icl_csv_reader **reader);

#endif
