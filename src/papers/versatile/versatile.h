/* What the reproductions of "Linear Transformers are Versatile In-Context Learners" (arXiv 2402.14180) share: their
 * noise settings and a model trained for one of them. */
#ifndef ICLAB_PAPERS_VERSATILE_VERSATILE_H
#define ICLAB_PAPERS_VERSATILE_VERSATILE_H

#include "papers/reproduce.h"

enum { ICL_VERSATILE_NOISES = 10 };

typedef enum icl_versatile_parameterization {
    ICL_VERSATILE_GDPP = 0,
    ICL_VERSATILE_DIAG,
    ICL_VERSATILE_FULL,
    ICL_VERSATILE_PARAMETERIZATIONS
} icl_versatile_parameterization;

/* A distribution of the noise level: its name in cells, as task.noise has it, and for people. */
typedef struct icl_versatile_noise {
    const char *name, *recipe, *text;
} icl_versatile_noise;

/* In the order of the columns of table 1. */
extern const icl_versatile_noise icl_versatile_noises[ICL_VERSATILE_NOISES];

/* As model.parameterization has them. */
extern const char *const icl_versatile_parameterizations[ICL_VERSATILE_PARAMETERIZATIONS];

/* One model of table 1. */
typedef struct icl_versatile_cell {
    size_t layers;
    icl_versatile_parameterization parameterization;
    size_t noise; /* of icl_versatile_noises */
} icl_versatile_cell;

/* "L4-diag-uniform5", in name. */
enum { ICL_VERSATILE_NAME = 48 };
void icl_versatile_name(const icl_versatile_cell *cell, char name[ICL_VERSATILE_NAME]);

/* The recipe of a cell at the run's scale, with seed `number` of the run (icl_reproduce_seed); freed by the caller. */
icl_status icl_versatile_recipe(const icl_reproducing *run, const icl_versatile_cell *cell, size_t number,
                                icl_recipe **recipe, icl_error *error);

/* How many seeds are worth training: one where all end alike. */
size_t icl_versatile_most_seeds(const icl_versatile_cell *cell);

/* The best of some seeds, chosen on sequences of their own, never on those of the final evaluation. */
typedef struct icl_versatile_model {
    icl_trainer *trainer;
    icl_recipe *recipe;
    uint32_t seed;
    size_t seeds, failed; /* how many were trained; how many of them diverged or came out above twice the best */
} icl_versatile_model;

/* Trains the first `seeds` seeds of the run. ICL_ERROR_DIVERGED if none came out. Cleared by
 * icl_versatile_model_clear, also after a failure. */
icl_status icl_versatile_train(icl_reproducing *run, const icl_versatile_cell *cell, size_t seeds,
                               icl_versatile_model *model, icl_error *error);
void icl_versatile_model_clear(icl_versatile_model *model);

/* Trains seed `number` of a cell in its run folder, with what it grows from, or loads what is finished there. *trainer
 * and *recipe are freed by the caller, also after a failure; ICL_ERROR_DIVERGED as icl_reproduce_train has it. */
icl_status icl_versatile_train_seed(icl_reproducing *run, const icl_versatile_cell *cell, size_t number,
                                    icl_trainer **trainer, icl_recipe **recipe, icl_error *error);

/* Writes the parameters [N] of a model of any of the three kinds, of one head, that are not 0: layers that bring an
 * interval with the eigenvalues of X X^T / n, d = 10, n = 20, near to one point. The others must be 0. */
void icl_versatile_start_at_intervals(const icl_model *model, float *values);

/* Trains all seeds of the wanted cells of a noise setting, side by side on the cores that the run's device has. On a
 * device that is not the host it does nothing: each cell is then trained when its result is needed. The bits are the
 * same, because host backends give the same for any number of threads. */
icl_status icl_versatile_train_ahead(icl_reproducing *run, size_t noise, size_t layers, size_t seeds, icl_error *error);

#endif
