/* Inspections of sequence models (model.family = sequence): what their mixers do on a few sequences, and how well they
 * predict. */
#include <math.h>
#include <stdio.h>

#include "core/allocate.h"
#include "model/sequence/sequence.h"
#include "probe/activations.h"
#include "probe/inspection.h"
#include "probe/linearity.h"

/* ---- Where softmax layers look ---- */

/* The most heads in the picture. */
#define MOST_MAPS 8

/* Means over all queries of all sequences. */
typedef struct head_summary {
    double entropy;        /* the entropy of a query's weights, in nats */
    double largest;        /* the largest weight of a query */
    double itself, before; /* weights of the query's own position and of the previous one */
    double distance;       /* positions back, weighted */
} head_summary;

static head_summary summarize(const icl_attention_map *map, size_t head) {
    const double share = 1 / (double)(map->sequences * map->queries);
    head_summary sum = {0};

    for (size_t b = 0; b < map->sequences; b++)
        for (size_t i = 0; i < map->queries; i++) {
            const size_t at = map->keys - map->queries + i;
            double largest = 0;
            for (size_t j = 0; j < map->keys; j++) {
                const double weight = icl_attention_weight(map, b, head, i, j);
                largest = fmax(largest, weight);
                sum.entropy -= weight > 0 ? share * weight * log(weight) : 0;
                sum.distance += share * weight * fabs((double)at - (double)j);
            }
            sum.largest += share * largest;
            sum.itself += share * icl_attention_weight(map, b, head, i, at);
            sum.before += at > 0 ? share * icl_attention_weight(map, b, head, i, at - 1) : 0;
        }
    return sum;
}

static icl_status add_head(icl_inspection *run, const icl_attention_map *map, size_t head, icl_error *error) {
    const head_summary summary = summarize(map, head);
    const struct {
        const char *quantity;
        double value;
    } numbers[] = {{"attention: effective number of keys", exp(summary.entropy)},
                   {"attention: largest weight", summary.largest},
                   {"attention: weight of its own position", summary.itself},
                   {"attention: weight of the position before", summary.before},
                   {"attention: mean distance in positions", summary.distance}};
    enum { NUMBERS = sizeof numbers / sizeof *numbers };
    char layer[32], what[ICL_INSPECT_CELL], texts[NUMBERS][ICL_INSPECT_CELL];
    const char *cells[2 + NUMBERS] = {layer, what};

    snprintf(layer, sizeof layer, "%zu, %s", map->layer + 1, map->mixer);
    icl_inspect_head(run, map->loop, head, what);
    for (size_t i = 0; i < NUMBERS; i++) {
        cells[2 + i] = icl_inspect_number(numbers[i].value, texts[i]);
        ICL_CHECK(ICL_INSPECT_FOUND(run, error, .layer = map->layer + 1, .what = what, .quantity = numbers[i].quantity,
                                    .value = numbers[i].value, .note = map->mixer));
    }
    return icl_inspect_table_row(run, ICL_TONE_PLAIN, cells, error);
}

static icl_status write_attention(icl_inspection *run, const icl_attention_maps *maps, icl_error *error) {
    static const icl_report_column columns[] = {{"layer", false},         {"head", false},
                                                {"keys in effect", true}, {"largest weight", true},
                                                {"on itself", true},      {"on the one before", true},
                                                {"distance", true}};

    ICL_CHECK(icl_inspect_table_begin(run, columns, sizeof columns / sizeof *columns, error));
    for (size_t i = 0; i < maps->count; i++)
        for (size_t head = 0; head < maps->maps[i].heads; head++)
            ICL_CHECK(add_head(run, &maps->maps[i], head, error));
    ICL_CHECK(icl_inspect_table_end(run, error));
    return icl_inspect_paragraph(run, error,
                                 "Means over queries: exp(entropy) of a query's weights, its largest weight, the "
                                 "weights of its own position and of the one before, and how many positions back it "
                                 "looks.");
}

