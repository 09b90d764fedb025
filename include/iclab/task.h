/*
 * Tasks: families of in-context regression problems, sampled on the device.
 *
 * A batch is a pure function of (seed, stream, step): bit-identical on every backend and in any order.
 */
#ifndef ICLAB_TASK_H
#define ICLAB_TASK_H

#include <stdbool.h>

#include "iclab/random.h"
#include "iclab/recipe.h"
#include "iclab/tensor.h"

/* A family of tasks with its sizes and laws. */
typedef struct icl_task icl_task;

/* Which random numbers a batch is made from. Training, evaluation and the fitting of baselines use different purposes, so
 * they never share a sequence. */
typedef enum icl_task_purpose {
    ICL_FOR_TRAINING = 0,
    ICL_FOR_EVALUATION,
    ICL_FOR_FITTING,
} icl_task_purpose;

/* Prior knowledge about a task that reference predictors may use. Owned by the task. */
typedef struct icl_task_prior {
    size_t dimension;              /* d */
    size_t context;                /* n */
    const double *weight_root;     /* [d][d], C with w = C g, g ~ N(0, I); NULL: identity */
    const double *covariance_root; /* [d][d], R: x has mean 0 and covariance R R^T; NULL: identity */
    enum { ICL_NOISE_FIXED = 0, ICL_NOISE_UNIFORM, ICL_NOISE_CHOICE } noise; /* the law of sigma */
    double noise_max;   /* ICL_NOISE_UNIFORM: sigma ~ U[0, noise_max] */
    size_t noise_count; /* ICL_NOISE_FIXED (1) and ICL_NOISE_CHOICE: equally likely levels */
    double noise_levels[ICL_MAX_CHOICES]; /* the first noise_count of these */
    double mean_square_noise;             /* E[sigma^2] */
    bool
        nonlinear; /* targets are not <w, x> with a Gaussian w: the reference predictors of baseline.h do not apply */
    size_t subspace; /* k directions of the inputs that targets depend on; 0: all */
    const double *
        subspace_rotation; /* [d][d], orthonormal columns, of which the first k span the subspace; NULL without */
} icl_task_prior;

/* One batch on a backend. batch B, context n, dimension d. It holds tokens, or gram and query: all that a linear transformer sees of
 * the tokens (task.sampler = gram, and then for training alone). The batch owns these and scratch; targets, noise and weights
 * are strided views. Only icl_task_sample may write to a batch, and into its tokens whoever has contexts of their own to predict from. */
typedef struct icl_batch {
    icl_tensor tokens; /* [B, n + 1, d + 1]: (x_i, y_i), last the query (x_t, 0); or absent */
    icl_tensor gram;   /* [B, d + 1, d + 1]: the sum of e_i e_i^T over e_i = (x_i, y_i); absent with tokens */
    icl_tensor query;  /* [B, d + 1]: (x_t, 0); absent with tokens */
    icl_tensor targets; /* [B, 1, 1]: the noiseless <w, x_t>, or f(x_t) */
    icl_tensor noise;   /* [B, 1, 1]: sigma of the sequence */
    icl_tensor
        weights; /* [B, d, 1]: w; of functions the direction that they depend on, [B, k, 1] in a subspace */
    icl_tensor scratch[8]; /* what the task keeps between calls; private */
} icl_batch;

/* Reads the [task] section. ICL_ERROR_INPUT names the key, its value and what was expected. */
ICL_API icl_status icl_task_create(const icl_recipe *recipe, icl_task **task, icl_error *error);
ICL_API void icl_task_destroy(icl_task **task);

/* d, n, and what reference predictors may know. */
ICL_API size_t icl_task_dimension(const icl_task *task);
ICL_API size_t icl_task_context(const icl_task *task);
ICL_API const icl_task_prior *icl_task_get_prior(const icl_task *task);

/* Allocates the tensors of a batch of `size` sequences; icl_task_sample fills it, as often as wanted. The purpose decides what it
 * holds: with task.sampler = gram a batch for training holds Gram matrices; every other batch holds tokens. */
ICL_API icl_status icl_batch_create(const icl_task *task, icl_backend *backend, icl_task_purpose purpose,
                                    size_t size, icl_batch *batch, icl_error *error);
ICL_API void icl_batch_release(icl_batch *batch);
ICL_API icl_status icl_task_sample(const icl_task *task, icl_backend *backend, icl_task_purpose purpose,
                                   uint32_t seed, uint64_t step, icl_batch *batch, icl_error *error);

#endif
