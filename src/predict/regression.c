/* Methods that predict a table without a trained run: held-out errors, intervals, features that matter, and
 * predictions. */
#include "iclab/regression.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "numeric/statistics.h"
#include "predict/method.h"
#include "predict/predict.h"

/* ---- Methods ---- */

static const icl_method_functions *const methods[ICL_METHODS] = {
    [ICL_METHOD_MEAN] = &icl_mean_method,
    [ICL_METHOD_RIDGE] = &icl_ridge_method,
    [ICL_METHOD_NEIGHBOURS] = &icl_neighbours_method,
    [ICL_METHOD_GAUSSIAN_PROCESS] = &icl_gaussian_process_method,
    [ICL_METHOD_MODEL] = &icl_model_method,
    [ICL_METHOD_LAST_VALUE] = &icl_last_value_method,
    [ICL_METHOD_LAST_SEASON] = &icl_last_season_method,
    [ICL_METHOD_OLS] = &icl_ols_method,
    [ICL_METHOD_MIXTURE] = &icl_mixture_method,
};

const char *icl_method_name(icl_method method) {
    return methods[method]->name;
}

bool icl_method_takes_all_rows(icl_method method) {
    return methods[method]->takes_all_rows;
}

/* ---- A run ---- */

/* The random streams of this file. */
#define CONTEXT_STREAM     0x70720003u /* step: the split's number */
#define PERMUTATION_STREAM 0x70720004u /* step: 2^20 times the split's number, plus the feature's */

typedef struct regression_run {
    const icl_regression_params *params;
    icl_regression_outcome *outcome;
    icl_table_model *model;   /* NULL: none */
    icl_filled_tables tables; /* of params */

    /* The rows that the present split learns from. */
    icl_standardization standardization;
    double *inputs, *labels; /* [labelled][p] and [labelled], the context's rows first */
    size_t *order;           /* [labelled] */
    icl_lesson all, context; /* of all rows, and of the context */

    /* Forecasts and targets belong to the present repeat, in the order of its rows. */
    icl_forecast *forecasts; /* [labelled][ICL_METHODS] */
    double *targets;         /* [labelled] */
    double *scores;          /* [repeats][labelled], of the mixture */
    size_t repeats_done;

    size_t most_queries;
    double *queries;        /* [most_queries][p] */
    icl_forecast *answers;  /* [most_queries] */
    double *increases;      /* [p][labelled], of squared errors by permuting a feature; `measured` of each row */
    size_t measured;        /* answers of earlier splits among the increases */
    size_t *permutation;    /* [labelled] */
    double *held;           /* [labelled][p], the queries of a split before features are permuted */
    double *means;          /* [p + 1][permuted rows], of what predicts: with each feature permuted, and with none */
    size_t fits, fits_done; /* for the report of progress */
} regression_run;

static const icl_forecast no_forecast = {(double)NAN, (double)NAN, (double)NAN, (double)NAN, (double)NAN};

/* ---- Learning from some rows ---- */

/* Puts the rows into an order whose beginning is the context, and standardizes them. */
static icl_status prepare_split(regression_run *run, const icl_table_rows *rows, uint64_t split, icl_error *error) {
    const size_t p = run->outcome->features, context = run->outcome->context;

    icl_filled_tables_fit(&run->tables, rows->indices, rows->count);
    ICL_CHECK(icl_standardization_fit(&run->standardization, rows, error));
    memcpy(run->order, rows->indices, rows->count * sizeof *run->order);
    if (rows->count > context)
        ICL_CHECK(icl_begin_with_context(&run->outcome->series, run->params->seed, CONTEXT_STREAM, split, rows->count,
                                         run->order, error));
    for (size_t i = 0; i < rows->count; i++) {
        const double *row = rows->table->values + run->order[i] * rows->table->columns;
        icl_standardize_row(&run->standardization, row, run->inputs + i * p);
        run->labels[i] = icl_standardize_target(&run->standardization, row[p]);
    }
    run->all = (icl_lesson){&run->standardization, rows->count,         p, run->inputs, run->labels, run->model,
                            run->params->seed,     run->outcome->series};
    run->context = run->all;
    run->context.rows = rows->count < context ? rows->count : context;
    return ICL_OK;
}

