/* iclab sweep prints and writes results that the linker plants, whose numbers all differ. */
#include "command.h"
#include "iclab/file.h"
#include "read_back.h"
#include "run/sweep/sweep.h"

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
icl_status __wrap_icl_sweep_survey(const icl_sweep *sweep, const char *folder, bool makes_folder, size_t *finished,
                                   icl_error *error);
icl_status __wrap_icl_sweep_read_result(const icl_sweep *sweep, const char *folder, size_t cell,
                                        icl_sweep_result *result, icl_error *error);
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

/* There are two points of two seeds each. */
enum { CELLS = 4, SEEDS = 2, MEANS = 8 };
static const char plan[] =
    "[sweep]\nrecipe = own.ini\n[grid]\ntask.noise = \"choice:1,3\", fixed:2\ntrain.seed = 5, 3\n";
static const char *const noise[] = {"choice:1,3", "fixed:2"};
static const double seeds[] = {5, 3};

static bool is_loss; /* the loss is not the squared error */

static const icl_sweep_result results[CELLS] = {
    {true, false, 70, 10, .125, 1.5, .25, .0625, 24, .5, 31, false},
    {true, false, 71, 11, .875, 2.75, .375, .1875, 20, .75, 32, false},
    {true, false, 72, 12, 4.25, 5.5, .4375, .3125, 22, 1.25, 33, false},
    {true, false, 73, 13, 6.75, 9.25, .5625, .6875, 8, 1.75, 34, false},
};

icl_status __wrap_icl_sweep_survey(const icl_sweep *sweep, const char *folder, bool makes_folder, /* NOLINT */
                                   size_t *finished, icl_error *error) {
    (void)folder;
    (void)makes_folder;
    (void)error;
    *finished = icl_sweep_cells(sweep);
    return ICL_OK;
}

icl_status __wrap_icl_sweep_read_result(const icl_sweep *sweep, const char *folder, size_t cell, /* NOLINT */
                                        icl_sweep_result *result, icl_error *error) {
    (void)sweep;
    (void)folder;
    (void)error;
    *result = results[cell];
    result->is_loss = is_loss;
    return ICL_OK;
}

static char text[16384];

static int run(scratch_folder *scratch, const char *more) {
    char copy[2048];

    snprintf(copy, sizeof copy, "%s/plan.ini|--out|%s/out|--device|cpu|--quiet%s", scratch->folder, scratch->folder,
             more);
    return run_words(&command_sweep, copy, text, sizeof text);
}

/* ---- What is to be read ---- */

static void fields_of_cell(size_t cell, expected_field fields[12]) {
    const icl_sweep_result *of = &results[cell];
    const expected_field all[12] = {{"task.noise", 0, noise[cell / SEEDS]},
                                    {"train.seed", seeds[cell % SEEDS], NULL},
                                    {"steps", (double)of->steps, NULL},
                                    {"skipped_steps", (double)of->skipped_steps, NULL},
                                    {"diverged", 0, NULL},
                                    {"final_loss", of->final_loss, NULL},
                                    {is_loss ? "loss" : "mse", of->mse, NULL},
                                    {"se", of->se, NULL},
                                    {"accuracy", of->accuracy, NULL},
                                    {"half_adjusted", .5 * of->adjusted, NULL},
                                    {"half_adjusted_se", .5 * of->adjusted_se, NULL},
                                    {"seconds", of->seconds, NULL}};
    memcpy(fields, all, sizeof all);
}

/* Returns the mean of two numbers; its standard error is |a - b| / 2. */
static double mean_of(double a, double b) {
    return .5 * (a + b);
}

static double error_of(double a, double b) {
    return .5 * fabs(a - b);
}

static void fields_of_point(size_t point, expected_field fields[3 + MEANS]) {
    const icl_sweep_result *a = &results[SEEDS * point], *b = a + 1;
    const expected_field all[3 + MEANS] = {{"task.noise", 0, noise[point]},
                                           {"seeds", SEEDS, NULL},
                                           {"diverged", 0, NULL},
                                           {"mean_final_loss", mean_of(a->final_loss, b->final_loss), NULL},
                                           {"se_final_loss", error_of(a->final_loss, b->final_loss), NULL},
                                           {is_loss ? "mean_loss" : "mean_mse", mean_of(a->mse, b->mse), NULL},
                                           {is_loss ? "se_loss" : "se_mse", error_of(a->mse, b->mse), NULL},
                                           {"mean_accuracy", mean_of(a->accuracy, b->accuracy), NULL},
                                           {"se_accuracy", error_of(a->accuracy, b->accuracy), NULL},
                                           {"mean_half_adjusted", .5 * mean_of(a->adjusted, b->adjusted), NULL},
                                           {"se_half_adjusted", .5 * error_of(a->adjusted, b->adjusted), NULL}};
    memcpy(fields, all, sizeof all);
}

