/*
 * Trained layers beside gradient descent: von Oswald et al. 2022, "Transformers learn in-context by gradient descent"
 * (arXiv 2212.07677), sections 3 and 4, for x uniform on [-1/2, 1/2]^10 and ten pairs. One full layer learns one step
 * of gradient descent, two learn two steps of GD++. The paper's measures: losses, the difference of predictions, cosine
 * and distance of the sensitivities d prediction / d x, the loss of the average of learned and constructed weights, and
 * losses where inputs are scaled by a factor that training never saw.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "core/allocate.h"
#include "core/print.h"
#include "papers/gradient_descent/gradient_descent.h"
#include "papers/losses.h"
#include "papers/papers.h"

enum { D = ICL_GD_DIMENSION, N = ICL_GD_CONTEXT, WIDTH = D + 1, MOST_LAYERS = 2 };
enum { MOST_SIZE = MOST_LAYERS * 2 * WIDTH * WIDTH, SCALES_OF_INPUTS = 7 };

/* Rates for raw sums that minimise the loss, by a fit of the descent itself to 300,000 contexts; of one
 * step by its closed form. */
typedef struct trained_cell {
    const char *name, *parameterization;
    size_t layers;
    double rates[MOST_LAYERS], inputs[MOST_LAYERS];
    double half_loss;
    /* Tolerance for scaled inputs, where two layers blow up as two steps do, but not equally. */
    double scaled;
    const char *algorithm;
    icl_scale first;
} trained_cell;

static const trained_cell cells[] = {
    {"full-L1", "full", 1, {.60606}, {0}, .20623, .05, "gradient descent", ICL_SCALE_CI},
    {"sparse-L2", "sparse", 2, {1.15732, .400503}, {0}, .1417, .1, "gradient descent", ICL_SCALE_SHORT},
    {"full-L2", "full", 2, {.410784, 3.63928}, {.398084}, .0929, 1, "GD++", ICL_SCALE_CI},
};
enum { CELLS = sizeof cells / sizeof *cells };

static const struct {
    size_t steps, batch, sequences;
    double loss_tolerance;              /* relative */
    double cosine, difference, average; /* how near to the algorithm */
} budgets[ICL_SCALES] = {{800, 512, 40000, .06, .97, .2, .1},
                         {4000, 2048, 200000, .02, .99, .1, .05},
                         {20000, 2048, 400000, .02, .99, .1, .05}};

static const double scales[SCALES_OF_INPUTS] = {.5, .75, 1, 1.25, 1.5, 1.75, 2};

/* The constructed weights, the learned ones, and their average. */
enum { CONSTRUCTED, LEARNED, AVERAGE, VECTORS };

typedef struct weights {
    float values[VECTORS][MOST_SIZE];
    const float *vectors[VECTORS];
} weights;

static icl_descent descent_of(const trained_cell *cell) {
    return (icl_descent){cell->layers, cell->rates, cell->inputs[0] > 0 ? cell->inputs : NULL};
}

/* Steps of plain gradient descent may change places (lemma 4 of arXiv 2306.00297): takes the order that lies nearer to
 * what was learned. */
static void construct(const trained_cell *cell, const icl_model *model, const float *learned, float *values) {
    const double swapped[MOST_LAYERS] = {cell->rates[1], cell->rates[0]};
    const icl_descent descent = descent_of(cell), other = {cell->layers, swapped, NULL};
    double apart[2] = {0, 0};

    icl_gd_construct(model, &descent, D, N, values);
    if (cell->layers < 2 || descent.inputs)
        return;
    for (int order = 0; order < 2; order++) {
        icl_gd_construct(model, order == 0 ? &descent : &other, D, N, values);
        for (size_t k = 0; k < icl_model_size(model); k++)
            apart[order] += fabs((double)values[k] - (double)learned[k]);
    }
    if (apart[0] < apart[1])
        icl_gd_construct(model, &descent, D, N, values);
}