static icl_status fit_method(regression_run *run, icl_method method, void **fitted, icl_error *error) {
    const icl_lesson *lesson = methods[method]->takes_all_rows ? &run->all : &run->context;

    *fitted = NULL;
    if (run->params->stop && *run->params->stop)
        return icl_fail(error, ICL_ERROR_INTERRUPTED, "predictions were stopped");
    ICL_CHECK(methods[method]->fit(lesson, fitted, error));
    run->fits_done++;
    if (run->params->report)
        run->params->report(run->params->user, (double)run->fits_done / (double)run->fits);
    return ICL_OK;
}

/* Answers the queries [count] of the run, in the target's units. */
static icl_status answer(regression_run *run, icl_method method, const void *fitted, size_t count, icl_error *error) {
    const size_t p = run->outcome->features;
    const double mean = run->standardization.means[p], scale = run->standardization.deviations[p];

    ICL_CHECK(methods[method]->predict(fitted, count, run->queries, run->answers, error));
    for (size_t i = 0; i < count; i++) {
        icl_forecast *forecast = run->answers + i;
        *forecast = (icl_forecast){mean + scale * forecast->mean, mean + scale * forecast->low_80,
                                   mean + scale * forecast->high_80, mean + scale * forecast->low_50,
                                   mean + scale * forecast->high_50};
    }
    return ICL_OK;
}

static void load_queries(regression_run *run, const icl_table_rows *rows) {
    for (size_t i = 0; i < rows->count; i++)
        icl_standardize_row(&run->standardization, rows->table->values + rows->indices[i] * rows->table->columns,
                            run->queries + i * run->outcome->features);
}

/* Returns the methods among these that are mixed. */
static uint32_t members_of(uint32_t bits) {
    return bits & ~(1u << ICL_METHOD_MEAN | 1u << ICL_METHOD_MIXTURE);
}

static bool runs(const icl_regression_outcome *outcome, size_t method) {
    return outcome->methods >> method & 1;
}

/* Answers rows by every method that runs but the mixture: forecasts [count][ICL_METHODS]. */
static icl_status predict_rows(regression_run *run, const icl_table_rows *rows, icl_forecast *forecasts,
                               icl_error *error) {
    void *fitted = NULL;
    icl_status status = ICL_OK;
    size_t method;

    load_queries(run, rows);
    for (method = 0; method < ICL_METHODS; method++) {
        for (size_t i = 0; i < rows->count; i++)
            forecasts[i * ICL_METHODS + method] = no_forecast;
        if (!runs(run->outcome, method) || method == ICL_METHOD_MIXTURE)
            continue;
        ICL_TRY(fit_method(run, (icl_method)method, &fitted, error));
        ICL_TRY(answer(run, (icl_method)method, fitted, rows->count, error));
        methods[method]->destroy(&fitted);
        for (size_t i = 0; i < rows->count; i++)
            forecasts[i * ICL_METHODS + method] = run->answers[i];
    }
done:
    if (fitted)
        methods[method]->destroy(&fitted);
    return status;
}

/* ---- Splits ---- */

/* One split of the labelled rows: items [first, end) of the places are held out. */
typedef struct split_rows {
    size_t *places;          /* [labelled], indices into outcome->rows in a random order, of a series in theirs */
    size_t *training, *held; /* [labelled], indices of table rows */
    size_t first, end;
    uint64_t number; /* from 1 */
} split_rows;

typedef icl_status split_body(regression_run *run, const split_rows *split, void *user, icl_error *error);

