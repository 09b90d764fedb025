/*
 * Matrix products of any strides.
 *
 * LANES columns of b are packed at a time and multiplied by a block of rows of a. A long k is cut into pieces whose
 * sums are added up, which also keeps the error well below that of one long sum. If only k is long enough to be divided
 * among the threads (gradients of small matrices), they take slices of k, and the slices' sums are combined pairwise.
 * Every cut follows from the shapes.
 */
#include <string.h>

#include "backend/cpu/host.h"
#include "iclab/status.h"

#define BLOCK_ROWS      128  /* rows of a that share one packing of b */
#define BLOCK_K         256  /* terms summed from left to right before their sum joins the others */
#define SLICE_K         2048 /* terms in a slice, if k is cut into slices */
#define NARROW          8    /* with fewer columns lanes would be wasted */
#define LARGE_RESULT    65536
#define CACHED_ELEMENTS 65536 /* of a; they stay in the cache for all columns of b */

typedef struct product {
    const HOST(kernels) * kernels;
    real *out;
    const real *a, *b;
    size_t m, n, k;
    size_t batch[2];                                /* leading axes, outer first */
    size_t batch_stride[3][2];                      /* of out, a, b */
    size_t out_stride[2], a_stride[2], b_stride[2]; /* rows, columns */
    size_t row_blocks, slices;
    real alpha, beta;
    real *partial; /* [batch][slices][m][columns], if k is cut into slices */
    size_t columns;
} product;

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static size_t batch_offset(const product *p, int operand, size_t index) {
    return index / p->batch[1] * p->batch_stride[operand][0] + index % p->batch[1] * p->batch_stride[operand][1];
}

/* acc [rows][LANES] = a[row.., from..to) b[from..to), columns from `column`. */
static void sum_terms(const product *p, const real *a, const real *b, size_t rows, size_t column, size_t from,
                      size_t to, real *acc) {
    const size_t width = smaller(LANES, p->n - column);
    real panel[BLOCK_K * LANES], sum[BLOCK_ROWS * LANES];

    memset(acc, 0, rows * LANES * sizeof *acc);
    for (size_t k = from; k < to; k += BLOCK_K) {
        const size_t terms = smaller(BLOCK_K, to - k);
        real *into = k == from ? acc : sum;
        p->kernels->pack(b + k * p->b_stride[0] + column * p->b_stride[1], p->b_stride[0], p->b_stride[1], terms, width,
                         panel);
        if (k > from)
            memset(sum, 0, rows * LANES * sizeof *sum);
        p->kernels->gemm(a + k * p->a_stride[1], p->a_stride[0], p->a_stride[1], panel, terms, into, rows);
        for (size_t i = 0; k > from && i < rows * LANES; i++)
            acc[i] += sum[i];
    }
}

/* Returns whether one packing of b serves all of k, and nothing is added to out: the common case. */
static bool is_direct(const product *p) {
    return p->k <= BLOCK_K && p->beta == 0;
}

static void multiply_directly(const product *p, const real *a, const real *b, size_t rows, size_t column, real *out) {
    const size_t width = smaller(LANES, p->n - column);
    real panel[BLOCK_K * LANES];
    p->kernels->pack(b + column * p->b_stride[1], p->b_stride[0], p->b_stride[1], p->k, width, panel);
    p->kernels->gemm_store(a, p->a_stride[0], p->a_stride[1], panel, p->k, rows, p->alpha,
                           out + column * p->out_stride[1], p->out_stride[0], p->out_stride[1], width);
}

/* Returns how many blocks of rows, from an item on, share one packing of b. In the direct case these are all of the
 * thread's blocks in one matrix, as long as their rows of a stay in the cache; else one. */
static size_t blocks_at_once(const product *p, size_t item, size_t last) {
    const size_t cached = CACHED_ELEMENTS / (BLOCK_ROWS * (p->k + 1)) + 1;
    return is_direct(p) ? smaller(smaller(cached, p->row_blocks - item % p->row_blocks), last - item) : 1;
}

static void multiply_blocks(void *context, size_t first, size_t last, size_t thread) {
    const product *p = context;
    (void)thread;
    for (size_t item = first, blocks; item < last; item += blocks) {
        blocks = blocks_at_once(p, item, last);
        const size_t batch = item / p->row_blocks, row = item % p->row_blocks * BLOCK_ROWS;
        const size_t rows = smaller(blocks * BLOCK_ROWS, p->m - row);
        const real *a = p->a + batch_offset(p, 1, batch) + row * p->a_stride[0];
        const real *b = p->b + batch_offset(p, 2, batch);
        real *out = p->out + batch_offset(p, 0, batch) + row * p->out_stride[0];
        for (size_t column = 0; column < p->n; column += LANES) {
            real acc[BLOCK_ROWS * LANES];
            if (is_direct(p)) {
                multiply_directly(p, a, b, rows, column, out);
                continue;
            }
            sum_terms(p, a, b, rows, column, 0, p->k, acc);
            p->kernels->store(acc, rows, out + column * p->out_stride[1], p->out_stride[0], p->out_stride[1],
                              smaller(LANES, p->n - column), p->alpha, p->beta);
        }
    }
}

