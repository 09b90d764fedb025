#include "every_op.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/status.h"

/* ---- Rows ---- */

/* A call. Its shapes follow from the table of ops and from the extents given here: letters, and "*" for several
 * axes. */
typedef struct large_call {
    icl_op op;
    const char *extents;
    int variants; /* how many kinds, masks and sets of operands set_variant has; 0: one */
    icl_case_params params;
    unsigned swapped, row; /* bit i: operand i has its last two axes swapped in memory; is one row for all */
    bool is_bare;          /* without optional operands */
} large_call;

#define NOISE                                                                                                          \
    { .distribution = ICL_UNIFORM, .high = 2 }
#define GRAM(n)                                                                                                        \
    {                                                                                                                  \
        .gram = {.key = {5, 6, (uint64_t)1 << 40}, .context = (n), .noise_level = NOISE }                              \
    }
#define RANDOM                                                                                                         \
    {                                                                                                                  \
        .random = {                                                                                                    \
            .key = {5, 6, (uint64_t)1 << 40},                                                                          \
            .first_index = ((uint64_t)1 << 34) - 777,                                                                  \
            .low = -1,                                                                                                 \
            .high = 2,                                                                                                 \
            .choice_count = 3,                                                                                         \
            .choices = {1, 3, 5}                                                                                       \
        }                                                                                                              \
    }
#define GAMMA                                                                                                          \
    {                                                                                                                  \
        .draw = {.key = {5, 6, (uint64_t)1 << 40}, .first_index = ((uint64_t)1 << 28) - 777 }                          \
    }
#define DISTINCT                                                                                                       \
    {                                                                                                                  \
        .distinct = {.key = {5, 6, (uint64_t)1 << 40}, .row_words = 11, .least = 3, .count = 400 }                     \
    }
#define OVER(a)                                                                                                        \
    {                                                                                                                  \
        .reduce = {.axes = (a) }                                                                                       \
    }
#define PRODUCT                                                                                                        \
    {                                                                                                                  \
        .matmul = { 0.7, 0.2 }                                                                                         \
    }
#define ATTENTION                                                                                                      \
    {                                                                                                                  \
        .attention = {.scale = 0.15 }                                                                                  \
    }
#define LINEAR                                                                                                         \
    {                                                                                                                  \
        .linear_transformer = {.layers = 4, .heads = 2, .factor = 0.2 }                                                \
    }
#define UPDATE                                                                                                         \
    {                                                                                                                  \
        .update = {.adam = {1e-3, 0.9, 0.999, 1e-8, 0.01, 7}, .sgd = {1e-2, 0.9}, .clip = 2.5, .fraction = 0.1 }       \
    }
#define RECURRENCE                                                                                                     \
    {                                                                                                                  \
        .recurrence = { {false, 0.5}, ICL_KEYS_UNIT, ICL_DECAYS_RARE }                                                 \
    }

enum {
    DISTRIBUTIONS = ICL_DISTRIBUTION_COUNT,
    KINDS_AND_MASKS = 6,
    FORMS = 3 * ICL_PARAMETERIZATION_COUNT,
    RECURRENCES = 5 /* without gates; one gate for each head; with the delta term; gates of channels; from rows */
};

