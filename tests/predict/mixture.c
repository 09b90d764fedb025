/* Tests the mixture of methods on planted forecasts, by the definition and at its edges, and in icl_regress that the
 * order of rows and features changes nothing but rounding. */
#include <math.h>
#include <string.h>

#include "iclab/regression.h"
#include "predict/method.h"
#include "predict/predict.h"
#include "regressions.h"
#include "tap.h"

#define A     ICL_METHOD_RIDGE
#define B     ICL_METHOD_NEIGHBOURS
#define C     ICL_METHOD_GAUSSIAN_PROCESS
#define MIXED ICL_METHOD_MIXTURE

static const uint32_t three = 1u << A | 1u << B | 1u << C;

/* ---- Weights ---- */

static void check_weights(tap_run *tap, const char *name, uint32_t members, const double errors[3],
                          const double expected[3]) {
    const double mses[ICL_METHODS] = {[ICL_METHOD_MEAN] = 4, [A] = errors[0], [B] = errors[1], [C] = errors[2]};
    icl_method_mixture mixture = {0};
    double others = 0, scores[1] = {0};

    icl_mixing.find(members, mses, scores, 1, 1, &mixture);
    for (size_t i = 0; i < ICL_METHODS; i++)
        others += i == A || i == B || i == C ? 0 : mixture.weights[i];
    tap_ok(tap,
           others == 0 && near(mixture.weights[A], expected[0], 1e-15) &&
               near(mixture.weights[B], expected[1], 1e-15) && near(mixture.weights[C], expected[2], 1e-15) &&
               near(mixture.least_width, 2e-6, 1e-15),
           "%s: %g, %g, %g", name, mixture.weights[A], mixture.weights[B], mixture.weights[C]);
}

static void check_all_weights(tap_run *tap) {
    const double nan = (double)NAN;

    check_weights(tap, "one over the square of the error", three, (double[]){1, 2, 4},
                  (double[]){16 / 21.0, 4 / 21.0, 1 / 21.0});
    check_weights(tap, "in any unit", three, (double[]){1e-200, 2e-200, 4e-200},
                  (double[]){16 / 21.0, 4 / 21.0, 1 / 21.0});
    check_weights(tap, "ties share", three, (double[]){3, 3, 3}, (double[]){1 / 3.0, 1 / 3.0, 1 / 3.0});
    check_weights(tap, "a method that was never wrong", three, (double[]){1, 0, 2}, (double[]){0, 1, 0});
    check_weights(tap, "two of them", three, (double[]){0, 0, 2}, (double[]){.5, .5, 0});
    check_weights(tap, "errors that are no numbers", three, (double[]){HUGE_VAL, nan, 7}, (double[]){0, 0, 1});
    check_weights(tap, "one method", 1u << B, (double[]){1, 7, 1}, (double[]){0, 1, 0});
    check_weights(tap, "no error is known", three, (double[]){nan, nan, nan}, (double[]){1 / 3.0, 1 / 3.0, 1 / 3.0});
}

/* The numbers are of few binary digits, so that sums are exact. */
static void check_means(tap_run *tap) {
    const icl_method_mixture mixture = {.weights = {[A] = .5, [B] = .25, [C] = .25}, .margin_50 = .5, .margin_80 = 2};
    icl_forecast forecasts[ICL_METHODS] = {[A] = {8, 4, 16, 6, 10},
                                           [B] = {16, 0, 32, 12, 20},
                                           [C] = {-8, -16, 0, -12, -4},
                                           [MIXED] = {99, 99, 99, 99, 99}};
    icl_forecast mixed = icl_mixing.mix(&mixture, forecasts);

    tap_ok(tap, mixed.mean == 6, "a weighted mean of predictions");
    tap_ok(tap, mixed.low_80 == -12 && mixed.high_80 == 24 && mixed.low_50 == 1.5 && mixed.high_50 == 10.5,
           "intervals are margins times half the mean width of 80 %%, which is 9");
    forecasts[A].mean = HUGE_VAL;
    mixed = icl_mixing.mix(&mixture, forecasts);
    tap_ok(tap, mixed.mean == 4 && mixed.low_80 == -20, "a prediction that is not finite is left out, its width, too");
    forecasts[B].mean = forecasts[C].mean = (double)NAN;
    tap_ok(tap, isnan(icl_mixing.mix(&mixture, forecasts).mean), "without any other there is none");
}

