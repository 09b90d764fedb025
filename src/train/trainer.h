/*
 * The inside of a trainer, in three parts: what is trained, its state, and how it is shared.
 *
 * trainer.c creates a trainer and runs its steps, those of Muon, too. slices.c computes the gradient of a step,
 * checkpoint.c moves the state elsewhere, memory.c measures. Polishing (objective.h) and several starts (multistart.h)
 * call a trainer, which knows nothing of them but their keys.
 */
#ifndef ICLAB_TRAIN_TRAINER_H
#define ICLAB_TRAIN_TRAINER_H

#include "core/threads.h"
#include "iclab/ranks.h"
#include "iclab/status.h"
#include "iclab/train.h"
#include "task/draws.h"
#include "train/gradient.h"
#include "train/settings.h"

/* The number of steps that are queued before the host reads their losses. If as many in a row are skipped, the training
 * has diverged. */
#define ICL_TRAIN_CHUNK 50

/* The number of a batch that no step reaches. */
#define ICL_NO_BATCH UINT64_MAX

/* The layout of icl_trainer_state.history, which keeps the measures of icl_update_step for each step of a chunk on the
 * device. */
enum {
    ICL_HISTORY_LOSS = 0, /* of a step's measures */
    ICL_HISTORY_NORM,     /* of the gradient, before clipping */
    ICL_HISTORY_DROPPED,  /* sequences left out */
    ICL_HISTORY_MEASURES,
    ICL_HISTORY_LENGTH = ICL_TRAIN_CHUNK * ICL_HISTORY_MEASURES,
};

/* The matrices that a model marks for Muon, and scratch memory; nothing is carried from step to step. */
typedef struct icl_muon icl_muon;

/* What is trained; it does not change during the training. */
typedef struct icl_training_problem {
    icl_trainer_parts parts;
    icl_recipe *recipe;
    icl_task *task;
    icl_model *model;
    icl_training_settings settings;
    icl_gradient_plan plan;
    icl_tensor decays; /* [N]: 0 for parameters that do not decay; absent if all may or none does */
} icl_training_problem;

/* The host's counts of what went wrong; part of a checkpoint. */
typedef struct icl_mishaps {
    uint64_t skipped_steps, dropped_sequences;
    uint64_t skipped_in_a_row; /* up to the last step */
} icl_mishaps;

/* A batch that another thread draws on the host while the device computes a step: from the same counters as the
 * trainer itself would, so that its bits are the same. The thread only reads the task and writes to this. */
typedef struct icl_ahead {
    icl_threads *team; /* NULL: batches are drawn when their steps begin */
    const icl_training_problem *problem;
    icl_host_batch host;
    uint64_t number; /* of the batch */
    bool is_drawn;   /* or its failure is known */
    icl_status status;
    icl_error error;
} icl_ahead;

/* The state of the training. What comes next depends only on the first six members, which a checkpoint holds. */
typedef struct icl_trainer_state {
    uint64_t step;         /* steps done */
    icl_tensor parameters; /* [N], the model's flat vector */
    icl_tensor moments[2]; /* [N], the optimizer's */
    icl_tensor threshold;  /* [1]: where sequences' gradients are cut; 0 before step 1; absent without clipping */
    icl_tensor average;    /* [N], of the parameters after each step; absent with train.average = 0 */
    icl_mishaps mishaps;

    bool diverged;              /* the state is of no use: it is neither trained further nor saved */
    uint64_t start;             /* the start that was chosen, from 1; 0: the trainer's own */
    icl_basins_seen seen;       /* by the scouts of the starts */
    icl_polish_result polished; /* zero: not polished */

    icl_batch batch;            /* of B / slices sequences */
    uint64_t batch_number;      /* of the current batch; ICL_NO_BATCH: none is drawn yet */
    icl_ahead ahead;            /* the next one */
    size_t batch_bytes;         /* of its tensors */
    icl_tensor gradient;        /* [N], of the last step */
    icl_tensor sequence_losses; /* [B], of the last step, if the plan keeps losses */
    icl_tensor sequence_norms;  /* [B], of each sequence's gradient, if there is a threshold */

    icl_muon *muon; /* NULL but for train.optimizer = muon */

    icl_tensor history;    /* [ICL_HISTORY_LENGTH] */
    icl_tensor square_sum; /* [1]: of the parameters after a chunk of steps, to see whether all are finite */
    double *values;        /* [N]: these parameters, for other ranks, or where that sum is not finite */
    float *losses, *norms; /* of the steps of the last run, two halves of one allocation */
    size_t loss_count, loss_capacity, finite_losses;
    double loss, gradient_norm, learning_rate; /* of icl_train_progress */
} icl_trainer_state;

