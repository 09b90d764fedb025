#include "train/settings.h"

#include <math.h>

#include "core/recipe_keys.h"
#include "iclab/status.h"
#include "model/sequence/sequence.h"

/* ---- Keys ---- */

#define KEY(field) ICL_KEY("train", icl_train_keys, field)

static const icl_recipe_key beta1_rows[] = {
    {KEY(beta1), "0.9", 0, 0.999999, .help = "decay of the first moment"},
};
static const icl_recipe_key muon_rows[] = {
    {KEY(muon_momentum), "0.95", 0, 0.999999,
     .help = "decay of the first moment: Nesterov's momentum of hidden matrices, beta1 of all else"},
};
static const icl_recipe_key adam_rows[] = {
    {KEY(beta2), "0.99", 0, 0.999999, .help = "decay of the second moment"},
    {KEY(epsilon), "1e-8", 1e-30, 1, .help = "added to the root of the second moment"},
    {KEY(weight_decay), "0", 0, 1e6, .help = "decoupled weight decay, of all but biases and gains"},
};
static const icl_recipe_key sgd_rows[] = {
    {KEY(momentum), "0.9", 0, 0.999999, .help = "share of the last step kept"},
};
static const icl_recipe_group beta1_group = ICL_RECIPE_GROUP(beta1_rows);
static const icl_recipe_group muon_group = ICL_RECIPE_GROUP(muon_rows);
static const icl_recipe_group adam_group = ICL_RECIPE_GROUP(adam_rows);
static const icl_recipe_group sgd_group = ICL_RECIPE_GROUP(sgd_rows);
static const icl_recipe_group *const adam_groups[] = {&beta1_group, &adam_group, NULL};
static const icl_recipe_group *const muon_groups[] = {&muon_group, &adam_group, NULL};
static const icl_recipe_group *const sgd_groups[] = {&sgd_group, NULL};

static const icl_choice optimizers[] = {{"adam", ICL_OPTIMIZER_ADAM, adam_groups},
                                        {"sgd", ICL_OPTIMIZER_SGD, sgd_groups},
                                        {"muon", ICL_OPTIMIZER_MUON, muon_groups},
                                        {0}};
static const icl_recipe_key optimizer_rows[] = {
    {KEY(optimizer), "adam", .choices = optimizers, .help = "how a gradient becomes a step"},
    {KEY(clip), "1", 0, 1e30, .help = "largest norm of the whole gradient; 0: no limit"},
    {KEY(sequence_clip), "0", 0, 1,
     .help = "share of the sequences whose own gradients are cut, all to one norm that is tracked; 0: none"},
};
const icl_recipe_group icl_optimizer_keys = ICL_RECIPE_GROUP(optimizer_rows);

static const icl_recipe_key step_rows[] = {
    {KEY(step_every), "1000", 1, ICL_MAX_STEPS, .help = "steps between cuts"},
    {KEY(step_factor), "0.5", 1e-6, 1, .help = "factor of each cut"},
};
static const icl_recipe_group step_group = ICL_RECIPE_GROUP(step_rows);
static const icl_recipe_group *const step_groups[] = {&step_group, NULL};

static const icl_recipe_key stable_rows[] = {
    {KEY(decay_share), "0.2", 1e-6, 1,
     .help = "last part of the schedule, over which the rate falls to 0 as 1 - sqrt(t)"},
};
static const icl_recipe_group stable_group = ICL_RECIPE_GROUP(stable_rows);
static const icl_recipe_group *const stable_groups[] = {&stable_group, NULL};

static const icl_choice schedules[] = {{"constant", ICL_SCHEDULE_CONSTANT},
                                       {"step", ICL_SCHEDULE_STEP, step_groups},
                                       {"cosine", ICL_SCHEDULE_COSINE},
                                       {"warmup-stable-decay", ICL_SCHEDULE_STABLE, stable_groups},
                                       {0}};
static const icl_recipe_key schedule_rows[] = {
    {KEY(learning_rate), "0.01", 1e-12, 1e6, .help = "after warm-up"},
    {KEY(schedule), "cosine", .choices = schedules,
     .help = "learning rate after warm-up: as it is, times step_factor every step_every steps, or down to 0"},
    {KEY(warmup), "500", 0, ICL_MAX_STEPS, .help = "steps of linear warm-up"},
    {KEY(horizon), "0", 0, ICL_MAX_STEPS, .help = "step at which the schedule ends; 0: train.steps"},
};
const icl_recipe_group icl_schedule_keys = ICL_RECIPE_GROUP(schedule_rows);

