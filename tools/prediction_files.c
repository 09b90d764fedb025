/* What iclab predict writes into a folder. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "iclab/figure.h"
#include "iclab/file.h"
#include "iclab/host.h"
#include "iclab/number.h"
#include "iclab/text.h"
#include "picture.h"
#include "prediction.h"

/* ---- Rows as the table has them ---- */

/* Adds a field, in quotes where it holds the separator. */
static icl_status add_word(const icl_table *table, const char *word, icl_text *text, icl_error *error) {
    return icl_text_print(text, error, strchr(word, table->separator) ? "\"%s\"" : "%s", word);
}

/* Adds the number of a line, which begins a row. */
static icl_status add_line(const icl_table *table, size_t line, icl_text *text, icl_error *error) {
    char digits[32];

    snprintf(digits, sizeof digits, "%zu", line);
    return add_word(table, digits, text, error);
}

/* Adds a number with the table's decimal mark; NaN as nothing. */
static icl_status add_number(const icl_table *table, double value, icl_text *text, icl_error *error) {
    char digits[ICL_NUMBER_CAPACITY], *point;

    ICL_CHECK(icl_text_append(text, &table->separator, 1, error));
    if (isnan(value))
        return ICL_OK;
    icl_format_number(value, digits);
    point = strchr(digits, '.');
    if (point && table->decimal == ICL_DECIMAL_COMMA)
        *point = ',';
    return add_word(table, digits, text, error);
}

static icl_status add_numbers(const icl_table *table, const double *values, size_t count, icl_text *text,
                              icl_error *error) {
    for (size_t i = 0; i < count; i++)
        ICL_CHECK(add_number(table, values[i], text, error));
    return icl_text_print(text, error, "\n");
}

/* The header: line, "target" where there is one, and the predictors. */
static icl_status add_header(const icl_table *table, bool has_target, icl_text *text, icl_error *error) {
    ICL_CHECK(add_word(table, "line", text, error));
    if (has_target) {
        ICL_CHECK(icl_text_append(text, &table->separator, 1, error));
        ICL_CHECK(add_word(table, "target", text, error));
    }
    for (size_t i = 0; i < ICL_PREDICTORS; i++) {
        ICL_CHECK(icl_text_append(text, &table->separator, 1, error));
        ICL_CHECK(add_word(table, icl_predictor_name(i), text, error));
    }
    return icl_text_print(text, error, "\n");
}

icl_status write_prediction_file(const char *folder, const char *name, const icl_text *text, icl_error *error) {
    char *path = NULL;
    icl_status status;

    ICL_TRY(icl_path_join(folder, name, &path, error));
    ICL_TRY(icl_file_write(path, text->bytes, text->length, error));
done:
    icl_free(&path);
    return status;
}

static icl_status write_heldout(const prediction_print *print, const char *folder, icl_error *error) {
    const icl_predict_outcome *outcome = print->outcome;
    const icl_table *table = print->table;
    icl_text text = {0};
    icl_status status;

    ICL_TRY(add_header(table, true, &text, error));
    for (size_t i = 0; i < outcome->labelled; i++) {
        const size_t row = outcome->rows[i];
        ICL_TRY(add_line(table, table->lines[row], &text, error));
        ICL_TRY(add_number(table, table->values[(row + 1) * table->columns - 1], &text, error));
        ICL_TRY(add_numbers(table, outcome->heldout + i * ICL_PREDICTORS, ICL_PREDICTORS, &text, error));
    }
    ICL_TRY(write_prediction_file(folder, "heldout.csv", &text, error));
done:
    icl_text_release(&text);
    return status;
}

static icl_status write_standardization(const prediction_print *print, const char *folder, icl_error *error) {
    const icl_standardization *standardization = &print->outcome->standardization;
    const icl_table *table = print->table;
    icl_text text = {0};
    icl_status status;

    ICL_TRY(icl_text_print(&text, error, "column,number,role,mean,deviation\n"));
    for (size_t i = 0; i < table->columns; i++) {
        ICL_TRY(icl_text_field(&text, table->names[i], ",", error));
        ICL_TRY(
            icl_text_print(&text, error, "%zu,%s,", table->numbers[i], i + 1 < table->columns ? "feature" : "target"));
        ICL_TRY(icl_text_number_field(&text, standardization->means[i], ",", error));
        ICL_TRY(icl_text_number_field(&text, standardization->deviations[i], "\n", error));
    }
    ICL_TRY(write_prediction_file(folder, "standardization.csv", &text, error));
done:
    icl_text_release(&text);
    return status;
}

