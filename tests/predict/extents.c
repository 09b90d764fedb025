/* Tests sizes that a caller states twice, or that must fit one another: the call that takes them compares them. There
 * is a row for each public function of that kind except the ops and the tape, whose operands tests/backend and
 * tests/tape have: sizes that disagree are refused before anything is read, and those that agree are accepted. */
#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/csv.h"
#include "iclab/file.h"
#include "iclab/predict.h"
#include "iclab/run.h"
#include "iclab/train.h"
#include "recipes.h"
#include "tap.h"

#include "../core/scratch.h"
#include "regressions.h"

enum { LAYERS = 2, BATCH = 3, DIMENSION = 4, WIDTH = DIMENSION + 1 };

/* The calls share these objects. */
typedef struct fixture {
    icl_backend *backend;
    icl_recipe *recipe;
    icl_trainer *trainer;
    icl_batch batch;
    icl_table table, fresh;
    icl_predict_outcome *outcome;
    icl_csv *csv;
    const char *folder;
} fixture;

/* Predicts new rows that are said to have this many columns. */
static icl_status predict_columns(fixture *f, size_t columns, size_t folds, icl_error *error) {
    icl_table fresh = f->fresh;
    const icl_predict_params params = {.backend = f->backend,
                                       .folder = f->folder,
                                       .recipe = f->recipe,
                                       .table = &f->table,
                                       .fresh = &fresh,
                                       .folds = folds,
                                       .impute = ICL_IMPUTE_MEAN,
                                       .repeats = 1};

    fresh.columns = columns;
    icl_predict_outcome_destroy(&f->outcome);
    return icl_predict(&params, &f->outcome, error);
}

/* Predicts a new row of the largest magnitude, or of one that is some floating-point numbers above it. */
static icl_status predict_magnitude(fixture *f, size_t steps, size_t unused, icl_error *error) {
    double *last = &f->fresh.values[f->fresh.rows * FEATURES - 1];
    const double kept = *last;

    (void)unused;
    *last = ICL_TABLE_MAX_VALUE;
    for (size_t i = 0; i < steps; i++)
        *last = nextafter(*last, HUGE_VAL);
    const icl_status status = predict_columns(f, FEATURES, 0, error);
    *last = kept;
    return status;
}

/* Writes the report of a table of these sizes. */
static icl_status write_report(fixture *f, size_t rows, size_t columns, icl_error *error) {
    icl_table table = f->table;

    table.rows = rows;
    table.columns = columns;
    return icl_predict_report_write(&(icl_predict_report){.folder = f->folder,
                                                          .run = f->folder,
                                                          .table = &table,
                                                          .outcome = f->outcome,
                                                          .device = icl_backend_capabilities(f->backend)},
                                    error);
}

static icl_status dense(fixture *f, size_t layer, size_t head, icl_error *error) {
    const icl_model *model = icl_trainer_model(f->trainer);
    float values[256], matrix[WIDTH * WIDTH];

    ICL_CHECK(icl_trainer_get_parameters(f->trainer, values, error));
    return icl_model_dense(model, values, layer, head, ICL_MODEL_P, matrix, error);
}

/* Predicts by the model at a depth, with the fused op or on a tape. */
static icl_status predict_at_depth(fixture *f, size_t depth, size_t is_fused, icl_error *error) {
    const icl_model *model = icl_trainer_model(f->trainer);
    const size_t size = icl_model_size(model), batch = BATCH;
    icl_model_tensors with = {.tokens = f->batch.inputs};
    icl_tape *tape = NULL;
    icl_status status;

    ICL_TRY(icl_tape_create(f->backend, &tape, error));
    ICL_TRY(icl_tensor_create(f->backend, 1, &size, &with.parameters, error));
    ICL_TRY(icl_tensor_create(f->backend, 1, &batch, &with.predictions, error));
    ICL_TRY(icl_fill(f->backend, with.parameters, 0, error));
    if (is_fused) {
        status = icl_model_predict_fused(model, f->backend, depth, &with, error);
    } else {
        icl_model_record(model, tape, with.parameters, (icl_tensor){0}, with.tokens, depth);
        status = icl_tape_status(tape, error);
    }
done:
    icl_tape_destroy(&tape);
    icl_tensor_release(&with.parameters);
    icl_tensor_release(&with.predictions);
    return status;
}

/* Predicts a batch that is said to have this many sequences. */
static icl_status ask_trainer(fixture *f, size_t size, size_t unused, icl_error *error) {
    icl_batch batch = f->batch;
    float outputs[BATCH + 1];

    (void)unused;
    batch.size = size;
    return icl_trainer_predict(f->trainer, &batch, outputs, error);
}

static icl_status add_row(fixture *f, size_t count, size_t unused, icl_error *error) {
    (void)unused;
    return icl_csv_row(f->csv, 1, (const double[]){1, 2, 3}, count, error);
}

typedef struct extent_case {
    icl_status (*call)(fixture *f, size_t first, size_t second, icl_error *error);
    size_t first, second;
    const char *expected; /* part of the message; NULL: accepted */
    const char *name;
} extent_case;

