/*
 * State tracking: the same bits on every device; words, their products, weights and padding by definition; lengths and
 * tokens that are equally likely; reference predictors.
 *
 * Permutations are numbered here by their Lehmer code, and products are computed by rearranging things on places,
 * without src/task/state.c.
 */
#include "frame.h"

enum { BATCH = 37, MOST_TOKENS = 121, MOST_LENGTH = 32, STEPS = 60 };

/* The task's settings, and how often each token and each length was drawn. */
typedef struct word_law {
    const char *overrides;
    size_t modulus; /* of sums; 0: permutations */
    size_t points;
    bool even;
    size_t classes, shortest, longest;
    bool last_only;
    size_t generators;          /* tokens after the neutral one; 0: all elements are tokens */
    unsigned char images[4][5]; /* of the generators */
    size_t of_token[MOST_TOKENS], of_length[MOST_LENGTH], tokens;
} word_law;

/* Returns the place in the lexicographic order of all permutations; for even ones half of it, because one of each pair
 * is even. */
static size_t number_of(const word_law *law, const unsigned char *images) {
    size_t number = 0;
    for (size_t i = 0; i < law->points; i++) {
        size_t smaller = 0;
        for (size_t j = i + 1; j < law->points; j++)
            smaller += images[j] < images[i];
        number = number * (law->points - i) + smaller;
    }
    return law->even ? number / 2 : number;
}

static bool is_odd(const word_law *law, const unsigned char *images) {
    size_t inversions = 0;
    for (size_t i = 0; i < law->points; i++)
        for (size_t j = i + 1; j < law->points; j++)
            inversions += images[i] > images[j];
    return inversions % 2 == 1;
}

static void element_of(const word_law *law, size_t number, unsigned char *images) {
    size_t rest = law->even ? 2 * number : number, base = 1;
    unsigned char left[5] = {0, 1, 2, 3, 4};

    for (size_t i = 2; i < law->points; i++)
        base *= i;
    for (size_t i = 0; i < law->points; i++) {
        const size_t digit = rest / base;
        rest %= base;
        base /= law->points - 1 - i > 0 ? law->points - 1 - i : 1;
        images[i] = left[digit];
        memmove(left + digit, left + digit + 1, 4 - digit);
    }
    if (law->even && is_odd(law, images)) { /* the other permutation of the pair */
        const unsigned char last = images[law->points - 1];
        images[law->points - 1] = images[law->points - 2];
        images[law->points - 2] = last;
    }
}

/* Returns the class after one more token. g maps points; for sums it holds the sum. */
static size_t advance(const word_law *law, size_t token, unsigned char *g, size_t class) {
    unsigned char images[5] = {0, 1, 2, 3, 4};

    if (law->modulus > 0)
        return (class + token) % law->modulus;
    if (law->generators > 0 && token > 0)
        memcpy(images, law->images[token - 1], law->points);
    else if (law->generators == 0)
        element_of(law, token, images);
    for (size_t i = 0; i < law->points; i++)
        g[i] = images[g[i]];
    return number_of(law, g);
}

static bool check_word(const drawn *batch, size_t number, void *counts) {
    word_law *law = counts;
    const float *in = batch->inputs + number * batch->length, *classes = batch->targets + number * batch->scored;
    const float *weights = batch->weights + number * batch->scored;
    const size_t first_scored = batch->length - batch->scored;
    unsigned char g[5] = {0, 1, 2, 3, 4};
    size_t length = 0, class = 0;

    while (length + 1 < batch->length && in[length + 1] > 0)
        length++;
    if (in[0] != 0 || length < law->shortest || length > law->longest)
        return false;
    law->of_length[length]++;
    for (size_t t = 1; t < batch->length; t++) {
        const bool asked = law->last_only ? t == length : t <= length;
        const double weight = asked ? (double)batch->scored / (law->last_only ? 1 : (double)length) : 0;
        if (t > length && in[t] != 0)
            return false;
        if (t <= length) {
            class = advance(law, (size_t)in[t] - 1, g, class);
            law->of_token[(size_t)in[t] - 1]++;
        }
        if (t < first_scored
                ? asked
                : weights[t - first_scored] != (float)weight || classes[t - first_scored] != (float)(asked ? class : 0))
            return false;
    }
    return true;
}

static size_t sum_of(const size_t *counts, size_t count) {
    size_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += counts[i];
    return sum;
}

static void check_shape(task_test *test, const word_law *law) {
    drawn all = {0};

    open_batch(&all, test->device, ICL_FOR_TRAINING, 1, law->overrides);
    const icl_task_shape *shape = &all.task->shape;
    tap_ok(&test->tap,
           shape->positions == law->longest + 1 && shape->symbols == law->tokens + 1 &&
               shape->outputs == law->classes && shape->loss == ICL_LOSS_CROSS_ENTROPY &&
               shape->first_scored == (law->last_only ? law->shortest : 1) &&
               shape->first_scored + shape->scored == shape->positions,
           "%s: a start symbol and %zu tokens, %zu classes", law->overrides, law->tokens, law->classes);
    release(&all);
}

