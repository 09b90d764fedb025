/*
 * The training loop. A step samples, predicts, differentiates and updates without waiting for the device;
 * losses and norms stay there until a chunk of steps is queued.
 */
#include "train/trainer.h"

#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "core/recipe_keys.h"
#include "core/recipe_store.h"
#include "train/polish.h"
#include "train/starts.h"

static const icl_recipe_key keys[] = {
    {"train", "growth", ICL_KEY_COUNT, "0", 0, ICL_MAX_STEPS,
     .help = "steps at each depth, from 2 layers up, before the last; 0: all layers at once"},
    {"train", "batch", ICL_KEY_COUNT, "2048", 1, 1073741824, .help = "sequences in a step"},
    {"train", "slices", ICL_KEY_COUNT, "1", 1, 1073741824,
     .help = "equal parts of a batch, each drawn and differentiated by itself; ranks of mpirun share them"},
    {"train", "refresh", ICL_KEY_COUNT, "1", 1, ICL_MAX_STEPS, .help = "steps that share a batch"},
    {"train", "steps", ICL_KEY_COUNT, "10000", 0, ICL_MAX_STEPS, .help = "steps in all"},
    {"train", "seed", ICL_KEY_COUNT, "1", 0, ICL_MAX_SEED,
     .help = "of the initial parameters and of all training data"},
};
const icl_recipe_group icl_trainer_keys = ICL_RECIPE_GROUP(keys);

/* ---- Creation ---- */

static icl_status read_settings(icl_trainer *trainer, icl_error *error) {
    const icl_recipe *recipe = trainer->recipe;
    const uint64_t horizon = icl_recipe_count(recipe, "train", "horizon");
    const uint64_t steps = icl_recipe_count(recipe, "train", "steps");
    const uint64_t end = horizon > 0 ? horizon : steps; /* of the schedule */
    const uint64_t seed = icl_recipe_count(recipe, "train", "seed");
    const uint64_t batch = icl_recipe_count(recipe, "train", "batch");
    const uint64_t slices = icl_recipe_count(recipe, "train", "slices");

    if (icl_recipe_check(recipe, "train", error) != ICL_OK)
        return ICL_ERROR_INPUT;
    if (batch == 0)
        return icl_recipe_reject(recipe, "train", "batch", error, "at least 1 sequence");
    if (slices == 0 || batch % slices != 0)
        return icl_recipe_reject(recipe, "train", "slices", error,
                                 "a divisor of train.batch, %llu: slices are of one size", (unsigned long long)batch);
    if (seed > UINT32_MAX)
        return icl_recipe_reject(recipe, "train", "seed", error, "at most %u", UINT32_MAX);
    if (icl_recipe_count(recipe, "train", "refresh") == 0)
        return icl_recipe_reject(recipe, "train", "refresh", error, "at least 1 step with a batch");
    trainer->seed = (uint32_t)seed;
    trainer->total_steps = steps;
    trainer->refresh = icl_recipe_count(recipe, "train", "refresh");
    trainer->batch_number = ICL_NO_BATCH;
    trainer->slices = (size_t)slices;
    trainer->schedule = icl_schedule_read(recipe, end);
    trainer->growth = (icl_growth){
        .steps_per_layer = icl_recipe_count(recipe, "train", "growth"),
        .layers = icl_model_layers(trainer->model),
        .total_steps = end,
    };
    if (icl_growth_steps(&trainer->growth) >= end && icl_growth_steps(&trainer->growth) > 0)
        return icl_recipe_reject(recipe, "train", "growth", error,
                                 "fewer steps per layer: %zu layers need %llu steps to grow, and "
                                 "the schedule ends at %llu",
                                 trainer->growth.layers, (unsigned long long)icl_growth_steps(&trainer->growth),
                                 (unsigned long long)end);
    if (icl_recipe_number(recipe, "train", "sequence_clip") > 0 &&
        !icl_model_can(trainer->model, ICL_MODEL_CUTS_SEQUENCES))
        return icl_recipe_reject(recipe, "train", "sequence_clip", error,
                                 "0: this model has no gradients of single sequences, as model.family = linear has "
                                 "unless it is tied or composed of small ops");
    if (icl_growth_steps(&trainer->growth) > 0 && !icl_model_can(trainer->model, ICL_MODEL_GROWS))
        return icl_recipe_reject(recipe, "train", "growth", error,
                                 "0: this model cannot grow, as model.family = linear can unless it is tied");
    ICL_CHECK(icl_loop_schedule_read(recipe, trainer->model, &trainer->loops, error));
    return icl_optimizer_read(recipe, &trainer->update, error);
}

