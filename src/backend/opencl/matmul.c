/* Matrix products: by our own kernels, cl/matmul.cl, through CLBlast, and the choice between them. */
#include "backend/opencl/ops.h"
#include "backend/opencl/pool.h"
#include "backend/opencl/queue.h"
#include "backend/opencl/small.h"
#include "config.h"
#include "core/allocate.h"

#if ICL_HAVE_CLBLAST
#include <clblast_c.h>
#endif

/* ---- Our own kernels ---- */

#define DEPTH     256 /* rows of b that a work-item packs at a time */
#define ROW_CHUNK 128 /* rows of out that a unit computes */
#define TILE      32  /* rows and columns of a work-group's part of out on GPUs, */
#define WIDE      64  /* or this with fused multiply-adds, if out has many of each */
#define SPLIT     256 /* terms of a part of a long sum */
#define FEW_UNITS 64  /* a long sum is split if there are fewer units than this, or than fill a GPU */

/* A product with two leading axes for every operand, so that the kernels see rank 4; strides batch, batch, row,
 * column. */
typedef struct product {
    icl_view out, a, b;
    cl_uint4 shape; /* of out */
    cl_uint m, n, k;
    size_t tile;    /* TILE or WIDE; not used on CPUs */
    bool is_strict; /* of the kernels of CPUs */
} product;

static product product_of(const icl_tensor *operands) {
    const icl_tensor *out = &operands[0], *a = &operands[1];
    return (product){
        .out = icl_view_of(&operands[0]),
        .a = icl_view_of(&operands[1]),
        .b = icl_view_of(&operands[2]),
        .shape = icl_shape_of(out),
        .m = (cl_uint)out->shape[out->rank - 2],
        .n = (cl_uint)out->shape[out->rank - 1],
        .k = (cl_uint)a->shape[a->rank - 1],
    };
}

/* Swaps the operands: out = a b becomes out^T = b^T a^T. */
static void transpose(product *p) {
    const icl_view a = p->a;
    const cl_uint m = p->m;
    icl_view *views[] = {&p->out, &p->a, &p->b};
    p->a = p->b;
    p->b = a;
    p->m = p->n;
    p->n = m;
    for (int i = 0; i < 3; i++) {
        const cl_int row = views[i]->stride.s[2];
        views[i]->stride.s[2] = views[i]->stride.s[3];
        views[i]->stride.s[3] = row;
    }
}

static cl_uint blocks_of(cl_uint extent, size_t block) {
    return (cl_uint)((extent + block - 1) / block);
}

/* ---- Panels, on CPUs ---- */

#define MOST_PANELS 8  /* of a unit: with SPLIT terms they take half of a second cache of 1 MiB */
#define MOST_TILES  32 /* of rows of a unit */

/* Returns the rows of a tile, PANEL_ROWS of cl/matmul_panels.cl. */
static cl_uint tile_rows(const icl_opencl *opencl) {
    return opencl->lanes == 16 ? 12 : opencl->lanes == 8 ? 6 : 4;
}

/* The extents of a unit. Larger ones pack less; smaller ones keep every processor busy, for which two a processor
 * suffice. Sums do not depend on them. */
typedef struct panel_cut {
    cl_uint panels, rows, column_blocks, row_chunks;
} panel_cut;

static panel_cut cut_panels(const icl_opencl *opencl, const product *p, size_t parts) {
    const cl_uint panel = 2 * (cl_uint)opencl->lanes, tile = tile_rows(opencl);
    const size_t least = 2 * (size_t)opencl->backend->capabilities.compute_units;
    cl_uint panels = blocks_of(p->n, panel), tiles = blocks_of(p->m, tile);

    panels = panels < MOST_PANELS ? panels : MOST_PANELS;
    tiles = tiles < MOST_TILES ? tiles : MOST_TILES;
    for (;;) {
        const panel_cut cut = {panels, tiles * tile, blocks_of(p->n, panels * (size_t)panel),
                               blocks_of(p->m, tiles * (size_t)tile)};
        if (parts * cut.column_blocks * cut.row_chunks >= least || (panels == 1 && tiles == 1))
            return cut;
        if (panels > tiles)
            panels = (panels + 1) / 2;
        else
            tiles = (tiles + 1) / 2;
    }
}

