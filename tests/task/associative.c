/*
 * Associative retrieval: the same bits on every device; writes, queries, targets and weights by definition; keys,
 * values and asked writes that are equally likely; what the reference predictors return.
 */
#include <math.h>
#include <stdlib.h>

#include "iclab/task_family.h"
#include "symbol_batches.h"

enum { STEPS = 60, MOST = 16 };

/* A task, and how often each key and value was written and the write of each place asked for. */
typedef struct law {
    const char *overrides;
    size_t keys, writes, queries;
    bool repeated, asks_keys;
    size_t of_key[MOST], of_value[MOST], of_place[MOST];
} law;

static bool check_writes(law *is, const float *in, size_t value_of[MOST], size_t place_of[MOST]) {
    bool used[MOST] = {false};

    for (size_t j = 0; j < is->writes; j++) {
        const size_t key = (size_t)in[2 * j], value = (size_t)in[2 * j + 1] - is->keys;
        if (key >= is->keys || value >= is->keys || (!is->repeated && (value_of[key] > 0 || used[value])))
            return false;
        used[value] = true;
        value_of[key] = 1 + value;
        place_of[key] = j;
        is->of_key[key]++;
        is->of_value[value]++;
    }
    return true;
}

/* Whether one sequence is what src/task/associative.c says; counts its draws. */
static bool check_sequence(const host_batch *host, size_t number, void *of) {
    law *is = of;
    const float *in = host->inputs + number * host->length, *asked = in + 2 * is->writes;
    size_t value_of[MOST] = {0}, place_of[MOST] = {0}, written = 0, last = 0;
    bool right = check_writes(is, in, value_of, place_of);

    for (size_t key = 0; key < is->keys; key++)
        written += value_of[key] > 0;
    const size_t most = is->asks_keys && written < is->queries ? written : is->queries;
    for (size_t j = 0; j < is->queries && right; j++) {
        const size_t at = number * is->queries + j, key = (size_t)asked[j];
        const float *target = host->targets + at * is->keys;
        const double weight = j < most ? is->asks_keys ? (double)is->queries / (double)most : 1 : 0;
        right = host->weights[at] == (float)weight && key < is->keys && (j < most ? value_of[key] > 0 : key == 0);
        for (size_t k = 0; k < is->keys; k++)
            right = right && target[k] == (j < most && k + 1 == value_of[key] ? 1.0F : 0.0F);
        if (is->asks_keys && j < most) { /* each key in its turn, so that most of them are all */
            for (last = j == 0 ? 0 : last + 1; last < is->keys && value_of[last] == 0;)
                last++;
            right = right && key == last;
        }
        is->of_place[place_of[key]]++;
    }
    return right;
}

/* The largest distance of counts from equal shares of `draws`, in standard deviations of independent draws; those
 * without repeats deviate less. */
static double unevenness(const size_t *counts, size_t count, size_t draws) {
    const double p = 1 / (double)count, sigma = sqrt((double)draws * p * (1 - p));
    double worst = 0;
    for (size_t i = 0; i < count && sigma > 0; i++)
        worst = fmax(worst, fabs((double)counts[i] - (double)draws * p) / sigma);
    return worst;
}

static icl_status check_definition(tap_run *tap, law *is, icl_backend *backend, icl_error *error) {
    const size_t drawn = (size_t)STEPS * BATCH;
    size_t wrong;

    ICL_CHECK(count_wrong(is->overrides, ICL_FOR_TRAINING, STEPS, backend, check_sequence, is, &wrong, error));
    tap_ok(tap, wrong == 0, "%s: %zu sequences are writes, then queries for the last values", is->overrides, drawn);
    /* 100 counts at most, each 5.5 deviations away with a probability below 4e-8. */
    const double keys = unevenness(is->of_key, is->keys, drawn * is->writes);
    const double values = unevenness(is->of_value, is->keys, drawn * is->writes);
    tap_ok(tap, keys < 5.5 && values < 5.5, "keys and values are equally likely (%.2g, %.2g deviations)", keys, values);
    /* With repeats only the last write of a key is told from the others. */
    const double places = unevenness(is->of_place, is->writes, drawn * is->queries);
    if (!is->repeated && !is->asks_keys)
        tap_ok(tap, places < 5.5, "each write is asked for as often (%.2g deviations)", places);
    return ICL_OK;
}

