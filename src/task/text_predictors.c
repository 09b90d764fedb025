/* Reference predictors of text see what a model sees: the bytes of a window up to a position, and where the state is
 * carried from window to window, those of the part before it. */
#include "task/text_predictors.h"

#include <math.h>
#include <stdio.h>

#include "core/allocate.h"
#include "task/text.h"

/* The settings of a row: how it predicts, and the order. */
typedef enum text_rule { UNIFORM = 0, COUNTED, LEARNED, WEIGHTED } text_rule;

typedef struct text_settings {
    text_rule rule;
    size_t order;
    size_t learner; /* of rules that learn */
} text_settings;

void icl_text_predictors_release(icl_text_predictors *predictors) {
    icl_ngrams_destroy(&predictors->counts);
    for (size_t i = 0; i < ICL_LEARNERS; i++) {
        icl_ngrams_destroy(&predictors->learners[i].counts);
        icl_trees.destroy(&predictors->learners[i].trees);
    }
}

/* ---- Counts of the training part ---- */

#define BLOCK ((size_t)1 << 20)

static icl_status count_training(icl_text_state *text, icl_error *error) {
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

/* ---- Windows ---- */

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
    const icl_text_state *text = task->state;
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
    const icl_text_state *text = shown->task->state;
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
    const icl_text_state *text = shown->task->state;
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

static icl_status forget(icl_text_learner *learner, const text_settings *settings, icl_error *error) {
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
static icl_status learn(const icl_text_learner *learner, const unsigned char *bytes, size_t i, icl_error *error) {
    return learner->counts ? icl_ngrams_add(learner->counts, bytes[i], error)
                           : icl_trees.add(learner->trees, bytes, i, bytes[i], error);
}

/* Predicts the byte behind `count` bytes. */
static void predict_next(const icl_text_learner *learner, const unsigned char *bytes, size_t count, size_t order,
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
    icl_text_state *text = shown->task->state;
    icl_text_learner *learner = &text->predictors.learners[settings->learner];
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
    const size_t window = shown->task->shape.scored * ICL_BYTES;

    if (settings->rule == UNIFORM)
        return predict_uniform(shown, outputs);
    if (settings->rule == COUNTED)
        ICL_CHECK(count_training(shown->task->state, error));
    for (size_t i = 0; i < shown->count; i++)
        ICL_CHECK((settings->rule == COUNTED ? predict_counted : predict_learned)(shown, i, settings,
                                                                                  outputs + i * window, error));
    return ICL_OK;
}

/* Says of how many bytes the counts are, and what memory they take. */
static void describe(const icl_reference_predictor *predictor, const icl_task *task, char *text, size_t capacity) {
    const icl_text_state *state = task->state;

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
    const icl_text_state *state = task->state;
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
    const icl_text_state *state = task->state;
    const uint64_t shown =
        state->facts.carries ? state->corpus->size - state->training - state->validation : task->shape.positions;
    const double contexts = 256 + (double)shown * 8 * ICL_MOST_ORDER, most = (double)ICL_MOST_CONTEXTS;

    (void)predictor;
    return 2 * (contexts < most ? contexts : most) * (double)ICL_BYTES_OF_A_CONTEXT; /* also while they move */
}

/* Each byte of the training part ends at most seven new strings. */
static double bytes_of_counts(const icl_reference_predictor *predictor, const icl_task *task) {
    const icl_text_state *state = task->state;
    const double strings = (double)state->training * (ICL_MOST_ORDER + 1), most = (double)ICL_MOST_STRINGS;

    (void)predictor;
    return (strings < most ? strings : most) * (double)ICL_BYTES_OF_A_STRING;
}

static const text_settings uniform = {UNIFORM, 0, 0};
static const text_settings counted[] = {{COUNTED, 0, 0}, {COUNTED, 1, 0}, {COUNTED, 2, 0}, {COUNTED, 3, 0},
                                        {COUNTED, 4, 0}, {COUNTED, 5, 0}, {COUNTED, 6, 0}};
static const text_settings learned[] = {{LEARNED, 0, 0}, {LEARNED, 1, 1}, {LEARNED, 2, 2}, {LEARNED, 3, 3}};
static const text_settings weighted = {WEIGHTED, ICL_MOST_ORDER, ICL_LEARNERS - 1};

const icl_reference_predictor *icl_text_references(const icl_task *task) {
    static const icl_reference_predictor rows[] = {
        {.name = "uniform", .settings = &uniform, .predict = predict},
        {.name = "bytes", .settings = &counted[0], .predict = predict, .describe = describe, .bytes = bytes_of_counts},
        {.name = "ngram:1",
         .settings = &counted[1],
         .predict = predict,
         .describe = describe,
         .bytes = bytes_of_counts},
        {.name = "ngram:2",
         .settings = &counted[2],
         .predict = predict,
         .describe = describe,
         .bytes = bytes_of_counts},
        {.name = "ngram:3",
         .settings = &counted[3],
         .predict = predict,
         .describe = describe,
         .bytes = bytes_of_counts},
        {.name = "ngram:4",
         .settings = &counted[4],
         .predict = predict,
         .describe = describe,
         .bytes = bytes_of_counts},
        {.name = "ngram:5",
         .settings = &counted[5],
         .predict = predict,
         .describe = describe,
         .bytes = bytes_of_counts},
        {.name = "ngram:6",
         .settings = &counted[6],
         .predict = predict,
         .describe = describe,
         .bytes = bytes_of_counts},
        {.name = "context:0", .settings = &learned[0], .predict = predict},
        {.name = "context:1", .settings = &learned[1], .predict = predict},
        {.name = "context:2", .settings = &learned[2], .predict = predict},
        {.name = "context:3", .settings = &learned[3], .predict = predict},
        {.name = "ctw", .settings = &weighted, .predict = predict, .describe = describe_trees, .bytes = bytes_of_trees},
        {0}};

    (void)task;
    return rows;
}
