/*
 * Classification in context (Reddy 2024, arXiv 2312.03002): pairs of an item and its label, then an item whose label is
 * asked for. The label of a class can be learned in the weights, or read in the context.
 *
 *     K classes with centres mu_c ~ N(0, I / D), L labels with vectors ~ N(0, I / D), D = task.item_size
 *     class c has label c mod L; an item of it is (mu_c + eps eta) / sqrt(1 + eps^2), eta ~ N(0, I / D)
 *     positions 0 … 2 N - 1, N = task.examples: item, label, item, label, …; position 2 N the query, which is scored by
 *     the cross-entropy of L classes
 *     with P = task.places, P coordinates before the D: 1 at o + t at position t, o uniform in 0 … P - 2 N - 1
 *     with task.joined, positions 0 … N - 1 are pairs, 2 D numbers each, and position N is the query beside D zeros
 *
 * A sequence is of one of four kinds; contexts of the first three hold N / B classes, B items each, and the query is of
 * one of them:
 *
 * | kind | share | classes and labels of the context |
 * | --- | --- | --- |
 * | fresh | task.fresh | centres that no other sequence has; different labels, drawn |
 * | relabelled | task.relabelled | different known classes; different labels, drawn |
 * | bursty | task.bursty of the others | different known classes with the labels (c + task.label_shift) mod L |
 * | independent | the rest | N known classes and the query's, each drawn by itself, with the same labels |
 *
 * Known classes are drawn with probabilities in proportion to (c + 1)^(-alpha), alpha = task.frequency_exponent. With
 * task.query = outside an independent sequence has N + 1 different classes, of which the query has the first, so that
 * the context says nothing about it. Pairs stand in random order.
 *
 * A trained model is evaluated on the same task with other shares: in-context learning by fresh = 1 or, for known
 * classes, by bursty = 1 and label_shift = 1; in-weights learning by bursty = 0 and query = outside.
 *
 * Reference predictors: `uniform`; `context`, a label of the context at random; `nearest`, the label of the item
 * nearest to the query; `weights`, the Bayes-optimal answer from the classes and labels, without the context.
 *
 * The host draws. Sequence s owns the words s (3 N + 5) … of the stream: two for its kind, N + 1 for classes, N for
 * labels, N for the order of the pairs, one for the query, one for o. Noise and fresh centres have streams of their
 * own, numbers s (N + 1) D … and s N D …. Centres and label vectors are a function of task.class_seed.
 */
#include "task/parts.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "core/recipe_keys.h"
#include "iclab/random.h"
#include "task/draws.h"
#include "task/streams.h"
#include "task/task.h"

#define MOST_CLASSES 1048576.0 /* what icl_lots draws from */

/* ---- The recipe ---- */

#define KEY(field)  ICL_KEY("task", icl_classification_state, field)
#define NAME(field) ICL_KEY_NAME("task", icl_classification_state, field)

static const icl_recipe_key own_rows[] = {
    {KEY(classes), "512", 1, MOST_CLASSES, .help = "known classes K, each with a centre"},
    {KEY(label_count), "32", 1, MOST_CLASSES, .help = "labels L; class c has label c mod L"},
    {KEY(examples), "8", 1, ICL_MAX_EXTENT, .help = "pairs N of an item and its label"},
    {KEY(item_size), "63", 1, ICL_MAX_EXTENT, .help = "numbers D of an item, and of a label"},
    {KEY(spread), "0.1", 0, 1e6, .help = "noise of an item over the size of its class's centre"},
    {KEY(burstiness), "2", 1, ICL_MAX_EXTENT, .help = "items B of each class of a bursty context, a divisor of N"},
    {KEY(bursty), "1", 0, 1, .help = "share of bursty sequences, of those of known labels"},
    {KEY(fresh), "0", 0, 1, .help = "share of sequences whose classes are their own"},
    {KEY(relabelled), "0", 0, 1, .help = "share of sequences whose labels are their own, of known classes"},
    {KEY(label_shift), "0", 0, MOST_CLASSES, .help = "class c has label (c + shift) mod L"},
    {KEY(frequency_exponent), "0", 0, 10, .help = "p(c) ~ (c + 1)^-alpha of known classes"},
    {KEY(query), "drawn",
     .choices = (const icl_choice[]){{"drawn", ICL_QUERY_DRAWN}, {"outside", ICL_QUERY_OUTSIDE}, {0}},
     .help = "of sequences that are not bursty: any class, or none of the context"},
    {KEY(places), "0", 0, ICL_MAX_EXTENT, .help = "one-hot coordinates of the position, at a random offset; 0: none"},
    {KEY(joined), "false", .help = "a label stands beside its item, at one position, and not behind it"},
    {KEY(class_seed), "1", 0, ICL_MAX_SEED, .help = "which known classes"},
};
static const icl_recipe_group own_keys = ICL_RECIPE_GROUP(own_rows);
const icl_recipe_group *const icl_classification_keys[] = {&own_keys, NULL};

