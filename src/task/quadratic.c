/*
 * Quadratic targets in context: what theorem 4.2 of Vladymyrov, von Oswald, Sandler, Ge 2024, "Linear Transformers are
 * Versatile In-Context Learners" (arXiv 2402.14180) says of linear transformers. The paper's text was not at hand; the
 * task is
 *
 *     x_i ~ N(0, I), or another law (task.inputs);  W_ab ~ N(0, s^2), independent, s^2 = 1 / (d (d + 2))
 *     y_i = x_i^T W x_i + sigma eps_i,  target = x_t^T W x_t, without noise
 *
 * so that E y^2 = s^2 E |x|^4 = 1 without noise for normal inputs.
 *
 * Only strict ops decide bits: W = (s I) G of normals G, V = X W, and each label is the dot product
 * [x_i, sigma eps_i] . [v_i, 1]. The noise lies in the tokens' last column until the labels overwrite it; the query's
 * stays 0, so that the same product gives the target.
 */
#include "task/quadratic.h"

#include <math.h>

#include "core/allocate.h"
#include "core/recipe_keys.h"
#include "iclab/ops.h"
#include "task/noise.h"
#include "task/streams.h"

/* What a batch keeps in icl_batch.scratch. */
enum {
    NORMALS = 0, /* [B, d, d]: G */
    WEIGHTS,     /* [B, d, d]: W */
    SCALE,       /* [1, d, d]: s I */
    MAPPED,      /* [B, n + 1, d + 1]: (v_i, 1) */
    LABELS,      /* [B, n + 1, 1]: eps_i of the context, then what the products give; the last is the target */
    LEVELS,      /* [B, 1, 1]: sigma */
    RADII,       /* [B, n + 1, 1]: what the radii are made from, where inputs have some */
    RADIUS,      /* the table of icl_spherical; absent likewise */
};

const icl_recipe_group *const icl_quadratic_regression_keys[] = {&icl_pairs_keys, &icl_noise_keys, &icl_inputs_keys,
                                                                 NULL};

/* 1 / sqrt(d (d + 2)), rounded to float: then E y^2 = 1 for x ~ N(0, I). */
static double scale_of(size_t dimension) {
    const double d = (double)dimension;
    return (double)(float)(1 / sqrt(d * (d + 2)));
}

static icl_status create(const icl_recipe *recipe, icl_task *task, icl_error *error) {
    icl_quadratic *state = NULL;

    ICL_CHECK(icl_allocate(1, sizeof *state, "quadratic regression", &state, error));
    task->state = state;
    ICL_CHECK(icl_task_read_pairs(recipe, task, error));
    task->prior.nonlinear = true;
    ICL_CHECK(icl_noise_read(recipe, &task->prior, error));
    state->noise_level = icl_noise_distribution(&task->prior);
    state->scale = scale_of(task->prior.dimension);
    return icl_inputs_read(recipe, task->prior.dimension, &state->inputs, error);
}

static void destroy(icl_task *task) {
    icl_free(&task->state);
}

/* ---- Batches ---- */

static icl_status write_scale(const icl_task *task, icl_tensor scale, icl_error *error) {
    const size_t d = task->prior.dimension;
    double *values = NULL;
    icl_status status;

    ICL_TRY(icl_allocate(d * d, sizeof *values, "scale of the weights", &values, error));
    for (size_t i = 0; i < d; i++)
        values[i * d + i] = ((const icl_quadratic *)task->state)->scale;
    ICL_TRY(icl_tensor_write_double(scale, values, error));
done:
    icl_free(&values);
    return status;
}

static icl_status create_radii(const icl_quadratic *state, icl_backend *backend, size_t size, size_t n,
                               icl_tensor *scratch, icl_error *error) {
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, n + 1, 1}, &scratch[RADII], error));
    ICL_CHECK(icl_tensor_create(backend, 2, (size_t[]){ICL_CHI_PIECES, ICL_CHI_TERMS}, &scratch[RADIUS], error));
    return icl_inputs_write_table(&state->inputs, scratch[RADIUS], error);
}

