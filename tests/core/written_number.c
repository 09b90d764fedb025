/* Numbers as people write them, dates, and words for what is missing: what each cell is, and which mark it shows. */
#include "core/table/written_number.h"

#include "core/table/date.h"
#include "core/table/missing.h"
#include "tap.h"

/* What a cell says: NAN for a reading that it does not have. */
typedef struct expectation {
    const char *cell;
    icl_marks marks;
    double as_point, as_comma;
    const char *unit;
} expectation;

#define NONE (-12345.0)

static void check_numbers(tap_run *tap) {
    static const expectation cells[] = {
        {"12", ICL_MARKS_NONE, 12, 12, ""},
        {"-1.5", ICL_MARKS_POINT, -1.5, NONE, ""},
        {"1,5", ICL_MARKS_COMMA, NONE, 1.5, ""},
        {"1.234", ICL_MARKS_EITHER_POINT, 1.234, 1234, ""},
        {"1,234", ICL_MARKS_EITHER_COMMA, 1234, 1.234, ""},
        {"999.999", ICL_MARKS_EITHER_POINT, 999.999, 999999, ""},
        {"1234.567", ICL_MARKS_POINT, 1234.567, NONE, ""},
        {"0.123", ICL_MARKS_POINT, 0.123, NONE, ""},
        {"0,123", ICL_MARKS_COMMA, NONE, 0.123, ""},
        {"1.2345", ICL_MARKS_POINT, 1.2345, NONE, ""},
        {"1,234,567", ICL_MARKS_POINT, 1234567, NONE, ""},
        {"1.234.567", ICL_MARKS_COMMA, NONE, 1234567, ""},
        {"1,234.5", ICL_MARKS_POINT, 1234.5, NONE, ""},
        {"-1.234,5", ICL_MARKS_COMMA, NONE, -1234.5, ""},
        {"1'234.5", ICL_MARKS_POINT, 1234.5, NONE, ""},
        {"1 234", ICL_MARKS_NONE, 1234, 1234, ""},
        {"1\xC2\xA0"
         "234,5",
         ICL_MARKS_COMMA, NONE, 1234.5, ""},
        {"1\xE2\x80\xAF"
         "234\xE2\x80\xAF"
         "567",
         ICL_MARKS_NONE, 1234567, 1234567, ""},
        {"1'234,567", ICL_MARKS_COMMA, NONE, 1234.567, ""},
        {"1.5e-3", ICL_MARKS_POINT, 1.5e-3, NONE, ""},
        {"1.234e2", ICL_MARKS_POINT, 123.4, NONE, ""},
        {"1,5E+2", ICL_MARKS_COMMA, NONE, 150, ""},
        {".5", ICL_MARKS_POINT, 0.5, NONE, ""},
        {"5.", ICL_MARKS_POINT, 5, NONE, ""},
        {"\xE2\x88\x92"
         "3",
         ICL_MARKS_NONE, -3, -3, ""},
        {"+4", ICL_MARKS_NONE, 4, 4, ""},
        {"12%", ICL_MARKS_NONE, 12, 12, "%"},
        {"12,5 %", ICL_MARKS_COMMA, NONE, 12.5, "%"},
        {"$1,234.50", ICL_MARKS_POINT, 1234.5, NONE, "$"},
        {"-$5", ICL_MARKS_NONE, -5, -5, "$"},
        {"$-5", ICL_MARKS_NONE, -5, -5, "$"},
        {"5 \xE2\x82\xAC", ICL_MARKS_NONE, 5, 5, "\xE2\x82\xAC"},
        {"EUR 7", ICL_MARKS_NONE, 7, 7, "EUR"},
    };

    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
        icl_written_number number = {.unit = NULL};
        double point = NONE, comma = NONE;
        bool grouped;
        const bool is_number = icl_read_written_number(cells[i].cell, &number);
        if (is_number && !icl_written_number_value(&number, ICL_DECIMAL_POINT, &point, &grouped))
            point = NONE;
        if (is_number && !icl_written_number_value(&number, ICL_DECIMAL_COMMA, &comma, &grouped))
            comma = NONE;
        if (!tap_ok(tap,
                    is_number && number.marks == cells[i].marks && point == cells[i].as_point &&
                        comma == cells[i].as_comma && strcmp(number.unit, cells[i].unit) == 0,
                    "%s", cells[i].cell))
            tap_note("%d: marks %d, %.17g, %.17g, unit %s", is_number, (int)number.marks, point, comma,
                     is_number ? number.unit : "");
    }
}

