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
#include <math.h>

#include "task/quantiles.h"
#include "task/tables/tables.h"

enum { FACTORS = 3, MOST_LEVELS = 8 };

#define LOG_LEAST_NOISE (-4.605170185988091) /* log 0.01 */

static uint32_t below(icl_words *words, uint32_t count) {
    return (uint32_t)((uint64_t)icl_words_next(words) * count >> 32);
}

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

void icl_table_draw(icl_table_source source, const icl_table_habits *habits, icl_words *words, icl_drawn_table *table,
                    double *work) {
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
