/* Reductions: cl/reduce.cl, in as many launches as the tree needs. Norms of rows: cl/normalize.cl. */
#include <math.h>
#include <stdlib.h>

#include "backend/opencl/launch.h"
#include "backend/opencl/ops.h"
#include "backend/opencl/pool.h"
#include "backend/opencl/small.h"
#include "iclab/ops_sequence.h"

enum { FLAG_MAX = 1, FLAG_SQUARES = 2, FLAG_ROOT = 4 };

#define LEAF 32 /* terms that a lane adds in sequence, as ops.h promises */

/* Blocks of LEAF * lanes terms in the tree of a unit of CPUs, for whose stack cl/reduce.cl has room. */
#define MOST_BLOCKS (1u << 18)

/* The input, with its axes split into those that are kept and those that are reduced. Missing axes have extent 1 and
 * stride 0. */
typedef struct split_axes {
    cl_mem memory;
    cl_uint offset;
    cl_uint4 kept, reduced;
    cl_int4 kept_stride, reduced_stride, out_stride; /* out_stride goes with kept */
    cl_uint merged;                                  /* the reduced axes are merged into the last */
    cl_uint outputs, length;
} split_axes;

static void add_axis(cl_uint4 *shape, cl_int4 *stride, int *used, size_t extent, size_t step) {
    const int last = ICL_MAX_RANK - *used;
    /* Axes are added from the last on, so an axis whose step covers all of the axis added before extends that one. */
    if (*used > 0 && (size_t)stride->s[last] * shape->s[last] == step) {
        shape->s[last] *= (cl_uint)extent;
        return;
    }
    ++*used;
    shape->s[ICL_MAX_RANK - *used] = (cl_uint)extent;
    stride->s[ICL_MAX_RANK - *used] = (cl_int)step;
}

static split_axes split(const icl_tensor *out, const icl_tensor *in, unsigned axes) {
    split_axes s = {
        .memory = icl_memory_of(in),
        .offset = (cl_uint)in->offset,
        .kept = {{1, 1, 1, 1}},
        .reduced = {{1, 1, 1, 1}},
        .outputs = 1,
        .length = 1,
    };
    int kept = 0, reduced = 0;
    for (int axis = in->rank - 1; axis >= 0; axis--) {
        if (axes >> axis & 1) {
            s.length *= (cl_uint)in->shape[axis];
            if (in->shape[axis] != 1)
                add_axis(&s.reduced, &s.reduced_stride, &reduced, in->shape[axis], in->stride[axis]);
        } else {
            kept++;
            s.outputs *= (cl_uint)in->shape[axis];
            s.kept.s[ICL_MAX_RANK - kept] = (cl_uint)in->shape[axis];
            s.kept_stride.s[ICL_MAX_RANK - kept] = (cl_int)in->stride[axis];
            s.out_stride.s[ICL_MAX_RANK - kept] = (cl_int)out->stride[axis];
        }
    }
    s.merged = reduced <= 1;
    return s;
}

/* ---- How launches share the work ---- */

#define GROUP 64 /* work-items of the groups of GPUs, as in cl/reduce.cl */

/* Chunks of the terms of each output, and units: on CPUs a chunk of `columns` neighbouring outputs, on GPUs `slots`
 * blocks of 64 / slots outputs. */
typedef struct shares {
    cl_uint chunk, chunks, units; /* chunk: terms of one */
    cl_uint columns;
    cl_uint slots, tiles; /* tiles: groups that all outputs fill */
    bool in_rows;         /* neighbouring work-items take neighbouring terms, not neighbouring outputs */
} shares;

/* Returns how many terms a unit of CPUs takes: whole blocks of LEAF * lanes, as many as the kernel's tree has room for,
 * and so that there are enough units for the device. It depends only on sizes and the kernel family, so the tree is the
 * same in every run. */
static cl_uint chunk_length(const icl_opencl *opencl, const split_axes *s) {
    const cl_uint block = (cl_uint)(LEAF * opencl->lanes), most = block * MOST_BLOCKS;
    if (s->outputs < 256)
        return block * 16;
    return s->length < block ? block : s->length < most ? s->length : most;
}

