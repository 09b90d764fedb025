/*
 * Records of separated text (RFC 4180, with any separator), one at a time: a file of any size takes no more memory than
 * its longest record.
 *
 * A field may be quoted, with "" for a quote in it, and then holds separators and line ends. Lines end with LF, CRLF or
 * CR; the reader skips a UTF-8 byte order mark, blank lines and blanks around a field. It refuses everything else with
 * its line, also what no table of numbers has: NUL bytes, UTF-16, and records or numbers of fields above the limits
 * below.
 */
#ifndef ICLAB_CORE_CSV_READER_H
#define ICLAB_CORE_CSV_READER_H

#include <stdbool.h>
#include <stddef.h>

#include "iclab/table.h"

/* Bytes of one record, its fields, and lines in all. */
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

/* ICL_ERROR_INPUT if there is no such file, ICL_ERROR_IO if it cannot be opened. */
icl_status icl_csv_reader_open(const icl_csv_source *source, icl_csv_reader **reader, icl_error *error);

/* Reads the next record that is not blank; *found = false at the end. ICL_ERROR_INPUT names file and line. */
icl_status icl_csv_reader_next(icl_csv_reader *reader, icl_csv_record *record, bool *found, icl_error *error);

/* What the source begins with, [*size] bytes, before its first record is read; afterwards, what is at hand. They live
 * until the next call. */
icl_status icl_csv_reader_sample(icl_csv_reader *reader, const char **bytes, size_t *size, icl_error *error);

/* Names another separator, for the records to come. */
void icl_csv_reader_separate(icl_csv_reader *reader, char separator);

/* What messages call the source. */
const char *icl_csv_reader_name(const icl_csv_reader *reader);

/* NULL is allowed. */
void icl_csv_reader_close(icl_csv_reader **reader);

#endif
