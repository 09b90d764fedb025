/* Reports of predictions without a run: notes in words, held-out errors, a picture with intervals, features that
 * matter, and the rows predicted. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/print.h"
#include "iclab/file.h"
#include "iclab/regression.h"
#include "iclab/text.h"
#include "predict/predict.h"
#include "report/figure.h"
#include "report/report.h"

/* The most rows that a report shows; all are in predictions.csv. */
#define MOST_ROWS 50

enum { CELL = 32 };

static const char *number_text(double value, char text[CELL]) {
    icl_print(text, CELL, isnan(value) ? "-" : "%.4g", value);
    return text;
}

static double target_of(const icl_regression_outcome *outcome, const icl_table *table, size_t place) {
    return table->values[(outcome->rows[place] + 1) * table->columns - 1];
}

/* ---- Notes ---- */

/* Notes predictions for rows without a target that are farther outside the labels than these span,
 * and those that are not finite. */
static icl_status note_predictions(const icl_regression_outcome *outcome, const icl_table *table, icl_text *notes,
                                   icl_error *error) {
    double least = HUGE_VAL, most = -HUGE_VAL;
    size_t far = 0, not_finite = 0;

    for (size_t i = 0; i < outcome->labelled; i++) {
        least = fmin(least, target_of(outcome, table, i));
        most = fmax(most, target_of(outcome, table, i));
    }
    for (size_t i = 0; i < outcome->predicted; i++) {
        const double prediction = outcome->forecasts[i * ICL_METHODS + (size_t)outcome->answer].mean;
        far += prediction < least - (most - least) || prediction > most + (most - least);
        not_finite += !isfinite(prediction);
    }
    if (far > 0)
        ICL_CHECK(icl_text_print(notes, error,
                                 "%zu of %zu predictions for new rows lie far outside the labels, %.4g to %.4g: these "
                                 "rows are unlike those learned from\n",
                                 far, outcome->predicted, least, most));
    if (not_finite > 0)
        ICL_CHECK(icl_text_print(notes, error, "%zu of %zu predictions for new rows are not finite\n", not_finite,
                                 outcome->predicted));
    return ICL_OK;
}

icl_status icl_regression_notes(const icl_regression_outcome *outcome, const icl_table *table, icl_text *notes,
                                icl_error *error) {
    const char *before = "";

    if (outcome->heldout && outcome->best == ICL_METHOD_MEAN)
        ICL_CHECK(icl_text_print(notes, error,
                                 "no predictor is better than the mean of the labels: the features say nothing about "
                                 "the target that these rows could show\n"));
    if (outcome->labelled > outcome->context) {
        for (size_t i = 0; i < ICL_METHODS; i++) {
            if (icl_method_takes_all_rows((icl_method)i) || !(outcome->methods >> i & 1))
                continue;
            ICL_CHECK(icl_text_print(notes, error, "%s%s", before, icl_method_name((icl_method)i)));
            before = ", ";
        }
        if (*before)
            ICL_CHECK(icl_text_print(notes, error,
                                     outcome->series.lags > 0 ? " learned from the last %zu rows of %zu\n"
                                                              : " learned from %zu random rows of %zu\n",
                                     outcome->context, outcome->labelled));
    }
    if (outcome->most_features > 0 && outcome->features > outcome->most_features)
        ICL_CHECK(icl_text_print(notes, error, "the model is left out: it takes at most %zu features, not %zu\n",
                                 outcome->most_features, outcome->features));
    if (outcome->heldout)
        ICL_CHECK(icl_note_series(&outcome->series, outcome->labelled - outcome->held_from, notes, error));
    return note_predictions(outcome, table, notes, error);
}

/* ---- Held-out errors ---- */

static icl_status add_score(const icl_regression_outcome *outcome, size_t method, icl_report *report,
                            icl_error *error) {
    const icl_regression_score *score = &outcome->scores[method];
    const bool is_best = method == (size_t)outcome->best;
    const double weight = outcome->mixture.weights[method];
    char texts[8][CELL];
    const char *const cells[] = {icl_method_name((icl_method)method),
                                 number_text(score->mse, texts[0]),
                                 number_text(score->se, texts[1]),
                                 number_text(score->relative_mse, texts[2]),
                                 number_text(score->coverage_50, texts[3]),
                                 number_text(score->coverage_80, texts[4]),
                                 is_best ? "" : number_text(score->minus_best, texts[5]),
                                 is_best ? "" : number_text(score->minus_best_se, texts[6]),
                                 weight > 0 ? number_text(weight, texts[7]) : ""};

    return icl_report_table_row(report, method == (size_t)outcome->answer ? ICL_TONE_STRONG : ICL_TONE_PLAIN, cells,
                                error);
}

