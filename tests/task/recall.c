/*
 * Associative recall: the same bits on every device; what a sequence is by definition; keys, values and places that are
 * equally likely; refusals at their boundaries.
 */
#include <math.h>
#include <stdlib.h>

#include "symbol_batches.h"

/* How the task is made, and how often each key and each place was drawn. */
typedef struct counted {
    size_t vocabulary, pairs, keys;
    size_t of_key[64], of_value[64], of_place[64];
} counted;

/* Whether one sequence is what src/task/recall.c says; counts its draws. */
static bool check_sequence(const host_batch *host, size_t number, counted *c) {
    const float *in = host->inputs + number * host->length, *classes = host->targets + number * host->scored;
    const float *weights = host->weights + number * host->scored;
    size_t value_of[64] = {0}, asked[64] = {0}, values[64] = {0}, queries = 0;

    for (size_t j = 0; j < c->pairs; j++) {
        const size_t key = (size_t)in[2 * j], value = (size_t)in[2 * j + 1];
        if (key < 1 || key > c->keys || value <= c->keys || value > 2 * c->keys || value_of[key] || values[value]++)
            return false;
        value_of[key] = value;
        c->of_key[key]++;
        c->of_value[value - c->keys]++;
    }
    for (size_t t = 0; t < host->scored; t++) {
        const size_t key = (size_t)in[2 * c->pairs + t];
        const double weight = key > 0 ? (double)host->scored / (double)c->pairs : 0;
        if (key > c->keys || (key > 0 && (!value_of[key] || asked[key]++)) || (size_t)classes[t] != value_of[key] ||
            weights[t] != (float)weight)
            return false;
        queries += key > 0;
        c->of_place[t] += key > 0;
    }
    return queries == c->pairs;
}

/* The largest distance from equal shares, in standard deviations of a count of `draws` draws of `each` out of `count`
 * without repeats. */
static double unevenness(const size_t *counts, size_t count, size_t draws, size_t each) {
    const double p = (double)each / (double)count, mean = (double)draws * p, sigma = sqrt(mean * (1 - p));
    double worst = 0;
    for (size_t i = 0; i < count && sigma > 0; i++)
        worst = fmax(worst, fabs((double)counts[i] - mean) / sigma);
    return worst;
}

static icl_status check_definition(tap_run *tap, const char *overrides, counted *c, icl_backend *backend,
                                   icl_error *error) {
    enum { STEPS = 60 };
    icl_task *task = NULL;
    icl_batch batch = {0};
    host_batch host = {0};
    size_t wrong = 0, scored = 0;
    icl_status status = ICL_OK;

    ICL_TRY(make_task(overrides, &task, error));
    ICL_TRY(icl_batch_create(task, backend, ICL_FOR_TRAINING, BATCH, &batch, error));
    for (uint64_t step = 0; step < STEPS; step++) {
        ICL_TRY(icl_task_sample(task, backend, ICL_FOR_TRAINING, SEED, step, &batch, error));
        ICL_TRY(host_batch_read(&batch, &host, error));
        for (size_t i = 0; i < BATCH; i++)
            wrong += !check_sequence(&host, i, c);
        scored = host.scored;
        host_batch_release(&host);
    }
    tap_ok(tap, wrong == 0, "%s: %d sequences are pairs, then each key once, with its value as class and its weight",
           overrides, STEPS * BATCH);
    /* 200 counts at most, each 5.5 deviations away with a probability below 4e-8. */
    const double keys = unevenness(c->of_key + 1, c->keys, (size_t)STEPS * BATCH, c->pairs);
    const double values = unevenness(c->of_value + 1, c->keys, (size_t)STEPS * BATCH, c->pairs);
    const double places = unevenness(c->of_place, scored, (size_t)STEPS * BATCH, c->pairs);
    tap_ok(tap, keys < 5.5 && values < 5.5 && places < 5.5,
           "keys, values and places are equally likely (%.2g, %.2g, %.2g deviations)", keys, values, places);
done:
    host_batch_release(&host);
    icl_batch_release(&batch);
    icl_task_destroy(&task);
    return status;
}

static void check_all(tap_run *tap, icl_backend *backend, icl_backend *cpu) {
    static const struct {
        const char *overrides;
        size_t vocabulary, pairs;
    } tasks[] = {
        {"task.family=recall", 64, 8},
        {"task.family=recall task.vocabulary=17 task.length=21 task.pairs=7", 17, 7}, /* every key, no filler */
        {"task.family=recall task.vocabulary=4 task.length=9 task.pairs=1", 4, 1}};
    static const char *const allowed[] = {"task.family=recall task.pairs=31 task.length=93",
                                          "task.family=recall task.length=24",
                                          "task.family=recall task.vocabulary=16777216"};
    icl_error error = {0};

    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++) {
        counted c = {.vocabulary = tasks[i].vocabulary, .pairs = tasks[i].pairs, .keys = tasks[i].vocabulary / 2 - 1};
        tap_status(tap, check_definition(tap, tasks[i].overrides, &c, backend, &error), &error, "sampling runs");
    }
    tap_status(tap, compare_symbol_batches(tap, "task.family=recall", backend, cpu, &error), &error, "sampling runs");
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) { /* what is one beyond: tests/task/refusals.c */
        icl_task *task = NULL;
        tap_status(tap, make_task(allowed[i], &task, &error), &error, allowed[i]);
        icl_task_destroy(&task);
    }
}

int main(int count, char **arguments) {
    return test_beside_cpu(count, arguments, check_all);
}
