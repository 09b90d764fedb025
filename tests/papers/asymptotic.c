/*
 * The limit of one layer of linear attention against the published formula and runs of its authors; least squares,
 * exact errors and what is drawn against their definitions.
 */
#include "papers/asymptotic/asymptotic.h"

#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "eliminate.h"
#include "numeric/statistics.h"
#include "tap.h"

enum { D = 4, WIDTH = D + 1, FEATURES = D * WIDTH, L = 12, K = 3, SEED = 5, MOST = 60 };

/* ---- The limit ---- */

/* Lu et al., Result 1, as the authors' programs have it. */
static double published_m(double x, double kappa) {
    const double b = x + 1 - 1 / kappa;
    return 2 / (b + sqrt(b * b + 4 * x / kappa));
}

static double published(double tau, double alpha, double kappa, double rho) {
    const double x = (1 + rho) / alpha, m = published_m(x, kappa), mu = x * published_m(x, kappa / tau);
    const double k = 1 / (1 - kappa * pow(m / (kappa + m), 2));

    if (tau < 1)
        return tau * (1 + x) / (1 - tau) * (1 - tau * pow(1 - mu, 2) - (x - rho) / x * mu) - 2 * tau * (1 - mu) + rho +
               1;
    return (k - 1 / (tau - 1)) * (1 + x) * pow(x * m, 2) + (3 - 2 * tau) / (tau - 1) * m * x * x +
           ((1 + rho) / (tau - 1) * m + 1) * x + rho * m / (tau - 1) + rho;
}

static icl_layer_errors limit(double tau, double alpha, double kappa, double rho) {
    return icl_limit_errors(&(icl_limit_point){tau, alpha, kappa, rho});
}

/* Rounding: the published form cancels by up to 1 / (x m)^2 and 1 / |1 - tau|, each below 1e4 here. */
static void check_published(tap_run *tap) {
    static const double taus[] = {.05, .5, .95, 1.05, 2, 30}, alphas[] = {.2, 1, 10, 100};
    static const double kappas[] = {.1, .5, 1, 1.5, 20}, rhos[] = {.01, .25, 1};
    double worst = 0;

    for (size_t i = 0; i < 6 * 4 * 5 * 3; i++) {
        const double tau = taus[i % 6], alpha = alphas[i / 6 % 4], kappa = kappas[i / 24 % 5], rho = rhos[i / 120];
        const double theirs = published(tau, alpha, kappa, rho);
        worst = fmax(worst, fabs(limit(tau, alpha, kappa, rho).icl / theirs - 1));
    }
    tap_ok(tap, worst < 1e-9, "Result 1 at 360 points, to %.1e", worst);
}

/* alpha = 10 and 100, rho = .01, kappa = .5: the formula to three decimals, and the authors' means over 10 runs at
 * d = 100 (pnasA10 and pnasA100 in Fig1_Linear_Double_Descent/outputs). */
static void check_table(tap_run *tap) {
    static const double taus[] = {.2, .5, .85, 1.15, 1.5, 2};
    static const double formula[2][6] = {{.864, .821, 2.228, 2.775, 1.224, .891},
                                         {.820, .702, 4.087, 5.565, 2.030, 1.273}};
    static const double runs[2][6] = {{.86685, .83212, 2.20048, 3.10658, 1.29963, .94378},
                                      {.81944, .70666, 3.95978, 6.40426, 2.19765, 1.35070}};
    static const double idg[2][6] = {{.55308, .25244, .41897, .46766, .17349, .11484},
                                     {.49987, .12241, .11622, .12679, .04665, .03058}};

    for (size_t i = 0; i < 12; i++) {
        const icl_layer_errors ours = limit(taus[i % 6], i < 6 ? 10 : 100, .5, .01);
        tap_ok(tap, fabs(ours.icl - formula[i / 6][i % 6]) < 5.1e-4, "alpha %d, tau %g: %.4f", i < 6 ? 10 : 100,
               taus[i % 6], ours.icl);
        tap_ok(tap, fabs(runs[i / 6][i % 6] / ours.icl - 1) < .16, "the authors' %.4f, d = 100", runs[i / 6][i % 6]);
        tap_ok(tap, fabs(idg[i / 6][i % 6] / ours.idg - 1) < .16, "on the training's tasks: %.4f, theirs %.4f",
               ours.idg, idg[i / 6][i % 6]);
    }
    tap_ok(tap,
           fabs(limit(1e12, 10, .2, .01).icl - .829) < 5.1e-4 && fabs(limit(1e12, 10, .5, .01).icl - .559) < 5.1e-4 &&
               fabs(limit(1e12, 10, .8, .01).icl - .326) < 5.1e-4,
           "endless sequences of few tasks");
}

