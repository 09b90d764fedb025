/*
 * Gram matrices drawn without tokens are distributed as those of tokens. Two independent samples, one of each kind:
 * moments of the entries up to the second, which are the fourth of the tokens, jointly with query and target; and the
 * eigenvalues' whole distributions. Sequences are a function of the seed, so the checks cannot flake. The bounds hold
 * for samples of one distribution with near certainty: about 6000 statistics stay within 5.5 standard errors with
 * probability .9998, and the 21 Kolmogorov-Smirnov distances within 2.9 / sqrt(N / 2) with probability 1 - 21 * 2
 * exp(-2 * 2.9^2) = 1 - 2e-6.
 */
#include <stdlib.h>

#include "frame.h"
#include "numeric/matrix.h"

enum { SEQUENCES = 16384, MOST = 16 };

static const double MOMENT_BOUND = 5.5, KOLMOGOROV_BOUND = 2.9;

/* The statistics of each sequence: the lower triangle of G / n, the query's first element, the target, the product of
 * these two, sigma and w_1. [count][SEQUENCES]; eigenvalues [D][SEQUENCES], ascending. */
typedef struct sample {
    size_t d, n, count;
    double *statistics, *eigenvalues;
} sample;

static void sample_release(sample *s) {
    icl_free(&s->statistics);
    icl_free(&s->eigenvalues);
}

/* Computes the sequence's Gram matrix, in double. */
static void gram_of(const drawn *batch, size_t sequence, double *gram) {
    const size_t extent = batch->d + 1, square = extent * extent;

    for (size_t i = 0; i < square; i++)
        gram[i] = batch->gram ? (double)batch->gram[sequence * square + i] : 0;
    for (size_t t = 0; t + 1 < batch->length && !batch->gram; t++) {
        const float *e = input_at(batch, sequence, t);
        for (size_t i = 0; i < square; i++)
            gram[i] += (double)e[i / extent] * (double)e[i % extent];
    }
}

static void fill_sequence(const drawn *batch, size_t s, sample *out) {
    const size_t extent = out->d + 1;
    const double target = target_at(batch, s, 0);
    const double query = (double)(batch->query ? batch->query[s * extent] : input_at(batch, s, out->n)[0]);
    double gram[MOST * MOST] = {0}, eigenvalues[MOST], vectors[MOST * MOST], work[3 * MOST];
    size_t k = 0;

    gram_of(batch, s, gram);
    for (size_t i = 0; i < extent; i++)
        for (size_t j = 0; j <= i; j++)
            out->statistics[k++ * SEQUENCES + s] = gram[i * extent + j] / (double)out->n;
    out->statistics[k++ * SEQUENCES + s] = query;
    out->statistics[k++ * SEQUENCES + s] = target;
    out->statistics[k++ * SEQUENCES + s] = query * target;
    out->statistics[k++ * SEQUENCES + s] = (double)batch->noise[s];
    out->statistics[k * SEQUENCES + s] = (double)batch->coefficients[s * out->d];
    if (!icl_symmetric_eigen(extent, gram, eigenvalues, vectors, work))
        tap_need(icl_fail(tap_error(), ICL_ERROR_INPUT, "an eigenvalue problem was not solved"));
    for (size_t i = 0; i < extent; i++)
        out->eigenvalues[i * SEQUENCES + s] = eigenvalues[i];
}

/* Tokens come from evaluation, whose stream shares no number with that of training. */
static void draw_sample(drawn *batch, icl_backend *backend, icl_task_purpose purpose, const char *overrides,
                        sample *out) {

    open_batch(batch, backend, purpose, SEQUENCES, overrides);
    draw_step(batch, SEED, 0);
    *out = (sample){.d = batch->d, .n = batch->length - 1};
    out->count = (out->d + 1) * (out->d + 2) / 2 + 5;
    tap_need(icl_allocate(out->count * SEQUENCES, sizeof(double), "statistics", &out->statistics, tap_error()));
    tap_need(icl_allocate((out->d + 1) * SEQUENCES, sizeof(double), "eigenvalues", &out->eigenvalues, tap_error()));
    for (size_t s = 0; s < SEQUENCES; s++)
        fill_sequence(batch, s, out);
}

/* ---- Comparing ---- */

/* Computes the mean and squared standard error of the product of two statistics; b may be NULL. */
static void moment(const double *a, const double *b, double *mean, double *square_error) {
    double sum = 0, squares = 0;
    for (size_t s = 0; s < SEQUENCES; s++) {
        const double product = b ? a[s] * b[s] : a[s];
        sum += product;
        squares += product * product;
    }
    *mean = sum / SEQUENCES;
    *square_error = (squares / SEQUENCES - *mean * *mean) / SEQUENCES;
}

/* Returns the difference of a moment in the two samples, in standard errors. */
static double difference(const sample *draw, const sample *y, size_t i, const size_t *j) {
    double mean[2], square_error[2];
    moment(draw->statistics + i * SEQUENCES, j ? draw->statistics + *j * SEQUENCES : NULL, &mean[0], &square_error[0]);
    moment(y->statistics + i * SEQUENCES, j ? y->statistics + *j * SEQUENCES : NULL, &mean[1], &square_error[1]);
    if (mean[0] == mean[1])
        return 0;
    return fabs(mean[0] - mean[1]) / sqrt(square_error[0] + square_error[1] + 1e-300);
}

