/* Internals of the task room: laws of the noise level, the covariance and the inputs, which families of regression
 * share, and the tables that draws by them need. */
#ifndef ICLAB_TASK_LAWS_H
#define ICLAB_TASK_LAWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iclab/ops.h"
#include "iclab/recipe.h"
#include "iclab/task.h"
#include "iclab/tensor.h"
#include "task/task.h"

/* Recipe keys of these laws; members have the keys' names. Texts live as long as the recipe's values. */
typedef struct icl_law_keys {
    const char *noise, *covariance, *inputs;
    bool rotate;
    uint64_t rotation_seed;
} icl_law_keys;

icl_law_keys icl_law_keys_read(const icl_recipe *recipe);

/* The section and name of one of these keys, as arguments of a call. */
#define ICL_LAW_KEY(field) ICL_KEY_NAME("task", icl_law_keys, field)

/* ---- The noise level ---- */

extern const icl_recipe_group icl_noise_keys;

/* The law of sigma, the standard deviation of a sequence's noise. */
typedef struct icl_noise {
    icl_noise_kind kind;
    icl_random_params level; /* how icl_random_fill draws sigma; the caller sets the key */
    double most;             /* the largest sigma */
    double mean_square;      /* E[sigma^2] */
} icl_noise;

/* Reads task.noise: fixed:S, uniform:SMAX or choice:S1,S2,… Levels are rounded to float, because that is what the
 * devices draw. */
icl_status icl_noise_read(const icl_recipe *recipe, icl_noise *noise, icl_error *error);

/* ---- The covariance ---- */

/*
 * Sigma = U diag(lambda) U^T, with U orthogonal.
 *     R = U diag(sqrt(lambda)):      x = R g has covariance Sigma for g ~ N(0, I)
 *     C = U diag(1 / sqrt(lambda)):  w = C g has covariance Sigma^-1
 * All matrices are [d][d], row-major. Entries are rounded to float, because that is what the devices multiply by; the
 * doubles hold the rounded values. Identity covariance: both are NULL.
 */
typedef struct icl_covariance {
    double *input_root;     /* R */
    double *precision_root; /* C */
} icl_covariance;

/* task.covariance and the keys that it brings into use; task.rotation_seed, which others read, too. */
extern const icl_recipe_group icl_covariance_keys, icl_rotation_keys;

/* Reads task.covariance, task.rotate and task.rotation_seed. Release with icl_covariance_release, also after a
 * failure. */
icl_status icl_covariance_read(const icl_recipe *recipe, size_t dimension, icl_covariance *covariance,
                               icl_error *error);
void icl_covariance_release(icl_covariance *covariance);

/* Creates a uniformly distributed orthogonal matrix [d][d]; a seed gives the same bits on every machine. */
icl_status icl_random_rotation(size_t dimension, uint32_t seed, double **rotation, icl_error *error);

/* Makes the linearly independent rows of matrix [d][d] orthonormal, in their order, by Gram-Schmidt, run twice for
 * orthogonality to rounding. Independent normal numbers become a uniformly distributed orthogonal matrix (Stewart
 * 1980). Uses only +, -, *, / and sqrt, so that the bits are the same on every machine. */
void icl_orthogonalize(size_t dimension, double *matrix);

/* ---- The inputs ---- */

typedef enum icl_input_law {
    ICL_INPUTS_NORMAL = 0, /* N(0, I) */
    ICL_INPUTS_UNIFORM,    /* each coordinate on [-A, A] */
    ICL_INPUTS_SPHERE,     /* uniform on the unit sphere */
    ICL_INPUTS_GAMMA,      /* r times the above, r^2 ~ Gamma(shape, scale): Ahn et al. 2023 (2310.01082), section 3 */
} icl_input_law;

typedef struct icl_inputs {
    icl_input_law law;
    double limit;        /* A */
    double shape, scale; /* of the gamma distribution */
    /* The variance of each coordinate: 1, A^2 / 3, 1 / d, shape scale / d; the covariance is this times I. */
    double variance;
} icl_inputs;

extern const icl_recipe_group icl_inputs_keys;

/* Reads task.inputs. */
icl_status icl_inputs_read(const icl_recipe *recipe, size_t dimension, icl_inputs *inputs, icl_error *error);

/* Creates the tensors that inputs with radii of their own are drawn with, normals [B, n + 1, 1] and the table of
 * icl_spherical; leaves both as they are for other inputs. positions: n + 1. */
icl_status icl_inputs_create_radii(const icl_inputs *inputs, icl_backend *backend, size_t size, size_t positions,
                                   icl_tensor *normals, icl_tensor *table, icl_error *error);

/* Fills out [B, n + 1, d] with strict ops only. normals and table: as above, or absent. */
icl_status icl_inputs_sample(const icl_inputs *inputs, icl_backend *backend, icl_task_purpose purpose, uint32_t seed,
                             uint64_t step, icl_tensor out, icl_tensor normals, icl_tensor table, icl_error *error);

/* ---- Elementary functions ---- */

double icl_exponential(double x);
double icl_logarithm(double x); /* x > 0 */

/* ---- Tables ---- */

/*
 * Writes the table that icl_gram_sample reads, for n = context pairs: row i < rows, rows <= n, is T_{n-i}, where T_k(z)
 * is the quantile function of the chi distribution with k degrees of freedom at Phi(z), so that T_k of a standard
 * normal has that distribution. coefficients [rows][ICL_CHI_PIECES][ICL_CHI_TERMS] receives floats held in doubles.
 * Evaluated in float, |error| < 2e-7 * max(1, T_k(z)) for |z| < 7. Made with only +, -, *, / and sqrt, so that it has
 * the same bits on every machine; the cost does not depend on n.
 */
void icl_chi_table(size_t context, size_t rows, double *coefficients);

/* The range of shapes of a gamma distribution for which the table is as exact as it says. */
#define ICL_SMALLEST_SHAPE 0.05
#define ICL_LARGEST_SHAPE  10000.0

/*
 * Writes the table that icl_spherical reads for radii r with r^2 ~ Gamma(shape, scale): L(z) = log2 of the root of the
 * gamma distribution's quantile at Phi(z). coefficients [ICL_CHI_PIECES][ICL_CHI_TERMS] receives floats held in
 * doubles. Evaluated in float for |z| < 6.5, |error| < 3e-7 * max(8, |L(z)|), so r is right to 5e-6, unless it is below
 * 2^-62 (only with a shape below .25): then it is 2^-62. The bits are the same on every machine.
 */
void icl_radius_table(double shape, double scale, double *coefficients);

#endif
