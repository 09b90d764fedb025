/*
 * Matrix products of any strides.
 *
 * A product is divided into blocks of rows and columns; see kernels/product.c for how one is computed. If only k is
 * long enough to be divided among the threads (gradients of small matrices), they take slices of k, and the slices'
 * sums are combined pairwise. What an element's sum is follows from the shapes.
 */
#include <string.h>

#include "backend/cpu/host.h"
#include "iclab/status.h"

#define BLOCK_COLUMNS 1024 /* columns of b that are packed together, for all rows of a block */
#define FEWEST_ROWS   56   /* in a block: with fewer, packing b would take too large a share */
#define SLICE_ROWS    128  /* fewer than 16 times as many rows may be too few to be divided */
#define SLICE_K       2048 /* terms in a slice, if k is cut into slices */
#define NARROW        8
#define THIN          3  /* columns of a result that lanes run along, not across, if there are */
#define THIN_TERMS    16 /* that many terms or more: elements that lie apart then cost less than empty lanes */
#define LARGE_RESULT  65536

typedef struct product {
    const HOST(kernels) * kernels;
    HOST(product) whole;       /* of the first matrices of the batch */
    size_t batch[2];           /* leading axes, outer first */
    size_t batch_stride[3][2]; /* of out, a, b */
    size_t rows, row_blocks, column_blocks, slices;
    real *partial; /* [batch][slices][rows][columns], unless the sums are complete at once */
    char *workspace;
    size_t workspace_bytes; /* of a thread */
} product;

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static size_t batch_offset(const product *p, int operand, size_t index) {
    return index / p->batch[1] * p->batch_stride[operand][0] + index % p->batch[1] * p->batch_stride[operand][1];
}

/* Returns part `index`, (batch, slice), of the whole product. Its sums are complete if there is only one slice. */
static HOST(product) part_of(const product *p, size_t index) {
    const size_t batch = index / p->slices, from = index % p->slices * SLICE_K;
    HOST(product) part = p->whole;
    part.out += batch_offset(p, 0, batch);
    part.a += batch_offset(p, 1, batch) + from * part.a_k;
    part.b += batch_offset(p, 2, batch) + from * part.b_k;
    if (p->slices > 1)
        part.k = smaller(SLICE_K, part.k - from);
    if (p->partial) {
        part.out = p->partial + index * part.rows * part.columns;
        part.out_row = part.columns;
        part.out_column = 1;
        part.alpha = 1;
        part.beta = 0;
    }
    return part;
}

/* Item = (part, block of columns, block of rows). Neighbouring blocks of rows are computed together. */
static void multiply_blocks(void *context, size_t first, size_t last, size_t thread) {
    const product *p = context;
    for (size_t item = first, count; item < last; item += count) {
        const size_t row = item % p->row_blocks * p->rows;
        const size_t column = item / p->row_blocks % p->column_blocks * BLOCK_COLUMNS;
        HOST(product) part = part_of(p, item / p->row_blocks / p->column_blocks);
        count = smaller(p->row_blocks - item % p->row_blocks, last - item);
        part.out += row * part.out_row + column * part.out_column;
        part.a += row * part.a_row;
        part.b += column * part.b_column;
        part.rows = smaller(count * p->rows, part.rows - row);
        part.columns = smaller(BLOCK_COLUMNS, part.columns - column);
        p->kernels->product(&part, p->workspace + thread * p->workspace_bytes);
    }
}

/* Item = batch: products that are not cut. Their offsets are counted up, because a division takes as long as a tiny
 * product. */
static void multiply_whole(void *context, size_t first, size_t last, size_t thread) {
    const product *p = context;
    size_t outer = first / p->batch[1], inner = first % p->batch[1];

    for (size_t item = first; item < last; item++) {
        HOST(product) part = p->whole;
        part.out += outer * p->batch_stride[0][0] + inner * p->batch_stride[0][1];
        part.a += outer * p->batch_stride[1][0] + inner * p->batch_stride[1][1];
        part.b += outer * p->batch_stride[2][0] + inner * p->batch_stride[2][1];
        p->kernels->product(&part, p->workspace + thread * p->workspace_bytes);
        if (++inner == p->batch[1]) {
            inner = 0;
            outer++;
        }
    }
}

