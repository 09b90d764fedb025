/*
 * The gradient of every op that a tape records, every element of every parameter.
 *
 * On "ref" against central differences in double. With h = 1e-5 and inputs of order 1, truncation is h^2
 * |f'''| / 6, about 2e-11 |f'''|, and rounding eps F / h, about 2e-11 F, where F sums the absolute values in
 * the loss. With |f'''|, F below 1000 both are below 2e-8, so a bound of 1e-7 (1 + |gradient|) has room, and
 * a wrong formula, sign or factor misses it by orders of magnitude.
 *
 * On any other device against "ref": the same formulas in float. A gradient element here is a sum of at most
 * some hundred products, each with a few roundings of 6e-8, so 2e-5 of the largest element of the gradient
 * (or 1) bounds it.
 */
#include <float.h>
#include <math.h>
#include <stdint.h>

#include "iclab/iclab.h"
#include "tap.h"

#define MAX_INPUTS 3
#define MAX_COUNT  256

typedef struct shape {
    int rank;
    size_t extent[ICL_MAX_RANK];
} shape;

typedef struct gradient_case {
    char name[160];
    icl_variable (*build)(icl_tape *tape, const icl_variable *inputs, const struct gradient_case *c);
    int kind, option;
    unsigned axes;
    bool positive; /* inputs in (0.3, 2) instead of both signs */
    int input_count;
    shape inputs[MAX_INPUTS];
} gradient_case;

typedef struct values {
    float inputs[MAX_INPUTS][MAX_COUNT];
    double gradients[MAX_INPUTS][MAX_COUNT];
} values;

static size_t count_of(const shape *s) {
    size_t count = 1;
    for (int i = 0; i < s->rank; i++)
        count *= s->extent[i];
    return count;
}

/* Numbers of order 1 that stay 0.1 away from 0, where some ops have a kink. */
static float number(uint32_t word, bool positive) {
    const float u = (float)(word >> 8) * 0x1p-24f;
    if (positive)
        return 0.3f + 1.7f * u;
    return u < 0.5f ? -2.0f + 3.8f * u : 0.1f + 3.8f * (u - 0.5f);
}

static void fill_inputs(const gradient_case *c, values *v) {
    for (int i = 0; i < c->input_count; i++)
        for (size_t j = 0; j < count_of(&c->inputs[i]); j++)
            v->inputs[i][j] = number(
                icl_random_word((icl_random_key){.seed = 7, .stream = (uint32_t)i, .step = (uint64_t)c->kind}, j),
                c->positive);
}

/* A scalar that depends on every element of `out` with another weight. */
static icl_variable weigh(icl_tape *tape, icl_variable out, icl_tensor weights) {
    const icl_tensor value = icl_tape_value(tape, out);
    if (!value.buffer)
        return out;
    const icl_tensor part =
        icl_tensor_reshape(icl_tensor_slice(weights, 0, 0, icl_tensor_count(&value)), value.rank, value.shape);
    const icl_variable weighted = icl_tape_binary(tape, ICL_MULTIPLY, out, icl_tape_constant(tape, part));
    return icl_tape_reduce(tape, ICL_SUM, (1u << value.rank) - 1, weighted);
}

typedef struct machine {
    icl_backend *backend;
    icl_tape *tape;
    icl_tensor inputs[MAX_INPUTS], gradients[MAX_INPUTS], weights;
} machine;

static icl_status machine_open(machine *m, const gradient_case *c, icl_error *error) {
    const size_t weights = 4 * MAX_COUNT;
    float host[4 * MAX_COUNT];
    icl_status status = icl_tape_create(m->backend, &m->tape, error);

    for (size_t i = 0; i < weights; i++)
        host[i] = number(icl_random_word((icl_random_key){.seed = 99}, i), false);
    for (int i = 0; status == ICL_OK && i < c->input_count; i++) {
        status = icl_tensor_create(m->backend, c->inputs[i].rank, c->inputs[i].extent, &m->inputs[i], error);
        if (status == ICL_OK)
            status = icl_tensor_create(m->backend, c->inputs[i].rank, c->inputs[i].extent, &m->gradients[i], error);
    }
    if (status == ICL_OK)
        status = icl_tensor_create(m->backend, 1, &weights, &m->weights, error);
    return status == ICL_OK ? icl_tensor_write(m->weights, host, error) : status;
}

