/*
 * The reference predictors against independently computed values for d = 10, n = 20 (a double-precision simulation with
 * 200,000 sequences of its own), and against closed forms.
 *
 * Ours: the mean of 1/2 sum_k (f_k - f'_k)^2 a_k^2, half the squared distance to the oracle's prediction with its
 * expectation over the query taken exactly. Theirs: half MSE minus half the oracle's, with the expectation over the query taken
 * exactly: the mean of 1/2 (||w_hat - w||^2 - ||w_oracle - w||^2), of the same expectation but a larger deviation, which is
 * measured here as well. A value agrees when it is within 3 standard errors, ours and theirs together, of theirs.
 *
 * argument: the number of sequences.
 */
#include "baseline/estimator.h"
#include "baseline/parallel.h"
#include "sequences.h"

enum { BATCH = 4096, COLUMNS = 10, THEIR_SEQUENCES = 200000, FIT_SEQUENCES = 20000, D = 10, N = 20 };

static const char *const predictor_names = "oracle,ols,constrr,adarr,tunedrr,gd:1";

enum { ORACLE = 0, OLS, CONSTRR, ADARR, TUNEDRR, GD, PREDICTORS };

typedef struct column {
    const char *noise;
    double values[PREDICTORS]; /* full MSE of the oracle; half adjusted loss of the others */
} column;

static const column columns[COLUMNS] = {
    {"fixed:0", {0, 0, 0, 0, 0, 1.7734}},
    {"uniform:1", {.3231, .0231, .0087, .0027, .0020, 1.644}},
    {"uniform:2", {1.0173, .2364, .0634, .0163, .0109, 1.3963}},
    {"uniform:3", {1.7681, .7815, .1565, .0346, .0242, 1.177}},
    {"uniform:4", {2.4837, 1.720, .2594, .0528, .0375, 1.0045}},
    {"uniform:5", {3.126, 3.04, .3601, .0684, .0490, .8972}},
    {"uniform:6", {3.691, 4.86, .4522, .0832, .0591, .8302}},
    {"uniform:7", {4.170, 6.98, .5327, .0952, .0689, .8011}},
    {"choice:1,3", {2.4417, 1.55, .2200, .0502, .0214, .9994}},
    {"choice:1,3,5", {3.6839, 4.65, .4273, .0832, .0555, .8179}},
};

/* Half a unit of the last digit that is given, as the standard deviation of a uniform rounding error. */
static double rounding_error(double value) {
    double unit = 1e-4;
    while (unit < 0.1 && fabs(value / (10 * unit) - round(value / (10 * unit))) < 1e-6)
        unit *= 10;
    return unit / sqrt(12);
}

/* Of one sequence. */
typedef struct outcome {
    double distance
        [PREDICTORS]; /* ours; the oracle's: its expected squared error given the context, sum sigma^2 / (lambda + sigma^2) */
    double difference[PREDICTORS]; /* theirs */
    double full[PREDICTORS];       /* ||w_hat - w||^2 */
} outcome;

typedef struct measurement {
    const icl_predictors *predictors;
    const sequences *all;
    icl_spectrum *spectra; /* one per thread */
    outcome *outcomes;
} measurement;

/* V^T w */
static void rotate_weights(const icl_spectrum *spectrum, const float *weights, double *rotated) {
    for (size_t k = 0; k < D; k++) {
        rotated[k] = 0;
        for (size_t j = 0; j < D; j++)
            rotated[k] += spectrum->eigenvectors[k * D + j] * (double)weights[j];
    }
}

static void measure_sequence(void *context, size_t index, size_t thread) {
    const measurement *run = context;
    icl_spectrum *spectrum = &run->spectra[thread];
    const double sigma = (double)run->all->noise[index];
    outcome *out = &run->outcomes[index];
    double filters[PREDICTORS][D], weights[D];

    icl_spectrum_compute(spectrum, run->all->tokens + index * (N + 1) * (D + 1));
    rotate_weights(spectrum, run->all->weights + index * D, weights);
    memset(out, 0, sizeof *out);
    for (size_t p = 0; p < PREDICTORS; p++) {
        icl_predictors_filter(run->predictors, p, spectrum, sigma, filters[p]);
        for (size_t k = 0; k < D; k++) {
            const double a = spectrum->products[k], apart = (filters[p][k] - filters[ORACLE][k]) * a;
            const double off = filters[p][k] * a - weights[k],
                         oracle_off = filters[ORACLE][k] * a - weights[k];
            out->distance[p] += 0.5 * apart * apart;
            out->difference[p] += 0.5 * (off * off - oracle_off * oracle_off);
            out->full[p] += off * off;
        }
    }
    for (size_t k = 0; k < D; k++)
        out->distance[ORACLE] += sigma * sigma / (spectrum->eigenvalues[k] + sigma * sigma);
}

/* Means over the sequences of what an outcome holds. */
typedef struct means {
    sample_mean distance[PREDICTORS], difference[PREDICTORS], full[PREDICTORS];
} means;

