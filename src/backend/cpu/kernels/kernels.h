/*
 * The inner loops of the host backends, compiled once for each instruction set and element type. All variants give the
 * same bits: lanes are only combined in a fixed order that does not depend on the vector's width, and nothing is
 * contracted. Products, softmax attention, recurrences, cross-entropy and whole linear transformers are exceptions, see
 * lanes.h. The backend picks a table when it opens.
 */
#ifndef ICLAB_BACKEND_CPU_KERNELS_H
#define ICLAB_BACKEND_CPU_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arithmetic/real.h"
#include "backend/cpu/kernels/plans.h"
#include "iclab/ops_gram.h"
#include "iclab/ops_sequence.h"

#ifndef ICL_ISA
#define ICL_ISA base
#endif
#define ICL_PASTE3(a, b, c)  a##_##b##_##c
#define ICL_EXPAND3(a, b, c) ICL_PASTE3(a, b, c)
#if ICL_CPU_DOUBLE
#define KERNEL(name) ICL_EXPAND3(icl_ref_kernel, ICL_ISA, name)
#else
#define KERNEL(name) ICL_EXPAND3(icl_cpu_kernel, ICL_ISA, name)
#endif
#define STRICT_KERNEL(name) ICL_EXPAND3(icl_strict_kernel, ICL_ISA, name)

#define ICL_MAX_TILE_OPERANDS 5

/* A rectangle of elements, with a row step and a column step for each operand; the output is operand 0. */
typedef struct icl_tile {
    size_t rows, columns;
    size_t row_stride[ICL_MAX_TILE_OPERANDS], column_stride[ICL_MAX_TILE_OPERANDS];
} icl_tile;

/* Works on one rectangle; elements[i] is the first element of operand i. */
typedef void icl_tile_kernel(const icl_tile *tile, void *const *elements, const void *params);

/* Constants of an optimizer step, already rounded to the element type. */
typedef struct HOST(adam_constants) {
    real keep, beta1, one_minus_beta1, beta2, one_minus_beta2, correction1, correction2, learning_rate, epsilon;
    real factor; /* of the gradient */
} HOST(adam_constants);

typedef struct HOST(sgd_constants) {
    real momentum, learning_rate;
    real factor; /* of the gradient */
} HOST(sgd_constants);

typedef enum icl_fold_kind { ICL_FOLD_SUM = 0, ICL_FOLD_SQUARES, ICL_FOLD_MAX, ICL_FOLD_COUNT } icl_fold_kind;

/* The normalization of rows of n elements. gain and shift [n] are adjacent. */
typedef struct HOST(norm) {
    icl_norm_kind kind;
    size_t n;
    real epsilon;
    const real *gain, *shift;
} HOST(norm);

