/* iclab predict hands on, prints and writes predictions that the linker plants, whose numbers all differ. */
#include "command.h"
#include "iclab/file.h"
#include "iclab/predict.h"
#include "read_back.h"

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
icl_status __wrap_icl_predict(const icl_predict_params *params, icl_predict_outcome **outcome, icl_error *error);
void __wrap_icl_predict_outcome_destroy(icl_predict_outcome **outcome);
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

/* ---- What is planted ---- */

/* Line 3 is left out; lines 5 and 7 are to be predicted, and 7 is left out, too. */
static const char data[] = "a,\"b \"\"x\"\", c\",y\n"
                           "0.5,10,100\n"
                           "1.5,,200\n"
                           "2.5,30,300\n"
                           "3.5,40,\n"
                           "4.5,50,500\n"
                           "5.5,,\n"
                           "6.5,60,600\n";

enum { FEATURES = 2, LABELLED = 4, PREDICTED = 1 };

static size_t rows[LABELLED] = {0, 1, 3, 4}, lines[PREDICTED] = {5}; /* of the table without the lines left out */
static const double labels[LABELLED] = {100, 300, 500, 600}, labelled_lines[LABELLED] = {2, 4, 6, 8};
static double means[FEATURES + 1] = {2.125, 36.25, 390.5}, deviations[FEATURES + 1] = {1.0625, 21.75, 210.25};
static double eigenvalues[FEATURES] = {.375, 1.625}, eigenvectors[FEATURES * FEATURES] = {.8, -.6, .6, .8};
static double heldout[LABELLED * ICL_PREDICTORS], squares[LABELLED * ICL_PREDICTORS], predictions[ICL_PREDICTORS];

static icl_predict_score score_of(size_t i) {
    const double base = 2 * (double)i + 2;
    return (icl_predict_score){base + .1, base + .2, base + .3, base + .4, base + .5};
}

static icl_predict_outcome planted;
static icl_predict_params handed; /* the parameters that the command passed */

icl_status __wrap_icl_predict(const icl_predict_params *params, /* NOLINT */
                              icl_predict_outcome **outcome, icl_error *error) {
    (void)error;
    handed = *params;
    planted = (icl_predict_outcome){
        .features = FEATURES,
        .dimension = 3,
        .trained_context = 18,
        .labelled = LABELLED,
        .folds = 13,
        .repeats = 7,
        .context = 6,
        .prompts = 9,
        .whitened = true,
        .label_scale = 1.875,
        .standardization = {FEATURES, LABELLED, means, deviations, 2, eigenvalues, eigenvectors, NULL, NULL, NULL},
        .ridge_penalty = .0625,
        .rows = rows,
        .heldout = heldout,
        .squares = squares,
        .not_finite = 11,
        .predicted = PREDICTED,
        .lines = lines,
        .predictions = predictions};
    for (size_t i = 0; i < ICL_TABLE_PREDICTORS; i++) {
        planted.scores[i] = score_of(i);
        predictions[i] = 450.5 + (double)i;
        for (size_t k = 0; k < LABELLED; k++) {
            heldout[k * ICL_PREDICTORS + i] = 700.25 + 10 * (double)k + (double)i;
            squares[k * ICL_PREDICTORS + i] = 800.25 + 10 * (double)k + (double)i;
        }
    }
    *outcome = &planted;
    return ICL_OK;
}

void __wrap_icl_predict_outcome_destroy(icl_predict_outcome **outcome) { /* NOLINT */
    *outcome = NULL;
}

/* ---- The command ---- */

static char text[16384], table_path[512];

static int run(scratch_folder *scratch, const char *more) {
    char copy[2048];

    snprintf(copy, sizeof copy,
             "%s/run|--data|%s/d.csv|--target|y|--device|cpu:threads=1|--quiet|--drop-missing|--predict%s",
             scratch->folder, scratch->folder, more);
    return run_words(&command_predict, copy, text, sizeof text);
}

static void test_request(tap_run *tap, scratch_folder *scratch) {
    tap_ok(tap, run(scratch, "|--folds|3|--repeats|4|--context|5|--prompts|6|--seed|8") == EXIT_DONE, "iclab predict");
    tap_ok(tap,
           handed.folds == 3 && handed.repeats == 4 && handed.context == 5 && handed.prompts == 6 && handed.seed == 8,
           "each number reaches what it is for");
    run(scratch, "");
    tap_ok(tap,
           handed.folds == 0 && handed.repeats == 0 && handed.context == 0 && handed.prompts == 0 && handed.seed == 1,
           "none is given: the library's own, and seed 1");
}

