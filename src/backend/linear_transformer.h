/* Linear transformers, as all backends share them: the places of the parameters, and the cost of the spaces. */
#ifndef ICLAB_BACKEND_LINEAR_TRANSFORMER_H
#define ICLAB_BACKEND_LINEAR_TRANSFORMER_H

#include <stdbool.h>

#include "iclab/ops_linear_transformer.h"

/* The numbers of parameters of P and of Q of one head. */
typedef struct icl_linear_sizes {
    size_t p, q;
} icl_linear_sizes;

/* Returns these numbers. d is D - 1. */
icl_linear_sizes icl_linear_sizes_of(icl_parameterization parameterization, size_t d);

/* Returns where layer `i` of the `depth` layers in use begins in the parameter vector. The params are complete. */
size_t icl_linear_layer_offset(const icl_linear_transformer_params *params, size_t d, size_t i);

/* Returns whether, in dense forms, the layer before the last two is cheaper if it computes neither its Gram matrix nor
 * its n tokens but is applied to the vectors of the last two. params->space is settled; n is ignored in Gram space. */
bool icl_linear_passes(const icl_linear_transformer_params *params, size_t d, size_t n);

#endif
