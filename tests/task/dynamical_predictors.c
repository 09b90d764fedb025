/*
 * Reference predictors of dynamical systems: ridge regression against the normal equations, gradient descent against
 * its sum, the Kalman filter against the conditional mean of the joint normal law; and their losses against an
 * independent simulation.
 */
#include <math.h>

#include "core/allocate.h"
#include "eliminate.h"
#include "make_task.h"
#include "task/dynamical_system.h"

enum { MOST = 16, TABLE_SEQUENCES = 4096, OTHER_SEQUENCES = 3000, SEED = 11 };

/* ---- What they predict ---- */

typedef struct shown {
    icl_backend *backend;
    icl_task *task;
    icl_batch batch;
    float *inputs, *targets, *transition, *observation;
    double *outputs;
    size_t count;
} shown;

static icl_status read_tensor(icl_tensor tensor, float **values, icl_error *error) {
    if (!tensor.buffer)
        return ICL_OK;
    ICL_CHECK(icl_allocate(icl_tensor_count(&tensor), sizeof(float), "values", values, error));
    return icl_tensor_read(tensor, *values, error);
}

static icl_status shown_open(shown *all, const char *overrides, size_t count, icl_error *error) {
    icl_status status = ICL_OK;

    *all = (shown){.count = count};
    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "cpu"}, &all->backend, error));
    ICL_TRY(make_task(overrides, &all->task, error));
    ICL_TRY(icl_batch_create(all->task, all->backend, ICL_FOR_EVALUATION, count, &all->batch, error));
    ICL_TRY(icl_task_sample(all->task, all->backend, ICL_FOR_EVALUATION, SEED, 0, &all->batch, error));
    ICL_TRY(read_tensor(all->batch.inputs, &all->inputs, error));
    ICL_TRY(read_tensor(all->batch.targets, &all->targets, error));
    ICL_TRY(read_tensor(icl_batch_side(&all->batch, ICL_SIDE_TRANSITION), &all->transition, error));
    ICL_TRY(read_tensor(icl_batch_side(&all->batch, ICL_SIDE_OBSERVATION), &all->observation, error));
    ICL_TRY(icl_allocate(icl_tensor_count(&all->batch.targets), sizeof *all->outputs, "outputs", &all->outputs, error));
done:
    return status;
}

