/* Cross-entropy and its gradient: rows of logits shared out among the threads. */
#include "backend/cpu/rows.h"
#include "iclab/status.h"

/* Operands of cross_entropy, and of cross_entropy_backward. */
enum { LOSSES = 0, LOGITS, CLASSES };
enum { D_LOGITS = 0, D_LOSSES, OF_LOGITS, OF_CLASSES };

typedef struct entropy {
    const HOST(kernels) * kernels;
    HOST(row_view) losses, logits, classes, d_logits; /* losses: d_losses on the way back */
    size_t n;
    real *packed; /* [2][n] for each thread: rows whose elements are not adjacent */
} entropy;

static icl_status run_rows(icl_backend *backend, entropy *x, icl_thread_items *task, icl_error *error) {
    const HOST(state) *state = host_state(backend);
    const icl_tensor *logits = x->logits.tensor;
    const size_t count = icl_tensor_count(logits);

    x->kernels = state->kernels;
    x->n = logits->shape[logits->rank - 1];
    ICL_CHECK(HOST(scratch)(backend, state->threads * 2 * x->n * sizeof(real), &x->packed, error));
    HOST(run)(state, count / x->n, 4 * count, task, x);
    return ICL_OK;
}

static void measure_rows(void *context, size_t first, size_t last, size_t thread) {
    const entropy *x = context;
    for (size_t row = first; row < last; row++) {
        const real *logits = host_pack_row(&x->logits, row, x->n, x->packed + thread * 2 * x->n);
        *host_row(&x->losses, row) = x->kernels->cross_entropy(logits, x->n, *host_row(&x->classes, row));
    }
}

icl_status HOST(cross_entropy)(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    entropy x = {.losses = host_rows(&operands[LOSSES]),
                 .logits = host_rows(&operands[LOGITS]),
                 .classes = host_rows(&operands[CLASSES])};
    (void)params;
    return run_rows(backend, &x, measure_rows, error);
}

static void rows_backward(void *context, size_t first, size_t last, size_t thread) {
    const entropy *x = context;
    real *packed = x->packed + thread * 2 * x->n;
    for (size_t row = first; row < last; row++) {
        real *to = host_row_target(&x->d_logits, row, packed + x->n);
        x->kernels->cross_entropy_backward(host_pack_row(&x->logits, row, x->n, packed), x->n,
                                           *host_row(&x->classes, row), *host_row(&x->losses, row), to);
        host_unpack_row(&x->d_logits, row, x->n, to);
    }
}

icl_status HOST(cross_entropy_backward)(icl_backend *backend, const void *params, const icl_tensor *operands,
                                        icl_error *error) {
    entropy x = {.losses = host_rows(&operands[D_LOSSES]),
                 .logits = host_rows(&operands[OF_LOGITS]),
                 .classes = host_rows(&operands[OF_CLASSES]),
                 .d_logits = host_rows(&operands[D_LOGITS])};
    (void)params;
    return run_rows(backend, &x, rows_backward, error);
}
