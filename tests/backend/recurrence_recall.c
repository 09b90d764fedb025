/* What the rules remember without training: n random keys of length 1 in dimension d are written once, each with its
 * own one-hot value, and read again. Half the squared error per key, as a function of r = n / d, has closed forms. Also
 * states beyond the rules' domain, inputs that are NaN or infinite, and sequences of 65,536 tokens. argv: device. */
#include <float.h>
#include <math.h>

#include "conformance/case.h"
#include "core/allocate.h"
#include "recurrence_problem.h"

#define DRAWS 64 /* sets of keys, one for each head */

/* ---- One-pass recall ---- */

/* Writes one-hot values without reading: a second call, whose tokens have strength 0, reads by q. */
static icl_status recall(icl_backend *backend, problem *writes, answer *reads, icl_error *error) {
    const size_t n = writes->tokens, m = writes->m, rows = writes->heads * n;
    problem p = {{true, 1}, 1, writes->heads, n, m, n, 1, {NULL}};
    answer written = {0};
    icl_status status = ICL_OK;

    ICL_TRY(problem_add(writes, ICL_RECURRENCE_Q, error));
    ICL_TRY(problem_add(writes, ICL_RECURRENCE_V, error));
    for (size_t row = 0; row < rows; row++)
        writes->values[ICL_RECURRENCE_V][row * n + row % n] = 1;
    ICL_TRY(problem_solve(backend, writes, &written, error));
    for (int input = 0; input <= ICL_RECURRENCE_BETA; input++)
        ICL_TRY(problem_add(&p, input, error));
    ICL_TRY(problem_add(&p, ICL_RECURRENCE_STATE, error));
    const int keys = writes->values[ICL_RECURRENCE_READ_KEY] ? ICL_RECURRENCE_READ_KEY : ICL_RECURRENCE_K;
    memcpy(p.values[ICL_RECURRENCE_Q], writes->values[keys], rows * m * sizeof(double));
    memcpy(p.values[ICL_RECURRENCE_K], writes->values[keys], rows * m * sizeof(double));
    memcpy(p.values[ICL_RECURRENCE_STATE], written.final, problem_finals(&p) * sizeof(double));
    ICL_TRY(problem_solve(backend, &p, reads, error));
done:
    problem_clear(&p);
    answer_clear(&written);
    return status;
}

/* Returns the mean over draws of half the squared error per key, and its standard error. */
static double mean_error(const answer *reads, size_t n, double *standard_error) {
    double sum = 0, squares = 0;
    for (size_t draw = 0; draw < DRAWS; draw++) {
        double error = 0;
        for (size_t i = 0; i < n * n; i++) {
            const double miss = reads->out[draw * n * n + i] - (i / n == i % n);
            error += miss * miss / 2 / (double)n;
        }
        sum += error;
        squares += error * error;
    }
    const double mean = sum / DRAWS;
    *standard_error = sqrt(fmax(0, squares / DRAWS - mean * mean) / (DRAWS - 1));
    return mean;
}

/*
 * The delta rule with beta = 1. To read k_a, x = k_a passes through the projections A_t = I - k_t k_t^T from the last
 * to the first; c_t = k_t.x before A_t is the weight with which value t is read. Each takes c_t^2 from |x|^2, so twice
 * the error is (1 - c_a)^2 + sum_(t != a) c_t^2 = 2 - 2 c_a - |x_end|^2. With rho = 1 - 1 / d and N = n - a later keys,
 * E A = rho I gives E c_a = rho^N, E |x|^2 = rho^N, and for a fixed k
 *     E (k.A x)^2 = (k.x)^2 (1 - 2 / d + 2 / (d (d + 2))) + |x|^2 / (d (d + 2)),
 * so C_N = E c_a^2 by recursion from C_0 = 1. At a, x loses c_a^2, then rho for each of the a - 1 earlier keys. For
 * d -> infinity at n = r d the mean over a is 1 - (1 - e^-r) / r - e^-r (r - 1 + e^-r) / (2 r).
 */
static double expected_delta(size_t n, double d) {
    const double rho = 1 - 1 / d, both = 1 / (d * (d + 2));
    double square = 1, sum = 0;
    for (size_t later = 0; later < n; later++) {
        const double power = pow(rho, (double)later), earlier = pow(rho, (double)(n - 1 - later));
        sum += (2 - 2 * power - earlier * (power - square)) / 2;
        square = square * (1 - 2 / d + 2 * both) + power * both;
    }
    return sum / (double)n;
}

