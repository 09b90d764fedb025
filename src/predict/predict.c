/* Predictions of the rows of a table by a trained model, and their held-out errors. */
#include "iclab/predict.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "numeric/statistics.h"
#include "predict/predict.h"
#include "task/laws.h"
#include "task/task.h"

/* ---- Checks of a request ---- */

static icl_status check_features(const icl_predict_params *params, size_t dimension, icl_error *error) {
    const icl_table *table = params->table;
    const size_t features = table->columns - 1;

    if (features > dimension)
        return icl_fail(
            error, ICL_ERROR_INPUT,
            "%s: %zu features: expected at most %zu, the d of the model in %s; %s a model with %stask.d=%zu",
            table->name, features, dimension, params->folder,
            params->without_options ? "train" : "--columns and --exclude choose among them, or train",
            params->without_options ? "" : "--set ", features);
    return ICL_OK;
}

/* ICL_ERROR_INPUT names the first error in the request. `dimension` is the d of the model. */
static icl_status check_request(const icl_predict_params *params, size_t dimension, icl_error *error) {
    ICL_CHECK(icl_check_columns(params->table, params->fresh, !params->without_options, error));
    ICL_CHECK(check_features(params, dimension, error));
    ICL_CHECK(icl_check_values(params->table, error));
    if (params->fresh)
        ICL_CHECK(icl_check_values(params->fresh, error));
    if (!params->without_held_out && params->folds == 1)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: 1 fold: expected 2 or more, or 0 for the default",
                        params->table->name);
    return ICL_OK;
}

/* ---- Scores ---- */

const char *icl_predictor_name(size_t predictor) {
    return predictor == 0 ? "model" : icl_reference_name((icl_reference)(predictor - 1));
}

int icl_predict_verdict(const icl_predict_score *score) {
    const double margin = 2 * score->minus_model_se;
    return score->minus_model > margin ? 0 : score->minus_model < -margin ? 1 : 2;
}

size_t icl_predictor_count(const icl_predict_outcome *outcome) {
    return ICL_TABLE_PREDICTORS + (size_t)(outcome->series.lags > 0) + (size_t)(outcome->series.season > 0);
}

void icl_predict_outcome_destroy(icl_predict_outcome **outcome) {
    if (*outcome) {
        icl_standardization_release(&(*outcome)->standardization);
        icl_free(&(*outcome)->fills);
        icl_free(&(*outcome)->rows);
        icl_free(&(*outcome)->heldout);
        icl_free(&(*outcome)->squares);
        icl_free(&(*outcome)->lines);
        icl_free(&(*outcome)->predictions);
    }
    icl_free(outcome);
}

/* Computes mean and standard error over rows of one column of squared errors, minus column `less` if there is one. */
static void measure(const icl_predict_outcome *outcome, size_t column, size_t less, double *differences, double *mean,
                    double *standard_error) {
    const size_t count = outcome->labelled - outcome->held_from;

    for (size_t i = 0; i < count; i++) {
        const double *squares = outcome->squares + (outcome->held_from + i) * ICL_PREDICTORS;
        differences[i] = squares[column] - (less < ICL_PREDICTORS ? squares[less] : 0);
    }
    *mean = icl_mean(differences, count);
    *standard_error = icl_error_of_mean(&outcome->series, differences, count);
}

/* Computes the scores from the squared errors. */
static icl_status score_all(icl_predict_outcome *outcome, icl_error *error) {
    double *differences = NULL;
    icl_status status;

    ICL_TRY(icl_allocate(outcome->labelled, sizeof *differences, "errors", &differences, error));
    for (size_t i = 0; i < ICL_PREDICTORS; i++) {
        icl_predict_score *score = &outcome->scores[i];
        measure(outcome, i, ICL_PREDICTORS, differences, &score->mse, &score->se);
        measure(outcome, i, 0, differences, &score->minus_model, &score->minus_model_se);
    }
    for (size_t i = 0; i < ICL_PREDICTORS; i++)
        outcome->scores[i].r_squared = 1 - outcome->scores[i].mse / outcome->scores[1 + ICL_REFERENCE_MEAN].mse;
done:
    icl_free(&differences);
    return status;
}

/* ---- Held-out errors ---- */

