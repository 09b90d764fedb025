/* Pairs of keys and values, one after another, for the tasks of recall of the family mad. */
#include "task/mad.h"

#include <string.h>

#include "task/draws.h"

size_t icl_mad_draw(icl_mad_words *words, size_t count) {
    return icl_draw_below(words->key, words->next++, count);
}

/* One of the numbers below `of` that are not among the `count` that `sorted` has in ascending order: number r of those
 * that are left is r, and one more for each before it that is not. It becomes one of them. */
static uint32_t draw_other(icl_mad_words *words, size_t of, size_t count, uint32_t *sorted) {
    uint32_t number = (uint32_t)icl_mad_draw(words, of - count);
    size_t at = 0;

    for (; at < count && sorted[at] <= number; at++)
        number++;
    memmove(sorted + at + 1, sorted + at, (count - at) * sizeof *sorted);
    return sorted[at] = number;
}

void icl_mad_places(icl_mad_words *words, size_t of, size_t count, uint32_t *places) {
    for (size_t j = 0; j < count; j++)
        (void)draw_other(words, of, j, places);
}

/* `size` distinct numbers below `count` in random order. */
static void draw_motif(icl_mad_words *words, size_t count, size_t size, uint32_t *motif) {
    uint32_t sorted[ICL_MAD_MOST_MOTIF];

    for (size_t j = 0; j < size; j++)
        motif[j] = draw_other(words, count, j, sorted);
}

static void put(icl_mad_context *context, const uint32_t *numbers, size_t first_symbol, size_t count, bool asked) {
    for (size_t i = 0; i < count; i++) {
        context->tokens[context->used] = (uint32_t)(first_symbol + numbers[i]);
        context->asked[context->used++] = asked;
    }
}

static void put_pair(const icl_mad *task, const icl_mad_pair *pair, bool known, icl_mad_context *context) {
    put(context, pair->key, 0, pair->key_size, false);
    put(context, pair->value, task->first_asked, pair->value_size, known);
}

static size_t find(const icl_mad_context *context, const icl_mad_pair *pair) {
    size_t i = 0;
    while (i < context->pairs && (context->shown[i].key_size != pair->key_size ||
                                  memcmp(context->shown[i].key, pair->key, pair->key_size * sizeof *pair->key) != 0))
        i++;
    return i;
}

/* A key, and its value: a new one for a new key. */
static void draw_pair(const icl_mad *task, size_t key_size, size_t value_size, icl_mad_words *words,
                      icl_mad_context *context) {
    icl_mad_pair pair = {.key_size = key_size, .value_size = value_size};

    draw_motif(words, task->keys, key_size, pair.key);
    const size_t place = find(context, &pair);
    const bool known = place < context->pairs;
    if (!known) {
        draw_motif(words, task->asked, value_size, pair.value);
        context->shown[context->pairs++] = pair;
    }
    put_pair(task, &context->shown[place], known, context);
}

/* Moves the tokens to the end, behind padding. */
static void pad(const icl_mad *task, icl_mad_context *context) {
    const size_t padding = task->length - context->used;

    memmove(context->tokens + padding, context->tokens, context->used * sizeof *context->tokens);
    memmove(context->asked + padding, context->asked, context->used * sizeof *context->asked);
    for (size_t t = 0; t < padding; t++) {
        context->tokens[t] = (uint32_t)task->symbols - 1;
        context->asked[t] = false;
    }
}

void icl_mad_recall(const icl_mad *task, bool evaluation, icl_mad_words *words, icl_mad_context *context) {
    const size_t pair = 2 * task->motif, noise = task->first_asked + task->asked;

    context->used = context->pairs = 0;
    while (context->used + 2 * pair <= task->length) {
        const bool is_last = context->used + 3 * pair > task->length;
        const bool must_show = is_last && context->pairs == 0;
        const bool is_noise = icl_random_word(words->key, words->next++) < task->noise_below && !must_show;
        const size_t key_size = evaluation ? task->motif : 1 + icl_mad_draw(words, task->motif);
        const size_t value_size = 1 + icl_mad_draw(words, task->motif);
        if (!is_noise)
            draw_pair(task, key_size, value_size, words, context);
        for (size_t i = 0; is_noise && i < key_size + value_size; i++) {
            const uint32_t symbol = (uint32_t)icl_mad_draw(words, task->noise_symbols);
            put(context, &symbol, noise, 1, false);
        }
    }
    put_pair(task, &context->shown[icl_mad_draw(words, context->pairs)], true, context);
    pad(task, context);
}
