/*
 * One layer of linear attention takes one step of gradient descent: Mahankali, Hashimoto, Ma 2023, "One step of
 * gradient descent is provably the optimal in-context learner with one layer of linear self-attention" (arXiv
 * 2307.03576). The paper has no tables. The global minimiser of the expected loss predicts x^T A sum y_i x_i over n
 * labels:
 *
 * - x ~ N(0, Lambda), w ~ N(0, I), y_i = <w, x_i> + noise of variance s. With h = sum y_i x_i and the Wishart matrix
 *   V = sum x_i x_i^T, E[V] = n Lambda and E[V^2] = n ((n + 1) Lambda^2 + tr(Lambda) Lambda), the loss
 *   E(x^T A h - w^T x)^2 = tr(Lambda A E[h h^T] A^T) - 2 tr(Lambda A E[h w^T]) + tr(Lambda) has E[h w^T] = n Lambda and
 *   E[h h^T] = E[V^2] + n s Lambda. So A = ((n + 1) Lambda + (tr(Lambda) + s) I)^-1, a preconditioned step, which for
 *   Lambda = I is a step of 1 / (n + d + 1 + s); the loss is then sum_i l_i (1 - n a_i l_i).
 * - w ~ N(0, Lambda^-1) is that of Lambda = I in other coordinates: A = Lambda^-1 / (n + d + 1 + s).
 * - Targets y = f(x) that are not linear, of a law that no rotation and no change of sign alters: still A = a I. For x
 *   uniform on the unit sphere E[f(x) x] = k e for a direction e, so E[f(x) x^T h] = n E k^2 and
 *   E(x^T h)^2 = n / d (E f^2 + s + (n - 1) E k^2): a = d E k^2 / (E f^2 + s + (n - 1) E k^2). With slopes and offset
 *   uniform up to L: affine functions have E k^2 = L^2 / (3 d^2) and E f^2 = L^2 / 3 (1 + 1 / d); those made of two
 *   ReLUs L^2 / (6 d^2) and the same E f^2. Even functions have k = 0: one layer sees nothing of them.
 *
 * What else the layer could add to the prediction, the blocks of P and Q that stay 0, is even in the labels, so that it
 * cannot help, and the paper proves that no other point is as good.
 */
#include <math.h>
#include <stdio.h>

#include "core/print.h"
#include "papers/losses.h"
#include "papers/onestep/layer.h"
#include "papers/papers.h"

enum { D = ICL_LAYER_D, CONTEXTS = 3, NOISES = 4 };

static const size_t contexts[CONTEXTS] = {10, 20, 40};
static const double deviations[NOISES] = {0, .5, 1, 2}; /* sqrt(s) */

typedef enum data_law { NORMAL = 0, COLOURED, WHITENED, AFFINE, RELU, EVEN } data_law;

typedef struct noise_cell {
    const char *name, *overrides;
    data_law law;
    size_t n;
    double deviation;
    icl_scale first;
} noise_cell;

static const double spectrum[D] = {2, 1.5, 1, .8, .7};
#define SPECTRUM  "task.covariance=spectrum:2,1.5,1,0.8,0.7 task.rotate=true "
#define LIPSCHITZ 1.0

static const noise_cell others[] = {
    {"covariance", SPECTRUM, COLOURED, 20, 1, ICL_SCALE_CI},
    {"inverse-covariance", SPECTRUM "task.weights=inverse-covariance", WHITENED, 20, 1, ICL_SCALE_SHORT},
    {"affine", "task.function=affine", AFFINE, 20, .1, ICL_SCALE_SHORT},
    {"relu", "task.function=relu", RELU, 20, .1, ICL_SCALE_CI},
    {"cosine", "task.function=cosine", EVEN, 20, .1, ICL_SCALE_SHORT},
    {"quadratic", "task.function=quadratic", EVEN, 20, .1, ICL_SCALE_SHORT},
};

