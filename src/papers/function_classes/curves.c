/*
 * Errors by the number of labelled pairs: Garg and others 2022 (arXiv 2208.01066), figures 2 and 5.
 *
 * The bound for linear functions without noise is least squares, with the error 1 - k / d for k < d and 0 behind.
 * Reference predictors are judged by such closed forms, and at scale short and full by rows that a program of others
 * printed (Leiay/looped_transformer, the same tasks), within three standard errors of both. Trained models are judged
 * by the bound at scale short, and at full by the rows of that program's model of the same size.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "core/print.h"
#include "papers/function_classes/garg.h"
#include "papers/losses.h"
#include "papers/papers.h"

#define PRINTED_SOURCE "Leiay/looped_transformer, saved results"

/* ---- Closed forms ---- */

static double form_of(size_t predictor, size_t k, size_t d) {
    const double bound = k < d ? 1 - (double)k / (double)d : 0;
    return predictor == 0 || k == 0 ? 1 : predictor == 1 ? (double)(d + 1) / (double)k : bound;
}

/* The position at which a predictor is farthest from its closed form, in standard errors. Where that is 0, errors are
 * rounding. */
static icl_status judge_form(icl_reproducing *run, const icl_evaluation *evaluation, size_t predictor,
                             icl_error *error) {
    static const struct {
        const char *name, *what, *form;
    } rows[] = {{"zero", "the prediction 0", "1 at every position"},
                {"averaging", "averaging", "(d + 1) / k"},
                {"least-squares", "least squares", "1 - k / d, then 0"}};
    const icl_garg_setting *setting = icl_garg_setting_of(run);
    const icl_score *score = icl_reproduce_score(evaluation, rows[predictor].name);
    double worst = 0, standard_error;
    size_t at = 0;
    char note[96];

    for (size_t k = 0; k <= setting->pairs; k++) {
        const double form = form_of(predictor, k, setting->dimension);
        const double ours = icl_garg_error(score, k, (double)setting->dimension, &standard_error);
        const double distance = form > 0 ? fabs(ours - form) / standard_error : ours / 1e-6;
        if (!(distance <= worst)) {
            worst = distance;
            at = k;
        }
    }
    icl_print(note, sizeof note, "farthest at k = %zu: %.4g beside %.4g", at,
              icl_garg_error(score, at, (double)setting->dimension, &standard_error),
              form_of(predictor, at, setting->dimension));
    return ICL_FOUND(run, error, .what = rows[predictor].what, .quantity = "distance from closed form, standard errors",
                     .ours = worst, .target = 0, .tolerance = 4, .criterion = ICL_AT_MOST, .evidence = ICL_COMPUTED,
                     .source = rows[predictor].form, .note = note);
}

/* ---- The predictors of others ---- */

/* d = 20, 40 pairs, 1280 prompts, which their errors are from. */
static const struct {
    const char *overrides;
    double unit;
    struct {
        const char *predictor;
        size_t pairs;
        double error;
    } rows[6];
} printed[] = {
    {"",
     20,
     {{"least-squares", 5, .765},
      {"least-squares", 10, .515},
      {"least-squares", 15, .248},
      {"nearest:3", 10, .904},
      {"nearest:3", 20, .769},
      {"nearest:3", 40, .710}}},
    {"task.class=sparse task.lasso=0.01", 3, {{"lasso:0.01", 5, .645}, {"lasso:0.01", 10, .0498}}},
};

