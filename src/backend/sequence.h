/* The ops of sequence models, for the backends: their rows, as in ICL_OP_TABLE of contract.h. */
#ifndef ICLAB_BACKEND_SEQUENCE_H
#define ICLAB_BACKEND_SEQUENCE_H

#include "iclab/ops_sequence.h"

#define ICL_SEQUENCE_OPS(OP)                                                                                           \
    /* (out, in, gain or absent, shift or absent) params: icl_normalize_params. Rank >= 1; out never empty. */         \
    OP(normalize, 1, 3)                                                                                                \
    /* (d_in, d_gain or absent, d_shift or absent, d_out, in, gain or absent) params: icl_normalize_params. Rank */    \
    /* >= 1; d_in never empty. */                                                                                      \
    OP(normalize_backward, 3, 3)                                                                                       \
    /* (out, table, symbols) params: none. symbols has one axis less than out, which is never empty; table may be. */  \
    OP(look_up, 1, 2)                                                                                                  \
    /* (d_table, d_out, symbols) params: none. As look_up; nothing is empty. */                                        \
    OP(look_up_backward, 1, 2)                                                                                         \
    /* (out, in, kernel) params: none. Ranks 3, 3, 2; nothing is empty. */                                             \
    OP(convolve, 1, 2)                                                                                                 \
    /* (d_in or absent, d_kernel or absent, d_out, in, kernel) params: none. As convolve; one of the first two is */   \
    /* there. */                                                                                                       \
    OP(convolve_backward, 2, 3)                                                                                        \
    /* (out, in, angles) params: bool inverse. Rank 2 to 4, angles 3; nothing is empty. */                             \
    OP(rotate, 1, 2)                                                                                                   \
    /* (losses, logits, classes) params: none. Rank >= 1; logits never empty. */                                       \
    OP(cross_entropy, 1, 2)                                                                                            \
    /* (d_logits, d_losses, logits, classes) params: none. Rank >= 1; d_logits never empty. */                         \
    OP(cross_entropy_backward, 1, 3)

#endif