static const struct {
    size_t steps, function_steps, sequences;
    double step, entry, function_step; /* tolerances, relative */
} budgets[ICL_SCALES] = {
    {2000, 300, 20000, .01, .01, .15},
    {12000, 3000, 100000, .01, .01, .03},
    {60000, 40000, 400000, .01, .01, .02},
};

/* A training ends at this time of the gradient flow. */
#define TRAINING_TIME 12.0
#define START         0.3

static bool is_function(data_law law) {
    return law >= AFFINE;
}

/* ---- The exact step ---- */

static double square(double value) {
    return value * value;
}

/* n a_i along the axes. */
static void find_steps(const noise_cell *cell, double steps[D]) {
    const double n = (double)cell->n, s = square(cell->deviation);
    const double k = square(LIPSCHITZ) / ((cell->law == AFFINE ? 3 : 6) * square(D));
    double trace = 0;

    for (size_t i = 0; i < D; i++)
        trace += spectrum[i];
    for (size_t i = 0; i < D; i++) {
        if (cell->law == COLOURED)
            steps[i] = n / ((n + 1) * spectrum[i] + trace + s);
        else if (is_function(cell->law))
            steps[i] = cell->law == EVEN ? 0 : n * D * k / (square(LIPSCHITZ) / 3 * (1 + 1. / D) + s + (n - 1) * k);
        else
            steps[i] = n / (n + D + 1 + s) / (cell->law == WHITENED ? spectrum[i] : 1);
    }
}

/* The least expected loss; not of functions. */
static double least_loss(const noise_cell *cell, const double steps[D]) {
    double loss = 0;
    for (size_t i = 0; i < D; i++) {
        const double l = cell->law == COLOURED ? spectrum[i] : 1;
        loss += l * (1 - steps[i] * (cell->law == WHITENED ? spectrum[i] : l));
    }
    return loss;
}

static void layer_of(const double steps[D], const double *root, icl_one_layer *layer) {
    double inner[D * D] = {0};
    for (size_t i = 0; i < D; i++)
        inner[i * (D + 1)] = steps[i];
    icl_one_layer_of_basis(1, inner, root, layer);
}

/* The mean of the layer's step along the axes. */
static double mean_step(const icl_one_layer *layer) {
    double sum = 0;
    for (size_t i = 0; i < D; i++)
        sum += layer->q[i][i];
    return sum / D;
}

/* ---- Training ---- */

/* Small steps of gradient descent as in gradientflow-limit; functions, whose gradients are small, by the optimizer of
 * the recipe that they come from. */
static icl_status make_recipe(const icl_reproducing *run, const noise_cell *cell, icl_recipe **recipe,
                              icl_error *error) {
    const bool functions = is_function(cell->law);
    const size_t steps = functions ? budgets[run->params->scale].function_steps : budgets[run->params->scale].steps;

    ICL_CHECK(icl_reproduce_recipe(functions ? "window" : "gradientflow", recipe, error));
    if (functions)
        ICL_CHECK(icl_reproduce_override_all(
            *recipe,
            "model.family=linear model.parameterization=full model.scale=mean train.batch=4096 "
            "train.learning_rate=0.03",
            error));
    else
        ICL_CHECK(icl_reproduce_override(*recipe, error, "train.learning_rate=%.17g", TRAINING_TIME / (double)steps));
    ICL_CHECK(icl_reproduce_override_all(*recipe, cell->overrides, error));
    ICL_CHECK(icl_reproduce_override(*recipe, error, "task.n=%zu", cell->n));
    ICL_CHECK(icl_reproduce_override(*recipe, error, "task.noise=fixed:%g", cell->deviation));
    return icl_reproduce_override(*recipe, error, "train.steps=%zu", steps);
}

/* ---- Judging ---- */

/* What was learned beside the exact step. */
typedef struct compared {
    double step, entry, largest; /* mean n a; largest error of an entry, over the largest; the exact largest */
    icl_paired_loss loss;        /* of the exact step; the excess is that of the learned layer above it */
} compared;