static void machine_close(machine *m) {
    icl_tape_destroy(&m->tape);
    for (int i = 0; i < MAX_INPUTS; i++) {
        icl_tensor_release(&m->inputs[i]);
        icl_tensor_release(&m->gradients[i]);
    }
    icl_tensor_release(&m->weights);
}

static icl_status evaluate(machine *m, const gradient_case *c, bool backward, double *loss, icl_error *error) {
    icl_variable inputs[MAX_INPUTS];
    icl_variable out;
    icl_status status;

    icl_tape_reset(m->tape);
    for (int i = 0; i < c->input_count; i++)
        inputs[i] = backward ? icl_tape_parameter(m->tape, m->inputs[i], m->gradients[i])
                             : icl_tape_constant(m->tape, m->inputs[i]);
    out = weigh(m->tape, c->build(m->tape, inputs, c), m->weights);
    status = icl_tape_status(m->tape, error);
    if (status == ICL_OK && backward)
        status = icl_tape_backward(m->tape, out, error);
    return status == ICL_OK ? icl_tensor_read_double(icl_tape_value(m->tape, out), loss, error) : status;
}

/* The tape's gradients; the tensors start as NaN, so that an element that is not written shows. */
static icl_status gradients_on(icl_backend *backend, const gradient_case *c, values *v, icl_error *error) {
    machine m = {.backend = backend};
    double loss;
    icl_status status = machine_open(&m, c, error);

    for (int i = 0; status == ICL_OK && i < c->input_count; i++) {
        status = icl_tensor_write(m.inputs[i], v->inputs[i], error);
        if (status == ICL_OK)
            status = icl_fill(backend, m.gradients[i], (double)NAN, error);
    }
    if (status == ICL_OK)
        status = evaluate(&m, c, true, &loss, error);
    for (int i = 0; status == ICL_OK && i < c->input_count; i++)
        status = icl_tensor_read_double(m.gradients[i], v->gradients[i], error);
    machine_close(&m);
    return status;
}

static icl_status differences_on(icl_backend *backend, const gradient_case *c, values *v, icl_error *error) {
    const double h = 1e-5;
    machine m = {.backend = backend};
    double point[MAX_COUNT];
    icl_status status = machine_open(&m, c, error);

    for (int i = 0; status == ICL_OK && i < c->input_count; i++)
        status = icl_tensor_write(m.inputs[i], v->inputs[i], error);
    for (int i = 0; status == ICL_OK && i < c->input_count; i++) {
        const size_t count = count_of(&c->inputs[i]);
        for (size_t j = 0; j < count; j++)
            point[j] = (double)v->inputs[i][j];
        for (size_t j = 0; status == ICL_OK && j < count; j++) {
            double loss[2] = {0};
            for (int side = 0; status == ICL_OK && side < 2; side++) {
                point[j] = (double)v->inputs[i][j] + (side ? h : -h);
                status = icl_tensor_write_double(m.inputs[i], point, error);
                if (status == ICL_OK)
                    status = evaluate(&m, c, false, &loss[side], error);
            }
            point[j] = (double)v->inputs[i][j];
            v->gradients[i][j] = (loss[1] - loss[0]) / (2.0 * h);
        }
        if (status == ICL_OK)
            status = icl_tensor_write(m.inputs[i], v->inputs[i], error);
    }
    machine_close(&m);
    return status;
}

/* Largest deviation in units of what is allowed. */
static double deviation(const gradient_case *c, const values *seen, const values *expected, bool is_ref) {
    double worst = 0.0;
    for (int i = 0; i < c->input_count; i++) {
        double largest = 1.0;
        for (size_t j = 0; j < count_of(&c->inputs[i]); j++)
            largest = fmax(largest, fabs(expected->gradients[i][j]));
        for (size_t j = 0; j < count_of(&c->inputs[i]); j++) {
            const double allowed = is_ref ? 1e-7 * (1.0 + fabs(expected->gradients[i][j])) : 2e-5 * largest;
            const double ratio = fabs(seen->gradients[i][j] - expected->gradients[i][j]) / allowed;
            worst = isnan(ratio) ? HUGE_VAL : fmax(worst, ratio);
        }
    }
    return worst;
}

typedef struct bench {
    tap_run tap;
    icl_backend *device, *ref; /* the same where the device is "ref" */
} bench;

