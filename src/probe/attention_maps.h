/*
 * Where the softmax layers of a sequence model (model.family = sequence) look: the weight of every key for every query.
 *
 *     w_ij = exp(s q_i . k_j) / sum over the keys j' that i may see of exp(s q_i . k_j'),   s = m^(-1/2)
 *
 * with the queries and keys of the model itself, behind norms, filters and rotary positions, and the sums in double
 * precision on the host.
 */
#ifndef ICLAB_PROBE_ATTENTION_MAPS_H
#define ICLAB_PROBE_ATTENTION_MAPS_H

#include "iclab/model.h"

/* The weights of one softmax layer. */
typedef struct icl_attention_map {
    size_t layer, loop;      /* from 0; loop: of model.loops */
    size_t sequences, heads; /* B, H */
    /* Keys stand at all T positions, queries at the last ones: a layer whose other outputs nothing reads asks at the
     * scored positions alone. Query i stands at position keys - queries + i. */
    size_t queries, keys;
    double *weights; /* [B][H][queries][keys]; each row adds up to 1, and a key that is not seen has 0 */
} icl_attention_map;

/* In the order in which the model runs them. Zero to begin with. */
typedef struct icl_attention_maps {
    size_t count, capacity;
    icl_attention_map *maps; /* [count] */
} icl_attention_maps;

/* Runs the model with parameters [N] on inputs [B, T, p], or symbols [B, T], on their backend. Layers with another
 * mixer leave no map. ICL_ERROR_INPUT for other families. Released in any case. */
icl_status icl_attention_maps_measure(const icl_model *model, icl_backend *backend, icl_tensor parameters,
                                      icl_tensor inputs, icl_attention_maps *maps, icl_error *error);
void icl_attention_maps_release(icl_attention_maps *maps);

/* The weight of one key for one query. */
double icl_attention_weight(const icl_attention_map *map, size_t sequence, size_t head, size_t query, size_t key);

#endif