static icl_status compare(icl_reproducing *run, icl_trainer *trainer, const double steps[D], compared *out,
                          icl_error *error) {
    const double *root = icl_task_get_prior(icl_trainer_task(trainer))->covariance_root;
    float learned[ICL_LAYER_SIZE], exact[ICL_LAYER_SIZE];
    const float *const vectors[] = {exact, learned};
    icl_paired_loss losses[2];
    icl_one_layer is, target;

    layer_of(steps, root, &target);
    icl_one_layer_write(&target, exact);
    ICL_CHECK(icl_trainer_get_parameters(trainer, learned, error));
    ICL_CHECK(icl_one_layer_read(icl_trainer_model(trainer), learned, &is, error));
    icl_one_layer_unscale(&is);
    out->step = mean_step(&is);
    out->entry = fmax(icl_layer_distance(is.p, target.p), icl_layer_distance(is.q, target.q));
    ICL_CHECK(icl_reproduce_losses(run, trainer, budgets[run->params->scale].sequences, 2, vectors, losses, error));
    out->loss = losses[0];
    out->loss.excess = losses[1].excess;
    out->loss.excess_se = losses[1].excess_se;
    return ICL_OK;
}

static icl_status judge_linear(icl_reproducing *run, const noise_cell *cell, const double steps[D], const compared *is,
                               icl_error *error) {
    const double least = least_loss(cell, steps), n = (double)cell->n;

    if (cell->law == NORMAL)
        ICL_CHECK(ICL_FOUND(run, error, .what = cell->name, .quantity = "step", .ours = is->step / n,
                            .target = steps[0] / n, .tolerance = budgets[run->params->scale].step * steps[0] / n,
                            .evidence = ICL_COMPUTED, .source = "1 / (n + d + 1 + s)"));
    ICL_CHECK(ICL_FOUND(run, error, .what = cell->name, .quantity = "largest error of an entry, relative",
                        .ours = is->entry, .tolerance = budgets[run->params->scale].entry, .criterion = ICL_AT_MOST,
                        .evidence = ICL_COMPUTED, .source = "exact optimum"));
    return ICL_FOUND(run, error, .what = cell->name, .quantity = "squared error",
                     .ours = is->loss.mse + is->loss.excess, .standard_error = is->loss.se, .target = least,
                     .tolerance = 4 * is->loss.se + .005 * least, .evidence = ICL_COMPUTED, .source = "exact optimum");
}

/* What the learned layer has above the exact step on the same sequences is neither much nor below 0. */
static icl_status judge_excess(icl_reproducing *run, const noise_cell *cell, const compared *is, icl_error *error) {
    char note[64];

    icl_print(note, sizeof note, "of a squared error of %.4g", is->loss.mse);
    return ICL_FOUND(run, error, .what = cell->name, .quantity = "squared error above that of the exact step",
                     .ours = is->loss.excess, .standard_error = is->loss.excess_se, .target = 0,
                     .tolerance = .002 * is->loss.mse + 4 * is->loss.excess_se, .evidence = ICL_COMPUTED,
                     .source = "exact optimum", .note = note);
}

static icl_status judge_function(icl_reproducing *run, const noise_cell *cell, const double steps[D],
                                 const compared *is, icl_error *error) {
    /* An even function's step is 0, within a share of that of ReLUs. */
    const noise_cell relu = {.law = RELU, .n = cell->n, .deviation = cell->deviation};
    const double n = (double)cell->n;
    double scale[D];

    find_steps(cell->law == EVEN ? &relu : cell, scale);
    return ICL_FOUND(run, error, .what = cell->name, .quantity = "step", .ours = is->step / n, .target = steps[0] / n,
                     .tolerance = budgets[run->params->scale].function_step * scale[0] / n, .evidence = ICL_COMPUTED,
                     .source = cell->law == EVEN ? "even functions: none" : "d E k^2 / (E f^2 + s + (n - 1) E k^2)");
}

