/*
 * Associative retrieval with overwriting (Schlag, Irie, Schmidhuber 2021, arXiv 2102.11174, section 6.1): values are
 * written under keys one after another, and a query asks for the last value that was written under its key.
 *
 *     S = task.keys;  symbols 0 … S - 1 are keys, S … 2 S - 1 values
 *     positions 0 … 2 L - 1, L = task.writes: key, value, key, value, …
 *     positions 2 L … 2 L + Q - 1, Q = task.queries: a key each, scored by the squared error of S outputs against the
 *     one-hot vector of its value
 *
 * task.draws = distinct (the paper's setting 1): keys and values are each drawn without repeats. repeated (setting 2):
 * both are drawn independently, so that keys come back with other values. task.asked = writes: each query is the key
 * of a write drawn uniformly, so that a key written often is asked often (the paper's training). keys: each key of the
 * sequence is asked once, in the order of their numbers (its evaluation); if there are K < Q of them, the queries left
 * over are key 0 with weight 0, and the others weigh Q / K.
 *
 * The host draws: sequence s owns the words s (2 L + Q) … of the stream: L for keys, L for values, Q for queries. The
 * j-th draw out of n is number floor(word n / 2^32); without repeats n counts the numbers that are left, by a partial
 * Fisher-Yates shuffle.
 */
#include <string.h>

#include "core/allocate.h"
#include "core/recipe_keys.h"
#include "iclab/random.h"
#include "iclab/reference_predictor.h"
#include "task/draws.h"
#include "task/streams.h"
#include "task/task.h"

#define MOST_KEYS 65536 /* a one-hot vector has as many numbers */

typedef enum associative_draws { DRAWS_DISTINCT = 0, DRAWS_REPEATED } associative_draws;
typedef enum associative_asked { ASKED_WRITES = 0, ASKED_KEYS } associative_asked;

/* Recipe keys; members have the keys' names. */
typedef struct associative {
    size_t keys, writes, queries; /* S, L, Q */
    associative_draws draws;
    associative_asked asked;
} associative;

/* ---- The recipe ---- */

#define KEY(field)  ICL_KEY("task", associative, field)
#define NAME(field) ICL_KEY_NAME("task", associative, field)

static const icl_recipe_key own_rows[] = {
    {KEY(keys), "20", 1, MOST_KEYS, .help = "keys, and as many values"},
    {KEY(writes), "20", 1, ICL_MAX_EXTENT, .help = "pairs of a key and a value in a sequence"},
    {KEY(queries), "1", 1, ICL_MAX_EXTENT, .help = "keys that are asked for at the end"},
    {KEY(draws), "distinct",
     .choices = (const icl_choice[]){{"distinct", DRAWS_DISTINCT}, {"repeated", DRAWS_REPEATED}, {0}},
     .help = "keys and values without repeats, or with: then the last value of a key counts"},
    {KEY(asked), "writes", .choices = (const icl_choice[]){{"writes", ASKED_WRITES}, {"keys", ASKED_KEYS}, {0}},
     .help = "the keys of random writes, or each key of the sequence once"},
};
static const icl_recipe_group own_keys = ICL_RECIPE_GROUP(own_rows);
const icl_recipe_group *const icl_associative_keys[] = {&own_keys, NULL};

static icl_status create(const icl_recipe *recipe, icl_task *task, icl_error *error) {
    associative *state = NULL;

    ICL_CHECK(icl_allocate(1, sizeof *state, "associative", &state, error));
    task->state = state;
    icl_recipe_read(recipe, &own_keys, state);
    if (state->draws == DRAWS_DISTINCT && state->writes > state->keys)
        return icl_recipe_reject(recipe, NAME(writes), error, "at most the %zu keys, beside task.draws = distinct",
                                 state->keys);
    task->shape = (icl_task_shape){.positions = 2 * state->writes + state->queries,
                                   .symbols = 2 * state->keys,
                                   .outputs = state->keys,
                                   .first_scored = 2 * state->writes,
                                   .scored = state->queries,
                                   .loss = ICL_LOSS_SQUARED_ERROR};
    return ICL_OK;
}

/* ---- Batches ---- */

/* The workspace of sampling: a batch on the host, and the draws of one sequence. */
typedef struct workspace {
    icl_batch_values batch;
    icl_lots lots;           /* S */
    uint32_t *keys, *values; /* [L]: the draws */
    uint32_t *last;          /* [S]: 1 + the last value of each key; 0: it was not written */
} workspace;

static icl_status workspace_create(const icl_task *task, workspace *w, icl_error *error) {
    const associative *state = task->state;

    ICL_CHECK(icl_lots_create(state->keys, state->writes, &w->lots, error));
    ICL_CHECK(icl_allocate(state->writes, sizeof *w->keys, "draws", &w->keys, error));
    ICL_CHECK(icl_allocate(state->writes, sizeof *w->values, "draws", &w->values, error));
    return icl_allocate(state->keys, sizeof *w->last, "draws", &w->last, error);
}

static void workspace_destroy(workspace *w) {
    icl_lots_destroy(&w->lots);
    icl_free(&w->keys);
    icl_free(&w->values);
    icl_free(&w->last);
}

