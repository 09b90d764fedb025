/* Mixers share these parts: heads and their outputs, matrix states, and attention. */
#include "model/sequence/sequence.h"

#include <math.h>

/* ---- Heads ---- */

/*
 * A mixer makes its queries, keys and values in this order:
 *
 *     projection -> short causal convolution and SiLU (model.convolution) -> heads -> rotary positions -> feature map
 *     -> norm of the key
 *
 * The last three apply to queries and keys only; the order is that of Yang and others 2024 (Gated DeltaNet).
 */

#define UNIT_EPSILON 1e-12 /* added to the sum of squares: a key of zeros stays zero */
#define SUM_EPSILON  1e-6  /* added to the sum, as in the code of Schlag and others 2021 */

static icl_status add_filter(icl_sequence_builder *builder, icl_sequence_parameter *filter,
                             const icl_sequence_layer *layer, const char *name, size_t channels, icl_error *error) {
    const icl_sequence *sequence = builder->sequence;
    const double std = sequence->init > 0 ? sequence->init : 1.0 / sqrt((double)sequence->convolution);

    if (sequence->convolution == 0)
        return ICL_OK;
    return icl_sequence_add(builder, filter, (icl_sequence_start){ICL_START_NORMAL, std, 0, false}, 2,
                            (const size_t[]){sequence->convolution, channels}, error, "block.%zu.%s", layer->index,
                            name);
}

/* Returns how many queries a token has beside `steps` keys, and how many values. */
static size_t queries_of(const icl_sequence_layer *layer, size_t steps) {
    return layer->mixer->reads & ICL_READS_RANK ? steps : 1;
}

static size_t values_of(const icl_sequence_layer *layer, size_t steps) {
    return layer->mixer->reads & ICL_READS_RANK ? 1 : steps;
}

/* Adds the projections and convolutions, with `steps` keys and values a token; icl_sequence_project applies them, and
 * the feature map. */
static icl_status add_heads(icl_sequence_builder *builder, icl_sequence_layer *layer, size_t steps, icl_error *error) {
    const icl_sequence *sequence = builder->sequence;
    const size_t key = sequence->heads * sequence->key_width, keys = steps * key;
    const size_t queries = queries_of(layer, steps) * key;
    const size_t values = values_of(layer, steps) * sequence->heads * sequence->value_width;

    ICL_CHECK(icl_sequence_add_matrix(builder, &layer->query, layer, "mixer.query", sequence->width, queries, error));
    ICL_CHECK(icl_sequence_add_matrix(builder, &layer->key, layer, "mixer.key", sequence->width, keys, error));
    ICL_CHECK(icl_sequence_add_matrix(builder, &layer->value, layer, "mixer.value", sequence->width, values, error));
    ICL_CHECK(add_filter(builder, &layer->query_filter, layer, "mixer.query_filter", queries, error));
    ICL_CHECK(add_filter(builder, &layer->key_filter, layer, "mixer.key_filter", keys, error));
    ICL_CHECK(add_filter(builder, &layer->value_filter, layer, "mixer.value_filter", values, error));
    return ICL_OK;
}

icl_variable icl_sequence_convolve(const icl_sequence_pass *pass, icl_variable x, icl_sequence_parameter filter) {
    const icl_variable kernel = icl_sequence_value(pass, filter);
    const icl_tensor seen = icl_tape_value(pass->tape, x);
    const size_t before = icl_tape_value(pass->tape, kernel).shape[0] - 1;

    if (!pass->memory)
        return icl_tape_convolve(pass->tape, x, kernel);
    /* The remembered inputs stand in front. */
    const icl_variable all = icl_model_memory_slide(pass->memory, pass->tape, 1, before, x);
    const size_t known = icl_tape_value(pass->tape, all).shape[1] - seen.shape[1];
    return icl_tape_slice(pass->tape, icl_tape_convolve(pass->tape, all, kernel), 1, known, seen.shape[1]);
}

static icl_variable project(const icl_sequence_pass *pass, icl_variable x, icl_sequence_parameter weight,
                            icl_sequence_parameter filter) {
    const icl_variable projected = icl_sequence_linear(pass, x, weight, 0);
    /* SiLU also makes the slice of a convolution contiguous. */
    return filter ? icl_tape_unary(pass->tape, ICL_SILU, icl_sequence_convolve(pass, projected, filter)) : projected;
}

icl_variable icl_sequence_unit(const icl_sequence_pass *pass, icl_variable x) {
    return icl_tape_normalize(pass->tape, &(icl_normalize_params){ICL_NORM_UNIT, UNIT_EPSILON}, x, NULL, NULL);
}

