/* L-BFGS on functions whose minima are known. */
#include "train/lbfgs.h"

#include <math.h>

#include "tap.h"

enum { SIZE = 10 };

/* What the functions below were asked for, and a failure that is due. */
typedef struct calls {
    size_t count, fail_at; /* 0: never */
} calls;

static icl_status count_call(calls *c, icl_error *error) {
    if (++c->count == c->fail_at)
        return icl_fail(error, ICL_ERROR_DEVICE, "call %zu fails", c->count);
    return ICL_OK;
}

/* sum of 100 (x_{i+1} - x_i^2)^2 + (1 - x_i)^2, least at (1 … 1). */
static icl_status rosenbrock(void *user, const double *at, double *value, double *gradient, icl_error *error) {
    *value = 0;
    for (size_t i = 0; i < SIZE; i++)
        gradient[i] = 0;
    for (size_t i = 0; i + 1 < SIZE; i++) {
        const double bend = at[i + 1] - at[i] * at[i], rest = 1 - at[i];
        *value += 100 * bend * bend + rest * rest;
        gradient[i] += -400 * bend * at[i] - 2 * rest;
        gradient[i + 1] += 200 * bend;
    }
    return count_call(user, error);
}

/* sum of 10^(i - 4) (x_i - i)^2: curvatures over nine orders of magnitude. */
static icl_status quadratic(void *user, const double *at, double *value, double *gradient, icl_error *error) {
    *value = 0;
    for (size_t i = 0; i < SIZE; i++) {
        const double curvature = pow(10, (double)i - 4), rest = at[i] - (double)i;
        *value += curvature * rest * rest;
        gradient[i] = 2 * curvature * rest;
    }
    return count_call(user, error);
}

/* sum of x - ln x, not a number left of 0, least at 1. */
static icl_status barrier(void *user, const double *at, double *value, double *gradient, icl_error *error) {
    *value = 0;
    for (size_t i = 0; i < SIZE; i++) {
        *value += at[i] - log(at[i]);
        gradient[i] = 1 - 1 / at[i];
    }
    return count_call(user, error);
}

static void check(tap_run *tap, const char *name, icl_lbfgs_function *function, size_t history, double start,
                  bool counts, double allowed) {
    const icl_lbfgs_params params = {.history = history, .iterations = 2000, .tolerance = 1e-9};
    calls c = {0};
    double at[SIZE], worst = 0;
    icl_lbfgs_result result;
    icl_error error = {0};

    for (size_t i = 0; i < SIZE; i++)
        at[i] = start;
    if (!tap_status(tap, icl_lbfgs_minimise(&params, SIZE, function, &c, at, &result, &error), &error, name))
        return;
    for (size_t i = 0; i < SIZE; i++)
        worst = fmax(worst, fabs(at[i] - (counts ? (double)i : 1)));
    tap_ok(tap, result.has_converged && worst <= allowed,
           "%s, history %zu: within %.1e after %zu iterations and %zu values", name, history, worst, result.iterations,
           result.evaluations);
    tap_ok(tap, c.count == result.evaluations && result.evaluations >= result.iterations, "%s: values are counted",
           name);
}

/* A quadratic that has no value for a while: what the line search asks for in vain. `from`: the first call without. */
enum { SEARCH = 40, IN_VAIN = 12 };

typedef struct outage {
    calls counted;
    size_t from;
    double before[2][SIZE], behind[SIZE]; /* the first two points asked for in vain, and the first one behind them */
} outage;

static icl_status without_value(void *user, const double *at, double *value, double *gradient, icl_error *error) {
    outage *o = user;
    ICL_CHECK(quadratic(&o->counted, at, value, gradient, error));
    const size_t call = o->counted.count;
    if (call == o->from || call == o->from + 1)
        memcpy(o->before[call - o->from], at, sizeof o->behind);
    if (call == o->from + SEARCH)
        memcpy(o->behind, at, sizeof o->behind);
    if (call >= o->from && call < o->from + SEARCH)
        *value = (double)NAN;
    return ICL_OK;
}

/* Where a line search finds nothing, the search begins anew along the gradient, and forgets what it knew. The trials
 * halve the step: the point they left is twice the second less the first. */
static void test_restart(tap_run *tap) {
    const icl_lbfgs_params params = {.iterations = 2000, .tolerance = 1e-9};
    outage o = {.from = IN_VAIN};
    calls c = {0};
    double at[SIZE], left[SIZE], gradient[SIZE], value, norm = 0, worst = 0;
    icl_lbfgs_result result;
    icl_error error = {0};

    for (size_t i = 0; i < SIZE; i++)
        at[i] = 3;
    if (!tap_status(tap, icl_lbfgs_minimise(&params, SIZE, without_value, &o, at, &result, &error), &error,
                    "a search in vain"))
        return;
    for (size_t i = 0; i < SIZE; i++)
        worst = fmax(worst, fabs(at[i] - (double)i));
    tap_ok(tap, result.has_converged && worst <= 1e-4, "the minimum is found nevertheless: within %.1e", worst);
    for (size_t i = 0; i < SIZE; i++)
        left[i] = 2 * o.before[1][i] - o.before[0][i];
    (void)quadratic(&c, left, &value, gradient, &error);
    for (size_t i = 0; i < SIZE; i++)
        norm += gradient[i] * gradient[i];
    norm = fmax(sqrt(norm), 1);
    worst = 0;
    for (size_t i = 0; i < SIZE; i++)
        worst = fmax(worst, fabs(o.behind[i] - (left[i] - gradient[i] / norm)));
    tap_ok(tap, worst < 1e-9, "the next point lies along the gradient, a step of 1 away: within %.1e", worst);
}

static void test_ends(tap_run *tap) {
    calls c = {0}, failing = {.fail_at = 5};
    double at[SIZE] = {-1.2, 1}, nowhere[SIZE] = {-1}, before, after, gradient[SIZE];
    icl_lbfgs_result result;
    icl_error error = {0};

    (void)rosenbrock(&c, at, &before, gradient, NULL);
    icl_status status =
        icl_lbfgs_minimise(&(icl_lbfgs_params){.iterations = 3}, SIZE, rosenbrock, &c, at, &result, &error);
    (void)rosenbrock(&c, at, &after, gradient, NULL);
    tap_ok(tap,
           status == ICL_OK && result.iterations == 3 && !result.has_converged && after < before &&
               after == result.value,
           "three iterations lower the value and are told: %.3g to %.3g", before, after);
    tap_ok(tap,
           icl_lbfgs_minimise(&(icl_lbfgs_params){.iterations = 3}, SIZE, barrier, &c, nowhere, &result, &error) ==
               ICL_ERROR_INPUT,
           "a start without a value: %s", error.message);
    status =
        icl_lbfgs_minimise(&(icl_lbfgs_params){.iterations = 100}, SIZE, rosenbrock, &failing, at, &result, &error);
    tap_ok(tap, status == ICL_ERROR_DEVICE && strstr(error.message, "call 5"), "a failure is passed on: %s",
           error.message);
}

int main(void) {
    tap_run tap = {0};

    check(&tap, "Rosenbrock's function", rosenbrock, 0, -1, false, 1e-7);
    check(&tap, "Rosenbrock's function", rosenbrock, 1, 0, false, 1e-7);
    check(&tap, "curvatures from 1e-4 to 1e5", quadratic, 0, 3, true, 1e-4);
    check(&tap, "a function with an edge", barrier, 5, .05, false, 1e-8);
    test_restart(&tap);
    test_ends(&tap);
    return tap_done(&tap);
}
