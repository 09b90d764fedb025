/* Tables of numbers, row by row, and the reader of separated text. */
#include "iclab/csv.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/allocate.h"
#include "core/table/sheet.h"
#include "iclab/file.h"
#include "iclab/number.h"
#include "iclab/text.h"

struct icl_csv {
    char *path;
    int file;
    off_t size;    /* of the file, in whole rows */
    size_t count;  /* numbers after the step in each row */
    icl_text held; /* rows not yet written */
};

/* Opens a table to append to it. */
static icl_status open_table(const char *path, const char *header, icl_csv **csv, icl_error *error) {
    icl_status status = ICL_OK;
    icl_csv *created = NULL;

    ICL_TRY(icl_allocate(1, sizeof *created, "table", &created, error));
    created->file = -1;
    for (const char *c = header; *c != '\0'; c++)
        created->count += *c == ',';
    ICL_TRY(icl_duplicate(path, &created->path, error));
    created->file = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (created->file < 0) {
        status = icl_file_fail(error, "write", path, errno);
        goto done;
    }
    created->size = lseek(created->file, 0, SEEK_END);
    if (created->size < 0) {
        status = icl_file_fail(error, "write", path, errno);
        goto done;
    }
    *csv = created;
    created = NULL;
done:
    icl_csv_destroy(&created);
    return status;
}

icl_status icl_csv_create(const char *path, const char *header, icl_csv **csv, icl_error *error) {
    icl_status status = ICL_OK;
    const size_t length = strlen(header);
    char *line = NULL;

    ICL_TRY(icl_allocate(length + 2, 1, "header of a table", &line, error));
    memcpy(line, header, length + 1);
    line[length] = '\n';
    /* The header is written at once, because a table without its whole header could not be resumed. */
    ICL_TRY(icl_file_write(path, line, length + 1, error));
    ICL_TRY(open_table(path, header, csv, error));
done:
    icl_free(&line);
    return status;
}

/* Returns in *length how much of a table is kept: the header and the whole rows up to step `last`. */
static icl_status kept_length(const char *path, const char *text, const char *header, uint64_t last, size_t *length,
                              icl_error *error) {
    const size_t header_length = strlen(header);
    const char *row = text + header_length + 1;
    size_t line = 2;

    if (strncmp(text, header, header_length) != 0 || text[header_length] != '\n')
        return icl_fail(error, ICL_ERROR_INPUT, "%s:1: not the header of this table: expected %s", path, header);
    for (;; line++) {
        const char *end = strchr(row, '\n');
        uint64_t step;
        if (!end)
            break;
        if (!icl_parse_count(row, strcspn(row, ",\n"), &step))
            return icl_fail(error, ICL_ERROR_INPUT, "%s:%zu: expected a row that starts with a step", path, line);
        if (step > last)
            break;
        row = end + 1;
    }
    *length = (size_t)(row - text);
    return ICL_OK;
}

icl_status icl_csv_resume(const char *path, const char *header, uint64_t last, icl_csv **csv, icl_error *error) {
    icl_status status = ICL_OK;
    char *text = NULL;
    size_t size = 0, kept = 0;

    ICL_TRY(icl_file_read(path, 0, &text, &size, error));
    ICL_TRY(kept_length(path, text, header, last, &kept, error));
    if (kept < size)
        ICL_TRY(icl_file_write(path, text, kept, error));
    ICL_TRY(open_table(path, header, csv, error));
done:
    icl_free(&text);
    return status;
}

icl_status icl_csv_row(icl_csv *csv, uint64_t step, const double *values, size_t count, icl_error *error) {
    const size_t before = csv->held.length;
    icl_status status = ICL_OK;

    if (count != csv->count)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s: a row of %zu numbers behind the step: expected %zu, as in the header", csv->path, count,
                        csv->count);
    ICL_TRY(icl_text_print(&csv->held, error, "%" PRIu64, step));
    for (size_t i = 0; i < count; i++) {
        char number[ICL_NUMBER_CAPACITY];
        ICL_TRY(icl_text_print(&csv->held, error, ",%s", isnan(values[i]) ? "" : icl_format_value(values[i], number)));
    }
    ICL_TRY(icl_text_append(&csv->held, "\n", 1, error));
done:
    if (status != ICL_OK)
        csv->held.length = before;
    return status;
}

