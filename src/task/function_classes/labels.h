/*
 * What labels of function classes say of the functions' values, task.label_law:
 *
 *     values     y = f(x) with noise, as below; the target is f(x)
 *     signs      y = the sign of f(x), which a share task.flipped of the labels, each by itself, has wrong
 *     logistic   y = 1 with probability 1 / (1 + exp(-f(x))), else -1
 *
 * The last two are classification: tokens hold y = -1 or 1, the target is y itself, as 0 or 1, and the loss logistic.
 *
 * Labels that are values miss them by noise, and some are outliers:
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
#ifndef ICLAB_TASK_FUNCTION_CLASSES_LABELS_H
#define ICLAB_TASK_FUNCTION_CLASSES_LABELS_H

#include <stdbool.h>

#include "iclab/random.h"
#include "iclab/recipe.h"
#include "task/laws.h"

typedef struct icl_noise_law {
    double freedom;      /* nu; 0: normal */
    double unit;         /* c */
    double outliers;     /* their share */
    double outlier_size; /* A */
    bool multiplies;     /* task.outlier_law */
} icl_noise_law;

typedef enum icl_label_kind { ICL_LABELS_ARE_VALUES = 0, ICL_LABELS_ARE_SIGNS, ICL_LABELS_ARE_LOGISTIC } icl_label_kind;

typedef struct icl_label_law {
    icl_label_kind kind;
    icl_noise_law noise; /* of values */
    double flipped;      /* of signs */
} icl_label_law;

/* task.label_law and what it brings into use. */
extern const icl_recipe_group icl_label_keys;

/* Reads them, and the law of sigma, which is 0 for classes. */
icl_status icl_labels_read(const icl_recipe *recipe, icl_label_law *law, icl_noise *sigma, icl_error *error);

static inline bool icl_labels_are_classes(const icl_label_law *law) {
    return law->kind != ICL_LABELS_ARE_VALUES;
}

/* The label of a value: with noise made from `normal`, of N(0, 1), and four words of the key from 4 number on; or -1 or
 * 1 by the last of these words. */
double icl_label_draw(const icl_label_law *law, double value, double sigma, double normal, icl_random_key key,
                      uint64_t number);

/* P(y = 1) of classes. */
double icl_label_chance(const icl_label_law *law, double value);

/* The logarithm of the probability of a label; of values that of its density, up to a number that is the same for all
 * labels, values and sigma > 0. */
double icl_label_density(const icl_label_law *law, double label, double value, double sigma);

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

#endif
