/*
 * Linear transformers: Vladymyrov, von Oswald, Sandler, Ge 2024 (arXiv 2402.14180), section 3; with the
 * sparse forms of Ahn, Cheng, Daneshmand, Sra 2023 (arXiv 2306.00297), equations 8 and 11.
 *
 * With tokens e_i = (x_i, y_i) in R^D, D = d + 1, context i = 1..n and query i = n + 1, a layer is
 *
 *     e_i <- e_i + factor * sum over heads of P (sum_{j <= n} e_j e_j^T) Q e_i
 *     prediction = -(last coordinate of the query)
 *
 * with factor 1 ("raw") or 1/n ("mean"); or, for comparison, with the softmax of its weights over the context
 * (model.scale = softmax, on the tape only). Tokens are rows here, so with Z [B, n + 1, D] and one head
 *
 *     U = Z Q^T
 *     A_i = factor * sum_{j <= n} (u_i . e_j) e_j      (linear attention, keys = values = Z)
 *     Z <- Z + A P^T
 *
 * With model.tied all layers are one, applied again and again (a looped transformer).
 *
 * In the last layer only the query's row is needed. The bilinear form is e_j^T Q e_i, context on the left,
 * as in both papers' formulas; code that writes z_i^T Q z_j has the transpose of our Q.
 */
#include "model/linear_transformer.h"

#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "core/recipe_keys.h"
#include "iclab/status.h"

/* How the D x D matrix of a part is made from its parameter. */
typedef enum part_kind {
    PART_MATRIX,                /* [D, D]: itself */
    PART_DIAGONAL,              /* [2] = (x, y): diag(x … x, y) */
    PART_INPUT_DIAGONAL,        /* [1] = (x): diag(x … x, 0) */
    PART_LABEL_ONE,             /* no parameter: diag(0 … 0, 1) */
    PART_INPUT_BLOCK,           /* [d, d] = A: [A 0; 0 0] */
    PART_INPUT_BLOCK_LABEL_ONE, /* [d, d] = B: [B 0; 0 1] */
    PART_DIAGONAL_LOW_RANK,     /* [1 + 2r, D] = (p; u_1 … u_r; v_1 … v_r): diag(p) + sum of u_k v_k^T */
} part_kind;

typedef struct layer_part {
    const char *name; /* the last part of the parameter's name; NULL if nothing is trained */
    part_kind kind;
} layer_part;

/* P and Q of a form. */
typedef struct part_pair {
    layer_part parts[ICL_LINEAR_PARTS];
} part_pair;

typedef struct transformer_state {
    /* model.parameterization as the backend's ops know it: full for diag+lowrank. */
    icl_parameterization parameterization;
    size_t rank; /* r of diag+lowrank; 0 for all others */
    const part_pair *pair;
    size_t heads;
    icl_linear_space space; /* model.space, unless the model is composed on the tape */
    bool is_tied;           /* every layer is the first one */
    bool is_mean;           /* attention has the factor 1/n */
    bool is_softmax;        /* attention weights are a softmax over the context */
    bool is_composed;       /* recorded on the tape from general ops, not run by the family's fused ones */
    bool from_descent;      /* starts near gradient descent instead of near zero */
    double init_std, coupling_std;
} transformer_state;

/* ---- Matrices ---- */

/* These functions form the matrices that parameters stand for, and convert a model into a full one. */

size_t icl_linear_own_layers(const icl_model *model) {
    return ((const transformer_state *)model->state)->is_tied ? 1 : model->layers;
}

/* Returns the number of parameters of one head. */
static size_t trained_parts(const part_pair *pair) {
    size_t count = 0;
    for (int part = 0; part < ICL_LINEAR_PARTS; part++)
        count += pair->parts[part].name != NULL;
    return count;
}

/* Returns the parameter that a part of a head is made from; NULL if that part is not trained. */
static const icl_parameter_info *find_parameter(const icl_model *model, size_t layer, size_t head, int part) {
    const transformer_state *state = model->state;
    const size_t trained = trained_parts(state->pair);
    const size_t own = state->is_tied ? 0 : layer;
    size_t index = (own * state->heads + head) * trained;

    if (!state->pair->parts[part].name)
        return NULL;
    for (int before = 0; before < part; before++)
        index += state->pair->parts[before].name != NULL;
    return &model->parameters[index];
}

/* Sets matrix to diag(p) + sum of u_k v_k^T. */
static void fill_low_rank(const float *parameter, size_t rank, size_t width, float *matrix) {
    const float *left = parameter + width, *right = left + rank * width;

    for (size_t i = 0; i < width; i++)
        for (size_t j = 0; j < width; j++) {
            double sum = i == j ? (double)parameter[i] : 0;
            for (size_t k = 0; k < rank; k++)
                sum += (double)left[k * width + i] * (double)right[k * width + j];
            matrix[i * width + j] = (float)sum;
        }
}

