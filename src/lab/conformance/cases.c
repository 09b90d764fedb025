/* The table of cases: every op on ragged and round shapes, every layout, and the values that fit it. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/status.h"
#include "lab/conformance/case.h"

static const char *const value_names[ICL_VALUES_COUNT] = {"random",     "integers", "large",   "small",
                                                          "cancelling", "special",  "absorbed"};
static const char *const layout_names[ICL_LAYOUT_COUNT] = {"plain", "padded", "transposed"};

/* The list being built. Running out of memory is remembered and reported once, at the end. */
typedef struct builder {
    icl_case *cases;
    uint32_t seed;
    size_t count, capacity;
    icl_status status;
    icl_error *error;
} builder;

/* FNV-1a. A case's values follow from its name, so that they stay as they are when others come and go. */
static uint32_t hash_of(const char *name) {
    uint32_t hash = 2166136261U;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619U;
    return hash;
}

static void add(builder *b, icl_case c, const char *what) {
    size_t used;
    if (b->status == ICL_OK && b->count == b->capacity) {
        icl_case *grown = NULL;
        const size_t capacity = b->capacity ? 2 * b->capacity : 256;
        b->status = icl_allocate(capacity, sizeof *grown, "conformance cases", &grown, b->error);
        if (b->status == ICL_OK && b->count > 0)
            memcpy(grown, b->cases, b->count * sizeof *grown);
        if (b->status == ICL_OK) {
            icl_free(&b->cases);
            b->cases = grown;
            b->capacity = capacity;
        }
    }
    if (b->status != ICL_OK)
        return;
    used = (size_t)snprintf(c.name, sizeof c.name, "%s ", what);
    for (int i = 0; i < icl_op_infos[c.op].outputs + icl_op_infos[c.op].inputs; i++) {
        if (c.rank[i] < 0 || used >= sizeof c.name)
            continue;
        used += (size_t)snprintf(c.name + used, sizeof c.name - used, "(");
        for (int axis = 0; axis < c.rank[i] && used < sizeof c.name; axis++)
            used += (size_t)snprintf(c.name + used, sizeof c.name - used, "%s%zu", axis ? "x" : "",
                                     c.shape[i][axis]);
        if (used < sizeof c.name)
            used += (size_t)snprintf(c.name + used, sizeof c.name - used, ")");
    }
    if (used < sizeof c.name)
        snprintf(c.name + used, sizeof c.name - used, " %s %s", layout_names[c.layout],
                 value_names[c.values]);
    c.seed = b->seed * 1000003U + hash_of(c.name);
    b->cases[b->count++] = c;
}

static void set_shape(icl_case *c, int operand, int rank, size_t s0, size_t s1, size_t s2, size_t s3) {
    const size_t shape[ICL_MAX_RANK] = {s0, s1, s2, s3};
    c->rank[operand] = rank;
    memcpy(c->shape[operand], shape, sizeof shape);
}

/* Adds the case in every layout. */
static void add_layouts(builder *b, icl_case c, const char *what) {
    for (int layout = 0; layout < ICL_LAYOUT_COUNT; layout++) {
        c.layout = (icl_layout)layout;
        add(b, c, what);
    }
}

/* ---- Elementwise ---- */

static const struct {
    int rank;
    size_t shape[ICL_MAX_RANK];
} flat_shapes[] = {
    {0, {0}},       {1, {1}},         {1, {7}},          {1, {257}},  {2, {33, 17}},
    {3, {5, 0, 3}}, {3, {3, 21, 11}}, {4, {2, 3, 5, 7}}, {1, {4099}},
};
#define FLAT_SHAPES (sizeof flat_shapes / sizeof *flat_shapes)

static void add_elementwise(builder *b, icl_op op, icl_case_params params, const char *what) {
    static const icl_values values[] = {ICL_VALUES_RANDOM, ICL_VALUES_SPECIAL, ICL_VALUES_INTEGERS};
    for (size_t s = 0; s < FLAT_SHAPES; s++) {
        icl_case c = {.op = op, .params = params, .values = values[s % 3]};
        const size_t *shape = flat_shapes[s].shape;
        for (int i = 0; i < icl_op_infos[op].outputs + icl_op_infos[op].inputs; i++)
            set_shape(&c, i, flat_shapes[s].rank, shape[0], shape[1], shape[2], shape[3]);
        if (op == ICL_OP_scale_add && c.values == ICL_VALUES_SPECIAL)
            c.values = ICL_VALUES_CANCELLING; /* infinity minus infinity depends on alpha and beta */
        add_layouts(b, c, what);
    }
}

