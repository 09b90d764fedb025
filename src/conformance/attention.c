/*
 * Attention.
 *
 * Linear: every term of an output is a product of three factors and a scale. In whatever order the sums are taken, it
 * passes through at most d + keys + 4 roundings; so |error| <= gamma(d + keys + 4) |scale| sum |q| |k| |v|. For the
 * gradients e replaces d, or queries replaces keys: the queries of all heads that share keys.
 *
 * Softmax: the score s_ij has error D_i = gamma(d + 2) |scale| max_j |q_i|.|k_j|. A weight exp(s_ij - m_i) then has
 * relative error w_i <= exp(D_i + u R_i) - 1 + 6u, R_i the range of scores (the subtraction rounds, exp is good to 3
 * ulp); an online pass may rescale it once per key at 7u + u R_i each. The maximum cancels between numerator and
 * denominator. The backward pass uses P_ij = exp(s_ij - log_sum_exp_i) and D_i = d_out_i . out_i from the operands that
 * it is given, or sums that differ from these by the rounding of the operands. Passes that take the keys in blocks, or
 * that fuse a product with a sum, rescale and round less often than this allows. A weight below the smallest normal
 * number may be flushed to 0 (OpenCL 1.2, section 7.2): an absolute error of that size, times the factor of the weight.
 * The same holds for the backward pass's slopes, for the products that make them, and for each product that it sums.
 *
 * With bfloat16 softmax attention is that of rounded q, k, v and, but for D_i, a rounded d_out. Products of two rounded
 * numbers are exact, so that the bounds above hold for sums of them. Each weight rounds once more, by at most 2^-8 of
 * itself, before it meets v or d_out, and each slope before it meets q or k; what is below the smallest normal float
 * becomes 0. The instructions flush such products and sums, too.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "conformance/cases.h"
#include "core/allocate.h"

/* ---- The exact result ---- */

typedef struct sizes {
    size_t heads, queries, keys, d, e;
    size_t readers; /* the queries of all heads that read one key */
    double scale, unit;
    icl_attention_kind kind;
    icl_attention_mask mask;
    size_t window;   /* 0: none */
    double rounding; /* of a weight or a slope that meets a vector: 2^-8 for bfloat16, else 0 */
} sizes;

/* Returns the largest number that a device of this precision may flush. */
static double flushed(const sizes *size) {
    return size->unit < (double)FLT_EPSILON / 4 && size->rounding == 0 ? DBL_MIN : (double)FLT_MIN;
}

/* Returns what a sum of n products of bfloat16 may lose, a product and a sum each. */
static double lost_of(const sizes *size, size_t n) {
    return size->rounding > 0 ? 2 * (double)n * (double)FLT_MIN : 0;
}

