/* Inside the task room: the law of the inputs before their covariance, the key task.inputs. */
#ifndef ICLAB_TASK_INPUTS_H
#define ICLAB_TASK_INPUTS_H

#include "iclab/recipe.h"
#include "iclab/tensor.h"
#include "task/task.h"

typedef enum icl_input_law {
    ICL_INPUTS_NORMAL = 0, /* N(0, I) */
    ICL_INPUTS_UNIFORM,    /* each coordinate on [-A, A] */
    ICL_INPUTS_SPHERE,     /* uniform on the unit sphere */
    ICL_INPUTS_GAMMA,      /* r times that, r^2 ~ Gamma(shape, scale): Ahn et al. 2023 (2310.01082), section 3 */
} icl_input_law;

typedef struct icl_inputs {
    icl_input_law law;
    double limit;        /* A */
    double shape, scale; /* of the gamma distribution */
    /* The variance of each coordinate: 1, A^2 / 3, 1 / d, shape scale / d; the covariance is this times I. */
    double variance;
} icl_inputs;

extern const icl_recipe_group icl_inputs_keys;

/* Reads task.inputs. */
icl_status icl_inputs_read(const icl_recipe *recipe, size_t dimension, icl_inputs *inputs, icl_error *error);

/* Whether batches need a tensor [B, n + 1, 1] of normals and a table [ICL_CHI_PIECES, ICL_CHI_TERMS] for their radii;
 * and what to write into the table, once. */
bool icl_inputs_have_radii(const icl_inputs *inputs);
icl_status icl_inputs_write_table(const icl_inputs *inputs, icl_tensor table, icl_error *error);

/* Fills out [B, n + 1, d], with strict ops alone. normals and table: as above, or zeroed. */
icl_status icl_inputs_sample(const icl_inputs *inputs, icl_backend *backend, icl_task_purpose purpose, uint32_t seed,
                             uint64_t step, icl_tensor out, icl_tensor normals, icl_tensor table, icl_error *error);

#endif
