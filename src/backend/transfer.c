/* Tensors to and from host memory, in either precision. */
#include <assert.h>
#include <string.h>

#include "backend/contract.h"
#include "core/allocate.h"
#include "iclab/status.h"

/* Converts between float and double; the two sizes name the types. */
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

/* Reads or writes a contiguous view, through a converted copy where the element types differ. */
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

/* A strided view goes through a contiguous copy on the device. */
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
        ICL_TRY(icl_copy(backend, *tensor, packed, error));
    } else {
        ICL_TRY(icl_copy(backend, packed, *tensor, error));
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
