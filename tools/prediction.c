#include "prediction.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "command.h"

/* ---- Tables for people ---- */

static void print_data(const prediction_print *print) {
    const icl_predict_outcome *outcome = print->outcome;
    const icl_table *table = print->table;

    printf("%s: %zu rows with the target %s, %zu feature%s of the model's %zu inputs", table->name, outcome->labelled,
           table->names[table->columns - 1], outcome->features, outcome->features == 1 ? "" : "s", outcome->dimension);
    if (outcome->features < outcome->dimension)
        printf(" (the others are 0)");
    printf(", %s\nheld out: %zu folds, ", outcome->whitened ? "standardized and whitened" : "standardized",
           outcome->folds);
    if (outcome->repeats == 1)
        printf("once");
    else
        printf("%zu times", outcome->repeats);
    printf(", seed %u; ", (unsigned)print->seed);
    if (outcome->prompts == 1)
        printf("the model is shown all rows to learn from at once, %zu without folds", outcome->context);
    else
        printf("the model is shown %zu row%s, %zu times", outcome->context, outcome->context == 1 ? "" : "s",
               outcome->prompts);
    printf(" (trained on %zu)\n", outcome->trained_context);
    print_steps(print);
    printf("\n");
}

static void print_scores(const icl_predict_outcome *outcome) {
    enum { NUMBERS = 6, OF_MODEL = 4 };
    static const int widths[NUMBERS] = {11, 11, 11, 9, 13, 11};

    printf("%-10s %11s %11s %11s %9s %13s %11s\n", "predictor", "mse", "se", "rmse", "r_squared", "minus_model", "se");
    for (size_t i = 0; i < ICL_PREDICTORS; i++) {
        const icl_predict_score *score = &outcome->scores[i];
        const double numbers[NUMBERS] = {score->mse,       score->se,          sqrt(score->mse),
                                         score->r_squared, score->minus_model, score->minus_model_se};
        printf("%-10s", icl_predictor_name(i));
        for (size_t k = 0; k < (i == 0 ? OF_MODEL : NUMBERS); k++)
            printf(" %*.4g", widths[k], numbers[k]);
        printf("\n");
    }
}

/* By more than two standard errors of the paired difference. */
static void print_verdict(const icl_predict_outcome *outcome) {
    static const char *const verdicts[] = {"better than", "worse than", "not clearly different from"};
    const char *before = "\nthe model is ";

    for (int verdict = 0; verdict < 3; verdict++) {
        size_t count = 0;
        for (size_t i = 1; i < ICL_PREDICTORS; i++) {
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
    for (size_t i = 0; i < ICL_PREDICTORS; i++)
        printf(" %13s", icl_predictor_name(i));
    printf("\n");
    for (size_t row = 0; row < outcome->predicted; row++) {
        printf("%-10zu", outcome->lines[row]);
        for (size_t i = 0; i < ICL_PREDICTORS; i++)
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

static icl_status keep_score(const prediction_print *print, size_t predictor, kept *keep, icl_error *error) {
    const icl_predict_score *score = &print->outcome->scores[predictor];
    icl_json json = {0};

    icl_json_text(&json, "predictor", icl_predictor_name(predictor));
    icl_json_number(&json, "mse", score->mse);
    icl_json_number(&json, "se", score->se);
    icl_json_number(&json, "rmse", sqrt(score->mse));
    icl_json_number(&json, "r_squared", score->r_squared);
    icl_json_number(&json, "minus_model", score->minus_model);
    icl_json_number(&json, "minus_model_se", score->minus_model_se);
    return kept_row(keep, &json, error);
}

static icl_status keep_column(const prediction_print *print, size_t column, kept *keep, icl_error *error) {
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
    return kept_row_of(keep, "columns", &json, error);
}

static icl_status keep_prediction(const prediction_print *print, size_t row, kept *keep, icl_error *error) {
    icl_json json = {0};

    icl_json_text(&json, "file", print->fresh ? print->fresh : print->table->name);
    icl_json_count(&json, "line", print->outcome->lines[row]);
    for (size_t i = 0; i < ICL_PREDICTORS; i++)
        icl_json_number(&json, icl_predictor_name(i), print->outcome->predictions[row * ICL_PREDICTORS + i]);
    return kept_row_of(keep, "predicted", &json, error);
}

/* A row for each line. */
static icl_status keep_notes(const prediction_print *print, kept *keep, icl_error *error) {
    icl_text notes = {0};
    icl_status status;

    ICL_TRY(icl_predict_notes(print->outcome, print->table, &notes, error));
    for (char *line = notes.bytes, *end; line && *line; line = end + 1) {
        icl_json json = {0};
        end = strchr(line, '\n');
        *end = '\0';
        icl_json_text(&json, "note", line);
        ICL_TRY(kept_row_of(keep, "notes", &json, error));
    }
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
    return json;
}

icl_status keep_prediction_result(const prediction_print *print, kept *keep, icl_error *error) {
    icl_json summary = {0};

    for (size_t i = 0; i < ICL_PREDICTORS; i++)
        ICL_CHECK(keep_score(print, i, keep, error));
    for (size_t i = 0; i < print->table->columns; i++)
        ICL_CHECK(keep_column(print, i, keep, error));
    ICL_CHECK(keep_steps(print, keep, error));
    for (size_t i = 0; i < print->outcome->predicted; i++)
        ICL_CHECK(keep_prediction(print, i, keep, error));
    ICL_CHECK(keep_notes(print, keep, error));
    summary = summary_of(print);
    return kept_finish(keep, &summary, error);
}
