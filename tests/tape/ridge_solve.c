/* Ridge systems of a recurrence by conjugate gradients are compared with Cholesky's factors for every token (LAPACK)
 * and with recursive least squares without forgetting; their gradients and special values are checked, too. Also
 * detach. */
#include <lapacke.h>
#include <math.h>
#include <string.h>

#include "iclab/iclab.h"
#include "iclab/status.h"
#include "tap.h"

enum { B = 2, H = 2, T = 37, M = 5, VECTORS = B * H * T * M, NUMBERS = B * H * T, RIDGES = H * M };
enum { Q, K, BETA, DECAY, RIDGE, INPUTS };

static const size_t counts[INPUTS] = {VECTORS, VECTORS, NUMBERS, NUMBERS, RIDGES};

typedef struct system_values {
    double of[INPUTS][VECTORS];
    double x[VECTORS];
} system_values;

typedef struct bench {
    tap_run tap;
    icl_backend *backend;
    bool exact; /* arithmetic in double */
} bench;

static double noise(uint32_t stream, size_t index) {
    return (double)icl_normal_from_word(icl_random_word((icl_random_key){.seed = 4, .stream = stream}, index));
}

static void fill(system_values *s, bool forgets) {
    for (int i = 0; i < INPUTS; i++)
        for (size_t k = 0; k < counts[i]; k++)
            s->of[i][k] = (double)(float)noise((uint32_t)i, k);
    for (size_t k = 0; k < NUMBERS; k++) {
        s->of[BETA][k] = 0.5 + 0.1 * s->of[BETA][k];
        s->of[DECAY][k] = forgets ? -0.1 * fabs(s->of[DECAY][k]) : 0;
    }
    for (size_t k = 0; k < RIDGES; k++)
        s->of[RIDGE][k] = 0.5 + 0.1 * fabs(s->of[RIDGE][k]);
    /* Round to float, as a device does. */
    for (int i = 0; i < INPUTS; i++)
        for (size_t k = 0; k < counts[i]; k++)
            s->of[i][k] = (double)(float)s->of[i][k];
}

static icl_status make_inputs(bench *b, const system_values *s, icl_tensor tensors[INPUTS], icl_error *error) {
    for (int i = 0; i < INPUTS; i++) {
        const size_t last = i == BETA || i == DECAY ? 1 : M;
        const size_t shape[] = {B, H, T, last}, ridge[] = {H, 1, M};
        ICL_CHECK(i == RIDGE ? icl_tensor_create(b->backend, 3, ridge, &tensors[i], error)
                             : icl_tensor_create(b->backend, 4, shape, &tensors[i], error));
        ICL_CHECK(icl_tensor_write_double(tensors[i], s->of[i], error));
    }
    return ICL_OK;
}

/* Adds the gradients of the sum of weights times x to those of the inputs. */
static icl_status differentiate(bench *b, icl_tape *tape, icl_variable x, icl_error *error) {
    const size_t shape[] = {B, H, T, M};
    icl_tensor weights = {0};
    double values[VECTORS];
    icl_status status = ICL_OK;

    for (size_t i = 0; i < VECTORS; i++)
        values[i] = noise(9, i);
    ICL_TRY(icl_tensor_create(b->backend, 4, shape, &weights, error));
    ICL_TRY(icl_tensor_write_double(weights, values, error));
    const icl_variable product = icl_tape_binary(tape, ICL_MULTIPLY, x, icl_tape_constant(tape, weights));
    ICL_TRY(icl_tape_backward(tape, icl_tape_reduce(tape, ICL_SUM, 15, product), error));
done:
    icl_tensor_release(&weights);
    return status;
}

/* Computes x, and, if gradients is not NULL, the gradients of the sum of weights times x. */
static icl_status run(bench *b, system_values *s, size_t iterations, double (*gradients)[VECTORS], icl_error *error) {
    icl_tensor tensors[INPUTS] = {{0}}, d[INPUTS] = {{0}};
    icl_variable v[INPUTS];
    icl_tape *tape = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_tape_create(b->backend, &tape, error));
    ICL_TRY(make_inputs(b, s, tensors, error));
    for (int i = 0; i < INPUTS; i++) {
        ICL_TRY(icl_tensor_create(b->backend, tensors[i].rank, tensors[i].shape, &d[i], error));
        v[i] = icl_tape_parameter(tape, tensors[i], d[i]);
    }
    const icl_ridge_solve_variables inputs = {
        .q = v[Q], .k = v[K], .ridge = v[RIDGE], .beta = &v[BETA], .decay = &v[DECAY]};
    const icl_variable x = icl_tape_ridge_solve(tape, iterations, &inputs);
    ICL_TRY(icl_tape_status(tape, error));
    ICL_TRY(icl_tensor_read_double(icl_tape_value(tape, x), s->x, error));
    if (gradients)
        ICL_TRY(differentiate(b, tape, x, error));
    for (int i = 0; gradients && i < INPUTS; i++)
        ICL_TRY(icl_tensor_read_double(d[i], gradients[i], error));
