/* The distributions of linear regression: moments of inputs, weights, noise and its levels within standard errors,
 * inputs that are not normal by Kolmogorov's statistic against closed forms, rotations and axes of covariances to
 * rounding. */
#include <stdlib.h>

#include "frame.h"
#include "gamma_tail.h"
#include "task/laws.h"

/* Kolmogorov's statistic of the true distribution exceeds its bound with probability 7e-4. */
enum { SEQUENCES = 8192, FEWER = 2048, KOLMOGOROV_BOUND = 2 };

/* ---- Moments ---- */

/* Returns the largest deviation of E[v_i] from 0 and of E[v_i v_j] from root root^T (or the identity), over vectors of
 * d numbers that are `stride` apart. */
static double moment_deviation(const float *values, size_t stride, size_t count, size_t d, const double *root) {
    double worst = 0;

    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j <= i + 1; j++) { /* j = i + 1 stands for the constant 1 */
            double expected = !root && i == j;
            statistic seen = {0};
            for (size_t k = 0; root && j <= i && k < d; k++)
                expected += root[i * d + k] * root[j * d + k];
            for (size_t s = 0; s < count; s++)
                add(&seen, (double)values[s * stride + i] * (j <= i ? (double)values[s * stride + j] : 1));
            worst = fmax(worst, deviation(&seen, expected));
        }
    return worst;
}

/* The covariance of x is the prior's. */
static void check_covariance(task_test *test, const drawn *batch) {
    const double worst = moment_deviation(batch->inputs, batch->d + 1, batch->count * batch->length, batch->d,
                                          icl_task_get_prior(batch->task)->covariance_root);
    tap_ok(&test->tap, worst < BOUND, "mean and covariance of x (%.2f standard errors)", worst);
}

static void check_inputs_and_weights(task_test *test) {
    static const char *const settings[] = {"task.d=4 task.n=3",
                                           ("task.d=5 task.n=4 task.covariance=spectrum:1,1,0.25,0.0625,1 "
                                            "task.rotate=true task.weights=inverse-covariance"),
                                           "task.d=3 task.n=2 task.covariance=spectrum:9,1,0.01"};
    drawn all = {0};

    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        draw(&all, test->cpu, SEQUENCES, "%s", settings[i]);
        check_covariance(test, &all);
        const double worst =
            moment_deviation(all.coefficients, all.d, SEQUENCES, all.d, icl_task_get_prior(all.task)->weight_root);
        tap_ok(&test->tap, worst < BOUND, "%s: mean and covariance of w (%.2f standard errors)", settings[i], worst);
    }
    release(&all);
}

/* Checks that label noise (y_i - <w, x_i>) / sigma has mean 0 and variance 1, and is independent of x. */
static void check_label_noise(task_test *test, const drawn *batch) {
    statistic mean = {0}, square = {0}, cross = {0};

    for (size_t s = 0; s < batch->count; s++)
        for (size_t i = 0; i + 1 < batch->length; i++) {
            const float *x = input_at(batch, s, i);
            const double clean = dot(x, batch->coefficients + s * batch->d, batch->d);
            const double noise = ((double)x[batch->d] - clean) / (double)batch->noise[s];
            add(&mean, noise);
            add(&square, noise * noise);
            add(&cross, noise * (double)x[0]);
        }
    tap_ok(&test->tap, deviation(&mean, 0) < BOUND && deviation(&square, 1) < BOUND && deviation(&cross, 0) < BOUND,
           "label noise: mean, variance and independence of x (%.2f, %.2f, %.2f standard errors)", deviation(&mean, 0),
           deviation(&square, 1), deviation(&cross, 0));
}

