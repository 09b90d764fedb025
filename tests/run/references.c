/* Tests reference predictors that a program's own family of tasks brings: which of them an evaluation shows, and their
 * numbers against closed forms. */
#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/evaluate.h"
#include "iclab/random.h"
#include "iclab/recipe.h"
#include "recipes.h"
#include "tap.h"

/* Three symbols at T positions. The last S are scored, and each is its own class; the first of them counts twice, the
 * last not at all. */
enum { T = 4, SYMBOLS = 3, S = 2, SEQUENCES = 300, CHUNK = 2048 };

static const double WEIGHTS[S] = {2, 0};

/* ---- The family ---- */

enum { TARGETS, OF_POSITIONS }; /* of the scratch */

static icl_status create(const icl_recipe *recipe, icl_task *task, icl_error *error) {
    (void)recipe;
    (void)error;
    task->shape = (icl_task_shape){.positions = T,
                                   .symbols = SYMBOLS,
                                   .outputs = SYMBOLS,
                                   .first_scored = T - S,
                                   .scored = S,
                                   .loss = ICL_LOSS_CROSS_ENTROPY};
    return ICL_OK;
}

static icl_status batch_create(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, size_t size,
                               icl_batch *batch, icl_error *error) {
    (void)task;
    (void)purpose;
    ICL_CHECK(icl_tensor_create(backend, 2, (size_t[]){size, T}, &batch->inputs, error));
    for (int i = TARGETS; i <= OF_POSITIONS; i++)
        ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, S, 1}, &batch->scratch[i], error));
    for (size_t s = 0; s < S; s++)
        ICL_CHECK(icl_fill(backend, icl_tensor_slice(batch->scratch[OF_POSITIONS], 1, s, 1), WEIGHTS[s], error));
    batch->targets = batch->scratch[TARGETS];
    batch->weights = batch->scratch[OF_POSITIONS];
    return ICL_OK;
}

static icl_status sample(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, uint32_t seed,
                         uint64_t step, icl_batch *batch, icl_error *error) {
    const icl_random_params symbol = {.key = {seed, 3000u + (uint32_t)purpose, step},
                                      .distribution = ICL_CHOICE,
                                      .choice_count = SYMBOLS,
                                      .choices = {0, 1, 2}};
    icl_tensor targets = batch->targets;

    (void)task;
    targets.rank = 2;
    ICL_CHECK(icl_random_fill(backend, &symbol, batch->inputs, error));
    return icl_copy(backend, targets, icl_tensor_slice(batch->inputs, 1, T - S, S), error);
}

/* ---- Its predictors: one of equal logits, and one that is sure of a position's own symbol, at all positions or at the
 * first scored one alone ---- */

static icl_status predict_chance(const icl_reference_predictor *predictor, const icl_shown_sequences *shown,
                                 double *outputs, icl_error *error) {
    (void)predictor;
    (void)error;
    for (size_t i = 0; i < shown->count * S * SYMBOLS; i++)
        outputs[i] = -7;
    return ICL_OK;
}

static icl_status predict_sure(const icl_reference_predictor *predictor, const icl_shown_sequences *shown,
                               double *outputs, icl_error *error) {
    const size_t sure = *(const size_t *)predictor->settings;

    (void)error;
    for (size_t i = 0; i < shown->count * S; i++)
        for (size_t k = 0; k < SYMBOLS; k++) {
            const bool is_own = (size_t)shown->inputs[i / S * T + T - S + i % S] == k;
            outputs[i * SYMBOLS + k] = is_own == (i % S < sure) ? 0 : (double)-INFINITY;
        }
    return ICL_OK;
}

static const icl_reference_predictor *references(const icl_task *task) {
    static const size_t every = S, first = 1;
    static const icl_reference_predictor brought[] = {{.name = "chance", .predict = predict_chance},
                                                      {.name = "sure", .settings = &every, .predict = predict_sure},
                                                      {.name = "first", .settings = &first, .predict = predict_sure},
                                                      {0}};
    (void)task;
    return brought;
}

