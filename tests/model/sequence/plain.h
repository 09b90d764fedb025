/* Helpers of plain loops over tokens in double: a model's parameters by name, and products with them. */
#ifndef ICLAB_TESTS_MODEL_SEQUENCE_PLAIN_H
#define ICLAB_TESTS_MODEL_SEQUENCE_PLAIN_H

#include "fixture.h"

/* Returns the parameter of that name among the values of all parameters; NULL: none. */
static inline const double *parameters_of(const icl_model *model, const double *values, const char *name) {
    for (size_t i = 0; i < icl_model_parameter_count(model); i++)
        if (strcmp(icl_model_parameter(model, i)->name, name) == 0)
            return values + icl_model_parameter(model, i)->offset;
    return NULL;
}

/* Returns column j of x W, W [inputs][outputs]. */
static inline double column(const double *x, const double *matrix, size_t inputs, size_t outputs, size_t j) {
    double sum = 0;
    for (size_t i = 0; i < inputs; i++)
        sum += x[i] * matrix[i * outputs + j];
    return sum;
}

#endif