typedef struct HOST(kernels) {
    /* acc [rows][LANES] += a b over k terms, each element from left to right. a is read with strides, b is packed
     * [k][LANES]. */
    void (*gemm)(const real *a, size_t row_stride, size_t k_stride, const real *b, size_t k, real *acc, size_t rows);
    /* panel [k][LANES] = `width` (<= LANES) columns of b, zero-padded. */
    void (*pack)(const real *b, size_t k_stride, size_t column_stride, size_t k, size_t width, real *panel);
    /* out [rows][width] = alpha * (a b): gemm from zero and store in one call, without acc in memory. */
    void (*gemm_store)(const real *a, size_t row_stride, size_t k_stride, const real *b, size_t k, size_t rows,
                       real alpha, real *out, size_t out_row, size_t out_column, size_t width);

    /* See HOST(product). Each element's sum is the same however rows and columns are divided among calls. workspace:
     * product_workspace(columns, k) bytes, aligned to 64, used by this thread only. */
    size_t (*product_workspace)(size_t columns, size_t k);
    void (*product)(const HOST(product) * product, void *workspace);

    icl_tile_kernel *unary[ICL_UNARY_COUNT]; /* params: none */
    icl_tile_kernel *binary[ICL_BINARY_COUNT];
    icl_tile_kernel *scale;     /* params: real alpha */
    icl_tile_kernel *scale_add; /* params: real alpha, beta */
    icl_tile_kernel *fill;      /* params: real value */
    icl_tile_kernel *copy;
    icl_tile_kernel *adam_step;        /* params: adam_constants */
    icl_tile_kernel *adam_step_masked; /* as above, but keep is 1 where the fifth operand is 0 */
    icl_tile_kernel *sgd_step;         /* params: sgd_constants */

    /* Folds n strided elements, n > 0: LANES running values, then a tree over them. */
    real (*fold_run[ICL_FOLD_COUNT])(const real *x, size_t n, size_t stride);
    /* result [width] = fold of each of `width` (<= LANES) adjacent columns over rows > 0, from top to bottom. */
    void (*fold_columns[ICL_FOLD_COUNT])(const real *x, size_t rows, size_t row_stride, size_t width, real *result);

    /* Softmax attention of a block of softmax_block queries (or keys) of one sequence, from row `first` on. The
     * backward pass either processes all blocks of queries, and then those of keys, because they need the row terms of
     * all queries; or it processes each sequence of keys at once, from row 0 on, in one pass with two thirds of the
     * work. Both give the same bits. */
    size_t softmax_block;
    HOST(softmax_kernel) * softmax_forward;
    HOST(softmax_kernel) * softmax_backward_queries, *softmax_backward_keys, *softmax_backward_sequence;
    size_t (*softmax_forward_workspace)(const HOST(softmax_plan) * plan);
    size_t (*softmax_backward_workspace)(const HOST(softmax_plan) * plan, bool in_one_pass);

    /* As above for sequences of one query; in the backward pass, heads must not share keys. Processes head at.head of
     * `count` <= softmax_block sequences of the batch from at.batch on, all gradients in one pass. workspace:
     * softmax_single_workspace(plan) bytes. */
    size_t (*softmax_single_workspace)(const HOST(softmax_plan) * plan);
    void (*softmax_single_forward)(const HOST(softmax_plan) * plan, HOST(place) at, size_t count, void *workspace);
    void (*softmax_single_backward)(const HOST(softmax_plan) * plan, HOST(place) at, size_t count, void *workspace);

    /* Whole linear transformers, `linear_lanes` sequences at a time. linear_slice processes the sequences [first,
     * last), where first is a multiple of linear_lanes: it writes predictions and, if asked for, norms and sum
     * [plan->used], the sum of the sequences' clipped gradients. workspace: linear_workspace(plan) bytes, aligned to
     * 64, used by this thread only. */
    size_t linear_lanes;
    size_t (*linear_workspace)(const HOST(linear_plan) * plan);
    void (*linear_slice)(const HOST(linear_plan) * plan, size_t first, size_t last, void *workspace, real *sum);

    /* Normalize evenly spaced rows of adjacent elements; out may be in. The backward pass adds the rows' terms of
     * d_gain and d_shift to sums [2][n], unless it is NULL. */
    void (*normalize)(const HOST(norm) * norm, size_t rows, const real *in, size_t in_row, real *out, size_t out_row);
    void (*normalize_backward)(const HOST(norm) * norm, size_t rows, const real *in, size_t in_row, const real *d_out,
                               size_t d_out_row, real *d_in, size_t d_in_row, real *sums);

    /* Recurrences. A forward block has at most recurrence_block values of one batch and head; all blocks except the
     * last have a multiple of recurrence_lanes. workspace: as many bytes as the functions return, aligned to 64, used
     * by this thread only. */
    size_t recurrence_block, recurrence_lanes;
    size_t (*recurrence_forward_workspace)(const HOST(recurrence_plan) * plan);
    HOST(recurrence_forward_kernel) * recurrence_forward;
    size_t (*recurrence_rows_workspace)(const HOST(recurrence_plan) * plan);
    HOST(recurrence_rows_kernel) * recurrence_rows;
    size_t (*recurrence_backward_workspace)(const HOST(recurrence_plan) * plan);
    HOST(recurrence_backward_kernel) * recurrence_backward;

    /* Adds up rows from first to last: sum [columns] begins from 0, or with `onto` from what it holds. */
    void (*sum_rows)(const HOST(row_list) * rows, size_t columns, bool onto, real *sum);
    /* Rotates a row of 2 half elements as icl_rotate does; out may be in. */
    void (*rotate_row)(real *out, size_t out_step, const real *in, size_t in_step, const real *cosines,
                       const real *sines, size_t half);
    /* out = the convolution of in with kernel [width][channels]. */
    void (*convolve)(const HOST(token_block) * block, const real *kernel);
    /* sums [width][channels]: for tap j, the sum of out_t in_(t - (width - 1) + j) over the block's tokens. */
    void (*convolve_taps)(const HOST(token_block) * block, real *sums);

    /* Cross-entropy of one row of n adjacent logits, and its gradient. */
    real (*cross_entropy)(const real *z, size_t n, real class_number);
    void (*cross_entropy_backward)(const real *z, size_t n, real class_number, real d_loss, real *d_z);
} HOST(kernels);

