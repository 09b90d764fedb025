/*
 * The layers of a trained linear transformer, and what each of them adds, after Vladymyrov et al. 2024 (arXiv
 * 2402.14180), section 5.
 *
 * versatile-weights has the four numbers of each diagonal layer next to the optimum found by direct minimisation, and
 * the matrices of full layers. versatile-layers has the loss of the prediction read out after each layer; theorem 4.1,
 * by which that prediction is linear in the query; and which predictions change when one of the four terms of one layer
 * is removed, which shows after how many layers a term acts (the reviewers asked for that of w_xy).
 */
#include <math.h>

#include "numeric/statistics.h"
#include "papers/papers.h"
#include "papers/versatile/versatile.h"
#include "probe/linear_layers.h"
#include "run/evaluation.h"

static icl_status create_layers(const icl_study *study, icl_trainer *trainer, icl_linear_layers **layers,
                                icl_error *error) {
    const icl_task *task = icl_trainer_task(trainer);
    float *values = NULL;

    ICL_CHECK(icl_study_parameters(study, trainer, &values, error));
    return icl_linear_layers_create(icl_trainer_model(trainer), icl_task_dimension(task), icl_task_context(task),
                                    values, layers, error);
}

/* ---- versatile-weights: cells ---- */

enum { D = 10, WIDTH = D + 1, MATRIX = WIDTH * WIDTH, DEPTH = 4 };

/* Numbers of diagonal cells: the four terms of each layer. Numbers of full cells: P and Q of each layer, and for each
 * of these the share of the squared entries of x's block that lie off its diagonal. */
enum { TERMS = 0, SHARES = 0, MATRICES = SHARES + 2 * DEPTH, WEIGHTS = MATRICES + 2 * DEPTH * MATRIX };

static void plan_weights(icl_study *study) {
    const bool is_ci = study->scale == ICL_SCALE_CI;
    const size_t noise = ICL_VERSATILE_CHOICE_1_3;

    icl_versatile_add(study, &(icl_versatile_cell){2, ICL_VERSATILE_DIAG, noise}, is_ci ? 1 : 3);
    if (!is_ci)
        icl_versatile_add(study, &(icl_versatile_cell){3, ICL_VERSATILE_DIAG, noise}, 3);
    icl_versatile_add(study, &(icl_versatile_cell){is_ci ? 2 : DEPTH, ICL_VERSATILE_FULL, noise}, is_ci ? 1 : 2);
}

static double off_diagonal_share(const double *matrix) {
    double all = 0, off = 0;

    for (size_t i = 0; i < D; i++)
        for (size_t j = 0; j < D; j++) {
            const double square = matrix[i * WIDTH + j] * matrix[i * WIDTH + j];
            all += square;
            off += i != j ? square : 0;
        }
    return all > 0 ? off / all : 0;
}

static void measure_layer(const icl_linear_layers *layers, const icl_versatile_cell *model, size_t layer,
                          icl_number *numbers) {
    double terms[ICL_LINEAR_TERMS];

    icl_linear_layers_terms(layers, layer, terms);
    for (size_t i = 0; model->parameterization == ICL_VERSATILE_DIAG && i < ICL_LINEAR_TERMS; i++)
        numbers[TERMS + layer * ICL_LINEAR_TERMS + i].value = terms[i];
    for (size_t i = 2 * layer; model->parameterization == ICL_VERSATILE_FULL && i < 2 * layer + 2; i++) {
        const double *matrix = icl_linear_layers_matrix(layers, layer, 0, i % 2 == 0 ? ICL_MODEL_P : ICL_MODEL_Q);
        numbers[SHARES + i].value = off_diagonal_share(matrix);
        for (size_t k = 0; k < MATRIX; k++)
            numbers[MATRICES + i * MATRIX + k].value = matrix[k];
    }
}

static icl_status measure_weights(icl_study *study, const icl_study_cell *cell, icl_trainer *trained,
                                  icl_number *numbers, icl_error *error) {
    const icl_versatile_cell model = icl_versatile_model_of(cell);
    icl_versatile_choice choice = {0};
    icl_linear_layers *layers = NULL;
    icl_status status = ICL_OK;

    (void)trained;
    if (cell->is_helper)
        return ICL_OK;
    ICL_TRY(icl_versatile_choose(study, cell, &choice, error));
    ICL_TRY(create_layers(study, choice.trainer, &layers, error));
    for (size_t layer = 0; layer < model.layers; layer++)
        measure_layer(layers, &model, layer, numbers);
done:
    icl_linear_layers_destroy(&layers);
    return status;
}

