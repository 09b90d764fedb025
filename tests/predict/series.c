/* Tests series: lagged rows cell by cell, forecasts that know nothing of what comes later, an autoregression by
 * Gaussian elimination, values before, standard errors of correlated errors, and refusals. */
#include <math.h>
#include <string.h>

#include "fixture.h"
#include "iclab/regression.h"
#include "predict/predict.h"

/* Rows of the series, and its columns: a feature, and the target. */
enum { LENGTH = 70, WIDTH = 2 };

static double series_values[LENGTH * WIDTH];
static size_t series_lines[LENGTH], series_numbers[WIDTH] = {4, 2};
static char feature_name[] = "x", target_name[] = "y";
static char *series_names[WIDTH] = {feature_name, target_name};

/* An autoregression of order 2 with noise, beside a feature that says something of the next value. */
static icl_table make_series(void) {
    icl_random_params normal = {.key = {8, 78, 0}, .distribution = ICL_NORMAL};

    for (size_t t = 0; t < LENGTH; t++) {
        double *row = series_values + t * WIDTH;
        row[0] = 3 + (double)icl_random_value(&normal, 2 * t);
        row[1] = 10 + (double)icl_random_value(&normal, 2 * t + 1);
        if (t >= 2)
            row[1] += 1.2 * (row[1 - WIDTH] - 10) - 0.6 * (row[1 - 2 * WIDTH] - 10) + 0.3 * row[-WIDTH];
        series_lines[t] = 2 * t + 5;
    }
    return (icl_table){.name = table_name,
                       .rows = LENGTH,
                       .columns = WIDTH,
                       .values = series_values,
                       .lines = series_lines,
                       .names = series_names,
                       .numbers = series_numbers};
}

static icl_table *lag(const icl_table *table, size_t lags, size_t ahead, size_t season) {
    const icl_time_series series = {lags, ahead, season};
    icl_table *lagged = NULL;

    tap_need(icl_table_lag(table, &series, &lagged, tap_error()));
    return lagged;
}

/* ---- Rows with lags ---- */

/* Compares every cell with its definition. `past` and `season_columns` are by hand. */
static void check_cells(tap_run *tap, const icl_table *table, const icl_time_series *series, size_t past,
                        size_t season_columns) {
    const size_t ahead = series->ahead, width = series->lags + season_columns + WIDTH;
    icl_table *lagged = lag(table, series->lags, ahead, series->season);
    bool is_right = lagged->rows == LENGTH - past + 1 && lagged->columns == width;

    for (size_t i = 0; is_right && i < lagged->rows; i++) {
        const size_t t = i + 1 < lagged->rows ? past + i : LENGTH - 1 + ahead;
        const double *row = lagged->values + i * width;
        for (size_t k = 0; k < series->lags; k++)
            is_right = is_right && row[k] == series_values[(t - ahead - k) * WIDTH + 1];
        if (season_columns > 0)
            is_right = is_right && row[series->lags] == series_values[(t - series->season) * WIDTH + 1];
        is_right = is_right && row[width - 2] == series_values[(t - ahead) * WIDTH] &&
                   (t < LENGTH ? row[width - 1] == series_values[t * WIDTH + 1] : isnan(row[width - 1])) &&
                   lagged->lines[i] == (t < LENGTH ? 2 * t + 5 : 2 * (LENGTH - 1) + 5 + ahead);
    }
    tap_ok(tap, is_right, "%zu lags, %zu rows ahead, a season of %zu: every cell", series->lags, ahead, series->season);
    icl_table_destroy(&lagged);
}

static void check_names(tap_run *tap, const icl_table *table) {
    static const char *const names[] = {"y[t-2]", "y[t-3]", "y[t-7]", "x[t-2]", "y"};
    static const size_t numbers[] = {2, 2, 2, 4, 2};
    icl_table *lagged = lag(table, 2, 2, 7);
    bool is_right = lagged->columns == 5;

    for (size_t i = 0; is_right && i < 5; i++)
        is_right = strcmp(lagged->names[i], names[i]) == 0 && lagged->numbers[i] == numbers[i] &&
                   strcmp(lagged->sources[i], i == 3 ? "x" : "y") == 0;
    tap_ok(tap, is_right, "columns say what they are of");
    tap_ok(tap,
           lagged->step_count == 1 && strcmp(lagged->steps[0].what, "lags") == 0 &&
               strcmp(lagged->steps[0].text,
                      "a series: y is forecast 2 rows ahead from 2 values of its own and that of 7 rows before, and "
                      "from the other features 2 rows before; the first 7 rows lack them") == 0,
           "and a step: %s", lagged->steps[0].text);
    icl_table_destroy(&lagged);
}

