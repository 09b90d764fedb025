/*
 * What each layer of a trained linear transformer adds, after Vladymyrov et al. 2024 (arXiv 2402.14180): the loss of
 * the prediction read out after each layer; theorem 4.1, by which that prediction is linear in the query; and which
 * predictions change when one of the four terms of one layer is taken away, which shows after how many layers a term
 * acts (its reviewers asked for that of w_xy).
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "core/allocate.h"
#include "core/print.h"
#include "numeric/statistics.h"
#include "papers/papers.h"
#include "papers/versatile/versatile.h"
#include "probe/linear_layers.h"
#include "report/layer_maps.h"
#include "run/sequences.h"

enum { CHOICE_1_3 = 8, MOST_LAYERS = 8 };

/* A prediction that moves by less than this share of its size has not changed. */
#define UNCHANGED 1e-9

/* Sums over sequences. */
typedef struct layer_sums {
    double squared[MOST_LAYERS],
        fourth[MOST_LAYERS]; /* distance of layer l's prediction to the oracle's, squared, and its square */
    double residual, size;   /* of the device's prediction against <w, x_t>, squared */
    double moved[MOST_LAYERS][ICL_LINEAR_TERMS][MOST_LAYERS]; /* [ablated layer][term][read-out], squared */
    size_t count;
} layer_sums;

typedef struct analysis {
    icl_reproducing *run;
    const char *name; /* of the cell */
    size_t depth, d, n, sequences, ablated;
    icl_trainer *trainer;
    icl_linear_layers *layers;
    icl_sequences drawn;
    icl_predictors *oracle;
    double *oracles; /* [chunk] */
    double *weights; /* [2][depth][d] */
    layer_sums sums;
} analysis;

static double inner(const double *weights, const float *query, size_t d) {
    double sum = 0;
    for (size_t i = 0; i < d; i++)
        sum += weights[i] * (double)query[i];
    return sum;
}

static void ablate(analysis *a, const float *tokens, const float *query) {
    double *whole = a->weights, *without = a->weights + a->depth * a->d;

    for (size_t layer = 0; layer < a->depth; layer++)
        for (int term = 0; term < ICL_LINEAR_TERMS; term++) {
            const icl_linear_ablation ablation = {.layer = layer, .terms = 1U << term};
            icl_linear_layers_weights(a->layers, tokens, &ablation, without);
            for (size_t l = 0; l < a->depth; l++) {
                const double change = inner(without + l * a->d, query, a->d) - inner(whole + l * a->d, query, a->d);
                a->sums.moved[layer][term][l] += change * change;
            }
        }
}

static void add_sequence(analysis *a, size_t place, size_t number) {
    const float *tokens = a->drawn.inputs + place * (a->n + 1) * (a->d + 1);
    const float *query = tokens + a->n * (a->d + 1);
    double prediction = 0;

    icl_linear_layers_weights(a->layers, tokens, NULL, a->weights);
    for (size_t l = 0; l < a->depth; l++) {
        prediction = inner(a->weights + l * a->d, query, a->d);
        const double distance = prediction - a->oracles[place];
        a->sums.squared[l] += distance * distance;
        a->sums.fourth[l] += distance * distance * distance * distance;
    }
    a->sums.residual += ((double)a->drawn.model[place] - prediction) * ((double)a->drawn.model[place] - prediction);
    a->sums.size += prediction * prediction;
    a->sums.count++;
    if (number < a->ablated)
        ablate(a, tokens, query);
}

static icl_status add_chunk(analysis *a, size_t first, icl_error *error) {
    const size_t left = a->sequences - first, count = left < a->drawn.chunk ? left : a->drawn.chunk;

    ICL_CHECK(icl_reproduce_poll(a->run, error));
    ICL_CHECK(icl_sequences_sample(&a->drawn, first / a->drawn.chunk, error));
    ICL_CHECK(icl_sequences_predict(&a->drawn, a->trainer, error));
    ICL_CHECK(icl_sequences_refer(&a->drawn, a->oracle, count, a->oracles, error));
    for (size_t i = 0; i < count; i++)
        add_sequence(a, i, first + i);
    return ICL_OK;
}

/* ---- Findings ---- */

