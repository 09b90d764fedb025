/*
 * A trained mesa layer is ridge regression at every position: von Oswald and others 2023 (arXiv 2309.05858), section 3,
 * with the layer of their successor (2506.05233), which solves by conjugate gradients.
 *
 * One head with keys of n_s numbers on tokens (0, s_t, s_t, s_(t-1)). The ridge, what is forgotten and how strongly
 * each token is written are learned. The target is the best of four ridge regressions on the same sequences.
 *
 * At scale full also the paper's hybrid: softmax attention that must find the observation before, then a mesa layer, on
 * tokens that hold s_t alone. There one step of gradient descent is the mark to stay below; the paper's curve lies near
 * ridge regression.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "core/print.h"
#include "papers/losses.h"
#include "papers/mesa/mesa.h"
#include "papers/papers.h"

static const char *const layer = "model.mixer=mesa model.heads=1 model.key_width=10 model.value_width=10 "
                                 "model.normalize_keys=none model.iterations=15";
static const char *const hybrid = "task.constructed=false model.mixer=softmax,mesa model.layers=2 model.heads=4 "
                                  "model.width=80 model.key_width=20 model.value_width=20 model.positions=learned "
                                  "model.norm=rms model.normalize_keys=unit train.batch=256";

static const struct {
    size_t steps, sequences, seeds, hybrid_steps;
    double tolerance; /* relative */
} budgets[ICL_SCALES] = {{250, 2048, 1, 0, .25}, {1500, 20000, 1, 0, .05}, {10000, 50000, 5, 20000, .05}};

static const icl_score *best_ridge(const icl_evaluation *evaluation) {
    static const char *const names[] = {"ridge:0.001", "ridge:0.1", "ridge:1", "ridge:10"};
    const icl_score *best = NULL;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const icl_score *score = icl_reproduce_score(evaluation, names[i]);
        if (score && (!best || score->mse < best->mse))
            best = score;
    }
    return best;
}

/* Half losses behind so many observations, for the note. */
static double half_at(const icl_score *score, size_t seen) {
    return score && seen <= score->position_count ? .5 * score->positions[seen - 1].loss : (double)NAN;
}

static icl_status judge(icl_reproducing *run, const icl_mesa_cell *cell, const icl_score *target, double tolerance,
                        const icl_evaluation *evaluation, icl_error *error) {
    const icl_score *model = icl_reproduce_score(evaluation, "model");
    char what[ICL_MESA_NAME], note[160];

    snprintf(what, sizeof what, "%s, seed %" PRIu32, cell->name, cell->seed);
    icl_print(note, sizeof note, "%s; after 10, 20, 50 observations %.3f, %.3f, %.3f against %.3f, %.3f, %.3f",
              target ? target->predictor : "", half_at(model, 10), half_at(model, 20), half_at(model, 50),
              half_at(target, 10), half_at(target, 20), half_at(target, 50));
    return ICL_FOUND(run, error, .what = what, .quantity = "half squared error", .ours = icl_mesa_half(model),
                     .standard_error = model ? .5 * model->se : 0, .target = icl_mesa_half(target),
                     .tolerance = tolerance * icl_mesa_half(target), .criterion = ICL_AT_MOST, .evidence = ICL_COMPUTED,
                     .source = "on the same sequences", .note = note);
}

static icl_status reproduce_cell(icl_reproducing *run, const icl_mesa_cell *cell, bool is_hybrid, icl_error *error) {
    icl_evaluation *evaluation = NULL;
    char title[96];
    icl_status status = ICL_OK;

    ICL_TRY(icl_mesa_evaluate(run, cell, budgets[run->params->scale].sequences, &evaluation, error));
    if (!is_hybrid && cell->seed == run->params->seed)
        ICL_TRY(icl_mesa_judge_references(run, evaluation, error));
    ICL_TRY(judge(run, cell, is_hybrid ? icl_reproduce_score(evaluation, "gd") : best_ridge(evaluation),
                  is_hybrid ? 0 : budgets[run->params->scale].tolerance, evaluation, error));
    snprintf(title, sizeof title, "%s beside ridge regression",
             is_hybrid ? "Softmax attention and a mesa layer" : "A mesa layer");
    if (cell->seed == run->params->seed)
        ICL_TRY(icl_mesa_draw(run, cell->name, title, "trained", evaluation, error));
done:
    icl_evaluation_destroy(&evaluation);
    return status;
}

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    for (int is_hybrid = 0; is_hybrid < 2; is_hybrid++)
        for (size_t i = 0; i < budgets[run->params->scale].seeds; i++) {
            const icl_mesa_cell cell = {is_hybrid ? "hybrid" : "mesa-layer", is_hybrid ? hybrid : layer,
                                        is_hybrid ? budgets[run->params->scale].hybrid_steps
                                                  : budgets[run->params->scale].steps,
                                        icl_reproduce_seed(run, i)};
            if (cell.steps > 0 && icl_reproduce_wants(run, cell.name))
                ICL_CHECK(icl_reproduce_next(run, reproduce_cell(run, &cell, is_hybrid, error)));
        }
    return ICL_OK;
}

const icl_reproduction icl_mesa_layer = {
    .name = "mesa-layer",
    .source = "arXiv 2309.05858, section 3",
    .about = "a trained mesa layer on a dynamical system beside ridge regression by position",
    .cost = {"2 s", "15 s", "5 h"},
    .is_shared = true,
    .run = reproduce,
};
