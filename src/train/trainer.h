/* Inside of a trainer. The files that share it call each other in a circle, which is meant: trainer.c runs the steps,
 * differentiate.c takes a step's gradient, from slices.c where the batch is cut, which asks differentiate.c for each
 * slice and gathers states through state.c; history.c tells the trainer what became of its steps. */
#ifndef ICLAB_TRAIN_TRAINER_H
#define ICLAB_TRAIN_TRAINER_H

#include "iclab/ranks.h"
#include "iclab/status.h"
#include "iclab/train.h"
#include "train/growth.h"
#include "train/loops.h"
#include "train/optimizer.h"
#include "train/parts.h"
#include "train/schedule.h"

/* Steps that are queued before the host reads their losses; so many skipped in a row are divergence. */
#define ICL_TRAIN_CHUNK 50

/* No batch is drawn yet: the number of one that no budget of steps gets to. */
#define ICL_NO_BATCH UINT64_MAX

/* What the device remembers of the steps of a chunk, icl_trainer.history: the measures of icl_update_step for each. */
enum {
    ICL_HISTORY_LOSS = 0, /* of a step's measures */
    ICL_HISTORY_NORM,     /* of the gradient, before clipping */
    ICL_HISTORY_DROPPED,  /* sequences left out */
    ICL_HISTORY_MEASURES,
    ICL_HISTORY_LENGTH = ICL_TRAIN_CHUNK * ICL_HISTORY_MEASURES,
};

/* What the host knows of steps that went wrong; part of a checkpoint. */
typedef struct icl_mishaps {
    uint64_t skipped_steps, dropped_sequences;
    uint64_t skipped_in_a_row; /* up to the last step */
} icl_mishaps;

struct icl_trainer {
    icl_backend *backend;
    icl_trainer_parts parts;
    icl_recipe *recipe;
    icl_task *task;
    icl_model *model;
    icl_tape *tape;
    icl_parts *batch_parts;   /* NULL: batches are computed as a whole */
    icl_update_params update; /* but for what follows from the step */
    icl_schedule schedule;
    icl_growth growth;
    icl_loop_schedule loops;
    uint32_t seed;
    uint64_t step;        /* steps done */
    uint64_t total_steps; /* the budget; the schedule may end elsewhere (train.horizon) */
    bool diverged;        /* the state is of no use: it is neither trained further nor saved */

    icl_tensor parameters, gradient; /* [N], the model's flat vector */
    icl_tensor states[2];            /* [N], the optimizer's */
    icl_tensor decays;               /* [N], where some parameters do not decay and others may: 0 for those */
    icl_tensor sequence_losses;      /* [B], of a fused model or with slices: of the last step */
    icl_tensor sequence_norms;       /* [B], where there is a threshold: of each sequence's gradient */
    icl_tensor threshold;            /* [1]: where they are cut; 0 before the first step; absent without clipping */
    icl_tensor history;              /* [ICL_HISTORY_LENGTH] */
    icl_batch batch;                 /* of B / slices sequences */
    size_t batch_bytes;              /* of its tensors */
    uint64_t refresh;                /* steps that share a batch */
    uint64_t batch_number;           /* of the batch at hand, or ICL_NO_BATCH */
    size_t slices;                   /* that a step's batch is drawn and differentiated in, one after another */
    const icl_ranks *ranks;          /* that share them; NULL: none */
    double *records;                 /* [slices][record], with slices alone: see slices.c */
    double *combined;                /* [max(N, B)], likewise */
    icl_status failure;              /* of this rank alone, not yet known to the others */
    icl_error failure_error;
    double *values; /* [N]: the parameters after a chunk of steps */
    float *losses;  /* of the last run */
    float *norms;   /* in the second half of the same memory */
    size_t loss_count, loss_capacity, finite_losses;
    icl_mishaps mishaps;
    icl_train_progress progress;
    icl_polish_result polished; /* zero: it was not */
    uint64_t start;             /* of several, the number that it began with, from 1; 0: its own alone */
};

/* Sets the step, and with it everything that follows from it. */
void icl_trainer_set_step(icl_trainer *trainer, uint64_t step);

/* Waits for `count` steps, the first of which was number first_step (from 1), and takes in what history holds of them
 * (history.c). ICL_ERROR_DIVERGED as icl_trainer_run has it. */
icl_status icl_trainer_collect(icl_trainer *trainer, uint64_t first_step, size_t count, icl_error *error);

