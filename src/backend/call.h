/*
 * A call of an op on its way from a public function (ops*.c) to a backend: operands are validated by the op's row, and
 * the backend's function runs. A public function checks params, and sets extents that depend on more than one operand.
 */
#ifndef ICLAB_BACKEND_CALL_H
#define ICLAB_BACKEND_CALL_H

#include "backend/contract.h"

#define ICL_SHAPE_TEXT 192

/* The most letters in the shapes of one op. */
#define ICL_MOST_LETTERS 8

/* What "*" or "+" stands for in a call. */
typedef struct icl_several {
    bool is_known;
    int rank;
    size_t shape[ICL_MAX_RANK];
} icl_several;

/* The extents of a call by their characters. */
typedef struct icl_extents {
    int count; /* of letters that are known */
    char letter[ICL_MOST_LETTERS];
    size_t extent[ICL_MOST_LETTERS];
    icl_several several[2]; /* "*" and "+" */
} icl_extents;

typedef struct icl_call {
    icl_backend *backend;
    icl_op op;
    const char *name;     /* in messages; NULL: the op's own */
    const void *params;   /* what the backend gets */
    icl_tensor *operands; /* in the row's order; validation replaces those that repeat by views of their full shape */
    unsigned required;    /* bit i: operand i must be present in this call although its row has ICL_OPTIONAL */
    icl_extents extents;  /* those that are known before validation; then all */
} icl_call;

/* Gives a letter of the row its extent before validation. */
void icl_call_set(icl_call *call, char letter, size_t extent);

/* Validates the operands: presence, backend, buffer's end, shapes, strides of outputs, overlap. */
icl_status icl_call_validate(icl_call *call, icl_error *error);

/* Runs a call that is valid: on the backend, or, where it has no such op, on the host. Does nothing where no output has
 * an element, and fills outputs with 0 where a sum has no terms. */
icl_status icl_call_run(const icl_call *call, icl_error *error);

/* icl_call_validate, then icl_call_run. */
icl_status icl_call_op(icl_call *call, icl_error *error);

/* ---- Checks of single tensors. `op` and `role` begin the message. ---- */

/* Writes "[2048, 21, 11]". */
void icl_shape_text(const icl_tensor *tensor, char text[ICL_SHAPE_TEXT]);

/* An input: a tensor of this backend, inside its buffer. */
icl_status icl_check_input(icl_backend *backend, const char *op, const char *role, const icl_tensor *in,
                           icl_error *error);

/* An output: an input that repeats no element. */
icl_status icl_check_output(icl_backend *backend, const char *op, const char *role, const icl_tensor *out,
                            icl_error *error);

icl_status icl_check_shape(const char *op, const char *role, const icl_tensor *tensor, int rank, const size_t *shape,
                           icl_error *error);

/* The output shares no element with the input; `same_view`: or is the very same view. */
icl_status icl_check_overlap(const char *op, const icl_tensor *out, const icl_tensor *in, bool same_view,
                             icl_error *error);

/* ---- Dispatch (dispatch.c) ---- */

/* Runs one op through the backend's table, or on the host when its slot is empty. Operands are valid. */
icl_status icl_dispatch(icl_backend *backend, icl_op op, const void *params, const icl_tensor *operands,
                        icl_error *error);

/* Runs one op on the host, on the operands' mapped memory: counted as a fallback, and logged once. For a backend whose
 * op does not take operands of every size. */
icl_status icl_dispatch_to_host(icl_backend *backend, icl_op op, const void *params, const icl_tensor *operands,
                                icl_error *error);

/*
 * Rounding that differs on purpose, for tests (build option `perturbed`, `tools/check perturbed`; perturb.c).
 *
 * Multiplies each element that the op wrote by 1 + r eps, where eps is the distance from 1 to the next element and r is
 * one of -2, -1, 0, 1, 2: a hash of the seed, the op and the element's bits. So equal results of an op stay equal, and
 * whoever repeats a computation repeats its bits; what takes another way gets other ones. The seed is the number in the
 * environment variable ICLAB_PERTURB; without it nothing changes. Ops and kinds that round in one way only are left
 * alone: strict ops, copies, sums and products of two elements, maxima; and so is the optimizer's step, whose gradient
 * has been perturbed already. Backends of the host alone: the elements are read in memory.
 * Costs a pass over the outputs.
 */
void icl_perturb(const icl_backend *backend, icl_op op, const void *params, const icl_tensor *operands);

#endif
