/* The table of all kernels of the OpenCL backend. */
#ifndef ICLAB_BACKEND_OPENCL_KERNELS_H
#define ICLAB_BACKEND_OPENCL_KERNELS_H

#include <stdbool.h>

/*
 * Every kernel: identifier, the program that holds it, a file of cl/, the family of devices that has it (see
 * choose_family in open.c), and whether it is strict. A strict kernel gives the same bits on every device, so it is
 * never compiled with relaxed arithmetic, which may reorder its sums. The identifier is the kernel's name.
 */
#define ICL_KERNEL_TABLE(KERNEL)                                                                                       \
    KERNEL(fill, "base", BOTH, false)                                                                                  \
    KERNEL(copy, "base", BOTH, false)                                                                                  \
    KERNEL(unary, "base", BOTH, false)                                                                                 \
    KERNEL(binary, "base", BOTH, false)                                                                                \
    KERNEL(binary_periodic, "base", CPU, false)                                                                        \
    KERNEL(scale_add, "base", BOTH, false)                                                                             \
    KERNEL(random_fill, "base", BOTH, true)                                                                            \
    KERNEL(spherical, "base", BOTH, true)                                                                              \
    KERNEL(reduce, "base", CPU, false)                                                                                 \
    KERNEL(reduce_columns, "base", GPU, false)                                                                         \
    KERNEL(reduce_rows, "base", GPU, false)                                                                            \
    KERNEL(argmax_chunks, "base", CPU, false)                                                                          \
    KERNEL(argmax_final, "base", CPU, false)                                                                           \
    KERNEL(argmax_teams, "base", GPU, false)                                                                           \
    KERNEL(matmul_lanes, "base", CPU, true)                                                                            \
    KERNEL(matmul_panels, "base", CPU, false)                                                                          \
    KERNEL(matmul_tiles, "base", GPU, true)                                                                            \
    KERNEL(matmul_wide, "base", GPU, false)                                                                            \
    KERNEL(matmul_combine, "base", BOTH, false)                                                                        \
    KERNEL(attention_linear, "base", BOTH, false)                                                                      \
    KERNEL(softmax_forward_lanes, "base", CPU, false)                                                                  \
    KERNEL(softmax_backward_queries_lanes, "base", CPU, false)                                                         \
    KERNEL(softmax_backward_keys_lanes, "base", CPU, false)                                                            \
    KERNEL(softmax_backward_sequences_lanes, "base", CPU, false)                                                       \
    KERNEL(softmax_forward_tiles, "base", GPU, false)                                                                  \
    KERNEL(softmax_backward_queries_tiles, "base", GPU, false)                                                         \
    KERNEL(softmax_backward_keys_tiles, "base", GPU, false)                                                            \
    KERNEL(softmax_rows_lanes, "attention_rows", CPU, false)                                                           \
    KERNEL(softmax_slopes_lanes, "attention_rows", CPU, false)                                                         \
    KERNEL(softmax_rows_teams, "attention_rows", GPU, false)                                                           \
    KERNEL(softmax_slopes_teams, "attention_rows", GPU, false)                                                         \
    KERNEL(track_threshold, "base", BOTH, false)                                                                       \
    KERNEL(gradient_squares, "base", GPU, false)                                                                       \
    KERNEL(update_step, "base", BOTH, false)                                                                           \
    KERNEL(linear_transformer_sum, "base", BOTH, false)                                                                \
    KERNEL(linear_transformer, "linear_transformer", BOTH, false)                                                      \
    KERNEL(gram_lanes, "gram", CPU, true)                                                                              \
    KERNEL(gram_groups, "gram", GPU, true)                                                                             \
    KERNEL(random_gamma, "draws", BOTH, true)                                                                          \
    KERNEL(cumulative_sum, "draws", BOTH, true)                                                                        \
    KERNEL(categorical, "draws", BOTH, true)                                                                           \
    KERNEL(random_distinct, "draws", BOTH, true)                                                                       \
    KERNEL(take, "draws", BOTH, true)                                                                                  \
    KERNEL(put, "draws", BOTH, true)                                                                                   \
    KERNEL(look_up, "sequence", BOTH, false)                                                                           \
    KERNEL(look_up_keys, "sequence", BOTH, false)                                                                      \
    KERNEL(sort_count, "sequence", BOTH, false)                                                                        \
    KERNEL(sort_scan, "sequence", BOTH, false)                                                                         \
    KERNEL(sort_place, "sequence", BOTH, false)                                                                        \
    KERNEL(row_ends, "sequence", BOTH, false)                                                                          \
    KERNEL(sum_runs, "sequence", BOTH, false)                                                                          \
    KERNEL(sum_symbols, "sequence", BOTH, false)                                                                       \
    KERNEL(convolve, "sequence", BOTH, false)                                                                          \
    KERNEL(convolve_taps, "sequence", BOTH, false)                                                                     \
    KERNEL(convolve_sum, "sequence", BOTH, false)                                                                      \
    KERNEL(rotate_pairs, "sequence", BOTH, false)                                                                      \
    KERNEL(peak_multiply_add, "peak", BOTH, false)                                                                     \
    KERNEL(peak_triad, "peak", BOTH, false)                                                                            \
    KERNEL(recurrence_forward_lanes, "recurrence_forward_lanes", CPU, false)                                           \
    KERNEL(recurrence_forward_tiles, "recurrence_forward_tiles", GPU, false)                                           \
    KERNEL(recurrence_forward_chunks, "recurrence_forward_chunks", GPU, false)                                         \
    KERNEL(recurrence_chunk_products, "recurrence_forward_chunks", GPU, false)                                         \
    KERNEL(recurrence_backward_lanes, "recurrence_backward_lanes", CPU, false)                                         \
    KERNEL(recurrence_backward_tiles, "recurrence_backward_tiles", GPU, false)                                         \
    KERNEL(recurrence_backward_sum, "recurrence_backward_tiles", GPU, false)                                           \
    KERNEL(recurrence_rows_lanes, "recurrence_rows_lanes", CPU, false)                                                 \
    KERNEL(recurrence_rows, "recurrence_rows", GPU, false)                                                             \
    KERNEL(normalize_lanes, "normalize", CPU, false)                                                                   \
    KERNEL(normalize_backward_lanes, "normalize", CPU, false)                                                          \
    KERNEL(normalize_teams, "normalize", GPU, false)                                                                   \
    KERNEL(normalize_backward_teams, "normalize", GPU, false)                                                          \
    KERNEL(normalize_sums, "normalize", GPU, false)                                                                    \
    KERNEL(run_small, "small", CPU, false)                                                                             \
    KERNEL(normalize_add, "normalize", CPU, false)                                                                     \
    KERNEL(cross_entropy_lanes, "cross_entropy", CPU, false)                                                           \
    KERNEL(cross_entropy_backward_lanes, "cross_entropy", CPU, false)                                                  \
    KERNEL(cross_entropy_teams, "cross_entropy", GPU, false)                                                           \
    KERNEL(cross_entropy_backward_teams, "cross_entropy", GPU, false)                                                  \
    KERNEL(cross_entropy_maxima, "cross_entropy", GPU, false)                                                          \
    KERNEL(cross_entropy_sums, "cross_entropy", GPU, false)                                                            \
    KERNEL(cross_entropy_join, "cross_entropy", GPU, false)                                                            \
    KERNEL(cross_entropy_slopes, "cross_entropy", GPU, false)

typedef enum icl_kernel {
#define ICL_KERNEL_ENUM(name, file, family, strict) ICL_KERNEL_##name,
    ICL_KERNEL_TABLE(ICL_KERNEL_ENUM)
#undef ICL_KERNEL_ENUM
        ICL_KERNEL_COUNT
} icl_kernel;

typedef enum icl_kernel_family {
    ICL_FAMILY_CPU = 1,
    ICL_FAMILY_GPU = 2,
    ICL_FAMILY_BOTH = ICL_FAMILY_CPU | ICL_FAMILY_GPU
} icl_kernel_family;

typedef struct icl_kernel_info {
    const char *name, *file;
    icl_kernel_family family;
    bool strict;
} icl_kernel_info;

extern const icl_kernel_info icl_kernel_infos[ICL_KERNEL_COUNT];

#endif
