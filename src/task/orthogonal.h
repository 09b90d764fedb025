/* Inside the task room: orthogonal matrices. */
#ifndef ICLAB_TASK_ORTHOGONAL_H
#define ICLAB_TASK_ORTHOGONAL_H

#include <stddef.h>

/* Makes the rows of matrix [d][d], linearly independent, orthonormal in their order: Gram-Schmidt, run twice for
 * orthogonality to rounding. Of independent normal numbers it makes a uniformly distributed orthogonal matrix (Stewart
 * 1980). With +, -, *, / and sqrt alone, so that the bits are the same on every machine. */
void icl_orthogonalize(size_t dimension, double *matrix);

#endif
