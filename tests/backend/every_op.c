#include "every_op.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "iclab/status.h"

#define MAX_TENSORS 96

typedef struct run {
    icl_backend *backend;
    op_results *results;
    icl_tensor made[MAX_TENSORS];
    size_t made_count;
    uint32_t stream;
    icl_error *error;
} run;

static icl_status make(run *r, int rank, const size_t *shape, icl_tensor *tensor) {
    icl_status status = icl_tensor_create(r->backend, rank, shape, tensor, r->error);
    if (status == ICL_OK)
        r->made[r->made_count++] = *tensor;
    return status;
}

/* A tensor that a run needs. */
typedef struct wanted {
    icl_tensor *tensor;
    int rank;
    size_t shape[3];
} wanted;

static icl_status make_all(run *r, const wanted *all, size_t count) {
    icl_status status = ICL_OK;
    for (size_t i = 0; i < count && status == ICL_OK; i++)
        status = make(r, all[i].rank, all[i].shape, all[i].tensor);
    return status;
}

/* Normals, the same ones whenever the calls come in the same order. */
static icl_status make_input(run *r, int rank, const size_t *shape, icl_tensor *tensor) {
    const icl_random_params params = {.key = {7, r->stream++, 1}, .first_index = 3, .distribution = ICL_NORMAL};
    icl_status status = ICL_OK;
    ICL_TRY(make(r, rank, shape, tensor));
    ICL_TRY(icl_random_fill(r->backend, &params, *tensor, r->error));
done:
    return status;
}

static icl_status make_inputs(run *r, const wanted *all, size_t count) {
    icl_status status = ICL_OK;
    for (size_t i = 0; i < count && status == ICL_OK; i++)
        status = make_input(r, all[i].rank, all[i].shape, all[i].tensor);
    return status;
}

static void release_all(run *r) {
    while (r->made_count > 0)
        icl_tensor_release(&r->made[--r->made_count]);
}

ICL_PRINTF(3, 4) static icl_status keep(run *r, icl_tensor tensor, const char *format, ...) {
    if (r->results->count == MAX_RESULTS)
        return icl_fail(r->error, ICL_ERROR_INPUT, "more than %d results", MAX_RESULTS);
    op_result *result = &r->results->result[r->results->count++];
    va_list arguments;
    va_start(arguments, format);
    /* clang-tidy 14 no longer sees va_start where a file is compiled a second time.
     * NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized) */
    vsnprintf(result->name, sizeof result->name, format, arguments);
    va_end(arguments);
    result->count = icl_tensor_count(&tensor);
    result->values = malloc((result->count + 1) * sizeof *result->values);
    if (!result->values)
        return icl_fail(r->error, ICL_ERROR_MEMORY, "no memory for a result");
    return icl_tensor_read_double(tensor, result->values, r->error);
}

typedef struct named {
    const char *name;
    icl_tensor tensor;
} named;

/* What one call wrote. */
static icl_status keep_all(run *r, const char *title, const named *all, size_t count) {
    icl_status status = ICL_OK;
    for (size_t i = 0; i < count && status == ICL_OK; i++)
        status = keep(r, all[i].tensor, "%s: %s", title, all[i].name);
    return status;
}

static icl_status run_random(run *r) {
    icl_status status = ICL_OK;
    icl_tensor whole, view;
    ICL_TRY(make(r, 2, (size_t[]){401, 130}, &whole));
    for (int kind = ICL_UNIFORM; kind <= ICL_CHOICE; kind++) {
        const icl_random_params params = {.key = {5, 6, (uint64_t)1 << 40},
                                          .first_index = ((uint64_t)1 << 34) - 777,
                                          .distribution = (icl_distribution)kind,
                                          .low = -1,
                                          .high = 2,
                                          .choice_count = 3,
                                          .choices = {1, 3, 5}};
        ICL_TRY(icl_random_fill(r->backend, &params, whole, r->error));
        ICL_TRY(keep(r, whole, "random %d", kind));
        ICL_TRY(icl_fill(r->backend, whole, 0.1, r->error));
        view = icl_tensor_swap_axes(icl_tensor_slice(whole, 1, 1, 99), 0, 1);
        ICL_TRY(icl_random_fill(r->backend, &params, view, r->error));
        ICL_TRY(keep(r, whole, "random %d into a view", kind));
    }
done:
    release_all(r);
    return status;
}

