/*
 * Normalization of rows, and its gradients; ops_sequence.h has the formulas. Each sum over a row runs in GROUP lanes,
 * BLOCK elements at a time, and through a tree over the lanes, whatever the width of a vector. The row is read from
 * memory once; further passes over it find it in the nearest cache. Cost of an element: 7 flops and 8 bytes forward, 18
 * and 12 backward with both gradients of parameters.
 */
#include "arithmetic/row_sum.h"
#include "backend/cpu/kernels/parts.h"

typedef HOST(norm) norm;

/* How a row's elements are normalized: to (x - first - mean) r. */
typedef struct statistics {
    real first, mean, r;
} statistics;

ALWAYS_INLINE real centred_sum(const real *x, size_t n, real first) {
    const vector firsts = vector_of(first);
#define VECTOR_TERM(i) (VECTOR_AT(x + (i)) - firsts)
#define SCALAR_TERM(i) (x[i] - first)
    SUM_ROW(n, VECTOR_TERM, SCALAR_TERM)
#undef VECTOR_TERM
#undef SCALAR_TERM
}

ALWAYS_INLINE vector centred_vector(const real *x, vector first, vector mean) {
    return VECTOR_AT(x) - first - mean;
}

ALWAYS_INLINE real centred_squares(const real *x, size_t n, const statistics *s) {
    const vector first = vector_of(s->first), mean = vector_of(s->mean);
#define VECTOR_TERM(i) square_vector(centred_vector(x + (i), first, mean))
#define SCALAR_TERM(i) square_scalar(x[i] - s->first - s->mean)
    SUM_ROW(n, VECTOR_TERM, SCALAR_TERM)
#undef VECTOR_TERM
#undef SCALAR_TERM
}

/* Computes first, mean and r. If the root is 0, r is 0, because what it multiplies is 0. */
ALWAYS_INLINE statistics statistics_of(const norm *layer, const real *x) {
    const real share = layer->kind == ICL_NORM_UNIT ? 1 : (real)layer->n;
    statistics s = {0, 0, 0};

    if (layer->kind == ICL_NORM_LAYER) {
        s.first = x[0];
        s.mean = centred_sum(x, layer->n, s.first) / share;
    }
    const real square = centred_squares(x, layer->n, &s) / share + layer->epsilon;
    s.r = square == 0 ? 0 : 1 / REAL_SQRT(square);
    return s;
}

void KERNEL(normalize)(const norm *layer, size_t rows, const real *in, size_t in_row, real *out, size_t out_row) {
    for (size_t row = 0; row < rows; row++, in += in_row, out += out_row) {
        const statistics s = statistics_of(layer, in);
        const vector first = vector_of(s.first), mean = vector_of(s.mean), r = vector_of(s.r);
        size_t i = 0;
        for (; i + WIDTH <= layer->n; i += WIDTH)
            VECTOR_TO(out + i) =
                centred_vector(in + i, first, mean) * r * VECTOR_AT(layer->gain + i) + VECTOR_AT(layer->shift + i);
        for (; i < layer->n; i++)
            out[i] = (in[i] - s.first - s.mean) * s.r * layer->gain[i] + layer->shift[i];
    }
}

/* ---- Backward ---- */

/* sum of g = d_out gain */
ALWAYS_INLINE real gradient_sum(const norm *layer, const real *d_out){
#define VECTOR_TERM(i) (VECTOR_AT(d_out + (i)) * VECTOR_AT(layer->gain + (i)))
#define SCALAR_TERM(i) (d_out[i] * layer->gain[i])
    SUM_ROW(layer->n, VECTOR_TERM, SCALAR_TERM)
#undef VECTOR_TERM
#undef SCALAR_TERM
}

/* sum of g (x - first - mean) */
ALWAYS_INLINE real gradient_product(const norm *layer, const statistics *s, const real *x, const real *d_out) {
    const vector first = vector_of(s->first), mean = vector_of(s->mean);
#define VECTOR_TERM(i) (VECTOR_AT(d_out + (i)) * VECTOR_AT(layer->gain + (i)) * centred_vector(x + (i), first, mean))
#define SCALAR_TERM(i) (d_out[i] * layer->gain[i] * (x[i] - s->first - s->mean))
    SUM_ROW(layer->n, VECTOR_TERM, SCALAR_TERM)
#undef VECTOR_TERM
#undef SCALAR_TERM
}

/* Computes d_in of a row; d_out y and d_out are added to of_gain and of_shift, unless these are NULL. */
ALWAYS_INLINE void row_backward(const norm *layer, const real *x, const real *d_out, real *d_in, real *of_gain,
                                real *of_shift, const bool is_summed) {
    const statistics s = statistics_of(layer, x);
    const real share = layer->kind == ICL_NORM_UNIT ? 1 : (real)layer->n;
    const real level = layer->kind == ICL_NORM_LAYER ? gradient_sum(layer, d_out) / share : 0;
    const real slope = gradient_product(layer, &s, x, d_out) * s.r / share;
    const vector first = vector_of(s.first), mean = vector_of(s.mean), r = vector_of(s.r);
    const vector levels = vector_of(level), slopes = vector_of(slope);
    size_t i = 0;

    for (; i + WIDTH <= layer->n; i += WIDTH) {
        const vector g = VECTOR_AT(d_out + i), y = centred_vector(x + i, first, mean) * r;
        VECTOR_TO(d_in + i) = r * (g * VECTOR_AT(layer->gain + i) - levels - y * slopes);
        if (is_summed) {
            VECTOR_TO(of_gain + i) = VECTOR_AT(of_gain + i) + g * y;
            VECTOR_TO(of_shift + i) = VECTOR_AT(of_shift + i) + g;
        }
    }
    for (; i < layer->n; i++) {
        const real y = (x[i] - s.first - s.mean) * s.r;
        d_in[i] = s.r * (d_out[i] * layer->gain[i] - level - y * slope);
        if (is_summed) {
            of_gain[i] += d_out[i] * y;
            of_shift[i] += d_out[i];
        }
    }
}

void KERNEL(normalize_backward)(const norm *layer, size_t rows, const real *in, size_t in_row, const real *d_out,
                                size_t d_out_row, real *d_in, size_t d_in_row, real *sums) {
    for (size_t row = 0; row < rows; row++) {
        const real *x = in + row * in_row, *g = d_out + row * d_out_row;
        if (sums)
            row_backward(layer, x, g, d_in + row * d_in_row, sums, sums + layer->n, true);
        else
            row_backward(layer, x, g, d_in + row * d_in_row, NULL, NULL, false);
    }
}