/* ---- Nothing of what comes later ---- */

/* Returns the first place whose row of time t is at least `time`. */
static size_t place_at(const icl_table *lagged, size_t time) {
    return time - (LENGTH - (lagged->rows - 1));
}

static icl_regression_outcome *regress(const icl_table *lagged, size_t folds) {
    const icl_regression_params params = {
        .table = lagged, .folds = folds, .seed = 3, .context = 20, .without_importance = true};
    icl_regression_outcome *outcome = NULL;

    tap_need(icl_regress(&params, &outcome, tap_error()));
    return outcome;
}

enum { FOLDS = 7 };

/* Returns whether forecasts of rows before changed + ahead, whose origins are earlier, keep their bits when all that is
 * measured from row `changed` on is another, and the next one does not, as its last value is another. */
static bool keeps_early(icl_table *table, size_t ahead, size_t changed) {
    icl_table *before = lag(table, 3, ahead, 5), *after;
    icl_regression_outcome *seen = regress(before, FOLDS), *bent;
    const size_t from = place_at(before, changed + ahead), first = seen->held_from;
    const size_t size = ICL_METHODS * sizeof(icl_forecast);
    bool keeps;

    for (size_t i = changed * WIDTH; i < LENGTH * WIDTH; i++)
        table->values[i] = 1000 - 3 * table->values[i];
    after = lag(table, 3, ahead, 5);
    bent = regress(after, FOLDS);
    *table = make_series();
    keeps =
        from > first && first > 0 && first == bent->held_from &&
        memcmp(seen->heldout + first * ICL_METHODS, bent->heldout + first * ICL_METHODS, (from - first) * size) == 0 &&
        memcmp(seen->heldout + from * ICL_METHODS, bent->heldout + from * ICL_METHODS, size) != 0;
    icl_regression_outcome_destroy(&seen);
    icl_regression_outcome_destroy(&bent);
    icl_table_destroy(&before);
    icl_table_destroy(&after);
    return keeps;
}

/* Parts have 8 or 9 rows: one of nine changes in a row lies just before the first row of a part, which targets that
 * were not yet known must not reach. */
static void check_future(tap_run *tap, icl_table *table, size_t ahead) {
    size_t kept = 0;

    for (size_t changed = 36; changed < 45; changed++)
        kept += keeps_early(table, ahead, changed);
    tap_ok(tap, kept == 9, "%zu rows ahead: another future leaves all forecasts before it as they were, bit by bit",
           ahead);
}

/* The same of a trained model and what stands beside it. */
static void check_run(tap_run *tap, icl_table *table) {
    enum { CHANGED = 40, AHEAD = 2 };
    icl_backend *backend = tap_open_device(tap, "cpu");
    icl_table *before = lag(table, 2, AHEAD, 5), *after;
    const size_t from = place_at(before, CHANGED + AHEAD), size = ICL_PREDICTORS * sizeof(double);
    icl_predict_outcome *seen, *bent;
    icl_recipe *recipe = NULL;
    scratch_folder scratch;
    bool is_before = true;

    scratch_open(&scratch);
    tap_need(make_run(backend, "model.scale=mean", scratch.folder, &recipe, tap_error()));
    icl_predict_params params = {.backend = backend,
                                 .folder = scratch.folder,
                                 .recipe = recipe,
                                 .table = before,
                                 .folds = FOLDS,
                                 .context = 20,
                                 .seed = 1};
    seen = predict_or_exit(&params);
    for (size_t i = CHANGED * WIDTH; i < LENGTH * WIDTH; i++)
        table->values[i] = 1000 - 3 * table->values[i];
    params.table = after = lag(table, 2, AHEAD, 5);
    bent = predict_or_exit(&params);
    *table = make_series();
    tap_ok(tap,
           from > seen->held_from &&
               memcmp(seen->heldout + seen->held_from * ICL_PREDICTORS,
                      bent->heldout + seen->held_from * ICL_PREDICTORS, (from - seen->held_from) * size) == 0 &&
               memcmp(seen->heldout + from * ICL_PREDICTORS, bent->heldout + from * ICL_PREDICTORS, size) != 0,
           "a trained model knows nothing of the future either");
    for (size_t i = seen->held_from; i < seen->labelled; i++) {
        const size_t t = i + LENGTH - seen->labelled;
        const double *row = seen->heldout + i * ICL_PREDICTORS;
        is_before = is_before && row[1 + ICL_REFERENCE_LAST_VALUE] == series_values[(t - AHEAD) * WIDTH + 1] &&
                    row[1 + ICL_REFERENCE_LAST_SEASON] == series_values[(t - 5) * WIDTH + 1];
    }
    tap_ok(tap, is_before && icl_predictor_count(seen) == ICL_PREDICTORS && seen->predicted == 1 && seen->repeats == 1,
           "beside it the last value and that of a season before");
    icl_predict_outcome_destroy(&seen);
    icl_predict_outcome_destroy(&bent);
    icl_table_destroy(&before);
    icl_table_destroy(&after);
    icl_recipe_destroy(&recipe);
    icl_backend_close(&backend);
    scratch_remove(scratch.folder);
}

