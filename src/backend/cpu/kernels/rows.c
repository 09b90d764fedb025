/* Sums of rows and rotations of rows: adjacent elements in vectors, others one by one, with the same bits. */
#include "backend/cpu/kernels/parts.h"

#include "arithmetic/vector.h"

DEFINE_VECTOR(row_vector, real);
#define LENGTH (sizeof(row_vector) / sizeof(real))

/* What stays in registers while the rows pass by. */
#define VECTORS 4

/* ---- Sums ---- */

ALWAYS_INLINE const real *row_of(const HOST(row_list) * rows, size_t i) {
    return rows->from + (rows->offsets ? rows->offsets[i] : i * rows->row_stride);
}

ALWAYS_INLINE void sum_vectors(const HOST(row_list) * rows, size_t column, const size_t vectors, bool onto, real *sum) {
    row_vector total[VECTORS];

    UNROLL for (size_t v = 0; v < vectors; v++) total[v] =
        onto ? *(const row_vector *)(sum + column + v * LENGTH) : (row_vector){0};
    for (size_t i = 0; i < rows->count; i++) {
        const real *row = row_of(rows, i) + column;
        UNROLL for (size_t v = 0; v < vectors; v++) total[v] += *(const row_vector *)(row + v * LENGTH);
    }
    UNROLL for (size_t v = 0; v < vectors; v++) * (row_vector *)(sum + column + v * LENGTH) = total[v];
}

static void sum_elements(const HOST(row_list) * rows, size_t column, size_t columns, bool onto, real *sum) {
    for (; column < columns; column++) {
        real total = onto ? sum[column] : 0;
        for (size_t i = 0; i < rows->count; i++)
            total += row_of(rows, i)[column * rows->step];
        sum[column] = total;
    }
}

void KERNEL(sum_rows)(const HOST(row_list) * rows, size_t columns, bool onto, real *sum) {
    size_t column = 0;

    if (rows->step == 1) {
        for (; column + VECTORS * LENGTH <= columns; column += VECTORS * LENGTH)
            sum_vectors(rows, column, VECTORS, onto, sum);
        for (; column + LENGTH <= columns; column += LENGTH)
            sum_vectors(rows, column, 1, onto, sum);
    }
    sum_elements(rows, column, columns, onto, sum);
}

/* ---- Rotations ---- */

/* out may be in: a pair is read before it is written. */
#define ROTATE(out_index, in_index)                                                                                    \
    INDEPENDENT for (size_t i = 0; i < half; i++) {                                                                    \
        const real x = low[in_index], y = high[in_index];                                                              \
        out_low[out_index] = cosines[i] * x - sines[i] * y;                                                            \
        out_high[out_index] = sines[i] * x + cosines[i] * y;                                                           \
    }

void KERNEL(rotate_row)(real *out, size_t out_step, const real *in, size_t in_step, const real *cosines,
                        const real *sines, size_t half) {
    const real *low = in, *high = in + half * in_step;
    real *out_low = out, *out_high = out + half * out_step;

    if (out_step == 1 && in_step == 1)
        ROTATE(i, i)
    else
        ROTATE(i * out_step, i * in_step)
}