static icl_status draw_attention(icl_inspection *run, const icl_attention_maps *all, icl_error *error) {
    icl_heat_map maps[MOST_MAPS];
    char labels[MOST_MAPS][96], what[ICL_INSPECT_CELL];
    size_t count = 0, heads = 0;

    for (size_t i = 0; i < all->count; i++)
        for (size_t head = 0; head < all->maps[i].heads; head++, heads++) {
            const icl_attention_map *map = &all->maps[i];
            if (count == MOST_MAPS)
                continue;
            snprintf(labels[count], sizeof labels[0], "layer %zu, %s", map->layer + 1,
                     icl_inspect_head(run, map->loop, head, what));
            maps[count] = (icl_heat_map){.label = labels[count],
                                         .rows = map->queries,
                                         .columns = map->keys,
                                         .values = map->weights + head * map->queries * map->keys};
            count++;
        }
    ICL_CHECK(ICL_INSPECT_HEAT_MAPS(run, error, .name = "attention", .title = "Attention weights, the first sequence",
                                    .row_label = "query, the last one below",
                                    .column_label = "key, from the first position on", .count = count, .maps = maps));
    if (heads > MOST_MAPS)
        return icl_inspect_paragraph(run, error, "The picture has the first %d of %zu heads.", MOST_MAPS, heads);
    return ICL_OK;
}

static icl_status inspect_attention(icl_inspection *run, icl_tensor parameters, icl_tensor inputs, icl_error *error) {
    icl_attention_maps maps = {0};
    icl_status status = ICL_OK;

    icl_inspect_progress(run, "attention", 0);
    ICL_TRY(icl_attention_maps_measure(run->model, run->params->backend, parameters, inputs, &maps, error));
    if (maps.count == 0)
        goto done;
    ICL_TRY(icl_inspect_section(run, "Attention: where softmax layers look", error));
    ICL_TRY(write_attention(run, &maps, error));
    ICL_TRY(draw_attention(run, &maps, error));
done:
    icl_attention_maps_release(&maps);
    return status;
}

/* ---- How linear the layers are ---- */

/* Writes "2", or "2, loop 3" if the layers run several times. */
static const char *name_layer(const icl_inspection *run, size_t stage, char text[ICL_INSPECT_CELL]) {
    const size_t layers = icl_model_layers(run->model), layer = (stage - 1) % layers, loop = (stage - 1) / layers;

    if (icl_model_loops(run->model) > 1)
        snprintf(text, ICL_INSPECT_CELL, "%zu, loop %zu", layer + 1, loop + 1);
    else
        snprintf(text, ICL_INSPECT_CELL, "%zu", layer + 1);
    return text;
}

static icl_status add_layer(icl_inspection *run, size_t stage, const icl_linearity *linearity, double anisotropy,
                            icl_error *error) {
    const size_t layers = icl_model_layers(run->model), layer = (stage - 1) % layers + 1;
    const double numbers[] = {linearity->score, linearity->update_score, (double)linearity->rank, anisotropy};
    static const char *const quantities[] = {"linearity", "linearity of what it adds", "rank of what it reads",
                                             "anisotropy behind it"};
    enum { NUMBERS = sizeof numbers / sizeof *numbers };
    char name[ICL_INSPECT_CELL], what[ICL_INSPECT_CELL], texts[NUMBERS][ICL_INSPECT_CELL];
    const char *cells[1 + NUMBERS] = {name_layer(run, stage, name)};

    snprintf(what, sizeof what, "loop %zu", (stage - 1) / layers + 1);
    for (size_t i = 0; i < NUMBERS; i++) {
        cells[1 + i] = icl_inspect_number(numbers[i], texts[i]);
        ICL_CHECK(ICL_INSPECT_FOUND(run, error, .layer = layer,
                                    .what = icl_model_loops(run->model) > 1 ? what : "residual stream",
                                    .quantity = quantities[i], .value = numbers[i]));
    }
    return icl_inspect_table_row(run, ICL_TONE_PLAIN, cells, error);
}

