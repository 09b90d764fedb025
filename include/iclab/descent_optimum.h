/*
 * Computes the least expected loss of K steps of gradient descent on a linear regression in context: exact, for any
 * size.
 *
 * n pairs y_i = <w, x_i> + sigma eps_i with x, w ~ N(0, I_d) and eps ~ N(0, 1); from w_0 = 0,
 *     w_(k+1) = w_k + a_k / n sum_i (y_i - <w_k, x_i>) x_i,
 * and the loss is the full squared error (<w_K, x> - <w, x>)^2 of a fresh x, without the query's own noise. It is the
 * loss that layers of linear attention with B = 0, A = -a_k I reach (Ahn et al. 2023, arXiv 2306.00297, lemma 1); with
 * one a for all layers it is the loss of a looped layer (Gatmiry et al. 2024, arXiv 2410.08292). The same numbers hold
 * for x ~ N(0, C), w ~ N(0, C^-1) and steps that are preconditioned with C^-1.
 */
#ifndef ICLAB_DESCENT_OPTIMUM_H
#define ICLAB_DESCENT_OPTIMUM_H

#include <stdbool.h>
#include <stddef.h>

#include "iclab/status.h"

ICL_C_BEGIN

/* The largest number of steps for which the expectation is known. */
#define ICL_DESCENT_MOST_STEPS 8

/* The regression and the descent on it. */
typedef struct icl_descent_problem {
    size_t dimension;      /* d >= 1 */
    size_t context;        /* n >= 1 pairs */
    size_t steps;          /* K, 1 to ICL_DESCENT_MOST_STEPS */
    double noise_variance; /* E[sigma^2] >= 0, in units of y^2; nothing else about the distribution of sigma matters */
    bool is_tied;          /* one step length for all steps */
} icl_descent_problem;

/*
 * Finds the best step lengths a_k, lengths [K], ascending if they are free (their order does not matter), and their
 * expected loss; either may be NULL. Without noise the lengths are a closed form; with noise, or with tied lengths,
 * they are the minimum nearest to the best of several starts, to seven digits. ICL_ERROR_INPUT for a problem outside
 * these bounds, or one whose eigenvalues double precision does not tell apart (K near 8).
 */
ICL_API icl_status icl_descent_optimum(const icl_descent_problem *problem, double *lengths, double *loss,
                                       icl_error *error);

/* Computes the expected loss of K steps of these lengths [K], best or not; is_tied is not read. ICL_ERROR_INPUT as
 * above. */
ICL_API icl_status icl_descent_loss(const icl_descent_problem *problem, const double *lengths, double *loss,
                                    icl_error *error);

ICL_C_END

#endif