/* clang-format off */
static const large_call calls[] = {
    {ICL_OP_fill, "*401x130", 0, {.value = 0.1}},
    {ICL_OP_random_fill, "*401x130", DISTRIBUTIONS, RANDOM},
    {ICL_OP_random_fill, "*99x401", DISTRIBUTIONS, RANDOM, .swapped = 1},
    {ICL_OP_gram_sample, "B2017 D21 r21", 0, GRAM(50)},
    {ICL_OP_gram_sample, "B301 D8 r8", 0, GRAM(4), .is_bare = true},
    {ICL_OP_gram_sample, "B33 D2 r2", 0, GRAM(9)},
    {ICL_OP_spherical, "*257x21 d20"},
    {ICL_OP_spherical, "*33x1 d5", .is_bare = true},
    {ICL_OP_random_gamma, "*401x13", 0, GAMMA},
    {ICL_OP_cumulative_sum, "*257x21 d20", .swapped = 1},
    {ICL_OP_cumulative_sum, "*3 d20011"},
    {ICL_OP_categorical, "*257x21 n20 k30"},
    {ICL_OP_categorical, "*3 n4001 k5000"},
    {ICL_OP_random_distinct, "*4001 n9", 0, DISTINCT},
    {ICL_OP_random_distinct, "*23x5 n400", 0, DISTINCT, .swapped = 1},
    {ICL_OP_take, "*257x21 N20 k30"},
    {ICL_OP_put, "*257x21 N20 k30"},
    {ICL_OP_unary, "*4001x23", ICL_UNARY_COUNT},
    {ICL_OP_binary, "*4001x23", ICL_BINARY_COUNT},
    {ICL_OP_binary, "*4001x23", ICL_BINARY_COUNT, .row = 1 << 1},
    {ICL_OP_scale_add, "*4001x23", 0, {.scale_add = {0.1, -0.3}}},
    {ICL_OP_scale_add, "*4001x23", 0, {.scale_add = {0.1, 0}}, .is_bare = true},
    {ICL_OP_copy, "*23x4001", .swapped = 1 << 1},
    {ICL_OP_reduce, "*1x1x100003", ICL_REDUCE_COUNT, OVER(4)},
    {ICL_OP_reduce, "*1x1x100003", ICL_REDUCE_COUNT, OVER(7)},
    {ICL_OP_reduce, "*317x5x67", ICL_REDUCE_COUNT, OVER(2)},
    {ICL_OP_reduce, "*317x5x67", ICL_REDUCE_COUNT, OVER(5)},
    {ICL_OP_reduce, "*3x20011x2", ICL_REDUCE_COUNT, OVER(3)},
    {ICL_OP_reduce, "*3x20011x2", ICL_REDUCE_COUNT, OVER(6)},
    {ICL_OP_reduce, "*2x3001x18", ICL_REDUCE_COUNT, OVER(4)},
    {ICL_OP_reduce, "*2x3001x18", ICL_REDUCE_COUNT, OVER(7)},
    {ICL_OP_matmul, "*1 m5003 n11 k11", 0, PRODUCT, .swapped = 1 << 1},
    {ICL_OP_matmul, "*1 m11 n11 k20011", 0, PRODUCT, .swapped = 1 << 1},
    {ICL_OP_matmul, "*257 m11 n11 k20", 0, PRODUCT, .swapped = 1 << 1},
    {ICL_OP_matmul, "*257 m20 n1 k11", 0, PRODUCT, .swapped = 1 << 1},
    {ICL_OP_matmul, "*1 m130 n150 k300", 0, PRODUCT, .swapped = 1 << 1},
    {ICL_OP_matmul, "*3 m1 n40 k6000", 0, PRODUCT, .swapped = 1 << 1},
    {ICL_OP_matmul_strict, "*1 m5003 n11 k11", .swapped = 1 << 1},
    {ICL_OP_matmul_strict, "*257 m20 n1 k11", .swapped = 1 << 1},
    {ICL_OP_matmul_strict, "*1 m130 n150 k300", .swapped = 1 << 1},
    {ICL_OP_attention_forward, "B67 q21 k20 d11 e7", KINDS_AND_MASKS, ATTENTION},
    {ICL_OP_attention_forward, "B2 q150 k133 d20 e18", KINDS_AND_MASKS, ATTENTION},
    {ICL_OP_attention_backward, "B67 q21 k20 d11 e7", KINDS_AND_MASKS, ATTENTION},
    {ICL_OP_attention_backward, "B2 q150 k133 d20 e18", KINDS_AND_MASKS, ATTENTION},
    {ICL_OP_track_threshold, "B4099", 0, {.threshold = {0.1, false}}},
    {ICL_OP_update_step, "N70001 B4099", ICL_UPDATE_COUNT, UPDATE},
    {ICL_OP_update_step, "N70001 B4099", ICL_UPDATE_COUNT, UPDATE, .is_bare = true},
    {ICL_OP_linear_transformer_predict, "B331 R6 D7", FORMS, LINEAR},
    {ICL_OP_linear_transformer_gradient, "B331 R6 D7", FORMS, LINEAR},
    {ICL_OP_normalize, "*67x41 d16", ICL_NORM_COUNT, {.normalize = {.epsilon = 1e-5}}},
    {ICL_OP_normalize, "*9x130 d57", ICL_NORM_COUNT, {.normalize = {.epsilon = 1e-5}}},
    {ICL_OP_normalize, "*3x5 d2100", ICL_NORM_COUNT, {.normalize = {.epsilon = 1e-5}}},
    {ICL_OP_normalize_backward, "*67x41 d16", ICL_NORM_COUNT, {.normalize = {.epsilon = 1e-5}}},
    {ICL_OP_normalize_backward, "*9x130 d57", ICL_NORM_COUNT, {.normalize = {.epsilon = 1e-5}}},
    {ICL_OP_normalize_backward, "*3x5 d2100", ICL_NORM_COUNT, {.normalize = {.epsilon = 1e-5}}},
    {ICL_OP_recurrence_forward, "B37 H3 T70 m9 n21", RECURRENCES, RECURRENCE},
    {ICL_OP_recurrence_forward, "B1 H2 T200 m33 n70", RECURRENCES, RECURRENCE},
    {ICL_OP_recurrence_backward, "B37 H3 T70 m9 n21", RECURRENCES, RECURRENCE},
    {ICL_OP_recurrence_backward, "B1 H2 T200 m33 n70", RECURRENCES, RECURRENCE},
    {ICL_OP_look_up, "*67x131 w22 V300"},
    {ICL_OP_look_up, "*67x131 w64 V2"},
    {ICL_OP_look_up_backward, "*67x131 w22 V300"},
    {ICL_OP_look_up_backward, "*67x131 w64 V2"},
    {ICL_OP_convolve, "B67 t131 c22 w3"},
    {ICL_OP_convolve, "B67 t131 c64 w3"},
    {ICL_OP_convolve_backward, "B67 t131 c22 w3"},
    {ICL_OP_convolve_backward, "B67 t131 c64 w3"},
    {ICL_OP_rotate, "*67 t131 d22", 2},
    {ICL_OP_rotate, "*67 t131 d64", 2},
    {ICL_OP_cross_entropy, "*3001 V7"},
    {ICL_OP_cross_entropy, "*301 V130"},
    {ICL_OP_cross_entropy, "*5 V5000"},
    {ICL_OP_cross_entropy_backward, "*3001 V7"},
    {ICL_OP_cross_entropy_backward, "*301 V130"},
    {ICL_OP_cross_entropy_backward, "*5 V5000"},
};
/* clang-format on */

