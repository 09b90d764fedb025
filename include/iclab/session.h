/* A training session: trains in a run folder, with metrics, periodic evaluation and checkpoints, until the budget ends
 * or it is asked to stop. */
#ifndef ICLAB_SESSION_H
#define ICLAB_SESSION_H

#include <signal.h>
#include <stdbool.h>

#include "iclab/evaluate.h"
#include "iclab/ranks.h"
#include "iclab/status.h"

ICL_C_BEGIN

/* The columns of metrics.csv. The last one is empty if no evaluation was due; for a task without an oracle it is the
 * mean loss on the evaluation's sequences (icl_evaluator_loss). */
#define ICL_METRICS_HEADER "step,loss,gradient_norm,learning_rate,eval_half_adjusted"

/* The progress that a session reports after every few steps. */
typedef struct icl_session_progress {
    uint64_t step, total_steps;                /* steps done, and in the budget; before the training: of all starts */
    size_t start, starts;                      /* the run of train.starts, from 1, and how many; 0: the training */
    double loss;                               /* mean over the steps since the last report */
    double learning_rate;                      /* rate of the last step */
    uint64_t skipped_steps, dropped_sequences; /* since step 0 of that run: see iclab/train.h */
    double evaluation;                         /* value of the last periodic one (icl_evaluator_loss); NaN before it */
    bool adjusted;                             /* it is half of an adjusted loss; otherwise the task's mean loss */
    bool evaluated;                            /* just now */
    double steps_per_second;                   /* lately */
    double seconds_left;                       /* until the end of the training, at that rate */
} icl_session_progress;

/* A program's own measure, in place of the adjusted loss at every periodic evaluation: smaller is better. */
typedef struct icl_session_measure {
    /* Writes the value of the measure for the trainer. */
    icl_status (*of)(void *user, icl_trainer *trainer, double *value, icl_error *error);
    void *user; /* handed to it */
} icl_session_measure;

/* A row of metrics.csv, under the names of its columns. */
typedef struct icl_session_row {
    uint64_t step;             /* counted from 1 */
    double loss;               /* loss of the step's batch */
    double gradient_norm;      /* before clipping */
    double learning_rate;      /* rate of the step */
    double eval_half_adjusted; /* NaN if no evaluation was due */
} icl_session_row;

/* Callbacks that receive the rows of metrics.csv as they come. */
typedef struct icl_session_follower {
    void (*row)(void *user, const icl_session_row *row); /* in the order of steps */
    void (*flush)(void *user);                           /* after the rows of a few steps */
    void *user;                                          /* handed to both */
} icl_session_follower;

/* The arguments of a session: what to train, and where. */
typedef struct icl_session_params {
    icl_backend *backend;     /* trains it */
    const icl_recipe *recipe; /* task, model and training */
    const char *folder;       /* made by icl_run_create */
    bool resume;              /* continue from the folder's checkpoint, or begin at the start if it has none yet */
    /* Ranks that train the model together, all by the same calls; only rank 0 sees the folder. NULL: none. */
    const icl_ranks *ranks;
    const volatile sig_atomic_t *stop; /* set to non-zero to stop after the steps in flight; may be NULL */
    void (*report)(void *user, const icl_session_progress *progress); /* may be NULL */
    void *user;                                                       /* handed to the calls above */
    bool has_start;                     /* the trainer was given parameters to start from: train.starts is not tried */
    const icl_session_measure *measure; /* used by periodic evaluations; NULL: half of the adjusted loss */
    const icl_session_follower *follower; /* used by rank 0; may be NULL */
} icl_session_params;

/* Creates the trainer: restored when resuming, otherwise at its start, which train.init may read from a file (with
 * ranks, only on the first: icl_session_train takes its state to the others). Nothing is written: a recipe or
 * checkpoint that is refused leaves no trace. */
ICL_API icl_status icl_session_prepare(const icl_session_params *params, icl_trainer **trainer, icl_error *error);

/* The largest memory that a training holds at once, in bytes: the sum of all members. */
typedef struct icl_session_memory {
    icl_step_memory step; /* a step of the training */
    /* Further device memory, as far as the device has it: a piece of the sequences of an evaluation, and the trainer
     * that tries train.starts. */
    double device;
    double host; /* host memory besides tensors: an evaluation's, or that of train.starts or train.polish if larger */
} icl_session_memory;

/* Measures it before the first step, or between two: it draws and predicts one piece of an evaluation, and no later
 * step depends on it. ICL_ERROR_INPUT if a step or, on a device of the host, all of it takes more memory than there is,
 * and ICL_ERROR_MEMORY if a piece does not fit even with a single sequence predicted at a time. */
ICL_API icl_status icl_session_measure_memory(icl_trainer *trainer, const icl_recipe *recipe,
                                              icl_session_memory *memory, icl_error *error);

/* Returns the sum of all members. */
ICL_API double icl_session_memory_of(const icl_session_memory *memory);

/* Trains, for train.steps or until train.stop_at or train.stop_after ends it. The folder holds a checkpoint of the last
 * step afterwards, except after ICL_ERROR_DIVERGED, whose message names the last checkpoint that stands; a training
 * that skipped every step ends in this way, too. ICL_ERROR_INTERRUPTED when asked to stop before the budget ended.
 * metrics.csv is the same, byte for byte, however often the run was stopped and resumed. */
ICL_API icl_status icl_session_train(const icl_session_params *params, icl_trainer *trainer, icl_error *error);

ICL_C_END

#endif
