/*
 * Training of models with loops: the loss behind the last loops, and more loops while training goes on (Yang, Lee,
 * Nowak, Papailiopoulos 2024, arXiv 2311.12424).
 *
 * With the outputs f_1, ..., f_b behind b loops the loss of a sequence is the mean of its losses at the last T of them,
 * f_(b-T+1), ..., f_b, or at all of fewer. What is right behind each of these loops is a fixed point nearly, where
 * further loops stay.
 */
#ifndef ICLAB_TRAIN_LOOPS_H
#define ICLAB_TRAIN_LOOPS_H

#include "train/gradient.h"

/* Zero: the loss behind the last loop, gradients through all of them. */
typedef struct icl_loop_schedule {
    icl_loop_window last; /* of the last steps */
    uint64_t every;       /* steps between rises, which begin with as many loops as the window has; 0: none */
    uint64_t rise;        /* loops that each of them adds */
} icl_loop_schedule;

/* Reads train.loop_window and its keys. ICL_ERROR_INPUT where the model has no such loops. */
icl_status icl_loop_schedule_read(const icl_recipe *recipe, const icl_model *model, icl_loop_schedule *schedule,
                                  icl_error *error);

icl_loop_window icl_loop_window_at(const icl_loop_schedule *schedule, uint64_t step);

/* Losses [B, 1, 1] of these sequences of the batch on the tape, which is reset. gradient as icl_model_record has it.
 * Failures are the tape's. */
icl_variable icl_record_losses(const icl_differentiation *what, icl_tape *tape, icl_tensor gradient, icl_tensor inputs,
                               icl_tensor targets, icl_tensor weights);

extern const icl_recipe_group icl_loop_keys;

#endif
