/* Tests models that start from files: the same layout is taken bit by bit, every parameterization becomes the full one
 * that predicts the same, and a file that does not fit is refused with what it is and what was expected. Argument:
 * device. */
#include "iclab/model_file.h"

#include <math.h>

#include "core/allocate.h"
#include "core/safetensors.h"
#include "iclab/recipe.h"
#include "iclab/status.h"
#include "iclab/train.h"
#include "tap.h"

#include "../core/scratch.h"

enum { D = 3, MOST = 512 };

static icl_status make_recipe(const char *const *settings, icl_recipe **recipe, icl_error *error) {
    static const char *const always[] = {"task.d=3",           "task.n=5",      "model.initialization=normal",
                                         "model.init_std=0.3", "train.batch=1", NULL};
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_create_complete(recipe, error));
    for (const char *const *setting = always; *setting; setting++)
        ICL_TRY(icl_recipe_override(*recipe, *setting, error));
    for (; *settings; settings++)
        ICL_TRY(icl_recipe_override(*recipe, *settings, error));
done:
    return status;
}

/* Writes the initial model of a recipe. */
static icl_status write_model(icl_backend *backend, const char *const *settings, const char *path,
                              icl_trainer **trainer, icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(make_recipe(settings, &recipe, error));
    ICL_TRY(icl_trainer_create(backend, recipe, trainer, error));
    ICL_TRY(icl_trainer_export(*trainer, path, error));
done:
    icl_recipe_destroy(&recipe);
    return status;
}

/* Starts a recipe's model from the file; its own start would have another seed than the file's model. */
static icl_status start_model(const char *const *settings, const char *path, icl_model **model, float values[MOST],
                              icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(make_recipe(settings, &recipe, error));
    ICL_TRY(icl_model_create(recipe, icl_regression_shape(D, 5), model, error));
    icl_model_initialize(*model, 7, values);
    ICL_TRY(icl_model_file_start(path, recipe, *model, values, error));
done:
    icl_recipe_destroy(&recipe);
    return status;
}

/* Says whether P and Q of these layers are the same matrices. */
static bool same_layer(const icl_model *a, const float *a_values, size_t a_layer, const icl_model *b,
                       const float *b_values, size_t b_layer) {
    float one[(D + 1) * (D + 1)], other[(D + 1) * (D + 1)];

    for (size_t head = 0; head < icl_model_heads(a); head++)
        for (int part = ICL_MODEL_P; part <= ICL_MODEL_Q; part++)
            if (icl_model_dense(a, a_values, a_layer, head, (icl_model_part)part, one, NULL) != ICL_OK ||
                icl_model_dense(b, b_values, b_layer, head, (icl_model_part)part, other, NULL) != ICL_OK ||
                memcmp(one, other, sizeof one) != 0)
                return false;
    return true;
}

static void check_conversion(tap_run *tap, icl_backend *backend, const char *path, const char *parameterization,
                             const char *heads) {
    const char *const from[] = {parameterization, heads, "model.layers=2",
                                strstr(parameterization, "lowrank") ? "model.rank=2" : NULL, NULL};
    const char *const to[] = {"model.parameterization=full", heads, "model.layers=2", NULL};
    const char *const deeper[] = {"model.parameterization=full", heads, "model.layers=3", NULL};
    float written[MOST] = {0}, started[MOST] = {0};
    icl_trainer *trainer = NULL;
    icl_model *model = NULL;
    icl_error error = {0};

    if (tap_status(tap, write_model(backend, from, path, &trainer, &error), &error, parameterization) &&
        tap_status(tap, icl_trainer_get_parameters(trainer, written, &error), &error, "its parameters")) {
        const icl_model *own = icl_trainer_model(trainer);
        if (tap_status(tap, start_model(to, path, &model, started, &error), &error, "full from it"))
            tap_ok(tap,
                   same_layer(own, written, 0, model, started, 0) && same_layer(own, written, 1, model, started, 1),
                   "%s, %s: the matrices are the same, bit by bit", parameterization, heads);
        icl_model_destroy(&model);
        if (tap_status(tap, start_model(deeper, path, &model, started, &error), &error, "a layer more")) {
            tap_ok(tap,
                   same_layer(own, written, 0, model, started, 0) && same_layer(own, written, 1, model, started, 2),
                   "%s, %s: the first stays first and the last last", parameterization, heads);
            memcpy(written, started, sizeof written);
            icl_model_initialize_inserted(model, 1, 1, written); /* by train.seed */
            tap_ok(tap, memcmp(written, started, sizeof written) == 0,
                   "the one between starts as one that is inserted");
        }
        icl_model_destroy(&model);
    }
    icl_trainer_destroy(&trainer);
}

