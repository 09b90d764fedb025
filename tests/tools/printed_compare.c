/* iclab compare prints and writes numbers that the linker plants, which all differ. */
#include "command.h"
#include "iclab/compare.h"
#include "iclab/compare_training.h"
#include "iclab/file.h"
#include "read_back.h"

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
icl_status __wrap_icl_compare(const icl_compare_params *params, icl_compare_summary *summary, icl_error *error);
icl_status __wrap_icl_compare_training(const icl_training_params *params, icl_training_summary *summary,
                                       icl_error *error);
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

/* ---- Ops ---- */

static double outputs[4][2] = {{6.5, 7.25}, {6.25, 7.625}, {5.5, 5.25}, {5.125, 5.375}};

static const icl_comparison cases[] = {
    {.name = "relu (3, \"x\") plain",
     .op = "unary",
     .title_length = 4,
     .device = {.5, 1, "out[1, 0]", 7.5, .03125, .375, .1875, 3, true, true, true, false, 2, outputs[0]},
     .against = {.25, 0, "out[0]", 8.5, .0625, .3125, .15625, 6, true, true, false, false, 2, outputs[1]},
     .bit_equal = .75,
     .verdict = ICL_VERDICT_PASS},
    {.name = "relu (4) plain",
     .op = "unary",
     .title_length = 4,
     .device = {.125, 0, "out[2]", 4.5, .875, .4375, .21875, 2, true, true, true, false, 2, outputs[2]},
     .against = {.625, 1, "out[3]", 9.5, .9375, .5625, .28125, 5, true, true, true, false, 2, outputs[3]},
     .bit_equal = .25,
     .verdict = ICL_VERDICT_PASS},
    {.name = "copy (5) plain",
     .op = "copy",
     .title_length = 4,
     .device = {1.75, 0, "out[4]", 3.5, .6875, .8125, .40625, 9, false, true, true, false, 0, NULL},
     .against = {1.25, 0, "out[5]", 2.5, .71875, .78125, .34375, 8, true, true, true, false, 0, NULL},
     .bit_equal = .875,
     .verdict = ICL_VERDICT_FAIL,
     .reason = "too far"},
};

icl_status __wrap_icl_compare(const icl_compare_params *params, /* NOLINT */
                              icl_compare_summary *summary, icl_error *error) {
    *summary = (icl_compare_summary){.cases = 23, .left_out = 6, .worst = 1.5, .worst_name = "copy (7) plain"};
    summary->verdicts[ICL_VERDICT_PASS] = 11;
    summary->verdicts[ICL_VERDICT_FAIL] = 5;
    summary->verdicts[ICL_VERDICT_SKIPPED] = 3;
    summary->verdicts[ICL_VERDICT_MISTRUSTED] = 4;
    for (size_t i = 0; i < COUNT(cases); i++)
        ICL_CHECK(params->callback(params->user, &cases[i], error));
    return ICL_OK;
}

static char text[16384];

/* Runs iclab compare on cpu and ref, with further words, separated by bars. */
static int run(const char *line) {
    char copy[1024];

    snprintf(copy, sizeof copy, "--device|cpu:threads=1|--against|ref|--quiet%s", line);
    return run_words(&command_compare, copy, text, sizeof text);
}

#define REPRO "iclab compare --device cpu:threads=1 --against ref --op 'copy (5) plain' --seed 9"

static void test_table(tap_run *tap) {
    static const expected_cell relu[] = {
        {"err/bound", 0, "0.5"}, {"err/bound", 1, "0.625"}, {"max ulp", 0, "3"}, {"bit-equal", 0, "50.0 %"}};
    static const expected_cell copy[] = {
        {"err/bound", 0, "1.75"}, {"err/bound", 1, "1.25"}, {"max ulp", 0, "9"}, {"bit-equal", 0, "87.5 %"}};
    static const expected_cell below[] = {
        {"cases", 0, "2"}, {"device", 0, "0.5"}, {"against", 0, "0.625"}, {"device", 1, "3"}};

    tap_ok(tap, run("|--seed|9") == EXIT_CHECK_FAILED, "a case that fails: exit code 1");
    const char *heads = line_of(text, "                                   ");
    check_cells(tap, heads, line_of(text, "relu"), relu, COUNT(relu));
    check_cells(tap, heads, line_of(text, "copy"), copy, COUNT(copy));
    check_cells(tap, line_of(text, "op "), line_of(text, "relu"), below, COUNT(below));
    tap_ok(tap, strncmp(text, "cpu:threads=1 against ref, each judged by the exact result\n", 59) == 0, "who is who");
    tap_ok(tap, strstr(text, "\nFAIL  copy (5) plain\n      too far\n      " REPRO "\n") != NULL, "a failure in full");
    tap_ok(tap,
           strstr(text, "\n23 cases: 11 passed, 5 failed, 3 skipped, 4 with a constant truth\n"
                        "closest to its bound: copy (7) plain at 1.5\n"
                        "left out, because the time was over: 6 cases\n") != NULL,
           "the summary");
}