/* Returns how many neighbouring outputs a unit of CPUs makes: a vector of them if rows are summed. */
static cl_uint columns_of(const icl_opencl *opencl, const split_axes *s, cl_uint flags) {
    const int last = ICL_MAX_RANK - 1;
    const bool are_rows = s->merged && s->kept_stride.s[last] == 1 && s->reduced_stride.s[last] != 1;

    return flags == 0 && are_rows && s->kept.s[last] % opencl->lanes == 0 ? (cl_uint)opencl->lanes : 1;
}

static shares shares_of_cpu(const icl_opencl *opencl, const split_axes *s, cl_uint flags) {
    shares of = {.chunk = chunk_length(opencl, s), .columns = columns_of(opencl, s, flags)};

    of.chunks = (s->length + of.chunk - 1) / of.chunk;
    of.units = s->outputs / of.columns * of.chunks;
    return of;
}

static cl_uint power_from(cl_uint least) {
    cl_uint power = 1;
    while (power < least)
        power *= 2;
    return power;
}

/* Returns whether the terms of an output lie nearer to each other than neighbouring outputs do. */
static bool has_near_terms(const split_axes *s) {
    int last = ICL_MAX_RANK - 1;

    while (last > 0 && s->kept.s[last] == 1)
        last--;
    return s->outputs == 1 || abs(s->reduced_stride.s[ICL_MAX_RANK - 1]) < abs(s->kept_stride.s[last]);
}

/* Returns how many launches sum `terms` of each output, if groups take `slots` blocks. */
static cl_uint launches_of(cl_uint terms, cl_uint slots) {
    cl_uint launches = 0;
    do {
        terms = (terms + slots * LEAF - 1) / (slots * LEAF);
        launches++;
    } while (terms > 1);
    return launches;
}

/* Returns how many neighbouring outputs a group takes: as many as fill whole lines of memory, 32, or as few as 8 if
 * that saves a launch. */
static cl_uint width_of(const split_axes *s) {
    const cl_uint most = power_from(s->outputs < 32 ? s->outputs : 32);
    cl_uint best = most;

    for (cl_uint width = most / 2; width >= 8; width /= 2)
        if (launches_of(s->length, GROUP / width) < launches_of(s->length, GROUP / best))
            best = width;
    return best;
}

/* Short rows are no worse if each work-item walks through its own. Nothing of this changes the tree. */
static shares shares_of_gpu(const split_axes *s) {
    const cl_uint blocks = (s->length + LEAF - 1) / LEAF;
    shares of = {.columns = 1, .in_rows = has_near_terms(s) && s->length >= 16};
    const cl_uint most = of.in_rows ? GROUP : GROUP / width_of(s);

    of.slots = blocks < most ? power_from(blocks) : most;
    of.chunk = of.slots * LEAF;
    of.chunks = (blocks + of.slots - 1) / of.slots;
    of.tiles = (s->outputs + GROUP / of.slots - 1) / (GROUP / of.slots);
    of.units = of.tiles * of.chunks;
    return of;
}

static shares shares_of(const icl_opencl *opencl, const split_axes *s, cl_uint flags) {
    return opencl->lanes > 1 ? shares_of_cpu(opencl, s, flags) : shares_of_gpu(s);
}

/* ---- Sums and maxima ---- */

#define SPLIT_ARGUMENTS(s)                                                                                             \
    ICL_ARGUMENT((s)->kept_stride), ICL_ARGUMENT((s)->kept), ICL_ARGUMENT((s)->reduced_stride),                        \
        ICL_ARGUMENT((s)->reduced), ICL_ARGUMENT((s)->merged), ICL_ARGUMENT((s)->length)

