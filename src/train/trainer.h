/*
 * Inside of a trainer, in three parts: what is trained, where it stands, and with whom it is shared.
 *
 * trainer.c creates a trainer and runs its steps. slices.c takes the gradient of a step, checkpoint.c carries the state
 * from here to elsewhere, memory.c measures. Polishing (polish.h) and several starts (multistart.h) are users of a
 * trainer: they call it, and it knows nothing of them but their keys.
 */
#ifndef ICLAB_TRAIN_TRAINER_H
#define ICLAB_TRAIN_TRAINER_H

#include "core/safetensors.h"
#include "iclab/ranks.h"
#include "iclab/status.h"
#include "iclab/train.h"
#include "train/gradient.h"
#include "train/settings.h"

/* Steps that are queued before the host reads their losses; so many skipped in a row are divergence. */
#define ICL_TRAIN_CHUNK 50

/* No batch is drawn yet: the number of one that no budget of steps gets to. */
#define ICL_NO_BATCH UINT64_MAX

/* What the device remembers of the steps of a chunk, icl_trainer_state.history: the measures of icl_update_step for
 * each. */
enum {
    ICL_HISTORY_LOSS = 0, /* of a step's measures */
    ICL_HISTORY_NORM,     /* of the gradient, before clipping */
    ICL_HISTORY_DROPPED,  /* sequences left out */
    ICL_HISTORY_MEASURES,
    ICL_HISTORY_LENGTH = ICL_TRAIN_CHUNK * ICL_HISTORY_MEASURES,
};

/* What is trained: the same from the first step to the last. */
typedef struct icl_training_problem {
    icl_trainer_parts parts;
    icl_recipe *recipe;
    icl_task *task;
    icl_model *model;
    icl_training_settings settings;
    icl_gradient_plan plan;
    icl_tensor decays; /* [N], where some parameters do not decay and others may: 0 for those */
} icl_training_problem;

/* What the host knows of steps that went wrong; part of a checkpoint. */
typedef struct icl_mishaps {
    uint64_t skipped_steps, dropped_sequences;
    uint64_t skipped_in_a_row; /* up to the last step */
} icl_mishaps;

/* Where it stands. The first five members are all that the next step depends on, and what a checkpoint holds. */
typedef struct icl_trainer_state {
    uint64_t step;         /* steps done */
    icl_tensor parameters; /* [N], the model's flat vector */
    icl_tensor moments[2]; /* [N], the optimizer's */
    icl_tensor
        threshold; /* [1]: where sequences' gradients are cut; 0 before the first step; absent without clipping */
    icl_mishaps mishaps;

    bool diverged;              /* the state is of no use: it is neither trained further nor saved */
    uint64_t start;             /* of several, the number that it began with, from 1; 0: its own alone */
    icl_polish_result polished; /* zero: it was not */

    icl_batch batch;            /* of B / slices sequences */
    uint64_t batch_number;      /* of the batch at hand, or ICL_NO_BATCH */
    size_t batch_bytes;         /* of its tensors */
    icl_tensor gradient;        /* [N], of the last step */
    icl_tensor sequence_losses; /* [B], where the plan keeps losses: of the last step */
    icl_tensor sequence_norms;  /* [B], where there is a threshold: of each sequence's gradient */

    icl_tensor history;    /* [ICL_HISTORY_LENGTH] */
    double *values;        /* [N]: the parameters after a chunk of steps */
    float *losses, *norms; /* of the steps of the last run, halves of one block of memory */
    size_t loss_count, loss_capacity, finite_losses;
    double loss, gradient_norm, learning_rate; /* of icl_train_progress */
} icl_trainer_state;

/* With whom it is shared. */
typedef struct icl_sharing {
    const icl_ranks *ranks; /* that share the slices; NULL: none */
    icl_status failure;     /* of this rank alone, not yet known to the others */
    icl_error failure_error;

    /* With several slices alone: */
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

/* Whether the loss of fixed sequences can be minimised, or starts compared by it: linear transformers with ops of their
 * own, on the regression of the recipe. */
bool icl_trainer_has_objective(const icl_trainer *trainer);

/* Waits for `count` steps, the first of which was number first_step (from 1), and takes in what history holds of them.
 * ICL_ERROR_DIVERGED as icl_trainer_run has it. */
icl_status icl_trainer_collect(icl_trainer *trainer, uint64_t first_step, size_t count, icl_error *error);

/* ---- The gradient of a step (slices.c) ---- */

/* `batch`, and the model as it is at the trainer's step. */
icl_gradient_call icl_trainer_call(const icl_trainer *trainer, const icl_batch *batch);

/* Draws the step's batch, leaves its gradient in state.gradient, and with a threshold the norms of its sequences'
 * gradients in state.sequence_norms. *losses becomes the losses [B] of its sequences, good until the next call.
 * `dropped` [1] takes how many were left out where the threshold is set anew. */
icl_status icl_trainer_differentiate(icl_trainer *trainer, icl_tensor dropped, icl_tensor *losses, icl_error *error);

/* What slices need beside tensors. */
icl_status icl_trainer_create_slices(icl_trainer *trainer, icl_error *error);

/* ---- Ranks ---- */

/* Shares the slices among ranks, each with a trainer of the same recipe. From here on icl_trainer_run is collective
 * (iclab/ranks.h) and comes to the same end, with the same bits, on every rank. `ranks` must outlive the trainer.
 * ICL_ERROR_INPUT with fewer slices than ranks. */
icl_status icl_trainer_set_ranks(icl_trainer *trainer, const icl_ranks *ranks, icl_error *error);

/* With ranks, a failure between two collective calls is kept, and taken to the next one, where it becomes
 * everybody's: the first returns ICL_OK then. On its own a trainer has its failures at once. */
icl_status icl_sharing_keep_failure(icl_sharing *sharing, icl_status own, const icl_error *error);
icl_status icl_sharing_take_failure(icl_sharing *sharing, icl_error *error);

/* Gives rank 0's state to all. Collective. */
icl_status icl_trainer_follow_first(icl_trainer *trainer, icl_error *error);

/* ---- A state on the host, in double (checkpoint.c): for carrying it from one device to another ---- */

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

/* ---- Files (export.c) ---- */

/* The recipe of a program's own task or model begins with this; their names follow on the line. */
#define ICL_OWN_PARTS "; trained by a program with its own "

/* The recipe as a run folder is to have it, freed with icl_free: a program's own task and model are named in it. */
icl_status icl_trainer_write_recipe(const icl_trainer *trainer, char **text, icl_error *error);

/* The shape of a model's task in the metadata of its file: "shape.positions" = "21" and so on, as text. *found: whether
 * the file has such entries; then *shape is one that icl_task_shape_check accepts. ICL_ERROR_INPUT names the file and
 * the entry. */
icl_status icl_shape_metadata_read(const icl_safetensors *file, const char *path, bool *found, icl_task_shape *shape,
                                   icl_error *error);

#endif
