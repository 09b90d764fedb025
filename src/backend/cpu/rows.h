/* The rows of a tensor along its last axis, counted in row-major order. */
#ifndef ICLAB_BACKEND_CPU_ROWS_H
#define ICLAB_BACKEND_CPU_ROWS_H

#include "backend/cpu/host.h"

typedef struct HOST(row_view) {
    const icl_tensor *tensor; /* of rank 1 or more */
    real *first;
    size_t stride; /* from row to row, if is_even */
    bool is_even;
    size_t step; /* from element to element */
} HOST(row_view);

static inline HOST(row_view) host_rows(const icl_tensor *tensor) {
    const int last = tensor->rank - 1;
    HOST(row_view) view = {tensor, host_elements(tensor), 0, true, tensor->stride[last]};

    if (last > 0)
        view.stride = tensor->stride[last - 1];
    for (int axis = last - 2; axis >= 0; axis--)
        view.is_even = view.is_even && tensor->stride[axis] == tensor->stride[axis + 1] * tensor->shape[axis + 1];
    return view;
}

/* Returns a row's offset from the first row. */
static inline size_t host_row_offset(const HOST(row_view) * view, size_t row) {
    size_t offset = 0;

    if (view->is_even)
        return row * view->stride;
    for (int axis = view->tensor->rank - 2; axis >= 0; axis--) {
        offset += row % view->tensor->shape[axis] * view->tensor->stride[axis];
        row /= view->tensor->shape[axis];
    }
    return offset;
}

static inline real *host_row(const HOST(row_view) * view, size_t row) {
    return view->first + host_row_offset(view, row);
}

/* Returns the row, copied to packed [n] if its elements are not adjacent. */
static inline const real *host_pack_row(const HOST(row_view) * view, size_t row, size_t n, real *packed) {
    const real *from = host_row(view, row);

    if (view->step == 1)
        return from;
    for (size_t i = 0; i < n; i++)
        packed[i] = from[i * view->step];
    return packed;
}

/* Returns where to write a row: in place if its elements are adjacent, else `packed`, which host_unpack_row then
 * copies. */
static inline real *host_row_target(const HOST(row_view) * view, size_t row, real *packed) {
    return view->step == 1 ? host_row(view, row) : packed;
}

static inline void host_unpack_row(const HOST(row_view) * view, size_t row, size_t n, const real *packed) {
    real *to = host_row(view, row);

    if (view->step == 1)
        return;
    for (size_t i = 0; i < n; i++)
        to[i * view->step] = packed[i];
}

#endif
