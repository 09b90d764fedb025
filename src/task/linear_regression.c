/*
 * Noisy linear regression (Vladymyrov et al. 2024, "Linear transformers are versatile in-context learners", section 2;
 * Ahn et al. 2023, "Transformers learn to implement preconditioned gradient descent", section 4).
 *
 *     x_i = R g_i,  g_i ~ N(0, I)          R R^T = Sigma, the inputs' covariance; task.inputs: another law of g_i
 *     w ~ N(0, I) or N(0, Sigma^-1)
 *     y_i = <w, x_i> + sigma eps_i,  eps_i ~ N(0, 1), one sigma per sequence
 *     target = <w, x_t>, without noise
 *
 * Each label is one dot product of length d + 1, [x_i, eps_i] . [w; sigma]: the noise lies in the tokens' last column
 * until the labels overwrite it. The query's last column stays 0, so the same product gives the target.
 *
 * With task.sampler = gram a batch for training holds only the Gram matrices of the contexts, which icl_gram_sample
 * draws.
 */
#include <math.h>

#include "core/allocate.h"
#include "core/recipe_keys.h"
#include "iclab/ops_gram.h"
#include "iclab/status.h"
#include "task/laws.h"
#include "task/streams.h"
#include "task/task.h"

typedef struct linear_regression {
    icl_task_prior prior;
    icl_covariance covariance;
    icl_inputs inputs;
    double *input_root;            /* the root of the covariance of x, if inputs are not normal */
    icl_random_params noise_level; /* the key is left open */
    bool draws_gram;               /* for training */
} linear_regression;

/* The tensors that a batch of tokens keeps in icl_batch.scratch. */
enum {
    COLUMN = 0, /* [B, d + 1, 1]: [w; sigma] */
    LABELS,     /* [B, n + 1, 1]: [x_i, eps_i] . [w; sigma]; the last is the target */
    ROOTS,      /* [2, d, d]: R^T and C; absent for the identity covariance */
    NORMALS,    /* [B, n + 1, d]: g_i, then the normals that w is made from; absent likewise */
    RADII,      /* [B, n + 1, 1]: the normals that radii are made from, if inputs have radii */
    RADIUS,     /* the table of icl_spherical; absent likewise */
};

/* The tensors that a batch of Gram matrices keeps there. */
enum {
    TARGETS = 0, /* [B] */
    WEIGHTS,     /* [B, d] */
    LEVELS,      /* [B]: sigma */
    CHI,         /* the table of icl_gram_sample */
    GRAM_ROOTS,  /* [2, d, d]: R and C; absent for the identity covariance */
    GRAM,        /* [B, d + 1, d + 1] */
    QUERY,       /* [B, d + 1] */
};

/* Checks the other keys for inputs that are not normal, and sets the root of the covariance of x. */
static icl_status admit_inputs(const icl_recipe *recipe, size_t d, linear_regression *state, icl_error *error) {
    const double *root = state->covariance.input_root;

    if (state->draws_gram)
        return icl_recipe_reject(recipe, ICL_LAW_KEY(inputs), error,
                                 "normal with task.sampler = gram, which is exact for these alone");
    if (state->prior.weight_root)
        return icl_recipe_reject(recipe, ICL_LAW_KEY(inputs), error, "normal with task.weights = inverse-covariance");
    ICL_CHECK(icl_allocate(d * d, sizeof(double), "root of the inputs' covariance", &state->input_root, error));
    for (size_t i = 0; i < d * d; i++)
        state->input_root[i] = sqrt(state->inputs.variance) * (root ? root[i] : i % (d + 1) == 0);
    state->prior.covariance_root = state->input_root;
    return ICL_OK;
}

static const icl_choice samplers[] = {{"tokens", ICL_SAMPLER_TOKENS}, {"gram", ICL_SAMPLER_GRAM}, {0}};

typedef enum weight_law { WEIGHTS_NORMAL = 0, WEIGHTS_INVERSE_COVARIANCE } weight_law;
static const icl_choice weight_laws[] = {
    {"normal", WEIGHTS_NORMAL}, {"inverse-covariance", WEIGHTS_INVERSE_COVARIANCE}, {0}};