/* Predicts the items of `order` that a fold holds out from those that it knows. */
static icl_status predict_fold(icl_prediction_run *run, const size_t *order, const icl_fold *fold, uint64_t split,
                               size_t *training, double *predictions, icl_error *error) {
    const icl_table *table = &run->tables.table.table;
    const size_t before = fold->first < fold->known ? fold->first : fold->known;
    const size_t after = fold->end < fold->known ? fold->known - fold->end : 0;
    const icl_table_rows rows = {table, training, before + after};
    const icl_table_rows queries = {table, order + fold->first, fold->end - fold->first};

    memcpy(training, order, before * sizeof *training);
    memcpy(training + before, order + fold->end, after * sizeof *training);
    ICL_CHECK(icl_fit_rows(run, &rows, error));
    return icl_fit_predict(run, &rows, split, &queries, predictions + fold->first * ICL_PREDICTORS, error);
}

/* Adds one repetition's predictions to the averages. They are for the items of `places`, which index outcome->rows. */
static void add_repeat(icl_predict_outcome *outcome, const icl_table *table, const size_t *places,
                       const double *predictions) {
    for (size_t i = outcome->held_from; i < outcome->labelled; i++) {
        const size_t row = outcome->rows[places[i]];
        const double target = table->values[(row + 1) * table->columns - 1];
        for (size_t j = 0; j < ICL_PREDICTORS; j++) {
            const double prediction = predictions[i * ICL_PREDICTORS + j], error = prediction - target;
            const size_t at = places[i] * ICL_PREDICTORS + j;
            outcome->heldout[at] += prediction / (double)outcome->repeats;
            outcome->squares[at] += error * error / (double)outcome->repeats;
        }
        outcome->not_finite += !isfinite(predictions[i * ICL_PREDICTORS]);
    }
}

static icl_status allocate_held_out(icl_predict_outcome *outcome, icl_error *error) {
    ICL_CHECK(icl_allocate(outcome->labelled * ICL_PREDICTORS, sizeof(double), "held-out predictions",
                           &outcome->heldout, error));
    ICL_CHECK(
        icl_allocate(outcome->labelled * ICL_PREDICTORS, sizeof(double), "held-out errors", &outcome->squares, error));
    for (size_t i = 0; i < outcome->held_from * ICL_PREDICTORS; i++)
        outcome->heldout[i] = outcome->squares[i] = (double)NAN;
    return ICL_OK;
}

static icl_status hold_out(icl_prediction_run *run, icl_error *error) {
    icl_predict_outcome *outcome = run->outcome;
    const size_t count = outcome->labelled;
    size_t *places = NULL, *order = NULL, *training = NULL;
    double *predictions = NULL;
    icl_status status;

    ICL_TRY(allocate_held_out(outcome, error));
    ICL_TRY(icl_allocate(count, sizeof *places, "order of rows", &places, error));
    ICL_TRY(icl_allocate(count, sizeof *order, "order of rows", &order, error));
    ICL_TRY(icl_allocate(count, sizeof *training, "order of rows", &training, error));
    ICL_TRY(icl_allocate(count * ICL_PREDICTORS, sizeof *predictions, "predictions", &predictions, error));
    for (size_t repeat = 0; repeat < outcome->repeats; repeat++) {
        for (size_t i = 0; i < count; i++)
            places[i] = i;
        if (outcome->series.lags == 0)
            ICL_TRY(icl_shuffle(run->params->seed, ICL_SPLIT_STREAM, repeat, count, places, error));
        for (size_t i = 0; i < count; i++)
            order[i] = outcome->rows[places[i]];
        for (size_t fold = 0; fold < outcome->folds; fold++) {
            const icl_fold found = icl_find_fold(&outcome->series, count, outcome->folds, fold);
            ICL_TRY(predict_fold(run, order, &found, 1 + repeat * outcome->folds + fold, training, predictions, error));
        }
        add_repeat(outcome, run->params->table, places, predictions);
    }
    ICL_TRY(score_all(outcome, error));
done:
    icl_free(&places);
    icl_free(&order);
    icl_free(&training);
    icl_free(&predictions);
    return status;
}

/* ---- Rows without targets ---- */

