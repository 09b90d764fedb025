/* Text that a model writes, byte by byte. */
#ifndef ICLAB_RUN_WRITER_H
#define ICLAB_RUN_WRITER_H

#include "iclab/decode.h"
#include "run/sampler.h"

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
