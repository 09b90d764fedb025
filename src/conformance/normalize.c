/*
 * Normalized rows, and their gradients.
 *
 * ops_sequence.h promises sums of n terms through K = 48 + n / 256 additions, and that the layer norm takes d_i = x_i -
 * x_0 first. d_i rounds once, so their mean has the error m = gamma(K + 6) mean|d| (a division of 2.5 ulp, or a product
 * with a rounded 1/n), and c_i = d_i - mean has the error e_i = u |d_i| + m + u |c_i|. For the other kinds c = x and e
 * = 0. The mean square v has the error mean(2 |c| e + e^2) + gamma(K + 6) (v + that mean), and w = v + epsilon one
 * rounding more: rho, relative to w. |(1 + t)^(-1/2) - 1| <= (1 - rho)^(-1/2) - 1 for |t| <= rho, and the root (3 ulp)
 * and the division (2.5 ulp) add 11 u: r has the relative error f. y = c r then has E_i = r (e_i + |c_i| f) + u |y_i|.
 *
 * Backward: g = d_out gain rounds once; its mean A has the error gamma(K + 6) mean|g|; B = mean(g c) r has the error r
 * mean(|g| e) + (gamma(K + 9) + f) r mean|g c|. r (g - A - y B) sums three parts that each round, and the product with
 * r adds f and a rounding. Sums over rows pass through 64 additions and log2 of the number of blocks of 64 rows.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>

#include "conformance/cases.h"
#include "core/allocate.h"
#include "iclab/status.h"

/* ---- The exact result ---- */

#define SECOND_ORDER 1.02

/* One row x [n], and the quantities that are defined above. */
typedef struct input_row {
    const double *x;
    icl_norm_kind kind;
    size_t n;
    double additions, unit, share; /* share: the divisor of sums */
    long double mean;
    double mean_error, r, f;
} input_row;

static double centred(const input_row *row, size_t i) {
    return (double)((long double)row->x[i] - row->mean);
}

/* e_i */
static double centred_error(const input_row *row, size_t i) {
    if (row->kind != ICL_NORM_LAYER)
        return 0;
    return row->unit * (fabs(row->x[i] - row->x[0]) + fabs(centred(row, i))) + row->mean_error;
}

static double normalized(const input_row *row, size_t i) {
    return centred(row, i) * row->r;
}

/* E_i */
static double normalized_error(const input_row *row, size_t i) {
    return row->r * (centred_error(row, i) + fabs(centred(row, i)) * row->f) + row->unit * fabs(normalized(row, i));
}

static input_row describe(const icl_truth *truth, const double *x, size_t n) {
    const icl_normalize_params *params = &truth->c->params.normalize;
    input_row row = {.x = x, .kind = params->kind, .n = n, .additions = 48 + (double)n / 256, .unit = truth->unit};
    long double sum = 0, distances = 0, squares = 0;
    double square_error = 0;

    row.share = row.kind == ICL_NORM_UNIT ? 1 : (double)n;
    for (size_t i = 0; row.kind == ICL_NORM_LAYER && i < n; i++) {
        sum += (long double)x[i];
        distances += fabsl((long double)x[i] - (long double)x[0]);
    }
    row.mean = sum / (long double)n;
    row.mean_error = icl_gamma(row.additions + 6, row.unit) * (double)(distances / (long double)n);
    for (size_t i = 0; i < n; i++) {
        const long double c = (long double)x[i] - row.mean;
        const double e = centred_error(&row, i);
        squares += c * c;
        square_error += (2 * fabs((double)c) * e + e * e) / row.share;
    }
    const double square = (double)(squares / (long double)row.share);
    const double root = square + icl_device_rounded(truth, params->epsilon);
    square_error += icl_gamma(row.additions + 6, row.unit) * (square + square_error);
    const double rho = root > 0 ? square_error / root + row.unit : 0;
    row.r = root == 0 ? 0 : 1 / sqrt(root);
    row.f = (rho < 1 ? 1 / sqrt(1 - rho) - 1 : (double)INFINITY) + 11 * row.unit;
    return row;
}

