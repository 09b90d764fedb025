/*
 * How labels of function classes miss the functions' values: the law of a label's noise, and outliers.
 *
 *     y = f(x) + sigma eps
 *     task.noise_law = normal     eps ~ N(0, 1)
 *                      student-t  eps = c t, t of Student's law with nu = task.freedom degrees of freedom;
 *                                 task.noise_unit = deviation: c = sqrt((nu - 2) / nu), so that sigma is the standard
 *                                 deviation, nu > 2; scale: c = 1
 *
 * A share task.outliers of the labels, each by itself, is another one, A = task.outlier_size:
 *
 *     task.outlier_law = wide        y = f(x) + A eps (Tukey's contaminated noise)
 *                        multiplied  y = A (f(x) + sigma eps)
 */
#ifndef ICLAB_TASK_FUNCTION_CLASSES_NOISE_LAW_H
#define ICLAB_TASK_FUNCTION_CLASSES_NOISE_LAW_H

#include <stdbool.h>

#include "iclab/random.h"
#include "iclab/recipe.h"

typedef struct icl_noise_law {
    double freedom;      /* nu; 0: normal */
    double unit;         /* c */
    double outliers;     /* their share */
    double outlier_size; /* A */
    bool multiplies;     /* task.outlier_law */
} icl_noise_law;

/* task.noise_law, task.outliers and what they bring into use. */
extern const icl_recipe_group icl_noise_law_keys;

/* Reads them; largest is the largest sigma there is. */
icl_status icl_noise_law_read(const icl_recipe *recipe, double largest, icl_noise_law *law, icl_error *error);

/* The label of a function's value. `normal` is of N(0, 1); what else it takes are four words of the key from 4 number
 * on. Made with +, -, *, / and sqrt. */
double icl_noise_law_label(const icl_noise_law *law, double value, double sigma, double normal, icl_random_key key,
                           uint64_t number);

/* The logarithm of the density of a label, up to a number that is the same for all labels, values and sigma > 0. */
double icl_noise_law_density(const icl_noise_law *law, double label, double value, double sigma);

/*
 * What a label says of the value, as if its noise were normal: with precision q about t. Both are means, given what the
 * label misses this value by, over what it can be: noise of many variances, plain or an outlier, t = y / A of one that
 * is multiplied.
 *
 *     q = sum_j p_j q_j,   t = sum_j p_j q_j t_j / q,   q_j = (nu + 1) / (nu s_j^2 + (t_j - value)^2) or 1 / s_j^2
 */
void icl_noise_law_weigh(const icl_noise_law *law, double label, double value, double sigma, double *precision,
                         double *seen);

/* The variance of a label about the value; sigma^2 where it is infinite, and for multiplied labels. */
double icl_noise_law_variance(const icl_noise_law *law, double sigma);

/* Whether labels can differ from values: with this mean of sigma^2. */
bool icl_noise_law_is_noisy(const icl_noise_law *law, double mean_square);

#endif
