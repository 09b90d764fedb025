/*
 * What each layer of a linear transformer does, taken apart on the host in double precision.
 *
 * All that a layer does to a sequence is linear in its tokens, given the sequence: with G = sum of e e^T over the context,
 *
 *     e <- A e,  A = I + factor * sum over heads of P G Q,  G <- A G A^T
 *
 * so that the query after l layers is (A_l ... A_1) (x_t, 0), and its prediction is <w, x_t> with an implicit weight vector w that
 * depends on the context alone (theorem 4.1 of Vladymyrov et al., arXiv 2402.14180).
 */
#ifndef ICLAB_PROBE_LINEAR_LAYERS_H
#define ICLAB_PROBE_LINEAR_LAYERS_H

#include <stddef.h>

#include "core/status.h"
#include "iclab/model.h"

typedef struct icl_linear_layers icl_linear_layers;

/* The four blocks of sum P G Q, in that paper's names: which part of a token they change, and by which part of it they do. In diagonal
 * layers w_yx is the gradient step, w_xx its preconditioning, w_yy a rescaling of the labels, w_xy an adaptive step. */
typedef enum icl_linear_term {
    ICL_TERM_XX = 0,
    ICL_TERM_XY,
    ICL_TERM_YX,
    ICL_TERM_YY,
    ICL_LINEAR_TERMS
} icl_linear_term;

/* "w_xx" and so on. */
const char *icl_linear_term_name(icl_linear_term term);

/* One term of one layer, taken away. */
typedef struct icl_linear_ablation {
    size_t layer;
    icl_linear_term term;
} icl_linear_ablation;

/* Copies the parameters. ICL_ERROR_INPUT for models of another family. */
icl_status icl_linear_layers_create(const icl_model *model, size_t dimension, size_t context,
                                    const float *values, icl_linear_layers **layers, icl_error *error);
void icl_linear_layers_destroy(icl_linear_layers **layers);

/* Implicit weight vectors [L][d] after each of the L layers of one sequence's tokens [n + 1][d + 1], without the ablated term
 * (NULL: with all). The prediction after layer l is <weights[l], x_t>. Uses memory of `layers`: one call at a time. */
void icl_linear_layers_weights(icl_linear_layers *layers, const float *tokens,
                               const icl_linear_ablation *ablation, double *weights);

/* w_xx, w_xy, w_yx, w_yy of a layer, with its factor taken to be 1/n (times n for raw sums): the sums over heads of the products of
 * mean diagonal entries of P and Q, the two of x over all of x's. Exact for diagonal layers. */
void icl_linear_layers_terms(const icl_linear_layers *layers, size_t layer, double terms[ICL_LINEAR_TERMS]);

/* P or Q of a head of a layer [d + 1][d + 1], both of the same Frobenius norm: their product alone counts. Valid until destroy. */
const double *icl_linear_layers_matrix(const icl_linear_layers *layers, size_t layer, size_t head,
                                       icl_model_part part);

#endif