static void test_all(tap_run *tap) {
    static const expected_cell relu[] = {{"err/bound", 0, "0.5"},   {"against", 0, "0.25"}, {"max error", 0, "0.375"},
                                         {"rms error", 0, "0.188"}, {"max ulp", 0, "3"},    {"equal", 0, "75.0 %"}};
    run("|--all");
    const char *heads = line_of(text, "verdict"), *row = line_of(text, "PASS       relu (3,");
    check_cells(tap, heads, row, relu, COUNT(relu));
    tap_ok(tap, strncmp(row + strcspn(row, "%"), "%  out[1, 0]\n", 13) == 0, "and the worst element");
}

/* --help tells the default of --seed. */
static const char *seed_in_help(void) {
    for (size_t i = 0; i < command_compare.option_count; i++)
        if (strcmp(command_compare.options[i].name, "--seed") == 0)
            return command_compare.options[i].help;
    return "";
}

static void test_rows(tap_run *tap) {
    static const expected_field row[] = {
        {"op", 0, "unary"},
        {"case", 0, "relu (3, \"x\") plain"},
        {"error_over_bound", .5, NULL},
        {"against_error_over_bound", .25, NULL},
        {"max_error", .375, NULL},
        {"rms_error", .1875, NULL},
        {"max_ulp", 3, NULL},
        {"bit_equal", .75, NULL},
        {"worst", 0, "out[1, 0]"},
        {"worst_value", 7.25, NULL},
        {"worst_truth", 7.5, NULL},
        {"verdict", 0, "PASS"},
        {"device", 0, "cpu:threads=1"},
        {"against", 0, "ref"},
        {"against_max_error", .3125, NULL},
        {"against_rms_error", .15625, NULL},
        {"worst_against", 7.625, NULL},
        {"worst_bound", .03125, NULL},
        {"specials_agree", 1, NULL},
        {"repeatable", 0, NULL},
        {"reason", 0, ""},
        {"repro", 0,
         "iclab compare --device cpu:threads=1 --against ref --op 'relu (3, \"x\") plain' "
         "--seed 9"}};
    static const expected_field last[] = {{"cases", 23, NULL},
                                          {"left_out", 6, NULL},
                                          {"failed", 5, NULL},
                                          {"skipped", 3, NULL},
                                          {"worst", 1.5, NULL},
                                          {"mistrusted", 4, NULL},
                                          {"worst_case", 0, "copy (7) plain"}};
    enum { CSV_FIELDS = 12, SUMMARY = 11 };
    char *summary;

    run("");
    tap_ok(tap, strstr(text, "'copy (5) plain' --seed 0\n") && strstr(seed_in_help(), "(default 0)"),
           "the seed is 0 where none is given, as --help says");
    run("|--csv|--seed|9");
    tap_ok(tap, count_lines(text) == 1 + COUNT(cases), "CSV: a header and a row for each case");
    check_csv(tap, text, 1, row, CSV_FIELDS);
    run("|--json|--seed|9");
    tap_ok(tap, count_lines(text) == COUNT(cases) + 1, "JSON: a line for each case, and one more");
    check_json(tap, text, row, COUNT(row));
    summary = strstr(text, "{\"summary\":");
    if (tap_ok(tap, summary != NULL, "the summary")) {
        summary[strlen(summary) - 2] = '\0'; /* the outer brace */
        check_json(tap, summary + SUMMARY, last, COUNT(last));
    }
}

/* ---- Training steps ---- */

/* Returns the numbers of one side of a training step: base, base + 1/8, … */
static icl_training_side side_of(double base) {
    return (icl_training_side){
        false, base, base + .125, base + .25, base + .375, base + .5, base + .625,
    };
}

