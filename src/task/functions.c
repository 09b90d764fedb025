/*
 * Functions of a known Lipschitz constant on the unit sphere: the tasks of Collins, Parulekar, Mokhtari, Sanghavi,
 * Shakkottai 2024 (arXiv 2402.11639). The paper's text was not at hand; its classes are taken as
 *
 *     x_i uniform on the sphere S^(d-1),  a uniform on the sphere,  s_i = a^T x_i,  l, l', b ~ U(-L, L)
 *     affine:     f(x_i) = l s_i + b
 *     relu:       f(x_i) = l max(s_i, 0) + l' max(-s_i, 0) + b
 *     cosine:     f(x_i) = l cos(2 s_i) / 2 + b
 *     quadratic:  f(x_i) = l s_i^2 / 2 + b
 *     y_i = f(x_i) + sigma eps_i,  target = f(x_t), without noise
 *
 * so that no slope along the sphere exceeds L = task.lipschitz, whatever the class. With task.subspace = k the
 * functions depend on only k directions (section 4): B [d, k] and B' [d, d - k] are the columns of one random rotation,
 * u_i and v_i uniform on the spheres S^(k-1) and S^(d-k-1), c = task.nuisance, and
 *
 *     x_i = B u_i + c B' v_i,  a uniform on S^(k-1),  s_i = a^T u_i = a^T B^T x_i.
 *
 * Only strict ops decide bits. A label is the product of a row of features with the column of their coefficients:
 * [g(s_i), …, 1, eps_i] . [l, …, b, sigma]. cos(2 s) / 2 is the polynomial sum_j (-1)^j 2^(2j - 1) / (2j)! t^j, j <=
 * 8, in t = s^2, which it meets within 3e-11, summed over powers that round once each: an elementwise product of
 * floats is exact in the double precision of "ref", and the strict product by 1 that follows rounds it there as it
 * was rounded elsewhere.
 */
#include "task/parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/print.h"
#include "core/recipe_keys.h"
#include "core/threads.h"
#include "iclab/backend.h"
#include "iclab/ops.h"
#include "task/laws.h"
#include "task/streams.h"
#include "task/task.h"

/* task.function. */
typedef enum function_class { AFFINE = 0, RELU, COSINE, QUADRATIC } function_class;

/* The smallest slope whose products with coordinates stay normal floats (task/laws.c). */
static const double SMALLEST_LIPSCHITZ = 1e-15;

#define FREQUENCY 2.0 /* of cosine, in s */

enum { COSINE_TERMS = 9, QUADRATIC_TERMS = 2, WIDEST_PRODUCT = 4 };

typedef struct functions {
    function_class function;
    double lipschitz, nuisance; /* L, c */
    size_t subspace;            /* k; 0: functions of all of x */
    double *rotation;           /* [d][d], orthonormal columns: B, then B'; NULL without a subspace */
    icl_random_params noise_level;
    icl_functions_fit fit;
} functions;

/* The tensors that a batch keeps in icl_batch.scratch. A function has C slopes, F = C + 2 coefficients in all. */
enum {
    PARTS = 0,    /* [B, n + 1, d]: (u_i, v_i); absent without a subspace */
    DIRECTIONS,   /* [B, 1, k or d]: a */
    FEATURES,     /* [B, n + 1, F]: the function's own, 1, eps_i; the query's eps is 0 */
    COEFFICIENTS, /* [B, F, 1]: l, l', …, b, sigma */
    LABELS,       /* [B, n + 1, 1]: s_i, then f(x_i) + sigma eps_i; the last is the target */
    POWERS,       /* [B (n + 1), COSINE_TERMS]: 1, t, t^2, …; absent if nothing is a polynomial */
    PRODUCTS,     /* [B (n + 1), WIDEST_PRODUCT]: likewise */
    CONSTANTS, /* the transposed rotation, the polynomial, the identity of WIDEST_PRODUCT rows: views of these below */
};

