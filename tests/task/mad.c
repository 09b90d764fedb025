/*
 * The tasks of MAD: the same bits on every device; what a sequence is by definition, in training and in evaluation; the
 * laws of keys, values, noise and places; reference predictors against closed forms. Refusals: refusals.c.
 */
#include <math.h>
#include <stdlib.h>

#include "iclab/loss.h"
#include "iclab/task_family.h"
#include "symbol_batches.h"

enum { STEPS = 40, MOST = 64 };

/* How a task is made, and how often what was drawn. */
typedef struct law {
    const char *overrides;
    size_t symbols, keys, values, noise, motif; /* V, K, and how many values and noise symbols */
    size_t copied;
    bool asked_alone; /* task.trained = asked */
    size_t of_symbol[MOST], of_place[MOST], pairs, noisy, longest;
    size_t fact[MOST]; /* 1 + the value of each key; 0: not seen */
} law;

/* ---- Recall ---- */

/* The runs of keys and values in tokens, one by one. */
typedef struct run {
    size_t first, count; /* of the key */
    size_t value, value_count;
} run;

static bool is_key(const law *is, size_t symbol) {
    return symbol < is->keys;
}

static bool is_value(const law *is, size_t symbol) {
    return symbol >= is->keys && symbol < is->keys + is->values;
}

static bool is_noise(const law *is, size_t symbol) {
    return symbol >= is->keys + is->values && symbol < is->keys + is->values + is->noise;
}

static bool same_tokens(const size_t *a, const size_t *b, size_t count) {
    return memcmp(a, b, count * sizeof *a) == 0;
}

static bool distinct(const size_t *tokens, size_t count) {
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < i; j++)
            if (tokens[i] == tokens[j])
                return false;
    return true;
}

/* Reads the tokens of a sequence, and marks those that evaluation asks for. */
static bool read_tokens(law *is, const size_t *tokens, size_t length, bool evaluation, bool *asked) {
    run runs[MOST];
    size_t count = 0, t = 0;

    for (; is->motif > 1 && t < length && tokens[t] == is->symbols - 1; t++)
        ;
    while (t < length) {
        run next = {.first = t};
        if (is_noise(is, tokens[t])) {
            is->noisy++;
            is->of_symbol[tokens[t]]++;
            is->of_symbol[tokens[t + 1]]++;
            if (!is_noise(is, tokens[t + 1]))
                return false;
            t += 2;
            continue;
        }
        for (; t < length && is_key(is, tokens[t]) && next.count < is->motif; t++)
            next.count++;
        next.value = t;
        for (; t < length && is_value(is, tokens[t]); t++)
            next.value_count++;
        if (next.count == 0 || next.value_count == 0 || next.value_count > is->motif ||
            (evaluation && next.count != is->motif) || !distinct(tokens + next.first, next.count) ||
            !distinct(tokens + next.value, next.value_count))
            return false;
        size_t before = 0;
        while (before < count && (runs[before].count != next.count ||
                                  !same_tokens(tokens + runs[before].first, tokens + next.first, next.count)))
            before++;
        const bool known = before < count;
        if (known && (runs[before].value_count != next.value_count ||
                      !same_tokens(tokens + runs[before].value, tokens + next.value, next.value_count)))
            return false;
        for (size_t i = next.value; i < t; i++)
            asked[i] = known;
        if (t == length && !known)
            return false;
        if (t < length) {
            is->of_symbol[tokens[next.first]]++;
            is->of_symbol[tokens[next.value]] += !known;
            is->pairs++;
            is->longest += next.count == is->motif;
        }
        runs[count++] = next;
    }
    return count > 1;
}

static bool check_recall(const host_batch *host, size_t number, bool evaluation, law *is) {
    const float *in = host->inputs + number * host->length, *classes = host->targets + number * host->scored;
    const float *weights = host->weights + number * host->scored;
    size_t tokens[MOST + 1] = {0}, count = 0;
    bool asked[MOST + 1] = {false};

    for (size_t t = 0; t < host->length; t++)
        tokens[t] = (size_t)in[t];
    tokens[host->length] = (size_t)classes[host->length - 1];
    if (host->scored != host->length || !read_tokens(is, tokens, host->length + 1, evaluation, asked))
        return false;
    for (size_t t = 1; t <= host->length; t++) {
        if (!evaluation && !is->asked_alone)
            asked[t] = is->motif == 1 || tokens[t] != is->symbols - 1;
        count += asked[t];
    }
    for (size_t t = 0; t < host->length; t++)
        if (classes[t] != (float)tokens[t + 1] ||
            weights[t] != (asked[t + 1] ? (float)((double)host->scored / (double)count) : 0))
            return false;
    return true;
}

