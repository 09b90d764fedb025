/* Tests the methods that need no run against computations by hand that share no code with them, and their held-out
 * errors, intervals and features that matter against what their definitions imply. */
#include "iclab/regression.h"

#include <math.h>

#include "../core/scratch.h"
#include "iclab/table_model.h"
#include "iclab/text.h"
#include "predict/predict.h"
#include "regressions.h"
#include "table_run.h"
#include "tap.h"

enum { QUERIES = 3, MANY = 400, PLANTED = 7, MATTERS = 5 };

static const double fresh_values[QUERIES * FEATURES] = {104, 0.013, -2, 91, -0.011, -4.5, 140, 0.03, 1};

static icl_table fresh_table(double values[QUERIES * FEATURES]) {
    static char name[] = "fresh";
    memcpy(values, fresh_values, sizeof fresh_values);
    return (icl_table){.name = name,
                       .rows = QUERIES,
                       .columns = FEATURES,
                       .values = values,
                       .lines = all_lines,
                       .names = all_names,
                       .numbers = all_numbers};
}

/* Predicts the queries by every method, without held-out rows. */
static icl_regression_outcome *predict_queries(const icl_table *table, size_t context) {
    double values[QUERIES * FEATURES];
    const icl_table fresh = fresh_table(values);
    const icl_regression_params params = {
        .table = table, .fresh = &fresh, .context = context, .without_held_out = true};
    icl_regression_outcome *outcome = NULL;

    tap_need(icl_regress(&params, &outcome, tap_error()));
    return outcome;
}

/* Rows standardized by hand, the queries by the same. */
typedef struct by_hand {
    double rows[ROWS][COLUMNS], queries[QUERIES][FEATURES], mean, deviation;
} by_hand;

static by_hand standardized(const icl_table *table) {
    double means[COLUMNS], deviations[COLUMNS];
    by_hand hand;

    standardize_by_hand(table->values, ROWS, hand.rows, means, deviations);
    for (size_t i = 0; i < QUERIES; i++)
        for (size_t k = 0; k < FEATURES; k++)
            hand.queries[i][k] = (fresh_values[i * FEATURES + k] - means[k]) / deviations[k];
    hand.mean = means[FEATURES];
    hand.deviation = deviations[FEATURES];
    return hand;
}

static int ascending(const void *a, const void *b) {
    const double *left = a, *right = b;
    return *left < *right ? -1 : *left > *right;
}

/* Checks one method's forecasts: these predictions, and intervals of order statistics of the residuals [ROWS]: of
 * 23 rows the 12th and the 20th smallest magnitude, ceil(.5 24) and ceil(.8 24). All are standardized. */
static void check_jackknife(tap_run *tap, const icl_regression_outcome *outcome, const by_hand *hand, icl_method method,
                            const double *expected, double *residuals) {
    bool is_right = true;

    for (size_t i = 0; i < ROWS; i++)
        residuals[i] = fabs(residuals[i]);
    qsort(residuals, ROWS, sizeof *residuals, ascending);
    for (size_t i = 0; i < QUERIES; i++) {
        const icl_forecast *forecast = &outcome->forecasts[i * ICL_METHODS + (size_t)method];
        const double mean = hand->mean + hand->deviation * expected[i];
        is_right = is_right && near(forecast->mean, mean, 1e-9) &&
                   near(forecast->high_50 - mean, hand->deviation * residuals[11], 1e-8) &&
                   near(mean - forecast->low_50, hand->deviation * residuals[11], 1e-8) &&
                   near(forecast->high_80 - mean, hand->deviation * residuals[19], 1e-8) &&
                   near(mean - forecast->low_80, hand->deviation * residuals[19], 1e-8);
    }
    tap_ok(tap, is_right, "%s: predictions and intervals of left-out residuals, by hand", icl_method_name(method));
}

