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

/* Of a flat vector of a model with inputs of ICL_LAYER_D numbers. */
icl_status icl_one_layer_read(const icl_model *model, const float *values, icl_one_layer *layer, icl_error *error);
icl_status icl_one_layer_read_trained(icl_trainer *trainer, icl_one_layer *layer, icl_error *error);

/* The flat vector [ICL_LAYER_SIZE]. */
void icl_one_layer_write(const icl_one_layer *layer, float *values);

/* P = [0 0; 0 u], -Q = [W 0; 0 0], where W has the entries [d][d] `inner` in the basis of the eigenvectors of R R^T, as
 * icl_task_prior has R; root = NULL: the identity. */
void icl_one_layer_of_basis(double u, const double *inner, const double *root, icl_one_layer *layer);

/* W's entries in that basis. */
void icl_one_layer_in_basis(const icl_one_layer *layer, const double *root, double *inner);

/* The columns of R = sqrt(lambda_i) u_i divided by their lengths: u_i. */
void icl_eigenbasis(const double *root, double *basis);

/* Makes P's last entry 1, on which the prediction does not depend: (P / g, g Q). Returns g. */
double icl_one_layer_unscale(icl_one_layer *layer);

/* The largest difference of an entry over the largest entry of the second. */
double icl_layer_distance(double is[ICL_LAYER_WIDTH][ICL_LAYER_WIDTH], double exact[ICL_LAYER_WIDTH][ICL_LAYER_WIDTH]);

/* ---- Losses ---- */

/* What becomes of a prompt. Zero: every number is 1, nothing. Labels are <w, x> of the new x, for the same w. */
typedef struct icl_prompt_change {
    double covariates;  /* factor of all x, the query's, too; 0: 1 */
    double query;       /* another, of the query alone; 0: 1 */
    bool is_covariance; /* x of covariance I gets one of its own for each prompt: diag(l), l_i ~ Exponential(1) */
} icl_prompt_change;

typedef struct icl_changed_loss {
    double mse, se;       /* of the trainer's model */
    double ols;           /* of least squares on the same prompts, where is_covariance; else NaN */
    double target, slope; /* E[y^2]; E[prediction y] / E[y^2] */
} icl_changed_loss;

/* On `sequences` noise-free sequences of a linear-regression recipe, drawn for evaluation. */
icl_status icl_one_layer_measure(icl_reproducing *run, const icl_recipe *recipe, const icl_one_layer *layer,
                                 const icl_prompt_change *change, size_t sequences, icl_changed_loss *loss,
                                 icl_error *error);

#endif
