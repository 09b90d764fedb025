/*
 * Internals of task.family = tables, shared by its files: a table, how it is drawn, and how a model is shown it.
 *
 * A table has rows of features; the targets of the first `labelled` rows are known. Everything here depends on the
 * order of its sums alone and takes exponentials from task/quantiles.c, so that it has the same bits on every machine.
 */
#ifndef ICLAB_TASK_TABLES_TABLES_H
#define ICLAB_TASK_TABLES_TABLES_H

#include <stdbool.h>
#include <stddef.h>

#include "iclab/buckets.h"
#include "task/draws.h"

/* ---- Drawing (family.c) ---- */

/* The most features of a table. */
#define ICL_TABLE_FEATURES ((size_t)64)

/* The generators of a table's targets. */
typedef enum icl_table_source {
    ICL_TABLE_GAUSSIAN_PROCESS = 0,
    ICL_TABLE_NETWORK,
    ICL_TABLE_LINEAR,
    ICL_TABLE_TREES,
    ICL_TABLE_CAUSAL,
    ICL_TABLE_SOURCES
} icl_table_source;

/* Probabilities of what may happen to a table; members have the keys' names. */
typedef struct icl_table_habits {
    double discrete; /* a feature is binary, whole or categorical */
    double warped;   /* a feature is bent by a monotone function; half of it: the target is */
    double unused;   /* a feature has no effect */
    double missing;  /* a table has missing cells */
    double tails;    /* a table's noise has heavy tails */
} icl_table_habits;

/* A table as it is drawn. */
typedef struct icl_drawn_table {
    size_t rows, features;
    double *x;       /* [rows][features]; NaN: a missing cell */
    double *targets; /* [rows] */

    /* Of a Gaussian process: the kernel exp(-1/2 sum_j weights_j (x_j - x'_j)^2), and the variance of the noise. */
    double weights[ICL_TABLE_FEATURES], noise_variance;
} icl_drawn_table;

/* The doubles of `work` that a table of these many rows takes. */
static inline size_t icl_table_draw_work(size_t rows) {
    return rows * (rows + 2 + 2 * ICL_TABLE_FEATURES) + ICL_TABLE_FEATURES;
}

/* Writes values [rows] of a function of the features `used` [count] of x [rows][features], which have mean 0 and
 * variance 1; for a Gaussian process also weights [features], of which the others stay as they are. A causal graph
 * ignores `used` and writes x, too: its nodes are functions of nodes before them, and features and target are nodes in
 * random order. */
void icl_table_draw_function(icl_table_source source, icl_words *words, const icl_drawn_table *table,
                             const size_t *used, size_t count, double *weights, double *values, double *work);

/* Added to the diagonal of a kernel, so that rounding leaves it positive definite; it counts as noise. */
#define ICL_TABLE_JITTER 1e-6

/* Writes the root L of a positive definite matrix a [n][n] = L L^T in the place of its lower triangle; what stands
 * above it is not read. A pivot that rounding took below 1e-12 is 1e-12. column: [n]. */
void icl_table_factor(size_t n, double *a, double *column);

/* Returns a number uniform in (0, 1). */
static inline double icl_words_uniform(icl_words *words) {
    return ((double)icl_words_next(words) + 0.5) * 0x1p-32;
}

/* ---- Showing (guides.c) ---- */

/* The guides: simple regressions by the labelled rows, whose predictions a model is shown beside the features. */
typedef enum icl_table_guide {
    ICL_GUIDE_RIDGE = 0,
    ICL_GUIDE_NEIGHBOURS,
    ICL_GUIDE_SMOOTH, /* a Gaussian process with kernel (1 + |x - x'|^2 / (4 l^2))^-2 */
    ICL_GUIDE_ROUGH,  /* one with kernel (1 + |x - x'|_1 / l)^-1, whose functions have steps */
    ICL_GUIDES
} icl_table_guide;

/* Sizes of what a model is shown: D columns for features, and p inputs. */
typedef struct icl_table_view {
    size_t columns;
    bool guides;
} icl_table_view;

/* p: the features in D columns, 0 where there is none; a prediction and a standard deviation of each guide, for a
 * labelled row without its own label; the label, or 0; whether the row has one. */
static inline size_t icl_table_inputs(icl_table_view view) {
    return view.columns + (view.guides ? 2 * ICL_GUIDES : 0) + 2;
}

/* A table to be shown. */
typedef struct icl_table_shown {
    size_t rows, labelled, features;
    const double *x;       /* [rows][features] */
    const double *targets; /* of the first `labelled` rows */
    const size_t *places;  /* [features], which columns they take, all different */
} icl_table_shown;

/* The centres and scales of features and target: shown = (value - centre) / scale, by the labelled rows; a scale of 0
 * is that of a column without variance, which is shown as 0. */
typedef struct icl_table_scale {
    double centres[ICL_TABLE_FEATURES], scales[ICL_TABLE_FEATURES];
    double target_centre, target_scale;
} icl_table_scale;

/* The doubles of `work` that icl_table_show takes. */
size_t icl_table_show_work(size_t rows, size_t labelled, size_t features);

/* Writes inputs [rows][p]. Features are cut at a distance of 8 scales, and missing ones are shown as 0. */
void icl_table_show(icl_table_view view, const icl_table_shown *table, icl_table_scale *scale, double *work,
                    float *inputs);

/* ---- Reference predictors (predictors.c) ---- */

/* The side tensor of batches for evaluation of a task whose tables are all Gaussian processes: for each table D inverse
 * squares of lengths by column, and the mean, the variance and the variance of the noise, all as they are shown. */
#define ICL_SIDE_KERNEL "kernel"

/* task->state. */
typedef struct icl_tables {
    size_t d, n; /* most features, and most labelled rows */
    /* Members have the keys' names. */
    size_t least, unlabelled, buckets;
    bool guides;
    double gaussian_processes, networks, linear, trees, causal; /* weights of the sources */
    icl_table_habits habits;
    icl_table_view view;
    bool is_gaussian; /* all tables are Gaussian processes */
} icl_tables;

/* The reference predictors of tasks without or with guides, of which not all or all tables are Gaussian processes,
 * ended by one without a name. */
#define ICL_TABLE_PREDICTORS (ICL_GUIDES + 2)
extern const icl_reference_predictor icl_table_predictors[2][2][ICL_TABLE_PREDICTORS + 1];

#endif
