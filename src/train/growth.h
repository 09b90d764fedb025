/*
 * Growing a model: training starts with two layers and inserts one before the last at regular steps.
 *
 * Deep diagonal models that are trained from scratch stop at plateaus; grown ones pass them. Everything here
 * is a function of the step alone: layers that are not in use yet wait in the parameter vector at the values
 * with which they will be inserted, have no gradient, and do not move (but for weight decay). So a restored
 * run needs to know nothing but its step.
 */
#ifndef ICLAB_TRAIN_GROWTH_H
#define ICLAB_TRAIN_GROWTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "train/schedule.h"

typedef struct icl_growth {
    uint64_t steps_per_layer; /* 0: no growth */
    size_t layers;            /* of the whole model */
    uint64_t total_steps;
} icl_growth;

/* The stage that a step belongs to. */
typedef struct icl_growth_stage {
    size_t depth;        /* layers in use */
    uint64_t first_step; /* the optimizer starts anew here */
    uint64_t steps;
    bool is_last;
} icl_growth_stage;

/* Steps that pass before the model has all its layers. */
uint64_t icl_growth_steps(const icl_growth *growth);

icl_growth_stage icl_growth_stage_at(const icl_growth *growth, uint64_t step);

/* The schedule of a stage, for steps counted from its first. The last stage follows the recipe's; the
 * others warm up for at most half of their steps and then fall in a straight line to a tenth. */
icl_schedule icl_growth_schedule(const icl_growth_stage *stage, const icl_schedule *recipe);

#endif
