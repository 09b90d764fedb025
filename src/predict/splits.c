/* Which rows of a table may be learned from, and the random orders in which they are held out. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/random.h"
#include "numeric/statistics.h"
#include "predict/predict.h"

/* The most held-out predictions in all: if there are more labelled rows, these are enough. */
enum { MOST_HELD_OUT = 10000 };

/* The fewest rows that say anything about an error. */
enum { FEWEST_ROWS = 4 };

/* The squares of smaller differences would underflow in their sum. */
static const double least_spread = 1e-150;

/* ---- Requests ---- */

/* Names the option that brings omitted features back. */
static const char *hint_of_left_out(const icl_table *table) {
    size_t left_out = 0;

    for (size_t i = 0; i < table->step_count; i++) {
        if (strstr(table->steps[i].text, "--one-hot"))
            return "; --one-hot makes columns of text";
        left_out += strcmp(table->steps[i].what, "left-out") == 0;
    }
    return left_out > 0 ? "; --columns takes one that was left out" : "; --separator says what separates columns";
}

icl_status icl_check_columns(const icl_table *table, const icl_table *fresh, bool with_options, icl_error *error) {
    const size_t features = table->columns > 0 ? table->columns - 1 : 0;

    if (features == 0)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: no column beside the target: expected at least one feature%s",
                        table->name, with_options ? hint_of_left_out(table) : "");
    if (fresh && fresh->columns != features)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: %zu column%s: expected %zu, the features of %s", fresh->name,
                        fresh->columns, fresh->columns == 1 ? "" : "s", features, table->name);
    return ICL_OK;
}

icl_status icl_check_values(const icl_table *table, icl_error *error) {
    for (size_t i = 0; i < table->rows; i++)
        for (size_t k = 0; k < table->columns; k++)
            if (fabs(table->values[i * table->columns + k]) > ICL_TABLE_MAX_VALUE)
                return icl_fail(error, ICL_ERROR_INPUT, "%s:%zu: column %zu: %g: expected a magnitude of at most %g",
                                table->name, table->lines[i], k + 1, table->values[i * table->columns + k],
                                ICL_TABLE_MAX_VALUE);
    return ICL_OK;
}

static icl_status find_labelled(const icl_table *table, size_t folds, bool with_options, size_t **rows, size_t *count,
                                icl_error *error) {
    const size_t target = table->columns - 1;
    size_t labelled = 0;
    double least = HUGE_VAL, most = -HUGE_VAL;
    char hint[48] = "";

    ICL_CHECK(icl_allocate(table->rows, sizeof **rows, "labelled rows", rows, error));
    for (size_t i = 0; i < table->rows; i++) {
        const double value = table->values[i * table->columns + target];
        if (isnan(value))
            continue;
        (*rows)[labelled++] = i;
        least = fmin(least, value);
        most = fmax(most, value);
    }
    *count = labelled;
    if (labelled < FEWEST_ROWS)
        return icl_fail(
            error, ICL_ERROR_INPUT, "%s: %zu row%s with a target: expected at least %d%s%s", table->name, labelled,
            labelled == 1 ? "" : "s", FEWEST_ROWS, with_options ? " in --data" : "",
            with_options && table->omission_count > 0 ? "; --impute median keeps those with missing features" : "");
    if (with_options)
        snprintf(hint, sizeof hint, ": --folds %zu", labelled);
    if (labelled < folds)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s: %zu rows with a target for %zu folds: expected at most as many folds as rows%s",
                        table->name, labelled, folds, hint);
    if (!(most - least > 1e-12 * fmax(fabs(most), fabs(least))))
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s: column %zu (%s): the target is the same in every row: expected one that varies%s",
                        table->name, table->numbers[target], table->names[target],
                        with_options ? "; --target names another" : "");
    if (most - least < least_spread)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: column %zu (%s): the target varies by %g: expected at least %g",
                        table->name, table->numbers[target], table->names[target], most - least, least_spread);
    return ICL_OK;
}

/* ---- Random orders ---- */

typedef struct sort_key {
    uint32_t word;
    size_t index, item;
} sort_key;

static int compare_keys(const void *a, const void *b) {
    const sort_key *key = a, *y = b;
    if (key->word != y->word)
        return key->word < y->word ? -1 : 1;
    return key->index < y->index ? -1 : key->index > y->index;
}

icl_status icl_shuffle(uint32_t seed, uint32_t stream, uint64_t step, size_t count, size_t *items, icl_error *error) {
    const icl_random_key key = {seed, stream, step};
    sort_key *keys = NULL;

    ICL_CHECK(icl_allocate(count, sizeof *keys, "random order", &keys, error));
    for (size_t i = 0; i < count; i++)
        keys[i] = (sort_key){icl_random_word(key, i), i, items[i]};
    qsort(keys, count, sizeof *keys, compare_keys);
    for (size_t i = 0; i < count; i++)
        items[i] = keys[i].item;
    icl_free(&keys);
    return ICL_OK;
}

/* Finds items [first, end) of `count` that part number `part` of `parts` holds. */
static void find_part(size_t count, size_t parts, size_t part, size_t *first, size_t *end) {
    *first = count * part / parts;
    *end = count * (part + 1) / parts;
}

