/*
 * The ops of a training step beside the answers of plain C, whose code shares nothing with the kernels: strict ops to
 * the last bit, the others as near as rounding allows. The operands of a case need not belong together: an op is a
 * formula of them.
 */
#include <stdio.h>
#include <string.h>

#include "backend/opencl/selftest.h"

/* Some thousand roundings of numbers near 1. */
#define NEAR 1e-4F
#define BITS 0.0F

typedef enum known_values { ABSENT = 0, NORMAL, SMALL, POSITIVE, EARLIER } known_values;

/* What an operand of a case holds before the op; outputs too, because some are updated. */
typedef struct known_operand {
    const char *name;
    known_values values;
    int rank;
    size_t shape[ICL_MAX_RANK];
    int earlier; /* EARLIER: the operand of the case before this one that it is, outputs as the host computed them */
} known_operand;

typedef struct known_case {
    icl_op op;
    const void *params;
    float tolerance;
    known_operand operands[ICL_MAX_OPERANDS]; /* in the op's order */
    const struct known_case *before;          /* what the host computes first, or NULL */
} known_case;

enum {
    B = 5,
    D = 4,
    LAYERS = 3,
    CONTEXT = 6,
    N = LAYERS * 2 * D * D,
    QUERIES = 5,
    KEYS = 7,
    E = 2,
    HEADS = 2,
    ROWS = 64,
    TOKENS = ICL_RECURRENCE_SEGMENT + 5,
    SEGMENTS = 2
};

static const icl_linear_transformer_params transformer = {.parameterization = ICL_LINEAR_FULL,
                                                          .layers = LAYERS,
                                                          .depth = LAYERS,
                                                          .heads = 1,
                                                          .factor = 1.0 / CONTEXT,
                                                          .space = ICL_SPACE_GRAM};
static const icl_gram_params gram = {.key = {.seed = 3, .stream = 1, .step = 7},
                                     .context = 9,
                                     .noise_level = {.distribution = ICL_UNIFORM, .low = .25F, .high = 1}};
static const icl_attention_params softmax = {ICL_ATTENTION_SOFTMAX, ICL_MASK_CAUSAL, .5};
static const icl_update_params adam = {
    .kind = ICL_UPDATE_ADAM,
    .adam = {.learning_rate = .01, .beta1 = .9, .beta2 = .99, .epsilon = 1e-8, .weight_decay = .1, .step = 3},
    .clip = 2,
    .fraction = .25};

static const known_case gradient_case = {ICL_OP_linear_transformer_gradient,
                                         &transformer,
                                         NEAR,
                                         {{"losses", NORMAL, 1, {B}},
                                          {"gradient", NORMAL, 1, {N}},
                                          {"norms", NORMAL, 1, {B}},
                                          {"parameters", SMALL, 1, {N}},
                                          {"tokens", NORMAL, 3, {B, CONTEXT + 1, D}},
                                          {"gram", ABSENT, 0, {0}},
                                          {"query", ABSENT, 0, {0}},
                                          {"targets", NORMAL, 1, {B}},
                                          {"threshold", ABSENT, 0, {0}}}};

static const known_case gram_case = {ICL_OP_gram_sample,
                                     &gram,
                                     BITS,
                                     {{"gram", NORMAL, 3, {B, D, D}},
                                      {"query", NORMAL, 2, {B, D}},
                                      {"targets", NORMAL, 1, {B}},
                                      {"weights", NORMAL, 2, {B, D - 1}},
                                      {"noise", NORMAL, 1, {B}},
                                      {"chi", NORMAL, 3, {D, ICL_CHI_PIECES, ICL_CHI_TERMS}},
                                      {"roots", ABSENT, 0, {0}}}};

/* Over the end of a segment, so that the backward pass computes the states of one forward, whose decays are large, and
 * those of the other back. */
static const icl_recurrence_params recurrence = {.delta = true, .scale = .5};

