/* Declares the kernels of this instruction set and element type. */
#ifndef ICLAB_BACKEND_CPU_KERNEL_PARTS_H
#define ICLAB_BACKEND_CPU_KERNEL_PARTS_H

#include "backend/cpu/kernels/kernels.h"

void KERNEL(gemm)(const real *a, size_t row_stride, size_t k_stride, const real *b, size_t k, real *acc, size_t rows);
void KERNEL(pack)(const real *b, size_t k_stride, size_t column_stride, size_t k, size_t width, real *panel);
void KERNEL(gemm_store)(const real *a, size_t row_stride, size_t k_stride, const real *b, size_t k, size_t rows,
                        real alpha, real *out, size_t out_row, size_t out_column, size_t width);
size_t KERNEL(product_workspace)(size_t columns, size_t k);
void KERNEL(product)(const HOST(product) * p, void *workspace);

/* One elementwise kernel for each kind. */
#define DECLARE_UNARY(kind, name, positive) icl_tile_kernel KERNEL(name);
#define DECLARE_BINARY(kind, name)          icl_tile_kernel KERNEL(name);
ICL_UNARY_KINDS(DECLARE_UNARY)
ICL_BINARY_KINDS(DECLARE_BINARY)
icl_tile_kernel KERNEL(scale), KERNEL(scale_add), KERNEL(fill), KERNEL(copy);
icl_tile_kernel KERNEL(adam_step), KERNEL(adam_step_masked), KERNEL(sgd_step);

real KERNEL(sum_run)(const real *x, size_t n, size_t stride);
real KERNEL(squares_run)(const real *x, size_t n, size_t stride);
real KERNEL(max_run)(const real *x, size_t n, size_t stride);
void KERNEL(sum_columns)(const real *x, size_t rows, size_t row_stride, size_t width, real *result);
void KERNEL(squares_columns)(const real *x, size_t rows, size_t row_stride, size_t width, real *result);
void KERNEL(max_columns)(const real *x, size_t rows, size_t row_stride, size_t width, real *result);

/* Vectors in a block: as many as have sums that fit into the registers, 32 or 16. */
#if defined(__AVX512F__) || defined(__aarch64__)
#define SOFTMAX_VECTORS 4
#elif defined(__AVX__) && defined(__FMA__)
#define SOFTMAX_VECTORS 3
#else
#define SOFTMAX_VECTORS 2
#endif

HOST(softmax_kernel)
KERNEL(softmax_forward), KERNEL(softmax_backward_queries), KERNEL(softmax_backward_keys),
    KERNEL(softmax_backward_sequence);
size_t KERNEL(softmax_forward_workspace)(const HOST(softmax_plan) * plan);
size_t KERNEL(softmax_backward_workspace)(const HOST(softmax_plan) * plan, bool in_one_pass);

HOST(softmax_kernel)
KERNEL(bf16_softmax_forward), KERNEL(bf16_softmax_backward_queries), KERNEL(bf16_softmax_backward_keys),
    KERNEL(bf16_softmax_backward_sequence);
size_t KERNEL(bf16_softmax_forward_workspace)(const HOST(softmax_plan) * plan);
size_t KERNEL(bf16_softmax_backward_workspace)(const HOST(softmax_plan) * plan, bool in_one_pass);

size_t KERNEL(softmax_single_workspace)(const HOST(softmax_plan) * plan);
void KERNEL(softmax_single_forward)(const HOST(softmax_plan) * plan, HOST(place) at, size_t count, void *workspace);
void KERNEL(softmax_single_backward)(const HOST(softmax_plan) * plan, HOST(place) at, size_t count, void *workspace);

/* Vectors in a row of a state: each takes 2 registers for outputs, 2 for reads and 2 for updates, of 32 or 16. */
#if defined(__AVX512F__) || defined(__aarch64__)
#define RECURRENCE_VECTORS 4
#else
#define RECURRENCE_VECTORS 2
#endif

size_t KERNEL(recurrence_forward_workspace)(const HOST(recurrence_plan) * plan);
size_t KERNEL(recurrence_backward_workspace)(const HOST(recurrence_plan) * plan);
HOST(recurrence_forward_kernel) KERNEL(recurrence_forward);
size_t KERNEL(recurrence_rows_workspace)(const HOST(recurrence_plan) * plan);
HOST(recurrence_rows_kernel) KERNEL(recurrence_rows);
HOST(recurrence_backward_kernel) KERNEL(recurrence_backward);

size_t KERNEL(linear_workspace)(const HOST(linear_plan) * plan);
void KERNEL(linear_slice)(const HOST(linear_plan) * plan, size_t first, size_t last, void *workspace, real *sum);

void KERNEL(normalize)(const HOST(norm) * how, size_t rows, const real *in, size_t in_row, real *out, size_t out_row);
void KERNEL(normalize_backward)(const HOST(norm) * how, size_t rows, const real *in, size_t in_row, const real *d_out,
                                size_t d_out_row, real *d_in, size_t d_in_row, real *sums);
void KERNEL(sum_rows)(const HOST(row_list) * rows, size_t columns, bool onto, real *sum);
void KERNEL(rotate_row)(real *out, size_t out_step, const real *in, size_t in_step, const real *cosines,
                        const real *sines, size_t half);
void KERNEL(convolve)(const HOST(token_block) * block, const real *kernel);
void KERNEL(convolve_taps)(const HOST(token_block) * block, real *sums);
real KERNEL(cross_entropy)(const real *z, size_t n, real class_number);
void KERNEL(cross_entropy_backward)(const real *z, size_t n, real class_number, real d_loss, real *d_z);

/* Loops that do nothing but measure the machine. Unlike every other kernel, they are compiled with contraction: see
 * meson.build. */
typedef struct HOST(peak_kernels) {
    /* Runs `rounds` rounds of independent chains x <- x f + g in registers, each round `flops` operations; the result
     * has no meaning. */
    real (*multiply_add)(size_t rounds, real f, real g);
    size_t flops;
    /* a = b + s c */
    void (*triad)(real *a, const real *b, const real *c, real s, size_t count);
} HOST(peak_kernels);

extern const HOST(peak_kernels) KERNEL(peak);

#endif
