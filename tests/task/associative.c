/* Associative retrieval: the same bits on every device; writes, queries, targets and weights by definition; keys,
 * values and asked writes that are equally likely; the outputs of the reference predictors. */
#include "frame.h"

enum { BATCH = 37, STEPS = 60, MOST = 16 };

/* A task, and counts of how often each key and value was written and the write at each place was asked for. */
typedef struct sequence_law {
    const char *overrides;
    size_t keys, writes, queries;
    bool repeated, asks_keys;
    size_t of_key[MOST], of_value[MOST], of_place[MOST];
} sequence_law;

static bool check_writes(sequence_law *law, const float *in, size_t value_of[MOST], size_t place_of[MOST]) {
    bool used[MOST] = {false};

    for (size_t j = 0; j < law->writes; j++) {
        const size_t key = (size_t)in[2 * j], value = (size_t)in[2 * j + 1] - law->keys;
        if (key >= law->keys || value >= law->keys || (!law->repeated && (value_of[key] > 0 || used[value])))
            return false;
        used[value] = true;
        value_of[key] = 1 + value;
        place_of[key] = j;
        law->of_key[key]++;
        law->of_value[value]++;
    }
    return true;
}

/* Returns whether one sequence follows src/task/associative.c; counts its draws. */
static bool check_sequence(const drawn *batch, size_t number, void *counts) {
    sequence_law *law = counts;
    const float *in = batch->inputs + number * batch->length, *asked = in + 2 * law->writes;
    size_t value_of[MOST] = {0}, place_of[MOST] = {0}, written = 0, last = 0;
    bool right = check_writes(law, in, value_of, place_of);

    for (size_t key = 0; key < law->keys; key++)
        written += value_of[key] > 0;
    const size_t most = law->asks_keys && written < law->queries ? written : law->queries;
    for (size_t j = 0; j < law->queries && right; j++) {
        const size_t at = number * law->queries + j, key = (size_t)asked[j];
        const float *target = batch->targets + at * law->keys;
        const double weight = j < most ? law->asks_keys ? (double)law->queries / (double)most : 1 : 0;
        right = batch->weights[at] == (float)weight && key < law->keys && (j < most ? value_of[key] > 0 : key == 0);
        for (size_t k = 0; k < law->keys; k++)
            right = right && target[k] == (j < most && k + 1 == value_of[key] ? 1.0F : 0.0F);
        if (law->asks_keys && j < most) { /* each written key in order, up to `most` */
            for (last = j == 0 ? 0 : last + 1; last < law->keys && value_of[last] == 0;)
                last++;
            right = right && key == last;
        }
        law->of_place[place_of[key]]++;
    }
    return right;
}

static void check_definition(task_test *test, sequence_law *law) {
    const size_t sequences = (size_t)STEPS * BATCH;
    const size_t wrong = count_wrong(test->device, ICL_FOR_TRAINING, BATCH, STEPS, law->overrides, check_sequence, law);

    tap_ok(&test->tap, wrong == 0, "%s: %zu sequences are writes, then queries for the last values", law->overrides,
           sequences);
    /* There are at most 100 counts, each 5.5 deviations away with a probability below 4e-8. */
    const double keys = unevenness(law->of_key, law->keys, sequences * law->writes, 1);
    const double values = unevenness(law->of_value, law->keys, sequences * law->writes, 1);
    tap_ok(&test->tap, keys < 5.5 && values < 5.5, "keys and values are equally likely (%.2g, %.2g deviations)", keys,
           values);
    /* If keys repeat, only the last write of a key can be asked for. */
    const double places = unevenness(law->of_place, law->writes, sequences * law->queries, 1);
    if (!law->repeated && !law->asks_keys)
        tap_ok(&test->tap, places < 5.5, "each write is asked for as often (%.2g deviations)", places);
}

/* ---- Reference predictors ---- */

/* Computes the mean value of a query's key, counted anew. */
static void mean_of(const sequence_law *law, const float *in, float key, double *mean) {
    double count = 0;

    memset(mean, 0, law->keys * sizeof *mean);
    for (size_t j = 0; j < law->writes; j++)
        count += in[2 * j] == key;
    for (size_t j = 0; j < law->writes; j++)
        if (in[2 * j] == key)
            mean[(size_t)in[2 * j + 1] - law->keys] += 1 / count;
}

/* Returns the largest distance of the predictor's outputs from those that it should return, over queries with a
 * weight. */
static double miss_of(const sequence_law *law, const drawn *batch, const char *name) {
    double worst = 0, expected[MOST];

    for (size_t i = 0; i < BATCH * law->queries; i++) {
        const float *in = batch->inputs + i / law->queries * batch->length;
        mean_of(law, in, in[2 * law->writes + i % law->queries], expected);
        for (size_t k = 0; k < law->keys && batch->weights[i] > 0; k++) {
            const double target = (double)batch->targets[i * law->keys + k];
            const double wanted = strcmp(name, "mean") == 0 ? expected[k] : strcmp(name, "zero") == 0 ? 0 : target;
            worst = fmax(worst, fabs(batch->outputs[i * law->keys + k] - wanted));
        }
    }
    return worst;
}

static void check_references(task_test *test, const sequence_law *law) {
    static const char *const names[] = {"zero", "mean", "perfect"};
    drawn all = {0};

    draw(&all, test->device, BATCH, "%s", law->overrides);
    tap_ok(&test->tap, has_predictors(&all, names, 3), "zero, mean and perfect are there");
    for (size_t i = 0; i < 3; i++) {
        predict(&all, names[i]);
        const double miss = miss_of(law, &all, names[i]);
        tap_ok(&test->tap, miss < 1e-14, "%s: %s returns what it should (%.2g)", law->overrides, names[i], miss);
    }
    release(&all);
}

static void check_all(task_test *test) {
    sequence_law laws[] = {
        {"task.family=associative task.keys=7 task.writes=5 task.queries=3", 7, 5, 3, .repeated = false},
        {"task.family=associative task.keys=7 task.writes=7 task.queries=7 task.asked=keys", 7, 7, 7,
         .asks_keys = true},
        {"task.family=associative task.keys=5 task.writes=10 task.draws=repeated", 5, 10, 1, .repeated = true},
        {"task.family=associative task.keys=6 task.writes=6 task.queries=4 task.draws=repeated task.asked=keys", 6, 6,
         4, .repeated = true, .asks_keys = true},
        {"task.family=associative task.keys=1 task.writes=1", 1, 1, 1, .repeated = false},
    };

    for (size_t i = 0; i < sizeof laws / sizeof *laws; i++) {
        check_definition(test, &laws[i]);
        check_references(test, &laws[i]);
    }
    check_bits(test, laws[0].overrides, BATCH, 5);
    check_bits(test, laws[3].overrides, BATCH, 5);
}

int main(int count, char **arguments) {
    static task_check *const checks[] = {check_all};
    return run_checks(count, arguments, checks, sizeof checks / sizeof *checks);
}