done:
    icl_tape_destroy(&tape);
    for (int i = 0; i < INPUTS; i++) {
        icl_tensor_release(&tensors[i]);
        icl_tensor_release(&d[i]);
    }
    return status;
}

/* ---- Other ways to x ---- */

static void by_cholesky(const system_values *s, double *x) {
    double h[M][M], a[M][M];

    for (size_t head = 0; head < B * H; head++) {
        memset(h, 0, sizeof h);
        for (size_t t = 0; t < T; t++) {
            const size_t at = head * T + t;
            const double *k = s->of[K] + at * M;
            for (size_t i = 0; i < M; i++)
                for (size_t j = 0; j < M; j++)
                    h[i][j] = exp(s->of[DECAY][at]) * h[i][j] + s->of[BETA][at] * k[i] * k[j];
            memcpy(a, h, sizeof a);
            for (size_t i = 0; i < M; i++)
                a[i][i] += s->of[RIDGE][head % H * M + i];
            memcpy(x + at * M, s->of[Q] + at * M, M * sizeof *x);
            LAPACKE_dposv(LAPACK_ROW_MAJOR, 'U', M, 1, &a[0][0], M, x + at * M, 1);
        }
    }
}

/* R = R - b R k k^T R / (1 + b k^T R k), R_0 = diag(ridge)^-1: without forgetting. */
static void by_recursive_least_squares(const system_values *s, double *x) {
    double r[M][M], rk[M];

    for (size_t head = 0; head < B * H; head++) {
        memset(r, 0, sizeof r);
        for (size_t i = 0; i < M; i++)
            r[i][i] = 1 / s->of[RIDGE][head % H * M + i];
        for (size_t t = 0; t < T; t++) {
            const size_t at = head * T + t;
            const double *k = s->of[K] + at * M, beta = s->of[BETA][at];
            double inner = 0;
            for (size_t i = 0; i < M; i++) {
                rk[i] = 0;
                for (size_t j = 0; j < M; j++)
                    rk[i] += r[i][j] * k[j];
                inner += rk[i] * k[i];
            }
            for (size_t i = 0; i < M; i++)
                for (size_t j = 0; j < M; j++)
                    r[i][j] -= beta * rk[i] * rk[j] / (1 + beta * inner);
            for (size_t i = 0; i < M; i++) {
                x[at * M + i] = 0;
                for (size_t j = 0; j < M; j++)
                    x[at * M + i] += r[i][j] * s->of[Q][at * M + j];
            }
        }
    }
}

static double distance(const double *a, const double *b, size_t count) {
    double worst = 0;
    for (size_t i = 0; i < count; i++)
        worst = isnan(a[i]) || isnan(b[i]) ? HUGE_VAL : fmax(worst, fabs(a[i] - b[i]));
    return worst;
}

static void check_solution(bench *b, system_values *s, const double *expected, const char *whose) {
    /* Condition numbers here are below 100: as many roundings are allowed, a few times. */
    const double allowed = b->exact ? 1e-12 : 2e-4;
    icl_error error = {0};
    const icl_status status = run(b, s, 20, NULL, &error);
    const double worst = status == ICL_OK ? distance(s->x, expected, VECTORS) : HUGE_VAL;

    tap_ok(&b->tap, worst <= allowed, "20 steps are the solution of %s: %.2g %s", whose, worst, error.message);
}

static void test_solution(bench *b) {
    static system_values s;
    static double expected[VECTORS];
    icl_error error = {0};
    double before = HUGE_VAL;

    fill(&s, true);
    by_cholesky(&s, expected);
    check_solution(b, &s, expected, "Cholesky");
    for (size_t steps = 0; steps <= 4; steps += 2) {
        const icl_status status = run(b, &s, steps, NULL, &error);
        const double seen = distance(s.x, expected, VECTORS);
        tap_ok(&b->tap, status == ICL_OK && seen < before && seen > 1e-3, "%zu steps are nearer, but not there: %.2g",
               steps, seen);
        before = seen;
    }
    fill(&s, false);
    by_recursive_least_squares(&s, expected);
    check_solution(b, &s, expected, "recursive least squares, where nothing is forgotten");
}

static double loss_of(const system_values *s) {
    static double x[VECTORS];
    double loss = 0;

    by_cholesky(s, x);
    for (size_t i = 0; i < VECTORS; i++)
        loss += noise(9, i) * x[i];
    return loss;
}

