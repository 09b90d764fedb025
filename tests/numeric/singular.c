/* Tests singular values of matrices that are known by construction, and the alignment with a subspace, all in
 * double. */
#include "numeric/matrix.h"

#include <math.h>

#include "core/allocate.h"
#include "tap.h"
#include "task/laws.h"

enum { D = 5, K = 2 };

static bool near(double a, double b) {
    return fabs(a - b) <= 1e-12 * fmax(fabs(a), fabs(b)) + 1e-12;
}

/* Computes M = sum_i values_i l_i r_i^T with orthonormal columns l and r. */
static void compose(const double *left, const double *right, const double *values, double *M) {
    for (size_t a = 0; a < D; a++)
        for (size_t b = 0; b < D; b++) {
            M[a * D + b] = 0;
            for (size_t i = 0; i < D; i++)
                M[a * D + b] += values[i] * left[a * D + i] * right[b * D + i];
        }
}

/* If columns or rows are orthogonal, the singular values are their lengths. */
static icl_status check_all_values(tap_run *tap, icl_error *error) {
    static const double tall[] = {3, 0, 0, -2, 4, 0}, wide[] = {3, 0, 4, 0, -2, 0}; /* of 5 and 2, each */
    static const double even[] = {2, 2, 2}, one[] = {0, 7}, none[] = {0, 0};
    double values[2];

    ICL_CHECK(icl_singular_values(tall, 3, 2, values, error));
    tap_ok(tap, near(values[0], 5) && near(values[1], 2), "of three rows: %.17g, %.17g", values[0], values[1]);
    ICL_CHECK(icl_singular_values(wide, 2, 3, values, error));
    tap_ok(tap, near(values[0], 5) && near(values[1], 2), "of three columns: %.17g, %.17g", values[0], values[1]);
    tap_ok(tap, near(icl_entropy_rank(even, 3), 3), "three alike have rank 3");
    tap_ok(tap, near(icl_entropy_rank(one, 2), 1) && icl_entropy_rank(none, 2) == 0, "one has rank 1, none 0");
    return ICL_OK;
}

static icl_status check(tap_run *tap, icl_error *error) {
    static const double values[D] = {3, -.5, 1, 7, 2}, low[D] = {4, 2}, mixed[D] = {4, 2, .5, .5, .3};
    static const double identity[D] = {1, 1, 1, 1, 1};
    double *left = NULL, *right = NULL, M[D * D], smallest, largest, rho;
    icl_status status = ICL_OK;

    ICL_TRY(icl_random_rotation(D, 1, &left, error));
    ICL_TRY(icl_random_rotation(D, 2, &right, error));
    compose(left, right, values, M);
    ICL_TRY(icl_singular_extremes(M, D, D, &smallest, &largest, error));
    tap_ok(tap, near(smallest, .5) && near(largest, 7), "extremes of five values: %.17g, %.17g", smallest, largest);
    M[D + 1] = -3; /* a block of one element, within rows of five */
    ICL_TRY(icl_singular_extremes(M + D + 1, 1, D, &smallest, &largest, error));
    tap_ok(tap, near(smallest, 3) && near(largest, 3), "of a block: %.17g", largest);

    compose(left, left, low, M);
    ICL_TRY(icl_subspace_alignment(M, left, D, K, &rho, error));
    tap_ok(tap, rho < 1e-12, "a matrix of the subspace: rho = %.3g", rho);
    compose(left, left, mixed, M);
    ICL_TRY(icl_subspace_alignment(M, left, D, K, &rho, error));
    tap_ok(tap, near(rho, .25), "a quarter outside: rho = %.17g", rho);
    compose(left, left, identity, M);
    ICL_TRY(icl_subspace_alignment(M, left, D, K, &rho, error));
    tap_ok(tap, near(rho, 1), "the identity: rho = %.17g", rho);
    M[3] = (double)NAN;
    tap_ok(tap, icl_singular_extremes(M, D, D, &smallest, &largest, error) == ICL_ERROR_INPUT,
           "what is not finite is refused: %s", error->message);
done:
    icl_free(&left);
    icl_free(&right);
    return status;
}

int main(void) {
    tap_run tap = {0};
    icl_error error = {0};

    tap_status(&tap, check(&tap, &error), &error, "matrices are decomposed");
    tap_status(&tap, check_all_values(&tap, &error), &error, "and matrices that are not square");
    return tap_done(&tap);
}
