/*
 * What a memory of fixed size holds after one pass over n random unit keys of dimension d with one-hot values, without
 * any training: the sum rule, the delta rule (Schlag, Irie, Schmidhuber 2021, arXiv 2102.11174) after one pass and
 * after five, and a mesa layer with a small ridge (von Oswald et al. 2025, arXiv 2506.05233), all through the op and
 * the solver that models of sequences train with.
 *
 * Half of the squared error of the answers (keys.h), averaged over the keys, stands beside its expectation (memory.h),
 * and the standard error is that of the mean over independent sets of keys. A share of right answers would say little:
 * with unit keys the sum rule's largest answer is always the right one.
 */
#include <math.h>
#include <stdio.h>

#include "core/print.h"
#include "papers/curves.h"
#include "papers/papers.h"
#include "papers/phrase.h"
#include "papers/recall/keys.h"
#include "papers/recall/memory.h"

enum { PASSES = 5 };

typedef enum rule { SUM = 0, DELTA_ONCE, DELTA_OFTEN, MESA, RULES } rule;

static const struct {
    const char *label, *formula; /* NULL: none is known for any d */
    icl_recall_rule rule;
    size_t passes;
} rules[RULES] = {
    {"sum rule", "(n - 1) / (2 d)", ICL_RECALL_SUM, 1},
    {"delta rule, one pass", "E of the delta rule", ICL_RECALL_DELTA, 1},
    {"delta rule, five passes", NULL, ICL_RECALL_DELTA, PASSES},
    {"mesa layer", "least squares", ICL_RECALL_MESA, 1},
};

static double expected(rule which, size_t d, size_t n) {
    return which == SUM          ? icl_recall_error_sum(d, n)
           : which == DELTA_ONCE ? icl_recall_error_delta(d, n)
           : which == MESA       ? icl_recall_error_least_squares(d, n)
                                 : (double)NAN;
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
static icl_status compare_set(cell *is, const icl_recall_keys *w, size_t i, double ours, icl_error *error) {
    const double *keys = w->keys + i * w->n * w->d;
    double theirs;

    if (is->which == SUM)
        return ICL_OK;
    if (is->which == MESA) {
        ICL_CHECK(icl_recall_error_ridge(w->d, w->n, keys, ICL_RECALL_RIDGE, &theirs, error));
        is->left += (theirs - icl_recall_error_least_squares(w->d, w->n)) / (double)is->sets;
    } else
        ICL_CHECK(icl_recall_error_passes(w->d, w->n, keys, rules[is->which].passes, &theirs, error));
    is->farthest = fmax(is->farthest, fabs(ours - theirs) / (1 + theirs));
    return ICL_OK;
}

static icl_status measure(icl_reproducing *run, cell *is, icl_curves *curves, icl_error *error) {
    icl_recall_keys w = {0};
    icl_status status = ICL_OK;

    icl_reproduce_say(run, "%s, d = %zu, n = %zu", rules[is->which].label, is->d, is->n);
    ICL_TRY(icl_recall_keys_open(run->params->backend, is->d, is->n, rules[is->which].passes, &w, error));
    for (size_t first = 0; first < is->sets; first += ICL_RECALL_SETS) {
        ICL_TRY(icl_reproduce_poll(run, error));
        ICL_TRY(icl_recall_keys_draw(&w, run->params->seed, first, error));
        ICL_TRY(icl_recall_keys_ask(&w, run->params->backend, rules[is->which].rule, error));
        for (size_t i = 0; i < ICL_RECALL_SETS; i++) {
            const double ours = icl_recall_keys_error(&w, i);
            ICL_TRY(compare_set(is, &w, i, ours, error));
            ICL_TRY(icl_curves_add(curves, rules[is->which].label, ICL_SERIES_OURS, (double)is->n / (double)is->d, ours,
                                   error));
        }
    }
done:
    icl_recall_keys_close(&w);
    return status;
}

/* What the notes of the five passes have for d = 64, to their last digit: computed by plain double loops. */
static double computed_before(double r) {
    return r == .5 ? .007 : r == 1 ? .13 : r == 2 ? .50 : (double)NAN;
}

/* ---- Findings ---- */

static icl_phrase name_cell(const cell *is) {
    return icl_phrase_print("%s, d = %zu, r = %g", rules[is->which].label, is->d, (double)is->n / (double)is->d);
}

/* Three standard errors; of what a formula or the notes leave out, too. */
static icl_status judge_mean(icl_reproducing *run, const cell *is, const icl_curve_point *point, icl_error *error) {
    const double r = (double)is->n / (double)is->d, formula = expected(is->which, is->d, is->n);
    const bool computed = isnan(formula) && is->d == 64 && !isnan(computed_before(r));
    const double target = computed ? computed_before(r) : formula, digit = r < 1 ? .0005 : .005;
    char note[160] = "";

    if (is->which == DELTA_ONCE)
        icl_print(note, sizeof note, "in the limit of large d %.4g", icl_recall_error_delta_limit(r));
    if (is->which == MESA)
        icl_print(note, sizeof note, "of which a ridge of %g leaves %.2g, by the eigenvalues of the keys",
                  ICL_RECALL_RIDGE, is->left);
    return ICL_FOUND_POINT(run, error, *point, .what = name_cell(is).text, .quantity = "half squared error",
                           .target = target,
                           .tolerance = 3 * point->standard_error + fabs(is->left) + (computed ? digit : 0),
                           .evidence = isnan(target) ? ICL_EVIDENCE_NONE : ICL_COMPUTED,
                           .source = computed ? "simulation" : rules[is->which].formula, .note = note);
}

/* Float sums of at most 768 tokens: errors of order 1 move by less than 1e-5. A solution by conjugate gradients is
 * worst where n = d. */
static icl_status judge_sets(icl_reproducing *run, const cell *is, icl_error *error) {
    if (is->which == SUM)
        return ICL_OK;
    return ICL_FOUND(run, error, .what = name_cell(is).text, .quantity = "largest distance of a set",
                     .ours = is->farthest, .target = 0, .tolerance = 1e-5, .evidence = ICL_COMPUTED,
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
            ICL_TRY(measure(run, &is, &curves, error));
            const icl_curve_point point = icl_curves_at(&curves, rules[which].label, ratios[i]);
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
        size_t d, sets[ICL_SCALES]; /* sets of keys, multiples of ICL_RECALL_SETS; 0: not at this scale */
    } dimensions[] = {{16, {64, 1024, 16384}}, {64, {0, 128, 2048}}};

    for (size_t i = 0; i < sizeof dimensions / sizeof *dimensions; i++) {
        const size_t sets = dimensions[i].sets[run->params->scale];
        if (sets > 0 && icl_reproduce_wants(run, ICL_PHRASE("d%zu", dimensions[i].d)) && icl_reproduce_judges(run))
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
