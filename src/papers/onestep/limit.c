/*
 * Training that ends at the optimum: Zhang, Frei, Bartlett 2023, "Trained transformers learn linear models in-context"
 * (arXiv 2306.09927). One layer of linear attention with all entries free, x ~ N(0, Lambda), w ~ N(0, I), n labels
 * without noise, gradient flow on the squared error from W_PV = s [0 0; 0 1], W_KQ = s [T 0; 0 0], T positive
 * semidefinite, ||T||_F = 1, s^2 ||G|| sqrt(d) < 2. It ends at
 *
 *     W_PV = u [0 0; 0 1],  W_KQ = 1/u [G^-1 0; 0 0],  G = (1 + 1/n) Lambda + tr(Lambda) / n I,  u = tr(G^-2)^(1/4),
 *
 * and ||W_PV|| = ||W_KQ|| all along. The flow itself is followed in double precision (flow.h); and iclab's trainer
 * takes small steps on samples, with every entry free.
 *
 * What the layer does on other prompts follows: with m labels instead of n the loss has a closed form; covariates c
 * times as large make predictions c^2 times what they should be; a query of another scale alone does no harm; and where
 * every prompt has a covariance of its own, no layer of this kind is right, however long the prompt: for l_i ~
 * Exponential(1) a third of the targets' variance is left, where least squares leaves nothing.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/print.h"
#include "iclab/file.h"
#include "iclab/run.h"
#include "papers/losses.h"
#include "papers/onestep/flow.h"
#include "papers/onestep/prompts.h"
#include "papers/papers.h"

enum { D = ICL_LAYER_D, WIDTH = ICL_LAYER_WIDTH, SNAPSHOTS = 20, POINTS = SNAPSHOTS + 1 };

typedef struct limit_cell {
    const char *name, *law, *overrides;
    double eigenvalues[D];
    size_t n;
    icl_scale first;
} limit_cell;

#define SPECTRUM "task.covariance=spectrum:2,1.5,1,0.8,0.7 task.rotate=true"

static const limit_cell cells[] = {
    {"identity-n20", "identity", "", {1, 1, 1, 1, 1}, 20, ICL_SCALE_SHORT},
    {"identity-n100", "identity", "", {1, 1, 1, 1, 1}, 100, ICL_SCALE_SHORT},
    {"spectrum-n20", "spectrum", SPECTRUM, {2, 1.5, 1, .8, .7}, 20, ICL_SCALE_CI},
    {"spectrum-n100", "spectrum", SPECTRUM, {2, 1.5, 1, .8, .7}, 100, ICL_SCALE_SHORT},
};
enum { CELLS = sizeof cells / sizeof *cells, SHIFTED = 2 };

static const struct {
    size_t steps, sequences;
    double tolerance; /* of an entry, relative to the largest */
} budgets[ICL_SCALES] = {{6000, 20000, .02}, {20000, 100000, .01}, {100000, 400000, .01}};

/* The flow's time that training takes. Noise of the steps moves ||W_PV||^2 - ||W_KQ||^2 by a rate's multiple of it. */
#define TRAINING_TIME 12.0

#define START 0.3 /* s */

/* ---- The flow ---- */

/* T in the inputs' own coordinates: 1 on the diagonal and 1/2 beside it, over its norm. In the covariance's basis it
 * has entries everywhere. */
static void start_at(icl_one_layer *layer) {
    const double norm = sqrt(D + D * (D - 1) * .25);

    *layer = (icl_one_layer){.p = {{0}}};
    layer->p[D][D] = START;
    for (size_t i = 0; i < D; i++)
        for (size_t j = 0; j < D; j++)
            layer->q[i][j] = START / norm * (i == j ? 1 : .5);
}

/* In units of the flow's time; the fastest rate is u^2 m_11 < 20. */
#define FLOW_STEP 0.01
#define FLOW_END  150.0

