/* Muon (Jordan and others 2024): the steps of hidden matrices are orthogonalised, all other parameters keep Adam's. */
#ifndef ICLAB_TRAIN_MUON_H
#define ICLAB_TRAIN_MUON_H

#include "iclab/model.h"
#include "iclab/ops.h"

/* The matrices that a model marks, and scratch memory for their steps; it carries nothing from step to step. */
typedef struct icl_muon icl_muon;

/* Creates it for a model that marks at least one hidden matrix and outlives it. */
icl_status icl_muon_create(icl_backend *backend, const icl_model *model, icl_muon **muon, icl_error *error);
void icl_muon_destroy(icl_muon **muon);

/* Keeps the parameters [N] and the first moment [N] as they are before Adam's step. */
icl_status icl_muon_keep(icl_muon *muon, icl_tensor parameters, icl_tensor moment, icl_error *error);

/*
 * Replaces what Adam's step with `adam` did to the matrices W [m, n] since icl_muon_keep. With M' and M its first
 * moment before and after, b its decay and g the clipped gradient, M = b M' + (1 - b) g:
 *     D = b M + (1 - b) g = (1 + b) M - b M'                                     Nesterov's momentum
 *     W = W - rate (decay W + 0.2 sqrt(max(m, n)) orthogonal(D))
 * Where `norm` [1], the gradient's, is infinite or NaN, W stays.
 */
icl_status icl_muon_step(icl_muon *muon, const icl_adam_params *adam, icl_tensor norm, icl_tensor parameters,
                         icl_tensor moment, icl_error *error);

#endif
