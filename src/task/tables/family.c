/*
 * task.family = tables: rows of features with a number to predict, drawn from a prior over tables, so that a model
 * fitted to it predicts rows of tables that it never saw (Müller, Hollmann, Arango, Grabocka, Hutter 2022, arXiv
 * 2112.10510; Hollmann, Müller, Eggensperger, Hutter 2023, arXiv 2207.01848).
 *
 * A table has T = task.n + task.unlabelled rows, 1 to task.d features in random columns, and c labelled rows, which
 * stand first: c = m + floor((n + 1 - m) u^2), m = task.least, u uniform. What makes its targets is chosen by the
 * weights task.gaussian_processes, networks, linear, trees and causal; both are drawn as stated below.
 * Features and targets are shown as the labelled rows centre and scale them (guides.c). A row has p = D + 10 inputs,
 * or D + 2 with task.guides = false: D = task.d features, a prediction and a standard deviation of each guide, the
 * label, or 0, and whether the row has one.
 *
 * The loss is the cross-entropy of the bucket that holds the target, of task.buckets (iclab/buckets.h), at rows
 * without a label. Rows m … T - 1 are scored; those with a label have weight 0 there, and the weights of the others
 * are equal and sum to the number of scored rows.
 *
 * The host draws; table s owns the words from s 2^32 on.
 */
#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "core/recipe_keys.h"
#include "core/threads.h"
#include "task/laws.h"
#include "task/streams.h"
#include "task/tables/tables.h"
#include "task/task.h"

/* The tensors that a batch keeps in icl_batch.scratch. */
enum { TARGETS = 0 /* [B, S, 1] */, WEIGHTS /* [B, S, 1] */, KERNEL /* [B, D + 3] */ };

/* ---- The recipe ---- */

#define KEY(field)       ICL_KEY("task", icl_tables, field)
#define NAME(field)      ICL_KEY_NAME("task", icl_tables, field)
#define HABIT_KEY(field) ICL_KEY("task", icl_table_habits, field)

static const icl_recipe_key own_rows[] = {
    {KEY(least), "8", 2, ICL_MAX_EXTENT, .help = "fewest labelled rows of a table; task.n is the most"},
    {KEY(unlabelled), "32", 1, ICL_MAX_EXTENT,
     .help = "fewest rows to predict: tables have task.n + task.unlabelled rows"},
    {KEY(buckets), "100", ICL_LEAST_BUCKETS, ICL_MOST_BUCKETS, .help = "buckets that share the line of targets"},
    {KEY(guides), "true", .help = "rows show what ridge, neighbours and Gaussian processes predict"},
    {KEY(gaussian_processes), "1", 0, 1e6, .help = "weight of tables from Gaussian processes"},
    {KEY(networks), "1", 0, 1e6, .help = "weight of tables from random networks"},
    {KEY(linear), "1", 0, 1e6, .help = "weight of tables from linear functions"},
    {KEY(trees), "1", 0, 1e6, .help = "weight of tables from sums of trees"},
    {KEY(causal), "1", 0, 1e6, .help = "weight of tables from causal graphs"},
};
static const icl_recipe_key habit_rows[] = {
    {HABIT_KEY(discrete), "0.3", 0, 1, .help = "share of features that are binary, whole or categories"},
    {HABIT_KEY(warped), "0.3", 0, 1, .help = "share of features that are bent; of targets it is half of this"},
    {HABIT_KEY(unused), "0.25", 0, 1, .help = "share of features without effect"},
    {HABIT_KEY(missing), "0.1", 0, 1, .help = "share of tables with missing cells"},
    {HABIT_KEY(tails), "0.2", 0, 1, .help = "share of tables whose noise has heavy tails"},
};
static const icl_recipe_group own_keys = ICL_RECIPE_GROUP(own_rows), habit_keys = ICL_RECIPE_GROUP(habit_rows);
const icl_recipe_group *const icl_tables_family_keys[] = {&icl_pairs_keys, &own_keys, &habit_keys, NULL};

