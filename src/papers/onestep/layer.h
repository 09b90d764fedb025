/*
 * One layer of linear attention with all entries of P and Q free, f = Z + P Z Z^T Q Z / n: its matrices, and its loss
 * on prompts whose covariates were changed.
 *
 * The prediction is minus the last coordinate, so that P = [0 0; 0 u], Q = -[W 0; 0 0] predicts u x^T W^T h with
 * h = sum y_i x_i / n: Zhang, Frei, Bartlett's W_PV is P and their W_KQ is -Q.
 */
#ifndef ICLAB_PAPERS_ONESTEP_LAYER_H
#define ICLAB_PAPERS_ONESTEP_LAYER_H

#include "papers/reproduce.h"

enum { ICL_LAYER_D = 5, ICL_LAYER_WIDTH = ICL_LAYER_D + 1, ICL_LAYER_SIZE = 2 * ICL_LAYER_WIDTH * ICL_LAYER_WIDTH };

typedef struct icl_one_layer {
    double p[ICL_LAYER_WIDTH][ICL_LAYER_WIDTH]; /* P */
    double q[ICL_LAYER_WIDTH][ICL_LAYER_WIDTH]; /* -Q */
} icl_one_layer;

/* Reads the parameters of a trainer, whose model has inputs of ICL_LAYER_D numbers. */
icl_status icl_one_layer_read(icl_trainer *trainer, icl_one_layer *layer, icl_error *error);

/* Writes the flat vector [ICL_LAYER_SIZE]. */
void icl_one_layer_write(const icl_one_layer *layer, float *values);

/* Sets P = [0 0; 0 u], -Q = [W 0; 0 0], where W has the entries [d][d] `inner` in the basis of the eigenvectors of R
 * R^T, R as in icl_task_prior; root = NULL: the identity. */
void icl_one_layer_of_basis(double u, const double *inner, const double *root, icl_one_layer *layer);

/* Reads W's entries in that basis. */
void icl_one_layer_in_basis(const icl_one_layer *layer, const double *root, double *inner);

/* Scales P's last entry to 1, which does not change the prediction: (P / g, g Q). Returns g. */
double icl_one_layer_unscale(icl_one_layer *layer);

/* Returns the largest difference of an entry over the largest entry of the second matrix. */
double icl_layer_distance(double matrix[ICL_LAYER_WIDTH][ICL_LAYER_WIDTH],
                          double exact[ICL_LAYER_WIDTH][ICL_LAYER_WIDTH]);

/* ---- Losses ---- */

/* A change of prompts. Zero members change nothing. Labels are <w, x> of the new x, for the same w. */
typedef struct icl_prompt_change {
    double covariates;  /* factor of all x, including the query; 0: 1 */
    double query;       /* another factor, only for the query; 0: 1 */
    bool is_covariance; /* x of covariance I gets a covariance for each prompt: diag(l), l_i ~ Exponential(1) */
} icl_prompt_change;

typedef struct icl_changed_loss {
    double mse, se;       /* error of the trainer's model */
    double ols;           /* loss of least squares on the same prompts, if is_covariance; else NaN */
    double target, slope; /* E[y^2]; E[prediction y] / E[y^2] */
} icl_changed_loss;

/* Measures a layer on `sequences` noise-free sequences of a linear-regression recipe, drawn for evaluation. */
icl_status icl_one_layer_measure(icl_reproducing *run, const icl_recipe *recipe, const icl_one_layer *layer,
                                 const icl_prompt_change *change, size_t sequences, icl_changed_loss *loss,
                                 icl_error *error);

/* ---- The flow ---- */

/*
 * Gradient flow of one layer of linear attention on its expected loss, in double precision: Zhang, Frei, Bartlett 2023,
 * "Trained transformers learn linear models in-context" (arXiv 2306.09927).
 *
 * x ~ N(0, Lambda), w ~ N(0, I), y = <w, x>, n labels; Lambda = diag(l) in the basis used here. For the layer
 * P = [0 0; 0 u], -Q = [W 0; 0 0], with S = sum x_i x_i^T / n, the expectation of half the squared error is
 *
 *     L(u, W) = 1/2 E (u w^T S W x - w^T x)^2 = 1/2 sum_ij m_ij u^2 W_ij^2 - u sum_i p_i W_ii + const,
 *     m_ij = E[l_i G_i l_j],  p_i = E[l_i^2],  G = (1 + 1/n) Lambda + tr(Lambda) / n I,
 *
 * by E[S^2] = Lambda G; the outer expectations are over Lambda, if it is drawn for each prompt. The other blocks stay
 * 0: their contribution to the prediction would be of even degree in w, and the error is odd in w.
 */
typedef struct icl_flow_moments {
    double m[ICL_LAYER_D][ICL_LAYER_D], p[ICL_LAYER_D];
} icl_flow_moments;

/* Computes the moments of a fixed Lambda = diag(eigenvalues); and of l_i ~ Exponential(1), drawn for each prompt. n may
 * be infinite. */
void icl_flow_fixed(const double *eigenvalues, double n, icl_flow_moments *moments);
void icl_flow_exponential(double n, icl_flow_moments *moments);

typedef struct icl_flow {
    double u, w[ICL_LAYER_D * ICL_LAYER_D];
} icl_flow;

/* Returns u^2 - ||W||^2, which the flow conserves. */
double icl_flow_balance(const icl_flow *at);

/* Advances the flow by a time dt, with one step of Runge and Kutta's fourth-order method: du = -dL/du dt, dW = -dL/dW
 * dt. */
void icl_flow_advance(const icl_flow_moments *moments, double dt, icl_flow *at);

/* Computes the flow's end for a start with small u^2 = ||W||^2, by the paper: W = diag(a) / u with a_i = p_i / m_ii (1
 * / G_i for a fixed Lambda), u = (sum a_i^2)^(1/4) = tr(G^-2)^(1/4). */
void icl_flow_limit(const icl_flow_moments *moments, icl_flow *limit);

/* ---- Exact losses of W u = diag(1 / G), the limit for n labels, on prompts of other laws ---- */

/* The paper's error formula averaged over w: with m labels, 1/m tr(C G^-2 Lambda) for the mean C = Lambda^2 +
 * tr(Lambda) Lambda of the covariance of x y, and 1/n^2 tr(G^-2 Lambda (Lambda + tr(Lambda) I)^2). */
double icl_prompt_length_loss(const double *eigenvalues, double n, double m);

/* Returns the loss with all covariates times c, and the query's times q more, with m labels. */
double icl_covariate_shift_loss(const double *eigenvalues, double n, double m, double c, double q);

/* Returns the least loss of one layer with n labels if l_i ~ Exponential(1) is drawn anew for each prompt. */
double icl_exponential_loss(double n);

#endif