static void check_mean(tap_run *tap, const icl_regression_outcome *outcome, const by_hand *hand) {
    const double expected[QUERIES] = {0};
    double residuals[ROWS];

    for (size_t i = 0; i < ROWS; i++) {
        double others = 0;
        for (size_t k = 0; k < ROWS; k++)
            others += k == i ? 0 : hand->rows[k][FEATURES] / (ROWS - 1);
        residuals[i] = hand->rows[i][FEATURES] - others;
    }
    check_jackknife(tap, outcome, hand, ICL_METHOD_MEAN, expected, residuals);
}

/* Checks that the penalty is the one of least left-out error, each row left out of a fit of its own. */
static void check_ridge(tap_run *tap, const icl_regression_outcome *outcome, const by_hand *hand) {
    double least = HUGE_VAL, penalty = 0, residuals[ROWS], expected[QUERIES];

    for (int i = 0; i <= 56; i++) {
        const double tried = ROWS * pow(10, -4 + i / 8.0), found = left_out_error(hand->rows, tried);
        penalty = found < least ? tried : penalty;
        least = fmin(least, found);
    }
    for (size_t i = 0; i < ROWS; i++)
        residuals[i] = hand->rows[i][FEATURES] - ridge_by_hand(hand->rows, i, i, penalty);
    for (size_t i = 0; i < QUERIES; i++) {
        double matrix[COLUMNS][COLUMNS] = {{0}}, right[COLUMNS] = {0};
        for (size_t r = 0; r < ROWS; r++) {
            const double z[COLUMNS] = {1, hand->rows[r][0], hand->rows[r][1], hand->rows[r][2]};
            for (size_t j = 0; j < COLUMNS; j++) {
                for (size_t k = 0; k < COLUMNS; k++)
                    matrix[j][k] += z[j] * z[k];
                right[j] += z[j] * hand->rows[r][FEATURES];
            }
        }
        for (size_t k = 1; k < COLUMNS; k++)
            matrix[k][k] += penalty;
        eliminate(COLUMNS, COLUMNS, &matrix[0][0], right);
        expected[i] = right[0];
        for (size_t k = 0; k < FEATURES; k++)
            expected[i] += right[k + 1] * hand->queries[i][k];
    }
    check_jackknife(tap, outcome, hand, ICL_METHOD_RIDGE, expected, residuals);
}

static double square_between(const double *a, const double *b) {
    double sum = 0;
    for (size_t k = 0; k < FEATURES; k++)
        sum += (a[k] - b[k]) * (a[k] - b[k]);
    return sum;
}

/* Returns the mean label of the `count` rows nearest to a point, without row `left_out`: by sorting all of them. */
static double nearest_mean(const by_hand *hand, const double *point, size_t left_out, size_t count) {
    double pairs[ROWS][2], sum = 0;
    size_t found = 0;

    for (size_t i = 0; i < ROWS; i++)
        if (i != left_out) {
            pairs[found][0] = square_between(hand->rows[i], point);
            pairs[found++][1] = hand->rows[i][FEATURES];
        }
    qsort(pairs, found, sizeof *pairs, ascending);
    for (size_t i = 0; i < count; i++)
        sum += pairs[i][1] / (double)count;
    return sum;
}

static void check_neighbours(tap_run *tap, const icl_regression_outcome *outcome, const by_hand *hand) {
    double least = HUGE_VAL, residuals[ROWS], expected[QUERIES];
    size_t neighbours = 0;

    for (size_t k = 1; k < ROWS; k++) {
        double sum = 0;
        for (size_t i = 0; i < ROWS; i++)
            sum += pow(hand->rows[i][FEATURES] - nearest_mean(hand, hand->rows[i], i, k), 2);
        neighbours = sum < least ? k : neighbours;
        least = fmin(sum, least);
    }
    for (size_t i = 0; i < ROWS; i++)
        residuals[i] = hand->rows[i][FEATURES] - nearest_mean(hand, hand->rows[i], i, neighbours);
    for (size_t i = 0; i < QUERIES; i++)
        expected[i] = nearest_mean(hand, hand->queries[i], ROWS, neighbours);
    tap_note("%zu neighbours", neighbours);
    check_jackknife(tap, outcome, hand, ICL_METHOD_NEIGHBOURS, expected, residuals);
}

