/* Tests model files of every shape: a saved model predicts the same to the last bit after loading, and a model for
 * another shape is refused, with both shapes in the message, at each boundary. Argument: device. */
#include <string.h>

#include "../core/scratch.h"
#include "../train/own_parts.h"
#include "core/safetensors.h"

enum { SEQUENCES = 5, MOST_OUTPUTS = 64 };

/* ---- A task and a model of any shape, with one parameter whatever the shape ---- */

static icl_status any_create(const icl_recipe *recipe, icl_task *task, icl_error *error) {
    (void)recipe;
    (void)error;
    task->shape = *(const icl_task_shape *)task->family->settings;
    return ICL_OK;
}

static icl_status any_sample(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, uint32_t seed,
                             uint64_t step, icl_batch *batch, icl_error *error) {
    const icl_random_params normal = {.key = {seed, 1000u + (uint32_t)purpose, step}, .distribution = ICL_NORMAL};
    (void)task;
    return icl_random_fill(backend, &normal, batch->inputs, error);
}

static icl_status gain_create(const icl_recipe *recipe, icl_model *model, icl_error *error) {
    (void)recipe;
    return icl_model_add_parameter(model, 1, (size_t[]){1}, error, "gain");
}

/* Predicts the first q inputs of each scored position, times the gain. */
static icl_variable gain_predict(const icl_model *model, icl_tape *tape, const icl_variable *parameters,
                                 icl_variable inputs, size_t depth) {
    const icl_task_shape *shape = &model->shape;
    const icl_variable scored = icl_tape_slice(tape, inputs, 1, shape->first_scored, shape->scored);
    (void)depth;
    return icl_tape_binary(tape, ICL_MULTIPLY, icl_tape_slice(tape, scored, 2, 0, shape->outputs), parameters[0]);
}

static const icl_model_family gain_model = {
    .name = "gain", .create = gain_create, .initialize = attention_initialize, .predict = gain_predict};

static const icl_task_shape several = {
    .positions = 7, .inputs = 4, .outputs = 3, .first_scored = 2, .scored = 4, .loss = ICL_LOSS_SQUARED_ERROR};

static icl_task_family any_task(const icl_task_shape *shape) {
    return (icl_task_family){.name = "any", .settings = shape, .create = any_create, .sample = any_sample};
}

/* ---- Saved and loaded ---- */

static icl_status make(icl_backend *backend, const icl_trainer_parts *parts, const char *seed, icl_recipe **recipe,
                       icl_trainer **trainer, icl_error *error) {
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_create_complete(recipe, error));
    ICL_TRY(icl_recipe_override(*recipe, seed, error));
    ICL_TRY(icl_recipe_override(*recipe, "train.batch=4", error));
    ICL_TRY(icl_trainer_create_with(backend, parts, *recipe, trainer, error));
    ICL_TRY(icl_trainer_round_parameters(*trainer, error));
done:
    return status;
}

static icl_status predict_some(icl_backend *backend, icl_trainer *trainer, float *outputs, icl_error *error) {
    const icl_task *task = icl_trainer_task(trainer);
    icl_batch batch = {{0}};
    icl_status status = ICL_OK;

    ICL_TRY(icl_batch_create(task, backend, ICL_FOR_EVALUATION, SEQUENCES, &batch, error));
    ICL_TRY(icl_task_sample(task, backend, ICL_FOR_EVALUATION, 3, 0, &batch, error));
    ICL_TRY(icl_trainer_predict(trainer, &batch, outputs, error));
done:
    icl_batch_release(&batch);
    return status;
}

