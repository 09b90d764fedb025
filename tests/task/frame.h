/* A frame for tests of tasks: batches on the host, reference predictors by name, moments in standard errors, and the
 * devices of a test. If a call fails on which the rest depends, it ends the test with its message. */
#ifndef ICLAB_TESTS_TASK_FRAME_H
#define ICLAB_TESTS_TASK_FRAME_H

#include <math.h>
#include <stdint.h>

#include "core/allocate.h"
#include "iclab/loss.h"
#include "iclab/status.h"
#include "iclab/task_family.h"
#include "recipes.h"

/* BOUND: the largest allowed distance of a statistic from its expectation, in standard errors. Draws are a function of
 * the seed, so that the checks cannot flake. */
enum { SEED = 7 };
static const double BOUND = 4.5;

/* ---- Tasks ---- */

/* Makes the task of the default recipe with overrides "task.d=5 task.noise=choice:1,3 …", which are separated by blanks
 * and have none. */
static inline icl_status make_task(const char *overrides, icl_task **task, icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_status status = make_recipe("", overrides, &recipe, error);

    *task = NULL;
    if (status == ICL_OK)
        status = icl_task_create(recipe, task, error);
    icl_recipe_destroy(&recipe);
    return status;
}

/* ---- Batches on the host ---- */

enum { INPUTS, TARGETS, LOSS_WEIGHTS, NOISE, COEFFICIENTS, GRAM, QUERY, TRANSITION, OBSERVATION, SOURCE, PARTS };

/* A task and one of its batches. Tensors that the batch lacks are NULL. */
typedef struct drawn {
    icl_backend *backend; /* borrowed */
    icl_task *task;
    icl_batch batch;
    icl_task_purpose purpose;
    size_t count, length, scored; /* sequences; positions of each, and those with a loss */
    size_t d;                     /* numbers of a token, without the label at its end */
    union {
        struct {
            float *inputs, *targets, *weights, *noise, *coefficients, *gram, *query, *transition, *observation, *source;
        };
        float *values[PARTS];
    };
    size_t sizes[PARTS];
    double *outputs; /* of the last predictor that was asked, [count][scored][outputs] */
} drawn;

static inline void release(drawn *all) {
    for (int part = 0; part < PARTS; part++)
        icl_free(&all->values[part]);
    icl_free(&all->outputs);
    icl_batch_release(&all->batch);
    icl_task_destroy(&all->task);
    *all = (drawn){0};
}

/* Draws the batch of this seed and step, and reads it. */
static inline void draw_step(drawn *all, uint32_t seed, uint64_t step) {
    const icl_batch *batch = &all->batch;

    tap_need(icl_task_sample(all->task, all->backend, all->purpose, seed, step, &all->batch, tap_error()));
    const icl_tensor tensors[PARTS] = {batch->inputs,
                                       batch->targets,
                                       batch->weights,
                                       icl_batch_side(batch, ICL_SIDE_NOISE),
                                       icl_batch_side(batch, ICL_SIDE_COEFFICIENTS),
                                       icl_batch_side(batch, ICL_SIDE_GRAM),
                                       icl_batch_side(batch, ICL_SIDE_QUERY),
                                       icl_batch_side(batch, ICL_SIDE_TRANSITION),
                                       icl_batch_side(batch, ICL_SIDE_OBSERVATION),
                                       icl_batch_side(batch, ICL_SIDE_SOURCE)};
    for (int part = 0; part < PARTS; part++) {
        if (!tensors[part].buffer)
            continue;
        all->sizes[part] = icl_tensor_count(&tensors[part]);
        if (!all->values[part])
            tap_need(icl_allocate(all->sizes[part], sizeof(float), "a tensor", &all->values[part], tap_error()));
        tap_need(icl_tensor_read(tensors[part], all->values[part], tap_error()));
    }
}

/* Makes the task of the overrides and a batch of `count` sequences; releases what `all` held before. */
static inline void open_batch(drawn *all, icl_backend *backend, icl_task_purpose purpose, size_t count,
                              const char *overrides) {
    release(all);
    *all = (drawn){.backend = backend, .purpose = purpose, .count = count};
    tap_need(make_task(overrides, &all->task, tap_error()));
    tap_need(icl_batch_create(all->task, backend, purpose, count, &all->batch, tap_error()));
    all->length = all->task->shape.positions;
    all->scored = all->task->shape.scored;
    all->d = all->task->shape.inputs > 0 ? all->task->shape.inputs - 1 : 0;
}

