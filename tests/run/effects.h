/* The changes that two values of each recipe key make; the rows are tests/run/effects_rows.c. */
#ifndef ICLAB_TESTS_RUN_EFFECTS_H
#define ICLAB_TESTS_RUN_EFFECTS_H

#include <stddef.h>

typedef struct effect {
    const char *key;       /* "train.clip" */
    const char *base;      /* overrides that make the key count, separated by blanks, after those of every row */
    const char *values[2]; /* "@" begins the path of a file that the test made, here and in the base */
    /* The parts that differ, and no others do:
     *     D  the numbers of a training batch          V  those of an evaluation batch
     *     M  the parameters to begin with             T  those after training
     *     E  the model's scores                       R  those of the reference predictors, where V is the same
     *     S  metrics.csv, snapshots, the last step    C  what the checkpoint held on the way */
    const char *differs;
} effect;

extern const effect effects[];
extern const size_t effect_count;

#endif
