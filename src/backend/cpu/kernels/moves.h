/* Moves of 1 to LANES elements. */
#ifndef ICLAB_BACKEND_CPU_KERNELS_MOVES_H
#define ICLAB_BACKEND_CPU_KERNELS_MOVES_H

#include <string.h>

#include "arithmetic/real.h"
#include "arithmetic/vector.h"

#if VECTOR_BYTES == 64
#include <immintrin.h>

/* Masked moves touch exactly the elements that are there. */
#if ICL_CPU_DOUBLE
#define MASK(count) ((__mmask8)((1u << (count)) - 1))

ALWAYS_INLINE void pad_lanes(real *to, const real *from, size_t count) {
    const size_t low = count < 8 ? count : 8;
    _mm512_storeu_pd(to, _mm512_maskz_loadu_pd(MASK(low), from));
    _mm512_storeu_pd(to + 8, _mm512_maskz_loadu_pd(MASK(count - low), from + low));
}

ALWAYS_INLINE void copy_lanes(real *to, const real *from, size_t count) {
    const size_t low = count < 8 ? count : 8;
    _mm512_mask_storeu_pd(to, MASK(low), _mm512_loadu_pd(from));
    _mm512_mask_storeu_pd(to + low, MASK(count - low), _mm512_loadu_pd(from + 8));
}
#else
#define MASK(count) ((__mmask16)((1u << (count)) - 1))

/* Copies count elements to `to` [LANES], and fills it up with zeros. */
ALWAYS_INLINE void pad_lanes(real *to, const real *from, size_t count) {
    _mm512_storeu_ps(to, _mm512_maskz_loadu_ps(MASK(count), from));
}

/* Copies the first `count` elements of from [LANES]. */
ALWAYS_INLINE void copy_lanes(real *to, const real *from, size_t count) {
    _mm512_mask_storeu_ps(to, MASK(count), _mm512_loadu_ps(from));
}
#endif

#else

/* Two overlapping moves of a fixed size beat a loop or a call. */
ALWAYS_INLINE void copy_lanes(real *to, const real *from, size_t count) {
    if (count >= 8) {
        real head[8], tail[8];
        memcpy(head, from, sizeof head);
        memcpy(tail, from + count - 8, sizeof tail);
        memcpy(to, head, sizeof head);
        memcpy(to + count - 8, tail, sizeof tail);
    } else if (count >= 4) {
        real head[4], tail[4];
        memcpy(head, from, sizeof head);
        memcpy(tail, from + count - 4, sizeof tail);
        memcpy(to, head, sizeof head);
        memcpy(to + count - 4, tail, sizeof tail);
    } else {
        for (size_t i = 0; i < count; i++)
            to[i] = from[i];
    }
}

ALWAYS_INLINE void pad_lanes(real *to, const real *from, size_t count) {
    memset(to, 0, LANES * sizeof *to);
    copy_lanes(to, from, count);
}

#endif

#endif