/* ---- A series ---- */

/* Origins of a series that has the rows for them. */
enum { ORIGINS = 10 };

/* The weights of correlated errors (Newey and West 1994, Bartlett weights, without their pilot estimate) reach over
 * 4 (n / 100)^(2/9) rows, and those of forecasts that overlap over ahead - 1 more. */
static size_t correlated_rows(const icl_time_series *series, size_t count) {
    const size_t reach = (size_t)(4 * pow((double)count / 100, 2.0 / 9)) + series->ahead - 1;
    return reach < count ? reach : count - 1;
}

/* Returns the standard error of the mean of values in the order of time, correlated up to `reach` values apart:
 *     sqrt((g_0 + 2 sum_{k=1}^{reach} (1 - k / (reach + 1)) g_k) / (n - 1)),
 * g_k = 1/n sum_t (v_t - m) (v_{t-k} - m), which is never the root of a negative number (Newey and West 1987); with a
 * reach of 0 that of independent values. reach < count. */
static double error_of_series(const double *values, size_t count, size_t reach) {
    const double base = count > 0 ? values[0] : 0;
    double mean = 0, sum = 0;

    if (count < 2)
        return 0;
    for (size_t i = 0; i < count; i++)
        mean += (values[i] - base) / (double)count;
    for (size_t k = 0; k <= reach; k++) {
        const double weight = k == 0 ? 1 : 2 * (1 - (double)k / (double)(reach + 1));
        for (size_t i = k; i < count; i++)
            sum += weight * (values[i] - base - mean) * (values[i - k] - base - mean);
    }
    return sqrt(fmax(sum, 0) / (double)count / (double)(count - 1));
}

double icl_error_of_mean(const icl_time_series *series, const double *errors, size_t count) {
    return series->lags > 0 ? error_of_series(errors, count, correlated_rows(series, count))
                            : icl_standard_error(errors, count);
}

icl_status icl_note_series(const icl_time_series *series, size_t count, icl_text *notes, icl_error *error) {
    if (series->lags == 0)
        return ICL_OK;
    return icl_text_print(notes, error,
                          "errors of a series are correlated: the standard errors allow for errors up to %zu rows "
                          "apart (Newey and West), and are themselves uncertain\n",
                          correlated_rows(series, count));
}

icl_fold icl_find_fold(const icl_time_series *series, size_t count, size_t folds, size_t fold) {
    const bool is_series = series->lags > 0;
    icl_fold found = {.known = count};

    find_part(count, is_series ? folds + 1 : folds, is_series ? fold + 1 : fold, &found.first, &found.end);
    if (is_series)
        found.known = found.first - (series->ahead - 1);
    return found;
}

/* Sets the number of folds of a series that has the rows for them. */
static icl_status plan_origins(const icl_table *table, const icl_held_out_request *request, icl_held_out *plan,
                               icl_error *error) {
    const size_t part = FEWEST_ROWS + table->series.ahead - 1, most = plan->labelled / part;
    const size_t needed = request->are_folds_given ? request->folds : 2;

    if (most < needed + 1)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s: %zu rows with their lags for %zu folds in the order of time: expected at least %zu, so "
                        "fewer lags%s",
                        table->name, plan->labelled, needed, (needed + 1) * part, needed > 2 ? " or folds" : "");
    plan->folds = request->are_folds_given ? request->folds : most - 1 < ORIGINS ? most - 1 : ORIGINS;
    plan->repeats = 1;
    plan->held_from = icl_find_fold(&table->series, plan->labelled, plan->folds, 0).first;
    return ICL_OK;
}

icl_status icl_begin_with_context(const icl_time_series *series, uint32_t seed, uint32_t stream, uint64_t step,
                                  size_t count, size_t *items, icl_error *error) {
    if (series->lags == 0)
        return icl_shuffle(seed, stream, step, count, items, error);
    for (size_t i = 0; i < count / 2; i++) {
        const size_t item = items[i];
        items[i] = items[count - 1 - i];
        items[count - 1 - i] = item;
    }
    return ICL_OK;
}

size_t icl_season_feature(const icl_time_series *series) {
    const size_t place = series->season - series->ahead;
    return place < series->lags ? place : series->lags;
}

/* ---- The plan ---- */

static size_t default_repeats(size_t rows, size_t most) {
    const size_t repeats = MOST_HELD_OUT / rows;
    return repeats < 1 ? 1 : repeats > most ? most : repeats;
}

icl_status icl_plan_held_out(const icl_table *table, const icl_held_out_request *request, icl_held_out *plan,
                             icl_error *error) {
    const bool is_series = table->series.lags > 0;

    ICL_CHECK(find_labelled(table, is_series || request->without_held_out ? 0 : request->folds,
                            !request->without_options, &plan->rows, &plan->labelled, error));
    if (request->without_held_out)
        return ICL_OK;
    if (is_series)
        return plan_origins(table, request, plan, error);
    plan->folds = request->folds;
    plan->repeats = request->repeats > 0 ? request->repeats : default_repeats(plan->labelled, request->most_repeats);
    return ICL_OK;
}
