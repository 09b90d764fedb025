/* The public attention ops: validation, then dispatch. */
#include "backend/dispatch.h"
#include "iclab/status.h"

static icl_status check_params(const char *op, const icl_attention_params *params, icl_error *error) {
    if ((unsigned)params->kind > ICL_ATTENTION_SOFTMAX)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: unknown kind %d", op, (int)params->kind);
    if ((unsigned)params->mask > ICL_MASK_CAUSAL)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: unknown mask %d", op, (int)params->mask);
    return ICL_OK;
}

/* The extents that q, k and v imply. */
typedef struct extents {
    int rank; /* of the operands: 3, where there are no heads, or 4 */
    size_t batch, heads, groups, queries, keys, d, e;
} extents;

/* The shape [batch, heads, rows, columns], or without the heads. */
typedef struct sequences_shape {
    size_t of[ICL_MAX_RANK];
} sequences_shape;

static sequences_shape shape_of(const extents *is, size_t heads, size_t rows, size_t columns) {
    return is->rank == 3 ? (sequences_shape){{is->batch, rows, columns}}
                         : (sequences_shape){{is->batch, heads, rows, columns}};
}

static icl_status check_groups(const char *op, const icl_tensor *q, const icl_tensor *k, const icl_tensor *v,
                               icl_error *error) {
    const size_t heads = q->shape[1], groups = k->shape[1];
    if (v->shape[1] != groups)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: k has %zu heads and v %zu, expected as many", op, groups,
                        v->shape[1]);
    if (groups == 0 ? heads > 0 : heads == 0 || heads % groups != 0)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: q has %zu heads, expected a multiple of the %zu of k and v", op,
                        heads, groups);
    return ICL_OK;
}

static icl_status check_inputs(icl_backend *backend, const char *op, size_t batch, const icl_tensor *q,
                               const icl_tensor *k, const icl_tensor *v, extents *sizes, icl_error *error) {
    ICL_CHECK(icl_check_input(backend, op, "q", q, error));
    ICL_CHECK(icl_check_input(backend, op, "k", k, error));
    ICL_CHECK(icl_check_input(backend, op, "v", v, error));
    if (q->rank < 3 || q->rank > 4 || k->rank != q->rank || v->rank != q->rank)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: ranks of q, k, v are %d, %d, %d, expected 3, or 4 with heads", op,
                        q->rank, k->rank, v->rank);
    const bool heads = q->rank == 4;
    if (heads)
        ICL_CHECK(check_groups(op, q, k, v, error));
    *sizes = (extents){q->rank,
                       batch,
                       heads ? q->shape[1] : 1,
                       heads ? k->shape[1] : 1,
                       q->shape[q->rank - 2],
                       k->shape[q->rank - 2],
                       q->shape[q->rank - 1],
                       v->shape[q->rank - 1]};
    return ICL_OK;
}

static icl_status broadcast_inputs(const char *op, const extents *is, icl_tensor *q, icl_tensor *k, icl_tensor *v,
                                   icl_error *error) {
    const sequences_shape q_shape = shape_of(is, is->heads, is->queries, is->d);
    const sequences_shape k_shape = shape_of(is, is->groups, is->keys, is->d);
    const sequences_shape v_shape = shape_of(is, is->groups, is->keys, is->e);
    ICL_CHECK(icl_broadcast_to(op, "q", is->rank, q_shape.of, q, error));
    ICL_CHECK(icl_broadcast_to(op, "k", is->rank, k_shape.of, k, error));
    return icl_broadcast_to(op, "v", is->rank, v_shape.of, v, error);
}

/* The second output of softmax attention. */
static icl_status check_log_sum_exp(icl_backend *backend, const char *op, const extents *is, const icl_tensor *out,
                                    const icl_tensor *log_sum_exp, icl_error *error) {
    const sequences_shape shape = shape_of(is, is->heads, is->queries, 1);

    ICL_CHECK(icl_check_output(backend, op, "log_sum_exp", log_sum_exp, error));
    ICL_CHECK(icl_check_shape(op, "log_sum_exp", log_sum_exp, is->rank, shape.of, error));
    return icl_check_overlap(op, out, log_sum_exp, false, error);
}

/* As backends take it: with one head, where there is none. */
static icl_tensor with_heads(icl_tensor t) {
    if (!t.buffer || t.rank == 4)
        return t;
    return (icl_tensor){.buffer = t.buffer,
                        .offset = t.offset,
                        .rank = 4,
                        .shape = {t.shape[0], 1, t.shape[1], t.shape[2]},
                        .stride = {t.stride[0], t.shape[1] * t.stride[1], t.stride[1], t.stride[2]}};
}