icl_status icl_csv_flush(icl_csv *csv, icl_error *error) {
    size_t written = 0;
    int failure = 0;

    while (written < csv->held.length && failure == 0) {
        const ssize_t count = write(csv->file, csv->held.bytes + written, csv->held.length - written);
        if (count >= 0)
            written += (size_t)count;
        else if (errno != EINTR)
            failure = errno;
    }
    if (failure == 0 && fsync(csv->file) != 0)
        failure = errno;
    if (failure != 0) {
        /* The partly written rows are cut off, so that the next flush appends to whole rows. */
        const int cut = ftruncate(csv->file, csv->size);
        (void)cut;
        return icl_file_fail(error, "write", csv->path, failure);
    }
    csv->size += (off_t)written;
    csv->held.length = 0;
    return ICL_OK;
}

void icl_csv_destroy(icl_csv **csv) {
    if (!*csv)
        return;
    if ((*csv)->file >= 0)
        close((*csv)->file);
    icl_text_release(&(*csv)->held);
    icl_free(&(*csv)->path);
    icl_free(csv);
}

/* ---- Records of separated text ---- */

#define BLOCK_BYTES ((size_t)1 << 16)

/* The initial capacity for the text of a record. */
#define TEXT_BYTES ((size_t)1 << 12)

/* Returned in place of a byte. */
enum { AT_END = -1, CANNOT_READ = -2 };

struct icl_csv_reader {
    char *name;
    int file; /* -1: the source is in memory */
    char separator;
    char *block; /* of the file, [BLOCK_BYTES] */
    const char *bytes;
    size_t position, available; /* in bytes */
    int failure;                /* errno of the read that failed */

    size_t line;         /* of the next byte */
    size_t record_line;  /* where the record began */
    size_t record_bytes; /* of the current record, read so far */
    char *text;          /* fields, each with a NUL */
    size_t used, capacity;
    const char **fields; /* [ICL_CSV_MAX_COLUMNS], in text */
    size_t count;
};

/* ---- Opening and closing ---- */

static icl_status open_file(const char *path, icl_csv_reader *reader, icl_error *error) {
    const int file = strcmp(path, "-") == 0 ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);

    if (file < 0 && errno == ENOENT)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: no such file: expected a CSV file, or - for standard input", path);
    if (file < 0)
        return icl_file_fail(error, "open", path, errno);
    reader->file = file;
    return icl_allocate(BLOCK_BYTES, 1, "block of a file", &reader->block, error);
}

icl_status icl_csv_reader_open(const icl_csv_source *source, icl_csv_reader **reader, icl_error *error) {
    const bool is_standard_input = !source->text && strcmp(source->path, "-") == 0;
    icl_csv_reader *created = NULL;
    icl_status status;

    ICL_TRY(icl_allocate(1, sizeof *created, "CSV reader", &created, error));
    created->file = -1;
    created->separator = source->separator ? source->separator : ',';
    created->line = 1;
    ICL_TRY(icl_duplicate(is_standard_input ? "standard input" : source->path, &created->name, error));
    ICL_TRY(icl_allocate(TEXT_BYTES, 1, "record of a CSV file", &created->text, error));
    created->capacity = TEXT_BYTES;
    ICL_TRY(
        icl_allocate(ICL_CSV_MAX_COLUMNS, sizeof *created->fields, "fields of a CSV file", &created->fields, error));
    if (source->text) {
        created->bytes = source->text;
        created->available = source->size;
    } else {
        ICL_TRY(open_file(source->path, created, error));
    }
    *reader = created;
    created = NULL;
done:
    icl_csv_reader_close(&created);
    return status;
}

void icl_csv_reader_close(icl_csv_reader **reader) {
    if (!*reader)
        return;
    if ((*reader)->file >= 0)
        close((*reader)->file);
    icl_free(&(*reader)->name);
    icl_free(&(*reader)->block);
    icl_free(&(*reader)->text);
    icl_free(&(*reader)->fields);
    icl_free(reader);
}

/* ---- Bytes ---- */

/* Reads a whole block, even from a pipe that delivers less at a time, so that the first block is a sample of the
 * file. */
static void refill(icl_csv_reader *reader) {
    size_t used = 0;
    ssize_t count = 1;

    if (reader->file < 0)
        return;
    while (used < BLOCK_BYTES && count != 0) {
        count = read(reader->file, reader->block + used, BLOCK_BYTES - used);
        if (count < 0 && errno != EINTR) {
            reader->failure = errno;
            break;
        }
        used += count > 0 ? (size_t)count : 0;
    }
    reader->bytes = reader->block;
    reader->position = 0;
    reader->available = used;
}

