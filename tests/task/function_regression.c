/*
 * Regressions among the reference predictors of function classes: losses against closed forms and a table within
 * standard errors; predictions against the normal equations and another minimiser of the lasso's objective.
 */
#include "eliminate.h"
#include "function_shown.h"

/* ---- Closed forms and tables ---- */

/* Linear functions without noise, errors over d: 1, (d + 1) / k, 1 - k / d. */
static icl_status check_closed_forms(tap_run *tap, icl_error *error) {
    enum { D = 5, N = 10 };
    static const char *const names[] = {"zero", "averaging", "least-squares"};
    shown all;
    icl_status status = ICL_OK;

    ICL_TRY(shown_open(&all, 4096, "task.d=5 task.n=10 task.noise=0", error));
    for (size_t i = 0; i < 3; i++) {
        double worst = 0;
        ICL_TRY(run(&all, names[i], error));
        for (size_t k = 0; k <= N; k++) {
            const double form = i == 0 || k == 0 ? 1 : i == 1 ? (D + 1) / (double)k : fmax(0, 1 - (double)k / D);
            const statistic seen = loss_at(&all, k);
            worst = fmax(worst, form > 0 ? deviation(&seen, form * D) : seen.sum / seen.count > 1e-6 ? 99 : 0);
        }
        tap_ok(tap, worst < BOUND, "%s: its closed form at every position (%.1f standard errors)", names[i], worst);
    }
done:
    shown_close(&all);
    return status;
}

/* Ridge at D = 8, K = 16, noise .5, errors over D after 0 … 15 pairs, by another program with an error like ours. */
static icl_status check_ridge_row(tap_run *tap, icl_error *error) {
    static const double row[] = {.98, .89, .76, .66, .55, .43, .33, .24, .18, .128, .101, .080, .065, .051, .044, .038};
    shown all;
    double worst = 0;
    icl_status status = ICL_OK;

    ICL_TRY(shown_open(&all, 2048, "task.d=8 task.n=15 task.noise=0.5", error));
    ICL_TRY(run(&all, "ridge", error));
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        const statistic seen = loss_at(&all, k);
        const double mean = seen.sum / seen.count / 8, variance = seen.squares / seen.count / 64 - mean * mean;
        const double rounding = k < 9 ? .005 : .0005;
        worst = fmax(worst, (fabs(mean - row[k]) - rounding) / sqrt(2 * variance / seen.count));
    }
    tap_ok(tap, worst < 3, "ridge: the row of D = 8, noise .5 (%.1f standard errors of both)", worst);
done:
    shown_close(&all);
    return status;
}

/* ---- Regression ---- */

/* x_k . w by elimination: with more pairs than coordinates, or a penalty, from (X^T X + penalty I) w = X^T y, otherwise
 * X^T (X X^T)^-1 y. */
static double solve(const shown *all, size_t s, size_t k, double penalty) {
    const size_t d = all->d;
    const bool is_long = penalty > 0 || k >= d;
    const size_t size = is_long ? d : k;
    double matrix[MOST * MOST], right[MOST], sum = 0;

    for (size_t a = 0; a < size; a++) {
        right[a] = is_long ? 0 : y_of(all, s, a);
        for (size_t i = 0; i < k && is_long; i++)
            right[a] += y_of(all, s, i) * (double)x_of(all, s, i)[a];
        for (size_t b = 0; b < size; b++) {
            double *entry = &matrix[a * size + b];
            *entry = is_long ? (a == b ? penalty : 0) : dot(x_of(all, s, a), x_of(all, s, b), d);
            for (size_t i = 0; i < k && is_long; i++)
                *entry += (double)x_of(all, s, i)[a] * (double)x_of(all, s, i)[b];
        }
    }
    eliminate(size, size, matrix, right);
    for (size_t a = 0; a < size; a++)
        sum += right[a] * (is_long ? (double)x_of(all, s, k)[a] : dot(x_of(all, s, a), x_of(all, s, k), d));
    return sum;
}

