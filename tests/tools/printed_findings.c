/* iclab inspect and iclab reproduce print findings that the linker plants, whose numbers all differ. */
#include "command.h"
#include "iclab/file.h"
#include "iclab/host.h"
#include "papers/papers.h"
#include "papers/study_list.h"
#include "probe/inspect.h"
#include "read_back.h"

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
icl_status __wrap_icl_inspect(const icl_inspect_params *params, char **summary, icl_error *error);
icl_status __wrap_icl_reproduce(const icl_reproduction *reproduction, const icl_reproduce_params *params,
                                icl_reproduce_summary *summary, icl_error *error);
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

static char text[16384];

static int run(const subcommand *command, const char *line) {
    char copy[2048];

    snprintf(copy, sizeof copy, "--device|cpu:threads=1|--quiet|%s", line);
    return run_words(command, copy, text, sizeof text);
}

static bool file_holds(scratch_folder *scratch, const char *name, const char *part) {
    char *content = NULL;
    size_t size;
    const bool holds =
        icl_file_read(scratch_path(scratch, name), 0, &content, &size, NULL) == ICL_OK && strstr(content, part);

    icl_free(&content);
    return holds;
}

/* ---- iclab inspect ---- */

static size_t asked_sequences;

icl_status __wrap_icl_inspect(const icl_inspect_params *params, char **summary, icl_error *error) { /* NOLINT */
    asked_sequences = params->sequences;
    params->report(params->user, &(icl_inspected){3, "w_yx", "loss without it", .25, .0625, "a note"});
    params->report(params->user, &(icl_inspected){0, "tunedrr", "distance", .75, 0, NULL});
    return icl_duplicate("the summary", summary, error);
}

static void test_inspect(tap_run *tap, scratch_folder *scratch) {
    static const expected_field first[] = {{"layer", 3, NULL},
                                           {"what", 0, "w_yx"},
                                           {"quantity", 0, "loss without it"},
                                           {"value", .25, NULL},
                                           {"standard_error", .0625, NULL},
                                           {"note", 0, "a note"}};
    static const expected_field second[] = {{"layer", 0, NULL},
                                            {"what", 0, "tunedrr"},
                                            {"quantity", 0, "distance"},
                                            {"value", .75, NULL},
                                            {"standard_error", (double)NAN, NULL},
                                            {"note", 0, ""}};
    char options[600];

    snprintf(options, sizeof options, "%s/run|--sequences|123", scratch->folder);
    tap_ok(tap, run(&command_inspect, options) == EXIT_DONE && asked_sequences == 123, "iclab inspect");
    tap_ok(tap, strncmp(text, "the summary\n\n", 13) == 0, "its summary");
    tap_ok(tap, file_holds(scratch, "run/inspect/result.json", "\"seed\":\t13,"), "the seed is that of evaluation");
    snprintf(options, sizeof options, "%s/run|--json", scratch->folder);
    run(&command_inspect, options);
    tap_ok(tap, count_lines(text) == 3, "JSON: a line for each number, and one more");
    check_json(tap, text, first, COUNT(first));
    check_json(tap, line_of(text, "{\"layer\":0"), second, COUNT(second));
}

/* ---- iclab reproduce ---- */

static const icl_finding findings[] = {
    {"met", "loss", .25, .0625, .375, .1875, ICL_WITHIN, ICL_READ, "table 9", "a note"},
    {"missed", "rise", 7.5, .5, 3.25, 1.125, ICL_AT_MOST, ICL_COMPUTED, "formula 2", NULL},
    {"missed, too", "fall", 4.5, 0, 9.75, 0, ICL_AT_LEAST, ICL_INFERRED, NULL, NULL},
    {"shown", "share", 11.5, 1.5, 12.5, 2.5, ICL_WITHIN, ICL_RECALLED, NULL, NULL},
    {"alone", "count", 13.5, 0, 14.5, 15.5, ICL_WITHIN, ICL_EVIDENCE_NONE, NULL, NULL},
};

