/*
 * Sums and maxima over the elements of a row: on CPUs of one work-item with a row of its own, on GPUs of a team of
 * neighbours in a work-group of GROUP, each of which takes every team-th element. A term of a sum passes
 * through at most 48 + n / 256 additions.
 */
#ifndef ICL_ROWS_H
#define ICL_ROWS_H

#include "common.h"

#if LANES > 1

/* Keeps the lanes of elements that exist; the others become 0. */
static floats existing(floats x, uint count) {
    return count >= LANES ? x : select((floats)(0.0f), x, LANE_NUMBERS < (uints)(count));
}

static float add_lanes(floats x) {
#if LANES == 16
    const float8 eight = x.lo + x.hi;
    const float4 four = eight.lo + eight.hi;
#elif LANES == 8
    const float4 four = x.lo + x.hi;
#else
    const float4 four = x;
#endif
    const float2 two = four.lo + four.hi;
    return two.s0 + two.s1;
}

/* sum = that of TERM(i, count) over the runs of LANES elements from i on, four at a time, ROUNDS times; then these
 * sums. count: LANES, which the compiler sees, and of the last run what the row has left. */
#define ROUNDS 32
#define SUM_ROW(sum, n, TERM)                                                                                          \
    do {                                                                                                               \
        floats total_ = (floats)(0.0f);                                                                                \
        for (uint i_ = 0; i_ < (n);) {                                                                                 \
            const uint stop_ = min((uint)(n), i_ + ROUNDS * 4 * LANES);                                                \
            floats s0_ = (floats)(0.0f), s1_ = s0_, s2_ = s0_, s3_ = s0_;                                              \
            for (; i_ + 4 * LANES <= stop_; i_ += 4 * LANES) {                                                         \
                s0_ += TERM(i_, LANES);                                                                                \
                s1_ += TERM(i_ + LANES, LANES);                                                                        \
                s2_ += TERM(i_ + 2 * LANES, LANES);                                                                    \
                s3_ += TERM(i_ + 3 * LANES, LANES);                                                                    \
            }                                                                                                          \
            for (; i_ + LANES <= stop_; i_ += LANES)                                                                   \
                s0_ += TERM(i_, LANES);                                                                                \
            if (i_ < stop_) {                                                                                          \
                s0_ += TERM(i_, stop_ - i_);                                                                           \
                i_ = stop_;                                                                                            \
            }                                                                                                          \
            total_ += (s0_ + s1_) + (s2_ + s3_);                                                                       \
        }                                                                                                              \
        (sum) = add_lanes(total_);                                                                                     \
    } while (0)

/* max = the largest of VALUE(i), as SUM_ROW has TERM(i), whose lanes beyond the row hold some element; `first` is one.
 * NaN is passed over. */
#define MAX_ROW(largest, n, first, VALUE)                                                                              \
    do {                                                                                                               \
        floats most_ = (floats)(first);                                                                                \
        for (uint i_ = 0; i_ < (n); i_ += LANES)                                                                       \
            most_ = fmax(most_, VALUE(i_));                                                                            \
        float lane_[LANES];                                                                                            \
        STORE_LANES(most_, lane_);                                                                                     \
        for (uint half_ = LANES / 2; half_ > 0; half_ /= 2)                                                            \
            for (uint l_ = 0; l_ < half_; l_++)                                                                        \
                lane_[l_] = fmax(lane_[l_], lane_[l_ + half_]);                                                        \
        (largest) = lane_[0];                                                                                          \
    } while (0)

#else

#define GROUP  64
#define ROUNDS 32

/* Combines the values of a team by JOIN, for all of its members; the work-item is member `member`. */
#define TEAM(name, JOIN)                                                                                               \
    static float name(__local float *sums, uint member, uint team, float value) {                                      \
        const uint id = get_local_id(0);                                                                               \
        sums[id] = value;                                                                                              \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                  \
        for (uint half_ = team / 2; half_ > 0; half_ /= 2) {                                                           \
            if (member < half_)                                                                                        \
                sums[id] = JOIN(sums[id], sums[id + half_]);                                                           \
            barrier(CLK_LOCAL_MEM_FENCE);                                                                              \
        }                                                                                                              \
        const float joined = sums[id - member];                                                                        \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                  \
        return joined;                                                                                                 \
    }
#define SUM_OF_TWO(a, b) ((a) + (b))
TEAM(add_team, SUM_OF_TWO)
TEAM(largest_of_team, fmax)

/* sum = that of TERM(i) over the team's elements: each member's ROUNDS at a time, then these sums, then the members. */
#define SUM_ROW(sum, n, TERM)                                                                                          \
    do {                                                                                                               \
        float total_ = 0.0f;                                                                                           \
        for (uint i_ = member; i_ < (n);) {                                                                            \
            float some_ = 0.0f;                                                                                        \
            for (uint round_ = 0; round_ < ROUNDS && i_ < (n); round_++, i_ += team)                                   \
                some_ += TERM(i_);                                                                                     \
            total_ += some_;                                                                                           \
        }                                                                                                              \
        (sum) = add_team(local_sums, member, team, total_);                                                            \
    } while (0)

#endif
#endif
