/* Reads the report of predictions back by heading and name: held-out errors, the pictures of residuals, rows predicted,
 * and the origin of all of it. */
#include "iclab/predict.h"

#include <math.h>

#include "iclab/run_report.h"
#include "shown_figure.h"
#include "tap.h"

#include "../core/scratch.h"

enum { ROWS = 5, FEATURES = 2, COLUMNS = FEATURES + 1, LABELLED = 4, FRESH = 2 };

/* No two numbers are equal, and none is an index. The second row has no target. */
static double values[ROWS * COLUMNS] = {.5, 61, 10.5, .75, 62, (double)NAN, 1.25, 63, -20, 1.5, 64, 31, 2.5, 65, 42.25};
static size_t table_lines[ROWS] = {12, 13, 14, 15, 16}, labelled[LABELLED] = {0, 2, 3, 4}, lines[FRESH] = {27, 39};
static char name[] = "data/a, \"b\".csv", first[] = "x1", second[] = "x2", target[] = "height <cm>";
static char *names[COLUMNS] = {first, second, target};
static icl_table_step steps[] = {{.what = "separator", .text = target}};
static const icl_table table = {.name = name,
                                .rows = ROWS,
                                .columns = COLUMNS,
                                .values = values,
                                .lines = table_lines,
                                .names = names,
                                .steps = steps,
                                .step_count = 1};

/* The columns are those of the model, mean, ols, ridge and adarr. */
static double heldout[LABELLED][ICL_PREDICTORS] = {
    {11.25, 15, 9.5, 13, 14}, {-17.5, 16, -22.5, 17, 18}, {33, 19, 30.25, 21.75, 22.5}, {47, 23, 41, 24, 26}};
static double predictions[FRESH][ICL_PREDICTORS] = {{7.125, 8.25, -9.375, 6.5, 5.625},
                                                    {3.75, 4.875, 2.125, -1.25, 35.5}};
static const icl_predict_score scores[ICL_PREDICTORS] = {
    {.mse = 16.81, .se = 1.75, .r_squared = .625, .minus_model = 0, .minus_model_se = 0},
    {.mse = 44.89, .se = 4.5, .r_squared = .03125, .minus_model = 28.08, .minus_model_se = 3.25},
    {.mse = 12.25, .se = 1.375, .r_squared = .71875, .minus_model = -4.56, .minus_model_se = .5},
    {.mse = 18.49, .se = 2.125, .r_squared = .5625, .minus_model = 1.68, .minus_model_se = .875},
    {.mse = 29.16, .se = 2.875, .r_squared = .375, .minus_model = 12.35, .minus_model_se = 6.25}};
static double means[COLUMNS], deviations[COLUMNS] = {.53125, 1.625, 23.5}, eigenvalues[FEATURES] = {.8125, 1.1875},
                              eigenvectors[FEATURES * FEATURES] = {.6, .8, -.8, .6};

static const char *const predictors[ICL_TABLE_PREDICTORS] = {"model", "mean", "ols", "ridge", "adarr"};

static icl_predict_outcome make_outcome(void) {
    icl_predict_outcome outcome = {.features = FEATURES,
                                   .dimension = 72,
                                   .trained_context = 73,
                                   .labelled = LABELLED,
                                   .folds = 74,
                                   .repeats = 75,
                                   .context = 76,
                                   .prompts = 77,
                                   .whitened = true,
                                   .standardization = {.features = FEATURES,
                                                       .means = means,
                                                       .deviations = deviations,
                                                       .eigenvalues = eigenvalues,
                                                       .eigenvectors = eigenvectors},
                                   .rows = labelled,
                                   .heldout = &heldout[0][0],
                                   .predicted = FRESH,
                                   .lines = lines,
                                   .predictions = &predictions[0][0]};

    memcpy(outcome.scores, scores, sizeof scores);
    return outcome;
}

/* ---- Tables ---- */

