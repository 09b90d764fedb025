/* Batches of symbols, targets and weights that the host writes: what such families of tasks share. */
#ifndef ICLAB_TASK_SYMBOLS_H
#define ICLAB_TASK_SYMBOLS_H

#include "core/recipe_keys.h"
#include "iclab/task_family.h"

/* task.vocabulary and task.length, for the families that read them. */
extern const icl_recipe_group icl_vocabulary_keys;

/* A batch of B sequences on the host. */
typedef struct icl_symbols {
    float *inputs;            /* [B, T] symbols */
    float *targets, *weights; /* [B, S, c] as icl_loss_target_size has c, and [B, S]: the weights of their losses */
} icl_symbols;

/* Makes inputs, targets and weights of an empty batch, as icl_task_family.batch_create does. */
icl_status icl_symbols_batch_create(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, size_t size,
                                    icl_batch *batch, icl_error *error);

/* Zeros for `size` sequences. icl_symbols_destroy cleans up, also after a failure. */
icl_status icl_symbols_create(const icl_task *task, size_t size, icl_symbols *symbols, icl_error *error);
void icl_symbols_destroy(icl_symbols *symbols);

/* To the device. */
icl_status icl_symbols_write(const icl_symbols *symbols, icl_batch *batch, icl_error *error);

#endif