/* Inputs that repeat along axes of the output. */
static void add_broadcast(builder *b, icl_op op, icl_case_params params, const char *what) {
    icl_case c = {.op = op, .params = params};
    set_shape(&c, 0, 3, 6, 13, 11, 0);
    set_shape(&c, 1, 3, 6, 1, 11, 0);
    set_shape(&c, 2, 1, 11, 0, 0, 0);
    add_layouts(b, c, what);
    set_shape(&c, 1, 0, 0, 0, 0, 0);
    set_shape(&c, 2, 3, 6, 13, 1, 0);
    add_layouts(b, c, what);
    /* One short row against all rows, on either side. */
    set_shape(&c, 1, 3, 6, 13, 11, 0);
    set_shape(&c, 2, 1, 11, 0, 0, 0);
    add_layouts(b, c, what);
    set_shape(&c, 1, 1, 11, 0, 0, 0);
    set_shape(&c, 2, 3, 6, 13, 11, 0);
    add_layouts(b, c, what);
}

/* Onto an input, or onto both. */
static void add_in_place(builder *b, icl_op op, icl_case_params params, const char *name) {
    static const char *const where[] = {"", "", "in place", "", "onto b", "", "onto a and b"};
    const int inputs = icl_op_infos[op].inputs;
    for (unsigned in_place = 2; in_place < 2U << inputs; in_place += 2)
        for (size_t s = 3; s < FLAT_SHAPES; s += 2) {
            icl_case c = {.op = op, .params = params, .in_place = in_place};
            const size_t *shape = flat_shapes[s].shape;
            char what[64];
            for (int i = 0; i <= inputs; i++)
                set_shape(&c, i, flat_shapes[s].rank, shape[0], shape[1], shape[2], shape[3]);
            snprintf(what, sizeof what, "%s %s", name, where[in_place]);
            add_layouts(b, c, what);
        }
}

static void in_place_cases(builder *b) {
    add_in_place(b, ICL_OP_copy, (icl_case_params){0}, "copy");
    for (int kind = 0; kind < ICL_UNARY_COUNT; kind++)
        add_in_place(b, ICL_OP_unary, (icl_case_params){.unary = (icl_unary_kind)kind},
                     icl_unary_name((icl_unary_kind)kind));
    for (int kind = 0; kind < ICL_BINARY_COUNT; kind++)
        add_in_place(b, ICL_OP_binary, (icl_case_params){.binary = (icl_binary_kind)kind},
                     icl_binary_name((icl_binary_kind)kind));
    add_in_place(b, ICL_OP_scale_add, (icl_case_params){.scale_add = {0.3, -1.7}}, "scale_add");
}

static void elementwise_cases(builder *b) {
    add_elementwise(b, ICL_OP_fill, (icl_case_params){.value = 0.1}, "fill");
    add_elementwise(b, ICL_OP_copy, (icl_case_params){0}, "copy");
    add_broadcast(b, ICL_OP_copy, (icl_case_params){0}, "copy");
    for (int kind = 0; kind < ICL_UNARY_COUNT; kind++)
        add_elementwise(b, ICL_OP_unary, (icl_case_params){.unary = (icl_unary_kind)kind},
                        icl_unary_name((icl_unary_kind)kind));
    for (int kind = 0; kind < ICL_BINARY_COUNT; kind++) {
        const icl_case_params params = {.binary = (icl_binary_kind)kind};
        add_elementwise(b, ICL_OP_binary, params, icl_binary_name((icl_binary_kind)kind));
        add_broadcast(b, ICL_OP_binary, params, icl_binary_name((icl_binary_kind)kind));
    }
    add_elementwise(b, ICL_OP_scale_add, (icl_case_params){.scale_add = {0.3, -1.7}}, "scale_add");
    add_broadcast(b, ICL_OP_scale_add, (icl_case_params){.scale_add = {2, 0.1}}, "scale_add");
    icl_case scale = {.op = ICL_OP_scale_add, .params = {.scale_add = {-0.7, 0}}};
    set_shape(&scale, 0, 2, 33, 257, 0, 0);
    set_shape(&scale, 1, 2, 33, 257, 0, 0);
    scale.rank[2] = -1;
    add_layouts(b, scale, "scale");
}

