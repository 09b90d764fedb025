/* Gradients of attention. */
#include <string.h>

#include "gradients.h"

/* inputs: q, k, v; or q and one tensor for keys and values; or one tensor for all three */
static icl_variable build_attention(icl_tape *tape, const icl_variable *inputs, const gradient_case *c) {
    const icl_attention_params params = {(icl_attention_kind)c->kind, (icl_attention_mask)c->option, 0.7};
    const int k = c->input_count > 1 ? 1 : 0;
    return icl_tape_attention(tape, &params, inputs[0], inputs[k], inputs[c->input_count - 1]);
}

/* One tensor: the last token asks, the others answer; on top of a residual path. */
static icl_variable build_attention_slices(icl_tape *tape, const icl_variable *inputs, const gradient_case *c) {
    const icl_attention_params params = {(icl_attention_kind)c->kind, (icl_attention_mask)c->option, 0.7};
    const size_t last = c->inputs[0].extent[1] - 1;
    const icl_variable query = icl_tape_slice(tape, inputs[0], 1, last, 1);
    const icl_variable context = icl_tape_slice(tape, inputs[0], 1, 0, last);
    return icl_tape_binary(tape, ICL_ADD, query, icl_tape_attention(tape, &params, query, context, context));
}

/* Only q is a parameter's descendant. */
static icl_variable build_attention_query(icl_tape *tape, const icl_variable *inputs, const gradient_case *c) {
    const icl_attention_params params = {(icl_attention_kind)c->kind, (icl_attention_mask)c->option, 0.7};
    const size_t keys[] = {c->inputs[0].extent[0], 4, 3}, values_shape[] = {1, 4, 2};
    const icl_variable k = icl_tape_filled(tape, 3, keys, 0.3), v = icl_tape_filled(tape, 3, values_shape, -0.8);
    return icl_tape_attention(tape, &params, inputs[0], k, v);
}

void check_attention(bench *b) {
    static const struct {
        int count;
        shape inputs[3];
    } shapes[] = {
        {3, {{3, {2, 3, 4}}, {3, {2, 5, 4}}, {3, {2, 5, 2}}}},
        {3, {{3, {2, 3, 4}}, {3, {1, 5, 4}}, {3, {2, 5, 2}}}},
        {3, {{3, {1, 3, 4}}, {3, {2, 5, 4}}, {3, {1, 5, 2}}}},
        {3, {{3, {3, 1, 2}}, {3, {3, 1, 2}}, {3, {3, 1, 1}}}},
        {2, {{3, {2, 3, 4}}, {3, {2, 5, 4}}}},
        {1, {{3, {2, 4, 3}}}},
        {3, {{3, {2, 5, 2}}, {3, {2, 3, 2}}, {3, {2, 3, 2}}}},
        {3, {{3, {2, 3, 2}}, {3, {2, 0, 2}}, {3, {2, 0, 2}}}},
        {3, {{3, {0, 3, 2}}, {3, {0, 4, 2}}, {3, {0, 4, 2}}}},
    };
    static const char *const kinds[] = {"linear", "softmax"}, *const masks[] = {"none", "query excluded", "causal"};
    char what[64];

    for (int kind = 0; kind < 2; kind++)
        for (int mask = 0; mask < 3; mask++) {
            gradient_case c;
            for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
                c = (gradient_case){
                    .build = build_attention, .kind = kind, .option = mask, .input_count = shapes[i].count};
                memcpy(c.inputs, shapes[i].inputs, sizeof shapes[i].inputs);
                snprintf(what, sizeof what, "%s attention, mask %s", kinds[kind], masks[mask]);
                gradient_describe(&c, what);
                gradient_check(b, &c);
            }
            c = (gradient_case){.build = build_attention_slices, .kind = kind, .option = mask, .input_count = 1};
            c.inputs[0] = (shape){3, {2, 4, 3}};
            snprintf(what, sizeof what, "%s attention over slices, mask %s", kinds[kind], masks[mask]);
            gradient_describe(&c, what);
            gradient_check(b, &c);
            c = (gradient_case){.build = build_attention_query, .kind = kind, .option = mask, .input_count = 1};
            c.inputs[0] = (shape){3, {2, 2, 3}};
            snprintf(what, sizeof what, "%s attention, gradient of q alone, mask %s", kinds[kind], masks[mask]);
            gradient_describe(&c, what);
            gradient_check(b, &c);
        }
}
