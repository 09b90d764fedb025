/*
 * Elementwise ops and random numbers.
 *
 * One correctly rounded operation has relative error u. Division and the elementary functions take the limits of the
 * OpenCL 1.2 specification, table 7.1 (1 ulp is at most 2u relative): divide and reciprocal 2.5 ulp, sqrt 3 ulp, exp
 * and log 3 ulp, log1p 2 ulp, tanh 5 ulp.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>

#include "conformance/cases.h"

/* ---- The exact result ---- */

/* In units of u. */
#define ULP      2.0
#define DIVISION (2.5 * ULP)

/* The exact value, and its error bound in units of u, relative to the value or to a larger size if that is given. lost:
 * the error if a factor below the smallest normal number is flushed to 0, in units of that number. */
typedef struct exact {
    double value, units, size, lost;
} exact;

/* The exact result of each kind, unary_NAME. A row of the list without one does not compile. */
#define UNARY(name, units, value)                                                                                      \
    static exact unary_##name(double x) {                                                                              \
        return (exact){value, units, 0, 0};                                                                            \
    }
UNARY(negate, 0, -x)
UNARY(absolute, 0, fabs(x))
UNARY(square, 1, x *x)
UNARY(square_root, 3 * ULP, sqrt(x))
UNARY(reciprocal, DIVISION, 1 / x)
UNARY(exponential, 3 * ULP, exp(x))
UNARY(logarithm, 3 * ULP, log(x))
UNARY(hyperbolic_tangent, 5 * ULP, tanh(x))
/* e = exp(-x) (1 + 6u); 1 + e rounds once, and e's error counts at most in full; then one division. With e = exp(-|x|)
 * the value below 0 is e / (1 + e): e's error counts once there, too, since those of e above and below the line
 * cancel in part. */
UNARY(sigmoid, 3 * ULP + 1 + DIVISION, 1 / (1 + exp(-x)))
UNARY(relu, 0, isnan(x) ? x : fmax(x, 0))
UNARY(sign, 0, isnan(x) ? x : (double)((x > 0) - (x < 0)))
/* max(x, 0) + log1p(e), e = exp(-|x|) (1 + 6u): log1p(e) has at most e's relative error, as e / (1 + e) <= log1p(e),
 * and 2 ulp of its own. Neither term of the sum is negative: at most the larger relative error of the two, and one
 * rounding. Beyond 40 the exact value is x in any precision here. */
UNARY(softplus, (3 + 2) * ULP + 1, x > 40 ? x : log1p(exp(x)))

/*
 * Returns x / (1 + exp(-2 w)), which devices compute from h = exp(-|w|), where w has the relative error r u. Then h has
 * the error (6 + r |w|) u, and h h twice that and one rounding. Above 0, 1 + h h has the share h h / (1 + h h) of it
 * (at most 1 / 2; times |w| at most 0.19) and one rounding; then comes the division. Below 0, x h h has twice h's error
 * and two roundings, too. Half a u covers second orders. SiLU: w = x / 2, r = 0. GELU: w = x (c + k x^2), c and k
 * rounded, r = 5.
 */
static exact gated(double x, double w, double r) {
    const double below = 2 * (6 + r * fabs(w)) + 2, each = 6.5 + 2 * 0.19 * r + 1 + DIVISION + 0.5;
    if (isinf(x) && x < 0)
        return (exact){0, each, 0, 0};
    return x > 0 ? (exact){x / (1 + exp(-2 * w)), each, 0, 0}
                 : (exact){x * exp(2 * w) / (1 + exp(2 * w)), each + below, 0, 0};
}
static exact unary_silu(double x) {
    return gated(x, x / 2, 0);
}
static exact unary_gelu(double x) {
    return gated(x, sqrt(2 / acos(-1)) * (x + 0.044715 * (x * x * x)), 5);
}

/* 4 units in the last place, of the result or of 2^-12, up to 1e5: x - k pi / 2 is reduced with an absolute error of
 * at most u 2^-12 for |k| < 2^16 (cl/functions.h), to which u of the remainder itself, and 4 u of the polynomials and
 * their last sum, are added. Beyond, a float may be any number in [-1, 1], which is at most 2 = 2^25 u off. */
static exact turned(double x, double value) {
    return fabs(x) > 1e5 ? (exact){value, 1, 0x1p25, 0} : (exact){value, 4 * ULP, fmax(fabs(value), 0x1p-12), 0};
}
static exact unary_sine(double x) {
    return turned(x, sin(x));
}
static exact unary_cosine(double x) {
    return turned(x, cos(x));
}

static exact (*const unary_exact[])(double) = {
#define ROW(kind, name, positive) unary_##name,
    ICL_UNARY_KINDS(ROW)
#undef ROW
};

