/* Tests results as CSV: each kind of member, members that some rows lack, and positions; and the date. */
#include "iclab/result.h"

#include <string.h>
#include <time.h>

#include "../core/scratch.h"
#include "iclab/file.h"
#include "iclab/host.h"
#include "tap.h"

/* The first row decides which members are tables. */
static const char *const rows[] = {
    ("{\"name\":\"a\",\"count\":3,\"value\":0.1,\"is\":true,\"positions\":[{\"position\":1,\"loss\":2.5},"
     "{\"position\":2}]}"),
    "{\"name\":\"b, \\\"c\\\"\\nd\",\"value\":null,\"is\":false,\"more, \\\"m\\\"\":1e-300}",
    "{\"name\":\"\",\"count\":4294967295,\"positions\":[{\"position\":3,\"loss\":-1}]}",
};

static const char csv[] = "name,count,value,is,\"more, \"\"m\"\"\"\n"
                          "\"a\",3,0.1,true,\n"
                          "\"b, \"\"c\"\"\nd\",,,false,1e-300\n"
                          "\"\",4294967295,,,\n";

static const char positions[] = "name,position,loss\n"
                                "\"a\",1,2.5\n"
                                "\"a\",2,\n"
                                "\"\",3,-1\n";

static bool holds(scratch_folder *scratch, const char *name, const char *expected) {
    char *text = NULL;
    size_t size;
    const bool same =
        icl_file_read(scratch_path(scratch, name), 0, &text, &size, NULL) == ICL_OK && strcmp(text, expected) == 0;

    if (!same)
        tap_note("%s: %s", name, text ? text : "cannot be read");
    icl_free(&text);
    return same;
}

static void test_csv(tap_run *tap, scratch_folder *scratch) {
    icl_result *result = NULL;
    icl_error error = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_result_create(&result, &error));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ICL_TRY(icl_result_add(result, ICL_RESULT_ROWS, rows[i], &error));
    ICL_TRY(icl_result_add(result, "others", "{\"x\":1}", &error));
    ICL_TRY(icl_result_write(result, scratch->folder, &(icl_result_facts){.command = "test"}, NULL, &error));
done:
    tap_status(tap, status, &error, "a result");
    tap_ok(tap, holds(scratch, ICL_RESULT_CSV, csv), "its rows as CSV");
    tap_ok(tap, holds(scratch, "positions.csv", positions), "its positions");
    tap_ok(tap, scratch_count(scratch) == 3, "and no file of the other table, which result.json has: %d",
           scratch_count(scratch));
    icl_result_destroy(&result);
}

/* Writes the date in UTC, in the form of result.json. */
static void write_date(char date[32]) {
    const time_t now = time(NULL);
    struct tm utc;

    if (!gmtime_r(&now, &utc) || strftime(date, 32, "%Y-%m-%dT%H:%M:%SZ", &utc) == 0)
        date[0] = '\0';
}

/* Far from Greenwich, the date lies between those written before and after it, and the order of the texts is that of
 * the times. */
static void test_date(tap_run *tap, scratch_folder *scratch) {
    icl_result *result = NULL;
    icl_error error = {0};
    char before[32] = "", after[32] = "", date[32] = "", *text = NULL;
    size_t size;
    icl_status status = ICL_OK;

    setenv("TZ", "FAR-9:30", 1);
    tzset();
    write_date(before);
    ICL_TRY(icl_result_create(&result, &error));
    ICL_TRY(icl_result_write(result, scratch->folder, &(icl_result_facts){.command = "test"}, NULL, &error));
    write_date(after);
    ICL_TRY(icl_file_read(scratch_path(scratch, ICL_RESULT_FILE), 0, &text, &size, &error));
    const char *found = strstr(text, "\"date\":");
    if (!found || sscanf(found, "\"date\": \"%31[^\"]", date) != 1)
        date[0] = '\0';
done:
    tap_status(tap, status, &error, "a result far from Greenwich");
    tap_ok(tap, strcmp(before, date) <= 0 && strcmp(date, after) <= 0, "its date is UTC: %s", date);
    icl_free(&text);
    icl_result_destroy(&result);
}

static void test_refusals(tap_run *tap) {
    icl_result *result = NULL;
    icl_error error = {0};
    char name[8];
    size_t tables = 1; /* the rows */

    if (!tap_status(tap, icl_result_create(&result, &error), &error, "a result"))
        return;
    tap_ok(tap, icl_result_add(result, ICL_RESULT_ROWS, "[1]", &error) == ICL_ERROR_INPUT, "no object: %s",
           error.message);
    tap_ok(tap, icl_result_add(result, ICL_RESULT_ROWS, "{\"a\":", &error) == ICL_ERROR_INPUT, "no JSON: %s",
           error.message);
    do
        snprintf(name, sizeof name, "t%zu", tables);
    while (icl_result_add(result, name, "{}", &error) == ICL_OK && tables++ < 2 * ICL_RESULT_TABLES);
    tap_ok(tap, tables == ICL_RESULT_TABLES && strstr(error.message, "expected at most 8 tables"), "%zu tables: %s",
           tables, error.message);
    icl_result_destroy(&result);
}

int main(void) {
    tap_run tap = {0};
    scratch_folder scratch;

    scratch_open(&scratch);
    test_csv(&tap, &scratch);
    test_date(&tap, &scratch);
    test_refusals(&tap);
    scratch_close(&scratch);
    return tap_done(&tap);
}