/* ---- Forecasts by hand ---- */

/* Returns the forecast of row t by least squares on rows PAST to `known` - 1, each with two lags and an intercept. */
static double autoregress(size_t known, size_t t) {
    enum { PAST = 2, TERMS = 3 };
    double matrix[TERMS * TERMS] = {0}, right[TERMS] = {0};

    for (size_t s = PAST; s < known; s++) {
        const double z[TERMS] = {1, series_values[(s - 1) * WIDTH + 1], series_values[(s - 2) * WIDTH + 1]};
        for (size_t j = 0; j < TERMS; j++) {
            for (size_t k = 0; k < TERMS; k++)
                matrix[j * TERMS + k] += z[j] * z[k];
            right[j] += z[j] * series_values[s * WIDTH + 1];
        }
    }
    eliminate(TERMS, TERMS, matrix, right);
    return right[0] + right[1] * series_values[(t - 1) * WIDTH + 1] + right[2] * series_values[(t - 2) * WIDTH + 1];
}

/* The target alone, with two lags: parts of 68 rows at 68 k / 5, so the origins are known. */
static void check_forecasts(tap_run *tap, const icl_table *table) {
    enum { PARTS = 5, PAST = 2, ROWS_MADE = LENGTH - PAST };
    double alone[LENGTH];
    icl_table target = *table;
    icl_table *lagged;
    icl_regression_outcome *outcome;
    double square = 0;
    bool is_line = true, is_last = true;

    for (size_t t = 0; t < LENGTH; t++)
        alone[t] = series_values[t * WIDTH + 1];
    target.columns = 1;
    target.values = alone;
    target.names = series_names + 1;
    lagged = lag(&target, PAST, 1, 0);
    outcome = regress(lagged, PARTS - 1);
    tap_ok(tap, outcome->held_from == ROWS_MADE / PARTS && outcome->labelled == ROWS_MADE && outcome->features == 2,
           "the target alone is a series");
    for (size_t fold = 1; fold < PARTS; fold++)
        for (size_t i = ROWS_MADE * fold / PARTS; i < ROWS_MADE * (fold + 1) / PARTS; i++) {
            const icl_forecast *forecasts = outcome->heldout + i * ICL_METHODS;
            const size_t t = PAST + i;
            const double forecast = autoregress(PAST + ROWS_MADE * fold / PARTS, t);
            is_line = is_line && near(forecasts[ICL_METHOD_OLS].mean, forecast, 1e-9);
            is_last = is_last && near(forecasts[ICL_METHOD_LAST_VALUE].mean, alone[t - 1], 1e-12);
            square += (alone[t] - alone[t - 1]) * (alone[t] - alone[t - 1]);
        }
    tap_ok(tap, is_line, "ols is the autoregression of the rows before the part");
    tap_ok(tap, is_last, "last_value is the value before");
    tap_ok(tap,
           near(outcome->scores[ICL_METHOD_LAST_VALUE].mse, square / (double)(outcome->labelled - outcome->held_from),
                1e-9),
           "its error over the rows held out");
    tap_ok(tap,
           outcome->predicted == 1 && outcome->lines[0] == 2 * (LENGTH - 1) + 6 &&
               near(outcome->forecasts[ICL_METHOD_OLS].mean, autoregress(LENGTH, LENGTH), 1e-9),
           "the row after the last one is forecast: %g", outcome->forecasts[ICL_METHOD_OLS].mean);
    icl_regression_outcome_destroy(&outcome);
    icl_table_destroy(&lagged);
}