static void check_noise_levels(task_test *test) {
    static const struct {
        const char *law;
        double moments[4]; /* E[sigma^1] and so on; 0: not checked */
    } rows[] = {{"uniform:6", {3, 12, 54, 1296. / 5}},
                {"choice:1,3,5", {3, 35. / 3, 51, (1 + 81 + 625) / 3.}},
                {"fixed:0.5", {.5, .25}}};
    drawn all = {0};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        draw(&all, test->cpu, SEQUENCES, "task.d=2 task.n=6 task.noise=%s", rows[i].law);
        for (int power = 1; power <= 4 && rows[i].moments[power - 1] > 0; power++) {
            statistic seen = {0};
            for (size_t s = 0; s < SEQUENCES; s++)
                add(&seen, pow((double)all.noise[s], power));
            const double worst = deviation(&seen, rows[i].moments[power - 1]);
            tap_ok(&test->tap, worst < BOUND, "%s: E[sigma^%d] = %g (%.2f standard errors)", rows[i].law, power,
                   rows[i].moments[power - 1], worst);
        }
        tap_ok(&test->tap, fabs(icl_task_get_prior(all.task)->mean_square_noise / rows[i].moments[1] - 1) < 1e-9,
               "the prior's E[sigma^2]");
        check_label_noise(test, &all);
    }
    release(&all);
}

/* ---- Rotations ---- */

static void check_rotation(task_test *test, size_t d) {
    double *rotation = NULL, *other = NULL, worst = 0, distance = 0;

    tap_need(icl_random_rotation(d, 1, &rotation, tap_error()));
    tap_need(icl_random_rotation(d, 2, &other, tap_error()));
    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j < d; j++) {
            double rows = 0, columns = 0;
            for (size_t k = 0; k < d; k++) {
                rows += rotation[i * d + k] * rotation[j * d + k];
                columns += rotation[k * d + i] * rotation[k * d + j];
            }
            worst = fmax(worst, fmax(fabs(rows - (i == j)), fabs(columns - (i == j))));
            distance = fmax(distance, fabs(rotation[i * d + j] - other[i * d + j]));
        }
    tap_ok(&test->tap, worst < 4 * (double)d * 2.3e-16, "d = %zu: orthogonal to rounding (%.1e)", d, worst);
    tap_ok(&test->tap, d == 1 || distance > 0.1, "another seed gives another rotation");
    icl_free(&rotation);
    icl_free(&other);
}

static void check_rotations(task_test *test) {
    check_rotation(test, 1);
    check_rotation(test, 5);
    check_rotation(test, 40);
}

/* The columns of a rotated covariance's root R are its axes: R^T R is diagonal, with the eigenvalues in their order. S,
 * the root of the inverse, which the weights have, has the same axes: R^T S = I. Roots are rounded to floats. */
static void check_axes(task_test *test) {
    static const double spectrum[] = {4, 1, .25, 9};
    drawn all = {0};
    double worst = 0;

    open_batch(&all, test->cpu, ICL_FOR_TRAINING, 1,
               "task.d=4 task.n=5 task.covariance=spectrum:4,1,0.25,9 task.rotate=true "
               "task.weights=inverse-covariance");
    const icl_task_prior *prior = icl_task_get_prior(all.task);
    for (size_t i = 0; i < 4; i++)
        for (size_t j = 0; j < 4; j++) {
            double square = 0, product = 0;
            for (size_t k = 0; k < 4; k++) {
                square += prior->covariance_root[k * 4 + i] * prior->covariance_root[k * 4 + j];
                product += prior->covariance_root[k * 4 + i] * prior->weight_root[k * 4 + j];
            }
            worst = fmax(worst, fabs(square - (i == j ? spectrum[i] : 0)) / sqrt(spectrum[i] * spectrum[j]));
            worst = fmax(worst, fabs(product - (i == j)) * sqrt(spectrum[j] / spectrum[i]));
        }
    tap_ok(&test->tap, worst < 0x1p-22, "eigenvalues are those asked for (%.1e)", worst);
    release(&all);
}

/* Rotations have the same bits on every machine and compiler: a known answer. */
static void check_rotation_bits(task_test *test) {
    double *rotation = NULL;
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a, a word at a time */

    tap_need(icl_random_rotation(5, 1, &rotation, tap_error()));
    for (size_t i = 0; i < 25; i++) {
        uint64_t word;
        memcpy(&word, &rotation[i], sizeof word);
        hash = (hash ^ word) * 0x100000001b3u;
    }
    tap_ok(&test->tap, hash == 0xaa71e6bf5c2465dbu, "its bits (%016llx)", (unsigned long long)hash);
    icl_free(&rotation);
}

/* ---- Laws of inputs ---- */

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns sqrt(N) times the largest distance of the sample's distribution function from that of U[0, 1]; sorts the
 * sample. */
