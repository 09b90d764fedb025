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

/* Reads a pool of chains from a text file into state->chains, which the caller frees. A line is a row of probabilities
 * with commas or spaces between them: law->contexts rows of k for each chain, or the H rows of H of its states and the
 * H rows of k of their symbols. Empty lines and those that begin with # do not count. At most `most` numbers.
 * ICL_ERROR_IO if it cannot be read, ICL_ERROR_INPUT if it holds anything else. */
icl_status icl_markov_read_chains(const char *path, icl_markov *state, size_t most, icl_error *error);

/* Fills in the reference predictors of the law, alpha and pool. */
void icl_markov_list_references(icl_markov *state);

#endif
