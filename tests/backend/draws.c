/*
 * The laws of strict draws, whose bits the conformance cases compare: exponential and gamma numbers against double
 * precision and against their distributions, and symbols against their weights. What backends draw is a function of
 * the key alone, so that a deviation of 4 standard errors either occurs always or never.
 */
#include "iclab/ops.h"

#include <math.h>
#include <stdlib.h>

#include "iclab/status.h"
#include "tap.h"
#include "task/gamma_tail.h"

/* ---- Exponential numbers ---- */

typedef struct worst_error {
    double error; /* relative */
    uint32_t word;
} worst_error;

static void measure(worst_error *worst, uint32_t word) {
    const double complement = ((double)~word + 0.5) * 0x1p-32, u = ((double)word + 0.5) * 0x1p-32;
    const double exact = u > 0.5 ? -log1p(-complement) : -log(u);
    const double error = fabs((double)icl_exponential_from_word(word) - exact) / exact;

    if (!(error <= worst->error))
        *worst = (worst_error){error, word};
}

/* Measures both ends word by word, both sides of the places where the formula changes, and words from everywhere. */
static void check_exponential(tap_run *tap) {
    static const uint32_t root = 0xb504f334U; /* sqrt(1/2) 2^32, rounded up */
    worst_error worst = {0};

    for (uint32_t i = 0; i < 70000; i++) {
        measure(&worst, i);
        measure(&worst, ~i);
    }
    for (int shift = 0; shift < 32; shift++)
        for (uint32_t near = 0; near < 2000; near++) {
            measure(&worst, (root >> shift) + near);
            measure(&worst, (root >> shift) - near);
            measure(&worst, (0x80000000U >> shift) + near);
            measure(&worst, (0x80000000U >> shift) - near);
        }
    for (uint32_t i = 0; i < 1000000; i++)
        measure(&worst, i * 4294U + i % 4294U);
    tap_note("worst relative error %.3g, at word 0x%08x", worst.error, worst.word);
    tap_ok(tap, worst.error < 2e-7, "exponentials are within 2e-7 of -log u");
}

/* ---- Gamma numbers ---- */

/*
 * Computes the same draw in double precision, and its error as a float in units of u. c has at most 16 u: 10 of the
 * root (ops.h), and those of d, of 1 / 3 and of the products. So has y = c x, v = 1 + y has 16 |y| / v + 1, d v^3 three
 * times that and 4 more. U^(1 / a) = 2^L has what L has times log 2: 14 u |log U| / a, and 6 u of its series.
 * Returns false where an attempt is so close to being accepted or refused that floats may decide otherwise.
 */
static bool draw_exactly(icl_random_key key, uint64_t index, double a, double *draw, double *units) {
    const double d = (a < 1 ? a + 1 : a) - 1.0 / 3, c = 1 / (3 * sqrt(d));

    for (uint64_t t = 0; t < ICL_GAMMA_ATTEMPTS; t++) {
        const uint64_t first = 64 * index + 4 * t;
        const double x = (double)icl_normal_from_word(icl_random_word(key, first)), v = 1 + c * x, cube = pow(v, 3);
        const double log_u = -(double)icl_exponential_from_word(icl_random_word(key, first + 1));
        const double limit = v > 0 ? x * x / 2 + d - d * cube + d * log(cube) : -(double)INFINITY;
        if (fabs(log_u - limit) < 1e-4 * (1 + fabs(log_u)) || fabs(v) < 1e-4)
            return false;
        if (log_u < limit) {
            const double u = ((double)icl_random_word(key, 64 * index + 2) + 0.5) * 0x1p-32;
            *draw = d * cube * (a < 1 ? pow(u, 1 / a) : 1);
            *units = 3 * (16 * fabs(c * x) / v + 1) + 4 + (a < 1 ? 14 * fabs(log(u)) / a + 6 : 0);
            return true;
        }
    }
    return false;
}

enum { DRAWS = 200000, CELLS = 50 };

/* Checks single draws; below 2^-100 they are 0. */
static void check_draws(tap_run *tap, icl_random_key key, double a) {
    int compared = 0, wrong = 0;

    for (uint64_t i = 0; i < 20000; i++) {
        const double given = (double)icl_random_gamma_value(key, i, (float)a);
        double exact = 0, units = 0;
        if (!draw_exactly(key, i, (double)(float)a, &exact, &units))
            continue;
        const double bound = 0x1p-24 * units * exact;
        compared++;
        wrong += given > 0 ? fabs(given - exact) > bound || given < 0x1p-100 : exact - bound >= 0x1p-100;
    }
    tap_ok(tap, wrong == 0 && compared > 19000, "shape %g: %d of %d draws differ from double precision", a, wrong,
           compared);
}