/* What keeps marked parameters from decaying. Without a mark or without decay there is no mask: today's bits, and no
 * reads of it. */
static icl_status create_decays(icl_trainer *trainer, icl_error *error) {
    const size_t size = icl_model_size(trainer->model), count = icl_model_parameter_count(trainer->model);
    bool is_marked = false;

    for (size_t i = 0; i < count; i++)
        is_marked = is_marked || icl_model_parameter(trainer->model, i)->without_decay;
    if (!is_marked || trainer->update.kind != ICL_UPDATE_ADAM || trainer->update.adam.weight_decay == 0)
        return ICL_OK;
    ICL_CHECK(icl_tensor_create(trainer->backend, 1, &size, &trainer->decays, error));
    ICL_CHECK(icl_fill(trainer->backend, trainer->decays, 1, error));
    for (size_t i = 0; i < count; i++) {
        const icl_parameter_info *info = icl_model_parameter(trainer->model, i);
        if (info->without_decay)
            ICL_CHECK(
                icl_fill(trainer->backend, icl_tensor_slice(trainer->decays, 0, info->offset, info->count), 0, error));
    }
    return ICL_OK;
}

/* What train.sequence_clip needs. */
static icl_status create_threshold(icl_trainer *trainer, size_t batch, icl_error *error) {
    const size_t one = 1;

    if (trainer->update.fraction == 0)
        return ICL_OK;
    ICL_CHECK(icl_tensor_create(trainer->backend, 1, &batch, &trainer->sequence_norms, error));
    ICL_CHECK(icl_tensor_create(trainer->backend, 1, &one, &trainer->threshold, error));
    return icl_fill(trainer->backend, trainer->threshold, 0.0, error);
}

static icl_status create_batch(icl_trainer *trainer, size_t size, icl_error *error) {
    const size_t before = icl_backend_get_statistics(trainer->backend).bytes_live;
    icl_error why = {0};
    const icl_status status =
        icl_batch_create(trainer->task, trainer->backend, ICL_FOR_TRAINING, size, &trainer->batch, &why);

    trainer->batch_bytes = icl_backend_get_statistics(trainer->backend).bytes_live - before;
    if (status == ICL_ERROR_MEMORY)
        return icl_fail(error, status, "train.batch: %s; expected fewer sequences, or more train.slices", why.message);
    if (status != ICL_OK && error)
        *error = why;
    return status;
}

static icl_status create_tensors(icl_trainer *trainer, icl_error *error) {
    const size_t size = icl_model_size(trainer->model), history = ICL_HISTORY_LENGTH;
    const size_t batch = (size_t)icl_recipe_count(trainer->recipe, "train", "batch");
    enum { VECTORS = 4 };
    icl_tensor *const vectors[VECTORS] = {&trainer->parameters, &trainer->gradient, &trainer->states[0],
                                          &trainer->states[1]};
    const bool has_losses = trainer->slices > 1 || icl_model_can(trainer->model, ICL_MODEL_FUSED);

    for (size_t i = 0; i < VECTORS; i++)
        ICL_CHECK(icl_tensor_create(trainer->backend, 1, &size, vectors[i], error));
    for (int i = 0; i < 2; i++)
        ICL_CHECK(icl_fill(trainer->backend, trainer->states[i], 0.0, error));
    if (has_losses)
        ICL_CHECK(icl_tensor_create(trainer->backend, 1, &batch, &trainer->sequence_losses, error));
    ICL_CHECK(create_decays(trainer, error));
    ICL_CHECK(create_threshold(trainer, batch, error));
    ICL_CHECK(icl_tensor_create(trainer->backend, 1, &history, &trainer->history, error));
    ICL_CHECK(icl_fill(trainer->backend, trainer->history, 0.0, error));
    ICL_CHECK(create_batch(trainer, batch / trainer->slices, error));
    ICL_CHECK(icl_parts_create(trainer->backend, trainer->model, &trainer->batch_parts, error));
    if (trainer->slices > 1)
        ICL_CHECK(icl_trainer_create_slices(trainer, error));
    return ICL_OK;
}

