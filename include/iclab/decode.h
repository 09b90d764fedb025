/*
 * Decoding: a model's outputs one position at a time, for several sequences at once.
 *
 * What a position leaves for later positions is the state: matrices of a fixed size for the linear mixers of a sequence
 * model, the last inputs of its convolutions, and the keys and values of softmax attention, which grow, or which are
 * those of the last positions (model.window). The outputs are those of icl_model_predict at the same positions, to
 * rounding.
 */
#ifndef ICLAB_DECODE_H
#define ICLAB_DECODE_H

#include "iclab/model.h"

ICL_C_BEGIN

/* A model with its parameters and the states of B sequences. */
typedef struct icl_decoder icl_decoder;

/* Creates a decoder at the first position of `batch` sequences. The model (ICL_MODEL_DECODES), the backend and
 * parameters [N], N = icl_model_size, stay the caller's and must outlive it. ICL_ERROR_INPUT for a model that cannot
 * decode, for no sequences, and for another number of parameters. */
ICL_API icl_status icl_decoder_create(const icl_model *model, icl_backend *backend, icl_tensor parameters, size_t batch,
                                      icl_decoder **decoder, icl_error *error);

/* Destroys the decoder and sets *decoder to NULL; NULL is allowed. */
ICL_API void icl_decoder_destroy(icl_decoder **decoder);

/* Decodes the next position: inputs [B, p], or symbols [B]; outputs [B, q], overwritten. After a failure the state is
 * lost, and further steps are refused until icl_decoder_reset. */
ICL_API icl_status icl_decoder_step(icl_decoder *decoder, icl_tensor inputs, icl_tensor outputs, icl_error *error);

/* Goes back to the first position, for new sequences. */
ICL_API void icl_decoder_reset(icl_decoder *decoder);

/* Returns the number of positions decoded since the last reset. */
ICL_API size_t icl_decoder_position(const icl_decoder *decoder);

/* Returns the bytes that the states of all sequences take on the device, including room for future keys and values; of
 * a window, the bytes of the positions that the next step sees. */
ICL_API size_t icl_decoder_state_bytes(const icl_decoder *decoder);

ICL_C_END

#endif
