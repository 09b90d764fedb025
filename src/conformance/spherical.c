/* spherical has no freedom at all. The truth takes one row at a time, by the formulas of ops.h, in float.
 * tests/backend/spherical.c checks that these give 1 / ||x|| and 2^L. */
#include <string.h>

#include "conformance/cases.h"

/* ---- The exact result ---- */

static float cut(float x, float limit) {
    if (!(x > -limit))
        return -limit;
    return x < limit ? x : limit;
}

static float inverse_norm(const double *row, size_t length) {
    float square = icl_strict_product((float)row[0], (float)row[0]), y;
    uint32_t bits;

    for (size_t k = 1; k < length; k++)
        square = icl_strict_sum(square, icl_strict_product((float)row[k], (float)row[k]));
    memcpy(&bits, &square, sizeof bits);
    bits = 0x5f375a86U - bits / 2;
    memcpy(&y, &bits, sizeof y);
    for (int step = 0; step < 3; step++)
        y = icl_strict_product(
            y, icl_strict_sum(1.5F, -icl_strict_product(icl_strict_product(icl_strict_product(square, 0.5F), y), y)));
    return y;
}

static float radius(const double *table, float z) {
    static const double logarithm = 0.69314718055994530942;
    const float at = cut(z, 6.99F);
    const int piece = (int)icl_strict_sum(at, (float)ICL_CHI_PIECES / 2);
    const float t = icl_strict_sum(at, -((float)piece - (float)(ICL_CHI_PIECES - 1) / 2));
    const double *row = table + (size_t)piece * ICL_CHI_TERMS;
    double series[8] = {1};
    float exponent = (float)row[ICL_CHI_TERMS - 1], power;
    int whole;

    for (int j = 1; j < 8; j++)
        series[j] = series[j - 1] * logarithm / j;
    for (int term = ICL_CHI_TERMS - 2; term >= 0; term--)
        exponent = icl_strict_sum(icl_strict_product(exponent, t), (float)row[term]);
    exponent = cut(exponent, 62);
    whole = (int)icl_strict_sum(exponent, 62.5F) - 62;
    exponent = icl_strict_sum(exponent, -(float)whole);
    power = (float)series[7];
    for (int j = 6; j >= 0; j--)
        power = icl_strict_sum(icl_strict_product(power, exponent), (float)series[j]);
    for (; whole > 0; whole--)
        power *= 2;
    for (; whole < 0; whole++)
        power /= 2;
    return power;
}

static icl_status truth_spherical(icl_truth *truth, icl_error *error) {
    const icl_case *c = truth->c;
    const size_t length = c->shape[0][c->rank[0] - 1], count = icl_case_count(c, 0);
    (void)error;

    for (size_t start = 0; start < count; start += length) {
        const double *row = truth->operand[1] + start;
        float factor = inverse_norm(row, length);
        if (c->rank[2] >= 0)
            factor = icl_strict_product(factor, radius(truth->operand[3], (float)truth->operand[2][start / length]));
        for (size_t k = 0; k < length; k++) {
            truth->operand[0][start + k] = (double)icl_strict_product((float)row[k], factor);
            truth->bound[0][start + k] = 0;
        }
    }
    return ICL_OK;
}

/* ---- Cases ---- */

/* Adds one row and many, of one element and of more than the lanes, with a radius and without; some are written over
 * the input. */
static void cases(icl_case_list *list) {
    static const struct {
        int rank;
        size_t shape[3];
    } sizes[] = {{1, {7}}, {2, {37, 1}}, {2, {130, 5}}, {3, {3, 21, 20}}, {3, {17, 4, 33}}};
    static const icl_values values[] = {ICL_VALUES_RANDOM, ICL_VALUES_INTEGERS, ICL_VALUES_LARGE, ICL_VALUES_SMALL};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t v = 0; v < sizeof values / sizeof *values; v++)
            for (unsigned radius = 0; radius < 2; radius++) {
                const size_t *shape = sizes[s].shape;
                const int rank = sizes[s].rank;
                icl_case c = {.op = ICL_OP_spherical, .values = values[v], .in_place = v == 0 && s > 1 ? 2 : 0};
                icl_case_set_shape(&c, 0, rank, shape[0], shape[1], shape[2], 0);
                icl_case_set_shape(&c, 1, rank, shape[0], shape[1], shape[2], 0);
                icl_case_set_shape(&c, 2, radius ? rank : -1, rank > 1 ? shape[0] : 1, rank > 2 ? shape[1] : 1, 1, 0);
                icl_case_set_shape(&c, 3, radius ? 2 : -1, ICL_CHI_PIECES, ICL_CHI_TERMS, 0, 0);
                icl_cases_add(list, c, radius ? "spherical radius" : "spherical");
            }
}

ICL_CASE_CALL(spherical, icl_spherical(on, t[0], t[1], t[2], t[3], error))

static const icl_timed_shape timed[] = {
    {"spherical radius d 20 n 20 (2048)",
     {0},
     {ICL_AXES3(ICL_BATCH, 21, 20), ICL_AXES3(ICL_BATCH, 21, 20), ICL_AXES3(ICL_BATCH, 21, 1),
      ICL_AXES2(ICL_CHI_PIECES, ICL_CHI_TERMS)}},
};

const icl_described_op icl_described_spherical =
    ICL_DESCRIBED(timed, .call = call_spherical, .truth = truth_spherical, .cases = cases);
