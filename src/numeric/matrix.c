/* Matrices, row-major, in double: eigenvalues, singular values, inverses, and distances from the identity. */
#include <lapacke.h>
#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "numeric/matrix.h"

/* ---- Eigenvalues ---- */

static double dot(size_t count, const double *a, const double *b) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Turns x into the v of the reflector H = I - tau v v^T with H x = (beta, 0, …), v_0 = 1, and returns tau
 * (Golub and Van Loan, "Matrix Computations", algorithm 5.1.1). */
static double make_reflector(size_t count, double *x, double *beta) {
    const double tail = dot(count - 1, x + 1, x + 1), first = x[0];
    double length, pivot;

    *beta = first;
    x[0] = 1;
    if (tail == 0)
        return 0;
    length = sqrt(first * first + tail);
    *beta = first > 0 ? -length : length;
    pivot = first - *beta;
    for (size_t i = 1; i < count; i++)
        x[i] /= pivot;
    return -pivot / *beta;
}

/* A <- H A H on the trailing block of size `count`, rows `stride` apart: with p = tau A v and p -= (tau p . v / 2) v,
 * it is A - v p^T - p v^T. */
static void reflect_both_sides(size_t count, size_t stride, double *block, const double *v, double tau, double *p) {
    double half;

    for (size_t i = 0; i < count; i++)
        p[i] = tau * dot(count, block + i * stride, v);
    half = tau * dot(count, p, v) / 2;
    for (size_t i = 0; i < count; i++)
        p[i] -= half * v[i];
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++)
            block[i * stride + j] -= v[i] * p[j] + p[i] * v[j];
}

/* Computes matrix = Q T Q^T: row k of vectors receives column k of Q, `diagonal` and `beside` those diagonals of T. Row
 * k of matrix keeps the k-th reflector's v. */
static void tridiagonalize(size_t d, double *matrix, double *diagonal, double *beside, double *vectors, double *work) {
    double *tau = work, *p = work + d;

    for (size_t k = 0; k + 1 < d; k++) {
        double *v = matrix + k * d + k + 1;
        diagonal[k] = matrix[k * d + k];
        tau[k] = make_reflector(d - k - 1, v, &beside[k]);
        if (tau[k] != 0)
            reflect_both_sides(d - k - 1, d, matrix + (k + 1) * (d + 1), v, tau[k], p);
    }
    diagonal[d - 1] = matrix[d * d - 1];

    memset(vectors, 0, d * d * sizeof(double));
    for (size_t i = 0; i < d; i++)
        vectors[i * d + i] = 1;
    for (size_t k = d - 1; k-- > 0;) {
        const double *v = matrix + k * d + k + 1;
        for (size_t column = k + 1; column < d; column++) {
            double *entries = vectors + column * d + k + 1;
            const double product = tau[k] * dot(d - k - 1, v, entries);
            for (size_t i = 0; i < d - k - 1; i++)
                entries[i] -= product * v[i];
        }
    }
}

bool icl_symmetric_eigen(size_t d, double *matrix, double *eigenvalues, double *vectors, double *work) {
    double *beside = work;

    tridiagonalize(d, matrix, eigenvalues, beside, vectors, work + d);
    /* The matrix is no longer needed and becomes the workspace of dsteqr, which needs 2 d - 2. */
    return LAPACKE_dsteqr_work(LAPACK_COL_MAJOR, 'V', (int)d, eigenvalues, beside, vectors, (int)d,
                               d > 1 ? matrix : work + d) == 0;
}

/* ---- Learned matrices ---- */

double icl_matrix_multiple(const double *matrix, size_t d) {
    double trace = 0;
    for (size_t i = 0; i < d; i++)
        trace += matrix[i * d + i];
    return trace / (double)d;
}

double icl_matrix_distance(const double *matrix, size_t d) {
    const double multiple = icl_matrix_multiple(matrix, d);
    double apart = 0, square = 0;

    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j < d; j++) {
            const double value = matrix[i * d + j], rest = i == j ? value - multiple : value;
            square += value * value;
            apart += rest * rest;
        }
    return square > 0 ? sqrt(apart / square) : 0;
}

void icl_matrix_in_basis(const double *root, const double *matrix, size_t d, double *out) {
    if (!root) {
        memcpy(out, matrix, d * d * sizeof *out);
        return;
    }
    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j < d; j++) {
            double sum = 0;
            for (size_t a = 0; a < d; a++)
                for (size_t b = 0; b < d; b++)
                    sum += root[a * d + i] * matrix[a * d + b] * root[b * d + j];
            out[i * d + j] = sum;
        }
}

/* ---- Singular values ---- */

/* Computes the singular values [size], ascending, of a matrix [rows, size] whose rows lie `stride` apart and whose
 * columns lie `step` apart. */
