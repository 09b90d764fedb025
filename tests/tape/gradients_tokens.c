/* Gradients of table look-up, short convolutions, rotary positions, concatenation. */
#include "gradients.h"

/* Returns as symbols the place of the largest score in each row: whole numbers below 4, which no small step changes. */
static icl_variable symbols_of(icl_tape *tape, icl_variable scores) {
    const icl_tensor value = icl_tape_value(tape, scores);
    const icl_variable largest = icl_tape_reduce(tape, ICL_ARGMAX, 4, scores);
    return icl_tape_reshape(tape, largest, 2, value.shape);
}

static icl_variable build_look_up(icl_tape *tape, const icl_variable *variables, const gradient_case *c) {
    (void)c;
    return icl_tape_look_up(tape, variables[0], symbols_of(tape, variables[1]));
}

/* Looks up rows and columns of one table, which gets both gradients. */
static icl_variable build_look_up_twice(icl_tape *tape, const icl_variable *variables, const gradient_case *c) {
    const icl_variable symbols = symbols_of(tape, variables[1]);
    const icl_variable rows = icl_tape_look_up(tape, variables[0], symbols);
    const icl_variable columns = icl_tape_look_up(tape, icl_tape_swap_axes(tape, variables[0], 0, 1), symbols);
    (void)c;
    return icl_tape_binary(tape, ICL_MULTIPLY, rows, columns);
}

static icl_variable build_convolve(icl_tape *tape, const icl_variable *variables, const gradient_case *c) {
    (void)c;
    return icl_tape_convolve(tape, variables[0], variables[1]);
}

/* Only one of the two gradients is wanted; the input's time and channels are swapped. */
static icl_variable build_convolve_input(icl_tape *tape, const icl_variable *variables, const gradient_case *c) {
    (void)c;
    return icl_tape_convolve(tape, icl_tape_swap_axes(tape, variables[0], 1, 2),
                             icl_tape_filled(tape, 2, (const size_t[]){2, 5}, 0.75));
}

static icl_variable build_convolve_kernel(icl_tape *tape, const icl_variable *variables, const gradient_case *c) {
    (void)c;
    return icl_tape_convolve(tape, icl_tape_filled(tape, 3, (const size_t[]){2, 6, 3}, 0.75), variables[0]);
}

static icl_variable build_rotate(icl_tape *tape, const icl_variable *variables, const gradient_case *c) {
    return icl_tape_rotate(tape, variables[0], 100, (size_t)c->option);
}

/* Rotates heads that are a view. */
static icl_variable build_rotate_heads(icl_tape *tape, const icl_variable *variables, const gradient_case *c) {
    return icl_tape_rotate(tape, icl_tape_swap_axes(tape, variables[0], 1, 2), 10000, (size_t)c->option);
}

static icl_variable build_concatenate(icl_tape *tape, const icl_variable *variables, const gradient_case *c) {
    return icl_tape_concatenate(tape, c->option, (size_t)c->input_count, variables);
}

/* Concatenates more parts than a node has inputs, of different lengths, some of them equal. */
static icl_variable build_many_parts(icl_tape *tape, const icl_variable *variables, const gradient_case *c) {
    icl_variable parts[70];
    for (size_t i = 0; i < 70; i++)
        parts[i] = icl_tape_slice(tape, variables[i % 2], 1, i % 3, 1 + i % 2);
    (void)c;
    return icl_tape_concatenate(tape, 1, 70, parts);
}

void check_tokens(bench *b) {
    gradient_case cases[] = {
        {"look_up", build_look_up, .input_count = 2, .inputs = {{2, {4, 3}}, {3, {3, 5, 4}}}},
        {"look_up of nothing", build_look_up, .input_count = 2, .inputs = {{2, {4, 3}}, {3, {0, 5, 4}}}},
        {"look_up of rows and columns", build_look_up_twice, .input_count = 2, .inputs = {{2, {4, 4}}, {3, {2, 9, 4}}}},
        {"convolve", build_convolve, .input_count = 2, .inputs = {{3, {2, 5, 3}}, {2, {3, 3}}}},
        {"convolve with a long kernel", build_convolve, .input_count = 2, .inputs = {{3, {2, 5, 3}}, {2, {8, 3}}}},
        {"convolve over blocks", build_convolve, .input_count = 2, .inputs = {{3, {2, 41, 2}}, {2, {2, 2}}}},
        {"convolve an input alone", build_convolve_input, .input_count = 1, .inputs = {{3, {2, 5, 4}}}},
        {"convolve with a kernel alone", build_convolve_kernel, .input_count = 1, .inputs = {{2, {3, 3}}}},
        {"rotate", build_rotate, .input_count = 1, .inputs = {{2, {5, 6}}}},
        {"rotate late positions", build_rotate, .option = 700, .input_count = 1, .inputs = {{3, {2, 5, 4}}}},
        {"rotate heads", build_rotate_heads, .option = 254, .input_count = 1, .inputs = {{4, {2, 5, 3, 4}}}},
        {"rotate nothing", build_rotate, .input_count = 1, .inputs = {{3, {2, 0, 4}}}},
        {"concatenate rows", build_concatenate, .input_count = 3, .inputs = {{2, {2, 3}}, {2, {1, 3}}, {2, {4, 3}}}},
        {"concatenate columns", build_concatenate, .option = 2, .input_count = 3,
         .inputs = {{3, {2, 2, 3}}, {3, {2, 2, 0}}, {3, {2, 2, 2}}}},
        {"concatenate one part", build_concatenate, .input_count = 1, .inputs = {{1, {3}}}},
        {"concatenate many parts", build_many_parts, .input_count = 2, .inputs = {{2, {2, 4}}, {2, {2, 4}}}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        gradient_check(b, &cases[i]);
}
