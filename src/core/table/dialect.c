#include "core/table/dialect.h"

#include <stdio.h>
#include <string.h>

#include "core/csv_reader.h"
#include "core/table/cell.h"

/* Records of a sample that are looked at. */
enum { MOST_RECORDS = 64 };

/* A separator that keeps every line whole counts this much without any number. */
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

/* What a separator makes of a sample. */
typedef struct trial {
    size_t records, first; /* fields of the first record */
    size_t consistent;     /* records with as many */
    size_t cells, values;  /* behind the first record; numbers, dates and what is missing */
} trial;

static bool is_value(const char *cell) {
    double value;

    return icl_is_missing(cell) || icl_read_number(cell, ICL_DECIMAL_POINT, &value) || icl_is_untidy(cell);
}

static void count_record(const icl_csv_record *record, trial *made) {
    if (made->records++ == 0) {
        made->first = record->count;
        made->consistent = 1;
        return;
    }
    made->consistent += record->count == made->first;
    made->cells += record->count;
    for (size_t i = 0; i < record->count; i++)
        made->values += is_value(record->fields[i]);
}

/* A record that cannot be read counts against the separator. */
static icl_status try_separator(const char *sample, size_t size, char separator, trial *made, icl_error *error) {
    const icl_csv_source source = {.path = "sample", .text = sample, .size = size, .separator = separator};
    icl_csv_reader *reader = NULL;
    icl_csv_record record;
    bool found = true;
    icl_error ignored = {0};
    icl_status status = ICL_OK;

    *made = (trial){0};
    ICL_TRY(icl_csv_reader_open(&source, &reader, error));
    while (found && made->records < MOST_RECORDS) {
        status = icl_csv_reader_next(reader, &record, &found, &ignored);
        if (status == ICL_ERROR_INPUT) {
            made->records++;
            status = ICL_OK;
            break;
        }
        if (status != ICL_OK) {
            status = icl_fail(error, status, "%s", ignored.message);
            break;
        }
        if (found)
            count_record(&record, made);
    }
done:
    icl_csv_reader_close(&reader);
    return status;
}

static double score_of(const trial *made) {
    const double share = made->cells > 0 ? (double)made->values / (double)made->cells : 0;

    if (made->records == 0 || made->first < 2)
        return 0;
    return (double)made->consistent / (double)made->records * (SCORE_OF_TEXT + share);
}

icl_status icl_recognise_separator(const char *sample, size_t size, char *separator, icl_error *error) {
    double best = 0;
    size_t whole = size;
    trial made;

    /* A line that the sample cuts says nothing. */
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
