/* Tests predictions for a table: reference predictors against solutions of the normal equations, the model against the
 * same prompt by hand. held_out.c tests what is learned from rows that are held out. */
#include "iclab/predict.h"
#include "predict/predict.h"

#include <math.h>

#include "core/allocate.h"
#include "iclab/file.h"
#include "iclab/random.h"
#include "iclab/recipe.h"
#include "iclab/run.h"
#include "tap.h"

#include "fixture.h"

static void check_references(tap_run *tap, const icl_table *table, const icl_predict_outcome *outcome) {
    double rows[ROWS][COLUMNS], means[COLUMNS], deviations[COLUMNS], ols = 0, ols_mse = 0, mean_mse = 0;
    const double step = pow(10, 1.0 / 8), penalty = outcome->ridge_penalty;
    const double *values = table->values;
    bool means_agree = true;

    for (size_t i = 0; i < ROWS; i++) {
        const double target = values[i * COLUMNS + FEATURES];
        standardize_by_hand(values, i, rows, means, deviations);
        const double by_hand = means[FEATURES] + deviations[FEATURES] * ridge_by_hand(rows, i, i, 0);
        const double seen = outcome->heldout[i * ICL_PREDICTORS + 1 + ICL_REFERENCE_OLS];
        ols = fmax(ols, fabs(seen / by_hand - 1));
        ols_mse += pow(by_hand - target, 2) / ROWS;
        mean_mse += pow(means[FEATURES] - target, 2) / ROWS;
    }
    tap_ok(tap, ols < 1e-10, "ols, each row from the others, as by elimination: %g", ols);
    tap_ok(tap, near(outcome->scores[1 + ICL_REFERENCE_OLS].mse, ols_mse, 1e-10), "its mse %g", ols_mse);
    tap_ok(tap, near(outcome->scores[1 + ICL_REFERENCE_MEAN].mse, mean_mse, 1e-12), "mse of the mean %g", mean_mse);
    tap_ok(tap, near(outcome->scores[1 + ICL_REFERENCE_OLS].r_squared, 1 - ols_mse / mean_mse, 1e-9),
           "and the share explained");
    standardize_by_hand(values, ROWS, rows, means, deviations);
    for (size_t k = 0; k < COLUMNS; k++)
        means_agree = means_agree && near(outcome->standardization.means[k], means[k], 1e-13) &&
                      near(outcome->standardization.deviations[k], deviations[k], 1e-12);
    tap_ok(tap, means_agree, "means and deviations of all rows");
    const double best = left_out_error(rows, penalty);
    tap_ok(tap, left_out_error(rows, penalty * step) > best && left_out_error(rows, penalty / step) > best,
           "ridge's penalty %g has the least leave-one-out error of its neighbours", penalty);
}

/* Compares ridge and adarr, fitted to all rows, with elimination, for each row. */
static void check_filters(tap_run *tap, const icl_table *table) {
    size_t indices[ROWS];
    const icl_table_rows all = {table, indices, ROWS};
    const icl_model_scale plain = {.input = 1.5, .label = 3}, white = {true, 1.5, 3, 0};
    double rows[ROWS][COLUMNS], means[COLUMNS], deviations[COLUMNS], predictions[ICL_REFERENCES];
    double residual = 0, ridge = 0, adaptive = 0, whitened = 0;
    icl_standardization z;
    icl_references references;
    icl_error error = {0};

    for (size_t i = 0; i < ROWS; i++)
        indices[i] = i;
    tap_status(tap, icl_standardization_create(FEATURES, &z, &error), &error, "a standardization");
    tap_status(tap, icl_references_create(FEATURES, &references, &error), &error, "references");
    tap_status(tap, icl_standardization_fit(&z, &all, &error), &error, "fitted");
    standardize_by_hand(table->values, ROWS, rows, means, deviations);
    for (size_t i = 0; i < ROWS; i++)
        residual += pow(rows[i][FEATURES] - ridge_by_hand(rows, ROWS, i, 0), 2) / (ROWS - 1 - FEATURES);
    for (int whiten = 0; whiten < 2; whiten++) {
        icl_references_fit(&references, &z, whiten ? &white : &plain, &all);
        for (size_t i = 0; i < ROWS; i++) {
            const double penalty = residual * 9 / 2.25, spread = deviations[FEATURES];
            const double least = ridge_by_hand(rows, ROWS, i, 0);
            icl_references_predict(&references, &z, table->values + i * COLUMNS, predictions);
            ridge = fmax(ridge, fabs(predictions[ICL_REFERENCE_RIDGE] - means[FEATURES] -
                                     spread * ridge_by_hand(rows, ROWS, i, references.ridge_penalty)));
            if (whiten)
                whitened = fmax(whitened, fabs(predictions[ICL_REFERENCE_ADARR] - means[FEATURES] -
                                               spread * least * ROWS / (ROWS + penalty)));
            else
                adaptive = fmax(adaptive, fabs(predictions[ICL_REFERENCE_ADARR] - means[FEATURES] -
                                               spread * ridge_by_hand(rows, ROWS, i, penalty)));
        }
    }
    tap_ok(tap, near(references.residual_variance, residual, 1e-10), "residual variance %g", residual);
    tap_ok(tap, ridge < 1e-10, "ridge as by elimination: %g", ridge);
    tap_ok(tap, adaptive < 1e-10, "adarr is ridge with the variance as the model's labels have it: %g", adaptive);
    tap_ok(tap, whitened < 1e-10, "in whitened coordinates it is ols times m / (m + penalty): %g", whitened);
    icl_references_release(&references);
    icl_standardization_release(&z);
}