static icl_status batch_create(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, size_t size,
                               icl_batch *batch, icl_error *error) {
    const size_t d = task->prior.dimension, n = task->prior.context;
    const icl_quadratic *state = task->state;
    icl_tensor *scratch = batch->scratch;

    (void)purpose;
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, n + 1, d + 1}, &batch->inputs, error));
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, d, d}, &scratch[NORMALS], error));
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, d, d}, &scratch[WEIGHTS], error));
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){1, d, d}, &scratch[SCALE], error));
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, n + 1, d + 1}, &scratch[MAPPED], error));
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, n + 1, 1}, &scratch[LABELS], error));
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, 1, 1}, &scratch[LEVELS], error));
    if (icl_inputs_have_radii(&state->inputs))
        ICL_CHECK(create_radii(state, backend, size, n, scratch, error));
    ICL_CHECK(write_scale(task, scratch[SCALE], error));
    /* What sampling never writes: the ones, and the query's label slot. */
    ICL_CHECK(icl_fill(backend, scratch[MAPPED], 1, error));
    ICL_CHECK(icl_fill(backend, batch->inputs, 0, error));
    batch->targets = icl_tensor_slice(scratch[LABELS], 1, n, 1);
    ICL_CHECK(icl_batch_add_side(batch, ICL_SIDE_COEFFICIENTS, scratch[WEIGHTS], error));
    return icl_batch_add_side(batch, ICL_SIDE_NOISE, scratch[LEVELS], error);
}

/* sigma eps_i into the label slots of the context. */
static icl_status sample_noise(const icl_quadratic *state, icl_backend *backend, const icl_random_key *keys,
                               icl_batch *batch, icl_tensor slots, icl_error *error) {
    const icl_tensor eps = icl_tensor_slice(batch->scratch[LABELS], 1, 0, slots.shape[1]);
    const icl_random_params normal = {.key = keys[ICL_ROLE_LABEL_NOISE], .distribution = ICL_NORMAL};
    icl_random_params level = state->noise_level;

    level.key = keys[ICL_ROLE_NOISE_LEVEL];
    ICL_CHECK(icl_random_fill(backend, &level, batch->scratch[LEVELS], error));
    ICL_CHECK(icl_random_fill(backend, &normal, eps, error));
    return icl_matmul_strict(backend, slots, eps, batch->scratch[LEVELS], error);
}

static icl_status sample(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, uint32_t seed,
                         uint64_t step, icl_batch *batch, icl_error *error) {
    const size_t d = task->prior.dimension, n = task->prior.context, rows = batch->size * (n + 1);
    const icl_quadratic *state = task->state;
    const icl_tensor *scratch = batch->scratch, inputs = icl_tensor_slice(batch->inputs, 2, 0, d);
    const icl_tensor slots = icl_tensor_slice(icl_tensor_slice(batch->inputs, 2, d, 1), 1, 0, n);
    const icl_tensor left = icl_tensor_reshape(batch->inputs, 3, (size_t[]){rows, 1, d + 1});
    const icl_tensor right = icl_tensor_reshape(scratch[MAPPED], 3, (size_t[]){rows, d + 1, 1});
    icl_random_key keys[ICL_ROLE_COUNT];

    for (int role = 0; role < ICL_ROLE_COUNT; role++)
        keys[role] = (icl_random_key){seed, icl_task_stream(purpose, (icl_task_role)role), step};
    const icl_random_params normal = {.key = keys[ICL_ROLE_WEIGHTS], .distribution = ICL_NORMAL};
    ICL_CHECK(icl_inputs_sample(&state->inputs, backend, purpose, seed, step, inputs, scratch[RADII], scratch[RADIUS],
                                error));
    ICL_CHECK(icl_random_fill(backend, &normal, scratch[NORMALS], error));
    ICL_CHECK(icl_matmul_strict(backend, scratch[WEIGHTS], scratch[SCALE], scratch[NORMALS], error));
    ICL_CHECK(icl_matmul_strict(backend, icl_tensor_slice(scratch[MAPPED], 2, 0, d), inputs, scratch[WEIGHTS], error));
    ICL_CHECK(sample_noise(state, backend, keys, batch, slots, error));
    ICL_CHECK(
        icl_matmul_strict(backend, icl_tensor_reshape(scratch[LABELS], 3, (size_t[]){rows, 1, 1}), left, right, error));
    return icl_copy(backend, slots, icl_tensor_slice(scratch[LABELS], 1, 0, n), error);
}

const icl_task_family icl_quadratic_regression = {
    .name = "quadratic-regression",
    .create = create,
    .destroy = destroy,
    .batch_create = batch_create,
    .sample = sample,
    .references = icl_quadratic_references,
};
