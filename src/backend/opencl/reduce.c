/* Reductions: cl/reduce.cl, in as many launches as the tree needs. */
#include <math.h>

#include "backend/opencl/ops.h"
#include "backend/opencl/pool.h"
#include "backend/opencl/view.h"

enum { FLAG_MAX = 1, FLAG_SQUARES = 2, FLAG_ROOT = 4 };

#define LEAF 32 /* terms that a lane adds in sequence, as ops.h promises */

/* Blocks of LEAF * lanes terms in a unit's tree: fewer than the 2^20 of cl/reduce.cl. */
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

/* Returns how many terms a unit takes: whole blocks of LEAF * lanes, as many as the kernel's tree has room for, and so
 * that there are enough units for the device. It depends only on sizes and the kernel family, so the tree is the same
 * in every run. */
static cl_uint chunk_length(const icl_opencl *opencl, const split_axes *s) {
    const cl_uint block = (cl_uint)(LEAF * opencl->lanes), most = block * MOST_BLOCKS;
    const cl_uint blocks = opencl->lanes == 1 ? 8 : 16;
    if (s->outputs < 256)
        return block * blocks;
    return s->length < block ? block : s->length < most ? s->length : most;
}

/* Returns how many neighbouring outputs a unit of the launch makes: on CPUs a vector of them if rows are summed. */
static cl_uint columns_of(const icl_opencl *opencl, const split_axes *s, cl_uint flags) {
    const int last = ICL_MAX_RANK - 1;
    const bool are_rows = s->merged && s->kept_stride.s[last] == 1 && s->reduced_stride.s[last] != 1;

    return opencl->lanes > 1 && flags == 0 && are_rows && s->kept.s[last] % opencl->lanes == 0 ? (cl_uint)opencl->lanes
                                                                                               : 1;
}

/* Runs one launch: chunks of s are reduced to out[output, chunk]. */
static icl_status launch(icl_opencl *opencl, const split_axes *s, cl_uint chunk, cl_uint chunks, cl_uint leaf,
                         cl_uint flags, cl_float divisor, const icl_view *out, cl_int chunk_stride, icl_error *error) {
    const cl_uint columns = columns_of(opencl, s, flags), units = s->outputs / columns * chunks;
    return ICL_LAUNCH(opencl, ICL_KERNEL_reduce, units, error, ICL_VIEW(*out), ICL_ARGUMENT(chunk_stride),
                      ICL_MEMORY_ARGUMENT(s->memory), ICL_ARGUMENT(s->offset), ICL_ARGUMENT(s->kept_stride),
                      ICL_ARGUMENT(s->kept), ICL_ARGUMENT(s->reduced_stride), ICL_ARGUMENT(s->reduced),
                      ICL_ARGUMENT(s->merged), ICL_ARGUMENT(s->length), ICL_ARGUMENT(chunk), ICL_ARGUMENT(chunks),
                      ICL_UNITS(units, chunk), ICL_ARGUMENT(leaf), ICL_ARGUMENT(flags), ICL_ARGUMENT(divisor),
                      ICL_ARGUMENT(columns));
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

static icl_status reduce_tree(icl_opencl *opencl, split_axes s, icl_reduce_kind kind, const icl_view *out,
                              icl_error *error) {
    const cl_uint last = kind == ICL_NORM ? FLAG_ROOT : 0;
    const cl_float divisor = kind == ICL_MEAN ? (cl_float)s.length : 1.0F;
    cl_uint flags = kind == ICL_MAX ? FLAG_MAX : kind == ICL_SUM_OF_SQUARES || kind == ICL_NORM ? FLAG_SQUARES : 0;
    cl_uint leaf = LEAF;
    icl_status status = ICL_OK;
    icl_block *from = NULL, *to = NULL;

    for (;;) {
        const cl_uint chunk = chunk_length(opencl, &s), chunks = (s.length + chunk - 1) / chunk;
        if (chunks == 1) {
            ICL_TRY(launch(opencl, &s, chunk, 1, leaf, flags | last, divisor, out, 0, error));
            break;
        }
        ICL_TRY(icl_pool_take(opencl, (size_t)s.outputs * chunks * sizeof(cl_float), &to, error));
        const icl_view partial = {.memory = to->memory, .stride = contiguous_strides(s.kept, chunks)};
        ICL_TRY(launch(opencl, &s, chunk, chunks, leaf, flags, 1.0F, &partial, 1, error));
        icl_pool_give(opencl, from);
        from = to;
        to = NULL;
        s.memory = from->memory;
        s.offset = 0;
        s.kept_stride = partial.stride;
        s.reduced = (cl_uint4){{1, 1, 1, chunks}};
        s.reduced_stride = (cl_int4){{0, 0, 0, 1}};
        s.merged = 1;
        s.length = chunks;
        flags &= FLAG_MAX;
        leaf = 1;
    }
done:
    icl_pool_give(opencl, from);
    icl_pool_give(opencl, to);
    return status;
}

static icl_status argmax(icl_opencl *opencl, const split_axes *s, const icl_view *out, icl_error *error) {
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
    return p->kind == ICL_ARGMAX ? argmax(opencl, &s, &out, error) : reduce_tree(opencl, s, p->kind, &out, error);
}