static const icl_recipe_key trainer_rows[] = {
    {KEY(growth), "0", 0, ICL_MAX_STEPS,
     .help = "steps at each depth, from 2 layers up, before the last; 0: all layers at once"},
    {KEY(batch), "2048", 1, 1073741824, .help = "sequences in a step"},
    {KEY(slices), "1", 1, 1073741824,
     .help = "equal parts of a batch, each drawn and differentiated by itself; ranks of mpirun share them"},
    {KEY(refresh), "1", 1, ICL_MAX_STEPS, .help = "steps that share a batch"},
    {KEY(average), "0", 0, 1e9,
     .help = "half-life in steps of an average of the parameters that is evaluated and saved as the model; 0: none"},
    {KEY(turn_penalty), "0", 0, 1e6,
     .help = "added to the loss: this, times the sum over layers of the mean of 1 - cos between the stream before "
             "and behind"},
    {KEY(steps), "10000", 0, ICL_MAX_STEPS, .help = "steps in all"},
    {KEY(seed), "1", 0, ICL_MAX_SEED, .help = "of the initial parameters and of all training data"},
};
const icl_recipe_group icl_trainer_keys = ICL_RECIPE_GROUP(trainer_rows);

static const icl_recipe_key rise_rows[] = {
    {KEY(loop_curriculum), "0", 0, ICL_MAX_STEPS,
     .help = "steps between rises from loop_window loops to model.loops; 0: all loops from the start"},
    {KEY(loop_rise), "2", 1, 1024, .help = "loops that each rise adds"},
};
static const icl_recipe_group rise_group = ICL_RECIPE_GROUP(rise_rows);
static const icl_recipe_group *const rise_groups[] = {&rise_group, NULL};
static const icl_recipe_key loop_rows[] = {
    {KEY(loop_window), "0", 0, 1024, .neutral = "0", .keys = rise_groups,
     .help = "the loss is the mean over so many last loops, or all if fewer, gradients through these; 0: the last one"},
};
const icl_recipe_group icl_loop_keys = ICL_RECIPE_GROUP(loop_rows);

static const icl_recipe_key starts_rows[] = {
    {KEY(starts), "0", 0, 64,
     .help = "runs of a quarter of the steps from far apart, of which the best goes on; 0: 4 for small linear models"},
};
const icl_recipe_group icl_starts_keys = ICL_RECIPE_GROUP(starts_rows);

static const icl_choice polish_choices[] = {
    {"auto", ICL_POLISH_AUTO}, {"on", ICL_POLISH_ON}, {"off", ICL_POLISH_OFF}, {0}};
static const icl_recipe_key polish_rows[] = {
    {KEY(polish), "auto", .choices = polish_choices,
     .help = "L-BFGS in double precision behind the last step; auto: where the model is linear and small"},
};
const icl_recipe_group icl_polish_keys = ICL_RECIPE_GROUP(polish_rows);

icl_train_keys icl_train_keys_read(const icl_recipe *recipe) {
    const icl_recipe_group *const groups[] = {
        &icl_optimizer_keys, &beta1_group,  &adam_group,       &muon_group,    &sgd_group,  &icl_schedule_keys,
        &step_group,         &stable_group, &icl_trainer_keys, &icl_loop_keys, &rise_group, &icl_starts_keys,
        &icl_polish_keys,    NULL};
    icl_train_keys keys;

    for (const icl_recipe_group *const *group = groups; *group; group++)
        icl_recipe_read(recipe, *group, &keys);
    return keys;
}

/* ---- What a recipe says ---- */

static icl_update_params update_of(const icl_train_keys *keys) {
    return (icl_update_params){
        .kind = keys->optimizer == ICL_OPTIMIZER_SGD ? ICL_UPDATE_SGD : ICL_UPDATE_ADAM,
        .adam = {.beta1 = keys->optimizer == ICL_OPTIMIZER_MUON ? keys->muon_momentum : keys->beta1,
                 .beta2 = keys->beta2,
                 .epsilon = keys->epsilon,
                 .weight_decay = keys->weight_decay},
        .sgd = {.momentum = keys->momentum},
        .clip = keys->clip,
        .fraction = keys->sequence_clip,
    };
}

