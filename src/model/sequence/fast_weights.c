/*
 * model.family = fast-weights: the memory of Schlag, Irie, Schmidhuber 2021 (arXiv 2102.11174, section 6.1), for tasks
 * that write pairs of a key and a value and then ask for keys (task.family = associative).
 *
 * A key symbol is a trained row e of a table [S, e], e = floor(1.1 * 2 S), a value symbol the one-hot vector v of S
 * numbers, as it is. With phi = model.feature_map and d = model.key_width
 *
 *     k = phi([e; v] W_k + b_k),  q = phi(e W_q + b_q),  beta = sigmoid([e; v] w + c)
 *
 *     model.rule = sum       M = sum_j v_j k_j^T,                                    y = M q / (q . sum_j k_j + 1e-6)
 *     model.rule = delta     M <- M + beta_j (v_j - M k'_j) k'_j^T,  k' = k / sum k,  y = M q / (sum q + 1e-6)
 *     model.rule = fwm       M <- M + beta_j (v_j - M k_j) k_j^T, then from the second write on
 *                            M <- M / max(1, |M|_F);  y = M q normed to mean 0 and deviation 1: the rule of Schlag,
 *                            Munkhdalai, Schmidhuber 2021 (arXiv 2011.07831) as the authors compare it
 *     model.rule = softmax   y = sum_j softmax_j(q . k_j / sqrt(d)) v_j, without phi
 *
 * and y is the output. The model sees no positions, and a query is not a key. Matrices and biases begin as in the
 * authors' code: W_k, W_q uniform in (-1/8, 1/8), for softmax in +-sqrt(6 / (inputs + outputs)); biases, w and c
 * uniform in +-inputs^(-1/2); the table normal.
 *
 * The projection of e and a one-hot v is the sum of two of the 2 S rows [table W_k's upper part; W_k's lower part]: one
 * product for the whole batch, and then a look-up.
 *
 * Parameters: table [S, e]; values [S, S], the one-hot vectors, which no gradient reaches; key.weight [e + S, d] and
 * .bias; query.weight [e, d] and .bias; for delta and fwm write.weight [e + S, 1] and .bias; for favor directions [d,
 * M], which stay as they begin, or are drawn anew before each step (model.directions = drawn); the authors draw them
 * for each pass. As in their code, favor takes x without a factor d^(-1/4).
 */
#include <math.h>

#include "core/allocate.h"
#include "core/recipe_keys.h"
#include "model/sequence/sequence.h"

#define SUM_EPSILON  1e-6 /* added to the divisor */
#define NORM_EPSILON 1e-5 /* added to the variance of what fwm reads */

typedef enum fast_weights_rule { RULE_SUM = 0, RULE_DELTA, RULE_FWM, RULE_SOFTMAX } fast_weights_rule;
typedef enum favor_directions { DIRECTIONS_FIXED = 0, DIRECTIONS_DRAWN } favor_directions;

typedef struct fast_weights {
    icl_sequence parts; /* the settings and starts that the functions of model.family = sequence work with */
    fast_weights_rule rule;
    favor_directions directions;
    icl_sequence_layer layer; /* the parameters of its keys, queries and writes */
    icl_sequence_parameter values, key_bias, query_bias;
} fast_weights;

#define KEY(field)      ICL_KEY("model", fast_weights, field)
#define NAME(field)     ICL_KEY_NAME("model", fast_weights, field)
#define FEATURES(field) ICL_KEY_NAME("model", icl_sequence, field)

static const icl_recipe_key keys[] = {
    {KEY(rule), "sum",
     .choices =
         (const icl_choice[]){
             {"sum", RULE_SUM}, {"delta", RULE_DELTA}, {"fwm", RULE_FWM}, {"softmax", RULE_SOFTMAX}, {0}},
     .help = "how values are written: sums, the delta rule, the same with a bounded memory; or softmax attention"},
    {KEY(directions), "fixed",
     .choices = (const icl_choice[]){{"fixed", DIRECTIONS_FIXED}, {"drawn", DIRECTIONS_DRAWN}, {0}},
     .help = "of the feature map favor: as they begin, or drawn anew for each step"},
};
static const icl_recipe_group own_keys = ICL_RECIPE_GROUP(keys);
const icl_recipe_group *const icl_fast_weights_keys[] = {&icl_sequence_feature_keys, &own_keys, NULL};

/* ---- Creation ---- */

