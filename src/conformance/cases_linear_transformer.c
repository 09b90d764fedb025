/* Whole linear transformers. Cases: every form, from tokens in both spaces and from Gram matrices. */
#include "conformance/cases.h"

#include <math.h>
#include <stdio.h>

#include "iclab/status.h"

typedef struct transformer_shape {
    size_t batch, context, size, layers, depth, heads; /* size: D */
    double factor;
    icl_linear_space space;
    bool is_gram, has_threshold, no_norms;
    icl_values values;
} transformer_shape;

static void add_transformer(icl_case_list *list, const transformer_shape *is, icl_parameterization parameterization,
                            bool has_gradient) {
    static const char *const parameterizations[] = {"full", "diag", "gd++", "sparse", "sparse-b"};
    static const char *const spaces[] = {"tokens", "tokens in gram space", "tokens in token space"};
    const int first = has_gradient ? 3 : 1;
    char what[96];
    icl_case c = {.op = has_gradient ? ICL_OP_linear_transformer_gradient : ICL_OP_linear_transformer_predict,
                  .values = is->values};

    c.params.linear_transformer =
        (icl_linear_transformer_params){parameterization, is->layers, is->depth, is->heads, is->factor, is->space};
    for (int i = 0; i < ICL_MAX_OPERANDS; i++)
        c.rank[i] = -1;
    const size_t size = icl_truth_parameters(&c.params.linear_transformer, is->size - 1);
    icl_case_set_shape(&c, 0, 1, is->batch, 0, 0, 0);
    icl_case_set_shape(&c, first, 1, size, 0, 0, 0);
    if (is->is_gram) {
        icl_case_set_shape(&c, first + 2, 3, is->batch, is->size, is->size, 0);
        icl_case_set_shape(&c, first + 3, 2, is->batch, is->size, 0, 0);
    } else {
        icl_case_set_shape(&c, first + 1, 3, is->batch, is->context + 1, is->size, 0);
    }
    if (has_gradient) {
        icl_case_set_shape(&c, 1, 1, size, 0, 0, 0);
        if (!is->no_norms)
            icl_case_set_shape(&c, 2, 1, is->batch, 0, 0, 0);
        icl_case_set_shape(&c, first + 4, 1, is->batch, 0, 0, 0);
        if (is->has_threshold)
            icl_case_set_shape(&c, first + 5, 1, 1, 0, 0, 0);
    }
    snprintf(what, sizeof what, "linear_transformer_%s %s (depth %zu of %zu, heads %zu, %s%s)",
             has_gradient ? "gradient" : "predict", parameterizations[parameterization], is->depth, is->layers,
             is->heads, is->is_gram ? "gram" : spaces[is->space], has_gradient && is->no_norms ? ", no norms" : "");
    icl_cases_add(list, c, what);
}