static icl_variable map_key(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x) {
    const icl_key_norm chosen = pass->sequence->normalize_keys;
    const icl_key_norm norm = chosen == ICL_KEYS_AUTO ? layer->mixer->keys : chosen;
    icl_variable mapped, sum;

    if (!(layer->mixer->reads & ICL_READS_FEATURES)) /* the map belongs to another layer */
        return x;
    mapped = icl_sequence_features(pass, layer, x);
    switch (norm) {
    case ICL_KEYS_UNIT:
        return icl_sequence_unit(pass, mapped);
    case ICL_KEYS_SUM:
        sum = icl_tape_reduce(pass->tape, ICL_SUM, 1u << 3, mapped);
        return icl_tape_binary(pass->tape, ICL_DIVIDE, mapped, icl_sequence_add_scalar(pass, sum, SUM_EPSILON));
    case ICL_KEYS_AUTO:
    case ICL_KEYS_AS_THEY_ARE:
        break;
    }
    return mapped;
}

/* Returns heads [B, H, T steps, m] of keys [B, T, steps H m], turned by the position of their token, counted from
 * `first`. While they turn they are steps H heads, because all writes of a token stand at one position. */
static icl_variable split_keys(const icl_sequence_pass *pass, icl_variable x, size_t first, size_t steps) {
    const icl_sequence *sequence = pass->sequence;
    const icl_tensor seen = icl_tape_value(pass->tape, x);
    const size_t by_token[] = {seen.shape[0], seen.shape[1], steps * sequence->heads, sequence->key_width};

    if (sequence->positions != ICL_POSITIONS_ROTARY)
        return icl_sequence_split(pass, x, sequence->key_width);
    x = icl_tape_swap_axes(pass->tape, icl_tape_reshape(pass->tape, x, 4, by_token), 1, 2);
    x = icl_tape_rotate(pass->tape, x, sequence->position_base, first);
    return steps == 1 ? x : icl_sequence_split(pass, icl_sequence_join(pass, x), sequence->key_width);
}

/* As icl_sequence_project, with queries only for `asked`, the last positions of x. */
static icl_sequence_heads project_for(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x,
                                      icl_variable asked, size_t steps) {
    const icl_sequence *sequence = pass->sequence;
    const size_t before = icl_tape_value(pass->tape, x).shape[1] - icl_tape_value(pass->tape, asked).shape[1];
    icl_variable q = project(pass, asked, layer->query, layer->query_filter);
    icl_variable k = project(pass, x, layer->key, layer->key_filter);
    const icl_variable v = project(pass, x, layer->value, layer->value_filter);

    q = split_keys(pass, q, pass->first_position + before, queries_of(layer, steps));
    k = split_keys(pass, k, pass->first_position, steps);
    return (icl_sequence_heads){map_key(pass, layer, q), map_key(pass, layer, k),
                                icl_sequence_split(pass, v, sequence->value_width)};
}

icl_sequence_heads icl_sequence_project(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x,
                                        size_t steps) {
    return project_for(pass, layer, x, x, steps);
}

/* ---- Outputs ---- */

/*
 * Maps the heads' outputs back to the width by a norm of each head (Sun and others 2023, RetNet), a gate and a
 * projection:
 *
 *     y = (norm(o) * silu(x G)) W
 *
 * The gate is sigmoid(x G) in attention (Qiu and others 2025) and in mixers whose authors have it so. Attention has no
 * norm.
 */

#define NORM_EPSILON 1e-5

/* Adds the output's norm for each head, its gate, and the projection back to the width. */
static icl_status add_output(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error) {
    const icl_sequence *sequence = builder->sequence;
    const size_t values = sequence->heads * sequence->value_width;
    const unsigned reads = layer->mixer->reads;

    if ((reads & ICL_READS_OUTPUT) && sequence->output_norm != ICL_NORMS_NONE)
        ICL_CHECK(icl_sequence_add_constants(builder, &layer->output_gain, layer, "mixer.output_gain",
                                             sequence->value_width, 1, error));
    if ((reads & (ICL_READS_OUTPUT | ICL_READS_OUTPUT_GATE)) && sequence->output_gate)
        ICL_CHECK(icl_sequence_add_matrix(builder, &layer->output_gate, layer, "mixer.output_gate", sequence->width,
                                          values, error));
    return icl_sequence_add_residual(builder, &layer->output, layer, "mixer.output", values, sequence->width, error);
}

