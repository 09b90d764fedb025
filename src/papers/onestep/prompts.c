#include "papers/onestep/prompts.h"

#include <stdio.h>

#include "core/print.h"
#include "papers/onestep/flow.h"

enum { D = ICL_LAYER_D, LENGTHS = 4 };

/* A measured loss beside the exact one of the limit: four standard errors, and what the trained entries lack. */
static icl_status judge_loss(icl_reproducing *run, const icl_prompts *of, const char *what, const icl_recipe *recipe,
                             icl_prompt_change change, double exact, double slope, icl_changed_loss *loss,
                             icl_error *error) {
    char note[96] = "";

    ICL_CHECK(icl_one_layer_measure(run, recipe, of->layer, &change, of->sequences, loss, error));
    if (slope > 0)
        icl_print(note, sizeof note, "predictions are %.3f times the targets; %.3f expected", loss->slope, slope);
    return ICL_FOUND(run, error, .what = what, .quantity = "squared error", .ours = loss->mse,
                     .standard_error = loss->se, .target = exact, .tolerance = 4 * loss->se + of->slack * exact,
                     .evidence = ICL_COMPUTED, .source = "closed form", .note = note);
}

/* The regression of predictions on targets, E[prediction y] / E[y^2], at c = 1. */
static double exact_slope(const icl_prompts *of) {
    icl_flow_moments moments;
    double above = 0, below = 0;

    icl_flow_fixed(of->eigenvalues, (double)of->n, &moments);
    for (size_t i = 0; i < D; i++) {
        above += moments.p[i] * moments.p[i] / moments.m[i][i];
        below += of->eigenvalues[i];
    }
    return above / below;
}

static icl_status judge_lengths(icl_reproducing *run, const icl_prompts *of, icl_error *error) {
    static const size_t lengths[LENGTHS] = {10, 20, 40, 200};
    double x[LENGTHS], ours[LENGTHS], errors[LENGTHS], exact[LENGTHS];
    char label[32];
    icl_recipe *other = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_clone(of->recipe, &other, error));
    for (size_t i = 0; i < LENGTHS; i++) {
        char what[64];
        icl_changed_loss loss;
        x[i] = (double)lengths[i];
        exact[i] = icl_prompt_length_loss(of->eigenvalues, (double)of->n, x[i]);
        snprintf(what, sizeof what, "%s, prompts of m = %zu", of->law, lengths[i]);
        ICL_TRY(icl_reproduce_override(other, error, "task.n=%zu", lengths[i]));
        ICL_TRY(judge_loss(run, of, what, other, (icl_prompt_change){0}, exact[i], 0, &loss, error));
        ours[i] = loss.mse;
        errors[i] = loss.se;
    }
    snprintf(label, sizeof label, "trained with n = %zu", of->n);
    const icl_series series[] = {{label, ICL_SERIES_OURS, LENGTHS, x, ours, errors},
                                 {"closed form", ICL_SERIES_REFERENCE, LENGTHS, x, exact, NULL}};
    ICL_TRY(ICL_DRAW_FIGURE(run, error, .name = "prompt-length", .title = "Loss on prompts of other lengths",
                            .x_label = "labels in the prompt", .y_label = "squared error", .log_x = true, .log_y = true,
                            .count = 2, .series = series));
done:
    icl_recipe_destroy(&other);
    return status;
}

static icl_status judge_ratio(icl_reproducing *run, const char *what, const char *quantity, double ours, double target,
                              const char *source, icl_error *error) {
    return ICL_FOUND(run, error, .what = what, .quantity = quantity, .ours = ours, .target = target,
                     .tolerance = 1e-3 * target, .evidence = ICL_COMPUTED, .source = source);
}

static icl_status judge_shifts(icl_reproducing *run, const icl_prompts *of, icl_error *error) {
    static const double factors[] = {1, .5, 2};
    const double n = (double)of->n, slope = exact_slope(of);
    icl_changed_loss unchanged, loss;
    char what[64];

    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        const double c = factors[i];
        icl_changed_loss *into = i == 0 ? &unchanged : &loss;
        icl_print(what, sizeof what, "%s, all covariates times %g", of->law, c);
        ICL_CHECK(judge_loss(run, of, what, of->recipe, (icl_prompt_change){.covariates = c},
                             icl_covariate_shift_loss(of->eigenvalues, n, n, c, 1), c * c * slope, into, error));
        if (i > 0)
            ICL_CHECK(judge_ratio(run, what, "predictions over targets, by those of times 1",
                                  loss.slope / unchanged.slope, c * c, "c^2", error));
    }
    snprintf(what, sizeof what, "%s, the query times 2", of->law);
    ICL_CHECK(judge_loss(run, of, what, of->recipe, (icl_prompt_change){.query = 2},
                         icl_covariate_shift_loss(of->eigenvalues, n, n, 1, 2), slope, &loss, error));
    return judge_ratio(run, what, "share of E[y^2], by that of times 1",
                       loss.mse / loss.target / (unchanged.mse / unchanged.target), 1, "linear in the query", error);
}

icl_status icl_prompts_judge(icl_reproducing *run, const icl_prompts *of, icl_error *error) {
    ICL_CHECK(judge_lengths(run, of, error));
    return judge_shifts(run, of, error);
}