/* Before weights are averaged, the freedom (g P, Q / g) of each full layer is taken out of both. */
static icl_status read_weights(const trained_cell *cell, icl_trainer *trainer, weights *w, icl_error *error) {
    const icl_model *model = icl_trainer_model(trainer);

    ICL_CHECK(icl_trainer_get_parameters(trainer, w->values[LEARNED], error));
    construct(cell, model, w->values[LEARNED], w->values[CONSTRUCTED]);
    for (int i = 0; i < AVERAGE && cell->parameterization[0] == 'f'; i++)
        icl_gd_normalise_full(model, 1, w->values[i]);
    for (size_t k = 0; k < icl_model_size(model); k++)
        w->values[AVERAGE][k] = .5F * (w->values[CONSTRUCTED][k] + w->values[LEARNED][k]);
    for (int i = 0; i < VECTORS; i++)
        w->vectors[i] = w->values[i];
    return ICL_OK;
}

/* ---- Judging ---- */

static icl_status judge_losses(icl_reproducing *run, const trained_cell *cell, const icl_paired_loss losses[VECTORS],
                               icl_error *error) {
    const bool is_exact = cell->layers == 1;
    const double algorithm = is_exact ? cell->half_loss : .5 * losses[CONSTRUCTED].mse;
    char note[96];

    icl_print(note, sizeof note, "%s %.4f on the same sequences, difference %.1e +- %.0e", cell->algorithm,
              .5 * losses[CONSTRUCTED].mse, .5 * losses[LEARNED].excess, .5 * losses[LEARNED].excess_se);
    ICL_CHECK(ICL_FOUND(
        run, error, .what = cell->name, .quantity = "half squared error",
        .ours = algorithm + .5 * losses[LEARNED].excess,
        .standard_error = .5 * (is_exact ? losses[LEARNED].excess_se : losses[LEARNED].se), .target = cell->half_loss,
        .tolerance = budgets[run->params->scale].loss_tolerance * cell->half_loss + (is_exact ? 0 : losses[LEARNED].se),
        .evidence = ICL_COMPUTED, .source = is_exact ? "closed form" : "minimised directly", .note = note));
    return ICL_FOUND(run, error, .what = cell->name, .quantity = "half squared error of averaged weights",
                     .ours = algorithm + .5 * losses[AVERAGE].excess,
                     .standard_error = .5 * (is_exact ? losses[LEARNED].excess_se : losses[LEARNED].se),
                     .target = algorithm, .tolerance = budgets[run->params->scale].average * algorithm,
                     .criterion = ICL_AT_MOST, .evidence = ICL_READ, .source = "section 3, figure 2",
                     .note = "learned and constructed weights, halfway");
}

static icl_status judge_alignment(icl_reproducing *run, const trained_cell *cell, icl_trainer *trainer,
                                  icl_error *error) {
    const icl_descent descent = descent_of(cell);
    icl_alignment is;
    char note[96];

    ICL_CHECK(icl_gd_align(run, trainer, &descent, 2048, &is, error));
    icl_print(note, sizeof note, "with those of %s; their distance %.3f", cell->algorithm, is.sensitivities);
    ICL_CHECK(ICL_FOUND(run, error, .what = cell->name, .quantity = "cosine of sensitivities", .ours = is.cosine,
                        .target = 1, .tolerance = 1 - budgets[run->params->scale].cosine, .criterion = ICL_AT_LEAST,
                        .evidence = ICL_INFERRED, .source = "figure 2", .note = note));
    icl_print(note, sizeof note, "%.4f of %.3f, root mean squares", is.predictions, is.mean_prediction);
    return ICL_FOUND(run, error, .what = cell->name, .quantity = "difference of predictions, relative",
                     .ours = is.predictions / is.mean_prediction, .tolerance = budgets[run->params->scale].difference,
                     .criterion = ICL_AT_MOST, .evidence = ICL_INFERRED, .source = "figure 2", .note = note);
}

/* ---- Scaled inputs ---- */