/* Compares with differences of Cholesky's solutions, which are independent of the op. */
static void test_gradients(bench *b) {
    static const char *const names[INPUTS] = {"q", "k", "beta", "decay", "ridge"};
    static system_values s;
    static double seen[INPUTS][VECTORS], expected[VECTORS];
    const double h = 1e-5, allowed = b->exact ? 1e-7 : 1e-3;
    icl_error error = {0};

    fill(&s, true);
    if (!tap_status(&b->tap, run(b, &s, 20, seen, &error), &error, "gradients"))
        return;
    for (int i = 0; i < INPUTS; i++) {
        double largest = 0;
        for (size_t k = 0; k < counts[i]; k++) {
            const double value = s.of[i][k];
            s.of[i][k] = value + h;
            expected[k] = loss_of(&s);
            s.of[i][k] = value - h;
            expected[k] = (expected[k] - loss_of(&s)) / (2 * h);
            s.of[i][k] = value;
            largest = fmax(largest, fabs(expected[k]));
        }
        const double worst = distance(seen[i], expected, counts[i]);
        tap_ok(&b->tap, worst <= allowed * largest, "gradient of %s: %.2g of %.3g", names[i], worst, largest);
    }
}

static void test_special(bench *b) {
    static system_values s, plain;
    static double gradients[INPUTS][VECTORS];
    icl_error error = {0};
    icl_status status;
    double largest = 0;

    fill(&plain, true);
    s = plain;
    status = run(b, &plain, 20, NULL, &error);
    /* Query 3 of the first head is zero; query 4 is tiny, and must be solved as well as others. */
    memset(s.of[Q] + 3 * M, 0, M * sizeof **s.of);
    for (size_t i = 0; i < M; i++)
        s.of[Q][4 * M + i] *= ldexp(1, -80);
    if (status == ICL_OK)
        status = run(b, &s, 200, gradients, &error);
    for (size_t i = 0; i < M; i++)
        largest = fmax(largest, fabs(s.x[3 * M + i]));
    tap_ok(&b->tap, status == ICL_OK && largest == 0 && isfinite(gradients[K][3 * M]),
           "a query of zeros gives zeros, after any number of steps");
    for (size_t i = 0; i < M; i++)
        s.x[4 * M + i] = ldexp(s.x[4 * M + i], 80);
    tap_ok(&b->tap, distance(s.x + 4 * M, plain.x + 4 * M, M) <= (b->exact ? 1e-12 : 2e-4),
           "a small one likewise: %.2g", distance(s.x + 4 * M, plain.x + 4 * M, M));
    s = plain;
    s.of[K][(T + 5) * M] = (double)NAN; /* of the second head */
    status = run(b, &s, 20, gradients, &error);
    tap_ok(&b->tap,
           status == ICL_OK && distance(s.x, plain.x, (T + 5) * M) == 0 && isnan(s.x[(T + 5) * M]) &&
               distance(s.x + 2 * T * M, plain.x + 2 * T * M, VECTORS - 2 * T * M) == 0,
           "NaN reaches what comes behind it in its head alone");
    tap_ok(&b->tap, status == ICL_OK && isfinite(gradients[Q][0]) && isnan(gradients[K][(T + 6) * M]),
           "and its gradients");
}

static icl_status detached(bench *b, float seen[2], icl_error *error) {
    const size_t one = 1;
    icl_tensor x = {0}, dx = {0};
    icl_tape *tape = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_tensor_create(b->backend, 1, &one, &x, error));
    ICL_TRY(icl_tensor_create(b->backend, 1, &one, &dx, error));
    ICL_TRY(icl_fill(b->backend, x, 3.0, error));
    ICL_TRY(icl_tape_create(b->backend, &tape, error));
    const icl_variable v = icl_tape_parameter(tape, x, dx);
    const icl_variable product = icl_tape_binary(tape, ICL_MULTIPLY, v, icl_tape_detach(tape, v));
    ICL_TRY(icl_tape_backward(tape, product, error));
    ICL_TRY(icl_tensor_read(icl_tape_value(tape, product), &seen[0], error));
    ICL_TRY(icl_tensor_read(dx, &seen[1], error));
done:
    icl_tape_destroy(&tape);
    icl_tensor_release(&x);
    icl_tensor_release(&dx);
    return status;
}

int main(int argc, char **argv) {
    bench b = {.backend = NULL};
    icl_error error = {0};
    float seen[2] = {0, 0};

    b.backend = tap_open_device(&b.tap, argc > 1 ? argv[1] : "ref");
    if (b.backend) {
        b.exact = icl_backend_capabilities(b.backend)->element_size == sizeof(double);
        test_solution(&b);
        test_gradients(&b);
        test_special(&b);
        const icl_status status = detached(&b, seen, &error);
        tap_ok(&b.tap, status == ICL_OK && seen[0] == 9 && seen[1] == 3,
               "x times detached x: %g, and a gradient of x alone: %g", (double)seen[0], (double)seen[1]);
    }
    icl_backend_close(&b.backend);
    return tap_done(&b.tap);
}
