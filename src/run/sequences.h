/* Evaluation sequences, a chunk at a time: sampled on the device, predicted by a model there and by reference
 * predictors on the host. */
#ifndef ICLAB_RUN_SEQUENCES_H
#define ICLAB_RUN_SEQUENCES_H

#include "iclab/baseline.h"
#include "iclab/status.h"
#include "iclab/train.h"

/* Evaluation during training starts its chunks here, so that it never sees the final table's sequences. */
#define ICL_FIRST_CHUNK_IN_TRAINING ((uint64_t)1 << 40)

typedef struct icl_sequences {
    icl_backend *backend;
    const icl_task *task;
    uint32_t seed;
    /* Sequences in a chunk: a function of the shape alone, so that every device evaluates the same ones. */
    size_t chunk;
    icl_batch batch;
    bool decodes; /* the model predicts position by position; false from icl_sequences_create */

    /* Of the chunk at hand, on the host: [chunk][T][p], [chunk], [chunk][S][c], [chunk][S] and [chunk][S][q]. noise
     * is 0 for tasks without, weights NULL where all are 1. */
    float *inputs, *noise, *targets, *weights, *model;
} icl_sequences;

icl_status icl_sequences_create(icl_backend *backend, const icl_task *task, uint32_t seed, icl_sequences *sequences,
                                icl_error *error);
void icl_sequences_release(icl_sequences *sequences);

/* The bytes that they take on the host. */
double icl_sequences_bytes(const icl_sequences *sequences);

/* Draws one chunk. */
icl_status icl_sequences_sample(icl_sequences *sequences, uint64_t chunk, icl_error *error);

/* Targets and, where there are reference predictors (not NULL), what these see, to the host. Predictions for the
 * first `count` sequences of the chunk at hand: the model's into sequences->model, the reference predictors' into
 * predictions [count][S][number of predictors]. */
icl_status icl_sequences_predict(icl_sequences *sequences, icl_trainer *trainer, icl_error *error);
icl_status icl_sequences_refer(icl_sequences *sequences, const icl_predictors *predictors, size_t count,
                               double *predictions, icl_error *error);

#endif
