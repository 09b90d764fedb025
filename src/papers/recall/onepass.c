/*
 * The contents of a memory of fixed size after one pass over n random unit keys of dimension d with one-hot values,
 * without any training: the sum rule, the delta rule (Schlag, Irie, Schmidhuber 2021, arXiv 2102.11174) after one pass
 * and after five, and a mesa layer with a small ridge (von Oswald et al. 2025, arXiv 2506.05233), all through the op
 * and the solver that models of sequences train with.
 *
 * A sequence writes all keys, with strength 1, as often as there are passes, and then asks each of them, with strength
 * 0. Half of the squared error of the answers, averaged over the keys, is compared with its expectation (checked.h),
 * and the standard error is that of the mean over independent sets of keys. A share of right answers would say little:
 * with unit keys the sum rule's largest answer is always the right one.
 */
#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/ops_recurrence.h"
#include "iclab/random.h"
#include "iclab/tape.h"
#include "numeric/matrix.h"
#include "numeric/statistics.h"
#include "papers/checked.h"
#include "papers/papers.h"

/* The stream of this file's random numbers. Tasks have other streams (task/streams.h). */
#define KEY_STREAM 0x72636c6cu

/* The ridge of a mesa layer leaves a part of each error: sqrt(ridge) / 4 in the limit if n = d, the worst case. */
#define RIDGE 1e-3

/* The keys' systems have the condition 4 / ridge, and each step reduces the error of a solution by a factor exp(-2
 * sqrt(ridge / 4)). */
enum { ITERATIONS = 300 };

enum { SETS = 16, PASSES = 5, DIMENSIONS = 2, RATIOS = 3 }; /* sets of keys at a time */

typedef enum rule { SUM = 0, DELTA_ONCE, DELTA_OFTEN, MESA, RULES } rule;

static const struct {
    const char *label, *formula; /* NULL: no formula is known for all d */
    size_t passes;
} rules[RULES] = {
    {"sum rule", "(n - 1) / (2 d)", 1},
    {"delta rule, one pass", "E of the delta rule", 1},
    {"delta rule, five passes", NULL, PASSES},
    {"mesa layer", "least squares", 1},
};

static const struct {
    size_t d, sets[ICL_SCALES]; /* numbers of sets of keys, multiples of SETS; 0: not at this scale */
} dimensions[DIMENSIONS] = {{16, {64, 1024, 16384}}, {64, {0, 128, 2048}}};

static const double ratios[RATIOS] = {.5, 1, 2};

static double expected(rule which, size_t d, size_t n) {
    return which == SUM          ? icl_recall_error_sum(d, n)
           : which == DELTA_ONCE ? icl_recall_error_delta(d, n)
           : which == MESA       ? icl_recall_error_least_squares(d, n)
                                 : (double)NAN;
}

/* ---- Closed forms ---- */

/*
 * The exact error after one pass of the delta rule. P_i = I - k_i k_i^T, and the keys are independent and uniform on
 * the unit sphere. After the last write the memory returns for key j, in the place of value i, k_j^T A_i k_i with A_i =
 * P_n … P_(i+1); the right answer is 1 for i = j and 0 elsewhere. With a = 1 - 1 / d:
 *
 *     E |P x|^2 = a |x|^2
 *     c_m = E (k^T P_m … P_1 k)^2:   c_0 = 1,   c_(m+1) = b c_m + a^m / (d (d + 2)),   b = 1 - 2 (d + 1) / (d (d + 2)),
 *           from E P X P = X - 2 X / d + (2 X + tr X I) / (d (d + 2)), so c_m = a b^m + a^m / d
 *
 * and for m = n - j writes after key j
 *
 *     i > j:  E (k_j^T A_i k_i)^2 = a^(n-i) / d,                              in all 1 - a^m
 *     i = j:  E (k_j^T A_j k_j - 1)^2 = 1 - 2 a^m + c_m
 *     i < j:  E (k_j^T A_j P_j … k_i)^2 = a^(j-1-i) (a^m - c_m) / d,          in all (1 - a^(j-1)) (a^m - c_m)
 *
 * Half of the sum is 1 - a^m - a^n (1 - (b / a)^m) / 2; its mean over m = 0 … n - 1, with rho = b / a:
 *
 *     1 - d (1 - a^n) / n - a^n / 2 (1 - (1 - rho^n) / (n (1 - rho)))
 *
 * For d to infinity a^n and rho^n become e^-r: 1 - (1 - e^-r) / r - e^-r (r - 1 + e^-r) / (2 r).
 *
 * Many passes. With the Gram matrix I + L + L^T of the keys, L below the diagonal, a pass of the delta rule is a sweep
 * of Gauss and Seidel: the errors of all values become -L^T (I + L)^-1 times what they were, I at the beginning.
 */