/* ---- The Gaussian process ---- */

/* The steps of a search end on these points: logarithms of the length, over sqrt(FEATURES), and of the noise. */
enum { LENGTHS = 81, NOISES = 181 };

static double length_at(size_t i) {
    return -2 + 0.05 * (double)i;
}

static double noise_at(size_t k) {
    return -7 + 0.05 * (double)k;
}

static double kernel(const double *a, const double *b, double length) {
    return exp(-square_between(a, b) / (2 * FEATURES * pow(10, 2 * length)));
}

/* Returns the logarithm of the likelihood, up to a constant, by elimination without pivots. The products of pivots are
 * the determinant. */
static double likelihood(const by_hand *hand, size_t length, size_t noise) {
    double matrix[ROWS][ROWS + 1], square = 0, determinant = 0;

    for (size_t i = 0; i < ROWS; i++) {
        for (size_t k = 0; k < ROWS; k++)
            matrix[i][k] =
                kernel(hand->rows[i], hand->rows[k], length_at(length)) + (i == k ? pow(10, noise_at(noise)) : 0);
        matrix[i][ROWS] = hand->rows[i][FEATURES];
    }
    for (size_t k = 0; k < ROWS; k++) {
        if (!(matrix[k][k] > 0))
            return -HUGE_VAL;
        determinant += log(matrix[k][k]);
        square += matrix[k][ROWS] * matrix[k][ROWS] / matrix[k][k];
        for (size_t i = k + 1; i < ROWS; i++)
            for (size_t j = ROWS + 1; j-- > k;)
                matrix[i][j] -= matrix[i][k] / matrix[k][k] * matrix[k][j];
    }
    return -0.5 * (ROWS * log(square / ROWS) + determinant);
}

static bool is_peak(const double *likelihoods, size_t i, size_t k) {
    const double here = likelihoods[i * NOISES + k];

    return (i == 0 || likelihoods[(i - 1) * NOISES + k] <= here) &&
           (i + 1 == LENGTHS || likelihoods[(i + 1) * NOISES + k] <= here) &&
           (k == 0 || likelihoods[i * NOISES + k - 1] <= here) &&
           (k + 1 == NOISES || likelihoods[i * NOISES + k + 1] <= here);
}

/* Returns whether the forecasts are those of the process at this point. */
static bool is_process(const icl_regression_outcome *outcome, const by_hand *hand, size_t length, size_t noise) {
    const double g = pow(10, noise_at(noise));
    bool is_right = true;

    for (size_t q = 0; q < QUERIES; q++) {
        const icl_forecast *forecast = &outcome->forecasts[q * ICL_METHODS + ICL_METHOD_GAUSSIAN_PROCESS];
        double matrix[ROWS][ROWS], again[ROWS][ROWS], covariance[ROWS], weights[ROWS], labels[ROWS];
        double mean = 0, explained = 0, scale = 0, deviation;
        for (size_t i = 0; i < ROWS; i++) {
            for (size_t k = 0; k < ROWS; k++)
                matrix[i][k] = kernel(hand->rows[i], hand->rows[k], length_at(length)) + (i == k ? g : 0);
            covariance[i] = weights[i] = kernel(hand->rows[i], hand->queries[q], length_at(length));
            labels[i] = hand->rows[i][FEATURES];
        }
        memcpy(again, matrix, sizeof again);
        eliminate(ROWS, ROWS, &matrix[0][0], weights);
        eliminate(ROWS, ROWS, &again[0][0], labels);
        for (size_t i = 0; i < ROWS; i++) {
            mean += covariance[i] * labels[i];
            explained += covariance[i] * weights[i];
            scale += hand->rows[i][FEATURES] * labels[i] / ROWS;
        }
        deviation = hand->deviation * sqrt(scale * (1 + g - explained));
        is_right = is_right && near(forecast->mean, hand->mean + hand->deviation * mean, 1e-7) &&
                   near((forecast->high_80 - forecast->low_80) / 2, 1.2815515655446004 * deviation, 1e-6) &&
                   near((forecast->high_50 - forecast->low_50) / 2, 0.6744897501960817 * deviation, 1e-6) &&
                   near(forecast->high_80 + forecast->low_80, 2 * forecast->mean, 1e-12);
    }
    return is_right;
}

