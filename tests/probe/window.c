/* Tests windows: losses against closed forms and against labels whose noise is drawn, and the best w against a table of
 * an independent search on a grid of 15 % (for affine functions only L / sigma matters). */
#include "probe/window.h"

#include <math.h>

#include "iclab/recipe.h"
#include "tap.h"

enum { D = 5, N = 20, SEQUENCES = 6000 };

static icl_status draw(icl_backend *backend, const char *const *overrides, size_t count, icl_window_set *set,
                       icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_status status;

    ICL_TRY(icl_recipe_create_complete(&recipe, error));
    ICL_TRY(icl_recipe_override(recipe, "task.family=functions", error));
    ICL_TRY(icl_recipe_override(recipe, "task.inputs=sphere", error));
    for (; *overrides; overrides++)
        ICL_TRY(icl_recipe_override(recipe, *overrides, error));
    ICL_TRY(icl_window_draw(backend, recipe, ICL_FOR_FITTING, 1, count, set, error));
done:
    icl_recipe_destroy(&recipe);
    return status;
}

/* Ratios follow their definition. Their standard error is smaller than that of two separate means, since the sequences
 * are shared, and 0 for a window beside itself. */
static void check_comparison(tap_run *tap, const icl_window_set *set, const double *zeros) {
    double M[D * D] = {0};
    for (size_t i = 0; i < D; i++)
        M[i * D + i] = .3;
    const icl_window_ratio same = icl_window_compare(set, M, true, M, true);
    const icl_window_ratio mean = icl_window_compare(set, M, true, zeros, true);
    const double separate = hypot(mean.of.standard_error / mean.of.loss, mean.to.standard_error / mean.to.loss);

    tap_ok(tap, same.ratio == 1 && same.standard_error == 0, "a window beside itself: %g +- %g", same.ratio,
           same.standard_error);
    tap_ok(tap,
           mean.ratio == mean.of.loss / mean.to.loss && mean.standard_error > 0 &&
               mean.standard_error < .5 * separate * mean.ratio,
           "beside the mean label: %.4g +- %.2g, of separate sequences %.2g", mean.ratio, mean.standard_error,
           separate * mean.ratio);
}

/* There are three sequences of two labels with noise of variance 2, queries at 0, and M = 0. The mean label misses by
 * 1, -2 and 3, and the prediction 0 by -1, 2 and 0: losses 2, 5, 10 and 1, 4, 0. */
static void check_small(tap_run *tap) {
    static float tokens[] = {3, 0, 4, 4, 0, 0, 0, -1, 0, 1, 0, 0, -1, 1, 2, 5, 0, 0}, targets[] = {1, 2, 0};
    double scores[6], losses[3], spreads[3], reach[3], others[3], ratio = 17. / 5, square = 0;
    const double zero = 0, rest[3] = {2 - ratio, 5 - 4 * ratio, 10};
    const icl_window_set set = {.count = 3,
                                .context = 2,
                                .dimension = 1,
                                .mean_square_noise = 2,
                                .tokens = tokens,
                                .targets = targets,
                                .scores = scores,
                                .losses = losses,
                                .spreads = spreads,
                                .reach = reach,
                                .others = others};
    const icl_window_ratio found = icl_window_compare(&set, &zero, true, &zero, false);

    for (size_t i = 0; i < 3; i++)
        square += rest[i] * rest[i] / 2 / 3;
    tap_ok(tap, fabs(found.of.loss - 17. / 3) < 1e-14 && fabs(found.of.standard_error - sqrt(49. / 9)) < 1e-14,
           "three mean labels: %.17g +- %.17g", found.of.loss, found.of.standard_error);
    tap_ok(tap, fabs(found.to.loss - 5. / 3) < 1e-14 && fabs(found.to.standard_error - sqrt(13. / 9)) < 1e-14,
           "three zeros: %.17g +- %.17g", found.to.loss, found.to.standard_error);
    tap_ok(tap, fabs(found.ratio - ratio) < 1e-14 && fabs(found.standard_error - sqrt(square) * 3 / 5) < 1e-14,
           "their ratio: %.17g +- %.17g", found.ratio, found.standard_error);
    tap_ok(tap, found.of.neighbours == 2 && fabs(found.of.reach - sqrt(5)) < 1e-14, "of %g labels within %.17g",
           found.of.neighbours, found.of.reach);
}

