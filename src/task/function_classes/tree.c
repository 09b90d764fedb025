/*
 * A greedy regression tree (CART: Breiman, Friedman, Olshen, Stone 1984, chapter 8) at every position: each node is
 * split at the coordinate and threshold that leave the least squared error about the means of the two sides, down to
 * depth task.depth; a threshold lies midway between two neighbours. Of equal splits the first counts. Only the branch
 * that the input falls into is grown.
 */
#include <math.h>
#include <stdlib.h>

#include "task/function_classes/predictors.h"

/* A pair by one of its coordinates. */
typedef struct leaf {
    double value, label;
    size_t index;
} leaf;

typedef struct split {
    size_t coordinate;
    double threshold, gain; /* sum_left^2 / n_left + sum_right^2 / n_right, what the two means explain */
} split;

static size_t count_work(size_t dimension, size_t count, const icl_function_classes *is) {
    (void)dimension;
    (void)is;
    return 2 * count * (sizeof(leaf) / sizeof(double));
}

_Static_assert(sizeof(leaf) % sizeof(double) == 0, "leaves stand in an array of doubles");

static double read_coordinate(const icl_points *points, size_t i, size_t j, bool by_sign) {
    const double value = (double)icl_points_x(points, i)[j];
    return by_sign ? (value > 0 ? 1 : -1) : value;
}

/* By value, then by index, which makes the order of sums the same everywhere. */
static int compare(const void *a, const void *b) {
    const leaf *left = a, *right = b;
    if (left->value != right->value)
        return left->value < right->value ? -1 : 1;
    return left->index < right->index ? -1 : 1;
}

static double sum_labels(const leaf *leaves, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += leaves[i].label;
    return sum;
}

/* The best split of sorted leaves by one coordinate, if it is better than what was found. */
static void try_coordinate(const leaf *sorted, size_t count, size_t coordinate, split *best) {
    const double total = sum_labels(sorted, count);
    double left = 0;

    for (size_t i = 0; i + 1 < count; i++) {
        left += sorted[i].label;
        if (sorted[i].value == sorted[i + 1].value)
            continue;
        const double right = total - left;
        const double gain = left * left / (double)(i + 1) + right * right / (double)(count - i - 1);
        if (gain > best->gain)
            *best = (split){coordinate, .5 * (sorted[i].value + sorted[i + 1].value), gain};
    }
}

/* Keeps those leaves that fall to the side of the input at position k; false where no split explains more than the
 * mean does, but for rounding. */
static bool descend(const icl_points *points, size_t k, bool by_sign, leaf *leaves, leaf *sorted, size_t *count) {
    const double total = sum_labels(leaves, *count), mean = total * total / (double)*count;
    split best = {.gain = mean * (1 + 1e-12)};
    size_t kept = 0;
    bool found;

    for (size_t j = 0; j < points->dimension; j++) {
        for (size_t i = 0; i < *count; i++) {
            sorted[i] = leaves[i];
            sorted[i].value = read_coordinate(points, leaves[i].index, j, by_sign);
        }
        qsort(sorted, *count, sizeof *sorted, compare);
        try_coordinate(sorted, *count, j, &best);
    }
    found = best.gain > mean * (1 + 1e-12);
    if (!found)
        return false;
    const bool above = read_coordinate(points, k, best.coordinate, by_sign) > best.threshold;
    for (size_t i = 0; i < *count; i++)
        if ((read_coordinate(points, leaves[i].index, best.coordinate, by_sign) > best.threshold) == above)
            leaves[kept++] = leaves[i];
    *count = kept;
    return true;
}

/* number 1: on signs. */
static void predict(const icl_points *points, double number, const void *shared, double *work, double *outputs) {
    leaf *leaves = (leaf *)work, *sorted = leaves + points->count;

    (void)shared;
    for (size_t k = 0; k < points->count; k++) {
        size_t count = k;
        for (size_t i = 0; i < k; i++)
            leaves[i] = (leaf){0, icl_points_y(points, i), i};
        for (size_t depth = 0; depth < points->is->law.depth && count > 1; depth++)
            if (!descend(points, k, number > 0, leaves, sorted, &count))
                break;
        outputs[k] = count > 0 ? sum_labels(leaves, count) / (double)count : 0;
    }
}

const icl_points_predictor icl_points_tree = {.predict = predict, .count_work = count_work};