/* Prepares each split of so many repeats, and calls the body. */
static icl_status for_each_split(regression_run *run, size_t repeats, split_body *body, void *user, icl_error *error) {
    const icl_regression_outcome *outcome = run->outcome;
    const size_t count = outcome->labelled;
    split_rows split = {0};
    icl_status status;

    ICL_TRY(icl_allocate(count, sizeof *split.places, "order of rows", &split.places, error));
    ICL_TRY(icl_allocate(count, sizeof *split.training, "order of rows", &split.training, error));
    ICL_TRY(icl_allocate(count, sizeof *split.held, "order of rows", &split.held, error));
    for (size_t repeat = 0; repeat < repeats; repeat++) {
        for (size_t i = 0; i < count; i++)
            split.places[i] = i;
        if (outcome->series.lags == 0)
            ICL_TRY(icl_shuffle(run->params->seed, ICL_SPLIT_STREAM, repeat, count, split.places, error));
        for (size_t fold = 0; fold < outcome->folds; fold++) {
            const icl_fold found = icl_find_fold(&outcome->series, count, outcome->folds, fold);
            size_t learned = 0;
            split.first = found.first;
            split.end = found.end;
            for (size_t i = 0; i < count; i++) {
                const size_t row = outcome->rows[split.places[i]];
                if (i >= found.first && i < found.end)
                    split.held[i - found.first] = row;
                else if (i < found.known)
                    split.training[learned++] = row;
            }
            split.number = 1 + repeat * outcome->folds + fold;
            const icl_table_rows rows = {&run->tables.table.table, split.training, learned};
            ICL_TRY(prepare_split(run, &rows, split.number, error));
            ICL_TRY(body(run, &split, user, error));
        }
    }
done:
    icl_free(&split.places);
    icl_free(&split.training);
    icl_free(&split.held);
    return status;
}

/* ---- Held-out errors ---- */

static double target_of(const regression_run *run, size_t place) {
    const icl_table *table = run->params->table;
    return table->values[(run->outcome->rows[place] + 1) * table->columns - 1];
}

/* Adds a row's forecasts of the present repeat to the outcome. */
static void add_row(regression_run *run, size_t place, const icl_forecast *forecasts, double target) {
    icl_regression_outcome *outcome = run->outcome;
    const double weight = 1 / (double)outcome->repeats;

    for (size_t method = 0; method < ICL_METHODS; method++) {
        const icl_forecast *forecast = forecasts + method;
        const double miss = forecast->mean - target;
        icl_regression_score *score = &outcome->scores[method];
        icl_forecast_add(outcome->heldout + place * ICL_METHODS + method, forecast, weight);
        outcome->squares[place * ICL_METHODS + method] += weight * miss * miss;
        score->coverage_80 += forecast->low_80 <= target && target <= forecast->high_80 ? 1 : 0;
        score->coverage_50 += forecast->low_50 <= target && target <= forecast->high_50 ? 1 : 0;
    }
}

/* Mixes the forecasts of a repeat, and adds all of them to the outcome. */
static icl_status finish_repeat(regression_run *run, const size_t *places, icl_error *error) {
    const icl_regression_outcome *outcome = run->outcome;
    const icl_held_forecasts forecasts = {.series = outcome->series,
                                          .members = members_of(outcome->methods),
                                          .count = outcome->labelled,
                                          .folds = outcome->folds,
                                          .from = outcome->held_from,
                                          .targets = run->targets,
                                          .forecasts = run->forecasts,
                                          .scores = run->scores + run->repeats_done * outcome->labelled};

    if (runs(outcome, ICL_METHOD_MIXTURE))
        ICL_CHECK(icl_mixing.hold_out(&forecasts, error));
    for (size_t i = outcome->held_from; i < outcome->labelled; i++)
        add_row(run, places[i], run->forecasts + i * ICL_METHODS, run->targets[i]);
    run->repeats_done++;
    return ICL_OK;
}

static icl_status hold_split_out(regression_run *run, const split_rows *split, void *user, icl_error *error) {
    const icl_table_rows rows = {&run->tables.table.table, split->held, split->end - split->first};

    (void)user;
    ICL_CHECK(predict_rows(run, &rows, run->forecasts + split->first * ICL_METHODS, error));
    for (size_t i = split->first; i < split->end; i++)
        run->targets[i] = target_of(run, split->places[i]);
    return split->end == run->outcome->labelled ? finish_repeat(run, split->places, error) : ICL_OK;
}