static size_t polynomial_terms(const functions *state) {
    return state->function == COSINE ? COSINE_TERMS : state->function == QUADRATIC ? QUADRATIC_TERMS : 0;
}

/* Returns C, the number of a function's slopes. */
static size_t slopes(const functions *state) {
    return state->function == RELU ? 2 : 1;
}

static size_t direction_length(const icl_task *task) {
    const functions *state = task->state;
    return state->subspace > 0 ? state->subspace : icl_task_dimension(task);
}

/* ---- The recipe ---- */

static const icl_choice classes[] = {
    {"affine", AFFINE}, {"relu", RELU}, {"cosine", COSINE}, {"quadratic", QUADRATIC}, {0}};

#define KEY(field)  ICL_KEY("task", functions, field)
#define NAME(field) ICL_KEY_NAME("task", functions, field)

static const icl_recipe_key subspace_rows[] = {
    {KEY(nuisance), "1", 0, 1e6, .help = "length of the part of x outside the subspace, beside 1 inside"},
};
static const icl_recipe_group subspace_keys = ICL_RECIPE_GROUP(subspace_rows);
static const icl_recipe_group *const in_subspace[] = {&subspace_keys, &icl_rotation_keys, NULL};

static const icl_recipe_key own_rows[] = {
    {KEY(function), "affine", .choices = classes, .help = "f of one random direction of x on the unit sphere"},
    {KEY(lipschitz), "1", 0, 1e15, .help = "largest slope of f; slopes and offsets are uniform up to it"},
    {KEY(subspace), "0", 0, ICL_MAX_EXTENT, .help = "directions of x that f depends on, a random subspace; 0: all",
     .keys = in_subspace, .neutral = "0"},
};
/* Defaults: inputs on which these functions are defined; noise as in the paper's figures, small beside the functions;
 * and a model that learns how wide to look. */
static const icl_recipe_default own_defaults[] = {{"task", "inputs", "sphere"},
                                                  {"task", "noise", "fixed:0.1"},
                                                  {"model", "family", "softmax"},
                                                  {"model", "layers", "1"},
                                                  {0}};
static const icl_recipe_group own_keys = {own_rows, sizeof own_rows / sizeof *own_rows, own_defaults};
const icl_recipe_group *const icl_functions_keys[] = {&icl_pairs_keys, &icl_noise_keys, &icl_inputs_keys, &own_keys,
                                                      NULL};

static icl_status read_subspace(const icl_recipe *recipe, size_t d, functions *state, icl_error *error) {
    if (state->subspace == 0)
        return ICL_OK;
    if (state->subspace >= d)
        return icl_recipe_reject(recipe, NAME(subspace), error, "fewer than d = %zu directions", d);
    ICL_CHECK(icl_random_rotation(d, (uint32_t)icl_law_keys_read(recipe).rotation_seed, &state->rotation, error));
    for (size_t i = 0; i < d * d; i++)
        state->rotation[i] = (double)(float)state->rotation[i];
    return ICL_OK;
}

static icl_status create(const icl_recipe *recipe, icl_task *task, icl_error *error) {
    functions *state = NULL;
    icl_noise noise;

    ICL_CHECK(icl_allocate(1, sizeof *state, "functions", &state, error));
    task->state = state;
    ICL_CHECK(icl_task_read_pairs(recipe, task, error));
    icl_recipe_read(recipe, &own_keys, state);
    icl_recipe_read(recipe, &subspace_keys, state);
    if (state->lipschitz > 0 && state->lipschitz < SMALLEST_LIPSCHITZ)
        ICL_CHECK(icl_recipe_reject(recipe, NAME(lipschitz), error,
                                    "0, or %g and more: %g makes numbers that some devices flush to 0",
                                    SMALLEST_LIPSCHITZ, state->lipschitz));
    if (strcmp(icl_law_keys_read(recipe).inputs, "sphere") != 0)
        ICL_CHECK(icl_recipe_reject(recipe, ICL_LAW_KEY(inputs), error,
                                    "sphere: the functions of task.family = functions are defined on it"));
    ICL_CHECK(icl_noise_read(recipe, &noise, error));
    state->noise_level = noise.level;
    return read_subspace(recipe, icl_task_dimension(task), state, error);
}

