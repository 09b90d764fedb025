/* Linear transformers, as all backends share them: the places of the parameters, and the cost of the spaces. */
#ifndef ICLAB_BACKEND_LINEAR_TRANSFORMER_H
#define ICLAB_BACKEND_LINEAR_TRANSFORMER_H

#include <stdbool.h>

#include "iclab/ops_linear_transformer.h"

/* Returns the number of parameters of P, then of Q, of one head. d is D - 1. */
size_t icl_linear_p_size(icl_parameterization parameterization, size_t d);
size_t icl_linear_q_size(icl_parameterization parameterization, size_t d);

/* Returns where layer `i` of the `depth` layers in use begins in the parameter vector. The params are complete. */
size_t icl_linear_layer_offset(const icl_linear_transformer_params *params, size_t d, size_t i);

/* Returns whether, in dense forms, the layer before the last two is cheaper if it computes neither its Gram matrix nor
 * its n tokens but is applied to the vectors of the last two. params->space is settled; n is ignored in Gram space. */
bool icl_linear_passes(const icl_linear_transformer_params *params, size_t d, size_t n);

#endif
