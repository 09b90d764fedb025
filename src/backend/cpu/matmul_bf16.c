/*
 * Matrix products of operands that are rounded to bfloat16.
 *
 * b is packed once, into panels of LANES columns; each thread packs blocks of rows of a and multiplies them by the
 * panels. A block is so large that reading b again for each takes little of the time, and so small that it stays in the
 * second cache. An element's sum takes all of k in one order (kernels.h), so that neither the cuts nor the instruction
 * set change its bits, as long as no product or sum is subnormal; but for instructions on tiles, which have bits of
 * their own.
 */
#include <string.h>

#include "backend/cpu/host.h"
#include "iclab/status.h"

#define LEAST_ROWS  64     /* of a block: with fewer, reading b would take longer than multiplying by it */
#define MOST_ROWS   1024   /* of a block, with few terms */
#define BLOCK_TERMS 524288 /* numbers of a block, 1 MiB, unless LEAST_ROWS have more */
#define SLICE_K     1024   /* whole tiles; terms that are packed at once, while out keeps the sums */
#define PACKED_K    64     /* whole tiles */
#define NARROW      8      /* with fewer columns lanes would be wasted */

typedef struct operand {
    real *elements;
    size_t batch_stride[2]; /* leading axes, outer first */
    size_t row, column;     /* strides */
} operand;

typedef struct bf16_product {
    const HOST(bf16_kernels) * bf16;
    operand out, a, b;
    size_t m, n, k, pairs, panels, block_rows, row_blocks, inner_batch;
    size_t parts;         /* pieces of the panels, so that all threads have work */
    uint32_t *shared_b;   /* [panels][pairs][LANES], if all matrices of the batch have the same b; else NULL */
    uint32_t *own;        /* of each thread: packed a, block_rows * pairs; then b; then sums */
    size_t a_row, a_tile; /* strides of packed a, see bf16_block */
    size_t own_b, own_sums, own_size; /* offsets of b and of the sums, and of the next thread's own */
    real alpha, beta;
    bool is_direct;  /* the sums are kept in out itself */
    bool is_resumed; /* and continue from what it holds */
} bf16_product;

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static operand operand_of(const icl_tensor *tensor) {
    const int rank = tensor->rank;
    const size_t *stride = tensor->stride;
    return (operand){host_elements(tensor),
                     {rank > 3 ? stride[rank - 4] : 0, rank > 2 ? stride[rank - 3] : 0},
                     stride[rank - 2],
                     stride[rank - 1]};
}

static real *matrix_of(const bf16_product *p, const operand *matrix, size_t batch) {
    return matrix->elements + batch / p->inner_batch * matrix->batch_stride[0] +
           batch % p->inner_batch * matrix->batch_stride[1];
}

static operand transposed(operand matrix) {
    return (operand){matrix.elements, {matrix.batch_stride[0], matrix.batch_stride[1]}, matrix.column, matrix.row};
}

/* Packs panels [first, last) of a matrix of p.n columns. If the elements of a row are adjacent, all panels take a few
 * terms before any takes more, because rows of a large matrix lie pages apart. */
static void pack_panels(const bf16_product *p, const real *b, size_t first, size_t last, uint32_t *panels) {
    const size_t terms = p->b.column == 1 ? PACKED_K : p->k;

    for (size_t k = 0; k < p->k; k += terms)
        for (size_t panel = first; panel < last; panel++)
            p->bf16->pack_columns(b + k * p->b.row + panel * LANES * p->b.column, p->b.row, p->b.column,
                                  smaller(terms, p->k - k), smaller(LANES, p->n - panel * LANES),
                                  panels + (panel * p->pairs + k / 2) * LANES);
}

static void pack_shared_panels(void *context, size_t first, size_t last, size_t thread) {
    const bf16_product *p = context;
    (void)thread;
    pack_panels(p, p->b.elements, first, last, p->shared_b);
}

static void pack_a(const bf16_product *p, const real *a, size_t rows, uint32_t *to) {
    for (size_t row = 0; row < rows; row += LANES)
        p->bf16->pack_rows(a + row * p->a.row, p->a.row, p->a.column, smaller(LANES, rows - row), p->k,
                           to + row * p->pairs, p->a_row, p->a_tile);
}

