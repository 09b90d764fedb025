/* Results of iclab predict without a run, printed and written. */
#include "regression.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "iclab/file.h"
#include "iclab/text.h"

static bool ran(const icl_regression_outcome *outcome, size_t method) {
    return outcome->methods >> method & 1;
}

/* Returns how many rows the method learned from in the fit to all. */
static size_t rows_of(const icl_regression_outcome *outcome, size_t method) {
    return icl_method_takes_all_rows((icl_method)method) || outcome->labelled < outcome->context ? outcome->labelled
                                                                                                 : outcome->context;
}

static const char *name_of_fresh(const regression_print *print) {
    return print->tables.fresh ? print->tables.fresh->name : print->tables.table->name;
}

/* ---- Tables for people ---- */

static void print_data(const regression_print *print) {
    const icl_regression_outcome *outcome = print->outcome;
    const icl_table *table = print->tables.table;

    printf("%s: %zu rows with the target %s, %zu feature%s\n", table->name, outcome->labelled,
           table->names[table->columns - 1], outcome->features, outcome->features == 1 ? "" : "s");
    print_held_out(
        &(held_out_rows){table, outcome->labelled - outcome->held_from, outcome->folds, outcome->repeats, print->seed});
    printf("\n");
    print_preparation(&print->tables);
    printf("\n");
}

static void print_scores(const icl_regression_outcome *outcome) {
    enum { NUMBERS = 7 };
    static const int widths[NUMBERS] = {11, 11, 12, 7, 7, 11, 11};

    printf("%-16s %7s %11s %11s %12s %7s %7s %11s %11s\n", "predictor", "rows", "mse", "se", "relative_mse", "in_50",
           "in_80", "minus_best", "se");
    for (size_t i = 0; i < ICL_METHODS; i++) {
        const icl_regression_score *score = &outcome->scores[i];
        const double numbers[NUMBERS] = {score->mse,         score->se,         score->relative_mse, score->coverage_50,
                                         score->coverage_80, score->minus_best, score->minus_best_se};
        if (!ran(outcome, i))
            continue;
        printf("%-16s %7zu", icl_method_name((icl_method)i), rows_of(outcome, i));
        for (size_t k = 0; k < (i == (size_t)outcome->best ? NUMBERS - 2 : NUMBERS); k++)
            printf(k == 3 || k == 4 ? " %*.2f" : " %*.4g", widths[k], numbers[k]);
        printf("\n");
    }
}

/* Says what is mixed, by what weights. */
static void print_mixture(const icl_regression_outcome *outcome) {
    const char *before = "mixture:";

    for (size_t i = 0; i < ICL_METHODS; i++)
        if (outcome->mixture.weights[i] > 0) {
            printf("%s %.2f %s", before, outcome->mixture.weights[i], icl_method_name((icl_method)i));
            before = ",";
        }
    printf("%s", *before == ',' ? "\n" : "");
}

/* Names the methods within two standard errors of the best one's error. */
static void print_verdict(const icl_regression_outcome *outcome) {
    const char *before = "; it is not clearly better than";

    printf("\nbest: %s", icl_method_name(outcome->best));
    for (size_t i = 0; i < ICL_METHODS; i++) {
        const icl_regression_score *score = &outcome->scores[i];
        if (!ran(outcome, i) || i == (size_t)outcome->best || score->minus_best > 2 * score->minus_best_se)
            continue;
        printf("%s %s", before, icl_method_name((icl_method)i));
        before = ",";
    }
    printf("\n");
}

static void print_importances(const regression_print *print) {
    const icl_regression_outcome *outcome = print->outcome;

    if (!outcome->importances)
        return;
    printf("\n%-24s %11s %11s\n", "feature", "importance", "se");
    for (size_t i = 0; i < outcome->features; i++)
        printf("%-24s %11.4g %11.4g\n", print->tables.table->names[i], outcome->importances[i].increase,
               outcome->importances[i].se);
}

static void print_predictions(const regression_print *print) {
    const icl_regression_outcome *outcome = print->outcome;

    if (outcome->predicted == 0)
        return;
    printf("\nby %s:\n%-10s %13s %13s %13s %13s %13s\n", icl_method_name(outcome->answer), "line", "prediction",
           "low_80", "low_50", "high_50", "high_80");
    for (size_t row = 0; row < outcome->predicted; row++) {
        const icl_forecast *forecast = &outcome->forecasts[row * ICL_METHODS + (size_t)outcome->answer];
        printf("%-10zu %13.6g %13.6g %13.6g %13.6g %13.6g\n", outcome->lines[row], forecast->mean, forecast->low_80,
               forecast->low_50, forecast->high_50, forecast->high_80);
    }
}

icl_status print_regression(const regression_print *print, icl_error *error) {
    icl_text notes = {0};
    const icl_status status = icl_regression_notes(print->outcome, print->tables.table, &notes, error);

    print_data(print);
    print_scores(print->outcome);
    print_verdict(print->outcome);
    print_mixture(print->outcome);
    printf("%s", notes.bytes ? notes.bytes : "");
    icl_text_release(&notes);
    ICL_CHECK(status);
    print_importances(print);
    print_predictions(print);
    printf(
        "\nmse: mean squared error on rows held out, in the target's units; se is the standard error of the "
        "number\nbefore it. relative_mse: mse over that of the mean. in_50, in_80: share of targets in the intervals "
        "of\n50 %% and 80 %%. importance: what permuting a feature adds to the relative_mse of the predictions.\n");
    return ICL_OK;
}

