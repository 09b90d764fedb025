/* Inside of a trainer, shared by the loop and the checkpoint. */
#ifndef ICLAB_TRAIN_TRAINER_H
#define ICLAB_TRAIN_TRAINER_H

#include "core/status.h"
#include "iclab/train.h"
#include "train/growth.h"
#include "train/optimizer.h"
#include "train/schedule.h"

/* Steps that are queued before the host reads their losses. */
#define ICL_TRAIN_CHUNK 50

struct icl_trainer {
    icl_backend *backend;
    icl_recipe *recipe;
    icl_task *task;
    icl_model *model;
    icl_tape *tape;
    icl_optimizer optimizer;
    icl_schedule schedule;
    icl_growth growth;
    uint32_t seed;
    uint64_t step;        /* steps done */
    uint64_t total_steps; /* the budget; the schedule may end elsewhere (train.horizon) */
    bool diverged;        /* the state is of no use: it is neither trained further nor saved */

    icl_tensor parameters, gradient; /* [N], the model's flat vector */
    icl_tensor states[2];            /* [N], the optimizer's */
    icl_tensor scaled;               /* [N], scratch of the norm */
    icl_tensor history; /* [2 * ICL_TRAIN_CHUNK + 1]: losses, gradient norms, norm of the parameters */
    icl_batch batch;
    icl_variable *variables; /* one per named parameter */

    float *losses; /* of the last run */
    float *norms;  /* in the second half of the same memory */
    size_t loss_count, loss_capacity;
    icl_train_progress progress;
};

/* Sets the step, and with it everything that follows from it. */
void icl_trainer_set_step(icl_trainer *trainer, uint64_t step);

#endif
