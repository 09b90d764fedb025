/* The optimizer of a training run: settings from the recipe, two state vectors, one step. */
#ifndef ICLAB_TRAIN_OPTIMIZER_H
#define ICLAB_TRAIN_OPTIMIZER_H

#include "iclab/ops.h"
#include "iclab/recipe.h"

typedef enum icl_optimizer_kind {
    ICL_OPTIMIZER_ADAM = 0,
    ICL_OPTIMIZER_SGD,
} icl_optimizer_kind;

typedef struct icl_optimizer {
    icl_optimizer_kind kind;                    /* in the order of the words of train.optimizer */
    double beta1, beta2, epsilon, weight_decay; /* Adam */
    double momentum;                            /* SGD */
    double clip;                                /* limit of the gradient's global norm; 0: none */
} icl_optimizer;

icl_status icl_optimizer_read(const icl_recipe *recipe, icl_optimizer *optimizer, icl_error *error);

/* Clips the gradient by its norm (a tensor of one element) and moves the parameters. `step` counts from 1
 * since the states were zeroed. SGD keeps its velocity in the first state. */
icl_status icl_optimizer_step(const icl_optimizer *optimizer, icl_backend *backend, double learning_rate,
                              uint64_t step, icl_tensor parameters, icl_tensor gradient, icl_tensor norm,
                              const icl_tensor states[2], icl_error *error);

#endif
