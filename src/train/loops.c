#include "train/loops.h"

#include "core/allocate.h"
#include "core/recipe_keys.h"
#include "iclab/loss.h"
#include "iclab/status.h"

static const icl_recipe_key rise_rows[] = {
    {"train", "loop_curriculum", ICL_KEY_COUNT, "0", 0, ICL_MAX_STEPS,
     .help = "steps between rises from loop_window loops to model.loops; 0: all loops from the start"},
    {"train", "loop_rise", ICL_KEY_COUNT, "2", 1, 1024, .help = "loops that each rise adds"},
};
static const icl_recipe_group rise_keys = ICL_RECIPE_GROUP(rise_rows);
static const icl_recipe_group *const window_keys[] = {&rise_keys, NULL};

static const icl_recipe_key rows[] = {
    {"train", "loop_window", ICL_KEY_COUNT, "0", 0, 1024, .neutral = "0", .keys = window_keys,
     .help = "the loss is the mean over so many last loops, or all if fewer, gradients through these; 0: the last one"},
};
const icl_recipe_group icl_loop_keys = ICL_RECIPE_GROUP(rows);

icl_status icl_loop_schedule_read(const icl_recipe *recipe, const icl_model *model, icl_loop_schedule *schedule,
                                  icl_error *error) {
    const size_t count = (size_t)icl_recipe_count(recipe, "train", "loop_window"), loops = icl_model_loops(model);

    *schedule = (icl_loop_schedule){0};
    if (count == 0)
        return ICL_OK;
    if (!icl_model_can(model, ICL_MODEL_LOOPS))
        return icl_recipe_reject(recipe, "train", "loop_window", error,
                                 "0: this model has no loops, as model.family = sequence has");
    schedule->last = (icl_loop_window){loops, count < loops ? count : loops};
    schedule->every = icl_recipe_count(recipe, "train", "loop_curriculum");
    schedule->rise = icl_recipe_count(recipe, "train", "loop_rise");
    return ICL_OK;
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

/* The mean over the window of the losses behind each of its loops. */
static icl_variable record_window(const icl_differentiation *what, icl_tape *tape, icl_tensor gradient,
                                  icl_tensor inputs, icl_tensor targets, icl_tensor weights) {
    const size_t count = what->window.count;
    icl_variable *outputs = NULL, sum = {-1};
    icl_error error = {0};

    if (icl_allocate(count, sizeof *outputs, "outputs behind loops", &outputs, &error) != ICL_OK) {
        icl_tape_fail(tape, &error);
        return sum;
    }
    icl_model_record_loops(what->model, tape, what->with.parameters, gradient, inputs, what->window, outputs);
    for (size_t i = 0; i < count; i++) {
        const icl_variable losses = icl_tape_loss(tape, what->batch->shape.loss, outputs[i], targets, weights);
        sum = i == 0 ? losses : icl_tape_binary(tape, ICL_ADD, sum, losses);
    }
    icl_free(&outputs);
    return icl_tape_scale(tape, 1 / (double)count, sum);
}

icl_variable icl_record_losses(const icl_differentiation *what, icl_tape *tape, icl_tensor gradient, icl_tensor inputs,
                               icl_tensor targets, icl_tensor weights) {
    icl_tape_reset(tape);
    if (what->window.count > 0)
        return record_window(what, tape, gradient, inputs, targets, weights);
    const icl_variable outputs =
        icl_model_record(what->model, tape, what->with.parameters, gradient, inputs, what->depth);
    return icl_tape_loss(tape, what->batch->shape.loss, outputs, targets, weights);
}
