#include <stdio.h>

#include "every_op_run.h"

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
    ICL_TRY(run_sequence_ops(&r));
done:
    return status;
}