static void random_cases(builder *b) {
    static const char *const names[] = {"random uniform", "random normal", "random choice"};
    /* The last one crosses from one word of Philox's counter to the next. */
    static const struct {
        uint64_t index;
        const char *name;
    } firsts[] = {{0, ""}, {1, " from 1"}, {(UINT64_C(1) << 34) - 5, " from 2^34 - 5"}};
    for (int distribution = 0; distribution <= ICL_CHOICE; distribution++)
        for (int first = 0; first < 3; first++) {
            char what[64];
            snprintf(what, sizeof what, "%s%s", names[distribution], firsts[first].name);
            add_elementwise(
                b, ICL_OP_random_fill,
                (icl_case_params){.random = {.key = {.seed = 7, .stream = 3, .step = UINT64_C(1) << 33},
                                             .first_index = firsts[first].index,
                                             .distribution = (icl_distribution)distribution,
                                             .low = -1.5F,
                                             .high = 2.25F,
                                             .choice_count = 3,
                                             .choices = {1, 3, 5}}},
                what);
        }
}

/* Contexts shorter and longer than d + 1, batches that do not fill the lanes, with roots and without. */
static void gram_cases(builder *b) {
    static const struct {
        size_t batch, d, n;
    } sizes[] = {{1, 1, 1}, {37, 2, 9},    {5, 3, 0},    {17, 5, 3},     {9, 4, 4},
                 {9, 4, 5}, {18, 4, 1000}, {33, 10, 10}, {130, 20, 1000}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int roots = 0; roots < 2; roots++) {
            const size_t batch = sizes[s].batch, d = sizes[s].d, n = sizes[s].n;
            const icl_random_params uniform = {.distribution = ICL_UNIFORM, .low = 0.25F, .high = 5};
            const icl_random_params choice = {
                .distribution = ICL_CHOICE, .choice_count = 3, .choices = {1, 3, 5}};
            icl_case c = {.op = ICL_OP_gram_sample,
                          .params = {.gram = {.key = {7, 3, UINT64_C(1) << 33},
                                              .context = n,
                                              .noise_level = s % 2 ? choice : uniform}}};
            char what[64];
            set_shape(&c, 0, 3, batch, d + 1, d + 1, 0);
            set_shape(&c, 1, 2, batch, d + 1, 0, 0);
            set_shape(&c, 2, 1, batch, 0, 0, 0);
            set_shape(&c, 3, 2, batch, d, 0, 0);
            set_shape(&c, 4, 1, batch, 0, 0, 0);
            set_shape(&c, 5, 3, n < d + 1 ? n : d + 1, ICL_CHI_PIECES, ICL_CHI_TERMS, 0);
            set_shape(&c, 6, roots ? 3 : -1, 2, d, d, 0);
            snprintf(what, sizeof what, "gram_sample %s%s", n > d ? "long" : "short", roots ? " rooted" : "");
            add_layouts(b, c, what);
        }
}

/* ---- Reductions ---- */

/* Random terms hardly tell a tree from a sum in plain order, whose error grows with n: rounding goes up as often as down. */
static void add_absorbed(builder *b, icl_reduce_kind kind) {
    static const size_t counts[] = {257, 4099, 100003};
    for (size_t s = 0; s < sizeof counts / sizeof *counts && (kind == ICL_SUM || kind == ICL_MEAN); s++) {
        icl_case c = {.op = ICL_OP_reduce, .params = {.reduce = {kind, 1}}, .values = ICL_VALUES_ABSORBED};
        set_shape(&c, 0, 1, 1, 0, 0, 0);
        set_shape(&c, 1, 1, counts[s], 0, 0, 0);
        add_layouts(b, c, icl_reduce_name(kind));
    }
}