/* Returns the next byte without taking it, or AT_END or CANNOT_READ. */
static int peek(icl_csv_reader *reader) {
    if (reader->position == reader->available)
        refill(reader);
    if (reader->position < reader->available)
        return (unsigned char)reader->bytes[reader->position];
    return reader->failure ? CANNOT_READ : AT_END;
}

/* Takes the byte that was peeked at. */
static void take(icl_csv_reader *reader) {
    reader->position++;
    reader->record_bytes++;
}

/* Takes a line end: LF, CRLF or CR. */
static void take_line_end(icl_csv_reader *reader) {
    const bool is_return = peek(reader) == '\r';

    take(reader);
    if (is_return && peek(reader) == '\n')
        take(reader);
    reader->line++;
}

static bool is_line_end(int byte) {
    return byte == '\n' || byte == '\r';
}

static bool is_blank(const icl_csv_reader *reader, int byte) {
    return (byte == ' ' || byte == '\t') && byte != reader->separator;
}

static bool ends_field(const icl_csv_reader *reader, int byte) {
    return byte < 0 || byte == reader->separator || is_line_end(byte);
}

/* ---- Fields ---- */

/* Refuses bytes that no field may hold, and records that are too long. */
static icl_status check_byte(const icl_csv_reader *reader, int byte, icl_error *error) {
    if (byte == CANNOT_READ)
        return icl_file_fail(error, "read", reader->name, reader->failure);
    if (byte == '\0')
        return icl_fail(
            error, ICL_ERROR_INPUT,
            "%s:%zu: a NUL byte: expected text (a spreadsheet is to be exported as CSV in UTF-8, for --data)",
            reader->name, reader->line);
    if (reader->record_bytes >= ICL_CSV_MAX_RECORD)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s:%zu: a record that goes on for more than %zu bytes: expected shorter lines, or a "
                        "closing quote",
                        reader->name, reader->record_line, ICL_CSV_MAX_RECORD);
    return ICL_OK;
}

/* Adds a byte to the current field. The fields move with their text when it grows. */
static icl_status add(icl_csv_reader *reader, char byte, icl_error *error) {
    if (reader->used == reader->capacity) {
        const char *old = reader->text;
        char *larger = NULL;
        ICL_CHECK(icl_allocate(2 * reader->capacity, 1, "record of a CSV file", &larger, error));
        memcpy(larger, old, reader->used);
        for (size_t i = 0; i < reader->count; i++)
            reader->fields[i] = larger + (reader->fields[i] - old);
        icl_free(&reader->text);
        reader->text = larger;
        reader->capacity *= 2;
    }
    reader->text[reader->used++] = byte;
    return ICL_OK;
}

/* Takes the next byte into the current field. */
static icl_status keep(icl_csv_reader *reader, int byte, icl_error *error) {
    ICL_CHECK(check_byte(reader, byte, error));
    ICL_CHECK(add(reader, (char)byte, error));
    take(reader);
    return ICL_OK;
}

static icl_status skip_blanks(icl_csv_reader *reader, icl_error *error) {
    for (int byte = peek(reader); is_blank(reader, byte); byte = peek(reader)) {
        ICL_CHECK(check_byte(reader, byte, error));
        take(reader);
    }
    return ICL_OK;
}

/* Keeps a byte between quotes, and counts line ends there as lines. */
static icl_status keep_quoted(icl_csv_reader *reader, int byte, icl_error *error) {
    ICL_CHECK(keep(reader, byte, error));
    reader->line += byte == '\n' || (byte == '\r' && peek(reader) != '\n');
    return ICL_OK;
}

static icl_status read_quoted(icl_csv_reader *reader, icl_error *error) {
    const size_t line = reader->line;
    int byte;

    take(reader);
    for (;;) {
        byte = peek(reader);
        if (byte == AT_END)
            return icl_fail(error, ICL_ERROR_INPUT,
                            "%s:%zu: column %zu: a quote that is never closed: expected \" at its end", reader->name,
                            line, reader->count);
        if (byte == '"') {
            take(reader);
            if (peek(reader) != '"')
                break;
        }
        ICL_CHECK(keep_quoted(reader, byte, error));
    }
    ICL_CHECK(skip_blanks(reader, error));
    byte = peek(reader);
    ICL_CHECK(check_byte(reader, byte, error));
    if (!ends_field(reader, byte))
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s:%zu: column %zu: text behind a closing quote: expected a separator or the line's "
                        "end (--separator names another; a quote within quotes is written \"\")",
                        reader->name, line, reader->count);
    return ICL_OK;
}

