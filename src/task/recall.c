/*
 * Associative recall with many queries (MQAR: Arora et al. 2023, arXiv 2312.04927): a sequence of symbols lists P pairs
 * of a key and its value, and later asks each key once.
 *
 *     V = task.vocabulary, K = V / 2 - 1;  0 is the filler, 1 … K are keys, K + 1 … 2 K values
 *     P = task.pairs distinct keys and P distinct values, in random order
 *     positions 0 … 2 P - 1: key, value, key, value, …
 *     after them each key once more, and filler elsewhere
 *
 * Every position after the pairs is scored by the cross-entropy of V classes: S = T - 2 P of them, of which the P
 * queries have weight S / P and the value of their key as class, the others weight 0 and class 0. So the mean over the
 * scored positions is the mean over the queries.
 *
 * task.gaps places the queries. uniform: all places are equally likely. power:A, the paper's: query j stands 2 g_j
 * after the pairs, the g_j < S / 2 distinct and drawn with probabilities in proportion to (g + 1)^(A - 1), so that
 * short distances are likely. task.filler = random puts any of the V symbols where the filler would be.
 *
 * Reference predictors have the loss of models that did not learn to recall: uniform, over V classes, log V; values,
 * over those of the vocabulary, log K; context, over those of this context, log P and accuracy 1 / P.
 *
 * Sequence s owns the words s * 3 P … of the stream, P for keys, P for values, P for places (draws.h); the filler of
 * its scored position t is floor(w V / 2^32) of word s S + t of a stream of its own. Strict ops draw them. The host
 * draws tasks with near places, which sums of weights in double precision choose.
 */
#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "core/recipe_keys.h"
#include "iclab/random.h"
#include "task/draws.h"
#include "task/streams.h"
#include "task/task.h"

/* task.filler. */
typedef enum recall_filler { FILLER_ZERO = 0, FILLER_RANDOM } recall_filler;

static const icl_task_family near_recall;

typedef struct recall {
    size_t pairs, keys; /* P, K */
    bool near;          /* task.gaps = power:A: the family is near_recall */
    double exponent;    /* A - 1 */
    recall_filler filler;
} recall;

/* ---- The recipe ---- */

typedef struct recall_keys {
    size_t pairs;
    const char *gaps;
    recall_filler filler;
} recall_keys;

#define KEY(field)  ICL_KEY("task", recall_keys, field)
#define NAME(field) ICL_KEY_NAME("task", recall_keys, field)

static const icl_recipe_key own_rows[] = {
    {KEY(pairs), "8", 1, ICL_MAX_EXTENT, .help = "pairs of a key and a value, each of which is asked for once"},
    {KEY(gaps), "uniform",
     .help = "places of the queries: uniform, or power:A: at distance 2 g, g distinct, p ~ (g + 1)^(A - 1)"},
    {KEY(filler), "zero", .choices = (const icl_choice[]){{"zero", FILLER_ZERO}, {"random", FILLER_RANDOM}, {0}},
     .help = "what stands where nothing is asked: symbol 0, or any symbol"},
};
static const icl_recipe_group own_keys = ICL_RECIPE_GROUP(own_rows);
const icl_recipe_group *const icl_recall_keys[] = {&icl_vocabulary_keys, &icl_length_keys, &own_keys, NULL};

/* The largest A: larger ones make near places so rare that the weights of draws cannot tell them apart. */
#define MOST_POWER 10.0

static icl_status read_gaps(const icl_recipe *recipe, const char *text, recall *state, icl_error *error) {
    static const char power[] = "power:";
    double a = 1;
    size_t count = 1;

    state->near = strncmp(text, power, sizeof power - 1) == 0;
    if (state->near
            ? !icl_parse_numbers(text + sizeof power - 1, 1, &a, &count) || count != 1 || a < 0 || a > MOST_POWER
            : strcmp(text, "uniform") != 0)
        return icl_recipe_reject(recipe, NAME(gaps), error, "uniform, or power:A with A from 0 to %g", MOST_POWER);
    state->exponent = a - 1;
    return ICL_OK;
}

