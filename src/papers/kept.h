/* What takes as long as a training and is none: computed once, by whoever comes first of the workers that share the
 * trainings, and kept in the reproduction's folder. */
#ifndef ICLAB_PAPERS_KEPT_H
#define ICLAB_PAPERS_KEPT_H

#include "papers/reproduce.h"

typedef struct icl_kept {
    const char *name;    /* kept/NAME.safetensors, a name that no training of the reproduction has */
    const char *made_of; /* what it is computed of, in words and numbers: the file of another is refused */
    float *values;       /* [count] such as parameters, as they are before and behind */
    size_t count;
    double *numbers; /* [number_count] such as losses */
    size_t number_count;
    icl_status (*compute)(icl_reproducing *run, void *context, icl_error *error); /* fills both */
    void *context;
} icl_kept;

/* Computes it, or reads what was computed; trainings may begin with it. A worker that only counts is given nothing.
 * ICL_ERROR_INPUT for a file that was made of something else. A computation that is stopped begins again. */
icl_status icl_reproduce_keep(icl_reproducing *run, const icl_kept *kept, icl_error *error);

#endif