/* Computes the mean of values and its standard error. The latter squares them, which may be squares of large targets:
 * so they are divided by the largest first. */
static void measure(const icl_time_series *series, double *values, size_t count, double *mean, double *standard_error) {
    double largest = 0;

    *mean = icl_mean(values, count);
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(values[i]));
    for (size_t i = 0; i < count && largest > 0; i++)
        values[i] /= largest;
    *standard_error = largest * icl_error_of_mean(series, values, count);
}

/* Computes the scores from the squared errors. */
static icl_status score_all(icl_regression_outcome *outcome, icl_error *error) {
    const size_t count = outcome->labelled - outcome->held_from;
    const double held = (double)(count * outcome->repeats);
    const double *held_squares = outcome->squares + outcome->held_from * ICL_METHODS;
    double *errors = NULL;
    icl_status status;

    ICL_TRY(icl_allocate(count, sizeof *errors, "errors", &errors, error));
    outcome->best = ICL_METHOD_MEAN;
    for (size_t method = 0; method < ICL_METHODS; method++) {
        icl_regression_score *score = &outcome->scores[method];
        for (size_t i = 0; i < count; i++)
            errors[i] = held_squares[i * ICL_METHODS + method];
        measure(&outcome->series, errors, count, &score->mse, &score->se);
        score->relative_mse = score->mse / outcome->scores[ICL_METHOD_MEAN].mse;
        if (score->mse < outcome->scores[outcome->best].mse)
            outcome->best = (icl_method)method;
        /* They were counts so far. */
        score->coverage_50 /= runs(outcome, method) ? held : 0;
        score->coverage_80 /= runs(outcome, method) ? held : 0;
    }
    for (size_t method = 0; method < ICL_METHODS; method++) {
        for (size_t i = 0; i < count; i++) {
            const double *squares = held_squares + i * ICL_METHODS;
            errors[i] = squares[method] - squares[outcome->best];
        }
        measure(&outcome->series, errors, count, &outcome->scores[method].minus_best,
                &outcome->scores[method].minus_best_se);
    }
done:
    icl_free(&errors);
    return status;
}

/* Finds the mixture of the fits to all rows from the errors of all repeats. A series, whose first rows are not held
 * out, has one. */
static void weigh_methods(regression_run *run) {
    icl_regression_outcome *outcome = run->outcome;
    double mses[ICL_METHODS];

    for (size_t method = 0; method < ICL_METHODS; method++)
        mses[method] = outcome->scores[method].mse;
    icl_mixing.find(members_of(outcome->methods), mses, run->scores + outcome->held_from,
                    outcome->labelled - outcome->held_from, outcome->repeats, &outcome->mixture);
}

static icl_status hold_out(regression_run *run, icl_error *error) {
    icl_regression_outcome *outcome = run->outcome;
    const size_t count = outcome->labelled;

    ICL_CHECK(
        icl_allocate(count * ICL_METHODS, sizeof(icl_forecast), "held-out predictions", &outcome->heldout, error));
    ICL_CHECK(icl_allocate(count * ICL_METHODS, sizeof(double), "held-out errors", &outcome->squares, error));
    ICL_CHECK(icl_allocate(count * ICL_METHODS, sizeof *run->forecasts, "predictions", &run->forecasts, error));
    ICL_CHECK(icl_allocate(count, sizeof *run->targets, "targets", &run->targets, error));
    ICL_CHECK(icl_allocate(count * outcome->repeats, sizeof *run->scores, "residuals", &run->scores, error));
    for (size_t i = 0; i < outcome->held_from * ICL_METHODS; i++) {
        outcome->heldout[i] = no_forecast;
        outcome->squares[i] = (double)NAN;
    }
    ICL_CHECK(for_each_split(run, outcome->repeats, hold_split_out, NULL, error));
    ICL_CHECK(score_all(outcome, error));
    if (runs(outcome, ICL_METHOD_MIXTURE))
        weigh_methods(run);
    return ICL_OK;
}

