/* Reads reports of runs back by heading and name: the leading sentence, the tables, the origin of their numbers, and
 * the pictures. */
#include "iclab/run_report.h"

#include <math.h>

#include "core/allocate.h"
#include "iclab/file.h"
#include "iclab/number.h"
#include "iclab/session.h"
#include "shown_figure.h"
#include "tap.h"

#include "../core/scratch.h"

enum { MODEL, ORACLE, FITTED, BAYES, CONSTRR, SCORES };

/* No two numbers are the same. */
static const icl_score scores[SCORES] = {
    {.predictor = "model",
     .mse = 3.125,
     .se = 0.375,
     .accuracy = 0.6875,
     .minus_model = (double)NAN,
     .minus_model_se = (double)NAN,
     .adjusted = 1.5,
     .adjusted_se = 0.25,
     .half_adjusted = 0.75,
     .half_adjusted_se = 0.125,
     .half_minus_model = (double)NAN,
     .half_minus_model_se = (double)NAN,
     .half_above_bayes = 0.1875,
     .adjusted_median = 1.125,
     .adjusted_trimmed = 1.375,
     .constants = ""},
    {.predictor = "oracle",
     .mse = 2.5,
     .se = 0.0625,
     .accuracy = 0.8125,
     .minus_model = -0.625,
     .minus_model_se = 0.046875,
     .half_minus_model = -0.7109375,
     .half_minus_model_se = 0.0234375,
     .half_above_bayes = (double)NAN},
    {.predictor = "constrr, \"fitted\"",
     .mse = 2.875,
     .se = 0.09375,
     .accuracy = 0.71875,
     .minus_model = -0.25,
     .minus_model_se = 0.078125,
     .adjusted = 1.0625,
     .adjusted_se = 0.15625,
     .half_adjusted = 0.53125,
     .half_adjusted_se = 0.171875,
     .half_minus_model = -0.21875,
     .half_minus_model_se = 0.0390625,
     .half_above_bayes = 0.203125,
     .adjusted_median = 0.46875,
     .adjusted_trimmed = 0.59375,
     .constants = "penalty 3.5"},
    {.predictor = "bayes",
     .mse = 2.75,
     .se = 0.03125,
     .accuracy = 0.78125,
     .minus_model = -0.375,
     .minus_model_se = 0.0546875,
     .adjusted = 0.875,
     .half_adjusted = 0.4375,
     .half_minus_model = -0.3125,
     .half_minus_model_se = 0.0078125},
    {.predictor = "constrr", .mse = 2.9375, .half_adjusted = 0.6328125, .half_above_bayes = (double)NAN},
};

static const icl_capabilities device = {.name = "a device",
                                        .spec = "cpu:7",
                                        .platform = "a platform",
                                        .driver = "driver 9.1",
                                        .gemm = ICL_GEMM_CLBLAST,
                                        .fast_math = true,
                                        .precision = ICL_PRECISION_BF16};

/* Writes the report of a folder with an empty metrics.csv, for these scores; if these are all, with the memory of a
 * step. text: how a text was cut. */
static char *write_scores(tap_run *tap, scratch_folder *scratch, size_t count, icl_score *own, const char *text_of) {
    icl_evaluation evaluation = {.count = count, .scores = own, .sequences = 12345};
    const icl_run_facts facts = {.device = &device,
                                 .recipe_name = "recipe",
                                 .command_line = "iclab train a \"recipe\"",
                                 .seed = 7,
                                 .steps = 9,
                                 .skipped_steps = 4,
                                 .dropped_sequences = 6,
                                 .startup_seconds = 1.5,
                                 .training_seconds = 12.5,
                                 .status = "finished",
                                 .step_memory = count == SCORES ? 3 * 1048576.0 : 0};
    icl_recipe *recipe = NULL;
    char *text = NULL;
    size_t size;
    icl_error error = {0};
    icl_status status = icl_recipe_create_complete(&recipe, &error);

    if (status == ICL_OK)
        status = icl_recipe_override(recipe, "task.d=17", &error);
    snprintf(evaluation.text, sizeof evaluation.text, "%s", text_of);
    const icl_run_report run = {
        .folder = scratch->folder, .recipe = recipe, .facts = &facts, .evaluation = &evaluation};
    if (status == ICL_OK)
        status = icl_run_report_write(&run, &error);
    if (status == ICL_OK)
        status = icl_file_read(scratch_path(scratch, "report.html"), 0, &text, &size, &error);
    tap_status(tap, status, &error, "a report");
    icl_recipe_destroy(&recipe);
    return text;
}

