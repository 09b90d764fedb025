/* Predictions of the rows of a table by a trained model, their held-out errors, and the regressions that stand beside
 * them. */
#include "iclab/predict.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "baseline/spectrum.h"
#include "core/allocate.h"
#include "iclab/run.h"
#include "iclab/status.h"
#include "model/linear_transformer.h"
#include "numeric/statistics.h"
#include "predict/predict.h"
#include "task/laws.h"
#include "task/task.h"

/* The queries that are turned into the model's coordinates at once. */
enum { BLOCK = 1024 };

/* ---- References ---- */

/* "mean", … */
static const char *reference_name(icl_reference reference) {
    static const char *const names[ICL_REFERENCES] = {"mean", "ols", "ridge", "adarr", "last_value", "last_season"};
    return names[reference];
}

icl_status icl_references_create(size_t features, icl_references *references, icl_error *error) {
    memset(references, 0, sizeof *references);
    ICL_CHECK(
        icl_allocate(ICL_REFERENCES * features, sizeof(double), "reference predictors", &references->filters, error));
    ICL_CHECK(icl_allocate(features, sizeof(double), "row", &references->row, error));
    return icl_allocate(features, sizeof(double), "row", &references->rotated, error);
}

void icl_references_release(icl_references *references) {
    icl_free(&references->filters);
    icl_free(&references->row);
    icl_free(&references->rotated);
}

/* Adds the squares of one row's residual of least squares, and of its leave-one-out residuals of ridge at every
 * penalty. */
static void add_residuals(const icl_standardization *z, const double *rotated, double label, double *least_squares,
                          double left_out[ICL_RIDGE_PENALTIES]) {
    double prediction = 0;

    for (size_t k = 0; k < z->features; k++)
        if (z->eigenvalues[k] > 0)
            prediction += rotated[k] * z->products[k] / z->eigenvalues[k];
    *least_squares += (label - prediction) * (label - prediction);
    for (size_t i = 0; i < ICL_RIDGE_PENALTIES; i++) {
        const double residual = icl_left_out_residual(z, rotated, label, icl_ridge_penalty(i, z->rows));
        left_out[i] += residual * residual;
    }
}

/* Sets the filter of adarr. In the model's coordinates the eigenvalues are input^2 lambda_k or, if whitened, input^2 m
 * each; labels are `label` times standardized ones, and so is their noise. */
static void fill_adaptive(const icl_references *references, const icl_standardization *z, const icl_model_scale *scale,
                          double *filter) {
    const double estimate = scale->label * scale->label * references->residual_variance;
    const double noise = isnan(estimate) ? scale->prior_noise : estimate;
    const double penalty = noise / (scale->input * scale->input), m = (double)z->rows;

    icl_ridge_filter(z->eigenvalues, z->features, penalty, filter);
    for (size_t k = 0; scale->whitened && k < z->features; k++)
        filter[k] = z->eigenvalues[k] > 0 ? m / (z->eigenvalues[k] * (m + penalty)) : 0;
}

void icl_references_fit(icl_references *references, const icl_standardization *z, const icl_model_scale *scale,
                        const icl_table_rows *rows) {
    const size_t p = z->features, freedom = z->rows > z->rank + 1 ? z->rows - z->rank - 1 : 0;
    double left_out[ICL_RIDGE_PENALTIES] = {0}, least_squares = 0;
    size_t best = 0;

    for (size_t i = 0; i < rows->count; i++) {
        const double *row = rows->table->values + rows->indices[i] * rows->table->columns;
        icl_standardize_row(z, row, references->row);
        icl_rotate_row(z, references->row, references->rotated);
        add_residuals(z, references->rotated, icl_standardize_target(z, row[p]), &least_squares, left_out);
    }
    for (size_t i = 1; i < ICL_RIDGE_PENALTIES; i++)
        if (left_out[i] < left_out[best])
            best = i;
    references->series = rows->table->series;
    references->ridge_penalty = icl_ridge_penalty(best, z->rows);
    references->residual_variance = freedom > 0 ? least_squares / (double)freedom : (double)NAN;
    memset(references->filters, 0, p * sizeof(double));
    icl_ridge_filter(z->eigenvalues, z->features, 0, references->filters + ICL_REFERENCE_OLS * p);
    icl_ridge_filter(z->eigenvalues, z->features, references->ridge_penalty,
                     references->filters + ICL_REFERENCE_RIDGE * p);
    fill_adaptive(references, z, scale, references->filters + ICL_REFERENCE_ADARR * p);
}

