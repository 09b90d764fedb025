/*
 * task.class = mixture: each function is of a class that is drawn, with probabilities in proportion to the weights of
 * task.mixture = CLASS:WEIGHT,CLASS:WEIGHT,… Without weights all are as likely. A mixture
 * of one is that class: for evaluating what was trained on more.
 */
#ifndef ICLAB_TASK_FUNCTION_CLASSES_MIXTURE_H
#define ICLAB_TASK_FUNCTION_CLASSES_MIXTURE_H

#include <stdint.h>

#include "iclab/recipe.h"

enum { ICL_MOST_COMPONENTS = 8 };

/* Classes are numbers of the caller's, each at most once. */
typedef struct icl_mixture {
    size_t count;
    int classes[ICL_MOST_COMPONENTS];
    double shares[ICL_MOST_COMPONENTS]; /* of sum 1 */
} icl_mixture;

/* task.mixture */
extern const icl_recipe_group icl_mixture_keys;

/* Reads it: words of `classes`, but for the one that stands for mixtures, with positive weights. */
icl_status icl_mixture_read(const icl_recipe *recipe, const icl_choice *classes, int itself, icl_mixture *mixture,
                            icl_error *error);

/* The place of the component that a random word stands for. */
size_t icl_mixture_choose(const icl_mixture *mixture, uint32_t word);

#endif