static void check(bench *b, const gradient_case *c) {
    static values seen, expected;
    const size_t live = icl_backend_get_statistics(b->device).bytes_live;
    const bool is_ref = b->device == b->ref;
    icl_error error = {0};
    icl_status status;
    double worst;

    fill_inputs(c, &seen);
    fill_inputs(c, &expected);
    status = gradients_on(b->device, c, &seen, &error);
    if (status == ICL_OK)
        status = is_ref ? differences_on(b->ref, c, &expected, &error) : gradients_on(b->ref, c, &expected, &error);
    if (status != ICL_OK) {
        tap_note("%s", error.message);
        tap_ok(&b->tap, false, "%s", c->name);
        return;
    }
    worst = deviation(c, &seen, &expected, is_ref);
    if (worst > 1.0)
        for (int i = 0; i < c->input_count; i++)
            for (size_t j = 0; j < count_of(&c->inputs[i]) && j < 8; j++)
                tap_note("input %d[%zu]: %.9g, expected %.9g", i, j, seen.gradients[i][j], expected.gradients[i][j]);
    tap_ok(&b->tap, worst <= 1.0 && icl_backend_get_statistics(b->device).bytes_live == live,
           "%s: deviation over bound %.2g", c->name, worst);
}

static void describe(gradient_case *c, const char *what) {
    size_t used = (size_t)snprintf(c->name, sizeof c->name, "%s", what);
    for (int i = 0; i < c->input_count && used < sizeof c->name; i++) {
        used += (size_t)snprintf(c->name + used, sizeof c->name - used, " [");
        for (int j = 0; j < c->inputs[i].rank && used < sizeof c->name; j++)
            used +=
                (size_t)snprintf(c->name + used, sizeof c->name - used, j ? ", %zu" : "%zu", c->inputs[i].extent[j]);
        if (used < sizeof c->name)
            used += (size_t)snprintf(c->name + used, sizeof c->name - used, "]");
    }
}

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

static const shape unary_shapes[] = {{0, {0}}, {1, {5}}, {2, {3, 4}}, {4, {2, 3, 1, 2}}, {2, {0, 4}}};
static const shape binary_shapes[][2] = {
    {{2, {3, 4}}, {2, {3, 4}}},    {{2, {3, 4}}, {2, {1, 4}}},          {{2, {3, 1}}, {2, {1, 4}}},
    {{3, {2, 3, 4}}, {1, {4}}},    {{1, {3}}, {3, {2, 2, 3}}},          {{0, {0}}, {2, {2, 3}}},
    {{3, {2, 1, 4}}, {2, {3, 1}}}, {{4, {2, 1, 3, 1}}, {3, {2, 1, 2}}}, {{2, {0, 3}}, {1, {3}}},
};

static void check_elementwise(bench *b) {
    gradient_case c;
    char what[64];

    for (int kind = 0; kind < ICL_UNARY_COUNT; kind++) {
        const bool positive = kind == ICL_SQUARE_ROOT || kind == ICL_LOGARITHM;
        for (size_t i = 0; i < sizeof unary_shapes / sizeof *unary_shapes; i++) {
            c = (gradient_case){.build = build_unary, .kind = kind, .positive = positive, .input_count = 1};
            c.inputs[0] = unary_shapes[i];
            describe(&c, icl_unary_name((icl_unary_kind)kind));
            check(b, &c);
        }
        c = (gradient_case){.build = build_unary_of_slice, .kind = kind, .positive = positive, .input_count = 1};
        c.inputs[0] = (shape){2, {3, 4}};
        snprintf(what, sizeof what, "%s of a slice", icl_unary_name((icl_unary_kind)kind));
        describe(&c, what);
        check(b, &c);
    }
    for (size_t i = 0; i < sizeof binary_shapes / sizeof *binary_shapes; i++) {
        for (int kind = 0; kind < ICL_BINARY_COUNT; kind++) {
            c = (gradient_case){.build = build_binary, .kind = kind, .input_count = 2};
            memcpy(c.inputs, binary_shapes[i], sizeof binary_shapes[i]);
            describe(&c, icl_binary_name((icl_binary_kind)kind));
            check(b, &c);
        }
        for (int option = 0; option < 4; option++) {
            c = (gradient_case){.build = build_scale_add, .option = option, .input_count = 2};
            memcpy(c.inputs, binary_shapes[i], sizeof binary_shapes[i]);
            snprintf(what, sizeof what, "scale_add %d", option);
            describe(&c, what);
            check(b, &c);
        }
    }
    for (int kind = 0; kind <= ICL_DIVIDE; kind++) {
        c = (gradient_case){.build = build_binary, .kind = kind, .input_count = 1, .inputs = {{2, {2, 3}}}};
        snprintf(what, sizeof what, "%s with itself", icl_binary_name((icl_binary_kind)kind));
        describe(&c, what);
        check(b, &c);
    }
    for (int option = 0; option < 2; option++) {
        c = (gradient_case){.build = build_scale, .option = option, .input_count = 1, .inputs = {{2, {2, 3}}}};
        describe(&c, "scale");
        check(b, &c);
    }
}

