/*
 * Tests the library's reference predictors at every scored position: they have the bits of the same predictors after a
 * context of only the pairs before that position. Also tests the evaluation that uses them.
 *
 * Two forms of one task draw the same numbers, so that constants are fitted on the same sequences:
 *     labels that follow   position t has (x_t, y_(t - 1)), and any position can be scored
 *     a prefix             has the first n pairs (x_i, y_i), then (x_n, 0)
 */
#include <string.h>

#include "../train/fixture.h"
#include "baseline/predictors.h"

enum { D = 3, T = 7, SEQUENCES = 40, FITTED = 60, MOST_PREDICTORS = 16 };

static const char every[] = "oracle,bayes,ols,constrr,adarr,tunedrr,ridge,gd:2,gd++:2,pgd:1,pgd++:2";

/* ---- The task ---- */

/* C of the weights w = C g: the prior's basis is not that of the inputs. */
static const double weight_root[D * D] = {1, 0, 0, 0, 0.5, 0, 0, 0, 2};

typedef struct form {
    size_t context;               /* n of a prefix; 0 if the labels follow */
    size_t first_scored;          /* used if the labels follow */
    bool hides_noise, is_one_law; /* no side tensor; one noise level for all sequences */
} form;

static icl_status form_create(const icl_recipe *recipe, icl_task *task, icl_error *error) {
    const form *of = task->family->settings;
    icl_task_prior *prior = NULL;

    (void)recipe;
    ICL_CHECK(icl_allocate(1, sizeof *prior, "prior", &prior, error));
    task->state = task->prior = prior;
    task->shape = icl_regression_shape(D, of->context > 0 ? of->context : T - 1);
    prior->weight_root = weight_root;
    prior->noise = of->is_one_law ? ICL_NOISE_FIXED : ICL_NOISE_UNIFORM;
    prior->noise_max = prior->noise_levels[0] = 1;
    prior->mean_square_noise = of->is_one_law ? 1 : 1.0 / 3;
    if (of->context == 0) {
        prior->labels = ICL_LABELS_NEXT;
        task->shape.first_scored = of->first_scored;
        task->shape.scored = T - of->first_scored;
    }
    return ICL_OK;
}

static void form_destroy(icl_task *task) {
    icl_free(&task->state);
}

static icl_status form_batch(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, size_t size,
                             icl_batch *batch, icl_error *error) {
    const icl_task_shape *shape = &task->shape;
    icl_status status = ICL_OK;

    (void)purpose;
    ICL_TRY(icl_tensor_create(backend, 3, (size_t[]){size, shape->positions, D + 1}, &batch->inputs, error));
    ICL_TRY(icl_tensor_create(backend, 3, (size_t[]){size, shape->scored, 1}, &batch->scratch[0], error));
    ICL_TRY(icl_tensor_create(backend, 3, (size_t[]){size, 1, 1}, &batch->scratch[1], error));
    batch->targets = batch->scratch[0];
    if (!((const form *)task->family->settings)->hides_noise)
        ICL_TRY(icl_batch_add_side(batch, ICL_SIDE_NOISE, batch->scratch[1], error));
done:
    return status;
}

/* The sequence x_0 … x_(T - 1), noiseless and noisy labels, which do not depend on the form. */
typedef struct drawn {
    float x[T][D], target[T], label[T], sigma;
} drawn;

static drawn draw(const form *of, icl_task_purpose purpose, uint32_t seed, uint64_t step, size_t sequence) {
    icl_random_params law = {.key = {seed, 1000u + (uint32_t)purpose, step * 4096 + sequence},
                             .distribution = ICL_NORMAL};
    drawn made = {.sigma = 1};
    size_t next = 0;
    double w[D];

    for (size_t k = 0; k < D; k++)
        w[k] = weight_root[k * (D + 1)] * (double)icl_random_value(&law, next++);
    for (size_t t = 0; t < T; t++)
        for (size_t k = 0; k < D; k++) {
            made.x[t][k] = icl_random_value(&law, next++);
            made.target[t] += (float)(w[k] * (double)made.x[t][k]);
        }
    if (!of->is_one_law)
        made.sigma = (float)(sequence % 8) / 8;
    for (size_t t = 0; t < T; t++)
        made.label[t] = made.target[t] + made.sigma * icl_random_value(&law, next++);
    return made;
}