/* Adds a matrix [inputs, outputs] uniform in +-a, and a bias uniform in +-inputs^(-1/2). */
static icl_status add_linear(icl_sequence_builder *builder, icl_sequence_parameter *weight,
                             icl_sequence_parameter *bias, const char *name, size_t inputs, size_t outputs, double a,
                             icl_error *error) {
    const icl_sequence_start start = {ICL_START_UNIFORM, a, 0, false};
    const icl_sequence_start bias_start = {ICL_START_UNIFORM, 1 / sqrt((double)inputs), 0, true};

    ICL_CHECK(icl_sequence_add(builder, weight, start, 2, (const size_t[]){inputs, outputs}, error, "%s.weight", name));
    return icl_sequence_add(builder, bias, bias_start, 1, &outputs, error, "%s.bias", name);
}

static icl_status add_parameters(icl_model *model, fast_weights *memory, icl_error *error) {
    icl_sequence_builder builder = {model, &memory->parts};
    const size_t S = model->shape.outputs, e = (size_t)(1.1 * 2 * (double)S), d = memory->parts.key_width;
    const bool softmax = memory->rule == RULE_SOFTMAX;
    const double key_bound = softmax ? sqrt(6 / (double)(e + S + d)) : .125;
    const double query_bound = softmax ? sqrt(6 / (double)(e + d)) : .125;
    icl_sequence_layer *layer = &memory->layer;

    ICL_CHECK(icl_sequence_add(&builder, &memory->parts.embedding, (icl_sequence_start){ICL_START_NORMAL, 1, 0, true},
                               2, (const size_t[]){S, e}, error, "table"));
    ICL_CHECK(icl_sequence_add(&builder, &memory->values, (icl_sequence_start){ICL_START_IDENTITY, 0, 0, true}, 2,
                               (const size_t[]){S, S}, error, "values"));
    ICL_CHECK(add_linear(&builder, &layer->key, &memory->key_bias, "key", e + S, d, key_bound, error));
    ICL_CHECK(add_linear(&builder, &layer->query, &memory->query_bias, "query", e, d, query_bound, error));
    if (memory->rule == RULE_DELTA || memory->rule == RULE_FWM)
        ICL_CHECK(add_linear(&builder, &layer->write.weight, &layer->write.bias, "write", e + S, 1,
                             1 / sqrt((double)(e + S)), error));
    return softmax ? ICL_OK : icl_sequence_add_features(&builder, layer, error);
}

static icl_status check_shape(const icl_model *model, icl_error *error) {
    const icl_task_shape *shape = &model->shape;

    if (shape->symbols == 2 * shape->outputs && shape->first_scored % 2 == 0 && shape->first_scored > 0 &&
        shape->first_scored + shape->scored == shape->positions && shape->loss == ICL_LOSS_SQUARED_ERROR)
        return ICL_OK;
    return icl_model_refuse(model, "pairs of a key and a value out of twice as many symbols as outputs, then queries",
                            error);
}

static icl_status create(const icl_recipe *recipe, icl_model *model, icl_error *error) {
    fast_weights *memory = NULL;

    ICL_CHECK(check_shape(model, error));
    if (icl_model_read(recipe).layers != 1)
        return icl_recipe_reject(recipe, ICL_KEY_NAME("model", icl_model_settings, layers), error,
                                 "1: model.family = fast-weights has one layer");
    ICL_CHECK(icl_allocate(1, sizeof *memory, "fast weights", &memory, error));
    model->state = memory;
    icl_recipe_read(recipe, &own_keys, memory);
    memory->parts.heads = 1;
    memory->parts.favor_as_it_is = true;
    ICL_CHECK(icl_sequence_read_features(recipe, &memory->parts, error));
    if (memory->rule == RULE_SOFTMAX && memory->parts.feature_map != ICL_FEATURES_IDENTITY)
        return icl_recipe_reject(recipe, FEATURES(feature_map), error, "identity beside model.rule = softmax");
    const bool divides = memory->rule == RULE_SUM || memory->rule == RULE_DELTA;
    if (divides &&
        (memory->parts.feature_map == ICL_FEATURES_IDENTITY || memory->parts.feature_map == ICL_FEATURES_TANH))
        return icl_recipe_reject(recipe, FEATURES(feature_map), error,
                                 "another map beside model.rule = %s: its divisor may be 0",
                                 icl_recipe_value(recipe, NAME(rule)));
    if (memory->directions == DIRECTIONS_DRAWN && memory->parts.feature_map != ICL_FEATURES_FAVOR)
        return icl_recipe_reject(recipe, NAME(directions), error, "fixed: only model.feature_map = favor:M has any");
    ICL_CHECK(add_parameters(model, memory, error));
    model->redrawn = memory->directions == DIRECTIONS_DRAWN ? memory->layer.features : 0;
    return ICL_OK;
}