static void destroy(icl_task *task) {
    functions *state = task->state;
    if (state)
        icl_free(&state->rotation);
    icl_free(&task->state);
}

icl_subspace icl_task_subspace(const icl_task *task) {
    const functions *state = task->state;

    return task->family == &icl_functions ? (icl_subspace){state->subspace, state->rotation} : (icl_subspace){0};
}

const icl_functions_fit *icl_functions_get_fit(const icl_task *task) {
    return &((const functions *)task->state)->fit;
}

/* ---- Constants of a batch ---- */

static icl_tensor rotation_of(const icl_task *task, const icl_batch *batch) {
    const size_t d = icl_task_dimension(task);
    return icl_tensor_reshape(icl_tensor_slice(batch->scratch[CONSTANTS], 0, 0, d * d), 2, (size_t[]){d, d});
}

static icl_tensor polynomial_of(const icl_task *task, const icl_batch *batch) {
    const size_t d = icl_task_dimension(task), terms = polynomial_terms(task->state);
    return icl_tensor_reshape(icl_tensor_slice(batch->scratch[CONSTANTS], 0, d * d, terms), 2, (size_t[]){terms, 1});
}

static icl_tensor identity_of(const icl_task *task, const icl_batch *batch, size_t size) {
    const size_t d = icl_task_dimension(task), all = WIDEST_PRODUCT;
    const icl_tensor matrix = icl_tensor_reshape(
        icl_tensor_slice(batch->scratch[CONSTANTS], 0, d * d + COSINE_TERMS, all * all), 2, (size_t[]){all, all});
    return icl_tensor_slice(icl_tensor_slice(matrix, 0, 0, size), 1, 0, size);
}

static icl_status write_constants(const icl_task *task, icl_tensor constants, icl_error *error) {
    const functions *state = task->state;
    const size_t d = icl_task_dimension(task);
    double *values = NULL, *polynomial, *identity, term = 1 / FREQUENCY;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(icl_tensor_count(&constants), sizeof *values, "constants", &values, error));
    polynomial = values + d * d;
    identity = polynomial + COSINE_TERMS;
    for (size_t i = 0; state->rotation && i < d * d; i++) /* row i / d of the transpose: a column of the rotation */
        values[i] = state->rotation[i % d * d + i / d] * (i / d < state->subspace ? 1.0 : state->nuisance);
    for (int j = 0; j < COSINE_TERMS && state->function == COSINE; j++) {
        polynomial[j] = term;
        term *= -FREQUENCY * FREQUENCY / ((2 * j + 1) * (2 * j + 2));
    }
    if (state->function == QUADRATIC)
        polynomial[1] = 0.5;
    for (int i = 0; i < WIDEST_PRODUCT; i++)
        identity[i * WIDEST_PRODUCT + i] = 1;
    ICL_TRY(icl_tensor_write_double(constants, values, error));
done:
    icl_free(&values);
    return status;
}

/* ---- Batches ---- */

/* Fills what sampling never writes: 1 in the features and among the powers, 0 for the query's noise and its label
 * slot. */
static icl_status fill_constant_columns(const icl_task *task, icl_backend *backend, icl_batch *batch,
                                        icl_error *error) {
    const size_t own = slopes(task->state);
    const icl_tensor features = batch->scratch[FEATURES], powers = batch->scratch[POWERS];

    ICL_CHECK(icl_fill(backend, batch->inputs, 0, error));
    ICL_CHECK(icl_fill(backend, features, 0, error));
    ICL_CHECK(icl_fill(backend, icl_tensor_slice(features, 2, own, 1), 1, error));
    if (powers.buffer)
        ICL_CHECK(icl_fill(backend, icl_tensor_slice(powers, 1, 0, 1), 1, error));
    return ICL_OK;
}

