#include "task/laws.h"

#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "core/recipe_keys.h"
#include "iclab/number.h"
#include "iclab/ops.h"
#include "iclab/random.h"
#include "iclab/status.h"
#include "task/streams.h"

#define KEY(field) ICL_KEY("task", icl_law_keys, field)

/* ---- The noise level ---- */

static const icl_recipe_key noise_rows[] = {
    {KEY(noise), "uniform:5", .help = "sigma of a sequence: S or fixed:S | uniform:SMAX | choice:S1,S2,..."},
};
const icl_recipe_group icl_noise_keys = ICL_RECIPE_GROUP(noise_rows);

/* The largest level whose square, times the square of any normal and summed over a context, stays a normal float. */
static const double LARGEST_NOISE = 1e15;

/*
 * Task data must have the same bits on devices that flush subnormal floats to zero, so no subnormal may occur. The
 * smallest normal that is drawn is 1.87e-8 (arithmetic/random_words.h, found by trying all): a level times it stays
 * above 2^-126 = 1.18e-38 from 6.3e-31 on. A uniform level is a multiple of 2^-24 of the maximum.
 */
static const double SMALLEST_NOISE = 1e-30, SMALLEST_MAXIMUM = 1e-22;

static icl_status read_levels(const icl_recipe *recipe, const char *list, double smallest, double *levels,
                              size_t *count, icl_error *error) {
    if (!icl_parse_numbers(list, ICL_MAX_CHOICES, levels, count))
        return icl_recipe_reject(recipe, ICL_LAW_KEY(noise), error, "numbers after the colon, separated by commas");
    if (*count > ICL_MAX_CHOICES)
        return icl_recipe_reject(recipe, ICL_LAW_KEY(noise), error, "at most %d levels, not %zu", ICL_MAX_CHOICES,
                                 *count);
    for (size_t i = 0; i < *count; i++) {
        if (!(levels[i] >= 0 && levels[i] <= LARGEST_NOISE))
            return icl_recipe_reject(recipe, ICL_LAW_KEY(noise), error, "standard deviations from 0 to %g, not %g",
                                     LARGEST_NOISE, levels[i]);
        if (levels[i] > 0 && levels[i] < smallest)
            return icl_recipe_reject(recipe, ICL_LAW_KEY(noise), error,
                                     "0, or %g and more: %g makes numbers that some devices flush to 0", smallest,
                                     levels[i]);
    }
    return ICL_OK;
}

icl_status icl_noise_read(const icl_recipe *recipe, icl_noise *noise, icl_error *error) {
    static const char *const prefixes[] = {
        [ICL_NOISE_FIXED] = "fixed:", [ICL_NOISE_UNIFORM] = "uniform:", [ICL_NOISE_CHOICE] = "choice:"};
    const char *text = icl_law_keys_read(recipe).noise, *list = text;
    double levels[ICL_MAX_CHOICES], number;
    size_t kind = 0, count = 0;

    while (kind < 3 && strncmp(text, prefixes[kind], strlen(prefixes[kind])) != 0)
        kind++;
    if (kind < 3)
        list += strlen(prefixes[kind]);
    else if (icl_parse_number(text, strlen(text), &number))
        kind = ICL_NOISE_FIXED;
    else
        return icl_recipe_reject(recipe, ICL_LAW_KEY(noise), error, "fixed:S, uniform:MAXIMUM or choice:S1,S2,...");
    ICL_CHECK(read_levels(recipe, list, kind == ICL_NOISE_UNIFORM ? SMALLEST_MAXIMUM : SMALLEST_NOISE, levels, &count,
                          error));
    if (kind != ICL_NOISE_CHOICE && count != 1)
        return icl_recipe_reject(recipe, ICL_LAW_KEY(noise), error,
                                 "one number after %s (several are choice:S1,S2,...)", prefixes[kind]);
    *noise = (icl_noise){.kind = (icl_noise_kind)kind, .level = {.distribution = ICL_CHOICE}};
    for (size_t i = 0; i < count; i++) {
        const double level = (double)(float)levels[i];
        noise->level.choices[noise->level.choice_count++] = (float)level;
        noise->most = fmax(noise->most, level);
        noise->mean_square += level * level / (double)count;
    }
    if (noise->kind == ICL_NOISE_UNIFORM) {
        noise->level = (icl_random_params){.distribution = ICL_UNIFORM, .high = (float)noise->most};
        noise->mean_square /= 3; /* U[0, 1] has the mean square 1/3 */
    }
    return ICL_OK;
}

