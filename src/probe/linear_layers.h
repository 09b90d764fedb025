/*
 * What each layer of a linear transformer does, taken apart on the host in double precision.
 *
 * All that a layer does to a sequence is linear in its tokens, given the sequence: with G = sum of e
 * e^T over the context,
 *
 *     e <- A e,  A = I + factor * sum over heads of P G Q,  G <- A G A^T
 *
 * so that the query after l layers is (A_l ... A_1) (x_t, 0), and its prediction is <w, x_t> with an implicit weight
 * vector w that depends on the context alone (theorem 4.1 of Vladymyrov et al., arXiv 2402.14180).
 */
#ifndef ICLAB_PROBE_LINEAR_LAYERS_H
#define ICLAB_PROBE_LINEAR_LAYERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iclab/model.h"
#include "iclab/status.h"

typedef struct icl_linear_layers icl_linear_layers;

/* The four blocks of sum P G Q, in that paper's names: which part of a token they change, and by which part of it they
 * do. In diagonal layers w_yx is the gradient step, w_xx its preconditioning, w_yy a rescaling of the labels, w_xy
 * an adaptive step. */
typedef enum icl_linear_term {
    ICL_TERM_XX = 0,
    ICL_TERM_XY,
    ICL_TERM_YX,
    ICL_TERM_YY,
    ICL_LINEAR_TERMS
} icl_linear_term;

/* "w_xx" and so on. */
const char *icl_linear_term_name(icl_linear_term term);

/* The part that is taken away from one layer, or from each of them. */
typedef struct icl_linear_ablation {
    size_t layer;        /* or ICL_EVERY_LAYER */
    unsigned terms;      /* bits 1 << icl_linear_term; ICL_EVERY_TERM leaves a layer that does nothing */
    bool beyond_scalars; /* all of a layer but its four numbers (icl_linear_layers_terms) */
} icl_linear_ablation;

#define ICL_EVERY_LAYER SIZE_MAX
#define ICL_EVERY_TERM  ((1U << ICL_LINEAR_TERMS) - 1)

/* Copies the parameters. ICL_ERROR_INPUT for models of another family. */
icl_status icl_linear_layers_create(const icl_model *model, size_t dimension, size_t context, const float *values,
                                    icl_linear_layers **layers, icl_error *error);
void icl_linear_layers_destroy(icl_linear_layers **layers);

/* Implicit weight vectors [L][d] after each of the L layers of one sequence's tokens [n + 1][d + 1], without what is
 * ablated (NULL: with all). The prediction after layer l is <weights[l], x_t>. Uses memory of `layers`:
 * one call at a time. */
void icl_linear_layers_weights(icl_linear_layers *layers, const float *tokens, const icl_linear_ablation *ablation,
                               double *weights);

/* Measures how much the terms move the context of one sequence: changes [L][ICL_LINEAR_TERMS], the root mean square
 * of what a term adds to the tokens' x or y, over that of this x or y before the layer. 0 where there is nothing to
 * move. Uses memory of `layers`. */
void icl_linear_layers_changes(icl_linear_layers *layers, const float *tokens, double *changes);

/* w_xx, w_xy, w_yx, w_yy of a layer, with its factor taken to be 1/n (times n for raw sums): the sums over heads of the
 * products of mean diagonal entries of P and Q, the two of x over all of x's. Exact for diagonal layers. */
void icl_linear_layers_terms(const icl_linear_layers *layers, size_t layer, double terms[ICL_LINEAR_TERMS]);

/*
 * How far a layer is from patterns that the literature found, each as the distance to the nearest layer of that pattern
 * over the layer's own size: 0 is the pattern itself, 1 has nothing of it.
 *
 * All that counts of a layer is T = sum over heads of P (x) Q, whose entries P_ia Q_bj multiply G_ab, so distances are
 * those of T. Patterns are linear subspaces of such T: the distance is sqrt(1 - |projection of T|^2 / |T|^2) in the
 * Frobenius norm. Entries that nothing reads do not count: those that change x in the last layer, and, in a model of
 * one layer, those that act on the query's y, which is 0.
 */
typedef struct icl_linear_patterns {
    /* P and Q multiples of the identity in x and in y: the four numbers (arXiv 2402.14180, DIAG) */
    double diagonal;
    double gdpp;    /* w_yx and w_xx alone: GD++ (arXiv 2212.07677) */
    double descent; /* w_yx alone: gradient descent */
    /* P = [0 0; 0 1], Q = [A 0; 0 0]: preconditioned gradient descent (arXiv 2306.00297, equation 8) */
    double sparse;
    double sparse_b; /* P = [B 0; 0 1], Q = [A 0; 0 0] (the same, equation 11) */
} icl_linear_patterns;

icl_linear_patterns icl_linear_layers_patterns(const icl_linear_layers *layers, size_t layer);

/* A [d][d] of a layer's gradient step y <- y + <sum_j y_j x_j, A x>, with its factor taken to be 1/n as in
 * icl_linear_layers_terms: the sum over heads of P's last corner times Q's block of x. A = w_yx
 * I in diagonal layers. */
void icl_linear_layers_step(const icl_linear_layers *layers, size_t layer, double *step);

/* P or Q of a head of a layer [d + 1][d + 1]. Their product alone counts: (P, Q) and (a P, Q / a) are the same layer
 * for any a. Of these, both have the same Frobenius norm and the trace of Q's block of x is not negative, so that P's
 * last corner is below 0 where the step goes downhill. Valid until destroy. */
const double *icl_linear_layers_matrix(const icl_linear_layers *layers, size_t layer, size_t head, icl_model_part part);

/* ---- Heat maps of layers ---- */

/* "1" and so on: names of as many layers as a heat map names. */
enum { ICL_NUMBERED_LAYERS = 24 };
extern const char *const icl_layer_numbers[ICL_NUMBERED_LAYERS];

/* Without a term of the first layers the prediction may move by any number of its sizes, and by none before the term
 * shows: powers of ten of that share, up to ICL_ABLATION_POWERS either way. Of what is not finite: the largest. */
#define ICL_ABLATION_POWERS 3.0
double icl_ablation_power(double share);

#endif
