/*
 * Elementwise loops. Each kernel takes a rectangle with any strides; the layouts that matter (adjacent elements, one
 * operand repeated along the row) get loops of their own, which the compiler vectorises. The output may be an input.
 */
#include "backend/cpu/kernels/parts.h"

#include <string.h>

#include "backend/cpu/kernels/vector.h"

/* ---- One input ---- */

#define UNARY_LOOP(out_index, in_index)                                                                                \
    INDEPENDENT for (size_t i = 0; i < n; i++) {                                                                       \
        const real x = in[in_index];                                                                                   \
        out[out_index] = EXPRESSION(x);                                                                                \
    }

#define UNARY_BODY                                                                                                     \
    const size_t n = tile->columns, out_step = tile->column_stride[0], in_step = tile->column_stride[1];               \
    for (size_t row = 0; row < tile->rows; row++) {                                                                    \
        real *out = (real *)elements[0] + row * tile->row_stride[0];                                                   \
        const real *in = (const real *)elements[1] + row * tile->row_stride[1];                                        \
        if (out_step == 1 && in_step == 1)                                                                             \
            UNARY_LOOP(i, i)                                                                                           \
        else                                                                                                           \
            UNARY_LOOP(i *out_step, i *in_step)                                                                        \
    }

#define DEFINE_UNARY(name)                                                                                             \
    void KERNEL(name)(const icl_tile *tile, void *const *elements, const void *params) {                               \
        (void)params;                                                                                                  \
        UNARY_BODY                                                                                                     \
    }

#define EXPRESSION(x) (-(x))
DEFINE_UNARY(negate)
#undef EXPRESSION
#define EXPRESSION(x) REAL_ABSOLUTE(x)
DEFINE_UNARY(absolute)
#undef EXPRESSION
#define EXPRESSION(x) ((x) * (x))
DEFINE_UNARY(square)
#undef EXPRESSION
#define EXPRESSION(x) REAL_SQRT(x)
DEFINE_UNARY(square_root)
#undef EXPRESSION
#define EXPRESSION(x) (1 / (x))
DEFINE_UNARY(reciprocal)
#undef EXPRESSION
#define EXPRESSION(x) REAL_EXP(x)
DEFINE_UNARY(exponential)
#undef EXPRESSION
#define EXPRESSION(x) REAL_LOG(x)
DEFINE_UNARY(logarithm)
#undef EXPRESSION
#define EXPRESSION(x) REAL_TANH(x)
DEFINE_UNARY(hyperbolic_tangent)
#undef EXPRESSION
#define EXPRESSION(x) (1 / (1 + REAL_EXP(-(x))))
DEFINE_UNARY(sigmoid)
#undef EXPRESSION
/* A NaN fails the comparison and stays. */
#define EXPRESSION(x) ((x) <= 0 ? 0 : (x))
DEFINE_UNARY(relu)
#undef EXPRESSION
#define EXPRESSION(x) ((x) > 0 ? 1 : (x) < 0 ? -1 : (x))
DEFINE_UNARY(sign)
#undef EXPRESSION

void KERNEL(scale)(const icl_tile *tile, void *const *elements, const void *params) {
    const real alpha = *(const real *)params;
#define EXPRESSION(x) (alpha * (x))
    UNARY_BODY
#undef EXPRESSION
}

void KERNEL(copy)(const icl_tile *tile, void *const *elements, const void *params) {
    (void)params;
#define EXPRESSION(x) (x)
    UNARY_BODY
#undef EXPRESSION
}

void KERNEL(fill)(const icl_tile *tile, void *const *elements, const void *params) {
    const real value = *(const real *)params;
    for (size_t row = 0; row < tile->rows; row++) {
        real *out = (real *)elements[0] + row * tile->row_stride[0];
        for (size_t i = 0; i < tile->columns; i++)
            out[i * tile->column_stride[0]] = value;
    }
}

/* ---- Two inputs ---- */

#define BINARY_LOOP(out_index, a_index, b_index)                                                                       \
    INDEPENDENT for (size_t i = 0; i < n; i++) {                                                                       \
        const real x = a[a_index], y = b[b_index];                                                                     \
        out[out_index] = EXPRESSION(x, y);                                                                             \
    }

#define BINARY_BODY                                                                                                    \
    const size_t n = tile->columns, out_step = tile->column_stride[0];                                                 \
    const size_t a_step = tile->column_stride[1], b_step = tile->column_stride[2];                                     \
    for (size_t row = 0; row < tile->rows; row++) {                                                                    \
        real *out = (real *)elements[0] + row * tile->row_stride[0];                                                   \
        const real *a = (const real *)elements[1] + row * tile->row_stride[1];                                         \
        const real *b = (const real *)elements[2] + row * tile->row_stride[2];                                         \
        if (out_step == 1 && a_step == 1 && b_step == 1)                                                               \
            BINARY_LOOP(i, i, i)                                                                                       \
        else if (out_step == 1 && a_step == 1 && b_step == 0)                                                          \
            BINARY_LOOP(i, i, 0)                                                                                       \
        else if (out_step == 1 && a_step == 0 && b_step == 1)                                                          \
            BINARY_LOOP(i, 0, i)                                                                                       \
        else                                                                                                           \
            BINARY_LOOP(i *out_step, i *a_step, i *b_step)                                                             \
    }

#define DEFINE_BINARY(name)                                                                                            \
    void KERNEL(name)(const icl_tile *tile, void *const *elements, const void *params) {                               \
        (void)params;                                                                                                  \
        BINARY_BODY                                                                                                    \
    }

#define EXPRESSION(x, y) ((x) + (y))
DEFINE_BINARY(add)
#undef EXPRESSION
#define EXPRESSION(x, y) ((x) - (y))
DEFINE_BINARY(subtract)
#undef EXPRESSION
#define EXPRESSION(x, y) ((x) * (y))
DEFINE_BINARY(multiply)
#undef EXPRESSION
#define EXPRESSION(x, y) ((x) / (y))
DEFINE_BINARY(divide)
#undef EXPRESSION
/* x where it is larger or NaN; else y, NaN or not. */
#define EXPRESSION(x, y) ((x) > (y) || (x) != (x) ? (x) : (y))
DEFINE_BINARY(maximum)
#undef EXPRESSION
#define EXPRESSION(x, y) ((x) < (y) || (x) != (x) ? (x) : (y))
DEFINE_BINARY(minimum)
#undef EXPRESSION
#define EXPRESSION(x, y) ((x) == (y) ? 1 : 0)
DEFINE_BINARY(equal)
#undef EXPRESSION

void KERNEL(scale_add)(const icl_tile *tile, void *const *elements, const void *params) {
    const real alpha = ((const real *)params)[0], beta = ((const real *)params)[1];
#define EXPRESSION(x, y) (alpha * (x) + beta * (y))
    BINARY_BODY
#undef EXPRESSION
}
