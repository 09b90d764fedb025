/* Reference predictors of quadratic targets, dynamical systems and functions on the sphere: regressions against linear
 * systems of kernels and the normal equations, gradient descent against its sum, the Kalman filter against the
 * conditional mean of the joint normal law, local means against their definition and their fitted numbers against a
 * search; losses against closed forms and an independent simulation. */
#include "eliminate.h"
#include "frame.h"
#include "task/parts.h"

#define QUADRATIC "task.family=quadratic-regression "
#define DYNAMICAL "task.family=dynamical-system "

enum { MOST = 16 }; /* unknowns of a linear system */

/* ---- Quadratic targets: regressions ---- */

static double kernel(const float *a, const float *b, size_t d, int degree) {
    return pow(dot(a, b, d), degree);
}

/* k_t^T (K + rho)^-1 y. */
static double by_kernel(const drawn *batch, size_t s, int degree, double rho) {
    const size_t d = batch->d, n = batch->length - 1;
    double A[MOST][MOST] = {{0}}, b[MOST], sum = 0;

    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++)
            A[i][j] = kernel(input_at(batch, s, i), input_at(batch, s, j), d, degree) + (i == j ? rho : 0);
        b[i] = (double)input_at(batch, s, i)[d];
    }
    eliminate(n, MOST, &A[0][0], b);
    for (size_t i = 0; i < n; i++)
        sum += b[i] * kernel(input_at(batch, s, i), input_at(batch, s, n), d, degree);
    return sum;
}

/* rho is small but not 0 if there are more pairs than features, because the kernel is then singular. */
static const struct regression {
    const char *overrides, *name;
    int degree;
    double rho; /* of the oracle: sigma^2 d (d + 2) */
    double within;
} regressions[] = {
    {QUADRATIC "task.d=2 task.n=12 task.noise=fixed:0.5", "oracle", 2, .25 * 8, 1e-5}, /* by 3 features; s is a float */
    {QUADRATIC "task.d=4 task.n=7 task.noise=fixed:0.25", "oracle", 2, .0625 * 24, 1e-5}, /* by 7 pairs */
    {QUADRATIC "task.d=4 task.n=7 task.noise=fixed:0.25", "quadratic-ols", 2, 0, 1e-7},
    {QUADRATIC "task.d=2 task.n=9 task.noise=fixed:0.25", "quadratic-ols", 2, 1e-9, 1e-5},
    {QUADRATIC "task.d=3 task.n=9 task.noise=fixed:0.25", "ols", 1, 1e-9, 1e-5},
    {QUADRATIC "task.d=5 task.n=3 task.noise=fixed:0.25", "ols", 1, 0, 1e-7},
    {QUADRATIC "task.d=1 task.n=1 task.noise=fixed:1", "oracle", 2, 3, 1e-5},
};

static void check_regressions(task_test *test) {
    drawn all = {0};

    for (const struct regression *row = regressions; row < regressions + sizeof regressions / sizeof *row; row++) {
        double worst = 0;
        draw(&all, test->device, 25, "%s", row->overrides);
        predict(&all, row->name);
        for (size_t s = 0; s < all.count; s++) {
            const double expected = by_kernel(&all, s, row->degree, row->rho);
            worst = fmax(worst, fabs(all.outputs[s] - expected) / (1 + fabs(expected)));
        }
        tap_ok(&test->tap, worst < row->within, "%s: %s solves its system (%.2g)", row->overrides, row->name, worst);
    }
    release(&all);
}

/* As many pairs as features, without noise, determine the function. */
static void check_interpolation(task_test *test) {
    enum { COUNT = 50 };
    static const char *const names[] = {"oracle", "quadratic-ols"};
    drawn all = {0};

    draw(&all, test->device, COUNT, QUADRATIC "task.d=3 task.n=12 task.noise=fixed:0");
    for (size_t r = 0; r < 2; r++) {
        double worst = 0;
        predict(&all, names[r]);
        for (size_t s = 0; s < COUNT; s++)
            worst = fmax(worst, fabs(all.outputs[s] - target_at(&all, s, 0)));
        tap_ok(&test->tap, worst < 1e-3, "%s finds W without noise (%.2g)", names[r], worst);
    }
    release(&all);
}

