/*
 * Noise of function classes: shares, moments and quantiles of what labels miss their values by, within five standard
 * errors of closed forms; the density that reference predictors use, by its integrals and by direct sums.
 */
#include "function_classes.h"
#include "task/function_classes/family.h"

static const double PI = 3.14159265358979323846;

/* How far label i of a sequence is from its value. */
static double miss(const drawn *all, size_t s, size_t i) {
    return (double)token(all, s, i + 1)[D] - (double)target(all, s, i);
}

static double normal_beyond(double size) {
    return erfc(size / sqrt(2));
}

/* Of Student's law, nu = 1 and 3: its distribution function at t. */
static double student_below(int freedom, double t) {
    const double u = t / sqrt(freedom);
    return .5 + (freedom == 3 ? u / (1 + u * u) + atan(u) : atan(u)) / PI;
}

/* ---- Outliers ---- */

/* .75 N(0, .25) + .25 N(0, 16), label by label: variance, share beyond 2, and the spread of their number. */
static icl_status check_wide(tap_run *tap, icl_backend *backend, icl_error *error) {
    drawn all = {0};
    statistic square = {0}, beyond = {0}, pairs = {0};
    const double share = .75 * normal_beyond(4) + .25 * normal_beyond(.5);
    icl_status status = ICL_OK;

    ICL_TRY(draw("task.noise=0.5 task.outliers=0.25 task.outlier_size=4", backend, &all, error));
    for (size_t s = 0; s < all.count; s++) {
        double squares = 0, count = 0;
        for (size_t i = 0; i < N; i++) {
            squares += miss(&all, s, i) * miss(&all, s, i) / N;
            count += fabs(miss(&all, s, i)) > 2;
        }
        add(&square, squares);
        add(&beyond, count / N);
        add(&pairs, pow(count - N * share, 2));
    }
    tap_ok(tap, deviation(&square, .75 * .25 + .25 * 16) < BOUND, "wide: the variance is %.3f beside 4.1875",
           square.sum / square.count);
    tap_ok(tap, deviation(&beyond, share) < BOUND, "wide: %.4f of the labels are beyond 2, beside %.4f",
           beyond.sum / beyond.count, share);
    tap_ok(tap, deviation(&pairs, N * share * (1 - share)) < BOUND, "wide: labels are outliers independently");
done:
    release(&all);
    return status;
}

/* Without noise a label is its value, or three times that. */
static icl_status check_multiplied(tap_run *tap, icl_backend *backend, icl_error *error) {
    drawn all = {0};
    statistic share = {0};
    size_t wrong = 0;
    icl_status status = ICL_OK;

    ICL_TRY(
        draw("task.noise=0 task.outliers=0.4 task.outlier_law=multiplied task.outlier_size=3", backend, &all, error));
    for (size_t s = 0; s < all.count; s++) {
        double count = 0;
        for (size_t i = 0; i < N; i++) {
            const double ratio = (double)token(&all, s, i + 1)[D] / (double)target(&all, s, i);
            wrong += fabs(ratio - 1) > 1e-6 && fabs(ratio - 3) > 1e-6;
            count += ratio > 2;
        }
        add(&share, count / N);
    }
    tap_ok(tap, wrong == 0 && deviation(&share, .4) < BOUND, "multiplied: %.4f of the labels, beside .4",
           share.sum / share.count);
    for (int everywhere = 0; everywhere < 2; everywhere++) {
        wrong = 0;
        ICL_TRY(draw(everywhere ? "task.noise=1 task.outliers=1 task.outlier_law=multiplied task.outlier_size=2"
                                : "task.noise=1 task.outliers=1e-12 task.outlier_size=1e6",
                     backend, &all, error));
        for (size_t s = 0; s < all.count; s++)
            for (size_t i = 0; i < N; i++)
                wrong += fabs((double)token(&all, s, i + 1)[D]) > 80;
        tap_ok(tap, wrong == 0, everywhere ? "a share of 1: all labels" : "a share of 1e-12: none");
    }
done:
    release(&all);
    return status;
}

/* ---- Heavy tails ---- */

static icl_status check_student(tap_run *tap, int freedom, bool is_scale, icl_backend *backend, icl_error *error) {
    static const double quantiles[] = {-6, -2, -.8, 0, .5, 1.5, 4, 20};
    enum { COUNT = sizeof quantiles / sizeof *quantiles };
    const double unit = 2 * (is_scale ? 1 : sqrt((freedom - 2.) / freedom));
    drawn all = {0};
    statistic below[COUNT] = {{0}};
    double worst = 0;
    char text[128];
    icl_status status = ICL_OK;

    snprintf(text, sizeof text, "task.noise=2 task.noise_law=student-t task.freedom=%d task.noise_unit=%s", freedom,
             is_scale ? "scale" : "deviation");
    ICL_TRY(draw(text, backend, &all, error));
    for (size_t s = 0; s < all.count; s++)
        for (int q = 0; q < COUNT; q++) {
            double share = 0;
            for (size_t i = 0; i < N; i++)
                share += (miss(&all, s, i) < unit * quantiles[q]) / (double)N;
            add(&below[q], share);
        }
    for (int q = 0; q < COUNT; q++)
        worst = fmax(worst, deviation(&below[q], student_below(freedom, quantiles[q])));
    tap_ok(tap, worst < BOUND, "student-t: %d degrees of freedom, sigma a %s (%.1f standard errors)", freedom,
           is_scale ? "scale" : "deviation", worst);
done:
    release(&all);
    return status;
}

