/* The shapes that `iclab bench` runs, and what stands in their operands. */
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/status.h"
#include "lab/bench.h"

typedef struct extents {
    int rank; /* -1: absent */
    size_t of[ICL_MAX_RANK];
} extents;

#define ABSENT                                                                                               \
    {                                                                                                        \
        -1, {                                                                                                \
            0                                                                                                \
        }                                                                                                    \
    }
#define AXIS(a)                                                                                              \
    {                                                                                                        \
        1, {                                                                                                 \
            a                                                                                                \
        }                                                                                                    \
    }
#define AXES2(a, b)                                                                                          \
    {                                                                                                        \
        2, {                                                                                                 \
            a, b                                                                                             \
        }                                                                                                    \
    }
#define AXES3(a, b, c)                                                                                       \
    {                                                                                                        \
        3, {                                                                                                 \
            a, b, c                                                                                          \
        }                                                                                                    \
    }

typedef struct row {
    const char *name;
    icl_op op;
    icl_case_params params;
    extents shapes[ICL_MAX_OPERANDS];
    bool is_long;
} row;

#define MILLIONS ((size_t)4 << 20) /* of elements: beyond the nearest caches */

/* The step of the literature's runs: 2048 sequences of 20 pairs in 20 dimensions, four layers. */
#define BATCH 2048
#define FULL                                                                                                 \
    {                                                                                                        \
        .linear_transformer = { ICL_LINEAR_FULL, 4, 0, 1, 0.05, ICL_SPACE_AUTO }                             \
    }
#define DIAG                                                                                                 \
    {                                                                                                        \
        .linear_transformer = { ICL_LINEAR_DIAG, 4, 0, 1, 0.05, ICL_SPACE_AUTO }                             \
    }
#define FULL_N 3528 /* parameters: 4 layers of two 21 x 21 matrices */
#define DIAG_N 16

#define LINEAR                                                                                               \
    {                                                                                                        \
        .attention = { ICL_ATTENTION_LINEAR, ICL_MASK_QUERY_EXCLUDED, 0.05 }                                 \
    }
#define SOFTMAX                                                                                              \
    {                                                                                                        \
        .attention = { ICL_ATTENTION_SOFTMAX, ICL_MASK_NONE, 0.125 }                                         \
    }
#define CAUSAL                                                                                               \
    {                                                                                                        \
        .attention = { ICL_ATTENTION_SOFTMAX, ICL_MASK_CAUSAL, 0.125 }                                       \
    }
#define HEADS(n) AXES3(16, n, 64)
#define FORWARD(n)                                                                                           \
    { HEADS(n), AXES3(16, n, 1), HEADS(n), HEADS(n), HEADS(n) }
#define BACKWARD(n)                                                                                          \
    { HEADS(n), HEADS(n), HEADS(n), HEADS(n), HEADS(n), AXES3(16, n, 1), HEADS(n), HEADS(n), HEADS(n) }
#define SEQUENCES AXES3(BATCH, 21, 21)