/* Outliers: of so many labels the noise has this variance. */
static icl_status check_regression_with(tap_run *tap, const char *more, double outliers, double variance,
                                        icl_error *error) {
    shown all;
    char text[160];
    icl_status status = ICL_OK;

    snprintf(text, sizeof text, "task.d=4 task.n=9 task.noise=choice:0.5,2 task.output_scale=3 %s", more);
    ICL_TRY(shown_open(&all, 16, text, error));
    for (int penalized = 0; penalized < 2; penalized++) {
        double worst = 0;
        ICL_TRY(run(&all, penalized ? "ridge" : "least-squares", error));
        for (size_t s = 0; s < all.count; s++)
            for (size_t k = 0; k < all.points; k++) {
                const double level = (double)all.levels[s],
                             noise = (1 - outliers) * level * level + outliers * variance;
                const double expected = k > 0 ? solve(&all, s, k, penalized ? noise / 9 : 0) : 0;
                worst = fmax(worst, fabs(output(&all, s, k) - expected) / (1 + fabs(expected)));
            }
        tap_ok(tap, worst < 1e-6, "%s %s: the normal equations (%.1e)", penalized ? "ridge" : "least-squares", more,
               worst);
    }
done:
    shown_close(&all);
    return status;
}

static icl_status check_regression(tap_run *tap, icl_error *error) {
    ICL_CHECK(check_regression_with(tap, "", 0, 0, error));
    return check_regression_with(tap, "task.outliers=0.2 task.outlier_size=3", .2, 9, error);
}

/* Proximal gradient descent on |y - X w|^2 / (2 k) + A |w|_1, to the end. */
static double descend_lasso(const shown *all, size_t s, size_t k, double penalty) {
    double w[MOST] = {0}, sum = 0, trace = 0;

    for (size_t i = 0; i < k; i++)
        trace += dot(x_of(all, s, i), x_of(all, s, i), all->d) / (double)k;
    for (int step = 0; step < 20000; step++) {
        double slope[MOST] = {0};
        for (size_t i = 0; i < k; i++) {
            double miss = -y_of(all, s, i);
            for (size_t j = 0; j < all->d; j++)
                miss += w[j] * (double)x_of(all, s, i)[j];
            for (size_t j = 0; j < all->d; j++)
                slope[j] += miss * (double)x_of(all, s, i)[j] / (double)k;
        }
        for (size_t j = 0; j < all->d; j++) {
            const double free = w[j] - slope[j] / trace;
            w[j] = copysign(fmax(0, fabs(free) - penalty / trace), free);
        }
    }
    for (size_t j = 0; j < all->d; j++)
        sum += w[j] * (double)x_of(all, s, k)[j];
    return sum;
}

static icl_status check_lasso(tap_run *tap, icl_error *error) {
    shown all;
    double worst;
    icl_status status = ICL_OK;

    ICL_TRY(shown_open(&all, 4, "task.d=4 task.n=9 task.noise=0.3 task.class=sparse task.lasso=0.2", error));
    ICL_TRY(run(&all, "lasso:0.2", error));
    worst = largest_miss(&all, 5, 2, descend_lasso, .2);
    tap_ok(tap, worst < 1e-4, "lasso: the minimum that proximal gradient descent finds (%.1e)", worst);
done:
    shown_close(&all);
    return status;
}

/* d = 1, least-squares on squares: y = a x^2 is found from one pair. */
static icl_status check_squares(tap_run *tap, icl_error *error) {
    shown all;
    double sum = 0;
    icl_status status = ICL_OK;

    ICL_TRY(shown_open(&all, 64, "task.d=3 task.n=5 task.noise=0 task.class=quadratic", error));
    ICL_TRY(run(&all, "squares", error));
    for (size_t k = 3; k < all.points; k++)
        sum += loss_at(&all, k).sum;
    tap_ok(tap, sum < 1e-6 && loss_at(&all, 2).sum > 1, "squares: quadratic functions from d pairs (%.1e)", sum);
done:
    shown_close(&all);
    return status;
}

/* ---- Noise with tails and outliers ---- */