static void check_others(tap_run *tap) {
    static const char *const texts[] = {"",    "x",     "1x",        "0x10",  "inf",    "1e",        "1e+",  "--5",
                                        "1-2", "1,2,3", "12,34,567", "1.2.3", "1,23.4", "1.234,5.6", "1 23", "%",
                                        "$5$", "5 5",   "1''234",    "1,",    ",",      ".",         "e5",   "$5%"};
    static const char *const dates[] = {"2024-01-31",
                                        "31.1.2024",
                                        "1/31/24",
                                        "2024/1/5",
                                        "2024-01",
                                        "12:30",
                                        "12:30:05",
                                        "31 Jan 2024",
                                        "Jan 31, 2024",
                                        "2024-01-31 12:30:05",
                                        "January 2024",
                                        "5-may-24",
                                        "2024-01-31T12:30:05Z",
                                        "2024-01-31T12:30:05.123+01:00",
                                        "9:05 PM"};
    static const char *const no_dates[] = {"2024",      "20240131", "3.14",    "1/2",       "555-12-1234",
                                           "1.234.567", "may",      "2024-13", "32.1.2024", "mayor 3",
                                           "a-1-2",     "1-2-3-4",  "12:3",    "25:00"};
    static const char *const missing[] = {"", "NA", "N/A", "n/a", "NaN", "null", "NULL", "None", "?", "-", ".", "#N/A"};
    static const char *const present[] = {"0", "n", "nan1", "--- ", "nothing", "missing value"};
    icl_written_number number;

    /* "1," is 1 with a decimal comma, as "1." is with a point. */
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        tap_ok(tap, icl_read_written_number(texts[i], &number) == (strcmp(texts[i], "1,") == 0), "\"%s\"", texts[i]);
    for (size_t i = 0; i < sizeof dates / sizeof *dates; i++)
        tap_ok(tap, icl_is_date(dates[i]), "a date: %s", dates[i]);
    for (size_t i = 0; i < sizeof no_dates / sizeof *no_dates; i++)
        tap_ok(tap, !icl_is_date(no_dates[i]), "no date: %s", no_dates[i]);
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
        tap_ok(tap, icl_is_missing(missing[i]), "missing: \"%s\"", missing[i]);
    for (size_t i = 0; i < sizeof present / sizeof *present; i++)
        tap_ok(tap, !icl_is_missing(present[i]), "not missing: \"%s\"", present[i]);
}

/* Numbers too long for the room are no numbers; of exactly that size they are. */
static void check_lengths(tap_run *tap) {
    char cell[2 * ICL_WRITTEN_CAPACITY];
    icl_written_number number;
    size_t longest = 0;

    for (size_t length = 1; length < sizeof cell; length++) {
        memset(cell, '1', length);
        cell[length] = '\0';
        if (icl_read_written_number(cell, &number))
            longest = length;
    }
    tap_ok(tap, longest > 100 && longest < ICL_WRITTEN_CAPACITY, "numbers of up to %zu digits", longest);
    memset(cell, '1', 120);
    strcpy(cell + 120, "e11111111111111");
    tap_ok(tap, !icl_read_written_number(cell, &number), "an exponent that does not fit");
}

int main(void) {
    tap_run tap = {0};

    check_numbers(&tap);
    check_others(&tap);
    check_lengths(&tap);
    return tap_done(&tap);
}
