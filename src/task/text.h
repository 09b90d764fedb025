/* Internals of the task room: the state of a task on text, for its reference predictors. */
#ifndef ICLAB_TASK_TEXT_H
#define ICLAB_TASK_TEXT_H

#include "iclab/task_family.h"
#include "task/corpus.h"
#include "task/text_predictors.h"

typedef struct icl_text_state {
    icl_corpus *corpus;
    uint64_t training, validation; /* the bytes of both parts; the rest, to the end, is for the final table */
    size_t stride;                 /* bytes of the final table that a window scores */
    icl_text_predictors predictors;
    icl_task_text facts;
    char *file, evaluation[160]; /* what the facts point to */
} icl_text_state;

#endif