static void shown_close(shown *all) {
    icl_free(&all->inputs);
    icl_free(&all->targets);
    icl_free(&all->transition);
    icl_free(&all->observation);
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

/* ---- Ridge regression and gradient descent ---- */

/* The weights sum_i y_i (x_i . u) of a position with the pairs before it, for a vector u. */
static void sum_pairs(const float *s, size_t n, size_t t, const double *u, double *out) {
    for (size_t k = 0; k < n; k++)
        out[k] = 0;
    for (size_t i = 1; i <= t; i++) {
        double product = 0;
        for (size_t k = 0; k < n; k++)
            product += (double)s[(i - 1) * n + k] * u[k];
        for (size_t k = 0; k < n; k++)
            out[k] += (double)s[i * n + k] * product;
    }
}

static double distance(const double *a, const double *b, size_t n) {
    double worst = 0;
    for (size_t k = 0; k < n; k++)
        worst = fmax(worst, fabs(a[k] - b[k]));
    return worst;
}

static icl_status check_ridge(tap_run *tap, icl_error *error) {
    enum { N = 5, T = 12, COUNT = 7 };
    static const struct {
        const char *name;
        double lambda;
    } rows[] = {{"ridge:0.1", .1}, {"ridge:10", 10}};
    shown all;
    icl_status status = ICL_OK;

    ICL_TRY(shown_open(&all, "task.family=dynamical-system task.hidden=5 task.positions=12", COUNT, error));
    for (size_t r = 0; r < 2; r++) {
        double worst = 0;
        ICL_TRY(run(&all, rows[r].name, error));
        for (size_t i = 0; i < (size_t)COUNT * T; i++) {
            const float *s = all.inputs + i / T * T * N;
            double A[MOST][MOST] = {{0}}, b[MOST], expected[N];
            for (size_t k = 0; k < N; k++) {
                A[k][k] = rows[r].lambda;
                b[k] = (double)s[i % T * N + k];
            }
            for (size_t pair = 0; pair < i % T; pair++)
                for (size_t j = 0; j < N; j++)
                    for (size_t k = 0; k < N; k++)
                        A[j][k] += (double)s[pair * N + j] * (double)s[pair * N + k];
            eliminate(N, MOST, &A[0][0], b);
            sum_pairs(s, N, i % T, b, expected);
            worst = fmax(worst, distance(all.outputs + i * N, expected, N));
        }
        tap_ok(tap, worst < 1e-9, "%s solves the normal equations at every position (%.2g)", rows[r].name, worst);
    }
done:
    shown_close(&all);
    return status;
}

static icl_status check_descent(tap_run *tap, icl_error *error) {
    enum { N = 5, T = 12, COUNT = 7 };
    shown all;
    icl_status status = ICL_OK;

    ICL_TRY(shown_open(&all, "task.family=dynamical-system task.hidden=5 task.positions=12 task.constructed=true",
                       COUNT, error));
    for (int mean = 0; mean < 2; mean++) {
        double worst = 0, step, observations[T * N];
        float s[T * N];
        ICL_TRY(icl_dynamical_step(all.task, mean, &step, error));
        ICL_TRY(run(&all, mean ? "gd-mean" : "gd", error));
        for (size_t i = 0; i < (size_t)COUNT * T; i++) {
            const size_t t = i % T;
            double expected[N];
            for (size_t k = 0; k < (size_t)T * N; k++)
                observations[k] = (double)(s[k] = all.inputs[(i / T * T + k / N) * 4 * N + 2 * N + k % N]);
            sum_pairs(s, N, t, observations + t * N, expected);
            for (size_t k = 0; k < N; k++)
                expected[k] *= mean && t > 0 ? step / (double)t : step;
            worst = fmax(worst, distance(all.outputs + i * N, expected, N));
        }
        tap_ok(tap, worst < 1e-9 && step > 0, "%s is a step of %.3g (%.2g)", mean ? "gd-mean" : "gd", step, worst);
    }
done:
    shown_close(&all);
    return status;
}

/* ---- The Kalman filter ---- */

enum { KALMAN_H = 3, KALMAN_S = 2, KALMAN_T = 5 };

/* E[s_i s_j^T] for i >= j, counted from 1, of an orthogonal W: C W^(i-j) (1 + (j - 1) p^2) C^T + [i = j] r^2 I. */
static void covariance(const float *W, const float *C, size_t i, size_t j, double p, double r,
                       double out[KALMAN_S][KALMAN_S]) {
    double turned[KALMAN_S][KALMAN_H]; /* rows c of C times W^(i-j): W^(i-j)^T c */

    for (size_t a = 0; a < KALMAN_S; a++) {
        for (size_t k = 0; k < KALMAN_H; k++)
            turned[a][k] = (double)C[a * KALMAN_H + k];
        for (size_t power = j; power < i; power++) {
            double next[KALMAN_H] = {0};
            for (size_t k = 0; k < KALMAN_H; k++)
                for (size_t l = 0; l < KALMAN_H; l++)
                    next[k] += turned[a][l] * (double)W[l * KALMAN_H + k];
            memcpy(turned[a], next, sizeof next);
        }
        for (size_t b = 0; b < KALMAN_S; b++) {
            out[a][b] = i == j && a == b ? r * r : 0;
            for (size_t k = 0; k < KALMAN_H; k++)
                out[a][b] += (1 + (double)(j - 1) * p * p) * turned[a][k] * (double)C[b * KALMAN_H + k];
        }
    }
}

/* E[s_(t+1) | s_1 … s_t] by the joint covariance, for number `a` of s_(t+1). */
static double conditional_mean(const float *W, const float *C, const float *s, size_t t, size_t a, double p, double r) {
    double A[MOST][MOST], b[MOST], block[KALMAN_S][KALMAN_S], sum = 0;

    for (size_t j = 1; j <= t; j++) {
        covariance(W, C, t + 1, j, p, r, block);
        for (size_t c = 0; c < KALMAN_S; c++)
            b[(j - 1) * KALMAN_S + c] = block[a][c];
        for (size_t i = j; i <= t; i++) {
            covariance(W, C, i, j, p, r, block);
            for (size_t c = 0; c < KALMAN_S; c++)
                for (size_t d = 0; d < KALMAN_S; d++) {
                    A[(i - 1) * KALMAN_S + c][(j - 1) * KALMAN_S + d] = block[c][d];
                    A[(j - 1) * KALMAN_S + d][(i - 1) * KALMAN_S + c] = block[c][d];
                }
        }
    }
    eliminate(t * KALMAN_S, MOST, &A[0][0], b);
    for (size_t k = 0; k < t * KALMAN_S; k++)
        sum += b[k] * (double)s[k];
    return sum;
}

static icl_status check_kalman(tap_run *tap, icl_error *error) {
    enum { COUNT = 5 };
    shown all;
    double worst = 0;
    icl_status status = ICL_OK;

    ICL_TRY(shown_open(&all,
                       "task.family=dynamical-system task.observation=partial task.hidden=3 task.observed=2 "
                       "task.positions=5 task.process_noise=0.4 task.observation_noise=0.3",
                       COUNT, error));
    ICL_TRY(run(&all, "kalman", error));
    for (size_t i = 0; i < COUNT; i++)
        for (size_t k = 0; k < KALMAN_T * KALMAN_S; k++) {
            const double expected =
                conditional_mean(all.transition + i * KALMAN_H * KALMAN_H, all.observation + i * KALMAN_S * KALMAN_H,
                                 all.inputs + i * KALMAN_T * KALMAN_S, k / KALMAN_S + 1, k % KALMAN_S, .4, .3);
            worst = fmax(worst, fabs(all.outputs[i * KALMAN_T * KALMAN_S + k] - expected));
        }
    tap_ok(tap, worst < 1e-5, "kalman is the conditional mean at every position (%.2g)", worst);
done:
    shown_close(&all);
    return status;
}

/* ---- Losses ---- */

/* Half the squared error, summed over n_s and averaged over positions `first` to `last`: its mean and standard
 * error. */
static void measure(const shown *all, size_t first, size_t last, double *mean, double *standard_error) {
    const icl_task_shape *shape = icl_task_get_shape(all->task);
    double sum = 0, squares = 0;

    for (size_t i = 0; i < all->count; i++) {
        double loss = 0;
        for (size_t t = first; t <= last; t++)
            for (size_t k = 0; k < shape->outputs; k++) {
                const size_t at = (i * shape->positions + t) * shape->outputs + k;
                const double miss = all->outputs[at] - (double)all->targets[at];
                loss += .5 * miss * miss / (double)(last - first + 1);
            }
        sum += loss;
        squares += loss * loss;
    }
    *mean = sum / (double)all->count;
    *standard_error = sqrt((squares / (double)all->count - *mean * *mean) / (double)all->count);
}

/* Of an independent simulation of 3,000 sequences: n_s = 10, T = 50, noise 0.1; 0 as position: the mean over all. */
static icl_status check_table(tap_run *tap, icl_error *error) {
    static const struct {
        const char *name;
        size_t position;
        double loss;
    } rows[] = {{"zero", 0, 6.205},      {"gd", 0, 3.526},        {"gd-mean", 0, 3.126},  {"ridge:0.001", 0, .675},
                {"ridge:0.1", 0, .655},  {"ridge:1", 0, .702},    {"ridge:10", 0, 1.276}, {"floor", 0, .05},
                {"ridge:0.1", 10, .743}, {"ridge:0.1", 20, .099}, {"ridge:0.1", 50, .064}};
    shown all;
    icl_status status = ICL_OK;

    ICL_TRY(shown_open(&all, "task.family=dynamical-system", TABLE_SEQUENCES, error));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const size_t at = rows[i].position;
        double mean, error_of, both;
        ICL_TRY(run(&all, rows[i].name, error));
        measure(&all, at > 0 ? at - 1 : 0, at > 0 ? at - 1 : 49, &mean, &error_of);
        both = error_of * sqrt(1 + (double)TABLE_SEQUENCES / OTHER_SEQUENCES) + .0005; /* and its rounding */
        tap_ok(tap, fabs(mean - rows[i].loss) < 3 * both, "%s, position %zu: %.4f +- %.4f, elsewhere %.4f",
               rows[i].name, at, mean, error_of, rows[i].loss);
    }
done:
    shown_close(&all);
    return status;
}

