/* Whole linear transformers: sizes of their parameters, cost, and the public ops (iclab/ops_linear_transformer.h). */
#include "backend/op_families.h"

#include <math.h>
#include <stdint.h>

#include "backend/call.h"
#include "core/allocate.h"
#include "iclab/status.h"

/* ---- Parameters ---- */

icl_linear_sizes icl_linear_sizes_of(icl_parameterization parameterization, size_t d) {
    switch (parameterization) {
    case ICL_LINEAR_FULL:
        return (icl_linear_sizes){(d + 1) * (d + 1), (d + 1) * (d + 1)};
    case ICL_LINEAR_DIAG:
        return (icl_linear_sizes){2, 2};
    case ICL_LINEAR_GDPP:
        return (icl_linear_sizes){2, 1};
    case ICL_LINEAR_SPARSE:
        return (icl_linear_sizes){0, d * d};
    case ICL_LINEAR_SPARSE_B:
        return (icl_linear_sizes){d * d, d * d};
    case ICL_PARAMETERIZATION_COUNT:
        break;
    }
    return (icl_linear_sizes){0, 0};
}

static size_t layer_size(const icl_linear_transformer_params *params, size_t d) {
    const size_t heads = params->heads > 0 ? params->heads : 1;
    const icl_linear_sizes sizes = icl_linear_sizes_of(params->parameterization, d);
    return heads * (sizes.p + sizes.q);
}

size_t icl_linear_transformer_size(const icl_linear_transformer_params *params, size_t d) {
    return params->layers * layer_size(params, d);
}

size_t icl_linear_layer_offset(const icl_linear_transformer_params *params, size_t d, size_t i) {
    return (i + 1 < params->depth ? i : params->layers - 1) * layer_size(params, d);
}

/* ---- Cost ---- */

/*
 * The cost is counted in multiplications with one addition, for one sequence. Only products count, symmetric ones by
 * half; elementwise work of D^2 is left out. The last two layers are products of matrices and vectors, the one before
 * them may be, and the first layer's own tokens or Gram matrix need no gradient: dense.c, diagonal.c and sparse.c in
 * src/backend/cpu/kernels/linear_transformer/ hold the formulas.
 */
typedef struct work_sizes {
    double square, cube;             /* D^2, D^3 */
    double inner_square, inner_cube; /* d^2, d^3 */
    double context, rows;            /* n D^2, (n + 1) D^2 */
    double heads, layers;            /* H, and the number of layers before the last two */
    size_t depth;
    bool in_tokens, has_gradient;
} work_sizes;

static work_sizes work_sizes_of(const icl_linear_transformer_params *params, size_t d, size_t n, bool in_tokens,
                                bool has_gradient) {
    const double size = (double)d + 1, depth = (double)(params->depth > 0 ? params->depth : params->layers);
    return (work_sizes){.square = size * size,
                        .cube = size * size * size,
                        .inner_square = (double)d * (double)d,
                        .inner_cube = (double)d * (double)d * (double)d,
                        .context = (double)n * size * size,
                        .rows = ((double)n + 1) * size * size,
                        .heads = params->heads > 0 ? (double)params->heads : 1,
                        .layers = depth > 2 ? depth - 2 : 0,
                        .depth = (size_t)depth,
                        .in_tokens = in_tokens,
                        .has_gradient = has_gradient};
}

/* Returns the cost of `layers` layers whose Gram matrix or tokens are computed for the next layer. */
static double dense_layers(const work_sizes *sizes, double layers) {
    double forward, reverse, first; /* of any layer; of every layer except the first; of the first */

    if (sizes->in_tokens) {
        forward = 3 * sizes->heads * sizes->rows + 0.5 * sizes->context;
        reverse = 6 * sizes->heads * sizes->rows + sizes->context;
        first = 4 * sizes->heads * sizes->rows;
    } else {
        forward = (2 * sizes->heads + 1.5) * sizes->cube;
        reverse = (4 * sizes->heads + 2.5) * sizes->cube;
        first = (3 * sizes->heads + 1) * sizes->cube;
    }
    if (layers <= 0)
        return 0;
    return layers * forward + (sizes->has_gradient ? (layers - 1) * reverse + first : 0);
}

static double dense_pairs(const work_sizes *sizes) {
    return sizes->heads * (sizes->depth > 1 ? 2 * sizes->heads + 2 : 1);
}

static double dense_head(const work_sizes *sizes, bool has_layers_before) {
    const double heads = sizes->heads, before = sizes->depth > 1 ? heads : 0;
    const double forward = 3 * heads + before * (3 + 5 * heads);
    const double reverse = 2 * heads + before * (4 + 10 * heads);
    const double handed_on = has_layers_before ? dense_pairs(sizes) + heads : 0;
    return sizes->square * (forward + (sizes->has_gradient ? reverse + handed_on : 0));
}

