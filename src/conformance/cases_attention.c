/* Attention, forward and backward. Cases: both kinds, every mask. */
#include "conformance/cases.h"

#include <stdio.h>

/* heads: of q and of k and v; {0}: operands without heads. s: batch, queries, keys, d, e. */
static void add_heads(icl_case_list *list, icl_attention_params params, bool is_backward, const size_t heads[2],
                      const size_t s[5], icl_values values) {
    const size_t queries = s[1], keys = s[2], d = s[3], e = s[4];
    const bool softmax = params.kind == ICL_ATTENTION_SOFTMAX;
    static const char *const masks[] = {"all", "query-excluded", "causal"};
    const int q = is_backward ? 6 : 2, out = is_backward ? 4 : 0;
    icl_case c = {.op = is_backward ? ICL_OP_attention_backward : ICL_OP_attention_forward,
                  .params = {.attention = params},
                  .values = values};
    char what[64];
    const struct {
        int operand;
        bool wanted;
        size_t heads, rows, columns;
    } shapes[] = {
        {out, softmax || !is_backward, heads[0], queries, e},
        {out + 1, softmax, heads[0], queries, 1},
        {q, true, heads[0], queries, d},
        {q + 1, true, heads[1], keys, d},
        {q + 2, true, heads[1], keys, e},
        {0, is_backward, heads[0], queries, d},
        {1, is_backward, heads[1], keys, d},
        {2, is_backward, heads[1], keys, e},
        {3, is_backward, heads[0], queries, e},
    };

    for (int i = 0; i < (is_backward ? 9 : 5); i++) {
        const bool has_heads = heads[0] > 0;
        icl_case_set_shape(&c, shapes[i].operand,
                           !shapes[i].wanted ? -1
                           : has_heads       ? 4
                                             : 3,
                           s[0], has_heads ? shapes[i].heads : shapes[i].rows,
                           has_heads ? shapes[i].rows : shapes[i].columns, shapes[i].columns);
    }
    snprintf(what, sizeof what, "%s %s %s", softmax ? "softmax" : "linear", is_backward ? "backward" : "forward",
             masks[params.mask]);
    icl_cases_add(list, c, what);
}

static void add_attention(icl_case_list *list, icl_attention_params params, bool is_backward, const size_t s[5],
                          icl_values values) {
    add_heads(list, params, is_backward, (const size_t[2]){0}, s, values);
}

/* As many heads of keys as of queries, some, and one; few and many sequences; one query each, and of a batch of one. */
static void head_cases(icl_case_list *list, icl_attention_kind kind, icl_attention_mask mask, bool is_backward) {
    static const struct {
        size_t heads[2], shape[5];
    } shapes[] = {
        {{2, 2}, {3, 9, 9, 5, 3}},    {{6, 3}, {2, 7, 10, 3, 5}},  {{4, 1}, {1, 37, 35, 4, 2}},
        {{4, 2}, {33, 1, 12, 6, 3}},  {{3, 3}, {34, 1, 12, 6, 3}}, {{4, 2}, {1, 1, 9, 2, 2}},
        {{2, 1}, {17, 11, 9, 34, 3}}, {{6, 2}, {8, 66, 5, 3, 2}},  {{2, 1}, {2, 70, 130, 66, 70}},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const icl_attention_params params = {kind, mask, i % 2 ? 0.25 : 1};
        add_heads(list, params, is_backward, shapes[i].heads, shapes[i].shape, ICL_VALUES_RANDOM);
        if (i < 3)
            add_heads(list, params, is_backward, shapes[i].heads, shapes[i].shape, ICL_VALUES_INTEGERS);
    }
}

/* Shapes around the blocks of queries and keys, and of columns, that a softmax pass may work in; and scores so far
 * apart that weights underflow and each key may raise the maximum; and sequences enough for a backward pass that
 * shares them out whole. */
static void softmax_cases(icl_case_list *list, icl_attention_mask mask, bool is_backward) {
    static const size_t shapes[][5] = {
        {1, 33, 34, 2, 1},   {1, 1, 64, 64, 64},    {1, 63, 65, 5, 1},   {2, 64, 63, 64, 5},
        {1, 65, 130, 1, 70}, {1, 130, 64, 70, 1},   {1, 130, 130, 5, 5}, {1, 65, 1, 5, 64},
        {1, 3, 65, 1, 1},    {1, 33, 200, 70, 130}, {33, 1, 21, 5, 1},   {70, 1, 9, 2, 3},
    };
    static const size_t many[][5] = {{16, 6, 66, 66, 3}, {17, 70, 7, 25, 2}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        icl_attention_params params = {ICL_ATTENTION_SOFTMAX, mask, 0.25};
        add_attention(list, params, is_backward, shapes[s], ICL_VALUES_RANDOM);
        params.scale = 16;
        add_attention(list, params, is_backward, shapes[s], ICL_VALUES_CANCELLING);
    }
    for (size_t s = 0; is_backward && s < sizeof many / sizeof *many; s++)
        add_attention(list, (icl_attention_params){ICL_ATTENTION_SOFTMAX, mask, 0.25}, true, many[s],
                      ICL_VALUES_RANDOM);
}

