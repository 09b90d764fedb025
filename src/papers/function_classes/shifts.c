/*
 * A model of linear functions on inputs that it was not trained on: Garg and others 2022 (arXiv 2208.01066), section 4
 * and appendix B.1. Errors are over the mean of f^2 under each shift.
 *
 *     skewed       the covariance has eigenvalues i^-2, turned at random
 *     scaled       inputs half and twice as large
 *     orthants     a sequence's inputs lie in one orthant, and the query after k pairs anywhere: the bound is still
 *                  1 - k / d, since least squares knows w on the span of k inputs, whatever these are
 *     orthogonal   the query is orthogonal to all inputs before it: nothing is known of its label, and the bound is 1
 *     repeated     the query is one of the inputs before it: its label was shown, and the bound is 0
 *
 * The paper has curves for these: the model follows least squares under the last three, and under the first two where
 * inputs are not too far from those of training.
 */
#include <math.h>
#include <stdio.h>

#include "core/print.h"
#include "papers/function_classes/garg.h"
#include "papers/losses.h"
#include "papers/papers.h"

enum { MOST_PROBED = 10, MOST_CURVES = 8 };

/* What a probe's error is to be, and how near a model comes at scale short. */
typedef struct probe {
    const char *name, *overrides;
    enum { BOUND_OF_PAIRS, BOUND_ONE, BOUND_ZERO } bound;
    double tolerance; /* relative; of a bound that is 0 absolute */
} probe;

static const probe probes[] = {
    {"orthants", "task.orthant=true task.probe=anywhere", BOUND_OF_PAIRS, .25},
    {"orthogonal", "task.probe=orthogonal", BOUND_ONE, .12},
    {"repeated", "task.probe=repeated", BOUND_ZERO, .05},
};

typedef struct shift {
    const char *name, *overrides;
    double factor; /* of the mean of f^2 */
} shift;

static const shift shifts[] = {
    {"as trained", "", 1},
    {"skewed covariance", "task.covariance=power:2 task.rotate=true", 1},
    {"inputs halved", "task.input_scale=0.5", .25},
    {"inputs doubled", "task.input_scale=2", 4},
};

/* A trained model with its recipe, and the curves drawn so far. */
typedef struct shifting {
    icl_reproducing *run;
    icl_seeded made;
    double at[2 * MOST_CURVES][ICL_GARG_POINTS];
    double values[2 * MOST_CURVES][ICL_GARG_POINTS], errors[2 * MOST_CURVES][ICL_GARG_POINTS];
    char labels[2 * MOST_CURVES][64];
    icl_series series[2 * MOST_CURVES];
    size_t used;
} shifting;

static double bound_of(const probe *of, size_t k, size_t d) {
    return of->bound == BOUND_ONE ? 1 : of->bound == BOUND_ZERO ? 0 : fmax(0, 1 - (double)k / (double)d);
}

/* Of the model and of least squares, at position k. */
static icl_status judge_probe(const shifting *all, const probe *of, size_t k, const icl_evaluation *evaluation,
                              icl_error *error) {
    static const char *const names[] = {"model", "least-squares"};
    icl_reproducing *run = all->run;
    const size_t d = icl_garg_setting_of(run)->dimension;
    const double bound = bound_of(of, k, d);

    for (int who = 0; who < 2; who++) {
        const bool is_judged = who == 1 || run->params->scale == ICL_SCALE_SHORT;
        char what[96];
        double own;
        const double ours = icl_garg_error(icl_reproduce_score(evaluation, names[who]), k, (double)d, &own);
        snprintf(what, sizeof what, "%s, %s, after %zu pairs", names[who], of->name, k);
        ICL_CHECK(ICL_FOUND(run, error, .what = what, .quantity = "error / d", .ours = ours, .standard_error = own,
                            .target = bound,
                            .tolerance = who == 1 ? 4 * own + 1e-6 : of->tolerance * (bound > 0 ? bound : 1),
                            .evidence = is_judged ? ICL_COMPUTED : ICL_EVIDENCE_NONE, .source = "bound"));
    }
    return ICL_OK;
}

/* The curves of the model and of least squares, or of the model alone. */
static void begin_curves(shifting *all, const char *name, size_t curves) {
    for (size_t who = 0; who < curves; who++) {
        const size_t at = all->used + who;
        snprintf(all->labels[at], sizeof all->labels[at], "%s: %s", name, who == 0 ? "transformer" : "least squares");
        all->series[at] = (icl_series){
            all->labels[at], who == 0 ? ICL_SERIES_OURS : ICL_SERIES_REFERENCE, 0, all->at[at], all->values[at],
            all->errors[at]};
    }
    all->used += curves;
}

/* A point of the last curves. */
static void add_point(shifting *all, size_t curves, size_t k, double unit, const icl_evaluation *evaluation) {
    static const char *const names[] = {"model", "least-squares"};

    for (size_t who = 0; who < curves; who++) {
        const size_t at = all->used - curves + who, point = all->series[at].count++;
        all->at[at][point] = (double)k;
        all->values[at][point] =
            icl_garg_error(icl_reproduce_score(evaluation, names[who]), k, unit, &all->errors[at][point]);
    }
}

