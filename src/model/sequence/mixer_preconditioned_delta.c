/*
 * preconditioned-delta: the gated delta rule, whose steps are longer in directions that keys have seldom taken,
 *
 *     A_t = exp(a'_t) A_(t-1) + b'_t k_t^2                  squares of keys so far, for each number of the key
 *     l_t = log(A_t + 1e-6) - c,   M_t = 1.5^(-l_t / (1 + |l_t|))          between 2/3 and 3/2
 *     S <- exp(a_t) S,   S <- S + b_t (M_t o k_t) (v_t - S^T k_t)^T
 *
 * with rate gates a, a' and strengths b, b' of their own, and c a number for each head that begins at -0.2: the
 * preconditioned gated DeltaNet (arXiv 2604.21100). A_t is a recurrence of one row. As the op has it: k = M o k, r = k.
 */
#include <math.h>

#include "model/sequence/sequence.h"

#define LEAST_SQUARES 1e-6
#define FIRST_CENTER  (-0.2)
#define MOST_FACTOR   1.5

static icl_status create(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error) {
    const size_t heads = builder->sequence->heads;

    ICL_CHECK(icl_sequence_add_matrix_state(builder, layer, 1, error));
    ICL_CHECK(icl_sequence_add_write(builder, layer, 1, error));
    ICL_CHECK(icl_sequence_add_rate_gate(builder, layer, error));
    ICL_CHECK(icl_sequence_add_share(builder, &layer->condition_write, layer, "mixer.condition_write", heads, error));
    ICL_CHECK(icl_sequence_add_rate_of(builder, &layer->condition_gate, layer, "mixer.condition_gate", error));
    return icl_sequence_add_constants(builder, &layer->condition_center, layer, "mixer.condition_center", heads,
                                      FIRST_CENTER, error);
}

/* Returns M o k. */
static icl_variable precondition(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x,
                                 icl_variable k) {
    icl_tape *tape = pass->tape;
    const icl_variable one = icl_tape_filled(tape, 4, (const size_t[]){1, 1, 1, 1}, 1);
    const icl_variable beta = icl_sequence_share(pass, &layer->condition_write, x, 1.0, 1);
    const icl_variable decay = icl_sequence_rate_of(pass, &layer->condition_gate, x);
    const icl_recurrence_variables squares = {
        .q = one, .k = one, .v = icl_tape_unary(tape, ICL_SQUARE, k), .beta = &beta, .decay = &decay};
    const icl_variable seen = icl_sequence_remember(pass, &(icl_recurrence_params){.scale = 1.0}, &squares);
    const icl_variable logarithm =
        icl_tape_unary(tape, ICL_LOGARITHM, icl_sequence_add_scalar(pass, seen, LEAST_SQUARES));
    const icl_variable l =
        icl_tape_binary(tape, ICL_SUBTRACT, logarithm, icl_sequence_by_head(pass, layer->condition_center, 1));
    const icl_variable size = icl_sequence_add_scalar(pass, icl_tape_unary(tape, ICL_ABSOLUTE, l), 1.0);
    const icl_variable exponent = icl_tape_scale(tape, -log(MOST_FACTOR), icl_tape_binary(tape, ICL_DIVIDE, l, size));

    return icl_tape_binary(tape, ICL_MULTIPLY, icl_tape_unary(tape, ICL_EXPONENTIAL, exponent), k);
}

static icl_variable mix(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x) {
    const icl_sequence_heads heads = icl_sequence_project(pass, layer, x, 1);
    const icl_variable beta = icl_sequence_write(pass, layer, x, pass->sequence->write_strength);
    const icl_variable decay = icl_sequence_rate_gate(pass, layer, x);
    const icl_recurrence_variables operands = {.q = heads.q,
                                               .k = precondition(pass, layer, x, heads.k),
                                               .v = heads.v,
                                               .beta = &beta,
                                               .decay = &decay,
                                               .read_key = &heads.k};

    return icl_sequence_emit(pass, layer, x, icl_sequence_recur(pass, layer, true, &operands));
}

const icl_sequence_mixer icl_mixer_preconditioned_delta = {
    .word = "preconditioned-delta",
    .reads = ICL_READS_KEYS | ICL_READS_VALUES | ICL_READS_CONVOLUTION | ICL_READS_FEATURES | ICL_READS_OUTPUT |
             ICL_READS_WRITES | ICL_READS_GATE_LIMIT,
    .keys = ICL_KEYS_UNIT,
    .create = create,
    .mix = mix,
};
