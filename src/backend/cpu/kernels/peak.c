#include "backend/cpu/kernels/parts.h"

/* A vector is as wide as the instruction set's registers, if the build has vector types. */
#if defined(ICL_SCALAR)
#elif defined(__GNUC__) && defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__GNUC__) && defined(__AVX__)
#define VECTOR_BYTES 32
#elif defined(__GNUC__)
#define VECTOR_BYTES 16
#endif

#ifdef VECTOR_BYTES
typedef real vector __attribute__((vector_size(VECTOR_BYTES)));
#define WIDTH        (VECTOR_BYTES / sizeof(real))
#define ALL(value)   ((vector){0} + (value))
#define FIRST(value) ((value)[0])
#else
typedef real vector;
#define WIDTH        1
#define ALL(value)   (value)
#define FIRST(value) (value)
#endif

/* Enough chains to hide the latency of two units (4 or 5 cycles each), few enough for 16 registers. */
#define CHAINS 12
#define EACH_CHAIN(CHAIN)                                                                                              \
    CHAIN(0)                                                                                                           \
    CHAIN(1) CHAIN(2) CHAIN(3) CHAIN(4) CHAIN(5) CHAIN(6) CHAIN(7) CHAIN(8) CHAIN(9) CHAIN(10) CHAIN(11)

static real multiply_add(size_t rounds, real f, real g) {
    const vector factor = ALL(f), addend = ALL(g);
    vector sum = ALL((real)0);
#define BEGIN(i) vector x##i = ALL((real)(i));
#define STEP(i)  x##i = x##i * factor + addend;
#define ADD(i)   sum += x##i;
    EACH_CHAIN(BEGIN)
    for (size_t round = 0; round < rounds; round++) {
        EACH_CHAIN(STEP)
    }
    EACH_CHAIN(ADD)
#undef BEGIN
#undef STEP
#undef ADD
    return FIRST(sum);
}

static void triad(real *a, const real *b, const real *c, real s, size_t count) {
    for (size_t i = 0; i < count; i++)
        a[i] = b[i] + s * c[i];
}

const HOST(peak_kernels) KERNEL(peak) = {multiply_add, 2 * CHAINS *WIDTH, triad};
