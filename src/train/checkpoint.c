/*
 * Moves a trainer's state to a file, to the host, or to other ranks.
 *
 * A checkpoint is a safetensors file. It holds the parameters, the optimizer's states, the average of parameters and
 * the threshold of train.sequence_clip in the device's own element type, and as metadata the step, the recipe and how
 * many steps went wrong. Nothing else is needed, because data, learning rate and depth are functions of the step.
 */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/allocate.h"
#include "core/print.h"
#include "core/safetensors.h"
#include "iclab/compare_training.h"
#include "train/trainer.h"

#define STEP_KEY   "iclab.step"
#define RECIPE_KEY "iclab.recipe"
#define PARTS_KEY  "iclab.parts"

enum { MOST_VECTORS = ICL_STATE_VECTORS + 1, MISHAPS = 3 };

static const char *const vector_names[MOST_VECTORS] = {"parameters", "first_moment", "second_moment", "average",
                                                       "sequence_threshold"};
static const char *const mishap_keys[MISHAPS] = {"iclab.skipped_steps", "iclab.dropped_sequences",
                                                 "iclab.skipped_in_a_row"};

static uint64_t *mishap_of(icl_mishaps *mishaps, int index) {
    uint64_t *const counts[MISHAPS] = {&mishaps->skipped_steps, &mishaps->dropped_sequences,
                                       &mishaps->skipped_in_a_row};
    return counts[index];
}

/* Returns a vector: the average is absent without train.average, the threshold without train.sequence_clip. */
static icl_tensor vector_of(const icl_trainer_state *state, int index) {
    const icl_tensor vectors[MOST_VECTORS] = {state->parameters, state->moments[0], state->moments[1], state->average,
                                              state->threshold};
    return vectors[index];
}

/* Lists the vectors that there are. Returns their number. */
static int list_vectors(const icl_trainer_state *state, int indices[MOST_VECTORS]) {
    int count = 0;

    for (int i = 0; i < MOST_VECTORS; i++)
        if (vector_of(state, i).buffer)
            indices[count++] = i;
    return count;
}

static icl_element_type element_type(const icl_backend *backend) {
    return icl_backend_capabilities(backend)->element_size == sizeof(double) ? ICL_ELEMENT_F64 : ICL_ELEMENT_F32;
}

/* Describes a task and model of the program's own, which a recipe cannot; empty if there are none. */
enum { PARTS_TEXT = 128 + ICL_TASK_SHAPE_TEXT };

static void describe_parts(const icl_training_problem *problem, char text[PARTS_TEXT]) {
    const icl_trainer_parts *parts = &problem->parts;
    char shape[ICL_TASK_SHAPE_TEXT];

    text[0] = '\0';
    if (parts->task || parts->model)
        snprintf(text, PARTS_TEXT, "task %.48s of %s, model %.48s", parts->task ? parts->task->name : "of the recipe",
                 icl_task_shape_text(icl_task_get_shape(problem->task), shape),
                 parts->model ? parts->model->name : "of the recipe");
}

/* ---- Saving ---- */

static icl_status read_vector(icl_tensor vector, icl_element_type type, void **values, icl_error *error) {
    const size_t count = icl_tensor_count(&vector);
    const size_t size = type == ICL_ELEMENT_F64 ? sizeof(double) : sizeof(float);

    ICL_CHECK(icl_allocate(count, size, "checkpoint", values, error));
    return type == ICL_ELEMENT_F64 ? icl_tensor_read_double(vector, *values, error)
                                   : icl_tensor_read(vector, *values, error);
}