static icl_status write_linearity(icl_inspection *run, const icl_residual_stream *stream, icl_error *error) {
    static const icl_report_column columns[] = {{"layer", false},
                                                {"linearity", true},
                                                {"of what it adds", true},
                                                {"rank of what it reads", true},
                                                {"anisotropy behind it", true}};

    ICL_CHECK(icl_inspect_table_begin(run, columns, sizeof columns / sizeof *columns, error));
    for (size_t stage = 1; stage < stream->stages; stage++) {
        const float *x = icl_residual_stream_stage(stream, stage - 1), *y = icl_residual_stream_stage(stream, stage);
        icl_linearity linearity;
        double anisotropy;
        ICL_CHECK(icl_inspect_poll(run, error));
        ICL_CHECK(icl_linearity_measure(stream->tokens, stream->width, x, y, &linearity, error));
        ICL_CHECK(icl_anisotropy(stream->tokens, stream->width, y, &anisotropy, error));
        ICL_CHECK(add_layer(run, stage, &linearity, anisotropy, error));
    }
    ICL_CHECK(icl_inspect_table_end(run, error));
    return icl_inspect_paragraph(
        run, error,
        "Linearity: the share of the residual stream's variance behind a layer that an affine map of the stream before "
        "it explains (arXiv 2405.12250), on %zu tokens of width %zu; numbers without any relation score r / %zu, r the "
        "rank. What a layer adds is scored by itself, because the residual connection alone brings the first score "
        "near 1. Anisotropy: the share of the variance along the first principal direction.",
        stream->tokens, stream->width, stream->tokens - 1);
}

static icl_status inspect_linearity(icl_inspection *run, icl_tensor parameters, icl_tensor inputs, icl_error *error) {
    icl_residual_stream stream = {0};
    icl_status status = ICL_OK;

    icl_inspect_progress(run, "linearity", 0);
    ICL_TRY(icl_residual_stream_read(run->model, run->params->backend, parameters, inputs, &stream, error));
    ICL_TRY(icl_inspect_section(run, "How linear the layers are", error));
    ICL_TRY(write_linearity(run, &stream, error));
done:
    icl_residual_stream_release(&stream);
    return status;
}

/* ---- Sequence models ---- */

/* Positions on which mixers are watched in all, and limits on the number of sequences that they make up. */
enum { POSITIONS = 4096, LEAST_SEQUENCES = 2, MOST_SEQUENCES = 16 };

/* Positions per unit of width on which linearity is measured, so that unrelated numbers score about 1 / TOKENS. */
enum { TOKENS = 32 };

static size_t sequences_to_watch(const icl_task_shape *shape) {
    const size_t fitting = POSITIONS / shape->positions;
    return fitting < LEAST_SEQUENCES ? LEAST_SEQUENCES : fitting < MOST_SEQUENCES ? fitting : MOST_SEQUENCES;
}

static size_t sequences_of_stream(const icl_inspection *run) {
    const icl_sequence *sequence = run->model->state;
    const size_t fitting = TOKENS * sequence->width / icl_task_get_shape(run->task)->positions + 1;
    return fitting < MOST_SEQUENCES ? MOST_SEQUENCES : fitting;
}

static bool has_same_mixer(const icl_sequence_layer *a, const icl_sequence_layer *b) {
    return a->mixer == b->mixer && a->own == b->own;
}

/* Names the mixers, layer by layer, at the beginning of the result. */
static icl_status introduce(icl_inspection *run, icl_error *error) {
    const icl_sequence *sequence = run->model->state;

    ICL_CHECK(icl_text_print(&run->lead, error, "The model has %zu layer%s of", run->model->layers,
                             run->model->layers > 1 ? "s" : ""));
    for (size_t i = 0; i < run->model->layers; i++)
        if (i == 0 || !has_same_mixer(&sequence->layers[i], &sequence->layers[i - 1]))
            ICL_CHECK(
                icl_text_print(&run->lead, error, "%s %s", i > 0 ? "," : "", icl_sequence_word(&sequence->layers[i])));
    return icl_text_print(&run->lead, error, ", %zu head%s and width %zu.", sequence->heads,
                          sequence->heads > 1 ? "s" : "", sequence->width);
}

