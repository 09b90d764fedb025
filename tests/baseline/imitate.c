/* Predictors that imitate another: the constants that made the predictions are found again, from the predictions only;
 * and the implied weights times the query are the predictions. */
#include "baseline/predictors.h"

#include "probe/descent.h"
#include "sequences.h"
#include "tap.h"

enum { D = 4, N = 9, COUNT = 600, WIDTH = D + 1 };

typedef struct fixture {
    icl_task *task;
    sequences drawn;
    double predictions[COUNT], weights[COUNT * D];
} fixture;

static icl_status open_fixture(fixture *f, const char *overrides, icl_error *error) {
    icl_status status = ICL_OK;

    ICL_TRY(make_task(overrides, &f->task, error));
    ICL_TRY(sequences_draw(f->task, COUNT, 7, 0, &f->drawn, error));
done:
    return status;
}

static void close_fixture(fixture *f) {
    sequences_release(&f->drawn);
    icl_task_destroy(&f->task);
}

static const float *query_of(const fixture *f, size_t sequence) {
    return f->drawn.tokens + (sequence * (N + 1) + N) * WIDTH;
}

static void predict_all(fixture *f) {
    for (size_t i = 0; i < COUNT; i++) {
        f->predictions[i] = 0;
        for (size_t k = 0; k < D; k++)
            f->predictions[i] += f->weights[i * D + k] * (double)query_of(f, i)[k];
    }
}

/* Returns the root mean square distance to the predictions, relative to their own; `by_weights`: of a predictor's
 * weights times the query. */
static double distance_of(const fixture *f, const icl_predictors *predictors, bool by_weights, icl_error *error) {
    double predictions[COUNT], weights[COUNT * D], sum = 0, size = 0;

    if ((by_weights
             ? icl_predictors_weights(predictors, COUNT, f->drawn.tokens, f->drawn.noise, weights, error)
             : icl_predictors_run(predictors, COUNT, f->drawn.tokens, f->drawn.noise, predictions, error)) != ICL_OK)
        return HUGE_VAL;
    for (size_t i = 0; i < COUNT; i++) {
        if (by_weights) {
            predictions[i] = 0;
            for (size_t k = 0; k < D; k++)
                predictions[i] += weights[i * D + k] * (double)query_of(f, i)[k];
        }
        sum += (predictions[i] - f->predictions[i]) * (predictions[i] - f->predictions[i]);
        size += f->predictions[i] * f->predictions[i];
    }
    return sqrt(sum / size);
}

/* Six steps of GD++, more than are searched for: they are found from a start nearby; from a bad start the fit is no
 * worse than with four. */
static void check_start(tap_run *tap, const fixture *f, const icl_descent *made) {
    double near_rates[6], near_inputs[6], astray[6];
    icl_error error = {0};

    for (size_t l = 0; l < 6; l++) {
        near_rates[l] = 1.1 * made->rates[l];
        near_inputs[l] = .9 * made->inputs[l];
        astray[l] = 1e3;
    }
    const icl_descent_start near = {6, near_rates, near_inputs}, far = {6, astray, astray};
    icl_predictors *six = NULL, *lost = NULL, *four = NULL;
    const icl_imitation of[] = {{COUNT, f->drawn.tokens, f->predictions, near, {0}},
                                {COUNT, f->drawn.tokens, f->predictions, far, {0}}};
    if (tap_status(tap, icl_predictors_imitate(f->task, NULL, "gd++:6", &of[0], &six, &error), &error, "near") &&
        tap_status(tap, icl_predictors_imitate(f->task, NULL, "gd++:6", &of[1], &lost, &error), &error, "far") &&
        tap_status(tap, icl_predictors_imitate(f->task, NULL, "gd++:4", &of[1], &four, &error), &error, "four steps")) {
        const double of_six = distance_of(f, six, false, &error), of_lost = distance_of(f, lost, false, &error),
                     of_four = distance_of(f, four, false, &error);
        tap_ok(tap, of_six < 1e-6, "six steps from a start nearby come to within %.1e", of_six);
        tap_ok(tap, of_lost <= of_four * (1 + 1e-9), "from one astray to within %.1e, four steps to %.1e", of_lost,
               of_four);
    }
    icl_predictors_destroy(&six);
    icl_predictors_destroy(&lost);
    icl_predictors_destroy(&four);
}