/* ---- The model ---- */

/* Predicts by the run's model, with its P multiplied by `scale`, from one sequence of `count` labelled tokens and a
 * query. */
static icl_status predict_tokens(icl_backend *backend, const char *folder, const icl_recipe *recipe, size_t count,
                                 const float *tokens, float scale, float *prediction, icl_error *error) {
    float values[64];
    char length[32];
    icl_recipe *longer = NULL;
    icl_trainer *trainer = NULL;
    icl_batch batch = {{0}};
    icl_status status;

    snprintf(length, sizeof length, "task.n=%zu", count);
    ICL_TRY(icl_recipe_clone(recipe, &longer, error));
    ICL_TRY(icl_recipe_override(longer, length, error));
    ICL_TRY(icl_trainer_create(backend, longer, &trainer, error));
    ICL_TRY(icl_run_read_model(folder, icl_trainer_model(trainer), values, error));
    for (size_t i = 0; i < icl_model_parameter_count(icl_trainer_model(trainer)); i++) {
        const icl_parameter_info *info = icl_model_parameter(icl_trainer_model(trainer), i);
        for (size_t k = 0; info->name[strlen(info->name) - 1] == 'P' && k < info->count; k++)
            values[info->offset + k] *= scale;
    }
    ICL_TRY(icl_trainer_set_parameters(trainer, values, error));
    ICL_TRY(icl_batch_create(icl_trainer_task(trainer), backend, ICL_FOR_EVALUATION, 1, &batch, error));
    ICL_TRY(icl_tensor_write(batch.inputs, tokens, error));
    ICL_TRY(icl_trainer_predict(trainer, &batch, prediction, error));
done:
    icl_batch_release(&batch);
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&longer);
    return status;
}

/* Predicts `query` by the run's model and the trainer, after a prompt made here of all rows of the table. */
static icl_status predict_by_hand(icl_backend *backend, const char *folder, const icl_recipe *recipe,
                                  const icl_table *table, const icl_predict_outcome *outcome, const double *query,
                                  float *prediction, icl_error *error) {
    const icl_standardization *z = &outcome->standardization;
    float tokens[(ROWS + 1) * (DIMENSION + 1)] = {0};

    for (size_t i = 0; i <= ROWS; i++) {
        const double *row = i < ROWS ? table->values + i * COLUMNS : query;
        float *token = tokens + i * (DIMENSION + 1);
        for (size_t k = 0; k < FEATURES; k++) {
            const double *axis = z->eigenvectors + (FEATURES - 1 - k) * FEATURES;
            double coordinate = 0;
            for (size_t j = 0; j < FEATURES; j++)
                coordinate += axis[j] * (row[j] - z->means[j]) / z->deviations[j];
            token[k] = (float)(coordinate * sqrt(ROWS / z->eigenvalues[FEATURES - 1 - k]));
        }
        if (i < ROWS)
            token[DIMENSION] =
                (float)(sqrt(FEATURES + 3.0) * (row[FEATURES] - z->means[FEATURES]) / z->deviations[FEATURES]);
    }
    return predict_tokens(backend, folder, recipe, ROWS, tokens, 1, prediction, error);
}