double icl_recall_error_sum(size_t d, size_t n) {
    return ((double)n - 1) / (2 * (double)d);
}

double icl_recall_error_delta(size_t d, size_t n) {
    const double dimension = (double)d, keys = (double)n;
    const double a = 1 - 1 / dimension, b = 1 - 2 * (dimension + 1) / (dimension * (dimension + 2)), rho = b / a;
    const double all = pow(a, keys), mean = (1 - pow(rho, keys)) / (keys * (1 - rho));

    return 1 - dimension * (1 - all) / keys - all / 2 * (1 - mean);
}

double icl_recall_error_delta_limit(double r) {
    const double left = exp(-r);
    return 1 - (1 - left) / r - left * (r - 1 + left) / (2 * r);
}

double icl_recall_error_least_squares(size_t d, size_t n) {
    return fmax(0, 1 - (double)d / (double)n) / 2;
}

static double dot(const double *a, const double *b, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Computes matrix <- -L^T (I + L)^-1 matrix, both [n][n]; `work` [n][n]. */
static void sweep(size_t n, const double *gram, double *matrix, double *work) {
    for (size_t i = 0; i < n; i++) { /* work = (I + L)^-1 matrix */
        memcpy(work + i * n, matrix + i * n, n * sizeof *work);
        for (size_t j = 0; j < i; j++)
            for (size_t c = 0; c < n; c++)
                work[i * n + c] -= gram[i * n + j] * work[j * n + c];
    }
    memset(matrix, 0, n * n * sizeof *matrix);
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++)
            for (size_t c = 0; c < n; c++)
                matrix[i * n + c] -= gram[j * n + i] * work[j * n + c];
}

icl_status icl_recall_error_passes(size_t d, size_t n, const double *keys, size_t passes, double *half_error,
                                   icl_error *error) {
    double *gram = NULL, *errors, *work;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(3 * n * n, sizeof *gram, "passes", &gram, error));
    errors = gram + n * n;
    work = errors + n * n;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            gram[i * n + j] = dot(keys + i * d, keys + j * d, d);
            errors[i * n + j] = i == j;
        }
    for (size_t pass = 0; pass < passes; pass++)
        sweep(n, gram, errors, work);
    *half_error = dot(errors, errors, n * n) / (2 * (double)n);
done:
    icl_free(&gram);
    return status;
}

/* The errors are ridge (K K^T + ridge)^-1, whose eigenvalues are ridge / (lambda + ridge): d of them with the
 * eigenvalues lambda of K^T K, and 1 for the others, or, if n < d, n of them. */
icl_status icl_recall_error_ridge(size_t d, size_t n, const double *keys, double ridge, double *half_error,
                                  icl_error *error) {
    double *matrix = NULL, *eigenvalues, *vectors, sum = (double)n - (double)d;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(2 * d * d + 4 * d, sizeof *matrix, "eigenvalues", &matrix, error));
    vectors = matrix + d * d;
    eigenvalues = vectors + d * d;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < d; j++)
            for (size_t c = 0; c < d; c++)
                matrix[j * d + c] += keys[i * d + j] * keys[i * d + c];
    if (!icl_symmetric_eigen(d, matrix, eigenvalues, vectors, eigenvalues + d))
        ICL_TRY(icl_fail(error, ICL_ERROR_DIVERGED, "recall-onepass: eigenvalues of %zu keys do not converge", n));
    for (size_t i = 0; i < d; i++) {
        const double share = ridge / (fmax(0, eigenvalues[i]) + ridge);
        sum += share * share;
    }
    *half_error = fmax(0, sum) / (2 * (double)n);
done:
    icl_free(&matrix);
    return status;
}

/* ---- Cells ---- */

enum { DIMENSION = 0, RULE, RATIO }; /* places in the grid */

static void plan(icl_study *study) {
    for (size_t i = 0; i < DIMENSIONS; i++)
        for (size_t k = 0; k < RULES && dimensions[i].sets[study->scale] > 0; k++)
            for (size_t r = 0; r < RATIOS; r++)
                ICL_ADD_CELL(study, .group = ICL_PHRASE("d%zu", dimensions[i].d), .at = {i, k, r},
                             .name = ICL_PHRASE("%s, d = %zu, r = %g", rules[k].label, dimensions[i].d, ratios[r]));
}

