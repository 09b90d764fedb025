/* The arguments of kernels that are the same for every block, sequence or head of a call. */
#ifndef ICLAB_BACKEND_CPU_KERNELS_PLANS_H
#define ICLAB_BACKEND_CPU_KERNELS_PLANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arithmetic/real.h"
#include "backend/op_families.h"
#include "iclab/ops_linear_transformer.h"

/* ---- Products ---- */

/* out [rows][columns] = alpha (a b) + beta out, where a is [rows][k] and b [k][columns]. beta is 0, which never reads
 * out, unless k <= ICL_PRODUCT_TERMS. */
typedef struct HOST(product) {
    real *out;
    const real *a, *b;
    size_t rows, columns, k;
    size_t out_row, out_column, a_row, a_k, b_k, b_column; /* strides */
    real alpha, beta;
} HOST(product);

#define ICL_PRODUCT_TERMS 256 /* terms summed from left to right before their sum joins the others */

/* ---- Softmax attention ---- */

/* A rank-4 operand. */
typedef struct HOST(sequences) {
    real *elements;
    size_t stride[4]; /* batch, head (or group), row, column */
} HOST(sequences);

/* One sequence of queries: a head of one element of the batch. `group` is the head of k and v that it reads. */
typedef struct HOST(place) {
    size_t batch, head, group;
} HOST(place);

/* Query i attends to the keys j < sources with j < i + reach - queries: reach = queries + keys lets all pass, reach =
 * keys + 1 is the causal mask. Of these it attends to the last `window` alone; window = queries + keys lets all pass.
 * Head h of q reads group h / repeats of k and v. */
typedef struct HOST(softmax_plan) {
    size_t heads, repeats; /* the heads of q; how many of them share a group */
    size_t queries, keys, sources, reach, window, d, e;
    real scale;
    HOST(sequences) q, k, v, out, log_sum_exp;
    HOST(sequences) d_q, d_k, d_v, d_out; /* backward only */
    real *row_terms; /* [batch][heads][queries]: d_out_i . out_i, written by the pass over queries or the only one */
} HOST(softmax_plan);

/* at: the sequence that the kernel owns. A kernel that owns keys serves all heads of at.group, and at.head is the first
 * of them. workspace: as many bytes as softmax_forward_workspace or softmax_backward_workspace returns, aligned to 64,
 * used by this thread only. */
typedef void HOST(softmax_kernel)(const HOST(softmax_plan) * plan, HOST(place) at, size_t first, void *workspace);

/* ---- Whole linear transformers ---- */

/* One operand, with strides of sequence, row and column. elements is NULL if it is absent. */
typedef struct HOST(linear_operand) {
    real *elements;
    size_t stride[3];
} HOST(linear_operand);

typedef struct HOST(linear_plan) {
    icl_parameterization parameterization;
    size_t size;    /* D */
    size_t context; /* n; ignored if a Gram matrix is given */
    size_t depth, heads;
    size_t full;  /* layers whose Gram matrix or tokens are computed: all but the last two or three */
    size_t block; /* rows and columns of a dense part that are parameters: D, or d */
    size_t used;  /* parameters of the layers in use */
    bool in_tokens, has_gradient;
    bool passes; /* dense forms: the layer before the last two is applied to vectors instead */
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
    HOST(linear_operand) norms;   /* present if there is a threshold */
    const real *threshold;        /* NULL: no clipping */
} HOST(linear_plan);

/* ---- Recurrences ---- */

/* An operand [B, H, rows, columns] and its strides; elements is NULL if it is absent. */
typedef struct HOST(recurrence_operand) {
    real *elements;
    size_t stride[4];
} HOST(recurrence_operand);

typedef struct HOST(recurrence_plan) {
    size_t items, heads, tokens, m, n; /* items: batches and heads */
    real scale;
    bool delta, by_channel; /* by_channel: m decays for each token; else one, if any */
    HOST(recurrence_operand) input[ICL_RECURRENCE_INPUTS];
    HOST(recurrence_operand) reads, states, final;                            /* written; backward: read */
    HOST(recurrence_operand) out;                                             /* forward */
    HOST(recurrence_operand) gradient[ICL_RECURRENCE_INPUTS], d_out, d_final; /* backward */
} HOST(recurrence_plan);

