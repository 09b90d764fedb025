/* Small operations that several files of the family record. */
#include "model/sequence/sequence.h"

icl_variable icl_sequence_linear(const icl_sequence_pass *pass, icl_variable x, icl_sequence_parameter weight,
                                 icl_sequence_parameter bias) {
    const icl_variable product = icl_tape_matmul(pass->tape, 1.0, x, icl_sequence_value(pass, weight));
    return bias ? icl_tape_binary(pass->tape, ICL_ADD, product, icl_sequence_value(pass, bias)) : product;
}

icl_variable icl_sequence_split(const icl_sequence_pass *pass, icl_variable x, size_t width) {
    const icl_tensor seen = icl_tape_value(pass->tape, x);
    const size_t heads = pass->sequence->heads;
    const size_t positions = seen.shape[2] > 0 ? seen.shape[1] * seen.shape[2] / (heads * width) : 0;

    return icl_tape_swap_axes(
        pass->tape, icl_tape_reshape(pass->tape, x, 4, (const size_t[]){seen.shape[0], positions, heads, width}), 1, 2);
}

icl_variable icl_sequence_shape(const icl_sequence_pass *pass, icl_variable x, size_t a, size_t b, size_t c, size_t d) {
    return icl_tape_reshape(pass->tape, x, d > 0 ? 4 : 3, (const size_t[]){a, b, c, d});
}

icl_variable icl_sequence_multiply(icl_tape *tape, icl_variable a, icl_variable b) {
    return icl_tape_binary(tape, ICL_MULTIPLY, a, b);
}

icl_variable icl_sequence_by_head(const icl_sequence_pass *pass, icl_sequence_parameter parameter, size_t width) {
    return icl_tape_reshape(pass->tape, icl_sequence_value(pass, parameter), 3,
                            (const size_t[]){pass->sequence->heads, 1, width});
}

icl_variable icl_sequence_join(const icl_sequence_pass *pass, icl_variable heads) {
    const icl_variable rows = icl_tape_swap_axes(pass->tape, heads, 1, 2);
    const icl_tensor seen = icl_tape_value(pass->tape, rows);
    /* A reshape takes only contiguous rows, which one head has and several have not. */
    const icl_variable copy =
        seen.buffer && icl_tensor_is_contiguous(&seen) ? rows : icl_tape_scale(pass->tape, 1.0, rows);

    return icl_tape_reshape(pass->tape, copy, 3,
                            (const size_t[]){seen.shape[0], seen.shape[1], seen.shape[2] * seen.shape[3]});
}

icl_variable icl_sequence_add_scalar(const icl_sequence_pass *pass, icl_variable x, double value) {
    return icl_tape_binary(pass->tape, ICL_ADD, x, icl_tape_filled(pass->tape, 0, NULL, value));
}

icl_variable icl_sequence_keep_scored(const icl_sequence_pass *pass, icl_variable z) {
    const size_t positions = icl_tape_value(pass->tape, z).shape[1];
    return pass->scored < positions ? icl_tape_slice(pass->tape, z, 1, pass->first_scored, pass->scored) : z;
}