/* Item = (batch, row): adds the slices up pairwise and stores the result. */
static void combine_slices(void *context, size_t first, size_t last, size_t thread) {
    const product *p = context;
    const HOST(product) *whole = &p->whole;
    const size_t columns = whole->columns, size = whole->rows * columns;
    (void)thread;
    for (size_t item = first; item < last; item++) {
        const size_t batch = item / whole->rows, row = item % whole->rows;
        real *partial = p->partial + batch * p->slices * size + row * columns;
        real *out = whole->out + batch_offset(p, 0, batch) + row * whole->out_row;
        for (size_t step = 1; step < p->slices; step *= 2)
            for (size_t slice = 0; slice + step < p->slices; slice += 2 * step)
                for (size_t i = 0; i < columns; i++)
                    partial[slice * size + i] += partial[(slice + step) * size + i];
        for (size_t i = 0; i < columns; i++) {
            const real scaled = whole->alpha * partial[i];
            real *to = out + i * whole->out_column;
            *to = whole->beta == 0 ? scaled : scaled + whole->beta * *to;
        }
    }
}

/* Makes it the product out^T = b^T a^T. */
static void transpose(product *p) {
    const HOST(product) x = p->whole;
    p->whole = (HOST(product)){.out = x.out,
                               .a = x.b,
                               .b = x.a,
                               .rows = x.columns,
                               .columns = x.rows,
                               .k = x.k,
                               .out_row = x.out_column,
                               .out_column = x.out_row,
                               .a_row = x.b_column,
                               .a_k = x.b_k,
                               .b_k = x.a_k,
                               .b_column = x.a_row,
                               .alpha = x.alpha,
                               .beta = x.beta};
    for (int i = 0; i < 2; i++) {
        const size_t stride = p->batch_stride[1][i];
        p->batch_stride[1][i] = p->batch_stride[2][i];
        p->batch_stride[2][i] = stride;
    }
}

static void describe(product *p, const icl_tensor *operands) {
    const int row = operands[0].rank - 2, column = row + 1;

    p->whole.out = host_elements(&operands[0]);
    p->whole.a = host_elements(&operands[1]);
    p->whole.b = host_elements(&operands[2]);
    p->whole.rows = operands[0].shape[row];
    p->whole.columns = operands[0].shape[column];
    p->whole.k = operands[1].shape[column];
    p->whole.out_row = operands[0].stride[row];
    p->whole.out_column = operands[0].stride[column];
    p->whole.a_row = operands[1].stride[row];
    p->whole.a_k = operands[1].stride[column];
    p->whole.b_k = operands[2].stride[row];
    p->whole.b_column = operands[2].stride[column];
    for (int axis = 0; axis < 2; axis++) {
        const int from = row - 2 + axis;
        p->batch[axis] = from < 0 ? 1 : operands[0].shape[from];
        for (int i = 0; i < 3; i++)
            p->batch_stride[i][axis] = from < 0 ? 0 : operands[i].stride[from];
    }
}

/* Divides the rows and columns such that each thread has some blocks. */
static void divide(product *p, size_t parts, size_t threads) {
    const size_t rows = p->whole.rows;
    p->column_blocks = (p->whole.columns + BLOCK_COLUMNS - 1) / BLOCK_COLUMNS;
    const size_t others = parts * p->column_blocks, wanted = threads == 1 ? 1 : (4 * threads + others - 1) / others;
    const size_t even = (rows + wanted - 1) / wanted;
    p->rows = even > FEWEST_ROWS ? even : FEWEST_ROWS;
    p->row_blocks = (rows + p->rows - 1) / p->rows;
}

/* Returns the number of slices of k: more than one if the result is too small to be divided among threads. */
static size_t count_slices(const HOST(product) * whole, size_t batches) {
    const size_t size = batches * whole->rows * host_round_up(whole->columns, LANES);
    const bool is_small = batches * ((whole->rows + SLICE_ROWS - 1) / SLICE_ROWS) < 16 && size <= LARGE_RESULT;
    return is_small && whole->k > SLICE_K ? (whole->k + SLICE_K - 1) / SLICE_K : 1;
}