static const icl_reference_predictor extra = {.name = "extra", .predict = predict_chance};
static const icl_reference_predictor *const extras[] = {&extra};
static const icl_task_family family = {
    .name = "own", .create = create, .batch_create = batch_create, .sample = sample, .references = references};

/* ---- The checks ---- */

static icl_recipe *open_recipe(const char *predictors) {
    icl_recipe *recipe = NULL;
    char assignment[64];

    tap_need(make_recipe("",
                         "model.family=sequence model.layers=1 model.width=8 train.batch=4 "
                         "eval.sequences=300 eval.seed=7",
                         &recipe, tap_error()));
    snprintf(assignment, sizeof assignment, "eval.predictors=%s", predictors);
    if (predictors && icl_recipe_override(recipe, assignment, NULL) != ICL_OK)
        exit(1);
    return recipe;
}

static icl_trainer *make_trainer(tap_run *tap, icl_backend *backend, const icl_trainer_parts *parts) {
    icl_recipe *recipe = open_recipe(NULL);
    icl_trainer *trainer = NULL;
    icl_error error = {0};

    tap_status(tap, icl_trainer_create_with(backend, parts, recipe, &trainer, &error), &error, "a trainer");
    icl_recipe_destroy(&recipe);
    return trainer;
}

/* Checks the names of an evaluation's rows, which blanks separate in `expected`. */
static void check_rows(tap_run *tap, icl_backend *backend, icl_trainer *trainer, const char *predictors,
                       const char *expected) {
    icl_recipe *recipe = open_recipe(predictors);
    icl_evaluation *evaluation = NULL;
    char rows[256] = "";
    icl_error error = {0};

    tap_status(tap, icl_evaluation_check(trainer, recipe, &error), &error, "it can be evaluated");
    tap_status(tap, icl_evaluate(backend, trainer, recipe, &evaluation, &error), &error, "evaluation");
    for (size_t i = 0; evaluation && i < evaluation->count; i++)
        snprintf(rows + strlen(rows), sizeof rows - strlen(rows), "%s ", evaluation->scores[i].predictor);
    tap_ok(tap, strcmp(rows, expected) == 0, "eval.predictors = %s: %s", predictors ? predictors : "(default)", rows);
    icl_evaluation_destroy(&evaluation);
    icl_recipe_destroy(&recipe);
}

static void check_refusal(tap_run *tap, const icl_trainer *trainer, const char *predictors, const char *expected) {
    icl_recipe *recipe = open_recipe(predictors);
    icl_error error = {0};

    tap_ok(tap,
           icl_evaluation_check(trainer, recipe, &error) == ICL_ERROR_INPUT && strstr(error.message, expected) &&
               strstr(error.message, "eval.predictors"),
           "%s", error.message);
    icl_recipe_destroy(&recipe);
}

static bool near(double a, double b) {
    return fabs(a - b) <= 1e-12;
}

static void check_numbers(tap_run *tap, icl_backend *backend, icl_trainer *trainer) {
    icl_recipe *recipe = open_recipe("all");
    icl_evaluation *evaluation = NULL;
    icl_error error = {0};

    if (tap_status(tap, icl_evaluate(backend, trainer, recipe, &evaluation, &error), &error, "evaluation")) {
        const icl_score *chance = &evaluation->scores[1], *sure = &evaluation->scores[2];
        const icl_score *first = &evaluation->scores[3];
        tap_ok(tap,
               near(chance->mse, log(SYMBOLS)) && near(chance->positions[0].loss, log(SYMBOLS)) && chance->se == 0 &&
                   chance->positions[0].se == 0,
               "equal logits: log 3 at a position of any weight (%g), without an error", chance->positions[0].loss);
        tap_ok(tap,
               near(sure->minus_model, -evaluation->scores[0].mse) &&
                   near(sure->minus_model_se, evaluation->scores[0].se) &&
                   near(sure->positions[0].minus_model, -evaluation->scores[0].positions[0].loss) &&
                   isnan(evaluation->scores[0].minus_model),
               "certainty less the model: %g +- %g", sure->minus_model, sure->minus_model_se);
        tap_ok(tap, sure->mse == 0 && sure->accuracy == 1 && isnan(sure->half_adjusted), "certainty: 0, always right");
        tap_ok(tap, first->mse == 0 && first->positions[1].loss == 0 && first->accuracy == 1,
               "an infinite loss at a position of weight 0 counts for nothing");
    }
    icl_evaluation_destroy(&evaluation);
    icl_recipe_destroy(&recipe);
}

