/*
 * Rows by number, and sums of rows of one number in the tree that include/iclab/ops_sequence.h states for
 * icl_look_up_backward.
 *
 * The sum needs the rows in the order of their symbols. A radix sort by digits of 8 bits brings them there: chunks of
 * neighbouring symbols count their digits, the counts are summed up in the order (digit, chunk), and each chunk then
 * knows where its symbols go. No two work-items ever add to one number, so that there are no atomics and equal symbols
 * keep their order. Cost of a pass: 16 bytes read and written for each symbol, and 3 times 4 for each digit and chunk.
 */
#include "common.h"

/* A symbol's row in a table of so many (2^24 at most), or `rows` where it is none. */
static uint row_of_symbol(float symbol, uint rows) {
    const uint row = symbol >= 0.0f && symbol < convert_float(rows) ? convert_uint(symbol) : rows;
    return row < rows && convert_float(row) == symbol ? row : rows;
}

/*
 * out[row, :] = table[symbol of row, :], or NaN. A unit is a segment of a row of the shape (out's), its symbol stands
 * at the row's position with symbols_stride. Cost: no flops; 8 bytes an element, 4 a row.
 */
__kernel void look_up(__global float *out, uint out_offset, int4 out_stride, __global const float *table,
                      uint table_offset, int4 table_stride, __global const float *symbols, uint symbols_offset,
                      int4 symbols_stride, uint4 shape, uint segment, uint segments, uint2 units, uint rows) {
    FOR_EACH_SEGMENT(shape, segment, units, segments) {
        const int4 at = row_position(row, shape);
        const uint found = row_of_symbol(symbols[symbols_offset + dot_position(at, symbols_stride)], rows);
        __global const float *from = table + table_offset + (int)(found < rows ? found : 0) * table_stride.s2;
        __global float *to = out + out_offset + dot_position(at, out_stride);
        for (uint i = start; i < end; i += LANES) {
            floats value = (floats)(NAN);
            if (found < rows)
                value = load_run(from + (int)i * table_stride.s3, table_stride.s3, end - i);
            store_run(value, to + (int)i * out_stride.s3, out_stride.s3, end - i);
        }
    }
}

/* ---- Sorting ---- */

#define DIGIT_BITS 8 /* as in src/backend/opencl/look_up.c */
#define DIGIT_MASK 255u

/* keys[i] = the row of symbol i, order[i] = where row i of d_out begins. A unit is a symbol. */
__kernel void look_up_keys(__global uint *keys, __global int *order, __global const float *symbols, uint symbols_offset,
                           int4 symbols_stride, int4 row_stride, uint4 shape, uint2 units, uint rows) {
    FOR_EACH_UNIT(units) {
        const int4 at = row_position(unit, shape);
        keys[unit] = row_of_symbol(symbols[symbols_offset + dot_position(at, symbols_stride)], rows);
        order[unit] = dot_position(at, row_stride);
    }
}

/* counts[digit, chunk]: how many keys of the chunk have the digit. A unit is a chunk. */
__kernel void sort_count(__global uint *counts, __global const uint *keys, uint count, uint chunk, uint chunks,
                         uint digits, uint shift, uint2 units) {
    FOR_EACH_UNIT(units) {
        const uint end = min((unit + 1) * chunk, count);
        for (uint digit = 0; digit < digits; digit++)
            counts[digit * chunks + unit] = 0;
        for (uint i = unit * chunk; i < end; i++)
            counts[(keys[i] >> shift & DIGIT_MASK) * chunks + unit]++;
    }
}

#define MOST_ITEMS 256

/* counts[i] = the sum of all before it. One work-group; each item has neighbouring ones. 1 KiB of local memory. */
__kernel void sort_scan(__global uint *counts, uint count) {
    __local uint sums[MOST_ITEMS];
    const uint items = min((uint)get_local_size(0), (uint)MOST_ITEMS), item = get_local_id(0);
    const uint share = (count + items - 1) / items;
    const uint first = item < items ? min(item * share, count) : count, end = min(first + share, count);
    uint sum = 0;
    for (uint i = first; i < end; i++)
        sum += counts[i];
    if (item < items)
        sums[item] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    uint before = 0;
    for (uint i = 0; i < min(item, items); i++)
        before += sums[i];
    for (uint i = first; i < end; i++) {
        const uint own = counts[i];
        counts[i] = before;
        before += own;
    }
}