icl_status icl_trainer_save(icl_trainer *trainer, const char *path, icl_error *error) {
    const icl_element_type type = element_type(trainer->backend);
    icl_named_tensor tensors[MOST_VECTORS] = {{0}};
    icl_metadata metadata[3 + MISHAPS];
    void *values[MOST_VECTORS] = {NULL};
    int indices[MOST_VECTORS];
    const int vectors = list_vectors(&trainer->state, indices);
    char *recipe = NULL, step[32], mishaps[MISHAPS][32], parts[PARTS_TEXT];
    icl_status status = ICL_OK;

    if (trainer->state.diverged)
        return icl_fail(error, ICL_ERROR_DIVERGED, "%s: not written, because training diverged at step %" PRIu64, path,
                        trainer->state.step);
    for (int i = 0; i < vectors; i++) {
        const icl_tensor vector = vector_of(&trainer->state, indices[i]);
        ICL_TRY(read_vector(vector, type, &values[i], error));
        tensors[i] = (icl_named_tensor){.name = vector_names[indices[i]], .type = type, .rank = 1, .data = values[i]};
        tensors[i].shape[0] = vector.shape[0];
    }
    ICL_TRY(icl_recipe_write(trainer->problem.recipe, &recipe, error));
    snprintf(step, sizeof step, "%" PRIu64, trainer->state.step);
    metadata[0] = (icl_metadata){STEP_KEY, step};
    metadata[1] = (icl_metadata){RECIPE_KEY, recipe};
    for (int i = 0; i < MISHAPS; i++) {
        snprintf(mishaps[i], sizeof mishaps[i], "%" PRIu64, *mishap_of(&trainer->state.mishaps, i));
        metadata[2 + i] = (icl_metadata){mishap_keys[i], mishaps[i]};
    }
    describe_parts(&trainer->problem, parts);
    metadata[2 + MISHAPS] = (icl_metadata){PARTS_KEY, parts};
    ICL_TRY(icl_safetensors_write(path, tensors, (size_t)vectors, metadata, 2 + MISHAPS + (parts[0] != '\0'), error));
done:
    for (int i = 0; i < vectors; i++)
        icl_free(&values[i]);
    icl_free(&recipe);
    return status;
}

/* ---- Restoring ---- */

/* Returns whether the key must agree between the run that saved and the one that continues: all keys except those that
 * decide when a run stops and what it reports. */
static bool decides_training(const icl_recipe_key *key) {
    static const char *const others[] = {"steps", "checkpoint_every", "metrics_every", "snapshot_every"};

    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(key->section, "train") == 0 && strcmp(key->name, others[i]) == 0)
            return false;
    return strcmp(key->section, "eval") != 0;
}

/* Returns the step at which the schedule ends: with train.horizon = 0 it ends with the steps, so that another value can
 * mean the same. */
static uint64_t schedule_end(const icl_recipe *recipe) {
    const icl_train_keys keys = icl_train_keys_read(recipe);
    return keys.horizon > 0 ? keys.horizon : keys.steps;
}

static bool is_same_value(const icl_recipe *saved, const icl_recipe *own, const icl_recipe_key *key) {
    if (strcmp(icl_recipe_value(saved, key->section, key->name), icl_recipe_value(own, key->section, key->name)) == 0)
        return true;
    return strcmp(key->section, "train") == 0 && strcmp(key->name, "horizon") == 0 &&
           schedule_end(saved) == schedule_end(own);
}

static icl_status compare_recipe(const icl_training_problem *problem, const char *saved_text, const char *path,
                                 icl_error *error) {
    size_t count;
    const icl_recipe_key *keys = icl_recipe_keys(problem->recipe, &count);
    icl_recipe *saved = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_create(keys, count, &saved, error));
    ICL_TRY(icl_recipe_parse(saved, saved_text, path, error));
    ICL_TRY(icl_recipe_reset_unused(saved, error));
    for (size_t i = 0; i < count; i++) {
        const char *section = keys[i].section, *name = keys[i].name;
        if (decides_training(&keys[i]) && icl_recipe_is_used(problem->recipe, section, name) &&
            !is_same_value(saved, problem->recipe, &keys[i]))
            ICL_TRY(icl_recipe_reject(problem->recipe, section, name, error, "%s, with which %s was trained",
                                      icl_recipe_value(saved, section, name), path));
    }
done:
    icl_recipe_destroy(&saved);
    return status;
}

static icl_status compare_parts(const icl_training_problem *problem, const icl_safetensors *file, const char *path,
                                icl_error *error) {
    const char *saved = icl_safetensors_metadata(file, PARTS_KEY);
    char own[PARTS_TEXT];

    describe_parts(problem, own);
    if (strcmp(saved ? saved : "", own) == 0)
        return ICL_OK;
    return icl_fail(error, ICL_ERROR_INPUT, "%s: saved with %s, expected %s", path,
                    saved ? saved : "task and model of the recipe", own[0] ? own : "those of the recipe");
}

