/* Ops of sequence models: the threads share blocks of tokens, or rows. */
#include <string.h>

#include "backend/cpu/host.h"
#include "backend/cpu/rows.h"
#include "iclab/status.h"

/* ---- Short convolutions ---- */

/* The threads share blocks of tokens. The gradient of the input is the same convolution of d_out, backwards in time.
 * The gradient of the kernel is summed within each block, and then over the blocks. */

#define FAN 32 /* the number of blocks that are added in order */

typedef struct convolution {
    const HOST(kernels) * kernels;
    const icl_tensor *out, *in; /* as in HOST(token_block) */
    size_t length, blocks;      /* tokens of a block, blocks of a sequence */
    bool reversed;              /* both run backwards in time */
    const real *kernel;         /* packed: [width][c] */
    size_t width;
    real *sums; /* the taps': [sequences * blocks][width][c]; NULL: filter */
} convolution;

static void set_blocks(convolution *c, const icl_tensor *kernel) {
    const size_t tokens = c->in->shape[1];
    c->width = kernel->shape[0];
    c->length = 2 * c->width > 32 ? 2 * c->width : 32;
    c->blocks = (tokens + c->length - 1) / c->length;
}

static HOST(token_block) block_of(const convolution *c, size_t item) {
    const size_t sequence = item / c->blocks, before = item % c->blocks * c->length, tokens = c->in->shape[1];
    const size_t start = c->reversed ? tokens - 1 - before : before;
    const ptrdiff_t out_time = (ptrdiff_t)c->out->stride[1], in_time = (ptrdiff_t)c->in->stride[1];
    return (HOST(token_block)){
        .out = host_elements(c->out) + sequence * c->out->stride[0] + start * c->out->stride[1],
        .in = host_elements(c->in) + sequence * c->in->stride[0] + start * c->in->stride[1],
        .out_time = c->reversed ? -out_time : out_time,
        .in_time = c->reversed ? -in_time : in_time,
        .out_step = c->out->stride[2],
        .in_step = c->in->stride[2],
        .tokens = tokens - before < c->length ? tokens - before : c->length,
        .before = before,
        .width = c->width,
        .channels = c->in->shape[2],
    };
}

static void run_blocks(void *context, size_t first, size_t last, size_t thread) {
    const convolution *c = context;
    (void)thread;
    for (size_t item = first; item < last; item++) {
        const HOST(token_block) block = block_of(c, item);
        if (c->sums)
            c->kernels->convolve_taps(&block, c->sums + item * c->width * block.channels);
        else
            c->kernels->convolve(&block, c->kernel);
    }
}

static void run_convolution(const HOST(state) * state, convolution *c) {
    HOST(run)(state, c->in->shape[0] * c->blocks, icl_tensor_count(c->in) * c->width, run_blocks, c);
}

static void pack_kernel(const icl_tensor *kernel, real *packed) {
    const size_t width = kernel->shape[0], channels = kernel->shape[1];
    for (size_t j = 0; j < width; j++)
        for (size_t i = 0; i < channels; i++)
            packed[j * channels + i] = host_elements(kernel)[j * kernel->stride[0] + i * kernel->stride[1]];
}

icl_status HOST(convolve)(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    const HOST(state) *state = host_state(backend);
    convolution c = {.kernels = state->kernels, .out = &operands[0], .in = &operands[1]};
    real *packed = NULL;

    (void)params;
    ICL_CHECK(HOST(scratch)(backend, icl_tensor_count(&operands[2]) * sizeof *packed, &packed, error));
    pack_kernel(&operands[2], packed);
    c.kernel = packed;
    set_blocks(&c, &operands[2]);
    run_convolution(state, &c);
    return ICL_OK;
}

/* ---- Backward ---- */

/* One level of the sums over blocks: every FAN rows are added up to one. */
typedef struct block_sums {
    const HOST(kernels) * kernels;
    const real *from;
    real *to;
    size_t count, length; /* rows of `from`; elements of a row */
} block_sums;

static void sum_blocks(void *context, size_t first, size_t last, size_t thread) {
    const block_sums *s = context;
    (void)thread;
    for (size_t i = first; i < last; i++) {
        const size_t left = s->count - i * FAN;
        const HOST(row_list) rows = {.from = s->from + i * FAN * s->length,
                                     .row_stride = s->length,
                                     .step = 1,
                                     .count = left < FAN ? left : FAN};
        s->kernels->sum_rows(&rows, s->length, false, s->to + i * s->length);
    }
}

/* Adds [count][length] up to one row, which is returned. `free` has room for a 32nd of the rows, rounded up. */
static const real *sum_all_blocks(const HOST(state) * state, real *sums, real *free, size_t count, size_t length) {
    block_sums s = {.kernels = state->kernels, .from = sums, .to = free, .count = count, .length = length};
    while (s.count > 1) {
        const size_t sums_of_level = (s.count + FAN - 1) / FAN;
        HOST(run)(state, sums_of_level, s.count * length, sum_blocks, &s);
        real *spent = s.from == sums ? sums : free;
        s.from = s.to;
        s.to = spent;
        s.count = sums_of_level;
    }
    return s.from;
}

