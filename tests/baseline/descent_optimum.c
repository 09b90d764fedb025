/* The optimum of K steps of gradient descent, against: a table that was computed from the moments by another formula
 * (sums over pairings); descent itself on drawn regressions; grids of one and two step lengths; and, with noise for
 * which the best polynomial has complex roots, a random search. */
#include "iclab/descent_optimum.h"

#include <math.h>

#include "iclab/random.h"
#include "tap.h"

enum { MOST = ICL_DESCENT_MOST_STEPS, MOST_SIZE = 32 };

static icl_descent_problem problem_of(size_t d, size_t n, size_t steps, double noise, bool is_tied) {
    return (icl_descent_problem){
        .dimension = d, .context = n, .steps = steps, .noise_variance = noise, .is_tied = is_tied};
}

static double least_loss(const icl_descent_problem *problem, double *lengths) {
    double loss = (double)NAN;
    icl_error error;
    return icl_descent_optimum(problem, lengths, &loss, &error) == ICL_OK ? loss : (double)NAN;
}

static double loss_of(const icl_descent_problem *problem, const double *lengths) {
    double loss = (double)NAN;
    icl_error error;
    return icl_descent_loss(problem, lengths, &loss, &error) == ICL_OK ? loss : (double)NAN;
}

static void check_table(tap_run *tap) {
    static const struct {
        size_t d, n;
        double tied[4], untied[4];
    } rows[] = {{5, 20, {1.15385, .49901, .26834, .16325}, {1.15385, .36124, .13361, .05495}},
                {5, 10, {1.875, 1.18059, .87078, .69620}, {1.875, .97097, .57937, .37415}},
                {5, 5, {2.72727, 2.18480, 1.92768, 1.77485}, {2.72727, 1.99374, 1.62030, 1.39194}},
                {10, 20, {3.54839, 2.10528, 1.45868, 1.09538}, {3.54839, 1.68449, .91283, .53250}}};
    static const double tied[] = {.7692, .7425, .7156, .6890}, untied[] = {.362, .520, .889, 2.139};
    double lengths[MOST];

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t k = 1; k <= 4; k++) {
            const icl_descent_problem one = problem_of(rows[i].d, rows[i].n, k, 0, true),
                                      many = problem_of(rows[i].d, rows[i].n, k, 0, false);
            const double of_one = least_loss(&one, lengths), of_many = least_loss(&many, lengths);
            tap_ok(tap, fabs(of_one - rows[i].tied[k - 1]) < 6e-6 && fabs(of_many - rows[i].untied[k - 1]) < 6e-6,
                   "d = %zu, n = %zu, %zu steps: tied %.5f, untied %.5f", rows[i].d, rows[i].n, k, of_one, of_many);
        }
    for (size_t k = 1; k <= 4; k++) {
        const icl_descent_problem one = problem_of(5, 20, k, 0, true);
        least_loss(&one, lengths);
        tap_ok(tap, fabs(lengths[0] - tied[k - 1]) < 6e-5 && lengths[k - 1] == lengths[0], "%zu tied: length %.4f", k,
               lengths[0]);
    }
    const icl_descent_problem many = problem_of(5, 20, 4, 0, false);
    least_loss(&many, lengths);
    for (size_t k = 0; k < 4; k++)
        tap_ok(tap, fabs(lengths[k] - untied[k]) < 6e-4, "untied: length %.4f", lengths[k]);
}

/* Checks one step: a = n / (n + d + 1 + sigma^2), E tr S = d, E tr S^2 = d (n + d + 1) / n. */
static void check_one_step(tap_run *tap) {
    const double d = 7, n = 3, noise = 2.5, length = n / (n + d + 1 + noise);
    const icl_descent_problem problem = problem_of(7, 3, 1, noise, false);
    double ours[1];
    const double loss = least_loss(&problem, ours);

    tap_ok(tap, fabs(ours[0] - length) < 1e-6 && fabs(loss - d * (1 - length)) < 1e-11,
           "one step with noise: %.7f by formula, %.7f", length, ours[0]);
}

