/*
 * `iclab bench` measures how fast a device is, op by op or in whole training steps, in comparison with its peak rates
 * and with the plain C backend.
 *
 * Every case is warmed up first; then device and `cpu` take turns, so that other work of the machine slows both alike,
 * and the median over the turns counts. A turn is a batch of calls with one wait at its end.
 */
#ifndef ICLAB_RUN_BENCH_H
#define ICLAB_RUN_BENCH_H

#include "conformance/case.h"
#include "iclab/backend.h"
#include "iclab/recipe.h"

/* Times of one call, in seconds. */
typedef struct icl_bench_times {
    double median, min, max;    /* over the turns */
    size_t turns, calls_a_turn; /* the numbers that were timed */
} icl_bench_times;

/* An op's share of a call. */
typedef struct icl_bench_op {
    const char *name;
    double calls, launches; /* per call of the case; launches: kernels queued */
    double seconds;         /* per call: in kernels, by the driver's clock; on a host device those of all threads */
    double share;           /* of the seconds of all ops */
} icl_bench_op;

/* One case. Numbers that were not measured are NaN. */
typedef struct icl_bench_row {
    const char *name;            /* the case's name */
    const char *device;          /* the device's spec */
    icl_bench_times times;       /* on the device */
    double compile;              /* seconds by which the first call exceeded the median: mostly compiling */
    double on_device;            /* seconds in kernels, by the driver's clock */
    double gflops, gbytes_per_s; /* from the median and the textbook count of operations and bytes */
    double peak_share;           /* the larger of the two rates' shares of the device's peaks */
    double launches, ops;        /* per call */
    double cpu_median;           /* seconds on the `cpu` backend */
    const icl_bench_op *of_ops;  /* [of_ops_count], the longest first; none without by_op */
    size_t of_ops_count;
} icl_bench_row;

/* Receives a row, which lives during the call. A failure ends the benchmark. */
typedef icl_status icl_bench_callback(void *user, const icl_bench_row *row, icl_error *error);

/* Parameters of a benchmark. */
typedef struct icl_bench_params {
    icl_backend *device;          /* the device to measure */
    icl_backend *cpu;             /* the backend to compare with; NULL: none */
    icl_backend *profiled;        /* the device opened once more, with profiling; NULL: kernels are not timed */
    const char *pattern;          /* a part of the cases' names; NULL: all that are not long */
    const icl_recipe *recipe;     /* the recipe whose training steps are timed; NULL: ops are timed */
    const char *recipe_name;      /* its name in rows */
    bool by_op;                   /* `profiled` is there, and rows say what each op takes */
    double seconds;               /* the most that a case should take; 0: three turns of one call each */
    icl_bench_callback *callback; /* gets the rows */
    void *user;                   /* passed to the calls above */
} icl_bench_params;

/* ICL_ERROR_INPUT if the text is in no case's name. NULL matches every name. */
icl_status icl_bench_check_pattern(const char *pattern, icl_error *error);

/* Calls the callback for each of the device's peaks, then for each case. */
icl_status icl_bench(const icl_bench_params *params, icl_error *error);

/* Sets *calls to the number of calls of the next turn; 0 ends. `seconds` is the time of the last turn; NaN before the
 * first. */
typedef icl_status icl_bench_request(void *user, double seconds, size_t *calls, icl_error *error);

/* Times turns on request, after a warm-up, so that another program can have iclab take turns with its peers: steps of
 * the recipe, or calls of every case whose name holds the pattern. Neither peaks nor other backends are used. */
icl_status icl_bench_on_request(const icl_bench_params *params, icl_bench_request *next, void *user, icl_error *error);

/* ---- Cases, peaks and the clock, for tests ---- */

/* The work of one call of an op, by the textbook. */
typedef struct icl_bench_work {
    double flops; /* NaN if the op does not count them */
    double bytes; /* each operand read or written once; NaN if bytes mean nothing here */
} icl_bench_work;

icl_bench_work icl_bench_work_of(const icl_case *c, size_t element_size);

/* The cases, in a fixed order: one or two shapes an op. Those with `is_long` run only if they are named. */
typedef struct icl_bench_case {
    icl_case c;
    bool is_long;
} icl_bench_case;

icl_status icl_bench_cases_create(icl_bench_case **cases, size_t *count, icl_error *error);

/* Makes and fills the operands of a case; the caller releases them. */
icl_status icl_bench_operands(const icl_case *c, icl_backend *backend, icl_tensor operands[ICL_MAX_OPERANDS],
                              icl_error *error);

/* The best rates of the device, in operations and bytes a second; NaN if unknown. */
typedef struct icl_bench_peaks {
    double flops, bytes;
} icl_bench_peaks;

icl_status icl_bench_measure_peaks(const icl_bench_params *params, icl_bench_peaks *peaks, icl_error *error);

/* A repeatable action: does it `calls` times in a row without waiting; the caller waits. */
typedef icl_status icl_bench_function(void *context, size_t calls, icl_error *error);

typedef struct icl_bench_contender {
    icl_backend *backend; /* NULL: does not take part */
    icl_bench_function *function;
    void *context;
    double first; /* seconds of the first call */
    icl_bench_times times;
} icl_bench_contender;

/* Warms the contenders up, then times them in turn. */
icl_status icl_bench_take_turns(icl_bench_contender *contenders, size_t count, double seconds, icl_error *error);

#endif