static void check_same(tap_run *tap, icl_backend *backend, const char *path, const char *const *settings) {
    float written[MOST] = {0}, started[MOST] = {0};
    icl_trainer *trainer = NULL;
    icl_model *model = NULL;
    icl_error error = {0};

    if (tap_status(tap, write_model(backend, settings, path, &trainer, &error), &error, settings[0]) &&
        tap_status(tap, icl_trainer_get_parameters(trainer, written, &error), &error, "its parameters") &&
        tap_status(tap, start_model(settings, path, &model, started, &error), &error, "the same from it"))
        tap_ok(tap, memcmp(written, started, icl_model_size(model) * sizeof *written) == 0,
               "%s: the same layout has the same bits", settings[0]);
    icl_model_destroy(&model);
    icl_trainer_destroy(&trainer);
}

static void check_refusal(tap_run *tap, icl_backend *backend, const char *path, const char *const *from,
                          const char *const *to, const char *const expected[2]) {
    float started[MOST] = {0};
    icl_trainer *trainer = NULL;
    icl_model *model = NULL;
    icl_error error = {0};

    tap_status(tap, write_model(backend, from, path, &trainer, &error), &error, "written");
    const icl_status status = start_model(to, path, &model, started, &error);
    tap_ok(tap,
           status == ICL_ERROR_INPUT && strstr(error.message, expected[0]) && strstr(error.message, expected[1]) &&
               !strchr(error.message, '\n'),
           "refused: %s", error.message);
    icl_model_destroy(&model);
    icl_trainer_destroy(&trainer);
}

static void check_refusals(tap_run *tap, icl_backend *backend, const char *path) {
#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})
    check_refusal(tap, backend, path, LIST("model.scale=raw"), LIST("model.scale=mean"),
                  (const char *const[]){"model.scale = raw", "expected mean"});
    check_refusal(tap, backend, path, LIST("task.d=2"), LIST("task.d=3"),
                  (const char *const[]){"is a model for 6 positions of 3 coordinates",
                                        "expected one for 6 positions of 4 coordinates"});
    check_refusal(tap, backend, path, LIST("model.heads=2"), LIST("model.heads=1"),
                  (const char *const[]){"model.heads = 2", "expected 1"});
    check_refusal(tap, backend, path, LIST("model.parameterization=full"), LIST("model.parameterization=diag"),
                  (const char *const[]){"cannot become the other", "full one"});
    check_refusal(tap, backend, path, LIST("model.layers=2"),
                  LIST("model.parameterization=full", "model.layers=3", "model.tied=true"),
                  (const char *const[]){"cannot become the other", "not tied"});
    check_refusal(tap, backend, path, LIST("model.layers=3"), LIST("model.layers=2"),
                  (const char *const[]){"3 layers", "no fewer layers"});
    check_refusal(tap, backend, path, LIST("model.family=softmax", "model.layers=1"), LIST("model.layers=1"),
                  (const char *const[]){"model.family = softmax", "expected linear"});
#undef LIST
}

