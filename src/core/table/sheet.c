/* The reader of CSV records, and a table as text: its separator, names and cells, and which of its columns are used. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/allocate.h"
#include "core/print.h"
#include "core/table/cell.h"
#include "core/table/sheet.h"
#include "iclab/file.h"
#include "iclab/nearest.h"
#include "iclab/number.h"

/* ---- Records of CSV ---- */

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

/* Returns the name of the source, as messages use it. */
static const char *reader_name(const icl_csv_reader *reader) {
    return reader->name;
}

/* Sets the separator of the records that follow. */
static void separate(icl_csv_reader *reader, char separator) {
    reader->separator = separator;
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

const char *icl_separator_word(char separator) {
    static const struct {
        char separator;
        const char *word;
    } words[] = {{',', "comma"}, {';', "semicolon"}, {'\t', "tab"}, {'|', "pipe"}};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i].separator == separator)
            return words[i].word;
    return NULL;
}

const char *icl_separator_name(char separator, char name[ICL_SEPARATOR_NAME]) {
    const char *word = icl_separator_word(separator);

    if (!word)
        snprintf(name, ICL_SEPARATOR_NAME, "'%c'", separator);
    else
        snprintf(name, ICL_SEPARATOR_NAME, "%s", word);
    return name;
}

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

/* ---- Which columns are used: those asked for, or all but the target and those excluded ---- */

/* Refuses a file of one column: no separator splits its lines, or the one that the caller named does not. */
static icl_status refuse_one_column(const icl_sheet *sheet, const char *wanted, icl_error *error) {
    const char *sample = NULL;
    char name[ICL_SEPARATOR_NAME], separator = 0;
    size_t size = 0;

    ICL_CHECK(read_sample(sheet->reader, &sample, &size, error));
    ICL_CHECK(recognise_separator(sample, size, &separator, error));
    return icl_fail(error, ICL_ERROR_INPUT,
                    "%s:%zu: no column \"%s\" in a file of one column (\"%s\"): expected what stands between fields: "
                    "--separator %s",
                    sheet->name, sheet->first_line, wanted, sheet->names[0],
                    separator != 0 ? icl_separator_name(separator, name)
                                   : "comma, semicolon, tab, pipe or a character; " ICL_TIDYING " reads blanks");
}

static icl_status refuse_column(const icl_sheet *sheet, const char *option, const char *wanted, icl_error *error) {
    char printable[ICL_CELL_CAPACITY];

    icl_printable(wanted, printable, sizeof printable);
    if (sheet->file_columns == 1)
        return refuse_one_column(sheet, printable, error);
    if (!sheet->has_header)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s:%zu: no column \"%s\": expected for %s a number from 1 to %zu, because the first line has "
                        "no names (--header yes says that it has)",
                        sheet->name, sheet->first_line, printable, option, sheet->file_columns);
    return icl_fail(error, ICL_ERROR_INPUT,
                    "%s:%zu: no column \"%s\" (nearest: \"%s\"): expected for %s a name of the first line, or a number "
                    "from 1 to %zu",
                    sheet->name, sheet->first_line, printable,
                    icl_nearest(wanted, (const char *const *)sheet->names, sheet->file_columns), option,
                    sheet->file_columns);
}

/* Finds a column of the file by its name or, if no column has that name, by its number. */
static icl_status find_column(const icl_sheet *sheet, const char *option, const char *wanted, size_t *column,
                              icl_error *error) {
    char name[ICL_COLUMN_CAPACITY];
    size_t named = 0;
    uint64_t number;

    icl_printable(wanted, name, sizeof name);
    for (size_t i = 0; sheet->has_header && i < sheet->file_columns; i++)
        if (name[0] != '\0' && strcmp(sheet->header[i], name) == 0 && named++ == 0)
            *column = i;
    if (named > 1)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s:%zu: %zu columns are named \"%s\": expected for %s the number of one, from 1 to %zu: the "
                        "first is %zu",
                        sheet->name, sheet->first_line, named, name, option, sheet->file_columns, *column + 1);
    for (size_t i = 0; named == 0 && i < sheet->file_columns; i++)
        if (strcmp(sheet->names[i], name) == 0) {
            *column = i;
            named = 1;
        }
    if (named == 1)
        return ICL_OK;
    if (!icl_parse_count(wanted, strlen(wanted), &number) || number < 1 || number > sheet->file_columns)
        return refuse_column(sheet, option, wanted, error);
    *column = (size_t)number - 1;
    return ICL_OK;
}