/* The variance of noise uniform on [0, 3] is 3: labels have the variance FEATURES + 3. */
static void check_model(tap_run *tap, icl_backend *backend, const char *folder, const icl_recipe *recipe,
                        const icl_table *table) {
    double values[2 * FEATURES] = {101, 0.003, -2.5, 80, 0.02, 0};
    size_t lines[2] = {2, 3};
    const icl_table fresh = {.name = table_name, .rows = 2, .columns = FEATURES, .values = values, .lines = lines};
    const icl_predict_params params = {
        .backend = backend, .folder = folder, .recipe = recipe, .table = table, .fresh = &fresh, .repeats = 1};
    icl_predict_outcome *outcome = NULL;
    icl_error error = {0};

    if (!tap_status(tap, icl_predict(&params, &outcome, &error), &error, "rows of another table"))
        return;
    tap_ok(tap, outcome->whitened && outcome->context == ROWS && outcome->prompts == 1,
           "a model that takes means is shown all %d rows at once, whitened", ROWS);
    tap_ok(tap, near(outcome->label_scale, sqrt(FEATURES + 3.0), 1e-6), "labels have the prior's deviation %g",
           outcome->label_scale);
    tap_ok(tap, outcome->predicted == 2 && outcome->lines[1] == 3, "two rows, with their lines");
    for (size_t i = 0; i < 2 && outcome->predicted == 2; i++) {
        const icl_standardization *z = &outcome->standardization;
        const double seen = outcome->predictions[i * ICL_PREDICTORS];
        float by_hand = 0;
        tap_status(tap,
                   predict_by_hand(backend, folder, recipe, table, outcome, values + i * FEATURES, &by_hand, &error),
                   &error, "the same prompt by hand");
        const double expected = z->means[FEATURES] + z->deviations[FEATURES] * (double)by_hand / sqrt(FEATURES + 3.0);
        tap_ok(tap, fabs(seen - expected) < 1e-5 * z->deviations[FEATURES], "%.9g, by hand %.9g", seen, expected);
    }
    icl_predict_outcome_destroy(&outcome);
}

enum { LONG = 13, LONG_TOKENS = (LONG + 1) * (DIMENSION + 1) };

/* A model that sums, when shown N rows, predicts the same as the model with P multiplied by n / N that sees the
 * unscaled tokens. */
static void check_raw_sums(tap_run *tap, icl_backend *backend, const char *folder, const icl_recipe *recipe) {
    const icl_random_params normal = {.key = {9, 3, 0}, .distribution = ICL_NORMAL};
    double inputs[LONG * DIMENSION], labels[LONG], query[DIMENSION], seen = 0;
    float tokens[LONG_TOKENS] = {0}, expected = 0;
    icl_prompter prompter = {0};
    icl_error error = {0};
    icl_status status;

    for (size_t i = 0; i + 1 < LONG_TOKENS; i++)
        tokens[i] = icl_random_value(&normal, i);
    for (size_t i = 0; i < LONG; i++) {
        for (size_t k = 0; k < DIMENSION; k++)
            inputs[i * DIMENSION + k] = (double)tokens[i * (DIMENSION + 1) + k];
        labels[i] = (double)tokens[i * (DIMENSION + 1) + DIMENSION];
    }
    for (size_t k = 0; k < DIMENSION; k++)
        query[k] = (double)tokens[LONG * (DIMENSION + 1) + k];
    ICL_TRY(icl_prompter_create(backend, folder, recipe, 1, &prompter, &error));
    ICL_TRY(icl_prompter_show(&prompter, LONG, inputs, labels, &error));
    ICL_TRY(icl_prompter_predict(&prompter, 1, query, &seen, &error));
    ICL_TRY(predict_tokens(backend, folder, recipe, LONG, tokens, (float)CONTEXT / LONG, &expected, &error));
done:
    tap_status(tap, status, &error, "a model of raw sums, shown more rows than it was trained on");
    tap_ok(tap, fabs(seen - (double)expected) < 1e-5 * (1 + fabs(seen)),
           "predicts with its sums brought to n: %.8g, with P n/N: %.8g", seen, (double)expected);
    icl_prompter_release(&prompter);
}

