/* Function classes with a label at every position (family.c): settings, and what reference predictors share. */
#ifndef ICLAB_TASK_FUNCTION_CLASSES_FAMILY_H
#define ICLAB_TASK_FUNCTION_CLASSES_FAMILY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iclab/random.h"
#include "iclab/recipe.h"
#include "iclab/reference_predictor.h"
#include "task/function_classes/function.h"
#include "task/function_classes/labels.h"
#include "task/laws.h"
#include "task/task.h"

/* The part of a sequence that is in use. */
typedef struct icl_stage {
    size_t dimension, context;
} icl_stage;

/* task.curriculum: stages of training (family.c). */
typedef struct icl_curriculum {
    uint64_t every; /* steps between rises; 0: no curriculum */
    uint64_t slices, refresh;
    icl_stage first, last;
    size_t more_points;
} icl_curriculum;

/* task.probe: how one input of a sequence differs (family.c). */
typedef enum icl_probe {
    ICL_PROBE_NONE = 0,
    ICL_PROBE_ANYWHERE,
    ICL_PROBE_OPPOSITE,
    ICL_PROBE_ORTHOGONAL,
    ICL_PROBE_REPEATED
} icl_probe;

/* The law of the inputs of a sequence. */
typedef struct icl_prompt_law {
    size_t dimension, points; /* d; n + 1 */
    icl_covariance covariance;
    double scale; /* c */
    bool orthant;
    icl_probe probe;
    size_t probe_at; /* k, from 0 */
} icl_prompt_law;

/* task.layout. */
typedef enum icl_prompt_kind { ICL_PROMPT_JOINED = 0, ICL_PROMPT_SEPARATE, ICL_PROMPT_PAIRS } icl_prompt_kind;

/* The layout of a sequence: x_i stands at position stride * i, and y_i `label` numbers after the first of x_i; the
 * positions from first_scored on are scored. */
typedef struct icl_prompt_layout {
    size_t positions, inputs, stride, label, first_scored; /* T, p */
} icl_prompt_layout;

/* task->state. */
typedef struct icl_function_classes {
    icl_function_law law;
    icl_prompt_law prompt;
    icl_curriculum curriculum;
    icl_label_law labels;
    icl_random_params noise_level; /* sigma */
    uint64_t pool;                 /* M; 0: every sequence has a function of its own */
    uint32_t pool_key;             /* task.pool_seed */
    bool is_fresh;                 /* functions are none of the pool */
    icl_prompt_kind layout;
    size_t network_steps;
    double network_rate;
    struct icl_class_references *references;
} icl_function_classes;

/* Writes function m < M of the pool, which depends on task.pool_seed and m only (function.c). */
void icl_function_of_pool(const icl_function_classes *state, uint64_t m, double *function);

/* Returns the reference predictors of the class (predictors.h): a table that ends with a row without a name. */
const icl_reference_predictor *icl_class_references(const icl_task *task);

#endif
