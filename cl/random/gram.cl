/*
 * Gram matrices of in-context regression problems by Bartlett's decomposition: gram_sample of ops.h, which states every
 * product and sum.
 *
 * Every sequence has rows in scratch: the normals in the order of the words, where L becomes F in place unless there
 * are roots; with roots F and the images x_t, w; then sigma and the target. rows: first row of F, of x_t, of w, of
 * sigma; sizes: batch, d, columns of L, Philox blocks of a sequence. Vector views have strides batch (if they have a
 * second axis), element.
 *
 * CPUs: a unit is LANES sequences, a row LANES floats; behind the rows stands the Gram matrix's lower triangle, and
 * before all of them the tables, packed, and the places of the outputs' elements. GPUs: a work-group is
 * one sequence, a row one float.
 *
 * Cost of a sequence: about 16 flops for each of D^2 / 2 + 2 d normals, D^3 / 3 flops for the Gram matrix; with roots
 * D^3 more for F and 2/3 D^3 because F is no longer triangular; 4 D^2 bytes written.
 */
#include "../common.h"
#include "random_words.h"

/* Returns the number of elements in the rows of the trapezoid before row i. */
static uint trapezoid(uint columns, uint i) {
    return i <= columns ? i * (i + 1) / 2 : columns * (columns + 1) / 2 + (i - columns) * columns;
}

/* Returns where row i of F begins, counted from F's first row, and how many elements it has. */
static uint factor_row(uint d, uint columns, uint full, uint i) {
    return full ? i * min(d, columns) : trapezoid(columns, i);
}

static uint factor_length(uint d, uint columns, uint full, uint i) {
    if (full)
        return i < d ? min(d, columns) : columns;
    return min(i + 1, columns);
}

static floats noise_level(uints word, uint distribution, float2 range, uint choice_count, choice_table choice) {
    if (distribution == ICL_UNIFORM)
        return range.s0 + range.s1 * (TO_FLOATS(AS_INTS(word >> 8)) * 0x1p-24f);
    return chosen(word, choice_count, choice);
}

/* The rows of a group of sequences; ROW(i) is the place of row i. */
#define ROW(i)        (lanes + (size_t)(i))
#define GET(i)        (*ROW(i))
#define SET(i, value) (*ROW(i) = (value))

/* Adds up factor[k * step] times row (from + k) over k < count. */
#define ROOT_PRODUCT(sum, factor, step, from, count)                                                                   \
    floats sum = *(factor)*GET(from);                                                                                  \
    for (uint k_ = 1; k_ < (count); k_++)                                                                              \
    sum += (factor)[(int)k_ * (step)] * GET((from) + k_)

#if LANES > 1

#define CHI_ROW 16 /* pieces of a row of the packed table; the last ones are unused */

/* T_k: the polynomial of each lane's piece. row: [ICL_CHI_TERMS][CHI_ROW]. */
static floats chi_from_normal(floats z, __global const float *row) {
    const ints piece = ICL_PASTE(convert_int, LANES)(z + (floats)((float)(ICL_CHI_PIECES / 2)));
    const floats t = z - (TO_FLOATS(piece) - (floats)(0.5f * (float)(ICL_CHI_PIECES - 1)));
    floats value = (floats)(0.0f);
#if LANES == 4
    int at[LANES];
    STORE_LANES(piece, at);
#endif
    UNROLL for (int term = ICL_CHI_TERMS - 1; term >= 0; term--) {
#if LANES >= 8
        __global const floats *of_term = (__global const floats *)(row + term * CHI_ROW);
        floats coefficient = PICK(of_term[0], AS_UINTS(piece));
#if LANES == 8
        coefficient = select(coefficient, PICK(of_term[1], AS_UINTS(piece)), piece >= LANES);
#endif
#else
        __global const float *of_term = row + term * CHI_ROW;
        const floats coefficient = (floats)(of_term[at[0]], of_term[at[1]], of_term[at[2]], of_term[at[3]]);
#endif
        value = term == ICL_CHI_TERMS - 1 ? coefficient : value * t + coefficient;
    }
    return value;
}

