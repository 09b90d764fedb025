/*
 * One layer of attention that reads labels: Collins, Parulekar, Mokhtari, Sanghavi, Shakkottai 2024 (arXiv 2402.11639).
 *
 * With M = W_K^T W_Q restricted to the inputs (the optimum has no other part, and its values are only the labels:
 * lemma B.1) the prediction for the query x_q is
 *
 *     softmax:   sum_{i <= n} softmax_i(x_i^T M x_q) y_i
 *     linear:    (1/n) sum_{i <= n} (x_i^T M x_q) y_i        (model.attention = linear: without the exponential)
 *
 * For inputs on the unit sphere and M = w I the softmax is a Nadaraya-Watson estimate with weights proportional to
 * exp(-(w / 2) ||x_i - x_q||^2): a window of width w^(-1/2). The query is never a key. Unlike a linear transformer's,
 * the prediction carries no minus sign: it is the attended label itself.
 */
#include "core/allocate.h"
#include "core/recipe_keys.h"
#include "iclab/ops.h"
#include "model/model.h"

typedef struct softmax_state {
    icl_attention_kind attention;
    bool from_identity; /* M starts near the identity instead of near zero */
    double init_std;
} softmax_state;

static const icl_choice kinds[] = {{"softmax", ICL_ATTENTION_SOFTMAX}, {"linear", ICL_ATTENTION_LINEAR}, {0}};

#define KEY(field) ICL_KEY("model", softmax_state, field)

static const icl_recipe_key keys[] = {
    {KEY(attention), "softmax", .choices = kinds,
     .help = "weights of the labels: a softmax of the scores, or the scores over n"},
};
static const icl_recipe_group own_keys = ICL_RECIPE_GROUP(keys);
const icl_recipe_group *const icl_softmax_attention_keys[] = {&icl_start_keys, &own_keys, NULL};

static icl_status create(const icl_recipe *recipe, icl_model *model, icl_error *error) {
    const icl_model_settings shared = icl_model_read(recipe);
    softmax_state *state = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_model_read_pairs(model, error));
    ICL_TRY(icl_allocate(1, sizeof *state, "softmax attention", &state, error));
    model->state = state;
    if (shared.layers != 1)
        ICL_TRY(icl_recipe_reject(recipe, ICL_KEY_NAME("model", icl_model_settings, layers), error,
                                  "1: model.family = softmax has one layer"));
    icl_recipe_read(recipe, &own_keys, state);
    state->from_identity = shared.initialization == ICL_INITIALIZE_DESCENT;
    state->init_std = shared.init_std;
    ICL_TRY(icl_model_add_parameter(model, 2, (size_t[]){model->dimension, model->dimension}, error, "M"));
done:
    return status;
}

static void destroy(icl_model *model) {
    icl_free(&model->state);
}

/* Sets M = I, a window as wide as the sphere (softmax) or one step of gradient descent (linear), or M = 0; adds N(0,
 * init_std^2). */
static void initialize(const icl_model *model, uint32_t seed, float *values) {
    const softmax_state *state = model->state;
    const size_t d = model->dimension;

    for (size_t i = 0; i < d * d; i++) {
        const double start = state->from_identity && i / d == i % d ? 1.0 : 0.0;
        values[i] = (float)(start + state->init_std * (double)icl_model_noise(seed, i));
    }
}

static icl_variable predict(const icl_model *model, icl_tape *tape, const icl_variable *parameters, icl_variable tokens,
                            size_t depth) {
    const softmax_state *state = model->state;
    const size_t d = model->dimension, n = model->context;
    const icl_attention_params attention = {
        .kind = state->attention,
        .mask = ICL_MASK_QUERY_EXCLUDED,
        .scale = state->attention == ICL_ATTENTION_LINEAR ? 1.0 / (double)n : 1.0,
    };
    const icl_variable inputs = icl_tape_slice(tape, tokens, 2, 0, d);
    const icl_variable labels = icl_tape_slice(tape, tokens, 2, d, 1);
    /* These are [1, B, d], so that the queries of all sequences are the rows of one product: x_q^T M^T. */
    const icl_variable queries = icl_tape_swap_axes(tape, icl_tape_slice(tape, inputs, 1, n, 1), 0, 1);
    const icl_variable mapped = icl_tape_matmul(tape, 1.0, queries, icl_tape_swap_axes(tape, parameters[0], 0, 1));

    (void)depth;
    return icl_tape_attention(tape, &attention, icl_tape_swap_axes(tape, mapped, 0, 1), inputs, labels);
}

const icl_model_family icl_softmax_attention = {
    .name = "softmax",
    .create = create,
    .destroy = destroy,
    .initialize = initialize,
    .predict = predict,
};
