/*
 * Reverse-mode differentiation over the ops.
 *
 * A tape records ops as they run. icl_tape_backward then walks it in reverse. Errors are sticky: after a
 * failure every further call does nothing and returns a variable that is harmless, and the failure comes out
 * of icl_tape_backward or icl_tape_status, so that a model's forward pass reads as its formula. All tensors
 * that the tape makes belong to it.
 */
#ifndef ICLAB_TAPE_H
#define ICLAB_TAPE_H

#include "iclab/ops.h"

ICL_C_BEGIN

/* A recording of ops. */
typedef struct icl_tape icl_tape;

/* A tensor that the tape knows, with its gradient. */
typedef struct icl_variable {
    int index; /* into the tape; meaningless on another tape or after a reset */
} icl_variable;

/* An empty tape. The backend must outlive it. destroy takes NULL too, and sets *tape to NULL. */
ICL_API icl_status icl_tape_create(icl_backend *backend, icl_tape **tape, icl_error *error);
ICL_API void icl_tape_destroy(icl_tape **tape);

/* Forgets every variable and any error, and returns the temporaries to the pool; call it before each new
 * step. */
ICL_API void icl_tape_reset(icl_tape *tape);

/* The first failure since the last reset, or ICL_OK. */
ICL_API icl_status icl_tape_status(const icl_tape *tape, icl_error *error);

/* Makes the tape fail, as an op that failed would, unless it already has. For models that find
 * inputs they cannot read. */
ICL_API void icl_tape_fail(icl_tape *tape, const icl_error *error);

/* The backend that it was made for. */
ICL_API icl_backend *icl_tape_backend(const icl_tape *tape);

/* Leaves. The tensors stay the caller's and must outlive the next reset. A parameter's gradient tensor has
 * the shape of its value and is overwritten by icl_tape_backward (zero where the loss does not depend on
 * it). */
ICL_API icl_variable icl_tape_constant(icl_tape *tape, icl_tensor value);
ICL_API icl_variable icl_tape_parameter(icl_tape *tape, icl_tensor value, icl_tensor gradient);

/* A constant made on the device, without a copy from the host: every element is the value. */
ICL_API icl_variable icl_tape_filled(icl_tape *tape, int rank, const size_t *shape, double value);

/* Ops, as in ops.h. Operands broadcast; gradients are summed over the axes along which an operand was
 * repeated. Where an op has a kink the gradient is the subgradient of least norm: 0 at 0 for absolute,
 * ReLU and norm; ties of max, maximum and minimum share equally. argmax, equal and sign pass nothing
 * on. */
ICL_API icl_variable icl_tape_unary(icl_tape *tape, icl_unary_kind kind, icl_variable in);
ICL_API icl_variable icl_tape_binary(icl_tape *tape, icl_binary_kind kind, icl_variable a, icl_variable b);
ICL_API icl_variable icl_tape_scale_add(icl_tape *tape, double alpha, icl_variable a, double beta, icl_variable b);
ICL_API icl_variable icl_tape_scale(icl_tape *tape, double alpha, icl_variable a);
ICL_API icl_variable icl_tape_reduce(icl_tape *tape, icl_reduce_kind kind, unsigned axes, icl_variable in);
ICL_API icl_variable icl_tape_matmul(icl_tape *tape, double alpha, icl_variable a, icl_variable b);
ICL_API icl_variable icl_tape_attention(icl_tape *tape, const icl_attention_params *params, icl_variable q,
                                        icl_variable k, icl_variable v);

/* Views: no arithmetic, no copy. */
ICL_API icl_variable icl_tape_slice(icl_tape *tape, icl_variable in, int axis, size_t start, size_t count);
ICL_API icl_variable icl_tape_swap_axes(icl_tape *tape, icl_variable in, int first, int second);
ICL_API icl_variable icl_tape_reshape(icl_tape *tape, icl_variable in, int rank, const size_t *shape);

/* A copy of `base` in which the block that starts at `start` (one entry per axis) and has the shape of
 * `block` is replaced by it. */
ICL_API icl_variable icl_tape_place(icl_tape *tape, icl_variable base, icl_variable block, const size_t *start);

/* The tensor of a variable: a view that lives until the next reset. After a failure its buffer is NULL. */
ICL_API icl_tensor icl_tape_value(const icl_tape *tape, icl_variable variable);

/* Sets the gradient of every parameter to that of the mean of the loss's elements: one, or one for each sequence. */
ICL_API icl_status icl_tape_backward(icl_tape *tape, icl_variable loss, icl_error *error);

ICL_C_END

#endif