/* Multiplies a block of rows by x.panels panels from `panel` on, and leaves the products at x.sums. */
static void multiply_rows(const bf16_product *p, const uint32_t *a, size_t rows, const uint32_t *b, size_t panel,
                          HOST(bf16_block) x) {
    const size_t pairs = p->bf16->in_tiles ? p->pairs : ICL_BF16_PAIRS;
    real *sums = x.sums;

    x.a_group = LANES * p->pairs;
    x.a_row = p->a_row;
    x.a_tile = p->a_tile;
    x.b_stride = p->pairs * LANES;
    for (size_t pair = 0; pair < p->pairs; pair += pairs)
        for (size_t row = 0; row < rows; row += ICL_BF16_ROWS) {
            x.a = a + row * p->pairs + pair / LANES * p->a_tile;
            x.b = b + (panel * p->pairs + pair) * LANES;
            x.rows = smaller(ICL_BF16_ROWS, rows - row);
            x.pairs = smaller(pairs, p->pairs - pair);
            x.is_first = pair == 0 && !p->is_resumed;
            x.sums = sums + row * x.sums_row;
            p->bf16->multiply(&x);
        }
}

/* out [rows][width] = alpha * sums + beta * out; beta = 0 never reads out. */
static void store(const bf16_product *p, const real *sums, size_t rows, size_t width, real *out) {
    for (size_t row = 0; row < rows; row++)
        for (size_t column = 0; column < width; column++) {
            real *to = out + row * p->out.row + column * p->out.column;
            const real product = p->alpha * sums[row * LANES + column];
            *to = p->beta == 0 ? product : product + p->beta * *to;
        }
}

/* Multiplies a block of rows by the panels [first, last) and stores the result at `out`. own: room for the sums of
 * ICL_BF16_PANELS panels, unless out keeps them. */
static void multiply_panels(const bf16_product *p, const uint32_t *a, size_t rows, const uint32_t *b, size_t first,
                            size_t last, real *own, real *out) {
    const size_t sums_panel = p->block_rows * LANES;

    for (size_t panel = first, panels; panel < last; panel += panels) {
        panels = smaller(ICL_BF16_PANELS, last - panel);
        if (p->is_direct) {
            multiply_rows(
                p, a, rows, b, panel,
                (HOST(bf16_block)){
                    .sums = out + panel * LANES, .panels = panels, .sums_row = p->out.row, .sums_panel = LANES});
            continue;
        }
        if (p->k == 0)
            memset(own, 0, ICL_BF16_PANELS * sums_panel * sizeof *own);
        multiply_rows(p, a, rows, b, panel,
                      (HOST(bf16_block)){.sums = own, .panels = panels, .sums_row = LANES, .sums_panel = sums_panel});
        for (size_t v = 0; v < panels; v++) {
            const size_t column = (panel + v) * LANES;
            store(p, own + v * sums_panel, rows, smaller(LANES, p->n - column), out + column * p->out.column);
        }
    }
}

/* Item = (batch, block of rows, part of the panels). */
static void multiply_items(void *context, size_t first, size_t last, size_t thread) {
    const bf16_product *p = context;
    uint32_t *own_a = p->own + thread * p->own_size, *own_b = own_a + p->own_b;
    real *own_sums = (real *)(void *)(own_a + p->own_sums);
    size_t packed = SIZE_MAX; /* the batch whose b lies in own_b */

    if (p->bf16->begin)
        p->bf16->begin();
    for (size_t item = first; item < last; item++) {
        const size_t block = item / p->parts, part = item % p->parts;
        const size_t batch = block / p->row_blocks, row = block % p->row_blocks * p->block_rows;
        const size_t rows = smaller(p->block_rows, p->m - row);
        pack_a(p, matrix_of(p, &p->a, batch) + row * p->a.row, rows, own_a);
        if (!p->shared_b && packed != batch)
            pack_panels(p, matrix_of(p, &p->b, batch), 0, p->panels, own_b);
        packed = batch;
        multiply_panels(p, own_a, rows, p->shared_b ? p->shared_b : own_b, p->panels * part / p->parts,
                        p->panels * (part + 1) / p->parts, own_sums, matrix_of(p, &p->out, batch) + row * p->out.row);
    }
    if (p->bf16->end)
        p->bf16->end();
}

/* Makes one matrix of a batch of matrices whose rows lie evenly, if they all have the same b: fewer ragged blocks. */
static void fold_batch(bf16_product *p, size_t *batches) {
    const operand *a = &p->a, *out = &p->out;
    const size_t outer = p->inner_batch * p->m;

    if (p->b.batch_stride[0] != 0 || p->b.batch_stride[1] != 0)
        return;
    if ((p->inner_batch == 1 || (a->batch_stride[1] == p->m * a->row && out->batch_stride[1] == p->m * out->row)) &&
        (*batches == p->inner_batch ||
         (a->batch_stride[0] == outer * a->row && out->batch_stride[0] == outer * out->row))) {
        p->m *= *batches;
        *batches = 1;
    }
}

