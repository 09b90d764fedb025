/*
 * Normalized rows, and their gradients.
 *
 * ops_sequence.h promises sums of n terms through K = 48 + n / 256 additions, and that the layer norm takes d_i = x_i -
 * x_0 first. d_i rounds once, so their mean has the error m = gamma(K + 6) mean|d| (a division of 2.5 ulp, or a product
 * with a rounded 1/n), and c_i = d_i - mean the error e_i = u |d_i| + m + u |c_i|. For the others c = x, e = 0. The
 * mean square v has the error mean(2 |c| e + e^2) + gamma(K + 6) (v + that), w = v + epsilon one rounding more: rho,
 * relative to w. |(1 + t)^(-1/2) - 1| <= (1 - rho)^(-1/2) - 1 for |t| <= rho, and the root (3 ulp) and the division
 * (2.5 ulp) add 11 u: r has the relative error f. y = c r then has E_i = r (e_i + |c_i| f) + u |y_i|.
 *
 * Backward, g = d_out gain rounds once; its mean A has the error gamma(K + 6) mean|g|; B = mean(g c) r has
 * r mean(|g| e) + (gamma(K + 9) + f) r mean|g c|. r (g - A - y B) sums three parts with roundings of their own, and the
 * product with r adds f and a rounding. The sums over rows pass through 64 + log2 of the blocks of 64 rows additions.
 */
#include <float.h>
#include <math.h>

#include "conformance/cases.h"
#include "core/allocate.h"
#include "iclab/status.h"

#define SECOND_ORDER 1.02

/* One row: x [n], and what stands above of it. */
typedef struct row {
    const double *x;
    icl_norm_kind kind;
    size_t n;
    double additions, unit, share; /* share: what sums are divided by */
    long double mean;
    double mean_error, r, f;
} row;

static double centred(const row *of, size_t i) {
    return (double)((long double)of->x[i] - of->mean);
}

/* e_i */
static double centred_error(const row *of, size_t i) {
    if (of->kind != ICL_NORM_LAYER)
        return 0;
    return of->unit * (fabs(of->x[i] - of->x[0]) + fabs(centred(of, i))) + of->mean_error;
}

static double normalized(const row *of, size_t i) {
    return centred(of, i) * of->r;
}

/* E_i */
static double normalized_error(const row *of, size_t i) {
    return of->r * (centred_error(of, i) + fabs(centred(of, i)) * of->f) + of->unit * fabs(normalized(of, i));
}

static row describe(const icl_truth *truth, const double *x, size_t n) {
    const icl_normalize_params *params = &truth->c->params.normalize;
    row of = {.x = x, .kind = params->kind, .n = n, .additions = 48 + (double)n / 256, .unit = truth->unit};
    long double sum = 0, distances = 0, squares = 0;
    double square_error = 0;

    of.share = of.kind == ICL_NORM_UNIT ? 1 : (double)n;
    for (size_t i = 0; of.kind == ICL_NORM_LAYER && i < n; i++) {
        sum += (long double)x[i];
        distances += fabsl((long double)x[i] - (long double)x[0]);
    }
    of.mean = sum / (long double)n;
    of.mean_error = icl_gamma(of.additions + 6, of.unit) * (double)(distances / (long double)n);
    for (size_t i = 0; i < n; i++) {
        const long double c = (long double)x[i] - of.mean;
        const double e = centred_error(&of, i);
        squares += c * c;
        square_error += (2 * fabs((double)c) * e + e * e) / of.share;
    }
    const double square = (double)(squares / (long double)of.share);
    const double root = square + icl_device_rounded(truth, params->epsilon);
    square_error += icl_gamma(of.additions + 6, of.unit) * (square + square_error);
    const double rho = root > 0 ? square_error / root + of.unit : 0;
    of.r = root == 0 ? 0 : 1 / sqrt(root);
    of.f = (rho < 1 ? 1 / sqrt(1 - rho) - 1 : (double)INFINITY) + 11 * of.unit;
    return of;
}

static double element(const icl_truth *truth, int operand, size_t i, double absent) {
    return truth->c->rank[operand] < 0 ? absent : truth->operand[operand][i];
}