/* Writes the weights of the sources, and returns their sum. */
static double weights_of(const icl_tables *state, double weights[ICL_TABLE_SOURCES]) {
    const double all[ICL_TABLE_SOURCES] = {[ICL_TABLE_GAUSSIAN_PROCESS] = state->gaussian_processes,
                                           [ICL_TABLE_NETWORK] = state->networks,
                                           [ICL_TABLE_LINEAR] = state->linear,
                                           [ICL_TABLE_TREES] = state->trees,
                                           [ICL_TABLE_CAUSAL] = state->causal};
    double sum = 0;

    for (size_t k = 0; k < ICL_TABLE_SOURCES; k++)
        sum += weights[k] = all[k];
    return sum;
}

static icl_status check_keys(const icl_recipe *recipe, const icl_tables *state, icl_error *error) {
    double weights[ICL_TABLE_SOURCES];

    if (state->d > ICL_TABLE_FEATURES)
        return icl_recipe_reject(recipe, ICL_TASK_KEY(d), error, "at most %zu beside task.family = tables",
                                 ICL_TABLE_FEATURES);
    if (state->least > state->n)
        return icl_recipe_reject(recipe, NAME(least), error, "at most task.n = %zu", state->n);
    if (!(weights_of(state, weights) > 0))
        return icl_recipe_reject(recipe, NAME(gaussian_processes), error,
                                 "more than 0, or another weight of tables that is");
    return ICL_OK;
}

static icl_status create(const icl_recipe *recipe, icl_task *task, icl_error *error) {
    const icl_task_keys shared = icl_task_keys_read(recipe);
    double weights[ICL_TABLE_SOURCES];
    icl_tables *state = NULL;

    ICL_CHECK(icl_allocate(1, sizeof *state, "tables", &state, error));
    task->state = state;
    icl_recipe_read(recipe, &own_keys, state);
    icl_recipe_read(recipe, &habit_keys, &state->habits);
    state->view = (icl_table_view){shared.d, state->guides};
    state->d = shared.d;
    state->n = shared.n;
    ICL_CHECK(check_keys(recipe, state, error));
    state->is_gaussian = weights_of(state, weights) == weights[ICL_TABLE_GAUSSIAN_PROCESS];
    task->shape = (icl_task_shape){.positions = state->n + state->unlabelled,
                                   .inputs = icl_table_inputs(state->view),
                                   .outputs = state->buckets,
                                   .first_scored = state->least,
                                   .scored = state->n + state->unlabelled - state->least,
                                   .loss = ICL_LOSS_CROSS_ENTROPY};
    return ICL_OK;
}

static icl_status batch_create(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, size_t size,
                               icl_batch *batch, icl_error *error) {
    const icl_tables *state = task->state;
    const icl_task_shape *shape = &task->shape;
    const size_t inputs[] = {size, shape->positions, shape->inputs}, scored[] = {size, shape->scored, 1};

    ICL_CHECK(icl_tensor_create(backend, 3, inputs, &batch->inputs, error));
    ICL_CHECK(icl_tensor_create(backend, 3, scored, &batch->scratch[TARGETS], error));
    ICL_CHECK(icl_tensor_create(backend, 3, scored, &batch->scratch[WEIGHTS], error));
    batch->targets = batch->scratch[TARGETS];
    batch->weights = batch->scratch[WEIGHTS];
    if (purpose == ICL_FOR_TRAINING || !state->is_gaussian)
        return ICL_OK;
    ICL_CHECK(icl_tensor_create(backend, 2, (size_t[]){size, state->d + 3}, &batch->scratch[KERNEL], error));
    return icl_batch_add_side(batch, ICL_SIDE_KERNEL, batch->scratch[KERNEL], error);
}

/* ---- Generators of targets ---- */

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

static uint32_t below(icl_words *words, uint32_t count) {
    return (uint32_t)((uint64_t)icl_words_next(words) * count >> 32);
}

enum { LEAST_WIDTH = 4, MOST_WIDTH = 64, MOST_DEPTH = 5, MOST_TREES = 8, HIDDEN_NODES = 3, MOST_PARENTS = 3 };

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

/* ---- Drawing a table ---- */

/*
 * One table: its features, then a function of some of them, then noise.
 *
 * Rows of features are r F L + (1 - r^2)^(1/2) Z with Z, F and L of normal numbers, 1 to 3 factors F and r uniform in
 * (0, 0.95) for half of the tables and 0 for the others; every fourth table has rows of Student's law with four
 * degrees of freedom. Then a feature may become a copy of another one plus a little noise, be bent, or be made
 * discrete: binary, whole, or a code of categories in random order. Features have mean 0 and variance 1 over the rows
 * before a function sees them. Its values do, too, but those of a Gaussian process, which are drawn with variance 1.
 *
 * The noise has a standard deviation of exp(log(0.01) u), u uniform in (0, 1), of normal numbers or of Student's law
 * with four degrees of freedom. Missing cells, up to 0.3 of all, are made last: the function saw what is missing.
 */