static bf16_product describe(const HOST(state) * state, const icl_matmul_params *params, const icl_tensor *operands,
                             size_t *batches) {
    const int rank = operands[0].rank;
    const size_t *shape = operands[0].shape;
    bf16_product p = {.bf16 = state->bf16,
                      .out = operand_of(&operands[0]),
                      .a = operand_of(&operands[1]),
                      .b = operand_of(&operands[2]),
                      .m = shape[rank - 2],
                      .n = shape[rank - 1],
                      .k = operands[1].shape[rank - 1],
                      .inner_batch = rank > 2 ? shape[rank - 3] : 1,
                      .alpha = (real)params->alpha,
                      .beta = (real)params->beta};

    *batches = icl_tensor_count(&operands[0]) / (p.m * p.n);
    fold_batch(&p, batches);
    if (p.n < NARROW && p.m > p.n) { /* out^T = b^T a^T */
        const bf16_product q = p;
        p.m = q.n;
        p.n = q.m;
        p.out = transposed(q.out);
        p.a = transposed(q.b);
        p.b = transposed(q.a);
    }
    p.is_direct = p.alpha == 1 && p.beta == 0 && p.out.column == 1 && p.n % LANES == 0;
    p.panels = (p.n + LANES - 1) / LANES;
    return p;
}

/* Chooses the rows of a block: as many as the second cache holds, but so few that all threads have work. */
static void divide_rows(bf16_product *p, size_t batches, size_t threads) {
    size_t rows = smaller(MOST_ROWS, BLOCK_TERMS / (2 * p->pairs + 1));

    rows = smaller(rows, (batches * p->m + threads - 1) / threads);
    p->block_rows = host_round_up(rows < LEAST_ROWS ? LEAST_ROWS : rows, ICL_BF16_ROWS);
    p->row_blocks = (p->m + p->block_rows - 1) / p->block_rows;
}

/* Multiplies all of p.k. */
static icl_status multiply_terms(icl_backend *backend, bf16_product p, size_t batches, icl_error *error) {
    const HOST(state) *state = host_state(backend);
    const bool is_shared = batches == 1 || (p.b.batch_stride[0] == 0 && p.b.batch_stride[1] == 0);
    uint32_t *memory;

    p.pairs = p.bf16->in_tiles ? host_round_up(p.k, 2 * LANES) / 2 : (p.k + 1) / 2;
    p.a_row = p.bf16->in_tiles ? LANES : p.pairs;
    p.a_tile = p.bf16->in_tiles ? LANES * LANES : LANES;
    divide_rows(&p, batches, state->threads);
    const size_t b_size = p.panels * p.pairs * LANES, blocks = batches * p.row_blocks;
    p.parts = smaller(p.panels, (state->threads + blocks - 1) / blocks);
    p.own_b = p.block_rows * p.pairs;
    p.own_sums = p.own_b + (is_shared ? 0 : b_size);
    p.own_size =
        p.own_sums + (p.is_direct ? 0 : ICL_BF16_PANELS * p.block_rows * LANES * sizeof(real) / sizeof *memory);
    ICL_CHECK(HOST(scratch)(backend, ((is_shared ? b_size : 0) + state->threads * p.own_size + 1) * sizeof *memory,
                            &memory, error));
    p.own = memory + (is_shared ? b_size : 0);
    if (is_shared) {
        p.shared_b = memory;
        HOST(run)(state, p.panels, b_size, pack_shared_panels, &p);
    }
    HOST(run)(state, blocks * p.parts, batches * p.m * p.n * (p.k + 1), multiply_items, &p);
    return ICL_OK;
}

icl_status HOST(matmul_bf16)(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    size_t batches;
    bf16_product p = describe(host_state(backend), params, operands, &batches);

    while (p.is_direct && p.k > 0) {
        const size_t left = p.k;
        p.k = left > p.m ? smaller(left, SLICE_K) : left;
        ICL_CHECK(multiply_terms(backend, p, batches, error));
        p.a.elements += p.k * p.a.column;
        p.b.elements += p.k * p.b.row;
        p.is_resumed = true;
        p.k = left - p.k;
    }
    return p.is_resumed ? ICL_OK : multiply_terms(backend, p, batches, error);
}