static icl_status create_scratch(const icl_task *task, icl_backend *backend, size_t size, icl_batch *batch,
                                 icl_error *error) {
    const functions *state = task->state;
    const size_t d = icl_task_dimension(task), n = icl_task_context(task), all = slopes(state) + 2;
    const size_t rows = size * (n + 1), constants = d * d + COSINE_TERMS + WIDEST_PRODUCT * WIDEST_PRODUCT;
    icl_tensor *scratch = batch->scratch;

    if (state->subspace > 0)
        ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, n + 1, d}, &scratch[PARTS], error));
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, 1, direction_length(task)}, &scratch[DIRECTIONS], error));
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, n + 1, all}, &scratch[FEATURES], error));
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, all, 1}, &scratch[COEFFICIENTS], error));
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, n + 1, 1}, &scratch[LABELS], error));
    if (polynomial_terms(state) > 0) {
        ICL_CHECK(icl_tensor_create(backend, 2, (size_t[]){rows, COSINE_TERMS}, &scratch[POWERS], error));
        ICL_CHECK(icl_tensor_create(backend, 2, (size_t[]){rows, WIDEST_PRODUCT}, &scratch[PRODUCTS], error));
    }
    return icl_tensor_create(backend, 1, &constants, &scratch[CONSTANTS], error);
}

static icl_status batch_create(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, size_t size,
                               icl_batch *batch, icl_error *error) {
    const size_t d = icl_task_dimension(task), n = icl_task_context(task), noise = slopes(task->state) + 1;
    const icl_tensor *scratch = batch->scratch;

    (void)purpose;
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, n + 1, d + 1}, &batch->inputs, error));
    ICL_CHECK(create_scratch(task, backend, size, batch, error));
    ICL_CHECK(write_constants(task, scratch[CONSTANTS], error));
    ICL_CHECK(fill_constant_columns(task, backend, batch, error));
    batch->targets = icl_tensor_slice(scratch[LABELS], 1, n, 1);
    ICL_CHECK(icl_batch_add_side(batch, ICL_SIDE_COEFFICIENTS, icl_tensor_swap_axes(scratch[DIRECTIONS], 1, 2), error));
    return icl_batch_add_side(batch, ICL_SIDE_NOISE, icl_tensor_slice(scratch[COEFFICIENTS], 1, noise, 1), error);
}

/* Scales rows of normals to length 1. */
static icl_status fill_directions(icl_backend *backend, icl_tensor rows, icl_error *error) {
    return icl_spherical(backend, rows, rows, (icl_tensor){0}, (icl_tensor){0}, error);
}

/* Samples the inputs, and writes s_i to LABELS. */
static icl_status sample_projections(const icl_task *task, icl_backend *backend, const icl_random_key *keys,
                                     icl_batch *batch, icl_error *error) {
    const size_t d = icl_task_dimension(task), k = direction_length(task);
    const icl_tensor inputs = icl_tensor_slice(batch->inputs, 2, 0, d), parts = batch->scratch[PARTS];
    const icl_tensor normals = k < d ? parts : inputs, seen = icl_tensor_slice(normals, 2, 0, k);
    icl_random_params normal = {.key = keys[ICL_ROLE_INPUTS], .distribution = ICL_NORMAL};

    ICL_CHECK(icl_random_fill(backend, &normal, normals, error));
    ICL_CHECK(fill_directions(backend, seen, error));
    if (k < d) {
        ICL_CHECK(fill_directions(backend, icl_tensor_slice(normals, 2, k, d - k), error));
        ICL_CHECK(icl_matmul_strict(backend, inputs, parts, rotation_of(task, batch), error));
    }
    normal.key = keys[ICL_ROLE_WEIGHTS];
    ICL_CHECK(icl_random_fill(backend, &normal, batch->scratch[DIRECTIONS], error));
    ICL_CHECK(fill_directions(backend, batch->scratch[DIRECTIONS], error));
    return icl_matmul_strict(backend, batch->scratch[LABELS], seen, icl_batch_side(batch, ICL_SIDE_COEFFICIENTS),
                             error);
}

