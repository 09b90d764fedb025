/* Tests studies that are read from files: plans and judgements of planted numbers, measurements, and refusals. */
#include <math.h>

#include "core/recipe_store.h"
#include "papers/study_file_parts.h"
#include "papers/study_list.h"
#include "shown_table.h"
#include "tap.h"

#include "../core/scratch.h"

static const char recipe_text[] = "[task]\nd = 3\nn = 5\n[model]\nlayers = 1\nparameterization = diag\n"
                                  "[train]\nbatch = 8\nsteps = 3\nwarmup = 1\n"
                                  "[eval]\nsequences = 200\nfit_sequences = 16\nevery = 0\npredictors = ols,bayes\n";

static const char study_text[] = "[study]\n"
                                 "claim = More pairs help.\n"
                                 "recipe = tiny.ini\n"
                                 "seeds = 2\n"
                                 "[set]\n"
                                 "train.steps = 12\n"
                                 "[set full]\n"
                                 "train.steps = 30\n"
                                 "[grid]\n"
                                 "task.n = 5, 6\n"
                                 "[cell wide]\n"
                                 "task.d = 4\n"
                                 "what = four inputs\n"
                                 "[cell last]\n"
                                 "begins_with = n-5\n"
                                 "scales = full\n"
                                 "[check below]\n"
                                 "number = mse\n"
                                 "target = ols.mse\n"
                                 "tolerance = 25 % + 0.5 + 2 se\n"
                                 "criterion = at most\n"
                                 "evidence = computed\n"
                                 "[check printed]\n"
                                 "number = half_adjusted\n"
                                 "quantity = half the loss\n"
                                 "cells = wide\n"
                                 "target = 42.5\n"
                                 "tolerance = 0.125\n"
                                 "evidence = read\n"
                                 "source = table 3\n"
                                 "note = by eye\n"
                                 "[check shown]\n"
                                 "number = final_loss\n"
                                 "cells = n-5\n"
                                 "scales = ci, full\n"
                                 "[check order]\n"
                                 "number = mse\n"
                                 "cells = n-\n"
                                 "target = n-5: ols.mse\n"
                                 "criterion = at least\n"
                                 "evidence = inferred\n"
                                 "source = the claim\n"
                                 "[check wide]\n"
                                 "number = mse\n"
                                 "cells = n-5\n"
                                 "target = wide: mse\n"
                                 "evidence = inferred\n"
                                 "[check rows]\n"
                                 "number = half_adjusted\n"
                                 "target = wide: 41.25, n-6: 1e1\n"
                                 "tolerance = 10 %\n"
                                 "evidence = recalled\n"
                                 "source = table 4\n"
                                 "[figure error]\n"
                                 "number = mse\n"
                                 "cells = n-\n"
                                 "x = task.n\n"
                                 "expected = ols.mse\n";

/* A study with grids of seeds and by scale, keys that only some cells read, x values taken from laws, and names that
 * contain other names. */
static const char grid_text[] = "[study]\n"
                                "claim = None.\n"
                                "recipe = tiny.ini\n"
                                "[study full]\n"
                                "seeds = 3\n"
                                "[set]\n"
                                "model.rank = 2\n"
                                "[grid]\n"
                                "model.parameterization = diag, diag+lowrank\n"
                                "task.noise = fixed:0.5, fixed:0.25\n"
                                "train.seed = 4, 7\n"
                                "[grid full]\n"
                                "train.seed = 9\n"
                                "[check rows]\n"
                                "number = mse\n"
                                "evidence = read\n"
                                "source = table 1\n"
                                "target = noise-fixed-0.5_parameterization-diag+lowrank: 3, "
                                "noise-fixed-0.5_parameterization-diag: 4\n"
                                "[figure noise]\n"
                                "number = mse\n"
                                "x = task.noise\n"
                                "curves = model.parameterization\n"
                                "expected = 1.5\n";

static void write_file(scratch_folder *scratch, const char *name, const char *text) {
    FILE *stream = fopen(scratch_path(scratch, name), "w");

    fputs(text, stream);
    fclose(stream);
}

