/* Numbers as text: which are read and which refused, and that printed numbers read back. */
#include "iclab/number.h"

#include <locale.h>
#include <math.h>

#include "tap.h"

static bool parses(const char *text, double expected) {
    double value = -12345;
    return icl_parse_number(text, strlen(text), &value) && value == expected;
}

static bool refused(const char *text) {
    double value;
    return !icl_parse_number(text, strlen(text), &value);
}

static void check_reading(tap_run *tap) {
    static const char *const bad[] = {"",  " 1",  "1 ",  "0x10", "inf",   "nan", "1e",    "e5",    ".",
                                      "+", "1,5", "1e+", "--1",  "1e400", "1_0", "1.2.3", "0x1p3", "1d3"};

    tap_ok(tap,
           parses("0", 0) && parses("-3.25", -3.25) && parses("+1e3", 1000) && parses(".5", 0.5) && parses("5.", 5) &&
               parses("1E-2", 0.01),
           "decimal numbers");
    tap_ok(tap,
           parses("0.1", 0.1) && parses("9007199254740993", 9007199254740992.0) &&
               parses("2.2250738585072014e-308", 2.2250738585072014e-308),
           "correctly rounded");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        tap_ok(tap, refused(bad[i]), "refuses \"%s\"", bad[i]);
    double value;
    tap_ok(tap, icl_parse_number("12,34", 2, &value) && value == 12, "reads no further than it is told");
}

static void check_counts(tap_run *tap) {
    static const char *const bad[] = {
        "", "-3", "+3", "1e3", "1.0", " 1", "18446744073709551616", "99999999999999999999"};
    uint64_t count;

    tap_ok(tap, icl_parse_count("0", 1, &count) && count == 0, "0");
    tap_ok(tap, icl_parse_count("18446744073709551615", 20, &count) && count == UINT64_MAX, "2^64 - 1");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        tap_ok(tap, !icl_parse_count(bad[i], strlen(bad[i]), &count), "refuses \"%s\" as a count", bad[i]);
}

static uint64_t bits_of(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Prints numbers of every magnitude, from a multiplicative congruential sequence: their text must read back the
 * same. */
static void check_round_trip(tap_run *tap) {
    uint64_t state = 88172645463325252u;
    int doubles = 0, floats = 0;
    size_t longest = 0;

    for (int i = 0; i < 20000; i++) {
        char text[ICL_NUMBER_CAPACITY];
        double value, back;
        float narrow;
        uint32_t bits;
        state = state * 6364136223846793005u + 1442695040888963407u;
        memcpy(&value, &state, sizeof value);
        if (isfinite(value)) {
            icl_format_number(value, text);
            longest = strlen(text) > longest ? strlen(text) : longest;
            doubles += !(icl_parse_number(text, strlen(text), &back) && bits_of(back) == bits_of(value));
        }
        bits = (uint32_t)(state >> 32);
        memcpy(&narrow, &bits, sizeof narrow);
        if (isfinite(narrow)) {
            icl_format_float(narrow, text);
            floats += !(icl_parse_number(text, strlen(text), &back) && (float)back == narrow);
        }
    }
    tap_ok(tap, doubles == 0, "20000 doubles read back bit for bit (%d did not)", doubles);
    tap_ok(tap, floats == 0, "20000 floats read back (%d did not)", floats);
    tap_ok(tap, longest < ICL_NUMBER_CAPACITY, "the longest text has %zu bytes", longest);
}

static void check_printing(tap_run *tap) {
    char text[ICL_NUMBER_CAPACITY];

    tap_ok(tap, strcmp(icl_format_number(0.1, text), "0.1") == 0, "0.1 is 0.1");
    tap_ok(tap, strcmp(icl_format_float(0.1f, text), "0.1") == 0, "0.1f is 0.1");
    tap_ok(tap, strcmp(icl_format_number(100000, text), "100000") == 0, "whole numbers have all their digits");
    tap_ok(tap, strcmp(icl_format_number(1e300, text), "1e+300") == 0, "1e+300");
    tap_ok(tap, strcmp(icl_format_number((double)NAN, text), "nan") == 0, "nan");
    tap_ok(tap, strcmp(icl_format_number(-(double)INFINITY, text), "-inf") == 0, "-inf");
}

static void check_locale(tap_run *tap) {
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE", "nl_NL.UTF-8"};
    char text[ICL_NUMBER_CAPACITY];
    size_t i = 0;

    while (i < sizeof names / sizeof *names && !setlocale(LC_NUMERIC, names[i]))
        i++;
    if (i == sizeof names / sizeof *names) {
        /* Not a skip: the other checks here ran, and most machines have no such locale. */
        tap_note("no locale with a decimal comma on this machine");
        return;
    }
    tap_ok(tap, parses("2.5", 2.5) && strcmp(icl_format_number(2.5, text), "2.5") == 0,
           "a decimal point in a locale with a comma");
    setlocale(LC_NUMERIC, "C");
}

int main(void) {
    tap_run tap = {0};
    check_reading(&tap);
    check_counts(&tap);
    check_printing(&tap);
    check_round_trip(&tap);
    check_locale(&tap);
    return tap_done(&tap);
}
