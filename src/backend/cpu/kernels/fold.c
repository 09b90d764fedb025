/* The leaves of a reduction: LANES running values, then a tree over the lanes. */
#include "backend/cpu/kernels/parts.h"

#include "arithmetic/vector.h"

/* A NaN stays. */
#define COMBINE_SUM(x, y) ((x) + (y))
#define COMBINE_MAX(x, y) ((y) > (x) || (y) != (y) ? (y) : (x))
#define VALUE_PLAIN(x)    (x)
#define VALUE_SQUARE(x)   ((x) * (x))

/* Folds a short run from left to right, a long one through LANES running values and a tree over them. */
#define DEFINE_RUN(name, VALUE, COMBINE)                                                                               \
    ALWAYS_INLINE real name##_short(const real *x, size_t n, size_t stride) {                                          \
        real folded = VALUE(x[0]);                                                                                     \
        for (size_t i = 1; i < n; i++) {                                                                               \
            const real value = VALUE(x[i * stride]);                                                                   \
            folded = COMBINE(folded, value);                                                                           \
        }                                                                                                              \
        return folded;                                                                                                 \
    }                                                                                                                  \
    ALWAYS_INLINE real name##_long(const real *x, size_t n, size_t stride) {                                           \
        real lane[LANES];                                                                                              \
        size_t i = LANES;                                                                                              \
        for (size_t l = 0; l < LANES; l++)                                                                             \
            lane[l] = VALUE(x[l * stride]);                                                                            \
        for (; i + LANES <= n; i += LANES)                                                                             \
            for (size_t l = 0; l < LANES; l++) {                                                                       \
                const real value = VALUE(x[(i + l) * stride]);                                                         \
                lane[l] = COMBINE(lane[l], value);                                                                     \
            }                                                                                                          \
        for (size_t l = 0; i + l < n; l++) {                                                                           \
            const real value = VALUE(x[(i + l) * stride]);                                                             \
            lane[l] = COMBINE(lane[l], value);                                                                         \
        }                                                                                                              \
        for (size_t half = LANES / 2; half > 0; half /= 2)                                                             \
            for (size_t l = 0; l < half; l++)                                                                          \
                lane[l] = COMBINE(lane[l], lane[l + half]);                                                            \
        return lane[0];                                                                                                \
    }                                                                                                                  \
    real KERNEL(name)(const real *x, size_t n, size_t stride) {                                                        \
        if (n < LANES)                                                                                                 \
            return name##_short(x, n, stride);                                                                         \
        return stride == 1 ? name##_long(x, n, 1) : name##_long(x, n, stride);                                         \
    }

DEFINE_RUN(sum_run, VALUE_PLAIN, COMBINE_SUM)
DEFINE_RUN(squares_run, VALUE_SQUARE, COMBINE_SUM)
DEFINE_RUN(max_run, VALUE_PLAIN, COMBINE_MAX)

#define DEFINE_COLUMNS(name, VALUE, COMBINE)                                                                           \
    ALWAYS_INLINE void name##_of(const real *x, size_t rows, size_t row_stride, const size_t width, real *result) {    \
        real lane[LANES];                                                                                              \
        for (size_t l = 0; l < width; l++)                                                                             \
            lane[l] = VALUE(x[l]);                                                                                     \
        for (size_t row = 1; row < rows; row++)                                                                        \
            for (size_t l = 0; l < width; l++) {                                                                       \
                const real value = VALUE(x[row * row_stride + l]);                                                     \
                lane[l] = COMBINE(lane[l], value);                                                                     \
            }                                                                                                          \
        for (size_t l = 0; l < width; l++)                                                                             \
            result[l] = lane[l];                                                                                       \
    }                                                                                                                  \
    void KERNEL(name)(const real *x, size_t rows, size_t row_stride, size_t width, real *result) {                     \
        if (width == LANES)                                                                                            \
            name##_of(x, rows, row_stride, LANES, result);                                                             \
        else                                                                                                           \
            name##_of(x, rows, row_stride, width, result);                                                             \
    }

DEFINE_COLUMNS(sum_columns, VALUE_PLAIN, COMBINE_SUM)
DEFINE_COLUMNS(squares_columns, VALUE_SQUARE, COMBINE_SUM)
DEFINE_COLUMNS(max_columns, VALUE_PLAIN, COMBINE_MAX)
