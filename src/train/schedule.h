/* Learning rates as pure functions of the step. */
#ifndef ICLAB_TRAIN_SCHEDULE_H
#define ICLAB_TRAIN_SCHEDULE_H

#include <stdint.h>

#include "iclab/recipe.h"

typedef enum icl_schedule_kind {
    ICL_SCHEDULE_CONSTANT = 0,
    ICL_SCHEDULE_STEP,   /* times `factor` after every `every` steps */
    ICL_SCHEDULE_COSINE, /* to 0 at the end: (1 + cos(pi t)) / 2, t from 0 to 1 after the warm-up */
    ICL_SCHEDULE_LINEAR, /* to `factor` times the rate at the end; for the stages of a growing model */
} icl_schedule_kind;

typedef struct icl_schedule {
    icl_schedule_kind kind;
    double learning_rate;
    /* Steps over which the rate rises in a straight line; the last of them has the full rate. */
    uint64_t warmup;
    uint64_t total; /* steps in all, warm-up included */
    uint64_t every; /* ICL_SCHEDULE_STEP, counted from step 0; 0: never */
    double factor;
} icl_schedule;

/* The keys of the learning rate and its schedule. */
extern const icl_recipe_group icl_schedule_keys;

/* What the recipe says; it ends after `total` steps. */
icl_schedule icl_schedule_read(const icl_recipe *recipe, uint64_t total);

/* The rate of one step, counted from 0. */
double icl_schedule_rate(const icl_schedule *schedule, uint64_t step);

#endif