/* The table's values are of no matter: any polynomials do. */
static icl_status run_gram_case(run *r, const size_t sizes[3], bool has_roots) {
    const size_t batch = sizes[0], d = sizes[1], n = sizes[2];
    const icl_gram_params params = {
        .key = {5, 6, (uint64_t)1 << 40}, .context = n, .noise_level = {.distribution = ICL_UNIFORM, .high = 2}};
    icl_tensor gram, query, targets, weights, noise, chi, roots = {0};
    const wanted outputs[] = {{&gram, 3, {batch, d + 1, d + 1}},
                              {&query, 2, {batch, d + 1}},
                              {&targets, 1, {batch}},
                              {&weights, 2, {batch, d}},
                              {&noise, 1, {batch}}};
    char title[48];
    icl_status status = ICL_OK;
    ICL_TRY(make_all(r, outputs, sizeof outputs / sizeof *outputs));
    ICL_TRY(make_input(r, 3, (size_t[]){d + 1, ICL_CHI_PIECES, ICL_CHI_TERMS}, &chi));
    if (has_roots)
        ICL_TRY(make_input(r, 3, (size_t[]){2, d, d}, &roots));
    ICL_TRY(icl_gram_sample(r->backend, &params, gram, query, targets, weights, noise, chi, roots, r->error));
    const named results[] = {
        {"gram", gram}, {"query", query}, {"targets", targets}, {"weights", weights}, {"noise", noise}};
    snprintf(title, sizeof title, "gram_sample of %zu x %zu", d, n);
    ICL_TRY(keep_all(r, title, results, sizeof results / sizeof *results));
done:
    release_all(r);
    return status;
}

static icl_status run_gram(run *r) {
    static const size_t sizes[][3] = {{2017, 20, 50}, {301, 7, 4}, {33, 1, 9}};
    icl_status status = ICL_OK;
    for (size_t i = 0; i < 6; i++)
        ICL_TRY(run_gram_case(r, sizes[i / 2], i % 2 == 1));
done:
    return status;
}

static icl_status run_spherical(run *r) {
    static const size_t sizes[][3] = {{257, 21, 20}, {33, 1, 5}, {1, 9, 1}};
    icl_status status = ICL_OK;
    for (size_t i = 0; i < 6; i++) {
        const size_t *size = sizes[i / 2];
        icl_tensor in, normals = {0}, table = {0};
        ICL_TRY(make_input(r, 3, size, &in));
        if (i % 2 == 1) {
            ICL_TRY(make_input(r, 3, (size_t[]){size[0], size[1], 1}, &normals));
            ICL_TRY(make_input(r, 2, (size_t[]){ICL_CHI_PIECES, ICL_CHI_TERMS}, &table));
        }
        ICL_TRY(icl_spherical(r->backend, in, in, normals, table, r->error));
        ICL_TRY(keep(r, in, "spherical [%zu, %zu, %zu]", size[0], size[1], size[2]));
        release_all(r);
    }
done:
    release_all(r);
    return status;
}

