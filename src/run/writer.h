/* Text that a model writes, byte by byte. */
#ifndef ICLAB_RUN_WRITER_H
#define ICLAB_RUN_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/print.h"
#include "iclab/decode.h"

/* ---- Choosing the next byte from a model's logits ---- */

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

/* ---- Writing ---- */

/* The prompt of a text without one, and the seed of its draws, unless a user says otherwise. */
#define ICL_FIRST_PROMPT "\n"
#define ICL_WRITER_SEED  1

/* A model that goes on with a text. */
typedef struct icl_writer {
    icl_decoder *decoder;
    icl_tensor symbol, logits; /* [1], [1, 256] */
    icl_sampler sampler;       /* the caller's choice; icl_writer_open leaves it as it is */
} icl_writer;

/* The model, of a task on text, the backend and the parameters [N] must outlive it. Close it also after a failure. */
icl_status icl_writer_open(const icl_model *model, icl_backend *backend, icl_tensor parameters, icl_writer *writer,
                           icl_error *error);
void icl_writer_close(icl_writer *writer);

/* Shows the model the next byte of the text. One of a prompt goes to the sampler, too (icl_sampler_take). */
icl_status icl_writer_show(icl_writer *writer, unsigned char byte, icl_error *error);

/* Draws byte number `number`, from 0 on, of `count` that are to come. It is not yet shown to the model. */
icl_status icl_writer_draw(icl_writer *writer, uint32_t seed, uint64_t number, uint64_t count, unsigned char *byte,
                           icl_error *error);

#endif
