/*
 * Elementwise loops. Each kernel takes a rectangle with any strides; the layouts that matter (adjacent elements, one
 * operand repeated along the row) get loops of their own, which the compiler vectorises. The output may be an input.
 */
#include <string.h>

#include "arithmetic/exponential.h"
#include "arithmetic/vector.h"
#include "backend/cpu/kernels/parts.h"

/* ---- One input ---- */

/* Exponentials of arguments that are never above 0 are computed as those of attention's weights: without a branch, so
 * that loops become vector instructions. */

/* 1 / (1 + exp(-x)), computed from h = exp(-|x|), which is at most 1. */
ALWAYS_INLINE real gate(real x, real h) {
    return (x < 0 ? h : 1) / (1 + h);
}

/* The formula of each kind, unary_NAME. If a kind of the list has none, this file does not compile. */
#define UNARY(name, formula)                                                                                           \
    ALWAYS_INLINE real unary_##name(real x) {                                                                          \
        return formula;                                                                                                \
    }
UNARY(negate, -x)
UNARY(absolute, REAL_ABSOLUTE(x))
UNARY(square, x *x)
UNARY(square_root, REAL_SQRT(x))
UNARY(reciprocal, 1 / x)
UNARY(exponential, REAL_EXP(x))
UNARY(logarithm, REAL_LOG(x))
UNARY(hyperbolic_tangent, REAL_TANH(x))
UNARY(sigmoid, gate(x, plain_exponential(-REAL_ABSOLUTE(x))))
UNARY(relu, x <= 0 ? 0 : x) /* A NaN fails the comparison and stays. */
UNARY(sign, x > 0 ? 1 : x < 0 ? -1 : x)
UNARY(softplus, (x > 0 ? x : 0) + REAL_LOG1P(plain_exponential(-REAL_ABSOLUTE(x))))

/* x / (1 + exp(-2 w)), where w has the sign of x, computed from h = exp(-|w|): h h becomes 0 only if the result does,
 * but exp(2 w) would earlier. x is limited, because -infinity times h would be NaN; its result is 0. */
ALWAYS_INLINE real gated(real x, real w) {
    const real h = plain_exponential(-REAL_ABSOLUTE(w)), limited = x < -2000 ? -2000 : x;
    return (x > 0 ? x : limited * h * h) / (1 + h * h);
}
ALWAYS_INLINE real gelu_exponent(real x) {
    return x * ((real)0.79788456080286536 + (real)0.0356774081363001244 * (x * x));
}
UNARY(silu, gated(x, (real)0.5 * x))
UNARY(gelu, gated(x, gelu_exponent(x)))
UNARY(sine, REAL_SIN(x))
UNARY(cosine, REAL_COS(x))

#define UNARY_LOOP(formula, out_index, in_index)                                                                       \
    INDEPENDENT for (size_t i = 0; i < n; i++) {                                                                       \
        const real x = in[in_index];                                                                                   \
        out[out_index] = formula(x);                                                                                   \
    }

#define UNARY_BODY(formula)                                                                                            \
    const size_t n = tile->columns, out_step = tile->column_stride[0], in_step = tile->column_stride[1];               \
    for (size_t row = 0; row < tile->rows; row++) {                                                                    \
        real *out = (real *)elements[0] + row * tile->row_stride[0];                                                   \
        const real *in = (const real *)elements[1] + row * tile->row_stride[1];                                        \
        if (out_step == 1 && in_step == 1)                                                                             \
            UNARY_LOOP(formula, i, i)                                                                                  \
        else                                                                                                           \
            UNARY_LOOP(formula, i *out_step, i *in_step)                                                               \
    }

