/*
 * Generators of the targets of a table, from features of mean 0 and variance 1. With r features in use:
 *
 *     Gaussian process   kernel exp(-1/2 sum_j (x_j - x'_j)^2 / l_j^2), l_j = r^(1/2) s exp(N(0, 1) / 2),
 *                        log s uniform in (-0.9, 1.1)
 *     network            2 to 4 layers of 4 to 64 units, tanh, ReLU or sine, weights N(0, g^2 / inputs), biases
 *                        N(0, 1/4), g = 1.5 (ReLU), else uniform in (1, 3)
 *     linear             weights of Student's law with two degrees of freedom
 *     trees              the sum of 1 to 8 trees of depth 1 to 5 with leaves N(0, 1); each node compares a feature with
 *                        its value in a random row
 *     causal             a graph of r + 4 nodes or fewer: a node is N(0, 1), or a network's unit of 1 to 3 nodes before
 *                        it plus noise; features and target are nodes in random order
 */
#include <math.h>
#include <string.h>

#include "task/quantiles.h"
#include "task/tables/tables.h"

enum { LEAST_WIDTH = 4, MOST_WIDTH = 64, MOST_DEPTH = 5, MOST_TREES = 8, HIDDEN_NODES = 3, MOST_PARENTS = 3 };

static uint32_t below(icl_words *words, uint32_t count) {
    return (uint32_t)((uint64_t)icl_words_next(words) * count >> 32);
}

/* ---- Gaussian processes ---- */

static void draw_gaussian_process(icl_words *words, const icl_drawn_table *table, const size_t *used, size_t count,
                                  double *weights, double *values, double *work) {
    const size_t n = table->rows, d = table->features;
    const double base = 2 * icl_words_uniform(words) - 0.9;
    double *normals = work + n * n;

    for (size_t j = 0; j < count; j++)
        weights[used[j]] = icl_exponential(-2 * base - icl_words_normal(words)) / (double)count;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < i; k++) {
            double square = 0;
            for (size_t j = 0; j < count; j++) {
                const double step = table->x[i * d + used[j]] - table->x[k * d + used[j]];
                square += weights[used[j]] * step * step;
            }
            work[i * n + k] = work[k * n + i] = icl_exponential(-0.5 * square);
        }
        work[i * n + i] = 1 + ICL_TABLE_JITTER;
        normals[i] = icl_words_normal(words);
    }
    icl_table_factor(n, work, normals + n);
    for (size_t i = 0; i < n; i++) {
        values[i] = 0;
        for (size_t k = 0; k <= i; k++)
            values[i] += work[i * n + k] * normals[k];
    }
}

/* ---- Networks ---- */

typedef enum activation { TANH = 0, RELU, SINE, ACTIVATIONS } activation;

/* Returns sin(x), to 1e-6 for |x| < 1e4: by the series of degree 17 in the remainder of x by 2 pi. */
static double sine(double x) {
    const double turn = 6.283185307179586, r = x - turn * floor(x / turn + 0.5), square = r * r;
    double term = r, sum = r;

    for (int i = 1; i <= 8; i++) {
        term *= -square / (double)(2 * i * (2 * i + 1));
        sum += term;
    }
    return sum;
}

static double activate(activation kind, double x) {
    if (kind == RELU)
        return x > 0 ? x : 0;
    if (kind == SINE)
        return sine(x);
    const double power = icl_exponential(-2 * fabs(x)), size = (1 - power) / (1 + power);
    return x < 0 ? -size : size;
}

static void draw_network(icl_words *words, const icl_drawn_table *table, const size_t *used, size_t count,
                         double *values, double *work) {
    const size_t n = table->rows, layers = 2 + below(words, 3), width = LEAST_WIDTH + below(words, MOST_WIDTH - 3);
    const activation kind = (activation)below(words, ACTIVATIONS);
    const double gain = kind == RELU ? 1.5 : 1 + 2 * icl_words_uniform(words);
    double *in = work, *out = work + n * MOST_WIDTH, *weights = out + n * MOST_WIDTH;
    size_t inputs = count;

    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < count; j++)
            in[i * MOST_WIDTH + j] = table->x[i * table->features + used[j]];
    for (size_t layer = 0; layer < layers; layer++) {
        const size_t outputs = layer + 1 < layers ? width : 1;
        for (size_t unit = 0; unit < outputs; unit++) {
            const double scale = gain / sqrt((double)inputs), bias = 0.5 * icl_words_normal(words);
            for (size_t j = 0; j < inputs; j++)
                weights[j] = scale * icl_words_normal(words);
            for (size_t i = 0; i < n; i++) {
                double sum = bias;
                for (size_t j = 0; j < inputs; j++)
                    sum += weights[j] * in[i * MOST_WIDTH + j];
                out[i * MOST_WIDTH + unit] = layer + 1 < layers ? activate(kind, sum) : sum;
            }
        }
        double *swapped = in;
        in = out;
        out = swapped;
        inputs = outputs;
    }
    for (size_t i = 0; i < n; i++)
        values[i] = in[i * MOST_WIDTH];
}

