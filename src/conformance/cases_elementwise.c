/* The ops that look at one element at a time, random numbers among them: flat shapes, broadcasting, onto an input. */
#include "conformance/cases.h"

#include <stdio.h>

static const struct {
    int rank;
    size_t shape[ICL_MAX_RANK];
} flat_shapes[] = {
    {0, {0}},       {1, {1}},         {1, {7}},          {1, {257}},  {2, {33, 17}},
    {3, {5, 0, 3}}, {3, {3, 21, 11}}, {4, {2, 3, 5, 7}}, {1, {4099}},
};
#define FLAT_SHAPES (sizeof flat_shapes / sizeof *flat_shapes)

static void add_elementwise(icl_case_list *list, icl_op op, icl_case_params params, const char *what) {
    static const icl_values values[] = {ICL_VALUES_RANDOM, ICL_VALUES_SPECIAL, ICL_VALUES_INTEGERS};
    for (size_t s = 0; s < FLAT_SHAPES; s++) {
        icl_case c = {.op = op, .params = params, .values = values[s % 3]};
        const size_t *shape = flat_shapes[s].shape;
        for (int i = 0; i < icl_op_infos[op].outputs + icl_op_infos[op].inputs; i++)
            icl_case_set_shape(&c, i, flat_shapes[s].rank, shape[0], shape[1], shape[2], shape[3]);
        if (op == ICL_OP_scale_add && c.values == ICL_VALUES_SPECIAL)
            c.values = ICL_VALUES_CANCELLING; /* infinity minus infinity depends on alpha and beta */
        icl_cases_add(list, c, what);
    }
}

/* Inputs that repeat along axes of the output. */
static void add_broadcast(icl_case_list *list, icl_op op, icl_case_params params, const char *what) {
    icl_case c = {.op = op, .params = params};
    icl_case_set_shape(&c, 0, 3, 6, 13, 11, 0);
    icl_case_set_shape(&c, 1, 3, 6, 1, 11, 0);
    icl_case_set_shape(&c, 2, 1, 11, 0, 0, 0);
    icl_cases_add(list, c, what);
    icl_case_set_shape(&c, 1, 0, 0, 0, 0, 0);
    icl_case_set_shape(&c, 2, 3, 6, 13, 1, 0);
    icl_cases_add(list, c, what);
    /* One short row against all rows, on either side. */
    icl_case_set_shape(&c, 1, 3, 6, 13, 11, 0);
    icl_case_set_shape(&c, 2, 1, 11, 0, 0, 0);
    icl_cases_add(list, c, what);
    icl_case_set_shape(&c, 1, 1, 11, 0, 0, 0);
    icl_case_set_shape(&c, 2, 3, 6, 13, 11, 0);
    icl_cases_add(list, c, what);
}

/* Onto an input, or onto both. */
static void add_in_place(icl_case_list *list, icl_op op, icl_case_params params, const char *name) {
    static const char *const where[] = {"", "", "in place", "", "onto b", "", "onto a and b"};
    const int inputs = icl_op_infos[op].inputs;
    for (unsigned in_place = 2; in_place < 2U << inputs; in_place += 2)
        for (size_t s = 3; s < FLAT_SHAPES; s += 2) {
            icl_case c = {.op = op, .params = params, .in_place = in_place};
            const size_t *shape = flat_shapes[s].shape;
            char what[64];
            for (int i = 0; i <= inputs; i++)
                icl_case_set_shape(&c, i, flat_shapes[s].rank, shape[0], shape[1], shape[2], shape[3]);
            snprintf(what, sizeof what, "%s %s", name, where[in_place]);
            icl_cases_add(list, c, what);
        }
}

