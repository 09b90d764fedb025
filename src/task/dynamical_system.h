/* Dynamical systems (dynamical_system.c): their settings, sequences on the host, what reference predictors share. */
#ifndef ICLAB_TASK_DYNAMICAL_SYSTEM_H
#define ICLAB_TASK_DYNAMICAL_SYSTEM_H

#include "iclab/reference_predictor.h"
#include "task/task.h"

typedef enum icl_observation { ICL_OBSERVED_FULLY = 0, ICL_OBSERVED_PARTLY, ICL_OBSERVED_NONLINEARLY } icl_observation;

/* task->state. */
typedef struct icl_dynamics {
    size_t hidden, observed; /* n_h, n_s */
    icl_observation observation;
    double process_noise, observation_noise; /* standard deviations */
    bool contracts;
    double least, largest; /* eigenvalues of a W that contracts */
    double clip;           /* states lie within it; 0: anywhere */
    bool constructed;      /* tokens of 4 n_s numbers */
} icl_dynamics;

/* Sequences on the host: inputs [count][T][p], targets [count][T][n_s]; W [count][n_h][n_h] and C [count][n_s][n_h], or
 * NULL where they are not wanted. */
typedef struct icl_dynamical_sequences {
    float *inputs, *targets, *transition, *observation;
} icl_dynamical_sequences;

/* Draws sequences 0 … count - 1 of the key. On all threads; a sequence is a function of the key and its number. */
icl_status icl_dynamical_draw(const icl_task *task, icl_random_key key, size_t count,
                              const icl_dynamical_sequences *sequences, icl_error *error);

/* s_t [n_s] in the inputs [T][p] of one sequence; t counts from 0. */
const float *icl_dynamical_observation(const icl_task *task, const float *inputs, size_t t);

/* ---- Reference predictors: a table, ended by a row without a name ---- */

/* zero, gd, gd-mean, ridge:LAMBDA (dynamical_predictors.c), and where the system is linear one that knows W and C,
 * below which nobody can be: `floor` where all of the state is seen, `kalman` where a part is. */
const icl_reference_predictor *icl_dynamical_references(const icl_task *task);

/* floor and kalman: the Kalman filter (dynamical_kalman.c). */
icl_status icl_dynamical_filter(const icl_reference_predictor *predictor, const icl_shown_sequences *shown,
                                double *outputs, icl_error *error);

/* The step of gradient descent of least expected loss, fitted to sequences drawn for fitting; of the mean over the
 * pairs so far, or of their sum. */
icl_status icl_dynamical_step(const icl_task *task, bool mean, double *step, icl_error *error);

/* Predicts one sequence: inputs [T][p], outputs [T][n_s]. work holds the doubles that were asked for. */
typedef void icl_dynamical_predict(const icl_task *task, const void *settings, size_t number, const float *inputs,
                                   double *work, double *outputs);

/* Predicts `count` sequences on all threads. */
icl_status icl_dynamical_predict_all(const icl_task *task, icl_dynamical_predict *predict, const void *settings,
                                     size_t work, size_t count, const float *inputs, double *outputs, icl_error *error);

#endif