void icl_references_predict(const icl_references *references, const icl_standardization *z, const double *features,
                            double predictions[ICL_REFERENCES]) {
    const icl_time_series *series = &references->series;
    const size_t p = z->features;

    icl_standardize_row(z, features, references->row);
    icl_rotate_row(z, references->row, references->rotated);
    predictions[ICL_REFERENCE_LAST_VALUE] = series->lags > 0 ? features[0] : (double)NAN;
    predictions[ICL_REFERENCE_LAST_SEASON] = series->season > 0 ? features[icl_season_feature(series)] : (double)NAN;
    for (size_t i = 0; i < ICL_REFERENCE_LAST_VALUE; i++) {
        const double *filter = references->filters + i * p;
        double sum = 0;
        for (size_t k = 0; k < p; k++)
            sum += filter[k] * z->products[k] * references->rotated[k];
        predictions[i] = z->means[p] + z->deviations[p] * sum;
    }
}

/* ---- Prompts ---- */

/* The most queries of a chunk, and the most elements of its tokens: 16 MiB of floats. */
#define MAX_CHUNK    ((size_t)256)
#define MAX_ELEMENTS ((size_t)1 << 22)

static void release_context(icl_prompter *prompter) {
    icl_batch_release(&prompter->batch);
    icl_trainer_destroy(&prompter->trainer);
    icl_free(&prompter->shown);
    icl_free(&prompter->tokens);
    icl_free(&prompter->predictions);
    prompter->context = 0;
}

void icl_prompter_release(icl_prompter *prompter) {
    release_context(prompter);
}

/* Refuses longer prompts if positions are learned, because these are a table with a row for each place of a training
 * sequence. */
static icl_status check_length(const icl_prompter *prompter, size_t count, icl_error *error) {
    const icl_recipe *recipe = prompter->recipe;

    if (count == prompter->trained_context || !icl_recipe_is_used(recipe, "model", "positions") ||
        strcmp(icl_recipe_value(recipe, "model", "positions"), "learned") != 0)
        return ICL_OK;
    return icl_fail(error, ICL_ERROR_INPUT,
                    "%s: a context of %zu rows for model.positions = learned: expected %zu, the n of training; a model "
                    "of model.positions=none takes any number",
                    prompter->folder, count, prompter->trained_context);
}

/* Makes the model and the memory for prompts of `count` rows. */
static icl_status prepare_context(icl_prompter *prompter, size_t count, icl_error *error) {
    const size_t width = prompter->dimension + 1, elements = (count + 1) * width;
    const size_t most = prompter->most_queries < MAX_CHUNK ? prompter->most_queries : MAX_CHUNK;
    const size_t fitting = MAX_ELEMENTS / elements, chunk = fitting < most ? fitting : most;
    icl_recipe *recipe = NULL;
    icl_status status;

    ICL_CHECK(check_length(prompter, count, error));
    release_context(prompter);
    ICL_TRY(icl_recipe_clone(prompter->recipe, &recipe, error));
    ICL_TRY(icl_recipe_set_count(recipe, ICL_TASK_KEY(n), count, error));
    ICL_TRY(icl_trained_load(prompter->backend, prompter->folder, recipe, &prompter->trainer, error));
    prompter->chunk = chunk > 0 ? chunk : 1;
    ICL_TRY(icl_batch_create(icl_trainer_task(prompter->trainer), prompter->backend, ICL_FOR_EVALUATION,
                             prompter->chunk, &prompter->batch, error));
    ICL_TRY(icl_allocate(count * width, sizeof(float), "context", &prompter->shown, error));
    ICL_TRY(icl_allocate(prompter->chunk, elements * sizeof(float), "prompts", &prompter->tokens, error));
    ICL_TRY(icl_allocate(prompter->chunk, sizeof(float), "predictions", &prompter->predictions, error));
    prompter->scale = prompter->takes_any_length ? 1 : sqrt((double)prompter->trained_context / (double)count);
    prompter->context = count;
done:
    icl_recipe_destroy(&recipe);
    return status;
}

