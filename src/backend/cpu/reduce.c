/*
 * Reductions over any axes, in a fixed tree.
 *
 * The reduced index space is cut into leaves, and the leaves are grouped into chunks. A kernel folds a leaf; the leaves
 * of a chunk, and then the chunks, are combined pairwise. All cuts follow from the shapes only, so the bits do not
 * depend on threads. If the fastest axis is reduced, a leaf is a run of one output; if it is kept, LANES adjacent
 * outputs are folded together.
 */
#include <stdint.h>
#include <string.h>

#include "backend/cpu/host.h"
#include "iclab/status.h"

#define LEAF_RUN     256 /* elements along a reduced axis: 16 roundings a lane */
#define LEAF_ROWS    16  /* rows of LANES kept columns */
#define CHUNK_LEAVES 64

typedef struct axis_list {
    int rank;
    size_t shape[ICL_MAX_RANK], in_stride[ICL_MAX_RANK], out_stride[ICL_MAX_RANK];
    size_t count;
} axis_list;

typedef struct reduction {
    const HOST(kernels) * kernels;
    icl_reduce_kind kind;
    icl_fold_kind fold;
    axis_list kept, reduced;
    const real *in;
    real *out;
    size_t width; /* adjacent outputs that are folded together: 1, or up to LANES along the last kept axis */
    size_t leaf;  /* elements of the last reduced axis in a leaf */
    size_t leaves_per_run, leaves, chunks;
    size_t tiles; /* groups of `width` outputs */
    size_t tiles_per_row;
    real *partial; /* [tiles][chunks][LANES], if there are several chunks */
} reduction;

/* ---- Indices ---- */

static void add_axis(axis_list *axes, size_t shape, size_t in_stride, size_t out_stride) {
    if (shape == 1)
        return;
    const int last = axes->rank - 1;
    if (last >= 0 && axes->in_stride[last] == in_stride * shape && axes->out_stride[last] == out_stride * shape) {
        axes->shape[last] *= shape;
        axes->in_stride[last] = in_stride;
        axes->out_stride[last] = out_stride;
        return;
    }
    axes->shape[axes->rank] = shape;
    axes->in_stride[axes->rank] = in_stride;
    axes->out_stride[axes->rank] = out_stride;
    axes->rank++;
}

static void split_axes(reduction *r, unsigned mask, const icl_tensor *out, const icl_tensor *in) {
    r->kept.count = r->reduced.count = 1;
    for (int axis = 0; axis < in->rank; axis++)
        if (mask >> axis & 1) {
            add_axis(&r->reduced, in->shape[axis], in->stride[axis], 0);
            r->reduced.count *= in->shape[axis];
        } else {
            add_axis(&r->kept, in->shape[axis], in->stride[axis], out->stride[axis]);
            r->kept.count *= in->shape[axis];
        }
}

/* Moves the axis along which the input is adjacent to the end, so that adjacent outputs can be folded together. */
static void adjacent_last(axis_list *axes) {
    for (int axis = 0; axis + 1 < axes->rank; axis++)
        if (axes->in_stride[axis] == 1) {
            const int last = axes->rank - 1;
            size_t *arrays[3] = {axes->shape, axes->in_stride, axes->out_stride};
            for (int i = 0; i < 3; i++) {
                const size_t moved = arrays[i][axis];
                arrays[i][axis] = arrays[i][last];
                arrays[i][last] = moved;
            }
        }
}

/* Returns the offset of element `index` of the axes, in row-major order. */
static size_t offset_of(const axis_list *axes, const size_t *stride, size_t index) {
    size_t offset = 0;
    for (int axis = axes->rank - 1; axis >= 0; axis--) {
        offset += index % axes->shape[axis] * stride[axis];
        index /= axes->shape[axis];
    }
    return offset;
}

/* ---- Combining ---- */

static real combine(icl_fold_kind fold, real a, real b) {
    if (fold == ICL_FOLD_MAX)
        return b > a || b != b ? b : a;
    return a + b;
}

/* A tree over a sequence of values: equal subtrees are joined, as in a binary counter. */
typedef struct sum_tree {
    icl_fold_kind fold;
    size_t width, count;
    real level[64][LANES];
} sum_tree;

static void tree_start(sum_tree *tree, icl_fold_kind fold, size_t width) {
    tree->fold = fold;
    tree->width = width;
    tree->count = 0;
}

static void tree_add(sum_tree *tree, const real *value) {
    int level = 0;
    real carried[LANES];
    memcpy(carried, value, tree->width * sizeof *value);
    for (; tree->count >> level & 1; level++)
        for (size_t i = 0; i < tree->width; i++)
            carried[i] = combine(tree->fold, tree->level[level][i], carried[i]);
    memcpy(tree->level[level], carried, tree->width * sizeof *carried);
    tree->count++;
}

