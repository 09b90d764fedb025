/*
 * Associative recall with many queries (MQAR: Arora et al. 2023, arXiv 2312.04927): a sequence of symbols lists P pairs
 * of a key and its value, and later asks each key once.
 *
 *     V = task.vocabulary, K = V / 2 - 1;  0 is the filler, 1 … K are keys, K + 1 … 2 K values
 *     P = task.pairs distinct keys and P distinct values, in random order
 *     positions 0 … 2 P - 1: key, value, key, value, …
 *     behind them each key once more at a random place, and filler elsewhere
 *
 * Every position behind the pairs is scored by the cross-entropy of V classes: S = T - 2 P of them, of which the P
 * queries have weight S / P and the value of their key as class, the others weight 0 and class 0. So the mean over the
 * scored positions is the mean over the queries. Whoever knows the values of the context, but not whose they are, gets
 * log P.
 *
 * The paper's places are drawn with probabilities that favour short distances; here all are equally likely.
 *
 * The host draws: sequence s owns the words s * 3 P … of the stream, P for keys, P for values, P for places. The j-th
 * draw takes one of the n that are left, number floor(word n / 2^32), by a partial Fisher-Yates shuffle.
 */
#include <string.h>

#include "core/allocate.h"
#include "core/recipe_keys.h"
#include "iclab/random.h"
#include "task/streams.h"
#include "task/symbols.h"
#include "task/task.h"

#define MOST_SYMBOLS 16777216.0 /* whole numbers that a float holds */

typedef struct recall {
    size_t pairs, keys; /* P, K */
} recall;

/* ---- The recipe ---- */

static const icl_recipe_key own_rows[] = {
    {"task", "vocabulary", ICL_KEY_COUNT, "64", 4, MOST_SYMBOLS,
     .help = "symbols V: a filler, V / 2 - 1 keys and as many values"},
    {"task", "length", ICL_KEY_COUNT, "48", 1, ICL_MAX_EXTENT, .help = "positions of a sequence"},
    {"task", "pairs", ICL_KEY_COUNT, "8", 1, ICL_MAX_EXTENT,
     .help = "pairs of a key and a value, each of which is asked for once"},
};
static const icl_recipe_group own_keys = ICL_RECIPE_GROUP(own_rows);
const icl_recipe_group *const icl_recall_keys[] = {&own_keys, NULL};

static icl_status create(const icl_recipe *recipe, icl_task *task, icl_error *error) {
    const size_t symbols = (size_t)icl_recipe_count(recipe, "task", "vocabulary");
    const size_t length = (size_t)icl_recipe_count(recipe, "task", "length");
    const size_t pairs = (size_t)icl_recipe_count(recipe, "task", "pairs"), keys = symbols / 2 - 1;
    recall *state = NULL;

    if (pairs > keys)
        return icl_recipe_reject(recipe, "task", "pairs", error, "at most the %zu keys of a vocabulary of %zu", keys,
                                 symbols);
    if (length < 3 * pairs)
        return icl_recipe_reject(recipe, "task", "length", error,
                                 "at least 3 x %zu positions for %zu pairs and queries", pairs, pairs);
    ICL_CHECK(icl_allocate(1, sizeof *state, "recall", &state, error));
    *state = (recall){.pairs = pairs, .keys = keys};
    task->state = state;
    task->shape = (icl_task_shape){.positions = length,
                                   .symbols = symbols,
                                   .outputs = symbols,
                                   .first_scored = 2 * pairs,
                                   .scored = length - 2 * pairs,
                                   .loss = ICL_LOSS_CROSS_ENTROPY};
    return ICL_OK;
}

static void destroy(icl_task *task) {
    icl_free(&task->state);
}

/* ---- Batches ---- */

/* Draws without repeats from 0 … count - 1. `order` holds all of them in order, before and after. */
typedef struct lots {
    uint32_t *order;
    size_t count;
    uint32_t *swapped; /* [P] with which place the j-th draw changed its own */
} lots;