static bool attends(const sizes *size, size_t i, size_t j) {
    if (size->mask == ICL_MASK_QUERY_EXCLUDED)
        return j + 1 < size->keys;
    if (size->window > 0 && j + size->queries + size->window <= i + size->keys)
        return false;
    return size->mask != ICL_MASK_CAUSAL || j + size->queries <= i + size->keys;
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

/* bound += |a y| + lost: for a product that may be flushed itself. */
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

static void linear_forward_row(const sizes *size, size_t i, const double *q, const double *k, const double *v,
                               double *out, double *bound) {
    clear(out, size->e);
    clear(bound, size->e);
    for (size_t j = 0; j < size->keys; j++) {
        double magnitude;
        const double score = size->scale * dot(q, k + j * size->d, size->d, &magnitude);
        if (!attends(size, i, j))
            continue;
        add_scaled(out, score, v + j * size->e, size->e);
        add_scaled_magnitude(bound, size->scale * magnitude, v + j * size->e, size->e);
    }
    multiply(bound, icl_gamma((double)(size->d + size->keys) + 4, size->unit), size->e);
}

/* Runs one sequence. x [0..2]: d_q, d_k, d_v; b: their bounds. */
static void linear_backward(const sizes *size, double *const x[3], double *const b[3], const double *d_out,
                            const double *q, const double *k, const double *v) {
    const size_t d = size->d, e = size->e;
    for (size_t i = 0; i < size->queries; i++)
        for (size_t j = 0; j < size->keys; j++) {
            double score_size, gain_size;
            const double score = size->scale * dot(q + i * d, k + j * d, d, &score_size);
            const double gain = size->scale * dot(d_out + i * e, v + j * e, e, &gain_size);
            if (!attends(size, i, j))
                continue;
            score_size *= size->scale * icl_gamma((double)(d + size->readers) + 4, size->unit);
            add_scaled(x[0] + i * d, gain, k + j * d, d);
            add_scaled_magnitude(b[0] + i * d,
                                 size->scale * gain_size * icl_gamma((double)(e + size->keys) + 4, size->unit),
                                 k + j * d, d);
            add_scaled(x[1] + j * d, gain, q + i * d, d);
            add_scaled_magnitude(b[1] + j * d,
                                 size->scale * gain_size * icl_gamma((double)(e + size->readers) + 4, size->unit),
                                 q + i * d, d);
            add_scaled(x[2] + j * e, score, d_out + i * e, e);
            add_scaled_magnitude(b[2] + j * e, score_size, d_out + i * e, e);
        }
}

/* ---- Softmax ---- */

/* Computes the scores of one query, their maximum, range, and error bound D_i. Returns how many keys are attended
 * to. */
static size_t score_row(const sizes *size, size_t i, const double *q, const double *k, double *scores, double *max,
                        double *range, double *score_bound) {
    double largest = -(double)INFINITY, smallest = (double)INFINITY, most = 0;
    size_t attended = 0;
    for (size_t j = 0; j < size->keys; j++) {
        double magnitude;
        scores[j] = size->scale * dot(q, k + j * size->d, size->d, &magnitude);
        if (!attends(size, i, j))
            continue;
        attended++;
        largest = fmax(largest, scores[j]);
        smallest = fmin(smallest, scores[j]);
        most = fmax(most, magnitude);
    }
    *max = largest;
    *range = attended ? largest - smallest : 0;
    *score_bound = fabs(size->scale) * (icl_gamma((double)size->d + 2, size->unit) * most + lost_of(size, size->d));
    return attended;
}

static void softmax_forward_row(const sizes *size, size_t i, const double *q, const double *k, const double *v,
                                double *scores, double *out, double *bound, double *lse, double *lse_bound) {
    const double u = size->unit;
    double max, range, score_bound, sum = 0;
    const size_t attended = score_row(size, i, q, k, scores, &max, &range, &score_bound);

    clear(out, size->e);
    clear(bound, size->e);
    *lse = -(double)INFINITY;
    *lse_bound = 0;
    if (attended == 0)
        return;
    const double wide = range + 2 * score_bound;
    const double weight = expm1(score_bound + u * wide) + 6 * u + (double)attended * (7 * u + u * wide);
    const double sums = weight + icl_gamma((double)attended + 2, u);
    for (size_t j = 0; j < size->keys; j++)
        if (attends(size, i, j))
            sum += exp(scores[j] - max);
    for (size_t j = 0; j < size->keys; j++) {
        const double p = attends(size, i, j) ? exp(scores[j] - max) / sum : 0;
        add_scaled(out, p, v + j * size->e, size->e);
        add_scaled_magnitude(bound, p, v + j * size->e, size->e);
    }
    /* Numerator and denominator are each off by at most `sums`, and there is one division. */
    multiply(bound, 2 * sums / (1 - sums) + 5 * u + (1 + sums) * size->rounding, size->e);
    for (size_t c = 0; c < size->e; c++)
        bound[c] += lost_of(size, attended);
    for (size_t j = 0; j < size->keys; j++)
        if (attends(size, i, j))
            add_scaled_magnitude(bound, flushed(size), v + j * size->e, size->e);
    /* The logarithm has the sum's relative error and 3 ulp of its own; max is off by D_i; the last sum rounds. */
    *lse = max + log(sum);
    *lse_bound = score_bound + sums / (1 - sums) + 6 * u * fabs(log(sum)) + u * (fabs(*lse) + fabs(max));
}

/* Runs one sequence. operands: d_out, out, lse, q, k, v; d_out as it meets v and the weights. */
static void softmax_backward(const sizes *size, double *const x[3], double *const b[3], const double *const operands[7],
                             double *scores) {
    const size_t d = size->d, e = size->e;
    const double u = size->unit, *d_out = operands[0], *out = operands[1], *lse = operands[2];
    const double *q = operands[3], *k = operands[4], *v = operands[5], *g = operands[6];

    for (size_t i = 0; i < size->queries; i++) {
        double max, range, score_bound, row_size;
        if (score_row(size, i, q + i * d, k, scores, &max, &range, &score_bound) == 0)
            continue;
        const double row = dot(d_out + i * e, out + i * e, e, &row_size);
        for (size_t j = 0; j < size->keys; j++) {
            double gain_size;
            if (!attends(size, i, j))
                continue;
            const double gain = dot(g + i * e, v + j * e, e, &gain_size);
            const double p = exp(scores[j] - lse[i]);
            /* The given log_sum_exp and out are rounded, by u |lse| and u |out|; a device may use either form of the
             * row term. */
            const double p_error = expm1(score_bound + 2 * u * (fabs(scores[j]) + fabs(lse[i]))) + 6 * u;
            const double row_error =
                icl_gamma((double)e + 2, u) * row_size + (p_error + icl_gamma((double)size->keys + 2, u)) * row_size;
            const double slope = size->scale * p * (gain - row);
            const double slope_error =
                fabs(size->scale) * (p * ((p_error + 4 * u) * fabs(gain - row) +
                                          icl_gamma((double)e + 1, u) * gain_size + row_error + lost_of(size, e)) +
                                     flushed(size) * (fabs(gain - row) + 1)) +
                flushed(size);
            const double over_keys = icl_gamma((double)size->keys + 2, u),
                         over_queries = icl_gamma((double)size->readers + 2, u);
            /* before or after the scale */
            const double lost = (flushed(size) + lost_of(size, 1)) * (1 + fabs(size->scale));
            const double for_q = over_keys + (1 + over_keys) * size->rounding;
            const double for_k = over_queries + (1 + over_queries) * size->rounding;
            add_scaled(x[0] + i * d, slope, k + j * d, d);
            add_product_bound(b[0] + i * d, 1.01 * slope_error + for_q * fabs(slope), k + j * d, d, lost);
            add_scaled(x[1] + j * d, slope, q + i * d, d);
            add_product_bound(b[1] + j * d, 1.01 * slope_error + for_k * fabs(slope), q + i * d, d, lost);
            add_scaled(x[2] + j * e, p, g + i * e, e);
            add_product_bound(b[2] + j * e, p * (1.01 * p_error + for_k) + flushed(size), g + i * e, e,
                              flushed(size) + lost_of(size, 1));
        }
    }
}

/* ---- Whole operands ---- */

/* Returns where one sequence of an operand begins. The operand may have a batch of 1 for all sequences, and one head
 * for several heads of queries. */
static double *sequence(const icl_truth *truth, const sizes *size, double *values, int operand, size_t batch,
                        size_t head) {
    const size_t *shape = truth->c->shape[operand];
    const int rank = truth->c->rank[operand];
    if (!values || rank < 0)
        return NULL;
    const size_t heads = rank == 4 ? shape[1] : 1, mine = head / (size->heads / heads);
    return values + ((shape[0] == 1 ? 0 : batch) * heads + mine) * shape[rank - 2] * shape[rank - 1];
}

static void forward_sequence(icl_truth *truth, const sizes *size, double *scores, size_t s, size_t head) {
    double *const *x = truth->operand;
    const double *k = sequence(truth, size, x[3], 3, s, head), *v = sequence(truth, size, x[4], 4, s, head);

    for (size_t i = 0; i < size->queries; i++) {
        const double *q = sequence(truth, size, x[2], 2, s, head) + i * size->d;
        const size_t row = (s * size->heads + head) * size->queries + i;
        double *out = x[0] + row * size->e, *bound = truth->bound[0] + row * size->e;
        if (size->kind == ICL_ATTENTION_LINEAR)
            linear_forward_row(size, i, q, k, v, out, bound);
        else
            softmax_forward_row(size, i, q, k, v, scores, out, bound, x[1] + row, truth->bound[1] + row);
    }
}

/* gradient: of out, as it meets v and the weights. */
static void backward_sequence(icl_truth *truth, const sizes *size, double *gradient, double *scores, size_t s,
                              size_t head) {
    double *x[3], *b[3];
    const double *inputs[7];

    for (int i = 0; i < 3; i++) {
        x[i] = sequence(truth, size, truth->operand[i], i, s, head);
        b[i] = sequence(truth, size, truth->bound[i], i, s, head);
    }
    for (int i = 0; i < 6; i++)
        inputs[i] = sequence(truth, size, truth->operand[3 + i], 3 + i, s, head);
    inputs[6] = sequence(truth, size, gradient, 3, s, head);
    if (size->kind == ICL_ATTENTION_LINEAR)
        linear_backward(size, x, b, inputs[0], inputs[3], inputs[4], inputs[5]);
    else
        softmax_backward(size, x, b, inputs, scores);
}

/* Rounds q, k and v, the operands from `q` on, and in the backward pass a copy of d_out, which the caller frees. */
static icl_status round_operands(icl_truth *truth, int q, double **gradient, icl_error *error) {
    for (int i = q; i < q + 3; i++)
        icl_round_to_bf16(truth->operand[i], icl_case_count(truth->c, i));
    if (truth->c->op == ICL_OP_attention_forward)
        return ICL_OK;
    const size_t count = icl_case_count(truth->c, 3);
    ICL_CHECK(icl_allocate(count, sizeof **gradient, "rounded gradient", gradient, error));
    memcpy(*gradient, truth->operand[3], count * sizeof **gradient);
    icl_round_to_bf16(*gradient, count);
    return ICL_OK;
}

static icl_status truth_attention(icl_truth *truth, icl_error *error) {
    const icl_case *c = truth->c;
    const bool is_forward = c->op == ICL_OP_attention_forward;
    const int q = is_forward ? 2 : 6;
    const icl_attention_params *params = &c->params.attention;
    const bool is_bf16 = truth->precision == ICL_PRECISION_BF16 && params->kind == ICL_ATTENTION_SOFTMAX;
    const int rank = c->rank[q];
    const size_t heads = rank == 4 ? c->shape[q][1] : 1, groups = rank == 4 ? c->shape[q + 1][1] : 1;
    const sizes size = {
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
        .window = params->window,
        .rounding = is_bf16 ? 0x1p-8 : 0,
    };
    double *scores = NULL, *rounded = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(size.keys, sizeof *scores, "attention truth", &scores, error));
    if (is_bf16)
        ICL_TRY(round_operands(truth, q, &rounded, error));
    for (int i = 0; i < 3 && !is_forward; i++) {
        clear(truth->operand[i], icl_case_count(c, i));
        clear(truth->bound[i], icl_case_count(c, i));
    }
    for (size_t s = 0; s < c->shape[0][0]; s++)
        for (size_t head = 0; head < heads; head++)
            if (is_forward)
                forward_sequence(truth, &size, scores, s, head);
            else
                backward_sequence(truth, &size, rounded ? rounded : truth->operand[3], scores, s, head);
done:
    icl_free(&scores);
    icl_free(&rounded);
    return status;
}

