/* Predictors that learn at every position from the pairs before it: a regression tree, and a two-layer network. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/recipe_keys.h"
#include "task/draws.h"
#include "task/function_classes/predictors.h"
#include "task/streams.h"

/* ---- Regression trees ---- */

/*
 * A greedy regression tree (CART: Breiman, Friedman, Olshen, Stone 1984, chapter 8) at every position: each node is
 * split at the coordinate and threshold that leave the least squared error about the means of the two sides, down to
 * depth task.depth; a threshold lies midway between two neighbours. Of equal splits the first counts. Only the branch
 * that the input falls into is grown.
 */

/* A pair, with one of its coordinates. */
typedef struct leaf {
    double value, label;
    size_t index;
} leaf;

typedef struct split {
    size_t coordinate;
    double threshold, gain; /* sum_left^2 / n_left + sum_right^2 / n_right, what the two means explain */
} split;

static size_t count_tree(size_t dimension, size_t count, const icl_function_classes *state) {
    (void)dimension;
    (void)state;
    return 2 * count * (sizeof(leaf) / sizeof(double));
}

_Static_assert(sizeof(leaf) % sizeof(double) == 0, "leaves stand in an array of doubles");

static double read_coordinate(const icl_points *points, size_t i, size_t j, bool by_sign) {
    const double value = (double)icl_points_x(points, i)[j];
    return by_sign ? (value > 0 ? 1 : -1) : value;
}

/* Orders by value, then by index, which makes the order of sums the same everywhere. */
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

/* Updates *best by the splits of sorted leaves at one coordinate. */
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

/* Keeps the leaves on the side of the input at position k; returns false if no split explains more than the mean does,
 * but for rounding. */
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

/* Predicts by a tree; if number is 1, on the signs of x. */
static void predict_tree(const icl_points *points, double number, const void *shared, double *work, double *outputs) {
    leaf *leaves = (leaf *)work, *sorted = leaves + points->count;

    (void)shared;
    for (size_t k = 0; k < points->count; k++) {
        size_t count = k;
        for (size_t i = 0; i < k; i++)
            leaves[i] = (leaf){0, icl_points_y(points, i), i};
        for (size_t depth = 0; depth < points->state->law.depth && count > 1; depth++)
            if (!descend(points, k, number > 0, leaves, sorted, &count))
                break;
        outputs[k] = count > 0 ? sum_labels(leaves, count) / (double)count : 0;
    }
}

const icl_points_predictor icl_points_tree = {.predict = predict_tree, .count_work = count_tree};

/* ---- Networks ---- */

/*
 * A two-layer network at every position, v . max(0, U x + a) + c with task.hidden_units units, trained on the pairs
 * before it only: task.network_steps steps of Adam (.9, .999) on the mean squared error of all of them, from uniform
 * U, a in +-1 / sqrt(d) and v, c in +-1 / sqrt(h), as PyTorch has it. Garg and others 2022, appendix A.3.
 */

static const icl_recipe_key network_rows[] = {
    {ICL_KEY("task", icl_function_classes, network_steps), "100", 0, 1e6,
     .help = "of Adam, for the reference predictor network"},
    {ICL_KEY("task", icl_function_classes, network_rate), "0.005", 1e-9, 1e3, .help = "step size of the same"},
};
const icl_recipe_group icl_network_keys = ICL_RECIPE_GROUP(network_rows);

/* A network, whose parameters are one array: U [h][d], a [h], v [h], c. */
typedef struct network {
    size_t dimension, hidden, size;
    double *parameters, *gradient, *mean, *square; /* [size] */
    double *units;                                 /* [h] */
} network;

static size_t size_of(size_t dimension, size_t hidden) {
    return hidden * (dimension + 2) + 1;
}

static size_t count_network(size_t dimension, size_t count, const icl_function_classes *state) {
    (void)count;
    return 4 * size_of(dimension, state->law.hidden) + state->law.hidden;
}

static network place_network(const icl_points *points, double *work) {
    const size_t hidden = points->state->law.hidden, size = size_of(points->dimension, hidden);
    return (network){points->dimension, hidden,          size,           work, work + size,
                     work + 2 * size,   work + 3 * size, work + 4 * size};
}

/* Sets the first parameters, which are the same for every sequence and position. */
static void start_network(const network *net) {
    const icl_random_key key = {.stream = ICL_CLASSES_NETWORK_STREAM};
    const size_t first = net->hidden * (net->dimension + 1);

    for (size_t i = 0; i < net->size; i++) {
        const double limit = 1 / sqrt((double)(i < first ? net->dimension : net->hidden));
        net->parameters[i] = limit * (2 * ((double)icl_random_word(key, i) + .5) * 0x1p-32 - 1);
    }
    memset(net->mean, 0, net->size * sizeof *net->mean);
    memset(net->square, 0, net->size * sizeof *net->square);
}

static double forward(const network *net, const float *x) {
    const size_t d = net->dimension, h = net->hidden;
    const double *a = net->parameters + h * d, *v = a + h;
    double output = v[h];

    for (size_t j = 0; j < h; j++) {
        double sum = a[j];
        for (size_t i = 0; i < d; i++)
            sum += net->parameters[j * d + i] * (double)x[i];
        net->units[j] = sum > 0 ? sum : 0;
        output += v[j] * net->units[j];
    }
    return output;
}

/* Adds the gradient of slope * output; forward must have run on the same x. */
static void backward(const network *net, const float *x, double slope) {
    const size_t d = net->dimension, h = net->hidden;
    const double *v = net->parameters + h * (d + 1);
    double *to = net->gradient;

    for (size_t j = 0; j < h; j++) {
        const double own = net->units[j] > 0 ? slope * v[j] : 0;
        for (size_t i = 0; i < d && own != 0; i++)
            to[j * d + i] += own * (double)x[i];
        to[h * d + j] += own;
        to[h * (d + 1) + j] += slope * net->units[j];
    }
    to[h * (d + 2)] += slope;
}

static void update(const network *net, double rate, size_t step) {
    const double mean_part = 1 - pow(.9, (double)step), square_part = 1 - pow(.999, (double)step);

    for (size_t i = 0; i < net->size; i++) {
        const double g = net->gradient[i];
        net->mean[i] = .9 * net->mean[i] + .1 * g;
        net->square[i] = .999 * net->square[i] + .001 * g * g;
        net->parameters[i] -= rate * (net->mean[i] / mean_part) / (sqrt(net->square[i] / square_part) + 1e-8);
    }
}

static void train(const network *net, const icl_points *points, size_t count) {
    start_network(net);
    for (size_t step = 1; step <= points->state->network_steps; step++) {
        memset(net->gradient, 0, net->size * sizeof *net->gradient);
        for (size_t i = 0; i < count; i++) {
            const double miss = forward(net, icl_points_x(points, i)) - icl_points_y(points, i);
            backward(net, icl_points_x(points, i), 2 * miss / (double)count);
        }
        update(net, points->state->network_rate, step);
    }
}

static void predict_network(const icl_points *points, double number, const void *shared, double *work,
                            double *outputs) {
    const network net = place_network(points, work);

    (void)number;
    (void)shared;
    outputs[0] = 0;
    for (size_t k = 1; k < points->count; k++) {
        train(&net, points, k);
        outputs[k] = forward(&net, icl_points_x(points, k));
    }
}

const icl_points_predictor icl_points_network = {.predict = predict_network, .count_work = count_network};
