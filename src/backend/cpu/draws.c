/* Gamma draws, cumulative sums and symbols by their weights: float on every backend. */
#include <math.h>

#include "backend/cpu/host.h"
#include "backend/cpu/rows.h"
#include "iclab/ops.h"

/* ---- Gamma draws ---- */

#define GAMMA_WORK 64 /* a draw, in elements touched */

typedef struct gamma_run {
    const icl_draw_params *params;
    const icl_tensor *out, *shapes;
} gamma_run;

/* Returns the offset of element k, in row-major order. */
static size_t element_offset(const icl_tensor *view, size_t k) {
    size_t offset = 0;

    for (int axis = view->rank - 1; axis >= 0; axis--) {
        offset += k % view->shape[axis] * view->stride[axis];
        k /= view->shape[axis];
    }
    return offset;
}

static void draw_gamma(void *context, size_t first, size_t last, size_t thread) {
    const gamma_run *run = context;
    (void)thread;

    for (size_t k = first; k < last; k++) {
        const float shape = (float)host_elements(run->shapes)[element_offset(run->shapes, k)];
        host_elements(run->out)[element_offset(run->out, k)] =
            (real)icl_random_gamma_value(run->params->key, run->params->first_index + k, shape);
    }
}

icl_status HOST(random_gamma)(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    gamma_run run = {.params = params, .out = &operands[0], .shapes = &operands[1]};
    const size_t count = icl_tensor_count(run.out);

    (void)error;
    HOST(run)(host_state(backend), count, GAMMA_WORK * count, draw_gamma, &run);
    return ICL_OK;
}

/* ---- Cumulative sums ---- */

typedef struct sum_run {
    HOST(row_view) out, in;
    size_t length;
} sum_run;

static void sum_rows_up(void *context, size_t first, size_t last, size_t thread) {
    const sum_run *run = context;
    (void)thread;

    for (size_t row = first; row < last; row++) {
        const real *from = host_row(&run->in, row);
        real *to = host_row(&run->out, row);
        float sum = (float)from[0];
        to[0] = (real)sum;
        for (size_t i = 1; i < run->length; i++) {
            sum += (float)from[i * run->in.step];
            to[i * run->out.step] = (real)sum;
        }
    }
}

icl_status HOST(cumulative_sum)(icl_backend *backend, const void *params, const icl_tensor *operands,
                                icl_error *error) {
    const icl_tensor *out = &operands[0];
    sum_run run = {.out = host_rows(out), .in = host_rows(&operands[1]), .length = out->shape[out->rank - 1]};
    const size_t count = icl_tensor_count(out);

    (void)params;
    (void)error;
    HOST(run)(host_state(backend), count / run.length, count, sum_rows_up, &run);
    return ICL_OK;
}

/* ---- Symbols by their weights ---- */

typedef struct category_run {
    HOST(row_view) out, in, sums;
    size_t length, symbols;
} category_run;

/* Returns the first symbol whose sum is above u times the last one; ops.h. */
static real symbol_of(float u, const real *sums, size_t step, size_t symbols) {
    const float total = (float)sums[(symbols - 1) * step], share = u * total;
    size_t low = 0, high = symbols - 1;

    if (!(u >= 0.0F && u < 1.0F && total >= (float)ICL_LEAST_WEIGHT && total < INFINITY))
        return (real)NAN;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if ((float)sums[middle * step] > share)
            high = middle;
        else
            low = middle + 1;
    }
    return (real)low;
}

static void draw_symbols(void *context, size_t first, size_t last, size_t thread) {
    const category_run *run = context;
    (void)thread;

    for (size_t row = first; row < last; row++) {
        const real *from = host_row(&run->in, row), *sums = host_row(&run->sums, row);
        real *to = host_row(&run->out, row);
        for (size_t i = 0; i < run->length; i++)
            to[i * run->out.step] = symbol_of((float)from[i * run->in.step], sums, run->sums.step, run->symbols);
    }
}

icl_status HOST(categorical)(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    const icl_tensor *out = &operands[0], *sums = &operands[2];
    category_run run = {.out = host_rows(out),
                        .in = host_rows(&operands[1]),
                        .sums = host_rows(sums),
                        .length = out->shape[out->rank - 1],
                        .symbols = sums->shape[sums->rank - 1]};
    const size_t count = icl_tensor_count(out);

    (void)params;
    (void)error;
    HOST(run)(host_state(backend), count / run.length, 8 * count, draw_symbols, &run);
    return ICL_OK;
}