static icl_status report_losses(const analysis *a, double losses[MOST_LAYERS], icl_error *error) {
    const size_t count = a->sums.count;

    for (size_t l = 0; l < a->depth; l++) {
        const bool is_last = l + 1 == a->depth;
        char what[96];
        losses[l] = .5 * a->sums.squared[l] / (double)count;
        snprintf(what, sizeof what, "%s, read out after layer %zu", a->name, l + 1);
        /* The last layer is trained to be read, the others are not: it has to be best. */
        ICL_CHECK(
            ICL_FOUND(a->run, error, .what = what, .quantity = "half adjusted loss", .ours = losses[l],
                      .standard_error = .5 * icl_standard_error_of_sums(a->sums.squared[l], a->sums.fourth[l], count),
                      .target = is_last && l > 0 ? losses[l - 1] : 0, .criterion = ICL_AT_MOST,
                      .evidence = is_last && l > 0 ? ICL_INFERRED : ICL_EVIDENCE_NONE,
                      .source = "the last layer is the one that is read"));
    }
    return ICL_OK;
}

static icl_status report_linearity(const analysis *a, icl_error *error) {
    char what[96];

    snprintf(what, sizeof what, "%s, implicit weight vector", a->name);
    /* Single precision, and sequences whose predictions are small differences of large numbers. */
    return ICL_FOUND(a->run, error, .what = what, .quantity = "relative residual",
                     .ours = sqrt(a->sums.residual / a->sums.size), .target = 1e-4, .criterion = ICL_AT_MOST,
                     .evidence = ICL_READ, .source = "theorem 4.1",
                     .note = "the device's predictions against <w, x_t> in double");
}

/*
 * After how many layers a term shows. x is only seen through the next layer's sums: w_xx and w_xy of layer l leave its
 * prediction as it is and change that of layer l + 1 first. w_yx and w_yy change it at once, but for w_yy of the first
 * layer: the query's y is still 0 there, so it acts through the context's labels, one layer later.
 */
static icl_status report_delay(const analysis *a, size_t layer, icl_linear_term term, icl_error *error) {
    const double size = sqrt(a->sums.size / (double)a->sums.count);
    const size_t expected = term == ICL_TERM_YX || (term == ICL_TERM_YY && layer > 0) ? 0 : 1;
    double delay = (double)NAN;
    char what[96], note[96];

    for (size_t l = a->depth; l-- > 0;)
        if (sqrt(a->sums.moved[layer][term][l] / (double)a->ablated) > UNCHANGED * size)
            delay = (double)l - (double)layer;
    if (layer + expected >= a->depth)
        return ICL_OK; /* it never shows */
    snprintf(what, sizeof what, "%s, layer %zu without %s", a->name, layer + 1, icl_linear_term_name(term));
    icl_print(note, sizeof note, "its last prediction moves by %.3g of its size",
              sqrt(a->sums.moved[layer][term][a->depth - 1] / (double)a->ablated) / size);
    return ICL_FOUND(a->run, error, .what = what, .quantity = "layers until it shows", .ours = delay,
                     .target = (double)expected, .evidence = ICL_INFERRED, .source = "the layer equations",
                     .note = note);
}

static icl_status draw_losses(const analysis *a, const double losses[MOST_LAYERS], icl_error *error) {
    double layer[MOST_LAYERS];

    for (size_t l = 0; l < a->depth; l++)
        layer[l] = (double)(l + 1);
    const icl_series series = {.label = a->name, .style = ICL_SERIES_OURS, .count = a->depth, .x = layer, .y = losses};
    return ICL_DRAW_FIGURE(
        a->run, error, .name = "layers", .title = "Loss of the prediction read out after each layer (arXiv 2402.14180)",
        .x_label = "layer", .y_label = "half adjusted loss", .log_y = true, .count = 1, .series = &series);
}

/* Rows: the term taken away, layer by layer; columns: the layer after which the prediction is read; values:
 * how much it moves. */
static icl_status draw_ablations(const analysis *a, icl_error *error) {
    const double size = sqrt(a->sums.size / (double)a->sums.count);
    double moved[ICL_LINEAR_TERMS][MOST_LAYERS * MOST_LAYERS];
    icl_heat_map maps[ICL_LINEAR_TERMS];

    for (int term = 0; term < ICL_LINEAR_TERMS; term++) {
        maps[term] = (icl_heat_map){.label = icl_linear_term_name((icl_linear_term)term),
                                    .rows = a->depth,
                                    .columns = a->depth,
                                    .values = moved[term],
                                    .row_names = icl_layer_numbers,
                                    .column_names = icl_layer_numbers};
        for (size_t i = 0; i < a->depth; i++)
            for (size_t l = 0; l < a->depth; l++)
                moved[term][i * a->depth + l] =
                    icl_ablation_power(sqrt(a->sums.moved[i][term][l] / (double)a->ablated) / size);
    }
    return ICL_DRAW_HEAT_MAPS(
        a->run, error, .name = "ablations",
        .title = "How far predictions move without a term, over their size: powers of ten, 3 at most",
        .row_label = "layer without it", .column_label = "read after layer", .count = ICL_LINEAR_TERMS, .maps = maps);
}