/* nu = 12: moments of second and fourth order. */
static icl_status check_moments(tap_run *tap, icl_backend *backend, icl_error *error) {
    drawn all = {0};
    statistic square = {0}, fourth = {0};
    icl_status status = ICL_OK;

    ICL_TRY(draw("task.noise=1 task.noise_law=student-t task.freedom=12", backend, &all, error));
    for (size_t s = 0; s < all.count; s++) {
        double squares = 0, fourths = 0;
        for (size_t i = 0; i < N; i++) {
            squares += pow(miss(&all, s, i), 2) / N;
            fourths += pow(miss(&all, s, i), 4) / N;
        }
        add(&square, squares);
        add(&fourth, fourths);
    }
    tap_ok(tap, deviation(&square, 1) < BOUND && deviation(&fourth, 3 + 6. / 8) < BOUND,
           "student-t: variance 1 and kurtosis 3.75 with 12 degrees of freedom (%.3f, %.3f)", square.sum / square.count,
           fourth.sum / fourth.count);
done:
    release(&all);
    return status;
}

static icl_status check_tails(tap_run *tap, icl_backend *backend, icl_error *error) {
    ICL_CHECK(check_student(tap, 1, true, backend, error));
    ICL_CHECK(check_student(tap, 3, true, backend, error));
    ICL_CHECK(check_student(tap, 3, false, backend, error));
    return check_moments(tap, backend, error);
}

/* What is usual stays where it was: other noise changes labels alone, and outliers leave the others' noise. */
static icl_status check_streams(tap_run *tap, icl_backend *backend, icl_error *error) {
    drawn plain = {0}, other = {0};
    size_t same = 0, wrong = 0;
    icl_status status = ICL_OK;

    ICL_TRY(draw("task.noise=1", backend, &plain, error));
    ICL_TRY(draw("task.noise=1 task.outliers=0.5", backend, &other, error));
    for (size_t s = 0; s < plain.count; s++)
        for (size_t i = 0; i < N; i++) {
            wrong +=
                !same_input(token(&plain, s, i), token(&other, s, i)) || target(&plain, s, i) != target(&other, s, i);
            same += token(&plain, s, i + 1)[D] == token(&other, s, i + 1)[D];
        }
    tap_ok(tap, wrong == 0 && same > plain.count * N * 4 / 10 && same < plain.count * N * 6 / 10,
           "half of the labels are what they are without outliers, and all else");
done:
    release(&plain);
    release(&other);
    return status;
}

/* ---- The density ---- */

/* Over labels, about 3, by the trapezium rule in asinh((y - 3) / .01); the same for every sigma. */
static double integrate(const icl_noise_law *law, double sigma) {
    double sum = 0;
    for (int step = -34 * 512; step <= 34 * 512; step++) {
        const double u = step / 512., y = 3 + .01 * sinh(u);
        sum += exp(icl_noise_law_density(law, y, 3, sigma)) * .01 * cosh(u) / 512;
    }
    return sum;
}

static icl_status check_density(tap_run *tap, icl_backend *backend, icl_error *error) {
    static const icl_noise_law laws[] = {
        {.unit = 1},
        {.unit = 1, .outliers = .3, .outlier_size = 5},
        {.unit = 1, .outliers = .3, .outlier_size = 5, .multiplies = true},
        {.unit = 1, .outliers = 1, .outlier_size = 5, .multiplies = true},
        {.freedom = 3, .unit = .57735026918962576, .outliers = .1, .outlier_size = 5},
    };
    double worst = 0;

    (void)backend;
    (void)error;
    for (size_t l = 0; l < sizeof laws / sizeof *laws; l++) {
        /* sqrt(2 pi), and of three degrees of freedom pi sqrt(3) / 2. */
        const double expected = laws[l].freedom > 0 ? PI * sqrt(3) / 2 : sqrt(2 * PI);
        worst = fmax(worst, fabs(integrate(&laws[l], .5) / expected - 1));
        worst = fmax(worst, fabs(integrate(&laws[l], 2) / expected - 1));
    }
    tap_ok(tap, worst < 1e-8, "densities have integrals that do not depend on sigma (%.1e)", worst);
    tap_ok(tap,
           fabs(icl_noise_law_variance(&laws[1], 2) - (.7 * 4 + .3 * 25)) < 1e-12 &&
               fabs(icl_noise_law_variance(&laws[4], 2) - (.9 * 4 + .1 * 25)) < 1e-12 &&
               icl_noise_law_variance(&laws[2], 2) == 4,
           "variances of noise: of all labels, and that of plain ones where outliers are multiplied");
    return ICL_OK;
}

int main(void) {
    static icl_status (*const checks[])(tap_run * tap, icl_backend * backend, icl_error * error) = {
        check_wide, check_multiplied, check_tails, check_streams, check_density};
    return test_on_cpu(checks, sizeof checks / sizeof *checks);
}
