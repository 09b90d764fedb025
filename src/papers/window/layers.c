/*
 * Windows in several layers (Collins et al. 2024, window.c, treats one): what further layers of softmax attention and a
 * norm change, on affine functions of k of d directions.
 *
 * Models are causal sequence models without feed-forward parts, whose embedding, queries, keys, values and read-out
 * are free. Three things are told: the loss, over that of the best window w B B^T of one layer; how far tokens
 * collapse, the mean cosine of two tokens of a sequence in the residual stream after each layer; and whether the first
 * layer has learned the metric, rho(M, B) of its scores M = E W_K (E W_Q)^T on inputs, with the embedding E.
 */
#include <math.h>
#include <string.h>

#include "numeric/matrix.h"
#include "papers/papers.h"
#include "probe/activations.h"
#include "probe/window.h"
#include "task/parts.h"

enum { D = 6, K = 2, N = 20, WIDTH = 16, MOST_LAYERS = 3, SEQUENCES = 64 };

typedef struct depth {
    size_t layers;
    const char *norm;
} depth;

static const depth depths[] = {{1, "none"}, {2, "none"}, {3, "none"}, {1, "rms"}, {2, "rms"}, {3, "rms"}};

/* Models of scale ci, the first ones. */
enum { FEW = 2 };

static const struct {
    unsigned steps, batch;
    size_t sequences;
} budgets[ICL_SCALES] = {{600, 128, 8192}, {3000, 256, 32768}, {20000, 512, 131072}};

#define SETTINGS                                                                                                       \
    "task.family=functions task.function=affine task.d=6 task.subspace=2 task.n=20 task.lipschitz=1 "                  \
    "task.noise=fixed:0.1 model.family=sequence model.mixer=softmax model.width=16 model.heads=1 "                     \
    "model.feed_forward=none model.embedding_bias=false train.learning_rate=0.01 train.warmup=50 train.clip=1 "        \
    "eval.every=0"

#define NAME "%zu layers, norm %s"

static void plan(icl_study *study) {
    const size_t count = study->scale == ICL_SCALE_CI ? FEW : sizeof depths / sizeof *depths;

    for (size_t i = 0; i < count; i++)
        ICL_ADD_CELL(study, .name = ICL_PHRASE(NAME, depths[i].layers, depths[i].norm), .data = &depths[i],
                     .at = {depths[i].layers}, .curve = ICL_PHRASE("norm %s", depths[i].norm),
                     .x = (double)depths[i].layers);
}

/* ---- Measuring ---- */

/* The loss, that of the best window, their ratio, rho of the first layer, and the mean cosine of tokens by stage. */
enum { LOSS = 0, BEST, RATIO, RHO, COSINES, NUMBERS = COSINES + MOST_LAYERS + 1 };

static icl_status make_recipe(const icl_study *study, const depth *which, icl_recipe **recipe, icl_error *error) {
    ICL_CHECK(icl_recipe_create_complete(recipe, error));
    ICL_CHECK(icl_reproduce_override_all(*recipe, SETTINGS, error));
    ICL_CHECK(icl_reproduce_override_all(*recipe,
                                         ICL_PHRASE("model.layers=%zu model.norm=%s train.steps=%u train.batch=%u",
                                                    which->layers, which->norm, budgets[study->scale].steps,
                                                    budgets[study->scale].batch),
                                         error));
    return ICL_OK;
}

/* Returns the parameter of that name in the flat vector. */
static const float *part_of(const icl_model *model, const float *values, const char *name) {
    for (size_t i = 0; i < icl_model_parameter_count(model); i++)
        if (strncmp(icl_model_parameter(model, i)->name, name, strlen(name)) == 0)
            return values + icl_model_parameter(model, i)->offset;
    return NULL;
}

/* out [D][WIDTH] = rows of the embedding of inputs times a matrix [WIDTH][WIDTH]. */
static void embed(const float *embedding, const float *matrix, double *out) {
    for (size_t i = 0; i < (size_t)D * WIDTH; i++) {
        out[i] = 0;
        for (size_t j = 0; j < WIDTH; j++)
            out[i] += (double)embedding[i / WIDTH * WIDTH + j] * (double)matrix[j * WIDTH + i % WIDTH];
    }
}