static void cases(icl_case_list *list) {
    static const transformer_shape shapes[] = {
        /* batch, n, D, layers, depth, heads, factor, space; but for what follows: tokens, norms and no threshold */
        {3, 2, 2, 1, 1, 1, 1, ICL_SPACE_AUTO},
        {5, 4, 3, 2, 2, 1, 0.25, ICL_SPACE_AUTO, .is_gram = true, .values = ICL_VALUES_INTEGERS},
        {19, 3, 4, 3, 3, 2, 1.0 / 3, ICL_SPACE_AUTO, .has_threshold = true},
        {33, 20, 11, 3, 3, 1, 0.05, ICL_SPACE_AUTO},
        {7, 5, 8, 4, 4, 3, 0.2, ICL_SPACE_TOKENS, .has_threshold = true},
        {7, 5, 8, 4, 4, 3, 0.2, ICL_SPACE_GRAM, .has_threshold = true},
        {17, 0, 21, 5, 4, 1, 0.05, ICL_SPACE_AUTO, .is_gram = true, .has_threshold = true},
        {9, 7, 21, 4, 3, 1, 0.14, ICL_SPACE_TOKENS},
        /* two layers and more that carry tokens: fewer than coordinates, and more */
        {18, 3, 6, 6, 5, 2, 0.33, ICL_SPACE_TOKENS, .has_threshold = true},
        {5, 9, 5, 5, 5, 1, 0.1, ICL_SPACE_TOKENS},
        {3, 3, 5, 5, 5, 2, 0.5, ICL_SPACE_AUTO, .is_gram = true},
        {301, 2, 3, 3, 3, 1, 0.5, ICL_SPACE_AUTO, .has_threshold = true},
        {21, 6, 5, 3, 3, 1, 0.16, ICL_SPACE_AUTO, .has_threshold = true, .values = ICL_VALUES_SPECIAL},
        {21, 6, 5, 4, 4, 2, 0.16, ICL_SPACE_AUTO, .is_gram = true, .has_threshold = true, .values = ICL_VALUES_SPECIAL},
        {2, 50, 34, 3, 3, 1, 0.02, ICL_SPACE_AUTO},
        {4, 0, 3, 3, 3, 1, 1, ICL_SPACE_AUTO},
        /* more tokens than a kernel holds at a time */
        {3, 13, 3, 2, 2, 1, 0.08, ICL_SPACE_AUTO, .has_threshold = true},
        {0, 3, 3, 2, 2, 1, 1, ICL_SPACE_AUTO, .has_threshold = true},
        {35, 9, 11, 4, 4, 1, 0.1, ICL_SPACE_AUTO, .is_gram = true, .no_norms = true},
        /* so many sequences that a host adds up several groups of lanes */
        {290, 6, 5, 5, 5, 2, 0.16, ICL_SPACE_AUTO, .is_gram = true, .no_norms = true},
        {301, 2, 3, 4, 4, 1, 0.5, ICL_SPACE_AUTO},
        {9, 4, 6, 4, 4, 2, 0.25, ICL_SPACE_TOKENS, .no_norms = true},
    };
    for (int has_gradient = 0; has_gradient < 2; has_gradient++)
        for (int parameterization = 0; parameterization < ICL_PARAMETERIZATION_COUNT; parameterization++)
            for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
                if (has_gradient || !shapes[s].has_threshold || shapes[s].values == ICL_VALUES_SPECIAL ||
                    shapes[s].is_gram)
                    add_transformer(list, &shapes[s], (icl_parameterization)parameterization, has_gradient);
}

/* ---- Values ---- */

/* Parameters small enough that a few layers stay of order 1, a symmetric Gram matrix, a threshold that is not negative.
 * Special values: a NaN in every third sequence. */
static float transformer_value(const icl_case *c, int operand, size_t index, float normal) {
    const int first = c->op == ICL_OP_linear_transformer_gradient ? 3 : 1;
    const icl_parameterization parameterization = c->params.linear_transformer.parameterization;
    const bool is_diagonal = parameterization == ICL_LINEAR_DIAG || parameterization == ICL_LINEAR_GDPP;
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

static void inputs(const icl_case *c, int operand, float *const *operands) {
    const icl_random_key key = {.seed = c->seed, .stream = (uint32_t)operand};
    const int gram = c->op == ICL_OP_linear_transformer_gradient ? 5 : 3;
    const icl_values kind = c->values == ICL_VALUES_SPECIAL ? ICL_VALUES_RANDOM : c->values;
    float *values = operands[operand], previous = 0;

    for (size_t i = 0; i < icl_case_count(c, operand); i++) {
        previous = icl_case_value(kind, icl_random_word(key, i), i, previous);
        values[i] = transformer_value(c, operand, i, previous);
    }
    if (operand == gram) {
        const size_t size = c->shape[gram][2];
        for (size_t i = 0; i < icl_case_count(c, gram); i++) {
            const size_t row = i / size % size, column = i % size;
            values[i] = values[i - row * size - column + (row < column ? row * size + column : column * size + row)];
        }
    }
}

/* ---- Calls and benchmarks ---- */

/* Of the cheapest formulation, not of what the device runs. */
static double flops(const icl_case *c) {
    const bool has_gradient = c->op == ICL_OP_linear_transformer_gradient;
    const int tokens = icl_op_infos[c->op].outputs + 1, gram = tokens + 1;
    const bool is_gram = c->rank[tokens] < 0;
    const size_t d = c->shape[is_gram ? gram : tokens][2] - 1, n = is_gram ? 0 : c->shape[tokens][1] - 1;
    return icl_linear_transformer_flops(&c->params.linear_transformer, d, n, c->shape[0][0], has_gradient);
}

/* Parameters so small that every layer is near the identity, and Gram matrices of random tokens. */
static icl_status fill(const icl_case *c, icl_backend *backend, const icl_tensor *operands, icl_error *error) {
    const int parameters = icl_op_infos[c->op].outputs, gram = parameters + 2;
    const icl_random_params normal = {.key = {.seed = 1, .stream = (uint32_t)gram}, .distribution = ICL_NORMAL};
    const icl_tensor scaled = operands[parameters];
    icl_tensor tokens = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_scale_add(backend, scaled, 0.02, scaled, 0, (icl_tensor){0}, error));
    if (c->rank[gram] < 0)
        goto done;
    ICL_TRY(icl_tensor_create(backend, 3, c->shape[gram], &tokens, error));
    ICL_TRY(icl_random_fill(backend, &normal, tokens, error));
    ICL_TRY(icl_matmul(backend, operands[gram], 1, icl_tensor_swap_axes(tokens, 1, 2), tokens, 0, error));
done:
    icl_tensor_release(&tokens);
    return status;
}

