/* What the kernels of softmax attention are told: the same for every block of a call. */
#ifndef ICLAB_BACKEND_CPU_SOFTMAX_PLAN_H
#define ICLAB_BACKEND_CPU_SOFTMAX_PLAN_H

#include <stddef.h>

#include "backend/cpu/real.h"

/* A rank-3 operand by sequence, row and column. */
typedef struct HOST(sequences) {
    real *elements;
    size_t stride[3];
} HOST(sequences);

/* Query i attends to the keys j < sources with j < i + reach - queries: reach = queries + keys lets all pass, reach =
 * keys + 1 is the causal mask. */
typedef struct HOST(softmax_plan) {
    size_t queries, keys, sources, reach, d, e;
    real scale;
    HOST(sequences) q, k, v, out, log_sum_exp;
    HOST(sequences) d_q, d_k, d_v, d_out; /* backward only */
    real *row_terms; /* [batch][queries]: d_out_i . out_i, written by the pass over queries or the only one */
} HOST(softmax_plan);

/* workspace: as many bytes as softmax_forward_workspace or softmax_backward_workspace says, aligned to
 * 64, of this thread alone. */
typedef void HOST(softmax_kernel)(const HOST(softmax_plan) * plan, size_t sequence, size_t first, void *workspace);

#endif
