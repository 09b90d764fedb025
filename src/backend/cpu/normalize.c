/* Normalization of rows, which the threads share. In the backward pass a task is ROWS_OF_SUM rows, whose terms of
 * d_gain and d_shift it adds up; then the tasks' sums are added in pairs, in a tree that depends only on their
 * number. */
#include <string.h>

#include "backend/cpu/rows.h"
#include "iclab/ops_sequence.h"
#include "iclab/status.h"

#define ROWS_OF_SUM    64 /* as ops_sequence.h promises */
#define COLUMNS_OF_SUM 64 /* columns of a task of add_blocks */

/* Operands of normalize, and of normalize_backward. */
enum { OUT = 0, IN, GAIN, SHIFT };
enum { D_IN = 0, D_GAIN, D_SHIFT, D_OUT, OF_IN, OF_GAIN };

typedef struct normalization {
    const HOST(kernels) * kernels;
    HOST(norm) norm;
    HOST(row_view) out, in, d_out; /* out: d_in in the backward pass */
    size_t rows, blocks;
    real *vectors; /* [2][n]: gain and shift */
    real *packed;  /* [3][n] for each thread: rows whose elements are not adjacent */
    real *sums;    /* [blocks][2][n], or NULL */
} normalization;

/* Packs a vector [n]; if it is absent, sets all n elements to `value`. */
static void pack_vector(real *to, const icl_tensor *vector, size_t n, real value) {
    const real *from = vector->buffer ? host_elements(vector) : NULL;
    for (size_t i = 0; i < n; i++)
        to[i] = from ? from[i * vector->stride[0]] : value;
}

/* Takes scratch memory, with room for the sums of all blocks if `summed`, and packs gain and shift. */
static icl_status prepare(icl_backend *backend, const icl_normalize_params *params, const icl_tensor *rows,
                          const icl_tensor *gain, const icl_tensor *shift, size_t summed, normalization *x,
                          icl_error *error) {
    const HOST(state) *state = host_state(backend);
    const size_t n = rows->shape[rows->rank - 1], row = host_round_up(n, LANES);

    x->kernels = state->kernels;
    x->norm = (HOST(norm)){params->kind, n, (real)params->epsilon, NULL, NULL};
    x->rows = icl_tensor_count(rows) / n;
    x->blocks = (x->rows + ROWS_OF_SUM - 1) / ROWS_OF_SUM;
    ICL_CHECK(HOST(scratch)(backend, (2 * row + state->threads * 3 * row + summed * x->blocks * 2 * n) * sizeof(real),
                            &x->vectors, error));
    x->packed = x->vectors + 2 * row;
    x->sums = summed ? x->packed + state->threads * 3 * row : NULL;
    pack_vector(x->vectors, gain, n, 1);
    pack_vector(x->vectors + row, shift, n, 0);
    x->norm.gain = x->vectors;
    x->norm.shift = x->vectors + row;
    return ICL_OK;
}

static bool is_simple(const HOST(row_view) * view) {
    return view->is_even && view->step == 1;
}

/* ---- Forward ---- */

static void normalize_rows(void *context, size_t first, size_t last, size_t thread) {
    const normalization *norm = context;
    const size_t n = norm->norm.n;
    real *packed = norm->packed + thread * 3 * host_round_up(n, LANES);

    if (is_simple(&norm->in) && is_simple(&norm->out)) {
        norm->kernels->normalize(&norm->norm, last - first, host_row(&norm->in, first), norm->in.stride,
                                 host_row(&norm->out, first), norm->out.stride);
        return;
    }
    for (size_t row = first; row < last; row++) {
        real *to = host_row_target(&norm->out, row, packed + n);
        norm->kernels->normalize(&norm->norm, 1, host_pack_row(&norm->in, row, n, packed), 0, to, 0);
        host_unpack_row(&norm->out, row, n, to);
    }
}

