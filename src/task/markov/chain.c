#include "task/markov/chain.h"

#include <string.h>

size_t icl_chain_mixture_size(const icl_chain_law *law, size_t count) {
    return law->states > 0 ? (count + 1) * law->states : count; /* and a row to work in */
}

void icl_chain_mixture_start(const icl_chain_mixture *mixture) {
    const size_t count = mixture->count * (mixture->law->states > 0 ? mixture->law->states : 1);

    for (size_t i = 0; i < count; i++)
        mixture->weights[i] = 1 / (double)count;
}

/* Returns the probabilities of the next symbol in a state of a chain, [k], or behind a context. */
static const double *symbols_of(const icl_chain_mixture *mixture, size_t chain, size_t place) {
    const icl_chain_law *law = mixture->law;
    return mixture->chains + chain * law->size + law->states * law->states + place * law->symbols;
}

void icl_chain_mixture_predict(const icl_chain_mixture *mixture, size_t context, double *p) {
    const icl_chain_law *law = mixture->law;
    const size_t places = law->states > 0 ? law->states : 1;

    memset(p, 0, law->symbols * sizeof *p);
    for (size_t chain = 0; chain < mixture->count; chain++)
        for (size_t i = 0; i < places; i++) {
            const double *row = symbols_of(mixture, chain, law->states > 0 ? i : context);
            const double weight = mixture->weights[chain * places + i];
            for (size_t a = 0; a < law->symbols; a++)
                p[a] += weight * row[a];
        }
}

/* Moves the states of a chain, whose weights are f_c(z) E_c(x | z), to the next position. */
static void move_states(const icl_chain_mixture *mixture, size_t chain) {
    const size_t states = mixture->law->states;
    const double *next = mixture->chains + chain * mixture->law->size;
    double *weights = mixture->weights + chain * states, *moved = mixture->weights + mixture->count * states;

    memset(moved, 0, states * sizeof *moved);
    for (size_t z = 0; z < states; z++)
        for (size_t to = 0; to < states; to++)
            moved[to] += weights[z] * next[z * states + to];
    memcpy(weights, moved, states * sizeof *weights);
}

void icl_chain_mixture_observe(const icl_chain_mixture *mixture, size_t context, size_t symbol) {
    const icl_chain_law *law = mixture->law;
    const size_t places = law->states > 0 ? law->states : 1;
    double sum = 0;

    for (size_t chain = 0; chain < mixture->count; chain++)
        for (size_t i = 0; i < places; i++)
            sum += mixture->weights[chain * places + i] *=
                symbols_of(mixture, chain, law->states > 0 ? i : context)[symbol];
    for (size_t i = 0; i < mixture->count * places; i++)
        mixture->weights[i] /= sum;
    for (size_t chain = 0; chain < mixture->count && law->states > 0; chain++)
        move_states(mixture, chain);
}
