/* What a trained layer of linear attention does on prompts of other lengths and scales than those of its training,
 * beside the closed forms of its limit (flow.h). */
#ifndef ICLAB_PAPERS_ONESTEP_PROMPTS_H
#define ICLAB_PAPERS_ONESTEP_PROMPTS_H

#include "papers/onestep/layer.h"

typedef struct icl_prompts {
    const char *law;           /* of the training's covariates, in words */
    const double *eigenvalues; /* [ICL_LAYER_D], of their covariance */
    size_t n;                  /* labels in a prompt of the training */
    const icl_recipe *recipe;  /* of the training */
    const icl_one_layer *layer;
    double slack; /* of a loss, relative: what the trained entries lack to the limit */
    size_t sequences;
} icl_prompts;

/* Judges losses on prompts of 10 to 200 labels, with a figure; with all covariates times 1/2, 1 and 2; and with the
 * query alone times 2. */
icl_status icl_prompts_judge(icl_reproducing *run, const icl_prompts *of, icl_error *error);

#endif