static void tree_finish(const sum_tree *tree, real *result) {
    bool started = false;
    for (int level = 0; tree->count >> level; level++) {
        if (!(tree->count >> level & 1))
            continue;
        for (size_t i = 0; i < tree->width; i++)
            result[i] = started ? combine(tree->fold, tree->level[level][i], result[i]) : tree->level[level][i];
        started = true;
    }
}

/* ---- Folding ---- */

/* Finds where a tile of the outputs begins; returns how many outputs it has. */
static size_t locate_tile(const reduction *r, size_t tile, size_t *in_offset, size_t *out_offset) {
    const size_t last = r->kept.rank > 0 ? r->kept.shape[r->kept.rank - 1] : 1;
    const size_t column = tile % r->tiles_per_row * r->width;
    const size_t index = tile / r->tiles_per_row * last + column;
    *in_offset = offset_of(&r->kept, r->kept.in_stride, index);
    *out_offset = offset_of(&r->kept, r->kept.out_stride, index);
    return last - column < r->width ? last - column : r->width;
}

static void fold_chunk(const reduction *r, const real *in, size_t width, size_t chunk, real *result) {
    const int rank = r->reduced.rank;
    const size_t run = rank > 0 ? r->reduced.shape[rank - 1] : 1;
    const size_t step = rank > 0 ? r->reduced.in_stride[rank - 1] : 1;
    const size_t first = chunk * CHUNK_LEAVES;
    const size_t last = first + CHUNK_LEAVES < r->leaves ? first + CHUNK_LEAVES : r->leaves;
    sum_tree tree;

    tree_start(&tree, r->fold, width);
    for (size_t leaf = first; leaf < last; leaf++) {
        const size_t start = leaf % r->leaves_per_run * r->leaf;
        const size_t length = run - start < r->leaf ? run - start : r->leaf;
        const real *x =
            in + offset_of(&r->reduced, r->reduced.in_stride, leaf / r->leaves_per_run * run) + start * step;
        real value[LANES];
        if (r->width == 1)
            value[0] = r->kernels->fold_run[r->fold](x, length, step);
        else
            r->kernels->fold_columns[r->fold](x, length, step, width, value);
        if (last - first == 1) {
            memcpy(result, value, width * sizeof *value);
            return;
        }
        tree_add(&tree, value);
    }
    tree_finish(&tree, result);
}

static real finish_value(const reduction *r, real value) {
    if (r->kind == ICL_MEAN)
        return value / (real)r->reduced.count;
    if (r->kind == ICL_NORM)
        return REAL_SQRT(value);
    return value;
}

static void write_tile(const reduction *r, size_t out_offset, size_t width, const real *value) {
    const size_t step = r->kept.rank > 0 ? r->kept.out_stride[r->kept.rank - 1] : 0;
    for (size_t i = 0; i < width; i++)
        r->out[out_offset + i * step] = finish_value(r, value[i]);
}

static void fold_items(void *context, size_t first, size_t last, size_t thread) {
    const reduction *r = context;
    (void)thread;
    for (size_t item = first; item < last; item++) {
        const size_t tile = item / r->chunks, chunk = item % r->chunks;
        size_t in_offset, out_offset;
        const size_t width = locate_tile(r, tile, &in_offset, &out_offset);
        real value[LANES];
        fold_chunk(r, r->in + in_offset, width, chunk, value);
        if (r->chunks == 1)
            write_tile(r, out_offset, width, value);
        else
            memcpy(r->partial + item * LANES, value, width * sizeof *value);
    }
}

/* Folds outputs of a single leaf each: steps along the kept axis instead of computing every output's offset. */
static void fold_short(void *context, size_t first, size_t last, size_t thread) {
    const reduction *r = context;
    const int axis = r->kept.rank - 1;
    const size_t extent = axis >= 0 ? r->kept.shape[axis] : 1, run = r->reduced.count;
    const size_t in_step = axis >= 0 ? r->kept.in_stride[axis] : 0;
    const size_t out_step = axis >= 0 ? r->kept.out_stride[axis] : 0;
    const size_t step = r->reduced.rank > 0 ? r->reduced.in_stride[r->reduced.rank - 1] : 1;
    (void)thread;
    while (first < last) {
        const size_t left = extent - first % extent, count = last - first < left ? last - first : left;
        const real *in = r->in + offset_of(&r->kept, r->kept.in_stride, first);
        real *out = r->out + offset_of(&r->kept, r->kept.out_stride, first);
        for (size_t i = 0; i < count; i++)
            out[i * out_step] = finish_value(r, r->kernels->fold_run[r->fold](in + i * in_step, run, step));
        first += count;
    }
}