static icl_status run_elementwise(run *r) {
    icl_status status = ICL_OK;
    icl_tensor a, b, row, out;
    const wanted inputs[] = {{&a, 2, {4001, 23}}, {&b, 2, {4001, 23}}, {&row, 2, {1, 23}}};
    ICL_TRY(make_inputs(r, inputs, sizeof inputs / sizeof *inputs));
    ICL_TRY(make(r, 2, (size_t[]){4001, 23}, &out));
    for (int kind = 0; kind < ICL_UNARY_COUNT; kind++) {
        ICL_TRY(icl_unary(r->backend, (icl_unary_kind)kind, out, a, r->error));
        ICL_TRY(keep(r, out, "%s", icl_unary_name((icl_unary_kind)kind)));
    }
    for (int kind = 0; kind < ICL_BINARY_COUNT; kind++) {
        ICL_TRY(icl_binary(r->backend, (icl_binary_kind)kind, out, a, b, r->error));
        ICL_TRY(keep(r, out, "%s", icl_binary_name((icl_binary_kind)kind)));
        ICL_TRY(icl_binary(r->backend, (icl_binary_kind)kind, out, row, b, r->error));
        ICL_TRY(keep(r, out, "%s of a row", icl_binary_name((icl_binary_kind)kind)));
    }
done:
    release_all(r);
    return status;
}

static icl_status run_scalings(run *r) {
    icl_status status = ICL_OK;
    icl_tensor a, b, out;
    const wanted inputs[] = {{&a, 2, {4001, 23}}, {&b, 2, {4001, 23}}};
    ICL_TRY(make_inputs(r, inputs, sizeof inputs / sizeof *inputs));
    ICL_TRY(make(r, 2, (size_t[]){4001, 23}, &out));
    ICL_TRY(icl_scale_add(r->backend, out, 0.1, a, -0.3, b, r->error));
    ICL_TRY(keep(r, out, "scale_add"));
    ICL_TRY(icl_scale_add(r->backend, out, 0.1, out, 0, (icl_tensor){0}, r->error));
    ICL_TRY(keep(r, out, "scale in place"));
    ICL_TRY(icl_copy(r->backend, icl_tensor_reshape(out, 2, (size_t[]){23, 4001}), icl_tensor_swap_axes(b, 0, 1),
                     r->error));
    ICL_TRY(keep(r, out, "copy of a transpose"));
done:
    release_all(r);
    return status;
}

static icl_status run_reductions(run *r) {
    static const size_t shapes[][3] = {{1, 1, 100003}, {317, 5, 67}, {3, 20011, 2}, {2, 3001, 18}};
    icl_status status = ICL_OK;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        icl_tensor in, out;
        ICL_TRY(make_input(r, 3, shapes[i], &in));
        for (unsigned axes = 1 + (unsigned)i; axes < 8; axes += 3)
            for (int kind = 0; kind < ICL_REDUCE_COUNT; kind++) {
                size_t reduced[3];
                for (int axis = 0; axis < 3; axis++)
                    reduced[axis] = axes >> axis & 1 ? 1 : shapes[i][axis];
                ICL_TRY(make(r, 3, reduced, &out));
                ICL_TRY(icl_reduce(r->backend, (icl_reduce_kind)kind, axes, out, in, r->error));
                ICL_TRY(keep(r, out, "%s of [%zu, %zu, %zu] over %u", icl_reduce_name((icl_reduce_kind)kind),
                             shapes[i][0], shapes[i][1], shapes[i][2], axes));
            }
        release_all(r);
    }
done:
    release_all(r);
    return status;
}

