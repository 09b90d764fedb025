/*
 * Reverse-mode differentiation over the ops.
 *
 * A tape records ops as they run. icl_tape_backward then walks it in reverse. Errors are sticky: after a
 * failure every further call does nothing and returns a variable that is harmless, and icl_tape_backward or
 * icl_tape_status returns the failure, so that a model's forward pass reads like its formula. All tensors
 * that the tape makes belong to it.
 */
#ifndef ICLAB_TAPE_H
#define ICLAB_TAPE_H

#include "iclab/ops.h"
#include "iclab/ops_recurrence.h"
#include "iclab/ops_sequence.h"

ICL_C_BEGIN

/* A recording of ops. */
typedef struct icl_tape icl_tape;

/* A tensor recorded on the tape, with its gradient. */
typedef struct icl_variable {
    int index; /* index into the tape; meaningless on another tape or after a reset */
} icl_variable;

/* Create an empty tape, whose backend must outlive it, and destroy it: NULL is allowed, and *tape is set to NULL. */
ICL_API icl_status icl_tape_create(icl_backend *backend, icl_tape **tape, icl_error *error);
ICL_API void icl_tape_destroy(icl_tape **tape);

/* Forgets every variable and any error, and returns the temporaries to the pool; call it before each new
 * step. */
ICL_API void icl_tape_reset(icl_tape *tape);

/* As icl_tape_reset, but keeps the variables up to and including `last`, such as the parameters of a model that runs
 * step by step. */
ICL_API void icl_tape_rewind(icl_tape *tape, icl_variable last);

/* Returns the first failure since the last reset, or ICL_OK. */
ICL_API icl_status icl_tape_status(const icl_tape *tape, icl_error *error);

/* Makes the tape fail, as an op that failed would, unless it has already failed. For models that find inputs they
 * cannot read. */
ICL_API void icl_tape_fail(icl_tape *tape, const icl_error *error);

/* Returns the backend that the tape was made for. */
ICL_API icl_backend *icl_tape_backend(const icl_tape *tape);

/* The numbers that dropout is drawn from: those of a step of training. */
typedef struct icl_dropout_numbers {
    icl_random_key key;      /* whose numbers */
    uint64_t first_sequence; /* the number, in the batch of the step, of the first sequence on the tape */
} icl_dropout_numbers;

/* Has icl_tape_drop_out draw from these numbers until the tape is reset. */
ICL_API void icl_tape_set_dropout(icl_tape *tape, icl_dropout_numbers numbers);

/* Record leaves. The tensors stay the caller's and must outlive the next reset. A parameter's gradient tensor has the
 * shape of its value and is overwritten by icl_tape_backward (zero if the loss does not depend on it). */
ICL_API icl_variable icl_tape_constant(icl_tape *tape, icl_tensor value);
ICL_API icl_variable icl_tape_parameter(icl_tape *tape, icl_tensor value, icl_tensor gradient);

/* Makes a constant on the device, without a copy from the host: every element is the value. */
ICL_API icl_variable icl_tape_filled(icl_tape *tape, int rank, const size_t *shape, double value);

/* Ops, as in ops.h. Operands broadcast; gradients are summed over the axes along which an operand was
 * repeated. If an op has a kink, the gradient is the subgradient of least norm: 0 at 0 for absolute,
 * ReLU and norm; ties of max, maximum and minimum share equally. argmax, equal and sign pass no gradient on. */
ICL_API icl_variable icl_tape_unary(icl_tape *tape, icl_unary_kind kind, icl_variable in);
ICL_API icl_variable icl_tape_binary(icl_tape *tape, icl_binary_kind kind, icl_variable a, icl_variable b);
ICL_API icl_variable icl_tape_scale_add(icl_tape *tape, double alpha, icl_variable a, double beta, icl_variable b);
ICL_API icl_variable icl_tape_scale(icl_tape *tape, double alpha, icl_variable a);
/* Dropout (Srivastava and others 2014): returns `in` [B, ...] with each element 0 with probability `share`, in [0, 1),
 * and otherwise divided by 1 - share; `in` itself if share is 0, or without numbers: outside of training. Call c since
 * icl_tape_set_dropout, from 0, draws for element e of sequence b, of n elements each, the uniform number u of index
 * c 2^40 + (first_sequence + b) n + e, and keeps the element if share < u, to 2^-24: on every device, and however a
 * batch is divided, the same elements. */
ICL_API icl_variable icl_tape_drop_out(icl_tape *tape, double share, icl_variable in);
ICL_API icl_variable icl_tape_reduce(icl_tape *tape, icl_reduce_kind kind, unsigned axes, icl_variable in);
ICL_API icl_variable icl_tape_matmul(icl_tape *tape, double alpha, icl_variable a, icl_variable b);
/* With heads, out [batch, heads, queries, e] is a view of a tensor [batch, queries, heads, e]: with the axes swapped
 * back it can be reshaped to [batch, queries, heads e]. */
ICL_API icl_variable icl_tape_attention(icl_tape *tape, const icl_attention_params *params, icl_variable q,
                                        icl_variable k, icl_variable v);