/* Sets powers [first, first + count) to powers [1, 1 + count) times power first - 1, rounded once (see above). */
static icl_status raise_powers(const icl_task *task, icl_backend *backend, icl_batch *batch, size_t first, size_t count,
                               icl_error *error) {
    const icl_tensor powers = batch->scratch[POWERS];
    const icl_tensor products = icl_tensor_slice(batch->scratch[PRODUCTS], 1, 0, count);

    ICL_CHECK(icl_binary(backend, ICL_MULTIPLY, products, icl_tensor_slice(powers, 1, 1, count),
                         icl_tensor_slice(powers, 1, first - 1, 1), error));
    return icl_matmul_strict(backend, icl_tensor_slice(powers, 1, first, count), products,
                             identity_of(task, batch, count), error);
}

/* Evaluates the polynomial in t = s^2 of the s in LABELS. */
static icl_status evaluate_polynomial(const icl_task *task, icl_backend *backend, icl_batch *batch, icl_tensor out,
                                      icl_error *error) {
    const size_t terms = polynomial_terms(task->state), *shape = batch->scratch[LABELS].shape;
    const icl_tensor powers = batch->scratch[POWERS], squares = icl_tensor_slice(powers, 1, 1, 1);
    const icl_tensor product = icl_tensor_slice(batch->scratch[PRODUCTS], 1, 0, 1);
    const icl_tensor s = icl_tensor_reshape(batch->scratch[LABELS], 2, (size_t[]){shape[0] * shape[1], 1});
    const icl_tensor rows = icl_tensor_reshape(powers, 3, (size_t[]){shape[0], shape[1], powers.shape[1]});

    ICL_CHECK(icl_binary(backend, ICL_MULTIPLY, product, s, s, error));
    ICL_CHECK(icl_matmul_strict(backend, squares, product, identity_of(task, batch, 1), error));
    for (size_t first = 2; first < terms; first = 2 * first - 1)
        ICL_CHECK(raise_powers(task, backend, batch, first, first - 1, error));
    return icl_matmul_strict(backend, out, icl_tensor_slice(rows, 2, 0, terms), polynomial_of(task, batch), error);
}

/* Computes the features of s that the slopes multiply. */
static icl_status make_features(const icl_task *task, icl_backend *backend, icl_batch *batch, icl_error *error) {
    const functions *state = task->state;
    const icl_tensor first = icl_tensor_slice(batch->scratch[FEATURES], 2, 0, 1);
    const icl_tensor second = icl_tensor_slice(batch->scratch[FEATURES], 2, 1, 1);
    const icl_tensor s = batch->scratch[LABELS];

    switch (state->function) {
    case AFFINE:
        ICL_CHECK(icl_copy(backend, first, s, error));
        break;
    case RELU:
        ICL_CHECK(icl_unary(backend, ICL_RELU, first, s, error));
        ICL_CHECK(icl_unary(backend, ICL_NEGATE, second, s, error));
        ICL_CHECK(icl_unary(backend, ICL_RELU, second, second, error));
        break;
    case COSINE:
    case QUADRATIC:
        ICL_CHECK(evaluate_polynomial(task, backend, batch, first, error));
        break;
    }
    return ICL_OK;
}

