/*
 * Matrix products.
 *
 * An inner product of k terms in any order has |error| <= gamma(k) |a|.|b| (Higham, section 3.1); scaling by alpha,
 * scaling the old value by beta and the last sum add three roundings. With small integers and scales that are powers of
 * two every intermediate result is exact, and so must the result be. The strict product has no freedom at all, so its
 * truth is computed in float.
 *
 * With bfloat16 the product is that of the rounded operands, to which the same bound applies: products of two numbers
 * of 8 digits are exact, and a pair that is padded adds 0. The instructions of AVX-512 also flush subnormal results to
 * 0, wherever in the sum: each of the k products and k sums loses at most the smallest normal number. A tile of AMX
 * sums at most 16 products of firsts, and of seconds, adds the two sums, and adds theirs to that of the tiles before: a
 * product passes through min(k, 32) / 2 - 1 + 1 + k / 32 - 1 roundings, quotients rounded up, which is at most k, and
 * what is flushed are k sums and 2 for each tile, at most 2 k.
 */
#include <float.h>
#include <math.h>

#include "conformance/cases.h"

/* ---- The exact result ---- */

/* Returns the matrix of a broadcast operand that corresponds to matrix number `batch` of out. */
static const double *matrix(const icl_truth *truth, int operand, size_t batch) {
    const icl_case *c = truth->c;
    const int rank = c->rank[operand];
    size_t position = 0, stride = c->shape[operand][rank - 2] * c->shape[operand][rank - 1];

    for (int axis = c->rank[0] - 3, own = rank - 3; own >= 0; axis--, own--) {
        const size_t coordinate = batch % c->shape[0][axis];
        batch /= c->shape[0][axis];
        if (c->shape[operand][own] != 1)
            position += coordinate * stride;
        stride *= c->shape[operand][own];
    }
    return truth->operand[operand] + position;
}

static double strict_element(const double *a, const double *b, size_t k, size_t n) {
    volatile float sum = 0;
    for (size_t l = 0; l < k; l++) {
        const volatile float product = (float)a[l] * (float)b[l * n];
        sum = l == 0 ? product : sum + product;
    }
    return (double)sum;
}

static icl_status truth_matmul(icl_truth *truth, icl_error *error) {
    const icl_case *c = truth->c;
    const size_t m = c->shape[0][c->rank[0] - 2], n = c->shape[0][c->rank[0] - 1];
    const size_t k = c->shape[1][c->rank[1] - 1], count = icl_case_count(c, 0);
    const bool strict = c->op == ICL_OP_matmul_strict, exact = c->values == ICL_VALUES_INTEGERS;
    const double alpha = strict ? 1 : icl_device_rounded(truth, c->params.matmul.alpha);
    const double beta = strict ? 0 : icl_device_rounded(truth, c->params.matmul.beta);
    const bool is_bf16 = !strict && truth->precision == ICL_PRECISION_BF16;
    const double lost = is_bf16 && truth->unit > DBL_EPSILON ? 2 * (double)k * (double)FLT_MIN : 0;
    (void)error;

    for (int i = 1; i <= 2 && is_bf16; i++)
        icl_round_to_bf16(truth->operand[i], icl_case_count(c, i));
    for (size_t i = 0; i < count; i++) {
        const double *a = matrix(truth, 1, i / (m * n)) + i / n % m * k;
        const double *b = matrix(truth, 2, i / (m * n)) + i % n;
        const double old = beta == 0 ? 0 : beta * truth->operand[0][i];
        long double sum = 0; /* wider if the platform has it, so that "ref" can be judged too */
        double magnitude = 0;
        for (size_t l = 0; l < k; l++) {
            sum += (long double)a[l] * (long double)b[l * n];
            magnitude += fabs(a[l] * b[l * n]);
        }
        truth->operand[0][i] =
            strict ? strict_element(a, b, k, n) : (double)((long double)alpha * sum + (long double)old);
        truth->bound[0][i] = strict || exact
                                 ? 0
                                 : fabs(alpha) * (icl_gamma((double)k + 3, truth->unit) * magnitude + lost) +
                                       icl_gamma(3, truth->unit) * fabs(old);
    }
    return ICL_OK;
}

/* ---- Cases ---- */

/* The products are ragged, skinny, empty and batched, also with operands that the batch shares. */

/* Adds out [batch, m, n] = a [a_batch, m, k] b [b_batch, k, n]; a batch of 0 leaves the axis out. */
static void add_product(icl_case_list *list, const size_t s[6], double alpha, double beta, icl_values values,
                        bool strict) {
    icl_case c = {.op = strict ? ICL_OP_matmul_strict : ICL_OP_matmul, .values = values};
    const size_t batch = s[0], m = s[1], k = s[2], n = s[3], a_batch = s[4], b_batch = s[5];

    c.params.matmul = (icl_matmul_params){alpha, beta};
    if (batch)
        icl_case_set_shape(&c, 0, 3, batch, m, n, 0);
    else
        icl_case_set_shape(&c, 0, 2, m, n, 0, 0);
    if (a_batch)
        icl_case_set_shape(&c, 1, 3, a_batch, m, k, 0);
    else
        icl_case_set_shape(&c, 1, 2, m, k, 0, 0);
    if (b_batch)
        icl_case_set_shape(&c, 2, 3, b_batch, k, n, 0);
    else
        icl_case_set_shape(&c, 2, 2, k, n, 0, 0);
    icl_cases_add(list, c, strict ? "matmul_strict" : beta != 0 ? "matmul beta" : "matmul");
}

