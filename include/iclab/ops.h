/*
 * The ops: everything a model, a task or a training loop computes on a backend.
 *
 * Conventions. The output comes first. Operands are views of the same backend with any strides; outputs may not
 * repeat elements (stride 0) and may not overlap an input, except that elementwise ops, copies, clipping and optimizer
 * steps may write exactly onto an input of the same view. Inputs broadcast against the output: shapes align at the
 * last axis, missing and 1-extents repeat. Calls return as soon as the work is queued; icl_tensor_read and
 * icl_backend_sync wait. A shape with no elements is valid and does nothing (a sum over nothing is 0).
 * ICL_ERROR_INPUT with a message naming the op and the shapes when operands do not fit together.
 * Arithmetic is float, double on "ref", except the ops marked "strict", which are float and rounded identically
 * everywhere.
 */
#ifndef ICLAB_OPS_H
#define ICLAB_OPS_H

#include "iclab/random.h"
#include "iclab/tensor.h"

/* ---- Filling and copying ---- */

ICL_API icl_status icl_fill(icl_backend *backend, icl_tensor out, double value, icl_error *error);
ICL_API icl_status icl_copy(icl_backend *backend, icl_tensor out, icl_tensor in, icl_error *error);

/* Strict. Fills out with random numbers (random.h). */
ICL_API icl_status icl_random_fill(icl_backend *backend, const icl_random_params *params, icl_tensor out,
                                   icl_error *error);

/* ---- Elementwise ---- */

typedef enum icl_unary_kind {
    ICL_NEGATE = 0,
    ICL_ABSOLUTE,
    ICL_SQUARE,
    ICL_SQUARE_ROOT,
    ICL_RECIPROCAL,
    ICL_EXPONENTIAL,
    ICL_LOGARITHM,
    ICL_HYPERBOLIC_TANGENT,
    ICL_SIGMOID, /* 1 / (1 + exp(-x)) */
    ICL_RECTIFY, /* max(x, 0); NaN stays NaN */
    ICL_SIGN,    /* -1, 0 or 1; NaN stays NaN */
    ICL_UNARY_COUNT
} icl_unary_kind;

typedef enum icl_binary_kind {
    ICL_ADD = 0,
    ICL_SUBTRACT,
    ICL_MULTIPLY,
    ICL_DIVIDE,
    ICL_MAXIMUM, /* NaN if either is NaN */
    ICL_MINIMUM, /* NaN if either is NaN */
    ICL_EQUAL,   /* 1 where a == b, else 0 */
    ICL_BINARY_COUNT
} icl_binary_kind;

ICL_API const char *icl_unary_name(icl_unary_kind kind);
ICL_API const char *icl_binary_name(icl_binary_kind kind);

ICL_API icl_status icl_unary(icl_backend *backend, icl_unary_kind kind, icl_tensor out, icl_tensor in,
                             icl_error *error);
ICL_API icl_status icl_binary(icl_backend *backend, icl_binary_kind kind, icl_tensor out, icl_tensor a,
                              icl_tensor b, icl_error *error);

/* out = alpha * a + beta * b: two products and a sum, each rounded once. b may be absent (a zeroed icl_tensor): out = alpha * a. */
ICL_API icl_status icl_scale_add(icl_backend *backend, icl_tensor out, double alpha, icl_tensor a,
                                 double beta, icl_tensor b, icl_error *error);

/* ---- Reductions ---- */

typedef enum icl_reduce_kind {
    ICL_SUM = 0,
    ICL_MEAN,   /* of nothing: NaN */
    ICL_MAX,    /* of nothing: -infinity; NaN if any element is NaN */
    ICL_ARGMAX, /* row-major index within the reduced axes of the first largest element, as a number; the
                           first NaN counts as largest; of nothing: -1 */
    ICL_SUM_OF_SQUARES,
    ICL_NORM, /* square root of the sum of squares */
    ICL_REDUCE_COUNT
} icl_reduce_kind;

ICL_API const char *icl_reduce_name(icl_reduce_kind kind);

/* Reduces the axes whose bits are set in `axes` (bit 0 = axis 0). out has the input's rank, with extent 1 on each
 * reduced axis. Sums run in a fixed tree: at most 32 terms in sequence, then pairs, so that each term passes through at
 * most 32 + ceil(log2 n) additions: |error| <= gamma(32 + ceil(log2 n)) * sum |x|. */
ICL_API icl_status icl_reduce(icl_backend *backend, icl_reduce_kind kind, unsigned axes, icl_tensor out,
                              icl_tensor in, icl_error *error);

/* ---- Matrix products ---- */

