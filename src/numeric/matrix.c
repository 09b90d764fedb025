#include "numeric/matrix.h"

#include <math.h>
#include <string.h>

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