/* Writes the text with the first `from` replaced by `to`. */
static void write_changed(scratch_folder *scratch, const char *name, const char *text, const char *from,
                          const char *to) {
    const char *at = strstr(text, from);
    FILE *stream = fopen(scratch_path(scratch, name), "w");

    fprintf(stream, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    fclose(stream);
}

/* Cells of two lists, values that combine numbers, seeds one by one, and sections of scales. */
static const char pairs_text[] = "[study]\n"
                                 "claim = It is told\n"
                                 "    in two lines.\n"
                                 "recipe = tiny.ini\n"
                                 "seeds = 2\n"
                                 "seeded = eval.every\n"
                                 "[cells]\n"
                                 "settings = n\n"
                                 "by = 5, 6\n"
                                 "[cells full]\n"
                                 "by = 6\n"
                                 "[settings n]\n"
                                 "what = pairs\n"
                                 "curve = learned\n"
                                 "[settings 5]\n"
                                 "what = five\n"
                                 "task.n = 5\n"
                                 "[settings 6]\n"
                                 "what = six\n"
                                 "task.n = 6\n"
                                 "[settings 6 full]\n"
                                 "train.steps = 7\n"
                                 "[cell apart]\n"
                                 "settings = 5\n"
                                 "untrained = true\n"
                                 "scales = ci\n"
                                 "[check]\n"
                                 "evidence = computed\n"
                                 "tolerance = 1\n"
                                 "[check ci]\n"
                                 "tolerance = 2\n"
                                 "[check logs]\n"
                                 "cells = n-5, n-6\n"
                                 "number = ln(mse)\n"
                                 "target = least(ols.mse, bayes.mse)\n"
                                 "seeds = each\n"
                                 "what = {what}, seed {seed}\n"
                                 "note = beside\n"
                                 "    {bayes.mse}\n"
                                 "[check logs full]\n"
                                 "seeds = first\n"
                                 "[check change]\n"
                                 "cells = n-6\n"
                                 "scales = ci, short\n"
                                 "number = mse / 2 - n-5: mse * 2\n"
                                 "target = 0.5\n"
                                 "source = the claim\n"
                                 "[check change short]\n"
                                 "tolerance = 4\n"
                                 "[figure]\n"
                                 "x = task.n - 1\n"
                                 "[figure error]\n"
                                 "cells = n-\n"
                                 "number = mse\n"
                                 "published = n-5: 1.5, n-6: 2.5\n";

static const char walk_text[] = "[task]\nfamily = function-classes\nlayout = separate\nd = 3\nn = 6\nnoise = 0\n"
                                "[model]\nfamily = sequence\nlayers = 1\nwidth = 8\n"
                                "[train]\nbatch = 4\nsteps = 2\nwarmup = 1\n"
                                "[eval]\nsequences = 64\nevery = 0\npredictors = least-squares\n";

/* Findings at positions, evaluations at values of a key, values of scales in a line, the best of seeds, and checks that
 * are like others. */
static const char places_text[] = "[study]\n"
                                  "claim = None.\n"
                                  "recipe = walk.ini\n"
                                  "seeds = 2\n"
                                  "best = mse\n"
                                  "[set]\n"
                                  "task.d = 4 | ci: 2 | full: 3\n"
                                  "train.warmup = | full: 2\n"
                                  "[cell n-5]\n"
                                  "[cell n-6]\n"
                                  "train.steps = 3 | ci: 5\n"
                                  "[settings few]\n"
                                  "eval.sequences = 32\n"
                                  "[eval probed]\n"
                                  "settings = few\n"
                                  "at = task.probe_at\n"
                                  "task.probe = repeated\n"
                                  "[check]\n"
                                  "evidence = computed\n"
                                  "source = form\n"
                                  "[check each]\n"
                                  "cells = n-5\n"
                                  "what = {what} after {position} of {seeds}\n"
                                  "positions = 1, 2 | full: 3\n"
                                  "number = probed@k/mse@2k / task.d\n"
                                  "target = 1 - position / task.d\n"
                                  "tolerance = 10 % of n-6: least-squares.mse + 1\n"
                                  "judged = ci, full\n"
                                  "note = {exact(position) * 12345}\n"
                                  "[check table]\n"
                                  "like = each\n"
                                  "number = mse@2k\n"
                                  "target = @2: 0.5, @3: 0.25\n"
                                  "tolerance = 0.125\n"
                                  "[check largest]\n"
                                  "like = each\n"
                                  "positions = 1..3\n"
                                  "position = largest\n"
                                  "number = errors(mse@2k, 3 - position) / 1000000\n"
                                  "target = largest(1 - position, 2 / 1)\n"
                                  "tolerance = 0\n"
                                  "note =\n"
                                  "[check best]\n"
                                  "seeds = best\n"
                                  "number = mse - least-squares.mse\n"
                                  "target = 0\n"
                                  "[figure error]\n"
                                  "seeds = best\n"
                                  "number = mse\n"
                                  "published = n-5: 1.5, n-6: 2.5\n"
                                  "x = n-5: 7, n-6: 9\n";

/* ---- Planted numbers ---- */

enum { MSE = 0, OLS, HALF_ADJUSTED, FINAL_LOSS, NUMBERS }; /* in the order in which the study names them */

typedef struct heard {
    size_t findings, trainings, points, overrides, begun, seeded; /* points: of the figure's first curve */
    size_t diverged;                                              /* trainings that are told to have */
    double x[8], published; /* the x of these points, and the second curve's value */
    struct {
        icl_finding finding;
        char what[64], quantity[64], source[64], note[64];
    } rows[16];
    char folders[16][64];
    uint64_t steps[16];
} heard;

static icl_number plant(void *user, const icl_study_cell *cell, size_t number) {
    const double base = strcmp(cell->name, "n-5") == 0 ? 10 : strcmp(cell->name, "n-6") == 0 ? 20 : 40;

    heard *messages = user;

    if (number == 0 && cell->begins_with)
        messages->begun += strcmp(cell->begins_with->name, "n-5") == 0 && cell->begins_with->seed == cell->seed;
    return (icl_number){base + (double)number + (cell->seed == 1 ? 0 : .25 * (double)(number + 1)), 99};
}

static void copy(char to[64], const char *text) {
    snprintf(to, 64, "%s", text ? text : "(none)");
}

static void hear_finding(void *user, const icl_finding *finding) {
    heard *messages = user;

    copy(messages->rows[messages->findings].what, finding->what);
    copy(messages->rows[messages->findings].quantity, finding->quantity);
    copy(messages->rows[messages->findings].source, finding->source);
    copy(messages->rows[messages->findings].note, finding->note);
    messages->rows[messages->findings++].finding = *finding;
}

static icl_status hear_training(void *user, const char *folder, const icl_recipe *recipe, icl_error *error) {
    heard *messages = user;

    (void)error;
    copy(messages->folders[messages->trainings], folder);
    messages->overrides += strcmp(icl_recipe_origin(recipe, "train", "steps"), "override") == 0;
    messages->seeded += icl_recipe_count(recipe, "eval", "every") == icl_recipe_count(recipe, "train", "seed");
    messages->steps[messages->trainings++] = icl_recipe_count(recipe, "train", "steps");
    return ICL_OK;
}

static void hear_figure(void *user, const icl_figure *figure) {
    heard *messages = user;

    messages->points = figure->series[0].count;
    for (size_t i = 0; i < messages->points && i < 8; i++)
        messages->x[i] = figure->series[0].x[i];
    messages->published = figure->series[1].y[0];
}

static icl_status listen(const char *path, icl_scale scale, const char *only, heard *messages, icl_error *error) {
    const icl_reproduce_params params = {.scale = scale, .only = only, .folder = ""};
    icl_study_file *file = NULL;
    icl_status status = ICL_OK;

    *messages = (heard){0};
    ICL_TRY(icl_study_file_load(path, NULL, &file, error));
    status = icl_study_list(icl_study_file_reproduction(file), &params,
                            &(icl_study_listener){.plant = plant,
                                                  .finding = hear_finding,
                                                  .figure = hear_figure,
                                                  .training = hear_training,
                                                  .user = messages},
                            error);
done:
    icl_study_file_destroy(&file);
    return status;
}

static void check_finding(tap_run *tap, const heard *messages, size_t row, const icl_finding *expected) {
    const icl_finding *seen = &messages->rows[row].finding;
    const bool has_words = row < messages->findings && strcmp(messages->rows[row].what, expected->what) == 0 &&
                           strcmp(messages->rows[row].quantity, expected->quantity) == 0 &&
                           strcmp(messages->rows[row].source, expected->source) == 0 &&
                           strcmp(messages->rows[row].note, expected->note) == 0;
    const bool has_numbers = seen->ours == expected->ours && seen->standard_error == expected->standard_error &&
                             seen->target == expected->target && fabs(seen->tolerance - expected->tolerance) < 1e-12 &&
                             seen->criterion == expected->criterion && seen->evidence == expected->evidence;

    if (!tap_ok(tap, has_words && has_numbers, "%s, %s", expected->what, expected->quantity))
        tap_note("%s, %s: %.17g +- %g beside %g +- %g, %d, %d, %s, %s", messages->rows[row].what,
                 messages->rows[row].quantity, seen->ours, seen->standard_error, seen->target, seen->tolerance,
                 (int)seen->criterion, (int)seen->evidence, messages->rows[row].source, messages->rows[row].note);
}

/* The mean of two seeds is base + number + .125 (number + 1), and its standard error is half of their difference. */
#define POINT(base, number) ((base) + (number) + .125 * ((number) + 1))
#define SPREAD(number)      (.125 * ((number) + 1))
#define BELOW(name, base)                                                                                              \
    {                                                                                                                  \
        .what = (name), .quantity = "below", .ours = POINT(base, MSE), .standard_error = SPREAD(MSE),                  \
        .target = POINT(base, OLS), .tolerance = .25 * POINT(base, OLS) + .5 + 2 * sqrt(.125 * .125 + .25 * .25),      \
        .criterion = ICL_AT_MOST, .evidence = ICL_COMPUTED, .source = "ols.mse", .note = "mean of 2 seeds"             \
    }

#define ROWS(name, base, row)                                                                                          \
    {                                                                                                                  \
        .what = (name), .quantity = "rows", .ours = POINT(base, HALF_ADJUSTED),                                        \
        .standard_error = SPREAD(HALF_ADJUSTED), .target = (row), .tolerance = .1 * (row), .evidence = ICL_RECALLED,   \
        .source = "table 4", .note = "mean of 2 seeds"                                                                 \
    }

static void check_planted(tap_run *tap, scratch_folder *scratch) {
    const icl_finding expected[] = {
        BELOW("n-5", 10),
        {.what = "n-5",
         .quantity = "shown",
         .ours = POINT(10, FINAL_LOSS),
         .standard_error = SPREAD(FINAL_LOSS),
         .source = "(none)",
         .note = "mean of 2 seeds"},
        BELOW("n-6", 20),
        ROWS("n-6", 20, 10),
        BELOW("four inputs", 40),
        {.what = "four inputs",
         .quantity = "half the loss",
         .ours = POINT(40, HALF_ADJUSTED),
         .standard_error = SPREAD(HALF_ADJUSTED),
         .target = 42.5,
         .tolerance = .125,
         .evidence = ICL_READ,
         .source = "table 3",
         .note = "by eye"},
        ROWS("four inputs", 40, 41.25),
        {.what = "n-5",
         .quantity = "wide",
         .ours = POINT(10, MSE),
         .standard_error = SPREAD(MSE),
         .target = POINT(40, MSE),
         .evidence = ICL_INFERRED,
         .source = "wide: mse",
         .note = "mean of 2 seeds"},
        {.what = "n-6",
         .quantity = "order",
         .ours = POINT(20, MSE),
         .standard_error = SPREAD(MSE),
         .target = POINT(10, OLS),
         .criterion = ICL_AT_LEAST,
         .evidence = ICL_INFERRED,
         .source = "the claim",
         .note = "mean of 2 seeds"},
    };
    enum { FINDINGS = sizeof expected / sizeof *expected };
    static const char *const folders[] = {"runs/n-5-seed1", "runs/n-6-seed1", "runs/wide-seed1", "runs/last-seed1"};
    icl_error error = {0};
    heard all;

    write_file(scratch, "study.ini", study_text);
    tap_status(tap, listen(scratch_path(scratch, "study.ini"), ICL_SCALE_CI, NULL, &all, &error), &error, "a study");
    tap_ok(tap, all.findings == FINDINGS, "%zu findings", all.findings);
    for (size_t i = 0; i < FINDINGS; i++)
        check_finding(tap, &all, i, &expected[i]);
    tap_ok(tap, all.trainings == 6 && all.steps[0] == 12 && all.overrides == 6,
           "three cells of two seeds, by the settings of all scales");
    for (size_t i = 0; i < 3; i++)
        tap_ok(tap, strcmp(all.folders[2 * i], folders[i]) == 0, "trained in %s", all.folders[2 * i]);

    tap_status(tap, listen(scratch_path(scratch, "study.ini"), ICL_SCALE_FULL, NULL, &all, &error), &error, "full");
    tap_ok(tap, all.begun == 2, "one cell begins with another, seed by seed");
    tap_ok(tap, all.trainings == 8 && all.steps[0] == 30 && strcmp(all.folders[6], folders[3]) == 0,
           "a cell of this scale alone, and its own settings");
    tap_ok(tap,
           listen(scratch_path(scratch, "study.ini"), ICL_SCALE_SHORT, NULL, &all, &error) == ICL_OK &&
               all.findings == FINDINGS - 1,
           "no check of other scales");

    tap_status(tap, listen(scratch_path(scratch, "study.ini"), ICL_SCALE_CI, "n-6", &all, &error), &error, "one cell");
    tap_ok(tap, all.findings == 3 && all.trainings == 6 && all.points == 2,
           "is judged alone, beside the one that it is compared with");
    check_finding(tap, &all, 2, &expected[FINDINGS - 1]);
    tap_status(tap, listen(scratch_path(scratch, "study.ini"), ICL_SCALE_CI, "n-5", &all, &error), &error, "another");
    tap_ok(tap, all.points == 1, "is drawn without those that nobody asked for");
}

static bool is_finding(const heard *all, size_t row, const char *what, double ours, double target, double tolerance) {
    const icl_finding *seen = &all->rows[row].finding;
    const bool is_same = strcmp(all->rows[row].what, what) == 0 && fabs(seen->ours - ours) < 1e-12 &&
                         seen->target == target && seen->tolerance == tolerance;

    if (!is_same)
        tap_note("%s: %.17g beside %g +- %g", all->rows[row].what, seen->ours, seen->target, seen->tolerance);
    return is_same;
}

static void check_pairs(tap_run *tap, scratch_folder *scratch) {
    icl_error error = {0};
    heard all;

    write_file(scratch, "pairs.ini", pairs_text);
    tap_status(tap, listen(scratch_path(scratch, "pairs.ini"), ICL_SCALE_CI, NULL, &all, &error), &error, "pairs");
    tap_ok(tap, all.trainings == 4 && strcmp(all.folders[2], "runs/n-6-seed1") == 0 && all.seeded == 4,
           "two cells of two seeds, whose keys follow the seed, and one that is not trained");
    tap_ok(tap, all.findings == 5, "%zu findings", all.findings);
    tap_ok(tap,
           is_finding(&all, 0, "pairs, five, seed 1", log(10), 11, 2) &&
               is_finding(&all, 1, "pairs, five, seed 198529752", log(10.25), 11.5, 2) &&
               is_finding(&all, 2, "pairs, six, seed 1", log(20), 21, 2),
           "each seed is judged alone, at the tolerance of the scale");
    tap_ok(tap, strcmp(all.rows[1].note, "beside 12.75") == 0, "a note with a number: %s", all.rows[1].note);
    tap_ok(tap,
           is_finding(&all, 4, "pairs, six", POINT(20, MSE) / 2 - 2 * POINT(10, MSE), .5, 2) &&
               fabs(all.rows[4].finding.standard_error - hypot(SPREAD(MSE) / 2, 2 * SPREAD(MSE))) < 1e-12,
           "a value of two points, with the standard error of both");
    tap_ok(tap, all.points == 2 && all.x[0] == 4 && all.x[1] == 5 && all.published == 1.5, "points at computed places");
    tap_status(tap, listen(scratch_path(scratch, "pairs.ini"), ICL_SCALE_SHORT, NULL, &all, &error), &error, "short");
    tap_ok(tap, is_finding(&all, 0, "pairs, five, seed 1", log(10), 11, 1) && all.rows[4].finding.tolerance == 4,
           "sections of other scales do not count");
    tap_status(tap, listen(scratch_path(scratch, "pairs.ini"), ICL_SCALE_FULL, NULL, &all, &error), &error, "full");
    tap_ok(tap,
           all.findings == 1 && all.trainings == 2 && all.steps[0] == 7 &&
               is_finding(&all, 0, "pairs, six, seed 1", log(20), 21, 1),
           "fewer cells, settings of the scale, and the first seed");
}

/* Numbers in the order in which the study names them: probed@1/mse@2, least-squares.mse, probed@2/mse@4, ... */
enum { PROBED_1 = 0, SQUARES, PROBED_2, PROBED_3, MSE_4, MSE_6, MSE_2, BEST_MSE };

static void check_places(tap_run *tap, scratch_folder *scratch) {
    const double tenth = .1 * POINT(20, SQUARES);
    icl_error error = {0};
    heard all;

    write_file(scratch, "walk.ini", walk_text);
    write_file(scratch, "places.ini", places_text);
    tap_status(tap, listen(scratch_path(scratch, "places.ini"), ICL_SCALE_CI, NULL, &all, &error), &error, "places");
    tap_ok(tap, all.findings == 7 && all.steps[0] == 2 && all.steps[2] == 5, "%zu findings, steps %d and %d",
           all.findings, (int)all.steps[0], (int)all.steps[2]);
    tap_ok(tap,
           is_finding(&all, 5, "n-5 after 1 of 2", POINT(10, PROBED_1) / 2, .5, tenth + 1) &&
               is_finding(&all, 6, "n-5 after 2 of 2", POINT(10, PROBED_2) / 2, 0, tenth + 1),
           "a check at two positions, of evaluations there, with a share of another number as tolerance");
    tap_ok(tap, strcmp(all.rows[5].note, "12345") == 0 && strcmp(all.rows[6].note, "24690") == 0,
           "whole numbers in full: %s, %s", all.rows[5].note, all.rows[6].note);
    tap_ok(tap,
           is_finding(&all, 0, "n-5 after 2 of 2", POINT(10, MSE_4), .5, .125) &&
               is_finding(&all, 1, "n-5 after 3 of 2", POINT(10, MSE_6), .25, .125),
           "a table by position, in a check that is like another");
    /* From 0 they count in units of 1e-6. */
    tap_ok(tap, is_finding(&all, 2, "n-5 after 3 of 2", POINT(10, MSE_6), 2, 0), "one finding, at the largest");
    tap_ok(tap,
           is_finding(&all, 3, "n-5", BEST_MSE - SQUARES, 0, 0) && is_finding(&all, 4, "n-6", BEST_MSE - SQUARES, 0, 0),
           "the best of the seeds");
    tap_ok(tap, all.points == 2 && all.x[0] == 7 && all.x[1] == 9 && all.published == 1.5, "points by a table");
    tap_status(tap, listen(scratch_path(scratch, "places.ini"), ICL_SCALE_SHORT, NULL, &all, &error), &error, "short");
    tap_ok(tap,
           all.steps[2] == 3 && all.rows[5].finding.evidence == ICL_EVIDENCE_NONE &&
               all.rows[3].finding.evidence == ICL_COMPUTED &&
               is_finding(&all, 5, "n-5 after 1 of 2", POINT(10, PROBED_1) / 4, .75, tenth + 1),
           "without a verdict where none is asked for, with values of this scale");
    tap_status(tap, listen(scratch_path(scratch, "places.ini"), ICL_SCALE_FULL, NULL, &all, &error), &error, "full");
    tap_ok(tap, all.findings == 6 && is_finding(&all, 5, "n-5 after 3 of 2", POINT(10, PROBED_3) / 3, 0, tenth + 1),
           "positions of a scale");
}

static void check_grid(tap_run *tap, scratch_folder *scratch) {
    static const char *const folders[] = {"runs/noise-fixed-0.5_parameterization-diag-seed4",
                                          "runs/noise-fixed-0.5_parameterization-diag-seed7"};
    icl_error error = {0};
    heard all;

    write_file(scratch, "grid.ini", grid_text);
    tap_status(tap, listen(scratch_path(scratch, "grid.ini"), ICL_SCALE_CI, NULL, &all, &error), &error, "a grid");
    tap_ok(tap, all.trainings == 8, "of four points and two seeds");
    for (size_t i = 0; i < 2; i++)
        tap_ok(tap, strcmp(all.folders[i], folders[i]) == 0, "trained in %s", all.folders[i]);
    tap_ok(tap, all.findings == 2 && all.rows[0].finding.target == 4 && all.rows[1].finding.target == 3,
           "rows of a table belong to the cells of their names");
    tap_ok(tap, all.points == 2 && all.x[0] == .25 && all.x[1] == .5 && all.published == 1.5, "points at their levels");
    write_changed(scratch, "grid.ini", grid_text, "[study full]\nseeds = 3", "");
    tap_status(tap, listen(scratch_path(scratch, "grid.ini"), ICL_SCALE_FULL, NULL, &all, &error), &error, "full");
    tap_ok(tap, all.trainings == 4, "has a grid of its own");
    write_changed(scratch, "grid.ini", grid_text, "train.seed = 4, 7\n[grid full]\ntrain.seed = 9", "");
    tap_status(tap, listen(scratch_path(scratch, "grid.ini"), ICL_SCALE_FULL, NULL, &all, &error), &error, "full");
    tap_ok(tap, all.trainings == 12, "and seeds of its own");
}

/* ---- Measures ---- */

/* Every quantity equals that of the evaluation, and no two quantities are equal. */
static void check_measured(tap_run *tap, const char *name, const char *recipe_file, const char *const *numbers,
                           size_t count, double (*expected)(const icl_evaluation *evaluation, size_t number)) {
    icl_reproduce_params params = {0};
    icl_study_numbers table = {0};
    icl_evaluation *evaluation = NULL;
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = NULL;
    bool all[16];
    icl_number values[16];
    icl_error error = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_create_complete(&recipe, &error));
    ICL_TRY(icl_recipe_load(recipe, recipe_file, &error));
    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "cpu:threads=1"}, &params.backend, &error));
    ICL_TRY(icl_trainer_create(params.backend, recipe, &trainer, &error));
    ICL_TRY(icl_evaluate(params.backend, trainer, recipe, &evaluation, &error));
    for (size_t i = 0; i < count; i++)
        ICL_TRY(icl_study_numbers_add(&table, numbers[i], &error));
    memset(all, true, sizeof all);
    icl_reproducing run = {.params = &params};
    icl_study study = {.run = &run};
    ICL_TRY(icl_study_numbers_measure(&table, "", all, recipe, &study, &(icl_study_cell){.complete = recipe}, trainer,
                                      values, &error));
    for (size_t i = 0; i < count; i++) {
        bool is_alone = true;
        for (size_t k = 0; k < i; k++)
            is_alone = is_alone && values[k].value != values[i].value;
        tap_ok(tap, is_alone && values[i].value == expected(evaluation, i), "%s: %s is %g", name, numbers[i],
               values[i].value);
    }
