/*
 * What every kernel file shares. OpenCL C 1.2.
 *
 * LANES is the number of floats that one work-item computes at a time. A CPU driver gets its vector width (4, 8 or 16),
 * local size 1 and a few work-items that loop over many units, because PoCL vectorises no kernel that contains a loop.
 * A GPU gets 1 lane and thousands of work-items, so that neighbours touch neighbouring elements. The
 * sources are the same.
 *
 * Indices count elements. The host admits no buffer of 2^31 elements or more, so 32 bits hold every one of them.
 */
#ifndef ICL_COMMON_H
#define ICL_COMMON_H

#pragma OPENCL FP_CONTRACT OFF

#ifndef LANES
#define LANES 1
#endif

/* Returns a * b + c where a kernel may fuse: with one rounding on processors where that is as fast as a product, else
 * with two. Many compilers leave the standard's macro undefined; ICL_FMA is what the host was told of a GPU, and
 * __FMA__ what PoCL's compiler says of a processor. */
#if defined(FP_FAST_FMAF) || defined(ICL_FMA) || defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define MULTIPLY_ADD(a, b, c) fma(a, b, c)
#else
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif

#define UNROLL _Pragma("unroll")

/* Fetches the cache line of an address that will be read soon. The standard's prefetch does nothing in PoCL, so that
 * the compiler's own is used where it compiles for a processor. FETCH_LATER fetches into the second cache. */
#if LANES > 1 && (defined(__x86_64__) || defined(__aarch64__)) && defined(__has_builtin)
#if __has_builtin(__builtin_prefetch)
#define FETCH(pointer)       __builtin_prefetch((const void *)(size_t)(pointer))
#define FETCH_LATER(pointer) __builtin_prefetch((const void *)(size_t)(pointer), 0, 2)
#endif
#endif

#define ICL_PASTE_(a, b) a##b
#define ICL_PASTE(a, b)  ICL_PASTE_(a, b)

#if LANES == 1
typedef float floats;
typedef int ints;
typedef uint uints;
#define LOAD_LANES(pointer)         (*(pointer))
#define STORE_LANES(value, pointer) (*(pointer) = (value))
#define TO_FLOATS(x)                convert_float(x)
#define TO_INTS(x)                  convert_int(x)
#define AS_FLOATS(x)                as_float(x)
#define AS_INTS(x)                  as_int(x)
#define AS_UINTS(x)                 as_uint(x)
#define LANE_NUMBERS                ((uints)(0))
#else
typedef ICL_PASTE(float, LANES) floats;
typedef ICL_PASTE(int, LANES) ints;
typedef ICL_PASTE(uint, LANES) uints;
#define LOAD_LANES(pointer)         ICL_PASTE(vload, LANES)(0, pointer)
#define STORE_LANES(value, pointer) ICL_PASTE(vstore, LANES)(value, 0, pointer)
#define TO_FLOATS(x)                ICL_PASTE(convert_float, LANES)(x)
#define TO_INTS(x)                  ICL_PASTE(convert_int, LANES)(x)
#define AS_FLOATS(x)                ICL_PASTE(as_float, LANES)(x)
#define AS_INTS(x)                  ICL_PASTE(as_int, LANES)(x)
#define AS_UINTS(x)                 ICL_PASTE(as_uint, LANES)(x)
#if LANES == 4
#define LANE_NUMBERS ((uints)(0, 1, 2, 3))
#elif LANES == 8
#define LANE_NUMBERS ((uints)(0, 1, 2, 3, 4, 5, 6, 7))
#else
#define LANE_NUMBERS ((uints)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
#endif
#endif

/* Loads and stores lanes at any address in one access. PoCL's vstore16 takes four, and its vload16 up to eight. */
typedef struct __attribute__((packed)) floats_anywhere {
    floats value;
} floats_anywhere;
#define STORE_ANYWHERE(lanes, pointer) (((__global floats_anywhere *)(pointer))->value = (lanes))
#define LOAD_ANYWHERE(pointer)         (((__global const floats_anywhere *)(pointer))->value)

