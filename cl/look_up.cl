/*
 * Rows by number, and sums of rows of one number in the tree that include/iclab/ops_sequence.h states for
 * icl_look_up_backward.
 *
 * The sum needs the rows in the order of their symbols. A radix sort brings them there: chunks of neighbouring symbols
 * count their digits, the counts are summed up in the order (digit, chunk), and each chunk then knows where its symbols
 * go. No two work-items ever add to one number, so that there are no atomics and equal symbols keep their order. Digits
 * have 8 bits, or all of a symbol's on CPUs, whose few chunks make few counts. Cost of a pass: 16 bytes read and
 * written for each symbol, and 3 times 4 for each digit and chunk.
 */
#include "common.h"

/* Returns the symbol's row in a table of `rows` rows (2^24 at most), or `rows` if the symbol is not valid. */
static uint row_of_symbol(float symbol, uint rows) {
    const uint row = symbol >= 0.0f && symbol < convert_float(rows) ? convert_uint(symbol) : rows;
    return row < rows && convert_float(row) == symbol ? row : rows;
}

#if LANES > 1
/* Copies the rows of `count` neighbouring symbols; steps are from row to row and from column to column. */
ROW_FUNCTION void copy_rows(__global float *to, int2 to_step, __global const float *table, int2 table_step,
                            __global const float *symbols, int symbol_step, uint count, uint width, uint rows) {
    for (uint i = 0; i < count; i++, to += to_step.s0, symbols += symbol_step) {
        const uint found = row_of_symbol(*symbols, rows);
        __global const float *from = table + (int)found * table_step.s0;
#define COPY(at, left)                                                                                                 \
    store_run(load_run(from + (int)(at)*table_step.s1, table_step.s1, left), to + (int)(at)*to_step.s1, to_step.s1,    \
              left)
#define COPY_NONE(at, left) store_run((floats)(NAN), to + (int)(at)*to_step.s1, to_step.s1, left)
        if (found < rows)
            FOR_RUNS(width, COPY);
        else
            FOR_RUNS(width, COPY_NONE);
    }
}
#endif

/* out[row, :] = table[symbol of row, :], or NaN if the symbol is not valid. A unit is a row of out's shape on CPUs and
 * an element on GPUs; its symbol stands at the row's position, with symbols_stride. Cost: no flops; 8 bytes an element,
 * 4 a row. */
__kernel void look_up(__global float *out, uint out_offset, int4 out_stride, __global const float *table,
                      uint table_offset, int4 table_stride, __global const float *symbols, uint symbols_offset,
                      int4 symbols_stride, uint4 shape, uint2 units, uint rows) {
#if LANES > 1
    const bool is_dense = out_stride.s3 == 1 && table_stride.s3 == 1;
    FOR_EACH_STRETCH(UNIT_OF_ITEM(get_global_id(0), units), UNIT_OF_ITEM(get_global_id(0) + 1, units), row, count,
                     shape) {
        const int4 at = row_position(row, shape);
        __global float *to = out + out_offset + dot_position(at, out_stride);
        __global const float *of = symbols + symbols_offset + dot_position(at, symbols_stride);
        if (is_dense)
            copy_rows(to, (int2)(out_stride.s2, 1), table + table_offset, (int2)(table_stride.s2, 1), of,
                      symbols_stride.s2, count, shape.s3, rows);
        else
            copy_rows(to, out_stride.s23, table + table_offset, table_stride.s23, of, symbols_stride.s2, count,
                      shape.s3, rows);
    }
#else
    FOR_EACH_UNIT(units) {
        const int4 at = element_position(unit, shape);
        const uint found = row_of_symbol(symbols[symbols_offset + dot_position(at, symbols_stride)], rows);
        out[out_offset + dot_position(at, out_stride)] =
            found < rows ? table[table_offset + (int)found * table_stride.s2 + at.s3 * table_stride.s3] : NAN;
    }
#endif
}

/* ---- Sorting ---- */