/* Returns the position of the item of pair j, or of the query, j = N; a label behind it is one position later. */
static size_t position_of(const icl_classification_state *state, size_t j) {
    return state->joined ? j : 2 * j;
}

static icl_status check_keys(const icl_recipe *recipe, const icl_classification_state *state, icl_error *error) {
    const size_t in_context = state->examples / state->burstiness;
    const double own_labels = state->fresh + state->relabelled;

    if (state->examples % state->burstiness != 0)
        return icl_recipe_reject(recipe, NAME(burstiness), error, "a divisor of the %zu pairs of task.examples",
                                 state->examples);
    if (own_labels > 1)
        return icl_recipe_reject(recipe, NAME(relabelled), error, "at most the %g that task.fresh leaves",
                                 1 - state->fresh);
    if (own_labels > 0 && in_context > state->label_count)
        return icl_recipe_reject(recipe, NAME(label_count), error, "a label for each of the %zu classes of a context",
                                 in_context);
    if (own_labels < 1 || state->fresh < 1) {
        const bool is_outside = own_labels < 1 && state->bursty < 1 && state->query == ICL_QUERY_OUTSIDE;
        const bool is_independent = state->bursty == 0 && own_labels == 0;
        const size_t least = is_outside ? state->examples + 1 : is_independent ? 1 : in_context;
        if (state->classes < least)
            return icl_recipe_reject(recipe, NAME(classes), error, "at least the %zu classes of a sequence", least);
    }
    const size_t positions = position_of(state, state->examples) + 1;
    if (state->places > 0 && state->places < positions)
        return icl_recipe_reject(recipe, NAME(places), error, "0, or at least the %zu positions of a sequence",
                                 positions);
    return ICL_OK;
}

/* Draws `count` vectors of D numbers N(0, 1 / D), from a stream of the run. */
static icl_status draw_vectors(size_t count, size_t size, icl_random_key key, float **vectors, icl_error *error) {
    const float deviation = (float)(1 / sqrt((double)size));

    ICL_CHECK(icl_allocate(count, size * sizeof **vectors, "classes", vectors, error));
    for (size_t i = 0; i < count * size; i++)
        (*vectors)[i] = deviation * icl_normal_from_word(icl_random_word(key, i));
    return ICL_OK;
}

static icl_status create(const icl_recipe *recipe, icl_task *task, icl_error *error) {
    icl_classification_state *state = NULL;

    ICL_CHECK(icl_allocate(1, sizeof *state, "classification", &state, error));
    task->state = state;
    icl_recipe_read(recipe, &own_keys, state);
    ICL_CHECK(check_keys(recipe, state, error));
    const uint32_t seed = (uint32_t)state->class_seed;
    ICL_CHECK(draw_vectors(state->classes, state->item_size, (icl_random_key){seed, ICL_CLASSIFICATION_CENTRES, 0},
                           &state->centres, error));
    ICL_CHECK(draw_vectors(state->label_count, state->item_size, (icl_random_key){seed, ICL_CLASSIFICATION_LABELS, 0},
                           &state->label_vectors, error));
    const size_t query = position_of(state, state->examples);
    task->shape = (icl_task_shape){.positions = query + 1,
                                   .inputs = state->places + (state->joined ? 2 : 1) * state->item_size,
                                   .outputs = state->label_count,
                                   .first_scored = query,
                                   .scored = 1,
                                   .loss = ICL_LOSS_CROSS_ENTROPY};
    return ICL_OK;
}

static void destroy(icl_task *task) {
    icl_classification_state *state = task->state;

    if (state) {
        icl_free(&state->centres);
        icl_free(&state->label_vectors);
    }
    icl_free(&task->state);
}