static icl_status run_probe(shifting *all, const probe *of, icl_error *error) {
    const icl_garg_setting *setting = icl_garg_setting_of(all->run);
    const size_t d = setting->dimension, last = of->bound == BOUND_ONE ? d - 1 : setting->pairs;
    const size_t stride = (last + MOST_PROBED - 1) / MOST_PROBED;
    icl_status status = ICL_OK;
    icl_evaluation *evaluation = NULL;

    begin_curves(all, of->name, 2);
    for (size_t k = 1; k <= last; k += stride) {
        char overrides[160];
        snprintf(overrides, sizeof overrides, "%s task.probe_at=%zu eval.sequences=%zu eval.predictors=least-squares",
                 of->overrides, k, setting->sequences / 4);
        ICL_TRY(
            icl_reproduce_evaluate_as(all->run, all->made.trainer, all->made.recipe, overrides, &evaluation, error));
        add_point(all, 2, k, (double)d, evaluation);
        if (k < 4)
            ICL_TRY(judge_probe(all, of, k, evaluation, error));
        icl_evaluation_destroy(&evaluation);
    }
done:
    icl_evaluation_destroy(&evaluation);
    return status;
}

static icl_status run_probes(shifting *all, icl_error *error) {
    for (size_t i = 0; i < sizeof probes / sizeof *probes; i++)
        ICL_CHECK(run_probe(all, &probes[i], error));
    return ICL_DRAW_FIGURE(all->run, error, .name = "garg-shifts-queries",
                           .title = "Queries that differ from the inputs before them (appendix B.1)",
                           .x_label = "labelled pairs k", .y_label = "squared error / d", .log_y = true,
                           .least_y = 1e-4, .count = all->used, .series = all->series);
}

/* Shown beside least squares on the same sequences: at two pairs, and at the last. */
static icl_status show_shift(const shifting *all, const shift *of, const icl_evaluation *evaluation, icl_error *error) {
    const icl_garg_setting *setting = icl_garg_setting_of(all->run);
    const size_t at[] = {2, setting->dimension, setting->pairs};
    const double unit = of->factor * (double)setting->dimension;

    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        char what[96], note[64];
        double own, other;
        const double ours = icl_garg_error(icl_reproduce_score(evaluation, "model"), at[i], unit, &own);
        snprintf(what, sizeof what, "model, %s, after %zu pairs", of->name, at[i]);
        icl_print(note, sizeof note, "least squares %.4g",
                  icl_garg_error(icl_reproduce_score(evaluation, "least-squares"), at[i], unit, &other));
        ICL_CHECK(ICL_FOUND(all->run, error, .what = what, .quantity = "error / mean square", .ours = ours,
                            .standard_error = own, .note = note));
    }
    return ICL_OK;
}

static icl_status run_shifts(shifting *all, icl_error *error) {
    const icl_garg_setting *setting = icl_garg_setting_of(all->run);
    icl_evaluation *evaluation = NULL;
    icl_status status = ICL_OK;

    all->used = 0;
    for (size_t i = 0; i < sizeof shifts / sizeof *shifts; i++) {
        const size_t curves = shifts[i].factor == 1 ? 2 : 1; /* least squares does not see a scale */
        char overrides[160];
        snprintf(overrides, sizeof overrides, "%s eval.predictors=least-squares", shifts[i].overrides);
        ICL_TRY(
            icl_reproduce_evaluate_as(all->run, all->made.trainer, all->made.recipe, overrides, &evaluation, error));
        begin_curves(all, shifts[i].name, curves);
        for (size_t k = 0; k <= setting->pairs; k++)
            add_point(all, curves, k, shifts[i].factor * (double)setting->dimension, evaluation);
        ICL_TRY(show_shift(all, &shifts[i], evaluation, error));
        icl_evaluation_destroy(&evaluation);
    }
    ICL_TRY(ICL_DRAW_FIGURE(all->run, error, .name = "garg-shifts-inputs",
                            .title = "Inputs of another covariance or scale (appendix B.1)",
                            .x_label = "labelled pairs k", .y_label = "squared error / mean square", .log_y = true,
                            .least_y = 1e-4, .count = all->used, .series = all->series));
done:
    icl_evaluation_destroy(&evaluation);
    return status;
}

static icl_status shift_model(icl_reproducing *run, icl_error *error) {
    const icl_garg_setting *setting = icl_garg_setting_of(run);
    const icl_seeded_cell cell = {.name = "linear",
                                  .recipe = "garg",
                                  .overrides = {setting->overrides},
                                  .steps = setting->steps,
                                  .seed = run->params->seed,
                                  .sequences = setting->sequences};
    shifting all = {.run = run};
    icl_status status = ICL_OK;

    ICL_TRY(icl_reproduce_train_seed(run, &cell, &all.made, error));
    ICL_TRY(run_probes(&all, error));
    ICL_TRY(run_shifts(&all, error));
done:
    icl_seeded_release(&all.made);
    return status;
}

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    return icl_reproduce_wants(run, "linear") ? icl_reproduce_next(run, shift_model(run, error)) : ICL_OK;
}

const icl_reproduction icl_garg_shifts = {
    .name = "garg-shifts",
    .source = "arXiv 2208.01066, section 4",
    .about = "a model of linear functions on skewed, scaled, orthogonal and repeated inputs, beside least squares",
    .cost = {"3 s", "5 min", "2 d"},
    .is_shared = true,
    .run = reproduce,
};
