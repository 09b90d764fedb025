/*
 * Initial parameters of linear transformers.
 *
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
#include "model/linear_transformer.h"

#include <math.h>

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
    const icl_linear_transformer_state *state = model->state;
    const double n = (double)model->context;

    if (state->is_mean)
        return 1.0;
    if (state->pair->parts[ICL_LINEAR_P].kind == ICL_PART_LABEL_ONE ||
        state->pair->parts[ICL_LINEAR_P].kind == ICL_PART_INPUT_BLOCK_LABEL_ONE)
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

static double noise_std(const icl_linear_transformer_state *state, size_t d, const icl_parameter_info *info, size_t row,
                        size_t column) {
    const bool couples =
        info->rank == 2 && info->shape[0] == d + 1 && (row == 0 || row == d) && (column == 0 || column == d);
    return couples && state->coupling_std > 0 ? state->coupling_std : state->init_std;
}

/* Initializes diag(p) + sum of u_k v_k^T: p to the diagonal start, u and v so large that their products have entries of
 * init_std, because at u = v = 0 the gradient of both is 0. */
static void initialize_low_rank(const icl_model *model, const icl_linear_layer *start, int part,
                                const icl_parameter_info *info, uint32_t seed, float *values) {
    const icl_linear_transformer_state *state = model->state;
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
    const icl_linear_transformer_state *state = model->state;
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
    const icl_linear_transformer_state *state = model->state;
    const size_t per_layer = state->heads * icl_linear_trained_parts(state->pair);
    const icl_parameter_info *info = &model->parameters[layer * per_layer];

    for (size_t head = 0; head < state->heads; head++)
        for (int part = 0; part < ICL_LINEAR_PARTS; part++)
            if (state->pair->parts[part].name)
                initialize_part(model, start, part, info++, seed, values);
}

static icl_parameterization start_parameterization(const icl_linear_transformer_state *state) {
    return state->rank > 0 ? ICL_LINEAR_DIAG : state->parameterization;
}

static const icl_linear_layer *start_of(const icl_model *model, size_t layer) {
    const icl_linear_transformer_state *state = model->state;
    if (!state->from_descent)
        return NULL;
    if (state->parameterization == ICL_LINEAR_GDPP && layer > 0 && layer + 1 == model->layers)
        return &gdpp_last_start;
    return &first_start[start_parameterization(state)];
}

void icl_linear_initialize(const icl_model *model, uint32_t seed, float *values) {
    for (size_t layer = 0; layer < icl_linear_own_layers(model); layer++)
        initialize_layer(model, start_of(model, layer), layer, seed, values);
}

void icl_linear_initialize_at(const icl_model *model, const icl_linear_layer *layers, uint32_t seed, float *values) {
    for (size_t layer = 0; layer < icl_linear_own_layers(model); layer++)
        initialize_layer(model, &layers[layer], layer, seed, values);
}

void icl_linear_initialize_inserted(const icl_model *model, size_t layer, uint32_t seed, float *values) {
    const icl_linear_transformer_state *state = model->state;
    initialize_layer(model, &inserted_start[start_parameterization(state)], layer, seed, values);
}
