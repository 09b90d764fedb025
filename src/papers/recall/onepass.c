/*
 * What a memory of fixed size holds after one pass over n random unit keys of dimension d with one-hot values, without
 * any training: the sum rule, the delta rule (Schlag, Irie, Schmidhuber 2021, arXiv 2102.11174) after one pass and
 * after five, and a mesa layer with a small ridge (von Oswald et al. 2025, arXiv 2506.05233), all through the op and
 * the solver that models of sequences train with.
 *
 * A sequence writes all keys, with strength 1, as often as there are passes, and then asks each of them, with strength
 * 0. Half of the squared error of the answers, averaged over the keys, stands beside its expectation (memory.h), and
 * the standard error is that of the mean over independent sets of keys. A share of right answers would say little: with
 * unit keys the sum rule's largest answer is always the right one.
 */
#include <math.h>
#include <stdio.h>

#include "core/allocate.h"
#include "iclab/ops_recurrence.h"
#include "iclab/random.h"
#include "iclab/tape.h"
#include "papers/curves.h"
#include "papers/papers.h"
#include "papers/recall/memory.h"

/* Of this reproduction alone; tasks have streams of their own (task/streams.h). */
#define KEY_STREAM 0x72636c6cu

enum { CHUNK = 16, PASSES = 5 };

/* A ridge leaves something of each error: sqrt(RIDGE) / 4 in the limit where n = d, the worst case. Keys then make
 * systems of condition 4 / RIDGE, and the error of a solution falls by a factor exp(-2 sqrt(RIDGE / 4)) a step. */
#define RIDGE 1e-3
enum { ITERATIONS = 300 };

typedef enum rule { SUM = 0, DELTA_ONCE, DELTA_OFTEN, MESA, RULES } rule;

static const struct {
    const char *label, *formula; /* NULL: none is known for any d */
    bool delta;
    size_t passes;
} rules[RULES] = {
    {"sum rule", "(n - 1) / (2 d)", false, 1},
    {"delta rule, one pass", "E of the delta rule", true, 1},
    {"delta rule, five passes", NULL, true, PASSES},
    {"mesa layer", "least squares", false, 1},
};

static double expected(rule which, size_t d, size_t n) {
    return which == SUM          ? icl_recall_error_sum(d, n)
           : which == DELTA_ONCE ? icl_recall_error_delta(d, n)
           : which == MESA       ? icl_recall_error_least_squares(d, n)
                                 : (double)NAN;
}

/* ---- Keys, and what the device is given ---- */

/* CHUNK sets of keys at a time: T = passes n + n tokens. */
typedef struct workspace {
    size_t d, n, tokens;
    double *keys;             /* [CHUNK][n][d] of length 1 */
    float *written, *outputs; /* [CHUNK][T][d]; [CHUNK][n][n] */
    icl_tensor k, v, beta;    /* [CHUNK, 1, T, d], [1, 1, T, n], [1, 1, T, 1] */
    icl_tensor ridge, out;    /* [1, 1, 1, d]; [CHUNK, 1, T, n] */
} workspace;

static icl_status write_values(workspace *w, size_t passes, icl_error *error) {
    float *values = NULL, *strengths;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(w->tokens, (w->n + 1) * sizeof *values, "values", &values, error));
    strengths = values + w->tokens * w->n;
    for (size_t t = 0; t < passes * w->n; t++)
        values[t * w->n + t % w->n] = strengths[t] = 1;
    ICL_TRY(icl_tensor_write(w->v, values, error));
    ICL_TRY(icl_tensor_write(w->beta, strengths, error));
    for (size_t j = 0; j < w->d; j++)
        strengths[j] = (float)RIDGE;
    ICL_TRY(icl_tensor_write(w->ridge, strengths, error));
done:
    icl_free(&values);
    return status;
}

static icl_status workspace_create(icl_backend *backend, size_t d, size_t n, size_t passes, workspace *w,
                                   icl_error *error) {
    const size_t T = (passes + 1) * n;

    *w = (workspace){.d = d, .n = n, .tokens = T};
    ICL_CHECK(icl_allocate(CHUNK * n, d * sizeof *w->keys, "keys", &w->keys, error));
    ICL_CHECK(icl_allocate(CHUNK * T, d * sizeof *w->written, "keys", &w->written, error));
    ICL_CHECK(icl_allocate(CHUNK * n, n * sizeof *w->outputs, "outputs", &w->outputs, error));
    ICL_CHECK(icl_tensor_create(backend, 4, (size_t[]){CHUNK, 1, T, d}, &w->k, error));
    ICL_CHECK(icl_tensor_create(backend, 4, (size_t[]){1, 1, T, n}, &w->v, error));
    ICL_CHECK(icl_tensor_create(backend, 4, (size_t[]){1, 1, T, 1}, &w->beta, error));
    ICL_CHECK(icl_tensor_create(backend, 4, (size_t[]){1, 1, 1, d}, &w->ridge, error));
    ICL_CHECK(icl_tensor_create(backend, 4, (size_t[]){CHUNK, 1, T, n}, &w->out, error));
    return write_values(w, passes, error);
}