static void draw(const lots *from, icl_random_key key, uint64_t first_word, size_t draws, uint32_t *drawn) {
    for (size_t j = 0; j < draws; j++) {
        const uint64_t left = from->count - j;
        const size_t place = j + (size_t)(icl_random_word(key, first_word + j) * left >> 32);
        drawn[j] = from->order[place];
        from->order[place] = from->order[j];
        from->order[j] = drawn[j];
        from->swapped[j] = (uint32_t)place;
    }
    for (size_t j = draws; j-- > 0;) {
        const uint32_t own = from->order[j];
        from->order[j] = from->order[from->swapped[j]];
        from->order[from->swapped[j]] = own;
    }
}

/* What sampling works on: a batch on the host, and the draws of a sequence. */
typedef struct workspace {
    icl_symbols batch;
    uint32_t *order, *swapped, *drawn; /* [max(K, S)], [P], [3][P] */
} workspace;

static icl_status workspace_create(const icl_task *task, size_t size, workspace *w, icl_error *error) {
    const recall *state = task->state;
    const size_t scored = task->shape.scored, most = state->keys > scored ? state->keys : scored;

    ICL_CHECK(icl_symbols_create(task, size, &w->batch, error));
    ICL_CHECK(icl_allocate(most, sizeof *w->order, "draws", &w->order, error));
    ICL_CHECK(icl_allocate(state->pairs, sizeof *w->swapped, "draws", &w->swapped, error));
    ICL_CHECK(icl_allocate(3 * state->pairs, sizeof *w->drawn, "draws", &w->drawn, error));
    for (size_t i = 0; i < most; i++)
        w->order[i] = (uint32_t)i;
    return ICL_OK;
}

static void workspace_destroy(workspace *w) {
    icl_symbols_destroy(&w->batch);
    icl_free(&w->order);
    icl_free(&w->swapped);
    icl_free(&w->drawn);
}

/* Writes sequence `number`; everything is 0 before. */
static void sample_sequence(const icl_task *task, icl_random_key key, size_t number, const workspace *w) {
    const recall *state = task->state;
    const size_t pairs = state->pairs, scored = task->shape.scored;
    const lots symbols = {w->order, state->keys, w->swapped}, places = {w->order, scored, w->swapped};
    const uint32_t *keys = w->drawn, *values = w->drawn + pairs, *queries = w->drawn + 2 * pairs;
    const uint64_t first = (uint64_t)number * 3 * pairs;
    float *inputs = w->batch.inputs + number * task->shape.positions;

    draw(&symbols, key, first, pairs, w->drawn);
    draw(&symbols, key, first + pairs, pairs, w->drawn + pairs);
    draw(&places, key, first + 2 * pairs, pairs, w->drawn + 2 * pairs);
    for (size_t j = 0; j < pairs; j++) {
        const size_t at = number * scored + queries[j];
        const float symbol = (float)(1 + keys[j]), value = (float)(1 + state->keys + values[j]);
        inputs[2 * j] = symbol;
        inputs[2 * j + 1] = value;
        inputs[2 * pairs + queries[j]] = symbol;
        w->batch.targets[at] = value;
        w->batch.weights[at] = (float)((double)scored / (double)pairs);
    }
}

static icl_status sample(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, uint32_t seed,
                         uint64_t step, icl_batch *batch, icl_error *error) {
    const icl_random_key key = {seed, icl_recall_stream(purpose), step};
    workspace w = {0};
    icl_status status = ICL_OK;

    (void)backend;
    ICL_TRY(workspace_create(task, batch->size, &w, error));
    for (size_t i = 0; i < batch->size; i++)
        sample_sequence(task, key, i, &w);
    ICL_TRY(icl_symbols_write(&w.batch, batch, error));
done:
    workspace_destroy(&w);
    return status;
}

const icl_task_family icl_recall = {
    .name = "recall",
    .create = create,
    .destroy = destroy,
    .batch_create = icl_symbols_batch_create,
    .sample = sample,
};