/* Copies count < LANES neighbouring floats. */
#define COPY_RUN(to, from, count)                                                                                      \
    do {                                                                                                               \
        uint done_ = 0;                                                                                                \
        if ((count)&8u) {                                                                                              \
            vstore8(vload8(0, from), 0, to);                                                                           \
            done_ = 8;                                                                                                 \
        }                                                                                                              \
        if ((count)&4u) {                                                                                              \
            vstore4(vload4(0, (from) + done_), 0, (to) + done_);                                                       \
            done_ += 4;                                                                                                \
        }                                                                                                              \
        if ((count)&2u) {                                                                                              \
            vstore2(vload2(0, (from) + done_), 0, (to) + done_);                                                       \
            done_ += 2;                                                                                                \
        }                                                                                                              \
        if ((count)&1u)                                                                                                \
            (to)[done_] = (from)[done_];                                                                               \
    } while (0)

/* Loads min(count, LANES) > 0 elements that lie `stride` apart; the lanes beyond are 0. */
static floats load_run(__global const float *from, int stride, uint count) {
#if LANES == 1
    return *from;
#else
    float lane[LANES];
    if (stride == 0)
        return (floats)(*from);
    if (stride == 1 && count >= LANES)
        return LOAD_ANYWHERE(from);
    STORE_LANES((floats)(0), lane);
    if (stride == 1) {
        COPY_RUN(lane, from, count);
    } else {
        const uint last = min(count, (uint)LANES);
        for (uint i = 0; i < last; i++)
            lane[i] = from[(int)i * stride];
    }
    return LOAD_LANES(lane);
#endif
}

#if LANES > 1
/* Writes LANES floats to `to`: min(count, LANES) elements that lie `stride` apart, then zeros. This is faster than
 * loading and storing the lanes, because a load of what was just stored in pieces has to wait. */
static void pack_run(__global float *to, __global const float *from, int stride, uint count) {
    if (stride == 1 && count < LANES) {
        STORE_LANES((floats)(0), to);
        COPY_RUN(to, from, count);
    } else {
        STORE_LANES(load_run(from, stride, count), to);
    }
}
#endif

#if LANES > 1
/* Transposes a square: element j of x[i] becomes element i of x[j]. Each round interleaves the vectors i and
 * i + LANES / 2, which moves one bit of a number's index from the vector to the lane. */
static void transpose(floats x[LANES]) {
    floats y[LANES];
    UNROLL for (uint round = 1; round < LANES; round *= 2) {
        UNROLL for (uint i = 0; i < LANES / 2; i++) {
            y[2 * i].even = x[i].lo;
            y[2 * i].odd = x[i + LANES / 2].lo;
            y[2 * i + 1].even = x[i].hi;
            y[2 * i + 1].odd = x[i + LANES / 2].hi;
        }
        UNROLL for (uint i = 0; i < LANES; i++) x[i] = y[i];
    }
}

/* to[j] becomes element `from` + j of min(count, LANES) > 0 runs that lie `run_stride` apart, for LANES neighbours j,
 * with 0 in the lanes beyond. */
static void load_columns(__global floats *to, __global const float *from, int run_stride, uint count) {
    floats x[LANES];
    UNROLL for (uint lane = 0; lane < LANES; lane++) x[lane] =
        lane < count ? LOAD_ANYWHERE(from + (int)lane * run_stride) : (floats)(0.0f);
    transpose(x);
    UNROLL for (uint i = 0; i < LANES; i++) to[i] = x[i];
}

/* Packs `length` rows of a matrix as a strip [length][LANES]; `columns` columns are left, and zeros fill it up. Columns
 * that are contiguous, as in a transpose, are loaded as vectors and transposed; the last rows overlap those before.
 * stride: of rows, of columns. */
static void pack_rows(__global float *packed, __global const float *b, int2 stride, uint length, uint columns) {
    if (stride.s0 == 1 && stride.s1 != 1 && length >= LANES) {
        for (uint i = 0; i < length; i += LANES) {
            const uint at = min(i, length - LANES);
            load_columns((__global floats *)packed + at, b + at, stride.s1, columns);
        }
        return;
    }
    for (uint i = 0; i < length; i++)
        pack_run(packed + i * LANES, b + (int)i * stride.s0, stride.s1, columns);
}
#endif

