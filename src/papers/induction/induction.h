/* Computations of the studies of induction heads, which tests check. */
#ifndef ICLAB_PAPERS_INDUCTION_INDUCTION_H
#define ICLAB_PAPERS_INDUCTION_INDUCTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Moments of a training ---- */

/* The course of a training with a plateau and a drop: the loss, and what the heads attend to, after some of its
 * steps. */

enum { ICL_MOST_MOMENTS = 512 };

/* The measurements after `step` steps. */
typedef struct icl_moment {
    double step, loss, previous, induction;
} icl_moment;

typedef struct icl_moments {
    icl_moment all[ICL_MOST_MOMENTS];
    size_t count;
} icl_moments;

/* Returns the level of the longest stretch of moments whose losses differ by at most the band, after the start and
 * before the drop, which ends at half of log 2; NaN if there is none. *length receives its steps. */
#define ICL_MOMENTS_BAND 0.15

double icl_moments_plateau(const icl_moments *moments, double *length);

/* Returns the first step with a loss below this; NaN for never. */
double icl_moments_below(const icl_moments *moments, double loss);

/* Returns the first step at which a pattern, that of layer 2 or of layer 1, stands this far above its least value so
 * far; NaN for never. This is when a pattern sets in, not when it stops growing: that of layer 1 grows long after the
 * drop. */
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

/* Storage for each vector's numbers. */
typedef double icl_product_vectors[ICL_PRODUCT_VECTORS][ICL_PRODUCT_LENGTH];

typedef struct icl_products {
    size_t count;                       /* vectors */
    size_t length[ICL_PRODUCT_VECTORS]; /* length d_i of each vector */
    icl_product_vectors fitted, truth;  /* p_i and t_i */
} icl_products;

/* Draws standard normal numbers for both kinds of vectors, functions of only the seed; count and length are set
 * before. */
void icl_products_draw(icl_products *products, uint32_t seed);

/* Returns L of the outer product of the vectors with these three numbers. */
double icl_product_loss(const icl_products *products, const size_t factors[3]);

/* Returns L of the prediction 0. */
double icl_product_start(const icl_products *products, const size_t factors[3]);

/* Adds weight dL / dp to the gradient, for all three vectors. */
void icl_product_add_gradient(const icl_products *products, const size_t factors[3], double weight,
                              icl_product_vectors gradient);

#endif