/* ---- The others ---- */

static bool check_copying(const host_batch *host, size_t number, law *is, bool selective) {
    const float *in = host->inputs + number * host->length, *classes = host->targets + number * host->scored;
    const size_t before = host->length - is->copied - 1;
    size_t copied = 0;

    if (host->scored != is->copied || in[before] != (float)(is->symbols - 1))
        return false;
    for (size_t t = 0; t < host->length; t++) {
        if (t == before || in[t] == (float)(is->symbols - 2))
            continue;
        if (t > before || copied == is->copied || in[t] != classes[copied++] || (!selective && t >= is->copied))
            return false;
        is->of_symbol[(size_t)in[t]]++;
        is->of_place[t]++;
    }
    for (size_t j = 0; j < host->scored; j++)
        if (host->weights[number * host->scored + j] != 1 || classes[j] >= (float)(is->symbols - 2))
            return false;
    return copied == is->copied;
}

static bool check_compression(const host_batch *host, size_t number, law *is) {
    const float *in = host->inputs + number * host->length;

    for (size_t t = 0; t + 1 < host->length; t++) {
        is->of_symbol[(size_t)in[t]]++;
        if (in[t] >= (float)(is->symbols - 1) || host->targets[number * host->scored + t] != in[t] ||
            host->weights[number * host->scored + t] != 1)
            return false;
    }
    return host->scored + 1 == host->length && in[host->length - 1] == (float)(is->symbols - 1);
}

/* The scored positions begin with the first insert symbol. */
static bool check_memorisation(const host_batch *host, size_t number, law *is) {
    const float *in = host->inputs + number * host->length, *classes = host->targets + number * host->scored;
    const size_t asked = host->length / 2;
    const float weight = (float)((double)host->scored / (double)asked);

    for (size_t t = 0; t < host->length; t += 2) {
        const size_t key = (size_t)in[t], value = (size_t)classes[t];
        if (!is_key(is, key) || !is_value(is, value) || in[t + 1] != (float)(is->symbols - 1) ||
            (is->fact[key] > 0 && is->fact[key] != 1 + value) || host->weights[number * host->scored + t] != weight ||
            (t + 1 < host->scored && host->weights[number * host->scored + t + 1] != 0))
            return false;
        is->fact[key] = 1 + value;
        is->of_symbol[key]++;
    }
    return host->scored + 1 == host->length;
}

static bool check_sequence(const host_batch *host, size_t number, bool evaluation, law *is) {
    if (strstr(is->overrides, "copying"))
        return check_copying(host, number, is, strstr(is->overrides, "selective") != NULL);
    if (strstr(is->overrides, "compression"))
        return check_compression(host, number, is);
    if (strstr(is->overrides, "memorisation"))
        return check_memorisation(host, number, is);
    return check_recall(host, number, evaluation, is);
}

/* ---- Laws ---- */

/* The largest distance of counts from equal shares of their sum, in standard deviations of independent draws. */
static double unevenness(const size_t *counts, size_t count) {
    double sum = 0, worst = 0;

    for (size_t i = 0; i < count; i++)
        sum += (double)counts[i];
    const double p = 1 / (double)count, sigma = sqrt(sum * p * (1 - p));
    for (size_t i = 0; i < count && sigma > 0; i++)
        worst = fmax(worst, fabs((double)counts[i] - sum * p) / sigma);
    return worst;
}

static bool check_trained(const host_batch *host, size_t number, void *is) {
    return check_sequence(host, number, false, is);
}

static bool check_evaluated(const host_batch *host, size_t number, void *is) {
    return check_sequence(host, number, true, is);
}

static icl_status check_definition(tap_run *tap, icl_task_purpose purpose, law *is, icl_backend *backend,
                                   icl_error *error) {
    const bool evaluated = purpose == ICL_FOR_EVALUATION;
    size_t wrong;

    ICL_CHECK(count_wrong(is->overrides, purpose, STEPS, backend, evaluated ? check_evaluated : check_trained, is,
                          &wrong, error));
    tap_ok(tap, wrong == 0, "%s: %d sequences for %s are what they should be (%zu are not)", is->overrides,
           STEPS * BATCH, evaluated ? "evaluation" : "training", wrong);
    return ICL_OK;
}