/* Half losses of the constructed and the learned weights where inputs are larger or smaller. */
static icl_status judge_scaled(icl_reproducing *run, const trained_cell *cell, const icl_recipe *recipe,
                               const weights *w, icl_error *error) {
    double half[2][SCALES_OF_INPUTS], worst = 0;
    char name[64], title[128], note[64] = "";

    for (size_t i = 0; i < SCALES_OF_INPUTS; i++) {
        double both[2];
        char inputs[48];
        icl_print(inputs, sizeof inputs, "task.inputs=uniform:%g", .5 * scales[i]);
        ICL_CHECK(icl_gd_half_losses(run, recipe, inputs, budgets[run->params->scale].sequences / 4, w->vectors, both,
                                     error));
        half[CONSTRUCTED][i] = both[CONSTRUCTED];
        half[LEARNED][i] = both[LEARNED];
        const double apart = fabs(log(both[LEARNED] / both[CONSTRUCTED]));
        if (!(apart <= worst)) {
            worst = apart;
            icl_print(note, sizeof note, "at %g: %.4g, %s %.4g", scales[i], both[LEARNED], cell->algorithm,
                      both[CONSTRUCTED]);
        }
    }
    ICL_CHECK(ICL_FOUND(run, error, .what = cell->name,
                        .quantity = "inputs scaled by 1/2 to 2: largest |ln| of the losses' ratio", .ours = worst,
                        .tolerance = cell->scaled, .criterion = ICL_AT_MOST, .evidence = ICL_INFERRED,
                        .source = "figure 2", .note = note));
    const icl_series series[] = {
        {"learned", ICL_SERIES_OURS, SCALES_OF_INPUTS, scales, half[LEARNED], NULL},
        {cell->algorithm, ICL_SERIES_REFERENCE, SCALES_OF_INPUTS, scales, half[CONSTRUCTED], NULL}};
    snprintf(name, sizeof name, "scaled-inputs-%s", cell->name);
    snprintf(title, sizeof title, "von Oswald et al., figure 2: inputs of another scale, %s", cell->name);
    return ICL_DRAW_FIGURE(run, error, .name = name, .title = title, .x_label = "scale of the inputs, 1 in training",
                           .y_label = "half squared error", .log_y = true, .count = 2, .series = series);
}

/* ---- Cells ---- */

static icl_status train(icl_reproducing *run, const trained_cell *cell, icl_recipe **recipe, icl_trainer **trainer,
                        icl_error *error) {
    ICL_CHECK(icl_reproduce_recipe("gd", recipe, error));
    ICL_CHECK(icl_reproduce_override(*recipe, error, "model.layers=%zu", cell->layers));
    ICL_CHECK(icl_reproduce_override(*recipe, error, "model.parameterization=%s", cell->parameterization));
    ICL_CHECK(icl_reproduce_override(*recipe, error, "train.steps=%zu", budgets[run->params->scale].steps));
    ICL_CHECK(icl_reproduce_override(*recipe, error, "train.batch=%zu", budgets[run->params->scale].batch));
    return icl_reproduce_cell(run, cell->name, *recipe, NULL, trainer, error);
}

static icl_status reproduce_cell(icl_reproducing *run, const trained_cell *cell, icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = NULL;
    weights *w = NULL;
    icl_paired_loss losses[VECTORS];
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(1, sizeof *w, "weights", &w, error));
    ICL_TRY(train(run, cell, &recipe, &trainer, error));
    ICL_TRY(read_weights(cell, trainer, w, error));
    ICL_TRY(
        icl_reproduce_losses(run, trainer, budgets[run->params->scale].sequences, VECTORS, w->vectors, losses, error));
    ICL_TRY(judge_losses(run, cell, losses, error));
    ICL_TRY(judge_alignment(run, cell, trainer, error));
    ICL_TRY(judge_scaled(run, cell, recipe, w, error));
done:
    icl_free(&w);
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
    return status;
}

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    for (size_t i = 0; i < CELLS; i++)
        if (run->params->scale >= cells[i].first && icl_reproduce_wants(run, cells[i].name))
            ICL_CHECK(icl_reproduce_next(run, reproduce_cell(run, &cells[i], error)));
    return ICL_OK;
}

const icl_reproduction icl_gd_trained = {
    .name = "gd-trained",
    .source = "arXiv 2212.07677, figures 2 and 3",
    .about = "one and two trained layers beside steps of gradient descent and GD++",
    .cost = {"2 s", "1 min", "4 min"},
    .is_shared = true,
    .run = reproduce,
};
