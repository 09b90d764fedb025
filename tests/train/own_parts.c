/* Tasks, models and reference predictors that are in no registry: trained, evaluated, saved and restored, and compared
 * with plain loops. */
#include "own_parts.h"

#include <string.h>

#include "iclab/evaluate.h"
#include "iclab/model_file.h"
#include "recipes.h"
#include "train/trainer.h"

enum { BATCH = 32, SEQUENCES = 400, CHUNK = 2048 };

static const double RATE = 0.01;

static icl_recipe *open_recipe(const char *more) {
    icl_recipe *recipe = NULL;

    tap_need(make_recipe("",
                         "train.optimizer=sgd train.momentum=0 train.learning_rate=0.01 "
                         "train.schedule=constant train.clip=0 train.warmup=0 train.batch=32 "
                         "train.steps=400 train.seed=5 eval.sequences=400 eval.seed=7",
                         &recipe, tap_error()));
    if (more && icl_recipe_override(recipe, more, NULL) != ICL_OK)
        exit(1);
    return recipe;
}

static icl_trainer *make(tap_run *tap, icl_backend *backend, const icl_trainer_parts *parts, const char *more,
                         const char *what) {
    icl_recipe *recipe = open_recipe(more);
    icl_trainer *trainer = NULL;
    icl_error error = {0};

    tap_status(tap, icl_trainer_create_with(backend, parts, recipe, &trainer, &error), &error, what);
    icl_recipe_destroy(&recipe);
    return trainer;
}

/* ---- The causal task by plain loops ---- */

/* Computes from inputs [T][d + 1] and A [d][d] the outputs [S] and, unless NULL, the gradient of the mean over
 * positions of (output - target)^2. */
static void by_hand(const float *inputs, const float *a, const float *targets, double *outputs, double *gradient) {
    double seen[D] = {0}; /* the sum of y_i x_i so far */

    for (size_t t = 1; t < T; t++) {
        const float *x = inputs + t * (D + 1), *before = x - (D + 1);
        double output = 0;
        for (size_t k = 0; k < D; k++)
            seen[k] += (double)x[D] * (double)before[k];
        for (size_t k = 0; k < D; k++)
            for (size_t l = 0; l < D; l++)
                output += (double)x[k] * (double)a[k * D + l] * seen[l];
        outputs[t - 1] = output;
        for (size_t k = 0; gradient && k < D * D; k++)
            gradient[k] += 2 * (output - (double)targets[t - 1]) * (double)x[k / D] * seen[k % D] / S;
    }
}

/* Draws a batch and reads its inputs and targets. */
static icl_status draw(icl_backend *backend, const icl_task *task, icl_task_purpose purpose, uint32_t seed, size_t size,
                       float *inputs, float *targets, icl_error *error) {
    icl_batch batch = {{0}};
    icl_status status = ICL_OK;

    ICL_TRY(icl_batch_create(task, backend, purpose, size, &batch, error));
    ICL_TRY(icl_task_sample(task, backend, purpose, seed, 0, &batch, error));
    ICL_TRY(icl_tensor_read(batch.inputs, inputs, error));
    ICL_TRY(icl_tensor_read(batch.targets, targets, error));
done:
    icl_batch_release(&batch);
    return status;
}

static double mean_loss(const double *outputs, const float *targets, size_t first, size_t step, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        const double miss = outputs[first + i * step] - (double)targets[first + i * step];
        sum += miss * miss / (double)count;
    }
    return sum;
}

