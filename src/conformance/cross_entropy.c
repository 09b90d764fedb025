/*
 * Cross-entropy, and its gradient.
 *
 * The maximum m is exact. z_k - m rounds once, so exp(z_k - m), good to 3 ulp, has the relative error (6 + |z_k - m|)
 * u, or is flushed if it is below the smallest normal number. The sum S of V weights passes through at most 48 + V /
 * 256 additions (ops_sequence.h): its relative error s is the mean of the weights' errors, weighted by their size, and
 * gamma of those additions. log(S) is off by log(1 + s) and by 3 ulp of its own; z_y - m and the last difference round
 * once each.
 *
 * Backward: exp(z_k - m) d / S has the errors of the weight and of S, a division of 2.5 ulp and a product; the
 * difference at k = y rounds once more.
 */
#include <float.h>
#include <math.h>

#include "conformance/cases.h"
#include "iclab/status.h"

/* ---- The exact result ---- */

#define SECOND_ORDER 1.02

typedef struct scored_row {
    const double *z;
    size_t n, own;
    bool is_class;
    double largest, sum, error; /* of the sum: relative */
    double unit, lost;          /* lost: the largest number that may be flushed */
} scored_row;

static double weight(const scored_row *row, size_t k) {
    return exp(row->z[k] - row->largest);
}

/* Returns the relative error of a weight. */
static double weight_error(const scored_row *row, size_t k) {
    return isinf(row->z[k]) ? 0 : row->unit * (6 + fabs(row->z[k] - row->largest));
}

static scored_row describe(const icl_truth *truth, const double *z, size_t n, double number) {
    scored_row row = {.z = z, .n = n, .unit = truth->unit, .largest = -(double)INFINITY};
    long double sum = 0;
    double errors = 0;

    row.lost = truth->unit < (double)FLT_EPSILON / 4 ? DBL_MIN : (double)FLT_MIN;
    row.is_class = number >= 0 && number < (double)n && number == floor(number);
    row.own = row.is_class ? (size_t)number : 0;
    for (size_t k = 0; k < n; k++)
        row.largest = z[k] > row.largest ? z[k] : row.largest;
    for (size_t k = 0; k < n; k++) {
        sum += (long double)weight(&row, k);
        errors += weight(&row, k) * weight_error(&row, k);
    }
    row.sum = (double)sum;
    row.error = SECOND_ORDER * (errors / row.sum + icl_gamma(48 + (double)n / 256, row.unit)) + (double)n * row.lost;
    return row;
}

static icl_status truth_cross_entropy(icl_truth *truth, icl_error *error) {
    const icl_case *c = truth->c;
    const size_t n = c->shape[1][c->rank[1] - 1];
    (void)error;

    for (size_t i = 0; i < icl_case_count(c, 0); i++) {
        const scored_row row = describe(truth, truth->operand[1] + i * n, n, truth->operand[2][i]);
        const double distance = row.is_class ? row.z[row.own] - row.largest : (double)NAN;
        const double loss = log(row.sum) - distance;
        truth->operand[0][i] = loss;
        truth->bound[0][i] = SECOND_ORDER * (row.error + row.unit * (6 * log(row.sum) + fabs(distance) + fabs(loss)));
    }
    return ICL_OK;
}

static icl_status truth_cross_entropy_backward(icl_truth *truth, icl_error *error) {
    const icl_case *c = truth->c;
    const size_t n = c->shape[0][c->rank[0] - 1];
    (void)error;

    for (size_t i = 0; i < icl_case_count(c, 1); i++) {
        const double d_loss = truth->operand[1][i];
        const scored_row row = describe(truth, truth->operand[2] + i * n, n, truth->operand[3][i]);
        for (size_t k = 0; k < n; k++) {
            const double p = weight(&row, k) / row.sum, slope = d_loss * (p - (row.is_class && k == row.own));
            const double relative = weight_error(&row, k) + row.error + 7 * row.unit;
            truth->operand[0][i * n + k] = row.is_class ? slope : (double)NAN;
            truth->bound[0][i * n + k] =
                SECOND_ORDER * (fabs(d_loss) * p * relative + row.unit * fabs(slope)) + row.lost * (2 + fabs(d_loss));
        }
    }
    return ICL_OK;
}

/* ---- Cases ---- */

/* The cases have two classes and thousands, logits so far apart that weights vanish, and rows without a loss. */

/* The operands. Those with LOGITS in their name have a row of logits for each row, the others one number. */
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

/* Writes classes for the rows; special values include numbers that are no class. */
static void write_classes(const icl_case *c, int operand, size_t n, float *classes) {
    static const float none[] = {-1, 0.5F, NAN, INFINITY};
    const icl_random_key key = {.seed = c->seed, .stream = (uint32_t)operand};

    for (size_t i = 0; i < icl_case_count(c, operand); i++) {
        classes[i] = n > 0 ? (float)(icl_random_word(key, i) % n) : 0;
        if (c->values == ICL_VALUES_SPECIAL && i % 7 == 5)
            classes[i] = i % 2 ? none[i / 7 % 4] : (float)n;
    }
}

/* Writes logits; with special values some rows have one that is NaN or infinite, or all are -infinity. */
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
    ICL_DESCRIBED(forward_timed, .call = call_cross_entropy, .truth = truth_cross_entropy, .cases = cases,
                  .inputs = inputs, .fill = fill);
const icl_described_op icl_described_cross_entropy_backward =
    ICL_DESCRIBED(backward_timed, .call = call_cross_entropy_backward, .truth = truth_cross_entropy_backward,
                  .inputs = inputs, .fill = fill);