typedef struct flow_course {
    double imbalance; /* largest |u^2 - ||W||^2| */
    icl_flow end;
} flow_course;

static void follow_flow(const icl_flow_moments *moments, const icl_flow *start, flow_course *out) {
    out->end = *start;
    out->imbalance = 0;
    for (size_t i = 0; i < (size_t)(FLOW_END / FLOW_STEP); i++) {
        icl_flow_advance(moments, FLOW_STEP, &out->end);
        out->imbalance = fmax(out->imbalance, fabs(icl_flow_balance(&out->end) - icl_flow_balance(start)));
    }
}

static icl_status judge_flow(icl_reproducing *run, const char *what, const icl_flow_moments *moments,
                             const icl_flow *start, icl_error *error) {
    icl_one_layer is, exact;
    icl_flow limit;
    flow_course course;
    char note[64];

    follow_flow(moments, start, &course);
    icl_flow_limit(moments, &limit);
    icl_one_layer_of_basis(course.end.u, course.end.w, NULL, &is);
    icl_one_layer_of_basis(limit.u, limit.w, NULL, &exact);
    icl_print(note, sizeof note, "u %.6f, the limit %.6f", course.end.u, limit.u);
    ICL_CHECK(ICL_FOUND(run, error, .what = what, .quantity = "largest error of an entry, relative",
                        .ours = fmax(icl_layer_distance(is.p, exact.p), icl_layer_distance(is.q, exact.q)),
                        .tolerance = .01, .criterion = ICL_AT_MOST, .evidence = ICL_COMPUTED,
                        .source = "limit of the flow", .note = note));
    return ICL_FOUND(run, error, .what = what, .quantity = "change of ||W_PV||^2 - ||W_KQ||^2",
                     .ours = course.imbalance, .tolerance = 1e-7, .criterion = ICL_AT_MOST, .evidence = ICL_COMPUTED,
                     .source = "the flow keeps it");
}

static void start_in_basis(const double *root, icl_flow *start) {
    icl_one_layer layer;

    start_at(&layer);
    start->u = layer.p[D][D];
    icl_one_layer_in_basis(&layer, root, start->w);
}

/* ---- Training on samples ---- */

static double square_norm(double matrix[WIDTH][WIDTH]) {
    double sum = 0;
    for (size_t i = 0; i < (size_t)WIDTH * WIDTH; i++)
        sum += matrix[i / WIDTH][i % WIDTH] * matrix[i / WIDTH][i % WIDTH];
    return sum;
}

/* Along the way: the flow's time, both norms, and W's first and last entry in the covariance's basis. */
typedef struct trained_course {
    double time[POINTS], pv[POINTS], kq[POINTS], first[POINTS], last[POINTS];
    double flow[3][POINTS]; /* the flow's u, first and last entry, at the same times */
    double imbalance;       /* largest | ||P||^2 - ||Q||^2 | over the last ||P||^2 */
} trained_course;

/* The trainer's loss is the whole squared error, of which the flow's is half; its rates fall by a cosine to 0. */
static double time_at(double step, double steps) {
    const double pi = acos(-1);
    return TRAINING_TIME * (step / steps + sin(pi * step / steps) / pi);
}

