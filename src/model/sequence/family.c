/*
 * model.family = sequence: stacks of mixers and feed-forward parts between an embedding and a readout.
 *
 *     e = embedding(inputs) + positions                                (embedding.c)
 *     z = blocks(e), then z = blocks(z + e) for each further loop      (model.loops, Yang and others 2024), or z =
 *                                           blocks(z) with model.injection = false; with model.loop_norm each loop ends
 *                                           in the norm that otherwise only the readout has, as theirs do
 *     outputs from z at the scored positions, the mean over all, or the last one (readout.c)
 *
 * Each of the L blocks, with norms before:  z <- z + mixer(norm(z));  z <- z + feed_forward(norm(z))
 * with norms after:                         z <- norm(z + mixer(z));  z <- norm(z + feed_forward(z)), and no norm
 *                                           before the readout, whose input is normed already
 * after both, c = model.activation_clip:    z <- min(max(z, -c), c), which keeps deep stacks of linear mixers,
 *                                           polynomials of high degree, finite (von Oswald and others 2023)
 *
 * While a training is recorded, model.dropout acts on e and on what each mixer and each feed-forward part adds, as in
 * GPT-2, but not on attention weights. Its calls count in the order of the formulas.
 *
 * Parameters, by name: embedding.weight [p, width] and .bias, or embedding.table [V, width]; positions.table [T,
 * width]; block.I.mixer_norm and block.I.feed_forward_norm, each .gain and .shift; block.I.mixer.* as the files of the
 * mixers and heads.c have them; block.I.feed_forward.gate, .up, .up_bias, .down, .down_bias; norm.gain and .shift;
 * readout.weight [width, q], unless the table is tied, and readout.bias; and with model.readout = last
 * readout.I.norm, .weight and .bias.
 */
#include <math.h>
#include <stdio.h>

#include "core/allocate.h"
#include "model/sequence/sequence.h"

/* The largest number of symbols that a float counts exactly. */
#define MOST_SYMBOLS ((size_t)1 << 24)

/* ---- Creation ---- */

static icl_status add_block(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error) {
    char name[64];

    snprintf(name, sizeof name, "block.%zu.mixer_norm", layer->index);
    ICL_CHECK(icl_sequence_add_norm(builder, &layer->mixer_norm, error, name));
    ICL_CHECK(layer->mixer->create(builder, layer, error));
    if (builder->sequence->feed_forward == ICL_FEED_FORWARD_NONE)
        return ICL_OK;
    snprintf(name, sizeof name, "block.%zu.feed_forward_norm", layer->index);
    ICL_CHECK(icl_sequence_add_norm(builder, &layer->feed_forward_norm, error, name));
    return icl_sequence_add_feed_forward(builder, layer, error);
}

static icl_status add_parameters(const icl_recipe *recipe, icl_model *model, icl_sequence *sequence, icl_error *error) {
    icl_sequence_builder builder = {model, sequence, recipe};

    ICL_CHECK(icl_sequence_add_embedding(&builder, error));
    for (size_t i = 0; i < model->layers; i++)
        ICL_CHECK(add_block(&builder, &sequence->layers[i], error));
    return icl_sequence_add_readout(&builder, error);
}

static icl_status check_shape(const icl_model *model, icl_error *error) {
    if (model->shape.symbols > MOST_SYMBOLS)
        return icl_model_refuse(model, "tasks of at most 16777216 symbols", error);
    return ICL_OK;
}

/* Returns the number of sequences with about 256 positions in all: their activations stay in a core's cache, and
 * products have enough rows. */
static size_t at_once(const icl_model *model) {
    const size_t positions = model->shape.positions;
    return positions < 256 ? 256 / positions : 1;
}

/* Returns whether every mixer keeps what earlier positions leave. */
static bool remembers(const icl_model *model, const icl_sequence *sequence) {
    for (size_t i = 0; i < model->layers; i++)
        if (sequence->layers[i].own && !sequence->layers[i].own->remembers)
            return false;
    return true;
}

