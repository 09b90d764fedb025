/*
 * One trained layer of linear attention is one step of gradient descent: von Oswald and others 2023 (arXiv 2309.05858),
 * proposition 1 and section 4.1. Tokens are (0, s_t, s_t, s_(t-1)) of a fully observed system with n = 10, T = 50 and
 * noise .1, two heads with keys of 20 numbers.
 *
 * The paper shows curves alone. The target is the loss of the best single step on the same sequences: attention adds up
 * what it has seen, so that it has one step for all positions, as `gd` has, and not one over their number.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "core/print.h"
#include "papers/losses.h"
#include "papers/mesa/mesa.h"
#include "papers/papers.h"

static const struct {
    size_t steps, sequences, seeds;
    double tolerance; /* relative */
} budgets[ICL_SCALES] = {{500, 2048, 1, .1}, {2500, 20000, 1, .03}, {20000, 50000, 5, .03}};

static icl_status judge(icl_reproducing *run, uint32_t seed, const icl_evaluation *evaluation, icl_error *error) {
    const icl_score *model = icl_reproduce_score(evaluation, "model"), *step = icl_reproduce_score(evaluation, "gd");
    const double target = icl_mesa_half(step);
    char what[ICL_MESA_NAME], note[128];

    snprintf(what, sizeof what, "trained layer, seed %" PRIu32, seed);
    icl_print(note, sizeof note, "one step %.4f, with the mean over the pairs %.4f, ridge .1 %.4f", target,
              icl_mesa_half(icl_reproduce_score(evaluation, "gd-mean")),
              icl_mesa_half(icl_reproduce_score(evaluation, "ridge:0.1")));
    return ICL_FOUND(run, error, .what = what, .quantity = "half squared error", .ours = icl_mesa_half(model),
                     .standard_error = model ? .5 * model->se : 0, .target = target,
                     .tolerance = budgets[run->params->scale].tolerance * target, .evidence = ICL_COMPUTED,
                     .source = "one step on the same sequences", .note = note);
}

static icl_status reproduce_seed(icl_reproducing *run, uint32_t seed, icl_error *error) {
    const icl_mesa_cell cell = {"linear", "", budgets[run->params->scale].steps, seed};
    icl_evaluation *evaluation = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_mesa_evaluate(run, &cell, budgets[run->params->scale].sequences, &evaluation, error));
    if (seed == run->params->seed)
        ICL_TRY(icl_mesa_judge_references(run, evaluation, error));
    ICL_TRY(judge(run, seed, evaluation, error));
    if (seed == run->params->seed)
        ICL_TRY(icl_mesa_draw(run, "mesa-linear", "One layer of linear attention beside one step of gradient descent",
                              "trained layer", evaluation, error));
done:
    icl_evaluation_destroy(&evaluation);
    return status;
}

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    for (size_t i = 0; i < budgets[run->params->scale].seeds; i++) {
        char name[ICL_MESA_NAME];
        snprintf(name, sizeof name, "linear-%zu", i + 1);
        if (icl_reproduce_wants(run, name))
            ICL_CHECK(icl_reproduce_next(run, reproduce_seed(run, icl_reproduce_seed(run, i), error)));
    }
    return ICL_OK;
}

const icl_reproduction icl_mesa_linear = {
    .name = "mesa-linear",
    .source = "arXiv 2309.05858, proposition 1",
    .about = "a trained layer of linear attention on a dynamical system beside one step of gradient descent",
    .cost = {"2 s", "15 s", "10 min"},
    .is_shared = true,
    .run = reproduce,
};
