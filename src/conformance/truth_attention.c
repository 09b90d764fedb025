/*
 * Attention.
 *
 * Linear: every term of an output is a product of three factors and a scale, and passes, in whatever order the sums are
 * taken, through at most d + keys + 4 roundings; so |error| <= gamma(d + keys + 4) |scale| sum |q| |k| |v| (e or
 * queries in the place of d or keys for the gradients: those of all heads that share keys).
 *
 * Softmax: the score s_ij has error D_i = gamma(d + 2) |scale| max_j |q_i|.|k_j|. A weight exp(s_ij - m_i) then has
 * relative error w_i <= exp(D_i + u R_i) - 1 + 6u, R_i the range of scores (the subtraction rounds, exp is good to 3
 * ulp); an online pass may rescale it once per key at 7u + u R_i each. The maximum cancels between numerator and
 * denominator. The backward pass uses P_ij = exp(s_ij - log_sum_exp_i) and D_i = d_out_i . out_i from what it is given,
 * or sums that differ from these by the rounding of what it is given. Passes that take the keys in blocks, or that fuse
 * a product with a sum, rescale and round less often than this allows. A weight below the smallest normal number may be
 * flushed to 0 (OpenCL 1.2, section 7.2): an absolute error of that size, times what the weight multiplies. So may the
 * backward pass's slopes, on the way to them, and each product that it sums.
 */
#include <float.h>
#include <math.h>

#include "conformance/cases.h"
#include "core/allocate.h"

typedef struct sizes {
    size_t heads, queries, keys, d, e;
    size_t readers; /* of a key: queries of all heads that read its group */
    double scale, unit;
    icl_attention_kind kind;
    icl_attention_mask mask;
} sizes;

/* The largest number that a device of this precision may flush. */
static double flushed(const sizes *is) {
    return is->unit < (double)FLT_EPSILON / 4 ? DBL_MIN : (double)FLT_MIN;
}

static bool attends(const sizes *is, size_t i, size_t j) {
    if (is->mask == ICL_MASK_QUERY_EXCLUDED)
        return j + 1 < is->keys;
    return is->mask != ICL_MASK_CAUSAL || j + is->queries <= i + is->keys;
}

static double dot(const double *x, const double *y, size_t n, double *magnitude) {
    double sum = 0, absolute = 0;
    for (size_t i = 0; i < n; i++) {
        sum += x[i] * y[i];
        absolute += fabs(x[i] * y[i]);
    }
    if (magnitude)
        *magnitude = absolute;
    return sum;
}

/* x += a y */
static void add_scaled(double *x, double a, const double *y, size_t n) {
    for (size_t i = 0; i < n; i++)
        x[i] += a * y[i];
}

static void add_scaled_magnitude(double *x, double a, const double *y, size_t n) {
    for (size_t i = 0; i < n; i++)
        x[i] += fabs(a * y[i]);
}

/* bound += |a y| + lost: of a product that may be flushed itself. */
static void add_product_bound(double *bound, double a, const double *y, size_t n, double lost) {
    for (size_t i = 0; i < n; i++)
        bound[i] += fabs(a * y[i]) + lost;
}

static void multiply(double *x, double a, size_t n) {
    for (size_t i = 0; i < n; i++)
        x[i] *= a;
}

static void clear(double *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        x[i] = 0;
}

/* ---- Linear ---- */

static void linear_forward_row(const sizes *is, size_t i, const double *q, const double *k, const double *v,
                               double *out, double *bound) {
    clear(out, is->e);
    clear(bound, is->e);
    for (size_t j = 0; j < is->keys; j++) {
        double magnitude;
        const double score = is->scale * dot(q, k + j * is->d, is->d, &magnitude);
        if (!attends(is, i, j))
            continue;
        add_scaled(out, score, v + j * is->e, is->e);
        add_scaled_magnitude(bound, is->scale * magnitude, v + j * is->e, is->e);
    }
    multiply(bound, icl_gamma((double)(is->d + is->keys) + 4, is->unit), is->e);
}