static const row rows[] = {
    {"fill (4Mi)", ICL_OP_fill, {.value = 1}, {AXIS(MILLIONS)}, false},
    {"copy (4Mi)", ICL_OP_copy, {0}, {AXIS(MILLIONS), AXIS(MILLIONS)}, false},
    {"random normal (1Mi)",
     ICL_OP_random_fill,
     {.random = {.key = {.seed = 1}, .distribution = ICL_NORMAL}},
     {AXIS(MILLIONS / 4)},
     false},
    {"gram_sample d 20 n 20 (2048)",
     ICL_OP_gram_sample,
     {.gram = {.key = {.seed = 1}, .context = 20, .noise_level = {.distribution = ICL_UNIFORM, .high = 1}}},
     {SEQUENCES, AXES2(BATCH, 21), AXIS(BATCH), AXES2(BATCH, 20), AXIS(BATCH),
      AXES3(20, ICL_CHI_PIECES, ICL_CHI_TERMS), ABSENT},
     false},
    {"unary exponential (4Mi)",
     ICL_OP_unary,
     {.unary = ICL_EXPONENTIAL},
     {AXIS(MILLIONS), AXIS(MILLIONS)},
     false},
    {"binary multiply (4Mi)",
     ICL_OP_binary,
     {.binary = ICL_MULTIPLY},
     {AXIS(MILLIONS), AXIS(MILLIONS), AXIS(MILLIONS)},
     false},
    {"spherical radius d 20 n 20 (2048)",
     ICL_OP_spherical,
     {0},
     {AXES3(BATCH, 21, 20), AXES3(BATCH, 21, 20), AXES3(BATCH, 21, 1), AXES2(ICL_CHI_PIECES, ICL_CHI_TERMS)},
     false},
    {"binary add a row (2048x2048)",
     ICL_OP_binary,
     {.binary = ICL_ADD},
     {AXES2(2048, 2048), AXES2(2048, 2048), AXES2(1, 2048)},
     false},
    {"scale_add (4Mi)",
     ICL_OP_scale_add,
     {.scale_add = {0.5, 0.25}},
     {AXIS(MILLIONS), AXIS(MILLIONS), AXIS(MILLIONS)},
     false},
    {"reduce sum (4Mi)", ICL_OP_reduce, {.reduce = {ICL_SUM, 1}}, {AXIS(1), AXIS(MILLIONS)}, false},
    {"reduce sum of rows (2048x2048)",
     ICL_OP_reduce,
     {.reduce = {ICL_SUM, 2}},
     {AXES2(2048, 1), AXES2(2048, 2048)},
     false},
    {"reduce sum of columns (2048x2048)",
     ICL_OP_reduce,
     {.reduce = {ICL_SUM, 1}},
     {AXES2(1, 2048), AXES2(2048, 2048)},
     false},
    {"matmul (1024x1024)(1024x1024)",
     ICL_OP_matmul,
     {.matmul = {1, 0}},
     {AXES2(1024, 1024), AXES2(1024, 1024), AXES2(1024, 1024)},
     false},
    {"matmul batch 2048 (21x21)(21x21)",
     ICL_OP_matmul,
     {.matmul = {1, 0}},
     {SEQUENCES, SEQUENCES, SEQUENCES},
     false},
    {"matmul (43008x21)(21x21)",
     ICL_OP_matmul,
     {.matmul = {1, 0}},
     {AXES2(43008, 21), AXES2(43008, 21), AXES2(21, 21)},
     false},
    {"matmul (21x43008)(43008x21)",
     ICL_OP_matmul,
     {.matmul = {1, 0}},
     {AXES2(21, 21), AXES2(21, 43008), AXES2(43008, 21)},
     false},
    {"matmul_strict batch 2048 (20x20)(20x1)",
     ICL_OP_matmul_strict,
     {0},
     {AXES3(BATCH, 20, 1), AXES3(BATCH, 20, 20), AXES3(BATCH, 20, 1)},
     false},
    {"attention linear forward n 21 d 21 (2048)",
     ICL_OP_attention_forward,
     LINEAR,
     {SEQUENCES, ABSENT, SEQUENCES, SEQUENCES, SEQUENCES},
     false},
    {"attention linear backward n 21 d 21 (2048)",
     ICL_OP_attention_backward,
     LINEAR,
     {SEQUENCES, SEQUENCES, SEQUENCES, SEQUENCES, ABSENT, ABSENT, SEQUENCES, SEQUENCES, SEQUENCES},
     false},
    {"attention softmax forward n 256 d 64 (16)", ICL_OP_attention_forward, SOFTMAX, FORWARD(256), false},
    {"attention softmax backward n 256 d 64 (16)", ICL_OP_attention_backward, SOFTMAX, BACKWARD(256), false},
    {"attention softmax forward causal n 256 d 64 (16)", ICL_OP_attention_forward, CAUSAL, FORWARD(256),
     false},
    {"attention softmax forward n 1024 d 64 (16)", ICL_OP_attention_forward, SOFTMAX, FORWARD(1024), true},
    {"attention softmax backward n 1024 d 64 (16)", ICL_OP_attention_backward, SOFTMAX, BACKWARD(1024), true},
    {"attention softmax forward n 4096 d 64 (16)", ICL_OP_attention_forward, SOFTMAX, FORWARD(4096), true},
    {"attention softmax backward n 4096 d 64 (16)", ICL_OP_attention_backward, SOFTMAX, BACKWARD(4096), true},
    {"linear_transformer predict full L 4 d 20 n 20 (2048)",
     ICL_OP_linear_transformer_predict,
     FULL,
     {AXIS(BATCH), AXIS(FULL_N), SEQUENCES, ABSENT, ABSENT},
     false},
    {"linear_transformer gradient full L 4 d 20 n 20 (2048)",
     ICL_OP_linear_transformer_gradient,
     FULL,
     {AXIS(BATCH), AXIS(FULL_N), ABSENT, AXIS(FULL_N), SEQUENCES, ABSENT, ABSENT, AXIS(BATCH), ABSENT},
     false},
    {"linear_transformer gradient full L 4 d 20 gram (2048)",
     ICL_OP_linear_transformer_gradient,
     FULL,
     {AXIS(BATCH), AXIS(FULL_N), ABSENT, AXIS(FULL_N), ABSENT, SEQUENCES, AXES2(BATCH, 21), AXIS(BATCH),
      ABSENT},
     false},
    {"linear_transformer gradient and norms full L 4 d 20 gram (2048)",
     ICL_OP_linear_transformer_gradient,
     FULL,
     {AXIS(BATCH), AXIS(FULL_N), AXIS(BATCH), AXIS(FULL_N), ABSENT, SEQUENCES, AXES2(BATCH, 21), AXIS(BATCH),
      ABSENT},
     false},
    {"linear_transformer gradient diag L 4 d 20 gram (2048)",
     ICL_OP_linear_transformer_gradient,
     DIAG,
     {AXIS(BATCH), AXIS(DIAG_N), ABSENT, AXIS(DIAG_N), ABSENT, SEQUENCES, AXES2(BATCH, 21), AXIS(BATCH),
      ABSENT},
     false},
    {"clip (64Ki)", ICL_OP_clip, {.value = 1}, {AXIS(65536), AXIS(1)}, false},
    {"adam (3528)",
     ICL_OP_adam_step,
     {.adam = {1e-3, 0.9, 0.999, 1e-8, 0, 1}},
     {AXIS(FULL_N), AXIS(FULL_N), AXIS(FULL_N), AXIS(FULL_N), ABSENT},
     false},
    {"adam (1Mi)",
     ICL_OP_adam_step,
     {.adam = {1e-3, 0.9, 0.999, 1e-8, 0, 1}},
     {AXIS(MILLIONS / 4), AXIS(MILLIONS / 4), AXIS(MILLIONS / 4), AXIS(MILLIONS / 4), ABSENT},
     false},
    {"sgd (1Mi)",
     ICL_OP_sgd_step,
     {.sgd = {1e-3, 0.9}},
     {AXIS(MILLIONS / 4), AXIS(MILLIONS / 4), AXIS(MILLIONS / 4), ABSENT},
     false},
    {"track_threshold (2048)",
     ICL_OP_track_threshold,
     {.threshold = {0.1, 0}},
     {AXIS(1), AXIS(1), AXIS(BATCH)},
     false},
    {"update_step adam (3528, 2048)",
     ICL_OP_update_step,
     {.update = {.adam = {1e-3, 0.9, 0.999, 1e-8, 0, 1}, .clip = 1, .fraction = 0.01}},
     {AXIS(FULL_N), AXIS(FULL_N), AXIS(FULL_N), AXIS(3), AXIS(1), AXIS(FULL_N), AXIS(BATCH), AXIS(BATCH),
      AXIS(BATCH)},
     false},
};