static icl_status follow_training(icl_reproducing *run, const limit_cell *cell, icl_trainer *trainer,
                                  const double *root, trained_course *out, icl_error *error) {
    const size_t steps = budgets[run->params->scale].steps;
    float values[ICL_LAYER_SIZE];
    double inner[D * D];
    icl_one_layer layer;
    char name[64];
    char *folder = NULL;
    icl_status status = ICL_OK;

    snprintf(name, sizeof name, "runs/%s", cell->name);
    ICL_TRY(icl_path_join(run->params->folder, name, &folder, error));
    for (size_t i = 0; i < POINTS; i++) {
        const size_t step = i * (steps / SNAPSHOTS);
        ICL_TRY(icl_run_read_snapshot(folder, step, icl_trainer_model(trainer), values, error));
        ICL_TRY(icl_one_layer_read(icl_trainer_model(trainer), values, &layer, error));
        icl_one_layer_in_basis(&layer, root, inner);
        out->time[i] = time_at((double)step, (double)steps);
        out->pv[i] = sqrt(square_norm(layer.p));
        out->kq[i] = sqrt(square_norm(layer.q));
        out->first[i] = inner[0];
        out->last[i] = inner[D * D - 1];
        out->imbalance = fmax(out->imbalance, fabs(square_norm(layer.p) - square_norm(layer.q)));
    }
    out->imbalance /= out->pv[SNAPSHOTS] * out->pv[SNAPSHOTS];
done:
    icl_free(&folder);
    return status;
}

static void add_flow(const icl_flow_moments *moments, const icl_flow *start, trained_course *to) {
    icl_flow at = *start;
    size_t steps = 0;

    for (size_t i = 0; i < POINTS; i++) {
        for (; (double)steps < round(to->time[i] / FLOW_STEP); steps++)
            icl_flow_advance(moments, FLOW_STEP, &at);
        to->flow[0][i] = at.u;
        to->flow[1][i] = at.w[0];
        to->flow[2][i] = at.w[D * D - 1];
    }
}

/* How far training is from the flow at the same time, over the flow's u at the end. */
static icl_status judge_course(icl_reproducing *run, const char *what, const trained_course *is, icl_error *error) {
    const double *const trained[] = {is->pv, is->first, is->last};
    double farthest = 0;

    for (size_t k = 0; k < 3; k++)
        for (size_t i = 0; i < POINTS; i++)
            farthest = fmax(farthest, fabs(trained[k][i] - is->flow[k][i]));
    return ICL_FOUND(run, error, .what = what, .quantity = "distance from the flow on the way, relative",
                     .ours = farthest / is->flow[0][SNAPSHOTS], .tolerance = budgets[run->params->scale].tolerance,
                     .criterion = ICL_AT_MOST, .evidence = ICL_COMPUTED, .source = "flow in double precision",
                     .note = "the norm, and two entries");
}

static icl_status draw_course(icl_reproducing *run, const trained_course *is, icl_error *error) {
    const icl_series series[] = {
        {"||W_PV||, trained", ICL_SERIES_OURS, POINTS, is->time, is->pv, NULL},
        {"||W_KQ||, trained", ICL_SERIES_OURS, POINTS, is->time, is->kq, NULL},
        {"W_KQ along the largest variance", ICL_SERIES_OURS, POINTS, is->time, is->first, NULL},
        {"W_KQ along the least variance", ICL_SERIES_OURS, POINTS, is->time, is->last, NULL},
        {"gradient flow: both norms", ICL_SERIES_REFERENCE, POINTS, is->time, is->flow[0], NULL},
        {"gradient flow: largest", ICL_SERIES_REFERENCE, POINTS, is->time, is->flow[1], NULL},
        {"gradient flow: least", ICL_SERIES_REFERENCE, POINTS, is->time, is->flow[2], NULL}};
    return ICL_DRAW_FIGURE(run, error, .name = "course", .title = "Small steps on samples beside gradient flow, n = 20",
                           .x_label = "time of the flow", .y_label = "entry, or norm",
                           .count = sizeof series / sizeof *series, .series = series);
}

static icl_status draw_matrices(icl_reproducing *run, icl_one_layer *is, icl_one_layer *exact, icl_error *error) {
    const icl_heat_map maps[] = {{"trained W_PV", WIDTH, WIDTH, is->p[0], NULL, NULL},
                                 {"trained W_KQ", WIDTH, WIDTH, is->q[0], NULL, NULL},
                                 {"limit of W_KQ", WIDTH, WIDTH, exact->q[0], NULL, NULL}};
    return ICL_DRAW_HEAT_MAPS(run, error, .name = "matrices",
                              .title = "One layer, rotated spectrum, n = 20: where training ends",
                              .row_label = "x, and last y", .column_label = "x, and last y", .count = 3, .maps = maps);
}