/* Draws L numbers below S. */
static void draw(const associative *state, workspace *w, icl_random_key key, uint64_t first_word, uint32_t *drawn) {
    if (state->draws == DRAWS_DISTINCT) {
        icl_lots_draw(&w->lots, key, first_word, state->writes, drawn);
        return;
    }
    for (size_t j = 0; j < state->writes; j++)
        drawn[j] = icl_draw_below(key, first_word + j, state->keys);
}

/* Makes query `number` of the batch ask for this key. */
static void ask(const associative *state, const workspace *w, float *query, size_t number, uint32_t key,
                double weight) {
    *query = (float)key;
    w->batch.targets[number * state->keys + w->last[key] - 1] = 1;
    w->batch.weights[number] = (float)weight;
}

static void ask_keys(const associative *state, const workspace *w, float *queries, size_t first) {
    size_t written = 0, asked = 0;

    for (size_t key = 0; key < state->keys; key++)
        written += w->last[key] > 0;
    const size_t most = written < state->queries ? written : state->queries;
    for (size_t key = 0; asked < most; key++)
        if (w->last[key] > 0) {
            ask(state, w, &queries[asked], first + asked, (uint32_t)key, (double)state->queries / (double)most);
            asked++;
        }
}

/* Writes sequence `number` over zeros. */
static void sample_sequence(const icl_task *task, icl_random_key key, size_t number, workspace *w) {
    const associative *state = task->state;
    const size_t writes = state->writes, queries = state->queries;
    const uint64_t first = (uint64_t)number * (2 * writes + queries);
    float *inputs = w->batch.inputs + number * task->shape.positions, *asked = inputs + 2 * writes;

    draw(state, w, key, first, w->keys);
    draw(state, w, key, first + writes, w->values);
    memset(w->last, 0, state->keys * sizeof *w->last);
    for (size_t j = 0; j < writes; j++) {
        inputs[2 * j] = (float)w->keys[j];
        inputs[2 * j + 1] = (float)(state->keys + w->values[j]);
        w->last[w->keys[j]] = 1 + w->values[j];
    }
    if (state->asked == ASKED_KEYS) {
        ask_keys(state, w, asked, number * queries);
        return;
    }
    for (size_t j = 0; j < queries; j++)
        ask(state, w, &asked[j], number * queries + j, w->keys[icl_draw_below(key, first + 2 * writes + j, writes)], 1);
}

static icl_status draw_batch(const icl_task *task, icl_task_purpose purpose, uint32_t seed, uint64_t step,
                             const icl_batch_values *values, icl_error *error) {
    const icl_random_key key = {seed, icl_stream_for(purpose, ICL_ASSOCIATIVE_STREAMS), step};
    workspace w = {.batch = *values};
    icl_status status = ICL_OK;

    ICL_TRY(workspace_create(task, &w, error));
    for (size_t i = 0; i < values->size; i++)
        sample_sequence(task, key, i, &w);
done:
    workspace_destroy(&w);
    return status;
}

/* ---- Reference predictors ---- */

/* The answer of a predictor that tells all keys apart. */
typedef enum recollection { NOTHING, MEAN_VALUE, LAST_VALUE } recollection;

/* Writes, over zeros, the mean or the last of the one-hot vectors that were written under the key, or nothing. */
static void recollect(const associative *state, recollection kind, const float *writes, float key, double *output) {
    double count = 0;

    for (size_t j = 0; j < state->writes && kind != NOTHING; j++) {
        if (writes[2 * j] != key)
            continue;
        if (kind == LAST_VALUE)
            memset(output, 0, state->keys * sizeof *output);
        output[(size_t)writes[2 * j + 1] - state->keys] += 1;
        count++;
    }
    for (size_t k = 0; k < state->keys && kind == MEAN_VALUE && count > 0; k++)
        output[k] /= count;
}

static icl_status predict(const icl_reference_predictor *predictor, const icl_shown_sequences *sequences,
                          double *outputs, icl_error *error) {
    const associative *state = sequences->task->state;
    const size_t positions = sequences->task->shape.positions, queries = state->queries;
    const recollection kind = *(const recollection *)predictor->settings;

    (void)error;
    memset(outputs, 0, sequences->count * queries * state->keys * sizeof *outputs);
    for (size_t i = 0; i < sequences->count * queries; i++) {
        const float *inputs = sequences->inputs + i / queries * positions;
        recollect(state, kind, inputs, inputs[2 * state->writes + i % queries], outputs + i * state->keys);
    }
    return ICL_OK;
}

static const recollection kinds[] = {NOTHING, MEAN_VALUE, LAST_VALUE};
static const icl_reference_predictor own_references[] = {{"zero", &kinds[NOTHING], predict},
                                                         {"mean", &kinds[MEAN_VALUE], predict},
                                                         {"perfect", &kinds[LAST_VALUE], predict},
                                                         {0}};

static const icl_reference_predictor *references(const icl_task *task) {
    (void)task;
    return own_references;
}

const icl_task_family icl_associative = {
    .name = "associative",
    .create = create,
    .destroy = icl_task_free_state,
    .batch_create = icl_symbols_batch_create,
    .draw = draw_batch,
    .references = references,
};