/* Reads a count from the metadata. Messages name the key without "iclab.". */
static icl_status read_count(const icl_safetensors *file, const char *key, const char *path, uint64_t *count,
                             icl_error *error) {
    const char *text = icl_safetensors_metadata(file, key), *name = strchr(key, '.') + 1;
    char *end = NULL;

    if (!text || text[0] < '0' || text[0] > '9' || strlen(text) > 18)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: no %s in the metadata, expected a checkpoint of iclab", path,
                        name);
    *count = strtoull(text, &end, 10);
    if (*end != '\0')
        return icl_fail(error, ICL_ERROR_INPUT, "%s: %s is no whole number in the metadata", path, name);
    return ICL_OK;
}

/* Reads the counts that are there: versions that did not skip steps do not save them. */
static icl_status read_mishaps(const icl_safetensors *file, const char *path, icl_mishaps *mishaps, icl_error *error) {
    for (int i = 0; i < MISHAPS; i++)
        if (icl_safetensors_metadata(file, mishap_keys[i]))
            ICL_CHECK(read_count(file, mishap_keys[i], path, mishap_of(mishaps, i), error));
    return ICL_OK;
}

static icl_status find_vector(const icl_trainer *trainer, const icl_safetensors *file, int index, const char *path,
                              const icl_named_tensor **found, icl_error *error) {
    const size_t size = vector_of(&trainer->state, index).shape[0];
    const icl_named_tensor *tensor = icl_safetensors_find(file, vector_names[index]);

    if (!tensor || tensor->rank != 1 || tensor->shape[0] != size)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: expected %s of %zu elements", path, vector_names[index], size);
    if (tensor->type != element_type(trainer->backend))
        return icl_fail(error, ICL_ERROR_INPUT, "%s: holds %s, but device %s computes in %s", path,
                        tensor->type == ICL_ELEMENT_F64 ? "doubles" : "floats",
                        icl_backend_capabilities(trainer->backend)->spec,
                        element_type(trainer->backend) == ICL_ELEMENT_F64 ? "doubles" : "floats");
    *found = tensor;
    return ICL_OK;
}

icl_status icl_trainer_restore(icl_trainer *trainer, const char *path, icl_error *error) {
    icl_safetensors *file = NULL;
    const icl_named_tensor *tensors[MOST_VECTORS] = {NULL};
    int indices[MOST_VECTORS];
    const int vectors = list_vectors(&trainer->state, indices);
    icl_mishaps mishaps = {0};
    const char *recipe;
    uint64_t step = 0;
    icl_status status = ICL_OK;

    ICL_TRY(icl_safetensors_read(path, &file, error));
    ICL_TRY(read_count(file, STEP_KEY, path, &step, error));
    ICL_TRY(read_mishaps(file, path, &mishaps, error));
    recipe = icl_safetensors_metadata(file, RECIPE_KEY);
    if (!recipe)
        ICL_TRY(
            icl_fail(error, ICL_ERROR_INPUT, "%s: no recipe in the metadata, expected a checkpoint of iclab", path));
    ICL_TRY(compare_parts(&trainer->problem, file, path, error));
    ICL_TRY(compare_recipe(&trainer->problem, recipe, path, error));
    for (int i = 0; i < vectors; i++)
        ICL_TRY(find_vector(trainer, file, indices[i], path, &tensors[i], error));
    for (int i = 0; i < vectors; i++) {
        assert(tensors[i]);
        ICL_TRY(tensors[i]->type == ICL_ELEMENT_F64
                    ? icl_tensor_write_double(vector_of(&trainer->state, indices[i]), tensors[i]->data, error)
                    : icl_tensor_write(vector_of(&trainer->state, indices[i]), tensors[i]->data, error));
    }
    trainer->state.diverged = false;
    trainer->state.mishaps = mishaps;
    trainer->state.step = step;
done:
    icl_safetensors_destroy(&file);
    return status;
}

/* ---- The host ---- */

icl_status icl_training_state_create(const icl_trainer *trainer, icl_training_state *state, icl_error *error) {
    *state = (icl_training_state){.size = icl_model_size(trainer->problem.model)};
    for (int i = 0; i < ICL_STATE_VECTORS; i++)
        if (vector_of(&trainer->state, i).buffer)
            ICL_CHECK(icl_allocate(state->size, sizeof(double), "training state", &state->vectors[i], error));
    return ICL_OK;
}