/* Each of at most 300 counts is 5.5 deviations away with a probability below 4e-8. */
static void check_laws(tap_run *tap, const law *is, bool evaluation) {
    const size_t first_value = is->keys, first_noise = is->keys + is->values;
    const bool selective = strstr(is->overrides, "selective") != NULL, memory = strstr(is->overrides, "memorisation");
    const size_t places = selective ? 24 - is->copied - 1 : 0;
    const double keys = unevenness(is->of_symbol, is->keys), noise = unevenness(is->of_symbol + first_noise, is->noise);
    const double values = memory ? 0 : unevenness(is->of_symbol + first_value, is->values);
    const double place = unevenness(is->of_place, places);

    tap_ok(tap, keys < 5.5 && values < 5.5 && noise < 5.5 && place < 5.5,
           "%s: keys, values, noise and places are equally likely (%.2g, %.2g, %.2g, %.2g deviations)", is->overrides,
           keys, values, noise, place);
    if (is->motif > 1 && !evaluation) {
        const double n = (double)is->pairs, p = 1 / (double)is->motif, sigma = sqrt(n * p * (1 - p));
        tap_ok(tap, fabs((double)is->longest - p * n) < 5.5 * sigma, "of %g keys %zu are the longest", n, is->longest);
    }
    if (is->noise > 0) { /* the pairs of 22 tokens: 10 free ones, the last for sure */
        const double n = (double)(is->noisy + is->pairs), sigma = sqrt(n * .3 * .7);
        tap_ok(tap, fabs((double)is->noisy - .3 * n) < 5.5 * sigma, "of %g pairs %zu are noise", n, is->noisy);
    }
}

/* Values come from one table for a seed of the facts. */
static icl_status check_facts(tap_run *tap, icl_backend *backend, icl_error *error) {
    law first = {.overrides = "task.family=mad task.skill=memorisation task.vocabulary=22 task.length=16",
                 .symbols = 22,
                 .keys = 10,
                 .values = 11};
    law other = first;
    bool used[MOST] = {false}, distinct_values = true, differs = false;
    icl_status status = ICL_OK;

    other.overrides = "task.family=mad task.skill=memorisation task.vocabulary=22 task.length=16 task.facts_seed=2";
    ICL_TRY(check_definition(tap, ICL_FOR_TRAINING, &first, backend, error));
    ICL_TRY(check_definition(tap, ICL_FOR_EVALUATION, &first, backend, error));
    ICL_TRY(check_definition(tap, ICL_FOR_TRAINING, &other, backend, error));
    check_laws(tap, &first, false);
    for (size_t key = 0; key < first.keys; key++) {
        distinct_values = distinct_values && first.fact[key] > 0 && !used[first.fact[key]];
        used[first.fact[key]] = true;
        differs = differs || first.fact[key] != other.fact[key];
    }
    tap_ok(tap, distinct_values, "every key has a value of its own, in training and in evaluation the same");
    tap_ok(tap, differs, "another seed of the facts: other values");
done:
    return status;
}

/* ---- Reference predictors ---- */

/* The cross-entropy of the classes under the shares that they have among the symbols first … end - 1 of their
 * sequence. */
static double context_loss(const host_batch *host, size_t first, size_t end) {
    double sum = 0;

    for (size_t i = 0; i < host->size; i++)
        for (size_t s = 0; s < host->scored; s++) {
            const float weight = host->weights[i * host->scored + s], class = host->targets[i * host->scored + s];
            double seen = 0, equal = 0;
            for (size_t t = 0; t < host->length; t++) {
                const float symbol = host->inputs[i * host->length + t];
                seen += symbol >= (float)first && symbol < (float)end;
                equal += symbol == class;
            }
            sum += weight == 0 ? 0 : (double)weight * log((seen > 0 ? seen : (double)(end - first)) / fmax(1, equal));
        }
    return sum / (double)(host->size * host->scored);
}

