#include "model/named_matrix.h"

#include <string.h>

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
