/* Parts of studies that tests check, by the file that defines them. */
#ifndef ICLAB_PAPERS_CHECKED_H
#define ICLAB_PAPERS_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iclab/model.h"
#include "iclab/status.h"
#include "papers/reproduce.h"
#include "probe/descent.h"

/* ---- Feature maps that imitate softmax attention (architecture/conversion.c) ---- */

/*
 * Softmax attention distilled into the learned feature maps of linear attention, layer by layer: with a teacher's
 * queries, keys and values, o_t what its softmax attention reads, and phi(x) = relu(W x + b) for each head,
 *
 *     o'_t = sum_s phi(q_t) . phi(k_s) v_s / (phi(q_t) . sum_s phi(k_s) + 1e-6)
 *
 * is brought close to o by Adam on the mean of |o' - o|^2. Each layer sees what the teacher's layers before it give.
 */

typedef struct icl_distillation_params {
    icl_trainer *teacher;     /* the model whose softmax layers are distilled; it has no loops */
    const icl_model *student; /* as the teacher, with mixers "linear", model.feature_map = learned:M and normalizer */
    size_t steps, batch;      /* training steps, and sequences in each */
    double learning_rate;     /* rate at the first step; it falls along half a cosine */
    uint32_t seed;            /* seed of the sequences */
} icl_distillation_params;

/* Copies the parameters that both models have, by name, between vectors of icl_model_size numbers; the others stay as
 * they are. ICL_ERROR_INPUT if a name has two shapes. */
icl_status icl_distillation_copy(const icl_model *from, const float *from_values, const icl_model *to, float *to_values,
                                 icl_error *error);

/* Trains the maps in `values` [icl_model_size of the student]; the other parameters stay. *before and *after receive
 * sum |o' - o|^2 / sum |o|^2 over all layers on sequences drawn for evaluation. */
icl_status icl_distillation_run(icl_reproducing *run, const icl_distillation_params *params, float *values,
                                double *before, double *after, icl_error *error);

/* ---- Constructed gradient descent (gradient_descent/gradient_descent.c) ---- */

enum { ICL_GD_DIMENSION = 10, ICL_GD_CONTEXT = 10 };

/* Writes the weights of gradient descent into every part of the model, whatever its form: P's diagonal is (-input …
 * -input, -rate), Q's (n … n, 0), since models divide their sums by n; in the sparse form A = -rate n I. A tied model
 * takes the first step's rates. */
void icl_gd_construct(const icl_model *model, const icl_descent *descent, size_t d, size_t n, float *values);

/* ---- Logistic regression (newton/descent.c) ---- */

/*
 * Regularised logistic regression by damped Newton steps (Giannou et al. 2024, arXiv 2403.03183, section 5):
 *     F(w) = mean_i log(1 + exp(-y_i <w, a_i>)) + mu / 2 ||w||^2,
 *     w <- w - H^-1 g / (1 + delta),   delta = M / 2 sqrt(g^T H^-1 g),   M = max_i ||a_i|| / sqrt(mu).
 * |F'''| <= M (F'')^(3/2) in every direction: |phi'''| <= phi'' for phi(t) = log(1 + exp(-t)), and F'' >= mu. So
 * M^2 / 4 F is self-concordant, delta is its Newton decrement, and a step leaves at most 2 delta^2 of it (Nesterov
 * 2018, "Lectures on Convex Optimization", theorem 5.2.2).
 */

enum { ICL_LOGISTIC_D = 5, ICL_LOGISTIC_N = 26 };

#define ICL_LOGISTIC_MU 0.1

typedef struct icl_logistic {
    double inputs[ICL_LOGISTIC_N][ICL_LOGISTIC_D]; /* y_i a_i */
    double concordance;                            /* M */
} icl_logistic;

/* a_i, w ~ N(0, I), y_i = 1 with probability 1 / (1 + exp(-<w, a_i>)), else -1: a function of (seed, number). */
void icl_logistic_draw(uint32_t seed, uint64_t number, icl_logistic *problem);

double icl_logistic_loss(const icl_logistic *problem, const double *at);

/* The state at w = at [d]. */
typedef struct icl_logistic_point {
    double decrement;     /* delta */
    double gradient_norm; /* ||g|| */
} icl_logistic_point;

/* Evaluates the decrement and the gradient at w, and takes a step from there. H is inverted by Newton's iteration,
 * too. */
icl_logistic_point icl_logistic_step(const icl_logistic *problem, double *at);

/* ---- Regulators (plant/control.c) ---- */

/*
 * Linear-quadratic regulators of small plants: x' = A x + B u + p e, e ~ N(0, I), with the cost E(x^T x + u^T u) of a
 * step. The controller u = -K x of the least mean cost follows from the solution V of Riccati's equation
 *
 *     V = I + A^T V A - A^T V B (I + B^T V B)^-1 B^T V A,   K = (I + B^T V B)^-1 B^T V A,
 *
 * and its mean cost is p^2 tr V. That of any other K is p^2 tr V_K, V_K = I + K^T K + (A - B K)^T V_K (A - B K). All
 * matrices are row-major, in double.
 */

enum { ICL_PLANT_STATES = 4, ICL_PLANT_INPUTS = 2, ICL_PLANT_SEEN = ICL_PLANT_STATES + ICL_PLANT_INPUTS };

/* (A B), [states][states + inputs]. */
typedef struct icl_plant {
    double matrix[ICL_PLANT_STATES * ICL_PLANT_SEEN];
} icl_plant;

typedef struct icl_regulator {
    double gain[ICL_PLANT_INPUTS * ICL_PLANT_STATES];  /* K */
    double value[ICL_PLANT_STATES * ICL_PLANT_STATES]; /* V */
} icl_regulator;

/* Solves Riccati's equation by doubling (Chu, Fan, Lin, Wang 2004): after k steps V is that of the best controller for
 * 2^k steps. Returns false if nothing finite comes out, as for a plant that no controller makes stable. */
bool icl_plant_regulate(const icl_plant *plant, icl_regulator *best);

/* Returns tr V_K of u = -K x on the plant; infinity if the loop A - B K is not stable. */
double icl_plant_cost(const icl_plant *plant, const double *gain);

/* ---- The error of a memory (recall/onepass.c) ---- */

/* The error of a memory of dimension d that stores n random unit keys with one-hot values: half of the squared error of
 * a value, averaged over the keys. Closed forms, and the errors for given keys. */

/* Returns the error of the sum rule, S = sum v k^T: (n - 1) / (2 d). */
double icl_recall_error_sum(size_t d, size_t n);

/* Return the error of the delta rule with a write strength of 1, once over the keys: the expectation at any d > 1, and
 * its limit for d and n to infinity with r = n / d. onepass.c has the derivation. */
double icl_recall_error_delta(size_t d, size_t n);
double icl_recall_error_delta_limit(double r);

/* Returns the error of least squares: max(0, 1 - d / n) / 2. */
double icl_recall_error_least_squares(size_t d, size_t n);

/* Computes, for given keys [n][d] of length 1, the error after `passes` passes of the delta rule. */
icl_status icl_recall_error_passes(size_t d, size_t n, const double *keys, size_t passes, double *half_error,
                                   icl_error *error);

/* Computes, for such keys, the error of least squares with a ridge above 0. */
icl_status icl_recall_error_ridge(size_t d, size_t n, const double *keys, double ridge, double *half_error,
                                  icl_error *error);

#endif