/* Transposes each group of four lanes of four vectors. */
#if LANES == 4
static void transpose_fours(floats *x) { /* no shuffles, which Oclgrind does not know */
    float at[LANES][LANES];
    for (uint i = 0; i < LANES; i++)
        STORE_LANES(x[i], at[i]);
    for (uint i = 0; i < LANES; i++)
        x[i] = (floats)(at[0][i], at[1][i], at[2][i], at[3][i]);
}
#else
#if LANES == 8
#define FOURS(F) F(0, 1, 2, 3), F(4, 5, 6, 7)
#else
#define FOURS(F) F(0, 1, 2, 3), F(4, 5, 6, 7), F(8, 9, a, b), F(c, d, e, f)
#endif
#define FIRST_PAIRS(i, j, k, l)  a.s##i, b.s##i, a.s##j, b.s##j
#define LAST_PAIRS(i, j, k, l)   a.s##k, b.s##k, a.s##l, b.s##l
#define FIRST_HALVES(i, j, k, l) a.s##i##j, b.s##i##j
#define LAST_HALVES(i, j, k, l)  a.s##k##l, b.s##k##l
#define JOIN(name, F)                                                                                                  \
    static floats name(floats a, floats b) {                                                                           \
        return (floats)(FOURS(F));                                                                                     \
    }
JOIN(first_pairs, FIRST_PAIRS)
JOIN(last_pairs, LAST_PAIRS)
JOIN(first_halves, FIRST_HALVES)
JOIN(last_halves, LAST_HALVES)

static void transpose_fours(floats *x) {
    const floats a = first_pairs(x[0], x[1]), b = last_pairs(x[0], x[1]), c = first_pairs(x[2], x[3]),
                 d = last_pairs(x[2], x[3]);
    x[0] = first_halves(a, c);
    x[1] = last_halves(a, c);
    x[2] = first_halves(b, d);
    x[3] = last_halves(b, d);
}
#endif

/* Transposes rows place[0 .. LANES - 1] into LANES neighbours of each sequence, in squares of 4 x 4: each vector begins
 * as one row of a square, from four lanes of every fourth row. */
static void unpack_block(__global const floats *lanes, __global const uint *place, __global float *out,
                         int batch_stride) {
#define FOUR(i) (*(__global const float4 *)((__global const float *)ROW(place[i]) + from))
#if LANES == 4
#define EVERY_FOURTH(i) FOUR(i)
#elif LANES == 8
#define EVERY_FOURTH(i) ((floats)(FOUR(i), FOUR((i) + 4)))
#else
#define EVERY_FOURTH(i) ((floats)(FOUR(i), FOUR((i) + 4), FOUR((i) + 8), FOUR((i) + 12)))
#endif
    UNROLL for (int from = 0; from < LANES; from += 4) {
        floats x[4] = {EVERY_FOURTH(0), EVERY_FOURTH(1), EVERY_FOURTH(2), EVERY_FOURTH(3)};
        transpose_fours(x);
        UNROLL for (int i = 0; i < 4; i++) STORE_ANYWHERE(x[i], out + (from + i) * batch_stride);
    }
}

/* Stores rows place[0 .. count - 1] as `count` elements of each of the first `live` sequences. The last block overlaps
 * the one before. */
static void unpack_rows(__global const floats *lanes, __global const uint *place, uint count, uint live,
                        __global float *out, int batch_stride, int stride) {
    if (live == LANES && stride == 1 && count >= LANES) {
        for (uint e = 0; e < count; e += LANES) {
            const uint at = min(e, count - LANES);
            unpack_block(lanes, place + at, out + at, batch_stride);
        }
        return;
    }
    for (uint e = 0; e < count; e++)
        for (uint s = 0; s < live; s++)
            out[(int)s * batch_stride + (int)e * stride] = ((__global const float *)ROW(place[e]))[s];
}

/* Where the elements of the outputs lie: D * D of the symmetric matrix, whose lower triangle is there,
 * then x_t, then w. */
static void list_places(__global uint *place, uint4 sizes, uint4 rows) {
    const uint d = sizes.s1;
    for (uint i = 0; i <= d; i++)
        for (uint j = 0; j <= d; j++) {
            const uint below = max(i, j);
            *place++ = rows.s3 + 2 + below * (below + 1) / 2 + min(i, j);
        }
    for (uint i = 0; i < 2 * d; i++)
        *place++ = i < d ? rows.s1 + i : rows.s2 + i - d;
}

