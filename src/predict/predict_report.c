/* Reports of predictions: notes in words, held-out errors beside the classical regressions, and pictures of both. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/print.h"
#include "iclab/file.h"
#include "iclab/predict.h"
#include "iclab/text.h"
#include "predict/predict.h"
#include "report/figure.h"
#include "report/report.h"

/* ---- Notes ---- */

/* Notes warn a user of predictions that should not be trusted. */

/* A context more than this many times as long as those of training deserves a model of its own. */
#define MORE_ROWS 2

/* A component of less than this share of the largest variance is used, but it may throw a new row far away. */
#define WEAK_SHARE 1e-6

/* A component, a unit vector, is made of the features whose entries are at least this large. */
#define LOADING 0.1

static icl_status note_scores(const icl_predict_outcome *outcome, icl_text *notes, icl_error *error) {
    const icl_predict_score *mean = &outcome->scores[1 + ICL_REFERENCE_MEAN];

    if (outcome->folds > 0 && outcome->scores[0].r_squared < 0 && icl_predict_verdict(mean) == 1)
        ICL_CHECK(icl_text_print(notes, error,
                                 "the model's error is above that of the mean of the labels (r_squared %.2g): it has "
                                 "nothing to say about this table\n",
                                 outcome->scores[0].r_squared));
    if (outcome->context > MORE_ROWS * outcome->trained_context)
        ICL_CHECK(
            icl_text_print(notes, error,
                           "it was trained on %zu rows at once: one trained with task.n = %zu would trust so many "
                           "more\n",
                           outcome->trained_context, outcome->context));
    if (outcome->not_finite > 0)
        ICL_CHECK(icl_text_print(notes, error,
                                 "%zu of the model's predictions are not finite: these rows are unlike what it was "
                                 "trained on\n",
                                 outcome->not_finite));
    return ICL_OK;
}

/* Notes rows without a target whose prediction is farther outside the labels than the labels' span. */
static icl_status note_far_rows(const icl_predict_outcome *outcome, const icl_table *table, icl_text *notes,
                                icl_error *error) {
    double least = HUGE_VAL, most = -HUGE_VAL;
    size_t far = 0;

    for (size_t i = 0; i < outcome->labelled; i++) {
        const double label = table->values[(outcome->rows[i] + 1) * table->columns - 1];
        least = fmin(least, label);
        most = fmax(most, label);
    }
    for (size_t i = 0; i < outcome->predicted; i++) {
        const double prediction = outcome->predictions[i * ICL_PREDICTORS];
        far += prediction < least - (most - least) || prediction > most + (most - least);
    }
    if (far == 0)
        return ICL_OK;
    return icl_text_print(
        notes, error,
        "%zu of the model's %zu predictions for new rows lie far outside the labels, %.4g to %.4g: these rows are "
        "unlike those learned from\n",
        far, outcome->predicted, least, most);
}

/* Returns whether components [first, end) make up a visible part of a feature that varies. */
static bool loads(const icl_standardization *z, size_t feature, size_t first, size_t end) {
    double square = 0;

    for (size_t k = first; k < end; k++)
        square += z->eigenvectors[k * z->features + feature] * z->eigenvectors[k * z->features + feature];
    return z->deviations[feature] > 0 && square > LOADING * LOADING;
}

/* Names the features that components [first, end) consist of, if there are two or more. */
static icl_status name_features(const icl_standardization *z, const icl_table *table, size_t first, size_t end,
                                const char *consequence, icl_text *notes, icl_error *error) {
    size_t count = 0;

    for (size_t k = 0; k < z->features; k++)
        count += loads(z, k, first, end);
    if (count < 2)
        return ICL_OK;
    ICL_CHECK(icl_text_print(notes, error, "columns"));
    for (size_t k = 0, named = 0; k < z->features; k++)
        if (loads(z, k, first, end))
            ICL_CHECK(icl_text_print(notes, error, "%s %s", named++ > 0 ? "," : "", table->names[k]));
    return icl_text_print(notes, error, " nearly determine each other: %s\n", consequence);
}

/* Notes dependent features. Those that were left out are not noted if there are no more rows than features, because
 * features then always determine each other. */
static icl_status note_dependent(const icl_standardization *z, const icl_table *table, icl_text *notes,
                                 icl_error *error) {
    const size_t p = z->features, kept = p - z->rank;
    size_t strong = kept;

    if (z->rows > p)
        ICL_CHECK(name_features(z, table, 0, kept, "what they differ by is left out of what is learned", notes, error));
    while (strong < p && z->eigenvalues[strong] < WEAK_SHARE * z->eigenvalues[p - 1])
        strong++;
    return name_features(z, table, kept, strong, "where a new row breaks that, its prediction goes astray", notes,
                         error);
}

