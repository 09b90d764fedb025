/*
 * The gradient of a batch from the sums that the units of linear_transformer left: gradient = (sum over units) / batch.
 *
 * partial: for each unit, for each layer in use (depth), each head and each part (P, Q), part_length elements, of which
 * the first p_size or q_size are parameters. Layers that are not in use get 0. With `shared_heads` there is one Q for
 * all heads, and no P.
 *
 * Index mapping on CPUs: unit = ((layer * heads + head) * 2 + part) * blocks + block, a block being LANES neighbours of
 * a part, and a work-item takes units. On GPUs a work-group takes a unit, whose block is ELEMENTS neighbours: it sums
 * SLICES slices of the partial sums side by side, and then these. Partial sums are added 32 at a time, and then these
 * sums: a term passes through 32 + units / 32 additions, and through 32 + units / (32 SLICES) + log2(SLICES) on GPUs.
 * Cost: `units` flops and 4 units bytes for each parameter.
 */
#include "../common.h"

#define AT_ONCE 32
#if LANES == 1
#define ELEMENTS 8
#define SLICES   8
#else
#define ELEMENTS LANES
#endif

/* Adds every `slices`th run of AT_ONCE partial sums of an element, from number `slice` on. */
static floats add_slice(__global const float *from, uint slice, uint slices, uint count, uint length) {
    floats sum = (floats)(0.0f);
    for (uint first = slice * AT_ONCE; first < count; first += slices * AT_ONCE) {
        floats some = (floats)(0.0f);
        if (LANES == 1 && first + AT_ONCE <= count) /* of known length, so that loads do not wait for one another */
            UNROLL for (uint i = 0; i < AT_ONCE; i++) some += LOAD_LANES(from + (first + i) * length);
        else
            for (uint i = first; i < min(count, first + AT_ONCE); i++)
                some += LOAD_LANES(from + i * length);
        sum += some;
    }
    return sum;
}

__kernel void linear_transformer_sum(__global float *gradient, uint gradient_offset, int gradient_stride,
                                     __global const float *partial, uint count, uint length, uint4 model,
                                     uint2 part_sizes, uint part_length, uint shared_heads, uint batch, uint blocks,
                                     uint2 units) {
    const uint depth = model.s0, layers = model.s1, heads = model.s2;
#if LANES == 1
    __local float sums[SLICES * ELEMENTS];
    for (uint unit = units.s0 + get_group_id(0); unit < units.s1; unit += get_num_groups(0)) {
#else
    FOR_EACH_UNIT(units) {
#endif
        const uint part = unit / blocks, at = (unit - part * blocks) * ELEMENTS;
        const uint which = part % 2, head = part / 2 % heads, layer = part / 2 / heads;
        const uint size = which == 0 ? part_sizes.s0 : part_sizes.s1;
        const uint row = layer + 1 < depth ? layer : layer + 1 == layers ? depth - 1 : depth;
        const uint from = (shared_heads ? row : (row * heads + head) * 2 + which) * part_length + at;
        const uint to = (layer * heads + head) * (part_sizes.s0 + part_sizes.s1) + which * part_sizes.s0 + at;
#if LANES == 1
        for (uint i = get_local_id(0); i < SLICES * ELEMENTS; i += get_local_size(0))
            sums[i] = row < depth && at + i % ELEMENTS < size
                          ? add_slice(partial + from + i % ELEMENTS, i / ELEMENTS, SLICES, count, length)
                          : 0.0f;
        for (uint half_ = SLICES / 2 * ELEMENTS; half_ >= ELEMENTS; half_ /= 2) {
            barrier(CLK_LOCAL_MEM_FENCE);
            for (uint i = get_local_id(0); i < half_; i += get_local_size(0))
                sums[i] += sums[i + half_];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint i = get_local_id(0); i < min((uint)ELEMENTS, size - min(at, size)); i += get_local_size(0))
            gradient[(int)gradient_offset + (int)(to + i) * gradient_stride] = sums[i] / (float)batch;
        barrier(CLK_LOCAL_MEM_FENCE);
#else
        if (at >= size)
            continue;
        const floats sum = row < depth ? add_slice(partial + from, 0, 1, count, length) : (floats)(0.0f);
        store_run(sum / (float)batch, gradient + gradient_offset + (int)to * gradient_stride, gradient_stride,
                  size - at);
#endif
    }
}
