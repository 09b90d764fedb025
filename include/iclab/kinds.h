/*
 * The kinds of ops, and the extents of the tables that some take. OpenCL kernels include this file, too, so that the
 * numbers are defined only once: it holds only what is valid both in C and in OpenCL C.
 *
 * A list has one row for each kind. The enumeration, the names and the tables of every backend follow from it.
 */
#ifndef ICLAB_KINDS_H
#define ICLAB_KINDS_H

/* How a random word becomes a value. */
typedef enum icl_distribution {
    ICL_UNIFORM = 0,     /* low + (high - low) * u, u = (word >> 8) * 2^-24 in [0, 1) */
    ICL_NORMAL,          /* mean 0, variance 1 */
    ICL_CHOICE,          /* one of `choice_count` values, equally likely: values[(word * choice_count) >> 32] */
    ICL_EXPONENTIAL_LAW, /* mean 1: -log((word + 1/2) / 2^32) */
    ICL_DISTRIBUTION_COUNT
} icl_distribution;

/* What icl_unary computes of each element x: enumerator, name, whether only positive x make sense (tests draw those of
 * the others from both signs). */
#define ICL_UNARY_KINDS(KIND)                                                                                          \
    KIND(ICL_NEGATE, negate, false)                                                                                    \
    KIND(ICL_ABSOLUTE, absolute, false)                                                                                \
    KIND(ICL_SQUARE, square, false)                                                                                    \
    KIND(ICL_SQUARE_ROOT, square_root, true)                                                                           \
    KIND(ICL_RECIPROCAL, reciprocal, false)                                                                            \
    KIND(ICL_EXPONENTIAL, exponential, false)                                                                          \
    KIND(ICL_LOGARITHM, logarithm, true)                                                                               \
    KIND(ICL_HYPERBOLIC_TANGENT, hyperbolic_tangent, false)                                                            \
    KIND(ICL_SIGMOID, sigmoid, false)   /* 1 / (1 + exp(-x)) */                                                        \
    KIND(ICL_RELU, relu, false)         /* max(x, 0); NaN stays NaN */                                                 \
    KIND(ICL_SIGN, sign, false)         /* -1, 0 or 1; NaN stays NaN */                                                \
    KIND(ICL_SOFTPLUS, softplus, false) /* log(1 + exp(x)) */                                                          \
    KIND(ICL_SILU, silu, false)         /* x / (1 + exp(-x)) */                                                        \
    KIND(ICL_GELU, gelu, false)         /* x / (1 + exp(-2 w)), w = sqrt(2 / pi) (x + 0.044715 x^3), as in GPT-2 */    \
    KIND(ICL_SINE, sine, false)         /* of radians; beyond 1e5 devices may give any number from -1 to 1 */          \
    KIND(ICL_COSINE, cosine, false)     /* likewise */

/* What icl_binary computes of each pair of elements: enumerator, name. */
#define ICL_BINARY_KINDS(KIND)                                                                                         \
    KIND(ICL_ADD, add)                                                                                                 \
    KIND(ICL_SUBTRACT, subtract)                                                                                       \
    KIND(ICL_MULTIPLY, multiply)                                                                                       \
    KIND(ICL_DIVIDE, divide)                                                                                           \
    KIND(ICL_MAXIMUM, maximum)       /* NaN if either is NaN */                                                        \
    KIND(ICL_MINIMUM, minimum)       /* NaN if either is NaN */                                                        \
    KIND(ICL_EQUAL, equal)           /* 1 where a == b, else 0 */                                                      \
    KIND(ICL_SILU_SLOPE, silu_slope) /* b times the derivative of SiLU at a, which is 0 and 1 at -+infinity */         \
    KIND(ICL_GELU_SLOPE, gelu_slope) /* likewise of GELU */

/* A row as an enumerator. */
#define ICL_UNARY_ENUMERATOR(kind, name, positive) kind,
#define ICL_BINARY_ENUMERATOR(kind, name)          kind,

/* The kinds of icl_unary. */
typedef enum icl_unary_kind { ICL_UNARY_KINDS(ICL_UNARY_ENUMERATOR) ICL_UNARY_COUNT } icl_unary_kind;

/* The kinds of icl_binary. */
typedef enum icl_binary_kind { ICL_BINARY_KINDS(ICL_BINARY_ENUMERATOR) ICL_BINARY_COUNT } icl_binary_kind;

/* What icl_reduce makes of the elements of the reduced axes. */
typedef enum icl_reduce_kind {
    ICL_SUM = 0,
    ICL_MEAN,   /* NaN if there are no elements */
    ICL_MAX,    /* -infinity if there are no elements; NaN if any element is NaN */
    ICL_ARGMAX, /* row-major index within the reduced axes of the first largest element, as a number; the
                           first NaN counts as largest; of nothing: -1 */
    ICL_SUM_OF_SQUARES,
    ICL_NORM, /* square root of the sum of squares */
    ICL_REDUCE_COUNT
} icl_reduce_kind;

/* Pieces of a quantile function as a piecewise polynomial, and the coefficients of each. */
#define ICL_CHI_PIECES 14
#define ICL_CHI_TERMS  8

#endif