/* How the training is shared among ranks. */
typedef struct icl_sharing {
    const icl_ranks *ranks; /* the ranks that share the slices; NULL: none */
    icl_status failure;     /* of this rank, not yet known to the others */
    icl_error failure_error;

    /* Only with several slices: */
    size_t slices, sequences, parameters; /* sequences: of a slice; parameters: N */
    size_t width;                         /* of a record */
    double *records;                      /* [slices][width]: see slices.c */
    double *combined;                     /* [max(N, B)] */
} icl_sharing;

struct icl_trainer {
    icl_backend *backend;
    icl_differentiator *differentiator;
    icl_training_problem problem;
    icl_trainer_state state;
    icl_sharing sharing;
};

/* Returns whether the loss on fixed sequences can be minimised and starts be compared by it: only for linear
 * transformers with ops of their own, on the regression of the recipe. */
bool icl_trainer_has_objective(const icl_trainer *trainer);

/* Returns the parameters that predict and are exported: the average if there is one. */
icl_tensor icl_trainer_evaluated(const icl_trainer *trainer);
/* Waits for `count` steps, the first of which was number first_step (from 1), and reads their measures from history.
 * ICL_ERROR_DIVERGED as in icl_trainer_run. */
icl_status icl_trainer_collect(icl_trainer *trainer, uint64_t first_step, size_t count, icl_error *error);

/* ---- The gradient of a step (slices.c) ---- */

/* Returns a call for `batch`, with the model at the trainer's step. */
icl_gradient_call icl_trainer_call(const icl_trainer *trainer, const icl_batch *batch);

/* Draws the step's batch and writes its gradient to state.gradient, and with a threshold the norms of its sequences'
 * gradients to state.sequence_norms. *losses becomes the losses [B] of its sequences, which are valid until the next
 * call. `dropped` [1] receives how many sequences were left out when the threshold is first set. */
icl_status icl_trainer_differentiate(icl_trainer *trainer, icl_tensor dropped, icl_tensor *losses, icl_error *error);

/* Allocates what slices need beside tensors. */
icl_status icl_trainer_create_slices(icl_trainer *trainer, icl_error *error);

/* ---- Ranks ---- */

/* Shares the slices among ranks, each with a trainer of the same recipe. From then on icl_trainer_run is collective
 * (iclab/ranks.h), with the same bits on every rank. `ranks` must outlive the trainer. ICL_ERROR_INPUT if there are
 * fewer slices than ranks. */
icl_status icl_trainer_set_ranks(icl_trainer *trainer, const icl_ranks *ranks, icl_error *error);

/* Keep a rank's failure between two collective calls, and take it at the next one, which shares it with all ranks.
 * With one rank keeping returns the failure at once, with several ICL_OK. */
icl_status icl_sharing_keep_failure(icl_sharing *sharing, icl_status own, const icl_error *error);
icl_status icl_sharing_take_failure(icl_sharing *sharing, icl_error *error);

/* Gives rank 0's state to all. Collective. */
icl_status icl_trainer_follow_first(icl_trainer *trainer, icl_error *error);

/* ---- A state on the host, in double (checkpoint.c): for carrying it from one device to another ---- */

enum { ICL_STATE_VECTORS = 4 };
typedef struct icl_training_state {
    uint64_t step;                      /* steps done */
    size_t size;                        /* of each vector: icl_model_size */
    double *vectors[ICL_STATE_VECTORS]; /* parameters, the optimizer's two, the average; NULL: absent */
    double threshold;                   /* of train.sequence_clip; 0 without */
} icl_training_state;

/* Allocate memory for the state of this trainer's model, and free it, in any case. */
icl_status icl_training_state_create(const icl_trainer *trainer, icl_training_state *state, icl_error *error);
void icl_training_state_clear(icl_training_state *state);

/* Read the state of a trainer, and write it to one of the same recipe on any device, which may round it, even if that
 * has diverged. */
icl_status icl_trainer_read_state(icl_trainer *trainer, icl_training_state *state, icl_error *error);
icl_status icl_trainer_write_state(icl_trainer *trainer, const icl_training_state *state, icl_error *error);

/* Rounds every number to single precision, so that all devices start from the same state. */
void icl_training_state_round(icl_training_state *state);

/* Reads loss and gradient norm, before clipping, of the first step of the last run, in the device's precision. */
icl_status icl_trainer_read_measures(icl_trainer *trainer, double *loss, double *gradient_norm, icl_error *error);

/* Reads the gradient of the last step, before clipping by train.clip: icl_model_size numbers. */
icl_status icl_trainer_read_gradient(icl_trainer *trainer, double *gradient, icl_error *error);

#endif