/* As above, but by the names that another table gave its columns, which are all different. */
static icl_status find_like(const icl_sheet *sheet, const icl_table *like, size_t column, size_t *position,
                            icl_error *error) {
    for (size_t i = 0; i < sheet->file_columns; i++)
        if (strcmp(sheet->names[i], like->sources[column]) == 0) {
            *position = i;
            return ICL_OK;
        }
    return find_column(sheet, "--new", like->sources[column], position, error);
}

static icl_status choose_column(icl_sheet *sheet, size_t position, bool is_chosen, bool is_target, icl_error *error) {
    for (size_t i = 0; i < sheet->column_count; i++)
        if (sheet->columns[i].position == position)
            return icl_fail(error, ICL_ERROR_INPUT,
                            "%s:%zu: column %zu is chosen twice: expected every column once in --columns, and the "
                            "target not among them",
                            sheet->name, sheet->first_line, position + 1);
    sheet->columns[sheet->column_count++] =
        (icl_sheet_column){.position = position, .is_chosen = is_chosen, .is_target = is_target};
    return ICL_OK;
}

/* Chooses the columns of another table. The indicators of one column are adjacent, and count once. */
static icl_status choose_like(icl_sheet *sheet, const icl_table *like, icl_error *error) {
    size_t position = 0;

    for (size_t i = 0; i + 1 < like->columns; i++) {
        if (i > 0 && like->levels[i] && like->numbers[i] == like->numbers[i - 1])
            continue;
        ICL_CHECK(find_like(sheet, like, i, &position, error));
        ICL_CHECK(choose_column(sheet, position, true, false, error));
        sheet->columns[sheet->column_count - 1].like = i;
    }
    return ICL_OK;
}

static icl_status mark_excluded(const icl_sheet *sheet, size_t target, bool *is_excluded, icl_error *error) {
    const icl_table_params *params = sheet->params;
    size_t column = 0;

    for (size_t i = 0; i < params->excluded_count; i++) {
        ICL_CHECK(find_column(sheet, "--exclude", params->excluded[i], &column, error));
        if (column == target)
            return icl_fail(error, ICL_ERROR_INPUT,
                            "%s:%zu: column %zu is the target and excluded: expected --exclude of others", sheet->name,
                            sheet->first_line, column + 1);
        is_excluded[column] = true;
    }
    return ICL_OK;
}

static icl_status choose_features(icl_sheet *sheet, size_t target, const bool *is_excluded, icl_error *error) {
    const icl_table_params *params = sheet->params;
    size_t column = 0;

    for (size_t i = 0; i < params->column_count; i++) {
        ICL_CHECK(find_column(sheet, "--columns", params->columns[i], &column, error));
        if (!is_excluded[column])
            ICL_CHECK(choose_column(sheet, column, true, false, error));
    }
    for (size_t i = 0; params->column_count == 0 && !params->target_alone && i < sheet->file_columns; i++)
        if (i != target && !is_excluded[i])
            ICL_CHECK(choose_column(sheet, i, false, false, error));
    return ICL_OK;
}

/* Fills sheet->columns once the names are known. ICL_ERROR_INPUT if a column is unknown, ambiguous or chosen twice. */
static icl_status choose_columns(icl_sheet *sheet, icl_error *error) {
    const icl_table_params *params = sheet->params;
    size_t target = SIZE_MAX;
    bool *is_excluded = NULL;
    icl_status status;

    ICL_TRY(icl_allocate(sheet->file_columns + 1, sizeof *sheet->columns, "columns", &sheet->columns, error));
    if (params->like) {
        ICL_TRY(choose_like(sheet, params->like, error));
        goto done;
    }
    if (params->target)
        ICL_TRY(find_column(sheet, "--target", params->target, &target, error));
    ICL_TRY(icl_allocate(sheet->file_columns, sizeof *is_excluded, "columns", &is_excluded, error));
    ICL_TRY(mark_excluded(sheet, target, is_excluded, error));
    ICL_TRY(choose_features(sheet, target, is_excluded, error));
    if (params->target)
        ICL_TRY(choose_column(sheet, target, true, true, error));
done:
    icl_free(&is_excluded);
    return status;
}

/* ---- Reading ---- */

static void release_names(char ***names, size_t count) {
    for (size_t i = 0; *names && i < count; i++)
        icl_free(&(*names)[i]);
    icl_free(names);
}

void icl_sheet_release(icl_sheet *sheet) {
    release_names(&sheet->header, sheet->file_columns);
    release_names(&sheet->names, sheet->file_columns);
    icl_free(&sheet->columns);
    icl_text_release(&sheet->cells);
    icl_free(&sheet->lines);
    icl_csv_reader_close(&sheet->reader);
}

/* ---- Names ---- */