typedef struct regression_keys {
    weight_law weights;
    icl_task_sampler sampler;
} regression_keys;

#define KEY(field) ICL_KEY("task", regression_keys, field)

static const icl_recipe_key own_rows[] = {
    {KEY(weights), "normal", .choices = weight_laws, .help = "w ~ N(0, I) or N(0, inverse of the covariance of x)"},
    {KEY(sampler), "tokens", .choices = samplers, .help = "training draws every token, or the Gram matrix alone"},
};
static const icl_recipe_group own_keys = ICL_RECIPE_GROUP(own_rows);
const icl_recipe_group *const icl_linear_regression_keys[] = {&icl_pairs_keys,      &icl_noise_keys, &icl_inputs_keys,
                                                              &icl_covariance_keys, &own_keys,       NULL};

static icl_task_prior prior_of_noise(const icl_noise *noise) {
    icl_task_prior prior = {.noise = noise->kind,
                            .noise_max = noise->most,
                            .noise_count = noise->level.choice_count,
                            .mean_square_noise = noise->mean_square};

    for (size_t i = 0; i < prior.noise_count; i++)
        prior.noise_levels[i] = (double)noise->level.choices[i];
    return prior;
}

static icl_status create(const icl_recipe *recipe, icl_task *task, icl_error *error) {
    linear_regression *state = NULL;
    regression_keys settings;
    icl_noise noise;

    ICL_CHECK(icl_allocate(1, sizeof *state, "linear regression", &state, error));
    task->state = state;
    icl_recipe_read(recipe, &own_keys, &settings);
    state->draws_gram = settings.sampler == ICL_SAMPLER_GRAM;
    ICL_CHECK(icl_task_read_pairs(recipe, task, error));
    ICL_CHECK(icl_noise_read(recipe, &noise, error));
    state->noise_level = noise.level;
    state->prior = prior_of_noise(&noise);
    task->prior = &state->prior;
    ICL_CHECK(icl_covariance_read(recipe, icl_task_dimension(task), &state->covariance, error));
    state->prior.covariance_root = state->covariance.input_root;
    if (settings.weights == WEIGHTS_INVERSE_COVARIANCE)
        state->prior.weight_root = state->covariance.precision_root;
    ICL_CHECK(icl_inputs_read(recipe, icl_task_dimension(task), &state->inputs, error));
    if (state->inputs.law != ICL_INPUTS_NORMAL)
        ICL_CHECK(admit_inputs(recipe, icl_task_dimension(task), state, error));
    return ICL_OK;
}

static void destroy(icl_task *task) {
    linear_regression *state = task->state;
    if (state) {
        icl_covariance_release(&state->covariance);
        icl_free(&state->input_root);
    }
    icl_free(&task->state);
}

/* Writes the roots that the products of one batch need: R^T and C for tokens, R and C for Gram matrices, and for both
 * the identity in place of C if the weights have identity covariance. */
static icl_status write_roots(const icl_task *task, bool transposed, icl_tensor roots, icl_error *error) {
    const size_t d = icl_task_dimension(task);
    const icl_covariance *covariance = &((const linear_regression *)task->state)->covariance;
    double *values = NULL;
    icl_status status;

    ICL_TRY(icl_allocate(2 * d * d, sizeof(double), "covariance roots", &values, error));
    for (size_t row = 0; row < d; row++)
        for (size_t column = 0; column < d; column++) {
            const size_t at = row * d + column;
            values[at] = covariance->input_root[transposed ? column * d + row : at];
            values[d * d + at] = task->prior->weight_root ? task->prior->weight_root[at] : row == column;
        }
    ICL_TRY(icl_tensor_write_double(roots, values, error));
done:
    icl_free(&values);
    return status;
}