/* Returns the prior of the model's task for w, x and the noise. Valid until the next call that takes the prompter. */
static const icl_task_prior *prior_of(const icl_prompter *prompter) {
    return icl_task_get_prior(icl_trainer_task(prompter->trainer));
}

icl_status icl_prompter_create(icl_backend *backend, const char *folder, const icl_recipe *recipe, size_t most_queries,
                               icl_prompter *prompter, icl_error *error) {
    const bool is_raw = icl_recipe_is_used(recipe, ICL_KEY_NAME("model", icl_linear_settings, scale)) &&
                        icl_linear_read(recipe).scale == ICL_SCALE_RAW;

    memset(prompter, 0, sizeof *prompter);
    prompter->backend = backend;
    prompter->folder = folder;
    prompter->recipe = recipe;
    prompter->most_queries = most_queries;
    prompter->dimension = icl_task_keys_read(recipe).d;
    prompter->trained_context = icl_task_keys_read(recipe).n;
    prompter->takes_any_length = !is_raw;
    ICL_CHECK(prepare_context(prompter, prompter->trained_context, error));
    if (!prior_of(prompter))
        return icl_recipe_reject(recipe, ICL_TASK_KEY(family), error,
                                 "linear-regression: predictions are for models of noisy linear targets");
    return ICL_OK;
}

icl_status icl_prompter_show(icl_prompter *prompter, size_t count, const double *inputs, const double *labels,
                             icl_error *error) {
    const size_t d = prompter->dimension;

    if (count != prompter->context)
        ICL_CHECK(prepare_context(prompter, count, error));
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < d; k++)
            prompter->shown[i * (d + 1) + k] = (float)(prompter->scale * inputs[i * d + k]);
        prompter->shown[i * (d + 1) + d] = (float)(prompter->scale * labels[i]);
    }
    for (size_t i = 0; i < prompter->chunk; i++)
        memcpy(prompter->tokens + i * (count + 1) * (d + 1), prompter->shown, count * (d + 1) * sizeof(float));
    return ICL_OK;
}

icl_status icl_prompter_predict(icl_prompter *prompter, size_t count, const double *queries, double *predictions,
                                icl_error *error) {
    const size_t d = prompter->dimension, elements = (prompter->context + 1) * (d + 1);

    for (size_t first = 0; first < count; first += prompter->chunk) {
        const size_t left = count - first, some = left < prompter->chunk ? left : prompter->chunk;
        /* The places after the last query are predicted as well, but not read. */
        for (size_t i = 0; i < some; i++)
            for (size_t k = 0; k < d; k++)
                prompter->tokens[(i + 1) * elements - (d + 1) + k] =
                    (float)(prompter->scale * queries[(first + i) * d + k]);
        ICL_CHECK(icl_tensor_write(prompter->batch.inputs, prompter->tokens, error));
        ICL_CHECK(icl_trainer_predict(prompter->trainer, &prompter->batch, prompter->predictions, error));
        for (size_t i = 0; i < some; i++)
            predictions[first + i] = (double)prompter->predictions[i] / prompter->scale;
    }
    return ICL_OK;
}

/* ---- The model's coordinates ---- */

/* A fit to some rows, and memory for it. */
typedef struct row_fit {
    icl_standardization standardization;
    icl_references references;
    icl_model_scale scale;
    size_t context, prompts;
    double *row, *rotated;      /* [p] */
    double *inputs, *labels;    /* [context][d] and [context] */
    double *queries, *outcomes; /* for a block of rows */
    size_t *shown;              /* [rows], beginning with the rows of a prompt */
    size_t capacity;            /* rows that inputs and labels hold */
} row_fit;

typedef struct prediction_run {
    const icl_predict_params *params;
    icl_predict_outcome *outcome;
    icl_filled_tables tables; /* of params */
    icl_prompter prompter;
    double input_square, signal_square; /* the model's prior: see measure_prior */
    row_fit fit;
} prediction_run;

/* Computes the mean square of one input, and of <w, x> for each of d inputs: the traces of R R^T and of R R^T C C^T,
 * over d. */