static icl_status create(const icl_recipe *recipe, icl_model *model, icl_error *error) {
    icl_sequence *sequence = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(check_shape(model, error));
    ICL_TRY(icl_allocate(1, sizeof *sequence, "sequence model", &sequence, error));
    model->state = sequence;
    model->layers = icl_model_read(recipe).layers;
    ICL_TRY(icl_allocate(model->layers, sizeof *sequence->layers, "layers", &sequence->layers, error));
    ICL_TRY(icl_sequence_read_mixers(recipe, model, sequence->layers, error));
    ICL_TRY(icl_sequence_read_keys(recipe, model, sequence, error));
    model->loops = sequence->loops;
    model->abilities |= ICL_MODEL_LOOPS;
    ICL_TRY(add_parameters(recipe, model, sequence, error));
    model->sequences_at_once = at_once(model);
    if (sequence->causal && sequence->readout == ICL_READOUT_POSITION && remembers(model, sequence))
        model->abilities |= ICL_MODEL_DECODES;
done:
    return status;
}

static void destroy(icl_model *model) {
    icl_sequence *sequence = model->state;

    if (sequence) {
        for (size_t i = 0; sequence->layers && i < model->layers; i++)
            icl_free(&sequence->layers[i].block.state);
        icl_free(&sequence->layers);
        icl_free(&sequence->starts);
    }
    icl_free(&model->state);
}

/* ---- Outputs ---- */

static icl_variable add(const icl_sequence_pass *pass, icl_variable a, icl_variable b) {
    return icl_tape_binary(pass->tape, ICL_ADD, a, b);
}

static icl_variable clip(const icl_sequence_pass *pass, icl_variable z) {
    const double most = pass->sequence->activation_clip;
    icl_tape *tape = pass->tape;

    if (most == 0)
        return z;
    z = icl_tape_binary(tape, ICL_MAXIMUM, z, icl_tape_filled(tape, 0, NULL, -most));
    return icl_tape_binary(tape, ICL_MINIMUM, z, icl_tape_filled(tape, 0, NULL, most));
}

static icl_variable drop_out(const icl_sequence_pass *pass, icl_variable z) {
    return icl_tape_drop_out(pass->tape, pass->sequence->dropout, z);
}

/* Applies a block. After the last mixer, positions no longer see each other, so those without a score are left out. */
static icl_variable apply_block(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable z) {
    const icl_sequence *sequence = pass->sequence;
    const icl_variable seen =
        sequence->norm_place == ICL_NORMS_AFTER ? z : icl_sequence_normalize(pass, &layer->mixer_norm, z);
    icl_variable mixed = layer->mixer->mix(pass, layer, seen);

    if (pass->is_last) {
        z = icl_sequence_keep_scored(pass, z);
        mixed = icl_sequence_keep_scored(pass, mixed);
    }
    z = add(pass, z, drop_out(pass, mixed));
    if (sequence->norm_place == ICL_NORMS_AFTER)
        z = icl_sequence_normalize(pass, &layer->mixer_norm, z);
    if (sequence->feed_forward == ICL_FEED_FORWARD_NONE)
        return z;
    if (sequence->norm_place == ICL_NORMS_AFTER)
        return icl_sequence_normalize(pass, &layer->feed_forward_norm,
                                      add(pass, z, drop_out(pass, icl_sequence_feed_forward(pass, layer, z))));
    const icl_variable normed = icl_sequence_normalize(pass, &layer->feed_forward_norm, z);
    return add(pass, z, drop_out(pass, icl_sequence_feed_forward(pass, layer, normed)));
}

static icl_variable show_stage(const icl_sequence_pass *pass, size_t stage, icl_variable z) {
    return pass->watch && pass->watch->stage ? pass->watch->stage(pass->watch->user, pass, stage, z) : z;
}

/* Adds the embedding of the prompt again in every loop: only then do many loops end in a fixed point that depends on
 * the prompt, wherever they began. */
static icl_variable enter_loop(const icl_sequence_pass *pass, icl_variable z, icl_variable embedded) {
    return pass->loop > 0 && pass->sequence->injection ? add(pass, z, embedded) : z;
}

static icl_variable apply_blocks(icl_sequence_pass *pass, icl_variable z) {
    const icl_sequence *sequence = pass->sequence;
    const size_t layers = pass->model->layers;

    for (size_t i = 0; i < layers; i++) {
        pass->is_last = i + 1 == layers && pass->loop + 1 == pass->loops && sequence->readout == ICL_READOUT_POSITION;
        z = clip(pass, apply_block(pass, &sequence->layers[i], z));
        if (i + 1 == layers && sequence->loop_norm)
            z = icl_sequence_normalize(pass, &sequence->final_norm, z);
        z = show_stage(pass, 1 + pass->loop * layers + i, z);
    }
    return z;
}

