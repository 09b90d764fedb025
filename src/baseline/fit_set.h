/* Drawing the sequences that constants are fitted on. */
#ifndef ICLAB_BASELINE_FIT_SET_H
#define ICLAB_BASELINE_FIT_SET_H

#include "baseline/estimator.h"

/* Draws `count` sequences of the task for ICL_FOR_FITTING, on a host backend opened for this, and decomposes the pairs
 * before position `context` of each: sets[b] is for estimators of basis b; input_basis = false leaves the input basis
 * empty. Release with icl_fit_sets_release, also after a failure. */
icl_status icl_fit_sets_draw(const icl_task *task, size_t context, size_t count, uint32_t seed, bool input_basis,
                             icl_fit_set sets[ICL_BASIS_COUNT], icl_error *error);
/* The same for sequences and predictions that are given: filters are to come close to these. A sequence or prediction
 * that is not finite is left out. */
icl_status icl_fit_sets_imitate(const icl_task_prior *prior, const icl_imitation *of, bool input_basis,
                                icl_fit_set sets[ICL_BASIS_COUNT], icl_error *error);
/* The bytes that icl_fit_sets_draw takes at its fullest, both bases and a piece of the sequences on device and host. */
double icl_fit_sets_bytes(const icl_task *task, size_t count);
/* Sigma of each sequence of the batch: its side tensor noise, or the prior's one level; 0 without a prior (NULL).
 * ICL_ERROR_INPUT where neither says it. */
icl_status icl_batch_noise(const icl_batch *batch, const icl_task_prior *prior, float *noise, icl_error *error);

void icl_fit_sets_release(icl_fit_set sets[ICL_BASIS_COUNT]);

#endif