done:
    tap_status(tap, status, &error, name);
    icl_study_numbers_release(&table);
    icl_evaluation_destroy(&evaluation);
    icl_trainer_destroy(&trainer);
    icl_backend_close(&params.backend);
    icl_recipe_destroy(&recipe);
}

static const char *const of_regression[] = {
    "mse",      "adjusted",        "half_adjusted",        "half_above_bayes", "adjusted_median", "adjusted_trimmed",
    "ols.loss", "ols.minus_model", "ols.half_minus_model", "bayes.mse",        "half_mse",        "parameters"};

static double regression(const icl_evaluation *evaluation, size_t number) {
    const icl_score *model = &evaluation->scores[0], *ols = &evaluation->scores[1], *bayes = &evaluation->scores[2];
    const double values[] = {model->mse,
                             model->adjusted,
                             model->half_adjusted,
                             model->half_above_bayes,
                             model->adjusted_median,
                             model->adjusted_trimmed,
                             ols->mse,
                             ols->minus_model,
                             ols->half_minus_model,
                             bayes->mse,
                             .5 * model->mse,
                             4}; /* one diagonal layer */
    return values[number];
}

static const char *const of_recall[] = {"loss",           "accuracy",  "values.accuracy", "loss@9",
                                        "uniform.loss@9", "loss@8..9", "loss@8.."};