/* Returns whether a column holds different numbers in the rows that were learned from. */
static bool varies(const icl_predict_outcome *outcome, const icl_table *table, size_t column) {
    const double *values = table->values + column;

    for (size_t i = 1; i < outcome->labelled; i++)
        if (values[outcome->rows[i] * table->columns] != values[outcome->rows[0] * table->columns])
            return true;
    return false;
}

static icl_status note_features(const icl_predict_outcome *outcome, const icl_table *table, icl_text *notes,
                                icl_error *error) {
    const icl_standardization *z = &outcome->standardization;
    const size_t p = z->features;
    for (size_t k = 0; k < p; k++)
        if (z->deviations[k] == 0 && varies(outcome, table, k))
            ICL_CHECK(
                icl_text_print(notes, error,
                               "column %s is left out of what is learned: it varies by less than 1e-12 of its size, "
                               "or by less than 1e-162\n",
                               table->names[k]));
    return note_dependent(z, table, notes, error);
}

icl_status icl_predict_notes(const icl_predict_outcome *outcome, const icl_table *table, icl_text *notes,
                             icl_error *error) {
    ICL_CHECK(note_scores(outcome, notes, error));
    ICL_CHECK(note_far_rows(outcome, table, notes, error));
    ICL_CHECK(icl_note_series(&outcome->series, outcome->labelled - outcome->held_from, notes, error));
    return note_features(outcome, table, notes, error);
}

/* ---- Reports ---- */

#define PREDICTED_FIGURE ICL_PREDICTED_FIGURE
#define RESIDUALS_FIGURE "residuals"

/* The most rows that a report shows; all are in predictions.csv. */
#define MOST_ROWS 50

enum { OLS = 1 + ICL_REFERENCE_OLS, CELL = 32 };

static const char *number_text(double value, char text[CELL]) {
    icl_print(text, CELL, isnan(value) ? "-" : "%.4g", value);
    return text;
}

static const char *target_of(const icl_predict_report *params) {
    return params->table->names[params->table->columns - 1];
}

/* ---- Held-out errors ---- */

static icl_status add_score(const icl_predict_report *params, size_t predictor, icl_report *report, icl_error *error) {
    const icl_predict_score *score = &params->outcome->scores[predictor];
    char texts[6][CELL];
    const char *const cells[] = {icl_predictor_name(predictor),
                                 number_text(score->mse, texts[0]),
                                 number_text(score->se, texts[1]),
                                 number_text(sqrt(score->mse), texts[2]),
                                 number_text(score->r_squared, texts[3]),
                                 predictor > 0 ? number_text(score->minus_model, texts[4]) : "",
                                 predictor > 0 ? number_text(score->minus_model_se, texts[5]) : ""};

    return icl_report_table_row(report, predictor == 0 ? ICL_TONE_STRONG : ICL_TONE_PLAIN, cells, error);
}

static icl_status add_scores(const icl_predict_report *params, icl_report *report, icl_error *error) {
    static const icl_report_column columns[] = {{"predictor", false}, {"mse", true},     {"\u00b1", true},
                                                {"rmse", true},       {"R\u00b2", true}, {"minus the model's", true},
                                                {"\u00b1", true}};

    ICL_CHECK(icl_report_section(report, "Errors on rows held out", error));
    ICL_CHECK(icl_report_table_begin(report, columns, sizeof columns / sizeof *columns, error));
    for (size_t i = 0; i < icl_predictor_count(params->outcome); i++)
        ICL_CHECK(add_score(params, i, report, error));
    ICL_CHECK(icl_report_table_end(report, error));
    return icl_report_paragraph(report,
                                "\u00b1 is one standard error; that of a difference to the model is of the paired "
                                "errors, row by row. R\u00b2 is 1 less the mse over that of the mean, on rows not "
                                "seen. ols is least squares; ridge has its penalty by leave-one-out; adarr has the "
                                "residual variance as its penalty.",
                                error);
}

/* ---- Pictures ---- */