/* The arguments of gram_sample for one group of sequences; the tables are packed floats. */
typedef struct icl_gram_job {
    const icl_gram_params *params;
    size_t d, columns;  /* columns of L: min(n, d + 1) */
    size_t entries;     /* of L */
    size_t blocks;      /* Philox blocks of a sequence */
    const float *chi;   /* [columns][ICL_CHI_TERMS][ICL_CHI_ROW], a piece each; the rest of a row is unused */
    const float *roots; /* [2][d][d], or NULL */
} icl_gram_job;

#define ICL_CHI_ROW 16

/* The places of a group's results in its lanes: rows of gram_lanes floats, one lane for each sequence. */
typedef struct icl_gram_rows {
    size_t gram;                           /* first row of the lower triangle, row by row: D (D + 1) / 2 */
    size_t query, targets, weights, noise; /* first rows: d, 1, d, 1 */
    size_t count;                          /* of rows in all */
} icl_gram_rows;

/* Float on every backend. */
typedef struct icl_strict_kernels {
    void (*gemm)(const float *a, size_t row_stride, size_t k_stride, const float *b, size_t k, float *acc, size_t rows);
    /* values[i] = element of index first + i, i < count <= ICL_RANDOM_CHUNK; the range must not cross a multiple of
     * ICL_RANDOM_CHUNK. */
    void (*random)(const icl_random_params *params, uint64_t first, size_t count, float *values);

    /* gram_sample for sequences first .. first + gram_lanes - 1, into lanes [rows.count][gram_lanes], aligned to a
     * vector. */
    size_t gram_lanes;
    icl_gram_rows (*gram_rows)(const icl_gram_job *job);
    void (*gram)(const icl_gram_job *job, uint64_t first, float *lanes);
    /* out[s * stride + e] = lanes[rows[e]][s]: `elements` rows of gram_lanes, the first `sequences` lanes. */
    void (*unpack_lanes)(const float *lanes, const uint32_t *rows, size_t elements, size_t sequences, float *out,
                         size_t stride);

    /* spherical: factors[i] of ICL_SPHERICAL_ROWS rows, which are packed as [length][ICL_SPHERICAL_ROWS]. normals
     * [ICL_SPHERICAL_ROWS] and table [ICL_CHI_TERMS][ICL_CHI_ROW], packed as in icl_gram_job, or both NULL. */
    void (*spherical)(const float *rows, size_t length, const float *normals, const float *table, float *factors);
} icl_strict_kernels;

#define ICL_RANDOM_CHUNK   1024
#define ICL_SPHERICAL_ROWS 16

extern const HOST(kernels) KERNEL(table);
extern const HOST(bf16_kernels) KERNEL(bf16_table);
extern const icl_strict_kernels STRICT_KERNEL(table);

#endif