/* ---- The gradient of a step (differentiate.c, slices.c) ---- */

/* Draws the step's batch, leaves its gradient in trainer->gradient, and with a threshold the norms of its sequences'
 * gradients in sequence_norms. *losses becomes the losses [B] of its sequences, good until the next call. `dropped` [1]
 * takes how many were left out where the threshold is set anew. */
icl_status icl_trainer_differentiate(icl_trainer *trainer, icl_tensor dropped, icl_tensor *losses, icl_error *error);

/* The same for the batch at hand, and for all slices. is_cut: sequences' gradients are, at the threshold, where there
 * is one. */
icl_status icl_trainer_differentiate_batch(icl_trainer *trainer, bool is_cut, icl_tensor *losses, icl_error *error);
icl_status icl_trainer_differentiate_slices(icl_trainer *trainer, bool is_cut, icl_tensor *losses, icl_error *error);

/* Draws a batch unless it is the one at hand. */
icl_status icl_trainer_draw(icl_trainer *trainer, uint64_t number, icl_error *error);

/* ICL_ERROR_INPUT for a batch that the model cannot read, or of another shape than the task's. The message begins with
 * `call`. */
icl_status icl_trainer_check_batch(const icl_trainer *trainer, const icl_batch *batch, const char *call,
                                   icl_error *error);

/* What slices need beside tensors. */
icl_status icl_trainer_create_slices(icl_trainer *trainer, icl_error *error);

/* ---- Ranks ---- */

/* Shares the slices among ranks, each with a trainer of the same recipe. From here on icl_trainer_run is collective
 * (iclab/ranks.h) and comes to the same end, with the same bits, on every rank. `ranks` must outlive the trainer.
 * ICL_ERROR_INPUT with fewer slices than ranks. */
icl_status icl_trainer_set_ranks(icl_trainer *trainer, const icl_ranks *ranks, icl_error *error);

/* With ranks, a failure between two collective calls is kept, and taken to the next one, where it becomes
 * everybody's: the first returns ICL_OK then. On its own a trainer has its failures at once. */
icl_status icl_trainer_keep_failure(icl_trainer *trainer, icl_status own, const icl_error *error);
icl_status icl_trainer_take_failure(icl_trainer *trainer, icl_error *error);

/* Gives rank 0's state to all. Collective. */
icl_status icl_trainer_follow_first(icl_trainer *trainer, icl_error *error);

/* ---- A trainer's state on the host, in double (state.c): for carrying it from one device to another ---- */

enum { ICL_STATE_VECTORS = 3 };

typedef struct icl_training_state {
    uint64_t step;                      /* steps done */
    size_t size;                        /* of each vector: icl_model_size */
    double *vectors[ICL_STATE_VECTORS]; /* parameters, then the optimizer's two */
    double threshold;                   /* of train.sequence_clip; 0 without */
} icl_training_state;

/* Memory for the state of this trainer's model. Clear it in any case. */
icl_status icl_training_state_create(const icl_trainer *trainer, icl_training_state *state, icl_error *error);
void icl_training_state_clear(icl_training_state *state);

/* Takes the state of a trainer, and gives it to one of the same recipe on any device, also after it diverged. A
 * device of single precision rounds what it is given. */
icl_status icl_trainer_read_state(icl_trainer *trainer, icl_training_state *state, icl_error *error);
icl_status icl_trainer_write_state(icl_trainer *trainer, const icl_training_state *state, icl_error *error);

/* Rounds every number to single precision, so that all devices start from the same one. */
void icl_training_state_round(icl_training_state *state);

/* Of the first step of the last run, at the device's own precision: the loss and the
 * gradient's norm before clipping. */
icl_status icl_trainer_read_measures(icl_trainer *trainer, double *loss, double *gradient_norm, icl_error *error);

/* The gradient of the last step, before clipping by train.clip: icl_model_size numbers. */
icl_status icl_trainer_read_gradient(icl_trainer *trainer, double *gradient, icl_error *error);

/* The keys of train that the trainer itself reads. */
extern const icl_recipe_group icl_trainer_keys;

/* The recipe of a program's own task or model begins with this; their names follow on the line. */
#define ICL_OWN_PARTS "; trained by a program with its own "

/* The recipe as a run folder is to have it, freed with icl_free: a program's own task and model are named in it. */
icl_status icl_trainer_write_recipe(const icl_trainer *trainer, char **text, icl_error *error);

#endif
