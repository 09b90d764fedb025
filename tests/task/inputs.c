/*
 * Inputs that are not normal have the laws they claim, by Kolmogorov's statistic against closed forms. Draws are a
 * function of the seed, so the checks cannot flake; 2.0 is exceeded by a true distribution with probability 7e-4, 4.5
 * standard errors with 7e-6.
 */
#include <stdlib.h>

#include "core/allocate.h"
#include "gamma_tail.h"
#include "iclab/status.h"
#include "make_task.h"

enum { SEQUENCES = 2048, SEED = 5 };

static const double KOLMOGOROV_BOUND = 2.0, BOUND = 4.5;

typedef struct drawn {
    icl_task *task;
    size_t d, count; /* vectors */
    double *x;       /* [count][d] */
    double *sample;  /* [count], for one statistic at a time */
} drawn;

static void drawn_release(drawn *all) {
    icl_task_destroy(&all->task);
    icl_free(&all->x);
    icl_free(&all->sample);
}

static icl_status draw(const char *overrides, drawn *all, icl_error *error) {
    icl_backend *backend = NULL;
    icl_batch batch = {0};
    double *tokens = NULL;
    icl_status status;

    *all = (drawn){0};
    ICL_TRY(make_task(overrides, &all->task, error));
    all->d = icl_task_dimension(all->task);
    all->count = SEQUENCES * (icl_task_context(all->task) + 1);
    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "cpu"}, &backend, error));
    ICL_TRY(icl_batch_create(all->task, backend, ICL_FOR_EVALUATION, SEQUENCES, &batch, error));
    ICL_TRY(icl_task_sample(all->task, backend, ICL_FOR_EVALUATION, SEED, 0, &batch, error));
    ICL_TRY(icl_allocate(all->count * (all->d + 1), sizeof *tokens, "tokens", &tokens, error));
    ICL_TRY(icl_allocate(all->count * all->d, sizeof *all->x, "inputs", &all->x, error));
    ICL_TRY(icl_allocate(all->count, sizeof *all->sample, "sample", &all->sample, error));
    ICL_TRY(icl_tensor_read_double(batch.inputs, tokens, error));
    for (size_t i = 0; i < all->count; i++)
        memcpy(all->x + i * all->d, tokens + i * (all->d + 1), all->d * sizeof *tokens);
done:
    icl_free(&tokens);
    icl_batch_release(&batch);
    icl_backend_close(&backend);
    return status;
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* sqrt(N) times the largest distance of the sample's distribution function from that of U[0, 1]; sorts the sample. */
static double kolmogorov(double *sample, size_t count) {
    double worst = 0;
    if (!sample)
        return (double)INFINITY;
    qsort(sample, count, sizeof *sample, ascending);
    for (size_t i = 0; i < count; i++) {
        const double below = sample[i] - (double)i / (double)count;
        worst = fmax(worst, fmax(fabs(below), fabs(below - 1 / (double)count)));
    }
    return worst * sqrt((double)count);
}

static double norm_of(const drawn *all, size_t i) {
    double square = 0;
    for (size_t k = 0; k < all->d; k++)
        square += all->x[i * all->d + k] * all->x[i * all->d + k];
    return sqrt(square);
}

/* Each coordinate, by its distribution function; parameter as the function wants it. */
static void check_coordinates(tap_run *tap, drawn *all, const char *what,
                              double (*distribution)(double x, double parameter), double parameter, bool of_direction) {
    double worst = 0;
    for (size_t k = 0; k < all->d; k++) {
        for (size_t i = 0; i < all->count; i++)
            all->sample[i] = distribution(all->x[i * all->d + k] / (of_direction ? norm_of(all, i) : 1), parameter);
        worst = fmax(worst, kolmogorov(all->sample, all->count));
    }
    tap_ok(tap, worst < KOLMOGOROV_BOUND, "%s (distance %.2f)", what, worst);
}