static double element(const icl_truth *truth, int operand, size_t i, double absent) {
    return truth->c->rank[operand] < 0 ? absent : truth->operand[operand][i];
}

static icl_status truth_normalize(icl_truth *truth, icl_error *error) {
    const icl_case *c = truth->c;
    const size_t n = c->shape[0][c->rank[0] - 1], count = icl_case_count(c, 0);
    const double u = truth->unit;
    (void)error;

    for (size_t start = 0; start < count; start += n) {
        const input_row row = describe(truth, truth->operand[1] + start, n);
        for (size_t i = 0; i < n; i++) {
            const double gain = element(truth, 2, i, 1), scaled = normalized(&row, i) * gain;
            const double out = scaled + element(truth, 3, i, 0);
            truth->operand[0][start + i] = out;
            truth->bound[0][start + i] =
                SECOND_ORDER * (fabs(gain) * normalized_error(&row, i) + u * (fabs(scaled) + fabs(out)));
        }
    }
    return ICL_OK;
}

/* ---- Backward ---- */

enum { D_IN = 0, D_GAIN, D_SHIFT, D_OUT, IN, GAIN };

/* Computes d_in of one row, from the values in d_out. */
static void row_gradient(icl_truth *truth, const input_row *row, const double *d_out, double *d_in, double *bound) {
    const double u = truth->unit, k = row->additions;
    long double level = 0, slope = 0;
    double level_size = 0, slope_size = 0, slope_error = 0;

    for (size_t i = 0; i < row->n; i++) {
        const double g = d_out[i] * element(truth, GAIN, i, 1), y = normalized(row, i);
        level += (long double)g;
        level_size += fabs(g);
        slope += (long double)g * (long double)y;
        slope_size += fabs(g * y);
        slope_error += fabs(g) * row->r * centred_error(row, i);
    }
    const bool has_level = row->kind == ICL_NORM_LAYER;
    const double a = has_level ? (double)(level / (long double)row->share) : 0;
    const double a_error = has_level ? icl_gamma(k + 6, u) * level_size / row->share : 0;
    const double b = (double)(slope / (long double)row->share);
    const double b_error = (slope_error + (icl_gamma(k + 9, u) + row->f) * slope_size) / row->share;
    for (size_t i = 0; i < row->n; i++) {
        const double g = d_out[i] * element(truth, GAIN, i, 1), y = normalized(row, i), e = normalized_error(row, i);
        const double inner = g - a - y * b;
        const double inner_error =
            3 * u * (fabs(g) + fabs(a) + fabs(y * b)) + a_error + e * (fabs(b) + b_error) + fabs(y) * b_error;
        d_in[i] = row->r * inner;
        bound[i] = SECOND_ORDER * row->r * (inner_error + fabs(inner) * (row->f + u));
    }
}

static icl_status truth_normalize_backward(icl_truth *truth, icl_error *error) {
    const icl_case *c = truth->c;
    const size_t n = c->shape[0][c->rank[0] - 1], count = icl_case_count(c, D_IN);
    const double rows = n > 0 ? (double)count / (double)n : 0, over_rows = icl_gamma(68 + log2(rows + 1), truth->unit);
    long double *sums = NULL;

    ICL_CHECK(icl_allocate(2 * n, sizeof *sums, "normalization truth", &sums, error));
    for (int i = D_GAIN; i <= D_SHIFT; i++)
        for (size_t k = 0; truth->bound[i] && k < n; k++)
            truth->bound[i][k] = 0;
    for (size_t start = 0; start < count; start += n) {
        const input_row row = describe(truth, truth->operand[IN] + start, n);
        const double *d_out = truth->operand[D_OUT] + start;
        row_gradient(truth, &row, d_out, truth->operand[D_IN] + start, truth->bound[D_IN] + start);
        for (size_t i = 0; i < n; i++) {
            const double y = normalized(&row, i);
            sums[i] += (long double)d_out[i] * (long double)y;
            sums[n + i] += (long double)d_out[i];
            if (truth->bound[D_GAIN])
                truth->bound[D_GAIN][i] +=
                    SECOND_ORDER * fabs(d_out[i]) * (normalized_error(&row, i) + over_rows * fabs(y));
            if (truth->bound[D_SHIFT])
                truth->bound[D_SHIFT][i] += over_rows * fabs(d_out[i]);
        }
    }
    for (int i = D_GAIN; i <= D_SHIFT; i++)
        for (size_t k = 0; truth->bound[i] && k < n; k++)
            truth->operand[i][k] = (double)sums[(i == D_SHIFT ? n : 0) + k];
    icl_free(&sums);
    return ICL_OK;
}