/* ---- versatile-weights: judging ---- */

/* Weights times n, in the order of icl_linear_term, for two and three layers: direct minimisation of the diagonal
 * layers' loss (Nelder-Mead), sigma in {1, 3}. */
static const double optima[2][3][ICL_LINEAR_TERMS] = {
    {{-.326, -.0048, -.456, -.0067}, {-.346, -.0029, -2.358, -.0200}},
    {{-.282, -.0063, -.339, -.0075}, {-.697, -.0541, -.293, -.0227}, {-2.288, .0205, -5.974, .0536}}};

/* If the loss is flat, equally good weights differ: the two large ones of a layer must agree to 10 % and .02, and the
 * small ones are shown. The last layer's x is never read, so that its w_xx may have any value. */
static void judge_term(icl_study *study, const icl_study_cell *cell, size_t layer, size_t term) {
    const size_t depth = cell->at[0];
    const double target = optima[depth - 2][layer][term];
    const bool is_large = term == ICL_TERM_YX || (term == ICL_TERM_XX && layer + 1 < depth);

    ICL_JUDGE(study, .what = ICL_PHRASE("%s, layer %zu", cell->name, layer + 1),
              .quantity = ICL_PHRASE("n %s", icl_linear_term_name((icl_linear_term)term)),
              ICL_OURS(cell->numbers[TERMS + layer * ICL_LINEAR_TERMS + term]), .target = target,
              .tolerance = .1 * fabs(target) + .02, .evidence = is_large ? ICL_COMPUTED : ICL_EVIDENCE_NONE,
              .source = "direct minimisation", .note = is_large ? NULL : ICL_PHRASE("the optimum's: %.4g", target));
}

static void judge_weights(icl_study *study, const icl_study_cell *cell) {
    const icl_versatile_cell model = icl_versatile_model_of(cell);

    for (size_t i = 0; model.parameterization == ICL_VERSATILE_DIAG && i < model.layers * ICL_LINEAR_TERMS; i++)
        judge_term(study, cell, i / ICL_LINEAR_TERMS, i % ICL_LINEAR_TERMS);
    for (size_t i = 0; model.parameterization == ICL_VERSATILE_FULL && i < 2 * model.layers; i++)
        ICL_JUDGE(study, .what = ICL_PHRASE("%s, layer %zu, %c", cell->name, i / 2 + 1, "PQ"[i % 2]),
                  .quantity = "share off the diagonal of x", ICL_OURS(cell->numbers[SHARES + i]));
}

static void draw_weights(icl_study *study, const icl_study_cell *cell) {
    const size_t count = 2 * cell->at[0];
    double matrices[2 * DEPTH][MATRIX];
    icl_phrase labels[2 * DEPTH];
    icl_heat_map maps[2 * DEPTH];

    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < MATRIX; k++)
            matrices[i][k] = cell->numbers[MATRICES + i * MATRIX + k].value;
        labels[i] = icl_phrase_print("%c, layer %zu", "PQ"[i % 2], i / 2 + 1);
        maps[i] = (icl_heat_map){labels[i].text, WIDTH, WIDTH, matrices[i], NULL, NULL};
    }
    ICL_STUDY_MAPS(study, .name = "weights", .title = "P and Q of a full model, sigma in {1, 3}",
                   .row_label = "x, and last y", .column_label = "x, and last y", .count = count, .maps = maps);
}

static void conclude_weights(icl_study *study) {
    const icl_study_cell *cell = study->cells[study->count - 1];

    if (cell->is_wanted)
        draw_weights(study, cell);
}

const icl_reproduction icl_versatile_weights =
    ICL_STUDY(.name = "versatile-weights", .source = "arXiv 2402.14180, section 5 and its heat maps of weights",
              .about = "the four numbers of diagonal layers beside the optimum, and full layers as heat maps",
              .claim = "Trained diagonal layers have the few weights that minimise the loss directly.",
              .scope = "A met table means that two and three diagonal layers, trained on sigma in {1, 3}, end at "
                       "the weights of direct minimisation; w_xy and w_yy, other laws of the noise and the "
                       "matrices of full layers are shown and not judged.",
              .cost = {"5 s", "1 min", NULL}, .numbers = WEIGHTS, .plan = plan_weights, .begin = icl_versatile_begin,
              .measure = measure_weights, .judge = judge_weights, .conclude = conclude_weights);

