/* Autoregressive series: the same bits on every device; moments that follow from partial autocorrelations and from how
 * the noise jumps, within standard errors; reference predictors by elimination and by quadrature. */
#include "eliminate.h"
#include "frame.h"

#define FAMILY "task.family=autoregression "

enum { SEQUENCES = 4096, LENGTH = 24, LAGS = 2 };

/* c of the tests that do not say another, and jumps with q and J. */
static const double LARGEST = .8, PROBABILITY = .1, SCALE = 3;

typedef enum kind { STEADY, SHOCKS, REGIMES, KINDS } kind;
static const char *const words[KINDS] = {"none", "shocks", "regimes"};

static void draw_kind(drawn *all, icl_backend *device, kind how, size_t lags, size_t count) {
    char jumps[96] = "";

    if (how != STEADY)
        snprintf(jumps, sizeof jumps, "task.jumps=%s task.jump_probability=%g task.jump_scale=%g", words[how],
                 PROBABILITY, SCALE);
    draw(all, device, count, FAMILY "task.length=%d task.lags=%zu task.largest_reflection=%g %s", LENGTH, lags, LARGEST,
         jumps);
}

/* E s^2 and E s^4 of the noise's scale. */
static double scale_moment(kind how, double power) {
    const double share = how == STEADY ? 0 : how == SHOCKS ? PROBABILITY : .5;
    return 1 - share + share * pow(SCALE, power);
}

/* Value t of sequence i: the inputs, then the last target. */
static double value_at(const drawn *all, size_t i, size_t t) {
    return t < LENGTH ? (double)all->inputs[i * LENGTH + t] : (double)all->targets[i * LENGTH + LENGTH - 1];
}

/* ---- Moments ---- */

/* A value is normal where the jumps are known, with a variance of at most J^2 / m, and none of so many draws lies 6.5
 * deviations out. Of order 2: correlations r_1 and r_1^2 + r_2 (1 - r_1^2), coefficients a_1 = r_1 (1 - r_2) and a_2 =
 * r_2, and noise of variance (1 - r_1^2) (1 - r_2^2). */
static void check_moments(task_test *test) {
    for (kind how = STEADY; how < KINDS; how++) {
        statistic start = {0}, end = {0}, first = {0}, second = {0}, noise = {0}, fourth = {0}, pairs = {0};
        statistic reflection = {0}, square = {0};
        const double m = scale_moment(how, 2), q = PROBABILITY, J = SCALE;
        const double loud_pairs = how == STEADY ? 1 : how == SHOCKS ? m * m : (1 - q) * (1 + pow(J, 4)) / 2 + q * J * J;
        double largest = 0;
        size_t shifted = 0;
        drawn all = {0};

        draw_kind(&all, test->device, how, LAGS, SEQUENCES);
        for (size_t i = 0; i < SEQUENCES; i++) {
            const double r = (double)all.coefficients[i * LAGS], s = (double)all.coefficients[i * LAGS + 1];
            const double variance = (1 - r * r) * (1 - s * s);
            double one = 0, two = 0, of_noise = 0, of_fourth = 0, of_pairs = 0, before = 0;
            for (size_t t = LAGS; t <= LENGTH; t++) {
                const double x = value_at(&all, i, t), y = value_at(&all, i, t - 1), z = value_at(&all, i, t - 2);
                const double e = (x - r * (1 - s) * y - s * z) * (x - r * (1 - s) * y - s * z) / variance;
                one += r * (x * y - r);
                two += s * (x * z - r * r - s * (1 - r * r));
                largest = fmax(largest, fabs(x));
                of_noise += e;
                of_fourth += e * e;
                of_pairs += t > LAGS ? e * before : 0;
                before = e;
                shifted += t < LENGTH && all.targets[i * LENGTH + t - 1] != all.inputs[i * LENGTH + t];
            }
            add(&start, pow(value_at(&all, i, 0), 2));
            add(&end, pow(value_at(&all, i, LENGTH), 2));
            add(&first, one);
            add(&second, two);
            add(&noise, of_noise / (LENGTH - LAGS + 1));
            add(&fourth, of_fourth / (LENGTH - LAGS + 1));
            add(&pairs, of_pairs / (LENGTH - LAGS));
            add(&reflection, r + s);
            add(&square, r * r + s * s);
        }
        tap_ok(&test->tap,
               deviation(&start, 1) < BOUND && deviation(&end, 1) < BOUND && shifted == 0 &&
                   largest < 6.5 * (how == STEADY ? 1 : J) / sqrt(m),
               "%s: the first and the last value have variance 1, and targets are the next inputs", words[how]);
        tap_ok(&test->tap, deviation(&first, 0) < BOUND && deviation(&second, 0) < BOUND,
               "%s: correlations are those of the coefficients", words[how]);
        tap_ok(&test->tap,
               deviation(&noise, 1) < BOUND && deviation(&fourth, 3 * scale_moment(how, 4) / m / m) < BOUND &&
                   deviation(&pairs, loud_pairs / m / m) < BOUND,
               "%s: the noise and its jumps have their moments (%.3f, %.3f, %.3f)", words[how], noise.sum / noise.count,
               fourth.sum / fourth.count, pairs.sum / pairs.count);
        tap_ok(&test->tap, deviation(&reflection, 0) < BOUND && deviation(&square, 2 * LARGEST * LARGEST / 3) < BOUND,
               "%s: partial autocorrelations are uniform", words[how]);
        release(&all);
    }
}