static icl_status write_initial_parameters(icl_trainer *trainer, icl_error *error) {
    float *values = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(icl_model_size(trainer->model), sizeof *values, "initial parameters", &values, error));
    icl_model_initialize(trainer->model, trainer->seed, values);
    if (icl_growth_steps(&trainer->growth) > 0)
        for (size_t layer = 1; layer + 1 < trainer->growth.layers; layer++)
            icl_model_initialize_inserted(trainer->model, layer, trainer->seed, values);
    ICL_TRY(icl_tensor_write(trainer->parameters, values, error));
done:
    icl_free(&values);
    return status;
}

/* Task and model, which must agree on a shape. */
static icl_status create_parts(icl_trainer *trainer, icl_error *error) {
    const icl_recipe *recipe = trainer->recipe;
    const icl_trainer_parts *parts = &trainer->parts;

    if (parts->task)
        ICL_CHECK(icl_recipe_check_own(recipe, &(icl_recipe_own){"task", parts->task->name, parts->task->keys}, error));
    ICL_CHECK(parts->task ? icl_task_create_with(parts->task, recipe, &trainer->task, error)
                          : icl_task_create(recipe, &trainer->task, error));
    const icl_task_shape shape = *icl_task_get_shape(trainer->task);
    return parts->model ? icl_model_create_with(parts->model, recipe, shape, &trainer->model, error)
                        : icl_model_create(recipe, shape, &trainer->model, error);
}

icl_status icl_trainer_create(icl_backend *backend, const icl_recipe *recipe, icl_trainer **trainer, icl_error *error) {
    return icl_trainer_create_with(backend, NULL, recipe, trainer, error);
}

icl_trainer_parts icl_trainer_get_parts(const icl_trainer *trainer) {
    return trainer->parts;
}

/* What comes behind the last step, and before the first. */
static icl_status check_stages(const icl_trainer *trainer, icl_error *error) {
    ICL_CHECK(icl_polish_check(trainer, error));
    return icl_starts_check(trainer, error);
}

icl_status icl_trainer_create_with(icl_backend *backend, const icl_trainer_parts *parts, const icl_recipe *recipe,
                                   icl_trainer **trainer, icl_error *error) {
    icl_trainer *made = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(1, sizeof *made, "trainer", &made, error));
    made->backend = backend;
    ICL_TRY(icl_recipe_clone(recipe, &made->recipe, error));
    made->parts = parts ? *parts : (icl_trainer_parts){0};
    ICL_TRY(create_parts(made, error));
    ICL_TRY(read_settings(made, error));
    ICL_TRY(icl_tape_create(backend, &made->tape, error));
    ICL_TRY(create_tensors(made, error));
    if (made->threshold.buffer && made->batch.weights.buffer)
        ICL_TRY(icl_recipe_reject(recipe, "train", "sequence_clip", error,
                                  "0: losses with weights are differentiated on the tape, which has no gradients of "
                                  "single sequences"));
    if (!made->batch.inputs.buffer && !icl_model_can(made->model, ICL_MODEL_READS_GRAM))
        ICL_TRY(icl_recipe_reject(recipe, "task", "sampler", error,
                                  "tokens: a model composed of small ops (model.space = composed, or any but "
                                  "model.family = linear) cannot do without them"));
    ICL_TRY(
        icl_allocate(icl_model_size(made->model), sizeof *made->values, "values of parameters", &made->values, error));
    ICL_TRY(check_stages(made, error));
    ICL_TRY(write_initial_parameters(made, error));
    icl_trainer_set_step(made, 0);
    *trainer = made;
    made = NULL;