static const icl_training_row trainings[] = {{"L2", 31, 37.5, .0625, false}, {"L3", 33, 39.5, (double)NAN, true}};

icl_status __wrap_icl_reproduce(const icl_reproduction *reproduction, /* NOLINT */
                                const icl_reproduce_params *params, icl_reproduce_summary *summary, icl_error *error) {
    (void)error;
    for (size_t i = 0; i < COUNT(findings); i++)
        params->report(params->user, reproduction, &findings[i]);
    for (size_t i = 0; i < COUNT(trainings); i++)
        params->trained(params->user, reproduction, &trainings[i]);
    *summary = (icl_reproduce_summary){17, 19, 23.25, 29, 31};
    return ICL_OK;
}

static const char *gd_construction_claim(void) {
    return icl_gd_construction.claim;
}

static void test_rows(tap_run *tap) {
    static const struct {
        const char *ours, *target, *verdict;
    } rows[COUNT(findings)] = {{"0.25 +- 0.0625", "0.375 +- 0.1875", "met [read: table 9]  a note"},
                               {"7.5 +- 0.5", "<= 3.25 +- 1.125", "MISSED by 3.125 [computed: formula 2]"},
                               {"4.5", ">= 9.75", "MISSED by 5.25 [inferred]"},
                               {"11.5 +- 1.5", "12.5 +- 2.5", "shown [recalled]"},
                               {"13.5", "-", "shown"}};
    char row[512];

    for (size_t i = 0; i < COUNT(findings); i++) {
        snprintf(row, sizeof row, "\n%-28s %-28s %23s %26s  %s\n", findings[i].what, findings[i].quantity, rows[i].ours,
                 rows[i].target, rows[i].verdict);
        tap_ok(tap, strstr(text, row) != NULL, "%s: %.*s", findings[i].what,
               (int)strcspn(line_of(text, findings[i].what), "\n"), line_of(text, findings[i].what));
    }
    tap_ok(tap,
           strstr(text, "\nThe claim does not hold at scale ci: 19 of 29 targets are missed.\nIts scope: ") != NULL,
           "the verdict");
    snprintf(row, sizeof row, "\nIts scope: %s\n", icl_gd_construction.scope);
    tap_ok(tap, strstr(text, row) != NULL, "the scope stands below it");
    tap_ok(tap,
           strstr(text, ":\n  L2, seed 31: from 37.5 to 0.0625\n  L3, seed 33: from 39.5 to divergence\n\n") != NULL,
           "trainings behind what is missed");
    snprintf(row, sizeof row, "\nThe claim: %s\n\nwhat  ", gd_construction_claim());
    tap_ok(tap, strstr(text, row) != NULL, "the claim stands above the table");
    tap_ok(tap, strstr(text, ", scale ci, seed 21, device cpu:threads=1\n") != NULL, "the heading");
    tap_ok(tap, strstr(text, "gd-construction: 17 findings, 19 missed, 23.2 s; report.html in ") != NULL, "the end");
}

static void check_finding(tap_run *tap, size_t i, const char *line) {
    static const struct {
        const char *criterion, *judgement, *evidence;
        double missed_by;
    } read[COUNT(findings)] = {{"within", "met", "read", 0},
                               {"at most", "missed", "computed", 3.125},
                               {"at least", "missed", "inferred", 5.25},
                               {"within", "shown", "recalled", 0},
                               {"", "shown", "", 0}};
    const icl_finding *of = &findings[i];
    const bool has_target = of->evidence != ICL_EVIDENCE_NONE;
    const expected_field fields[] = {
        {"reproduction", 0, "gd-construction"},
        {"what", 0, of->what},
        {"quantity", 0, of->quantity},
        {"ours", of->ours, NULL},
        {"standard_error", of->standard_error > 0 ? of->standard_error : (double)NAN, NULL},
        {"target", has_target ? of->target : (double)NAN, NULL},
        {"tolerance", has_target ? of->tolerance : (double)NAN, NULL},
        {"criterion", 0, read[i].criterion},
        {"judgement", 0, read[i].judgement},
        {"missed_by", read[i].missed_by, NULL},
        {"evidence", 0, read[i].evidence},
        {"source", 0, of->source ? of->source : ""},
        {"note", 0, of->note ? of->note : ""}};
    check_json(tap, line, fields, COUNT(fields));
}

