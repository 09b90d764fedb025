/* Studies share evaluations on other tasks, and losses of several parameter vectors of one model on the same
 * sequences. */
#ifndef ICLAB_PAPERS_LOSSES_H
#define ICLAB_PAPERS_LOSSES_H

#include "papers/reproduce.h"

/* Evaluates what was trained with the recipe on another task: the recipe's with these overrides, separated by blanks,
 * which leave the model's shape as it is. */
icl_status icl_reproduce_evaluate_as(const icl_reproducing *run, icl_trainer *trained, const icl_recipe *recipe,
                                     const char *overrides, icl_evaluation **evaluation, icl_error *error);

/* The score of a predictor, or of "model"; NULL where there is none. */
const icl_score *icl_reproduce_score(const icl_evaluation *evaluation, const char *name);

/* The share of right answers in such an evaluation. */
icl_status icl_reproduce_accuracy_as(const icl_reproducing *run, icl_trainer *trained, const icl_recipe *recipe,
                                     const char *overrides, double *accuracy, icl_error *error);

/* One parameter vector's full squared error. */
typedef struct icl_paired_loss {
    double mse, se;
    double excess, excess_se; /* above the first vector's squared error, sequence by sequence: it scatters far less */
    double cosine, cosine_se; /* E y y^ / sqrt(E y^2 E y^^2) of targets and predictions; 0 where all are 0 */
} icl_paired_loss;

/* Evaluates `count` parameter vectors of the trainer's model on the same `sequences` sequences of the run's seed, drawn
 * for evaluation. The trainer then holds the parameters that it came with. */
icl_status icl_reproduce_losses(const icl_reproducing *run, icl_trainer *trainer, size_t sequences, size_t count,
                                const float *const *parameters, icl_paired_loss *losses, icl_error *error);

/* The same for a model of another recipe: this one with these overrides, separated by blanks. */
icl_status icl_reproduce_losses_as(const icl_reproducing *run, const icl_recipe *recipe, const char *overrides,
                                   size_t sequences, size_t count, const float *const *parameters,
                                   icl_paired_loss *losses, icl_error *error);

#endif
