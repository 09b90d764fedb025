/* Tests the frame of studies, on studies of few cells: the cells and their order, the cells that --only leaves, the
 * start of a training, memory that the study owns, means over seeds, rows of checks and figures, and failures. */

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/recipe.h"
#include "papers/study_frame.h"
#include "papers/study_list.h"
#include "tap.h"

#include "../core/scratch.h"
#include "../shown_table.h"

#define SMALL                                                                                                          \
    "task.length=12 task.pairs=2 task.vocabulary=8 model.width=8 model.key_width=4 model.mixer=conv,linear "           \
    "eval.every=0 eval.predictors=uniform train.batch=16 train.warmup=0 train.clip=0 model.norm=none "

enum { FIRST = 0, SECOND, NUMBERS };

/* ---- Cells ---- */

static void plan_family(icl_study *study) {
    const icl_study_cell *teacher = ICL_ADD_CELL(study, .name = "teacher", .recipe = "recall",
                                                 .settings = {SMALL "train.steps=4"}, .is_helper = true);
    ICL_ADD_CELL(study, .name = "unused", .recipe = "recall", .settings = {SMALL}, .is_helper = true);
    for (uint32_t seed = 3; seed < 5; seed++)
        ICL_ADD_CELL(study, .name = "alone", .recipe = "recall", .seed = seed,
                     .settings = {SMALL "train.steps=9 train.batch=4", "train.batch=8", "train.steps=5"});
    ICL_ADD_CELL(study, .name = "pupil", .group = "school", .recipe = "recall", .settings = {SMALL "train.steps=3"},
                 .begins_with = teacher);
    const icl_study_cell *both = ICL_ADD_CELL(study, .name = "both", .group = "school");
    icl_study_need(study, both, icl_study_find(study, "alone"));
    icl_study_need(study, both, icl_study_find(study, "pupil"));
    ICL_ADD_CELL(study, .name = "fresh", .recipe = "recall", .settings = {SMALL}, .is_untrained = true);
}

static icl_status first_parameter(icl_trainer *trainer, double *value, icl_error *error) {
    float values[4096];

    ICL_CHECK(icl_trainer_get_parameters(trainer, values, error));
    *value = (double)values[0];
    return ICL_OK;
}

/* Marks the start, so that a trained model tells where it began. */
static icl_status begin_with_mark(icl_study *study, const icl_study_cell *cell, icl_trainer *from,
                                  const icl_model *model, float *values, icl_error *error) {
    (void)study, (void)cell, (void)model;
    ICL_CHECK(icl_trainer_get_parameters(from, values, error));
    values[0] += 100;
    return ICL_OK;
}

static icl_status measure_family(icl_study *study, const icl_study_cell *cell, icl_trainer *trained,
                                 icl_number *numbers, icl_error *error) {
    if (trained)
        return first_parameter(trained, &numbers[FIRST].value, error);
    icl_trainer *pupil = NULL;

    (void)cell;
    ICL_CHECK(icl_study_trained(study, icl_study_find(study, "pupil"), &pupil, error));
    numbers[SECOND].value = icl_study_find(study, "pupil")->numbers[FIRST].value;
    return first_parameter(pupil, &numbers[FIRST].value, error);
}

static void judge_family(icl_study *study, const icl_study_cell *cell) {
    ICL_JUDGE(study, .quantity = "first", ICL_OURS(icl_over_seeds(study, cell, FIRST)));
    if (!cell->recipe)
        ICL_JUDGE(study, .quantity = "second", ICL_OURS(cell->numbers[SECOND]));
}

static const icl_reproduction family = {.name = "family",
                                        .numbers = NUMBERS,
                                        .plan = plan_family,
                                        .begin = begin_with_mark,
                                        .measure = measure_family,
                                        .judge = judge_family};

/* ---- Lists ---- */

static icl_status add_word(void *user, const char *word, icl_error *error) {
    return icl_text_print(user, error, "%s ", word);
}

static icl_status add_training(void *user, const char *folder, const icl_recipe *recipe, icl_error *error) {
    return icl_text_print(user, error, "%s:%u:%u:%u ", folder, (unsigned)icl_recipe_count(recipe, "train", "steps"),
                          (unsigned)icl_recipe_count(recipe, "train", "batch"),
                          (unsigned)icl_recipe_count(recipe, "train", "seed"));
}

