/*
 * Gram matrices drawn without tokens are distributed as those of tokens. Two independent samples, one of each kind:
 * moments of the entries up to the second, which are the fourth of the tokens, jointly with query and target; and the
 * eigenvalues' whole distributions. Sequences are a function of the seed, so the checks cannot flake. The bounds hold
 * for samples of one distribution with near certainty: about 6000 statistics stay within 5.5 standard errors with
 * probability .9998, and the 21 Kolmogorov-Smirnov distances within 2.9 / sqrt(N / 2) with probability 1 - 21 * 2
 * exp(-2 * 2.9^2) = 1 - 2e-6.
 */
#include <math.h>

#include "core/allocate.h"
#include "iclab/status.h"
#include "make_task.h"
#include "numeric/eigen.h"

enum { SEQUENCES = 16384, SEED = 5, MOST = 16 };

static const double BOUND = 5.5, KOLMOGOROV_BOUND = 2.9;

/* What is looked at in each of the sequences: the lower triangle of G / n, the query's first element, the target, the
 * two times each other, sigma and w_1. [count][SEQUENCES]; eigenvalues [D][SEQUENCES], ascending. */
typedef struct sample {
    size_t d, n, count;
    double *statistics, *eigenvalues;
} sample;

static void sample_release(sample *s) {
    icl_free(&s->statistics);
    icl_free(&s->eigenvalues);
}

/* A batch on the host. */
typedef struct values {
    float *context, *query, *targets, *noise, *weights; /* context: tokens or gram */
} values;

static icl_status read_tensor(icl_tensor tensor, float **to, icl_error *error) {
    const icl_status status = icl_allocate(icl_tensor_count(&tensor), sizeof(float), "values", to, error);
    return status == ICL_OK ? icl_tensor_read(tensor, *to, error) : status;
}

static icl_status read_batch(const icl_batch *batch, values *v, icl_error *error) {
    icl_status status;
    ICL_TRY(
        read_tensor(batch->inputs.buffer ? batch->inputs : icl_batch_side(batch, ICL_SIDE_GRAM), &v->context, error));
    if (icl_batch_side(batch, ICL_SIDE_QUERY).buffer)
        ICL_TRY(read_tensor(icl_batch_side(batch, ICL_SIDE_QUERY), &v->query, error));
    ICL_TRY(read_tensor(batch->targets, &v->targets, error));
    ICL_TRY(read_tensor(icl_batch_side(batch, ICL_SIDE_NOISE), &v->noise, error));
    ICL_TRY(read_tensor(icl_batch_side(batch, ICL_SIDE_COEFFICIENTS), &v->weights, error));
done:
    return status;
}

/* The sequence's Gram matrix, in double. */
static void gram_of(const values *v, size_t sequence, size_t n, size_t extent, double *gram) {
    const size_t square = extent * extent;
    for (size_t i = 0; i < square; i++)
        gram[i] = v->query ? (double)v->context[sequence * square + i] : 0;
    for (size_t t = 0; t < n && !v->query; t++) {
        const float *e = v->context + (sequence * (n + 1) + t) * extent;
        for (size_t i = 0; i < square; i++)
            gram[i] += (double)e[i / extent] * (double)e[i % extent];
    }
}

static bool fill_sequence(const values *v, size_t s, sample *out) {
    const size_t extent = out->d + 1;
    const double query =
        v->query ? (double)v->query[s * extent] : (double)v->context[(s * (out->n + 1) + out->n) * extent];
    const double target = (double)v->targets[s];
    double gram[MOST * MOST] = {0}, eigenvalues[MOST], vectors[MOST * MOST], work[3 * MOST];
    size_t k = 0;

    gram_of(v, s, out->n, extent, gram);
    for (size_t i = 0; i < extent; i++)
        for (size_t j = 0; j <= i; j++)
            out->statistics[k++ * SEQUENCES + s] = gram[i * extent + j] / (double)out->n;
    out->statistics[k++ * SEQUENCES + s] = query;
    out->statistics[k++ * SEQUENCES + s] = target;
    out->statistics[k++ * SEQUENCES + s] = query * target;
    out->statistics[k++ * SEQUENCES + s] = (double)v->noise[s];
    out->statistics[k * SEQUENCES + s] = (double)v->weights[s * out->d];
    if (!icl_symmetric_eigen(extent, gram, eigenvalues, vectors, work))
        return false;
    for (size_t i = 0; i < extent; i++)
        out->eigenvalues[i * SEQUENCES + s] = eigenvalues[i];
    return true;
}

/* Tokens are those for evaluation: another stream, which shares no number with training. */
static icl_status draw(const icl_task *task, icl_task_purpose purpose, sample *out, icl_error *error) {
    icl_backend *backend = NULL;
    icl_batch batch = {0};
    values v = {0};
    icl_status status;
    bool solved = true;

    *out = (sample){.d = icl_task_dimension(task), .n = icl_task_context(task)};
    out->count = (out->d + 1) * (out->d + 2) / 2 + 5;
    ICL_TRY(icl_allocate(out->count * SEQUENCES, sizeof(double), "statistics", &out->statistics, error));
    ICL_TRY(icl_allocate((out->d + 1) * SEQUENCES, sizeof(double), "eigenvalues", &out->eigenvalues, error));
    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "cpu"}, &backend, error));
    ICL_TRY(icl_batch_create(task, backend, purpose, SEQUENCES, &batch, error));
    ICL_TRY(icl_task_sample(task, backend, purpose, SEED, 0, &batch, error));
    ICL_TRY(read_batch(&batch, &v, error));
    for (size_t s = 0; s < SEQUENCES; s++)
        solved = fill_sequence(&v, s, out) && solved;
    if (!solved)
        ICL_TRY(icl_fail(error, ICL_ERROR_INPUT, "an eigenvalue problem was not solved"));
