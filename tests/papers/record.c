/* Reads the output of a reproduction back by heading and name: findings as CSV and in a report, and pictures. */
#include <math.h>

#include "papers/study.h"
#include "shown_figure.h"
#include "tap.h"

#include "../core/scratch.h"

/* No two numbers are equal. */
static const icl_finding findings[] = {
    {.what = "a \"quoted\" cell, with comma",
     .quantity = "loss, \"half\" <b>",
     .ours = .25,
     .standard_error = .5,
     .target = .125,
     .tolerance = .0625,
     .evidence = ICL_READ,
     .source = "table 9, \"left\"",
     .note = "seed 2, of 3"},
    {.what = "plain", .quantity = "share", .ours = 2.75},
    {.what = "depth 3",
     .quantity = "rank",
     .ours = 3.5,
     .standard_error = .03125,
     .target = 3.75,
     .tolerance = 1.5,
     .criterion = ICL_AT_MOST,
     .evidence = ICL_COMPUTED,
     .source = "theorem 2"},
    {.what = "depth 4",
     .quantity = "angle",
     .ours = 6.5,
     .target = 7.125,
     .tolerance = .375,
     .criterion = ICL_AT_LEAST,
     .evidence = ICL_INFERRED,
     .note = "by eye"},
    {.what = "depth 5", .quantity = "slope", .ours = 8.5, .target = 9.5, .tolerance = .75, .evidence = ICL_RECALLED},
    {.what = "depth 6",
     .quantity = "none",
     .ours = (double)NAN,
     .target = 10.5,
     .evidence = ICL_STATED,
     .note = "failed"},
};
enum { FINDINGS = sizeof findings / sizeof *findings };

static void plan_nothing(icl_study *study) {
    (void)study;
}

static void find_all(icl_study *study) {
    static const double x[] = {11, 12, 14}, y[] = {.875, (double)NAN, .6875}, errors[] = {.01, .02, .03};
    static const double values[] = {15, 16, 17, 18, 19, 20};
    static const char *const rows[] = {"a", "b"}, *const columns[] = {"p", "q", "r"};
    const icl_series series[] = {{"ours", ICL_SERIES_OURS, 3, x, y, errors},
                                 {"it's theirs", ICL_SERIES_PUBLISHED, 1, x, x, NULL}};
    const icl_heat_map map = {
        .label = "P", .rows = 2, .columns = 3, .values = values, .row_names = rows, .column_names = columns};

    for (size_t i = 0; i < FINDINGS; i++)
        icl_study_found(study, &findings[i]);
    ICL_STUDY_CALL(
        study, icl_reproduce_figure, study->run,
        &(icl_figure){
            .name = "curve", .title = "A curve", .x_label = "steps", .y_label = "loss", .count = 2, .series = series});
    ICL_STUDY_MAPS(study, .name = "map", .title = "A map", .row_label = "from", .column_label = "to", .count = 1,
                   .maps = &map);
}

/* ---- Findings ---- */

static void check_number(tap_run *tap, const shown_table *table, const char *row, const char *heading, double value) {
    const double seen = shown_number(table, row, heading);

    tap_ok(tap, isnan(value) ? isnan(seen) && shown_cell(table, row, heading) : seen == value, "%s, %s: %g", row,
           heading, value);
}

/* findings.csv has numbers in full, and empty fields if there is no error or no target. */
static void check_csv(tap_run *tap, const char *folder) {
    static const char *const judgements[] = {"missed", "shown", "met", "missed", "shown", "missed"};
    static const char *const criteria[] = {"within", "", "at most", "at least", "within", "within"};
    static const char *const evidence[] = {"read", "", "computed", "inferred", "recalled", "stated"};
    char *text = shown_file(folder, "findings.csv");
    shown_table table = shown_csv(text);

    tap_ok(tap, table.rows == 1 + FINDINGS, "findings.csv has a row for each finding");
    for (size_t i = 0; i < FINDINGS; i++) {
        const icl_finding *finding = &findings[i];
        const bool has_target = finding->evidence != ICL_EVIDENCE_NONE;
        shown_is(tap, &table, finding->what, "quantity", finding->quantity);
        check_number(tap, &table, finding->what, "ours", finding->ours);
        check_number(tap, &table, finding->what, "standard_error",
                     finding->standard_error > 0 ? finding->standard_error : (double)NAN);
        check_number(tap, &table, finding->what, "target", has_target ? finding->target : (double)NAN);
        check_number(tap, &table, finding->what, "tolerance", has_target ? finding->tolerance : (double)NAN);
        shown_is(tap, &table, finding->what, "criterion", criteria[i]);
        shown_is(tap, &table, finding->what, "judgement", judgements[i]);
        shown_is(tap, &table, finding->what, "evidence", evidence[i]);
        shown_is(tap, &table, finding->what, "source", finding->source ? finding->source : "");
        shown_is(tap, &table, finding->what, "note", finding->note ? finding->note : "");
    }
    shown_table_release(&table);
    free(text);
}

