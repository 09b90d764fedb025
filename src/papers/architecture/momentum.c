/*
 * Linear attention with momentum: Nguyen and others 2022, "Momentum Transformer" (arXiv 2208.00579). The state of
 * linear attention takes a step for each token; with momentum b these are steps of the heavy ball,
 *
 *     m_t = b m_(t-1) + k_t v_t^T,  S_t = S_(t-1) + m_t
 *
 * so that S_t = sum over s <= t of (1 - b^(t-s+1)) / (1 - b) k_s v_s^T: earlier tokens weigh more than the last ones.
 *
 * Exactly: with b = 0 it is linear attention; where all tokens are the same, S_t is that of linear attention times
 *
 *     f_t = 1 / (1 - b) (1 - b (1 - b^t) / (t (1 - b))),  which tends to 1 / (1 - b);
 *
 * and token by token, from states, it gives what it gives for a whole sequence. The paper's tables are not at hand, so
 * that what momentum does to trained models is shown and not judged: loss by b, on the same seeds and sequences.
 */
#include "papers/architecture/momentum.h"

#include <math.h>

#include "core/print.h"
#include "papers/curves.h"
#include "papers/papers.h"
#include "papers/seeds.h"

enum { TASKS = 2, MOMENTA = 3, MOST_SEEDS = 5 };

static const double momenta[MOMENTA] = {0, .5, .9};

static const struct {
    const char *name, *what, *recipe, *overrides;
    const char *before;       /* mixers before linear attention */
    size_t steps[ICL_SCALES]; /* 0: not at this scale */
} tasks[TASKS] = {
    {"dynamics", "dynamical system", "mesa", "eval.predictors=", "", {60, 1000, 10000}},
    {"recall", "recall", "recall", "eval.predictors= eval.every=0", "conv,", {0, 600, 6000}},
};

static const size_t seed_counts[ICL_SCALES] = {2, 3, MOST_SEEDS};

/* ---- Trained models ---- */

/* Curves over the momentum: losses, accuracies, and what momentum changes of the loss on the same seed. */
typedef struct outcome {
    icl_curves losses, accuracies, changes;
} outcome;

static icl_status train_cell(icl_reproducing *run, size_t task, double momentum, uint32_t seed, outcome *to,
                             double *loss, icl_error *error) {
    char mixer[ICL_MOMENTUM_MIXER], name[ICL_SEEDED_NAME];
    const icl_seeded_cell cell = {.name = name,
                                  .recipe = tasks[task].recipe,
                                  .overrides = {tasks[task].overrides, mixer},
                                  .steps = tasks[task].steps[run->params->scale],
                                  .seed = seed};
    icl_evaluation *evaluation = NULL;
    icl_status status = ICL_OK;

    icl_print(name, sizeof name, "%s-momentum-%g", tasks[task].name, momentum);
    icl_momentum_mixer(tasks[task].before, momentum > 0 ? momentum : -1, mixer);
    ICL_TRY(icl_reproduce_evaluate_seed(run, &cell, &evaluation, error));
    const icl_score *score = &evaluation->scores[0];
    *loss = score->mse;
    ICL_TRY(icl_curves_add(&to->losses, tasks[task].what, ICL_SERIES_OURS, momentum, score->mse, error));
    ICL_TRY(icl_curves_add(&to->accuracies, tasks[task].what, ICL_SERIES_OURS, momentum, score->accuracy, error));
done:
    icl_evaluation_destroy(&evaluation);
    return status;
}

static icl_status show_momentum(icl_reproducing *run, size_t task, double momentum, const outcome *of,
                                icl_error *error) {
    const icl_curve_point loss = icl_curves_at(&of->losses, tasks[task].what, momentum);
    const icl_curve_point accuracy = icl_curves_at(&of->accuracies, tasks[task].what, momentum);
    const icl_curve_point change = icl_curves_at(&of->changes, tasks[task].what, momentum);
    char what[ICL_SEEDED_NAME], note[64] = "";

    icl_print(what, sizeof what, momentum > 0 ? "%s, b = %g" : "%s, linear attention", tasks[task].what, momentum);
    if (!isnan(accuracy.mean))
        icl_print(note, sizeof note, "accuracy %.4f +- %.4f", accuracy.mean, accuracy.standard_error);
    ICL_CHECK(ICL_FOUND_POINT(run, error, loss, .what = what, .quantity = "loss", .note = note));
    if (momentum == 0)
        return ICL_OK;
    return ICL_FOUND_POINT(run, error, change, .what = what, .quantity = "loss above that of linear attention",
                           .note = "seed by seed");
}

static icl_status reproduce_task(icl_reproducing *run, size_t task, icl_error *error) {
    double loss = (double)NAN, linear[MOST_SEEDS] = {0};
    outcome of = {
        .losses.figure = {
            .name = tasks[task].name, .title = "Loss by momentum", .x_label = "momentum b", .y_label = "loss"}};
    icl_status status = ICL_OK;

    for (size_t i = 0; i < MOMENTA; i++) {
        for (uint32_t seed = 0; seed < seed_counts[run->params->scale]; seed++) {
            ICL_TRY(icl_reproduce_next(
                run, train_cell(run, task, momenta[i], icl_reproduce_seed(run, seed), &of, &loss, error)));
            if (i == 0)
                linear[seed] = loss;
            ICL_TRY(
                icl_curves_add(&of.changes, tasks[task].what, ICL_SERIES_OURS, momenta[i], loss - linear[seed], error));
        }
        ICL_TRY(show_momentum(run, task, momenta[i], &of, error));
    }
    ICL_TRY(icl_curves_draw(run, &of.losses, error));
done:
    icl_curves_release(&of.losses);
    icl_curves_release(&of.accuracies);
    icl_curves_release(&of.changes);
    return status;
}

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    if (icl_reproduce_wants(run, "exact") && icl_reproduce_judges(run))
        ICL_CHECK(icl_momentum_judge_exact(run, error));
    for (size_t task = 0; task < TASKS; task++)
        if (tasks[task].steps[run->params->scale] > 0 && icl_reproduce_wants(run, tasks[task].name))
            ICL_CHECK(reproduce_task(run, task, error));
    return ICL_OK;
}

const icl_reproduction icl_momentum_recurrence = {
    .name = "momentum-recurrence",
    .source = "arXiv 2208.00579",
    .about = "linear attention with momentum: what is exact, and its loss by momentum",
    .cost = {"3 s", "5 min", "2 h"},
    .is_shared = true,
    .run = reproduce,
};
