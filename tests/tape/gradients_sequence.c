/* Gradients of the ops of sequence models: normalization, cross-entropy. */
#include "gradients.h"
#include "iclab/ops_sequence.h"

/* inputs: rows, then by the bits of option gain (1) and shift (2), or one input as both (4). */
static icl_variable build_normalize(icl_tape *tape, const icl_variable *inputs, const gradient_case *c) {
    const icl_normalize_params params = {(icl_norm_kind)c->kind, 0.05};
    const bool has_gain = (c->option & 5) != 0;
    const icl_variable *gain = has_gain ? &inputs[1] : NULL;
    const icl_variable *shift = c->option & 2 ? &inputs[has_gain ? 2 : 1] : c->option & 4 ? &inputs[1] : NULL;
    return icl_tape_normalize(tape, &params, inputs[0], gain, shift);
}

/* Normalizes a view, beside a residual path; the gain is a constant, and for option 1 the rows are, too. */
static icl_variable build_normalize_parts(icl_tape *tape, const icl_variable *inputs, const gradient_case *c) {
    const icl_normalize_params params = {(icl_norm_kind)c->kind, 0.05};
    const size_t n = c->inputs[0].extent[0];
    const icl_variable two = icl_tape_filled(tape, 1, &n, 2);
    if (c->option)
        return icl_tape_normalize(tape, &params, icl_tape_filled(tape, 2, (const size_t[]){3, n}, 0.5), NULL,
                                  &inputs[0]);
    const icl_variable swapped = icl_tape_swap_axes(tape, inputs[0], 0, 1);
    return icl_tape_binary(tape, ICL_ADD, swapped, icl_tape_normalize(tape, &params, swapped, &two, NULL));
}

void check_normalize(bench *b) {
    static const shape rows[] = {{1, {6}}, {2, {7, 5}}, {3, {2, 3, 4}}, {4, {2, 1, 3, 2}}, {2, {0, 3}}, {2, {70, 3}}};
    char what[64];

    for (int kind = 0; kind < ICL_NORM_COUNT; kind++) {
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            for (int option = 0; option < 5; option++) {
                gradient_case c = {.build = build_normalize, .kind = kind, .option = option, .input_count = 1};
                c.inputs[0] = rows[i];
                for (int vectors = (option & 1) + (option >> 1 & 1) + (option >> 2); vectors > 0; vectors--)
                    c.inputs[c.input_count++] = (shape){1, {rows[i].extent[rows[i].rank - 1]}};
                snprintf(what, sizeof what, "normalize %s, vectors %d", icl_norm_name((icl_norm_kind)kind), option);
                gradient_describe(&c, what);
                gradient_check(b, &c);
            }
        gradient_case c = {.build = build_normalize_parts, .kind = kind, .input_count = 1, .inputs = {{2, {4, 3}}}};
        gradient_describe(&c, "normalize a transpose");
        gradient_check(b, &c);
        c = (gradient_case){
            .build = build_normalize_parts, .kind = kind, .option = 1, .input_count = 1, .inputs = {{1, {4}}}};
        gradient_describe(&c, "normalize constants");
        gradient_check(b, &c);
    }
}

/* The input is the logits, which with the option also take other paths; the classes repeat in a cycle. */
static icl_variable build_cross_entropy(icl_tape *tape, const icl_variable *inputs, const gradient_case *c) {
    const shape *of = &c->inputs[0];
    const size_t n = of->extent[of->rank - 1], count = n > 0 ? gradient_count(of) / n : 0;
    size_t extent[ICL_MAX_RANK] = {0};
    float numbers[MAX_COUNT];

    for (int axis = 0; axis < of->rank; axis++)
        extent[axis] = axis + 1 < of->rank ? of->extent[axis] : 1;
    const icl_variable classes = icl_tape_filled(tape, of->rank, extent, 0);
    for (size_t i = 0; i < count; i++)
        numbers[i] = (float)(i % n);
    if (count > 0 && icl_tensor_write(icl_tape_value(tape, classes), numbers, NULL) != ICL_OK)
        return (icl_variable){-1};
    const icl_variable losses = icl_tape_cross_entropy(tape, inputs[0], classes);
    return c->option ? icl_tape_binary(tape, ICL_ADD, inputs[0], losses) : losses;
}

void check_cross_entropy(bench *b) {
    static const shape logits[] = {{1, {6}}, {2, {7, 5}}, {3, {2, 3, 4}}, {4, {2, 1, 3, 2}}, {2, {0, 3}}, {2, {3, 70}}};

    for (size_t i = 0; i < sizeof logits / sizeof *logits; i++)
        for (int option = 0; option < 2; option++) {
            gradient_case c = {.build = build_cross_entropy, .option = option, .input_count = 1, .inputs = {logits[i]}};
            gradient_describe(&c, option ? "cross-entropy beside the logits" : "cross-entropy");
            gradient_check(b, &c);
        }
}
