/*
 * Cross-entropy of a row of logits, and its gradient; the formulas stand in ops_sequence.h. Weights exp(z - max) are
 * made and added GROUP_BLOCK at a time, in the order of row_sum.h, then these sums: a term passes through at most 42 +
 * n / 1024 additions. Backward they are kept in the gradient's place until their sum is known. Cost of an element: a
 * comparison, an exponential and 2 flops, 4 bytes forward; 2 flops more and 8 bytes backward.
 */
#include "arithmetic/exponential.h"
#include "arithmetic/row_sum.h"
#include "backend/cpu/kernels/parts.h"

ALWAYS_INLINE real plain_sum(const real *x, size_t n){
#define VECTOR_TERM(i) VECTOR_AT(x + (i))
#define SCALAR_TERM(i) x[i]
    SUM_ROW(n, VECTOR_TERM, SCALAR_TERM)
#undef VECTOR_TERM
#undef SCALAR_TERM
}

/* The sum of n weights, which are left in `weights` [n], or [GROUP_BLOCK] where they are not kept. */
ALWAYS_INLINE real weigh(const real *z, size_t n, real largest, real *weights, const bool are_kept) {
    real sum = 0;

    for (size_t start = 0; start < n; start += GROUP_BLOCK) {
        const size_t left = n - start, count = left < GROUP_BLOCK ? left : GROUP_BLOCK;
        const real *from = z + start;
        real *to = are_kept ? weights + start : weights;
        INDEPENDENT for (size_t i = 0; i < count; i++) to[i] = weight_exponential(from[i] - largest, false);
        sum += plain_sum(to, count);
    }
    return sum;
}

/* Whether a number is that of one of n classes; then *index is it. */
ALWAYS_INLINE bool find_class(real number, size_t n, size_t *index) {
    if (!(number >= 0 && number < (real)n))
        return false;
    *index = (size_t)number;
    return (real)*index == number;
}

real KERNEL(cross_entropy)(const real *z, size_t n, real class_number) {
    const real largest = KERNEL(max_run)(z, n, 1);
    real weights[GROUP_BLOCK];
    size_t own;

    if (!find_class(class_number, n, &own))
        return (real)NAN;
    return REAL_LOG(weigh(z, n, largest, weights, false)) - (z[own] - largest);
}

void KERNEL(cross_entropy_backward)(const real *z, size_t n, real class_number, real d_loss, real *d_z) {
    const real largest = KERNEL(max_run)(z, n, 1), factor = d_loss / weigh(z, n, largest, d_z, true);
    size_t own;
    const bool is_class = find_class(class_number, n, &own);

    INDEPENDENT for (size_t i = 0; i < n; i++) d_z[i] = is_class ? factor * d_z[i] : (real)NAN;
    if (is_class)
        d_z[own] -= d_loss;
}