static void in_place_cases(icl_case_list *list) {
    add_in_place(list, ICL_OP_copy, (icl_case_params){0}, "copy");
    for (int kind = 0; kind < ICL_UNARY_COUNT; kind++)
        add_in_place(list, ICL_OP_unary, (icl_case_params){.unary = (icl_unary_kind)kind},
                     icl_unary_name((icl_unary_kind)kind));
    for (int kind = 0; kind < ICL_BINARY_COUNT; kind++)
        add_in_place(list, ICL_OP_binary, (icl_case_params){.binary = (icl_binary_kind)kind},
                     icl_binary_name((icl_binary_kind)kind));
    add_in_place(list, ICL_OP_scale_add, (icl_case_params){.scale_add = {0.3, -1.7}}, "scale_add");
}

static void plain_cases(icl_case_list *list) {
    add_elementwise(list, ICL_OP_fill, (icl_case_params){.value = 0.1}, "fill");
    add_elementwise(list, ICL_OP_copy, (icl_case_params){0}, "copy");
    add_broadcast(list, ICL_OP_copy, (icl_case_params){0}, "copy");
    for (int kind = 0; kind < ICL_UNARY_COUNT; kind++) {
        icl_case wide = {.op = ICL_OP_unary, .params = {.unary = (icl_unary_kind)kind}, .values = ICL_VALUES_WIDE};
        add_elementwise(list, ICL_OP_unary, wide.params, icl_unary_name(wide.params.unary));
        icl_case_set_shape(&wide, 0, 1, 4099, 0, 0, 0);
        icl_case_set_shape(&wide, 1, 1, 4099, 0, 0, 0);
        icl_cases_add(list, wide, icl_unary_name(wide.params.unary));
    }
    for (int kind = 0; kind < ICL_BINARY_COUNT; kind++) {
        const icl_case_params params = {.binary = (icl_binary_kind)kind};
        icl_case wide = {.op = ICL_OP_binary, .params = params, .values = ICL_VALUES_WIDE};
        add_elementwise(list, ICL_OP_binary, params, icl_binary_name((icl_binary_kind)kind));
        for (int i = 0; i < 3; i++)
            icl_case_set_shape(&wide, i, 1, 4099, 0, 0, 0);
        icl_cases_add(list, wide, icl_binary_name((icl_binary_kind)kind));
        add_broadcast(list, ICL_OP_binary, params, icl_binary_name((icl_binary_kind)kind));
    }
    add_elementwise(list, ICL_OP_scale_add, (icl_case_params){.scale_add = {0.3, -1.7}}, "scale_add");
    add_broadcast(list, ICL_OP_scale_add, (icl_case_params){.scale_add = {2, 0.1}}, "scale_add");
    icl_case scale = {.op = ICL_OP_scale_add, .params = {.scale_add = {-0.7, 0}}};
    icl_case_set_shape(&scale, 0, 2, 33, 257, 0, 0);
    icl_case_set_shape(&scale, 1, 2, 33, 257, 0, 0);
    scale.rank[2] = -1;
    icl_cases_add(list, scale, "scale");
}

static void random_cases(icl_case_list *list) {
    static const char *const names[] = {"random uniform", "random normal", "random choice"};
    /* The last one crosses from one word of Philox's counter to the next. */
    static const struct {
        uint64_t index;
        const char *name;
    } firsts[] = {{0, ""}, {1, " from 1"}, {(UINT64_C(1) << 34) - 5, " from 2^34 - 5"}};
    for (int distribution = 0; distribution <= ICL_CHOICE; distribution++)
        for (int first = 0; first < 3; first++) {
            char what[64];
            snprintf(what, sizeof what, "%s%s", names[distribution], firsts[first].name);
            add_elementwise(list, ICL_OP_random_fill,
                            (icl_case_params){.random = {.key = {.seed = 7, .stream = 3, .step = UINT64_C(1) << 33},
                                                         .first_index = firsts[first].index,
                                                         .distribution = (icl_distribution)distribution,
                                                         .low = -1.5F,
                                                         .high = 2.25F,
                                                         .choice_count = 3,
                                                         .choices = {1, 3, 5}}},
                            what);
        }
}

