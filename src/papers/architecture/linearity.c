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
#include <stdio.h>

#include "core/allocate.h"
#include "core/print.h"
#include "papers/architecture/linear_maps.h"
#include "papers/curves.h"
#include "papers/papers.h"
#include "papers/seeds.h"
#include "probe/linearity.h"
#include "probe/residual_stream.h"

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

/* 0 steps: untrained. */
static icl_status score_model(icl_reproducing *run, size_t kind, size_t steps, uint32_t seed, outcome *to,
                              icl_error *error) {
    char name[ICL_SEEDED_NAME], label[ICL_CURVE_LABEL];
    const icl_seeded_cell cell = {
        .name = name, .recipe = kinds[kind].recipe, .overrides = {kinds[kind].overrides}, .steps = steps, .seed = seed};
    icl_seeded made = {NULL};
    icl_residual_stream stream = {0};
    icl_status status = ICL_OK;

    snprintf(name, sizeof name, "%s-%zu", kinds[kind].name, steps);
    ICL_TRY(icl_reproduce_train_seed(run, &cell, &made, error));
    ICL_TRY(read_stream(run, made.trainer, &stream, error));
    to->layers = stream.stages - 1;
    for (size_t layer = 1; layer <= to->layers; layer++)
        ICL_TRY(add_layer(to, write_label(steps, label), layer, &stream, error));
done:
    icl_residual_stream_release(&stream);
    icl_seeded_release(&made);
    return status;
}

/* The scores of a layer behind the most steps. */
static icl_status show_layer(icl_reproducing *run, size_t kind, size_t steps, size_t layer, const outcome *of,
                             icl_error *error) {
    char what[ICL_SEEDED_NAME], note[96], label[ICL_CURVE_LABEL];
    const double x = (double)layer;
    const icl_curve_point score = icl_curves_at(&of->scores, write_label(steps, label), x);
    const icl_curve_point update = icl_curves_at(&of->updates, label, x);

    snprintf(what, sizeof what, "%s, layer %zu, %zu steps", kinds[kind].what, layer, steps);
    icl_print(note, sizeof note, "untrained %.4f; anisotropy behind it %.2f",
              icl_curves_at(&of->scores, "untrained", x).mean, icl_curves_at(&of->anisotropies, label, x).mean);
    ICL_CHECK(ICL_FOUND_POINT(run, error, score, .what = what, .quantity = "linearity score", .target = .99,
                              .criterion = ICL_AT_LEAST, .evidence = ICL_RECALLED, .source = "language models",
                              .note = note));
    icl_print(note, sizeof note, "untrained %.4f", icl_curves_at(&of->updates, "untrained", x).mean);
    return ICL_FOUND_POINT(run, error, update, .what = what, .quantity = "linearity score of what it adds",
                           .target = score.mean, .criterion = ICL_AT_MOST, .evidence = ICL_RECALLED,
                           .source = "lower without the residual connection", .note = note);
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
            ICL_TRY(score_model(run, kind, 0, icl_reproduce_seed(run, seed), &of, error));
        for (size_t i = 0; i < MOST_STEPS && budgets[run->params->scale].steps[i] > 0; i++) {
            last = budgets[run->params->scale].steps[i];
            ICL_TRY(icl_reproduce_next(run, score_model(run, kind, last, icl_reproduce_seed(run, seed), &of, error)));
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
    if (icl_reproduce_wants(run, "controls") && icl_reproduce_judges(run))
        ICL_CHECK(icl_linear_maps_judge(run, error));
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