static double kolmogorov(double *sample, size_t count) {
    double worst = 0;
    qsort(sample, count, sizeof *sample, ascending);
    for (size_t i = 0; i < count; i++) {
        const double below = sample[i] - (double)i / (double)count;
        worst = fmax(worst, fmax(fabs(below), fabs(below - 1 / (double)count)));
    }
    return worst * sqrt((double)count);
}

static double norm_of(const drawn *batch, size_t vector) {
    const float *x = input_at(batch, 0, vector);
    return sqrt(dot(x, x, batch->d));
}

typedef double distribution(double x, double parameter);

static double uniform(double x, double limit) {
    return (x + limit) / (2 * limit);
}

static double normal(double x, double deviation) {
    return erfc(-x / deviation / sqrt(2.0)) / 2;
}

/* Draws inputs, and checks their covariance and the distribution function of each coordinate of x, or of its
 * direction. */
static void check_coordinates(task_test *test, drawn *batch, double *sample, const char *setting, distribution *law,
                              double parameter, bool of_direction) {
    double worst = 0;

    draw(batch, test->cpu, FEWER, "task.n=9 %s", setting);
    check_covariance(test, batch);
    for (size_t k = 0; k < batch->d; k++) {
        for (size_t i = 0; i < FEWER * batch->length; i++)
            sample[i] = law((double)input_at(batch, 0, i)[k] / (of_direction ? norm_of(batch, i) : 1), parameter);
        worst = fmax(worst, kolmogorov(sample, FEWER * batch->length));
    }
    tap_ok(&test->tap, worst < KOLMOGOROV_BOUND, "%s: coordinates have their law (distance %.2f)", setting, worst);
}

/* Checks the law of squared norms, and that directions are independent of them: the first coordinate of a long vector
 * has either sign equally often. */
static void check_radii(task_test *test, const drawn *batch, double *sample, double shape, double scale) {
    statistic together = {0};

    for (size_t i = 0; i < FEWER * batch->length; i++) {
        const double norm = norm_of(batch, i);
        sample[i] = gamma_tail(shape, norm * norm / scale, false);
        add(&together, (sample[i] - 0.5) * (double)input_at(batch, 0, i)[0] / norm);
    }
    const double distance = kolmogorov(sample, FEWER * batch->length);
    tap_ok(&test->tap, distance < KOLMOGOROV_BOUND && deviation(&together, 0) < BOUND,
           "squared norms are gamma distributed (distance %.2f), independent of directions (%.2f standard errors)",
           distance, deviation(&together, 0));
}

/* A coordinate of a point on the sphere in three dimensions is uniform on [-1, 1] (Archimedes); x is normal if ||x||^2
 * ~ Gamma(d / 2, 2), and so is R x, coordinate by coordinate. */
static void check_laws(task_test *test) {
    static double sample[FEWER * 10];
    drawn all = {0};
    double worst = 0;

    check_coordinates(test, &all, sample, "task.d=4 task.inputs=uniform:2.5", uniform, 2.5, false);
    check_coordinates(test, &all, sample, "task.d=3 task.inputs=sphere", uniform, 1, false);
    for (size_t i = 0; i < FEWER * all.length; i++)
        worst = fmax(worst, fabs(norm_of(&all, i) - 1));
    tap_ok(&test->tap, worst < 13 * 6e-8, "norms are 1 to rounding (%.1e)", worst);
    check_coordinates(test, &all, sample, "task.d=3 task.inputs=gamma:0.1,10", uniform, 1, true);
    check_radii(test, &all, sample, 0.1, 10);
    check_coordinates(test, &all, sample, "task.d=3 task.inputs=gamma:2,0.25", uniform, 1, true);
    check_radii(test, &all, sample, 2, 0.25);
    check_coordinates(test, &all, sample, "task.d=5 task.inputs=gamma:2.5,2", normal, 1, false);
    check_coordinates(test, &all, sample, "task.d=2 task.inputs=gamma:1,2 task.covariance=spectrum:9,9", normal, 3,
                      false);
    release(&all);
}

int main(int count, char **arguments) {
    static task_check *const checks[] = {check_inputs_and_weights, check_noise_levels, check_rotations,
                                         check_rotation_bits,      check_axes,         check_laws};
    return run_checks(count, arguments, checks, sizeof checks / sizeof *checks);
}
