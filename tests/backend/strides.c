/*
 * One operand of an op is strided, the others are dense: the bits are those of elements that lie side by side.
 * Conformance has one layout for all operands of a case, and so does not meet a row that is dense beside one that is
 * not.
 */
#include "iclab/ops.h"
#include "iclab/ops_sequence.h"
#include "iclab/status.h"
#include "tap.h"

enum { MOST_OPERANDS = 6, MOST_ELEMENTS = 4608, ALL_DENSE = -1 };

typedef struct run {
    icl_backend *backend;
    const icl_tensor *t;
    icl_error *error;
} run;

static icl_status convolve(const run *r) {
    return icl_convolve(r->backend, r->t[0], r->t[1], r->t[2], r->error);
}

static icl_status convolve_backward(const run *r) {
    return icl_convolve_backward(r->backend, r->t[0], r->t[1], r->t[2], r->t[3], r->t[4], r->error);
}

static icl_status rotate(const run *r) {
    return icl_rotate(r->backend, false, r->t[0], r->t[1], r->t[2], r->error);
}

static icl_status look_up(const run *r) {
    return icl_look_up(r->backend, r->t[0], r->t[1], r->t[2], r->error);
}

static icl_status look_up_backward(const run *r) {
    return icl_look_up_backward(r->backend, r->t[0], r->t[1], r->t[2], r->error);
}

static icl_status normalize(const run *r) {
    return icl_normalize(r->backend, &(icl_normalize_params){ICL_NORM_LAYER, 1e-5}, r->t[0], r->t[1], r->t[2], r->t[3],
                         r->error);
}

static icl_status normalize_backward(const run *r) {
    return icl_normalize_backward(r->backend, &(icl_normalize_params){ICL_NORM_LAYER, 1e-5}, r->t[0], r->t[1], r->t[2],
                                  r->t[3], r->t[4], r->t[5], r->error);
}

static icl_status add(const run *r) {
    return icl_binary(r->backend, ICL_ADD, r->t[0], r->t[1], r->t[2], r->error);
}

static icl_status negate(const run *r) {
    return icl_unary(r->backend, ICL_NEGATE, r->t[0], r->t[1], r->error);
}

static icl_status multiply(const run *r) {
    return icl_matmul(r->backend, r->t[0], 1, r->t[1], r->t[2], 0, r->error);
}

/* Rows fill the widest lanes and leave some; they are more than OpenCL's lists of small ops take. */
enum { TOKENS, TAPS, ROW, PAIRS, ANGLES, TABLE, SYMBOLS, LEFT, RIGHT, PRODUCT };
static const struct {
    int rank;
    size_t shape[3];
} shapes[] = {
    [TOKENS] = {3, {3, 37, 37}}, [TAPS] = {2, {3, 37}},    [ROW] = {1, {37}},        [PAIRS] = {3, {3, 37, 38}},
    [ANGLES] = {3, {37, 19, 2}}, [TABLE] = {2, {7, 37}},   [SYMBOLS] = {2, {3, 37}}, [LEFT] = {2, {6, 13}},
    [RIGHT] = {2, {13, 37}},     [PRODUCT] = {2, {6, 37}},
};

typedef struct op {
    const char *name;
    icl_status (*call)(const run *r);
    int outputs, operands;
    int shapes[MOST_OPERANDS]; /* the outputs' first */
} op;

static const op ops[] = {
    {"convolve", convolve, 1, 3, {TOKENS, TOKENS, TAPS}},
    {"convolve_backward", convolve_backward, 2, 5, {TOKENS, TAPS, TOKENS, TOKENS, TAPS}},
    {"rotate", rotate, 1, 3, {PAIRS, PAIRS, ANGLES}},
    {"look_up", look_up, 1, 3, {TOKENS, TABLE, SYMBOLS}},
    {"look_up_backward", look_up_backward, 1, 3, {TABLE, TOKENS, SYMBOLS}},
    {"normalize", normalize, 1, 4, {TOKENS, TOKENS, ROW, ROW}},
    {"normalize_backward", normalize_backward, 3, 6, {TOKENS, ROW, ROW, TOKENS, TOKENS, ROW}},
    {"add", add, 1, 3, {TOKENS, TOKENS, ROW}},
    {"negate", negate, 1, 2, {TOKENS, TOKENS}},
    {"matmul", multiply, 1, 3, {PRODUCT, LEFT, RIGHT}},
};

/* An operand that is strided has every other element of a tensor. Values are whole numbers from 0 to 6, as symbols
 * are. */
static icl_status place(icl_backend *backend, const op *tested, int operand, bool strided, icl_tensor *owned,
                        icl_tensor *view, icl_error *error) {
    const int rank = shapes[tested->shapes[operand]].rank;
    size_t shape[4] = {0};
    float values[MOST_ELEMENTS];

    for (int axis = 0; axis < rank; axis++)
        shape[axis] = shapes[tested->shapes[operand]].shape[axis];
    shape[rank] = 2;
    ICL_CHECK(icl_tensor_create(backend, strided ? rank + 1 : rank, shape, owned, error));
    *view = strided ? icl_tensor_slice(*owned, rank, 0, 1) : *owned;
    view->rank = rank;
    for (size_t i = 0; i < icl_tensor_count(view); i++)
        values[i] = (float)((3 * i + i / 37 + (size_t)operand) % 7);
    return icl_tensor_write(*view, values, error);
}

/* All that the op writes goes into results. */
static icl_status run_op(icl_backend *backend, const op *tested, int strided, float *results, icl_error *error) {
    icl_tensor owned[MOST_OPERANDS] = {{0}}, t[MOST_OPERANDS] = {{0}};
    icl_status status = ICL_OK;

    for (int i = 0; i < tested->operands; i++)
        ICL_TRY(place(backend, tested, i, i == strided, &owned[i], &t[i], error));
    ICL_TRY(tested->call(&(run){backend, t, error}));
    for (int i = 0; i < tested->outputs; results += icl_tensor_count(&t[i]), i++)
        ICL_TRY(icl_tensor_read(t[i], results, error));
done:
    for (int i = 0; i < tested->operands; i++)
        icl_tensor_release(&owned[i]);
    return status;
}

static void check_op(tap_run *tap, icl_backend *backend, const op *tested) {
    float dense[2 * MOST_ELEMENTS] = {0}, results[2 * MOST_ELEMENTS] = {0};
    icl_error error = {0};

    tap_status(tap, run_op(backend, tested, ALL_DENSE, dense, &error), &error, tested->name);
    for (int strided = 0; strided < tested->operands; strided++) {
        const icl_status status = run_op(backend, tested, strided, results, &error);
        tap_ok(tap, status == ICL_OK && memcmp(dense, results, sizeof results) == 0,
               "%s: operand %d alone is strided%s%s", tested->name, strided, error.message[0] ? ": " : "",
               error.message);
    }
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, argc > 1 ? argv[1] : "cpu");

    for (size_t i = 0; backend && i < sizeof ops / sizeof *ops; i++)
        check_op(&tap, backend, &ops[i]);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