/* Writes the D x D matrix of a part. parameter is NULL if the part has none. */
static void fill_matrix(part_kind kind, const float *parameter, size_t rank, size_t d, float *matrix) {
    const size_t width = d + 1;

    memset(matrix, 0, width * width * sizeof *matrix);
    if (kind == PART_LABEL_ONE)
        matrix[width * width - 1] = 1;
    if (!parameter)
        return;
    switch (kind) {
    case PART_MATRIX:
        memcpy(matrix, parameter, width * width * sizeof *matrix);
        break;
    case PART_DIAGONAL:
    case PART_INPUT_DIAGONAL:
        for (size_t i = 0; i < d; i++)
            matrix[i * width + i] = parameter[0];
        matrix[width * width - 1] = kind == PART_DIAGONAL ? parameter[1] : 0;
        break;
    case PART_INPUT_BLOCK:
    case PART_INPUT_BLOCK_LABEL_ONE:
        for (size_t i = 0; i < d; i++)
            memcpy(matrix + i * width, parameter + i * d, d * sizeof *matrix);
        matrix[width * width - 1] = kind == PART_INPUT_BLOCK_LABEL_ONE ? 1 : 0;
        break;
    case PART_LABEL_ONE:
        break;
    case PART_DIAGONAL_LOW_RANK:
        fill_low_rank(parameter, rank, width, matrix);
        break;
    }
}

static icl_status check_family(const icl_model *model, icl_error *error) {
    if (model->family == &icl_linear_transformer)
        return ICL_OK;
    return icl_fail(error, ICL_ERROR_INPUT, "model.family = %s: expected linear: no other has P and Q",
                    model->family->name);
}

icl_status icl_model_dense(const icl_model *model, const float *values, size_t layer, size_t head, icl_model_part part,
                           float *matrix, icl_error *error) {
    const transformer_state *state = model->state;

    ICL_CHECK(check_family(model, error));
    if (layer >= model->layers || head >= state->heads)
        return icl_fail(error, ICL_ERROR_INPUT, "layer %zu, head %zu: expected them below %zu and %zu", layer, head,
                        model->layers, state->heads);
    const icl_parameter_info *info = find_parameter(model, layer, head, (int)part);
    fill_matrix(state->pair->parts[part].kind, info ? values + info->offset : NULL, state->rank, model->dimension,
                matrix);
    return ICL_OK;
}

size_t icl_model_heads(const icl_model *model) {
    const transformer_state *state = model->state;
    return model->family == &icl_linear_transformer ? state->heads : 1;
}

double icl_model_attention_factor(const icl_model *model) {
    const transformer_state *state = model->state;
    return model->family == &icl_linear_transformer && state->is_mean ? 1.0 / (double)model->context : 1.0;
}

icl_status icl_model_embed(const icl_model *from, const float *from_values, const icl_model *to, float *to_values,
                           icl_error *error) {
    const transformer_state *state = to->state;
    icl_status status = ICL_OK;

    ICL_TRY(check_family(from, error));
    ICL_TRY(check_family(to, error));
    if (state->parameterization != ICL_LINEAR_FULL || state->rank > 0 || state->is_tied || from->layers > to->layers ||
        icl_model_heads(from) != state->heads || from->dimension != to->dimension) {
        status =
            icl_fail(error, ICL_ERROR_INPUT,
                     "a model of %zu layers, %zu heads and %zu inputs cannot become the other: expected a "
                     "full one, not tied, of as many heads and inputs and no fewer layers (%zu, %zu, %zu)",
                     from->layers, icl_model_heads(from), from->dimension, to->layers, state->heads, to->dimension);
        goto done;
    }
    for (size_t layer = 0; layer < from->layers; layer++) {
        const size_t place = layer + 1 < from->layers ? layer : to->layers - 1;
        for (size_t head = 0; head < state->heads; head++)
            for (int part = 0; part < ICL_LINEAR_PARTS; part++)
                ICL_TRY(icl_model_dense(from, from_values, layer, head, (icl_model_part)part,
                                        to_values + find_parameter(to, place, head, part)->offset, error));
    }
done:
    return status;
}

/* ---- Initial parameters ---- */

/*
 * model.initialization = normal: every number ~ N(0, init_std^2), as in Ahn et al.
 *
 * model.initialization = descent: a fixed start whose layers are short steps of (preconditioned) gradient
 * descent, plus noise of init_std. In units of the 1/n scaling and with w_xx = p_x q_x, w_yx = p_y q_x (the
 * weights of the paper's diagonal layer) the start is
 *
 *     diag:          p = (-.3, -.6), q = (.6, 0)        w_xx = -.18, w_yx = -.36
 *     gd++:          p = (-.3, -.3), q = .6             w_xx = w_yx = -.18
 *     full:          P = -.1 I,  Q = diag(.3 … .3, 0)   w_xx = w_yx = -.03
 *     diag+lowrank:  as diag, and products of noise
 *     sparse(-b):    A = -.03 I,  B = I                 w_xx = w_yx = -.03
 *
 * and in full layers noise of coupling_std, if that is not 0, in the entries between the first input and the label.
 * Trained full layers differ from diagonal ones by one direction of x, in which they write and read what belongs to the
 * label; a symmetric start does not find it, one that is far from symmetry in all directions diverges when it is deep.
 *
 * These were found in a search over starts: from small random numbers deep models diverge or stay at plateaus. For raw
 * sums the same function needs products P Q that are n times smaller: P and Q (and their noise) are divided
 * by sqrt(n), A by n. Several heads share the product equally.
 */

