/*
 * The start of a training: train.starts. Several runs take a quarter of the steps, on a shortened schedule. The first
 * begins as the training itself would, the next at the best basins that scouts found (iclab/basins.h), and the
 * others, if there are fewer basins, as the first. Each has a seed of its own for its noise and its data, a word of a
 * stream of train.seed (icl_random_seed), so that neighbouring seeds share no start; the first has train.seed itself.
 * The training then begins with the parameters of the run that has the least loss on common sequences, without the
 * largest thousandth.
 */
#ifndef ICLAB_TRAIN_MULTISTART_H
#define ICLAB_TRAIN_MULTISTART_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "iclab/train.h"

/* Returns the number of starts. 1 means the trainer's own start, without runs before. With train.starts = 0 there are
 * several if the trainer is cheap (objective.h) and nothing else says what to start from. */
size_t icl_starts_count(const icl_trainer *trainer);

/* Returns the seed of start `number`, from 0, of a training with this seed. */
uint32_t icl_start_seed(uint32_t seed, size_t number);

/* Callbacks that follow the starts of a training; every member may be NULL. */
typedef struct icl_starts_watch {
    const volatile sig_atomic_t *stop; /* non-zero ends the starts with ICL_ERROR_INTERRUPTED, and changes nothing */
    /* Called every few steps of start `number`, counted from 0, which the trainer `start` runs. */
    void (*report)(void *user, size_t number, const icl_trainer *start);
    void *user; /* handed to report */
} icl_starts_watch;

/* Returns the bytes of the sequences of scouts and of those that starts are compared on; 0 with one start alone. */
double icl_starts_bytes(const icl_trainer *trainer);

/* Runs the starts and gives the trainer, at step 0, the parameters of the best. A run that diverges is passed over; if
 * all do, the trainer keeps its own parameters. */
icl_status icl_trainer_choose_start(icl_trainer *trainer, const icl_starts_watch *watch, icl_error *error);

#endif