/* Checks that P(a, draw) is uniform: chi^2 over equal cells, whose mean is CELLS - 1 and variance twice that. */
static void check_law(tap_run *tap, icl_random_key key, double a) {
    const double expected = (double)DRAWS / CELLS;
    int counts[CELLS] = {0};
    double chi2 = 0;

    for (uint64_t i = 0; i < DRAWS; i++) {
        const double x = (double)icl_random_gamma_value(key, i, (float)a);
        const double p = x > 0 ? gamma_tail(a, x, false) : 0;
        counts[p >= 1 ? CELLS - 1 : (int)(p * CELLS)]++;
    }
    for (int cell = 0; cell < CELLS; cell++)
        chi2 += (counts[cell] - expected) * (counts[cell] - expected) / expected;
    tap_ok(tap, chi2 < CELLS - 1 + 4 * sqrt(2.0 * (CELLS - 1)), "shape %g: chi^2 %.1f over %d cells of the law", a,
           chi2, CELLS);
}

static void check_gamma(tap_run *tap) {
    static const double shapes[] = {0.3, 0.999, 1, 1.7, 5, 40, 1000};
    const icl_random_key key = {.seed = 31, .stream = 7, .step = 5};

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check_draws(tap, key, shapes[i]);
        check_law(tap, key, shapes[i]);
    }
    check_draws(tap, key, 0.02);
    check_draws(tap, key, 1e6);
    tap_ok(tap,
           isnan(icl_random_gamma_value(key, 0, 0x1.fffffep-11F)) &&
               !isnan(icl_random_gamma_value(key, 0, (float)ICL_LEAST_GAMMA_SHAPE)) &&
               isnan(icl_random_gamma_value(key, 0, 0x1.000002p30F)) &&
               !isnan(icl_random_gamma_value(key, 0, (float)ICL_MOST_GAMMA_SHAPE)) &&
               isnan(icl_random_gamma_value(key, 0, NAN)),
           "other shapes give no number");
}

/* ---- Symbols ---- */

enum { SYMBOLS = 9, NUMBERS = 90000 };

/* Draws weights from a Dirichlet distribution that is not normalized, and symbols by them. */
static icl_status draw_symbols(icl_backend *backend, float *weights, float *symbols, icl_error *error) {
    const icl_draw_params gamma = {{.seed = 3, .stream = 1}, 0};
    const icl_random_params uniform = {.key = {.seed = 3, .stream = 2}, .distribution = ICL_UNIFORM, .high = 1};
    icl_tensor shape = {0}, row = {0}, numbers = {0};
    icl_status status;

    ICL_TRY(icl_tensor_create(backend, 1, (size_t[]){1}, &shape, error));
    ICL_TRY(icl_tensor_create(backend, 1, (size_t[]){SYMBOLS}, &row, error));
    ICL_TRY(icl_tensor_create(backend, 1, (size_t[]){NUMBERS}, &numbers, error));
    ICL_TRY(icl_fill(backend, shape, 0.8, error));
    ICL_TRY(icl_random_gamma(backend, &gamma, row, shape, error));
    ICL_TRY(icl_fill(backend, icl_tensor_slice(row, 0, 4, 1), 0, error));
    ICL_TRY(icl_tensor_read(row, weights, error));
    ICL_TRY(icl_cumulative_sum(backend, row, row, error));
    ICL_TRY(icl_random_fill(backend, &uniform, numbers, error));
    ICL_TRY(icl_categorical(backend, numbers, numbers, row, error));
    ICL_TRY(icl_tensor_read(numbers, symbols, error));
done:
    icl_tensor_release(&shape);
    icl_tensor_release(&row);
    icl_tensor_release(&numbers);
    return status;
}

static void check_symbols(tap_run *tap, icl_backend *backend) {
    float weights[SYMBOLS] = {0};
    static float symbols[NUMBERS];
    double total = 0, counts[SYMBOLS] = {0};
    icl_error error = {0};

    if (!tap_status(tap, draw_symbols(backend, weights, symbols, &error), &error, "symbols are drawn"))
        return;
    for (int i = 0; i < SYMBOLS; i++)
        total += (double)weights[i];
    for (int i = 0; i < NUMBERS; i++)
        counts[(int)symbols[i]]++;
    for (int i = 0; i < SYMBOLS; i++) {
        const double p = (double)weights[i] / total, deviation = counts[i] - NUMBERS * p;
        tap_ok(tap, fabs(deviation) <= 4 * sqrt(NUMBERS * p * (1 - p)), "symbol %d: %.0f times, expected %.1f", i,
               counts[i], NUMBERS * p);
    }
}