icl_status HOST(matmul)(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    const icl_matmul_params *given = params;
    const HOST(state) *state = host_state(backend);

    if (state->bf16)
        return HOST(matmul_bf16)(backend, params, operands, error);
    product p = {.kernels = state->kernels, .whole = {.alpha = (real)given->alpha, .beta = (real)given->beta}};
    const HOST(product) *whole = &p.whole;

    describe(&p, operands);
    const size_t batches = p.batch[0] * p.batch[1], size = batches * whole->rows * whole->columns;
    if (size == 0)
        return ICL_OK;
    if (whole->columns < NARROW && whole->rows > whole->columns) /* lanes would be wasted */
        transpose(&p);
    p.slices = count_slices(whole, batches);
    if (whole->out_column != 1 && whole->out_row == 1 && !(whole->rows <= THIN && whole->k >= THIN_TERMS))
        transpose(&p);
    divide(&p, batches * p.slices, state->threads);
    const bool partial = p.slices > 1 || (whole->beta != 0 && whole->k > ICL_PRODUCT_TERMS);
    const size_t partial_bytes = partial ? host_round_up(size * p.slices * sizeof(real), 64) : 0;
    p.workspace_bytes = host_round_up(p.kernels->product_workspace(whole->columns, whole->k), 64);
    ICL_CHECK(HOST(scratch)(backend, partial_bytes + state->threads * p.workspace_bytes + 64, &p.workspace, error));
    if (partial) {
        p.partial = (real *)p.workspace;
        p.workspace += partial_bytes;
    }
    const size_t cuts = p.slices * p.column_blocks * p.row_blocks;
    HOST(run)
    (state, batches * cuts, size * (whole->k + 1), cuts == 1 && !partial ? multiply_whole : multiply_blocks, &p);
    if (partial)
        HOST(run)(state, batches * whole->rows, size * p.slices, combine_slices, &p);
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

static void multiply_block(const icl_strict_kernels *kernels, const matrices *factors, size_t row, size_t lane) {
    const size_t rows = smaller(STRICT_ROWS, factors->rows - row), lanes = smaller(LANES, factors->lanes - lane);
    float acc[STRICT_ROWS * LANES] = {0}, a[STRICT_ROWS * STRICT_TERMS], b[STRICT_TERMS * LANES];

    /* Lanes without a column multiply zeros. Only the rows of b that are used are cleared, because most products here
     * have only a few terms. */
    if (lanes < LANES)
        memset(b, 0, smaller(factors->k, STRICT_TERMS) * LANES * sizeof *b);
    for (size_t i = 0; i < rows * LANES; i++)
        acc[i] = factors->k > 0 ? -0.0f : 0.0f;
    for (size_t k = 0; k < factors->k; k += STRICT_TERMS) {
        const size_t terms = smaller(STRICT_TERMS, factors->k - k);
        pack(factors->a + row * factors->a_row + k * factors->a_k, factors->a_row, factors->a_k, rows, terms,
             STRICT_TERMS, a);
        pack(factors->b + k * factors->b_k + lane * factors->b_lane, factors->b_k, factors->b_lane, terms, lanes, LANES,
             b);
        kernels->gemm(a, STRICT_TERMS, 1, b, terms, acc, rows);
    }
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < lanes; j++)
            factors->out[(row + i) * factors->out_row + (lane + j) * factors->out_lane] = (real)acc[i * LANES + j];
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

static void multiply_thin(const matrices *factors) {
    for (size_t lane = 0; lane < factors->lanes; lane++) {
        const real *b = factors->b + lane * factors->b_lane;
        float sum = (float)factors->a[0] * (float)b[0];
        for (size_t k = 1; k < factors->k; k++)
            sum += (float)factors->a[k * factors->a_k] * (float)b[k * factors->b_k];
        factors->out[lane * factors->out_lane] = (real)sum;
    }
}

static void multiply_thin_items(void *context, size_t first, size_t last, size_t thread) {
    const strict_product *p = context;
    (void)thread;
    for (size_t item = first; item < last; item++) {
        const matrices factors = locate(p, item);
        multiply_thin(&factors);
    }
}

/* Item = (batch, block of rows, LANES lanes). */
static void multiply_items(void *context, size_t first, size_t last, size_t thread) {
    const strict_product *p = context;
    const size_t rows = p->lanes_are_rows ? p->n : p->m, lanes = p->lanes_are_rows ? p->m : p->n;
    const size_t row_blocks = (rows + STRICT_ROWS - 1) / STRICT_ROWS, panels = (lanes + LANES - 1) / LANES;
    (void)thread;
    for (size_t item = first; item < last; item++) {
        const matrices factors = locate(p, item / panels / row_blocks);
        multiply_block(p->kernels, &factors, item / panels % row_blocks * STRICT_ROWS, item % panels * LANES);
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
