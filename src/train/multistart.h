/*
 * Where a training begins: train.starts. So many runs of a quarter of the steps, on a schedule of their own that ends
 * there, each with a seed of its own for its initial parameters and its data: the first with train.seed, the others
 * with words of a stream of train.seed (icl_random_seed), so that neighbouring seeds share no start. The training then
 * begins with the parameters of the one whose loss on common sequences is least.
 */
#ifndef ICLAB_TRAIN_MULTISTART_H
#define ICLAB_TRAIN_MULTISTART_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "iclab/train.h"

/* How many the recipe asks for: 1 means the trainer's own start, without runs before. With train.starts = 0 more where
 * the trainer is cheap (polish.h) and nothing else says what to start from. */
size_t icl_starts_count(const icl_trainer *trainer);

/* The seed of start `number`, from 0, of a training with this seed. */
uint32_t icl_start_seed(uint32_t seed, size_t number);

/* The caller that follows the starts of a training; every member may be NULL. */
typedef struct icl_starts_watch {
    const volatile sig_atomic_t *stop; /* non-zero ends them with ICL_ERROR_INTERRUPTED, and changes nothing */
    /* Called after each few steps of start `number`, from 0, which `start` trains. */
    void (*report)(void *user, size_t number, const icl_trainer *start);
    void *user; /* handed to report */
} icl_starts_watch;

/* The bytes of the sequences that they are compared on; 0 where there is one alone. */
double icl_starts_bytes(const icl_trainer *trainer);

/* Runs them and gives the trainer, at step 0, the parameters of the best. A run that diverges is passed over; where all
 * do, the trainer keeps its own. */
icl_status icl_trainer_choose_start(icl_trainer *trainer, const icl_starts_watch *watch, icl_error *error);

#endif
