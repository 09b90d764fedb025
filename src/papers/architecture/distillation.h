/*
 * Softmax attention distilled into the learned feature maps of linear attention, layer by layer: with a teacher's
 * queries, keys and values, o_t what its softmax attention reads, and phi(x) = relu(W x + b) for each head,
 *
 *     o'_t = sum_s phi(q_t) . phi(k_s) v_s / (phi(q_t) . sum_s phi(k_s) + 1e-6)
 *
 * is brought close to o by Adam on the mean of |o' - o|^2. Each layer sees what the teacher's layers before it give.
 */
#ifndef ICLAB_PAPERS_ARCHITECTURE_DISTILLATION_H
#define ICLAB_PAPERS_ARCHITECTURE_DISTILLATION_H

#include "papers/reproduce.h"

typedef struct icl_distillation_params {
    icl_trainer *teacher;     /* the model whose softmax layers are distilled; it has no loops */
    const icl_model *student; /* as the teacher, with mixers "linear", model.feature_map = learned:M and normalizer */
    size_t steps, batch;      /* training steps, and sequences in each */
    double learning_rate;     /* rate at the first step; it falls along half a cosine */
    uint32_t seed;            /* seed of the sequences */
} icl_distillation_params;

/* Copies the parameters that both models have, by name, between vectors of icl_model_size numbers; the others stay as
 * they are. ICL_ERROR_INPUT if a name has two shapes. */
icl_status icl_distillation_copy(const icl_model *from, const float *from_values, const icl_model *to, float *to_values,
                                 icl_error *error);

/* Trains the maps in `values` [icl_model_size of the student]; the other parameters stay. *before and *after receive
 * sum |o' - o|^2 / sum |o|^2 over all layers on sequences drawn for evaluation. */
icl_status icl_distillation_run(icl_reproducing *run, const icl_distillation_params *params, float *values,
                                double *before, double *after, icl_error *error);

#endif
