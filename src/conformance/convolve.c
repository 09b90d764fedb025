/*
 * Short convolutions, by the definition.
 *
 * For a sum of m products in sequence, each rounded once, the first product passes through one rounding and m - 1
 * additions, the others through fewer: |error| <= gamma(m) sum |products| (Higham, section 3.1), where m is the number
 * of taps within the sequence. The kernel's gradient sums blocks of L = max(32, 2 width) tokens in this way, with L
 * roundings; then 32 sums at a time, with 31 roundings on each of ceil(log_32 P) levels, P = B ceil(T / L). No term can
 * meet more than all others: with n products in all, gamma(min(n, L + 31 ceil(log_32 P))) sum |products|.
 */
#include <math.h>

#include "conformance/cases.h"

/* ---- The exact result ---- */

/* A sum of products, the sum of their magnitudes and their number. */
typedef struct products {
    long double sum;
    double magnitude;
    size_t count;
} products;

static void add_product(products *p, double a, double b) {
    p->sum += (long double)a * (long double)b;
    p->magnitude += fabs(a * b);
    p->count++;
}

static icl_status truth_convolve(icl_truth *truth, icl_error *error) {
    const icl_case *c = truth->c;
    const size_t tokens = c->shape[0][1], channels = c->shape[0][2], width = c->shape[2][0];
    (void)error;

    for (size_t i = 0; i < icl_case_count(c, 0); i++) {
        const size_t channel = i % channels, t = i / channels % tokens;
        products p = {0};
        for (size_t back = 0; back < width && back <= t; back++)
            add_product(&p, truth->operand[2][(width - 1 - back) * channels + channel],
                        truth->operand[1][i - back * channels]);
        truth->operand[0][i] = (double)p.sum;
        truth->bound[0][i] = icl_gamma((double)p.count, truth->unit) * p.magnitude;
    }
    return ICL_OK;
}

enum { D_IN = 0, D_KERNEL, D_OUT, IN, KERNEL };

static void input_gradient(icl_truth *truth) {
    const icl_case *c = truth->c;
    const size_t tokens = c->shape[IN][1], channels = c->shape[IN][2], width = c->shape[KERNEL][0];

    for (size_t i = 0; i < icl_case_count(c, D_IN); i++) {
        const size_t channel = i % channels, s = i / channels % tokens;
        products p = {0};
        for (size_t ahead = 0; ahead < width && s + ahead < tokens; ahead++)
            add_product(&p, truth->operand[KERNEL][(width - 1 - ahead) * channels + channel],
                        truth->operand[D_OUT][i + ahead * channels]);
        truth->operand[D_IN][i] = (double)p.sum;
        truth->bound[D_IN][i] = icl_gamma((double)p.count, truth->unit) * p.magnitude;
    }
}

static void kernel_gradient(icl_truth *truth) {
    const icl_case *c = truth->c;
    const size_t sequences = c->shape[IN][0], tokens = c->shape[IN][1], channels = c->shape[IN][2];
    const size_t width = c->shape[KERNEL][0], length = width > 16 ? 2 * width : 32;
    double levels = 0;

    for (size_t blocks = sequences * ((tokens + length - 1) / length); blocks > 1; blocks = (blocks + 31) / 32)
        levels++;
    for (size_t i = 0; i < icl_case_count(c, D_KERNEL); i++) {
        const size_t channel = i % channels, back = width - 1 - i / channels;
        products p = {0};
        for (size_t row = 0; row < sequences * tokens; row++)
            if (row % tokens >= back)
                add_product(&p, truth->operand[D_OUT][row * channels + channel],
                            truth->operand[IN][(row - back) * channels + channel]);
        truth->operand[D_KERNEL][i] = (double)p.sum;
        truth->bound[D_KERNEL][i] =
            icl_gamma(fmin((double)p.count, (double)length + 31 * levels), truth->unit) * p.magnitude;
    }
}

static icl_status truth_convolve_backward(icl_truth *truth, icl_error *error) {
    (void)error;
    if (truth->c->rank[D_IN] >= 0)
        input_gradient(truth);
    if (truth->c->rank[D_KERNEL] >= 0)
        kernel_gradient(truth);
    return ICL_OK;
}

/* ---- Cases ---- */

/* {B, T, c, width}: sequences shorter than the filter, of one block of tokens and of several; filters of one tap and of
 * many; each number of taps that kernels unroll; channels that fill the lanes and that do not; empty operands. */
static const size_t all_sizes[][4] = {
    {1, 1, 1, 1},   {3, 2, 5, 4},   {2, 33, 17, 1}, {2, 64, 33, 2}, {3, 65, 70, 3}, {2, 31, 129, 4}, {1, 200, 8, 5},
    {5, 97, 16, 4}, {2, 50, 3, 40}, {2, 0, 5, 3},   {0, 4, 5, 3},   {2, 7, 0, 3},   {2, 7, 5, 0},    {41, 33, 7, 3},
};

