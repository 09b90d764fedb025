/* What every backend needs to know of a linear transformer: where its parameters stand, and what its spaces cost. */
#ifndef ICLAB_BACKEND_LINEAR_TRANSFORMER_H
#define ICLAB_BACKEND_LINEAR_TRANSFORMER_H

#include <stdbool.h>

#include "iclab/ops_linear_transformer.h"

/* Parameters of P, then of Q, of one head. d is D - 1. */
size_t icl_linear_p_size(icl_parameterization parameterization, size_t d);
size_t icl_linear_q_size(icl_parameterization parameterization, size_t d);

/* Where in the parameter vector layer `i` of those in use (depth) begins; params are filled in. */
size_t icl_linear_layer_offset(const icl_linear_transformer_params *params, size_t d, size_t i);

/* Whether, of dense forms, the layer before the last two is cheaper where neither its Gram matrix nor the n tokens are
 * carried on but the former is applied to vectors. params->space is settled; n is of no meaning in Gram space. */
bool icl_linear_passes(const icl_linear_transformer_params *params, size_t d, size_t n);

#endif