static void check_list(tap_run *tap, const char *only, const char *cells, const char *trainings) {
    const icl_reproduce_params params = {.only = only, .seed = 7};
    icl_text text = {0};
    icl_error error = {0};

    tap_status(tap, icl_study_list(&family, &params, &(icl_study_listener){.cell = add_word, .user = &text}, &error),
               &error, "a list of cells");
    tap_ok(tap, strcmp(text.bytes, cells) == 0, "cells with %s: %s", only ? only : "all", text.bytes);
    text.length = 0;
    tap_status(tap,
               icl_study_list(&family, &params, &(icl_study_listener){.training = add_training, .user = &text}, &error),
               &error, "a list of trainings");
    tap_ok(tap, strcmp(text.length > 0 ? text.bytes : "", trainings) == 0, "trainings: %s", text.bytes);
    icl_text_release(&text);
}

static void test_lists(tap_run *tap) {
    static const char *const cells = "alone school fresh ";

    check_list(tap, NULL, cells,
               "runs/teacher:4:16:7 runs/alone-seed3:5:8:3 runs/alone-seed4:5:8:4 runs/pupil:3:16:7 ");
    check_list(tap, "alone", cells, "runs/alone-seed3:5:8:3 runs/alone-seed4:5:8:4 ");
    check_list(tap, "school", cells, "runs/teacher:4:16:7 runs/alone-seed3:5:8:3 runs/pupil:3:16:7 ");
    check_list(tap, "pupil", cells, ""); /* --only reads groups */
}

/* ---- A run ---- */

typedef struct heard {
    size_t count, begun;
    char what[8][32];
    double ours[8];
} heard;

static void hear(void *user, const icl_reproduction *reproduction, const icl_finding *finding) {
    heard *messages = user;

    (void)reproduction;
    if (messages->count == 8)
        return;
    snprintf(messages->what[messages->count], sizeof messages->what[0], "%s %s", finding->what, finding->quantity);
    messages->ours[messages->count++] = finding->ours;
}

static void count_trainings(void *user, const char *text) {
    heard *messages = user;
    messages->begun += strncmp(text, "training ", 9) == 0;
}

static double heard_of(const heard *messages, const char *what) {
    for (size_t i = 0; i < messages->count; i++)
        if (strcmp(messages->what[i], what) == 0)
            return messages->ours[i];
    return (double)NAN;
}

static icl_status run_study(const icl_reproduction *study, icl_backend *backend, const char *folder, const char *only,
                            heard *messages, icl_error *error) {
    const icl_reproduce_params params = {.backend = backend,
                                         .folder = folder,
                                         .seed = 7,
                                         .only = only,
                                         .report = hear,
                                         .say = count_trainings,
                                         .user = messages};
    icl_reproduce_summary summary;

    *messages = (heard){0};
    return icl_reproduce(study, &params, &summary, error);
}

static void test_run(tap_run *tap, icl_backend *backend, scratch_folder *scratch) {
    char folder[512];
    heard all;
    icl_error error = {0};

    snprintf(folder, sizeof folder, "%s", scratch_path(scratch, "family"));
    tap_status(tap, run_study(&family, backend, folder, "school", &all, &error), &error, "the school");
    tap_ok(tap, all.count == 3 && all.begun == 3, "%zu findings of %zu trainings", all.count, all.begun);
    tap_ok(tap, heard_of(&all, "pupil first") > 50, "the pupil began with what `begin` made: %g",
           heard_of(&all, "pupil first"));
    tap_ok(tap,
           heard_of(&all, "both first") == heard_of(&all, "pupil first") &&
               heard_of(&all, "both second") == heard_of(&all, "pupil first"),
           "a cell without a training reads another's numbers, and loads what it came to");
    const double pupil = heard_of(&all, "pupil first");
    tap_status(tap, run_study(&family, backend, folder, NULL, &all, &error), &error, "all of it");
    tap_ok(tap, all.count == 5 && all.begun == 1, "%zu findings; %zu more training", all.count, all.begun);
    tap_ok(tap, heard_of(&all, "pupil first") == pupil, "the same numbers");
    tap_ok(tap, isfinite(heard_of(&all, "alone first")) && isfinite(heard_of(&all, "fresh first")),
           "of two seeds one finding; of a fresh model one");
}