/* Checks that the forecasts belong to a peak of the likelihood that is above every point of the coarse grid. */
static void check_process(tap_run *tap, const icl_regression_outcome *outcome, const by_hand *hand) {
    static double likelihoods[LENGTHS * NOISES];
    double coarse = -HUGE_VAL;
    size_t peaks = 0, found = 0;

    for (size_t i = 0; i < LENGTHS; i++)
        for (size_t k = 0; k < NOISES; k++)
            likelihoods[i * NOISES + k] = likelihood(hand, i, k);
    for (size_t i = 20; i <= 60; i += 8)       /* -1, -.6, … 1 */
        for (size_t k = 60; k <= 140; k += 20) /* -4, -3, … 0 */
            coarse = fmax(coarse, likelihoods[i * NOISES + k]);
    for (size_t i = 0; i < LENGTHS; i++)
        for (size_t k = 0; k < NOISES; k++)
            if (is_peak(likelihoods, i, k) && likelihoods[i * NOISES + k] >= coarse) {
                peaks++;
                found += is_process(outcome, hand, i, k);
            }
    tap_ok(tap, found == 1, "gaussian_process: predictions and intervals at one of %zu peaks of the likelihood, %zu",
           peaks, found);
}

/* ---- Rows held out ---- */

static icl_regression_outcome *hold_out(const icl_table *table, size_t folds, size_t repeats, size_t context) {
    const icl_regression_params params = {
        .table = table, .folds = folds, .repeats = repeats, .context = context, .seed = 3};
    icl_regression_outcome *outcome = NULL;

    tap_need(icl_regress(&params, &outcome, tap_error()));
    return outcome;
}

/* A row's forecasts must not depend on its target; those of rows in other folds must. The mixture's, the last, may: its
 * weights are of methods that were fitted to the row, outside other folds. */
static void check_no_leak(tap_run *tap, icl_table *table) {
    const size_t row = 7, size = ICL_METHOD_MIXTURE * sizeof(icl_forecast);
    icl_regression_outcome *before = hold_out(table, ROWS, 1, 0), *after;

    table->values[(row + 1) * COLUMNS - 1] += 5;
    after = hold_out(table, ROWS, 1, 0);
    table->values[(row + 1) * COLUMNS - 1] -= 5;
    tap_ok(tap,
           memcmp(before->heldout + row * ICL_METHODS, after->heldout + row * ICL_METHODS, size) == 0 &&
               memcmp(before->heldout, after->heldout, size) != 0,
           "a row's target tells nothing about its own forecast, and something about others'");
    icl_regression_outcome_destroy(&before);
    icl_regression_outcome_destroy(&after);
}

/* Computes the scores again from the forecasts. */
static void check_scores(tap_run *tap, const icl_table *table) {
    icl_regression_outcome *outcome = hold_out(table, 5, 1, 0);
    double mses[ICL_METHODS];
    bool is_right = true;

    for (size_t method = 0; method < ICL_METHOD_MODEL; method++) {
        const icl_regression_score *score = &outcome->scores[method];
        double sum = 0, in_50 = 0, in_80 = 0;
        for (size_t i = 0; i < ROWS; i++) {
            const icl_forecast *forecast = &outcome->heldout[i * ICL_METHODS + method];
            const double target = table->values[(i + 1) * COLUMNS - 1];
            sum += pow(forecast->mean - target, 2);
            in_50 += forecast->low_50 <= target && target <= forecast->high_50;
            in_80 += forecast->low_80 <= target && target <= forecast->high_80;
        }
        mses[method] = sum / ROWS;
        is_right = is_right && near(score->mse, mses[method], 1e-12) &&
                   near(score->relative_mse, mses[method] / mses[0], 1e-12) && score->coverage_50 == in_50 / ROWS &&
                   score->coverage_80 == in_80 / ROWS;
    }
    for (size_t method = 0; method < ICL_METHOD_MODEL; method++)
        is_right = is_right && mses[outcome->best] <= mses[method];
    tap_ok(tap, is_right && outcome->best > 0, "errors, coverage and the best method, again from the forecasts: %s",
           icl_method_name(outcome->best));
    icl_regression_outcome_destroy(&outcome);
}