static void check_scores(tap_run *tap, const char *html) {
    shown_table shown = shown_html(html, "Errors on rows held out", NULL);

    tap_ok(tap, shown.rows == 1 + ICL_TABLE_PREDICTORS, "a row for each predictor");
    for (size_t i = 0; i < ICL_TABLE_PREDICTORS; i++) {
        shown_is_measured(tap, &shown, predictors[i], "mse", scores[i].mse, 0);
        shown_is_measured(tap, &shown, predictors[i], "mse>\u00b1", scores[i].se, 0);
        shown_is_measured(tap, &shown, predictors[i], "rmse", sqrt(scores[i].mse), 0);
        shown_is_measured(tap, &shown, predictors[i], "R\u00b2", scores[i].r_squared, 0);
        if (i == 0)
            shown_is(tap, &shown, predictors[i], "minus the model's", "");
        else
            shown_is_measured(tap, &shown, predictors[i], "minus the model's", scores[i].minus_model, 0);
        if (i == 0)
            shown_is(tap, &shown, predictors[i], "minus the model's>\u00b1", "");
        else
            shown_is_measured(tap, &shown, predictors[i], "minus the model's>\u00b1", scores[i].minus_model_se, 0);
        shown_is(tap, &shown, predictors[i], "(tone)", i == 0 ? "strong" : "");
    }
    shown_table_release(&shown);
}

static void check_predictions(tap_run *tap, const char *html) {
    static const char *const rows[FRESH] = {"27", "39"};
    shown_table shown = shown_html(html, "Rows predicted", "line");

    tap_ok(tap, shown.rows == 1 + FRESH, "a row for each line predicted");
    for (size_t row = 0; row < FRESH; row++)
        for (size_t i = 0; i < ICL_TABLE_PREDICTORS; i++)
            shown_is_measured(tap, &shown, rows[row], predictors[i], predictions[row][i], 0);
    shown_table_release(&shown);
}

static void check_facts(tap_run *tap, const char *html) {
    static const char *const facts[][2] = {{"model", "runs/mine"},
                                           {"data", name},
                                           {"target", target},
                                           {"rows", "4 with the target, of 5"},
                                           {"features", "2 of the model's 72 inputs, standardized and whitened"},
                                           {"held out", "74 folds, 75 times, seed 78"},
                                           {"the model is shown", "76 rows, 77 times (trained on 73)"},
                                           {"device", "a device (cpu)"}};
    shown_table shown = shown_facts(html);

    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        shown_is(tap, &shown, facts[i][0], "value", facts[i][1]);
    shown_table_release(&shown);
}

/* ---- The picture ---- */

/* A residual is positive if the prediction is above the truth. */
static void check_residuals(tap_run *tap, scratch_folder *scratch) {
    shown_figure *figure = shown_figure_read(scratch->folder, "residuals");

    shown_axes_are(tap, figure, "height <cm>, as it is", "height <cm>: prediction less truth");
    for (size_t i = 0; i < LABELLED; i++) {
        const double truth = values[labelled[i] * COLUMNS + FEATURES], *row = heldout[i];
        tap_ok(tap, shown_y(figure, "model", truth) == row[0] - truth, "the model's at %g: %g", truth, row[0] - truth);
        tap_ok(tap, shown_y(figure, "ols", truth) == row[2] - truth, "that of ols: %g", row[2] - truth);
    }
    tap_ok(tap,
           shown_curve(figure, "none")->count == 2 && shown_y(figure, "none", -20) == 0 &&
               shown_y(figure, "none", 42.25) == 0,
           "a line without any goes from the least target to the largest");
    shown_figure_free(&figure);
}

int main(void) {
    static const icl_capabilities device = {.name = "a device", .spec = "cpu"};
    const icl_predict_outcome outcome = make_outcome();
    tap_run tap = {0};
    scratch_folder scratch;
    char text[SHOWN_CELL];
    icl_error error = {0};

    scratch_open(&scratch);
    const icl_predict_report report = {.folder = scratch.folder,
                                       .run = "runs/mine",
                                       .table = &table,
                                       .outcome = &outcome,
                                       .device = &device,
                                       .seed = 78};
    tap_status(&tap, icl_predict_report_write(&report, &error), &error, "a report");
    char *html = shown_file(scratch.folder, ICL_REPORT_FILE);
    tap_ok(
        &tap,
        strcmp(shown_element(html, "<p class=\"lead\">", text),
               "On 4 rows, each predicted from rows outside its fold, the model's mean squared error is 16.81 \u00b1 "
               "1.75. It is better than mean; worse than ols; not clearly different from ridge, adarr.") == 0,
        "%s", text);
    tap_ok(&tap, strcmp(shown_element(html, "<h1>", text), "height <cm> of a, \"b\".csv, predicted in context") == 0,
           "%s", text);
    check_scores(&tap, html);
    check_predictions(&tap, html);
    check_facts(&tap, html);
    check_residuals(&tap, &scratch);
    free(html);
    scratch_close(&scratch);
    return tap_done(&tap);
}