static double limit_of_delta(double r) {
    return 1 - (1 - exp(-r)) / r - exp(-r) * (r - 1 + exp(-r)) / (2 * r);
}

static icl_status check_rule(tap_run *tap, icl_backend *backend, bool delta, size_t d, size_t n, icl_error *error) {
    problem p = {{delta, 1}, 1, DRAWS, n, d, n, 1, {NULL}};
    const double expected = delta ? expected_delta(n, (double)d) : ((double)n - 1) / (2 * (double)d);
    answer reads = {0};
    double standard_error;
    icl_status status = ICL_OK;

    ICL_TRY(problem_add(&p, ICL_RECURRENCE_K, error));
    for (size_t i = 0; i < problem_count(&p, ICL_RECURRENCE_K); i++)
        p.values[ICL_RECURRENCE_K][i] = problem_normal(3, (uint32_t)d, i);
    problem_unit_rows(p.values[ICL_RECURRENCE_K], DRAWS * n, d);
    ICL_TRY(recall(backend, &p, &reads, error));
    const double mean = mean_error(&reads, n, &standard_error);
    tap_ok(tap, fabs(mean - expected) <= 3 * standard_error,
           "%s rule, %zu keys in dimension %zu: error %.4f +- %.4f, expected %.4f", delta ? "delta" : "sum", n, d, mean,
           standard_error, expected);
done:
    problem_clear(&p);
    answer_clear(&reads);
    return status;
}

/* Finds the gains g = P k / (1 + k.P k) of recursive least squares, in double, with a prior of 1 / ridge;
 * P -= g (P k)^T. */
static void find_gains(const double *k, size_t n, size_t d, double ridge, double *p, double *gains) {
    for (size_t i = 0; i < d * d; i++)
        p[i] = i / d == i % d ? 1 / ridge : 0;
    for (size_t t = 0; t < n; t++) {
        double *g = gains + t * d, product = 1;
        for (size_t i = 0; i < d; i++) {
            g[i] = 0;
            for (size_t j = 0; j < d; j++)
                g[i] += p[i * d + j] * k[t * d + j];
            product += g[i] * k[t * d + i];
        }
        for (size_t i = 0; i < d * d; i++)
            p[i] -= g[i / d] * g[i % d] / product;
        for (size_t i = 0; i < d; i++)
            g[i] = (double)(float)(g[i] / product);
    }
}

/* If values are written and taken away along the gain, and read by k, the rule is recursive least squares, S <- S + g
 * (v - S^T k)^T: the remaining error is what n keys in d dimensions cannot hold, (n - rank) / 2 over n. Gains are
 * rounded to floats, as is the arithmetic on all devices but "ref": an error of 2^-24 a step, magnified by at most
 * (s_max / s_min)^2 of the keys (below 100 for these r, by Marchenko and Pastur's law ((1 + sqrt r) / (1 - sqrt r))^2 =
 * 34), and linear in the remaining error. */
static icl_status check_least_squares(tap_run *tap, icl_backend *backend, size_t d, size_t n, icl_error *error) {
    problem p = {{true, 1}, 1, DRAWS, n, d, n, 1, {NULL}};
    const double expected = n > d ? (double)(n - d) / (2 * (double)n) : 0;
    const double allowed = 100 * (double)n * 0x1p-24;
    answer reads = {0};
    double standard_error, *work = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(d * d, sizeof *work, "gains", &work, error));
    ICL_TRY(problem_add(&p, ICL_RECURRENCE_READ_KEY, error));
    ICL_TRY(problem_add(&p, ICL_RECURRENCE_K, error));
    for (size_t i = 0; i < problem_count(&p, ICL_RECURRENCE_K); i++)
        p.values[ICL_RECURRENCE_READ_KEY][i] = problem_normal(3, (uint32_t)d, i);
    problem_unit_rows(p.values[ICL_RECURRENCE_READ_KEY], DRAWS * n, d);
    for (size_t draw = 0; draw < DRAWS; draw++)
        find_gains(p.values[ICL_RECURRENCE_READ_KEY] + draw * n * d, n, d, 1e-7, work,
                   p.values[ICL_RECURRENCE_K] + draw * n * d);
    ICL_TRY(recall(backend, &p, &reads, error));
    const double mean = mean_error(&reads, n, &standard_error);
    tap_ok(tap, fabs(mean - expected) <= allowed,
           "keys apart, recursive least squares, %zu keys in dimension %zu: error %.6f, expected %.6f to %.1g", n, d,
           mean, expected, allowed);