/* Makes the normals of every word, L's diagonal from them, and sigma from the last word. */
static void draw_rows(__global floats *lanes, __global const float *chi, ulong sequence, uint4 sizes, uint4 rows,
                      uint2 key, uint2 step, uint distribution, float2 range, uint choice_count, choice_table choice) {
    const uint columns = sizes.s2, blocks = sizes.s3;
    const uint last = trapezoid(columns, sizes.s1 + 1) + 2 * sizes.s1;
    uint low[LANES], high[LANES];
    for (uint lane = 0; lane < LANES; lane++) {
        const ulong counter = (sequence + lane) * blocks;
        low[lane] = (uint)counter;
        high[lane] = (uint)(counter >> 32);
    }
    const uints first_low = LOAD_LANES(low), first_high = LOAD_LANES(high);
    for (uint block = 0; block < blocks; block++) {
        uints word[BLOCK];
        floats normal[BLOCK];
        word[0] = first_low + block;
        word[1] = first_high + select((uints)(0u), (uints)(1u), word[0] < first_low);
        word[2] = (uints)(step.s0);
        word[3] = (uints)(step.s1);
        philox(&word[0], &word[1], &word[2], &word[3], key.s0, key.s1);
        normals_from_words(word, normal);
        UNROLL for (uint w = 0; w < BLOCK; w++) SET(block * BLOCK + w, normal[w]);
        if (block + 1 == blocks)
            SET(rows.s3, noise_level(word[last % BLOCK], distribution, range, choice_count, choice));
    }
    for (uint i = 0; i < columns; i++) {
        const uint row = trapezoid(columns, i) + i;
        SET(row, chi_from_normal(GET(row), chi + i * (ICL_CHI_TERMS * CHI_ROW)));
    }
}

/* F = R L, x_t = R g, w = C h. roots: [2][d][d]. */
static void apply_roots(__global floats *lanes, __global const float *roots, uint4 sizes, uint4 rows) {
    const uint d = sizes.s1, columns = sizes.s2, normals = trapezoid(columns, d + 1);
    for (uint i = 0; i < d; i++) {
        __global const float *input = roots + i * d, *weight = input + d * d;
        for (uint j = 0; j < min(d, columns); j++) {
            floats sum = input[j] * GET(trapezoid(columns, j) + j);
            for (uint k = j + 1; k < d; k++)
                sum += input[k] * GET(trapezoid(columns, k) + j);
            SET(rows.s0 + factor_row(d, columns, 1, i) + j, sum);
        }
        ROOT_PRODUCT(image, input, 1, normals, d);
        SET(rows.s1 + i, image);
        ROOT_PRODUCT(weight_image, weight, 1, normals + d, d);
        SET(rows.s2 + i, weight_image);
    }
}

/* Makes F's last row, and the target. */
static void label_rows(__global floats *lanes, uint4 sizes, uint4 rows, uint full) {
    const uint d = sizes.s1, columns = sizes.s2;
    const uint from = trapezoid(columns, d), to = rows.s0 + factor_row(d, columns, full, d);
    const floats sigma = GET(rows.s3);
    for (uint j = 0; j < columns; j++) {
        const floats noise = sigma * GET(from + j);
        if (j < d) {
            const uint top = full ? 0 : j;
            floats sum = GET(rows.s2 + top) * GET(rows.s0 + factor_row(d, columns, full, top) + j);
            for (uint i = top + 1; i < d; i++)
                sum += GET(rows.s2 + i) * GET(rows.s0 + factor_row(d, columns, full, i) + j);
            SET(to + j, sum + noise);
        } else {
            SET(to + j, noise);
        }
    }
    floats target = GET(rows.s2) * GET(rows.s1);
    for (uint i = 1; i < d; i++)
        target += GET(rows.s2 + i) * GET(rows.s1 + i);
    SET(rows.s3 + 1, target);
}

/* Returns one element of F F^T, from term `from` on. */
static void finish_element(__global floats *to, __global const floats *left, __global const floats *right, floats sum,
                           uint from, uint end) {
    for (uint k = from; k < end; k++)
        sum += left[k] * right[k];
    *to = sum;
}

/* Computes F F^T in tiles of 3 x 3, then what is left over. Rows of F get longer downwards, so that all of a tile has
 * at least the length of its first column. */