/* A sum of two waves obeys y(t) = sum_k c_k y(t - k) exactly, with four lags; one of an exact period is its own season.
 * Rounding of the fit is far below 1e-12 of the variance. */
static void check_exact(tap_run *tap, const icl_table *table) {
    double waves[LENGTH];
    icl_table target = *table;
    icl_table *lagged;
    icl_regression_outcome *outcome;

    for (size_t t = 0; t < LENGTH; t++)
        waves[t] = sin(0.7 * (double)t) + 2 * cos(1.9 * (double)t);
    target.columns = 1;
    target.values = waves;
    target.names = series_names + 1;
    lagged = lag(&target, 4, 1, 0);
    outcome = regress(lagged, 3);
    tap_ok(tap, outcome->best == ICL_METHOD_OLS && outcome->scores[ICL_METHOD_OLS].relative_mse < 1e-12,
           "two waves are forecast by four lags: %g", outcome->scores[ICL_METHOD_OLS].relative_mse);
    icl_regression_outcome_destroy(&outcome);
    icl_table_destroy(&lagged);
    for (size_t t = 0; t < LENGTH; t++)
        waves[t] = (double)(t * t % 6);
    lagged = lag(&target, 1, 1, 6);
    outcome = regress(lagged, 3);
    tap_ok(tap, outcome->scores[ICL_METHOD_LAST_SEASON].mse < 1e-24 && outcome->scores[ICL_METHOD_LAST_VALUE].mse > 1,
           "a season repeats itself: %g", outcome->scores[ICL_METHOD_LAST_SEASON].mse);
    icl_regression_outcome_destroy(&outcome);
    icl_table_destroy(&lagged);
}

/* A series' context is its last rows. */
static void check_context(tap_run *tap) {
    const icl_time_series series = {.lags = 1, .ahead = 1};
    size_t even[] = {3, 5, 6, 9}, odd[] = {2, 4, 8};

    tap_need(icl_begin_with_context(&series, 1, ICL_PROMPT_STREAM, 0, 4, even, tap_error()));
    tap_need(icl_begin_with_context(&series, 1, ICL_PROMPT_STREAM, 0, 3, odd, tap_error()));
    tap_ok(tap,
           even[0] == 9 && even[1] == 6 && even[2] == 5 && even[3] == 3 && odd[0] == 8 && odd[1] == 4 && odd[2] == 2,
           "the last rows of a series come first");
}

/* ---- Standard errors ---- */

/* The standard error by pairs of errors, each weighted by 1 - distance / (reach + 1). With m errors the reach is the
 * whole part of 4 (m / 100)^(2/9), and ahead - 1 more. */
static void check_errors(tap_run *tap, const icl_table *table) {
    enum { AHEAD = 3 };
    icl_table *lagged = lag(table, 2, AHEAD, 0);
    icl_regression_outcome *outcome = regress(lagged, 2);
    const size_t from = outcome->held_from, count = outcome->labelled - from;
    const size_t reach = (size_t)(4 * pow((double)count / 100, 2.0 / 9)) + AHEAD - 1;
    icl_text notes = {0};
    double mean = 0, sum = 0;
    char said[64];

    for (size_t i = 0; i < count; i++)
        mean += outcome->squares[(from + i) * ICL_METHODS + ICL_METHOD_RIDGE] / (double)count;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < count; k++) {
            const double a = outcome->squares[(from + i) * ICL_METHODS + ICL_METHOD_RIDGE] - mean;
            const double b = outcome->squares[(from + k) * ICL_METHODS + ICL_METHOD_RIDGE] - mean;
            sum += a * b * fmax(0, 1 - fabs((double)i - (double)k) / (double)(reach + 1));
        }
    tap_ok(tap,
           near(outcome->scores[ICL_METHOD_RIDGE].mse, mean, 1e-9) &&
               near(outcome->scores[ICL_METHOD_RIDGE].se, sqrt(sum / (double)count / (double)(count - 1)), 1e-9),
           "standard errors of errors that are correlated up to %zu rows apart", reach);
    tap_need(icl_regression_notes(outcome, lagged, &notes, tap_error()));
    snprintf(said, sizeof said, "allow for errors up to %zu rows apart", reach);
    tap_ok(tap, notes.bytes && strstr(notes.bytes, said), "a note says so: %s", said);
    icl_text_release(&notes);
    icl_regression_outcome_destroy(&outcome);
    icl_table_destroy(&lagged);
}