/* Rows that were to be predicted, in the order of their lines: those left out have no numbers. */
static icl_status write_predictions(const prediction_print *print, const char *folder, icl_error *error) {
    static const double nothing[ICL_PREDICTORS] = {(double)NAN, (double)NAN, (double)NAN, (double)NAN, (double)NAN};
    const icl_predict_outcome *outcome = print->outcome;
    const icl_table *table = print->fresh_table ? print->fresh_table : print->table;
    const icl_table_omission *omission = table->omissions, *end = omission + table->omission_count;
    icl_text text = {0};
    icl_status status;

    ICL_TRY(add_header(table, false, &text, error));
    for (size_t i = 0; i <= outcome->predicted; i++) {
        const size_t line = i < outcome->predicted ? outcome->lines[i] : SIZE_MAX;
        for (; omission < end && omission->line < line; omission++)
            if (!omission->has_target) {
                ICL_TRY(add_line(table, omission->line, &text, error));
                ICL_TRY(add_numbers(table, nothing, ICL_PREDICTORS, &text, error));
            }
        if (i == outcome->predicted)
            break;
        ICL_TRY(add_line(table, line, &text, error));
        ICL_TRY(add_numbers(table, outcome->predictions + i * ICL_PREDICTORS, ICL_PREDICTORS, &text, error));
    }
    ICL_TRY(write_prediction_file(folder, "predictions.csv", &text, error));
done:
    icl_text_release(&text);
    return status;
}

/* The model's predictions and those of least squares over the targets; on the dashed line they are equal. */
static icl_status draw_heldout(const prediction_print *print, const icl_drawing *drawing, icl_error *error) {
    enum { SERIES = 3, OLS = 1 + ICL_REFERENCE_OLS };
    const icl_predict_outcome *outcome = print->outcome;
    const icl_table *table = print->table;
    const size_t count = outcome->labelled;
    const char *target = table->names[table->columns - 1];
    double *values = NULL, ends[2] = {HUGE_VAL, -HUGE_VAL};
    icl_text labels[2] = {{0}, {0}};
    icl_status status;

    ICL_TRY(icl_allocate(SERIES * count, sizeof *values, "points of a figure", &values, error));
    for (size_t i = 0; i < count; i++) {
        values[i] = table->values[(outcome->rows[i] + 1) * table->columns - 1];
        values[count + i] = outcome->heldout[i * ICL_PREDICTORS];
        values[2 * count + i] = outcome->heldout[i * ICL_PREDICTORS + OLS];
        ends[0] = fmin(ends[0], values[i]);
        ends[1] = fmax(ends[1], values[i]);
    }
    ICL_TRY(icl_text_print(&labels[0], error, "%s, as it is", target));
    ICL_TRY(icl_text_print(&labels[1], error, "%s, predicted from other rows", target));
    const icl_series series[SERIES] = {
        {"model", ICL_SERIES_CLOUD, count, values, values + count, NULL},
        {"ols", ICL_SERIES_PUBLISHED, count, values, values + 2 * count, NULL},
        {"equal", ICL_SERIES_REFERENCE, 2, ends, ends, NULL},
    };
    const icl_figure figure = {.name = ICL_PREDICTED_FIGURE,
                               .title = "Rows held out",
                               .x_label = labels[0].bytes,
                               .y_label = labels[1].bytes,
                               .count = SERIES,
                               .series = series};
    ICL_TRY(icl_figure_write(drawing, &figure, error));
done:
    icl_free(&values);
    icl_text_release(&labels[0]);
    icl_text_release(&labels[1]);
    return status;
}

icl_status write_prediction(const prediction_print *print, const char *folder, const char *run,
                            const icl_capabilities *device, bool *is_undrawn, icl_error *error) {
    const icl_drawing drawing = {folder, "iclab predict", draw_figure, is_undrawn};

    ICL_CHECK(icl_folder_create(folder, error));
    ICL_CHECK(write_heldout(print, folder, error));
    ICL_CHECK(write_standardization(print, folder, error));
    if (print->outcome->predicted > 0)
        ICL_CHECK(write_predictions(print, folder, error));
    ICL_CHECK(write_steps(print, folder, error));
    ICL_CHECK(draw_heldout(print, &drawing, error));
    return icl_predict_report_write(&(icl_predict_report){.folder = folder,
                                                          .run = run,
                                                          .table = print->table,
                                                          .outcome = print->outcome,
                                                          .device = device,
                                                          .seed = print->seed,
                                                          .draw = draw_figure,
                                                          .user = is_undrawn},
                                    error);
}
