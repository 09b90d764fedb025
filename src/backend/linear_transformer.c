#include "backend/linear_transformer.h"

size_t icl_linear_p_size(icl_parameterization parameterization, size_t d) {
    switch (parameterization) {
    case ICL_LINEAR_FULL:
        return (d + 1) * (d + 1);
    case ICL_LINEAR_DIAG:
    case ICL_LINEAR_GDPP:
        return 2;
    case ICL_LINEAR_SPARSE_B:
        return d * d;
    case ICL_LINEAR_SPARSE:
    case ICL_PARAMETERIZATION_COUNT:
        break;
    }
    return 0;
}

size_t icl_linear_q_size(icl_parameterization parameterization, size_t d) {
    switch (parameterization) {
    case ICL_LINEAR_FULL:
        return (d + 1) * (d + 1);
    case ICL_LINEAR_DIAG:
        return 2;
    case ICL_LINEAR_GDPP:
        return 1;
    case ICL_LINEAR_SPARSE:
    case ICL_LINEAR_SPARSE_B:
        return d * d;
    case ICL_PARAMETERIZATION_COUNT:
        break;
    }
    return 0;
}

static size_t layer_size(const icl_linear_transformer_params *params, size_t d) {
    const size_t heads = params->heads > 0 ? params->heads : 1;
    return heads * (icl_linear_p_size(params->parameterization, d) + icl_linear_q_size(params->parameterization, d));
}

size_t icl_linear_transformer_size(const icl_linear_transformer_params *params, size_t d) {
    return params->layers * layer_size(params, d);
}

size_t icl_linear_layer_offset(const icl_linear_transformer_params *params, size_t d, size_t i) {
    return (i + 1 < params->depth ? i : params->layers - 1) * layer_size(params, d);
}

/* ---- Cost ---- */

/*
 * Multiplications with one addition, for one sequence. What counts are products, symmetric ones by half; elementwise
 * work of D^2 is left out. The last two layers are products of matrices and vectors, the one before them may be, and
 * the first layer's own tokens or Gram matrix need no gradient: dense.c, head.c, pass.c, diagonal.c, diagonal_gram.c
 * and sparse.c in src/backend/cpu/kernels/linear_transformer/ hold the formulas.
 */
typedef struct sizes {
    double square, cube;             /* D^2, D^3 */
    double inner_square, inner_cube; /* d^2, d^3 */
    double context, rows;            /* n D^2, (n + 1) D^2 */
    double heads, layers;            /* H, and layers before the last two */
    size_t depth;
    bool in_tokens, has_gradient;
} sizes;

static sizes sizes_of(const icl_linear_transformer_params *params, size_t d, size_t n, bool in_tokens,
                      bool has_gradient) {
    const double size = (double)d + 1, depth = (double)(params->depth > 0 ? params->depth : params->layers);
    return (sizes){.square = size * size,
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

/* Layers whose Gram matrix or tokens are carried on. */
static double dense_layers(const sizes *is, double layers) {
    double forward, reverse, first; /* of a layer; of a layer but the first; of the first */

    if (is->in_tokens) {
        forward = 3 * is->heads * is->rows + 0.5 * is->context;
        reverse = 6 * is->heads * is->rows + is->context;
        first = 4 * is->heads * is->rows;
    } else {
        forward = (2 * is->heads + 1.5) * is->cube;
        reverse = (4 * is->heads + 2.5) * is->cube;
        first = (3 * is->heads + 1) * is->cube;
    }
    if (layers <= 0)
        return 0;
    return layers * forward + (is->has_gradient ? (layers - 1) * reverse + first : 0);
}

static double dense_pairs(const sizes *is) {
    return is->heads * (is->depth > 1 ? 2 * is->heads + 2 : 1);
}

static double dense_head(const sizes *is, bool has_layers_before) {
    const double heads = is->heads, before = is->depth > 1 ? heads : 0;
    const double forward = 3 * heads + before * (3 + 5 * heads);
    const double reverse = 2 * heads + before * (4 + 10 * heads);
    const double handed_on = has_layers_before ? dense_pairs(is) + heads : 0;
    return is->square * (forward + (is->has_gradient ? reverse + handed_on : 0));
}

/* A layer passed on to vectors, beyond what the head counts as one product for each of its rows. */
static double dense_passed(const sizes *is, bool has_layers_before) {
    const double heads = is->heads, rows = 2 * dense_pairs(is), rows_forward = heads * (2 * heads + 3);
    const double forward = 6 * heads * rows_forward + 3 * heads;
    const double reverse = 6 * heads * (rows - rows_forward) + 2 * heads + 2 * heads * (rows + 1);
    const double handed_on = has_layers_before ? 0.5 * rows + heads * (rows + 1) + heads : 0;
    return is->square * (forward + (is->has_gradient ? reverse + handed_on : 0));
}

static double dense_passing(const sizes *is) {
    const bool has_layers_before = is->layers > 1;
    return dense_layers(is, is->layers - 1) + dense_passed(is, has_layers_before) + dense_head(is, false);
}

static double dense_carrying(const sizes *is) {
    return dense_layers(is, is->layers) + dense_head(is, is->layers > 0);
}

static bool passes(const icl_linear_transformer_params *params, size_t d, size_t n, bool in_tokens) {
    const sizes is = sizes_of(params, d, n, in_tokens, true);
    const bool is_dense =
        params->parameterization == ICL_LINEAR_FULL || params->parameterization == ICL_LINEAR_SPARSE_B;
    return is_dense && is.layers > 0 && dense_passing(&is) < dense_carrying(&is);
}

bool icl_linear_passes(const icl_linear_transformer_params *params, size_t d, size_t n) {
    return passes(params, d, n, params->space == ICL_SPACE_TOKENS);
}

static double diagonal_layers(const sizes *is) {
    const double forward = is->in_tokens ? is->rows + 0.5 * is->context : is->inner_cube + 4 * is->inner_square;
    const double reverse = is->in_tokens ? 2 * is->rows + is->context : 2 * is->inner_cube + 8 * is->inner_square;
    const double first = is->in_tokens ? is->rows : is->inner_square;
    const double head = is->square * (is->depth > 1 ? (is->has_gradient ? 10 : 4) : 0);
    if (is->layers == 0)
        return head;
    return head + is->layers * forward + (is->has_gradient ? (is->layers - 1) * reverse + first : 0);
}

static double multiplications(const icl_linear_transformer_params *params, size_t d, size_t n, bool in_tokens,
                              bool has_gradient) {
    const sizes is = sizes_of(params, d, n, in_tokens, has_gradient);
    const double first_gram = 0.5 * is.context;

    switch (params->parameterization) {
    case ICL_LINEAR_FULL:
    case ICL_LINEAR_SPARSE_B:
        return first_gram + (passes(params, d, n, in_tokens) ? dense_passing(&is) : dense_carrying(&is));
    case ICL_LINEAR_DIAG:
    case ICL_LINEAR_GDPP:
        return first_gram + diagonal_layers(&is);
    case ICL_LINEAR_SPARSE:
        return first_gram + (double)d * (double)d * (double)is.depth * (has_gradient ? 5 : 2);
    case ICL_PARAMETERIZATION_COUNT:
        break;
    }
    return 0;
}

icl_linear_space icl_linear_choose_space(const icl_linear_transformer_params *params, size_t d, size_t n) {
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