/* ---- Rows held out ---- */

enum { HELD = 12, HELD_FOLDS = 3, PART = HELD / HELD_FOLDS };

typedef struct planted {
    double targets[HELD], scores[HELD];
    icl_forecast forecasts[HELD][ICL_METHODS];
} planted;

/* Method A is exact in the first fold alone, and 3 off elsewhere; B is always off by 1, now above and now below, and C
 * by 2. Its intervals have half-widths of 1, 2 and 4 in 80 %. */
static planted plant(void) {
    planted made = {0};

    for (size_t i = 0; i < HELD; i++) {
        const double target = (double)(7 * i % 5), sign = i % 2 == 0 ? 1 : -1;
        const double misses[3] = {i < PART ? 0 : 3, sign, -2 * sign};
        made.targets[i] = target;
        for (size_t k = 0; k < 3; k++) {
            const double mean = target + misses[k], width = (double)(1 << k);
            made.forecasts[i][A + k] =
                (icl_forecast){mean, mean - width, mean + width, mean - width / 2, mean + width / 2};
        }
        made.forecasts[i][ICL_METHOD_MEAN].mean = 2;
    }
    return made;
}

static void hold_out(planted *rows, uint32_t members, icl_time_series series) {
    const size_t from = series.lags > 0 ? icl_find_fold(&series, HELD, HELD_FOLDS, 0).first : 0;
    const icl_held_forecasts held = {.series = series,
                                     .members = members,
                                     .count = HELD,
                                     .folds = HELD_FOLDS,
                                     .from = from,
                                     .targets = rows->targets,
                                     .forecasts = &rows->forecasts[0][0],
                                     .scores = rows->scores};

    tap_need(icl_mixing.hold_out(&held, tap_error()));
}

/* For the first fold the mean squared errors elsewhere are 9, 1 and 4; for the others 4.5, 1 and 4. */
static void check_held_out(tap_run *tap) {
    planted rows = plant();
    bool is_mean = true;

    hold_out(&rows, three, (icl_time_series){0});
    for (size_t i = 0; i < HELD; i++) {
        const double wa = i < PART ? 1 / 81.0 : 1 / 20.25, wb = 1, wc = 1 / 16.0, sign = i % 2 == 0 ? 1 : -1;
        const double off = (wa * (i < PART ? 0 : 3) + wb * sign - 2 * wc * sign) / (wa + wb + wc);
        is_mean = is_mean && near(rows.forecasts[i][MIXED].mean, rows.targets[i] + off, 1e-14);
    }
    tap_ok(tap, is_mean, "a fold's weights are those of the other folds: being exact in it is worth nothing there");
}

