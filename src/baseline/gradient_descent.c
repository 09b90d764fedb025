/*
 * K steps of gradient descent, and of GD++ (von Oswald et al. 2022, "Transformers learn in-context by gradient
 * descent"), every step with its own fitted coefficients; and both in the prior's coordinates, which is descent
 * preconditioned with the covariance of w (Ahn et al. 2023, arXiv 2306.00297, theorems 3 and 4, where it is the inverse
 * of the inputs' covariance).
 *
 * GD++ is a linear transformer whose layers compute, with sums over the context at the layer's input,
 *     x <- (I - b_l sum_i x_i x_i^T) x,     y <- y - g_l <sum_i y_i x_i, x>,     prediction = -(the query's last y).
 * In the eigenbasis of X^T X the eigenvalues lambda do not interact. If m is the factor that x has been scaled by, and
 * omega the implied weight, w_k = omega a_k (so that y = y_i - <w, x_i> at all times), then
 *     omega <- omega + g_l m^2 (1 - lambda omega),     m <- m (1 - b_l lambda m^2),     from omega = 0, m = 1,
 * and the filter is the last omega. Plain descent keeps m = 1: 1 - lambda omega = prod_l (1 - g_l lambda). The last b
 * has no effect and is left out.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "baseline/estimator.h"
#include "core/print.h"
#include "iclab/random.h"
#include "iclab/status.h"

typedef struct descent {
    bool scales_inputs; /* GD++ */
    size_t steps;
    double scale;                              /* mean eigenvalue; coefficients multiply lambda / scale */
    double coefficients[ICL_MAX_COEFFICIENTS]; /* g_0 … g_(K-1), b_0 … b_(K-2) */
} descent;

static size_t coefficient_count(const descent *rule) {
    return rule->scales_inputs ? 2 * rule->steps - 1 : rule->steps;
}

/* An icl_filter_model: omega and its derivatives, by forward differentiation. */
static double evaluate(const void *shape, const double *coefficients, double eigenvalue, double *gradient) {
    const descent *rule = shape;
    const size_t steps = rule->steps, count = coefficient_count(rule);
    const double lambda = eigenvalue / rule->scale;
    double omega = 0, m = 1, d_omega[ICL_MAX_COEFFICIENTS], d_m[ICL_MAX_COEFFICIENTS];

    for (size_t i = 0; gradient && i < count; i++)
        d_omega[i] = d_m[i] = 0;
    for (size_t l = 0; l < steps; l++) {
        const double g = coefficients[l], left = 1 - lambda * omega;
        const double b = rule->scales_inputs && l + 1 < steps ? coefficients[steps + l] : 0;
        if (gradient) {
            for (size_t i = 0; i < count; i++) {
                d_omega[i] += g * (2 * m * d_m[i] * left - m * m * lambda * d_omega[i]);
                d_m[i] *= 1 - 3 * b * lambda * m * m;
            }
            d_omega[l] += m * m * left;
            if (rule->scales_inputs && l + 1 < steps)
                d_m[steps + l] -= lambda * m * m * m;
        }
        omega += g * m * m * left;
        m *= 1 - b * lambda * m * m;
    }
    for (size_t i = 0; gradient && i < count; i++)
        gradient[i] = d_omega[i] / rule->scale;
    return omega / rule->scale;
}

static void create_plain(const icl_task_prior *prior, size_t steps, void *state) {
    (void)prior;
    *(descent *)state = (descent){.steps = steps, .scale = 1};
}

static void create_plus(const icl_task_prior *prior, size_t steps, void *state) {
    (void)prior;
    *(descent *)state = (descent){.scales_inputs = true, .steps = steps, .scale = 1};
}

static void filter(const void *state, const icl_spectrum *spectrum, double sigma, double *filter) {
    const descent *rule = state;
    (void)sigma;
    for (size_t k = 0; k < spectrum->dimension; k++)
        filter[k] =
            spectrum->eigenvalues[k] > 0 ? evaluate(rule, rule->coefficients, spectrum->eigenvalues[k], NULL) : 0;
}

/* ---- Fitting: from several starts on few sequences, then the best of them on all ---- */

