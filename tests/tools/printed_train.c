/* iclab train and iclab eval print and write an evaluation, a polish and mishaps that the linker plants, whose numbers
 * all differ. */
#include "command.h"
#include "iclab/evaluate.h"
#include "iclab/file.h"
#include "iclab/session.h"
#include "read_back.h"

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
icl_status __wrap_icl_evaluate(icl_backend *backend, icl_trainer *trainer, const icl_recipe *recipe,
                               icl_evaluation **evaluation, icl_error *error);
icl_polish_result __wrap_icl_trainer_polished(const icl_trainer *trainer);
icl_basins_seen __wrap_icl_trainer_basins(const icl_trainer *trainer);
icl_status __wrap_icl_session_measure_memory(icl_trainer *trainer, const icl_recipe *recipe, icl_session_memory *memory,
                                             icl_error *error);
icl_train_progress __real_icl_trainer_progress(const icl_trainer *trainer);
icl_train_progress __wrap_icl_trainer_progress(const icl_trainer *trainer);
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

/* ---- What is planted ---- */

/* Number k of a score is its base + k / 27. */
enum number {
    MSE = 1,
    SE,
    ACCURACY,
    MINUS,
    MINUS_SE,
    ADJUSTED,
    ADJUSTED_SE,
    HALF,
    HALF_SE,
    HALF_MINUS,
    HALF_MINUS_SE,
    ABOVE_BAYES,
    MEDIAN,
    TRIMMED,
    POSITIONS
};

static double number_of(double base, int k) {
    return base + k / 27.0;
}

/* The model, and references: the model is better than the first, worse than the second, and as good as the third. */
enum { SCORES = 4, AT = 2, SEQUENCES = 4321, A_CELL = 32 };
static const char *const names[SCORES] = {"model", "one", "two", "a \"b\", c"};
static const double bases[SCORES] = {1, 3, 7, 15};
static const double signs[SCORES] = {1, 1, -1, 1};

static bool is_plain;     /* no oracle, but an accuracy and two positions */
static double first_base; /* of the next evaluation */

/* Returns a standard error that is so small that the difference is clear, except for the last reference. */
static double error_of(size_t i, double base, int k) {
    return i + 1 < SCORES ? number_of(base, k) / 64 : number_of(base, k);
}

static icl_score score_of(size_t i, double base) {
    icl_score score = {.loss_kind = is_plain ? ICL_LOSS_CROSS_ENTROPY : ICL_LOSS_SQUARED_ERROR,
                       .mse = number_of(base, MSE),
                       .se = number_of(base, SE),
                       .accuracy = is_plain ? number_of(base, ACCURACY) : (double)NAN,
                       .bits_per_byte = (double)NAN,
                       .bits_per_byte_se = (double)NAN,
                       .minus_model = i > 0 ? signs[i] * number_of(base, MINUS) : (double)NAN,
                       .minus_model_se = i > 0 ? error_of(i, base, MINUS_SE) : (double)NAN,
                       .adjusted = number_of(base, ADJUSTED),
                       .adjusted_se = number_of(base, ADJUSTED_SE),
                       .half_adjusted = is_plain ? (double)NAN : number_of(base, HALF),
                       .half_adjusted_se = number_of(base, HALF_SE),
                       .half_minus_model = is_plain || i == 0 ? (double)NAN : signs[i] * number_of(base, HALF_MINUS),
                       .half_minus_model_se = i > 0 ? error_of(i, base, HALF_MINUS_SE) : (double)NAN,
                       .half_above_bayes = number_of(base, ABOVE_BAYES),
                       .adjusted_median = number_of(base, MEDIAN),
                       .adjusted_trimmed = number_of(base, TRIMMED)};

    snprintf(score.predictor, sizeof score.predictor, "%s", names[i]);
    snprintf(score.constants, sizeof score.constants, i == 1 ? "alpha 0.5, beta 2" : "");
    return score;
}

static icl_position_score position_of(size_t i, double base, size_t s) {
    const int first = POSITIONS + 5 * (int)s;
    return (icl_position_score){4 + 5 * s,
                                number_of(base, first),
                                number_of(base, first + 1),
                                number_of(base, first + 2),
                                i > 0 ? number_of(base, first + 3) : (double)NAN,
                                i > 0 ? number_of(base, first + 4) : (double)NAN};
}

