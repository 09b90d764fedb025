/* Rows that are normalized. Cases: every kind, narrow rows and wide ones, more rows than a block of a sum over rows. */
#include "conformance/cases.h"

#include <math.h>
#include <stdio.h>

#include "iclab/status.h"

enum { IN_OF_FORWARD = 1, D_OUT = 3, IN_OF_BACKWARD = 4 };

static const struct {
    int rank;
    size_t shape[ICL_MAX_RANK];
} shapes[] = {
    {2, {9, 13}},   {1, {7}},           {2, {37, 1}},   {2, {130, 5}}, {3, {3, 21, 16}}, {2, {5, 33}}, {3, {7, 40, 48}},
    {2, {3, 1030}}, {4, {2, 3, 5, 17}}, {2, {2, 5000}}, {2, {0, 5}},   {3, {2, 0, 4}},   {2, {3, 0}},
};

static void add_normalize(icl_case_list *list, icl_op op, icl_normalize_params params, size_t s, icl_values values,
                          unsigned in_place) {
    const bool is_backward = op == ICL_OP_normalize_backward;
    const size_t *shape = shapes[s].shape;
    const int rank = shapes[s].rank;
    const size_t n = shape[rank - 1];
    const bool is_flat = n == 1 && params.kind == ICL_NORM_LAYER; /* one element normalizes to 0 */
    const bool has_gain = (s + (size_t)params.kind) % 3 != 1;
    const bool has_shift = is_flat || (s + (size_t)params.kind) % 3 == 2;
    const bool is_vector[] = {false, is_backward, true, !is_backward, false, true};
    const bool is_there[] = {
        true, !is_backward || has_gain, is_backward ? has_shift : has_gain, is_backward || has_shift, true, has_gain};
    icl_case c = {.op = op, .params = {.normalize = params}, .values = values, .in_place = in_place};
    char what[64];

    for (int i = 0; i < icl_op_infos[op].outputs + icl_op_infos[op].inputs; i++)
        if (is_vector[i] || !is_there[i])
            icl_case_set_shape(&c, i, is_there[i] ? 1 : -1, n, 0, 0, 0);
        else
            icl_case_set_shape(&c, i, rank, shape[0], shape[1], shape[2], shape[3]);
    snprintf(what, sizeof what, "normalize %s%s%s", is_backward ? "backward " : "", icl_norm_name(params.kind),
             in_place ? " in place" : "");
    icl_cases_add(list, c, what);
}

/* Each shape with an epsilon and values that change from shape to shape, and with special values. */
static void add_kind(icl_case_list *list, icl_op op, icl_norm_kind kind) {
    static const icl_values values[] = {ICL_VALUES_RANDOM,     ICL_VALUES_INTEGERS, ICL_VALUES_LARGE,
                                        ICL_VALUES_CANCELLING, ICL_VALUES_SMALL,    ICL_VALUES_ABSORBED};
    const size_t value_count = sizeof values / sizeof *values, shape_count = sizeof shapes / sizeof *shapes;
    for (size_t s = 0; s < shape_count; s++) {
        const double epsilon = s % 2 ? 0 : 1e-5, other = s % 2 ? 1e-5 : 0;
        add_normalize(list, op, (icl_normalize_params){kind, epsilon}, s, values[(s + (size_t)kind) % value_count], 0);
        if (shapes[s].rank > 1)
            add_normalize(list, op, (icl_normalize_params){kind, other}, s, ICL_VALUES_SPECIAL, 0);
    }
    for (size_t s = 1; s < shape_count && op == ICL_OP_normalize; s += 2)
        add_normalize(list, op, (icl_normalize_params){kind, 1e-5}, s, ICL_VALUES_RANDOM, 2);
}

static void cases(icl_case_list *list) {
    for (int backward = 0; backward < 2; backward++)
        for (int kind = 0; kind < ICL_NORM_COUNT; kind++)
            add_kind(list, backward ? ICL_OP_normalize_backward : ICL_OP_normalize, (icl_norm_kind)kind);
}

