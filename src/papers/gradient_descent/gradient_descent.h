/* Shared by the reproductions of "Transformers learn in-context by gradient descent" (von Oswald et al. 2022, arXiv
 * 2212.07677). */
#ifndef ICLAB_PAPERS_GRADIENT_DESCENT_GRADIENT_DESCENT_H
#define ICLAB_PAPERS_GRADIENT_DESCENT_GRADIENT_DESCENT_H

#include "papers/study.h"
#include "probe/descent.h"

enum { ICL_GD_DIMENSION = 10, ICL_GD_CONTEXT = 10 };

/* One step of gradient descent on x uniform on [-a, a]^d, w ~ N(0, I), n pairs: its best rate for raw sums, and half of
 * the expected squared error. With S = sum_j x_j x_j^T, v = a^2 / 3 and E x^4 = a^4 / 5 the error is v / 2 tr
 * E (I - rate S)^2. */
typedef struct icl_gd_step {
    double rate, half_loss;
} icl_gd_step;
icl_gd_step icl_gd_best_step(double a, size_t d, size_t n);

/* Writes weights that are the descent's into every part of the model, whatever its form: P's diagonal is (-input …
 * -input, -rate), Q's (n … n, 0), since models divide their sums by n; in the sparse form A = -rate n I. A tied
 * model takes the first step's. */
void icl_gd_construct(const icl_model *model, const icl_descent *descent, size_t d, size_t n, float *values);

/* How alike the sensitivities of the trainer's model and of the descent are, on evaluation sequences: five numbers,
 * from the root mean squares of the difference of predictions and of predictions on. */
enum {
    ICL_GD_DIFFERENCE = 0,
    ICL_GD_PREDICTION,
    ICL_GD_RELATIVE, /* the quotient of these two */
    ICL_GD_COSINE,
    ICL_GD_DISTANCE,
    ICL_GD_ALIGNMENT
};
icl_status icl_gd_align(const icl_study *study, icl_trainer *trainer, const icl_descent *descent, size_t sequences,
                        icl_number numbers[ICL_GD_ALIGNMENT], icl_error *error);

#endif
