/*
 * Recurrences with a matrix as their state: linear attention, its forms with decay, and the delta rule. Conventions:
 * ops.h.
 *
 * For every batch b and head h, with S_0 = state, or 0, and t = 1, …, T:
 *     P   = exp(decay_t) S_(t-1)                              row i by the factor of channel i, or all by one factor
 *     p_t = P^T r_t                                           what the memory holds under r_t; with the delta term
 *     S_t = P - beta_t k_t p_t^T + beta_t w_t v_t^T           with the delta term
 *     S_t = P + beta_t k_t v_t^T                              without
 *     o_t = scale S_t^T q_t,   final = S_T;                   q_t has m numbers, and o_t has n
 * or, with from_rows, from the other side of the state:
 *     o_t = scale S_t q_t                                     q_t has n numbers, and o_t has m
 *
 * | model | delta | decay | keys |
 * | --- | --- | --- | --- |
 * | linear attention (Katharopoulos et al. 2020) | no | none | |
 * | RetNet (Sun et al. 2023), simple GLA, Mamba-2 | no | [B, H, T, 1] | |
 * | Mamba-3 (2026): the tokens before | no | [B, H, T, 1] | k, v: of the token before; beta: exp(decay) and shares |
 * | GLA (Yang et al. 2024), the read-out of RWKV-6 | no | [B, H, T, m] | |
 * | delta rule, fast weights (Schlag et al. 2021; Yang et al. 2024) | yes | none | r = w = k |
 * | gated delta rule (Yang et al. 2024) | yes | [B, H, T, 1] | r = w = k |
 * | Kimi delta attention (2025) | yes | [B, H, T, m] | r = w = k |
 * | Gated DeltaNet-2 (2026) | yes | [B, H, T, m] | r = b o k, w = k, value w o v, beta = 1 |
 * | preconditioned DeltaNet (2026) | yes | [B, H, T, 1] | k and w = M o k, r the key itself |
 * | Longhorn (Liu et al. 2024) | yes | none | r = w = k, beta = b / (1 + b k . k) |
 * | DeltaProduct (Siems et al. 2025) | yes | any | each token as several steps; outputs of the last one are used |
 * | Comba (Hu et al. 2025) | yes | [B, H, T, 1] | reads before the decay: r = p exp(-decay), w = k |
 * | Titans without momentum (Behrouz et al. 2024) | yes | [B, H, T, 1] | before: r = k exp(-decay), w = k |
 * | TTT-Linear, a token a step (Sun et al. 2024) | yes | none | r = w = k |
 * | RWKV-7 (Peng et al. 2025) | yes | [B, H, T, m] | before: k = a o c, r = c exp(-decay), w = k', beta = 1 |
 * | gated slot attention (Zhang et al. 2024): the slots' keys | no | [B, H, T, m] | from_rows; k = 1 - gate, v: keys |
 * | gated Oja rule | yes | [B, H, T, m] | from_rows; k: values, v: keys |
 *
 * p_t reads the state after its decay, o_t after the write. A model that takes out what the state held before the
 * decay, S_t = exp(decay) S_(t-1) - beta k (S_(t-1)^T c)^T + ..., has r = c exp(-decay): P^T r = S_(t-1)^T c. In RWKV-7
 * c is the removal key of unit length. Where a decay is large, that factor is, too: the gradient of r, a sum over P, is
 * off by a rounding of S_t, and so by that factor.
 *
 * Work: 2 m n multiplications and additions for each of p, its term of S, beta w v^T and o: 4 m n operations a token
 * without the delta term and 6 with it, m n more with decay; about twice as many again backward. O(T) for any T, and
 * memory that does not grow with T but for what icl_recurrence_saved keeps.
 *
 * The other side. The forward pass is that of the usual side, for its states and p, and then one over the rows of S_t,
 * which do not meet each other once p is known: 4 m n operations a token more. Without saved it takes that memory while
 * it runs, and always n numbers a token. The backward pass is the adjoint of the usual one, with its kernels: from
 * d_o_t, which has m numbers, the gradient of q_t is scale S_t^T d_o_t, the output of a usual forward pass with d_o_t
 * as its query; and G_t = dL/dS_t takes up scale d_o_t q_t^T, as if d_o_t were the query and q_t the gradient of an
 * output in a usual backward pass. So it costs a usual forward pass more.
 *
 * Domain. Nothing is clipped. The delta term is a contraction while beta_t (k_t . r_t) lies in [0, 2]: with unit keys,
 * beta in [0, 2]. Outside S grows, by the factor |1 - beta |k|^2| a token where keys repeat, until it overflows; that
 * is the recurrence itself and no error of its arithmetic. A positive decay_t is a growth and is allowed; -infinity
 * forgets what S held (0 times an infinite or NaN element of S is NaN). A NaN or an infinity stays in its batch and
 * head, where it may reach every output from its token on, and every gradient.
 *
 * Errors. An element of S_t is a sum over the tokens s <= t; a term passes, on its way from s to t, through at most
 * 4 (t - s) + 10 roundings and what the later reads p do to it, each a sum of m products in any order. Gradients
 * likewise, from the other end, with S_t itself off by a few roundings of the largest S of its segment times exp(4)
 * (icl_recurrence_saved). src/conformance/recurrence_truth.c derives bounds.
 */
