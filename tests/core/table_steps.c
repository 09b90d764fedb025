/* Dialects of tables, and columns and rows that are left out, dropped or made of text, each reported as a step; and the
 * error for a table that cannot be read, which names an option that makes it readable, or iclab.read_table. */
#include "table_text.h"

static const char *step_of(const icl_table *table, const char *what, size_t number) {
    for (size_t i = 0; i < table->step_count; i++)
        if (strcmp(table->steps[i].what, what) == 0 && table->steps[i].number == number)
            return table->steps[i].text;
    return NULL;
}

/* Checks that a table is read with these values, and that its first step of this kind, if any, says this. */
static void check_read(tap_run *tap, const char *name, const icl_table_params *params, size_t rows, size_t columns,
                       const double *values, const char *what, size_t number, const char *says) {
    icl_table *table = NULL;
    icl_error error = {0};

    if (icl_table_read(params, &table, &error) != ICL_OK)
        tap_note("%s", error.message);
    const char *step = table && what ? step_of(table, what, number) : NULL;
    if (!tap_ok(tap, holds(table, rows, columns, values) && (!what || (step && strstr(step, says))), "%s", name)) {
        tap_note("%zu x %zu: %s", table ? table->rows : 0, table ? table->columns : 0, step ? step : "no such step");
        for (size_t i = 0; table && i < table->rows * table->columns; i++)
            tap_note("%g", table->values[i]);
    }
    icl_table_destroy(&table);
}

/* ---- Dialects ---- */

static void check_dialects(tap_run *tap) {
    static const double values[] = {1.5, 2, 3, -4.25, 1234.5, 6, 0.5, 7, 8};
    static const struct {
        const char *name, *text, *step, *says;
    } same[] = {
        {"commas", "a,b,y\n1.5,2,3\n-4.25,1234.5,6\n0.5,7,8\n", NULL, NULL},
        {"semicolons and decimal commas", "a;b;y\n1,5;2;3\n-4,25;1234,5;6\n0,5;7;8\n", "separator", "semicolons"},
        {"tabs", "a\tb\ty\n1.5\t2\t3\n-4.25\t1234.5\t6\n0.5\t7\t8\n", "separator", "tabs"},
        {"tabs and decimal commas", "a\tb\ty\n1,5\t2\t3\n-4,25\t1234,5\t6\n0,5\t7\t8\n", "decimal", "comma"},
        {"bars", "a|b|y\n1.5|2|3\n-4.25|1234.5|6\n0.5|7|8\n", "separator", "pipes"},
        {"a byte order mark and CRLF",
         "\xEF\xBB\xBF"
         "a;b;y\r\n1,5;2;3\r\n-4,25;1234,5;6\r\n0,5;7;8\r\n",
         "separator", "semicolons"},
        {"line ends within a quoted name", "a,\"b\n2\",y\n1.5,2,3\n-4.25,1234.5,6\n0.5,7,8\n", NULL, NULL},
    };

    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        const icl_table_params params = from_text(same[i].text, "y");
        check_read(tap, same[i].name, &params, 3, 3, values, same[i].step, 0, same[i].says);
    }
    icl_table_params params = from_text("a:b:y\n1.5:2:3\n-4.25:1234.5:6\n0.5:7:8\n", "y");
    check_refusal(tap, &params, "--separator comma, semicolon, tab, pipe or a character; iclab.read_table in Python");
    params.source.separator = ':';
    check_read(tap, "colons, when told so", &params, 3, 3, values, "separator", 0, "':'");
    params = from_text("1,5;2;3\n-4,25;1234,5;6\n0,5;7;8\n", "y");
    params.target = "3";
    check_read(tap, "no names, decimal commas", &params, 3, 3, values, "decimal", 0, "comma");
}

