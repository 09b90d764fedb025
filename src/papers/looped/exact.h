/*
 * Whether a looped layer does best with a multiple of the identity.
 *
 * With A = -(a I + t K), K antisymmetric and ||K||_F = 1, the expected loss E ||(I - S (a I + t K))^L||_F^2 is that of
 * t = 0 and t^2 c. Expectations do not change with the basis, so c is the same for the mean over all such K, in which
 * E K_pq^2 = 1 / (d (d - 1)). In the eigenbasis of S, with eigenvalues s and r = 1 - a s,
 *     c = E sum_(p != q) E K_pq^2 (s_p^2 h_pq^2 - 2 s_p s_q r_p^L g_pq),
 *     h_pq = sum_i r_p^i r_q^(L-1-i),   g_pq = sum_m (L - 1 - m) r_p^(L-2-m) r_q^m.
 * Where c < 0 loops with unequal, turning steps are better, as two steps of unequal length are better than two alike.
 * For L = 2 and a = 1, c tends to -2 / n: h = r_p + r_q, g = 1, E r_p r_q = -1 / n.
 */
#ifndef ICLAB_PAPERS_LOOPED_EXACT_H
#define ICLAB_PAPERS_LOOPED_EXACT_H

#include <stdint.h>

#include "iclab/descent_optimum.h"

/* c for tied steps of length a, over `count` sample covariances, and its standard error. */
icl_status icl_looped_skew_curvature(const icl_descent_problem *problem, double a, uint32_t seed, size_t count,
                                     double *curvature, double *standard_error, icl_error *error);

#endif