/* As `launch`, by cl/matmul_panels.cl; cuts have only splits and their length. */
static icl_status launch_panels(icl_opencl *opencl, const product *p, cl_uint4 cuts, cl_int split_stride,
                                cl_float alpha, cl_float beta, icl_error *error) {
    const cl_uint inner_batch = p->shape.s[1], parts = p->shape.s[0] * inner_batch * cuts.s[2];
    const panel_cut cut = cut_panels(opencl, p, parts);
    const cl_uint4 sizes = {{p->m, p->n, p->k, cut.rows}};
    const cl_uint depth = p->k < SPLIT ? p->k + 1 : SPLIT, panel = 2 * (cl_uint)opencl->lanes;
    const cl_uint rows_kept = depth < p->k ? cut.rows * cut.panels : tile_rows(opencl);
    const cl_uint scratch_length = (depth + 4) * (1 + 2 * cut.panels) + 2 * rows_kept; /* vectors */
    const cl_uint units = parts * cut.column_blocks * cut.row_chunks;
    const double work = 2.0 * cut.rows * cut.panels * panel * (p->k < cuts.s[3] ? p->k : cuts.s[3]);
    icl_status status = ICL_OK;
    icl_block *scratch = NULL;

    cuts.s[0] = cut.column_blocks;
    cuts.s[1] = cut.row_chunks;
    ICL_TRY(icl_pool_take(opencl, icl_opencl_items(opencl, units) * scratch_length * opencl->lanes * sizeof(cl_float),
                          &scratch, error));
    ICL_TRY(ICL_LAUNCH(opencl, ICL_KERNEL_matmul_panels, units, error, ICL_VIEW(p->out), ICL_ARGUMENT(split_stride),
                       ICL_VIEW(p->a), ICL_VIEW(p->b), ICL_ARGUMENT(inner_batch), ICL_ARGUMENT(sizes),
                       ICL_ARGUMENT(cuts), ICL_ARGUMENT(depth), ICL_ARGUMENT(cut.panels), ICL_UNITS(units, work),
                       ICL_ARGUMENT(alpha), ICL_ARGUMENT(beta), ICL_MEMORY_ARGUMENT(scratch->memory),
                       ICL_ARGUMENT(scratch_length)));
done:
    icl_pool_give(opencl, scratch);
    return status;
}

/* Runs one launch; out may be a partial result for each of cuts.s[2] splits, split_stride apart. */
static icl_status launch(icl_opencl *opencl, const product *p, cl_uint4 cuts, cl_int split_stride, cl_uint units,
                         cl_float alpha, cl_float beta, icl_error *error) {
    const cl_uint inner_batch = p->shape.s[1], row_chunk = p->m < ROW_CHUNK ? (p->m + 3) / 4 * 4 : ROW_CHUNK;
    const cl_uint4 sizes = {{p->m, p->n, p->k, row_chunk}};
    const double rows = opencl->lanes == 1 ? (double)p->tile : row_chunk,
                 columns = opencl->lanes == 1 ? (double)p->tile : (double)opencl->lanes;
    const double work = 2 * rows * columns * (p->k < cuts.s[3] ? p->k : cuts.s[3]);
    icl_status status = ICL_OK;
    icl_block *scratch = NULL;

    if (opencl->lanes > 1 && !p->is_strict)
        return launch_panels(opencl, p, cuts, split_stride, alpha, beta, error);
    if (opencl->lanes == 1)
        return ICL_LAUNCH_ITEMS(opencl, p->tile == WIDE ? ICL_KERNEL_matmul_wide : ICL_KERNEL_matmul_tiles,
                                icl_opencl_items(opencl, (size_t)units * opencl->local_size), error, ICL_VIEW(p->out),
                                ICL_ARGUMENT(split_stride), ICL_VIEW(p->a), ICL_VIEW(p->b), ICL_ARGUMENT(inner_batch),
                                ICL_ARGUMENT(sizes), ICL_ARGUMENT(cuts), ICL_GROUP_UNITS(units, work),
                                ICL_ARGUMENT(alpha), ICL_ARGUMENT(beta));
    const cl_uint depth = p->k < DEPTH ? p->k + 1 : DEPTH;
    const cl_uint scratch_length = (cl_uint)((depth + row_chunk) * opencl->lanes);
    ICL_TRY(
        icl_pool_take(opencl, icl_opencl_items(opencl, units) * scratch_length * sizeof(cl_float), &scratch, error));
    ICL_TRY(ICL_LAUNCH(opencl, ICL_KERNEL_matmul_lanes, units, error, ICL_VIEW(p->out), ICL_ARGUMENT(split_stride),
                       ICL_VIEW(p->a), ICL_VIEW(p->b), ICL_ARGUMENT(inner_batch), ICL_ARGUMENT(sizes),
                       ICL_ARGUMENT(cuts), ICL_ARGUMENT(depth), ICL_UNITS(units, work), ICL_ARGUMENT(alpha),
                       ICL_ARGUMENT(beta), ICL_MEMORY_ARGUMENT(scratch->memory), ICL_ARGUMENT(scratch_length)));
done:
    icl_pool_give(opencl, scratch);
    return status;
}

