/* What the kernels of short convolutions and of sums of rows are told. */
#ifndef ICLAB_BACKEND_CPU_SEQUENCE_H
#define ICLAB_BACKEND_CPU_SEQUENCE_H

#include <stddef.h>

#include "arithmetic/real.h"

/* Rows to be added up: row i begins `offsets[i]` elements behind `from`, or i * row_stride where there are no offsets;
 * its elements lie `step` apart. */
typedef struct HOST(row_list) {
    const real *from;
    const size_t *offsets;
    size_t row_stride, step, count;
} HOST(row_list);

/* Neighbouring tokens of one sequence: `tokens` of them, `before` more of the same sequence in front. Tokens lie
 * `..._time` elements apart, backwards in time where it is negative, channels `..._step`. */
typedef struct HOST(token_block) {
    real *out;      /* at the first token; of sums over tokens the second factor, which is read */
    const real *in; /* at the first token */
    ptrdiff_t out_time, in_time;
    size_t out_step, in_step;
    size_t tokens, before, width, channels;
} HOST(token_block);

#endif