static const icl_position_score *at_9(const icl_score *score) {
    for (size_t i = 0; i < score->position_count; i++)
        if (score->positions[i].position == 9)
            return &score->positions[i];
    return NULL;
}

static double recall(const icl_evaluation *evaluation, size_t number) {
    const icl_score *model = &evaluation->scores[0], *uniform = &evaluation->scores[1];
    double sums[2] = {0}, counts[2] = {0};

    for (size_t i = 0; i < model->position_count; i++)
        for (size_t to_end = 0; to_end < 2; to_end++)
            if (model->positions[i].position >= 8 && (to_end || model->positions[i].position <= 9)) {
                sums[to_end] += model->positions[i].loss;
                counts[to_end]++;
            }
    const double values[] = {model->mse,         model->accuracy,     evaluation->scores[2].accuracy,
                             at_9(model)->loss,  at_9(uniform)->loss, sums[0] / counts[0],
                             sums[1] / counts[1]};
    return values[number];
}

/* Checks that numbers may be at the first and the last scored position, and not beside them. */
static void check_positions(tap_run *tap, const char *recipe_file) {
    icl_study_numbers table = {0};
    icl_recipe *recipe = NULL;
    icl_task *task = NULL;

    tap_need(icl_recipe_create_complete(&recipe, tap_error()));
    tap_need(icl_recipe_load(recipe, recipe_file, tap_error()));
    tap_need(icl_task_create(recipe, &task, tap_error()));
    const icl_task_shape *shape = icl_task_get_shape(task);
    const size_t first = shape->first_scored, last = first + shape->scored - 1,
                 places[] = {first - 1, first, last, last + 1};
    for (size_t i = 0; i < 4; i++) {
        tap_need(icl_study_numbers_add(&table, ICL_PHRASE("loss@%zu", places[i]), tap_error()));
        const icl_status status = icl_study_numbers_check(&table, i, task, recipe, tap_error());
        tap_ok(tap, status == (i == 1 || i == 2 ? ICL_OK : ICL_ERROR_INPUT), "position %zu of %zu to %zu", places[i],
               first, last);
    }
    icl_study_numbers_release(&table);
    icl_task_destroy(&task);
    icl_recipe_destroy(&recipe);
}