/* ---- versatile-layers: sums over sequences ---- */

enum { MOST_LAYERS = 8 };

/* LOSSES are those after each layer. RESIDUAL is the relative distance of the device's predictions from <w, x_t>. MOVED
 * is the change of the prediction after each layer without each term of each layer, over the size of predictions. */
enum {
    LOSSES = 0,
    RESIDUAL = LOSSES + MOST_LAYERS,
    MOVED,
    LAYERS_NUMBERS = MOVED + MOST_LAYERS * ICL_LINEAR_TERMS * MOST_LAYERS
};

static size_t place_of(size_t layer, size_t term, size_t read) {
    return MOVED + (layer * ICL_LINEAR_TERMS + term) * MOST_LAYERS + read;
}

/* A prediction that moves by less than this share of its size has not changed. */
#define UNCHANGED 1e-9

/* Sums over sequences. */
typedef struct layer_sums {
    double squared[MOST_LAYERS], fourth[MOST_LAYERS]; /* powers of layer l's distance to the oracle's prediction */
    double residual, size;                            /* squares: device's prediction against <w, x_t>; size */
    double moved[MOST_LAYERS][ICL_LINEAR_TERMS][MOST_LAYERS]; /* [ablated layer][term][read-out], squared */
} layer_sums;

typedef struct analysis {
    const icl_study *study;
    size_t depth, sequences, ablated;
    icl_trainer *trainer;
    icl_linear_layers *layers;
    icl_sequences drawn;
    icl_predictors *oracle;
    double *oracles; /* [chunk] */
    layer_sums sums;
} analysis;

static double inner(const double *weights, const float *query) {
    double sum = 0;
    for (size_t i = 0; i < D; i++)
        sum += weights[i] * (double)query[i];
    return sum;
}

static void ablate(analysis *a, const float *tokens, const float *query, double whole[MOST_LAYERS][D]) {
    double without[MOST_LAYERS][D];

    for (size_t layer = 0; layer < a->depth; layer++)
        for (int term = 0; term < ICL_LINEAR_TERMS; term++) {
            const icl_linear_ablation ablation = {.layer = layer, .terms = 1U << term};
            icl_linear_layers_weights(a->layers, tokens, &ablation, without[0]);
            for (size_t l = 0; l < a->depth; l++) {
                const double change = inner(without[l], query) - inner(whole[l], query);
                a->sums.moved[layer][term][l] += change * change;
            }
        }
}

static void add_sequence(analysis *a, size_t place, size_t number) {
    const size_t n = a->drawn.batch.shape.positions - 1;
    const float *tokens = a->drawn.inputs + place * (n + 1) * WIDTH, *query = tokens + n * WIDTH;
    double weights[MOST_LAYERS][D], prediction = 0;

    icl_linear_layers_weights(a->layers, tokens, NULL, weights[0]);
    for (size_t l = 0; l < a->depth; l++) {
        prediction = inner(weights[l], query);
        const double distance = prediction - a->oracles[place];
        a->sums.squared[l] += distance * distance;
        a->sums.fourth[l] += distance * distance * distance * distance;
    }
    a->sums.residual += ((double)a->drawn.model[place] - prediction) * ((double)a->drawn.model[place] - prediction);
    a->sums.size += prediction * prediction;
    if (number < a->ablated)
        ablate(a, tokens, query, weights);
}

static icl_status add_chunk(analysis *a, size_t first, icl_error *error) {
    const size_t left = a->sequences - first, count = left < a->drawn.chunk ? left : a->drawn.chunk;

    ICL_CHECK(icl_reproduce_poll(a->study->run, error));
    ICL_CHECK(icl_sequences_sample(&a->drawn, first / a->drawn.chunk, error));
    ICL_CHECK(icl_sequences_predict(&a->drawn, a->trainer, error));
    ICL_CHECK(icl_sequences_refer(&a->drawn, a->oracle, count, a->oracles, error));
    for (size_t i = 0; i < count; i++)
        add_sequence(a, i, first + i);
    return ICL_OK;
}

