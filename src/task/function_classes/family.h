/* Function classes with a label at every position (family.c): settings, and what reference predictors share. */
#ifndef ICLAB_TASK_FUNCTION_CLASSES_FAMILY_H
#define ICLAB_TASK_FUNCTION_CLASSES_FAMILY_H

#include "iclab/reference_predictor.h"
#include "task/function_classes/curriculum.h"
#include "task/function_classes/function.h"
#include "task/function_classes/labels.h"
#include "task/function_classes/prompt.h"
#include "task/task.h"

/* task->state. */
typedef struct icl_function_classes {
    icl_function_law law;
    icl_prompt_law prompt;
    icl_curriculum curriculum;
    icl_label_law labels;
    icl_random_params noise_level; /* sigma */
    uint64_t pool;                 /* M; 0: every sequence has a function of its own */
    uint32_t pool_key;             /* task.pool_seed */
    bool is_fresh;                 /* functions are not the pool's */
    bool is_separate;              /* task.layout */
    size_t network_steps;
    double network_rate;
    struct icl_class_references *references;
} icl_function_classes;

/* Function m < M of the pool, a function of task.pool_seed and m alone. */
void icl_function_of_pool(const icl_function_classes *is, uint64_t m, double *function);

/* The reference predictors of the class (predictors.h): a table, ended by a row without a name. */
const icl_reference_predictor *icl_class_references(const icl_task *task);

#endif