static void measure_prior(const icl_task_prior *prior, double *input, double *signal) {
    const size_t d = prior->dimension;
    const double *r = prior->covariance_root, *c = prior->weight_root;

    *input = *signal = r || c ? 0 : 1;
    for (size_t i = 0; i < d && (r || c); i++)
        for (size_t j = 0; j < d; j++) {
            double product = 0; /* an entry of R^T C */
            for (size_t k = 0; k < d; k++)
                product += (r ? r[k * d + i] : i == k) * (c ? c[k * d + j] : k == j);
            *input += (r ? r[j * d + i] * r[j * d + i] : i == j) / (double)d;
            *signal += product * product / (double)d;
        }
}

static icl_model_scale model_scale(const prediction_run *run) {
    const icl_task_prior *prior = prior_of(&run->prompter);
    const icl_standardization *z = &run->fit.standardization;
    const bool whitened = run->outcome->whitened;
    size_t used = 0;
    double label;

    for (size_t k = 0; k < z->features; k++)
        used += whitened ? z->eigenvalues[k] > 0 : z->deviations[k] > 0;
    label = sqrt(run->signal_square * (double)used + prior->mean_square_noise);
    return (icl_model_scale){whitened, sqrt(run->input_square), label > 0 ? label : 1, prior->mean_square_noise};
}

/* Places features [p] as the model sees them, [d]: components in the order of their eigenvalues, largest first, or the
 * features themselves. */
static void place(row_fit *fit, size_t dimension, const double *features, double *placed) {
    const icl_standardization *z = &fit->standardization;
    const size_t p = z->features;

    memset(placed, 0, dimension * sizeof *placed);
    icl_standardize_row(z, features, fit->row);
    if (fit->scale.whitened)
        icl_rotate_row(z, fit->row, fit->rotated);
    for (size_t k = 0; k < p; k++) {
        if (!fit->scale.whitened)
            placed[k] = fit->scale.input * fit->row[k];
        else if (z->eigenvalues[k] > 0)
            placed[p - 1 - k] = fit->scale.input * sqrt((double)z->rows / z->eigenvalues[k]) * fit->rotated[k];
    }
}

/* ---- Fits ---- */

/* Sets the rows of a prompt and the number of prompts for `rows` rows to learn from. */
static void plan_prompts(prediction_run *run, size_t rows) {
    const icl_predict_params *params = run->params;
    const size_t longest = params->context > 0              ? params->context
                           : run->prompter.takes_any_length ? ICL_PREDICT_CONTEXT
                                                            : run->prompter.trained_context;

    run->fit.context = rows < longest ? rows : longest;
    run->fit.prompts = run->fit.context == rows || params->table->series.lags > 0 ? 1
                       : params->prompts > 0                                      ? params->prompts
                                                                                  : ICL_PREDICT_PROMPTS;
}

static icl_status reserve_context(prediction_run *run, icl_error *error) {
    row_fit *fit = &run->fit;

    if (fit->context <= fit->capacity)
        return ICL_OK;
    icl_free(&fit->inputs);
    icl_free(&fit->labels);
    fit->capacity = 0;
    ICL_CHECK(icl_allocate(fit->context, run->outcome->dimension * sizeof(double), "context", &fit->inputs, error));
    ICL_CHECK(icl_allocate(fit->context, sizeof(double), "context", &fit->labels, error));
    fit->capacity = fit->context;
    return ICL_OK;
}

/* Fits everything to some rows: the fills of missing features, standardization, references, and the sizes of
 * prompts. */
static icl_status fit_rows(prediction_run *run, const icl_table_rows *rows, icl_error *error) {
    row_fit *fit = &run->fit;

    icl_filled_tables_fit(&run->tables, rows->indices, rows->count);
    plan_prompts(run, rows->count);
    ICL_CHECK(reserve_context(run, error));
    ICL_CHECK(icl_standardization_fit(&fit->standardization, rows, error));
    fit->scale = model_scale(run);
    icl_references_fit(&fit->references, &fit->standardization, &fit->scale, rows);
    return ICL_OK;
}

/* ---- Predictions by a fit ---- */

