/* Rounding that differs on purpose, for tests (build option `perturbed`, `tools/check perturbed`). */
#ifndef ICLAB_BACKEND_PERTURB_H
#define ICLAB_BACKEND_PERTURB_H

#include "backend/contract.h"

/*
 * Multiplies each element that the op wrote by 1 + r eps, where eps is the distance from 1 to the next element and r is
 * one of -2, -1, 0, 1, 2: a hash of the seed, the op and the element's bits. So equal results of an op stay equal, and
 * whoever repeats a computation repeats its bits; what takes another way gets other ones. The seed is the number in the
 * environment variable ICLAB_PERTURB; without it nothing changes. Ops and kinds that round in one way only are left
 * alone: strict ops, copies, sums and products of two elements, maxima; and so is the optimizer's step, whose gradient
 * has been perturbed already. Backends of the host alone: the elements are read in memory.
 * Costs a pass over the outputs.
 */
void icl_perturb(const icl_backend *backend, icl_op op, const void *params, const icl_tensor *operands);

#endif