icl_status icl_truth_normalize(icl_truth *truth, icl_error *error) {
    const icl_case *c = truth->c;
    const size_t n = c->shape[0][c->rank[0] - 1], count = icl_case_count(c, 0);
    const double u = truth->unit;
    (void)error;

    for (size_t start = 0; start < count; start += n) {
        const row of = describe(truth, truth->operand[1] + start, n);
        for (size_t i = 0; i < n; i++) {
            const double gain = element(truth, 2, i, 1), scaled = normalized(&of, i) * gain;
            const double out = scaled + element(truth, 3, i, 0);
            truth->operand[0][start + i] = out;
            truth->bound[0][start + i] =
                SECOND_ORDER * (fabs(gain) * normalized_error(&of, i) + u * (fabs(scaled) + fabs(out)));
        }
    }
    return ICL_OK;
}

/* ---- Backward ---- */

enum { D_IN = 0, D_GAIN, D_SHIFT, D_OUT, IN, GAIN };

/* d_in of one row, from what stands in d_out. */
static void row_gradient(icl_truth *truth, const row *of, const double *d_out, double *d_in, double *bound) {
    const double u = truth->unit, k = of->additions;
    long double level = 0, slope = 0;
    double level_size = 0, slope_size = 0, slope_error = 0;

    for (size_t i = 0; i < of->n; i++) {
        const double g = d_out[i] * element(truth, GAIN, i, 1), y = normalized(of, i);
        level += (long double)g;
        level_size += fabs(g);
        slope += (long double)g * (long double)y;
        slope_size += fabs(g * y);
        slope_error += fabs(g) * of->r * centred_error(of, i);
    }
    const bool has_level = of->kind == ICL_NORM_LAYER;
    const double a = has_level ? (double)(level / (long double)of->share) : 0;
    const double a_error = has_level ? icl_gamma(k + 6, u) * level_size / of->share : 0;
    const double b = (double)(slope / (long double)of->share);
    const double b_error = (slope_error + (icl_gamma(k + 9, u) + of->f) * slope_size) / of->share;
    for (size_t i = 0; i < of->n; i++) {
        const double g = d_out[i] * element(truth, GAIN, i, 1), y = normalized(of, i), e = normalized_error(of, i);
        const double inner = g - a - y * b;
        const double inner_error =
            3 * u * (fabs(g) + fabs(a) + fabs(y * b)) + a_error + e * (fabs(b) + b_error) + fabs(y) * b_error;
        d_in[i] = of->r * inner;
        bound[i] = SECOND_ORDER * of->r * (inner_error + fabs(inner) * (of->f + u));
    }
}

icl_status icl_truth_normalize_backward(icl_truth *truth, icl_error *error) {
    const icl_case *c = truth->c;
    const size_t n = c->shape[0][c->rank[0] - 1], count = icl_case_count(c, D_IN);
    const double rows = n > 0 ? (double)count / (double)n : 0, over_rows = icl_gamma(68 + log2(rows + 1), truth->unit);
    long double *sums = NULL;

    ICL_CHECK(icl_allocate(2 * n, sizeof *sums, "normalization truth", &sums, error));
    for (int i = D_GAIN; i <= D_SHIFT; i++)
        for (size_t k = 0; truth->bound[i] && k < n; k++)
            truth->bound[i][k] = 0;
    for (size_t start = 0; start < count; start += n) {
        const row of = describe(truth, truth->operand[IN] + start, n);
        const double *d_out = truth->operand[D_OUT] + start;
        row_gradient(truth, &of, d_out, truth->operand[D_IN] + start, truth->bound[D_IN] + start);
        for (size_t i = 0; i < n; i++) {
            const double y = normalized(&of, i);
            sums[i] += (long double)d_out[i] * (long double)y;
            sums[n + i] += (long double)d_out[i];
            if (truth->bound[D_GAIN])
                truth->bound[D_GAIN][i] +=
                    SECOND_ORDER * fabs(d_out[i]) * (normalized_error(&of, i) + over_rows * fabs(y));
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