/* Runs one launch: chunks of s are reduced to out[output, chunk]. */
static icl_status launch(icl_opencl *opencl, const split_axes *s, const shares *by, cl_uint leaf, cl_uint flags,
                         cl_float divisor, const icl_view *out, cl_int chunk_stride, icl_error *error) {
    if (opencl->lanes > 1)
        return ICL_LAUNCH(opencl, ICL_KERNEL_reduce, by->units, error, ICL_VIEW(*out), ICL_ARGUMENT(chunk_stride),
                          ICL_MEMORY_ARGUMENT(s->memory), ICL_ARGUMENT(s->offset), SPLIT_ARGUMENTS(s),
                          ICL_ARGUMENT(by->chunk), ICL_ARGUMENT(by->chunks), ICL_UNITS(by->units, by->chunk),
                          ICL_ARGUMENT(leaf), ICL_ARGUMENT(flags), ICL_ARGUMENT(divisor), ICL_ARGUMENT(by->columns));
    const icl_kernel kernel = by->in_rows ? ICL_KERNEL_reduce_rows : ICL_KERNEL_reduce_columns;
    const cl_uint4 share = {{s->outputs, by->slots, by->tiles, by->chunks}};
    const cl_uint in_pairs = leaf == 1;
    return ICL_LAUNCH_ITEMS(opencl, kernel, icl_opencl_group_items(opencl, by->units), error, ICL_VIEW(*out),
                            ICL_ARGUMENT(chunk_stride), ICL_MEMORY_ARGUMENT(s->memory), ICL_ARGUMENT(s->offset),
                            SPLIT_ARGUMENTS(s), ICL_ARGUMENT(share), ICL_GROUP_UNITS(by->units, GROUP * LEAF),
                            ICL_ARGUMENT(in_pairs), ICL_ARGUMENT(flags), ICL_ARGUMENT(divisor));
}

/* Returns row-major strides of the kept axes, with a step of `innermost` elements on the last one. */
static cl_int4 contiguous_strides(cl_uint4 shape, cl_uint innermost) {
    cl_int4 stride = {{0}};
    cl_uint step = innermost;
    for (int axis = ICL_MAX_RANK - 1; axis >= 0; axis--) {
        stride.s[axis] = (cl_int)step;
        step *= shape.s[axis];
    }
    return stride;
}

/* Makes the partial results of s in `memory` the elements to reduce: those of an output side by side on CPUs, those of
 * a chunk on GPUs, so that neighbouring outputs stay neighbours. */
static split_axes partial_results(const icl_opencl *opencl, split_axes s, cl_uint chunks, cl_mem memory) {
    const bool by_output = opencl->lanes > 1;

    s.memory = memory;
    s.offset = 0;
    s.kept_stride = contiguous_strides(s.kept, by_output ? chunks : 1);
    s.reduced = (cl_uint4){{1, 1, 1, chunks}};
    s.reduced_stride = (cl_int4){{0, 0, 0, by_output ? 1 : (cl_int)s.outputs}};
    s.merged = 1;
    s.length = chunks;
    return s;
}

/* leaf: terms in sequence, LEAF, or 1 of partial results. */
static icl_status reduce_tree(icl_opencl *opencl, split_axes s, icl_reduce_kind kind, cl_uint leaf, const icl_view *out,
                              icl_error *error) {
    const cl_uint last = kind == ICL_NORM ? FLAG_ROOT : 0;
    const cl_float divisor = kind == ICL_MEAN ? (cl_float)s.length : 1.0F;
    cl_uint flags = kind == ICL_MAX ? FLAG_MAX : kind == ICL_SUM_OF_SQUARES || kind == ICL_NORM ? FLAG_SQUARES : 0;
    icl_status status = ICL_OK;
    icl_block *from = NULL, *to = NULL;

    for (;;) {
        const shares by = shares_of(opencl, &s, flags);
        if (by.chunks == 1) {
            ICL_TRY(launch(opencl, &s, &by, leaf, flags | last, divisor, out, 0, error));
            break;
        }
        ICL_TRY(icl_pool_take(opencl, (size_t)s.outputs * by.chunks * sizeof(cl_float), &to, error));
        const split_axes next = partial_results(opencl, s, by.chunks, to->memory);
        const icl_view partial = {.memory = to->memory, .stride = next.kept_stride};
        ICL_TRY(launch(opencl, &s, &by, leaf, flags, 1.0F, &partial, next.reduced_stride.s[ICL_MAX_RANK - 1], error));
        icl_pool_give(opencl, from);
        from = to;
        to = NULL;
        s = next;
        flags &= FLAG_MAX;
        leaf = 1;
    }
done:
    icl_pool_give(opencl, from);
    icl_pool_give(opencl, to);
    return status;
}

