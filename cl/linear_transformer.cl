/*
 * Linear transformers, fused: predictions, and the gradient of the squared error, in Gram space: from G = factor * Z^T Z over the
 * context and the query alone. linear_dense.h and linear_sparse.h say how.
 *
 * Index mapping: a unit is `per_unit` groups of LANES sequences. A team takes units TEAM, TEAM + TEAMS, … and writes the sum of
 * a unit's gradients to partial[unit]; linear_transformer_sum adds those up. What is summed with what depends on the batch and
 * LANES alone. Cost for each sequence: about 20 full D^3 + 100 heads^2 D^2 flops (dense); 4 D^2 bytes of a Gram matrix or 4 n D of
 * tokens read.
 */
#include "linear_plan.h"

#if FORM == FORM_SPARSE
#include "linear_sparse.h"
#else
#include "linear_dense.h"
#endif

/*
 * data: tokens [batch, rows + 1, D] or Gram matrices [batch, D, D], strides of sequence, row, column; query likewise. shape: batch,
 * rows of the context, D, groups of a unit. model: depth, layers, heads, full. layout: pitch, elements of a matrix, work
 * matrices, floats of STATE memory. parts: kept, parameters of P, of Q, pitch of a part in `shared`. scratch: scratch_length
 * floats for each team.
 */
__kernel void linear_transformer(__global float *predictions, uint predictions_offset, int predictions_stride,
                                 __global float *norms, uint norms_offset, int norms_stride,
                                 __global const float *parameters, uint parameters_offset,
                                 int parameters_stride, __global const float *data, uint data_offset,
                                 int4 data_stride, __global const float *query, uint query_offset,
                                 int4 query_stride, __global const float *targets, uint targets_offset,
                                 int targets_stride, __global const float *threshold, uint threshold_offset,
                                 uint4 shape, uint4 model, uint4 layout, uint4 parts, uint units, uint flags,
                                 float factor, __global float *partial, __global float *scratch,
                                 uint scratch_length
#if IN_LOCAL
                                 ,
                                 __local float *state
#endif
) {
    const uint batch = shape.s0;
    plan p;
#if LANES == 1
    __local float spare[TEAM_SIZE];
    p.spare = spare;
#endif
    p.size = shape.s2;
    p.depth = model.s0;
    p.heads = model.s2;
    p.full = model.s3;
    p.flags = flags;
    p.kept = parts.s0;
    p.count = 2 * p.heads;
    p.pitch = layout.s0;
    p.matrix = layout.s1;
    p.last = flags & FLAG_EXPAND ? p.depth - 1 : model.s1 - 1;
    p.shared_pitch = parts.s3;
    p.shared_length = FORM == FORM_DIAGONAL ? 2 : p.shared_pitch * p.shared_pitch;
    p.part_length = FORM == FORM_DIAGONAL ? 2 : p.kept * p.kept;
    p.parts = FORM == FORM_SPARSE ? p.depth : p.depth * p.heads * 2;
    p.pairs_count = 2 * p.heads + p.heads * p.count;
    const uint length = p.parts * p.part_length;
    __global float *free = scratch + (place)TEAM * scratch_length;
    p.shared = parameters + parameters_offset;
    if (flags & FLAG_EXPAND) {
        expand(&p, free, p.shared, parameters_stride, model.s1, parts.s12);
        p.shared = free;
        free += (p.parts * p.shared_length + 15) / 16 * 16;
    }
#if !IN_LOCAL
    __global float *state = free;
    free += layout.s3;
#endif
    lay_out(&p, state, layout.s2);
    __global float *own = free, *sums = free + (flags & FLAG_CLIP ? (place)length * LANES : 0);
    for (uint e = MEMBER; e < length && flags & FLAG_CLIP; e += MEMBERS)
        PUT((floats)(0.0f), own, e);

    for (uint unit = TEAM; unit < units; unit += TEAMS) {
#if LANES == 1
        sums = partial + (place)unit * length;
#endif
        p.gradient = flags & FLAG_CLIP ? own : sums;
        for (uint e = MEMBER; e < length && flags & FLAG_TRAIN; e += MEMBERS)
            PUT((floats)(0.0f), sums, e);
        MEET;
        for (uint group = 0; group < shape.s3; group++) {
            const uint first = (unit * shape.s3 + group) * LANES;
            if (first >= batch)
                break;
            const uint count = min(batch - first, (uint)LANES);
            floats target = (floats)(0.0f), prediction;
            take_group(&p, data + data_offset + (int)first * data_stride.s0, data_stride,
                       query + query_offset + (int)first * query_stride.s0, query_stride, count, shape.s1,
                       layout.s2 * (p.matrix / p.pitch), factor);
            if (flags & FLAG_TRAIN)
                target =
                    load_run(targets + targets_offset + (int)first * targets_stride, targets_stride, count);
            const floats norm = run_group(&p, target, &prediction);
            if (MEMBER == 0)
                store_run(prediction, predictions + predictions_offset + (int)first * predictions_stride,
                          predictions_stride, count);
            if (MEMBER == 0 && flags & FLAG_TRAIN)
                store_run(norm, norms + norms_offset + (int)first * norms_stride, norms_stride, count);
            if (flags & FLAG_CLIP)
                add_clipped(sums, own, length, norm, threshold[threshold_offset]);
        }
#if LANES > 1
        for (uint e = 0; e < length && flags & FLAG_TRAIN; e++)
            partial[(place)unit * length + e] = sum_lanes(AT(sums, e));
#endif
    }
}
