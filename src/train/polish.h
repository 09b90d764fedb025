/* How a training ends: train.polish. iclab/polish.h says what it does. */
#ifndef ICLAB_TRAIN_POLISH_H
#define ICLAB_TRAIN_POLISH_H

#include <signal.h>

#include "iclab/polish.h"
#include "iclab/train.h"

/* Whether steps are so cheap, and the budget so large, that what costs as much again is worth it without being asked
 * for: of a linear transformer with ops of its own and few parameters, on the regression of the recipe. */
bool icl_trainer_is_cheap(const icl_trainer *trainer);

/* Whether the recipe asks for a polish: with train.polish = auto where the trainer is cheap. */
bool icl_polish_is_wanted(const icl_trainer *trainer);

/* The bytes of the sequences that a polish holds, and of their scores; 0 where the recipe asks for none. */
icl_status icl_polish_measure_memory(const icl_trainer *trainer, double *bytes, icl_error *error);

/* Polishes the trainer's parameters, on the host whatever its device is: a function of the recipe and of the
 * parameters, which become floats, the same bits for any number of threads. The optimizer's state stays. *stop, which
 * may be NULL, ends it with ICL_ERROR_INTERRUPTED and changes nothing. */
icl_status icl_trainer_polish(icl_trainer *trainer, const volatile sig_atomic_t *stop, icl_polish_result *result,
                              icl_error *error);

#endif