static const icl_linear_layer first_start[] = {
    [ICL_LINEAR_FULL] = {-0.1, -0.1, 0.3},     [ICL_LINEAR_DIAG] = {-0.3, -0.6, 0.6},
    [ICL_LINEAR_GDPP] = {-0.3, -0.3, 0.6},     [ICL_LINEAR_SPARSE] = {0.0, 0.0, -0.03},
    [ICL_LINEAR_SPARSE_B] = {1.0, 0.0, -0.03},
};

/* The start of the last of several layers of gd++. Two such layers (noise free, d = 10, n = 20) that start alike end
 * with the longer step first, at half a squared error of .39; if the last step starts longer, they end at .34, the
 * local optimum that the paper lists, or, if the first layer also starts with w_xx = w_yx, at the global one of .26. */
static const icl_linear_layer gdpp_last_start = {-0.3, -1.5, 1.5};

/* The start of an inserted layer, which changes nothing: P = 0, or A = 0 if P is fixed. */
static const icl_linear_layer inserted_start[] = {
    [ICL_LINEAR_FULL] = {0.0, 0.0, 0.3},   [ICL_LINEAR_DIAG] = {0.0, 0.0, 0.3},     [ICL_LINEAR_GDPP] = {0.0, 0.0, 0.3},
    [ICL_LINEAR_SPARSE] = {0.0, 0.0, 0.0}, [ICL_LINEAR_SPARSE_B] = {1.0, 0.0, 0.0},
};

/* Returns the factor that makes up for this model's attention factor in a part. */
static double unit_of(const icl_model *model, int part) {
    const transformer_state *state = model->state;
    const double n = (double)model->context;

    if (state->is_mean)
        return 1.0;
    if (state->pair->parts[ICL_LINEAR_P].kind == PART_LABEL_ONE ||
        state->pair->parts[ICL_LINEAR_P].kind == PART_INPUT_BLOCK_LABEL_ONE)
        return part == ICL_LINEAR_Q ? 1.0 / n : 1.0;
    return 1.0 / sqrt(n);
}

/* Returns the start's value at (row, column) of a part's D x D matrix. */
static double start_at(const icl_linear_layer *start, int part, size_t d, size_t row, size_t column) {
    if (row != column)
        return 0.0;
    if (part == ICL_LINEAR_P)
        return row < d ? start->p_x : start->p_y;
    return row < d ? start->q_x : start->q_y;
}

static double noise_std(const transformer_state *state, size_t d, const icl_parameter_info *info, size_t row,
                        size_t column) {
    const bool couples =
        info->rank == 2 && info->shape[0] == d + 1 && (row == 0 || row == d) && (column == 0 || column == d);
    return couples && state->coupling_std > 0 ? state->coupling_std : state->init_std;
}

/* Initializes diag(p) + sum of u_k v_k^T: p to the diagonal start, u and v so large that their products have entries of
 * init_std, because at u = v = 0 the gradient of both is 0. */
static void initialize_low_rank(const icl_model *model, const icl_linear_layer *start, int part,
                                const icl_parameter_info *info, uint32_t seed, float *values) {
    const transformer_state *state = model->state;
    const size_t width = info->shape[1];
    const double unit = start ? unit_of(model, part) : 1.0;
    const double share = part == ICL_LINEAR_Q ? unit / (double)state->heads : unit;

    for (size_t i = 0; i < info->count; i++) {
        const double noise = (double)icl_model_noise(seed, info->offset + i);
        values[i] = (float)(i >= width ? sqrt(unit * state->init_std) * noise
                            : start    ? share * start_at(start, part, width - 1, i, i) + unit * state->init_std * noise
                                       : state->init_std * noise);
    }
}

static void initialize_part(const icl_model *model, const icl_linear_layer *start, int part,
                            const icl_parameter_info *info, uint32_t seed, float *values) {
    const transformer_state *state = model->state;
    const double unit = unit_of(model, part);
    const double share = part == ICL_LINEAR_Q ? unit / (double)state->heads : unit;

    if (state->rank > 0) {
        initialize_low_rank(model, start, part, info, seed, values + info->offset);
        return;
    }
    for (size_t i = 0; i < info->count; i++) {
        /* A vector holds the diagonal's entries for an input (0) and the label (1). */
        const size_t row = info->rank == 2 ? i / info->shape[1] : i == 0 ? 0 : model->dimension;
        const size_t column = info->rank == 2 ? i % info->shape[1] : row;
        const double noise =
            noise_std(state, model->dimension, info, row, column) * (double)icl_model_noise(seed, info->offset + i);
        values[info->offset + i] =
            start ? (float)(share * start_at(start, part, model->dimension, row, column) + unit * noise) : (float)noise;
    }
}

static void initialize_layer(const icl_model *model, const icl_linear_layer *start, size_t layer, uint32_t seed,
                             float *values) {
    const transformer_state *state = model->state;
    const size_t per_layer = state->heads * trained_parts(state->pair);
    const icl_parameter_info *info = &model->parameters[layer * per_layer];

    for (size_t head = 0; head < state->heads; head++)
        for (int part = 0; part < ICL_LINEAR_PARTS; part++)
            if (state->pair->parts[part].name)
                initialize_part(model, start, part, info++, seed, values);
}