static icl_status check_references(tap_run *tap, const char *overrides, size_t first, size_t asked,
                                   icl_backend *backend, icl_error *error) {
    const char *const names[] = {"uniform", "values", "context"};
    const icl_reference_predictor *known;
    double *outputs = NULL;
    icl_task *task = NULL;
    icl_batch batch = {0};
    host_batch host = {0};
    icl_status status = ICL_OK;

    ICL_TRY(make_task(overrides, &task, error));
    const size_t V = task->shape.outputs;
    ICL_TRY(icl_batch_create(task, backend, ICL_FOR_EVALUATION, BATCH, &batch, error));
    ICL_TRY(icl_task_sample(task, backend, ICL_FOR_EVALUATION, SEED, 0, &batch, error));
    ICL_TRY(host_batch_read(&batch, &host, error));
    ICL_TRY(icl_allocate(BATCH * host.scored, V * sizeof *outputs, "outputs", &outputs, error));
    const double expected[] = {log((double)V), log((double)asked), context_loss(&host, first, first + asked)};
    known = task->family->references(task);
    for (size_t r = 0; r < 3; r++, known++) {
        double loss = 0;
        ICL_TRY(known->predict(known, &(icl_shown_sequences){task, BATCH, host.inputs, &batch}, outputs, error));
        for (size_t i = 0; i < BATCH * host.scored; i++) {
            const double class = (double)host.targets[i], weight = (double)host.weights[i];
            loss += weight == 0 ? 0 : weight * icl_loss_of(ICL_LOSS_CROSS_ENTROPY, V, outputs + i * V, &class);
        }
        loss /= (double)(BATCH * host.scored);
        tap_ok(tap, strcmp(known->name, names[r]) == 0 && fabs(loss - expected[r]) < 1e-6, "%s: %s %.6g, expected %.6g",
               overrides, known->name, loss, expected[r]);
    }
    tap_ok(tap, !known->name, "and no other");
done:
    icl_free(&outputs);
    host_batch_release(&host);
    icl_batch_release(&batch);
    icl_task_destroy(&task);
    return status;
}

static void check_all(tap_run *tap, icl_backend *backend, icl_backend *cpu) {
    static const law laws[] = {
        {"task.family=mad task.vocabulary=13 task.length=30", 13, 6, 7, 0, 1},
        {"task.family=mad task.trained=asked task.vocabulary=4 task.length=4", 4, 2, 2, 0, 1, 0, true},
        {"task.family=mad task.skill=noisy-recall task.noise_share=0.3 task.noise_symbols=5 task.vocabulary=16 "
         "task.length=22",
         16, 5, 6, 5, 1},
        {"task.family=mad task.skill=fuzzy-recall task.vocabulary=16 task.length=41", 16, 7, 8, 0, 3},
        {"task.family=mad task.skill=fuzzy-recall task.motif=2 task.vocabulary=8 task.length=40 task.trained=asked", 8,
         3, 4, 0, 2, 0, true},
        {"task.family=mad task.skill=copying task.vocabulary=9 task.length=15 task.copied=7", 9, 0, 7, 0, 1, 7},
        {"task.family=mad task.skill=selective-copying task.vocabulary=9 task.length=24 task.copied=6", 9, 0, 7, 0, 1,
         6},
        {"task.family=mad task.skill=compression task.vocabulary=11 task.length=9", 11, 0, 10, 0, 1}};
    icl_error error = {0};

    for (size_t i = 0; i < sizeof laws / sizeof *laws; i++) {
        law is = laws[i], evaluated = laws[i];
        tap_status(tap, check_definition(tap, ICL_FOR_TRAINING, &is, backend, &error), &error, "sampling runs");
        tap_status(tap, check_definition(tap, ICL_FOR_EVALUATION, &evaluated, backend, &error), &error,
                   "sampling runs");
        check_laws(tap, &is, false);
        check_laws(tap, &evaluated, true);
        tap_status(tap, compare_symbol_batches(tap, is.overrides, backend, cpu, &error), &error, "sampling runs");
    }
    tap_status(tap, check_facts(tap, backend, &error), &error, "sampling runs");
    tap_status(tap, check_references(tap, laws[0].overrides, 6, 7, backend, &error), &error, "predicting runs");
    tap_status(tap, check_references(tap, laws[3].overrides, 7, 8, backend, &error), &error, "predicting runs");
    tap_status(tap, check_references(tap, laws[6].overrides, 0, 7, backend, &error), &error, "predicting runs");
    tap_status(
        tap,
        check_references(tap, "task.family=mad task.skill=memorisation task.vocabulary=22", 10, 11, backend, &error),
        &error, "predicting runs");
}

int main(int count, char **arguments) {
    return test_beside_cpu(count, arguments, check_all);
}
