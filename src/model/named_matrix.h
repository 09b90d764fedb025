/* A learned matrix by its name, in double. */
#ifndef ICLAB_MODEL_NAMED_MATRIX_H
#define ICLAB_MODEL_NAMED_MATRIX_H

#include "iclab/model.h"
#include "iclab/status.h"

/* Copies the named parameter, a matrix, from a model's flat vector. ICL_ERROR_INPUT if the model has none of that name,
 * or of another size than rows x columns. */
icl_status icl_matrix_of_model(const icl_model *model, const float *values, const char *name, size_t rows,
                               size_t columns, double *matrix, icl_error *error);

#endif