static icl_status judge_matrices(icl_reproducing *run, const limit_cell *cell, icl_one_layer *is, icl_one_layer *exact,
                                 double imbalance, icl_error *error) {
    icl_finding finding = {.what = cell->name,
                           .quantity = "largest error of an entry of W_PV, relative",
                           .ours = icl_layer_distance(is->p, exact->p),
                           .tolerance = budgets[run->params->scale].tolerance,
                           .criterion = ICL_AT_MOST,
                           .evidence = ICL_COMPUTED,
                           .source = "limit of the flow"};

    ICL_CHECK(icl_reproduce_found(run, &finding, error));
    finding.quantity = "largest error of an entry of W_KQ, relative";
    finding.ours = icl_layer_distance(is->q, exact->q);
    ICL_CHECK(icl_reproduce_found(run, &finding, error));
    finding.quantity = "largest | ||W_PV||^2 - ||W_KQ||^2 |, relative";
    finding.ours = imbalance;
    finding.source = "the flow keeps them equal";
    return icl_reproduce_found(run, &finding, error);
}

/* ---- A covariance of its own for each prompt ---- */

static icl_status judge_random(icl_reproducing *run, size_t n, size_t sequences, icl_error *error) {
    const double exact = icl_exponential_loss((double)n);
    const icl_prompt_change change = {.is_covariance = true};
    icl_flow_moments moments;
    icl_flow start = {.u = START}, limit;
    icl_one_layer layer;
    icl_changed_loss loss;
    icl_recipe *recipe = NULL;
    char what[64], note[96];
    icl_status status = ICL_OK;

    icl_flow_exponential((double)n, &moments);
    icl_flow_limit(&moments, &limit);
    for (size_t i = 0; i < D; i++)
        start.w[i * (D + 1)] = START / sqrt(D);
    snprintf(what, sizeof what, "random covariances, n = %zu", n);
    ICL_TRY(judge_flow(run, what, &moments, &start, error));
    ICL_TRY(icl_reproduce_recipe("gradientflow", &recipe, error));
    ICL_TRY(icl_reproduce_override(recipe, error, "task.n=%zu", n));
    icl_one_layer_of_basis(limit.u, limit.w, NULL, &layer);
    ICL_TRY(icl_one_layer_measure(run, recipe, &layer, &change, sequences, &loss, error));
    icl_print(note, sizeof note, "one layer at its best; a fixed covariance: %.4f",
              icl_prompt_length_loss(cells[0].eigenvalues, (double)n, (double)n));
    ICL_TRY(ICL_FOUND(run, error, .what = what, .quantity = "squared error", .ours = loss.mse,
                      .standard_error = loss.se, .target = exact, .tolerance = 4 * loss.se, .evidence = ICL_COMPUTED,
                      .source = "closed form", .note = note));
    ICL_TRY(ICL_FOUND(run, error, .what = what, .quantity = "share of E[y^2]", .ours = loss.mse / loss.target,
                      .standard_error = loss.se / loss.target, .target = 1. / 3, .tolerance = 4 * loss.se / loss.target,
                      .criterion = ICL_AT_LEAST, .evidence = ICL_COMPUTED, .source = "n to infinity"));
    ICL_TRY(ICL_FOUND(run, error, .what = what, .quantity = "share of E[y^2], least squares",
                      .ours = loss.ols / loss.target, .tolerance = 1e-6, .criterion = ICL_AT_MOST,
                      .evidence = ICL_COMPUTED, .source = "labels without noise give w"));
done:
    icl_recipe_destroy(&recipe);
    return status;
}

/* ---- Cells ---- */