/* One sequence: x[0..2] d_q, d_k, d_v, b their bounds; d_out, q, k, v. */
static void linear_backward(const sizes *is, double *const x[3], double *const b[3], const double *d_out,
                            const double *q, const double *k, const double *v) {
    const size_t d = is->d, e = is->e;
    for (size_t i = 0; i < is->queries; i++)
        for (size_t j = 0; j < is->keys; j++) {
            double score_size, gain_size;
            const double score = is->scale * dot(q + i * d, k + j * d, d, &score_size);
            const double gain = is->scale * dot(d_out + i * e, v + j * e, e, &gain_size);
            if (!attends(is, i, j))
                continue;
            score_size *= is->scale * icl_gamma((double)(d + is->readers) + 4, is->unit);
            add_scaled(x[0] + i * d, gain, k + j * d, d);
            add_scaled_magnitude(b[0] + i * d, is->scale * gain_size * icl_gamma((double)(e + is->keys) + 4, is->unit),
                                 k + j * d, d);
            add_scaled(x[1] + j * d, gain, q + i * d, d);
            add_scaled_magnitude(
                b[1] + j * d, is->scale * gain_size * icl_gamma((double)(e + is->readers) + 4, is->unit), q + i * d, d);
            add_scaled(x[2] + j * e, score, d_out + i * e, e);
            add_scaled_magnitude(b[2] + j * e, score_size, d_out + i * e, e);
        }
}

/* ---- Softmax ---- */

/* The scores of one query, their maximum, range, and error bound D_i. Returns how many keys are attended to. */
static size_t score_row(const sizes *is, size_t i, const double *q, const double *k, double *scores, double *max,
                        double *range, double *score_bound) {
    double largest = -(double)INFINITY, smallest = (double)INFINITY, size = 0;
    size_t attended = 0;
    for (size_t j = 0; j < is->keys; j++) {
        double magnitude;
        scores[j] = is->scale * dot(q, k + j * is->d, is->d, &magnitude);
        if (!attends(is, i, j))
            continue;
        attended++;
        largest = fmax(largest, scores[j]);
        smallest = fmin(smallest, scores[j]);
        size = fmax(size, magnitude);
    }
    *max = largest;
    *range = attended ? largest - smallest : 0;
    *score_bound = icl_gamma((double)is->d + 2, is->unit) * fabs(is->scale) * size;
    return attended;
}

static void softmax_forward_row(const sizes *is, size_t i, const double *q, const double *k, const double *v,
                                double *scores, double *out, double *bound, double *lse, double *lse_bound) {
    const double u = is->unit;
    double max, range, score_bound, sum = 0;
    const size_t attended = score_row(is, i, q, k, scores, &max, &range, &score_bound);

    clear(out, is->e);
    clear(bound, is->e);
    *lse = -(double)INFINITY;
    *lse_bound = 0;
    if (attended == 0)
        return;
    const double wide = range + 2 * score_bound;
    const double weight = expm1(score_bound + u * wide) + 6 * u + (double)attended * (7 * u + u * wide);
    const double sums = weight + icl_gamma((double)attended + 2, u);
    for (size_t j = 0; j < is->keys; j++)
        if (attends(is, i, j))
            sum += exp(scores[j] - max);
    for (size_t j = 0; j < is->keys; j++) {
        const double p = attends(is, i, j) ? exp(scores[j] - max) / sum : 0;
        add_scaled(out, p, v + j * is->e, is->e);
        add_scaled_magnitude(bound, p, v + j * is->e, is->e);
    }
    /* Numerator and denominator, each off by at most `sums`, and one division. */
    multiply(bound, 2 * sums / (1 - sums) + 5 * u, is->e);
    for (size_t j = 0; j < is->keys; j++)
        if (attends(is, i, j))
            add_scaled_magnitude(bound, flushed(is), v + j * is->e, is->e);
    /* log: the sum's relative error, 3 ulp of the logarithm; max is off by D_i; the last sum rounds. */
    *lse = max + log(sum);
    *lse_bound = score_bound + sums / (1 - sums) + 6 * u * fabs(log(sum)) + u * (fabs(*lse) + fabs(max));
}