static void reduce_cases(builder *b) {
    static const struct {
        int rank;
        size_t shape[ICL_MAX_RANK];
        unsigned axes;
    } shapes[] = {
        {1, {1}, 1},
        {1, {7}, 1},
        {1, {33}, 1},
        {1, {257}, 1},
        {1, {100003}, 1},
        {2, {33, 255}, 1},
        {2, {33, 255}, 2},
        {2, {255, 33}, 3},
        {3, {9, 21, 11}, 3},
        {3, {9, 21, 11}, 4},
        {3, {9, 21, 11}, 2},
        {3, {9, 21, 11}, 5},
        {4, {3, 5, 7, 11}, 10},
        {4, {3, 5, 7, 11}, 15},
        {3, {4, 0, 3}, 2},
        {2, {2048, 1}, 1},
        {2, {3, 4}, 0},
        {2, {0, 5}, 2},
    };
    for (int kind = 0; kind < ICL_REDUCE_COUNT; kind++) {
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            static const icl_values values[] = {ICL_VALUES_RANDOM, ICL_VALUES_CANCELLING, ICL_VALUES_INTEGERS,
                                                ICL_VALUES_LARGE};
            const icl_reduce_kind k = (icl_reduce_kind)kind;
            icl_case c = {
                .op = ICL_OP_reduce, .params = {.reduce = {k, shapes[s].axes}}, .values = values[s % 4]};
            c.rank[0] = c.rank[1] = shapes[s].rank;
            for (int axis = 0; axis < shapes[s].rank; axis++) {
                c.shape[1][axis] = shapes[s].shape[axis];
                c.shape[0][axis] = shapes[s].axes >> axis & 1 ? 1 : shapes[s].shape[axis];
            }
            if (k == ICL_MAX || k == ICL_ARGMAX)
                c.values = s % 2 ? ICL_VALUES_SPECIAL : ICL_VALUES_INTEGERS;
            add_layouts(b, c, icl_reduce_name(k));
        }
        add_absorbed(b, (icl_reduce_kind)kind);
    }
}

/* ---- Matrix products ---- */

/* out [batch, m, n] = a [a_batch, m, k] b [b_batch, k, n]; a batch of 0 leaves the axis out. */
static void add_product(builder *b, const size_t s[6], double alpha, double beta, icl_values values,
                        bool strict) {
    icl_case c = {.op = strict ? ICL_OP_matmul_strict : ICL_OP_matmul, .values = values};
    const size_t batch = s[0], m = s[1], k = s[2], n = s[3], a_batch = s[4], b_batch = s[5];

    c.params.matmul = (icl_matmul_params){alpha, beta};
    if (batch)
        set_shape(&c, 0, 3, batch, m, n, 0);
    else
        set_shape(&c, 0, 2, m, n, 0, 0);
    if (a_batch)
        set_shape(&c, 1, 3, a_batch, m, k, 0);
    else
        set_shape(&c, 1, 2, m, k, 0, 0);
    if (b_batch)
        set_shape(&c, 2, 3, b_batch, k, n, 0);
    else
        set_shape(&c, 2, 2, k, n, 0, 0);
    add_layouts(b, c, strict ? "matmul_strict" : beta != 0 ? "matmul beta" : "matmul");
}

static void matmul_cases(builder *b) {
    static const size_t shapes[][6] = {
        {0, 1, 1, 1, 0, 0},       {0, 7, 33, 5, 0, 0},      {0, 33, 7, 257, 0, 0},  {0, 64, 64, 64, 0, 0},
        {0, 255, 257, 33, 0, 0},  {0, 1, 512, 257, 0, 0},   {0, 257, 512, 1, 0, 0}, {0, 11, 5003, 11, 0, 0},
        {0, 5003, 11, 11, 0, 0},  {0, 5, 0, 7, 0, 0},       {0, 0, 5, 7, 0, 0},     {19, 21, 11, 11, 19, 0},
        {19, 11, 20, 11, 19, 19}, {19, 21, 11, 1, 19, 19},  {5, 7, 9, 6, 0, 5},     {5, 1, 1, 1, 5, 5},
        {4, 33, 40, 17, 1, 4},    {0, 128, 128, 128, 0, 0}, {3, 17, 16, 16, 3, 1},
    };
    static const icl_values values[] = {ICL_VALUES_RANDOM, ICL_VALUES_CANCELLING, ICL_VALUES_LARGE,
                                        ICL_VALUES_SMALL};
    const size_t count = sizeof shapes / sizeof *shapes;
    for (size_t s = 0; s < count; s++) {
        add_product(b, shapes[s], 1, 0, ICL_VALUES_INTEGERS, false);
        add_product(b, shapes[s], 1, 0, values[s % 4], false);
    }
    for (size_t s = 0; s < count; s++)
        add_product(b, shapes[s], 1, 0, ICL_VALUES_RANDOM, true);
    for (size_t s = 0; s < count; s++) {
        add_product(b, shapes[s], 2, -0.5, ICL_VALUES_INTEGERS, false);
        add_product(b, shapes[s], -0.3, 0.9, ICL_VALUES_RANDOM, false);
    }
    icl_case four = {.op = ICL_OP_matmul, .params = {.matmul = {1, 1}}};
    set_shape(&four, 0, 4, 3, 4, 5, 6);
    set_shape(&four, 1, 4, 3, 1, 5, 9);
    set_shape(&four, 2, 3, 4, 9, 6, 0);
    add_layouts(b, four, "matmul beta");
}