static icl_status sample(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, uint32_t seed,
                         uint64_t step, icl_batch *batch, icl_error *error) {
    const functions *state = task->state;
    const size_t d = icl_task_dimension(task), n = icl_task_context(task), own = slopes(state);
    const icl_tensor features = batch->scratch[FEATURES], coefficients = batch->scratch[COEFFICIENTS];
    icl_random_params noise_level = state->noise_level;
    icl_random_key keys[ICL_ROLE_COUNT];

    for (int role = 0; role < ICL_ROLE_COUNT; role++)
        keys[role] = (icl_random_key){seed, icl_task_stream(purpose, (icl_task_role)role), step};
    const icl_random_params slope = {.key = {seed, icl_stream_for(purpose, ICL_COEFFICIENT_STREAMS), step},
                                     .low = (float)-state->lipschitz,
                                     .high = (float)state->lipschitz};
    const icl_random_params noise = {.key = keys[ICL_ROLE_LABEL_NOISE], .distribution = ICL_NORMAL};
    noise_level.key = keys[ICL_ROLE_NOISE_LEVEL];
    ICL_CHECK(sample_projections(task, backend, keys, batch, error));
    ICL_CHECK(make_features(task, backend, batch, error));
    ICL_CHECK(icl_random_fill(backend, &slope, icl_tensor_slice(coefficients, 1, 0, own + 1), error));
    ICL_CHECK(icl_random_fill(backend, &noise_level, icl_batch_side(batch, ICL_SIDE_NOISE), error));
    ICL_CHECK(
        icl_random_fill(backend, &noise, icl_tensor_slice(icl_tensor_slice(features, 2, own + 1, 1), 1, 0, n), error));
    ICL_CHECK(icl_matmul_strict(backend, batch->scratch[LABELS], features, coefficients, error));
    return icl_copy(backend, icl_tensor_slice(icl_tensor_slice(batch->inputs, 2, d, 1), 1, 0, n),
                    icl_tensor_slice(batch->scratch[LABELS], 1, 0, n), error);
}

/* ---- Reference predictors ---- */

/*
 *     zero     0
 *     mean     the mean of the context's labels
 *     nearest  the mean label of the k nearest inputs
 *     kernel   kernel regression (Nadaraya 1964, Watson 1964): labels weighed by exp(-|x_t - x_i|^2 / (2 h^2))
 *
 * k and h are those of least squared error on sequences of the same task, drawn for fitting. On the unit sphere
 * |x_t - x_i|^2 = 2 - 2 x_t . x_i, so that the kernel is softmax attention whose M is the identity times 1 / h^2.
 */

/* The number of sequences to fit on: as many as have MOST_PAIRS pairs, but within these limits. */
enum { MOST_SEQUENCES = 4096, LEAST_SEQUENCES = 64, MOST_PAIRS = 1 << 20 };

/* The bandwidths tried: COARSE ones from the typical distance over REACH to REACH times it, then FINE steps about the
 * best. */
#define REACH 100.0
enum { COARSE = 41, FINE = 40 };

typedef enum method { MEAN, NEAREST, KERNEL } method;

/* ---- One sequence: squared distances to the query, and labels, of n pairs ---- */

static void measure(const float *tokens, size_t d, size_t n, double *squares, double *labels) {
    const float *query = tokens + n * (d + 1);

    for (size_t i = 0; i < n; i++) {
        const float *x = tokens + i * (d + 1);
        squares[i] = 0;
        for (size_t j = 0; j < d; j++)
            squares[i] += ((double)x[j] - (double)query[j]) * ((double)x[j] - (double)query[j]);
        labels[i] = (double)x[d];
    }
}

static double mean_of(const double *labels, size_t n) {
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += labels[i];
    return sum / (double)n;
}

/* Sorts pairs by their distance; of equal ones the first stays in front. */
static void sort_pairs(double *squares, double *labels, size_t n) {
    for (size_t i = 1; i < n; i++) {
        const double square = squares[i], label = labels[i];
        size_t at = i;
        for (; at > 0 && squares[at - 1] > square; at--) {
            squares[at] = squares[at - 1];
            labels[at] = labels[at - 1];
        }
        squares[at] = square;
        labels[at] = label;
    }
}

