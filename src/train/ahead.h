/*
 * Draws the next batch on the host while the device computes a step.
 *
 * One other thread draws: batch number n + 1 while step n runs, from the same counters as the trainer itself would, so
 * that the bits are the same. It only reads the task and writes to memory of its own; the trainer's thread alone calls
 * the device.
 */
#ifndef ICLAB_TRAIN_AHEAD_H
#define ICLAB_TRAIN_AHEAD_H

#include "iclab/task.h"

typedef struct icl_ahead icl_ahead;

/* The number of a batch that no step reaches. */
#define ICL_NO_BATCH UINT64_MAX

/* Creates what draws batches of this task for training, in the shapes of `batch`, which stays the caller's. */
icl_status icl_ahead_create(const icl_task *task, uint32_t seed, const icl_batch *batch, icl_ahead **ahead,
                            icl_error *error);

/* Waits for the thread. NULL is allowed. */
void icl_ahead_destroy(icl_ahead **ahead);

/* Writes batch `number` to `batch`, then has the thread draw batch `next`, unless it is ICL_NO_BATCH. A
 * batch other than the one that was drawn
 * ahead is drawn here; an error of the thread is returned by the call that asks for its batch. */
icl_status icl_ahead_take(icl_ahead *ahead, uint64_t number, uint64_t next, const icl_batch *batch, icl_error *error);

#endif
