#include "numeric/newton_inverse.h"

#include <math.h>
#include <string.h>

/* ||A||_inf, the largest sum over a row, or with the strides changed ||A||_1, over a column. */
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