/* Splits k: writes partial results into scratch, then their sum in order. */
static icl_status launch_splits(icl_opencl *opencl, const product *p, const icl_view *out, bool transposed,
                                cl_uint4 cuts, cl_uint units, cl_float alpha, cl_float beta, icl_error *error) {
    const cl_uint splits = cuts.s[2], batch = p->shape.s[0] * p->shape.s[1], elements = batch * p->m * p->n;
    product partial = *p;
    icl_status status = ICL_OK;
    icl_block *block = NULL;

    ICL_TRY(icl_pool_take(opencl, (size_t)elements * splits * sizeof(cl_float), &block, error));
    /* The partial results have out's order of axes, so that the combining launch walks through both alike. */
    const cl_int matrix = (cl_int)(p->m * p->n);
    partial.out = (icl_view){.memory = block->memory};
    partial.out.stride = transposed ? (cl_int4){{(cl_int)p->shape.s[1] * matrix, matrix, 1, (cl_int)p->m}}
                                    : (cl_int4){{(cl_int)p->shape.s[1] * matrix, matrix, (cl_int)p->n, 1}};
    ICL_TRY(launch(opencl, &partial, cuts, (cl_int)elements, units, 1.0F, 0.0F, error));
    ICL_TRY(ICL_LAUNCH(opencl, ICL_KERNEL_matmul_combine, elements, error, ICL_VIEW(*out), ICL_ARGUMENT(p->shape),
                       ICL_MEMORY_ARGUMENT(block->memory), ICL_ARGUMENT(splits), ICL_UNITS(elements, splits),
                       ICL_ARGUMENT(alpha), ICL_ARGUMENT(beta)));
done:
    icl_pool_give(opencl, block);
    return status;
}

/* Returns whether the tiles are wide: twice as many multiply-adds for each number that is loaded, but fewer
 * work-groups. */
static bool is_wide(const icl_opencl *opencl, const product *p, bool strict) {
    const size_t splits = p->k < 2 * SPLIT ? 1 : blocks_of(p->k, SPLIT); /* that few tiles would be cut into */
    const size_t tiles = (size_t)p->shape.s[0] * p->shape.s[1] * blocks_of(p->m, WIDE) * blocks_of(p->n, WIDE) * splits;
    return !strict && p->m > TILE && p->n > TILE &&
           icl_opencl_choose(opencl, ICL_CHOICE_TILES, tiles) == ICL_TILES_WIDE;
}

/* Returns the number of units below which a long sum is split: four work-groups for each of a GPU's compute units. */
static size_t few_units(const icl_opencl *opencl) {
    const size_t groups = 4 * (size_t)opencl->backend->capabilities.compute_units;
    return opencl->lanes == 1 && groups > FEW_UNITS ? groups : FEW_UNITS;
}

/* Returns whether a CPU's processors all have work without splits, whose partial results would only take time: the sums
 * are the same. */
static bool has_panels_for_all(const icl_opencl *opencl, const product *p) {
    const size_t batch = (size_t)p->shape.s[0] * p->shape.s[1];

    return opencl->lanes > 1 &&
           batch * blocks_of(p->n, 2 * opencl->lanes) * blocks_of(p->m, tile_rows(opencl)) >= 4 * opencl->max_items;
}

