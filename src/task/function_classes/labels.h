/*
 * The labels that a function's values f(x) get, by task.label_law:
 *
 *     values     y = f(x) with noise, as below; the target is f(x)
 *     signs      y = the sign of f(x), but wrong for a share task.flipped of the labels, drawn one by one
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
 *     task.noise_varies = by-input   sigma of a label is |x_i1| times the sequence's: the first coordinate of its input
 *                         by-place   its variance rises evenly along the sequence, by 2 (i + 1/2) / n times sigma^2
 *
 * A share task.outliers of the labels, drawn one by one, are outliers, with A = task.outlier_size:
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

/* task.noise_varies: how sigma changes within a sequence. */
typedef enum icl_noise_change { ICL_NOISE_STEADY = 0, ICL_NOISE_BY_INPUT, ICL_NOISE_BY_PLACE } icl_noise_change;

typedef enum icl_label_kind { ICL_LABELS_ARE_VALUES = 0, ICL_LABELS_ARE_SIGNS, ICL_LABELS_ARE_LOGISTIC } icl_label_kind;

typedef struct icl_label_law {
    icl_label_kind kind;
    icl_noise_law noise;     /* for values */
    icl_noise_change varies; /* likewise */
    double flipped;          /* for signs */
} icl_label_law;

/* task.label_law and the keys that it brings into use. */
extern const icl_recipe_group icl_label_keys;

/* Reads the keys above, and the law of sigma, which is 0 for classes. */
icl_status icl_labels_read(const icl_recipe *recipe, icl_label_law *law, icl_noise *sigma, icl_error *error);

static inline bool icl_labels_are_classes(const icl_label_law *law) {
    return law->kind != ICL_LABELS_ARE_VALUES;
}

/* Returns whether noise has heavy tails or outliers. */
static inline bool icl_label_has_tails(const icl_label_law *law) {
    return law->noise.freedom > 0 || law->noise.outliers > 0;
}

/* Returns the label of a value: for values with noise made from `normal`, of N(0, 1), and four words of the key from 4
 * number on; for classes -1 or 1, by the last of these words. */
double icl_label_draw(const icl_label_law *law, double value, double sigma, double normal, icl_random_key key,
                      uint64_t number);

/* Returns the log probability of a label, for values its log density, up to a number that is the same for all labels,
 * values and sigma > 0. */
double icl_label_density(const icl_label_law *law, double label, double value, double sigma);

/*
 * Replaces what a label y says of the value by a normal law of mean t and variance 1 / q: sets *precision to q and
 * *seen to t. Both are means over the noise that the label may have, given how far it is from this value: noise of many
 * variances, plain or an outlier; a multiplied outlier has t = y / A.
 *
 *     q = sum_j p_j q_j,   t = sum_j p_j q_j t_j / q,   q_j = (nu + 1) / (nu s_j^2 + (t_j - value)^2) or 1 / s_j^2
 */
void icl_noise_law_weigh(const icl_noise_law *law, double label, double value, double sigma, double *precision,
                         double *seen);

/* Returns the variance of a label about the value. Noise of infinite variance counts as normal, and outliers that are
 * multiplied are left out. */
double icl_noise_law_variance(const icl_noise_law *law, double sigma);

#endif