/* ---- Quadratic targets: losses ---- */

/* Checks means of y^2; of (y^ - y)^2 - y^2, which scatters less than the loss; and of y^ (y^ - y), which is 0 for a
 * step of the best length. noise: E[sigma^2]. */
static void check_loss(task_test *test, const char *overrides, double noise) {
    enum { COUNT = 20000, BATCHES = 30 };
    drawn all = {0};
    statistic label = {0}, gain = {0}, along = {0};

    open_batch(&all, test->device, ICL_FOR_EVALUATION, COUNT, overrides);
    const double loss = icl_quadratic_best_step(all.d, all.length - 1, noise).loss;
    for (uint64_t step = 0; step < BATCHES; step++) {
        draw_step(&all, SEED, step);
        predict(&all, "step");
        for (size_t s = 0; s < COUNT; s++) {
            const double target = target_at(&all, s, 0), miss = all.outputs[s] - target;
            add(&label, target * target);
            add(&gain, miss * miss - target * target);
            add(&along, all.outputs[s] * miss);
        }
    }
    tap_ok(&test->tap, deviation(&label, 1) < BOUND, "%s: E y^2 is 1 (%.2f standard errors)", overrides,
           deviation(&label, 1));
    tap_ok(&test->tap, deviation(&gain, loss - 1) < BOUND && deviation(&along, 0) < BOUND,
           "the best step has the loss %.4f (%.2f standard errors; along itself %.2f)", loss,
           deviation(&gain, loss - 1), deviation(&along, 0));
    release(&all);
}

static void check_losses(task_test *test) {
    check_loss(test, QUADRATIC "task.d=3 task.n=2 task.noise=fixed:0", 0);
    check_loss(test, QUADRATIC "task.d=2 task.n=5 task.noise=choice:0.25,1", (.0625 + 1) / 2);
    check_loss(test, QUADRATIC "task.d=1 task.n=4 task.noise=uniform:1", 1. / 3);
}

/* ---- Dynamical systems: ridge regression and gradient descent ---- */

/* Computes the weights sum_i y_i (x_i . u) of a position, over the pairs before it, for a vector u. */
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

static void check_ridge(task_test *test) {
    enum { N = 5, T = 12, COUNT = 7 };
    static const struct {
        const char *name;
        double lambda;
    } rows[] = {{"ridge:0.1", .1}, {"ridge:10", 10}};
    drawn all = {0};

    draw(&all, test->device, COUNT, DYNAMICAL "task.hidden=5 task.positions=12");
    for (size_t r = 0; r < 2; r++) {
        double worst = 0;
        predict(&all, rows[r].name);
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
        tap_ok(&test->tap, worst < 1e-9, "%s solves the normal equations at every position (%.2g)", rows[r].name,
               worst);
    }
    release(&all);
}