/* Nobody is below who knows the system; without a linear system nobody claims to be. */
static icl_status check_floor(tap_run *tap, icl_error *error) {
    shown all;
    double known, known_error, ridge, ridge_error;
    icl_status status = ICL_OK;

    ICL_TRY(shown_open(&all, "task.family=dynamical-system task.observation=partial task.hidden=15", 512, error));
    ICL_TRY(run(&all, "kalman", error));
    measure(&all, 0, 49, &known, &known_error);
    ICL_TRY(run(&all, "ridge:1", error));
    measure(&all, 0, 49, &ridge, &ridge_error);
    tap_ok(tap, known + 5 * known_error < ridge, "kalman %.3f +- %.3f, ridge %.3f", known, known_error, ridge);
    shown_close(&all);
    ICL_TRY(shown_open(&all, "task.family=dynamical-system task.state_clip=2", 2, error));
    tap_ok(tap, run(&all, "floor", error) == ICL_ERROR_INPUT && run(&all, "ridge:1", error) == ICL_OK,
           "a clipped system has no floor");
done:
    shown_close(&all);
    return status;
}

int main(void) {
    static icl_status (*const checks[])(tap_run * tap, icl_error * error) = {check_ridge, check_descent, check_kalman,
                                                                             check_table, check_floor};
    tap_run tap = {0};
    icl_error error = {0};

    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        tap_status(&tap, checks[i](&tap, &error), &error, "predictors run");
    return tap_done(&tap);
}