enum { FACTORS = 3, MOST_LEVELS = 8 };

#define LOG_LEAST_NOISE (-4.605170185988091) /* log 0.01 */

static bool happens(icl_words *words, double probability) {
    return icl_words_uniform(words) < probability;
}

/* Returns a factor that makes a normal number one of Student's law with four degrees of freedom: (2 / (e + e'))^(1/2)
 * of two exponential numbers. */
static double draw_tail(icl_words *words) {
    const double first = (double)icl_exponential_from_word(icl_words_next(words));
    const double second = (double)icl_exponential_from_word(icl_words_next(words));
    return sqrt(2 / (first + second));
}

/* Gives count values, a step apart, mean 0 and variance 1; values without variance become 0. */
static void standardize(size_t count, size_t step, double *values) {
    double sum = 0, square = 0;

    for (size_t i = 0; i < count; i++)
        sum += values[i * step];
    const double mean = sum / (double)count;
    for (size_t i = 0; i < count; i++)
        square += (values[i * step] - mean) * (values[i * step] - mean);
    const double deviation = sqrt(square / (double)count);
    for (size_t i = 0; i < count; i++)
        values[i * step] = deviation > 1e-9 ? (values[i * step] - mean) / deviation : 0;
}

/* ---- Features ---- */

static void draw_rows(icl_words *words, const icl_drawn_table *table) {
    const size_t d = table->features;
    const double share = happens(words, 0.5) ? 0.95 * icl_words_uniform(words) : 0, rest = sqrt(1 - share * share);
    const bool has_tails = happens(words, 0.25);
    const size_t factors = 1 + below(words, FACTORS);
    double loads[FACTORS][ICL_TABLE_FEATURES], factor[FACTORS];

    for (size_t k = 0; k < factors; k++)
        for (size_t j = 0; j < d; j++)
            loads[k][j] = icl_words_normal(words);
    for (size_t i = 0; i < table->rows; i++) {
        const double size = has_tails ? draw_tail(words) : 1;
        for (size_t k = 0; k < factors; k++)
            factor[k] = icl_words_normal(words);
        for (size_t j = 0; j < d; j++) {
            double sum = rest * icl_words_normal(words);
            for (size_t k = 0; k < factors; k++)
                sum += share / sqrt((double)factors) * factor[k] * loads[k][j];
            table->x[i * d + j] = size * sum;
        }
    }
}

/* Bends values monotonically: by exp, by cubes, or towards -1 and 1. */
static void bend(icl_words *words, size_t count, size_t step, double *values) {
    const uint32_t kind = below(words, 3);
    const double strength = 0.3 + 1.2 * icl_words_uniform(words);

    for (size_t i = 0; i < count; i++) {
        double *x = &values[i * step];
        if (kind == 0)
            *x = icl_exponential(fmin(strength * *x, 20));
        else if (kind == 1)
            *x += strength * *x * *x * *x;
        else
            *x = *x / (1 + strength * fabs(*x));
    }
}

/* Rounds values to 2 to 8 levels, which for categories have codes in random order. */
static void make_discrete(icl_words *words, size_t count, size_t step, double *values) {
    const uint32_t levels = 2 + below(words, MOST_LEVELS - 1);
    const bool is_category = happens(words, 0.5);
    const double offset = icl_words_uniform(words), width = 4.0 / (double)levels;
    double code[MOST_LEVELS];

    for (uint32_t k = 0; k < levels; k++)
        code[k] = (double)k;
    for (uint32_t k = 0; is_category && k + 1 < levels; k++) { /* Fisher-Yates */
        const uint32_t place = k + below(words, levels - k);
        const double taken = code[place];
        code[place] = code[k];
        code[k] = taken;
    }
    for (size_t i = 0; i < count; i++) {
        const double level = floor((values[i * step] + 2) / width + offset - 0.5);
        values[i * step] = code[(size_t)fmin(fmax(level, 0), (double)levels - 1)];
    }
}