/* Computes what the forward pass would have given: out (operand 4) or log_sum_exp (operand 5) of attention_backward. */
static icl_status truth_forward_results(const icl_case *c, int wanted, float *const *operands, icl_error *error) {
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
    ICL_TRY(truth_attention(&truth, error));
    for (size_t k = 0; k < icl_case_count(c, wanted); k++)
        operands[wanted][k] = (float)truth.operand[wanted - 4][k];
done:
    for (int i = 0; i < 5; i++) {
        icl_free(&truth.operand[i]);
        icl_free(&truth.bound[i]);
    }
    return status;
}

/* ---- Cases ---- */

/* Both kinds, every mask, and windows. */

/* Adds a case. heads: those of q, and those of k and v; {0}: operands without heads. s: batch, queries, keys, d, e. */
static void add_heads(icl_case_list *list, icl_attention_params params, bool is_backward, const size_t heads[2],
                      const size_t s[5], icl_values values) {
    const size_t queries = s[1], keys = s[2], d = s[3], e = s[4];
    const bool softmax = params.kind == ICL_ATTENTION_SOFTMAX;
    static const char *const masks[] = {"all", "query-excluded", "causal"};
    const int q = is_backward ? 6 : 2, out = is_backward ? 4 : 0;
    icl_case c = {.op = is_backward ? ICL_OP_attention_backward : ICL_OP_attention_forward,
                  .params = {.attention = params},
                  .values = values};
    char what[64], window[32] = "";
    const struct {
        int operand;
        bool wanted;
        size_t heads, rows, columns;
    } shapes[] = {
        {out, softmax || !is_backward, heads[0], queries, e},
        {out + 1, softmax, heads[0], queries, 1},
        {q, true, heads[0], queries, d},
        {q + 1, true, heads[1], keys, d},
        {q + 2, true, heads[1], keys, e},
        {0, is_backward, heads[0], queries, d},
        {1, is_backward, heads[1], keys, d},
        {2, is_backward, heads[1], keys, e},
        {3, is_backward, heads[0], queries, e},
    };

    for (int i = 0; i < (is_backward ? 9 : 5); i++) {
        const bool has_heads = heads[0] > 0;
        icl_case_set_shape(&c, shapes[i].operand,
                           !shapes[i].wanted ? -1
                           : has_heads       ? 4
                                             : 3,
                           s[0], has_heads ? shapes[i].heads : shapes[i].rows,
                           has_heads ? shapes[i].rows : shapes[i].columns, shapes[i].columns);
    }
    if (params.window > 0)
        snprintf(window, sizeof window, " window %zu", params.window);
    snprintf(what, sizeof what, "%s %s %s%s", softmax ? "softmax" : "linear", is_backward ? "backward" : "forward",
             masks[params.mask], window);
    icl_cases_add(list, c, what);
}