/* Does so for the first `count` scores. */
static char *write_report(tap_run *tap, scratch_folder *scratch, size_t count, icl_loss_kind kind) {
    icl_score own[SCORES];

    memcpy(own, scores, sizeof own);
    own[MODEL].loss_kind = kind;
    if (count <= ORACLE || kind != ICL_LOSS_SQUARED_ERROR) /* without an oracle there is no adjusted loss */
        own[MODEL].adjusted = own[MODEL].half_adjusted = own[MODEL].half_adjusted_se = (double)NAN;
    for (size_t i = 0; i < SCORES; i++)
        own[i].bits_per_byte = own[i].bits_per_byte_se = (double)NAN;
    return write_scores(tap, scratch, count, own, "");
}

/* Checks the lead "On 12345 … `quantity` is LOSS ± SPREAD", and the floor that it names: none if floor is 0. */
static void check_lead(tap_run *tap, const char *html, const char *quantity, double loss, double spread, double floor) {
    char expected[512], lead[SHOWN_CELL], of_floor[128] = "";

    if (floor > 0)
        snprintf(of_floor, sizeof of_floor, "; bayes, the floor for any predictor that is not told sigma, has %.4f",
                 floor);
    snprintf(expected, sizeof expected, "On 12345 fresh sequences the model's %s is %.4f \u00b1 %.4f%s.", quantity,
             loss, spread, of_floor);
    tap_ok(tap, strcmp(shown_element(html, "<p class=\"lead\">", lead), expected) == 0, "%s", expected);
}

/* ---- Tables ---- */

/* The table of a task with an oracle has every number of each predictor under its own heading. */
static void check_adjusted_table(tap_run *tap, const char *html) {
    shown_table table = shown_html(html, "Beside the reference predictors", NULL);

    tap_ok(tap, table.rows == 1 + SCORES, "a row for each predictor");
    for (size_t i = MODEL; i <= FITTED; i++) {
        const icl_score *score = &scores[i];
        shown_is_number(tap, &table, score->predictor, "mse", score->mse, 4);
        shown_is_number(tap, &table, score->predictor, "mse>se", score->se, 4);
        shown_is_number(tap, &table, score->predictor, "half_adjusted", score->half_adjusted, 4);
        shown_is_number(tap, &table, score->predictor, "half_adjusted>se", score->half_adjusted_se, 4);
        shown_is_number(tap, &table, score->predictor, "half_above_bayes", score->half_above_bayes, 4);
        shown_is_number(tap, &table, score->predictor, "half_median", score->adjusted_median / 2, 4);
        shown_is_number(tap, &table, score->predictor, "half_trimmed", score->adjusted_trimmed / 2, 4);
        shown_is_number(tap, &table, score->predictor, "half_minus_model", score->half_minus_model, 4);
        shown_is_number(tap, &table, score->predictor, "half_minus_model>se", score->half_minus_model_se, 4);
        shown_is(tap, &table, score->predictor, "fitted constants", score->constants);
        shown_is(tap, &table, score->predictor, "(tone)", i == MODEL ? "strong" : "");
    }
    shown_table_release(&table);
}

/* The table of a task without an oracle has the task's own loss and, if there are classes, the share of right
 * answers. */
static void check_loss_table(tap_run *tap, const char *html, icl_loss_kind kind) {
    const char *name = icl_loss_name(kind);
    shown_table table = shown_html(html, "Beside the reference predictors", NULL);

    for (size_t i = MODEL; i <= ORACLE; i++) {
        const icl_score *score = &scores[i];
        char error_heading[64];
        snprintf(error_heading, sizeof error_heading, "%s>se", name);
        shown_is_number(tap, &table, score->predictor, name, score->mse, 4);
        shown_is_number(tap, &table, score->predictor, error_heading, score->se, 4);
        shown_is_number(tap, &table, score->predictor, "minus_model", score->minus_model, 4);
        shown_is_number(tap, &table, score->predictor, "minus_model>se", score->minus_model_se, 4);
        if (icl_loss_has_accuracy(kind))
            shown_is_number(tap, &table, score->predictor, "accuracy", score->accuracy, 4);
    }
    tap_ok(tap, (shown_column(&table, "accuracy") < SHOWN_COLUMNS) == icl_loss_has_accuracy(kind),
           "an accuracy for classes alone");
    shown_table_release(&table);
}