static icl_status predict_unlabelled(icl_prediction_run *run, icl_error *error) {
    const icl_predict_params *params = run->params;
    const icl_table *table = params->fresh ? &run->tables.fresh.table : &run->tables.table.table;
    icl_predict_outcome *outcome = run->outcome;
    const icl_table_rows rows = {&run->tables.table.table, outcome->rows, outcome->labelled};
    size_t *indices = NULL;
    icl_status status;

    ICL_TRY(icl_fit_rows(run, &rows, error));
    outcome->context = run->fit.context;
    outcome->prompts = run->fit.prompts;
    outcome->label_scale = run->fit.scale.label;
    outcome->ridge_penalty = run->fit.references.ridge_penalty;
    ICL_TRY(icl_allocate(table->rows, sizeof *indices, "rows to predict", &indices, error));
    for (size_t i = 0; i < table->rows; i++)
        if (params->fresh || isnan(table->values[(i + 1) * table->columns - 1]))
            indices[outcome->predicted++] = i;
    ICL_TRY(icl_allocate(outcome->predicted, sizeof *outcome->lines, "lines", &outcome->lines, error));
    ICL_TRY(
        icl_allocate(outcome->predicted * ICL_PREDICTORS, sizeof(double), "predictions", &outcome->predictions, error));
    for (size_t i = 0; i < outcome->predicted; i++)
        outcome->lines[i] = table->lines[indices[i]];
    if (outcome->predicted > 0) {
        const icl_table_rows queries = {table, indices, outcome->predicted};
        ICL_TRY(icl_fit_predict(run, &rows, 0, &queries, outcome->predictions, error));
    }
    for (size_t i = 0; i < outcome->predicted; i++)
        outcome->not_finite += !isfinite(outcome->predictions[i * ICL_PREDICTORS]);
done:
    icl_free(&indices);
    return status;
}

/* ---- All of it ---- */

/* Returns the most rows of a fold, or the rows to be predicted if these are more; at least 1. */
static size_t most_queries(const icl_prediction_run *run) {
    const icl_predict_outcome *outcome = run->outcome;
    const icl_predict_params *params = run->params;
    const size_t fold = outcome->folds > 0 ? (outcome->labelled + outcome->folds - 1) / outcome->folds : 1;
    const size_t unlabelled = params->fresh ? params->fresh->rows : params->table->rows - outcome->labelled;
    return fold > unlabelled ? fold : unlabelled;
}

static icl_status find_rows(const icl_predict_params *params, icl_predict_outcome *outcome, icl_error *error) {
    const icl_held_out_request request = {.folds = params->folds > 0 ? params->folds : ICL_PREDICT_FOLDS,
                                          .repeats = params->repeats,
                                          .most_repeats = ICL_PREDICT_REPEATS,
                                          .are_folds_given = params->folds > 0,
                                          .without_held_out = params->without_held_out,
                                          .without_options = params->without_options};
    icl_held_out plan = {0};
    const icl_status status = icl_plan_held_out(params->table, &request, &plan, error);

    outcome->rows = plan.rows;
    outcome->labelled = plan.labelled;
    outcome->held_from = plan.held_from;
    outcome->folds = plan.folds;
    outcome->repeats = plan.repeats;
    return status;
}

static icl_status prepare(icl_prediction_run *run, icl_error *error) {
    const icl_predict_params *params = run->params;
    icl_predict_outcome *outcome = run->outcome;

    outcome->dimension = icl_task_keys_read(params->recipe).d;
    ICL_CHECK(check_request(params, outcome->dimension, error));
    outcome->series = params->table->series;
    outcome->features = params->table->columns - 1;
    outcome->trained_context = icl_task_keys_read(params->recipe).n;
    ICL_CHECK(find_rows(params, outcome, error));
    outcome->whitened = params->inputs == ICL_INPUTS_AUTO
                            ? strcmp(icl_law_keys_read(params->recipe).covariance, "identity") == 0
                            : params->inputs == ICL_INPUTS_WHITENED;
    return icl_fit_create(run, most_queries(run), error);
}

icl_status icl_predict(const icl_predict_params *params, icl_predict_outcome **outcome, icl_error *error) {
    icl_prediction_run run = {.params = params};
    icl_predict_outcome *created = NULL;
    icl_status status;

    ICL_TRY(icl_allocate(1, sizeof *created, "predictions", &created, error));
    run.outcome = created;
    ICL_TRY(prepare(&run, error));
    if (!params->without_held_out)
        ICL_TRY(hold_out(&run, error));
    ICL_TRY(predict_unlabelled(&run, error));
    created->standardization = run.fit.standardization;
    run.fit.standardization = (icl_standardization){0};
    *outcome = created;
    created = NULL;
done:
    icl_fit_release(&run);
    icl_predict_outcome_destroy(&created);
    return status;
}
