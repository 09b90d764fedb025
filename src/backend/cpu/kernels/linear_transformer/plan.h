/* What the kernels of whole linear transformers are told: the same for every sequence of a call. */
#ifndef ICLAB_BACKEND_CPU_LINEAR_PLAN_H
#define ICLAB_BACKEND_CPU_LINEAR_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "arithmetic/real.h"
#include "iclab/ops_linear_transformer.h"

/* One operand, by sequence, row and column. NULL elements: absent. */
typedef struct HOST(linear_operand) {
    real *elements;
    size_t stride[3];
} HOST(linear_operand);

typedef struct HOST(linear_plan) {
    icl_parameterization parameterization;
    size_t size;    /* D */
    size_t context; /* n; of no meaning where a Gram matrix is given */
    size_t depth, heads;
    size_t full;  /* layers whose Gram matrix or tokens are carried on: all but the last two or three */
    size_t block; /* rows and columns of a dense part that are parameters: D, or d */
    size_t used;  /* parameters of the layers in use */
    bool in_tokens, has_gradient;
    bool passes; /* dense forms: the layer before the last two is passed on to vectors, not carried on */
    real factor;

    /*
     * Dense forms: P, Q and their transposes [depth][heads][D][D]; last_rows [heads of the layer before the last][heads
     * of the last][D], the last rows of the last layer's P, times P of the layer before it. Diagonal forms: weights
     * [depth][2][2], sum over heads of p_k q_l, and parts [depth][heads][4], (p_x, p_y, q_x, q_y). Sparse form: Q and
     * its transpose [depth][d][d], summed over heads.
     */
    const real *p, *q, *p_transposed, *q_transposed, *last_rows, *weights, *parts;

    HOST(linear_operand) tokens, gram, query, targets;
    HOST(linear_operand) answers; /* predictions; with a gradient the losses */
    HOST(linear_operand) norms;   /* present where there is a threshold */
    const real *threshold;        /* NULL: no clipping */
} HOST(linear_plan);

#endif