static icl_status form_sample(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, uint32_t seed,
                              uint64_t step, icl_batch *batch, icl_error *error) {
    const form *of = task->family->settings;
    const icl_task_shape *shape = &task->shape;
    float *inputs = NULL, *targets = NULL, *noise = NULL;
    icl_status status = ICL_OK;

    (void)backend;
    ICL_TRY(icl_allocate(batch->size * shape->positions * (D + 1), sizeof *inputs, "inputs", &inputs, error));
    ICL_TRY(icl_allocate(batch->size * shape->scored, sizeof *targets, "targets", &targets, error));
    ICL_TRY(icl_allocate(batch->size, sizeof *noise, "noise", &noise, error));
    for (size_t b = 0; b < batch->size; b++) {
        const drawn made = draw(of, purpose, seed, step, b);
        for (size_t t = 0; t < shape->positions; t++) {
            float *row = inputs + (b * shape->positions + t) * (D + 1);
            memcpy(row, made.x[t], sizeof made.x[t]);
            if (of->context > 0)
                row[D] = t < of->context ? made.label[t] : 0;
            else
                row[D] = t > 0 ? made.label[t - 1] : 0;
        }
        noise[b] = made.sigma;
        for (size_t s = 0; s < shape->scored; s++)
            targets[b * shape->scored + s] = made.target[shape->first_scored + s];
    }
    ICL_TRY(icl_tensor_write(batch->inputs, inputs, error));
    ICL_TRY(icl_tensor_write(batch->targets, targets, error));
    ICL_TRY(icl_tensor_write(batch->scratch[1], noise, error));
done:
    icl_free(&inputs);
    icl_free(&targets);
    icl_free(&noise);
    return status;
}

static icl_task_family family_of(const form *of) {
    return (icl_task_family){.name = "pairs",
                             .settings = of,
                             .create = form_create,
                             .destroy = form_destroy,
                             .batch_create = form_batch,
                             .sample = form_sample};
}

/* ---- Position by position ---- */

/* Runs all predictors on SEQUENCES sequences of a form; predictions [SEQUENCES][S][count]. */
static icl_status predict_form(icl_backend *backend, const form *of, double *predictions, size_t *count,
                               icl_error *error) {
    const icl_task_family family = family_of(of);
    float inputs[SEQUENCES * T * (D + 1)], noise[SEQUENCES];
    icl_task *task = NULL;
    icl_predictors *predictors = NULL;
    icl_recipe *recipe = NULL;
    icl_batch batch = {{0}};
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_create_complete(&recipe, error));
    ICL_TRY(icl_task_create_with(&family, recipe, &task, error));
    ICL_TRY(icl_predictors_create(task, NULL, every, FITTED, 3, &predictors, error));
    ICL_TRY(icl_batch_create(task, backend, ICL_FOR_EVALUATION, SEQUENCES, &batch, error));
    ICL_TRY(icl_task_sample(task, backend, ICL_FOR_EVALUATION, 5, 0, &batch, error));
    ICL_TRY(icl_tensor_read(batch.inputs, inputs, error));
    ICL_TRY(icl_tensor_read(batch.scratch[1], noise, error));
    ICL_TRY(icl_predictors_run(predictors, SEQUENCES, inputs, noise, predictions, error));
    *count = icl_predictors_count(predictors);
done:
    icl_batch_release(&batch);
    icl_predictors_destroy(&predictors);
    icl_task_destroy(&task);
    icl_recipe_destroy(&recipe);
    return status;
}

static void check_positions(tap_run *tap, icl_backend *backend, const form *whole) {
    const size_t scored = T - whole->first_scored;
    static double all[SEQUENCES * T * MOST_PREDICTORS], one[SEQUENCES * MOST_PREDICTORS];
    size_t count = 0;
    icl_error error = {0};

    if (!tap_status(tap, predict_form(backend, whole, all, &count, &error), &error, "every position"))
        return;
    for (size_t s = 0; s < scored; s++) {
        const form prefix = {
            .context = whole->first_scored + s, .hides_noise = whole->hides_noise, .is_one_law = whole->is_one_law};
        size_t differing = 0;
        memset(one, 0, sizeof one); /* before the first pair */
        if (prefix.context > 0)
            tap_status(tap, predict_form(backend, &prefix, one, &count, &error), &error, "a prefix");
        for (size_t i = 0; i < SEQUENCES; i++)
            for (size_t j = 0; j < count; j++)
                differing += !(all[(i * scored + s) * count + j] == one[i * count + j]);
        tap_ok(tap, differing == 0 && count == 11 && (prefix.context == 0 || one[0] != 0),
               "position %zu: all %zu predictors have the bits of their one answer (%zu have not)", prefix.context,
               count, differing);
    }
}

static void check_refusal(tap_run *tap, icl_backend *backend) {
    static double predictions[SEQUENCES * T * MOST_PREDICTORS];
    const form hidden = {.first_scored = 1, .hides_noise = true};
    size_t count;
    icl_error error = {0};
    const icl_status status = predict_form(backend, &hidden, predictions, &count, &error);

    tap_ok(tap, status == ICL_ERROR_INPUT && strstr(error.message, "\"noise\"") && !strchr(error.message, '\n'),
           "noise that is drawn and not told is refused: %s", error.message);
}

