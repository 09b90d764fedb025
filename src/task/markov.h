/* The state of task.family = markov. */
#ifndef ICLAB_TASK_MARKOV_H
#define ICLAB_TASK_MARKOV_H

#include <stdbool.h>
#include <stddef.h>

#include "iclab/kinds.h"
#include "iclab/reference_predictor.h"

/* The law of chains. One of states == 0 has a table [k^m][k]: row c holds the probabilities of the next symbol behind
 * the last m symbols x_1 … x_m, c = x_1 k^(m-1) + … + x_m. A hidden one has [H][H] probabilities of the next state and
 * behind them [H][k] of the symbol in a state. */
typedef struct icl_chain_law {
    size_t symbols, order, states; /* k, m, H */
    size_t contexts;               /* k^m; 1 if states are hidden */
    size_t size;                   /* numbers of a table */
} icl_chain_law;

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

#endif
