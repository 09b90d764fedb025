/* The end of a training: train.polish. iclab/polish.h says what it does. */
#ifndef ICLAB_TRAIN_POLISH_H
#define ICLAB_TRAIN_POLISH_H

#include <signal.h>

#include "iclab/polish.h"
#include "iclab/train.h"

/* Returns whether steps are so cheap, and the budget so large, that work which costs as much again is worth it by
 * default: for a linear transformer with ops of its own and few parameters, on the regression of the recipe. */
bool icl_trainer_is_cheap(const icl_trainer *trainer);

/* Returns whether the recipe asks for a polish; train.polish = auto does if the trainer is cheap. */
bool icl_polish_is_wanted(const icl_trainer *trainer);

/* Computes the bytes of the sequences that a polish holds, and of their scores; 0 if there is no polish. */
icl_status icl_polish_measure_memory(const icl_trainer *trainer, double *bytes, icl_error *error);

/* Polishes the trainer's parameters, on the host whatever its device is. The result, rounded to floats, is a function
 * of the recipe and of the parameters, with the same bits for any number of threads. The optimizer's state does not
 * change. A non-zero *stop, which may be NULL, ends it with ICL_ERROR_INTERRUPTED and changes nothing. */
icl_status icl_trainer_polish(icl_trainer *trainer, const volatile sig_atomic_t *stop, icl_polish_result *result,
                              icl_error *error);

#endif
