/* Makes a small table, and computes regressions on it by Gaussian elimination, without the code that they check. */
#ifndef ICLAB_TESTS_LAB_REGRESSIONS_H
#define ICLAB_TESTS_LAB_REGRESSIONS_H

#include <math.h>

#include "eliminate.h"
#include "iclab/random.h"
#include "iclab/table.h"

enum { FEATURES = 3, COLUMNS = FEATURES + 1, ROWS = 23 };

static size_t all_lines[ROWS], all_numbers[COLUMNS] = {1, 2, 3, 4};
static char table_name[] = "made", letters[COLUMNS][2] = {"a", "b", "c", "y"};
static char *all_names[COLUMNS] = {letters[0], letters[1], letters[2], letters[3]};

/* Fills a table of correlated features of different units, and a noisy linear target. */
static inline icl_table make_table(double values[ROWS * COLUMNS]) {
    const icl_table table = {.name = table_name,
                             .has_header = true,
                             .rows = ROWS,
                             .columns = COLUMNS,
                             .values = values,
                             .lines = all_lines,
                             .names = all_names,
                             .numbers = all_numbers};
    icl_random_params normal = {.key = {5, 77, 0}, .distribution = ICL_NORMAL};

    for (size_t i = 0; i < ROWS; i++) {
        double g[COLUMNS], *row = values + i * COLUMNS;
        for (size_t k = 0; k < COLUMNS; k++)
            g[k] = (double)icl_random_value(&normal, i * COLUMNS + k);
        row[0] = 100 + 10 * g[0];
        row[1] = 0.01 * (g[0] + g[1]);
        row[2] = -3 + g[2] - 0.5 * g[1];
        row[3] = 40 + 0.2 * row[0] - 100 * row[1] + row[2] + 2.5 * g[3];
        all_lines[i] = i + 2;
    }
    return table;
}

static inline bool near(double a, double b, double tolerance) {
    return fabs(a - b) <= tolerance * (fabs(a) + fabs(b) + 1e-300);
}

/* ---- Regressions by Gaussian elimination ---- */

/* Returns the prediction for row `query` by ridge with an intercept on the rows other than `left_out`, features and
 * target centred and scaled as given; the intercept is not penalized. */
static inline double ridge_by_hand(const double rows[ROWS][COLUMNS], size_t left_out, size_t query, double penalty) {
    double matrix[COLUMNS][COLUMNS] = {{0}}, right[COLUMNS] = {0}, prediction;

    for (size_t i = 0; i < ROWS; i++) {
        double z[COLUMNS] = {1, rows[i][0], rows[i][1], rows[i][2]};
        for (size_t j = 0; i != left_out && j < COLUMNS; j++) {
            for (size_t k = 0; k < COLUMNS; k++)
                matrix[j][k] += z[j] * z[k];
            right[j] += z[j] * rows[i][FEATURES];
        }
    }
    for (size_t k = 1; k < COLUMNS; k++)
        matrix[k][k] += penalty;
    eliminate(COLUMNS, COLUMNS, &matrix[0][0], right);
    prediction = right[0];
    for (size_t k = 0; k < FEATURES; k++)
        prediction += right[k + 1] * rows[query][k];
    return prediction;
}

/* Standardizes by all the rows except `left_out`, with the number of these rows as divisor. */
static inline void standardize_by_hand(const double *values, size_t left_out, double rows[ROWS][COLUMNS],
                                       double means[COLUMNS], double deviations[COLUMNS]) {
    const double count = left_out < ROWS ? ROWS - 1 : ROWS;

    for (size_t k = 0; k < COLUMNS; k++) {
        means[k] = deviations[k] = 0;
        for (size_t i = 0; i < ROWS; i++)
            means[k] += i == left_out ? 0 : values[i * COLUMNS + k] / count;
        for (size_t i = 0; i < ROWS; i++)
            deviations[k] += i == left_out ? 0 : pow(values[i * COLUMNS + k] - means[k], 2) / count;
        deviations[k] = sqrt(deviations[k]);
        for (size_t i = 0; i < ROWS; i++)
            rows[i][k] = (values[i * COLUMNS + k] - means[k]) / deviations[k];
    }
}

/* Returns the leave-one-out error of ridge within all rows, with the standardization of all: one fit for each row. */
static inline double left_out_error(const double rows[ROWS][COLUMNS], double penalty) {
    double sum = 0;
    for (size_t i = 0; i < ROWS; i++)
        sum += pow(ridge_by_hand(rows, i, i, penalty) - rows[i][FEATURES], 2);
    return sum;
}

#endif
