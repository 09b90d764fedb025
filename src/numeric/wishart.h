/* The mean spectrum of a Wishart matrix, exactly: its moments, and quadrature for polynomials of its eigenvalues. */
#ifndef ICLAB_NUMERIC_WISHART_H
#define ICLAB_NUMERIC_WISHART_H

#include <stddef.h>

#include "iclab/status.h"

/* Moments are known up to this power. */
#define ICL_WISHART_MOST_POWER 17

/* Computes moments[k] = E tr (S - I)^k for k = 0 .. most <= ICL_WISHART_MOST_POWER, where S = X^T X / n and X [n][d]
 * has independent entries N(0, 1). Each has a relative error of the order of rounding, for any d and n >= 1. */
icl_status icl_wishart_moments(size_t d, size_t n, size_t most, double *moments, icl_error *error);

/* The measure of a rule: that of the mean eigenvalues s of S, whose mass is d; or that times s. */
typedef enum icl_wishart_measure { ICL_WISHART_SPECTRUM = 0, ICL_WISHART_WEIGHTED } icl_wishart_measure;

/* Computes Gauss's rule of `count` nodes, ascending and above 0: sum_i weights[i] p(nodes[i]) = E tr p(S), or E tr S
 * p(S), for every polynomial p of degree 2 count - 1 or less. ICL_ERROR_INPUT if double precision does not tell so many
 * nodes apart, or if they need moments above ICL_WISHART_MOST_POWER. */
icl_status icl_wishart_rule(icl_wishart_measure measure, size_t d, size_t n, size_t count, double *nodes,
                            double *weights, icl_error *error);

#endif