static icl_status run_products(run *r) {
    static const size_t sizes[][4] = {/* batch, m, n, k */
                                      {1, 5003, 11, 11}, {1, 11, 11, 20011}, {257, 11, 11, 20},
                                      {257, 20, 1, 11},  {1, 130, 150, 300}, {3, 1, 40, 6000}};
    icl_status status = ICL_OK;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const size_t batch = sizes[i][0], m = sizes[i][1], n = sizes[i][2], k = sizes[i][3];
        icl_tensor a, b, out;
        ICL_TRY(make_input(r, 3, (size_t[]){batch, k, m}, &a));
        ICL_TRY(make_input(r, 3, (size_t[]){batch, k, n}, &b));
        ICL_TRY(make_input(r, 3, (size_t[]){batch, m, n}, &out));
        ICL_TRY(icl_matmul(r->backend, out, 0.7, icl_tensor_swap_axes(a, 1, 2), b, 0.2, r->error));
        ICL_TRY(keep(r, out, "matmul [%zu, %zu, %zu, %zu]", batch, m, n, k));
        ICL_TRY(icl_matmul_strict(r->backend, out, icl_tensor_swap_axes(a, 1, 2), b, r->error));
        ICL_TRY(keep(r, out, "matmul_strict [%zu, %zu, %zu, %zu]", batch, m, n, k));
        release_all(r);
    }
done:
    release_all(r);
    return status;
}

static icl_status run_attention_case(run *r, const icl_attention_params *params, const size_t sizes[5]) {
    const size_t batch = sizes[0], queries = sizes[1], keys = sizes[2], d = sizes[3], e = sizes[4];
    const bool softmax = params->kind == ICL_ATTENTION_SOFTMAX;
    icl_tensor q, k, v, g, out, log_sum, d_q, d_k, d_v;
    const wanted inputs[] = {
        {&q, 3, {batch, queries, d}},
        {&k, 3, {batch, keys, d}},
        {&v, 3, {batch, keys, e}},
        {&g, 3, {batch, queries, e}},
    };
    const wanted outputs[] = {
        {&out, 3, {batch, queries, e}}, {&log_sum, 3, {batch, queries, 1}}, {&d_q, 3, {batch, queries, d}},
        {&d_k, 3, {batch, keys, d}},    {&d_v, 3, {batch, keys, e}},
    };
    char title[48];
    icl_status status = ICL_OK;
    ICL_TRY(make_inputs(r, inputs, sizeof inputs / sizeof *inputs));
    ICL_TRY(make_all(r, outputs, sizeof outputs / sizeof *outputs));
    ICL_TRY(icl_attention_forward(r->backend, params, out, log_sum, q, k, v, r->error));
    ICL_TRY(icl_attention_backward(r->backend, params, d_q, d_k, d_v, g, out, log_sum, q, k, v, r->error));
    snprintf(title, sizeof title, "%s mask %d [%zu, %zu]", softmax ? "softmax" : "linear", (int)params->mask, batch,
             queries);
    const named results[] = {{"out", out}, {"d_q", d_q}, {"d_k", d_k}, {"d_v", d_v}};
    ICL_TRY(keep_all(r, title, results, sizeof results / sizeof *results));
    if (softmax && params->mask != ICL_MASK_CAUSAL)
        ICL_TRY(keep(r, log_sum, "%s: log", title));
done:
    release_all(r);
    return status;
}

static icl_status run_attention(run *r) {
    static const size_t sizes[][5] = {{67, 21, 20, 11, 7}, {2, 150, 133, 20, 18}};
    icl_status status = ICL_OK;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int kind = 0; kind < 2; kind++)
            for (int mask = 0; mask < 3; mask++) {
                const icl_attention_params params = {(icl_attention_kind)kind, (icl_attention_mask)mask, 0.15};
                ICL_TRY(run_attention_case(r, &params, sizes[i]));
            }
done:
    return status;
}

/* Whole linear transformers: every form, from tokens in both spaces and from Gram matrices, a batch that
 * ends inside of a group. */
