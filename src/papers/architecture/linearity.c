/*
 * How linear the layers of a transformer are: Razzhigaev and others 2024, "Your Transformer is Secretly Linear" (arXiv
 * 2405.12250). The linearity score of consecutive layers (probe/linearity.h), of what stands behind them and of what
 * they add, over all tokens of some sequences.
 *
 * The paper scores language models on text; its values are at hand as plots alone. Here small softmax transformers
 * learn to predict a dynamical system at every position, or to recall, and are scored untrained and after some steps.
 * The scores of maps that are known, and of noise, are judged; those of models are shown beside what we recall of the
 * paper.
 */
#include <math.h>
#include <stdio.h>

#include "core/allocate.h"
#include "iclab/random.h"
#include "papers/architecture/architecture.h"
#include "papers/curves.h"
#include "papers/papers.h"
#include "probe/linearity.h"
#include "probe/residual_stream.h"

/* Of this reproduction alone; tasks have streams of their own (task/streams.h). */
#define NOISE_STREAM 0x6c696e65u

enum { SEQUENCES = 128, KINDS = 2, MOST_STEPS = 5 };

static const struct {
    const char *name, *what, *recipe, *overrides;
} kinds[KINDS] = {
    {"dynamics", "dynamical system", "mesa",
     "task.constructed=false model.mixer=softmax model.layers=4 model.width=64 model.heads=4 model.positions=learned "
     "model.norm=rms model.feed_forward=gelu model.output_norm=rms train.schedule=constant"},
    {"recall", "recall", "recall",
     "model.mixer=conv,softmax model.layers=4 model.width=64 model.heads=4 model.key_width=16 "
     "model.feed_forward=gelu train.learning_rate=0.002 train.schedule=constant eval.every=0"},
};

static const struct {
    size_t kinds, seeds;
    size_t steps[MOST_STEPS]; /* of the trained models, up to the first 0 */
} budgets[ICL_SCALES] = {{1, 2, {20}}, {KINDS, 3, {200, 800}}, {KINDS, 5, {200, 800, 3200, 12800}}};

/* ---- Maps that are known ---- */

enum { TOKENS = 4096, WIDTH = 32 };

/* Rows X, and rows Y that a map makes of them. */
typedef struct control {
    float x[TOKENS * WIDTH], y[TOKENS * WIDTH];
} control;

static float normal(uint32_t seed, uint32_t matrix, size_t index) {
    const icl_random_key key = {.seed = seed, .stream = NOISE_STREAM, .step = matrix};
    return icl_normal_from_word(icl_random_word(key, index));
}

/* Y = X (I - 2 v v^T / |v|^2), a reflection. */
static void reflect(control *c, uint32_t seed) {
    double square = 0;

    for (size_t i = 0; i < WIDTH; i++)
        square += pow((double)normal(seed, 3, i), 2);
    for (size_t t = 0; t < TOKENS; t++) {
        double product = 0;
        for (size_t i = 0; i < WIDTH; i++)
            product += (double)c->x[t * WIDTH + i] * (double)normal(seed, 3, i);
        for (size_t i = 0; i < WIDTH; i++)
            c->y[t * WIDTH + i] =
                (float)((double)c->x[t * WIDTH + i] - 2 * product / square * (double)normal(seed, 3, i));
    }
}

/* A linear map leaves no residual but that of rounding: of floats, whose square is below 2^-46 of the values', and of
 * sums of TOKENS doubles. */
static icl_status judge_controls(icl_reproducing *run, icl_error *error) {
    const double n = TOKENS - 1, r = WIDTH, se = sqrt(2 * r * (n - r) / (n * n * (WIDTH * n + 2)));
    const uint32_t seed = run->params->seed;
    icl_linearity is;
    control *c = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(1, sizeof *c, "controls", &c, error));
    for (size_t i = 0; i < (size_t)TOKENS * WIDTH; i++)
        c->x[i] = normal(seed, 1, i);
    ICL_TRY(icl_linearity_measure(TOKENS, WIDTH, c->x, c->x, &is, error));
    ICL_TRY(ICL_FOUND(run, error, .what = "identity", .quantity = "linearity score", .ours = is.score, .target = 1,
                      .tolerance = 1e-12, .evidence = ICL_COMPUTED, .source = "a linear map"));
    reflect(c, seed);
    ICL_TRY(icl_linearity_measure(TOKENS, WIDTH, c->x, c->y, &is, error));
    ICL_TRY(ICL_FOUND(run, error, .what = "an orthogonal map", .quantity = "linearity score", .ours = is.score,
                      .target = 1, .tolerance = 1e-12, .evidence = ICL_COMPUTED, .source = "a linear map"));
    for (size_t i = 0; i < (size_t)TOKENS * WIDTH; i++)
        c->y[i] = normal(seed, 2, i);
    ICL_TRY(icl_linearity_measure(TOKENS, WIDTH, c->x, c->y, &is, error));
    /* 4: a row in 16,000 is farther off by chance. */
    ICL_TRY(ICL_FOUND(run, error, .what = "independent noise", .quantity = "linearity score", .ours = is.score,
                      .standard_error = se, .target = r / n, .tolerance = 4 * se, .evidence = ICL_COMPUTED,
                      .source = "dimensions over tokens"));
