/* Training: fresh sequences every step, one optimizer, checkpoints. Written against only the op interface. */
#ifndef ICLAB_TRAIN_H
#define ICLAB_TRAIN_H

#include "iclab/basins.h"
#include "iclab/decode.h"
#include "iclab/model_family.h"
#include "iclab/polish.h"
#include "iclab/reference_predictor.h"
#include "iclab/task_family.h"

ICL_C_BEGIN

/* A model in training: task, parameters, and the optimizer's state. */
typedef struct icl_trainer icl_trainer;

/* Creates a trainer at step 0 from the recipe's [task], [model] and [train] sections. It copies the recipe. */
ICL_API icl_status icl_trainer_create(icl_backend *backend, const icl_recipe *recipe, icl_trainer **trainer,
                                      icl_error *error);
ICL_API void icl_trainer_destroy(icl_trainer **trainer);

/* A program's own parts in place of what the recipe names. They are borrowed and must outlive the trainer. */
typedef struct icl_trainer_parts {
    const icl_task_family *task;   /* NULL: the recipe's */
    const icl_model_family *model; /* NULL: the recipe's */
    /* [reference_count], rows of icl_evaluate after those that eval.predictors names. */
    const icl_reference_predictor *const *references;
    size_t reference_count; /* number of references */
} icl_trainer_parts;

/* As icl_trainer_create, with these parts; NULL: none. ICL_ERROR_INPUT, naming both shapes, if the model cannot answer
 * the task. eval.predictors names those of baseline.h if the program's own task has a prior (icl_task_get_prior),
 * otherwise those that its family brings. */
ICL_API icl_status icl_trainer_create_with(icl_backend *backend, const icl_trainer_parts *parts,
                                           const icl_recipe *recipe, icl_trainer **trainer, icl_error *error);

/* Returns the parts that it was created with; zero for icl_trainer_create. */
ICL_API icl_trainer_parts icl_trainer_get_parts(const icl_trainer *trainer);

/* Runs up to `steps` more steps, fewer if the recipe's budget ends first, without waiting for the device
 * except to read the losses at the end. A step whose gradient's norm is not finite changes nothing: it is
 * skipped, and counted. ICL_ERROR_DIVERGED when the parameters are not finite, or when too many steps were skipped
 * in a row for training to recover; the message names the step. The parameters are then useless, and training can
 * continue only from the last saved state. */
ICL_API icl_status icl_trainer_run(icl_trainer *trainer, size_t steps, icl_error *error);

/* The largest memory that a step holds on the device, in bytes: held + fixed + each * (batch / slices). */
typedef struct icl_step_memory {
    double held;          /* parameters and states */
    double fixed, each;   /* memory of the gradient, and of each sequence of a slice, its part of the batch included */
    size_t batch, slices; /* as in the recipe */
} icl_step_memory;

/* Measures it, before the first step or between two: on a few sequences, and on a whole batch if the model has its own
 * ops. No later step depends on it. ICL_ERROR_MEMORY if the device has no room for these. */
ICL_API icl_status icl_trainer_measure_memory(icl_trainer *trainer, icl_step_memory *memory, icl_error *error);

/* Returns the bytes of a step in `slices` slices, a divisor of the batch. */
ICL_API double icl_step_memory_of(const icl_step_memory *memory, size_t slices);

/* Returns the smallest number of slices, above the present one, with which a step holds at most `bytes`; 0: none. */
ICL_API size_t icl_step_memory_slices(const icl_step_memory *memory, double bytes);

/* Fails with ICL_ERROR_INPUT if a step holds more than `there` bytes, the memory of the device of that name; the
 * message says how many slices would do, if any would. */
ICL_API icl_status icl_step_memory_check(const icl_step_memory *memory, double there, const char *device,
                                         icl_error *error);

/* The progress of the last icl_trainer_run. */
typedef struct icl_train_progress {
    uint64_t step;          /* steps done in all */
    uint64_t total_steps;   /* the recipe's budget */
    double loss;            /* mean over the run's steps of the batch loss (full squared error), finite losses only */
    double gradient_norm;   /* largest finite one over the run's steps, before clipping */
    double learning_rate;   /* rate of the last step */
    uint64_t skipped_steps; /* among all steps done: those whose gradient was not finite */
    /* Sequences of all steps done that train.sequence_clip left out, because their own gradient was not finite. */
    uint64_t dropped_sequences;
    uint64_t start; /* number of the start (train.starts) that it continued from, counted from 1; 0: its own */
} icl_train_progress;

/* The learning rate of the last icl_trainer_run, and the number of steps since step 0. */
ICL_API icl_train_progress icl_trainer_progress(const icl_trainer *trainer);

/* Returns the basins that the starts of this training saw; scouts is 0 if there were none, or after a restart. */
ICL_API icl_basins_seen icl_trainer_basins(const icl_trainer *trainer);

/* Returns the result of the last stage of icl_session_train (train.polish); sequences is 0 if there was none. */
ICL_API icl_polish_result icl_trainer_polished(const icl_trainer *trainer);

