/* The settings of a training, as its recipe has them, and what follows from them and the step: learning rate, depth and
 * loops. A restored run needs only its step to know them. */
#ifndef ICLAB_TRAIN_SETTINGS_H
#define ICLAB_TRAIN_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iclab/model.h"
#include "iclab/ops.h"
#include "iclab/recipe.h"

/* ---- The learning rate ---- */

typedef enum icl_schedule_kind {
    ICL_SCHEDULE_CONSTANT = 0,
    ICL_SCHEDULE_STEP,   /* multiplied by `factor` after every `every` steps */
    ICL_SCHEDULE_COSINE, /* falls to 0: (1 + cos(pi t)) / 2, t from 0 to 1 after the warm-up */
    ICL_SCHEDULE_STABLE, /* stays, and falls to 0 over the last part: 1 - sqrt(t), t from 0 to 1 there */
    ICL_SCHEDULE_LINEAR, /* changes linearly to `factor` times the rate; for the stages of a growing model */
} icl_schedule_kind;

typedef struct icl_schedule {
    icl_schedule_kind kind;
    double learning_rate;
    /* Steps over which the rate rises linearly; the last of them has the full rate. */
    uint64_t warmup;
    uint64_t total; /* steps in all, warm-up included */
    uint64_t every; /* of ICL_SCHEDULE_STEP, counted from step 0; 0: never */
    double factor;
    double decay_share; /* of the steps in all, over which ICL_SCHEDULE_STABLE falls */
} icl_schedule;

/* Returns the rate of one step, counted from 0. */
double icl_schedule_rate(const icl_schedule *schedule, uint64_t step);

/* ---- Growth ----
 *
 * Training starts with two layers and inserts one before the last at regular steps. Deep diagonal models that are
 * trained from scratch stop at plateaus; grown ones pass them. Layers that are not in use yet wait in the parameter
 * vector at the values with which they will be inserted, have no gradient, and do not change (but for weight decay). */

typedef struct icl_growth {
    uint64_t steps_per_layer; /* 0: no growth */
    size_t layers;            /* of the whole model */
} icl_growth;

/* The stage that a step belongs to. */
typedef struct icl_growth_stage {
    size_t depth;        /* layers in use */
    uint64_t first_step; /* the optimizer starts anew here */
    /* Its steps are counted from the first of the stage. The last stage follows the recipe's schedule; the others warm
     * up for at most half of their steps and then fall linearly to a tenth. */
    icl_schedule schedule;
} icl_growth_stage;

/* Returns the stage of a step; `recipe` is the schedule of the whole training. */
icl_growth_stage icl_growth_stage_at(const icl_growth *growth, const icl_schedule *recipe, uint64_t step);

/* ---- Loops ----
 *
 * Models with loops are trained on the outputs of their last loops, and the number of loops grows during training
 * (Yang, Lee, Nowak, Papailiopoulos 2024, arXiv 2311.12424). If f_1, ..., f_b are the outputs after each of b loops,
 * the loss of a sequence is the mean of its losses at the last T of them, f_(b-T+1), ..., f_b, or at all of them if
 * b < T. An output that is right after each of these loops is nearly a fixed point, where further loops stay. */

/* Zero: the loss after the last loop, gradients through all of them. */
typedef struct icl_loop_schedule {
    icl_loop_window last; /* of the last steps */
    uint64_t every;       /* steps between rises from as many loops as the window has; 0: no rises */
    uint64_t rise;        /* loops that each rise adds */
} icl_loop_schedule;

icl_loop_window icl_loop_window_at(const icl_loop_schedule *schedule, uint64_t step);

/* ---- All of them ---- */

typedef enum icl_polish_choice { ICL_POLISH_AUTO = 0, ICL_POLISH_ON, ICL_POLISH_OFF } icl_polish_choice;

typedef enum icl_optimizer { ICL_OPTIMIZER_ADAM = 0, ICL_OPTIMIZER_SGD, ICL_OPTIMIZER_MUON } icl_optimizer;

/* The keys of [train] that a trainer reads, by name. */
typedef struct icl_train_keys {
    uint64_t steps, horizon, seed, warmup, step_every, growth, refresh, loop_curriculum, loop_rise;
    size_t batch, slices, loop_window, starts;
    double learning_rate, step_factor, beta1, beta2, epsilon, weight_decay, momentum, clip, sequence_clip;
    double muon_momentum, decay_share, average, turn_penalty;
    icl_optimizer optimizer;
    icl_schedule_kind schedule;
    icl_polish_choice polish;
} icl_train_keys;

icl_train_keys icl_train_keys_read(const icl_recipe *recipe);

/* Section and name of a key, as two arguments of a call. */
#define ICL_TRAIN_KEY(field) ICL_KEY_NAME("train", icl_train_keys, field)

typedef struct icl_training_settings {
    uint32_t seed;
    size_t batch, slices;     /* sequences of a step, and the number of slices that they are divided into */
    uint64_t refresh;         /* steps that share a batch */
    uint64_t steps;           /* the budget; the schedule may end elsewhere (train.horizon) */
    icl_update_params update; /* without learning rate and Adam's step, which follow from the step */
    bool orthogonalizes;      /* train.optimizer = muon: trainer.c */
    icl_schedule schedule;
    icl_growth growth;
    icl_loop_schedule loops;
    double turn_penalty;  /* added to the loss, times how far layers turn the residual stream; 0: none */
    double average;       /* half-life in steps of the average of parameters; 0: none */
    size_t starts;        /* 0: chosen automatically */
    bool begins_with_one; /* train.init gives the start, or train.growth adds layers one by one */
    icl_polish_choice polish;
} icl_training_settings;

/* Reads the settings. ICL_ERROR_INPUT if they are invalid, or if the model cannot do what they ask for. */
icl_status icl_training_settings_read(const icl_recipe *recipe, const icl_model *model, icl_training_settings *settings,
                                      icl_error *error);

/* Returns the stage of growth of a step counted from 0. */
icl_growth_stage icl_training_stage_at(const icl_training_settings *settings, uint64_t step);

/* The keys, in the order in which recipes list them. */
extern const icl_recipe_group icl_optimizer_keys, icl_schedule_keys, icl_trainer_keys, icl_loop_keys, icl_starts_keys,
    icl_polish_keys;

#endif