/* Draws `count` sequences for evaluation from the task whose overrides the format prints. */
ICL_PRINTF(4, 5)
static inline void draw(drawn *all, icl_backend *backend, size_t count, const char *format, ...) {
    char overrides[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(overrides, sizeof overrides, format, arguments);
    va_end(arguments);
    open_batch(all, backend, ICL_FOR_EVALUATION, count, overrides);
    draw_step(all, SEED, 0);
}

/* ---- Regression ---- */

/* Returns input i of sequence s, [d], which the last number of its token follows. */
static inline const float *input_at(const drawn *all, size_t s, size_t i) {
    return all->inputs + (s * all->length + i) * (all->d + 1);
}

/* Returns label i, in layouts with labels one position after their inputs. */
static inline double label_at(const drawn *all, size_t s, size_t i) {
    return (double)input_at(all, s, i + 1)[all->d];
}

static inline double target_at(const drawn *all, size_t s, size_t i) {
    return (double)all->targets[s * all->scored + i];
}

static inline double output_at(const drawn *all, size_t s, size_t i) {
    return all->outputs[s * all->scored + i];
}

static inline double dot(const float *a, const float *b, size_t d) {
    double sum = 0;
    for (size_t j = 0; j < d; j++)
        sum += (double)a[j] * (double)b[j];
    return sum;
}

/* ---- Reference predictors ---- */

/* Asks the predictor of this name; ICL_ERROR_INPUT if the task has none. */
static inline icl_status ask_predictor(drawn *all, const char *name, icl_error *error) {
    const icl_reference_predictor *at = all->task->family->references(all->task);
    const icl_shown_sequences sequences = {all->task, all->count, all->inputs, &all->batch, all->backend};
    const size_t outputs = all->count * all->scored * all->task->shape.outputs;

    while (at->name && strcmp(at->name, name) != 0)
        at++;
    if (!at->name)
        return icl_fail(error, ICL_ERROR_INPUT, "the task has no predictor %s", name);
    if (!all->outputs)
        ICL_CHECK(icl_allocate(outputs, sizeof *all->outputs, "outputs", &all->outputs, error));
    return at->predict(at, &sequences, all->outputs, error);
}

static inline void predict(drawn *all, const char *name) {
    tap_need(ask_predictor(all, name, tap_error()));
}

/* Returns the outputs, which the caller then owns. */
static inline double *take_outputs(drawn *all) {
    double *outputs = all->outputs;
    all->outputs = NULL;
    return outputs;
}

/* Returns whether the task has exactly these predictors, in this order. */
static inline bool has_predictors(const drawn *all, const char *const *names, size_t count) {
    const icl_reference_predictor *at = all->task->family->references(all->task);
    size_t same = 0;

    while (same < count && at[same].name && strcmp(at[same].name, names[same]) == 0)
        same++;
    return same == count && !at[count].name;
}

/* ---- Statistics ---- */

/* Sums of a statistic that has one value for each sequence. */
typedef struct statistic {
    double sum, squares, count;
} statistic;

static inline void add(statistic *seen, double value) {
    seen->sum += value;
    seen->squares += value * value;
    seen->count++;
}

static inline double standard_error(const statistic *seen) {
    const double mean = seen->sum / seen->count, variance = seen->squares / seen->count - mean * mean;
    return sqrt(variance / seen->count + 1e-300);
}

/* Returns the distance of the mean from the expected one, in standard errors. */
static inline double deviation(const statistic *seen, double expected) {
    return fabs(seen->sum / seen->count - expected) / standard_error(seen);
}

/* Returns the largest distance of counts from equal shares, in standard deviations, after `draws` draws of `each` of
 * them without repeats. */
static inline double unevenness(const size_t *counts, size_t count, size_t draws, size_t each) {
    const double p = (double)each / (double)count, mean = (double)draws * p, sigma = sqrt(mean * (1 - p));
    double worst = 0;

    for (size_t i = 0; i < count && sigma > 0; i++)
        worst = fmax(worst, fabs((double)counts[i] - mean) / sigma);
    return worst;
}

static inline statistic loss_at(const drawn *all, size_t i) {
    statistic seen = {0};
    for (size_t s = 0; s < all->count; s++)
        add(&seen, pow(output_at(all, s, i) - target_at(all, s, i), 2));
    return seen;
}

/* ---- Sequences of symbols ---- */

/* Returns whether sequence `number` follows the law; may count what it has drawn. */
typedef bool sequence_check(const drawn *all, size_t number, void *law);

/* Returns how many sequences of `steps` batches do not follow the law. */
static inline size_t count_wrong(icl_backend *backend, icl_task_purpose purpose, size_t count, uint64_t steps,
                                 const char *overrides, sequence_check *check, void *law) {
    drawn all = {0};
    size_t wrong = 0;

    open_batch(&all, backend, purpose, count, overrides);
    for (uint64_t step = 0; step < steps; step++) {
        draw_step(&all, SEED, step);
        for (size_t i = 0; i < count; i++)
            wrong += !check(&all, i, law);
    }
    release(&all);
    return wrong;
}

/* icl_loss_of or icl_loss_accuracy. */
typedef double loss_measure(icl_loss_kind kind, size_t classes, const double *outputs, const double *target);

/* Returns the mean of a measure of the outputs as logits of the target classes, with the weights of the losses. */
static inline double mean_of_classes(const drawn *all, loss_measure *measure) {
    const size_t classes = all->task->shape.outputs;
    double sum = 0;

    for (size_t i = 0; i < all->count * all->scored; i++) {
        const double class = (double)all->targets[i], weight = all->weights ? (double)all->weights[i] : 1;
        sum += weight == 0 ? 0 : weight * measure(ICL_LOSS_CROSS_ENTROPY, classes, all->outputs + i * classes, &class);
    }
    return sum / (double)(all->count * all->scored);
}

/* ---- Checks on devices ---- */

typedef struct task_test {
    tap_run tap;
    icl_backend *device, *cpu; /* the device of the test, and one to compare with */
} task_test;

typedef void task_check(task_test *test);

/* Returns the number of elements whose bits differ, over all parts that either has. */
static inline size_t count_different(const drawn *a, const drawn *b) {
    size_t different = 0;

    for (int part = 0; part < PARTS; part++) {
        if (a->sizes[part] != b->sizes[part])
            different += a->sizes[part] + b->sizes[part];
        for (size_t i = 0; i < a->sizes[part] && a->sizes[part] == b->sizes[part]; i++)
            different += memcmp(&a->values[part][i], &b->values[part][i], sizeof(float)) != 0;
    }
    return different;
}

/* Checks that batches for training have the cpu's bits, in steps beyond 32 bits and out of order: none depends on
 * earlier ones. */
static inline void check_bits(task_test *test, const char *overrides, size_t count, uint64_t steps) {
    drawn ours = {0}, theirs = {0};
    size_t different = 0, numbers = 0;

    open_batch(&ours, test->device, ICL_FOR_TRAINING, count, overrides);
    open_batch(&theirs, test->cpu, ICL_FOR_TRAINING, count, overrides);
    for (uint64_t i = 0; i < steps; i++) {
        const uint64_t step = (steps - 1 - i) + (i % 3 ? 0 : (uint64_t)1 << 33);
        draw_step(&ours, SEED, step);
        draw_step(&theirs, SEED, step);
        different += count_different(&ours, &theirs);
        numbers += ours.sizes[TARGETS];
    }
    tap_ok(&test->tap, different == 0 && numbers > 0, "%s: %d batches have the cpu's bits (%zu numbers differ)",
           overrides, (int)steps, different);
    release(&ours);
    release(&theirs);
}

/* Runs the checks on the device that the test was given, or the cpu; every op must run on the device itself. Returns
 * the process's exit code. */
static inline int run_checks(int argument_count, char **arguments, task_check *const *checks, size_t count) {
    task_test test = {{0}, NULL, NULL};

    test.device = tap_open_device(&test.tap, argument_count > 1 ? arguments[1] : "cpu");
    if (test.device) {
        tap_need(icl_backend_open(&(icl_backend_params){.spec = "cpu"}, &test.cpu, tap_error()));
        for (size_t i = 0; i < count; i++)
            checks[i](&test);
        tap_ok(&test.tap, icl_backend_get_statistics(test.device).fallbacks == 0, "every op ran on the device itself");
    }
    icl_backend_close(&test.cpu);
    icl_backend_close(&test.device);
    return tap_done(&test.tap);
}

#endif