/* Checks loss, norm and parameters of the first step. Float errors stay far below 1e-4 of numbers of order 1. */
static void check_step(tap_run *tap, icl_backend *backend) {
    static float inputs[BATCH * T * (D + 1)], targets[BATCH * S];
    icl_trainer *trainer = make(tap, backend, &own_parts, NULL, "a trainer of own parts");
    double outputs[BATCH * S], gradient[D * D] = {0}, norm = 0;
    float before[D * D], after[D * D], worst = 0;
    icl_error error = {0};
    icl_status status = ICL_OK;

    if (!trainer)
        return;
    ICL_TRY(icl_trainer_get_parameters(trainer, before, &error));
    ICL_TRY(draw(backend, icl_trainer_task(trainer), ICL_FOR_TRAINING, 5, BATCH, inputs, targets, &error));
    ICL_TRY(icl_trainer_run(trainer, 1, &error));
    ICL_TRY(icl_trainer_get_parameters(trainer, after, &error));
    for (size_t i = 0; i < BATCH; i++)
        by_hand(inputs + i * T * (D + 1), before, targets + i * S, outputs + i * S, gradient);
    for (size_t k = 0; k < D * D; k++) {
        const double expected = (double)before[k] - RATE * gradient[k] / BATCH;
        worst = fmaxf(worst, fabsf(after[k] - (float)expected));
        norm += gradient[k] * gradient[k] / BATCH / BATCH;
    }
    const double loss = mean_loss(outputs, targets, 0, 1, BATCH * S), seen = icl_trainer_progress(trainer).loss;
    tap_ok(tap, fabs(seen - loss) < 1e-5 * loss, "the loss of the first step is %g, by hand %g", seen, loss);
    tap_ok(tap, fabs(icl_trainer_progress(trainer).gradient_norm - sqrt(norm)) < 1e-4 * sqrt(norm),
           "the norm of its gradient is %g, by hand %g", icl_trainer_progress(trainer).gradient_norm, sqrt(norm));
    tap_ok(tap, (double)worst < 1e-4 * RATE * sqrt(norm), "its parameters are off by %g at most", (double)worst);
done:
    tap_status(tap, status, &error, "one step");
    icl_trainer_destroy(&trainer);
}

/* ---- Evaluation, with a curve for each predictor ---- */

static bool near(double a, double b) {
    return fabs(a - b) <= 1e-4 * fabs(b);
}

static void check_curve(tap_run *tap, const icl_score *score, const double *outputs, const float *targets) {
    bool is_right = score->position_count == S;

    for (size_t s = 0; is_right && s < S; s++)
        is_right = score->positions[s].position == s + 1 &&
                   near(score->positions[s].loss, mean_loss(outputs, targets, s, S, SEQUENCES)) &&
                   score->positions[s].se > 0 && isnan(score->positions[s].accuracy);
    tap_ok(tap, is_right, "%s: the loss at each position", score->predictor);
    tap_ok(tap, near(score->mse, mean_loss(outputs, targets, 0, 1, SEQUENCES * S)), "%s: mean %g", score->predictor,
           score->mse);
}

static void check_texts(tap_run *tap, const icl_evaluation *evaluation) {
    char *table = NULL, *json = NULL;
    const char *key = "\"positions\":[{\"position\":1,\"mse\":";
    icl_error error = {0};
    size_t rows = 0;

    if (!tap_status(tap, icl_evaluation_table(evaluation, &table, &error), &error, "the table") ||
        !tap_status(tap, icl_score_json(&evaluation->scores[0], &json, &error), &error, "the JSON"))
        goto done;
    for (const char *at = json; (at = strstr(at, "\"position\":")); at++)
        rows++;
    tap_ok(tap, strstr(json, key) && rows == S, "the JSON has an array of %d positions", S);
    tap_ok(tap, strstr(table, "\nposition ") && strstr(table, "\n5 ") && strstr(table, "better than: zero ("),
           "the table has the curve");
    tap_note("%s", json);
done:
    icl_text_free(&table);
    icl_text_free(&json);
}

static void check_evaluation(tap_run *tap, icl_backend *backend, icl_trainer *trainer) {
    static float inputs[CHUNK * T * (D + 1)], targets[CHUNK * S];
    icl_recipe *recipe = open_recipe(NULL);
    icl_evaluation *evaluation = NULL;
    static double outputs[SEQUENCES * S], zeros[SEQUENCES * S];
    float a[D * D];
    icl_error error = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_evaluate(backend, trainer, recipe, &evaluation, &error));
    ICL_TRY(draw(backend, icl_trainer_task(trainer), ICL_FOR_EVALUATION, 7, CHUNK, inputs, targets, &error));
    ICL_TRY(icl_trainer_get_parameters(trainer, a, &error));
    for (size_t i = 0; i < SEQUENCES; i++)
        by_hand(inputs + i * T * (D + 1), a, targets + i * S, outputs + i * S, NULL);
    const icl_score *scores = evaluation->scores;
    if (tap_ok(tap,
               evaluation->count == 3 && strcmp(scores[1].predictor, "zero") == 0 &&
                   strcmp(scores[2].predictor, "told") == 0,
               "the model, and both reference predictors")) {
        check_curve(tap, &scores[0], outputs, targets);
        check_curve(tap, &scores[1], zeros, targets);
        tap_ok(tap, scores[2].mse < 1e-10, "who is told w makes no error: %g", scores[2].mse);
        tap_ok(tap, scores[0].positions[S - 1].loss < 0.9 * scores[1].positions[S - 1].loss,
               "the model has learned: %g at the last position, and 0 has %g", scores[0].positions[S - 1].loss,
               scores[1].positions[S - 1].loss);
        check_texts(tap, evaluation);
    }