static void redraw(const icl_model *model, uint32_t seed, uint64_t step, float *values) {
    icl_sequence_redraw_directions(&model->parameters[model->redrawn - 1], seed, step, values);
}

static void destroy(icl_model *model) {
    fast_weights *memory = model->state;

    if (memory)
        icl_free(&memory->parts.starts);
    icl_free(&model->state);
}

static void initialize(const icl_model *model, uint32_t seed, float *values) {
    icl_sequence_initialize(model, &((const fast_weights *)model->state)->parts, seed, values);
}

/* ---- Outputs ---- */

/* Returns x W + b for each write [B, 1, L, outputs], x = [e; v]: the sum of a row for e and a row for v. */
static icl_variable project_writes(const icl_sequence_pass *pass, icl_variable pairs, icl_sequence_parameter weight,
                                   icl_sequence_parameter bias) {
    icl_tape *tape = pass->tape;
    const icl_variable table = icl_sequence_value(pass, pass->sequence->embedding),
                       W = icl_sequence_value(pass, weight);
    const icl_tensor seen = icl_tape_value(tape, table), symbols = icl_tape_value(tape, pairs);
    const size_t S = seen.shape[0], e = seen.shape[1], outputs = icl_tape_value(tape, W).shape[1];
    const icl_variable halves[] = {icl_tape_matmul(tape, 1, table, icl_tape_slice(tape, W, 0, 0, e)),
                                   icl_tape_slice(tape, W, 0, e, S)};
    const icl_variable rows = icl_tape_look_up(tape, icl_tape_concatenate(tape, 0, 2, halves), pairs);
    const size_t shape[] = {symbols.shape[0], symbols.shape[1] / 2, 2, outputs};
    const icl_variable sums = icl_tape_reduce(tape, ICL_SUM, 1u << 2, icl_tape_reshape(tape, rows, 4, shape));

    return icl_tape_swap_axes(tape, icl_tape_binary(tape, ICL_ADD, sums, icl_sequence_value(pass, bias)), 1, 2);
}

/* Returns e W + b for each query, [B, 1, Q, d]. */
static icl_variable project_queries(const icl_sequence_pass *pass, icl_variable queries, const fast_weights *memory) {
    icl_tape *tape = pass->tape;
    const icl_variable rows = icl_tape_matmul(tape, 1, icl_sequence_value(pass, pass->sequence->embedding),
                                              icl_sequence_value(pass, memory->layer.query));
    const icl_variable biased = icl_tape_binary(tape, ICL_ADD, rows, icl_sequence_value(pass, memory->query_bias));
    const icl_variable found = icl_tape_look_up(tape, biased, queries);
    const icl_tensor seen = icl_tape_value(tape, found);

    return icl_tape_reshape(tape, found, 4, (const size_t[]){seen.shape[0], 1, seen.shape[1], seen.shape[2]});
}

/* Returns the one-hot vectors of the values, [B, 1, L, S]. */
static icl_variable written_values(const icl_sequence_pass *pass, icl_variable pairs, const fast_weights *memory) {
    icl_tape *tape = pass->tape;
    const icl_tensor symbols = icl_tape_value(tape, pairs);
    const icl_variable table = icl_tape_detach(tape, icl_sequence_value(pass, memory->values));
    const size_t shape[] = {symbols.shape[0], 1, symbols.shape[1] / 2, 2};
    const icl_variable all = icl_sequence_add_scalar(pass, pairs, -(double)icl_tape_value(tape, table).shape[0]);
    const icl_variable values = icl_tape_slice(tape, icl_tape_reshape(tape, all, 4, shape), 3, 1, 1);

    return icl_tape_look_up(tape, table, icl_tape_reshape(tape, icl_tape_scale(tape, 1, values), 3, shape));
}

/* Returns x divided by the sum of `of` along the last axis. */
static icl_variable by_sum(const icl_sequence_pass *pass, icl_variable x, icl_variable of) {
    const icl_variable sum = icl_tape_reduce(pass->tape, ICL_SUM, 1u << 3, of);
    return icl_tape_binary(pass->tape, ICL_DIVIDE, x, icl_sequence_add_scalar(pass, sum, SUM_EPSILON));
}

