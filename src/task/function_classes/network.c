/*
 * A two-layer network at every position, v . max(0, U x + a) + c with task.hidden_units units, trained on the pairs
 * before it alone: task.network_steps steps of Adam (.9, .999) on the mean squared error of all of them, from uniform
 * U, a in +-1 / sqrt(d) and v, c in +-1 / sqrt(h), as PyTorch has it. Garg and others 2022, appendix A.3.
 */
#include <math.h>
#include <string.h>

#include "core/recipe_keys.h"
#include "task/draws.h"
#include "task/function_classes/predictors.h"
#include "task/streams.h"

static const icl_recipe_key rows[] = {
    {"task", "network_steps", ICL_KEY_COUNT, "100", 0, 1e6, .help = "of Adam, for the reference predictor network"},
    {"task", "network_rate", ICL_KEY_NUMBER, "0.005", 1e-9, 1e3, .help = "step size of the same"},
};
const icl_recipe_group icl_network_keys = ICL_RECIPE_GROUP(rows);

/* Parameters in one array: U [h][d], a [h], v [h], c. */
typedef struct network {
    size_t dimension, hidden, size;
    double *parameters, *gradient, *mean, *square; /* [size] */
    double *units;                                 /* [h] */
} network;

static size_t size_of(size_t dimension, size_t hidden) {
    return hidden * (dimension + 2) + 1;
}

static size_t count_work(size_t dimension, size_t count, const icl_function_classes *is) {
    (void)count;
    return 4 * size_of(dimension, is->law.hidden) + is->law.hidden;
}

static network place(const icl_points *points, double *work) {
    const size_t hidden = points->is->law.hidden, size = size_of(points->dimension, hidden);
    return (network){points->dimension, hidden,          size,           work, work + size,
                     work + 2 * size,   work + 3 * size, work + 4 * size};
}

/* The same numbers for every sequence and position. */
static void start(const network *net) {
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

/* Adds the gradient of (slope / 2) output, behind forward of the same x. */
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
    start(net);
    for (size_t step = 1; step <= points->is->network_steps; step++) {
        memset(net->gradient, 0, net->size * sizeof *net->gradient);
        for (size_t i = 0; i < count; i++) {
            const double miss = forward(net, icl_points_x(points, i)) - icl_points_y(points, i);
            backward(net, icl_points_x(points, i), 2 * miss / (double)count);
        }
        update(net, points->is->network_rate, step);
    }
}

static void predict(const icl_points *points, double number, const void *shared, double *work, double *outputs) {
    const network net = place(points, work);

    (void)number;
    (void)shared;
    outputs[0] = 0;
    for (size_t k = 1; k < points->count; k++) {
        train(&net, points, k);
        outputs[k] = forward(&net, icl_points_x(points, k));
    }
}

const icl_points_predictor icl_points_network = {.predict = predict, .count_work = count_work};
