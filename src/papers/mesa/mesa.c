#include "papers/mesa/mesa.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "papers/losses.h"

enum { MOST_SERIES = 8, MOST_POSITIONS = 50 };

/* Sequences of the simulation that the printed references are from. */
#define OTHER_SEQUENCES 3000.0

icl_status icl_mesa_evaluate(icl_reproducing *run, const icl_mesa_cell *cell, size_t sequences,
                             icl_evaluation **evaluation, icl_error *error) {
    char folder[ICL_MESA_NAME + 32];
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = NULL;
    icl_status status = ICL_OK;

    snprintf(folder, sizeof folder, "runs/%s-%" PRIu32, cell->name, cell->seed);
    ICL_TRY(icl_reproduce_recipe("mesa", &recipe, error));
    ICL_TRY(icl_reproduce_override_all(recipe, cell->overrides, error));
    ICL_TRY(icl_reproduce_override(recipe, error, "train.steps=%zu", cell->steps));
    ICL_TRY(icl_reproduce_override(recipe, error, "train.seed=%" PRIu32, cell->seed));
    ICL_TRY(icl_reproduce_override(recipe, error, "eval.seed=%" PRIu32, run->params->seed));
    ICL_TRY(icl_reproduce_override(recipe, error, "eval.sequences=%zu", sequences));
    ICL_TRY(icl_reproduce_train(run, folder, recipe, &trainer, error));
    ICL_TRY(icl_evaluate(run->params->backend, trainer, recipe, evaluation, error));
done:
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
    return status;
}

double icl_mesa_half(const icl_score *score) {
    return score ? .5 * score->mse : (double)NAN;
}

/* ---- Reference predictors ---- */

/* n = 10, T = 50, noise .1. Predicting 0 has the closed form n (1 + p^2 (T + 1) / 2) / 2, and who knows W n p^2 / 2. */
static const struct {
    const char *name, *what, *source;
    double loss;
    bool is_exact;
} printed[] = {
    {"zero", "the prediction 0", "closed form", 6.275, true},
    {"gd", "one step, raw sum", "simulation of 3,000 sequences", 3.526, false},
    {"gd-mean", "one step, mean over the pairs", "simulation of 3,000 sequences", 3.126, false},
    {"ridge:0.001", "ridge .001", "simulation of 3,000 sequences", .675, false},
    {"ridge:0.1", "ridge .1", "simulation of 3,000 sequences", .655, false},
    {"ridge:1", "ridge 1", "simulation of 3,000 sequences", .702, false},
    {"ridge:10", "ridge 10", "simulation of 3,000 sequences", 1.276, false},
    {"floor", "who knows W", "closed form", .05, true},
};

icl_status icl_mesa_judge_references(icl_reproducing *run, const icl_evaluation *evaluation, icl_error *error) {
    for (size_t i = 0; i < sizeof printed / sizeof *printed; i++) {
        const icl_score *score = icl_reproduce_score(evaluation, printed[i].name);
        const double own = score ? .5 * score->se : 0;
        const double ratio = printed[i].is_exact ? 0 : (double)evaluation->sequences / OTHER_SEQUENCES;
        ICL_CHECK(ICL_FOUND(run, error, .what = printed[i].what, .quantity = "half squared error",
                            .ours = icl_mesa_half(score), .standard_error = own, .target = printed[i].loss,
                            .tolerance = 3 * own * sqrt(1 + ratio), .evidence = ICL_COMPUTED,
                            .source = printed[i].source,
                            .note = printed[i].is_exact ? NULL : "within three standard errors of both"));
    }
    return ICL_OK;
}

/* ---- Figures ---- */

icl_status icl_mesa_draw(icl_reproducing *run, const char *name, const char *title, const char *ours,
                         const icl_evaluation *evaluation, icl_error *error) {
    static const char *const shown[] = {"model", "zero", "gd", "gd-mean", "ridge:0.1", "floor"};
    double at[MOST_POSITIONS], losses[MOST_SERIES][MOST_POSITIONS];
    icl_series series[MOST_SERIES];
    size_t used = 0;

    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        const icl_score *score = icl_reproduce_score(evaluation, shown[i]);
        if (!score || score->position_count > MOST_POSITIONS)
            continue;
        for (size_t t = 0; t < score->position_count; t++) {
            at[t] = (double)(score->positions[t].position + 1);
            losses[used][t] = .5 * score->positions[t].loss;
        }
        series[used] = (icl_series){i == 0 ? ours : shown[i],
                                    i == 0 ? ICL_SERIES_LINE : ICL_SERIES_REFERENCE,
                                    score->position_count,
                                    at,
                                    losses[used],
                                    NULL};
        used++;
    }
    return ICL_DRAW_FIGURE(run, error, .name = name, .title = title, .x_label = "observations seen",
                           .y_label = "half squared error", .log_y = true, .count = used, .series = series);
}