/* ---- A run ---- */

static void note_finding(void *user, const icl_reproduction *reproduction, const icl_finding *finding) {
    (void)reproduction;
    hear_finding(user, finding);
}

static void note_training(void *user, const icl_reproduction *reproduction, const icl_training_row *training) {
    (void)reproduction;
    ((heard *)user)->diverged += training->has_diverged && strcmp(training->what, "hot") == 0;
}

/* Returns the mean of the losses in the last two of twelve rows. */
static double final_loss(scratch_folder *scratch, const char *folder) {
    char *text = shown_file(scratch_path(scratch, folder), "metrics.csv");
    double loss = 0;
    int row = 0;

    for (char *line = strchr(text, '\n'); line && line[1]; line = strchr(line + 1, '\n'))
        if (row++ >= 10)
            loss += strtod(strchr(line + 1, ',') + 1, NULL) / 2;
    free(text);
    return loss;
}

static void check_figure(tap_run *tap, scratch_folder *scratch, const heard *messages) {
    char *text = shown_file(scratch->folder, "error.csv"), *at = strchr(text, '\n') + 1;
    double x[2], ours[2], error[2], beside[2];

    for (int i = 0; i < 2; i++) {
        double *const fields[] = {&x[i], &ours[i], &error[i], NULL, &beside[i], NULL};
        for (int column = 0; column < 6; column++) {
            const double value = strtod(at, &at);
            if (fields[column])
                *fields[column] = value;
            at += *at != '\0'; /* a comma, or the line's end */
        }
    }
    tap_ok(tap,
           x[0] == 5 && x[1] == 6 && ours[0] == messages->rows[0].finding.ours &&
               ours[1] == messages->rows[2].finding.ours,
           "the figure has ours at their places");
    tap_ok(tap,
           error[0] == messages->rows[0].finding.standard_error && beside[0] == messages->rows[0].finding.target &&
               beside[1] == messages->rows[2].finding.target,
           "with the errors over seeds, and what is expected beside");
    free(text);
}