/* Fills a table of independent features: y = 3 x_5 + noise. */
static icl_table plant(double *values, size_t *lines) {
    enum { WIDTH = PLANTED + 1 };
    static char name[] = "planted", text[WIDTH][2] = {"a", "b", "c", "d", "e", "f", "g", "y"};
    static char *names[WIDTH];
    static size_t numbers[WIDTH];
    const icl_random_params normal = {.key = {9, 78, 0}, .distribution = ICL_NORMAL};

    for (size_t i = 0; i < MANY; i++) {
        double *row = values + WIDTH * i;
        for (size_t k = 0; k < WIDTH; k++)
            row[k] = (double)icl_random_value(&normal, WIDTH * i + k);
        row[PLANTED] += 3 * row[MATTERS];
        lines[i] = i + 2;
    }
    for (size_t k = 0; k < WIDTH; k++) {
        names[k] = text[k];
        numbers[k] = k + 1;
    }
    return (icl_table){.name = name,
                       .rows = MANY,
                       .columns = WIDTH,
                       .values = values,
                       .lines = lines,
                       .names = names,
                       .numbers = numbers};
}

/* Checks shares and increases. Var y = 9 + 1, of which 1 is noise; permuting x_5 adds 9 E(x - x')^2 = 18. Four standard
 * errors: of a share .8 (or .5) of 400 rows .02 (.025) each. The increase's own standard error is measured row by row;
 * rows of a fold share a permutation, so that it is an estimate. Of two folds of 200 rows five features are permuted at
 * once: x_5 is the first of the second lot. */
static void check_planted(tap_run *tap) {
    static double values[MANY * (PLANTED + 1)];
    static size_t lines[MANY];
    const icl_table table = plant(values, lines);
    icl_regression_outcome *outcome = hold_out(&table, 2, 1, 100);

    for (size_t method = 0; method < ICL_METHODS; method++) {
        const icl_regression_score *score = &outcome->scores[method];
        if (!(outcome->methods >> method & 1))
            continue;
        tap_ok(tap, fabs(score->coverage_80 - .8) < .08 && fabs(score->coverage_50 - .5) < .1,
               "%s: intervals of 50 %% and 80 %% hold %.3f and %.3f", icl_method_name((icl_method)method),
               score->coverage_50, score->coverage_80);
    }
    tap_ok(tap, outcome->best == ICL_METHOD_RIDGE && fabs(outcome->scores[1].mse - 1) < 4 * outcome->scores[1].se,
           "ridge finds a line: %g -+ %g", outcome->scores[1].mse, outcome->scores[1].se);
    for (size_t k = 0; k < PLANTED; k++) {
        const icl_importance *importance = &outcome->importances[k];
        tap_ok(tap,
               fabs(importance->increase - (k == MATTERS ? 1.8 : 0)) < 4 * importance->se &&
                   importance->se < (k == MATTERS ? 0.2 : 0.02),
               "feature %zu, %s: %g -+ %g", k, k == MATTERS ? "which matters" : "which does not", importance->increase,
               importance->se);
    }
    icl_regression_outcome_destroy(&outcome);
}

/* ---- A model of tables ---- */

static void refuse(tap_run *tap, const icl_regression_params *params, const char *words) {
    icl_regression_outcome *outcome = NULL;
    icl_error error = {0};
    const icl_status status = icl_regress(params, &outcome, &error);

    tap_ok(tap, status == ICL_ERROR_INPUT && !outcome && strstr(error.message, words), "%s", error.message);
    icl_regression_outcome_destroy(&outcome);
}

/* Compares the model's forecasts with those of the model when it is asked itself, in the table's units. Both round
 * standardized numbers to floats, by 6e-8 of these; 1e-5 of the target's deviation leaves the network room to make 100
 * times that of it. */
