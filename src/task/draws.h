/* Internals of the task room: draws on the host, and batches of symbols that the host writes. */
#ifndef ICLAB_TASK_DRAWS_H
#define ICLAB_TASK_DRAWS_H

#include <stddef.h>
#include <stdint.h>

#include "core/recipe_keys.h"
#include "iclab/random.h"
#include "iclab/status.h"
#include "iclab/task_family.h"

/* ---- Words and lots ---- */

/* Returns one of the numbers 0 … count - 1, count at most 2^32: floor(w count / 2^32) for a word w of 32 bits. */
static inline uint32_t icl_draw_below(icl_random_key key, uint64_t word, uint64_t count) {
    return (uint32_t)(icl_random_word(key, word) * count >> 32);
}

/* A reader of the words of a stream, a block of four at a time. */
typedef struct icl_words {
    icl_random_key key;
    uint64_t next; /* the index of the next word; at first a multiple of four */
    uint32_t block[4];
} icl_words;

static inline uint32_t icl_words_next(icl_words *words) {
    if (words->next % 4 == 0) {
        const uint64_t block = words->next / 4;
        const uint32_t counter[] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)words->key.step,
                                    (uint32_t)(words->key.step >> 32)};
        icl_philox(counter, (const uint32_t[]){words->key.seed, words->key.stream}, words->block);
    }
    return words->block[words->next++ % 4];
}

static inline double icl_words_normal(icl_words *words) {
    return (double)icl_normal_from_word(icl_words_next(words));
}

/* The numbers 0 … count - 1, count at most 2^20, out of which some are drawn. */
typedef struct icl_lots {
    size_t count;
    uint32_t *order, *swapped; /* [count], in order except during a draw; [draws] */
    double *weights, total;    /* [count], whole numbers whose sum is below 2^53; NULL: equally likely */
} icl_lots;

/* Prepares for up to `draws` draws at a time out of `count` numbers. icl_lots_destroy cleans up, also after a
 * failure. */
icl_status icl_lots_create(size_t count, size_t draws, icl_lots *lots, icl_error *error);
void icl_lots_destroy(icl_lots *lots);

/* Makes later draws choose number i, of those that are left, with a probability in proportion to (i + 1)^exponent:
 * rounded to 2^-32 of the largest, so that no library's pow decides a draw, and never 0. */
icl_status icl_lots_weigh(icl_lots *lots, double exponent, icl_error *error);

/* Draws different numbers. The j-th draw takes word first_word + j of the stream, w < 2^32. If all numbers are equally
 * likely, it is number floor(w n / 2^32) of the n that are left, by a partial Fisher-Yates shuffle. With weights it is
 * the first of those that are left, in order, up to which the weights sum to more than w / 2^32 of the whole. */
void icl_lots_draw(icl_lots *lots, icl_random_key key, uint64_t first_word, size_t draws, uint32_t *drawn);

/* Rounds numbers to floats. */
static inline void icl_narrow(const double *words, size_t count, float *to) {
    for (size_t i = 0; i < count; i++)
        to[i] = (float)words[i];
}

/* ---- Batches of symbols ---- */

/* task.vocabulary and task.length, for the families that read them. */
typedef struct icl_vocabulary {
    size_t vocabulary, length;
} icl_vocabulary;

extern const icl_recipe_group icl_vocabulary_keys, icl_length_keys;

/* Reads both. */
icl_vocabulary icl_vocabulary_read(const icl_recipe *recipe);

#define ICL_VOCABULARY_KEY(field) ICL_KEY_NAME("task", icl_vocabulary, field)

/* Makes inputs, targets and weights of an empty batch, as icl_task_family.batch_create does. */
icl_status icl_symbols_batch_create(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, size_t size,
                                    icl_batch *batch, icl_error *error);

/* ---- Batches that the host draws: families with icl_task_family.draw ---- */

/* Memory for the numbers of a batch. */
typedef struct icl_host_batch {
    icl_batch_values values; /* point into memory */
    float *memory;           /* [count] */
    size_t count;
} icl_host_batch;

/* Allocates memory for the numbers of this batch. icl_host_batch_destroy cleans up, also after a failure. */
icl_status icl_host_batch_create(const icl_batch *batch, icl_host_batch *host, icl_error *error);
void icl_host_batch_destroy(icl_host_batch *host);

/* Draws the numbers of a step, whatever the memory held. */
icl_status icl_host_batch_draw(const icl_task *task, icl_task_purpose purpose, uint32_t seed, uint64_t step,
                               icl_host_batch *host, icl_error *error);

/* Writes the numbers to the tensors of the batch that the memory was allocated for. */
icl_status icl_host_batch_write(const icl_host_batch *host, const icl_batch *batch, icl_error *error);

#endif
