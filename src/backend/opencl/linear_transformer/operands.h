/* What a step of a linear transformer reads and writes of the team's memory. */
#ifndef ICLAB_BACKEND_OPENCL_LINEAR_TRANSFORMER_OPERANDS_H
#define ICLAB_BACKEND_OPENCL_LINEAR_TRANSFORMER_OPERANDS_H

#include "backend/opencl/linear_transformer/composer.h"

#define ICL_LINEAR_OPERANDS 6 /* of a step, at most */

typedef struct icl_linear_operand {
    cl_uint *place;  /* in the step */
    bool is_read;    /* before anything is written */
    cl_uint written; /* elements */
    bool may_be_far; /* it need not stand in local memory */
} icl_linear_operand;

/* Returns how many there are. Parameters and gradients are not among them. */
size_t icl_linear_operands_of(step *s, icl_linear_operand operands[ICL_LINEAR_OPERANDS]);

#endif
