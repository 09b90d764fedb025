/* Reference predictors of text see what a model sees: the bytes of a window up to a position, and where the state is
 * carried from window to window, those of the part before it. */
#include "task/text_predictors.h"

#include <math.h>
#include <stdio.h>

#include "core/allocate.h"
#include "task/text.h"

/* The settings of a row: how it predicts, and the order. */
typedef enum text_rule { UNIFORM = 0, COUNTED, LEARNED } text_rule;

typedef struct text_settings {
    text_rule rule;
    size_t order;
} text_settings;

void icl_text_predictors_release(icl_text_predictors *predictors) {
    icl_ngrams_destroy(&predictors->counts);
    for (size_t order = 0; order < ICL_LEARNERS; order++)
        icl_ngrams_destroy(&predictors->learners[order].counts);
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
static icl_status predict_counted(const icl_shown_sequences *shown, size_t number, size_t order, double *outputs,
                                  icl_error *error) {
    const icl_text_state *text = shown->task->state;
    const size_t length = shown->task->shape.positions;
    icl_status status = ICL_OK;
    shown_bytes seen = {0};
    double p[ICL_BYTES];
    uint64_t place;

    ICL_TRY(read_place(shown, number, &place, error));
    ICL_TRY(show(shown, number, place, order, &seen, error));
    for (size_t t = 0; t < length; t++) {
        icl_ngrams_predict(text->predictors.counts, seen.bytes, seen.before + t + 1, order, p);
        write_logs(p, outputs + t * ICL_BYTES);
    }
done:
    icl_free(&seen.bytes);
    return status;
}

/* Makes the learner of an order ready for a window at `place`, and sets how many bytes before it are needed: the
 * context alone if the learner stands there, else all. */
static icl_status prepare_learner(icl_text_learner *learner, size_t order, uint64_t place, size_t *most,
                                  icl_error *error) {
    *most = order;
    if (learner->counts && learner->next == place)
        return ICL_OK;
    *most = SIZE_MAX;
    if (!learner->counts)
        return icl_ngrams_create(order, ICL_MOST_STRINGS, &learner->counts, error);
    icl_ngrams_clear(learner->counts);
    return ICL_OK;
}

/* Predicts by counts of the bytes that were shown before. */
static icl_status predict_learned(const icl_shown_sequences *shown, size_t number, size_t order, double *outputs,
                                  icl_error *error) {
    icl_text_state *text = shown->task->state;
    icl_text_learner *learner = &text->predictors.learners[order];
    const size_t length = shown->task->shape.positions;
    icl_status status = ICL_OK;
    shown_bytes seen = {0};
    double p[ICL_BYTES];
    uint64_t place;
    size_t most;

    ICL_TRY(read_place(shown, number, &place, error));
    ICL_TRY(prepare_learner(learner, order, place, &most, error));
    learner->next = 0; /* unless all goes well */
    ICL_TRY(show(shown, number, place, most, &seen, error));
    for (size_t i = most == order ? seen.before : 0; i < seen.before + length; i++) {
        ICL_TRY(icl_ngrams_add(learner->counts, seen.bytes[i], error));
        if (i < seen.before)
            continue;
        icl_ngrams_predict(learner->counts, seen.bytes, i + 1, order, p);
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
        ICL_CHECK((settings->rule == COUNTED ? predict_counted : predict_learned)(shown, i, settings->order,
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

/* Each byte of the training part ends at most seven new strings. */
static double bytes_of_counts(const icl_reference_predictor *predictor, const icl_task *task) {
    const icl_text_state *state = task->state;
    const double strings = (double)state->training * (ICL_MOST_ORDER + 1), most = (double)ICL_MOST_STRINGS;

    (void)predictor;
    return (strings < most ? strings : most) * (double)ICL_BYTES_OF_A_STRING;
}

static const text_settings uniform = {UNIFORM, 0};
static const text_settings counted[] = {{COUNTED, 0}, {COUNTED, 1}, {COUNTED, 2}, {COUNTED, 3},
                                        {COUNTED, 4}, {COUNTED, 5}, {COUNTED, 6}};
static const text_settings learned[] = {{LEARNED, 0}, {LEARNED, 1}, {LEARNED, 2}, {LEARNED, 3}};

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
        {0}};

    (void)task;
    return rows;
}
