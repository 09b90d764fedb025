/* Activations of a sequence model (model.family = sequence) on some sequences: the attention weights of its softmax
 * layers, and its residual stream. */
#ifndef ICLAB_PROBE_ACTIVATIONS_H
#define ICLAB_PROBE_ACTIVATIONS_H

#include <stddef.h>

#include "iclab/model.h"
#include "model/sequence/sequence.h"

/* ---- Watching ---- */

/* Runs the model with parameters [N] on inputs on their backend, and passes the tape to `read`, with the watch's
 * `user`; while that runs, the variables that were seen have their values. ICL_ERROR_INPUT for models of another
 * family. */
icl_status icl_watched_run(const icl_model *model, icl_backend *backend, icl_tensor parameters, icl_tensor inputs,
                           const icl_sequence_watch *watch,
                           icl_status (*read)(void *user, const icl_tape *tape, icl_error *error), icl_error *error);

/* ---- Attention ---- */

/*
 * The weight of every key for every query in layers of softmax and fox:
 *
 *     w_ij = exp(s q_i . k_j) / sum over the keys j' that i may see of exp(s q_i . k_j'),   s = m^(-1/2)
 *
 * with the queries and keys of the model itself, behind norms, filters and rotary positions, and the sums in double
 * precision on the host. With fox c_i - c_j stands in the exponent, too, and a sink adds exp(z) to the sum.
 */

/* The weights of one softmax layer. */
typedef struct icl_attention_map {
    size_t layer, loop;      /* layer from 0; loop of model.loops */
    const char *mixer;       /* its word: softmax, or fox */
    size_t sequences, heads; /* B, H */
    /* Keys stand at all T positions and queries at the last ones, because a layer whose other outputs nothing reads
     * asks only at the scored positions. Query i stands at position keys - queries + i. */
    size_t queries, keys;
    double *weights; /* [B][H][queries][keys]; each row sums to 1, or with a sink (model.sinks) to less;
                      * a key that is not seen has 0 */
} icl_attention_map;

/* The maps, in the order in which the model runs the layers. Zero at the beginning. */
typedef struct icl_attention_maps {
    size_t count, capacity;
    icl_attention_map *maps; /* [count] */
} icl_attention_maps;

/* Runs the model with parameters [N] on inputs [B, T, p], or symbols [B, T], on their backend. Layers with another
 * mixer have no map. ICL_ERROR_INPUT for other families. Released in any case. */
icl_status icl_attention_maps_measure(const icl_model *model, icl_backend *backend, icl_tensor parameters,
                                      icl_tensor inputs, icl_attention_maps *maps, icl_error *error);
void icl_attention_maps_release(icl_attention_maps *maps);

/* Returns the weight of one key for one query. */
double icl_attention_weight(const icl_attention_map *map, size_t sequence, size_t head, size_t query, size_t key);

/* ---- The residual stream ---- */

/* The activations after a model's embedding and after each of its layers, at every position. Zero at the beginning. */
typedef struct icl_residual_stream {
    size_t stages; /* the embedding, then each layer, once for every loop */
    size_t tokens; /* rows of a stage: all positions of the first sequence, then those of the second, … */
    size_t width;  /* numbers of a row */
    float *values; /* [stages][tokens][width] */
} icl_residual_stream;

/* Runs the model with parameters [N] on inputs [B, T, p], or symbols [B, T], on their backend. ICL_ERROR_INPUT for
 * models of another family than sequence. Released in any case. */
icl_status icl_residual_stream_read(const icl_model *model, icl_backend *backend, icl_tensor parameters,
                                    icl_tensor inputs, icl_residual_stream *stream, icl_error *error);
void icl_residual_stream_release(icl_residual_stream *stream);

/* Returns the rows of one stage, [tokens][width]. */
const float *icl_residual_stream_stage(const icl_residual_stream *stream, size_t stage);

#endif