static icl_training_side_summary summary_side(double base) {
    const uint64_t step = (uint64_t)base;
    return (icl_training_side_summary){
        {base + .125, step}, {base + .25, step + 1}, {base + .375, step + 2}, base + .5, base + .625};
}

icl_status __wrap_icl_compare_training(const icl_training_params *params, /* NOLINT */
                                       icl_training_summary *summary, icl_error *error) {
    *summary = (icl_training_summary){.steps = {4, 7}, .failed = 8, .mistrusted = 9, .reference_diverged = 5};
    for (int mode = 0; mode < ICL_TRAINING_MODES; mode++) {
        const icl_step_comparison step = {.mode = (icl_training_mode)mode,
                                          .step = 2,
                                          .reference_loss = 10.5 + mode,
                                          .reference_gradient_norm = 12.5 + mode,
                                          .device = side_of(20 + mode),
                                          .against = side_of(30 + mode),
                                          .verdict = ICL_VERDICT_MISTRUSTED,
                                          .reason = "half of the digits"};
        summary->device[mode] = summary_side(40 + 10 * mode);
        summary->against[mode] = summary_side(60 + 10 * mode);
        ICL_CHECK(params->callback(params->user, &step, error));
    }
    return ICL_OK;
}

/* The fields of a row of forced.csv, followed by those that only JSON has. */
static const expected_field step_fields[] = {{"step", 2, NULL},
                                             {"reference_loss", 10.5, NULL},
                                             {"reference_gradient_norm", 12.5, NULL},
                                             {"loss", 20, NULL},
                                             {"gradient_norm", 20.125, NULL},
                                             {"loss_difference", 20.25, NULL},
                                             {"gradient_norm_difference", 20.375, NULL},
                                             {"gradient_difference", 20.5, NULL},
                                             {"parameter_difference", 20.625, NULL},
                                             {"against_loss", 30, NULL},
                                             {"against_gradient_norm", 30.125, NULL},
                                             {"against_loss_difference", 30.25, NULL},
                                             {"against_gradient_norm_difference", 30.375, NULL},
                                             {"against_gradient_difference", 30.5, NULL},
                                             {"against_parameter_difference", 30.625, NULL},
                                             {"mode", 0, "forced"},
                                             {"device", 0, "cpu:threads=1"},
                                             {"against", 0, "ref"},
                                             {"verdict", 0, "MISTRUSTED"},
                                             {"reason", 0, "half of the digits"},
                                             {"repro", 0, NULL}};

static void test_step_table(tap_run *tap, const char *options) {
    static const expected_cell cells[] = {{"step", 0, "2"},
                                          {"loss", 0, "11.5"},
                                          {"loss", 1, "2.12e+01"},
                                          {"gradient", 0, "2.15e+01"},
                                          {"parameters", 0, "2.16e+01"},
                                          {"loss", 2, "3.12e+01"},
                                          {"gradient", 1, "3.15e+01"},
                                          {"parameters", 1, "3.16e+01"}};
    run(options);
    const char *free_mode = line_of(text, "free-running");
    check_cells(tap, line_of(free_mode, "  step"), line_of(free_mode, "     2"), cells, COUNT(cells));
    tap_ok(tap, strstr(free_mode, "reference   cpu:threads=1                      ref\n") != NULL, "who is who");
    tap_ok(tap,
           strstr(text, "\nlargest in one forced step, of 4 steps:\n"
                        "  cpu:threads=1 loss 4.01e+01 at step 40, gradient 4.02e+01 at 41, "
                        "parameters 4.04e+01 at 42\n"
                        "  ref          loss 6.01e+01 at step 60, gradient 6.02e+01 at 61, "
                        "parameters 6.04e+01 at 62\n") != NULL,
           "the largest of forced steps");
    tap_ok(tap,
           strstr(text, "\nlargest drift, of 7 steps:\n"
                        "  cpu:threads=1 loss 5.01e+01 at step 50, ") != NULL,
           "and of the free run");
    tap_ok(tap, strstr(text, "diverged at step 5:") && strstr(text, "\n8 steps failed, 9 lost half"), "the verdict");
}

