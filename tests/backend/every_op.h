/* Runs every op of a backend on shapes large enough to be shared out among threads, and collects the outputs. */
#ifndef ICLAB_TESTS_EVERY_OP_H
#define ICLAB_TESTS_EVERY_OP_H

#include "conformance/case.h"

typedef struct op_result {
    char name[96];
    bool fuses;     /* fuses products with sums, if the instruction set can */
    double *values; /* freed with free_results */
    size_t count;
} op_result;

#define MAX_RESULTS 600

typedef struct op_results {
    op_result result[MAX_RESULTS];
    size_t count;
} op_results;

/* The inputs are the same on every backend, bit for bit. */
icl_status run_every_op(icl_backend *backend, op_results *results, icl_error *error);
void free_results(op_results *results);

#endif