static size_t dimension_of(const icl_study_cell *cell) {
    return dimensions[cell->at[DIMENSION]].d;
}

static size_t count_keys(const icl_study_cell *cell) {
    return (size_t)(ratios[cell->at[RATIO]] * (double)dimension_of(cell));
}

/* ---- Keys ---- */

/* T = passes n + n tokens. */
typedef struct key_sets {
    size_t d, n, tokens;
    double *keys;             /* [SETS][n][d] of length 1 */
    float *written, *outputs; /* [SETS][T][d]; [SETS][n][n] */
    icl_tensor k, v, beta;    /* [SETS, 1, T, d], [1, 1, T, n], [1, 1, T, 1] */
    icl_tensor ridge, out;    /* [1, 1, 1, d]; [SETS, 1, T, n] */
} key_sets;

static icl_status write_values(const icl_study *study, key_sets *w, size_t passes, icl_error *error) {
    float *values = NULL, *strengths = NULL;

    ICL_CHECK(icl_study_room(study, w->tokens, w->n * sizeof *values, &values, error));
    ICL_CHECK(icl_study_room(study, w->tokens + w->d, sizeof *strengths, &strengths, error));
    for (size_t t = 0; t < passes * w->n; t++)
        values[t * w->n + t % w->n] = strengths[t] = 1;
    ICL_CHECK(icl_tensor_write(w->v, values, error));
    ICL_CHECK(icl_tensor_write(w->beta, strengths, error));
    for (size_t j = 0; j < w->d; j++)
        strengths[j] = (float)RIDGE;
    return icl_tensor_write(w->ridge, strengths, error);
}

static icl_status open_keys(const icl_study *study, size_t d, size_t n, size_t passes, key_sets *w, icl_error *error) {
    icl_backend *backend = study->run->params->backend;
    const size_t T = (passes + 1) * n;

    *w = (key_sets){.d = d, .n = n, .tokens = T};
    ICL_CHECK(icl_study_room(study, SETS * n, d * sizeof *w->keys, &w->keys, error));
    ICL_CHECK(icl_study_room(study, SETS * T, d * sizeof *w->written, &w->written, error));
    ICL_CHECK(icl_study_room(study, SETS * n, n * sizeof *w->outputs, &w->outputs, error));
    ICL_CHECK(icl_tensor_create(backend, 4, (size_t[]){SETS, 1, T, d}, &w->k, error));
    ICL_CHECK(icl_tensor_create(backend, 4, (size_t[]){1, 1, T, n}, &w->v, error));
    ICL_CHECK(icl_tensor_create(backend, 4, (size_t[]){1, 1, T, 1}, &w->beta, error));
    ICL_CHECK(icl_tensor_create(backend, 4, (size_t[]){1, 1, 1, d}, &w->ridge, error));
    ICL_CHECK(icl_tensor_create(backend, 4, (size_t[]){SETS, 1, T, n}, &w->out, error));
    return write_values(study, w, passes, error);
}

static void close_keys(key_sets *w) {
    icl_tensor_release(&w->k);
    icl_tensor_release(&w->v);
    icl_tensor_release(&w->beta);
    icl_tensor_release(&w->ridge);
    icl_tensor_release(&w->out);
}

/* Draws set number `first` and the following ones. Normals over their length are uniform on the sphere. */
static icl_status draw_keys(key_sets *w, uint32_t seed, size_t first, icl_error *error) {
    const icl_random_key key = {seed, KEY_STREAM, w->d * 65536 + w->n};
    const size_t set = w->n * w->d, copies = w->tokens / w->n;

    for (size_t i = 0; i < SETS * w->n; i++) {
        double *one = w->keys + i * w->d, square = 0;
        for (size_t j = 0; j < w->d; j++) {
            one[j] = (double)icl_normal_from_word(icl_random_word(key, first * set + i * w->d + j));
            square += one[j] * one[j];
        }
        for (size_t j = 0; j < w->d; j++)
            one[j] /= sqrt(square);
    }
    for (size_t i = 0; i < SETS; i++)
        for (size_t copy = 0; copy < copies; copy++)
            for (size_t j = 0; j < set; j++)
                w->written[(i * copies + copy) * set + j] = (float)w->keys[i * set + j];
    return icl_tensor_write(w->k, w->written, error);
}