done:
    tap_status(tap, status, &error, "evaluation");
    icl_evaluation_destroy(&evaluation);
    icl_recipe_destroy(&recipe);
}

/* ---- Checkpoints ---- */

static void check_checkpoint(tap_run *tap, icl_backend *backend, icl_trainer *trainer, const char *path) {
    icl_task_family renamed = causal_task;
    icl_trainer *again = make(tap, backend, &own_parts, NULL, "a second trainer"), *other = NULL;
    float first[D * D], second[D * D];
    icl_error error = {0};
    icl_status status = ICL_OK;

    renamed.name = "another-task";
    other = make(tap, backend, &(icl_trainer_parts){&renamed, &attention_model, NULL, 0}, NULL,
                 "a trainer of another task");
    ICL_TRY(icl_trainer_save(trainer, path, &error));
    ICL_TRY(icl_trainer_restore(again, path, &error));
    ICL_TRY(icl_trainer_run(trainer, 7, &error));
    ICL_TRY(icl_trainer_run(again, 7, &error));
    ICL_TRY(icl_trainer_get_parameters(trainer, first, &error));
    ICL_TRY(icl_trainer_get_parameters(again, second, &error));
    tap_ok(tap, memcmp(first, second, sizeof first) == 0, "a restored trainer goes on with the same bits");
    tap_ok(tap,
           icl_trainer_restore(other, path, &error) == ICL_ERROR_INPUT && strstr(error.message, "causal-regression"),
           "another task's trainer refuses the checkpoint: %s", error.message);
done:
    tap_status(tap, status, &error, "a checkpoint");
    icl_trainer_destroy(&again);
    icl_trainer_destroy(&other);
    remove(path);
}

/* ---- Shapes that do not fit ---- */

static icl_status too_wide_create(const icl_recipe *recipe, icl_model *model, icl_error *error) {
    (void)recipe;
    return icl_model_add_parameter(model, 1, (size_t[]){1}, error, "nothing");
}

/* Returns as many outputs as the input has numbers. */
static icl_variable too_wide_predict(const icl_model *model, icl_tape *tape, const icl_variable *parameters,
                                     icl_variable inputs, size_t depth) {
    (void)model;
    (void)depth;
    return icl_tape_binary(tape, ICL_MULTIPLY, inputs, parameters[0]);
}

static const icl_model_family too_wide = {
    .name = "too-wide", .create = too_wide_create, .initialize = attention_initialize, .predict = too_wide_predict};

static void check_refusal(tap_run *tap, icl_backend *backend, const icl_trainer_parts *parts, const char *more,
                          const char *expected, const char *what) {
    icl_recipe *recipe = open_recipe(more);
    icl_trainer *trainer = NULL;
    icl_error error = {0};
    const icl_status status = icl_trainer_create_with(backend, parts, recipe, &trainer, &error);

    tap_ok(tap, status == ICL_ERROR_INPUT && !trainer && strstr(error.message, expected), "%s: %s", what,
           error.message);
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
}

static void check_shapes(tap_run *tap, icl_backend *backend, icl_trainer *trainer) {
    icl_trainer *wide = make(tap, backend, &(icl_trainer_parts){.task = &causal_task, .model = &too_wide}, NULL,
                             "a trainer whose model answers too much");
    icl_trainer *usual = make(tap, backend, &(icl_trainer_parts){0}, NULL, "a trainer of the recipe's parts");
    float outputs[4 * S];
    icl_batch batch = {{0}};
    icl_error error = {0};

    check_refusal(tap, backend, &(icl_trainer_parts){.task = &causal_task}, NULL,
                  "model.family = linear answers 6 positions", "the recipe's model refuses the task");
    check_refusal(tap, backend, &(icl_trainer_parts){.model = &attention_model}, NULL,
                  "the task has 21 positions of 11 coordinates, 1 output at 1 position from 20",
                  "the model refuses the recipe's task");
    tap_ok(tap,
           icl_trainer_run(wide, 1, &error) == ICL_ERROR_INPUT &&
               strstr(error.message, "too-wide gave outputs [32, 6, 4]"),
           "outputs of another shape are refused in training: %s", error.message);
    if (tap_status(tap, icl_batch_create(icl_trainer_task(trainer), backend, ICL_FOR_EVALUATION, 4, &batch, &error),
                   &error, "a batch")) {
        tap_ok(tap, icl_trainer_predict(wide, &batch, outputs, &error) == ICL_ERROR_INPUT,
               "and in prediction, where they would overrun the caller's memory");
        tap_ok(tap,
               icl_trainer_predict(usual, &batch, outputs, &error) == ICL_ERROR_INPUT &&
                   strstr(error.message, "expected the trainer's own"),
               "a batch of another task is refused: %s", error.message);
    }
    icl_batch_release(&batch);
    icl_trainer_destroy(&wide);
    icl_trainer_destroy(&usual);
}