static double normal_density(double miss, double sigma) {
    return exp(-.5 * miss * miss / (sigma * sigma)) / sigma;
}
static double student_density(double label, double value) {
    return pow(1 + pow((label - value) / .5, 2) / 3, -2);
}
static double wide_density(double label, double value) {
    return .8 * normal_density(label - value, .5) + .2 * normal_density(label - value, 4);
}
static double multiplied_density(double label, double value) {
    return .7 * normal_density(label - value, .5) + .3 * normal_density(label - 5 * value, 2.5);
}

typedef double density_of(double label, double value);

/* The logarithm of the posterior of w, d = 1 and c = 2, from the first k pairs. */
static double posterior_at(const shown *all, size_t s, size_t k, double w, density_of *density) {
    double sum = -.5 * w * w / 4;
    for (size_t i = 0; i < k; i++)
        sum += log(density(y_of(all, s, i), w * (double)x_of(all, s, i)[0]));
    return sum;
}

/* Its weight is where the posterior is flat and curves down, and not below what it is at ridge. */
static icl_status check_mode(tap_run *tap, const char *noise, density_of *density, icl_error *error) {
    const double h = 1e-4;
    shown all;
    double *ridge = NULL, steepest = 0;
    size_t wrong = 0;
    char text[200];
    icl_status status = ICL_OK;

    snprintf(text, sizeof text, "task.d=1 task.n=6 task.output_scale=2 task.noise=0.5 %s", noise);
    ICL_TRY(shown_open(&all, 32, text, error));
    ICL_TRY(icl_allocate(all.count * all.points, sizeof *ridge, "outputs", &ridge, error));
    ICL_TRY(run(&all, "ridge", error));
    memcpy(ridge, all.outputs, all.count * all.points * sizeof *ridge);
    ICL_TRY(run(&all, "reweighted", error));
    for (size_t s = 0; s < all.count; s++)
        for (size_t k = 0; k < all.points; k++) {
            const double x = (double)x_of(&all, s, k)[0], w = output(&all, s, k) / x;
            const double here = posterior_at(&all, s, k, w, density);
            const double above = posterior_at(&all, s, k, w + h, density),
                         below = posterior_at(&all, s, k, w - h, density);
            steepest = fmax(steepest, fabs(above - below) / (2 * h));
            wrong += above + below > 2 * here;
            wrong += here < posterior_at(&all, s, k, ridge[s * all.points + k] / x, density) - 1e-9;
        }
    tap_ok(tap, steepest < 1e-4 && wrong == 0, "reweighted, %s: a mode of the posterior (slope %.1e)", noise, steepest);
done:
    icl_free(&ridge);
    shown_close(&all);
    return status;
}

static icl_status check_reweighted(tap_run *tap, icl_error *error) {
    shown all = {0};
    icl_status status = ICL_OK;

    ICL_TRY(check_mode(tap, "task.noise_law=student-t task.noise_unit=scale", student_density, error));
    ICL_TRY(check_mode(tap, "task.outliers=0.2 task.outlier_size=4", wide_density, error));
    ICL_TRY(check_mode(tap, "task.outliers=0.3 task.outlier_law=multiplied task.outlier_size=5", multiplied_density,
                       error));
    ICL_TRY(shown_open(&all, 400, "task.d=3 task.n=12 task.noise=0.3 task.outliers=0.2", error));
    ICL_TRY(run(&all, "ridge", error));
    const statistic ridge = loss_at(&all, 12);
    ICL_TRY(run(&all, "reweighted", error));
    const statistic own = loss_at(&all, 12);
    tap_ok(tap, deviation(&ridge, own.sum / own.count) > BOUND && own.sum < ridge.sum / 3,
           "behind twelve pairs, a fifth of them outliers: reweighted %.3f, ridge %.3f", own.sum / own.count,
           ridge.sum / ridge.count);
done:
    shown_close(&all);
    return status;
}

int main(void) {
    static icl_status (*const checks[])(tap_run * tap, icl_error * error) = {
        check_closed_forms, check_ridge_row, check_regression, check_lasso, check_squares, check_reweighted};
    return test_predictors(checks, sizeof checks / sizeof *checks);
}