icl_status icl_attention_forward(icl_backend *backend, const icl_attention_params *params, icl_tensor out,
                                 icl_tensor log_sum_exp, icl_tensor q, icl_tensor k, icl_tensor v, icl_error *error) {
    static const char op[] = "attention_forward";
    const bool softmax = params->kind == ICL_ATTENTION_SOFTMAX;
    extents is = {0};

    ICL_CHECK(check_params(op, params, error));
    ICL_CHECK(icl_check_output(backend, op, "out", &out, error));
    ICL_CHECK(check_inputs(backend, op, out.rank > 0 ? out.shape[0] : 0, &q, &k, &v, &is, error));
    const sequences_shape out_shape = shape_of(&is, is.heads, is.queries, is.e);
    ICL_CHECK(icl_check_shape(op, "out", &out, is.rank, out_shape.of, error));
    ICL_CHECK(broadcast_inputs(op, &is, &q, &k, &v, error));
    if (softmax)
        ICL_CHECK(check_log_sum_exp(backend, op, &is, &out, &log_sum_exp, error));
    else
        log_sum_exp = (icl_tensor){0};
    const icl_tensor operands[] = {with_heads(out), with_heads(log_sum_exp), with_heads(q), with_heads(k),
                                   with_heads(v)};
    for (int i = 2; i < 5; i++) {
        ICL_CHECK(icl_check_overlap(op, &operands[0], &operands[i], false, error));
        ICL_CHECK(icl_check_overlap(op, &operands[1], &operands[i], false, error));
    }
    if (is.batch * is.heads * is.queries > 0 && (is.e > 0 || softmax))
        ICL_CHECK(icl_dispatch(backend, ICL_OP_attention_forward, params, operands, error));
    return ICL_OK;
}

icl_status icl_attention_backward(icl_backend *backend, const icl_attention_params *params, icl_tensor d_q,
                                  icl_tensor d_k, icl_tensor d_v, icl_tensor d_out, icl_tensor out,
                                  icl_tensor log_sum_exp, icl_tensor q, icl_tensor k, icl_tensor v, icl_error *error) {
    static const char op[] = "attention_backward";
    static const char *const roles[] = {"d_q", "d_k", "d_v", "d_out", "out", "log_sum_exp", "q", "k", "v"};
    const bool softmax = params->kind == ICL_ATTENTION_SOFTMAX;
    extents is = {0};

    ICL_CHECK(check_params(op, params, error));
    if (!softmax)
        out = log_sum_exp = (icl_tensor){0};
    icl_tensor operands[] = {d_q, d_k, d_v, d_out, out, log_sum_exp, q, k, v};
    ICL_CHECK(check_inputs(backend, op, q.rank > 0 ? q.shape[0] : 0, &q, &k, &v, &is, error));
    const sequences_shape q_shape = shape_of(&is, is.heads, is.queries, is.d);
    const sequences_shape k_shape = shape_of(&is, is.groups, is.keys, is.d);
    const sequences_shape v_shape = shape_of(&is, is.groups, is.keys, is.e);
    const sequences_shape out_shape = shape_of(&is, is.heads, is.queries, is.e);
    const sequences_shape sum_shape = shape_of(&is, is.heads, is.queries, 1);
    const sequences_shape *const shapes[] = {&q_shape,   &k_shape, &v_shape, &out_shape, &out_shape,
                                             &sum_shape, &q_shape, &k_shape, &v_shape};
    for (int i = 0; i < 9; i++) {
        if (!softmax && (i == 4 || i == 5))
            continue;
        if (i < 3)
            ICL_CHECK(icl_check_output(backend, op, roles[i], &operands[i], error));
        else
            ICL_CHECK(icl_check_input(backend, op, roles[i], &operands[i], error));
        ICL_CHECK(icl_check_shape(op, roles[i], &operands[i], is.rank, shapes[i]->of, error));
        for (int j = 0; j < 3 && j < i; j++)
            ICL_CHECK(icl_check_overlap(op, &operands[j], &operands[i], false, error));
    }
    for (int i = 0; i < 9; i++)
        operands[i] = with_heads(operands[i]);
    if (icl_tensor_count(&d_q) + icl_tensor_count(&d_k) + icl_tensor_count(&d_v) > 0)
        ICL_CHECK(icl_dispatch(backend, ICL_OP_attention_backward, params, operands, error));
    return ICL_OK;
}
