/*
 * A call of an op on its way from a public function (ops*.c) to a backend: operands are validated by the op's row, and
 * the backend's function runs. A public function checks params, and sets extents that depend on more than one operand.
 */
#ifndef ICLAB_BACKEND_CALL_H
#define ICLAB_BACKEND_CALL_H

#include "backend/contract.h"

#define ICL_SHAPE_TEXT 192

/* The most letters in the shapes of one op. */
#define ICL_MOST_LETTERS 9

/* The axes that "*" or "+" stands for in a call. */
typedef struct icl_several {
    bool is_known;
    int rank;
    size_t shape[ICL_MAX_RANK];
} icl_several;

/* The extents that a call's letters, "*" and "+" stand for. */
typedef struct icl_extents {
    int count; /* the number of letters whose extent is known */
    char letter[ICL_MOST_LETTERS];
    size_t extent[ICL_MOST_LETTERS];
    icl_several several[2]; /* "*" and "+" */
} icl_extents;

typedef struct icl_call {
    icl_backend *backend;
    icl_op op;
    const char *name;     /* for messages; NULL: the op's own */
    const void *params;   /* what the backend gets */
    icl_tensor *operands; /* in the row's order; validation turns those that may repeat into full-shape views */
    unsigned required;    /* bit i: this call needs operand i, although its row has ICL_OPTIONAL */
    icl_extents extents;  /* before validation those known in advance, afterwards all */
} icl_call;

/* Sets the extent of a letter of the row before validation. */
void icl_call_set(icl_call *call, char letter, size_t extent);

/* Validates the operands: presence, backend, bounds of the buffer, shapes, strides of outputs, overlap. */
icl_status icl_call_validate(icl_call *call, icl_error *error);

/* Runs a validated call on the backend, or on the host if the backend lacks the op. Does nothing if no output has an
 * element, and fills the outputs with 0 if a sum has no terms. */
icl_status icl_call_run(const icl_call *call, icl_error *error);

/* Calls icl_call_validate, then icl_call_run. */
icl_status icl_call_op(icl_call *call, icl_error *error);

/* ---- Checks of single tensors. `op` and `role` begin the message. ---- */

/* Writes "[2048, 21, 11]". */
void icl_shape_text(const icl_tensor *tensor, char text[ICL_SHAPE_TEXT]);

/* Checks an input: it is a tensor of this backend and lies inside its buffer. */
icl_status icl_check_input(icl_backend *backend, const char *op, const char *role, const icl_tensor *in,
                           icl_error *error);

/* Checks an output: as an input, and no two of its indices name one element. */
icl_status icl_check_output(icl_backend *backend, const char *op, const char *role, const icl_tensor *out,
                            icl_error *error);

icl_status icl_check_shape(const char *op, const char *role, const icl_tensor *tensor, int rank, const size_t *shape,
                           icl_error *error);

/* Checks that the output shares no element with the input; with `same_view`, it may also be the very same view. */
icl_status icl_check_overlap(const char *op, const icl_tensor *out, const icl_tensor *in, bool same_view,
                             icl_error *error);

/* ---- Dispatch (dispatch.c) ---- */

/* Runs one op through the backend's table, or on the host if its slot is empty. The operands are valid. */
icl_status icl_dispatch(icl_backend *backend, icl_op op, const void *params, const icl_tensor *operands,
                        icl_error *error);

/* Runs one op on the host, on the operands' mapped memory; counts it as a fallback, and logs it once. Also called by a
 * backend whose op does not take operands of every size. */
icl_status icl_dispatch_to_host(icl_backend *backend, icl_op op, const void *params, const icl_tensor *operands,
                                icl_error *error);

#endif
