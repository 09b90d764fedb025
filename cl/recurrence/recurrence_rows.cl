/*
 * Outputs of the recurrence from the other side, o_t = scale S_t q_t, from the states at the beginnings of segments and
 * the reads p_t, which the usual forward pass has left. With p known a row of the state meets no other row:
 *
 *     s = f_ti s + k_ti u_t + w_ti x_t,   o_ti = scale s . q_t,   u = beta (v - p), or u = -beta p and x = beta v
 *
 * the latter with a written key of its own (ops_recurrence.h).
 *
 * Index mapping: unit = ((batch * heads + head) * segments + segment) * m + i. A unit is row i of the state in one
 * segment, four columns at a time, with the segment's outputs, factors and keys in private memory. Units of one segment
 * read the same rows of q, v and p.
 *
 * Cost of a token and row: 4 n flops, n more with decay and 2 n with a written key; of memory 4 (n / 32 + 4) bytes of
 * its own, and the shared rows of q, v and p from the cache.
 */
#include "recurrence.h"

/* Returns elements j to j + 3 of a row; those from n on are 0. */
static float4 four_of_row(__global const float *row, int stride, uint j, uint n) {
    return (float4)(row[(int)j * stride], j + 1 < n ? row[(int)(j + 1) * stride] : 0.0f,
                    j + 2 < n ? row[(int)(j + 2) * stride] : 0.0f, j + 3 < n ? row[(int)(j + 3) * stride] : 0.0f);
}

__kernel void recurrence_rows(OUTPUT(out), INPUT(reads), INPUT(states), INPUT(q), INPUT(k), INPUT(v), INPUT(beta),
                              INPUT(decay), INPUT(write_key), uint4 sizes, uint present, float scale, uint segments,
                              uint2 units) {
    const uint m = sizes.s2, n = sizes.s3;
    FOR_EACH_UNIT(units) {
        const uint i = unit % m, part = unit / m, head = part / segments, b = head / sizes.s0, h = head - b * sizes.s0;
        const uint first = (part - head * segments) * SEGMENT, count = min((uint)SEGMENT, sizes.s1 - first);
        __global const float *state = AT(states, b, h) + TOKEN(states, first / SEGMENT * m + i);
        float sums[SEGMENT], keys[SEGMENT];
#if DECAY != NO_DECAY
        float factors[SEGMENT];
#endif
#if WRITE_KEY
        float writes[SEGMENT];
#endif
        for (uint t = 0; t < count; t++) {
            sums[t] = 0.0f;
            keys[t] = AT(k, b, h)[ELEMENT(k, first + t, i)];
#if DECAY == CHANNEL_DECAY
            factors[t] = exp(AT(decay, b, h)[ELEMENT(decay, first + t, i)]);
#elif DECAY == SCALAR_DECAY
            factors[t] = exp(AT(decay, b, h)[TOKEN(decay, first + t)]);
#endif
#if WRITE_KEY
            writes[t] = AT(write_key, b, h)[ELEMENT(write_key, first + t, i)];
#endif
        }
        for (uint j = 0; j < n; j += 4) {
            float4 s = four_of_row(state, states_stride.s3, j, n);
            for (uint t = 0; t < count; t++) {
                const float strength = present & HAS_BETA ? AT(beta, b, h)[TOKEN(beta, first + t)] : 1.0f;
                const float4 value = four_of_row(AT(v, b, h) + TOKEN(v, first + t), v_stride.s3, j, n);
                const float4 asked = four_of_row(AT(q, b, h) + TOKEN(q, first + t), q_stride.s3, j, n);
#if DECAY != NO_DECAY
                s *= (float4)(factors[t]);
#endif
#if DELTA
                const float4 read = four_of_row(AT(reads, b, h) + TOKEN(reads, first + t), reads_stride.s3, j, n);
#if WRITE_KEY
                s = MULTIPLY_ADD((float4)(keys[t]), (float4)(-strength) * read, s);
                s = MULTIPLY_ADD((float4)(writes[t]), (float4)(strength)*value, s);
#else
                s = MULTIPLY_ADD((float4)(keys[t]), (float4)(strength) * (value - read), s);
#endif
#else
                s = MULTIPLY_ADD((float4)(keys[t]), (float4)(strength)*value, s);
#endif
                const float4 product = s * asked;
                sums[t] += (product.s0 + product.s1) + (product.s2 + product.s3);
            }
        }
        for (uint t = 0; t < count; t++)
            AT(out, b, h)[ELEMENT(out, first + t, i)] = scale * sums[t];
    }
}