/* Multiplies by our own kernel, whatever the backend's choice of GEMM. */
static icl_status multiply_natively(icl_opencl *opencl, const icl_matmul_params *params, const icl_tensor *operands,
                                    bool strict, icl_error *error) {
    product p = product_of(operands);
    const icl_view out = p.out;
    const cl_float alpha = (cl_float)params->alpha, beta = (cl_float)params->beta;
    if (!strict && icl_small_takes_product(opencl, p.shape, p.k))
        return icl_small_add_product(opencl, (const icl_view[]){p.out, p.a, p.b}, p.shape, p.k, alpha, beta, error);
    p.tile = is_wide(opencl, &p, strict) ? WIDE : TILE;
    p.is_strict = strict;
    const size_t width = opencl->lanes > 1 ? opencl->lanes : p.tile;
    const size_t height = opencl->lanes == 1 ? p.tile : ROW_CHUNK;
    /* Lanes run along n, or along m if n would leave most of them idle ... */
    const bool transposed = opencl->lanes > 1 && p.n < opencl->lanes && p.m > p.n;

    /* ... unless the rows of a are contiguous: then packing costs more than idle lanes do. */
    const bool swap = transposed && (p.n * 2 <= opencl->lanes || p.a.stride.s[2] == 1) && p.n * 4 <= p.m &&
                      (p.n == 1 || p.a.stride.s[2] == 1);
    if (swap)
        transpose(&p);
    const cl_uint batch = p.shape.s[0] * p.shape.s[1];
    cl_uint4 cuts = {{blocks_of(p.n, width), blocks_of(p.m, height), 1, p.k > 0 ? p.k : 1}};
    const size_t units = (size_t)batch * cuts.s[0] * cuts.s[1];
    if (strict || p.k < 2 * SPLIT || units >= few_units(opencl) || has_panels_for_all(opencl, &p))
        return launch(opencl, &p, cuts, 0, (cl_uint)units, alpha, beta, error);
    cuts.s[2] = blocks_of(p.k, SPLIT);
    cuts.s[3] = SPLIT;
    return launch_splits(opencl, &p, &out, swap, cuts, (cl_uint)units * cuts.s[2], alpha, beta, error);
}

/* ---- CLBlast ---- */

#if ICL_HAVE_CLBLAST

/* A matrix as BLAS takes it: row-major with a leading dimension, or the transpose of one. Offsets, leading dimensions
 * and strides count elements. */
typedef struct blas_matrix {
    bool transposed;
    size_t leading, stride; /* stride: between the matrices of a batch */
} blas_matrix;

/* Returns false if neither axis is contiguous or rows overlap. */
static bool matrix_of(const icl_tensor *t, blas_matrix *result) {
    const size_t rows = t->shape[t->rank - 2], columns = t->shape[t->rank - 1];
    const size_t row = t->stride[t->rank - 2], column = t->stride[t->rank - 1];

    result->stride = t->rank == 3 ? t->stride[0] : 0;
    if ((column == 1 || columns == 1) && (row >= columns || rows == 1)) {
        result->transposed = false;
        result->leading = row >= columns ? row : columns;
        return true;
    }
    if ((row == 1 || rows == 1) && (column >= rows || columns == 1)) {
        result->transposed = true;
        result->leading = column >= rows ? column : rows;
        return true;
    }
    return false;
}

/* Returns whether CLBlast can express the product: rank 2, or rank 3 with no repeated out, and one contiguous axis in
 * each blas_matrix. */
static bool clblast_fits(const icl_tensor *operands) {
    blas_matrix out, a, b;
    const icl_tensor *left = &operands[1];
    return operands[0].rank <= 3 && left->shape[left->rank - 1] > 0 && matrix_of(&operands[0], &out) &&
           !out.transposed && matrix_of(left, &a) && matrix_of(&operands[2], &b) &&
           (operands[0].rank == 2 || out.stride > 0);
}

