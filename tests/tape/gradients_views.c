/* Gradients of views, and how gradients share buffers. */
#include "gradients.h"

static icl_variable build_overlapping_slices(icl_tape *tape, const icl_variable *variables, const gradient_case *c) {
    (void)c;
    return icl_tape_binary(tape, ICL_MULTIPLY, icl_tape_slice(tape, variables[0], 0, 0, 3),
                           icl_tape_slice(tape, variables[0], 0, 1, 3));
}

static icl_variable build_view_of_view(icl_tape *tape, const icl_variable *variables, const gradient_case *c) {
    const size_t flat = 8;
    const icl_variable square = icl_tape_unary(tape, ICL_SQUARE, variables[0]);
    const icl_variable rows = icl_tape_slice(tape, square, 0, 1, 2);
    (void)c;
    return icl_tape_binary(
        tape, ICL_MULTIPLY, icl_tape_reshape(tape, rows, 1, &flat),
        icl_tape_slice(tape, icl_tape_reshape(tape, variables[0], 1, (const size_t[]){12}), 0, 4, 8));
}

static icl_variable build_swapped(icl_tape *tape, const icl_variable *variables, const gradient_case *c) {
    const icl_variable swapped = icl_tape_swap_axes(tape, variables[0], 0, 2);
    (void)c;
    return icl_tape_binary(tape, ICL_MULTIPLY, icl_tape_slice(tape, swapped, 2, 0, 1), swapped);
}

static icl_variable build_place(icl_tape *tape, const icl_variable *variables, const gradient_case *c) {
    (void)c;
    return icl_tape_place(tape, variables[0], variables[1], (const size_t[]){1, 2});
}

static icl_variable build_place_twice(icl_tape *tape, const icl_variable *variables, const gradient_case *c) {
    const icl_variable once = icl_tape_place(tape, icl_tape_filled(tape, 2, (const size_t[]){3, 5}, 0.5), variables[1],
                                             (const size_t[]){0, 0});
    const icl_variable twice =
        icl_tape_place(tape, once, icl_tape_unary(tape, ICL_SQUARE, variables[1]), (const size_t[]){1, 1});
    (void)c;
    return icl_tape_binary(tape, ICL_MULTIPLY, twice, variables[0]);
}

/* Both terms of a sum use one gradient buffer; then a consumer in between adds to one of them. */
static icl_variable build_shared_sum(icl_tape *tape, const icl_variable *variables, const gradient_case *c) {
    const icl_variable u = icl_tape_unary(tape, ICL_HYPERBOLIC_TANGENT, variables[0]);
    const icl_variable v = icl_tape_unary(tape, ICL_SQUARE, variables[0]);
    const icl_variable product = icl_tape_binary(tape, ICL_MULTIPLY, u, v);
    const icl_variable sum = icl_tape_binary(tape, ICL_ADD, u, v);
    const icl_variable more = icl_tape_binary(tape, ICL_ADD, sum, sum);
    (void)c;
    return icl_tape_binary(tape, ICL_ADD, icl_tape_binary(tape, ICL_MULTIPLY, more, product), sum);
}

/* Builds the residual stream of a transformer: every layer's sum passes its gradient on, and adds to it. */
static icl_variable build_residual(icl_tape *tape, const icl_variable *variables, const gradient_case *c) {
    icl_variable z = variables[0];
    (void)c;
    for (int layer = 0; layer < 3; layer++) {
        const icl_variable mixed = icl_tape_matmul(tape, 0.3, z, variables[1]);
        z = icl_tape_binary(tape, ICL_ADD, z, icl_tape_binary(tape, ICL_MULTIPLY, mixed, z));
    }
    return z;
}

static icl_variable build_unused(icl_tape *tape, const icl_variable *variables, const gradient_case *c) {
    const icl_variable dead = icl_tape_unary(tape, ICL_EXPONENTIAL, variables[1]);
    (void)dead;
    (void)c;
    return icl_tape_unary(tape, ICL_SQUARE, variables[0]);
}

static icl_variable build_identity(icl_tape *tape, const icl_variable *variables, const gradient_case *c) {
    (void)tape;
    (void)c;
    return variables[0];
}

void check_views(bench *b) {
    gradient_case cases[] = {
        {"overlapping slices", build_overlapping_slices, .input_count = 1, .inputs = {{2, {4, 3}}}},
        {"reshape of a slice", build_view_of_view, .input_count = 1, .inputs = {{2, {3, 4}}}},
        {"swapped axes", build_swapped, .input_count = 1, .inputs = {{3, {2, 3, 4}}}},
        {"place", build_place, .input_count = 2, .inputs = {{2, {3, 5}}, {2, {2, 3}}}},
        {"place of nothing", build_place, .input_count = 2, .inputs = {{2, {3, 5}}, {2, {0, 3}}}},
        {"place twice", build_place_twice, .input_count = 2, .inputs = {{2, {3, 5}}, {2, {2, 3}}}},
        {"shared sums", build_shared_sum, .input_count = 1, .inputs = {{2, {2, 3}}}},
        {"residual stream", build_residual, .input_count = 2, .inputs = {{2, {3, 2}}, {2, {2, 2}}}},
        {"residual stream of a batch", build_residual, .input_count = 2, .inputs = {{3, {2, 3, 2}}, {2, {2, 2}}}},
        {"a parameter without use", build_unused, .input_count = 2, .inputs = {{1, {3}}, {1, {2}}}},
        {"a parameter alone", build_identity, .input_count = 1, .inputs = {{1, {3}}}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        gradient_check(b, &cases[i]);
}