static void shape_features(icl_words *words, const icl_table_habits *habits, const icl_drawn_table *table) {
    const size_t d = table->features, n = table->rows;

    for (size_t j = 0; j < d; j++) {
        double *column = table->x + j;
        const bool is_copy = happens(words, 0.05) && j > 0;
        const size_t other = is_copy ? below(words, (uint32_t)j) : 0;
        for (size_t i = 0; is_copy && i < n; i++)
            column[i * d] = table->x[i * d + other] + 0.1 * icl_words_normal(words);
        standardize(n, d, column);
        if (happens(words, habits->warped))
            bend(words, n, d, column);
        standardize(n, d, column);
        if (happens(words, habits->discrete))
            make_discrete(words, n, d, column);
        standardize(n, d, column);
    }
}

/* Chooses the features that a function sees, at least one. Returns their number. */
static size_t choose_used(icl_words *words, const icl_table_habits *habits, size_t features, size_t *used) {
    const size_t last = below(words, (uint32_t)features);
    size_t count = 0;

    for (size_t j = 0; j < features; j++)
        if (!happens(words, habits->unused))
            used[count++] = j;
    if (count == 0)
        used[count++] = last;
    return count;
}

/* ---- The table ---- */

static void add_noise(icl_words *words, const icl_table_habits *habits, icl_drawn_table *table) {
    const double deviation = icl_exponential(LOG_LEAST_NOISE * icl_words_uniform(words));
    const bool has_tails = happens(words, habits->tails);

    table->noise_variance = deviation * deviation + ICL_TABLE_JITTER;
    for (size_t i = 0; i < table->rows; i++)
        table->targets[i] += deviation * icl_words_normal(words) * (has_tails ? draw_tail(words) : 1);
}

static void hide_cells(icl_words *words, const icl_table_habits *habits, const icl_drawn_table *table) {
    if (!happens(words, habits->missing))
        return;
    const double share = 0.3 * icl_words_uniform(words);
    for (size_t i = 0; i < table->rows * table->features; i++)
        if (happens(words, share))
            table->x[i] = (double)NAN;
}

/* Draws table->x and targets for the number of rows and features that it holds. */
static void draw_table(icl_table_source source, const icl_table_habits *habits, icl_words *words,
                       icl_drawn_table *table, double *work) {
    size_t used[ICL_TABLE_FEATURES];

    for (size_t j = 0; j < table->features; j++)
        table->weights[j] = 0;
    if (source == ICL_TABLE_CAUSAL)
        icl_table_draw_function(source, words, table, NULL, 0, NULL, table->targets, work);
    else
        draw_rows(words, table);
    shape_features(words, habits, table);
    const size_t count = choose_used(words, habits, table->features, used);
    if (source != ICL_TABLE_CAUSAL)
        icl_table_draw_function(source, words, table, used, count, table->weights, table->targets, work);
    if (source != ICL_TABLE_GAUSSIAN_PROCESS)
        standardize(table->rows, 1, table->targets);
    add_noise(words, habits, table);
    if (happens(words, habits->warped / 2))
        bend(words, table->rows, 1, table->targets);
    hide_cells(words, habits, table);
}

/* ---- Batches ---- */

/* A batch, its stream, and for each thread the doubles that a table and its guides take. */
typedef struct drawing {
    const icl_task *task;
    icl_random_key key;
    const icl_batch_values *out;
    double *rooms;
    size_t room;
} drawing;

static icl_table_source draw_source(const icl_tables *state, icl_words *words) {
    double weights[ICL_TABLE_SOURCES];
    double left = weights_of(state, weights) * icl_words_uniform(words);
    int source = ICL_TABLE_SOURCES - 1;

    for (int k = ICL_TABLE_SOURCES - 1; k >= 0; k--) /* the last one with a weight, unless an earlier one is met */
        if (weights[k] > 0) {
            source = k;
            break;
        }
    for (int k = 0; k < source; k++) {
        if (left < weights[k])
            return (icl_table_source)k;
        left -= weights[k];
    }
    return (icl_table_source)source;
}

/* Draws columns for `count` features out of all. */
static void draw_places(icl_words *words, size_t columns, size_t count, size_t *places) {
    size_t order[ICL_TABLE_FEATURES];

    for (size_t k = 0; k < columns; k++)
        order[k] = k;
    for (size_t k = 0; k < count; k++) { /* Fisher-Yates */
        const size_t place = k + ((size_t)icl_words_next(words) * (columns - k) >> 32);
        places[k] = order[place];
        order[place] = order[k];
    }
}

