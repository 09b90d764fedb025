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

#endif