static icl_status run_transformer(run *r, icl_parameterization parameterization, int given) {
    const size_t batch = 331, context = 5, size = 7;
    const icl_linear_transformer_params params = {.parameterization = parameterization,
                                                  .layers = 4,
                                                  .heads = 2,
                                                  .factor = 1.0 / (double)context,
                                                  .space = given == 0 ? ICL_SPACE_TOKENS : ICL_SPACE_GRAM};
    const size_t parameters = icl_linear_transformer_size(&params, size - 1);
    const bool is_gram = given == 2;
    const icl_tensor none = {0};
    icl_tensor theta, tokens, gram, query, targets, threshold, predictions, losses, gradient, norms;
    const wanted inputs[] = {
        {&theta, 1, {parameters}},
        {&tokens, 3, {batch, context + 1, size}},
        {&query, 2, {batch, size}},
        {&targets, 1, {batch}},
    };
    const wanted outputs[] = {
        {&gram, 3, {batch, size, size}}, {&threshold, 1, {1}},         {&predictions, 1, {batch}},
        {&losses, 1, {batch}},           {&gradient, 1, {parameters}}, {&norms, 1, {batch}},
    };
    char title[48];
    icl_status status = ICL_OK;
    ICL_TRY(make_inputs(r, inputs, sizeof inputs / sizeof *inputs));
    ICL_TRY(make_all(r, outputs, sizeof outputs / sizeof *outputs));
    ICL_TRY(icl_scale_add(r->backend, theta, 0.15, theta, 0, none, r->error));
    ICL_TRY(icl_matmul(r->backend, gram, 1, icl_tensor_swap_axes(tokens, 1, 2), tokens, 0, r->error));
    ICL_TRY(icl_fill(r->backend, threshold, 1, r->error));
    ICL_TRY(icl_linear_transformer_predict(r->backend, &params, predictions, theta, is_gram ? none : tokens,
                                           is_gram ? gram : none, is_gram ? query : none, r->error));
    snprintf(title, sizeof title, "linear_transformer %d %d", (int)parameterization, given);
    ICL_TRY(keep(r, predictions, "%s: alone", title));
    ICL_TRY(icl_linear_transformer_gradient(r->backend, &params, losses, gradient, norms, theta,
                                            is_gram ? none : tokens, is_gram ? gram : none, is_gram ? query : none,
                                            targets, given == 1 ? threshold : none, r->error));
    const named results[] = {{"losses", losses}, {"gradient", gradient}, {"norms", norms}};
    ICL_TRY(keep_all(r, title, results, sizeof results / sizeof *results));
done:
    release_all(r);
    return status;
}

static icl_status run_transformers(run *r) {
    icl_status status = ICL_OK;
    for (int parameterization = 0; parameterization < ICL_PARAMETERIZATION_COUNT; parameterization++)
        for (int given = 0; given < 3; given++)
            ICL_TRY(run_transformer(r, (icl_parameterization)parameterization, given));
done:
    return status;
}

static icl_status run_update(run *r, icl_update_kind kind) {
    enum { SIZE = 70001, BATCH = 4099 };
    const icl_update_params params = {
        .kind = kind, .adam = {1e-3, 0.9, 0.999, 1e-8, 0.01, 7}, .sgd = {1e-2, 0.9}, .clip = 2.5, .fraction = 0.1};
    icl_tensor parameters, states[2], measures, threshold, gradient, losses, norms, decays;
    const wanted inputs[] = {{&parameters, 1, {SIZE}}, {&states[0], 1, {SIZE}}, {&states[1], 1, {SIZE}},
                             {&decays, 1, {SIZE}},     {&gradient, 1, {SIZE}},  {&losses, 1, {BATCH}},
                             {&norms, 1, {BATCH}}};
    char title[48];
    icl_status status = ICL_OK;
    ICL_TRY(make_inputs(r, inputs, sizeof inputs / sizeof *inputs));
    ICL_TRY(make(r, 1, (size_t[]){3}, &measures));
    ICL_TRY(make(r, 1, (size_t[]){1}, &threshold));
    ICL_TRY(icl_unary(r->backend, ICL_SQUARE, states[1], states[1], r->error));
    ICL_TRY(icl_unary(r->backend, ICL_ABSOLUTE, norms, norms, r->error));
    ICL_TRY(icl_fill(r->backend, threshold, 0, r->error));
    ICL_TRY(icl_unary(r->backend, ICL_RELU, decays, decays, r->error)); /* half of them 0 */
    for (int step = 0; step < 2; step++)                                /* the first threshold, then a new one */
        ICL_TRY(icl_update_step(r->backend, &params, parameters, states, measures, threshold, gradient, losses, norms,
                                step > 0 ? decays : (icl_tensor){0}, r->error));
    const named results[] = {{"parameters", parameters},
                             {"first state", states[0]},
                             {"second state", states[1]},
                             {"measures", measures},
                             {"threshold", threshold}};
    snprintf(title, sizeof title, "update %d", (int)kind);
    ICL_TRY(keep_all(r, title, results, sizeof results / sizeof *results));
done:
    release_all(r);
    return status;
}

