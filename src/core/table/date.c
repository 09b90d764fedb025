#include "core/table/date.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

/* Digits taken from *at, at most 4 of them; their number becomes *value. */
static size_t take_digits(const char **at, unsigned *value) {
    size_t count = 0;

    *value = 0;
    while (**at >= '0' && **at <= '9' && count < 5) {
        *value = 10 * *value + (unsigned)(*(*at)++ - '0');
        count++;
    }
    return count;
}

/* A day or month of one or two digits. */
static bool is_short(size_t digits, unsigned value) {
    return (digits == 1 || digits == 2) && value >= 1 && value <= 31;
}

/* Year, month and day in any order, or year and month, with the same mark between them. */
static bool take_numeric_date(const char **at) {
    unsigned values[3] = {0};
    size_t digits[3] = {0}, count = 1;
    char mark;

    digits[0] = take_digits(at, &values[0]);
    mark = **at;
    if (mark != '-' && mark != '/' && mark != '.')
        return false;
    for (; count < 3 && **at == mark; count++) {
        (*at)++;
        digits[count] = take_digits(at, &values[count]);
    }
    if (count == 2) /* not 3.14 or 1/2 */
        return mark != '.' && digits[0] == 4 && is_short(digits[1], values[1]) && values[1] <= 12;
    if (digits[0] == 4)
        return is_short(digits[1], values[1]) && is_short(digits[2], values[2]);
    return is_short(digits[0], values[0]) && is_short(digits[1], values[1]) && (digits[2] == 4 || digits[2] == 2);
}

/* hh:mm, hh:mm:ss with a fraction, and a zone. */
static bool take_time(const char **at) {
    unsigned value;

    if (take_digits(at, &value) > 2 || value > 24 || **at != ':')
        return false;
    for (size_t part = 0; part < 2 && **at == ':'; part++) {
        (*at)++;
        if (take_digits(at, &value) != 2 || value > 60)
            return false;
    }
    *at += strspn(*at, ".0123456789");
    *at += strspn(*at, " ZzAaPpMm");
    if (**at == '+' || **at == '-')
        *at += strspn(*at, "+-:0123456789");
    return true;
}

/* Length of an English month's name, whole or of three letters. */
static size_t month_length(const char *at) {
    static const char *const months[] = {"january", "february", "march",     "april",   "may",      "june",
                                         "july",    "august",   "september", "october", "november", "december"};
    size_t letters = 0;

    while (isalpha((unsigned char)at[letters]))
        letters++;
    for (size_t i = 0; i < 12; i++) {
        size_t same = 0;
        while (same < letters && tolower((unsigned char)at[same]) == months[i][same])
            same++;
        if (same == letters && (same == 3 || months[i][same] == '\0') && same > 0)
            return same;
    }
    return 0;
}

/* A month's name among days and years. */
static bool take_named_date(const char **at) {
    size_t months = 0, numbers = 0;
    unsigned value;

    while (**at != '\0' && months <= 1 && numbers <= 2) {
        const size_t month = month_length(*at), marks = strspn(*at, " -/.,");
        const char *before = *at;
        *at += month > 0 ? month : marks;
        months += month > 0;
        numbers += take_digits(at, &value) > 0;
        if (*at == before)
            return false;
    }
    return months == 1 && numbers >= 1 && **at == '\0';
}

/* Most cells are numbers: a date has a letter, a mark behind its first digit that numbers lack, or two points. */
static bool is_plainly_none(const char *cell) {
    size_t points = 0;

    for (const char *at = cell; *at != '\0'; at++) {
        points += *at == '.';
        if (points > 1 || *at == '/' || *at == ':' || (*at == '-' && at > cell) || isalpha((unsigned char)*at))
            return false;
    }
    return true;
}

bool icl_is_date(const char *cell) {
    const char *at = cell;

    if (is_plainly_none(cell))
        return false;
    if (take_named_date(&at))
        return true;
    at = cell;
    if (take_time(&at))
        return *at == '\0';
    at = cell;
    if (!take_numeric_date(&at))
        return false;
    if (*at == 'T' || *at == ' ') {
        at++;
        return take_time(&at) && *at == '\0';
    }
    return *at == '\0';
}
