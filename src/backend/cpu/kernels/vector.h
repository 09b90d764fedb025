/*
 * Vectors of the width that the instruction set holds in one register, as compilers of the GNU family spell them. Other
 * compilers get "vectors" of one element: the same source, the same bits.
 */
#ifndef ICLAB_BACKEND_CPU_VECTOR_H
#define ICLAB_BACKEND_CPU_VECTOR_H

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

#if defined(__GNUC__) || defined(__clang__)
#define DEFINE_VECTOR(name, type)                                                                            \
    typedef type name __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(type)), may_alias))
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#else
#define DEFINE_VECTOR(name, type) typedef type name
#define ALWAYS_INLINE             static inline
#endif

/* Loops that must unroll for their arrays to live in registers, loops that must not, and loops whose operands may coincide but
 * never overlap otherwise. */
#if defined(__clang__)
#define UNROLL        _Pragma("clang loop unroll(full)")
#define UNROLL_THRICE _Pragma("clang loop unroll_count(3)")
#define ROLLED        _Pragma("clang loop unroll(disable)")
#define INDEPENDENT   _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define UNROLL        _Pragma("GCC unroll 16")
#define UNROLL_THRICE _Pragma("GCC unroll 3")
#define ROLLED        _Pragma("GCC unroll 1")
#define INDEPENDENT   _Pragma("GCC ivdep")
#else
#define UNROLL
#define UNROLL_THRICE
#define ROLLED
#define INDEPENDENT
#endif

#endif