icl_status __wrap_icl_evaluate(icl_backend *backend, icl_trainer *trainer, /* NOLINT */
                               const icl_recipe *recipe, icl_evaluation **evaluation, icl_error *error) {
    icl_evaluation *made = NULL;
    icl_status status = ICL_OK;

    (void)backend;
    (void)trainer;
    (void)recipe;
    ICL_TRY(icl_allocate(1, sizeof *made, "evaluation", &made, error));
    ICL_TRY(icl_allocate(SCORES, sizeof *made->scores, "scores", &made->scores, error));
    ICL_TRY(icl_allocate((size_t)SCORES * AT, sizeof *made->curves, "curves", &made->curves, error));
    made->count = SCORES;
    made->sequences = SEQUENCES;
    for (size_t i = 0; i < SCORES; i++) {
        made->scores[i] = score_of(i, first_base + bases[i]);
        for (size_t s = 0; s < AT; s++)
            made->curves[AT * i + s] = position_of(i, first_base + bases[i], s);
        made->scores[i].positions = made->curves + AT * i;
        made->scores[i].position_count = is_plain ? AT : 0;
    }
    first_base += A_CELL;
    *evaluation = made;
    made = NULL;
done:
    icl_evaluation_destroy(&made);
    return status;
}

icl_basins_seen __wrap_icl_trainer_basins(const icl_trainer *trainer) { /* NOLINT */
    (void)trainer;
    return (icl_basins_seen){31, 2, {.3125, .34375}};
}

icl_polish_result __wrap_icl_trainer_polished(const icl_trainer *trainer) { /* NOLINT */
    (void)trainer;
    return (icl_polish_result){21, 22, false, .23, .24, .025, .26, 27, 28};
}

/* A step holds 50 MiB in the recipe's 2 slices, and 22 in 6 slices; with 11 and 13 for the rest, the total is 74. */
icl_status __wrap_icl_session_measure_memory(icl_trainer *trainer, const icl_recipe *recipe, /* NOLINT */
                                             icl_session_memory *memory, icl_error *error) {
    const double mebibyte = 1048576;

    (void)trainer;
    (void)recipe;
    (void)error;
    *memory = (icl_session_memory){{3 * mebibyte, 5 * mebibyte, 7 * mebibyte, 12, 2}, 11 * mebibyte, 13 * mebibyte};
    return ICL_OK;
}

icl_train_progress __wrap_icl_trainer_progress(const icl_trainer *trainer) { /* NOLINT */
    icl_train_progress progress = __real_icl_trainer_progress(trainer);

    progress.skipped_steps = 2;
    progress.dropped_sequences = 3;
    return progress;
}

/* ---- Commands ---- */

static char text[32768];

static int run(const subcommand *command, const char *line) {
    char copy[2048];

    first_base = 0;
    snprintf(copy, sizeof copy, "--device|cpu:threads=1|--quiet%s", line);
    return run_words(command, copy, text, sizeof text);
}

/* Writes the value into the cell as tables show it. */
static const char *shown(double value, char cell[16]) {
    snprintf(cell, 16, "%.4f", value);
    return cell;
}

static void check_shown(tap_run *tap, const char *heads, const char *row, const char *heading, int nth, double value) {
    char cell[16];
    check_cells(tap, heads, row, &(expected_cell){heading, nth, shown(value, cell)}, 1);
}

/* ---- Tables with an oracle ---- */

static void check_scores(tap_run *tap) {
    const char *heads = line_of(text, "predictor");

    for (size_t i = 0; i < SCORES; i++) {
        const char *row = line_of(text, names[i]);
        check_shown(tap, heads, row, "mse", 0, number_of(bases[i], MSE));
        check_shown(tap, heads, row, " se", 0, number_of(bases[i], SE));
        check_shown(tap, heads, row, "half_adjusted", 0, number_of(bases[i], HALF));
        check_shown(tap, heads, row, " se", 1, number_of(bases[i], HALF_SE));
        check_shown(tap, heads, row, "half_above_bayes", 0, number_of(bases[i], ABOVE_BAYES));
        check_shown(tap, heads, row, "half_median", 0, .5 * number_of(bases[i], MEDIAN));
        check_shown(tap, heads, row, "half_trimmed", 0, .5 * number_of(bases[i], TRIMMED));
    }
    tap_ok(tap, strstr(text, "\nconstants: one: alpha 0.5, beta 2\n") != NULL, "constants");
    tap_ok(tap, strstr(text, "\n4321 fresh sequences; ") != NULL, "on so many sequences");
}