enum { RANDOM_STARTS = 12, FINALISTS = 3 };

/* If the set has a start, random starts are tried only up to this many steps; longer rules begin at the set's start or
 * at the longest optimum found so, because the cost of a search grows with the cube of the steps. */
enum { MOST_SEARCHED = 4 };

#define FIRST_SEQUENCES  ((size_t)2000)
#define FIRST_ITERATIONS 60
#define FINAL_ITERATIONS 300
#define CLEARLY          0.9999
#define START_STREAM     0x62610000u /* this room's stream, see random.h */

typedef struct candidate {
    double distance;
    double coefficients[ICL_MAX_COEFFICIENTS];
} candidate;

/* Writes the optimum with one step less, with a step of no effect inserted at `place`. */
static void insert_step(const descent *shorter, size_t place, double *coefficients) {
    const size_t steps = shorter->steps + 1;
    memset(coefficients, 0, ICL_MAX_COEFFICIENTS * sizeof(double));
    for (size_t l = 0; l < shorter->steps; l++) {
        const size_t to = l < place ? l : l + 1;
        coefficients[to] = shorter->coefficients[l];
        if (shorter->scales_inputs && l + 1 < shorter->steps)
            coefficients[steps + to] = shorter->coefficients[shorter->steps + l];
    }
}

/* Draws steps between slow and just stable for a mean eigenvalue of 1; they grow if the inputs shrink on the way. */
static void draw_start(const descent *rule, uint64_t start, double *coefficients) {
    icl_random_params draw = {.key = {.stream = START_STREAM, .seed = (uint32_t)rule->steps, .step = start},
                              .high = 1.0f};
    double growth = 1;

    for (size_t l = 0; l < rule->steps; l++) {
        const double first = (double)icl_random_value(&draw, 2 * l),
                     second = (double)icl_random_value(&draw, 2 * l + 1);
        const double step = 0.2 * exp(2 * first);
        coefficients[l] = step * growth;
        if (rule->scales_inputs && l + 1 < rule->steps) {
            coefficients[rule->steps + l] = 0.6 * step * second * growth;
            growth *= 1 + 4 * second;
        }
    }
}

/* Inserts a start into the list of the lowest distances, lowest first, with one start for each minimum. For the same
 * minimum the first start stays: if the minimum is flat, the moderate coefficients that come first are worth more than
 * a gain by chance. */
static void insert_candidate(candidate *best, const candidate *new) {
    for (size_t i = 0; i < FINALISTS; i++) {
        if (new->distance < CLEARLY * best[i].distance) {
            memmove(&best[i + 1], &best[i], (FINALISTS - 1 - i) * sizeof *best);
            best[i] = *new;
            return;
        }
        if (CLEARLY * new->distance <= best[i].distance)
            return;
    }
}

/* Fits rule->coefficients; `shorter` is the fitted rule of one step less, or NULL for the first. */
static icl_status fit_steps(descent *rule, const descent *shorter, const icl_fit_set *set, icl_error *error) {
    icl_filter_fit fit = {.model = evaluate, .shape = rule, .coefficient_count = coefficient_count(rule)};
    const size_t insertions = shorter ? rule->steps : 0;
    candidate best[FINALISTS];
    double distance = HUGE_VAL;

    for (size_t i = 0; i < FINALISTS; i++)
        best[i].distance = HUGE_VAL;
    fit.sequences = set->count < FIRST_SEQUENCES ? set->count : FIRST_SEQUENCES;
    fit.iterations = FIRST_ITERATIONS;
    for (size_t start = 0; start < insertions + RANDOM_STARTS; start++) {
        candidate trial = {0};
        if (start < insertions)
            insert_step(shorter, insertions - 1 - start, trial.coefficients);
        else
            draw_start(rule, start - insertions, trial.coefficients);
        ICL_CHECK(icl_filter_minimize(&fit, set, trial.coefficients, &trial.distance, error));
        insert_candidate(best, &trial);
    }
    fit.sequences = set->count;
    fit.iterations = FINAL_ITERATIONS;
    for (size_t i = 0; i < FINALISTS && best[i].distance < HUGE_VAL; i++) {
        ICL_CHECK(icl_filter_minimize(&fit, set, best[i].coefficients, &best[i].distance, error));
        if (best[i].distance < CLEARLY * distance) {
            distance = best[i].distance;
            memcpy(rule->coefficients, best[i].coefficients, sizeof rule->coefficients);
        }
    }
    if (!isfinite(distance))
        return icl_fail(error, ICL_ERROR_INPUT,
                        "reference predictors: no %zu steps of gradient descent give finite predictions on "
                        "the fitting sequences",
                        rule->steps);
    return ICL_OK;
}