/* Queues the product. ICL_ERROR_INPUT if CLBlast cannot express it. */
static icl_status clblast_matmul(icl_opencl *opencl, const icl_matmul_params *params, const icl_tensor *operands,
                                 icl_error *error) {
    const icl_tensor *out = &operands[0], *left = &operands[1], *right = &operands[2];
    const size_t m = out->shape[out->rank - 2], n = out->shape[out->rank - 1];
    const size_t k = left->shape[left->rank - 1];
    const float alpha = (float)params->alpha, beta = (float)params->beta;
    const char *call;
    blas_matrix c, a, b;
    cl_event *event;
    CLBlastStatusCode code;

    if (!matrix_of(out, &c) || !matrix_of(left, &a) || !matrix_of(right, &b))
        return icl_fail(error, ICL_ERROR_INPUT, "matmul: CLBlast cannot express these strides");
    ICL_CHECK(icl_queue_flush(opencl, error));
    const CLBlastTranspose a_transpose = a.transposed ? CLBlastTransposeYes : CLBlastTransposeNo;
    const CLBlastTranspose b_transpose = b.transposed ? CLBlastTransposeYes : CLBlastTransposeNo;
    const icl_status status = icl_profile_next(opencl, &event, error); /* the event of its last kernel */
    if (status != ICL_OK)
        return status;
    if (out->rank == 2) {
        call = "CLBlastSgemm";
        code = CLBlastSgemm(CLBlastLayoutRowMajor, a_transpose, b_transpose, m, n, k, alpha, icl_memory_of(left),
                            left->offset, a.leading, icl_memory_of(right), right->offset, b.leading, beta,
                            icl_memory_of(out), out->offset, c.leading, &opencl->queue->handle, event);
    } else {
        call = "CLBlastSgemmStridedBatched";
        code = CLBlastSgemmStridedBatched(CLBlastLayoutRowMajor, a_transpose, b_transpose, m, n, k, alpha,
                                          icl_memory_of(left), left->offset, a.leading, a.stride, icl_memory_of(right),
                                          right->offset, b.leading, b.stride, beta, icl_memory_of(out), out->offset,
                                          c.leading, c.stride, out->shape[0], &opencl->queue->handle, event);
    }
    if (code != CLBlastSuccess)
        return icl_cl_fail(opencl, (int)code, call, error);
    icl_profile_add(opencl, event, false);
    return ICL_OK;
}

/* Sets the entries of CLBlast's database for "A100-PCIE-40GB" in single precision (src/database/kernels/ of CLBlast
 * 1.5.3): the kernels of small and of large products, and the third root of m n k from which a product is large. */
static void clblast_use_a100(const icl_opencl *opencl) {
    struct {
        const char *kernel;
        size_t count;
        const char *names[16];
        size_t values[16];
    } sets[] = {
        {"Xgemm",
         16,
         {"GEMMK", "KREG", "KWG", "KWI", "MDIMA", "MDIMC", "MWG", "NDIMB", "NDIMC", "NWG", "SA", "SB", "STRM", "STRN",
          "VWM", "VWN"},
         {0, 1, 32, 2, 8, 8, 32, 16, 16, 64, 1, 1, 0, 0, 4, 4}},
        {"XgemmDirect",
         10,
         {"KWID", "MDIMAD", "MDIMCD", "NDIMBD", "NDIMCD", "PADA", "PADB", "VWMD", "VWND", "WGD"},
         {8, 8, 16, 32, 16, 1, 1, 2, 1, 32}},
        {"GemmRoutine", 1, {"XGEMM_MIN_INDIRECT_SIZE"}, {1984}},
    };

    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        const CLBlastStatusCode code = CLBlastOverrideParameters(opencl->device, sets[i].kernel, CLBlastPrecisionSingle,
                                                                 sets[i].count, sets[i].names, sets[i].values);
        if (code != CLBlastSuccess)
            icl_log_write(&opencl->backend->log, ICL_LOG_WARNING,
                          "CLBlastOverrideParameters of %s on %s: %s; the device's own parameters serve",
                          sets[i].kernel, opencl->backend->capabilities.name, icl_cl_error_name((int)code));
    }
}

void icl_clblast_forget(void) {
    CLBlastClearCache();
}

#else /* no product fits CLBlast, so our own kernel serves every one */

static bool clblast_fits(const icl_tensor *operands) {
    (void)operands;
    return false;
}

static icl_status clblast_matmul(icl_opencl *opencl, const icl_matmul_params *params, const icl_tensor *operands,
                                 icl_error *error) {
    (void)opencl;
    (void)params;
    (void)operands;
    return icl_fail(error, ICL_ERROR_DEVICE, "matmul: this build has no CLBlast");
}

static void clblast_use_a100(const icl_opencl *opencl) {
    (void)opencl;
}

void icl_clblast_forget(void) {
}

#endif

/* ---- The choice ---- */

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Returns whether CLBlast serves the product: by the contest on this device if there was one, else by the table. That
 * takes CLBlast only on GPUs and not for batches. */