static icl_parameterization start_parameterization(const transformer_state *state) {
    return state->rank > 0 ? ICL_LINEAR_DIAG : state->parameterization;
}

static const icl_linear_layer *start_of(const icl_model *model, size_t layer) {
    const transformer_state *state = model->state;
    if (!state->from_descent)
        return NULL;
    if (state->parameterization == ICL_LINEAR_GDPP && layer > 0 && layer + 1 == model->layers)
        return &gdpp_last_start;
    return &first_start[start_parameterization(state)];
}

static void initialize(const icl_model *model, uint32_t seed, float *values) {
    for (size_t layer = 0; layer < icl_linear_own_layers(model); layer++)
        initialize_layer(model, start_of(model, layer), layer, seed, values);
}

void icl_linear_initialize_at(const icl_model *model, const icl_linear_layer *layers, uint32_t seed, float *values) {
    for (size_t layer = 0; layer < icl_linear_own_layers(model); layer++)
        initialize_layer(model, &layers[layer], layer, seed, values);
}

static void initialize_inserted(const icl_model *model, size_t layer, uint32_t seed, float *values) {
    const transformer_state *state = model->state;
    initialize_layer(model, &inserted_start[start_parameterization(state)], layer, seed, values);
}

/* ---- Fused ops ---- */

/* Runs linear transformers with the backend's ops for the whole model, instead of on the tape. */

static icl_linear_transformer_params params_of(const icl_model *model, size_t depth) {
    const transformer_state *state = model->state;
    return (icl_linear_transformer_params){
        .parameterization = state->parameterization,
        .layers = state->is_tied ? depth : model->layers,
        .depth = depth,
        .heads = state->heads,
        .factor = state->is_mean ? 1.0 / (double)model->context : 1.0,
        .space = state->space,
    };
}

/* Creates `depth` copies of a tied model's one layer, because the ops want parameters for every layer. */
static icl_status repeat_parameters(const icl_model *model, icl_backend *backend, size_t depth, icl_tensor parameters,
                                    icl_tensor *repeated, icl_error *error) {
    const size_t rows[] = {depth, model->size}, row[] = {1, model->size}, all = depth * model->size;
    icl_status status = ICL_OK;

    ICL_TRY(icl_tensor_create(backend, 1, &all, repeated, error));
    ICL_TRY(icl_copy(backend, icl_tensor_reshape(*repeated, 2, rows),
                     icl_tensor_broadcast(icl_tensor_reshape(parameters, 2, row), 0, depth), error));
done:
    return status;
}

/* ---- The matrices of diag+lowrank ---- */

/* Views of a vector of parameters (or of their gradient) [M, 1 + 2r, D], M = 2 layers * heads matrices; their dense
 * form is [M, D, D]. */
typedef struct low_rank {
    size_t matrices, rank, width;
    icl_tensor diagonal, left, right; /* [M, 1, D], [M, r, D], [M, r, D] */
} low_rank;

static low_rank view_low_rank(const icl_model *model, icl_tensor vector) {
    const transformer_state *state = model->state;
    const size_t rank = state->rank, width = model->dimension + 1;
    const size_t shape[] = {model->layers * state->heads * ICL_LINEAR_PARTS, 1 + 2 * rank, width};
    const icl_tensor all = icl_tensor_reshape(vector, 3, shape);

    return (low_rank){shape[0],
                      rank,
                      width,
                      icl_tensor_slice(all, 1, 0, 1),
                      icl_tensor_slice(all, 1, 1, rank),
                      icl_tensor_slice(all, 1, 1 + rank, rank)};
}

/* Returns the diagonals of matrices [M, D, D] as [M, D], a view. */
static icl_tensor diagonals_of(icl_tensor dense) {
    icl_tensor view = dense;

    view.rank = 2;
    view.stride[1] += dense.stride[2];
    return view;
}

/* Returns [M, 1, D] as [M, D], a view. */
static icl_tensor first_row(icl_tensor rows) {
    icl_tensor view = rows;

    view.rank = 2;
    view.shape[1] = rows.shape[2];
    view.stride[1] = rows.stride[2];
    return view;
}

/* Creates *dense [N], the parameters of the full model: diag(p) + U^T V for each matrix. */
static icl_status make_dense(const icl_model *model, icl_backend *backend, icl_tensor parameters, icl_tensor *dense,
                             icl_error *error) {
    const low_rank parts = view_low_rank(model, parameters);
    const size_t shape[] = {parts.matrices, parts.width, parts.width};
    const size_t all = shape[0] * shape[1] * shape[2];
    icl_status status = ICL_OK;

    ICL_TRY(icl_tensor_create(backend, 1, &all, dense, error));
    const icl_tensor matrices = icl_tensor_reshape(*dense, 3, shape), diagonals = diagonals_of(matrices);
    ICL_TRY(icl_matmul(backend, matrices, 1.0, icl_tensor_swap_axes(parts.left, 1, 2), parts.right, 0.0, error));
    ICL_TRY(icl_binary(backend, ICL_ADD, diagonals, diagonals, first_row(parts.diagonal), error));
done:
    return status;
}

/* ---- The ops ---- */

