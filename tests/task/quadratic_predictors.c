/*
 * Reference predictors of quadratic targets: regressions against linear systems of kernels, (x . x')^2 for products of
 * two coordinates, and the losses of `zero` and `step` against their closed forms.
 */
#include <math.h>

#include "core/allocate.h"
#include "eliminate.h"
#include "make_task.h"
#include "task/quadratic.h"

enum { MOST = 12, SEED = 11 };

#define FAMILY "task.family=quadratic-regression "

typedef struct shown {
    icl_backend *backend;
    icl_task *task;
    icl_batch batch;
    float *inputs, *targets;
    double *outputs;
    size_t count, d, n;
} shown;

static icl_status draw(shown *all, uint64_t step, icl_error *error) {
    icl_status status = ICL_OK;

    ICL_TRY(icl_task_sample(all->task, all->backend, ICL_FOR_EVALUATION, SEED, step, &all->batch, error));
    ICL_TRY(icl_tensor_read(all->batch.inputs, all->inputs, error));
    ICL_TRY(icl_tensor_read(all->batch.targets, all->targets, error));
done:
    return status;
}

static icl_status shown_open(shown *all, const char *overrides, size_t count, icl_error *error) {
    icl_status status = ICL_OK;

    *all = (shown){.count = count};
    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "cpu"}, &all->backend, error));
    ICL_TRY(make_task(overrides, &all->task, error));
    all->d = icl_task_dimension(all->task);
    all->n = icl_task_context(all->task);
    ICL_TRY(icl_batch_create(all->task, all->backend, ICL_FOR_EVALUATION, count, &all->batch, error));
    ICL_TRY(icl_allocate(count * (all->n + 1) * (all->d + 1), sizeof(float), "inputs", &all->inputs, error));
    ICL_TRY(icl_allocate(count, sizeof(float), "targets", &all->targets, error));
    ICL_TRY(icl_allocate(count, sizeof(double), "outputs", &all->outputs, error));
    ICL_TRY(draw(all, 0, error));
done:
    return status;
}

static void shown_close(shown *all) {
    icl_free(&all->inputs);
    icl_free(&all->targets);
    icl_free(&all->outputs);
    icl_batch_release(&all->batch);
    icl_task_destroy(&all->task);
    icl_backend_close(&all->backend);
}

static icl_status run(shown *all, const char *name, icl_error *error) {
    const icl_reference_predictor *at = all->task->family->references(all->task);
    const icl_shown_sequences sequences = {all->task, all->count, all->inputs, &all->batch};

    while (at->name && strcmp(at->name, name) != 0)
        at++;
    if (!at->name)
        return icl_fail(error, ICL_ERROR_INPUT, "no predictor %s", name);
    return at->predict(at, &sequences, all->outputs, error);
}

/* ---- Regressions ---- */

static double kernel(const float *a, const float *b, size_t d, int degree) {
    double product = 0;
    for (size_t k = 0; k < d; k++)
        product += (double)a[k] * (double)b[k];
    return degree == 1 ? product : product * product;
}

/* k_t^T (K + rho)^-1 y. */
static double by_kernel(const shown *all, size_t s, int degree, double rho) {
    const size_t d = all->d, n = all->n;
    const float *tokens = all->inputs + s * (n + 1) * (d + 1);
    double A[MOST][MOST] = {{0}}, b[MOST], sum = 0;

    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++)
            A[i][j] = kernel(tokens + i * (d + 1), tokens + j * (d + 1), d, degree) + (i == j ? rho : 0);
        b[i] = (double)tokens[i * (d + 1) + d];
    }
    eliminate(n, MOST, &A[0][0], b);
    for (size_t i = 0; i < n; i++)
        sum += b[i] * kernel(tokens + i * (d + 1), tokens + n * (d + 1), d, degree);
    return sum;
}

/* A small rho where there are more pairs than features, whose kernel is singular. */
static const struct regression {
    const char *overrides, *name;
    int degree;
    double rho; /* sigma^2 d (d + 2) of the oracle */
    double within;
} regressions[] = {
    {FAMILY "task.d=2 task.n=12 task.noise=fixed:0.5", "oracle", 2, .25 * 8, 1e-5},    /* by 3 features; s is a float */
    {FAMILY "task.d=4 task.n=7 task.noise=fixed:0.25", "oracle", 2, .0625 * 24, 1e-5}, /* by 7 pairs */
    {FAMILY "task.d=4 task.n=7 task.noise=fixed:0.25", "quadratic-ols", 2, 0, 1e-7},
    {FAMILY "task.d=2 task.n=9 task.noise=fixed:0.25", "quadratic-ols", 2, 1e-9, 1e-5},
    {FAMILY "task.d=3 task.n=9 task.noise=fixed:0.25", "ols", 1, 1e-9, 1e-5},
    {FAMILY "task.d=5 task.n=3 task.noise=fixed:0.25", "ols", 1, 0, 1e-7},
    {FAMILY "task.d=1 task.n=1 task.noise=fixed:1", "oracle", 2, 3, 1e-5},
};