/* Checks limits that follow from the definition: no sequences predict 0; endless contexts of all tasks are learned
 * to the noise, of kappa < 1 up to the missing share 1 - kappa; endless tasks give the best step of descent, 1 / (1
 * + x); both sides of tau = 1 rise alike. */
static void check_limits(tap_run *tap) {
    const double rho = .3, x = (1 + rho) / 4;
    const double below = limit(1 - 1e-7, 4, .7, rho).icl, above = limit(1 + 1e-7, 4, .7, rho).icl;

    tap_ok(tap, fabs(limit(1e-6, 4, .7, rho).icl - 1.3) < 1e-5 && fabs(limit(1e-6, 4, .7, rho).idg - 1.3) < 1e-5,
           "no sequences");
    tap_ok(tap, fabs(limit(1e12, 1e9, 2, rho).icl - rho) < 1e-7, "all tasks");
    tap_ok(tap,
           fabs(limit(1e18, 1e9, .6, rho).icl - .4 - rho) < 1e-7 && fabs(limit(1e18, 1e9, .6, rho).idg - rho) < 1e-7,
           "three fifths of them");
    tap_ok(tap, fabs(limit(1e12, 4, 1e9, rho).icl - rho - x / (1 + x)) < 1e-7, "the best step");
    tap_ok(tap, fabs(below / above - 1) < 1e-5 && below > 1e5, "either side of tau = 1: %.5g, %.5g", below, above);
    tap_ok(tap, isinf(limit(1, 4, .7, rho).icl), "at tau = 1");
}

/* ---- Drawn sequences ---- */

static icl_pretraining draw(tap_run *tap, size_t n, uint64_t number, float *tokens) {
    const icl_pretraining_size size = {.d = D, .context = L, .tasks = K, .sequences = n, .noise = .3};
    icl_pretraining drawn;
    icl_error error = {0};

    if (icl_pretraining_draw(&size, SEED, number, tokens, &drawn, &error) != ICL_OK)
        tap_ok(tap, false, "%s", error.message);
    return drawn;
}

static double feature(const icl_pretraining *drawn, size_t i, size_t f) {
    return drawn->queries[i * D + f / WIDTH] * drawn->values[i * WIDTH + f % WIDTH];
}

/* Checks against elimination: beyond the features the normal equations; up to them, that all labels are met by a
 * combination of the sequences' features. */