static void check_verdict(tap_run *tap, int difference, int standard_error, const char *of) {
    static const char *const verdicts[] = {"the model is better than", "worse than", "not clearly different from"};
    char line[256], first[16], second[16];

    for (size_t i = 1; i < SCORES; i++) {
        snprintf(line, sizeof line, "\n%s: %s (%s +- %s)\n", verdicts[i - 1], names[i],
                 shown(signs[i] * number_of(bases[i], difference), first),
                 shown(error_of(i, bases[i], standard_error), second));
        tap_ok(tap, strstr(text, line) != NULL, "%.*s", (int)strlen(line) - 2, line + 1);
    }
    snprintf(line, sizeof line, "\n(%s less the model's, ", of);
    tap_ok(tap, strstr(text, line) != NULL, "of %s", of);
}

/* The fields of score i under the names of JSON. */
enum { FIELDS = 15, PLAIN_FIELDS = 7 };

static void fields_of(size_t i, double base, expected_field fields[FIELDS]) {
    const icl_score score = score_of(i, base);
    const expected_field all[FIELDS] = {{"predictor", 0, names[i]},
                                        {"mse", score.mse, NULL},
                                        {"se", score.se, NULL},
                                        {"minus_model", score.minus_model, NULL},
                                        {"minus_model_se", score.minus_model_se, NULL},
                                        {"adjusted", score.adjusted, NULL},
                                        {"adjusted_se", score.adjusted_se, NULL},
                                        {"half_adjusted", score.half_adjusted, NULL},
                                        {"half_adjusted_se", score.half_adjusted_se, NULL},
                                        {"half_minus_model", score.half_minus_model, NULL},
                                        {"half_minus_model_se", score.half_minus_model_se, NULL},
                                        {"half_above_bayes", score.half_above_bayes, NULL},
                                        {"half_median", .5 * score.adjusted_median, NULL},
                                        {"half_trimmed", .5 * score.adjusted_trimmed, NULL},
                                        {"constants", 0, i == 1 ? "alpha 0.5, beta 2" : ""}};
    memcpy(fields, all, sizeof all);
}

static void check_result(tap_run *tap, scratch_folder *scratch, const char *folder) {
    char name[64];
    char *content;

    snprintf(name, sizeof name, "%s/result.csv", folder);
    content = read_file(scratch, name);
    if (tap_ok(tap, content && count_lines(content) == 1 + SCORES, "%s: a row for each predictor", name))
        for (size_t i = 0; i < SCORES; i++) {
            expected_field fields[FIELDS];
            fields_of(i, bases[i], fields);
            check_csv(tap, content, i + 1, fields, FIELDS);
        }
    icl_free(&content);
}

static void check_number(tap_run *tap, const char *content, const char *member, const char *value) {
    char line[128];

    snprintf(line, sizeof line, "\"%s\":\t%s,", member, value);
    tap_ok(tap, content && strstr(content, line), "%s is %s", member, value);
}

/* Returns the number after a name; NaN if it is missing. */
static double number_behind(const char *content, const char *name) {
    char member[64];

    snprintf(member, sizeof member, "\"%s\":", name);
    const char *at = content ? strstr(content, member) : NULL;
    return at ? strtod(at + strlen(member), NULL) : (double)NAN;
}

/* run.json and result.json agree on the origin of a run and on its cost. */
static void check_facts(tap_run *tap, scratch_folder *scratch) {
    char *run_json = read_file(scratch, "run/run.json"), *result_json = read_file(scratch, "run/result.json");
    const double training = number_behind(run_json, "training_seconds");
    icl_backend *backend = NULL;
    icl_error error = {0};
    char recipe[600];

    tap_ok(tap,
           training == number_behind(result_json, "training_seconds") &&
               number_behind(run_json, "startup_seconds") != training,
           "seconds of training: %g", training);
    snprintf(recipe, sizeof recipe, "\"recipe\":\t\"%s\",", scratch_path(scratch, "own.ini"));
    tap_ok(tap, run_json && strstr(run_json, recipe) && result_json && strstr(result_json, recipe), "%s", recipe);
    if (tap_status(tap, icl_backend_open(&(icl_backend_params){.spec = "cpu:threads=1"}, &backend, &error), &error,
                   "the device")) {
        const icl_capabilities *device = icl_backend_capabilities(backend);
        const char *const facts[][2] = {{"device", device->spec},
                                        {"device_name", device->name},
                                        {"device_kind", icl_device_kind_name(device->kind)},
                                        {"platform", device->platform},
                                        {"driver", device->driver}};
        for (size_t i = 0; i < COUNT(facts); i++) {
            snprintf(recipe, sizeof recipe, "\"%s\":\t\"%s\",", facts[i][0], facts[i][1]);
            tap_ok(tap, run_json && strstr(run_json, recipe) && result_json && strstr(result_json, recipe), "%s",
                   recipe);
        }
    }
    icl_backend_close(&backend);
    icl_free(&run_json);
    icl_free(&result_json);
}

