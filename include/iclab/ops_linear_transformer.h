/* The ops of one family of models: whole linear transformers, fused. Conventions: ops.h. */
#ifndef ICLAB_OPS_LINEAR_TRANSFORMER_H
#define ICLAB_OPS_LINEAR_TRANSFORMER_H

#include "iclab/ops.h"

ICL_C_BEGIN

/* Which entries of a layer's P and Q (D x D, D = d + 1) are parameters. Each head of each layer holds, in this order,
 * the entries listed here. */
typedef enum icl_parameterization {
    ICL_LINEAR_FULL = 0, /* P [D, D], Q [D, D] */
    ICL_LINEAR_DIAG,     /* [2] p and [2] q: P = diag(p_x … p_x, p_y), Q = diag(q_x … q_x, q_y) */
    ICL_LINEAR_GDPP,     /* [2] p and [1] q: DIAG with q_y = 0 ("gd++") */
    ICL_LINEAR_SPARSE,   /* A [d, d]: P = [0 0; 0 1], Q = [A 0; 0 0] */
    ICL_LINEAR_SPARSE_B, /* B [d, d], A [d, d]: P = [B 0; 0 1], Q = [A 0; 0 0] */
    ICL_PARAMETERIZATION_COUNT
} icl_parameterization;

/* The numbers that pass from layer to layer. Both forms give the same polynomial; rounding and cost differ. */
typedef enum icl_linear_space {
    ICL_SPACE_AUTO = 0, /* the cheaper of the two; Gram space if the Gram matrix is given */
    ICL_SPACE_GRAM,     /* G = sum of e_j e_j^T over the context: cost grows with D^3, not with n */
    ICL_SPACE_TOKENS,   /* the tokens themselves: cost grows with n D^2 */
} icl_linear_space;

/* A linear transformer without its parameters. */
typedef struct icl_linear_transformer_params {
    icl_parameterization parameterization; /* what the parameters are */
    size_t layers;                         /* layers in the parameter vector, at least 1 */
    size_t depth;                          /* layers in use: the first depth - 1 and the last one; 0: all */
    size_t heads;                          /* 0: 1 */
    double factor;                         /* factor of the attention sum: 1, or 1 / n */
    icl_linear_space space;                /* has no effect if a Gram matrix is given */
} icl_linear_transformer_params;

/* Returns the length of the parameter vector: layer by layer, head by head, each matrix row-major. d is D - 1. */
ICL_API size_t icl_linear_transformer_size(const icl_linear_transformer_params *params, size_t d);

/* Returns the floating-point operations of the cheapest way to the predictions of `batch` sequences, or to predictions
 * and gradient; n = 0: Gram matrices are given. Timings of faster machines or slower formulations are measured against
 * this count. */
ICL_API double icl_linear_transformer_flops(const icl_linear_transformer_params *params, size_t d, size_t n,
                                            size_t batch, bool has_gradient);

/*
 * Writes predictions [B], the model's answer to each query. With tokens e_1 … e_n and the query q in R^D a layer is,
 * all tokens at once,
 *     e <- e + factor * sum over heads of P (sum_{j <= n} e_j e_j^T) Q e,
 * and the prediction is minus the last coordinate of the query after the last layer.
 *
 * parameters [N], N = icl_linear_transformer_size. Sequences come in one of two ways:
 *     tokens [B, n + 1, D]: the context, then the query;
 *     gram [B, D, D] and query [B, D]: G = sum_{j <= n} e_j e_j^T, symmetric (which triangle is read is not
 *     specified), and q.
 * The other operands are absent. D is at least 2, n may be 0.
 *
 * A prediction is a polynomial in everything given, so rounding is bounded through the same polynomial p of absolute
 * values: with m roundings on the longest path through it, |error| <= gamma(m) p(|G|, |q|, |parameters|); see
 * src/conformance/linear_transformer.c. Backends may order sums differently for different batch sizes. NaN and
 * infinity spread only within their own sequence.
 */
ICL_API icl_status icl_linear_transformer_predict(icl_backend *backend, const icl_linear_transformer_params *params,
                                                  icl_tensor predictions, icl_tensor parameters, icl_tensor tokens,
                                                  icl_tensor gram, icl_tensor query, icl_error *error);

/*
 * Computes the loss of each sequence and its gradient. With the predictions above and g_b the gradient of losses_b with
 * respect to all parameters:
 *     losses [B]:   (prediction_b - target_b)^2
 *     norms [B]:    the Euclidean norm of g_b; its squares neither overflow nor vanish before g_b itself comes near to
 *                   it. Absent if not wanted, which saves a square for each element of g_b; a threshold
 *                   needs them
 *     gradient [N]: (1 / B) sum_b s_b g_b, with s_b = 1, or, if threshold [1] is present,
 *                   s_b = min(1, threshold / norms_b)
 * With a threshold (not negative) a sequence whose norm is not finite contributes nothing; without one it makes the
 * gradient NaN or infinite. Layers that are not in use get gradient 0. B = 0 gives gradient 0. targets [B]. The same
 * bits for any number of threads, and run after run.
 */
ICL_API icl_status icl_linear_transformer_gradient(icl_backend *backend, const icl_linear_transformer_params *params,
                                                   icl_tensor losses, icl_tensor gradient, icl_tensor norms,
                                                   icl_tensor parameters, icl_tensor tokens, icl_tensor gram,
                                                   icl_tensor query, icl_tensor targets, icl_tensor threshold,
                                                   icl_error *error);

ICL_C_END

#endif