static void check_ridgeless(tap_run *tap, size_t n) {
    icl_pretraining drawn = draw(tap, n, 0, NULL);
    double gamma[FEATURES], matrix[MOST * MOST], right[MOST], expected[FEATURES] = {0}, worst = 0;
    const size_t unknowns = n <= FEATURES ? n : FEATURES;
    icl_error error = {0};

    memset(matrix, 0, sizeof matrix);
    memset(right, 0, sizeof right);
    for (size_t i = 0; i < n; i++)
        for (size_t f = 0; f < FEATURES; f++)
            for (size_t other = 0; other < unknowns; other++)
                if (n <= FEATURES)
                    matrix[i * MOST + other] += feature(&drawn, i, f) * feature(&drawn, other, f);
                else
                    matrix[f * MOST + other] += feature(&drawn, i, f) * feature(&drawn, i, other);
    for (size_t i = 0; i < n; i++)
        for (size_t f = 0; f < (n <= FEATURES ? 1 : FEATURES); f++)
            right[n <= FEATURES ? i : f] += drawn.labels[i] * (n <= FEATURES ? 1 : feature(&drawn, i, f));
    eliminate(unknowns, MOST, matrix, right);
    for (size_t f = 0; f < FEATURES; f++)
        for (size_t i = 0; i < (n <= FEATURES ? n : 1); i++)
            expected[f] += n <= FEATURES ? right[i] * feature(&drawn, i, f) : right[f];
    tap_status(tap, icl_ridgeless(&drawn, gamma, &error), &error, "ridgeless");
    for (size_t f = 0; f < FEATURES; f++)
        worst = fmax(worst, fabs(gamma[f] - expected[f]));
    tap_ok(tap, worst < 1e-9, "%zu sequences, to %.1e", n, worst);
    icl_free(&drawn.memory);
}

/* One query of nine that is 0, and queries whose first coordinate always is: a pivot is exactly 0. */
static void check_dependent(tap_run *tap) {
    icl_pretraining few = draw(tap, 9, 0, NULL), many = draw(tap, 50, 0, NULL);
    double gamma[FEATURES];
    icl_error error = {0};

    memset(few.queries, 0, sizeof(double[D]));
    for (size_t i = 0; i < 50; i++)
        many.queries[i * D] = 0;
    tap_ok(tap,
           icl_ridgeless(&few, gamma, &error) == ICL_ERROR_INPUT &&
               strstr(error.message, "9 sequences for 20 features are linearly dependent"),
           "%s", error.message);
    tap_ok(tap,
           icl_ridgeless(&many, gamma, &error) == ICL_ERROR_INPUT &&
               strstr(error.message, "50 sequences for 20 features are linearly dependent"),
           "%s", error.message);
    icl_free(&few.memory);
    icl_free(&many.memory);
}

/* The features of tokens are those of the definition. */
static void check_tokens(tap_run *tap) {
    enum { N = 7 };
    float tokens[N * (L + 1) * WIDTH];
    icl_pretraining drawn = draw(tap, N, 3, tokens), without = draw(tap, N, 3, NULL);
    double worst = 0;

    for (size_t i = 0; i < N; i++) {
        double v[WIDTH] = {0};
        for (size_t t = 0; t <= L; t++) {
            const float *token = tokens + (i * (L + 1) + t) * WIDTH;
            for (size_t j = 0; j <= D; j++)
                v[j] += (double)token[D] * (double)token[j] / L * (j < D ? sqrt(D) : 1);
            for (size_t j = 0; t == L && j < D; j++)
                worst = fmax(worst, fabs((double)token[j] - sqrt(D) * drawn.queries[i * D + j]));
        }
        for (size_t j = 0; j <= D; j++)
            worst = fmax(worst, fabs(v[j] - drawn.values[i * WIDTH + j]));
        worst = fmax(worst, fabs((double)tokens[(i * (L + 1) + L) * WIDTH + D]));
    }
    tap_ok(tap, worst < 1e-6, "features of tokens, to %.1e", worst);
    tap_ok(tap, memcmp(drawn.tasks, without.tasks, sizeof(double[K * D])) == 0, "the same tasks without tokens");
    icl_free(&drawn.memory);
    icl_free(&without.memory);
}

/* ---- Moments ---- */

/* Returns an entry of a Gamma that no training finds, with a large column for the labels' squares. */
static double unlike_gamma(size_t f) {
    return cos(1 + 3. * (double)f) * (f % WIDTH == D ? 1.5 : f % (WIDTH + 1) == 0 ? 1 : .4);
}

/* The mean squared error of a Gamma on drawn sequences is the exact one of their tasks, with tokens and without,
 * within four standard errors. */
