/*
 * Attention over the keys so far, or over those of a window, which softmax and fox share. In the last layer only the
 * scored positions ask, if they are the last ones.
 *
 * What stands in the logits beside q . k / sqrt(m), an offset of a key or the logit of a sink, is one more number of
 * keys and queries: k' = (k, c) and q' = (q, sqrt(m)). A sink is a key (0, z) in front of all, whose value is 0.
 */
#include <math.h>

#include "model/sequence/sequence.h"

icl_status icl_sequence_add_attention(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error) {
    ICL_CHECK(icl_sequence_add_heads(builder, layer, 1, error));
    ICL_CHECK(icl_sequence_add_output(builder, layer, error));
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
    const icl_tensor seen = icl_tape_value(pass->tape, value);
    const size_t before = window - 1;
    const size_t known = pass->first_position < before ? pass->first_position : before;
    size_t part;

    if (window == 0)
        return icl_model_memory_append(pass->memory, pass->tape, value);
    if (before == 0)
        return value;
    const icl_variable old = icl_model_memory_recall(
        pass->memory, pass->tape, 4, (const size_t[]){seen.shape[0], seen.shape[1], before, seen.shape[3]}, &part);
    const icl_variable all = join(pass, 2, old, value);
    icl_model_memory_keep(pass->memory, pass->tape, part, icl_tape_slice(pass->tape, all, 2, seen.shape[2], before));
    return icl_tape_slice(pass->tape, all, 2, before - known, known + seen.shape[2]);
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
    icl_sequence_heads heads = icl_sequence_project_for(pass, layer, x, asked, 1);

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