/* Checks the loss that training is watched by, and the model's own row, against the definition of the cross-entropy. */
static void check_evaluator(tap_run *tap, icl_backend *backend, icl_trainer *trainer) {
    static float outputs[CHUNK * S * SYMBOLS], targets[CHUNK * S];
    icl_evaluator *evaluator = NULL;
    icl_batch batch = {{0}};
    double loss = 0, sum = 0;
    icl_error error = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_evaluator_create(backend, icl_trainer_task(trainer), SEQUENCES, 7, &evaluator, &error));
    ICL_TRY(icl_evaluator_loss(evaluator, trainer, &loss, &error));
    ICL_TRY(icl_batch_create(icl_trainer_task(trainer), backend, ICL_FOR_EVALUATION, CHUNK, &batch, &error));
    ICL_TRY(
        icl_task_sample(icl_trainer_task(trainer), backend, ICL_FOR_EVALUATION, 7, (uint64_t)1 << 40, &batch, &error));
    ICL_TRY(icl_trainer_predict(trainer, &batch, outputs, &error));
    ICL_TRY(icl_tensor_read(batch.targets, targets, &error));
    for (size_t i = 0; i < SEQUENCES * S; i++) {
        const float *logits = outputs + i * SYMBOLS;
        double all = 0;
        for (size_t k = 0; k < SYMBOLS; k++)
            all += exp((double)logits[k]);
        sum += WEIGHTS[i % S] * (log(all) - (double)logits[(size_t)targets[i]]) / (SEQUENCES * S);
    }
    tap_ok(tap, fabs(loss - sum) < 1e-9, "training is watched by the mean loss %g, by hand %g", loss, sum);
done:
    tap_status(tap, status, &error, "an evaluator without an oracle");
    icl_batch_release(&batch);
    icl_evaluator_destroy(&evaluator);
}

static void check_all(tap_run *tap, icl_backend *backend) {
    const icl_trainer_parts parts = {.task = &family, .references = extras, .reference_count = 1};
    icl_task_family bare = family;
    bare.references = NULL;
    icl_trainer *trainer = make_trainer(tap, backend, &parts);
    icl_trainer *without = make_trainer(tap, backend, &(icl_trainer_parts){.task = &bare});

    if (trainer && without) {
        check_rows(tap, backend, trainer, NULL, "model chance sure first extra ");
        check_rows(tap, backend, trainer, " first , chance", "model first chance extra ");
        check_rows(tap, backend, trainer, "", "model extra ");
        check_rows(tap, backend, without, NULL, "model ");
        check_rows(tap, backend, without, "", "model ");
        check_refusal(tap, trainer, "chance,shure", "chance,sure,first");
        check_refusal(tap, trainer, "chance,shure", "nearest to \"shure\": \"sure\"");
        check_refusal(tap, trainer, "oracle", "own has");
        check_refusal(tap, trainer, "sure,all", "sure once");
        check_refusal(tap, trainer, "chance,", "nearest to \"\"");
        check_refusal(tap, without, "chance", "expected nothing: own has no reference predictors");
        check_numbers(tap, backend, trainer);
        check_evaluator(tap, backend, trainer);
    }
    icl_trainer_destroy(&trainer);
    icl_trainer_destroy(&without);
}

int main(int count, char **arguments) {
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, count > 1 ? arguments[1] : "cpu");

    if (backend)
        check_all(&tap, backend);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