static icl_status kernel_gradient(icl_backend *backend, const icl_tensor *operands, icl_error *error) {
    const HOST(state) *state = host_state(backend);
    const icl_tensor *d_kernel = &operands[1];
    convolution c = {.kernels = state->kernels, .out = &operands[2], .in = &operands[3]};
    const size_t length = icl_tensor_count(d_kernel);
    real *sums = NULL;

    set_blocks(&c, d_kernel);
    const size_t count = c.in->shape[0] * c.blocks;
    ICL_CHECK(HOST(scratch)(backend, (count + (count + FAN - 1) / FAN) * length * sizeof *sums, &sums, error));
    c.sums = sums;
    run_convolution(state, &c);
    const real *sum = sum_all_blocks(state, sums, sums + count * length, count, length);
    for (size_t j = 0; j < d_kernel->shape[0]; j++)
        for (size_t i = 0; i < d_kernel->shape[1]; i++)
            host_elements(d_kernel)[j * d_kernel->stride[0] + i * d_kernel->stride[1]] =
                sum[j * d_kernel->shape[1] + i];
    return ICL_OK;
}

icl_status HOST(convolve_backward)(icl_backend *backend, const void *params, const icl_tensor *operands,
                                   icl_error *error) {
    const HOST(state) *state = host_state(backend);
    const icl_tensor *kernel = &operands[4];
    convolution c = {.kernels = state->kernels, .out = &operands[0], .in = &operands[2], .reversed = true};
    real *packed = NULL;

    (void)params;
    if (operands[0].buffer) {
        ICL_CHECK(HOST(scratch)(backend, icl_tensor_count(kernel) * sizeof *packed, &packed, error));
        pack_kernel(kernel, packed);
        c.kernel = packed;
        set_blocks(&c, kernel);
        run_convolution(state, &c);
    }
    return operands[1].buffer ? kernel_gradient(backend, operands, error) : ICL_OK;
}

/* ---- Rotary positions ---- */

/* The threads share the rows; the angles' cosines and sines are separated first. */

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

/* ---- Cross-entropy ---- */

/* The threads share the rows of logits. */

/* Operands of cross_entropy, and of cross_entropy_backward. */
enum { LOSSES = 0, LOGITS, CLASSES };
enum { D_LOGITS = 0, D_LOSSES, OF_LOGITS, OF_CLASSES };

typedef struct entropy {
    const HOST(kernels) * kernels;
    HOST(row_view) losses, logits, classes, d_logits; /* losses: d_losses in the backward pass */
    size_t n;
    real *packed; /* [2][n] for each thread: rows whose elements are not adjacent */
} entropy;

static icl_status run_rows(icl_backend *backend, entropy *loss, icl_thread_items *task, icl_error *error) {
    const HOST(state) *state = host_state(backend);
    const icl_tensor *logits = loss->logits.tensor;
    const size_t count = icl_tensor_count(logits);

    loss->kernels = state->kernels;
    loss->n = logits->shape[logits->rank - 1];
    ICL_CHECK(HOST(scratch)(backend, state->threads * 2 * loss->n * sizeof(real), &loss->packed, error));
    HOST(run)(state, count / loss->n, 4 * count, task, loss);
    return ICL_OK;
}

static void measure_rows(void *context, size_t first, size_t last, size_t thread) {
    const entropy *loss = context;
    for (size_t row = first; row < last; row++) {
        const real *logits = host_pack_row(&loss->logits, row, loss->n, loss->packed + thread * 2 * loss->n);
        *host_row(&loss->losses, row) = loss->kernels->cross_entropy(logits, loss->n, *host_row(&loss->classes, row));
    }
}

icl_status HOST(cross_entropy)(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    entropy loss = {.losses = host_rows(&operands[LOSSES]),
                    .logits = host_rows(&operands[LOGITS]),
                    .classes = host_rows(&operands[CLASSES])};
    (void)params;
    return run_rows(backend, &loss, measure_rows, error);
}

static void rows_backward(void *context, size_t first, size_t last, size_t thread) {
    const entropy *loss = context;
    real *packed = loss->packed + thread * 2 * loss->n;
    for (size_t row = first; row < last; row++) {
        real *to = host_row_target(&loss->d_logits, row, packed + loss->n);
        loss->kernels->cross_entropy_backward(host_pack_row(&loss->logits, row, loss->n, packed), loss->n,
                                              *host_row(&loss->classes, row), *host_row(&loss->losses, row), to);
        host_unpack_row(&loss->d_logits, row, loss->n, to);
    }
}

icl_status HOST(cross_entropy_backward)(icl_backend *backend, const void *params, const icl_tensor *operands,
                                        icl_error *error) {
    entropy loss = {.losses = host_rows(&operands[D_LOSSES]),
                    .logits = host_rows(&operands[OF_LOGITS]),
                    .classes = host_rows(&operands[OF_CLASSES]),
                    .d_logits = host_rows(&operands[D_LOGITS])};
    (void)params;
    return run_rows(backend, &loss, rows_backward, error);
}