#ifndef ICLAB_OPS_RECURRENCE_H
#define ICLAB_OPS_RECURRENCE_H

#include <stdbool.h>

#include "iclab/tensor.h"

ICL_C_BEGIN

/* Tokens between two states that the forward pass keeps for the backward pass. */
#define ICL_RECURRENCE_SEGMENT 32

/* Settings that the whole call has in common. */
typedef struct icl_recurrence_params {
    bool delta;     /* with the delta term: what the memory holds under r_t is taken out before v_t is written */
    double scale;   /* factor of the outputs: o_t = scale S_t^T q_t */
    bool from_rows; /* outputs from the other side: o_t = scale S_t q_t, by the rows of S_t */
} icl_recurrence_params;

/*
 * The inputs, or their gradients. Inputs may be strided and broadcast over B, H and T of out: shapes align at the last
 * axis, missing and 1-extents repeat. So a decay of one number for each head is [H, 1, 1], and heads are views of
 * [B, T, H, m] without copies (icl_tensor_swap_axes).
 */
typedef struct icl_recurrence_inputs {
    icl_tensor q;         /* [B, H, T, m] queries; [B, H, T, n] with from_rows */
    icl_tensor k;         /* [B, H, T, m] keys: where S is written, and where the delta term takes away */
    icl_tensor v;         /* [B, H, T, n] values */
    icl_tensor beta;      /* [B, H, T, 1] strengths of writing; absent: 1 */
    icl_tensor decay;     /* [B, H, T, 1] or [B, H, T, m]: natural logarithms of the factors; absent: no decay */
    icl_tensor read_key;  /* r [B, H, T, m], only with the delta term; absent: k */
    icl_tensor write_key; /* w [B, H, T, m], only with the delta term; absent: k */
    icl_tensor state;     /* S_0 [B, H, m, n]; absent: 0 */
} icl_recurrence_inputs;

/*
 * What the forward pass keeps for the backward pass: T n + ceil(T / 32) m n elements for each batch and head, against
 * T m n of all states; where m = n = 64 that is as much as q, k and v together.
 *
 * The backward pass starts each segment from the state at its end and runs the state back, S_(t-1) = exp(-decay_t) (S_t
 * + beta_t k_t p_t^T - beta_t w_t v_t^T), which loses a factor exp(-sum of decay) of accuracy. Where, within a segment,
 * the decays of some channel add up to less than -4 or more than 4, or one of them is infinite or NaN, it computes the
 * states forward again from the one before the segment.
 */
typedef struct icl_recurrence_saved {
    icl_tensor reads;  /* [B, H, T, n]: p_t; only with the delta term, absent otherwise */
    icl_tensor states; /* [B, H, ceil(T / 32) m, n]: S before token 32 s in the rows s m to s m + m - 1 */
} icl_recurrence_saved;

/*
 * Computes out [B, H, T, n] = o, [B, H, T, m] with from_rows, and final [B, H, m, n] = S_T, or absent. saved: what
 * icl_recurrence_backward needs, or NULL. Extents of 0 are allowed: if m (with from_rows: n) is 0, out is 0, and if T
 * is 0, final is the initial state. Outputs may not overlap anything. ICL_ERROR_INPUT names the operand that does not
 * fit; read_key and write_key, and reads, belong to the delta term. Results do not depend on the number of threads.
 */
ICL_API icl_status icl_recurrence_forward(icl_backend *backend, const icl_recurrence_params *params, icl_tensor out,
                                          icl_tensor final, const icl_recurrence_saved *saved,
                                          const icl_recurrence_inputs *inputs, icl_error *error);

/*
 * Computes the gradients of the above from d_out, of out's shape, and d_final [B, H, m, n], or absent: 0. final and
 * saved are what the forward pass of the same inputs wrote. Each gradient may be absent: not wanted. Otherwise it has
 * the shape [B, H, T, .] or [B, H, m, n] of its input in full, repeats nothing, and is overwritten: if an input was
 * broadcast, the caller adds up. Only an input that is present has a gradient. The gradient of k is the sum of all
 * three of its parts if read_key and write_key are absent. The gradient of a decay of -infinity is 0, up to rounding.
 */
ICL_API icl_status icl_recurrence_backward(icl_backend *backend, const icl_recurrence_params *params,
                                           const icl_recurrence_inputs *gradients, icl_tensor d_out, icl_tensor d_final,
                                           icl_tensor final, const icl_recurrence_saved *saved,
                                           const icl_recurrence_inputs *inputs, icl_error *error);

ICL_C_END

#endif