static icl_status read_plain(icl_csv_reader *reader, icl_error *error) {
    const size_t start = reader->used;

    for (int byte = peek(reader); !ends_field(reader, byte); byte = peek(reader)) {
        if (byte == '"')
            return icl_fail(error, ICL_ERROR_INPUT,
                            "%s:%zu: column %zu: a quote within a field that began without one: expected the "
                            "whole field in quotes",
                            reader->name, reader->line, reader->count);
        ICL_CHECK(keep(reader, byte, error));
    }
    while (reader->used > start && is_blank(reader, reader->text[reader->used - 1]))
        reader->used--;
    return ICL_OK;
}

/* Takes the byte that ends a field. *is_last: the line or the file ended. */
static icl_status end_field(icl_csv_reader *reader, bool *is_last, icl_error *error) {
    const int byte = peek(reader);

    *is_last = byte < 0 || is_line_end(byte);
    if (byte == CANNOT_READ)
        return check_byte(reader, byte, error);
    if (is_line_end(byte))
        take_line_end(reader);
    else if (byte == reader->separator)
        take(reader);
    return ICL_OK;
}

static icl_status read_field(icl_csv_reader *reader, bool *is_last, icl_error *error) {
    if (reader->count == ICL_CSV_MAX_COLUMNS)
        return icl_fail(error, ICL_ERROR_INPUT, "%s:%zu: more than %zu columns: expected at most that many",
                        reader->name, reader->record_line, ICL_CSV_MAX_COLUMNS);
    reader->fields[reader->count++] = reader->text + reader->used;
    ICL_CHECK(skip_blanks(reader, error));
    ICL_CHECK(peek(reader) == '"' ? read_quoted(reader, error) : read_plain(reader, error));
    ICL_CHECK(add(reader, '\0', error));
    return end_field(reader, is_last, error);
}

/* ---- Records ---- */

/* Returns the first [*size] bytes of the source, if no record has been read yet; later, the bytes that are buffered.
 * They live until the next call. */
static icl_status read_sample(icl_csv_reader *reader, const char **bytes, size_t *size, icl_error *error) {
    if (peek(reader) == CANNOT_READ)
        return icl_file_fail(error, "read", reader->name, reader->failure);
    *bytes = reader->bytes;
    *size = reader->available < BLOCK_BYTES ? reader->available : BLOCK_BYTES;
    return ICL_OK;
}

/* Skips a UTF-8 byte order mark, and refuses one of UTF-16. */
static icl_status begin_file(icl_csv_reader *reader, icl_error *error) {
    static const unsigned char mark[] = {0xEF, 0xBB, 0xBF};
    const int first = peek(reader);

    if (first == 0xFE || first == 0xFF)
        return icl_fail(
            error, ICL_ERROR_INPUT,
            "%s:1: not UTF-8 (it looks like UTF-16): expected UTF-8 text: iconv -f UTF-16 -t UTF-8 %s | iclab "
            "predict … --data - reads it",
            reader->name, reader->name);
    for (size_t i = 0; i < sizeof mark && peek(reader) == mark[i]; i++)
        take(reader);
    return ICL_OK;
}

static icl_status read_record(icl_csv_reader *reader, icl_error *error) {
    bool is_last = false;

    if (reader->line > ICL_CSV_MAX_LINES)
        return icl_fail(error, ICL_ERROR_INPUT, "%s:%zu: more than %zu lines: expected at most that many", reader->name,
                        reader->line, ICL_CSV_MAX_LINES);
    reader->record_line = reader->line;
    reader->record_bytes = reader->used = reader->count = 0;
    while (!is_last)
        ICL_CHECK(read_field(reader, &is_last, error));
    return ICL_OK;
}

icl_status icl_csv_reader_next(icl_csv_reader *reader, icl_csv_record *record, bool *found, icl_error *error) {
    *found = false;
    if (reader->record_line == 0)
        ICL_CHECK(begin_file(reader, error));
    do {
        if (peek(reader) == AT_END)
            return ICL_OK;
        ICL_CHECK(read_record(reader, error));
    } while (reader->count == 1 && reader->text[0] == '\0');
    *record = (icl_csv_record){reader->record_line, reader->count, reader->fields};
    *found = true;
    return ICL_OK;
}

/* ---- Lists of names as the fields of one record ---- */