static icl_status report_all(const analysis *a, icl_error *error) {
    double losses[MOST_LAYERS];

    ICL_CHECK(report_losses(a, losses, error));
    ICL_CHECK(report_linearity(a, error));
    for (size_t layer = 0; layer < a->depth; layer++)
        for (int term = 0; term < ICL_LINEAR_TERMS; term++)
            ICL_CHECK(report_delay(a, layer, (icl_linear_term)term, error));
    ICL_CHECK(draw_losses(a, losses, error));
    return draw_ablations(a, error);
}

/* ---- The whole ---- */

static icl_status prepare(analysis *a, const icl_versatile_model *model, icl_error *error) {
    const icl_task *task = icl_trainer_task(model->trainer);
    const icl_model *trained = icl_trainer_model(model->trainer);
    const uint32_t seed = a->run->params->seed;
    float *values = NULL;
    icl_status status = ICL_OK;

    a->trainer = model->trainer;
    a->d = icl_task_dimension(task);
    a->n = icl_task_context(task);
    ICL_TRY(icl_allocate(icl_model_size(trained), sizeof *values, "parameters", &values, error));
    ICL_TRY(icl_trainer_get_parameters(model->trainer, values, error));
    ICL_TRY(icl_linear_layers_create(trained, a->d, a->n, values, &a->layers, error));
    ICL_TRY(icl_sequences_create(a->run->params->backend, task, seed, &a->drawn, error));
    ICL_TRY(icl_predictors_create(task, "oracle", 2, seed, &a->oracle, error));
    ICL_TRY(icl_allocate(a->drawn.chunk, sizeof(double), "oracle predictions", &a->oracles, error));
    ICL_TRY(icl_allocate(2 * a->depth * a->d, sizeof(double), "weight vectors", &a->weights, error));
done:
    icl_free(&values);
    return status;
}

static icl_status reproduce_cell(icl_reproducing *run, const icl_versatile_cell *cell, icl_error *error) {
    const bool is_ci = run->params->scale == ICL_SCALE_CI;
    char name[ICL_VERSATILE_NAME];
    analysis a = {.run = run,
                  .name = name,
                  .depth = cell->layers,
                  .sequences = is_ci ? 4096 : 40960,
                  .ablated = is_ci ? 200 : 2000};
    icl_versatile_model model = {0};
    icl_status status = ICL_OK;

    icl_versatile_name(cell, name);
    if (!icl_reproduce_wants(run, name))
        return ICL_OK;
    ICL_TRY(icl_versatile_train(run, cell, is_ci ? 1 : 3, &model, error));
    if (!icl_reproduce_judges(run))
        goto done;
    ICL_TRY(prepare(&a, &model, error));
    for (size_t first = 0; first < a.sequences; first += a.drawn.chunk)
        ICL_TRY(add_chunk(&a, first, error));
    ICL_TRY(report_all(&a, error));
done:
    icl_free(&a.oracles);
    icl_free(&a.weights);
    icl_predictors_destroy(&a.oracle);
    icl_sequences_release(&a.drawn);
    icl_linear_layers_destroy(&a.layers);
    icl_versatile_model_clear(&model);
    return status;
}

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    static const size_t depths[ICL_SCALES] = {3, 4, 8};
    const icl_versatile_cell cell = {depths[run->params->scale], ICL_VERSATILE_DIAG, CHOICE_1_3};

    return reproduce_cell(run, &cell, error);
}

const icl_reproduction icl_versatile_layers = {
    .name = "versatile-layers",
    .source = "arXiv 2402.14180, theorem 4.1 and the figure of predictions by layer",
    .about = "each layer's prediction, its implicit weight vector, and which term of which layer changes it when",
    .cost = {"5 s", "1 min", "3 min"},
    .run = reproduce,
};