/* ---- Orthogonal matrices ---- */

/* Applies row -= (row . earlier) earlier for every earlier row. */
static void remove_projections(double *matrix, size_t dimension, size_t row) {
    double *target = matrix + row * dimension;
    for (size_t k = 0; k < row; k++) {
        const double *earlier = matrix + k * dimension;
        double product = 0;
        for (size_t i = 0; i < dimension; i++)
            product += target[i] * earlier[i];
        for (size_t i = 0; i < dimension; i++)
            target[i] -= product * earlier[i];
    }
}

void icl_orthogonalize(size_t dimension, double *matrix) {
    for (size_t row = 0; row < dimension; row++) {
        double *values = matrix + row * dimension;
        for (int pass = 0; pass < 2; pass++) {
            double square = 0;
            remove_projections(matrix, dimension, row);
            for (size_t i = 0; i < dimension; i++)
                square += values[i] * values[i];
            for (size_t i = 0; i < dimension; i++)
                values[i] /= sqrt(square);
        }
    }
}

/* ---- The covariance ---- */

/* The range of eigenvalues whose root and inverse root, and the products of these with normals, stay normal floats:
 * also the product of two inputs, an eigenvalue times the square of the smallest normal, 1.87e-8 (see the noise
 * level). */
static const double SMALLEST_EIGENVALUE = 1e-22, LARGEST_EIGENVALUE = 1e24;

icl_status icl_random_rotation(size_t dimension, uint32_t seed, double **rotation, icl_error *error) {
    const icl_random_key key = {.seed = seed, .stream = ICL_ROTATION_STREAM};

    ICL_CHECK(icl_allocate(dimension * dimension, sizeof(double), "rotation", rotation, error));
    for (size_t i = 0; i < dimension * dimension; i++)
        (*rotation)[i] = (double)icl_normal_from_word(icl_random_word(key, i));
    icl_orthogonalize(dimension, *rotation);
    return ICL_OK;
}

static icl_status reject_covariance(const icl_recipe *recipe, size_t dimension, icl_error *error) {
    return icl_recipe_reject(recipe, ICL_LAW_KEY(covariance), error,
                             "identity, spectrum: and d = %zu eigenvalues, or power: and a whole exponent from 0 to 8",
                             dimension);
}

/* Sets the spectrum to i^-P over its mean, for whole P, so that no library's pow decides a bit. */
static bool read_power(const char *text, size_t dimension, double *spectrum) {
    double exponent = 0, sum = 0;
    size_t count = 0;

    if (!icl_parse_numbers(text, 1, &exponent, &count) || count != 1 || !(exponent >= 0 && exponent <= 8) ||
        exponent != floor(exponent))
        return false;
    for (size_t i = 0; i < dimension; i++) {
        spectrum[i] = 1;
        for (int p = 0; p < (int)exponent; p++)
            spectrum[i] /= (double)(i + 1);
        sum += spectrum[i];
    }
    for (size_t i = 0; i < dimension; i++)
        spectrum[i] *= (double)dimension / sum;
    return true;
}

static icl_status read_spectrum(const icl_recipe *recipe, size_t dimension, double *spectrum, icl_error *error) {
    static const char list[] = "spectrum:", power[] = "power:";
    const char *text = icl_law_keys_read(recipe).covariance;
    size_t count = 0;
    const bool is_list = strncmp(text, list, sizeof list - 1) == 0;

    if (is_list
            ? !icl_parse_numbers(text + sizeof list - 1, dimension, spectrum, &count) || count != dimension
            : strncmp(text, power, sizeof power - 1) != 0 || !read_power(text + sizeof power - 1, dimension, spectrum))
        return reject_covariance(recipe, dimension, error);
    for (size_t i = 0; i < dimension; i++) {
        if (!(spectrum[i] > 0))
            return icl_recipe_reject(recipe, ICL_LAW_KEY(covariance), error,
                                     "eigenvalues above 0 (%g makes it not positive definite)", spectrum[i]);
        if (spectrum[i] < SMALLEST_EIGENVALUE || spectrum[i] > LARGEST_EIGENVALUE)
            return icl_recipe_reject(recipe, ICL_LAW_KEY(covariance), error, "eigenvalues from %g to %g, not %g",
                                     SMALLEST_EIGENVALUE, LARGEST_EIGENVALUE, spectrum[i]);
    }
    return ICL_OK;
}

