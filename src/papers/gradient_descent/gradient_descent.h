/* Shared by the reproductions of "Transformers learn in-context by gradient descent" (von Oswald et al. 2022, arXiv
 * 2212.07677). */
#ifndef ICLAB_PAPERS_GRADIENT_DESCENT_GRADIENT_DESCENT_H
#define ICLAB_PAPERS_GRADIENT_DESCENT_GRADIENT_DESCENT_H

#include <stddef.h>

#include "iclab/model.h"
#include "probe/descent.h"

enum { ICL_GD_DIMENSION = 10, ICL_GD_CONTEXT = 10 };

/* Writes the weights of gradient descent into every part of the model, whatever its form: P's diagonal is (-input …
 * -input, -rate), Q's (n … n, 0), since models divide their sums by n; in the sparse form A = -rate n I. A tied model
 * takes the first step's rates. */
void icl_gd_construct(const icl_model *model, const icl_descent *descent, size_t d, size_t n, float *values);

#endif
