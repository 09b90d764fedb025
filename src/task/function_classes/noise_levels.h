/*
 * The law of a sequence's noise level as a list of levels with probabilities, for sums over what is not known.
 *
 * Levels of fixed:S and choice:S1,S2,… are themselves the list. For sigma ~ U[0, S] it is a quadrature over
 * t = log(sigma / S), d sigma / S = exp(t) dt: what k labels say of sigma has a curvature of at most 2 k in t, so that
 * panels of 4 Gauss-Legendre nodes are 1 / sqrt(2 n) wide. All mass below S exp(-7) = .0009 S stands in one level.
 */
#ifndef ICLAB_TASK_FUNCTION_CLASSES_NOISE_LEVELS_H
#define ICLAB_TASK_FUNCTION_CLASSES_NOISE_LEVELS_H

#include <stddef.h>

#include "iclab/random.h"

/* How many there are for sequences of up to `labels` labels. */
size_t icl_noise_level_count(const icl_random_params *law, size_t labels);

/* Level i: sigma, and its probability in *share; over all i these sum to 1, to 1e-9. */
double icl_noise_level(const icl_random_params *law, size_t labels, size_t i, double *share);

#endif
