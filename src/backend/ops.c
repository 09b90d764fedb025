/* The public general ops: iclab/ops.h. */
#include "iclab/ops.h"

#include "backend/call.h"
#include "iclab/status.h"

static const char *const unary_names[] = {
#define NAME(kind, name, positive) #name,
    ICL_UNARY_KINDS(NAME)
#undef NAME
};

static const char *const binary_names[] = {
#define NAME(kind, name) #name,
    ICL_BINARY_KINDS(NAME)
#undef NAME
};

static const char *const reduce_names[ICL_REDUCE_COUNT] = {
    "sum", "mean", "max", "argmax", "sum_of_squares", "norm",
};

const char *icl_unary_name(icl_unary_kind kind) {
    return (unsigned)kind < ICL_UNARY_COUNT ? unary_names[kind] : "unknown";
}

const char *icl_binary_name(icl_binary_kind kind) {
    return (unsigned)kind < ICL_BINARY_COUNT ? binary_names[kind] : "unknown";
}

const char *icl_reduce_name(icl_reduce_kind kind) {
    return (unsigned)kind < ICL_REDUCE_COUNT ? reduce_names[kind] : "unknown";
}

/* ---- Elementwise ---- */

/* Runs an elementwise op. `name` names its kind in messages; NULL if the op has no kinds. */
static icl_status call_elementwise(icl_backend *backend, icl_op op, const char *name, const void *params,
                                   icl_tensor *operands, icl_error *error) {
    icl_call call = {.backend = backend, .op = op, .name = name, .params = params, .operands = operands};
    return icl_call_op(&call, error);
}

icl_status icl_fill(icl_backend *backend, icl_tensor out, double value, icl_error *error) {
    return call_elementwise(backend, ICL_OP_fill, NULL, &value, &out, error);
}

icl_status icl_copy(icl_backend *backend, icl_tensor out, icl_tensor in, icl_error *error) {
    icl_tensor operands[] = {out, in};
    return call_elementwise(backend, ICL_OP_copy, NULL, NULL, operands, error);
}

icl_status icl_unary(icl_backend *backend, icl_unary_kind kind, icl_tensor out, icl_tensor in, icl_error *error) {
    icl_tensor operands[] = {out, in};
    if ((unsigned)kind >= ICL_UNARY_COUNT)
        return icl_fail(error, ICL_ERROR_INPUT, "unary: unknown kind %d", (int)kind);
    return call_elementwise(backend, ICL_OP_unary, icl_unary_name(kind), &kind, operands, error);
}

icl_status icl_binary(icl_backend *backend, icl_binary_kind kind, icl_tensor out, icl_tensor a, icl_tensor b,
                      icl_error *error) {
    icl_tensor operands[] = {out, a, b};
    if ((unsigned)kind >= ICL_BINARY_COUNT)
        return icl_fail(error, ICL_ERROR_INPUT, "binary: unknown kind %d", (int)kind);
    return call_elementwise(backend, ICL_OP_binary, icl_binary_name(kind), &kind, operands, error);
}

icl_status icl_scale_add(icl_backend *backend, icl_tensor out, double alpha, icl_tensor a, double beta, icl_tensor b,
                         icl_error *error) {
    icl_tensor operands[] = {out, a, b};
    const icl_scale_add_params params = {alpha, beta};
    return call_elementwise(backend, ICL_OP_scale_add, NULL, &params, operands, error);
}

/* ---- Reductions ---- */

icl_status icl_reduce(icl_backend *backend, icl_reduce_kind kind, unsigned axes, icl_tensor out, icl_tensor in,
                      icl_error *error) {
    icl_tensor operands[] = {out, in};
    const icl_reduce_params params = {kind, axes};
    icl_call call = {.backend = backend, .op = ICL_OP_reduce, .params = &params, .operands = operands};
    size_t shape[ICL_MAX_RANK] = {0};

    if ((unsigned)kind >= ICL_REDUCE_COUNT)
        return icl_fail(error, ICL_ERROR_INPUT, "reduce: unknown kind %d", (int)kind);
    call.name = icl_reduce_name(kind);
    ICL_CHECK(icl_call_validate(&call, error));
    if (axes >> in.rank)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: axes 0x%x name an axis past rank %d", call.name, axes, in.rank);
    for (int axis = 0; axis < in.rank; axis++)
        shape[axis] = axes >> axis & 1 ? 1 : in.shape[axis];
    ICL_CHECK(icl_check_shape(call.name, "out", &out, in.rank, shape, error));
    return icl_call_run(&call, error);
}

/* ---- Matrix products ---- */

static void drop_axis(icl_tensor *tensor, int axis) {
    tensor->rank--;
    for (; axis < tensor->rank; axis++) {
        tensor->shape[axis] = tensor->shape[axis + 1];
        tensor->stride[axis] = tensor->stride[axis + 1];
    }
}

/* Returns whether a step along `axis` equals shape[axis + 1] steps along the next one. */
static bool continues(const icl_tensor *tensor, int axis) {
    return tensor->stride[axis] == tensor->shape[axis + 1] * tensor->stride[axis + 1];
}