/* Sums the rows of in [rows, columns], `step` elements apart from element `first` on, in pairs of equal size, smaller
 * ones last. out [columns]: its last stride counts. */
static icl_status add_in_pairs(icl_opencl *opencl, const icl_view *out, cl_mem in, cl_uint first, cl_uint rows,
                               cl_uint step, cl_uint columns, icl_error *error) {
    const split_axes s = {.memory = in,
                          .offset = first,
                          .kept = {{1, 1, 1, columns}},
                          .reduced = {{1, 1, 1, rows}},
                          .kept_stride = {{0, 0, 0, 1}},
                          .reduced_stride = {{0, 0, 0, (cl_int)step}},
                          .merged = 1,
                          .outputs = columns,
                          .length = rows};
    return reduce_tree(opencl, s, ICL_SUM, 1, out, error);
}

/* ---- Places of maxima ---- */

static icl_status argmax_of_cpu(icl_opencl *opencl, const split_axes *s, const icl_view *out, icl_error *error) {
    const cl_uint chunk = 1024, chunks = (s->length + chunk - 1) / chunk, units = s->outputs * chunks;
    icl_status status = ICL_OK;
    icl_block *best = NULL, *where = NULL;

    ICL_TRY(icl_pool_take(opencl, units * sizeof(cl_float), &best, error));
    ICL_TRY(icl_pool_take(opencl, units * sizeof(cl_uint), &where, error));
    ICL_TRY(ICL_LAUNCH(opencl, ICL_KERNEL_argmax_chunks, units, error, ICL_MEMORY_ARGUMENT(best->memory),
                       ICL_MEMORY_ARGUMENT(where->memory), ICL_MEMORY_ARGUMENT(s->memory), ICL_ARGUMENT(s->offset),
                       ICL_ARGUMENT(s->kept_stride), ICL_ARGUMENT(s->kept), ICL_ARGUMENT(s->reduced_stride),
                       ICL_ARGUMENT(s->reduced), ICL_ARGUMENT(s->length), ICL_ARGUMENT(chunk), ICL_ARGUMENT(chunks),
                       ICL_UNITS(units, chunk)));
    ICL_TRY(ICL_LAUNCH(opencl, ICL_KERNEL_argmax_final, s->outputs, error, ICL_VIEW(*out), ICL_ARGUMENT(s->kept),
                       ICL_MEMORY_ARGUMENT(best->memory), ICL_MEMORY_ARGUMENT(where->memory), ICL_ARGUMENT(chunks),
                       ICL_UNITS(s->outputs, chunks)));
done:
    icl_pool_give(opencl, best);
    icl_pool_give(opencl, where);
    return status;
}

/* The largest elements of chunks and their indices. */
typedef struct candidates {
    icl_block *best, *where;
} candidates;

static void give_candidates(icl_opencl *opencl, candidates *of) {
    icl_pool_give(opencl, of->best);
    icl_pool_give(opencl, of->where);
    *of = (candidates){NULL, NULL};
}

/* from: the elements of s, if they are candidates. to: where those of the chunks go, unless there is only one. Any
 * memory is passed for what is absent. */
static icl_status launch_argmax(icl_opencl *opencl, const split_axes *s, const shares *by, const candidates *from,
                                const candidates *to, const icl_view *out, icl_error *error) {
    cl_mem indices = from->where ? from->where->memory : s->memory;
    cl_mem best = to->best ? to->best->memory : out->memory, where = to->where ? to->where->memory : out->memory;
    const cl_uint4 share = {{s->outputs, by->slots, by->tiles, by->chunks}};
    const cl_uint has_indices = from->where != NULL, in_rows = by->in_rows;

    return ICL_LAUNCH_ITEMS(opencl, ICL_KERNEL_argmax_teams, icl_opencl_group_items(opencl, by->units), error,
                            ICL_VIEW(*out), ICL_MEMORY_ARGUMENT(best), ICL_MEMORY_ARGUMENT(where),
                            ICL_MEMORY_ARGUMENT(s->memory), ICL_ARGUMENT(s->offset), ICL_MEMORY_ARGUMENT(indices),
                            ICL_ARGUMENT(has_indices), SPLIT_ARGUMENTS(s), ICL_ARGUMENT(share),
                            ICL_GROUP_UNITS(by->units, GROUP * LEAF), ICL_ARGUMENT(in_rows));
}

