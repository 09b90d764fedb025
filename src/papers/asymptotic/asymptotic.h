/*
 * One layer of linear attention on a fixed set of sequences, and its errors where all sizes are large: Lu, Letey,
 * Zavatone-Veth, Maiti, Pehlevan 2025, "Asymptotic theory of in-context learning by linear attention" (PNAS 122, arXiv
 * 2405.11751), with the conventions of its authors' programs (Pehlevan-Group/icl-asymptotic).
 *
 * x ~ N(0, I / d), y = <w, x> + noise of variance rho. k tasks w lie on the sphere |w|^2 = d; each of n sequences has
 * one of them, l labelled pairs and a query. A layer whose P has only a last entry predicts tr(Gamma H^T) from
 *
 *     H = x_query v^T,   v = (d / l sum_i y_i x_i, 1 / l sum_i y_i^2):
 *
 * linear regression with the d (d + 1) features H. Gamma without a ridge is the solution of least squares, and among
 * several the one of least norm, where gradient descent from 0 ends. Two tests of it: on fresh tasks, uniform on the
 * sphere ("icl"), and on fresh sequences of the k tasks ("idg", in-distribution generalisation).
 */
#ifndef ICLAB_PAPERS_ASYMPTOTIC_ASYMPTOTIC_H
#define ICLAB_PAPERS_ASYMPTOTIC_ASYMPTOTIC_H

#include <stddef.h>
#include <stdint.h>

#include "iclab/backend.h"

/* Expected squared errors, with the noise of the label that is predicted. */
typedef struct icl_layer_errors {
    double icl, idg;
} icl_layer_errors;

/* ---- The limit ---- */

typedef struct icl_limit_point {
    double tau;   /* n / d^2 */
    double alpha; /* l / d */
    double kappa; /* k / d */
    double rho;   /* variance of the labels' noise */
} icl_limit_point;

/* Returns the errors for d to infinity; infinite at tau = 1. All members are above 0, and rho may be 0. */
icl_layer_errors icl_limit_errors(const icl_limit_point *point);

/* ---- Finite d ---- */

typedef struct icl_pretraining_size {
    size_t d, context, tasks, sequences; /* d, l, k, n, each at least 1 */
    double noise;                        /* rho, above 0 */
} icl_pretraining_size;

/* The sequences, as their features. */
typedef struct icl_pretraining {
    icl_pretraining_size size;
    double *tasks;   /* [k][d] */
    double *queries; /* [n][d] */
    double *values;  /* [n][d + 1], v */
    double *labels;  /* [n], of the queries */
    double *memory;  /* of the four */
} icl_pretraining;

/* Draws number `number` of the seed. With tokens [n][l + 1][d + 1] every pair is drawn: token i of a sequence is
 * (sqrt(d) x_i, y_i), and the last one (sqrt(d) x_query, 0). Without, v is drawn from its law, which is that of
 *     q = s chi^2_l,   sum y_i^2 = q,   sum y_i x_i = q w / (d s) + sqrt(q) N(0, I / d - w w^T / (d^2 s)),
 * s = 1 + rho, because each x_i given y_i is normal with mean y_i w / (d s) and this covariance. The tasks are the
 * same with tokens and without. The caller frees drawn->memory with icl_free. */
icl_status icl_pretraining_draw(const icl_pretraining_size *size, uint32_t seed, uint64_t number, float *tokens,
                                icl_pretraining *drawn, icl_error *error);

/* Computes Gamma [d][d + 1] without a ridge. Up to d (d + 1) sequences it interpolates them, by Cholesky's
 * factorisation of the n x n products <H, H'> = <x, x'> <v, v'>; beyond, by that of the normal equations: n^3 / 3 or
 * n N^2 + N^3 / 3 multiply-adds, N = d (d + 1). ICL_ERROR_INPUT if double precision finds them dependent. */
icl_status icl_ridgeless(const icl_pretraining *sequences, double *gamma, icl_error *error);

/* Computes the errors of any Gamma exactly, given these tasks. Over tasks on the sphere with mean u and second moments
 * R, and with s = 1 + rho, E w v^T = [R, s u], and E v v^T has the blocks d / l s I + (1 + 1 / l) R, s (1 + 2 / l) u
 * and s^2 (1 + 2 / l). */
icl_layer_errors icl_gamma_errors(const icl_pretraining *sequences, const double *gamma);

/* Trains from Gamma = 0 by `steps` steps of gradient descent, each on all sequences, given the tokens that they were
 * drawn with, and reads Gamma. */
icl_status icl_train_on_sequences(icl_backend *backend, const icl_pretraining *sequences, const float *tokens,
                                  size_t steps, double *gamma, icl_error *error);

/* All of it. */
typedef struct icl_layer_run {
    icl_backend *backend; /* where the layer is trained */
    size_t steps;         /* 0: it is not, and no tokens are drawn */
    uint32_t seed;        /* of the numbers drawn */
    uint64_t number;      /* runs of different numbers share none of them */
} icl_layer_run;

#endif
