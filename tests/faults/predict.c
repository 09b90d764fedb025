/*
 * Every allocation and every file call on the way from a table to its predictions fails once, and then once with all that follow. Each time
 * the outcome is an error of one line or, where there is a way around, the very bits of the undisturbed outcome; and nothing is
 * held afterwards.
 */
#include "lab/predict/predict.h"

#include <stdio.h>
#include <unistd.h>

#include "core/allocate.h"
#include "core/file.h"
#include "iclab/lab.h"
#include "iclab/train.h"
#include "lab/run.h"
#include "plant.h"
#include "tap.h"

#include "../core/scratch.h"

enum { ROWS = 12, MAX_COMPLAINT = 10 };

typedef struct surroundings {
    char run[512], table[512];
    icl_recipe *recipe;
} surroundings;

/* ---- A run and a table ---- */

static icl_status make_run(surroundings *around, icl_error *error) {
    static const char *const settings[] = {"task.d=3", "task.n=5", "model.layers=1", "train.batch=1"};
    icl_backend *backend = NULL;
    icl_trainer *trainer = NULL;
    char *path = NULL;
    icl_status status;

    ICL_TRY(icl_lab_recipe_create(&around->recipe, error));
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        ICL_TRY(icl_recipe_override(around->recipe, settings[i], error));
    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "cpu:threads=1"}, &backend, error));
    ICL_TRY(icl_run_create(around->run, around->recipe, error));
    ICL_TRY(icl_trainer_create(backend, around->recipe, &trainer, error));
    ICL_TRY(icl_path_join(around->run, ICL_RUN_MODEL, &path, error));
    ICL_TRY(icl_trainer_export(trainer, path, error));
done:
    icl_trainer_destroy(&trainer);
    icl_backend_close(&backend);
    icl_free(&path);
    return status;
}

static void make_table(scratch_folder *scratch) {
    char text[1024] = "a,\"b, quoted\",y\n";

    for (int i = 0; i < ROWS; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%d,%d,%s\n", i, i * i % 7,
                 i == 4       ? ""
                 : i % 3 == 0 ? "1.5"
                              : "2");
    scratch_write(scratch, "table.csv", text, strlen(text));
}

/* ---- Attempts ---- */

/* All that iclab predict does but print. predictions [ROWS + 1][ICL_PREDICTORS]: held out, then those of the row without a target. */
static icl_status predict(const surroundings *around, double *predictions, icl_error *error) {
    const icl_table_params table_params = {
        .source = {.path = around->table}, .target = "y", .missing_targets = true};
    icl_backend *backend = NULL;
    icl_table *table = NULL;
    icl_predict_outcome *outcome = NULL;
    icl_status status;

    ICL_TRY(icl_table_read(&table_params, &table, error));
    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "cpu:threads=1"}, &backend, error));
    const icl_predict_params params = {.backend = backend,
                                       .folder = around->run,
                                       .recipe = around->recipe,
                                       .table = table,
                                       .folds = 2,
                                       .repeats = 1,
                                       .context = 4,
                                       .prompts = 2};
    ICL_TRY(icl_predict(&params, &outcome, error));
    memcpy(predictions, outcome->heldout, outcome->labelled * ICL_PREDICTORS * sizeof *predictions);
    memcpy(predictions + outcome->labelled * ICL_PREDICTORS, outcome->predictions,
           outcome->predicted * ICL_PREDICTORS * sizeof *predictions);
done:
    icl_predict_outcome_destroy(&outcome);
    icl_table_destroy(&table);
    icl_backend_close(&backend);
    return status;
}

/* What is wrong after a fault, or NULL. */
static const char *judge(icl_status status, const icl_error *error, const fault_holdings *before,
                         const double *seen, const double *expected) {
    const fault_holdings now = fault_held();

    if (now.memory != before->memory)
        return "memory is leaked";
    if (now.files != before->files)
        return "a file is left open";
    if (status == ICL_OK)
        return memcmp(seen, expected, ROWS * ICL_PREDICTORS * sizeof *seen) == 0 ? NULL
                                                                                 : "the outcome differs";
    return error->status == status && error->message[0] != '\0' && !strchr(error->message, '\n')
               ? NULL
               : "not one line";
}

static void check_faults(tap_run *tap, const surroundings *around, fault_kind kind, bool lasting,
                         const double *expected) {
    unsigned reported = 0, survived = 0, bad = 0;

    for (uint64_t nth = 1;; nth++) {
        double seen[(ROWS + 1) * ICL_PREDICTORS] = {0};
        const fault_holdings before = fault_held();
        icl_error error = {0};
        fault_arm(kind, nth, lasting);
        const icl_status status = predict(around, seen, &error);
        const char *struck = fault_struck();
        fault_disarm();
        if (!struck)
            break;
        const char *complaint = judge(status, &error, &before, seen, expected);
        if (complaint && bad++ < MAX_COMPLAINT)
            tap_note("fault %llu, %s: %s: %s", (unsigned long long)nth, struck, complaint, error.message);
        reported += status != ICL_OK;
        survived += status == ICL_OK;
    }
    tap_ok(tap, bad == 0 && reported > 0, "%s%s: %u faults reported, %u survived",
           kind == FAULT_ALLOCATION ? "memory" : "files", lasting ? ", and all that follow" : "", reported,
           survived);
}

int main(void) {
    tap_run tap = {0};
    surroundings around = {.recipe = NULL};
    double expected[(ROWS + 1) * ICL_PREDICTORS] = {0};
    scratch_folder scratch;
    icl_error error = {0};

    scratch_open(&scratch);
    make_table(&scratch);
    snprintf(around.table, sizeof around.table, "%s", scratch_path(&scratch, "table.csv"));
    snprintf(around.run, sizeof around.run, "%s", scratch_path(&scratch, "run"));
    if (tap_status(&tap, make_run(&around, &error), &error, "a run") &&
        tap_status(&tap, predict(&around, expected, &error), &error, "its predictions for a table")) {
        for (int lasting = 0; lasting < 2; lasting++) {
            check_faults(&tap, &around, FAULT_ALLOCATION, lasting, expected);
            check_faults(&tap, &around, FAULT_FILE, lasting, expected);
        }
        fault_dawdle(true);
        double seen[(ROWS + 1) * ICL_PREDICTORS] = {0};
        tap_status(&tap, predict(&around, seen, &error), &error, "reads that give a part");
        tap_ok(&tap, memcmp(seen, expected, sizeof seen) == 0, "change nothing");
        fault_dawdle(false);
    }
    icl_recipe_destroy(&around.recipe);
    (void)remove(scratch_path(&scratch, "run/recipe.ini"));
    (void)remove(scratch_path(&scratch, "run/model.safetensors"));
    scratch_close(&scratch);
    return tap_done(&tap);
}