static icl_schedule schedule_of(const icl_train_keys *keys) {
    return (icl_schedule){
        .kind = keys->schedule,
        .learning_rate = keys->learning_rate,
        .warmup = keys->warmup,
        .total = keys->horizon > 0 ? keys->horizon : keys->steps,
        .every = keys->step_every,
        .factor = keys->step_factor,
        .decay_share = keys->decay_share,
    };
}

static icl_loop_schedule loops_of(const icl_train_keys *keys, const icl_model *model) {
    const size_t count = keys->loop_window, loops = icl_model_loops(model);

    if (count == 0)
        return (icl_loop_schedule){0};
    return (icl_loop_schedule){
        .last = {loops, count < loops ? count : loops}, .every = keys->loop_curriculum, .rise = keys->loop_rise};
}

#define FIRST_DEPTH 2 /* layers that a growing model starts with */

/* Returns the number of steps before the model has all its layers. */
static uint64_t growth_steps(const icl_growth *growth) {
    return growth->layers > FIRST_DEPTH ? growth->steps_per_layer * (growth->layers - FIRST_DEPTH) : 0;
}

static bool has_hidden_matrices(const icl_model *model) {
    for (size_t i = 0; i < icl_model_parameter_count(model); i++)
        if (icl_model_parameter(model, i)->is_hidden_matrix)
            return true;
    return false;
}

/* Checks that the model can do what the keys ask for. */
static icl_status check_abilities(const icl_recipe *recipe, const icl_train_keys *keys, const icl_model *model,
                                  const icl_training_settings *settings, icl_error *error) {
    const uint64_t growing = growth_steps(&settings->growth), end = settings->schedule.total;

    if (growing >= end && growing > 0)
        return icl_recipe_reject(recipe, ICL_TRAIN_KEY(growth), error,
                                 "fewer steps per layer: %zu layers need %llu steps to grow, and "
                                 "the schedule ends at %llu",
                                 settings->growth.layers, (unsigned long long)growing, (unsigned long long)end);
    if (keys->sequence_clip > 0 && !icl_model_can(model, ICL_MODEL_CUTS_SEQUENCES))
        return icl_recipe_reject(recipe, ICL_TRAIN_KEY(sequence_clip), error,
                                 "0: this model has no gradients of single sequences, as model.family = linear has "
                                 "unless it is tied or composed of small ops");
    if (growing > 0 && !icl_model_can(model, ICL_MODEL_GROWS))
        return icl_recipe_reject(recipe, ICL_TRAIN_KEY(growth), error,
                                 "0: this model cannot grow, as model.family = linear can unless it is tied");
    if (settings->orthogonalizes && !has_hidden_matrices(model))
        return icl_recipe_reject(recipe, ICL_TRAIN_KEY(optimizer), error,
                                 "adam or sgd: this model marks no hidden matrices, as model.family = sequence does");
    if (keys->loop_window > 0 && !icl_model_can(model, ICL_MODEL_LOOPS))
        return icl_recipe_reject(recipe, ICL_TRAIN_KEY(loop_window), error,
                                 "0: this model has no loops, as model.family = sequence has");
    if (keys->turn_penalty > 0 && model->family != &icl_sequence_model)
        return icl_recipe_reject(recipe, ICL_TRAIN_KEY(turn_penalty), error,
                                 "0: this model has no residual stream, as model.family = sequence has");
    if (keys->turn_penalty > 0 && (keys->loop_window > 0 || keys->polish == ICL_POLISH_ON))
        return icl_recipe_reject(recipe, ICL_TRAIN_KEY(turn_penalty), error,
                                 "0 beside train.loop_window and train.polish = on, whose losses are without it");
    return ICL_OK;
}

