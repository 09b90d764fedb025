/*
 * The two toys of the reproduction "induction-toys", of vectors a, b, c and d that learn outer products (products.h) by
 * gradient descent with step 1.
 */
#ifndef ICLAB_PAPERS_INDUCTION_TOYS_H
#define ICLAB_PAPERS_INDUCTION_TOYS_H

#include "papers/induction/products.h"
#include "papers/reproduce.h"

/* The places of the vectors. */
enum { ICL_TOY_A, ICL_TOY_B, ICL_TOY_C, ICL_TOY_D };

/* Takes a step of gradient descent. */
void icl_toy_step(icl_products *products, icl_product_vectors gradient);

/* Judges and draws each, over so many seeds. */
icl_status icl_toys_clamping(icl_reproducing *run, size_t seeds, icl_error *error);
icl_status icl_toys_transience(icl_reproducing *run, size_t seeds, icl_error *error);

#endif
