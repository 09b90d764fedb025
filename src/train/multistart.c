#include "train/multistart.h"

#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/random.h"
#include "train/objective.h"
#include "train/polish.h"
#include "train/trainer.h"

#define STARTS_OF_CHEAP 4
#define SHARE           4 /* a start takes 1 / SHARE of the steps */

/* The number of sequences that starts are compared on, if an objective holds that many, and the number of the batches
 * that they come from, which no step draws. */
#define SEQUENCES       32768
#define COMPARE_BATCHES ((uint64_t)1 << 43)

#define START_SEEDS 0x73740000u /* the stream of their seeds, see random.h */

/* ---- The number of starts ---- */

size_t icl_starts_count(const icl_trainer *trainer) {
    const icl_training_settings *settings = &trainer->problem.settings;

    if (settings->starts > 0)
        return settings->starts;
    return icl_trainer_is_cheap(trainer) && !settings->begins_with_one ? STARTS_OF_CHEAP : 1;
}

/* ---- One start ---- */

uint32_t icl_start_seed(uint32_t seed, size_t number) {
    return icl_random_seed(seed, START_SEEDS, number);
}

/* Makes the recipe of start `number`: its steps are a quarter of those up to the end of the schedule, and its schedule
 * is shortened to them. */
static icl_status make_recipe(const icl_training_problem *problem, size_t number, icl_recipe **recipe,
                              icl_error *error) {
    const icl_training_settings *settings = &problem->settings;
    icl_recipe *created = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_clone(problem->recipe, &created, error));
    ICL_TRY(icl_recipe_set_count(created, ICL_TRAIN_KEY(steps), settings->schedule.total / SHARE, error));
    ICL_TRY(icl_recipe_set_count(created, ICL_TRAIN_KEY(horizon), 0, error));
    ICL_TRY(icl_recipe_set_count(created, ICL_TRAIN_KEY(warmup), settings->schedule.warmup / SHARE, error));
    ICL_TRY(icl_recipe_set_count(created, ICL_TRAIN_KEY(seed), icl_start_seed(settings->seed, number), error));
    ICL_TRY(icl_recipe_set_count(created, ICL_TRAIN_KEY(starts), 1, error));
    *recipe = created;
    created = NULL;
done:
    icl_recipe_destroy(&created);
    return status;
}

/* Runs a start to its end. ICL_ERROR_DIVERGED as in icl_trainer_run. */
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

/* Trains a start and returns its parameters [N]; *diverged: there are none. */
static icl_status train_one(const icl_trainer *trainer, size_t number, const icl_starts_watch *watch, float *values,
                            bool *diverged, icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_trainer *one = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(make_recipe(&trainer->problem, number, &recipe, error));
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

/* ---- The best start ---- */

/* Computes the mean loss on the common sequences, in double precision. */
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
    const bool has_tokens = trainer->state.batch.inputs.buffer != NULL;
    const size_t fitting = icl_objective_fitting(icl_objective_sequence_bytes(trainer->problem.task, has_tokens));

    return SEQUENCES < fitting ? SEQUENCES : fitting;
}

double icl_starts_bytes(const icl_trainer *trainer) {
    const bool has_tokens = trainer->state.batch.inputs.buffer != NULL;

    return icl_starts_count(trainer) <= 1
               ? 0
               : (double)choose_sequences(trainer) * icl_objective_sequence_bytes(trainer->problem.task, has_tokens);
}

icl_status icl_trainer_choose_start(icl_trainer *trainer, const icl_starts_watch *watch, icl_error *error) {
    const size_t count = icl_starts_count(trainer), size = icl_model_size(trainer->problem.model);
    const icl_objective_params params = {.task = trainer->problem.task,
                                         .model = trainer->problem.model,
                                         .purpose = ICL_FOR_TRAINING,
                                         .sequences = choose_sequences(trainer),
                                         .beside = trainer->backend};
    icl_objective *objective = NULL;
    float *values = NULL, *best = NULL;
    double least = HUGE_VAL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_objective_create(&params, &objective, error));
    ICL_TRY(icl_objective_draw(objective, trainer->problem.settings.seed, COMPARE_BATCHES, error));
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
        trainer->state.start = number + 1;
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
