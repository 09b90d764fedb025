/* A model that takes one step of gradient descent on the products of two coordinates, by hand. */
#ifndef ICLAB_PAPERS_VERSATILE_QUADRATIC_H
#define ICLAB_PAPERS_VERSATILE_QUADRATIC_H

#include <stdbool.h>
#include <stdint.h>

#include "iclab/model.h"
#include "task/quadratic.h"

/* Of the recipe `quadratic`. */
enum { ICL_STEP_D = 3, ICL_STEP_N = 20 };

/* Writes a model's flat vector: two layers of linear attention with quadratic feed-forward parts, as the recipe has
 * them, whose prediction is that of icl_quadratic_step. What is not needed is 0 at the end of its path, and elsewhere
 * as the recipe begins with this seed, so that it can learn. False where the model has no room for it. */
bool icl_versatile_construct_step(const icl_model *model, const icl_quadratic_step *lengths, uint32_t seed,
                                  float *values);

#endif