/* ---- Sequences ---- */

/* The workspace of sampling: the streams, the draws of one sequence, and the batch. */
typedef struct workspace {
    icl_random_key draws, noise, fresh; /* streams */
    icl_lots classes, labels, order;
    uint32_t *class_of, *label_of, *place_of; /* [N + 1]: the pairs and the query; places: the pairs only */
    icl_batch_values batch;
} workspace;

static icl_status workspace_create(const icl_task *task, workspace *w, icl_error *error) {
    const icl_classification_state *state = task->state;
    const size_t draws = state->examples + 1;

    ICL_CHECK(icl_lots_create(state->classes, draws, &w->classes, error));
    ICL_CHECK(icl_lots_create(state->label_count, draws, &w->labels, error));
    ICL_CHECK(icl_lots_create(state->examples, draws, &w->order, error));
    if (state->frequency_exponent > 0)
        ICL_CHECK(icl_lots_weigh(&w->classes, -state->frequency_exponent, error));
    ICL_CHECK(icl_allocate(draws, sizeof *w->class_of, "draws", &w->class_of, error));
    ICL_CHECK(icl_allocate(draws, sizeof *w->label_of, "draws", &w->label_of, error));
    return icl_allocate(draws, sizeof *w->place_of, "draws", &w->place_of, error);
}

static void workspace_destroy(workspace *w) {
    icl_lots_destroy(&w->classes);
    icl_lots_destroy(&w->labels);
    icl_lots_destroy(&w->order);
    icl_free(&w->class_of);
    icl_free(&w->label_of);
    icl_free(&w->place_of);
}

typedef enum sequence_kind { FRESH, RELABELLED, BURSTY, INDEPENDENT } sequence_kind;

/* Returns whether the word falls into the share [from, from + share) of 2^32. */
static bool falls(uint32_t word, double from, double share) {
    const double place = (double)word * 0x1p-32;
    return place >= from && place < from + share;
}

static sequence_kind draw_kind(const icl_classification_state *state, icl_random_key key, uint64_t first_word) {
    const uint32_t own = icl_random_word(key, first_word);

    if (falls(own, 0, state->fresh))
        return FRESH;
    if (falls(own, state->fresh, state->relabelled))
        return RELABELLED;
    return falls(icl_random_word(key, first_word + 1), 0, state->bursty) ? BURSTY : INDEPENDENT;
}

/* Draws the classes of a context with bursts: pair j has the j / B-th of them, the query the one that a word chooses.
 * Fresh classes are numbered by their place. */
static void draw_bursts(const icl_classification_state *state, sequence_kind kind, uint64_t word, workspace *w) {
    const size_t count = state->examples / state->burstiness;
    const uint64_t labels = word + state->examples + 1, query = labels + 2 * state->examples;
    const size_t asked = icl_draw_below(w->draws, query, count);

    for (size_t i = 0; i < count; i++)
        w->class_of[i] = (uint32_t)i;
    if (kind != FRESH)
        icl_lots_draw(&w->classes, w->draws, word, count, w->class_of);
    if (kind == BURSTY)
        for (size_t i = 0; i < count; i++)
            w->label_of[i] = (uint32_t)((w->class_of[i] + state->label_shift) % state->label_count);
    else
        icl_lots_draw(&w->labels, w->draws, labels, count, w->label_of);
    w->class_of[state->examples] = w->class_of[asked];
    w->label_of[state->examples] = w->label_of[asked];
    for (size_t j = state->examples; j-- > 0;) { /* backwards: what is read stands at or before what is written */
        w->class_of[j] = w->class_of[j / state->burstiness];
        w->label_of[j] = w->label_of[j / state->burstiness];
    }
}

static void draw_independently(const icl_classification_state *state, uint64_t word, workspace *w) {
    if (state->query == ICL_QUERY_OUTSIDE) {
        icl_lots_draw(&w->classes, w->draws, word, state->examples + 1, w->class_of);
        const uint32_t first = w->class_of[0];
        w->class_of[0] = w->class_of[state->examples];
        w->class_of[state->examples] = first;
    }
    for (size_t j = 0; j <= state->examples; j++) {
        if (state->query == ICL_QUERY_DRAWN)
            icl_lots_draw(&w->classes, w->draws, word + j, 1, w->class_of + j);
        w->label_of[j] = (uint32_t)((w->class_of[j] + state->label_shift) % state->label_count);
    }
}

