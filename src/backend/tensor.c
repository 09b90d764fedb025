/* Tensors: memory, views, and transfers from and to the host in either precision. */
#include "iclab/tensor.h"

#include <assert.h>
#include <string.h>

#include "backend/call.h"
#include "core/allocate.h"
#include "iclab/status.h"

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

/* Sets row-major strides for the shape. */
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

/* ---- Transfers ---- */

/* Converts between float and double; the two element sizes tell which is which. */
static void convert(void *to, size_t to_size, const void *from, size_t from_size, size_t count) {
    if (to_size == from_size)
        memcpy(to, from, count * to_size);
    else if (to_size == sizeof(double))
        for (size_t i = 0; i < count; i++)
            ((double *)to)[i] = (double)((const float *)from)[i];
    else
        for (size_t i = 0; i < count; i++)
            ((float *)to)[i] = (float)((const double *)from)[i];
}

/* Reads or writes a contiguous view, through a converted copy if the element types differ. */
static icl_status transfer(const icl_tensor *view, void *values, const void *source, size_t value_size,
                           icl_error *error) {
    icl_status status = ICL_OK;
    assert(view->buffer);
    icl_backend *backend = view->buffer->backend;
    const size_t element_size = backend->capabilities.element_size, count = icl_tensor_count(view);
    const bool same = element_size == value_size;
    void *elements = NULL;

    if (!same)
        ICL_TRY(icl_allocate(count, element_size, "conversion of a tensor", &elements, error));
    if (source) {
        if (!same)
            convert(elements, element_size, source, value_size, count);
        ICL_TRY(backend->functions->buffer_write(backend, view->buffer, view->offset, count, same ? source : elements,
                                                 error));
    } else {
        ICL_TRY(backend->functions->buffer_read(backend, view->buffer, view->offset, count, same ? values : elements,
                                                error));
        if (!same)
            convert(values, value_size, elements, element_size, count);
    }
done:
    icl_free(&elements);
    return status;
}

static icl_status copy(icl_backend *backend, icl_tensor out, icl_tensor in, icl_error *error) {
    icl_tensor operands[] = {out, in};
    return icl_call_op(&(icl_call){.backend = backend, .op = ICL_OP_copy, .operands = operands}, error);
}

/* Transfers a view; a strided one goes through a contiguous copy on the device. */
static icl_status transfer_view(const icl_tensor *tensor, void *values, const void *source, size_t value_size,
                                icl_error *error) {
    icl_status status = ICL_OK;
    icl_tensor packed = {0};

    if (!tensor->buffer)
        return icl_fail(error, ICL_ERROR_INPUT, "tensor %s: no tensor", source ? "write" : "read");
    if (icl_tensor_count(tensor) == 0)
        return ICL_OK;
    if (icl_tensor_is_contiguous(tensor))
        return transfer(tensor, values, source, value_size, error);

    icl_backend *backend = tensor->buffer->backend;
    ICL_TRY(icl_tensor_create(backend, tensor->rank, tensor->shape, &packed, error));
    if (source) {
        ICL_TRY(transfer(&packed, NULL, source, value_size, error));
        ICL_TRY(copy(backend, *tensor, packed, error));
    } else {
        ICL_TRY(copy(backend, packed, *tensor, error));
        ICL_TRY(transfer(&packed, values, NULL, value_size, error));
    }
done:
    icl_tensor_release(&packed);
    return status;
}

icl_status icl_tensor_write(icl_tensor tensor, const float *values, icl_error *error) {
    return transfer_view(&tensor, NULL, values, sizeof *values, error);
}

icl_status icl_tensor_write_double(icl_tensor tensor, const double *values, icl_error *error) {
    return transfer_view(&tensor, NULL, values, sizeof *values, error);
}

icl_status icl_tensor_read(icl_tensor tensor, float *values, icl_error *error) {
    return transfer_view(&tensor, values, NULL, sizeof *values, error);
}

icl_status icl_tensor_read_double(icl_tensor tensor, double *values, icl_error *error) {
    return transfer_view(&tensor, values, NULL, sizeof *values, error);
}