/* Workers do the trainings, which the study then finds; a pupil waits for its teacher. */
static void test_workers(tap_run *tap, icl_backend *backend, scratch_folder *scratch) {
    char folder[512];
    const icl_reproduction *const studies[] = {&family};
    heard all;
    icl_error error = {0};
    size_t unfinished = 0;

    snprintf(folder, sizeof folder, "%s", scratch_path(scratch, "shared"));
    const icl_reproduce_params params = {.folder = folder, .seed = 7};
    const icl_reproduce_shared shared = {studies, &params, 1};
    tap_status(tap, icl_study_count_unfinished(&shared, &unfinished, &error), &error, "what is to do");
    tap_ok(tap, unfinished == 4, "%zu trainings", unfinished);
    tap_status(tap, icl_study_train_all(&shared, backend, 0, &error), &error, "a worker");
    tap_status(tap, icl_study_count_unfinished(&shared, &unfinished, &error), &error, "what is left");
    tap_ok(tap, unfinished == 0, "%zu trainings", unfinished);
    tap_status(tap, run_study(&family, backend, folder, NULL, &all, &error), &error, "the study");
    tap_ok(tap, all.begun == 0 && heard_of(&all, "pupil first") > 50, "trains nothing, and has the pupil");
}

/* ---- The trainings behind missed findings ---- */

static void hear_training(void *user, const icl_reproduction *reproduction, const icl_training_row *training) {
    (void)reproduction;
    const bool has_losses = training->first > 0 && training->last > 0 && isfinite(training->first);
    (void)icl_text_print(user, NULL, "%s:%" PRIu32 ":%s ", training->what, training->seed,
                         training->has_diverged ? "diverged"
                         : has_losses           ? "losses"
                                                : "none");
}

static void miss(icl_study *study) {
    ICL_JUDGE(study, .what = "a number", .quantity = "first", .ours = 1, .target = 2, .evidence = ICL_COMPUTED);
}

static void miss_both(icl_study *study, const icl_study_cell *cell) {
    judge_family(study, cell);
    if (!cell->recipe)
        miss(study);
}

static void miss_alone(icl_study *study, const icl_study_cell *cell) {
    judge_family(study, cell);
    if (strcmp(cell->name, "alone") == 0)
        miss(study);
}

/* A point's missed finding tells of its seeds and of what it needs, and one across points of all trainings. */
static void test_trainings_behind(tap_run *tap, icl_backend *backend, scratch_folder *scratch) {
    const struct {
        const char *name, *trainings;
        void (*judge)(icl_study *study, const icl_study_cell *cell);
        void (*conclude)(icl_study *study);
    } cases[] = {{"none is missed", "", judge_family, NULL},
                 {"two seeds", "alone:3:losses alone:4:losses ", miss_alone, NULL},
                 {"needs", "teacher:7:losses alone:3:losses pupil:7:losses ", miss_both, NULL},
                 {"across", "teacher:7:losses alone:3:losses alone:4:losses pupil:7:losses ", judge_family, miss}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        icl_reproduction study = family;
        icl_text heard_text = {0};
        icl_reproduce_summary summary;
        icl_error error = {0};
        const icl_reproduce_params params = {.backend = backend,
                                             .folder = scratch_path(scratch, "behind"),
                                             .seed = 7,
                                             .trained = hear_training,
                                             .user = &heard_text};
        study.judge = cases[i].judge;
        study.conclude = cases[i].conclude;
        tap_status(tap, icl_reproduce(&study, &params, &summary, &error), &error, "a study");
        const char *seen = heard_text.length > 0 ? heard_text.bytes : "";
        tap_ok(tap, strcmp(seen, cases[i].trainings) == 0, "%s: %s", cases[i].name, seen);
        icl_text_release(&heard_text);
    }
    char *html = shown_file(scratch_path(scratch, "behind"), "report.html");
    shown_table table = shown_html(html, "Trainings behind what is missed", NULL);
    shown_is(tap, &table, "pupil", "seed", "7");
    tap_ok(tap, shown_number(&table, "pupil", "first loss") > 0 && shown_number(&table, "pupil", "last loss") > 0,
           "the report has their losses");
    shown_table_release(&table);
    free(html);
}

