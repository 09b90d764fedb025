/* Inside the task room: the covariance of the inputs and of the weights, as matrix roots. */
#ifndef ICLAB_TASK_COVARIANCE_H
#define ICLAB_TASK_COVARIANCE_H

#include <stdint.h>

#include "iclab/recipe.h"

/*
 * Sigma = U diag(lambda) U^T, with U orthogonal.
 *     R = U diag(sqrt(lambda)):      x = R g has covariance Sigma for g ~ N(0, I)
 *     C = U diag(1 / sqrt(lambda)):  w = C g has covariance Sigma^-1
 * All matrices are [d][d], row-major. Entries are rounded to float, because that is what the devices multiply by; the
 * doubles hold the rounded values. Identity covariance: everything is NULL.
 */
typedef struct icl_covariance {
    double *input_root;     /* R */
    double *precision_root; /* C */
} icl_covariance;

/* task.covariance and what it brings into use; task.rotation_seed, which others read, too. */
extern const icl_recipe_group icl_covariance_keys, icl_rotation_keys;

/* Reads task.covariance, task.rotate and task.rotation_seed. Release with icl_covariance_release, also after a
 * failure. */
icl_status icl_covariance_read(const icl_recipe *recipe, size_t dimension, icl_covariance *covariance,
                               icl_error *error);
void icl_covariance_release(icl_covariance *covariance);

/* A uniformly distributed orthogonal matrix [d][d]; a seed gives the same bits on every machine. */
icl_status icl_random_rotation(size_t dimension, uint32_t seed, double **rotation, icl_error *error);

#endif
