/* Quadratic targets in context (quadratic.c): the best step of gradient descent. */
#ifndef ICLAB_TASK_QUADRATIC_H
#define ICLAB_TASK_QUADRATIC_H

#include <stddef.h>

/*
 * The best single step of gradient descent on the products of two coordinates, for x ~ N(0, I). With the features
 * phi(x) = x x^T, n pairs and step lengths of their own for the part without trace and for the trace,
 *
 *     prediction = 1/n sum_j y_j (traceless ((x_j . x_t)^2 - r_j) + trace r_j),  r_j = |x_j|^2 |x_t|^2 / d.
 */
typedef struct icl_quadratic_step {
    double traceless, trace; /* step lengths */
    double loss;             /* E (prediction - target)^2 */
    double loss_by_trace;    /* if only the trace's step is taken */
} icl_quadratic_step;

icl_quadratic_step icl_quadratic_best_step(size_t dimension, size_t context, double mean_square_noise);

#endif