static icl_status ascending_values(const double *matrix, size_t rows, size_t size, size_t stride, size_t step,
                                   double *values, icl_error *error) {
    double *memory = NULL, *gram, *vectors, *work;
    icl_status status = ICL_OK;

    /* gram and vectors [size, size], work [3 size] */
    ICL_TRY(icl_allocate(size, (2 * size + 3) * sizeof *memory, "singular values", &memory, error));
    gram = memory;
    vectors = gram + size * size;
    work = vectors + size * size;
    for (size_t a = 0; a < size; a++)
        for (size_t b = 0; b < size; b++)
            for (size_t row = 0; row < rows; row++)
                gram[a * size + b] += matrix[row * stride + a * step] * matrix[row * stride + b * step];
    for (size_t i = 0; i < size * size; i++)
        if (!isfinite(gram[i]))
            ICL_TRY(icl_fail(error, ICL_ERROR_INPUT, "singular values: expected a finite matrix"));
    if (!icl_symmetric_eigen(size, gram, values, vectors, work))
        ICL_TRY(icl_fail(error, ICL_ERROR_INPUT, "singular values: the iteration did not converge"));
    for (size_t i = 0; i < size; i++)
        values[i] = sqrt(fmax(values[i], 0));
done:
    icl_free(&memory);
    return status;
}

icl_status icl_singular_values(const double *matrix, size_t rows, size_t columns, double *values, icl_error *error) {
    const bool wide = columns > rows;
    const size_t size = wide ? rows : columns;

    ICL_CHECK(
        ascending_values(matrix, wide ? columns : rows, size, wide ? 1 : columns, wide ? columns : 1, values, error));
    for (size_t i = 0; i < size / 2; i++) {
        const double smaller = values[i];
        values[i] = values[size - 1 - i];
        values[size - 1 - i] = smaller;
    }
    return ICL_OK;
}

icl_status icl_singular_extremes(const double *block, size_t size, size_t stride, double *smallest, double *largest,
                                 icl_error *error) {
    double *values = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(size, sizeof *values, "singular values", &values, error));
    ICL_TRY(ascending_values(block, size, size, stride, 1, values, error));
    *smallest = values[0];
    *largest = values[size - 1];
done:
    icl_free(&values);
    return status;
}

double icl_entropy_rank(const double *values, size_t count) {
    double sum = 0, entropy = 0;

    for (size_t i = 0; i < count; i++)
        sum += values[i];
    for (size_t i = 0; i < count; i++)
        if (values[i] > 0)
            entropy -= values[i] / sum * log(values[i] / sum);
    return sum > 0 ? exp(entropy) : 0;
}

icl_status icl_subspace_alignment(const double *M, const double *rotation, size_t d, size_t k, double *rho,
                                  icl_error *error) {
    double *blocks = NULL, seen, outside, unused; /* [B, B']^T M [B, B'] */
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(d, d * sizeof *blocks, "blocks of a matrix", &blocks, error));
    icl_matrix_in_basis(rotation, M, d, blocks);
    ICL_TRY(icl_singular_extremes(blocks, k, d, &seen, &unused, error));
    ICL_TRY(icl_singular_extremes(blocks + k * d + k, d - k, d, &unused, &outside, error));
    *rho = outside / seen;
done:
    icl_free(&blocks);
    return status;
}

/* ---- Newton's inverse ---- */

/* Returns ||A||_inf, the largest sum over a row; with the strides exchanged ||A||_1, the largest over a column. */
static double largest_sum(const double *matrix, size_t d, size_t row, size_t column) {
    double largest = 0;

    for (size_t i = 0; i < d; i++) {
        double sum = 0;
        for (size_t j = 0; j < d; j++)
            sum += fabs(matrix[i * row + j * column]);
        largest = fmax(largest, sum);
    }
    return largest;
}

void icl_newton_inverse_start(const double *matrix, size_t d, double *inverse) {
    const double rows = largest_sum(matrix, d, d, 1), columns = largest_sum(matrix, d, 1, d);

    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j < d; j++)
            inverse[i * d + j] = rows > 0 ? matrix[j * d + i] / rows / columns : 0;
}

/* out = shift I - left right. */
static void subtract_product(double shift, const double *left, const double *right, size_t d, double *out) {
    for (size_t i = 0; i < d; i++) {
        memset(out + i * d, 0, d * sizeof *out);
        out[i * d + i] = shift;
        for (size_t k = 0; k < d; k++)
            for (size_t j = 0; j < d; j++)
                out[i * d + j] -= left[i * d + k] * right[k * d + j];
    }
}

void icl_newton_inverse_step(const double *matrix, size_t d, double *inverse, double *work) {
    double *const doubled = work, *const negative = work + d * d;

    subtract_product(2, matrix, inverse, d, doubled);
    subtract_product(0, inverse, doubled, d, negative);
    for (size_t i = 0; i < d * d; i++)
        inverse[i] = -negative[i];
}

void icl_newton_inverse_residual(const double *matrix, const double *inverse, size_t d, double *residual) {
    subtract_product(1, matrix, inverse, d, residual);
}