static void gram_rows(__global floats *lanes, uint4 sizes, uint4 rows, uint full) {
    const uint d = sizes.s1, columns = sizes.s2, extent = d + 1, tiled = extent / 3 * 3;
#define RESULT(i, j) ROW(rows.s3 + 2 + (i) * ((i) + 1) / 2 + (j))
#define FACTOR(i)    ((__global const floats *)ROW(rows.s0 + factor_row(d, columns, full, i)))
#define LENGTH(j)    factor_length(d, columns, full, j)
#define AT(pointer)  (pointer)[k]
#define FINISH(sum, i, j)                                                                                              \
    if (a + (i) >= b + (j))                                                                                            \
    finish_element(RESULT(a + (i), b + (j)), l##i, r##j, sum, common, LENGTH(b + (j)))
    for (uint a = 0; a < tiled; a += 3) {
        __global const floats *l0 = FACTOR(a), *l1 = FACTOR(a + 1), *l2 = FACTOR(a + 2);
        for (uint b = 0; b <= a; b += 3) {
            __global const floats *r0 = FACTOR(b), *r1 = FACTOR(b + 1), *r2 = FACTOR(b + 2);
            const uint common = LENGTH(b);
            uint k = 0;
            floats y0 = AT(r0), y1 = AT(r1), y2 = AT(r2), x = AT(l0);
            floats s00 = x * y0, s01 = x * y1, s02 = x * y2;
            x = AT(l1);
            floats s10 = x * y0, s11 = x * y1, s12 = x * y2;
            x = AT(l2);
            floats s20 = x * y0, s21 = x * y1, s22 = x * y2;
            for (k = 1; k < common; k++) {
                y0 = AT(r0), y1 = AT(r1), y2 = AT(r2);
                x = AT(l0);
                s00 += x * y0, s01 += x * y1, s02 += x * y2;
                x = AT(l1);
                s10 += x * y0, s11 += x * y1, s12 += x * y2;
                x = AT(l2);
                s20 += x * y0, s21 += x * y1, s22 += x * y2;
            }
            FINISH(s00, 0, 0);
            FINISH(s01, 0, 1);
            FINISH(s02, 0, 2);
            FINISH(s10, 1, 0);
            FINISH(s11, 1, 1);
            FINISH(s12, 1, 2);
            FINISH(s20, 2, 0);
            FINISH(s21, 2, 1);
            FINISH(s22, 2, 2);
        }
    }
    for (uint a = tiled; a < extent; a++)
        for (uint b = 0; b <= a; b++)
            finish_element(RESULT(a, b), FACTOR(a), FACTOR(b), *FACTOR(a) * *FACTOR(b), 1, LENGTH(b));
}

/* scratch: scratch_rows rows for each work-item, which begin with the packed tables, chi and roots. */
__kernel void gram_lanes(__global float *gram, uint g_offset, int4 g_stride, __global float *query, uint q_offset,
                         int4 q_stride, __global float *targets, uint t_offset, int4 t_stride, __global float *weights,
                         uint w_offset, int4 w_stride, __global float *noise, uint s_offset, int4 s_stride,
                         __global const float *chi, uint c_offset, int4 c_stride, __global const float *roots,
                         uint r_offset, int4 r_stride, uint has_roots, uint4 sizes, uint2 units, uint4 rows, uint2 key,
                         uint2 step, uint distribution, float2 range, uint choice_count, float16 choices,
                         __global float *scratch, uint scratch_rows, uint table_rows) {
    const uint batch = sizes.s0, d = sizes.s1, columns = sizes.s2, extent = d + 1;
    const uint chi_length = columns * (ICL_CHI_TERMS * CHI_ROW);
    __global float *packed = scratch + get_global_id(0) * scratch_rows * LANES;
    __global uint *place = (__global uint *)(packed + chi_length + 2 * d * d * has_roots);
    __global float *packed_roots = packed + chi_length;
    __global floats *lanes = (__global floats *)packed + table_rows;
    KEEP_CHOICES(choice, choices);
    if (get_global_id(0) >= units.s1)
        return;
    for (uint i = 0; i < columns * ICL_CHI_TERMS; i++) {
        const uint row = i / ICL_CHI_TERMS, term = i % ICL_CHI_TERMS;
        __global const float *from = chi + c_offset + (int)row * c_stride.s1 + (int)term * c_stride.s3;
        for (uint piece = 0; piece < CHI_ROW; piece++)
            packed[i * CHI_ROW + piece] = piece < ICL_CHI_PIECES ? from[(int)piece * c_stride.s2] : 0.0f;
    }
    for (uint i = 0; i < 2 * d * d * has_roots; i++) {
        const uint row = i / d, which = row / d;
        packed_roots[i] = roots[r_offset + (int)which * r_stride.s1 + (int)(row - which * d) * r_stride.s2 +
                                (int)(i - row * d) * r_stride.s3];
    }
    list_places(place, sizes, rows);
    FOR_EACH_UNIT(units) {
        const uint first = unit * LANES, live = min((uint)LANES, batch - first);
        __global float *g = gram + g_offset + (int)first * g_stride.s1;
        __global float *q = query + q_offset + (int)first * q_stride.s2;
        draw_rows(lanes, packed, first, sizes, rows, key, step, distribution, range, choice_count, choice);
        if (has_roots)
            apply_roots(lanes, packed_roots, sizes, rows);
        label_rows(lanes, sizes, rows, has_roots);
        if (columns > 0)
            gram_rows(lanes, sizes, rows, has_roots);
        for (uint i = 0; i < extent * (extent + 1) / 2 && columns == 0; i++)
            SET(rows.s3 + 2 + i, (floats)(0.0f));
        const uint is_dense = g_stride.s3 == 1 && g_stride.s2 == (int)extent;
        for (uint i = 0; i < (is_dense ? 1 : extent); i++)
            unpack_rows(lanes, place + i * extent, is_dense ? extent * extent : extent, live, g + (int)i * g_stride.s2,
                        g_stride.s1, g_stride.s3);
        unpack_rows(lanes, place + extent * extent, d, live, q, q_stride.s2, q_stride.s3);
        unpack_rows(lanes, place + extent * extent + d, d, live, weights + w_offset + (int)first * w_stride.s2,
                    w_stride.s2, w_stride.s3);
        for (uint s = 0; s < live; s++) {
            q[(int)s * q_stride.s2 + (int)d * q_stride.s3] = 0.0f;
            noise[s_offset + (int)(first + s) * s_stride.s3] = ((__global const float *)ROW(rows.s3))[s];
            targets[t_offset + (int)(first + s) * t_stride.s3] = ((__global const float *)ROW(rows.s3 + 1))[s];
        }
    }
}

#else

static float chi_from_normal(float z, __global const float *row, int piece_stride, int stride) {
    const int piece = convert_int(z + (float)(ICL_CHI_PIECES / 2));
    const float t = z - (convert_float(piece) - 0.5f * (float)(ICL_CHI_PIECES - 1));
    __global const float *coefficient = row + piece * piece_stride;
    float value = coefficient[(ICL_CHI_TERMS - 1) * stride];
    for (int term = ICL_CHI_TERMS - 2; term >= 0; term--)
        value = value * t + coefficient[term * stride];
    return value;
}

/* Arguments as above; scratch: scratch_rows floats for each work-group, no packed tables. */
__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void
gram_groups(__global float *gram, uint g_offset, int4 g_stride, __global float *query, uint q_offset, int4 q_stride,
            __global float *targets, uint t_offset, int4 t_stride, __global float *weights, uint w_offset,
            int4 w_stride, __global float *noise, uint s_offset, int4 s_stride, __global const float *chi,
            uint c_offset, int4 c_stride, __global const float *roots, uint r_offset, int4 r_stride, uint has_roots,
            uint4 sizes, uint2 units, uint4 rows, uint2 key, uint2 step, uint distribution, float2 range,
            uint choice_count, float16 choices, __global float *scratch, uint scratch_rows, uint table_rows) {
    const uint d = sizes.s1, columns = sizes.s2, blocks = sizes.s3, extent = d + 1;
    const uint normals = trapezoid(columns, extent), last = normals + 2 * d, id = get_local_id(0), items = 64;
    __global float *lanes = scratch + get_group_id(0) * scratch_rows;
    KEEP_CHOICES(choice, choices);
    FOR_EACH_GROUP(sequence, units) {
        for (uint block = id; block < blocks; block += items) {
            const ulong counter = (ulong)sequence * blocks + block;
            float normal[BLOCK];
            uint word[BLOCK] = {(uint)counter, (uint)(counter >> 32), step.s0, step.s1};
            philox(&word[0], &word[1], &word[2], &word[3], key.s0, key.s1);
            normals_from_words(word, normal);
            for (uint w = 0; w < BLOCK; w++)
                lanes[block * BLOCK + w] = normal[w];
            if (block + 1 == blocks) {
                const uint2 two = last & 2u ? (uint2)(word[2], word[3]) : (uint2)(word[0], word[1]);
                lanes[rows.s3] = noise_level(last & 1u ? two.s1 : two.s0, distribution, range, choice_count, choice);
            }
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
        for (uint i = id; i < columns; i += items) {
            __global float *at = lanes + trapezoid(columns, i) + i;
            *at = chi_from_normal(*at, chi + c_offset + (int)i * c_stride.s1, c_stride.s2, c_stride.s3);
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
        if (has_roots) {
            const uint width = min(d, columns);
            __global const float *input = roots + r_offset, *weight = input + r_stride.s1;
            for (uint e = id; e < d * width; e += items) {
                const uint i = e / width, j = e - i * width;
                __global const float *factor = input + (int)i * r_stride.s2;
                float sum = factor[(int)j * r_stride.s3] * lanes[trapezoid(columns, j) + j];
                for (uint k = j + 1; k < d; k++)
                    sum += factor[(int)k * r_stride.s3] * lanes[trapezoid(columns, k) + j];
                lanes[rows.s0 + e] = sum;
            }
            for (uint i = id; i < d; i += items) {
                ROOT_PRODUCT(image, input + (int)i * r_stride.s2, r_stride.s3, normals, d);
                lanes[rows.s1 + i] = image;
                ROOT_PRODUCT(weight_image, weight + (int)i * r_stride.s2, r_stride.s3, normals + d, d);
                lanes[rows.s2 + i] = weight_image;
            }
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
        const uint to = rows.s0 + factor_row(d, columns, has_roots, d), from = trapezoid(columns, d);
        const float sigma = lanes[rows.s3];
        for (uint j = id; j < columns; j += items) {
            const uint top = has_roots ? 0 : j;
            float sum = sigma * lanes[from + j];
            if (j < d) {
                const float label_noise = sum;
                sum = lanes[rows.s2 + top] * lanes[rows.s0 + factor_row(d, columns, has_roots, top) + j];
                for (uint i = top + 1; i < d; i++)
                    sum += lanes[rows.s2 + i] * lanes[rows.s0 + factor_row(d, columns, has_roots, i) + j];
                sum += label_noise;
            }
            lanes[to + j] = sum;
        }
        for (uint i = id; i < extent; i += items) {
            query[q_offset + (int)sequence * q_stride.s2 + (int)i * q_stride.s3] = i < d ? lanes[rows.s1 + i] : 0.0f;
            if (i < d)
                weights[w_offset + (int)sequence * w_stride.s2 + (int)i * w_stride.s3] = lanes[rows.s2 + i];
        }
        if (id == 0) {
            float target = lanes[rows.s2] * lanes[rows.s1];
            for (uint i = 1; i < d; i++)
                target += lanes[rows.s2 + i] * lanes[rows.s1 + i];
            targets[t_offset + (int)sequence * t_stride.s3] = target;
            noise[s_offset + (int)sequence * s_stride.s3] = sigma;
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
        for (uint e = id; e < extent * extent; e += items) {
            const uint a = e / extent, b = e - a * extent, shorter = min(a, b);
            __global const float *left = lanes + rows.s0 + factor_row(d, columns, has_roots, max(a, b));
            __global const float *right = lanes + rows.s0 + factor_row(d, columns, has_roots, shorter);
            const uint terms = factor_length(d, columns, has_roots, shorter);
            float sum = terms > 0 ? left[0] * right[0] : 0.0f;
            for (uint k = 1; k < terms; k++)
                sum += left[k] * right[k];
            gram[g_offset + (int)sequence * g_stride.s1 + (int)a * g_stride.s2 + (int)b * g_stride.s3] = sum;
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
}

#endif