static void check_run(tap_run *tap, scratch_folder *scratch) {
    icl_reproduce_params params = {.folder = scratch->folder, .report = note_finding};
    icl_reproduce_summary summary = {0};
    icl_study_file *file = NULL;
    heard all = {0};
    icl_error error = {0};
    icl_status status = ICL_OK;

    params.user = &all;
    write_file(scratch, "study.ini", study_text);
    ICL_TRY(icl_study_file_load(scratch_path(scratch, "study.ini"), NULL, &file, &error));
    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "cpu:threads=1"}, &params.backend, &error));
    ICL_TRY(icl_reproduce(icl_study_file_reproduction(file), &params, &summary, &error));
    const double both = final_loss(scratch, "runs/n-5-seed1") + final_loss(scratch, "runs/n-5-seed198529752");
    tap_ok(tap, summary.findings == 9 && fabs(all.rows[1].finding.ours - both / 2) < 1e-12,
           "the loss at the end of training is %g", both / 2);
    check_figure(tap, scratch, &all);
done:
    tap_status(tap, status, &error, "a study is run");
    icl_backend_close(&params.backend);
    icl_study_file_destroy(&file);
}

/* Untrained models are the same in two studies; the first also evaluates its model on the task of the second. */
static void check_evaluations(tap_run *tap, scratch_folder *scratch) {
    static const char *const texts[] = {"[study]\nclaim = None.\nrecipe = tiny.ini\n[set]\ntrain.steps = 0\n"
                                        "[grid]\ntask.n = 5\n[eval loud]\ntask.noise = fixed:3\n"
                                        "[check a]\nnumber = mse\n[check b]\nnumber = loud/mse\n"
                                        "[check c]\nnumber = loud/ols.mse\n",
                                        "[study]\nclaim = None.\nrecipe = tiny.ini\n[set]\ntrain.steps = 0\n"
                                        "task.noise = fixed:3\n[grid]\ntask.n = 5\n"
                                        "[check b]\nnumber = mse\n[check c]\nnumber = ols.mse\n"};
    icl_reproduce_params params = {.report = note_finding};
    icl_reproduce_summary summary = {0};
    icl_study_file *file = NULL;
    heard all[2] = {{0}};
    char folder[512];
    icl_error error = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "cpu:threads=1"}, &params.backend, &error));
    for (int i = 0; i < 2; i++) {
        snprintf(folder, sizeof folder, "%s/evaluated-%d", scratch->folder, i);
        params.folder = folder;
        params.user = &all[i];
        write_file(scratch, "study.ini", texts[i]);
        icl_study_file_destroy(&file);
        ICL_TRY(icl_study_file_load(scratch_path(scratch, "study.ini"), NULL, &file, &error));
        ICL_TRY(icl_reproduce(icl_study_file_reproduction(file), &params, &summary, &error));
    }
    tap_ok(tap, all[0].rows[1].finding.ours == all[1].rows[0].finding.ours, "the model's loss on another task is %g",
           all[0].rows[1].finding.ours);
    tap_ok(tap, all[0].rows[2].finding.ours == all[1].rows[1].finding.ours, "that of a predictor there is %g",
           all[0].rows[2].finding.ours);
    tap_ok(tap, all[0].rows[0].finding.ours != all[0].rows[1].finding.ours, "its own task is another one");
done:
    tap_status(tap, status, &error, "other evaluations");
    icl_backend_close(&params.backend);
    icl_study_file_destroy(&file);
}

/* A training that diverged has no numbers, and its targets are missed. */
static void check_diverged(tap_run *tap, scratch_folder *scratch) {
    icl_reproduce_params params = {.report = note_finding, .trained = note_training};
    icl_reproduce_summary summary = {0};
    icl_study_file *file = NULL;
    heard all = {0};
    char folder[512];
    icl_error error = {0};
    icl_status status = ICL_OK;

    snprintf(folder, sizeof folder, "%s/diverged", scratch->folder);
    params.folder = folder;
    params.user = &all;
    write_file(
        scratch, "study.ini",
        "[study]\nclaim = None.\nscope = All.\nrecipe = tiny.ini\nseeds = 2\n[cell hot]\ntrain.learning_rate = "
        "1000000\n"
        "model.layers = 4\ntrain.clip = 0\ntrain.steps = 50\n[check a]\nnumber = mse\ntarget = 1\ntolerance = 1000\n"
        "evidence = read\nsource = table 1\n");
    ICL_TRY(icl_study_file_load(scratch_path(scratch, "study.ini"), NULL, &file, &error));
    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "cpu:threads=1"}, &params.backend, &error));
    ICL_TRY(icl_reproduce(icl_study_file_reproduction(file), &params, &summary, &error));
    tap_ok(tap, summary.missed == 1 && isnan(all.rows[0].finding.ours), "nothing came out");
    tap_ok(tap, strcmp(all.rows[0].note, "2 of 2 seeds gave no finite number") == 0, "%s", all.rows[0].note);
    tap_ok(tap, all.diverged == 2, "%zu trainings are told to have diverged", all.diverged);
    const char *scope = icl_study_file_reproduction(file)->scope;
    tap_ok(tap, scope && strcmp(scope, "All.") == 0, "the file's scope");
done:
    tap_status(tap, status, &error, "a study that diverges");
    icl_backend_close(&params.backend);
    icl_study_file_destroy(&file);
}

/* ---- What is refused ---- */

