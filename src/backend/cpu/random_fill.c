/* Random numbers into a view of any strides, in chunks that end where the index is a multiple of the chunk. */
#include "backend/cpu/host.h"

typedef struct fill_job {
    const icl_strict_kernels *strict;
    const icl_random_params *params;
    const icl_tensor *out;
    uint64_t count, first_chunk;
} fill_job;

/* Writes `count` values from element `k` of the view, in row-major order. */
static void scatter(const icl_tensor *out, uint64_t k, const float *values, size_t count) {
    size_t index[ICL_MAX_RANK] = {0};
    real *base = host_elements(out);
    const int last = out->rank - 1;

    for (int axis = last; axis >= 0; axis--) {
        index[axis] = (size_t)(k % out->shape[axis]);
        k /= out->shape[axis];
    }
    for (size_t i = 0; i < count;) {
        size_t offset = 0, run = last < 0 ? 1 : out->shape[last] - index[last];
        const size_t stride = last < 0 ? 1 : out->stride[last];
        for (int axis = 0; axis <= last; axis++)
            offset += index[axis] * out->stride[axis];
        if (run > count - i)
            run = count - i;
        for (size_t j = 0; j < run; j++)
            base[offset + j * stride] = (real)values[i + j];
        i += run;
        if (last >= 0)
            index[last] = out->shape[last];
        for (int axis = last; axis > 0 && index[axis] == out->shape[axis]; axis--) {
            index[axis] = 0;
            index[axis - 1]++;
        }
    }
}

static void fill_chunks(void *context, size_t first, size_t last, size_t thread) {
    const fill_job *fill = context;
    const uint64_t first_index = fill->params->first_index;
    const bool contiguous = icl_tensor_is_contiguous(fill->out);
    (void)thread;
    for (size_t chunk = first; chunk < last; chunk++) {
        float values[ICL_RANDOM_CHUNK];
        /* Relative to first_index, so that indices may wrap around. */
        const uint64_t into_chunk = first_index % ICL_RANDOM_CHUNK;
        const uint64_t start = chunk == 0 ? 0 : chunk * ICL_RANDOM_CHUNK - into_chunk;
        uint64_t end = (chunk + 1) * ICL_RANDOM_CHUNK - into_chunk;
        if (end > fill->count)
            end = fill->count;
        const size_t count = (size_t)(end - start);
        fill->strict->random(fill->params, first_index + start, count, values);
        if (contiguous) {
            real *out = host_elements(fill->out) + start;
            for (size_t i = 0; i < count; i++)
                out[i] = (real)values[i];
        } else {
            scatter(fill->out, start, values, count);
        }
    }
}

icl_status HOST(random_fill)(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    fill_job fill = {.strict = host_state(backend)->strict, .params = params, .out = &operands[0]};
    (void)error;
    fill.count = icl_tensor_count(&operands[0]);
    const uint64_t into_chunk = fill.params->first_index % ICL_RANDOM_CHUNK;
    const size_t chunks = (size_t)((into_chunk + fill.count + ICL_RANDOM_CHUNK - 1) / ICL_RANDOM_CHUNK);
    HOST(run)(host_state(backend), chunks, (size_t)fill.count * 4, fill_chunks, &fill);
    return ICL_OK;
}
