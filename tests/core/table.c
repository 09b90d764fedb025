/* Tables read from CSV text: values and lines are compared with those written; also limits, and the message of every
 * refusal. */

#include "core/allocate.h"
#include "core/print.h"
#include "core/table/sheet.h"
#include "scratch.h"
#include "table_text.h"

/* Checks that the text is read as these values. */
static void check_values(tap_run *tap, const char *name, const icl_table_params *params, size_t rows, size_t columns,
                         const double *values) {
    icl_table *table = NULL;
    icl_error error = {0};

    if (icl_table_read(params, &table, &error) != ICL_OK)
        tap_note("%s", error.message);
    tap_ok(tap, holds(table, rows, columns, values), "%s", name);
    icl_table_destroy(&table);
}

static void check_good(tap_run *tap) {
    static const double values[] = {1, 2, 3, 4.5, -5e-3, 6};
    static const double two[] = {1, 2, 3, 4};
    static const struct {
        const char *name, *text;
    } same[] = {
        {"plain", "a,b,y\n1,2,3\n4.5,-5e-3,6\n"},
        {"no newline at the end", "a,b,y\n1,2,3\n4.5,-5e-3,6"},
        {"CRLF", "a,b,y\r\n1,2,3\r\n4.5,-5e-3,6\r\n"},
        {"CR alone", "a,b,y\r1,2,3\r4.5,-5e-3,6\r"},
        {"a byte order mark", "\xEF\xBB\xBF"
                              "a,b,y\n1,2,3\n4.5,-5e-3,6\n"},
        {"quoted numbers and names", "\"a\",\"b\",\"y\"\n\"1\",\"2\",\"3\"\n\"4.5\",\"-5e-3\",6\n"},
        {"blanks about fields and quotes", " a ,\tb, \"y\" \n 1,2\t, 3\n4.5 , \"-5e-3\" ,6\n"},
        {"blank lines", "\n  \na,b,y\n\n1,2,3\n\r\n4.5,-5e-3,6\n\n\n"},
        {"a target that is not last", "y,a,b\n3,1,2\n6,4.5,-5e-3\n"},
        {"separators and line ends within quotes", "\"a,\n\"\"x\"\"\",b,y\n1,2,3\n4.5,-5e-3,6\n"},
    };

    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        const icl_table_params params = from_text(same[i].text, "y");
        check_values(tap, same[i].name, &params, 2, 3, values);
    }
    icl_table_params params = from_text("1,2\n3,4\n", "2");
    check_values(tap, "numbers alone have no header", &params, 2, 2, two);
    params = from_text("5,6\n1,2\n3,4\n", "6");
    params.header = ICL_HEADER_YES;
    check_values(tap, "a header of numbers, asked for", &params, 2, 2, two);
    params = from_text("a;b\n1;2\n3;4\n", "b");
    params.source.separator = ';';
    check_values(tap, "semicolons", &params, 2, 2, two);
    params = from_text("a\tb\n1\t2\n 3 \t4\n", "b");
    params.source.separator = '\t';
    check_values(tap, "tabs", &params, 2, 2, two);
    params = from_text("a,b\n1,2\n,3\n", "a");
    params.columns = (const char *const[]){"2"};
    params.column_count = 1;
    params.missing_targets = true;
    check_values(tap, "a missing target, where it may be", &params, 2, 2, (double[]){2, 1, 3, (double)NAN});
}

static void check_columns(tap_run *tap) {
    static const char *const chosen[] = {"c", "1"};
    icl_table_params params = from_text("a,text,c,y\n1,x,3,4\n5,\"a\ntext\r\nof\rfour\",7,8\n9,z,11,12\n", "y");
    icl_table *table = NULL;
    icl_error error = {0};

    params.columns = chosen;
    params.column_count = 2;
    tap_status(tap, icl_table_read(&params, &table, &error), &error, "columns by name and by number");
    tap_ok(tap, holds(table, 3, 3, (double[]){3, 1, 4, 7, 5, 8, 11, 9, 12}), "in the order asked for");
    tap_ok(tap,
           table && table->has_header && strcmp(table->names[0], "c") == 0 && strcmp(table->names[1], "a") == 0 &&
               strcmp(table->names[2], "y") == 0,
           "with their names");
    tap_ok(tap, table && table->numbers[0] == 3 && table->numbers[1] == 1 && table->numbers[2] == 4, "and numbers");
    tap_ok(tap, table && table->lines[0] == 2 && table->lines[1] == 3 && table->lines[2] == 7,
           "rows know their lines, also behind a field of four, whose ends are LF, CRLF and CR");
    icl_table_destroy(&table);
}

/* ---- Refusals ---- */