/* Puts keys and order where the scanned counts say. A unit is a chunk, which alone moves its places on. */
__kernel void sort_place(__global uint *to_keys, __global int *to_order, __global uint *places,
                         __global const uint *keys, __global const int *order, uint count, uint chunk, uint chunks,
                         uint shift, uint2 units) {
    FOR_EACH_UNIT(units) {
        const uint end = min((unit + 1) * chunk, count);
        for (uint i = unit * chunk; i < end; i++) {
            const uint key = keys[i], place = places[(key >> shift & DIGIT_MASK) * chunks + unit]++;
            to_keys[place] = key;
            to_order[place] = order[i];
        }
    }
}

/* starts[row] = the first of the sorted keys that is not below it. A unit is a row or the end of all. */
__kernel void row_starts(__global uint *starts, __global const uint *keys, uint count, uint2 units) {
    FOR_EACH_UNIT(units) {
        uint low = 0, high = count;
        while (low < high) {
            const uint middle = low + (high - low) / 2;
            if (keys[middle] < unit)
                low = middle + 1;
            else
                high = middle;
        }
        starts[unit] = low;
    }
}

/* ---- Adding up ---- */

#define FAN      32u
#define FAN_BITS 5u

/* Row `index` of a level, at a column: of d_out in the sorted order, or of the sums of level - 1 below, whose rows of
 * all levels stand one behind the other, `base` in front of this one's. */
static floats load_term(__global const float *d_out, int step, __global const int *order, __global const float *sums,
                        uint base, uint width, uint level, uint index, uint column) {
    return level == 0 ? load_run(d_out + order[index] + (int)column * step, step, width - column)
                      : load_run(sums + (base + index) * width + column, 1, width - column);
}

/* The sum of FAN rows of level - 1 where they are of one symbol. A unit is LANES columns of such a sum, which has
 * `blocks` of them. Cost for each element: 32 flops, 128 bytes. */
__kernel void sum_runs(__global float *sums, uint base, uint from_base, __global const float *d_out, uint d_out_offset,
                       int step, __global const int *order, __global const uint *keys, uint rows, uint width,
                       uint level, uint blocks, uint2 units) {
    FOR_EACH_UNIT(units) {
        const uint run = unit / blocks, column = (unit - run * blocks) * LANES, shift = FAN_BITS * level;
        const uint key = keys[run << shift];
        floats sum = (floats)(0.0f);
        if (key == rows || key != keys[((run + 1) << shift) - 1])
            continue;
        for (uint i = 0; i < FAN; i++)
            sum +=
                load_term(d_out + d_out_offset, step, order, sums, from_base, width, level - 1, run * FAN + i, column);
        store_run(sum, sums + (base + run) * width + column, 1, width - column);
    }
}

/* d_table[row, :]. A unit is LANES columns of a row. Cost for each element: at most 63 flops and 256 bytes on each of
 * the levels that the row's symbols fill. */
__kernel void sum_symbols(__global float *d_table, uint table_offset, int4 table_stride, __global const float *sums,
                          __global const float *d_out, uint d_out_offset, int step, __global const int *order,
                          __global const uint *starts, uint count, uint width, uint blocks, uint2 units) {
    FOR_EACH_UNIT(units) {
        const uint row = unit / blocks, column = (unit - row * blocks) * LANES;
        uint low = starts[row], high = starts[row + 1], base = 0;
        floats total = (floats)(0.0f);
        for (uint level = 0; low < high; level++) {
            const uint middle = min((low + FAN - 1) / FAN * FAN, high), end = max(high / FAN * FAN, middle);
            floats sum = (floats)(0.0f);
            for (uint i = low; i < middle; i++)
                sum += load_term(d_out + d_out_offset, step, order, sums, base, width, level, i, column);
            for (uint i = end; i < high; i++)
                sum += load_term(d_out + d_out_offset, step, order, sums, base, width, level, i, column);
            total += sum;
            base += level > 0 ? count >> (FAN_BITS * level) : 0;
            low = middle / FAN;
            high = end / FAN;
        }
        store_run(total, d_table + table_offset + (int)row * table_stride.s2 + (int)column * table_stride.s3,
                  table_stride.s3, width - column);
    }
}
