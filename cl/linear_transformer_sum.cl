/*
 * The gradient of a batch from the sums that the units of linear_transformer left: gradient = (sum over units) / batch.
 *
 * partial: for each unit, for each layer in use (depth), each head and each part (P, Q), part_length elements, of which the
 * first p_size or q_size are parameters. Layers that are not in use get 0. With `shared_heads` there is one Q for all heads, and no P.
 *
 * Index mapping: unit = ((layer * heads + head) * 2 + part) * blocks + block, a block being LANES neighbours of a part. Units are
 * added 32 at a time, and then these sums: a term passes through 32 + units / 32 additions. Cost: `units` flops and 4 units bytes
 * for each parameter.
 */
#include "common.h"

#define AT_ONCE 32

__kernel void linear_transformer_sum(__global float *gradient, uint gradient_offset, int gradient_stride,
                                     __global const float *partial, uint count, uint length, uint4 model,
                                     uint2 part_sizes, uint part_length, uint shared_heads, uint batch,
                                     uint blocks, uint2 units) {
    const uint depth = model.s0, layers = model.s1, heads = model.s2;
    FOR_EACH_UNIT(units) {
        const uint part = unit / blocks, at = (unit - part * blocks) * LANES;
        const uint which = part % 2, head = part / 2 % heads, layer = part / 2 / heads;
        const uint size = which == 0 ? part_sizes.s0 : part_sizes.s1;
        const uint row = layer + 1 < depth ? layer : layer + 1 == layers ? depth - 1 : depth;
        const uint from = (shared_heads ? row : (row * heads + head) * 2 + which) * part_length + at;
        const uint to = (layer * heads + head) * (part_sizes.s0 + part_sizes.s1) + which * part_sizes.s0 + at;
        floats sum = (floats)(0.0f);
        if (at >= size)
            continue;
        for (uint first = 0; first < count && row < depth; first += AT_ONCE) {
            floats some = (floats)(0.0f);
            for (uint i = first; i < min(count, first + AT_ONCE); i++)
                some += LOAD_LANES(partial + i * length + from);
            sum += some;
        }
        store_run(sum / (float)batch, gradient + gradient_offset + (int)to * gradient_stride, gradient_stride,
                  size - at);
    }
}