/* Turns many small products into one large one: a leading axis along which b repeats becomes more rows of a, if the
 * layout allows it. Leading axes of extent 1 are dropped. */
static void fold(icl_tensor operands[3]) {
    icl_tensor *out = &operands[0], *a = &operands[1], *b = &operands[2];
    for (int axis = out->rank - 3; axis >= 0; axis--) {
        const bool rows = axis == out->rank - 3 && b->stride[axis] == 0;
        if (out->shape[axis] == 1) {
            for (int i = 0; i < 3; i++)
                drop_axis(&operands[i], axis);
        } else if (rows && continues(out, axis) && continues(a, axis)) {
            out->shape[axis + 1] *= out->shape[axis];
            a->shape[axis + 1] *= a->shape[axis];
            for (int i = 0; i < 3; i++)
                drop_axis(&operands[i], axis);
        }
    }
}

icl_status icl_matmul(icl_backend *backend, icl_tensor out, double alpha, icl_tensor a, icl_tensor b, double beta,
                      icl_error *error) {
    icl_tensor operands[] = {out, a, b};
    const icl_matmul_params params = {alpha, beta};
    icl_call call = {.backend = backend, .op = ICL_OP_matmul, .params = &params, .operands = operands};

    ICL_CHECK(icl_call_validate(&call, error));
    fold(operands);
    return icl_call_run(&call, error);
}

icl_status icl_matmul_strict(icl_backend *backend, icl_tensor out, icl_tensor a, icl_tensor b, icl_error *error) {
    icl_tensor operands[] = {out, a, b};
    return icl_call_op(&(icl_call){.backend = backend, .op = ICL_OP_matmul_strict, .operands = operands}, error);
}

/* ---- Attention ---- */

/* Inserts an axis of one head into operands without heads, because backends expect it. */
static icl_tensor with_heads(icl_tensor t) {
    if (!t.buffer || t.rank == 4)
        return t;
    return (icl_tensor){.buffer = t.buffer,
                        .offset = t.offset,
                        .rank = 4,
                        .shape = {t.shape[0], 1, t.shape[1], t.shape[2]},
                        .stride = {t.stride[0], t.shape[1] * t.stride[1], t.stride[1], t.stride[2]}};
}

/* Checks q, k and v, the last operands. Either all operands have heads or none has. The first operand has as many as q,
 * whose heads do not repeat; groups of heads share those of k and v. */
static icl_status check_heads(const icl_op_info *info, const icl_tensor *operands, icl_error *error) {
    const int count = info->outputs + info->inputs;
    const icl_tensor *q = &operands[count - 3], *k = &operands[count - 2], *v = &operands[count - 1];

    if (!q->buffer || !k->buffer || !v->buffer)
        return ICL_OK; /* validation names the one that is absent */
    if (q->rank < 3 || q->rank > 4)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: q has rank %d, expected 3, or 4 with heads", info->name, q->rank);
    for (int i = 0; i < count; i++)
        if (operands[i].buffer && operands[i].rank != q->rank)
            return icl_fail(error, ICL_ERROR_INPUT, "%s: %s has rank %d, expected q's %d", info->name,
                            info->operands[i].name, operands[i].rank, q->rank);
    if (q->rank < 4)
        return ICL_OK;
    const size_t heads = q->shape[1], groups = k->shape[1];
    if (operands[0].buffer && operands[0].shape[1] != heads)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: %s has %zu heads and q %zu, expected as many", info->name,
                        info->operands[0].name, operands[0].shape[1], heads);
    if (v->shape[1] != groups)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: k has %zu heads and v %zu, expected as many", info->name, groups,
                        v->shape[1]);
    if (groups == 0 ? heads > 0 : heads == 0 || heads % groups != 0)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: q has %zu heads, expected a multiple of the %zu of k and v",
                        info->name, heads, groups);
    return ICL_OK;
}

/* `results` are bits: the operands that softmax needs of its forward pass, and that linear attention ignores. */
static icl_status call_attention(icl_backend *backend, icl_op op, const icl_attention_params *params,
                                 icl_tensor *operands, unsigned results, icl_error *error) {
    const icl_op_info *info = &icl_op_infos[op];
    const int count = info->outputs + info->inputs;
    icl_call call = {.backend = backend, .op = op, .params = params, .operands = operands};

    if ((unsigned)params->kind > ICL_ATTENTION_SOFTMAX)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: unknown kind %d", info->name, (int)params->kind);
    if ((unsigned)params->mask > ICL_MASK_CAUSAL)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: unknown mask %d", info->name, (int)params->mask);
    if (params->window > 0 && (params->kind != ICL_ATTENTION_SOFTMAX || params->mask != ICL_MASK_CAUSAL))
        return icl_fail(error, ICL_ERROR_INPUT, "%s: a window of %zu keys, expected softmax and the causal mask",
                        info->name, params->window);
    if (params->kind == ICL_ATTENTION_SOFTMAX)
        call.required = results;
    for (int i = 0; i < count && !call.required; i++)
        if (results >> i & 1)
            operands[i] = (icl_tensor){0};
    ICL_CHECK(check_heads(info, operands, error));
    ICL_CHECK(icl_call_validate(&call, error));
    for (int i = 0; i < count; i++)
        operands[i] = with_heads(operands[i]);
    return icl_call_run(&call, error);
}