/* ---- What numbers rule out: before the search "short" ends the second cell is trained, and then the first ---- */

static bool leaves_out(const icl_study *study, const icl_study_cell *cell) {
    const double searched = icl_study_find(study, "short")->numbers[FIRST].value;
    return !cell->is_helper && cell->at[0] != (isnan(searched) ? 1U : 0U);
}

static void plan_search(icl_study *study) {
    const icl_study_cell *search = ICL_ADD_CELL(study, .name = "short", .recipe = "recall",
                                                .settings = {SMALL "train.steps=1"}, .is_helper = true);
    for (size_t i = 0; i < 2; i++) {
        const icl_study_cell *cell =
            ICL_ADD_CELL(study, .name = i == 0 ? "long" : "longer", .recipe = "recall", .at = {i},
                         .settings = {SMALL, i == 0 ? "train.steps=2" : "train.steps=3"});
        icl_study_need(study, cell, search);
    }
}

static void test_search(tap_run *tap, icl_backend *backend, scratch_folder *scratch) {
    const icl_reproduction search = {.name = "search",
                                     .numbers = NUMBERS,
                                     .plan = plan_search,
                                     .leaves_out = leaves_out,
                                     .measure = measure_family,
                                     .judge = judge_family};
    const icl_reproduce_params params = {.folder = scratch_path(scratch, "search"), .seed = 7};
    const icl_reproduction *const studies[] = {&search};
    icl_text text = {0};
    heard all;
    icl_error error = {0};
    size_t unfinished = 0;

    tap_status(tap,
               icl_study_list(&search, &params, &(icl_study_listener){.training = add_training, .user = &text}, &error),
               &error, "a list of trainings");
    tap_ok(tap, strcmp(text.bytes, "runs/short:1:16:7 runs/longer:3:16:7 ") == 0, "trainings: %s", text.bytes);
    tap_status(tap, icl_study_count_unfinished(&(icl_reproduce_shared){studies, &params, 1}, &unfinished, &error),
               &error, "what is to do");
    tap_ok(tap, unfinished == 2, "%zu trainings", unfinished);
    tap_status(tap, run_study(&search, backend, params.folder, NULL, &all, &error), &error, "a search");
    tap_ok(tap, all.count == 1 && all.begun == 2 && isfinite(heard_of(&all, "long first")),
           "trains and judges what it did not rule out: %s", all.what[0]);
    icl_text_release(&text);
}

/* ---- Memory that the study owns: it is zero, and ends with the start, watch or measure that took it ---- */

typedef struct keeping {
    size_t starts, watches, measures, kept, filled;
} keeping;

static icl_status take_room(icl_study *study, size_t *calls, icl_error *error) {
    enum { COUNT = 1000 };
    keeping *all = study->run->params->user;
    double *room = NULL;

    ++*calls;
    all->kept += study->frame->held_count;
    ICL_CHECK(icl_study_room(study, COUNT, sizeof *room, &room, error));
    for (size_t i = 0; i < COUNT; i++) {
        all->filled += room[i] != 0;
        room[i] = 1;
    }
    return ICL_OK;
}

static icl_status begin_with_room(icl_study *study, const icl_study_cell *cell, icl_trainer *from,
                                  const icl_model *model, float *values, icl_error *error) {
    (void)cell, (void)from, (void)model, (void)values;
    return take_room(study, &((keeping *)study->run->params->user)->starts, error);
}

static icl_status watch_with_room(icl_study *study, const icl_study_cell *cell, icl_trainer *trainer, double *value,
                                  icl_error *error) {
    (void)cell, (void)trainer;
    *value = 1;
    return take_room(study, &((keeping *)study->run->params->user)->watches, error);
}

static icl_status measure_with_room(icl_study *study, const icl_study_cell *cell, icl_trainer *trained,
                                    icl_number *numbers, icl_error *error) {
    (void)cell, (void)trained, (void)numbers;
    return take_room(study, &((keeping *)study->run->params->user)->measures, error);
}

static void plan_two(icl_study *study) {
    for (size_t i = 0; i < 2; i++)
        ICL_ADD_CELL(study, .name = i == 0 ? "one" : "other", .recipe = "recall",
                     .settings = {SMALL, "train.steps=6 eval.every=2"}, .has_start = true, .is_watched = true);
}