static void check_bounds(tap_run *tap) {
    const icl_descent_problem far = problem_of(5, 100000, 4, 0, false);
    double lengths[MOST], loss = 0;
    icl_error error;

    for (size_t i = 0; i < 5; i++) {
        const icl_descent_problem problem = i == 0   ? problem_of(0, 20, 2, 0, false)
                                            : i == 1 ? problem_of(5, 0, 2, 0, false)
                                            : i == 2 ? problem_of(5, 20, 0, 0, true)
                                            : i == 3 ? problem_of(5, 20, MOST + 1, 0, true)
                                                     : problem_of(5, 20, 2, i == 4 ? -1 : 0, false);
        tap_ok(tap,
               icl_descent_optimum(&problem, lengths, &loss, &error) == ICL_ERROR_INPUT &&
                   icl_descent_loss(&problem, lengths, &loss, &error) == ICL_ERROR_INPUT,
               "refused: %s", error.message);
    }
    /* With rank 10 of 50, descent cannot learn the other 40 directions. */
    const icl_descent_problem few = problem_of(50, 10, 8, 0, false);
    loss = least_loss(&few, lengths);
    tap_ok(tap, loss > 40 && loss < 40.001, "d = 50, n = 10, eight steps: %.6f, above the 40 that no step sees", loss);
    /* S - I has scale sqrt(6 / n), and k steps leave its k-th power. */
    loss = least_loss(&far, lengths);
    tap_ok(tap, loss > 0 && loss < 1e-15, "d = 5, n = 100,000, four steps: %.3g", loss);
}

/* ---- Descent itself ---- */

static double normal(uint32_t stream, uint64_t at) {
    return (double)icl_normal_from_word(icl_random_word((icl_random_key){.seed = 7, .stream = stream}, at));
}

/* Returns ||w_K - w||^2 for one drawn X, w and noise, by the definition. */
static double descend(const icl_descent_problem *problem, const double *lengths, uint64_t sequence) {
    const size_t d = problem->dimension, n = problem->context;
    double x[MOST_SIZE][MOST_SIZE], y[MOST_SIZE], w[MOST_SIZE], at[MOST_SIZE] = {0}, sum = 0;

    for (size_t j = 0; j < d; j++)
        w[j] = normal(1, sequence * d + j);
    for (size_t i = 0; i < n; i++) {
        y[i] = sqrt(problem->noise_variance) * normal(2, sequence * n + i);
        for (size_t j = 0; j < d; j++) {
            x[i][j] = normal(3, (sequence * n + i) * d + j);
            y[i] += w[j] * x[i][j];
        }
    }
    for (size_t k = 0; k < problem->steps; k++) {
        double step[MOST_SIZE] = {0};
        for (size_t i = 0; i < n; i++) {
            double left = y[i];
            for (size_t j = 0; j < d; j++)
                left -= at[j] * x[i][j];
            for (size_t j = 0; j < d; j++)
                step[j] += lengths[k] / (double)n * left * x[i][j];
        }
        for (size_t j = 0; j < d; j++)
            at[j] += step[j];
    }
    for (size_t j = 0; j < d; j++)
        sum += (at[j] - w[j]) * (at[j] - w[j]);
    return sum;
}

static void check_descent(tap_run *tap, size_t d, size_t n, size_t steps, double noise, bool is_tied) {
    enum { SEQUENCES = 20000 };
    const icl_descent_problem problem = problem_of(d, n, steps, noise, is_tied);
    double lengths[MOST], sum = 0, squares = 0;
    const double exact = least_loss(&problem, lengths);

    for (uint64_t i = 0; i < SEQUENCES; i++) {
        const double loss = descend(&problem, lengths, i);
        sum += loss;
        squares += loss * loss;
    }
    const double mean = sum / SEQUENCES, error = sqrt((squares / SEQUENCES - mean * mean) / SEQUENCES);
    tap_ok(tap, fabs(mean - exact) < 4 * error && error < .03 * exact,
           "d = %zu, n = %zu, %zu %s, noise %.2g: %.5f, on drawn regressions %.5f +- %.5f", d, n, steps,
           is_tied ? "tied" : "untied", noise, exact, mean, error);
}

