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
    size_t batch, queries, keys, d, e;
} extents;

static icl_status check_inputs(icl_backend *backend, const char *op, size_t batch, const icl_tensor *q,
                               const icl_tensor *k, const icl_tensor *v, extents *sizes, icl_error *error) {
    ICL_CHECK(icl_check_input(backend, op, "q", q, error));
    ICL_CHECK(icl_check_input(backend, op, "k", k, error));
    ICL_CHECK(icl_check_input(backend, op, "v", v, error));
    if (q->rank != 3 || k->rank != 3 || v->rank != 3)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: ranks of q, k, v are %d, %d, %d, expected 3", op, q->rank, k->rank,
                        v->rank);
    *sizes = (extents){batch, q->shape[1], k->shape[1], q->shape[2], v->shape[2]};
    return ICL_OK;
}

static icl_status broadcast_inputs(const char *op, const extents *is, icl_tensor *q, icl_tensor *k, icl_tensor *v,
                                   icl_error *error) {
    ICL_CHECK(icl_broadcast_to(op, "q", 3, (const size_t[]){is->batch, is->queries, is->d}, q, error));
    ICL_CHECK(icl_broadcast_to(op, "k", 3, (const size_t[]){is->batch, is->keys, is->d}, k, error));
    return icl_broadcast_to(op, "v", 3, (const size_t[]){is->batch, is->keys, is->e}, v, error);
}

/* The second output of softmax attention. */
static icl_status check_log_sum_exp(icl_backend *backend, const char *op, const extents *is, const icl_tensor *out,
                                    const icl_tensor *log_sum_exp, icl_error *error) {
    const size_t shape[] = {is->batch, is->queries, 1};

    ICL_CHECK(icl_check_output(backend, op, "log_sum_exp", log_sum_exp, error));
    ICL_CHECK(icl_check_shape(op, "log_sum_exp", log_sum_exp, 3, shape, error));
    return icl_check_overlap(op, out, log_sum_exp, false, error);
}

icl_status icl_attention_forward(icl_backend *backend, const icl_attention_params *params, icl_tensor out,
                                 icl_tensor log_sum_exp, icl_tensor q, icl_tensor k, icl_tensor v, icl_error *error) {
    static const char op[] = "attention_forward";
    const bool softmax = params->kind == ICL_ATTENTION_SOFTMAX;
    extents is = {0};

    ICL_CHECK(check_params(op, params, error));
    ICL_CHECK(icl_check_output(backend, op, "out", &out, error));
    ICL_CHECK(check_inputs(backend, op, out.rank > 0 ? out.shape[0] : 0, &q, &k, &v, &is, error));
    ICL_CHECK(icl_check_shape(op, "out", &out, 3, (const size_t[]){is.batch, is.queries, is.e}, error));
    ICL_CHECK(broadcast_inputs(op, &is, &q, &k, &v, error));
    if (softmax)
        ICL_CHECK(check_log_sum_exp(backend, op, &is, &out, &log_sum_exp, error));
    else
        log_sum_exp = (icl_tensor){0};
    const icl_tensor operands[] = {out, log_sum_exp, q, k, v};
    for (int i = 2; i < 5; i++) {
        ICL_CHECK(icl_check_overlap(op, &out, &operands[i], false, error));
        ICL_CHECK(icl_check_overlap(op, &log_sum_exp, &operands[i], false, error));
    }
    if (is.batch > 0 && is.queries > 0 && (is.e > 0 || softmax))
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
    const icl_tensor operands[] = {d_q, d_k, d_v, d_out, out, log_sum_exp, q, k, v};
    ICL_CHECK(check_inputs(backend, op, q.rank > 0 ? q.shape[0] : 0, &q, &k, &v, &is, error));
    const size_t shapes[][3] = {
        {is.batch, is.queries, is.d}, {is.batch, is.keys, is.d},    {is.batch, is.keys, is.e},
        {is.batch, is.queries, is.e}, {is.batch, is.queries, is.e}, {is.batch, is.queries, 1},
        {is.batch, is.queries, is.d}, {is.batch, is.keys, is.d},    {is.batch, is.keys, is.e},
    };
    for (int i = 0; i < 9; i++) {
        if (!softmax && (i == 4 || i == 5))
            continue;
        if (i < 3)
            ICL_CHECK(icl_check_output(backend, op, roles[i], &operands[i], error));
        else
            ICL_CHECK(icl_check_input(backend, op, roles[i], &operands[i], error));
        ICL_CHECK(icl_check_shape(op, roles[i], &operands[i], 3, shapes[i], error));
        for (int j = 0; j < 3 && j < i; j++)
            ICL_CHECK(icl_check_overlap(op, &operands[j], &operands[i], false, error));
    }
    if (icl_tensor_count(&d_q) + icl_tensor_count(&d_k) + icl_tensor_count(&d_v) > 0)
        ICL_CHECK(icl_dispatch(backend, ICL_OP_attention_backward, params, operands, error));
    return ICL_OK;
}