/* Writes the keys by the rule, and asks for each. */
static icl_status ask_keys(key_sets *w, icl_backend *backend, rule which, icl_error *error) {
    const icl_recurrence_params params = {.delta = which == DELTA_ONCE || which == DELTA_OFTEN, .scale = 1};
    icl_recurrence_inputs inputs = {.q = w->k, .k = w->k, .v = w->v, .beta = w->beta};
    icl_tape *tape = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_tape_create(backend, &tape, error));
    if (which == MESA) {
        const icl_variable k = icl_tape_constant(tape, w->k), beta = icl_tape_constant(tape, w->beta);
        const icl_ridge_solve_variables system = {
            .q = k, .k = k, .ridge = icl_tape_constant(tape, w->ridge), .beta = &beta};
        const icl_variable solved = icl_tape_ridge_solve(tape, ITERATIONS, &system);
        ICL_TRY(icl_tape_status(tape, error));
        inputs.q = icl_tape_value(tape, solved);
    }
    ICL_TRY(icl_recurrence_forward(backend, &params, w->out, (icl_tensor){0}, NULL, &inputs, error));
    ICL_TRY(icl_tensor_read(icl_tensor_slice(w->out, 2, w->tokens - w->n, w->n), w->outputs, error));
done:
    icl_tape_destroy(&tape);
    return status;
}

/* Returns half of the squared error of an answer, averaged over the keys of set i. */
static double half_error(const key_sets *w, size_t i) {
    double sum = 0;
    for (size_t j = 0; j < w->n; j++)
        for (size_t c = 0; c < w->n; c++) {
            const double miss = (double)w->outputs[(i * w->n + j) * w->n + c] - (j == c ? 1.0 : 0.0);
            sum += miss * miss;
        }
    return sum / (2 * (double)w->n);
}

/* ---- Measuring ---- */

enum {
    ERROR = 0, /* half of the squared error, over sets */
    FARTHEST,  /* largest distance of a set from another computation for its keys, relative to 1 + that */
    LEFT,      /* error that the ridge of a mesa layer leaves, on average */
    NUMBERS
};

/* Computes the error for the keys themselves, in double precision: by sweeps over their Gram matrix, or by its
 * eigenvalues. */
static icl_status compare_set(const icl_study_cell *cell, const key_sets *w, size_t i, double ours, size_t sets,
                              icl_number *numbers, icl_error *error) {
    const double *keys = w->keys + i * w->n * w->d;
    const rule which = (rule)cell->at[RULE];
    double theirs;

    if (which == SUM)
        return ICL_OK;
    if (which == MESA) {
        ICL_CHECK(icl_recall_error_ridge(w->d, w->n, keys, RIDGE, &theirs, error));
        numbers[LEFT].value += (theirs - icl_recall_error_least_squares(w->d, w->n)) / (double)sets;
    } else
        ICL_CHECK(icl_recall_error_passes(w->d, w->n, keys, rules[which].passes, &theirs, error));
    numbers[FARTHEST].value = fmax(numbers[FARTHEST].value, fabs(ours - theirs) / (1 + theirs));
    return ICL_OK;
}

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    const size_t sets = dimensions[cell->at[DIMENSION]].sets[study->scale];
    icl_backend *backend = study->run->params->backend;
    key_sets w = {0};
    double *errors = NULL;
    icl_status status = ICL_OK;

    (void)trained;
    numbers[FARTHEST].value = numbers[LEFT].value = 0;
    icl_reproduce_say(study->run, "%s", cell->name);
    ICL_TRY(icl_study_room(study, sets, sizeof *errors, &errors, error));
    ICL_TRY(open_keys(study, dimension_of(cell), count_keys(cell), rules[cell->at[RULE]].passes, &w, error));
    for (size_t set = 0; set < sets; set++) {
        if (set % SETS == 0) {
            ICL_TRY(icl_reproduce_poll(study->run, error));
            ICL_TRY(draw_keys(&w, study->run->params->seed, set, error));
            ICL_TRY(ask_keys(&w, backend, (rule)cell->at[RULE], error));
        }
        errors[set] = half_error(&w, set % SETS);
        ICL_TRY(compare_set(cell, &w, set % SETS, errors[set], sets, numbers, error));
    }
    numbers[ERROR] = (icl_number){icl_mean(errors, sets), icl_standard_error(errors, sets)};
done:
    close_keys(&w);
    return status;
}

/* ---- Judging ---- */

/* Returns the error after five passes for d = 64, as in our notes, to their last digit: computed by plain double
 * loops. */