static void check_messages(tap_run *tap) {
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "data.csv:1: empty"},
        {"\n\r\n \n", "data.csv:1: empty"},
        {"a,y\n", "data.csv:1: a header and no rows"},
        {"a,y\n1,2\n1,2,3\n", "data.csv:3: a line of 3 columns: expected 2, as in line 1"},
        {"a,y\n1,2\n1\n", "data.csv:3: a line of 1 column: expected 2, as in line 1"},
        {"a,y\n1,2\n,2\n", "data.csv:3: column 1 (a): a missing value \"\""},
        {"a,y\n1,NaN\n", "data.csv:2: column 2 (y): a missing value \"NaN\""},
        {"a,y\n1,n/A\n", "data.csv:2: column 2 (y): a missing value \"n/A\""},
        {"a,y\n1,heavy\n", "data.csv:2: column 2 (y): the target is text (\"heavy\"): expected a column of numbers for "
                           "--target"},
        {"a,y\n1,2024-01-31\n", "data.csv:2: column 2 (y): not a plain number \"2024-01-31\""},
        {"a,y\n1,2\n2,3\n3,0x10\n",
         "data.csv:4: column 2 (y): text \"0x10\": expected a decimal number; --target names"},
        {"a,y\n1,2\n2,3\ninf,3\n", "data.csv:4: column 1 (a): text \"inf\": expected a decimal number; --exclude a "
                                   "leaves the column out"},
        {"a,y\n1,1e999\n", "data.csv:2: column 2 (y): the target is text (\"1e999\")"},
        {"a,y\n1,-1e101\n", "data.csv:2: column 2 (y): too large a number"},
        {"a,y\n1,\"2\n", "data.csv:2: column 2: a quote that is never closed"},
        {"a,y\n1,\"2\"3\n", "data.csv:2: column 2: text behind a closing quote"},
        {"a,y\n1,2\"\n", "data.csv:2: column 2: a quote within a field"},
        {"a,y,y\n1,2,3\n",
         "2 columns are named \"y\": expected for --target the number of one, from 1 to 3: the first is 2"},
        {"Year,b\n1,2\n", "data.csv:1: no column \"y\" (nearest: \"b\")"},
        {"1,2\n3,4\n", "expected for --target a number from 1 to 2, because the first line has no names"},
        {"a:y\n1:2\n3:4\n",
         "no column \"y\" in a file of one column (\"a:y\"): expected what stands between fields: --separator comma"},
        {"a\n1\n",
         "no column \"y\" in a file of one column (\"a\"): expected what stands between fields: --separator comma"},
        {"a,2,y\n1,2,3\n", "data.csv:1: text in column 1 and a number in column 2"},
        {"\xFF\xFE", "data.csv:1: not UTF-8"},
    };
    icl_table_params params;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        params = from_text(cases[i].text, "y");
        check_refusal(tap, &params, cases[i].message);
    }
    params = from_text("a,y\n1,2\n", "y");
    params.source.size = 5; /* the next byte is not NUL: a table cut in its second line */
    check_refusal(tap, &params, "data.csv:2: a line of 1 column:");
    params.source.text = "a,y\n1,\0002\n";
    params.source.size = 9;
    check_refusal(tap, &params, "data.csv:2: a NUL byte");
    params = from_text("a,y\n1,2\n", "y");
    params.columns = (const char *const[]){"a", "1"};
    params.column_count = 2;
    check_refusal(tap, &params, "column 1 is chosen twice");
    params.columns = (const char *const[]){"y"};
    params.column_count = 1;
    check_refusal(tap, &params, "column 2 is chosen twice");
    params = from_text("a,y\n1,2\n", "0");
    check_refusal(tap, &params, "no column \"0\"");
    params.source.path = "-"; /* only the name of a text here, so that standard input is not read */
    check_refusal(tap, &params, "-:1: no column \"0\"");
}

/* ---- Limits ---- */

/* Returns "x,x,…,y" with so many columns, then a row of ones. */
static char *wide_text(size_t columns) {
    char *text = malloc(4 * columns + 2), *at = text;

    for (size_t i = 0; i < columns; i++)
        at += sprintf(at, "%s", i + 1 < columns ? "x," : "y\n");
    for (size_t i = 0; i < columns; i++)
        at += sprintf(at, "%s", i + 1 < columns ? "1," : "1\n");
    return text;
}

static void check_limits(tap_run *tap) {
    const size_t sizes[] = {ICL_CSV_MAX_COLUMNS, ICL_CSV_MAX_COLUMNS + 1, 100000};
    const size_t longest = ICL_CSV_MAX_RECORD;
    char *text, *quoted = malloc(longest + 32);
    icl_table_params params;

    for (size_t i = 0; i < 3; i++) {
        text = wide_text(sizes[i]);
        params = from_text(text, "y");
        params.columns = (const char *const[]){"1"};
        params.column_count = 1;
        if (i == 0)
            check_values(tap, "the widest table", &params, 1, 2, (double[]){1, 1});
        else
            check_refusal(tap, &params, "data.csv:1: more than 10000 columns");
        free(text);
    }
    /* A name of as many bytes as fit: quotes, separator and "y" take the rest. */
    memset(quoted, 'a', longest + 31);
    quoted[longest + 31] = '\0';
    quoted[0] = quoted[longest - 3] = '"';
    memcpy(quoted + longest - 2, ",y\n1,2\n", 8);
    params = from_text(quoted, "y");
    check_values(tap, "the longest record", &params, 1, 2, (double[]){1, 2});
    quoted[longest - 3] = 'a';
    quoted[longest - 2] = '"';
    memcpy(quoted + longest - 1, ",y\n1,2\n", 8);
    params = from_text(quoted, "y");
    check_refusal(tap, &params, "data.csv:1: a record that goes on for more than 1048576 bytes");
    memset(quoted, 'a', longest + 31);
    params.source.size = longest + 31;
    quoted[0] = '"';
    check_refusal(tap, &params, "expected shorter lines, or a closing quote");
    memset(quoted, ' ', longest + 31);
    check_refusal(tap, &params, "data.csv:1: a record that goes on");
    free(quoted);
}

