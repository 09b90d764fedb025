#include "papers/architecture/architecture.h"

#include <string.h>

icl_status icl_architecture_copy(const icl_model *from, const float *from_values, const icl_model *to, float *to_values,
                                 icl_error *error) {
    for (size_t i = 0; i < icl_model_parameter_count(from); i++)
        for (size_t j = 0; j < icl_model_parameter_count(to); j++) {
            const icl_parameter_info *a = icl_model_parameter(from, i), *b = icl_model_parameter(to, j);
            if (strcmp(a->name, b->name) != 0)
                continue;
            if (a->rank != b->rank || memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape) != 0)
                return icl_fail(error, ICL_ERROR_INPUT, "parameter %s: expected the same shape in both models",
                                a->name);
            memcpy(to_values + b->offset, from_values + a->offset, a->count * sizeof *to_values);
        }
    return ICL_OK;
}