/* With inputs u, ridge:1 solves the normal equations of (W G), and who knows the plant predicts (W G) z. */
static void check_driven(task_test *test) {
    enum { N = 3, U = 2, P = N + U, T = 10, COUNT = 7 };
    drawn all = {0};
    double worst = 0, apart = 0;

    draw(&all, test->device, COUNT, DYNAMICAL "task.hidden=3 task.controls=2 task.positions=10");
    predict(&all, "ridge:1");
    for (size_t i = 0; i < (size_t)COUNT * T; i++) {
        const float *z = all.inputs + i / T * T * P;
        double A[MOST][MOST] = {{0}}, b[MOST], expected[N] = {0};
        for (size_t k = 0; k < P; k++) {
            A[k][k] = 1;
            b[k] = (double)z[i % T * P + k];
        }
        for (size_t pair = 0; pair < i % T; pair++)
            for (size_t j = 0; j < P; j++)
                for (size_t k = 0; k < P; k++)
                    A[j][k] += (double)z[pair * P + j] * (double)z[pair * P + k];
        eliminate(P, MOST, &A[0][0], b);
        for (size_t pair = 0; pair < i % T; pair++) {
            double product = 0;
            for (size_t k = 0; k < P; k++)
                product += (double)z[pair * P + k] * b[k];
            for (size_t k = 0; k < N; k++)
                expected[k] += product * (double)z[(pair + 1) * P + k];
        }
        worst = fmax(worst, distance(all.outputs + i * N, expected, N));
    }
    predict(&all, "floor");
    for (size_t i = 0; i < (size_t)COUNT * T; i++)
        for (size_t k = 0; k < N; k++) {
            double sum = 0;
            for (size_t j = 0; j < P; j++)
                sum += (double)all.transition[(i / T * N + k) * P + j] * (double)all.inputs[i * P + j];
            apart = fmax(apart, fabs(all.outputs[i * N + k] - sum));
        }
    tap_ok(&test->tap, worst < 1e-9, "ridge:1 of states and inputs solves the normal equations (%.2g)", worst);
    tap_ok(&test->tap, apart < 1e-12, "floor is (W G) z (%.2g)", apart);
    release(&all);
}

static void check_descent(task_test *test) {
    enum { N = 5, T = 12, COUNT = 7 };
    drawn all = {0};

    draw(&all, test->device, COUNT, DYNAMICAL "task.hidden=5 task.positions=12 task.constructed=true");
    for (int mean = 0; mean < 2; mean++) {
        double worst = 0, step, observations[T * N];
        float s[T * N];
        tap_need(icl_dynamical_step(all.task, mean, &step, tap_error()));
        predict(&all, mean ? "gd-mean" : "gd");
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
        tap_ok(&test->tap, worst < 1e-9 && step > 0, "%s is a step of %.3g (%.2g)", mean ? "gd-mean" : "gd", step,
               worst);
    }
    release(&all);
}

/* ---- Dynamical systems: the Kalman filter ---- */

enum { KALMAN_H = 3, KALMAN_S = 2, KALMAN_T = 5 };

/* E[s_i s_j^T] for i >= j, counted from 1, with an orthogonal W: C W^(i-j) (1 + (j - 1) p^2) C^T + [i = j] r^2 I. */
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

/* Returns E[s_(t+1) | s_1 … s_t] by the joint covariance, for coordinate `a` of s_(t+1). */
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

static void check_kalman(task_test *test) {
    enum { COUNT = 5 };
    drawn all = {0};
    double worst = 0;

    draw(&all, test->device, COUNT,
         DYNAMICAL "task.observation=partial task.hidden=3 task.observed=2 "
                   "task.positions=5 task.process_noise=0.4 task.observation_noise=0.3");
    predict(&all, "kalman");
    for (size_t i = 0; i < COUNT; i++)
        for (size_t k = 0; k < KALMAN_T * KALMAN_S; k++) {
            const double expected =
                conditional_mean(all.transition + i * KALMAN_H * KALMAN_H, all.observation + i * KALMAN_S * KALMAN_H,
                                 all.inputs + i * KALMAN_T * KALMAN_S, k / KALMAN_S + 1, k % KALMAN_S, .4, .3);
            worst = fmax(worst, fabs(all.outputs[i * KALMAN_T * KALMAN_S + k] - expected));
        }
    tap_ok(&test->tap, worst < 1e-5, "kalman is the conditional mean at every position (%.2g)", worst);
    release(&all);
}

/* ---- Dynamical systems: losses ---- */

/* Returns half the squared error, summed over n_s and averaged over positions `first` to `last`. */
static statistic loss_between(const drawn *batch, size_t first, size_t last) {
    const size_t outputs = batch->task->shape.outputs;
    statistic seen = {0};

    for (size_t s = 0; s < batch->count; s++) {
        double loss = 0;
        for (size_t i = (s * batch->length + first) * outputs; i < (s * batch->length + last + 1) * outputs; i++)
            loss += .5 * pow(batch->outputs[i] - (double)batch->targets[i], 2) / (double)(last - first + 1);
        add(&seen, loss);
    }
    return seen;
}