#define BINARY(name, units, value)                                                                                     \
    static exact binary_##name(double a, double b) {                                                                   \
        return (exact){value, units, 0, 0};                                                                            \
    }
BINARY(add, 1, a + b)
BINARY(subtract, 1, a - b)
BINARY(multiply, 1, a *b)
BINARY(divide, DIVISION, a / b)
BINARY(maximum, 0, isnan(a) || isnan(b) ? (double)NAN : fmax(a, b))
BINARY(minimum, 0, isnan(a) || isnan(b) ? (double)NAN : fmin(a, b))
BINARY(equal, 0, a == b)

/*
 * Returns g (s + x z' s (1 - s)), z = 2 w, which devices compute from q = h h = exp(-2 |w|), whose relative error is E
 * = 2 (6 + r |w|) + 1 in u, as above. Both terms are products of 1 / (1 + q) with 1 or q, and q's error E counts at
 * most in full; 1 + q and the division add 1 + DIVISION to it, twice in the second term, and each product adds 1; x z'
 * has at most 6. The terms may cancel in their sum; that and the product with g round once each. Half a u covers second
 * orders. If q is flushed, that costs g (1 + |x z'|) times the largest number that may be.
 */
static exact gated_slope(double x, double w, double x_z, double r, double g) {
    const double q = exp(-2 * fabs(w)), share = 1 / (1 + q), error = 2 * (6 + r * fabs(w)) + 1;
    const double gate = (x > 0 ? 1 : q) * share, rest = x_z * q * share * share;
    const double gate_units = (x > 0 ? q * share : 1) * error + 1 + DIVISION + 1;
    const double rest_units = error + 2 * (1 + DIVISION) + 3 + 6;
    if (fabs(w) > 1000) /* q is 0 in any precision */
        return (exact){g * (x > 0), 1, 0, 0};
    return (exact){g * (gate + rest), 1, fabs(g) * (fabs(gate) * (gate_units + 2.5) + fabs(rest) * (rest_units + 2.5)),
                   fabs(g) * (1 + fabs(x_z))};
}
static exact binary_silu_slope(double a, double b) {
    return gated_slope(a, a / 2, a, 0, b);
}
static exact binary_gelu_slope(double a, double b) {
    const double c = sqrt(2 / acos(-1)), cubed = 0.044715 * (a * a * a);
    return gated_slope(a, c * (a + cubed), 2 * c * (a + 3 * cubed), 5, b);
}

static exact (*const binary_exact[])(double, double) = {
#define ROW(kind, name) binary_##name,
    ICL_BINARY_KINDS(ROW)
#undef ROW
};

/* Returns out = fl(fl(alpha a) + fl(beta b)), with the products' errors and the sum's as its bound. */
static double scale_add_truth(const icl_truth *truth, double a, double b, double *bound) {
    const double alpha_a = icl_device_rounded(truth, truth->c->params.scale_add.alpha) * a;
    const double beta_b = icl_device_rounded(truth, truth->c->params.scale_add.beta) * b;
    *bound = icl_gamma(2, truth->unit) * (fabs(alpha_a) + fabs(beta_b));
    return alpha_a + beta_b;
}

/* Returns the element of a broadcast operand that corresponds to element `index` of the output. */
static double broadcast_element(const icl_truth *truth, int operand, size_t index) {
    const icl_case *c = truth->c;
    size_t position = 0, stride = 1;

    if (c->rank[operand] < 0)
        return 0;
    for (int axis = c->rank[0] - 1, own = c->rank[operand] - 1; own >= 0; axis--, own--) {
        const size_t coordinate = index % c->shape[0][axis];
        index /= c->shape[0][axis];
        if (c->shape[operand][own] != 1)
            position += coordinate * stride;
        stride *= c->shape[operand][own];
    }
    return truth->operand[operand][position];
}

static icl_status truth_elementwise(icl_truth *truth, icl_error *error) {
    const icl_case *c = truth->c;
    const size_t count = icl_case_count(c, 0);
    (void)error;

    for (size_t i = 0; i < count; i++) {
        const double a = c->op == ICL_OP_fill ? 0 : broadcast_element(truth, 1, i);
        double *out = &truth->operand[0][i], *bound = &truth->bound[0][i];
        exact of_kind;
        switch (c->op) {
        case ICL_OP_fill:
            of_kind = (exact){icl_device_rounded(truth, c->params.value), 0};
            break;
        case ICL_OP_copy:
            of_kind = (exact){a, 0};
            break;
        case ICL_OP_unary:
            of_kind = unary_exact[c->params.unary](a);
            break;
        case ICL_OP_binary:
            of_kind = binary_exact[c->params.binary](a, broadcast_element(truth, 2, i));
            break;
        default:
            *out = scale_add_truth(truth, a, broadcast_element(truth, 2, i), bound);
            continue;
        }
        *out = of_kind.value;
        *bound = of_kind.units * truth->unit * (of_kind.size > 0 ? of_kind.size : fabs(*out));
        *bound += of_kind.lost * (truth->unit < (double)FLT_EPSILON / 4 ? DBL_MIN : (double)FLT_MIN);
        /* A result may be so small that its bound vanishes; any bound above 0 lets it be flushed to zero. */
        if (c->op == ICL_OP_unary && of_kind.units > 0 && a != 0 && isfinite(a))
            *bound = fmax(*bound, DBL_TRUE_MIN);
    }
    return ICL_OK;
}

