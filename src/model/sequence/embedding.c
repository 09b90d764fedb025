/*
 * Embeds inputs into the width, and tells positions apart.
 *
 * Coordinates: x W + b, W [p, width]; without b if model.embedding_bias = false. Symbols: rows of a table
 * [V, width]; with model.tied_embedding sqrt(width) times them, of a table that begins as N(0, 1/width), so that it
 * suits the readout, too (Press and Wolf 2017; the root: Vaswani and others 2017). Positions, counted from 0:
 *
 *     learned:     a row of a table [T, width] is added
 *     sinusoidal:  (cos(t w_0), …, cos(t w_h), sin(t w_0), …, sin(t w_h)) is added, w_i = base^(-2 i / width):
 *                  Vaswani and others 2017, with coordinates in another order
 *     rotary:      queries and keys are turned (heads.c)
 */
#include <math.h>

#include "model/sequence/sequence.h"

icl_status icl_sequence_add_embedding(icl_sequence_builder *builder, icl_error *error) {
    icl_sequence *sequence = builder->sequence;
    const icl_task_shape *shape = &builder->model->shape;

    if (shape->symbols > 0) {
        const double own = sequence->tied_embedding ? 1.0 / sqrt((double)sequence->width) : 1.0;
        const icl_sequence_start start = {ICL_START_NORMAL, sequence->init > 0 ? sequence->init : own, 0, true};
        ICL_CHECK(icl_sequence_add(builder, &sequence->embedding, start, 2,
                                   (const size_t[]){shape->symbols, sequence->width}, error, "embedding.table"));
    } else {
        const icl_sequence_start start = {
            ICL_START_NORMAL, sequence->init > 0 ? sequence->init : 1.0 / sqrt((double)shape->inputs), 0, false};
        ICL_CHECK(icl_sequence_add(builder, &sequence->embedding, start, 2,
                                   (const size_t[]){shape->inputs, sequence->width}, error, "embedding.weight"));
    }
    if (shape->symbols == 0 && sequence->embedding_bias)
        ICL_CHECK(icl_sequence_add(builder, &sequence->embedding_shift,
                                   (icl_sequence_start){ICL_START_CONSTANT, 0, 0, true}, 1, &sequence->width, error,
                                   "embedding.bias"));
    if (sequence->positions != ICL_POSITIONS_LEARNED)
        return ICL_OK;
    return icl_sequence_add(builder, &sequence->position_table,
                            (icl_sequence_start){ICL_START_NORMAL, sequence->init > 0 ? sequence->init : 0.1, 0, true},
                            2, (const size_t[]){shape->positions, sequence->width}, error, "positions.table");
}

/* Turns rows (1, 0) by the angles t w_i, which gives (cos, sin): the rows by which rotary positions turn. */
icl_variable icl_sequence_sinusoids(const icl_sequence_pass *pass, double base, size_t first, size_t positions) {
    const size_t half[] = {positions, pass->sequence->width / 2};
    const icl_variable parts[] = {icl_tape_filled(pass->tape, 2, half, 1.0), icl_tape_filled(pass->tape, 2, half, 0.0)};
    return icl_tape_rotate(pass->tape, icl_tape_concatenate(pass->tape, 1, 2, parts), base, first);
}

static void fail_beyond(const icl_sequence_pass *pass) {
    icl_error error;
    icl_fail(&error, ICL_ERROR_INPUT, "model.positions = learned: there are %zu, and none for position %zu",
             pass->model->shape.positions, pass->first_position);
    icl_tape_fail(pass->tape, &error);
}

static icl_variable look_up(const icl_sequence_pass *pass, icl_variable symbols) {
    const icl_sequence *sequence = pass->sequence;
    const icl_variable rows = icl_tape_look_up(pass->tape, icl_sequence_value(pass, sequence->embedding), symbols);

    return sequence->tied_embedding ? icl_tape_scale(pass->tape, sqrt((double)sequence->width), rows) : rows;
}

icl_variable icl_sequence_embed(const icl_sequence_pass *pass, icl_variable inputs) {
    const icl_sequence *sequence = pass->sequence;
    const size_t positions = icl_tape_value(pass->tape, inputs).shape[1];
    const icl_variable x = pass->model->shape.symbols > 0
                               ? look_up(pass, inputs)
                               : icl_sequence_linear(pass, inputs, sequence->embedding, sequence->embedding_shift);

    if (sequence->positions == ICL_POSITIONS_LEARNED && pass->first_position + positions > pass->model->shape.positions)
        fail_beyond(pass);
    if (sequence->positions == ICL_POSITIONS_LEARNED)
        return icl_tape_binary(pass->tape, ICL_ADD, x,
                               icl_tape_slice(pass->tape, icl_sequence_value(pass, sequence->position_table), 0,
                                              pass->first_position, positions));
    if (sequence->positions == ICL_POSITIONS_SINUSOIDAL)
        return icl_tape_binary(pass->tape, ICL_ADD, x,
                               icl_sequence_sinusoids(pass, sequence->position_base, pass->first_position, positions));
    return x;
}