/* Losses of an independent simulation of 3,000 sequences: n_s = 10, T = 50, noise 0.1; position 0: the mean over
 * all. */
static void check_table(task_test *test) {
    static const struct {
        const char *name;
        size_t position;
        double loss;
    } rows[] = {{"zero", 0, 6.205},      {"gd", 0, 3.526},        {"gd-mean", 0, 3.126},  {"ridge:0.001", 0, .675},
                {"ridge:0.1", 0, .655},  {"ridge:1", 0, .702},    {"ridge:10", 0, 1.276}, {"floor", 0, .05},
                {"ridge:0.1", 10, .743}, {"ridge:0.1", 20, .099}, {"ridge:0.1", 50, .064}};
    enum { OURS = 4096, THEIRS = 3000 };
    drawn all = {0};

    draw(&all, test->device, OURS, DYNAMICAL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const size_t at = rows[i].position;
        predict(&all, rows[i].name);
        const statistic seen = loss_between(&all, at > 0 ? at - 1 : 0, at > 0 ? at - 1 : 49);
        const double error = standard_error(&seen) * sqrt(1 + (double)OURS / THEIRS) + .0005; /* with its rounding */
        tap_ok(&test->tap, fabs(seen.sum / OURS - rows[i].loss) < 3 * error, "%s, position %zu: %.4f, elsewhere %.4f",
               rows[i].name, at, seen.sum / OURS, rows[i].loss);
    }
    release(&all);
}

/* The Kalman filter, which knows the system, is a floor below ridge; without a linear system there is no floor. */
static void check_floor(task_test *test) {
    drawn all = {0};

    draw(&all, test->device, 512, DYNAMICAL "task.observation=partial task.hidden=15");
    predict(&all, "ridge:1");
    const double ridge = loss_between(&all, 0, 49).sum / 512;
    predict(&all, "kalman");
    const statistic known = loss_between(&all, 0, 49);
    tap_ok(&test->tap, known.sum / 512 < ridge && deviation(&known, ridge) > BOUND, "kalman %.3f, ridge %.3f",
           known.sum / 512, ridge);
    draw(&all, test->device, 2, DYNAMICAL "task.state_clip=2");
    tap_ok(&test->tap,
           ask_predictor(&all, "floor", NULL) == ICL_ERROR_INPUT && ask_predictor(&all, "ridge:1", NULL) == ICL_OK,
           "a clipped system has no floor");
    release(&all);
}

/* ---- Functions on the sphere ---- */

/* Returns the mean label of the query's `neighbours` nearest neighbours, or, if that is 0, of all inputs by a kernel of
 * this bandwidth. */
static double local_mean(const drawn *batch, size_t s, size_t neighbours, double bandwidth) {
    const size_t n = batch->length - 1;
    double squares[MOST], sum = 0, weights = 0;

    for (size_t i = 0; i < n; i++) {
        const float *x = input_at(batch, s, i), *query = input_at(batch, s, n);
        squares[i] = dot(x, x, batch->d) + dot(query, query, batch->d) - 2 * dot(x, query, batch->d);
    }
    for (size_t i = 0; i < n; i++) {
        size_t nearer = 0;
        for (size_t j = 0; j < n; j++)
            nearer += squares[j] < squares[i];
        const double weight = neighbours > 0 ? nearer < neighbours : exp(-squares[i] / (2 * bandwidth * bandwidth));
        sum += weight * (double)input_at(batch, s, i)[batch->d];
        weights += weight;
    }
    return sum / weights;
}

static double error_of(const drawn *batch, size_t neighbours, double bandwidth) {
    double sum = 0;
    for (size_t s = 0; s < batch->count; s++)
        sum += pow(local_mean(batch, s, neighbours, bandwidth) - target_at(batch, s, 0), 2);
    return sum / (double)batch->count;
}

