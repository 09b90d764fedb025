/* Tests sample covariances against known moments. Tests the curvature by which a looped layer leaves multiples of the
 * identity against second differences of the loss itself, by plain products of matrices, and against its limit for long
 * contexts. */
#include "papers/measures.h"

#include <math.h>
#include <string.h>

#include "tap.h"

enum { D = 3, SIZE = D * D, SAMPLES = 200, SEED = 5 };

static double square_sum(const void *user, size_t d, const double *eigenvalues) {
    double sum = 0;

    (void)user;
    for (size_t i = 0; i < d; i++)
        sum += eigenvalues[i] * eigenvalues[i];
    return sum;
}

/* Checks E tr S^2 = d (n + d + 1) / n. */
static void check_moment(tap_run *tap, size_t d, size_t n) {
    const double exact = (double)(d * (n + d + 1)) / (double)n;
    double mean = 0, standard_error = 0;
    icl_error error;

    tap_status(tap, icl_wishart_mean(d, n, SEED, 20000, square_sum, NULL, &mean, &standard_error, &error), &error,
               "samples");
    tap_ok(tap, fabs(mean - exact) < 4 * standard_error && standard_error < .02 * exact,
           "d = %zu, n = %zu: tr S^2 is %.4f +- %.4f, expected %.4f", d, n, mean, standard_error, exact);
}

static void multiply(const double *left, const double *right, double *out) {
    for (size_t i = 0; i < D; i++)
        for (size_t j = 0; j < D; j++) {
            out[i * D + j] = 0;
            for (size_t k = 0; k < D; k++)
                out[i * D + j] += left[i * D + k] * right[k * D + j];
        }
}

/* Returns ||(I - S A)^L||_F^2 for A = a I + t K, K_pq = -K_qp = 1 / sqrt(2). */
static double loss(const double *S, size_t loops, double a, double t, size_t p, size_t q) {
    double A[SIZE] = {0}, one[SIZE], all[SIZE] = {0}, next[SIZE], sum = 0;

    for (size_t i = 0; i < D; i++) {
        A[i * (D + 1)] = a;
        all[i * (D + 1)] = 1;
    }
    A[p * D + q] = t / sqrt(2);
    A[q * D + p] = -t / sqrt(2);
    multiply(S, A, one);
    for (size_t i = 0; i < SIZE; i++)
        one[i] = (i % (D + 1) == 0) - one[i];
    for (size_t l = 0; l < loops; l++) {
        multiply(one, all, next);
        memcpy(all, next, sizeof all);
    }
    for (size_t i = 0; i < SIZE; i++)
        sum += all[i] * all[i];
    return sum;
}

/* The mean of a quadratic form over directions equals that over an orthonormal basis, for each sample separately. */
static void check_curvature(tap_run *tap, size_t loops, double a) {
    const icl_descent_problem problem = {.dimension = D, .context = 6, .steps = loops, .is_tied = true};
    const double t = 1e-3;
    double ours = 0, standard_error, row[D], S[SIZE], direct = 0;
    icl_error error;

    tap_status(tap, icl_looped_skew_curvature(&problem, a, SEED, SAMPLES, &ours, &standard_error, &error), &error,
               "a curvature");
    for (uint64_t i = 0; i < SAMPLES; i++) {
        icl_wishart_sample(D, problem.context, SEED, i, row, S);
        for (size_t p = 0; p < D; p++)
            for (size_t q = 0; q < p; q++)
                direct += (loss(S, loops, a, t, p, q) - 2 * loss(S, loops, a, 0, p, q) + loss(S, loops, a, -t, p, q)) /
                          (2 * t * t) / (D * (D - 1) / 2.0) / SAMPLES;
    }
    tap_ok(tap, fabs(ours - direct) < 1e-4 * fabs(direct) + 1e-6, "%zu loops: %.7f, by differences %.7f", loops, ours,
           direct);
}

/* Two loops of a = 1 with n pairs have the curvature -2 / n if n is large. */
static void check_limit(tap_run *tap) {
    const icl_descent_problem problem = {.dimension = 4, .context = 1000, .steps = 2, .is_tied = true};
    double curvature = 0, standard_error = 0;
    icl_error error;

    tap_status(tap, icl_looped_skew_curvature(&problem, 1, SEED, 2000, &curvature, &standard_error, &error), &error,
               "a context of 1000");
    tap_ok(tap, fabs(1000 * curvature + 2) < 4000 * standard_error + .05 && standard_error < 1e-4,
           "n c = %.3f +- %.3f, expected -2", 1000 * curvature, 1000 * standard_error);
}

int main(void) {
    tap_run tap = {0};

    check_moment(&tap, 5, 20);
    check_moment(&tap, 4, 2);
    for (size_t loops = 1; loops <= 4; loops++)
        check_curvature(&tap, loops, .3 + .1 * (double)loops);
    check_limit(&tap);
    return tap_done(&tap);
}