/* ---- versatile-layers: cells ---- */

static void plan_layers(icl_study *study) {
    static const size_t depths[ICL_SCALES] = {3, 4, MOST_LAYERS};

    icl_versatile_add(study, &(icl_versatile_cell){depths[study->scale], ICL_VERSATILE_DIAG, ICL_VERSATILE_CHOICE_1_3},
                      study->scale == ICL_SCALE_CI ? 1 : 3);
}

static icl_status prepare(analysis *a, icl_error *error) {
    const icl_task *task = icl_trainer_task(a->trainer);
    const icl_reproduce_params *params = a->study->run->params;

    ICL_CHECK(create_layers(a->study, a->trainer, &a->layers, error));
    ICL_CHECK(icl_sequences_create(params->backend, task, params->seed, &a->drawn, error));
    ICL_CHECK(icl_predictors_create(task, params->backend, "oracle", 2, params->seed, &a->oracle, error));
    return icl_study_room(a->study, a->drawn.chunk, sizeof *a->oracles, &a->oracles, error);
}

static void write_numbers(const analysis *a, icl_number *numbers) {
    const layer_sums *sums = &a->sums;
    const double size = sqrt(sums->size / (double)a->sequences);

    for (size_t l = 0; l < a->depth; l++)
        numbers[LOSSES + l] =
            (icl_number){.5 * sums->squared[l] / (double)a->sequences,
                         .5 * icl_standard_error_of_sums(sums->squared[l], sums->fourth[l], a->sequences)};
    numbers[RESIDUAL].value = sqrt(sums->residual / sums->size);
    for (size_t layer = 0; layer < a->depth; layer++)
        for (size_t term = 0; term < ICL_LINEAR_TERMS; term++)
            for (size_t l = 0; l < a->depth; l++)
                numbers[place_of(layer, term, l)].value = sqrt(sums->moved[layer][term][l] / (double)a->ablated) / size;
}

static icl_status measure_layers(icl_study *study, const icl_study_cell *cell, icl_trainer *trained,
                                 icl_number *numbers, icl_error *error) {
    const bool is_ci = study->scale == ICL_SCALE_CI;
    analysis a = {
        .study = study, .depth = cell->at[0], .sequences = is_ci ? 4096 : 40960, .ablated = is_ci ? 200 : 2000};
    icl_versatile_choice choice = {0};
    icl_status status = ICL_OK;

    (void)trained;
    if (cell->is_helper)
        return ICL_OK;
    ICL_TRY(icl_versatile_choose(study, cell, &choice, error));
    a.trainer = choice.trainer;
    ICL_TRY(prepare(&a, error));
    for (size_t first = 0; first < a.sequences; first += a.drawn.chunk)
        ICL_TRY(add_chunk(&a, first, error));
    write_numbers(&a, numbers);
done:
    icl_predictors_destroy(&a.oracle);
    icl_sequences_release(&a.drawn);
    icl_linear_layers_destroy(&a.layers);
    return status;
}

/* ---- versatile-layers: judging ---- */

/* Only the last layer is trained to be read, so that it must be best. */
static void judge_losses(icl_study *study, const icl_study_cell *cell) {
    for (size_t l = 0; l < cell->at[0]; l++) {
        const bool is_judged = l > 0 && l + 1 == cell->at[0];
        ICL_JUDGE(study, .what = ICL_PHRASE("%s, read out after layer %zu", cell->name, l + 1),
                  .quantity = "half adjusted loss", ICL_OURS(cell->numbers[LOSSES + l]),
                  .target = is_judged ? cell->numbers[LOSSES + l - 1].value : 0, .criterion = ICL_AT_MOST,
                  .evidence = is_judged ? ICL_INFERRED : ICL_EVIDENCE_NONE,
                  .source = "the last layer is the one that is read");
    }
}

/* Returns after how many layers a term shows. x is only seen through the next layer's sums: w_xx and w_xy of layer l
 * leave its prediction as it is and change that of layer l + 1 first. w_yx and w_yy change it at once, except for w_yy
 * of the first layer: the query's y is still 0 there, so that the term acts through the context's labels, one layer
 * later. */
