/* The tasks of MAD: the same bits on every device; sequences by definition, in training and in evaluation; the laws of
 * keys, values, noise and places; reference predictors against closed forms. Refusals: refusals.c. */
#include "frame.h"

enum { BATCH = 37, STEPS = 40, MOST = 64 };

/* The task's settings, and counts of what was drawn. */
typedef struct sequence_law {
    const char *overrides;
    size_t symbols, keys, values, noise, motif; /* V, K, and numbers of values and noise symbols */
    size_t copied;
    bool asked_alone; /* task.trained = asked */
    size_t of_symbol[MOST], of_place[MOST], pairs, noisy, longest;
    size_t fact[MOST]; /* 1 + the value of each key; 0: not seen */
} sequence_law;

/* ---- Recall ---- */

/* The runs of keys and values among the tokens. */
typedef struct run {
    size_t first, count; /* of the key */
    size_t value, value_count;
} run;

static bool is_key(const sequence_law *law, size_t symbol) {
    return symbol < law->keys;
}

static bool is_value(const sequence_law *law, size_t symbol) {
    return symbol >= law->keys && symbol < law->keys + law->values;
}

static bool is_noise(const sequence_law *law, size_t symbol) {
    return symbol >= law->keys + law->values && symbol < law->keys + law->values + law->noise;
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
static bool read_tokens(sequence_law *law, const size_t *tokens, size_t length, bool evaluation, bool *asked) {
    run runs[MOST];
    size_t count = 0, t = 0;

    for (; law->motif > 1 && t < length && tokens[t] == law->symbols - 1; t++)
        ;
    while (t < length) {
        run next = {.first = t};
        if (is_noise(law, tokens[t])) {
            law->noisy++;
            law->of_symbol[tokens[t]]++;
            law->of_symbol[tokens[t + 1]]++;
            if (!is_noise(law, tokens[t + 1]))
                return false;
            t += 2;
            continue;
        }
        for (; t < length && is_key(law, tokens[t]) && next.count < law->motif; t++)
            next.count++;
        next.value = t;
        for (; t < length && is_value(law, tokens[t]); t++)
            next.value_count++;
        if (next.count == 0 || next.value_count == 0 || next.value_count > law->motif ||
            (evaluation && next.count != law->motif) || !distinct(tokens + next.first, next.count) ||
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
            law->of_symbol[tokens[next.first]]++;
            law->of_symbol[tokens[next.value]] += !known;
            law->pairs++;
            law->longest += next.count == law->motif;
        }
        runs[count++] = next;
    }
    return count > 1;
}

static bool check_recall(const drawn *batch, size_t number, bool evaluation, sequence_law *law) {
    const float *in = batch->inputs + number * batch->length, *classes = batch->targets + number * batch->scored;
    const float *weights = batch->weights + number * batch->scored;
    size_t tokens[MOST + 1] = {0}, count = 0;
    bool asked[MOST + 1] = {false};

    for (size_t t = 0; t < batch->length; t++)
        tokens[t] = (size_t)in[t];
    tokens[batch->length] = (size_t)classes[batch->length - 1];
    if (batch->scored != batch->length || !read_tokens(law, tokens, batch->length + 1, evaluation, asked))
        return false;
    for (size_t t = 1; t <= batch->length; t++) {
        if (!evaluation && !law->asked_alone)
            asked[t] = law->motif == 1 || tokens[t] != law->symbols - 1;
        count += asked[t];
    }
    for (size_t t = 0; t < batch->length; t++)
        if (classes[t] != (float)tokens[t + 1] ||
            weights[t] != (asked[t + 1] ? (float)((double)batch->scored / (double)count) : 0))
            return false;
    return true;
}

/* ---- The others ---- */

static bool check_copying(const drawn *batch, size_t number, sequence_law *law, bool selective) {
    const float *in = batch->inputs + number * batch->length, *classes = batch->targets + number * batch->scored;
    const size_t before = batch->length - law->copied - 1;
    size_t copied = 0;

    if (batch->scored != law->copied || in[before] != (float)(law->symbols - 1))
        return false;
    for (size_t t = 0; t < batch->length; t++) {
        if (t == before || in[t] == (float)(law->symbols - 2))
            continue;
        if (t > before || copied == law->copied || in[t] != classes[copied++] || (!selective && t >= law->copied))
            return false;
        law->of_symbol[(size_t)in[t]]++;
        law->of_place[t]++;
    }
    for (size_t j = 0; j < batch->scored; j++)
        if (batch->weights[number * batch->scored + j] != 1 || classes[j] >= (float)(law->symbols - 2))
            return false;
    return copied == law->copied;
}

static bool check_compression(const drawn *batch, size_t number, sequence_law *law) {
    const float *in = batch->inputs + number * batch->length;

    for (size_t t = 0; t + 1 < batch->length; t++) {
        law->of_symbol[(size_t)in[t]]++;
        if (in[t] >= (float)(law->symbols - 1) || batch->targets[number * batch->scored + t] != in[t] ||
            batch->weights[number * batch->scored + t] != 1)
            return false;
    }
    return batch->scored + 1 == batch->length && in[batch->length - 1] == (float)(law->symbols - 1);
}

/* The scored positions begin at the first insert symbol. */
static bool check_memorisation(const drawn *batch, size_t number, sequence_law *law) {
    const float *in = batch->inputs + number * batch->length, *classes = batch->targets + number * batch->scored;
    const size_t asked = batch->length / 2;
    const float weight = (float)((double)batch->scored / (double)asked);

    for (size_t t = 0; t < batch->length; t += 2) {
        const size_t key = (size_t)in[t], value = (size_t)classes[t];
        if (!is_key(law, key) || !is_value(law, value) || in[t + 1] != (float)(law->symbols - 1) ||
            (law->fact[key] > 0 && law->fact[key] != 1 + value) ||
            batch->weights[number * batch->scored + t] != weight ||
            (t + 1 < batch->scored && batch->weights[number * batch->scored + t + 1] != 0))
            return false;
        law->fact[key] = 1 + value;
        law->of_symbol[key]++;
    }
    return batch->scored + 1 == batch->length;
}

static bool check_sequence(const drawn *batch, size_t number, bool evaluation, sequence_law *law) {
    if (strstr(law->overrides, "copying"))
        return check_copying(batch, number, law, strstr(law->overrides, "selective") != NULL);
    if (strstr(law->overrides, "compression"))
        return check_compression(batch, number, law);
    if (strstr(law->overrides, "memorisation"))
        return check_memorisation(batch, number, law);
    return check_recall(batch, number, evaluation, law);
}

/* ---- Laws ---- */

/* Returns the unevenness of the counts; 0 if all are 0. */
static double unevenness_of(const size_t *counts, size_t count) {
    size_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += counts[i];
    return count > 0 ? unevenness(counts, count, sum, 1) : 0;
}

static bool check_trained(const drawn *batch, size_t number, void *law) {
    return check_sequence(batch, number, false, law);
}

static bool check_evaluated(const drawn *batch, size_t number, void *law) {
    return check_sequence(batch, number, true, law);
}

static void check_definition(task_test *test, icl_task_purpose purpose, sequence_law *law) {
    const bool evaluated = purpose == ICL_FOR_EVALUATION;
    const size_t wrong = count_wrong(test->device, purpose, BATCH, STEPS, law->overrides,
                                     evaluated ? check_evaluated : check_trained, law);

    tap_ok(&test->tap, wrong == 0, "%s: %d sequences for %s are what they should be (%zu are not)", law->overrides,
           STEPS * BATCH, evaluated ? "evaluation" : "training", wrong);
}

/* There are at most 300 counts, each 5.5 deviations away with a probability below 4e-8. */
static void check_laws(task_test *test, const sequence_law *law, bool evaluation) {
    const size_t first_value = law->keys, first_noise = law->keys + law->values;
    const bool selective = strstr(law->overrides, "selective") != NULL, memory = strstr(law->overrides, "memorisation");
    const size_t places = selective ? 24 - law->copied - 1 : 0;
    const double keys = unevenness_of(law->of_symbol, law->keys),
                 noise = unevenness_of(law->of_symbol + first_noise, law->noise);
    const double values = memory ? 0 : unevenness_of(law->of_symbol + first_value, law->values);
    const double place = unevenness_of(law->of_place, places);

    tap_ok(&test->tap, keys < 5.5 && values < 5.5 && noise < 5.5 && place < 5.5,
           "%s: keys, values, noise and places are equally likely (%.2g, %.2g, %.2g, %.2g deviations)", law->overrides,
           keys, values, noise, place);
    if (law->motif > 1 && !evaluation) {
        const double n = (double)law->pairs, p = 1 / (double)law->motif, sigma = sqrt(n * p * (1 - p));
        tap_ok(&test->tap, fabs((double)law->longest - p * n) < 5.5 * sigma, "of %g keys %zu are the longest", n,
               law->longest);
    }
    if (law->noise > 0) { /* the pairs of 22 tokens: 10 free ones, the last for sure */
        const double n = (double)(law->noisy + law->pairs), sigma = sqrt(n * .3 * .7);
        tap_ok(&test->tap, fabs((double)law->noisy - .3 * n) < 5.5 * sigma, "of %g pairs %zu are noise", n, law->noisy);
    }
}

/* One seed of the facts gives one table of values. */
static void check_facts(task_test *test) {
    sequence_law first = {.overrides = "task.family=mad task.skill=memorisation task.vocabulary=22 task.length=16",
                          .symbols = 22,
                          .keys = 10,
                          .values = 11};
    sequence_law other = first;
    bool used[MOST] = {false}, distinct_values = true, differs = false;

    other.overrides = "task.family=mad task.skill=memorisation task.vocabulary=22 task.length=16 task.facts_seed=2";
    check_definition(test, ICL_FOR_TRAINING, &first);
    check_definition(test, ICL_FOR_EVALUATION, &first);
    check_definition(test, ICL_FOR_TRAINING, &other);
    check_laws(test, &first, false);
    for (size_t key = 0; key < first.keys; key++) {
        distinct_values = distinct_values && first.fact[key] > 0 && !used[first.fact[key]];
        used[first.fact[key]] = true;
        differs = differs || first.fact[key] != other.fact[key];
    }
    tap_ok(&test->tap, distinct_values, "every key has a value of its own, in training and in evaluation the same");
    tap_ok(&test->tap, differs, "another seed of the facts: other values");
}

/* ---- Reference predictors ---- */

/* Returns the cross-entropy of the classes under their shares among the symbols first … end - 1 of their sequence. */
static double context_loss(const drawn *batch, size_t first, size_t end) {
    double sum = 0;

    for (size_t i = 0; i < batch->count; i++)
        for (size_t s = 0; s < batch->scored; s++) {
            const float weight = batch->weights[i * batch->scored + s], class = batch->targets[i * batch->scored + s];
            double seen = 0, equal = 0;
            for (size_t t = 0; t < batch->length; t++) {
                const float symbol = batch->inputs[i * batch->length + t];
                seen += symbol >= (float)first && symbol < (float)end;
                equal += symbol == class;
            }
            sum += weight == 0 ? 0 : (double)weight * log((seen > 0 ? seen : (double)(end - first)) / fmax(1, equal));
        }
    return sum / (double)(batch->count * batch->scored);
}

static void check_references(task_test *test, const char *overrides, size_t first, size_t asked) {
    static const char *const names[] = {"uniform", "values", "context"};
    drawn all = {0};

    draw(&all, test->device, BATCH, "%s", overrides);
    tap_ok(&test->tap, has_predictors(&all, names, 3), "uniform, values and context are there");
    const double expected[] = {log((double)all.task->shape.outputs), log((double)asked),
                               context_loss(&all, first, first + asked)};
    for (size_t i = 0; i < 3; i++) {
        predict(&all, names[i]);
        const double loss = mean_of_classes(&all, icl_loss_of);
        tap_ok(&test->tap, fabs(loss - expected[i]) < 1e-6, "%s: %s %.6g, expected %.6g", overrides, names[i], loss,
               expected[i]);
    }
    release(&all);
}

static void check_all(task_test *test) {
    static const sequence_law laws[] = {
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

    for (size_t i = 0; i < sizeof laws / sizeof *laws; i++) {
        sequence_law trained = laws[i], evaluated = laws[i];
        check_definition(test, ICL_FOR_TRAINING, &trained);
        check_definition(test, ICL_FOR_EVALUATION, &evaluated);
        check_laws(test, &trained, false);
        check_laws(test, &evaluated, true);
        check_bits(test, laws[i].overrides, BATCH, 5);
    }
    check_facts(test);
    check_references(test, laws[0].overrides, 6, 7);
    check_references(test, laws[3].overrides, 7, 8);
    check_references(test, laws[6].overrides, 0, 7);
    check_references(test, "task.family=mad task.skill=memorisation task.vocabulary=22", 10, 11);
}

int main(int count, char **arguments) {
    static task_check *const checks[] = {check_all};
    return run_checks(count, arguments, checks, sizeof checks / sizeof *checks);
}