done:
    icl_free(&v.context);
    icl_free(&v.query);
    icl_free(&v.targets);
    icl_free(&v.noise);
    icl_free(&v.weights);
    icl_batch_release(&batch);
    icl_backend_close(&backend);
    return status;
}

/* ---- Comparing ---- */

/* Mean and squared standard error of the product of two statistics; b may be NULL. */
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

/* The difference of a moment in the two samples, in standard errors. */
static double difference(const sample *x, const sample *y, size_t i, const size_t *j) {
    double mean[2], square_error[2];
    moment(x->statistics + i * SEQUENCES, j ? x->statistics + *j * SEQUENCES : NULL, &mean[0], &square_error[0]);
    moment(y->statistics + i * SEQUENCES, j ? y->statistics + *j * SEQUENCES : NULL, &mean[1], &square_error[1]);
    if (mean[0] == mean[1])
        return 0;
    return fabs(mean[0] - mean[1]) / sqrt(square_error[0] + square_error[1] + 1e-300);
}

static void check_moments(tap_run *tap, const sample *x, const sample *y) {
    double first = 0, second = 0;
    for (size_t i = 0; i < x->count; i++) {
        first = fmax(first, difference(x, y, i, NULL));
        for (size_t j = 0; j <= i; j++)
            second = fmax(second, difference(x, y, i, &j));
    }
    tap_ok(tap, first < BOUND, "%zu means (%.2f standard errors)", x->count, first);
    tap_ok(tap, second < BOUND, "%zu second moments (%.2f standard errors)", x->count * (x->count + 1) / 2, second);
}

/* What is known without tokens: the mean of sum_i x_i x_i^T is n Sigma. */
static void check_mean(tap_run *tap, const icl_task *task, const sample *x) {
    const double *root = icl_task_get_prior(task)->covariance_root;
    double worst = 0;
    for (size_t i = 0, k = 0; i < x->d; i++)
        for (size_t j = 0; j <= i; j++, k++) {
            double expected = root ? 0 : i == j, mean, square_error;
            for (size_t l = 0; root && l < x->d; l++)
                expected += root[i * x->d + l] * root[j * x->d + l];
            moment(x->statistics + k * SEQUENCES, NULL, &mean, &square_error);
            worst = fmax(worst, fabs(mean - expected) / sqrt(square_error));
        }
    tap_ok(tap, worst < BOUND, "the inputs' part has mean n Sigma (%.2f standard errors)", worst);
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* sqrt(N / 2) times the largest distance of the two empirical distribution functions; sorts both. */
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

static void check_eigenvalues(tap_run *tap, bool noiseless, sample *x, sample *y) {
    const size_t extent = x->d + 1, full = noiseless ? x->d : extent, rank = x->n < full ? x->n : full;
    const size_t which[3] = {extent - rank, extent - 1 - (rank - 1) / 2, extent - 1};
    static const char *const names[3] = {"smallest", "median", "largest"};
    double null = 0;

    for (size_t i = 0; i < extent - rank; i++)
        for (size_t s = 0; s < SEQUENCES; s++)
            null = fmax(null, fabs(x->eigenvalues[i * SEQUENCES + s]) / x->eigenvalues[(extent - 1) * SEQUENCES + s]);
    tap_ok(tap, null < 1e-5, "%zu eigenvalues of %zu are 0 to rounding (%.1e)", extent - rank, extent, null);
    for (int i = 0; i < 3; i++) {
        const double distance =
            kolmogorov(x->eigenvalues + which[i] * SEQUENCES, y->eigenvalues + which[i] * SEQUENCES);
        tap_ok(tap, distance < KOLMOGOROV_BOUND, "the %s eigenvalue that is not (distance %.2f)", names[i], distance);
        if (rank == 1)
            return;
    }
}

static void check_task(tap_run *tap, const char *overrides) {
    icl_task *task = NULL;
    icl_error error = {0};
    sample gram = {0}, tokens = {0};

    if (tap_status(tap, make_task(overrides, &task, &error), &error, overrides) &&
        tap_status(tap, draw(task, ICL_FOR_TRAINING, &gram, &error), &error, "draw Gram matrices") &&
        tap_status(tap, draw(task, ICL_FOR_EVALUATION, &tokens, &error), &error, "draw tokens")) {
        check_mean(tap, task, &gram);
        check_moments(tap, &gram, &tokens);
        check_eigenvalues(tap, icl_task_get_prior(task)->noise_max == 0, &gram, &tokens);
    }
    sample_release(&gram);
    sample_release(&tokens);
    icl_task_destroy(&task);
}

int main(void) {
    tap_run tap = {0};

    check_task(&tap, "task.sampler=gram task.d=3 task.n=1 task.noise=uniform:5");
    check_task(&tap, "task.sampler=gram task.d=3 task.n=3 task.noise=fixed:0");
    check_task(&tap, "task.sampler=gram task.d=5 task.n=4 task.noise=choice:1,3,5");
    check_task(&tap, "task.sampler=gram task.d=5 task.n=6 task.noise=fixed:0.5");
    check_task(&tap, "task.sampler=gram task.d=10 task.n=20 task.noise=uniform:5");
    check_task(&tap, "task.sampler=gram task.d=4 task.n=50 task.noise=fixed:0.5 task.rotate=true "
                     "task.covariance=spectrum:1,1,0.25,0.0625 task.weights=inverse-covariance");
    check_task(&tap, "task.sampler=gram task.d=3 task.n=2 task.noise=choice:0,2 task.covariance=spectrum:4,1,0.25");
    return tap_done(&tap);
}
