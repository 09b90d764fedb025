/* Choosing the next byte of a text from a model's logits. */
#ifndef ICLAB_RUN_SAMPLER_H
#define ICLAB_RUN_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/utf8.h"

enum { ICL_SAMPLED = 256 }; /* the bytes */

typedef struct icl_sampler {
    double temperature; /* logits are divided by it; 0: the most likely byte */
    uint64_t top_k;     /* only the k most likely bytes; 0: all */
    double top_p;       /* only the fewest bytes whose probabilities sum to this; 1: all */
    /* Only bytes that leave the text valid UTF-8, and characters that end within the bytes that are left. */
    bool keeps_utf8;
    icl_utf8_state text; /* where the text stands */
} icl_sampler;

/* Takes a byte that the text has, such as one of the prompt. A byte that cannot stand in UTF-8 begins the text anew. */
void icl_sampler_take(icl_sampler *sampler, unsigned char byte);

/* Returns the next byte, which it takes, by a random word: bytes in the order of their probabilities (of equal ones, in
 * that of their values) share the words in proportion to these. `left` is the number of bytes that are still to come,
 * this one among them, at least 1. Logits [256] are finite. */
unsigned char icl_sampler_draw(icl_sampler *sampler, const float *logits, uint64_t left, uint32_t word);

#endif
