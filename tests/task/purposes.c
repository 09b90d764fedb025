/*
 * Training, evaluation and fitting share no number: every stream is of one purpose and one kind of draw, and what
 * varies from batch to batch, in any tensor of any family, differs between purposes.
 */
#include <math.h>

#include "core/allocate.h"
#include "iclab/status.h"
#include "make_task.h"
#include "task/streams.h"
#include "task/task.h"

enum { BATCH = 32, SEED = 3, PURPOSES = 3 };

/* ---- Streams ---- */

static void test_streams(tap_run *tap) {
    static const enum icl_streams firsts[] = {ICL_RECALL_STREAMS,
                                              ICL_RECALL_FILLER_STREAMS,
                                              ICL_STATE_STREAMS,
                                              ICL_ASSOCIATIVE_STREAMS,
                                              ICL_DYNAMICAL_STREAMS,
                                              ICL_CLASSIFICATION_STREAMS,
                                              ICL_CLASSIFICATION_NOISE_STREAMS,
                                              ICL_CLASSIFICATION_FRESH_STREAMS,
                                              ICL_MAD_STREAMS,
                                              ICL_CLASSES_STREAMS,
                                              ICL_CLASSES_INPUT_STREAMS,
                                              ICL_CLASSES_NOISE_STREAMS,
                                              ICL_CLASSES_CHOICE_STREAMS,
                                              ICL_CLASSES_RARE_STREAMS,
                                              ICL_GRAPH_STREAMS,
                                              ICL_COEFFICIENT_STREAMS,
                                              ICL_RADIUS_STREAMS,
                                              ICL_GRAM_STREAMS};
    enum { FIRSTS = sizeof firsts / sizeof *firsts, ONCE = 6 };
    uint32_t streams[PURPOSES * (FIRSTS + ICL_ROLE_COUNT) + ONCE] = {
        ICL_CLASSIFICATION_CENTRES, ICL_CLASSIFICATION_LABELS, ICL_MAD_FACTS_STREAM,
        ICL_CLASSES_NETWORK_STREAM, ICL_CLASSES_POOL_STREAM,   ICL_ROTATION_STREAM};
    size_t count = ONCE, shared = 0;

    for (icl_task_purpose purpose = ICL_FOR_TRAINING; purpose <= ICL_FOR_FITTING; purpose++) {
        for (size_t i = 0; i < FIRSTS; i++)
            streams[count++] = icl_stream_for(purpose, firsts[i]);
        for (icl_task_role role = ICL_ROLE_INPUTS; role < ICL_ROLE_COUNT; role++)
            streams[count++] = icl_task_stream(purpose, role);
    }
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < i; j++)
            shared += streams[i] == streams[j];
    tap_ok(tap, shared == 0, "%zu streams are all different", count);
}

/* ---- Batches ---- */

typedef struct setting {
    const char *overrides;
    bool of_outliers;
} setting;

enum { MOST_TENSORS = 3 + ICL_MAX_SIDES + 8 };

typedef struct numbers {
    float *values[MOST_TENSORS];
    size_t count[MOST_TENSORS];
} numbers;

static icl_status read_tensor(numbers *all, int at, icl_tensor tensor, icl_error *error) {
    if (!tensor.buffer)
        return ICL_OK;
    all->count[at] = icl_tensor_count(&tensor);
    ICL_CHECK(icl_allocate(all->count[at], sizeof(float), "a tensor", &all->values[at], error));
    return icl_tensor_read(tensor, all->values[at], error);
}

/* Every tensor of a batch, the task's own scratch, too. */
static icl_status draw(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, uint64_t step,
                       numbers *all, icl_error *error) {
    icl_batch batch = {{0}};
    icl_status status = ICL_OK;

    ICL_TRY(icl_batch_create(task, backend, purpose, BATCH, &batch, error));
    ICL_TRY(icl_task_sample(task, backend, purpose, SEED, step, &batch, error));
    ICL_TRY(read_tensor(all, 0, batch.inputs, error));
    ICL_TRY(read_tensor(all, 1, batch.targets, error));
    ICL_TRY(read_tensor(all, 2, batch.weights, error));
    for (size_t i = 0; i < batch.side_count; i++)
        ICL_TRY(read_tensor(all, 3 + (int)i, batch.sides[i].tensor, error));
    for (int i = 0; i < 8; i++)
        ICL_TRY(read_tensor(all, 3 + ICL_MAX_SIDES + i, batch.scratch[i], error));
done:
    icl_batch_release(&batch);
    return status;
}

static void release(numbers *all) {
    for (int i = 0; i < MOST_TENSORS; i++)
        icl_free(&all->values[i]);
}

/* By more than a thousandth: where noise outweighs what it is added to, its numbers show. Of outliers, whether there is
 * one. */