static const struct {
    const char *from, *to, *message; /* behind the file's name */
} refused[] = {
    {"recipe = tiny", "recipe = tyny", ":3: recipe tyny.ini: no such file"},
    {"claim = More pairs help.\n", "", ":1: [study]: expected a line claim = one plain sentence"},
    {"number = mse", "number = mze",
     ":18: check below.number = mze: expected NUMBER or PREDICTOR.NUMBER; the nearest known number is mse"},
    {"number = mse", "", ":17: [check below]: expected a line number = mse"},
    {"= ols.mse", "= oracle.mse", ":19: check below.target = oracle.mse: expected a predictor of eval.predictors = "},
    {"= ols.mse", "= minus_model", ":19: check below.target = minus_model: expected PREDICTOR.minus_model: "},
    {"= ols.mse", "= ols.final_loss",
     ":19: check below.target = ols.final_loss: expected final_loss: it is that of the training"},
    {"number = mse", "number = accuracy", ":18: check below.number = accuracy: expected another number: "},
    {"number = mse", "number = mse@2", ":18: check below.number = mse@2: expected it without @: "},
    {"number = mse", "number = mse@x", ":18: check below.number = mse@x: expected a position behind @"},
    {"= half_adj", "= half_adjusted@1", ":24: check printed.number = half_adjusted@1usted: expected mse, loss, "},
    {"task.n = 5, 6", "model.feature_map = elu+1, relu",
     ":10: model.feature_map = elu+1: model.family = linear does not read it: "},
    {"train.steps = 12", "model.feature_map = elu+1",
     ":6: model.feature_map = elu+1: model.family = linear does not read it: "},
    {"task.n = 5, 6", "task.n =", ":10: grid.task.n = : expected at least one value"},
    {"train.steps = 12", "task.n = 3", ":10: grid.task.n: expected it here or in [set] (study.ini:6), not in both"},
    {"train.steps = 12", "train.seed = 3", ":6: train.seed = 3: expected it or seeds = 2 in [study], not both"},
    {"train.steps = 12", "eval.seed = 3", ":6: eval.seed = 3: expected --seed of the command in its place"},
    {"source = table 3\n", "", ":27: check printed.target = 42.5: expected a line source = ... beside it"},
    {"evidence = read\n", "", ":27: check printed.target = 42.5: expected a line evidence = read, stated, "},
    {"target = 42.5\n", "", ":28: check printed.evidence = read: expected a line target = ... beside it"},
    {"tolerance = 0.125", "tolerance = 0.125 per", ":28: check printed.tolerance = 0.125 per: expected terms such as"},
    {"tolerance = 0.125", "tolerance = -1", ":28: check printed.tolerance = -1: expected terms such as"},
    {"quantity =", "quality =", ":25: unknown key check printed.quality; the nearest known one is check printed.qua"},
    {"train.steps = 12", "train.step = 12", ":6: unknown key set.train.step; the nearest known one is set.train.st"},
    {"[check shown]", "[chek shown]", ":32: [chek shown]: unknown section; the nearest known one is [check NAME]"},
    {"[check shown]", "[cell]", ":32: [cell]: expected [cell NAME] or [cell NAME ci|short|full], NAME of letters"},
    {"[check shown]", "[check a/b]", ":32: [check a/b]: expected [check NAME] or [check NAME ci|short|full], NAME of"},
    {"[check shown]", "[check shown night]", ":32: [check shown night]: expected [check NAME] or [check NAME ci|"},
    {"[check shown]", "[check later ci]", ":32: [check later ci]: expected a section [check later] above it"},
    {"[check shown]", "[check ci]", ":32: [check ci]: expected a section [check] above it"},
    {"number = mse", "number = mse mse", ":18: check below.number = mse mse: expected +, -, * or / between blanks, or"},
    {"number = mse", "number = log(mse)", ":18: check below.number = log(mse): expected ln(VALUE), exact(VALUE), "},
    {"number = mse", "number = ln(mse", ":18: check below.number = ln(mse: expected a ) at"},
    {"number = mse", "number = mse -", ":18: check below.number = mse -: expected +, -, * or / between"},
    {"number = mse", "number = mse - n-9: mse", ":18: check below.number = mse - n-9: mse: expected a cell's name be"},
    {"number = mse", "number = wide: accuracy", ":18: check below.number = wide: accuracy: expected another number: "},
    {"note = by eye", "note = by {mze}", ":31: check printed.note = by {mze}: expected NUMBER or PREDICTOR.NUMBER; "},
    {"note = by eye", "seeds = all", ":31: check printed.seeds = all: expected one of mean|each|first"},
    {"what = four inputs", "settings = four", ":13: cell wide.settings = four: expected names of sections [settings"},
    {"[cell wide]", "[cells]\nsettings = wide\nby = deep\n[cell wide]",
     ":12: cells.settings = wide: expected names of sections [settings"},
    {"seeds = 2", "seeded = train.sead", ":4: study.seeded = train.sead: expected keys of recipes"},
    {"[set full]", "[set fast]", ":7: [set fast]: unknown section; the nearest known one is [set ci|short|full]"},
    {"n-5\nscales = full", "n-4", ":15: cell last.begins_with = n-4: expected a cell above it with as many seeds; the"},
    {"n-5\nscales = full", "wide\nmodel.layers = 2",
     ":15: cell last.begins_with = wide: expected a cell of 8 parameters; that one has 4"},
    {"scales = full", "scales = all", ":16: cell last.scales = all: expected some of ci, short, full"},
    {"[cell wide]", "[cell n-5]", ":11: [cell n-5]: expected a name that no cell of the grid has"},
    {"cells = wide", "cells = broad", ":26: check printed.cells = broad: expected a part of a cell's name, such as n-"},
    {"n-5: ols.mse", "n-7: ols.mse", ":39: check order.target = n-7: ols.mse: expected a cell's name before the colon"},
    {"wide: 41.25", "wode: 41.25",
     ":50: check rows.target = wode: 41.25, n-6: 1e1: expected a cell's name before the "},
    {"n-6: 1e1", "n-6 1e1", ":50: check rows.target = wide: 41.25, n-6 1e1: expected rows CELL: NUMBER or @"},
    {"source = table 4\n", "",
     ":50: check rows.target = wide: 41.25, n-6: 1e1: expected a line source = ... beside it"},
    {"n-5: ols.mse", "n-5: oracle.mse",
     ":39: check order.target = n-5: oracle.mse: expected a predictor of eval.predi"},
    {"= ols.mse", "= shifted/ols.mse", ":19: check below.target = shifted/ols.mse: expected a section [eval shifted]"},
    {"[check below]", "[eval shifted]\n[check below]",
     ":17: [eval shifted]: expected a check or a figure of a number shi"},
    {"[check below]\nnumber = mse", "[eval soft]\ntask.noise = fixed:2\n[check below]\nnumber = loud/mse",
     ":20: check below.number = loud/mse: expected a section [eval loud]"},
    {"[check below]\nnumber = mse", "[eval deep]\nmodel.layers = 2\n[check below]\nnumber = deep/mse",
     ":20: check below.number = deep/mse: expected an evaluation of a model of 4 parameters; that one has 8"},
    {"[check below]\nnumber = mse", "[eval deep]\nmodel.feature_map = elu+1\n[check below]\nnumber = deep/mse",
     ":18: model.feature_map = elu+1: model.family = linear does not read it"},
    {"x = task.n", "x = task.m", ":57: figure error.x = task.m: expected a key of recipes"},
    {"x = task.n", "x = model.family", ":57: figure error.x = model.family: expected a key whose values are numbers"},
    {"x = task.n", "", ":54: [figure error]: expected a line x = task.n"},
};

