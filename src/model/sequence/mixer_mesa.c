/*
 * mesa: o_t = G_t^T (H_t + Lambda)^-1 q_t with
 *
 *     G_t = g_t G_(t-1) + b_t k_t v_t^T,   H_t = g_t H_(t-1) + b_t k_t k_t^T
 *
 * the ridge regression of the values on the keys so far, by model.iterations steps of conjugate gradients: von Oswald
 * and others 2025 (MesaNet). g_t = gate_limit sigmoid(x_t W + c) and b_t = sigmoid(x_t W' + c') are numbers for each
 * head; Lambda = ridge / 4 + softplus(l) for each number of a key begins at model.ridge, and is not forgotten as H is.
 * Gates begin near sigmoid(4) = .98, so that a model begins with a long memory. Without iterations the mixer reads q_t
 * itself: gated linear attention.
 */
#include "model/sequence/sequence.h"

static icl_status create(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error) {
    const icl_sequence *sequence = builder->sequence;
    const size_t shape[] = {sequence->heads, 1, sequence->feature_width};
    const icl_sequence_start start = {ICL_START_CONSTANT, icl_sequence_inverse_softplus(0.75 * sequence->ridge), 0,
                                      true};

    ICL_CHECK(icl_sequence_add_matrix_state(builder, layer, 1, error));
    ICL_CHECK(icl_sequence_add_write(builder, layer, 1, error));
    ICL_CHECK(icl_sequence_add_kept(builder, layer, error));
    if (sequence->iterations == 0)
        return ICL_OK;
    return icl_sequence_add(builder, &layer->ridge, start, 3, shape, error, "block.%zu.mixer.ridge", layer->index);
}

/* Returns (H + Lambda)^-1 q. If a state is remembered, a recurrence of its own carries H. */
static icl_variable solve(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_sequence_heads heads,
                          icl_variable beta, icl_variable decay) {
    const icl_variable free = icl_tape_unary(pass->tape, ICL_SOFTPLUS, icl_sequence_value(pass, layer->ridge));
    icl_ridge_solve_variables system = {.q = heads.q, .k = heads.k, .beta = &beta, .decay = &decay};
    icl_recurrence_variables carried = {.q = heads.k, .k = heads.k, .v = heads.k, .beta = &beta, .decay = &decay};
    const icl_tensor k = icl_tape_value(pass->tape, heads.k);
    icl_variable before, after;
    size_t part;

    system.ridge = icl_sequence_add_scalar(pass, free, 0.25 * pass->sequence->ridge);
    if (!pass->memory)
        return icl_tape_ridge_solve(pass->tape, pass->sequence->iterations, &system);
    before = icl_model_memory_recall(pass->memory, pass->tape, 4,
                                     (const size_t[]){k.shape[0], k.shape[1], k.shape[3], k.shape[3]}, &part);
    system.state = carried.state = &before;
    const icl_variable x = icl_tape_ridge_solve(pass->tape, pass->sequence->iterations, &system);
    icl_tape_recurrence(pass->tape, &(icl_recurrence_params){.scale = 1.0}, &carried, &after);
    icl_model_memory_keep(pass->memory, pass->tape, part, after);
    return x;
}

static icl_variable mix(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x) {
    const icl_sequence_heads heads = icl_sequence_project(pass, layer, x, 1);
    const icl_variable beta = icl_sequence_write(pass, layer, x, 1.0);
    const icl_variable decay = icl_sequence_kept(pass, layer, x);
    const icl_recurrence_variables operands = {
        .q = layer->ridge ? solve(pass, layer, heads, beta, decay) : heads.q,
        .k = heads.k,
        .v = heads.v,
        .beta = &beta,
        .decay = &decay,
    };

    return icl_sequence_emit(pass, layer, x, icl_sequence_recur(pass, layer, false, &operands));
}

const icl_sequence_mixer icl_mixer_mesa = {
    .word = "mesa",
    .reads = ICL_READS_KEYS | ICL_READS_VALUES | ICL_READS_CONVOLUTION | ICL_READS_FEATURES | ICL_READS_OUTPUT |
             ICL_READS_SOLVER | ICL_READS_GATE_LIMIT,
    .keys = ICL_KEYS_UNIT,
    .create = create,
    .mix = mix,
};
