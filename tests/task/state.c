/*
 * State tracking: the same bits on every device; words, their products, weights and padding by definition; lengths and
 * tokens that are equally likely; reference predictors.
 *
 * Permutations are numbered here by their Lehmer code, and products are followed as an arrangement of things on places,
 * without src/task/permutations.c.
 */
#include <math.h>
#include <stdlib.h>

#include "iclab/task_family.h"
#include "symbol_batches.h"

enum { MOST_TOKENS = 121, MOST_LENGTH = 32, STEPS = 60 };

/* How a task is made, and how often each token and each length came. */
typedef struct word_law {
    const char *overrides;
    size_t modulus; /* of sums; 0: permutations */
    size_t points;
    bool even;
    size_t classes, shortest, longest;
    bool last_only;
    size_t generators;          /* tokens behind the neutral one; 0: all elements are tokens */
    unsigned char images[4][5]; /* of the generators */
    size_t of_token[MOST_TOKENS], of_length[MOST_LENGTH], tokens;
} word_law;

/* The place in the dictionary of all permutations; every second of them is even, one of each pair. */
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
    if (law->even && is_odd(law, images)) { /* the other one of the pair */
        const unsigned char last = images[law->points - 1];
        images[law->points - 1] = images[law->points - 2];
        images[law->points - 2] = last;
    }
}

/* The class behind one more token. g maps points; for sums it holds the sum. */
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

static bool check_word(const host_batch *host, size_t number, void *of) {
    word_law *law = of;
    const float *in = host->inputs + number * host->length, *classes = host->targets + number * host->scored;
    const float *weights = host->weights + number * host->scored;
    const size_t first_scored = host->length - host->scored;
    unsigned char g[5] = {0, 1, 2, 3, 4};
    size_t length = 0, class = 0;

    while (length + 1 < host->length && in[length + 1] > 0)
        length++;
    if (in[0] != 0 || length < law->shortest || length > law->longest)
        return false;
    law->of_length[length]++;
    for (size_t t = 1; t < host->length; t++) {
        const bool asked = law->last_only ? t == length : t <= length;
        const double weight = asked ? (double)host->scored / (law->last_only ? 1 : (double)length) : 0;
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

/* The largest distance from equal shares, in standard deviations. */
static double unevenness(const size_t *counts, size_t count) {
    double total = 0, worst = 0;

    for (size_t i = 0; i < count; i++)
        total += (double)counts[i];
    for (size_t i = 0; i < count && count > 1; i++) {
        const double mean = total / (double)count, sigma = sqrt(mean * (1 - 1 / (double)count));
        worst = fmax(worst, fabs((double)counts[i] - mean) / sigma);
    }
    return worst;
}

static icl_status check_shape(tap_run *tap, const word_law *law, icl_error *error) {
    icl_task *task = NULL;

    ICL_CHECK(make_task(law->overrides, &task, error));
    const icl_task_shape *shape = icl_task_get_shape(task);
    tap_ok(tap,
           shape->positions == law->longest + 1 && shape->symbols == law->tokens + 1 &&
               shape->outputs == law->classes && shape->loss == ICL_LOSS_CROSS_ENTROPY &&
               shape->first_scored == (law->last_only ? law->shortest : 1) &&
               shape->first_scored + shape->scored == shape->positions,
           "%s: a start symbol and %zu tokens, %zu classes", law->overrides, law->tokens, law->classes);
    icl_task_destroy(&task);
    return ICL_OK;
}

static icl_status check_definition(tap_run *tap, word_law *law, icl_backend *backend, icl_error *error) {
    size_t wrong;

    ICL_CHECK(check_shape(tap, law, error));
    ICL_CHECK(count_wrong(law->overrides, ICL_FOR_TRAINING, STEPS, backend, check_word, law, &wrong, error));
    tap_ok(tap, wrong == 0, "%d words and their products, weights and padding", STEPS * BATCH);
    /* 300 counts in all, each 5.5 deviations away with a probability below 4e-8 where it is nearly normal. */
    const double tokens = unevenness(law->of_token, law->tokens);
    const double lengths = unevenness(law->of_length + law->shortest, law->longest - law->shortest + 1);
    tap_ok(tap, tokens < 5.5 && lengths < 5.5, "tokens and lengths are equally likely (%.2g, %.2g deviations)", tokens,
           lengths);
    return ICL_OK;
}

/* ---- Reference predictors ---- */

/* Whether logits [q] are those of the predictor for this class and this last token, which is its own element. */
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

static size_t count_wrong_answers(const char *name, const host_batch *host, const double *logits, size_t classes) {
    size_t wrong = 0;
    for (size_t i = 0; i < BATCH * host->scored; i++) {
        const size_t position = host->length - host->scored + i % host->scored;
        const size_t last = (size_t)host->inputs[i / host->scored * host->length + position] - 1;
        wrong +=
            host->weights[i] > 0 && !is_answer(name, logits + i * classes, classes, (size_t)host->targets[i], last);
    }
    return wrong;
}

static icl_status check_references(tap_run *tap, const char *overrides, icl_backend *backend, icl_error *error) {
    icl_task *task = NULL;
    icl_batch batch = {0};
    host_batch host = {0};
    double *logits = NULL;
    size_t count = 0;
    icl_status status = ICL_OK;

    ICL_TRY(make_task(overrides, &task, error));
    ICL_TRY(icl_batch_create(task, backend, ICL_FOR_EVALUATION, BATCH, &batch, error));
    ICL_TRY(icl_task_sample(task, backend, ICL_FOR_EVALUATION, SEED, 3, &batch, error));
    ICL_TRY(host_batch_read(&batch, &host, error));
    ICL_TRY(icl_allocate(BATCH * host.scored * task->shape.outputs, sizeof *logits, "logits", &logits, error));
    const icl_shown_sequences shown = {task, BATCH, host.inputs, &batch};
    for (const icl_reference_predictor *one = task->family->references(task); one->name; one++, count++) {
        ICL_TRY(one->predict(one, &shown, logits, error));
        tap_ok(tap, count_wrong_answers(one->name, &host, logits, task->shape.outputs) == 0, "%s: %s", overrides,
               one->name);
    }
    tap_ok(tap, count == 3, "three reference predictors");
done:
    icl_free(&logits);
    host_batch_release(&host);
    icl_batch_release(&batch);
    icl_task_destroy(&task);
    return status;
}

static void check_all(tap_run *tap, icl_backend *backend, icl_backend *cpu) {
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
    icl_error error = {0};

    for (size_t i = 0; i < sizeof laws / sizeof *laws; i++)
        tap_status(tap, check_definition(tap, &laws[i], backend, &error), &error, "sampling runs");
    tap_status(tap, check_references(tap, "task.family=state task.rule=a5", backend, &error), &error, "they run");
    tap_status(tap, check_references(tap, "task.family=state task.rule=s3 task.labels=last", backend, &error), &error,
               "they run");
    tap_status(tap, compare_symbol_batches(tap, "task.family=state task.rule=a5", backend, cpu, &error), &error,
               "sampling runs");
}

int main(int count, char **arguments) {
    return test_beside_cpu(count, arguments, check_all);
}