static icl_status argmax_of_gpu(icl_opencl *opencl, split_axes s, const icl_view *out, icl_error *error) {
    candidates from = {NULL, NULL}, to = {NULL, NULL};
    icl_status status = ICL_OK;

    for (;;) {
        const shares by = shares_of(opencl, &s, FLAG_MAX);
        if (by.chunks > 1) {
            const size_t count = (size_t)s.outputs * by.chunks;
            ICL_TRY(icl_pool_take(opencl, count * sizeof(cl_float), &to.best, error));
            ICL_TRY(icl_pool_take(opencl, count * sizeof(cl_uint), &to.where, error));
        }
        ICL_TRY(launch_argmax(opencl, &s, &by, &from, &to, out, error));
        if (by.chunks == 1)
            break;
        give_candidates(opencl, &from);
        from = to;
        to = (candidates){NULL, NULL};
        s = partial_results(opencl, s, by.chunks, from.best->memory);
    }
done:
    give_candidates(opencl, &from);
    give_candidates(opencl, &to);
    return status;
}

/* Writes the value of a reduction over nothing (ops.h). */
static double of_nothing(icl_reduce_kind kind) {
    return kind == ICL_MEAN ? (double)NAN : kind == ICL_MAX ? -(double)INFINITY : kind == ICL_ARGMAX ? -1 : 0;
}

icl_status icl_opencl_reduce(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    const icl_reduce_params *p = params;
    const split_axes s = split(&operands[0], &operands[1], p->axes);
    icl_view out = icl_view_of(&operands[0]);

    if (s.length == 0) {
        const double value = of_nothing(p->kind);
        return icl_opencl_fill(backend, &value, operands, error);
    }
    out.stride = s.out_stride;
    if (p->kind != ICL_ARGMAX)
        return reduce_tree(opencl, s, p->kind, LEAF, &out, error);
    return opencl->lanes > 1 ? argmax_of_cpu(opencl, &s, &out, error) : argmax_of_gpu(opencl, s, &out, error);
}

#define ROWS_OF_SUM   64   /* as ops_sequence.h promises */
#define FORWARD_WORK  10.0 /* approximate operations for an element */
#define BACKWARD_WORK 30.0

/* Operands of normalize, and of normalize_backward. */
enum { OUT = 0, IN, GAIN, SHIFT };
enum { D_IN = 0, D_GAIN, D_SHIFT, D_OUT, OF_IN, OF_GAIN };
/* ---- Norms ---- */

enum { HAS_GAIN = 1, HAS_SHIFT = 2 }; /* as in cl/normalize.cl */

/* What the kernels need to know about the rows. */
typedef struct normalization {
    icl_teams teams;
    cl_uint kind;
    cl_float share, epsilon;
} normalization;

static normalization describe(const icl_normalize_params *params, const icl_tensor *rows) {
    const size_t n = rows->shape[rows->rank - 1];
    return (normalization){.teams = icl_teams_of(rows),
                           .kind = (cl_uint)params->kind,
                           .share = params->kind == ICL_NORM_UNIT ? 1.0F : (cl_float)n,
                           .epsilon = (cl_float)params->epsilon};
}

/* A vector as kernels take it; if it is absent, any other memory is passed. */
typedef struct vector {
    cl_mem memory;
    cl_uint offset;
    cl_int stride;
} vector;

static vector vector_of(const icl_tensor *tensor, const icl_tensor *any) {
    if (!tensor->buffer)
        return (vector){icl_memory_of(any), 0, 0};
    return (vector){icl_memory_of(tensor), (cl_uint)tensor->offset, (cl_int)tensor->stride[0]};
}

#define VECTOR(of) ICL_MEMORY_ARGUMENT((of).memory), ICL_ARGUMENT((of).offset), ICL_ARGUMENT((of).stride)

static icl_view view_of_vector(const vector *part) {
    return (icl_view){.memory = part->memory, .offset = part->offset, .stride = {{0, 0, 0, part->stride}}};
}

