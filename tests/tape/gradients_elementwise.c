/* Gradients of elementwise ops and of reductions. */
#include <string.h>

#include "gradients.h"

/* ---- Elementwise ---- */

static icl_variable build_unary(icl_tape *tape, const icl_variable *inputs, const gradient_case *c) {
    return icl_tape_unary(tape, (icl_unary_kind)c->kind, inputs[0]);
}

static icl_variable build_unary_of_slice(icl_tape *tape, const icl_variable *inputs, const gradient_case *c) {
    return icl_tape_unary(tape, (icl_unary_kind)c->kind, icl_tape_slice(tape, inputs[0], 1, 1, 2));
}

static icl_variable build_binary(icl_tape *tape, const icl_variable *inputs, const gradient_case *c) {
    return icl_tape_binary(tape, (icl_binary_kind)c->kind, inputs[0], inputs[c->input_count - 1]);
}

static icl_variable build_scale_add(icl_tape *tape, const icl_variable *inputs, const gradient_case *c) {
    static const double factors[][2] = {{1.0, 1.0}, {-0.5, 1.0}, {1.0, 0.25}, {3.0, 0.0}};
    return icl_tape_scale_add(tape, factors[c->option][0], inputs[0], factors[c->option][1],
                              inputs[c->input_count - 1]);
}

static icl_variable build_scale(icl_tape *tape, const icl_variable *inputs, const gradient_case *c) {
    return icl_tape_scale(tape, c->option ? 1.0 : -2.5, inputs[0]);
}

static icl_variable build_drop_out(icl_tape *tape, const icl_variable *inputs, const gradient_case *c) {
    const icl_variable in = c->option ? icl_tape_swap_axes(tape, inputs[0], 0, 1) : inputs[0];

    icl_tape_set_dropout(tape, (icl_dropout_numbers){{.seed = 4, .step = 9}, 2});
    return icl_tape_drop_out(tape, 0.25, icl_tape_drop_out(tape, 0.5, in));
}

static const shape unary_shapes[] = {{0, {0}}, {1, {5}}, {2, {3, 4}}, {4, {2, 3, 1, 2}}, {2, {0, 4}}};
static const shape binary_shapes[][2] = {
    {{2, {3, 4}}, {2, {3, 4}}},    {{2, {3, 4}}, {2, {1, 4}}},          {{2, {3, 1}}, {2, {1, 4}}},
    {{3, {2, 3, 4}}, {1, {4}}},    {{1, {3}}, {3, {2, 2, 3}}},          {{0, {0}}, {2, {2, 3}}},
    {{3, {2, 1, 4}}, {2, {3, 1}}}, {{4, {2, 1, 3, 1}}, {3, {2, 1, 2}}}, {{2, {0, 3}}, {1, {3}}},
};

void check_elementwise(bench *b) {
#define POSITIVE(kind, name, positive) positive,
    static const bool takes_positive[] = {ICL_UNARY_KINDS(POSITIVE)};
    gradient_case c;
    char what[64];

    for (int kind = 0; kind < ICL_UNARY_COUNT; kind++) {
        const bool positive = takes_positive[kind];
        for (size_t i = 0; i < sizeof unary_shapes / sizeof *unary_shapes; i++) {
            c = (gradient_case){.build = build_unary, .kind = kind, .positive = positive, .input_count = 1};
            c.inputs[0] = unary_shapes[i];
            gradient_describe(&c, icl_unary_name((icl_unary_kind)kind));
            gradient_check(b, &c);
        }
        c = (gradient_case){.build = build_unary_of_slice, .kind = kind, .positive = positive, .input_count = 1};
        c.inputs[0] = (shape){2, {3, 4}};
        snprintf(what, sizeof what, "%s of a slice", icl_unary_name((icl_unary_kind)kind));
        gradient_describe(&c, what);
        gradient_check(b, &c);
    }
    for (size_t i = 0; i < sizeof binary_shapes / sizeof *binary_shapes; i++) {
        for (int kind = 0; kind <= ICL_EQUAL; kind++) { /* slopes have no slope */
            c = (gradient_case){.build = build_binary, .kind = kind, .input_count = 2};
            memcpy(c.inputs, binary_shapes[i], sizeof binary_shapes[i]);
            gradient_describe(&c, icl_binary_name((icl_binary_kind)kind));
            gradient_check(b, &c);
        }
        for (int option = 0; option < 4; option++) {
            c = (gradient_case){.build = build_scale_add, .option = option, .input_count = 2};
            memcpy(c.inputs, binary_shapes[i], sizeof binary_shapes[i]);
            snprintf(what, sizeof what, "scale_add %d", option);
            gradient_describe(&c, what);
            gradient_check(b, &c);
        }
    }
    for (int kind = 0; kind <= ICL_DIVIDE; kind++) {
        c = (gradient_case){.build = build_binary, .kind = kind, .input_count = 1, .inputs = {{2, {2, 3}}}};
        snprintf(what, sizeof what, "%s with itself", icl_binary_name((icl_binary_kind)kind));
        gradient_describe(&c, what);
        gradient_check(b, &c);
    }
    for (int option = 0; option < 2; option++) {
        c = (gradient_case){.build = build_scale, .option = option, .input_count = 1, .inputs = {{2, {2, 3}}}};
        gradient_describe(&c, "scale");
        gradient_check(b, &c);
        c = (gradient_case){.build = build_drop_out, .option = option, .input_count = 1, .inputs = {{2, {5, 8}}}};
        gradient_describe(&c, option ? "drop_out of a view" : "drop_out");
        gradient_check(b, &c);
    }
}

/* ---- Reductions ---- */

static icl_variable build_reduce(icl_tape *tape, const icl_variable *inputs, const gradient_case *c) {
    return icl_tape_reduce(tape, (icl_reduce_kind)c->kind, c->axes, inputs[0]);
}

void check_reductions(bench *b) {
    static const shape shapes[] = {{0, {0}}, {1, {7}}, {3, {2, 3, 4}}, {4, {2, 1, 3, 2}}, {2, {0, 3}}};
    char what[64];

    for (int kind = 0; kind < ICL_REDUCE_COUNT; kind++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            for (unsigned axes = 0; axes < 1u << shapes[i].rank; axes++) {
                gradient_case c = {.build = build_reduce, .kind = kind, .axes = axes, .input_count = 1};
                c.inputs[0] = shapes[i];
                if (gradient_count(&shapes[i]) == 0 && kind != ICL_SUM && kind != ICL_SUM_OF_SQUARES &&
                    kind != ICL_NORM)
                    continue; /* the values are NaN and infinity, which have no differences */
                snprintf(what, sizeof what, "%s over axes 0x%x", icl_reduce_name((icl_reduce_kind)kind), axes);
                gradient_describe(&c, what);
                gradient_check(b, &c);
            }
}