/* This reader refuses cells that only iclab.read_table tidies, wherever they stand among numbers. */
static void check_untidy(tap_run *tap) {
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"a;y\n5 %;1\n7 %;2\n",
         "data.csv:2: column 1 (a): not a plain number \"5 %\": expected digits with a decimal point "
         "(iclab.read_table in Python reads it); --exclude a"},
        {"a,b,y\n1,$5,1\n2,$7,2\n", "data.csv:2: column 2 (b): not a plain number \"$5\""},
        {"a,y\n1,2%\n2,3%\n",
         "data.csv:2: column 2 (y): not a plain number \"2%\": expected digits with a decimal point "
         "(iclab.read_table in Python reads it); --target names another column"},
        {"t,y\n2024-01-01,2\n2024-01-02,4\n", "data.csv:2: column 1 (t): not a plain number \"2024-01-01\""},
        {"t,y\n12:30,2\n12:31,4\n", "data.csv:2: column 1 (t): not a plain number \"12:30\""},
        {"a;y\n1,5;1\n1.234,5;2\n", "data.csv:3: column 1 (a): not a plain number \"1.234,5\": expected digits with a "
                                    "decimal comma (iclab.read_table"},
        {"a;y\n1,234;1\n5,678,901;2\n", "data.csv:2: column 1 (a): a comma that is a decimal mark or stands between"},
        {"a;y\n1,234;1.5\n5,678;2\n", "data.csv:2: column 1 (a): not a plain number \"1,234\""},
        {"a;y\n1.234;1,5\n5.678;2\n", "data.csv:2: column 1 (a): not a plain number \"1.234\""},
        {"a,y\n\"1,5\",2\n\"2,5\",3\n", "data.csv:2: column 1 (a): not a plain number \"1,5\""},
        {"a, b;y\n1,5 %;2\n2,5 %;3\n", "data.csv:2: column 1 (a, b): not a plain number \"1,5 %\""},
        {"u,v;y\np,q;NA\np,q;-\n", "data.csv:2: column 2 (y): a missing value \"NA\""},
        {"a,y\n3,1\n3,2\n5%,3\n", "data.csv:4: column 1 (a): not a plain number \"5%\""},
        {"a,y\nu,1\n5%,2\n", "data.csv:2: column 1 (a): text \"u\": expected a decimal number"},
        {"a,y\n1,2\n,\n3,4\n", "data.csv:3: a line of empty fields: expected values; iclab.read_table in Python"},
        {"a;y\n1;2;\n3;4;\n", "data.csv:2: a line of 3 columns: expected 2, as in line 1 (fields that hold a semicolon "
                              "stand in quotes; --separator names another; iclab.read_table in Python"},
        {"a;y;\n1;2\n3;4\n", "data.csv:2: a line of 2 columns: expected 3, as in line 1"},
        {"sep=;\na;b;y\n1;2;3\n", "data.csv:1: a line that names the separator: expected the columns' names or "
                                  "values; iclab.read_table in Python reads it"},
        {"sep=:\na:y\n1:2\n", "data.csv:1: a line that names the separator"},
    };
    icl_table_params params;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        params = from_text(cases[i].text, "y");
        check_refusal(tap, &params, cases[i].message);
    }
    params = from_text("d;x;y\n1/2/2024;5;1\n3/2/2024;6;2\n", "y");
    params.excluded = (const char *const[]){"d"};
    params.excluded_count = 1;
    check_read(tap, "a column of dates is excluded", &params, 2, 2, (double[]){5, 1, 6, 2}, "separator", 0,
               "semicolons");
    params = from_text("d,y\n1/2/2024,1\nu,2\nv,3\nu,4\n", "y");
    check_read(tap, "one date among texts is a text", &params, 4, 1, (double[]){1, 2, 3, 4}, "left-out", 1,
               "3 categories");
}

/* In some texts the separator occurs only within fields, and some separators split nothing. */
static void check_odd_separators(tap_run *tap) {
    icl_table_params params = from_text("a;y\n1;2\n3;4\n", "y");

    params.source.separator = ',';
    check_refusal(tap, &params,
                  "in a file of one column (\"a;y\"): expected what stands between fields: --separator "
                  "semicolon");
    params = from_text("u,v;5;1\nw,z;6;2\n", "3");
    params.header = ICL_HEADER_NO;
    check_read(tap, "commas within texts", &params, 2, 2, (double[]){5, 1, 6, 2}, "separator", 0, "semicolons");
    params = from_text("a y\n1  2\n3 4\n", "y");
    params.source.separator = ' ';
    check_refusal(tap, &params, "data.csv:2: a line of 3 columns: expected 2");
}

/* Other programs write first lines that are neither a row nor quite names. */
static void check_first_lines(tap_run *tap) {
    icl_table_params params = from_text("0,1,2\n4,5,6\n7,8,9\n", "2");

    check_refusal(tap, &params, "data.csv:1: the first line counts 0, 1, …: expected to be told");
    params.header = ICL_HEADER_YES;
    check_read(tap, "--header yes: pandas' names", &params, 2, 3, (double[]){4, 5, 6, 7, 8, 9}, NULL, 0, NULL);
    params = from_text(",0,1\n4,5,6\n7,8,9\n", "2");
    check_refusal(tap, &params, "data.csv:1: the first line counts 0, 1, …: expected to be told");
    params = from_text("0,1,3\n4,5,6\n", "3");
    check_read(tap, "a row that does not count", &params, 2, 3, (double[]){0, 1, 3, 4, 5, 6}, NULL, 0, NULL);
}

