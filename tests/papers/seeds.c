/* Trainings by seed: lists of overrides come last, what is needed is given, and the best of several learning rates. */
#include "papers/seeds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/allocate.h"
#include "papers/share.h"
#include "tap.h"

#include "../core/scratch.h"

static const char *const small = "task.length=12 task.pairs=2 task.vocabulary=8 model.width=8 model.key_width=4 "
                                 "model.mixer=conv,linear eval.every=0 eval.predictors=uniform train.batch=16";

static const icl_seeded_cell usual = {
    .name = "cell",
    .recipe = "recall",
    .overrides = {small, "train.warmup=0 train.clip=0 model.norm=none train.steps=120"},
    .steps = 12,
    .seed = 3,
    .sequences = 64};

static void test_recipe(tap_run *tap, icl_reproducing *run) {
    static const struct {
        const char *key, *value;
    } expected[] = {{"seed", "3"},  {"sequences", "64"}, {"steps", "120"},
                    {"pairs", "2"}, {"warmup", "0"},     {"batch", "8"}};
    icl_seeded_cell cell = usual;
    icl_seeded made = {NULL};
    icl_error error = {0};
    char *text = NULL, line[64];

    cell.overrides[2] = "train.batch=8 eval.seed=5";
    if (tap_status(tap, icl_reproduce_train_seed(run, &cell, &made, &error), &error, "a training") &&
        tap_status(tap, icl_recipe_write(made.recipe, &text, &error), &error, "its recipe"))
        for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
            snprintf(line, sizeof line, "\n%s = %s\n", expected[i].key, expected[i].value);
            tap_ok(tap, strstr(text, line) != NULL, "%s = %s", expected[i].key, expected[i].value);
        }
    tap_ok(tap, text && strstr(text, "\nseed = 5\n"), "a list has the last word");
    icl_text_free(&text);
    icl_seeded_release(&made);
}

static double accuracy_at(icl_reproducing *run, const char *rate) {
    char name[ICL_SEEDED_NAME], list[64];
    icl_seeded_cell cell = usual;
    icl_evaluation *evaluation = NULL;
    icl_error error = {0};
    double accuracy = -1;

    snprintf(name, sizeof name, "alone-%s", rate);
    snprintf(list, sizeof list, "train.learning_rate=%s", rate);
    cell.name = name;
    cell.overrides[2] = list;
    if (icl_reproduce_evaluate_seed(run, &cell, &evaluation, &error) == ICL_OK)
        accuracy = evaluation->scores[0].accuracy;
    icl_evaluation_destroy(&evaluation);
    return accuracy;
}

/* The best stands first, in the middle and last. */
static void test_rates(tap_run *tap, icl_reproducing *run) {
    static const char *const rates[] = {"0.1", "0.000001", "1000000"}; /* of which the last one diverges */
    const double good = accuracy_at(run, rates[0]), bad = accuracy_at(run, rates[1]), none = accuracy_at(run, rates[2]);

    tap_ok(tap, good > bad && bad >= 0 && none < 0, "alone %g, %g, and one diverges", good, bad);
    for (size_t first = 0; first < 3; first++) {
        const char *const order[] = {rates[first], rates[(first + 1) % 3], rates[(first + 2) % 3], NULL};
        icl_evaluation *best = NULL;
        icl_error error = {0};
        if (tap_status(tap, icl_reproduce_evaluate_best_rate(run, &usual, 4, order, &best, &error), &error, "rates"))
            tap_ok(tap, best && best->scores[0].accuracy == good, "with %s first, the best is the best", order[0]);
        icl_evaluation_destroy(&best);
    }
    icl_evaluation *best = NULL;
    icl_error error = {0};
    if (tap_status(tap, icl_reproduce_evaluate_best_rate(run, &usual, 1, rates + 1, &best, &error), &error,
                   "a bad rate"))
        tap_ok(tap, best && best->scores[0].accuracy == bad, "alone, it is trained at, not the recipe's");
    icl_evaluation_destroy(&best);
    tap_ok(tap, icl_reproduce_evaluate_best_rate(run, &usual, 1, rates + 2, &best, &error) == ICL_OK && !best,
           "where all diverge there is none");
    icl_evaluation_destroy(&best);
}

static bool same_parameters(icl_trainer *a, icl_trainer *b) {
    const size_t size = icl_model_size(icl_trainer_model(a));
    float *values = NULL;
    icl_error error = {0};
    bool same = false;

    if (icl_allocate(2 * size, sizeof *values, "parameters", &values, &error) == ICL_OK &&
        icl_trainer_get_parameters(a, values, &error) == ICL_OK &&
        icl_trainer_get_parameters(b, values + size, &error) == ICL_OK)
        same = memcmp(values, values + size, size * sizeof *values) == 0;
    icl_free(&values);
    return same;
}

/* A worker leaves a training, and goes on with one that is needed; who counts is given parameters as they begin. */
static void test_needed(tap_run *tap, icl_reproducing *run) {
    icl_training_share works = {.counts = false}, counts = {.counts = true};
    icl_seeded_cell cell = usual;
    icl_seeded made = {NULL}, again = {NULL}, counted = {NULL};
    icl_error error = {0};

    cell.name = "teacher";
    run->share = &counts;
    cell.is_needed = true;
    tap_ok(tap,
           icl_reproduce_train_seed(run, &cell, &counted, &error) == ICL_OK && counted.trainer &&
               counts.unfinished == 1,
           "a count goes on");
    run->share = &works;
    tap_ok(tap, icl_reproduce_train_seed(run, &cell, &made, &error) == ICL_OK && made.trainer, "a worker trains it");
    tap_ok(tap, icl_reproduce_train_seed(run, &cell, &again, &error) == ICL_OK && again.trainer,
           "another one is given it");
    tap_ok(tap,
           made.trainer && again.trainer && counted.trainer && same_parameters(made.trainer, again.trainer) &&
               !same_parameters(made.trainer, counted.trainer),
           "trained, bit for bit");
    icl_seeded_release(&again);
    cell.is_needed = false;
    tap_ok(tap,
           icl_reproduce_next(run, icl_reproduce_train_seed(run, &cell, &again, &error)) == ICL_OK && !again.trainer,
           "and nobody what is not needed");
    run->share = NULL;
    icl_seeded_release(&made);
    icl_seeded_release(&again);
    icl_seeded_release(&counted);
}

int main(void) {
    static const icl_reproduction reproduction = {.name = "example"};
    tap_run tap = {0};
    scratch_folder scratch;
    icl_backend *backend = tap_open_device(&tap, "cpu");

    scratch_open(&scratch);
    const icl_reproduce_params params = {.backend = backend, .seed = 1, .folder = scratch.folder};
    icl_reproducing run = {.params = &params, .reproduction = &reproduction};
    if (backend) {
        test_recipe(&tap, &run);
        test_rates(&tap, &run);
        test_needed(&tap, &run);
    }
    icl_backend_close(&backend);
    scratch_close(&scratch);
    return tap_done(&tap);
}