enum { ROWS = sizeof rows / sizeof *rows };

icl_status icl_bench_cases_create(icl_bench_case **cases, size_t *count, icl_error *error) {
    const icl_status status = icl_allocate(ROWS, sizeof **cases, "bench cases", cases, error);

    *count = status == ICL_OK ? ROWS : 0;
    for (size_t i = 0; i < *count; i++) {
        icl_case *c = &(*cases)[i].c;
        (*cases)[i].is_long = rows[i].is_long;
        snprintf(c->name, sizeof c->name, "%s", rows[i].name);
        c->op = rows[i].op;
        c->params = rows[i].params;
        for (int k = 0; k < ICL_MAX_OPERANDS; k++) {
            c->rank[k] = rows[i].shapes[k].rank;
            memcpy(c->shape[k], rows[i].shapes[k].of, sizeof c->shape[k]);
        }
    }
    return status;
}

/* ---- Values ---- */

/* Normal numbers, different for each operand. */
static icl_status fill_normal(icl_backend *backend, icl_tensor tensor, int operand, icl_error *error) {
    const icl_random_params params = {.key = {.seed = 1, .stream = (uint32_t)operand},
                                      .distribution = ICL_NORMAL};
    return icl_random_fill(backend, &params, tensor, error);
}

/* What the backward pass reads of the forward pass: out and log_sum_exp are operands 4 and 5, q, k and v the last three. */
static icl_status run_forward(const icl_case *c, icl_backend *backend, const icl_tensor *operands,
                              icl_error *error) {
    return icl_attention_forward(backend, &c->params.attention, operands[4], operands[5], operands[6],
                                 operands[7], operands[8], error);
}

