/*
 * A model's loss on fixed sequences as a function of its parameters, in double precision whatever device trained it:
 * what a polish lowers, and what curvature and gradient noise are measured on.
 */
#ifndef ICLAB_TRAIN_OBJECTIVE_H
#define ICLAB_TRAIN_OBJECTIVE_H

#include "iclab/model.h"
#include "iclab/task.h"

typedef struct icl_objective icl_objective;

/* Task and model are borrowed and must outlive the objective. */
typedef struct icl_objective_params {
    const icl_task *task;
    const icl_model *model;
    icl_task_purpose purpose; /* of the numbers that it draws */
    size_t sequences;         /* rounded up to full batches of at most 2048 */
    /* Whose threads it takes, where these are the host's; else, and for NULL, it takes all. */
    const icl_backend *beside;
} icl_objective_params;

/* Call icl_objective_draw before the first gradient. */
icl_status icl_objective_create(const icl_objective_params *params, icl_objective **objective, icl_error *error);
void icl_objective_destroy(icl_objective **objective);

/* Draws the sequences: a function of seed and number, disjoint for different numbers. */
icl_status icl_objective_draw(icl_objective *objective, uint32_t seed, uint64_t number, icl_error *error);

/* For losses that few sequences carry. Draws `times` as many, adds to the score of each what it loses at `at` [N] in
 * units of their mean, and keeps those that score most, a half of the objective's, and of the rest one in so many,
 * which then stands for the others: the mean estimates the same, in the tail as well as all of them do. scores [times *
 * icl_objective_sequences] is zero before the first call; the next ones, with the same numbers, add other points, whose
 * tails are kept, too. An objective of one batch has no half to keep, and one time leaves nothing out: such draws are
 * those of icl_objective_draw. */
icl_status icl_objective_draw_tail(icl_objective *objective, const double *at, size_t times, double *scores,
                                   uint32_t seed, uint64_t number, icl_error *error);

/* What each sequence counts in the mean, [icl_objective_sequences]: the sum is 1. */
void icl_objective_shares(const icl_objective *objective, double *shares);

/* Number of parameters N, and of sequences. */
size_t icl_objective_size(const icl_objective *objective);
size_t icl_objective_sequences(const icl_objective *objective);

/* The bytes of one sequence of in-context regression: its tokens, or its Gram matrix, and what stands beside them. */
double icl_objective_sequence_bytes(const icl_task *task, bool has_tokens);

/* The most sequences of this size that an objective holds within its budget, at least 1. */
size_t icl_objective_fitting(double sequence_bytes);

/* loss = the task's, mean over the sequences, at the parameters at [N], and its gradient [N]. Either
 * result may be NULL. Sums run in a fixed order: the same bits for any number of threads. */
icl_status icl_objective_gradient(icl_objective *objective, const double *at, double *loss, double *gradient,
                                  icl_error *error);

/* The same, and *variance: the expected square of the gradient's distance from that of all sequences there are, from
 * how those of its batches differ; NaN of one batch. */
icl_status icl_objective_sampled_gradient(icl_objective *objective, const double *at, double *loss, double *gradient,
                                          double *variance, icl_error *error);

/* losses [icl_objective_sequences]: that of each sequence, for what a mean hides. */
icl_status icl_objective_losses(icl_objective *objective, const double *at, double *losses, icl_error *error);

/* ---- Minima ---- */

typedef struct icl_minimise_params {
    size_t history;      /* pairs of steps and changes of the gradient that are kept */
    size_t iterations;   /* at most */
    const double *scale; /* [N]: the search takes each parameter in units of this; NULL: 1 */

    /* Both are handed `user`, may be NULL, and end the search with what they return unless that is ICL_OK. */
    icl_status (*evaluated)(void *user, double loss, icl_error *error); /* after each evaluation */
    /* After each iteration, the first of which is number 1: sees the point [N] and its loss, and may end the search. */
    icl_status (*observe)(void *user, const double *at, double loss, size_t iterations, bool *ends, icl_error *error);
    void *user;
} icl_minimise_params;

typedef struct icl_minimised {
    size_t iterations, evaluations;
    double loss, gradient_norm; /* at the point where it ended; the gradient is that of the parameters' own units */
} icl_minimised;

/* Lowers the loss from `at` [N], which receives the best point, by L-BFGS (liblbfgs). Losses never rise from
 * iteration to iteration: steps meet the weak Wolfe conditions (Nocedal and Wright, Numerical Optimization, 2nd
 * edition, 3.7). Ends where no lower loss is found, not even along the gradient. ICL_ERROR_INPUT where the start has
 * no finite loss. */
icl_status icl_objective_minimise(icl_objective *objective, const icl_minimise_params *params, double *at,
                                  icl_minimised *result, icl_error *error);

#endif
