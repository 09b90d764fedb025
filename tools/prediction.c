/* Results of iclab predict, printed and written. */
#include "prediction.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "iclab/file.h"
#include "iclab/host.h"
#include "iclab/number.h"
#include "iclab/text.h"
#include "preparation.h"
#include "report/figure.h"

static prepared_tables tables_of(const prediction_print *print) {
    return (prepared_tables){print->table, print->fresh_table, print->outcome->fills ? print->impute : NULL};
}

/* ---- Tables for people ---- */

static void print_data(const prediction_print *print) {
    const icl_predict_outcome *outcome = print->outcome;
    const icl_table *table = print->table;
    const prepared_tables tables = tables_of(print);

    printf("%s: %zu rows with the target %s, %zu feature%s of the model's %zu inputs", table->name, outcome->labelled,
           table->names[table->columns - 1], outcome->features, outcome->features == 1 ? "" : "s", outcome->dimension);
    if (outcome->features < outcome->dimension)
        printf(" (the others are 0)");
    printf(", %s\n", outcome->whitened ? "standardized and whitened" : "standardized");
    print_held_out(
        &(held_out_rows){table, outcome->labelled - outcome->held_from, outcome->folds, outcome->repeats, print->seed});
    printf("; ");
    if (table->series.lags > 0)
        printf("the model is shown the last rows at once, at most %zu", outcome->context);
    else if (outcome->prompts == 1)
        printf("the model is shown all rows to learn from at once, %zu without folds", outcome->context);
    else
        printf("the model is shown %zu row%s, %zu times", outcome->context, outcome->context == 1 ? "" : "s",
               outcome->prompts);
    printf(" (trained on %zu)\n", outcome->trained_context);
    print_preparation(&tables);
    printf("\n");
}

static void print_scores(const icl_predict_outcome *outcome) {
    enum { NUMBERS = 6, OF_MODEL = 4 };
    static const int widths[NUMBERS] = {11, 11, 11, 9, 13, 11};

    printf("%-11s %11s %11s %11s %9s %13s %11s\n", "predictor", "mse", "se", "rmse", "r_squared", "minus_model", "se");
    for (size_t i = 0; i < icl_predictor_count(outcome); i++) {
        const icl_predict_score *score = &outcome->scores[i];
        const double numbers[NUMBERS] = {score->mse,       score->se,          sqrt(score->mse),
                                         score->r_squared, score->minus_model, score->minus_model_se};
        printf("%-11s", icl_predictor_name(i));
        for (size_t k = 0; k < (i == 0 ? OF_MODEL : NUMBERS); k++)
            printf(" %*.4g", widths[k], numbers[k]);
        printf("\n");
    }
}

/* Prints the differences of more than two standard errors of the paired difference. */
static void print_verdict(const icl_predict_outcome *outcome) {
    static const char *const verdicts[] = {"better than", "worse than", "not clearly different from"};
    const char *before = "\nthe model is ";

    for (int verdict = 0; verdict < 3; verdict++) {
        size_t count = 0;
        for (size_t i = 1; i < icl_predictor_count(outcome); i++) {
            if (icl_predict_verdict(&outcome->scores[i]) != verdict)
                continue;
            if (count == 0)
                printf("%s%s", before, verdicts[verdict]);
            printf("%s %s", count++ > 0 ? "," : "", icl_predictor_name(i));
            before = "; ";
        }
    }
    printf("\n");
}

static void print_predictions(const prediction_print *print) {
    const icl_predict_outcome *outcome = print->outcome;

    if (outcome->predicted == 0)
        return;
    printf("\n%-10s", "line");
    for (size_t i = 0; i < icl_predictor_count(outcome); i++)
        printf(" %13s", icl_predictor_name(i));
    printf("\n");
    for (size_t row = 0; row < outcome->predicted; row++) {
        printf("%-10zu", outcome->lines[row]);
        for (size_t i = 0; i < icl_predictor_count(outcome); i++)
            printf(" %13.6g", outcome->predictions[row * ICL_PREDICTORS + i]);
        printf("\n");
    }
}

icl_status print_prediction(const prediction_print *print, icl_error *error) {
    icl_text notes = {0};
    const icl_status status = icl_predict_notes(print->outcome, print->table, &notes, error);

    print_data(print);
    print_scores(print->outcome);
    print_verdict(print->outcome);
    printf("%s", notes.bytes ? notes.bytes : "");
    icl_text_release(&notes);
    ICL_CHECK(status);
    printf("\nmse: mean squared error on rows held out, in the target's units; se is the standard error of the "
           "number\n"
           "before it, over rows. minus_model: mse minus the model's, row by row. r_squared: share of the mean's "
           "error\n"
           "that is gone. ridge: penalty by leave-one-out within the rows learned from; adarr: ridge with the residual "
           "variance "
           "as penalty.\n");
    print_predictions(print);
    return ICL_OK;
}

