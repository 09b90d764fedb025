#include "iclab/tensor.h"

#include <assert.h>
#include <string.h>

#include "backend/contract.h"
#include "backend/dispatch.h"
#include "core/allocate.h"

size_t icl_tensor_count(const icl_tensor *tensor) {
    size_t count = 1;
    for (int axis = 0; axis < tensor->rank; axis++)
        count *= tensor->shape[axis];
    return count;
}

bool icl_tensor_is_contiguous(const icl_tensor *tensor) {
    size_t expected = 1;
    for (int axis = tensor->rank - 1; axis >= 0; axis--) {
        if (tensor->shape[axis] != 1 && tensor->stride[axis] != expected)
            return false;
        expected *= tensor->shape[axis];
    }
    return true;
}

/* Row-major strides for the shape. */
static void set_contiguous_strides(icl_tensor *tensor) {
    size_t stride = 1;
    for (int axis = tensor->rank - 1; axis >= 0; axis--) {
        tensor->stride[axis] = stride;
        stride *= tensor->shape[axis];
    }
}

icl_status icl_tensor_create(icl_backend *backend, int rank, const size_t *shape, icl_tensor *tensor,
                             icl_error *error) {
    icl_status status = ICL_OK;
    icl_tensor made = {.rank = rank};
    icl_buffer *buffer = NULL;
    size_t count = 1, bytes;
    bool fits = rank >= 0 && rank <= ICL_MAX_RANK;

    if (!fits)
        return icl_fail(error, ICL_ERROR_INPUT, "tensor: rank %d is not in 0..%d", rank, ICL_MAX_RANK);
    for (int axis = 0; axis < rank; axis++) {
        made.shape[axis] = shape[axis];
        fits = fits && icl_multiply_sizes(count, shape[axis], &count);
    }
    fits = fits && icl_multiply_sizes(count, backend->capabilities.element_size, &bytes);
    if (!fits) {
        char text[ICL_SHAPE_TEXT];
        icl_shape_text(&made, text);
        return icl_fail(error, ICL_ERROR_MEMORY, "tensor: the sizes of %s overflow the address space", text);
    }
    set_contiguous_strides(&made);

    ICL_TRY(icl_allocate(1, sizeof *buffer, "tensor", &buffer, error));
    buffer->backend = backend;
    buffer->elements = count > 0 ? count : 1;
    ICL_TRY(backend->functions->buffer_create(backend, buffer, error));
    made.buffer = buffer;
    *tensor = made;
    buffer = NULL;
done:
    icl_free(&buffer);
    return status;
}

void icl_tensor_release(icl_tensor *tensor) {
    if (tensor->buffer) {
        icl_backend *backend = tensor->buffer->backend;
        backend->functions->buffer_destroy(backend, tensor->buffer);
        icl_free(&tensor->buffer);
    }
    *tensor = (icl_tensor){0};
}

icl_tensor icl_tensor_slice(icl_tensor tensor, int axis, size_t start, size_t count) {
    assert(axis >= 0 && axis < tensor.rank);
    assert(start <= tensor.shape[axis] && count <= tensor.shape[axis] - start);
    if (count > 0)
        tensor.offset += start * tensor.stride[axis];
    tensor.shape[axis] = count;
    return tensor;
}

icl_tensor icl_tensor_swap_axes(icl_tensor tensor, int first, int second) {
    assert(first >= 0 && first < tensor.rank && second >= 0 && second < tensor.rank);
    const size_t shape = tensor.shape[first], stride = tensor.stride[first];
    tensor.shape[first] = tensor.shape[second];
    tensor.stride[first] = tensor.stride[second];
    tensor.shape[second] = shape;
    tensor.stride[second] = stride;
    return tensor;
}

icl_tensor icl_tensor_broadcast(icl_tensor tensor, int axis, size_t count) {
    assert(axis >= 0 && axis < tensor.rank && tensor.shape[axis] == 1);
    tensor.shape[axis] = count;
    tensor.stride[axis] = 0;
    return tensor;
}

icl_tensor icl_tensor_reshape(icl_tensor tensor, int rank, const size_t *shape) {
    icl_tensor view = {.buffer = tensor.buffer, .offset = tensor.offset, .rank = rank};
    assert(rank >= 0 && rank <= ICL_MAX_RANK && icl_tensor_is_contiguous(&tensor));
    memcpy(view.shape, shape, (size_t)rank * sizeof *shape);
    set_contiguous_strides(&view);
    assert(icl_tensor_count(&view) == icl_tensor_count(&tensor));
    return view;
}
