#include "task/orthogonal.h"

#include <math.h>

/* row -= (row . earlier) earlier, for every earlier row. */
static void remove_projections(double *matrix, size_t dimension, size_t row) {
    double *target = matrix + row * dimension;
    for (size_t k = 0; k < row; k++) {
        const double *earlier = matrix + k * dimension;
        double product = 0;
        for (size_t i = 0; i < dimension; i++)
            product += target[i] * earlier[i];
        for (size_t i = 0; i < dimension; i++)
            target[i] -= product * earlier[i];
    }
}

void icl_orthogonalize(size_t dimension, double *matrix) {
    for (size_t row = 0; row < dimension; row++) {
        double *values = matrix + row * dimension;
        for (int pass = 0; pass < 2; pass++) {
            double square = 0;
            remove_projections(matrix, dimension, row);
            for (size_t i = 0; i < dimension; i++)
                square += values[i] * values[i];
            for (size_t i = 0; i < dimension; i++)
                values[i] /= sqrt(square);
        }
    }
}