static icl_status create_tokens(const icl_task *task, icl_backend *backend, size_t size, icl_batch *batch,
                                icl_error *error) {
    const size_t d = icl_task_dimension(task), n = icl_task_context(task);
    const linear_regression *state = task->state;
    icl_tensor *scratch = batch->scratch;

    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, n + 1, d + 1}, &batch->inputs, error));
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, d + 1, 1}, &scratch[COLUMN], error));
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, n + 1, 1}, &scratch[LABELS], error));
    ICL_CHECK(icl_inputs_create_radii(&state->inputs, backend, size, n + 1, &scratch[RADII], &scratch[RADIUS], error));
    if (state->covariance.input_root) {
        ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){2, d, d}, &scratch[ROOTS], error));
        ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, n + 1, d}, &scratch[NORMALS], error));
        ICL_CHECK(write_roots(task, true, scratch[ROOTS], error));
    }
    /* The query's label slots are the only elements that sampling never writes. */
    ICL_CHECK(icl_fill(backend, batch->inputs, 0, error));
    batch->targets = icl_tensor_slice(scratch[LABELS], 1, n, 1);
    ICL_CHECK(icl_batch_add_side(batch, ICL_SIDE_COEFFICIENTS, icl_tensor_slice(scratch[COLUMN], 1, 0, d), error));
    return icl_batch_add_side(batch, ICL_SIDE_NOISE, icl_tensor_slice(scratch[COLUMN], 1, d, 1), error);
}

static icl_status fill_normal(icl_backend *backend, icl_random_key key, icl_tensor out, icl_error *error) {
    return icl_random_fill(backend, &(icl_random_params){.key = key, .distribution = ICL_NORMAL}, out, error);
}

/* Samples inputs [B, n + 1, d] into the tokens. */
static icl_status sample_inputs(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, uint32_t seed,
                                uint64_t step, icl_batch *batch, icl_error *error) {
    const linear_regression *state = task->state;
    const icl_tensor *scratch = batch->scratch;
    const icl_tensor inputs = icl_tensor_slice(batch->inputs, 2, 0, icl_task_dimension(task));
    const icl_tensor to = state->covariance.input_root ? scratch[NORMALS] : inputs;

    ICL_CHECK(
        icl_inputs_sample(&state->inputs, backend, purpose, seed, step, to, scratch[RADII], scratch[RADIUS], error));
    if (state->covariance.input_root)
        ICL_CHECK(icl_matmul_strict(backend, inputs, to, icl_tensor_slice(scratch[ROOTS], 0, 0, 1), error));
    return ICL_OK;
}

static icl_status sample_weights(const icl_task *task, icl_backend *backend, icl_random_key key, icl_batch *batch,
                                 icl_error *error) {
    const icl_tensor normals = batch->scratch[NORMALS];
    const icl_tensor weights = icl_tensor_slice(batch->scratch[COLUMN], 1, 0, icl_task_dimension(task));
    icl_tensor columns;

    if (!task->prior->weight_root)
        return fill_normal(backend, key, weights, error);
    /* The memory of the inputs' normals is free again, because the inputs are made and a queue runs in order. */
    columns = icl_tensor_swap_axes(icl_tensor_slice(normals, 1, 0, 1), 1, 2);
    ICL_CHECK(fill_normal(backend, key, columns, error));
    return icl_matmul_strict(backend, weights, icl_tensor_slice(batch->scratch[ROOTS], 0, 1, 1), columns, error);
}

static icl_status sample_tokens(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, uint32_t seed,
                                uint64_t step, icl_batch *batch, icl_error *error) {
    const size_t d = icl_task_dimension(task), n = icl_task_context(task);
    const icl_tensor labels = icl_tensor_slice(icl_tensor_slice(batch->inputs, 2, d, 1), 1, 0, n);
    icl_random_params noise_level = ((const linear_regression *)task->state)->noise_level;
    icl_random_key keys[ICL_ROLE_COUNT];

    for (int role = 0; role < ICL_ROLE_COUNT; role++)
        keys[role] = (icl_random_key){seed, icl_task_stream(purpose, (icl_task_role)role), step};
    noise_level.key = keys[ICL_ROLE_NOISE_LEVEL];
    ICL_CHECK(sample_inputs(task, backend, purpose, seed, step, batch, error));
    ICL_CHECK(sample_weights(task, backend, keys[ICL_ROLE_WEIGHTS], batch, error));
    ICL_CHECK(icl_random_fill(backend, &noise_level, icl_tensor_slice(batch->scratch[COLUMN], 1, d, 1), error));
    ICL_CHECK(fill_normal(backend, keys[ICL_ROLE_LABEL_NOISE], labels, error));
    ICL_CHECK(icl_matmul_strict(backend, batch->scratch[LABELS], batch->inputs, batch->scratch[COLUMN], error));
    return icl_copy(backend, labels, icl_tensor_slice(batch->scratch[LABELS], 1, 0, n), error);
}