/* ---- Attention ---- */

static void add_attention(builder *b, icl_attention_params params, bool is_backward, const size_t s[5],
                          icl_values values) {
    const size_t batch = s[0], queries = s[1], keys = s[2], d = s[3], e = s[4];
    const bool softmax = params.kind == ICL_ATTENTION_SOFTMAX;
    static const char *const masks[] = {"all", "query-excluded", "causal"};
    char what[64];

    icl_case c = {.op = is_backward ? ICL_OP_attention_backward : ICL_OP_attention_forward,
                  .params = {.attention = params},
                  .values = values};
    const int q = is_backward ? 6 : 2, out = is_backward ? 4 : 0;
    set_shape(&c, out, softmax || !is_backward ? 3 : -1, batch, queries, e, 0);
    set_shape(&c, out + 1, softmax ? 3 : -1, batch, queries, 1, 0);
    set_shape(&c, q, 3, batch, queries, d, 0);
    set_shape(&c, q + 1, 3, batch, keys, d, 0);
    set_shape(&c, q + 2, 3, batch, keys, e, 0);
    if (is_backward) {
        set_shape(&c, 0, 3, batch, queries, d, 0);
        set_shape(&c, 1, 3, batch, keys, d, 0);
        set_shape(&c, 2, 3, batch, keys, e, 0);
        set_shape(&c, 3, 3, batch, queries, e, 0);
    }
    snprintf(what, sizeof what, "%s %s %s", softmax ? "softmax" : "linear",
             is_backward ? "backward" : "forward", masks[params.mask]);
    add_layouts(b, c, what);
}

/* Shapes around the blocks of queries and keys, and of columns, that a softmax pass may work in; and scores so far apart that weights
 * underflow and each key may raise the maximum. */
static void softmax_cases(builder *b, icl_attention_mask mask, bool is_backward) {
    static const size_t shapes[][5] = {
        {1, 33, 34, 2, 1},   {1, 1, 64, 64, 64},    {1, 63, 65, 5, 1},   {2, 64, 63, 64, 5},
        {1, 65, 130, 1, 70}, {1, 130, 64, 70, 1},   {1, 130, 130, 5, 5}, {1, 65, 1, 5, 64},
        {1, 3, 65, 1, 1},    {1, 33, 200, 70, 130},
    };
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        icl_attention_params params = {ICL_ATTENTION_SOFTMAX, mask, 0.25};
        add_attention(b, params, is_backward, shapes[s], ICL_VALUES_RANDOM);
        params.scale = 16;
        add_attention(b, params, is_backward, shapes[s], ICL_VALUES_CANCELLING);
    }
}

