/*
 * A batch on the tape in parts, for models whose family asks for it (sequences_at_once).
 *
 * A batch of B sequences has P parts, P = min(64, B / sequences_at_once), whatever the number of threads. A part takes
 * its sequences `sequences_at_once` at a time and adds up their gradients in this order; the sum over the parts is that
 * of icl_reduce. So the bits do not depend on who did which part.
 */
#ifndef ICLAB_TRAIN_PARTS_H
#define ICLAB_TRAIN_PARTS_H

#include "train/gradient.h"

typedef struct icl_parts icl_parts;

/* *parts stays NULL where batches are computed as a whole: on devices, and for families that do not ask. */
icl_status icl_parts_create(icl_backend *backend, const icl_model *model, icl_parts **parts, icl_error *error);
void icl_parts_destroy(icl_parts **parts);

/* Whether a batch of this size has at least two parts. parts may be NULL. */
bool icl_parts_divide(const icl_parts *parts, size_t batch);

/* The bytes of the gradients, of N = `size` parameters, that all parts of a batch and all workers have. */
double icl_parts_gradient_bytes(const icl_parts *parts, size_t batch, size_t size);

/* As icl_differentiate and icl_predict_batch, for a batch that is divided. */
icl_status icl_parts_differentiate(icl_parts *parts, const icl_differentiation *what, icl_tensor *losses,
                                   icl_error *error);
icl_status icl_parts_predict(icl_parts *parts, const icl_differentiation *what, icl_tensor *outputs, icl_error *error);

#endif