/* Returns the kernel's prediction. Weights are relative to the nearest pair's, because otherwise all could vanish. */
static double smooth(const double *squares, const double *labels, size_t n, double bandwidth) {
    double least = squares[0], sum = 0, weights = 0;

    for (size_t i = 1; i < n; i++)
        least = fmin(least, squares[i]);
    for (size_t i = 0; i < n; i++) {
        const double weight = exp((least - squares[i]) / (2 * bandwidth * bandwidth));
        sum += weight * labels[i];
        weights += weight;
    }
    return sum / weights;
}

/* ---- Fitting ---- */

typedef struct fit_set {
    size_t count, n;
    double *squares, *labels; /* [count][n], sorted by distance */
    double *targets;          /* [count] */
} fit_set;

static void release(fit_set *set) {
    icl_free(&set->squares);
    icl_free(&set->labels);
    icl_free(&set->targets);
}

static size_t count_to_fit(size_t n) {
    const size_t count = MOST_PAIRS / n < MOST_SEQUENCES ? MOST_PAIRS / n : MOST_SEQUENCES;
    return count > LEAST_SEQUENCES ? count : LEAST_SEQUENCES;
}

/* Counts tokens on the device and on the host, squares and labels. */
static double fit_bytes(const icl_reference_predictor *predictor, const icl_task *task) {
    const size_t d = icl_task_dimension(task), n = icl_task_context(task), token = (n + 1) * (d + 1);

    (void)predictor;
    return (double)count_to_fit(n) * (double)(2 * token * sizeof(float) + (2 * n + 1) * sizeof(double));
}

static icl_status draw(const icl_task *task, icl_backend *backend, fit_set *set, icl_error *error) {
    const size_t d = icl_task_dimension(task), n = icl_task_context(task), token = (n + 1) * (d + 1);
    icl_batch batch = {0};
    float *inputs = NULL;
    icl_status status = ICL_OK;

    set->n = n;
    set->count = count_to_fit(n);
    ICL_TRY(icl_allocate(set->count, n * sizeof(double), "distances to fit on", &set->squares, error));
    ICL_TRY(icl_allocate(set->count, n * sizeof(double), "labels to fit on", &set->labels, error));
    ICL_TRY(icl_allocate(set->count, sizeof(double), "targets to fit on", &set->targets, error));
    ICL_TRY(icl_allocate(set->count, token * sizeof *inputs, "sequences to fit on", &inputs, error));
    ICL_TRY(icl_batch_create(task, backend, ICL_FOR_FITTING, set->count, &batch, error));
    ICL_TRY(icl_task_sample(task, backend, ICL_FOR_FITTING, 1, 0, &batch, error));
    ICL_TRY(icl_tensor_read(batch.inputs, inputs, error));
    ICL_TRY(icl_tensor_read_double(batch.targets, set->targets, error));
    for (size_t s = 0; s < set->count; s++) {
        measure(inputs + s * token, d, n, set->squares + s * n, set->labels + s * n);
        sort_pairs(set->squares + s * n, set->labels + s * n, n);
    }
done:
    icl_free(&inputs);
    icl_batch_release(&batch);
    return status;
}

static double error_of_bandwidth(const fit_set *set, double bandwidth) {
    double sum = 0;

    for (size_t s = 0; s < set->count; s++) {
        const double found = smooth(set->squares + s * set->n, set->labels + s * set->n, set->n, bandwidth);
        sum += (found - set->targets[s]) * (found - set->targets[s]);
    }
    return sum;
}

/* Searches a grid, then by golden sections about its best point, in the logarithm. */
static double fit_bandwidth(const fit_set *set) {
    const double golden = 2 / (1 + sqrt(5)), step = 2 * log(REACH) / (COARSE - 1);
    double typical = 0, best = 0, least = (double)INFINITY, low, high;

    for (size_t i = 0; i < set->count * set->n; i++)
        typical += set->squares[i] / (double)(set->count * set->n);
    typical = typical > 0 ? sqrt(typical) : 1;
    for (int i = 0; i < COARSE; i++) {
        const double at = i * step - log(REACH), error = error_of_bandwidth(set, typical * exp(at));
        if (error < least) {
            least = error;
            best = at;
        }
    }
    low = best - step;
    high = best + step;
    for (int i = 0; i < FINE; i++) {
        const double left = high - golden * (high - low), right = low + golden * (high - low);
        if (error_of_bandwidth(set, typical * exp(left)) < error_of_bandwidth(set, typical * exp(right)))
            high = right;
        else
            low = left;
    }
    return typical * exp((low + high) / 2);
}