/* The table and the lead of a text are in bits per byte. */
static void check_text(tap_run *tap, scratch_folder *scratch) {
    icl_score own[ORACLE + 1];
    char lead[SHOWN_CELL];

    memcpy(own, scores, sizeof own);
    for (size_t i = MODEL; i <= ORACLE; i++) {
        own[i].loss_kind = ICL_LOSS_CROSS_ENTROPY;
        own[i].half_adjusted = (double)NAN;
        own[i].bits_per_byte = 4.5 + 0.25 * (double)i;
        own[i].bits_per_byte_se = 0.5625 + 0.25 * (double)i;
    }
    char *html = write_scores(tap, scratch, ORACLE + 1, own, "the last bytes");
    shown_table table = shown_html(html, "Beside the reference predictors", NULL);
    for (size_t i = MODEL; i <= ORACLE; i++) {
        shown_is_number(tap, &table, own[i].predictor, "bits_per_byte", own[i].bits_per_byte, 4);
        shown_is_number(tap, &table, own[i].predictor, "bits_per_byte>se", own[i].bits_per_byte_se, 4);
        shown_is_number(tap, &table, own[i].predictor, "cross-entropy", own[i].mse, 4);
    }
    tap_ok(tap,
           strcmp(shown_element(html, "<p class=\"lead\">", lead),
                  "The model takes 4.5000 \u00b1 0.5625 bits per byte: the last bytes.") == 0,
           "%s", lead);
    tap_ok(tap, html && !strstr(html, "What held-out bytes cost"), "no passage without a trainer");
    shown_table_release(&table);
    icl_free(&html);
}

/* A model without references has a loss and its error, and no difference to itself. */
static void check_alone(tap_run *tap, const char *html) {
    shown_table table = shown_html(html, "On fresh sequences", NULL);

    shown_is_number(tap, &table, "model", "cross-entropy", scores[MODEL].mse, 4);
    shown_is_number(tap, &table, "model", "cross-entropy>se", scores[MODEL].se, 4);
    shown_is_number(tap, &table, "model", "accuracy", scores[MODEL].accuracy, 4);
    tap_ok(tap, table.columns == 4 + 2, "and no column without a number");
    shown_table_release(&table);
}

static void check_facts(tap_run *tap, const char *html) {
    static const char *const facts[][2] = {
        {"command", "iclab train a \"recipe\""},
        {"recipe", "recipe"},
        {"seed", "7"},
        {"steps", "9 (4 skipped; 6 sequences left out)"},
        {"a step holds", "3.0 MiB"},
        {"this command trained for", "12.5 s, and 1.5 s to its first step"},
        {"device", "a device (cpu:7)"},
        {"platform", "a platform"},
        {"driver", "driver 9.1"},
        {"matrix products", "clblast"},
        {"arithmetic", "relaxed: error bounds do not hold"},
        {"operands of matrix products", "bf16"},
    };
    shown_table table = shown_facts(html);

    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        shown_is(tap, &table, facts[i][0], "value", facts[i][1]);
    shown_table_release(&table);
}

/* The recipe's table has the keys that are not at their default, each with its value and its default. */
static void check_recipe(tap_run *tap, const char *html) {
    icl_recipe *recipe = NULL;
    size_t count = 0, row = 0;
    shown_table table = shown_html(html, "Recipe", NULL);

    tap_ok(tap, table.rows == 2 && icl_recipe_create_complete(&recipe, NULL) == ICL_OK, "one key differs");
    shown_is(tap, &table, "task.d", "value", "17");
    const icl_recipe_key *keys = icl_recipe_keys(recipe, &count);
    while (row < count && (strcmp(keys[row].section, "task") != 0 || strcmp(keys[row].name, "d") != 0))
        row++;
    if (tap_ok(tap, row < count && keys[row].help, "the key task.d")) {
        shown_is(tap, &table, "task.d", "default", keys[row].default_value);
        shown_is(tap, &table, "task.d", "meaning", keys[row].help);
    }
    shown_table_release(&table);
    icl_recipe_destroy(&recipe);
}

/* ---- Pictures ---- */

static void check_level(tap_run *tap, const shown_figure *figure, const char *name, double value) {
    const shown_series *level = shown_curve(figure, name);

    tap_ok(tap, level->count == 2 && level->x[0] == 1 && level->x[1] == 3, "%s: from the first step to the last", name);
    tap_ok(tap, level->count == 2 && level->y[0] == value && level->y[1] == value, "%s: at %g", name, value);
}

/* One picture has the training's losses beside the mean squared errors, another has the evaluations during training
 * beside half of the adjusted ones. */