static void check_same(tap_run *tap, icl_backend *backend, const icl_trainer_parts *parts, const char *path,
                       const char *what) {
    icl_recipe *recipe = NULL, *other = NULL;
    icl_trainer *trainer = NULL, *loaded = NULL, *started = NULL;
    float before[SEQUENCES * MOST_OUTPUTS] = {0}, after[SEQUENCES * MOST_OUTPUTS] = {0}, values[MAX_PARAMETERS];
    icl_error error = {0};
    icl_status status = ICL_OK;

    ICL_TRY(make(backend, parts, "train.seed=3", &recipe, &trainer, &error));
    ICL_TRY(predict_some(backend, trainer, before, &error));
    ICL_TRY(icl_trainer_export(trainer, path, &error));
    ICL_TRY(icl_model_file_load_with(backend, parts, path, recipe, &loaded, &error));
    ICL_TRY(predict_some(backend, loaded, after, &error));
    tap_ok(tap, memcmp(before, after, sizeof before) == 0 && before[0] != 0, "%s: loaded, it predicts the same", what);
    ICL_TRY(make(backend, parts, "train.seed=4", &other, &started, &error));
    ICL_TRY(icl_trainer_get_parameters(started, values, &error));
    ICL_TRY(icl_model_file_start(path, other, icl_trainer_model(started), values, &error));
    ICL_TRY(icl_trainer_set_parameters(started, values, &error));
    memset(after, 0, sizeof after);
    ICL_TRY(predict_some(backend, started, after, &error));
    tap_ok(tap, memcmp(before, after, sizeof before) == 0, "%s: a start from it predicts the same", what);
done:
    tap_status(tap, status, &error, what);
    icl_trainer_destroy(&trainer);
    icl_trainer_destroy(&loaded);
    icl_trainer_destroy(&started);
    icl_recipe_destroy(&recipe);
    icl_recipe_destroy(&other);
}

/* Tests the library's softmax attention on a program's own regression: the file names model and shape, but neither d
 * nor n. */
static void check_own_task(tap_run *tap, icl_backend *backend, const char *path) {
    const icl_task_shape shape = icl_regression_shape(2, 5);
    const icl_task_family task = any_task(&shape);
    const icl_trainer_parts parts = {.task = &task};
    icl_recipe *recipe = NULL, *found = NULL;
    icl_trainer *trainer = NULL, *loaded = NULL;
    float before[SEQUENCES], after[SEQUENCES], values[MAX_PARAMETERS];
    icl_error error = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_create_complete(&recipe, &error));
    for (const char *const *setting = (const char *const[]){"model.family=softmax", "model.layers=1", "train.batch=4",
                                                            "model.initialization=normal", NULL};
         *setting; setting++)
        ICL_TRY(icl_recipe_override(recipe, *setting, &error));
    ICL_TRY(icl_trainer_create_with(backend, &parts, recipe, &trainer, &error));
    ICL_TRY(icl_trainer_round_parameters(trainer, &error));
    ICL_TRY(predict_some(backend, trainer, before, &error));
    ICL_TRY(icl_trainer_export(trainer, path, &error));
    ICL_TRY(icl_model_file_recipe(path, &found, &error));
    tap_ok(tap, strcmp(icl_recipe_value(found, "model", "family"), "softmax") == 0, "the file's recipe has its model");
    ICL_TRY(icl_model_file_load_with(backend, &parts, path, found, &loaded, &error));
    ICL_TRY(predict_some(backend, loaded, after, &error));
    tap_ok(tap, memcmp(before, after, sizeof before) == 0 && before[0] != 0, "and loads it to the same predictions");
    ICL_TRY(icl_model_file_start(path, recipe, icl_trainer_model(trainer), values, &error));
done:
    tap_status(tap, status, &error, "the library's model on a task of one's own");
    icl_trainer_destroy(&trainer);
    icl_trainer_destroy(&loaded);
    icl_recipe_destroy(&recipe);
    icl_recipe_destroy(&found);
}

/* ---- Boundaries ---- */

