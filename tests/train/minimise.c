/* L-BFGS on the loss of fixed sequences (icl_objective_minimise): its reports, its endings, and the failures that it
 * passes on. */
#include "fixture.h"
#include "train/objective.h"

enum { D = 3, SIZE = D * D, SEQUENCES = 512 };

/* The model is one step of gradient descent: the loss is a quadratic function of its matrix, with one minimum. */
static const char *const recipe[] = {"task.d=3",
                                     "task.n=10",
                                     "task.noise=fixed:0.5",
                                     "task.sampler=gram",
                                     "model.layers=1",
                                     "model.parameterization=sparse",
                                     "train.batch=64",
                                     NULL};

typedef struct bench {
    icl_objective *objective;
    double start[SIZE];
} bench;

/* The numbers of callbacks seen, and those at which they end the search or fail; 0: never. */
typedef struct seen {
    size_t evaluations, iterations, ends_at, evaluation_fails, observer_fails;
    double last;
    bool rises, skips;
} seen;

static icl_status evaluated(void *user, double loss, icl_error *error) {
    seen *s = user;

    (void)loss;
    return ++s->evaluations == s->evaluation_fails
               ? icl_fail(error, ICL_ERROR_DEVICE, "evaluation %zu fails", s->evaluations)
               : ICL_OK;
}

static icl_status observe(void *user, const double *at, double loss, size_t iterations, bool *ends, icl_error *error) {
    seen *s = user;

    (void)at;
    s->skips = s->skips || iterations != ++s->iterations;
    s->rises = s->rises || (iterations > 1 && loss > s->last);
    s->last = loss;
    *ends = iterations == s->ends_at;
    return iterations == s->observer_fails ? icl_fail(error, ICL_ERROR_INTERRUPTED, "observer fails") : ICL_OK;
}

static icl_status minimise(const bench *b, size_t iterations, const double *scale, seen *s, double at[SIZE],
                           icl_minimised *result, icl_error *error) {
    const icl_minimise_params params = {
        .history = 5, .iterations = iterations, .scale = scale, .evaluated = evaluated, .observe = observe, .user = s};

    memcpy(at, b->start, sizeof b->start);
    return icl_objective_minimise(b->objective, &params, at, result, error);
}

static double norm(const double *vector) {
    double sum = 0;
    for (size_t i = 0; i < SIZE; i++)
        sum += vector[i] * vector[i];
    return sqrt(sum);
}

/* Finds a minimum, with equal units for all parameters or with a scale for each. *least becomes its loss. */
static void test_minimum(tap_run *tap, const bench *b, const double *scale, double *least) {
    double at[SIZE], loss = 0, gradient[SIZE], before = 0, slope[SIZE];
    icl_minimised result = {0};
    icl_error error = {0};
    seen s = {0};
    icl_status status = icl_objective_gradient(b->objective, b->start, &before, slope, &error);

    if (status == ICL_OK)
        status = minimise(b, 2000, scale, &s, at, &result, &error);
    if (status == ICL_OK)
        status = icl_objective_gradient(b->objective, at, &loss, gradient, &error);
    if (!tap_status(tap, status, &error, scale ? "in units of their own" : "in units of 1"))
        return;
    *least = result.loss;
    tap_ok(tap, result.iterations < 2000 && norm(gradient) < 1e-6 * norm(slope),
           "it ends by itself after %zu iterations, with %.1e of the gradient", result.iterations,
           norm(gradient) / norm(slope));
    tap_ok(tap, fabs(result.loss / loss - 1) < 1e-14 && result.loss < before, "the loss falls from %.4g to %.4g",
           before, loss);
    tap_ok(tap, fabs(result.gradient_norm / norm(gradient) - 1) < 1e-6, "the gradient's norm is %.6e, and it says %.6e",
           norm(gradient), result.gradient_norm);
    tap_ok(tap,
           !s.rises && !s.skips && s.iterations == result.iterations && s.evaluations == result.evaluations &&
               s.evaluations > s.iterations,
           "losses never rise, and %zu iterations of %zu evaluations are seen", s.iterations, s.evaluations);
}