/* keys[i] = the row of symbol i, order[i] = where row i of d_out begins. A unit is a symbol. */
__kernel void look_up_keys(__global uint *keys, __global int *order, __global const float *symbols, uint symbols_offset,
                           int4 symbols_stride, int4 row_stride, uint4 shape, uint2 units, uint rows) {
#if LANES > 1
    FOR_EACH_STRETCH(UNIT_OF_ITEM(get_global_id(0), units), UNIT_OF_ITEM(get_global_id(0) + 1, units), unit, count,
                     shape) {
#else
    const uint count = 1;
    FOR_EACH_UNIT(units) {
#endif
        const int4 at = row_position(unit, shape);
        const int first = dot_position(at, row_stride);
        __global const float *from = symbols + symbols_offset + dot_position(at, symbols_stride);
        for (uint i = 0; i < count; i++) {
            keys[unit + i] = row_of_symbol(from[(int)i * symbols_stride.s2], rows);
            order[unit + i] = first + (int)i * row_stride.s2;
        }
    }
}

/* counts[digit, chunk] = the number of the chunk's keys with that digit, which is at most `mask`. A unit is a chunk. */
__kernel void sort_count(__global uint *counts, __global const uint *keys, uint count, uint chunk, uint chunks,
                         uint digits, uint shift, uint mask, uint2 units) {
    FOR_EACH_UNIT(units) {
        const uint end = min((unit + 1) * chunk, count);
        for (uint digit = 0; digit < digits; digit++)
            counts[digit * chunks + unit] = 0;
        for (uint i = unit * chunk; i < end; i++)
            counts[(keys[i] >> shift & mask) * chunks + unit]++;
    }
}

#define MOST_ITEMS 256

/* counts[i] = the sum of all counts before it. One work-group runs; each item adds neighbouring counts, and the last
 * item's sum is not used. 1 KiB of local memory. */
__kernel void sort_scan(__global uint *counts, uint count) {
    __local uint sums[MOST_ITEMS];
    const uint items = min((uint)get_local_size(0), (uint)MOST_ITEMS), item = get_local_id(0);
    const uint share = (count + items - 1) / items;
    const uint first = item < items ? min(item * share, count) : count, end = min(first + share, count);
    uint sum = 0;
    for (uint i = first; i < end && item + 1 < items; i++)
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

/* Moves keys and order to the places that the scanned counts give. A unit is a chunk, which alone advances its own
 * places. */
__kernel void sort_place(__global uint *to_keys, __global int *to_order, __global uint *places,
                         __global const uint *keys, __global const int *order, uint count, uint chunk, uint chunks,
                         uint shift, uint mask, uint2 units) {
    FOR_EACH_UNIT(units) {
        const uint end = min((unit + 1) * chunk, count);
        for (uint i = unit * chunk; i < end; i++) {
            const uint key = keys[i], place = places[(key >> shift & mask) * chunks + unit]++;
            to_keys[place] = key;
            to_order[place] = order[i];
        }
    }
}

/* ends[row] = the first of the sorted keys that is above it. A unit is a row. */
__kernel void row_ends(__global uint *ends, __global const uint *keys, uint count, uint2 units) {
    FOR_EACH_UNIT(units) {
        uint low = 0, high = count;
        while (low < high) {
            const uint middle = low + (high - low) / 2;
            if (keys[middle] <= unit)
                low = middle + 1;
            else
                high = middle;
        }
        ends[unit] = low;
    }
}

/* ---- Adding up ---- */

#define FAN      32u
#define FAN_BITS 5u

/* The number of vectors that a unit sums side by side in registers while the rows pass by. As in
 * src/backend/opencl/look_up.c. */
#if LANES > 1
#define VECTORS 4
#else
#define VECTORS 1
#endif
#define COLUMNS (VECTORS * LANES)

/* Adds rows [first, end), each from `column` on, to sum. Rows begin where `order` says or, without it, `width`
 * apart. */
static void add_rows(floats *sum, __global const float *rows, __global const int *order, int step, uint width,
                     uint first, uint end, uint column) {
    const uint left = width - column;
#if LANES > 1
    if (step == 1 && left >= COLUMNS) {
        floats s0 = sum[0], s1 = sum[1], s2 = sum[2], s3 = sum[3];
        for (uint i = first; i < end; i++) {
            __global const float *row = rows + (order ? order[i] : (int)(i * width)) + (int)column;
            s0 += LOAD_ANYWHERE(row);
            s1 += LOAD_ANYWHERE(row + LANES);
            s2 += LOAD_ANYWHERE(row + 2 * LANES);
            s3 += LOAD_ANYWHERE(row + 3 * LANES);
        }
        sum[0] = s0, sum[1] = s1, sum[2] = s2, sum[3] = s3;
        return;
    }
#endif
    for (uint i = first; i < end; i++) {
        __global const float *row = rows + (order ? order[i] : (int)(i * width)) + (int)column * step;
        for (uint v = 0; v < VECTORS && v * LANES < left; v++)
            sum[v] += load_run(row + (int)(v * LANES) * step, step, left - v * LANES);
    }
}

/* As above for one level: rows of d_out in the sorted order, or the sums of level - 1. Rows of all levels stand one
 * behind the other, and this one's begin `base` further on. */
static void add_terms(floats *sum, __global const float *d_out, int step, __global const int *order,
                      __global const float *sums, uint base, uint width, uint level, uint first, uint end,
                      uint column) {
    if (level == 0)
        add_rows(sum, d_out, order, step, width, first, end, column);
    else
        add_rows(sum, sums + base * width, 0, 1, width, first, end, column);
}

static void clear_sum(floats *sum) {
    UNROLL for (uint v = 0; v < VECTORS; v++) sum[v] = (floats)(0.0f);
}

static void store_sum(const floats *sum, __global float *to, int step, uint left) {
    for (uint v = 0; v < VECTORS && v * LANES < left; v++)
        store_run(sum[v], to + (int)(v * LANES) * step, step, left - v * LANES);
}

/* Adds FAN rows of level - 1 that belong to one symbol. A unit is COLUMNS columns of such a sum, which has `blocks`
 * units. Cost for each element: 32 flops, 128 bytes. */
__kernel void sum_runs(__global float *sums, uint base, uint from_base, __global const float *d_out, uint d_out_offset,
                       int step, __global const int *order, __global const uint *keys, uint rows, uint width,
                       uint level, uint blocks, uint2 units) {
    FOR_EACH_UNIT(units) {
        const uint run = unit / blocks, column = (unit - run * blocks) * COLUMNS, shift = FAN_BITS * level;
        const uint key = keys[run << shift];
        floats sum[VECTORS];
        if (key == rows || key != keys[((run + 1) << shift) - 1])
            continue;
        clear_sum(sum);
        add_terms(sum, d_out + d_out_offset, step, order, sums, from_base, width, level - 1, run * FAN, (run + 1) * FAN,
                  column);
        store_sum(sum, sums + (base + run) * width + column, 1, width - column);
    }
}

/* Computes d_table[row, :]. A unit is COLUMNS columns of a row, whose symbols end at ends[(row + 1) ends_step - 1].
 * Cost for each element: at most 63 flops and 256 bytes on each of the levels that the row's symbols fill. */
__kernel void sum_symbols(__global float *d_table, uint table_offset, int4 table_stride, __global const float *sums,
                          __global const float *d_out, uint d_out_offset, int step, __global const int *order,
                          __global const uint *ends, uint ends_step, uint count, uint width, uint blocks, uint2 units) {
    FOR_EACH_UNIT(units) {
        const uint row = unit / blocks, column = (unit - row * blocks) * COLUMNS;
        uint low = row > 0 ? ends[row * ends_step - 1] : 0, high = ends[(row + 1) * ends_step - 1], base = 0;
        floats total[VECTORS], sum[VECTORS];
        clear_sum(total);
        for (uint level = 0; low < high; level++) {
            const uint middle = min((low + FAN - 1) / FAN * FAN, high), end = max(high / FAN * FAN, middle);
            clear_sum(sum);
            add_terms(sum, d_out + d_out_offset, step, order, sums, base, width, level, low, middle, column);
            add_terms(sum, d_out + d_out_offset, step, order, sums, base, width, level, end, high, column);
            UNROLL for (uint v = 0; v < VECTORS; v++) total[v] += sum[v];
            base += level > 0 ? count >> (FAN_BITS * level) : 0;
            low = middle / FAN;
            high = end / FAN;
        }
        store_sum(total, d_table + table_offset + (int)row * table_stride.s2 + (int)column * table_stride.s3,
                  table_stride.s3, width - column);
    }
}