static icl_status create(const icl_recipe *recipe, icl_task *task, icl_error *error) {
    const icl_vocabulary size = icl_vocabulary_read(recipe);
    recall_keys settings;
    recall *state = NULL;

    icl_recipe_read(recipe, &own_keys, &settings);
    const size_t symbols = size.vocabulary, length = size.length, pairs = settings.pairs, keys = symbols / 2 - 1;
    recall read = {.pairs = pairs, .keys = keys, .filler = settings.filler};
    ICL_CHECK(read_gaps(recipe, settings.gaps, &read, error));
    if (pairs > keys)
        return icl_recipe_reject(recipe, NAME(pairs), error, "at most the %zu keys of a vocabulary of %zu", keys,
                                 symbols);
    if (length < (read.near ? 4 : 3) * pairs)
        return icl_recipe_reject(recipe, ICL_VOCABULARY_KEY(length), error,
                                 "at least %d x %zu positions for %zu pairs and queries%s", read.near ? 4 : 3, pairs,
                                 pairs, read.near ? " at even distances" : "");
    ICL_CHECK(icl_allocate(1, sizeof *state, "recall", &state, error));
    *state = read;
    if (state->near)
        task->family = &near_recall;
    task->state = state;
    task->shape = (icl_task_shape){.positions = length,
                                   .symbols = symbols,
                                   .outputs = symbols,
                                   .first_scored = 2 * pairs,
                                   .scored = length - 2 * pairs,
                                   .loss = ICL_LOSS_CROSS_ENTROPY};
    return ICL_OK;
}

/* ---- Batches on the host: near places ---- */

/* The workspace of sampling: a batch on the host, and the draws of a sequence. */
typedef struct workspace {
    icl_batch_values batch;
    icl_lots symbols, places;
    uint32_t *drawn; /* [3][P] */
} workspace;

static icl_status workspace_create(const icl_task *task, workspace *w, icl_error *error) {
    const recall *state = task->state;

    ICL_CHECK(icl_lots_create(state->keys, state->pairs, &w->symbols, error));
    ICL_CHECK(icl_lots_create(task->shape.scored / 2, state->pairs, &w->places, error));
    ICL_CHECK(icl_lots_weigh(&w->places, state->exponent, error));
    return icl_allocate(3 * state->pairs, sizeof *w->drawn, "draws", &w->drawn, error);
}

static void workspace_destroy(workspace *w) {
    icl_lots_destroy(&w->symbols);
    icl_lots_destroy(&w->places);
    icl_free(&w->drawn);
}

/* Writes random symbols to all scored positions of sequence `number`; queries are written over them. */
static void fill_randomly(const icl_task *task, icl_random_key key, size_t number, const workspace *w) {
    const icl_task_shape *shape = &task->shape;
    float *scored = w->batch.inputs + number * shape->positions + shape->first_scored;

    for (size_t t = 0; t < shape->scored; t++) {
        const uint64_t word = icl_random_word(key, (uint64_t)number * shape->scored + t);
        scored[t] = (float)(word * shape->symbols >> 32);
    }
}

/* Writes the pairs and queries of sequence `number`. */
static void sample_sequence(const icl_task *task, icl_random_key key, size_t number, workspace *w) {
    const recall *state = task->state;
    const size_t pairs = state->pairs, scored = task->shape.scored;
    const uint32_t *keys = w->drawn, *values = w->drawn + pairs, *queries = w->drawn + 2 * pairs;
    const uint64_t first = (uint64_t)number * 3 * pairs;
    float *inputs = w->batch.inputs + number * task->shape.positions;

    icl_lots_draw(&w->symbols, key, first, pairs, w->drawn);
    icl_lots_draw(&w->symbols, key, first + pairs, pairs, w->drawn + pairs);
    icl_lots_draw(&w->places, key, first + 2 * pairs, pairs, w->drawn + 2 * pairs);
    for (size_t j = 0; j < pairs; j++) {
        const size_t place = 2 * queries[j], at = number * scored + place;
        const float symbol = (float)(1 + keys[j]), value = (float)(1 + state->keys + values[j]);
        inputs[2 * j] = symbol;
        inputs[2 * j + 1] = value;
        inputs[2 * pairs + place] = symbol;
        w->batch.targets[at] = value;
        w->batch.weights[at] = (float)((double)scored / (double)pairs);
    }
}

