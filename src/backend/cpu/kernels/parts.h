/* Declares the kernels of this instruction set and element type. */
#ifndef ICLAB_BACKEND_CPU_KERNEL_PARTS_H
#define ICLAB_BACKEND_CPU_KERNEL_PARTS_H

#include "backend/cpu/kernels/kernels.h"

void KERNEL(gemm)(const real *a, size_t row_stride, size_t k_stride, const real *b, size_t k, real *acc, size_t rows);
void KERNEL(pack)(const real *b, size_t k_stride, size_t column_stride, size_t k, size_t width, real *panel);
void KERNEL(store)(const real *acc, size_t rows, real *out, size_t row_stride, size_t column_stride, size_t width,
                   real alpha, real beta);
void KERNEL(gemm_store)(const real *a, size_t row_stride, size_t k_stride, const real *b, size_t k, size_t rows,
                        real alpha, real *out, size_t out_row, size_t out_column, size_t width);

/* Elementwise: one kernel a kind. */
#define DECLARE_UNARY(kind, name, positive) icl_tile_kernel KERNEL(name);
#define DECLARE_BINARY(kind, name)          icl_tile_kernel KERNEL(name);
ICL_UNARY_KINDS(DECLARE_UNARY)
ICL_BINARY_KINDS(DECLARE_BINARY)
icl_tile_kernel KERNEL(scale), KERNEL(scale_add), KERNEL(fill), KERNEL(copy);
icl_tile_kernel KERNEL(adam_step), KERNEL(sgd_step);

real KERNEL(sum_run)(const real *x, size_t n, size_t stride);
real KERNEL(squares_run)(const real *x, size_t n, size_t stride);
real KERNEL(max_run)(const real *x, size_t n, size_t stride);
void KERNEL(sum_columns)(const real *x, size_t rows, size_t row_stride, size_t width, real *result);
void KERNEL(squares_columns)(const real *x, size_t rows, size_t row_stride, size_t width, real *result);
void KERNEL(max_columns)(const real *x, size_t rows, size_t row_stride, size_t width, real *result);

/* Vectors in a block: as many as the registers, 32 or 16, hold the sums of. */
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

size_t KERNEL(softmax_single_workspace)(const HOST(softmax_plan) * plan);
void KERNEL(softmax_single_forward)(const HOST(softmax_plan) * plan, size_t first, size_t count, void *workspace);
void KERNEL(softmax_single_backward)(const HOST(softmax_plan) * plan, size_t first, size_t count, void *workspace);

size_t KERNEL(linear_workspace)(const HOST(linear_plan) * plan);
void KERNEL(linear_slice)(const HOST(linear_plan) * plan, size_t first, size_t last, void *workspace, real *sum);

#endif