static void attention_cases(builder *b) {
    static const size_t shapes[][5] = {
        {1, 1, 1, 1, 1},   {5, 21, 21, 11, 11}, {3, 1, 21, 11, 11}, {2, 33, 7, 5, 3},
        {2, 7, 33, 3, 17}, {1, 65, 130, 33, 9}, {2, 4, 0, 3, 2},    {17, 6, 6, 2, 1},
        {1, 3, 257, 8, 8}, {0, 3, 3, 2, 2},     {1, 9, 9, 40, 70},
    };
    for (int variant = 0; variant < 12; variant++) {
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            const icl_attention_params params = {(icl_attention_kind)(variant / 6),
                                                 (icl_attention_mask)(variant / 2 % 3), s % 2 ? 0.25 : 1};
            add_attention(b, params, variant % 2, shapes[s], ICL_VALUES_RANDOM);
            add_attention(b, params, variant % 2, shapes[s],
                          s % 2 ? ICL_VALUES_INTEGERS : ICL_VALUES_CANCELLING);
        }
        if (variant >= 6)
            softmax_cases(b, (icl_attention_mask)(variant / 2 % 3), variant % 2);
    }
    /* One set of keys and values for the whole batch. */
    for (int softmax = 0; softmax < 2; softmax++) {
        icl_case shared = {.op = ICL_OP_attention_forward,
                           .params = {.attention = {(icl_attention_kind)softmax, ICL_MASK_NONE, 1}}};
        set_shape(&shared, 0, 3, 6, 5, 4, 0);
        set_shape(&shared, 1, softmax ? 3 : -1, 6, 5, 1, 0);
        set_shape(&shared, 2, 3, 6, 5, 3, 0);
        set_shape(&shared, 3, 3, 1, 9, 3, 0);
        set_shape(&shared, 4, 3, 1, 9, 4, 0);
        add_layouts(b, shared, softmax ? "softmax forward shared keys" : "linear forward shared keys");
    }
}

/* ---- Linear transformers ---- */

typedef struct transformer_shape {
    size_t batch, context, size; /* size: D */
    icl_linear_transformer_params params;
    bool is_gram, has_threshold;
    icl_values values;
} transformer_shape;

static void add_transformer(builder *b, const transformer_shape *is, icl_linear_form form,
                            bool has_gradient) {
    static const char *const forms[] = {"full", "diag", "gd++", "sparse", "sparse-b"};
    static const char *const spaces[] = {"tokens", "tokens in gram space", "tokens in token space"};
    const int first = has_gradient ? 3 : 1;
    char what[96];
    icl_case c = {.op = has_gradient ? ICL_OP_linear_transformer_gradient : ICL_OP_linear_transformer_predict,
                  .values = is->values};

    c.params.linear_transformer = is->params;
    c.params.linear_transformer.form = form;
    for (int i = 0; i < ICL_MAX_OPERANDS; i++)
        c.rank[i] = -1;
    const size_t size = icl_linear_transformer_size(&c.params.linear_transformer, is->size - 1);
    set_shape(&c, 0, 1, is->batch, 0, 0, 0);
    set_shape(&c, first, 1, size, 0, 0, 0);
    if (is->is_gram) {
        set_shape(&c, first + 2, 3, is->batch, is->size, is->size, 0);
        set_shape(&c, first + 3, 2, is->batch, is->size, 0, 0);
    } else {
        set_shape(&c, first + 1, 3, is->batch, is->context + 1, is->size, 0);
    }
    if (has_gradient) {
        set_shape(&c, 1, 1, size, 0, 0, 0);
        set_shape(&c, 2, 1, is->batch, 0, 0, 0);
        set_shape(&c, first + 4, 1, is->batch, 0, 0, 0);
        if (is->has_threshold)
            set_shape(&c, first + 5, 1, 1, 0, 0, 0);
    }
    snprintf(what, sizeof what, "linear_transformer_%s %s (depth %zu of %zu, heads %zu, %s)",
             has_gradient ? "gradient" : "predict", forms[form], is->params.depth, is->params.layers,
             is->params.heads, is->is_gram ? "gram" : spaces[is->params.space]);
    add_layouts(b, c, what);
}

