/*
 * The table of ops. Everything that has an entry for each op is generated from these rows: the enum, the backends'
 * tables, the validation of a call (call.c), the conformance cases and the tests of every op.
 *
 *     OP(name, outputs, params, rounding, terms, operands)
 *
 * outputs   The number of operands that are written; they come first.
 * params    The size of the struct that the backend gets besides the operands; if 0, it gets NULL.
 * rounding  ICL_FREE if backends may round differently, ICL_FIXED if ops.h leaves them no choice.
 * terms     The axes that the op sums over. If one is empty, the outputs become 0, and backends are not called.
 * operands  {name, shape, flags} each.
 *
 * A shape has one character for each axis. A letter is an extent, the same in all operands of a call; a digit is a
 * fixed extent. "*" and "+" stand for any number of axes, likewise the same in all operands. NULL is any shape. No
 * output shares elements with another operand, except with those that are ICL_IN_PLACE.
 *
 * A backend is not called if no output has an element, or if a sum has no terms. Any other extent may be 0.
 */
#ifndef ICLAB_BACKEND_OP_TABLE_H
#define ICLAB_BACKEND_OP_TABLE_H

#include <stddef.h>

/* Flags of operands. */
#define ICL_OPTIONAL 1 /* may be absent: without a buffer */
#define ICL_IN_PLACE 2 /* may be the first output's very view */
#define ICL_REPEATS  4 /* axes that are missing or 1 repeat, except small letters; backends get stride 0 */