static void test_held(tap_run *tap, icl_backend *backend, scratch_folder *scratch) {
    const icl_reproduction study =
        ICL_STUDY(.name = "keeping", .numbers = NUMBERS, .plan = plan_two, .begin = begin_with_room,
                  .watch = watch_with_room, .measure = measure_with_room, .judge = judge_family);
    keeping all = {0};
    const icl_reproduce_params params = {
        .backend = backend, .folder = scratch_path(scratch, "keeping"), .seed = 7, .user = &all};

    tap_need(icl_reproduce(&study, &params, &(icl_reproduce_summary){0}, tap_error()));
    tap_ok(tap, all.starts == 2 && all.watches == 6 && all.measures == 2 && all.kept == 0 && all.filled == 0,
           "%zu starts, %zu watches, %zu measures begin with nothing held; %zu numbers of rooms were not 0", all.starts,
           all.watches, all.measures, all.filled);
}

/* ---- Seeds, rows ---- */

static double twice_the_place(const icl_study *study, const icl_study_cell *cell) {
    (void)study;
    return 2 * cell->x;
}

static void plan_rows(icl_study *study) {
    for (uint32_t seed = 1; seed < 4; seed++)
        ICL_ADD_CELL(study, .name = "low", .seed = seed, .curve = "a curve", .x = 3);
    ICL_ADD_CELL(study, .name = "high", .curve = "a curve", .x = 5);
    ICL_ADD_CELL(study, .name = "apart");
}

/* Plants 1, 2 and 6 for the three seeds, whose mean is 3 with a standard error of sqrt(7 / 3); 11 and 13 for the other
 * cells. */
static icl_number plant(void *user, const icl_study_cell *cell, size_t number) {
    static const double values[] = {11, 1, 2, 6};

    (void)user;
    return (icl_number){(cell->name[0] == 'a' ? 13 : values[cell->seed]) + 100 * (double)number, .25};
}

static const icl_study_check_row rows[] = {
    {.quantity = "all", .number = FIRST, .target = -4, .absolute = {0, .5, 0}, .relative = {0, .25, 0}, .errors = 2},
    {.quantity = "some",
     .number = SECOND,
     .only = "igh",
     .expected = twice_the_place,
     .criterion = ICL_AT_LEAST,
     .evidence = ICL_READ,
     .source = "table 1",
     .note = "{}, {} and a note",
     .beside = {SECOND, FIRST}},
};
static const icl_study_figure_row figures[] = {{.figure = {.name = "figure", .title = "A figure"},
                                                .number = SECOND,
                                                .expected = twice_the_place,
                                                .expected_label = "twice"}};

static void conclude_with_failure(icl_study *study) {
    icl_curves none = {{0}};
    const icl_error error = {.message = "no ink"};

    icl_study_check(study, ICL_ERROR_IO, &error);
    ICL_JUDGE(study, .what = "behind it", .ours = 1);
    ICL_STUDY_CALL(study, icl_curves_draw, study->run, &none);
}

static void hear_row(void *user, const icl_finding *finding) {
    icl_text_print(user, NULL, "%s %s %.6g %.6g %.6g %.6g %s %s %s %s|", finding->what, finding->quantity,
                   finding->ours, finding->standard_error, finding->target, finding->tolerance,
                   icl_criterion_name(finding->criterion), icl_evidence_name(finding->evidence),
                   finding->source ? finding->source : "-", finding->note ? finding->note : "-");
}

static void hear_figure(void *user, const icl_figure *figure) {
    for (size_t i = 0; i < figure->count; i++)
        for (size_t k = 0; k < figure->series[i].count; k++)
            icl_text_print(user, NULL, "%s %s %.6g %.6g %.6g|", figure->name, figure->series[i].label,
                           figure->series[i].x[k], figure->series[i].y[k], figure->series[i].error[k]);
}