/* Returns the losses of the last run's steps, oldest first; valid until the next call that takes the trainer. */
ICL_API const float *icl_trainer_losses(const icl_trainer *trainer, size_t *count);

/* Returns the gradient norms of the same steps, before clipping. */
ICL_API const float *icl_trainer_gradient_norms(const icl_trainer *trainer, size_t *count);

/* Returns the learning rate of a step, counted from 0, by the schedule and growth. */
ICL_API double icl_trainer_rate_at(const icl_trainer *trainer, uint64_t step);

/* The trainer's model and task, which live as long as the trainer. */
ICL_API const icl_model *icl_trainer_model(const icl_trainer *trainer);
ICL_API const icl_task *icl_trainer_task(const icl_trainer *trainer);

/* Copies the parameters to or from the host: icl_model_size floats. With train.average they are those of the model that
 * is evaluated and exported, the average, and both become what is set. */
ICL_API icl_status icl_trainer_get_parameters(icl_trainer *trainer, float *values, icl_error *error);
ICL_API icl_status icl_trainer_set_parameters(icl_trainer *trainer, const float *values, icl_error *error);

/* Rounds the parameters to floats, as in the exported file; only on "ref" are they doubles. */
ICL_API icl_status icl_trainer_round_parameters(icl_trainer *trainer, icl_error *error);

/* Saves everything that the next step depends on to one safetensors file, atomically (written beside it,
 * flushed, renamed), and restores it. A restored trainer continues with the same bits as the saved one.
 * Restoring into another model or recipe is ICL_ERROR_INPUT. */
ICL_API icl_status icl_trainer_save(icl_trainer *trainer, const char *path, icl_error *error);
ICL_API icl_status icl_trainer_restore(icl_trainer *trainer, const char *path, icl_error *error);

/*
 * Writes only the named parameters, as safetensors, with all that evaluating the model takes: the file needs no recipe
 * beside it.
 *
 * Tensors are row-major F32. With D = d + 1 and for each layer l and head h (for layer 0 alone with model.tied):
 *
 *     model.family = linear, by model.parameterization
 *         full           layer.l.head.h.P [D, D]          layer.l.head.h.Q [D, D]
 *         diag           P [2] = diag(p_x … p_x, p_y)     Q [2], the same
 *         gd++           P [2], the same                  Q [1] = diag(q_x … q_x, 0)
 *         sparse         none: P = diag(0 … 0, 1)         A [d, d]: Q = [A 0; 0 0]
 *         sparse-b       B [d, d]: P = [B 0; 0 1]         A [d, d]: Q = [A 0; 0 0]
 *         diag+lowrank   P [1 + 2r, D] = (p; u_1 … u_r; v_1 … v_r): diag(p) + sum of u_k v_k^T; Q the same
 *     model.family = softmax
 *         M [d, d]
 *
 * A linear layer is e <- e + sum over heads of P sum_j w_j e_j over the context e_1 … e_n with w_j = e_j^T Q e, times
 * 1/n if model.scale = mean, or their softmax if it is softmax; the prediction is minus the last coordinate of the
 * query (x, 0) after the last layer. The softmax family predicts sum_j w_j y_j with w the softmax of x_j^T M x, or w_j
 * = x_j^T M x / n if model.attention = linear.
 *
 * __metadata__ holds, as text: format = "iclab"; layout = "1"; the shape of the task (icl_task_shape) as
 * "shape.positions", "shape.inputs", "shape.symbols", "shape.outputs", "shape.first_scored", "shape.scored" and
 * "shape.loss", a name of icl_loss_name; "task.d", "task.n" and every key of the recipe's [model] section,
 * "model.KEY". For a program's own model it holds only "model.family", for its own task "task.family". A file without
 * the shape, of an older version, is for regression with d and n. tools/python/iclab_model.py reads and evaluates
 * models for regression, sequence models for any task, and writes such files; it does not read those of model.family =
 * fast-weights, whose tensors src/model/sequence/fast_weights.c names.
 */
ICL_API icl_status icl_trainer_export(icl_trainer *trainer, const char *path, icl_error *error);

/* Computes the model's outputs [B][S][q] for a batch on the trainer's backend, and reads them back to the host.
 * ICL_ERROR_INPUT for a batch whose shape is not the task's. */
ICL_API icl_status icl_trainer_predict(icl_trainer *trainer, const icl_batch *batch, float *outputs, icl_error *error);

/* As above, equal to rounding, but one position after another from states (decode.h). ICL_ERROR_INPUT also for a model
 * that cannot decode. */
ICL_API icl_status icl_trainer_decode(icl_trainer *trainer, const icl_batch *batch, float *outputs, icl_error *error);

/* As above, after the positions that *decoder has decoded, which goes on: of this trainer, and of batches of this size.
 * Is created if it is NULL; the caller destroys it, before the trainer. */
ICL_API icl_status icl_trainer_decode_on(icl_trainer *trainer, const icl_batch *batch, icl_decoder **decoder,
                                         float *outputs, icl_error *error);

ICL_C_END

#endif
