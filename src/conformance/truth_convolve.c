/*
 * Short convolutions, by the definition.
 *
 * A sum of m products in sequence, each rounded once: the first product passes through one rounding and m - 1
 * additions, the others through fewer: |error| <= gamma(m) sum |products| (Higham, section 3.1), m the number of taps
 * that there are. The kernel's gradient sums blocks of L = max(32, 2 width) tokens so: L roundings; then 32 sums at a
 * time, 31 roundings on each of ceil(log_32 P) levels, P = B ceil(T / L). No term can meet more than all others: with n
 * products in all, gamma(min(n, L + 31 ceil(log_32 P))) sum |products|.
 */
#include <math.h>

#include "conformance/cases.h"

/* A sum of products, its magnitude and its length. */
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

icl_status icl_truth_convolve(icl_truth *truth, icl_error *error) {
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

icl_status icl_truth_convolve_backward(icl_truth *truth, icl_error *error) {
    (void)error;
    if (truth->c->rank[D_IN] >= 0)
        input_gradient(truth);
    if (truth->c->rank[D_KERNEL] >= 0)
        kernel_gradient(truth);
    return ICL_OK;
}