/* ---- Batches of Gram matrices ---- */

static icl_status write_chi(icl_tensor table, size_t context, icl_error *error) {
    double *values = NULL;
    icl_status status;

    ICL_TRY(icl_allocate(icl_tensor_count(&table), sizeof(double), "table of chi quantiles", &values, error));
    icl_chi_table(context, table.shape[0], values);
    ICL_TRY(icl_tensor_write_double(table, values, error));
done:
    icl_free(&values);
    return status;
}

static icl_status create_gram(const icl_task *task, icl_backend *backend, size_t size, icl_batch *batch,
                              icl_error *error) {
    const size_t d = icl_task_dimension(task), n = icl_task_context(task), columns = n < d + 1 ? n : d + 1;
    icl_tensor *scratch = batch->scratch;

    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, d + 1, d + 1}, &scratch[GRAM], error));
    ICL_CHECK(icl_tensor_create(backend, 2, (size_t[]){size, d + 1}, &scratch[QUERY], error));
    ICL_CHECK(icl_tensor_create(backend, 1, &size, &scratch[TARGETS], error));
    ICL_CHECK(icl_tensor_create(backend, 2, (size_t[]){size, d}, &scratch[WEIGHTS], error));
    ICL_CHECK(icl_tensor_create(backend, 1, &size, &scratch[LEVELS], error));
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){columns, ICL_CHI_PIECES, ICL_CHI_TERMS}, &scratch[CHI], error));
    ICL_CHECK(write_chi(scratch[CHI], n, error));
    if (task->prior->covariance_root) {
        ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){2, d, d}, &scratch[GRAM_ROOTS], error));
        ICL_CHECK(write_roots(task, false, scratch[GRAM_ROOTS], error));
    }
    batch->targets = icl_tensor_reshape(scratch[TARGETS], 3, (size_t[]){size, 1, 1});
    const icl_side sides[] = {
        {ICL_SIDE_GRAM, scratch[GRAM]},
        {ICL_SIDE_QUERY, scratch[QUERY]},
        {ICL_SIDE_COEFFICIENTS, icl_tensor_reshape(scratch[WEIGHTS], 3, (size_t[]){size, d, 1})},
        {ICL_SIDE_NOISE, icl_tensor_reshape(scratch[LEVELS], 3, (size_t[]){size, 1, 1})},
    };
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++)
        ICL_CHECK(icl_batch_add_side(batch, sides[i].name, sides[i].tensor, error));
    return ICL_OK;
}

static icl_status sample_gram(const icl_task *task, icl_backend *backend, icl_random_key key, icl_batch *batch,
                              icl_error *error) {
    const icl_tensor *scratch = batch->scratch;
    const icl_gram_params params = {.key = key,
                                    .context = icl_task_context(task),
                                    .noise_level = ((const linear_regression *)task->state)->noise_level};
    return icl_gram_sample(backend, &params, scratch[GRAM], scratch[QUERY], scratch[TARGETS], scratch[WEIGHTS],
                           scratch[LEVELS], scratch[CHI], scratch[GRAM_ROOTS], error);
}

/* ---- Batches of either kind ---- */

static icl_status batch_create(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, size_t size,
                               icl_batch *batch, icl_error *error) {
    if (purpose == ICL_FOR_TRAINING && ((const linear_regression *)task->state)->draws_gram)
        return create_gram(task, backend, size, batch, error);
    return create_tokens(task, backend, size, batch, error);
}

static icl_status sample(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, uint32_t seed,
                         uint64_t step, icl_batch *batch, icl_error *error) {
    const icl_random_key key = {seed, icl_stream_for(purpose, ICL_GRAM_STREAMS), step};
    if (!batch->inputs.buffer)
        return sample_gram(task, backend, key, batch, error);
    return sample_tokens(task, backend, purpose, seed, step, batch, error);
}

const icl_task_family icl_linear_regression = {
    .name = "linear-regression",
    .create = create,
    .destroy = destroy,
    .batch_create = batch_create,
    .sample = sample,
};
