/* Tests rows that are held out: nothing is learned from their targets or features, and missing features are filled in
 * without them. */
#include <math.h>
#include <string.h>

#include "fixture.h"
#include "predict/predict.h"

/* ---- Draws ---- */

/* The random orders of rows: the first word of each, which the linker's plant sees. */
static struct {
    uint32_t stream;
    uint64_t step;
} draws[64];
static size_t draw_count;

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
uint32_t __real_icl_random_word(icl_random_key key, uint64_t index);
uint32_t __wrap_icl_random_word(icl_random_key key, uint64_t index);

uint32_t __wrap_icl_random_word(icl_random_key key, uint64_t index) {
    const bool is_order = key.stream == ICL_SPLIT_STREAM || key.stream == ICL_PROMPT_STREAM;

    if (is_order && index == 0 && draw_count < sizeof draws / sizeof *draws) {
        draws[draw_count].stream = key.stream;
        draws[draw_count++].step = key.step;
    }
    return __real_icl_random_word(key, index);
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

/* No two draws of a run have the same random numbers: neither folds, nor prompts, nor repetitions of both,
 * nor the rows without targets. */
static void check_draws(tap_run *tap, const icl_predict_params *good) {
    enum { FOLDS = 4, REPEATS = 3, PROMPTS = 2 };
    icl_table fresh = *good->table;
    icl_predict_params params = *good;
    icl_predict_outcome *outcome;
    size_t same = 0;

    fresh.columns = FEATURES;
    params.folds = FOLDS;
    params.repeats = REPEATS;
    params.context = 5;
    params.prompts = PROMPTS;
    params.fresh = &fresh;
    draw_count = 0;
    outcome = predict_or_exit(&params);
    for (size_t i = 0; i < draw_count; i++)
        for (size_t k = 0; k < i; k++)
            same += draws[i].stream == draws[k].stream && draws[i].step == draws[k].step;
    tap_ok(tap, draw_count == REPEATS * (1 + FOLDS * PROMPTS) + PROMPTS && same == 0,
           "%zu draws: an order for each repetition, rows for each prompt; %zu share their numbers", draw_count, same);
    icl_predict_outcome_destroy(&outcome);
}

/* ---- Predictions ---- */

/* A row's own target changes none of its held-out predictions, and they are affine in its own features: nothing was
 * learned from it. */
static void check_leaks(tap_run *tap, const icl_predict_params *params, double *values) {
    enum { ROW = 7 };
    double *row = values + ROW * COLUMNS, kept[COLUMNS], seen[4][ICL_PREDICTORS];
    double bent[ICL_PREDICTORS];
    bool is_equal = true;

    memcpy(kept, row, sizeof kept);
    for (size_t turn = 0; turn < 4; turn++) {
        icl_predict_outcome *outcome;
        for (size_t k = 0; k < FEATURES; k++)
            row[k] = kept[k] + (turn < 3 ? (double)turn : 0) * (5 - (double)k);
        row[FEATURES] = turn < 3 ? kept[FEATURES] : -1000;
        outcome = predict_or_exit(params);
        memcpy(seen[turn], outcome->heldout + ROW * ICL_PREDICTORS, sizeof seen[turn]);
        icl_predict_outcome_destroy(&outcome);
    }
    memcpy(row, kept, sizeof kept);
    for (size_t i = 0; i < ICL_TABLE_PREDICTORS; i++) {
        is_equal = is_equal && seen[3][i] == seen[0][i];
        bent[i] = fabs(seen[2][i] - 2 * seen[1][i] + seen[0][i]) / (fabs(seen[2][i]) + fabs(seen[0][i]));
        tap_ok(tap, bent[i] < (i == 0 ? 1e-5 : 1e-9), "%s: affine in the features of the row held out: %g",
               icl_predictor_name(i), bent[i]);
    }
    tap_ok(tap, is_equal, "no prediction knows the target of the row held out");
}

/* A far-out target changes the predictions for all rows except those of its own fold: with four folds these are six
 * rows or five. Their standardization, penalty and weights were learned from the other folds only. */
static void check_folds(tap_run *tap, const icl_predict_params *good, double *values) {
    enum { FOLDS = 4, ROW = 7 };
    double *target = values + ROW * COLUMNS + FEATURES;
    const double kept = *target;
    icl_predict_params params = *good;
    icl_predict_outcome *plain, *bent;

    params.folds = FOLDS;
    params.repeats = 1;
    plain = predict_or_exit(&params);
    *target = 1e4;
    bent = predict_or_exit(&params);
    *target = kept;
    for (size_t p = 0; p < ICL_TABLE_PREDICTORS; p++) {
        size_t same = 0;
        for (size_t i = 0; i < ROWS; i++)
            same += bent->heldout[i * ICL_PREDICTORS + p] == plain->heldout[i * ICL_PREDICTORS + p];
        tap_ok(tap,
               (same == ROWS / FOLDS || same == ROWS / FOLDS + 1) &&
                   bent->heldout[ROW * ICL_PREDICTORS + p] == plain->heldout[ROW * ICL_PREDICTORS + p],
               "%s: a target far out changes what is predicted for all rows but the %zu of its fold",
               icl_predictor_name(p), same);
    }
    icl_predict_outcome_destroy(&plain);
    icl_predict_outcome_destroy(&bent);
}

/* The first of two repetitions has the predictions of a run of one, so the second one's prediction follows from the
 * mean of both. A row's squared error is the mean of theirs, not that of their mean prediction. */
static void check_repeats(tap_run *tap, const icl_predict_params *good) {
    icl_predict_params params = *good;
    icl_predict_outcome *one, *both;

    params.folds = 4;
    params.repeats = 1;
    one = predict_or_exit(&params);
    params.repeats = 2;
    both = predict_or_exit(&params);
    for (size_t p = 0; p < ICL_TABLE_PREDICTORS; p++) {
        bool is_equal = true, differs = false;
        for (size_t i = 0; i < ROWS; i++) {
            const size_t at = i * ICL_PREDICTORS + p;
            const double target = params.table->values[i * COLUMNS + FEATURES], first = one->heldout[at] - target;
            const double second = 2 * both->heldout[at] - one->heldout[at] - target;
            const double apart = both->heldout[at] - one->heldout[at];
            is_equal = is_equal && near(one->squares[at], first * first, 1e-9) &&
                       near(both->squares[at], (first * first + second * second) / 2, 1e-9);
            differs = differs || apart * apart > 1e-3 * both->squares[at];
        }
        tap_ok(tap, is_equal && differs, "%s: the mean of two squared errors", icl_predictor_name(p));
    }
    icl_predict_outcome_destroy(&one);
    icl_predict_outcome_destroy(&both);
}

/* Returns the mean of a column without two rows, which may be the same. */
static double mean_without(const double *values, size_t column, size_t row, size_t other) {
    double sum = 0;

    for (size_t i = 0; i < ROWS; i++)
        sum += i == row || i == other ? 0 : values[i * COLUMNS + column];
    return sum / (double)(row == other ? ROWS - 1 : ROWS - 2);
}

/* One row's feature is missing. When each row is held out in turn, the feature is filled in from the rows that are
 * neither this one nor the one held out: the predictions are those of a table filled in by hand. */
static void check_imputation(tap_run *tap, const icl_predict_params *good, double *values) {
    enum { ROW = 7, OTHER = 3, COLUMN = 1 };
    double *hole = values + ROW * COLUMNS + COLUMN;
    const double kept = *hole;
    icl_predict_params params = *good;
    icl_predict_outcome *seen, *expected;
    icl_error error = {0};

    *hole = (double)NAN;
    tap_ok(tap, icl_predict(&params, &seen, &error) == ICL_ERROR_INPUT && strstr(error.message, "--impute"), "%s",
           error.message);
    params.impute = ICL_IMPUTE_MEAN;
    seen = predict_or_exit(&params);
    tap_ok(tap, near(seen->fills[COLUMN], mean_without(values, COLUMN, ROW, ROW), 1e-12), "the last fill: %g",
           seen->fills[COLUMN]);
    for (size_t turn = 0; turn < 2; turn++) {
        const size_t held_out = turn == 0 ? ROW : OTHER;
        bool is_equal = true;
        *hole = mean_without(values, COLUMN, ROW, held_out);
        expected = predict_or_exit(good);
        for (size_t i = 0; i < ICL_TABLE_PREDICTORS; i++)
            is_equal = is_equal && near(seen->heldout[held_out * ICL_PREDICTORS + i],
                                        expected->heldout[held_out * ICL_PREDICTORS + i], i == 0 ? 1e-5 : 1e-9);
        tap_ok(tap, is_equal, "%s is predicted as from the table filled in without it",
               turn == 0 ? "the row with the hole" : "another row");
        icl_predict_outcome_destroy(&expected);
    }
    *hole = (double)NAN;
    params.impute = ICL_IMPUTE_MEDIAN;
    expected = predict_or_exit(&params);
    tap_ok(tap, expected->fills[COLUMN] != seen->fills[COLUMN] && expected->scores[0].mse != seen->scores[0].mse,
           "the median is another rule");
    icl_predict_outcome_destroy(&expected);
    icl_predict_outcome_destroy(&seen);
    *hole = kept;
}

int main(void) {
    tap_run tap = {0};
    double values[ROWS * COLUMNS];
    const icl_table table = make_table(values);
    icl_backend *backend = tap_open_device(&tap, "cpu");
    icl_recipe *recipe = NULL;
    scratch_folder scratch;
    icl_error error = {0};

    scratch_open(&scratch);
    if (tap_status(&tap, make_run(backend, "model.scale=mean", scratch.folder, &recipe, &error), &error, "a run")) {
        const icl_predict_params params = {.backend = backend,
                                           .folder = scratch.folder,
                                           .recipe = recipe,
                                           .table = &table,
                                           .folds = ROWS,
                                           .repeats = 1,
                                           .seed = 1};
        check_leaks(&tap, &params, values);
        check_folds(&tap, &params, values);
        check_repeats(&tap, &params);
        check_draws(&tap, &params);
        check_imputation(&tap, &params, values);
    }
    icl_recipe_destroy(&recipe);
    icl_backend_close(&backend);
    scratch_remove(scratch.folder);
    return tap_done(&tap);
}