done:
    icl_trainer_destroy(&made);
    return status;
}

void icl_trainer_destroy(icl_trainer **trainer) {
    icl_trainer *gone = *trainer;

    if (!gone)
        return;
    icl_parts_destroy(&gone->batch_parts);
    icl_tape_destroy(&gone->tape);
    icl_batch_release(&gone->batch);
    icl_tensor_release(&gone->parameters);
    icl_tensor_release(&gone->gradient);
    icl_tensor_release(&gone->states[0]);
    icl_tensor_release(&gone->states[1]);
    icl_tensor_release(&gone->decays);
    icl_tensor_release(&gone->sequence_losses);
    icl_tensor_release(&gone->sequence_norms);
    icl_tensor_release(&gone->threshold);
    icl_tensor_release(&gone->history);
    icl_model_destroy(&gone->model);
    icl_task_destroy(&gone->task);
    icl_recipe_destroy(&gone->recipe);
    icl_free(&gone->values);
    icl_free(&gone->losses);
    icl_free(&gone->records);
    icl_free(&gone->combined);
    icl_free(trainer);
}

/* ---- One step ---- */

double icl_trainer_rate_at(const icl_trainer *trainer, uint64_t step) {
    const icl_growth_stage stage = icl_growth_stage_at(&trainer->growth, step);
    const icl_schedule schedule = icl_growth_schedule(&stage, &trainer->schedule);
    return icl_schedule_rate(&schedule, step - stage.first_step);
}

/* Loss and norm into measures, the optimizer's step, and the threshold's. */
static icl_status update_parameters(icl_trainer *trainer, icl_tensor measures, icl_tensor losses, icl_error *error) {
    const icl_growth_stage stage = icl_growth_stage_at(&trainer->growth, trainer->step);
    const uint64_t step_of_stage = trainer->step - stage.first_step;
    const double learning_rate = icl_trainer_rate_at(trainer, trainer->step);
    icl_update_params params = trainer->update;

    if (step_of_stage == 0 && trainer->step > 0)
        for (int i = 0; i < 2; i++)
            ICL_CHECK(icl_fill(trainer->backend, trainer->states[i], 0.0, error));
    trainer->progress.learning_rate = params.adam.learning_rate = params.sgd.learning_rate = learning_rate;
    params.adam.step = step_of_stage + 1;
    return icl_update_step(trainer->backend, &params, trainer->parameters, trainer->states, measures,
                           trainer->threshold, trainer->gradient, losses, trainer->sequence_norms, trainer->decays,
                           error);
}

/* What the model draws anew for each step. */
static icl_status redraw(icl_trainer *trainer, icl_error *error) {
    const icl_model *model = trainer->model;
    float *values = NULL;
    icl_status status = ICL_OK;

    if (model->redrawn == 0)
        return ICL_OK;
    const icl_parameter_info *info = &model->parameters[model->redrawn - 1];
    ICL_TRY(icl_allocate(info->count, sizeof *values, "redrawn numbers", &values, error));
    model->family->redraw(model, trainer->seed, trainer->step, values);
    ICL_TRY(icl_tensor_write(icl_tensor_slice(trainer->parameters, 0, info->offset, info->count), values, error));
done:
    icl_free(&values);
    return status;
}

static icl_status train_step(icl_trainer *trainer, size_t slot, icl_error *error) {
    const icl_tensor measures =
        icl_tensor_slice(trainer->history, 0, slot * ICL_HISTORY_MEASURES, ICL_HISTORY_MEASURES);
    const icl_tensor dropped = icl_tensor_slice(measures, 0, ICL_HISTORY_DROPPED, 1);
    icl_tensor losses;

    ICL_CHECK(icl_trainer_keep_failure(trainer, redraw(trainer, error), error));
    ICL_CHECK(icl_trainer_differentiate(trainer, dropped, &losses, error));
    ICL_CHECK(icl_trainer_keep_failure(trainer, update_parameters(trainer, measures, losses, error), error));
    icl_trainer_set_step(trainer, trainer->step + 1);
    return ICL_OK;
}