/* ---- Features that matter ---- */

/* Queries that there is room for at least. */
enum { QUERIES_AT_ONCE = 1024 };

/* The most rows of a fold whose features are permuted: a random choice of so many says nearly as much as all rows. */
enum { MOST_PERMUTED = 1000 };

static size_t count_permuted(const split_rows *split) {
    const size_t held = split->end - split->first;
    return held < MOST_PERMUTED ? held : MOST_PERMUTED;
}

/* Adds the squared errors of means [count of the split], times `sign`, to the increases of a feature. */
static void add_errors(regression_run *run, const split_rows *split, const double *means, size_t feature, double sign) {
    double *increases = run->increases + feature * run->outcome->labelled + run->measured;

    for (size_t i = 0; i < count_permuted(split); i++) {
        const double miss = means[i] - target_of(run, split->places[split->first + i]);
        increases[i] += sign * miss * miss;
    }
}

/* Returns the weight of a method in what predicts. */
static double weight_of(const icl_regression_outcome *outcome, size_t method) {
    return outcome->answer == ICL_METHOD_MIXTURE ? outcome->mixture.weights[method] : method == (size_t)outcome->answer;
}

/* Copies the queries of the split behind them, with one feature permuted among its rows. */
static icl_status permute_feature(regression_run *run, const split_rows *split, size_t feature, double *copy,
                                  icl_error *error) {
    const size_t count = count_permuted(split), p = run->outcome->features;

    memcpy(copy, run->held, count * p * sizeof *copy);
    for (size_t i = 0; i < count; i++)
        run->permutation[i] = i;
    ICL_CHECK(icl_shuffle(run->params->seed, PERMUTATION_STREAM, (split->number << 20) + feature, count,
                          run->permutation, error));
    for (size_t i = 0; i < count; i++)
        copy[i * p + feature] = run->held[run->permutation[i] * p + feature];
    return ICL_OK;
}

/* Adds a method's part of the answers to the means of slots [some] from `slot` on, each of `count` queries. */
static icl_status add_answers(regression_run *run, icl_method method, const void *fitted, size_t slot, size_t some,
                              size_t count, icl_error *error) {
    const double weight = weight_of(run->outcome, method);

    ICL_CHECK(answer(run, method, fitted, some * count, error));
    for (size_t i = 0; i < some * count; i++)
        run->means[slot * count + i] += weight * run->answers[i].mean;
    return ICL_OK;
}

/* Answers the split with features permuted, as many at once as the queries have room for, since a model answers many
 * queries in little more time than one; then as it is. */
static icl_status permute_for(regression_run *run, const split_rows *split, icl_method method, icl_error *error) {
    const size_t p = run->outcome->features, count = count_permuted(split), at_once = run->most_queries / count;
    void *fitted = NULL;
    icl_status status;

    ICL_TRY(fit_method(run, method, &fitted, error));
    for (size_t first = 0; first < p; first += at_once) {
        const size_t some = p - first < at_once ? p - first : at_once;
        for (size_t k = 0; k < some; k++)
            ICL_TRY(permute_feature(run, split, first + k, run->queries + k * count * p, error));
        ICL_TRY(add_answers(run, method, fitted, first, some, count, error));
    }
    memcpy(run->queries, run->held, count * p * sizeof *run->queries);
    ICL_TRY(add_answers(run, method, fitted, p, 1, count, error));
done:
    methods[method]->destroy(&fitted);
    return status;
}