static void add_attention(icl_case_list *list, icl_attention_params params, bool is_backward, const size_t s[5],
                          icl_values values) {
    add_heads(list, params, is_backward, (const size_t[2]){0}, s, values);
}

/* Adds cases with as many heads of keys as of queries, with some, and with one; with few and many sequences; with one
 * query each, and with a batch of one. */
static void head_cases(icl_case_list *list, icl_attention_kind kind, icl_attention_mask mask, bool is_backward) {
    static const struct {
        size_t heads[2], shape[5];
    } shapes[] = {
        {{2, 2}, {3, 9, 9, 5, 3}},    {{6, 3}, {2, 7, 10, 3, 5}},  {{4, 1}, {1, 37, 35, 4, 2}},
        {{4, 2}, {33, 1, 12, 6, 3}},  {{3, 3}, {34, 1, 12, 6, 3}}, {{4, 2}, {1, 1, 9, 2, 2}},
        {{2, 1}, {17, 11, 9, 34, 3}}, {{6, 2}, {8, 66, 5, 3, 2}},  {{2, 1}, {2, 70, 130, 66, 70}},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const icl_attention_params params = {.kind = kind, .mask = mask, .scale = i % 2 ? 0.25 : 1};
        add_heads(list, params, is_backward, shapes[i].heads, shapes[i].shape, ICL_VALUES_RANDOM);
        if (i < 3)
            add_heads(list, params, is_backward, shapes[i].heads, shapes[i].shape, ICL_VALUES_INTEGERS);
    }
}