static void check_moments(tap_run *tap, const sample *draw, const sample *y) {
    double first = 0, second = 0;
    for (size_t i = 0; i < draw->count; i++) {
        first = fmax(first, difference(draw, y, i, NULL));
        for (size_t j = 0; j <= i; j++)
            second = fmax(second, difference(draw, y, i, &j));
    }
    tap_ok(tap, first < MOMENT_BOUND, "%zu means (%.2f standard errors)", draw->count, first);
    tap_ok(tap, second < MOMENT_BOUND, "%zu second moments (%.2f standard errors)", draw->count * (draw->count + 1) / 2,
           second);
}

/* Checks a moment that is known without tokens: the mean of sum_i x_i x_i^T is n Sigma. */
static void check_mean(tap_run *tap, const icl_task *task, const sample *draw) {
    const double *root = icl_task_get_prior(task)->covariance_root;
    double worst = 0;
    for (size_t i = 0, k = 0; i < draw->d; i++)
        for (size_t j = 0; j <= i; j++, k++) {
            double expected = root ? 0 : i == j, mean, square_error;
            for (size_t l = 0; root && l < draw->d; l++)
                expected += root[i * draw->d + l] * root[j * draw->d + l];
            moment(draw->statistics + k * SEQUENCES, NULL, &mean, &square_error);
            worst = fmax(worst, fabs(mean - expected) / sqrt(square_error));
        }
    tap_ok(tap, worst < MOMENT_BOUND, "the inputs' part has mean n Sigma (%.2f standard errors)", worst);
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns sqrt(N / 2) times the largest distance of the two empirical distribution functions; sorts both. */
static double kolmogorov(double *a, double *b) {
    double worst = 0;
    size_t j = 0;
    qsort(a, SEQUENCES, sizeof *a, ascending);
    qsort(b, SEQUENCES, sizeof *b, ascending);
    for (size_t i = 0; i < SEQUENCES; i++) {
        while (j < SEQUENCES && b[j] <= a[i])
            j++;
        worst = fmax(worst, fmax(fabs((double)(i + 1) - (double)j), fabs((double)i - (double)j) - 1));
    }
    return worst / SEQUENCES * sqrt(SEQUENCES / 2.0);
}

static void check_eigenvalues(tap_run *tap, bool noiseless, sample *draw, sample *y) {
    const size_t extent = draw->d + 1, full = noiseless ? draw->d : extent, rank = draw->n < full ? draw->n : full;
    const size_t which[3] = {extent - rank, extent - 1 - (rank - 1) / 2, extent - 1};
    static const char *const names[3] = {"smallest", "median", "largest"};
    double null = 0;

    for (size_t i = 0; i < extent - rank; i++)
        for (size_t s = 0; s < SEQUENCES; s++)
            null = fmax(null,
                        fabs(draw->eigenvalues[i * SEQUENCES + s]) / draw->eigenvalues[(extent - 1) * SEQUENCES + s]);
    tap_ok(tap, null < 1e-5, "%zu eigenvalues of %zu are 0 to rounding (%.1e)", extent - rank, extent, null);
    for (int i = 0; i < 3; i++) {
        const double distance =
            kolmogorov(draw->eigenvalues + which[i] * SEQUENCES, y->eigenvalues + which[i] * SEQUENCES);
        tap_ok(tap, distance < KOLMOGOROV_BOUND, "the %s eigenvalue that is not (distance %.2f)", names[i], distance);
        if (rank == 1)
            return;
    }
}

static void check_task(task_test *test, const char *overrides) {
    drawn all = {0}, other = {0};
    sample gram, tokens;

    draw_sample(&all, test->cpu, ICL_FOR_TRAINING, overrides, &gram);
    draw_sample(&other, test->cpu, ICL_FOR_EVALUATION, overrides, &tokens);
    tap_note("%s", overrides);
    check_mean(&test->tap, all.task, &gram);
    check_moments(&test->tap, &gram, &tokens);
    check_eigenvalues(&test->tap, icl_task_get_prior(all.task)->noise_max == 0, &gram, &tokens);
    sample_release(&gram);
    sample_release(&tokens);
    release(&all);
    release(&other);
}

static void check_tasks(task_test *test) {
    check_task(test, "task.sampler=gram task.d=3 task.n=1 task.noise=uniform:5");
    check_task(test, "task.sampler=gram task.d=3 task.n=3 task.noise=fixed:0");
    check_task(test, "task.sampler=gram task.d=5 task.n=4 task.noise=choice:1,3,5");
    check_task(test, "task.sampler=gram task.d=5 task.n=6 task.noise=fixed:0.5");
    check_task(test, "task.sampler=gram task.d=10 task.n=20 task.noise=uniform:5");
    check_task(test, "task.sampler=gram task.d=4 task.n=50 task.noise=fixed:0.5 task.rotate=true "
                     "task.covariance=spectrum:1,1,0.25,0.0625 task.weights=inverse-covariance");
    check_task(test, "task.sampler=gram task.d=3 task.n=2 task.noise=choice:0,2 task.covariance=spectrum:4,1,0.25");
}

int main(int count, char **arguments) {
    static task_check *const checks[] = {check_tasks};
    return run_checks(count, arguments, checks, sizeof checks / sizeof *checks);
}