/* ---- Predictors ---- */

/* The oracle's error at position t is E v_k = (1 - c^2 / 3)^k, k the order of value t + 1, however the noise jumps. The
 * posterior mean lies between it and least squares. */
static void check_order(task_test *test) {
    enum { COUNT = 512 };
    static const char *const names[] = {"zero", "last", "ridge:0.001", "ridge:0.1", "ridge:1", "bayes", "oracle"};

    for (kind how = STEADY; how < KINDS; how++) {
        statistic above = {0}, below = {0};
        double *bayes, *ridge;
        size_t wrong = 0;
        drawn all = {0};

        draw_kind(&all, test->device, how, LAGS, COUNT);
        tap_ok(&test->tap, has_predictors(&all, names, sizeof names / sizeof *names), "predictors");
        predict(&all, "last");
        for (size_t i = 0; i < (size_t)COUNT * LENGTH; i++)
            wrong += all.outputs[i] != (double)all.inputs[i];
        predict(&all, "bayes");
        bayes = take_outputs(&all);
        predict(&all, "ridge:1");
        ridge = take_outputs(&all);
        predict(&all, "oracle");
        for (size_t t = 0; t < LENGTH; t += t < 3 ? 1 : 7) {
            const statistic loss = loss_at(&all, t);
            wrong += !(deviation(&loss, pow(1 - LARGEST * LARGEST / 3, fmin((double)t + 1, LAGS))) < BOUND);
        }
        for (size_t i = 0; i < COUNT; i++) {
            double to_ridge = 0, to_oracle = 0;
            for (size_t t = 0; t < LENGTH; t++) {
                const size_t at = i * LENGTH + t;
                const double miss = bayes[at] - target_at(&all, i, t);
                to_ridge += pow(ridge[at] - target_at(&all, i, t), 2) - miss * miss;
                to_oracle += miss * miss - pow(all.outputs[at] - target_at(&all, i, t), 2);
            }
            add(&above, to_ridge);
            add(&below, to_oracle);
        }
        tap_ok(&test->tap, wrong == 0, "%s: last is the value before, and the oracle's error follows from c",
               words[how]);
        tap_ok(&test->tap,
               above.sum > 0 && deviation(&above, 0) > BOUND && below.sum > 0 && deviation(&below, 0) > BOUND,
               "%s: bayes lies between least squares and the oracle", words[how]);
        icl_free(&bayes);
        icl_free(&ridge);
        release(&all);
    }
}