/* Adds shapes around the blocks of queries and keys, and of columns, that a softmax pass may work in; scores so far
 * apart that weights underflow and each key may raise the maximum; and enough sequences for a backward pass that shares
 * out whole sequences. */
static void softmax_cases(icl_case_list *list, icl_attention_mask mask, bool is_backward) {
    static const size_t shapes[][5] = {
        {1, 33, 34, 2, 1},   {1, 1, 64, 64, 64},    {1, 63, 65, 5, 1},   {2, 64, 63, 64, 5},
        {1, 65, 130, 1, 70}, {1, 130, 64, 70, 1},   {1, 130, 130, 5, 5}, {1, 65, 1, 5, 64},
        {1, 3, 65, 1, 1},    {1, 33, 200, 70, 130}, {33, 1, 21, 5, 1},   {70, 1, 9, 2, 3},
    };
    static const size_t many[][5] = {{16, 6, 66, 66, 3}, {17, 70, 7, 25, 2}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        icl_attention_params params = {.kind = ICL_ATTENTION_SOFTMAX, .mask = mask, .scale = 0.25};
        add_attention(list, params, is_backward, shapes[s], ICL_VALUES_RANDOM);
        params.scale = 16;
        add_attention(list, params, is_backward, shapes[s], ICL_VALUES_CANCELLING);
    }
    for (size_t s = 0; is_backward && s < sizeof many / sizeof *many; s++)
        add_attention(list, (icl_attention_params){.kind = ICL_ATTENTION_SOFTMAX, .mask = mask, .scale = 0.25}, true,
                      many[s], ICL_VALUES_RANDOM);
}