/* Intervals by hand: of 8 scores in other folds the 5th and the 8th, ceil(.5 9) and ceil(.8 9). */
static void check_intervals(tap_run *tap) {
    planted rows = plant();
    double misses[HELD], widths[HELD];
    bool is_right = true;

    hold_out(&rows, three, (icl_time_series){0});
    for (size_t i = 0; i < HELD; i++) {
        const double wa = i < PART ? 1 / 81.0 : 1 / 20.25, wb = 1, wc = 1 / 16.0;
        double variance = 0;
        for (size_t k = 0; k < HELD; k++)
            variance += k / PART == i / PART ? 0 : pow(rows.targets[k] - 2, 2) / (HELD - PART);
        misses[i] = fabs(rows.forecasts[i][MIXED].mean - rows.targets[i]);
        widths[i] = (wa + 2 * wb + 4 * wc) / (wa + wb + wc) + 1e-6 * sqrt(variance);
    }
    for (size_t i = 0; i < HELD; i++) {
        const icl_forecast *mixed = &rows.forecasts[i][MIXED];
        double scores[HELD];
        size_t count = 0;
        for (size_t k = 0; k < HELD; k++)
            if (k / PART != i / PART) {
                size_t at = count++;
                for (; at > 0 && scores[at - 1] > misses[k] / widths[k]; at--)
                    scores[at] = scores[at - 1];
                scores[at] = misses[k] / widths[k];
            }
        is_right = is_right && near(mixed->high_80 - mixed->mean, scores[7] * widths[i], 1e-12) &&
                   near(mixed->mean - mixed->low_80, scores[7] * widths[i], 1e-12) &&
                   near(mixed->high_50 - mixed->mean, scores[4] * widths[i], 1e-12) &&
                   near(mixed->mean - mixed->low_50, scores[4] * widths[i], 1e-12);
    }
    tap_ok(tap, is_right, "intervals are order statistics of other folds' residuals over widths");
}

/* Targets of a fold change all predictions but its own. */
static void check_no_leak(tap_run *tap) {
    planted before = plant(), after = plant();
    size_t kept = 0;

    for (size_t i = PART; i < 2 * PART; i++)
        after.targets[i] += 100 + (double)i;
    hold_out(&before, three, (icl_time_series){0});
    hold_out(&after, three, (icl_time_series){0});
    for (size_t i = 0; i < HELD; i++)
        kept += (before.forecasts[i][MIXED].mean == after.forecasts[i][MIXED].mean) == (i / PART == 1);
    tap_ok(tap, kept == HELD, "a fold's targets tell nothing about its own predictions, and something about others'");
}

/* Method A fails in the last fold, as a number that is none. */
static void check_failure(tap_run *tap) {
    planted rows = plant(), without = plant();
    bool is_same = true;

    rows.forecasts[HELD - 1][A].mean = HUGE_VAL;
    hold_out(&rows, three, (icl_time_series){0});
    hold_out(&without, three & ~(1u << A), (icl_time_series){0});
    for (size_t i = 0; i < HELD - PART; i++)
        is_same = is_same && rows.forecasts[i][MIXED].mean == without.forecasts[i][MIXED].mean;
    tap_ok(tap, is_same && rows.forecasts[HELD - 1][MIXED].mean == without.forecasts[HELD - 1][MIXED].mean,
           "a method that fails in one fold has no weight in the others, and none where it fails");
    rows = plant();
    hold_out(&rows, 1u << B, (icl_time_series){0});
    is_same = true;
    for (size_t i = 0; i < HELD; i++)
        is_same = is_same && rows.forecasts[i][MIXED].mean == rows.forecasts[i][B].mean;
    tap_ok(tap, is_same, "the mixture of one method is that method");
}

