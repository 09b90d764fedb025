/*
 * Queries and keys that turn by angles which depend on the tokens, as states of complex numbers do: pair (i, i + m/2)
 * of both by the sum of pi d_t tanh(x_t P) so far (Mamba-3, arXiv 2603.15569). Sums are not taken modulo 2 pi; sines
 * hold up to 1e5.
 */
#include "model/sequence/sequence.h"

#define PI      3.14159265358979323846
#define EPSILON 1e-5

/* Returns the sums of the angles so far, [B T, 1, H, m/2]. */
static icl_variable add_angles(const icl_sequence_pass *pass, icl_variable x, icl_sequence_parameter angle,
                               icl_variable step) {
    icl_tape *tape = pass->tape;
    const icl_tensor by = icl_tape_value(tape, step);
    const size_t pairs = pass->sequence->key_width / 2;
    const icl_variable speed = icl_tape_unary(tape, ICL_HYPERBOLIC_TANGENT, icl_sequence_linear(pass, x, angle, 0));
    const icl_variable turned =
        icl_sequence_multiply(tape, icl_sequence_shape(pass, step, by.shape[0], by.shape[1], by.shape[2], 1),
                              icl_sequence_shape(pass, speed, by.shape[0], by.shape[1], 1, pairs));
    const icl_variable one = icl_tape_filled(tape, 4, (const size_t[]){1, 1, 1, 1}, 1);
    const icl_recurrence_variables sums = {.q = one, .k = one, .v = icl_tape_swap_axes(tape, turned, 1, 2)};
    const icl_variable sum = icl_sequence_remember(pass, &(icl_recurrence_params){.scale = PI}, &sums);

    return icl_sequence_shape(pass, icl_sequence_join(pass, sum), by.shape[0] * by.shape[1], 1, by.shape[2], pairs);
}

/* Returns queries or keys x [B, H, T R, m], normed, moved and turned, as [B T, R, H, m]. */
static icl_variable turn(const icl_sequence_pass *pass, icl_variable x, icl_sequence_parameter gain,
                         icl_sequence_parameter offset, icl_variable cosine, icl_variable sine) {
    icl_tape *tape = pass->tape;
    const icl_normalize_params rms = {ICL_NORM_RMS, EPSILON};
    const size_t heads = pass->sequence->heads, m = pass->sequence->key_width, rank = pass->sequence->mimo_rank;
    const icl_tensor seen = icl_tape_value(tape, x);
    const icl_variable scale = icl_sequence_value(pass, gain),
                       rows = icl_sequence_shape(pass, icl_sequence_join(pass, x), seen.shape[0] * seen.shape[2] / rank,
                                                 rank, heads, m),
                       moved = icl_tape_binary(
                           tape, ICL_ADD, icl_tape_normalize(tape, &rms, rows, &scale, NULL),
                           icl_sequence_shape(pass, icl_sequence_value(pass, offset), rank, heads, m, 0)),
                       a = icl_tape_slice(tape, moved, 3, 0, m / 2), b = icl_tape_slice(tape, moved, 3, m / 2, m / 2);

    return icl_tape_concatenate(
        tape, 3, 2,
        (const icl_variable[]){icl_tape_binary(tape, ICL_SUBTRACT, icl_sequence_multiply(tape, a, cosine),
                                               icl_sequence_multiply(tape, b, sine)),
                               icl_tape_binary(tape, ICL_ADD, icl_sequence_multiply(tape, a, sine),
                                               icl_sequence_multiply(tape, b, cosine))});
}

icl_sequence_heads icl_sequence_turn(const icl_sequence_pass *pass, const icl_sequence_turns *own, icl_variable x,
                                     icl_variable step, const icl_sequence_heads *heads) {
    const icl_variable angle = add_angles(pass, x, own->angle, step);
    const icl_variable cosine = icl_tape_unary(pass->tape, ICL_COSINE, angle);
    const icl_variable sine = icl_tape_unary(pass->tape, ICL_SINE, angle);

    return (icl_sequence_heads){turn(pass, heads->q, own->query_gain, own->query_offset, cosine, sine),
                                turn(pass, heads->k, own->key_gain, own->key_offset, cosine, sine),
                                icl_sequence_join(pass, heads->v)};
}
