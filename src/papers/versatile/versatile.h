/* Shared by the studies of "Linear Transformers are Versatile In-Context Learners" (arXiv 2402.14180): noise settings,
 * and models that are trained for one of them. */
#ifndef ICLAB_PAPERS_VERSATILE_VERSATILE_H
#define ICLAB_PAPERS_VERSATILE_VERSATILE_H

#include "papers/study.h"
#include "task/parts.h"

enum { ICL_VERSATILE_NOISES = 10, ICL_VERSATILE_UNIFORM_5 = 5, ICL_VERSATILE_CHOICE_1_3 = 8 };

typedef enum icl_versatile_parameterization {
    ICL_VERSATILE_GDPP = 0,
    ICL_VERSATILE_DIAG,
    ICL_VERSATILE_FULL,
    ICL_VERSATILE_PARAMETERIZATIONS
} icl_versatile_parameterization;

/* A distribution of the noise level: its name in cells, its value of task.noise, and its name for people. */
typedef struct icl_versatile_noise {
    const char *name, *recipe, *text;
} icl_versatile_noise;

/* In the order of the columns of table 1. */
extern const icl_versatile_noise icl_versatile_noises[ICL_VERSATILE_NOISES];

/* The values of model.parameterization. */
extern const char *const icl_versatile_parameterizations[ICL_VERSATILE_PARAMETERIZATIONS];

/* One model of table 1. */
typedef struct icl_versatile_cell {
    size_t layers;
    icl_versatile_parameterization parameterization;
    size_t noise; /* index in icl_versatile_noises */
} icl_versatile_cell;

/* Finds the cell "L4-diag-uniform5"; NULL if the study has none. */
const icl_study_cell *icl_versatile_find(const icl_study *study, const icl_versatile_cell *cell);

/* Adds that cell, for the best of the study's first `seeds` seeds, and the trainings of these seeds; the cell itself is
 * not trained. Its `measure` calls icl_versatile_choose, and does nothing for the trainings, which are helpers. */
void icl_versatile_add(icl_study *study, const icl_versatile_cell *cell, size_t seeds);

/* Returns the model that such a cell of a study stands for. */
icl_versatile_cell icl_versatile_model_of(const icl_study_cell *cell);

/* The function `begin` of studies with such cells. */
icl_status icl_versatile_begin(icl_study *study, const icl_study_cell *cell, icl_trainer *from, const icl_model *model,
                               float *values, icl_error *error);

/* The best of a cell's seeds, chosen on separate sequences, never on those of the final evaluation. */
typedef struct icl_versatile_choice {
    icl_trainer *trainer;
    const icl_study_cell *training; /* the training's cell, with its recipe and its seed */
    size_t seeds, failed;           /* the number trained; the number that diverged or came out above twice the best */
} icl_versatile_choice;

/* Chooses the best seed; *choice is zero on entry. ICL_ERROR_DIVERGED if every seed diverged. */
icl_status icl_versatile_choose(icl_study *study, const icl_study_cell *cell, icl_versatile_choice *choice,
                                icl_error *error);

/* Writes the parameters [N] of a model of any of the three kinds, with one head: its layers contract an interval that
 * contains the eigenvalues of X X^T / n, d = 10, n = 20, to nearly one point. */
void icl_versatile_start_at_intervals(const icl_model *model, float *values);

/* ---- A model that takes one step of gradient descent on the products of two coordinates, by hand ---- */

/* The sizes of the recipe `quadratic`. */
enum { ICL_STEP_D = 3, ICL_STEP_N = 20 };

/* Writes a model's flat vector: two layers of linear attention with quadratic feed-forward parts, as in the recipe,
 * whose prediction is that of icl_quadratic_step. Unused paths are 0 at their end, and elsewhere as the recipe begins
 * with this seed, so that they can learn. False if the model has no room for it. */
bool icl_versatile_construct_step(const icl_model *model, const icl_quadratic_step *lengths, uint32_t seed,
                                  float *values);

#endif
