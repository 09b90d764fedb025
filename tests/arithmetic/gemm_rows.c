/* Tests the inner loop of products as wide instruction sets cut it: a row of LANES elements (-DLANES=N) lies in one
 * vector, which makes blocks of eight rows, in two, or in more. On this machine the library has only some of these
 * forms. The numbers are whole, so that sums are exact. */
#define NUMBER float
#include "arithmetic/gemm_rows.h"

#include "tap.h"

enum { MOST_ROWS = 20, MOST_K = 6 };

static float a_at(size_t row, size_t p) {
    return (float)((row * 5 + p * 3) % 7) - 3;
}

static float b_at(size_t p, size_t lane) {
    return (float)((p * 4 + lane * 5) % 11) - 5;
}

/* Counts wrong elements of the product. Rows after the last must stay unchanged. */
static size_t count_wrong(size_t rows, size_t k, bool transposed) {
    static float a[MOST_ROWS * MOST_K], b[MOST_K * LANES], acc[(MOST_ROWS + 1) * LANES];
    const size_t row_stride = transposed ? 1 : k, k_stride = transposed ? rows : 1;
    size_t wrong = 0;

    for (size_t p = 0; p < k; p++) {
        for (size_t row = 0; row < rows; row++)
            a[row * row_stride + p * k_stride] = a_at(row, p);
        for (size_t lane = 0; lane < LANES; lane++)
            b[p * LANES + lane] = b_at(p, lane);
    }
    for (size_t i = 0; i < (MOST_ROWS + 1) * LANES; i++)
        acc[i] = (float)i;
    gemm_rows(a, row_stride, k_stride, b, k, acc, rows);
    for (size_t i = 0; i < (MOST_ROWS + 1) * LANES; i++) {
        float expected = (float)i;
        for (size_t p = 0; p < k && i / LANES < rows; p++)
            expected += a_at(i / LANES, p) * b_at(p, i % LANES);
        wrong += acc[i] != expected;
    }
    return wrong;
}

/* Counts wrong elements of alpha a b, written over the old elements, as matrix products of one block do. */
static size_t count_wrong_fresh(size_t rows) {
    static float a[MOST_ROWS * MOST_K], b[MOST_K * LANES], acc[MOST_ROWS * LANES];
    size_t wrong = 0;

    for (size_t p = 0; p < MOST_K; p++) {
        for (size_t row = 0; row < rows; row++)
            a[row * MOST_K + p] = a_at(row, p);
        for (size_t lane = 0; lane < LANES; lane++)
            b[p * LANES + lane] = b_at(p, lane);
    }
    gemm_any_block(rows, true, a, MOST_K, 1, b, MOST_K, 2, acc);
    for (size_t i = 0; i < rows * LANES; i++) {
        float expected = 0;
        for (size_t p = 0; p < MOST_K; p++)
            expected += 2 * a_at(i / LANES, p) * b_at(p, i % LANES);
        wrong += acc[i] != expected;
    }
    return wrong;
}

int main(void) {
    tap_run tap = {0};

    for (size_t rows = 0; rows <= MOST_ROWS; rows++) {
        size_t wrong = 0;
        for (size_t k = 0; k <= MOST_K; k++)
            wrong += count_wrong(rows, k, false) + count_wrong(rows, k, true);
        tap_ok(&tap, wrong == 0, "%zu rows of %d, blocks of %d: %zu wrong", rows, LANES, (int)BLOCK_ROWS, wrong);
    }
    for (size_t rows = 1; rows <= BLOCK_ROWS; rows++) {
        const size_t wrong = count_wrong_fresh(rows);
        tap_ok(&tap, wrong == 0, "a fresh block of %zu rows: %zu wrong", rows, wrong);
    }
    return tap_done(&tap);
}