/* ---- Shapes ---- */

typedef struct extents {
    size_t letter['z' + 1];
    int several; /* the number of axes that "*" stands for; 0 for "+" */
    size_t shape[ICL_MAX_RANK];
} extents;

static extents read_extents(const char *text) {
    extents e = {.letter = {['P'] = ICL_CHI_PIECES, ['T'] = ICL_CHI_TERMS}};

    while (*text) {
        const char axis = *text++;
        char *end;
        const size_t extent = strtoul(text, &end, 10);
        if (axis == '*' || axis == 'x')
            e.shape[e.several++] = extent;
        else
            e.letter[(unsigned char)axis] = extent;
        text = *end == ' ' ? end + 1 : end;
    }
    return e;
}

/* Sets the extents that follow from others. */
static void derive_extents(const icl_case *c, extents *e) {
    const size_t m = e->letter['m'];

    e->letter['h'] = e->letter['d'] / 2;
    if (c->op == ICL_OP_gram_sample)
        e->letter['d'] = e->letter['D'] - 1;
    if (c->op == ICL_OP_linear_transformer_predict || c->op == ICL_OP_linear_transformer_gradient)
        e->letter['N'] = icl_linear_transformer_size(&c->params.linear_transformer, e->letter['D'] - 1);
    e->letter['S'] = (e->letter['T'] + ICL_RECURRENCE_SEGMENT - 1) / ICL_RECURRENCE_SEGMENT * m;
}

static void set_shape(icl_case *c, int operand, const extents *e) {
    const char *shape = icl_op_infos[c->op].operands[operand].shape;
    int rank = 0;

    for (; shape && *shape; shape++)
        if (*shape == '*')
            for (int axis = 0; axis < e->several; axis++)
                c->shape[operand][rank++] = e->shape[axis];
        else if (*shape != '+')
            c->shape[operand][rank++] = *shape <= '9' ? (size_t)(*shape - '0') : e->letter[(unsigned char)*shape];
    for (int axis = 0; c->op == ICL_OP_reduce && axis < e->several; axis++)
        c->shape[operand][rank++] = operand == 0 && c->params.reduce.axes >> axis & 1 ? 1 : e->shape[axis];
    if (c->op == ICL_OP_track_threshold && !icl_op_infos[c->op].operands[operand].shape)
        c->shape[operand][rank++] = 1;
    c->rank[operand] = rank;
}

/* ---- Variants ---- */

