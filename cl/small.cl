/*
 * Many small operations in one launch, for CPUs: src/backend/opencl/small.c collects them and says which are small.
 *
 * The list is a sequence of entries of whole words: what is done and how many words the entry has, the numbers of its
 * buffers (a byte each), rows and elements of a row, then offset, step of rows and step of elements of each operand,
 * then what its kind needs besides. One work-item goes through all of it, so that an entry sees what those before it
 * wrote. Each computes what the kernel of its name does, bit for bit.
 */
#include "functions.h"
#include "normalize_rows.h"

#if LANES > 1

#define SMALL_WORDS 208 /* with the buffers, under the 1024 bytes of arguments that any device takes; as in small.h */

/* What an entry does, as in icl_small_kind. */
enum { SMALL_COPY = 0, SMALL_UNARY, SMALL_BINARY, SMALL_SCALE_ADD, SMALL_MATMUL, SMALL_NORMALIZE };

typedef struct small_list {
    uint words, word[SMALL_WORDS];
} small_list;

/* An operand: rows of elements. */
typedef struct small_rows {
    __global float *first;
    int row_step, step;
} small_rows;

#define BUFFER_OF(word, operand) buffers[(word)[1] >> 8 * (operand)&255u]
#define ROWS_OF(word, operand)                                                                                         \
    {                                                                                                                  \
        BUFFER_OF(word, operand) + (word)[4 + 3 * (operand)], (int)(word)[5 + 3 * (operand)],                          \
            (int)(word)[6 + 3 * (operand)]                                                                             \
    }
#define LOAD_SMALL(rows) load_run((rows).first + (int)i * (rows).step, (rows).step, count - i)

/* Computes out = VALUE for all rows; in scope: i, the first element of a vector. */
#define SMALL_ELEMENTS(VALUE)                                                                                          \
    for (uint row = 0; row < rows; row++) {                                                                            \
        for (uint i = 0; i < count; i += LANES)                                                                        \
            store_run(VALUE, out.first + (int)i * out.step, out.step, count - i);                                      \
        out.first += out.row_step, a.first += a.row_step, b.first += b.row_step;                                       \
    }

static floats scaled_sum(float alpha, floats x, float beta, floats y, uint has_b) {
    floats sum = (floats)(alpha)*x;
    if (has_b)
        sum += (floats)(beta)*y;
    return sum;
}

#define BESIDE 4 /* vectors of columns whose sums run beside each other, because a sum waits for the one before */

/* Returns a row of a times VECTORS columns of b, from `column` on. */
#define SMALL_SUMS(VECTORS, LOAD)                                                                                      \
    do {                                                                                                               \
        floats sum[VECTORS];                                                                                           \
        UNROLL for (uint c = 0; c < VECTORS; c++) sum[c] = (floats)(0.0f);                                             \
        __global const float *from = b.first;                                                                          \
        for (uint k = 0; k < terms; k++, from += b.row_step) {                                                         \
            const floats x = (floats)(a.first[(int)k * a.step]);                                                       \
            UNROLL for (uint c = 0; c < VECTORS; c++) sum[c] = MULTIPLY_ADD(x, LOAD(from, c), sum[c]);                 \
        }                                                                                                              \
        UNROLL for (uint c = 0; c < VECTORS; c++) {                                                                    \
            __global float *to = out.first + (int)(column + c * LANES) * out.step;                                     \
            floats value = alpha * sum[c];                                                                             \
            if (beta != 0.0f)                                                                                          \
                value += beta * load_run(to, out.step, left - c * LANES);                                              \
            store_run(value, to, out.step, left - c * LANES);                                                          \
        }                                                                                                              \
    } while (0)
#define LOAD_BESIDE(from, c) LOAD_ANYWHERE((from) + column + (c)*LANES)
#define LOAD_LEFT(from, c)   load_run((from) + (int)(column)*b.step, b.step, left)

static void small_matmul(small_rows out, small_rows a, small_rows b, uint rows, uint columns, uint terms, float alpha,
                         float beta) {
    for (uint row = 0; row < rows; row++, out.first += out.row_step, a.first += a.row_step)
        for (uint column = 0; column < columns;) {
            const uint left = columns - column;
            if (b.step == 1 && left >= BESIDE * LANES) {
                SMALL_SUMS(BESIDE, LOAD_BESIDE);
                column += BESIDE * LANES;
            } else {
                SMALL_SUMS(1, LOAD_LEFT);
                column += LANES;
            }
        }
}

__kernel void run_small(__global float *b0, __global float *b1, __global float *b2, __global float *b3,
                        __global float *b4, __global float *b5, __global float *b6, __global float *b7,
                        __global float *b8, __global float *b9, __global float *b10, __global float *b11,
                        __global float *b12, __global float *b13, __global float *b14, __global float *b15,
                        small_list list) {
    __global float *const buffers[] = {b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, b10, b11, b12, b13, b14, b15};
    for (uint at = 0; at < list.words; at += list.word[at] >> 8) {
        const uint *word = list.word + at;
        const uint rows = word[2], count = word[3];
        small_rows out = ROWS_OF(word, 0), a = ROWS_OF(word, 1), b = a;
        switch (word[0] & 255u) {
        case SMALL_COPY:
            SMALL_ELEMENTS(LOAD_SMALL(a));
            break;
        case SMALL_UNARY:
            SMALL_ELEMENTS(apply_unary(word[10], LOAD_SMALL(a)));
            break;
        case SMALL_BINARY:
            b = (small_rows)ROWS_OF(word, 2);
            SMALL_ELEMENTS(apply_binary(word[13], LOAD_SMALL(a), LOAD_SMALL(b)));
            break;
        case SMALL_SCALE_ADD:
            b = (small_rows)ROWS_OF(word, 2);
            SMALL_ELEMENTS(scaled_sum(as_float(word[14]), LOAD_SMALL(a), as_float(word[15]), LOAD_SMALL(b), word[13]));
            break;
        case SMALL_MATMUL:
            b = (small_rows)ROWS_OF(word, 2);
            small_matmul(out, a, b, rows, count, word[13], as_float(word[14]), as_float(word[15]));
            break;
        default: { /* SMALL_NORMALIZE */
            const uint flags = word[15];
            const target_rows to = {out.first, out.row_step, out.step};
            const source_rows from = {a.first, a.row_step, a.step};
            const vector gain = {flags & HAS_GAIN ? BUFFER_OF(word, 2) + word[10] : 0, (int)word[11], 1.0f};
            const vector shift = {flags & HAS_SHIFT ? BUFFER_OF(word, 3) + word[12] : 0, (int)word[13], 0.0f};
            normalize_rows(to, from, gain, shift, rows, count, word[14], as_float(word[16]), as_float(word[17]));
        }
        }
    }
}
#endif