/* With M = 0 the prediction is the mean label. For affine functions E (mean f(x_i) - f(x_q))^2 = (L^2 / 3d) (1 + 1/n),
 * and noise adds sigma^2 / n. */
static icl_status check_mean(tap_run *tap, icl_backend *backend, icl_error *error) {
    static const char *const overrides[] = {"task.d=5", "task.n=20", "task.noise=fixed:2", "task.lipschitz=3", NULL};
    const double expected = 9.0 / (3 * D) * (1 + 1.0 / N) + 4.0 / N, zeros[D * D] = {0};
    icl_window_set set = {0};
    double square = 0;
    icl_status status;

    ICL_TRY(draw(backend, overrides, SEQUENCES, &set, error));
    const icl_window_quality mean = icl_window_measure(&set, zeros, true);
    const icl_window_quality none = icl_window_measure(&set, zeros, false);
    for (size_t i = 0; i < SEQUENCES; i++)
        square += (double)set.targets[i] * (double)set.targets[i] / SEQUENCES;
    tap_ok(tap, fabs(mean.loss - expected) < 4 * mean.standard_error && mean.standard_error < .05 * expected,
           "the mean label's loss: %.4g +- %.2g of %.4g", mean.loss, mean.standard_error, expected);
    tap_ok(tap, fabs(mean.neighbours - N) < 1e-9, "it averages over all labels: %.17g", mean.neighbours);
    tap_ok(tap, fabs(mean.reach - sqrt(2)) < .01, "and over the whole sphere: %.4g", mean.reach);
    tap_ok(tap, fabs(none.loss - square) < 1e-9 * square && isnan(none.reach),
           "linear attention with M = 0 predicts 0: %.4g", none.loss);
    check_comparison(tap, &set, zeros);
done:
    icl_window_release(&set);
    return status;
}

/* ---- The loss by definition, of labels with noise ---- */

enum { D2 = 2, N3 = 3, COUNT = 500, DRAWS = 400 };

static const double bent[D2 * D2] = {2, .5, -1, 3}; /* M; it is no multiple of the identity */

static void weights_of(const float *tokens, bool softmax, double beta[N3]) {
    const float *q = tokens + (size_t)N3 * (D2 + 1);
    double total = 0;

    for (size_t i = 0; i < N3; i++) {
        double score = 0;
        for (size_t k = 0; k < D2 * D2; k++)
            score += (double)tokens[i * (D2 + 1) + k / D2] * bent[k] * (double)q[k % D2];
        beta[i] = softmax ? exp(score) : score / N3;
        total += beta[i];
    }
    for (size_t i = 0; i < N3 && softmax; i++)
        beta[i] /= total;
}

/* Returns the mean loss of one sequence over DRAWS draws of sigma ~ U(0, 1) and noise, from random word *index on. */
static double drawn_loss(const float *tokens, double target, bool softmax, uint64_t *index) {
    const icl_random_key key = {.seed = 9, .stream = 77};
    double beta[N3], clean = 0, mean = 0;

    weights_of(tokens, softmax, beta);
    for (size_t i = 0; i < N3; i++)
        clean += beta[i] * (double)tokens[i * (D2 + 1) + D2];
    for (size_t draws = 0; draws < DRAWS; draws++) {
        const double sigma = (double)icl_random_word(key, (*index)++) * 0x1p-32;
        double miss = clean - target;
        for (size_t i = 0; i < N3; i++)
            miss += beta[i] * sigma * (double)icl_normal_from_word(icl_random_word(key, (*index)++));
        mean += miss * miss / DRAWS;
    }
    return mean;
}