const char *icl_column_label(const icl_sheet *sheet, size_t position, char text[ICL_LABEL_CAPACITY]) {
    if (sheet->has_header && sheet->header[position][0] != '\0')
        snprintf(text, ICL_LABEL_CAPACITY, "column %zu (%s)", position + 1, sheet->names[position]);
    else
        snprintf(text, ICL_LABEL_CAPACITY, "column %zu", position + 1);
    return text;
}

/* Returns whether the record is 0, 1, 2, …, possibly after an empty field: the header that pandas gives an array. */
static bool counts_up(const icl_csv_record *record) {
    const size_t first = record->fields[0][0] == '\0';
    char number[24];

    for (size_t i = first; i < record->count; i++) {
        snprintf(number, sizeof number, "%zu", i - first);
        if (strcmp(record->fields[i], number) != 0)
            return false;
    }
    return record->count > first + 1;
}

/* Decides whether the first record is a header. ICL_ERROR_INPUT if header = auto leaves a doubt. */
static icl_status detect_header(const icl_sheet *sheet, const icl_csv_record *record, bool *has_header,
                                icl_error *error) {
    size_t number = SIZE_MAX, text = SIZE_MAX;
    double value;

    *has_header = sheet->params->header == ICL_HEADER_YES;
    if (strncmp(record->fields[0], "sep=", 4) == 0 && !isalnum((unsigned char)record->fields[0][4]))
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s:%zu: a line that names the separator: expected the columns' names or values; " ICL_TIDYING
                        " reads it",
                        sheet->name, record->line);
    if (sheet->params->header != ICL_HEADER_AUTO)
        return ICL_OK;
    for (size_t i = 0; i < record->count; i++) {
        if (icl_read_number(record->fields[i], ICL_DECIMAL_POINT, &value) ||
            icl_read_number(record->fields[i], ICL_DECIMAL_COMMA, &value))
            number = number == SIZE_MAX ? i : number;
        else if (record->fields[i][0] != '\0')
            text = text == SIZE_MAX ? i : text;
    }
    if (number != SIZE_MAX && text != SIZE_MAX)
        return icl_fail(
            error, ICL_ERROR_INPUT,
            "%s:%zu: text in column %zu and a number in column %zu of the first line: expected names "
            "alone or numbers alone; --header yes says that it has names, --header no that it has not; a title "
            "above the names has to go",
            sheet->name, record->line, text + 1, number + 1);
    if (counts_up(record))
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s:%zu: the first line counts 0, 1, …: expected to be told whether these are names or a row; "
                        "--header yes, or --header no",
                        sheet->name, record->line);
    *has_header = number == SIZE_MAX;
    return ICL_OK;
}

/* Returns how many of the first `count` names equal `name`. */
static size_t count_names(char *const *names, size_t count, const char *name) {
    size_t found = 0;

    for (size_t i = 0; i < count; i++)
        found += strcmp(names[i], name) == 0;
    return found;
}

/* Gives a column a unique name: the second x becomes x.2; a column without a name is named after its number. */
static icl_status make_name(icl_sheet *sheet, size_t column, icl_error *error) {
    char name[ICL_COLUMN_CAPACITY + 32];
    size_t turn;

    if (!sheet->has_header || sheet->header[column][0] == '\0') {
        snprintf(name, sizeof name, sheet->has_header ? "column %zu" : "%zu", column + 1);
        return icl_duplicate(name, &sheet->names[column], error);
    }
    snprintf(name, sizeof name, "%s", sheet->header[column]);
    turn = 1 + count_names(sheet->header, column, name);
    while (turn > 1 || count_names(sheet->names, column, name) > 0) {
        snprintf(name, sizeof name, "%s.%zu", sheet->header[column], turn > 1 ? turn : ++turn);
        if (count_names(sheet->names, column, name) == 0)
            break;
        turn++;
    }
    return icl_duplicate(name, &sheet->names[column], error);
}

static icl_status keep_names(icl_sheet *sheet, const icl_csv_record *record, icl_error *error) {
    if (sheet->has_header)
        ICL_CHECK(icl_allocate(record->count, sizeof *sheet->header, "names of columns", &sheet->header, error));
    for (size_t i = 0; sheet->has_header && i < record->count; i++) {
        char name[ICL_COLUMN_CAPACITY];
        ICL_CHECK(icl_duplicate(icl_printable(record->fields[i], name, sizeof name), &sheet->header[i], error));
    }
    ICL_CHECK(icl_allocate(record->count, sizeof *sheet->names, "names of columns", &sheet->names, error));
    for (size_t i = 0; i < record->count; i++)
        ICL_CHECK(make_name(sheet, i, error));
    return ICL_OK;
}

/* ---- Rows ---- */

