/*
 * Rows by number are exactly the table's. Sums of rows of one number are taken by a row of double sums for each symbol.
 *
 * A sum of n terms in any order rounds each at most n - 1 times. By ops_sequence.h a term joins 31 others on each of
 * the floor(log_32 n) levels that a run of n rows can fill; then come at most 62 sums before and after the larger ones,
 * the first of them without a rounding; and then the sums of the levels, one each. That makes 31 l + 61 + l roundings
 * with l = floor(log_32 n). So |error| <= gamma(min(n - 1, 61 + 32 l)) sum |x| (Higham, section 4.2).
 */
#include <math.h>
#include <string.h>

#include "conformance/cases.h"
#include "core/allocate.h"
#include "iclab/status.h"

/* ---- The exact result ---- */

/* Returns the row that a symbol names, or `rows` if there is none. */
static size_t named_row(double symbol, size_t rows) {
    for (size_t row = 0; symbol >= 0 && row < rows; row++)
        if ((double)row == symbol)
            return row;
    return rows;
}

static icl_status truth_look_up(icl_truth *truth, icl_error *error) {
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

/* Computes one column of the table; sums [rows] and counts [rows] are scratch. */
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

static icl_status truth_look_up_backward(icl_truth *truth, icl_error *error) {
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

/* ---- Cases ---- */

enum { TABLE = 1, SYMBOLS = 2 }; /* of look_up; look_up_backward has the table first, rows second */

/* Rows of every rank of `out`, in tables of one row and of many; some symbols are frequent. The sort of large tables
 * takes two passes, on CPUs only if the table is far larger than the number of symbols. */
typedef struct sizes {
    int rank;
    size_t shape[ICL_MAX_RANK]; /* of the rows */
    size_t table;
} sizes;

static const sizes all_sizes[] = {
    {1, {6}, 4},         {2, {7, 5}, 3},       {3, {3, 11, 8}, 64},  {4, {2, 3, 4, 5}, 1},   {3, {2, 129, 33}, 300},
    {2, {33, 1}, 70000}, {2, {5, 0}, 3},       {2, {0, 4}, 3},       {2, {4, 3}, 0},         {3, {5, 67, 70}, 2},
    {2, {1025, 3}, 1},   {2, {1025, 19}, 255}, {2, {1025, 16}, 256}, {3, {9, 21, 20}, 5000}, {2, {9, 3}, 300}};

static icl_case case_of(icl_op op, const sizes *s, icl_values values) {
    icl_case c = {.op = op, .values = values};
    const int rows = op == ICL_OP_look_up ? 0 : 1, table = op == ICL_OP_look_up ? TABLE : 0;
    const size_t *shape = s->shape;

    icl_case_set_shape(&c, rows, s->rank, shape[0], shape[1], shape[2], shape[3]);
    icl_case_set_shape(&c, table, 2, s->table, shape[s->rank - 1], 0, 0);
    icl_case_set_shape(&c, SYMBOLS, s->rank - 1, shape[0], shape[1], shape[2], 0);
    return c;
}

static void look_up_cases(icl_case_list *list) {
    for (size_t s = 0; s < sizeof all_sizes / sizeof *all_sizes; s++) {
        icl_cases_add(list, case_of(ICL_OP_look_up, &all_sizes[s], ICL_VALUES_RANDOM), "look_up");
        icl_cases_add(list, case_of(ICL_OP_look_up, &all_sizes[s], ICL_VALUES_SPECIAL), "look_up");
    }
}

static void backward_cases(icl_case_list *list) {
    static const icl_values values[] = {ICL_VALUES_INTEGERS, ICL_VALUES_RANDOM, ICL_VALUES_SPECIAL,
                                        ICL_VALUES_CANCELLING};
    static const sizes few_symbols = {2, {100003, 1}, 2};

    for (size_t s = 0; s < sizeof all_sizes / sizeof *all_sizes; s++)
        for (size_t v = 0; v < sizeof values / sizeof *values; v++)
            if (all_sizes[s].table > 0)
                icl_cases_add(list, case_of(ICL_OP_look_up_backward, &all_sizes[s], values[v]), "look_up_backward");
    icl_cases_add(list, case_of(ICL_OP_look_up_backward, &few_symbols, ICL_VALUES_ABSORBED), "look_up_backward");
}

/* ---- Values ---- */

/* Writes whole numbers below `count`; special values include some that name no row. */
static void write_symbols(const icl_case *c, size_t count, float *symbols) {
    static const float none[] = {-1, NAN, 1.5F, INFINITY, 1e30F, -0.0F};
    const icl_random_key key = {.seed = c->seed, .stream = SYMBOLS};

    for (size_t i = 0; i < icl_case_count(c, SYMBOLS); i++) {
        const uint32_t word = icl_random_word(key, i), kind = word >> 28;
        symbols[i] = count > 0 ? (float)(word % count) : 0.0F;
        if (c->values == ICL_VALUES_SPECIAL && kind < 7)
            symbols[i] = kind < 6 ? none[kind] : (float)count;
    }
}

static void look_up_inputs(const icl_case *c, int operand, float *const *operands) {
    if (operand == SYMBOLS)
        write_symbols(c, c->shape[TABLE][0], operands[operand]);
    else
        icl_case_values(c, operand, false, operands[operand]);
}

/* Writes inputs without the largest numbers, because a sum that overflows on the way is NaN on one device and infinite
 * on another. */
static void backward_inputs(const icl_case *c, int operand, float *const *operands) {
    if (operand == SYMBOLS) {
        write_symbols(c, c->shape[0][0], operands[operand]);
        return;
    }
    icl_case_values(c, operand, false, operands[operand]);
    icl_case_without_largest(icl_case_count(c, operand), operands[operand]);
}

/* ---- Calls and benchmarks ---- */

ICL_CASE_CALL(look_up, icl_look_up(on, t[0], t[TABLE], t[SYMBOLS], error))
ICL_CASE_CALL(look_up_backward, icl_look_up_backward(on, t[0], t[1], t[SYMBOLS], error))

static double backward_flops(const icl_case *c) {
    return (double)icl_case_count(c, 1);
}

static icl_status fill(const icl_case *c, icl_backend *backend, const icl_tensor *operands, icl_error *error) {
    float *symbols = NULL;
    icl_status status = ICL_OK;
    (void)backend;

    ICL_TRY(icl_allocate(icl_case_count(c, SYMBOLS), sizeof *symbols, "symbols", &symbols, error));
    write_symbols(c, c->shape[c->op == ICL_OP_look_up ? TABLE : 0][0], symbols);
    ICL_TRY(icl_tensor_write(operands[SYMBOLS], symbols, error));
done:
    icl_free(&symbols);
    return status;
}

#define TOKENS ICL_AXES2(256, 256)
#define ROWS   ICL_AXES3(256, 256, 64)

static const icl_timed_shape look_up_timed[] = {
    {"look_up of 8192 (65536x64)", {0}, {ROWS, ICL_AXES2(8192, 64), TOKENS}},
};
static const icl_timed_shape backward_timed[] = {
    {"look_up_backward of 8192 (65536x64)", {0}, {ICL_AXES2(8192, 64), ROWS, TOKENS}},
    {"look_up_backward of 64 (65536x64)", {0}, {ICL_AXES2(64, 64), ROWS, TOKENS}},
    {"look_up_backward of 2 (65536x64)", {0}, {ICL_AXES2(2, 64), ROWS, TOKENS}},
};

const icl_described_op icl_described_look_up =
    ICL_DESCRIBED(look_up_timed, .call = call_look_up, .truth = truth_look_up, .cases = look_up_cases,
                  .inputs = look_up_inputs, .fill = fill);
const icl_described_op icl_described_look_up_backward =
    ICL_DESCRIBED(backward_timed, .call = call_look_up_backward, .truth = truth_look_up_backward,
                  .cases = backward_cases, .inputs = backward_inputs, .flops = backward_flops, .fill = fill);
