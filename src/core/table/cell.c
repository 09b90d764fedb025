#include "core/table/sheet.h"

#include <ctype.h>
#include <string.h>

#include "iclab/number.h"

/* Longer cells are never numbers. */
enum { NUMBER_CAPACITY = 128 };

bool icl_is_missing(const char *cell) {
    static const char *const words[] = {"",     "na",  "n/a", "#n/a", "<na>", "n.a.", "nan", "-nan",   "null",
                                        "none", "nil", "nat", "?",    ".",    "-",    "--",  "missing"};
    char lower[8];
    size_t length = 0;

    if (isdigit((unsigned char)cell[0]))
        return false;
    for (; cell[length] != '\0' && length + 1 < sizeof lower; length++)
        lower[length] = (char)tolower((unsigned char)cell[length]);
    lower[length] = '\0';
    if (cell[length] != '\0')
        return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(lower, words[i]) == 0)
            return true;
    return false;
}

/* ---- Plain numbers ---- */

bool icl_read_number(const char *cell, icl_decimal decimal, double *value) {
    char plain[NUMBER_CAPACITY];
    const size_t length = strlen(cell);
    char *mark;

    if (decimal != ICL_DECIMAL_COMMA)
        return icl_parse_number(cell, length, value);
    if (length >= sizeof plain || strchr(cell, '.'))
        return false;
    memcpy(plain, cell, length + 1);
    mark = strchr(plain, ',');
    if (mark)
        *mark = '.';
    return icl_parse_number(plain, length, value);
}

static size_t count_digits(const char *at) {
    return strspn(at, "0123456789");
}

bool icl_is_grouped(const char *cell, char mark) {
    const char *digits = cell + (*cell == '+' || *cell == '-');
    const size_t count = count_digits(digits);

    return count >= 1 && count <= 3 && *digits != '0' && digits[count] == mark &&
           count_digits(digits + count + 1) == 3 && digits[count + 4] == '\0';
}

/* ---- Numbers with thousands apart or a unit ---- */

/* Returns the length of the first of these texts that `at` begins with; 0 if there is none. */
static size_t match(const char *at, const char *const *texts, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strncmp(at, texts[i], strlen(texts[i])) == 0)
            return strlen(texts[i]);
    return 0;
}

/* Blanks, including no-break and thin ones; then other characters that separate thousands. */
static const char *const gaps[] = {" ", "\t", "\xC2\xA0", "\xE2\x80\xAF", "\xE2\x80\x89", "'", "\xE2\x80\x99",
                                   ",", "."};
enum { BLANKS = 5, GAPS = sizeof gaps / sizeof *gaps };

static const char *skip_blanks(const char *at) {
    for (size_t length = match(at, gaps, BLANKS); length > 0; length = match(at, gaps, BLANKS))
        at += length;
    return at;
}

/* Skips a unit and the blanks around it. */
static const char *skip_unit(const char *at) {
    static const char *const units[] = {"%",   "$",   "\xE2\x82\xAC", "\xC2\xA3", "\xC2\xA5", "\xE2\x82\xB9",
                                        "USD", "EUR", "GBP",          "CHF",      "JPY"};

    at = skip_blanks(at);
    return skip_blanks(at + match(at, units, sizeof units / sizeof *units));
}

static const char *skip_sign(const char *at) {
    static const char *const signs[] = {"-", "+", "\xE2\x88\x92"};
    return at + match(at, signs, sizeof signs / sizeof *signs);
}

static const char *skip_exponent(const char *at) {
    const char *digits = at + 1;

    if (*at != 'e' && *at != 'E')
        return at;
    digits += *digits == '+' || *digits == '-';
    return count_digits(digits) == 1 || count_digits(digits) == 2 ? digits + count_digits(digits) : at;
}

/* Skips a number: digits, groups of three after separators of one kind, a fraction after another mark, and an exponent.
 * NULL if there is no number. */
static const char *skip_number(const char *number) {
    const size_t whole = count_digits(number), gap = match(number + whole, gaps, GAPS);
    const char *mark = number + whole, *at = mark;

    while (whole >= 1 && whole <= 3 && gap > 0 && strncmp(at, mark, gap) == 0 && count_digits(at + gap) == 3)
        at += gap + 3;
    if ((*at == '.' || *at == ',') && (at == mark || *at != *mark))
        at += 1 + count_digits(at + 1);
    return whole > 0 || at > number + 1 ? skip_exponent(at) : NULL;
}

static bool is_written_number(const char *cell) {
    const char *end = skip_number(skip_unit(skip_sign(skip_unit(cell))));
    return end && *skip_unit(end) == '\0';
}

/* ---- Dates and times of day ---- */

/* Returns the length of a date: year, month and day in any order with one mark between them, or year and month; 0 if
 * there is none. */
static size_t date_length(const char *at) {
    const size_t first = count_digits(at);
    const char mark = at[first], *rest = at + first + 1;
    size_t second, third;

    if (first == 0 || mark == '\0' || !strchr("-/.", mark))
        return 0;
    second = count_digits(rest);
    if (second < 1 || second > 2)
        return 0;
    rest += second;
    if (*rest != mark)
        return first == 4 ? first + 1 + second : 0;
    third = count_digits(rest + 1);
    if (first == 4 ? third == 1 || third == 2 : first <= 2 && (third == 2 || third == 4))
        return first + second + third + 2;
    return 0;
}

/* Returns whether the text is hh:mm, optionally followed by seconds, a fraction, am or pm, or a zone, and nothing
 * else. */
static bool is_time(const char *at) {
    const size_t hours = count_digits(at);

    return hours >= 1 && hours <= 2 && at[hours] == ':' && count_digits(at + hours + 1) == 2 &&
           at[hours + 3 + strspn(at + hours + 3, ":.0123456789 +-ZzAaPpMm")] == '\0';
}

/* Returns the length of an English month's name, or of its first three or more letters; 0 if there is none. */
static size_t month_length(const char *at) {
    static const char *const months[] = {"january", "february", "march",     "april",   "may",      "june",
                                         "july",    "august",   "september", "october", "november", "december"};
    char word[12];
    size_t letters = 0;

    for (; isalpha((unsigned char)at[letters]) && letters + 1 < sizeof word; letters++)
        word[letters] = (char)tolower((unsigned char)at[letters]);
    for (size_t i = 0; letters >= 3 && i < 12; i++)
        if (strncmp(word, months[i], letters) == 0)
            return letters;
    return 0;
}

/* Returns whether the text is a month's name with days and years around it. */
static bool is_named_date(const char *at) {
    size_t months = 0, numbers = 0;

    while (*at != '\0') {
        const size_t month = month_length(at), digits = count_digits(at), marks = strspn(at, " -/.,");
        if (month + digits + marks == 0 || digits > 4)
            return false;
        months += month > 0;
        numbers += digits > 0;
        at += month + digits + marks;
    }
    return months == 1 && numbers <= 2;
}

bool icl_is_untidy(const char *cell) {
    const size_t date = date_length(cell);

    if (!strpbrk(cell, "0123456789"))
        return false;
    return is_written_number(cell) || is_named_date(cell) || is_time(cell) ||
           (date > 0 && (cell[date] == '\0' || (strchr("T ", cell[date]) && is_time(cell + date + 1))));
}