static void check_definition(task_test *test, word_law *law) {
    const size_t wrong = count_wrong(test->device, ICL_FOR_TRAINING, BATCH, STEPS, law->overrides, check_word, law);
    const size_t *of_length = law->of_length + law->shortest, lengths = law->longest - law->shortest + 1;

    check_shape(test, law);
    tap_ok(&test->tap, wrong == 0, "%d words and their products, weights and padding", STEPS * BATCH);
    /* There are 300 counts in all, each 5.5 deviations away with a probability below 4e-8 if nearly normal. */
    const double token = unevenness(law->of_token, law->tokens, sum_of(law->of_token, law->tokens), 1);
    const double length = unevenness(of_length, lengths, sum_of(of_length, lengths), 1);
    tap_ok(&test->tap, token < 5.5 && length < 5.5, "tokens and lengths are equally likely (%.2g, %.2g deviations)",
           token, length);
}

/* ---- Reference predictors ---- */

/* Returns whether logits [q] are the predictor's for this class and this last token, whose number is its element's. */
static bool is_answer(const char *name, const double *logits, size_t classes, size_t class, size_t last) {
    for (size_t k = 0; k < classes; k++) {
        const double expected = strcmp(name, "uniform") == 0 ? 0
                                : strcmp(name, "last") == 0  ? (double)(k == last)
                                : k == class                 ? 0
                                                             : -(double)INFINITY;
        if (logits[k] != expected)
            return false;
    }
    return true;
}

static size_t count_wrong_answers(const char *name, const drawn *batch) {
    const size_t classes = batch->task->shape.outputs;
    size_t wrong = 0;

    for (size_t i = 0; i < BATCH * batch->scored; i++) {
        const size_t position = batch->length - batch->scored + i % batch->scored;
        const size_t last = (size_t)batch->inputs[i / batch->scored * batch->length + position] - 1;
        wrong += batch->weights[i] > 0 &&
                 !is_answer(name, batch->outputs + i * classes, classes, (size_t)batch->targets[i], last);
    }
    return wrong;
}

static void check_references(task_test *test, const char *overrides) {
    static const char *const names[] = {"uniform", "last", "exact"};
    drawn all = {0};

    draw(&all, test->device, BATCH, "%s", overrides);
    tap_ok(&test->tap, has_predictors(&all, names, 3), "three reference predictors");
    for (size_t i = 0; i < 3; i++) {
        predict(&all, names[i]);
        tap_ok(&test->tap, count_wrong_answers(names[i], &all) == 0, "%s: %s", overrides, names[i]);
    }
    release(&all);
}

static void check_all(task_test *test) {
    word_law laws[] = {
        {"task.family=state", .modulus = 2, .classes = 2, .tokens = 2, .shortest = 3, .longest = 20},
        {"task.family=state task.labels=last task.shortest=5 task.longest=5", .modulus = 2, .classes = 2, .tokens = 2,
         .shortest = 5, .longest = 5, .last_only = true},
        {"task.family=state task.rule=modular task.modulus=7 task.labels=last", .modulus = 7, .classes = 7, .tokens = 7,
         .shortest = 3, .longest = 20, .last_only = true},
        {"task.family=state task.rule=modular task.tokens=generators task.shortest=1 task.longest=1", .modulus = 3,
         .classes = 3, .tokens = 2, .shortest = 1, .longest = 1},
        {"task.family=state task.rule=s3", .points = 3, .classes = 6, .tokens = 6, .shortest = 3, .longest = 20},
        {"task.family=state task.rule=s4 task.tokens=generators", .points = 4, .classes = 24, .tokens = 4,
         .shortest = 3, .longest = 20, .generators = 3, .images = {{1, 0, 2, 3}, {0, 2, 1, 3}, {0, 1, 3, 2}}},
        {"task.family=state task.rule=a5", .points = 5, .even = true, .classes = 60, .tokens = 60, .shortest = 3,
         .longest = 20},
        {"task.family=state task.rule=a5 task.tokens=generators task.shortest=30 task.longest=31", .points = 5,
         .even = true, .classes = 60, .tokens = 4, .shortest = 30, .longest = 31, .generators = 3,
         .images = {{1, 2, 0, 3, 4}, {1, 3, 2, 0, 4}, {1, 4, 2, 3, 0}}},
        {"task.family=state task.rule=s5", .points = 5, .classes = 120, .tokens = 120, .shortest = 3, .longest = 20},
    };

    for (size_t i = 0; i < sizeof laws / sizeof *laws; i++)
        check_definition(test, &laws[i]);
    check_references(test, "task.family=state task.rule=a5");
    check_references(test, "task.family=state task.rule=s3 task.labels=last");
    check_bits(test, "task.family=state task.rule=a5", BATCH, 5);
}

int main(int count, char **arguments) {
    static task_check *const checks[] = {check_all};
    return run_checks(count, arguments, checks, sizeof checks / sizeof *checks);
}