/* Completes the description of rows for a list of small operations; returns whether they are small enough for it. */
static bool is_small(const icl_opencl *opencl, const normalization *norm, icl_small_norm *small) {
    small->count = norm->teams.shape.s[3];
    small->kind = norm->kind;
    small->share = norm->share;
    small->epsilon = norm->epsilon;
    return icl_small_takes_rows(opencl, small->views, norm->teams.shape, &small->rows);
}

icl_status icl_opencl_normalize(icl_backend *backend, const void *params, const icl_tensor *operands,
                                icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    const normalization norm = describe(params, &operands[OUT]);
    const icl_view out = icl_view_of(&operands[OUT]), in = icl_view_of(&operands[IN]);
    const vector gain = vector_of(&operands[GAIN], &operands[IN]), shift = vector_of(&operands[SHIFT], &operands[IN]);
    const cl_uint flags = (operands[GAIN].buffer ? HAS_GAIN : 0) | (operands[SHIFT].buffer ? HAS_SHIFT : 0);
    const double work = FORWARD_WORK * norm.teams.shape.s[3];
    icl_small_norm small = {.views = {out, in, view_of_vector(&gain), view_of_vector(&shift)}, .flags = flags};

    if (is_small(opencl, &norm, &small))
        return icl_small_add_rows(opencl, &small, error);
    if (opencl->lanes > 1)
        return ICL_LAUNCH(opencl, ICL_KERNEL_normalize_lanes, norm.teams.rows, error, ICL_VIEW(out), ICL_VIEW(in),
                          VECTOR(gain), VECTOR(shift), ICL_ARGUMENT(norm.teams.shape), ICL_UNITS(norm.teams.rows, work),
                          ICL_ARGUMENT(norm.kind), ICL_ARGUMENT(flags), ICL_ARGUMENT(norm.share),
                          ICL_ARGUMENT(norm.epsilon));
    return ICL_LAUNCH_ITEMS(opencl, ICL_KERNEL_normalize_teams, icl_team_items(opencl, &norm.teams), error,
                            ICL_VIEW(out), ICL_VIEW(in), VECTOR(gain), VECTOR(shift), ICL_TEAMS(norm.teams, work),
                            ICL_ARGUMENT(norm.kind), ICL_ARGUMENT(flags), ICL_ARGUMENT(norm.share),
                            ICL_ARGUMENT(norm.epsilon));
}

/* ---- Backward ---- */

/* The arguments that both families of kernels take. */
typedef struct backward {
    normalization x;
    icl_view d_in, d_out, in;
    vector gain;
    cl_uint flags, blocks, is_summed;
} backward;

static icl_status launch_lanes(icl_opencl *opencl, const backward *b, const icl_block *sums, icl_error *error) {
    const normalization *norm = &b->x;
    const double work = BACKWARD_WORK * norm->teams.shape.s[3] * ROWS_OF_SUM;
    cl_mem memory = sums ? sums->memory : b->in.memory;

    return ICL_LAUNCH(opencl, ICL_KERNEL_normalize_backward_lanes, b->blocks, error, ICL_VIEW(b->d_in),
                      ICL_VIEW(b->d_out), ICL_VIEW(b->in), VECTOR(b->gain), ICL_ARGUMENT(norm->teams.shape),
                      ICL_ARGUMENT(norm->teams.rows), ICL_UNITS(b->blocks, work), ICL_ARGUMENT(norm->kind),
                      ICL_ARGUMENT(b->flags), ICL_ARGUMENT(norm->share), ICL_ARGUMENT(norm->epsilon),
                      ICL_MEMORY_ARGUMENT(memory), ICL_ARGUMENT(b->is_summed));
}