/* ---- Reductions ---- */

static icl_variable build_reduce(icl_tape *tape, const icl_variable *inputs, const gradient_case *c) {
    return icl_tape_reduce(tape, (icl_reduce_kind)c->kind, c->axes, inputs[0]);
}

static void check_reductions(bench *b) {
    static const shape shapes[] = {{0, {0}}, {1, {7}}, {3, {2, 3, 4}}, {4, {2, 1, 3, 2}}, {2, {0, 3}}};
    char what[64];

    for (int kind = 0; kind < ICL_REDUCE_COUNT; kind++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            for (unsigned axes = 0; axes < 1u << shapes[i].rank; axes++) {
                gradient_case c = {.build = build_reduce, .kind = kind, .axes = axes, .input_count = 1};
                c.inputs[0] = shapes[i];
                if (count_of(&shapes[i]) == 0 && kind != ICL_SUM && kind != ICL_SUM_OF_SQUARES && kind != ICL_NORM)
                    continue; /* the values are NaN and infinity, which no difference can be taken of */
                snprintf(what, sizeof what, "%s over axes 0x%x", icl_reduce_name((icl_reduce_kind)kind), axes);
                describe(&c, what);
                check(b, &c);
            }
}

/* ---- Matrix products ---- */

enum { PLAIN, TRANSPOSED, ROWS_OF_A, COLUMNS_OF_B, INNER_SWAP };

static icl_variable build_matmul(icl_tape *tape, const icl_variable *inputs, const gradient_case *c) {
    icl_variable a = inputs[0], b = inputs[c->input_count - 1];
    const int rank_a = c->inputs[0].rank, rank_b = c->inputs[c->input_count - 1].rank;

    if (c->option == TRANSPOSED) {
        a = icl_tape_swap_axes(tape, a, rank_a - 1, rank_a - 2);
        b = icl_tape_swap_axes(tape, b, rank_b - 1, rank_b - 2);
    } else if (c->option == ROWS_OF_A) {
        a = icl_tape_slice(tape, a, rank_a - 2, 1, c->inputs[0].extent[rank_a - 2] - 1);
    } else if (c->option == COLUMNS_OF_B) {
        b = icl_tape_slice(tape, b, rank_b - 1, 0, 2);
    } else if (c->option == INNER_SWAP) {
        a = icl_tape_swap_axes(tape, a, 0, 1);
    }
    return icl_tape_matmul(tape, -1.5, a, b);
}

static void check_matmul(bench *b) {
    static const struct {
        int option, count;
        shape inputs[2];
    } products[] = {
        {PLAIN, 2, {{2, {3, 4}}, {2, {4, 2}}}},
        {PLAIN, 2, {{3, {5, 3, 4}}, {2, {4, 2}}}},          /* shared b */
        {PLAIN, 2, {{3, {5, 3, 4}}, {3, {1, 4, 2}}}},       /* shared b of rank 3 */
        {PLAIN, 2, {{2, {3, 4}}, {3, {5, 4, 2}}}},          /* shared a */
        {PLAIN, 2, {{3, {5, 3, 4}}, {3, {5, 4, 2}}}},       /* batched */
        {PLAIN, 2, {{4, {2, 1, 3, 4}}, {4, {2, 3, 4, 2}}}}, /* a repeats along one leading axis */
        {PLAIN, 2, {{4, {2, 3, 2, 4}}, {3, {1, 4, 2}}}},
        {PLAIN, 2, {{4, {2, 1, 2, 3}}, {4, {1, 3, 3, 2}}}}, /* both repeat */
        {PLAIN, 1, {{2, {3, 3}}}},                          /* a times itself */
        {PLAIN, 1, {{3, {2, 3, 3}}}},
        {TRANSPOSED, 2, {{2, {4, 3}}, {2, {2, 4}}}},
        {TRANSPOSED, 2, {{3, {5, 4, 3}}, {2, {2, 4}}}},
        {TRANSPOSED, 2, {{3, {5, 4, 3}}, {3, {5, 2, 4}}}},
        {TRANSPOSED, 1, {{3, {2, 3, 3}}}},
        {ROWS_OF_A, 2, {{3, {4, 3, 4}}, {2, {4, 2}}}}, /* rows that do not fold */
        {ROWS_OF_A, 2, {{3, {4, 2, 4}}, {2, {4, 2}}}}, /* one row each, which do */
        {COLUMNS_OF_B, 2, {{3, {4, 3, 4}}, {2, {4, 3}}}},
        {COLUMNS_OF_B, 2, {{3, {4, 3, 4}}, {3, {4, 4, 3}}}},
        {INNER_SWAP, 2, {{3, {2, 4, 3}}, {2, {3, 2}}}},
        {PLAIN, 2, {{2, {3, 0}}, {2, {0, 2}}}},
        {PLAIN, 2, {{3, {0, 3, 4}}, {2, {4, 2}}}},
        {PLAIN, 2, {{2, {0, 4}}, {2, {4, 2}}}},
        {PLAIN, 2, {{2, {1, 1}}, {2, {1, 1}}}},
    };
    char what[64];

    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        gradient_case c = {.build = build_matmul, .option = products[i].option, .input_count = products[i].count};
        memcpy(c.inputs, products[i].inputs, sizeof products[i].inputs);
        snprintf(what, sizeof what, "matmul (view %d)", products[i].option);
        describe(&c, what);
        check(b, &c);
    }
}