static icl_status check_noise(tap_run *tap, icl_backend *backend, bool softmax, icl_error *error) {
    static const char *const overrides[] = {"task.d=2", "task.n=3", "task.noise=uniform:1", NULL};
    icl_window_set set = {0};
    double sum = 0, squares = 0;
    uint64_t index = 0;
    icl_status status;

    ICL_TRY(draw(backend, overrides, COUNT, &set, error));
    for (size_t s = 0; s < COUNT; s++) {
        const double mean = drawn_loss(set.tokens + s * (N3 + 1) * (D2 + 1), (double)set.targets[s], softmax, &index);
        sum += mean / COUNT;
        squares += mean * mean / COUNT;
    }
    /* Both sides have the same sequences, so the error is that of the draws only: the variance of (a + z)^2 with a^2 +
     * E z^2 = m is below 6 m^2 if z is normal given a uniform sigma. */
    const double loss = icl_window_measure(&set, bent, softmax).loss;
    const double allowed = 4 * sqrt(6 * squares / COUNT / DRAWS);
    tap_ok(tap, fabs(loss - sum) < allowed, "%s: noise averaged out is noise drawn (%.5g, %.5g, %.2g)",
           softmax ? "softmax" : "linear", loss, sum, allowed);
done:
    icl_window_release(&set);
    return status;
}

/* ---- The best width ---- */

typedef struct row {
    const char *d, *n, *noise, *lipschitz;
    double w;
} row;

static icl_status check_row(tap_run *tap, icl_backend *backend, const row *line, double *found, icl_error *error) {
    const char *const overrides[] = {line->d, line->n, line->noise, line->lipschitz, NULL};
    icl_window_set set = {0};
    double M[D * D] = {0}, losses[3];
    icl_status status;

    ICL_TRY(draw(backend, overrides, SEQUENCES, &set, error));
    *found = icl_window_search(&set, NULL);
    for (int i = 0; i < 3; i++) {
        for (size_t k = 0; k < set.dimension; k++)
            M[k * set.dimension + k] = *found * (1 + .1 * (i - 1));
        losses[i] = icl_window_measure(&set, M, true).loss;
    }
    tap_ok(tap, fabs(log(*found / line->w)) < .15 + .05, "%s %s %s %s: best w %.3g, on a grid of 15 %% %.3g", line->d,
           line->n, line->noise, line->lipschitz, *found, line->w);
    tap_ok(tap, losses[1] < losses[0] && losses[1] < losses[2], "a tenth more or less is worse");
done:
    icl_window_release(&set);
    return status;
}

static icl_status check_search(tap_run *tap, icl_backend *backend, icl_error *error) {
    static const row rows[] = {
        {"task.d=5", "task.n=20", "task.noise=fixed:1", "task.lipschitz=3", 2.9},
        {"task.d=5", "task.n=20", "task.noise=fixed:0.5", "task.lipschitz=1.5", 2.9},
        {"task.d=2", "task.n=20", "task.noise=fixed:1", "task.lipschitz=1", 1.5},
        {"task.d=2", "task.n=20", "task.noise=fixed:1", "task.lipschitz=30", 14.8},
    };
    double found[sizeof rows / sizeof *rows];
    icl_status status = ICL_OK;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ICL_TRY(check_row(tap, backend, &rows[i], &found[i], error));
    tap_ok(tap, fabs(found[0] / found[1] - 1) < 1e-6, "half of L and half of sigma is the same task (%.9g, %.9g)",
           found[0], found[1]);
done:
    return status;
}

int main(void) {
    tap_run tap = {0};
    icl_error error = {0};
    icl_backend *backend = tap_open_device(&tap, "cpu");

    check_small(&tap);
    if (backend) {
        tap_status(&tap, check_mean(&tap, backend, &error), &error, "the mean label is measured");
        tap_status(&tap, check_noise(&tap, backend, true, &error), &error, "softmax is measured");
        tap_status(&tap, check_noise(&tap, backend, false, &error), &error, "linear attention is measured");
        tap_status(&tap, check_search(&tap, backend, &error), &error, "windows are searched for");
    }
    icl_backend_close(&backend);
    return tap_done(&tap);
}
