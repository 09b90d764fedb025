/* Gaussian elimination for expectations that share no code with the library. */
#ifndef ICLAB_TESTS_ELIMINATE_H
#define ICLAB_TESTS_ELIMINATE_H

#include <math.h>
#include <stddef.h>

static inline void eliminate_swap(double *a, double *b) {
    const double kept = *a;
    *a = *b;
    *b = kept;
}

/* Solves matrix x = right with the largest pivot of each column. matrix: [n][n], row-major, `stride` numbers from row
 * to row; it is destroyed. right: [n]; the solution replaces it. */
static inline void eliminate(size_t n, size_t stride, double *matrix, double *right) {
    for (size_t k = 0; k < n; k++) {
        size_t pivot = k;
        for (size_t i = k + 1; i < n; i++)
            pivot = fabs(matrix[i * stride + k]) > fabs(matrix[pivot * stride + k]) ? i : pivot;
        for (size_t j = 0; j < n; j++)
            eliminate_swap(&matrix[k * stride + j], &matrix[pivot * stride + j]);
        eliminate_swap(&right[k], &right[pivot]);
        for (size_t i = k + 1; i < n; i++) {
            const double factor = matrix[i * stride + k] / matrix[k * stride + k];
            for (size_t j = k; j < n; j++)
                matrix[i * stride + j] -= factor * matrix[k * stride + j];
            right[i] -= factor * right[k];
        }
    }
    for (size_t k = n; k-- > 0;) {
        for (size_t j = k + 1; j < n; j++)
            right[k] -= matrix[k * stride + j] * right[j];
        right[k] /= matrix[k * stride + k];
    }
}

#endif