/* Returns the cost of a layer that is applied to vectors, beyond the one product for each row that dense_head
 * counts. */
static double dense_passed(const work_sizes *sizes, bool has_layers_before) {
    const double heads = sizes->heads, rows = 2 * dense_pairs(sizes), rows_forward = heads * (2 * heads + 3);
    const double forward = 6 * heads * rows_forward + 3 * heads;
    const double reverse = 6 * heads * (rows - rows_forward) + 2 * heads + 2 * heads * (rows + 1);
    const double handed_on = has_layers_before ? 0.5 * rows + heads * (rows + 1) + heads : 0;
    return sizes->square * (forward + (sizes->has_gradient ? reverse + handed_on : 0));
}

static double dense_passing(const work_sizes *sizes) {
    const bool has_layers_before = sizes->layers > 1;
    return dense_layers(sizes, sizes->layers - 1) + dense_passed(sizes, has_layers_before) + dense_head(sizes, false);
}

static double dense_carrying(const work_sizes *sizes) {
    return dense_layers(sizes, sizes->layers) + dense_head(sizes, sizes->layers > 0);
}

static bool passes(const icl_linear_transformer_params *params, size_t d, size_t n, bool in_tokens) {
    const work_sizes sizes = work_sizes_of(params, d, n, in_tokens, true);
    const bool is_dense =
        params->parameterization == ICL_LINEAR_FULL || params->parameterization == ICL_LINEAR_SPARSE_B;
    return is_dense && sizes.layers > 0 && dense_passing(&sizes) < dense_carrying(&sizes);
}

bool icl_linear_passes(const icl_linear_transformer_params *params, size_t d, size_t n) {
    return passes(params, d, n, params->space == ICL_SPACE_TOKENS);
}

static double diagonal_layers(const work_sizes *sizes) {
    const double forward =
        sizes->in_tokens ? sizes->rows + 0.5 * sizes->context : sizes->inner_cube + 4 * sizes->inner_square;
    const double reverse =
        sizes->in_tokens ? 2 * sizes->rows + sizes->context : 2 * sizes->inner_cube + 8 * sizes->inner_square;
    const double first = sizes->in_tokens ? sizes->rows : sizes->inner_square;
    const double head = sizes->square * (sizes->depth > 1 ? (sizes->has_gradient ? 10 : 4) : 0);
    if (sizes->layers == 0)
        return head;
    return head + sizes->layers * forward + (sizes->has_gradient ? (sizes->layers - 1) * reverse + first : 0);
}

static double multiplications(const icl_linear_transformer_params *params, size_t d, size_t n, bool in_tokens,
                              bool has_gradient) {
    const work_sizes sizes = work_sizes_of(params, d, n, in_tokens, has_gradient);
    const double first_gram = 0.5 * sizes.context;

    switch (params->parameterization) {
    case ICL_LINEAR_FULL:
    case ICL_LINEAR_SPARSE_B:
        return first_gram + (passes(params, d, n, in_tokens) ? dense_passing(&sizes) : dense_carrying(&sizes));
    case ICL_LINEAR_DIAG:
    case ICL_LINEAR_GDPP:
        return first_gram + diagonal_layers(&sizes);
    case ICL_LINEAR_SPARSE:
        return first_gram + (double)d * (double)d * (double)sizes.depth * (has_gradient ? 5 : 2);
    case ICL_PARAMETERIZATION_COUNT:
        break;
    }
    return 0;
}

/* Returns the cheaper space for n context tokens, counting the gradient. */
static icl_linear_space choose_space(const icl_linear_transformer_params *params, size_t d, size_t n) {
    return multiplications(params, d, n, true, true) < multiplications(params, d, n, false, true) ? ICL_SPACE_TOKENS
                                                                                                  : ICL_SPACE_GRAM;
}

double icl_linear_transformer_flops(const icl_linear_transformer_params *params, size_t d, size_t n, size_t batch,
                                    bool has_gradient) {
    const double in_gram = multiplications(params, d, n, false, has_gradient);
    const double in_tokens = multiplications(params, d, n, true, has_gradient);
    const bool may_gram = params->space != ICL_SPACE_TOKENS || n == 0,
               may_tokens = params->space != ICL_SPACE_GRAM && n > 0;
    const double least = may_gram && (!may_tokens || in_gram <= in_tokens) ? in_gram : in_tokens;
    return 2 * least * (double)batch;
}

/* ---- Public ops ---- */

/* The consecutive operands tokens, gram and query, which both ops have. */
enum { TOKENS = 0, GRAM, QUERY };