/* Fits `name` to the fixture's predictions: it must come to within `tolerance`, with the expected constants if these
 * are given. */
static void check_imitation(tap_run *tap, const fixture *f, const char *what, const char *name, const char *constants,
                            double tolerance) {
    const icl_imitation of = {.count = COUNT, .tokens = f->drawn.tokens, .predictions = f->predictions};
    icl_predictors *predictors = NULL;
    icl_error error = {0};

    if (tap_status(tap, icl_predictors_imitate(f->task, NULL, name, &of, &predictors, &error), &error, what)) {
        const double distance = distance_of(f, predictors, false, &error);
        const char *seen = icl_predictors_constants(predictors, 0);
        tap_ok(tap, distance <= tolerance, "%s: %s comes to within %.1e, %s", what, name, distance, seen);
        if (constants)
            tap_ok(tap, strcmp(seen, constants) == 0, "%s: its constants are %s", what, constants);
        tap_ok(tap, distance_of(f, predictors, true, &error) <= tolerance, "%s: and so do its weights", what);
    }
    icl_predictors_destroy(&predictors);
}

/* Takes the predictions of another predictor of the task. */
static void take_predictions(tap_run *tap, fixture *f, const char *name) {
    icl_predictors *predictors = NULL;
    icl_error error = {0};
    icl_status status = icl_predictors_create(f->task, NULL, name, 500, 1, &predictors, &error);

    if (status == ICL_OK)
        status = icl_predictors_run(predictors, COUNT, f->drawn.tokens, f->drawn.noise, f->predictions, &error);
    tap_status(tap, status, &error, name);
    icl_predictors_destroy(&predictors);
}

static void take_descent(fixture *f, const icl_descent *descent, const float *tokens) {
    double scratch[1024];

    icl_descent_weights(descent, D, N, COUNT, tokens, scratch, f->weights);
    predict_all(f);
}

/* ---- Where w ~ N(0, I) ---- */

static void test_plain(tap_run *tap) {
    const double rates[] = {.05, .02, .03, .04, .06, .08}, inputs[] = {.01, .02, .01, .015, .02, 0};
    fixture f = {0};
    icl_error error = {0};

    if (tap_status(tap, open_fixture(&f, "task.d=4 task.n=9 task.noise=fixed:1.5", &error), &error, "a task")) {
        take_predictions(tap, &f, "constrr");
        check_imitation(tap, &f, "ridge with 1.5^2", "ridge", "penalty 2.25", 1e-6);
        take_predictions(tap, &f, "ols");
        check_imitation(tap, &f, "least squares", "ridge", NULL, 1e-3);
        take_descent(&f, &(icl_descent){1, rates, NULL}, f.drawn.tokens);
        check_imitation(tap, &f, "one step of .05", "gd:1", "steps 0.05", 1e-7);
        take_descent(&f, &(icl_descent){2, rates, NULL}, f.drawn.tokens);
        check_imitation(tap, &f, "steps of .05 and .02", "gd:2", NULL, 1e-5);
        take_descent(&f, &(icl_descent){2, rates, inputs}, f.drawn.tokens);
        check_imitation(tap, &f, "GD++ of .05, .02 and .01", "gd++:2", "steps 0.05, 0.02; input steps 0.01", 1e-5);
        take_descent(&f, &(icl_descent){6, rates, inputs}, f.drawn.tokens);
        check_start(tap, &f, &(icl_descent){6, rates, inputs});
    }
    close_fixture(&f);
}

/* Fits to the oracle, as reference predictors are fitted; it is ridge if the noise is always the same. */
static void test_fitted_to_oracle(tap_run *tap) {
    icl_task *task = NULL;
    icl_predictors *predictors = NULL;
    icl_error error = {0};

    if (tap_status(tap, make_task("task.d=4 task.n=9 task.noise=fixed:1.5", &task, &error), &error, "a task") &&
        tap_status(tap, icl_predictors_create(task, NULL, "ridge", 500, 1, &predictors, &error), &error, "ridge"))
        tap_ok(tap, strcmp(icl_predictors_constants(predictors, 0), "penalty 2.25") == 0,
               "ridge finds the oracle's penalty: %s", icl_predictors_constants(predictors, 0));
    icl_predictors_destroy(&predictors);
    icl_task_destroy(&task);
}