/* ---- Runs ---- */

static icl_status reserve_losses(icl_trainer *trainer, size_t count, icl_error *error) {
    icl_status status;

    trainer->loss_count = 0;
    if (count <= trainer->loss_capacity)
        return ICL_OK;
    icl_free(&trainer->losses);
    trainer->loss_capacity = 0;
    status = icl_allocate(count, 2 * sizeof *trainer->losses, "losses", &trainer->losses, error);
    if (status == ICL_OK)
        trainer->loss_capacity = count;
    trainer->norms = trainer->losses ? trainer->losses + count : NULL;
    return status;
}

icl_status icl_trainer_run(icl_trainer *trainer, size_t steps, icl_error *error) {
    const uint64_t total = trainer->total_steps;
    const uint64_t left = total > trainer->step ? total - trainer->step : 0;
    icl_status status = ICL_OK;

    if (trainer->diverged)
        return icl_fail(error, ICL_ERROR_DIVERGED, "training diverged at step %llu; expected a restored trainer",
                        (unsigned long long)trainer->step);
    if (steps > left)
        steps = (size_t)left;
    trainer->progress.loss = trainer->progress.gradient_norm = 0.0;
    trainer->finite_losses = 0;
    ICL_TRY(reserve_losses(trainer, steps, error));
    while (trainer->loss_count < steps) {
        const uint64_t first_step = trainer->step + 1;
        const size_t rest = steps - trainer->loss_count;
        const size_t count = rest < ICL_TRAIN_CHUNK ? rest : ICL_TRAIN_CHUNK;
        for (size_t i = 0; i < count; i++)
            ICL_TRY(train_step(trainer, i, error));
        ICL_TRY(icl_trainer_collect(trainer, first_step, count, error));
    }
done:
    if (trainer->loss_count > 0)
        trainer->progress.loss /= (double)trainer->finite_losses; /* NaN of none */
    return status;
}

void icl_trainer_set_step(icl_trainer *trainer, uint64_t step) {
    trainer->step = step;
    trainer->progress.step = step;
    trainer->progress.total_steps = trainer->total_steps;
}

icl_train_progress icl_trainer_progress(const icl_trainer *trainer) {
    icl_train_progress progress = trainer->progress;

    progress.skipped_steps = trainer->mishaps.skipped_steps;
    progress.dropped_sequences = trainer->mishaps.dropped_sequences;
    progress.start = trainer->start;
    return progress;
}

const float *icl_trainer_losses(const icl_trainer *trainer, size_t *count) {
    *count = trainer->loss_count;
    return trainer->losses;
}

const float *icl_trainer_gradient_norms(const icl_trainer *trainer, size_t *count) {
    *count = trainer->loss_count;
    return trainer->norms;
}

const icl_model *icl_trainer_model(const icl_trainer *trainer) {
    return trainer->model;
}

const icl_task *icl_trainer_task(const icl_trainer *trainer) {
    return trainer->task;
}

/* ---- Parameters and predictions ---- */

icl_status icl_trainer_get_parameters(icl_trainer *trainer, float *values, icl_error *error) {
    return icl_tensor_read(trainer->parameters, values, error);
}

icl_status icl_trainer_set_parameters(icl_trainer *trainer, const float *values, icl_error *error) {
    return icl_tensor_write(trainer->parameters, values, error);
}

icl_status icl_trainer_round_parameters(icl_trainer *trainer, icl_error *error) {
    icl_status status = ICL_OK;
    float *values = NULL;

    ICL_TRY(icl_allocate(icl_model_size(trainer->model), sizeof *values, "parameters", &values, error));
    ICL_TRY(icl_trainer_get_parameters(trainer, values, error));
    ICL_TRY(icl_trainer_set_parameters(trainer, values, error));
done:
    icl_free(&values);
    return status;
}