static icl_status draw_batch(const icl_task *task, icl_task_purpose purpose, uint32_t seed, uint64_t step,
                             const icl_batch_values *values, icl_error *error) {
    const recall *state = task->state;
    const icl_random_key key = {seed, icl_stream_for(purpose, ICL_RECALL_STREAMS), step};
    const icl_random_key filler = {seed, icl_stream_for(purpose, ICL_RECALL_FILLER_STREAMS), step};
    workspace w = {.batch = *values};
    icl_status status = ICL_OK;

    ICL_TRY(workspace_create(task, &w, error));
    for (size_t i = 0; i < values->size; i++) {
        if (state->filler == FILLER_RANDOM)
            fill_randomly(task, filler, i, &w);
        sample_sequence(task, key, i, &w);
    }
done:
    workspace_destroy(&w);
    return status;
}

/* ---- Batches on the device ---- */

/* The tensors in icl_batch.scratch beside those of icl_symbols_batch_create. */
enum { PAIRS = 2 /* [2, B, P]: keys, values */, PLACES /* [B, P] */, WEIGHT /* [1] */ };

static icl_status create_batch(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, size_t size,
                               icl_batch *batch, icl_error *error) {
    const recall *state = task->state;
    const float weight = (float)((double)task->shape.scored / (double)state->pairs);

    ICL_CHECK(icl_symbols_batch_create(task, backend, purpose, size, batch, error));
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){2, size, state->pairs}, &batch->scratch[PAIRS], error));
    ICL_CHECK(icl_tensor_create(backend, 2, (size_t[]){size, state->pairs}, &batch->scratch[PLACES], error));
    ICL_CHECK(icl_tensor_create(backend, 1, (size_t[]){1}, &batch->scratch[WEIGHT], error));
    return icl_fill(backend, batch->scratch[WEIGHT], (double)weight, error);
}

/* Returns keys or values, [B, P]. */
static icl_tensor part_of_pairs(const icl_batch *batch, size_t part) {
    icl_tensor rows = icl_tensor_slice(batch->scratch[PAIRS], 0, part, 1);

    rows.rank = 2;
    for (int axis = 0; axis < 2; axis++) {
        rows.shape[axis] = rows.shape[axis + 1];
        rows.stride[axis] = rows.stride[axis + 1];
    }
    return rows;
}

/* Writes key, value, key, value, … to the first positions. */
static icl_status write_pairs(icl_backend *backend, const recall *state, const icl_batch *batch, icl_error *error) {
    const icl_tensor pairs = icl_tensor_swap_axes(icl_tensor_swap_axes(batch->scratch[PAIRS], 0, 1), 1, 2);
    icl_tensor inputs = icl_tensor_slice(batch->inputs, 1, 0, 2 * state->pairs);

    inputs.rank = 3;
    inputs.shape[1] = state->pairs;
    inputs.shape[2] = 2;
    inputs.stride[2] = inputs.stride[1];
    inputs.stride[1] *= 2;
    return icl_copy(backend, inputs, pairs, error);
}

/* Returns a tensor [B, S, 1] as [B, S]. */
static icl_tensor without_column(icl_tensor scored) {
    scored.rank--;
    return scored;
}

static icl_status fill_scored(const icl_task *task, icl_backend *backend, icl_random_key key, icl_tensor scored,
                              icl_error *error) {
    const icl_distinct_params any = {.key = key, .row_words = 1, .count = (uint32_t)task->shape.symbols};

    if (((const recall *)task->state)->filler == FILLER_ZERO)
        return icl_fill(backend, scored, 0, error);
    scored.shape[2] = 1;
    scored.stride[2] = 1;
    scored.rank = 3;
    return icl_random_distinct(backend, &any, scored, error);
}