/* The oracle and files of predictions, which need a context and one query, are refused. */
static void check_regression_alone(tap_run *tap, icl_backend *backend, icl_trainer *trainer) {
    icl_recipe *recipe = open_recipe(NULL);
    icl_predictors *predictors = NULL;
    icl_error error = {0};

    tap_ok(tap,
           icl_predictors_create(icl_trainer_task(trainer), NULL, "oracle", 100, 1, &predictors, &error) ==
               ICL_ERROR_INPUT,
           "no oracle of regression for another shape: %s", error.message);
    tap_ok(tap,
           icl_predictions_write(backend, trainer, recipe, "own-parts-predictions.safetensors", &error) ==
                   ICL_ERROR_INPUT &&
               strstr(error.message, "1 output at 5 positions"),
           "no file with one prediction of a sequence: %s", error.message);
    icl_predictors_destroy(&predictors);
    icl_recipe_destroy(&recipe);
}

/* ---- Symbols, classes and weights ---- */

/* The task has symbols 0 and 1 at four positions; the last two are scored, and each asks for the symbol before. */
enum { SYMBOLS = 4, ASKED = 2, CLASSES = 2 };

static icl_status recall_create(const icl_recipe *recipe, icl_task *task, icl_error *error) {
    const icl_loss_kind loss = *(const icl_loss_kind *)task->family->settings;
    (void)recipe;
    (void)error;
    task->shape = (icl_task_shape){.positions = SYMBOLS,
                                   .symbols = CLASSES,
                                   .outputs = loss == ICL_LOSS_LOGISTIC ? 1 : CLASSES,
                                   .first_scored = SYMBOLS - ASKED,
                                   .scored = ASKED,
                                   .loss = loss};
    return ICL_OK;
}

/* The first scored position counts twice, the second not at all. */
static icl_status recall_weighted(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, size_t size,
                                  icl_batch *batch, icl_error *error) {
    icl_status status = ICL_OK;

    (void)task;
    (void)purpose;
    ICL_TRY(icl_tensor_create(backend, 2, (size_t[]){size, SYMBOLS}, &batch->inputs, error));
    ICL_TRY(icl_tensor_create(backend, 3, (size_t[]){size, ASKED, 1}, &batch->scratch[0], error));
    ICL_TRY(icl_tensor_create(backend, 3, (size_t[]){size, ASKED, 1}, &batch->scratch[1], error));
    ICL_TRY(icl_fill(backend, icl_tensor_slice(batch->scratch[1], 1, 0, 1), 2, error));
    ICL_TRY(icl_fill(backend, icl_tensor_slice(batch->scratch[1], 1, 1, 1), 0, error));
    batch->targets = batch->scratch[0];
    batch->weights = batch->scratch[1];
done:
    return status;
}

static icl_status recall_sample(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, uint32_t seed,
                                uint64_t step, icl_batch *batch, icl_error *error) {
    const icl_random_params coin = {.key = {seed, 2000u + (uint32_t)purpose, step},
                                    .distribution = ICL_CHOICE,
                                    .choice_count = 2,
                                    .choices = {0, 1}};
    const icl_tensor before = icl_tensor_slice(batch->inputs, 1, SYMBOLS - ASKED - 1, ASKED);
    icl_tensor targets = batch->targets;
    icl_status status = ICL_OK;

    (void)task;
    targets.rank = 2;
    ICL_TRY(icl_random_fill(backend, &coin, batch->inputs, error));
    ICL_TRY(icl_copy(backend, targets, before, error));
done:
    return status;
}

/* outputs = (symbol before, 1) W, W [2, q]. */
static icl_status recall_model_create(const icl_recipe *recipe, icl_model *model, icl_error *error) {
    (void)recipe;
    return icl_model_add_parameter(model, 2, (size_t[]){2, model->shape.outputs}, error, "W");
}

