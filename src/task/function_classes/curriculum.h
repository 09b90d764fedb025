/*
 * A curriculum of training: few coordinates and few points at first, more at each rise (Garg and others 2022, arXiv
 * 2208.01066, appendix A.2).
 *
 *     rises = step / task.curriculum
 *     coordinates that are not 0:  min(d, task.curriculum_d + rises)
 *     labelled points in use:      min(n, task.curriculum_n + task.curriculum_points rises)
 *
 * A function of the step alone, so that runs resume and ranks agree.
 */
#ifndef ICLAB_TASK_FUNCTION_CLASSES_CURRICULUM_H
#define ICLAB_TASK_FUNCTION_CLASSES_CURRICULUM_H

#include <stddef.h>
#include <stdint.h>

#include "iclab/recipe.h"

/* How much of a sequence is in use. */
typedef struct icl_stage {
    size_t dimension, context;
} icl_stage;

typedef struct icl_curriculum {
    uint64_t every; /* steps between rises; 0: there is none */
    uint64_t slices, refresh;
    icl_stage first, last;
    size_t more_points;
} icl_curriculum;

/* task.curriculum and what it brings into use. */
extern const icl_recipe_group icl_curriculum_keys;

/* Reads them, for sequences of n = context labelled points of this dimension. */
icl_status icl_curriculum_read(const icl_recipe *recipe, size_t dimension, size_t context, icl_curriculum *curriculum,
                               icl_error *error);

/* The stage of the batch of this number for training: batches count slices, and steps that share one count once
 * (train.slices, train.refresh). */
icl_stage icl_curriculum_at(const icl_curriculum *curriculum, uint64_t batch);

#endif