/* Loads the file of a model for `from` for a task of `shape`, and starts from it: both succeed, or both are refused. */
static void check_boundary(tap_run *tap, icl_backend *backend, const char *path, icl_task_shape from,
                           icl_task_shape shape, bool fits, const char *what) {
    const icl_task_family task = any_task(&shape);
    const icl_trainer_parts parts = {.task = &task, .model = &gain_model};
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = NULL, *loaded = NULL;
    char theirs[ICL_TASK_SHAPE_TEXT], ours[ICL_TASK_SHAPE_TEXT];
    float values[1];
    icl_error error = {0}, other = {0};

    tap_status(tap, make(backend, &parts, "train.seed=1", &recipe, &trainer, &error), &error, what);
    const icl_status load = icl_model_file_load_with(backend, &parts, path, recipe, &loaded, &error);
    const icl_status start = icl_model_file_start(path, recipe, icl_trainer_model(trainer), values, &other);
    icl_task_shape_text(&from, theirs);
    icl_task_shape_text(&shape, ours);
    if (fits)
        tap_ok(tap, load == ICL_OK && start == ICL_OK, "%s: is taken", what);
    else
        tap_ok(tap,
               load == ICL_ERROR_INPUT && start == ICL_ERROR_INPUT && strstr(error.message, theirs) &&
                   strstr(error.message, ours) && strcmp(error.message, other.message) == 0,
               "%s: is refused: %s", what, error.message);
    icl_trainer_destroy(&trainer);
    icl_trainer_destroy(&loaded);
    icl_recipe_destroy(&recipe);
}

static void write_model(tap_run *tap, icl_backend *backend, const char *path, icl_task_shape shape) {
    const icl_task_family task = any_task(&shape);
    const icl_trainer_parts parts = {.task = &task, .model = &gain_model};
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = NULL;
    icl_error error = {0};
    icl_status status = ICL_OK;

    ICL_TRY(make(backend, &parts, "train.seed=1", &recipe, &trainer, &error));
    ICL_TRY(icl_trainer_export(trainer, path, &error));
done:
    tap_status(tap, status, &error, "a model's file");
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
}

static void check_boundaries(tap_run *tap, icl_backend *backend, const char *path) {
    const icl_task_shape symbols = {.positions = 7, .symbols = 4, .outputs = 3, .first_scored = 2, .scored = 4};
    icl_task_shape shape = several;

    write_model(tap, backend, path, several);
    shape.inputs = 3;
    check_boundary(tap, backend, path, several, shape, false, "an input less");
    shape.inputs = 5;
    check_boundary(tap, backend, path, several, shape, false, "an input more");
    check_boundary(tap, backend, path, several, symbols, false, "symbols");
    shape = several, shape.outputs = 2;
    check_boundary(tap, backend, path, several, shape, false, "an output less");
    shape.outputs = 4;
    check_boundary(tap, backend, path, several, shape, false, "an output more");
    shape = several, shape.loss = ICL_LOSS_CROSS_ENTROPY;
    check_boundary(tap, backend, path, several, shape, false, "another loss");
    shape = several, shape.positions = 12, shape.first_scored = 0, shape.scored = 12;
    check_boundary(tap, backend, path, several, shape, true, "a longer sequence");
    shape = several, shape.positions = 6, shape.first_scored = 5, shape.scored = 1;
    check_boundary(tap, backend, path, several, shape, true, "fewer scored positions");
    write_model(tap, backend, path, symbols);
    check_boundary(tap, backend, path, symbols, symbols, true, "the same symbols");
    shape = symbols, shape.symbols = 5;
    check_boundary(tap, backend, path, symbols, shape, false, "a symbol more");
}

/* ---- Files that others wrote ---- */