/* ---- Held-out rows ---- */

static void check_errors_of_rows(tap_run *tap, const icl_table *table, const icl_predict_outcome *outcome) {
    double mse = 0, difference = 0, variance = 0;
    const size_t ols = 1 + ICL_REFERENCE_OLS;

    for (size_t i = 0; i < ROWS; i++) {
        const double target = table->values[i * COLUMNS + FEATURES];
        mse += pow(outcome->heldout[i * ICL_PREDICTORS] - target, 2) / ROWS;
        difference += (outcome->squares[i * ICL_PREDICTORS + ols] - outcome->squares[i * ICL_PREDICTORS]) / ROWS;
    }
    for (size_t i = 0; i < ROWS; i++)
        variance +=
            pow(outcome->squares[i * ICL_PREDICTORS + ols] - outcome->squares[i * ICL_PREDICTORS] - difference, 2) /
            (ROWS - 1);
    tap_ok(tap, near(outcome->scores[0].mse, mse, 1e-12), "the model's mse %g", mse);
    tap_ok(tap,
           near(outcome->scores[ols].minus_model, difference, 1e-9) &&
               near(outcome->scores[ols].minus_model_se, sqrt(variance / ROWS), 1e-12),
           "ols minus model %g +- %g, paired", difference, sqrt(variance / ROWS));
    tap_ok(tap, outcome->scores[0].minus_model == 0 && outcome->scores[0].minus_model_se == 0,
           "the model minus itself is 0");
}

static void check_prompts(tap_run *tap, icl_backend *backend, const char *folder, const icl_recipe *recipe,
                          const icl_table *table) {
    icl_predict_params params = {
        .backend = backend, .folder = folder, .recipe = recipe, .table = table, .repeats = 1, .seed = 4};
    icl_predict_outcome *first = predict_or_exit(&params), *again = predict_or_exit(&params), *other;

    tap_ok(tap, first->context == CONTEXT && first->prompts == 16, "a model of raw sums is shown its %d rows, 16 times",
           CONTEXT);
    tap_ok(tap, memcmp(first->heldout, again->heldout, ROWS * ICL_PREDICTORS * sizeof *first->heldout) == 0,
           "the same seed gives the same bits");
    params.seed = 5;
    other = predict_or_exit(&params);
    tap_ok(tap,
           first->heldout[0] != other->heldout[0] &&
               first->heldout[1 + ICL_REFERENCE_OLS] != other->heldout[1 + ICL_REFERENCE_OLS],
           "another seed other splits");
    icl_predict_outcome_destroy(&first);
    icl_predict_outcome_destroy(&again);
    icl_predict_outcome_destroy(&other);
}

static void check_refusals(tap_run *tap, const icl_predict_params *good) {
    double values[ROWS * COLUMNS];
    icl_table table = make_table(values);
    icl_predict_params params = *good;
    icl_predict_outcome *outcome = NULL;
    icl_error error = {0};

    params.table = &table;
    table.columns = 1;
    tap_ok(tap, icl_predict(&params, &outcome, &error) == ICL_ERROR_INPUT && !outcome, "%s", error.message);
    table.columns = DIMENSION + 2;
    table.rows = 12;
    tap_ok(tap, icl_predict(&params, &outcome, &error) == ICL_ERROR_INPUT && strstr(error.message, "task.d"), "%s",
           error.message);
    table.columns = COLUMNS;
    table.rows = 3;
    tap_ok(tap, icl_predict(&params, &outcome, &error) == ICL_ERROR_INPUT && !outcome, "%s", error.message);
    table.rows = ROWS;
    params.folds = ROWS + 1;
    tap_ok(tap, icl_predict(&params, &outcome, &error) == ICL_ERROR_INPUT && strstr(error.message, "folds"), "%s",
           error.message);
    params.folds = 0;
    const sig_atomic_t stop = 1;
    params.stop = &stop;
    tap_ok(tap, icl_predict(&params, &outcome, &error) == ICL_ERROR_INTERRUPTED && !outcome, "%s", error.message);
    params.stop = NULL;
    for (size_t i = 0; i < ROWS; i++)
        values[i * COLUMNS + FEATURES] = 7;
    tap_ok(tap, icl_predict(&params, &outcome, &error) == ICL_ERROR_INPUT && strstr(error.message, "varies"), "%s",
           error.message);
}

