/* Dynamical systems (dynamical_system.c), for a study that predicts them in its own ways. */
#ifndef ICLAB_TASK_DYNAMICAL_SYSTEM_H
#define ICLAB_TASK_DYNAMICAL_SYSTEM_H

#include "iclab/reference_predictor.h"
#include "task/task.h"

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

#endif