static void cases(icl_case_list *list) {
    static const size_t shapes[][5] = {
        {1, 1, 1, 1, 1},   {5, 21, 21, 11, 11}, {3, 1, 21, 11, 11}, {2, 33, 7, 5, 3},
        {2, 7, 33, 3, 17}, {1, 65, 130, 33, 9}, {2, 4, 0, 3, 2},    {17, 6, 6, 2, 1},
        {1, 3, 257, 8, 8}, {0, 3, 3, 2, 2},     {1, 9, 9, 40, 70},
    };
    for (int variant = 0; variant < 12; variant++) {
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            const icl_attention_params params = {(icl_attention_kind)(variant / 6),
                                                 (icl_attention_mask)(variant / 2 % 3), s % 2 ? 0.25 : 1};
            add_attention(list, params, variant % 2, shapes[s], ICL_VALUES_RANDOM);
            add_attention(list, params, variant % 2, shapes[s], s % 2 ? ICL_VALUES_INTEGERS : ICL_VALUES_CANCELLING);
        }
        head_cases(list, (icl_attention_kind)(variant / 6), (icl_attention_mask)(variant / 2 % 3), variant % 2);
        if (variant >= 6)
            softmax_cases(list, (icl_attention_mask)(variant / 2 % 3), variant % 2);
    }
    /* One set of keys and values for the whole batch. */
    for (int softmax = 0; softmax < 2; softmax++) {
        icl_case shared = {.op = ICL_OP_attention_forward,
                           .params = {.attention = {(icl_attention_kind)softmax, ICL_MASK_NONE, 1}}};
        icl_case_set_shape(&shared, 0, 3, 6, 5, 4, 0);
        icl_case_set_shape(&shared, 1, softmax ? 3 : -1, 6, 5, 1, 0);
        icl_case_set_shape(&shared, 2, 3, 6, 5, 3, 0);
        icl_case_set_shape(&shared, 3, 3, 1, 9, 3, 0);
        icl_case_set_shape(&shared, 4, 3, 1, 9, 4, 0);
        icl_cases_add(list, shared, softmax ? "softmax forward shared keys" : "linear forward shared keys");
        icl_case_set_shape(&shared, 0, 4, 6, 4, 5, 4);
        icl_case_set_shape(&shared, 1, softmax ? 4 : -1, 6, 4, 5, 1);
        icl_case_set_shape(&shared, 2, 4, 6, 4, 5, 3);
        icl_case_set_shape(&shared, 3, 4, 1, 2, 9, 3);
        icl_case_set_shape(&shared, 4, 4, 1, 2, 9, 4);
        icl_cases_add(list, shared, softmax ? "softmax forward shared keys" : "linear forward shared keys");
    }
}

/* The backward pass reads what the forward pass gave. */
static icl_status backward_results(const icl_case *c, int operand, float *const *operands, icl_error *error) {
    return operand == 4 || operand == 5 ? icl_truth_forward_results(c, operand, operands, error) : ICL_OK;
}

ICL_CASE_CALL(forward, icl_attention_forward(on, &c->params.attention, t[0], t[1], t[2], t[3], t[4], error))
ICL_CASE_CALL(backward, icl_attention_backward(on, &c->params.attention, t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7],
                                               t[8], error))

static icl_status fill_backward(const icl_case *c, icl_backend *backend, const icl_tensor *t, icl_error *error) {
    if (!t[4].buffer)
        return ICL_OK;
    return icl_attention_forward(backend, &c->params.attention, t[4], t[5], t[6], t[7], t[8], error);
}

/* Linear: 2 d e (q + k) forward, 2 d e (2 q + 3 k) backward: S = K^T V and its gradient. Softmax: 2 q k (d + e)
 * forward, 2 q k (3 d + 2 e) backward, half of that when causal; exponentials are not counted. */