/* Creates the parameters that the ops take, to be released by the caller. Creates none if they are the model's own. */
static icl_status make_parameters(const icl_model *model, icl_backend *backend, size_t depth, icl_tensor parameters,
                                  icl_tensor *tensor, icl_error *error) {
    const transformer_state *state = model->state;

    if (state->is_tied)
        return repeat_parameters(model, backend, depth, parameters, tensor, error);
    if (state->rank > 0)
        return make_dense(model, backend, parameters, tensor, error);
    return ICL_OK;
}

static icl_status predict_fused(const icl_model *model, icl_backend *backend, size_t depth,
                                const icl_model_tensors *tensors, icl_error *error) {
    const icl_linear_transformer_params params = params_of(model, depth);
    icl_tensor made = {0};
    icl_status status = ICL_OK;

    ICL_TRY(make_parameters(model, backend, depth, tensors->parameters, &made, error));
    ICL_TRY(icl_linear_transformer_predict(backend, &params, tensors->predictions,
                                           made.buffer ? made : tensors->parameters, tensors->tokens, tensors->gram,
                                           tensors->query, error));
done:
    icl_tensor_release(&made);
    return status;
}
static icl_status gradient(const icl_model *model, icl_backend *backend, size_t depth, const icl_model_tensors *tensors,
                           icl_tensor parameters, icl_tensor out, icl_error *error) {
    const icl_linear_transformer_params params = params_of(model, depth);
    return icl_linear_transformer_gradient(backend, &params, tensors->losses, out, tensors->norms, parameters,
                                           tensors->tokens, tensors->gram, tensors->query, tensors->targets,
                                           tensors->threshold, error);
}

/* Computes d loss / d parameters of a tied model, the sum over the layers that share them. The norms are those of all
 * layers' gradients side by side: the trainer cuts no sequence by them. */
static icl_status gradient_of_tied(const icl_model *model, icl_backend *backend, size_t depth,
                                   const icl_model_tensors *tensors, icl_error *error) {
    const size_t rows[] = {depth, model->size}, row[] = {1, model->size}, all = depth * model->size;
    icl_tensor repeated = {0}, of_layers = {0};
    icl_status status = ICL_OK;

    ICL_TRY(repeat_parameters(model, backend, depth, tensors->parameters, &repeated, error));
    ICL_TRY(icl_tensor_create(backend, 1, &all, &of_layers, error));
    ICL_TRY(gradient(model, backend, depth, tensors, repeated, of_layers, error));
    ICL_TRY(icl_reduce(backend, ICL_SUM, 1, icl_tensor_reshape(tensors->gradient, 2, row),
                       icl_tensor_reshape(of_layers, 2, rows), error));
done:
    icl_tensor_release(&repeated);
    icl_tensor_release(&of_layers);
    return status;
}

/* Computes the gradient of diag+lowrank. With g = d loss / d (diag(p) + U^T V), the gradient of p is the diagonal of
 * g, that of U is V g^T, and that of V is U g. The norms are those of g. */
static icl_status gradient_of_low_rank(const icl_model *model, icl_backend *backend, size_t depth,
                                       const icl_model_tensors *tensors, icl_error *error) {
    const low_rank parts = view_low_rank(model, tensors->parameters), out = view_low_rank(model, tensors->gradient);
    const size_t shape[] = {parts.matrices, parts.width, parts.width};
    const size_t all = shape[0] * shape[1] * shape[2];
    icl_tensor dense = {0}, of_dense = {0};
    icl_status status = ICL_OK;

    ICL_TRY(make_dense(model, backend, tensors->parameters, &dense, error));
    ICL_TRY(icl_tensor_create(backend, 1, &all, &of_dense, error));
    ICL_TRY(gradient(model, backend, depth, tensors, dense, of_dense, error));
    const icl_tensor g = icl_tensor_reshape(of_dense, 3, shape);
    ICL_TRY(icl_copy(backend, first_row(out.diagonal), diagonals_of(g), error));
    ICL_TRY(icl_matmul(backend, out.left, 1.0, parts.right, icl_tensor_swap_axes(g, 1, 2), 0.0, error));
    ICL_TRY(icl_matmul(backend, out.right, 1.0, parts.left, g, 0.0, error));
done:
    icl_tensor_release(&dense);
    icl_tensor_release(&of_dense);
    return status;
}

static icl_status gradient_fused(const icl_model *model, icl_backend *backend, size_t depth,
                                 const icl_model_tensors *tensors, icl_error *error) {
    const transformer_state *state = model->state;

    if (state->is_tied)
        return gradient_of_tied(model, backend, depth, tensors, error);
    if (state->rank > 0)
        return gradient_of_low_rank(model, backend, depth, tensors, error);
    return gradient(model, backend, depth, tensors, tensors->parameters, tensors->gradient, error);
}

