/* The functions of the elementwise ops, by their kinds. */
#ifndef ICL_FUNCTIONS_H
#define ICL_FUNCTIONS_H
#include "../include/iclab/kinds.h"
#include "common.h"

/* The formula of each kind, unary_NAME: a row of the list that has none does not compile. */
#define UNARY(name, formula)                                                                                           \
    static floats unary_##name(floats x) {                                                                             \
        return formula;                                                                                                \
    }
UNARY(negate, -x)
UNARY(absolute, fabs(x))
UNARY(square, x *x)
UNARY(square_root, sqrt(x))
UNARY(reciprocal, (floats)(1.0f) / x)
UNARY(exponential, exp(x))
UNARY(logarithm, log(x))
UNARY(hyperbolic_tangent, tanh(x))
UNARY(sigmoid, (floats)(1.0f) / ((floats)(1.0f) + exp(-x)))
UNARY(relu, select(fmax(x, (floats)(0.0f)), x, isnan(x)))
UNARY(sign, select(select((floats)(0.0f), (floats)(1.0f), isgreater(x, (floats)(0.0f))),
                   select((floats)(-1.0f), x, isnan(x)), isless(x, (floats)(0.0f)) | isnan(x)))
UNARY(softplus, fmax(x, (floats)(0.0f)) + log1p(exp(-fabs(x))))

/* Returns x / (1 + exp(-2 w)), where w has x's sign, through h = exp(-|w|). The square of h is 0 only where the
 * result is, while exp(2 w) would be 0 earlier. x is limited, because -infinity times h would be NaN; the result
 * there is 0. */
static floats gated(floats x, floats w) {
    const floats h = exp(-fabs(w)), limited = select(x, (floats)(-2000.0f), isless(x, (floats)(-2000.0f)));
    return select(limited * h * h, x, isgreater(x, (floats)(0.0f))) / ((floats)(1.0f) + h * h);
}
static floats gelu_exponent(floats x) {
    return x * ((floats)(0.79788456080286536f) + (floats)(0.0356774081363001244f) * (x * x));
}
UNARY(silu, gated(x, (floats)(0.5f) * x))
UNARY(gelu, gated(x, gelu_exponent(x)))

/*
 * Returns the sine of x + shift pi / 2. With r = x - k pi / 2 in [-pi / 4, pi / 4] it is the sine or cosine of r, with
 * a sign. pi / 2 has four parts, the first three of 8 bits: their products with k are exact while k has 16 (Cody and
 * Waite 1980). Polynomials as in the Cephes library (Moshier). The built-in functions of drivers take another way for
 * numbers beside huge ones, and are off there. Beyond 1e5 r is limited, so that the result stays in [-1, 1].
 */
static floats turned(floats x, float shift) {
    const floats k = rint(x * (floats)(0.63661977236758134f));
    const floats near = ((x - k * (floats)(1.5703125f)) - k * (floats)(0.00048446655273437500f)) -
                        k * (floats)(-6.4074993133544922e-7f);
    const floats exact = near - k * (floats)(9.9209357968054044e-10f);
    const floats r = select(clamp(exact, (floats)(-1.0f), (floats)(1.0f)), exact, isnan(exact)), square = r * r;
    const floats sine = r + r * square *
                                ((floats)(-0.16666654611f) +
                                 square * ((floats)(0.0083321608736f) + square * (floats)(-0.00019515295891f)));
    const floats cosine = ((floats)(1.0f) - (floats)(0.5f) * square) +
                          square * square *
                              ((floats)(0.04166664568298827f) + square * ((floats)(-0.001388731625493765f) +
                                                                          square * (floats)(0.00002443315711809948f)));
    const floats quarters = k + (floats)(shift);
    const floats quarter = quarters - (floats)(4.0f) * floor((floats)(0.25f) * quarters);
    const floats size = select(sine, cosine, isequal(quarter, (floats)(1.0f)) | isequal(quarter, (floats)(3.0f)));
    return select(size, -size, isgreater(quarter, (floats)(1.5f)));
}
UNARY(sine, turned(x, 0.0f))
UNARY(cosine, turned(x, 1.0f))

static floats apply_unary(uint kind, floats x) {
#define CASE(kind, name, positive)                                                                                     \
    case kind:                                                                                                         \
        return unary_##name(x);
    switch (kind) {
        ICL_UNARY_KINDS(CASE)
    default:
        return x; /* The host asks for no other kind. */
    }
#undef CASE
}

#define BINARY(name, formula)                                                                                          \
    static floats binary_##name(floats a, floats b) {                                                                  \
        return formula;                                                                                                \
    }
BINARY(add, a + b)
BINARY(subtract, a - b)
BINARY(multiply, a *b)
BINARY(divide, a / b)
BINARY(maximum, select(fmax(a, b), a + b, isunordered(a, b)))
BINARY(minimum, select(fmin(a, b), a + b, isunordered(a, b)))
BINARY(equal, select((floats)(0.0f), (floats)(1.0f), isequal(a, b)))

/* Returns g d/dx (x s(z)) = g (s + x z' s (1 - s)), where s is the sigmoid and z = 2 w, through h as above: s = (1 or h
 * h) / (1 + h h) and s (1 - s) = h h / (1 + h h)^2. Both are exact beyond a limited x, where infinity times h would be
 * NaN. */
static floats limited(floats x) {
    return select(clamp(x, (floats)(-2000.0f), (floats)(2000.0f)), x, isnan(x));
}
static floats gated_slope(floats x, floats w, floats x_times_slope_of_z, floats g) {
    const floats h = exp(-fabs(w)), square = h * h, share = (floats)(1.0f) / ((floats)(1.0f) + square);
    const floats above = select(square, (floats)(1.0f), isgreater(x, (floats)(0.0f)));
    return g * ((above + x_times_slope_of_z * (square * share)) * share);
}
static floats gelu_slope(floats x, floats g) {
    const floats slope = (floats)(1.59576912160573072f) + (floats)(0.2140644488178007464f) * (x * x);
    return gated_slope(x, gelu_exponent(x), x * slope, g);
}
BINARY(silu_slope, gated_slope(limited(a), (floats)(0.5f) * limited(a), limited(a), b))
BINARY(gelu_slope, gelu_slope(limited(a), b))

static floats apply_binary(uint kind, floats a, floats b) {
#define CASE(kind, name)                                                                                               \
    case kind:                                                                                                         \
        return binary_##name(a, b);
    switch (kind) {
        ICL_BINARY_KINDS(CASE)
    default:
        return a;
    }
#undef CASE
}

#endif
