/* Whole linear transformers: the threads share slices of the batch, which the kernels compute, and the slices'
 * gradients are added in order. How the batch is cut depends only on its size and the width of the lanes, never on the
 * number of threads. */
#include <string.h>

#include "backend/cpu/host.h"
#include "backend/op_families.h"
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
static void share_sparse(transformer *model, const icl_linear_transformer_params *params,
                         const icl_tensor *parameters) {
    const size_t d = model->plan.size - 1;
    for (size_t i = 0; i < model->plan.depth * d * d; i++) {
        real sum = 0;
        for (size_t h = 0; h < model->plan.heads; h++)
            sum += parameter(parameters, params, d, i / (d * d), h * d * d + i % (d * d));
        model->shared[i] = sum;
    }
    transpose(model->shared + model->plan.depth * d * d, model->shared, model->plan.depth, d);
    model->plan.q = model->shared;
    model->plan.q_transposed = model->shared + model->plan.depth * d * d;
}

static void share_diagonal(transformer *model, const icl_linear_transformer_params *params,
                           const icl_tensor *parameters) {
    const size_t d = model->plan.size - 1, heads = model->plan.heads;
    const size_t per_head = model->plan.parameterization == ICL_LINEAR_DIAG ? 4 : 3;
    real *weights = model->shared, *parts = weights + 4 * model->plan.depth;

    for (size_t layer = 0; layer < model->plan.depth; layer++) {
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
    model->plan.weights = weights;
    model->plan.parts = parts;
}

/* Writes one P or Q as a dense matrix. If only its corner consists of parameters, its last diagonal element is `last`
 * (1 in P), and the rest is 0. */
static void share_matrix(const transformer *model, const icl_linear_transformer_params *params,
                         const icl_tensor *parameters, size_t layer, size_t index, real last, real *to) {
    const size_t size = model->plan.size, block = model->plan.block;
    for (size_t i = 0; i < size; i++)
        for (size_t j = 0; j < size; j++) {
            const bool given = i < block && j < block;
            to[i * size + j] =
                given ? parameter(parameters, params, size - 1, layer, index + i * block + j) : (i == j ? last : 0);
        }
}

static void share_dense(transformer *model, const icl_linear_transformer_params *params, const icl_tensor *parameters) {
    const size_t size = model->plan.size, square = size * size, block = model->plan.block * model->plan.block;
    const size_t heads = model->plan.heads, depth = model->plan.depth;
    real *p = model->shared, *q = p + depth * heads * square, *transposed = q + depth * heads * square;
    real *rows = transposed + 2 * depth * heads * square;

    for (size_t i = 0; i < depth * heads; i++) {
        share_matrix(model, params, parameters, i / heads, i % heads * 2 * block, 1, p + i * square);
        share_matrix(model, params, parameters, i / heads, i % heads * 2 * block + block, 0, q + i * square);
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
    model->plan.p = p;
    model->plan.q = q;
    model->plan.p_transposed = transposed;
    model->plan.q_transposed = transposed + depth * heads * square;
    model->plan.last_rows = rows;
}

/* ---- The cut of the batch ---- */

/* Cuts the batch into slices of at least 8 groups, so that adding them up costs little; but into 8 slices if there are
 * as many groups, and never into more than 64. */
static void cut_batch(transformer *model) {
    const size_t lanes = model->state->kernels->linear_lanes, groups = (model->batch + lanes - 1) / lanes;
    size_t slices = groups / 8 > 8 ? groups / 8 : 8;

    slices = slices > 64 ? 64 : slices;
    slices = slices > groups ? groups : slices;
    model->groups_per_slice = (groups + slices - 1) / slices;
    model->slices = (groups + model->groups_per_slice - 1) / model->groups_per_slice;
}

/* ---- Running ---- */

static icl_status reserve(icl_backend *backend, transformer *model, icl_error *error) {
    const linear_plan *plan = &model->plan;
    const size_t sums = plan->has_gradient ? model->slices * plan->used : 0;
    const size_t threads = model->state->threads < model->slices ? model->state->threads : model->slices;
    char *memory = NULL;

    model->workspace = host_round_up(model->state->kernels->linear_workspace(plan), 64);
    const size_t shared = host_round_up(model->shared_count * sizeof(real), 64);
    ICL_CHECK(HOST(scratch)(backend, threads * model->workspace + shared + sums * sizeof(real), &memory, error));
    model->workspaces = memory;
    model->shared = (real *)(void *)(memory + threads * model->workspace);
    model->sums = (real *)(void *)(memory + threads * model->workspace + shared);
    return ICL_OK;
}

static void run_slices(void *context, size_t first, size_t last, size_t thread) {
    const transformer *model = context;
    const size_t lanes = model->groups_per_slice * model->state->kernels->linear_lanes;

    for (size_t slice = first; slice < last; slice++) {
        const size_t end = (slice + 1) * lanes;
        model->state->kernels->linear_slice(&model->plan, slice * lanes, end < model->batch ? end : model->batch,
                                            model->workspaces + thread * model->workspace,
                                            model->sums + slice * model->plan.used);
    }
}

/* Returns a rough count of multiplications, from which the number of threads follows. */
static size_t work_of(const transformer *model) {
    return model->batch * (model->plan.depth + model->plan.context + 1) * model->plan.size * model->plan.size;
}

static icl_status run(icl_backend *backend, transformer *model, const icl_linear_transformer_params *params,
                      const icl_tensor *parameters, icl_error *error) {
    cut_batch(model);
    model->shared_count =
        model->plan.depth * shared_per_layer(&model->plan) + model->plan.heads * model->plan.heads * model->plan.size;
    ICL_CHECK(reserve(backend, model, error));
    if (model->plan.parameterization == ICL_LINEAR_SPARSE)
        share_sparse(model, params, parameters);
    else if (is_diagonal(model->plan.parameterization))
        share_diagonal(model, params, parameters);
    else
        share_dense(model, params, parameters);
    HOST(run)(model->state, model->slices, work_of(model), run_slices, model);
    return ICL_OK;
}

static transformer describe(const icl_backend *backend, const icl_linear_transformer_params *params,
                            const icl_tensor *answers, const icl_tensor *tokens, const icl_tensor *gram,
                            const icl_tensor *query) {
    transformer model = {.state = host_state(backend), .batch = answers->shape[0]};
    linear_plan *plan = &model.plan;

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
    return model;
}

icl_status HOST(linear_transformer_predict)(icl_backend *backend, const void *params, const icl_tensor *operands,
                                            icl_error *error) {
    transformer model = describe(backend, params, &operands[0], &operands[2], &operands[3], &operands[4]);
    return run(backend, &model, params, &operands[1], error);
}

/* Adds elements [first, last) of all slices' sums to those of the first slice. */
static void add_slices(void *context, size_t first, size_t last, size_t thread) {
    const transformer *model = context;

    (void)thread;
    for (size_t slice = 1; slice < model->slices; slice++) {
        const real *sums = model->sums + slice * model->plan.used;
        for (size_t i = first; i < last; i++)
            model->sums[i] += sums[i];
    }
}

/* Writes the mean of the gradients into the gradient of all parameters. Layers that are not in use come before the last
 * one, and get 0. */
static void write_gradient(const transformer *model) {
    const size_t used = model->plan.used, all = model->gradient.stride[1], unused = all - used,
                 before_last = used - used / model->plan.depth;
    const real batch = (real)model->batch;
    real *to = model->gradient.elements;

    for (size_t i = 0; i < before_last; i++)
        to[i * model->gradient.stride[0]] = model->sums[i] / batch;
    for (size_t i = before_last; i < before_last + unused; i++)
        to[i * model->gradient.stride[0]] = 0;
    for (size_t i = before_last + unused; i < all; i++)
        to[i * model->gradient.stride[0]] = model->sums[i - unused] / batch;
}

icl_status HOST(linear_transformer_gradient)(icl_backend *backend, const void *params, const icl_tensor *operands,
                                             icl_error *error) {
    const icl_tensor *gradient = &operands[1];
    transformer model = describe(backend, params, &operands[0], &operands[4], &operands[5], &operands[6]);

    model.plan.has_gradient = true;
    model.plan.norms = operand(&operands[2]);
    model.plan.targets = operand(&operands[7]);
    model.plan.threshold = operands[8].buffer ? host_elements(&operands[8]) : NULL;
    model.gradient = operand(gradient);
    model.gradient.stride[1] = gradient->shape[0];
    ICL_CHECK(run(backend, &model, params, &operands[3], error));
    HOST(run)(model.state, model.plan.used, model.plan.used * model.slices, add_slices, &model);
    write_gradient(&model);
    return ICL_OK;
}