/* The prior's root gives the covariance of x. */
static void check_covariance(tap_run *tap, const drawn *all) {
    const double *root = icl_task_get_prior(all->task)->covariance_root;
    double worst = 0;
    for (size_t i = 0; i < all->d; i++)
        for (size_t j = 0; j <= i; j++) {
            double expected = 0, sum = 0, squares = 0;
            for (size_t k = 0; k < all->d; k++)
                expected += root[i * all->d + k] * root[j * all->d + k];
            for (size_t s = 0; s < all->count; s++) {
                const double product = all->x[s * all->d + i] * all->x[s * all->d + j];
                sum += product;
                squares += product * product;
            }
            const double mean = sum / (double)all->count;
            const double variance = squares / (double)all->count - mean * mean;
            worst = fmax(worst, fabs(mean - expected) / sqrt(variance / (double)all->count));
        }
    tap_ok(tap, worst < BOUND, "the prior's covariance is that of x (%.2f standard errors)", worst);
}

static double uniform(double x, double limit) {
    return (x + limit) / (2 * limit);
}

static double normal(double x, double deviation) {
    return erfc(-x / deviation / sqrt(2.0)) / 2;
}

static void check_uniform(tap_run *tap) {
    drawn all;
    icl_error error = {0};
    if (tap_status(tap, draw("task.d=4 task.n=9 task.inputs=uniform:2.5", &all, &error), &error, "uniform")) {
        check_coordinates(tap, &all, "coordinates are uniform on [-A, A]", uniform, 2.5, false);
        check_covariance(tap, &all);
    }
    drawn_release(&all);
}

/* A coordinate of a point on the sphere in three dimensions is uniform on [-1, 1] (Archimedes). */
static void check_sphere(tap_run *tap) {
    drawn all;
    icl_error error = {0};
    double worst = 0;
    if (tap_status(tap, draw("task.d=3 task.n=9 task.inputs=sphere", &all, &error), &error, "sphere")) {
        for (size_t i = 0; i < all.count; i++)
            worst = fmax(worst, fabs(norm_of(&all, i) - 1));
        tap_ok(tap, worst < 13 * 6e-8, "norms are 1 to rounding (%.1e)", worst);
        check_coordinates(tap, &all, "coordinates are uniform on [-1, 1]", uniform, 1, false);
        check_covariance(tap, &all);
    }
    drawn_release(&all);
}

/* Squared norms, directions, and that these do not go together: a long vector's first coordinate has
 * either sign as often. */
static void check_gamma(tap_run *tap, double shape, double scale) {
    drawn all;
    icl_error error = {0};
    char overrides[128];
    snprintf(overrides, sizeof overrides, "task.d=3 task.n=9 task.inputs=gamma:%g,%g", shape, scale);
    if (tap_status(tap, draw(overrides, &all, &error), &error, overrides)) {
        double together = 0, distance;
        for (size_t i = 0; i < all.count; i++) {
            const double norm = norm_of(&all, i);
            all.sample[i] = gamma_tail(shape, norm * norm / scale, false);
            together += (all.sample[i] - 0.5) * all.x[3 * i] / norm;
        }
        distance = kolmogorov(all.sample, all.count);
        tap_ok(tap, distance < KOLMOGOROV_BOUND, "squared norms are gamma distributed (distance %.2f)", distance);
        check_coordinates(tap, &all, "directions are uniform", uniform, 1, true);
        together /= sqrt((double)all.count / 36); /* variances 1/12 and 1/3 */
        tap_ok(tap, fabs(together) < BOUND, "and independent of the norms (%.2f standard errors)", fabs(together));
        check_covariance(tap, &all);
    }
    drawn_release(&all);
}

/* x is normal where ||x||^2 ~ Gamma(d / 2, 2); so is R x, coordinate by coordinate. */
static void check_normal(tap_run *tap) {
    drawn all;
    icl_error error = {0};
    if (tap_status(tap, draw("task.d=5 task.n=9 task.inputs=gamma:2.5,2", &all, &error), &error, "gamma:d/2,2"))
        check_coordinates(tap, &all, "coordinates are normal", normal, 1, false);
    drawn_release(&all);
    if (tap_status(tap, draw("task.d=2 task.n=9 task.inputs=gamma:1,2 task.covariance=spectrum:9,9", &all, &error),
                   &error, "with a covariance")) {
        check_coordinates(tap, &all, "coordinates have its variance", normal, 3, false);
        check_covariance(tap, &all);
    }
    drawn_release(&all);
}

int main(void) {
    tap_run tap = {0};

    check_uniform(&tap);
    check_sphere(&tap);
    check_gamma(&tap, 0.1, 10);
    check_gamma(&tap, 2, 0.25);
    check_normal(&tap);
    return tap_done(&tap);
}