static const icl_recipe_key seed_rows[] = {
    {KEY(rotation_seed), "1", 0, ICL_MAX_SEED, .help = "which rotation, or subspace"},
};
const icl_recipe_group icl_rotation_keys = ICL_RECIPE_GROUP(seed_rows);
static const icl_recipe_group *const rotated[] = {&icl_rotation_keys, NULL};

/* Read only for a covariance that is not the identity, which no rotation changes. */
static const icl_recipe_key rotate_rows[] = {
    {KEY(rotate), "false", .help = "turn the covariance's axes by a random rotation", .keys = rotated,
     .neutral = "false"},
};
static const icl_recipe_group rotate_keys = ICL_RECIPE_GROUP(rotate_rows);
static const icl_recipe_group *const coloured[] = {&rotate_keys, NULL};

static const icl_recipe_key covariance_rows[] = {
    {KEY(covariance), "identity",
     .help = "covariance of x: identity | spectrum:A,B,... (d eigenvalues) | power:P (i^-P, mean 1)", .keys = coloured,
     .neutral = "identity"},
};
const icl_recipe_group icl_covariance_keys = ICL_RECIPE_GROUP(covariance_rows);

icl_status icl_covariance_read(const icl_recipe *recipe, size_t dimension, icl_covariance *covariance,
                               icl_error *error) {
    const char *text = icl_law_keys_read(recipe).covariance;
    double *spectrum = NULL, *rotation = NULL;
    icl_status status = ICL_OK;

    memset(covariance, 0, sizeof *covariance);
    if (strcmp(text, "identity") == 0)
        goto done; /* no rotation changes it */
    ICL_TRY(icl_allocate(dimension, sizeof(double), "spectrum", &spectrum, error));
    ICL_TRY(read_spectrum(recipe, dimension, spectrum, error));
    ICL_TRY(icl_allocate(dimension * dimension, sizeof(double), "covariance root", &covariance->input_root, error));
    ICL_TRY(icl_allocate(dimension * dimension, sizeof(double), "precision root", &covariance->precision_root, error));
    if (icl_law_keys_read(recipe).rotate)
        ICL_TRY(icl_random_rotation(dimension, (uint32_t)icl_law_keys_read(recipe).rotation_seed, &rotation, error));
    for (size_t row = 0; row < dimension; row++)
        for (size_t column = 0; column < dimension; column++) {
            const size_t at = row * dimension + column;
            const double direction = rotation ? rotation[at] : row == column;
            covariance->input_root[at] = (double)(float)(direction * sqrt(spectrum[column]));
            covariance->precision_root[at] = (double)(float)(direction / sqrt(spectrum[column]));
        }
done:
    icl_free(&spectrum);
    icl_free(&rotation);
    return status;
}

void icl_covariance_release(icl_covariance *covariance) {
    icl_free(&covariance->input_root);
    icl_free(&covariance->precision_root);
}

/* ---- The inputs ---- */

/* The range of extents whose squares, summed over a context, stay normal floats. */
static const double LARGEST_EXTENT = 1e15, SMALLEST_EXTENT = 1e-15;

static bool is_extent(double value) {
    return value >= SMALLEST_EXTENT && value <= LARGEST_EXTENT;
}

static icl_status read_uniform(const icl_recipe *recipe, const char *list, icl_inputs *inputs, icl_error *error) {
    double limit = 0;
    size_t count = 0;

    if (!icl_parse_numbers(list, 1, &limit, &count) || count != 1 || !is_extent(limit))
        return icl_recipe_reject(recipe, ICL_LAW_KEY(inputs), error,
                                 "after uniform: one number from %g to %g, the largest coordinate", SMALLEST_EXTENT,
                                 LARGEST_EXTENT);
    inputs->law = ICL_INPUTS_UNIFORM;
    inputs->limit = (double)(float)limit;
    inputs->variance = inputs->limit * inputs->limit / 3;
    return ICL_OK;
}

