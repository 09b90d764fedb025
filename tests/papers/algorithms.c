/* Tests linear algorithms against numbers by hand and sampled losses; distances; and weights implied by predictions. */
#include "papers/algorithms/algorithms.h"

#include <math.h>

#include "iclab/descent_optimum.h"
#include "iclab/host.h"
#include "iclab/random.h"
#include "tap.h"

static double normal(uint64_t stream, uint64_t index) {
    return (double)icl_normal_from_word(icl_random_word((icl_random_key){.seed = 11, .step = stream}, index));
}

static bool is_near(double a, double b, double tolerance) {
    return fabs(a - b) <= tolerance;
}

/* ---- Weights ---- */

static const icl_algorithm rows[] = {
    {"gradient step", 1, 0}, {"2 gradient steps", 2, 0}, {"ridge", 0, 1}, {"least squares", 0, 0}};
enum { ROWS = 4 };

/* With d = 1 and the pairs (2, 3) and (1, 1), X^T y is 6, then 7, and X^T X is 4, then 5. A step has the length 1 / (k
 * + 2 + noise). */
static void test_by_hand(tap_run *tap) {
    const float tokens[] = {2, 3, 1, 1};
    double weights[ROWS] = {0};
    icl_algorithms all;
    icl_error error;

    tap_status(tap, icl_algorithms_create(rows, ROWS, 1, 2, .5, &all, &error), &error, "algorithms of d = 1");
    icl_algorithms_weights(&all, 1, tokens, tokens + 1, 2, weights);
    tap_ok(tap, is_near(weights[0], 6 / 3.5, 1e-6), "a step from one pair: %g", weights[0]);
    tap_ok(tap, is_near(weights[2], 6. / 5, 1e-12), "ridge from one pair: %g", weights[2]);
    tap_ok(tap, is_near(weights[3], 6. / 4, 1e-12), "least squares from one pair: %g", weights[3]);
    icl_algorithms_weights(&all, 2, tokens, tokens + 1, 2, weights);
    tap_ok(tap, is_near(weights[0], 7 / 4.5, 1e-6), "a step from two pairs: %g", weights[0]);
    tap_ok(tap, is_near(weights[2], 7. / 6, 1e-12), "ridge from two pairs: %g", weights[2]);
    tap_ok(tap, is_near(weights[3], 7. / 5, 1e-12), "least squares from two pairs: %g", weights[3]);
    icl_algorithms_release(&all);
}

/* The loss of steps is that expected with the best lengths, for |w - w*|^2 of sampled regressions. */
static void test_steps(tap_run *tap) {
    enum { D = 2, K = 5, SAMPLES = 20000, TOKEN = D + 1 };
    double sums[2] = {0}, squares[2] = {0}, weights[ROWS * D] = {0};
    icl_algorithms all;
    icl_error error;

    tap_status(tap, icl_algorithms_create(rows, ROWS, D, K, .25, &all, &error), &error, "algorithms of d = 2");
    for (uint64_t i = 0; i < SAMPLES; i++) {
        float tokens[K * TOKEN];
        for (size_t k = 0; k < K; k++) {
            float *token = tokens + k * TOKEN;
            token[0] = (float)normal(i, 4 * k + 2);
            token[1] = (float)normal(i, 4 * k + 3);
            token[2] =
                (float)(normal(i, 0) * (double)token[0] + normal(i, 1) * (double)token[1] + .5 * normal(i, 4 * k + 4));
        }
        icl_algorithms_weights(&all, K, tokens, tokens + D, TOKEN, weights);
        for (size_t row = 0; row < 2; row++) {
            const double *w = weights + row * D;
            const double loss =
                (w[0] - normal(i, 0)) * (w[0] - normal(i, 0)) + (w[1] - normal(i, 1)) * (w[1] - normal(i, 1));
            sums[row] += loss;
            squares[row] += loss * loss;
        }
    }
    for (size_t row = 0; row < 2; row++) {
        const icl_descent_problem problem = {.dimension = D, .context = K, .steps = row + 1, .noise_variance = .25};
        const double mean = sums[row] / SAMPLES, own = sqrt((squares[row] / SAMPLES - mean * mean) / SAMPLES);
        double loss = 0;
        tap_status(tap, icl_descent_optimum(&problem, NULL, &loss, &error), &error, "the least loss");
        tap_ok(tap, is_near(mean, loss, 4 * own) && own < .05 * mean, "%s: loss %.4f +- %.4f, expected %.4f",
               rows[row].name, mean, own, loss);
    }
    icl_algorithms_release(&all);
}