/* ---- Files and pipes ---- */

static void check_files(tap_run *tap) {
    enum { ROWS = 20000 }; /* more than a block, so that fields cross its edge */
    scratch_folder scratch;
    icl_table_params params = {.target = "y"};
    icl_table *table = NULL;
    icl_error error = {0};
    FILE *file;
    bool equal;

    scratch_open(&scratch);
    params.source.path = scratch_path(&scratch, "table.csv");
    file = fopen(params.source.path, "wb");
    if (!file)
        exit(1);
    fprintf(file, "a,y\n");
    for (int i = 0; i < ROWS; i++)
        fprintf(file, "%d,%d.5\n", i, 2 * i);
    fclose(file);
    tap_status(tap, icl_table_read(&params, &table, &error), &error, "a file of several blocks");
    equal = table && table->rows == ROWS;
    for (size_t i = 0; equal && i < table->rows; i++)
        equal = table->values[2 * i] == (double)i && table->values[2 * i + 1] == 2 * (double)i + 0.5 &&
                table->lines[i] == i + 2;
    tap_ok(tap, equal, "every row of it");
    icl_table_destroy(&table);
    (void)remove(params.source.path);
    tap_ok(tap, icl_table_read(&params, &table, &error) == ICL_ERROR_INPUT && strstr(error.message, "no such file"),
           "no file: %s", error.message);
    params.source.path = scratch.folder;
    tap_ok(tap, icl_table_read(&params, &table, &error) == ICL_ERROR_IO && strstr(error.message, scratch.folder),
           "a folder: %s", error.message);
    scratch_close(&scratch);
}

static void check_split(tap_run *tap) {
    char **items = NULL;
    size_t count = 0;
    icl_error error = {0};

    tap_status(tap, icl_csv_split("a, 2 ,\"b,c\"", "--columns", &items, &count, &error), &error, "a list");
    tap_ok(tap, count == 3 && strcmp(items[0], "a") == 0 && strcmp(items[1], "2") == 0 && strcmp(items[2], "b,c") == 0,
           "its items, one with a comma");
    icl_free(&items);
    tap_ok(tap, icl_csv_split("", "--columns", &items, &count, &error) == ICL_ERROR_INPUT && !items,
           "an empty list: %s", error.message);
}

static void check_printable(tap_run *tap) {
    char text[8];

    tap_ok(tap, strcmp(icl_printable("a\n\x1b\x7f", text, 8), "a   ") == 0, "control characters");
    tap_ok(tap, strcmp(icl_printable("\xC3\xA9\xE2\x82\xAC", text, 8), "\xC3\xA9\xE2\x82\xAC") == 0, "UTF-8 stays");
    tap_ok(tap, strcmp(icl_printable("\xC0\x80\xFF\xED\xA0", text, 8), "?????") == 0, "what is not UTF-8");
    tap_ok(tap, strcmp(icl_printable("1234567", text, 8), "1234567") == 0, "what fits");
    tap_ok(tap, strcmp(icl_printable("12345678", text, 8), "1234...") == 0, "what does not");
    tap_ok(tap, strcmp(icl_printable("123\xE2\x82\xAC_", text, 7), "123...") == 0, "no half of a character");
}

static void check_labels(tap_run *tap) {
    char none[] = "", number[] = "column 1", name[] = "x 1", text[ICL_LABEL_CAPACITY];
    char *header[] = {none, name}, *names[] = {number, name};
    icl_sheet sheet = {.has_header = true, .header = header, .names = names, .file_columns = 2};

    tap_ok(tap, strcmp(icl_column_label(&sheet, 1, text), "column 2 (x 1)") == 0, "a column of a name: %s", text);
    tap_ok(tap, strcmp(icl_column_label(&sheet, 0, text), "column 1") == 0, "one without: %s", text);
    sheet.has_header = false;
    tap_ok(tap, strcmp(icl_column_label(&sheet, 1, text), "column 2") == 0, "one of a file without names: %s", text);
}

int main(void) {
    tap_run tap = {0};

    check_good(&tap);
    check_columns(&tap);
    check_messages(&tap);
    check_limits(&tap);
    check_files(&tap);
    check_split(&tap);
    check_printable(&tap);
    check_labels(&tap);
    return tap_done(&tap);
}
