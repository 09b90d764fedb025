/*
 * Gradient flow of one layer of linear attention on its expected loss, in double precision: Zhang, Frei, Bartlett 2023,
 * "Trained transformers learn linear models in-context" (arXiv 2306.09927).
 *
 * x ~ N(0, Lambda), w ~ N(0, I), y = <w, x>, n labels; Lambda = diag(l) in the basis used here. Of the layer
 * P = [0 0; 0 u], -Q = [W 0; 0 0] with S = sum x_i x_i^T / n half of the squared error is expected to be
 *
 *     L(u, W) = 1/2 E (u w^T S W x - w^T x)^2 = 1/2 sum_ij m_ij u^2 W_ij^2 - u sum_i p_i W_ii + const,
 *     m_ij = E[l_i G_i l_j],  p_i = E[l_i^2],  G = (1 + 1/n) Lambda + tr(Lambda) / n I,
 *
 * by E[S^2] = Lambda G; the outer expectations are over Lambda, where it is drawn for each prompt. The other blocks
 * stay 0: what the prediction would be along them is of even degree in w, and the error is odd in w.
 */
#ifndef ICLAB_PAPERS_ONESTEP_FLOW_H
#define ICLAB_PAPERS_ONESTEP_FLOW_H

#include "papers/onestep/layer.h"

typedef struct icl_flow_moments {
    double m[ICL_LAYER_D][ICL_LAYER_D], p[ICL_LAYER_D];
} icl_flow_moments;

/* Of a fixed Lambda = diag(eigenvalues); and of l_i ~ Exponential(1), drawn for each prompt. n may be infinite. */
void icl_flow_fixed(const double *eigenvalues, double n, icl_flow_moments *moments);
void icl_flow_exponential(double n, icl_flow_moments *moments);

typedef struct icl_flow {
    double u, w[ICL_LAYER_D * ICL_LAYER_D];
} icl_flow;

/* u^2 - ||W||^2, which the flow keeps. */
double icl_flow_balance(const icl_flow *at);

/* For a time dt, by one step of Runge and Kutta's fourth-order method: du = -dL/du dt, dW = -dL/dW dt. */
void icl_flow_advance(const icl_flow_moments *moments, double dt, icl_flow *at);

/* Where it ends from u^2 = ||W||^2 small, by the paper: W = diag(a) / u with a_i = p_i / m_ii (1 / G_i for a fixed
 * Lambda), u = (sum a_i^2)^(1/4) = tr(G^-2)^(1/4). */
void icl_flow_limit(const icl_flow_moments *moments, icl_flow *limit);

/* ---- Exact losses of W u = diag(1 / G), the limit for n labels, on prompts of other laws ---- */

/* The paper's error formula averaged over w: with m labels, 1/m tr(C G^-2 Lambda) for the mean C = Lambda^2 +
 * tr(Lambda) Lambda of the covariance of x y, and 1/n^2 tr(G^-2 Lambda (Lambda + tr(Lambda) I)^2). */
double icl_prompt_length_loss(const double *eigenvalues, double n, double m);

/* All covariates times c, and the query's times q more, with m labels. */
double icl_covariate_shift_loss(const double *eigenvalues, double n, double m, double c, double q);

/* Where l_i ~ Exponential(1) anew for each prompt: the least loss of one layer with n labels. */
double icl_exponential_loss(double n);

#endif
