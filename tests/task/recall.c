/* Associative recall: the same bits on every device; sequences by definition; the laws of keys, values, places and
 * filler; reference predictors against closed forms. */
#include "frame.h"
#include "task/streams.h"

enum { BATCH = 37 };

/* The task's settings, and how often each key and each place was drawn. */
typedef struct counted {
    const char *overrides;
    size_t vocabulary, pairs;
    double power; /* A of task.gaps = power:A; below 0: uniform */
    bool random_filler;
    size_t keys; /* K = V / 2 - 1 */
    size_t of_key[64], of_value[64], of_place[64], of_filler[64];
    size_t scored; /* number of positions */
} counted;

/* Returns whether one sequence follows src/task/recall.c; counts its draws. */
static bool check_sequence(const drawn *batch, size_t number, void *counts) {
    counted *c = counts;
    const float *in = batch->inputs + number * batch->length, *classes = batch->targets + number * batch->scored;
    const float *weights = batch->weights + number * batch->scored;
    size_t value_of[64] = {0}, asked[64] = {0}, values[64] = {0}, queries = 0;

    c->scored = batch->scored;
    for (size_t j = 0; j < c->pairs; j++) {
        const size_t key = (size_t)in[2 * j], value = (size_t)in[2 * j + 1];
        if (key < 1 || key > c->keys || value <= c->keys || value > 2 * c->keys || value_of[key] || values[value]++)
            return false;
        value_of[key] = value;
        c->of_key[key]++;
        c->of_value[value - c->keys]++;
    }
    for (size_t t = 0; t < batch->scored; t++) {
        const size_t symbol = (size_t)in[2 * c->pairs + t], class = (size_t)classes[t];
        const double weight = (double)batch->scored / (double)c->pairs;
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

/* Returns the largest distance of counts from their expectation, in standard deviations, if two of the `count` = scored
 * / 2 even places are drawn one after the other, the i-th with a probability in proportion to (i + 1)^(A - 1): it is
 * drawn with probability p_i + sum over j != i of p_j p_i / (1 - p_j). */
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

static void check_definition(task_test *test, counted *c) {
    enum { STEPS = 60, DRAWN = STEPS * BATCH };
    c->keys = c->vocabulary / 2 - 1;
    const size_t wrong = count_wrong(test->device, ICL_FOR_TRAINING, BATCH, STEPS, c->overrides, check_sequence, c);

    tap_ok(&test->tap, wrong == 0,
           "%s: %d sequences are pairs, then each key once, with its value as class and its weight", c->overrides,
           DRAWN);
    /* There are at most 200 counts, each 5.5 deviations away with a probability below 4e-8. */
    const double keys = unevenness(c->of_key + 1, c->keys, DRAWN, c->pairs);
    const double values = unevenness(c->of_value + 1, c->keys, DRAWN, c->pairs);
    const double places = c->power >= 0 ? unlikeliness(c->of_place, c->scored, c->power, DRAWN)
                                        : unevenness(c->of_place, c->scored, DRAWN, c->pairs);
    const double filler =
        unevenness(c->of_filler, c->random_filler ? c->vocabulary : 1, DRAWN * (c->scored - c->pairs), 1);
    tap_ok(&test->tap, keys < 5.5 && values < 5.5 && places < 5.5 && filler < 5.5,
           "keys, values, places and filler have their laws (%.2g, %.2g, %.2g, %.2g deviations)", keys, values, places,
           filler);
}

/* At every query V, K or P classes are possible for the predictors, and equally likely. */
static void check_references(task_test *test) {
    static const char *const names[] = {"uniform", "values", "context"};
    static const double classes[] = {21, 9, 5};
    drawn all = {0};

    draw(&all, test->device, BATCH,
         "task.family=recall task.vocabulary=21 task.pairs=5 task.length=18 task.filler=random");
    tap_ok(&test->tap, has_predictors(&all, names, 3), "uniform, values and context are there");
    for (size_t i = 0; i < 3; i++) {
        predict(&all, names[i]);
        tap_ok(&test->tap,
               fabs(mean_of_classes(&all, icl_loss_of) - log(classes[i])) < 1e-6 &&
                   fabs(mean_of_classes(&all, icl_loss_accuracy) - 1 / classes[i]) < 1e-6,
               "%s: loss log %g, accuracy 1/%g", names[i], classes[i], classes[i]);
    }
    release(&all);
}

/* Draws P numbers out of `count` by shuffling the first places of a list. */
static void shuffle(icl_random_key key, uint64_t first_word, size_t count, size_t draws, size_t *numbers) {
    size_t list[64];

    for (size_t i = 0; i < count; i++)
        list[i] = i;
    for (size_t j = 0; j < draws; j++) {
        const size_t place = j + (size_t)((uint64_t)icl_random_word(key, first_word + j) * (count - j) >> 32);
        numbers[j] = list[place];
        list[place] = list[j];
    }
}

/* A batch equals the one that follows from the random words, with random filler. */
static void check_words(task_test *test) {
    enum { PAIRS = 5, KEYS = 19, SYMBOLS = 40, LENGTH = 33, SCORED = LENGTH - 2 * PAIRS, STEP = 6 };
    const icl_random_key key = {SEED, icl_stream_for(ICL_FOR_TRAINING, ICL_RECALL_STREAMS), STEP};
    const icl_random_key filler = {SEED, icl_stream_for(ICL_FOR_TRAINING, ICL_RECALL_FILLER_STREAMS), STEP};
    size_t wrong = 0;
    drawn all = {0};

    open_batch(&all, test->device, ICL_FOR_TRAINING, BATCH,
               "task.family=recall task.vocabulary=40 task.length=33 task.pairs=5 task.filler=random");
    draw_step(&all, SEED, STEP);
    for (size_t s = 0; s < BATCH; s++) {
        size_t keys[PAIRS], values[PAIRS], places[PAIRS];
        float inputs[LENGTH], targets[SCORED] = {0}, weights[SCORED] = {0};
        shuffle(key, 3 * PAIRS * s, KEYS, PAIRS, keys);
        shuffle(key, 3 * PAIRS * s + PAIRS, KEYS, PAIRS, values);
        shuffle(key, 3 * PAIRS * s + 2 * PAIRS, SCORED, PAIRS, places);
        for (size_t t = 0; t < SCORED; t++)
            inputs[2 * PAIRS + t] = (float)((uint64_t)icl_random_word(filler, s * SCORED + t) * SYMBOLS >> 32);
        for (size_t j = 0; j < PAIRS; j++) {
            inputs[2 * j] = inputs[2 * PAIRS + places[j]] = (float)(1 + keys[j]);
            inputs[2 * j + 1] = targets[places[j]] = (float)(1 + KEYS + values[j]);
            weights[places[j]] = (float)((double)SCORED / PAIRS);
        }
        for (size_t t = 0; t < LENGTH; t++)
            wrong += all.inputs[s * LENGTH + t] != inputs[t];
        for (size_t t = 0; t < SCORED; t++)
            wrong += all.targets[s * SCORED + t] != targets[t] || all.weights[s * SCORED + t] != weights[t];
    }
    tap_ok(&test->tap, wrong == 0, "%zu numbers differ from those of the random words", wrong);
    release(&all);
}

static void check_definitions(task_test *test) {
    counted tasks[] = {
        {"task.family=recall", 64, 8, -1, false},
        {"task.family=recall task.vocabulary=17 task.length=21 task.pairs=7", 17, 7, -1, false}, /* no filler */
        {"task.family=recall task.vocabulary=4 task.length=9 task.pairs=1", 4, 1, -1, false},
        {"task.family=recall task.vocabulary=20 task.length=33 task.pairs=3 task.filler=random", 20, 3, -1, true},
        {"task.family=recall task.length=13 task.pairs=2 task.gaps=power:0.01", 64, 2, 0.01, false},
        {"task.family=recall task.length=20 task.pairs=2 task.gaps=power:3 task.filler=random", 64, 2, 3, true}};

    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++)
        check_definition(test, &tasks[i]);
    check_bits(test, "task.family=recall", BATCH, 5);
    check_bits(test, "task.family=recall task.gaps=power:0.5 task.filler=random", BATCH, 5);
}

int main(int count, char **arguments) {
    static task_check *const checks[] = {check_definitions, check_words, check_references};
    return run_checks(count, arguments, checks, sizeof checks / sizeof *checks);
}