static icl_status check_length(const icl_sheet *sheet, const icl_csv_record *record, icl_error *error) {
    char name[ICL_SEPARATOR_NAME];

    if (record->count == sheet->file_columns)
        return ICL_OK;
    return icl_fail(error, ICL_ERROR_INPUT,
                    "%s:%zu: a line of %zu column%s: expected %zu, as in line %zu (fields that hold a %s stand in "
                    "quotes; --separator names another; " ICL_TIDYING " reads separators at the ends of lines)",
                    sheet->name, record->line, record->count, record->count == 1 ? "" : "s", sheet->file_columns,
                    sheet->first_line, icl_separator_name(sheet->separator, name));
}

/* Refuses a line of empty fields, which Excel leaves if cells were cleared. */
static icl_status check_fields(const icl_sheet *sheet, const icl_csv_record *record, icl_error *error) {
    for (size_t i = 0; i < record->count; i++)
        if (record->fields[i][0] != '\0')
            return ICL_OK;
    return icl_fail(error, ICL_ERROR_INPUT,
                    "%s:%zu: a line of empty fields: expected values; " ICL_TIDYING " leaves such lines out",
                    sheet->name, record->line);
}

static icl_status add_line(icl_sheet *sheet, size_t line, icl_error *error) {
    ICL_CHECK(icl_grow(&sheet->lines, sheet->rows, &sheet->capacity, sizeof *sheet->lines, "rows of a table", error));
    sheet->lines[sheet->rows++] = line;
    return ICL_OK;
}

static icl_status add_row(icl_sheet *sheet, const icl_csv_record *record, icl_error *error) {
    ICL_CHECK(check_length(sheet, record, error));
    ICL_CHECK(check_fields(sheet, record, error));
    if (sheet->rows == ICL_TABLE_MAX_ROWS || sheet->rows * sheet->column_count >= ICL_TABLE_MAX_CELLS)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s:%zu: more than %zu rows of %zu columns: expected at most %zu rows and %zu cells",
                        sheet->name, record->line, sheet->rows, sheet->column_count, ICL_TABLE_MAX_ROWS,
                        ICL_TABLE_MAX_CELLS);
    if (sheet->cells.length > ICL_SHEET_MAX_BYTES)
        return icl_fail(error, ICL_ERROR_INPUT, "%s:%zu: more than %zu bytes in the columns used: expected fewer",
                        sheet->name, record->line, ICL_SHEET_MAX_BYTES);
    for (size_t i = 0; i < sheet->column_count; i++) {
        const char *cell = record->fields[sheet->columns[i].position];
        ICL_CHECK(icl_text_append(&sheet->cells, cell, strlen(cell) + 1, error));
    }
    return add_line(sheet, record->line, error);
}

static icl_status choose_separator(icl_sheet *sheet, icl_error *error) {
    const char *sample = NULL;
    size_t size = 0;

    sheet->separator = sheet->params->source.separator;
    if (sheet->separator == 0) {
        ICL_CHECK(read_sample(sheet->reader, &sample, &size, error));
        ICL_CHECK(recognise_separator(sample, size, &sheet->separator, error));
    }
    if (sheet->separator == 0)
        sheet->separator = ',';
    separate(sheet->reader, sheet->separator);
    return ICL_OK;
}

/* Reads the first record, chooses the columns, and reads every row. */
static icl_status read_rows(icl_sheet *sheet, icl_error *error) {
    icl_csv_record record;
    bool found = false;

    ICL_CHECK(icl_csv_reader_next(sheet->reader, &record, &found, error));
    if (!found)
        return icl_fail(error, ICL_ERROR_INPUT, "%s:1: empty: expected a table with a header and rows", sheet->name);
    sheet->first_line = record.line;
    sheet->file_columns = record.count;
    ICL_CHECK(detect_header(sheet, &record, &sheet->has_header, error));
    ICL_CHECK(keep_names(sheet, &record, error));
    ICL_CHECK(choose_columns(sheet, error));
    if (sheet->has_header)
        ICL_CHECK(icl_csv_reader_next(sheet->reader, &record, &found, error));
    while (found) {
        ICL_CHECK(add_row(sheet, &record, error));
        ICL_CHECK(icl_csv_reader_next(sheet->reader, &record, &found, error));
    }
    if (sheet->rows == 0)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s:%zu: a header and no rows: expected rows of numbers (--header no: the line is one)",
                        sheet->name, sheet->first_line);
    return ICL_OK;
}

icl_status icl_sheet_read(const icl_table_params *params, icl_sheet *sheet, icl_error *error) {
    *sheet = (icl_sheet){.params = params};
    ICL_CHECK(icl_csv_reader_open(&params->source, &sheet->reader, error));
    sheet->name = reader_name(sheet->reader);
    ICL_CHECK(choose_separator(sheet, error));
    return read_rows(sheet, error);
}