/* ---- Cases ---- */

/* The cases have every kind, narrow rows and wide ones, and more rows than a block of a sum over rows. */

enum { FORWARD_IN = 1 };

static const struct {
    int rank;
    size_t shape[ICL_MAX_RANK];
} shapes[] = {
    {2, {9, 13}},   {1, {7}},           {2, {37, 1}},   {2, {130, 5}}, {3, {3, 21, 16}}, {2, {5, 33}}, {3, {7, 40, 48}},
    {2, {3, 1030}}, {4, {2, 3, 5, 17}}, {2, {2, 5000}}, {2, {0, 5}},   {3, {2, 0, 4}},   {2, {3, 0}},
};

static void add_normalize(icl_case_list *list, icl_op op, icl_normalize_params params, size_t s, icl_values values,
                          unsigned in_place) {
    const bool is_backward = op == ICL_OP_normalize_backward;
    const size_t *shape = shapes[s].shape;
    const int rank = shapes[s].rank;
    const size_t n = shape[rank - 1];
    const bool is_flat = n == 1 && params.kind == ICL_NORM_LAYER; /* one element normalizes to 0 */
    const bool has_gain = (s + (size_t)params.kind) % 3 != 1;
    const bool has_shift = is_flat || (s + (size_t)params.kind) % 3 == 2;
    const bool is_vector[] = {false, is_backward, true, !is_backward, false, true};
    const bool is_there[] = {
        true, !is_backward || has_gain, is_backward ? has_shift : has_gain, is_backward || has_shift, true, has_gain};
    icl_case c = {.op = op, .params = {.normalize = params}, .values = values, .in_place = in_place};
    char what[64];

    for (int i = 0; i < icl_op_infos[op].outputs + icl_op_infos[op].inputs; i++)
        if (is_vector[i] || !is_there[i])
            icl_case_set_shape(&c, i, is_there[i] ? 1 : -1, n, 0, 0, 0);
        else
            icl_case_set_shape(&c, i, rank, shape[0], shape[1], shape[2], shape[3]);
    snprintf(what, sizeof what, "normalize %s%s%s", is_backward ? "backward " : "", icl_norm_name(params.kind),
             in_place ? " in place" : "");
    icl_cases_add(list, c, what);
}

/* Adds each shape with an epsilon and values that change from shape to shape, and with special values. */
static void add_kind(icl_case_list *list, icl_op op, icl_norm_kind kind) {
    static const icl_values values[] = {ICL_VALUES_RANDOM,     ICL_VALUES_INTEGERS, ICL_VALUES_LARGE,
                                        ICL_VALUES_CANCELLING, ICL_VALUES_SMALL,    ICL_VALUES_ABSORBED};
    const size_t value_count = sizeof values / sizeof *values, shape_count = sizeof shapes / sizeof *shapes;
    for (size_t s = 0; s < shape_count; s++) {
        const double epsilon = s % 2 ? 0 : 1e-5, other = s % 2 ? 1e-5 : 0;
        add_normalize(list, op, (icl_normalize_params){kind, epsilon}, s, values[(s + (size_t)kind) % value_count], 0);
        if (shapes[s].rank > 1)
            add_normalize(list, op, (icl_normalize_params){kind, other}, s, ICL_VALUES_SPECIAL, 0);
    }
    for (size_t s = 1; s < shape_count && op == ICL_OP_normalize; s += 2)
        add_normalize(list, op, (icl_normalize_params){kind, 1e-5}, s, ICL_VALUES_RANDOM, 2);
}

