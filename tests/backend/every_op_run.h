/* Inside every_op: the tensors and results of a run. */
#ifndef ICLAB_TESTS_EVERY_OP_RUN_H
#define ICLAB_TESTS_EVERY_OP_RUN_H

#include "every_op.h"
#include "iclab/status.h"

#define MAX_TENSORS 96

typedef struct run {
    icl_backend *backend;
    op_results *results;
    icl_tensor made[MAX_TENSORS];
    size_t made_count;
    uint32_t stream;
    icl_error *error;
} run;

/* A tensor that a run needs. */
typedef struct wanted {
    icl_tensor *tensor;
    int rank;
    size_t shape[ICL_MAX_RANK];
} wanted;

/* A result and what its line says behind the title. */
typedef struct named {
    const char *name;
    icl_tensor tensor;
} named;

/* The run owns what it makes until release_all. Inputs are normals, the same ones whenever the calls come in the same
 * order. */
icl_status make(run *r, int rank, const size_t *shape, icl_tensor *tensor);
icl_status make_all(run *r, const wanted *all, size_t count);
icl_status make_input(run *r, int rank, const size_t *shape, icl_tensor *tensor);
icl_status make_inputs(run *r, const wanted *all, size_t count);
void release_all(run *r);

/* Keeps the values of one tensor, and of all that one call wrote. */
icl_status keep(run *r, icl_tensor tensor, const char *format, ...) ICL_PRINTF(3, 4);
icl_status keep_all(run *r, const char *title, const named *all, size_t count);

/* The ops of sequence models: normalization, the recurrence, tokens, cross-entropy. */
icl_status run_sequence_ops(run *r);

#endif