static void test_rows(tap_run *tap) {
    const icl_reproduction study = {.name = "rows",
                                    .numbers = NUMBERS,
                                    .plan = plan_rows,
                                    .checks = rows,
                                    .check_count = 2,
                                    .figures = figures,
                                    .figure_count = 1};
    icl_text text = {0};
    const icl_study_listener listener = {.plant = plant, .finding = hear_row, .figure = hear_figure, .user = &text};
    icl_error error = {0};

    tap_status(tap, icl_study_list(&study, &(icl_reproduce_params){.scale = ICL_SCALE_SHORT}, &listener, &error),
               &error, "planted numbers");
    tap_ok(tap,
           strcmp(text.bytes, "low all 3 1.52753 -4 4.55505 within  - -|"
                              "high all 11 0.25 -4 2 within  - -|"
                              "high some 111 0.25 10 0 at least read table 1 111, 11 and a note|"
                              "apart all 13 0.25 -4 2 within  - -|"
                              "figure a curve 3 103 1.52753|figure a curve 5 111 0|"
                              "figure a curve, twice 3 6 0|figure a curve, twice 5 10 0|") == 0,
           "findings and points: %s", text.bytes);
    icl_text_release(&text);
}

/* ---- Failures ---- */

static void plan_unknown_recipe(icl_study *study) {
    const icl_study_cell *cell = ICL_ADD_CELL(study, .name = "lost", .recipe = "no-such-recipe");
    const icl_study_cell *next = ICL_ADD_CELL(study, .name = "behind it");

    icl_study_need(study, next, cell);
}

static void plan_divergence(icl_study *study) {
    ICL_ADD_CELL(study, .name = "wild", .recipe = "recall", .may_diverge = study->scale == ICL_SCALE_CI,
                 .settings = {SMALL "train.steps=120 train.learning_rate=1000000"});
}

static void test_failures(tap_run *tap, icl_backend *backend, scratch_folder *scratch) {
    icl_reproduction study = {.name = "failing", .plan = plan_unknown_recipe};
    icl_reproduce_params params = {.backend = backend, .folder = scratch_path(scratch, "failing")};
    icl_reproduce_summary summary;
    heard all;
    icl_error error = {0};

    tap_ok(tap,
           icl_study_list(&study, &params, &(icl_study_listener){0}, &error) == ICL_ERROR_INPUT &&
               strstr(error.message, "no-such-recipe"),
           "a recipe that there is not: %s", error.message);
    study =
        (icl_reproduction){.name = "failing", .numbers = NUMBERS, .plan = plan_rows, .conclude = conclude_with_failure};
    tap_ok(tap,
           run_study(&study, backend, params.folder, NULL, &all, &error) == ICL_ERROR_IO &&
               strcmp(error.message, "no ink") == 0 && all.count == 0,
           "what sticks ends the study: %s", error.message);
    study = (icl_reproduction){
        .name = "wild", .numbers = NUMBERS, .plan = plan_divergence, .judge = judge_family, .measure = measure_family};
    tap_status(tap, run_study(&study, backend, params.folder, NULL, &all, &error), &error, "a cell that may diverge");
    tap_ok(tap, all.count == 1 && isnan(all.ours[0]), "is judged, without a number");
    const icl_reproduction *const studies[] = {&study};
    size_t unfinished = 1;
    params.seed = 7;
    tap_status(tap, icl_study_count_unfinished(&(icl_reproduce_shared){studies, &params, 1}, &unfinished, &error),
               &error, "what is to do");
    tap_ok(tap, unfinished == 0, "nothing is left to train of it");
    params.scale = ICL_SCALE_SHORT;
    tap_ok(tap, icl_reproduce(&study, &params, &summary, &error) == ICL_ERROR_DIVERGED, "one that may not: %s",
           error.message);
}

int main(void) {
    tap_run tap = {0};
    icl_error error = {0};
    icl_backend *backend = NULL;
    scratch_folder scratch;

    scratch_open(&scratch);
    test_lists(&tap);
    test_rows(&tap);
    if (tap_status(&tap, icl_backend_open(&(icl_backend_params){.spec = "cpu:threads=1"}, &backend, &error), &error,
                   "a device")) {
        test_run(&tap, backend, &scratch);
        test_workers(&tap, backend, &scratch);
        test_trainings_behind(&tap, backend, &scratch);
        test_search(&tap, backend, &scratch);
        test_held(&tap, backend, &scratch);
        test_failures(&tap, backend, &scratch);
    }
    icl_backend_close(&backend);
    scratch_close(&scratch);
    return tap_done(&tap);
}