/* The inputs of a recurrence, as icl_recurrence_inputs has them; NULL: absent. */
typedef struct icl_recurrence_variables {
    icl_variable q, k;             /* [B, H, T, m]; q [B, H, T, n] with from_rows */
    icl_variable v;                /* [B, H, T, n] */
    const icl_variable *beta;      /* [B, H, T, 1] */
    const icl_variable *decay;     /* [B, H, T, 1] or [B, H, T, m] */
    const icl_variable *read_key;  /* [B, H, T, m], only with the delta term */
    const icl_variable *write_key; /* [B, H, T, m], only with the delta term */
    const icl_variable *state;     /* [B, H, m, n] */
} icl_recurrence_variables;

/* Records the outputs [B, H, T, n] of a recurrence (ops_recurrence.h), or [B, H, T, m] with from_rows, and with `final`
 * its last state [B, H, m, n], both differentiable. In memory the outputs are [B, T, H, .]: with axes 1 and 2 swapped
 * they can be reshaped to [B, T, H n]. Inputs broadcast over B, H and T, which are the largest extents among them. */
ICL_API icl_variable icl_tape_recurrence(icl_tape *tape, const icl_recurrence_params *params,
                                         const icl_recurrence_variables *inputs, icl_variable *final);

/* x_t = (H_t + diag(ridge))^-1 q_t with H_t = exp(decay_t) H_(t-1) + beta_t k_t k_t^T, H_0 = state: regularized least
 * squares on the keys so far. */
typedef struct icl_ridge_solve_variables {
    icl_variable q, k;         /* [B, H, T, m] */
    icl_variable ridge;        /* positive; broadcasts to [B, H, T, m] */
    const icl_variable *beta;  /* [B, H, T, 1], not negative; NULL: 1 */
    const icl_variable *decay; /* [B, H, T, 1]: logarithms; NULL: no decay */
    const icl_variable *state; /* [B, H, m, m], symmetric and not negative; NULL: 0 */
} icl_ridge_solve_variables;

/* Computes x [B, H, T, m] by `iterations` steps of conjugate gradients from x = q / diag(H + ridge), each with one
 * recurrence over all tokens. Without rounding m steps are exact; a step reduces the error by (sqrt(c) - 1) / (sqrt(c)
 * + 1) or more for systems of condition c. Gradients are those of the exact solution, as accurate as x. A query of
 * zeros gives zeros; a NaN stays in its batch and head. */
ICL_API icl_variable icl_tape_ridge_solve(icl_tape *tape, size_t iterations, const icl_ridge_solve_variables *inputs);

/* Looks up rows table[symbols] [..., w] of table [V, w], as in icl_look_up. No gradient reaches the symbols. */
ICL_API icl_variable icl_tape_look_up(icl_tape *tape, icl_variable table, icl_variable symbols);

/* Computes the causal convolution of in [B, T, c] with kernel [width, c], as in icl_convolve. */
ICL_API icl_variable icl_tape_convolve(icl_tape *tape, icl_variable in, icl_variable kernel);

/* Applies rotary positions (Su et al. 2021): rotates the pairs (i, i + d / 2) of in [..., T, d], d even, as in
 * icl_rotate, by the angles (first_position + t) base^(-2 i / d), base > 0. Their cosines and sines are computed in
 * double on the host, rounded once, and kept by the tape until it is destroyed. */
ICL_API icl_variable icl_tape_rotate(icl_tape *tape, icl_variable in, double base, size_t first_position);

/* Concatenates one or more variables along an axis, as in icl_concatenate. Each element is copied once for every power
 * of 8 that `count` begins: once for up to 8 parts, twice for up to 64. */
ICL_API icl_variable icl_tape_concatenate(icl_tape *tape, int axis, size_t count, const icl_variable *parts);

/* Normalizes rows along the last axis (ops_sequence.h); gain and shift [n], NULL: absent. */
ICL_API icl_variable icl_tape_normalize(icl_tape *tape, const icl_normalize_params *params, icl_variable in,
                                        const icl_variable *gain, const icl_variable *shift);

/* Computes the losses [..., 1] of logits [..., V] and classes [..., 1] (ops_sequence.h); no gradient reaches the
 * classes. */
ICL_API icl_variable icl_tape_cross_entropy(icl_tape *tape, icl_variable logits, icl_variable classes);

/* Views: no arithmetic, no copy. */
ICL_API icl_variable icl_tape_slice(icl_tape *tape, icl_variable in, int axis, size_t start, size_t count);
ICL_API icl_variable icl_tape_swap_axes(icl_tape *tape, icl_variable in, int first, int second);
ICL_API icl_variable icl_tape_reshape(icl_tape *tape, icl_variable in, int rank, const size_t *shape);

/* Returns the same tensor, through which no gradient passes. */
ICL_API icl_variable icl_tape_detach(icl_tape *tape, icl_variable in);

/* Returns a copy of `base` in which the block that starts at `start` (one entry per axis) and has the shape of `block`
 * is replaced by `block`. */
ICL_API icl_variable icl_tape_place(icl_tape *tape, icl_variable base, icl_variable block, const size_t *start);

/* Returns the tensor of a variable: a view that lives until the next reset. After a failure its buffer is NULL. */
ICL_API icl_tensor icl_tape_value(const icl_tape *tape, icl_variable variable);

/* Sets the gradient of every parameter to that of the mean of the loss's elements, of which there is one in all or one
 * for each sequence. */
ICL_API icl_status icl_tape_backward(icl_tape *tape, icl_variable loss, icl_error *error);

ICL_C_END

#endif