static void compare(task_test *test, drawn *batch, const char *name, size_t neighbours, double bandwidth) {
    double worst = 0;

    predict(batch, name);
    for (size_t s = 0; s < batch->count; s++)
        worst = fmax(worst, fabs(batch->outputs[s] - local_mean(batch, s, neighbours, bandwidth)));
    tap_ok(&test->tap, worst < 1e-12, "%s is what it is by definition, within %.1e", name, worst);
}

/* On the sequences drawn for fitting, k is the best of all, and no bandwidth near h is better. */
static void check_fit(task_test *test, const drawn *batch, const icl_functions_fit *fit) {
    const double h = fit->bandwidth, kernel_error = error_of(batch, 0, h);
    double least = (double)INFINITY;
    size_t best = 0;

    for (size_t k = 1; k < batch->length; k++)
        if (error_of(batch, k, 1) < least) {
            least = error_of(batch, k, 1);
            best = k;
        }
    tap_ok(&test->tap, fit->neighbours == best, "k = %zu neighbours have the least error (%zu)", fit->neighbours, best);
    tap_ok(&test->tap, kernel_error < error_of(batch, 0, 1.02 * h) && kernel_error < error_of(batch, 0, h / 1.02),
           "h = %.4f has less error than 2 %% beside it", h);
    tap_ok(&test->tap, kernel_error < least && least <= error_of(batch, batch->length - 1, 1),
           "kernel %.4f, nearest %.4f", kernel_error, least);
}

/* Checks the local means, and returns the fitted bandwidth. */
static double check_local(task_test *test, const char *noise) {
    static const char *const names[] = {"zero", "mean", "nearest", "kernel"};
    drawn all = {0}, fitting = {0};
    char overrides[128], text[64] = "";
    double largest = 0;

    snprintf(overrides, sizeof overrides, "task.family=functions task.d=3 task.n=6 task.noise=%s", noise);
    draw(&all, test->device, 64, "%s", overrides);
    tap_ok(&test->tap, has_predictors(&all, names, 4), "zero, mean, nearest and kernel");
    predict(&all, "zero");
    for (size_t s = 0; s < all.count; s++)
        largest = fmax(largest, fabs(all.outputs[s]));
    compare(test, &all, "mean", 6, 1);
    const uint64_t before = icl_backend_get_statistics(all.backend).ops;
    tap_ok(&test->tap, largest == 0 && !icl_functions_get_fit(all.task)->is_done,
           "nothing is fitted for zero and mean");
    predict(&all, "kernel");
    tap_ok(&test->tap, icl_backend_get_statistics(all.backend).ops > before,
           "what kernel is fitted on is drawn on the backend that it is handed");
    const icl_functions_fit fit = *icl_functions_get_fit(all.task);
    compare(test, &all, "nearest", fit.neighbours, 1);
    compare(test, &all, "kernel", 0, fit.bandwidth);
    const icl_reference_predictor *kernel = &all.task->family->references(all.task)[3];
    kernel->describe(kernel, all.task, text, sizeof text);
    tap_ok(&test->tap, fabs(strtod(text + strlen("h = "), NULL) / fit.bandwidth - 1) < 1e-3, "the table has %s", text);
    open_batch(&fitting, test->device, ICL_FOR_FITTING, 4096, overrides);
    draw_step(&fitting, 1, 0);
    check_fit(test, &fitting, &fit);
    release(&all);
    release(&fitting);
    return fit.bandwidth;
}

static void check_functions(task_test *test) {
    const double quiet = check_local(test, "0"), noisy = check_local(test, "1");
    tap_ok(&test->tap, noisy > 1.5 * quiet, "noise widens the kernel: h from %.3f to %.3f", quiet, noisy);
}

int main(int count, char **arguments) {
    static task_check *const checks[] = {check_regressions, check_interpolation, check_losses, check_ridge,
                                         check_driven,      check_descent,       check_kalman, check_table,
                                         check_floor,       check_functions};
    return run_checks(count, arguments, checks, sizeof checks / sizeof *checks);
}
