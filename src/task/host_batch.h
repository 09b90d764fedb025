/* Batches that the host draws: families with icl_task_family.draw. */
#ifndef ICLAB_TASK_HOST_BATCH_H
#define ICLAB_TASK_HOST_BATCH_H

#include "iclab/task_family.h"

/* Memory for the numbers of a batch. */
typedef struct icl_host_batch {
    icl_batch_values values; /* point into memory */
    float *memory;           /* [count] */
    size_t count;
} icl_host_batch;

/* Allocates memory for the numbers of this batch. icl_host_batch_destroy cleans up, also after a failure. */
icl_status icl_host_batch_create(const icl_batch *batch, icl_host_batch *host, icl_error *error);
void icl_host_batch_destroy(icl_host_batch *host);

/* Draws the numbers of a step, whatever the memory held. */
icl_status icl_host_batch_draw(const icl_task *task, icl_task_purpose purpose, uint32_t seed, uint64_t step,
                               icl_host_batch *host, icl_error *error);

/* Writes the numbers to the tensors of the batch that the memory was allocated for. */
icl_status icl_host_batch_write(const icl_host_batch *host, const icl_batch *batch, icl_error *error);

#endif