static void set_variant(icl_case *c, int variant, extents *e) {
    switch (c->op) {
    case ICL_OP_random_fill:
        c->params.random.distribution = (icl_distribution)variant;
        break;
    case ICL_OP_unary:
        c->params.unary = (icl_unary_kind)variant;
        break;
    case ICL_OP_binary:
        c->params.binary = (icl_binary_kind)variant;
        break;
    case ICL_OP_reduce:
        c->params.reduce.kind = (icl_reduce_kind)variant;
        break;
    case ICL_OP_attention_forward:
    case ICL_OP_attention_backward:
        c->params.attention.kind = (icl_attention_kind)(variant % 2);
        c->params.attention.mask = (icl_attention_mask)(variant / 2);
        break;
    case ICL_OP_update_step:
        c->params.update.kind = (icl_update_kind)variant;
        break;
    case ICL_OP_linear_transformer_predict:
    case ICL_OP_linear_transformer_gradient:
        c->params.linear_transformer.parameterization = (icl_parameterization)(variant / 3);
        c->params.linear_transformer.space = variant % 3 == 0 ? ICL_SPACE_TOKENS : ICL_SPACE_GRAM;
        break;
    case ICL_OP_normalize:
    case ICL_OP_normalize_backward:
        c->params.normalize.kind = (icl_norm_kind)variant;
        break;
    case ICL_OP_recurrence_forward:
    case ICL_OP_recurrence_backward:
        c->params.recurrence.params.delta = variant > 1;
        c->params.recurrence.params.from_rows = variant == 4;
        e->letter['E'] = variant > 2 ? e->letter['m'] : variant > 0;
        e->letter['q'] = e->letter[variant == 4 ? 'n' : 'm'];
        e->letter['o'] = e->letter[variant == 4 ? 'm' : 'n'];
        break;
    case ICL_OP_rotate:
        c->params.inverse = variant;
        break;
    default:
        break;
    }
}

static bool is_one_of(const char *name, const char *const *names) {
    while (*names && strcmp(name, *names) != 0)
        names++;
    return *names != NULL;
}

/* Returns whether a variant lacks this operand. */
static bool is_absent(const icl_case *c, const large_call *call, int variant, int operand) {
    static const char *const gates[] = {"beta", "decay", "gradient of beta", "gradient of decay", NULL};
    static const char *const never[] = {
        "read_key", "write_key", "state", "gradient of read_key", "gradient of write_key", "gradient of state", NULL};
    static const char *const of_gram[] = {"gram", "query", NULL};
    const icl_operand *row = &icl_op_infos[c->op].operands[operand];

    if (!(row->flags & ICL_OPTIONAL))
        return false;
    switch (c->op) {
    case ICL_OP_attention_forward:
    case ICL_OP_attention_backward:
        return c->params.attention.kind == ICL_ATTENTION_LINEAR;
    case ICL_OP_update_step:
        if (strcmp(row->name, "the second state") == 0 || strcmp(row->name, "decays") == 0)
            return c->params.update.kind == ICL_UPDATE_SGD || (call->is_bare && strcmp(row->name, "decays") == 0);
        return call->is_bare;
    case ICL_OP_linear_transformer_predict:
    case ICL_OP_linear_transformer_gradient:
        return is_one_of(row->name, of_gram)      ? variant % 3 != 2
               : strcmp(row->name, "tokens") == 0 ? variant % 3 == 2
                                                  : strcmp(row->name, "threshold") == 0 && variant % 3 != 1;
    case ICL_OP_recurrence_forward:
    case ICL_OP_recurrence_backward:
        return is_one_of(row->name, never) || (variant == 0 && is_one_of(row->name, gates)) ||
               (variant < 2 && strcmp(row->name, "reads") == 0);
    default:
        return call->is_bare;
    }
}

/* ---- Running ---- */

typedef struct run {
    icl_case c;
    const large_call *call;
    icl_tensor t[ICL_MAX_OPERANDS], owned[ICL_MAX_OPERANDS];
    float *values[ICL_MAX_OPERANDS];
} run;

static void set_case(run *r, int variant) {
    extents e = read_extents(r->call->extents);
    icl_case *c = &r->c;

    *c = (icl_case){.op = r->call->op, .params = r->call->params, .seed = 5};
    set_variant(c, variant, &e);
    derive_extents(c, &e);
    for (int i = 0; i < icl_op_infos[c->op].outputs + icl_op_infos[c->op].inputs; i++) {
        set_shape(c, i, &e);
        if (is_absent(c, r->call, variant, i))
            c->rank[i] = -1;
        if (r->call->row >> i & 1)
            c->shape[i][0] = 1;
    }
}

