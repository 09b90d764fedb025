/* L-BFGS on the loss of fixed sequences (icl_objective_minimise): its reports, its endings, and the failures that it
 * passes on. */
#include "fixture.h"
#include "train/objective.h"

enum { D = 3, SIZE = D * D, DEPTH = 3, SEQUENCES = 512, SEED = 1, OWN = 1, OTHERS = 2 };

/* One layer is one step of gradient descent: the loss is a quadratic function of its matrix, with one minimum. */
#define SHARED_SETTINGS                                                                                                \
    "task.d=3", "task.n=10", "task.noise=fixed:0.5", "task.sampler=gram", "model.parameterization=sparse",             \
        "train.batch=64"
static const char *const shallow[] = {SHARED_SETTINGS, "model.layers=1", NULL};
static const char *const deep[] = {SHARED_SETTINGS, "model.layers=3", NULL};

/* N is SIZE or DEPTH * SIZE. */
typedef struct bench {
    icl_objective *objective;
    double start[DEPTH * SIZE];
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

    memcpy(at, b->start, SIZE * sizeof *at);
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

/* The first step goes along the gradient, in the search's units: it is the gradient itself, or of length 1 if that is
 * longer. Here its first trial is good enough. */
static void test_first_step(tap_run *tap, const bench *b, double unit) {
    double at[SIZE], slope[SIZE], scale[SIZE], loss = 0, worst = 0;
    icl_minimised result = {0};
    icl_error error = {0};
    seen s = {0};
    icl_status status = icl_objective_gradient(b->objective, b->start, &loss, slope, &error);

    for (size_t i = 0; i < SIZE; i++)
        scale[i] = unit;
    if (status == ICL_OK)
        status = minimise(b, 1, scale, &s, at, &result, &error);
    const double length = unit * norm(slope);
    for (size_t i = 0; i < SIZE; i++)
        worst = fmax(worst, fabs(at[i] - b->start[i] + unit * unit * slope[i] / fmax(length, 1)));
    tap_ok(tap, status == ICL_OK && s.evaluations == 2 && worst < 1e-12,
           "a gradient of length %.3g: %zu evaluations, %.1e away from it", length, s.evaluations, worst);
}

/* What is seen while other sequences, whose losses are higher, stand in for the objective's own for as long as one
 * search along a line takes. */
enum { TRIALS = 40, IN_VAIN = 2 }; /* trials of such a search; the iteration that it follows */

typedef struct outage {
    icl_objective *objective;
    size_t evaluations, begin;    /* begin: evaluations before the search in vain; 0: it is still to come */
    double left, others, resumed; /* losses: of the point left, the least of the others', and of the first one after */
} outage;

static icl_status evaluate_others(void *user, double loss, icl_error *error) {
    outage *o = user;
    const size_t trials = ++o->evaluations - o->begin;

    if (o->begin == 0 || trials > TRIALS + 1)
        return ICL_OK;
    if (trials == TRIALS + 1)
        o->resumed = loss;
    else
        o->others = fmin(o->others, loss);
    return trials == TRIALS ? icl_objective_draw(o->objective, SEED, OWN, error) : ICL_OK;
}

static icl_status draw_others(void *user, const double *at, double loss, size_t iterations, bool *ends,
                              icl_error *error) {
    outage *o = user;

    (void)at, (void)ends;
    if (iterations != IN_VAIN)
        return ICL_OK;
    o->begin = o->evaluations;
    o->left = loss;
    return icl_objective_draw(o->objective, SEED, OTHERS, error);
}

/* If a search along a line is in vain, the search begins anew at the point that it left, and finds the minimum. */
static void test_restart(tap_run *tap, const bench *b, double least) {
    outage o = {.objective = b->objective, .others = HUGE_VAL};
    const icl_minimise_params params = {
        .history = 5, .iterations = 2000, .evaluated = evaluate_others, .observe = draw_others, .user = &o};
    double at[SIZE];
    icl_minimised result = {0};
    icl_error error = {0};

    memcpy(at, b->start, sizeof at);
    if (!tap_status(tap, icl_objective_minimise(b->objective, &params, at, &result, &error), &error,
                    "a search in vain"))
        return;
    tap_ok(tap, o.others > o.left && o.left > 1.0001 * least, "%d losses of %.6g or more follow %.6g", TRIALS, o.others,
           o.left);
    tap_ok(tap, o.resumed == o.left && fabs(result.loss / least - 1) < 1e-9,
           "then the search resumes at %.6g and comes to %.12g", o.resumed, result.loss);
}

/* Tests units so large that no step along the first direction has a finite loss, but infinity or, in sums of deep
 * models, NaN. */
static void test_infinite(tap_run *tap, const bench *b) {
    const size_t size = icl_objective_size(b->objective);
    double at[DEPTH * SIZE], scale[DEPTH * SIZE], loss = 0, moved = 0;
    const icl_minimise_params params = {.history = 5, .iterations = 9, .scale = scale};
    icl_minimised result = {0};
    icl_error error = {0};

    for (size_t i = 0; i < size; i++)
        scale[i] = 1e150;
    memcpy(at, b->start, size * sizeof *at);
    icl_status status = icl_objective_gradient(b->objective, at, &loss, NULL, &error);
    if (status == ICL_OK)
        status = icl_objective_minimise(b->objective, &params, at, &result, &error);
    for (size_t i = 0; i < size; i++)
        moved = fmax(moved, fabs(at[i] - b->start[i]));
    tap_ok(tap, status == ICL_OK && result.iterations == 0 && result.loss == loss && moved < 1e-12,
           "%zu parameters: losses that are not finite are too high: it stays at %.4g, moved by %.1e", size,
           result.loss, moved);
}

static void test_no_start(tap_run *tap, bench *b) {
    double at[SIZE];
    icl_minimised result = {0};
    icl_error error = {0};
    seen s = {0};

    for (size_t i = 0; i < SIZE; i++)
        b->start[i] = 1e200;
    tap_ok(tap,
           minimise(b, 9, NULL, &s, at, &result, &error) == ICL_ERROR_INPUT && strstr(error.message, "at the start"),
           "a start without a finite loss is refused: %s", error.message);
}

static icl_status create(icl_backend *backend, const char *const *recipe, icl_trainer **trainer, bench *b,
                         icl_error *error) {
    float values[DEPTH * SIZE];

    ICL_CHECK(make_trainer(backend, recipe, trainer, error));
    ICL_CHECK(icl_trainer_get_parameters(*trainer, values, error));
    for (size_t i = 0; i < icl_model_size(icl_trainer_model(*trainer)); i++)
        b->start[i] = (double)values[i];
    ICL_CHECK(icl_objective_create(&(icl_objective_params){.task = icl_trainer_task(*trainer),
                                                           .model = icl_trainer_model(*trainer),
                                                           .purpose = ICL_FOR_TRAINING,
                                                           .sequences = SEQUENCES},
                                   &b->objective, error));
    return icl_objective_draw(b->objective, SEED, OWN, error);
}

int main(void) {
    icl_backend *backend = NULL;
    icl_trainer *trainer = NULL, *deep_trainer = NULL;
    icl_error error = {0};
    tap_run tap = {0};
    bench b = {0}, deep_bench = {0};
    double scale[SIZE], least = 0, again = 0;
    icl_status status = ICL_OK;

    for (size_t i = 0; i < SIZE; i++)
        scale[i] = i % 2 ? 1 : .05;
    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "cpu:threads=1"}, &backend, &error));
    ICL_TRY(create(backend, shallow, &trainer, &b, &error));
    ICL_TRY(create(backend, deep, &deep_trainer, &deep_bench, &error));
    test_minimum(&tap, &b, NULL, &least);
    test_minimum(&tap, &b, scale, &again);
    tap_ok(&tap, fabs(again / least - 1) < 1e-9, "both find the same loss: %.12g, %.12g", least, again);
    test_ends(&tap, &b);
    test_first_step(&tap, &b, 1);
    test_first_step(&tap, &b, .25);
    test_restart(&tap, &b, least);
    test_infinite(&tap, &b);
    test_infinite(&tap, &deep_bench);
    test_no_start(&tap, &b);
done:
    tap_status(&tap, status, &error, "objectives");
    icl_objective_destroy(&b.objective);
    icl_objective_destroy(&deep_bench.objective);
    icl_trainer_destroy(&trainer);
    icl_trainer_destroy(&deep_trainer);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