static double computed_before(double r) {
    return r == .5 ? .007 : r == 1 ? .13 : .50;
}

static icl_phrase note_of(const icl_study_cell *cell, double r) {
    if (cell->at[RULE] == DELTA_ONCE)
        return icl_phrase_print("in the limit of large d %.4g", icl_recall_error_delta_limit(r));
    if (cell->at[RULE] == MESA)
        return icl_phrase_print("of which a ridge of %g leaves %.2g, by the eigenvalues of the keys", RIDGE,
                                cell->numbers[LEFT].value);
    return (icl_phrase){""};
}

/* The mean must be within three standard errors, plus the part that a formula or the notes leave out. Float sums of at
 * most 768 tokens change errors of order 1 by less than 1e-5; a solution by conjugate gradients is worst for n = d. */
static void judge(icl_study *study, const icl_study_cell *cell) {
    const rule which = (rule)cell->at[RULE];
    const double r = ratios[cell->at[RATIO]], formula = expected(which, dimension_of(cell), count_keys(cell));
    const bool computed = isnan(formula) && dimension_of(cell) == 64;
    const double target = computed ? computed_before(r) : formula, digit = r < 1 ? .0005 : .005;
    const icl_number error = cell->numbers[ERROR];

    ICL_JUDGE(study, .quantity = "half squared error", ICL_OURS(error), .target = target,
              .tolerance = 3 * error.standard_error + fabs(cell->numbers[LEFT].value) + (computed ? digit : 0),
              .evidence = isnan(target) ? ICL_EVIDENCE_NONE : ICL_COMPUTED,
              .source = computed ? "simulation" : rules[which].formula, .note = note_of(cell, r).text);
    if (which != SUM)
        ICL_JUDGE(study, .quantity = "largest distance of a set", ICL_OURS(cell->numbers[FARTHEST]), .target = 0,
                  .tolerance = 1e-5, .evidence = ICL_COMPUTED,
                  .source = which == MESA ? "eigenvalues of the same keys" : "Gauss-Seidel on the same keys");
}

/* ---- Figures ---- */

/* Draws the closed forms along the whole axis. */
static void plot_theory(icl_study *study, size_t d, icl_curves *curves) {
    for (size_t n = d / 4; n <= 2 * d; n += d / 8) {
        const double r = (double)n / (double)d;
        for (rule which = SUM; which < RULES; which++)
            if (rules[which].formula)
                icl_study_plot(study, curves, rules[which].formula, ICL_SERIES_REFERENCE, r, expected(which, d, n));
        icl_study_plot(study, curves, "E of the delta rule, large d", ICL_SERIES_REFERENCE, r,
                       icl_recall_error_delta_limit(r));
    }
}

static void draw_dimension(icl_study *study, size_t dimension) {
    const size_t d = dimensions[dimension].d;
    const icl_phrase name = icl_phrase_print("recall-onepass-d%zu", d);
    const icl_phrase title = icl_phrase_print("What a memory of dimension %zu recalls of random keys", d);
    icl_curves curves = {
        .figure = {name.text, title.text, "keys over dimension, r = n / d", "half squared error of a value"}};

    plot_theory(study, d, &curves);
    for (size_t i = 0; i < study->count; i++) {
        const icl_study_cell *cell = study->cells[i];
        if (cell->at[DIMENSION] == dimension)
            icl_study_plot_number(study, &curves, rules[cell->at[RULE]].label, ICL_SERIES_OURS, ratios[cell->at[RATIO]],
                                  cell->numbers[ERROR]);
    }
    icl_study_draw(study, &curves);
}

static void conclude(icl_study *study) {
    for (size_t i = 0; i < DIMENSIONS; i++)
        if (dimensions[i].sets[study->scale] > 0)
            draw_dimension(study, i);
}

const icl_reproduction icl_recall_onepass = ICL_STUDY(
        .name = "recall-onepass", .source = "arXiv 2102.11174, 2506.05233",
        .about = "what the sum rule, the delta rule and a mesa layer hold of random keys, beside closed forms",
        .claim =
            "Of random keys with values, a memory that is written by the delta rule holds more than one that sums, and "
            "a mesa layer holds what least squares holds.",
        .scope = "A met table means that the op and the solver hold what closed forms say of random unit "
                 "keys, without any training; trained keys, which need not be random, are those of recall- "
                 "mqar.",
        .cost = {"1 s", "20 s", "5 min"}, .numbers = NUMBERS, .plan = plan, .measure = measure, .judge = judge,
        .conclude = conclude);