static void check_marks(tap_run *tap) {
    icl_table_params params = from_text("a;y\n1,234;1\n5,678;2\n", "y");

    check_refusal(
        tap, &params,
        "data.csv:2: column 1 (a): a comma that is a decimal mark or stands between thousands: expected to be "
        "told; --decimal comma, or iclab.read_table in Python where it is between thousands");
    params.decimal = ICL_DECIMAL_POINT;
    check_refusal(tap, &params, "data.csv:2: column 1 (a): not a plain number \"1,234\"");
    params.decimal = ICL_DECIMAL_COMMA;
    check_read(tap, "--decimal comma: fractions", &params, 2, 2, (double[]){1.234, 1, 5.678, 2}, "decimal", 0, "");
    params = from_text("a;y\n1,234;1,5\n5,678;2\n", "y");
    check_read(tap, "another column's comma tells", &params, 2, 2, (double[]){1.234, 1.5, 5.678, 2}, "decimal", 0, "");
    params = from_text("a,y\n\"1,5\",2\n\"2,5\",3\n", "y");
    params.decimal = ICL_DECIMAL_COMMA;
    check_read(tap, "quoted decimal commas, when told so", &params, 2, 2, (double[]){1.5, 2, 2.5, 3}, "decimal", 0, "");
    params = from_text("a;y\n1.234;1\n5.678;2\n", "y");
    check_read(tap, "points alone are decimal", &params, 2, 2, (double[]){1.234, 1, 5.678, 2}, NULL, 0, NULL);
    params = from_text("a;y\n1.234;1\n98;2\n", "y");
    check_read(tap, "also beside one of two digits", &params, 2, 2, (double[]){1.234, 1, 98, 2}, NULL, 0, NULL);
    params = from_text("a;y\n1.234;1\n987;2\n", "y");
    check_refusal(
        tap, &params,
        "data.csv:2: column 1 (a): a point that is a decimal mark or stands between thousands: expected to be "
        "told; --decimal point, or iclab.read_table in Python");
    params.decimal = ICL_DECIMAL_POINT;
    check_read(tap, "--decimal point", &params, 2, 2, (double[]){1.234, 1, 987, 2}, NULL, 0, NULL);
    params = from_text("a;y\n1.234;1\n012;2\n", "y");
    check_read(tap, "012 is not what stands beside thousands", &params, 2, 2, (double[]){1.234, 1, 12, 2}, NULL, 0,
               NULL);
    params = from_text("a;y\n3,5;1\n3,5;2\n1.5;3\n", "y");
    params.decimal = ICL_DECIMAL_COMMA;
    check_refusal(tap, &params, "data.csv:4: column 1 (a): not a plain number \"1.5\"");
    params = from_text("a;y\n1.234;1.5\n987;2\n", "y");
    check_read(tap, "another column's point tells here, too", &params, 2, 2, (double[]){1.234, 1.5, 987, 2}, NULL, 0,
               NULL);
    params = from_text("a;b;y\n1,5;1.5;1\n2;3;2\n", "y");
    check_refusal(tap, &params,
                  "data.csv:2: column 1 (a): a decimal comma, where line 2 has a decimal point in column 2");
    params = from_text("a;b;y\n1;1,5;1.5\n2,5;2;3\n", "y");
    check_refusal(tap, &params,
                  "data.csv:2: column 2 (b): a decimal comma, where line 2 has a decimal point in column 3");
    params = from_text("a;y\n1.5;1,5\n2;3\n", "y");
    check_refusal(tap, &params,
                  "data.csv:2: column 2 (y): a decimal comma, where line 2 has a decimal point in column 1: "
                  "expected one of them; --exclude a leaves");
    params = from_text("a;b;y\nu;1,5;1\nv;2,5;2\n1.5;3,5;4\n", "y");
    check_read(tap, "marks of a column of text say nothing", &params, 3, 2, (double[]){1.5, 1, 2.5, 2, 3.5, 4}, NULL, 0,
               NULL);
    params = from_text("a;y\nu;1\nv;2\nw;3\n1.234;4\n987;5\n", "y");
    check_read(tap, "nor do its thousands", &params, 5, 1, (double[]){1, 2, 3, 4, 5}, NULL, 0, NULL);
    params = from_text("a;b;y\n1,5;1.5;1\n2;3;2\n", "y");
    params.excluded = (const char *const[]){"a"};
    params.excluded_count = 1;
    check_read(tap, "without one of the columns", &params, 2, 2, (double[]){1.5, 1, 3, 2}, NULL, 0, NULL);
}