/* Permutes features for every method that has a weight in what predicts. */
static icl_status permute_split(regression_run *run, const split_rows *split, void *user, icl_error *error) {
    const size_t p = run->outcome->features, count = count_permuted(split);
    const icl_table_rows rows = {&run->tables.table.table, split->held, count};

    (void)user;
    assert(count > 0);
    load_queries(run, &rows);
    memcpy(run->held, run->queries, count * p * sizeof *run->held);
    memset(run->means, 0, (p + 1) * count * sizeof *run->means);
    for (size_t method = 0; method < ICL_METHODS; method++)
        if (weight_of(run->outcome, method) > 0)
            ICL_CHECK(permute_for(run, split, (icl_method)method, error));
    for (size_t k = 0; k < p; k++) {
        add_errors(run, split, run->means + p * count, k, -1);
        add_errors(run, split, run->means + k * count, k, 1);
    }
    run->measured += count;
    return ICL_OK;
}

static icl_status measure_importance(regression_run *run, icl_error *error) {
    icl_regression_outcome *outcome = run->outcome;
    const size_t count = outcome->labelled;
    const double unit = outcome->scores[ICL_METHOD_MEAN].mse;

    ICL_CHECK(icl_allocate(outcome->features, sizeof *outcome->importances, "features", &outcome->importances, error));
    ICL_CHECK(icl_allocate(outcome->features, count * sizeof(double), "permuted errors", &run->increases, error));
    ICL_CHECK(icl_allocate(count, sizeof *run->permutation, "permutation", &run->permutation, error));
    ICL_CHECK(icl_allocate(count, outcome->features * sizeof *run->held, "permutation", &run->held, error));
    ICL_CHECK(icl_allocate(count < MOST_PERMUTED ? count : MOST_PERMUTED, (outcome->features + 1) * sizeof *run->means,
                           "permutation", &run->means, error));
    ICL_CHECK(for_each_split(run, 1, permute_split, NULL, error));
    for (size_t k = 0; k < outcome->features; k++) {
        icl_importance *importance = &outcome->importances[k];
        measure(&outcome->series, run->increases + k * count, run->measured, &importance->increase, &importance->se);
        importance->increase /= unit;
        importance->se /= unit;
    }
    return ICL_OK;
}

/* ---- Rows without targets ---- */

static icl_status predict_unlabelled(regression_run *run, icl_error *error) {
    const icl_regression_params *params = run->params;
    const icl_table *table = params->fresh ? &run->tables.fresh.table : &run->tables.table.table;
    icl_regression_outcome *outcome = run->outcome;
    const icl_table_rows rows = {&run->tables.table.table, outcome->rows, outcome->labelled};
    icl_table_rows queries = {.table = table};
    size_t *indices = NULL;
    icl_status status;

    ICL_TRY(prepare_split(run, &rows, 0, error));
    ICL_TRY(icl_allocate(table->rows, sizeof *indices, "rows to predict", &indices, error));
    for (size_t i = 0; i < table->rows; i++)
        if (params->fresh || isnan(table->values[(i + 1) * table->columns - 1]))
            indices[queries.count++] = i;
    queries.indices = indices;
    ICL_TRY(icl_allocate(queries.count, sizeof *outcome->lines, "lines", &outcome->lines, error));
    ICL_TRY(icl_allocate(queries.count * ICL_METHODS, sizeof(icl_forecast), "predictions", &outcome->forecasts, error));
    for (size_t i = 0; i < queries.count; i++)
        outcome->lines[i] = table->lines[indices[i]];
    outcome->predicted = queries.count;
    if (queries.count > 0)
        ICL_TRY(predict_rows(run, &queries, outcome->forecasts, error));
    for (size_t i = 0; runs(outcome, ICL_METHOD_MIXTURE) && i < queries.count; i++) {
        icl_forecast *forecasts = outcome->forecasts + i * ICL_METHODS;
        forecasts[ICL_METHOD_MIXTURE] = icl_mixing.mix(&outcome->mixture, forecasts);
    }
done:
    icl_free(&indices);
    return status;
}

/* ---- All of it ---- */

