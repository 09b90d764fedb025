/* Softmax attention: cl/attention_softmax.cl. */
#include "backend/opencl/opencl.h"

/* A rank-3 view as the kernels take it: strides batch, row, column. */
static icl_view sequence_view(const icl_tensor *t) {
    icl_view view = {.memory = icl_memory_of(t), .offset = (cl_uint)t->offset};
    for (int axis = 0; axis < 3; axis++)
        view.stride.s[axis] = (cl_int)t->stride[axis];
    return view;
}

/* Which keys a query attends to: j < sources and j <= i + shift. */
typedef struct attended {
    cl_uint4 sizes; /* queries, keys, d, e */
    cl_uint sources;
    cl_int shift;
    cl_float scale;
} attended;

static attended attended_by(const icl_attention_params *params, const icl_tensor *q, const icl_tensor *k,
                            const icl_tensor *v) {
    const size_t queries = q->shape[1], keys = k->shape[1];
    attended a = {
        .sizes = {{(cl_uint)queries, (cl_uint)keys, (cl_uint)q->shape[2], (cl_uint)v->shape[2]}},
        .sources = (cl_uint)keys,
        .shift = (cl_int)keys,
        .scale = (cl_float)params->scale,
    };
    if (params->mask == ICL_MASK_QUERY_EXCLUDED && keys > 0)
        a.sources--;
    if (params->mask == ICL_MASK_CAUSAL)
        a.shift = (cl_int)keys - (cl_int)queries;
    return a;
}

/* Blocks of lanes, and units over the batch. */
static cl_uint blocks_of(const icl_opencl *opencl, size_t rows) {
    return (cl_uint)((rows + opencl->lanes - 1) / opencl->lanes);
}

/* Scratch for a launch of `rows` vectors of lanes a work-item, and how many work-items share it. */
static icl_status take_scratch(icl_opencl *opencl, size_t units, cl_uint rows, icl_block **scratch,
                               size_t *items, icl_error *error) {
    const size_t bytes = ((size_t)rows + 1) * opencl->lanes * sizeof(cl_float);
    *items = icl_opencl_items_with_scratch(opencl, units, bytes);
    return icl_pool_take(opencl, *items * bytes, scratch, error);
}

icl_status icl_opencl_softmax_forward(icl_opencl *opencl, const icl_attention_params *params,
                                      const icl_tensor *operands, icl_error *error) {
    const icl_view out = sequence_view(&operands[0]), lse = sequence_view(&operands[1]);
    const icl_view q = sequence_view(&operands[2]), k = sequence_view(&operands[3]),
                   v = sequence_view(&operands[4]);
    const attended a = attended_by(params, &operands[2], &operands[3], &operands[4]);
    const cl_uint blocks = blocks_of(opencl, a.sizes.s[0]), units = (cl_uint)operands[0].shape[0] * blocks;
    const cl_uint scratch_rows = a.sizes.s[2] + a.sizes.s[3];
    icl_status status = ICL_OK;
    icl_block *scratch = NULL;
    size_t items = 0;

    ICL_TRY(take_scratch(opencl, units, scratch_rows, &scratch, &items, error));
    ICL_TRY(ICL_LAUNCH_ITEMS(opencl, ICL_KERNEL_softmax_forward, items, error, ICL_VIEW(out), ICL_VIEW(lse),
                             ICL_VIEW(q), ICL_VIEW(k), ICL_VIEW(v), ICL_ARGUMENT(a.sizes),
                             ICL_ARGUMENT(a.sources), ICL_ARGUMENT(a.shift), ICL_ARGUMENT(blocks),
                             ICL_ARGUMENT(units), ICL_ARGUMENT(a.scale), ICL_MEMORY_ARGUMENT(scratch->memory),
                             ICL_ARGUMENT(scratch_rows)));
done:
    icl_pool_give(opencl, scratch);
    return status;
}