/* Computes values [first, first + count) of the batch and head number `item`. */
typedef void HOST(recurrence_forward_kernel)(const HOST(recurrence_plan) * plan, size_t item, size_t first,
                                             size_t count, void *workspace);

/* Computes the outputs from the other side of one segment. */
typedef void HOST(recurrence_rows_kernel)(const HOST(recurrence_plan) * plan, size_t item, size_t segment,
                                          void *workspace);

/* Computes the gradients of the batch and head number `item`. */
typedef void HOST(recurrence_backward_kernel)(const HOST(recurrence_plan) * plan, size_t item, void *workspace);

/* ---- Short convolutions, and sums of rows ---- */

/* Rows to be added up: row i begins `offsets[i]` elements after `from`, or i * row_stride if offsets is NULL; its
 * elements lie `step` apart. */
typedef struct HOST(row_list) {
    const real *from;
    const size_t *offsets;
    size_t row_stride, step, count;
} HOST(row_list);

/* Neighbouring tokens of one sequence: `tokens` of them, which follow `before` others. Tokens lie `..._time` elements
 * apart, backwards in time if that is negative, and channels `..._step` apart. */
typedef struct HOST(token_block) {
    real *out;      /* at the first token; in sums over tokens it is the second factor, and read */
    const real *in; /* at the first token */
    ptrdiff_t out_time, in_time;
    size_t out_step, in_step;
    size_t tokens, before, width, channels;
} HOST(token_block);

/* ---- Products of bfloat16 ---- */

/*
 * Products of operands that are rounded to bfloat16. A pair is two neighbours along k, the first in the low half of 32
 * bits; an odd k is padded with 0. Rounding is to nearest, ties to even; subnormal numbers become 0.
 *
 * Pair p of row r of a lies at a + r / LANES * a_group + r % LANES * a_row + p / LANES * a_tile + p % LANES. Kernels
 * whose rows lie in one piece have a_tile = LANES. Kernels in tiles have squares of LANES rows and LANES pairs; the
 * pairs of both operands fill whole tiles, padded with 0, and rows of a that fill up the last tile may hold anything.
 */
typedef struct HOST(bf16_block) {
    const uint32_t *a, *b; /* b: panels of [pairs][LANES] */
    size_t a_group, a_row, a_tile;
    size_t b_stride;            /* between panels */
    size_t rows, pairs, panels; /* at most ICL_BF16_ROWS, ICL_BF16_PAIRS (unless in tiles) and ICL_BF16_PANELS */
    bool is_first;              /* the sums begin from 0 */
    real *sums;
    size_t sums_row, sums_panel; /* strides; the LANES sums of a panel's row are adjacent */
} HOST(bf16_block);

typedef struct HOST(bf16_kernels) {
    bool in_tiles;
    /* to = the pairs of `rows` (<= LANES) rows of k elements, with those of row r and tile t at r * to_row + t *
     * to_tile. */
    void (*pack_rows)(const real *from, size_t row_stride, size_t k_stride, size_t rows, size_t k, uint32_t *to,
                      size_t to_row, size_t to_tile);
    /* panel [pairs][LANES] = the pairs of `width` (<= LANES) columns of k elements, zero-padded. */
    void (*pack_columns)(const real *from, size_t k_stride, size_t column_stride, size_t k, size_t width,
                         uint32_t *panel);
    /* sums += a b. Without tiles each sum takes the products from left to right, but the second of a pair before the
     * first. With tiles it takes sums of LANES pairs, each of which is that of the firsts plus that of the seconds. */
    void (*multiply)(const HOST(bf16_block) * block);
    /* A thread calls begin before it multiplies, and end when it is done; both are NULL without tiles. */
    void (*begin)(void);
    void (*end)(void);

    /* Softmax attention whose products round their operands, in blocks of as many queries or keys as that of the
     * instruction set's other kernels (kernels.h). */
    HOST(softmax_kernel) * softmax_forward;
    HOST(softmax_kernel) * softmax_backward_queries, *softmax_backward_keys, *softmax_backward_sequence;
    size_t (*softmax_forward_workspace)(const HOST(softmax_plan) * plan);
    size_t (*softmax_backward_workspace)(const HOST(softmax_plan) * plan, bool in_one_pass);
} HOST(bf16_kernels);

#define ICL_BF16_ROWS   32
#define ICL_BF16_PAIRS  128
#define ICL_BF16_PANELS 2

#endif