done:
    icl_free(&c);
    return status;
}

/* ---- Models ---- */

/* The curves of a kind of model over its layers. */
typedef struct outcome {
    icl_curves scores, updates, anisotropies;
    size_t layers;
} outcome;

static icl_status add_layer(outcome *to, const char *label, size_t layer, const icl_residual_stream *stream,
                            icl_error *error) {
    const float *x = icl_residual_stream_stage(stream, layer - 1), *y = icl_residual_stream_stage(stream, layer);
    icl_linearity is;
    double anisotropy;

    ICL_CHECK(icl_linearity_measure(stream->tokens, stream->width, x, y, &is, error));
    ICL_CHECK(icl_anisotropy(stream->tokens, stream->width, y, &anisotropy, error));
    ICL_CHECK(icl_curves_add(&to->scores, label, ICL_SERIES_OURS, (double)layer, is.score, error));
    ICL_CHECK(icl_curves_add(&to->updates, label, ICL_SERIES_OURS, (double)layer, is.update_score, error));
    return icl_curves_add(&to->anisotropies, label, ICL_SERIES_OURS, (double)layer, anisotropy, error);
}

/* The residual stream of the trainer's parameters on the same sequences for all models of a kind. */
static icl_status read_stream(const icl_reproducing *run, icl_trainer *trainer, icl_residual_stream *stream,
                              icl_error *error) {
    const icl_model *model = icl_trainer_model(trainer);
    const icl_task *task = icl_trainer_task(trainer);
    const size_t size = icl_model_size(model);
    icl_backend *backend = run->params->backend;
    float *values = NULL;
    icl_tensor parameters = {0};
    icl_batch batch = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(size, sizeof *values, "parameters", &values, error));
    ICL_TRY(icl_trainer_get_parameters(trainer, values, error));
    ICL_TRY(icl_tensor_create(backend, 1, &size, &parameters, error));
    ICL_TRY(icl_tensor_write(parameters, values, error));
    ICL_TRY(icl_batch_create(task, backend, ICL_FOR_EVALUATION, SEQUENCES, &batch, error));
    ICL_TRY(icl_task_sample(task, backend, ICL_FOR_EVALUATION, run->params->seed, 0, &batch, error));
    ICL_TRY(icl_residual_stream_read(model, backend, parameters, batch.inputs, stream, error));
done:
    icl_batch_release(&batch);
    icl_tensor_release(&parameters);
    icl_free(&values);
    return status;
}

static const char *write_label(size_t steps, char label[ICL_CURVE_LABEL]) {
    snprintf(label, ICL_CURVE_LABEL, steps > 0 ? "%zu steps" : "untrained", steps);
    return label;
}

static icl_status score_model(icl_reproducing *run, size_t kind, size_t steps, uint32_t seed, outcome *to,
                              icl_error *error) {
    icl_residual_stream stream = {0};
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = NULL;
    char name[ICL_SEEDED_NAME], label[ICL_CURVE_LABEL];
    icl_status status = ICL_OK;

    snprintf(name, sizeof name, "%s-%zu", kinds[kind].name, steps);
    const icl_seeded_cell cell = {
        .name = name, .recipe = kinds[kind].recipe, .overrides = kinds[kind].overrides, .steps = steps, .seed = seed};
    ICL_TRY(icl_reproduce_train_seed(run, &cell, &recipe, &trainer, error));
    ICL_TRY(read_stream(run, trainer, &stream, error));
    to->layers = stream.stages - 1;
    for (size_t layer = 1; layer <= to->layers; layer++)
        ICL_TRY(add_layer(to, write_label(steps, label), layer, &stream, error));
done:
    icl_residual_stream_release(&stream);
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
    return status;
}

