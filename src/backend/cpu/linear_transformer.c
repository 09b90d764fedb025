/* Whole linear transformers: the threads share slices of the batch, which the kernels compute, and the slices'
 * gradients are added in order. How the batch is cut depends only on its size and the width of the lanes, never on the
 * number of threads. */
#include <string.h>

#include "backend/cpu/host.h"
#include "backend/linear_transformer.h"
#include "core/allocate.h"
#include "iclab/status.h"

typedef HOST(linear_plan) linear_plan;

typedef struct transformer {
    const HOST(state) * state;
    linear_plan plan;
    size_t batch;
    size_t slices, groups_per_slice;
    real *sums; /* [slices][used] */
    char *workspaces;
    size_t workspace; /* bytes of one thread */
    real *shared;     /* memory of the plan's numbers, such as P and Q */
    size_t shared_count;
    HOST(linear_operand) gradient;
} transformer;

static HOST(linear_operand) operand(const icl_tensor *tensor) {
    HOST(linear_operand) made = {NULL};
    if (!tensor->buffer)
        return made;
    made.elements = host_elements(tensor);
    for (int axis = 0; axis < tensor->rank; axis++)
        made.stride[axis] = tensor->stride[axis];
    return made;
}

static bool is_diagonal(icl_parameterization parameterization) {
    return parameterization == ICL_LINEAR_DIAG || parameterization == ICL_LINEAR_GDPP;
}

/* ---- The plan's numbers ---- */

/* Returns how many numbers one layer takes in the form that the kernels read. */
static size_t shared_per_layer(const linear_plan *plan) {
    const size_t square = plan->size * plan->size;
    if (plan->parameterization == ICL_LINEAR_SPARSE)
        return 2 * plan->block * plan->block;
    return is_diagonal(plan->parameterization) ? 4 + 4 * plan->heads : 4 * plan->heads * square;
}

/* Returns parameter `index` of layer `layer`, counted among those in use. */
static real parameter(const icl_tensor *parameters, const icl_linear_transformer_params *params, size_t d, size_t layer,
                      size_t index) {
    return host_elements(parameters)[(icl_linear_layer_offset(params, d, layer) + index) * parameters->stride[0]];
}

/* Writes the transposes of `count` matrices. */
static void transpose(real *to, const real *from, size_t count, size_t size) {
    for (size_t m = 0; m < count; m++, to += size * size, from += size * size)
        for (size_t i = 0; i < size * size; i++)
            to[i % size * size + i / size] = from[i];
}

/* Writes A [d][d] of each layer, summed over heads, and its transpose. */
static void share_sparse(transformer *x, const icl_linear_transformer_params *params, const icl_tensor *parameters) {
    const size_t d = x->plan.size - 1;
    for (size_t i = 0; i < x->plan.depth * d * d; i++) {
        real sum = 0;
        for (size_t h = 0; h < x->plan.heads; h++)
            sum += parameter(parameters, params, d, i / (d * d), h * d * d + i % (d * d));
        x->shared[i] = sum;
    }
    transpose(x->shared + x->plan.depth * d * d, x->shared, x->plan.depth, d);
    x->plan.q = x->shared;
    x->plan.q_transposed = x->shared + x->plan.depth * d * d;
}

static void share_diagonal(transformer *x, const icl_linear_transformer_params *params, const icl_tensor *parameters) {
    const size_t d = x->plan.size - 1, heads = x->plan.heads;
    const size_t per_head = x->plan.parameterization == ICL_LINEAR_DIAG ? 4 : 3;
    real *weights = x->shared, *parts = weights + 4 * x->plan.depth;

    for (size_t layer = 0; layer < x->plan.depth; layer++) {
        real *w = weights + 4 * layer;
        memset(w, 0, 4 * sizeof *w);
        for (size_t h = 0; h < heads; h++) {
            real *part = parts + (layer * heads + h) * 4;
            part[3] = 0;
            for (size_t i = 0; i < per_head; i++)
                part[i] = parameter(parameters, params, d, layer, h * per_head + i);
            for (size_t i = 0; i < 4; i++)
                w[i] += part[i / 2] * part[2 + i % 2];
        }
    }
    x->plan.weights = weights;
    x->plan.parts = parts;
}

/* Writes one P or Q as a dense matrix. If only its corner consists of parameters, its last diagonal element is `last`
 * (1 in P), and the rest is 0. */