/* ---- Distances ---- */

/* Two sequences, three positions, columns A, B, C. */
static void test_distances(tap_run *tap) {
    double values[] = {9, 0, 0, 1, 3, 0, 2, 2, 1, /* */ 9, 0, 0, 5, 1, 1, 0, 0, 4};
    const icl_predicted all = {.sequences = 2, .positions = 3, .count = 3, .values = values};
    const icl_term one[] = {{1, 0, 1}}, less[] = {{1, 0, 1}, {-1, 1, 2}};
    icl_number seen = {0};
    icl_error error;

    /* (A - B)^2 at position 1: 4 and 16; at 2: 0 and 0. */
    tap_status(tap, icl_predicted_distance(&all, one, 1, 1, 1, 1, &seen, &error), &error, "a position");
    tap_ok(tap, is_near(seen.value, 10, 1e-12) && is_near(seen.standard_error, 6, 1e-12), "A to B at 1: %g +- %g",
           seen.value, seen.standard_error);
    tap_status(tap, icl_predicted_distance(&all, one, 1, 1, 2, 2, &seen, &error), &error, "two positions");
    tap_ok(tap, is_near(seen.value, 2.5, 1e-12) && is_near(seen.standard_error, 1.5, 1e-12),
           "A to B at 1 and 2, over 2: %g +- %g", seen.value, seen.standard_error);
    /* (B - C)^2: 9, 1 and 0, 16. */
    tap_status(tap, icl_predicted_distance(&all, less, 2, 1, 2, 1, &seen, &error), &error, "a difference");
    tap_ok(tap, is_near(seen.value, 10. / 2 - 26. / 4, 1e-12), "A to B less B to C: %g", seen.value);
}

/* ---- Implied weights ---- */

/* f(x) = x_1 - 2 x_2 + bend (x_3^2 - 1) has the mean square 5 + 2 bend^2, of which a linear function leaves 2
 * bend^2. */
static icl_implied imply(size_t probes, double bend, double weights[3], icl_error *error) {
    icl_implied implied = {.unexplained = -1};
    icl_spectrum spectrum = {0};
    float *tokens = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_spectrum_create(3, probes, NULL, &spectrum, error));
    ICL_TRY(icl_allocate(probes + 1, 4 * sizeof *tokens, "tokens", &tokens, error));
    for (size_t j = 0; j < probes; j++) {
        float *token = tokens + j * 4;
        for (size_t i = 0; i < 3; i++)
            token[i] = (float)normal(j, i);
        token[3] = (float)((double)token[0] - 2 * (double)token[1] + bend * ((double)token[2] * (double)token[2] - 1));
    }
    implied = icl_implied_weights(&spectrum, tokens, weights);
done:
    icl_free(&tokens);
    icl_spectrum_destroy(&spectrum);
    return status == ICL_OK ? implied : (icl_implied){.unexplained = -1};
}

static void test_implied(tap_run *tap) {
    double weights[3] = {0};
    icl_error error;
    icl_implied implied = imply(8, 0, weights, &error);

    tap_ok(tap, is_near(weights[0], 1, 1e-6) && is_near(weights[1], -2, 1e-6) && is_near(weights[2], 0, 1e-6),
           "weights of a linear function: %g %g %g", weights[0], weights[1], weights[2]);
    tap_ok(tap, implied.residual < 1e-10 && implied.unexplained < 1e-10, "which leaves nothing: %g", implied.residual);
    implied = imply(20000, .5, weights, &error);
    tap_ok(tap, is_near(weights[0], 1, .03) && is_near(weights[1], -2, .03) && is_near(weights[2], 0, .06),
           "weights of one that is bent: %g %g %g", weights[0], weights[1], weights[2]);
    tap_ok(tap, is_near(implied.unexplained, .5, .05) && is_near(implied.square, 5.5, .3),
           "which leave .5 of 5.5: %g of %g", implied.unexplained, implied.square);
    implied = imply(12, .5, weights, &error);
    tap_ok(tap, is_near(implied.unexplained, implied.residual * 12 / 9, 1e-9), "of 12 probes 3 are used up");
    implied = imply(3, .5, weights, &error);
    tap_ok(tap, isnan(implied.unexplained) && implied.residual < 1e-9, "as many probes as weights tell nothing");
}

int main(void) {
    tap_run tap = {0};

    test_by_hand(&tap);
    test_steps(&tap);
    test_distances(&tap);
    test_implied(&tap);
    return tap_done(&tap);
}
