/* What the public op functions share: validation of operands, and the jump into a backend. */
#ifndef ICLAB_BACKEND_DISPATCH_H
#define ICLAB_BACKEND_DISPATCH_H

#include "backend/contract.h"

#define ICL_SHAPE_TEXT 112

/* Writes "[2048, 21, 11]". */
void icl_shape_text(const icl_tensor *tensor, char text[ICL_SHAPE_TEXT]);

/* An output: a tensor of this backend, inside its buffer, that repeats no element. */
icl_status icl_check_output(icl_backend *backend, const char *op, const char *role, const icl_tensor *out,
                            icl_error *error);

/* An input: a tensor of this backend, inside its buffer. */
icl_status icl_check_input(icl_backend *backend, const char *op, const char *role, const icl_tensor *in,
                           icl_error *error);

/* Exactly this shape. */
icl_status icl_check_shape(const char *op, const char *role, const icl_tensor *tensor, int rank, const size_t *shape,
                           icl_error *error);

/* The output does not share elements with the input; `same_view` allows it to be the very same view. */
icl_status icl_check_overlap(const char *op, const icl_tensor *out, const icl_tensor *in, bool same_view,
                             icl_error *error);

/* Views *in with the given shape: axes align at the end, missing and 1-extents repeat with stride 0. */
icl_status icl_broadcast_to(const char *op, const char *role, int rank, const size_t *shape, icl_tensor *in,
                            icl_error *error);

/* Runs one op through the backend's table, or on the host when its slot is empty. Operands are valid. */
icl_status icl_dispatch(icl_backend *backend, icl_op op, const void *params, const icl_tensor *operands,
                        icl_error *error);

/* Runs one op on the host, on the operands' mapped memory: counted as a fallback, and logged once. For a backend whose
 * op does not take operands of every size. */
icl_status icl_dispatch_to_host(icl_backend *backend, icl_op op, const void *params, const icl_tensor *operands,
                                icl_error *error);

#endif
