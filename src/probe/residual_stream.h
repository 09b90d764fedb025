/*
 * The residual stream of a model on some sequences: what stands behind its embedding and behind each of its layers, at
 * every position.
 */
#ifndef ICLAB_PROBE_RESIDUAL_STREAM_H
#define ICLAB_PROBE_RESIDUAL_STREAM_H

#include <stddef.h>

#include "iclab/model.h"

/* Zero to begin with. */
typedef struct icl_residual_stream {
    size_t stages; /* the embedding, then each layer, once more for every further loop */
    size_t tokens; /* rows of a stage: all positions of the first sequence, then those of the second, … */
    size_t width;  /* numbers of a row */
    float *values; /* [stages][tokens][width] */
} icl_residual_stream;

/* Runs the model with parameters [N] on inputs [B, T, p], or symbols [B, T], on their backend. ICL_ERROR_INPUT for
 * models of another family than sequence. Released in any case. */
icl_status icl_residual_stream_read(const icl_model *model, icl_backend *backend, icl_tensor parameters,
                                    icl_tensor inputs, icl_residual_stream *stream, icl_error *error);
void icl_residual_stream_release(icl_residual_stream *stream);

/* The rows of one stage, [tokens][width]. */
const float *icl_residual_stream_stage(const icl_residual_stream *stream, size_t stage);

#endif
