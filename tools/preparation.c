/* Tables that predictions are made from: what was done to them, and rows written as theirs are. */
#include "preparation.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "iclab/file.h"
#include "iclab/number.h"

/* ---- Steps: what was done to the tables before anything was learned from them ---- */

/* Lists the data, then the rows to predict if they are another table. */
static size_t list_tables(const prepared_tables *prepared, const icl_table *tables[2]) {
    tables[0] = prepared->table;
    tables[1] = prepared->fresh;
    return prepared->fresh ? 2 : 1;
}

void print_preparation(const prepared_tables *prepared) {
    const icl_table *tables[2];
    const size_t count = list_tables(prepared, tables);

    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < tables[i]->step_count; k++)
            printf("%s%s%s\n", i > 0 ? tables[i]->name : "", i > 0 ? ": " : "", tables[i]->steps[k].text);
    if (prepared->fill)
        printf("missing features are the %s of the rows learned from, without those held out\n", prepared->fill);
}

void print_held_out(const held_out_rows *held_out) {
    if (held_out->table->series.lags > 0)
        printf("held out: %zu rows in the order of time, in %zu folds, each from the rows before it", held_out->rows,
               held_out->folds);
    else if (held_out->repeats == 1)
        printf("held out: %zu folds, once", held_out->folds);
    else
        printf("held out: %zu folds, %zu times", held_out->folds, held_out->repeats);
    printf(", seed %u", (unsigned)held_out->seed);
}

void add_series(const icl_table *table, size_t held_out, icl_json *summary) {
    if (table->series.lags == 0)
        return;
    icl_json_count(summary, "lags", table->series.lags);
    icl_json_count(summary, "ahead", table->series.ahead);
    icl_json_count(summary, "season", table->series.season);
    icl_json_count(summary, "held_out", held_out);
}

static icl_status keep_step(const icl_table *table, const icl_table_step *step, result_writer *keep, icl_error *error) {
    icl_json json = {0};

    icl_json_text(&json, "step", step->what);
    icl_json_text(&json, "file", table->name);
    icl_json_count(&json, "number", step->number);
    icl_json_count(&json, "count", step->count);
    icl_json_text(&json, "detail", step->text);
    return results_add_to(keep, "preparation", &json, error);
}

static icl_status keep_omission(const icl_table *table, const icl_table_omission *omission, result_writer *keep,
                                icl_error *error) {
    icl_json json = {0};

    icl_json_count(&json, "omitted", omission->line);
    icl_json_text(&json, "file", table->name);
    icl_json_flag(&json, "has_target", omission->has_target);
    return results_add_to(keep, "omitted", &json, error);
}

icl_status keep_preparation(const prepared_tables *prepared, result_writer *keep, icl_error *error) {
    const icl_table *tables[2];
    const size_t count = list_tables(prepared, tables);

    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < tables[i]->step_count; k++)
            ICL_CHECK(keep_step(tables[i], &tables[i]->steps[k], keep, error));
        for (size_t k = 0; k < tables[i]->omission_count; k++)
            ICL_CHECK(keep_omission(tables[i], &tables[i]->omissions[k], keep, error));
    }
    return ICL_OK;
}

icl_status keep_lines(char *notes, result_writer *keep, icl_error *error) {
    for (char *line = notes, *end; line && *line; line = end + 1) {
        icl_json json = {0};
        end = strchr(line, '\n');
        *end = '\0';
        icl_json_text(&json, "note", line);
        ICL_CHECK(results_add_to(keep, "notes", &json, error));
    }
    return ICL_OK;
}

static icl_status add_step(const icl_table *table, const icl_table_step *step, icl_text *text, icl_error *error) {
    ICL_CHECK(icl_text_field(text, table->name, ",", error));
    ICL_CHECK(icl_text_print(text, error, "%s,%zu,%zu,", step->what, step->number, step->count));
    return icl_text_field(text, step->text, "\n", error);
}

static icl_status write_steps(const prepared_tables *prepared, const char *folder, icl_error *error) {
    const icl_table *tables[2];
    const size_t count = list_tables(prepared, tables);
    icl_text text = {0};
    icl_status status;

    ICL_TRY(icl_text_print(&text, error, "file,step,number,count,detail\n"));
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < tables[i]->step_count; k++)
            ICL_TRY(add_step(tables[i], &tables[i]->steps[k], &text, error));
    ICL_TRY(icl_file_write_in(folder, "preparation.csv", text.bytes, text.length, error));
done:
    icl_text_release(&text);
    return status;
}

static icl_status write_omissions(const prepared_tables *prepared, const char *folder, icl_error *error) {
    const icl_table *tables[2];
    const size_t count = list_tables(prepared, tables);
    icl_text text = {0};
    icl_status status;

    ICL_TRY(icl_text_print(&text, error, "file,line,has_target\n"));
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < tables[i]->omission_count; k++) {
            ICL_TRY(icl_text_field(&text, tables[i]->name, ",", error));
            ICL_TRY(icl_text_print(&text, error, "%zu,%s\n", tables[i]->omissions[k].line,
                                   tables[i]->omissions[k].has_target ? "true" : "false"));
        }
    ICL_TRY(icl_file_write_in(folder, "omitted.csv", text.bytes, text.length, error));
done:
    icl_text_release(&text);
    return status;
}

icl_status write_preparation(const prepared_tables *prepared, const char *folder, icl_error *error) {
    const icl_table *tables[2];
    const size_t count = list_tables(prepared, tables);
    size_t steps = 0, omissions = 0;

    for (size_t i = 0; i < count; i++) {
        steps += tables[i]->step_count;
        omissions += tables[i]->omission_count;
    }
    if (steps > 0)
        ICL_CHECK(write_steps(prepared, folder, error));
    return omissions > 0 ? write_omissions(prepared, folder, error) : ICL_OK;
}

/* ---- Rows as the table has them ---- */

icl_status table_add_word(const icl_table *table, const char *word, icl_text *text, icl_error *error) {
    return icl_text_print(text, error, strchr(word, table->separator) ? "\"%s\"" : "%s", word);
}

icl_status table_add_line(const icl_table *table, size_t line, icl_text *text, icl_error *error) {
    char digits[32];

    snprintf(digits, sizeof digits, "%zu", line);
    return table_add_word(table, digits, text, error);
}

icl_status table_add_number(const icl_table *table, double value, icl_text *text, icl_error *error) {
    char digits[ICL_NUMBER_CAPACITY], *point;

    ICL_CHECK(icl_text_append(text, &table->separator, 1, error));
    if (isnan(value))
        return ICL_OK;
    icl_format_number(value, digits);
    point = strchr(digits, '.');
    if (point && table->decimal == ICL_DECIMAL_COMMA)
        *point = ',';
    return table_add_word(table, digits, text, error);
}

icl_status table_add_numbers(const icl_table *table, const double *values, size_t count, icl_text *text,
                             icl_error *error) {
    for (size_t i = 0; i < count; i++)
        ICL_CHECK(table_add_number(table, values[i], text, error));
    return icl_text_print(text, error, "\n");
}
