/* What the reproductions of "Uncovering mesa-optimization algorithms in Transformers" (von Oswald and others 2023,
 * arXiv 2309.05858) share: a trained stack of mixers beside reference predictors, on the same sequences, at every
 * position. */
#ifndef ICLAB_PAPERS_MESA_MESA_H
#define ICLAB_PAPERS_MESA_MESA_H

#include "papers/reproduce.h"

enum { ICL_MESA_NAME = 48 };

/* One training of the recipe "mesa". */
typedef struct icl_mesa_cell {
    const char *name;
    const char *overrides; /* "section.key=value", separated by blanks; or "" */
    size_t steps;
    uint32_t seed;
} icl_mesa_cell;

/* Trains the cell, in the run folder runs/NAME-SEED, and evaluates it beside the task's reference predictors, on the
 * same sequences for all cells; freed by icl_evaluation_destroy. */
icl_status icl_mesa_evaluate(icl_reproducing *run, const icl_mesa_cell *cell, size_t sequences,
                             icl_evaluation **evaluation, icl_error *error);

/* Half the mean squared error, as the paper has it; NaN for NULL. */
double icl_mesa_half(const icl_score *score);

/* Judges the reference predictors against another simulation, and the floor against its closed form. */
icl_status icl_mesa_judge_references(icl_reproducing *run, const icl_evaluation *evaluation, icl_error *error);

/* Draws half losses by position of the model, called `ours`, and of the reference predictors. */
icl_status icl_mesa_draw(icl_reproducing *run, const char *name, const char *title, const char *ours,
                         const icl_evaluation *evaluation, icl_error *error);

/* ---- Gradient descent with Chebyshev's steps (chebyshev.c) ---- */

/* Steps 1 / a_k = (largest + least) / 2 + (largest - least) / 2 cos(pi (2 k - 1) / (2 K)) for k = 1 … K. */
typedef struct icl_mesa_descent {
    size_t steps;          /* K */
    double least, largest; /* the interval whose eigenvalues they suit */
} icl_mesa_descent;

/* Fits the interval to sequences drawn for fitting, and measures half the squared error on `sequences` others. */
icl_status icl_mesa_descend(icl_reproducing *run, size_t steps, size_t sequences, icl_mesa_descent *descent,
                            double *half_loss, double *standard_error, icl_error *error);

#endif
