/* The op of the sampler of Gram matrices, for the backends: its row, as in ICL_OP_TABLE of contract.h. */
#ifndef ICLAB_BACKEND_GRAM_H
#define ICLAB_BACKEND_GRAM_H

#include "iclab/ops_gram.h"

#define ICL_GRAM_OPS(OP)                                                                                               \
    /* (gram, query, targets, weights, noise, chi, roots or absent) params: icl_gram_params. Strict. */                \
    OP(gram_sample, 5, 2)

#endif