/* Special rows of what is normalized: NaN, infinities, rows of one number and of zeros. Of d_out: a NaN. */
static void inputs(const icl_case *c, int operand, float *const *operands) {
    const size_t n = c->shape[0][c->rank[0] - 1], count = icl_case_count(c, operand);
    const bool is_in =
        operand == (c->op == ICL_OP_normalize ? IN_OF_FORWARD : IN_OF_BACKWARD) || (c->in_place && operand == 0);
    icl_case plain = *c;
    float *values = operands[operand];

    if (c->values == ICL_VALUES_SPECIAL)
        plain.values = ICL_VALUES_RANDOM;
    icl_case_values(&plain, operand, false, values);
    if (c->values != ICL_VALUES_SPECIAL || count == 0 || n == 0)
        return;
    if (c->op == ICL_OP_normalize_backward && operand == D_OUT)
        values[count - 1] = NAN;
    for (size_t row = 0; is_in && (row + 1) * n <= count; row++) {
        float *x = values + row * n;
        if (row % 6 == 2)
            x[row % n] = NAN;
        if (row % 6 == 3)
            x[(row + 1) % n] = row % 4 == 3 ? INFINITY : -INFINITY;
        for (size_t i = 0; i < n && (row % 6 == 4 || row % 6 == 5); i++)
            x[i] = row % 6 == 4 ? 0.1F : 0;
    }
}

ICL_CASE_CALL(normalize, icl_normalize(on, &c->params.normalize, t[0], t[1], t[2], t[3], error))
ICL_CASE_CALL(normalize_backward,
              icl_normalize_backward(on, &c->params.normalize, t[0], t[1], t[2], t[3], t[4], t[5], error))

/* clang-format off */
#define LAYER            {.normalize = {ICL_NORM_LAYER, 1e-5}}
#define RMS              {.normalize = {ICL_NORM_RMS, 1e-5}}
#define UNIT             {.normalize = {ICL_NORM_UNIT, 1e-6}}
#define ROWS(b, t, w)    ICL_AXES3(b, t, w)
#define FORWARD(b, t, w) {ROWS(b, t, w), ROWS(b, t, w), ICL_AXIS(w), ICL_AXIS(w)}
#define BACKWARD(b, t, w) {ROWS(b, t, w), ICL_AXIS(w), ICL_AXIS(w), ROWS(b, t, w), ROWS(b, t, w), ICL_AXIS(w)}
/* clang-format on */

static const icl_timed_shape forward_timed[] = {
    {"normalize layer (128x41x256)", LAYER, FORWARD(128, 41, 256)},
    {"normalize rms (64x128x64)", RMS, FORWARD(64, 128, 64)},
    {"normalize unit (2048x21x16)", UNIT, {ROWS(2048, 21, 16), ROWS(2048, 21, 16), ICL_ABSENT, ICL_ABSENT}},
};
static const icl_timed_shape backward_timed[] = {
    {"normalize backward layer (128x41x256)", LAYER, BACKWARD(128, 41, 256)},
    {"normalize backward rms (64x128x64)", RMS, BACKWARD(64, 128, 64)},
    {"normalize backward unit (2048x21x16)",
     UNIT,
     {ROWS(2048, 21, 16), ICL_ABSENT, ICL_ABSENT, ROWS(2048, 21, 16), ROWS(2048, 21, 16), ICL_ABSENT}},
};

const icl_described_op icl_described_normalize = ICL_DESCRIBED(
    forward_timed, .call = call_normalize, .truth = icl_truth_normalize, .cases = cases, .inputs = inputs);
const icl_described_op icl_described_normalize_backward = ICL_DESCRIBED(
    backward_timed, .call = call_normalize_backward, .truth = icl_truth_normalize_backward, .inputs = inputs);
