/* Loops that do nothing but measure the machine. Unlike every other kernel, they are compiled
 * with contraction: see meson.build. */
#ifndef ICLAB_BACKEND_CPU_KERNELS_PEAK_H
#define ICLAB_BACKEND_CPU_KERNELS_PEAK_H

#include "backend/cpu/kernels/kernels.h"

typedef struct HOST(peak_kernels) {
    /* Runs `rounds` rounds of independent chains x <- x f + g in registers, each round `flops` operations; the result
     * has no meaning. */
    real (*multiply_add)(size_t rounds, real f, real g);
    size_t flops;
    /* a = b + s c */
    void (*triad)(real *a, const real *b, const real *c, real s, size_t count);
} HOST(peak_kernels);

extern const HOST(peak_kernels) KERNEL(peak);

#endif
