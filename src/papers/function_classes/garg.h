/* What studies of "What can transformers learn in-context?" (Garg and others 2022, arXiv 2208.01066) share with others:
 * errors at every position, over the mean square of the functions. */
#ifndef ICLAB_PAPERS_FUNCTION_CLASSES_GARG_H
#define ICLAB_PAPERS_FUNCTION_CLASSES_GARG_H

#include "papers/seeds.h"
#include "papers/study.h"

enum { ICL_GARG_POINTS = 128 }; /* of a curve, at most */

/* Settings of all models of the paper's own size, d = 20. */
#define ICL_GARG_FULL                                                                                                  \
    "task.d=20 model.layers=12 model.heads=8 model.width=256 train.learning_rate=0.0001 train.schedule=constant "      \
    "train.warmup=0 task.curriculum=2000 "

/* A predictor's error after `pairs` pairs over `unit`, and the standard error of that; NaN for NULL. */
double icl_garg_error(const icl_score *score, size_t pairs, double unit, double *standard_error);

#endif