/* Parts of three begin at 3, 6 and 9 of 12 rows of a series; two rows ahead the last row before is not yet known. */
static void check_series(tap_run *tap) {
    const icl_time_series series = {.lags = 1, .ahead = 2};
    planted rows = plant(), later = plant();
    bool is_equal = true, is_kept = true;

    hold_out(&rows, three, series);
    for (size_t i = 3; i < 6; i++) {
        const icl_forecast *f = rows.forecasts[i];
        is_equal = is_equal && near(f[MIXED].mean, (f[A].mean + f[B].mean + f[C].mean) / 3, 1e-14) &&
                   near(f[MIXED].high_80, (f[A].high_80 + f[B].high_80 + f[C].high_80) / 3, 1e-14);
    }
    tap_ok(tap, is_equal, "before any error is known, methods and intervals are averaged");
    /* At the second origin, 6, rows 3 and 4 are known: errors of 4.5, 1 and 4, and two residuals over half-widths of
     * (1 + 2 + 4) / 3. A millionth of the targets' deviation is added to the next ones. */
    const double first = fabs(rows.forecasts[3][MIXED].mean - rows.targets[3]) * 3 / 7;
    const double second = fabs(rows.forecasts[4][MIXED].mean - rows.targets[4]) * 3 / 7;
    const double width = (1 / 20.25 + 2 + 4 / 16.0) / (1 / 20.25 + 1 + 1 / 16.0);
    tap_ok(
        tap,
        near(rows.scores[3], first, 1e-14) && near(rows.scores[4], second, 1e-14) &&
            near(rows.forecasts[6][MIXED].high_80 - rows.forecasts[6][MIXED].mean, fmax(first, second) * width, 1e-5),
        "their residuals make the next intervals");
    for (size_t i = 8; i < HELD; i++)
        later.targets[i] = -50;
    hold_out(&later, three, series);
    for (size_t i = 3; i < HELD; i++)
        is_kept = is_kept && memcmp(&rows.forecasts[i][MIXED], &later.forecasts[i][MIXED], sizeof(icl_forecast)) == 0;
    tap_ok(tap, is_kept, "what is not yet known at an origin tells nothing");
    later = plant();
    later.targets[7] = -50;
    hold_out(&later, three, series);
    tap_ok(tap, rows.forecasts[9][MIXED].mean != later.forecasts[9][MIXED].mean, "the last that is known does");
}

/* A series that never moved and then does: every method was exact and sure. */
static void check_surprise(tap_run *tap) {
    planted rows = {0};
    bool is_finite = true;

    for (size_t i = 6; i < HELD; i++)
        rows.targets[i] = 1;
    hold_out(&rows, three, (icl_time_series){.lags = 1, .ahead = 1});
    for (size_t i = 3; i < HELD; i++)
        is_finite =
            is_finite && isfinite(rows.forecasts[i][MIXED].low_80) && isfinite(rows.forecasts[i][MIXED].high_50);
    tap_ok(tap, is_finite && rows.forecasts[9][MIXED].high_80 > 100, "surprises make intervals wide, and finite");
}

/* ---- In icl_regress ---- */

static icl_regression_outcome *regress(const icl_regression_params *params) {
    icl_regression_outcome *outcome = NULL;

    tap_need(icl_regress(params, &outcome, tap_error()));
    return outcome;
}

static bool are_near(const icl_forecast *a, const icl_forecast *b) {
    return near(a->mean, b->mean, 1e-9) && near(a->low_80, b->low_80, 1e-9) && near(a->high_80, b->high_80, 1e-9) &&
           near(a->low_50, b->low_50, 1e-9) && near(a->high_50, b->high_50, 1e-9);
}

/* With a fold for each row, their order decides nothing; nor does that of features. Of a standardized sum of a few
 * dozen numbers rounding leaves 1e-14, and 1e-9 has room for the condition of the regressions. */
static void check_orders(tap_run *tap, const icl_table *table) {
    static double rows[ROWS * COLUMNS], features[ROWS * COLUMNS];
    icl_table of_rows = *table, of_features = *table;
    icl_regression_params params = {
        .table = table, .folds = ROWS, .repeats = 1, .methods = 1u << MIXED | 1u << A | 1u << B, .seed = 3};
    icl_regression_outcome *plain = regress(&params), *outcome;
    bool is_same = plain->answer == MIXED;

    for (size_t i = 0; i < ROWS; i++) {
        memcpy(rows + i * COLUMNS, table->values + (ROWS - 1 - i) * COLUMNS, COLUMNS * sizeof *rows);
        for (size_t k = 0; k < COLUMNS; k++)
            features[i * COLUMNS + k] = table->values[i * COLUMNS + (k < FEATURES ? FEATURES - 1 - k : k)];
    }
    of_rows.values = rows;
    of_features.values = features;
    params.table = &of_rows;
    outcome = regress(&params);
    for (size_t i = 0; i < ROWS; i++)
        is_same = is_same && are_near(plain->heldout + i * ICL_METHODS + MIXED,
                                      outcome->heldout + (ROWS - 1 - i) * ICL_METHODS + MIXED);
    icl_regression_outcome_destroy(&outcome);
    tap_ok(tap, is_same, "the order of rows changes rounding alone");
    params.table = &of_features;
    outcome = regress(&params);
    for (size_t i = 0; i < ROWS; i++)
        is_same =
            is_same && are_near(plain->heldout + i * ICL_METHODS + MIXED, outcome->heldout + i * ICL_METHODS + MIXED);
    icl_regression_outcome_destroy(&outcome);
    icl_regression_outcome_destroy(&plain);
    tap_ok(tap, is_same, "nor does that of features");
}