/* ---- Rows ---- */

static icl_status keep_score(const regression_print *print, size_t method, result_writer *keep, icl_error *error) {
    const icl_regression_score *score = &print->outcome->scores[method];
    icl_json json = {0};

    icl_json_text(&json, "predictor", icl_method_name((icl_method)method));
    icl_json_count(&json, "rows", rows_of(print->outcome, method));
    icl_json_number(&json, "mse", score->mse);
    icl_json_number(&json, "se", score->se);
    icl_json_number(&json, "relative_mse", score->relative_mse);
    icl_json_number(&json, "minus_best", score->minus_best);
    icl_json_number(&json, "minus_best_se", score->minus_best_se);
    icl_json_number(&json, "coverage_50", score->coverage_50);
    icl_json_number(&json, "coverage_80", score->coverage_80);
    icl_json_number(&json, "weight", print->outcome->mixture.weights[method]);
    return results_add(keep, &json, error);
}

static icl_status keep_column(const regression_print *print, size_t column, result_writer *keep, icl_error *error) {
    const icl_regression_outcome *outcome = print->outcome;
    const icl_table *table = print->tables.table;
    const bool is_feature = column < outcome->features;
    icl_json json = {0};

    icl_json_text(&json, "column", table->names[column]);
    icl_json_count(&json, "number", table->numbers[column]);
    icl_json_text(&json, "role", is_feature ? "feature" : "target");
    icl_json_number(&json, "mean", outcome->standardization.means[column]);
    icl_json_number(&json, "deviation", outcome->standardization.deviations[column]);
    icl_json_text(&json, "source", table->sources[column]);
    if (outcome->fills && is_feature)
        icl_json_number(&json, "fill", outcome->fills[column]);
    if (outcome->importances && is_feature) {
        icl_json_number(&json, "importance", outcome->importances[column].increase);
        icl_json_number(&json, "importance_se", outcome->importances[column].se);
    }
    return results_add_to(keep, "columns", &json, error);
}

static icl_status keep_prediction(const regression_print *print, size_t row, result_writer *keep, icl_error *error) {
    const icl_regression_outcome *outcome = print->outcome;
    const icl_forecast *forecasts = outcome->forecasts + row * ICL_METHODS, *answer = forecasts + outcome->answer;
    icl_json json = {0};

    icl_json_text(&json, "file", name_of_fresh(print));
    icl_json_count(&json, "line", outcome->lines[row]);
    icl_json_number(&json, "prediction", answer->mean);
    icl_json_number(&json, "low_80", answer->low_80);
    icl_json_number(&json, "low_50", answer->low_50);
    icl_json_number(&json, "high_50", answer->high_50);
    icl_json_number(&json, "high_80", answer->high_80);
    for (size_t i = 0; i < ICL_METHODS; i++)
        if (ran(outcome, i))
            icl_json_number(&json, icl_method_name((icl_method)i), forecasts[i].mean);
    return results_add_to(keep, "predicted", &json, error);
}

static icl_status keep_notes(const regression_print *print, result_writer *keep, icl_error *error) {
    icl_text notes = {0};
    icl_status status;

    ICL_TRY(icl_regression_notes(print->outcome, print->tables.table, &notes, error));
    ICL_TRY(keep_lines(notes.bytes, keep, error));
done:
    icl_text_release(&notes);
    return status;
}

static icl_json summary_of(const regression_print *print) {
    const icl_regression_outcome *outcome = print->outcome;
    const icl_table *table = print->tables.table;
    icl_json json = {0};

    icl_json_text(&json, "data", table->name);
    icl_json_count(&json, "rows", outcome->labelled);
    icl_json_count(&json, "features", outcome->features);
    icl_json_text(&json, "best", icl_method_name(outcome->best));
    icl_json_text(&json, "answer", icl_method_name(outcome->answer));
    icl_json_count(&json, "context", outcome->context);
    icl_json_count(&json, "folds", outcome->folds);
    icl_json_count(&json, "repeats", outcome->repeats);
    icl_json_count(&json, "seed", print->seed);
    icl_json_count(&json, "predicted", outcome->predicted);
    icl_json_text(&json, "separator", icl_separator_word(table->separator));
    icl_json_text(&json, "decimal", table->decimal == ICL_DECIMAL_COMMA ? "comma" : "point");
    icl_json_count(&json, "rows_omitted", table->omission_count);
    icl_json_text(&json, "impute", print->tables.fill);
    add_series(table, outcome->labelled - outcome->held_from, &json);
    return json;
}

