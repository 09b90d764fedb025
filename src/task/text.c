/*
 * Text: the next byte of a file of one's own, at every position of a window.
 *
 * The symbols are the 256 bytes. With N bytes in all files, n = round(task.test N) at the end are for the final table,
 * the round(task.validation N) before them watch the training, and the rest is the training part. A window of T =
 * task.length positions is T + 1 bytes: each predicts the next one. Windows for training (and for fitting) begin at any
 * byte from which they fit into the training part, all equally likely: sequence i of a batch takes the words 2 i and
 * 2 i + 1 of the stream, as the 64 bits of a fraction of the number of places. No word depends on the device.
 *
 * Held-out parts are cut, not drawn. Bytes are scored once each, in windows that score K at a time, the last K of T
 * (weights 1, others 0); before them stands what the file has there.
 *     task.evaluation = windows    K = T: the first byte of a window is predicted from one byte
 *                       stride:K   each byte is predicted from at least T - K others
 *                       carried    K = T, in order, and the model goes on with the state of the window before
 * Windows come in an order that spreads any first few of them evenly over the part, except if the state is carried:
 * number j is window j g mod W, with g prime to the number W of windows and close to W / 1.618. Those that watch a
 * training are cut as `windows`, from the training part if task.validation = 0.
 */
#include "task/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/recipe_keys.h"
#include "iclab/number.h"
#include "iclab/text.h"
#include "task/draws.h"
#include "task/streams.h"
#include "task/task.h"

/* ---- The state of a task ---- */

/* These learn from the context: n-grams of orders 0 … LEARNERS - 2, and trees of contexts. */
enum { LEARNERS = 5 };

/* Counts or trees of what was shown, up to the byte before place `next`; 0: of something else. */
typedef struct text_learner {
    icl_ngrams *counts;
    icl_byte_trees *trees;
    uint64_t next;
} text_learner;

/* The counts that predictors of a task keep between calls; zero at first. */
typedef struct text_predictors {
    icl_ngrams *counts; /* of the training part, for all orders; NULL: not counted yet */
    text_learner learners[LEARNERS];
} text_predictors;

typedef struct text_state {
    icl_corpus *corpus;
    uint64_t training, validation; /* the bytes of both parts; the rest, to the end, is for the final table */
    size_t stride;                 /* bytes of the final table that a window scores */
    text_predictors predictors;
    icl_task_text facts;
    char *file, evaluation[160]; /* what the facts point to */
} text_state;

/* ---- The recipe ---- */

typedef struct text_keys {
    const char *file, *evaluation;
    double validation, test;
} text_keys;

#define KEY(field)  ICL_KEY("task", text_keys, field)
#define NAME(field) ICL_KEY_NAME("task", text_keys, field)

static const icl_recipe_key own_rows[] = {
    {KEY(file), "", .help = "a file, several with commas between them, or a folder: their bytes, one after the other"},
    {KEY(validation), "0.05", 0, 0.5, .help = "share of the bytes, before those for the test, that watch a training"},
    {KEY(test), "0.05", 0, 0.5, .help = "share of the bytes, at the end, for the final table"},
    {KEY(evaluation), "windows",
     .help = "the bytes for the test in windows, stride:K (windows that score their last K), or carried (one long "
             "sequence)"},
};
static const icl_recipe_default own_defaults[] = {{"task", "length", "128"}, {"eval", "sequences", "4096"}, {0}};
static const icl_recipe_group own_keys = {own_rows, sizeof own_rows / sizeof *own_rows, own_defaults};
const icl_recipe_group *const icl_text_family_keys[] = {&icl_length_keys, &own_keys, NULL};

static icl_status read_evaluation(const icl_recipe *recipe, const char *word, size_t length, text_state *text,
                                  icl_error *error) {
    static const char stride[] = "stride:";
    const char *number = word + sizeof stride - 1;
    uint64_t count = length;

    text->facts.carries = strcmp(word, "carried") == 0;
    if (strncmp(word, stride, sizeof stride - 1) == 0
            ? !icl_parse_count(number, strlen(number), &count) || count < 1 || count > length
            : !text->facts.carries && strcmp(word, "windows") != 0)
        return icl_recipe_reject(recipe, NAME(evaluation), error,
                                 "windows, carried, or stride:K with K from 1 to task.length = %zu", length);
    text->stride = (size_t)count;
    return ICL_OK;
}