/* ---- Attention ---- */

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

static void check_attention(bench *b) {
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
                describe(&c, what);
                check(b, &c);
            }
            c = (gradient_case){.build = build_attention_slices, .kind = kind, .option = mask, .input_count = 1};
            c.inputs[0] = (shape){3, {2, 4, 3}};
            snprintf(what, sizeof what, "%s attention over slices, mask %s", kinds[kind], masks[mask]);
            describe(&c, what);
            check(b, &c);
            c = (gradient_case){.build = build_attention_query, .kind = kind, .option = mask, .input_count = 1};
            c.inputs[0] = (shape){3, {2, 2, 3}};
            snprintf(what, sizeof what, "%s attention, gradient of q alone, mask %s", kinds[kind], masks[mask]);
            describe(&c, what);
            check(b, &c);
        }
}

/* ---- Losses ---- */

/* Targets are what the loss takes: classes 0, 1, 2, 0, …; ones and zeros; any numbers. option: with weights. */
static icl_variable build_loss(icl_tape *tape, const icl_variable *inputs, const gradient_case *c) {
    const size_t *extent = c->inputs[0].extent;
    const icl_loss_kind kind = (icl_loss_kind)c->kind;
    const size_t width = icl_loss_target_size(kind, extent[2]), count = extent[0] * extent[1];
    const size_t of_targets[] = {extent[0], extent[1], width}, of_weights[] = {extent[0], extent[1], 1};
    const icl_variable targets = icl_tape_filled(tape, 3, of_targets, 0.0),
                       weights = icl_tape_filled(tape, 3, of_weights, 0.0);
    const icl_tensor y = icl_tape_value(tape, targets), w = icl_tape_value(tape, weights);
    float numbers[MAX_COUNT];

    for (size_t i = 0; i < count * width; i++)
        numbers[i] = kind == ICL_LOSS_CROSS_ENTROPY ? (float)(i % extent[2]) : (float)(i % 2);
    if (!y.buffer || !w.buffer || icl_tensor_write(y, numbers, NULL) != ICL_OK)
        return (icl_variable){-1};
    for (size_t i = 0; i < count; i++)
        numbers[i] = 0.5F * (float)(i % 3);
    if (icl_tensor_write(w, numbers, NULL) != ICL_OK)
        return (icl_variable){-1};
    return icl_tape_loss(tape, kind, inputs[0], y, c->option ? w : (icl_tensor){0});
}

