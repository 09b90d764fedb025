#include "core/table/dialect.h"

#include <stdio.h>
#include <string.h>

#include "core/csv_reader.h"
#include "core/table/date.h"
#include "core/table/missing.h"

/* Records of a sample that are looked at. */
enum { MOST_RECORDS = 64 };

/* A separator that keeps every line whole counts this much without any number. */
#define SCORE_OF_TEXT 0.25

/* ---- Separators ---- */

const char *icl_separator_word(char separator) {
    static const struct {
        char separator;
        const char *word;
    } words[] = {{',', "comma"}, {';', "semicolon"}, {'\t', "tab"}, {'|', "pipe"}, {' ', "space"}};

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
    bool is_open;          /* the first record ends with an empty field */
} trial;

static void count_record(const icl_csv_record *record, trial *made) {
    const bool is_open = record->fields[record->count - 1][0] == '\0';
    icl_written_number number;

    if (made->records++ == 0) {
        made->first = record->count;
        made->is_open = is_open;
        made->consistent = 1;
        return;
    }
    made->consistent += record->count == made->first || (is_open && record->count == made->first + 1) ||
                        (made->is_open && record->count + 1 == made->first);
    made->cells += record->count;
    for (size_t i = 0; i < record->count; i++)
        made->values += icl_is_missing(record->fields[i]) || icl_is_date(record->fields[i]) ||
                        icl_read_written_number(record->fields[i], &number);
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

static icl_status best_separator(const char *sample, size_t size, const char *candidates, char *separator,
                                 icl_error *error) {
    double best = 0;
    size_t whole = size;

    /* A line that the sample cuts says nothing. */
    while (whole > 0 && sample[whole - 1] != '\n' && sample[whole - 1] != '\r')
        whole--;
    *separator = 0;
    for (; *candidates != '\0'; candidates++) {
        trial made;
        if (size == 0 || !memchr(sample, *candidates, size))
            continue;
        ICL_CHECK(try_separator(sample, whole > 0 ? whole : size, *candidates, &made, error));
        if (score_of(&made) > best) {
            best = score_of(&made);
            *separator = *candidates;
        }
    }
    return ICL_OK;
}

icl_status icl_recognise_separator(const char *sample, size_t size, char *separator, icl_error *error) {
    trial whole;

    ICL_CHECK(best_separator(sample, size, ",\t;| :~^/#&!", separator, error));
    if (*separator != 0)
        return ICL_OK;
    /* One column: its decimal commas separate nothing. */
    ICL_CHECK(try_separator(sample, size, ',', &whole, error));
    *separator = whole.records > 0 && whole.first == 1 && whole.consistent < whole.records ? ';' : 0;
    return ICL_OK;
}

/* ---- Decimal marks ---- */

void icl_note_marks(icl_decimal_evidence *evidence, icl_marks marks, size_t line, size_t column) {
    if (evidence->first[marks].line == 0)
        evidence->first[marks] = (icl_mark_place){line, column};
}

bool icl_decide_decimal(const icl_decimal_evidence *evidence, icl_decimal *decimal) {
    const bool point = evidence->first[ICL_MARKS_POINT].line > 0, comma = evidence->first[ICL_MARKS_COMMA].line > 0;

    *decimal = comma ? ICL_DECIMAL_COMMA : ICL_DECIMAL_POINT;
    return point != comma ||
           (!point && evidence->first[ICL_MARKS_EITHER_COMMA].line == 0 && evidence->doubtful.line == 0);
}