static uint64_t count_windows(uint64_t bytes, uint64_t stride) {
    return bytes / stride + (bytes % stride > 0);
}

/* Divides the bytes. Each part that is not empty has at least two windows, so that their mean has a standard error. */
static icl_status divide(const icl_recipe *recipe, const text_keys *keys, size_t length, text_state *text,
                         icl_error *error) {
    const uint64_t all = text->corpus->size, least = (uint64_t)length + 1;
    const uint64_t test = (uint64_t)floor(keys->test * (double)all + 0.5);
    const uint64_t validation = (uint64_t)floor(keys->validation * (double)all + 0.5);

    if (all == 0)
        return icl_recipe_reject(recipe, NAME(file), error, "a file with text in it: that one is empty");
    if (test < least || (keys->validation > 0 && validation < least) || all - test - validation < 2 * least)
        return icl_recipe_reject(recipe, NAME(file), error,
                                 "more text than its %" PRIu64 " bytes: of %" PRIu64 " for training, %" PRIu64
                                 " to watch it and %" PRIu64 " for the test, each needs more than task.length = %zu",
                                 all, all - test - validation, validation, test, length);
    text->training = all - test - validation;
    text->validation = validation;
    text->facts.evaluated = count_windows(test, text->stride);
    text->facts.watched = count_windows(validation > 0 ? validation : text->training - least, length);
    return ICL_OK;
}

/* Says how held-out bytes are cut. */
static void describe(text_state *text, size_t length) {
    const uint64_t bytes = text->corpus->size - text->training - text->validation;

    if (text->facts.carries)
        snprintf(text->evaluation, sizeof text->evaluation,
                 "the last %" PRIu64 " bytes as one sequence, the state carried on", bytes);
    else
        snprintf(text->evaluation, sizeof text->evaluation,
                 "the last %" PRIu64 " bytes in windows of %zu that score %s%zu", bytes, length,
                 text->stride == length ? "all " : "their last ", text->stride);
}

static icl_status set_facts(const text_keys *keys, size_t length, text_state *text, icl_error *error) {
    ICL_CHECK(icl_duplicate(keys->file, &text->file, error));
    describe(text, length);
    text->facts.file = text->file;
    text->facts.evaluation = text->evaluation;
    text->facts.bytes = text->corpus->size;
    text->facts.hash = text->corpus->hash;
    text->facts.is_utf8 = text->corpus->is_utf8;
    return ICL_OK;
}

static icl_task_shape read_shape(const icl_recipe *recipe) {
    icl_vocabulary size;

    icl_recipe_read(recipe, &icl_length_keys, &size);
    return (icl_task_shape){.positions = size.length,
                            .symbols = ICL_BYTES,
                            .outputs = ICL_BYTES,
                            .scored = size.length,
                            .loss = ICL_LOSS_CROSS_ENTROPY};
}

icl_status icl_task_read_text_shape(const icl_recipe *recipe, icl_task_shape *shape, icl_error *error) {
    if (icl_task_keys_read(recipe).family != ICL_AT_icl_text_family)
        return icl_recipe_reject(recipe, ICL_TASK_KEY(family), error, "text");
    *shape = read_shape(recipe);
    return ICL_OK;
}

static icl_status create(const icl_recipe *recipe, icl_task *task, icl_error *error) {
    const icl_task_shape shape = read_shape(recipe);
    text_keys keys;
    text_state *text = NULL;

    icl_recipe_read(recipe, &own_keys, &keys);
    ICL_CHECK(icl_allocate(1, sizeof *text, "text", &text, error));
    task->state = text;
    if (keys.file[0] == '\0')
        return icl_recipe_reject(recipe, NAME(file), error, "a file of text, several with commas, or a folder");
    ICL_CHECK(read_evaluation(recipe, keys.evaluation, shape.positions, text, error));
    ICL_CHECK(icl_corpus_open(keys.file, "task.file", &text->corpus, error));
    ICL_CHECK(divide(recipe, &keys, shape.positions, text, error));
    ICL_CHECK(set_facts(&keys, shape.positions, text, error));
    task->text = &text->facts;
    task->shape = shape;
    return ICL_OK;
}

/* ---- Windows ---- */

/* A window: its T + 1 bytes begin at `place`; the targets from position `first` to before position `end` are scored. */
typedef struct window {
    uint64_t place;
    size_t first, end;
} window;

