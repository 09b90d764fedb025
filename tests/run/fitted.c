/* Tests which sequences each predictor learns from: those of other purposes, other seeds, or more or fewer than asked
 * for, would give another constant or another error. */
#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/evaluate.h"
#include "iclab/recipe.h"
#include "recipes.h"
#include "run/evaluation.h"
#include "tap.h"

enum { FITTED = 3000, EVALUATED = 2500, EARLY = 2000, CHUNK = 2048, EVAL_SEED = 7, TRAIN_SEED = 5 };

/* ---- The task: one pair (x, y) with noise of variance 1, and the query 1 ---- */

/* The task counts what was drawn, by purpose, and notes whether seed and step were those expected. */
typedef struct draws {
    size_t count[3];
    uint64_t first[3], last[3];
    bool is_seed_right;
} draws;

static draws seen;

static icl_status create(const icl_recipe *recipe, icl_task *task, icl_error *error) {
    icl_task_prior *prior = NULL;

    (void)recipe;
    ICL_CHECK(icl_allocate(1, sizeof *prior, "prior", &prior, error));
    *prior = (icl_task_prior){.noise_max = 1, .noise_levels = {1}, .mean_square_noise = 1};
    task->state = task->prior = prior;
    task->shape = icl_regression_shape(1, 1);
    return ICL_OK;
}

static void destroy(icl_task *task) {
    icl_free(&task->state);
}

static icl_status batch_create(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, size_t size,
                               icl_batch *batch, icl_error *error) {
    (void)task;
    (void)purpose;
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, 2, 2}, &batch->inputs, error));
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, 1, 1}, &batch->scratch[0], error));
    batch->targets = batch->scratch[0];
    return ICL_OK;
}

/* Returns the pair's input: in fitting 1, then 2 from EARLY on, and 100 after the sequences asked for; in evaluation 3;
 * in training 4; and 5 with any seed but that of evaluation. */
static float input_of(icl_task_purpose purpose, uint32_t seed, uint64_t number) {
    if (purpose == ICL_FOR_TRAINING)
        return 4;
    if (seed != EVAL_SEED)
        return 5;
    if (purpose == ICL_FOR_EVALUATION)
        return 3;
    return number < EARLY ? 1 : number < FITTED ? 2 : 100;
}

static icl_status sample(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, uint32_t seed,
                         uint64_t step, icl_batch *batch, icl_error *error) {
    static float inputs[CHUNK * 4], targets[CHUNK];

    (void)task;
    (void)backend;
    seen.first[purpose] = seen.count[purpose]++ == 0 ? step : seen.first[purpose];
    seen.last[purpose] = step;
    seen.is_seed_right = seen.is_seed_right && seed == (purpose == ICL_FOR_TRAINING ? TRAIN_SEED : EVAL_SEED);
    for (size_t i = 0; i < batch->size; i++) {
        const uint64_t number = step * batch->size + i;
        const float sequence[] = {input_of(purpose, seed, number), 10, 1, 0};
        memcpy(inputs + i * 4, sequence, sizeof sequence);
        /* The oracle of evaluation predicts 3: errors of 4 and 1 in turn, then 0 from the second chunk on. */
        targets[i] = number >= EVALUATED ? 1000 : number >= CHUNK ? 3 : number % 2 == 0 ? 5 : 4;
    }
    ICL_CHECK(icl_tensor_write(batch->inputs, inputs, error));
    return icl_tensor_write(batch->targets, targets, error);
}

static const icl_task_family family = {
    .name = "own", .create = create, .destroy = destroy, .batch_create = batch_create, .sample = sample};

/* ---- The checks ---- */

static icl_recipe *open_recipe(void) {
    icl_recipe *recipe = NULL;

    tap_need(make_recipe("",
                         "model.layers=1 train.batch=4 train.seed=5 train.growth=0 eval.seed=7 "
                         "eval.sequences=2500 eval.fit_sequences=3000 eval.predictors=oracle,gd:1,pgd:1",
                         &recipe, tap_error()));
    return recipe;
}