/* Adds windows of one key; below, at and beyond the 32 and 64 keys of a tile; and at and beyond all keys; over as many
 * queries as keys, over queries that are the last positions of more keys, as in decoding, and over more queries than
 * keys, of which the first see none; over one query each of few and many sequences; and over heads that share keys. */
static void window_cases(icl_case_list *list, bool is_backward) {
    static const struct {
        size_t heads[2], shape[5];
    } shapes[] = {
        {{0}, {1, 200, 200, 5, 9}},  {{0}, {2, 5, 5, 3, 2}},      {{0}, {1, 67, 230, 70, 5}},
        {{0}, {1, 130, 60, 4, 66}},  {{0}, {3, 1, 140, 6, 3}},    {{0}, {33, 1, 21, 5, 3}},
        {{0}, {17, 70, 75, 25, 2}},  {{4, 2}, {2, 97, 97, 6, 5}}, {{6, 2}, {17, 9, 20, 34, 3}},
        {{4, 2}, {34, 1, 30, 3, 2}},
    };
    static const struct {
        size_t window, shapes; /* the first ones */
    } windows[] = {{1, 10}, {5, 10}, {40, 10}, {31, 1}, {32, 1}, {33, 1}, {64, 1}, {65, 3}, {200, 1}, {1000, 1}};

    for (size_t w = 0; w < sizeof windows / sizeof *windows; w++)
        for (size_t i = 0; i < windows[w].shapes; i++) {
            icl_attention_params params = {.kind = ICL_ATTENTION_SOFTMAX,
                                           .mask = ICL_MASK_CAUSAL,
                                           .scale = i % 2 ? 0.25 : 1,
                                           .window = windows[w].window};
            add_heads(list, params, is_backward, shapes[i].heads, shapes[i].shape, ICL_VALUES_RANDOM);
            add_heads(list, params, is_backward, shapes[i].heads, shapes[i].shape, ICL_VALUES_INTEGERS);
            params.scale = 16; /* each key may raise the maximum, also the first one of a later tile */
            add_heads(list, params, is_backward, shapes[i].heads, shapes[i].shape, ICL_VALUES_CANCELLING);
        }
}