static icl_status add_scores(const icl_regression_report *params, icl_report *report, icl_error *error) {
    static const icl_report_column columns[] = {{"predictor", false},       {"mse", true},     {"\u00b1", true},
                                                {"over the mean's", true},  {"in 50 %", true}, {"in 80 %", true},
                                                {"minus the best's", true}, {"\u00b1", true},  {"weight", true}};

    ICL_CHECK(icl_report_section(report, "Errors on rows held out", error));
    ICL_CHECK(icl_report_table_begin(report, columns, sizeof columns / sizeof *columns, error));
    for (size_t i = 0; i < ICL_METHODS; i++)
        if (params->outcome->methods >> i & 1)
            ICL_CHECK(add_score(params->outcome, i, report, error));
    ICL_CHECK(icl_report_table_end(report, error));
    return icl_report_paragraph(report,
                                "\u00b1 is one standard error; that of a difference is of the paired errors, row by "
                                "row. \"in 50 %\" and \"in 80 %\" are the shares of targets in the intervals of these "
                                "names; the weight is that in the mixture of all rows.",
                                error);
}

static icl_status add_notes(const icl_regression_report *params, icl_report *report, icl_error *error) {
    icl_text notes = {0};
    icl_status status;

    ICL_TRY(icl_regression_notes(params->outcome, params->table, &notes, error));
    status = icl_report_paragraphs(report, notes.bytes, error);
done:
    icl_text_release(&notes);
    return status;
}

/* ---- The picture ---- */

static const char *name_of_target(const icl_regression_report *params) {
    return params->table->names[params->table->columns - 1];
}

/* Draws the predictions with their intervals over the targets; on the dashed line they are equal. */
static icl_status draw_predicted(const icl_regression_report *params, icl_error *error) {
    enum { ARRAYS = 3, SERIES = 2 };
    const icl_drawing drawing = {
        .folder = params->folder, .command = "iclab predict", .draw = params->draw, .user = params->user};
    const icl_regression_outcome *outcome = params->outcome;
    const size_t count = outcome->labelled - outcome->held_from;
    double *values = NULL, ends[2] = {HUGE_VAL, -HUGE_VAL};
    icl_text labels[2] = {{0}, {0}};
    icl_status status;

    ICL_TRY(icl_allocate(ARRAYS * count, sizeof *values, "points of a figure", &values, error));
    for (size_t i = 0; i < count; i++) {
        const size_t place = outcome->held_from + i;
        const icl_forecast *forecast = outcome->heldout + place * ICL_METHODS + outcome->answer;
        values[i] = target_of(outcome, params->table, place);
        values[count + i] = forecast->mean;
        values[2 * count + i] = (forecast->high_80 - forecast->low_80) / 2;
        ends[0] = fmin(ends[0], values[i]);
        ends[1] = fmax(ends[1], values[i]);
    }
    ICL_TRY(icl_text_print(&labels[0], error, "%s, as it is", name_of_target(params)));
    ICL_TRY(icl_text_print(&labels[1], error, "%s, predicted from other rows", name_of_target(params)));
    const icl_series series[SERIES] = {
        {icl_method_name(outcome->answer), ICL_SERIES_CLOUD, count, values, values + count, values + 2 * count},
        {"equal", ICL_SERIES_REFERENCE, 2, ends, ends, NULL},
    };
    ICL_TRY(icl_figure_write(&drawing,
                             &(icl_figure){.name = ICL_PREDICTED_FIGURE,
                                           .title = "Rows held out",
                                           .x_label = labels[0].bytes,
                                           .y_label = labels[1].bytes,
                                           .count = SERIES,
                                           .series = series},
                             error));
done:
    icl_free(&values);
    icl_text_release(&labels[0]);
    icl_text_release(&labels[1]);
    return status;
}

static icl_status add_picture(const icl_regression_report *params, icl_report *report, icl_error *error) {
    ICL_CHECK(draw_predicted(params, error));
    ICL_CHECK(icl_report_section(report, "Predictions and truth", error));
    return icl_report_picture(report, params->folder, ICL_PREDICTED_FIGURE,
                              "Each row predicted from rows outside its fold, over what it is; bars are intervals of "
                              "80 %, and on the dashed line both are equal. Data: heldout.csv.",
                              error);
}

/* ---- Features and rows ---- */

static icl_status add_importances(const icl_regression_report *params, icl_report *report, icl_error *error) {
    static const icl_report_column columns[] = {{"feature", false}, {"importance", true}, {"\u00b1", true}};
    const icl_regression_outcome *outcome = params->outcome;

    if (!outcome->importances)
        return ICL_OK;
    ICL_CHECK(icl_report_section(report, "Features that matter", error));
    ICL_CHECK(icl_report_table_begin(report, columns, sizeof columns / sizeof *columns, error));
    for (size_t i = 0; i < outcome->features; i++) {
        char texts[2][CELL];
        const char *const cells[] = {params->table->names[i], number_text(outcome->importances[i].increase, texts[0]),
                                     number_text(outcome->importances[i].se, texts[1])};
        ICL_CHECK(icl_report_table_row(report, ICL_TONE_PLAIN, cells, error));
    }
    ICL_CHECK(icl_report_table_end(report, error));
    return icl_report_paragraph(report,
                                "Importance is what the error of the predictions on held-out rows gains, over that of "
                                "the mean, when the feature's values are permuted among them.",
                                error);
}

