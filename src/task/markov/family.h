/* The state of task.family = markov, which its predictors read. */
#ifndef ICLAB_TASK_MARKOV_FAMILY_H
#define ICLAB_TASK_MARKOV_FAMILY_H

#include "iclab/kinds.h"
#include "iclab/reference_predictor.h"
#include "task/markov/chain.h"

/* An n-gram: the counts behind the last `depth` symbols, with so many added to each. */
typedef struct icl_gram {
    size_t depth;
    double added;
} icl_gram;

enum { ICL_MARKOV_GRAMS = 7, ICL_MARKOV_REFERENCES = ICL_MARKOV_GRAMS + 4 };

/* task->state. */
typedef struct icl_markov {
    icl_chain_law law;
    double alpha;
    double radii[ICL_CHI_PIECES * ICL_CHI_TERMS]; /* icl_radius_table for alpha */
    size_t pool;                                  /* M chains, or 0 */
    bool is_fresh;                                /* chains are none of the pool */
    double *chains;                               /* [M][law.size], the pool */
    icl_gram grams[ICL_MARKOV_GRAMS];
    icl_reference_predictor references[ICL_MARKOV_REFERENCES];
} icl_markov;

/* Fills in the reference predictors of the law, alpha and pool. */
void icl_markov_list_references(icl_markov *state);

#endif
