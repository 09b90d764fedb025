/*
 * A model's loss on fixed sequences as a function of its parameters, in double precision whatever device trained it. A
 * polish lowers it, and curvature and gradient noise are measured on it.
 */
#ifndef ICLAB_TRAIN_OBJECTIVE_H
#define ICLAB_TRAIN_OBJECTIVE_H

#include <signal.h>

#include "iclab/model.h"
#include "iclab/polish.h"
#include "iclab/task.h"
#include "iclab/train.h"

typedef struct icl_objective icl_objective;

/* Task and model are borrowed and must outlive the objective. */
typedef struct icl_objective_params {
    const icl_task *task;
    const icl_model *model;
    icl_task_purpose purpose; /* of the numbers that it draws */
    size_t sequences;         /* rounded up to full batches of at most 2048 */
    /* A backend of the host, whose number of threads is used; with another device or NULL, all threads are. */
    const icl_backend *beside;
} icl_objective_params;

/* Chooses the task of an objective for a training with this recipe: Gram matrices even if training draws tokens, since
 * they have the same distribution and their cost does not grow with n. *task stays NULL if the task has none. */
icl_status icl_objective_choose_task(const icl_recipe *recipe, icl_task **task, icl_error *error);

/* Call icl_objective_draw before the first gradient. */
icl_status icl_objective_create(const icl_objective_params *params, icl_objective **objective, icl_error *error);
void icl_objective_destroy(icl_objective **objective);

/* Draws the sequences: they are a function of seed and number, and disjoint for different numbers. */
icl_status icl_objective_draw(icl_objective *objective, uint32_t seed, uint64_t number, icl_error *error);

/* Draws sequences for a loss that few of them carry. Draws `times` as many, and adds to the score of each its loss at
 * `at` [N] divided by their mean. The highest scores fill half of the objective; of the rest an evenly spaced part is
 * kept, with a weight that makes it stand for all of them. So the mean has the same expectation, and its tail is as
 * precise as that of the whole sample. scores [times * icl_objective_sequences] is zero before the first call; later
 * calls with the same seed and number add the scores at other points, whose tails are kept, too. As icl_objective_draw
 * if the objective has only one batch, or if times is 1. */
icl_status icl_objective_draw_tail(icl_objective *objective, const double *at, size_t times, double *scores,
                                   uint32_t seed, uint64_t number, icl_error *error);

/* Returns the weight of each sequence in the mean, [icl_objective_sequences]; their sum is 1. */
void icl_objective_shares(const icl_objective *objective, double *shares);

/* Return the number of parameters N, and of sequences. */
size_t icl_objective_size(const icl_objective *objective);
size_t icl_objective_sequences(const icl_objective *objective);

/* Returns the bytes of one sequence of in-context regression: its tokens or its Gram matrix, and its other tensors. */
double icl_objective_sequence_bytes(const icl_task *task, bool has_tokens);

/* Returns the most sequences of this size that fit an objective's budget of memory, at least 1. */
size_t icl_objective_fitting(double sequence_bytes);

/* Computes the task's loss, the mean over the sequences, at the parameters `at` [N], and its gradient [N]. Either
 * result may be NULL. Sums run in a fixed order: the same bits for any number of threads. */
icl_status icl_objective_gradient(icl_objective *objective, const double *at, double *loss, double *gradient,
                                  icl_error *error);

/* As above, with *variance: the expected squared distance of the gradient from its expectation over all possible
 * sequences, estimated from the differences between batches; NaN with one batch. */
icl_status icl_objective_sampled_gradient(icl_objective *objective, const double *at, double *loss, double *gradient,
                                          double *variance, icl_error *error);

/* Computes the loss of each sequence, losses [icl_objective_sequences]. */
icl_status icl_objective_losses(icl_objective *objective, const double *at, double *losses, icl_error *error);

/* ---- Minima ---- */

typedef struct icl_minimise_params {
    size_t history;      /* number of past steps and gradient changes that are kept, at least 1 */
    size_t iterations;   /* at most; at least 1 */
    const double *scale; /* [N]: the unit of each parameter in the search; NULL: 1 */

    /* Both callbacks get `user`, may be NULL, and end the search with any status but ICL_OK. */
    icl_status (*evaluated)(void *user, double loss, icl_error *error); /* after each evaluation */
    /* Called after each iteration, counted from 1, with the point [N] and its loss; may end the search. */
    icl_status (*observe)(void *user, const double *at, double loss, size_t iterations, bool *ends, icl_error *error);
    void *user;
} icl_minimise_params;

typedef struct icl_minimised {
    size_t iterations, evaluations;
    double loss, gradient_norm; /* at the end; the gradient is in the parameters' own units */
} icl_minimised;

/* Lowers the loss by L-BFGS (liblbfgs) from `at` [N], which receives the best point. The loss never rises from one
 * iteration to the next: steps meet the weak Wolfe conditions (Nocedal and Wright, Numerical Optimization, 2nd edition,
 * 3.7). Ends if no lower loss is found, not even along the gradient. ICL_ERROR_INPUT if the loss at the start is not
 * finite. */
icl_status icl_objective_minimise(icl_objective *objective, const icl_minimise_params *params, double *at,
                                  icl_minimised *result, icl_error *error);

/* ---- The end of a training: train.polish. iclab/polish.h says what it does ---- */

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