static void cases(icl_case_list *list) {
    static const size_t shapes[][6] = {
        {0, 1, 1, 1, 0, 0},        {0, 7, 33, 5, 0, 0},      {0, 33, 7, 257, 0, 0},    {0, 64, 64, 64, 0, 0},
        {0, 255, 257, 33, 0, 0},   {0, 1, 512, 257, 0, 0},   {0, 257, 512, 1, 0, 0},   {0, 11, 5003, 11, 0, 0},
        {0, 3, 515, 2, 0, 0},      {0, 5003, 11, 11, 0, 0},  {0, 5, 0, 7, 0, 0},       {0, 0, 5, 7, 0, 0},
        {19, 21, 11, 11, 19, 0},   {19, 11, 20, 11, 19, 19}, {19, 21, 11, 1, 19, 19},  {5, 7, 9, 6, 0, 5},
        {5, 1, 1, 1, 5, 5},        {4, 33, 40, 17, 1, 4},    {0, 128, 128, 128, 0, 0}, {3, 17, 16, 16, 3, 1},
        {22, 65, 18, 130, 22, 22}, {0, 3, 5, 67, 0, 0},      {0, 3, 5, 1100, 0, 0},    {0, 2, 7, 1100, 0, 0},
        {19, 1, 40, 24, 19, 0},
    };
    static const icl_values values[] = {ICL_VALUES_RANDOM, ICL_VALUES_CANCELLING, ICL_VALUES_LARGE, ICL_VALUES_SMALL};
    const size_t count = sizeof shapes / sizeof *shapes;
    for (size_t s = 0; s < count; s++) {
        add_product(list, shapes[s], 1, 0, ICL_VALUES_INTEGERS, false);
        add_product(list, shapes[s], 1, 0, values[s % 4], false);
    }
    for (size_t s = 0; s < count; s++)
        add_product(list, shapes[s], 1, 0, ICL_VALUES_RANDOM, true);
    for (size_t s = 0; s < count; s++) {
        add_product(list, shapes[s], 2, -0.5, ICL_VALUES_INTEGERS, false);
        add_product(list, shapes[s], -0.3, 0.9, ICL_VALUES_RANDOM, false);
    }
    icl_case four = {.op = ICL_OP_matmul, .params = {.matmul = {1, 1}}};
    icl_case_set_shape(&four, 0, 4, 3, 4, 5, 6);
    icl_case_set_shape(&four, 1, 4, 3, 1, 5, 9);
    icl_case_set_shape(&four, 2, 3, 4, 9, 6, 0);
    icl_cases_add(list, four, "matmul beta");
}

ICL_CASE_CALL(matmul, icl_matmul(on, t[0], c->params.matmul.alpha, t[1], t[2], c->params.matmul.beta, error))
ICL_CASE_CALL(matmul_strict, icl_matmul_strict(on, t[0], t[1], t[2], error))

static bool is_updated(const icl_case *c, int output) {
    return output == 0 && c->params.matmul.beta != 0;
}

/* 2 m n k a batch. */
static double flops(const icl_case *c) {
    return 2 * (double)icl_case_count(c, 0) * (double)c->shape[1][c->rank[1] - 1];
}

static const icl_timed_shape matmul_timed[] = {
    {"matmul (1024x1024)(1024x1024)",
     {.matmul = {1, 0}},
     {ICL_AXES2(1024, 1024), ICL_AXES2(1024, 1024), ICL_AXES2(1024, 1024)}},
    /* A feed-forward layer of a sequence model, and products of its two gradients' shapes. */
    {"matmul (8192x256)(256x1024)",
     {.matmul = {1, 0}},
     {ICL_AXES2(8192, 1024), ICL_AXES2(8192, 256), ICL_AXES2(256, 1024)},
     .is_long = true},
    {"matmul (8192x1024)(1024x256)",
     {.matmul = {1, 0}},
     {ICL_AXES2(8192, 256), ICL_AXES2(8192, 1024), ICL_AXES2(1024, 256)},
     .is_long = true},
    {"matmul (256x8192)(8192x1024)",
     {.matmul = {1, 0}},
     {ICL_AXES2(256, 1024), ICL_AXES2(256, 8192), ICL_AXES2(8192, 1024)},
     .is_long = true},
    {"matmul batch 2048 (21x21)(21x21)", {.matmul = {1, 0}}, {ICL_SEQUENCES, ICL_SEQUENCES, ICL_SEQUENCES}},
    {"matmul (43008x21)(21x21)", {.matmul = {1, 0}}, {ICL_AXES2(43008, 21), ICL_AXES2(43008, 21), ICL_AXES2(21, 21)}},
    {"matmul (21x43008)(43008x21)",
     {.matmul = {1, 0}},
     {ICL_AXES2(21, 21), ICL_AXES2(21, 43008), ICL_AXES2(43008, 21)}},
};
static const icl_timed_shape strict_timed[] = {
    {"matmul_strict batch 2048 (20x20)(20x1)",
     {0},
     {ICL_AXES3(ICL_BATCH, 20, 1), ICL_AXES3(ICL_BATCH, 20, 20), ICL_AXES3(ICL_BATCH, 20, 1)}},
};

const icl_described_op icl_described_matmul = ICL_DESCRIBED(matmul_timed, .call = call_matmul, .truth = truth_matmul,
                                                            .cases = cases, .is_updated = is_updated, .flops = flops);
const icl_described_op icl_described_matmul_strict =
    ICL_DESCRIBED(strict_timed, .call = call_matmul_strict, .truth = truth_matmul, .flops = flops);
