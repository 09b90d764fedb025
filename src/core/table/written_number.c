#include "core/table/written_number.h"

#include <string.h>

#include "iclab/number.h"

/* Between digits in the text of a number: a blank or an apostrophe. */
#define GAP '\''

/* A number's digits are taken in this many at once. */
enum { GROUP = 3 };

static bool is_digit(char byte) {
    return byte >= '0' && byte <= '9';
}

/* ---- What stands in a cell ---- */

/* The first of these texts that `at` begins with; NULL: none. */
static const char *begins_with(const char *at, const char *const *texts, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strncmp(at, texts[i], strlen(texts[i])) == 0)
            return texts[i];
    return NULL;
}

/* Blanks: also those that do not break, and thin ones. */
static size_t blank_length(const char *at) {
    static const char *const blanks[] = {" ", "\t", "\xC2\xA0", "\xE2\x80\xAF", "\xE2\x80\x89"};
    const char *found = begins_with(at, blanks, sizeof blanks / sizeof *blanks);
    return found ? strlen(found) : 0;
}

static size_t gap_length(const char *at) {
    static const char *const apostrophes[] = {"'", "\xE2\x80\x99"};
    const char *found = begins_with(at, apostrophes, sizeof apostrophes / sizeof *apostrophes);
    return found ? strlen(found) : blank_length(at);
}

static void skip_blanks(const char **at) {
    for (size_t length = blank_length(*at); length > 0; length = blank_length(*at))
        *at += length;
}

/* Takes a unit and the blanks about it. */
static void take_unit(const char **at, const char **unit) {
    static const char *const units[] = {"%",   "$",   "\xE2\x82\xAC", "\xC2\xA3", "\xC2\xA5", "\xE2\x82\xB9",
                                        "USD", "EUR", "GBP",          "CHF",      "JPY"};
    const char *found;

    if (is_digit(**at))
        return;
    skip_blanks(at);
    found = **unit == '\0' ? begins_with(*at, units, sizeof units / sizeof *units) : NULL;
    if (!found)
        return;
    *unit = found;
    *at += strlen(found);
    skip_blanks(at);
}

static void take_sign(const char **at, char *text, size_t *used) {
    static const char minus[] = "\xE2\x88\x92";
    const bool is_minus = strncmp(*at, minus, sizeof minus - 1) == 0;

    if (**at != '+' && **at != '-' && !is_minus)
        return;
    text[(*used)++] = **at == '+' ? '+' : '-';
    *at += is_minus ? sizeof minus - 1 : 1;
}

/* The length of an exponent with digits; 0: none. */
static size_t exponent_length(const char *at) {
    const size_t sign = at[0] != '\0' && (at[1] == '+' || at[1] == '-') ? 1 : 0;
    size_t length = 1 + sign;

    if ((at[0] != 'e' && at[0] != 'E') || !is_digit(at[length]))
        return 0;
    while (is_digit(at[length]))
        length++;
    return length;
}

/* Digits, points, commas and gaps, and an exponent. */
static bool take_digits(const char **at, char *text, size_t *used) {
    const size_t start = *used;
    size_t exponent;

    while (is_digit(**at) || **at == '.' || **at == ',') {
        const bool follows_digit = is_digit(**at);
        if (*used + 2 >= ICL_WRITTEN_CAPACITY)
            return false;
        text[(*used)++] = *(*at)++;
        const size_t gap = follows_digit ? gap_length(*at) : 0;
        if (gap > 0 && is_digit((*at)[gap])) {
            text[(*used)++] = GAP;
            *at += gap;
        }
    }
    exponent = *used > start ? exponent_length(*at) : 0;
    if (*used + exponent >= ICL_WRITTEN_CAPACITY)
        return false;
    memcpy(text + *used, *at, exponent);
    *used += exponent;
    *at += exponent;
    return *used > start;
}

/* ---- Its decimal mark ---- */

/* A number's parts for a decimal mark. */
typedef struct parts {
    const char *whole, *fraction, *exponent; /* where they begin; the mark stands before the fraction */
} parts;

/* One to three digits, the first not 0, then groups of three behind marks of one kind. */
static bool is_grouped_well(const char *at, const char *end) {
    const char mark = *(at + strcspn(at, ".,'"));
    size_t digits = strcspn(at, ".,'");

    if (digits == 0 || digits > GROUP || *at == '0')
        return false;
    for (at += digits; at < end; at += digits) {
        if (*at++ != mark)
            return false;
        for (digits = 0; at + digits < end && is_digit(at[digits]);)
            digits++;
        if (digits != GROUP)
            return false;
    }
    return true;
}

static bool take_apart(const char *text, char mark, parts *of, bool *grouped) {
    const char *whole_end, *exponent;

    of->whole = text + (*text == '+' || *text == '-');
    exponent = of->whole + strcspn(of->whole, "eE");
    whole_end = of->whole;
    while (whole_end < exponent && *whole_end != mark)
        whole_end++;
    of->exponent = exponent;
    of->fraction = whole_end < exponent ? whole_end + 1 : exponent;
    for (const char *at = of->fraction; at < exponent; at++)
        if (!is_digit(*at))
            return false;
    *grouped = false;
    for (const char *at = of->whole; at < whole_end; at++)
        *grouped = *grouped || !is_digit(*at);
    return !*grouped || (*exponent == '\0' && is_grouped_well(of->whole, whole_end));
}

bool icl_written_number_value(const icl_written_number *number, icl_decimal decimal, double *value, bool *grouped) {
    char plain[ICL_WRITTEN_CAPACITY + 1];
    size_t used = 0;
    parts of;

    if (!take_apart(number->text, decimal == ICL_DECIMAL_COMMA ? ',' : '.', &of, grouped))
        return false;
    for (const char *at = number->text; *at != '\0'; at++) {
        const bool is_mark = at + 1 == of.fraction && !is_digit(*at) && at >= of.whole;
        if (is_mark)
            plain[used++] = '.';
        else if (at >= of.fraction || at < of.whole || is_digit(*at))
            plain[used++] = *at;
    }
    return icl_parse_number(plain, used, value);
}

/* What the marks of a number say; false: it has no reading. */
static bool read_marks(const char *text, icl_marks *marks) {
    bool grouped, as_point, as_comma;
    parts of;

    *marks = ICL_MARKS_NONE;
    if (!strpbrk(text, ".,'"))
        return true;
    as_point = take_apart(text, '.', &of, &grouped);
    as_comma = take_apart(text, ',', &of, &grouped);
    if (as_point != as_comma)
        *marks = as_point ? ICL_MARKS_POINT : ICL_MARKS_COMMA;
    else if (strpbrk(text, ".,"))
        *marks = strchr(text, ',') ? ICL_MARKS_EITHER_COMMA : ICL_MARKS_EITHER_POINT;
    return as_point || as_comma;
}

bool icl_read_written_number(const char *cell, icl_written_number *number) {
    const char *at = cell;
    size_t used = 0;

    number->unit = "";
    take_unit(&at, &number->unit);
    take_sign(&at, number->text, &used);
    take_unit(&at, &number->unit);
    if (!take_digits(&at, number->text, &used))
        return false;
    number->text[used] = '\0';
    take_unit(&at, &number->unit);
    if (*at != '\0' || !strpbrk(number->text, "0123456789"))
        return false;
    return read_marks(number->text, &number->marks);
}
