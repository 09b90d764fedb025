/* What the kernels of softmax attention are told: the same for every block of a call. */
#ifndef ICLAB_BACKEND_CPU_SOFTMAX_PLAN_H
#define ICLAB_BACKEND_CPU_SOFTMAX_PLAN_H

#include <stddef.h>

#include "arithmetic/real.h"

/* A rank-4 operand. */
typedef struct HOST(sequences) {
    real *elements;
    size_t stride[4]; /* batch, head (or group), row, column */
} HOST(sequences);

/* One sequence of queries: a head of one of the batch. `group` is the head of k and v that it reads. */
typedef struct HOST(place) {
    size_t batch, head, group;
} HOST(place);

/* Query i attends to the keys j < sources with j < i + reach - queries: reach = queries + keys lets all pass, reach =
 * keys + 1 is the causal mask. Head h of q reads group h / repeats of k and v. */
typedef struct HOST(softmax_plan) {
    size_t heads, repeats; /* of q; of them those that share a group */
    size_t queries, keys, sources, reach, d, e;
    real scale;
    HOST(sequences) q, k, v, out, log_sum_exp;
    HOST(sequences) d_q, d_k, d_v, d_out; /* backward only */
    real *row_terms; /* [batch][heads][queries]: d_out_i . out_i, written by the pass over queries or the only one */
} HOST(softmax_plan);

/* at: of what the kernel owns; one that owns keys serves all heads of at.group, and at.head is the first of them.
 * workspace: as many bytes as softmax_forward_workspace or softmax_backward_workspace says, aligned to 64, of this
 * thread alone. */
typedef void HOST(softmax_kernel)(const HOST(softmax_plan) * plan, HOST(place) at, size_t first, void *workspace);

#endif