static icl_status measure(const icl_task *task, const icl_predictors *predictors, size_t count, means *means,
                          icl_error *error) {
    const size_t threads = icl_parallel_threads();
    measurement run = {.predictors = predictors};
    icl_status status;

    ICL_TRY(icl_allocate(threads, sizeof *run.spectra, "spectra", &run.spectra, error));
    ICL_TRY(icl_allocate(BATCH, sizeof *run.outcomes, "outcomes", &run.outcomes, error));
    for (size_t i = 0; i < threads; i++)
        ICL_TRY(icl_spectrum_create(D, N, NULL, &run.spectra[i], error));
    for (size_t done = 0; done < count; done += BATCH) {
        sequences all = {0};
        status = sequences_draw(task, BATCH, 11, done / BATCH, &all, error);
        run.all = &all;
        if (status == ICL_OK)
            icl_parallel_for(BATCH, threads, measure_sequence, &run);
        sequences_release(&all);
        ICL_TRY(status);
        for (size_t s = 0; s < BATCH && done + s < count; s++)
            for (size_t p = 0; p < PREDICTORS; p++) {
                sample_mean_add(&means->distance[p], run.outcomes[s].distance[p]);
                sample_mean_add(&means->difference[p], run.outcomes[s].difference[p]);
                sample_mean_add(&means->full[p], run.outcomes[s].full[p]);
            }
    }
done:
    for (size_t i = 0; run.spectra && i < threads; i++)
        icl_spectrum_destroy(&run.spectra[i]);
    icl_free(&run.spectra);
    icl_free(&run.outcomes);
    return status;
}

/* ---- Checks ---- */

static void check_value(tap_run *tap, const char *noise, const char *name, const sample_mean *ours,
                        double their_deviation, double theirs) {
    const double mean = sample_mean_value(ours), our_error = sample_mean_error(ours);
    const double their_error = their_deviation / sqrt(THEIR_SEQUENCES), rounding = rounding_error(theirs);
    const double error = sqrt(our_error * our_error + their_error * their_error + rounding * rounding);

    tap_ok(tap, fabs(mean - theirs) <= 3 * error,
           "%s %s: %.5f, expected %.4f (%+.2f standard errors; ours %.5f, theirs %.5f)", noise, name, mean,
           theirs, (mean - theirs) / error, our_error, their_error);
}

static void check_closed_form(tap_run *tap, const char *noise, const char *name, const sample_mean *ours,
                              double expected) {
    const double mean = sample_mean_value(ours), error = sample_mean_error(ours);
    tap_ok(tap, fabs(mean - expected) <= 3 * error,
           "%s %s: full error %.4f, in closed form %.4f (%+.2f standard errors)", noise, name, mean, expected,
           (mean - expected) / error);
}

/* Without noise every ridge is exact: nothing is left but the rounding of the labels. */
static void check_noise_free(tap_run *tap, const sample_mean distance[PREDICTORS]) {
    for (size_t p = OLS; p <= TUNEDRR; p++)
        tap_ok(tap, sample_mean_value(&distance[p]) < 1e-10, "fixed:0, predictor %zu is the oracle (%.1e)", p,
               sample_mean_value(&distance[p]));
    tap_ok(tap, sample_mean_value(&distance[ORACLE]) == 0, "fixed:0, the oracle has no error");
}

static void check_rows(tap_run *tap, const column *column, double s, const means *means) {
    const sample_mean *distance = means->distance, *difference = means->difference;
    static const char *const names[] = {"oracle", "ols", "constrr", "adarr", "tunedrr", "gd:1"};

    if (s == 0) {
        check_noise_free(tap, distance);
    } else {
        for (size_t p = ORACLE; p < GD; p++)
            check_value(tap, column->noise, names[p], &distance[p],
                        sample_mean_deviation(p == ORACLE ? &distance[p] : &difference[p]),
                        column->values[p]);
        /* E[sigma^2] E[tr (X^T X)^-1], of an inverse Wishart matrix. */
        check_closed_form(tap, column->noise, "ols", &means->full[OLS], s * D / (N - D - 1));
    }
    check_value(tap, column->noise, "gd:1", &distance[GD], sample_mean_deviation(&difference[GD]),
                column->values[GD]);
    /* The best step is 1 / (n + d + 1 + s). */
    check_closed_form(tap, column->noise, "gd:1", &means->full[GD], D * (D + 1 + s) / (N + D + 1 + s));
}

static void check_column(tap_run *tap, const column *column, size_t count) {
    means means = {0};
    icl_predictors *predictors = NULL;
    icl_task *task = NULL;
    icl_error error = {0};
    char overrides[128];

    snprintf(overrides, sizeof overrides, "task.d=%d task.n=%d task.noise=%s", D, N, column->noise);
    if (tap_status(tap, make_task(overrides, &task, &error), &error, column->noise) &&
        tap_status(tap, icl_predictors_create(task, predictor_names, FIT_SEQUENCES, 1, &predictors, &error),
                   &error, "fit the predictors") &&
        tap_status(tap, measure(task, predictors, count, &means, &error), &error, "measure")) {
        tap_note("tunedrr: %s; gd:1: %s", icl_predictors_constants(predictors, TUNEDRR),
                 icl_predictors_constants(predictors, GD));
        check_rows(tap, column, icl_task_get_prior(task)->mean_square_noise, &means);
    }
    icl_predictors_destroy(&predictors);
    icl_task_destroy(&task);
}

int main(int count, char **arguments) {
    const long sequences_wanted = count > 1 ? atol(arguments[1]) : 40000;
    tap_run tap = {0};

    for (size_t i = 0; i < COLUMNS; i++)
        check_column(&tap, &columns[i], (size_t)sequences_wanted);
    return tap_done(&tap);
}