/* Returns sum_j (q . k_j) v_j / (sum_j q . k_j) from the scores, which with few queries cost less than the matrix M. */
static icl_variable read_sum(const icl_sequence_pass *pass, icl_variable q, icl_variable k, icl_variable v) {
    const icl_variable scores = icl_tape_matmul(pass->tape, 1, q, icl_tape_swap_axes(pass->tape, k, 2, 3));
    return by_sum(pass, icl_tape_matmul(pass->tape, 1, scores, v), scores);
}

static icl_variable read_delta(const icl_sequence_pass *pass, icl_variable q, icl_variable k, icl_variable v,
                               icl_variable logit) {
    icl_tape *tape = pass->tape;
    const icl_variable beta = icl_tape_unary(tape, ICL_SIGMOID, logit), normed = by_sum(pass, k, k);
    /* The query is 0, because only the last memory is read: no query stands between the writes. */
    const size_t none[] = {1, 1, 1, icl_tape_value(tape, k).shape[3]};
    const icl_recurrence_variables operands = {
        .q = icl_tape_filled(tape, 4, none, 0), .k = normed, .v = v, .beta = &beta};
    icl_variable memory;

    (void)icl_tape_recurrence(tape, &(icl_recurrence_params){.delta = true, .scale = 1}, &operands, &memory);
    return icl_tape_matmul(tape, 1, by_sum(pass, q, q), memory);
}

static icl_variable read_fwm(const icl_sequence_pass *pass, icl_variable q, icl_variable k, icl_variable v,
                             icl_variable logit) {
    const icl_variable beta = icl_tape_unary(pass->tape, ICL_SIGMOID, logit);
    const icl_variable memory = icl_sequence_bounded_memory(pass, k, v, beta);

    return icl_tape_normalize(pass->tape, &(icl_normalize_params){ICL_NORM_LAYER, NORM_EPSILON},
                              icl_tape_matmul(pass->tape, 1, q, memory), NULL, NULL);
}

/* Writes and reads the memory by the rule; q and k have passed the feature map. */
static icl_variable read_memory(const icl_sequence_pass *pass, const fast_weights *memory, icl_variable pairs,
                                icl_variable q, icl_variable k, icl_variable v) {
    icl_variable logit;

    if (memory->rule == RULE_SUM)
        return read_sum(pass, q, k, v);
    logit = project_writes(pass, pairs, memory->layer.write.weight, memory->layer.write.bias);
    return memory->rule == RULE_FWM ? read_fwm(pass, q, k, v, logit) : read_delta(pass, q, k, v, logit);
}

static icl_variable predict(const icl_model *model, icl_tape *tape, const icl_variable *parameters, icl_variable inputs,
                            size_t depth) {
    const fast_weights *memory = model->state;
    const icl_sequence_pass pass = {.model = model, .sequence = &memory->parts, .tape = tape, .parameters = parameters};
    const size_t first = model->shape.first_scored, scored = model->shape.scored;
    /* Both are copies, because a reshape takes only rows without gaps. */
    const icl_variable pairs = icl_tape_scale(tape, 1, icl_tape_slice(tape, inputs, 1, 0, first));
    const icl_variable queries = icl_tape_scale(tape, 1, icl_tape_slice(tape, inputs, 1, first, scored));
    const icl_variable v = written_values(&pass, pairs, memory);
    icl_variable k = project_writes(&pass, pairs, memory->layer.key, memory->key_bias);
    icl_variable q = project_queries(&pass, queries, memory), y;

    (void)depth;
    if (memory->rule == RULE_SOFTMAX) {
        const icl_attention_params params = {.kind = ICL_ATTENTION_SOFTMAX,
                                             .scale = 1 / sqrt((double)memory->parts.key_width)};
        y = icl_tape_attention(tape, &params, q, k, v);
    } else {
        k = icl_sequence_features(&pass, &memory->layer, k);
        q = icl_sequence_features(&pass, &memory->layer, q);
        y = read_memory(&pass, memory, pairs, q, k, v);
    }
    return icl_tape_reshape(tape, icl_tape_scale(tape, 1, y), 3,
                            (const size_t[]){icl_tape_value(tape, inputs).shape[0], scored, model->shape.outputs});
}

const icl_model_family icl_fast_weights = {
    .name = "fast-weights",
    .create = create,
    .destroy = destroy,
    .initialize = initialize,
    .predict = predict,
    .redraw = redraw,
};
