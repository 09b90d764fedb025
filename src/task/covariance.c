#include "task/covariance.h"

#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "core/recipe_keys.h"
#include "iclab/random.h"
#include "task/numbers.h"
#include "task/orthogonal.h"
#include "task/streams.h"

/* Eigenvalues whose root and inverse root, and the products of these with normals, stay normal floats: also the product
 * of two inputs, an eigenvalue times the square of the smallest normal, 1.87e-8 (task/noise.c). */
static const double SMALLEST_EIGENVALUE = 1e-22, LARGEST_EIGENVALUE = 1e24;

icl_status icl_random_rotation(size_t dimension, uint32_t seed, double **rotation, icl_error *error) {
    const icl_random_key key = {.seed = seed, .stream = ICL_ROTATION_STREAM};

    ICL_CHECK(icl_allocate(dimension * dimension, sizeof(double), "rotation", rotation, error));
    for (size_t i = 0; i < dimension * dimension; i++)
        (*rotation)[i] = (double)icl_normal_from_word(icl_random_word(key, i));
    icl_orthogonalize(dimension, *rotation);
    return ICL_OK;
}

static icl_status reject(const icl_recipe *recipe, size_t dimension, icl_error *error) {
    return icl_recipe_reject(recipe, "task", "covariance", error,
                             "identity, spectrum: and d = %zu eigenvalues, or power: and a whole exponent from 0 to 8",
                             dimension);
}

/* i^-P for whole P, so that no library's pow decides a bit, over their mean. */
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
    const char *text = icl_recipe_text(recipe, "task", "covariance");
    size_t count = 0;
    const bool is_list = strncmp(text, list, sizeof list - 1) == 0;

    if (is_list
            ? !icl_parse_numbers(text + sizeof list - 1, dimension, spectrum, &count) || count != dimension
            : strncmp(text, power, sizeof power - 1) != 0 || !read_power(text + sizeof power - 1, dimension, spectrum))
        return reject(recipe, dimension, error);
    for (size_t i = 0; i < dimension; i++) {
        if (!(spectrum[i] > 0))
            return icl_recipe_reject(recipe, "task", "covariance", error,
                                     "eigenvalues above 0 (%g makes it not positive definite)", spectrum[i]);
        if (spectrum[i] < SMALLEST_EIGENVALUE || spectrum[i] > LARGEST_EIGENVALUE)
            return icl_recipe_reject(recipe, "task", "covariance", error, "eigenvalues from %g to %g, not %g",
                                     SMALLEST_EIGENVALUE, LARGEST_EIGENVALUE, spectrum[i]);
    }
    return ICL_OK;
}

static const icl_recipe_key seed_rows[] = {
    {"task", "rotation_seed", ICL_KEY_COUNT, "1", 0, ICL_MAX_SEED, .help = "which rotation, or subspace"},
};
const icl_recipe_group icl_rotation_keys = ICL_RECIPE_GROUP(seed_rows);
static const icl_recipe_group *const rotated[] = {&icl_rotation_keys, NULL};

/* Of a covariance that is not the identity, which no rotation changes. */
static const icl_recipe_key rotate_rows[] = {
    {"task", "rotate", ICL_KEY_FLAG, "false", .help = "turn the covariance's axes by a random rotation",
     .keys = rotated, .neutral = "false"},
};
static const icl_recipe_group rotate_keys = ICL_RECIPE_GROUP(rotate_rows);
static const icl_recipe_group *const coloured[] = {&rotate_keys, NULL};

static const icl_recipe_key keys[] = {
    {"task", "covariance", ICL_KEY_TEXT, "identity",
     .help = "covariance of x: identity | spectrum:A,B,... (d eigenvalues) | power:P (i^-P, mean 1)", .keys = coloured,
     .neutral = "identity"},
};
const icl_recipe_group icl_covariance_keys = ICL_RECIPE_GROUP(keys);

icl_status icl_covariance_read(const icl_recipe *recipe, size_t dimension, icl_covariance *covariance,
                               icl_error *error) {
    const char *text = icl_recipe_text(recipe, "task", "covariance");
    double *spectrum = NULL, *rotation = NULL;
    icl_status status = ICL_OK;

    memset(covariance, 0, sizeof *covariance);
    if (strcmp(text, "identity") == 0)
        goto done; /* a rotation changes nothing */
    ICL_TRY(icl_allocate(dimension, sizeof(double), "spectrum", &spectrum, error));
    ICL_TRY(read_spectrum(recipe, dimension, spectrum, error));
    ICL_TRY(icl_allocate(dimension * dimension, sizeof(double), "covariance root", &covariance->input_root, error));
    ICL_TRY(icl_allocate(dimension * dimension, sizeof(double), "precision root", &covariance->precision_root, error));
    if (icl_recipe_flag(recipe, "task", "rotate"))
        ICL_TRY(icl_random_rotation(dimension, (uint32_t)icl_recipe_count(recipe, "task", "rotation_seed"), &rotation,
                                    error));
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
