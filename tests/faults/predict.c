/*
 * Every allocation and every file call on the way from a table to its predictions fails once, and then once with all
 * that follow. Each time the outcome is an error of one line or, where there is a way around, the very bits of the
 * undisturbed outcome; and nothing is held afterwards.
 */
#include "iclab/predict.h"

#include <stdio.h>
#include <unistd.h>

#include "attempts.h"
#include "core/allocate.h"
#include "iclab/recipe.h"

#include "../core/scratch.h"

enum { ROWS = 12 };

typedef struct surroundings {
    char run[512], table[512];
    icl_recipe *recipe;
} surroundings;

/* ---- A run and a table ---- */

static icl_status make_run(surroundings *around, icl_error *error) {
    icl_status status;

    ICL_TRY(fault_make_recipe("task.d=4 task.n=5 model.layers=1 train.batch=1", &around->recipe, error));
    ICL_TRY(fault_make_run(around->run, around->recipe, error));
done:
    return status;
}

static void make_table(scratch_folder *scratch) {
    char text[1024] = "id;a;\"b; quoted\";s;y\n";

    /* A gap among the features, a row without a target, text, and an identifier: each has memory of its own. */
    for (int i = 0; i < ROWS; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%d;%d;%s;%s;%s\n", i, i * 5 % 12,
                 i == 2       ? "NA"
                 : i % 2 == 0 ? "0,5"
                              : "3",
                 i % 3 == 1 ? "u" : "v",
                 i == 4       ? ""
                 : i % 3 == 0 ? "1,5"
                              : "2");
    scratch_write(scratch, "table.csv", text, strlen(text));
}

/* ---- Predictions ---- */

/* All that iclab predict does but print. predictions [ROWS + 1][ICL_PREDICTORS]: held out, then those of the row
 * without a target. */
static icl_status predict(const surroundings *around, double *predictions, icl_error *error) {
    const icl_table_params table_params = {.source = {.path = around->table},
                                           .target = "y",
                                           .missing_targets = true,
                                           .missing = ICL_MISSING_KEPT,
                                           .one_hot = true};
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
                                       .prompts = 2,
                                       .impute = ICL_IMPUTE_MEDIAN};
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

/* ---- Attempts ---- */

typedef struct trial {
    const surroundings *around;
    double expected[(ROWS + 1) * ICL_PREDICTORS], seen[(ROWS + 1) * ICL_PREDICTORS];
} trial;

static icl_status attempt(void *context, icl_error *error) {
    trial *t = context;

    memset(t->seen, 0, sizeof t->seen);
    return predict(t->around, t->seen, error);
}

static bool as_expected(const void *context) {
    const trial *t = context;
    return memcmp(t->seen, t->expected, sizeof t->seen) == 0;
}

int main(void) {
    tap_run tap = {0};
    surroundings around = {.recipe = NULL};
    trial t = {.around = &around};
    const fault_work work = {.attempt = attempt, .as_expected = as_expected, .context = &t};
    scratch_folder scratch;
    icl_error error = {0};

    scratch_open(&scratch);
    make_table(&scratch);
    snprintf(around.table, sizeof around.table, "%s", scratch_path(&scratch, "table.csv"));
    snprintf(around.run, sizeof around.run, "%s", scratch_path(&scratch, "run"));
    if (tap_status(&tap, make_run(&around, &error), &error, "a run") &&
        tap_status(&tap, predict(&around, t.expected, &error), &error, "its predictions for a table")) {
        for (int lasting = 0; lasting < 2; lasting++) {
            fault_check(&tap, &work, FAULT_ALLOCATION, lasting);
            fault_check(&tap, &work, FAULT_FILE, lasting);
        }
        fault_dawdle(true);
        tap_status(&tap, attempt(&t, &error), &error, "reads that give a part");
        tap_ok(&tap, as_expected(&t), "change nothing");
        fault_dawdle(false);
    }
    icl_recipe_destroy(&around.recipe);
    scratch_close(&scratch);
    return tap_done(&tap);
}