static void workspace_destroy(workspace *w) {
    icl_free(&w->keys);
    icl_free(&w->written);
    icl_free(&w->outputs);
    icl_tensor_release(&w->k);
    icl_tensor_release(&w->v);
    icl_tensor_release(&w->beta);
    icl_tensor_release(&w->ridge);
    icl_tensor_release(&w->out);
}

/* Normals over their length are uniform on the sphere. Set `first` and those behind it. */
static icl_status draw_keys(uint32_t seed, size_t first, workspace *w, icl_error *error) {
    const icl_random_key key = {seed, KEY_STREAM, w->d * 65536 + w->n};
    const size_t set = w->n * w->d, copies = w->tokens / w->n;

    for (size_t i = 0; i < CHUNK * w->n; i++) {
        double *one = w->keys + i * w->d, square = 0;
        for (size_t j = 0; j < w->d; j++) {
            one[j] = (double)icl_normal_from_word(icl_random_word(key, first * set + i * w->d + j));
            square += one[j] * one[j];
        }
        for (size_t j = 0; j < w->d; j++)
            one[j] /= sqrt(square);
    }
    for (size_t i = 0; i < CHUNK; i++)
        for (size_t copy = 0; copy < copies; copy++)
            for (size_t j = 0; j < set; j++)
                w->written[(i * copies + copy) * set + j] = (float)w->keys[i * set + j];
    return icl_tensor_write(w->k, w->written, error);
}

/* ---- The memory ---- */

