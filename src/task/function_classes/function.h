/*
 * The functions of a class, which a sequence's labels follow (Garg and others 2022, arXiv 2208.01066, section 2).
 *
 *     linear          <w, x>, w ~ N(0, I)
 *     sparse          as linear, with w_i = 0 except for s coordinates, drawn without repeats
 *     relu-network    sqrt(2 / h) sum_j v_j max(0, <u_j, x>), j = 1 … h, all of N(0, 1)
 *     decision-tree   a full binary tree of depth D: each of its 2^D - 1 inner nodes asks whether one coordinate, drawn
 *                     uniformly, is above 0; each of its 2^D leaves holds a value of N(0, 1)
 *     quadratic       sum_i w_i x_i^2 / sqrt(3), w ~ N(0, I)
 *     threshold       the sign of <w, x>, -1 or 1, w ~ N(0, I): classes as values, to mix with others
 *     mixture         one of these, drawn with probabilities in proportion to the weights of task.mixture =
 *                     CLASS:WEIGHT,CLASS:WEIGHT,… Without weights all are as likely. A mixture of one is that class,
 *                     for evaluating what was trained on more
 *
 * At x ~ N(0, I_d) the mean of f^2 is d, s, d, 1, d and 1 in this order; the paper divides errors by it.
 */
#ifndef ICLAB_TASK_FUNCTION_CLASSES_FUNCTION_H
#define ICLAB_TASK_FUNCTION_CLASSES_FUNCTION_H

#include <stddef.h>
#include <stdint.h>

#include "iclab/random.h"
#include "iclab/recipe.h"

typedef enum icl_function_class {
    ICL_CLASS_LINEAR = 0,
    ICL_CLASS_SPARSE,
    ICL_CLASS_RELU_NETWORK,
    ICL_CLASS_DECISION_TREE,
    ICL_CLASS_QUADRATIC,
    ICL_CLASS_THRESHOLD,
    ICL_CLASS_MIXTURE
} icl_function_class;

enum { ICL_MOST_COMPONENTS = 8 };

/* The classes of a mixture, each at most once. */
typedef struct icl_mixture {
    size_t count;
    icl_function_class classes[ICL_MOST_COMPONENTS];
    double shares[ICL_MOST_COMPONENTS]; /* their sum is 1 */
} icl_mixture;

typedef struct icl_function_law {
    icl_function_class kind;
    size_t dimension; /* d */
    size_t support;   /* s */
    size_t hidden;    /* h */
    size_t depth;     /* D */
    double scale;     /* the factor of all values */
    icl_mixture mixture;
} icl_function_law;

/* task.class and the keys that it brings into use; task.output_scale. */
extern const icl_recipe_group icl_function_keys;

/* Reads the keys above. */
icl_status icl_function_read(const icl_recipe *recipe, size_t dimension, icl_function_law *law, icl_error *error);

/* The classes of the functions, one or those of a mixture, and the probability of each. */
static inline size_t icl_function_components(const icl_function_law *law) {
    return law->kind == ICL_CLASS_MIXTURE ? law->mixture.count : 1;
}

static inline icl_function_class icl_function_component(const icl_function_law *law, size_t i) {
    return law->kind == ICL_CLASS_MIXTURE ? law->mixture.classes[i] : law->kind;
}

static inline double icl_function_share(const icl_function_law *law, size_t i) {
    return law->kind == ICL_CLASS_MIXTURE ? law->mixture.shares[i] : 1;
}

/* Returns the word of a class; the second function, whether functions are of the class. */
const char *icl_function_class_name(icl_function_class kind);
bool icl_function_has(const icl_function_law *law, icl_function_class kind);

/* Returns the number of doubles of a function: w; u [h][d], then v [h]; coordinates of the inner nodes from the root
 * down, level by level, then the leaves from left to right; in a mixture the index of the component and then its
 * doubles. */
size_t icl_function_size(const icl_function_law *law);

/* Draws function `number` of the key. A function owns as many words as its class needs (in a mixture the most of any
 * class, and one more), in full blocks of four, from number times that on. */
void icl_function_draw(const icl_function_law *law, icl_random_key key, uint64_t number, double *function);

/* Returns f(x) of x [d]. */
double icl_function_value(const icl_function_law *law, const double *function, const float *x);

/* Returns the mean of f^2 at x ~ N(0, I). */
double icl_function_mean_square(const icl_function_law *law);

#endif