static icl_variable recall_predict(const icl_model *model, icl_tape *tape, const icl_variable *parameters,
                                   icl_variable inputs, size_t depth) {
    const size_t size = icl_tape_value(tape, inputs).shape[0], shape[] = {size, ASKED, 1};
    const icl_variable before = icl_tape_slice(tape, inputs, 1, model->shape.first_scored - 1, ASKED);
    const icl_variable ones = icl_tape_filled(tape, 3, (size_t[]){size, ASKED, 2}, 1);
    const icl_variable symbols = icl_tape_reshape(tape, icl_tape_unary(tape, ICL_ABSOLUTE, before), 3, shape);
    const icl_variable features = icl_tape_place(tape, ones, symbols, (size_t[]){0, 0, 0});

    (void)depth;
    return icl_tape_matmul(tape, 1.0, features, parameters[0]);
}

static const icl_model_family recall_model = {.name = "recall-model",
                                              .create = recall_model_create,
                                              .initialize = attention_initialize,
                                              .predict = recall_predict};

/* Checks the weighted loss of the first step by hand, and the result of training. */
static void check_recall(tap_run *tap, icl_backend *backend, icl_loss_kind loss, bool weighted) {
    const icl_task_family family = {.name = "recall",
                                    .settings = &loss,
                                    .create = recall_create,
                                    .batch_create = weighted ? recall_weighted : NULL,
                                    .sample = recall_sample};
    const icl_trainer_parts parts = {.task = &family, .model = &recall_model};
    icl_trainer *trainer = make(tap, backend, &parts, "train.learning_rate=2", icl_loss_name(loss));
    icl_recipe *recipe = open_recipe(NULL);
    icl_evaluation *evaluation = NULL;
    float inputs[BATCH * SYMBOLS], targets[BATCH * ASKED], w[2 * CLASSES];
    double sum = 0;
    icl_error error = {0};
    icl_status status = ICL_OK;

    if (!trainer)
        goto done;
    const size_t q = icl_task_get_shape(icl_trainer_task(trainer))->outputs;
    ICL_TRY(icl_trainer_get_parameters(trainer, w, &error));
    ICL_TRY(draw(backend, icl_trainer_task(trainer), ICL_FOR_TRAINING, 5, BATCH, inputs, targets, &error));
    ICL_TRY(icl_trainer_run(trainer, 1, &error));
    for (size_t i = 0; i < BATCH * ASKED; i++) {
        const double symbol = (double)inputs[i / ASKED * SYMBOLS + i % ASKED + 1], target = (double)targets[i];
        const double weight = !weighted ? 1 : i % ASKED == 0 ? 2 : 0;
        double z[CLASSES] = {0};
        for (size_t k = 0; k < q; k++)
            z[k] = symbol * (double)w[k] + (double)w[q + k];
        const double margin = q == 1 ? z[0] : z[1] - z[0];
        sum += weight * log1p(exp(target == 1 ? -margin : margin)) / (BATCH * ASKED);
    }
    tap_ok(tap, fabs(icl_trainer_progress(trainer).loss - sum) < 1e-5, "the loss of the first step is %g, by hand %g",
           icl_trainer_progress(trainer).loss, sum);
    ICL_TRY(icl_trainer_run(trainer, 100, &error));
    ICL_TRY(icl_evaluate(backend, trainer, recipe, &evaluation, &error));
    const icl_score *score = &evaluation->scores[0];
    tap_ok(tap, score->accuracy == 1 && score->mse < 0.3 && score->positions[0].accuracy == 1,
           "it learns to answer: accuracy %g, loss %g", score->accuracy, score->mse);
    tap_ok(tap, (score->positions[1].loss == 0) == weighted && score->positions[0].loss > 0,
           "a position of weight 0 costs nothing");
done:
    tap_status(tap, status, &error, "a task of symbols");
    icl_evaluation_destroy(&evaluation);
    icl_recipe_destroy(&recipe);
    icl_trainer_destroy(&trainer);
}

/* ---- Weights, for a model with ops of its own that do not read them ---- */

static icl_status pairs_create(const icl_recipe *recipe, icl_task *task, icl_error *error) {
    (void)recipe, (void)error;
    task->shape = (icl_task_shape){.positions = T, .inputs = D + 1, .outputs = 1, .first_scored = S, .scored = 1};
    return ICL_OK;
}