/* Tests a file that another program wrote, without metadata: its tensors must be the recipe's own. */
static void check_foreign(tap_run *tap, scratch_folder *scratch) {
    static const char *const full[] = {"model.layers=1", "model.parameterization=full", NULL};
    float matrix[(D + 1) * (D + 1)] = {1, 2, 3}, started[MOST] = {0};
    double wide[(D + 1) * (D + 1)] = {1, 2, 3};
    icl_named_tensor tensors[] = {{.name = "layer.0.head.0.P", .rank = 2, .shape = {D + 1, D + 1}, .data = matrix},
                                  {.name = "layer.0.head.0.Q", .rank = 2, .shape = {D + 1, D + 1}, .data = matrix}};
    const char *path = scratch_path(scratch, "foreign.safetensors");
    icl_model *model = NULL;
    icl_error error = {0};

    tap_status(tap, icl_safetensors_write(path, tensors, 2, NULL, 0, &error), &error, "a foreign file");
    if (tap_status(tap, start_model(full, path, &model, started, &error), &error, "is taken"))
        tap_ok(tap, memcmp(started, matrix, sizeof matrix) == 0, "as it is");
    icl_model_destroy(&model);
    tensors[1].type = ICL_ELEMENT_F64;
    tensors[1].data = wide;
    tap_status(tap, icl_safetensors_write(path, tensors, 2, NULL, 0, &error), &error, "a matrix of doubles");
    if (tap_status(tap, start_model(full, path, &model, started, &error), &error, "is taken"))
        tap_ok(tap, memcmp(started + (D + 1) * (D + 1), matrix, sizeof matrix) == 0, "as floats");
    icl_model_destroy(&model);
    wide[5] = 1e300;
    tap_status(tap, icl_safetensors_write(path, tensors, 2, NULL, 0, &error), &error, "one that no float holds");
    tap_ok(tap,
           start_model(full, path, &model, started, &error) == ICL_ERROR_INPUT &&
               strstr(error.message, "a number beyond floats: expected finite numbers"),
           "refused: %s", error.message);
    icl_model_destroy(&model);
    tensors[1].type = ICL_ELEMENT_F32;
    tensors[1].data = matrix;
    tensors[1].shape[0] = 2, tensors[1].shape[1] = 8;
    tap_status(tap, icl_safetensors_write(path, tensors, 2, NULL, 0, &error), &error, "another shape");
    tap_ok(tap,
           start_model(full, path, &model, started, &error) == ICL_ERROR_INPUT &&
               strstr(error.message, "layer.0.head.0.Q is of shape [2, 8]: expected [4, 4]"),
           "refused: %s", error.message);
    icl_model_destroy(&model);
    tensors[1].name = "weight";
    tap_status(tap, icl_safetensors_write(path, tensors, 2, NULL, 0, &error), &error, "another name");
    tap_ok(tap,
           start_model(full, path, &model, started, &error) == ICL_ERROR_INPUT &&
               strstr(error.message, "no tensor layer.0.head.0.Q: expected one of shape [4, 4]"),
           "refused: %s", error.message);
    icl_model_destroy(&model);
    scratch_write(scratch, "foreign.safetensors", "not a model", 11);
    tap_ok(tap, start_model(full, path, &model, started, &error) == ICL_ERROR_INPUT, "refused: %s", error.message);
    icl_model_destroy(&model);
}

/* Tests metadata that are allowed in a recipe, but that no model can have. */
static void check_described(tap_run *tap, scratch_folder *scratch) {
    static const char *const softmax[] = {"model.family=softmax", "model.layers=1", NULL};
    static const icl_metadata metadata[] = {
        {"model.family", "softmax"}, {"model.layers", "2"}, {"task.d", "3"}, {"task.n", "5"}};
    float number = 1, started[MOST] = {0};
    const icl_named_tensor tensor = {.name = "layer.0.p", .rank = 1, .shape = {1}, .data = &number};
    const char *path = scratch_path(scratch, "described.safetensors");
    icl_model *model = NULL;
    icl_error error = {0};

    tap_status(tap, icl_safetensors_write(path, &tensor, 1, metadata, sizeof metadata / sizeof *metadata, &error),
               &error, "a file of softmax attention of two layers");
    tap_ok(tap,
           start_model(softmax, path, &model, started, &error) == ICL_ERROR_INPUT &&
               strstr(error.message, "its metadata: ") && strstr(error.message, "softmax has one layer"),
           "refused: %s", error.message);
    icl_model_destroy(&model);
}