static icl_status run_updates(run *r) {
    icl_status status = ICL_OK;
    for (int kind = 0; kind < ICL_UPDATE_COUNT; kind++)
        ICL_TRY(run_update(r, (icl_update_kind)kind));
done:
    return status;
}

static icl_status run_normalization(run *r, const icl_normalize_params *params, const size_t shape[3]) {
    const size_t n = shape[2];
    icl_tensor in, gain, shift, g, out, d_in, d_gain, d_shift;
    const wanted inputs[] = {
        {&in, 3, {shape[0], shape[1], n}}, {&gain, 1, {n}}, {&shift, 1, {n}}, {&g, 3, {shape[0], shape[1], n}}};
    const wanted outputs[] = {
        {&out, 3, {shape[0], shape[1], n}}, {&d_in, 3, {shape[0], shape[1], n}}, {&d_gain, 1, {n}}, {&d_shift, 1, {n}}};
    char title[48];
    icl_status status = ICL_OK;
    ICL_TRY(make_inputs(r, inputs, sizeof inputs / sizeof *inputs));
    ICL_TRY(make_all(r, outputs, sizeof outputs / sizeof *outputs));
    ICL_TRY(icl_normalize(r->backend, params, out, in, gain, shift, r->error));
    ICL_TRY(icl_normalize_backward(r->backend, params, d_in, d_gain, d_shift, g, in, gain, r->error));
    snprintf(title, sizeof title, "normalize %s %zu", icl_norm_name(params->kind), n);
    const named results[] = {{"out", out}, {"d_in", d_in}, {"d_gain", d_gain}, {"d_shift", d_shift}};
    ICL_TRY(keep_all(r, title, results, sizeof results / sizeof *results));
done:
    release_all(r);
    return status;
}