/* Computes the outputs after each of the last `count` loops. is_cut: gradients stop where these loops begin. */
static void run(icl_sequence_pass pass, icl_variable inputs, size_t count, bool is_cut, icl_variable *outputs) {
    const bool reads_scored = pass.sequence->readout == ICL_READOUT_POSITION;
    icl_variable embedded, z;

    pass.inputs = inputs;
    embedded = z = show_stage(&pass, 0, drop_out(&pass, icl_sequence_embed(&pass, inputs)));
    for (pass.loop = 0; pass.loop < pass.loops; pass.loop++) {
        const size_t left = pass.loops - pass.loop; /* including this one */
        if (is_cut && left == count && pass.loop > 0)
            z = icl_tape_constant(pass.tape, icl_tape_value(pass.tape, z));
        z = apply_blocks(&pass, enter_loop(&pass, z, embedded));
        if (left <= count)
            outputs[count - left] =
                icl_sequence_read_out(&pass, left > 1 && reads_scored ? icl_sequence_keep_scored(&pass, z) : z);
    }
}

static icl_sequence_pass pass_of(const icl_model *model, icl_tape *tape, const icl_variable *parameters) {
    return (icl_sequence_pass){.model = model,
                               .sequence = model->state,
                               .tape = tape,
                               .parameters = parameters,
                               .loops = model->loops,
                               .first_scored = model->shape.first_scored,
                               .scored = model->shape.scored};
}

icl_status icl_sequence_watch_run(const icl_model *model, icl_tape *tape, icl_tensor parameters, icl_tensor inputs,
                                  const icl_sequence_watch *watch, icl_error *error) {
    icl_variable *variables = NULL, outputs;
    icl_status status = ICL_OK;

    if (model->family != &icl_sequence_model)
        return icl_fail(error, ICL_ERROR_INPUT, "model.family = %s: expected sequence, whose runs can be watched",
                        model->family->name);
    ICL_TRY(icl_model_put_parameters(model, tape, parameters, (icl_tensor){0}, &variables, error));
    icl_sequence_pass pass = pass_of(model, tape, variables);
    pass.watch = watch;
    if (watch && watch->stage) {
        pass.first_scored = 0;
        pass.scored = model->shape.positions;
    }
    run(pass, icl_tape_constant(tape, inputs), 1, false, &outputs);
    if (watch && watch->outputs)
        watch->outputs(watch->user, outputs);
    status = icl_tape_status(tape, error);
done:
    icl_free(&variables);
    return status;
}

static icl_variable predict(const icl_model *model, icl_tape *tape, const icl_variable *parameters, icl_variable inputs,
                            size_t depth) {
    icl_variable outputs;

    (void)depth;
    run(pass_of(model, tape, parameters), inputs, 1, false, &outputs);
    return outputs;
}

static void predict_loops(const icl_model *model, icl_tape *tape, const icl_variable *parameters, icl_variable inputs,
                          icl_loop_window window, icl_variable *outputs) {
    icl_sequence_pass pass = pass_of(model, tape, parameters);

    pass.loops = window.loops;
    run(pass, inputs, window.count, true, outputs);
}

static icl_variable step(const icl_model *model, icl_tape *tape, const icl_variable *parameters, icl_variable inputs,
                         icl_model_memory *memory) {
    icl_sequence_pass pass = pass_of(model, tape, parameters);
    icl_variable outputs;

    pass.memory = memory;
    pass.first_position = icl_model_memory_position(memory);
    pass.first_scored = 0;
    pass.scored = icl_tape_value(tape, inputs).shape[1];
    run(pass, inputs, 1, false, &outputs);
    return outputs;
}

static void initialize(const icl_model *model, uint32_t seed, float *values) {
    icl_sequence_initialize(model, model->state, seed, values);
}

const icl_model_family icl_sequence_model = {
    .name = "sequence",
    .create = create,
    .destroy = destroy,
    .initialize = initialize,
    .predict = predict,
    .predict_loops = predict_loops,
    .step = step,
};