static void test_tables(tap_run *tap, scratch_folder *scratch) {
    char line[1024];

    run(scratch, "|--seed|8");
    snprintf(line, sizeof line,
             "%s: 4 rows with the target y, 2 features of the model's 3 inputs (the others are 0), standardized and "
             "whitened\nheld out: 13 folds, 7 times, seed 8; the model is shown 6 rows, 9 times (trained on 18)\n",
             table_path);
    tap_ok(tap, strncmp(text, line, strlen(line)) == 0, "what was done");
    for (size_t i = 0; i < ICL_TABLE_PREDICTORS; i++) {
        const icl_predict_score score = score_of(i);
        const struct {
            const char *heading;
            int nth;
            double value;
        } cells[] = {{"mse", 0, score.mse},
                     {" se", 0, score.se},
                     {" rmse", 0, sqrt(score.mse)},
                     {"r_squared", 0, score.r_squared},
                     {"minus_model", 0, score.minus_model},
                     {" se", 1, score.minus_model_se}};
        for (size_t k = 0; k < (i == 0 ? 4 : COUNT(cells)); k++) {
            char cell[32];
            snprintf(cell, sizeof cell, "%.4g", cells[k].value);
            check_cells(tap, line_of(text, "predictor"), line_of(text, icl_predictor_name(i)),
                        &(expected_cell){cells[k].heading, cells[k].nth, cell}, 1);
        }
    }
    for (size_t i = 0; i < ICL_TABLE_PREDICTORS; i++) {
        char cell[32];
        snprintf(cell, sizeof cell, "%.6g", predictions[i]);
        check_cells(tap, line_of(text, "line  "), line_of(text, "5 "), &(expected_cell){icl_predictor_name(i), 0, cell},
                    1);
    }
    tap_ok(tap, strstr(text, "\n11 of the model's predictions are not finite") != NULL, "and a warning");
}

static void check_columns(tap_run *tap) {
    static const char *const names[FEATURES + 1] = {"a", "b \"x\", c", "y"};
    static const char *const starts[FEATURES + 1] = {"{\"column\":\"a\"", "{\"column\":\"b ", "{\"column\":\"y\""};

    for (size_t i = 0; i <= FEATURES; i++) {
        const expected_field fields[] = {{"column", 0, names[i]},
                                         {"number", (double)i + 1, NULL},
                                         {"role", 0, i < FEATURES ? "feature" : "target"},
                                         {"mean", means[i], NULL},
                                         {"deviation", deviations[i], NULL},
                                         {"source", 0, names[i]}};
        const char *line = line_of(text, starts[i]);
        tap_ok(tap, *line != '\0', "column %s", names[i]);
        check_json(tap, line, fields, COUNT(fields));
    }
}

static void test_json(tap_run *tap, scratch_folder *scratch) {
    const expected_field predicted[] = {{"file", 0, table_path}, {"line", 5, NULL},    {"model", 450.5, NULL},
                                        {"mean", 451.5, NULL},   {"ols", 452.5, NULL}, {"ridge", 453.5, NULL},
                                        {"adarr", 454.5, NULL}};
    const expected_field omitted[][3] = {{{"omitted", 3, NULL}, {"file", 0, table_path}, {"has_target", 1, NULL}},
                                         {{"omitted", 7, NULL}, {"file", 0, table_path}, {"has_target", 0, NULL}}};
    char place[512];
    const expected_field last[] = {{"data", 0, table_path},        {"rows", LABELLED, NULL},
                                   {"features", FEATURES, NULL},   {"dimension", 3, NULL},
                                   {"inputs", 0, "whitened"},      {"label_scale", 1.875, NULL},
                                   {"context", 6, NULL},           {"trained_context", 18, NULL},
                                   {"prompts", 9, NULL},           {"folds", 13, NULL},
                                   {"repeats", 7, NULL},           {"seed", 8, NULL},
                                   {"ridge_penalty", .0625, NULL}, {"not_finite", 11, NULL},
                                   {"predicted", PREDICTED, NULL}, {"separator", 0, "comma"},
                                   {"decimal", 0, "point"},        {"rows_omitted", 2, NULL},
                                   {"impute", (double)NAN, NULL},  {"folder", 0, place}};

    snprintf(place, sizeof place, "%s/run/predict/d-y", scratch->folder);
    run(scratch, "|--seed|8|--json");
    for (size_t i = 0; i < ICL_TABLE_PREDICTORS; i++) {
        const icl_predict_score score = score_of(i);
        const expected_field fields[] = {{"predictor", 0, icl_predictor_name(i)},
                                         {"mse", score.mse, NULL},
                                         {"se", score.se, NULL},
                                         {"rmse", sqrt(score.mse), NULL},
                                         {"r_squared", score.r_squared, NULL},
                                         {"minus_model", score.minus_model, NULL},
                                         {"minus_model_se", score.minus_model_se, NULL}};
        char start[64];
        snprintf(start, sizeof start, "{\"predictor\":\"%s\"", icl_predictor_name(i));
        check_json(tap, line_of(text, start), fields, COUNT(fields));
    }
    check_columns(tap);
    for (size_t i = 0; i < 2; i++)
        check_json(tap, line_of(text, i == 0 ? "{\"omitted\":3" : "{\"omitted\":7"), omitted[i], 3);
    check_json(tap, line_of(text, "{\"file\""), predicted, COUNT(predicted));
    check_json(tap, line_of(text, "{\"data\""), last, COUNT(last));
}