static void check_errors(tap_run *tap, bool has_tokens) {
    enum { N = 100000 };
    float *tokens = has_tokens ? malloc(sizeof(float[(L + 1) * WIDTH]) * N) : NULL;
    icl_pretraining drawn = draw(tap, N, 1, tokens);
    double gamma[FEATURES], sum = 0, square = 0;

    for (size_t f = 0; f < FEATURES; f++)
        gamma[f] = unlike_gamma(f);
    for (size_t i = 0; i < N; i++) {
        double miss = drawn.labels[i];
        for (size_t f = 0; f < FEATURES; f++)
            miss -= gamma[f] * feature(&drawn, i, f);
        sum += miss * miss / N;
        square += pow(miss, 4) / N;
    }
    const double error = sqrt((square - sum * sum) / N), exact = icl_gamma_errors(&drawn, gamma).idg;
    tap_ok(tap, fabs(sum - exact) < 4 * error && error < .02 * exact, "%s: %.4f +- %.4f, exact %.4f",
           has_tokens ? "tokens" : "moments", sum, error, exact);
    icl_free(&drawn.memory);
    free(tokens);
}

/* The error on fresh tasks is that on very many tasks, within four standard errors of sets of them. */
static void check_fresh(tap_run *tap) {
    enum { SETS = 32 };
    const icl_pretraining_size size = {.d = D, .context = L, .tasks = 2000, .sequences = 1, .noise = .3};
    double gamma[FEATURES], errors[SETS], fresh = 0;
    icl_error error = {0};

    for (size_t f = 0; f < FEATURES; f++)
        gamma[f] = unlike_gamma(f);
    for (size_t i = 0; i < SETS; i++) {
        icl_pretraining drawn;
        if (icl_pretraining_draw(&size, SEED, i, NULL, &drawn, &error) != ICL_OK)
            tap_ok(tap, false, "%s", error.message);
        fresh = icl_gamma_errors(&drawn, gamma).icl;
        errors[i] = icl_gamma_errors(&drawn, gamma).idg;
        icl_free(&drawn.memory);
    }
    const double mean = icl_mean(errors, SETS), deviation = icl_standard_error(errors, SETS);
    tap_ok(tap, fabs(mean - fresh) < 4 * deviation && deviation < .01 * fresh,
           "fresh tasks: %.4f, many tasks %.4f +- %.4f", fresh, mean, deviation);
}

/* ---- The trained layer ---- */

/* Gradient descent on the tokens ends at the solution of least squares, either side of the peak. */
static void check_trained(tap_run *tap, size_t n) {
    icl_backend *backend = NULL;
    float tokens[MOST * (L + 1) * WIDTH];
    icl_pretraining drawn = draw(tap, n, 4, tokens);
    double gamma[FEATURES], trained[FEATURES], worst = 0, largest = 0;
    icl_error error = {0};

    tap_status(tap, icl_backend_open(&(icl_backend_params){.spec = "cpu"}, &backend, &error), &error, "backend");
    tap_status(tap, icl_ridgeless(&drawn, gamma, &error), &error, "ridgeless");
    tap_status(tap, icl_train_on_sequences(backend, &drawn, tokens, 4000, trained, &error), &error, "trained");
    for (size_t f = 0; f < FEATURES; f++) {
        worst = fmax(worst, fabs(gamma[f] - trained[f]));
        largest = fmax(largest, fabs(gamma[f]));
    }
    tap_ok(tap, worst < 1e-3 * largest, "%zu sequences, trained: to %.1e of %.3f", n, worst, largest);
    icl_free(&drawn.memory);
    icl_backend_close(&backend);
}

int main(void) {
    tap_run tap = {0};

    check_published(&tap);
    check_table(&tap);
    check_limits(&tap);
    check_ridgeless(&tap, 9);
    check_ridgeless(&tap, FEATURES);
    check_ridgeless(&tap, 50);
    check_ridgeless(&tap, 300); /* more than are held at a time */
    check_dependent(&tap);
    check_tokens(&tap);
    check_errors(&tap, false);
    check_errors(&tap, true);
    check_fresh(&tap);
    check_trained(&tap, 9);
    check_trained(&tap, 50);
    return tap_done(&tap);
}
