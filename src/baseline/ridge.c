/*
 * Ridge regression: the posterior mean of w ~ N(0, I) under label noise of variance s2, w = (X^T X + s2 I)^-1 X^T y.
 *
 * Three estimators need no fitting: the oracle, which is told s2 = sigma^2; least squares, s2 = 0 (the minimum-norm
 * solution if n < d); and one constant for all sequences. The expected loss of ridge is affine in the true sigma^2, so
 * the best constant is exactly E[sigma^2]. A fourth, ridge, fits its constant, to imitate predictors that are not
 * optimal.
 *
 * Two estimate the noise variance from the sequence (Vladymyrov et al. 2024, section 5): adarr takes the unbiased
 * residual variance as it is, tunedrr takes min(factor * estimate, cap) with both constants fitted.
 */
#include <math.h>
#include <stdio.h>

#include "baseline/estimator.h"
#include "core/allocate.h"
#include "core/print.h"
#include "core/threads.h"
#include "iclab/status.h"

typedef struct constant_ridge {
    double noise_variance;
} constant_ridge;

static void oracle_filter(const void *state, const icl_spectrum *spectrum, double sigma, double *filter) {
    (void)state;
    icl_ridge_filter(spectrum->eigenvalues, spectrum->dimension, sigma * sigma, filter);
}

static void constant_filter(const void *state, const icl_spectrum *spectrum, double sigma, double *filter) {
    (void)sigma;
    icl_ridge_filter(spectrum->eigenvalues, spectrum->dimension, ((const constant_ridge *)state)->noise_variance,
                     filter);
}

static void create_constant(const icl_task_prior *prior, size_t steps, void *state) {
    (void)steps;
    ((constant_ridge *)state)->noise_variance = prior->mean_square_noise;
}

const icl_estimator icl_oracle = {.name = "oracle", .filter = oracle_filter};

const icl_estimator icl_least_squares = {
    .name = "ols",
    .state_size = sizeof(constant_ridge), /* zero: no noise */
    .filter = constant_filter,
};

const icl_estimator icl_constant_ridge = {
    .name = "constrr",
    .state_size = sizeof(constant_ridge),
    .create = create_constant,
    .filter = constant_filter,
};

/* ---- A fitted constant ---- */

/* An icl_filter_model: 1 / (lambda + e^c), whose derivative by c is -e^c / (lambda + e^c)^2. */
static double evaluate(const void *shape, const double *coefficients, double eigenvalue, double *gradient) {
    const double noise_variance = exp(coefficients[0]), value = 1 / (eigenvalue + noise_variance);

    (void)shape;
    if (gradient)
        gradient[0] = -noise_variance * value * value;
    return value;
}

/* Fits from several starts around the eigenvalues, because the distance may have more than one minimum if the target is
 * not a ridge. */
static icl_status fit_constant(void *state, const icl_fit_set *set, icl_error *error) {
    enum { STARTS = 6 };
    const icl_filter_fit ridge = {
        .model = evaluate, .coefficient_count = 1, .sequences = set->count, .iterations = 100};
    const double middle = log(icl_fit_set_mean_eigenvalue(set));
    double least = HUGE_VAL;

    for (int i = 0; i < STARTS; i++) {
        double coefficient = middle + 2 - 2 * i, distance;
        ICL_CHECK(icl_filter_minimize(&ridge, set, &coefficient, &distance, error));
        if (distance < least) {
            least = distance;
            ((constant_ridge *)state)->noise_variance = exp(coefficient);
        }
    }
    return ICL_OK;
}

static void describe_constant(const void *state, char *text, size_t capacity) {
    icl_print(text, capacity, "penalty %.6g", ((const constant_ridge *)state)->noise_variance);
}

const icl_estimator icl_fitted_ridge = {
    .name = "ridge",
    .state_size = sizeof(constant_ridge),
    .create = create_constant,
    .fit = fit_constant,
    .filter = constant_filter,
    .describe = describe_constant,
};

/* ---- A noise variance that is estimated ---- */

typedef struct adaptive_ridge {
    double otherwise; /* E[sigma^2], used if a sequence leaves no residual */
    double factor, cap;
    double noise_max_square;
} adaptive_ridge;

static void create_adaptive(const icl_task_prior *prior, size_t steps, void *state) {
    (void)steps;
    *(adaptive_ridge *)state = (adaptive_ridge){
        .otherwise = prior->mean_square_noise,
        .factor = 1,
        .cap = HUGE_VAL,
        .noise_max_square = prior->noise_max * prior->noise_max,
    };
}