static icl_status judge_printed(icl_reproducing *run, size_t table, icl_error *error) {
    enum { SEQUENCES = 2560, PRINTED_SEQUENCES = 1280 };
    char overrides[192];
    const icl_seeded_cell cell = {.name = "predictors",
                                  .recipe = "garg",
                                  .overrides = {overrides},
                                  .seed = run->params->seed,
                                  .sequences = SEQUENCES};
    icl_evaluation *evaluation = NULL;
    icl_status status = ICL_OK;

    snprintf(overrides, sizeof overrides, "task.d=20 task.n=40 model.layers=1 model.width=8 %s",
             printed[table].overrides);
    ICL_TRY(icl_reproduce_evaluate_seed(run, &cell, &evaluation, error));
    for (size_t i = 0; i < 6 && printed[table].rows[i].predictor; i++) {
        const char *name = printed[table].rows[i].predictor;
        char what[96];
        double own;
        const double ours = icl_garg_error(icl_reproduce_score(evaluation, name), printed[table].rows[i].pairs,
                                           printed[table].unit, &own);
        snprintf(what, sizeof what, "%s, d = 20, after %zu pairs", name, printed[table].rows[i].pairs);
        ICL_TRY(ICL_FOUND(run, error, .what = what, .quantity = "error / mean square", .ours = ours,
                          .standard_error = own, .target = printed[table].rows[i].error,
                          .tolerance = 3 * own * sqrt(1 + (double)SEQUENCES / PRINTED_SEQUENCES), .evidence = ICL_READ,
                          .source = PRINTED_SOURCE, .note = "within three standard errors of both"));
    }
done:
    icl_evaluation_destroy(&evaluation);
    return status;
}

/* ---- Trained models ---- */

/* Linear functions at scale short: near the bound while pairs are few, and not far behind d. */
static icl_status judge_bound(icl_reproducing *run, uint32_t seed, const icl_evaluation *evaluation, icl_error *error) {
    const icl_garg_setting *setting = icl_garg_setting_of(run);
    const bool is_judged = run->params->scale == ICL_SCALE_SHORT;
    const icl_score *model = icl_reproduce_score(evaluation, "model");
    icl_finding finding = {.quantity = "error / d", .evidence = is_judged ? ICL_COMPUTED : ICL_EVIDENCE_NONE};

    for (size_t k = 0; k <= 3; k++) {
        char what[64];
        snprintf(what, sizeof what, "model, seed %" PRIu32 ", after %zu pairs", seed, k);
        finding.what = what;
        finding.ours = icl_garg_error(model, k, (double)setting->dimension, &finding.standard_error);
        finding.target = form_of(2, k, setting->dimension);
        finding.tolerance = .12 * finding.target;
        finding.source = "least squares, 1 - k / d";
        ICL_CHECK(icl_reproduce_found(run, &finding, error));
    }
    if (!is_judged)
        return ICL_OK;
    finding.what = "model, one pair more than d";
    finding.ours = icl_garg_error(model, setting->dimension + 1, (double)setting->dimension, &finding.standard_error);
    finding.target = .13;
    finding.tolerance = 0;
    finding.criterion = ICL_AT_MOST;
    finding.source = "such a model in PyTorch: .12";
    return icl_reproduce_found(run, &finding, error);
}

/* Rows at full. */
typedef struct printed_model {
    const char *name, *title, *overrides;
    double unit; /* the mean of f^2 */
    const char *source;
    struct {
        size_t pairs;
        double error;
    } rows[10];
} printed_model;

static const printed_model of_linear = {
    "linear",
    "Linear functions",
    "",
    20,
    PRINTED_SOURCE,
    {{5, .769}, {10, .519}, {15, .247}, {18, .112}, {19, .0592}, {20, .0204}, {21, .0077}, {25, .00135}, {40, 4.8e-4}}};

static const printed_model others[] = {
    {"sparse",
     "Sparse linear functions",
     ICL_GARG_FULL "task.n=40 task.class=sparse",
     3,
     PRINTED_SOURCE,
     {{5, .584}, {10, .085}, {15, .0153}, {20, .0048}, {40, .0017}}},
    {"relu-network",
     "Two-layer networks",
     ICL_GARG_FULL "task.n=100 task.curriculum_n=25 task.curriculum_points=5 task.class=relu-network",
     20,
     PRINTED_SOURCE,
     {{20, .4107}, {50, .2441}, {100, .1695}}},
    {"decision-tree",
     "Decision trees",
     ICL_GARG_FULL "task.n=100 task.curriculum_n=25 task.curriculum_points=5 task.class=decision-tree",
     1,
     "section 5",
     {{100, .12}}},
};