static void test_train(tap_run *tap, scratch_folder *scratch) {
    static const expected_field numbers[] = {{"polish_sequences", 21, NULL},
                                             {"polish_iterations", 22, NULL},
                                             {"polish_loss", .23, NULL},
                                             {"polish_gain", .24, NULL},
                                             {"polish_gain_se", .025, NULL},
                                             {"polish_below", .26, NULL},
                                             {"polish_gradient", 27, NULL},
                                             {"polish_gradient_se", 28, NULL},
                                             {"steps", 5, NULL},
                                             {"seed", 11, NULL},
                                             {"skipped_steps", 2, NULL},
                                             {"dropped_sequences", 3, NULL},
                                             {"sequences", SEQUENCES, NULL},
                                             {"scouts", 31, NULL},
                                             {"basin_count", 2, NULL}};
    char options[1024], line[1024];
    char *content;

    snprintf(options, sizeof options, "|%s|--out|%s/run", scratch_path(scratch, "own.ini"), scratch->folder);
    tap_ok(tap, run(&command_train, options) == EXIT_DONE, "iclab train");
    snprintf(line, sizeof line, "%s/run: step 5, seed 11, trained in ", scratch->folder);
    tap_ok(tap, strncmp(text, line, strlen(line)) == 0, "the heading");
    tap_ok(tap, strstr(text, "\n2 of 5 steps were skipped: ") && strstr(text, "\n3 sequences were left out "),
           "mishaps");
    tap_ok(tap,
           strstr(text, "polish: 22 iterations of L-BFGS on 21 sequences lowered the loss of as many others by\n"
                        "24 % +- 2.5 % and were not taken. |gradient| |parameters| / loss is 27 at the end, where "
                        "sampling\nalone makes about 28; a minimum of those sequences lies 26 % lower.\n") != NULL,
           "the polish");
    tap_ok(tap, strstr(text, "starts: 31 scouts ended in 2 basins, of losses 0.3125 0.3438. Start ") != NULL,
           "the starts");
    check_scores(tap);
    check_verdict(tap, HALF_MINUS, HALF_MINUS_SE, "half_adjusted");
    check_result(tap, scratch, "run");
    content = read_file(scratch, "run/result.json");
    check_number(tap, content, "seed", "11");
    const char *summary = content ? strstr(content, "\"summary\":\t") : NULL;
    for (size_t i = 0; i < COUNT(numbers); i++)
        tap_ok(tap, number_behind(summary, numbers[i].name) == numbers[i].number, "the summary: %s", numbers[i].name);
    tap_ok(tap, summary && strstr(summary, "\"polish_is_taken\":false,"), "and what was not taken");
    icl_free(&content);
    content = read_file(scratch, "run/run.json");
    check_number(tap, content, "seed", "11");
    check_number(tap, content, "steps", "5");
    check_number(tap, content, "skipped_steps", "2");
    check_number(tap, content, "dropped_sequences", "3");
    check_number(tap, content, "polish_gain_se", "0.025");
    check_number(tap, content, "scouts", "31");
    tap_ok(tap, content && strstr(content, "0.3125") && strstr(content, "0.34375"), "the basins");
    check_number(tap, content, "step_memory_bytes", "52428800");
    check_number(tap, content, "memory_bytes", "77594624");
    icl_free(&content);
}