static icl_status judge_cell(icl_reproducing *run, const limit_cell *cell, const icl_recipe *recipe,
                             icl_trainer *trainer, icl_error *error) {
    const double *root = icl_task_get_prior(icl_trainer_task(trainer))->covariance_root;
    icl_flow_moments moments;
    icl_flow start, limit;
    icl_one_layer is, exact;
    trained_course course = {.imbalance = 0};
    char what[64];

    icl_flow_fixed(cell->eigenvalues, (double)cell->n, &moments);
    icl_flow_limit(&moments, &limit);
    start_in_basis(root, &start);
    icl_one_layer_of_basis(limit.u, limit.w, root, &exact);
    snprintf(what, sizeof what, "%s, gradient flow", cell->name);
    ICL_CHECK(judge_flow(run, what, &moments, &start, error));
    ICL_CHECK(icl_one_layer_read_trained(trainer, &is, error));
    ICL_CHECK(follow_training(run, cell, trainer, root, &course, error));
    add_flow(&moments, &start, &course);
    ICL_CHECK(judge_matrices(run, cell, &is, &exact, course.imbalance, error));
    ICL_CHECK(judge_course(run, cell->name, &course, error));
    if (cell != &cells[SHIFTED])
        return ICL_OK;
    ICL_CHECK(draw_course(run, &course, error));
    ICL_CHECK(draw_matrices(run, &is, &exact, error));
    return icl_prompts_judge(run,
                             &(icl_prompts){.law = cell->law,
                                            .eigenvalues = cell->eigenvalues,
                                            .n = cell->n,
                                            .recipe = recipe,
                                            .layer = &is,
                                            .slack = budgets[run->params->scale].tolerance,
                                            .sequences = budgets[run->params->scale].sequences},
                             error);
}

static icl_status reproduce_cell(icl_reproducing *run, const limit_cell *cell, icl_error *error) {
    const size_t steps = budgets[run->params->scale].steps;
    float initial[ICL_LAYER_SIZE];
    icl_one_layer start;
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_reproduce_recipe("gradientflow", &recipe, error));
    ICL_TRY(icl_reproduce_override_all(recipe, cell->overrides, error));
    ICL_TRY(icl_reproduce_override(recipe, error, "task.n=%zu", cell->n));
    ICL_TRY(icl_reproduce_override(recipe, error, "train.learning_rate=%.17g", TRAINING_TIME / (double)steps));
    ICL_TRY(icl_reproduce_override(recipe, error, "train.steps=%zu", steps));
    ICL_TRY(icl_reproduce_override(recipe, error, "train.snapshot_every=%zu", steps / SNAPSHOTS));
    start_at(&start);
    icl_one_layer_write(&start, initial);
    ICL_TRY(icl_reproduce_cell(run, cell->name, recipe, initial, &trainer, error));
    ICL_TRY(judge_cell(run, cell, recipe, trainer, error));
done:
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
    return status;
}

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    for (size_t i = 0; i < CELLS; i++)
        if (run->params->scale >= cells[i].first && icl_reproduce_wants(run, cells[i].name))
            ICL_CHECK(icl_reproduce_next(run, reproduce_cell(run, &cells[i], error)));
    if (!icl_reproduce_wants(run, "random") || !icl_reproduce_judges(run))
        return ICL_OK;
    ICL_CHECK(judge_random(run, 20, budgets[run->params->scale].sequences, error));
    return run->params->scale == ICL_SCALE_CI
               ? ICL_OK
               : judge_random(run, 1000, budgets[run->params->scale].sequences / 10, error);
}

const icl_reproduction icl_gradientflow_limit = {
    .name = "gradientflow-limit",
    .source = "arXiv 2306.09927",
    .about = "one layer by small steps of gradient descent: where it ends, and its loss on prompts of other laws",
    .cost = {"2 s", "20 s", "2 min"},
    .is_shared = true,
    .run = reproduce,
};