static icl_status queries_pass(icl_opencl *opencl, const attended *a, const icl_tensor *operands,
                               const icl_block *row_terms, icl_error *error) {
    const icl_view d_q = sequence_view(&operands[0]), d_out = sequence_view(&operands[3]);
    const icl_view out = sequence_view(&operands[4]), lse = sequence_view(&operands[5]);
    const icl_view q = sequence_view(&operands[6]), k = sequence_view(&operands[7]),
                   v = sequence_view(&operands[8]);
    const cl_uint blocks = blocks_of(opencl, a->sizes.s[0]), units = (cl_uint)operands[6].shape[0] * blocks;
    const cl_uint scratch_rows = 2 * a->sizes.s[2] + a->sizes.s[3];
    icl_status status = ICL_OK;
    icl_block *scratch = NULL;
    size_t items = 0;

    ICL_TRY(take_scratch(opencl, units, scratch_rows, &scratch, &items, error));
    ICL_TRY(ICL_LAUNCH_ITEMS(opencl, ICL_KERNEL_softmax_backward_queries, items, error, ICL_VIEW(d_q),
                             ICL_MEMORY_ARGUMENT(row_terms->memory), ICL_VIEW(d_out), ICL_VIEW(out),
                             ICL_VIEW(lse), ICL_VIEW(q), ICL_VIEW(k), ICL_VIEW(v), ICL_ARGUMENT(a->sizes),
                             ICL_ARGUMENT(a->sources), ICL_ARGUMENT(a->shift), ICL_ARGUMENT(blocks),
                             ICL_ARGUMENT(units), ICL_ARGUMENT(a->scale),
                             ICL_MEMORY_ARGUMENT(scratch->memory), ICL_ARGUMENT(scratch_rows)));
done:
    icl_pool_give(opencl, scratch);
    return status;
}

static icl_status keys_pass(icl_opencl *opencl, const attended *a, const icl_tensor *operands,
                            const icl_block *row_terms, icl_error *error) {
    const icl_view d_k = sequence_view(&operands[1]), d_v = sequence_view(&operands[2]);
    const icl_view d_out = sequence_view(&operands[3]), lse = sequence_view(&operands[5]);
    const icl_view q = sequence_view(&operands[6]), k = sequence_view(&operands[7]),
                   v = sequence_view(&operands[8]);
    const cl_uint blocks = blocks_of(opencl, a->sizes.s[1]), units = (cl_uint)operands[6].shape[0] * blocks;
    const cl_uint scratch_rows = 2 * (a->sizes.s[2] + a->sizes.s[3]);
    icl_status status = ICL_OK;
    icl_block *scratch = NULL;
    size_t items = 0;

    ICL_TRY(take_scratch(opencl, units, scratch_rows, &scratch, &items, error));
    ICL_TRY(ICL_LAUNCH_ITEMS(opencl, ICL_KERNEL_softmax_backward_keys, items, error, ICL_VIEW(d_k),
                             ICL_VIEW(d_v), ICL_MEMORY_ARGUMENT(row_terms->memory), ICL_VIEW(d_out),
                             ICL_VIEW(lse), ICL_VIEW(q), ICL_VIEW(k), ICL_VIEW(v), ICL_ARGUMENT(a->sizes),
                             ICL_ARGUMENT(a->sources), ICL_ARGUMENT(a->shift), ICL_ARGUMENT(blocks),
                             ICL_ARGUMENT(units), ICL_ARGUMENT(a->scale),
                             ICL_MEMORY_ARGUMENT(scratch->memory), ICL_ARGUMENT(scratch_rows)));
done:
    icl_pool_give(opencl, scratch);
    return status;
}

icl_status icl_opencl_softmax_backward(icl_opencl *opencl, const icl_attention_params *params,
                                       const icl_tensor *operands, icl_error *error) {
    const icl_tensor *q = &operands[6], *k = &operands[7], *v = &operands[8];
    const attended a = attended_by(params, q, k, v);
    const size_t batch = q->shape[0], rows = batch * q->shape[1];
    icl_status status = ICL_OK;
    icl_block *row_terms = NULL;

    /* Without queries the keys' gradients are still due: they are 0. */
    ICL_TRY(icl_pool_take(opencl, (rows > 0 ? rows : 1) * sizeof(cl_float), &row_terms, error));
    if (rows > 0)
        ICL_TRY(queries_pass(opencl, &a, operands, row_terms, error));
    if (batch * k->shape[1] > 0)
        ICL_TRY(keys_pass(opencl, &a, operands, row_terms, error));
done:
    icl_pool_give(opencl, row_terms);
    return status;
}