/* ---- Rows ---- */

static icl_status keep_score(const prediction_print *print, size_t predictor, result_writer *keep, icl_error *error) {
    const icl_predict_score *score = &print->outcome->scores[predictor];
    icl_json json = {0};

    icl_json_text(&json, "predictor", icl_predictor_name(predictor));
    icl_json_number(&json, "mse", score->mse);
    icl_json_number(&json, "se", score->se);
    icl_json_number(&json, "rmse", sqrt(score->mse));
    icl_json_number(&json, "r_squared", score->r_squared);
    icl_json_number(&json, "minus_model", score->minus_model);
    icl_json_number(&json, "minus_model_se", score->minus_model_se);
    return results_add(keep, &json, error);
}

static icl_status keep_column(const prediction_print *print, size_t column, result_writer *keep, icl_error *error) {
    const icl_table *table = print->table;
    icl_json json = {0};

    icl_json_text(&json, "column", table->names[column]);
    icl_json_count(&json, "number", table->numbers[column]);
    icl_json_text(&json, "role", column + 1 < table->columns ? "feature" : "target");
    icl_json_number(&json, "mean", print->outcome->standardization.means[column]);
    icl_json_number(&json, "deviation", print->outcome->standardization.deviations[column]);
    icl_json_text(&json, "source", table->sources[column]);
    if (print->outcome->fills && column + 1 < table->columns)
        icl_json_number(&json, "fill", print->outcome->fills[column]);
    return results_add_to(keep, "columns", &json, error);
}

static icl_status keep_prediction(const prediction_print *print, size_t row, result_writer *keep, icl_error *error) {
    icl_json json = {0};

    icl_json_text(&json, "file", print->fresh ? print->fresh : print->table->name);
    icl_json_count(&json, "line", print->outcome->lines[row]);
    for (size_t i = 0; i < icl_predictor_count(print->outcome); i++)
        icl_json_number(&json, icl_predictor_name(i), print->outcome->predictions[row * ICL_PREDICTORS + i]);
    return results_add_to(keep, "predicted", &json, error);
}

static icl_status keep_notes(const prediction_print *print, result_writer *keep, icl_error *error) {
    icl_text notes = {0};
    icl_status status;

    ICL_TRY(icl_predict_notes(print->outcome, print->table, &notes, error));
    ICL_TRY(keep_lines(notes.bytes, keep, error));
done:
    icl_text_release(&notes);
    return status;
}

static icl_json summary_of(const prediction_print *print) {
    const icl_predict_outcome *outcome = print->outcome;
    icl_json json = {0};

    icl_json_text(&json, "data", print->table->name);
    icl_json_count(&json, "rows", outcome->labelled);
    icl_json_count(&json, "features", outcome->features);
    icl_json_count(&json, "dimension", outcome->dimension);
    icl_json_text(&json, "inputs", outcome->whitened ? "whitened" : "standardized");
    icl_json_number(&json, "label_scale", outcome->label_scale);
    icl_json_count(&json, "context", outcome->context);
    icl_json_count(&json, "trained_context", outcome->trained_context);
    icl_json_count(&json, "prompts", outcome->prompts);
    icl_json_count(&json, "folds", outcome->folds);
    icl_json_count(&json, "repeats", outcome->repeats);
    icl_json_count(&json, "seed", print->seed);
    icl_json_number(&json, "ridge_penalty", outcome->ridge_penalty);
    icl_json_count(&json, "not_finite", outcome->not_finite);
    icl_json_count(&json, "predicted", outcome->predicted);
    icl_json_text(&json, "separator", icl_separator_word(print->table->separator));
    icl_json_text(&json, "decimal", print->table->decimal == ICL_DECIMAL_COMMA ? "comma" : "point");
    icl_json_count(&json, "rows_omitted", print->table->omission_count);
    icl_json_text(&json, "impute", outcome->fills ? print->impute : NULL);
    add_series(print->table, outcome->labelled - outcome->held_from, &json);
    return json;
}

icl_status keep_prediction_result(const prediction_print *print, result_writer *keep, icl_error *error) {
    const prepared_tables tables = tables_of(print);
    icl_json summary = {0};

    for (size_t i = 0; i < icl_predictor_count(print->outcome); i++)
        ICL_CHECK(keep_score(print, i, keep, error));
    for (size_t i = 0; i < print->table->columns; i++)
        ICL_CHECK(keep_column(print, i, keep, error));
    ICL_CHECK(keep_preparation(&tables, keep, error));
    for (size_t i = 0; i < print->outcome->predicted; i++)
        ICL_CHECK(keep_prediction(print, i, keep, error));
    ICL_CHECK(keep_notes(print, keep, error));
    summary = summary_of(print);
    return results_write(keep, &summary, error);
}