/* ---- Columns ---- */

static void check_left_out(tap_run *tap) {
    icl_table_params params = from_text("id,name,c,e,sex,x,y\n1,ann,3,,m,4,5\n2,bob,3,,f,6,7\n3,cid,3,,m,8,9\n", "y");
    const double bare[] = {4, 5, 6, 7, 8, 9};

    check_read(tap, "identifiers", &params, 3, 2, bare, "left-out", 1, "identifier");
    check_read(tap, "names", &params, 3, 2, bare, "left-out", 2, "another text in every row");
    check_read(tap, "constants", &params, 3, 2, bare, "left-out", 3, "the same number");
    check_read(tap, "empty columns", &params, 3, 2, bare, "left-out", 4, "no value");
    check_read(tap, "and text are left out", &params, 3, 2, bare, "left-out", 5, "--one-hot");
    params.one_hot = true;
    check_read(tap, "text taken apart", &params, 3, 4, (double[]){0, 1, 4, 5, 1, 0, 6, 7, 0, 1, 8, 9}, "one-hot", 5,
               "sex=f, sex=m");
    params.columns = (const char *const[]){"id", "c"};
    params.column_count = 2;
    check_read(tap, "what is asked for stays", &params, 3, 3, (double[]){1, 3, 5, 2, 3, 7, 3, 3, 9}, NULL, 0, NULL);
    params.one_hot = false;
    params.columns = (const char *const[]){"sex"};
    params.column_count = 1;
    check_refusal(tap, &params, "data.csv:2: column 5 (sex): text \"m\": expected numbers; --one-hot makes a column");
    params = from_text("x,x,,y\n1,2,3,4\n5,6,7,8\n", "y");
    check_read(tap, "names twice and none", &params, 2, 4, (double[]){1, 2, 3, 4, 5, 6, 7, 8}, "named", 2, "\"x.2\"");
    check_read(tap, "names twice and none", &params, 2, 4, (double[]){1, 2, 3, 4, 5, 6, 7, 8}, "named", 3,
               "\"column 3\"");
    params.columns = (const char *const[]){"x.2"};
    params.column_count = 1;
    check_read(tap, "by the name given", &params, 2, 2, (double[]){2, 4, 6, 8}, NULL, 0, NULL);
    params.columns = (const char *const[]){"x"};
    check_refusal(tap, &params, "2 columns are named \"x\": expected for --columns the number of one");
    params = from_text("t,x,y\n2024-01-01,1,2\n2024-01-02,3,4\n", "y");
    params.excluded_count = 1;
    params.excluded = (const char *const[]){"y"};
    check_refusal(tap, &params, "column 3 is the target and excluded");
    params.excluded = (const char *const[]){"z"};
    check_refusal(tap, &params, "expected for --exclude a name of the first line");
}

/* A column is text if more than half of its values are; otherwise a text in it is a mistake. */
static void check_halves(tap_run *tap) {
    icl_table_params params = from_text("a,x,y\n1,1,2\n2,3,4\nb,5,6\nc,7,8\n", "y");

    check_refusal(tap, &params, "data.csv:4: column 1 (a): text \"b\": expected a decimal number; --exclude a");
    params = from_text("a,x,y\n1,1,2\nd,3,4\nb,5,6\nb,7,8\n", "y");
    check_read(tap, "text by a majority", &params, 4, 2, (double[]){1, 2, 3, 4, 5, 6, 7, 8}, "left-out", 1,
               "3 categories");
}

static void check_categories(tap_run *tap) {
    enum { MOST = 64 };
    icl_table_params params;
    icl_table *table = NULL;
    icl_error error = {0};

    for (size_t levels = MOST; levels <= MOST + 1; levels++) {
        char text[4096] = "c,y\n";
        for (size_t row = 0; row < 2 * levels; row++)
            sprintf(text + strlen(text), "k%zu,%zu\n", row % levels, row);
        params = from_text(text, "y");
        params.one_hot = true;
        tap_ok(tap,
               icl_table_read(&params, &table, &error) == ICL_OK && table->columns == (levels > MOST ? 1 : MOST + 1),
               "%zu categories: %s", levels, levels > MOST ? "left out" : "columns");
        icl_table_destroy(&table);
    }
    params = from_text("c,y\nb,1\na,2\nb,3\n", "y");
    params.one_hot = true;
    tap_ok(tap,
           icl_table_read(&params, &table, &error) == ICL_OK && strcmp(table->names[0], "c=a") == 0 &&
               strcmp(table->levels[1], "b") == 0 && strcmp(table->sources[1], "c") == 0 && table->numbers[1] == 1 &&
               !table->levels[2],
           "columns know their category");
    icl_table_destroy(&table);
}

