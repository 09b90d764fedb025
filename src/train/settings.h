/* The settings of a training, as its recipe has them, and what follows from them and from the step alone: learning
 * rate, depth and loops. A restored run needs to know nothing of them but its step. */
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
    ICL_SCHEDULE_STEP,   /* times `factor` after every `every` steps */
    ICL_SCHEDULE_COSINE, /* to 0 at the end: (1 + cos(pi t)) / 2, t from 0 to 1 after the warm-up */
    ICL_SCHEDULE_LINEAR, /* to `factor` times the rate at the end; for the stages of a growing model */
} icl_schedule_kind;

typedef struct icl_schedule {
    icl_schedule_kind kind;
    double learning_rate;
    /* Steps over which the rate rises in a straight line; the last of them has the full rate. */
    uint64_t warmup;
    uint64_t total; /* steps in all, warm-up included */
    uint64_t every; /* ICL_SCHEDULE_STEP, counted from step 0; 0: never */
    double factor;
} icl_schedule;

/* The rate of one step, counted from 0. */
double icl_schedule_rate(const icl_schedule *schedule, uint64_t step);

/* ---- Growth ----
 *
 * Training starts with two layers and inserts one before the last at regular steps. Deep diagonal models that are
 * trained from scratch stop at plateaus; grown ones pass them. Layers that are not in use yet wait in the parameter
 * vector at the values with which they will be inserted, have no gradient, and do not move (but for weight decay). */

typedef struct icl_growth {
    uint64_t steps_per_layer; /* 0: no growth */
    size_t layers;            /* of the whole model */
} icl_growth;

/* The stage that a step belongs to. */
typedef struct icl_growth_stage {
    size_t depth;        /* layers in use */
    uint64_t first_step; /* the optimizer starts anew here */
    /* For steps counted from the first of the stage. The last stage follows the recipe's; the others warm up for at
     * most half of their steps and then fall in a straight line to a tenth. */
    icl_schedule schedule;
} icl_growth_stage;

/* Steps that pass before the model has all its layers. */
uint64_t icl_growth_steps(const icl_growth *growth);

/* `recipe` is the schedule of the whole training. */
icl_growth_stage icl_growth_stage_at(const icl_growth *growth, const icl_schedule *recipe, uint64_t step);

/* ---- Loops ----
 *
 * Models with loops have the loss behind their last loops, and more loops while training goes on (Yang, Lee, Nowak,
 * Papailiopoulos 2024, arXiv 2311.12424). With the outputs f_1, ..., f_b behind b loops the loss of a sequence is the
 * mean of its losses at the last T of them, f_(b-T+1), ..., f_b, or at all of fewer. What is right behind each of these
 * loops is a fixed point nearly, where further loops stay. */

/* Zero: the loss behind the last loop, gradients through all of them. */
typedef struct icl_loop_schedule {
    icl_loop_window last; /* of the last steps */
    uint64_t every;       /* steps between rises, which begin with as many loops as the window has; 0: none */
    uint64_t rise;        /* loops that each of them adds */
} icl_loop_schedule;

icl_loop_window icl_loop_window_at(const icl_loop_schedule *schedule, uint64_t step);

/* ---- All of them ---- */

typedef enum icl_polish_choice { ICL_POLISH_AUTO = 0, ICL_POLISH_ON, ICL_POLISH_OFF } icl_polish_choice;

/* The keys of [train] that a trainer reads, by their names. */
typedef struct icl_train_keys {
    uint64_t steps, horizon, seed, warmup, step_every, growth, refresh, loop_curriculum, loop_rise;
    size_t batch, slices, loop_window, starts;
    double learning_rate, step_factor, beta1, beta2, epsilon, weight_decay, momentum, clip, sequence_clip;
    icl_update_kind optimizer;
    icl_schedule_kind schedule;
    icl_polish_choice polish;
} icl_train_keys;

icl_train_keys icl_train_keys_read(const icl_recipe *recipe);

/* Section and name of one of them, for calls. */
#define ICL_TRAIN_KEY(field) ICL_KEY_NAME("train", icl_train_keys, field)

typedef struct icl_training_settings {
    uint32_t seed;
    size_t batch, slices;     /* sequences of a step, and the slices that they are drawn and differentiated in */
    uint64_t refresh;         /* steps that share a batch */
    uint64_t steps;           /* the budget; the schedule may end elsewhere (train.horizon) */
    icl_update_params update; /* but for the learning rates and Adam's step, which follow from the step */
    icl_schedule schedule;
    icl_growth growth;
    icl_loop_schedule loops;
    size_t starts;        /* 0: as many as are worth it */
    bool begins_with_one; /* train.init says where to start, or train.growth that layers come one by one */
    icl_polish_choice polish;
} icl_training_settings;

/* ICL_ERROR_INPUT for what the recipe must not say, or asks of a model that cannot. */
icl_status icl_training_settings_read(const icl_recipe *recipe, const icl_model *model, icl_training_settings *settings,
                                      icl_error *error);

/* The stage of growth, and the learning rate, of a step counted from 0. */
icl_growth_stage icl_training_stage_at(const icl_training_settings *settings, uint64_t step);
double icl_training_rate_at(const icl_training_settings *settings, uint64_t step);

/* The keys, in the order in which recipes list them. */
extern const icl_recipe_group icl_optimizer_keys, icl_schedule_keys, icl_trainer_keys, icl_loop_keys, icl_starts_keys,
    icl_polish_keys;

#endif