static void check_losses(bench *b) {
    for (int kind = 0; kind < ICL_LOSS_COUNT; kind++)
        for (int option = 0; option < 2; option++)
            for (size_t positions = 1; positions < 4; positions += 2) {
                gradient_case c = {.build = build_loss, .kind = kind, .option = option, .input_count = 1};
                c.inputs[0] = (shape){3, {4, positions, 3}};
                describe(&c, icl_loss_name((icl_loss_kind)kind));
                check(b, &c);
            }
}

/* The tape's losses against those of the host, and these against numbers worked out by hand. */
static void check_loss_values(bench *b) {
    enum { COUNT = 3 };
    static const double outputs[COUNT] = {1.5, -0.25, 40},
                        targets[ICL_LOSS_COUNT][COUNT] = {{1, 0.25, 39.5}, {1}, {1, 0, 1}};
    /* 0.25 + 0.25 + 0.25; 40 + 0.25 + log(1 + e^-38.5 + e^-40.25); log(1 + e^-1.5) + log(1 + e^-0.25)
     * + log(1 + e^-40) */
    static const double expected[ICL_LOSS_COUNT] = {0.75, 40.25, 0.777352697861596};
    static const double accuracy[ICL_LOSS_COUNT] = {0, 0, 1};
    const size_t of_outputs[] = {1, 1, COUNT};
    const bool is_double = icl_backend_capabilities(b->device)->element_size == sizeof(double);
    icl_tape *tape = NULL;
    icl_error error = {0};

    if (!tap_status(&b->tap, icl_tape_create(b->device, &tape, &error), &error, "create a tape"))
        return;
    for (int kind = 0; kind < ICL_LOSS_COUNT; kind++) {
        const icl_loss_kind loss = (icl_loss_kind)kind;
        const size_t of_target[] = {1, 1, icl_loss_target_size(loss, COUNT)};
        const icl_variable z = icl_tape_filled(tape, 3, of_outputs, 0), y = icl_tape_filled(tape, 3, of_target, 0);
        const double host = icl_loss_of(loss, COUNT, outputs, targets[kind]);
        double seen = (double)NAN;
        icl_status status = icl_tensor_write_double(icl_tape_value(tape, z), outputs, &error);

        if (status == ICL_OK)
            status = icl_tensor_write_double(icl_tape_value(tape, y), targets[kind], &error);
        const icl_variable each = icl_tape_loss(tape, loss, z, icl_tape_value(tape, y), (icl_tensor){0});
        if (status == ICL_OK)
            status = icl_tensor_read_double(icl_tape_value(tape, each), &seen, &error);
        tap_ok(&b->tap,
               status == ICL_OK && fabs(host - expected[kind]) < 1e-13 * expected[kind] &&
                   fabs(seen - host) < (is_double ? 1e-14 : 1e-6) * host,
               "%s is %.15g on the host, %.15g on the tape, expected %.15g", icl_loss_name(loss), host, seen,
               expected[kind]);
        if (icl_loss_has_accuracy(loss))
            tap_ok(&b->tap, icl_loss_accuracy(loss, COUNT, outputs, targets[kind]) == accuracy[kind],
                   "the accuracy of %s", icl_loss_name(loss));
        icl_tape_reset(tape);
    }
    tap_ok(&b->tap,
           isnan(icl_loss_of(ICL_LOSS_CROSS_ENTROPY, COUNT, outputs, (const double[]){3})) &&
               isnan(icl_loss_of(ICL_LOSS_CROSS_ENTROPY, COUNT, outputs, (const double[]){0.5})),
           "what is no class has no loss");
    icl_tape_destroy(&tape);
}

/* ---- Views and how gradients share buffers ---- */

static icl_variable build_overlapping_slices(icl_tape *tape, const icl_variable *x, const gradient_case *c) {
    (void)c;
    return icl_tape_binary(tape, ICL_MULTIPLY, icl_tape_slice(tape, x[0], 0, 0, 3),
                           icl_tape_slice(tape, x[0], 0, 1, 3));
}

static icl_variable build_view_of_view(icl_tape *tape, const icl_variable *x, const gradient_case *c) {
    const size_t flat = 8;
    const icl_variable square = icl_tape_unary(tape, ICL_SQUARE, x[0]);
    const icl_variable rows = icl_tape_slice(tape, square, 0, 1, 2);
    (void)c;
    return icl_tape_binary(tape, ICL_MULTIPLY, icl_tape_reshape(tape, rows, 1, &flat),
                           icl_tape_slice(tape, icl_tape_reshape(tape, x[0], 1, (const size_t[]){12}), 0, 4, 8));
}

