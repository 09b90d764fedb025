#include "train/starts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/recipe_keys.h"
#include "iclab/random.h"
#include "train/objective.h"
#include "train/polish.h"
#include "train/trainer.h"

static const icl_recipe_key keys[] = {
    {"train", "starts", ICL_KEY_COUNT, "0", 0, 64,
     .help = "runs of a quarter of the steps, of which the best goes on; 0: 4 where the model is linear and small"},
};
const icl_recipe_group icl_starts_keys = ICL_RECIPE_GROUP(keys);

#define STARTS_OF_CHEAP 4
#define SHARE           4 /* of the steps: one in so many */

/* Sequences that they are compared on, where so many fit an objective, and batches that no step draws. */
#define SEQUENCES       32768
#define COMPARE_BATCHES ((uint64_t)1 << 43)

#define START_SEEDS 0x73740000u /* the stream of their seeds, see random.h */

/* ---- Whether ---- */

/* What says where to start, or that layers are to come one by one. */
static bool begins_elsewhere(const icl_recipe *recipe) {
    return icl_recipe_count(recipe, "train", "growth") > 0 || icl_recipe_text(recipe, "train", "init")[0] != '\0';
}

size_t icl_starts_count(const icl_trainer *trainer) {
    const size_t count = (size_t)icl_recipe_count(trainer->recipe, "train", "starts");

    if (count > 0)
        return count;
    return icl_trainer_is_cheap(trainer) && !begins_elsewhere(trainer->recipe) ? STARTS_OF_CHEAP : 1;
}

icl_status icl_starts_check(const icl_trainer *trainer, icl_error *error) {
    const icl_recipe *recipe = trainer->recipe;

    if (icl_recipe_count(recipe, "train", "starts") <= 1)
        return ICL_OK;
    if (begins_elsewhere(recipe))
        return icl_recipe_reject(recipe, "train", "starts", error,
                                 "0 or 1 beside train.init, which says where to start, or train.growth, where layers "
                                 "come one by one");
    if (trainer->parts.task || trainer->parts.model)
        return icl_recipe_reject(recipe, "train", "starts", error, "0 or 1 for a program's own task or model");
    return ICL_OK;
}

/* ---- One of them ---- */

uint32_t icl_start_seed(uint32_t seed, size_t number) {
    return icl_random_seed(seed, START_SEEDS, number);
}

static icl_status override(icl_recipe *recipe, const char *key, uint64_t value, icl_error *error) {
    char assignment[64];

    snprintf(assignment, sizeof assignment, "train.%s=%" PRIu64, key, value);
    return icl_recipe_override(recipe, assignment, error);
}

/* The recipe of start `number`: a quarter of the steps to the end of the schedule, and all of the schedule in them. */
static icl_status make_recipe(const icl_trainer *trainer, size_t number, icl_recipe **recipe, icl_error *error) {
    const icl_recipe *whole = trainer->recipe;
    icl_recipe *made = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_clone(whole, &made, error));
    ICL_TRY(override(made, "steps", trainer->schedule.total / SHARE, error));
    ICL_TRY(override(made, "horizon", 0, error));
    ICL_TRY(override(made, "warmup", icl_recipe_count(whole, "train", "warmup") / SHARE, error));
    ICL_TRY(override(made, "seed", icl_start_seed(trainer->seed, number), error));
    ICL_TRY(override(made, "starts", 1, error));
    *recipe = made;
    made = NULL;
done:
    icl_recipe_destroy(&made);
    return status;
}

/* ICL_ERROR_DIVERGED as icl_trainer_run has it. */
static icl_status run(icl_trainer *start, size_t number, const icl_starts_watch *watch, icl_error *error) {
    while (icl_trainer_progress(start).step < icl_trainer_progress(start).total_steps) {
        if (watch->stop && *watch->stop)
            return icl_fail(error, ICL_ERROR_INTERRUPTED, "stopped among the runs of train.starts, before step 1");
        ICL_CHECK(icl_trainer_run(start, ICL_TRAIN_CHUNK, error));
        if (watch->report)
            watch->report(watch->user, number, start);
    }
    return ICL_OK;
}

/* Its parameters [N]; *diverged: it has none. */
static icl_status train_one(const icl_trainer *trainer, size_t number, const icl_starts_watch *watch, float *values,
                            bool *diverged, icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_trainer *one = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(make_recipe(trainer, number, &recipe, error));
    ICL_TRY(icl_trainer_create(trainer->backend, recipe, &one, error));
    status = run(one, number, watch, error);
    *diverged = status == ICL_ERROR_DIVERGED;
    if (*diverged)
        status = ICL_OK;
    else if (status == ICL_OK)
        status = icl_trainer_get_parameters(one, values, error);
done:
    icl_trainer_destroy(&one);
    icl_recipe_destroy(&recipe);
    return status;
}

/* ---- The best of them ---- */

/* The mean loss of the common sequences, in double precision. */
static icl_status judge(icl_objective *objective, const float *values, double *loss, icl_error *error) {
    const size_t size = icl_objective_size(objective);
    double *at = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(size, sizeof *at, "start", &at, error));
    for (size_t i = 0; i < size; i++)
        at[i] = (double)values[i];
    ICL_TRY(icl_objective_gradient(objective, at, loss, NULL, error));
done:
    icl_free(&at);
    return status;
}

static size_t choose_sequences(const icl_trainer *trainer) {
    const bool has_tokens = trainer->batch.inputs.buffer != NULL;
    const size_t fitting = icl_objective_fitting(icl_objective_sequence_bytes(trainer->task, has_tokens));

    return SEQUENCES < fitting ? SEQUENCES : fitting;
}

double icl_starts_bytes(const icl_trainer *trainer) {
    const bool has_tokens = trainer->batch.inputs.buffer != NULL;

    return icl_starts_count(trainer) <= 1
               ? 0
               : (double)choose_sequences(trainer) * icl_objective_sequence_bytes(trainer->task, has_tokens);
}

icl_status icl_trainer_choose_start(icl_trainer *trainer, const icl_starts_watch *watch, icl_error *error) {
    const size_t count = icl_starts_count(trainer), size = icl_model_size(trainer->model);
    const icl_objective_params of = {.task = trainer->task,
                                     .model = trainer->model,
                                     .purpose = ICL_FOR_TRAINING,
                                     .sequences = choose_sequences(trainer),
                                     .beside = trainer->backend};
    icl_objective *objective = NULL;
    float *values = NULL, *best = NULL;
    double least = HUGE_VAL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_objective_create(&of, &objective, error));
    ICL_TRY(icl_objective_draw(objective, trainer->seed, COMPARE_BATCHES, error));
    ICL_TRY(icl_allocate(size, sizeof *values, "starts", &values, error));
    ICL_TRY(icl_allocate(size, sizeof *best, "starts", &best, error));
    for (size_t number = 0; number < count; number++) {
        bool diverged = false;
        double loss = HUGE_VAL;
        ICL_TRY(train_one(trainer, number, watch, values, &diverged, error));
        if (!diverged)
            ICL_TRY(judge(objective, values, &loss, error));
        if (!(loss < least))
            continue;
        least = loss;
        trainer->start = number + 1;
        memcpy(best, values, size * sizeof *best);
    }
    if (isfinite(least))
        ICL_TRY(icl_trainer_set_parameters(trainer, best, error));
done:
    icl_objective_destroy(&objective);
    icl_free(&values);
    icl_free(&best);
    return status;
}