/* Predictions at several positions are not imitated: constants are fitted for one. */
static void check_imitation(tap_run *tap) {
    const form whole = {.first_scored = 1};
    const icl_task_family family = family_of(&whole);
    icl_recipe *recipe = NULL;
    icl_task *task = NULL;
    icl_predictors *predictors = NULL;
    icl_error error = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_create_complete(&recipe, &error));
    ICL_TRY(icl_task_create_with(&family, recipe, &task, &error));
    tap_ok(tap,
           icl_predictors_imitate(task, NULL, "ridge", &(icl_imitation){.count = 1}, &predictors, &error) ==
                   ICL_ERROR_INPUT &&
               !predictors && strstr(error.message, "expected one to imitate"),
           "several scored positions are refused: %s", error.message);
done:
    tap_status(tap, status, &error, "a task with several scored positions");
    icl_task_destroy(&task);
    icl_recipe_destroy(&recipe);
}

/* ---- Evaluation ---- */

/* The model's output is 0 times a parameter: 0 at every scored position. */
static icl_status silent_create(const icl_recipe *recipe, icl_model *model, icl_error *error) {
    (void)recipe;
    return icl_model_add_parameter(model, 1, (size_t[]){1}, error, "gain");
}

static void silent_initialize(const icl_model *model, uint32_t seed, float *values) {
    (void)model;
    (void)seed;
    values[0] = 0;
}

static icl_variable silent_predict(const icl_model *model, icl_tape *tape, const icl_variable *parameters,
                                   icl_variable inputs, size_t depth) {
    const icl_variable scored = icl_tape_slice(tape, inputs, 1, model->shape.first_scored, model->shape.scored);
    (void)depth;
    return icl_tape_binary(tape, ICL_MULTIPLY, icl_tape_slice(tape, scored, 2, 0, 1), parameters[0]);
}

static const icl_score *find(const icl_evaluation *evaluation, const char *name) {
    for (size_t i = 0; i < evaluation->count; i++)
        if (strcmp(evaluation->scores[i].predictor, name) == 0)
            return &evaluation->scores[i];
    return NULL;
}

/* Before the first pair the oracle predicts 0 and misses by the variance of targets, 1 + 1/4 + 4; then it misses by
 * ever less. The distance to the oracle of a model that predicts 0 is the oracle's gain, up to its own error. */
static void check_evaluation(tap_run *tap, icl_backend *backend) {
    static const icl_model_family silent = {
        .name = "silent", .create = silent_create, .initialize = silent_initialize, .predict = silent_predict};
    const form whole = {.first_scored = 0};
    const icl_task_family family = family_of(&whole);
    const icl_trainer_parts parts = {.task = &family, .model = &silent};
    const char *const settings[] = {"train.batch=4", "eval.sequences=3000", "eval.predictors=ols,oracle"};
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = NULL;
    icl_evaluation *evaluation = NULL;
    char *table = NULL;
    icl_error error = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_create_complete(&recipe, &error));
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        ICL_TRY(icl_recipe_override(recipe, settings[i], &error));
    ICL_TRY(icl_trainer_create_with(backend, &parts, recipe, &trainer, &error));
    ICL_TRY(icl_evaluate(backend, trainer, recipe, &evaluation, &error));
    const icl_score *oracle = find(evaluation, "oracle"), *model = find(evaluation, "model");
    bool falls = oracle && oracle->position_count == T;
    for (size_t s = 1; falls && s < T; s++)
        falls = oracle->positions[s].loss < oracle->positions[s - 1].loss;
    tap_ok(tap, falls, "the oracle's curve falls from position to position");
    if (!falls)
        goto done;
    tap_ok(tap, fabs(oracle->positions[0].loss - 5.25) < 5 * oracle->positions[0].se,
           "before the first pair it has %g, and targets the variance 5.25", oracle->positions[0].loss);
    tap_ok(tap, oracle->adjusted == 0 && fabs(model->adjusted - (model->mse - oracle->mse)) < 5 * model->se,
           "the model's distance to it is %g, and it gains %g", model->adjusted, model->mse - oracle->mse);
    tap_ok(tap, find(evaluation, "ols")->positions[T - 1].loss > oracle->positions[T - 1].loss,
           "least squares has no more than it");
    ICL_TRY(icl_evaluation_table(evaluation, &table, &error));
    tap_ok(tap, strstr(table, "half_adjusted") && strstr(table, "\nposition ") && strstr(table, "\n6 "),
           "the table has the distance to the oracle, and the curve");
done:
    tap_status(tap, status, &error, "evaluation");
    icl_text_free(&table);
    icl_evaluation_destroy(&evaluation);
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, argc > 1 ? argv[1] : "cpu");

    if (!backend)
        return tap_done(&tap);
    check_positions(&tap, backend, &(form){.first_scored = 0});
    check_positions(&tap, backend, &(form){.first_scored = 4, .hides_noise = true, .is_one_law = true});
    check_refusal(&tap, backend);
    check_imitation(&tap);
    check_evaluation(&tap, backend);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
