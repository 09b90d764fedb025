/* Rotary positions. Each result is a sum of two products, all rounded once: |error| <= gamma(2) (|a x| + |b y|)
 * (Higham, section 3.1). */
#include <math.h>

#include "conformance/cases.h"

/* ---- The exact result ---- */

enum { OUT = 0, IN, ANGLES };

static icl_status truth_rotate(icl_truth *truth, icl_error *error) {
    const icl_case *c = truth->c;
    const size_t tokens = c->shape[ANGLES][0], half = c->shape[ANGLES][1];
    const double sign = c->params.inverse ? -1 : 1;
    (void)error;

    for (size_t i = 0; i < icl_case_count(c, OUT); i++) {
        const size_t column = i % (2 * half), token = i / (2 * half) % tokens, pair = column % half;
        const double *angle = truth->operand[ANGLES] + 2 * (token * half + pair);
        const bool is_low = column < half;
        const double own = truth->operand[IN][i], other = truth->operand[IN][is_low ? i + half : i - half];
        const double straight = angle[0] * own, crossed = (is_low ? -sign : sign) * angle[1] * other;
        truth->operand[OUT][i] = straight + crossed;
        truth->bound[OUT][i] = icl_gamma(2, truth->unit) * (fabs(straight) + fabs(crossed));
    }
    return ICL_OK;
}

/* ---- Cases ---- */

/* Adds rows of every rank, of one pair, of pairs that fill the lanes and that do not, and of none; some are written
 * over the input. */
static void cases(icl_case_list *list) {
    static const struct {
        int rank;
        size_t shape[ICL_MAX_RANK];
    } sizes[] = {{2, {1, 2}},         {2, {7, 10}},   {3, {3, 5, 32}}, {4, {2, 3, 9, 20}}, {3, {4, 33, 66}},
                 {4, {5, 2, 17, 16}}, {3, {2, 0, 6}}, {3, {2, 5, 0}},  {4, {3, 4, 6, 34}}};
    static const icl_values values[] = {ICL_VALUES_INTEGERS, ICL_VALUES_RANDOM, ICL_VALUES_SPECIAL, ICL_VALUES_LARGE};

    for (unsigned inverse = 0; inverse < 2; inverse++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
                const size_t *shape = sizes[s].shape;
                const int rank = sizes[s].rank;
                icl_case c = {.op = ICL_OP_rotate,
                              .params = {.inverse = inverse},
                              .values = values[v],
                              .in_place = s % 2 == 1 && v % 2 == 1 ? 2 : 0};
                icl_case_set_shape(&c, OUT, rank, shape[0], shape[1], shape[2], shape[3]);
                icl_case_set_shape(&c, IN, rank, shape[0], shape[1], shape[2], shape[3]);
                icl_case_set_shape(&c, ANGLES, 3, shape[rank - 2], shape[rank - 1] / 2, 2, 0);
                icl_cases_add(list, c, inverse ? "rotate back" : "rotate");
            }
}

/* Writes cosines and sines, which are at most 1, as angles. The op takes any numbers, so integers and special values
 * stay as they are. */
static void inputs(const icl_case *c, int operand, float *const *operands) {
    const size_t count = icl_case_count(c, operand);
    float *values = operands[operand];

    icl_case_values(c, operand, false, values);
    if (operand == ANGLES && c->values != ICL_VALUES_INTEGERS && c->values != ICL_VALUES_SPECIAL)
        for (size_t i = 0; i + 1 < count; i += 2) {
            const float angle = values[i];
            values[i] = cosf(angle);
            values[i + 1] = sinf(angle);
        }
    icl_case_without_largest(count, values);
}

ICL_CASE_CALL(rotate, icl_rotate(on, c->params.inverse, t[OUT], t[IN], t[ANGLES], error))

static double flops(const icl_case *c) {
    return 3 * (double)icl_case_count(c, OUT);
}

#define HEADS                                                                                                          \
    {                                                                                                                  \
        4, {                                                                                                           \
            64, 4, 256, 32                                                                                             \
        }                                                                                                              \
    }

static const icl_timed_shape timed[] = {
    {"rotate (64x4x256x32)", {0}, {HEADS, HEADS, ICL_AXES3(256, 16, 2)}},
};

const icl_described_op icl_described_rotate =
    ICL_DESCRIBED(timed, .call = call_rotate, .truth = truth_rotate, .cases = cases, .inputs = inputs, .flops = flops);