static icl_status measure_metric(const icl_trainer *trainer, const float *values, icl_number *rho, icl_error *error) {
    const icl_model *model = icl_trainer_model(trainer);
    const float *embedding = part_of(model, values, "embedding.weight");
    const float *key = part_of(model, values, "block.0.mixer.key");
    const float *query = part_of(model, values, "block.0.mixer.query");
    double keys[D * WIDTH], queries[D * WIDTH], M[D * D];

    if (!embedding || !key || !query)
        return icl_fail(error, ICL_ERROR_INPUT, "the first layer's keys and queries have other names");
    embed(embedding, key, keys);
    embed(embedding, query, queries);
    for (size_t i = 0; i < (size_t)D * D; i++) {
        M[i] = 0;
        for (size_t j = 0; j < WIDTH; j++)
            M[i] += keys[i / D * WIDTH + j] * queries[i % D * WIDTH + j];
    }
    return icl_subspace_alignment(M, icl_task_subspace(icl_trainer_task(trainer)).rotation, D, K, &rho->value, error);
}

/* Returns the mean cosine of two tokens of a sequence: (|sum_i u_i|^2 - n) / (n (n - 1)) for unit vectors u. */
static double mean_cosine(const float *rows) {
    const size_t n = N + 1;
    double sum = 0;

    for (size_t s = 0; s < SEQUENCES; s++) {
        double total[WIDTH] = {0}, square = 0;
        for (size_t i = 0; i < n; i++) {
            const float *row = rows + (s * n + i) * WIDTH;
            double norm = 0;
            for (size_t j = 0; j < WIDTH; j++)
                norm += (double)row[j] * (double)row[j];
            for (size_t j = 0; j < WIDTH; j++)
                total[j] += (double)row[j] / sqrt(norm);
        }
        for (size_t j = 0; j < WIDTH; j++)
            square += total[j] * total[j];
        sum += (square - (double)n) / (double)(n * (n - 1));
    }
    return sum / SEQUENCES;
}

static icl_status measure_collapse(const icl_study *study, icl_trainer *trainer, const float *values,
                                   icl_number *cosines, icl_error *error) {
    const icl_model *model = icl_trainer_model(trainer);
    const size_t size = icl_model_size(model);
    icl_backend *backend = study->run->params->backend;
    icl_residual_stream stream = {0};
    icl_tensor parameters = {0};
    icl_batch batch;
    icl_status status = ICL_OK;

    ICL_TRY(icl_tensor_create(backend, 1, &size, &parameters, error));
    ICL_TRY(icl_tensor_write(parameters, values, error));
    ICL_TRY(icl_study_batch(study, icl_trainer_task(trainer), SEQUENCES, 0, 0, &batch, error));
    ICL_TRY(icl_residual_stream_read(model, backend, parameters, batch.inputs, &stream, error));
    for (size_t stage = 0; stage < stream.stages; stage++)
        cosines[stage].value = mean_cosine(icl_residual_stream_stage(&stream, stage));
done:
    icl_residual_stream_release(&stream);
    icl_tensor_release(&parameters);
    return status;
}

/* Measures the loss of the best window of one layer, with its noise averaged out. */
static icl_status measure_best(const icl_study *study, const icl_recipe *recipe, const double *rotation,
                               icl_number *best, icl_error *error) {
    const icl_reproduce_params *params = study->run->params;
    const size_t count = budgets[study->scale].sequences;
    double shape[D * D];
    icl_window_set fitting = {0}, fresh = {0};
    icl_status status = ICL_OK;

    for (size_t i = 0; i < (size_t)D * D; i++) {
        shape[i] = 0;
        for (size_t j = 0; j < K; j++)
            shape[i] += rotation[i / D * D + j] * rotation[i % D * D + j];
    }
    ICL_TRY(icl_window_draw(params->backend, recipe, ICL_FOR_FITTING, params->seed, count, &fitting, error));
    ICL_TRY(icl_window_draw(params->backend, recipe, ICL_FOR_EVALUATION, params->seed, count, &fresh, error));
    const double w = icl_window_search(&fitting, shape);
    for (size_t i = 0; i < (size_t)D * D; i++)
        shape[i] *= w;
    const icl_window_quality quality = icl_window_measure(&fresh, shape, true);
    *best = (icl_number){quality.loss, quality.standard_error};
done:
    icl_window_release(&fitting);
    icl_window_release(&fresh);
    return status;
}

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *unused, icl_number *numbers,
                          icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = NULL;
    float *values = NULL;
    icl_status status = ICL_OK;

    (void)unused;
    ICL_TRY(make_recipe(study, cell->data, &recipe, error));
    ICL_TRY(icl_trainer_create(study->run->params->backend, recipe, &trainer, error));
    for (unsigned step = 0; step < budgets[study->scale].steps; step += 100) {
        ICL_TRY(icl_reproduce_poll(study->run, error));
        ICL_TRY(icl_trainer_run(trainer, 100, error));
    }
    ICL_TRY(icl_study_parameters(study, trainer, &values, error));
    ICL_TRY(icl_study_loss(study, trainer, budgets[study->scale].sequences, &numbers[LOSS], error));
    ICL_TRY(measure_best(study, recipe, icl_task_subspace(icl_trainer_task(trainer)).rotation, &numbers[BEST], error));
    numbers[RATIO].value = numbers[LOSS].value / numbers[BEST].value;
    numbers[RATIO].standard_error = numbers[RATIO].value * hypot(numbers[LOSS].standard_error / numbers[LOSS].value,
                                                                 numbers[BEST].standard_error / numbers[BEST].value);
    ICL_TRY(measure_metric(trainer, values, &numbers[RHO], error));
    ICL_TRY(measure_collapse(study, trainer, values, &numbers[COSINES], error));