static icl_status check_regression(tap_run *tap, const struct regression *is, icl_error *error) {
    enum { COUNT = 25 };
    shown all;
    double worst = 0;
    icl_status status = ICL_OK;

    ICL_TRY(shown_open(&all, is->overrides, COUNT, error));
    ICL_TRY(run(&all, is->name, error));
    for (size_t s = 0; s < COUNT; s++) {
        const double expected = by_kernel(&all, s, is->degree, is->rho);
        worst = fmax(worst, fabs(all.outputs[s] - expected) / (1 + fabs(expected)));
    }
    tap_ok(tap, worst < is->within, "%s: %s solves its system (%.2g)", is->overrides, is->name, worst);
done:
    shown_close(&all);
    return status;
}

/* As many pairs as features and no noise: the function itself. */
static icl_status check_interpolation(tap_run *tap, icl_error *error) {
    enum { COUNT = 50 };
    static const char *const names[] = {"oracle", "quadratic-ols"};
    shown all;
    icl_status status = ICL_OK;

    ICL_TRY(shown_open(&all, FAMILY "task.d=3 task.n=12 task.noise=fixed:0", COUNT, error));
    for (size_t r = 0; r < 2; r++) {
        double worst = 0;
        ICL_TRY(run(&all, names[r], error));
        for (size_t s = 0; s < COUNT; s++)
            worst = fmax(worst, fabs(all.outputs[s] - (double)all.targets[s]));
        tap_ok(tap, worst < 1e-3, "%s finds W without noise (%.2g)", names[r], worst);
    }
done:
    shown_close(&all);
    return status;
}

/* ---- Losses ---- */

enum { COUNT = 20000, BATCHES = 30 };

/* Means of three numbers of a sequence: y^2; (y^ - y)^2 - y^2, which scatters less than the loss; and y^ (y^ - y),
 * which a step of the best length leaves at 0. */
typedef struct means {
    double sum[3], square[3];
} means;

static void add(const shown *all, means *to) {
    for (size_t s = 0; s < COUNT; s++) {
        const double target = (double)all->targets[s], miss = all->outputs[s] - target;
        const double values[3] = {target * target, miss * miss - target * target, all->outputs[s] * miss};
        for (int k = 0; k < 3; k++) {
            to->sum[k] += values[k] / (COUNT * BATCHES);
            to->square[k] += values[k] * values[k] / (COUNT * BATCHES);
        }
    }
}

static icl_status check_losses(tap_run *tap, const char *overrides, icl_error *error) {
    shown all;
    means seen = {{0}, {0}};
    double off[3]; /* in standard errors */
    icl_status status = ICL_OK;

    ICL_TRY(shown_open(&all, overrides, COUNT, error));
    const double noise = icl_task_get_prior(all.task)->mean_square_noise;
    const double loss = icl_quadratic_best_step(all.d, all.n, noise).loss, expected[3] = {1, loss - 1, 0};
    for (uint64_t batch = 0; batch < BATCHES; batch++) {
        ICL_TRY(draw(&all, batch, error));
        ICL_TRY(run(&all, "step", error));
        add(&all, &seen);
    }
    for (int k = 0; k < 3; k++)
        off[k] = (seen.sum[k] - expected[k]) / sqrt((seen.square[k] - seen.sum[k] * seen.sum[k]) / (COUNT * BATCHES));
    tap_ok(tap, fabs(off[0]) < 4.5, "%s: E y^2 is 1 (%.2f standard errors)", overrides, off[0]);
    tap_ok(tap, fabs(off[1]) < 4.5 && fabs(off[2]) < 4.5,
           "the best step has the loss %.4f (%.2f standard errors; along itself %.2f)", loss, off[1], off[2]);
done:
    shown_close(&all);
    return status;
}

int main(void) {
    static const char *const settings[] = {FAMILY "task.d=3 task.n=2 task.noise=fixed:0",
                                           FAMILY "task.d=2 task.n=5 task.noise=choice:0.25,1",
                                           FAMILY "task.d=1 task.n=4 task.noise=uniform:1"};
    tap_run tap = {0};
    icl_error error = {0};

    for (size_t i = 0; i < sizeof regressions / sizeof *regressions; i++)
        tap_status(&tap, check_regression(&tap, &regressions[i], &error), &error, "regression");
    tap_status(&tap, check_interpolation(&tap, &error), &error, "interpolation");
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        tap_status(&tap, check_losses(&tap, settings[i], &error), &error, "losses");
    return tap_done(&tap);
}