static void forget(void) {
    seen = (draws){.is_seed_right = true};
}

static bool drew(icl_task_purpose purpose, size_t count, uint64_t first) {
    return seen.count[purpose] == count && seen.first[purpose] == first && seen.last[purpose] == first + count - 1;
}

/* The best single step with lambda = x^2 and w ~ N(0, 1) is sum lambda / sum lambda (lambda + 1): for 2,000 times 1 and
 * 1,000 times 4 this is 6,000 / 24,000. It predicts 10 * 3 / 4 where the oracle says 3. The search ends when a step
 * gains less than 1e-10 of the distance: that leaves 1e-5 of the constant, and 2 * 3.8 * 30 times that of the error. */
static void check_evaluation(tap_run *tap, icl_backend *backend, icl_trainer *trainer, const icl_recipe *recipe) {
    const double mean = 2.5 * CHUNK / EVALUATED;
    const double missed = (CHUNK * (2.5 * 2.5 + 3.5 * 3.5) / 2 + (EVALUATED - CHUNK) * 4.5 * 4.5) / EVALUATED;
    icl_evaluation *evaluation = NULL;
    icl_error error = {0};

    forget();
    if (!tap_status(tap, icl_evaluate(backend, trainer, recipe, &evaluation, &error), &error, "an evaluation"))
        return;
    tap_ok(tap, drew(ICL_FOR_FITTING, 3, 0) && drew(ICL_FOR_EVALUATION, 2, 0) && seen.count[ICL_FOR_TRAINING] == 0,
           "it draws three batches to fit on, two chunks to measure, none to train on");
    tap_ok(tap, seen.is_seed_right, "all by eval.seed");
    for (size_t i = 2; i < 4; i++) {
        const icl_score *step = &evaluation->scores[i];
        tap_ok(tap, strcmp(step->constants, "steps 0.25") == 0, "%s is fitted on all that it is given: %s",
               step->predictor, step->constants);
        tap_ok(tap, fabs(step->mse - missed) < 1e-3, "and measured on all of the others: %g", step->mse);
    }
    tap_ok(tap, fabs(evaluation->scores[1].mse - mean) < 1e-12, "the oracle misses by %g", evaluation->scores[1].mse);
    icl_evaluation_destroy(&evaluation);
}

static void check_training(tap_run *tap, icl_backend *backend, icl_trainer *trainer) {
    icl_evaluator *evaluator = NULL;
    double loss = 0;
    icl_error error = {0};

    forget();
    tap_status(tap, icl_trainer_run(trainer, 3, &error), &error, "three steps");
    tap_ok(tap,
           drew(ICL_FOR_TRAINING, 3, 0) && seen.is_seed_right && seen.count[ICL_FOR_EVALUATION] == 0 &&
               seen.count[ICL_FOR_FITTING] == 0,
           "draw three batches to train on, by train.seed");
    if (!tap_status(tap,
                    icl_evaluator_create(backend, icl_trainer_task(trainer), EVALUATED, EVAL_SEED, &evaluator, &error),
                    &error, "what watches a training"))
        return;
    forget();
    tap_status(tap, icl_evaluator_loss(evaluator, trainer, &loss, &error), &error, "measures");
    tap_ok(tap,
           drew(ICL_FOR_EVALUATION, 2, ICL_FIRST_WATCHED_STEP) && seen.is_seed_right &&
               seen.count[ICL_FOR_TRAINING] == 0 && seen.count[ICL_FOR_FITTING] == 0,
           "on two chunks of its own, which no evaluation at the end has");
    icl_evaluator_destroy(&evaluator);
}

int main(void) {
    const icl_trainer_parts parts = {.task = &family};
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, "cpu");
    icl_recipe *recipe = open_recipe();
    icl_trainer *trainer = NULL;
    icl_error error = {0};

    if (tap_status(&tap, icl_trainer_create_with(backend, &parts, recipe, &trainer, &error), &error, "a trainer")) {
        check_evaluation(&tap, backend, trainer, recipe);
        check_training(&tap, backend, trainer);
    }
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