static icl_status launch_teams(icl_opencl *opencl, const backward *b, const icl_block *sums, icl_error *error) {
    const normalization *norm = &b->x;
    const double work = BACKWARD_WORK * norm->teams.shape.s[3];
    const cl_uint columns = b->blocks * norm->teams.shape.s[3];
    icl_block *found = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_pool_take(opencl, norm->teams.rows * sizeof(cl_float2), &found, error));
    ICL_TRY(ICL_LAUNCH_ITEMS(opencl, ICL_KERNEL_normalize_backward_teams, icl_team_items(opencl, &norm->teams), error,
                             ICL_VIEW(b->d_in), ICL_VIEW(b->d_out), ICL_VIEW(b->in), VECTOR(b->gain),
                             ICL_TEAMS(norm->teams, work), ICL_ARGUMENT(norm->kind), ICL_ARGUMENT(b->flags),
                             ICL_ARGUMENT(norm->share), ICL_ARGUMENT(norm->epsilon),
                             ICL_MEMORY_ARGUMENT(found->memory)));
    if (sums)
        ICL_TRY(ICL_LAUNCH(opencl, ICL_KERNEL_normalize_sums, columns, error, ICL_VIEW(b->d_out), ICL_VIEW(b->in),
                           ICL_ARGUMENT(norm->teams.shape), ICL_ARGUMENT(norm->teams.rows),
                           ICL_UNITS(columns, 10.0 * ROWS_OF_SUM), ICL_ARGUMENT(norm->kind),
                           ICL_MEMORY_ARGUMENT(found->memory), ICL_MEMORY_ARGUMENT(sums->memory)));
done:
    icl_pool_give(opencl, found);
    return status;
}

/* Adds the sums [blocks][2][n] on GPUs. */
static icl_status add_blocks(icl_opencl *opencl, const vector *d_gain, const vector *d_shift, cl_uint wanted,
                             const icl_block *sums, cl_uint blocks, cl_uint n, icl_error *error) {
    const icl_view to_gain = view_of_vector(d_gain), to_shift = view_of_vector(d_shift);

    if (wanted & HAS_GAIN)
        ICL_CHECK(add_in_pairs(opencl, &to_gain, sums->memory, 0, blocks, 2 * n, n, error));
    if (wanted & HAS_SHIFT)
        ICL_CHECK(add_in_pairs(opencl, &to_shift, sums->memory, n, blocks, 2 * n, n, error));
    return ICL_OK;
}

icl_status icl_opencl_normalize_backward(icl_backend *backend, const void *params, const icl_tensor *operands,
                                         icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    const cl_uint wanted = (operands[D_GAIN].buffer ? HAS_GAIN : 0) | (operands[D_SHIFT].buffer ? HAS_SHIFT : 0);
    backward b = {.x = describe(params, &operands[D_IN]),
                  .d_in = icl_view_of(&operands[D_IN]),
                  .d_out = icl_view_of(&operands[D_OUT]),
                  .in = icl_view_of(&operands[OF_IN]),
                  .gain = vector_of(&operands[OF_GAIN], &operands[OF_IN]),
                  .flags = operands[OF_GAIN].buffer ? HAS_GAIN : 0,
                  .is_summed = wanted != 0};
    const cl_uint n = b.x.teams.shape.s[3], columns = (cl_uint)((n + opencl->lanes - 1) / opencl->lanes);
    const cl_uint units = 2 * columns;
    const vector d_gain = vector_of(&operands[D_GAIN], &operands[D_IN]);
    const vector d_shift = vector_of(&operands[D_SHIFT], &operands[D_IN]);
    icl_block *sums = NULL;
    icl_status status = ICL_OK;

    b.blocks = (b.x.teams.rows + ROWS_OF_SUM - 1) / ROWS_OF_SUM;
    if (wanted)
        ICL_TRY(icl_pool_take(opencl, (size_t)b.blocks * 2 * n * sizeof(cl_float), &sums, error));
    ICL_TRY(opencl->lanes > 1 ? launch_lanes(opencl, &b, sums, error) : launch_teams(opencl, &b, sums, error));
    if (wanted && opencl->lanes > 1)
        ICL_TRY(ICL_LAUNCH(opencl, ICL_KERNEL_normalize_add, units, error, VECTOR(d_gain), VECTOR(d_shift),
                           ICL_ARGUMENT(wanted), ICL_MEMORY_ARGUMENT(sums->memory), ICL_ARGUMENT(b.blocks),
                           ICL_ARGUMENT(n), ICL_ARGUMENT(columns), ICL_UNITS(units, 2.0 * b.blocks)));
    else if (wanted)
        ICL_TRY(add_blocks(opencl, &d_gain, &d_shift, wanted, sums, b.blocks, n, error));
done:
    icl_pool_give(opencl, sums);
    return status;
}