static void cases(icl_case_list *list) {
    plain_cases(list);
    in_place_cases(list);
    random_cases(list);
}

/* A square root or logarithm of a negative number is NaN everywhere and tests nothing. */
static void unary_inputs(const icl_case *c, int operand, float *const *operands) {
#define POSITIVE(kind, name, positive) positive,
    static const bool takes_positive[] = {ICL_UNARY_KINDS(POSITIVE)};
    icl_case_values(c, operand, takes_positive[c->params.unary] && c->values != ICL_VALUES_SPECIAL, operands[operand]);
}

static double scale_add_flops(const icl_case *c) {
    return 3 * (double)icl_case_count(c, 0);
}

ICL_CASE_CALL(fill, icl_fill(on, t[0], c->params.value, error))
ICL_CASE_CALL(copy, icl_copy(on, t[0], t[1], error))
ICL_CASE_CALL(random_fill, icl_random_fill(on, &c->params.random, t[0], error))
ICL_CASE_CALL(unary, icl_unary(on, c->params.unary, t[0], t[1], error))
ICL_CASE_CALL(binary, icl_binary(on, c->params.binary, t[0], t[1], t[2], error))
ICL_CASE_CALL(scale_add,
              icl_scale_add(on, t[0], c->params.scale_add.alpha, t[1], c->params.scale_add.beta, t[2], error))

#define MANY ICL_AXIS(ICL_MILLIONS)

static const icl_timed_shape fill_timed[] = {{"fill (4Mi)", {.value = 1}, {MANY}}};
static const icl_timed_shape copy_timed[] = {
    {"copy (4Mi)", {0}, {MANY, MANY}},
    /* Beyond the caches of large GPUs. */
    {"copy (32Mi)", {0}, {ICL_AXIS(8 * ICL_MILLIONS), ICL_AXIS(8 * ICL_MILLIONS)}, true},
};
static const icl_timed_shape random_timed[] = {
    {"random normal (1Mi)", {.random = {.key = {.seed = 1}, .distribution = ICL_NORMAL}}, {ICL_AXIS(ICL_MILLIONS / 4)}},
};
static const icl_timed_shape unary_timed[] = {
    {"unary exponential (4Mi)", {.unary = ICL_EXPONENTIAL}, {MANY, MANY}},
};
static const icl_timed_shape binary_timed[] = {
    {"binary multiply (4Mi)", {.binary = ICL_MULTIPLY}, {MANY, MANY, MANY}},
    {"binary gelu_slope (4Mi)", {.binary = ICL_GELU_SLOPE}, {MANY, MANY, MANY}},
    {"binary add a row (2048x2048)",
     {.binary = ICL_ADD},
     {ICL_AXES2(2048, 2048), ICL_AXES2(2048, 2048), ICL_AXES2(1, 2048)}},
};
static const icl_timed_shape scale_add_timed[] = {
    {"scale_add (4Mi)", {.scale_add = {0.5, 0.25}}, {MANY, MANY, MANY}},
};

const icl_described_op icl_described_fill =
    ICL_DESCRIBED(fill_timed, .call = call_fill, .truth = icl_truth_elementwise, .cases = cases);
const icl_described_op icl_described_copy =
    ICL_DESCRIBED(copy_timed, .call = call_copy, .truth = icl_truth_elementwise);
const icl_described_op icl_described_random_fill =
    ICL_DESCRIBED(random_timed, .call = call_random_fill, .truth = icl_truth_random_fill);
const icl_described_op icl_described_unary =
    ICL_DESCRIBED(unary_timed, .call = call_unary, .truth = icl_truth_elementwise, .inputs = unary_inputs);
const icl_described_op icl_described_binary =
    ICL_DESCRIBED(binary_timed, .call = call_binary, .truth = icl_truth_elementwise);
const icl_described_op icl_described_scale_add =
    ICL_DESCRIBED(scale_add_timed, .call = call_scale_add, .truth = icl_truth_elementwise, .flops = scale_add_flops);
