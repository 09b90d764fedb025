/* Inside the task room: what classification in context (classification.c) is made of. */
#ifndef ICLAB_TASK_CLASSIFICATION_H
#define ICLAB_TASK_CLASSIFICATION_H

#include <stdbool.h>
#include <stddef.h>

#include "iclab/task_family.h"

typedef struct icl_classification_state {
    size_t classes, labels, pairs, size; /* K, L, N, D */
    size_t burstiness;                   /* B */
    double spread, exponent;             /* eps, alpha */
    double bursty, fresh, relabelled;    /* shares of the sequences */
    size_t shift;                        /* of the labels of known classes */
    bool asks_outside;                   /* task.query */
    size_t places;                       /* coordinates before the D, that count positions; 0: none */
    float *centres;                      /* [K][D] */
    float *label_vectors;                /* [L][D] */
} icl_classification_state;

#endif
