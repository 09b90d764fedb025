/* Parts of task families that inspections, studies and tests use, by the file that defines them. */
#ifndef ICLAB_TASK_PARTS_H
#define ICLAB_TASK_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iclab/kinds.h"
#include "iclab/reference_predictor.h"
#include "iclab/task.h"
#include "iclab/task_family.h"
#include "task/task.h"

/* ---- Classification in context (classification.c): task->state ---- */

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

/* ---- Dynamical systems (dynamical_system.c), for a study that predicts them in its own ways ---- */

typedef enum icl_observation { ICL_OBSERVED_FULLY = 0, ICL_OBSERVED_PARTLY, ICL_OBSERVED_NONLINEARLY } icl_observation;

typedef enum icl_transition { ICL_TRANSITION_ORTHOGONAL = 0, ICL_TRANSITION_CONTRACTING } icl_transition;

/* task->state. */
typedef struct icl_dynamics {
    /* Recipe keys; members have the keys' names. */
    size_t positions, hidden, observed; /* T, n_h, n_s; n_s = n_h if the whole state is observed */
    size_t controls;                    /* n_u; 0 unless the whole state is observed */
    icl_observation observation;
    icl_transition transition;
    double process_noise, observation_noise;     /* standard deviations */
    double least_eigenvalue, largest_eigenvalue; /* of a W that contracts */
    double state_clip;                           /* the limit of each |coordinate| of a state; 0: none */
    bool constructed;                            /* tokens of 4 n_s + 2 n_u numbers */
} icl_dynamics;

/* Sequences on the host: inputs [count][T][p], targets [count][T][n_s]; (W G) [count][n_h][n_h + n_u] and C
 * [count][n_s][n_h], or NULL if they are not wanted. */
typedef struct icl_dynamical_sequences {
    float *inputs, *targets, *transition, *observation;
} icl_dynamical_sequences;

/* Draws sequences 0 … count - 1 of the key, on all threads. A sequence is a function of the key and its number. */
icl_status icl_dynamical_draw(const icl_task *task, icl_random_key key, size_t count,
                              const icl_dynamical_sequences *sequences, icl_error *error);

/* Returns z_t, s_t [n_s] and behind it u_t [n_u], in the inputs [T][p] of one sequence; t counts from 0. */
const float *icl_dynamical_observation(const icl_task *task, const float *inputs, size_t t);

/* Sets *step to the step of gradient descent of least expected loss, fitted to sequences drawn for fitting. The descent
 * is on the mean over the pairs so far, or else on their sum. */
icl_status icl_dynamical_step(const icl_task *task, bool mean, double *step, icl_error *error);

/* ---- Functions on the sphere (functions.c) ---- */

/* The directions of the inputs that functions depend on, task.subspace. */
typedef struct icl_subspace {
    size_t directions;      /* k; 0: all of x counts */
    const double *rotation; /* [d][d], orthonormal columns, of which the first k span the subspace; NULL without one */
} icl_subspace;

/* Returns the subspace of a task of functions, in the task's memory; that of all directions for every other task. */
icl_subspace icl_task_subspace(const icl_task *task);

/* The fit of the reference predictors nearest and kernel, made once, when the first of them is asked. */
typedef struct icl_functions_fit {
    bool is_done;
    double bandwidth;  /* h of the kernel */
    size_t neighbours; /* k */
} icl_functions_fit;

/* Returns the fit of a task of functions, which the task owns. */
const icl_functions_fit *icl_functions_get_fit(const icl_task *task);

/* ---- Markov chains (markov.c) ---- */

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

/* ---- Quadratic targets (quadratic.c): the best step of gradient descent ---- */

/*
 * The best single step of gradient descent on the products of two coordinates, for x ~ N(0, I). With the features
 * phi(x) = x x^T, n pairs and step lengths of their own for the part without trace and for the trace,
 *
 *     prediction = 1/n sum_j y_j (traceless ((x_j . x_t)^2 - r_j) + trace r_j),  r_j = |x_j|^2 |x_t|^2 / d.
 */
typedef struct icl_quadratic_step {
    double traceless, trace; /* step lengths */
    double loss;             /* E (prediction - target)^2 */
    double loss_by_trace;    /* if only the trace's step is taken */
} icl_quadratic_step;

icl_quadratic_step icl_quadratic_best_step(size_t dimension, size_t context, double mean_square_noise);

/* ---- Groups of permutations of a few points, element by element (state.c) ---- */

enum { ICL_MOST_POINTS = 5, ICL_MOST_PERMUTATIONS = 120 };

/* Element e takes point i to images[e][i]. Elements stand in the order of a dictionary, so that 0 is the identity. */
typedef struct icl_permutations {
    size_t points, count;
    unsigned char images[ICL_MOST_PERMUTATIONS][ICL_MOST_POINTS];
} icl_permutations;

/* Lists all permutations of up to ICL_MOST_POINTS points, S_n, or only the even ones, A_n. */
icl_permutations icl_permutations_list(size_t points, bool even);

#endif