/* ---- Files ---- */

/* Adds the header: line, "target" if there is one, and the predictors. */
static icl_status add_header(const prediction_print *print, const icl_table *table, bool has_target, icl_text *text,
                             icl_error *error) {
    ICL_CHECK(table_add_word(table, "line", text, error));
    if (has_target) {
        ICL_CHECK(icl_text_append(text, &table->separator, 1, error));
        ICL_CHECK(table_add_word(table, "target", text, error));
    }
    for (size_t i = 0; i < icl_predictor_count(print->outcome); i++) {
        ICL_CHECK(icl_text_append(text, &table->separator, 1, error));
        ICL_CHECK(table_add_word(table, icl_predictor_name(i), text, error));
    }
    return icl_text_print(text, error, "\n");
}

static icl_status write_heldout(const prediction_print *print, const char *folder, icl_error *error) {
    const icl_predict_outcome *outcome = print->outcome;
    const icl_table *table = print->table;
    icl_text text = {0};
    icl_status status;

    ICL_TRY(add_header(print, table, true, &text, error));
    for (size_t i = outcome->held_from; i < outcome->labelled; i++) {
        const size_t row = outcome->rows[i];
        ICL_TRY(table_add_line(table, table->lines[row], &text, error));
        ICL_TRY(table_add_number(table, table->values[(row + 1) * table->columns - 1], &text, error));
        ICL_TRY(table_add_numbers(table, outcome->heldout + i * ICL_PREDICTORS, icl_predictor_count(outcome), &text,
                                  error));
    }
    ICL_TRY(icl_file_write_in(folder, "heldout.csv", text.bytes, text.length, error));
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
    ICL_TRY(icl_file_write_in(folder, "standardization.csv", text.bytes, text.length, error));
done:
    icl_text_release(&text);
    return status;
}

/* Writes the rows to be predicted, in the order of their lines; those left out have no numbers. */
static icl_status write_predictions(const prediction_print *print, const char *folder, icl_error *error) {
    static const double none = (double)NAN;
    const double nothing[ICL_PREDICTORS] = {none, none, none, none, none, none, none};
    const icl_predict_outcome *outcome = print->outcome;
    const icl_table *table = print->fresh_table ? print->fresh_table : print->table;
    const icl_table_omission *omission = table->omissions, *end = omission + table->omission_count;
    icl_text text = {0};
    icl_status status;

    ICL_TRY(add_header(print, table, false, &text, error));
    for (size_t i = 0; i <= outcome->predicted; i++) {
        const size_t line = i < outcome->predicted ? outcome->lines[i] : SIZE_MAX;
        for (; omission < end && omission->line < line; omission++)
            if (!omission->has_target) {
                ICL_TRY(table_add_line(table, omission->line, &text, error));
                ICL_TRY(table_add_numbers(table, nothing, icl_predictor_count(outcome), &text, error));
            }
        if (i == outcome->predicted)
            break;
        ICL_TRY(table_add_line(table, line, &text, error));
        ICL_TRY(table_add_numbers(table, outcome->predictions + i * ICL_PREDICTORS, icl_predictor_count(outcome), &text,
                                  error));
    }
    ICL_TRY(icl_file_write_in(folder, "predictions.csv", text.bytes, text.length, error));
done:
    icl_text_release(&text);
    return status;
}

/* Draws the model's predictions and those of least squares over the targets; on the dashed line they are equal. */
static icl_status draw_heldout(const prediction_print *print, const icl_drawing *drawing, icl_error *error) {
    enum { SERIES = 3, OLS = 1 + ICL_REFERENCE_OLS };
    const icl_predict_outcome *outcome = print->outcome;
    const icl_table *table = print->table;
    const size_t count = outcome->labelled - outcome->held_from;
    const char *target = table->names[table->columns - 1];
    double *values = NULL, ends[2] = {HUGE_VAL, -HUGE_VAL};
    icl_text labels[2] = {{0}, {0}};
    icl_status status;

    ICL_TRY(icl_allocate(SERIES * count, sizeof *values, "points of a figure", &values, error));
    for (size_t i = 0; i < count; i++) {
        const size_t place = outcome->held_from + i;
        values[i] = table->values[(outcome->rows[place] + 1) * table->columns - 1];
        values[count + i] = outcome->heldout[place * ICL_PREDICTORS];
        values[2 * count + i] = outcome->heldout[place * ICL_PREDICTORS + OLS];
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
    const prepared_tables tables = tables_of(print);

    ICL_CHECK(icl_folder_create(folder, error));
    ICL_CHECK(write_heldout(print, folder, error));
    ICL_CHECK(write_standardization(print, folder, error));
    if (print->outcome->predicted > 0)
        ICL_CHECK(write_predictions(print, folder, error));
    ICL_CHECK(write_preparation(&tables, folder, error));
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