void icl_training_state_clear(icl_training_state *state) {
    for (int i = 0; i < ICL_STATE_VECTORS; i++)
        icl_free(&state->vectors[i]);
}

icl_status icl_trainer_read_state(icl_trainer *trainer, icl_training_state *state, icl_error *error) {
    for (int i = 0; i < ICL_STATE_VECTORS; i++)
        if (state->vectors[i])
            ICL_CHECK(icl_tensor_read_double(vector_of(&trainer->state, i), state->vectors[i], error));
    state->threshold = 0;
    if (trainer->state.threshold.buffer)
        ICL_CHECK(icl_tensor_read_double(trainer->state.threshold, &state->threshold, error));
    state->step = trainer->state.step;
    return ICL_OK;
}

icl_status icl_trainer_write_state(icl_trainer *trainer, const icl_training_state *state, icl_error *error) {
    for (int i = 0; i < ICL_STATE_VECTORS; i++)
        if (state->vectors[i])
            ICL_CHECK(icl_tensor_write_double(vector_of(&trainer->state, i), state->vectors[i], error));
    if (trainer->state.threshold.buffer)
        ICL_CHECK(icl_tensor_write_double(trainer->state.threshold, &state->threshold, error));
    trainer->state.diverged = false;
    trainer->state.mishaps = (icl_mishaps){0};
    trainer->state.step = state->step;
    return ICL_OK;
}

void icl_training_state_round(icl_training_state *state) {
    for (int i = 0; i < ICL_STATE_VECTORS; i++)
        for (size_t k = 0; state->vectors[i] && k < state->size; k++)
            state->vectors[i][k] = (double)(float)state->vectors[i][k];
    state->threshold = (double)(float)state->threshold;
}

icl_status icl_trainer_read_measures(icl_trainer *trainer, double *loss, double *gradient_norm, icl_error *error) {
    ICL_CHECK(icl_tensor_read_double(icl_tensor_slice(trainer->state.history, 0, ICL_HISTORY_LOSS, 1), loss, error));
    return icl_tensor_read_double(icl_tensor_slice(trainer->state.history, 0, ICL_HISTORY_NORM, 1), gradient_norm,
                                  error);
}

icl_status icl_trainer_read_gradient(icl_trainer *trainer, double *gradient, icl_error *error) {
    return icl_tensor_read_double(trainer->state.gradient, gradient, error);
}

/* ---- Other ranks ---- */

icl_status icl_trainer_follow_first(icl_trainer *trainer, icl_error *error) {
    const icl_ranks *ranks = trainer->sharing.ranks;
    icl_mishaps mishaps = trainer->state.mishaps;
    icl_training_state state = {0};
    icl_status status = ICL_OK;

    if (!ranks || ranks->count == 1)
        return ICL_OK;
    status = icl_training_state_create(trainer, &state, error);
    if (status == ICL_OK)
        status = icl_trainer_read_state(trainer, &state, error);
    ICL_TRY(icl_ranks_agree(ranks, status, error));
    ICL_TRY(icl_ranks_share(ranks, &state.step, sizeof state.step, error));
    ICL_TRY(icl_ranks_share(ranks, &state.threshold, sizeof state.threshold, error));
    ICL_TRY(icl_ranks_share(ranks, &mishaps, sizeof mishaps, error));
    for (int i = 0; i < ICL_STATE_VECTORS; i++)
        if (state.vectors[i])
            ICL_TRY(icl_ranks_share(ranks, state.vectors[i], state.size * sizeof(double), error));
    status = icl_trainer_write_state(trainer, &state, error);
    trainer->state.mishaps = mishaps;
    ICL_TRY(icl_ranks_agree(ranks, status, error));
done:
    icl_training_state_clear(&state);
    return status;
}

/* ---- Two devices on the same training, step by step ---- */

enum { REFERENCE = 0, DEVICE, AGAINST, TRAINERS };

/* If a step loses half of the digits, the device is at fault only if the other device's difference from the reference
 * is this many times smaller. */
#define FAR_FEWER 16

typedef struct comparison {
    const icl_training_params *params;
    icl_backend *backends[TRAINERS];
    icl_trainer *trainers[TRAINERS];
    bool diverged[TRAINERS];                    /* the step just run gave values that are not finite */
    icl_training_state start, states[TRAINERS]; /* start: the state before the next forced step */
    double *gradients[TRAINERS];
    icl_training_summary *summary;
} comparison;