static icl_status add_predictions(const icl_regression_report *params, icl_report *report, icl_error *error) {
    static const icl_report_column columns[] = {{"line", true},      {"prediction", true}, {"80 % from", true},
                                                {"50 % from", true}, {"50 % to", true},    {"80 % to", true}};
    const icl_regression_outcome *outcome = params->outcome;
    const size_t shown = outcome->predicted < MOST_ROWS ? outcome->predicted : MOST_ROWS;
    char note[96];

    if (shown == 0)
        return ICL_OK;
    ICL_CHECK(icl_report_section(report, "Rows predicted", error));
    ICL_CHECK(icl_report_table_begin(report, columns, sizeof columns / sizeof *columns, error));
    for (size_t row = 0; row < shown; row++) {
        const icl_forecast *answer = outcome->forecasts + row * ICL_METHODS + outcome->answer;
        char texts[6][CELL];
        snprintf(texts[0], CELL, "%zu", outcome->lines[row]);
        const char *const cells[] = {texts[0],
                                     number_text(answer->mean, texts[1]),
                                     number_text(answer->low_80, texts[2]),
                                     number_text(answer->low_50, texts[3]),
                                     number_text(answer->high_50, texts[4]),
                                     number_text(answer->high_80, texts[5])};
        ICL_CHECK(icl_report_table_row(report, ICL_TONE_PLAIN, cells, error));
    }
    ICL_CHECK(icl_report_table_end(report, error));
    if (shown == outcome->predicted)
        return ICL_OK;
    snprintf(note, sizeof note, "The first %zu of %zu rows: predictions.csv has all.", shown, outcome->predicted);
    return icl_report_paragraph(report, note, error);
}

/* ---- The whole ---- */

/* Lists the changes to the table before anything was learned from it. */
static icl_status add_steps(const icl_regression_report *params, icl_report *report, icl_error *error) {
    if (params->table->step_count == 0)
        return ICL_OK;
    ICL_CHECK(icl_report_section(report, "The table as it came", error));
    for (size_t i = 0; i < params->table->step_count; i++)
        ICL_CHECK(icl_report_paragraph(report, params->table->steps[i].text, error));
    return ICL_OK;
}

static icl_status add_facts(const icl_regression_report *params, icl_report *report, icl_error *error) {
    const icl_regression_outcome *outcome = params->outcome;
    char rows[96], features[32], folds[96];

    snprintf(rows, sizeof rows, "%zu with the target, of %zu", outcome->labelled, params->table->rows);
    snprintf(features, sizeof features, "%zu", outcome->features);
    snprintf(folds, sizeof folds, "%zu folds, %zu time%s, seed %" PRIu32, outcome->folds, outcome->repeats,
             outcome->repeats == 1 ? "" : "s", params->seed);
    const icl_report_fact facts[] = {{"data", params->table->name},
                                     {"target", name_of_target(params)},
                                     {"rows", rows},
                                     {"features", features},
                                     {"held out", folds}};
    return icl_report_provenance(
        report, &(icl_provenance){.facts = facts, .count = sizeof facts / sizeof *facts, .device = NULL}, error);
}

static icl_status add_sections(const icl_regression_report *params, icl_report *report, icl_error *error) {
    ICL_CHECK(add_scores(params, report, error));
    ICL_CHECK(add_notes(params, report, error));
    ICL_CHECK(add_picture(params, report, error));
    ICL_CHECK(add_importances(params, report, error));
    ICL_CHECK(add_predictions(params, report, error));
    ICL_CHECK(add_steps(params, report, error));
    return add_facts(params, report, error);
}

icl_status icl_regression_report_write(const icl_regression_report *params, icl_error *error) {
    const icl_regression_outcome *outcome = params->outcome;
    icl_report *report = NULL;
    icl_text lead = {0}, title = {0};
    char texts[2][CELL];
    icl_status status = ICL_OK;

    if (!outcome->heldout)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "icl_regression_report_write: %s: expected an outcome with held-out rows", params->table->name);
    ICL_TRY(icl_report_create(&report, error));
    ICL_TRY(add_sections(params, report, error));
    ICL_TRY(
        icl_text_print(&lead, error,
                       "On %zu rows, each predicted from rows outside its fold, the mean squared error of "
                       "predictions by %s is %s times that of the mean, and intervals of 80 %% hold %s of the targets.",
                       outcome->labelled - outcome->held_from, icl_method_name(outcome->answer),
                       number_text(outcome->scores[outcome->answer].relative_mse, texts[0]),
                       number_text(outcome->scores[outcome->answer].coverage_80, texts[1])));
    ICL_TRY(icl_text_print(&title, error, "%s of %s, predicted", name_of_target(params),
                           icl_path_name(params->table->name)));
    ICL_TRY(icl_report_write(report, title.bytes, lead.bytes, params->folder, error));
done:
    icl_text_release(&lead);
    icl_text_release(&title);
    icl_report_destroy(&report);
    return status;
}