/* The command tells what it is doing. */
static void test_words(tap_run *tap, scratch_folder *scratch) {
    char recipe[600], out[600], line[1024], to_folder[] = "--out", on[] = "--device", device[] = "cpu:threads=1";
    char *words[] = {recipe, to_folder, out, on, device};

    snprintf(recipe, sizeof recipe, "%s", scratch_path(scratch, "own.ini"));
    snprintf(out, sizeof out, "%s", scratch_path(scratch, "said"));
    captured lost = capture_begin(stdout), to = capture_begin(stderr);
    const int code = command_train.run(NULL, COUNT(words), words);
    capture_end(&to, text, sizeof text);
    capture_end(&lost, line, sizeof line);
    tap_ok(tap, code == EXIT_DONE && strstr(text, "\niclab: evaluating on 300 fresh sequences\n"),
           "iclab train, aloud");
    tap_ok(tap,
           strstr(text, "\niclab: the training holds 74.0 MiB; a step holds 50.0 of them (batch of 12 in 2 slices); "
                        "train.slices = 6 would hold 22.0\n") != NULL,
           "what the training holds");
    snprintf(line, sizeof line, "\niclab: run folder %s, steps 0 to 5\n", out);
    tap_ok(tap, strstr(text, line) != NULL, "its folder and steps");
}

static void test_eval(tap_run *tap, scratch_folder *scratch) {
    char options[1024];
    char *content;

    snprintf(options, sizeof options, "|%s/run", scratch->folder);
    tap_ok(tap, run(&command_eval, options) == EXIT_DONE, "iclab eval");
    check_scores(tap);
    check_result(tap, scratch, "run/eval");
    content = read_file(scratch, "run/eval/result.json");
    check_number(tap, content, "seed", "13");
    tap_ok(tap, content && strstr(content, "\"seed\":13,\"sequences\":4321,\"polish_sequences\":21,"), "the summary");
    icl_free(&content);
    snprintf(options, sizeof options, "|%s/run|--json", scratch->folder);
    run(&command_eval, options);
    tap_ok(tap, count_lines(text) == SCORES + 1, "JSON: a line for each predictor, and one more");
    const char *line = text;
    for (size_t i = 0; i < SCORES; i++, line = strchr(line, '\n') + 1) {
        expected_field fields[FIELDS];
        fields_of(i, bases[i], fields);
        check_json(tap, line, fields, FIELDS);
    }
}

/* ---- Grids ---- */

static void test_grid(tap_run *tap, scratch_folder *scratch) {
    char options[1024], *content;
    expected_field fields[FIELDS + 1];

    snprintf(options, sizeof options, "|%s/run|--over|task.n=6,7", scratch->folder);
    tap_ok(tap, run(&command_eval, options) == EXIT_DONE, "iclab eval --over");
    for (size_t cell = 0; cell < 2; cell++) {
        const char *row = line_of(text, cell == 0 ? "6 " : "7 ");
        for (size_t i = 0; i < SCORES; i++)
            check_shown(tap, text, row, names[i], 0, number_of(A_CELL * (double)cell + bases[i], MSE));
        check_shown(tap, text, row, "  se", 0, number_of(A_CELL * (double)cell + bases[0], SE));
    }
    tap_ok(tap,
           strstr(text, "\n  one: everywhere\n  two: nowhere\n") && strstr(text, " on 4321 fresh sequences a cell"),
           "its verdict");
    content = read_file(scratch, "run/over/n/table.csv");
    if (tap_ok(tap, content && count_lines(content) == 1 + 2 * SCORES, "table.csv: a row for each cell and predictor"))
        for (size_t row = 0; row < 2 * (size_t)SCORES; row++) {
            fields[FIELDS] = (expected_field){"task.n", row < SCORES ? 6 : 7, NULL};
            fields_of(row % SCORES, A_CELL * (row < SCORES ? 0.0 : 1.0) + bases[row % SCORES], fields);
            check_csv(tap, content, row + 1, fields, FIELDS + 1);
        }
    icl_free(&content);
    content = read_file(scratch, "run/over/n/result.json");
    check_number(tap, content, "seed", "13");
    icl_free(&content);
}

static void test_two_keys(tap_run *tap, scratch_folder *scratch) {
    char options[1024];

    snprintf(options, sizeof options, "|%s/run|--over|task.n=6,7|--over|task.noise=2,3,4", scratch->folder);
    tap_ok(tap, run(&command_eval, options) == EXIT_DONE, "iclab eval --over two keys");
    const char *matrix = strstr(text, "\nthe model, with task.noise across\n");
    if (!tap_ok(tap, matrix != NULL, "the matrix"))
        return;
    const char *heads = strchr(matrix + 1, '\n') + 1;
    for (int row = 0; row < 2; row++)
        for (int column = 0; column < 3; column++) {
            const char heading[] = {' ', (char)('2' + column), '\0'};
            check_shown(tap, heads, line_of(heads, row == 0 ? "6 " : "7 "), heading, 0,
                        number_of(A_CELL * (3 * row + column) + bases[0], MSE));
        }
}