static void share_matrix(const transformer *x, const icl_linear_transformer_params *params,
                         const icl_tensor *parameters, size_t layer, size_t index, real last, real *to) {
    const size_t size = x->plan.size, block = x->plan.block;
    for (size_t i = 0; i < size; i++)
        for (size_t j = 0; j < size; j++) {
            const bool given = i < block && j < block;
            to[i * size + j] =
                given ? parameter(parameters, params, size - 1, layer, index + i * block + j) : (i == j ? last : 0);
        }
}

static void share_dense(transformer *x, const icl_linear_transformer_params *params, const icl_tensor *parameters) {
    const size_t size = x->plan.size, square = size * size, block = x->plan.block * x->plan.block;
    const size_t heads = x->plan.heads, depth = x->plan.depth;
    real *p = x->shared, *q = p + depth * heads * square, *transposed = q + depth * heads * square;
    real *rows = transposed + 2 * depth * heads * square;

    for (size_t i = 0; i < depth * heads; i++) {
        share_matrix(x, params, parameters, i / heads, i % heads * 2 * block, 1, p + i * square);
        share_matrix(x, params, parameters, i / heads, i % heads * 2 * block + block, 0, q + i * square);
    }
    for (size_t i = 0; i < heads * heads && depth > 1; i++) {
        const real *before = p + ((depth - 2) * heads + i / heads) * square;
        const real *last_row = p + ((depth - 1) * heads + i % heads + 1) * square - size;
        for (size_t j = 0; j < size; j++) {
            real sum = 0;
            for (size_t k = 0; k < size; k++)
                sum += last_row[k] * before[k * size + j];
            rows[i * size + j] = sum;
        }
    }
    transpose(transposed, p, 2 * depth * heads, size);
    x->plan.p = p;
    x->plan.q = q;
    x->plan.p_transposed = transposed;
    x->plan.q_transposed = transposed + depth * heads * square;
    x->plan.last_rows = rows;
}

/* ---- The cut of the batch ---- */

/* Cuts the batch into slices of at least 8 groups, so that adding them up costs little; but into 8 slices if there are
 * as many groups, and never into more than 64. */
static void cut_batch(transformer *x) {
    const size_t lanes = x->state->kernels->linear_lanes, groups = (x->batch + lanes - 1) / lanes;
    size_t slices = groups / 8 > 8 ? groups / 8 : 8;

    slices = slices > 64 ? 64 : slices;
    slices = slices > groups ? groups : slices;
    x->groups_per_slice = (groups + slices - 1) / slices;
    x->slices = (groups + x->groups_per_slice - 1) / x->groups_per_slice;
}

/* ---- Running ---- */

static icl_status reserve(icl_backend *backend, transformer *x, icl_error *error) {
    const linear_plan *plan = &x->plan;
    const size_t sums = plan->has_gradient ? x->slices * plan->used : 0;
    const size_t threads = x->state->threads < x->slices ? x->state->threads : x->slices;
    char *memory = NULL;

    x->workspace = host_round_up(x->state->kernels->linear_workspace(plan), 64);
    const size_t shared = host_round_up(x->shared_count * sizeof(real), 64);
    ICL_CHECK(HOST(scratch)(backend, threads * x->workspace + shared + sums * sizeof(real), &memory, error));
    x->workspaces = memory;
    x->shared = (real *)(void *)(memory + threads * x->workspace);
    x->sums = (real *)(void *)(memory + threads * x->workspace + shared);
    return ICL_OK;
}

static void run_slices(void *context, size_t first, size_t last, size_t thread) {
    const transformer *x = context;
    const size_t lanes = x->groups_per_slice * x->state->kernels->linear_lanes;

    for (size_t slice = first; slice < last; slice++) {
        const size_t end = (slice + 1) * lanes;
        x->state->kernels->linear_slice(&x->plan, slice * lanes, end < x->batch ? end : x->batch,
                                        x->workspaces + thread * x->workspace, x->sums + slice * x->plan.used);
    }
}

/* Returns a rough count of multiplications, from which the number of threads follows. */
static size_t work_of(const transformer *x) {
    return x->batch * (x->plan.depth + x->plan.context + 1) * x->plan.size * x->plan.size;
}