/* Item = (batch, slice): the sums of one slice of k. */
static void multiply_slices(void *context, size_t first, size_t last, size_t thread) {
    const product *p = context;
    (void)thread;
    for (size_t item = first; item < last; item++) {
        const size_t batch = item / p->slices, from = item % p->slices * SLICE_K;
        const real *a = p->a + batch_offset(p, 1, batch), *b = p->b + batch_offset(p, 2, batch);
        real *partial = p->partial + item * p->m * p->columns;
        for (size_t row = 0; row < p->m; row += BLOCK_ROWS)
            for (size_t column = 0; column < p->n; column += LANES) {
                const size_t rows = smaller(BLOCK_ROWS, p->m - row);
                sum_terms(p, a + row * p->a_stride[0], b, rows, column, from, smaller(from + SLICE_K, p->k),
                          partial + column * p->m + row * LANES);
            }
    }
}

/* Item = batch: adds the slices up pairwise and stores the result. A slice holds panels [columns / LANES][m][LANES]. */
static void combine_slices(void *context, size_t first, size_t last, size_t thread) {
    const product *p = context;
    const size_t size = p->m * p->columns;
    (void)thread;
    for (size_t batch = first; batch < last; batch++) {
        real *partial = p->partial + batch * p->slices * size;
        real *out = p->out + batch_offset(p, 0, batch);
        for (size_t step = 1; step < p->slices; step *= 2)
            for (size_t slice = 0; slice + step < p->slices; slice += 2 * step)
                for (size_t i = 0; i < size; i++)
                    partial[slice * size + i] += partial[(slice + step) * size + i];
        for (size_t column = 0; column < p->n; column += LANES)
            p->kernels->store(partial + column * p->m, p->m, out + column * p->out_stride[1], p->out_stride[0],
                              p->out_stride[1], smaller(LANES, p->n - column), p->alpha, p->beta);
    }
}

/* Computes out^T = b^T a^T if out has too few columns to fill the lanes. */
static void transpose_if_narrow(product *p) {
    const product q = *p;
    if (q.n >= NARROW || q.m <= q.n)
        return;
    p->a = q.b;
    p->b = q.a;
    p->m = q.n;
    p->n = q.m;
    memcpy(p->batch_stride[1], q.batch_stride[2], sizeof q.batch_stride[2]);
    memcpy(p->batch_stride[2], q.batch_stride[1], sizeof q.batch_stride[1]);
    for (int i = 0; i < 2; i++) {
        p->out_stride[i] = q.out_stride[1 - i];
        p->a_stride[i] = q.b_stride[1 - i];
        p->b_stride[i] = q.a_stride[1 - i];
    }
}

static void describe(product *p, const icl_tensor *operands) {
    const int rank = operands[0].rank;
    size_t *matrix_stride[3] = {p->out_stride, p->a_stride, p->b_stride};

    p->out = host_elements(&operands[0]);
    p->a = host_elements(&operands[1]);
    p->b = host_elements(&operands[2]);
    p->m = operands[0].shape[rank - 2];
    p->n = operands[0].shape[rank - 1];
    p->k = operands[1].shape[rank - 1];
    for (int axis = 0; axis < 2; axis++) {
        const int from = rank - 4 + axis;
        p->batch[axis] = from < 0 ? 1 : operands[0].shape[from];
        for (int i = 0; i < 3; i++)
            p->batch_stride[i][axis] = from < 0 ? 0 : operands[i].stride[from];
    }
    for (int i = 0; i < 3; i++) {
        matrix_stride[i][0] = operands[i].stride[rank - 2];
        matrix_stride[i][1] = operands[i].stride[rank - 1];
    }
}

icl_status HOST(matmul)(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    const icl_matmul_params *given = params;
    const HOST(state) *state = host_state(backend);
    product p = {.kernels = state->kernels, .alpha = (real)given->alpha, .beta = (real)given->beta};

    describe(&p, operands);
    transpose_if_narrow(&p);
    const size_t batches = p.batch[0] * p.batch[1];
    const size_t work = batches * p.m * p.n * (p.k + 1);
    p.row_blocks = (p.m + BLOCK_ROWS - 1) / BLOCK_ROWS;
    p.slices = (p.k + SLICE_K - 1) / SLICE_K;
    p.columns = host_round_up(p.n, LANES);
    if (p.slices > 1 && batches * p.row_blocks < 16 && batches * p.m * p.columns <= LARGE_RESULT) {
        ICL_CHECK(HOST(scratch)(backend, batches * p.slices * p.m * p.columns * sizeof(real), &p.partial, error));
        HOST(run)(state, batches * p.slices, work, multiply_slices, &p);
        HOST(run)(state, batches, batches * p.slices * p.m * p.columns, combine_slices, &p);
    } else {
        HOST(run)(state, batches * p.row_blocks, work, multiply_blocks, &p);
    }
    return ICL_OK;
}