ICL_CASE_CALL(predict,
              icl_linear_transformer_predict(on, &c->params.linear_transformer, t[0], t[1], t[2], t[3], t[4], error))
ICL_CASE_CALL(gradient, icl_linear_transformer_gradient(on, &c->params.linear_transformer, t[0], t[1], t[2], t[3], t[4],
                                                        t[5], t[6], t[7], t[8], error))

/* Parameters of 4 layers of two 21 x 21 matrices, or of 2 + 2 numbers. */
#define FULL_N 3528
#define DIAG_N 16

/* clang-format off */
#define FULL {.linear_transformer = {ICL_LINEAR_FULL, 4, 0, 1, 0.05, ICL_SPACE_AUTO}}
#define DIAG {.linear_transformer = {ICL_LINEAR_DIAG, 4, 0, 1, 0.05, ICL_SPACE_AUTO}}
/* clang-format on */
#define OF_BATCH ICL_AXIS(ICL_BATCH)
#define GRAM     ICL_SEQUENCES, ICL_AXES2(ICL_BATCH, 21)

static const icl_timed_shape predict_timed[] = {
    {"linear_transformer predict full L 4 d 20 n 20 (2048)",
     FULL,
     {OF_BATCH, ICL_AXIS(FULL_N), ICL_SEQUENCES, ICL_ABSENT, ICL_ABSENT}},
};
static const icl_timed_shape gradient_timed[] = {
    {"linear_transformer gradient full L 4 d 20 n 20 (2048)",
     FULL,
     {OF_BATCH, ICL_AXIS(FULL_N), ICL_ABSENT, ICL_AXIS(FULL_N), ICL_SEQUENCES, ICL_ABSENT, ICL_ABSENT, OF_BATCH,
      ICL_ABSENT}},
    {"linear_transformer gradient full L 4 d 20 gram (2048)",
     FULL,
     {OF_BATCH, ICL_AXIS(FULL_N), ICL_ABSENT, ICL_AXIS(FULL_N), ICL_ABSENT, GRAM, OF_BATCH, ICL_ABSENT}},
    {"linear_transformer gradient and norms full L 4 d 20 gram (2048)",
     FULL,
     {OF_BATCH, ICL_AXIS(FULL_N), OF_BATCH, ICL_AXIS(FULL_N), ICL_ABSENT, GRAM, OF_BATCH, ICL_ABSENT}},
    {"linear_transformer gradient diag L 4 d 20 gram (2048)",
     DIAG,
     {OF_BATCH, ICL_AXIS(DIAG_N), ICL_ABSENT, ICL_AXIS(DIAG_N), ICL_ABSENT, GRAM, OF_BATCH, ICL_ABSENT}},
};

const icl_described_op icl_described_linear_transformer_predict =
    ICL_DESCRIBED(predict_timed, .call = call_predict, .truth = icl_truth_linear_transformer, .cases = cases,
                  .inputs = inputs, .flops = flops, .fill = fill);
const icl_described_op icl_described_linear_transformer_gradient =
    ICL_DESCRIBED(gradient_timed, .call = call_gradient, .truth = icl_truth_linear_transformer, .inputs = inputs,
                  .flops = flops, .fill = fill);
