/*
 * Deeper stacks of linear attention go on from one step of gradient descent: von Oswald and others 2023 (arXiv
 * 2309.05858), proposition 2 and section 4.1. Two heads a layer on tokens (0, s_t, s_t, s_(t-1)), with activations cut
 * to 4 as in the paper: without it the stack is a polynomial of degree 3^L in the observations, which few sequences
 * decide.
 *
 * Judged are that each layer more lowers the loss, and that all are below one step. (One layer is, too, unlike that of
 * mesa-linear: the cut bounds what a long step does at late positions, so that all positions get a longer one.) Beside
 * them stand K steps of gradient descent in context with Chebyshev's steps, fitted here (chebyshev.c), which the paper
 * finds in trained nets.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "core/print.h"
#include "papers/curves.h"
#include "papers/losses.h"
#include "papers/mesa/mesa.h"
#include "papers/papers.h"

enum { MOST_LAYERS = 6 };

static const struct {
    size_t layers, steps, sequences, seeds;
} budgets[ICL_SCALES] = {{2, 300, 2048, 1}, {6, 1500, 10000, 1}, {6, 15000, 50000, 5}};

/* ---- Gradient descent ---- */

static icl_status add_descents(icl_reproducing *run, size_t layers, icl_curves *curves, icl_error *error) {
    for (size_t steps = 1; steps <= layers; steps++) {
        icl_mesa_descent descent;
        char what[ICL_MESA_NAME], note[96];
        double loss, error_of;

        icl_reproduce_say(run, "fitting %zu steps of gradient descent", steps);
        ICL_CHECK(icl_mesa_descend(run, steps, 2048, &descent, &loss, &error_of, error));
        snprintf(what, sizeof what, "%zu steps with Chebyshev's lengths", steps);
        icl_print(note, sizeof note, "for eigenvalues from %.3g to %.3g", descent.least, descent.largest);
        ICL_CHECK(ICL_FOUND(run, error, .what = what, .quantity = "half squared error", .ours = loss,
                            .standard_error = error_of, .note = note));
        ICL_CHECK(icl_curves_add(curves, "steps of gradient descent, Chebyshev", ICL_SERIES_REFERENCE, (double)steps,
                                 loss, error));
    }
    return ICL_OK;
}

/* ---- Trained layers ---- */

static icl_status judge(icl_reproducing *run, const icl_mesa_cell *cell, const icl_evaluation *evaluation,
                        double shallower, icl_error *error) {
    const icl_score *model = icl_reproduce_score(evaluation, "model");
    char note[32];
    icl_finding finding = {.what = cell->name,
                           .quantity = "half squared error, below one step's",
                           .ours = icl_mesa_half(model),
                           .standard_error = model ? .5 * model->se : 0,
                           .target = icl_mesa_half(icl_reproduce_score(evaluation, "gd")),
                           .criterion = ICL_AT_MOST,
                           .evidence = ICL_COMPUTED,
                           .source = "one step on the same sequences",
                           .note = note};

    snprintf(note, sizeof note, "seed %" PRIu32, cell->seed);
    ICL_CHECK(icl_reproduce_found(run, &finding, error));
    if (isnan(shallower))
        return ICL_OK;
    finding.quantity = "half squared error, below a layer less";
    finding.target = shallower;
    finding.evidence = ICL_INFERRED;
    finding.source = "section 4.1";
    return icl_reproduce_found(run, &finding, error);
}

/* *shallower is the half loss of a layer less, NaN for the first, and receives that of this depth. One layer is what
 * mesa-linear judges, and here only the mark for two. */
static icl_status train_depth(icl_reproducing *run, const icl_mesa_cell *cell, size_t layers, icl_curves *curves,
                              double *shallower, icl_error *error) {
    char title[96];
    icl_evaluation *evaluation = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_mesa_evaluate(run, cell, budgets[run->params->scale].sequences, &evaluation, error));
    if (layers > 1)
        ICL_TRY(judge(run, cell, evaluation, *shallower, error));
    *shallower = icl_mesa_half(icl_reproduce_score(evaluation, "model"));
    ICL_TRY(icl_curves_add(curves, "trained layers", ICL_SERIES_OURS, (double)layers, *shallower, error));
    ICL_TRY(icl_curves_add(curves, "one step, fitted", ICL_SERIES_REFERENCE, (double)layers,
                           icl_mesa_half(icl_reproduce_score(evaluation, "gd")), error));
    ICL_TRY(icl_curves_add(curves, "ridge .1", ICL_SERIES_REFERENCE, (double)layers,
                           icl_mesa_half(icl_reproduce_score(evaluation, "ridge:0.1")), error));
    snprintf(title, sizeof title, "%zu layers of linear attention by position", layers);
    if (cell->seed == run->params->seed && layers == budgets[run->params->scale].layers)
        ICL_TRY(icl_mesa_draw(run, "mesa-depth-positions", title, cell->name, evaluation, error));
done:
    icl_evaluation_destroy(&evaluation);
    return status;
}

static icl_status train_depths(icl_reproducing *run, uint32_t seed, icl_curves *curves, icl_error *error) {
    double shallower = (double)NAN;

    for (size_t layers = 1; layers <= budgets[run->params->scale].layers; layers++) {
        char name[ICL_MESA_NAME], overrides[96];
        const icl_mesa_cell cell = {name, overrides, budgets[run->params->scale].steps, seed};

        snprintf(name, sizeof name, "layers-%zu", layers);
        snprintf(overrides, sizeof overrides, "model.layers=%zu model.activation_clip=4 model.init=0.1", layers);
        ICL_CHECK(icl_reproduce_next(run, train_depth(run, &cell, layers, curves, &shallower, error)));
    }
    return ICL_OK;
}

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    icl_curves curves = {.figure = {.name = "mesa-depth",
                                    .title = "Layers of linear attention beside steps of gradient descent",
                                    .x_label = "layers, or steps",
                                    .y_label = "half squared error",
                                    .log_y = true}};
    icl_status status = ICL_OK;

    for (size_t i = 0; i < budgets[run->params->scale].seeds; i++) {
        char name[ICL_MESA_NAME];
        snprintf(name, sizeof name, "seed-%zu", i + 1);
        if (icl_reproduce_wants(run, name))
            ICL_TRY(train_depths(run, icl_reproduce_seed(run, i), &curves, error));
    }
    if (icl_reproduce_wants(run, "descent") && icl_reproduce_judges(run))
        ICL_TRY(add_descents(run, budgets[run->params->scale].layers, &curves, error));
    if (curves.count > 0)
        ICL_TRY(icl_curves_draw(run, &curves, error));
done:
    icl_curves_release(&curves);
    return status;
}

const icl_reproduction icl_mesa_depth = {
    .name = "mesa-depth",
    .source = "arXiv 2309.05858, proposition 2",
    .about = "one to six layers of linear attention on a dynamical system beside steps of gradient descent",
    .cost = {"4 s", "2 min", "2 h"},
    .is_shared = true,
    .run = reproduce,
};
