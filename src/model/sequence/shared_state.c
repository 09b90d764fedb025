/*
 * States [m, n] that R queries and keys of a token share (MIMO, Mamba-3, arXiv 2603.15569): token t writes
 * sum_r k_(t,r) (v_t o u_r)^T, and its output is sum_r e_r o (S^T q_(t,r)), u and e vectors [H n] for each r.
 *
 * A token is stretched to R writes, and to reads from the last one on: 2 R - 1 steps of a recurrence.
 */
#include "model/sequence/sequence.h"

/* Returns x [B, T, w] with zeros up to `width` numbers a token, in front or behind. */
static icl_variable pad(const icl_sequence_pass *pass, icl_variable x, size_t width, bool in_front) {
    const icl_tensor seen = icl_tape_value(pass->tape, x);
    if (width == seen.shape[2])
        return x;
    const icl_variable zeros =
        icl_tape_filled(pass->tape, 3, (const size_t[]){seen.shape[0], seen.shape[1], width - seen.shape[2]}, 0);
    return icl_tape_concatenate(pass->tape, 2, 2, (const icl_variable[]){in_front ? zeros : x, in_front ? x : zeros});
}

/* Returns x [B, T, R H n], or [B, T, H n] for each r, times a vector [R H n]; x itself if R is 1. */
static icl_variable multiply_ranks(const icl_sequence_pass *pass, icl_variable x, icl_sequence_parameter factor) {
    const icl_tensor seen = icl_tape_value(pass->tape, x);
    const size_t rank = pass->sequence->mimo_rank, values = pass->sequence->heads * pass->sequence->value_width;

    if (rank == 1)
        return x;
    x = icl_tape_binary(pass->tape, ICL_MULTIPLY,
                        icl_sequence_shape(pass, x, seen.shape[0], seen.shape[1], seen.shape[2] / values, values),
                        icl_sequence_shape(pass, icl_sequence_value(pass, factor), 1, rank, values, 0));
    return icl_sequence_shape(pass, x, seen.shape[0], seen.shape[1], rank * values, 0);
}

/* Reads the state from the tokens before: [B, T, R H n]. */
static icl_variable read_past(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable q,
                              icl_variable k, icl_variable v, icl_variable decay) {
    const size_t heads = pass->sequence->heads, m = pass->sequence->key_width, n = pass->sequence->value_width;
    const size_t rank = pass->sequence->mimo_rank, steps = 2 * rank - 1;
    const icl_tensor seen = icl_tape_value(pass->tape, v);
    const icl_variable slow = icl_sequence_split(pass, pad(pass, decay, steps * heads, false), 1);
    const icl_recurrence_variables operands = {.q = icl_sequence_split(pass, pad(pass, q, steps * heads * m, true), m),
                                               .k = icl_sequence_split(pass, pad(pass, k, steps * heads * m, false), m),
                                               .v = icl_sequence_split(pass, pad(pass, v, steps * heads * n, false), n),
                                               .decay = &slow};
    const icl_variable o =
        icl_sequence_join(pass, icl_sequence_recur_with(pass, layer, &(icl_recurrence_params){.scale = 1}, &operands));

    return icl_tape_slice(pass->tape, icl_sequence_shape(pass, o, seen.shape[0], seen.shape[1], steps * heads * n, 0),
                          2, (rank - 1) * heads * n, rank * heads * n);
}

/* Returns what the queries [B T, R, H, m] of a token read from its own keys, and values [B, T, R H n], as these. */
static icl_variable read_own(const icl_sequence_pass *pass, icl_variable q, icl_variable k, icl_variable v) {
    icl_tape *tape = pass->tape;
    const icl_tensor of = icl_tape_value(tape, q), seen = icl_tape_value(tape, v);
    const icl_attention_params params = {.kind = ICL_ATTENTION_LINEAR, .scale = 1};
    const icl_variable values =
        icl_sequence_shape(pass, v, of.shape[0], of.shape[1], of.shape[2], pass->sequence->value_width);
    const icl_variable o =
        icl_tape_attention(tape, &params, icl_tape_swap_axes(tape, q, 1, 2), icl_tape_swap_axes(tape, k, 1, 2),
                           icl_tape_swap_axes(tape, values, 1, 2));

    return icl_sequence_shape(pass, icl_sequence_join(pass, o), seen.shape[0], seen.shape[1], seen.shape[2], 0);
}

/* Returns the sum over r of o [B, T, R H n] times `gather` [R H n]: [B, T, H n]. */
static icl_variable gather(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable o) {
    const icl_tensor seen = icl_tape_value(pass->tape, o);
    const size_t rank = pass->sequence->mimo_rank, values = seen.shape[2] / rank;

    if (rank == 1)
        return o;
    const icl_variable each = icl_sequence_shape(pass, multiply_ranks(pass, o, layer->turns.gather), seen.shape[0],
                                                 seen.shape[1], rank, values);
    return icl_sequence_shape(pass, icl_tape_reduce(pass->tape, ICL_SUM, 1u << 2, each), seen.shape[0], seen.shape[1],
                              values, 0);
}

icl_variable icl_sequence_read_shared(const icl_sequence_pass *pass, const icl_sequence_layer *layer,
                                      const icl_sequence_shared *of) {
    const icl_sequence_parameter spread = layer->turns.spread;
    const icl_tensor late = icl_tape_value(pass->tape, of->late_k);
    const icl_variable q = icl_sequence_shape(pass, of->q, late.shape[0], late.shape[1], late.shape[2], 0);
    const icl_variable past =
        read_past(pass, layer, q, of->late_k, multiply_ranks(pass, of->late_v, spread), of->decay);
    const icl_variable now = read_own(pass, of->q, of->k, multiply_ranks(pass, of->v, spread));
    const icl_variable read = icl_tape_binary(pass->tape, ICL_ADD, past, now);

    return gather(pass, layer, icl_tape_binary(pass->tape, ICL_ADD, read, multiply_ranks(pass, of->added, spread)));
}