static void check_model(tap_run *tap, icl_backend *device, const char *folder, const icl_table *table) {
    enum { LEVELS = 4 };
    static const double probabilities[LEVELS] = {0.1, 0.25, 0.75, 0.9};
    double values[QUERIES * FEATURES], rows[ROWS * FEATURES], targets[ROWS], means[QUERIES],
        quantiles[QUERIES * LEVELS];
    const icl_table fresh = fresh_table(values);
    icl_regression_params params = {
        .table = table, .fresh = &fresh, .model = folder, .backend = device, .seed = 4, .repeats = 1};
    icl_regression_outcome *outcome = NULL;
    icl_table_model *model = NULL;
    bool is_same = true;

    tap_need(icl_regress(&params, &outcome, tap_error()));
    tap_need(icl_table_model_load(device, folder, &model, tap_error()));
    for (size_t i = 0; i < ROWS; i++) {
        memcpy(rows + i * FEATURES, table->values + i * COLUMNS, FEATURES * sizeof *rows);
        targets[i] = table->values[i * COLUMNS + FEATURES];
    }
    const icl_table_question question = {.features = FEATURES,
                                         .known = ROWS,
                                         .asked = QUERIES,
                                         .rows = rows,
                                         .targets = targets,
                                         .queries = fresh_values,
                                         .seed = 4};
    const icl_table_answer answer = {LEVELS, probabilities, means, quantiles};
    tap_need(icl_table_model_predict(model, &question, &answer, tap_error()));
    for (size_t i = 0; i < QUERIES; i++) {
        const icl_forecast *forecast = &outcome->forecasts[i * ICL_METHODS + ICL_METHOD_MODEL];
        const double limit = 1e-5 * outcome->standardization.deviations[FEATURES], *expected = quantiles + i * LEVELS;
        is_same = is_same && fabs(forecast->mean - means[i]) < limit && fabs(forecast->low_80 - expected[0]) < limit &&
                  fabs(forecast->low_50 - expected[1]) < limit && fabs(forecast->high_50 - expected[2]) < limit &&
                  fabs(forecast->high_80 - expected[3]) < limit;
    }
    tap_ok(tap, is_same && outcome->most_features == 4 && isfinite(outcome->scores[ICL_METHOD_MODEL].mse),
           "a model of tables answers as it does by itself, in its run's units");
    icl_regression_outcome_destroy(&outcome);
    icl_table_model_destroy(&model);
}

/* A table of more features than the model's must do without it; the model alone cannot. */
static void check_too_wide(tap_run *tap, icl_backend *device, const char *folder) {
    static double values[MANY * (PLANTED + 1)];
    static size_t lines[MANY];
    const icl_table table = plant(values, lines);
    icl_regression_params params = {
        .table = &table, .model = folder, .backend = device, .context = 20, .without_importance = true};
    icl_regression_outcome *outcome = NULL;
    icl_text notes = {0};

    tap_need(icl_regress(&params, &outcome, tap_error()));
    tap_need(icl_regression_notes(outcome, &table, &notes, tap_error()));
    tap_ok(tap,
           outcome->methods == (((1u << ICL_METHOD_MODEL) - 1) | 1u << ICL_METHOD_MIXTURE) &&
               strstr(notes.bytes, "the model is left out: it takes at most 4 features, not 7"),
           "a table of more features than the model takes does without it, and says so");
    icl_regression_outcome_destroy(&outcome);
    icl_text_release(&notes);
    params.methods = 1u << ICL_METHOD_MODEL;
    refuse(tap, &params, "7 features for the model alone: expected at most 4");
}

