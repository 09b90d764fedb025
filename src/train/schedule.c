#include "train/schedule.h"

#include <math.h>

#include "core/recipe_keys.h"

static const icl_recipe_key step_keys[] = {
    {"train", "step_every", ICL_KEY_COUNT, "1000", 1, ICL_MAX_STEPS, .help = "steps between cuts"},
    {"train", "step_factor", ICL_KEY_NUMBER, "0.5", 1e-6, 1, .help = "factor of each cut"},
};
static const icl_recipe_group step_group = ICL_RECIPE_GROUP(step_keys);
static const icl_recipe_group *const step_groups[] = {&step_group, NULL};

static const icl_choice schedules[] = {{"constant", ICL_SCHEDULE_CONSTANT},
                                       {"step", ICL_SCHEDULE_STEP, step_groups},
                                       {"cosine", ICL_SCHEDULE_COSINE},
                                       {0}};

static const icl_recipe_key keys[] = {
    {"train", "learning_rate", ICL_KEY_NUMBER, "0.01", 1e-12, 1e6, .help = "after warm-up"},
    {"train", "schedule", ICL_KEY_WORD, "cosine", .choices = schedules,
     .help = "learning rate after warm-up: as it is, times step_factor every step_every steps, or down to 0"},
    {"train", "warmup", ICL_KEY_COUNT, "500", 0, ICL_MAX_STEPS, .help = "steps of linear warm-up"},
    {"train", "horizon", ICL_KEY_COUNT, "0", 0, ICL_MAX_STEPS,
     .help = "step at which the schedule ends; 0: train.steps"},
};
const icl_recipe_group icl_schedule_keys = ICL_RECIPE_GROUP(keys);

icl_schedule icl_schedule_read(const icl_recipe *recipe, uint64_t total) {
    return (icl_schedule){
        .kind = (icl_schedule_kind)icl_recipe_choice(recipe, "train", "schedule"),
        .learning_rate = icl_recipe_number(recipe, "train", "learning_rate"),
        .warmup = icl_recipe_count(recipe, "train", "warmup"),
        .total = total,
        .every = icl_recipe_count(recipe, "train", "step_every"),
        .factor = icl_recipe_number(recipe, "train", "step_factor"),
    };
}

/* How far the steps after the warm-up have come, 0 to 1. */
static double progress(const icl_schedule *schedule, uint64_t step) {
    if (step < schedule->warmup || schedule->total <= schedule->warmup)
        return 0.0;
    if (step >= schedule->total)
        return 1.0;
    return (double)(step - schedule->warmup) / (double)(schedule->total - schedule->warmup);
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
    case ICL_SCHEDULE_LINEAR:
        rate *= 1.0 + (schedule->factor - 1.0) * t;
        break;
    }
    return step < schedule->warmup ? rate * (double)(step + 1) / (double)schedule->warmup : rate;
}