/* Computes errors [n] of every k, in one pass over the sorted labels; returns the best k. */
static size_t fit_neighbours(const fit_set *set, double *errors) {
    size_t best = 0;

    for (size_t s = 0; s < set->count; s++) {
        double sum = 0;
        for (size_t k = 0; k < set->n; k++) {
            sum += set->labels[s * set->n + k];
            const double off = sum / (double)(k + 1) - set->targets[s];
            errors[k] += off * off;
        }
    }
    for (size_t k = 1; k < set->n; k++)
        best = errors[k] < errors[best] ? k : best;
    return best + 1;
}

static icl_status fit(const icl_task *task, icl_backend *backend, icl_error *error) {
    icl_functions_fit *to = &((functions *)task->state)->fit;
    fit_set set = {0};
    double *errors = NULL;
    icl_status status = ICL_OK;

    if (to->is_done)
        return ICL_OK;
    ICL_TRY(draw(task, backend, &set, error));
    ICL_TRY(icl_allocate(set.n, sizeof *errors, "errors of neighbours", &errors, error));
    to->bandwidth = fit_bandwidth(&set);
    to->neighbours = fit_neighbours(&set, errors);
    to->is_done = true;
done:
    icl_free(&errors);
    release(&set);
    return status;
}

/* ---- The predictors ---- */

static void predict_one(const icl_task *task, const void *settings, size_t number, const float *inputs, double *work,
                        double *output) {
    const icl_functions_fit *fitted = icl_functions_get_fit(task);
    const size_t n = icl_task_context(task);
    double *squares = work, *labels = work + n;

    (void)number;
    measure(inputs, icl_task_dimension(task), n, squares, labels);
    switch (*(const method *)settings) {
    case MEAN:
        *output = mean_of(labels, n);
        break;
    case NEAREST:
        sort_pairs(squares, labels, n);
        *output = mean_of(labels, fitted->neighbours);
        break;
    case KERNEL:
        *output = smooth(squares, labels, n, fitted->bandwidth);
        break;
    }
}

static icl_status predict(const icl_reference_predictor *predictor, const icl_shown_sequences *shown, double *outputs,
                          icl_error *error) {
    if (*(const method *)predictor->settings != MEAN)
        ICL_CHECK(fit(shown->task, shown->backend, error));
    return icl_task_for_each(shown->task, predict_one, predictor->settings, 2 * icl_task_context(shown->task),
                             shown->count, shown->inputs, outputs, error);
}

static void describe(const icl_reference_predictor *predictor, const icl_task *task, char *text, size_t capacity) {
    const icl_functions_fit *fitted = icl_functions_get_fit(task);

    if (*(const method *)predictor->settings == NEAREST)
        snprintf(text, capacity, "k = %zu", fitted->neighbours);
    else
        icl_print(text, capacity, "h = %.4g", fitted->bandwidth);
}

static const icl_reference_predictor *references(const icl_task *task) {
    static const method mean = MEAN, nearest = NEAREST, kernel = KERNEL;
    static const icl_reference_predictor all[] = {{.name = "zero", .predict = icl_task_predict_zero},
                                                  {.name = "mean", .settings = &mean, .predict = predict},
                                                  {"nearest", &nearest, predict, describe, fit_bytes},
                                                  {"kernel", &kernel, predict, describe, fit_bytes},
                                                  {0}};

    (void)task;
    return all;
}

const icl_task_family icl_functions = {
    .name = "functions",
    .create = create,
    .destroy = destroy,
    .batch_create = batch_create,
    .sample = sample,
    .references = references,
};