/* The mixture of all rows follows from the scores; predictions are mixed by it, and by it alone if it is handed over.
 * With two repeats each row has two scores. */
static void check_whole(tap_run *tap, const icl_table *whole) {
    icl_table table = *whole;
    double values[ROWS * COLUMNS];
    icl_regression_params params = {.table = &table, .seed = 3, .without_importance = true};
    icl_regression_outcome *outcome, *again;
    double sum = 0;
    bool is_right = true;

    memcpy(values, whole->values, sizeof values);
    values[2 * COLUMNS + FEATURES] = values[9 * COLUMNS + FEATURES] = (double)NAN;
    table.values = values;
    outcome = regress(&params);
    for (size_t k = A; k <= C; k++)
        sum += pow(outcome->scores[k].mse, -2);
    for (size_t i = 0; i < outcome->predicted; i++) {
        const icl_forecast *f = outcome->forecasts + i * ICL_METHODS;
        double mean = 0, width = 1e-6 * sqrt(outcome->scores[ICL_METHOD_MEAN].mse);
        for (size_t k = A; k <= C; k++) {
            const double weight = pow(outcome->scores[k].mse, -2) / sum;
            mean += weight * f[k].mean;
            width += weight * (f[k].high_80 - f[k].low_80) / 2;
            is_right = is_right && near(outcome->mixture.weights[k], weight, 1e-12);
        }
        is_right = is_right && near(f[MIXED].mean, mean, 1e-12) &&
                   near(f[MIXED].high_80 - mean, outcome->mixture.margin_80 * width, 1e-9) &&
                   near(mean - f[MIXED].low_50, outcome->mixture.margin_50 * width, 1e-9);
    }
    tap_ok(tap, is_right && outcome->predicted == 2 && outcome->answer == MIXED && outcome->repeats == 2,
           "what predicts is the mixture by the errors of all folds and repeats");
    params.without_held_out = true;
    params.mixture = &outcome->mixture;
    again = regress(&params);
    tap_ok(tap,
           again->answer == MIXED && !again->heldout &&
               memcmp(again->forecasts, outcome->forecasts, 2 * ICL_METHODS * sizeof(icl_forecast)) == 0,
           "handed over, it predicts the same without rows held out");
    icl_regression_outcome_destroy(&again);
    icl_regression_outcome_destroy(&outcome);
}

/* The margins are of the residuals of both repeats, over half the widths of ridge, which is all that is mixed. The
 * forecasts of the second repeat follow from the mean of both; the width that is added is a millionth. */
static void check_repeats(tap_run *tap, const icl_table *table) {
    icl_regression_params params = {
        .table = table, .repeats = 1, .seed = 3, .methods = 1u << MIXED | 1u << A, .without_importance = true};
    icl_regression_outcome *one = regress(&params), *both;
    double scores[2 * ROWS];

    params.repeats = 2;
    both = regress(&params);
    for (size_t i = 0; i < 2 * ROWS; i++) {
        const icl_forecast *f = one->heldout + i / 2 * ICL_METHODS + A, *g = both->heldout + i / 2 * ICL_METHODS + A;
        const double target = table->values[i / 2 * COLUMNS + FEATURES];
        const double mean = i % 2 == 0 ? f->mean : 2 * g->mean - f->mean;
        const double width =
            i % 2 == 0 ? f->high_80 - f->low_80 : 2 * (g->high_80 - g->low_80) - f->high_80 + f->low_80;
        size_t at = i;
        for (; at > 0 && scores[at - 1] > fabs(mean - target) * 2 / width; at--)
            scores[at] = scores[at - 1];
        scores[at] = fabs(mean - target) * 2 / width;
    }
    /* The places are the 12th and the 20th of 23 rows, ceil(.5 24) and ceil(.8 24); each row stands twice. */
    tap_ok(tap, near(both->mixture.margin_50, scores[23], 1e-5) && near(both->mixture.margin_80, scores[39], 1e-5),
           "margins of both repeats: %g, %g", both->mixture.margin_50, both->mixture.margin_80);
    icl_regression_outcome_destroy(&one);
    icl_regression_outcome_destroy(&both);
}