icl_status icl_training_settings_read(const icl_recipe *recipe, const icl_model *model, icl_training_settings *settings,
                                      icl_error *error) {
    const icl_train_keys keys = icl_train_keys_read(recipe);

    if (icl_recipe_check(recipe, "train", error) != ICL_OK)
        return ICL_ERROR_INPUT;
    if (keys.batch % keys.slices != 0)
        return icl_recipe_reject(recipe, ICL_TRAIN_KEY(slices), error,
                                 "a divisor of train.batch, %zu: slices are of one size", keys.batch);
    *settings = (icl_training_settings){
        .seed = (uint32_t)keys.seed,
        .batch = keys.batch,
        .slices = keys.slices,
        .refresh = keys.refresh,
        .steps = keys.steps,
        .update = update_of(&keys),
        .orthogonalizes = keys.optimizer == ICL_OPTIMIZER_MUON,
        .schedule = schedule_of(&keys),
        .growth = {.steps_per_layer = keys.growth, .layers = icl_model_layers(model)},
        .loops = loops_of(&keys, model),
        .average = keys.average,
        .turn_penalty = keys.turn_penalty,
        .starts = keys.starts,
        .begins_with_one = keys.growth > 0 || icl_recipe_text(recipe, "train", "init")[0] != '\0',
        .polish = keys.polish,
    };
    return check_abilities(recipe, &keys, model, settings, error);
}

/* ---- What holds at a step ---- */

/* Returns the progress of the steps after the warm-up, from 0 to 1. */
static double progress(const icl_schedule *schedule, uint64_t step) {
    if (step < schedule->warmup || schedule->total <= schedule->warmup)
        return 0.0;
    if (step >= schedule->total)
        return 1.0;
    return (double)(step - schedule->warmup) / (double)(schedule->total - schedule->warmup);
}

/* Returns the share of the rate that is left by warmup-stable-decay: 1 - sqrt(t), t from 0 to 1 over the last part,
 * which ends lower than 1 - t (Haegele and others 2024, arXiv 2405.18392). */
static double stable_share(const icl_schedule *schedule, uint64_t step) {
    const double total = (double)schedule->total, falling = schedule->decay_share * total;
    const double t = fmin(1, fmax(0, ((double)step - (total - falling)) / falling));

    return 1 - sqrt(t);
}

double icl_schedule_rate(const icl_schedule *schedule, uint64_t step) {
    static const double pi = 3.14159265358979323846;
    const double t = progress(schedule, step);
    double rate = schedule->learning_rate;

    switch (schedule->kind) {
    case ICL_SCHEDULE_CONSTANT:
        break;
    case ICL_SCHEDULE_STEP:
        if (schedule->every > 0) {
            const uint64_t changes = step / schedule->every;
            rate *= pow(schedule->factor, (double)changes);
        }
        break;
    case ICL_SCHEDULE_COSINE:
        rate *= 0.5 * (1.0 + cos(pi * t));
        break;
    case ICL_SCHEDULE_STABLE:
        if (schedule->total > 0)
            rate *= stable_share(schedule, step);
        break;
    case ICL_SCHEDULE_LINEAR:
        rate *= 1.0 + (schedule->factor - 1.0) * t;
        break;
    }
    return step < schedule->warmup ? rate * (double)(step + 1) / (double)schedule->warmup : rate;
}

#define FALL_OF_STAGE 0.1

icl_growth_stage icl_growth_stage_at(const icl_growth *growth, const icl_schedule *recipe, uint64_t step) {
    const uint64_t growing = growth_steps(growth), steps = growth->steps_per_layer;
    icl_growth_stage stage = {.depth = growth->layers, .first_step = growing, .schedule = *recipe};

    if (step >= growing) {
        stage.schedule.total = recipe->total - growing;
        return stage;
    }
    stage.depth = FIRST_DEPTH + (size_t)(step / steps);
    stage.first_step = step / steps * steps;
    stage.schedule.kind = ICL_SCHEDULE_LINEAR;
    stage.schedule.factor = FALL_OF_STAGE;
    stage.schedule.total = steps;
    if (recipe->warmup > steps / 2)
        stage.schedule.warmup = steps / 2;
    return stage;
}

icl_growth_stage icl_training_stage_at(const icl_training_settings *settings, uint64_t step) {
    return icl_growth_stage_at(&settings->growth, &settings->schedule, step);
}

icl_loop_window icl_loop_window_at(const icl_loop_schedule *schedule, uint64_t step) {
    icl_loop_window window = schedule->last;

    if (schedule->every == 0)
        return window;
    const uint64_t rises = step / schedule->every, most = window.loops - window.count;
    if (rises <= most && rises * schedule->rise < most)
        window.loops = window.count + (size_t)(rises * schedule->rise);
    return window;
}
