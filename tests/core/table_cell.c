/* Cells of a table are plain numbers with either decimal mark, numbers that have to be tidied first, or missing. */
#include "core/table/sheet.h"

#include "tap.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* The values of a cell as either mark reads it; NONE if it has no such value. */
typedef struct expectation {
    const char *cell;
    double as_point, as_comma;
} expectation;

#define NONE (-12345.0)

static void check_numbers(tap_run *tap) {
    static const expectation cells[] = {
        {"12", 12, 12},         {"-1.5", -1.5, NONE},     {"1,5", NONE, 1.5},    {"1.234", 1.234, NONE},
        {"1,234", NONE, 1.234}, {"1.5e-3", 1.5e-3, NONE}, {"1,5E+2", NONE, 150}, {".5", 0.5, NONE},
        {"5.", 5, NONE},        {"5,", NONE, 5},          {"+4", 4, 4},          {"007", 7, 7},
        {"1e2", 100, 100},
    };
    double point, comma;

    for (size_t i = 0; i < COUNT(cells); i++) {
        point = comma = NONE;
        if (!icl_read_number(cells[i].cell, ICL_DECIMAL_POINT, &point))
            point = NONE;
        if (!icl_read_number(cells[i].cell, ICL_DECIMAL_COMMA, &comma))
            comma = NONE;
        tap_ok(tap, point == cells[i].as_point && comma == cells[i].as_comma, "%s: %g, %g", cells[i].cell, point,
               comma);
    }
}

static void check_untidy(tap_run *tap) {
    static const char *const numbers[] = {"1,5",
                                          "1.234,5",
                                          "1,234.5",
                                          "1,234,567",
                                          "1.234.567",
                                          "1'234.5",
                                          "1 234",
                                          "1\302\240234,5",
                                          "1\342\200\257234\342\200\257567",
                                          "\342\210\2223",
                                          "12%",
                                          "12,5 %",
                                          "$1,234.50",
                                          "-$5",
                                          "$-5",
                                          "5 \xE2\x82\xAC",
                                          "EUR 7",
                                          "- 5",
                                          ",5",
                                          "1.5e3 %"};
    static const char *const dates[] = {"2024-01-31",
                                        "31.1.2024",
                                        "1/31/24",
                                        "2024/1/5",
                                        "2024-01",
                                        "12:30",
                                        "12:30:05",
                                        "31 Jan 2024",
                                        "Jan 31, 2024",
                                        "9:05 PM",
                                        "January 2024",
                                        "2024-01-31 12:30:05",
                                        "5-may-24",
                                        "12:30:05.5",
                                        "2024-01-31T12:30:05Z",
                                        "2024-01-31T12:30:05.123+01:00"};
    static const char *const texts[] = {"",
                                        "x",
                                        "1x",
                                        "0x10",
                                        "inf",
                                        "1e",
                                        "1e+",
                                        "--5",
                                        "1-2",
                                        "1,2,3",
                                        "12,34,567",
                                        "1.2.3",
                                        "1,23.4",
                                        "1 23",
                                        "%",
                                        "5 5",
                                        ",",
                                        ".",
                                        "e5",
                                        "1''234",
                                        "1/2",
                                        "555-12-1234",
                                        "may",
                                        "mayor 3",
                                        "a-1-2",
                                        "1-2-3-4",
                                        "12:3",
                                        "125:00",
                                        "12:3000",
                                        "1,234,56",
                                        "0-17",
                                        "18-35",
                                        "<5",
                                        "Q4",
                                        "3rd",
                                        "192.168.0.1",
                                        "2024-01-31x",
                                        "12:30 to 13:30",
                                        "1234,567,890",
                                        "1 2 may 2024",
                                        "31 Jan 20245"};

    for (size_t i = 0; i < COUNT(numbers); i++)
        tap_ok(tap, icl_is_untidy(numbers[i]), "a number to tidy: %s", numbers[i]);
    for (size_t i = 0; i < COUNT(dates); i++)
        tap_ok(tap, icl_is_untidy(dates[i]), "a date: %s", dates[i]);
    for (size_t i = 0; i < COUNT(texts); i++)
        tap_ok(tap, !icl_is_untidy(texts[i]), "neither: \"%s\"", texts[i]);
}

static void check_missing(tap_run *tap) {
    static const char *const missing[] = {"", "NA", "N/A", "n/a", "NaN", "null", "NULL", "None", "?", "-", ".", "#N/A"};
    static const char *const present[] = {"0", "n", "nan1", "--- ", "nothing", "missing value"};

    for (size_t i = 0; i < COUNT(missing); i++)
        tap_ok(tap, icl_is_missing(missing[i]), "missing: \"%s\"", missing[i]);
    for (size_t i = 0; i < COUNT(present); i++)
        tap_ok(tap, !icl_is_missing(present[i]), "not missing: \"%s\"", present[i]);
}

/* Returns whether a number of `digits` digits is read, whose second character is a decimal comma. */
static bool reads_digits(size_t digits) {
    char cell[256];
    double value;

    memset(cell, '1', digits);
    cell[1] = ',';
    cell[digits] = '\0';
    return icl_read_number(cell, ICL_DECIMAL_COMMA, &value);
}

static void check_grouped(tap_run *tap) {
    static const char *const grouped[] = {"1,234", "12,345", "-999,999"};
    static const char *const plain[] = {"0,123", "1234,567", "1,23", "1,2345", "1.234", "1,234,567", ",234", "1,234e2"};

    for (size_t i = 0; i < COUNT(grouped); i++)
        tap_ok(tap, icl_is_grouped(grouped[i], ','), "perhaps thousands: %s", grouped[i]);
    for (size_t i = 0; i < COUNT(plain); i++)
        tap_ok(tap, !icl_is_grouped(plain[i], ','), "no thousands: %s", plain[i]);
    tap_ok(tap, reads_digits(127) && !reads_digits(128) && !reads_digits(200), "numbers of up to 127 characters");
}

int main(void) {
    tap_run tap = {0};

    check_numbers(&tap);
    check_untidy(&tap);
    check_missing(&tap);
    check_grouped(&tap);
    return tap_done(&tap);
}