static void cases(icl_case_list *list) {
    static const size_t shapes[][5] = {
        {1, 1, 1, 1, 1},   {5, 21, 21, 11, 11}, {3, 1, 21, 11, 11}, {2, 33, 7, 5, 3},
        {2, 7, 33, 3, 17}, {1, 65, 130, 33, 9}, {2, 4, 0, 3, 2},    {17, 6, 6, 2, 1},
        {1, 3, 257, 8, 8}, {0, 3, 3, 2, 2},     {1, 9, 9, 40, 70},
    };
    for (int variant = 0; variant < 12; variant++) {
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            const icl_attention_params params = {.kind = (icl_attention_kind)(variant / 6),
                                                 .mask = (icl_attention_mask)(variant / 2 % 3),
                                                 .scale = s % 2 ? 0.25 : 1};
            add_attention(list, params, variant % 2, shapes[s], ICL_VALUES_RANDOM);
            add_attention(list, params, variant % 2, shapes[s], s % 2 ? ICL_VALUES_INTEGERS : ICL_VALUES_CANCELLING);
        }
        head_cases(list, (icl_attention_kind)(variant / 6), (icl_attention_mask)(variant / 2 % 3), variant % 2);
        if (variant >= 6)
            softmax_cases(list, (icl_attention_mask)(variant / 2 % 3), variant % 2);
    }
    window_cases(list, false);
    window_cases(list, true);
    /* These cases share one set of keys and values in the whole batch. */
    for (int softmax = 0; softmax < 2; softmax++) {
        icl_case shared = {.op = ICL_OP_attention_forward,
                           .params = {.attention = {.kind = (icl_attention_kind)softmax, .scale = 1}}};
        icl_case_set_shape(&shared, 0, 3, 6, 5, 4, 0);
        icl_case_set_shape(&shared, 1, softmax ? 3 : -1, 6, 5, 1, 0);
        icl_case_set_shape(&shared, 2, 3, 6, 5, 3, 0);
        icl_case_set_shape(&shared, 3, 3, 1, 9, 3, 0);
        icl_case_set_shape(&shared, 4, 3, 1, 9, 4, 0);
        icl_cases_add(list, shared, softmax ? "softmax forward shared keys" : "linear forward shared keys");
        icl_case_set_shape(&shared, 0, 4, 6, 4, 5, 4);
        icl_case_set_shape(&shared, 1, softmax ? 4 : -1, 6, 4, 5, 1);
        icl_case_set_shape(&shared, 2, 4, 6, 4, 5, 3);
        icl_case_set_shape(&shared, 3, 4, 1, 2, 9, 3);
        icl_case_set_shape(&shared, 4, 4, 1, 2, 9, 4);
        icl_cases_add(list, shared, softmax ? "softmax forward shared keys" : "linear forward shared keys");
    }
}

/* Replaces the operands that the backward pass takes from the forward pass. */
static icl_status backward_results(const icl_case *c, int operand, float *const *operands, icl_error *error) {
    return operand == 4 || operand == 5 ? truth_forward_results(c, operand, operands, error) : ICL_OK;
}

ICL_CASE_CALL(forward, icl_attention_forward(on, &c->params.attention, t[0], t[1], t[2], t[3], t[4], error))
ICL_CASE_CALL(backward, icl_attention_backward(on, &c->params.attention, t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7],
                                               t[8], error))

static icl_status fill_backward(const icl_case *c, icl_backend *backend, const icl_tensor *t, icl_error *error) {
    if (!t[4].buffer)
        return ICL_OK;
    return icl_attention_forward(backend, &c->params.attention, t[4], t[5], t[6], t[7], t[8], error);
}

/* Linear: 2 d e (q + k) forward, 2 d e (2 q + 3 k) backward: S = K^T V and its gradient. Softmax: 2 q k (d + e)
 * forward, 2 q k (3 d + 2 e) backward, half of that when causal; with a window w below k, w for k. Exponentials are not
 * counted. */
static double flops(const icl_case *c) {
    const icl_attention_params *params = &c->params.attention;
    const bool backward = c->op == ICL_OP_attention_backward;
    const int of_q = backward ? 6 : 2, rank = c->rank[of_q];
    const size_t *const q = c->shape[of_q], *const k = c->shape[of_q + 1], *const v = c->shape[of_q + 2];
    const double batch = (double)(rank == 4 ? q[0] * q[1] : q[0]);
    const double queries = (double)q[rank - 2], keys = (double)k[rank - 2];
    const double d = (double)q[rank - 1], e = (double)v[rank - 1];

    if (params->kind == ICL_ATTENTION_LINEAR)
        return batch * 2 * d * e * (backward ? 2 * queries + 3 * keys : queries + keys);
    const bool has_window = params->window > 0 && params->window < k[rank - 2];
    return batch * 2 * queries * (has_window ? (double)params->window : keys) * (backward ? 3 * d + 2 * e : d + e) *
           (params->mask == ICL_MASK_CAUSAL && !has_window ? 0.5 : 1);
}