/* ---- Files ---- */

static void test_files(tap_run *tap, scratch_folder *scratch) {
    static const char *const names[FEATURES + 1] = {"a", "b \"x\", c", "y"};
    char options[1200], *content;

    snprintf(options, sizeof options, "|--seed|8|--out|%s/out", scratch->folder);
    tap_ok(tap, run(scratch, options) == EXIT_DONE, "files");
    content = read_file(scratch, "out/heldout.csv");
    if (tap_ok(tap, content && count_lines(content) == 1 + LABELLED, "heldout.csv: a row for each label"))
        for (size_t k = 0; k < LABELLED; k++) {
            expected_field fields[2 + ICL_TABLE_PREDICTORS] = {{"line", labelled_lines[k], NULL},
                                                               {"target", labels[k], NULL}};
            for (size_t i = 0; i < ICL_TABLE_PREDICTORS; i++)
                fields[2 + i] = (expected_field){icl_predictor_name(i), heldout[k * ICL_PREDICTORS + i], NULL};
            check_csv(tap, content, k + 1, fields, COUNT(fields));
        }
    icl_free(&content);
    content = read_file(scratch, "out/predictions.csv");
    if (tap_ok(tap, content && count_lines(content) == 3, "predictions.csv: a row for each row without a target"))
        for (size_t k = 0; k < 2; k++) {
            expected_field fields[1 + ICL_TABLE_PREDICTORS] = {{"line", k == 0 ? 5 : 7, NULL}};
            for (size_t i = 0; i < ICL_TABLE_PREDICTORS; i++)
                fields[1 + i] = (expected_field){icl_predictor_name(i), k == 0 ? predictions[i] : (double)NAN, NULL};
            check_csv(tap, content, k + 1, fields, COUNT(fields));
        }
    icl_free(&content);
    content = read_file(scratch, "out/standardization.csv");
    if (tap_ok(tap, content && count_lines(content) == 2 + FEATURES, "standardization.csv: a row for each column"))
        for (size_t i = 0; i <= FEATURES; i++) {
            const expected_field fields[] = {{"column", 0, names[i]},
                                             {"number", (double)i + 1, NULL},
                                             {"role", 0, i < FEATURES ? "feature" : "target"},
                                             {"mean", means[i], NULL},
                                             {"deviation", deviations[i], NULL}};
            check_csv(tap, content, i + 1, fields, COUNT(fields));
        }
    icl_free(&content);
    content = read_file(scratch, "out/omitted.csv");
    snprintf(options, sizeof options, "file,line,has_target\n\"%s\",3,true\n\"%s\",7,false\n", table_path, table_path);
    tap_ok(tap, content && strcmp(content, options) == 0, "omitted.csv");
    icl_free(&content);
}

int main(void) {
    tap_run tap = {0};
    icl_error error = {0};
    scratch_folder scratch;

    (void)setenv("PATH", "/nowhere", 1); /* no gnuplot */
    scratch_open(&scratch);
    scratch_write(&scratch, "d.csv", data, strlen(data));
    snprintf(table_path, sizeof table_path, "%s", scratch_path(&scratch, "d.csv"));
    if (tap_status(&tap, make_run(&scratch, (const char *const[]){"task.d=3"}, 1, &error), &error, "a run")) {
        test_request(&tap, &scratch);
        test_tables(&tap, &scratch);
        test_json(&tap, &scratch);
        test_files(&tap, &scratch);
    }
    scratch_close(&scratch);
    return tap_done(&tap);
}