/* One sequence. operands: d_out, out, lse, q, k, v. */
static void softmax_backward(const sizes *is, double *const x[3], double *const b[3], const double *const operands[6],
                             double *scores) {
    const size_t d = is->d, e = is->e;
    const double u = is->unit, *d_out = operands[0], *out = operands[1], *lse = operands[2];
    const double *q = operands[3], *k = operands[4], *v = operands[5];

    for (size_t i = 0; i < is->queries; i++) {
        double max, range, score_bound, row_size;
        if (score_row(is, i, q + i * d, k, scores, &max, &range, &score_bound) == 0)
            continue;
        const double row = dot(d_out + i * e, out + i * e, e, &row_size);
        for (size_t j = 0; j < is->keys; j++) {
            double gain_size;
            if (!attends(is, i, j))
                continue;
            const double gain = dot(d_out + i * e, v + j * e, e, &gain_size);
            const double p = exp(scores[j] - lse[i]);
            /* The given log_sum_exp and out are rounded: u |lse|, u |out|; a device may use either form
             * of the row term. */
            const double p_error = expm1(score_bound + 2 * u * (fabs(scores[j]) + fabs(lse[i]))) + 6 * u;
            const double row_error =
                icl_gamma((double)e + 2, u) * row_size + (p_error + icl_gamma((double)is->keys + 2, u)) * row_size;
            const double slope = is->scale * p * (gain - row);
            const double slope_error =
                fabs(is->scale) *
                    (p * ((p_error + 4 * u) * fabs(gain - row) + icl_gamma((double)e + 1, u) * gain_size + row_error) +
                     flushed(is) * (fabs(gain - row) + 1)) +
                flushed(is);
            const double over_keys = icl_gamma((double)is->keys + 2, u),
                         over_queries = icl_gamma((double)is->readers + 2, u);
            const double lost = flushed(is) * (1 + fabs(is->scale)); /* before or after the scale */
            add_scaled(x[0] + i * d, slope, k + j * d, d);
            add_product_bound(b[0] + i * d, 1.01 * slope_error + over_keys * fabs(slope), k + j * d, d, lost);
            add_scaled(x[1] + j * d, slope, q + i * d, d);
            add_product_bound(b[1] + j * d, 1.01 * slope_error + over_queries * fabs(slope), q + i * d, d, lost);
            add_scaled(x[2] + j * e, p, d_out + i * e, e);
            add_product_bound(b[2] + j * e, p * (1.01 * p_error + over_queries) + flushed(is), d_out + i * e, e,
                              flushed(is));
        }
    }
}

/* ---- Whole operands ---- */

/* The start of one sequence of an operand, which may have a batch of 1 for all, and a head for several of the queries'.
 * */
static double *sequence(const icl_truth *truth, const sizes *is, double *values, int operand, size_t batch,
                        size_t head) {
    const size_t *shape = truth->c->shape[operand];
    const int rank = truth->c->rank[operand];
    if (!values || rank < 0)
        return NULL;
    const size_t heads = rank == 4 ? shape[1] : 1, mine = head / (is->heads / heads);
    return values + ((shape[0] == 1 ? 0 : batch) * heads + mine) * shape[rank - 2] * shape[rank - 1];
}

static void forward_sequence(icl_truth *truth, const sizes *is, double *scores, size_t s, size_t head) {
    double *const *x = truth->operand;
    const double *k = sequence(truth, is, x[3], 3, s, head), *v = sequence(truth, is, x[4], 4, s, head);

    for (size_t i = 0; i < is->queries; i++) {
        const double *q = sequence(truth, is, x[2], 2, s, head) + i * is->d;
        const size_t row = (s * is->heads + head) * is->queries + i;
        double *out = x[0] + row * is->e, *bound = truth->bound[0] + row * is->e;
        if (is->kind == ICL_ATTENTION_LINEAR)
            linear_forward_row(is, i, q, k, v, out, bound);
        else
            softmax_forward_row(is, i, q, k, v, scores, out, bound, x[1] + row, truth->bound[1] + row);
    }
}