static void check_pictures(tap_run *tap, scratch_folder *scratch) {
    static const double steps[] = {1, 2, 3}, losses[] = {3.5, 3.25, 2.625}, on_the_way[] = {0.96875, 0.84375, 0.90625};
    shown_figure *loss = shown_figure_read(scratch->folder, "loss");
    shown_figure *adjusted = shown_figure_read(scratch->folder, "adjusted");

    shown_axes_are(tap, loss, "step", "squared error (squares of y's unit)");
    shown_axes_are(tap, adjusted, "step", "half the squared distance to the oracle (squares of y's unit)");
    for (size_t i = 0; i < 3; i++) {
        const double seen = shown_y(adjusted, "the model, on the same few sequences every time", steps[i]);
        tap_ok(tap, shown_y(loss, "training loss", steps[i]) == losses[i], "the loss of step %zu", i + 1);
        tap_ok(tap, seen == on_the_way[i], "the evaluation behind step %zu", i + 1);
    }
    check_level(tap, loss, "the model on fresh sequences, at the end", scores[MODEL].mse);
    check_level(tap, loss, "bayes, the floor, at the end", scores[BAYES].mse);
    check_level(tap, adjusted, "bayes, the floor, at the end", scores[BAYES].half_adjusted);
    check_level(tap, adjusted, "constrr, at the end", scores[CONSTRR].half_adjusted);
    tap_ok(tap, loss && loss->count == 3 && adjusted && adjusted->count == 3, "and no other curve");
    shown_figure_free(&loss);
    shown_figure_free(&adjusted);
}

static void check_units(tap_run *tap, scratch_folder *scratch, const char *unit) {
    shown_figure *figure = shown_figure_read(scratch->folder, "loss");

    shown_axes_are(tap, figure, "step", unit);
    shown_figure_free(&figure);
}

/* If there are more rows than a picture has points, it shows medians of groups, within a band from the least to the
 * largest of each. */
static void check_band(tap_run *tap, scratch_folder *scratch) {
    enum { ROWS = 801, A_POINT = 3 };
    char *rows = calloc(ROWS + 1, 32), *end = rows + snprintf(rows, 64, "%s\n", ICL_METRICS_HEADER), *html;
    static const char band[] = "least to largest of these steps";
    static const char line[] = "training loss, medians of 3 rows of metrics.csv";

    for (int step = 1; rows && step <= ROWS; step++)
        end += sprintf(end, "%d,%.7g,,,\n", step,
                       step + (step % A_POINT == 1   ? 1000.
                               : step % A_POINT == 2 ? 200.
                                                     : 30.));
    scratch_write(scratch, "metrics.csv", rows, (size_t)(end - rows));
    html = write_report(tap, scratch, 1, ICL_LOSS_SQUARED_ERROR);
    shown_figure *figure = shown_figure_read(scratch->folder, "loss");
    /* The losses of steps 4, 5 and 6 are 1004, 205 and 36. */
    tap_ok(tap, shown_y(figure, line, 6) == 205, "the median of three rows: %g", shown_y(figure, line, 6));
    tap_ok(tap, shown_y(figure, band, 6) < 205 && shown_bar(figure, band, 6) > 205 && shown_bar(figure, band, 6) < 1005,
           "lies inside their band: %g to %g", shown_y(figure, band, 6), shown_bar(figure, band, 6));
    shown_figure_free(&figure);
    icl_free(&html);
    free(rows);
}

static bool is_logarithmic(scratch_folder *scratch) {
    shown_figure *figure = shown_figure_read(scratch->folder, "loss");
    const bool logarithmic = figure && figure->log_y;

    shown_figure_free(&figure);
    return logarithmic;
}

/* Writes metrics.csv with these rows and a report, in which the model's error is 3.125. */
static char *write_losses(tap_run *tap, scratch_folder *scratch, const char *rows) {
    char metrics[1024];

    snprintf(metrics, sizeof metrics, "%s\n%s", ICL_METRICS_HEADER, rows);
    scratch_write(scratch, "metrics.csv", metrics, strlen(metrics));
    return write_report(tap, scratch, 1, ICL_LOSS_SQUARED_ERROR);
}

