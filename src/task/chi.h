/* Inside the task room: chi-distributed numbers made from normal ones. */
#ifndef ICLAB_TASK_CHI_H
#define ICLAB_TASK_CHI_H

#include "iclab/ops.h"

/*
 * The table that icl_gram_sample reads, for a context of n pairs: row i < rows, rows <= n, is T_{n-i}, where T_k(z) is
 * the quantile function of the chi distribution with k degrees of freedom at Phi(z), so that T_k of a standard normal
 * has that distribution. coefficients [rows][ICL_CHI_PIECES][ICL_CHI_TERMS] receives floats held in doubles. Evaluated
 * in float, |error| < 2e-7 * max(1, T_k(z)) for |z| < 7. Made with +, -, *, / and sqrt alone, so that it has the same
 * bits on every machine; the cost does not depend on n.
 */
void icl_chi_table(size_t context, size_t rows, double *coefficients);

#endif