static bool prefers_clblast(const icl_opencl *opencl, const icl_tensor *operands) {
    const icl_tensor *out = &operands[0], *a = &operands[1];
    icl_sizes sizes = {{out->shape[out->rank - 2], out->shape[out->rank - 1], a->shape[a->rank - 1], 1}};

    if (opencl->clblast->wanted == ICL_GEMM_CLBLAST || opencl->clblast->serves_all)
        return true;
    for (int axis = 0; axis < out->rank - 2; axis++)
        sizes.of[3] *= out->shape[axis];
    const unsigned asked = icl_opencl_asked(opencl, ICL_CHOICE_GEMM, &sizes);
    if (asked != ICL_BY_TABLE)
        return asked == ICL_GEMM_CLBLAST;
    if (opencl->lanes > 1 || out->rank != 2)
        return false;
    const size_t least = smaller(smaller(sizes.of[0], sizes.of[1]), sizes.of[2]);
    return icl_opencl_choose(opencl, ICL_CHOICE_GEMM, least) == ICL_GEMM_CLBLAST;
}

/* Multiplies through CLBlast, or by our own kernel if that fails: a failed call has not touched out, because only the
 * last of its kernels writes it. */
static icl_status multiply_part(icl_opencl *opencl, const icl_matmul_params *params, const icl_tensor *operands,
                                icl_error *error) {
    icl_error why = {0};

    if (opencl->clblast->state == ICL_CLBLAST_REFUSED) /* an earlier part failed */
        return multiply_natively(opencl, params, operands, false, error);
    const icl_status status = clblast_matmul(opencl, params, operands, &why);
    if (status == ICL_OK)
        return ICL_OK;
    if (opencl->clblast->wanted == ICL_GEMM_CLBLAST)
        return icl_fail(error, status, "%s", why.message);
    opencl->clblast->state = ICL_CLBLAST_REFUSED;
    icl_clblast_forget();
    icl_log_write(&opencl->backend->log, ICL_LOG_WARNING, "%s; the native kernel serves from now on", why.message);
    return multiply_natively(opencl, params, operands, false, error);
}

#define BLOCK 128 /* rows or columns: whole tiles of each of CLBlast's kernels */

/*
 * Multiplies through CLBlast in parts. CLBlast makes one launch of any product, and launch.c cannot cut its kernels. So
 * a product that would take long on a small GPU is cut in two along its batch, or along the longer side of out, and so
 * on. Only sizes decide, because CLBlast chooses kernels by size, and bits must not follow from measured times.
 */
static icl_status multiply_by_clblast(icl_opencl *opencl, const icl_matmul_params *params, const icl_tensor *operands,
                                      icl_error *error) {
    const icl_tensor *out = &operands[0], *a = &operands[1], *b = &operands[2];
    const int row = out->rank - 2, column = out->rank - 1;
    const bool is_batch = out->rank == 3 && out->shape[0] > 1;
    const int axis = is_batch ? 0 : out->shape[row] >= out->shape[column] ? row : column;
    const size_t extent = out->shape[axis], block = is_batch ? 1 : BLOCK;
    const size_t half = (extent / 2 + block - 1) / block * block;

    if (2.0 * (double)icl_tensor_count(out) * (double)a->shape[column] <= opencl->clblast->operations ||
        extent < 2 * block)
        return multiply_part(opencl, params, operands, error);
    for (int part = 0; part < 2; part++) {
        const size_t first = part == 0 ? 0 : half, count = part == 0 ? half : extent - half;
        const icl_tensor parts[] = {icl_tensor_slice(*out, axis, first, count),
                                    axis == column ? *a : icl_tensor_slice(*a, axis, first, count),
                                    axis == row ? *b : icl_tensor_slice(*b, axis, first, count)};
        ICL_CHECK(multiply_by_clblast(opencl, params, parts, error));
    }
    return ICL_OK;
}

/* ---- Tests of CLBlast, before its first use and before its first large products ---- */

/* Fails if CLBlast was asked for; a user who accepts failed devices passes over that error. Otherwise our own kernel
 * takes its place, and the log says so. */
static icl_status refuse_clblast(icl_opencl *opencl, icl_status status, const icl_error *why, icl_error *error) {
    icl_clblast_forget();
    if (opencl->clblast->wanted == ICL_GEMM_CLBLAST)
        return icl_fail(error, status, "%s", why->message);
    opencl->clblast->state = status == ICL_ERROR_DEVICE ? ICL_CLBLAST_REFUSED : ICL_CLBLAST_UNTESTED;
    if (status != ICL_ERROR_DEVICE)
        return icl_fail(error, status, "%s", why->message);
    icl_log_write(&opencl->backend->log, ICL_LOG_WARNING, "%s; the native kernel serves instead", why->message);
    return ICL_OK;
}

