#include "train/lbfgs.h"

#include <math.h>
#include <string.h>

#include "core/allocate.h"

#define DEFAULT_HISTORY 20
#define MOST_TRIALS     40

/* Sufficient decrease, and how much of the slope a step has to leave behind. */
#define DECREASE  1e-4
#define CURVATURE 0.9

typedef struct search {
    size_t size, history;
    icl_lbfgs_function *function;
    void *user;
    double *at, *gradient, *direction; /* [size] */
    double *trial, *trial_gradient;    /* [size] */
    double *steps, *changes;           /* [history][size], a ring */
    double *rho, *alpha;               /* [history] */
    size_t kept, next;                 /* pairs in the ring, and where the next goes */
    double value;
    size_t evaluations;
} search;

static double dot(const double *a, const double *b, size_t size) {
    double sum = 0;
    for (size_t i = 0; i < size; i++)
        sum += a[i] * b[i];
    return sum;
}

static icl_status evaluate(search *s, const double *at, double *value, double *gradient, icl_error *error) {
    s->evaluations++;
    return s->function(s->user, at, value, gradient, error);
}

/* direction = -H gradient by the two loops over what is kept, from the newest pair to the oldest and back. */
static void choose_direction(search *s) {
    const size_t size = s->size;

    for (size_t i = 0; i < size; i++)
        s->direction[i] = -s->gradient[i];
    for (size_t k = 0; k < s->kept; k++) {
        const size_t pair = (s->next + s->history - 1 - k) % s->history;
        s->alpha[pair] = s->rho[pair] * dot(s->steps + pair * size, s->direction, size);
        for (size_t i = 0; i < size; i++)
            s->direction[i] -= s->alpha[pair] * s->changes[pair * size + i];
    }
    if (s->kept > 0) {
        const size_t newest = (s->next + s->history - 1) % s->history;
        const double *change = s->changes + newest * size;
        const double scale = 1 / (s->rho[newest] * dot(change, change, size));
        for (size_t i = 0; i < size; i++)
            s->direction[i] *= scale;
    }
    for (size_t k = s->kept; k > 0; k--) {
        const size_t pair = (s->next + s->history - k) % s->history;
        const double beta = s->rho[pair] * dot(s->changes + pair * size, s->direction, size);
        for (size_t i = 0; i < size; i++)
            s->direction[i] += (s->alpha[pair] - beta) * s->steps[pair * size + i];
    }
}

/* Finds a step along the direction into trial and trial_gradient. *found is false where there is none. */
static icl_status search_line(search *s, double first, double *value, bool *found, icl_error *error) {
    const double slope = dot(s->gradient, s->direction, s->size);
    double low = 0, high = HUGE_VAL, length = first;

    *found = false;
    for (int trial = 0; trial < MOST_TRIALS && slope < 0 && !*found; trial++) {
        for (size_t i = 0; i < s->size; i++)
            s->trial[i] = s->at[i] + length * s->direction[i];
        ICL_CHECK(evaluate(s, s->trial, value, s->trial_gradient, error));
        if (!(*value <= s->value + DECREASE * length * slope)) /* NaN and infinity, too */
            high = length;
        else if (dot(s->trial_gradient, s->direction, s->size) < CURVATURE * slope)
            low = length;
        else
            *found = true;
        if (!*found)
            length = isfinite(high) ? (low + high) / 2 : 2 * low;
    }
    return ICL_OK;
}

/* Goes to the trial point and keeps the pair that led there, where it is of positive curvature. */
static void accept(search *s, double value) {
    double *step = s->steps + s->next * s->size, *change = s->changes + s->next * s->size;

    for (size_t i = 0; i < s->size; i++) {
        step[i] = s->trial[i] - s->at[i];
        change[i] = s->trial_gradient[i] - s->gradient[i];
    }
    memcpy(s->at, s->trial, s->size * sizeof *s->at);
    memcpy(s->gradient, s->trial_gradient, s->size * sizeof *s->gradient);
    s->value = value;
    const double product = dot(step, change, s->size);
    if (product > 0 && isfinite(1 / product)) {
        s->rho[s->next] = 1 / product;
        s->next = (s->next + 1) % s->history;
        s->kept += s->kept < s->history;
    }
}

static icl_status reserve(search *s, icl_error *error) {
    double **const vectors[] = {&s->gradient, &s->direction, &s->trial, &s->trial_gradient};

    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        ICL_CHECK(icl_allocate(s->size, sizeof(double), "L-BFGS", vectors[i], error));
    ICL_CHECK(icl_allocate(s->history * s->size, sizeof(double), "L-BFGS", &s->steps, error));
    ICL_CHECK(icl_allocate(s->history * s->size, sizeof(double), "L-BFGS", &s->changes, error));
    ICL_CHECK(icl_allocate(s->history, sizeof(double), "L-BFGS", &s->rho, error));
    return icl_allocate(s->history, sizeof(double), "L-BFGS", &s->alpha, error);
}

static void release(search *s) {
    double **const all[] = {&s->gradient, &s->direction, &s->trial, &s->trial_gradient,
                            &s->steps,    &s->changes,   &s->rho,   &s->alpha};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        icl_free(all[i]);
}

/* One iteration; *goes_on is false where no lower value was found, not even along the gradient. */
static icl_status iterate(search *s, bool *goes_on, icl_error *error) {
    double value = s->value;
    bool found = false;

    choose_direction(s);
    /* The first step has no scale of its own: one of length 1 at most. */
    const double norm = sqrt(dot(s->gradient, s->gradient, s->size));
    ICL_CHECK(search_line(s, s->kept > 0 || norm <= 1 ? 1 : 1 / norm, &value, &found, error));
    *goes_on = found || s->kept > 0;
    if (found)
        accept(s, value);
    else
        s->kept = 0; /* begin anew along the gradient */
    return ICL_OK;
}

icl_status icl_lbfgs_minimise(const icl_lbfgs_params *params, size_t size, icl_lbfgs_function *function, void *user,
                              double *at, icl_lbfgs_result *result, icl_error *error) {
    search s = {.size = size,
                .history = params->history > 0 ? params->history : DEFAULT_HISTORY,
                .function = function,
                .user = user,
                .at = at};
    bool goes_on = true, ends = false;
    icl_status status = ICL_OK;

    *result = (icl_lbfgs_result){0};
    ICL_TRY(reserve(&s, error));
    ICL_TRY(evaluate(&s, at, &s.value, s.gradient, error));
    if (!isfinite(s.value))
        ICL_TRY(
            icl_fail(error, ICL_ERROR_INPUT, "L-BFGS: the function is %g at the start, expected a number", s.value));
    while (true) {
        result->gradient_norm = sqrt(dot(s.gradient, s.gradient, size));
        result->has_converged = result->gradient_norm <= params->tolerance;
        if (result->has_converged || !goes_on || ends || result->iterations == params->iterations)
            break;
        ICL_TRY(iterate(&s, &goes_on, error));
        result->iterations++;
        if (params->observe)
            ICL_TRY(params->observe(user, at, s.value, result->iterations, &ends, error));
    }
    result->value = s.value;
    result->evaluations = s.evaluations;
done:
    release(&s);
    return status;
}