static icl_status run(icl_backend *backend, transformer *x, const icl_linear_transformer_params *params,
                      const icl_tensor *parameters, icl_error *error) {
    cut_batch(x);
    x->shared_count = x->plan.depth * shared_per_layer(&x->plan) + x->plan.heads * x->plan.heads * x->plan.size;
    ICL_CHECK(reserve(backend, x, error));
    if (x->plan.parameterization == ICL_LINEAR_SPARSE)
        share_sparse(x, params, parameters);
    else if (is_diagonal(x->plan.parameterization))
        share_diagonal(x, params, parameters);
    else
        share_dense(x, params, parameters);
    HOST(run)(x->state, x->slices, work_of(x), run_slices, x);
    return ICL_OK;
}

static transformer describe(const icl_backend *backend, const icl_linear_transformer_params *params,
                            const icl_tensor *answers, const icl_tensor *tokens, const icl_tensor *gram,
                            const icl_tensor *query) {
    transformer x = {.state = host_state(backend), .batch = answers->shape[0]};
    linear_plan *plan = &x.plan;

    plan->parameterization = params->parameterization;
    plan->size = gram->buffer ? gram->shape[2] : tokens->shape[2];
    plan->context = gram->buffer ? 0 : tokens->shape[1] - 1;
    plan->depth = params->depth;
    plan->heads = params->heads;
    plan->passes = icl_linear_passes(params, plan->size - 1, plan->context);
    plan->full = params->depth > 2 ? params->depth - (plan->passes ? 3 : 2) : 0;
    plan->block = params->parameterization == ICL_LINEAR_FULL ? plan->size : plan->size - 1;
    plan->used = icl_linear_transformer_size(params, plan->size - 1) / params->layers * params->depth;
    plan->in_tokens = tokens->buffer && params->space == ICL_SPACE_TOKENS;
    plan->factor = (real)params->factor;
    plan->tokens = operand(tokens);
    plan->gram = operand(gram);
    plan->query = operand(query); /* [B, D] as [B, 1, D] */
    plan->query.stride[2] = plan->query.stride[1];
    plan->answers = operand(answers);
    return x;
}

icl_status HOST(linear_transformer_predict)(icl_backend *backend, const void *params, const icl_tensor *operands,
                                            icl_error *error) {
    transformer x = describe(backend, params, &operands[0], &operands[2], &operands[3], &operands[4]);
    return run(backend, &x, params, &operands[1], error);
}

/* Adds elements [first, last) of all slices' sums to those of the first slice. */
static void add_slices(void *context, size_t first, size_t last, size_t thread) {
    const transformer *x = context;

    (void)thread;
    for (size_t slice = 1; slice < x->slices; slice++) {
        const real *sums = x->sums + slice * x->plan.used;
        for (size_t i = first; i < last; i++)
            x->sums[i] += sums[i];
    }
}

/* Writes the mean of the gradients into the gradient of all parameters. Layers that are not in use come before the last
 * one, and get 0. */
static void write_gradient(const transformer *x) {
    const size_t used = x->plan.used, all = x->gradient.stride[1], unused = all - used,
                 before_last = used - used / x->plan.depth;
    const real batch = (real)x->batch;
    real *to = x->gradient.elements;

    for (size_t i = 0; i < before_last; i++)
        to[i * x->gradient.stride[0]] = x->sums[i] / batch;
    for (size_t i = before_last; i < before_last + unused; i++)
        to[i * x->gradient.stride[0]] = 0;
    for (size_t i = before_last + unused; i < all; i++)
        to[i * x->gradient.stride[0]] = x->sums[i - unused] / batch;
}

icl_status HOST(linear_transformer_gradient)(icl_backend *backend, const void *params, const icl_tensor *operands,
                                             icl_error *error) {
    const icl_tensor *gradient = &operands[1];
    transformer x = describe(backend, params, &operands[0], &operands[4], &operands[5], &operands[6]);

    x.plan.has_gradient = true;
    x.plan.norms = operand(&operands[2]);
    x.plan.targets = operand(&operands[7]);
    x.plan.threshold = operands[8].buffer ? host_elements(&operands[8]) : NULL;
    x.gradient = operand(gradient);
    x.gradient.stride[1] = gradient->shape[0];
    ICL_CHECK(run(backend, &x, params, &operands[3], error));
    HOST(run)(x.state, x.plan.used, x.plan.used * x.slices, add_slices, &x);
    write_gradient(&x);
    return ICL_OK;
}