static const known_case recurrence_case = {ICL_OP_recurrence_forward,
                                           &recurrence,
                                           NEAR,
                                           {{"outputs", NORMAL, 4, {1, HEADS, TOKENS, E}},
                                            {"final state", NORMAL, 4, {1, HEADS, D, E}},
                                            {"reads", NORMAL, 4, {1, HEADS, TOKENS, E}},
                                            {"states", NORMAL, 4, {1, HEADS, SEGMENTS *D, E}},
                                            {"q", NORMAL, 4, {1, HEADS, TOKENS, D}},
                                            {"k", SMALL, 4, {1, HEADS, TOKENS, D}},
                                            {"v", NORMAL, 4, {1, HEADS, TOKENS, E}},
                                            {"beta", POSITIVE, 4, {1, HEADS, TOKENS, 1}},
                                            {"decay", SMALL, 4, {1, HEADS, TOKENS, 1}},
                                            {"read key", ABSENT, 0, {0}},
                                            {"write key", ABSENT, 0, {0}},
                                            {"state", NORMAL, 4, {1, HEADS, D, E}}}};

#define EARLIER_INPUT(name) ICL_RECURRENCE_FORWARD_INPUTS + ICL_RECURRENCE_##name

static const known_case recurrence_gradient_case = {
    ICL_OP_recurrence_backward,
    &recurrence,
    NEAR,
    {{"d_q", NORMAL, 4, {1, HEADS, TOKENS, D}},
     {"d_k", NORMAL, 4, {1, HEADS, TOKENS, D}},
     {"d_v", NORMAL, 4, {1, HEADS, TOKENS, E}},
     {"d_beta", NORMAL, 4, {1, HEADS, TOKENS, 1}},
     {"d_decay", NORMAL, 4, {1, HEADS, TOKENS, 1}},
     {"d_read_key", ABSENT, 0, {0}},
     {"d_write_key", ABSENT, 0, {0}},
     {"d_state", NORMAL, 4, {1, HEADS, D, E}},
     {"d_out", NORMAL, 4, {1, HEADS, TOKENS, E}},
     {"d_final", NORMAL, 4, {1, HEADS, D, E}},
     {"final state", EARLIER, 4, {1, HEADS, D, E}, ICL_RECURRENCE_FINAL},
     {"reads", EARLIER, 4, {1, HEADS, TOKENS, E}, ICL_RECURRENCE_READS},
     {"states", EARLIER, 4, {1, HEADS, SEGMENTS *D, E}, ICL_RECURRENCE_STATES},
     {"q", EARLIER, 4, {1, HEADS, TOKENS, D}, EARLIER_INPUT(Q)},
     {"k", EARLIER, 4, {1, HEADS, TOKENS, D}, EARLIER_INPUT(K)},
     {"v", EARLIER, 4, {1, HEADS, TOKENS, E}, EARLIER_INPUT(V)},
     {"beta", EARLIER, 4, {1, HEADS, TOKENS, 1}, EARLIER_INPUT(BETA)},
     {"decay", EARLIER, 4, {1, HEADS, TOKENS, 1}, EARLIER_INPUT(DECAY)},
     {"read key", ABSENT, 0, {0}},
     {"write key", ABSENT, 0, {0}},
     {"state", EARLIER, 4, {1, HEADS, D, E}, EARLIER_INPUT(STATE)}},
    &recurrence_case};

