/* Markov chains as tables of probabilities, and what a mixture of several chains predicts. */
#ifndef ICLAB_TASK_MARKOV_CHAIN_H
#define ICLAB_TASK_MARKOV_CHAIN_H

#include <stddef.h>

/* The law of chains. One of states == 0 has a table [k^m][k]: row c holds the probabilities of the next symbol behind
 * the last m symbols x_1 … x_m, c = x_1 k^(m-1) + … + x_m. A hidden one has [H][H] probabilities of the next state and
 * behind them [H][k] of the symbol in a state. */
typedef struct icl_chain_law {
    size_t symbols, order, states; /* k, m, H */
    size_t contexts;               /* k^m; 1 if states are hidden */
    size_t size;                   /* numbers of a table */
} icl_chain_law;

/*
 * A mixture of chains, each as likely as the others at first, with tables of law->size numbers, one after the other:
 *
 *     visible   w_c <- w_c P_c(x | context)                          p(x) = sum_c w_c P_c(x | context)
 *     hidden    f_c(z') <- sum_z f_c(z) E_c(x | z) A_c(z' | z)       p(x) = sum_c sum_z f_c(z) E_c(x | z)
 *
 * scaled to the sum 1 after each symbol: the posterior over chains and states, and its prediction (the forward
 * algorithm). For one chain it is the prediction of who knows the chain.
 */
typedef struct icl_chain_mixture {
    const icl_chain_law *law;
    const double *chains; /* [count][law->size] */
    size_t count;
    double *weights; /* [icl_chain_mixture_size], in the caller's memory */
} icl_chain_mixture;

/* Returns how many weights a mixture of so many chains needs. */
size_t icl_chain_mixture_size(const icl_chain_law *law, size_t count);

/* Begins a sequence. */
void icl_chain_mixture_start(const icl_chain_mixture *mixture);

/* Computes the probabilities p [k] of the next symbol, behind this context if symbols are visible. */
void icl_chain_mixture_predict(const icl_chain_mixture *mixture, size_t context, double *p);

/* Takes in that the next symbol is `symbol`. */
void icl_chain_mixture_observe(const icl_chain_mixture *mixture, size_t context, size_t symbol);

#endif