/* Draws the predictions' errors over the truth. */
static icl_status draw_residuals(const icl_predict_report *params, const icl_drawing *drawing, icl_error *error) {
    enum { SERIES = 3 };
    const icl_predict_outcome *outcome = params->outcome;
    const size_t count = outcome->labelled - outcome->held_from;
    double *values = NULL, ends[2] = {HUGE_VAL, -HUGE_VAL};
    icl_text labels[2] = {{0}, {0}};
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(SERIES * count, sizeof *values, "points of a figure", &values, error));
    for (size_t i = 0; i < count; i++) {
        const size_t place = outcome->held_from + i;
        const double truth = params->table->values[(outcome->rows[place] + 1) * params->table->columns - 1];
        values[i] = truth;
        values[count + i] = outcome->heldout[place * ICL_PREDICTORS] - truth;
        values[2 * count + i] = outcome->heldout[place * ICL_PREDICTORS + OLS] - truth;
        ends[0] = fmin(ends[0], truth);
        ends[1] = fmax(ends[1], truth);
    }
    ICL_TRY(icl_text_print(&labels[0], error, "%s, as it is", target_of(params)));
    ICL_TRY(icl_text_print(&labels[1], error, "%s: prediction less truth", target_of(params)));
    const double zero[2] = {0, 0};
    const icl_series series[SERIES] = {
        {"model", ICL_SERIES_CLOUD, count, values, values + count, NULL},
        {"ols", ICL_SERIES_PUBLISHED, count, values, values + 2 * count, NULL},
        {"none", ICL_SERIES_REFERENCE, 2, ends, zero, NULL},
    };
    ICL_TRY(icl_figure_write(drawing,
                             &(icl_figure){.name = RESIDUALS_FIGURE,
                                           .title = "Residuals of rows held out",
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

static icl_status add_pictures(const icl_predict_report *params, icl_report *report, icl_error *error) {
    const icl_drawing drawing = {
        .folder = params->folder, .command = "iclab predict", .draw = params->draw, .user = params->user};

    ICL_CHECK(draw_residuals(params, &drawing, error));
    ICL_CHECK(icl_report_section(report, "Predictions and truth", error));
    ICL_CHECK(icl_report_picture(report, params->folder, PREDICTED_FIGURE,
                                 "Each row predicted from rows outside its fold, over what it is; on the dashed line "
                                 "both are equal. Data: heldout.csv.",
                                 error));
    return icl_report_picture(report, params->folder, RESIDUALS_FIGURE,
                              "What the predictions lie above the truth. A slope says that predictions are drawn to "
                              "the mean, as those of every predictor that shrinks are.",
                              error);
}

/* ---- Rows that were predicted ---- */

static icl_status add_predictions(const icl_predict_report *params, icl_report *report, icl_error *error) {
    const icl_predict_outcome *outcome = params->outcome;
    const size_t shown = outcome->predicted < MOST_ROWS ? outcome->predicted : MOST_ROWS;
    const size_t predictors = icl_predictor_count(outcome);
    icl_report_column columns[1 + ICL_PREDICTORS] = {{"line", true}};
    icl_text note = {0};
    icl_status status = ICL_OK;

    if (shown == 0)
        return ICL_OK;
    for (size_t i = 0; i < predictors; i++)
        columns[1 + i] = (icl_report_column){icl_predictor_name(i), true};
    ICL_TRY(icl_report_section(report, "Rows predicted", error));
    ICL_TRY(icl_report_table_begin(report, columns, 1 + predictors, error));
    for (size_t row = 0; row < shown; row++) {
        char texts[1 + ICL_PREDICTORS][CELL];
        const char *cells[1 + ICL_PREDICTORS] = {texts[0]};
        snprintf(texts[0], CELL, "%zu", outcome->lines[row]);
        for (size_t i = 0; i < predictors; i++)
            cells[1 + i] = number_text(outcome->predictions[row * ICL_PREDICTORS + i], texts[1 + i]);
        ICL_TRY(icl_report_table_row(report, ICL_TONE_PLAIN, cells, error));
    }
    ICL_TRY(icl_report_table_end(report, error));
    if (shown < outcome->predicted) {
        ICL_TRY(icl_text_print(&note, error, "The first %zu of %zu rows: predictions.csv has all.", shown,
                               outcome->predicted));
        ICL_TRY(icl_report_paragraph(report, note.bytes, error));
    }
done:
    icl_text_release(&note);
    return status;
}

/* Adds a paragraph for each line of the notes. */
static icl_status add_notes(const icl_predict_report *params, icl_report *report, icl_error *error) {
    icl_text notes = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_predict_notes(params->outcome, params->table, &notes, error));
    status = icl_report_paragraphs(report, notes.bytes, error);
done:
    icl_text_release(&notes);
    return status;
}

/* ---- The table ---- */

/* Lists the changes to the table before anything was learned from it. */
static icl_status add_steps(const icl_predict_report *params, icl_report *report, icl_error *error) {
    if (params->table->step_count == 0)
        return ICL_OK;
    ICL_CHECK(icl_report_section(report, "The table as it came", error));
    for (size_t i = 0; i < params->table->step_count; i++)
        ICL_CHECK(icl_report_paragraph(report, params->table->steps[i].text, error));
    return ICL_OK;
}

/* ---- The whole ---- */

static icl_status add_facts(const icl_predict_report *params, icl_report *report, icl_error *error) {
    const icl_predict_outcome *outcome = params->outcome;
    char rows[96], features[128], shown[128], folds[96];

    snprintf(rows, sizeof rows, "%zu with the target, of %zu", outcome->labelled, params->table->rows);
    snprintf(features, sizeof features, "%zu of the model's %zu inputs, %s", outcome->features, outcome->dimension,
             outcome->whitened ? "standardized and whitened" : "standardized");
    snprintf(shown, sizeof shown, "%zu rows, %zu time%s (trained on %zu)", outcome->context, outcome->prompts,
             outcome->prompts == 1 ? "" : "s", outcome->trained_context);
    snprintf(folds, sizeof folds, "%zu folds, %zu time%s, seed %" PRIu32, outcome->folds, outcome->repeats,
             outcome->repeats == 1 ? "" : "s", params->seed);
    const icl_report_fact facts[] = {
        {"model", params->run}, {"data", params->table->name}, {"target", target_of(params)}, {"rows", rows},
        {"features", features}, {"held out", folds},           {"the model is shown", shown}};
    return icl_report_provenance(
        report, &(icl_provenance){.facts = facts, .count = sizeof facts / sizeof *facts, .device = params->device},
        error);
}

/* Says which of the other predictors the model is better and worse than, by two standard errors of the paired
 * difference. */
static icl_status write_lead(const icl_predict_report *params, icl_text *lead, icl_error *error) {
    static const char *const verdicts[] = {"better than", "worse than", "not clearly different from"};
    const icl_predict_score *model = &params->outcome->scores[0];
    const char *before = " It is ";
    char texts[2][CELL];

    ICL_CHECK(icl_text_print(lead, error,
                             "On %zu rows, each predicted from rows outside its fold, the model's mean squared error "
                             "is %s \u00b1 %s.",
                             params->outcome->labelled - params->outcome->held_from, number_text(model->mse, texts[0]),
                             number_text(model->se, texts[1])));
    for (int verdict = 0; verdict < 3; verdict++) {
        const char *comma = "";
        for (size_t i = 1; i < icl_predictor_count(params->outcome); i++) {
            if (icl_predict_verdict(&params->outcome->scores[i]) != verdict)
                continue;
            if (!*comma)
                ICL_CHECK(icl_text_print(lead, error, "%s%s", before, verdicts[verdict]));
            ICL_CHECK(icl_text_print(lead, error, "%s %s", comma, icl_predictor_name(i)));
            comma = ",";
            before = "; ";
        }
    }
    return icl_text_print(lead, error, ".");
}

/* Checks sizes, because the outcome refers to rows of the table by number. */
static icl_status check_sizes(const icl_predict_report *params, icl_error *error) {
    const icl_predict_outcome *outcome = params->outcome;
    const icl_table *table = params->table;

    if (table->columns == outcome->features + 1 && outcome->labelled > 0 &&
        outcome->rows[outcome->labelled - 1] < table->rows && outcome->heldout)
        return ICL_OK;
    return icl_fail(error, ICL_ERROR_INPUT,
                    "icl_predict_report_write: %s, of %zu rows and %zu columns: expected the table that the outcome is "
                    "of, with %zu features and a target, and an outcome with held-out rows",
                    table->name, table->rows, table->columns, outcome->features);
}

static icl_status add_sections(const icl_predict_report *params, icl_report *report, icl_error *error) {
    ICL_CHECK(add_scores(params, report, error));
    ICL_CHECK(add_notes(params, report, error));
    ICL_CHECK(add_pictures(params, report, error));
    ICL_CHECK(add_predictions(params, report, error));
    ICL_CHECK(add_steps(params, report, error));
    return add_facts(params, report, error);
}

icl_status icl_predict_report_write(const icl_predict_report *params, icl_error *error) {
    icl_report *report = NULL;
    icl_text lead = {0}, title = {0};
    icl_status status = ICL_OK;

    ICL_TRY(check_sizes(params, error));
    ICL_TRY(icl_report_create(&report, error));
    ICL_TRY(add_sections(params, report, error));
    ICL_TRY(write_lead(params, &lead, error));
    ICL_TRY(icl_text_print(&title, error, "%s of %s, predicted in context", target_of(params),
                           icl_path_name(params->table->name)));
    ICL_TRY(icl_report_write(report, title.bytes, lead.bytes, params->folder, error));
done:
    icl_text_release(&lead);
    icl_text_release(&title);
    icl_report_destroy(&report);
    return status;
}