static void adaptive_filter(const void *state, const icl_spectrum *spectrum, double sigma, double *filter) {
    const adaptive_ridge *ridge = state;
    (void)sigma;
    icl_ridge_filter(spectrum->eigenvalues, spectrum->dimension,
                     fmin(ridge->factor * icl_spectrum_residual_variance(spectrum, ridge->otherwise), ridge->cap),
                     filter);
}

/* ---- A factor and a cap that are fitted: a grid, then a pattern search, over (log factor, log cap) ---- */

/* The loss is summed in pieces of this size, so that it does not depend on the number of threads. */
#define PIECE ((size_t)512)

typedef struct loss_sum {
    const icl_fit_set *set;
    double factor, cap;
    double *pieces;
} loss_sum;

static void sum_piece(void *context, size_t piece, size_t thread) {
    const loss_sum *sum = context;
    const icl_fit_set *set = sum->set;
    const size_t d = set->dimension, start = piece * PIECE;
    const size_t end = start + PIECE < set->count ? start + PIECE : set->count;
    double total = 0;

    (void)thread;
    for (size_t s = start; s < end; s++) {
        const double variance = fmin(sum->factor * set->noise[s], sum->cap);
        double summed = 0;
        for (size_t k = s * d; k < (s + 1) * d; k++) {
            const double weight = set->eigenvalues[k] > 0 ? 1 / (set->eigenvalues[k] + variance) : 0;
            const double distance = set->factors[k] * weight - set->targets[k];
            summed += distance;
            total += set->summed ? 0 : distance * distance;
        }
        total += set->summed ? summed * summed : 0;
    }
    sum->pieces[piece] = total;
}

static double loss(loss_sum *sum, double log_factor, double log_cap) {
    const size_t pieces = (sum->set->count + PIECE - 1) / PIECE;
    double total = 0;

    sum->factor = exp(log_factor);
    sum->cap = exp(log_cap);
    icl_parallel_for(pieces, sum->set->threads, sum_piece, sum);
    for (size_t i = 0; i < pieces; i++)
        total += sum->pieces[i];
    return total;
}

/* Moves to the best of four neighbours until none is better, then halves the distance, and so on. Caps stay finite. */
static void refine(loss_sum *sum, double *log_factor, double *log_cap, double best, double distance) {
    for (int moves = 0; distance > 1e-5 && moves < 1000; moves++) {
        static const int directions[4][2] = {{1, 0}, {-1, 0}, {0, 1}, {0, -1}};
        int chosen = -1;
        for (int i = 0; i < 4; i++) {
            const double value =
                loss(sum, *log_factor + distance * directions[i][0], *log_cap + distance * directions[i][1]);
            if (value < best) {
                best = value;
                chosen = i;
            }
        }
        if (chosen < 0) {
            distance /= 2;
        } else {
            *log_factor += distance * directions[chosen][0];
            *log_cap += distance * directions[chosen][1];
        }
    }
}

static icl_status fit_adaptive(void *state, const icl_fit_set *set, icl_error *error) {
    const double spacing = 0.25; /* of the grid, in log units */
    adaptive_ridge *ridge = state;
    loss_sum sum = {.set = set};
    double best = HUGE_VAL, best_factor = 0, best_cap = 0;
    icl_status status = ICL_OK;

    if (ridge->noise_max_square == 0)
        return ICL_OK; /* without noise the estimate is rounding, and no factor matters */
    ICL_TRY(icl_allocate((set->count + PIECE - 1) / PIECE, sizeof(double), "loss sums", &sum.pieces, error));
    for (int i = 0; i <= 20; i++)
        for (int j = 0; j <= 22; j++) {
            const double log_factor = -2 + i * spacing, log_cap = log(ridge->noise_max_square) - 4 + j * spacing;
            const double value = loss(&sum, log_factor, log_cap);
            if (value < best) {
                best = value;
                best_factor = log_factor;
                best_cap = log_cap;
            }
        }
    refine(&sum, &best_factor, &best_cap, best, spacing / 2);
    ridge->factor = exp(best_factor);
    ridge->cap = exp(best_cap);
done:
    icl_free(&sum.pieces);
    return status;
}

static void describe_adaptive(const void *state, char *text, size_t capacity) {
    const adaptive_ridge *ridge = state;
    icl_print(text, capacity, "factor %.4g, cap %.4g", ridge->factor, ridge->cap);
}

const icl_estimator icl_adaptive_ridge = {
    .name = "adarr",
    .state_size = sizeof(adaptive_ridge),
    .create = create_adaptive,
    .filter = adaptive_filter,
};

const icl_estimator icl_tuned_ridge = {
    .name = "tunedrr",
    .state_size = sizeof(adaptive_ridge),
    .create = create_adaptive,
    .fit = fit_adaptive,
    .filter = adaptive_filter,
    .describe = describe_adaptive,
};
