/*
 * Tensors: strided views of a backend's memory.
 *
 * A tensor is a plain value. icl_tensor_create makes the one that owns its buffer; every other function returns a
 * view that borrows it, and is cheap. Offsets and strides count elements. Rank is at most 4; a rank-0 tensor is a
 * scalar; an extent of 0 is allowed and makes every op on it a no-op. Elements are float, or double on "ref".
 */
#ifndef ICLAB_TENSOR_H
#define ICLAB_TENSOR_H

#include <stdbool.h>
#include <stddef.h>

#include "iclab/backend.h"

ICL_C_BEGIN

/* Most axes of a tensor. */
#define ICL_MAX_RANK 4

/* A piece of a backend's memory. */
typedef struct icl_buffer icl_buffer;

/* A strided view of a buffer. */
typedef struct icl_tensor {
    icl_buffer *buffer;         /* NULL: no tensor, for optional operands */
    size_t offset;              /* place of element (0, 0, …) */
    int rank;                   /* axes in use, 0 to ICL_MAX_RANK */
    size_t shape[ICL_MAX_RANK]; /* extents */
    /* 0 repeats one element along the axis, only for inputs. An output's strides nest: each, of an extent above 1, is
     * larger than the sum of (extent - 1) * stride over the axes of smaller strides. */
    size_t stride[ICL_MAX_RANK];
} icl_tensor;

/* Allocates a contiguous, row-major, uninitialised tensor; release it with icl_tensor_release. */
ICL_API icl_status icl_tensor_create(icl_backend *backend, int rank, const size_t *shape, icl_tensor *tensor,
                                     icl_error *error);

/* Gives the buffer back to the backend's pool and clears *tensor. For tensors from icl_tensor_create only; views of it
 * are invalid afterwards. A cleared tensor is allowed. */
ICL_API void icl_tensor_release(icl_tensor *tensor);

/* Returns the number of elements of the view. */
ICL_API size_t icl_tensor_count(const icl_tensor *tensor);
ICL_API bool icl_tensor_is_contiguous(const icl_tensor *tensor);

/* Views. The arguments must be in range (asserted): they come from code, not from users. */
ICL_API icl_tensor icl_tensor_slice(icl_tensor tensor, int axis, size_t start, size_t count);
ICL_API icl_tensor icl_tensor_swap_axes(icl_tensor tensor, int first, int second);
ICL_API icl_tensor icl_tensor_broadcast(icl_tensor tensor, int axis, size_t count);      /* an axis of extent 1 */
ICL_API icl_tensor icl_tensor_reshape(icl_tensor tensor, int rank, const size_t *shape); /* contiguous only */

/* Copies a whole tensor from or to host memory, count elements in row-major order of the view. Reading waits for the
 * ops issued so far. The float functions convert on "ref", the double functions on every other backend. */
ICL_API icl_status icl_tensor_write(icl_tensor tensor, const float *values, icl_error *error);
ICL_API icl_status icl_tensor_write_double(icl_tensor tensor, const double *values, icl_error *error);
ICL_API icl_status icl_tensor_read(icl_tensor tensor, float *values, icl_error *error);
ICL_API icl_status icl_tensor_read_double(icl_tensor tensor, double *values, icl_error *error);

ICL_C_END

#endif
