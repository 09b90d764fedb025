/* Runs every op of a backend on shapes large enough to be shared out among threads, and gathers what they wrote. */
#ifndef ICLAB_TESTS_EVERY_OP_H
#define ICLAB_TESTS_EVERY_OP_H

#include "conformance/case.h"

typedef struct op_result {
    char name[96];
    bool fuses;     /* products and sums, where the instruction set can */
    double *values; /* freed with free_results */
    size_t count;
} op_result;

#define MAX_RESULTS 600

typedef struct op_results {
    op_result result[MAX_RESULTS];
    size_t count;
} op_results;

/* The same inputs, bit for bit, on every backend. */
icl_status run_every_op(icl_backend *backend, op_results *results, icl_error *error);
void free_results(op_results *results);

#endif