/* Writes small whole numbers from -5 to 5: products and short sums of them are exact. */
static void write_integers(float *values, size_t count, size_t step) {
    for (size_t i = 0; i < count; i++)
        values[i] = (float)(i * step % 11) - 5.0F;
}

static icl_status compare(const icl_opencl *opencl, const size_t extents[3], const float *got, const float *expected,
                          icl_error *error) {
    for (size_t i = 0; i < extents[0] * extents[1]; i++)
        if (got[i] != expected[i])
            return icl_fail(error, ICL_ERROR_DEVICE,
                            "self-test of %s: matmul of %zu x %zu x %zu through CLBlast: element %zu is %.9g, expected "
                            "%.9g",
                            opencl->backend->capabilities.name, extents[0], extents[2], extents[1], i, (double)got[i],
                            (double)expected[i]);
    return ICL_OK;
}

/* Compares CLBlast's product of whole numbers, [m, k] by [k, n] with extents m, n and k, with our own kernel's. */
static icl_status test_extents(icl_opencl *opencl, const size_t extents[3], icl_error *error) {
    const icl_matmul_params params = {.alpha = 2, .beta = 0};
    const size_t m = extents[0], n = extents[1], k = extents[2];
    const size_t shapes[3][2] = {{m, n}, {m, k}, {k, n}};
    icl_tensor operands[3] = {{0}};
    icl_status status = ICL_OK;
    float *values = NULL;

    ICL_TRY(icl_allocate(m * k + k * n + 2 * m * n, sizeof *values, "self-test", &values, error));
    float *const a = values, *const b = a + m * k, *const got = b + k * n, *const expected = got + m * n;
    write_integers(a, m * k, 7);
    write_integers(b, k * n, 3);
    for (int i = 0; i < 3; i++)
        ICL_TRY(icl_tensor_create(opencl->backend, 2, shapes[i], &operands[i], error));
    ICL_TRY(icl_tensor_write(operands[1], a, error));
    ICL_TRY(icl_tensor_write(operands[2], b, error));
    ICL_TRY(multiply_natively(opencl, &params, operands, false, error));
    ICL_TRY(icl_tensor_read(operands[0], expected, error));
    ICL_TRY(clblast_matmul(opencl, &params, operands, error));
    ICL_TRY(icl_tensor_read(operands[0], got, error));
    ICL_TRY(compare(opencl, extents, got, expected, error));
done:
    for (int i = 0; i < 3; i++)
        icl_tensor_release(&operands[i]);
    icl_free(&values);
    return status;
}

/* Up to this size a product gets the same of CLBlast's kernels on every device, those of the first test. */
#define SMALL_PRODUCT ((size_t)64 * 64 * 64)

/* Extents are tested up to this: beyond it every device takes the kernels for large products, and sums of the test's
 * whole numbers are exact up to it. */
#define MOST_TESTED ((size_t)2048)

/* Tests each power of two of m n k with its first product. CLBlast has one kind of kernels for small products and
 * another for large ones, and which are large depends on the device; the latter gave wrong products on some GPUs before
 * 1.6.3 (its pull request 543). */
static icl_status test_class(icl_opencl *opencl, size_t m, size_t n, size_t k, icl_error *error) {
    const size_t extents[] = {smaller(m, MOST_TESTED), smaller(n, MOST_TESTED), smaller(k, MOST_TESTED)};
    const size_t size = extents[0] * extents[1] * extents[2];
    unsigned power = 0;

    while (size >> power > 1)
        power++;
    if (size <= SMALL_PRODUCT || opencl->clblast->tested >> power & 1u)
        return ICL_OK;
    ICL_CHECK(test_extents(opencl, extents, error));
    opencl->clblast->tested |= UINT64_C(1) << power;
    return ICL_OK;
}

/* Asks CLBlast for known answers before its first use, and before its first large product of each size; the next
 * product is [m, k] by [k, n]. A wrong answer fails if CLBlast was asked for; otherwise it is logged, and CLBlast is
 * refused from then on. */
