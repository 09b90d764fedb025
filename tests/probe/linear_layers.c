/* Layers taken apart against the model itself: implicit weight vectors predict what the model does, for every parameterization; an
 * embedded model predicts the same; and a term that is taken away is the one that is gone. */
#include "probe/linear_layers.h"

#include <math.h>

#include "core/allocate.h"
#include "iclab/lab.h"
#include "iclab/train.h"
#include "tap.h"

enum { D = 4, N = 7, LAYERS = 3, BATCH = 16, WIDTH = D + 1 };

typedef struct fixture {
    icl_backend *backend;
    icl_recipe *recipe;
    icl_trainer *trainer;
    icl_batch batch;
    icl_linear_layers *layers;
    float *values;
    float tokens[BATCH * (N + 1) * WIDTH], predictions[BATCH];
} fixture;

static icl_status override(icl_recipe *recipe, const char *form, const char *scale, const char *heads,
                           icl_error *error) {
    const char *const settings[] = {
        "task.d=4", "task.n=7", "model.layers=3", "model.init_std=0.1", "train.batch=1", "eval.every=0", form,
        scale,      heads};
    icl_status status = ICL_OK;

    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        ICL_TRY(icl_recipe_override(recipe, settings[i], error));
done:
    return status;
}

static icl_status open_fixture(fixture *f, const char *form, const char *scale, const char *heads,
                               icl_error *error) {
    const icl_backend_params params = {.spec = "ref"};
    icl_status status = ICL_OK;

    ICL_TRY(icl_backend_open(&params, &f->backend, error));
    ICL_TRY(icl_lab_recipe_create(&f->recipe, error));
    ICL_TRY(override(f->recipe, form, scale, heads, error));
    ICL_TRY(icl_trainer_create(f->backend, f->recipe, &f->trainer, error));
    const icl_task *task = icl_trainer_task(f->trainer);
    const icl_model *model = icl_trainer_model(f->trainer);
    ICL_TRY(icl_batch_create(task, f->backend, ICL_FOR_EVALUATION, BATCH, &f->batch, error));
    ICL_TRY(icl_task_sample(task, f->backend, ICL_FOR_EVALUATION, 3, 0, &f->batch, error));
    ICL_TRY(icl_tensor_read(f->batch.tokens, f->tokens, error));
    ICL_TRY(icl_trainer_predict(f->trainer, &f->batch, f->predictions, error));
    ICL_TRY(icl_allocate(icl_model_size(model), sizeof *f->values, "parameters", &f->values, error));
    ICL_TRY(icl_trainer_get_parameters(f->trainer, f->values, error));
    ICL_TRY(icl_linear_layers_create(model, D, N, f->values, &f->layers, error));
done:
    return status;
}

static void close_fixture(fixture *f) {
    icl_linear_layers_destroy(&f->layers);
    icl_free(&f->values);
    icl_batch_release(&f->batch);
    icl_trainer_destroy(&f->trainer);
    icl_recipe_destroy(&f->recipe);
    icl_backend_close(&f->backend);
}

static double predict(const double *weights, const float *tokens) {
    double sum = 0;
    for (size_t i = 0; i < D; i++)
        sum += weights[i] * (double)tokens[(size_t)N * WIDTH + i];
    return sum;
}

static void test_form(tap_run *tap, const char *form, const char *scale, const char *heads) {
    fixture f = {0};
    icl_error error = {0};
    double worst = 0, weights[LAYERS * D];

    if (tap_status(tap, open_fixture(&f, form, scale, heads, &error), &error, form)) {
        for (size_t i = 0; i < BATCH; i++) {
            const float *tokens = f.tokens + i * (N + 1) * WIDTH;
            icl_linear_layers_weights(f.layers, tokens, NULL, weights);
            const double prediction = predict(weights + (LAYERS - 1) * D, tokens);
            /* Read back as a float. */
            worst = fmax(worst, fabs(prediction - (double)f.predictions[i]) / (1 + fabs(prediction)));
        }
        tap_ok(tap, worst < 2e-7, "%s, %s, %s: <w, x> is the prediction, to %.2g", form, scale, heads, worst);
    }
    close_fixture(&f);
}