/* ---- Tables without an oracle ---- */

static void check_curve(tap_run *tap) {
    const char *heads = line_of(text, "position");

    for (size_t s = 0; s < AT; s++)
        for (size_t i = 0; i < SCORES; i++)
            check_shown(tap, heads, line_of(heads, s == 0 ? "4 " : "9 "), names[i], 0,
                        position_of(i, bases[i], s).loss);
}

static void check_positions(tap_run *tap, const char *content, double cell, size_t first_row, const char *const key) {
    for (size_t i = 0; i < SCORES; i++)
        for (size_t s = 0; s < AT; s++) {
            const icl_position_score at = position_of(i, A_CELL * cell + bases[i], s);
            const expected_field fields[] = {{"predictor", 0, names[i]},
                                             {"position", (double)at.position, NULL},
                                             {"loss", at.loss, NULL},
                                             {"se", at.se, NULL},
                                             {"accuracy", at.accuracy, NULL},
                                             {"minus_model", at.minus_model, NULL},
                                             {"minus_model_se", at.minus_model_se, NULL},
                                             {key ? "task.n" : "constants", 0,
                                              key      ? key
                                              : i == 1 ? "alpha 0.5, beta 2"
                                                       : ""}};
            check_csv(tap, content, first_row + AT * i + s, fields, key ? COUNT(fields) : COUNT(fields) - 1);
        }
}

static void test_plain(tap_run *tap, scratch_folder *scratch) {
    char options[1024], *content;

    is_plain = true;
    snprintf(options, sizeof options, "|%s/run|--out|%s/plain", scratch->folder, scratch->folder);
    tap_ok(tap, run(&command_eval, options) == EXIT_DONE, "iclab eval of classes");
    for (size_t i = 0; i < SCORES; i++) {
        const char *heads = line_of(text, "predictor"), *row = line_of(text, names[i]);
        check_shown(tap, heads, row, "loss", 0, number_of(bases[i], MSE));
        check_shown(tap, heads, row, " se", 0, number_of(bases[i], SE));
        check_shown(tap, heads, row, "accuracy", 0, number_of(bases[i], ACCURACY));
    }
    check_curve(tap);
    check_verdict(tap, MINUS, MINUS_SE, "loss");
    tap_ok(tap, strstr(text, "\n4321 fresh sequences, mean cross-entropy; ") != NULL, "on so many sequences");
    content = read_file(scratch, "plain/positions.csv");
    if (tap_ok(tap, content && count_lines(content) == 1 + SCORES * AT, "positions.csv: a row for each position"))
        check_positions(tap, content, 0, 1, NULL);
    icl_free(&content);
    snprintf(options, sizeof options, "|%s/run|--over|task.n=6,7|--out|%s/plain_over", scratch->folder,
             scratch->folder);
    tap_ok(tap, run(&command_eval, options) == EXIT_DONE, "iclab eval --over of classes");
    content = read_file(scratch, "plain_over/positions.csv");
    if (tap_ok(tap, content && count_lines(content) == 1 + 2 * SCORES * AT, "positions.csv of a grid: %zu",
               content ? count_lines(content) : 0))
        for (size_t cell = 0; cell < 2; cell++)
            check_positions(tap, content, (double)cell, 1 + cell * SCORES * AT, cell == 0 ? "6" : "7");
    icl_free(&content);
}

int main(void) {
    static const char recipe[] =
        "[task]\nd = 3\nn = 5\n[model]\nlayers = 1\n[train]\nseed = 11\nsteps = 5\nbatch = 32\n"
        "growth = 0\npolish = off\n[eval]\nseed = 13\nsequences = 300\nevery = 0\n";
    tap_run tap = {0};
    scratch_folder scratch;

    (void)setenv("PATH", "/nowhere", 1); /* no gnuplot */
    scratch_open(&scratch);
    scratch_write(&scratch, "own.ini", recipe, strlen(recipe));
    test_train(&tap, &scratch);
    check_facts(&tap, &scratch);
    test_words(&tap, &scratch);
    test_eval(&tap, &scratch);
    test_grid(&tap, &scratch);
    test_two_keys(&tap, &scratch);
    test_plain(&tap, &scratch);
    scratch_close(&scratch);
    return tap_done(&tap);
}