done:
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
    return status;
}

/* ---- Judging ---- */

/* Returns the cell with one layer less and the same norm; NULL if there is none. */
static const icl_study_cell *shallower(const icl_study *study, const icl_study_cell *cell) {
    const depth *which = cell->data;
    const icl_study_cell *found = icl_study_find(study, ICL_PHRASE(NAME, which->layers - 1, which->norm));

    return found && found->is_wanted ? found : NULL;
}

static void judge_loss(icl_study *study, const icl_study_cell *cell) {
    const icl_number *numbers = cell->numbers;
    const icl_study_cell *before = shallower(study, cell);
    const bool is_trained = study->scale > ICL_SCALE_CI && cell->at[0] > 1;

    ICL_JUDGE(study, .quantity = "loss / best window's", ICL_OURS(numbers[RATIO]), .target = 1,
              .criterion = ICL_AT_MOST, .evidence = is_trained ? ICL_INFERRED : ICL_EVIDENCE_NONE,
              .source = "more than one window",
              .note = ICL_PHRASE("loss %.4g, of the best window %.4g", numbers[LOSS].value, numbers[BEST].value));
    if (before)
        ICL_JUDGE(study, .quantity = "loss", ICL_OURS(numbers[LOSS]), .target = before->numbers[LOSS].value,
                  .tolerance = 3 * hypot(numbers[LOSS].standard_error, before->numbers[LOSS].standard_error),
                  .criterion = ICL_AT_MOST, .evidence = cell->at[0] == 2 ? ICL_INFERRED : ICL_EVIDENCE_NONE,
                  .source = "two layers contain one");
}

/* rho of random scores is of the size of 1, and so are cosines of tokens that have collapsed. */
static void judge(icl_study *study, const icl_study_cell *cell) {
    const size_t last = cell->at[0];

    /* A norm divides each token by its size, so that its scores are of no one M. */
    const bool has_norm = strcmp(((const depth *)cell->data)->norm, "none") != 0;

    judge_loss(study, cell);
    ICL_JUDGE(study, .quantity = "rho(M, B) of layer 1", ICL_OURS(cell->numbers[RHO]), .target = .5,
              .criterion = ICL_AT_MOST, .evidence = has_norm ? ICL_EVIDENCE_NONE : ICL_INFERRED,
              .source = "layer one learns the metric");
    ICL_JUDGE(study, .quantity = "mean cosine of tokens, at the end", ICL_OURS(cell->numbers[COSINES + last]),
              .target = .9, .criterion = ICL_AT_MOST, .evidence = ICL_INFERRED, .source = "tokens do not collapse",
              .note = ICL_PHRASE("of their embedding %.3g", cell->numbers[COSINES].value));
}

static const icl_study_figure_row figures[] = {
    {.figure = {.name = "window-layers",
                .title = "Loss by the number of layers of softmax attention",
                .x_label = "layers",
                .y_label = "loss / best window's"},
     .number = RATIO},
};

const icl_reproduction icl_window_layers = ICL_STUDY(
        .name = "window-layers", .source = "arXiv 2402.11639",
        .about = "what more layers of softmax attention and a norm change on functions of a subspace",
        .claim =
            "A second layer of softmax attention does better than the best window of one, tokens do not collapse, and "
            "the first layer learns which directions matter.",
        .scope = "A met table means that more layers do better than the best single window and keep their "
                 "tokens apart, on affine functions; that layers after the first also work by windows was "
                 "not tested.",
        .cost = {"10 s", "3 min", "30 min"}, .numbers = NUMBERS, .plan = plan, .measure = measure, .judge = judge,
        ICL_FIGURES(figures));