/* Writes an item of the class of pair j, or of the query, to out [D]. */
static void write_item(const icl_classification_state *state, size_t number, size_t j, sequence_kind kind,
                       const workspace *w, float *out) {
    const double norm = sqrt(1 + state->spread * state->spread), deviation = 1 / sqrt((double)state->item_size);
    const float of_centre = (float)(1 / norm), of_noise = (float)(state->spread / norm * deviation);
    const float of_fresh = (float)deviation;
    const uint64_t noise = ((uint64_t)number * (state->examples + 1) + j) * state->item_size;
    const uint64_t own = ((uint64_t)number * state->examples + w->class_of[j]) * state->item_size;

    for (size_t i = 0; i < state->item_size; i++) {
        const float centre = kind == FRESH ? of_fresh * icl_normal_from_word(icl_random_word(w->fresh, own + i))
                                           : state->centres[w->class_of[j] * state->item_size + i];
        out[i] = of_centre * centre;
        if (state->spread > 0)
            out[i] += of_noise * icl_normal_from_word(icl_random_word(w->noise, noise + i));
    }
}

/* Writes sequence `number` over zeros. */
static void sample_sequence(const icl_task *task, size_t number, workspace *w) {
    const icl_classification_state *state = task->state;
    const size_t positions = task->shape.positions, width = task->shape.inputs;
    const uint64_t first_word = (uint64_t)number * (3 * state->examples + 5), word = first_word + 2;
    const uint64_t order = word + 2 * state->examples + 1, place = order + state->examples + 1;
    const sequence_kind kind = draw_kind(state, w->draws, first_word);
    float *inputs = w->batch.inputs + number * positions * width;

    if (kind == INDEPENDENT)
        draw_independently(state, word, w);
    else
        draw_bursts(state, kind, word, w);
    icl_lots_draw(&w->order, w->draws, order, state->examples, w->place_of);
    for (size_t j = 0; j < state->examples; j++) {
        float *pair = inputs + position_of(state, w->place_of[j]) * width + state->places;
        write_item(state, number, j, kind, w, pair);
        memcpy(pair + (state->joined ? state->item_size : width),
               state->label_vectors + w->label_of[j] * state->item_size, state->item_size * sizeof *pair);
    }
    write_item(state, number, state->examples, kind, w, inputs + (positions - 1) * width + state->places);
    w->batch.targets[number] = (float)w->label_of[state->examples];
    if (state->places > 0) {
        const uint64_t offsets = state->places - positions + 1;
        const size_t offset = icl_draw_below(w->draws, place, offsets);
        for (size_t t = 0; t < positions; t++)
            inputs[t * width + offset + t] = 1;
    }
}

static icl_status draw_batch(const icl_task *task, icl_task_purpose purpose, uint32_t seed, uint64_t step,
                             const icl_batch_values *values, icl_error *error) {
    workspace w = {.batch = *values,
                   .draws = {seed, icl_stream_for(purpose, ICL_CLASSIFICATION_STREAMS), step},
                   .noise = {seed, icl_stream_for(purpose, ICL_CLASSIFICATION_NOISE_STREAMS), step},
                   .fresh = {seed, icl_stream_for(purpose, ICL_CLASSIFICATION_FRESH_STREAMS), step}};
    icl_status status = ICL_OK;

    ICL_TRY(workspace_create(task, &w, error));
    for (size_t i = 0; i < values->size; i++)
        sample_sequence(task, i, &w);
done:
    workspace_destroy(&w);
    return status;
}

/* ---- Reference predictors ---- */

/* ---- The items and labels of a context ---- */

/* Returns the item of pair j, or of the query, j = N. */
static const float *item_at(const icl_task *task, const float *inputs, size_t j) {
    const icl_classification_state *state = task->state;
    return inputs + position_of(state, j) * task->shape.inputs + state->places;
}

/* Returns the number of the label of pair j, found by its vector. */
static size_t label_at(const icl_task *task, const float *inputs, size_t j) {
    const icl_classification_state *state = task->state;
    const float *vector = item_at(task, inputs, j) + (state->joined ? state->item_size : task->shape.inputs);
    size_t label = 0;

    while (label + 1 < state->label_count &&
           memcmp(vector, state->label_vectors + label * state->item_size, state->item_size * sizeof *vector) != 0)
        label++;
    return label;
}

