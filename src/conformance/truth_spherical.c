/* spherical: no freedom at all. One row at a time, by the formulas of ops.h, in float. That these give 1 / ||x|| and
 * 2^L is the business of tests/backend/spherical.c. */
#include <string.h>

#include "conformance/cases.h"
#include "conformance/strict.h"

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

icl_status icl_truth_spherical(icl_truth *truth, icl_error *error) {
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