/* Without held-out errors, predictions have the same bits, and neither folds nor repeats are read. */
static void check_without_held_out(tap_run *tap, const icl_predict_params *good) {
    double values[2 * FEATURES] = {101, 0.003, -2.5, 80, 0.02, 0};
    size_t lines[2] = {2, 3};
    const icl_table fresh = {.name = table_name, .rows = 2, .columns = FEATURES, .values = values, .lines = lines};
    icl_predict_params params = *good;
    icl_predict_outcome *with, *without;

    params.fresh = &fresh;
    with = predict_or_exit(&params);
    params.without_held_out = true;
    params.folds = ROWS + 1;
    without = predict_or_exit(&params);
    tap_ok(tap,
           with->predicted == 2 && without->predicted == 2 &&
               memcmp(with->predictions, without->predictions, 2 * ICL_PREDICTORS * sizeof(double)) == 0,
           "predictions without held-out rows are those with them");
    tap_ok(tap,
           with->heldout && with->folds == ROWS && !without->heldout && !without->squares && without->folds == 0 &&
               without->repeats == 0 && without->scores[0].mse == 0,
           "and nothing is held out");
    icl_predict_outcome_destroy(&with);
    icl_predict_outcome_destroy(&without);
}

/* Features without information, such as constants and copies of another, do no harm. */
static void check_degenerate(tap_run *tap, const icl_predict_params *good) {
    double values[ROWS * COLUMNS];
    const icl_table table = make_table(values);
    icl_predict_params params = *good;
    icl_predict_outcome *outcome;

    params.table = &table;
    for (size_t i = 0; i < ROWS; i++) {
        values[i * COLUMNS + 1] = 0.1;
        values[i * COLUMNS + 2] = 1000 + 2 * values[i * COLUMNS];
    }
    outcome = predict_or_exit(&params);
    tap_ok(tap, outcome->standardization.rank == 1 && outcome->standardization.deviations[1] == 0,
           "one direction is left of a feature, its copy and a constant");
    tap_ok(tap,
           outcome->not_finite == 0 && isfinite(outcome->scores[0].mse) &&
               isfinite(outcome->scores[1 + ICL_REFERENCE_OLS].mse),
           "every prediction is a number");
    icl_predict_outcome_destroy(&outcome);
}

/* Predicts with a table whose last feature is twice the first, except for a share of it whose sign alternates from row
 * to row. */
static icl_predict_outcome *predict_near_copy(const icl_predict_params *good, double share) {
    double values[ROWS * COLUMNS], fresh_values[FEATURES] = {101, 0.003, 204};
    size_t line = 2;
    const icl_table table = make_table(values);
    const icl_table fresh = {
        .name = table_name, .rows = 1, .columns = FEATURES, .values = fresh_values, .lines = &line};
    icl_predict_params params = *good;

    params.table = &table;
    params.fresh = &fresh;
    for (size_t i = 0; i < ROWS; i++)
        values[i * COLUMNS + 2] = 2 * values[i * COLUMNS] + (i % 2 ? share : -share) * 20;
    return predict_or_exit(&params);
}

/* No predictor learns from the difference of two columns that differ by a ten-thousandth of their spread: a new row in
 * which they differ by more is predicted as if the columns did not differ. With standardized columns z and z + 2 e, e
 * of variance s^2, the component (1, -1) / sqrt(2) has 2 s^2 of the variance 2 of the other: a share s^2 that is at
 * most 1e-8. The prediction from (1, 1) / sqrt(2) moves by O(s). */