/* The same for what has positions, evaluations at values, or likenesses. */
static const struct {
    const char *from, *to, *message;
} misplaced[] = {
    {"at = task.probe_at\n", "",
     ":24: check each.number = probed@k/mse@2k / task.d: expected a line at = KEY in [eval"},
    {"at = task.probe_at", "at = task.probed",
     ":16: eval probed.at = task.probed: expected a key of recipes, such as "},
    {"probed@k/mse@2k /", "probed/mse@2k /", ":25: check each.number = probed/mse@2k / task.d: expected probed@VALUE/"},
    {"settings = few", "settings = many", ":15: eval probed.settings = many: expected names of sections [settings NAM"},
    {"number = mse@2k", "number = mse@3..2", ":32: check table.number = mse@3..2: expected a position behind @, count"},
    {"number = mse@2k", "number = mse@4..99", ":32: check table.number = mse@4..99: expected a scored position, 0 to"},
    {"number = mse@2k", "number = task.family", ":32: check table.number = task.family: expected a key whose values"},
    {"number = mse - ", "number = position - ",
     ":45: check best.number = position - least-squares.mse: expected NUMBE"},
    {"@2: 0.5, @3: 0.25", "@2: 0.5, @3 0.25", ":33: check table.target = @2: 0.5, @3 0.25: expected rows CELL: NUMBER"},
    {"like = each\nnumber", "like = all\nnumber", ":31: check table.like = all: expected the name of a section [check"},
    {"best = mse\n", "", ":43: check best.seeds = best: expected a line best = half_adjusted, or another number, in"},
    {"best = mse\n", "best = accuracy\n", ":44: check best.seeds = best: expected another number: the task's loss"},
    {"of n-6: least", "of n-9: least", ":27: check each.tolerance = 10 % of n-9: least-squares.mse + 1: expected a ce"},
    {"10 % of n-6", "10 % of", ":27: check each.tolerance = 10 % of: least-squares.mse + 1: expected terms such as"},
    {"judged = ci, full", "judged = never", ":28: check each.judged = never: expected some of ci, short, full"},
    {"errors(mse@2k, 3 - position)", "errors(mse@2k)",
     ":39: check largest.number = errors(mse@2k) / 1000000: expected"},
    {"errors(mse@2k, 3", "errors(ln(mse@2k), 3", ":39: check largest.number = errors(ln(mse@2k), 3 - position) / 1"},
    {"n-6: 9", "n-8: 9", ":51: figure error.x = n-5: 7, n-8: 9: expected a cell's name before the colon; the nearest"},
    {"2 | full: 3\nnumber", "b | full: 3\nnumber", ":25: check each.number = probed@k/mse@2k / task.d: expected a p"},
};

static void check_refused(tap_run *tap, scratch_folder *scratch) {
    static const char bare[] = "[study]\nclaim = None.\nrecipe = tiny.ini\n[grid]\n[check a]\nnumber = mse\n";
    icl_error error = {0};
    heard all;

    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        error.message[0] = '\0';
        write_changed(scratch, "study.ini", study_text, refused[i].from, refused[i].to);
        const icl_status status = listen("study.ini", ICL_SCALE_CI, NULL, &all, &error);
        const bool is_named = strncmp(error.message, "study.ini", 9) == 0 &&
                              strncmp(error.message + 9, refused[i].message, strlen(refused[i].message)) == 0;
        if (!tap_ok(tap, status == ICL_ERROR_INPUT && is_named, "study.ini%s", refused[i].message))
            tap_note("%s", error.message);
    }
    for (size_t i = 0; i < sizeof misplaced / sizeof *misplaced; i++) {
        error.message[0] = '\0';
        write_changed(scratch, "places.ini", places_text, misplaced[i].from, misplaced[i].to);
        const icl_status status = listen("places.ini", ICL_SCALE_CI, NULL, &all, &error);
        const bool is_named = strncmp(error.message, "places.ini", 10) == 0 &&
                              strncmp(error.message + 10, misplaced[i].message, strlen(misplaced[i].message)) == 0;
        if (!tap_ok(tap, status == ICL_ERROR_INPUT && is_named, "places.ini%s", misplaced[i].message))
            tap_note("%s", error.message);
    }
    write_file(scratch, "study.ini", bare);
    tap_ok(tap,
           listen("study.ini", ICL_SCALE_CI, NULL, &all, &error) == ICL_ERROR_INPUT &&
               strstr(error.message, "study.ini: no cell at scale ci: expected a line such as task.n = 10, 20"),
           "an empty grid: %s", error.message);
    write_changed(scratch, "study.ini", bare, "[grid]\n[check a]", "[grid]\ntask.n = 5\n[check a]\nscales = full");
    tap_ok(tap,
           listen("study.ini", ICL_SCALE_CI, NULL, &all, &error) == ICL_ERROR_INPUT &&
               strstr(error.message, "study.ini: no check at scale ci: expected a section [check NAME]"),
           "no check: %s", error.message);
    tap_ok(tap,
           listen("tiny.ini", ICL_SCALE_CI, NULL, &all, &error) == ICL_ERROR_INPUT &&
               strstr(error.message, "tiny.ini:1: [task]: unknown section; the nearest known one is ["),
           "a recipe: %s", error.message);
}

int main(void) {
    static const char recall_text[] = "[task]\nfamily = recall\nvocabulary = 16\nlength = 12\npairs = 3\n"
                                      "[model]\nfamily = sequence\nwidth = 8\n[eval]\nsequences = 30\n"
                                      "predictors = uniform,values\n";
    scratch_folder scratch;
    tap_run tap = {0};

    scratch_open(&scratch);
    write_file(&scratch, "tiny.ini", recipe_text);
    check_measured(&tap, "regression", scratch_path(&scratch, "tiny.ini"), of_regression,
                   sizeof of_regression / sizeof *of_regression, regression);
    write_file(&scratch, "recall.ini", recall_text);
    check_measured(&tap, "recall", scratch_path(&scratch, "recall.ini"), of_recall,
                   sizeof of_recall / sizeof *of_recall, recall);
    check_positions(&tap, scratch_path(&scratch, "recall.ini"));
    check_planted(&tap, &scratch);
    check_pairs(&tap, &scratch);
    check_places(&tap, &scratch);
    check_grid(&tap, &scratch);
    check_run(&tap, &scratch);
    check_evaluations(&tap, &scratch);
    check_diverged(&tap, &scratch);
    if (tap_ok(&tap, chdir(scratch.folder) == 0, "beside the recipe"))
        check_refused(&tap, &scratch);
    scratch_remove(scratch.folder);
    return tap_done(&tap);
}