static void judge_delay(icl_study *study, const icl_study_cell *cell, size_t layer, size_t term) {
    const size_t depth = cell->at[0], expected = term == ICL_TERM_YX || (term == ICL_TERM_YY && layer > 0) ? 0 : 1;
    const icl_number *moved = &cell->numbers[place_of(layer, term, 0)];
    double delay = (double)NAN;

    if (layer + expected >= depth)
        return; /* it never shows */
    for (size_t l = depth; l-- > 0;)
        if (moved[l].value > UNCHANGED)
            delay = (double)l - (double)layer;
    ICL_JUDGE(study,
              .what = ICL_PHRASE("%s, layer %zu without %s", cell->name, layer + 1,
                                 icl_linear_term_name((icl_linear_term)term)),
              .quantity = "layers until it shows", .ours = delay, .target = (double)expected, .evidence = ICL_INFERRED,
              .source = "the layer equations",
              .note = ICL_PHRASE("its last prediction moves by %.3g of its size", moved[depth - 1].value));
}

static void judge_layers(icl_study *study, const icl_study_cell *cell) {
    judge_losses(study, cell);
    /* Covers single precision, and sequences whose predictions are small differences of large numbers. */
    ICL_JUDGE(study, .what = ICL_PHRASE("%s, implicit weight vector", cell->name), .quantity = "relative residual",
              ICL_OURS(cell->numbers[RESIDUAL]), .target = 1e-4, .criterion = ICL_AT_MOST, .evidence = ICL_STATED,
              .source = "theorem 4.1", .note = "the device's predictions against <w, x_t> in double");
    for (size_t i = 0; i < cell->at[0] * ICL_LINEAR_TERMS; i++)
        judge_delay(study, cell, i / ICL_LINEAR_TERMS, i % ICL_LINEAR_TERMS);
}

/* Draws a map. Rows: the term removed, layer by layer; columns: the layer after which the prediction is read; values:
 * how much it moves. */
static void draw_ablations(icl_study *study, const icl_study_cell *cell) {
    const size_t depth = cell->at[0];
    double moved[ICL_LINEAR_TERMS][MOST_LAYERS * MOST_LAYERS];
    icl_heat_map maps[ICL_LINEAR_TERMS];

    for (size_t term = 0; term < ICL_LINEAR_TERMS; term++) {
        maps[term] = (icl_heat_map){icl_linear_term_name((icl_linear_term)term),
                                    depth,
                                    depth,
                                    moved[term],
                                    icl_layer_numbers,
                                    icl_layer_numbers};
        for (size_t i = 0; i < depth * depth; i++)
            moved[term][i] = icl_ablation_power(cell->numbers[place_of(i / depth, term, i % depth)].value);
    }
    ICL_STUDY_MAPS(study, .name = "ablations",
                   .title = "How far predictions move without a term, over their size: powers of ten, 3 at most",
                   .row_label = "layer without it", .column_label = "read after layer", .count = ICL_LINEAR_TERMS,
                   .maps = maps);
}

static void conclude_layers(icl_study *study) {
    const icl_study_cell *cell = study->cells[study->count - 1];
    icl_curves curves =
        ICL_CURVES(.name = "layers", .title = "Loss of the prediction read out after each layer (arXiv 2402.14180)",
                   .x_label = "layer", .y_label = "half adjusted loss", .log_y = true);

    for (size_t l = 0; l < cell->at[0]; l++)
        icl_study_plot_number(study, &curves, cell->name, ICL_SERIES_OURS, (double)(l + 1), cell->numbers[LOSSES + l]);
    icl_study_draw(study, &curves);
    draw_ablations(study, cell);
}

const icl_reproduction icl_versatile_layers = ICL_STUDY(
        .name = "versatile-layers", .source = "arXiv 2402.14180, theorem 4.1 and the figure of predictions by layer",
        .about = "each layer's prediction, its implicit weight vector, and which term of which layer changes it when",
        .claim =
            "After every layer, a linear transformer's prediction is linear in the query: each layer holds an implicit "
            "weight vector.",
        .scope = "A met table means that predictions of one trained diagonal model are linear in the query "
                 "and that terms act as many layers later as the equations say; what each term is good for "
                 "and full layers were not tested.",
        .cost = {"5 s", "1 min", "3 min"}, .numbers = LAYERS_NUMBERS, .plan = plan_layers, .begin = icl_versatile_begin,
        .measure = measure_layers, .judge = judge_layers, .conclude = conclude_layers);
