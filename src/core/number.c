#include "iclab/number.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Longer tokens are not numbers that a person or this program wrote. */
#define MAX_TOKEN 127

/* Whole numbers below this are printed with all their digits: 100000 rather than 1e+05. */
#define LARGEST_WHOLE 1e9

static const char *skip_digits(const char *at, const char *end) {
    while (at < end && *at >= '0' && *at <= '9')
        at++;
    return at;
}

/* [sign] digits [. digits] [e [sign] digits], with a digit before or after the point. */
static bool is_decimal(const char *at, const char *end) {
    const char *digits;
    bool any;

    if (at < end && (*at == '+' || *at == '-'))
        at++;
    digits = at;
    at = skip_digits(at, end);
    any = at > digits;
    if (at < end && *at == '.') {
        digits = ++at;
        at = skip_digits(at, end);
        any = any || at > digits;
    }
    if (any && at < end && (*at == 'e' || *at == 'E')) {
        at++;
        if (at < end && (*at == '+' || *at == '-'))
            at++;
        digits = at;
        at = skip_digits(at, end);
        any = at > digits;
    }
    return any && at == end;
}

/* strtod and printf use the locale's decimal point, which a program that links the library may have changed. */
static void replace_point(char *text, char from, char to) {
    char *point = strchr(text, from);
    if (point)
        *point = to;
}

static char locale_point(void) {
    return localeconv()->decimal_point[0];
}

bool icl_parse_number(const char *text, size_t length, double *value) {
    char token[MAX_TOKEN + 1];

    if (length == 0 || length > MAX_TOKEN || !is_decimal(text, text + length))
        return false;
    memcpy(token, text, length);
    token[length] = '\0';
    replace_point(token, '.', locale_point());
    *value = strtod(token, NULL);
    return isfinite(*value) != 0;
}

bool icl_parse_count(const char *text, size_t length, uint64_t *value) {
    uint64_t total = 0;

    if (length == 0 || skip_digits(text, text + length) != text + length)
        return false;
    for (size_t i = 0; i < length; i++) {
        const uint64_t digit = (uint64_t)(text[i] - '0');
        if (total > (UINT64_MAX - digit) / 10)
            return false;
        total = total * 10 + digit;
    }
    *value = total;
    return true;
}

const char *icl_format_number(double value, char text[ICL_NUMBER_CAPACITY]) {
    if (!isfinite(value)) {
        strcpy(text, isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
        return text;
    }
    if (value == floor(value) && fabs(value) < LARGEST_WHOLE) {
        snprintf(text, ICL_NUMBER_CAPACITY, "%.0f", value);
        return text;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, ICL_NUMBER_CAPACITY, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    replace_point(text, locale_point(), '.');
    return text;
}

const char *icl_format_float(float value, char text[ICL_NUMBER_CAPACITY]) {
    if (!isfinite(value))
        return icl_format_number((double)value, text);
    if (value == floorf(value) && fabsf(value) < (float)LARGEST_WHOLE)
        return icl_format_number((double)value, text);
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, ICL_NUMBER_CAPACITY, "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value)
            break;
    }
    replace_point(text, locale_point(), '.');
    return text;
}

const char *icl_format_value(double value, char text[ICL_NUMBER_CAPACITY]) {
    return (double)(float)value == value ? icl_format_float((float)value, text) : icl_format_number(value, text);
}