/* Shows the model prompt number `prompt` of a fit. */
static icl_status show_prompt(prediction_run *run, const icl_table_rows *rows, uint64_t split, size_t prompt,
                              icl_error *error) {
    const icl_table *table = rows->table;
    const size_t d = run->outcome->dimension;
    row_fit *fit = &run->fit;

    memcpy(fit->shown, rows->indices, rows->count * sizeof *fit->shown);
    if (fit->context < rows->count)
        ICL_CHECK(icl_begin_with_context(&table->series, run->params->seed, ICL_PROMPT_STREAM, (split << 20) + prompt,
                                         rows->count, fit->shown, error));
    for (size_t i = 0; i < fit->context; i++) {
        const double *row = table->values + fit->shown[i] * table->columns;
        place(fit, d, row, fit->inputs + i * d);
        fit->labels[i] = fit->scale.label * icl_standardize_target(&fit->standardization, row[table->columns - 1]);
    }
    return icl_prompter_show(&run->prompter, fit->context, fit->inputs, fit->labels, error);
}

/* Adds the model's predictions after the current prompt, each times `weight`, to the first column of predictions
 * [count][ICL_PREDICTORS]. */
static icl_status add_predictions(prediction_run *run, const icl_table_rows *queries, double weight,
                                  double *predictions, icl_error *error) {
    const size_t d = run->outcome->dimension, p = run->outcome->features;
    row_fit *fit = &run->fit;
    const double mean = fit->standardization.means[p], scale = fit->standardization.deviations[p] / fit->scale.label;

    for (size_t first = 0; first < queries->count; first += BLOCK) {
        const size_t left = queries->count - first, count = left < BLOCK ? left : BLOCK;
        for (size_t i = 0; i < count; i++)
            place(fit, d, queries->table->values + queries->indices[first + i] * queries->table->columns,
                  fit->queries + i * d);
        ICL_CHECK(icl_prompter_predict(&run->prompter, count, fit->queries, fit->outcomes, error));
        for (size_t i = 0; i < count; i++)
            predictions[(first + i) * ICL_PREDICTORS] += weight * (mean + scale * fit->outcomes[i]);
    }
    return ICL_OK;
}

/* Reports progress. Split number 0 comes last: it predicts the rows without targets. */
static void report(const prediction_run *run, uint64_t split, size_t prompt) {
    const double splits = (double)(run->outcome->folds * run->outcome->repeats);
    const double done = split > 0 ? (double)(split - 1) : splits;

    if (run->params->report)
        run->params->report(run->params->user, (done + (double)(prompt + 1) / (double)run->fit.prompts) / (splits + 1));
}

/* Computes predictions [queries][ICL_PREDICTORS] by the fit to `rows`, whose number `split` selects its prompts. */
static icl_status predict_rows(prediction_run *run, const icl_table_rows *rows, uint64_t split,
                               const icl_table_rows *queries, double *predictions, icl_error *error) {
    row_fit *fit = &run->fit;

    for (size_t i = 0; i < queries->count; i++) {
        double *row = predictions + i * ICL_PREDICTORS;
        row[0] = 0;
        icl_references_predict(&fit->references, &fit->standardization,
                               queries->table->values + queries->indices[i] * queries->table->columns, row + 1);
    }
    for (size_t prompt = 0; prompt < fit->prompts; prompt++) {
        if (run->params->stop && *run->params->stop)
            return icl_fail(error, ICL_ERROR_INTERRUPTED, "predictions were stopped");
        ICL_CHECK(show_prompt(run, rows, split, prompt, error));
        ICL_CHECK(add_predictions(run, queries, 1 / (double)fit->prompts, predictions, error));
        report(run, split, prompt);
    }
    return ICL_OK;
}

/* ---- Memory ---- */

static icl_status allocate_fit(prediction_run *run, icl_error *error) {
    const size_t p = run->outcome->features, d = run->outcome->dimension;
    row_fit *fit = &run->fit;

    ICL_CHECK(icl_standardization_create(p, &fit->standardization, error));
    ICL_CHECK(icl_references_create(p, &fit->references, error));
    ICL_CHECK(icl_allocate(p, sizeof(double), "row", &fit->row, error));
    ICL_CHECK(icl_allocate(p, sizeof(double), "row", &fit->rotated, error));
    ICL_CHECK(icl_allocate(BLOCK * d, sizeof(double), "queries", &fit->queries, error));
    ICL_CHECK(icl_allocate(BLOCK, sizeof(double), "queries", &fit->outcomes, error));
    return icl_allocate(run->outcome->labelled, sizeof *fit->shown, "prompt", &fit->shown, error);
}