static icl_status check_request(const icl_regression_params *params, icl_error *error) {
    const icl_table *table = params->table;

    ICL_CHECK(icl_check_columns(table, params->fresh, !params->without_options, error));
    if (table->columns - 1 > ICL_REGRESSION_MAX_FEATURES)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: %zu features: expected at most %d%s", table->name,
                        table->columns - 1, ICL_REGRESSION_MAX_FEATURES,
                        params->without_options ? "" : "; --columns and --exclude choose among them");
    ICL_CHECK(icl_check_values(table, error));
    if (params->fresh)
        ICL_CHECK(icl_check_values(params->fresh, error));
    if (!params->without_held_out && params->folds == 1)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: 1 fold: expected 2 or more, or 0 for the default", table->name);
    return ICL_OK;
}

/* Drops the mixture where there is nothing to mix, or nothing says how. */
static icl_status choose_mixture(const icl_regression_params *params, icl_regression_outcome *outcome,
                                 icl_error *error) {
    const uint32_t mixture = 1u << ICL_METHOD_MIXTURE;
    const bool is_known = !params->without_held_out || params->mixture;

    if (!is_known && params->methods & mixture)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s: the mixture without held-out rows: expected its weights, which these rows give",
                        params->table->name);
    if (!is_known || members_of(outcome->methods) == 0)
        outcome->methods &= ~mixture;
    if (params->without_held_out && params->mixture)
        outcome->mixture = *params->mixture;
    return ICL_OK;
}

/* Loads the model, and decides which methods run. */
static icl_status choose_methods(regression_run *run, icl_error *error) {
    const icl_regression_params *params = run->params;
    const uint32_t every = (1u << ICL_METHODS) - 1, model = 1u << ICL_METHOD_MODEL;
    icl_regression_outcome *outcome = run->outcome;
    const bool is_series = outcome->series.lags > 0;

    outcome->methods = params->methods & every;
    if (outcome->methods == 0 || outcome->methods == 1u << ICL_METHOD_MIXTURE)
        outcome->methods = every & ~(is_series ? 0 : 1u << ICL_METHOD_OLS);
    if (!is_series)
        outcome->methods &= ~(1u << ICL_METHOD_LAST_VALUE);
    if (outcome->series.season == 0)
        outcome->methods &= ~(1u << ICL_METHOD_LAST_SEASON);
    if (outcome->methods == 0)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s: last_value and last_season alone: expected a series, for the latter one with a season",
                        params->table->name);
    if (params->model) {
        ICL_CHECK(icl_table_model_load(params->backend, params->model, &run->model, error));
        const icl_table_model_limits limits = icl_table_model_get_limits(run->model);
        outcome->most_features = limits.features;
        outcome->context = outcome->context < limits.rows ? outcome->context : limits.rows;
    }
    if (outcome->features > outcome->most_features)
        outcome->methods &= ~model;
    ICL_CHECK(choose_mixture(params, outcome, error));
    if (outcome->methods == 0)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s: %zu features for the model alone: expected at most %zu (0: there is no model)",
                        params->table->name, outcome->features, outcome->most_features);
    if (!params->without_held_out)
        outcome->methods |= 1u << ICL_METHOD_MEAN;
    for (size_t method = 0; method < ICL_METHODS; method++)
        if (runs(outcome, method))
            outcome->best = (icl_method)method;
    return ICL_OK;
}

static size_t count_methods(uint32_t bits) {
    size_t count = 0;

    for (; bits > 0; bits >>= 1)
        count += bits & 1;
    return count;
}

/* Returns how many fits there are at most: of all methods to all rows and outside folds, and outside folds once more
 * for the features that matter. */
static size_t count_fits(const icl_regression_params *params, const icl_regression_outcome *outcome) {
    const bool is_mixed = runs(outcome, ICL_METHOD_MIXTURE);
    const size_t fitted = count_methods(outcome->methods) - is_mixed;
    const size_t permuted = is_mixed ? count_methods(members_of(outcome->methods)) : 1;

    return fitted * (1 + outcome->folds * outcome->repeats) +
           (params->without_importance ? 0 : permuted * outcome->folds);
}