static void check_near_copies(tap_run *tap, const icl_predict_params *good) {
    icl_predict_outcome *copy = predict_near_copy(good, 0), *near_copy = predict_near_copy(good, 1e-5);
    icl_predict_outcome *other = predict_near_copy(good, 1e-3);
    const double spread = copy->standardization.deviations[FEATURES];

    tap_ok(tap, copy->standardization.rank == 2 && near_copy->standardization.rank == 2, "what differs is left out");
    tap_ok(tap, other->standardization.rank == 3, "it is not where columns differ by more");
    for (size_t i = 0; i < ICL_TABLE_PREDICTORS; i++)
        tap_ok(tap, fabs(near_copy->predictions[i] - copy->predictions[i]) < 1e-3 * spread, "%s: %.6g, of a copy %.6g",
               icl_predictor_name(i), near_copy->predictions[i], copy->predictions[i]);
    icl_predict_outcome_destroy(&copy);
    icl_predict_outcome_destroy(&near_copy);
    icl_predict_outcome_destroy(&other);
}

static void check_splits(tap_run *tap) {
    const icl_time_series none = {0};
    size_t items[ROWS], counts[ROWS] = {0}, covered = 0, least = ROWS, most = 0;
    icl_error error = {0};

    for (size_t i = 0; i < ROWS; i++)
        items[i] = i;
    tap_status(tap, icl_shuffle(1, ICL_SPLIT_STREAM, 0, ROWS, items, &error), &error, "an order");
    for (size_t i = 0; i < ROWS; i++)
        counts[items[i]]++;
    bool is_permutation = true, is_moved = false;
    for (size_t i = 0; i < ROWS; i++) {
        is_permutation = is_permutation && counts[i] == 1;
        is_moved = is_moved || items[i] != i;
    }
    tap_ok(tap, is_permutation && is_moved, "has every row once, and not in its place");
    for (size_t fold = 0; fold < 5; fold++) {
        const icl_fold found = icl_find_fold(&none, ROWS, 5, fold);
        const size_t size = found.end - found.first;
        covered += found.first == covered && found.known == ROWS ? size : ROWS;
        least = size < least ? size : least;
        most = size > most ? size : most;
    }
    tap_ok(tap, covered == ROWS && most - least <= 1, "folds of %zu to %zu rows cover all", least, most);
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    double values[ROWS * COLUMNS];
    const icl_table table = make_table(values);
    char mean_folder[512], raw_folder[512];
    icl_backend *backend = tap_open_device(&tap, argc > 1 ? argv[1] : "cpu");
    icl_recipe *mean = NULL, *raw = NULL;
    scratch_folder scratch;
    icl_error error = {0};

    check_splits(&tap);
    check_filters(&tap, &table);
    if (!backend)
        return tap_done(&tap);
    scratch_open(&scratch);
    snprintf(mean_folder, sizeof mean_folder, "%s", scratch_path(&scratch, "mean"));
    snprintf(raw_folder, sizeof raw_folder, "%s", scratch_path(&scratch, "raw"));
    tap_status(&tap, make_run(backend, "model.scale=mean", mean_folder, &mean, &error), &error, "a run");
    tap_status(&tap, make_run(backend, "model.scale=raw", raw_folder, &raw, &error), &error, "another");
    const icl_predict_params params = {.backend = backend,
                                       .folder = mean_folder,
                                       .recipe = mean,
                                       .table = &table,
                                       .folds = ROWS,
                                       .repeats = 1,
                                       .seed = 1};
    icl_predict_outcome *outcome = predict_or_exit(&params);
    check_references(&tap, &table, outcome);
    check_errors_of_rows(&tap, &table, outcome);
    icl_predict_outcome_destroy(&outcome);
    check_model(&tap, backend, mean_folder, mean, &table);
    check_raw_sums(&tap, backend, raw_folder, raw);
    check_prompts(&tap, backend, raw_folder, raw, &table);
    check_refusals(&tap, &params);
    check_degenerate(&tap, &params);
    check_near_copies(&tap, &params);
    check_without_held_out(&tap, &params);
    icl_recipe_destroy(&mean);
    icl_recipe_destroy(&raw);
    icl_backend_close(&backend);
    const char *const files[] = {"mean/recipe.ini", "mean/model.safetensors", "raw/recipe.ini",
                                 "raw/model.safetensors"};
    for (size_t i = 0; i < 4; i++)
        (void)remove(scratch_path(&scratch, files[i]));
    scratch_close(&scratch);
    return tap_done(&tap);
}
