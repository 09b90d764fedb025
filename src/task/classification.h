/* Internals of classification in context (classification.c). */
#ifndef ICLAB_TASK_CLASSIFICATION_H
#define ICLAB_TASK_CLASSIFICATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iclab/task_family.h"

typedef enum icl_classification_query { ICL_QUERY_DRAWN = 0, ICL_QUERY_OUTSIDE } icl_classification_query;

typedef struct icl_classification_state {
    /* Recipe keys; members have the keys' names. */
    size_t classes, label_count, examples, item_size; /* K, L, N, D */
    size_t burstiness;                                /* B */
    double spread, frequency_exponent;                /* eps, alpha */
    double bursty, fresh, relabelled;                 /* shares of the sequences */
    size_t label_shift;                               /* shifts the labels of known classes */
    icl_classification_query query;                   /* for independent sequences */
    size_t places;                                    /* the coordinates before the D that mark positions; 0: none */
    bool joined;                                      /* a label stands beside its item */
    uint64_t class_seed;

    float *centres;       /* [K][D] */
    float *label_vectors; /* [L][D] */
} icl_classification_state;

#endif
