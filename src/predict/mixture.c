/* The mixture of methods: weights from errors on rows held out, and intervals from residuals there (iclab/regression.h
 * has the formulas). */
#include <math.h>

#include "core/allocate.h"
#include "numeric/statistics.h"
#include "predict/method.h"
#include "predict/predict.h"

/* The least half-width of an interval, over the deviation of the targets from their mean: more than rounding. */
static const double least_share = 1e-6;

/* The largest residual over the half-width, where methods were sure and wrong. */
static const double most_score = 1e9;

const icl_method_functions icl_mixture_method = {.name = "mixture", .takes_all_rows = true};

/* ---- Weights ---- */

/* Sets weights and the least width, 0 without an error of the mean. */
static void weigh(uint32_t members, const double mses[ICL_METHODS], icl_method_mixture *mixture) {
    double least = HUGE_VAL, count = 0, sum = 0;

    for (size_t i = 0; i < ICL_METHODS; i++)
        if (members >> i & 1) {
            least = fmin(least, mses[i]);
            count++;
        }
    for (size_t i = 0; i < ICL_METHODS; i++) {
        const double share = !(members >> i & 1) || !isfinite(mses[i]) ? 0 : mses[i] > least ? least / mses[i] : 1;
        mixture->weights[i] = share * share;
        sum += share * share;
    }
    for (size_t i = 0; i < ICL_METHODS; i++)
        mixture->weights[i] = sum > 0 ? mixture->weights[i] / sum : (members >> i & 1) / count;
    mixture->least_width = isfinite(mses[ICL_METHOD_MEAN]) ? least_share * sqrt(mses[ICL_METHOD_MEAN]) : 0;
}

/* Returns the weighted mean of forecasts, of their intervals, too. */
static icl_forecast average(const icl_method_mixture *mixture, const icl_forecast forecasts[ICL_METHODS]) {
    icl_forecast sum = {0};
    double total = 0;

    for (size_t i = 0; i < ICL_METHODS; i++) {
        if (!(mixture->weights[i] > 0) || !isfinite(forecasts[i].mean))
            continue;
        icl_forecast_add(&sum, &forecasts[i], mixture->weights[i]);
        total += mixture->weights[i];
    }
    return (icl_forecast){sum.mean / total, sum.low_80 / total, sum.high_80 / total, sum.low_50 / total,
                          sum.high_50 / total};
}

/* ---- Intervals ---- */

static double half_width(const icl_method_mixture *mixture, const icl_forecast *mixed) {
    return (mixed->high_80 - mixed->low_80) / 2 + mixture->least_width;
}

static double score_of(const icl_method_mixture *mixture, const icl_forecast *mixed, double target) {
    const double miss = fabs(mixed->mean - target), score = miss / half_width(mixture, mixed);
    return miss == 0 ? 0 : score < most_score ? score : most_score;
}

/* Sets the margins from scores [copies * count]. Sorts them. */
static void set_margins(double *scores, size_t count, size_t copies, icl_method_mixture *mixture) {
    icl_sort_ascending(scores, count * copies);
    mixture->margin_50 = icl_conformal_quantile(scores, count, copies, .5);
    mixture->margin_80 = icl_conformal_quantile(scores, count, copies, .8);
}

/* Returns a weighted mean with the intervals of the mixture. */
static icl_forecast widen(const icl_method_mixture *mixture, const icl_forecast *mixed) {
    const double width = half_width(mixture, mixed);
    const double to_80 = mixture->margin_80 * width, to_50 = mixture->margin_50 * width;

    return (icl_forecast){mixed->mean, mixed->mean - to_80, mixed->mean + to_80, mixed->mean - to_50,
                          mixed->mean + to_50};
}

/* ---- Rows held out ---- */

/* Whether the item tells something about a fold: it is held out by another one, and was known at the fold's origin. */
static bool tells(const icl_held_forecasts *held, const icl_fold *fold, size_t item) {
    return item >= held->from && item < fold->known && (item < fold->first || item >= fold->end);
}

/* Weighs the methods by the errors of items that tell something. */
static void weigh_for(const icl_held_forecasts *held, const icl_fold *fold, icl_method_mixture *mixture) {
    double mses[ICL_METHODS] = {0};
    size_t count = 0;

    for (size_t i = 0; i < held->count; i++) {
        if (!tells(held, fold, i))
            continue;
        for (size_t k = 0; k < ICL_METHODS; k++) {
            const double miss = held->forecasts[i * ICL_METHODS + k].mean - held->targets[i];
            mses[k] += miss * miss;
        }
        count++;
    }
    for (size_t k = 0; k < ICL_METHODS; k++)
        mses[k] = count > 0 ? mses[k] / (double)count : (double)NAN;
    weigh(held->members, mses, mixture);
}

/* Sets the margins to those of the scores of items that tell something. work: [count]. */
static void set_margins_for(const icl_held_forecasts *held, const icl_fold *fold, double *work,
                            icl_method_mixture *mixture) {
    size_t count = 0;

    for (size_t i = 0; i < held->count; i++)
        if (tells(held, fold, i))
            work[count++] = held->scores[i];
    set_margins(work, count, 1, mixture);
}

static icl_status hold_out(const icl_held_forecasts *held, icl_error *error) {
    icl_method_mixture *mixtures = NULL;
    double *work = NULL;
    icl_status status;

    ICL_TRY(icl_allocate(held->folds, sizeof *mixtures, "mixtures", &mixtures, error));
    ICL_TRY(icl_allocate(held->count, sizeof *work, "residuals", &work, error));
    for (size_t k = 0; k < held->folds; k++) {
        const icl_fold fold = icl_find_fold(&held->series, held->count, held->folds, k);
        weigh_for(held, &fold, &mixtures[k]);
        for (size_t i = fold.first; i < fold.end; i++) {
            icl_forecast *forecasts = held->forecasts + i * ICL_METHODS;
            forecasts[ICL_METHOD_MIXTURE] = average(&mixtures[k], forecasts);
            held->scores[i] = score_of(&mixtures[k], &forecasts[ICL_METHOD_MIXTURE], held->targets[i]);
        }
    }
    /* Every score is known before the first interval is another. */
    for (size_t k = 0; k < held->folds; k++) {
        const icl_fold fold = icl_find_fold(&held->series, held->count, held->folds, k);
        if (held->series.lags > 0 && fold.known <= held->from)
            continue;
        set_margins_for(held, &fold, work, &mixtures[k]);
        for (size_t i = fold.first; i < fold.end; i++) {
            icl_forecast *mixed = &held->forecasts[i * ICL_METHODS + ICL_METHOD_MIXTURE];
            *mixed = widen(&mixtures[k], mixed);
        }
    }
done:
    icl_free(&mixtures);
    icl_free(&work);
    return status;
}

/* ---- All rows ---- */

static void find(uint32_t members, const double mses[ICL_METHODS], double *scores, size_t held, size_t repeats,
                 icl_method_mixture *mixture) {
    weigh(members, mses, mixture);
    set_margins(scores, held, repeats, mixture);
}

static icl_forecast mix(const icl_method_mixture *mixture, const icl_forecast forecasts[ICL_METHODS]) {
    const icl_forecast mixed = average(mixture, forecasts);
    return widen(mixture, &mixed);
}

const icl_mixture_functions icl_mixing = {hold_out, find, mix};
