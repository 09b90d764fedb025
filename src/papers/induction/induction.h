/* What the studies of induction heads compute, and tests check. */
#ifndef ICLAB_PAPERS_INDUCTION_INDUCTION_H
#define ICLAB_PAPERS_INDUCTION_INDUCTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Moments of a training ---- */

/* What a training with a plateau and a drop went through: the loss, and what the heads look at, behind some
 * of its steps. */

enum { ICL_MOST_MOMENTS = 512 };

/* What is measured behind so many steps. */
typedef struct icl_moment {
    double step, loss, previous, induction;
} icl_moment;

typedef struct icl_moments {
    icl_moment all[ICL_MOST_MOMENTS];
    size_t count;
} icl_moments;

/* The level of the longest stretch of moments whose losses lie within the band of each other, after the start and
 * before the drop, which is over at half of log 2; NaN where there is none. *length receives its steps. */
#define ICL_MOMENTS_BAND 0.15

double icl_moments_plateau(const icl_moments *moments, double *length);

/* The first step with a loss below; NaN for never. */
double icl_moments_below(const icl_moments *moments, double loss);

/* The first step at which a pattern, that of layer 2 or of layer 1, stands this far above the least it was before; NaN
 * for never. It tells when a pattern sets in, and not how long it goes on to grow: that of layer 1 does so long after
 * the drop. */
#define ICL_MOMENTS_RISE 0.1

double icl_moments_onset(const icl_moments *moments, bool induction);

/* ---- Outer products ---- */

/*
 * Fits of outer products by outer products, the toys of induction circuits: vectors p_1, p_2, … learn the vectors t_1,
 * t_2, … by gradient descent on losses such as
 *
 *     L_ijk = 1/2 mean over all entries of (p_i x p_j x p_k - t_i x t_j x t_k)^2
 *           = (|p_i|^2 |p_j|^2 |p_k|^2 - 2 <p_i, t_i> <p_j, t_j> <p_k, t_k> + |t_i|^2 |t_j|^2 |t_k|^2) / (2 n)
 *
 * with n = d_i d_j d_k: an outer product is never formed, and a step costs the length of the vectors.
 */

enum { ICL_PRODUCT_VECTORS = 4, ICL_PRODUCT_LENGTH = 160 };

/* A place for each vector's numbers. */
typedef double icl_product_vectors[ICL_PRODUCT_VECTORS][ICL_PRODUCT_LENGTH];

typedef struct icl_products {
    size_t count;                       /* vectors */
    size_t length[ICL_PRODUCT_VECTORS]; /* of each, d_i */
    icl_product_vectors fitted, truth;  /* p_i and t_i */
} icl_products;

/* Standard normal numbers for both kinds of vectors, functions of the seed alone; count and length are set. */
void icl_products_draw(icl_products *products, uint32_t seed);

/* L of the outer product of the vectors with these three numbers. */
double icl_product_loss(const icl_products *products, const size_t factors[3]);

/* L of the prediction 0. */
double icl_product_start(const icl_products *products, const size_t factors[3]);

/* gradient += weight dL / dp, for all three. */
void icl_product_add_gradient(const icl_products *products, const size_t factors[3], double weight,
                              icl_product_vectors gradient);

#endif
