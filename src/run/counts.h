/* Counts in JSON that anybody may have written. */
#ifndef ICLAB_RUN_COUNTS_H
#define ICLAB_RUN_COUNTS_H

#include <stdint.h>

#include "core/recipe_keys.h"

/* A number of JSON as a count of steps or of sequences; 0 where it is none: below 0, NaN, or more than a run has. */
static inline uint64_t icl_count_in(double number) {
    return number > 0 && number <= (double)ICL_MAX_STEPS ? (uint64_t)number : 0;
}

#endif