static icl_status sample_batch(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, uint32_t seed,
                               uint64_t step, icl_batch *batch, icl_error *error) {
    const recall *state = task->state;
    const size_t pairs = state->pairs;
    const icl_random_key filler = {seed, icl_stream_for(purpose, ICL_RECALL_FILLER_STREAMS), step};
    const icl_tensor keys = part_of_pairs(batch, 0), values = part_of_pairs(batch, 1);
    const icl_tensor places = batch->scratch[PLACES];
    const icl_tensor scored = icl_tensor_slice(batch->inputs, 1, 2 * pairs, task->shape.scored);
    const icl_tensor targets = without_column(batch->targets), weights = without_column(batch->weights);
    icl_distinct_params draws = {.key = {seed, icl_stream_for(purpose, ICL_RECALL_STREAMS), step},
                                 .row_words = 3 * pairs,
                                 .least = 1,
                                 .count = (uint32_t)state->keys};

    ICL_CHECK(icl_random_distinct(backend, &draws, keys, error));
    draws.first_index += pairs;
    draws.least += (uint32_t)state->keys;
    ICL_CHECK(icl_random_distinct(backend, &draws, values, error));
    draws = (icl_distinct_params){draws.key, 2 * pairs, 3 * pairs, 0, (uint32_t)task->shape.scored};
    ICL_CHECK(icl_random_distinct(backend, &draws, places, error));
    ICL_CHECK(write_pairs(backend, state, batch, error));
    ICL_CHECK(fill_scored(task, backend, filler, scored, error));
    ICL_CHECK(icl_fill(backend, targets, 0, error));
    ICL_CHECK(icl_fill(backend, weights, 0, error));
    ICL_CHECK(icl_put(backend, scored, keys, places, error));
    ICL_CHECK(icl_put(backend, targets, values, places, error));
    return icl_put(backend, weights, batch->scratch[WEIGHT], places, error);
}

/* ---- Reference predictors ---- */

/* The classes that a predictor thinks possible, all of them equally likely. */
typedef enum possible { ANY_CLASS = 0, ANY_VALUE, VALUE_OF_CONTEXT } possible;

/* Writes the logits of one position, [V], which are the same at all positions of a sequence. */
static void write_logits(const recall *state, possible which, const float *symbols, size_t classes, double *logits) {
    for (size_t k = 0; k < classes; k++) {
        const bool is_value = k > state->keys && k <= 2 * state->keys;
        logits[k] = which == ANY_CLASS || (which == ANY_VALUE && is_value) ? 0 : (double)-INFINITY;
    }
    for (size_t j = 0; which == VALUE_OF_CONTEXT && j < state->pairs; j++)
        logits[(size_t)symbols[2 * j + 1]] = 0;
}

static icl_status predict(const icl_reference_predictor *predictor, const icl_shown_sequences *shown, double *outputs,
                          icl_error *error) {
    const icl_task_shape *shape = &shown->task->shape;
    const size_t classes = shape->outputs, sequence = shape->scored * classes;

    (void)error;
    for (size_t i = 0; i < shown->count; i++) {
        double *first = outputs + i * sequence;
        write_logits(shown->task->state, *(const possible *)predictor->settings, shown->inputs + i * shape->positions,
                     classes, first);
        for (size_t s = 1; s < shape->scored; s++)
            memcpy(first + s * classes, first, classes * sizeof *first);
    }
    return ICL_OK;
}

static const icl_reference_predictor *references(const icl_task *task) {
    static const possible any_class = ANY_CLASS, any_value = ANY_VALUE, of_context = VALUE_OF_CONTEXT;
    static const icl_reference_predictor chance[] = {{.name = "uniform", .settings = &any_class, .predict = predict},
                                                     {.name = "values", .settings = &any_value, .predict = predict},
                                                     {.name = "context", .settings = &of_context, .predict = predict},
                                                     {0}};

    (void)task;
    return chance;
}

/* Places near the pairs, which are drawn by weights. */
static const icl_task_family near_recall = {
    .name = "recall",
    .create = create,
    .destroy = icl_task_free_state,
    .batch_create = icl_symbols_batch_create,
    .draw = draw_batch,
    .references = references,
};

const icl_task_family icl_recall = {
    .name = "recall",
    .create = create,
    .destroy = icl_task_free_state,
    .batch_create = create_batch,
    .sample = sample_batch,
    .references = references,
};