static void check_training(tap_run *tap, const icl_training_row *training, const char *line) {
    const expected_field fields[] = {
        {"reproduction", 0, "gd-construction"}, {"training", 0, training->what},
        {"seed", training->seed, NULL},         {"first_loss", training->first, NULL},
        {"last_loss", training->last, NULL},    {"diverged", training->has_diverged, NULL}};
    check_json(tap, line, fields, COUNT(fields));
}

static void test_reproduce(tap_run *tap, scratch_folder *scratch) {
    char options[600], place[600];
    const expected_field last[] = {{"reproduction", 0, "gd-construction"},
                                   {"scale", 0, "ci"},
                                   {"seed", 21, NULL},
                                   {"findings", 17, NULL},
                                   {"missed", 19, NULL},
                                   {"judged", 29, NULL},
                                   {"claim_judged", true, NULL},
                                   {"verdict", 0, "The claim does not hold at scale ci: 19 of 29 targets are missed."},
                                   {"seconds", 23.25, NULL},
                                   {"folder", 0, place}};

    snprintf(place, sizeof place, "%s/papers/gd-construction-ci", scratch->folder);
    snprintf(options, sizeof options, "gd-construction|--scale|ci|--workers|1|--seed|21|--out|%s/papers",
             scratch->folder);
    tap_ok(tap, run(&command_reproduce, options) == EXIT_CHECK_FAILED, "iclab reproduce: exit code 1");
    test_rows(tap);
    snprintf(options + strlen(options), sizeof options - strlen(options), "|--json");
    run(&command_reproduce, options);
    tap_ok(tap, count_lines(text) == COUNT(findings) + COUNT(trainings) + 1,
           "JSON: a line for each finding and each training, and one more");
    const char *line = text;
    for (size_t i = 0; i < COUNT(findings) && *line; i++, line += strcspn(line, "\n") + 1)
        check_finding(tap, i, line);
    for (size_t i = 0; i < COUNT(trainings) && *line; i++, line += strcspn(line, "\n") + 1)
        check_training(tap, &trainings[i], line);
    check_json(tap, line, last, COUNT(last));
    tap_ok(tap, file_holds(scratch, "papers/gd-construction-ci/result.json", "\"seed\":\t21,"), "its seed");
}

/* Finds the word of --scale that the help marks as the default; semicolons separate the words' parts of the help. */
static void name_default_scale(char name[16]) {
    const option *scale = command_reproduce.options;

    while (strcmp(scale->name, "--scale") != 0)
        scale++;
    const char *word = scale->value;
    for (const char *at = scale->help, *end = strstr(at, "(default)"); (at = strchr(at, ';')) && at < end; at++)
        word = strchr(word, '|') + 1;
    snprintf(name, 16, "%.*s", (int)strcspn(word, "|"), word);
}