/* ---- Loading ---- */

/* Predicts four sequences of the trainer's task. */
static icl_status predict_some(icl_backend *backend, icl_trainer *trainer, float predictions[4], icl_error *error) {
    icl_batch batch = {{0}};
    icl_status status = ICL_OK;

    ICL_TRY(icl_batch_create(icl_trainer_task(trainer), backend, ICL_FOR_EVALUATION, 4, &batch, error));
    ICL_TRY(icl_task_sample(icl_trainer_task(trainer), backend, ICL_FOR_EVALUATION, 3, 0, &batch, error));
    ICL_TRY(icl_trainer_predict(trainer, &batch, predictions, error));
done:
    icl_batch_release(&batch);
    return status;
}

static void check_load(tap_run *tap, icl_backend *backend, const char *path, const char *const *settings,
                       const char *other) {
    icl_trainer *trainer = NULL, *loaded = NULL;
    icl_recipe *recipe = NULL;
    float before[4], after[4];
    icl_error error = {0};
    icl_status status = ICL_OK;

    ICL_TRY(write_model(backend, settings, path, &trainer, &error));
    ICL_TRY(icl_trainer_round_parameters(trainer, &error));
    ICL_TRY(predict_some(backend, trainer, before, &error));
    ICL_TRY(icl_model_file_recipe(path, &recipe, &error));
    ICL_TRY(icl_model_file_load(backend, path, recipe, &loaded, &error));
    ICL_TRY(predict_some(backend, loaded, after, &error));
    tap_ok(tap, memcmp(before, after, sizeof before) == 0 && before[0] != 0, "%s: the file alone predicts the same",
           settings[0]);
    tap_ok(tap,
           icl_recipe_override(recipe, other, &error) == ICL_OK &&
               icl_model_file_load(backend, path, recipe, &(icl_trainer *){NULL}, &error) == ICL_ERROR_INPUT,
           "%s is refused: %s", other, error.message);
done:
    tap_status(tap, status, &error, "load a file");
    icl_recipe_destroy(&recipe);
    icl_trainer_destroy(&trainer);
    icl_trainer_destroy(&loaded);
}

int main(int argc, char **argv) {
    static const char *const parameterizations[] = {"model.parameterization=diag", "model.parameterization=gd++",
                                                    "model.parameterization=sparse", "model.parameterization=sparse-b",
                                                    "model.parameterization=diag+lowrank"};
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, argc > 1 ? argv[1] : "cpu");
    scratch_folder scratch;
    char path[512];

    if (!backend)
        return tap_done(&tap);
    scratch_open(&scratch);
    snprintf(path, sizeof path, "%s", scratch_path(&scratch, "model.safetensors"));
    for (size_t i = 0; i < sizeof parameterizations / sizeof *parameterizations; i++)
        check_conversion(&tap, backend, path, parameterizations[i], i % 2 ? "model.heads=1" : "model.heads=2");
    check_same(&tap, backend, path, (const char *const[]){"model.parameterization=full", "model.layers=2", NULL});
    check_same(&tap, backend, path, (const char *const[]){"model.tied=true", "model.layers=3", NULL});
    check_same(&tap, backend, path, (const char *const[]){"model.family=softmax", "model.layers=1", NULL});
    check_load(&tap, backend, path, (const char *const[]){"model.parameterization=gd++", "model.layers=3", NULL},
               "model.layers=2");
    check_load(&tap, backend, path, (const char *const[]){"model.family=softmax", "model.layers=1", NULL}, "task.d=4");
    check_refusals(&tap, backend, path);
    check_foreign(&tap, &scratch);
    check_described(&tap, &scratch);
    scratch_close(&scratch);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