static void combine_chunks(void *context, size_t first, size_t last, size_t thread) {
    const reduction *r = context;
    (void)thread;
    for (size_t tile = first; tile < last; tile++) {
        size_t in_offset, out_offset;
        const size_t width = locate_tile(r, tile, &in_offset, &out_offset);
        sum_tree tree;
        real value[LANES] = {0};
        tree_start(&tree, r->fold, width);
        for (size_t chunk = 0; chunk < r->chunks; chunk++)
            tree_add(&tree, r->partial + (tile * r->chunks + chunk) * LANES);
        tree_finish(&tree, value);
        write_tile(r, out_offset, width, value);
    }
}

static void plan(reduction *r) {
    const size_t run = r->reduced.rank > 0 ? r->reduced.shape[r->reduced.rank - 1] : 1;
    bool columns = r->reduced.rank > 0 && r->reduced.in_stride[r->reduced.rank - 1] != 1;

    adjacent_last(&r->kept);
    const int last = r->kept.rank - 1;
    columns = columns && last >= 0 && r->kept.in_stride[last] == 1;
    r->width = columns ? LANES : 1;
    r->leaf = columns ? LEAF_ROWS : LEAF_RUN;
    r->leaves_per_run = (run + r->leaf - 1) / r->leaf;
    r->leaves = r->reduced.count / run * r->leaves_per_run;
    r->chunks = (r->leaves + CHUNK_LEAVES - 1) / CHUNK_LEAVES;
    r->tiles_per_row = ((last >= 0 ? r->kept.shape[last] : 1) + r->width - 1) / r->width;
    r->tiles = r->kept.count / (last >= 0 ? r->kept.shape[last] : 1) * r->tiles_per_row;
}

/* ---- What does not fold ---- */

static void find_largest(void *context, size_t first, size_t last, size_t thread) {
    const reduction *r = context;
    const int axis = r->reduced.rank - 1;
    const size_t run = axis >= 0 ? r->reduced.shape[axis] : 1;
    const size_t step = axis >= 0 ? r->reduced.in_stride[axis] : 0;
    (void)thread;
    for (size_t item = first; item < last; item++) {
        const real *in = r->in + offset_of(&r->kept, r->kept.in_stride, item);
        real largest = in[0];
        size_t at = 0;
        for (size_t start = 0; start < r->reduced.count; start += run) {
            const real *x = in + offset_of(&r->reduced, r->reduced.in_stride, start);
            for (size_t i = 0; i < run && largest == largest; i++)
                if (x[i * step] > largest || x[i * step] != x[i * step]) {
                    largest = x[i * step];
                    at = start + i;
                }
        }
        r->out[offset_of(&r->kept, r->kept.out_stride, item)] = (real)at;
    }
}

static void reduce_nothing(icl_backend *backend, icl_reduce_kind kind, const icl_tensor *out) {
    const real value = kind == ICL_MEAN ? (real)NAN : kind == ICL_MAX ? -(real)INFINITY : kind == ICL_ARGMAX ? -1 : 0;
    HOST(elementwise)(backend, host_state(backend)->kernels->fill, &value, out, 1);
}

icl_status HOST(reduce)(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    const icl_reduce_params *given = params;
    const HOST(state) *state = host_state(backend);
    icl_status status = ICL_OK;
    reduction r = {.kernels = state->kernels,
                   .kind = given->kind,
                   .fold = given->kind == ICL_MAX                                         ? ICL_FOLD_MAX
                           : given->kind == ICL_SUM_OF_SQUARES || given->kind == ICL_NORM ? ICL_FOLD_SQUARES
                                                                                          : ICL_FOLD_SUM,
                   .out = host_elements(&operands[0]),
                   .in = host_elements(&operands[1])};

    split_axes(&r, given->axes, &operands[0], &operands[1]);
    const size_t work = r.kept.count * r.reduced.count;
    if (work == 0) {
        reduce_nothing(backend, given->kind, &operands[0]);
        goto done;
    }
    if (given->kind == ICL_ARGMAX) {
        HOST(run)(state, r.kept.count, work, find_largest, &r);
        goto done;
    }
    plan(&r);
    if (r.width == 1 && r.leaves == 1) {
        HOST(run)(state, r.tiles, work, fold_short, &r);
        goto done;
    }
    if (r.chunks > 1)
        ICL_TRY(HOST(scratch)(backend, r.tiles * r.chunks * LANES * sizeof(real), &r.partial, error));
    HOST(run)(state, r.tiles * r.chunks, work, fold_items, &r);
    if (r.chunks > 1)
        HOST(run)(state, r.tiles, r.tiles * r.chunks * r.width, combine_chunks, &r);
done:
    return status;
}
