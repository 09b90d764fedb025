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

icl_status icl_matrix_of_model(const icl_model *model, const float *values, const char *name, size_t rows,
                               size_t columns, double *matrix, icl_error *error) {
    for (size_t i = 0; i < icl_model_parameter_count(model); i++) {
        const icl_parameter_info *info = icl_model_parameter(model, i);
        if (strcmp(info->name, name) != 0)
            continue;
        if (info->rank != 2 || info->shape[0] != rows || info->shape[1] != columns)
            return icl_fail(error, ICL_ERROR_INPUT, "%s is no %zu x %zu matrix in this model", name, rows, columns);
        for (size_t k = 0; k < info->count; k++)
            matrix[k] = (double)values[info->offset + k];
        return ICL_OK;
    }
    return icl_fail(error, ICL_ERROR_INPUT, "%s: not among the model's parameters", name);
}