static double square_distance(const float *a, double scale, const float *b, size_t size) {
    double sum = 0;
    for (size_t i = 0; i < size; i++) {
        const double difference = scale * (double)a[i] - (double)b[i];
        sum += difference * difference;
    }
    return sum;
}

/* ---- The predictors: logits [L] of one sequence ---- */

static void answer_uniform(const icl_task *task, const float *inputs, double *logits) {
    const icl_classification_state *state = task->state;

    (void)inputs;
    for (size_t l = 0; l < state->label_count; l++)
        logits[l] = 0;
}

/* Holds a label to be as likely as it is frequent in the context. */
static void answer_context(const icl_task *task, const float *inputs, double *logits) {
    const icl_classification_state *state = task->state;

    memset(logits, 0, state->label_count * sizeof *logits);
    for (size_t j = 0; j < state->examples; j++)
        logits[label_at(task, inputs, j)]++;
    for (size_t l = 0; l < state->label_count; l++)
        logits[l] = log(logits[l]);
}

/* Holds the label of the closest item to be e times as likely as any other. */
static void answer_nearest(const icl_task *task, const float *inputs, double *logits) {
    const icl_classification_state *state = task->state;
    const float *query = item_at(task, inputs, state->examples);
    double least = (double)INFINITY;
    size_t nearest = 0;

    for (size_t j = 0; j < state->examples; j++) {
        const double distance = square_distance(query, 1, item_at(task, inputs, j), state->item_size);
        if (distance < least) {
            least = distance;
            nearest = j;
        }
    }
    memset(logits, 0, state->label_count * sizeof *logits);
    logits[label_at(task, inputs, nearest)] = 1;
}

/* Answers with log p(l | x) of the query x, an item of a known class. Up to a constant it is the log of the sum over
 * the classes with label l of (c + 1)^(-alpha) exp(-D |sqrt(1 + eps^2) x - mu_c|^2 / (2 eps^2)). An eps below 1e-6
 * counts as 1e-6, which is as close as floats hold an item to its centre. */
static void answer_from_weights(const icl_task *task, const float *inputs, double *logits) {
    const icl_classification_state *state = task->state;
    const float *query = item_at(task, inputs, state->examples);
    const double eps = state->spread > 1e-6 ? state->spread : 1e-6, scale = sqrt(1 + state->spread * state->spread);

    assert(state->label_count > 0);
    for (size_t l = 0; l < state->label_count; l++)
        logits[l] = -(double)INFINITY;
    for (size_t c = 0; c < state->classes; c++) {
        const double distance = square_distance(query, scale, state->centres + c * state->item_size, state->item_size);
        const double log_share = -state->frequency_exponent * log((double)(c + 1));
        const double now = log_share - (double)state->item_size * distance / (2 * eps * eps);
        double *sum = &logits[c % state->label_count];
        const double larger = fmax(*sum, now), smaller = fmin(*sum, now);
        *sum = larger + log(1 + exp(smaller - larger));
    }
}

typedef struct answer {
    void (*give)(const icl_task *task, const float *inputs, double *logits);
} answer;

static void predict_one(const icl_task *task, const void *settings, size_t number, const float *inputs, double *work,
                        double *outputs) {
    (void)number;
    (void)work;
    ((const answer *)settings)->give(task, inputs, outputs);
}

static icl_status predict(const icl_reference_predictor *predictor, const icl_shown_sequences *shown, double *outputs,
                          icl_error *error) {
    return icl_task_for_each(shown->task, predict_one, predictor->settings, 0, shown->count, shown->inputs, outputs,
                             error);
}

static const icl_reference_predictor *references(const icl_task *task) {
    static const answer uniform = {answer_uniform}, context = {answer_context}, nearest = {answer_nearest},
                        weights = {answer_from_weights};
    static const icl_reference_predictor all[] = {{"uniform", &uniform, predict},
                                                  {"context", &context, predict},
                                                  {"nearest", &nearest, predict},
                                                  {"weights", &weights, predict},
                                                  {0}};

    (void)task;
    return all;
}

const icl_task_family icl_classification = {
    .name = "classification",
    .create = create,
    .destroy = destroy,
    .draw = draw_batch,
    .references = references,
};
