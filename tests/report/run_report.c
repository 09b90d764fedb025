/* The sentence that a run's report begins with: the model's loss with its own standard error, and the floor's. */
#include "iclab/run_report.h"

#include <math.h>

#include "core/allocate.h"
#include "iclab/file.h"
#include "iclab/number.h"
#include "iclab/session.h"
#include "run/evaluation_text.h"
#include "tap.h"

#include "../core/scratch.h"

enum { MODEL, ORACLE, BAYES, SCORES };

/* No two numbers of a score are the same. */
static const icl_score scores[SCORES] = {
    {.predictor = "model",
     .mse = 3.125,
     .se = 0.375,
     .adjusted = 1.5,
     .adjusted_se = 0.25,
     .half_adjusted = 0.75,
     .half_adjusted_se = 0.125},
    {.predictor = "oracle", .mse = 2.5, .se = 0.0625},
    {.predictor = "bayes", .mse = 2.75, .se = 0.03125, .adjusted = 0.875, .half_adjusted = 0.4375},
};

static const icl_capabilities device = {.name = "a device", .spec = "cpu"};

/* The report of a folder with an empty metrics.csv, of the first `count` scores. With all of them, a step's memory was
 * measured. */
static char *write_report(tap_run *tap, scratch_folder *scratch, size_t count, icl_loss_kind kind) {
    icl_score own[SCORES];
    icl_evaluation evaluation = {.count = count, .scores = own, .sequences = 12345};
    const icl_run_facts facts = {.device = &device,
                                 .recipe_name = "recipe",
                                 .seed = 7,
                                 .steps = 9,
                                 .status = "finished",
                                 .step_memory = count == SCORES ? 3 * 1048576.0 : 0};
    icl_recipe *recipe = NULL;
    char *text = NULL;
    size_t size;
    icl_error error = {0};
    icl_status status = icl_recipe_create_complete(&recipe, &error);

    memcpy(own, scores, sizeof own);
    own[MODEL].loss_kind = kind;
    if (count <= ORACLE) /* a task without one has nothing to be adjusted by */
        own[MODEL].adjusted = own[MODEL].half_adjusted = own[MODEL].half_adjusted_se = (double)NAN;
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

/* "On 12345 … `quantity` is LOSS ± SPREAD", and what it says of the floor: nothing where floor is NaN. */
static void check_lead(tap_run *tap, const char *html, const char *quantity, double loss, double spread, double floor) {
    char expected[256], of_floor[64], texts[3][16];
    const char *lead = html ? strstr(html, "On 12345 fresh sequences") : NULL;

    snprintf(expected, sizeof expected, "On 12345 fresh sequences the model's %s is %s \u00b1 %s", quantity,
             icl_loss_text(loss, texts[0]), icl_loss_text(spread, texts[1]));
    snprintf(of_floor, sizeof of_floor, "not told sigma, has %s.", icl_loss_text(floor, texts[2]));
    char sentence[512] = "";
    snprintf(sentence, sizeof sentence, "%.*s", lead ? (int)strcspn(lead, "<\n") : 0, lead ? lead : "");
    for (char *entity; (entity = strstr(sentence, "&#39;")) != NULL;) {
        *entity = '\'';
        memmove(entity + 1, entity + 5, strlen(entity + 5) + 1);
    }
    tap_ok(tap,
           strncmp(sentence, expected, strlen(expected)) == 0 &&
               (floor > 0 ? strstr(sentence, of_floor) != NULL : !strstr(sentence, "floor")),
           "%s", sentence);
}

/* How the name of the losses' axis begins. */
static void check_unit(tap_run *tap, scratch_folder *scratch, const char *unit) {
    char label[256], *script = NULL;
    size_t size;
    icl_error error = {0};

    snprintf(label, sizeof label, "set ylabel \"%s", unit);
    tap_status(tap, icl_file_read(scratch_path(scratch, "loss.gp"), 0, &script, &size, &error), &error,
               "the picture of the losses");
    tap_ok(tap, script && strstr(script, label), "%s", label);
    icl_free(&script);
}

static bool is_logarithmic(scratch_folder *scratch) {
    char *script = NULL;
    size_t size;
    const bool is_read = icl_file_read(scratch_path(scratch, "loss.gp"), 0, &script, &size, NULL) == ICL_OK;
    const bool is = is_read && strstr(script, "set logscale y") != NULL;

    icl_free(&script);
    return is;
}

/* Losses that `rows` of metrics.csv have beside the model's 3.125. */
static char *write_losses(tap_run *tap, scratch_folder *scratch, const char *rows) {
    char metrics[1024];

    snprintf(metrics, sizeof metrics, "%s\n%s", ICL_METRICS_HEADER, rows);
    scratch_write(scratch, "metrics.csv", metrics, strlen(metrics));
    return write_report(tap, scratch, 1, ICL_LOSS_SQUARED_ERROR);
}

/* A decade is the least that a logarithmic axis shows; a spike is cut off, which the caption says. */
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
    static const char metrics[] = ICL_METRICS_HEADER "\n1,3.5,1,0.1,\n2,3,1,0.1,\n3,2.5,1,0.1,\n";
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
    tap_ok(&tap, html && strstr(html, "3.0 MiB") && !strstr(html, "not measured"), "what a step holds");
    icl_free(&html);
    html = write_report(&tap, &scratch, ORACLE + 1, ICL_LOSS_SQUARED_ERROR);
    check_lead(&tap, html, "half_adjusted", 0.75, 0.125, 0);
    icl_free(&html);
    html = write_report(&tap, &scratch, 1, ICL_LOSS_SQUARED_ERROR);
    check_lead(&tap, html, "mean squared error", 3.125, 0.375, 0);
    tap_ok(&tap, html && strstr(html, "not measured") && !strstr(html, " MiB"), "which need not be known");
    icl_free(&html);
    scratch_write(&scratch, "metrics.csv", metrics, strlen(metrics));
    html = write_report(&tap, &scratch, 1, ICL_LOSS_SQUARED_ERROR);
    tap_ok(&tap, html && strstr(html, "loss.csv") && !strstr(html, "Spikes"), "losses without a spike");
    icl_free(&html);
    check_unit(&tap, &scratch, "squared error (squares of y");
    html = write_report(&tap, &scratch, 1, ICL_LOSS_CROSS_ENTROPY);
    check_lead(&tap, html, icl_loss_name(ICL_LOSS_CROSS_ENTROPY), 3.125, 0.375, 0);
    check_unit(&tap, &scratch, icl_loss_name(ICL_LOSS_CROSS_ENTROPY));
    icl_free(&html);
    check_axis(&tap, &scratch);
    scratch_close(&scratch);
    return tap_done(&tap);
}