/* Returns floor(f count), f the fraction of the two words: high 2^-32 + low 2^-64. */
static uint64_t scale(uint32_t high, uint32_t low, uint64_t count) {
    const uint64_t of_high = count >> 32, of_low = count & UINT32_MAX;
    /* count f = (of_high 2^32 + of_low) (high 2^32 + low) / 2^64 */
    const uint64_t middle = of_low * high, other = of_high * low;
    const uint64_t carried = (middle & UINT32_MAX) + (other & UINT32_MAX) + (of_low * low >> 32);

    return of_high * high + (middle >> 32) + (other >> 32) + (carried >> 32);
}

static window draw_window(const icl_task *task, icl_random_key key, uint64_t number) {
    const text_state *text = task->state;
    const size_t length = task->shape.positions;
    const uint32_t high = icl_random_word(key, 2 * number), low = icl_random_word(key, 2 * number + 1);

    return (window){scale(high, low, text->training - length), 0, length};
}

static uint64_t divisor(uint64_t a, uint64_t b) {
    while (b > 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Returns which of `count` windows is number j of those that are spread evenly. */
static uint64_t spread(uint64_t j, uint64_t count) {
    uint64_t step = count / 1618 * 1000 + count % 1618 * 1000 / 1618, at = 0;

    while (step < 1 || divisor(step, count) > 1)
        step++;
    /* j step mod count, by doubling: the product may not fit into 64 bits */
    for (uint64_t bits = j % count, term = step % count; bits > 0; bits >>= 1) {
        at = bits & 1 ? (at + term) % count : at;
        term = (term + term) % count;
    }
    return at;
}

/* Returns window number `number` of the bytes from `begin` to before `end`, which score `stride` bytes each. */
static window cut_window(uint64_t begin, uint64_t end, uint64_t number, size_t stride, size_t length) {
    const uint64_t from = begin + number * stride, to = from + stride < end ? from + stride : end;

    return (window){to - length - 1, length - (size_t)(to - from), length};
}

/* Returns the window that follows those before it, whose state it takes over. */
static window follow_window(uint64_t begin, uint64_t end, uint64_t number, size_t length) {
    const uint64_t from = begin + number * length, left = end - from;

    return (window){from - 1, 0, left < length ? (size_t)left : length};
}

static window find_window(const icl_task *task, icl_task_purpose purpose, icl_random_key key, uint64_t number,
                          size_t batch) {
    const text_state *text = task->state;
    const uint64_t held = text->training + text->validation, all = text->corpus->size;
    const size_t length = task->shape.positions;
    const icl_task_text *facts = &text->facts;

    if (purpose != ICL_FOR_EVALUATION)
        return draw_window(task, key, number);
    if (key.step >= ICL_FIRST_WATCHED_STEP) {
        const uint64_t j = (key.step - ICL_FIRST_WATCHED_STEP) * batch + number;
        return text->validation > 0 ? cut_window(text->training, held, spread(j, facts->watched), length, length)
                                    : cut_window(length + 1, text->training, spread(j, facts->watched), length, length);
    }
    const uint64_t j = key.step * batch + number;
    return facts->carries ? follow_window(held, all, j % facts->evaluated, length)
                          : cut_window(held, all, spread(j, facts->evaluated), text->stride, length);
}

/* ---- Batches ---- */

/* Makes the tensors of batches of symbols, and for evaluation the places of the windows. */
static icl_status batch_create(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, size_t size,
                               icl_batch *batch, icl_error *error) {
    enum { PLACES = 2 }; /* in the scratch, after targets and weights */

    ICL_CHECK(icl_symbols_batch_create(task, backend, purpose, size, batch, error));
    if (purpose != ICL_FOR_EVALUATION)
        return ICL_OK;
    ICL_CHECK(icl_tensor_create(backend, 2, (const size_t[]){size, 2}, &batch->scratch[PLACES], error));
    return icl_batch_add_side(batch, ICL_SIDE_PLACE, batch->scratch[PLACES], error);
}

/* Reads a window as sequence `number` of a batch. Where the file ends before the window does, byte 0 stands. */
static icl_status write_window(const icl_task *task, const window *w, size_t number, unsigned char *bytes,
                               const icl_batch_values *values, icl_error *error) {
    const text_state *text = task->state;
    const size_t length = task->shape.positions;
    const uint64_t left = text->corpus->size - w->place;
    const size_t there = left < length + 1 ? (size_t)left : length + 1;
    float *inputs = values->inputs + number * length, *targets = values->targets + number * length;

    ICL_CHECK(icl_corpus_read(text->corpus, w->place, there, bytes, error));
    memset(bytes + there, 0, length + 1 - there);
    for (size_t t = 0; t < length; t++) {
        inputs[t] = bytes[t];
        targets[t] = bytes[t + 1];
        values->weights[number * length + t] = t >= w->first && t < w->end ? 1 : 0;
    }
    if (values->sides[0]) {
        values->sides[0][2 * number] = (float)(w->place >> 20);
        values->sides[0][2 * number + 1] = (float)(w->place & 0xfffff);
    }
    return ICL_OK;
}

static icl_status draw_batch(const icl_task *task, icl_task_purpose purpose, uint32_t seed, uint64_t step,
                             const icl_batch_values *values, icl_error *error) {
    const icl_random_key key = {seed, icl_stream_for(purpose, ICL_TEXT_STREAMS), step};
    icl_status status = ICL_OK;
    unsigned char *bytes = NULL;

    ICL_TRY(icl_allocate(task->shape.positions + 1, 1, "a window", &bytes, error));
    for (size_t i = 0; i < values->size; i++) {
        const window w = find_window(task, purpose, key, i, values->size);
        ICL_TRY(write_window(task, &w, i, bytes, values, error));
    }
done:
    icl_free(&bytes);
    return status;
}

/* ---- n-grams ---- */

/* A tree of strings: the children of a string are those that are one byte longer. A table of hashes finds a child by
 * its parent and its byte; the children of a string are a list, so that a prediction visits those that were seen. */

/* A string, by its last byte and the string without it. Number 0, the empty string, is nobody's child: as a child it
 * means none. */
struct icl_string_node {
    uint32_t parent, count, first_child, next;
    unsigned char byte;
};

enum { FIRST_ROOM = 1024 };

static size_t slot_of(const icl_ngrams *ngrams, uint32_t parent, unsigned char byte) {
    const uint64_t mixed = ((uint64_t)parent * ICL_BYTES + byte) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(mixed >> 32) & (ngrams->slots - 1);
}

/* Returns the slot that holds the child, or the free one where it belongs. */
static size_t find_slot(const icl_ngrams *ngrams, uint32_t parent, unsigned char byte) {
    size_t slot = slot_of(ngrams, parent, byte);

    for (; ngrams->table[slot] != 0; slot = (slot + 1) & (ngrams->slots - 1)) {
        const icl_string_node *node = &ngrams->nodes[ngrams->table[slot]];
        if (node->parent == parent && node->byte == byte)
            break;
    }
    return slot;
}

/* Gives nodes and table room for `room` strings. */
static icl_status make_room(icl_ngrams *ngrams, size_t room, icl_error *error) {
    icl_string_node *nodes = NULL;
    uint32_t *table = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(room, sizeof *nodes, "counts of n-grams", &nodes, error));
    ICL_TRY(icl_allocate(2 * room, sizeof *table, "counts of n-grams", &table, error));
    if (ngrams->nodes)
        memcpy(nodes, ngrams->nodes, (ngrams->strings + 1) * sizeof *nodes);
    icl_free(&ngrams->nodes);
    icl_free(&ngrams->table);
    ngrams->nodes = nodes;
    ngrams->table = table;
    ngrams->room = room;
    ngrams->slots = 2 * room;
    for (size_t i = 1; i <= ngrams->strings; i++)
        table[find_slot(ngrams, nodes[i].parent, nodes[i].byte)] = (uint32_t)i;
    return ICL_OK;
done:
    icl_free(&nodes);
    icl_free(&table);
    return status;
}

icl_status icl_ngrams_create(size_t order, size_t most, icl_ngrams **ngrams, icl_error *error) {
    icl_status status = ICL_OK;
    icl_ngrams *created = NULL;

    *ngrams = NULL;
    ICL_TRY(icl_allocate(1, sizeof *created, "counts of n-grams", &created, error));
    created->order = order;
    created->most = most;
    ICL_TRY(make_room(created, FIRST_ROOM, error));
    icl_ngrams_clear(created);
    *ngrams = created;
    created = NULL;
done:
    icl_ngrams_destroy(&created);
    return status;
}

void icl_ngrams_destroy(icl_ngrams **ngrams) {
    if (*ngrams) {
        icl_free(&(*ngrams)->nodes);
        icl_free(&(*ngrams)->table);
    }
    icl_free(ngrams);
}

void icl_ngrams_clear(icl_ngrams *ngrams) {
    memset(ngrams->table, 0, ngrams->slots * sizeof *ngrams->table);
    ngrams->nodes[0] = (icl_string_node){0};
    ngrams->contexts[0] = 0;
    ngrams->strings = 0;
    ngrams->active = 1;
    ngrams->counted = 0;
    ngrams->is_full = false;
}

/* Counts a child, and returns its number. There is room for it. */
static uint32_t count_child(icl_ngrams *ngrams, uint32_t parent, unsigned char byte) {
    const size_t slot = find_slot(ngrams, parent, byte);

    if (ngrams->table[slot] == 0) {
        const uint32_t number = (uint32_t)++ngrams->strings;
        ngrams->nodes[number] =
            (icl_string_node){.parent = parent, .next = ngrams->nodes[parent].first_child, .byte = byte};
        ngrams->nodes[parent].first_child = ngrams->table[slot] = number;
    }
    ngrams->nodes[ngrams->table[slot]].count++;
    return ngrams->table[slot];
}

icl_status icl_ngrams_add(icl_ngrams *ngrams, unsigned char byte, icl_error *error) {
    const size_t needed = ngrams->strings + ngrams->order + 1; /* if every string is new */
    uint32_t strings[ICL_MOST_ORDER + 1];

    ngrams->is_full = ngrams->is_full || needed > ngrams->most || ngrams->counted == UINT32_MAX;
    if (ngrams->is_full)
        return ICL_OK;
    if (needed >= ngrams->room)
        ICL_CHECK(make_room(ngrams, 2 * ngrams->room, error));
    for (size_t k = 0; k < ngrams->active; k++)
        strings[k] = count_child(ngrams, ngrams->contexts[k], byte);
    if (ngrams->active <= ngrams->order)
        ngrams->active++;
    memcpy(ngrams->contexts + 1, strings, (ngrams->active - 1) * sizeof *strings);
    ngrams->counted++;
    return ICL_OK;
}

/* Replaces p by the interpolation of what followed the string with it. */
static void interpolate(const icl_ngrams *ngrams, uint32_t string, double p[ICL_BYTES]) {
    const icl_string_node *nodes = ngrams->nodes;
    double sum = 0, different = 0;

    for (uint32_t child = nodes[string].first_child; child != 0; child = nodes[child].next) {
        sum += nodes[child].count;
        different++;
    }
    if (sum == 0)
        return;
    for (size_t s = 0; s < ICL_BYTES; s++)
        p[s] *= different / (sum + different);
    for (uint32_t child = nodes[string].first_child; child != 0; child = nodes[child].next)
        p[nodes[child].byte] += nodes[child].count / (sum + different);
}

/* Finds the string of `length` bytes, or returns false. */
static bool find_string(const icl_ngrams *ngrams, const unsigned char *bytes, size_t length, uint32_t *string) {
    *string = 0;
    for (size_t i = 0; i < length; i++)
        if ((*string = ngrams->table[find_slot(ngrams, *string, bytes[i])]) == 0)
            return false;
    return true;
}

void icl_ngrams_predict(const icl_ngrams *ngrams, const unsigned char *context, size_t length, size_t order,
                        double p[ICL_BYTES]) {
    uint32_t string;

    for (size_t s = 0; s < ICL_BYTES; s++)
        p[s] = 1.0 / ICL_BYTES;
    for (size_t k = 0; k <= order && k <= length; k++)
        if (find_string(ngrams, context + length - k, k, &string))
            interpolate(ngrams, string, p);
}

/* ---- Reference predictors ---- */

/* Reference predictors of text see what a model sees: the bytes of a window up to a position, and where the state is
 * carried from window to window, those of the part before it. */
/* The settings of a row: how it predicts, and the order. */
typedef enum text_rule { UNIFORM = 0, COUNTED, LEARNED, WEIGHTED } text_rule;

typedef struct text_settings {
    text_rule rule;
    size_t order;
    size_t learner; /* of rules that learn */
} text_settings;

static void release_predictors(text_predictors *predictors) {
    icl_ngrams_destroy(&predictors->counts);
    for (size_t i = 0; i < LEARNERS; i++) {
        icl_ngrams_destroy(&predictors->learners[i].counts);
        icl_trees.destroy(&predictors->learners[i].trees);
    }
}

/* ---- Counts of the training part ---- */

#define BLOCK ((size_t)1 << 20)

static icl_status count_training(text_state *text, icl_error *error) {
    icl_status status = ICL_OK;
    icl_ngrams *counts = NULL;
    unsigned char *block = NULL;

    if (text->predictors.counts)
        return ICL_OK;
    ICL_TRY(icl_ngrams_create(ICL_MOST_ORDER, ICL_MOST_STRINGS, &counts, error));
    ICL_TRY(icl_allocate(BLOCK, 1, "a block of text", &block, error));
    for (uint64_t first = 0; first < text->training && counts->counted == first; first += BLOCK) {
        const uint64_t left = text->training - first;
        const size_t count = left < BLOCK ? (size_t)left : BLOCK;
        ICL_TRY(icl_corpus_read(text->corpus, first, count, block, error));
        for (size_t i = 0; i < count; i++)
            ICL_TRY(icl_ngrams_add(counts, block[i], error));
    }
    text->predictors.counts = counts;
    counts = NULL;
done:
    icl_ngrams_destroy(&counts);
    icl_free(&block);
    return status;
}

/* ---- The bytes that predictors see ---- */

/* A window with bytes before it that a predictor sees. */
typedef struct shown_bytes {
    unsigned char *bytes; /* [before + T] */
    size_t before;
} shown_bytes;

/* Returns the place of a window's first byte in the file. */
static icl_status read_place(const icl_shown_sequences *shown, size_t number, uint64_t *place, icl_error *error) {
    const icl_tensor places = icl_batch_side(shown->batch, ICL_SIDE_PLACE);
    float parts[2];

    ICL_CHECK(icl_tensor_read(icl_tensor_slice(places, 0, number, 1), parts, error));
    *place = ((uint64_t)parts[0] << 20) + (uint64_t)parts[1];
    return ICL_OK;
}

/* Returns how many bytes before a window a predictor sees, at most `most`: none, or where the state is carried, those
 * from the first window on. */
static size_t count_before(const icl_task *task, uint64_t place, size_t most) {
    const text_state *text = task->state;
    const uint64_t before = text->facts.carries ? place - (text->training + text->validation - 1) : 0;

    return before < most ? (size_t)before : most;
}

static void write_logs(const double p[ICL_BYTES], double *outputs) {
    for (size_t s = 0; s < ICL_BYTES; s++)
        outputs[s] = log(p[s]);
}

/* Copies the window behind the bytes before it. */
static icl_status show(const icl_shown_sequences *shown, size_t number, uint64_t place, size_t most, shown_bytes *seen,
                       icl_error *error) {
    const text_state *text = shown->task->state;
    const size_t length = shown->task->shape.positions;

    seen->before = count_before(shown->task, place, most);
    ICL_CHECK(icl_allocate(seen->before + length, 1, "a window", &seen->bytes, error));
    if (seen->before > 0)
        ICL_CHECK(icl_corpus_read(text->corpus, place - seen->before, seen->before, seen->bytes, error));
    for (size_t t = 0; t < length; t++)
        seen->bytes[seen->before + t] = (unsigned char)shown->inputs[number * length + t];
    return ICL_OK;
}

static icl_status predict_uniform(const icl_shown_sequences *shown, double *outputs) {
    const icl_task_shape *shape = &shown->task->shape;

    for (size_t i = 0; i < shown->count * shape->scored * shape->outputs; i++)
        outputs[i] = -log(ICL_BYTES);
    return ICL_OK;
}

/* Predicts by the counts of the training part. */
static icl_status predict_counted(const icl_shown_sequences *shown, size_t number, const text_settings *settings,
                                  double *outputs, icl_error *error) {
    const text_state *text = shown->task->state;
    const size_t length = shown->task->shape.positions;
    icl_status status = ICL_OK;
    shown_bytes seen = {0};
    double p[ICL_BYTES];
    uint64_t place;

    ICL_TRY(read_place(shown, number, &place, error));
    ICL_TRY(show(shown, number, place, settings->order, &seen, error));
    for (size_t t = 0; t < length; t++) {
        icl_ngrams_predict(text->predictors.counts, seen.bytes, seen.before + t + 1, settings->order, p);
        write_logs(p, outputs + t * ICL_BYTES);
    }
done:
    icl_free(&seen.bytes);
    return status;
}

/* ---- Learning from the context ---- */

static icl_status forget(text_learner *learner, const text_settings *settings, icl_error *error) {
    if (learner->counts)
        icl_ngrams_clear(learner->counts);
    else if (learner->trees)
        icl_trees.clear(learner->trees);
    else if (settings->rule == LEARNED)
        return icl_ngrams_create(settings->order, ICL_MOST_STRINGS, &learner->counts, error);
    else
        return icl_trees.create(settings->order, ICL_MOST_CONTEXTS, &learner->trees, error);
    return ICL_OK;
}

/* Takes in byte i of those that are seen. */
static icl_status learn(const text_learner *learner, const unsigned char *bytes, size_t i, icl_error *error) {
    return learner->counts ? icl_ngrams_add(learner->counts, bytes[i], error)
                           : icl_trees.add(learner->trees, bytes, i, bytes[i], error);
}

/* Predicts the byte behind `count` bytes. */
static void predict_next(const text_learner *learner, const unsigned char *bytes, size_t count, size_t order,
                         double p[ICL_BYTES]) {
    if (learner->counts)
        icl_ngrams_predict(learner->counts, bytes, count, order, p);
    else
        icl_trees.predict(learner->trees, bytes, count, p);
}

/* Predicts by what was learned from the bytes that were shown before: those of the context, if the learner stands
 * there, else all from the first one on. */
static icl_status predict_learned(const icl_shown_sequences *shown, size_t number, const text_settings *settings,
                                  double *outputs, icl_error *error) {
    text_state *text = shown->task->state;
    text_learner *learner = &text->predictors.learners[settings->learner];
    const size_t length = shown->task->shape.positions;
    icl_status status = ICL_OK;
    shown_bytes seen = {0};
    double p[ICL_BYTES];
    uint64_t place;

    ICL_TRY(read_place(shown, number, &place, error));
    const bool goes_on = learner->next == place && place > 0;
    learner->next = 0; /* unless all goes well */
    if (!goes_on)
        ICL_TRY(forget(learner, settings, error));
    ICL_TRY(show(shown, number, place, goes_on ? settings->order : SIZE_MAX, &seen, error));
    for (size_t i = goes_on ? seen.before : 0; i < seen.before + length; i++) {
        ICL_TRY(learn(learner, seen.bytes, i, error));
        if (i < seen.before)
            continue;
        predict_next(learner, seen.bytes, i + 1, settings->order, p);
        write_logs(p, outputs + (i - seen.before) * ICL_BYTES);
    }
    learner->next = text->facts.carries ? place + length : 0;
done:
    icl_free(&seen.bytes);
    return status;
}

static icl_status predict(const icl_reference_predictor *predictor, const icl_shown_sequences *shown, double *outputs,
                          icl_error *error) {
    const text_settings *settings = predictor->settings;
    const size_t outputs_of_window = shown->task->shape.scored * ICL_BYTES;

    if (settings->rule == UNIFORM)
        return predict_uniform(shown, outputs);
    if (settings->rule == COUNTED)
        ICL_CHECK(count_training(shown->task->state, error));
    for (size_t i = 0; i < shown->count; i++)
        ICL_CHECK((settings->rule == COUNTED ? predict_counted : predict_learned)(
            shown, i, settings, outputs + i * outputs_of_window, error));
    return ICL_OK;
}

/* Says of how many bytes the counts are, and what memory they take. */
static void describe_counts(const icl_reference_predictor *predictor, const icl_task *task, char *text,
                            size_t capacity) {
    const text_state *state = task->state;

    (void)predictor;
    text[0] = '\0';
    if (state->predictors.counts)
        snprintf(text, capacity, "counts of %llu of %llu bytes, %zu strings in at most %zu MiB",
                 (unsigned long long)state->predictors.counts->counted, (unsigned long long)state->training,
                 state->predictors.counts->strings, ICL_MOST_STRINGS * ICL_BYTES_OF_A_STRING >> 20);
}

/* Says how many contexts the trees hold, of what was shown last. */
static void describe_trees(const icl_reference_predictor *predictor, const icl_task *task, char *text,
                           size_t capacity) {
    const text_state *state = task->state;
    const text_settings *settings = predictor->settings;
    const icl_byte_trees *trees = state->predictors.learners[settings->learner].trees;

    text[0] = '\0';
    if (trees)
        snprintf(text, capacity, "trees of contexts of up to %zu bytes, in at most %zu MiB%s", trees->depth,
                 ICL_MOST_CONTEXTS * ICL_BYTES_OF_A_CONTEXT >> 20,
                 trees->contexts + 1 < trees->most ? "" : ", which are full");
}

/* A byte has eight decisions, each of which adds at most a context of each length but 0. */
static double bytes_of_trees(const icl_reference_predictor *predictor, const icl_task *task) {
    const text_state *state = task->state;
    const uint64_t shown =
        state->facts.carries ? state->corpus->size - state->training - state->validation : task->shape.positions;
    const double contexts = 256 + (double)shown * 8 * ICL_MOST_ORDER, most = (double)ICL_MOST_CONTEXTS;

    (void)predictor;
    return 2 * (contexts < most ? contexts : most) * (double)ICL_BYTES_OF_A_CONTEXT; /* also while they move */
}

/* Each byte of the training part ends at most seven new strings. */
static double bytes_of_counts(const icl_reference_predictor *predictor, const icl_task *task) {
    const text_state *state = task->state;
    const double strings = (double)state->training * (ICL_MOST_ORDER + 1), most = (double)ICL_MOST_STRINGS;

    (void)predictor;
    return (strings < most ? strings : most) * (double)ICL_BYTES_OF_A_STRING;
}

static const text_settings uniform = {UNIFORM, 0, 0};
static const text_settings counted[] = {{COUNTED, 0, 0}, {COUNTED, 1, 0}, {COUNTED, 2, 0}, {COUNTED, 3, 0},
                                        {COUNTED, 4, 0}, {COUNTED, 5, 0}, {COUNTED, 6, 0}};
static const text_settings learned[] = {{LEARNED, 0, 0}, {LEARNED, 1, 1}, {LEARNED, 2, 2}, {LEARNED, 3, 3}};
static const text_settings weighted = {WEIGHTED, ICL_MOST_ORDER, LEARNERS - 1};

/* A row of the n-grams of this order, which are counted in the training part. */
#define COUNTED(NAME, ORDER)                                                                                           \
    {                                                                                                                  \
        .name = NAME, .settings = &counted[ORDER], .predict = predict, .describe = describe_counts,                    \
        .bytes = bytes_of_counts                                                                                       \
    }

/* Lists the reference predictors: uniform; bytes and ngram:1 … ngram:6, the interpolated n-grams of the training part,
 * of order 0 to 6; context:0 … context:3, those that know nothing but the bytes before in the window, or in the whole
 * part that the final table reads where the state is carried; ctw, Bayes over trees of contexts of up to ICL_MOST_ORDER
 * bytes, which knows as much as those. */
static const icl_reference_predictor *references(const icl_task *task) {
    static const icl_reference_predictor rows[] = {
        {.name = "uniform", .settings = &uniform, .predict = predict},
        COUNTED("bytes", 0),
        COUNTED("ngram:1", 1),
        COUNTED("ngram:2", 2),
        COUNTED("ngram:3", 3),
        COUNTED("ngram:4", 4),
        COUNTED("ngram:5", 5),
        COUNTED("ngram:6", 6),
        {.name = "context:0", .settings = &learned[0], .predict = predict},
        {.name = "context:1", .settings = &learned[1], .predict = predict},
        {.name = "context:2", .settings = &learned[2], .predict = predict},
        {.name = "context:3", .settings = &learned[3], .predict = predict},
        {.name = "ctw", .settings = &weighted, .predict = predict, .describe = describe_trees, .bytes = bytes_of_trees},
        {0}};

    (void)task;
    return rows;
}

/* ---- The family ---- */

static void destroy(icl_task *task) {
    text_state *text = task->state;

    if (text) {
        release_predictors(&text->predictors);
        icl_corpus_close(&text->corpus);
        icl_free(&text->file);
    }
    icl_free(&task->state);
}

const icl_task_family icl_text_family = {
    .name = "text",
    .create = create,
    .destroy = destroy,
    .batch_create = batch_create,
    .draw = draw_batch,
    .references = references,
};