static icl_status truth_random_fill(icl_truth *truth, icl_error *error) {
    (void)error;
    for (size_t i = 0; i < icl_case_count(truth->c, 0); i++) {
        truth->operand[0][i] = (double)icl_random_value(&truth->c->params.random, i);
        truth->bound[0][i] = 0;
    }
    return ICL_OK;
}

/* ---- Cases ---- */

/* The cases have flat shapes, broadcasting, and outputs that are also an input. */

static const struct {
    int rank;
    size_t shape[ICL_MAX_RANK];
} flat_shapes[] = {
    {0, {0}},       {1, {1}},         {1, {7}},          {1, {257}},  {2, {33, 17}},
    {3, {5, 0, 3}}, {3, {3, 21, 11}}, {4, {2, 3, 5, 7}}, {1, {4099}}, {2, {12, 20}},
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

/* Adds cases whose inputs repeat along axes of the output. */
static void add_broadcast(icl_case_list *list, icl_op op, icl_case_params params, const char *what) {
    icl_case c = {.op = op, .params = params};
    icl_case_set_shape(&c, 0, 3, 6, 13, 11, 0);
    icl_case_set_shape(&c, 1, 3, 6, 1, 11, 0);
    icl_case_set_shape(&c, 2, 1, 11, 0, 0, 0);
    icl_cases_add(list, c, what);
    icl_case_set_shape(&c, 1, 0, 0, 0, 0, 0);
    icl_case_set_shape(&c, 2, 3, 6, 13, 1, 0);
    icl_cases_add(list, c, what);
    /* One short row meets all rows, on either side. */
    icl_case_set_shape(&c, 1, 3, 6, 13, 11, 0);
    icl_case_set_shape(&c, 2, 1, 11, 0, 0, 0);
    icl_cases_add(list, c, what);
    icl_case_set_shape(&c, 1, 1, 11, 0, 0, 0);
    icl_case_set_shape(&c, 2, 3, 6, 13, 11, 0);
    icl_cases_add(list, c, what);
    /* Rows that all begin at multiples of 16 bytes. */
    icl_case_set_shape(&c, 0, 3, 6, 13, 12, 0);
    icl_case_set_shape(&c, 1, 3, 6, 1, 12, 0);
    icl_case_set_shape(&c, 2, 1, 12, 0, 0, 0);
    icl_cases_add(list, c, what);
}

/* Adds cases whose output is an input, or both. */
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
    static const char *const names[] = {"random uniform", "random normal", "random choice", "random exponential"};
    /* The last of these crosses from one word of Philox's counter to the next. */
    static const struct {
        uint64_t index;
        const char *name;
    } firsts[] = {{0, ""}, {1, " from 1"}, {(UINT64_C(1) << 34) - 5, " from 2^34 - 5"}};
    for (int distribution = 0; distribution < ICL_DISTRIBUTION_COUNT; distribution++)
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

/* Writes positive inputs if the kind needs them: a square root or logarithm of a negative number is NaN everywhere and
 * tests nothing. */
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
    /* This one exceeds the caches of large GPUs. */
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
    ICL_DESCRIBED(fill_timed, .call = call_fill, .truth = truth_elementwise, .cases = cases);
const icl_described_op icl_described_copy = ICL_DESCRIBED(copy_timed, .call = call_copy, .truth = truth_elementwise);
const icl_described_op icl_described_random_fill =
    ICL_DESCRIBED(random_timed, .call = call_random_fill, .truth = truth_random_fill);
const icl_described_op icl_described_unary =
    ICL_DESCRIBED(unary_timed, .call = call_unary, .truth = truth_elementwise, .inputs = unary_inputs);
const icl_described_op icl_described_binary =
    ICL_DESCRIBED(binary_timed, .call = call_binary, .truth = truth_elementwise);
const icl_described_op icl_described_scale_add =
    ICL_DESCRIBED(scale_add_timed, .call = call_scale_add, .truth = truth_elementwise, .flops = scale_add_flops);
