/* A training session: trains in a run folder, with metrics, periodic evaluation and checkpoints, until the budget ends or it is asked to
 * stop. */
#ifndef ICLAB_LAB_SESSION_H
#define ICLAB_LAB_SESSION_H

#include <signal.h>
#include <stdbool.h>

#include "core/ranks.h"
#include "core/status.h"
#include "iclab/evaluate.h"

/* The columns of metrics.csv; the last is empty where no evaluation was due. */
#define ICL_METRICS_HEADER "step,loss,gradient_norm,learning_rate,eval_half_adjusted"

/* What a session reports after each few steps. */
typedef struct icl_session_progress {
    uint64_t step, total_steps;
    double loss; /* mean over the steps since the last report */
    double learning_rate;
    uint64_t skipped_steps, dropped_sequences; /* since step 0: see iclab/train.h */
    double half_adjusted;                      /* of the last periodic evaluation; NaN before the first */
    bool evaluated;                            /* just now */
    double steps_per_second;                   /* lately */
    double seconds_left;
} icl_session_progress;

typedef struct icl_session_params {
    icl_backend *backend;
    const icl_recipe *recipe;
    const char *folder; /* made by icl_run_create */
    bool resume;        /* go on from the folder's checkpoint, or from the start if it has none yet */
    const icl_ranks *
        ranks; /* that train the model together, all by the same calls; rank 0 alone sees the folder. NULL: none */
    const volatile sig_atomic_t *stop; /* set to non-zero to stop after the steps in flight; may be NULL */
    void (*report)(void *user, const icl_session_progress *progress); /* may be NULL */
    void *user;
} icl_session_params;

/* Creates the trainer: restored when resuming, else at its start, which train.init may have in a file (with ranks on the first alone:
 * icl_session_train takes its state to the others). Nothing is written: a recipe or checkpoint that is refused leaves no trace. */
icl_status icl_session_prepare(const icl_session_params *params, icl_trainer **trainer, icl_error *error);

/* Trains. The folder holds a checkpoint of the last step afterwards, except after ICL_ERROR_DIVERGED, whose message names the last
 * checkpoint that stands. ICL_ERROR_INTERRUPTED when asked to stop before the budget ended. metrics.csv is the same, byte for byte,
 * however often the run was stopped and resumed. */
icl_status icl_session_train(const icl_session_params *params, icl_trainer *trainer, icl_error *error);

#endif