/* As low as the printed error, or lower, but for a tenth and three standard errors. */
static icl_status judge_model(icl_reproducing *run, const printed_model *of, const icl_evaluation *evaluation,
                              icl_error *error) {
    for (size_t i = 0; i < sizeof of->rows / sizeof *of->rows && of->rows[i].error > 0; i++) {
        char what[96];
        double own;
        const double ours = icl_garg_error(icl_reproduce_score(evaluation, "model"), of->rows[i].pairs, of->unit, &own);
        snprintf(what, sizeof what, "%s, 12 layers, after %zu pairs", of->name, of->rows[i].pairs);
        ICL_CHECK(ICL_FOUND(run, error, .what = what, .quantity = "error / mean square", .ours = ours,
                            .standard_error = own, .target = of->rows[i].error,
                            .tolerance = .1 * of->rows[i].error + 3 * own, .criterion = ICL_AT_MOST,
                            .evidence = ICL_READ, .source = of->source));
    }
    return ICL_OK;
}

static icl_status train_linear(icl_reproducing *run, uint32_t seed, icl_error *error) {
    const icl_garg_setting *setting = icl_garg_setting_of(run);
    const icl_seeded_cell cell = {.name = "linear",
                                  .recipe = "garg",
                                  .overrides = {setting->overrides},
                                  .steps = setting->steps,
                                  .seed = seed,
                                  .sequences = setting->sequences};
    icl_evaluation *evaluation = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_reproduce_evaluate_seed(run, &cell, &evaluation, error));
    for (size_t predictor = 0; predictor < 3 && seed == run->params->seed; predictor++)
        ICL_TRY(judge_form(run, evaluation, predictor, error));
    ICL_TRY(judge_bound(run, seed, evaluation, error));
    if (run->params->scale == ICL_SCALE_FULL)
        ICL_TRY(judge_model(run, &of_linear, evaluation, error));
    if (seed == run->params->seed)
        ICL_TRY(icl_garg_draw(run, "garg-curves-linear", "Linear functions: errors by labelled pairs (figure 2)",
                              "transformer", (double)setting->dimension, setting->dimension, evaluation, error));
done:
    icl_evaluation_destroy(&evaluation);
    return status;
}

static icl_status train_other(icl_reproducing *run, const printed_model *of, icl_error *error) {
    const icl_garg_setting *setting = icl_garg_setting_of(run);
    const icl_seeded_cell cell = {.name = of->name,
                                  .recipe = "garg",
                                  .overrides = {of->overrides},
                                  .steps = setting->steps,
                                  .seed = run->params->seed,
                                  .sequences = 1280};
    char name[64], title[96];
    icl_evaluation *evaluation = NULL;
    icl_status status = ICL_OK;

    snprintf(name, sizeof name, "garg-curves-%s", of->name);
    snprintf(title, sizeof title, "%s: errors by labelled pairs (figure 5)", of->title);
    ICL_TRY(icl_reproduce_evaluate_seed(run, &cell, &evaluation, error));
    ICL_TRY(judge_model(run, of, evaluation, error));
    ICL_TRY(icl_garg_draw(run, name, title, "transformer", of->unit, 0, evaluation, error));
done:
    icl_evaluation_destroy(&evaluation);
    return status;
}

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    for (size_t table = 0; table < 2 && run->params->scale != ICL_SCALE_CI; table++)
        if (icl_reproduce_wants(run, "predictors") && icl_reproduce_judges(run))
            ICL_CHECK(judge_printed(run, table, error));
    for (size_t i = 0; i < icl_garg_setting_of(run)->seeds; i++)
        if (icl_reproduce_wants(run, "linear"))
            ICL_CHECK(icl_reproduce_next(run, train_linear(run, icl_reproduce_seed(run, i), error)));
    for (size_t i = 0; i < sizeof others / sizeof *others && run->params->scale == ICL_SCALE_FULL; i++)
        if (icl_reproduce_wants(run, others[i].name))
            ICL_CHECK(icl_reproduce_next(run, train_other(run, &others[i], error)));
    return ICL_OK;
}

const icl_reproduction icl_garg_curves = {
    .name = "garg-curves",
    .source = "arXiv 2208.01066, figures 2 and 5",
    .about = "errors of a transformer by the number of labelled pairs, beside least squares and other predictors",
    .cost = {"2 s", "5 min", "a week"},
    .is_shared = true,
    .run = reproduce,
};