/* clang-format off */
#define ICL_EVERY_OP(OP) \
    /* ---- General (iclab/ops.h) ---- */ \
    OP(fill, 1, sizeof(double), ICL_FIXED, "", {"out", "*", 0}) \
    OP(copy, 1, 0, ICL_FIXED, "", {"out", "*", 0}, {"the input", "*", ICL_IN_PLACE | ICL_REPEATS}) \
    OP(random_fill, 1, sizeof(icl_random_params), ICL_FIXED, "", {"out", "*", 0}) \
    /* The table is [ICL_CHI_PIECES, ICL_CHI_TERMS]; normals and table come together. */ \
    OP(spherical, 1, 0, ICL_FIXED, "", \
       {"out", "*d", 0}, {"in", "*d", ICL_IN_PLACE}, {"normals", "*1", ICL_OPTIONAL}, {"table", "PT", ICL_OPTIONAL}) \
    OP(random_gamma, 1, sizeof(icl_draw_params), ICL_FIXED, "", \
       {"out", "*", 0}, {"shapes", "*", ICL_IN_PLACE | ICL_REPEATS}) \
    OP(cumulative_sum, 1, 0, ICL_FIXED, "", {"out", "*d", 0}, {"in", "*d", ICL_IN_PLACE}) \
    /* k and n are not 0. */ \
    OP(categorical, 1, 0, ICL_FIXED, "", {"out", "*n", 0}, {"in", "*n", ICL_IN_PLACE}, {"sums", "*k", ICL_REPEATS}) \
    /* n is at most the params' count. */ \
    OP(random_distinct, 1, sizeof(icl_distinct_params), ICL_FIXED, "", {"out", "*n", 0}) \
    OP(take, 1, 0, ICL_FIXED, "", {"out", "*N", 0}, {"in", "*k", ICL_REPEATS}, {"places", "*N", 0}) \
    /* Only the elements of out that places name are written. */ \
    OP(put, 1, 0, ICL_FIXED, "", {"out", "*k", 0}, {"values", "*N", ICL_REPEATS}, {"places", "*N", 0}) \
    OP(unary, 1, sizeof(icl_unary_kind), ICL_FREE, "", \
       {"out", "*", 0}, {"the input", "*", ICL_IN_PLACE | ICL_REPEATS}) \
    OP(binary, 1, sizeof(icl_binary_kind), ICL_FREE, "", {"out", "*", 0}, \
       {"the first input", "*", ICL_IN_PLACE | ICL_REPEATS}, {"the second input", "*", ICL_IN_PLACE | ICL_REPEATS}) \
    OP(scale_add, 1, sizeof(icl_scale_add_params), ICL_FIXED, "", {"out", "*", 0}, \
       {"the first input", "*", ICL_IN_PLACE | ICL_REPEATS}, \
       {"the second input", "*", ICL_OPTIONAL | ICL_IN_PLACE | ICL_REPEATS}) \
    /* Reduced axes of out have extent 1, the others the input's. */ \
    OP(reduce, 1, sizeof(icl_reduce_params), ICL_FREE, "", {"out", NULL, 0}, {"the input", NULL, 0}) \
    /* Leading axes that could be folded into m already are (icl_matmul). matmul reads out if beta is not 0. */ \
    OP(matmul, 1, sizeof(icl_matmul_params), ICL_FREE, "", \
       {"out", "*mn", 0}, {"a", "*mk", ICL_REPEATS}, {"b", "*kn", ICL_REPEATS}) \
    OP(matmul_strict, 1, 0, ICL_FIXED, "", \
       {"out", "*mn", 0}, {"a", "*mk", ICL_REPEATS}, {"b", "*kn", ICL_REPEATS}) \
    /* "*" is the axis of heads, "+" that of groups, whose number divides it; neither repeats (ops.c). Backends always \
       get both axes. log_sum_exp and out are present only for softmax. */ \
    OP(attention_forward, 2, sizeof(icl_attention_params), ICL_FREE, "", \
       {"out", "B*qe", 0}, {"log_sum_exp", "B*q1", ICL_OPTIONAL}, \
       {"q", "B*qd", ICL_REPEATS}, {"k", "B+kd", ICL_REPEATS}, {"v", "B+ke", ICL_REPEATS}) \
    OP(attention_backward, 3, sizeof(icl_attention_params), ICL_FREE, "", \
       {"d_q", "B*qd", 0}, {"d_k", "B+kd", 0}, {"d_v", "B+ke", 0}, {"d_out", "B*qe", 0}, \
       {"out", "B*qe", ICL_OPTIONAL}, {"log_sum_exp", "B*q1", ICL_OPTIONAL}, \
       {"q", "B*qd", 0}, {"k", "B+kd", 0}, {"v", "B+ke", 0}) \
    /* The params are the fraction. threshold and dropped have one element each; threshold is read and written. */ \
    OP(track_threshold, 2, sizeof(double), ICL_FIXED, "", \
       {"threshold", NULL, 0}, {"dropped", NULL, 0}, {"norms", "B", 0}) \
    /* All outputs except measures are read, too. B and N are not 0. */ \
    OP(update_step, 5, sizeof(icl_update_params), ICL_FIXED, "", \
       {"parameters", "N", 0}, {"the first state", "N", 0}, {"the second state", "N", ICL_OPTIONAL}, \
       {"measures", "3", 0}, {"threshold", "1", ICL_OPTIONAL}, {"gradient", "N", 0}, {"losses", "B", 0}, \
       {"norms", "B", ICL_OPTIONAL}, {"decays", "N", ICL_OPTIONAL}) \
    /* ---- Sampling of Gram matrices (iclab/ops_gram.h) ---- */ \
    /* d is D - 1. chi has at least min(context, D) rows of [ICL_CHI_PIECES, ICL_CHI_TERMS]. */ \
    OP(gram_sample, 5, sizeof(icl_gram_params), ICL_FIXED, "", \
       {"gram", "BDD", 0}, {"query", "BD", 0}, {"targets", "B", 0}, {"weights", "Bd", 0}, {"noise", "B", 0}, \
       {"chi", "rPT", 0}, {"roots", "2dd", ICL_OPTIONAL}) \
    /* ---- Whole linear transformers (iclab/ops_linear_transformer.h) ---- */ \
    /* depth, heads and space of the params are filled in. Either tokens are present, or gram and query. R: n + 1. */ \
    OP(linear_transformer_predict, 1, sizeof(icl_linear_transformer_params), ICL_FREE, "", \
       {"predictions", "B", 0}, {"parameters", "N", 0}, \
       {"tokens", "BRD", ICL_OPTIONAL}, {"gram", "BDD", ICL_OPTIONAL}, {"query", "BD", ICL_OPTIONAL}) \
    OP(linear_transformer_gradient, 3, sizeof(icl_linear_transformer_params), ICL_FREE, "B", \
       {"losses", "B", 0}, {"gradient", "N", 0}, {"norms", "B", ICL_OPTIONAL}, {"parameters", "N", 0}, \
       {"tokens", "BRD", ICL_OPTIONAL}, {"gram", "BDD", ICL_OPTIONAL}, {"query", "BD", ICL_OPTIONAL}, \
       {"targets", "B", 0}, {"threshold", "1", ICL_OPTIONAL}) \
    /* ---- Recurrences (iclab/ops_recurrence.h); recurrence.h numbers the operands ---- */ \
    /* S is m for each segment; E is 1 or m; o and q are n and m, with from_rows m and n. With from_rows \
       reads and states are inputs of a backend's forward pass, which writes out alone; its backward pass never gets \
       it. A gradient that is not wanted is absent. */ \
    OP(recurrence_forward, 4, sizeof(icl_recurrence_params), ICL_FREE, "BHTmn", \
       {"out", "BHTo", 0}, {"final", "BHmn", ICL_OPTIONAL}, \
       {"reads", "BHTn", ICL_OPTIONAL}, {"states", "BHSn", ICL_OPTIONAL}, \
       {"q", "BHTq", ICL_REPEATS}, {"k", "BHTm", ICL_REPEATS}, {"v", "BHTn", ICL_REPEATS}, \
       {"beta", "BHT1", ICL_OPTIONAL | ICL_REPEATS}, {"decay", "BHTE", ICL_OPTIONAL | ICL_REPEATS}, \
       {"read_key", "BHTm", ICL_OPTIONAL | ICL_REPEATS}, {"write_key", "BHTm", ICL_OPTIONAL | ICL_REPEATS}, \
       {"state", "BHmn", ICL_OPTIONAL | ICL_REPEATS}) \
    OP(recurrence_backward, 8, sizeof(icl_recurrence_params), ICL_FREE, "BHTmn", \
       {"gradient of q", "BHTq", ICL_OPTIONAL}, {"gradient of k", "BHTm", ICL_OPTIONAL}, \
       {"gradient of v", "BHTn", ICL_OPTIONAL}, {"gradient of beta", "BHT1", ICL_OPTIONAL}, \
       {"gradient of decay", "BHTE", ICL_OPTIONAL}, {"gradient of read_key", "BHTm", ICL_OPTIONAL}, \
       {"gradient of write_key", "BHTm", ICL_OPTIONAL}, {"gradient of state", "BHmn", ICL_OPTIONAL}, \
       {"d_out", "BHTo", 0}, {"d_final", "BHmn", ICL_OPTIONAL}, {"final", "BHmn", 0}, \
       {"reads", "BHTn", ICL_OPTIONAL}, {"states", "BHSn", 0}, \
       {"q", "BHTq", ICL_REPEATS}, {"k", "BHTm", ICL_REPEATS}, {"v", "BHTn", ICL_REPEATS}, \
       {"beta", "BHT1", ICL_OPTIONAL | ICL_REPEATS}, {"decay", "BHTE", ICL_OPTIONAL | ICL_REPEATS}, \
       {"read_key", "BHTm", ICL_OPTIONAL | ICL_REPEATS}, {"write_key", "BHTm", ICL_OPTIONAL | ICL_REPEATS}, \
       {"state", "BHmn", ICL_OPTIONAL | ICL_REPEATS}) \
    /* ---- Sequence models (iclab/ops_sequence.h) ---- */ \
    OP(normalize, 1, sizeof(icl_normalize_params), ICL_FREE, "", \
       {"out", "*d", 0}, {"in", "*d", ICL_IN_PLACE}, {"gain", "d", ICL_OPTIONAL}, {"shift", "d", ICL_OPTIONAL}) \
    OP(normalize_backward, 3, sizeof(icl_normalize_params), ICL_FREE, "*d", \
       {"d_in", "*d", 0}, {"d_gain", "d", ICL_OPTIONAL}, {"d_shift", "d", ICL_OPTIONAL}, \
       {"d_out", "*d", 0}, {"in", "*d", 0}, {"gain", "d", ICL_OPTIONAL}) \
    OP(look_up, 1, 0, ICL_FIXED, "", {"out", "*w", 0}, {"table", "Vw", 0}, {"symbols", "*", 0}) \
    OP(look_up_backward, 1, 0, ICL_FREE, "*", {"d_table", "Vw", 0}, {"d_out", "*w", 0}, {"symbols", "*", 0}) \
    OP(convolve, 1, 0, ICL_FREE, "w", {"out", "Btc", 0}, {"in", "Btc", 0}, {"kernel", "wc", 0}) \
    OP(convolve_backward, 2, 0, ICL_FREE, "Btcw", \
       {"d_in", "Btc", ICL_OPTIONAL}, {"d_kernel", "wc", ICL_OPTIONAL}, \
       {"d_out", "Btc", 0}, {"in", "Btc", 0}, {"kernel", "wc", 0}) \
    /* The params are a flag: whether the rotation is the inverse one. h is d / 2. */ \
    OP(rotate, 1, sizeof(bool), ICL_FREE, "", {"out", "*td", 0}, {"in", "*td", ICL_IN_PLACE}, {"angles", "th2", 0}) \
    OP(cross_entropy, 1, 0, ICL_FREE, "", {"losses", "*1", 0}, {"logits", "*V", 0}, {"classes", "*1", 0}) \
    OP(cross_entropy_backward, 1, 0, ICL_FREE, "", \
       {"d_logits", "*V", 0}, {"d_losses", "*1", 0}, {"logits", "*V", 0}, {"classes", "*1", 0})
/* clang-format on */

#define ICL_MAX_OPERANDS 21

typedef enum icl_op {
#define ICL_OP_ENUM(name, ...) ICL_OP_##name,
    ICL_EVERY_OP(ICL_OP_ENUM)
#undef ICL_OP_ENUM
        ICL_OP_COUNT
} icl_op;

typedef enum icl_rounding { ICL_FREE = 0, ICL_FIXED } icl_rounding;

typedef struct icl_operand {
    const char *name, *shape;
    unsigned flags;
} icl_operand;

typedef struct icl_op_info {
    const char *name;
    int outputs, inputs;
    size_t params;
    icl_rounding rounding;
    const char *terms;
    const icl_operand *operands; /* [outputs + inputs] */
} icl_op_info;

/* Indexed by icl_op. */
extern const icl_op_info icl_op_infos[ICL_OP_COUNT];

#endif