static icl_status test_clblast(icl_opencl *opencl, size_t m, size_t n, size_t k, icl_error *error) {
    icl_clblast *clblast = opencl->clblast;
    const uint64_t ops = opencl->backend->statistics.ops; /* only users' ops are counted */
    const unsigned parameters = icl_opencl_choose(opencl, ICL_CHOICE_CLBLAST, 0);
    icl_error why = {0};
    icl_status status = ICL_OK;

    if (clblast->state == ICL_CLBLAST_SERVES && clblast->parameters != parameters) {
        icl_clblast_forget();
        clblast->state = ICL_CLBLAST_UNTESTED;
        clblast->tested = 0;
    }
    if (clblast->state == ICL_CLBLAST_UNTESTED) {
        if (parameters == ICL_CLBLAST_A100)
            clblast_use_a100(opencl);
        clblast->parameters = parameters;
        clblast->state = ICL_CLBLAST_SERVES;
        clblast->serves_all = true;
        status = opencl->programs->self_test(opencl->backend, ICL_TESTED_CLBLAST, &why);
        clblast->serves_all = false;
        opencl->backend->statistics.ops = ops;
    }
    if (status == ICL_OK && clblast->state == ICL_CLBLAST_SERVES)
        status = test_class(opencl, m, n, k, &why);
    return status == ICL_OK ? ICL_OK : refuse_clblast(opencl, status, &why, error);
}

icl_status icl_clblast_choose(icl_opencl *opencl, icl_error *error) {
    if (!ICL_HAVE_CLBLAST && opencl->clblast->wanted == ICL_GEMM_CLBLAST)
        return icl_fail(error, ICL_ERROR_INPUT, "gemm clblast: this build has no CLBlast, expected auto or native");
    if (!ICL_HAVE_CLBLAST || opencl->clblast->wanted == ICL_GEMM_NATIVE)
        opencl->clblast->state = ICL_CLBLAST_REFUSED;
    return opencl->clblast->wanted == ICL_GEMM_CLBLAST ? icl_opencl_test_program(opencl, ICL_TESTED_CLBLAST, error)
                                                       : ICL_OK;
}

/* ---- The ops ---- */

/* Returns whether the two leading axes of a tensor of rank 4 are like one axis, of which this is the stride. */
static bool batch_stride(const icl_tensor *t, size_t *stride) {
    *stride = t->shape[1] == 1 ? t->stride[0] : t->stride[1];
    return t->shape[0] == 1 || t->shape[1] == 1 || t->stride[0] == t->shape[1] * t->stride[1];
}

/* Views operands of rank 4 as operands of rank 3: all matrices at once, or the matrices of one outer index. Returns the
 * number of such views. */
static size_t view_batch(const icl_tensor operands[3], size_t outer, icl_tensor views[3]) {
    size_t strides[3];
    bool merges = true;

    for (int i = 0; i < 3; i++)
        merges = batch_stride(&operands[i], &strides[i]) && merges;
    for (int i = 0; i < 3; i++) {
        const icl_tensor *t = &operands[i];
        views[i] = (icl_tensor){.buffer = t->buffer,
                                .offset = t->offset + (merges ? 0 : outer * t->stride[0]),
                                .rank = 3,
                                .shape = {merges ? t->shape[0] * t->shape[1] : t->shape[1], t->shape[2], t->shape[3]},
                                .stride = {merges ? strides[i] : t->stride[1], t->stride[2], t->stride[3]}};
    }
    return merges ? 1 : operands[0].shape[0];
}

icl_status icl_opencl_matmul(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    const bool is_wanted = opencl->clblast->state != ICL_CLBLAST_REFUSED && prefers_clblast(opencl, operands);
    const icl_tensor *out = &operands[0], *left = &operands[1];
    icl_tensor views[3] = {operands[0], operands[1], operands[2]};
    const size_t count = out->rank == 4 ? view_batch(operands, 0, views) : 1;

    if (is_wanted && clblast_fits(views)) {
        ICL_CHECK(test_clblast(opencl, out->shape[out->rank - 2], out->shape[out->rank - 1],
                               left->shape[left->rank - 1], error));
        if (opencl->clblast->state == ICL_CLBLAST_SERVES) {
            for (size_t i = 0; i < count; i++) {
                if (i > 0)
                    view_batch(operands, i, views);
                ICL_CHECK(multiply_by_clblast(opencl, params, views, error));
            }
            return ICL_OK;
        }
    }
    return multiply_natively(opencl, params, operands, false, error);
}

icl_status icl_opencl_matmul_strict(icl_backend *backend, const void *params, const icl_tensor *operands,
                                    icl_error *error) {
    const icl_matmul_params plain = {.alpha = 1, .beta = 0};
    (void)params;
    return multiply_natively(icl_opencl_of(backend), &plain, operands, true, error);
}