/* Fits from two starts: the optimum with as many steps or fewer, filled up with steps of no effect, and the set's own
 * start. */
static icl_status fit_from_start(descent *rule, const descent *shorter, const icl_fit_set *set, icl_error *error) {
    const icl_filter_fit fit = {.model = evaluate,
                                .shape = rule,
                                .coefficient_count = coefficient_count(rule),
                                .sequences = set->count,
                                .iterations = FINAL_ITERATIONS};
    const size_t steps = rule->steps;
    candidate filled = {0}, own = {0};

    for (size_t l = 0; l < steps; l++) {
        filled.coefficients[l] = l < shorter->steps ? shorter->coefficients[l] : 0;
        own.coefficients[l] = set->start.rates[l] * rule->scale;
    }
    for (size_t l = 0; rule->scales_inputs && l + 1 < steps; l++) {
        filled.coefficients[steps + l] = l + 1 < shorter->steps ? shorter->coefficients[shorter->steps + l] : 0;
        own.coefficients[steps + l] = set->start.inputs[l] * rule->scale;
    }
    ICL_CHECK(icl_filter_minimize(&fit, set, filled.coefficients, &filled.distance, error));
    ICL_CHECK(icl_filter_minimize(&fit, set, own.coefficients, &own.distance, error));
    const candidate *best = own.distance < CLEARLY * filled.distance ? &own : &filled;
    memcpy(rule->coefficients, best->coefficients, sizeof rule->coefficients);
    return ICL_OK;
}

static icl_status fit(void *state, const icl_fit_set *set, icl_error *error) {
    descent *rule = state, shorter = *rule;
    const size_t steps = rule->steps;
    const bool has_start = set->start.steps == steps;
    const size_t searched = has_start && steps > MOST_SEARCHED ? MOST_SEARCHED : steps;
    icl_status status = ICL_OK;

    rule->scale = icl_fit_set_mean_eigenvalue(set);
    for (size_t k = 1; k <= searched; k++) {
        rule->steps = k;
        ICL_TRY(fit_steps(rule, k > 1 ? &shorter : NULL, set, error));
        shorter = *rule;
    }
    rule->steps = steps;
    if (has_start)
        ICL_TRY(fit_from_start(rule, &shorter, set, error));
done:
    rule->steps = steps;
    return status;
}

static void describe(const void *state, char *text, size_t capacity) {
    const descent *rule = state;
    const size_t count = coefficient_count(rule);
    size_t used = 0;

    for (size_t i = 0; i < count && used < capacity; i++) {
        const char *label = i == 0 ? "steps " : i == rule->steps ? "; input steps " : ", ";
        const int more = icl_print(text + used, capacity - used, "%s%.6g", label, rule->coefficients[i] / rule->scale);
        used += more > 0 ? (size_t)more : 0;
    }
}

#define DESCENT(its_name, its_basis, its_create)                                                                       \
    {                                                                                                                  \
        .name = (its_name), .has_steps = true, .basis = (its_basis), .state_size = sizeof(descent),                    \
        .create = (its_create), .fit = fit, .filter = filter, .describe = describe                                     \
    }

const icl_estimator icl_gradient_descent = DESCENT("gd", ICL_INPUT_BASIS, create_plain);
const icl_estimator icl_gradient_descent_plus = DESCENT("gd++", ICL_INPUT_BASIS, create_plus);
const icl_estimator icl_preconditioned_descent = DESCENT("pgd", ICL_PRIOR_BASIS, create_plain);
const icl_estimator icl_preconditioned_descent_plus = DESCENT("pgd++", ICL_PRIOR_BASIS, create_plus);
