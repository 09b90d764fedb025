/*
 * What labels of function classes say of the functions' values, task.label_law:
 *
 *     values     y = f(x) with the noise of noise_law.h; the target is f(x)
 *     signs      y = the sign of f(x), which a share task.flipped of the labels, each by itself, has wrong
 *     logistic   y = 1 with probability 1 / (1 + exp(-f(x))), else -1
 *
 * The last two are classification: tokens hold y = -1 or 1, the target is y itself, as 0 or 1, and the loss logistic.
 */
#ifndef ICLAB_TASK_FUNCTION_CLASSES_LABELS_H
#define ICLAB_TASK_FUNCTION_CLASSES_LABELS_H

#include "iclab/task.h"
#include "task/function_classes/noise_law.h"

typedef enum icl_label_kind { ICL_LABELS_ARE_VALUES = 0, ICL_LABELS_ARE_SIGNS, ICL_LABELS_ARE_LOGISTIC } icl_label_kind;

typedef struct icl_label_law {
    icl_label_kind kind;
    icl_noise_law noise; /* of values */
    double flipped;      /* of signs */
} icl_label_law;

/* task.label_law and what it brings into use. */
extern const icl_recipe_group icl_label_keys;

/* Reads them, and the noise of values into the prior; classes have none. */
icl_status icl_labels_read(const icl_recipe *recipe, icl_task_prior *prior, icl_label_law *law, icl_error *error);

static inline bool icl_labels_are_classes(const icl_label_law *law) {
    return law->kind != ICL_LABELS_ARE_VALUES;
}

/* The label of a value: icl_noise_law_label, or -1 or 1 by the last of the same four words. */
double icl_label_draw(const icl_label_law *law, double value, double sigma, double normal, icl_random_key key,
                      uint64_t number);

/* P(y = 1) of classes. */
double icl_label_chance(const icl_label_law *law, double value);

/* The logarithm of the probability of a label, or icl_noise_law_density. */
double icl_label_density(const icl_label_law *law, double label, double value, double sigma);

#endif
