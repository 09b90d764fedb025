/*
 * Strict products: float on every backend, each element summed from left to right over all of k. Both operands are
 * packed as floats; the sums start at -0, to which adding the first product gives that product's own bits.
 */
#include <string.h>

#include "backend/cpu/host.h"

#define BLOCK_ROWS 64
#define BLOCK_K    128

typedef struct product {
    const icl_strict_kernels *kernels;
    const icl_tensor *out, *a, *b;
    size_t m, n, k;
    bool lanes_are_rows; /* the lanes run over m, because n is too small to fill them */
} product;

/* The operands of one matrix of the batch, as the kernel sees them: sums [rows][lanes]. */
typedef struct matrices {
    real *out;
    const real *a, *b;
    size_t out_row, out_lane, a_row, a_k, b_k, b_lane;
    size_t rows, lanes, k;
} matrices;

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static size_t batch_offset(const icl_tensor *tensor, const icl_tensor *out, size_t index) {
    size_t offset = 0;
    for (int axis = out->rank - 3; axis >= 0; axis--) {
        offset += index % out->shape[axis] * tensor->stride[axis];
        index /= out->shape[axis];
    }
    return offset;
}

static void pack(const real *from, size_t row_stride, size_t column_stride, size_t rows, size_t columns,
                 size_t packed_stride, float *packed) {
    for (size_t row = 0; row < rows; row++)
        for (size_t column = 0; column < columns; column++)
            packed[row * packed_stride + column] = (float)from[row * row_stride + column * column_stride];
}

static void multiply_block(const icl_strict_kernels *kernels, const matrices *x, size_t row, size_t lane) {
    const size_t rows = smaller(BLOCK_ROWS, x->rows - row), lanes = smaller(LANES, x->lanes - lane);
    float acc[BLOCK_ROWS * LANES] = {0}, a[BLOCK_ROWS * BLOCK_K], b[BLOCK_K * LANES];

    /* Lanes without a column multiply zeros. The rest of b is not cleared: most products here are as short
     * as a few terms. */
    if (lanes < LANES)
        memset(b, 0, smaller(x->k, BLOCK_K) * LANES * sizeof *b);
    for (size_t i = 0; i < rows * LANES; i++)
        acc[i] = x->k > 0 ? -0.0f : 0.0f;
    for (size_t k = 0; k < x->k; k += BLOCK_K) {
        const size_t terms = smaller(BLOCK_K, x->k - k);
        pack(x->a + row * x->a_row + k * x->a_k, x->a_row, x->a_k, rows, terms, BLOCK_K, a);
        pack(x->b + k * x->b_k + lane * x->b_lane, x->b_k, x->b_lane, terms, lanes, LANES, b);
        kernels->gemm(a, BLOCK_K, 1, b, terms, acc, rows);
    }
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < lanes; j++)
            x->out[(row + i) * x->out_row + (lane + j) * x->out_lane] = (real)acc[i * LANES + j];
}

static matrices locate(const product *p, size_t batch) {
    const int row = p->out->rank - 2, column = row + 1;
    real *out = host_elements(p->out) + batch_offset(p->out, p->out, batch);
    const real *a = host_elements(p->a) + batch_offset(p->a, p->out, batch);
    const real *b = host_elements(p->b) + batch_offset(p->b, p->out, batch);
    const size_t *out_stride = p->out->stride, *a_stride = p->a->stride, *b_stride = p->b->stride;

    if (p->lanes_are_rows)
        return (matrices){out,
                          b,
                          a,
                          out_stride[column],
                          out_stride[row],
                          b_stride[column],
                          b_stride[row],
                          a_stride[column],
                          a_stride[row],
                          p->n,
                          p->m,
                          p->k};
    return (matrices){out,
                      a,
                      b,
                      out_stride[row],
                      out_stride[column],
                      a_stride[row],
                      a_stride[column],
                      b_stride[row],
                      b_stride[column],
                      p->m,
                      p->n,
                      p->k};
}

/* A few lanes times one short vector, as the labels of a sequence are: too little work to pack, or to share out. */
#define LONGEST_THIN 16
#define LANES_THIN   256

static void multiply_thin(const matrices *x) {
    for (size_t lane = 0; lane < x->lanes; lane++) {
        const real *b = x->b + lane * x->b_lane;
        float sum = (float)x->a[0] * (float)b[0];
        for (size_t k = 1; k < x->k; k++)
            sum += (float)x->a[k * x->a_k] * (float)b[k * x->b_k];
        x->out[lane * x->out_lane] = (real)sum;
    }
}

static void multiply_thin_items(void *context, size_t first, size_t last, size_t thread) {
    const product *p = context;
    (void)thread;
    for (size_t item = first; item < last; item++) {
        const matrices x = locate(p, item);
        multiply_thin(&x);
    }
}

/* Item = (batch, block of rows, LANES lanes). */
static void multiply_items(void *context, size_t first, size_t last, size_t thread) {
    const product *p = context;
    const size_t rows = p->lanes_are_rows ? p->n : p->m, lanes = p->lanes_are_rows ? p->m : p->n;
    const size_t row_blocks = (rows + BLOCK_ROWS - 1) / BLOCK_ROWS, panels = (lanes + LANES - 1) / LANES;
    (void)thread;
    for (size_t item = first; item < last; item++) {
        const matrices x = locate(p, item / panels / row_blocks);
        multiply_block(p->kernels, &x, item / panels % row_blocks * BLOCK_ROWS, item % panels * LANES);
    }
}

icl_status HOST(matmul_strict)(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    const HOST(state) *state = host_state(backend);
    const int rank = operands[0].rank;
    product p = {state->strict,
                 &operands[0],
                 &operands[1],
                 &operands[2],
                 operands[0].shape[rank - 2],
                 operands[0].shape[rank - 1],
                 operands[1].shape[rank - 1],
                 false};
    (void)params;
    (void)error;

    p.lanes_are_rows = p.n < LANES / 2 && p.m > p.n;
    const bool thin = p.lanes_are_rows && p.n == 1 && p.k > 0 && p.k <= LONGEST_THIN && p.m <= LANES_THIN;
    const size_t rows = p.lanes_are_rows ? p.n : p.m, lanes = p.lanes_are_rows ? p.m : p.n;
    const size_t batches = icl_tensor_count(&operands[0]) / (p.m * p.n);
    const size_t blocks = (rows + BLOCK_ROWS - 1) / BLOCK_ROWS * ((lanes + LANES - 1) / LANES);
    HOST(run)
    (state, thin ? batches : batches * blocks, batches * p.m * p.n * (p.k + 1),
     thin ? multiply_thin_items : multiply_items, &p);
    return ICL_OK;
}
