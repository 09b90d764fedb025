/*
 * Associative recall: the same bits on every device; what a sequence is by definition; the laws of keys, values, places
 * and filler; reference predictors against closed forms; refusals at their boundaries.
 */
#include <math.h>
#include <stdlib.h>

#include "iclab/loss.h"
#include "iclab/task_family.h"
#include "symbol_batches.h"

/* How the task is made, and how often each key and each place was drawn. */
typedef struct counted {
    size_t vocabulary, pairs, keys;
    double power; /* A of task.gaps = power:A; below 0: uniform */
    bool random_filler;
    size_t of_key[64], of_value[64], of_place[64], of_filler[64];
    size_t scored; /* positions */
} counted;

/* Whether one sequence is what src/task/recall.c says; counts its draws. */
static bool check_sequence(const host_batch *host, size_t number, void *of) {
    counted *c = of;
    const float *in = host->inputs + number * host->length, *classes = host->targets + number * host->scored;
    const float *weights = host->weights + number * host->scored;
    size_t value_of[64] = {0}, asked[64] = {0}, values[64] = {0}, queries = 0;

    c->scored = host->scored;
    for (size_t j = 0; j < c->pairs; j++) {
        const size_t key = (size_t)in[2 * j], value = (size_t)in[2 * j + 1];
        if (key < 1 || key > c->keys || value <= c->keys || value > 2 * c->keys || value_of[key] || values[value]++)
            return false;
        value_of[key] = value;
        c->of_key[key]++;
        c->of_value[value - c->keys]++;
    }
    for (size_t t = 0; t < host->scored; t++) {
        const size_t symbol = (size_t)in[2 * c->pairs + t], class = (size_t)classes[t];
        const double weight = (double)host->scored / (double)c->pairs;
        const bool is_query = weights[t] != 0;
        c->of_place[t] += is_query;
        c->of_filler[symbol] += !is_query;
        queries += is_query;
        if (is_query ? weights[t] != (float)weight || !value_of[symbol] || class != value_of[symbol] || asked[symbol]++
                     : class != 0 || symbol >= (c->random_filler ? c->vocabulary : 1))
            return false;
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

/* The same where two of the `count` = scored / 2 even places are drawn one after the other, the i-th with a probability
 * in proportion to (i + 1)^(A - 1): it is there with p_i + sum over j != i of p_j p_i / (1 - p_j). */
static double unlikeliness(const size_t *counts, size_t scored, double power, size_t draws) {
    const size_t count = scored / 2;
    double p[32], sum = 0, worst = 0;

    for (size_t i = 0; i < count; i++)
        sum += p[i] = pow((double)i + 1, power - 1);
    for (size_t i = 0; i < count; i++) {
        double share = p[i] / sum;
        for (size_t j = 0; j < count; j++)
            share += j != i ? p[j] / sum * (p[i] / (sum - p[j])) : 0;
        const double mean = (double)draws * share, sigma = sqrt(mean * (1 - share));
        worst = fmax(worst, fabs((double)counts[2 * i] - mean) / sigma);
    }
    for (size_t t = 0; t < scored; t++)
        if ((t % 2 == 1 || t >= 2 * count) && counts[t] > 0)
            return (double)INFINITY;
    return worst;
}

static icl_status check_definition(tap_run *tap, const char *overrides, counted *c, icl_backend *backend,
                                   icl_error *error) {
    enum { STEPS = 60, DRAWN = STEPS * BATCH };
    size_t wrong;

    ICL_CHECK(count_wrong(overrides, ICL_FOR_TRAINING, STEPS, backend, check_sequence, c, &wrong, error));
    tap_ok(tap, wrong == 0, "%s: %d sequences are pairs, then each key once, with its value as class and its weight",
           overrides, DRAWN);
    /* 200 counts at most, each 5.5 deviations away with a probability below 4e-8. */
    const double keys = unevenness(c->of_key + 1, c->keys, DRAWN, c->pairs);
    const double values = unevenness(c->of_value + 1, c->keys, DRAWN, c->pairs);
    const double places = c->power >= 0 ? unlikeliness(c->of_place, c->scored, c->power, DRAWN)
                                        : unevenness(c->of_place, c->scored, DRAWN, c->pairs);
    const double filler =
        unevenness(c->of_filler, c->random_filler ? c->vocabulary : 1, DRAWN * (c->scored - c->pairs), 1);
    tap_ok(tap, keys < 5.5 && values < 5.5 && places < 5.5 && filler < 5.5,
           "keys, values, places and filler have their laws (%.2g, %.2g, %.2g, %.2g deviations)", keys, values, places,
           filler);
    return ICL_OK;
}

/* At every query V, K or P classes are possible, and equally likely. */
static icl_status check_references(tap_run *tap, icl_backend *backend, icl_error *error) {
    enum { V = 21, K = V / 2 - 1, P = 5, T = 18, S = T - 2 * P };
    static const struct {
        const char *name;
        double classes;
    } expected[] = {{"uniform", V}, {"values", K}, {"context", P}};
    static double outputs[BATCH * S * V];
    const icl_reference_predictor *known;
    icl_task *task = NULL;
    icl_batch batch = {0};
    host_batch host = {0};
    icl_status status = ICL_OK;

    ICL_TRY(make_task("task.family=recall task.vocabulary=21 task.pairs=5 task.length=18 task.filler=random", &task,
                      error));
    ICL_TRY(icl_batch_create(task, backend, ICL_FOR_EVALUATION, BATCH, &batch, error));
    ICL_TRY(icl_task_sample(task, backend, ICL_FOR_EVALUATION, SEED, 0, &batch, error));
    ICL_TRY(host_batch_read(&batch, &host, error));
    const icl_shown_sequences shown = {task, BATCH, host.inputs, &batch};
    known = task->family->references(task);
    for (size_t r = 0; r < sizeof expected / sizeof *expected; r++, known++) {
        double loss = 0, right = 0;
        ICL_TRY(known->predict(known, &shown, outputs, error));
        for (size_t i = 0; i < (size_t)BATCH * S; i++) {
            const double class = (double)host.targets[i];
            loss += host.weights[i] == 0 ? 0 : icl_loss_of(ICL_LOSS_CROSS_ENTROPY, V, outputs + i * V, &class);
            right += host.weights[i] == 0 ? 0 : icl_loss_accuracy(ICL_LOSS_CROSS_ENTROPY, V, outputs + i * V, &class);
        }
        tap_ok(tap,
               strcmp(known->name, expected[r].name) == 0 &&
                   fabs(loss / (BATCH * P) - log(expected[r].classes)) < 1e-12 &&
                   fabs(right / (BATCH * P) - 1 / expected[r].classes) < 1e-12,
               "%s: loss log %g, accuracy 1/%g", known->name, expected[r].classes, expected[r].classes);
    }
    tap_ok(tap, !known->name, "and no other");
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
        double power;
        bool random_filler;
    } tasks[] = {
        {"task.family=recall", 64, 8, -1, false},
        {"task.family=recall task.vocabulary=17 task.length=21 task.pairs=7", 17, 7, -1, false}, /* no filler */
        {"task.family=recall task.vocabulary=4 task.length=9 task.pairs=1", 4, 1, -1, false},
        {"task.family=recall task.vocabulary=20 task.length=33 task.pairs=3 task.filler=random", 20, 3, -1, true},
        {"task.family=recall task.length=13 task.pairs=2 task.gaps=power:0.01", 64, 2, 0.01, false},
        {"task.family=recall task.length=20 task.pairs=2 task.gaps=power:3 task.filler=random", 64, 2, 3, true}};
    static const char *const allowed[] = {
        "task.family=recall task.pairs=31 task.length=93", "task.family=recall task.length=24",
        "task.family=recall task.length=32 task.gaps=power:0", "task.family=recall task.gaps=power:10",
        "task.family=recall task.vocabulary=16777216"};
    icl_error error = {0};

    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++) {
        counted c = {.vocabulary = tasks[i].vocabulary,
                     .pairs = tasks[i].pairs,
                     .keys = tasks[i].vocabulary / 2 - 1,
                     .power = tasks[i].power,
                     .random_filler = tasks[i].random_filler};
        tap_status(tap, check_definition(tap, tasks[i].overrides, &c, backend, &error), &error, "sampling runs");
    }
    tap_status(tap, compare_symbol_batches(tap, "task.family=recall", backend, cpu, &error), &error, "sampling runs");
    tap_status(
        tap,
        compare_symbol_batches(tap, "task.family=recall task.gaps=power:0.5 task.filler=random", backend, cpu, &error),
        &error, "sampling runs");
    tap_status(tap, check_references(tap, backend, &error), &error, "predicting runs");
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) { /* what is one beyond: tests/task/refusals.c */
        icl_task *task = NULL;
        tap_status(tap, make_task(allowed[i], &task, &error), &error, allowed[i]);
        icl_task_destroy(&task);
    }
}

int main(int count, char **arguments) {
    return test_beside_cpu(count, arguments, check_all);
}