/* ---- Strict products ---- */

/*
 * Strict products are float on every backend, and each element is summed from left to right over all of k. Both
 * operands are packed as floats; the sums start at -0, to which adding the first product gives that product's own bits.
 */

#define STRICT_ROWS  64
#define STRICT_TERMS 128

typedef struct strict_product {
    const icl_strict_kernels *kernels;
    const icl_tensor *out, *a, *b;
    size_t m, n, k;
    bool lanes_are_rows; /* the lanes run over m, because n is too small to fill them */
} strict_product;

/* The operands of one matrix of the batch, as the kernel sees them: sums [rows][lanes]. */
typedef struct matrices {
    real *out;
    const real *a, *b;
    size_t out_row, out_lane, a_row, a_k, b_k, b_lane;
    size_t rows, lanes, k;
} matrices;

static size_t strict_offset(const icl_tensor *tensor, const icl_tensor *out, size_t index) {
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
    const size_t rows = smaller(STRICT_ROWS, x->rows - row), lanes = smaller(LANES, x->lanes - lane);
    float acc[STRICT_ROWS * LANES] = {0}, a[STRICT_ROWS * STRICT_TERMS], b[STRICT_TERMS * LANES];

    /* Lanes without a column multiply zeros. Only the rows of b that are used are cleared, because most products here
     * have only a few terms. */
    if (lanes < LANES)
        memset(b, 0, smaller(x->k, STRICT_TERMS) * LANES * sizeof *b);
    for (size_t i = 0; i < rows * LANES; i++)
        acc[i] = x->k > 0 ? -0.0f : 0.0f;
    for (size_t k = 0; k < x->k; k += STRICT_TERMS) {
        const size_t terms = smaller(STRICT_TERMS, x->k - k);
        pack(x->a + row * x->a_row + k * x->a_k, x->a_row, x->a_k, rows, terms, STRICT_TERMS, a);
        pack(x->b + k * x->b_k + lane * x->b_lane, x->b_k, x->b_lane, terms, lanes, LANES, b);
        kernels->gemm(a, STRICT_TERMS, 1, b, terms, acc, rows);
    }
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < lanes; j++)
            x->out[(row + i) * x->out_row + (lane + j) * x->out_lane] = (real)acc[i * LANES + j];
}

static matrices locate(const strict_product *p, size_t batch) {
    const int row = p->out->rank - 2, column = row + 1;
    real *out = host_elements(p->out) + strict_offset(p->out, p->out, batch);
    const real *a = host_elements(p->a) + strict_offset(p->a, p->out, batch);
    const real *b = host_elements(p->b) + strict_offset(p->b, p->out, batch);
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

/* Limits for a few lanes times one short vector, such as the labels of a sequence: such a product is too little work to
 * be packed, or to be divided among threads. */
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
    const strict_product *p = context;
    (void)thread;
    for (size_t item = first; item < last; item++) {
        const matrices x = locate(p, item);
        multiply_thin(&x);
    }
}

/* Item = (batch, block of rows, LANES lanes). */
static void multiply_items(void *context, size_t first, size_t last, size_t thread) {
    const strict_product *p = context;
    const size_t rows = p->lanes_are_rows ? p->n : p->m, lanes = p->lanes_are_rows ? p->m : p->n;
    const size_t row_blocks = (rows + STRICT_ROWS - 1) / STRICT_ROWS, panels = (lanes + LANES - 1) / LANES;
    (void)thread;
    for (size_t item = first; item < last; item++) {
        const matrices x = locate(p, item / panels / row_blocks);
        multiply_block(p->kernels, &x, item / panels % row_blocks * STRICT_ROWS, item % panels * LANES);
    }
}

icl_status HOST(matmul_strict)(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    const HOST(state) *state = host_state(backend);
    const int rank = operands[0].rank;
    strict_product p = {state->strict,
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
    const size_t blocks = (rows + STRICT_ROWS - 1) / STRICT_ROWS * ((lanes + LANES - 1) / LANES);
    HOST(run)
    (state, thin ? batches : batches * blocks, batches * p.m * p.n * (p.k + 1),
     thin ? multiply_thin_items : multiply_items, &p);
    return ICL_OK;
}