/* Fits two constants at once: min(factor * estimate, cap). */
static void test_tuned(tap_run *tap) {
    fixture f = {0};
    icl_error error = {0};

    if (tap_status(tap, open_fixture(&f, "task.d=4 task.n=9 task.noise=uniform:3", &error), &error, "a task")) {
        take_predictions(tap, &f, "adarr");
        check_imitation(tap, &f, "AdaRR", "tunedrr", NULL, 1e-3);
    }
    close_fixture(&f);
}

/* ---- Where w has another covariance ---- */

/* Makes tokens with inputs C^T x, for which w ~ N(0, I): descent on these is preconditioned descent on x. */
static void turn_inputs(const fixture *f, float *tokens) {
    const double *root = icl_task_get_prior(f->task)->weight_root;

    if (!root || !f->drawn.tokens)
        return;
    for (size_t i = 0; i < (size_t)COUNT * (N + 1); i++) {
        const float *from = f->drawn.tokens + i * WIDTH;
        for (size_t k = 0; k < D; k++) {
            double sum = 0;
            for (size_t j = 0; j < D; j++)
                sum += root[j * D + k] * (double)from[j];
            tokens[i * WIDTH + k] = (float)sum;
        }
        tokens[i * WIDTH + D] = from[D];
    }
}

static void test_preconditioned(tap_run *tap) {
    const double rate = .04;
    fixture f = {0};
    icl_error error = {0};
    float *turned = NULL;

    if (tap_status(tap,
                   open_fixture(&f,
                                "task.d=4 task.n=9 task.noise=fixed:0 task.covariance=spectrum:1,2,.5,.25 "
                                "task.rotate=true task.weights=inverse-covariance",
                                &error),
                   &error, "a task") &&
        tap_status(tap, icl_allocate((size_t)COUNT * (N + 1) * WIDTH, sizeof *turned, "tokens", &turned, &error),
                   &error, "tokens")) {
        turn_inputs(&f, turned);
        take_descent(&f, &(icl_descent){1, &rate, NULL}, turned);
        for (size_t i = 0; i < COUNT; i++) {
            f.predictions[i] = 0;
            for (size_t k = 0; k < D; k++)
                f.predictions[i] += f.weights[i * D + k] * (double)turned[(i * (N + 1) + N) * WIDTH + k];
        }
        check_imitation(tap, &f, "a preconditioned step of .04", "pgd:1", "steps 0.04", 1e-5);
        check_imitation(tap, &f, "the same of GD++", "pgd++:1", "steps 0.04", 1e-5);
        take_descent(&f, &(icl_descent){1, &rate, NULL}, f.drawn.tokens);
        check_imitation(tap, &f, "a step of .04", "gd:1", "steps 0.04", 1e-5);
    }
    icl_free(&turned);
    close_fixture(&f);
}

/* Fits a ridge to the first `count` predictions, and copies its constants. */
static void fit_ridge(tap_run *tap, const fixture *f, size_t count, char constants[64]) {
    const icl_imitation of = {.count = count, .tokens = f->drawn.tokens, .predictions = f->predictions};
    icl_predictors *predictors = NULL;
    icl_error error = {0};

    if (tap_status(tap, icl_predictors_imitate(f->task, NULL, "ridge", &of, &predictors, &error), &error, "a ridge"))
        snprintf(constants, 64, "%s", icl_predictors_constants(predictors, 0));
    icl_predictors_destroy(&predictors);
}

/* A prediction that is not finite is left out: the constants are those of the other sequences. */
static void test_not_finite(tap_run *tap) {
    fixture f = {0};
    char others[64] = "", with_nan[64] = "";
    icl_error error = {0};

    if (tap_status(tap, open_fixture(&f, "task.d=4 task.n=9 task.noise=fixed:1", &error), &error, "a task")) {
        take_predictions(tap, &f, "gd:1");
        fit_ridge(tap, &f, COUNT - 1, others);
        f.predictions[COUNT - 1] = (double)NAN;
        fit_ridge(tap, &f, COUNT, with_nan);
        tap_ok(tap, strcmp(with_nan, others) == 0 && strcmp(others, "penalty 1") != 0,
               "a prediction that is NaN is left out: %s, without it %s", with_nan, others);
    }
    close_fixture(&f);
}

int main(void) {
    tap_run tap = {0};

    test_plain(&tap);
    test_fitted_to_oracle(&tap);
    test_tuned(&tap);
    test_preconditioned(&tap);
    test_not_finite(&tap);
    return tap_done(&tap);
}
