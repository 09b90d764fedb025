/*
 * The algorithms that linear attention is compared with, in double on the host: K steps of gradient descent on the
 * squared error over a context, and of GD++ (von Oswald et al. 2022, "Transformers learn in-context by gradient
 * descent", arXiv 2212.07677).
 */
#ifndef ICLAB_PROBE_DESCENT_H
#define ICLAB_PROBE_DESCENT_H

#include <stddef.h>

/*
 * Step l changes all tokens and the query at once, with the sums over the context as they are before it:
 *     y <- y - rates_l <sum_j y_j x_j, x>,     x <- x - inputs_l (sum_j x_j x_j^T) x,
 * and the prediction is minus the query's y after the last step. Sums are raw: no 1 / n.
 */
typedef struct icl_descent {
    size_t steps;
    const double *rates;  /* [steps] */
    const double *inputs; /* [steps] of GD++; NULL: plain gradient descent */
} icl_descent;

/* The prediction is linear in the query's input: weights [count][d] with prediction = <weights, x_query>, for tokens
 * [count][n + 1][d + 1], whose queries are not read. scratch holds icl_descent_scratch numbers. */
void icl_descent_weights(const icl_descent *descent, size_t d, size_t n, size_t count, const float *tokens,
                         double *scratch, double *weights);

/* Numbers that icl_descent_weights needs for its own use. */
size_t icl_descent_scratch(size_t d, size_t n);

#endif