/* One more symbol than floats can number is refused; the sums all lie on one element. */
static void check_refusal(tap_run *tap, icl_backend *backend) {
    icl_tensor one = {0}, out = {0};
    icl_error error = {0};

    if (tap_status(tap, icl_tensor_create(backend, 1, (size_t[]){1}, &one, &error), &error, "a sum") &&
        tap_status(tap, icl_tensor_create(backend, 1, (size_t[]){1}, &out, &error), &error, "a symbol")) {
        icl_fill(backend, one, 0.5, &error);
        one.stride[0] = 0;
        one.shape[0] = ICL_MOST_CATEGORIES;
        tap_status(tap, icl_categorical(backend, out, out, one, &error), &error, "2^24 symbols are taken");
        one.shape[0]++;
        tap_ok(tap,
               icl_categorical(backend, out, out, one, &error) == ICL_ERROR_INPUT &&
                   strcmp(error.message, "categorical: 16777217 symbols, expected at most 2^24 = 16777216") == 0,
               "one more is refused: %s", error.message);
    }
    icl_tensor_release(&one);
    icl_tensor_release(&out);
}

/* More numbers than there are, and numbers that floats cannot hold. */
static void check_distinct(tap_run *tap, icl_backend *backend) {
    static const struct {
        icl_distinct_params params;
        const char *message; /* NULL: taken */
    } rows[] = {
        {{.least = 5, .count = 3}, NULL},
        {{.count = 2}, "random_distinct: rows of 3 out of 2 numbers, expected at most 2"},
        {{.least = ICL_MOST_DISTINCT - 3, .count = 3}, NULL},
        {{.least = ICL_MOST_DISTINCT - 2, .count = 3},
         "random_distinct: 3 numbers from 16777214 on, expected an end of at most 16777216"},
        {{.count = ICL_MOST_DISTINCT + 1},
         "random_distinct: 16777217 numbers from 0 on, expected an end of at most 16777216"},
    };
    icl_tensor out = {0};
    icl_error error = {0};

    if (tap_status(tap, icl_tensor_create(backend, 1, (size_t[]){3}, &out, &error), &error, "a row"))
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            const icl_status status = icl_random_distinct(backend, &rows[i].params, out, &error);
            tap_ok(tap,
                   rows[i].message ? status == ICL_ERROR_INPUT && strcmp(error.message, rows[i].message) == 0
                                   : status == ICL_OK,
                   "%u numbers from %u on: %s", rows[i].params.count, rows[i].params.least,
                   rows[i].message ? error.message : "taken");
        }
    icl_tensor_release(&out);
}

/* Rows of 2^24 elements have numbers, and longer ones do not. */
static void check_rows(tap_run *tap, icl_backend *backend) {
    icl_tensor row = {0}, out = {0};
    icl_error error = {0};

    if (tap_status(tap, icl_tensor_create(backend, 1, (size_t[]){1}, &row, &error), &error, "a row") &&
        tap_status(tap, icl_tensor_create(backend, 1, (size_t[]){1}, &out, &error), &error, "an element")) {
        icl_tensor places = out;
        places.buffer = row.buffer;
        row.stride[0] = 0;
        row.shape[0] = ICL_MOST_DISTINCT;
        tap_status(tap, icl_take(backend, out, row, places, &error), &error, "2^24 elements are taken from");
        row.shape[0]++;
        tap_ok(tap,
               icl_take(backend, out, row, places, &error) == ICL_ERROR_INPUT &&
                   strcmp(error.message, "take: rows of 16777217 elements, expected at most 2^24 = 16777216") == 0,
               "one more is refused: %s", error.message);
    }
    icl_tensor_release(&row);
    icl_tensor_release(&out);
}

int main(void) {
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, "cpu");

    check_exponential(&tap);
    check_gamma(&tap);
    if (backend) {
        check_symbols(&tap, backend);
        check_refusal(&tap, backend);
        check_distinct(&tap, backend);
        check_rows(&tap, backend);
    }
    icl_backend_close(&backend);
    return tap_done(&tap);
}
