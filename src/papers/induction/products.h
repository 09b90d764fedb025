/*
 * Fits of outer products by outer products, the toys of induction circuits: vectors p_1, p_2, … learn the vectors t_1,
 * t_2, … by gradient descent on losses such as
 *
 *     L_ijk = 1/2 mean over all entries of (p_i x p_j x p_k - t_i x t_j x t_k)^2
 *           = (|p_i|^2 |p_j|^2 |p_k|^2 - 2 <p_i, t_i> <p_j, t_j> <p_k, t_k> + |t_i|^2 |t_j|^2 |t_k|^2) / (2 n)
 *
 * with n = d_i d_j d_k: an outer product is never formed, and a step costs the length of the vectors.
 */
#ifndef ICLAB_PAPERS_INDUCTION_PRODUCTS_H
#define ICLAB_PAPERS_INDUCTION_PRODUCTS_H

#include <stddef.h>
#include <stdint.h>

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