const char *icl_training_mode_name(icl_training_mode mode) {
    static const char *const names[ICL_TRAINING_MODES] = {"forced", "free"};
    return names[mode];
}

static icl_status prepare(comparison *c, icl_error *error) {
    for (int i = 0; i < TRAINERS; i++) {
        ICL_CHECK(icl_trainer_create_with(c->backends[i], c->params->parts, c->params->recipe, &c->trainers[i], error));
        ICL_CHECK(icl_training_state_create(c->trainers[i], &c->states[i], error));
        ICL_CHECK(icl_allocate(c->states[i].size, sizeof(double), "gradient", &c->gradients[i], error));
    }
    return icl_training_state_create(c->trainers[REFERENCE], &c->start, error);
}

static void release(comparison *c) {
    for (int i = 0; i < TRAINERS; i++) {
        icl_trainer_destroy(&c->trainers[i]);
        icl_training_state_clear(&c->states[i]);
        icl_free(&c->gradients[i]);
    }
    icl_training_state_clear(&c->start);
}

/* ---- One step ---- */

/* A trainer skips a step that diverged and goes on, but comparisons after it would mean nothing. */
static icl_status run_step(comparison *c, icl_error *error) {
    icl_status status = ICL_OK;

    for (int i = 0; i < TRAINERS; i++) {
        double loss, norm;
        status = icl_trainer_run(c->trainers[i], 1, error);
        const bool diverged = status == ICL_ERROR_DIVERGED;
        if (diverged)
            status = ICL_OK;
        ICL_TRY(status);
        ICL_TRY(icl_trainer_read_measures(c->trainers[i], &loss, &norm, error));
        c->diverged[i] = diverged || !isfinite(loss) || !isfinite(norm);
        ICL_TRY(icl_trainer_read_state(c->trainers[i], &c->states[i], error));
        ICL_TRY(icl_trainer_read_gradient(c->trainers[i], c->gradients[i], error));
    }
done:
    return status;
}

static double relative(double difference, double size) {
    return difference == 0 ? 0 : difference / size;
}

static double vector_difference(const double *a, const double *reference, size_t count) {
    double difference = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        difference = hypot(difference, a[i] - reference[i]);
        size = hypot(size, reference[i]);
    }
    return relative(difference, size);
}

static icl_status measure_side(comparison *c, int which, const icl_step_comparison *step, icl_training_side *side,
                               icl_error *error) {
    const size_t size = c->start.size;

    side->diverged = c->diverged[which];
    ICL_CHECK(icl_trainer_read_measures(c->trainers[which], &side->loss, &side->gradient_norm, error));
    side->loss_difference = relative(fabs(side->loss - step->reference_loss), fabs(step->reference_loss));
    side->norm_difference =
        relative(fabs(side->gradient_norm - step->reference_gradient_norm), step->reference_gradient_norm);
    side->gradient_difference = vector_difference(c->gradients[which], c->gradients[REFERENCE], size);
    side->parameter_difference = vector_difference(c->states[which].vectors[0], c->states[REFERENCE].vectors[0], size);
    return ICL_OK;
}

/* ---- Judging ---- */

/* A forced step shows the arithmetic of a device. Parameters are left out, because Adam divides small gradients by
 * their own size and so magnifies their rounding by design. */
static double digits_lost(const icl_training_side *side) {
    return fmax(side->loss_difference, side->gradient_difference);
}

static void judge_side(const comparison *c, int which, const icl_training_side *side, const icl_training_side *other,
                       icl_step_comparison *step) {
    const char *spec = icl_backend_capabilities(c->backends[which])->spec;
    const icl_backend *peer = c->backends[which == DEVICE ? AGAINST : DEVICE];
    const bool has_peer = icl_backend_capabilities(peer)->element_size == sizeof(float);

    if (step->verdict == ICL_VERDICT_FAIL)
        return;
    if (side->diverged) {
        step->verdict = ICL_VERDICT_FAIL;
        icl_print(step->reason, sizeof step->reason, "%.40s diverged: loss %g, gradient norm %g", spec, side->loss,
                  side->gradient_norm);
    } else if (step->mode == ICL_TRAINING_FORCED && digits_lost(side) > ICL_HALF_OF_THE_DIGITS) {
        const bool alone = has_peer && digits_lost(other) * FAR_FEWER < digits_lost(side);
        step->verdict = alone ? ICL_VERDICT_FAIL : ICL_VERDICT_MISTRUSTED;
        icl_print(step->reason, sizeof step->reason,
                  "%.40s differs from the reference by %.2g in one step; the other device by %.2g", spec,
                  digits_lost(side), digits_lost(other));
    }
}

