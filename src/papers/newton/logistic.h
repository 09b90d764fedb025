/*
 * Regularised logistic regression by damped Newton steps (Giannou et al. 2024, arXiv 2403.03183, section 5):
 *     F(w) = mean_i log(1 + exp(-y_i <w, a_i>)) + mu / 2 ||w||^2,
 *     w <- w - H^-1 g / (1 + delta),   delta = M / 2 sqrt(g^T H^-1 g),   M = max_i ||a_i|| / sqrt(mu).
 * |F'''| <= M (F'')^(3/2) in every direction: |phi'''| <= phi'' for phi(t) = log(1 + exp(-t)), and F'' >= mu. So
 * M^2 / 4 F is self-concordant, delta is its Newton decrement, and a step leaves at most 2 delta^2 of it (Nesterov
 * 2018, "Lectures on Convex Optimization", theorem 5.2.2).
 */
#ifndef ICLAB_PAPERS_NEWTON_LOGISTIC_H
#define ICLAB_PAPERS_NEWTON_LOGISTIC_H

#include <stdint.h>

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

#endif
