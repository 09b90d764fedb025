/*
 * Computes the outputs from the blocks' last state z, by model.readout:
 *
 *     position: norm(z_t) W + b at each scored position t
 *     pooled:   norm(mean of z over all positions) W + b, one output for a sequence
 *     last:     from z_T, the last position, only: h = z_T + p_t, p_t sinusoids of the scored position t, then twice
 *               h <- gelu(norm(h) U + a), and norm(h) W + b. This is the decoder of MAD's autoencoder (Poli and others
 *               2024): z_T holds all that the model knows of the sequence
 *
 * W is the transpose of the table of symbols with model.tied_embedding.
 */
#include <math.h>
#include <stdio.h>

#include "model/sequence/sequence.h"

#define POSITION_BASE 10000.0 /* as the authors have it */

static icl_status add_decoder(icl_sequence_builder *builder, icl_error *error) {
    icl_sequence *sequence = builder->sequence;
    const icl_sequence_start matrix = {
        ICL_START_NORMAL, sequence->init > 0 ? sequence->init : 1.0 / sqrt((double)sequence->width), 0, false};
    const icl_sequence_start zero = {ICL_START_CONSTANT, 0, 0, true};

    for (size_t i = 0; i < ICL_SEQUENCE_DECODER; i++) {
        char name[32];
        snprintf(name, sizeof name, "readout.%zu.norm", i);
        ICL_CHECK(icl_sequence_add_norm(builder, &sequence->decoder[i].norm, error, name));
        ICL_CHECK(icl_sequence_add(builder, &sequence->decoder[i].weight, matrix, 2,
                                   (const size_t[]){sequence->width, sequence->width}, error, "readout.%zu.weight", i));
        ICL_CHECK(icl_sequence_add(builder, &sequence->decoder[i].bias, zero, 1, &sequence->width, error,
                                   "readout.%zu.bias", i));
    }
    return ICL_OK;
}

icl_status icl_sequence_add_readout(icl_sequence_builder *builder, icl_error *error) {
    icl_sequence *sequence = builder->sequence;
    const size_t outputs = builder->model->shape.outputs;
    const icl_sequence_start start = {ICL_START_NORMAL,
                                      sequence->init > 0 ? sequence->init : 1.0 / (double)sequence->width, 0, false};

    if (sequence->readout == ICL_READOUT_LAST)
        ICL_CHECK(add_decoder(builder, error));
    if (sequence->norm_place == ICL_NORMS_BEFORE)
        ICL_CHECK(icl_sequence_add_norm(builder, &sequence->final_norm, error, "norm"));
    if (!sequence->tied_embedding)
        ICL_CHECK(icl_sequence_add(builder, &sequence->readout_weight, start, 2,
                                   (const size_t[]){sequence->width, outputs}, error, "readout.weight"));
    return icl_sequence_add(builder, &sequence->readout_shift, (icl_sequence_start){ICL_START_CONSTANT, 0, 0, true}, 1,
                            &outputs, error, "readout.bias");
}

/* Decodes by model.readout = last, without the last norm and readout: [B, T, width] to [B, S, width]. */
static icl_variable decode(const icl_sequence_pass *pass, icl_variable z) {
    const icl_sequence *sequence = pass->sequence;
    const icl_variable last = icl_tape_slice(pass->tape, z, 1, icl_tape_value(pass->tape, z).shape[1] - 1, 1);
    icl_variable h = icl_tape_binary(pass->tape, ICL_ADD, last,
                                     icl_sequence_sinusoids(pass, POSITION_BASE, pass->first_scored, pass->scored));

    for (size_t i = 0; i < ICL_SEQUENCE_DECODER; i++) {
        h = icl_sequence_linear(pass, icl_sequence_normalize(pass, &sequence->decoder[i].norm, h),
                                sequence->decoder[i].weight, sequence->decoder[i].bias);
        h = icl_tape_unary(pass->tape, ICL_GELU, h);
    }
    return h;
}

icl_variable icl_sequence_read_out(const icl_sequence_pass *pass, icl_variable z) {
    const icl_sequence *sequence = pass->sequence;

    if (sequence->readout == ICL_READOUT_POOLED)
        z = icl_tape_reduce(pass->tape, ICL_MEAN, 1u << 1, z);
    if (sequence->readout == ICL_READOUT_LAST)
        z = decode(pass, z);
    if (!sequence->loop_norm) /* else the last loop ended with this norm */
        z = icl_sequence_normalize(pass, &sequence->final_norm, z);
    if (!sequence->tied_embedding)
        return icl_sequence_linear(pass, z, sequence->readout_weight, sequence->readout_shift);
    const icl_variable table = icl_tape_swap_axes(pass->tape, icl_sequence_value(pass, sequence->embedding), 0, 1);
    return icl_tape_binary(pass->tape, ICL_ADD, icl_tape_matmul(pass->tape, 1.0, z, table),
                           icl_sequence_value(pass, sequence->readout_shift));
}