icl_status icl_csv_split(const char *list, const char *name, char ***items, size_t *count, icl_error *error) {
    const icl_csv_source source = {.path = name, .text = list, .size = strlen(list)};
    icl_csv_reader *reader = NULL;
    icl_csv_record record;
    bool found = false;
    char **made = NULL, *at;
    icl_status status;

    ICL_TRY(icl_csv_reader_open(&source, &reader, error));
    ICL_TRY(icl_csv_reader_next(reader, &record, &found, error));
    if (!found) {
        status = icl_fail(error, ICL_ERROR_INPUT, "%s: an empty list: expected names or numbers of columns", name);
        goto done;
    }
    ICL_TRY(icl_allocate(record.count * sizeof *made + strlen(list) + record.count, 1, "list", &made, error));
    at = (char *)(made + record.count);
    for (size_t i = 0; i < record.count; i++) {
        made[i] = at;
        strcpy(at, record.fields[i]);
        at += strlen(at) + 1;
    }
    *items = made;
    *count = record.count;
done:
    icl_csv_reader_close(&reader);
    return status;
}

/* ---- The separator ---- */

/* The number of records of a sample that are examined. */
enum { MOST_RECORDS = 64 };

/* The score of a separator is the share of values plus this, so that tables of text score, too. */
#define SCORE_OF_TEXT 0.25

/* The result of splitting a sample by one separator. */
typedef struct trial {
    size_t records, first; /* fields of the first record */
    size_t consistent;     /* records with as many fields */
    size_t cells, values;  /* after the first record; numbers, dates and missing ones */
} trial;

static bool is_value(const char *cell) {
    double value;

    return icl_is_missing(cell) || icl_read_number(cell, ICL_DECIMAL_POINT, &value) || icl_is_untidy(cell);
}

static void count_record(const icl_csv_record *record, trial *attempt) {
    if (attempt->records++ == 0) {
        attempt->first = record->count;
        attempt->consistent = 1;
        return;
    }
    attempt->consistent += record->count == attempt->first;
    attempt->cells += record->count;
    for (size_t i = 0; i < record->count; i++)
        attempt->values += is_value(record->fields[i]);
}

/* Splits the sample by one separator. A record that cannot be read counts against the separator. */
static icl_status try_separator(const char *sample, size_t size, char separator, trial *attempt, icl_error *error) {
    const icl_csv_source source = {.path = "sample", .text = sample, .size = size, .separator = separator};
    icl_csv_reader *reader = NULL;
    icl_csv_record record;
    bool found = true;
    icl_error ignored = {0};
    icl_status status = ICL_OK;

    *attempt = (trial){0};
    ICL_TRY(icl_csv_reader_open(&source, &reader, error));
    while (found && attempt->records < MOST_RECORDS) {
        status = icl_csv_reader_next(reader, &record, &found, &ignored);
        if (status == ICL_ERROR_INPUT) {
            attempt->records++;
            status = ICL_OK;
            break;
        }
        if (status != ICL_OK) {
            status = icl_fail(error, status, "%s", ignored.message);
            break;
        }
        if (found)
            count_record(&record, attempt);
    }
done:
    icl_csv_reader_close(&reader);
    return status;
}

static double score_of(const trial *attempt) {
    const double share = attempt->cells > 0 ? (double)attempt->values / (double)attempt->cells : 0;

    if (attempt->records == 0 || attempt->first < 2)
        return 0;
    return (double)attempt->consistent / (double)attempt->records * (SCORE_OF_TEXT + share);
}

/* Guesses the separator of a text from its beginning, sample [size]: the comma, semicolon, tab or bar that splits lines
 * into as many fields as the first one has, most of them numbers. *separator is 0 if none splits the first line. */
static icl_status recognise_separator(const char *sample, size_t size, char *separator, icl_error *error) {
    double best = 0;
    size_t whole = size;
    trial made;

    /* The last line is left out if the sample cuts it. */
    while (whole > 0 && sample[whole - 1] != '\n' && sample[whole - 1] != '\r')
        whole--;
    *separator = 0;
    for (const char *candidate = ",\t;|"; *candidate != '\0'; candidate++) {
        if (size == 0 || !memchr(sample, *candidate, size))
            continue;
        ICL_CHECK(try_separator(sample, whole > 0 ? whole : size, *candidate, &made, error));
        if (score_of(&made) > best) {
            best = score_of(&made);
            *separator = *candidate;
        }
    }
    return ICL_OK;
}

icl_status icl_csv_reader_recognise(icl_csv_reader *reader, char *separator, icl_error *error) {
    const char *sample = NULL;
    size_t size = 0;

    ICL_CHECK(read_sample(reader, &sample, &size, error));
    ICL_CHECK(recognise_separator(sample, size, separator, error));
    reader->separator = *separator ? *separator : reader->separator;
    return ICL_OK;
}