/* P and Q of each form, by the value of model.parameterization. */
static const part_pair pairs[] = {
    [ICL_LINEAR_FULL] = {{{"P", PART_MATRIX}, {"Q", PART_MATRIX}}},
    [ICL_LINEAR_DIAG] = {{{"P", PART_DIAGONAL}, {"Q", PART_DIAGONAL}}},
    [ICL_LINEAR_GDPP] = {{{"P", PART_DIAGONAL}, {"Q", PART_INPUT_DIAGONAL}}},
    [ICL_LINEAR_SPARSE] = {{{NULL, PART_LABEL_ONE}, {"A", PART_INPUT_BLOCK}}},
    [ICL_LINEAR_SPARSE_B] = {{{"B", PART_INPUT_BLOCK_LABEL_ONE}, {"A", PART_INPUT_BLOCK}}},
    [ICL_LINEAR_DIAGONAL_LOW_RANK] = {{{"P", PART_DIAGONAL_LOW_RANK}, {"Q", PART_DIAGONAL_LOW_RANK}}},
};

/* ---- Keys ---- */

#define KEY(field)  ICL_KEY("model", icl_linear_settings, field)
#define NAME(field) ICL_KEY_NAME("model", icl_linear_settings, field)

static const icl_recipe_key full_keys[] = {
    {KEY(coupling_std), "0", 0, 100, .help = "init_std between the first input and the label; 0: init_std"},
};
static const icl_recipe_key low_rank_keys[] = {
    {KEY(rank), "1", 1, 1024, .help = "of what is added to the diagonals"},
};
static const icl_recipe_group full_group = ICL_RECIPE_GROUP(full_keys);
static const icl_recipe_group low_rank_group = ICL_RECIPE_GROUP(low_rank_keys);
static const icl_recipe_group *const full_groups[] = {&full_group, NULL};
static const icl_recipe_group *const low_rank_groups[] = {&low_rank_group, NULL};

static const icl_choice parameterizations[] = {
    {"full", ICL_LINEAR_FULL, full_groups},
    {"diag", ICL_LINEAR_DIAG},
    {"gd++", ICL_LINEAR_GDPP},
    {"sparse", ICL_LINEAR_SPARSE},
    {"sparse-b", ICL_LINEAR_SPARSE_B},
    {"diag+lowrank", ICL_LINEAR_DIAGONAL_LOW_RANK, low_rank_groups},
    {0},
};
static const icl_choice scales[] = {
    {"raw", ICL_SCALE_RAW}, {"mean", ICL_SCALE_MEAN}, {"softmax", ICL_SCALE_SOFTMAX}, {0}};
static const icl_choice spaces[] = {{"auto", ICL_SPACE_AUTO},
                                    {"gram", ICL_SPACE_GRAM},
                                    {"tokens", ICL_SPACE_TOKENS},
                                    {"composed", ICL_SPACE_COMPOSED},
                                    {0}};

static const icl_recipe_key keys[] = {
    {KEY(tied), "false", .help = "one layer's parameters for all layers"},
    {KEY(parameterization), "full", .choices = parameterizations, .help = "which entries of P and Q are trained"},
    {KEY(scale), "mean", .choices = scales,
     .help = "attention weights over the context: as they are, over n, or their softmax (then on the tape "
             "alone)"},
    {KEY(space), "auto", .choices = spaces,
     .help = "what layers carry: Gram matrices, tokens, or whichever is cheaper; or composed of small ops"},
};
static const icl_recipe_group own_keys = ICL_RECIPE_GROUP(keys);
const icl_recipe_group *const icl_linear_transformer_keys[] = {&icl_start_keys, &icl_heads_keys, &own_keys, NULL};

icl_linear_settings icl_linear_read(const icl_recipe *recipe) {
    icl_linear_settings settings;

    icl_recipe_read(recipe, &full_group, &settings);
    icl_recipe_read(recipe, &low_rank_group, &settings);
    icl_recipe_read(recipe, &own_keys, &settings);
    return settings;
}

/* ---- Creation ---- */

static icl_status add_part(icl_model *model, size_t layer, size_t head, const layer_part *part, icl_error *error) {
    const size_t d = model->dimension;
    size_t shape[2];
    int rank = 0;

    switch (part->kind) {
    case PART_MATRIX:
        rank = 2;
        shape[0] = shape[1] = d + 1;
        break;
    case PART_DIAGONAL:
        rank = 1;
        shape[0] = 2;
        break;
    case PART_INPUT_DIAGONAL:
        rank = 1;
        shape[0] = 1;
        break;
    case PART_INPUT_BLOCK:
    case PART_INPUT_BLOCK_LABEL_ONE:
        rank = 2;
        shape[0] = shape[1] = d;
        break;
    case PART_DIAGONAL_LOW_RANK:
        rank = 2;
        shape[0] = 1 + 2 * ((const transformer_state *)model->state)->rank;
        shape[1] = d + 1;
        break;
    case PART_LABEL_ONE:
        return ICL_OK;
    }
    return icl_model_add_parameter(model, rank, shape, error, "layer.%zu.head.%zu.%s", layer, head, part->name);
}

static icl_status check_settings(const icl_recipe *recipe, const icl_linear_settings *own, icl_error *error) {
    if (own->tied && own->parameterization == ICL_LINEAR_DIAGONAL_LOW_RANK)
        return icl_recipe_reject(recipe, NAME(tied), error, "false beside diag+lowrank");
    if (own->scale == ICL_SCALE_SOFTMAX && own->space != ICL_SPACE_COMPOSED && own->space != ICL_SPACE_AUTO)
        return icl_recipe_reject(recipe, NAME(space), error,
                                 "auto or composed: with model.scale = softmax layers are not linear");
    return ICL_OK;
}