/* Returns why a mixer has no state to look at; NULL if it has one. */
static const char *why_stateless(const icl_sequence *sequence, const icl_sequence_mixer *mixer) {
    if (mixer == &icl_mixer_softmax || mixer == &icl_mixer_labelled || mixer == &icl_mixer_fox)
        return "softmax attention keeps keys and values: it has no state, gates or transition";
    if (mixer == &icl_mixer_log_linear)
        return "log-linear attention keeps a state for each length of its stretches, and no single one";
    if (mixer == &icl_mixer_convolution)
        return "a convolution has neither attention weights nor a state";
    if (mixer == &icl_mixer_own)
        return "a program brought this mixer, whose attention weights or state are its own affair";
    if (!sequence->causal)
        return "with model.causal = false every position sees the sum over all: no state runs along the tokens";
    return NULL;
}

static icl_status explain_stateless(icl_inspection *run, icl_error *error) {
    const icl_sequence *sequence = run->model->state;

    for (size_t i = 0; i < run->model->layers; i++) {
        const char *why = why_stateless(sequence, sequence->layers[i].mixer);
        bool was_said = false;
        for (size_t j = 0; j < i; j++)
            was_said = was_said || has_same_mixer(&sequence->layers[j], &sequence->layers[i]);
        if (why && !was_said)
            ICL_CHECK(
                icl_inspect_paragraph(run, error, "Layers of %s: %s.", icl_sequence_word(&sequence->layers[i]), why));
    }
    return ICL_OK;
}

/* Sequences drawn for evaluation: a `few`, and as many as linearity needs. */
typedef struct samples {
    icl_tensor parameters; /* [N] */
    icl_batch few, many;
} samples;

static icl_status draw_batch(icl_inspection *run, size_t count, icl_batch *batch, icl_error *error) {
    icl_backend *backend = run->params->backend;

    ICL_CHECK(icl_batch_create(run->task, backend, ICL_FOR_EVALUATION, count, batch, error));
    return icl_task_sample(run->task, backend, ICL_FOR_EVALUATION, run->seed, 0, batch, error);
}

static icl_status draw_sequences(icl_inspection *run, samples *drawn, icl_error *error) {
    const size_t size = icl_model_size(run->model);

    ICL_CHECK(icl_tensor_create(run->params->backend, 1, &size, &drawn->parameters, error));
    ICL_CHECK(icl_tensor_write(drawn->parameters, run->values, error));
    ICL_CHECK(draw_batch(run, sequences_to_watch(icl_task_get_shape(run->task)), &drawn->few, error));
    return draw_batch(run, sequences_of_stream(run), &drawn->many, error);
}

icl_status icl_inspect_sequence(icl_inspection *run, icl_error *error) {
    const size_t asked = run->params->sequences;
    samples with = {0};
    icl_status status = ICL_OK;

    ICL_TRY(introduce(run, error));
    ICL_TRY(draw_sequences(run, &with, error));
    ICL_TRY(inspect_attention(run, with.parameters, with.few.inputs, error));
    ICL_TRY(icl_inspect_states(run, with.parameters, with.few.inputs, error));
    ICL_TRY(explain_stateless(run, error));
    ICL_TRY(inspect_linearity(run, with.parameters, with.many.inputs, error));
    ICL_TRY(icl_inspect_poll(run, error));
    ICL_TRY(icl_inspect_losses(run, asked > 0 ? asked : ICL_INSPECT_LOSS_SEQUENCES, error));
done:
    icl_batch_release(&with.few);
    icl_batch_release(&with.many);
    icl_tensor_release(&with.parameters);
    return status;
}