/* out = alpha * a b + beta * out over the last two axes: out [..., m, n], a [..., m, k], b [..., k, n]; leading axes
 * broadcast. Rank 2 to 4. Transposes are views (icl_tensor_swap_axes). beta = 0 never reads out. k = 0 gives
 * beta * out. Error <= gamma(k + 3) * |alpha| |a| |b| + gamma(3) |beta out|. */
ICL_API icl_status icl_matmul(icl_backend *backend, icl_tensor out, double alpha, icl_tensor a, icl_tensor b,
                              double beta, icl_error *error);

/* Strict. out = a b with float elements on every backend, each summed from left to right, every product and every sum
 * rounded once: (((a0 b0) + a1 b1) + a2 b2) …. For task generators, whose data must have the same bits everywhere. */
ICL_API icl_status icl_matmul_strict(icl_backend *backend, icl_tensor out, icl_tensor a, icl_tensor b,
                                     icl_error *error);

/* ---- Attention ---- */

typedef enum icl_attention_kind {
    ICL_ATTENTION_LINEAR = 0, /* out_i = scale * sum_j (q_i . k_j) v_j */
    ICL_ATTENTION_SOFTMAX,    /* out_i = sum_j softmax_j(scale * q_i . k_j) v_j */
} icl_attention_kind;

typedef enum icl_attention_mask {
    ICL_MASK_NONE = 0,
    ICL_MASK_QUERY_EXCLUDED, /* the last key is the query token and is never attended to */
    ICL_MASK_CAUSAL,         /* j <= i + (keys - queries): the last query sees every key */
} icl_attention_mask;

typedef struct icl_attention_params {
    icl_attention_kind kind;
    icl_attention_mask mask;
    double scale;
} icl_attention_params;

/* q [batch, queries, d], k [batch, keys, d], v [batch, keys, e], out [batch, queries, e]. batch may broadcast.
 * log_sum_exp [batch, queries, 1] receives log sum_j exp(score_ij) for the backward pass of softmax (-infinity where every key is
 * masked); absent or ignored for linear. A query with no key to attend to yields 0. Linear attention costs
 * O((queries + keys) d e), not O(queries keys), for every mask. */
ICL_API icl_status icl_attention_forward(icl_backend *backend, const icl_attention_params *params,
                                         icl_tensor out, icl_tensor log_sum_exp, icl_tensor q, icl_tensor k,
                                         icl_tensor v, icl_error *error);

/* Gradients of the above: d_q, d_k, d_v (overwritten, shaped as q, k, v) from d_out. out and log_sum_exp are what the
 * forward pass wrote (softmax; absent for linear). Inputs that broadcast are not supported here. */
ICL_API icl_status icl_attention_backward(icl_backend *backend, const icl_attention_params *params,
                                          icl_tensor d_q, icl_tensor d_k, icl_tensor d_v, icl_tensor d_out,
                                          icl_tensor out, icl_tensor log_sum_exp, icl_tensor q, icl_tensor k,
                                          icl_tensor v, icl_error *error);

/* ---- Optimizer steps, in place ---- */

/* values *= min(1, limit / norm), where norm is a tensor of one element. A NaN norm leaves values unchanged. */
ICL_API icl_status icl_clip(icl_backend *backend, icl_tensor values, icl_tensor norm, double limit,
                            icl_error *error);

typedef struct icl_adam_params {
    double learning_rate;
    double beta1, beta2;
    double epsilon;
    double weight_decay; /* decoupled (AdamW): parameters *= 1 - learning_rate * weight_decay, first */
    uint64_t step;       /* counts from 1, for the bias correction */
} icl_adam_params;

/* Kingma and Ba 2015, Algorithm 1: m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2;
 * parameters -= learning_rate * (m / (1 - b1^step)) / (sqrt(v / (1 - b2^step)) + epsilon). Operands share one shape.
 * The constants b, 1 - b and 1 - b^step are computed in double and rounded once. */
ICL_API icl_status icl_adam_step(icl_backend *backend, const icl_adam_params *params, icl_tensor parameters,
                                 icl_tensor first_moment, icl_tensor second_moment, icl_tensor gradient,
                                 icl_error *error);

typedef struct icl_sgd_params {
    double learning_rate;
    double momentum;
} icl_sgd_params;

/* velocity = momentum * velocity + g; parameters -= learning_rate * velocity. */
ICL_API icl_status icl_sgd_step(icl_backend *backend, const icl_sgd_params *params, icl_tensor parameters,
                                icl_tensor velocity, icl_tensor gradient, icl_error *error);

#endif