/* Keeps the largest value and the step where it first occurred. NaN counts as the largest. */
static void take(icl_training_extreme *extreme, double value, uint64_t step) {
    if (extreme->step == 0 || value > extreme->value || (isnan(value) && !isnan(extreme->value)))
        *extreme = (icl_training_extreme){value, step};
}

static void summarize_side(icl_training_side_summary *summary, const icl_training_side *side, uint64_t step) {
    take(&summary->loss, side->loss_difference, step);
    take(&summary->gradient, side->gradient_difference, step);
    take(&summary->parameters, side->parameter_difference, step);
    summary->last_loss = side->loss_difference;
    summary->last_parameters = side->parameter_difference;
}

static void summarize(icl_training_summary *summary, const icl_step_comparison *step) {
    summary->steps[step->mode]++;
    summarize_side(&summary->device[step->mode], &step->device, step->step);
    summarize_side(&summary->against[step->mode], &step->against, step->step);
    summary->failed += step->verdict == ICL_VERDICT_FAIL;
    summary->mistrusted += step->verdict == ICL_VERDICT_MISTRUSTED;
}

/* ---- The two modes ---- */

static icl_status compare_step(comparison *c, icl_training_mode mode, uint64_t number, bool *ends, icl_error *error) {
    icl_step_comparison step = {.mode = mode, .step = number};
    icl_status status = ICL_OK;

    for (int i = 0; i < TRAINERS && mode == ICL_TRAINING_FORCED; i++)
        ICL_TRY(icl_trainer_write_state(c->trainers[i], &c->start, error));
    ICL_TRY(run_step(c, error));
    if (c->diverged[REFERENCE]) {
        c->summary->reference_diverged = number;
        *ends = true;
        goto done;
    }
    ICL_TRY(
        icl_trainer_read_measures(c->trainers[REFERENCE], &step.reference_loss, &step.reference_gradient_norm, error));
    ICL_TRY(measure_side(c, DEVICE, &step, &step.device, error));
    ICL_TRY(measure_side(c, AGAINST, &step, &step.against, error));
    judge_side(c, DEVICE, &step.device, &step.against, &step);
    judge_side(c, AGAINST, &step.against, &step.device, &step);
    summarize(c->summary, &step);
    /* A free run ends when a trainer diverges. */
    *ends = mode == ICL_TRAINING_FREE && (step.device.diverged || step.against.diverged);
    ICL_TRY(icl_trainer_read_state(c->trainers[REFERENCE], &c->start, error));
    icl_training_state_round(&c->start);
    if (c->params->callback)
        ICL_TRY(c->params->callback(c->params->user, &step, error));
done:
    return status;
}

icl_status icl_compare_training(const icl_training_params *params, icl_training_summary *summary, icl_error *error) {
    comparison c = {
        .params = params, .backends = {params->reference, params->device, params->against}, .summary = summary};
    icl_training_state beginning = {0};
    icl_status status = ICL_OK;

    *summary = (icl_training_summary){0};
    ICL_TRY(prepare(&c, error));
    ICL_TRY(icl_training_state_create(c.trainers[REFERENCE], &beginning, error));
    ICL_TRY(icl_trainer_read_state(c.trainers[REFERENCE], &beginning, error));
    icl_training_state_round(&beginning);
    for (int mode = 0; mode < ICL_TRAINING_MODES; mode++) {
        bool ends = false;
        for (int i = 0; i < TRAINERS; i++)
            ICL_TRY(icl_trainer_write_state(c.trainers[i], &beginning, error));
        ICL_TRY(icl_trainer_read_state(c.trainers[REFERENCE], &c.start, error));
        for (uint64_t step = 1; step <= params->steps && !ends; step++)
            ICL_TRY(compare_step(&c, (icl_training_mode)mode, step, &ends, error));
    }
done:
    icl_training_state_clear(&beginning);
    release(&c);
    return status;
}