done:
    icl_free(&work);
    problem_clear(&p);
    answer_clear(&reads);
    return status;
}

static void check_recall(tap_run *tap, icl_backend *backend) {
    static const size_t dimensions[] = {16, 64};
    icl_error error = {0};

    for (int i = 0; i < 2; i++)
        for (size_t halves = 1; halves <= 4; halves *= 2) {
            const size_t d = dimensions[i], n = d * halves / 2;
            for (int delta = 0; delta < 2; delta++)
                if (check_rule(tap, backend, delta, d, n, &error) != ICL_OK)
                    tap_ok(tap, false, "recall: %s", error.message);
            if (n != d && check_least_squares(tap, backend, d, n, &error) != ICL_OK)
                tap_ok(tap, false, "least squares: %s", error.message);
        }
    /* The limit of many dimensions is off by O(1 / d). */
    for (size_t n = 32; n <= 128; n *= 2) {
        const double exact = expected_delta(n, 64), limit = limit_of_delta((double)n / 64);
        tap_ok(tap, fabs(exact - limit) < 0.5 / 64, "in 64 dimensions the delta rule is near its limit: %.4f, %.4f",
               exact, limit);
    }
}

/* ---- Beyond the domain ---- */

/* All tokens have one key of length 1 and strength 3: S grows by the factor 1 - 3 = -2 a token, exactly, until it
 * overflows. */
static icl_status check_growth(tap_run *tap, icl_backend *backend, icl_error *error) {
    const size_t tokens = 140, last = 127, m = 3;
    problem p = {{true, 1}, 1, 1, tokens, m, 1, 1, {NULL}};
    answer got = {0};
    size_t exact = 0, infinite = 0;
    icl_status status = ICL_OK;

    for (int input = 0; input <= ICL_RECURRENCE_BETA; input++)
        ICL_TRY(problem_add(&p, input, error));
    ICL_TRY(problem_add(&p, ICL_RECURRENCE_STATE, error));
    for (size_t t = 0; t < tokens; t++) {
        p.values[ICL_RECURRENCE_Q][t * m + 1] = p.values[ICL_RECURRENCE_K][t * m + 1] = 1;
        p.values[ICL_RECURRENCE_BETA][t] = 3;
    }
    p.values[ICL_RECURRENCE_STATE][1] = 1;
    ICL_TRY(problem_solve(backend, &p, &got, error));
    for (size_t t = 0; t < tokens; t++) {
        const double power = ldexp(t % 2 ? 1 : -1, (int)t + 1);
        exact += got.out[t] == power;
        infinite += t >= last && !isfinite(got.out[t]);
    }
    if (is_double(backend))
        tap_ok(tap, exact == tokens, "beta |k|^2 = 3 grows by -2 a token");
    else
        /* 3 (-2)^126 already exceeds the largest float, so that the step to 2^127 may overflow on the way. */
        tap_ok(tap, exact >= last - 1 && exact + infinite == tokens,
               "beta |k|^2 = 3 grows by -2 a token, and is no number from where it overflows: %zu, %zu", exact,
               infinite);
done:
    problem_clear(&p);
    answer_clear(&got);
    return status;
}

/* A NaN or an infinity in one head leaves every bit of the other heads as it was. Earlier tokens of the same head keep
 * their values; their bits may change, because an infinite decay changes which tokens are taken together. */
static icl_status check_containment(tap_run *tap, icl_backend *backend, double what, int input, icl_error *error) {
    const size_t tokens = 70, m = 16, n = 9, at = 40;
    problem p = {{true, 1}, 2, 2, tokens, m, n, m, {NULL}};
    const unsigned with = 1 << ICL_RECURRENCE_BETA | 1 << ICL_RECURRENCE_DECAY | 1 << ICL_RECURRENCE_STATE;
    answer clean = {0}, got = {0}, exact = {0};
    size_t changed = 0, finite = 0;
    icl_status status = ICL_OK;

    ICL_TRY(problem_fill(&p, with, 1, 5, error));
    ICL_TRY(problem_solve(backend, &p, &clean, error));
    ICL_TRY(problem_truth(backend, &p, &exact, error));
    const size_t row = 1 * tokens + at; /* of head 1 of batch 0 */
    p.values[input][row * (problem_count(&p, input) / (4 * tokens))] = what;
    ICL_TRY(problem_solve(backend, &p, &got, error));
    for (size_t i = 0; i < problem_outs(&p); i++)
        if (i / n < tokens || i / n >= 2 * tokens)
            changed += memcmp(&got.out[i], &clean.out[i], sizeof(double)) != 0;
        else if (i / n < row)
            changed += !(fabs(got.out[i] - exact.out[i]) <= 2 * exact.out_bound[i]);
    for (size_t i = 0; i < problem_finals(&p); i++)
        if (i / (m * n) != 1)
            changed += memcmp(&got.final[i], &clean.final[i], sizeof(double)) != 0;
    for (size_t j = 0; j < (input == ICL_RECURRENCE_V ? 1 : n); j++)
        finite += isfinite(got.out[(2 * tokens - 1) * n + j]) != 0;
    tap_ok(tap, changed == 0 && finite == 0, "%g in input %d stays in its head, and is seen there: %zu, %zu", what,
           input, changed, finite);
done:
    problem_clear(&p);
    answer_clear(&clean);
    answer_clear(&got);
    answer_clear(&exact);
    return status;
}