static void test_ends(tap_run *tap, const bench *b) {
    double at[SIZE];
    icl_minimised result = {0};
    icl_error error = {0};
    seen limited = {0}, ended = {.ends_at = 2}, failing = {.evaluation_fails = 1}, later = {.evaluation_fails = 4};
    seen observer = {.observer_fails = 3};

    tap_ok(tap, minimise(b, 3, NULL, &limited, at, &result, &error) == ICL_OK && result.iterations == 3,
           "three iterations at most");
    tap_ok(tap, minimise(b, 9, NULL, &ended, at, &result, &error) == ICL_OK && result.iterations == 2,
           "the observer ends the search after two");
    tap_ok(tap,
           minimise(b, 9, NULL, &failing, at, &result, &error) == ICL_ERROR_DEVICE &&
               strcmp(error.message, "evaluation 1 fails") == 0 && failing.evaluations == 1,
           "a failure at the start is handed on, and ends it: %s", error.message);
    tap_ok(tap,
           minimise(b, 9, NULL, &later, at, &result, &error) == ICL_ERROR_DEVICE &&
               strcmp(error.message, "evaluation 4 fails") == 0 && later.evaluations == 4,
           "and one in a search along a line: %s", error.message);
    tap_ok(tap,
           minimise(b, 9, NULL, &observer, at, &result, &error) == ICL_ERROR_INTERRUPTED && observer.iterations == 3,
           "and one of the observer: %s", error.message);
}

/* Tests units so large that no step along the first direction has a finite loss; and a start whose loss is not
 * finite. */
static void test_infinite(tap_run *tap, bench *b) {
    double at[SIZE], scale[SIZE], loss = 0;
    icl_minimised result = {0};
    icl_error error = {0};
    seen s = {0};

    for (size_t i = 0; i < SIZE; i++)
        scale[i] = 1e150;
    icl_status status = icl_objective_gradient(b->objective, b->start, &loss, NULL, &error);
    if (status == ICL_OK)
        status = minimise(b, 9, scale, &s, at, &result, &error);
    double moved = 0;
    for (size_t i = 0; i < SIZE; i++)
        moved = fmax(moved, fabs(at[i] - b->start[i]));
    tap_ok(tap, status == ICL_OK && result.iterations == 0 && result.loss == loss && moved < 1e-12,
           "losses that are not finite are too high: it stays at %.4g, moved by %.1e", result.loss, moved);
    for (size_t i = 0; i < SIZE; i++)
        b->start[i] = 1e200;
    tap_ok(tap,
           minimise(b, 9, NULL, &s, at, &result, &error) == ICL_ERROR_INPUT && strstr(error.message, "at the start"),
           "a start without a finite loss is refused: %s", error.message);
}

static icl_status create(icl_backend *backend, icl_trainer **trainer, bench *b, icl_error *error) {
    float values[SIZE];

    ICL_CHECK(make_trainer(backend, recipe, trainer, error));
    ICL_CHECK(icl_trainer_get_parameters(*trainer, values, error));
    for (size_t i = 0; i < SIZE; i++)
        b->start[i] = (double)values[i];
    ICL_CHECK(icl_objective_create(&(icl_objective_params){.task = icl_trainer_task(*trainer),
                                                           .model = icl_trainer_model(*trainer),
                                                           .purpose = ICL_FOR_TRAINING,
                                                           .sequences = SEQUENCES},
                                   &b->objective, error));
    return icl_objective_draw(b->objective, 1, 1, error);
}

int main(void) {
    icl_backend *backend = NULL;
    icl_trainer *trainer = NULL;
    icl_error error = {0};
    tap_run tap = {0};
    bench b = {0};
    double scale[SIZE], least = 0, again = 0;
    icl_status status = ICL_OK;

    for (size_t i = 0; i < SIZE; i++)
        scale[i] = i % 2 ? 1 : .05;
    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "cpu:threads=1"}, &backend, &error));
    ICL_TRY(create(backend, &trainer, &b, &error));
    test_minimum(&tap, &b, NULL, &least);
    test_minimum(&tap, &b, scale, &again);
    tap_ok(&tap, fabs(again / least - 1) < 1e-9, "both find the same loss: %.12g, %.12g", least, again);
    test_ends(&tap, &b);
    test_infinite(&tap, &b);
done:
    tap_status(&tap, status, &error, "an objective");
    icl_objective_destroy(&b.objective);
    icl_trainer_destroy(&trainer);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