/* ---- Refusals ---- */

static void refuse(tap_run *tap, const icl_table *table, icl_time_series series, const char *expected) {
    icl_table *lagged = NULL;
    icl_error error = {0};

    tap_ok(tap,
           icl_table_lag(table, &series, &lagged, &error) == ICL_ERROR_INPUT && strstr(error.message, expected) &&
               !strchr(error.message, '\n') && !lagged,
           "%s", error.message);
}

static void check_refusals(tap_run *tap, icl_table *table) {
    enum { AHEAD = 2, PART = 4 + AHEAD - 1 };
    const icl_regression_params params = {.folds = 3};
    icl_regression_params asked = params;
    icl_regression_outcome *outcome = NULL;
    icl_table *lagged = lag(table, LENGTH - 1, 1, 0);
    icl_error error = {0};

    tap_ok(tap, lagged->rows == 2, "as many lags as there are rows before the last one");
    icl_table_destroy(&lagged);
    refuse(tap, table, (icl_time_series){.lags = LENGTH}, "70 rows, and a forecast needs the 70 before it");
    refuse(tap, table, (icl_time_series){.lags = 0}, "0 lags: expected 1 or more");
    refuse(tap, table, (icl_time_series){.lags = 1, .ahead = 3, .season = 2}, "a season of 2 rows");
    refuse(tap, table, (icl_time_series){.lags = 1, .season = LENGTH}, "needs the 70 before it");
    table->values[7 * WIDTH + 1] = (double)NAN;
    refuse(tap, table, (icl_time_series){.lags = 1}, "made:19: column 2 (y): a missing value: expected a number in");
    *table = make_series();
    table->rows = 4 * PART + AHEAD; /* one lag, and the last row known lies AHEAD before: 4 parts */
    lagged = lag(table, 1, AHEAD, 0);
    asked.table = lagged;
    tap_status(tap, icl_regress(&asked, &outcome, &error), &error, "three folds of the fewest rows");
    icl_regression_outcome_destroy(&outcome);
    icl_table_destroy(&lagged);
    table->rows--;
    asked.table = lagged = lag(table, 1, AHEAD, 0);
    tap_ok(tap,
           icl_regress(&asked, &outcome, &error) == ICL_ERROR_INPUT &&
               strstr(error.message, "19 rows with their lags for 3 folds in the order of time: expected at least 20"),
           "%s", error.message);
    icl_table_destroy(&lagged);
    asked = (icl_regression_params){.table = table, .methods = 1u << ICL_METHOD_LAST_VALUE, .without_held_out = true};
    *table = make_series();
    tap_ok(tap, icl_regress(&asked, &outcome, &error) == ICL_ERROR_INPUT && strstr(error.message, "expected a series"),
           "%s", error.message);
}

int main(void) {
    tap_run tap = {0};
    icl_table table = make_series();

    check_cells(&tap, &table, &(icl_time_series){3, 1, 0}, 3, 0);
    check_cells(&tap, &table, &(icl_time_series){3, 2, 4}, 4, 0); /* the oldest lag is that of 4 rows before */
    check_cells(&tap, &table, &(icl_time_series){3, 2, 5}, 5, 1);
    check_names(&tap, &table);
    check_future(&tap, &table, 1);
    check_future(&tap, &table, 3);
    check_run(&tap, &table);
    check_forecasts(&tap, &table);
    check_exact(&tap, &table);
    check_context(&tap);
    check_errors(&tap, &table);
    check_refusals(&tap, &table);
    return tap_done(&tap);
}