static size_t count_different(const setting *is, const numbers *a, const numbers *b, int tensor) {
    size_t different = 0;

    for (size_t i = 0; i < a->count[tensor] && a->count[tensor] == b->count[tensor]; i++) {
        const float x = fabsf(a->values[tensor][i]), y = fabsf(b->values[tensor][i]);
        const float difference = fabsf(a->values[tensor][i] - b->values[tensor][i]);
        different += is->of_outliers ? (x > 1e3F) != (y > 1e3F) : difference > 1e-3F * fmaxf(x, y);
    }
    return different;
}

/* Where batches of one purpose differ in so many numbers, those of two differ in nearly as many. */
static void compare(tap_run *tap, const setting *is, const numbers drawn[PURPOSES], const numbers next[PURPOSES],
                    const char *const names[PURPOSES]) {
    size_t varying = 0;

    for (int a = 1; a < PURPOSES; a++)
        for (int b = 0; b < a; b++)
            for (int tensor = 0; tensor < MOST_TENSORS; tensor++) {
                const size_t usual = count_different(is, &drawn[b], &next[b], tensor);
                if (usual < BATCH || drawn[a].count[tensor] != drawn[b].count[tensor])
                    continue;
                varying++;
                const size_t different = count_different(is, &drawn[a], &drawn[b], tensor);
                if (5 * different < 4 * usual)
                    tap_ok(tap, false, "%s: tensor %d of %s and %s differs in %zu numbers, that of two batches in %zu",
                           is->overrides, tensor, names[a], names[b], different, usual);
            }
    tap_ok(tap, varying > 0, "%s: %zu pairs of tensors have numbers of their own", is->overrides, varying);
}

static icl_status test_family(tap_run *tap, icl_backend *backend, const setting *is, icl_error *error) {
    static const char *const names[PURPOSES] = {"training", "evaluation", "fitting"};
    numbers drawn[PURPOSES] = {{{0}}}, next[PURPOSES] = {{{0}}};
    icl_task *task = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(make_task(is->overrides, &task, error));
    for (int purpose = 0; purpose < PURPOSES; purpose++) {
        ICL_TRY(draw(task, backend, (icl_task_purpose)purpose, 0, &drawn[purpose], error));
        ICL_TRY(draw(task, backend, (icl_task_purpose)purpose, 1, &next[purpose], error));
    }
    compare(tap, is, drawn, next, names);
done:
    for (int purpose = 0; purpose < PURPOSES; purpose++) {
        release(&drawn[purpose]);
        release(&next[purpose]);
    }
    icl_task_destroy(&task);
    return status;
}

static const setting settings[] = {
    {"task.family=linear-regression task.d=4 task.n=6 task.noise=uniform:2", false},
    {"task.family=linear-regression task.d=4 task.n=6 task.inputs=gamma:2,1 task.noise=choice:1,3", false},
    {"task.family=quadratic-regression task.d=3 task.n=9 task.noise=fixed:0.5", false},
    {"task.family=functions task.inputs=sphere task.d=4 task.n=6 task.noise=fixed:1 task.function=relu", false},
    {"task.family=functions task.inputs=sphere task.d=4 task.n=6 task.noise=fixed:1 task.subspace=2", false},
    {"task.family=function-classes task.d=4 task.n=6 task.noise=fixed:1 task.outliers=0.3", false},
    {"task.family=function-classes task.d=1 task.n=6 task.noise=fixed:1e6", false},
    {"task.family=function-classes task.d=1 task.n=6 task.noise=fixed:1 task.outliers=0.5 task.outlier_size=1e6", true},
    {"task.family=recall task.vocabulary=16 task.length=20 task.pairs=4", false},
    {"task.family=state", false},
    {"task.family=associative", false},
    {"task.family=dynamical-system task.process_noise=0.3", false},
    {"task.family=classification", false},
    /* Items of nothing but noise, and fresh centres without any. */
    {"task.family=classification task.label_count=1 task.spread=1e6", false},
    {"task.family=classification task.label_count=1 task.spread=0 task.examples=1 task.burstiness=1 task.fresh=1",
     false},
    {"task.family=mad", false},
    {"task.family=graphs", false},
};

/* Every family has a row. */
static bool has_row(const char *family) {
    char start[128];
    bool found = false;

    snprintf(start, sizeof start, "task.family=%s", family);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        found = found || (strncmp(settings[i].overrides, start, strlen(start)) == 0 &&
                          strchr(" ", settings[i].overrides[strlen(start)]));
    return found;
}

#define WORD(word, family) word,
static const char *const families[] = {ICL_TASK_FAMILIES(WORD)};
#undef WORD

int main(void) {
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, "cpu");
    icl_error error = {0};

    test_streams(&tap);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        tap_ok(&tap, has_row(families[i]), "%s has a row here", families[i]);
    for (size_t i = 0; backend && i < sizeof settings / sizeof *settings; i++)
        if (test_family(&tap, backend, &settings[i], &error) != ICL_OK)
            tap_ok(&tap, false, "%s: %s", settings[i].overrides, error.message);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
