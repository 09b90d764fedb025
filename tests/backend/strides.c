/* An op with one strided operand, the others dense, gives the bits that it gives if all are dense. Conformance has one
 * layout for all operands of a case, and so never has a dense row beside a strided one. */
#include "conformance/case.h"
#include "iclab/status.h"
#include "tap.h"

enum { MOST_OPERANDS = 6, MOST_ELEMENTS = 4608, ALL_DENSE = -1 };

/* Rows are longer than the widest vector of lanes, and no multiple of it; they are too many for OpenCL's lists of small
 * ops. */
enum { TOKENS, TAPS, ROW, PAIRS, ANGLES, TABLE, SYMBOLS, LEFT, RIGHT, PRODUCT };
static const struct {
    int rank;
    size_t shape[3];
} shapes[] = {
    [TOKENS] = {3, {3, 37, 37}}, [TAPS] = {2, {3, 37}},    [ROW] = {1, {37}},        [PAIRS] = {3, {3, 37, 38}},
    [ANGLES] = {3, {37, 19, 2}}, [TABLE] = {2, {7, 37}},   [SYMBOLS] = {2, {3, 37}}, [LEFT] = {2, {6, 13}},
    [RIGHT] = {2, {13, 37}},     [PRODUCT] = {2, {6, 37}},
};

typedef struct tested_op {
    icl_op op;
    icl_case_params params;
    int shapes[MOST_OPERANDS]; /* outputs first */
} tested_op;

static const tested_op ops[] = {
    {ICL_OP_convolve, {0}, {TOKENS, TOKENS, TAPS}},
    {ICL_OP_convolve_backward, {0}, {TOKENS, TAPS, TOKENS, TOKENS, TAPS}},
    {ICL_OP_rotate, {.inverse = false}, {PAIRS, PAIRS, ANGLES}},
    {ICL_OP_look_up, {0}, {TOKENS, TABLE, SYMBOLS}},
    {ICL_OP_look_up_backward, {0}, {TABLE, TOKENS, SYMBOLS}},
    {ICL_OP_normalize, {.normalize = {ICL_NORM_LAYER, 1e-5}}, {TOKENS, TOKENS, ROW, ROW}},
    {ICL_OP_normalize_backward, {.normalize = {ICL_NORM_LAYER, 1e-5}}, {TOKENS, ROW, ROW, TOKENS, TOKENS, ROW}},
    {ICL_OP_binary, {.binary = ICL_ADD}, {TOKENS, TOKENS, ROW}},
    {ICL_OP_unary, {.unary = ICL_NEGATE}, {TOKENS, TOKENS}},
    {ICL_OP_matmul, {.matmul = {1, 0}}, {PRODUCT, LEFT, RIGHT}},
};

/* Places an operand; if strided, it is every second element of a tensor. Values are whole numbers from 0 to 6, as
 * symbols are. */
static icl_status place(icl_backend *backend, const tested_op *tested, int operand, bool strided, icl_tensor *owned,
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

/* Runs the op, and puts everything that it writes into results. */
static icl_status run_op(icl_backend *backend, const tested_op *tested, int strided, float *results, icl_error *error) {
    const icl_case c = {.op = tested->op, .params = tested->params};
    const icl_op_info *info = &icl_op_infos[tested->op];
    icl_tensor owned[MOST_OPERANDS] = {{0}}, t[MOST_OPERANDS] = {{0}};
    icl_status status = ICL_OK;

    for (int i = 0; i < info->outputs + info->inputs; i++)
        ICL_TRY(place(backend, tested, i, i == strided, &owned[i], &t[i], error));
    ICL_TRY(icl_describe(tested->op)->call(&c, backend, t, error));
    for (int i = 0; i < info->outputs; results += icl_tensor_count(&t[i]), i++)
        ICL_TRY(icl_tensor_read(t[i], results, error));
done:
    for (int i = 0; i < MOST_OPERANDS; i++)
        icl_tensor_release(&owned[i]);
    return status;
}

static void check_op(tap_run *tap, icl_backend *backend, const tested_op *tested) {
    float dense[2 * MOST_ELEMENTS] = {0}, results[2 * MOST_ELEMENTS] = {0};
    const icl_op_info *info = &icl_op_infos[tested->op];
    icl_error error = {0};

    tap_status(tap, run_op(backend, tested, ALL_DENSE, dense, &error), &error, info->name);
    for (int strided = 0; strided < info->outputs + info->inputs; strided++) {
        const icl_status status = run_op(backend, tested, strided, results, &error);
        tap_ok(tap, status == ICL_OK && memcmp(dense, results, sizeof results) == 0,
               "%s: operand %d alone is strided%s%s", info->name, strided, error.message[0] ? ": " : "", error.message);
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