static void cases(icl_case_list *list) {
    for (int backward = 0; backward < 2; backward++)
        for (int kind = 0; kind < ICL_NORM_COUNT; kind++)
            add_kind(list, backward ? ICL_OP_normalize_backward : ICL_OP_normalize, (icl_norm_kind)kind);
}

/* Writes the inputs. Special rows of the normalized operand have NaN or infinities, or consist of one number or of
 * zeros; d_out has one NaN. */
static void inputs(const icl_case *c, int operand, float *const *operands) {
    const size_t n = c->shape[0][c->rank[0] - 1], count = icl_case_count(c, operand);
    const bool is_in = operand == (c->op == ICL_OP_normalize ? FORWARD_IN : IN) || (c->in_place && operand == 0);
    icl_case plain = *c;
    float *values = operands[operand];

    if (c->values == ICL_VALUES_SPECIAL)
        plain.values = ICL_VALUES_RANDOM;
    icl_case_values(&plain, operand, false, values);
    if (c->values != ICL_VALUES_SPECIAL || count == 0 || n == 0)
        return;
    if (c->op == ICL_OP_normalize_backward && operand == D_OUT)
        values[count - 1] = NAN;
    for (size_t row = 0; is_in && (row + 1) * n <= count; row++) {
        float *x = values + row * n;
        if (row % 6 == 2)
            x[row % n] = NAN;
        if (row % 6 == 3)
            x[(row + 1) % n] = row % 4 == 3 ? INFINITY : -INFINITY;
        for (size_t i = 0; i < n && (row % 6 == 4 || row % 6 == 5); i++)
            x[i] = row % 6 == 4 ? 0.1F : 0;
    }
}

ICL_CASE_CALL(normalize, icl_normalize(on, &c->params.normalize, t[0], t[1], t[2], t[3], error))
ICL_CASE_CALL(normalize_backward,
              icl_normalize_backward(on, &c->params.normalize, t[0], t[1], t[2], t[3], t[4], t[5], error))

/* clang-format off */
#define LAYER            {.normalize = {ICL_NORM_LAYER, 1e-5}}
#define RMS              {.normalize = {ICL_NORM_RMS, 1e-5}}
#define UNIT             {.normalize = {ICL_NORM_UNIT, 1e-6}}
#define ROWS(b, t, w)    ICL_AXES3(b, t, w)
#define FORWARD(b, t, w) {ROWS(b, t, w), ROWS(b, t, w), ICL_AXIS(w), ICL_AXIS(w)}
#define BACKWARD(b, t, w) {ROWS(b, t, w), ICL_AXIS(w), ICL_AXIS(w), ROWS(b, t, w), ROWS(b, t, w), ICL_AXIS(w)}
/* clang-format on */

static const icl_timed_shape forward_timed[] = {
    {"normalize layer (128x41x256)", LAYER, FORWARD(128, 41, 256)},
    {"normalize rms (64x128x64)", RMS, FORWARD(64, 128, 64)},
    {"normalize unit (2048x21x16)", UNIT, {ROWS(2048, 21, 16), ROWS(2048, 21, 16), ICL_ABSENT, ICL_ABSENT}},
};
static const icl_timed_shape backward_timed[] = {
    {"normalize backward layer (128x41x256)", LAYER, BACKWARD(128, 41, 256)},
    {"normalize backward rms (64x128x64)", RMS, BACKWARD(64, 128, 64)},
    {"normalize backward unit (2048x21x16)",
     UNIT,
     {ROWS(2048, 21, 16), ICL_ABSENT, ICL_ABSENT, ROWS(2048, 21, 16), ROWS(2048, 21, 16), ICL_ABSENT}},
};

const icl_described_op icl_described_normalize =
    ICL_DESCRIBED(forward_timed, .call = call_normalize, .truth = truth_normalize, .cases = cases, .inputs = inputs);
const icl_described_op icl_described_normalize_backward =
    ICL_DESCRIBED(backward_timed, .call = call_normalize_backward, .truth = truth_normalize_backward, .inputs = inputs);
