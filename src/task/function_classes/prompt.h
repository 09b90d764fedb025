/*
 * The inputs of a sequence with a label at every position, and their shifts (Garg and others 2022, arXiv 2208.01066,
 * section 4 and appendix B).
 *
 *     x_i = c R g_i,  g_i ~ N(0, I)       R R^T = task.covariance, c = task.input_scale
 *
 * task.orthant: all x_i get the signs of one orthant, which is drawn for each sequence. task.probe changes one x_k, k =
 * task.probe_at, alone:
 *
 *     anywhere     it keeps its own signs, beside task.orthant
 *     opposite     it has the signs of the opposite orthant, beside task.orthant
 *     orthogonal   its part that is orthogonal to x_0 … x_(k-1), stretched to length c sqrt(d); k < d
 *     repeated     one of x_0 … x_(k-1), drawn uniformly; k > 0
 */
#ifndef ICLAB_TASK_FUNCTION_CLASSES_PROMPT_H
#define ICLAB_TASK_FUNCTION_CLASSES_PROMPT_H

#include <stdbool.h>

#include "iclab/random.h"
#include "task/covariance.h"

typedef enum icl_probe {
    ICL_PROBE_NONE = 0,
    ICL_PROBE_ANYWHERE,
    ICL_PROBE_OPPOSITE,
    ICL_PROBE_ORTHOGONAL,
    ICL_PROBE_REPEATED
} icl_probe;

typedef struct icl_prompt_law {
    size_t dimension, points; /* d; n + 1 */
    icl_covariance covariance;
    double scale; /* c */
    bool orthant;
    icl_probe probe;
    size_t probe_at; /* k, from 0 */
} icl_prompt_law;

/* The places in a sequence: x_i at position stride i, y_i so many numbers behind the first of x_i. */
typedef struct icl_prompt_layout {
    size_t positions, inputs, stride, label; /* T, p */
} icl_prompt_layout;

/* is_separate: task.layout. */
icl_prompt_layout icl_prompt_lay_out(const icl_prompt_law *law, bool is_separate);

/* task.input_scale, task.orthant, task.probe and what they bring into use; beside these icl_covariance_keys are read.
 * */
extern const icl_recipe_group icl_prompt_keys;

/* Reads them. Release with icl_covariance_release, also after a failure. */
icl_status icl_prompt_read(const icl_recipe *recipe, size_t dimension, size_t points, icl_prompt_law *law,
                           icl_error *error);

/* Inputs [n + 1][d] of sequence `number` of the key; work holds (n + 2) d doubles. A sequence owns (n + 1) d words for
 * g, d for signs and one to choose among inputs, in full blocks of four: what is not shifted does not change. */
void icl_prompt_draw(const icl_prompt_law *law, icl_random_key key, uint64_t number, double *work, float *inputs);

#endif
