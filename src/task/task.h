/* Internals of the task room: the families, and what those of in-context regression share. */
#ifndef ICLAB_TASK_TASK_H
#define ICLAB_TASK_TASK_H

#include "iclab/task_family.h"

/* Recipe keys that several families read; members have the keys' names. */
typedef struct icl_task_keys {
    unsigned family; /* the row of ICL_TASK_FAMILIES, from 0 */
    size_t d, n;
} icl_task_keys;

icl_task_keys icl_task_keys_read(const icl_recipe *recipe);

/* The section and name of one of these keys, as arguments of a call. */
#define ICL_TASK_KEY(field) ICL_KEY_NAME("task", icl_task_keys, field)

/* task.d and task.n, for the families that read them. */
extern const icl_recipe_group icl_pairs_keys;

/* task.pool and, where there is one, what it brings into use, for families whose sequences may share a pool of laws. */
typedef struct icl_law_pool {
    uint64_t pool, pool_seed; /* M; 0: each sequence has a law of its own */
    bool fresh_functions;     /* sequences have laws of their own all the same, and predictors know the pool */
} icl_law_pool;

extern const icl_recipe_group icl_law_pool_keys;
icl_law_pool icl_law_pool_read(const icl_recipe *recipe);

#define ICL_LAW_POOL_KEY(field) ICL_KEY_NAME("task", icl_law_pool, field)

/* Reads task.d and task.n, and sets the shape to that of in-context regression. */
icl_status icl_task_read_pairs(const icl_recipe *recipe, icl_task *task, icl_error *error);

/* Frees task->state, for families whose state owns nothing. */
void icl_task_free_state(icl_task *task);

/* Reads "A,B,…" (blanks around a number are allowed): finite decimal numbers, at least one. Keeps the first `capacity`
 * and sets *count to how many there are. Returns false if the text is anything else. */
bool icl_parse_numbers(const char *text, size_t capacity, double *values, size_t *count);

/* Computes outputs [S][q] of sequence `number` from its inputs. work holds the doubles that were asked for. */
typedef void icl_sequence_body(const icl_task *task, const void *settings, size_t number, const float *inputs,
                               double *work, double *outputs);

/* Runs the body for `count` sequences on all threads: inputs [count][T][p], or symbols [count][T], and outputs
 * [count][S][q]. */
icl_status icl_task_for_each(const icl_task *task, icl_sequence_body *body, const void *settings, size_t work,
                             size_t count, const float *inputs, double *outputs, icl_error *error);

/* sum_i a_i b_i, in order. */
static inline double icl_dot(const double *a, const double *b, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Writes the sigma of each sequence of the batch: from its side tensor noise, or else the prior's only level; 0 without
 * a prior (NULL). ICL_ERROR_INPUT if there is no tensor and the prior has several levels. */
icl_status icl_batch_noise(const icl_batch *batch, const icl_task_prior *prior, float *noise, icl_error *error);

/* Predicts 0; a row for families' tables of reference predictors. */
icl_status icl_task_predict_zero(const icl_reference_predictor *predictor, const icl_shown_sequences *shown,
                                 double *outputs, icl_error *error);

/* The families: the word of task.family, and the constant in the family's file, which also defines CONSTANT_keys. */
#define ICL_TASK_FAMILIES(FAMILY)                                                                                      \
    FAMILY("linear-regression", icl_linear_regression)                                                                 \
    FAMILY("quadratic-regression", icl_quadratic_regression)                                                           \
    FAMILY("functions", icl_functions)                                                                                 \
    FAMILY("function-classes", icl_function_classes_family)                                                            \
    FAMILY("recall", icl_recall)                                                                                       \
    FAMILY("state", icl_state)                                                                                         \
    FAMILY("associative", icl_associative)                                                                             \
    FAMILY("dynamical-system", icl_dynamical_system)                                                                   \
    FAMILY("autoregression", icl_autoregression)                                                                       \
    FAMILY("classification", icl_classification)                                                                       \
    FAMILY("mad", icl_mad_family)                                                                                      \
    FAMILY("graphs", icl_graphs_family)                                                                                \
    FAMILY("text", icl_text_family)                                                                                    \
    FAMILY("markov", icl_markov_family)                                                                                \
    FAMILY("rules", icl_rules_family)                                                                                  \
    FAMILY("tables", icl_tables_family)

#define ICL_DECLARE_FAMILY(word, family)                                                                               \
    extern const icl_task_family family;                                                                               \
    extern const icl_recipe_group *const family##_keys[];
ICL_TASK_FAMILIES(ICL_DECLARE_FAMILY)
#undef ICL_DECLARE_FAMILY

/* The keys that every family reads. */
extern const icl_recipe_group icl_family_keys;

/* The rows, as icl_task_keys.family counts them. */
#define ICL_COUNT_FAMILY(word, family) ICL_AT_##family,
enum { ICL_TASK_FAMILIES(ICL_COUNT_FAMILY) };
#undef ICL_COUNT_FAMILY

/* The values of task.sampler. */
typedef enum icl_task_sampler { ICL_SAMPLER_TOKENS = 0, ICL_SAMPLER_GRAM } icl_task_sampler;

#endif
