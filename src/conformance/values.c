/* The values that a case's operands start from. */
#include <float.h>
#include <math.h>

#include "conformance/cases.h"

static float special(uint32_t word, float normal) {
    switch (word % 16) {
    case 0:
        return NAN;
    case 1:
        return INFINITY;
    case 2:
        return -INFINITY;
    case 3:
        return 0.0F;
    case 4:
        return -0.0F;
    case 5:
        return FLT_MAX;
    default:
        return normal;
    }
}

float icl_case_value(icl_values values, uint32_t word, size_t index, float previous) {
    const float normal = icl_normal_from_word(word);
    switch (values) {
    case ICL_VALUES_INTEGERS:
        return (float)(int)(word % 9) - 4.0F;
    case ICL_VALUES_LARGE:
        return normal * 0x1p40F;
    case ICL_VALUES_SMALL:
        return normal * 0x1p-40F;
    case ICL_VALUES_WIDE:
        return normal * 0x1p5F;
    case ICL_VALUES_CANCELLING:
        return index % 2 ? -previous * (1.0F + 0x1p-12F) : normal;
    case ICL_VALUES_SPECIAL:
        return special(word >> 8, normal);
    case ICL_VALUES_ABSORBED: /* half a unit in the last place of 1 is 2^-24 */
        return index == 0 ? 1.0F : 0x1p-24F * (0.75F + 0x1p-26F * (float)(word >> 8));
    default:
        return normal;
    }
}

void icl_case_values(const icl_case *c, int operand, bool is_positive, float *values) {
    const icl_random_key key = {.seed = c->seed, .stream = (uint32_t)operand};
    float previous = 0;

    for (size_t i = 0; i < icl_case_count(c, operand); i++) {
        previous = icl_case_value(c->values, icl_random_word(key, i), i, previous);
        values[i] = is_positive ? fabsf(previous) : previous;
    }
}

void icl_case_without_largest(size_t count, float *values) {
    for (size_t i = 0; i < count; i++)
        if (fabsf(values[i]) == FLT_MAX)
            values[i] = copysignf(1, values[i]);
}

icl_status icl_case_inputs(const icl_case *c, int operand, float *const *operands, icl_error *error) {
    const icl_described_op *op = icl_describe(c->op);

    if (op->inputs)
        op->inputs(c, operand, operands);
    else
        icl_case_values(c, operand, false, operands[operand]);
    return op->results ? op->results(c, operand, operands, error) : ICL_OK;
}
