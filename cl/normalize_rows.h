/* Rows that are normalized on CPUs, and what all kernels of norms share. */
#ifndef ICL_NORMALIZE_ROWS_H
#define ICL_NORMALIZE_ROWS_H
#include "rows.h"

#define KIND_LAYER 0u /* as icl_norm_kind */
#define HAS_GAIN   1u
#define HAS_SHIFT  2u

static float reciprocal_root(float square) {
    return square == 0.0f ? 0.0f : 1.0f / sqrt(square);
}

#if LANES > 1

/* A row in memory and what was found for it: its elements become (x - first - mean) r. */
typedef struct found {
    __global const float *x;
    int step;
    float first, mean, r;
} found;

/* Loads min(left, LANES) elements from i on. */
ROW_FUNCTION floats centred(const found *of, uint i, uint left) {
    const floats x = load_run(of->x + (int)i * of->step, of->step, left);
    return existing(x - (floats)(of->first) - (floats)(of->mean), left);
}

static floats squared(floats x) {
    return x * x;
}

/* Finds mean and r of the row that `of` names. It returns no struct, because inlined that would be a hint about aliases
 * that Oclgrind 21.10 does not know. */
ROW_FUNCTION void find(found *of, uint n, uint kind, float share, float epsilon) {
    float square;
    if (kind == KIND_LAYER) {
        float sum;
        of->first = of->x[0];
#define CENTRED(i, left) centred(of, i, left)
        SUM_ROW(sum, n, CENTRED);
        of->mean = sum / share;
    }
#define SQUARED(i, left) squared(centred(of, i, left))
    SUM_ROW(square, n, SQUARED);
    of->r = reciprocal_root(square / share + epsilon);
}

/* A vector with a number for each element of a row. NULL: each number is `absent`. */
typedef struct vector {
    __global const float *from;
    int step;
    float absent;
} vector;

ROW_FUNCTION floats load_vector(const vector *of, uint i, uint left) {
    return of->from ? load_run(of->from + (int)i * of->step, of->step, left) : (floats)(of->absent);
}

/* Rows that lie side by side along the last axis but one; `row_step` leads from one to the next. */
typedef struct source_rows {
    __global const float *first;
    int row_step, step;
} source_rows;

typedef struct target_rows {
    __global float *first;
    int row_step, step;
} target_rows;

ROW_FUNCTION void normalize_rows(target_rows out, source_rows in, vector gain, vector shift, uint count, uint n,
                                 uint kind, float share, float epsilon) {
    for (uint row = 0; row < count; row++, out.first += out.row_step, in.first += in.row_step) {
        found of = {in.first, in.step, 0.0f, 0.0f, 0.0f};
        find(&of, n, kind, share, epsilon);
#define NORMALIZE(i, left)                                                                                             \
    store_run(centred(&of, i, left) * (floats)(of.r) * load_vector(&gain, i, left) + load_vector(&shift, i, left),     \
              out.first + (int)(i)*out.step, out.step, left)
        FOR_RUNS(n, NORMALIZE);
    }
}

#endif
#endif