static const extent_case cases[] = {
    {predict_columns, FEATURES - 1, 0, "new: 2 columns: expected 3", "icl_predict, new rows of a column less"},
    {predict_columns, FEATURES + 1, 0, "new: 4 columns: expected 3", "icl_predict, new rows of a column more"},
    {predict_columns, FEATURES, 1, "1 fold: expected 2", "icl_predict, one fold"},
    {predict_magnitude, 1, 0, "new:8: column 3: 1e+100: expected", "icl_predict, a new row above the largest"},
    {predict_magnitude, 0, 0, NULL, "icl_predict, exactly the largest"},
    {predict_columns, FEATURES, 2, NULL, "icl_predict, new rows of as many columns"},
    {write_report, ROWS, COLUMNS, NULL, "icl_predict_report_write, the outcome's table"},
    {write_report, ROWS - 1, COLUMNS, "expected the table", "icl_predict_report_write, a table of a row less"},
    {write_report, ROWS, COLUMNS - 1, "expected the table", "icl_predict_report_write, a table of a column less"},
    {dense, LAYERS - 1, 0, NULL, "icl_model_dense, the last layer"},
    {dense, LAYERS, 0, "expected them below 2 and 1", "icl_model_dense, a layer that there is not"},
    {dense, 0, 1, "expected them below 2 and 1", "icl_model_dense, a head that there is not"},
    {predict_at_depth, LAYERS, 1, NULL, "icl_model_predict_fused, all layers"},
    {predict_at_depth, LAYERS + 1, 1, "expected 1 to 2", "icl_model_predict_fused, a layer more"},
    {predict_at_depth, 0, 1, "expected 1 to 2", "icl_model_predict_fused, no layer"},
    {predict_at_depth, LAYERS, 0, NULL, "icl_model_record, all layers"},
    {predict_at_depth, LAYERS + 1, 0, "expected 1 to 2", "icl_model_record, a layer more"},
    {predict_at_depth, 0, 0, "expected 1 to 2", "icl_model_record, no layer"},
    {ask_trainer, BATCH, 0, NULL, "icl_trainer_predict, a batch of its inputs' size"},
    {ask_trainer, BATCH + 1, 0, "a batch of 4 with inputs", "icl_trainer_predict, a sequence more"},
    {add_row, 2, 0, NULL, "icl_csv_row, as many numbers as the header has"},
    {add_row, 1, 0, "a row of 1 numbers", "icl_csv_row, a number less"},
    {add_row, 3, 0, "a row of 3 numbers", "icl_csv_row, a number more"},
};

static icl_status set_up(fixture *f, const char *csv, icl_error *error) {
    char *path = NULL;
    icl_status status;

    ICL_TRY(make_recipe("", "task.d=4 task.n=8 model.parameterization=diag model.layers=2", &f->recipe, error));
    ICL_TRY(icl_run_create(f->folder, f->recipe, error));
    ICL_TRY(icl_trainer_create(f->backend, f->recipe, &f->trainer, error));
    ICL_TRY(icl_path_join(f->folder, ICL_RUN_MODEL, &path, error));
    ICL_TRY(icl_trainer_export(f->trainer, path, error));
    ICL_TRY(icl_batch_create(icl_trainer_task(f->trainer), f->backend, ICL_FOR_EVALUATION, BATCH, &f->batch, error));
    ICL_TRY(icl_task_sample(icl_trainer_task(f->trainer), f->backend, ICL_FOR_EVALUATION, 1, 0, &f->batch, error));
    ICL_TRY(icl_csv_create(csv, "step,loss,error", &f->csv, error));
done:
    icl_free(&path);
    return status;
}

static void tear_down(fixture *f) {
    icl_csv_destroy(&f->csv);
    icl_batch_release(&f->batch);
    icl_trainer_destroy(&f->trainer);
    icl_recipe_destroy(&f->recipe);
    icl_predict_outcome_destroy(&f->outcome);
    icl_backend_close(&f->backend);
}

int main(void) {
    tap_run tap = {0};
    double values[ROWS * COLUMNS], new_values[2 * (FEATURES + 1)] = {101, 0.003, -2.5, 80, 0.02, 0};
    size_t lines[2] = {7, 8};
    char new_name[] = "new", folder[512], csv[512];
    scratch_folder scratch;
    icl_error error = {0};
    fixture f = {.backend = tap_open_device(&tap, "cpu"), .folder = folder};

    f.table = make_table(values);
    f.fresh = (icl_table){.name = new_name, .rows = 2, .columns = FEATURES, .values = new_values, .lines = lines};
    scratch_open(&scratch);
    snprintf(folder, sizeof folder, "%s", scratch_path(&scratch, "run"));
    snprintf(csv, sizeof csv, "%s", scratch_path(&scratch, "table.csv"));
    if (tap_status(&tap, set_up(&f, csv, &error), &error, "a run and a trainer"))
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            error = (icl_error){0};
            const icl_status status = cases[i].call(&f, cases[i].first, cases[i].second, &error);
            tap_ok(&tap,
                   cases[i].expected ? status == ICL_ERROR_INPUT && strstr(error.message, cases[i].expected) != NULL
                                     : status == ICL_OK,
                   "%s: %s", cases[i].name, status == ICL_OK ? "taken" : error.message);
        }
    tear_down(&f);
    static const char *const files[] = {"run/recipe.ini",    "run/model.safetensors", "run/report.html",
                                        "run/residuals.csv", "run/residuals.gp",      "run/run.json",
                                        "table.csv"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        (void)remove(scratch_path(&scratch, files[i]));
    scratch_close(&scratch);
    return tap_done(&tap);
}