/* clang-format off */
#define LINEAR      {.attention = {ICL_ATTENTION_LINEAR, ICL_MASK_QUERY_EXCLUDED, 0.05, 0}}
#define SOFTMAX     {.attention = {ICL_ATTENTION_SOFTMAX, ICL_MASK_NONE, 0.125, 0}}
#define CAUSAL      {.attention = {ICL_ATTENTION_SOFTMAX, ICL_MASK_CAUSAL, 0.125, 0}}
#define WINDOW(w)   {.attention = {ICL_ATTENTION_SOFTMAX, ICL_MASK_CAUSAL, 0.125, w}}
#define HEADS(n)    ICL_AXES3(16, n, 64)
#define ROWS(n)     ICL_AXES3(16, n, 1)
#define FORWARD(n)  {HEADS(n), ROWS(n), HEADS(n), HEADS(n), HEADS(n)}
#define BACKWARD(n) {HEADS(n), HEADS(n), HEADS(n), HEADS(n), HEADS(n), ROWS(n), HEADS(n), HEADS(n), HEADS(n)}
/* The shapes of a small language model's step. */
#define GPT(h)          ICL_AXES4(64, h, 82, 32)
#define GPT_ROWS(h)     ICL_AXES4(64, h, 82, 1)
#define GPT_FORWARD(h)  {GPT(h), GPT_ROWS(h), GPT(h), GPT(h), GPT(h)}
#define GPT_BACKWARD(h) {GPT(h), GPT(h), GPT(h), GPT(h), GPT(h), GPT_ROWS(h), GPT(h), GPT(h), GPT(h)}
/* clang-format on */

static const icl_timed_shape forward_timed[] = {
    {"attention linear forward n 21 d 21 (2048)",
     LINEAR,
     {ICL_SEQUENCES, ICL_ABSENT, ICL_SEQUENCES, ICL_SEQUENCES, ICL_SEQUENCES}},
    {"attention softmax forward n 256 d 64 (16)", SOFTMAX, FORWARD(256)},
    {"attention softmax forward causal n 256 d 64 (16)", CAUSAL, FORWARD(256)},
    {"attention softmax forward causal n 82 d 32 (64 x 2)", CAUSAL, GPT_FORWARD(2)},
    {"attention softmax forward causal n 82 d 32 (64 x 4)", CAUSAL, GPT_FORWARD(4)},
    {"attention softmax forward n 1024 d 64 (16)", SOFTMAX, FORWARD(1024), true},
    {"attention softmax forward n 4096 d 64 (16)", SOFTMAX, FORWARD(4096), true},
    {"attention softmax forward causal n 4096 d 64 (16)", CAUSAL, FORWARD(4096), true},
    {"attention softmax forward window 256 n 4096 d 64 (16)", WINDOW(256), FORWARD(4096), true},
};
static const icl_timed_shape backward_timed[] = {
    {"attention linear backward n 21 d 21 (2048)",
     LINEAR,
     {ICL_SEQUENCES, ICL_SEQUENCES, ICL_SEQUENCES, ICL_SEQUENCES, ICL_ABSENT, ICL_ABSENT, ICL_SEQUENCES, ICL_SEQUENCES,
      ICL_SEQUENCES}},
    {"attention softmax backward n 256 d 64 (16)", SOFTMAX, BACKWARD(256)},
    {"attention softmax backward causal n 82 d 32 (64 x 2)", CAUSAL, GPT_BACKWARD(2)},
    {"attention softmax backward causal n 82 d 32 (64 x 4)", CAUSAL, GPT_BACKWARD(4)},
    {"attention softmax backward n 1024 d 64 (16)", SOFTMAX, BACKWARD(1024), true},
    {"attention softmax backward n 4096 d 64 (16)", SOFTMAX, BACKWARD(4096), true},
    {"attention softmax backward causal n 4096 d 64 (16)", CAUSAL, BACKWARD(4096), true},
    {"attention softmax backward window 256 n 4096 d 64 (16)", WINDOW(256), BACKWARD(4096), true},
};

const icl_described_op icl_described_attention_forward =
    ICL_DESCRIBED(forward_timed, .call = call_forward, .truth = truth_attention, .cases = cases, .flops = flops);
const icl_described_op icl_described_attention_backward =
    ICL_DESCRIBED(backward_timed, .call = call_backward, .truth = truth_attention, .results = backward_results,
                  .flops = flops, .fill = fill_backward);