/* One diagonal layer: w_xx, w_xy, w_yx and w_yy are products of its four numbers, and only w_yx moves a fresh query. */
static void test_terms(tap_run *tap) {
    fixture f = {0};
    icl_error error = {0};
    double terms[ICL_LINEAR_TERMS], whole[LAYERS * D], without[LAYERS * D];

    if (tap_status(
            tap, open_fixture(&f, "model.parameterization=diag", "model.scale=raw", "model.heads=1", &error),
            &error, "a diagonal model")) {
        const double p_x = (double)f.values[0], p_y = (double)f.values[1], q_x = (double)f.values[2],
                     q_y = (double)f.values[3];
        const double expected[ICL_LINEAR_TERMS] = {p_x * q_x, p_x * q_y, p_y * q_x, p_y * q_y};
        bool right = true;
        icl_linear_layers_terms(f.layers, 0, terms);
        for (int t = 0; t < ICL_LINEAR_TERMS; t++)
            right = right && fabs(terms[t] - N * expected[t]) < 1e-12;
        tap_ok(tap, right, "n times the products of its entries");
        icl_linear_layers_weights(f.layers, f.tokens, NULL, whole);
        for (int t = 0; t < ICL_LINEAR_TERMS; t++) {
            const icl_linear_ablation ablation = {0, (icl_linear_term)t};
            bool is_zero = true, is_same = true;
            icl_linear_layers_weights(f.layers, f.tokens, &ablation, without);
            for (size_t i = 0; i < D; i++) {
                is_zero = is_zero && without[i] == 0;
                is_same = is_same && without[i] == whole[i];
            }
            tap_ok(tap, t == ICL_TERM_YX ? is_zero && !is_same : is_same, "the first layer without %s: %s",
                   icl_linear_term_name((icl_linear_term)t),
                   t == ICL_TERM_YX ? "predicts zero" : "predicts the same");
        }
    }
    close_fixture(&f);
}

/* A full model with the parameters of another form, and one with a layer more that changes nothing. */
static void test_embedding(tap_run *tap, const char *form) {
    fixture f = {0};
    icl_recipe *recipe = NULL;
    icl_trainer *full = NULL;
    float *values = NULL, predictions[BATCH] = {0};
    icl_error error = {0};
    double worst = 0;
    icl_status status = open_fixture(&f, form, "model.scale=mean", "model.heads=1", &error);

    if (status == ICL_OK)
        status = icl_recipe_clone(f.recipe, &recipe, &error);
    if (status == ICL_OK)
        status = icl_recipe_override(recipe, "model.parameterization=full", &error);
    if (status == ICL_OK)
        status = icl_trainer_create(f.backend, recipe, &full, &error);
    if (status == ICL_OK)
        status = icl_allocate(icl_model_size(icl_trainer_model(full)), sizeof *values, "parameters", &values,
                              &error);
    if (status == ICL_OK)
        status =
            icl_model_embed(icl_trainer_model(f.trainer), f.values, icl_trainer_model(full), values, &error);
    if (status == ICL_OK)
        status = icl_trainer_set_parameters(full, values, &error);
    if (status == ICL_OK)
        status = icl_trainer_predict(full, &f.batch, predictions, &error);
    if (tap_status(tap, status, &error, "an embedded model")) {
        for (size_t i = 0; i < BATCH; i++)
            worst = fmax(worst, fabs((double)predictions[i] - (double)f.predictions[i]) /
                                    (1 + fabs((double)f.predictions[i])));
        tap_ok(tap, worst < 2e-7, "%s as full predicts the same, to %.2g", form, worst);
        tap_ok(tap,
               icl_model_embed(icl_trainer_model(full), values, icl_trainer_model(f.trainer), f.values,
                               &error) == ICL_ERROR_INPUT,
               "the other way round is refused: %s", error.message);
    }
    icl_free(&values);
    icl_trainer_destroy(&full);
    icl_recipe_destroy(&recipe);
    close_fixture(&f);
}

int main(void) {
    static const char *const forms[] = {"model.parameterization=full", "model.parameterization=diag",
                                        "model.parameterization=gd++", "model.parameterization=sparse",
                                        "model.parameterization=sparse-b"};
    tap_run tap = {0};

    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        test_form(&tap, forms[i], "model.scale=mean", "model.heads=1");
        test_form(&tap, forms[i], "model.scale=raw", "model.heads=2");
    }
    test_terms(&tap);
    for (size_t i = 1; i < sizeof forms / sizeof *forms; i++)
        test_embedding(&tap, forms[i]);
    return tap_done(&tap);
}