icl_variable icl_sequence_emit(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x,
                               icl_variable o) {
    const icl_normalize_params params = {pass->sequence->output_norm == ICL_NORMS_LAYER ? ICL_NORM_LAYER : ICL_NORM_RMS,
                                         NORM_EPSILON};

    /* The heads are laid side by side first, because attention and recurrences lay them out so. */
    o = icl_tape_swap_axes(pass->tape, o, 1, 2);
    if (layer->output_gain) {
        const icl_variable gain = icl_sequence_value(pass, layer->output_gain);
        o = icl_tape_normalize(pass->tape, &params, o, &gain, NULL);
    }
    o = icl_sequence_join(pass, icl_tape_swap_axes(pass->tape, o, 1, 2));
    if (layer->output_gate) {
        const icl_variable gate = icl_sequence_linear(pass, x, layer->output_gate, 0);
        const icl_unary_kind kind = layer->mixer->has_sigmoid ? ICL_SIGMOID : ICL_SILU;
        o = icl_tape_binary(pass->tape, ICL_MULTIPLY, o, icl_tape_unary(pass->tape, kind, gate));
    }
    return icl_sequence_linear(pass, o, layer->output, 0);
}

/* ---- Matrix states ---- */

/* All mixers with a matrix state S [m, n] for each head share these parts. */

icl_status icl_sequence_add_matrix_state(icl_sequence_builder *builder, icl_sequence_layer *layer, size_t steps,
                                         icl_error *error) {
    ICL_CHECK(add_heads(builder, layer, steps, error));
    ICL_CHECK(icl_sequence_add_features(builder, layer, error));
    return add_output(builder, layer, error);
}

double icl_sequence_scale(const icl_sequence *sequence, const icl_sequence_layer *layer) {
    const icl_key_norm norm = sequence->normalize_keys == ICL_KEYS_AUTO ? layer->mixer->keys : sequence->normalize_keys;
    const bool plain = norm == ICL_KEYS_AS_THEY_ARE && sequence->feature_map == ICL_FEATURES_IDENTITY;
    return plain ? 1.0 / sqrt((double)sequence->key_width) : 1.0;
}

icl_variable icl_sequence_remember(const icl_sequence_pass *pass, const icl_recurrence_params *params,
                                   const icl_recurrence_variables *operands) {
    const icl_tensor k = icl_tape_value(pass->tape, operands->k), v = icl_tape_value(pass->tape, operands->v);
    const size_t shape[] = {k.shape[0] > v.shape[0] ? k.shape[0] : v.shape[0],
                            k.shape[1] > v.shape[1] ? k.shape[1] : v.shape[1], k.shape[3], v.shape[3]};
    icl_recurrence_variables with = *operands;
    icl_variable before, after, out;
    size_t part;

    if (!pass->memory)
        return icl_tape_recurrence(pass->tape, params, operands, NULL);
    before = icl_model_memory_recall(pass->memory, pass->tape, 4, shape, &part);
    with.state = &before;
    out = icl_tape_recurrence(pass->tape, params, &with, &after);
    icl_model_memory_keep(pass->memory, pass->tape, part, after);
    return out;
}

icl_variable icl_sequence_recur_with(const icl_sequence_pass *pass, const icl_sequence_layer *layer,
                                     const icl_recurrence_params *params, const icl_recurrence_variables *operands) {
    if (pass->watch && pass->watch->recurrence)
        pass->watch->recurrence(pass->watch->user, pass, layer, params->delta, operands);
    return icl_sequence_remember(pass, params, operands);
}

icl_variable icl_sequence_recur(const icl_sequence_pass *pass, const icl_sequence_layer *layer, bool delta,
                                const icl_recurrence_variables *operands) {
    const icl_recurrence_params params = {.delta = delta, .scale = icl_sequence_scale(pass->sequence, layer)};
    return icl_sequence_recur_with(pass, layer, &params, operands);
}

/* ---- Strength of writing ---- */

icl_status icl_sequence_add_write(icl_sequence_builder *builder, icl_sequence_layer *layer, size_t steps,
                                  icl_error *error) {
    return icl_sequence_add_share(builder, &layer->write, layer, "mixer.write", steps * builder->sequence->heads,
                                  error);
}

icl_variable icl_sequence_write(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x,
                                double strength) {
    return icl_sequence_share(pass, &layer->write, x, strength, 1);
}

/* ---- Attention ---- */