static void transformer_cases(builder *b) {
    static const transformer_shape shapes[] = {
        /* batch, n, D, {layers, depth, heads, factor, space}, gram?, threshold?, values */
        {3, 2, 2, {.layers = 1, .depth = 1, .heads = 1, .factor = 1}, false, false, ICL_VALUES_RANDOM},
        {5, 4, 3, {.layers = 2, .depth = 2, .heads = 1, .factor = 0.25}, true, false, ICL_VALUES_INTEGERS},
        {19, 3, 4, {.layers = 3, .depth = 3, .heads = 2, .factor = 1.0 / 3}, false, true, ICL_VALUES_RANDOM},
        {33, 20, 11, {.layers = 3, .depth = 3, .heads = 1, .factor = 0.05}, false, false, ICL_VALUES_RANDOM},
        {7,
         5,
         8,
         {.layers = 4, .depth = 4, .heads = 3, .factor = 0.2, .space = ICL_SPACE_TOKENS},
         false,
         true,
         ICL_VALUES_RANDOM},
        {7,
         5,
         8,
         {.layers = 4, .depth = 4, .heads = 3, .factor = 0.2, .space = ICL_SPACE_GRAM},
         false,
         true,
         ICL_VALUES_RANDOM},
        {17, 0, 21, {.layers = 5, .depth = 4, .heads = 1, .factor = 0.05}, true, true, ICL_VALUES_RANDOM},
        {9,
         7,
         21,
         {.layers = 4, .depth = 3, .heads = 1, .factor = 0.14, .space = ICL_SPACE_TOKENS},
         false,
         false,
         ICL_VALUES_RANDOM},
        {3, 3, 5, {.layers = 5, .depth = 5, .heads = 2, .factor = 0.5}, true, false, ICL_VALUES_RANDOM},
        {301, 2, 3, {.layers = 3, .depth = 3, .heads = 1, .factor = 0.5}, false, true, ICL_VALUES_RANDOM},
        {21, 6, 5, {.layers = 3, .depth = 3, .heads = 1, .factor = 0.16}, false, true, ICL_VALUES_SPECIAL},
        {21, 6, 5, {.layers = 4, .depth = 4, .heads = 2, .factor = 0.16}, true, true, ICL_VALUES_SPECIAL},
        {2, 50, 34, {.layers = 3, .depth = 3, .heads = 1, .factor = 0.02}, false, false, ICL_VALUES_RANDOM},
        {4, 0, 3, {.layers = 3, .depth = 3, .heads = 1, .factor = 1}, false, false, ICL_VALUES_RANDOM},
        /* more tokens than a kernel holds at a time */
        {3, 13, 3, {.layers = 2, .depth = 2, .heads = 1, .factor = 0.08}, false, true, ICL_VALUES_RANDOM},
        {0, 3, 3, {.layers = 2, .depth = 2, .heads = 1, .factor = 1}, false, true, ICL_VALUES_RANDOM},
    };
    for (int has_gradient = 0; has_gradient < 2; has_gradient++)
        for (int form = 0; form < ICL_LINEAR_FORM_COUNT; form++)
            for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
                if (has_gradient || !shapes[s].has_threshold || shapes[s].values == ICL_VALUES_SPECIAL ||
                    shapes[s].is_gram)
                    add_transformer(b, &shapes[s], (icl_linear_form)form, has_gradient);
}

/* ---- Optimizers ---- */

/* norm_rank 0: with a norm; -1: without. */
static void add_states(builder *b, icl_op op, icl_case_params params, int norm_rank, const char *what) {
    static const size_t counts[] = {1, 7, 257, 1000, 4099};
    const int norm = icl_op_infos[op].outputs + icl_op_infos[op].inputs - 1;
    for (size_t s = 0; s < sizeof counts / sizeof *counts; s++) {
        icl_case c = {.op = op, .params = params, .values = s == 3 ? ICL_VALUES_SMALL : ICL_VALUES_RANDOM};
        for (int i = 0; i < norm; i++)
            set_shape(&c, i, 1, counts[s], 0, 0, 0);
        set_shape(&c, norm, norm_rank, 0, 0, 0, 0);
        add_layouts(b, c, what);
    }
}

/* Steps that an infinite norm or NaN forbids: nothing may change. */
static void add_forbidden(builder *b, icl_op op, icl_case_params params, const char *what) {
    const int norm = icl_op_infos[op].outputs + 1;
    icl_case c = {.op = op, .params = params, .values = ICL_VALUES_SPECIAL};
    for (int i = 0; i < norm; i++)
        set_shape(&c, i, 1, 257, 0, 0, 0);
    set_shape(&c, norm, 0, 0, 0, 0, 0);
    add_layouts(b, c, what);
}