icl_status HOST(normalize)(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    normalization norm = {.out = host_rows(&operands[OUT]), .in = host_rows(&operands[IN])};

    ICL_CHECK(prepare(backend, params, &operands[OUT], &operands[GAIN], &operands[SHIFT], 0, &norm, error));
    HOST(run)(host_state(backend), norm.rows, norm.rows * (norm.norm.n + 8), normalize_rows, &norm);
    return ICL_OK;
}

/* ---- Backward ---- */

static void rows_backward(const normalization *norm, size_t first, size_t last, real *packed, real *sums) {
    const size_t n = norm->norm.n, padded = host_round_up(n, LANES);

    if (is_simple(&norm->in) && is_simple(&norm->out) && is_simple(&norm->d_out)) {
        norm->kernels->normalize_backward(&norm->norm, last - first, host_row(&norm->in, first), norm->in.stride,
                                          host_row(&norm->d_out, first), norm->d_out.stride,
                                          host_row(&norm->out, first), norm->out.stride, sums);
        return;
    }
    for (size_t row = first; row < last; row++) {
        real *to = host_row_target(&norm->out, row, packed + 2 * padded);
        const real *in = host_pack_row(&norm->in, row, n, packed);
        norm->kernels->normalize_backward(&norm->norm, 1, in, 0, host_pack_row(&norm->d_out, row, n, packed + padded),
                                          0, to, 0, sums);
        host_unpack_row(&norm->out, row, n, to);
    }
}

static void blocks_backward(void *context, size_t first, size_t last, size_t thread) {
    const normalization *norm = context;
    const size_t n = norm->norm.n;

    for (size_t block = first; block < last; block++) {
        const size_t row = block * ROWS_OF_SUM, left = norm->rows - row;
        real *sums = norm->sums ? norm->sums + block * 2 * n : NULL;
        if (sums)
            memset(sums, 0, 2 * n * sizeof *sums);
        rows_backward(norm, row, row + (left < ROWS_OF_SUM ? left : ROWS_OF_SUM),
                      norm->packed + thread * 3 * host_round_up(n, LANES), sums);
    }
}

/* Adds the sums of all blocks to those of block 0; an item is COLUMNS_OF_SUM columns. */
static void add_blocks(void *context, size_t first, size_t last, size_t thread) {
    const normalization *norm = context;
    const size_t columns = 2 * norm->norm.n, start = first * COLUMNS_OF_SUM;
    const size_t stop = last * COLUMNS_OF_SUM < columns ? last * COLUMNS_OF_SUM : columns;
    (void)thread;

    for (size_t step = 1; step < norm->blocks; step *= 2)
        for (size_t block = 0; block + step < norm->blocks; block += 2 * step) {
            real *to = norm->sums + block * columns;
            const real *from = to + step * columns;
            for (size_t i = start; i < stop; i++)
                to[i] += from[i];
        }
}

static void write_vector(const icl_tensor *to, const real *from, size_t n) {
    for (size_t i = 0; to->buffer && i < n; i++)
        host_elements(to)[i * to->stride[0]] = from[i];
}

icl_status HOST(normalize_backward)(icl_backend *backend, const void *params, const icl_tensor *operands,
                                    icl_error *error) {
    const HOST(state) *state = host_state(backend);
    const bool is_summed = operands[D_GAIN].buffer || operands[D_SHIFT].buffer;
    normalization norm = {
        .out = host_rows(&operands[D_IN]), .in = host_rows(&operands[OF_IN]), .d_out = host_rows(&operands[D_OUT])};

    ICL_CHECK(prepare(backend, params, &operands[D_IN], &operands[OF_GAIN], &(icl_tensor){0}, is_summed, &norm, error));
    const size_t n = norm.norm.n;
    HOST(run)(state, norm.blocks, norm.rows * 2 * (n + 8), blocks_backward, &norm);
    if (is_summed) {
        HOST(run)
        (state, (2 * n + COLUMNS_OF_SUM - 1) / COLUMNS_OF_SUM, norm.blocks * 2 * n, add_blocks, &norm);
        write_vector(&operands[D_GAIN], norm.sums, n);
        write_vector(&operands[D_SHIFT], norm.sums + n, n);
    }
    return ICL_OK;
}
