/* The values that a case's operands start from. */
#include <float.h>
#include <math.h>

#include "core/allocate.h"
#include "lab/conformance/case.h"

size_t icl_case_count(const icl_case *c, int operand) {
    size_t count = c->rank[operand] >= 0;
    for (int axis = 0; axis < c->rank[operand]; axis++)
        count *= c->shape[operand][axis];
    return count;
}

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

static float value(icl_values values, uint32_t word, size_t index, float previous) {
    const float normal = icl_normal_from_word(word);
    switch (values) {
    case ICL_VALUES_INTEGERS:
        return (float)(int)(word % 9) - 4.0F;
    case ICL_VALUES_LARGE:
        return normal * 0x1p40F;
    case ICL_VALUES_SMALL:
        return normal * 0x1p-40F;
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

/* Domains: a square root or logarithm of a negative number is NaN everywhere and tests nothing; a second moment is not negative. */
static bool is_positive(const icl_case *c, int operand) {
    if (c->op == ICL_OP_unary && c->values != ICL_VALUES_SPECIAL)
        return c->params.unary == ICL_SQUARE_ROOT || c->params.unary == ICL_LOGARITHM;
    return (c->op == ICL_OP_adam_step && operand == 2) || (c->op == ICL_OP_clip && operand == 1) ||
           c->op == ICL_OP_track_threshold || (c->op == ICL_OP_update_step && (operand == 2 || operand == 8));
}

/* What the forward pass would have given: out (operand 4) and log_sum_exp (operand 5) of attention_backward. */
static void forward_results(const icl_case *c, int wanted, float *const *operands) {
    icl_case forward = {.op = ICL_OP_attention_forward, .params = c->params, .rank = {3, 3, 3, 3, 3}};
    icl_truth truth = {.c = &forward, .unit = DBL_EPSILON / 2};
    const int from[5] = {4, 5, 6, 7, 8};
    icl_status status = ICL_OK;

    for (int i = 0; i < 5; i++) {
        for (int axis = 0; axis < 3; axis++)
            forward.shape[i][axis] = c->shape[from[i]][axis];
        const size_t count = icl_case_count(&forward, i);
        ICL_TRY(icl_allocate(count, sizeof(double), "forward results", &truth.operand[i], NULL));
        if (i < 2)
            ICL_TRY(icl_allocate(count, sizeof(double), "forward results", &truth.bound[i], NULL));
        for (size_t k = 0; i >= 2 && k < count; k++)
            truth.operand[i][k] = (double)operands[from[i]][k];
    }
    ICL_TRY(icl_truth_attention(&truth, NULL));
    for (size_t k = 0; k < icl_case_count(c, wanted); k++)
        operands[wanted][k] = (float)truth.operand[wanted - 4][k];
done:
    for (int i = 0; i < 5; i++) {
        icl_free(&truth.operand[i]);
        icl_free(&truth.bound[i]);
    }
}

/* ---- Linear transformers ---- */

/* Parameters small enough that a few layers stay of order 1, a symmetric Gram matrix, a threshold that is not negative. Special values:
 * a NaN in every third sequence. */
static float transformer_value(const icl_case *c, int operand, size_t index, float normal) {
    const int first = c->op == ICL_OP_linear_transformer_gradient ? 3 : 1;
    const icl_linear_form form = c->params.linear_transformer.form;
    const bool is_diagonal = form == ICL_LINEAR_DIAG || form == ICL_LINEAR_GDPP;
    const bool has_gram = c->rank[first + 2] >= 0;
    const size_t size = has_gram ? c->shape[first + 2][2] : c->shape[first + 1][2];

    if (operand == first)
        return normal * (is_diagonal ? 0.3F : 1.0F / (float)size);
    if (operand == first + 5)
        return fabsf(normal);
    if (c->values == ICL_VALUES_SPECIAL && (operand == first + 1 || operand == first + 2)) {
        const size_t per_sequence = icl_case_count(c, operand) / c->shape[operand][0];
        if (index % per_sequence == 0 && index / per_sequence % 3 == 1)
            return NAN;
    }
    return normal;
}

static void transformer_inputs(const icl_case *c, int operand, float *values) {
    const icl_random_key key = {.seed = c->seed, .stream = (uint32_t)operand};
    const int gram = c->op == ICL_OP_linear_transformer_gradient ? 5 : 3;
    const icl_values kind = c->values == ICL_VALUES_SPECIAL ? ICL_VALUES_RANDOM : c->values;
    float previous = 0;

    for (size_t i = 0; i < icl_case_count(c, operand); i++) {
        previous = value(kind, icl_random_word(key, i), i, previous);
        values[i] = transformer_value(c, operand, i, previous);
    }
    if (operand == gram) {
        const size_t size = c->shape[gram][2];
        for (size_t i = 0; i < icl_case_count(c, gram); i++) {
            const size_t row = i / size % size, column = i % size;
            values[i] =
                values[i - row * size - column + (row < column ? row * size + column : column * size + row)];
        }
    }
}

/* Operands of one element whose value is the case's point: a norm that forbids a step, and a threshold. */
static bool scalar_input(const icl_case *c, int operand, float *element) {
    const uint32_t word = icl_random_word((icl_random_key){.seed = c->seed, .stream = (uint32_t)operand}, 0);
    const bool is_norm =
        (c->op == ICL_OP_adam_step && operand == 4) || (c->op == ICL_OP_sgd_step && operand == 3);

    if (is_norm && c->values == ICL_VALUES_SPECIAL) {
        *element = word % 2 ? NAN : INFINITY;
        return true;
    }
    if ((c->op == ICL_OP_track_threshold && operand == 0) || (c->op == ICL_OP_update_step && operand == 4)) {
        const icl_values kind = c->values == ICL_VALUES_SPECIAL ? ICL_VALUES_RANDOM : c->values;
        *element = c->op == ICL_OP_track_threshold && c->params.threshold.is_first
                       ? 0.0F
                       : fabsf(value(kind, word, 0, 0));
        return true;
    }
    return false;
}

void icl_case_inputs(const icl_case *c, int operand, float *const *operands) {
    const icl_random_key key = {.seed = c->seed, .stream = (uint32_t)operand};
    const bool positive = is_positive(c, operand);
    float previous = 0;

    if (c->op == ICL_OP_attention_backward && (operand == 4 || operand == 5)) {
        forward_results(c, operand, operands);
        return;
    }
    if (c->op == ICL_OP_linear_transformer_predict || c->op == ICL_OP_linear_transformer_gradient) {
        transformer_inputs(c, operand, operands[operand]);
        return;
    }
    if (scalar_input(c, operand, operands[operand]))
        return;
    for (size_t i = 0; i < icl_case_count(c, operand); i++) {
        previous = value(c->values, icl_random_word(key, i), i, previous);
        operands[operand][i] = positive ? fabsf(previous) : previous;
    }
}
