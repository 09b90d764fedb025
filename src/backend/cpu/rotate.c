/* Rotary positions: rows shared out among the threads; the angles' cosines and sines are taken apart first. */
#include "backend/cpu/rows.h"
#include "iclab/status.h"

typedef struct rotation {
    const HOST(kernels) * kernels;
    HOST(row_view) out, in;
    const real *cosines, *sines; /* [tokens][half] */
    size_t tokens, half;
} rotation;

static void rotate_rows(void *context, size_t first, size_t last, size_t thread) {
    const rotation *r = context;
    (void)thread;
    for (size_t row = first; row < last; row++) {
        const size_t token = row % r->tokens;
        r->kernels->rotate_row(host_row(&r->out, row), r->out.step, host_row(&r->in, row), r->in.step,
                               r->cosines + token * r->half, r->sines + token * r->half, r->half);
    }
}

static void unpack_angles(const icl_tensor *angles, bool inverse, real *cosines, real *sines) {
    const size_t tokens = angles->shape[0], half = angles->shape[1];
    for (size_t t = 0; t < tokens; t++)
        for (size_t i = 0; i < half; i++) {
            const real *pair = host_elements(angles) + t * angles->stride[0] + i * angles->stride[1];
            const real sine = pair[angles->stride[2]];
            cosines[t * half + i] = pair[0];
            sines[t * half + i] = inverse ? -sine : sine;
        }
}

icl_status HOST(rotate)(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    const HOST(state) *state = host_state(backend);
    const icl_tensor *out = &operands[0], *angles = &operands[2];
    const size_t pairs = angles->shape[0] * angles->shape[1];
    rotation r = {.kernels = state->kernels,
                  .out = host_rows(out),
                  .in = host_rows(&operands[1]),
                  .tokens = angles->shape[0],
                  .half = angles->shape[1]};
    real *scratch = NULL;

    ICL_CHECK(HOST(scratch)(backend, 2 * pairs * sizeof *scratch, &scratch, error));
    unpack_angles(angles, *(const bool *)params, scratch, scratch + pairs);
    r.cosines = scratch;
    r.sines = scratch + pairs;
    HOST(run)(state, icl_tensor_count(out) / (2 * r.half), icl_tensor_count(out), rotate_rows, &r);
    return ICL_OK;
}