static icl_status run_normalizations(run *r) {
    static const size_t shapes[][3] = {{67, 41, 16}, {9, 130, 57}, {3, 5, 2100}};
    icl_status status = ICL_OK;
    for (int kind = 0; kind < ICL_NORM_COUNT; kind++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            ICL_TRY(run_normalization(r, &(icl_normalize_params){(icl_norm_kind)kind, 1e-5}, shapes[i]));
done:
    return status;
}

/* Segments and a part of one, values and channels that fill no vector; with the delta term and a decay, strong enough
 * that some segments are computed again, and without either. */
static icl_status run_recurrence_case(run *r, const size_t s[5], bool delta, size_t decays) {
    const size_t rows = (s[2] + ICL_RECURRENCE_SEGMENT - 1) / ICL_RECURRENCE_SEGMENT * s[3];
    const size_t keys[] = {s[0], s[1], s[2], s[3]}, values[] = {s[0], s[1], s[2], s[4]}, ones[] = {s[0], s[1], s[2], 1};
    const size_t states[] = {s[0], s[1], rows, s[4]}, state[] = {s[0], s[1], s[3], s[4]};
    const size_t factors[] = {s[0], s[1], s[2], decays};
    const icl_recurrence_params params = {delta, 0.5};
    icl_recurrence_inputs in = {{0}}, d = {{0}};
    icl_recurrence_saved saved = {{0}};
    icl_tensor out, final, d_out, d_final;
    icl_status status = ICL_OK;

    ICL_TRY(make_input(r, 4, keys, &in.q));
    ICL_TRY(make_input(r, 4, keys, &in.k));
    ICL_TRY(icl_scale_add(r->backend, in.k, 1 / (double)s[3], in.k, 0, (icl_tensor){0}, r->error));
    ICL_TRY(make_input(r, 4, values, &in.v));
    ICL_TRY(make_input(r, 4, values, &d_out));
    ICL_TRY(make_input(r, 4, state, &d_final));
    ICL_TRY(make(r, 4, keys, &d.q));
    ICL_TRY(make(r, 4, keys, &d.k));
    ICL_TRY(make(r, 4, values, &d.v));
    if (decays > 0) {
        ICL_TRY(make_input(r, 4, ones, &in.beta));
        ICL_TRY(make(r, 4, ones, &d.beta));
        ICL_TRY(make_input(r, 4, factors, &in.decay));
        ICL_TRY(make(r, 4, factors, &d.decay));
        ICL_TRY(icl_scale_add(r->backend, in.decay, 0.1, in.decay, 0, (icl_tensor){0}, r->error));
    }
    if (delta)
        ICL_TRY(make(r, 4, values, &saved.reads));
    ICL_TRY(make(r, 4, states, &saved.states));
    ICL_TRY(make(r, 4, values, &out));
    ICL_TRY(make(r, 4, state, &final));
    ICL_TRY(icl_recurrence_forward(r->backend, &params, out, final, &saved, &in, r->error));
    ICL_TRY(icl_recurrence_backward(r->backend, &params, &d, d_out, d_final, final, &saved, &in, r->error));
    const named results[] = {{"out", out}, {"final", final},   {"d_q", d.q},        {"d_k", d.k},
                             {"d_v", d.v}, {"d_beta", d.beta}, {"d_decay", d.decay}};
    ICL_TRY(keep_all(r, delta ? "recurrence with delta" : "recurrence", results, decays > 0 ? 7 : 5));
done:
    release_all(r);
    return status;
}

static icl_status run_recurrence(run *r) {
    static const size_t sizes[][5] = {{37, 3, 70, 9, 21}, {1, 2, 200, 33, 70}};
    icl_status status = ICL_OK;
    for (size_t i = 0; i < 2 && status == ICL_OK; i++)
        for (size_t form = 0; form < 4 && status == ICL_OK; form++)
            status = run_recurrence_case(r, sizes[i], form > 1, form == 3 ? sizes[i][3] : form > 0);
    return status;
}

/* Tokens by number, of which half are none, filtered and rotated, and the gradients back to the table. */
static icl_status run_tokens(run *r, size_t rows, size_t width) {
    const size_t batch = 67, length = 131;
    const icl_random_params symbol = {
        .key = {11, 3, 1}, .distribution = ICL_CHOICE, .choice_count = 4, .choices = {0, (float)(rows - 1), 1.5F, -1}};
    icl_tensor symbols, table, taps, angles, out, filtered, turned, d_in, d_taps, d_table;
    const wanted inputs[] = {{&table, 2, {rows, width}}, {&taps, 2, {3, width}}, {&angles, 3, {length, width / 2, 2}}};
    const wanted outputs[] = {{&symbols, 2, {batch, length}},
                              {&out, 3, {batch, length, width}},
                              {&filtered, 3, {batch, length, width}},
                              {&turned, 3, {batch, length, width}},
                              {&d_in, 3, {batch, length, width}},
                              {&d_taps, 2, {3, width}},
                              {&d_table, 2, {rows, width}}};
    char title[48];
    icl_status status = ICL_OK;
    ICL_TRY(make_inputs(r, inputs, sizeof inputs / sizeof *inputs));
    ICL_TRY(make_all(r, outputs, sizeof outputs / sizeof *outputs));
    ICL_TRY(icl_random_fill(r->backend, &symbol, symbols, r->error));
    ICL_TRY(icl_look_up(r->backend, out, table, symbols, r->error));
    ICL_TRY(icl_convolve(r->backend, filtered, out, taps, r->error));
    ICL_TRY(icl_rotate(r->backend, false, turned, filtered, angles, r->error));
    ICL_TRY(keep(r, turned, "tokens of %zu x %zu: rotated", rows, width));
    ICL_TRY(icl_random_fill(r->backend, &(icl_random_params){.key = {11, 4, 1}, .distribution = ICL_NORMAL}, turned,
                            r->error));
    ICL_TRY(icl_rotate(r->backend, true, out, turned, angles, r->error));
    ICL_TRY(icl_convolve_backward(r->backend, d_in, d_taps, out, turned, taps, r->error));
    ICL_TRY(icl_look_up_backward(r->backend, d_table, d_in, symbols, r->error));
    snprintf(title, sizeof title, "tokens of %zu x %zu", rows, width);
    const named results[] = {
        {"filtered", filtered}, {"rotated back", out}, {"d_in", d_in}, {"d_taps", d_taps}, {"d_table", d_table}};
    ICL_TRY(keep_all(r, title, results, sizeof results / sizeof *results));
done:
    release_all(r);
    return status;
}

static icl_status run_cross_entropies(run *r) {
    static const size_t shapes[][2] = {{3001, 7}, {301, 130}, {5, 5000}};
    icl_status status = ICL_OK;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const size_t rows = shapes[i][0], n = shapes[i][1];
        icl_tensor logits, g, classes, losses, d_logits;
        const wanted inputs[] = {{&logits, 2, {rows, n}}, {&g, 2, {rows, 1}}};
        const wanted outputs[] = {{&classes, 2, {rows, 1}}, {&losses, 2, {rows, 1}}, {&d_logits, 2, {rows, n}}};
        char title[48];
        ICL_TRY(make_inputs(r, inputs, sizeof inputs / sizeof *inputs));
        ICL_TRY(make_all(r, outputs, sizeof outputs / sizeof *outputs));
        ICL_TRY(icl_fill(r->backend, classes, (double)(i + 3), r->error));
        ICL_TRY(icl_cross_entropy(r->backend, losses, logits, classes, r->error));
        ICL_TRY(icl_cross_entropy_backward(r->backend, d_logits, g, logits, classes, r->error));
        snprintf(title, sizeof title, "cross-entropy of %zu", n);
        ICL_TRY(keep_all(r, title, (const named[]){{"losses", losses}, {"d_logits", d_logits}}, 2));
        release_all(r);
    }
done:
    release_all(r);
    return status;
}

icl_status run_every_op(icl_backend *backend, op_results *results, icl_error *error) {
    run r = {.backend = backend, .results = results, .error = error};
    icl_status status = ICL_OK;
    results->count = 0;
    ICL_TRY(run_random(&r));
    ICL_TRY(run_gram(&r));
    ICL_TRY(run_spherical(&r));
    ICL_TRY(run_elementwise(&r));
    ICL_TRY(run_scalings(&r));
    ICL_TRY(run_reductions(&r));
    ICL_TRY(run_products(&r));
    ICL_TRY(run_attention(&r));
    ICL_TRY(run_transformers(&r));
    ICL_TRY(run_updates(&r));
    ICL_TRY(run_normalizations(&r));
    ICL_TRY(run_recurrence(&r));
    ICL_TRY(run_tokens(&r, 300, 22));
    ICL_TRY(run_tokens(&r, 2, 64));
    ICL_TRY(run_cross_entropies(&r));
done:
    return status;
}

void free_results(op_results *results) {
    for (size_t i = 0; i < results->count; i++)
        free(results->result[i].values);
    results->count = 0;
}