static void check_table(tap_run *tap, const char *heads, const char *row, const expected_field *fields, size_t count) {
    for (size_t i = 1; i < count; i++) {
        char cell[32], heading[64];
        snprintf(cell, sizeof cell, "%.4g", fields[i].number);
        snprintf(heading, sizeof heading, " %s", fields[i].name);
        if (strcmp(fields[i].name, "train.seed") != 0) /* stands to the left */
            check_cells(tap, heads, row, &(expected_cell){heading, 0, cell}, 1);
    }
}

/* ---- Tables, files, JSON ---- */

static void check_people(tap_run *tap) {
    const char *row = text + strcspn(text, "\n") + 1, *means = strstr(text, "\nmeans over seeds, ");
    expected_field fields[12];

    for (size_t cell = 0; cell < CELLS; cell++, row += strcspn(row, "\n") + 1) {
        fields_of_cell(cell, fields);
        char start[64];
        snprintf(start, sizeof start, "%-10s  %-10.0f  ", noise[cell / SEEDS], seeds[cell % SEEDS]);
        tap_ok(tap, strncmp(row, start, strlen(start)) == 0, "the row of %s", start);
        check_table(tap, text, row, fields, COUNT(fields));
    }
    if (!tap_ok(tap, means != NULL, "means over seeds"))
        return;
    const char *heads = strchr(means + 1, '\n') + 1;
    for (size_t point = 0; point < 2; point++) {
        fields_of_point(point, fields);
        check_table(tap, heads, line_of(heads, noise[point]), fields, 3 + MEANS);
    }
}

static void check_file(tap_run *tap, scratch_folder *scratch, const char *name, bool has_means) {
    char *content = NULL;
    size_t size;
    expected_field fields[12];
    const size_t count = has_means ? 2 : CELLS;

    if (tap_ok(tap,
               icl_file_read(scratch_path(scratch, name), 0, &content, &size, NULL) == ICL_OK &&
                   count_lines(content) == 1 + count,
               "%s: %zu rows", name, count))
        for (size_t i = 0; i < count; i++) {
            has_means ? fields_of_point(i, fields) : fields_of_cell(i, fields);
            check_csv(tap, content, i + 1, fields, has_means ? 3 + MEANS : 12);
        }
    icl_free(&content);
}

static void check_lines(tap_run *tap) {
    static const char *const names[CELLS] = {"noise-choice-1-3_seed-5", "noise-choice-1-3_seed-3",
                                             "noise-fixed-2_seed-5", "noise-fixed-2_seed-3"};
    static const char *const texts[] = {"5", "3"};
    static const char last[] = "{\"cells\":4,\"seeds\":2,\"diverged\":false,\"folder\":";
    const char *line = text;
    expected_field fields[13];

    tap_ok(tap, count_lines(text) == CELLS + 3, "JSON: a line for each cell and mean, and one more");
    for (size_t cell = 0; cell < CELLS; cell++, line += strcspn(line, "\n") + 1) {
        fields_of_cell(cell, fields);
        fields[1].text = texts[cell % SEEDS]; /* values of recipes are texts */
        fields[12] = (expected_field){"cell", 0, names[cell]};
        check_json(tap, line, fields, 13);
    }
    for (size_t point = 0; point < 2; point++, line += strcspn(line, "\n") + 1) {
        fields_of_point(point, fields);
        check_json(tap, line, fields, 3 + MEANS);
    }
    tap_ok(tap, strncmp(line, last, sizeof last - 1) == 0, "%.*s", (int)strcspn(line, "\n"), line);
}

int main(void) {
    tap_run tap = {0};
    scratch_folder scratch;

    (void)setenv("PATH", "/nowhere", 1); /* no gnuplot */
    scratch_open(&scratch);
    scratch_write(&scratch, "own.ini", "[task]\nd = 3\n", 13);
    scratch_write(&scratch, "plan.ini", plan, strlen(plan));
    for (int kind = 0; kind < 2; kind++) {
        is_loss = kind == 1;
        tap_ok(&tap, run(&scratch, "") == EXIT_DONE, "iclab sweep");
        check_people(&tap);
        tap_ok(&tap,
               strstr(text, "\nbest: task.noise = fixed:2: half_adjusted 7.5 +- 3.5, mean over 2 seeds\n"
                            "1 other is not clearly worse: by 2 standard errors at most\n") != NULL,
               "the best point, and how many may be as good");
        check_file(&tap, &scratch, "out/table.csv", false);
        check_file(&tap, &scratch, "out/means.csv", true);
        run(&scratch, "|--json");
        check_lines(&tap);
    }
    scratch_close(&scratch);
    return tap_done(&tap);
}
