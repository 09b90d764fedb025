/*
 * Cross-entropy of rows of logits, and its gradient; the formulas stand in ops_sequence.h.
 *
 * Index mapping: on CPUs a unit is a row; on GPUs a work-group takes 64 / team rows, a team of neighbours a row each,
 * which shares maximum and sum through local memory (256 bytes). Backward the weights are kept in the gradient's place.
 * Long rows of GPUs are cut into chunks, of which a work-group each finds maxima and then sums; a third launch joins
 * the sums of a row, or takes the gradient of a chunk, whose weights it computes again.
 * Cost of a logit: a comparison, an exponential and 2 flops, 8 bytes forward, of which the second 4 come from a cache
 * where the row fits; 2 flops more and 12 to 20 bytes backward, and an exponential more in long rows.
 */
#include "rows.h"

/* Whether the number is that of one of n classes. If it is, *index is set to it. */
static int find_class(float number, uint n, uint *index) {
    if (!(number >= 0.0f && number < convert_float(n)))
        return 0;
    *index = (uint)number;
    return convert_float(*index) == number;
}

#if LANES > 1

/* A row in memory, and its largest element. */
typedef struct row_of {
    __global const float *z;
    int stride;
    uint n;
    float largest;
} row_of;

/* Loads elements from i on, of which `left` exist; beyond the row's end it repeats the first. */
static floats value(const row_of *row, uint i, uint left) {
    const floats z = load_run(row->z + (int)i * row->stride, row->stride, left);
    return left >= LANES ? z : select((floats)(row->z[0]), z, LANE_NUMBERS < (uints)(left));
}

static floats weight(const row_of *row, uint i, uint left) {
    return existing(exp(value(row, i, left) - (floats)(row->largest)), left);
}

static row_of find(__global const float *z, int stride, uint n) {
    row_of row = {z, stride, n, 0.0f};
#define VALUE(i) value(&row, i, n - (i))
    MAX_ROW(row.largest, n, z[0], VALUE);
    return row;
}

__kernel void cross_entropy_lanes(__global float *losses, uint losses_offset, int4 losses_stride,
                                  __global const float *logits, uint logits_offset, int4 logits_stride,
                                  __global const float *classes, uint classes_offset, int4 classes_stride, uint4 shape,
                                  uint2 units) {
    FOR_EACH_UNIT(units) {
        const int4 at = row_position(unit, shape);
        const row_of row = find(logits + logits_offset + dot_position(at, logits_stride), logits_stride.s3, shape.s3);
        float sum, loss = NAN;
        uint own = 0;
#define WEIGHT(i, left) weight(&row, i, left)
        SUM_ROW(sum, shape.s3, WEIGHT);
        if (find_class(classes[classes_offset + dot_position(at, classes_stride)], shape.s3, &own))
            loss = log(sum) - (row.z[(int)own * row.stride] - row.largest);
        losses[losses_offset + dot_position(at, losses_stride)] = loss;
    }
}

__kernel void cross_entropy_backward_lanes(__global float *d_logits, uint d_logits_offset, int4 d_logits_stride,
                                           __global const float *d_losses, uint d_losses_offset, int4 d_losses_stride,
                                           __global const float *logits, uint logits_offset, int4 logits_stride,
                                           __global const float *classes, uint classes_offset, int4 classes_stride,
                                           uint4 shape, uint2 units) {
    const uint n = shape.s3;
    const int step = d_logits_stride.s3;
    FOR_EACH_UNIT(units) {
        const int4 at = row_position(unit, shape);
        __global float *to = d_logits + d_logits_offset + dot_position(at, d_logits_stride);
        const row_of row = find(logits + logits_offset + dot_position(at, logits_stride), logits_stride.s3, n);
        const float d_loss = d_losses[d_losses_offset + dot_position(at, d_losses_stride)];
        uint own = 0;
        const int is_class = find_class(classes[classes_offset + dot_position(at, classes_stride)], n, &own);
        float sum;
        for (uint i = 0; i < n; i += LANES)
            store_run(weight(&row, i, n - i), to + (int)i * step, step, n - i);
#define KEPT(i, left) load_run(to + (int)(i)*step, step, left)
        SUM_ROW(sum, n, KEPT);
        const float factor = is_class ? d_loss / sum : NAN;
        for (uint i = 0; i < n; i += LANES)
            store_run((floats)(factor)*KEPT(i, n - i), to + (int)i * step, step, n - i);
        if (is_class)
            to[(int)own * step] -= d_loss;
    }
}

#else

/* Afterwards these are in scope: z, the team's row; `count`, its elements (0 for a team without a row); its largest
 * element. */