/* ---- Missing values ---- */

static void check_missing(tap_run *tap) {
    const char *text = "a,s,y\n1,u,2\nNA,v,3\n4,?,5\n6,u,\n7,v,8\n";
    const double nan = (double)NAN;
    icl_table_params params = from_text(text, "y");
    icl_table *table = NULL;
    icl_error error = {0};

    params.one_hot = true;
    check_refusal(
        tap, &params,
        "data.csv:3: column 1 (a): a missing value \"NA\": expected a number; --drop-missing leaves such rows "
        "out, --impute median fills them in");
    params.missing = ICL_MISSING_DROPPED;
    check_read(tap, "dropped", &params, 2, 4, (double[]){1, 1, 0, 2, 7, 0, 1, 8}, "dropped", 0,
               "3 rows with a missing value left out: lines 3, 4, 5");
    params.missing_targets = true;
    check_read(tap, "but for targets to predict", &params, 3, 4, (double[]){1, 1, 0, 2, 6, 1, 0, nan, 7, 0, 1, 8},
               "dropped", 0, "lines 3, 4");
    params.missing = ICL_MISSING_KEPT;
    check_read(tap, "kept", &params, 5, 4,
               (double[]){1, 1, 0, 2, nan, 0, 1, 3, 4, nan, nan, 5, 6, 1, 0, nan, 7, 0, 1, 8}, "missing", 2,
               "1 missing value");
    params.missing_targets = false;
    check_refusal(tap, &params,
                  "data.csv:5: column 3 (y): a missing value \"\": expected a number; --predict predicts");
    params = from_text(text, "y");
    params.missing = ICL_MISSING_DROPPED;
    tap_ok(tap,
           icl_table_read(&params, &table, &error) == ICL_OK && table->omission_count == 2 &&
               table->omissions[0].line == 3 && table->omissions[0].has_target && table->omissions[1].line == 5 &&
               !table->omissions[1].has_target,
           "rows left out are known; a gap in a column that is left out costs no row");
    icl_table_destroy(&table);
    params = from_text("a,b,y\n,1,1\n2,,2\n,2,3\n3,,4\n", "y");
    params.missing = ICL_MISSING_DROPPED;
    check_refusal(tap, &params, "every row has a missing value: expected rows that are whole; --impute median");
}

/* ---- Another table with the same columns ---- */

static void check_like(tap_run *tap) {
    icl_table_params params = from_text("s;x;y\nu;1,5;2\nv;2,5;3\nu;3,5;5\n", "y"), other;
    icl_table *table = NULL;
    icl_error error = {0};

    params.one_hot = true;
    tap_status(tap, icl_table_read(&params, &table, &error), &error, "data");
    other = from_text("x,s\n1.25,v\n", "y");
    other.like = table;
    other.target = NULL;
    check_read(tap, "in another order and dialect", &other, 1, 3, (double[]){0, 1, 1.25}, NULL, 0, NULL);
    other.source = from_text("x;s\n1,250;v\n", "y").source;
    check_read(tap, "a mark that can be either is the data's", &other, 1, 3, (double[]){0, 1, 1.25}, NULL, 0, NULL);
    other.source = from_text("x;s\n1.250;v\n", "y").source;
    check_refusal(tap, &other,
                  "data.csv:2: column 1 (x): not a plain number \"1.250\": expected digits with a decimal comma");
    other.source = from_text("x,s\n8%,v\n", "y").source;
    check_refusal(tap, &other, "data.csv:2: column 1 (x): not a plain number \"8%\"");
    other.source = from_text("x,s\n1.25,w\n", "y").source;
    check_refusal(tap, &other,
                  "data.csv:2: column 2 (s): a category that --data lacks, \"w\": expected a category; "
                  "--drop-missing");
    other.source = from_text("x\n1.25\n", "y").source;
    check_refusal(tap, &other, "no column \"s\"");
    icl_table_destroy(&table);
}

int main(void) {
    tap_run tap = {0};

    check_dialects(&tap);
    check_untidy(&tap);
    check_odd_separators(&tap);
    check_first_lines(&tap);
    check_marks(&tap);
    check_left_out(&tap);
    check_halves(&tap);
    check_categories(&tap);
    check_missing(&tap);
    check_like(&tap);
    return tap_done(&tap);
}