/* Each curve of the picture shows the column that its title names. */
static void test_picture(tap_run *tap, const char *script) {
    static const struct {
        const char *file, *title;
        int column;
    } curves[] = {{"forced", "cpu:threads=1 loss", 6},
                  {"forced", "cpu:threads=1 gradient", 8},
                  {"forced", "ref loss", 12},
                  {"forced", "ref gradient", 14},
                  {"free", "cpu:threads=1 loss", 6},
                  {"free", "cpu:threads=1 parameters", 9},
                  {"free", "ref loss", 12},
                  {"free", "ref parameters", 15}};

    for (size_t i = 0; i < COUNT(curves); i++) {
        char file[32], title[64], column[16];
        snprintf(file, sizeof file, "'%s.csv'", curves[i].file);
        snprintf(title, sizeof title, "title '%s'", curves[i].title);
        snprintf(column, sizeof column, "using 1:%d ", curves[i].column);
        const char *end = strstr(strstr(script, file), title), *at = end;
        while (at && at > script && strncmp(at, "using", 5) != 0)
            at--;
        tap_ok(tap, at && strncmp(at, column, strlen(column)) == 0, "%s, %s: %.10s", file, title, at ? at : "");
    }
}

static void test_training(tap_run *tap, scratch_folder *scratch) {
    static const char recipe[] = "[task]\nd = 3\n[train]\nseed = 11\nbatch = 32\n[eval]\nseed = 13\n";
    enum { CSV_FIELDS = 15 };
    char options[1024], *content;
    expected_field fields[COUNT(step_fields)];

    scratch_write(scratch, "own.ini", recipe, strlen(recipe));
    snprintf(options, sizeof options, "|--train|%s|--out|%s/out", scratch_path(scratch, "own.ini"), scratch->folder);
    test_step_table(tap, options);
    content = read_file(scratch, "out/forced.csv");
    if (tap_ok(tap, content && count_lines(content) == 2, "forced.csv: a row for each step"))
        check_csv(tap, content, 1, step_fields, CSV_FIELDS);
    icl_free(&content);
    content = read_file(scratch, "out/training.gp");
    if (tap_ok(tap, content != NULL, "training.gp"))
        test_picture(tap, content);
    icl_free(&content);
    content = read_file(scratch, "out/result.json");
    tap_ok(tap, content && strstr(content, "\"seed\":\t11,"), "the seed is that of training");
    icl_free(&content);
    memcpy(fields, step_fields, sizeof fields);
    snprintf(options, sizeof options, "|--train|%s|--json", scratch_path(scratch, "own.ini"));
    run(options);
    tap_ok(tap, count_lines(text) == 3, "JSON: a line for each step, and one more");
    char repro[700];
    snprintf(repro, sizeof repro, "iclab compare --device cpu:threads=1 --against ref --train %s --steps 2",
             scratch_path(scratch, "own.ini"));
    fields[COUNT(fields) - 1].text = repro;
    check_json(tap, text, fields, COUNT(fields));
}

static void test_training_summary(tap_run *tap) {
    static const expected_field last[] = {{"forced_steps", 4, NULL},
                                          {"free_steps", 7, NULL},
                                          {"failed", 8, NULL},
                                          {"mistrusted", 9, NULL},
                                          {"reference_diverged", 5, NULL},
                                          {"forced_loss_difference", 40.125, NULL},
                                          {"forced_loss_step", 40, NULL},
                                          {"forced_gradient_difference", 40.25, NULL},
                                          {"forced_gradient_step", 41, NULL},
                                          {"drift_loss", 50.5, NULL},
                                          {"drift_parameters", 50.625, NULL},
                                          {"against_drift_loss", 70.5, NULL},
                                          {"against_drift_parameters", 70.625, NULL}};
    enum { SUMMARY = 11 };
    char *summary = strstr(text, "{\"summary\":");

    if (tap_ok(tap, summary != NULL, "the summary of trainings")) {
        summary[strlen(summary) - 2] = '\0';
        check_json(tap, summary + SUMMARY, last, COUNT(last));
    }
}

int main(void) {
    tap_run tap = {0};
    scratch_folder scratch;

    (void)setenv("PATH", "/nowhere", 1); /* no gnuplot */
    scratch_open(&scratch);
    test_table(&tap);
    test_all(&tap);
    test_rows(&tap);
    test_training(&tap, &scratch);
    test_training_summary(&tap);
    scratch_close(&scratch);
    return tap_done(&tap);
}