#define FIND_ROW                                                                                                       \
    const uint member = get_local_id(0) % team, row = unit * (GROUP / team) + get_local_id(0) / team;                  \
    const uint count = row < rows ? shape.s3 : 0;                                                                      \
    const int4 at = row_position(min(row, rows - 1), shape);                                                           \
    __global const float *z = logits + logits_offset + dot_position(at, logits_stride);                                \
    float most = z[0];                                                                                                 \
    for (uint i = member; i < count; i += team)                                                                        \
        most = fmax(most, z[(int)i * logits_stride.s3]);                                                               \
    const float largest = largest_of_team(local_sums, member, team, most);                                             \
    const float number = classes[classes_offset + dot_position(at, classes_stride)];                                   \
    uint own = 0;                                                                                                      \
    const int is_class = find_class(number, shape.s3, &own);                                                           \
    float sum;

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void
cross_entropy_teams(__global float *losses, uint losses_offset, int4 losses_stride, __global const float *logits,
                    uint logits_offset, int4 logits_stride, __global const float *classes, uint classes_offset,
                    int4 classes_stride, uint4 shape, uint rows, uint team, uint2 units) {
    __local float local_sums[GROUP];
    FOR_EACH_GROUP(unit, units) {
        FIND_ROW
#define WEIGHT(i)       exp(z[(int)(i)*logits_stride.s3] - largest)
        SUM_ROW(sum, count, WEIGHT);
        if (member == 0 && row < rows)
            losses[losses_offset + dot_position(at, losses_stride)] =
                is_class ? log(sum) - (z[(int)own * logits_stride.s3] - largest) : NAN;
    }
}

/* A member reads only what it wrote to d_logits itself. */
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void
cross_entropy_backward_teams(__global float *d_logits, uint d_logits_offset, int4 d_logits_stride,
                             __global const float *d_losses, uint d_losses_offset, int4 d_losses_stride,
                             __global const float *logits, uint logits_offset, int4 logits_stride,
                             __global const float *classes, uint classes_offset, int4 classes_stride, uint4 shape,
                             uint rows, uint team, uint2 units) {
    __local float local_sums[GROUP];
    const int step = d_logits_stride.s3;
    FOR_EACH_GROUP(unit, units) {
        FIND_ROW
        __global float *to = d_logits + d_logits_offset + dot_position(at, d_logits_stride);
        const float d_loss = d_losses[d_losses_offset + dot_position(at, d_losses_stride)];
        for (uint i = member; i < count; i += team)
            to[(int)i * step] = WEIGHT(i);
#define KEPT(i)         to[(int)(i)*step]
        SUM_ROW(sum, count, KEPT);
        const float factor = is_class ? d_loss / sum : NAN;
        for (uint i = member; i < count; i += team) {
            const float slope = factor * KEPT(i);
            to[(int)i * step] = is_class && i == own ? slope - d_loss : slope;
        }
    }
}

/* ---- Long rows ---- */

/* A work-item takes elements GROUP apart. Those beyond the chunk are taken for the last one, so that a load depends on
 * nothing and eight at a time are under way. */
#define EIGHT_AT_A_TIME _Pragma("unroll 8")

/* A chunk of a row, which starts at z; its row's position and number. */
typedef struct chunk_of_row {
    __global const float *z;
    int4 at;
    uint row, first, count;
} chunk_of_row;

static chunk_of_row find_chunk(uint unit, __global const float *logits, int4 stride, uint4 shape, uint2 chunks) {
    chunk_of_row of;
    of.row = unit / chunks.s1;
    of.first = (unit - of.row * chunks.s1) * chunks.s0;
    of.count = min(chunks.s0, shape.s3 - of.first);
    of.at = row_position(of.row, shape);
    of.z = logits + dot_position(of.at, stride) + (int)of.first * stride.s3;
    return of;
}

static float largest_of_parts(__local float *local_sums, __global const float *maxima, uint chunks) {
    float most = maxima[0];
    for (uint i = get_local_id(0); i < chunks; i += GROUP)
        most = fmax(most, maxima[i]);
    return largest_of_team(local_sums, get_local_id(0), GROUP, most);
}

static float sum_of_parts(__local float *local_sums, __global const float *sums, uint chunks) {
    const uint member = get_local_id(0), team = GROUP;
    float sum;
#define PART(i)         sums[i]
    SUM_ROW(sum, chunks, PART);
    return sum;
}

