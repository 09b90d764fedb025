/*
 * Rows by number: exactly the table's. Sums of rows of one number, by a row of double sums for each symbol.
 *
 * A sum of n terms in any order rounds each at most n - 1 times. By ops_sequence.h a term joins 31 others on each of
 * the floor(log_32 n) levels that a run of n rows can fill, at most 62 sums that stand about the larger ones, the first
 * of them without a rounding, and then the sums of the levels, one each: 31 l + 61 + l roundings with l =
 * floor(log_32 n). So |error| <= gamma(min(n - 1, 61 + 32 l)) sum |x| (Higham, section 4.2).
 */
#include <math.h>
#include <string.h>

#include "conformance/cases.h"
#include "core/allocate.h"

/* The row that a symbol names, or `rows`. */
static size_t named_row(double symbol, size_t rows) {
    for (size_t row = 0; symbol >= 0 && row < rows; row++)
        if ((double)row == symbol)
            return row;
    return rows;
}

icl_status icl_truth_look_up(icl_truth *truth, icl_error *error) {
    const icl_case *c = truth->c;
    const size_t width = c->shape[1][1], rows = c->shape[1][0];
    (void)error;

    for (size_t i = 0; i < icl_case_count(c, 0); i++) {
        const size_t row = named_row(truth->operand[2][i / width], rows);
        truth->operand[0][i] = row < rows ? truth->operand[1][row * width + i % width] : (double)NAN;
        truth->bound[0][i] = 0;
    }
    return ICL_OK;
}

static double roundings(size_t terms) {
    double levels = 0;
    if (terms < 2)
        return 0;
    for (size_t filled = terms / 32; filled > 0; filled /= 32)
        levels++;
    return fmin((double)terms - 1, 61 + 32 * levels);
}

/* One column of the table; sums, magnitudes [rows] and counts [rows] are free to use. */
static void sum_column(icl_truth *truth, size_t column, long double *sums, size_t *counts) {
    const icl_case *c = truth->c;
    const size_t rows = c->shape[0][0], width = c->shape[0][1];

    memset(counts, 0, rows * sizeof *counts);
    for (size_t row = 0; row < rows; row++) {
        sums[row] = 0;
        truth->bound[0][row * width + column] = 0;
    }
    for (size_t i = 0; i < icl_case_count(c, 2); i++) {
        const double symbol = truth->operand[2][i], x = truth->operand[1][i * width + column];
        const size_t row = symbol >= 0 && symbol < (double)rows && symbol == floor(symbol) ? (size_t)symbol : rows;
        if (row == rows)
            continue;
        sums[row] += (long double)x;
        truth->bound[0][row * width + column] += fabs(x);
        counts[row]++;
    }
    for (size_t row = 0; row < rows; row++) {
        truth->operand[0][row * width + column] = (double)sums[row];
        truth->bound[0][row * width + column] *= icl_gamma(roundings(counts[row]), truth->unit);
    }
}

icl_status icl_truth_look_up_backward(icl_truth *truth, icl_error *error) {
    const size_t rows = truth->c->shape[0][0], width = truth->c->shape[0][1];
    long double *sums = NULL;
    size_t *counts = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(rows, sizeof *sums, "sums of rows", &sums, error));
    ICL_TRY(icl_allocate(rows, sizeof *counts, "sums of rows", &counts, error));
    for (size_t column = 0; column < width; column++)
        sum_column(truth, column, sums, counts);
done:
    icl_free(&sums);
    icl_free(&counts);
    return status;
}
