/* The shared decomposition: eigenpairs, ridge against a direct solve, null directions, least
 * squares of minimum norm. */
#include <math.h>

#include "baseline/estimator.h"
#include "core/allocate.h"
#include "eliminate.h"
#include "iclab/random.h"
#include "numeric/matrix.h"
#include "tap.h"

enum { LARGEST = 40 };

static double normal(uint64_t index) {
    return (double)icl_normal_from_word(icl_random_word((icl_random_key){.seed = 5, .stream = 77}, index));
}

/* Makes a symmetric matrix of the given rank (below d: a Gram matrix); for rank 0: zero, or the identity. */
static void make_matrix(size_t d, size_t rank, bool identity, double *matrix) {
    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j < d; j++) {
            matrix[i * d + j] = identity && i == j;
            for (size_t r = 0; r < rank; r++)
                matrix[i * d + j] += normal(r * d + i) * normal(r * d + j);
        }
}

static void check_eigen(tap_run *tap, size_t d, size_t rank, bool identity) {
    static double matrix[LARGEST * LARGEST], copy[LARGEST * LARGEST], vectors[LARGEST * LARGEST];
    double eigenvalues[LARGEST], work[3 * LARGEST], residual = 0, orthogonality = 0, largest = 0;
    bool ascending = true;

    make_matrix(d, rank, identity, matrix);
    memcpy(copy, matrix, sizeof copy);
    tap_ok(tap, icl_symmetric_eigen(d, copy, eigenvalues, vectors, work), "d = %zu, rank %zu: converges", d, rank);
    for (size_t k = 0; k < d; k++) {
        ascending = ascending && (k == 0 || eigenvalues[k] >= eigenvalues[k - 1]);
        largest = fmax(largest, fabs(eigenvalues[k]));
        for (size_t i = 0; i < d; i++) {
            double product = 0, inner = 0;
            for (size_t j = 0; j < d; j++) {
                product += matrix[i * d + j] * vectors[k * d + j];
                inner += vectors[i * d + j] * vectors[k * d + j];
            }
            residual = fmax(residual, fabs(product - eigenvalues[k] * vectors[k * d + i]));
            orthogonality = fmax(orthogonality, fabs(inner - (i == k)));
        }
    }
    tap_ok(tap, ascending, "eigenvalues ascend");
    tap_ok(tap, residual <= 2e-15 * (double)(d + 2) * largest, "A v = lambda v (%.1e of %.1e)", residual, largest);
    tap_ok(tap, orthogonality <= 2e-15 * (double)(d + 2), "eigenvectors are orthonormal (%.1e)", orthogonality);
}

/* Computes (X^T X + s2 I)^-1 X^T y from the tokens themselves, and min ||y - X w||^2 for s2 = 0. */
static double ridge_directly(const float *tokens, size_t n, size_t d, const double *root, double s2, double *residual) {
    double inputs[32][8], gram[64] = {0}, moments[8] = {0}, prediction = 0;

    for (size_t i = 0; i <= n; i++)
        for (size_t k = 0; k < d; k++) {
            inputs[i][k] = root ? 0 : (double)tokens[i * (d + 1) + k];
            for (size_t j = 0; root && j < d; j++)
                inputs[i][k] += root[j * d + k] * (double)tokens[i * (d + 1) + j];
        }
    for (size_t j = 0; j < d; j++) {
        gram[j * d + j] = s2;
        for (size_t i = 0; i < n; i++) {
            for (size_t k = 0; k < d; k++)
                gram[j * d + k] += inputs[i][j] * inputs[i][k];
            moments[j] += inputs[i][j] * (double)tokens[i * (d + 1) + d];
        }
    }
    eliminate(d, d, gram, moments);
    *residual = 0;
    for (size_t i = 0; i < n; i++) {
        double difference = (double)tokens[i * (d + 1) + d];
        for (size_t k = 0; k < d; k++)
            difference -= inputs[i][k] * moments[k];
        *residual += difference * difference;
    }
    for (size_t k = 0; k < d; k++)
        prediction += inputs[n][k] * moments[k];
    return prediction;
}

static void make_tokens(size_t n, size_t d, double noise, float *tokens) {
    for (size_t i = 0; i <= n; i++) {
        float *token = tokens + i * (d + 1);
        double label = noise * normal(5000 + i);
        for (size_t k = 0; k < d; k++) {
            token[k] = (float)normal(1000 + i * d + k);
            label += (double)token[k] * normal(3000 + k);
        }
        token[d] = i < n ? (float)label : 0;
    }
}

static void check_ridge(tap_run *tap, size_t n, size_t d, const double *root) {
    float tokens[32 * 9];
    double filter[8], residual, ignored;
    icl_spectrum spectrum;
    icl_error error = {0};

    make_tokens(n, d, 0.7, tokens);
    tap_status(tap, icl_spectrum_create(d, n, root, &spectrum, &error), &error, "a spectrum");
    icl_spectrum_compute(&spectrum, tokens);
    for (int i = n > d ? 0 : 1; i < 5; i++) {
        const double s2 = i == 0 ? 0 : 0.1 * pow(5, i);
        const double expected = ridge_directly(tokens, n, d, root, s2, &ignored);
        double seen;
        icl_ridge_filter(spectrum.eigenvalues, spectrum.dimension, s2, filter);
        seen = icl_spectrum_predict(&spectrum, filter);
        tap_ok(tap, fabs(seen - expected) < 1e-10 * (1 + fabs(expected)),
               "n = %zu, d = %zu, s2 = %.2f: %.12g, directly %.12g", n, d, s2, seen, expected);
    }
    tap_ok(tap, spectrum.rank == (n < d ? n : d), "rank %zu", spectrum.rank);
    if (n > d) {
        ridge_directly(tokens, n, d, root, 0, &residual);
        tap_ok(tap, fabs(spectrum.residual - residual) < 1e-10 * residual, "residual %.12g, directly %.12g",
               spectrum.residual, residual);
        tap_ok(tap, fabs(icl_spectrum_residual_variance(&spectrum, 9) - residual / (double)(n - d)) < 1e-10 * residual,
               "residual variance");
    } else {
        tap_ok(tap, icl_spectrum_residual_variance(&spectrum, 9) == 9, "no residual: the given variance");
    }
    icl_spectrum_destroy(&spectrum);
}

