/* Tests measures of matrices against what follows from their definitions. */
#include "numeric/matrix.h"

#include <math.h>
#include <string.h>

#include "tap.h"

static void test_distance(tap_run *tap) {
    const double multiple[] = {-3, 0, 0, -3}, traceless[] = {1, 5, 2, -1}, zero[4] = {0};
    const double mixed[] = {2, 1, -1, 4}; /* 3 I + {-1, 1, -1, 1}: norm 2 of sqrt(22) */

    tap_ok(tap, icl_matrix_distance(multiple, 2) == 0 && icl_matrix_multiple(multiple, 2) == -3,
           "a multiple of the identity is at distance 0");
    tap_ok(tap, fabs(icl_matrix_distance(traceless, 2) - 1) < 1e-15, "a matrix without trace at 1");
    tap_ok(tap, icl_matrix_distance(zero, 2) == 0, "nothing at 0");
    tap_ok(tap, fabs(icl_matrix_distance(mixed, 2) - 2 / sqrt(22)) < 1e-15 && icl_matrix_multiple(mixed, 2) == 3,
           "3 I and more at 2 / sqrt(22)");
}

/* x^T M x for x = R g is g^T (R^T M R) g. */
static void test_basis(tap_run *tap) {
    const double root[] = {1, 2, 0, -1, .5, 3, 2, 0, 1}, matrix[] = {1, 0, 4, -2, 3, 0, 5, 1, 1};
    const double g[] = {.3, -1.2, 2};
    double in_basis[9], x[3] = {0}, parameterization = 0, same = 0;

    icl_matrix_in_basis(root, matrix, 3, in_basis);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++)
            x[i] += root[i * 3 + k] * g[k];
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) {
            parameterization += x[i] * matrix[i * 3 + k] * x[k];
            same += g[i] * in_basis[i * 3 + k] * g[k];
        }
    tap_ok(tap, fabs(parameterization - same) < 1e-12 * fabs(parameterization),
           "the form's value does not depend on the basis: %g", parameterization);
    icl_matrix_in_basis(NULL, matrix, 3, in_basis);
    tap_ok(tap, memcmp(in_basis, matrix, sizeof matrix) == 0, "without a root nothing changes");
}

int main(void) {
    tap_run tap = {0};

    test_distance(&tap);
    test_basis(&tap);
    return tap_done(&tap);
}
