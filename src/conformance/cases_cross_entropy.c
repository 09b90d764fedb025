/* Cross-entropy. Cases: two classes and thousands, logits so far apart that weights vanish, rows without a loss. */
#include "conformance/cases.h"

#include <math.h>

#include "iclab/status.h"

/* The first operand of a row of logits, and of a number for each row. */
enum { LOSSES = 0, LOGITS, CLASSES };
enum { D_LOGITS = 0, D_LOSSES, OF_LOGITS, OF_CLASSES };

static void add_entropy(icl_case_list *list, icl_op op, int rank, const size_t *shape, icl_values values) {
    const bool is_backward = op == ICL_OP_cross_entropy_backward;
    icl_case c = {.op = op, .values = values};

    for (int i = 0; i < icl_op_infos[op].outputs + icl_op_infos[op].inputs; i++) {
        const bool is_row = is_backward ? i == D_LOGITS || i == OF_LOGITS : i == LOGITS;
        icl_case_set_shape(&c, i, rank, shape[0], shape[1], shape[2], shape[3]);
        if (!is_row)
            c.shape[i][rank - 1] = 1;
    }
    icl_cases_add(list, c, is_backward ? "cross-entropy backward" : "cross-entropy");
}

static void cases(icl_case_list *list) {
    static const struct {
        int rank;
        size_t shape[ICL_MAX_RANK];
    } shapes[] = {
        {2, {37, 2}},   {1, {5}},       {2, {130, 3}}, {3, {3, 21, 16}}, {4, {2, 3, 5, 33}}, {2, {9, 257}},
        {2, {2, 1030}}, {2, {2, 5000}}, {2, {6, 1}},   {2, {0, 5}},      {3, {2, 0, 4}},     {2, {3, 0}},
    };
    static const icl_values values[] = {ICL_VALUES_RANDOM, ICL_VALUES_WIDE,  ICL_VALUES_INTEGERS,
                                        ICL_VALUES_LARGE,  ICL_VALUES_SMALL, ICL_VALUES_CANCELLING};
    for (int backward = 0; backward < 2; backward++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            const icl_op op = backward ? ICL_OP_cross_entropy_backward : ICL_OP_cross_entropy;
            add_entropy(list, op, shapes[s].rank, shapes[s].shape, values[s % 6]);
            add_entropy(list, op, shapes[s].rank, shapes[s].shape, values[(s + 1) % 6]);
            if (shapes[s].rank > 1)
                add_entropy(list, op, shapes[s].rank, shapes[s].shape, ICL_VALUES_SPECIAL);
        }
}

/* Classes of the rows; the special ones among them are none. */
static void write_classes(const icl_case *c, int operand, size_t n, float *classes) {
    static const float none[] = {-1, 0.5F, NAN, INFINITY};
    const icl_random_key key = {.seed = c->seed, .stream = (uint32_t)operand};

    for (size_t i = 0; i < icl_case_count(c, operand); i++) {
        classes[i] = n > 0 ? (float)(icl_random_word(key, i) % n) : 0;
        if (c->values == ICL_VALUES_SPECIAL && i % 7 == 5)
            classes[i] = i % 2 ? none[i / 7 % 4] : (float)n;
    }
}

/* Of some rows a logit is NaN or infinite, or all are -infinity. */
static void write_logits(const icl_case *c, int operand, size_t n, float *logits) {
    const size_t count = icl_case_count(c, operand);
    icl_case plain = *c;

    if (c->values == ICL_VALUES_SPECIAL)
        plain.values = ICL_VALUES_RANDOM;
    icl_case_values(&plain, operand, false, logits);
    for (size_t row = 0; c->values == ICL_VALUES_SPECIAL && (row + 1) * n <= count && n > 0; row++) {
        float *z = logits + row * n;
        if (row % 7 > 0 && row % 7 < 4)
            z[row % n] = row % 7 == 1 ? NAN : row % 7 == 2 ? -INFINITY : INFINITY;
        for (size_t k = 0; k < n && row % 7 == 4; k++)
            z[k] = -INFINITY;
    }
}

static void inputs(const icl_case *c, int operand, float *const *operands) {
    const bool is_backward = c->op == ICL_OP_cross_entropy_backward;
    const int logits = is_backward ? OF_LOGITS : LOGITS, classes = is_backward ? OF_CLASSES : CLASSES;
    const size_t n = c->shape[logits][c->rank[logits] - 1];
    icl_case plain = *c;

    plain.values = ICL_VALUES_RANDOM; /* d_losses */
    if (operand == classes)
        write_classes(c, operand, n, operands[operand]);
    else if (operand == logits)
        write_logits(c, operand, n, operands[operand]);
    else
        icl_case_values(&plain, operand, false, operands[operand]);
}

ICL_CASE_CALL(cross_entropy, icl_cross_entropy(on, t[0], t[1], t[2], error))
ICL_CASE_CALL(cross_entropy_backward, icl_cross_entropy_backward(on, t[0], t[1], t[2], t[3], error))

/* Class 1 everywhere. */
static icl_status fill(const icl_case *c, icl_backend *backend, const icl_tensor *t, icl_error *error) {
    return icl_fill(backend, t[c->op == ICL_OP_cross_entropy ? CLASSES : OF_CLASSES], 1, error);
}

/* clang-format off */
#define FORWARD(rows, n)  {ICL_AXES2(rows, 1), ICL_AXES2(rows, n), ICL_AXES2(rows, 1)}
#define BACKWARD(rows, n) {ICL_AXES2(rows, n), ICL_AXES2(rows, 1), ICL_AXES2(rows, n), ICL_AXES2(rows, 1)}
/* clang-format on */

static const icl_timed_shape forward_timed[] = {
    {"cross-entropy (32768x16)", {0}, FORWARD(32768, 16)},
    {"cross-entropy (8192x256)", {0}, FORWARD(8192, 256)},
    {"cross-entropy (64x50000)", {0}, FORWARD(64, 50000)},
};
static const icl_timed_shape backward_timed[] = {
    {"cross-entropy backward (32768x16)", {0}, BACKWARD(32768, 16)},
    {"cross-entropy backward (8192x256)", {0}, BACKWARD(8192, 256)},
    {"cross-entropy backward (64x50000)", {0}, BACKWARD(64, 50000)},
};

const icl_described_op icl_described_cross_entropy =
    ICL_DESCRIBED(forward_timed, .call = call_cross_entropy, .truth = icl_truth_cross_entropy, .cases = cases,
                  .inputs = inputs, .fill = fill);
const icl_described_op icl_described_cross_entropy_backward =
    ICL_DESCRIBED(backward_timed, .call = call_cross_entropy_backward, .truth = icl_truth_cross_entropy_backward,
                  .inputs = inputs, .fill = fill);