/* ---- Long sequences ---- */

/* Errors add up over 65,536 tokens; the bound grows with them, but stays finite. $ICLAB_TEST_LENGTH: fewer tokens, for
 * drivers that abort long loops. gates: 0 none, 1 one for all tokens, 2 one for each token. */
static void check_length(tap_run *tap, icl_backend *backend, const char *name, bool delta, int gates) {
    const char *text = getenv("ICLAB_TEST_LENGTH");
    const size_t tokens = text ? (size_t)strtoul(text, NULL, 10) : 65536, d = 16;
    icl_case c = {.op = ICL_OP_recurrence_forward,
                  .params = {.recurrence = {.params = {delta, 0.25}, .keys = ICL_KEYS_UNIT}},
                  .seed = 9};
    icl_case_result result = {0};
    icl_error error = {0};

    snprintf(c.name, sizeof c.name, "%s", name);
    for (int i = 0; i < ICL_RECURRENCE_FORWARD_INPUTS + ICL_RECURRENCE_INPUTS; i++)
        c.rank[i] = -1;
    const struct {
        int operand;
        size_t rows, width;
    } present[] = {
        {ICL_RECURRENCE_OUT, tokens, d},
        {ICL_RECURRENCE_FINAL, d, d},
        {ICL_RECURRENCE_FORWARD_INPUTS + ICL_RECURRENCE_Q, tokens, d},
        {ICL_RECURRENCE_FORWARD_INPUTS + ICL_RECURRENCE_K, tokens, d},
        {ICL_RECURRENCE_FORWARD_INPUTS + ICL_RECURRENCE_V, tokens, d},
        {ICL_RECURRENCE_FORWARD_INPUTS + ICL_RECURRENCE_BETA, tokens, 1},
        {ICL_RECURRENCE_FORWARD_INPUTS + ICL_RECURRENCE_DECAY, gates < 2 ? (size_t)gates : tokens, 1},
    };
    for (size_t i = 0; i < sizeof present / sizeof *present; i++) {
        const size_t shape[] = {1, 1, present[i].rows, present[i].width};
        c.rank[present[i].operand] = present[i].rows > 0 ? 4 : -1;
        memcpy(c.shape[present[i].operand], shape, sizeof shape);
    }
    if (icl_case_run(&c, backend, &result, &error) != ICL_OK)
        tap_ok(tap, false, "%s: %s", name, error.message);
    else
        tap_ok(tap, icl_case_passed(&result),
               "%s over %zu tokens: off by %.2g at most; %.3g of the bound, %.2g, of %.2g at %s", name, tokens,
               result.max_error, result.error_over_bound, result.bound, fabs(result.truth), result.worst_name);
    icl_case_result_clear(&result);
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_error error = {0};
    icl_backend *backend = argc > 1 ? tap_open_device(&tap, argv[1]) : NULL;

    if (!backend)
        return tap_done(&tap);
    check_recall(&tap, backend);
    if (check_growth(&tap, backend, &error) != ICL_OK)
        tap_ok(&tap, false, "growth: %s", error.message);
    for (int input = ICL_RECURRENCE_Q + 1; input <= ICL_RECURRENCE_DECAY; input++)
        for (int infinite = 0; infinite < 2; infinite++)
            if (check_containment(&tap, backend, infinite ? (double)INFINITY : (double)NAN, input, &error) != ICL_OK)
                tap_ok(&tap, false, "containment: %s", error.message);
    check_length(&tap, backend, "linear attention", false, 0);
    check_length(&tap, backend, "retention", false, 1);
    check_length(&tap, backend, "delta rule", true, 0);
    check_length(&tap, backend, "gated delta rule", true, 2);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