/* Whether it runs, by what is asked for. */
static void check_requests(tap_run *tap, const icl_table *table) {
    icl_regression_params params = {.table = table, .without_importance = true, .methods = 1u << A};
    icl_regression_outcome *outcome = regress(&params);
    icl_error error = {0};

    tap_ok(tap, outcome->answer == A && outcome->methods == (1u << A | 1u) && outcome->mixture.weights[A] == 0,
           "a method that is named predicts by itself");
    icl_regression_outcome_destroy(&outcome);
    params.methods = 1u << MIXED;
    outcome = regress(&params);
    tap_ok(tap, outcome->answer == MIXED && outcome->methods == (three | 1u | 1u << MIXED),
           "the mixture is of the usual");
    icl_regression_outcome_destroy(&outcome);
    params.methods = 1u << MIXED | 1u;
    outcome = regress(&params);
    tap_ok(tap, outcome->answer == ICL_METHOD_MEAN && outcome->methods == 1, "the mean alone is no mixture");
    icl_regression_outcome_destroy(&outcome);
    params.without_held_out = true;
    params.methods = 0;
    outcome = regress(&params);
    tap_ok(tap, outcome->answer == C && !(outcome->methods >> MIXED & 1), "without rows held out there is none");
    icl_regression_outcome_destroy(&outcome);
    params.methods = 1u << MIXED;
    tap_ok(tap,
           icl_regress(&params, &outcome, &error) == ICL_ERROR_INPUT && strstr(error.message, "expected its weights"),
           "%s", error.message);
}

/* All targets but one are equal: outside that row's fold there is nothing to learn, and methods are sure of it. */
static void check_constant(tap_run *tap, icl_table table) {
    double values[ROWS * COLUMNS];
    bool is_finite = true;

    memcpy(values, table.values, sizeof values);
    for (size_t i = 0; i < ROWS; i++)
        values[i * COLUMNS + FEATURES] = i == 4 ? 1 : 0;
    table.values = values;
    table.rows = 6;
    icl_regression_outcome *outcome = regress(&(icl_regression_params){.table = &table, .folds = 6, .repeats = 1});
    for (size_t i = 0; i < 6; i++) {
        const icl_forecast *mixed = outcome->heldout + i * ICL_METHODS + MIXED;
        is_finite = is_finite && isfinite(mixed->low_80) && isfinite(mixed->high_80) && isfinite(mixed->mean);
    }
    tap_ok(tap, is_finite && isfinite(outcome->scores[MIXED].mse) && isfinite(outcome->mixture.margin_80),
           "targets that are constant in the rows learned from: all numbers are numbers");
    icl_regression_outcome_destroy(&outcome);
}

int main(void) {
    tap_run tap = {0};
    double values[ROWS * COLUMNS];
    const icl_table table = make_table(values);

    check_all_weights(&tap);
    check_means(&tap);
    check_held_out(&tap);
    check_intervals(&tap);
    check_no_leak(&tap);
    check_failure(&tap);
    check_series(&tap);
    check_surprise(&tap);
    check_orders(&tap, &table);
    check_whole(&tap, &table);
    check_repeats(&tap, &table);
    check_requests(&tap, &table);
    check_constant(&tap, table);
    return tap_done(&tap);
}