/* chunks: elements of a chunk, and chunks of a row. parts [2][rows][chunks]: maxima, and sums of weights. */
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void
cross_entropy_maxima(__global float *parts, __global const float *logits, uint logits_offset, int4 logits_stride,
                     uint4 shape, uint2 chunks, uint2 units) {
    __local float local_sums[GROUP];
    FOR_EACH_GROUP(unit, units) {
        const chunk_of_row of = find_chunk(unit, logits + logits_offset, logits_stride, shape, chunks);
        float most = of.z[0];
        for (uint i = get_local_id(0); i < of.count; i += ROUNDS * GROUP) {
            EIGHT_AT_A_TIME for (uint k = 0; k < ROUNDS; k++) most =
                fmax(most, of.z[(int)min(i + k * GROUP, of.count - 1) * logits_stride.s3]);
        }
        most = largest_of_team(local_sums, get_local_id(0), GROUP, most);
        if (get_local_id(0) == 0)
            parts[unit] = most;
    }
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void
cross_entropy_sums(__global float *parts, __global const float *logits, uint logits_offset, int4 logits_stride,
                   uint4 shape, uint2 chunks, uint2 units, uint rows) {
    __local float local_sums[GROUP];
    FOR_EACH_GROUP(unit, units) {
        const chunk_of_row of = find_chunk(unit, logits + logits_offset, logits_stride, shape, chunks);
        const float largest = largest_of_parts(local_sums, parts + of.row * chunks.s1, chunks.s1);
        float sum = 0.0f;
        for (uint i = get_local_id(0); i < of.count; i += ROUNDS * GROUP) {
            float some = 0.0f;
            EIGHT_AT_A_TIME for (uint k = 0; k < ROUNDS; k++) {
                const uint at = i + k * GROUP;
                const float weight = exp(of.z[(int)min(at, of.count - 1) * logits_stride.s3] - largest);
                some += at < of.count ? weight : 0.0f;
            }
            sum += some;
        }
        sum = add_team(local_sums, get_local_id(0), GROUP, sum);
        if (get_local_id(0) == 0)
            parts[rows * chunks.s1 + unit] = sum;
    }
}

/* A unit is a row. */
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void
cross_entropy_join(__global float *losses, uint losses_offset, int4 losses_stride, __global const float *logits,
                   uint logits_offset, int4 logits_stride, __global const float *classes, uint classes_offset,
                   int4 classes_stride, uint4 shape, uint2 chunks, __global const float *parts, uint rows,
                   uint2 units) {
    __local float local_sums[GROUP];
    FOR_EACH_GROUP(unit, units) {
        const int4 at = row_position(unit, shape);
        const float largest = largest_of_parts(local_sums, parts + unit * chunks.s1, chunks.s1);
        const float sum = sum_of_parts(local_sums, parts + (rows + unit) * chunks.s1, chunks.s1);
        uint own = 0;
        const int is_class = find_class(classes[classes_offset + dot_position(at, classes_stride)], shape.s3, &own);
        __global const float *z = logits + logits_offset + dot_position(at, logits_stride);
        if (get_local_id(0) == 0)
            losses[losses_offset + dot_position(at, losses_stride)] =
                is_class ? log(sum) - (z[(int)own * logits_stride.s3] - largest) : NAN;
    }
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void
cross_entropy_slopes(__global float *d_logits, uint d_logits_offset, int4 d_logits_stride,
                     __global const float *d_losses, uint d_losses_offset, int4 d_losses_stride,
                     __global const float *logits, uint logits_offset, int4 logits_stride,
                     __global const float *classes, uint classes_offset, int4 classes_stride, uint4 shape, uint2 chunks,
                     __global const float *parts, uint rows, uint2 units) {
    __local float local_sums[GROUP];
    FOR_EACH_GROUP(unit, units) {
        const chunk_of_row of = find_chunk(unit, logits + logits_offset, logits_stride, shape, chunks);
        __global float *to = d_logits + d_logits_offset + dot_position(of.at, d_logits_stride);
        const float d_loss = d_losses[d_losses_offset + dot_position(of.at, d_losses_stride)];
        const float largest = largest_of_parts(local_sums, parts + of.row * chunks.s1, chunks.s1);
        const float sum = sum_of_parts(local_sums, parts + (rows + of.row) * chunks.s1, chunks.s1);
        uint own = 0;
        const int is_class = find_class(classes[classes_offset + dot_position(of.at, classes_stride)], shape.s3, &own);
        const float factor = is_class ? d_loss / sum : NAN;
        for (uint start = get_local_id(0); start < of.count; start += 8 * GROUP) {
            float z[8];
            UNROLL for (uint k = 0; k < 8; k++) z[k] =
                of.z[(int)min(start + k * GROUP, of.count - 1) * logits_stride.s3];
            UNROLL for (uint k = 0; k < 8; k++) {
                const uint i = of.first + start + k * GROUP;
                const float slope = factor * exp(z[k] - largest);
                if (start + k * GROUP < of.count)
                    to[(int)i * d_logits_stride.s3] = is_class && i == own ? slope - d_loss : slope;
            }
        }
    }
}
#endif
