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

#include "core/allocate.h"
#include "core/recipe_keys.h"

/* P and Q of each form, by the value of model.parameterization. */
static const icl_linear_pair pairs[] = {
    [ICL_LINEAR_FULL] = {{{"P", ICL_PART_MATRIX}, {"Q", ICL_PART_MATRIX}}},
    [ICL_LINEAR_DIAG] = {{{"P", ICL_PART_DIAGONAL}, {"Q", ICL_PART_DIAGONAL}}},
    [ICL_LINEAR_GDPP] = {{{"P", ICL_PART_DIAGONAL}, {"Q", ICL_PART_INPUT_DIAGONAL}}},
    [ICL_LINEAR_SPARSE] = {{{NULL, ICL_PART_LABEL_ONE}, {"A", ICL_PART_INPUT_BLOCK}}},
    [ICL_LINEAR_SPARSE_B] = {{{"B", ICL_PART_INPUT_BLOCK_LABEL_ONE}, {"A", ICL_PART_INPUT_BLOCK}}},
    [ICL_LINEAR_DIAGONAL_LOW_RANK] = {{{"P", ICL_PART_DIAGONAL_LOW_RANK}, {"Q", ICL_PART_DIAGONAL_LOW_RANK}}},
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

static icl_status add_part(icl_model *model, size_t layer, size_t head, const icl_linear_part *part, icl_error *error) {
    const size_t d = model->dimension;
    size_t shape[2];
    int rank = 0;

    switch (part->kind) {
    case ICL_PART_MATRIX:
        rank = 2;
        shape[0] = shape[1] = d + 1;
        break;
    case ICL_PART_DIAGONAL:
        rank = 1;
        shape[0] = 2;
        break;
    case ICL_PART_INPUT_DIAGONAL:
        rank = 1;
        shape[0] = 1;
        break;
    case ICL_PART_INPUT_BLOCK:
    case ICL_PART_INPUT_BLOCK_LABEL_ONE:
        rank = 2;
        shape[0] = shape[1] = d;
        break;
    case ICL_PART_DIAGONAL_LOW_RANK:
        rank = 2;
        shape[0] = 1 + 2 * ((const icl_linear_transformer_state *)model->state)->rank;
        shape[1] = d + 1;
        break;
    case ICL_PART_LABEL_ONE:
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
    icl_linear_transformer_state *state = model->state;
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

static unsigned find_abilities(const icl_linear_transformer_state *state) {
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
    icl_linear_transformer_state *state = NULL;
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

static bool uses(const icl_linear_pair *pair, icl_linear_part_kind kind) {
    return pair->parts[0].kind == kind || pair->parts[1].kind == kind;
}

static model_constants make_constants(const icl_linear_pair *pair, size_t d, icl_tape *tape) {
    model_constants made = {{0}};

    if (uses(pair, ICL_PART_DIAGONAL)) {
        made.pair = icl_tape_filled(tape, 2, (const size_t[]){2, d + 1}, 0.0);
        made.pair = ones_at(tape, made.pair, 1, d, 0, 0);
        made.pair = ones_at(tape, made.pair, 1, 1, 1, d);
    }
    if (uses(pair, ICL_PART_INPUT_DIAGONAL)) {
        made.inputs = icl_tape_filled(tape, 2, (const size_t[]){1, d + 1}, 0.0);
        made.inputs = ones_at(tape, made.inputs, 1, d, 0, 0);
    }
    if (uses(pair, ICL_PART_LABEL_ONE)) {
        made.label = icl_tape_filled(tape, 2, (const size_t[]){1, d + 1}, 0.0);
        made.label = ones_at(tape, made.label, 1, 1, 0, d);
    }
    if (uses(pair, ICL_PART_DIAGONAL_LOW_RANK)) {
        made.identity = icl_tape_filled(tape, 2, (const size_t[]){d + 1, d + 1}, 0.0);
        for (size_t i = 0; i <= d; i++)
            made.identity = ones_at(tape, made.identity, 1, 1, i, i);
    }
    if (uses(pair, ICL_PART_INPUT_BLOCK))
        made.zeros = icl_tape_filled(tape, 2, (const size_t[]){d + 1, d + 1}, 0.0);
    if (uses(pair, ICL_PART_INPUT_BLOCK_LABEL_ONE))
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

static token_map make_map(icl_tape *tape, const model_constants *constants, icl_linear_part_kind kind,
                          icl_variable parameter) {
    static const size_t corner[2] = {0, 0};
    icl_variable row;

    switch (kind) {
    case ICL_PART_MATRIX:
        break;
    case ICL_PART_DIAGONAL:
        row = icl_tape_reshape(tape, parameter, 2, (const size_t[]){1, 2});
        return (token_map){icl_tape_matmul(tape, 1.0, row, constants->pair), true};
    case ICL_PART_INPUT_DIAGONAL:
        return (token_map){icl_tape_binary(tape, ICL_MULTIPLY, constants->inputs, parameter), true};
    case ICL_PART_LABEL_ONE:
        return (token_map){constants->label, true};
    case ICL_PART_INPUT_BLOCK:
        return (token_map){icl_tape_place(tape, constants->zeros, parameter, corner), false};
    case ICL_PART_INPUT_BLOCK_LABEL_ONE:
        return (token_map){icl_tape_place(tape, constants->label_one, parameter, corner), false};
    case ICL_PART_DIAGONAL_LOW_RANK:
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
    const icl_linear_transformer_state *state = model->state;
    const icl_linear_part *parts = state->pair->parts;
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
    const icl_linear_transformer_state *state = model->state;
    const size_t d = model->dimension, per_layer = state->heads * icl_linear_trained_parts(state->pair);
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
    .initialize = icl_linear_initialize,
    .initialize_inserted = icl_linear_initialize_inserted,
    .predict = predict,
    .predict_fused = icl_linear_predict_fused,
    .gradient_fused = icl_linear_gradient_fused,
};
