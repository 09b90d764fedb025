/* Tests Newton's iteration for the inverse: its start, that residuals square, and its end. */

#include <math.h>

#include "numeric/matrix.h"
#include "tap.h"

enum { D = 3, SIZE = D * D };

/* det = 25; the matrix is neither symmetric nor normal; below, adj(A) by hand. */
static const double plain[SIZE] = {2, 1, 0, -1, 3, 1, 4, 0, 3};
static const double adjugate[SIZE] = {9, -3, 1, 7, 6, -2, -12, 4, 7};

/* ||I - A X||_2 */
static double residual(const double *matrix, const double *inverse) {
    double difference[SIZE], smallest, norm;

    icl_newton_inverse_residual(matrix, inverse, D, difference);
    return icl_singular_extremes(difference, D, D, &smallest, &norm, NULL) == ICL_OK ? norm : (double)NAN;
}

/* ||A||_inf = 7, ||A||_1 = 7. */
static void check_start(tap_run *tap) {
    double X[SIZE];
    bool is_right = true;

    icl_newton_inverse_start(plain, D, X);
    for (size_t i = 0; i < SIZE; i++)
        is_right = is_right && fabs(X[i] - plain[i % D * D + i / D] / 49) < 1e-15;
    tap_ok(tap, is_right, "it begins at A^T / (7 x 7)");
    tap_ok(tap, residual(plain, X) < 1, "with a residual of %.4f", residual(plain, X));
}

/* R = I - A X_0 is symmetric, so its norm squares as R does. */
static void check_steps(tap_run *tap) {
    double X[SIZE], work[2 * SIZE], last, away = 0;
    size_t steps = 0;
    bool squares = true;

    icl_newton_inverse_start(plain, D, X);
    last = residual(plain, X);
    for (; steps < 30 && last > 1e-14; steps++) {
        icl_newton_inverse_step(plain, D, X, work);
        const double now = residual(plain, X);
        squares = squares && fabs(now - last * last) < 1e-10 * last * last + 1e-14;
        last = now;
    }
    tap_ok(tap, squares && steps > 5 && steps < 15, "%zu steps, each squares the residual, to %.1e", steps, last);
    for (size_t i = 0; i < SIZE; i++)
        away = fmax(away, fabs(X[i] - adjugate[i] / 25));
    tap_ok(tap, away < 1e-14, "the inverse, to %.1e", away);
}

/* A is u v^T with |u| = 3, |v| = 3: the pseudoinverse is v u^T / 81, and two directions keep a residual of 1. */
static void check_singular(tap_run *tap) {
    static const double u[D] = {1, 2, 2}, v[D] = {2, -1, 2};
    double A[SIZE], X[SIZE], work[2 * SIZE], away = 0;

    for (size_t i = 0; i < SIZE; i++)
        A[i] = u[i / D] * v[i % D];
    icl_newton_inverse_start(A, D, X);
    for (size_t i = 0; i < 12; i++)
        icl_newton_inverse_step(A, D, X, work);
    for (size_t i = 0; i < SIZE; i++)
        away = fmax(away, fabs(X[i] - v[i / D] * u[i % D] / 81));
    tap_ok(tap, away < 1e-14, "of rank 1: the pseudoinverse, to %.1e", away);
    tap_ok(tap, fabs(residual(A, X) - 1) < 1e-14, "its residual stays at 1");
}

static void check_bounds(tap_run *tap) {
    static const double zero[SIZE] = {0}, one[1] = {-4};
    double X[SIZE], work[2 * SIZE];

    icl_newton_inverse_start(zero, D, X);
    icl_newton_inverse_step(zero, D, X, work);
    tap_ok(tap, X[0] == 0 && X[5] == 0 && X[8] == 0, "of 0: 0");
    icl_newton_inverse_start(one, 1, X);
    tap_ok(tap, X[0] == -.25, "of -4: -1/4 at once");
}

int main(void) {
    tap_run tap = {0};

    check_start(&tap);
    check_steps(&tap);
    check_singular(&tap);
    check_bounds(&tap);
    return tap_done(&tap);
}