/* ---- Reference predictors ---- */

/* The mean value of a query's key, counted afresh. */
static void mean_of(const law *is, const float *in, float key, double *mean) {
    double count = 0;

    memset(mean, 0, is->keys * sizeof *mean);
    for (size_t j = 0; j < is->writes; j++)
        count += in[2 * j] == key;
    for (size_t j = 0; j < is->writes; j++)
        if (in[2 * j] == key)
            mean[(size_t)in[2 * j + 1] - is->keys] += 1 / count;
}

/* The largest distance of the predictor's outputs from what it should return, over the queries with a weight. */
static double miss_of(const law *is, const host_batch *host, const char *name, const double *outputs) {
    double worst = 0, expected[MOST];

    for (size_t i = 0; i < BATCH * is->queries; i++) {
        const float *in = host->inputs + i / is->queries * host->length;
        mean_of(is, in, in[2 * is->writes + i % is->queries], expected);
        for (size_t k = 0; k < is->keys && host->weights[i] > 0; k++) {
            const double target = (double)host->targets[i * is->keys + k];
            const double wanted = strcmp(name, "mean") == 0 ? expected[k] : strcmp(name, "zero") == 0 ? 0 : target;
            worst = fmax(worst, fabs(outputs[i * is->keys + k] - wanted));
        }
    }
    return worst;
}

static icl_status check_references(tap_run *tap, const law *is, icl_backend *backend, icl_error *error) {
    icl_task *task = NULL;
    icl_batch batch = {0};
    host_batch host = {0};
    double outputs[BATCH * MOST * MOST];
    size_t count = 0;
    icl_status status = ICL_OK;

    ICL_TRY(make_task(is->overrides, &task, error));
    ICL_TRY(icl_batch_create(task, backend, ICL_FOR_EVALUATION, BATCH, &batch, error));
    ICL_TRY(icl_task_sample(task, backend, ICL_FOR_EVALUATION, SEED, 0, &batch, error));
    ICL_TRY(host_batch_read(&batch, &host, error));
    for (const icl_reference_predictor *p = task->family->references(task); p->name; p++, count++) {
        ICL_TRY(p->predict(p, &(icl_shown_sequences){task, BATCH, host.inputs, &batch}, outputs, error));
        const double miss = miss_of(is, &host, p->name, outputs);
        tap_ok(tap, miss < 1e-14, "%s: %s returns what it should (%.2g)", is->overrides, p->name, miss);
    }
    tap_ok(tap, count == 3, "zero, mean and perfect are there");
done:
    host_batch_release(&host);
    icl_batch_release(&batch);
    icl_task_destroy(&task);
    return status;
}

static void check_all(tap_run *tap, icl_backend *backend, icl_backend *cpu) {
    static law laws[] = {
        {"task.family=associative task.keys=7 task.writes=5 task.queries=3", 7, 5, 3, .repeated = false},
        {"task.family=associative task.keys=7 task.writes=7 task.queries=7 task.asked=keys", 7, 7, 7,
         .asks_keys = true},
        {"task.family=associative task.keys=5 task.writes=10 task.draws=repeated", 5, 10, 1, .repeated = true},
        {"task.family=associative task.keys=6 task.writes=6 task.queries=4 task.draws=repeated task.asked=keys", 6, 6,
         4, .repeated = true, .asks_keys = true},
        {"task.family=associative task.keys=1 task.writes=1", 1, 1, 1, .repeated = false},
    };
    icl_error error = {0};

    for (size_t i = 0; i < sizeof laws / sizeof *laws; i++) {
        law counted = laws[i];
        tap_status(tap, check_definition(tap, &counted, backend, &error), &error, "sampling runs");
        tap_status(tap, check_references(tap, &laws[i], backend, &error), &error, "predictors run");
    }
    for (size_t i = 0; i < 4; i += 3)
        tap_status(tap, compare_symbol_batches(tap, laws[i].overrides, backend, cpu, &error), &error, "sampling runs");
}

int main(int count, char **arguments) {
    return test_beside_cpu(count, arguments, check_all);
}