static icl_status read_settings(const icl_recipe *recipe, icl_model *model, icl_error *error) {
    const icl_model_settings shared = icl_model_read(recipe);
    const icl_linear_settings own = icl_linear_read(recipe);
    transformer_state *state = model->state;
    const bool is_low_rank = own.parameterization == ICL_LINEAR_DIAGONAL_LOW_RANK;
    model->layers = shared.layers;
    state->heads = shared.heads;
    state->pair = &pairs[own.parameterization];
    state->parameterization = is_low_rank ? ICL_LINEAR_FULL : (icl_parameterization)own.parameterization;
    state->rank = is_low_rank ? own.rank : 0;
    state->is_mean = own.scale == ICL_SCALE_MEAN;
    state->is_softmax = own.scale == ICL_SCALE_SOFTMAX;
    state->is_tied = own.tied;
    state->is_composed = own.space == ICL_SPACE_COMPOSED || state->is_softmax;
    state->space = state->is_composed ? ICL_SPACE_AUTO : (icl_linear_space)own.space;
    state->from_descent = shared.initialization == ICL_INITIALIZE_DESCENT;
    state->init_std = shared.init_std;
    state->coupling_std = own.coupling_std;
    return check_settings(recipe, &own, error);
}

static unsigned find_abilities(const transformer_state *state) {
    unsigned abilities = 0;

    if (!state->is_composed)
        abilities |= ICL_MODEL_FUSED | ICL_MODEL_READS_GRAM;
    if (!state->is_composed &&
        !state->is_tied) /* a tied layer's gradient sums over layers, and the ops return norms before that sum */
        abilities |= ICL_MODEL_CUTS_SEQUENCES;
    if (!state->is_tied)
        abilities |= ICL_MODEL_GROWS;
    return abilities;
}

static icl_status create(const icl_recipe *recipe, icl_model *model, icl_error *error) {
    transformer_state *state = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_model_read_pairs(model, error));
    ICL_TRY(icl_allocate(1, sizeof *state, "linear transformer", &state, error));
    model->state = state;
    ICL_TRY(read_settings(recipe, model, error));
    model->abilities = find_abilities(state);
    for (size_t layer = 0; layer < icl_linear_own_layers(model); layer++)
        for (size_t head = 0; head < state->heads; head++)
            for (int part = 0; part < ICL_LINEAR_PARTS; part++)
                ICL_TRY(add_part(model, layer, head, &state->pair->parts[part], error));
done:
    return status;
}

static void destroy(icl_model *model) {
    icl_free(&model->state);
}

/* ---- Prediction ---- */

/* A D x D matrix that maps tokens: dense, or diagonal and then held as the row of its diagonal [1, D]. */
typedef struct token_map {
    icl_variable value;
    bool diagonal;
} token_map;

/* The constants of one prediction, created on the device. Each form uses some of them. */
typedef struct model_constants {
    icl_variable pair;      /* [2, D]: (1 … 1 0; 0 … 0 1), turns (p_x, p_y) into a diagonal */
    icl_variable inputs;    /* [1, D]: (1 … 1 0) */
    icl_variable label;     /* [1, D]: (0 … 0 1) */
    icl_variable zeros;     /* [D, D] */
    icl_variable label_one; /* [D, D]: 0 except for a 1 in the last corner */
    icl_variable identity;  /* [D, D] */
} model_constants;

static icl_variable ones_at(icl_tape *tape, icl_variable base, size_t rows, size_t columns, size_t row, size_t column) {
    const icl_variable ones = icl_tape_filled(tape, 2, (const size_t[]){rows, columns}, 1.0);
    return icl_tape_place(tape, base, ones, (const size_t[]){row, column});
}

static bool uses(const part_pair *pair, part_kind kind) {
    return pair->parts[0].kind == kind || pair->parts[1].kind == kind;
}

static model_constants make_constants(const part_pair *pair, size_t d, icl_tape *tape) {
    model_constants made = {{0}};

    if (uses(pair, PART_DIAGONAL)) {
        made.pair = icl_tape_filled(tape, 2, (const size_t[]){2, d + 1}, 0.0);
        made.pair = ones_at(tape, made.pair, 1, d, 0, 0);
        made.pair = ones_at(tape, made.pair, 1, 1, 1, d);
    }
    if (uses(pair, PART_INPUT_DIAGONAL)) {
        made.inputs = icl_tape_filled(tape, 2, (const size_t[]){1, d + 1}, 0.0);
        made.inputs = ones_at(tape, made.inputs, 1, d, 0, 0);
    }
    if (uses(pair, PART_LABEL_ONE)) {
        made.label = icl_tape_filled(tape, 2, (const size_t[]){1, d + 1}, 0.0);
        made.label = ones_at(tape, made.label, 1, 1, 0, d);
    }
    if (uses(pair, PART_DIAGONAL_LOW_RANK)) {
        made.identity = icl_tape_filled(tape, 2, (const size_t[]){d + 1, d + 1}, 0.0);
        for (size_t i = 0; i <= d; i++)
            made.identity = ones_at(tape, made.identity, 1, 1, i, i);
    }
    if (uses(pair, PART_INPUT_BLOCK))
        made.zeros = icl_tape_filled(tape, 2, (const size_t[]){d + 1, d + 1}, 0.0);
    if (uses(pair, PART_INPUT_BLOCK_LABEL_ONE))
        made.label_one = ones_at(tape, made.zeros, 1, 1, d, d);
    return made;
}