static icl_status read_gamma(const icl_recipe *recipe, size_t dimension, const char *list, icl_inputs *inputs,
                             icl_error *error) {
    double values[2] = {0};
    size_t count = 0;

    if (!icl_parse_numbers(list, 2, values, &count) || count != 2)
        return icl_recipe_reject(recipe, ICL_LAW_KEY(inputs), error,
                                 "after gamma: two numbers, shape and scale of the squared norm");
    if (!(values[0] >= ICL_SMALLEST_SHAPE && values[0] <= ICL_LARGEST_SHAPE))
        return icl_recipe_reject(recipe, ICL_LAW_KEY(inputs), error, "a shape from %g to %g, not %g",
                                 ICL_SMALLEST_SHAPE, ICL_LARGEST_SHAPE, values[0]);
    if (!is_extent(values[1]))
        return icl_recipe_reject(recipe, ICL_LAW_KEY(inputs), error, "a scale from %g to %g, not %g", SMALLEST_EXTENT,
                                 LARGEST_EXTENT, values[1]);
    inputs->law = ICL_INPUTS_GAMMA;
    inputs->shape = values[0];
    inputs->scale = values[1];
    inputs->variance = values[0] * values[1] / (double)dimension;
    return ICL_OK;
}

static const icl_recipe_key input_rows[] = {
    {KEY(inputs), "normal", .help = "law of x: normal | uniform:A (on [-A, A]) | sphere | gamma:K,THETA (of |x|^2)"},
};
const icl_recipe_group icl_inputs_keys = ICL_RECIPE_GROUP(input_rows);

icl_law_keys icl_law_keys_read(const icl_recipe *recipe) {
    icl_law_keys keys;

    icl_recipe_read(recipe, &icl_noise_keys, &keys);
    icl_recipe_read(recipe, &icl_covariance_keys, &keys);
    icl_recipe_read(recipe, &rotate_keys, &keys);
    icl_recipe_read(recipe, &icl_rotation_keys, &keys);
    icl_recipe_read(recipe, &icl_inputs_keys, &keys);
    return keys;
}

icl_status icl_inputs_read(const icl_recipe *recipe, size_t dimension, icl_inputs *inputs, icl_error *error) {
    static const char uniform[] = "uniform:", gamma[] = "gamma:";
    const char *text = icl_law_keys_read(recipe).inputs;

    *inputs = (icl_inputs){.variance = 1};
    if (strcmp(text, "normal") == 0)
        return ICL_OK;
    if (strcmp(text, "sphere") == 0) {
        inputs->law = ICL_INPUTS_SPHERE;
        inputs->variance = 1 / (double)dimension;
        return ICL_OK;
    }
    if (strncmp(text, uniform, sizeof uniform - 1) == 0)
        return read_uniform(recipe, text + sizeof uniform - 1, inputs, error);
    if (strncmp(text, gamma, sizeof gamma - 1) == 0)
        return read_gamma(recipe, dimension, text + sizeof gamma - 1, inputs, error);
    return icl_recipe_reject(recipe, ICL_LAW_KEY(inputs), error, "normal, uniform:A, sphere or gamma:SHAPE,SCALE");
}

icl_status icl_inputs_create_radii(const icl_inputs *inputs, icl_backend *backend, size_t size, size_t positions,
                                   icl_tensor *normals, icl_tensor *table, icl_error *error) {
    double values[ICL_CHI_PIECES * ICL_CHI_TERMS];

    if (inputs->law != ICL_INPUTS_GAMMA)
        return ICL_OK;
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, positions, 1}, normals, error));
    ICL_CHECK(icl_tensor_create(backend, 2, (size_t[]){ICL_CHI_PIECES, ICL_CHI_TERMS}, table, error));
    icl_radius_table(inputs->shape, inputs->scale, values);
    return icl_tensor_write_double(*table, values, error);
}

icl_status icl_inputs_sample(const icl_inputs *inputs, icl_backend *backend, icl_task_purpose purpose, uint32_t seed,
                             uint64_t step, icl_tensor out, icl_tensor normals, icl_tensor table, icl_error *error) {
    icl_random_params law = {.key = {seed, icl_task_stream(purpose, ICL_ROLE_INPUTS), step},
                             .distribution = ICL_NORMAL};
    const icl_random_params radius = {.key = {seed, icl_stream_for(purpose, ICL_RADIUS_STREAMS), step},
                                      .distribution = ICL_NORMAL};

    if (inputs->law == ICL_INPUTS_UNIFORM) {
        law.distribution = ICL_UNIFORM;
        law.low = -(float)inputs->limit;
        law.high = (float)inputs->limit;
    }
    ICL_CHECK(icl_random_fill(backend, &law, out, error));
    if (inputs->law == ICL_INPUTS_GAMMA)
        ICL_CHECK(icl_random_fill(backend, &radius, normals, error));
    if (inputs->law == ICL_INPUTS_SPHERE || inputs->law == ICL_INPUTS_GAMMA)
        ICL_CHECK(icl_spherical(backend, out, out, normals, table, error));
    return ICL_OK;
}
