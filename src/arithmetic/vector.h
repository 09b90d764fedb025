/* Vectors as wide as one register of the instruction set, in the notation of GNU compilers. Other compilers, and all in
 * a scalar build, get "vectors" of one element: the same source, and the bits of the instruction set `base`. */
#ifndef ICLAB_ARITHMETIC_VECTOR_H
#define ICLAB_ARITHMETIC_VECTOR_H

#if (defined(__GNUC__) || defined(__clang__)) && !defined(ICL_SCALAR)
#define HAS_VECTORS
#endif

#if defined(HAS_VECTORS) && defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(HAS_VECTORS) && defined(__AVX__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

#if defined(__SANITIZE_ADDRESS__)
#define IS_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED
#endif
#endif

#ifdef HAS_VECTORS
#define DEFINE_VECTOR(name, type)                                                                                      \
    typedef type name __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(type)), may_alias))
#else
#define DEFINE_VECTOR(name, type) typedef type name
#endif

/* Prefetches a cache line that will be read soon, or written; or later, then into the second cache, because the first
 * has no room for it. */
#if defined(__GNUC__) || defined(__clang__)
#define PREFETCH(address)          __builtin_prefetch(address)
#define PREFETCH_TO_WRITE(address) __builtin_prefetch(address, 1)
#define PREFETCH_LATER(address)    __builtin_prefetch(address, 0, 2)
#else
#define PREFETCH(address)          (void)(address)
#define PREFETCH_TO_WRITE(address) (void)(address)
#define PREFETCH_LATER(address)    (void)(address)
#endif

/* ALWAYS_INLINE: functions that must be inlined, because their constants must be known. OUT_OF_LINE: functions that
 * must not, so that the code of loops stays small. UNROLL: loops that must unroll for their arrays to live in
 * registers; ROLLED: loops that must not. INDEPENDENT: loops whose operands may coincide but not overlap otherwise.
 * Sanitizers put branches about each access, so that blocks of registers would compile for minutes: there the compiler
 * chooses. The bits are the same. */
#if (defined(__GNUC__) || defined(__clang__)) && !defined(IS_SANITIZED)
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#else
#define ALWAYS_INLINE static inline
#endif
#if defined(__GNUC__) || defined(__clang__)
#define OUT_OF_LINE static __attribute__((noinline, unused))
#else
#define OUT_OF_LINE static inline
#endif
#if defined(IS_SANITIZED)
#define UNROLL
#define UNROLL_THRICE
#define ROLLED
#define INDEPENDENT
#elif defined(__clang__)
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