/* Parameters so small that every layer is near the identity, and Gram matrices of random tokens. */
static icl_status fill_transformer(const icl_case *c, icl_backend *backend, const icl_tensor *operands,
                                   icl_error *error) {
    const int parameters = icl_op_infos[c->op].outputs, gram = parameters + 2;
    const icl_tensor scaled = operands[parameters];
    icl_tensor tokens = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_scale_add(backend, scaled, 0.02, scaled, 0, (icl_tensor){0}, error));
    if (c->rank[gram] < 0)
        goto done;
    ICL_TRY(icl_tensor_create(backend, 3, c->shape[gram], &tokens, error));
    ICL_TRY(fill_normal(backend, tokens, gram, error));
    ICL_TRY(icl_matmul(backend, operands[gram], 1, icl_tensor_swap_axes(tokens, 1, 2), tokens, 0, error));
done:
    icl_tensor_release(&tokens);
    return status;
}

static icl_status fill_operands(const icl_case *c, icl_backend *backend, const icl_tensor *operands,
                                icl_error *error) {
    const icl_op_info *info = &icl_op_infos[c->op];
    icl_status status = ICL_OK;

    for (int i = 0; i < info->outputs + info->inputs; i++)
        if (operands[i].buffer)
            ICL_TRY(fill_normal(backend, operands[i], i, error));
    switch (c->op) {
    case ICL_OP_attention_backward:
        if (operands[4].buffer)
            ICL_TRY(run_forward(c, backend, operands, error));
        break;
    case ICL_OP_linear_transformer_predict:
    case ICL_OP_linear_transformer_gradient:
        ICL_TRY(fill_transformer(c, backend, operands, error));
        break;
    case ICL_OP_gram_sample:
        ICL_TRY(icl_fill(backend, operands[5], 0.5, error));
        break;
    case ICL_OP_clip:
        ICL_TRY(icl_fill(backend, operands[1], 1.000001, error)); /* just above the limit */
        break;
    case ICL_OP_track_threshold:
        ICL_TRY(icl_fill(backend, operands[0], 1, error));
        ICL_TRY(icl_unary(backend, ICL_ABSOLUTE, operands[2], operands[2], error));
        break;
    case ICL_OP_adam_step:
    case ICL_OP_update_step:
        ICL_TRY(icl_fill(backend, operands[2], 1, error));
        break;
    default:
        break;
    }
done:
    return status;
}

icl_status icl_bench_operands(const icl_case *c, icl_backend *backend, icl_tensor operands[ICL_MAX_OPERANDS],
                              icl_error *error) {
    const icl_op_info *info = &icl_op_infos[c->op];
    icl_status status = ICL_OK;

    for (int i = 0; i < info->outputs + info->inputs; i++)
        if (c->rank[i] >= 0)
            ICL_TRY(icl_tensor_create(backend, c->rank[i], c->shape[i], &operands[i], error));
    ICL_TRY(fill_operands(c, backend, operands, error));
done:
    return status;
}