/* A threshold that is followed, one that has no value yet, and norms of which some are infinite or NaN. */
static void threshold_cases(builder *b) {
    static const size_t counts[] = {1, 7, 64, 65, 2048};
    static const icl_values values[] = {ICL_VALUES_RANDOM, ICL_VALUES_SPECIAL, ICL_VALUES_LARGE};
    static const double fractions[] = {0.01, 0.5, 1};
    for (size_t s = 0; s < sizeof counts / sizeof *counts; s++)
        for (size_t v = 0; v < sizeof values / sizeof *values; v++)
            for (int first = 0; first < 2; first++) {
                icl_case c = {.op = ICL_OP_track_threshold,
                              .params = {.threshold = {fractions[v], first}},
                              .values = values[v]};
                set_shape(&c, 0, 1, 1, 0, 0, 0);
                set_shape(&c, 1, 1, 1, 0, 0, 0);
                set_shape(&c, 2, 1, counts[s], 0, 0, 0);
                add_layouts(b, c, first ? "first threshold" : "threshold");
            }
}

/* Ends of training steps: {N, B}, with and without threshold, clipped, just as large and free; gradients that forbid a step. */
static void update_cases(builder *b) {
    static const size_t sizes[][2] = {{1, 1}, {65, 64}, {257, 130}, {4099, 2048}, {257, 70}};
    static const double clips[] = {0, 0.25, 1e9};
    for (int kind = 0; kind < ICL_UPDATE_COUNT; kind++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (int follows = 0; follows < 2; follows++) {
                const size_t n = sizes[s][0], batch = sizes[s][1];
                icl_case c = {.op = ICL_OP_update_step,
                              .params = {.update = {.kind = (icl_update_kind)kind,
                                                    .adam = {1e-2, 0.9, 0.99, 1e-8, 0.1, 3},
                                                    .sgd = {0.02, 0.9},
                                                    .clip = clips[(s + (size_t)follows) % 3],
                                                    .fraction = 0.25}},
                              .values = s == 4 ? ICL_VALUES_SPECIAL : ICL_VALUES_RANDOM};
                const size_t extents[9] = {n, n, n, 3, 1, n, batch, batch, batch};
                const bool absent[9] = {[2] = kind == ICL_UPDATE_SGD, [4] = follows == 0, [8] = follows == 0};
                for (int i = 0; i < 9; i++)
                    set_shape(&c, i, absent[i] ? -1 : 1, extents[i], 0, 0, 0);
                add_layouts(b, c, kind == ICL_UPDATE_SGD ? "update sgd" : "update adam");
            }
}

static void optimizer_cases(builder *b) {
    const icl_case_params adam = {.adam = {1e-2, 0.9, 0.99, 1e-8, 0, 1}};
    const icl_case_params decaying = {.adam = {1e-3, 0.9, 0.999, 1e-8, 0.1, 100000}};
    const icl_case_params sgd = {.sgd = {0.02, 0.9}};
    add_states(b, ICL_OP_clip, (icl_case_params){.value = 0.01}, 0, "clip");
    add_states(b, ICL_OP_clip, (icl_case_params){.value = 1e6}, 0, "clip inactive");
    add_states(b, ICL_OP_adam_step, adam, -1, "adam");
    add_states(b, ICL_OP_adam_step, decaying, 0, "adam decay");
    add_forbidden(b, ICL_OP_adam_step, adam, "adam forbidden");
    add_states(b, ICL_OP_sgd_step, sgd, 0, "sgd");
    add_states(b, ICL_OP_sgd_step, (icl_case_params){.sgd = {0.5, 0}}, -1, "sgd plain");
    add_forbidden(b, ICL_OP_sgd_step, sgd, "sgd forbidden");
    threshold_cases(b);
    update_cases(b);
}

icl_status icl_cases_create(uint32_t seed, icl_case **cases, size_t *count, icl_error *error) {
    builder b = {.seed = seed, .error = error};

    *cases = NULL;
    *count = 0;
    elementwise_cases(&b);
    in_place_cases(&b);
    random_cases(&b);
    gram_cases(&b);
    reduce_cases(&b);
    matmul_cases(&b);
    attention_cases(&b);
    transformer_cases(&b);
    optimizer_cases(&b);
    if (b.status != ICL_OK) {
        icl_free(&b.cases);
        return b.status;
    }
    *cases = b.cases;
    *count = b.count;
    return ICL_OK;
}