/* If n < d, the minimum-norm solution is X^T (X X^T)^-1 y, the limit of ridge. */
static void check_minimum_norm(tap_run *tap) {
    enum { CONTEXT = 3, DIMENSION = 6 };
    float tokens[(CONTEXT + 1) * (DIMENSION + 1)];
    double gram[CONTEXT * CONTEXT], labels[CONTEXT], filter[DIMENSION], expected = 0, seen;
    icl_spectrum spectrum;
    icl_error error = {0};

    make_tokens(CONTEXT, DIMENSION, 0.5, tokens);
    for (size_t i = 0; i < CONTEXT; i++) {
        labels[i] = (double)tokens[i * (DIMENSION + 1) + DIMENSION];
        for (size_t j = 0; j < CONTEXT; j++) {
            gram[i * CONTEXT + j] = 0;
            for (size_t k = 0; k < DIMENSION; k++)
                gram[i * CONTEXT + j] +=
                    (double)tokens[i * (DIMENSION + 1) + k] * (double)tokens[j * (DIMENSION + 1) + k];
        }
    }
    eliminate(CONTEXT, CONTEXT, gram, labels);
    for (size_t i = 0; i < CONTEXT; i++)
        for (size_t k = 0; k < DIMENSION; k++)
            expected +=
                labels[i] * (double)tokens[i * (DIMENSION + 1) + k] * (double)tokens[CONTEXT * (DIMENSION + 1) + k];
    tap_status(tap, icl_spectrum_create(DIMENSION, CONTEXT, NULL, &spectrum, &error), &error, "a spectrum");
    icl_spectrum_compute(&spectrum, tokens);
    icl_ridge_filter(spectrum.eigenvalues, spectrum.dimension, 0, filter);
    seen = icl_spectrum_predict(&spectrum, filter);
    tap_ok(tap, fabs(seen - expected) < 1e-11, "least squares of minimum norm: %.13g, directly %.13g", seen, expected);
    icl_spectrum_destroy(&spectrum);
}

static void check_degenerate_data(tap_run *tap) {
    float tokens[6 * 4] = {0};
    double filter[3];
    icl_spectrum spectrum;
    icl_error error = {0};

    tap_status(tap, icl_spectrum_create(3, 5, NULL, &spectrum, &error), &error, "a spectrum");
    icl_spectrum_compute(&spectrum, tokens);
    icl_ridge_filter(spectrum.eigenvalues, spectrum.dimension, 0, filter);
    tap_ok(tap, spectrum.finite && spectrum.rank == 0 && icl_spectrum_predict(&spectrum, filter) == 0,
           "all zeros predict 0");
    for (size_t i = 0; i < 6; i++)
        tokens[i * 4] = tokens[i * 4 + 1] = (float)(i + 1); /* two equal inputs, one that is always 0 */
    for (size_t i = 0; i < 5; i++)
        tokens[i * 4 + 3] = (float)(2 * (i + 1));
    icl_spectrum_compute(&spectrum, tokens);
    icl_ridge_filter(spectrum.eigenvalues, spectrum.dimension, 0, filter);
    tap_ok(tap, spectrum.rank == 1 && fabs(icl_spectrum_predict(&spectrum, filter) - 12) < 1e-12,
           "equal inputs share the weight (%.15g)", icl_spectrum_predict(&spectrum, filter));
    for (int i = 0; i < 3; i++) {
        const float bad[] = {NAN, INFINITY, -INFINITY};
        const size_t at[] = {5, 3, 21}; /* an input, a label, the query */
        const float kept = tokens[at[i]];
        tokens[at[i]] = bad[i];
        icl_spectrum_compute(&spectrum, tokens);
        tap_ok(tap, !spectrum.finite && isnan(icl_spectrum_predict(&spectrum, filter)), "%g in the data gives NaN",
               (double)bad[i]);
        tokens[at[i]] = kept;
    }
    icl_spectrum_destroy(&spectrum);
}

int main(void) {
    static const double root[16] = {0.5, 0.2, 0, 0, -0.3, 2, 0, 0, 0, 0, 1, 0.1, 0, 0, 0, 3};
    tap_run tap = {0};

    check_eigen(&tap, 1, 1, false);
    check_eigen(&tap, 2, 2, false);
    check_eigen(&tap, 3, 5, false);
    check_eigen(&tap, 10, 20, false);
    check_eigen(&tap, 10, 3, false);
    check_eigen(&tap, 40, 60, false);
    check_eigen(&tap, 5, 0, false);
    check_eigen(&tap, 6, 0, true);
    check_ridge(&tap, 20, 8, NULL);
    check_ridge(&tap, 20, 4, root);
    check_ridge(&tap, 5, 4, root);
    check_ridge(&tap, 4, 4, NULL);
    check_ridge(&tap, 3, 6, NULL);
    check_ridge(&tap, 1, 1, NULL);
    check_minimum_norm(&tap);
    check_degenerate_data(&tap);
    return tap_done(&tap);
}