/* ---- Nothing is lower ---- */

static void check_grids(tap_run *tap, size_t d, size_t n, double noise) {
    const icl_descent_problem one = problem_of(d, n, 3, noise, true), two = problem_of(d, n, 2, noise, false);
    double lengths[MOST], least = HUGE_VAL;
    const double of_one = least_loss(&one, lengths), of_two = least_loss(&two, lengths);

    for (size_t i = 0; i <= 600; i++) {
        lengths[0] = lengths[1] = lengths[2] = -.5 + .005 * (double)i;
        least = fmin(least, loss_of(&one, lengths));
    }
    tap_ok(tap, of_one <= least && least < 1.001 * of_one, "three tied, noise %g: %.6f, on a grid %.6f", noise, of_one,
           least);
    least = HUGE_VAL;
    for (size_t i = 0; i <= 70; i++)
        for (size_t j = 0; j <= i; j++) {
            lengths[0] = -.5 + .05 * (double)i;
            lengths[1] = -.5 + .05 * (double)j;
            least = fmin(least, loss_of(&two, lengths));
        }
    tap_ok(tap, of_two <= least && least < 1.02 * of_two, "two untied, noise %g: %.6f, on a grid %.6f", noise, of_two,
           least);
}

/* Searches from a random start, and keeps steps that lower the loss: the minimum without any theory. */
static double search(const icl_descent_problem *problem, uint64_t start) {
    double best[MOST], trial[MOST], least, reach = .3;
    uint64_t at = start * 100000;

    for (size_t k = 0; k < problem->steps; k++)
        best[k] = .8 + .7 * normal(4, at++);
    least = loss_of(problem, best);
    for (size_t i = 0; i < 400; i++) {
        for (size_t k = 0; k < problem->steps; k++)
            trial[k] = best[k] + reach * normal(4, at++);
        const double loss = loss_of(problem, trial);
        reach *= loss < least ? 1.5 : .93;
        for (size_t k = 0; loss < least && k < problem->steps; k++)
            best[k] = trial[k];
        least = fmin(least, loss);
    }
    return least;
}

static void check_search(tap_run *tap, size_t d, size_t n, size_t steps, double noise, size_t equal) {
    const icl_descent_problem problem = problem_of(d, n, steps, noise, false);
    double lengths[MOST], least = HUGE_VAL;
    const double loss = least_loss(&problem, lengths);
    size_t pairs = 0;

    for (uint64_t start = 0; start < 6; start++)
        least = fmin(least, search(&problem, start));
    for (size_t k = 1; k < steps; k++)
        pairs += lengths[k] - lengths[k - 1] < 1e-4;
    tap_ok(tap, loss <= least * (1 + 1e-9) && least < 1.001 * loss && pairs == equal,
           "%zu untied, noise %g: %.7f, by search %.7f; %zu neighbours equal", steps, noise, loss, least, pairs);
}

int main(void) {
    tap_run tap = {0};

    check_table(&tap);
    check_one_step(&tap);
    check_bounds(&tap);
    check_descent(&tap, 5, 20, 3, 0, false);
    check_descent(&tap, 5, 20, 3, 0, true);
    check_descent(&tap, 3, 8, 4, 2, false);
    check_descent(&tap, 6, 4, 2, .5, true);
    check_grids(&tap, 5, 10, 0);
    check_grids(&tap, 10, 20, 5);
    check_grids(&tap, 10, 20, 100);
    check_search(&tap, 10, 20, 3, 1, 0);
    check_search(&tap, 10, 20, 3, 4, 1);
    check_search(&tap, 10, 20, 3, 10, 2);
    check_search(&tap, 3, 8, 4, 2, 2);
    /* One of the two starts fails in the first case, the other in the second. */
    check_search(&tap, 2, 41, 4, 76.83, 3);
    check_search(&tap, 5, 24, 4, 1.781, 1);
    return tap_done(&tap);
}