/* Starts a model of regression with d = 2 and n = 3 from a file with this metadata. */
static icl_status start_written(const char *path, const icl_metadata *metadata, size_t count, icl_error *error) {
    static const float matrix[4] = {1, 2, 3, 4};
    const icl_named_tensor tensor = {.name = "M", .rank = 2, .shape = {2, 2}, .data = matrix};
    icl_recipe *recipe = NULL;
    icl_model *model = NULL;
    float values[4];
    icl_status status = ICL_OK;

    ICL_TRY(icl_safetensors_write(path, &tensor, 1, metadata, count, error));
    ICL_TRY(icl_recipe_create_complete(&recipe, error));
    ICL_TRY(icl_recipe_override(recipe, "model.family=softmax", error));
    ICL_TRY(icl_recipe_override(recipe, "model.layers=1", error));
    ICL_TRY(icl_model_create(recipe, icl_regression_shape(2, 3), &model, error));
    ICL_TRY(icl_model_file_start(path, recipe, model, values, error));
    if (memcmp(values, matrix, sizeof matrix) != 0)
        status = icl_fail(error, ICL_ERROR_IO, "other values");
done:
    icl_model_destroy(&model);
    icl_recipe_destroy(&recipe);
    return status;
}

static void check_old(tap_run *tap, const char *path) {
    icl_metadata old[] = {{"model.family", "softmax"}, {"task.d", "2"}, {"task.n", "9"}, {"model.layers", "1"}};
    icl_error error = {0};

    tap_status(tap, start_written(path, old, 4, &error), &error, "a file without a shape is for regression");
    old[1].value = "3";
    tap_ok(tap,
           start_written(path, old, 4, &error) == ICL_ERROR_INPUT &&
               strstr(error.message, "10 positions of 4 coordinates") &&
               strstr(error.message, "4 positions of 3 coordinates"),
           "of another dimension it is refused: %s", error.message);
}

static void check_malformed(tap_run *tap, const char *path) {
    static const icl_metadata whole[] = {
        {"model.family", "softmax"},
        {"task.d", "2"},
        {"task.n", "3"},
        {"shape.positions", "4"},
        {"shape.inputs", "3"},
        {"shape.symbols", "0"},
        {"shape.outputs", "1"},
        {"shape.first_scored", "3"},
        {"shape.scored", "1"},
        {"shape.loss", "squared error"},
        {"model.layers", "1"},
    };
    enum { COUNT = sizeof whole / sizeof *whole, OUTPUTS = 6, SCORED = 8, LOSS = 9 };
    static const struct {
        size_t entry;
        icl_metadata planted;
        const char *expected;
    } cases[] = {
        {OUTPUTS, {"shape.outputs", "two"}, "shape.outputs = two in the metadata: expected a whole number"},
        {OUTPUTS, {"shape.outputs", "4294967296"}, "shape.outputs = 4294967296 in the metadata"},
        {OUTPUTS, {"shape.output", "1"}, "shape.outputs = (none) in the metadata"},
        {SCORED, {"shape.scored", "2"}, "scored positions within the sequence"},
        {LOSS, {"shape.loss", "hinge"}, "shape.loss = hinge in the metadata: expected a loss, such as squared error"},
    };
    icl_error error = {0};

    tap_status(tap, start_written(path, whole, COUNT, &error), &error, "a whole shape");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        icl_metadata metadata[COUNT];
        memcpy(metadata, whole, sizeof whole);
        metadata[cases[i].entry] = cases[i].planted;
        tap_ok(tap,
               start_written(path, metadata, COUNT, &error) == ICL_ERROR_INPUT &&
                   strstr(error.message, cases[i].expected) && !strchr(error.message, '\n'),
               "refused: %s", error.message);
    }
}

int main(int argc, char **argv) {
    const icl_task_family task = any_task(&several);
    const icl_trainer_parts parts = {.task = &task, .model = &gain_model};
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, argc > 1 ? argv[1] : "cpu");
    scratch_folder scratch;
    char path[512];

    if (!backend)
        return tap_done(&tap);
    scratch_open(&scratch);
    snprintf(path, sizeof path, "%s", scratch_path(&scratch, "model.safetensors"));
    check_same(&tap, backend, &own_parts, path, "five scored positions");
    check_own_task(&tap, backend, path);
    check_same(&tap, backend, &parts, path, "three outputs at four positions");
    check_boundaries(&tap, backend, path);
    check_old(&tap, path);
    check_malformed(&tap, path);
    scratch_close(&scratch);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