static icl_status run_rule(icl_backend *backend, rule which, workspace *w, icl_error *error) {
    const icl_recurrence_params params = {.delta = rules[which].delta, .scale = 1};
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

/* Half of the squared error of an answer, averaged over the keys of set i. */
static double half_error(const workspace *w, size_t i) {
    double sum = 0;
    for (size_t j = 0; j < w->n; j++)
        for (size_t c = 0; c < w->n; c++) {
            const double miss = (double)w->outputs[(i * w->n + j) * w->n + c] - (j == c ? 1.0 : 0.0);
            sum += miss * miss;
        }
    return sum / (2 * (double)w->n);
}

/* ---- A point of a curve ---- */

/* One rule, dimension and number of keys, over `sets` sets of keys. */
typedef struct cell {
    rule which;
    size_t d, n, sets;
    double farthest; /* from what the same keys give by another way, relative to 1 + that */
    double left;     /* by the ridge, in the mean */
} cell;

/* The same of the keys themselves, in double precision: by sweeps over their Gram matrix, or by its eigenvalues. */
static icl_status compare_set(cell *is, const workspace *w, size_t i, double ours, icl_error *error) {
    const double *keys = w->keys + i * w->n * w->d;
    double theirs;

    if (is->which == SUM)
        return ICL_OK;
    if (is->which == MESA) {
        ICL_CHECK(icl_recall_error_ridge(w->d, w->n, keys, RIDGE, &theirs, error));
        is->left += (theirs - icl_recall_error_least_squares(w->d, w->n)) / (double)is->sets;
    } else
        ICL_CHECK(icl_recall_error_passes(w->d, w->n, keys, rules[is->which].passes, &theirs, error));
    is->farthest = fmax(is->farthest, fabs(ours - theirs) / (1 + theirs));
    return ICL_OK;
}

static icl_status measure(icl_reproducing *run, cell *is, icl_curves *curves, icl_error *error) {
    workspace w = {0};
    icl_status status = ICL_OK;

    icl_reproduce_say(run, "%s, d = %zu, n = %zu", rules[is->which].label, is->d, is->n);
    ICL_TRY(workspace_create(run->params->backend, is->d, is->n, rules[is->which].passes, &w, error));
    for (size_t first = 0; first < is->sets; first += CHUNK) {
        ICL_TRY(icl_reproduce_poll(run, error));
        ICL_TRY(draw_keys(run->params->seed, first, &w, error));
        ICL_TRY(run_rule(run->params->backend, is->which, &w, error));
        for (size_t i = 0; i < CHUNK; i++) {
            const double ours = half_error(&w, i);
            ICL_TRY(compare_set(is, &w, i, ours, error));
            ICL_TRY(icl_curves_add(curves, rules[is->which].label, ICL_SERIES_OURS, (double)is->n / (double)is->d, ours,
                                   error));
        }
    }
done:
    workspace_destroy(&w);
    return status;
}

/* What the notes of the five passes have for d = 64, to their last digit: computed by plain double loops. */
static double computed_before(double r) {
    return r == .5 ? .007 : r == 1 ? .13 : r == 2 ? .50 : (double)NAN;
}

/* ---- Findings ---- */

/* Three standard errors; of what a formula or the notes leave out, too. */
static icl_status judge_mean(icl_reproducing *run, const cell *is, const icl_curve_point *point, icl_error *error) {
    const double r = (double)is->n / (double)is->d, formula = expected(is->which, is->d, is->n);
    const bool computed = isnan(formula) && is->d == 64 && !isnan(computed_before(r));
    const double target = computed ? computed_before(r) : formula, digit = r < 1 ? .0005 : .005;
    char what[96], note[160] = "";

    snprintf(what, sizeof what, "%s, d = %zu, r = %g", rules[is->which].label, is->d, r);
    if (is->which == DELTA_ONCE)
        snprintf(note, sizeof note, "in the limit of large d %.4g", icl_recall_error_delta_limit(r));
    if (is->which == MESA)
        snprintf(note, sizeof note, "of which a ridge of %g leaves %.2g, by the eigenvalues of the keys", RIDGE,
                 is->left);
    return ICL_FOUND(run, error, .what = what, .quantity = "half squared error", .ours = point->mean,
                     .standard_error = point->standard_error, .target = target,
                     .tolerance = 3 * point->standard_error + fabs(is->left) + (computed ? digit : 0),
                     .evidence = isnan(target) ? ICL_EVIDENCE_NONE : ICL_COMPUTED,
                     .source = computed ? "simulation" : rules[is->which].formula, .note = note);
}

/* Float sums of at most 768 tokens: errors of order 1 move by less than 1e-5. A solution by conjugate gradients is
 * worst where n = d. */
static icl_status judge_sets(icl_reproducing *run, const cell *is, icl_error *error) {
    char what[96];

    if (is->which == SUM)
        return ICL_OK;
    snprintf(what, sizeof what, "%s, d = %zu, r = %g", rules[is->which].label, is->d, (double)is->n / (double)is->d);
    return ICL_FOUND(run, error, .what = what, .quantity = "largest distance of a set", .ours = is->farthest,
                     .target = 0, .tolerance = 1e-5, .evidence = ICL_COMPUTED,
                     .source = is->which == MESA ? "eigenvalues of the same keys" : "Gauss-Seidel on the same keys");
}

/* The closed forms along the whole axis. */
static icl_status add_theory(size_t d, icl_curves *curves, icl_error *error) {
    for (size_t n = d / 4; n <= 2 * d; n += d / 8) {
        const double r = (double)n / (double)d;
        for (rule which = SUM; which < RULES; which++)
            if (rules[which].formula)
                ICL_CHECK(icl_curves_add(curves, rules[which].formula, ICL_SERIES_REFERENCE, r, expected(which, d, n),
                                         error));
        ICL_CHECK(icl_curves_add(curves, "E of the delta rule, large d", ICL_SERIES_REFERENCE, r,
                                 icl_recall_error_delta_limit(r), error));
    }
    return ICL_OK;
}

static icl_status reproduce_dimension(icl_reproducing *run, size_t d, size_t sets, icl_error *error) {
    static const double ratios[] = {.5, 1, 2};
    char name[32], title[96];
    icl_curves curves = {.figure = {.name = name,
                                    .title = title,
                                    .x_label = "keys over dimension, r = n / d",
                                    .y_label = "half squared error of a value"}};
    icl_status status = ICL_OK;

    snprintf(name, sizeof name, "recall-onepass-d%zu", d);
    snprintf(title, sizeof title, "What a memory of dimension %zu recalls of random keys", d);
    ICL_TRY(add_theory(d, &curves, error));
    for (rule which = SUM; which < RULES; which++)
        for (size_t i = 0; i < sizeof ratios / sizeof *ratios; i++) {
            cell is = {.which = which, .d = d, .n = (size_t)(ratios[i] * (double)d), .sets = sets};
            icl_curve_point point;
            ICL_TRY(measure(run, &is, &curves, error));
            ICL_TRY(icl_curves_point(&curves, rules[which].label, ratios[i], &point, error));
            ICL_TRY(judge_mean(run, &is, &point, error));
            ICL_TRY(judge_sets(run, &is, error));
        }
    ICL_TRY(icl_curves_draw(run, &curves, error));
done:
    icl_curves_release(&curves);
    return status;
}

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    static const struct {
        size_t d, sets[ICL_SCALES]; /* sets of keys, multiples of CHUNK; 0: not at this scale */
    } dimensions[] = {{16, {64, 1024, 16384}}, {64, {0, 128, 2048}}};

    for (size_t i = 0; i < sizeof dimensions / sizeof *dimensions; i++) {
        const size_t sets = dimensions[i].sets[run->params->scale];
        char wanted[16];
        snprintf(wanted, sizeof wanted, "d%zu", dimensions[i].d);
        if (sets > 0 && icl_reproduce_wants(run, wanted))
            ICL_CHECK(reproduce_dimension(run, dimensions[i].d, sets, error));
    }
    return ICL_OK;
}

const icl_reproduction icl_recall_onepass = {
    .name = "recall-onepass",
    .source = "arXiv 2102.11174, 2506.05233",
    .about = "what the sum rule, the delta rule and a mesa layer hold of random keys, beside closed forms",
    .cost = {"1 s", "20 s", "5 min"},
    .run = reproduce,
};
