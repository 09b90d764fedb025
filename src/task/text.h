/* Internals of the task room: counts of byte strings, and predictions of the next byte from them. */
#ifndef ICLAB_TASK_TEXT_H
#define ICLAB_TASK_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iclab/status.h"

/* The number of bytes, and the largest order: how many bytes before it predict a byte. */
enum { ICL_BYTES = 256, ICL_MOST_ORDER = 6 };

/* The most strings that are counted, and the bytes of memory that they take. */
#define ICL_MOST_STRINGS      ((size_t)1 << 23)
#define ICL_BYTES_OF_A_STRING ((size_t)28)

typedef struct icl_string_node icl_string_node;

/* Counts of the strings of at most order + 1 bytes that a text holds. */
typedef struct icl_ngrams {
    uint64_t counted;       /* bytes that were counted */
    size_t strings;         /* different ones */
    size_t order, most;     /* of icl_ngrams_create; the rest is private */
    icl_string_node *nodes; /* [room]; the first one is the empty string */
    uint32_t *table;        /* [slots], the number of a node; 0: free */
    size_t room, slots;     /* slots, a power of two, are twice as many */
    size_t active;          /* the contexts of the next byte, of 0 … active - 1 bytes */
    uint32_t contexts[ICL_MOST_ORDER + 1];
    bool is_full;
} icl_ngrams;

/* Creates counts of nothing. `most` strings at most are counted, from 1 to ICL_MOST_STRINGS. */
icl_status icl_ngrams_create(size_t order, size_t most, icl_ngrams **ngrams, icl_error *error);
void icl_ngrams_destroy(icl_ngrams **ngrams);

/* Forgets all strings, and what stood last. */
void icl_ngrams_clear(icl_ngrams *ngrams);

/* Counts the strings that end with this byte, after those that came before. Once there is no room for the new strings
 * of another byte, counts nothing more. ICL_ERROR_MEMORY. */
icl_status icl_ngrams_add(icl_ngrams *ngrams, unsigned char byte, icl_error *error);

/*
 * Writes p [256], the probabilities of the byte after a context of `length` bytes, of which the last k, at most
 * `order`, count, by interpolation (Witten, Bell 1991, method C):
 *     p_-1(s) = 1 / 256,   p_k(s) = (c(h s) + t(h) p_(k-1)(s)) / (n(h) + t(h)),   h the last k bytes of the context
 * with c the count of a string, n(h) the sum of c(h s) over s, t(h) the number of different s after h; p_k = p_(k-1)
 * where n(h) = 0.
 */
void icl_ngrams_predict(const icl_ngrams *ngrams, const unsigned char *context, size_t length, size_t order,
                        double p[ICL_BYTES]);

#endif