static void check_ridge(task_test *test) {
    enum { COUNT = 5, K = 3 };
    double worst = 0;
    drawn all = {0};

    draw_kind(&all, test->device, STEADY, K, COUNT);
    predict(&all, "ridge:0.1");
    for (size_t i = 0; i < COUNT; i++)
        for (size_t t = 0; t < LENGTH; t++) {
            double A[K * K] = {0}, b[K] = {0}, expected = 0;
            for (size_t j = 0; j < K; j++)
                A[j * K + j] = .1;
            for (size_t s = 0; s < t; s++)
                for (size_t j = 0; j < K && j <= s; j++) {
                    for (size_t k = 0; k < K && k <= s; k++)
                        A[j * K + k] += value_at(&all, i, s - j) * value_at(&all, i, s - k);
                    b[j] += value_at(&all, i, s - j) * value_at(&all, i, s + 1);
                }
            eliminate(K, K, A, b);
            for (size_t j = 0; j < K && j <= t; j++)
                expected += b[j] * value_at(&all, i, t - j);
            worst = fmax(worst, fabs(all.outputs[i * LENGTH + t] - expected));
        }
    tap_ok(&test->tap, worst < 1e-9, "ridge solves the normal equations at every position (%.2g)", worst);
    release(&all);
}

/* Returns the posterior mean of the coefficient of order 1, from values 0 … t, by a finer quadrature. */
static double coefficient_by_hand(const drawn *all, size_t i, size_t t, kind how) {
    enum { GRID = 6000 };
    static double logs[GRID];
    double largest = -HUGE_VAL, total = 0, sum = 0;

    for (size_t g = 0; g < GRID; g++) {
        const double r = LARGEST * (2 * ((double)g + .5) / GRID - 1);
        double loud = how == STEADY ? 0 : how == SHOCKS ? PROBABILITY : .5;
        logs[g] = 0;
        for (size_t s = 0; s <= t; s++) {
            const double e = value_at(all, i, s) - (s > 0 ? r * value_at(all, i, s - 1) : 0);
            const double variance = (s > 0 ? 1 - r * r : 1) / scale_moment(how, 2);
            const double quiet = (1 - loud) * exp(-e * e / variance / 2) / sqrt(variance);
            const double heavy = loud * exp(-e * e / variance / SCALE / SCALE / 2) / sqrt(variance) / SCALE;
            logs[g] += log(quiet + heavy);
            if (how == REGIMES)
                loud = ((1 - PROBABILITY) * heavy + PROBABILITY * quiet) / (quiet + heavy);
        }
        largest = fmax(largest, logs[g]);
    }
    for (size_t g = 0; g < GRID; g++) {
        total += exp(logs[g] - largest);
        sum += exp(logs[g] - largest) * LARGEST * (2 * ((double)g + .5) / GRID - 1);
    }
    return sum / total;
}

/* The laws of order 1 are the midpoints of 1,024 cells: the mean of the coefficient is right to a tenth of a cell. */
static void check_bayes(task_test *test) {
    enum { COUNT = 6 };

    for (kind how = STEADY; how < KINDS; how++) {
        double worst = 0;
        drawn all = {0};

        draw_kind(&all, test->device, how, 1, COUNT);
        predict(&all, "bayes");
        for (size_t i = 0; i < COUNT; i++)
            for (size_t t = 0; t < LENGTH; t += 5) {
                const double value = value_at(&all, i, t);
                worst = fmax(worst, fabs(all.outputs[i * LENGTH + t] / value - coefficient_by_hand(&all, i, t, how)));
            }
        tap_ok(&test->tap, worst < .1 * 2 * LARGEST / 1024, "%s: bayes is the posterior mean (%.2g)", words[how],
               worst);
        release(&all);
    }
}

static void check_all_bits(task_test *test) {
    static const char *const settings[] = {FAMILY, FAMILY "task.lags=16 task.length=1",
                                           FAMILY "task.lags=3 task.length=7 task.jumps=shocks",
                                           FAMILY "task.lags=1 task.jumps=regimes task.jump_probability=1"};

    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        check_bits(test, settings[i], 21, 5);
}

int main(int count, char **arguments) {
    static task_check *const checks[] = {check_all_bits, check_moments, check_order, check_ridge, check_bayes};
    return run_checks(count, arguments, checks, sizeof checks / sizeof *checks);
}