static void write_scores(const drawing *picture, size_t index, size_t labelled, const icl_drawn_table *table,
                         const icl_table_scale *scale) {
    const icl_task_shape *shape = &picture->task->shape;
    float *targets = picture->out->targets + index * shape->scored;
    float *weights = picture->out->weights + index * shape->scored;

    for (size_t i = labelled; i < shape->positions; i++) {
        const double distance = table->targets[i] - scale->target_centre;
        const double shown = scale->target_scale > 0 ? distance / scale->target_scale : 0;
        targets[i - shape->first_scored] = (float)icl_bucket_of(shape->outputs, shown);
        weights[i - shape->first_scored] = (float)((double)shape->scored / (double)(shape->positions - labelled));
    }
}

static void write_kernel(const icl_tables *state, const icl_drawn_table *table, const size_t *places,
                         const icl_table_scale *scale, float *kernel) {
    const double target = scale->target_scale > 0 ? scale->target_scale : 1;

    memset(kernel, 0, (state->d + 3) * sizeof *kernel);
    for (size_t j = 0; j < table->features; j++)
        kernel[places[j]] = (float)(table->weights[j] * scale->scales[j] * scale->scales[j]);
    kernel[state->d] = (float)(-scale->target_centre / target);
    kernel[state->d + 1] = (float)(1 / (target * target));
    kernel[state->d + 2] = (float)(table->noise_variance / (target * target));
}

static size_t room_of(const icl_task *task) {
    const icl_tables *state = task->state;
    const size_t rows = task->shape.positions, draw = icl_table_draw_work(rows);
    const size_t show = icl_table_show_work(rows, state->n, state->d);
    return rows * (state->d + 1) + (draw > show ? draw : show);
}

static void draw_one(void *context, size_t index, size_t thread) {
    const drawing *picture = context;
    const icl_tables *state = picture->task->state;
    const size_t rows = picture->task->shape.positions, p = picture->task->shape.inputs;
    double *x = picture->rooms + thread * picture->room, *targets = x + rows * state->d, *work = targets + rows;
    icl_words words = {.key = picture->key, .next = (uint64_t)index << 32};
    const icl_table_source source = draw_source(state, &words);
    const size_t features = 1 + ((size_t)icl_words_next(&words) * state->d >> 32);
    const double u = icl_words_uniform(&words);
    const size_t labelled = state->least + (size_t)((double)(state->n + 1 - state->least) * u * u);
    icl_drawn_table table = {.rows = rows, .features = features, .x = x, .targets = targets};
    size_t places[ICL_TABLE_FEATURES];
    icl_table_scale scale;

    draw_places(&words, state->d, features, places);
    draw_table(source, &state->habits, &words, &table, work);
    const icl_table_shown shown = {rows, labelled, features, x, targets, places};
    icl_table_show(state->view, &shown, &scale, work, picture->out->inputs + index * rows * p);
    write_scores(picture, index, labelled, &table, &scale);
    if (picture->out->sides[0])
        write_kernel(state, &table, places, &scale, picture->out->sides[0] + index * (state->d + 3));
}

static icl_status draw_batch(const icl_task *task, icl_task_purpose purpose, uint32_t seed, uint64_t step,
                             const icl_batch_values *values, icl_error *error) {
    const size_t threads = icl_parallel_threads();
    drawing all = {.task = task,
                   .key = {seed, icl_stream_for(purpose, ICL_TABLE_STREAMS), step},
                   .out = values,
                   .room = room_of(task)};

    ICL_CHECK(icl_allocate(threads, all.room * sizeof *all.rooms, "tables", &all.rooms, error));
    icl_parallel_for(values->size, threads, draw_one, &all);
    icl_free(&all.rooms);
    return ICL_OK;
}

static const icl_reference_predictor *references(const icl_task *task) {
    const icl_tables *state = task->state;
    return icl_table_predictors[state->guides][state->is_gaussian];
}

const icl_task_family icl_tables_family = {
    .name = "tables",
    .create = create,
    .destroy = icl_task_free_state,
    .batch_create = batch_create,
    .draw = draw_batch,
    .references = references,
};