/* A logarithmic axis needs losses of more than a decade; a spike is cut off, which the caption says. */
static void check_axis(tap_run *tap, scratch_folder *scratch) {
    char rows[1024] = "";
    char *html = write_losses(tap, scratch, "1,3,1,0.1,\n2,0.3125,1,0.1,\n");

    tap_ok(tap, html && !is_logarithmic(scratch), "losses from a tenth of the largest on: a plain axis");
    icl_free(&html);
    html = write_losses(tap, scratch, "1,3,1,0.1,\n2,0.3124,1,0.1,\n");
    tap_ok(tap, html && is_logarithmic(scratch) && !strstr(html, "Spikes"), "from less on: a logarithmic one");
    icl_free(&html);
    for (int step = 1; step <= 21; step++)
        snprintf(rows + strlen(rows), sizeof rows - strlen(rows), "%d,%s,1,0.1,\n", step, step == 7 ? "25" : "2");
    html = write_losses(tap, scratch, rows);
    tap_ok(tap, html && strstr(html, " Spikes up to 25 lie above the picture.") && !is_logarithmic(scratch),
           "a spike lies above the picture, and has no say in its axis");
    icl_free(&html);
}

static size_t count_of(const char *text, const char *part) {
    size_t count = 0;

    for (const char *at = text; (at = strstr(at, part)); at += strlen(part))
        count++;
    return count;
}

/* What is begun is ended. */
static void check_tags(tap_run *tap, const char *html) {
    static const char *const tags[][2] = {
        {"<table", "</table>"},     {"<thead", "</thead>"},     {"<tbody", "</tbody>"},
        {"<tr", "</tr>"},           {"<section", "</section>"}, {"<figure", "</figure>"},
        {"<details", "</details>"}, {"<pre", "</pre>"},         {"<ul", "</ul>"}};

    for (size_t i = 0; html && i < sizeof tags / sizeof *tags; i++)
        tap_ok(tap, count_of(html, tags[i][0]) == count_of(html, tags[i][1]), "each of %zu %s> is ended",
               count_of(html, tags[i][0]), tags[i][0]);
}

int main(void) {
    static const char metrics[] =
        ICL_METRICS_HEADER "\n1,3.5,1.75,0.1,0.96875\n2,3.25,1.625,0.2,0.84375\n3,2.625,1.25,0.3,0.90625\n";
    tap_run tap = {0};
    scratch_folder scratch;
    char *html;

    scratch_open(&scratch);
    scratch_write(&scratch, "metrics.csv", ICL_METRICS_HEADER "\n", strlen(ICL_METRICS_HEADER) + 1);
    html = write_report(&tap, &scratch, SCORES, ICL_LOSS_SQUARED_ERROR);
    check_lead(&tap, html, "half_adjusted", 0.75, 0.125, 0.4375);
    check_tags(&tap, html);
    tap_ok(&tap, html && strstr(html, "half_median and half_trimmed (without the largest 1 %) instead of the mean"),
           "what its table says of heavy tails");
    check_adjusted_table(&tap, html);
    check_facts(&tap, html);
    check_recipe(&tap, html);
    icl_free(&html);
    html = write_report(&tap, &scratch, ORACLE + 1, ICL_LOSS_SQUARED_ERROR);
    check_lead(&tap, html, "half_adjusted", 0.75, 0.125, 0);
    icl_free(&html);
    html = write_report(&tap, &scratch, 1, ICL_LOSS_SQUARED_ERROR);
    check_lead(&tap, html, "mean squared error", 3.125, 0.375, 0);
    tap_ok(&tap, html && strstr(html, "not measured") && !strstr(html, " MiB"), "which need not be known");
    icl_free(&html);
    scratch_write(&scratch, "metrics.csv", metrics, strlen(metrics));
    html = write_report(&tap, &scratch, SCORES, ICL_LOSS_SQUARED_ERROR);
    tap_ok(&tap, html && strstr(html, "loss.csv") && !strstr(html, "Spikes"), "losses without a spike");
    check_pictures(&tap, &scratch);
    icl_free(&html);
    html = write_report(&tap, &scratch, ORACLE + 1, ICL_LOSS_CROSS_ENTROPY);
    check_loss_table(&tap, html, ICL_LOSS_CROSS_ENTROPY);
    icl_free(&html);
    html = write_report(&tap, &scratch, 1, ICL_LOSS_CROSS_ENTROPY);
    check_lead(&tap, html, icl_loss_name(ICL_LOSS_CROSS_ENTROPY), 3.125, 0.375, 0);
    check_alone(&tap, html);
    check_units(&tap, &scratch, icl_loss_name(ICL_LOSS_CROSS_ENTROPY));
    icl_free(&html);
    check_text(&tap, &scratch);
    check_band(&tap, &scratch);
    check_axis(&tap, &scratch);
    scratch_close(&scratch);
    return tap_done(&tap);
}