static icl_status check_params(const char *op, const icl_linear_transformer_params *params, icl_error *error) {
    if ((unsigned)params->parameterization >= ICL_PARAMETERIZATION_COUNT)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: unknown parameterization %d", op, (int)params->parameterization);
    if ((unsigned)params->space > ICL_SPACE_TOKENS)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: unknown space %d", op, (int)params->space);
    if (params->layers == 0)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: no layers, expected at least 1", op);
    if (params->depth > params->layers)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: depth %zu of %zu layers, expected at most all", op, params->depth,
                        params->layers);
    if (!isfinite(params->factor))
        return icl_fail(error, ICL_ERROR_INPUT, "%s: factor %g, expected a finite number", op, params->factor);
    return ICL_OK;
}

/* Finds D and the number of context tokens, which is 0 if Gram matrices are given. */
static icl_status find_extents(const char *op, const icl_tensor *sequences, size_t *size, size_t *context,
                               icl_error *error) {
    const icl_tensor *tokens = &sequences[TOKENS], *query = &sequences[QUERY];
    const bool is_gram = sequences[GRAM].buffer != NULL;

    if ((tokens->buffer != NULL) == is_gram || is_gram != (query->buffer != NULL))
        return icl_fail(error, ICL_ERROR_INPUT, "%s: expected either tokens, or gram and query", op);
    if (is_gram && query->rank != 2)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: query has rank %d, expected [B, D]", op, query->rank);
    if (!is_gram && (tokens->rank != 3 || tokens->shape[1] == 0))
        return icl_fail(error, ICL_ERROR_INPUT, "%s: tokens have rank %d, expected [B, n + 1, D]", op, tokens->rank);
    *size = is_gram ? query->shape[1] : tokens->shape[2];
    *context = is_gram ? 0 : tokens->shape[1] - 1;
    if (*size < 2)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: tokens of %zu coordinates, expected at least 2", op, *size);
    return ICL_OK;
}

/* Sets the params that were left open, and checks that the number of parameters does not overflow. */
static icl_status complete_params(const char *op, size_t size, size_t context, bool is_gram,
                                  icl_linear_transformer_params *params, icl_error *error) {
    size_t square, of_layer, all;

    params->heads = params->heads > 0 ? params->heads : 1;
    params->depth = params->depth > 0 ? params->depth : params->layers;
    if (!icl_multiply_sizes(size, size, &square) || square > SIZE_MAX / 2 ||
        !icl_multiply_sizes(2 * square, params->heads, &of_layer) ||
        !icl_multiply_sizes(of_layer, params->layers, &all))
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s: %zu layers of %zu heads for tokens of %zu coordinates overflow the address space", op,
                        params->layers, params->heads, size);
    if (is_gram)
        params->space = ICL_SPACE_GRAM;
    else if (params->space == ICL_SPACE_AUTO)
        params->space = choose_space(params, size - 1, context);
    return ICL_OK;
}

/* Completes the params and runs the call. The tokens are operand `first`. */
static icl_status call_linear_transformer(icl_call *call, int first, icl_error *error) {
    const char *op = icl_op_infos[call->op].name;
    const icl_tensor *sequences = call->operands + first;
    icl_linear_transformer_params params = *(const icl_linear_transformer_params *)call->params;
    size_t size = 0, context = 0;

    ICL_CHECK(check_params(op, &params, error));
    ICL_CHECK(find_extents(op, sequences, &size, &context, error));
    ICL_CHECK(complete_params(op, size, context, sequences[GRAM].buffer != NULL, &params, error));
    icl_call_set(call, 'D', size);
    icl_call_set(call, 'N', icl_linear_transformer_size(&params, size - 1));
    call->params = &params;
    return icl_call_op(call, error);
}

icl_status icl_linear_transformer_predict(icl_backend *backend, const icl_linear_transformer_params *params,
                                          icl_tensor predictions, icl_tensor parameters, icl_tensor tokens,
                                          icl_tensor gram, icl_tensor query, icl_error *error) {
    icl_tensor operands[] = {predictions, parameters, tokens, gram, query};
    icl_call call = {
        .backend = backend, .op = ICL_OP_linear_transformer_predict, .params = params, .operands = operands};
    return call_linear_transformer(&call, 2, error);
}

icl_status icl_linear_transformer_gradient(icl_backend *backend, const icl_linear_transformer_params *params,
                                           icl_tensor losses, icl_tensor gradient, icl_tensor norms,
                                           icl_tensor parameters, icl_tensor tokens, icl_tensor gram, icl_tensor query,
                                           icl_tensor targets, icl_tensor threshold, icl_error *error) {
    icl_tensor operands[] = {losses, gradient, norms, parameters, tokens, gram, query, targets, threshold};
    icl_call call = {.backend = backend,
                     .op = ICL_OP_linear_transformer_gradient,
                     .params = params,
                     .operands = operands,
                     .required = (unsigned)(threshold.buffer != NULL) << 2}; /* norms */
    return call_linear_transformer(&call, 4, error);
}