static double flops(const icl_case *c) {
    const icl_attention_params *params = &c->params.attention;
    const bool backward = c->op == ICL_OP_attention_backward;
    const int of_q = backward ? 6 : 2, rank = c->rank[of_q];
    const size_t *const q = c->shape[of_q], *const k = c->shape[of_q + 1], *const v = c->shape[of_q + 2];
    const double batch = (double)(rank == 4 ? q[0] * q[1] : q[0]);
    const double queries = (double)q[rank - 2], keys = (double)k[rank - 2];
    const double d = (double)q[rank - 1], e = (double)v[rank - 1];

    if (params->kind == ICL_ATTENTION_LINEAR)
        return batch * 2 * d * e * (backward ? 2 * queries + 3 * keys : queries + keys);
    return batch * 2 * queries * keys * (backward ? 3 * d + 2 * e : d + e) *
           (params->mask == ICL_MASK_CAUSAL ? 0.5 : 1);
}

/* clang-format off */
#define LINEAR      {.attention = {ICL_ATTENTION_LINEAR, ICL_MASK_QUERY_EXCLUDED, 0.05}}
#define SOFTMAX     {.attention = {ICL_ATTENTION_SOFTMAX, ICL_MASK_NONE, 0.125}}
#define CAUSAL      {.attention = {ICL_ATTENTION_SOFTMAX, ICL_MASK_CAUSAL, 0.125}}
#define HEADS(n)    ICL_AXES3(16, n, 64)
#define ROWS(n)     ICL_AXES3(16, n, 1)
#define FORWARD(n)  {HEADS(n), ROWS(n), HEADS(n), HEADS(n), HEADS(n)}
#define BACKWARD(n) {HEADS(n), HEADS(n), HEADS(n), HEADS(n), HEADS(n), ROWS(n), HEADS(n), HEADS(n), HEADS(n)}
/* A step of a small language model. */
#define GPT(h)          ICL_AXES4(64, h, 82, 32)
#define GPT_ROWS(h)     ICL_AXES4(64, h, 82, 1)
#define GPT_FORWARD(h)  {GPT(h), GPT_ROWS(h), GPT(h), GPT(h), GPT(h)}
#define GPT_BACKWARD(h) {GPT(h), GPT(h), GPT(h), GPT(h), GPT(h), GPT_ROWS(h), GPT(h), GPT(h), GPT(h)}
/* clang-format on */

static const icl_timed_shape forward_timed[] = {
    {"attention linear forward n 21 d 21 (2048)",
     LINEAR,
     {ICL_SEQUENCES, ICL_ABSENT, ICL_SEQUENCES, ICL_SEQUENCES, ICL_SEQUENCES}},
    {"attention softmax forward n 256 d 64 (16)", SOFTMAX, FORWARD(256)},
    {"attention softmax forward causal n 256 d 64 (16)", CAUSAL, FORWARD(256)},
    {"attention softmax forward causal n 82 d 32 (64 x 2)", CAUSAL, GPT_FORWARD(2)},
    {"attention softmax forward causal n 82 d 32 (64 x 4)", CAUSAL, GPT_FORWARD(4)},
    {"attention softmax forward n 1024 d 64 (16)", SOFTMAX, FORWARD(1024), true},
    {"attention softmax forward n 4096 d 64 (16)", SOFTMAX, FORWARD(4096), true},
};
static const icl_timed_shape backward_timed[] = {
    {"attention linear backward n 21 d 21 (2048)",
     LINEAR,
     {ICL_SEQUENCES, ICL_SEQUENCES, ICL_SEQUENCES, ICL_SEQUENCES, ICL_ABSENT, ICL_ABSENT, ICL_SEQUENCES, ICL_SEQUENCES,
      ICL_SEQUENCES}},
    {"attention softmax backward n 256 d 64 (16)", SOFTMAX, BACKWARD(256)},
    {"attention softmax backward causal n 82 d 32 (64 x 2)", CAUSAL, GPT_BACKWARD(2)},
    {"attention softmax backward causal n 82 d 32 (64 x 4)", CAUSAL, GPT_BACKWARD(4)},
    {"attention softmax backward n 1024 d 64 (16)", SOFTMAX, BACKWARD(1024), true},
    {"attention softmax backward n 4096 d 64 (16)", SOFTMAX, BACKWARD(4096), true},
};

const icl_described_op icl_described_attention_forward =
    ICL_DESCRIBED(forward_timed, .call = call_forward, .truth = icl_truth_attention, .cases = cases, .flops = flops);
const icl_described_op icl_described_attention_backward =
    ICL_DESCRIBED(backward_timed, .call = call_backward, .truth = icl_truth_attention, .results = backward_results,
                  .flops = flops, .fill = fill_backward);