icl_status keep_regression_result(const regression_print *print, result_writer *keep, icl_error *error) {
    icl_json summary = {0};

    for (size_t i = 0; i < ICL_METHODS; i++)
        if (ran(print->outcome, i))
            ICL_CHECK(keep_score(print, i, keep, error));
    for (size_t i = 0; i < print->tables.table->columns; i++)
        ICL_CHECK(keep_column(print, i, keep, error));
    ICL_CHECK(keep_preparation(&print->tables, keep, error));
    for (size_t i = 0; i < print->outcome->predicted; i++)
        ICL_CHECK(keep_prediction(print, i, keep, error));
    ICL_CHECK(keep_notes(print, keep, error));
    summary = summary_of(print);
    return results_write(keep, &summary, error);
}

/* ---- Files ---- */

/* Adds the header: line, "target" if there is one, the prediction and its intervals, and the methods. */
static icl_status add_header(const regression_print *print, const icl_table *table, bool has_target, icl_text *text,
                             icl_error *error) {
    static const char *const names[] = {"prediction", "low_80", "low_50", "high_50", "high_80"};

    ICL_CHECK(table_add_word(table, "line", text, error));
    if (has_target)
        ICL_CHECK(icl_text_print(text, error, "%ctarget", table->separator));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        ICL_CHECK(icl_text_print(text, error, "%c%s", table->separator, names[i]));
    for (size_t i = 0; i < ICL_METHODS; i++)
        if (ran(print->outcome, i))
            ICL_CHECK(icl_text_print(text, error, "%c%s", table->separator, icl_method_name((icl_method)i)));
    return icl_text_print(text, error, "\n");
}

/* Adds what the header names behind the target, and ends the row; no numbers if there are no forecasts. */
static icl_status add_forecasts(const regression_print *print, const icl_table *table, const icl_forecast *forecasts,
                                icl_text *text, icl_error *error) {
    const double none = (double)NAN;
    const icl_forecast nothing = {none, none, none, none, none};
    const icl_forecast *answer = forecasts ? &forecasts[print->outcome->answer] : &nothing;
    double values[5 + ICL_METHODS] = {answer->mean, answer->low_80, answer->low_50, answer->high_50, answer->high_80};
    size_t count = 5;

    for (size_t i = 0; i < ICL_METHODS; i++)
        if (ran(print->outcome, i))
            values[count++] = forecasts ? forecasts[i].mean : none;
    return table_add_numbers(table, values, count, text, error);
}

static icl_status write_heldout(const regression_print *print, const char *folder, icl_error *error) {
    const icl_regression_outcome *outcome = print->outcome;
    const icl_table *table = print->tables.table;
    icl_text text = {0};
    icl_status status;

    ICL_TRY(add_header(print, table, true, &text, error));
    for (size_t i = outcome->held_from; i < outcome->labelled; i++) {
        const size_t row = outcome->rows[i];
        ICL_TRY(table_add_line(table, table->lines[row], &text, error));
        ICL_TRY(table_add_number(table, table->values[(row + 1) * table->columns - 1], &text, error));
        ICL_TRY(add_forecasts(print, table, outcome->heldout + i * ICL_METHODS, &text, error));
    }
    ICL_TRY(icl_file_write_in(folder, "heldout.csv", text.bytes, text.length, error));
done:
    icl_text_release(&text);
    return status;
}

/* Writes the rows to be predicted, in the order of their lines; those left out have no numbers. */
static icl_status write_predictions(const regression_print *print, const char *folder, icl_error *error) {
    const icl_regression_outcome *outcome = print->outcome;
    const icl_table *table = print->tables.fresh ? print->tables.fresh : print->tables.table;
    const icl_table_omission *omission = table->omissions, *end = omission + table->omission_count;
    icl_text text = {0};
    icl_status status;

    ICL_TRY(add_header(print, table, false, &text, error));
    for (size_t i = 0; i <= outcome->predicted; i++) {
        const size_t line = i < outcome->predicted ? outcome->lines[i] : SIZE_MAX;
        for (; omission < end && omission->line < line; omission++)
            if (!omission->has_target) {
                ICL_TRY(table_add_line(table, omission->line, &text, error));
                ICL_TRY(add_forecasts(print, table, NULL, &text, error));
            }
        if (i == outcome->predicted)
            break;
        ICL_TRY(table_add_line(table, line, &text, error));
        ICL_TRY(add_forecasts(print, table, outcome->forecasts + i * ICL_METHODS, &text, error));
    }
    ICL_TRY(icl_file_write_in(folder, "predictions.csv", text.bytes, text.length, error));
done:
    icl_text_release(&text);
    return status;
}

icl_status write_regression(const regression_print *print, const char *folder, bool *is_undrawn, icl_error *error) {
    ICL_CHECK(icl_folder_create(folder, error));
    ICL_CHECK(write_heldout(print, folder, error));
    if (print->outcome->predicted > 0)
        ICL_CHECK(write_predictions(print, folder, error));
    ICL_CHECK(write_preparation(&print->tables, folder, error));
    return icl_regression_report_write(&(icl_regression_report){.folder = folder,
                                                                .table = print->tables.table,
                                                                .outcome = print->outcome,
                                                                .seed = print->seed,
                                                                .draw = draw_figure,
                                                                .user = is_undrawn},
                                       error);
}
