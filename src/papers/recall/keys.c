#include "papers/recall/keys.h"

#include <math.h>

#include "core/allocate.h"
#include "iclab/ops_recurrence.h"
#include "iclab/random.h"
#include "iclab/tape.h"

/* Of this file alone; tasks have streams of their own (task/streams.h). */
#define KEY_STREAM 0x72636c6cu

/* Keys make systems of condition 4 / ridge, and the error of a solution falls by a factor exp(-2 sqrt(ridge / 4)) a
 * step. */
enum { ITERATIONS = 300 };

static icl_status write_values(icl_recall_keys *w, size_t passes, icl_error *error) {
    float *values = NULL, *strengths;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(w->tokens, (w->n + 1) * sizeof *values, "values", &values, error));
    strengths = values + w->tokens * w->n;
    for (size_t t = 0; t < passes * w->n; t++)
        values[t * w->n + t % w->n] = strengths[t] = 1;
    ICL_TRY(icl_tensor_write(w->v, values, error));
    ICL_TRY(icl_tensor_write(w->beta, strengths, error));
    for (size_t j = 0; j < w->d; j++)
        strengths[j] = (float)ICL_RECALL_RIDGE;
    ICL_TRY(icl_tensor_write(w->ridge, strengths, error));
done:
    icl_free(&values);
    return status;
}

icl_status icl_recall_keys_open(icl_backend *backend, size_t d, size_t n, size_t passes, icl_recall_keys *w,
                                icl_error *error) {
    const size_t T = (passes + 1) * n;

    *w = (icl_recall_keys){.d = d, .n = n, .tokens = T};
    ICL_CHECK(icl_allocate(ICL_RECALL_SETS * n, d * sizeof *w->keys, "keys", &w->keys, error));
    ICL_CHECK(icl_allocate(ICL_RECALL_SETS * T, d * sizeof *w->written, "keys", &w->written, error));
    ICL_CHECK(icl_allocate(ICL_RECALL_SETS * n, n * sizeof *w->outputs, "outputs", &w->outputs, error));
    ICL_CHECK(icl_tensor_create(backend, 4, (size_t[]){ICL_RECALL_SETS, 1, T, d}, &w->k, error));
    ICL_CHECK(icl_tensor_create(backend, 4, (size_t[]){1, 1, T, n}, &w->v, error));
    ICL_CHECK(icl_tensor_create(backend, 4, (size_t[]){1, 1, T, 1}, &w->beta, error));
    ICL_CHECK(icl_tensor_create(backend, 4, (size_t[]){1, 1, 1, d}, &w->ridge, error));
    ICL_CHECK(icl_tensor_create(backend, 4, (size_t[]){ICL_RECALL_SETS, 1, T, n}, &w->out, error));
    return write_values(w, passes, error);
}

void icl_recall_keys_close(icl_recall_keys *w) {
    icl_free(&w->keys);
    icl_free(&w->written);
    icl_free(&w->outputs);
    icl_tensor_release(&w->k);
    icl_tensor_release(&w->v);
    icl_tensor_release(&w->beta);
    icl_tensor_release(&w->ridge);
    icl_tensor_release(&w->out);
}

/* Normals over their length are uniform on the sphere. */
icl_status icl_recall_keys_draw(icl_recall_keys *w, uint32_t seed, size_t first, icl_error *error) {
    const icl_random_key key = {seed, KEY_STREAM, w->d * 65536 + w->n};
    const size_t set = w->n * w->d, copies = w->tokens / w->n;

    for (size_t i = 0; i < ICL_RECALL_SETS * w->n; i++) {
        double *one = w->keys + i * w->d, square = 0;
        for (size_t j = 0; j < w->d; j++) {
            one[j] = (double)icl_normal_from_word(icl_random_word(key, first * set + i * w->d + j));
            square += one[j] * one[j];
        }
        for (size_t j = 0; j < w->d; j++)
            one[j] /= sqrt(square);
    }
    for (size_t i = 0; i < ICL_RECALL_SETS; i++)
        for (size_t copy = 0; copy < copies; copy++)
            for (size_t j = 0; j < set; j++)
                w->written[(i * copies + copy) * set + j] = (float)w->keys[i * set + j];
    return icl_tensor_write(w->k, w->written, error);
}

icl_status icl_recall_keys_ask(icl_recall_keys *w, icl_backend *backend, icl_recall_rule rule, icl_error *error) {
    const icl_recurrence_params params = {.delta = rule == ICL_RECALL_DELTA, .scale = 1};
    icl_recurrence_inputs inputs = {.q = w->k, .k = w->k, .v = w->v, .beta = w->beta};
    icl_tape *tape = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_tape_create(backend, &tape, error));
    if (rule == ICL_RECALL_MESA) {
        const icl_variable k = icl_tape_constant(tape, w->k), beta = icl_tape_constant(tape, w->beta);
        const icl_ridge_solve_variables system = {
            .q = k, .k = k, .ridge = icl_tape_constant(tape, w->ridge), .beta = &beta};
        const icl_variable solved = icl_tape_ridge_solve(tape, ITERATIONS, &system);
        ICL_TRY(icl_tape_status(tape, error));
        inputs.q = icl_tape_value(tape, solved);
    }
    ICL_TRY(icl_recurrence_forward(backend, &params, w->out, (icl_tensor){0}, NULL, &inputs, error));
    ICL_TRY(icl_tensor_read(icl_tensor_slice(w->out, 2, w->tokens - w->n, w->n), w->outputs, error));
done:
    icl_tape_destroy(&tape);
    return status;
}

double icl_recall_keys_error(const icl_recall_keys *w, size_t i) {
    double sum = 0;
    for (size_t j = 0; j < w->n; j++)
        for (size_t c = 0; c < w->n; c++) {
            const double miss = (double)w->outputs[(i * w->n + j) * w->n + c] - (j == c ? 1.0 : 0.0);
            sum += miss * miss;
        }
    return sum / (2 * (double)w->n);
}