/*
 * Softmax and fox share attention over the keys so far, or over those of a window. In the last layer only the
 * scored positions ask, if they are the last ones.
 *
 * What stands in the logits beside q . k / sqrt(m), an offset of a key or the logit of a sink, is one more number of
 * keys and queries: k' = (k, c) and q' = (q, sqrt(m)). A sink is a key (0, z) in front of all, whose value is 0.
 */

icl_status icl_sequence_add_attention(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error) {
    ICL_CHECK(add_heads(builder, layer, 1, error));
    ICL_CHECK(add_output(builder, layer, error));
    if (!(layer->mixer->reads & ICL_READS_SINKS) || !builder->sequence->sinks)
        return ICL_OK;
    return icl_sequence_add_constants(builder, &layer->sink, layer, "mixer.sink", builder->sequence->heads, 0, error);
}

/* Returns the positions that ask. They are the scored ones only if these come last, so that the mask fits, and if no
 * filter of queries reads those before, too. */
static icl_variable asked_of(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x) {
    const bool are_last = pass->first_scored + pass->scored == icl_tape_value(pass->tape, x).shape[1];
    return pass->is_last && are_last && !layer->query_filter ? icl_sequence_keep_scored(pass, x) : x;
}

/* Returns a constant [B, H, count, width] beside heads x. */
static icl_variable fill_beside(const icl_sequence_pass *pass, icl_variable x, size_t count, size_t width,
                                double value) {
    const icl_tensor seen = icl_tape_value(pass->tape, x);
    return icl_tape_filled(pass->tape, 4, (const size_t[]){seen.shape[0], seen.shape[1], count, width}, value);
}

static icl_variable join(const icl_sequence_pass *pass, int axis, icl_variable first, icl_variable second) {
    return icl_tape_concatenate(pass->tape, axis, 2, (const icl_variable[]){first, second});
}

/* Adds the number of offsets to queries and keys; `offset` is NULL for 0. */
static void lengthen(const icl_sequence_pass *pass, icl_sequence_heads *heads, const icl_variable *offset) {
    const size_t asked = icl_tape_value(pass->tape, heads->q).shape[2];
    const size_t keys = icl_tape_value(pass->tape, heads->k).shape[2];
    const double root = sqrt((double)pass->sequence->key_width);

    heads->q = join(pass, 3, heads->q, fill_beside(pass, heads->q, asked, 1, root));
    heads->k = join(pass, 3, heads->k, offset ? *offset : fill_beside(pass, heads->k, keys, 1, 0));
}

static void put_sink(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_sequence_heads *heads) {
    const icl_variable logit = icl_tape_binary(pass->tape, ICL_ADD, fill_beside(pass, heads->k, 1, 1, 0),
                                               icl_sequence_by_head(pass, layer->sink, 1));
    const icl_variable key = join(pass, 3, fill_beside(pass, heads->k, 1, pass->sequence->key_width, 0), logit);

    heads->k = join(pass, 2, key, heads->k);
    heads->v = join(pass, 2, fill_beside(pass, heads->v, 1, pass->sequence->value_width, 0), heads->v);
}

/* Returns the keys or values [B, H, ., .] that the queries of this step see: those of the positions before, as far as
 * the window reaches (0: all), and `value`, of its own positions. */
static icl_variable remember(const icl_sequence_pass *pass, size_t window, icl_variable value) {
    return icl_model_memory_slide(pass->memory, pass->tape, 2, window > 0 ? window - 1 : SIZE_MAX, value);
}

icl_variable icl_sequence_attend(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x,
                                 const icl_variable *offset) {
    const icl_attention_params params = {
        .kind = ICL_ATTENTION_SOFTMAX,
        .mask = pass->sequence->causal ? ICL_MASK_CAUSAL : ICL_MASK_NONE,
        .scale = 1.0 / sqrt((double)pass->sequence->key_width),
        .window = layer->mixer->reads & ICL_READS_WINDOW ? pass->sequence->window : 0,
    };
    const icl_variable asked = asked_of(pass, layer, x);
    icl_sequence_heads heads = project_for(pass, layer, x, asked, 1);

    if (offset || layer->sink)
        lengthen(pass, &heads, offset);
    if (pass->memory) {
        heads.k = remember(pass, params.window, heads.k);
        heads.v = remember(pass, params.window, heads.v);
    }
    if (layer->sink)
        put_sink(pass, layer, &heads);
    if (pass->watch && pass->watch->attention)
        pass->watch->attention(pass->watch->user, pass, layer, &params, &heads);
    return icl_sequence_emit(pass, layer, asked, icl_tape_attention(pass->tape, &params, heads.q, heads.k, heads.v));
}