static void check_models(tap_run *tap, const icl_table *table) {
    static const char settings[] =
        "task.family=tables task.d=4 task.n=10 task.least=4 task.unlabelled=4 task.buckets=12 model.family=sequence "
        "model.layers=2 model.mixer=labelled model.causal=false model.width=16 model.heads=2 model.init=0.3 "
        "train.batch=2";
    icl_backend *device = tap_open_device(tap, "cpu");
    scratch_folder scratch;
    char folder[sizeof scratch.path];

    scratch_open(&scratch);
    snprintf(folder, sizeof folder, "%s", scratch_path(&scratch, "tables"));
    tap_need(make_table_run(device, settings, folder, tap_error()));
    check_model(tap, device, folder, table);
    check_too_wide(tap, device, folder);
    scratch_close(&scratch);
    icl_backend_close(&device);
}

/* ---- The context ---- */

/* Methods that take a part of the rows must see the same as if the table had only these; the others see all. */
static void check_context(tap_run *tap, const icl_table *table) {
    icl_regression_outcome *all = predict_queries(table, ROWS), *part = predict_queries(table, 10);
    bool is_same = true, differs = true;

    for (size_t method = 0; method < ICL_METHOD_MODEL; method++) {
        const double a = all->forecasts[method].mean, b = part->forecasts[method].mean;
        if (icl_method_takes_all_rows((icl_method)method))
            is_same = is_same && a == b;
        else
            differs = differs && a != b;
    }
    tap_ok(tap, is_same && differs && part->context == 10, "neighbours and process learn from at most `context` rows");
    icl_regression_outcome_destroy(&all);
    icl_regression_outcome_destroy(&part);
}

/* ---- Refusals ---- */

static void check_refusals(tap_run *tap, icl_table table) {
    static double wide[8 * (ICL_REGRESSION_MAX_FEATURES + 2)];
    const icl_table few_columns = {.name = table_name, .rows = 1, .columns = 2, .values = wide, .lines = all_lines};
    icl_regression_outcome *outcome = NULL;
    icl_error error = {0};
    static char *names[ICL_REGRESSION_MAX_FEATURES + 2];
    static size_t numbers[ICL_REGRESSION_MAX_FEATURES + 2];
    icl_table broad = table;

    refuse(tap, &(icl_regression_params){.table = &table, .folds = 1}, "1 fold: expected 2 or more");
    refuse(tap, &(icl_regression_params){.table = &table, .folds = ROWS + 1}, "23 rows with a target for 24 folds");
    refuse(tap, &(icl_regression_params){.table = &table, .fresh = &few_columns},
           "2 columns: expected 3, the features");
    table.rows = 3;
    refuse(tap, &(icl_regression_params){.table = &table}, "3 rows with a target: expected at least 4");
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
        wide[i] = (double)(i * i % 7);
    for (size_t i = 0; i < ICL_REGRESSION_MAX_FEATURES + 2; i++) {
        names[i] = letters[0];
        numbers[i] = i + 1;
    }
    broad.rows = 8;
    broad.values = wide;
    broad.names = names;
    broad.numbers = numbers;
    broad.columns = ICL_REGRESSION_MAX_FEATURES + 2;
    refuse(tap, &(icl_regression_params){.table = &broad}, "501 features: expected at most 500; --columns");
    broad.columns = 41;
    tap_status(tap, icl_regress(&(icl_regression_params){.table = &broad}, &outcome, &error), &error,
               "40 features of 8 rows");
    tap_ok(tap, outcome && isfinite(outcome->scores[outcome->best].mse) && outcome->scores[outcome->best].mse > 0,
           "have an error that is a number");
    icl_regression_outcome_destroy(&outcome);
}

int main(void) {
    tap_run tap = {0};
    double values[ROWS * COLUMNS];
    icl_table table = make_table(values);
    const by_hand hand = standardized(&table);
    icl_regression_outcome *outcome = predict_queries(&table, 0);

    check_mean(&tap, outcome, &hand);
    check_ridge(&tap, outcome, &hand);
    check_neighbours(&tap, outcome, &hand);
    check_process(&tap, outcome, &hand);
    icl_regression_outcome_destroy(&outcome);
    check_no_leak(&tap, &table);
    check_scores(&tap, &table);
    check_planted(&tap);
    check_models(&tap, &table);
    check_context(&tap, &table);
    check_refusals(&tap, table);
    return tap_done(&tap);
}
