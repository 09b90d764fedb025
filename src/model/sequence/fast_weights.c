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

/* ---- The bounded memory of model.rule = fwm ---- */

/*
 * Fast weight memory (Schlag, Munkhdalai, Schmidhuber 2021, arXiv 2011.07831) is the delta rule in a memory whose norm
 * is 1 at most from the second write on. A write M <- (M + beta k m^T) g with the miss m = v - M^T k and g = 1 / max(1,
 * |M + beta k m^T|_F) needs only what M holds under k, and the norm of M:
 *
 *     |M + beta k m^T|^2 = |M|^2 + beta m . (2 M^T k + beta |k|^2 m)
 *
 * So the writes of a block use what M holds under the keys to come, P = K M, which each write changes to P <- (P +
 * (beta K k) m^T) g. M itself changes once, after the block: what write t added shrinks by the g of t and of all later
 * writes. No write makes anything that is larger than M would be.
 */

enum { BLOCK = 16 }; /* writes; each costs BLOCK / 2 rows of P, and a block some passes over M */

/* The state of a block whose writes are made one after the other. All variables are [B, 1, ., .]. */
typedef struct block {
    icl_tape *tape;
    icl_variable v, beta, one;
    icl_variable coupling; /* [writes, writes]: beta_j k_i . k_j */
    icl_variable reads;    /* [writes to come, n]: P */
    icl_variable square;   /* |M|^2 */
    icl_variable misses[BLOCK], shrinks[BLOCK];
} block;

/* Returns rows x columns elements of x, from (row, column) on. */
static icl_variable part_of(icl_tape *tape, icl_variable x, size_t row, size_t rows, size_t column, size_t columns) {
    return icl_tape_slice(tape, icl_tape_slice(tape, x, 2, row, rows), 3, column, columns);
}

/* Returns |M|^2 after write t of the block, before M shrinks. */
static icl_variable grown_square(const block *tile, size_t t, icl_variable read, icl_variable miss) {
    icl_tape *tape = tile->tape;
    const icl_variable gain = part_of(tape, tile->coupling, t, 1, t, 1);
    const icl_variable twice = icl_tape_scale_add(tape, 2, read, 1, icl_sequence_multiply(tape, gain, miss));
    const icl_variable product = icl_tape_reduce(tape, ICL_SUM, 1u << 3, icl_sequence_multiply(tape, miss, twice));

    return icl_tape_binary(tape, ICL_ADD, tile->square,
                           icl_sequence_multiply(tape, icl_tape_slice(tape, tile->beta, 2, t, 1), product));
}

static void write_one(block *tile, size_t t, size_t writes, bool is_bounded) {
    icl_tape *tape = tile->tape;
    const icl_variable read = icl_tape_slice(tape, tile->reads, 2, 0, 1);
    const icl_variable miss = icl_tape_binary(tape, ICL_SUBTRACT, icl_tape_slice(tape, tile->v, 2, t, 1), read);
    const size_t left = writes - t - 1;

    tile->square = grown_square(tile, t, read, miss);
    tile->misses[t] = miss;
    tile->shrinks[t] = tile->one;
    if (is_bounded) {
        const icl_variable bound = icl_tape_binary(tape, ICL_MAXIMUM, tile->square, tile->one);
        tile->shrinks[t] = icl_tape_unary(tape, ICL_RECIPROCAL, icl_tape_unary(tape, ICL_SQUARE_ROOT, bound));
        tile->square = icl_tape_binary(tape, ICL_DIVIDE, tile->square, bound);
    }
    if (left == 0)
        return;
    const icl_variable added = icl_tape_matmul(tape, 1, part_of(tape, tile->coupling, t + 1, left, t, 1), miss);
    const icl_variable sum = icl_tape_binary(tape, ICL_ADD, icl_tape_slice(tape, tile->reads, 2, 1, left), added);
    tile->reads = is_bounded ? icl_sequence_multiply(tape, sum, tile->shrinks[t]) : sum;
}

/* Returns M after the block. */
static icl_variable write_memory(const block *tile, size_t writes, icl_variable memory, icl_variable k) {
    icl_tape *tape = tile->tape;
    icl_variable left[BLOCK]; /* the share of write t, and of M before it, that the writes t and later leave */

    left[writes - 1] = tile->shrinks[writes - 1];
    for (size_t t = writes - 1; t-- > 0;)
        left[t] = icl_sequence_multiply(tape, tile->shrinks[t], left[t + 1]);
    const icl_variable misses = icl_tape_concatenate(tape, 2, writes, tile->misses);
    const icl_variable weights = icl_sequence_multiply(tape, tile->beta, icl_tape_concatenate(tape, 2, writes, left));
    const icl_variable added =
        icl_tape_matmul(tape, 1, icl_tape_swap_axes(tape, k, 2, 3), icl_sequence_multiply(tape, misses, weights));
    return icl_tape_binary(tape, ICL_ADD, icl_sequence_multiply(tape, memory, left[0]), added);
}

/* Returns M [B, 1, m, n] after all writes of v [B, 1, L, n] under keys k [B, 1, L, m] with strengths beta [B, 1, L, 1]:
 * M <- M + beta_t k_t (v_t - M^T k_t)^T from 0, and from the second write on M <- M / max(1, |M|_F). L > 0. */
static icl_variable bounded_memory(const icl_sequence_pass *pass, icl_variable k, icl_variable v, icl_variable beta) {
    icl_tape *tape = pass->tape;
    const icl_tensor keys = icl_tape_value(tape, k), values = icl_tape_value(tape, v);
    const size_t batch = keys.shape[0], count = keys.shape[2];
    const size_t one[] = {batch, 1, 1, 1}, state[] = {batch, 1, keys.shape[3], values.shape[3]};
    icl_variable memory = icl_tape_filled(tape, 4, state, 0);
    block is = {.tape = tape, .one = icl_tape_filled(tape, 4, one, 1), .square = icl_tape_filled(tape, 4, one, 0)};

    for (size_t first = 0; first < count; first += BLOCK) {
        const size_t writes = count - first < BLOCK ? count - first : BLOCK;
        const icl_variable own = icl_tape_slice(tape, k, 2, first, writes);
        is.v = icl_tape_slice(tape, v, 2, first, writes);
        is.beta = icl_tape_slice(tape, beta, 2, first, writes);
        is.coupling = icl_sequence_multiply(tape, icl_tape_matmul(tape, 1, own, icl_tape_swap_axes(tape, own, 2, 3)),
                                            icl_tape_swap_axes(tape, is.beta, 2, 3));
        is.reads = icl_tape_matmul(tape, 1, own, memory);
        for (size_t t = 0; t < writes; t++)
            write_one(&is, t, writes, first + t > 0);
        memory = write_memory(&is, writes, memory, own);
    }
    return memory;
}

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
    const icl_variable memory = bounded_memory(pass, k, v, beta);

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
    const icl_sequence_pass pass = {
        .model = model, .sequence = &memory->parts, .tape = tape, .parameters = parameters, .cells = 1};
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