/* ---- Linear functions and trees ---- */

/* Returns a number of Student's law with two degrees of freedom: N(0, 1) over the root of an exponential number. */
static double draw_student(icl_words *words) {
    const double normal = icl_words_normal(words);
    return normal / sqrt((double)icl_exponential_from_word(icl_words_next(words)));
}

static void draw_linear(icl_words *words, const icl_drawn_table *table, const size_t *used, size_t count,
                        double *values) {
    for (size_t i = 0; i < table->rows; i++)
        values[i] = 0;
    for (size_t j = 0; j < count; j++) {
        const double weight = draw_student(words);
        for (size_t i = 0; i < table->rows; i++)
            values[i] += weight * table->x[i * table->features + used[j]];
    }
}

/* Adds one tree, whose nodes stand in the order of a heap: node k has the children 2 k + 1 and 2 k + 2. */
static void add_tree(icl_words *words, const icl_drawn_table *table, const size_t *used, size_t count, double *values) {
    const size_t depth = 1 + below(words, MOST_DEPTH), inner = ((size_t)1 << depth) - 1;
    size_t feature[(1 << MOST_DEPTH) - 1];
    double threshold[(1 << MOST_DEPTH) - 1], leaf[1 << MOST_DEPTH];

    for (size_t k = 0; k < inner; k++) {
        feature[k] = used[below(words, (uint32_t)count)];
        threshold[k] = table->x[below(words, (uint32_t)table->rows) * table->features + feature[k]];
    }
    for (size_t k = 0; k <= inner; k++)
        leaf[k] = icl_words_normal(words);
    for (size_t i = 0; i < table->rows; i++) {
        size_t k = 0;
        while (k < inner)
            k = 2 * k + (table->x[i * table->features + feature[k]] < threshold[k] ? 1 : 2);
        values[i] += leaf[k - inner];
    }
}

/* ---- Causal graphs ---- */

/* Writes node `number` of nodes [rows][room]. The first one, and one in four of the others, has no parents. */
static void draw_node(icl_words *words, size_t rows, size_t room, size_t number, double *nodes) {
    const size_t parents = number == 0 || below(words, 4) == 0 ? 0 : 1 + below(words, MOST_PARENTS);
    const activation kind = (activation)below(words, ACTIVATIONS + 1); /* the last one: none */
    const double noise = parents == 0 ? 1 : 0.3 * icl_words_uniform(words), bias = 0.5 * icl_words_normal(words);
    size_t parent[MOST_PARENTS];
    double weight[MOST_PARENTS];

    for (size_t k = 0; k < parents; k++) {
        parent[k] = below(words, (uint32_t)number);
        weight[k] = 1.5 * icl_words_normal(words);
    }
    for (size_t i = 0; i < rows; i++) {
        double sum = parents > 0 ? bias : 0;
        for (size_t k = 0; k < parents; k++)
            sum += weight[k] * nodes[i * room + parent[k]];
        if (parents > 0 && kind < ACTIVATIONS)
            sum = activate(kind, sum);
        nodes[i * room + number] = sum + noise * icl_words_normal(words);
    }
}

static void draw_causal(icl_words *words, const icl_drawn_table *table, double *values, double *work) {
    const size_t rows = table->rows, d = table->features, nodes = d + 1 + below(words, HIDDEN_NODES + 1);
    size_t order[ICL_TABLE_FEATURES + 1 + HIDDEN_NODES];

    for (size_t k = 0; k < nodes; k++) {
        draw_node(words, rows, nodes, k, work);
        order[k] = k;
    }
    for (size_t k = 0; k <= d; k++) { /* Fisher-Yates */
        const size_t place = k + below(words, (uint32_t)(nodes - k)), taken = order[place];
        order[place] = order[k];
        order[k] = taken;
    }
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < d; j++)
            table->x[i * d + j] = work[i * nodes + order[j]];
        values[i] = work[i * nodes + order[d]];
    }
}

void icl_table_draw_function(icl_table_source source, icl_words *words, const icl_drawn_table *table,
                             const size_t *used, size_t count, double *weights, double *values, double *work) {
    size_t trees;

    switch (source) {
    case ICL_TABLE_GAUSSIAN_PROCESS:
        draw_gaussian_process(words, table, used, count, weights, values, work);
        return;
    case ICL_TABLE_NETWORK:
        draw_network(words, table, used, count, values, work);
        return;
    case ICL_TABLE_LINEAR:
        draw_linear(words, table, used, count, values);
        return;
    case ICL_TABLE_TREES:
        trees = 1 + below(words, MOST_TREES);
        memset(values, 0, table->rows * sizeof *values);
        while (trees-- > 0)
            add_tree(words, table, used, count, values);
        return;
    case ICL_TABLE_CAUSAL:
        draw_causal(words, table, values, work);
        return;
    case ICL_TABLE_SOURCES:
        break;
    }
}
