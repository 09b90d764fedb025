/* What one call of a recurrence asks of its kernels; ops_recurrence.h has the formulas. */
#ifndef ICLAB_BACKEND_CPU_RECURRENCE_PLAN_H
#define ICLAB_BACKEND_CPU_RECURRENCE_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "arithmetic/real.h"
#include "backend/recurrence.h"

/* [B, H, rows, columns] by strides; elements is NULL where the operand is absent. */
typedef struct HOST(recurrence_operand) {
    real *elements;
    size_t stride[4];
} HOST(recurrence_operand);

typedef struct HOST(recurrence_plan) {
    size_t items, heads, tokens, m, n; /* items: batches and heads */
    real scale;
    bool delta, by_channel; /* by_channel: m decays a token; else one, where there are any */
    HOST(recurrence_operand) input[ICL_RECURRENCE_INPUTS];
    HOST(recurrence_operand) reads, states, final;                            /* written, or read on the way back */
    HOST(recurrence_operand) out;                                             /* forward */
    HOST(recurrence_operand) gradient[ICL_RECURRENCE_INPUTS], d_out, d_final; /* backward */
} HOST(recurrence_plan);

/* Values [first, first + count) of the batch and head number `item`, forward. */
typedef void HOST(recurrence_forward_kernel)(const HOST(recurrence_plan) * plan, size_t item, size_t first,
                                             size_t count, void *workspace);

/* The batch and head number `item`, backward. */
typedef void HOST(recurrence_backward_kernel)(const HOST(recurrence_plan) * plan, size_t item, void *workspace);

#endif