static icl_variable build_swapped(icl_tape *tape, const icl_variable *x, const gradient_case *c) {
    const icl_variable swapped = icl_tape_swap_axes(tape, x[0], 0, 2);
    (void)c;
    return icl_tape_binary(tape, ICL_MULTIPLY, icl_tape_slice(tape, swapped, 2, 0, 1), swapped);
}

static icl_variable build_place(icl_tape *tape, const icl_variable *x, const gradient_case *c) {
    (void)c;
    return icl_tape_place(tape, x[0], x[1], (const size_t[]){1, 2});
}

static icl_variable build_place_twice(icl_tape *tape, const icl_variable *x, const gradient_case *c) {
    const icl_variable once =
        icl_tape_place(tape, icl_tape_filled(tape, 2, (const size_t[]){3, 5}, 0.5), x[1], (const size_t[]){0, 0});
    const icl_variable twice =
        icl_tape_place(tape, once, icl_tape_unary(tape, ICL_SQUARE, x[1]), (const size_t[]){1, 1});
    (void)c;
    return icl_tape_binary(tape, ICL_MULTIPLY, twice, x[0]);
}

/* Both terms of a sum use one gradient buffer; a consumer in between then adds to one of them. */
static icl_variable build_shared_sum(icl_tape *tape, const icl_variable *x, const gradient_case *c) {
    const icl_variable u = icl_tape_unary(tape, ICL_HYPERBOLIC_TANGENT, x[0]);
    const icl_variable v = icl_tape_unary(tape, ICL_SQUARE, x[0]);
    const icl_variable product = icl_tape_binary(tape, ICL_MULTIPLY, u, v);
    const icl_variable sum = icl_tape_binary(tape, ICL_ADD, u, v);
    const icl_variable more = icl_tape_binary(tape, ICL_ADD, sum, sum);
    (void)c;
    return icl_tape_binary(tape, ICL_ADD, icl_tape_binary(tape, ICL_MULTIPLY, more, product), sum);
}

/* The residual stream of a transformer: every layer's sum passes its gradient on, and adds to it. */
static icl_variable build_residual(icl_tape *tape, const icl_variable *x, const gradient_case *c) {
    icl_variable z = x[0];
    (void)c;
    for (int layer = 0; layer < 3; layer++) {
        const icl_variable mixed = icl_tape_matmul(tape, 0.3, z, x[1]);
        z = icl_tape_binary(tape, ICL_ADD, z, icl_tape_binary(tape, ICL_MULTIPLY, mixed, z));
    }
    return z;
}

static icl_variable build_unused(icl_tape *tape, const icl_variable *x, const gradient_case *c) {
    const icl_variable dead = icl_tape_unary(tape, ICL_EXPONENTIAL, x[1]);
    (void)dead;
    (void)c;
    return icl_tape_unary(tape, ICL_SQUARE, x[0]);
}

static icl_variable build_identity(icl_tape *tape, const icl_variable *x, const gradient_case *c) {
    (void)tape;
    (void)c;
    return x[0];
}

static void check_views(bench *b) {
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
        check(b, &cases[i]);
}

int main(int argc, char **argv) {
    bench b = {0};
    icl_error error = {0};
    const char *spec = argc > 1 ? argv[1] : "ref";

    b.device = tap_open_device(&b.tap, spec);
    if (!b.device)
        return tap_done(&b.tap);
    b.ref = b.device;
    if (icl_backend_capabilities(b.device)->element_size != sizeof(double) &&
        !tap_status(&b.tap, icl_backend_open(&(icl_backend_params){.spec = "ref"}, &b.ref, &error), &error,
                    "open ref")) {
        icl_backend_close(&b.device);
        return tap_done(&b.tap);
    }
    check_elementwise(&b);
    check_reductions(&b);
    check_matmul(&b);
    check_attention(&b);
    check_losses(&b);
    check_loss_values(&b);
    check_views(&b);
    if (b.ref != b.device)
        icl_backend_close(&b.ref);
    icl_backend_close(&b.device);
    return tap_done(&b.tap);
}
