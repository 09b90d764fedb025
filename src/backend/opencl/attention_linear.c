/*
 * Linear attention. With out = attend(q, k, v), that is out_i = scale * sum over attended j of (q_i .
 * k_j) v_j, the gradients are
 *     d_q_i = scale * sum_j (d_out_i . v_j) k_j  = attend(d_out, v, k)    over the same pairs (i, j)
 *     d_k_j = scale * sum_i (v_j . d_out_i) q_i  = attend(v, d_out, q)    over the pairs transposed
 *     d_v_j = scale * sum_i (k_j . q_i) d_out_i  = attend(k, q, d_out)    over the pairs transposed
 * so one kernel computes all four. A transposed causal mask is a causal mask in reverse order: both sequences are then
 * walked from their ends, with negative strides.
 */
#include "backend/opencl/ops.h"
#include "backend/opencl/pool.h"
#include "backend/opencl/view.h"

#define PACK 64 /* as in cl/attention/attention_linear.cl */

/* A view as the kernel takes it: strides batch, row, column, head. */
static icl_view sequence_view(const icl_tensor *t, bool reversed) {
    icl_view view = {.memory = icl_memory_of(t), .offset = (cl_uint)t->offset};
    static const int axes[ICL_MAX_RANK] = {0, 2, 3, 1};
    for (int i = 0; i < ICL_MAX_RANK; i++)
        view.stride.s[i] = (cl_int)t->stride[axes[i]];
    if (reversed && t->shape[2] > 0) {
        view.offset += (cl_uint)((t->shape[2] - 1) * t->stride[2]);
        view.stride.s[1] = -view.stride.s[1];
    }
    return view;
}

/* Which sources each row attends to: see cl/attention/attention_linear.cl. */
typedef struct pairs {
    cl_uint sources, active;
    cl_int shift;
    bool reversed;
} pairs;

static icl_status attend(icl_opencl *opencl, const icl_tensor *out, const icl_tensor *q, const icl_tensor *k,
                         const icl_tensor *v, pairs mask, cl_float scale, icl_error *error) {
    const icl_view out_view = sequence_view(out, mask.reversed), q_view = sequence_view(q, mask.reversed);
    const icl_view k_view = sequence_view(k, mask.reversed), v_view = sequence_view(v, mask.reversed);
    const cl_uint rows = (cl_uint)out->shape[2], d = (cl_uint)q->shape[3], e = (cl_uint)out->shape[3];
    const cl_uint v_dense_end = icl_tensor_is_contiguous(v) ? (cl_uint)(v->offset + icl_tensor_count(v)) : 0;
    const cl_uint4 sizes = {{rows, mask.sources, d, e}};
    const cl_uint of_rows = (cl_uint)out->shape[1], of_sources = (cl_uint)k->shape[1];
    const cl_uint shared = of_rows > of_sources ? of_rows / of_sources : 1;
    const cl_uint summed = of_sources > of_rows ? of_sources / of_rows : 1;
    const cl_uint4 heads = {{of_rows, shared, summed, 0}};
    const cl_uint blocks = (cl_uint)((e + opencl->lanes - 1) / opencl->lanes);
    const cl_uint units = (cl_uint)out->shape[0] * of_rows * blocks;
    const double work = 2.0 * (double)opencl->lanes * ((double)rows + (double)summed * mask.sources) * d;
    const cl_uint scratch_rows = d + (opencl->lanes > 1 ? PACK : 0);
    icl_status status = ICL_OK;
    icl_block *scratch = NULL;

    if (icl_tensor_count(out) == 0)
        return ICL_OK;
    const size_t scratch_bytes = (scratch_rows + 1) * opencl->lanes * sizeof(cl_float);
    const size_t items = icl_opencl_items_with_scratch(opencl, units, scratch_bytes);
    ICL_TRY(icl_opencl_take_scratch(opencl, items, scratch_bytes * opencl->local_size, &scratch, error));
    ICL_TRY(ICL_LAUNCH_ITEMS(opencl, ICL_KERNEL_attention_linear, items, error, ICL_VIEW(out_view), ICL_VIEW(q_view),
                             ICL_VIEW(k_view), ICL_VIEW(v_view), ICL_ARGUMENT(v_dense_end), ICL_ARGUMENT(sizes),
                             ICL_ARGUMENT(heads), ICL_ARGUMENT(mask.shift), ICL_ARGUMENT(mask.active),
                             ICL_ARGUMENT(blocks), ICL_UNITS(units, work), ICL_ARGUMENT(scale),
                             ICL_MEMORY_ARGUMENT(scratch->memory), ICL_ARGUMENT(scratch_rows)));
done:
    icl_pool_give(opencl, scratch);
    return status;
}

/* The pairs of a forward pass: queries are rows, keys are sources. */
static pairs forward_pairs(icl_attention_mask mask, size_t queries, size_t keys) {
    pairs p = {.sources = (cl_uint)keys, .active = (cl_uint)queries, .shift = (cl_int)keys};
    if (mask == ICL_MASK_QUERY_EXCLUDED && keys > 0)
        p.sources--;
    if (mask == ICL_MASK_CAUSAL)
        p.shift = (cl_int)keys - (cl_int)queries;
    return p;
}

/* The same pairs with keys as rows and queries as sources. Causal: key j is seen by queries i >= j - (keys - queries),
 * which from the ends reads i' <= j'. */
static pairs transposed_pairs(icl_attention_mask mask, size_t queries, size_t keys) {
    pairs p = {.sources = (cl_uint)queries, .active = (cl_uint)keys, .shift = (cl_int)queries};
    if (mask == ICL_MASK_QUERY_EXCLUDED && keys > 0)
        p.active--;
    if (mask == ICL_MASK_CAUSAL) {
        p.shift = 0;
        p.reversed = true;
    }
    return p;
}

icl_status icl_opencl_linear_forward(icl_opencl *opencl, const icl_attention_params *params, const icl_tensor *operands,
                                     icl_error *error) {
    const icl_tensor *out = &operands[0], *q = &operands[2], *k = &operands[3], *v = &operands[4];
    return attend(opencl, out, q, k, v, forward_pairs(params->mask, q->shape[2], k->shape[2]), (cl_float)params->scale,
                  error);
}

icl_status icl_opencl_linear_backward(icl_opencl *opencl, const icl_attention_params *params,
                                      const icl_tensor *operands, icl_error *error) {
    const icl_tensor *d_q = &operands[0], *d_k = &operands[1], *d_v = &operands[2], *d_out = &operands[3];
    const icl_tensor *q = &operands[6], *k = &operands[7], *v = &operands[8];
    const pairs straight = forward_pairs(params->mask, q->shape[2], k->shape[2]);
    const pairs transposed = transposed_pairs(params->mask, q->shape[2], k->shape[2]);
    const cl_float scale = (cl_float)params->scale;

    ICL_CHECK(attend(opencl, d_q, d_out, v, k, straight, scale, error));
    ICL_CHECK(attend(opencl, d_k, v, d_out, q, transposed, scale, error));
    return attend(opencl, d_v, k, q, d_out, transposed, scale, error);
}
