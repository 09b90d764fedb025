/* Gradients of attention. */
#include <string.h>

#include "gradients.h"

/* The masks, and behind them a window of two keys. */
enum { WINDOW = ICL_MASK_CAUSAL + 1, MASKS };

static icl_attention_params params_of(const gradient_case *c) {
    const bool has_window = c->option == WINDOW;
    return (icl_attention_params){.kind = (icl_attention_kind)c->kind,
                                  .mask = has_window ? ICL_MASK_CAUSAL : (icl_attention_mask)c->option,
                                  .scale = 0.7,
                                  .window = has_window ? 2 : 0};
}

/* inputs: q, k, v; or q and one tensor for keys and values; or one tensor for all three */
static icl_variable build_attention(icl_tape *tape, const icl_variable *inputs, const gradient_case *c) {
    const icl_attention_params params = params_of(c);
    const int k = c->input_count > 1 ? 1 : 0;
    return icl_tape_attention(tape, &params, inputs[0], inputs[k], inputs[c->input_count - 1]);
}

/* Inputs in one tensor: the last token is the query, the others its context; added to a residual path. */
static icl_variable build_attention_slices(icl_tape *tape, const icl_variable *inputs, const gradient_case *c) {
    const icl_attention_params params = params_of(c);
    const size_t last = c->inputs[0].extent[1] - 1;
    const icl_variable query = icl_tape_slice(tape, inputs[0], 1, last, 1);
    const icl_variable context = icl_tape_slice(tape, inputs[0], 1, 0, last);
    return icl_tape_binary(tape, ICL_ADD, query, icl_tape_attention(tape, &params, query, context, context));
}

/* Only q depends on a parameter. */
static icl_variable build_attention_query(icl_tape *tape, const icl_variable *inputs, const gradient_case *c) {
    const icl_attention_params params = params_of(c);
    const size_t keys[] = {c->inputs[0].extent[0], 4, 3}, values_shape[] = {1, 4, 2};
    const icl_variable k = icl_tape_filled(tape, 3, keys, 0.3), v = icl_tape_filled(tape, 3, values_shape, -0.8);
    return icl_tape_attention(tape, &params, inputs[0], k, v);
}

/* Returns [B, T, heads d] as heads [B, heads, T, d], without a copy. */
static icl_variable split_heads(icl_tape *tape, icl_variable in, const shape *s, size_t heads) {
    const size_t split[] = {s->extent[0], s->extent[1], heads, s->extent[2] / heads};
    return icl_tape_swap_axes(tape, icl_tape_reshape(tape, in, 4, split), 1, 2);
}

/* inputs: q of four heads, k and v of two. The result goes back to [B, T, heads e], also without a copy. */
static icl_variable build_attention_heads(icl_tape *tape, const icl_variable *inputs, const gradient_case *c) {
    const icl_attention_params params = params_of(c);
    const icl_variable out = icl_tape_attention(tape, &params, split_heads(tape, inputs[0], &c->inputs[0], 4),
                                                split_heads(tape, inputs[1], &c->inputs[1], 2),
                                                split_heads(tape, inputs[2], &c->inputs[2], 2));
    const size_t joined[] = {c->inputs[0].extent[0], c->inputs[0].extent[1], 2 * c->inputs[2].extent[2]};
    return icl_tape_reshape(tape, icl_tape_swap_axes(tape, out, 1, 2), 3, joined);
}

/* Queries, keys and values side by side in one tensor, as one product gives them. */
static icl_variable build_attention_beside(icl_tape *tape, const icl_variable *inputs, const gradient_case *c) {
    const icl_attention_params params = params_of(c);
    const shape *s = &c->inputs[0];
    const size_t split[] = {s->extent[0], s->extent[1], 3 * 2, s->extent[2] / 6};
    const icl_variable all = icl_tape_swap_axes(tape, icl_tape_reshape(tape, inputs[0], 4, split), 1, 2);
    return icl_tape_attention(tape, &params, icl_tape_slice(tape, all, 1, 0, 2), icl_tape_slice(tape, all, 1, 2, 2),
                              icl_tape_slice(tape, all, 1, 4, 2));
}

static void check_heads(bench *b, int kind, int mask, const char *with) {
    static const struct {
        icl_variable (*build)(icl_tape *tape, const icl_variable *inputs, const gradient_case *c);
        int count;
        shape inputs[3];
    } cases[] = {
        {build_attention, 3, {{4, {2, 4, 3, 2}}, {4, {2, 2, 5, 2}}, {4, {2, 2, 5, 3}}}},
        {build_attention, 3, {{4, {2, 2, 1, 3}}, {4, {1, 1, 5, 3}}, {4, {2, 1, 5, 2}}}},
        {build_attention, 3, {{4, {3, 2, 1, 3}}, {4, {3, 2, 4, 3}}, {4, {3, 2, 4, 2}}}},
        {build_attention, 1, {{4, {2, 3, 4, 2}}}},
        {build_attention, 3, {{4, {2, 2, 0, 3}}, {4, {2, 1, 5, 3}}, {4, {2, 1, 5, 2}}}},
        {build_attention_heads, 3, {{3, {2, 3, 8}}, {3, {2, 4, 4}}, {3, {2, 4, 2}}}},
        {build_attention_beside, 1, {{3, {2, 4, 12}}}},
    };
    char what[96];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gradient_case c = {.build = cases[i].build, .kind = kind, .option = mask, .input_count = cases[i].count};
        memcpy(c.inputs, cases[i].inputs, sizeof cases[i].inputs);
        snprintf(what, sizeof what, "%s, heads", with);
        gradient_describe(&c, what);
        gradient_check(b, &c);
    }
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
    static const char *const kinds[] = {"linear", "softmax"}, *const masks[] = {"none", "query excluded", "causal",
                                                                                "window"};
    char what[64];

    for (int kind = 0; kind < 2; kind++)
        for (int mask = 0; mask < (kind == ICL_ATTENTION_SOFTMAX ? MASKS : WINDOW); mask++) {
            gradient_case c;
            for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
                c = (gradient_case){
                    .build = build_attention, .kind = kind, .option = mask, .input_count = shapes[i].count};
                memcpy(c.inputs, shapes[i].inputs, sizeof shapes[i].inputs);
                snprintf(what, sizeof what, "%s attention, mask %s", kinds[kind], masks[mask]);
                gradient_describe(&c, what);
                gradient_check(b, &c);
            }
            snprintf(what, sizeof what, "%s attention, mask %s", kinds[kind], masks[mask]);
            check_heads(b, kind, mask, what);
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
