/* Measures shared by studies: losses of trained models, layers that descend compared with the exact optimum, and
 * expectations over sample covariances. */
#ifndef ICLAB_PAPERS_MEASURES_H
#define ICLAB_PAPERS_MEASURES_H

#include "iclab/descent_optimum.h"
#include "papers/study.h"

/* ---- Evaluations, and losses of several parameter vectors of one model on the same sequences ---- */

/* Evaluates the model trained with the recipe on another task: the recipe's, with these overrides, separated by blanks,
 * which may not change the model's shape. */
icl_status icl_reproduce_evaluate_as(const icl_reproducing *run, icl_trainer *trained, const icl_recipe *recipe,
                                     const char *overrides, icl_evaluation **evaluation, icl_error *error);

/* Returns the score of a predictor, or of "model"; NULL if there is none. */
const icl_score *icl_reproduce_score(const icl_evaluation *evaluation, const char *name);

/* Computes the share of right answers in such an evaluation. */
icl_status icl_reproduce_accuracy_as(const icl_reproducing *run, icl_trainer *trained, const icl_recipe *recipe,
                                     const char *overrides, double *accuracy, icl_error *error);

/* The full squared error of one parameter vector. */
typedef struct icl_paired_loss {
    double mse, se;
    double excess, excess_se; /* above the first vector's squared error, sequence by sequence: scatters far less */
    double cosine, cosine_se; /* E y y^ / sqrt(E y^2 E y^^2) of targets and predictions; 0 if all are 0 */
} icl_paired_loss;

/* Evaluates `count` parameter vectors of the trainer's model on the same `sequences` sequences of the run's seed, drawn
 * for evaluation. Afterwards the trainer holds the parameters that it had before. */
icl_status icl_reproduce_losses(const icl_reproducing *run, icl_trainer *trainer, size_t sequences, size_t count,
                                const float *const *parameters, icl_paired_loss *losses, icl_error *error);

/* As above, for a model of another recipe: this one with these overrides, separated by blanks. */
icl_status icl_reproduce_losses_as(const icl_reproducing *run, const icl_recipe *recipe, const char *overrides,
                                   size_t sequences, size_t count, const float *const *parameters,
                                   icl_paired_loss *losses, icl_error *error);

/* Computes the squared error of the trainer's parameters on `sequences` evaluation sequences of the study's seed. */
icl_status icl_study_loss(const icl_study *study, icl_trainer *trainer, size_t sequences, icl_number *loss,
                          icl_error *error);

/* Puts the parameters of the trainer's model into a tensor on the study's backend, for probes. Release it in any
 * case. */
icl_status icl_study_put_parameters(const icl_study *study, icl_trainer *trainer, icl_tensor *parameters,
                                    icl_error *error);

/* ---- Layers that descend ---- */

/*
 * Cells that studies share: trained layers of linear attention in which B = 0 and only A is free, on whitened data
 * without noise. Each layer is a step of gradient descent, A = -a I at the optimum (Ahn et al. 2023, arXiv 2306.00297,
 * lemma 1), and the optimum is known exactly (iclab/descent_optimum.h).
 *
 * A polynomial of the eigenvalues has heavy tails: means over some 10,000 sequences miss the expected loss of four
 * layers by several per cent. So the loss of a trained model is computed as the optimum's exact loss plus the mean
 * difference to it, sequence by sequence, which scatters far less.
 */

/* The numbers of such a cell; the study's own numbers follow them. */
enum {
    ICL_DESCENT_LOSS = 0,   /* the expected loss, as above; the full squared error */
    ICL_DESCENT_DISTANCE,   /* the largest Dist(A, I) */
    ICL_DESCENT_TO_INVERSE, /* the largest ||A + I||_F / ||I||_F: how far -A is from the inputs' inverse covariance */
    ICL_DESCENT_LENGTHS,    /* a of A = -a I, ascending */
    ICL_DESCENT_NUMBERS = ICL_DESCENT_LENGTHS + ICL_DESCENT_MOST_STEPS
};

/* Training steps at each depth below the last one, if layers are free, and at the last one; sequences for the
 * difference to the optimum. */
typedef struct icl_descent_budget {
    size_t stage, last, sequences;
} icl_descent_budget;

/* Adds the cell "tied-d5-n20-L4" or "untied-d5-n20-L4", with one layer for each step, at place x of a curve. */
const icl_study_cell *icl_study_add_descent(icl_study *study, const icl_descent_problem *problem,
                                            const icl_descent_budget *budget, const char *curve, double x);

/* Returns the problem of a cell added in this way; it has no noise. */
icl_descent_problem icl_study_descent(const icl_study_cell *cell);

icl_status icl_study_measure_descent(icl_study *study, const icl_study_cell *cell, icl_trainer *trained,
                                     size_t sequences, icl_number *numbers, icl_error *error);

/* The optimum: its step lengths and its expected loss. */
typedef struct icl_best_descent {
    double lengths[ICL_DESCENT_MOST_STEPS], loss;
} icl_best_descent;

icl_best_descent icl_study_best_descent(const icl_study *study, const icl_study_cell *cell);

/* Judges the loss against the optimum's: within the relative tolerance, or at most that far above it. */
void icl_study_judge_descent(icl_study *study, const icl_study_cell *cell, double tolerance, icl_criterion criterion);

/* ---- Sample covariances of standard normal inputs, for expectations that have no closed form ---- */

/* Draws S = X^T X / n [d][d], X [n][d] with independent entries N(0, 1): a function of (seed, number). row holds d
 * doubles. */
void icl_wishart_sample(size_t d, size_t n, uint32_t seed, uint64_t number, double *row, double *matrix);

/* A function of S's eigenvalues [d], ascending. */
typedef double icl_spectral_function(const void *user, size_t d, const double *eigenvalues);

/* Computes the mean of the function over `count` samples, 2 or more, and its standard error. */
icl_status icl_wishart_mean(size_t d, size_t n, uint32_t seed, size_t count, icl_spectral_function *function,
                            const void *user, double *mean, double *standard_error, icl_error *error);

/* ---- Curvature of the expected loss of loops ---- */

/*
 * Tells whether a multiple of the identity is best for a looped layer.
 *
 * With A = -(a I + t K), K antisymmetric and ||K||_F = 1, the expected loss E ||(I - S (a I + t K))^L||_F^2 is its
 * value at t = 0 plus t^2 c. Expectations do not change with the basis, so c is the same for the mean over all such K,
 * in which E K_pq^2 = 1 / (d (d - 1)). In the eigenbasis of S, with eigenvalues s and r = 1 - a s,
 *     c = E sum_(p != q) E K_pq^2 (s_p^2 h_pq^2 - 2 s_p s_q r_p^L g_pq),
 *     h_pq = sum_i r_p^i r_q^(L-1-i),   g_pq = sum_m (L - 1 - m) r_p^(L-2-m) r_q^m.
 * If c < 0, loops with unequal, turning steps are better, as two steps of unequal length are better than two equal
 * ones. For L = 2 and a = 1, c tends to -2 / n: h = r_p + r_q, g = 1, E r_p r_q = -1 / n.
 */

/* Estimates c for tied steps of length a, over `count` sample covariances, and its standard error. */
icl_status icl_looped_skew_curvature(const icl_descent_problem *problem, double a, uint32_t seed, size_t count,
                                     double *curvature, double *standard_error, icl_error *error);

#endif