/* Returns diag(p) + U^T V from the rows (p; U; V) of a parameter [1 + 2r, D]. */
static icl_variable add_low_rank(icl_tape *tape, icl_variable identity, icl_variable parameter) {
    const size_t rank = (icl_tape_value(tape, parameter).shape[0] - 1) / 2;
    const icl_variable diagonal =
        icl_tape_binary(tape, ICL_MULTIPLY, identity, icl_tape_slice(tape, parameter, 0, 0, 1));
    const icl_variable left = icl_tape_slice(tape, parameter, 0, 1, rank);
    const icl_variable right = icl_tape_slice(tape, parameter, 0, 1 + rank, rank);

    return icl_tape_binary(tape, ICL_ADD, diagonal,
                           icl_tape_matmul(tape, 1.0, icl_tape_swap_axes(tape, left, 0, 1), right));
}

static token_map make_map(icl_tape *tape, const model_constants *constants, part_kind kind, icl_variable parameter) {
    static const size_t corner[2] = {0, 0};
    icl_variable row;

    switch (kind) {
    case PART_MATRIX:
        break;
    case PART_DIAGONAL:
        row = icl_tape_reshape(tape, parameter, 2, (const size_t[]){1, 2});
        return (token_map){icl_tape_matmul(tape, 1.0, row, constants->pair), true};
    case PART_INPUT_DIAGONAL:
        return (token_map){icl_tape_binary(tape, ICL_MULTIPLY, constants->inputs, parameter), true};
    case PART_LABEL_ONE:
        return (token_map){constants->label, true};
    case PART_INPUT_BLOCK:
        return (token_map){icl_tape_place(tape, constants->zeros, parameter, corner), false};
    case PART_INPUT_BLOCK_LABEL_ONE:
        return (token_map){icl_tape_place(tape, constants->label_one, parameter, corner), false};
    case PART_DIAGONAL_LOW_RANK:
        return (token_map){add_low_rank(tape, constants->identity, parameter), false};
    }
    return (token_map){parameter, false};
}

/* Maps each row e of `tokens` to M e, that is, returns tokens M^T. */
static icl_variable apply(icl_tape *tape, token_map map, icl_variable tokens) {
    if (map.diagonal)
        return icl_tape_binary(tape, ICL_MULTIPLY, tokens, map.value);
    return icl_tape_matmul(tape, 1.0, tokens, icl_tape_swap_axes(tape, map.value, 0, 1));
}

/* Applies one layer to the rows `queries` of Z; `parameters` begins with those of the layer's first head. */
static icl_variable apply_layer(const icl_model *model, icl_tape *tape, const model_constants *constants,
                                const icl_variable *parameters, icl_variable tokens, icl_variable queries) {
    const transformer_state *state = model->state;
    const layer_part *parts = state->pair->parts;
    const icl_attention_params attention = {
        .kind = state->is_softmax ? ICL_ATTENTION_SOFTMAX : ICL_ATTENTION_LINEAR,
        .mask = ICL_MASK_QUERY_EXCLUDED,
        .scale = state->is_mean ? 1.0 / (double)model->context : 1.0,
    };
    icl_variable out = queries;

    for (size_t head = 0; head < state->heads; head++) {
        token_map maps[ICL_LINEAR_PARTS];
        for (int part = 0; part < ICL_LINEAR_PARTS; part++) {
            const bool trained = parts[part].name != NULL;
            maps[part] = make_map(tape, constants, parts[part].kind, trained ? *parameters : constants->label);
            parameters += trained;
        }
        const icl_variable mapped = apply(tape, maps[ICL_LINEAR_Q], queries);
        const icl_variable attended = icl_tape_attention(tape, &attention, mapped, tokens, tokens);
        out = icl_tape_binary(tape, ICL_ADD, out, apply(tape, maps[ICL_LINEAR_P], attended));
    }
    return out;
}

static icl_variable predict(const icl_model *model, icl_tape *tape, const icl_variable *parameters, icl_variable tokens,
                            size_t depth) {
    const transformer_state *state = model->state;
    const size_t d = model->dimension, per_layer = state->heads * trained_parts(state->pair);
    const size_t step = state->is_tied ? 0 : per_layer;
    const model_constants constants = make_constants(state->pair, d, tape);

    for (size_t i = 0; i + 1 < depth; i++)
        tokens = apply_layer(model, tape, &constants, parameters + i * step, tokens, tokens);
    tokens = apply_layer(model, tape, &constants, parameters + (model->layers - 1) * step, tokens,
                         icl_tape_slice(tape, tokens, 1, model->context, 1));
    return icl_tape_scale(tape, -1.0, icl_tape_slice(tape, tokens, 2, d, 1));
}

const icl_model_family icl_linear_transformer = {
    .name = "linear",
    .create = create,
    .destroy = destroy,
    .initialize = initialize,
    .initialize_inserted = initialize_inserted,
    .predict = predict,
    .predict_fused = predict_fused,
    .gradient_fused = gradient_fused,
};