static const known_case cases[] = {
    {ICL_OP_spherical,
     NULL,
     BITS,
     {{"out", NORMAL, 2, {ROWS, D}},
      {"in", NORMAL, 2, {ROWS, D}},
      {"normals", NORMAL, 2, {ROWS, 1}},
      {"table", NORMAL, 2, {ICL_CHI_PIECES, ICL_CHI_TERMS}}}},
    {ICL_OP_attention_backward,
     &softmax,
     NEAR,
     {{"d_q", NORMAL, 4, {B, HEADS, QUERIES, D}},
      {"d_k", NORMAL, 4, {B, 1, KEYS, D}},
      {"d_v", NORMAL, 4, {B, 1, KEYS, E}},
      {"d_out", NORMAL, 4, {B, HEADS, QUERIES, E}},
      {"out", NORMAL, 4, {B, HEADS, QUERIES, E}},
      {"log_sum_exp", POSITIVE, 4, {B, HEADS, QUERIES, 1}},
      {"q", NORMAL, 4, {B, HEADS, QUERIES, D}},
      {"k", NORMAL, 4, {B, 1, KEYS, D}},
      {"v", NORMAL, 4, {B, 1, KEYS, E}}}},
    {ICL_OP_update_step,
     &adam,
     NEAR,
     {{"parameters", NORMAL, 1, {N}},
      {"first moment", SMALL, 1, {N}},
      {"second moment", POSITIVE, 1, {N}},
      {"measures", NORMAL, 1, {3}},
      {"threshold", POSITIVE, 1, {1}},
      {"gradient", NORMAL, 1, {N}},
      {"losses", NORMAL, 1, {B}},
      {"norms", POSITIVE, 1, {B}},
      {"decays", ABSENT, 0, {0}}}},
};

/* What lists of small operations do, cl/small.cl: products whose columns stand beside each other, and rows. */
static const icl_matmul_params product = {.alpha = .5, .beta = 2};
static const icl_normalize_params layer_norm = {.kind = ICL_NORM_LAYER, .epsilon = 1e-5};
static const icl_binary_kind addition = ICL_ADD;

enum { FEW = 3, TERMS = 5, WIDE = 67 };

static const known_case small_cases[] = {
    {ICL_OP_matmul,
     &product,
     NEAR,
     {{"product", NORMAL, 2, {FEW, WIDE}}, {"a", NORMAL, 2, {FEW, TERMS}}, {"b", NORMAL, 2, {TERMS, WIDE}}}},
    {ICL_OP_normalize,
     &layer_norm,
     NEAR,
     {{"rows", NORMAL, 2, {FEW, WIDE}},
      {"in", NORMAL, 2, {FEW, WIDE}},
      {"gain", NORMAL, 1, {WIDE}},
      {"shift", NORMAL, 1, {WIDE}}}},
    {ICL_OP_binary,
     &addition,
     NEAR,
     {{"sum", NORMAL, 2, {FEW, WIDE}}, {"a", NORMAL, 2, {FEW, WIDE}}, {"b", NORMAL, 2, {FEW, WIDE}}}},
};

static size_t count_of(const known_operand *operand) {
    size_t count = operand->values == ABSENT ? 0 : 1;
    for (int axis = 0; axis < operand->rank; axis++)
        count *= operand->shape[axis];
    return count;
}

static void fill_values(const known_operand *operand, uint32_t stream, float *values) {
    const icl_random_params normal = {.key = {.seed = 11, .stream = stream}, .distribution = ICL_NORMAL};
    for (size_t i = 0; i < count_of(operand); i++) {
        const float x = icl_random_value(&normal, i);
        values[i] = operand->values == SMALL ? .2F * x : operand->values == POSITIVE ? x * x + .5F : x;
    }
}

/* Bits, where the tolerance is 0: -0 and 0 differ. */
static icl_status judge(const icl_opencl *opencl, const known_case *c, int operand, const float *got,
                        const float *expected, icl_error *error) {
    const size_t count = count_of(&c->operands[operand]);
    const float tolerance = c->tolerance;
    char what[96];

    snprintf(what, sizeof what, "%s: %s", icl_op_infos[c->op].name, c->operands[operand].name);
    for (size_t i = 0; i < count && tolerance == BITS; i++)
        if (memcmp(&got[i], &expected[i], sizeof *got) != 0)
            return icl_fail(error, ICL_ERROR_DEVICE, "self-test of %s: %s: element %zu is %a, expected the bits of %a",
                            opencl->backend->capabilities.name, what, i, (double)got[i], (double)expected[i]);
    return icl_self_test_compare(opencl, what, got, expected, count, tolerance, error);
}

#define MOST_VALUES 512 /* of an operand */

