/* Products and sums that round once, for truths that have no freedom. */
#ifndef ICLAB_CONFORMANCE_STRICT_H
#define ICLAB_CONFORMANCE_STRICT_H

static inline float icl_strict_product(float a, float b) {
    const volatile float rounded = a * b;
    return rounded;
}

static inline float icl_strict_sum(float a, float b) {
    const volatile float rounded = a + b;
    return rounded;
}

#endif