static icl_status pairs_batch(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, size_t size,
                              icl_batch *batch, icl_error *error) {
    const bool weighted = task->family->settings;

    (void)purpose;
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, T, D + 1}, &batch->inputs, error));
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, 1, 1}, &batch->scratch[0], error));
    batch->targets = batch->scratch[0];
    if (!weighted)
        return ICL_OK;
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, 1, 1}, &batch->scratch[1], error));
    batch->weights = batch->scratch[1];
    return icl_fill(backend, batch->weights, 2, error);
}

static icl_status pairs_sample(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, uint32_t seed,
                               uint64_t step, icl_batch *batch, icl_error *error) {
    icl_random_params normal = {.key = {seed, 3000u + 2 * (uint32_t)purpose, step}, .distribution = ICL_NORMAL};

    (void)task;
    ICL_CHECK(icl_random_fill(backend, &normal, batch->inputs, error));
    normal.key.stream++;
    return icl_random_fill(backend, &normal, batch->targets, error);
}

/* Takes the first step, and reads its loss and the model's gradient [N]. */
static void take_step(tap_run *tap, icl_backend *backend, const icl_task_family *family, double *loss,
                      double *gradient) {
    icl_trainer *trainer = make(tap, backend, &(icl_trainer_parts){.task = family}, NULL, family->name);
    icl_error error = {0};

    if (trainer && tap_status(tap, icl_trainer_run(trainer, 1, &error), &error, "a step") &&
        tap_status(tap, icl_trainer_read_gradient(trainer, gradient, &error), &error, "its gradient"))
        *loss = icl_trainer_progress(trainer).loss;
    icl_trainer_destroy(&trainer);
}

/* Weights of 2 double the loss and the gradient, which are computed on the tape then: up to the rounding of sums. */
static void check_weights(tap_run *tap, icl_backend *backend) {
    static const icl_task_family plain = {
        .name = "pairs", .create = pairs_create, .batch_create = pairs_batch, .sample = pairs_sample};
    static const icl_task_family doubled = {.name = "pairs of weight 2",
                                            .settings = "",
                                            .create = pairs_create,
                                            .batch_create = pairs_batch,
                                            .sample = pairs_sample};
    static double once[MAX_PARAMETERS], twice[MAX_PARAMETERS];
    double losses[2] = {0}, worst = 0, largest = 0;

    take_step(tap, backend, &plain, &losses[0], once);
    take_step(tap, backend, &doubled, &losses[1], twice);
    for (size_t i = 0; i < MAX_PARAMETERS; i++) {
        largest = fmax(largest, fabs(twice[i]));
        worst = fmax(worst, fabs(twice[i] - 2 * once[i]));
    }
    tap_ok(tap, losses[0] > 0 && fabs(losses[1] - 2 * losses[0]) < 1e-5 * losses[1] && worst < 1e-5 * largest,
           "weights of 2 double the loss, %g, and its gradient, within %.1e of %.1e", losses[0], worst, largest);
    check_refusal(tap, backend, &(icl_trainer_parts){.task = &doubled}, "train.sequence_clip=0.1",
                  "losses with weights", "weights leave no gradients of sequences to cut");
}

int main(int argc, char **argv) {
    const char *spec = argc > 1 ? argv[1] : "cpu";
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, spec);
    icl_trainer *trainer;
    icl_error error = {0};
    char path[64];

    if (!backend)
        return tap_done(&tap);
    snprintf(path, sizeof path, "own-parts-%ld.safetensors", (long)getpid());
    check_step(&tap, backend);
    trainer = make(&tap, backend, &own_parts, "train.slices=2", "a trainer in slices");
    if (trainer && tap_status(&tap, icl_trainer_run(trainer, 60, &error), &error, "60 steps in slices"))
        check_evaluation(&tap, backend, trainer);
    icl_trainer_destroy(&trainer);
    trainer = make(&tap, backend, &own_parts, NULL, "a trainer");
    if (trainer && tap_status(&tap, icl_trainer_run(trainer, 20, &error), &error, "20 steps")) {
        check_checkpoint(&tap, backend, trainer, path);
        check_shapes(&tap, backend, trainer);
        check_regression_alone(&tap, backend, trainer);
    }
    icl_trainer_destroy(&trainer);
    check_recall(&tap, backend, ICL_LOSS_CROSS_ENTROPY, false);
    check_recall(&tap, backend, ICL_LOSS_LOGISTIC, true);
    check_weights(&tap, backend);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
