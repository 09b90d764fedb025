/* What the reproductions of "What can transformers learn in-context?" (Garg and others 2022, arXiv 2208.01066) share:
 * trained models beside reference predictors at every position, errors over the mean square of the functions. */
#ifndef ICLAB_PAPERS_FUNCTION_CLASSES_GARG_H
#define ICLAB_PAPERS_FUNCTION_CLASSES_GARG_H

#include "papers/reproduce.h"
#include "papers/seeds.h"

enum { ICL_GARG_POINTS = 128 }; /* of a curve, at most */

/* The linear functions of a scale: n labelled pairs of dimension d, and how a model of them is trained. */
typedef struct icl_garg_setting {
    size_t dimension, pairs;
    const char *overrides; /* of the recipe "garg", "section.key=value", separated by blanks */
    size_t steps, sequences, seeds;
} icl_garg_setting;

const icl_garg_setting *icl_garg_setting_of(const icl_reproducing *run);

/* Overrides of all models of the paper's own size, d = 20. */
#define ICL_GARG_FULL                                                                                                  \
    "task.d=20 model.layers=12 model.heads=8 model.width=256 train.learning_rate=0.0001 train.schedule=constant "      \
    "train.warmup=0 task.curriculum=2000 "

/* A predictor's error after `pairs` pairs over `unit`, and the standard error of that; NaN for NULL. */
double icl_garg_error(const icl_score *score, size_t pairs, double unit, double *standard_error);

/* Draws errors over `unit` of all predictors, with standard errors, the model called `ours`. Where bound_d is not 0,
 * 1 - k / bound_d stands beside them. */
icl_status icl_garg_draw(icl_reproducing *run, const char *name, const char *title, const char *ours, double unit,
                         size_t bound_d, const icl_evaluation *evaluation, icl_error *error);

#endif