icl_status icl_attention_forward(icl_backend *backend, const icl_attention_params *params, icl_tensor out,
                                 icl_tensor log_sum_exp, icl_tensor q, icl_tensor k, icl_tensor v, icl_error *error) {
    icl_tensor operands[] = {out, log_sum_exp, q, k, v};
    return call_attention(backend, ICL_OP_attention_forward, params, operands, 1U << 1, error);
}

icl_status icl_attention_backward(icl_backend *backend, const icl_attention_params *params, icl_tensor d_q,
                                  icl_tensor d_k, icl_tensor d_v, icl_tensor d_out, icl_tensor out,
                                  icl_tensor log_sum_exp, icl_tensor q, icl_tensor k, icl_tensor v, icl_error *error) {
    icl_tensor operands[] = {d_q, d_k, d_v, d_out, out, log_sum_exp, q, k, v};
    return call_attention(backend, ICL_OP_attention_backward, params, operands, 1U << 4 | 1U << 5, error);
}

/* ---- The end of a training step ---- */

static icl_status check_fraction(const char *op, double fraction, icl_error *error) {
    if (!(fraction > 0 && fraction <= 1))
        return icl_fail(error, ICL_ERROR_INPUT, "%s: fraction %g, expected a number above 0, at most 1", op, fraction);
    return ICL_OK;
}

/* Checks that a tensor has one element. */
static icl_status check_scalar(const char *op, const char *role, const icl_tensor *tensor, icl_error *error) {
    char text[ICL_SHAPE_TEXT];

    if (icl_tensor_count(tensor) == 1)
        return ICL_OK;
    icl_shape_text(tensor, text);
    return icl_fail(error, ICL_ERROR_INPUT, "%s: %s has shape %s, expected one element", op, role, text);
}

icl_status icl_track_threshold(icl_backend *backend, double fraction, icl_tensor threshold, icl_tensor dropped,
                               icl_tensor norms, icl_error *error) {
    static const char op[] = "track_threshold";
    icl_tensor operands[] = {threshold, dropped, norms};
    icl_call call = {.backend = backend, .op = ICL_OP_track_threshold, .params = &fraction, .operands = operands};

    ICL_CHECK(check_fraction(op, fraction, error));
    ICL_CHECK(icl_call_validate(&call, error));
    ICL_CHECK(check_scalar(op, "threshold", &threshold, error));
    ICL_CHECK(check_scalar(op, "dropped", &dropped, error));
    return icl_tensor_count(&norms) > 0 ? icl_call_run(&call, error) : icl_fill(backend, dropped, 0, error);
}

static icl_status check_update(const icl_update_params *params, bool has_threshold, icl_error *error) {
    static const char op[] = "update_step";

    if ((unsigned)params->kind >= ICL_UPDATE_COUNT)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: unknown kind %d", op, (int)params->kind);
    if (params->kind == ICL_UPDATE_ADAM && params->adam.step < 1)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: step 0, expected a count from 1", op);
    if (!(params->clip >= 0))
        return icl_fail(error, ICL_ERROR_INPUT, "%s: clip %g, expected 0 or a number above", op, params->clip);
    return has_threshold ? check_fraction(op, params->fraction, error) : ICL_OK;
}

icl_status icl_update_step(icl_backend *backend, const icl_update_params *params, icl_tensor parameters,
                           const icl_tensor states[2], icl_tensor measures, icl_tensor threshold, icl_tensor gradient,
                           icl_tensor losses, icl_tensor norms, icl_tensor decays, icl_error *error) {
    enum { SECOND_STATE = 2, NORMS = 7 };
    const bool is_adam = params->kind == ICL_UPDATE_ADAM, has_threshold = threshold.buffer != NULL;
    const icl_tensor none = {0};
    icl_tensor operands[] = {parameters,
                             states[0],
                             is_adam ? states[1] : none,
                             measures,
                             threshold,
                             gradient,
                             losses,
                             has_threshold ? norms : none,
                             is_adam ? decays : none};
    icl_call call = {.backend = backend,
                     .op = ICL_OP_update_step,
                     .params = params,
                     .operands = operands,
                     .required = (unsigned)is_adam << SECOND_STATE | (unsigned)has_threshold << NORMS};

    ICL_CHECK(check_update(params, has_threshold, error));
    ICL_CHECK(icl_call_validate(&call, error));
    if (parameters.shape[0] == 0 || losses.shape[0] == 0)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "update_step: %zu parameters and %zu losses, expected at least one of each",
                        parameters.shape[0], losses.shape[0]);
    return icl_call_run(&call, error);
}