/* Creates the operands from last to first, because some depend on later ones. */
static icl_status create_operands(run *r, icl_backend *backend, icl_error *error) {
    const icl_op_info *info = &icl_op_infos[r->c.op];

    for (int i = info->outputs + info->inputs - 1; i >= 0; i--) {
        const int rank = r->c.rank[i];
        size_t shape[ICL_MAX_RANK];
        r->t[i] = (icl_tensor){0};
        if (rank < 0)
            continue;
        memcpy(shape, r->c.shape[i], sizeof shape);
        if (r->call->swapped >> i & 1) {
            shape[rank - 1] = r->c.shape[i][rank - 2];
            shape[rank - 2] = r->c.shape[i][rank - 1];
        }
        ICL_CHECK(icl_tensor_create(backend, rank, shape, &r->owned[i], error));
        r->t[i] = r->call->swapped >> i & 1 ? icl_tensor_swap_axes(r->owned[i], rank - 2, rank - 1) : r->owned[i];
        ICL_CHECK(icl_allocate(icl_case_count(&r->c, i) + 1, sizeof(float), "values", &r->values[i], error));
        if (!icl_case_is_read(&r->c, i))
            continue;
        ICL_CHECK(icl_case_inputs(&r->c, i, r->values, error));
        ICL_CHECK(icl_tensor_write(r->t[i], r->values[i], error));
    }
    return ICL_OK;
}

static bool fuses(const icl_case *c) {
    switch (c->op) {
    case ICL_OP_attention_forward:
    case ICL_OP_attention_backward:
        return c->params.attention.kind == ICL_ATTENTION_SOFTMAX;
    case ICL_OP_matmul:
    case ICL_OP_linear_transformer_predict:
    case ICL_OP_linear_transformer_gradient:
    case ICL_OP_recurrence_forward:
    case ICL_OP_recurrence_backward:
    case ICL_OP_cross_entropy:
    case ICL_OP_cross_entropy_backward:
        return true;
    default:
        return false;
    }
}

static icl_status keep_outputs(const run *r, int variant, op_results *results, icl_error *error) {
    const icl_op_info *info = &icl_op_infos[r->c.op];

    for (int i = 0; i < info->outputs; i++) {
        if (!r->t[i].buffer)
            continue;
        if (results->count == MAX_RESULTS)
            return icl_fail(error, ICL_ERROR_INPUT, "more than %d results", MAX_RESULTS);
        op_result *result = &results->result[results->count++];
        *result = (op_result){.fuses = fuses(&r->c), .count = icl_case_count(&r->c, i)};
        snprintf(result->name, sizeof result->name, "%s %s, variant %d: %s", info->name, r->call->extents, variant,
                 info->operands[i].name);
        ICL_CHECK(icl_allocate(result->count + 1, sizeof *result->values, "a result", &result->values, error));
        ICL_CHECK(icl_tensor_read_double(r->t[i], result->values, error));
    }
    return ICL_OK;
}

static void release_operands(run *r) {
    for (int i = 0; i < ICL_MAX_OPERANDS; i++) {
        icl_tensor_release(&r->owned[i]);
        icl_free(&r->values[i]);
    }
}

/* Returns whether all variants take the same operands with the same values. */
static bool shares_operands(icl_op op) {
    return op == ICL_OP_unary || op == ICL_OP_binary || op == ICL_OP_reduce || op == ICL_OP_normalize ||
           op == ICL_OP_normalize_backward;
}

static icl_status run_variants(const large_call *call, icl_backend *backend, op_results *results, icl_error *error) {
    run r = {.call = call};
    icl_status status = ICL_OK;

    for (int variant = 0; variant < call->variants || variant == 0; variant++) {
        set_case(&r, variant);
        if (variant == 0 || !shares_operands(call->op)) {
            release_operands(&r);
            ICL_TRY(create_operands(&r, backend, error));
        }
        ICL_TRY(icl_describe(call->op)->call(&r.c, backend, r.t, error));
        ICL_TRY(keep_outputs(&r, variant, results, error));
    }
done:
    release_operands(&r);
    return status;
}

icl_status run_every_op(icl_backend *backend, op_results *results, icl_error *error) {
    bool has_run[ICL_OP_COUNT] = {false};

    results->count = 0;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        has_run[calls[i].op] = true;
        ICL_CHECK(run_variants(&calls[i], backend, results, error));
    }
    for (int op = 0; op < ICL_OP_COUNT; op++)
        if (!has_run[op])
            return icl_fail(error, ICL_ERROR_INPUT, "no call of %s", icl_op_infos[op].name);
    return ICL_OK;
}

void free_results(op_results *results) {
    for (size_t i = 0; i < results->count; i++)
        icl_free(&results->result[i].values);
    results->count = 0;
}