/* Allocates memory for fits to the labelled rows of the outcome; `most_queries` is the usual largest number of queries
 * at once. Release with release_fit, also after a failure. */
static icl_status create_fit(prediction_run *run, size_t most_queries, icl_error *error) {
    const icl_predict_params *params = run->params;

    ICL_CHECK(icl_filled_tables_create(params->table, params->fresh, params->impute, run->outcome->features,
                                       run->outcome->labelled, &run->tables, error));
    run->outcome->fills = run->tables.fills;
    ICL_CHECK(
        icl_prompter_create(params->backend, params->folder, params->recipe, most_queries, &run->prompter, error));
    measure_prior(prior_of(&run->prompter), &run->input_square, &run->signal_square);
    return allocate_fit(run, error);
}

static void release_fit(prediction_run *run) {
    icl_prompter_release(&run->prompter);
    icl_standardization_release(&run->fit.standardization);
    icl_references_release(&run->fit.references);
    icl_filled_tables_release(&run->tables);
    icl_free(&run->fit.row);
    icl_free(&run->fit.rotated);
    icl_free(&run->fit.inputs);
    icl_free(&run->fit.labels);
    icl_free(&run->fit.queries);
    icl_free(&run->fit.outcomes);
    icl_free(&run->fit.shown);
}

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
    return predictor == 0 ? "model" : reference_name((icl_reference)(predictor - 1));
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
static icl_status predict_fold(prediction_run *run, const size_t *order, const icl_fold *fold, uint64_t split,
                               size_t *training, double *predictions, icl_error *error) {
    const icl_table *table = &run->tables.table.table;
    const size_t before = fold->first < fold->known ? fold->first : fold->known;
    const size_t after = fold->end < fold->known ? fold->known - fold->end : 0;
    const icl_table_rows rows = {table, training, before + after};
    const icl_table_rows queries = {table, order + fold->first, fold->end - fold->first};

    memcpy(training, order, before * sizeof *training);
    memcpy(training + before, order + fold->end, after * sizeof *training);
    ICL_CHECK(fit_rows(run, &rows, error));
    return predict_rows(run, &rows, split, &queries, predictions + fold->first * ICL_PREDICTORS, error);
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

static icl_status hold_out(prediction_run *run, icl_error *error) {
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

static icl_status predict_unlabelled(prediction_run *run, icl_error *error) {
    const icl_predict_params *params = run->params;
    const icl_table *table = params->fresh ? &run->tables.fresh.table : &run->tables.table.table;
    icl_predict_outcome *outcome = run->outcome;
    const icl_table_rows rows = {&run->tables.table.table, outcome->rows, outcome->labelled};
    size_t *indices = NULL;
    icl_status status;

    ICL_TRY(fit_rows(run, &rows, error));
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
        ICL_TRY(predict_rows(run, &rows, 0, &queries, outcome->predictions, error));
    }
    for (size_t i = 0; i < outcome->predicted; i++)
        outcome->not_finite += !isfinite(outcome->predictions[i * ICL_PREDICTORS]);
done:
    icl_free(&indices);
    return status;
}

/* ---- All of it ---- */

/* Returns the most rows of a fold, or the rows to be predicted if these are more; at least 1. */
static size_t most_queries(const prediction_run *run) {
    const icl_predict_outcome *outcome = run->outcome;
    const icl_predict_params *params = run->params;
    const size_t fold = outcome->folds > 0 ? (outcome->labelled + outcome->folds - 1) / outcome->folds : 1;
    const size_t unlabelled = params->fresh ? params->fresh->rows : params->table->rows - outcome->labelled;
    return fold > unlabelled ? fold : unlabelled;
}

ICL_FIND_ROWS(icl_predict, ICL_PREDICT_FOLDS, ICL_PREDICT_REPEATS)

static icl_status prepare(prediction_run *run, icl_error *error) {
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
    return create_fit(run, most_queries(run), error);
}

icl_status icl_predict(const icl_predict_params *params, icl_predict_outcome **outcome, icl_error *error) {
    prediction_run run = {.params = params};
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
    release_fit(&run);
    icl_predict_outcome_destroy(&created);
    return status;
}