/* The op of a case on a backend, whose operands are created. earlier: the operands of the case before it. */
static icl_status run_case(const known_case *c, icl_backend *backend, const icl_tensor *earlier, icl_tensor *operands,
                           icl_error *error) {
    float values[MOST_VALUES];

    for (int i = 0; i < ICL_MAX_OPERANDS; i++) {
        const known_operand *operand = &c->operands[i];
        if (operand->values == ABSENT)
            continue;
        if (operand->values == EARLIER)
            ICL_CHECK(icl_tensor_read(earlier[operand->earlier], values, error));
        else
            fill_values(operand, (uint32_t)i, values);
        ICL_CHECK(icl_tensor_create(backend, operand->rank, operand->shape, &operands[i], error));
        ICL_CHECK(icl_tensor_write(operands[i], values, error));
    }
    return backend->functions->ops[c->op](backend, c->params, operands, error);
}

/* Both backends take the same operands; then their outputs are compared. */
static icl_status test_case(icl_opencl *opencl, icl_backend *host, const known_case *c, icl_error *error) {
    icl_backend *const backends[2] = {host, opencl->backend};
    icl_tensor operands[2][ICL_MAX_OPERANDS] = {{{0}}}, earlier[ICL_MAX_OPERANDS] = {{0}};
    float values[2][MOST_VALUES];
    icl_status status = ICL_OK;

    if (c->before)
        ICL_TRY(run_case(c->before, host, earlier, earlier, error));
    for (int which = 0; which < 2; which++)
        ICL_TRY(run_case(c, backends[which], earlier, operands[which], error));
    for (int i = 0; i < icl_op_infos[c->op].outputs; i++) {
        if (c->operands[i].values == ABSENT)
            continue;
        for (int which = 0; which < 2; which++)
            ICL_TRY(icl_tensor_read(operands[which][i], values[which], error));
        ICL_TRY(judge(opencl, c, i, values[1], values[0], error));
    }
done:
    for (int i = 0; i < ICL_MAX_OPERANDS; i++) {
        icl_tensor_release(&operands[0][i]);
        icl_tensor_release(&operands[1][i]);
        icl_tensor_release(&earlier[i]);
    }
    return status;
}

static icl_status test_cases(icl_opencl *opencl, const known_case *list, size_t count, icl_error *error) {
    icl_backend *host = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_cpu_open(&(icl_backend_params){.spec = "cpu"}, &(icl_host_spec){.threads = 1}, &host, error));
    for (size_t i = 0; i < count; i++)
        ICL_TRY(test_case(opencl, host, &list[i], error));
done:
    icl_backend_close(&host);
    return status;
}

icl_status icl_self_test_against_host(icl_opencl *opencl, icl_error *error) {
    return test_cases(opencl, cases, sizeof cases / sizeof *cases, error);
}

icl_status icl_self_test_linear_transformer(icl_opencl *opencl, icl_error *error) {
    return test_cases(opencl, &gradient_case, 1, error);
}

icl_status icl_self_test_gram(icl_opencl *opencl, icl_error *error) {
    return test_cases(opencl, &gram_case, 1, error);
}

icl_status icl_self_test_small(icl_opencl *opencl, icl_error *error) {
    return test_cases(opencl, small_cases, sizeof small_cases / sizeof *small_cases, error);
}

/* GPUs have two forms of it, and a run may use both: long sequences in training, single tokens in decoding. */
icl_status icl_self_test_recurrence(icl_opencl *opencl, icl_error *error) {
    unsigned *walk = &opencl->chosen[ICL_CHOICE_RECURRENCE];
    const unsigned chosen = *walk;
    icl_status status = ICL_OK;

    if (opencl->lanes == 1 && chosen != ICL_WALK_BY_TOKENS) {
        *walk = ICL_WALK_BY_CHUNKS;
        status = test_cases(opencl, &recurrence_case, 1, error);
        *walk = ICL_WALK_BY_TOKENS;
    }
    if (status == ICL_OK)
        status = test_cases(opencl, &recurrence_case, 1, error);
    *walk = chosen;
    return status;
}

icl_status icl_self_test_recurrence_gradient(icl_opencl *opencl, icl_error *error) {
    return test_cases(opencl, &recurrence_gradient_case, 1, error);
}
