/* A trainer's predictions position by position: they are those of the whole sequence, depend on earlier positions only,
 * and appear in a table with eval.decode; models that keep no state are refused. */
#include "own_parts.h"

#include <string.h>

#include "iclab/evaluate.h"
#include "recipes.h"

enum { BATCH = 7, ANSWERS = BATCH * S };

static const char *const mixers[] = {"softmax", "delta", "gla"};

static icl_recipe *open_recipe(const char *more) {
    icl_recipe *recipe = NULL;

    tap_need(make_recipe("",
                         "model.family=sequence model.layers=2 model.width=16 model.heads=2 "
                         "model.positions=learned train.batch=16 train.steps=3 train.optimizer=adam "
                         "train.warmup=0 eval.sequences=50 eval.predictors= train.schedule=constant "
                         "eval.every=0",
                         &recipe, tap_error()));
    if (icl_recipe_override(recipe, more, NULL) != ICL_OK)
        exit(1);
    return recipe;
}

/* Float sums of a few dozen terms in another order: 1e-5 of the largest is far above their rounding, and far below the
 * error of a state that misses a token. */
static double distance(const float *a, const float *b, size_t first, size_t step) {
    double worst = 0, largest = 0;

    for (size_t i = first; i < ANSWERS; i += step) {
        worst = fmax(worst, fabs((double)a[i] - (double)b[i]));
        largest = fmax(largest, fabs((double)a[i]));
    }
    return worst / largest;
}

static void check_predictions(tap_run *tap, icl_backend *backend, const char *mixer) {
    const icl_trainer_parts parts = {.task = &causal_task};
    char setting[64];
    float whole[ANSWERS], steps[ANSWERS], changed[ANSWERS];
    icl_trainer *trainer = NULL;
    icl_batch batch = {{0}};
    icl_error error = {0};
    icl_status status = ICL_OK;

    snprintf(setting, sizeof setting, "model.mixer=%s", mixer);
    icl_recipe *recipe = open_recipe(setting);
    ICL_TRY(icl_trainer_create_with(backend, &parts, recipe, &trainer, &error));
    ICL_TRY(icl_trainer_run(trainer, 3, &error));
    ICL_TRY(icl_batch_create(icl_trainer_task(trainer), backend, ICL_FOR_EVALUATION, BATCH, &batch, &error));
    ICL_TRY(icl_task_sample(icl_trainer_task(trainer), backend, ICL_FOR_EVALUATION, 1, 0, &batch, &error));
    ICL_TRY(icl_trainer_predict(trainer, &batch, whole, &error));
    ICL_TRY(icl_trainer_decode(trainer, &batch, steps, &error));
    tap_ok(tap, distance(whole, steps, 0, 1) < 1e-5, "%s: decoded predictions are off by %g of the largest", mixer,
           distance(whole, steps, 0, 1));

    ICL_TRY(icl_fill(backend, icl_tensor_slice(batch.inputs, 1, T - 1, 1), 3, &error));
    ICL_TRY(icl_trainer_decode(trainer, &batch, changed, &error));
    bool is_kept = true;
    for (size_t i = 0; i < ANSWERS; i++)
        is_kept = is_kept && (i % S == S - 1 || changed[i] == steps[i]);
    tap_ok(tap, is_kept, "%s: another last input changes no prediction before it", mixer);
    tap_ok(tap, distance(steps, changed, S - 1, S) > 1e-3, "%s: and the last one", mixer);
done:
    tap_status(tap, status, &error, mixer);
    icl_batch_release(&batch);
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
}

static void check_evaluation(tap_run *tap, icl_backend *backend) {
    const icl_trainer_parts parts = {.task = &causal_task};
    icl_evaluation *whole = NULL, *steps = NULL;
    icl_trainer *trainer = NULL;
    icl_recipe *recipe = open_recipe("model.mixer=linear");
    icl_error error = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_trainer_create_with(backend, &parts, recipe, &trainer, &error));
    ICL_TRY(icl_evaluate(backend, trainer, recipe, &whole, &error));
    ICL_TRY(icl_recipe_override(recipe, "eval.decode=true", &error));
    ICL_TRY(icl_evaluation_check(trainer, recipe, &error));
    ICL_TRY(icl_evaluate(backend, trainer, recipe, &steps, &error));
    const double a = whole->scores[0].mse, b = steps->scores[0].mse;
    tap_ok(tap, fabs(a - b) < 1e-5 * a, "the table of decoded predictions: %g, of whole sequences %g", b, a);
done:
    tap_status(tap, status, &error, "eval.decode");
    icl_evaluation_destroy(&whole);
    icl_evaluation_destroy(&steps);
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
}

/* Each refusal is one line. */
static void check_refusals(tap_run *tap, icl_backend *backend) {
    const icl_trainer_parts parts = {.task = &causal_task, .model = &attention_model};
    icl_recipe *recipe = open_recipe("eval.decode=true");
    icl_trainer *trainer = NULL;
    icl_batch batch = {{0}};
    float outputs[ANSWERS];
    icl_error error = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_trainer_create_with(backend, &parts, recipe, &trainer, &error));
    tap_ok(tap,
           icl_evaluation_check(trainer, recipe, &error) == ICL_ERROR_INPUT && strstr(error.message, "eval.decode"),
           "%s", error.message);
    ICL_TRY(icl_batch_create(icl_trainer_task(trainer), backend, ICL_FOR_EVALUATION, BATCH, &batch, &error));
    tap_ok(tap,
           icl_trainer_decode(trainer, &batch, outputs, &error) == ICL_ERROR_INPUT &&
               strstr(error.message, "causal-attention"),
           "%s", error.message);
done:
    tap_status(tap, status, &error, "a model without states");
    icl_batch_release(&batch);
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, argc > 1 ? argv[1] : "cpu");

    if (backend) {
        for (size_t i = 0; i < sizeof mixers / sizeof *mixers; i++)
            check_predictions(&tap, backend, mixers[i]);
        check_evaluation(&tap, backend);
        check_refusals(&tap, backend);
        icl_backend_close(&backend);
    }
    return tap_done(&tap);
}