/* Stores the first min(count, LANES) > 0 lanes `stride` apart. */
static void store_run(floats value, __global float *to, int stride, uint count) {
#if LANES == 1
    *to = value;
#else
    float lane[LANES];
    if (stride == 1 && count >= LANES) {
        STORE_ANYWHERE(value, to);
        return;
    }
    STORE_LANES(value, lane);
    if (stride == 1) {
        COPY_RUN(to, lane, count);
    } else {
        const uint last = min(count, (uint)LANES);
        for (uint i = 0; i < last; i++)
            to[(int)i * stride] = lane[i];
    }
#endif
}

/* Returns the first three coordinates of a row of a rank-4 shape, with rows in row-major order; the fourth is 0. */
static int4 row_position(uint row, uint4 shape) {
    if (row == 0) /* the only row of operands that are one run; divisions cost more than an element */
        return (int4)(0);
    const uint above = row / shape.s2, top = above / shape.s1;
    return (int4)((int)top, (int)(above - top * shape.s1), (int)(row - above * shape.s2), 0);
}

/* Returns the coordinates of an element of a rank-4 shape, in row-major order. */
static int4 element_position(uint element, uint4 shape) {
    const uint row = element / shape.s3;
    int4 position = row_position(row, shape);
    position.s3 = (int)(element - row * shape.s3);
    return position;
}

static int dot_position(int4 position, int4 stride) {
    const int4 product = position * stride;
    return product.s0 + product.s1 + product.s2 + product.s3;
}

/*
 * Runs the body that follows once for each `unit` of this work-item. units: the first one of this launch and the end of
 * all, because the host cuts long launches of GPUs into slices. On GPUs, where neighbouring work-items run at once, the
 * units of one lie the number of work-items apart; on CPUs, which run one after the other, they are neighbours, so that
 * memory is passed through once, and the first one of a launch is 0.
 */
#if LANES == 1
#define FOR_EACH_UNIT(units)                                                                                           \
    for (uint unit = (units).s0 + get_global_id(0); unit < (units).s1; unit += get_global_size(0))
#else
#define UNIT_OF_ITEM(item, units) ((uint)((ulong)(units).s1 * (item) / get_global_size(0)))
#define FOR_EACH_UNIT(units)                                                                                           \
    for (uint unit = UNIT_OF_ITEM(get_global_id(0), units), end_unit_ = UNIT_OF_ITEM(get_global_id(0) + 1, units);     \
         unit < end_unit_; unit++)
#endif

/* The same on GPUs, where a work-group takes the unit. */
#define FOR_EACH_GROUP(unit, units)                                                                                    \
    for (uint unit = (units).s0 + get_group_id(0); unit < (units).s1; unit += get_num_groups(0))

/* The same where a unit is one segment of one run (the last axis) of the shape. In scope: row, and the elements start
 * <= i < end of its run. */
#define FOR_EACH_SEGMENT(shape, segment, units, segments)                                                              \
    FOR_EACH_UNIT(units)                                                                                               \
    for (uint row = unit < (segments) ? 0 : unit / (segments), start = (unit - row * (segments)) * (segment),          \
              end = min(start + (segment), (shape).s3), once = 1;                                                      \
         once; once = 0)

/* A function that a kernel calls twice: with steps of 1, from which the compiler sees that elements lie side by side,
 * and with any others. It is compiled into both calls, because a compiler otherwise makes one of them. */
#define ROW_FUNCTION __attribute__((always_inline)) static

#if LANES > 1
/* DO(i, count) for the runs of LANES elements of a row, from i on. count: LANES, which the compiler sees, and of the
 * last run what the row has left. */
#define FOR_RUNS(n, DO)                                                                                                \
    do {                                                                                                               \
        uint i_ = 0;                                                                                                   \
        for (; i_ + LANES <= (n); i_ += LANES)                                                                         \
            DO(i_, LANES);                                                                                             \
        if (i_ < (n))                                                                                                  \
            DO(i_, (n)-i_);                                                                                            \
    } while (0)
#endif

/* Runs the body that follows for each stretch of rows, of start .. stop - 1, that lie side by side along the last axis
 * but one of the shape: `count` of them from `row` on. */
#define FOR_EACH_STRETCH(start, stop, row, count, shape)                                                               \
    for (uint row = (start), stop_ = (stop), count = 0;                                                                \
         row < stop_ && (count = min(stop_ - row, (shape).s2 - row % (shape).s2), true); row += count)

#endif