static icl_status allocate_run(regression_run *run, icl_error *error) {
    const icl_regression_outcome *outcome = run->outcome;
    const icl_regression_params *params = run->params;
    const size_t rows = outcome->labelled, p = outcome->features;
    const size_t unlabelled = params->fresh ? params->fresh->rows : params->table->rows - rows;

    run->most_queries = rows > unlabelled ? rows : unlabelled;
    run->most_queries = run->most_queries > QUERIES_AT_ONCE ? run->most_queries : QUERIES_AT_ONCE;
    ICL_CHECK(icl_standardization_create(p, &run->standardization, error));
    ICL_CHECK(icl_allocate(rows, p * sizeof(double), "standardized rows", &run->inputs, error));
    ICL_CHECK(icl_allocate(rows, sizeof(double), "standardized rows", &run->labels, error));
    ICL_CHECK(icl_allocate(rows, sizeof *run->order, "order of rows", &run->order, error));
    ICL_CHECK(icl_allocate(run->most_queries, p * sizeof(double), "queries", &run->queries, error));
    return icl_allocate(run->most_queries, sizeof *run->answers, "queries", &run->answers, error);
}

ICL_FIND_ROWS(icl_regression, ICL_REGRESSION_FOLDS, ICL_REGRESSION_REPEATS)

static icl_status prepare(regression_run *run, icl_error *error) {
    const icl_regression_params *params = run->params;
    icl_regression_outcome *outcome = run->outcome;

    ICL_CHECK(check_request(params, error));
    outcome->series = params->table->series;
    outcome->features = params->table->columns - 1;
    outcome->context = params->context > 0 ? params->context : ICL_REGRESSION_CONTEXT;
    ICL_CHECK(find_rows(params, outcome, error));
    ICL_CHECK(choose_methods(run, error));
    run->fits = count_fits(params, outcome);
    ICL_CHECK(icl_filled_tables_create(params->table, params->fresh, params->impute, run->outcome->features,
                                       run->outcome->labelled, &run->tables, error));
    run->outcome->fills = run->tables.fills;
    return allocate_run(run, error);
}

static void release_run(regression_run *run) {
    icl_table_model_destroy(&run->model);
    icl_filled_tables_release(&run->tables);
    icl_standardization_release(&run->standardization);
    icl_free(&run->inputs);
    icl_free(&run->labels);
    icl_free(&run->order);
    icl_free(&run->queries);
    icl_free(&run->answers);
    icl_free(&run->increases);
    icl_free(&run->permutation);
    icl_free(&run->held);
    icl_free(&run->means);
    icl_free(&run->forecasts);
    icl_free(&run->targets);
    icl_free(&run->scores);
}

icl_status icl_regress(const icl_regression_params *params, icl_regression_outcome **outcome, icl_error *error) {
    regression_run run = {.params = params};
    icl_regression_outcome *created = NULL;
    icl_status status;

    ICL_TRY(icl_allocate(1, sizeof *created, "predictions", &created, error));
    run.outcome = created;
    ICL_TRY(prepare(&run, error));
    if (!params->without_held_out)
        ICL_TRY(hold_out(&run, error));
    created->answer = runs(created, ICL_METHOD_MIXTURE) ? ICL_METHOD_MIXTURE : created->best;
    if (!params->without_held_out && !params->without_importance)
        ICL_TRY(measure_importance(&run, error));
    ICL_TRY(predict_unlabelled(&run, error));
    created->standardization = run.standardization;
    run.standardization = (icl_standardization){0};
    *outcome = created;
    created = NULL;
done:
    release_run(&run);
    icl_regression_outcome_destroy(&created);
    return status;
}

void icl_regression_outcome_destroy(icl_regression_outcome **outcome) {
    if (*outcome) {
        icl_standardization_release(&(*outcome)->standardization);
        icl_free(&(*outcome)->fills);
        icl_free(&(*outcome)->rows);
        icl_free(&(*outcome)->heldout);
        icl_free(&(*outcome)->squares);
        icl_free(&(*outcome)->importances);
        icl_free(&(*outcome)->lines);
        icl_free(&(*outcome)->forecasts);
    }
    icl_free(outcome);
}
