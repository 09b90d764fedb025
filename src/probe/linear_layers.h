/*
 * The parts of a linear transformer's layers and their effects, computed on the host in double precision.
 *
 * A layer changes all tokens of a given sequence by one linear map: with G = sum of e e^T over the context,
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

/* The four blocks of sum P G Q, in that paper's names: first the part of a token that a block changes, then the part by
 * which. In diagonal layers w_yx is the gradient step, w_xx its preconditioning, w_yy a rescaling of the labels, w_xy
 * an adaptive step. */
typedef enum icl_linear_term {
    ICL_TERM_XX = 0,
    ICL_TERM_XY,
    ICL_TERM_YX,
    ICL_TERM_YY,
    ICL_LINEAR_TERMS
} icl_linear_term;

/* Returns "w_xx" and so on. */
const char *icl_linear_term_name(icl_linear_term term);

/* The part that is removed from one layer, or from every layer. */
typedef struct icl_linear_ablation {
    size_t layer;        /* or ICL_EVERY_LAYER */
    unsigned terms;      /* bits 1 << icl_linear_term; ICL_EVERY_TERM leaves an idle layer */
    bool beyond_scalars; /* removes all but the layer's four numbers (icl_linear_layers_terms) */
} icl_linear_ablation;

#define ICL_EVERY_LAYER SIZE_MAX
#define ICL_EVERY_TERM  ((1U << ICL_LINEAR_TERMS) - 1)

/* Copies the parameters. ICL_ERROR_INPUT for models of another family. */
icl_status icl_linear_layers_create(const icl_model *model, size_t dimension, size_t context, const float *values,
                                    icl_linear_layers **layers, icl_error *error);
void icl_linear_layers_destroy(icl_linear_layers **layers);

/* Computes implicit weight vectors [L][d] after each of the L layers of one sequence's tokens [n + 1][d + 1], without
 * the ablated part (NULL: none). The prediction after layer l is <weights[l], x_t>. Uses memory of `layers`: one call
 * at a time. */
void icl_linear_layers_weights(icl_linear_layers *layers, const float *tokens, const icl_linear_ablation *ablation,
                               double *weights);

/* Measures how much the terms move the context of one sequence: changes [L][ICL_LINEAR_TERMS], the root mean square of
 * a term's addition to the tokens' x or y, over that of this x or y before the layer. 0 if there is nothing to move.
 * Uses memory of `layers`. */
void icl_linear_layers_changes(icl_linear_layers *layers, const float *tokens, double *changes);

/*
 * Computes the momentum of the layers of one sequence: momentum [L]. With r = y the residuals, X the inputs and S = X^T
 * X of the context before a layer, a = X^T r is the gradient by which tokens step, and after a diagonal layer it is
 *
 *     a' = (I + w_xx S) X^T r' + m a,  m = w_xy <r, r'>,
 *
 * the new residuals' gradient and m times the old one: a heavy ball whose momentum m depends on the sequence (lemma 4.4
 * of arXiv 2402.14180). 0 for the last layer, whose inputs nothing reads. Uses memory of `layers`.
 */
void icl_linear_layers_momentum(icl_linear_layers *layers, const float *tokens, double *momentum);

/* Computes w_xx, w_xy, w_yx, w_yy of a layer, with its factor taken to be 1/n (times n for raw sums): the sums over
 * heads of the products of mean diagonal entries of P and Q, where the mean of x is over all of x's entries. Exact for
 * diagonal layers. */
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
    double gdpp;    /* only w_yx and w_xx: GD++ (arXiv 2212.07677) */
    double descent; /* only w_yx: gradient descent */
    /* P = [0 0; 0 1], Q = [A 0; 0 0]: preconditioned gradient descent (arXiv 2306.00297, equation 8) */
    double sparse;
    double sparse_b; /* P = [B 0; 0 1], Q = [A 0; 0 0] (likewise, equation 11) */
} icl_linear_patterns;

icl_linear_patterns icl_linear_layers_patterns(const icl_linear_layers *layers, size_t layer);

/* Computes A [d][d] of a layer's gradient step y <- y + <sum_j y_j x_j, A x>, with its factor taken to be 1/n as in
 * icl_linear_layers_terms: the sum over heads of P's last corner times Q's block of x. A = w_yx I in diagonal
 * layers. */
void icl_linear_layers_step(const icl_linear_layers *layers, size_t layer, double *step);

/* Returns P or Q of a head of a layer [d + 1][d + 1]. Only their product counts: (P, Q) and (a P, Q / a) are the same
 * layer for any a. The pair chosen here has equal Frobenius norms, and the trace of Q's block of x is not negative, so
 * that P's last corner is below 0 if the step goes downhill. Valid until destroy. */
const double *icl_linear_layers_matrix(const icl_linear_layers *layers, size_t layer, size_t head, icl_model_part part);

/* ---- Heat maps of layers ---- */

/* The names "1", "2", … of as many layers as a heat map names. */
enum { ICL_NUMBERED_LAYERS = 24 };
extern const char *const icl_layer_numbers[ICL_NUMBERED_LAYERS];

/* Returns log10 of the share of its size by which a prediction moves, limited to ICL_ABLATION_POWERS either way,
 * because the prediction may move by many times its size without a term of the first layers, and not at all before the
 * term shows. The upper limit for a share that is not finite. */
#define ICL_ABLATION_POWERS 3.0
double icl_ablation_power(double share);

#endif
