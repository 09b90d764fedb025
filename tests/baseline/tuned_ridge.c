/* The constants of tunedrr on sequences whose best filter is known: 1 / (lambda + v) with v = min(factor * estimate,
 * cap), so that the loss is 0 at these constants and at no others. If the task has no noise, nothing is fitted. If
 * sequences want different filters, all of them count equally. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "baseline/estimator.h"
#include "tap.h"

enum { COUNT = 12, DIMENSION = 2 };

/* "factor F, cap C" */
static void read_constants(const void *state, double found[2], char *text, size_t size) {
    char *rest = NULL;

    icl_tuned_ridge.describe(state, text, size);
    found[0] = found[1] = 0;
    if (strncmp(text, "factor ", 7) == 0)
        found[0] = strtod(text + 7, &rest);
    if (rest && strncmp(rest, ", cap ", 6) == 0)
        found[1] = strtod(rest + 6, NULL);
}

static void check_constants(tap_run *tap, double noise_max, double factor, double cap) {
    double eigenvalues[COUNT * DIMENSION], factors[COUNT * DIMENSION], targets[COUNT * DIMENSION], noise[COUNT];
    const icl_fit_set set = {.count = COUNT,
                             .dimension = DIMENSION,
                             .eigenvalues = eigenvalues,
                             .factors = factors,
                             .targets = targets,
                             .noise = noise};
    const icl_task_prior prior = {.noise_max = noise_max, .mean_square_noise = 1};
    double state[8] = {0}, found[2];
    char text[96] = "";
    icl_error error = {0};

    for (size_t s = 0; s < COUNT; s++) {
        noise[s] = .2 + .3 * (double)s;
        for (size_t k = s * DIMENSION; k < (s + 1) * DIMENSION; k++) {
            eigenvalues[k] = .5 + (double)(k % 5);
            factors[k] = 1 + .1 * (double)(k % 3);
            targets[k] = factors[k] / (eigenvalues[k] + fmin(factor * noise[s], cap));
        }
    }
    tap_ok(tap, icl_tuned_ridge.state_size <= sizeof state, "there is room for its constants");
    icl_tuned_ridge.create(&prior, 0, state);
    tap_status(tap, icl_tuned_ridge.fit(state, &set, &error), &error, "a fit");
    read_constants(state, found, text, sizeof text);
    const bool is_fitted = fabs(found[0] / factor - 1) < 1e-3 && fabs(found[1] / cap - 1) < 1e-3;
    tap_ok(tap, noise_max > 0 ? is_fitted : found[0] == 1 && isinf(found[1]),
           "of noise up to %g, factor %g and cap %g: %s", noise_max, factor, cap, text);
}

/* All eigenvalues and estimates are 1, in pieces that are not full: 700 sequences want the filter 1/2 and 500 want 1/5.
 * The best is their mean, 3/8, which is 1 / (1 + 5/3). */
static void check_all_count(tap_run *tap) {
    enum { SEQUENCES = 1200, FIRST = 700 };
    static double ones[SEQUENCES], targets[SEQUENCES];
    const icl_fit_set set = {
        .count = SEQUENCES, .dimension = 1, .eigenvalues = ones, .factors = ones, .targets = targets, .noise = ones};
    const icl_task_prior prior = {.noise_max = 2, .mean_square_noise = 1};
    double state[8] = {0}, found[2];
    char text[96] = "";
    icl_error error = {0};

    for (size_t s = 0; s < SEQUENCES; s++) {
        ones[s] = 1;
        targets[s] = s < FIRST ? .5 : .2;
    }
    icl_tuned_ridge.create(&prior, 0, state);
    tap_status(tap, icl_tuned_ridge.fit(state, &set, &error), &error, "a fit to two kinds of sequences");
    read_constants(state, found, text, sizeof text);
    tap_ok(tap, fabs(fmin(found[0], found[1]) * 3 / 5 - 1) < 1e-3, "is the mean of what they want: %s", text);
}

int main(void) {
    tap_run tap = {0};

    check_constants(&tap, 2, 1.7, 3.1);
    check_constants(&tap, 1, .61, 1.35);
    check_constants(&tap, 0, .61, 1.35);
    check_all_count(&tap);
    return tap_done(&tap);
}