#define UNARY_KERNEL(kind, name, positive)                                                                             \
    void KERNEL(name)(const icl_tile *tile, void *const *elements, const void *params) {                               \
        (void)params;                                                                                                  \
        UNARY_BODY(unary_##name)                                                                                       \
    }
ICL_UNARY_KINDS(UNARY_KERNEL)

void KERNEL(scale)(const icl_tile *tile, void *const *elements, const void *params) {
    const real alpha = *(const real *)params;
#define SCALED(x) (alpha * (x))
    UNARY_BODY(SCALED)
}

void KERNEL(copy)(const icl_tile *tile, void *const *elements, const void *params) {
    (void)params;
#define ITSELF(x) (x)
    UNARY_BODY(ITSELF)
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

#define BINARY(name, formula)                                                                                          \
    ALWAYS_INLINE real binary_##name(real x, real y) {                                                                 \
        return formula;                                                                                                \
    }
BINARY(add, x + y)
BINARY(subtract, x - y)
BINARY(multiply, x *y)
BINARY(divide, x / y)
/* x if it is larger (or smaller) or NaN; else y, even if that is NaN. */
BINARY(maximum, x > y || x != x ? x : y)
BINARY(minimum, x < y || x != x ? x : y)
BINARY(equal, x == y ? 1 : 0)

/* g d/dx (x s(z)) = g (s + x z' s (1 - s)), with the sigmoid s, z = 2 w and h as above: s = (1 or h h) / (1 + h h) and
 * s (1 - s) = h h / (1 + h h)^2. x is limited, because infinity times h would be NaN; beyond the limits the result is
 * exact. */
ALWAYS_INLINE real limited(real x) {
    return x < -2000 ? -2000 : x > 2000 ? 2000 : x;
}
ALWAYS_INLINE real gated_slope(real x, real w, real x_times_slope_of_z, real g) {
    const real h = plain_exponential(-REAL_ABSOLUTE(w)), square = h * h, share = 1 / (1 + square);
    return g * (((x > 0 ? 1 : square) + x_times_slope_of_z * (square * share)) * share);
}
ALWAYS_INLINE real gelu_slope(real x, real g) {
    const real square = x * x;
    return gated_slope(x, gelu_exponent(x), x * ((real)1.59576912160573072 + (real)0.2140644488178007464 * square), g);
}
BINARY(silu_slope, gated_slope(limited(x), (real)0.5 * limited(x), limited(x), y))
BINARY(gelu_slope, gelu_slope(limited(x), y))

#define BINARY_LOOP(formula, out_index, a_index, b_index)                                                              \
    INDEPENDENT for (size_t i = 0; i < n; i++) {                                                                       \
        const real x = a[a_index], y = b[b_index];                                                                     \
        out[out_index] = formula(x, y);                                                                                \
    }

#define BINARY_BODY(formula)                                                                                           \
    const size_t n = tile->columns, out_step = tile->column_stride[0];                                                 \
    const size_t a_step = tile->column_stride[1], b_step = tile->column_stride[2];                                     \
    for (size_t row = 0; row < tile->rows; row++) {                                                                    \
        real *out = (real *)elements[0] + row * tile->row_stride[0];                                                   \
        const real *a = (const real *)elements[1] + row * tile->row_stride[1];                                         \
        const real *b = (const real *)elements[2] + row * tile->row_stride[2];                                         \
        if (out_step == 1 && a_step == 1 && b_step == 1)                                                               \
            BINARY_LOOP(formula, i, i, i)                                                                              \
        else if (out_step == 1 && a_step == 1 && b_step == 0)                                                          \
            BINARY_LOOP(formula, i, i, 0)                                                                              \
        else if (out_step == 1 && a_step == 0 && b_step == 1)                                                          \
            BINARY_LOOP(formula, i, 0, i)                                                                              \
        else                                                                                                           \
            BINARY_LOOP(formula, i *out_step, i *a_step, i *b_step)                                                    \
    }

#define BINARY_KERNEL(kind, name)                                                                                      \
    void KERNEL(name)(const icl_tile *tile, void *const *elements, const void *params) {                               \
        (void)params;                                                                                                  \
        BINARY_BODY(binary_##name)                                                                                     \
    }
ICL_BINARY_KINDS(BINARY_KERNEL)

void KERNEL(scale_add)(const icl_tile *tile, void *const *elements, const void *params) {
    const real alpha = ((const real *)params)[0], beta = ((const real *)params)[1];
#define SCALED_SUM(x, y) (alpha * (x) + beta * (y))
    BINARY_BODY(SCALED_SUM)
}

/* ---- Optimizer steps; the formulas stand in ops.h ---- */

ALWAYS_INLINE void adam_element(const HOST(adam_constants) * c, real keep, real *parameter, real *first, real *second,
                                real gradient) {
    const real m = c->beta1 * *first + c->one_minus_beta1 * gradient;
    const real v = c->beta2 * *second + c->one_minus_beta2 * (gradient * gradient);
    const real step = c->learning_rate * (m / c->correction1) / (REAL_SQRT(v / c->correction2) + c->epsilon);
    *parameter = keep * *parameter - step;
    *first = m;
    *second = v;
}

ALWAYS_INLINE void adam_tile(const icl_tile *tile, void *const *elements, const void *params, const bool masked) {
    const HOST(adam_constants) c = *(const HOST(adam_constants) *)params;
    for (size_t row = 0; row < tile->rows; row++) {
        real *at[5] = {0};
        const size_t *step = tile->column_stride;
        for (int i = 0; i < (masked ? 5 : 4); i++)
            at[i] = (real *)elements[i] + row * tile->row_stride[i];
        INDEPENDENT for (size_t i = 0; i < tile->columns; i++) {
            const real keep = masked && at[4][i * step[4]] == 0 ? 1 : c.keep;
            adam_element(&c, keep, at[0] + i * step[0], at[1] + i * step[1], at[2] + i * step[2],
                         c.factor * at[3][i * step[3]]);
        }
    }
}

void KERNEL(adam_step)(const icl_tile *tile, void *const *elements, const void *params) {
    adam_tile(tile, elements, params, false);
}

void KERNEL(adam_step_masked)(const icl_tile *tile, void *const *elements, const void *params) {
    adam_tile(tile, elements, params, true);
}

void KERNEL(sgd_step)(const icl_tile *tile, void *const *elements, const void *params) {
    const HOST(sgd_constants) c = *(const HOST(sgd_constants) *)params;
    for (size_t row = 0; row < tile->rows; row++) {
        real *parameter = (real *)elements[0] + row * tile->row_stride[0];
        real *velocity = (real *)elements[1] + row * tile->row_stride[1];
        const real *gradient = (const real *)elements[2] + row * tile->row_stride[2];
        INDEPENDENT for (size_t i = 0; i < tile->columns; i++) {
            real *v = velocity + i * tile->column_stride[1];
            *v = c.momentum * *v + c.factor * gradient[i * tile->column_stride[2]];
            parameter[i * tile->column_stride[0]] -= c.learning_rate * *v;
        }
    }
}
