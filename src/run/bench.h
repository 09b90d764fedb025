/* Inside the benchmark: its cases, what a call does by the textbook, the device's peaks, and
 * contenders that take turns. */
#ifndef ICLAB_RUN_BENCH_H
#define ICLAB_RUN_BENCH_H

#include "conformance/case.h"
#include "iclab/bench.h"

/* What one call of an op does, by the textbook. */
typedef struct icl_bench_work {
    double flops; /* NaN where nobody counts them */
    double bytes; /* each operand read or written once; NaN where it means nothing */
} icl_bench_work;

icl_bench_work icl_bench_work_of(const icl_case *c, size_t element_size);

/* The cases, in a fixed order: one or two shapes an op. Those with `is_long` run only where they are named. */
typedef struct icl_bench_case {
    icl_case c;
    bool is_long;
} icl_bench_case;

icl_status icl_bench_cases_create(icl_bench_case **cases, size_t *count, icl_error *error);

/* Makes and fills the operands of a case; the caller releases them. */
icl_status icl_bench_operands(const icl_case *c, icl_backend *backend, icl_tensor operands[ICL_MAX_OPERANDS],
                              icl_error *error);

/* What the device can do at best, in operations and bytes a second; NaN where it is not known. */
typedef struct icl_bench_peaks {
    double flops, bytes;
} icl_bench_peaks;

icl_status icl_bench_measure_peaks(const icl_bench_params *params, icl_bench_peaks *peaks, icl_error *error);

/* Something that can be done again and again. `calls` in a row, without waiting; the caller waits. */
typedef icl_status icl_bench_function(void *context, size_t calls, icl_error *error);

typedef struct icl_bench_contender {
    icl_backend *backend; /* NULL: does not take part */
    icl_bench_function *function;
    void *context;
    double first; /* seconds of the first call */
    icl_bench_times times;
} icl_bench_contender;

/* Warms up, then lets them take turns. */
icl_status icl_bench_take_turns(icl_bench_contender *contenders, size_t count, double seconds, icl_error *error);

#endif