static void backward_sequence(icl_truth *truth, const sizes *is, double *scores, size_t s, size_t head) {
    double *x[3], *b[3];
    const double *inputs[6];

    for (int i = 0; i < 3; i++) {
        x[i] = sequence(truth, is, truth->operand[i], i, s, head);
        b[i] = sequence(truth, is, truth->bound[i], i, s, head);
    }
    for (int i = 0; i < 6; i++)
        inputs[i] = sequence(truth, is, truth->operand[3 + i], 3 + i, s, head);
    if (is->kind == ICL_ATTENTION_LINEAR)
        linear_backward(is, x, b, inputs[0], inputs[3], inputs[4], inputs[5]);
    else
        softmax_backward(is, x, b, inputs, scores);
}

icl_status icl_truth_attention(icl_truth *truth, icl_error *error) {
    const icl_case *c = truth->c;
    const bool is_forward = c->op == ICL_OP_attention_forward;
    const int q = is_forward ? 2 : 6;
    const icl_attention_params *params = &c->params.attention;
    const int rank = c->rank[q];
    const size_t heads = rank == 4 ? c->shape[q][1] : 1, groups = rank == 4 ? c->shape[q + 1][1] : 1;
    const sizes is = {
        .heads = heads,
        .queries = c->shape[q][rank - 2],
        .readers = c->shape[q][rank - 2] * (heads / groups),
        .keys = c->shape[q + 1][rank - 2],
        .d = c->shape[q][rank - 1],
        .e = c->shape[q + 2][rank - 1],
        .scale = icl_device_rounded(truth, params->scale),
        .unit = truth->unit,
        .kind = params->kind,
        .mask = params->mask,
    };
    double *scores = NULL;

    ICL_CHECK(icl_allocate(is.keys, sizeof *scores, "attention truth", &scores, error));
    for (int i = 0; i < 3 && !is_forward; i++) {
        clear(truth->operand[i], icl_case_count(c, i));
        clear(truth->bound[i], icl_case_count(c, i));
    }
    for (size_t s = 0; s < c->shape[0][0]; s++)
        for (size_t head = 0; head < heads; head++)
            if (is_forward)
                forward_sequence(truth, &is, scores, s, head);
            else
                backward_sequence(truth, &is, scores, s, head);
    icl_free(&scores);
    return ICL_OK;
}

icl_status icl_truth_forward_results(const icl_case *c, int wanted, float *const *operands, icl_error *error) {
    icl_case forward = {.op = ICL_OP_attention_forward, .params = c->params};
    icl_truth truth = {.c = &forward, .unit = DBL_EPSILON / 2};
    const int from[5] = {4, 5, 6, 7, 8};
    icl_status status = ICL_OK;

    for (int i = 0; i < 5; i++) {
        forward.rank[i] = c->rank[from[i]];
        for (int axis = 0; axis < ICL_MAX_RANK; axis++)
            forward.shape[i][axis] = c->shape[from[i]][axis];
        const size_t count = icl_case_count(&forward, i);
        ICL_TRY(icl_allocate(count, sizeof(double), "forward results", &truth.operand[i], error));
        if (i < 2)
            ICL_TRY(icl_allocate(count, sizeof(double), "forward results", &truth.bound[i], error));
        for (size_t k = 0; i >= 2 && k < count; k++)
            truth.operand[i][k] = (double)operands[from[i]][k];
    }
    ICL_TRY(icl_truth_attention(&truth, error));
    for (size_t k = 0; k < icl_case_count(c, wanted); k++)
        operands[wanted][k] = (float)truth.operand[wanted - 4][k];
done:
    for (int i = 0; i < 5; i++) {
        icl_free(&truth.operand[i]);
        icl_free(&truth.bound[i]);
    }
    return status;
}
