/* What was done to the tables of iclab predict before anything was learned from them. */
#include <stdio.h>

#include "command.h"
#include "prediction.h"

/* The data, then the rows to predict where they are another table. */
static size_t tables_of(const prediction_print *print, const icl_table *tables[2]) {
    tables[0] = print->table;
    tables[1] = print->fresh_table;
    return print->fresh_table ? 2 : 1;
}

void print_steps(const prediction_print *print) {
    const icl_table *tables[2];
    const size_t count = tables_of(print, tables);

    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < tables[i]->step_count; k++)
            printf("%s%s%s\n", i > 0 ? tables[i]->name : "", i > 0 ? ": " : "", tables[i]->steps[k].text);
    if (print->outcome->fills)
        printf("missing features are the %s of the rows learned from, without those held out\n", print->impute);
}

/* ---- Rows ---- */

static icl_status keep_step(const icl_table *table, const icl_table_step *step, kept *keep, icl_error *error) {
    icl_json json = {0};

    icl_json_text(&json, "step", step->what);
    icl_json_text(&json, "file", table->name);
    icl_json_count(&json, "number", step->number);
    icl_json_count(&json, "count", step->count);
    icl_json_text(&json, "detail", step->text);
    return kept_row_of(keep, "preparation", &json, error);
}

static icl_status keep_omission(const icl_table *table, const icl_table_omission *omission, kept *keep,
                                icl_error *error) {
    icl_json json = {0};

    icl_json_count(&json, "omitted", omission->line);
    icl_json_text(&json, "file", table->name);
    icl_json_flag(&json, "has_target", omission->has_target);
    return kept_row_of(keep, "omitted", &json, error);
}

icl_status keep_steps(const prediction_print *print, kept *keep, icl_error *error) {
    const icl_table *tables[2];
    const size_t count = tables_of(print, tables);

    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < tables[i]->step_count; k++)
            ICL_CHECK(keep_step(tables[i], &tables[i]->steps[k], keep, error));
        for (size_t k = 0; k < tables[i]->omission_count; k++)
            ICL_CHECK(keep_omission(tables[i], &tables[i]->omissions[k], keep, error));
    }
    return ICL_OK;
}

/* ---- Files ---- */

static icl_status add_step(const icl_table *table, const icl_table_step *step, icl_text *text, icl_error *error) {
    ICL_CHECK(icl_text_field(text, table->name, ",", error));
    ICL_CHECK(icl_text_print(text, error, "%s,%zu,%zu,", step->what, step->number, step->count));
    return icl_text_field(text, step->text, "\n", error);
}

static icl_status write_steps_of(const prediction_print *print, const char *folder, icl_error *error) {
    const icl_table *tables[2];
    const size_t count = tables_of(print, tables);
    icl_text text = {0};
    icl_status status;

    ICL_TRY(icl_text_print(&text, error, "file,step,number,count,detail\n"));
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < tables[i]->step_count; k++)
            ICL_TRY(add_step(tables[i], &tables[i]->steps[k], &text, error));
    ICL_TRY(write_prediction_file(folder, "preparation.csv", &text, error));
done:
    icl_text_release(&text);
    return status;
}

static icl_status write_omissions(const prediction_print *print, const char *folder, icl_error *error) {
    const icl_table *tables[2];
    const size_t count = tables_of(print, tables);
    icl_text text = {0};
    icl_status status;

    ICL_TRY(icl_text_print(&text, error, "file,line,has_target\n"));
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < tables[i]->omission_count; k++) {
            ICL_TRY(icl_text_field(&text, tables[i]->name, ",", error));
            ICL_TRY(icl_text_print(&text, error, "%zu,%s\n", tables[i]->omissions[k].line,
                                   tables[i]->omissions[k].has_target ? "true" : "false"));
        }
    ICL_TRY(write_prediction_file(folder, "omitted.csv", &text, error));
done:
    icl_text_release(&text);
    return status;
}

icl_status write_steps(const prediction_print *print, const char *folder, icl_error *error) {
    const icl_table *tables[2];
    const size_t count = tables_of(print, tables);
    size_t steps = 0, omissions = 0;

    for (size_t i = 0; i < count; i++) {
        steps += tables[i]->step_count;
        omissions += tables[i]->omission_count;
    }
    if (steps > 0)
        ICL_CHECK(write_steps_of(print, folder, error));
    return omissions > 0 ? write_omissions(print, folder, error) : ICL_OK;
}