static void check_report(tap_run *tap, const char *html) {
    static const struct {
        const char *ours, *target, *known, *verdict, *tone;
    } rows[FINDINGS] = {
        {"0.25 \u00b1 0.5", "0.125 \u00b1 0.0625", "read: table 9, \"left\"", "\u2717 missed by 0.0625", "bad"},
        {"2.75", "-", "", "shown", ""},
        {"3.5 \u00b1 0.03125", "\u2264 3.75 \u00b1 1.5", "computed: theorem 2", "\u2713 met", "good"},
        {"6.5", "\u2265 7.125 \u00b1 0.375", "inferred", "\u2717 missed by 0.25", "bad"},
        {"8.5", "9.5 \u00b1 0.75", "recalled", "shown", ""},
        {"nan", "10.5", "stated", "\u2717 missed by nan", "bad"},
    };
    shown_table table = shown_html(html, "Findings", NULL);

    for (size_t i = 0; i < FINDINGS; i++) {
        const char *what = findings[i].what;
        shown_is(tap, &table, what, "quantity", findings[i].quantity);
        shown_is(tap, &table, what, "ours", rows[i].ours);
        shown_is(tap, &table, what, "target", rows[i].target);
        shown_is(tap, &table, what, "known", rows[i].known);
        shown_is(tap, &table, what, "note", findings[i].note ? findings[i].note : "");
        shown_is(tap, &table, what, "verdict", rows[i].verdict);
        shown_is(tap, &table, what, "(tone)", rows[i].tone);
    }
    shown_table_release(&table);
}

/* Checks the words of a report; the run may have been given no command line. */
static void check_words(tap_run *tap, const char *html, const char *command) {
    shown_table facts = shown_facts(html);
    char text[SHOWN_CELL];

    tap_ok(tap, strcmp(shown_element(html, "<h1>", text), "iclab reproduce example") == 0, "%s", text);
    tap_ok(tap,
           strcmp(shown_element(html, "<p class=\"lead\">", text),
                  "It is so. The claim does not hold at scale short: 3 of 4 targets are missed.") == 0,
           "%s", text);
    tap_ok(tap, html && strstr(html, "<p>It is not so elsewhere.</p>"), "the scope stands below the table");
    shown_is(tap, &facts, "command", "value", command);
    shown_is(tap, &facts, "source", "value", "arXiv 1234.5678, table 9");
    shown_is(tap, &facts, "scale", "value", "short");
    shown_is(tap, &facts, "first seed", "value", "23");
    tap_ok(tap, shown_number(&facts, "took", "value") >= 1000, "the workers' 1000 s count");
    shown_table_release(&facts);
}

/* ---- Pictures ---- */

static void check_pictures(tap_run *tap, const char *folder) {
    shown_figure *curve = shown_figure_read(folder, "curve"), *map = shown_figure_read(folder, "map");

    shown_axes_are(tap, curve, "steps", "loss");
    shown_axes_are(tap, map, "to", "from");
    tap_ok(tap,
           shown_y(curve, "ours", 11) == .875 && shown_bar(curve, "ours", 11) == .01 &&
               shown_y(curve, "ours", 14) == .6875 && shown_bar(curve, "ours", 14) == .03 &&
               shown_curve(curve, "ours")->count == 2,
           "our points with their errors");
    tap_ok(tap, shown_y(curve, "it's theirs", 11) == 11 && shown_curve(curve, "it's theirs")->count == 1, "and theirs");
    tap_ok(tap, shown_value(map, "P", "a", "r") == 17 && shown_value(map, "P", "b", "p") == 18, "a map as it is");
    shown_figure_free(&curve);
    shown_figure_free(&map);
}

static void check_run(tap_run *tap, const char *folder, const char *command_line, const char *shown_command) {
    const icl_reproduction reproduction = {.name = "example",
                                           .source = "arXiv 1234.5678, table 9",
                                           .about = "of this and that",
                                           .claim = "It is so.",
                                           .scope = "It is not so elsewhere.",
                                           .plan = plan_nothing,
                                           .conclude = find_all};
    const icl_reproduce_params params = {
        .folder = folder, .scale = ICL_SCALE_SHORT, .seed = 23, .seconds_before = 1000, .command_line = command_line};
    icl_reproduce_summary summary;
    icl_error error = {0};

    tap_status(tap, icl_reproduce(&reproduction, &params, &summary, &error), &error, "a run");
    char *html = shown_file(folder, "report.html");
    check_csv(tap, folder);
    check_report(tap, html);
    check_words(tap, html, shown_command);
    check_pictures(tap, folder);
    tap_ok(tap, html && strstr(html, "curve.gp draws curve.svg") && strstr(html, "map.gp draws map.svg"),
           "the report speaks of each picture");
    free(html);
}

int main(void) {
    tap_run tap = {0};
    scratch_folder scratch;

    scratch_open(&scratch);
    check_run(&tap, scratch.folder, "iclab reproduce by hand", "iclab reproduce by hand");
    check_run(&tap, scratch.folder, NULL, "iclab reproduce example --scale short --seed 23");
    scratch_close(&scratch);
    return tap_done(&tap);
}
