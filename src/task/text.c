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

static icl_status read_evaluation(const icl_recipe *recipe, const char *word, size_t length, icl_text_state *text,
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
static icl_status divide(const icl_recipe *recipe, const text_keys *keys, size_t length, icl_text_state *text,
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
static void describe(icl_text_state *text, size_t length) {
    const uint64_t bytes = text->corpus->size - text->training - text->validation;

    if (text->facts.carries)
        snprintf(text->evaluation, sizeof text->evaluation,
                 "the last %" PRIu64 " bytes as one sequence, the state carried on", bytes);
    else
        snprintf(text->evaluation, sizeof text->evaluation,
                 "the last %" PRIu64 " bytes in windows of %zu that score %s%zu", bytes, length,
                 text->stride == length ? "all " : "their last ", text->stride);
}

static icl_status set_facts(const text_keys *keys, size_t length, icl_text_state *text, icl_error *error) {
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
    icl_text_state *text = NULL;

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

static void destroy(icl_task *task) {
    icl_text_state *text = task->state;

    if (text) {
        icl_text_predictors_release(&text->predictors);
        icl_corpus_close(&text->corpus);
        icl_free(&text->file);
    }
    icl_free(&task->state);
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
    const icl_text_state *text = task->state;
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
    const icl_text_state *text = task->state;
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
    const icl_text_state *text = task->state;
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

const icl_task_family icl_text_family = {
    .name = "text",
    .create = create,
    .destroy = destroy,
    .batch_create = batch_create,
    .draw = draw_batch,
    .references = icl_text_references,
};
