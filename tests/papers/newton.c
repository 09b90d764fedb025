/* Tests damped Newton steps of logistic regression against differences of the loss and elimination. */
#include "papers/checked.h"

#include <math.h>

#include "eliminate.h"
#include "tap.h"

enum { D = ICL_LOGISTIC_D, SEED = 3 };

/* Returns the loss with coordinates i and j moved by by_i and by_j. */
static double moved(const icl_logistic *problem, const double *at, size_t i, double by_i, size_t j, double by_j) {
    double there[D];

    for (size_t k = 0; k < D; k++)
        there[k] = at[k];
    there[i] += by_i;
    there[j] += by_j;
    return icl_logistic_loss(problem, there);
}

/* Checks the step from `at` against gradient and Hessian by differences, elimination, and the damping of the
 * definition. */
static void check_step(tap_run *tap, const icl_logistic *problem, const double *at, const char *where) {
    const double h = 1e-4;
    double gradient[D], hessian[D * D], direction[D], there[D], norm = 0, square = 0, away = 0, longest = 0;

    for (size_t i = 0; i < D; i++) {
        gradient[i] = (moved(problem, at, i, h, 0, 0) - moved(problem, at, i, -h, 0, 0)) / (2 * h);
        norm += gradient[i] * gradient[i];
        direction[i] = gradient[i];
        there[i] = at[i];
        for (size_t j = 0; j < D; j++)
            hessian[i * D + j] = (moved(problem, at, i, h, j, h) - moved(problem, at, i, h, j, -h) -
                                  moved(problem, at, i, -h, j, h) + moved(problem, at, i, -h, j, -h)) /
                                 (4 * h * h);
    }
    for (size_t i = 0; i < ICL_LOGISTIC_N; i++) {
        double length = 0;
        for (size_t j = 0; j < D; j++)
            length += problem->inputs[i][j] * problem->inputs[i][j];
        longest = fmax(longest, sqrt(length));
    }
    eliminate(D, D, hessian, direction);
    for (size_t i = 0; i < D; i++)
        square += gradient[i] * direction[i];
    const double decrement = longest / sqrt(ICL_LOGISTIC_MU) / 2 * sqrt(square);
    const icl_logistic_point ours = icl_logistic_step(problem, there);
    for (size_t i = 0; i < D; i++)
        away = fmax(away, fabs(there[i] - (at[i] - direction[i] / (1 + decrement))));
    tap_ok(tap, fabs(ours.gradient_norm - sqrt(norm)) < 1e-7, "%s: gradient %.8f, by differences %.8f", where,
           ours.gradient_norm, sqrt(norm));
    tap_ok(tap, fabs(ours.decrement - decrement) < 1e-5 * decrement, "decrement %.6f, by differences %.6f",
           ours.decrement, decrement);
    tap_ok(tap, away < 1e-6, "the step, to %.1e", away);
}

/* Problems differ by number, and the loss of zero weights is log 2. */
static void check_draw(tap_run *tap, const icl_logistic *problem) {
    static const double zero[D] = {0};
    icl_logistic again, other;

    icl_logistic_draw(SEED, 0, &again);
    icl_logistic_draw(SEED, 1, &other);
    tap_ok(tap, again.inputs[7][2] == problem->inputs[7][2] && other.inputs[7][2] != problem->inputs[7][2],
           "drawn by seed and number");
    tap_ok(tap, fabs(icl_logistic_loss(problem, zero) - log(2)) < 1e-15, "the loss of no weights is log 2");
}

int main(void) {
    static const double zero[D] = {0}, elsewhere[D] = {1, -.5, .3, 2, -1};
    tap_run tap = {0};
    icl_logistic problem;

    icl_logistic_draw(SEED, 0, &problem);
    check_draw(&tap, &problem);
    check_step(&tap, &problem, zero, "from 0");
    check_step(&tap, &problem, elsewhere, "from elsewhere");
    return tap_done(&tap);
}