static void forward_cases(icl_case_list *list) {
    static const icl_values values[] = {ICL_VALUES_INTEGERS, ICL_VALUES_RANDOM, ICL_VALUES_SPECIAL,
                                        ICL_VALUES_CANCELLING};
    for (size_t s = 0; s < sizeof all_sizes / sizeof *all_sizes; s++)
        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
            const size_t *size = all_sizes[s];
            icl_case c = {.op = ICL_OP_convolve, .values = values[v]};
            icl_case_set_shape(&c, 0, 3, size[0], size[1], size[2], 0);
            icl_case_set_shape(&c, 1, 3, size[0], size[1], size[2], 0);
            icl_case_set_shape(&c, 2, 2, size[3], size[2], 0, 0);
            icl_cases_add(list, c, "convolve");
        }
}

/* Adds a case. missing: 1 + the output that is not wanted, or 0. */
static void add_backward(icl_case_list *list, const size_t size[4], icl_values values, int missing) {
    static const char *const titles[] = {"convolve_backward", "convolve_backward kernel", "convolve_backward input"};
    icl_case c = {.op = ICL_OP_convolve_backward, .values = values};

    for (int i = D_IN; i <= KERNEL; i++) {
        if (i == D_KERNEL || i == KERNEL)
            icl_case_set_shape(&c, i, i + 1 == missing ? -1 : 2, size[3], size[2], 0, 0);
        else
            icl_case_set_shape(&c, i, i + 1 == missing ? -1 : 3, size[0], size[1], size[2], 0);
    }
    icl_cases_add(list, c, titles[missing]);
}

static void backward_cases(icl_case_list *list) {
    static const icl_values values[] = {ICL_VALUES_INTEGERS, ICL_VALUES_RANDOM, ICL_VALUES_SPECIAL, ICL_VALUES_LARGE};
    static const size_t long_sum[4] = {33, 2001, 1, 1};

    for (size_t s = 0; s < sizeof all_sizes / sizeof *all_sizes; s++)
        for (size_t v = 0; v < sizeof values / sizeof *values; v++)
            add_backward(list, all_sizes[s], values[v], 0);
    add_backward(list, long_sum, ICL_VALUES_ABSORBED, 0);
    for (size_t s = 0; s < sizeof all_sizes / sizeof *all_sizes; s++)
        add_backward(list, all_sizes[s], ICL_VALUES_RANDOM, 1);
    for (size_t s = 0; s < sizeof all_sizes / sizeof *all_sizes; s++)
        add_backward(list, all_sizes[s], ICL_VALUES_RANDOM, 2);
}

/* Writes the inputs without the largest numbers, because a sum that overflows on the way is NaN on one device and
 * infinite on another. Of absorbed values one factor is 1, so that the sums have the other factor's terms. */
static void inputs(const icl_case *c, int operand, float *const *operands) {
    const size_t count = icl_case_count(c, operand);

    icl_case_values(c, operand, false, operands[operand]);
    icl_case_without_largest(count, operands[operand]);
    if (c->op == ICL_OP_convolve_backward && c->values == ICL_VALUES_ABSORBED && operand != IN)
        for (size_t i = 0; i < count; i++)
            operands[operand][i] = 1;
}

ICL_CASE_CALL(convolve, icl_convolve(on, t[0], t[1], t[2], error))
ICL_CASE_CALL(convolve_backward, icl_convolve_backward(on, t[D_IN], t[D_KERNEL], t[D_OUT], t[IN], t[KERNEL], error))

static double forward_flops(const icl_case *c) {
    return 2 * (double)(icl_case_count(c, 0) * c->shape[2][0]);
}

static double backward_flops(const icl_case *c) {
    return 4 * (double)(icl_case_count(c, IN) * c->shape[KERNEL][0]);
}

#define TOKENS ICL_AXES3(64, 256, 128)
#define FILTER ICL_AXES2(4, 128)

static const icl_timed_shape forward_timed[] = {{"convolve 4 (64x256x128)", {0}, {TOKENS, TOKENS, FILTER}}};
static const icl_timed_shape backward_timed[] = {
    {"convolve_backward 4 (64x256x128)", {0}, {TOKENS, FILTER, TOKENS, TOKENS, FILTER}}};

const icl_described_op icl_described_convolve =
    ICL_DESCRIBED(forward_timed, .call = call_convolve, .truth = truth_convolve, .cases = forward_cases,
                  .inputs = inputs, .flops = forward_flops);
const icl_described_op icl_described_convolve_backward =
    ICL_DESCRIBED(backward_timed, .call = call_convolve_backward, .truth = truth_convolve_backward,
                  .cases = backward_cases, .inputs = inputs, .flops = backward_flops);