/* The scores of a layer behind the most steps. */
static icl_status show_layer(icl_reproducing *run, size_t kind, size_t steps, size_t layer, const outcome *of,
                             icl_error *error) {
    char what[ICL_SEEDED_NAME], note[96], label[ICL_CURVE_LABEL];
    icl_curve_point score, update, anisotropy, untrained, untrained_update;
    const double x = (double)layer;

    write_label(steps, label);
    ICL_CHECK(icl_curves_point(&of->scores, label, x, &score, error));
    ICL_CHECK(icl_curves_point(&of->updates, label, x, &update, error));
    ICL_CHECK(icl_curves_point(&of->anisotropies, label, x, &anisotropy, error));
    ICL_CHECK(icl_curves_point(&of->scores, "untrained", x, &untrained, error));
    ICL_CHECK(icl_curves_point(&of->updates, "untrained", x, &untrained_update, error));
    snprintf(what, sizeof what, "%s, layer %zu, %zu steps", kinds[kind].what, layer, steps);
    snprintf(note, sizeof note, "untrained %.4f; anisotropy behind it %.2f", untrained.mean, anisotropy.mean);
    ICL_CHECK(ICL_FOUND(run, error, .what = what, .quantity = "linearity score", .ours = score.mean,
                        .standard_error = score.standard_error, .target = .99, .criterion = ICL_AT_LEAST,
                        .evidence = ICL_RECALLED, .source = "language models", .note = note));
    snprintf(note, sizeof note, "untrained %.4f", untrained_update.mean);
    return ICL_FOUND(run, error, .what = what, .quantity = "linearity score of what it adds", .ours = update.mean,
                     .standard_error = update.standard_error, .target = score.mean, .criterion = ICL_AT_MOST,
                     .evidence = ICL_RECALLED, .source = "lower without the residual connection", .note = note);
}

static icl_status reproduce_kind(icl_reproducing *run, size_t kind, icl_error *error) {
    outcome of = {.layers = 0};
    char names[3][ICL_SEEDED_NAME];
    size_t last = 0;
    icl_status status = ICL_OK;

    for (size_t i = 0; i < 3; i++)
        snprintf(names[i], sizeof names[i], "%s-%s", (const char *const[]){"score", "update", "anisotropy"}[i],
                 kinds[kind].name);
    of.scores.figure = (icl_figure){
        .name = names[0], .title = "Linearity of layers", .x_label = "layer", .y_label = "linearity score"};
    of.updates.figure = (icl_figure){.name = names[1],
                                     .title = "Linearity of what layers add",
                                     .x_label = "layer",
                                     .y_label = "linearity score of the update"};
    of.anisotropies.figure = (icl_figure){.name = names[2],
                                          .title = "Variance along the first principal direction",
                                          .x_label = "layer",
                                          .y_label = "share"};
    for (uint32_t seed = 0; seed < budgets[run->params->scale].seeds; seed++) {
        if (icl_reproduce_judges(run))
            ICL_TRY(score_model(run, kind, 0, run->params->seed + seed, &of, error));
        for (size_t i = 0; i < MOST_STEPS && budgets[run->params->scale].steps[i] > 0; i++) {
            last = budgets[run->params->scale].steps[i];
            ICL_TRY(icl_reproduce_next(run, score_model(run, kind, last, run->params->seed + seed, &of, error)));
        }
    }
    for (size_t layer = 1; layer <= of.layers; layer++)
        ICL_TRY(show_layer(run, kind, last, layer, &of, error));
    ICL_TRY(icl_curves_draw(run, &of.scores, error));
    ICL_TRY(icl_curves_draw(run, &of.updates, error));
    ICL_TRY(icl_curves_draw(run, &of.anisotropies, error));
done:
    icl_curves_release(&of.scores);
    icl_curves_release(&of.updates);
    icl_curves_release(&of.anisotropies);
    return status;
}

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    if (icl_reproduce_judges(run) && icl_reproduce_wants(run, "controls"))
        ICL_CHECK(judge_controls(run, error));
    for (size_t kind = 0; kind < budgets[run->params->scale].kinds; kind++)
        if (icl_reproduce_wants(run, kinds[kind].name))
            ICL_CHECK(reproduce_kind(run, kind, error));
    return ICL_OK;
}

const icl_reproduction icl_linearity_score = {
    .name = "linearity-score",
    .source = "arXiv 2405.12250",
    .about = "how linear the layers of transformers are, by layer and training",
    .cost = {"4 s", "5 min", "4 h"},
    .is_shared = true,
    .run = reproduce,
};