/* Compares lines of --list and of its JSON with the table of reproductions. */
static void test_list(tap_run *tap) {
    icl_catalogue all = {0};
    static char list[65536];

    tap_need(icl_catalogue_open(&all, tap_error()));
    run(&command_reproduce, "--list");
    memcpy(list, text, sizeof text);
    run(&command_reproduce, "--list|--json");
    const char *line = text;
    for (size_t i = 0; i < 4; i++, line += strcspn(line, "\n") + 1) {
        char start[64];
        const icl_reproduction *reproduction = all.rows[i].reproduction;
        snprintf(start, sizeof start, "  %s ", reproduction->name);
        const char *const *cost = reproduction->cost, *row = line_of(list, start);
        const char *const full = cost[ICL_SCALE_FULL] ? cost[ICL_SCALE_FULL] : "";
        const expected_cell cells[] = {
            {"ci", 0, cost[ICL_SCALE_CI]}, {"short", 0, cost[ICL_SCALE_SHORT]}, {"full", 0, *full ? full : "-"}};
        const expected_field fields[] = {{"name", 0, reproduction->name},
                                         {"paper", 0, all.rows[i].paper},
                                         {"source", 0, reproduction->source},
                                         {"about", 0, reproduction->about},
                                         {"cost_ci", 0, cost[ICL_SCALE_CI]},
                                         {"cost_short", 0, cost[ICL_SCALE_SHORT]},
                                         {"cost_full", 0, full}};
        check_cells(tap, list, row, cells, COUNT(cells));
        check_json(tap, line, fields, COUNT(fields));
    }
    icl_catalogue_close(&all);
}

/* JSON lists the trainings of a reproduction with the same words as the plain lines. */
static void test_trainings(tap_run *tap) {
    char first[1024];

    run(&command_reproduce, "garg-curves|--scale|ci|--trainings");
    snprintf(first, sizeof first, "%.*s", (int)strcspn(text, "\n"), text);
    char *recipe = strstr(first, "  "), *settings = recipe ? strstr(recipe + 2, "  ") : NULL;
    if (!tap_ok(tap, settings != NULL, "a training: %s", first))
        return;
    *recipe = *settings = '\0';
    const expected_field fields[] = {{"reproduction", 0, "garg-curves"},
                                     {"scale", 0, "ci"},
                                     {"training", 0, first},
                                     {"recipe", 0, recipe + 2},
                                     {"settings", 0, settings + 2}};
    run(&command_reproduce, "garg-curves|--scale|ci|--trainings|--json");
    check_json(tap, text, fields, COUNT(fields));
    tap_ok(tap, strstr(recipe + 2, ".ini") != NULL, "its recipe is a file: %s", recipe + 2);
}

/* The first word of an option is its default, which --help names. */
static void test_words(tap_run *tap) {
    size_t command_count;
    const subcommand *const *commands = all_commands(&command_count);

    for (size_t i = 0; i < command_count; i++)
        for (const option *at = commands[i]->options; at < commands[i]->options + commands[i]->option_count; at++) {
            const char *named = at->type == OPTION_WORD ? strstr(at->help, "(default ") : NULL;
            const size_t length = named ? strcspn(at->value, "|") : 0;
            if (named)
                tap_ok(tap,
                       strncmp(named + strlen("(default "), at->value, length) == 0 &&
                           strchr(":;)", named[strlen("(default ") + length]),
                       "%s %s: %.24s", commands[i]->name, at->name, named);
        }
}

static void test_defaults(tap_run *tap, scratch_folder *scratch) {
    char options[600], scale[16], line[64];

    name_default_scale(scale);
    snprintf(options, sizeof options, "gd-construction|--workers|1|--out|%s/defaults", scratch->folder);
    run(&command_reproduce, options);
    snprintf(line, sizeof line, ", scale %s, seed 1, ", scale);
    tap_ok(tap, strstr(text, line) != NULL, "without options%s", line);
}

int main(void) {
    tap_run tap = {0};
    icl_error error = {0};
    scratch_folder scratch;

    scratch_open(&scratch);
    if (tap_status(&tap, make_run(&scratch, (const char *const[]){"train.seed=11", "eval.seed=13"}, 2, &error), &error,
                   "a run")) {
        test_inspect(&tap, &scratch);
        test_reproduce(&tap, &scratch);
        test_defaults(&tap, &scratch);
        test_words(&tap);
        test_list(&tap);
        test_trainings(&tap);
    }
    scratch_close(&scratch);
    return tap_done(&tap);
}
