/* Tests closed forms of recall by memories of fixed size against plain loops over random keys. */
#include <math.h>

#include "iclab/random.h"
#include "numeric/statistics.h"
#include "papers/checked.h"
#include "tap.h"

enum { MOST_D = 8, MOST_N = 12, SETS = 4000 };

static void draw_keys(size_t d, size_t n, size_t set, double *keys) {
    const icl_random_key key = {3, 0x7465u, d * 64 + n};

    for (size_t i = 0; i < n; i++) {
        double *one = keys + i * d, square = 0;
        for (size_t j = 0; j < d; j++) {
            one[j] = (double)icl_normal_from_word(icl_random_word(key, (set * n + i) * d + j));
            square += one[j] * one[j];
        }
        for (size_t j = 0; j < d; j++)
            one[j] /= sqrt(square);
    }
}

/* Returns half of the squared error of a value after `passes` passes of S += k (v - S^T k)^T, with v one-hot. */
static double recall(size_t d, size_t n, const double *keys, size_t passes) {
    double S[MOST_D][MOST_N] = {{0}}, sum = 0;

    for (size_t write = 0; write < (passes + 1) * n; write++) {
        const double *k = keys + write % n * d;
        for (size_t c = 0; c < n; c++) {
            double miss = c == write % n ? 1 : 0;
            for (size_t j = 0; j < d; j++)
                miss -= k[j] * S[j][c];
            for (size_t j = 0; j < d && write < passes * n; j++)
                S[j][c] += k[j] * miss;
            sum += write < passes * n ? 0 : miss * miss;
        }
    }
    return sum / (2 * (double)n);
}

/* Checks the expected error after one pass, and on each set of keys the errors after sweeps of Gauss-Seidel. */
static void check_delta(tap_run *tap, size_t d, size_t n) {
    static double ours[SETS];
    double keys[MOST_D * MOST_N], farthest = 0, theirs = 0;
    icl_error error = {0};

    for (size_t set = 0; set < SETS; set++) {
        draw_keys(d, n, set, keys);
        ours[set] = recall(d, n, keys, 1);
        for (size_t passes = 1; set < 20 && passes <= 5; passes += 4) {
            if (icl_recall_error_passes(d, n, keys, passes, &theirs, &error) != ICL_OK)
                tap_ok(tap, false, "sweeps: %s", error.message);
            farthest = fmax(farthest, fabs(theirs - recall(d, n, keys, passes)));
        }
    }
    const double expected = icl_recall_error_delta(d, n), mean = icl_mean(ours, SETS),
                 se = icl_standard_error(ours, SETS);
    tap_ok(tap, fabs(mean - expected) < 4 * se + 1e-14, "d = %zu, n = %zu: the delta rule leaves %.4f +- %.4f, E %.4f",
           d, n, mean, se, expected);
    tap_ok(tap, farthest < 1e-12, "passes are sweeps of Gauss and Seidel (%.2g)", farthest);
}

/* Tests two keys in two dimensions with k . k' = c: K K^T has the eigenvalues 1 + c and 1 - c. */
static void check_ridge(tap_run *tap) {
    const double c = .6, ridge = .05, keys[] = {1, 0, c, .8}, more[] = {1, 0, 0, 1, 1, 0};
    const double first = ridge / (1 + c + ridge), second = ridge / (1 - c + ridge);
    double theirs = 0;
    icl_error error = {0};

    tap_status(tap, icl_recall_error_ridge(2, 2, keys, ridge, &theirs, &error), &error, "two keys");
    tap_ok(tap, fabs(theirs - (first * first + second * second) / 4) < 1e-12, "two keys: %g", theirs);
    /* The first key occurs twice: the eigenvalues are 2 and 1, and no state holds the third value. */
    tap_status(tap, icl_recall_error_ridge(2, 3, more, 1e-9, &theirs, &error), &error, "three keys");
    tap_ok(tap, fabs(theirs - icl_recall_error_least_squares(2, 3)) < 1e-12 && fabs(theirs - 1.0 / 6) < 1e-12,
           "three keys in two dimensions: (1 - 2 / 3) / 2");
    tap_status(tap, icl_recall_error_ridge(2, 1, keys, 1e-9, &theirs, &error), &error, "one key");
    tap_ok(tap, theirs < 1e-12 && icl_recall_error_least_squares(2, 1) == 0,
           "fewer keys than dimensions: nothing is left");
}

int main(void) {
    tap_run tap = {0};

    check_delta(&tap, 2, 2);
    check_delta(&tap, 3, 7);
    check_delta(&tap, 8, 4);
    check_delta(&tap, 8, 12);
    check_ridge(&tap);
    for (int i = 1; i <= 3; i++) { /* the notes' values at r = .5, 1, 2 */
        static const double known[] = {.148, .300, .529};
        const double r = pow(2, i - 2), limit = icl_recall_error_delta_limit(r);
        const double wide = icl_recall_error_delta(100000, (size_t)(100000 * r));
        tap_ok(&tap, fabs(limit - known[i - 1]) < 6e-4 && fabs(limit - wide) < 1e-4, "r = %g: %.4f, at d = 1e5 %.4f", r,
               limit, wide);
    }
    tap_ok(&tap, fabs(icl_recall_error_delta(5, 1)) < 1e-15, "one key is held");
    tap_ok(&tap, fabs(icl_recall_error_sum(4, 9) - 1) < 1e-15, "the sum rule: (n - 1) / (2 d)");
    return tap_done(&tap);
}