static icl_status reproduce_cell(icl_reproducing *run, const noise_cell *cell, double *step, icl_error *error) {
    static const double begin[D] = {START, START, START, START, START};
    float initial[ICL_LAYER_SIZE];
    double steps[D];
    icl_one_layer start;
    compared is;
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = NULL;
    icl_status status = ICL_OK;

    find_steps(cell, steps);
    layer_of(begin, NULL, &start);
    start.p[D][D] = START * sqrt(D);
    icl_one_layer_write(&start, initial);
    ICL_TRY(make_recipe(run, cell, &recipe, error));
    ICL_TRY(icl_reproduce_cell(run, cell->name, recipe, initial, &trainer, error));
    ICL_TRY(compare(run, trainer, steps, &is, error));
    *step = is.step / (double)cell->n;
    ICL_TRY(is_function(cell->law) ? judge_function(run, cell, steps, &is, error)
                                   : judge_linear(run, cell, steps, &is, error));
    ICL_TRY(judge_excess(run, cell, &is, error));
done:
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
    return status;
}

/* ---- All of them ---- */

static icl_status draw(icl_reproducing *run, double learned[CONTEXTS][NOISES], icl_error *error) {
    double variances[NOISES], exact[CONTEXTS][NOISES];
    char labels[2 * CONTEXTS][48];
    icl_series series[2 * CONTEXTS];
    size_t count = 0;

    for (size_t c = 0; c < CONTEXTS; c++) {
        bool is_there = false;
        for (size_t k = 0; k < NOISES; k++) {
            variances[k] = square(deviations[k]);
            exact[c][k] = 1 / ((double)contexts[c] + D + 1 + variances[k]);
            is_there = is_there || !isnan(learned[c][k]);
        }
        if (!is_there)
            continue;
        snprintf(labels[count], sizeof labels[0], "trained, n = %zu", contexts[c]);
        series[count] = (icl_series){labels[count], ICL_SERIES_PUBLISHED, NOISES, variances, learned[c], NULL};
        count++;
        snprintf(labels[count], sizeof labels[0], "1 / (n + d + 1 + s), n = %zu", contexts[c]);
        series[count] = (icl_series){labels[count], ICL_SERIES_REFERENCE, NOISES, variances, exact[c], NULL};
        count++;
    }
    return count == 0 ? ICL_OK
                      : ICL_DRAW_FIGURE(run, error, .name = "step", .title = "The step of one trained layer",
                                        .x_label = "variance of the labels' noise", .y_label = "step", .count = count,
                                        .series = series);
}

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    double learned[CONTEXTS][NOISES], step;

    for (size_t i = 0; i < (size_t)CONTEXTS * NOISES; i++) {
        char name[32];
        const noise_cell cell = {
            .name = name, .overrides = "", .n = contexts[i / NOISES], .deviation = deviations[i % NOISES]};
        double *const to = &learned[i / NOISES][i % NOISES];
        *to = (double)NAN;
        icl_print(name, sizeof name, "n%zu-s%g", cell.n, square(cell.deviation));
        if ((run->params->scale == ICL_SCALE_CI && (cell.n != 20 || cell.deviation < 1)) ||
            !icl_reproduce_wants(run, name))
            continue;
        ICL_CHECK(icl_reproduce_next(run, reproduce_cell(run, &cell, to, error)));
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (run->params->scale >= others[i].first && icl_reproduce_wants(run, others[i].name))
            ICL_CHECK(icl_reproduce_next(run, reproduce_cell(run, &others[i], &step, error)));
    return draw(run, learned, error);
}

const icl_reproduction icl_onestep_noise = {
    .name = "onestep-noise",
    .source = "arXiv 2307.03576",
    .about = "one trained layer is one step of gradient descent: its length by noise, context, covariance and target",
    .cost = {"2 s", "1 min", "12 min"},
    .is_shared = true,
    .run = reproduce,
};
